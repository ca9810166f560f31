"""Settings of a server, in the engines' own words: one optional object, `serving={"max_num_seqs": 64}`.

It is read from a JSON object, the text of one, or the flags of a server's command (`--max-num-seqs 64`). A setting that is left out is the
engine's default. Which engine has which setting, and its flag, are rows of `lib.engines`.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args

from lib.engines import TRAITS, Engine, traits_of
from lib.engines.traits import Setting
from lib.errors import BadArgument
from lib.precision import KV_NAMES
from lib.request import types as asked
from lib.request.checks import describe_value
from lib.request.fields import Argument, Checked, Request, list_arguments, number, whole_number

MOST_SEQUENCES = 65_536
MOST_BATCHED_TOKENS = 1_048_576
MAX_PARALLEL = 1_024
MOST_CACHE_BYTES = 10**12
MAX_LENGTH = 2_000
"""Characters of the settings as text."""
SETTINGS: tuple[Setting, ...] = get_args(Setting)
Value = TypeVar("Value")


def _check_cache(name: str, value: object) -> str:
    """Check a cache format as `kv_precision` is checked; an error names this setting."""
    try:
        return asked.CACHE_CHECK.check("kv_precision", value)  # type: ignore[no-any-return]
    except BadArgument:
        raise BadArgument(name, describe_value(value), f"{', '.join(KV_NAMES)}, or an engine's word for one of them") from None


_CACHE = replace(asked.CACHE_CHECK, check=_check_cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Request):
    """Settings of a server; None leaves a setting to the engine."""

    gpu_memory_utilization: Annotated[float | None, number(0.01, 1)] = None
    """Share of each card that the engine may use (SGLang: mem_fraction_static; TensorRT-LLM: of the memory that the model leaves)."""
    max_model_len: Annotated[int | None, whole_number(1, asked.MAX_TOKENS)] = None
    """Tokens of the longest request, prompt and answer together. The server starts only if its cache holds one such request."""
    max_num_seqs: Annotated[int | None, whole_number(1, MOST_SEQUENCES)] = None
    """Most requests that each copy of the model runs at once; others wait in the queue."""
    max_num_batched_tokens: Annotated[int | None, whole_number(1, MOST_BATCHED_TOKENS)] = None
    """Most tokens of one step. More tokens take more memory for activations."""
    kv_cache_dtype: Annotated[str | None, _CACHE] = None
    """Number format of the KV cache; the same as the argument kv_precision."""
    prefix_share: Annotated[float | None, number(0, 1)] = None
    """Share of each prompt, 0 to 1, that is a prefix of all prompts. It is computed once and stored once in the cache."""
    cuda_graphs: Annotated[bool | None, asked.FLAG_CHECK] = None
    """false: no CUDA graphs (--enforce-eager), which frees their memory; every kernel of a step is then launched one by one."""
    tensor_parallel: Annotated[int | None, whole_number(1, MAX_PARALLEL)] = None
    """Cards that split every layer."""
    pipeline_parallel: Annotated[int | None, whole_number(1, MAX_PARALLEL)] = None
    """Groups of cards that hold layers in turn."""
    data_parallel: Annotated[int | None, whole_number(1, MAX_PARALLEL)] = None
    """Copies of the model on the machine, each on cards of its own."""
    gpu_layers: Annotated[int | None, whole_number(-1, asked.MAX_GPU_LAYERS)] = None
    """llama.cpp -ngl: layers on the GPU; the same as the argument gpu_layers."""
    cpu_moe_layers: Annotated[int | None, whole_number(0, asked.MAX_GPU_LAYERS)] = None
    """llama.cpp --n-cpu-moe: layers, from the first, whose routed experts stay in the host's memory."""
    ctx_size: Annotated[int | None, whole_number(1, asked.MAX_TOKENS)] = None
    """llama.cpp -c: tokens of the cache, which all parallel requests share."""
    parallel: Annotated[int | None, whole_number(1, MOST_SEQUENCES)] = None
    """llama.cpp -np: requests at once, each with an equal part of ctx_size."""
    kv_cache_memory_bytes: Annotated[int | None, whole_number(1, MOST_CACHE_BYTES)] = None
    """vLLM --kv-cache-memory-bytes: bytes of the KV cache on each card. With it the server ignores gpu_memory_utilization."""

    @property
    def stated(self) -> dict[Setting, Any]:
        """The settings that are not left to the engine."""
        return {cast("Setting", field.name): value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    @property
    def devices(self) -> int:
        """Cards that the stated parallel settings take together; 1 if none is stated."""
        return (self.tensor_parallel or 1) * (self.pipeline_parallel or 1) * (self.data_parallel or 1)

    @property
    def sets_devices(self) -> bool:
        """Whether it states on how many cards the model runs."""
        return any(value is not None for value in (self.tensor_parallel, self.pipeline_parallel, self.data_parallel))

    @property
    def uses_host(self) -> bool:
        """Whether the CPU computes some layers or experts."""
        return (self.gpu_layers is not None and self.gpu_layers >= 0) or bool(self.cpu_moe_layers)

    @property
    def sequences(self) -> int | None:
        """Most requests that one copy runs at once; None if neither setting is stated."""
        return self.max_num_seqs or self.parallel

    def longest_tokens(self, requests: int) -> int | None:
        """Tokens of the longest request that the server takes; if `parallel` is not stated, `requests` requests share ctx_size."""
        limit = self.limit_tokens(requests)
        return None if limit is None else limit[1]

    def limit_tokens(self, requests: int) -> tuple[Setting, int] | None:
        """The setting that bounds the length of a request, and this length; None if no setting does."""
        if self.max_model_len:
            return "max_model_len", self.max_model_len
        return None if self.ctx_size is None else ("ctx_size", max(1, self.ctx_size // (self.parallel or requests)))

    def limit_sequences(self, tokens: int) -> tuple[Setting, int] | None:
        """The setting that bounds the requests of `tokens` tokens that one copy runs at once, and their number; None if no setting does."""
        if self.max_num_seqs:
            return "max_num_seqs", self.max_num_seqs
        if self.parallel:
            return "parallel", self.parallel
        return None if self.ctx_size is None else ("ctx_size", self.ctx_size // tokens)

    def shared_tokens(self, prompt_tokens: int) -> int:
        """Tokens of a prompt that the prefix cache already holds; at least one token is always computed."""
        return min(int((self.prefix_share or 0.0) * prompt_tokens), max(0, prompt_tokens - 1))


DEFAULTS = Serving()


@cache
def _arguments() -> Mapping[str, Argument]:
    return list_arguments(Serving)


def check_serving(name: str, value: object) -> Serving:
    """The settings of an object, its text, or the flags of a command.

    Raises:
        BadArgument: an unknown setting, with the nearest name; or a value that its setting does not accept.
    """
    if isinstance(value, Serving):
        return value
    if isinstance(value, str):
        value = _read_text(name, value)
    if not isinstance(value, dict):
        raise BadArgument(name, describe_value(value), f'an object of settings such as {{"max_num_seqs": 64}}, of {", ".join(SETTINGS)}')
    read: dict[str, Any] = {}
    for key, one in value.items():
        if key not in SETTINGS:
            raise BadArgument(name, f"an object with {describe_value(key)[:60]}", _accepted(key))
        if one is not None:
            read[key] = _arguments()[key].check.check(f"{name}.{key}", one)
    serving = Serving(**read)
    budget, sequences = serving.max_num_batched_tokens, serving.max_num_seqs
    if budget is not None and sequences is not None and budget < sequences:
        raise BadArgument(f"{name}.max_num_batched_tokens", budget, f"at least max_num_seqs ({sequences:,}): each takes a token of a step")
    return DEFAULTS if serving == DEFAULTS else serving


def _accepted(key: object) -> str:
    names = ", ".join(SETTINGS)
    if not isinstance(key, str):
        return names
    flag = _flag_settings().get(_fold(key))
    near = [flag] if flag else difflib.get_close_matches(_fold(key), SETTINGS, n=1, cutoff=0.5)
    return names + (f"; the nearest: {near[0]}" if near else "")


def _read_text(name: str, text: str) -> object:
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise BadArgument(name, f"a text of {len(text):,} characters", f"at most {MAX_LENGTH:,}")
    if not text:
        return {}
    if text.startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BadArgument(name, text, 'a JSON object such as {"max_num_seqs": 64}') from None
    try:
        words = shlex.split(text.replace("=", " "))
    except ValueError:
        raise BadArgument(name, text, "flags such as --max-num-seqs 64, with every quotation mark closed") from None
    found: dict[str, Any] = {}
    for flag, values in _group_flags(words):
        setting = _flag_settings().get(_fold(flag)) if flag.startswith("-") else None
        if setting is None:
            raise BadArgument(name, flag, f"flags of a server such as --max-num-seqs 64, for {_accepted(flag)}")
        if setting == "cuda_graphs":
            found[setting] = _read_graphs(flag, values)
        elif len(values) == 1:
            found[setting] = _read_value(values[0], suffixed=_takes_suffix(flag))
        else:
            seen = f"{flag} {' '.join(values)}" if values else f"{flag} without a value"
            raise BadArgument(name, seen, f"one value after {flag}, such as --max-num-seqs 64")
    return found


def _fold(flag: str) -> str:
    """A flag as a name: without its dashes, with underscores."""
    return flag[:100].lstrip("-").replace("-", "_").casefold()


@cache
def _flag_settings(engine: str = "") -> Mapping[str, Setting]:
    """The setting of each flag, of one engine or ("") of all engines. The names of settings count as flags too."""
    rows = [traits_of(engine)] if engine else list(TRAITS.values())
    found: dict[str, Setting] = {}
    for command in (row.command for row in rows if row.command is not None):
        for setting, words in command.settings.items():
            found |= {_fold(flag): setting for flag in re.findall(r"(?:^| )(--?[\w-]+)", words)}
        found |= {_fold(flag): setting for flag, setting in command.other_names.items()}
    return found | {setting: setting for setting in SETTINGS}


def _group_flags(words: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Each flag of a command with the words after it; a negative number is a value. A word before the first flag has no values."""
    groups: list[tuple[str, list[str]]] = []
    for word in words:
        if not groups or (word.startswith("-") and not re.fullmatch(r"-\d[\d.]*", word)):
            groups.append((word, []))
        else:
            groups[-1][1].append(word)
    return groups


def _read_graphs(flag: str, values: Sequence[str]) -> bool:
    """Whether CUDA graphs are on. TGI's `--cuda-graphs` lists the recorded batch sizes, 0 for none; other flags switch them off."""
    if _fold(flag) == "cuda_graphs":
        return any(value.casefold() not in {"0", "false"} for value in values)
    return [value.casefold() for value in values] == ["false"]


_SUFFIXED = re.compile(r"(\d{1,12})(?:(\.\d{1,12})?([kmgt])|([KMGT]))")
_POWERS = "kmgt"


def _suffixed(engine: str) -> frozenset[Setting]:
    """The settings whose flags take a number with a suffix."""
    command = traits_of(engine).command
    return frozenset() if command is None else command.suffixed


def _takes_suffix(flag: str) -> bool:
    """Whether an engine has this flag and takes a number with a suffix there."""
    return any(_flag_settings(engine).get(_fold(flag)) in _suffixed(engine) for engine in TRAITS)


def _read_value(word: str, *, suffixed: bool = False) -> Any:
    """A number of a flag, else its word. Small suffixes count in thousands, large ones in 1,024, and take no fraction (as in vLLM)."""
    if suffixed and (match := _SUFFIXED.fullmatch(word)):
        whole, fraction, thousands, binary = match.groups()
        if binary:
            return int(whole) * 1024 ** (_POWERS.index(binary.casefold()) + 1)
        return int(Decimal(whole + (fraction or "")) * 1000 ** (_POWERS.index(thousands) + 1))
    if re.fullmatch(r"-?\d{1,12}", word):
        return int(word)
    return float(word) if re.fullmatch(r"\d{0,12}\.\d{1,12}", word) else word


def read_flags(engine: str, flags: Mapping[str, str]) -> Serving:
    """The settings among flags found in a text. Flags that the engine lacks and values that it does not accept are ignored."""
    known, read = _flag_settings(engine), dict[str, Any]()
    for flag, text in flags.items():
        setting = known.get(_fold(flag))
        if setting is None or setting not in traits_of(engine).settings:
            continue
        value = _read_graphs(flag, text.split()) if setting == "cuda_graphs" else _read_value(text, suffixed=setting in _suffixed(engine))
        try:
            read[setting] = _arguments()[setting].check.check(f"serving.{setting}", value)
        except BadArgument:
            continue
    return Serving(**read) if read else DEFAULTS


def check_settings(engine: Engine, serving: Serving) -> None:
    """Reject settings that the engine does not have.

    Raises:
        BadArgument: names the first such setting and its alternative.
    """
    if serving is DEFAULTS:
        return
    row = traits_of(engine)
    for setting, value in serving.stated.items():
        if setting not in row.settings:
            instead = f": {row.instead[setting]}" if setting in row.instead else ""
            able = [name for name, other in TRAITS.items() if setting in other.settings]
            others = "" if instead or not able else f"; {', '.join(able)} {'has' if len(able) == 1 else 'have'} it"
            raise BadArgument(f"serving.{setting}", describe_value(value), f"nothing, because {engine} has no {setting}{instead}{others}")
    formats = _cache_formats(engine)
    if serving.kv_cache_dtype not in {None, *formats}:
        raise BadArgument("serving.kv_cache_dtype", serving.kv_cache_dtype, f"{', '.join(formats)} with {engine}")


def _cache_formats(engine: str) -> tuple[str, ...]:
    command = traits_of(engine).command
    return (asked.AUTO,) if command is None else tuple(dict.fromkeys((asked.AUTO, *command.cache_words)))


def has_settings(engine: str, serving: Serving) -> bool:
    """Whether the engine has every stated setting, and the format of the cache."""
    if serving is DEFAULTS:
        return True
    return traits_of(engine).settings >= serving.stated.keys() and serving.kv_cache_dtype in {None, *_cache_formats(engine)}


def merge_setting(argument: str, value: Value, default: Value, setting: Setting, stated: Value | None) -> Value:
    """Merge an argument and a setting with the same meaning: the stated one counts.

    Raises:
        BadArgument: both are stated and differ.
    """
    if stated is None or stated == value:
        return value
    if value != default:
        accepted = f"{describe_value(stated)}, as serving.{setting} says; or state one of the two"
        raise BadArgument(argument, describe_value(value), accepted)
    return stated


def keep_experts_in_host(serving: Serving, layers: int) -> Serving:
    """The settings with the routed experts of this many layers in the host's memory; 0 changes nothing."""
    return replace(serving, cpu_moe_layers=layers) if layers else serving


def drop_settings(serving: Serving, *settings: Setting) -> Serving:
    """The settings without some of them."""
    without = replace(serving, **dict.fromkeys(settings))
    return DEFAULTS if without == DEFAULTS else without


def _properties() -> dict[str, Any]:
    return {name: argument.check.schema() | {"description": argument.help} for name, argument in _arguments().items()}


ServingSettings = Annotated[
    Serving,
    Checked(
        check_serving,
        dict[str, Any],
        f"Settings of the server, an object with any of {', '.join(SETTINGS)}. If a setting and an argument mean the same, the "
        "stated one counts; two different stated values are rejected.",
        write=lambda serving: serving.stated,
        properties=_properties,
    ),
]
"""The argument `serving`."""
