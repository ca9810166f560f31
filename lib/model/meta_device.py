"""The meta device: models are built and run without memory, without values and without the network; and what they are given there.

A tensor on torch's meta device has a shape and a dtype and no values. `MetaBuild` makes a constructor put every tensor there, in the
dtype of the load; `MetaRun` keeps a forward pass there. Both belong to the thread that enters them: the process-wide default dtype and
device do not change, so models of other threads are not disturbed. Both count calls, so that a hostile configuration cannot occupy the
process.

Code that asks a meta tensor for a value ("is the longest position past 4096?") cannot continue by itself. `MetaRun(answer=0)` and
`MetaRun(answer=1)` answer every such question with that number. A result may then be used only if all answers lead to the same one.

Some configuration classes of `transformers` look a name up on the Hub (`backbone` in DPT, UPerNet, DETR …), and they do it with the
server's own token. Such names cannot all be listed, so `no_network` closes the one way that every connection takes: Python's audit
events, for the thread that builds.

Two kinds of run need inputs. A trace of activations (`lib.model.activations`) gives the model what `generate` gives it: text alone
to a model that writes, a picture or a sound of its own size to one that takes nothing else. A run for the cache
(`lib.model.cache_executed`) gives a decoder its encoder's output as made, so that no picture or sound has to be invented for it.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor, allclose, device, dtype, empty, equal, get_default_dtype, is_nonzero, long, no_grad, ones, rand, randn, zeros
from torch import bool as boolean
from torch import dtype as Dtype  # noqa: N812 a type, named like one
from torch.distributions import Distribution
from torch.fx.experimental import _config as experimental_settings
from torch.nn import Embedding, Module
from torch.overrides import TorchFunctionMode
from transformers.modeling_outputs import BaseModelOutput

from lib.errors import AdvisorError, BadConfig, UnsupportedModel
from lib.laws.media_tokens import DEFAULT_S, SAMPLES_PER_S, SoundRules, samples_for
from lib.model.layer_dedup import run_blocks_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

BUILD_BUDGET = 100_000
"""Torch calls that one build may make. Published models need up to 7 thousand, at some 60 µs each."""
RUN_BUDGET = 20_000
"""Torch calls that one run may make. The deepest published models need some 2 thousand, layers that run once counted once."""

_FILLS = frozenset({Tensor.uniform_, Tensor.normal_, Tensor.fill_, Tensor.zero_})
_ALLOCATIONS = frozenset({empty, zeros, ones, rand, randn})
_CONVERSIONS = frozenset({Tensor.float, Tensor.to, Tensor.type, Tensor.double, Tensor.half})

_TRUTHS = frozenset({Tensor.__bool__, Tensor.is_nonzero, is_nonzero, equal, Tensor.equal, allclose, Tensor.allclose, Tensor.__contains__})
_NUMBERS: dict[Any, type[int | float]] = {Tensor.__int__: int, Tensor.__index__: int, Tensor.__float__: float}
_VALUES = frozenset({Tensor.item, Tensor.tolist})


class _MetaDevice(TorchFunctionMode):
    """New tensors go to the meta device, or the one named; more than `budget` torch calls are refused with `refusal`."""

    def __init__(self, budget: int, refusal: AdvisorError, device_type: str = "meta") -> None:
        super().__init__()
        self._budget = budget
        self._refusal = refusal
        self._device = device(device_type)
        self.calls = 0

    def __enter__(self) -> Self:
        """Enter the mode and, inside it, the meta device."""
        super().__enter__()  # type: ignore[no-untyped-call]
        self._device.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave in the reverse order."""
        self._device.__exit__(*failure)
        super().__exit__(*failure)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the call and make it."""
        self.calls += 1
        if self.calls > self._budget:
            raise self._refusal
        return self._call(func, args, kwargs or {})

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class MetaBuild(_MetaDevice):
    """A constructor's tensors go to the meta device, floating-point ones in the dtype `half` unless the code names another.

    Random fills are skipped: a meta tensor has no values. A module built under this mode has the parameter dtypes that
    `from_pretrained(dtype=…)` gives it.

    Raises:
        BadConfig: more than `budget` calls were made, so the configuration describes more modules than any real model has.
    """

    def __init__(self, half: dtype, budget: int = BUILD_BUDGET) -> None:
        message = (
            f"Building this configuration takes more than {budget:,} tensor operations, which no published model needs. "
            "Check the layer and expert counts."
        )
        super().__init__(budget, BadConfig(message))
        self._dtype = half

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give new floating-point tensors the dtype of the load."""
        if func in _FILLS:
            return args[0]
        if func in _ALLOCATIONS and kwargs.get("dtype") is None:
            return func(*args, **{**kwargs, "dtype": self._dtype})
        result = func(*args, **kwargs)
        took_default = isinstance(result, Tensor) and result.dtype is get_default_dtype() and func not in _CONVERSIONS
        return result.to(self._dtype) if took_default and _has_no_float(args, kwargs) else result


