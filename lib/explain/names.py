"""Finds the models, hardware and flags that a text names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from lib.engines import ENGINES, traits_of
from lib.explain.text import mask_secrets

_MOST = 6
_OWNER = r"[A-Za-z0-9][\w.-]{1,38}"
_NAME = r"[A-Za-z0-9][\w.-]{1,80}"
_BEFORE_MODEL = (
    r"--model(?:-path|-id|_id|_name_or_path)?[= ]", "vllm serve ", r"model(?:_id|_path|_name|_name_or_path)?['\"]?[=:] ?",
    r"from_pretrained\(", r"pipeline\([^)]{0,60}model=", "-hf ", r"huggingface\.co/(?:api/|hf-inference/)?models/",
    r"(?<![\w.-])huggingface\.co/",
)  # fmt: skip
"""Words that precede the id of a model."""
_MODELS = (re.compile(rf"(?:{'|'.join(_BEFORE_MODEL)})['\"(]{{0,3}}({_OWNER}/{_NAME})"),)
_NOT_MODELS = frozenset((
    "api", "docs", "spaces", "datasets", "settings", "subscribe", "blog", "models", "home", "usr", "tmp", "root", "app", "data",
    "mnt", "opt", "jobs", "v1", "join", "pricing", "collections", "papers", "organizations", "enterprise", "learn", "posts", "chat",
    "tasks", "login", "oauth", "buckets",
))  # fmt: skip
_CARDS = re.compile(
    r"(?:RTX PRO \d000(?: Blackwell)?(?: (?:Server|Workstation)(?: Edition)?)?|RTX A?\d{4}(?: ?Ti)?(?: ?SUPER)?(?: Ada(?: Generation)?)?"
    r"|GTX \d{4}(?: ?Ti)?|(?:NVIDIA|Tesla) (?:T4|L40S?|L4|L20|A100|A10G?|A40|H100|H200|H20|B200|B300|P100|V100|P40)"
    r"(?:[- ](?:SXM\d?|PCIE|PCIe|NVL))?(?:[- ]\d{2,3} ?GB)?|MI(?:250X?|300X|325X|355X)"
    r"|TPU v(?:5e|5p|6e|2|3|4)|v(?:5e|5p|6e|5litepod)-\d{1,3})(?:\b|(?=[x×*]\d)|(?=s\b))"
)
_COUNT = (
    r"(?=\d{{1,2}}(?: ?[x×*]| ))(?<![\w.|#:-])"
    r"(?<![Gg][Pp][Uu] )(?<!\| )(?<![Rr]ank )(?<!evice )(?<!orker )(?<!step )(?<!Step )(?P<{}>\d{{1,2}})(?: ?[x×*] ?| )"
)
"""A count before a card's name. Indices of cards in tables and lists, of processes and of steps are excluded."""
_COUNT_BEFORE = re.compile(rf"{_COUNT.format('count')}\Z|(?<![\w.])(?P<times>\d{{1,2}}) ?[x×*] ?(?:(?:NVIDIA|GeForce|Tesla|AMD) ){{1,2}}\Z")
_COUNT_AFTER = re.compile(r"(?: \d{2,3} ?GB?)?(?: HBM\de?)?(?: GPUs?)? ?\(?[x×*] ?(\d{1,2})(?![\w.])")
_WORDS = {"two": "2", "dual": "2", "three": "3", "four": "4", "quad": "4", "six": "6", "eight": "8"}
_WORD_COUNT = re.compile(
    rf"(?i)(?<![\w-])({'|'.join(_WORDS)})(?:[- ]){{1,2}}(?=(?:NVIDIA |GeForce |Tesla |AMD ){{0,2}}(?:[GR]TX|MI\d|[ABHLTV]\d))"
)
"""A number in words before a card."""
_CHIP = r"(?i:A100|A10G|A10|A40|B200|B300|H100|H200|H20|L40S|L40|L4|L20|T4|V100|P100|P40)"
_FORM, _SIZE = r"(?:[- ](?:SXM\d?|PCIE|PCIe|NVL))?", r"[- ]\d{2,3} ?[Gg][Bb]?"
_SHORT_CARDS = re.compile(
    rf"(?=[\dABHLPTVOWabhlptvow])(?:{_COUNT.format('before')}(?P<counted>{_CHIP}{_FORM}(?:{_SIZE})?)|(?<![\w./-])(?P<sized>{_CHIP}{_FORM}{_SIZE})"
    rf"|(?<![\w./-])(?P<followed>{_CHIP}{_FORM}(?:{_SIZE})?)(?= ?[x×*] ?\d)"
    rf"|(?<![\w-])(?:[Oo]n|[Ww]ith)(?: an?| one| a single)? (?P<placed>{_CHIP}{_FORM}))(?:\b|(?=[x×*]\d)|(?=s\b))"
)
"""Cards without the maker's name. Such a word counts as a card only with a number of cards or a memory size next to it, or after "on"."""
_PAIR = re.compile(rf"(?<![\w./:@-])({_OWNER}/{_NAME})(?![\w/])")
_TAG = re.compile(r"(?<![\w/.:-])([a-z][a-z0-9.-]{1,40}:\d{1,3}(?:\.\d{1,2})?b)(?!\w)")
_BARE = re.compile(r"(?<![\w.:@-])([A-Za-z][\w.]{1,38}(?:-[\w.]{1,24}){1,8})(?![\w-])")
_SIZED = re.compile(
    r"(?<![\w.,:/-])(?!0+(?:\.0+)?[bB])(\d{1,4}(?:\.\d{1,2})?[bB])"
    r"(?![\w.-])(?: (?:model )?([A-Za-z]{2,4}-?\d{0,2})(?!\w))?"
)
_MOST_PAIRS, _MOST_BARE = 400, 2_000
"""Pairs of words (and printed names of cards), and words with a hyphen, that are looked at."""
_FLAG_NAMES = (
    "gpu_memory_utilization max_model_len max_num_seqs max_num_batched_tokens tensor_parallel_size tp_size pipeline_parallel_size "
    "data_parallel_size kv_cache_dtype quantization dtype mem_fraction_static num_shard max_batch_prefill_tokens max_batch_total_tokens "
    "max_input_tokens max_input_length max_total_tokens ctx_size n_gpu_layers load_in_4bit load_in_8bit torch_dtype enforce_eager "
    "max_running_requests chunked_prefill_size cuda_memory_fraction kv_cache_free_gpu_memory_fraction kv_cache_memory_bytes "
    "per_device_train_batch_size train_batch_size max_seq_length max_seq_len cutoff_len max_length max_len "
    "num_generations max_completion_length gradient_accumulation_steps cpu_offload_gb attn_implementation pp_size dp_size"
)
_FLAG_VALUES = (
    r"\d[\d.]{0,11}[kKmMgGtT]?", "auto", "half", r"b?float\d{1,2}", r"u?int\d", r"fp\d\w{0,8}", r"awq\w{0,10}", r"gptq\w{0,10}",
    "bitsandbytes",
    "tpu_int8", "experts_int8", "compressed-tensors", r"modelopt\w{0,4}", "torchao", r"w\da\d{1,2}",
    r"flash_attention_\d", "sdpa", "eager", "True", "False",
)  # fmt: skip
_FLAGS = re.compile(
    rf"({'|'.join(_FLAG_NAMES.replace('_', '[-_]').split())})['\"]?[= :]{{1,3}}['\"]?(?:torch\.)?({'|'.join(_FLAG_VALUES)})\b"
)
_SUGGESTED = re.compile(r"(?:for example|e\.g\.|[Tt]ry setting|you can set|need to set)[^\n]{0,24}\Z")
"""Words of a message before a setting that it proposes."""
_SHORT_FLAG = re.compile(r"(?<![\w-])--?([a-z]{2})[= ]{1,2}(\d{1,3})\b")


