"""Names of number formats: the tensors that each covers, and the silicon that computes with it.

A name is a dtype ("bf16"), a family whose form the engine chooses ("fp8", "int8", "int4"), a storage format ("bnb-nf4", "awq-4"),
a llama.cpp file type ("gguf:Q4_K_M") or "auto": the format of the checkpoint. Bytes follow from a format in
`lib.laws.weights`; this module only defines the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from lib.engines import TRAITS, traits_of
from lib.errors import BadArgument

Law = Literal[
    "plain", "fp8_block", "fp8_block_e8m0", "scaled_rows", "scaled_tensor", "bnb8", "bnb4", "bnb4_double", "gptq", "awq", "int_groups",
    "mxfp4", "nvfp4", "gguf",
]  # fmt: skip
Takes = Literal["all", "modules", "modules_and_experts", "stack", "experts", "llama.cpp"]
Support = Literal["native", "storage", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """One way to store weights.

    `law` names the equation in `lib.laws.weights`. `bits` is the width of one stored weight without its scales, `group` how many
    weights share a scale (0 = a whole row, matrix or none). `takes` says which tensors it converts when a model is quantized
    with it: "modules" the plain matrices outside the head, "modules_and_experts" those and fused experts, "stack" matrices and experts
    of the language model only, "experts" the routed experts (a dense model: as "stack"). `arithmetic` is the type that silicon must
    compute in to gain speed from the format; "" if weights are unpacked to the compute dtype first.
    `effective_bits` is the published rule of thumb with scales, for people; sums come from the law.
    """

    name: str
    title: str
    law: Law
    bits: int
    takes: Takes
    group: int = 0
    arithmetic: str = ""
    effective_bits: float = 0.0


_FORMATS = (
    WeightFormat(name="fp32", title="32-bit float", law="plain", bits=32, takes="all", arithmetic="fp32", effective_bits=32),
    WeightFormat(name="fp16", title="16-bit float", law="plain", bits=16, takes="all", arithmetic="fp16", effective_bits=16),
    WeightFormat(name="bf16", title="bfloat16", law="plain", bits=16, takes="all", arithmetic="bf16", effective_bits=16),
    WeightFormat(
        name="fp8-block",
        title="FP8, one scale per 128 × 128 block",
        law="fp8_block",
        bits=8,
        group=128,
        takes="modules_and_experts",
        arithmetic="fp8",
        effective_bits=8.002,
    ),
    WeightFormat(
        name="fp8-block-e8m0",
        title="FP8, one power-of-two scale per block",
        law="fp8_block_e8m0",
        bits=8,
        group=128,
        takes="modules_and_experts",
        arithmetic="fp8",
        effective_bits=8.0005,
    ),
    WeightFormat(
        name="fp8-channel", title="FP8, one scale per row", law="scaled_rows", bits=8, takes="stack", arithmetic="fp8", effective_bits=8.01
    ),
    WeightFormat(
        name="fp8-tensor", title="FP8, one scale per matrix", law="scaled_tensor", bits=8, takes="stack", arithmetic="fp8", effective_bits=8
    ),
    WeightFormat(
        name="int8-channel",
        title="INT8, one scale per row",
        law="scaled_rows",
        bits=8,
        takes="stack",
        arithmetic="int8",
        effective_bits=8.01,
    ),
    WeightFormat(
        name="bnb-int8", title="bitsandbytes LLM.int8()", law="bnb8", bits=8, takes="modules", arithmetic="int8", effective_bits=8.01
    ),
    WeightFormat(name="bnb-nf4", title="bitsandbytes NF4", law="bnb4", bits=4, group=64, takes="modules", effective_bits=4.5),
    WeightFormat(
        name="bnb-nf4-double", title="bitsandbytes NF4, double", law="bnb4_double", bits=4, group=64, takes="modules", effective_bits=4.13
    ),
    WeightFormat(name="bnb-fp4", title="bitsandbytes FP4", law="bnb4", bits=4, group=64, takes="modules", effective_bits=4.5),
    WeightFormat(name="gptq-4", title="GPTQ 4 bit", law="gptq", bits=4, group=128, takes="stack", effective_bits=4.16),
    WeightFormat(name="gptq-8", title="GPTQ 8 bit", law="gptq", bits=8, group=128, takes="stack", effective_bits=8.19),
    WeightFormat(name="awq-4", title="AWQ 4 bit", law="awq", bits=4, group=128, takes="stack", effective_bits=4.16),
    WeightFormat(
        name="int4-group", title="INT4, a scale per group", law="int_groups", bits=4, group=128, takes="stack", effective_bits=4.125
    ),
    WeightFormat(
        name="mxfp4", title="MXFP4", law="mxfp4", bits=4, group=32, takes="experts", arithmetic="fp4", effective_bits=4.25
    ),
    WeightFormat(name="nvfp4", title="NVFP4", law="nvfp4", bits=4, group=16, takes="stack", arithmetic="fp4", effective_bits=4.5),
)  # fmt: skip

GGUF_TYPES: tuple[tuple[str, float], ...] = (
    ("F32", 32), ("F16", 16), ("BF16", 16), ("Q8_0", 8.5), ("Q6_K", 6.56), ("Q5_K_M", 5.7), ("Q5_K_S", 5.57), ("Q5_1", 6.0), ("Q5_0", 5.5),
    ("Q4_K_M", 4.89), ("Q4_K_S", 4.67), ("Q4_1", 5.0), ("Q4_0", 4.5), ("IQ4_NL", 4.5), ("IQ4_XS", 4.25), ("Q3_K_L", 4.3), ("Q3_K_M", 4.0),
    ("IQ3_M", 3.66), ("IQ3_S", 3.44), ("Q3_K_S", 3.64), ("Q2_K", 3.16), ("MXFP4_MOE", 4.25),
)  # fmt: skip
"""llama.cpp's file types with the bits per weight of an 8B Llama (its `quantize` documentation)."""