def _has_no_float(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no argument is floating-point or a dtype: a float result (`arange`, `log` of whole numbers) then has torch's default."""
    values = [*args, *kwargs.values()]
    values += [item for value in values if isinstance(value, (list, tuple)) for item in value]
    return not any(isinstance(value, dtype) or "float" in str(getattr(value, "dtype", "")) for value in values)


class MetaRun(_MetaDevice):
    """A forward pass stays on the meta device; with an `answer`, questions for a tensor's value get that number.

    Under torch's FakeTensorMode the device is "cpu": its tensors have no values either.

    Raises:
        UnsupportedModel: more than `budget` calls were made (a loop over the tokens, written in Python).
    """

    def __init__(self, answer: int | None = None, budget: int = RUN_BUDGET, device_type: str = "meta") -> None:
        refusal = UnsupportedModel(f"The forward pass takes more than {budget:,} tensor operations at this length.")
        super().__init__(budget, refusal, device_type)
        self._answer = answer

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer what needs a value, where an answer was given."""
        if self._answer is None or not (func in _TRUTHS or func in _NUMBERS or func in _VALUES):
            return func(*args, **kwargs)
        if func in _TRUTHS:
            return bool(self._answer)
        if func in _NUMBERS:
            return _NUMBERS[func](self._answer)
        tensor: Tensor = args[0]
        element = float if tensor.is_floating_point() else bool if tensor.dtype is boolean else int
        value: Any = element(self._answer)
        for extent in reversed(tensor.shape if func is Tensor.tolist else ()):
            value = [value] * extent
        return value


@contextmanager
def without_values() -> Iterator[None]:
    """Let code run on the meta device that asks what no meta tensor has: which elements of a mask are set (all), and autocast's dtype.

    Callers hold `lib.model.build.LOCK`, because both are settings of the process.
    """
    plain, settings = torch.autocast, experimental_settings

    def autocast(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return plain("cpu" if device_type == "meta" else device_type, *args, **kwargs)

    before, settings.meta_nonzero_assume_all_nonzero = settings.meta_nonzero_assume_all_nonzero, True
    torch.autocast = autocast  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        torch.autocast = plain  # type: ignore[misc]
        settings.meta_nonzero_assume_all_nonzero = before


_CONNECTIONS = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto", "socket.sendmsg"}
)


class _Thread(threading.local):
    closed = False


_thread = _Thread()


def _refuse_connection(event: str, _arguments: object) -> None:
    if event in _CONNECTIONS and _thread.closed:
        raise UnsupportedModel(
            "The configuration names something that would have to be fetched from another place (such as a backbone), which is not done "
            "here. Paste a config.json that holds it in full, or give the parameter count instead (such as '7B')."
        )


@cache
def _add_hook() -> None:
    """Once a process: an audit hook cannot be taken out again, so it is put in at the first build and does nothing elsewhere."""
    sys.addaudithook(_refuse_connection)


@contextmanager
def no_network() -> Iterator[None]:
    """Within this block, on this thread, every attempt to connect or to look up a host is refused.

    Raises:
        UnsupportedModel: something tried to.
    """
    _add_hook()
    before, _thread.closed = _thread.closed, True
    try:
        yield
    finally:
        _thread.closed = before


@contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Distributions do not look at their parameters while this lasts: tensors without values have none to look at."""
    before = Distribution._validate_args  # noqa: SLF001 there is only a public way to set it
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


MEDIA = ("pixel_values", "input_features", "input_values")
IMAGE_SIZE = 224  # where a config names none
_BY_SAMPLES = frozenset({"wav2vec2", "hubert", "data2vec-audio", "unispeech", "unispeech-sat"})
_WINDOW = re.compile(r"sliding_window|attention_chunk_size|local_attention|attention_window")
_COUNTS_LAYERS = "pattern"


class Lengths(NamedTuple):
    """The three lengths of a run; 1 where a model has no such axis."""

    batch: int
    tokens: int
    encoder: int = 1


def has_argument(module: Module, name: str) -> bool:
    """Whether the module's forward has an argument of this name."""
    return name in inspect.signature(type(module).forward).parameters


def own_dtype(module: Module) -> Dtype:
    """The dtype of the module's matrices; single vectors may be kept in another."""
    return next(p.dtype for p in module.parameters() if p.ndim > 1)


def attention_windows(config: Any) -> list[int]:
    """Lengths after which some layer of the text decoder changes its mask, in order."""
    text = config.get_text_config(decoder=True)
    windows = {key: value for key, value in vars(text).items() if _WINDOW.search(key) and _COUNTS_LAYERS not in key}
    return sorted({value for value in windows.values() if type(value) is int and value > 1})


def position_limit(module: Module) -> int | None:
    """Positions of the smallest learned table, after which a prompt cannot be run; None without such a table."""
    tables = [m for name, m in module.named_modules() if "position" in name and "vision" not in name and isinstance(m, Embedding)]
    return min((m.num_embeddings for m in tables), default=None)


def describe_sound(config: Any) -> SoundRules | None:
    """Frames of a sound for the encoder of a `transformers` configuration; None if it takes none or its rule is not known."""
    if config.model_type == "whisper":
        return SoundRules("windows", positions=config.max_source_positions, mel_bins=config.num_mel_bins)
    if config.model_type in _BY_SAMPLES:
        return SoundRules("convolutions", kernels=tuple(config.conv_kernel), strides=tuple(config.conv_stride))
    return None


def _image_shape(config: Any, side: Any, batch: int) -> tuple[int, ...]:
    """Shape (batch, channels, height, width) of a picture of this side, or of these two."""
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return (batch, getattr(config, "num_channels", 3), height, width)


def _media_input(module: Module, name: str, lengths: Lengths) -> Tensor:
    """A picture (batch, channels, height, width), mel frames (batch, bins, frames) of the model's own size; samples (batch, samples).

    A transformer of spectrograms (AST) calls its frames values, and has them first: (batch, frames, bins). The samples make as many
    positions as tokens are asked for, where the rule is known; else they are half a minute.
    """
    config: Any = module.config
    batch, rules = lengths.batch, describe_sound(config)
    samples = round(DEFAULT_S * SAMPLES_PER_S) if rules is None or not rules.kernels else samples_for(lengths.tokens, rules)
    shape: tuple[int, ...] = (batch, samples)
    if name == "pixel_values":
        vision = getattr(config, "vision_config", None) or config
        shape = _image_shape(vision, getattr(vision, "image_size", None) or IMAGE_SIZE, batch)
    elif name == "input_values" and hasattr(config, "num_mel_bins"):
        shape = (batch, config.max_length, config.num_mel_bins)
    elif name == "input_features":
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
    return zeros(shape, dtype=own_dtype(module))


def prefill_inputs(module: Module, lengths: Lengths) -> dict[str, Any]:
    """Arguments of a prefill as `generate` makes them: token ids (batch, tokens), logits of the last position only.

    An encoder-decoder gets its encoder's input and one decoder token; a model that writes gets text alone.
    """
    config: Any = module.config
    inputs: dict[str, Any] = {}
    if config.is_encoder_decoder:
        main = str(getattr(module, "main_input_name", "input_ids"))
        ids_are_main = main == "input_ids"
        inputs[main] = zeros(lengths.batch, lengths.encoder, dtype=long) if ids_are_main else _media_input(module, main, lengths)
        inputs["decoder_input_ids"] = zeros(lengths.batch, 1, dtype=long)
    else:
        if has_argument(module, "input_ids"):
            inputs["input_ids"] = zeros(lengths.batch, lengths.tokens, dtype=long)
        writes = "input_ids" in inputs and has_argument(module, "logits_to_keep")
        inputs |= {name: _media_input(module, name, lengths) for name in MEDIA if not writes and has_argument(module, name)}
    if has_argument(module, "logits_to_keep"):
        inputs["logits_to_keep"] = 1
    if has_argument(module, "use_cache") or has_argument(module, "past_key_values"):  # some hand the first on unnamed
        inputs["use_cache"] = True
    return inputs


class _EncoderOutput(BaseModelOutput):
    """An encoder's output that has hidden states only."""

    def __getattr__(self, name: str) -> None:
        """Absent, unless Python itself asks."""
        if name.startswith("__"):
            raise AttributeError(name)


def decoder_inputs(module: PreTrainedModel, tokens: int, batch: int, encoder_positions: int) -> dict[str, Any]:
    """Arguments for a prefill that fills the cache: ids (batch, tokens), encoder states (batch, encoder_positions, width) as made."""
    ids = zeros(batch, tokens, dtype=long, device="meta")
    config: Any = module.config
    options = {"use_cache": True, "return_dict": True}
    if not config.is_encoder_decoder:
        return {"input_ids": ids, **options}
    states = zeros(batch, encoder_positions, _encoder_width(module), dtype=module.dtype, device="meta")
    return {"decoder_input_ids": ids, "encoder_outputs": _EncoderOutput(last_hidden_state=states), **options}


def _encoder_width(module: PreTrainedModel) -> int:
    """Width of the hidden states that the encoder hands to its decoder."""
    own: Any = getattr(module.get_encoder(), "config", module.config)
    for config in (own.get_text_config(encoder=True), own.get_text_config(), own, module.config):
        width = getattr(config, "hidden_size", None)
        if width:
            return int(width)
    raise UnsupportedModel("The width of this model's encoder is not stated, so its decoder was not run.")


def _encoder_shapes(config: Any, name: str) -> list[tuple[int, ...]]:
    """Shapes of the largest input that an encoder takes and of a smaller one; nothing if its config does not tell."""
    encoder = getattr(config, "encoder", None) or config
    side, bins, positions = (getattr(encoder, key, None) for key in ("image_size", "num_mel_bins", "max_source_positions"))
    if name == "pixel_values" and side:
        return [_image_shape(encoder, side, 1)]
    if name == "input_features" and bins and positions:
        return [(1, bins, 2 * positions), (1, bins, positions)]
    return []


def fixed_encoder_positions(module: PreTrainedModel) -> int | None:
    """Positions that the encoder hands on, where it accepts one size of input only; None if the length is free.

    Encoders of pictures and Whisper's (30 seconds) are run once on an input of that size, to see.
    """
    config: Any = module.config
    encoder: Any = module.get_encoder() if config.is_encoder_decoder else None
    name = getattr(encoder, "main_input_name", "input_ids")
    if encoder is None or name == "input_ids":
        return None
    positions: list[int | None] = []
    with no_grad(), MetaRun(), run_blocks_once(encoder):
        for shape in _encoder_shapes(config, name):
            try:
                output = encoder(zeros(shape, dtype=module.dtype, device="meta"), return_dict=True)
                positions.append(output.last_hidden_state.shape[1])
            except (RuntimeError, ValueError):  # this size is refused
                positions.append(None)
    return positions[0] if positions and (len(positions) == 1 or positions[1] is None) else None


@contextmanager
def in_dtype(module: Module, dtype: Dtype, *, source: Dtype | None = None) -> Iterator[None]:
    """Floating-point parameters and buffers in `dtype` while this lasts; with `source` only those of that dtype."""
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point() and t.dtype != dtype]
    before = [(t, t.data) for t in tensors if source is None or t.dtype == source]
    try:
        for tensor, data in before:
            tensor.data = data.to(dtype)
        yield
    finally:
        for tensor, data in before:
            tensor.data = data


@contextmanager
def with_kernel(module: Module, kernel: str) -> Iterator[None]:
    """The module with another attention kernel ("sdpa", "eager") while this lasts."""
    configs = {id(c): c for m in module.modules() if hasattr(c := getattr(m, "config", None), "_attn_implementation_internal")}
    before: list[tuple[Any, Any]] = [(c, getattr(c, "_attn_implementation_internal", None)) for c in configs.values()]
    try:
        for config, _ in before:
            config._attn_implementation_internal = kernel  # noqa: SLF001 no public way sets one without checks of the device
        yield
    finally:
        for config, own in before:
            config._attn_implementation_internal = own  # noqa: SLF001 as above
