"""The configurations worth trying on an offer, best first: as stored, then eight bits, then four.

A configuration is engine × precision × devices. Which engine: `transformers` where the Space's own process runs the model (all that
ZeroGPU can), vLLM where several cards share a text model or an endpoint serves it, vLLM for TPU on TPU, llama.cpp for quantized text
models on CPU. What the silicon cannot compute is left out, and `refused` says which precision that was.

Tasks are grouped by the kind of work they are. Their names are the Hub's pipeline tags, and the words of the community's hardware guide:

generate (text, token by token) · vision_language (the same, with images in the prompt) · encode (one pass: labels, vectors,
boxes) · speech · image · video · provider (the Space only calls an API; the model runs elsewhere).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS, Engine
from lib.errors import BadArgument
from lib.memory import tensor_parallel_degree
from lib.model.spec import ModelSpec
from lib.precision import NAMES, weight_format
from lib.provenance import Reason

Family = Literal["generate", "vision_language", "encode", "speech", "image", "video", "provider"]

_MEMBERS: dict[Family, tuple[str, ...]] = {
    "generate": ("text-generation", "text2text-generation", "summarization", "translation", "conversational", "chat"),
    "vision_language": (
        "image-text-to-text", "image-to-text", "visual-question-answering", "document-question-answering",
        "video-text-to-text", "audio-text-to-text", "any-to-any", "vision-language",
    ),
    "encode": (
        "text-classification", "token-classification", "zero-shot-classification", "fill-mask", "question-answering",
        "table-question-answering", "feature-extraction", "sentence-similarity", "text-ranking", "image-classification",
        "zero-shot-image-classification", "object-detection", "zero-shot-object-detection", "image-segmentation",
        "mask-generation", "depth-estimation", "keypoint-detection", "image-feature-extraction", "audio-classification",
        "video-classification", "voice-activity-detection", "tabular-classification", "tabular-regression",
        "time-series-forecasting", "visual-document-retrieval", "classification", "embedding",
    ),
    "speech": ("automatic-speech-recognition", "text-to-speech", "text-to-audio", "audio-to-audio", "speech"),
    "image": (
        "text-to-image", "image-to-image", "unconditional-image-generation", "inpainting", "image-to-3d", "text-to-3d", "image",
    ),
    "video": ("text-to-video", "image-to-video", "video-to-video", "image-text-to-video", "video"),
    "provider": ("inference-api", "inference-provider"),
}  # fmt: skip
FAMILIES = MappingProxyType({task: family for family, tasks in _MEMBERS.items() for task in tasks})
TASKS: tuple[str, ...] = ("auto", *FAMILIES)
_PLAIN = MappingProxyType(
    {
        "conversational": "text-generation",
        "chat": "text-generation",
        "classification": "text-classification",
        "embedding": "feature-extraction",
        "speech": "automatic-speech-recognition",
        "image": "text-to-image",
        "video": "text-to-video",
        "vision-language": "image-text-to-text",
    }
)


def task_of(task: str, spec: ModelSpec | None) -> str:
    """The task to judge: the one asked for, or the model's own; a bare count or a model with a cache generates text.

    Raises:
        BadArgument: the task is not known, or there is neither a task nor a model.
    """
    name = task.strip().casefold()
    if name != "auto":
        if name not in FAMILIES:
            raise BadArgument("task", task, "auto, or a Hub task such as text-generation, feature-extraction or text-to-image")
        return _PLAIN.get(name, name)
    if spec is None:
        raise BadArgument("task", task, "inference-api when no model is named; otherwise name the model")
    if spec.task in FAMILIES:
        return spec.task
    generates = spec.cache_terms is not None or spec.source == "rule_of_thumb"
    return "text-generation" if generates else "feature-extraction"


def family_of(task: str) -> Family:
    """The family of a known task."""
    return FAMILIES[task]


AS_STORED, EIGHT_BITS, FOUR_BITS = 0, 1, 2
SERVED_TASKS = ("generate", "vision_language")
TENSOR_PARALLEL_ENGINES: tuple[Engine, ...] = tuple(name for name, row in TRAITS.items() if row.tensor_parallel)
_HALF_BITS, _FOUR_BITS = 16, 4
_ON_TPU = frozenset({"bf16", "fp8", "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration; `step` counts how far the weights are compressed below what was asked.

    `note` says what a checkpoint that is already quantized needs for it: "unpacked" (its format has no unit here), or "sibling"
    (nothing quantizes it again, so that the unquantized checkpoint has to be taken).
    """

    precision: str
    engine: Engine
    devices: int = 1
    step: int = AS_STORED
    note: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The configurations to try, best first, and the first one that was left out (`None` when none was)."""

    tried: tuple[Candidate, ...]
    refused: Reason | None = None


def list_candidates(spec: ModelSpec, family: Family, offer: Offer, precision: str) -> Candidates:
    """The configurations of this model on this offer."""
    kind = "cpu" if offer.silicon is None else offer.silicon.kind
    if kind == "neuron" or (kind == "tpu" and family not in SERVED_TASKS):
        return Candidates((), Reason("no_engine", {"silicon": offer.name, "family": family}))
    if offer.silicon is None:
        return _on_cpu(family, precision)
    return _on_accelerator(spec, family, offer, offer.silicon, precision)


def _on_cpu(family: Family, precision: str) -> Candidates:
    text = family == "generate"
    plain = Candidate(precision="fp32", engine="transformers")
    packed = (
        Candidate(precision="gguf:Q8_0", engine="llama.cpp", step=EIGHT_BITS),
        Candidate(precision="gguf:Q4_K_M", engine="llama.cpp", step=FOUR_BITS),
    )
    if precision == "auto":
        return Candidates((plain, *packed) if text else (plain,))
    if precision in {"fp32", "fp16", "bf16"}:
        return Candidates((Candidate(precision=precision, engine="transformers"),))
    if text and (precision.startswith("gguf:") or precision in {"int8", "int4"}):
        named = {"int8": "gguf:Q8_0", "int4": "gguf:Q4_K_M"}.get(precision, precision)
        return Candidates((Candidate(precision=named, engine="llama.cpp"),))
    return Candidates((), Reason("dtype_missing", {"precision": precision, "silicon": "CPU"}))


def _on_accelerator(spec: ModelSpec, family: Family, offer: Offer, silicon: Accelerator, precision: str) -> Candidates:
    if precision.startswith("gguf:"):
        if family != "generate" or silicon.kind != "gpu" or offer.platform == "zerogpu":
            return Candidates((), Reason("no_engine", {"silicon": offer.name, "family": family}))
        return Candidates((Candidate(precision=precision, engine="llama.cpp", devices=offer.accelerator_count),))
    wanted, refused = _precisions(spec, silicon, precision)
    layouts = _layouts(spec, family, offer, silicon)
    tried = tuple(
        Candidate(precision=name, engine=engine, devices=devices, step=step, note=note)
        for name, step, note in wanted
        for engine, devices in layouts
    )
    return Candidates(tried, refused)


def _precisions(spec: ModelSpec, silicon: Accelerator, precision: str) -> tuple[tuple[tuple[str, int, str], ...], Reason | None]:
    """Names with their step and note, and the refusal of the first one that the silicon cannot compute."""
    if precision != "auto":
        if _computes(silicon, precision):
            return ((precision, AS_STORED, ""),), None
        return (), Reason("dtype_missing", {"precision": precision, "silicon": silicon.name})
    half = "bf16" if silicon.supports("bf16") else "fp16"
    stored = spec.stored.quantization
    if stored is None:
        return tuple((name, step, "") for name, step in (*_plain(spec, silicon, half), *_compressed(silicon))), None
    bits = _bits(stored.format)
    again = tuple((name, step, "sibling") for name, step in _compressed(silicon) if step == FOUR_BITS and bits > _FOUR_BITS)
    if _computes(silicon, stored.format):
        return (("auto", AS_STORED, ""), *again), None
    return ((half, AS_STORED, "unpacked"), *again), Reason("dtype_missing", {"precision": stored.format, "silicon": silicon.name})


def _plain(spec: ModelSpec, silicon: Accelerator, half: str) -> tuple[tuple[str, int], ...]:
    """As stored; a float32 checkpoint also in half precision, which hardly changes it. TPUs compute in bf16."""
    if silicon.kind == "tpu":
        return ((half, AS_STORED),)
    halved = ((half, AS_STORED),) if spec.stored.dtype == "float32" else ()
    return (("auto", AS_STORED), *halved)


def _compressed(silicon: Accelerator) -> tuple[tuple[str, int], ...]:
    """The formats of eight and of four bits: fp8 where the silicon computes it no slower than int8; four bits as storage on GPUs."""
    fp8, int8 = silicon.peak("fp8"), silicon.peak("int8")
    eight = ("fp8" if fp8 is not None and fp8 >= (int8 or 0) else "int8", EIGHT_BITS)
    return (eight, ("int4", FOUR_BITS)) if silicon.kind == "gpu" else (eight,)


def _computes(silicon: Accelerator, precision: str) -> bool:
    """Whether this precision runs on the silicon: dtypes and fp8 need units for it, other formats are unpacked on any GPU.

    A format that `lib.precision` does not know is left to the engine, on a GPU.
    """
    needed = weight_format(precision).arithmetic if precision in NAMES else ""
    if silicon.kind == "tpu":
        return needed in _ON_TPU and silicon.supports(needed)
    return silicon.supports(needed) if needed == "fp8" or _bits(precision) >= _HALF_BITS else True


def _bits(precision: str) -> int:
    return weight_format(precision).bits if precision in NAMES else 0


def _layouts(spec: ModelSpec, family: Family, offer: Offer, silicon: Accelerator) -> tuple[tuple[Engine, int], ...]:
    """Engine and number of devices. Models that do not serve text stay on one card as long as they fit there."""
    count = offer.accelerator_count
    if silicon.kind == "tpu":
        return (("vllm-tpu", tensor_parallel_degree(spec, count)),)
    served = family in SERVED_TASKS and spec.library != "diffusers"
    if served and (count > 1 or offer.platform == "endpoints"):
        return (("vllm", tensor_parallel_degree(spec, count)),)
    return (("transformers", 1),) if count == 1 else (("transformers", 1), ("transformers", count))