@cache
def _short_flags() -> Mapping[str, str]:
    """Long names of the servers' two-letter flags for numbers of cards ("-tp")."""
    pairs = (pair for engine in ENGINES if (command := traits_of(engine).command) is not None for pair in command.other_names.items())
    return {flag.lstrip("-"): f"{setting}_size" for flag, setting in pairs if setting.endswith("_parallel") and len(flag.lstrip("-")) == 2}  # noqa: PLR2004


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Names in a text."""

    models: tuple[str, ...] = ()
    """Ids of models, in the order of the text."""
    mentioned: tuple[str, ...] = ()
    """The first pairs `word/word`, which may be ids of models or paths."""
    bare: tuple[str, ...] = ()
    """Words with a hyphen, which may be names of models without their owners, the first ones."""
    sizes: tuple[tuple[str, str], ...] = ()
    """Sizes of models ("70B"), each with the word after it, which may be a number format."""
    tags: tuple[str, ...] = ()
    """Models with a size, as Ollama names them ("gpt-oss:20b")."""
    cards: tuple[str, ...] = ()
    """Cards as they are printed."""
    card_count: int = 0
    """The largest count next to a card's name ("8x NVIDIA H100"); 0 without one."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Settings of a server, the last value of each, with underscores in their names."""


def find_names(text: str) -> Named:
    """The models, cards and flags of a text, whose secrets are masked."""
    models: dict[str, None] = {}
    for pattern in _MODELS:
        for match in pattern.finditer(text):
            name = match[1].rstrip(".-_")
            if name.split("/")[0] not in _NOT_MODELS and len(models) < _MOST:
                models[name] = None
    cards, card_count = _find_cards(text)
    short = _short_flags()
    flags = {short[match[1]]: match[2] for match in _SHORT_FLAG.finditer(text) if match[1] in short}
    flags |= {
        match[1].replace("-", "_"): match[2]
        for match in _FLAGS.finditer(text)
        if not _SUGGESTED.search(text[max(0, match.start() - 40) : match.start()])
    }
    mentioned = dict.fromkeys(match[1].rstrip(".-_") for match in islice(_PAIR.finditer(text), _MOST_PAIRS))
    bare = dict.fromkeys(match[1].rstrip(".-_") for match in islice(_BARE.finditer(text), _MOST_BARE))
    sizes = {match[1].upper(): match[2] or "" for match in islice(_SIZED.finditer(text), _MOST)}
    tags = dict.fromkeys(match[1] for match in islice(_TAG.finditer(text), _MOST))
    return Named(
        models=tuple(map(mask_secrets, models)),  # lines may have split a secret
        mentioned=tuple(map(mask_secrets, mentioned)),
        bare=tuple(map(mask_secrets, bare)),
        sizes=tuple(sizes.items()),
        tags=tuple(tags),
        cards=cards,
        card_count=card_count,
        flags=flags,
    )