def _gguf_formats(types: tuple[tuple[str, float], ...]) -> tuple[WeightFormat, ...]:
    return tuple(
        WeightFormat(name=f"gguf:{kind}", title=f"GGUF {kind}", law="gguf", bits=int(bits), takes="llama.cpp", effective_bits=bits)
        for kind, bits in types
    )


_GGUF = _gguf_formats(GGUF_TYPES)
_FILES_ONLY: tuple[tuple[str, float], ...] = (
    ("IQ3_XS", 3.44), ("IQ3_XXS", 3.06), ("Q2_K_S", 2.63), ("IQ2_M", 2.56), ("IQ2_S", 2.56), ("IQ2_XS", 2.31), ("IQ2_XXS", 2.06),
    ("IQ1_M", 1.75), ("IQ1_S", 1.56), ("TQ2_0", 2.06), ("TQ1_0", 1.69), ("NVFP4", 4.5), ("Q1_0", 1.13),
)  # fmt: skip
"""File types whose mix no law here knows, with the bits of their main block type: a file of such a type can be read, not foreseen."""
_STORED = _gguf_formats(_FILES_ONLY)
_BY_NAME = {f.name: f for f in (*_FORMATS, *_GGUF, *_STORED)}
QLORA: Mapping[bool, str] = {False: "bnb-nf4", True: "bnb-nf4-double"}
"""The format of QLoRA's base weights, by whether the scales of its blocks are held in 8 bits."""
INT8_BASE = "bnb-int8"
"""The format of the base weights of LoRA in 8 bits."""

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "fp8": {name: row.fp8 for name, row in TRAITS.items() if row.fp8},
    "int8": {name: row.int8 for name, row in TRAITS.items() if row.int8},
    "int4": {name: row.int4 for name, row in TRAITS.items() if row.int4},
}
"""Meaning of a family name to an engine: the form it can produce or load; an engine without such a form is not in it."""

NAMES: tuple[str, ...] = (
    "auto",
    "fp32",
    "fp16",
    "bf16",
    *FAMILIES,
    *(f.name for f in _FORMATS if f.law != "plain"),
    *(f.name for f in _GGUF),
)
KV_NAMES: tuple[str, ...] = ("auto", "fp32", "fp16", "bf16", "fp8", "int8", "int4")