def _find_cards(text: str) -> tuple[tuple[str, ...], int]:
    """The cards of a text, each once, and the largest count next to one; 0 without one."""
    cards: dict[str, str] = {}
    spans: list[tuple[int, int]] = []
    card_count = 0
    text = _WORD_COUNT.sub(lambda word: f"{_WORDS[word[1].casefold()]} ", text)
    for match in islice(_CARDS.finditer(text), _MOST_PAIRS):
        before = _COUNT_BEFORE.search(text[max(0, match.start() - 32) : match.start()])
        if before is None and text[match.start() - 1 : match.start()].isalnum():
            continue
        spans.append(match.span())
        after = _COUNT_AFTER.match(text, match.end())
        card_count = max(
            card_count, *(int(count) for count in (before and (before["count"] or before["times"]), after and after[1]) if count), 0
        )
        name = " ".join(match[0].split())
        if len(cards) < _MOST:
            cards.setdefault(_fold(name), name)
    for match in islice(_SHORT_CARDS.finditer(text), _MOST_PAIRS):
        if any(match.start() < end and start < match.end() for start, end in spans):
            continue
        after = _COUNT_AFTER.match(text, match.end())
        card_count = max(card_count, int(match["before"] or 0), int(after[1]) if after else 0)
        name = re.sub(r"([- ]\d{2,3}) ?[Gg][Bb]?\Z", r"\1GB", match["counted"] or match["sized"] or match["followed"] or match["placed"])
        name = re.sub(rf"\A{_CHIP}", lambda chip: chip[0].upper(), name)
        longer = any(re.match(rf"{re.escape(_fold(name))}(?:sxm|pcie|nvl|\d{{2,3}}gb|\Z)", known) for known in cards)
        if len(cards) < _MOST and not longer:  # a longer name of the same card is known
            cards.setdefault(_fold(name), name)
    return tuple(cards.values()), card_count


def _fold(name: str) -> str:
    """The name of a card without its maker, blanks and dashes, in small letters."""
    return name.casefold().removeprefix("nvidia ").removeprefix("tesla ").removeprefix("geforce ").replace("-", "").replace(" ", "")