DTYPES = {"float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}
"""torch's words for the plain formats."""
TORCH_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""The formats that torch computes in by itself, with its names for them."""

_CACHE_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 34 / 32, "int4": 18 / 32}


class _Quantized(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def format(self) -> str: ...


class _Stored(Protocol):
    @property
    def dtype(self) -> str: ...
    @property
    def quantization(self) -> _Quantized | None: ...
    @property
    def bytes_by_dtype(self) -> Mapping[str, int]: ...


class Spec(Protocol):
    """The part of a model that this module reads: how it is stored."""

    @property
    def stored(self) -> _Stored:
        """The weights as they lie on the Hub."""


class DtypeSupport(Protocol):
    """The part of an accelerator that this module reads: the types that it computes in."""

    def supports(self, dtype: str) -> bool:
        """Whether the silicon computes in this type natively."""


def weight_format(name: str, engine: str = "transformers") -> WeightFormat:
    """The format behind a name; a family name ("int4") means the form of that engine. "auto" has to be resolved first.

    Raises:
        BadArgument: no such name.
    """
    form = _BY_NAME.get(FAMILIES[name].get(engine, "") if name in FAMILIES else name)
    if form is None:
        raise BadArgument("precision", name, ", ".join(NAMES) if name not in FAMILIES else _list_loadable(engine))
    return form


def loads(engine: str, precision: str) -> bool:
    """Whether an engine loads a format or a family of this name; "auto" depends on the checkpoint (`resolve`)."""
    if precision in FAMILIES:
        return engine in FAMILIES[precision]
    traits = traits_of(engine)
    return precision == "auto" or not (weight_format(precision).law in traits.cannot_load or precision in traits.not_in)


def list_formats(engine: str) -> tuple[str, ...]:
    """The formats to choose from with an engine, each once: its own files if it has such, else the formats of checkpoints."""
    own = traits_of(engine).own_files
    named = (form for form in (*_FORMATS, *_GGUF) if (form.law == "gguf") == own)
    return tuple(form.name for form in named if loads(engine, form.name))


def _list_loadable(engine: str) -> str:
    return f"{', '.join(name for name in NAMES if loads(engine, name))} with {engine}"


def parse(text: str, names: tuple[str, ...] = NAMES, argument: str = "precision") -> str:
    """The canonical spelling of a precision name: other capitals, torch's dtype names and a bare GGUF type are understood.

    Raises:
        BadArgument: nothing that is known is meant.
    """
    folded = {n.lower(): n for n in names}
    word = text.strip().lower() if isinstance(text, str) else ""
    for candidate in (word, DTYPES.get(word.removeprefix("torch."), ""), f"gguf:{word}"):
        if candidate in folded:
            return folded[candidate]
    raise BadArgument(argument, text, ", ".join(names))


def resolve(precision: str, spec: Spec, engine: str = "transformers", accelerator: DtypeSupport | None = None) -> str:
    """The format really used: "auto" becomes the checkpoint's format, a family the engine's form of it.

    A checkpoint that states no dtype is taken as bf16. Silicon without bf16 (T4) gets fp16, which has the same size;
    silicon with neither (none named here) keeps the stored dtype. A dtype that an engine cannot compute in is halved or widened to one that
    it can.

    Raises:
        BadArgument: no such name, or the engine does not load the format.
    """
    quantization = spec.stored.quantization
    if quantization is not None and quantization.method == "gguf":
        if precision not in {"auto", quantization.format}:
            accepted = f"auto or {quantization.format}, in which the GGUF file is stored; name another file instead"
            raise BadArgument("precision", precision, accepted)
        return quantization.format
    name = _resolve(precision, spec, engine, accelerator)
    if not loads(engine, name):
        raise BadArgument("precision", name, _list_loadable(engine))
    return name


def _resolve(precision: str, spec: Spec, engine: str, accelerator: DtypeSupport | None) -> str:
    if precision in FAMILIES:
        return weight_format(precision, engine).name
    if precision != "auto":
        return weight_format(precision).name
    if spec.stored.quantization is not None and spec.stored.quantization.format in _BY_NAME:
        return _loadable(spec.stored.quantization.format, engine)
    stored = DTYPES.get(spec.stored.dtype, "bf16")
    if traits_of(engine).own_files:
        return {"fp32": "gguf:F32", "fp16": "gguf:F16", "bf16": "gguf:BF16"}[stored]
    if stored in traits_of(engine).not_in:
        return "fp32" if accelerator is not None and not accelerator.supports("fp16") else "fp16"
    return _half(accelerator) if stored == "bf16" else stored


def _loadable(stored: str, engine: str) -> str:
    """A quantized checkpoint's own format; llama.cpp loads none but its own files, so there the one nearest in width."""
    form = _BY_NAME[stored]
    if not traits_of(engine).own_files or form.law == "gguf":
        return stored
    if form.law == "mxfp4":
        return "gguf:MXFP4_MOE"
    return "gguf:Q8_0" if form.bits == 8 else "gguf:Q4_K_M"  # noqa: PLR2004 bits


PUBLISHED_LAWS = frozenset({"gptq", "awq", "int_groups", "scaled_rows", "mxfp4", "nvfp4", "gguf"})
"""Laws of formats that are made once, with data to calibrate or a converter, and published; the others are made while loading."""
Loading = Literal["as stored", "quantized on load", "other checkpoint"]


def find_loading(precision: str, spec: Spec, engine: str) -> Loading:
    """How the engine loads the model's own checkpoint in this format, or that another checkpoint is needed.

    A quantized checkpoint is loaded in its own format, or unpacked to a plain one.
    """
    stored = spec.stored.quantization
    form = _BY_NAME.get(precision)
    if form is None or form.law == "plain" or (stored is not None and stored.format == precision):
        return "as stored"
    needed = stored is not None or form.law in PUBLISHED_LAWS or not traits_of(engine).quantizes
    return "other checkpoint" if needed else "quantized on load"


def lacks_stored_format(spec: Spec) -> bool:
    """Whether the checkpoint's format is unknown: neither its config nor the headers of its files state it."""
    return not spec.stored.dtype and spec.stored.quantization is None and not spec.stored.bytes_by_dtype


def _half(accelerator: DtypeSupport | None) -> str:
    without_bf16 = accelerator is not None and not accelerator.supports("bf16") and accelerator.supports("fp16")
    return "fp16" if without_bf16 else "bf16"


def compute_dtype(precision: str, spec: Spec, accelerator: DtypeSupport | None = None) -> str:
    """The dtype of activations and cache: the plain format itself, or the half that quantized weights are unpacked to.

    llama.cpp's cache and activations do not follow weights in float32.
    """
    name = resolve(precision, spec, accelerator=accelerator)
    if weight_format(name).law == "plain":
        return name
    if weight_format(name).bits == 32:  # noqa: PLR2004
        return "fp16"
    return "fp16" if DTYPES.get(spec.stored.dtype) == "fp16" else _half(accelerator)


def element_bytes(kv_precision: str, compute: str = "bf16") -> float:
    """Bytes of one cached element; "auto" is the compute dtype.

    int8 and int4 carry a 16-bit scale per 32 elements, as llama.cpp's q8_0 and q4_0 do.

    Raises:
        BadArgument: no such name.
    """
    name = compute if kv_precision == "auto" else kv_precision
    if name not in _CACHE_BYTES:
        raise BadArgument("kv_precision", kv_precision, ", ".join(KV_NAMES))
    return _CACHE_BYTES[name]


def check_support(precision: str, accelerator: DtypeSupport) -> Support:
    """How silicon takes a format: at "native" speed, as "storage" unpacked before use, or "missing" (no such arithmetic)."""
    needed = weight_format(precision).arithmetic
    if not needed or accelerator.supports(needed):
        return "native" if needed else "storage"
    return "missing" if weight_format(precision).law == "plain" else "storage"
