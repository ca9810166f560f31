"""Lists the configurations to try on an offer, best first: as stored, then eight bits, then four.

A configuration is engine × precision × devices. `engines_on` selects the engines by their rows and by the platform's row: those that the
silicon runs and that are advised on it. A Gradio Space takes only those that run inside its process.

One request at a time on one card is simplest in the Space's own process. Several requests need a server that batches continuously; several
cards need one that splits every layer over them. Jobs and Endpoints run images of servers. Precisions that the silicon cannot compute are
left out; `refused` names the first of them.

Tasks are grouped by the kind of work they are. Their names are the Hub's pipeline tags, and the words of the community's hardware guide:

generate (text, token by token) · vision_language (the same, with images in the prompt) · encode (one pass: labels, vectors,
boxes) · speech · image · video · provider (the Space only calls an API; the model runs elsewhere).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from lib.catalog.engine_models import find_unlisted, lists_model
from lib.catalog.gpu_or_tpu import UNSUPPORTED, Support, load_tpu_software
from lib.catalog.kernels import reads_format
from lib.catalog.offers import Hardware
from lib.catalog.rows import ById
from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS, Engine
from lib.errors import BadArgument
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.precision import FAMILIES as FORMATS
from lib.precision import NAMES, PUBLISHED_LAWS, loads, weight_format
from lib.provenance import Reason, Value
from lib.request.serving import Serving, has_settings
from lib.request.types import AUTO
from lib.workload import FAMILIES, Family, Sdk, Workload

_TASK_OF_WORD = MappingProxyType(
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
        BadArgument: the task is unknown, the model cannot do it, or neither a task nor a model is named.
    """
    name = task.strip().casefold()
    if name != "auto":
        if name not in FAMILIES:
            raise BadArgument("task", task, "auto, or a Hub task such as text-generation, feature-extraction or text-to-image")
        if spec is not None and FAMILIES[name] not in able_families(spec):
            own = task_of("auto", spec)
            raise BadArgument("task", task, f"auto or {own}: {spec.id or 'this model'} is a model for {own} and cannot do that")
        return _TASK_OF_WORD.get(name, name)
    if spec is None:
        raise BadArgument("task", task, "inference-api when no model is named; otherwise name the model")
    return own_task(spec.task, generates=spec.cache_terms is not None or spec.source == "rule_of_thumb")


def own_task(stated: str, *, generates: bool) -> str:
    """The task that a model states. If it is unknown: text generation, or feature extraction for a model that does not generate."""
    return stated if stated in FAMILIES else "text-generation" if generates else "feature-extraction"


def able_families(spec: ModelSpec) -> frozenset[Family]:
    """The kinds of work that a model can do; all of them for a bare parameter count.

    A text decoder also makes vectors and labels, and a model that takes pictures also works without one. A Space that only calls a provider
    needs no model.
    """
    if spec.source == "rule_of_thumb":
        return frozenset(FAMILIES.values())
    own = FAMILIES[task_of("auto", spec)]
    further: dict[Family, set[Family]] = {
        "generate": {"encode"},
        "vision_language": {"generate", "encode"},
        "image": {"video"},
        "video": {"image"},
    }
    return frozenset({own, "provider", *further.get(own, ())})


def family_of(task: str) -> Family:
    """The family of a known task."""
    return FAMILIES[task]


_LENGTHS: dict[Family, tuple[str, ...]] = {"encode": ("context", "prompt"), "speech": ("context", "answer"), "image": (), "video": ()}


def lengths_of(family: Family) -> tuple[str, ...]:
    """The lengths of a request of this family: encoders write no answer, the prompt of speech is sound, and pictures have a size."""
    return _LENGTHS.get(family, ("context", "prompt", "answer"))


AS_STORED, EIGHT_BITS, FOUR_BITS = 0, 1, 2
SERVED_TASKS = ("generate", "vision_language")
TENSOR_PARALLEL_ENGINES: tuple[Engine, ...] = tuple(name for name, row in TRAITS.items() if row.tensor_parallel)
SERVERS: tuple[Engine, ...] = tuple(name for name, row in TRAITS.items() if not row.static_batch)
"""Engines that take a request as soon as there is a place, and keep only its own tokens in the cache."""
ENCODES = frozenset({"text encoder", "embedding decoder"})
"""Kinds of models that answer in one pass over a text."""
_BITS = MappingProxyType({EIGHT_BITS: 8, FOUR_BITS: 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration; `step` counts how far the weights are compressed below the requested format.

    `note` is the change that the checkpoint needs. "unpacked": the silicon has no units for its format. "sibling": another checkpoint,
    because it cannot be quantized again. "converted": into the engine's own files. "halved": float32 is loaded in 16 bits. `sdk` is the SDK
    of the Space; "" if the offer is not a Space. With `may_offload`, layers that the cards do not hold stay on the processor, and llama.cpp
    puts `gpu_layers` of them on the cards (`-ngl`; None: all). With `may_leave_experts`, the host's memory holds routed experts of the
    first `cpu_moe_layers` layers (`--n-cpu-moe`). `untested` is the model's class if the engine does not list it, else "".
    """

    precision: str
    engine: Engine
    devices: int = 1
    step: int = AS_STORED
    note: str = ""
    sdk: Sdk | Literal[""] = ""
    may_offload: bool = False
    gpu_layers: int | None = None
    may_leave_experts: bool = False
    cpu_moe_layers: int = 0
    untested: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The configurations to try, best first, and the reason why some or all are left out (`None` if all are tried)."""

    tried: tuple[Candidate, ...]
    refused: Reason | None = None


def engines_on(
    offer: Hardware, family: Family, spec: ModelSpec, sdk: str, requested: str = AUTO
) -> tuple[tuple[Engine, Sdk | Literal[""]], ...]:
    """The engines that can run this model on an offer, each with the SDK of the Space.

    Servers of text are proposed for text, and TEI for encoders. A `requested` engine is also proposed for other work that it can do.
    """
    kind, place, own_file = offer.processor.kind, offer.traits, spec.library == "gguf"
    served = family in SERVED_TASKS and spec.library != "diffusers"
    # Pictures need a second file (mmproj), so llama.cpp is not tried by itself for models that see, except on a visitor's own cards.
    converts = served and (family == "generate" or place.owned)
    process: Sdk | Literal[""] = "" if not place.runs_spaces else "docker" if sdk == "docker" and not place.per_call else "gradio"
    server: Sdk | Literal[""] = "docker" if place.runs_spaces else ""
    pairs: list[tuple[Engine, Sdk | Literal[""]]] = []
    for name, row in TRAITS.items():
        if kind not in row.advised_on or spec.work not in row.works or not row.runs_on(offer.processor):
            continue
        if (spec.sparse_attention and not row.known_on(offer.processor)) or (place.per_call and not row.on_zerogpu):
            continue
        if row.own_files != own_file and not (row.own_files and (converts or (served and name == requested))):
            continue
        if row.listed_only and not own_file and not is_listed(spec, name, offer):
            continue
        if kind in row.in_process:
            pairs.append((name, process))
        elif place.runs_spaces and sdk == "gradio":
            continue
        elif served or kind != "gpu" or row.own_files or not row.generates or name == requested:  # a GPU runs other work in its own process
            pairs.append((name, server))
    return tuple(pairs)


def is_listed(spec: ModelSpec, engine: Engine, hardware: Hardware) -> bool:
    """Whether the engine's own list of models has this one; the others are untested with it."""
    on_gpu = hardware.processor.kind == "gpu"
    return lists_model(engine, architecture=spec.architecture, model_type=spec.model_type, on_gpu=on_gpu)


def explain_unlisted(spec: ModelSpec, engine: Engine, hardware: Hardware) -> Reason | None:
    """The reason that the engine's list lacks the model's class, with the last release that had it; None for a listed class."""
    values = find_unlisted(engine, spec.architecture, spec.model_type, on_gpu=hardware.processor.kind == "gpu")
    return None if values is None else Reason("engine_untested", values, variant="dropped" if "last_version" in values else "")


def rate_support(spec: ModelSpec, engine: Engine, hardware: Hardware) -> Support | None:
    """How far the model is known to run on a TPU; None on other silicon, for another engine, and where the model has no name."""
    software, chip = load_tpu_software(), hardware.processor
    if chip.kind != "tpu" or engine != software.support.engine or not spec.architecture:
        return None
    return software.rate(spec.id, spec.architecture, chip.id, hardware.accelerator_count)


def explain_failure(spec: ModelSpec, engine: Engine, hardware: Hardware) -> Reason | None:
    """The report that the model does not run on a TPU, or the tests that ended without memory; None if neither is known."""
    support = rate_support(spec, engine, hardware)
    return _explain_unsupported(spec, support, hardware) if support in UNSUPPORTED else None


def is_untested(spec: ModelSpec, engine: Engine, hardware: Hardware) -> bool:
    """Whether the model's class is untested with this engine: by the tests on TPUs, or else by the engine's own list of models."""
    support = rate_support(spec, engine, hardware)
    return not is_listed(spec, engine, hardware) if support is None else support == "untested"


def _explain_unsupported(spec: ModelSpec, support: Support, hardware: Hardware) -> Reason:
    """The report that a model does not run on a TPU, or the tests that ended without memory."""
    software, chip = load_tpu_software(), hardware.processor
    values: dict[str, Value] = {"model": spec.id, "silicon": chip.name}
    failure = software.find_failure(spec.id, chip.id)
    if support == "failing" and failure is not None:
        return Reason("tpu_fails", values | {"version": failure.version, "reference": failure.reference})
    matrix = software.support
    tested: dict[str, Value] = {"package": matrix.package, "release": matrix.release, "checked": matrix.checked}
    return Reason("tpu_fails", values | tested | {"chips": matrix.slice_chips}, variant="memory")


def list_candidates(spec: ModelSpec, family: Family, offer: Hardware, workload: Workload, published: Sequence[str] = ()) -> Candidates:
    """The configurations of this model on this offer; `published` names formats in which a quantized checkpoint is known to exist."""
    crowd = workload.concurrency > 1 or offer.accelerator_count > 1 or offer.traits.runs_images
    asked = (workload.sdk, workload.engine, workload.precision, workload.serving)
    return _candidates_of(ById(spec), family, ById(offer), *asked, tuple(published), crowd=crowd)


@lru_cache(maxsize=4096)
def _candidates_of(
    of: ById[ModelSpec],
    family: Family,
    on: ById[Hardware],
    sdk: str,
    requested: str,
    precision: str,
    serving: Serving,
    published: tuple[str, ...],
    *,
    crowd: bool,
) -> Candidates:
    """`list_candidates` with a cache: they are the same for all lengths and for all concurrencies above one."""
    spec, offer = of.value, on.value
    # Engines that run on this silicon, in this kind of Space, and the one that was asked for.
    possible = engines_on(offer, family, spec, sdk, requested)
    if not possible and spec.sparse_attention:
        return Candidates((), Reason("sparse_attention", {"silicon": offer.name}))
    if not possible:
        return Candidates((), Reason("no_engine", {"silicon": offer.name, "family": family}))
    engines = [pair for pair in possible if requested in {AUTO, pair[0]}]
    if not engines:
        values: dict[str, Value] = {"engine": requested, "others": ", ".join(name for name, _ in possible), "offer": offer.name}
        docker = requested in dict(engines_on(offer, family, spec, "docker", requested))
        return Candidates((), Reason("engine_needs_docker" if docker else "engine_not_here", values))
    # Engines that have the devices and the settings that were stated.
    count = max(1, offer.accelerator_count)
    if serving.devices > count:
        return Candidates((), Reason("too_few_devices", {"needed": serving.devices, "devices": count, "silicon": offer.name}))
    able = [pair for pair in engines if has_settings(pair[0], serving)]
    if engines and not able:
        return Candidates((), Reason("no_engine_setting", {"settings": ", ".join(serving.stated), "silicon": offer.name}))
    engines, layers = able, serving.gpu_layers if (serving.gpu_layers or 0) >= 0 else None
    # Each engine with its numbers of devices and its formats; the last format may leave layers or experts to the host.
    tried: list[Candidate] = []
    refused: Reason | None = None
    for engine, built_with in _by_preference(spec, offer, engines, crowd=crowd):
        if (failure := explain_failure(spec, engine, offer)) is not None:
            refused = refused or failure
            continue
        most = spread(spec, engine, offer, serving).devices
        fixed = most == 1 or serving.sets_devices or TRAITS[engine].split == "tensor"
        for devices in (most,) if fixed else (1, most):  # layers are tried on one device too
            forms, left_out = list_forms(spec, family, offer.silicon, engine, precision, published)
            refused = refused or left_out
            own_files = TRAITS[engine].own_files
            leaves_experts = own_files and offer.traits.owned and offer.processor.kind == "gpu" and serving.cpu_moe_layers is None
            offloads = own_files and devices == offer.accelerator_count and (spec.library == "gguf" or requested == engine)
            tried += [
                Candidate(
                    precision=name,
                    engine=engine,
                    devices=devices,
                    step=step,
                    note=note,
                    sdk=built_with,
                    may_offload=offloads and at == len(forms) and layers is None,
                    gpu_layers=layers,
                    may_leave_experts=leaves_experts and devices == most and at == len(forms) and layers is None,
                    untested=spec.architecture if is_untested(spec, engine, offer) else "",
                )
                for at, (name, step, note) in enumerate(forms, start=1)
            ]
    return Candidates(tuple(sorted(tried, key=lambda candidate: candidate.step)), refused)


def _by_preference(
    spec: ModelSpec, offer: Hardware, engines: Sequence[tuple[Engine, Sdk | Literal[""]]], *, crowd: bool
) -> list[tuple[Engine, Sdk | Literal[""]]]:
    """Order engines: those that list the model first; then servers if there are several requests or cards, otherwise in-process engines.

    Servers keep the order of `TRAITS`. An engine that uses another engine's speed constants comes last. The exception is a server for
    encoders with several requests: it batches them, which in-process engines leave to the app.
    """
    batches = crowd and spec.work in ENCODES

    def order(pair: tuple[Engine, Sdk | Literal[""]]) -> tuple[object, ...]:
        row = TRAITS[pair[0]]
        timed_as = "" if batches and not row.static_batch else row.timed_as
        return (not is_listed(spec, pair[0], offer), timed_as, row.own_files, row.static_batch is crowd)

    return sorted(engines, key=order)


Forms = tuple[tuple[str, int, str], ...]


def list_forms(
    spec: ModelSpec, family: Family, silicon: Accelerator | None, engine: Engine, precision: str, published: Sequence[str]
) -> tuple[Forms, Reason | None]:
    """Precisions with their step and note, most bytes first, and the refusal of the first one that silicon or engine cannot take.

    `silicon` is None for a processor.
    """
    if TRAITS[engine].own_files:
        return _gguf_forms(spec, silicon, engine, precision)
    stored = spec.stored.quantization.format if spec.stored.quantization is not None and precision == AUTO else precision
    if precision.startswith("gguf:") or (stored in NAMES and not loads(engine, stored)):
        return (), Reason("engine_form", {"engine": engine, "precision": stored})
    if silicon is None:
        plain = precision in {AUTO, "fp32", "fp16", "bf16"}
        return ((("fp32" if precision == AUTO else precision, AS_STORED, ""),), None) if plain else ((), _missing(precision, "CPU"))
    if precision != AUTO:
        runs = reads_format(engine, precision, silicon, mixture=spec.is_mixture)
        return (((precision, AS_STORED, ""),), None) if runs else ((), _missing(precision, silicon.name))
    return _automatic_forms(spec, family, silicon, engine, published)


def _automatic_forms(
    spec: ModelSpec, family: Family, silicon: Accelerator, engine: Engine, published: Sequence[str]
) -> tuple[Forms, Reason | None]:
    """As stored, with float32 loaded in the silicon's 16 bits; then compressed."""
    half = "bf16" if silicon.supports("bf16") and loads(engine, "bf16") else "fp16"
    stored = spec.stored.quantization
    if stored is None:
        plain_forms = ((half, AS_STORED, "halved" if spec.stored.dtype == "float32" else ""),)
        if silicon.kind != "tpu" and spec.stored.dtype != "float32" and loads(engine, "bf16"):
            plain_forms = ((AUTO, AS_STORED, ""),)
        return (*plain_forms, *((name, step, "") for name, step in _compressed_formats(silicon, engine, family, published))), None
    again = tuple(
        (name, step, "sibling")
        for name, step in _compressed_formats(silicon, engine, family, published)
        if step == _effective_step(spec, step) == FOUR_BITS and weight_format(name, engine).law in PUBLISHED_LAWS
    )
    if TRAITS[engine].own_modules and stored.method == "modelopt":  # a format of NVIDIA's servers
        return again, Reason("engine_form", {"engine": engine, "precision": stored.format})
    if reads_format(engine, stored.format, silicon, mixture=spec.is_mixture):
        return ((AUTO, AS_STORED, ""), *again), None
    unpacked: Forms = ((half, AS_STORED, "unpacked"),) if TRAITS[engine].own_modules or silicon.kind != "gpu" else ()
    return (*unpacked, *again), _missing(stored.format, silicon.name)


def _effective_step(spec: ModelSpec, step: int) -> int:
    """`step`, or `AS_STORED` if a quantized checkpoint already has no more bits than that step.

    DeepSeek-V3 is stored in 8 bits, gpt-oss and Kimi-K2 in 4. Of a format without a name the bits are not known; 8 are assumed.
    """
    stored = spec.stored.quantization
    own = weight_format(stored.format).bits if stored is not None and stored.format in NAMES else _BITS[EIGHT_BITS]
    return step if own > _BITS[step] else AS_STORED


def _missing(precision: str, silicon: str) -> Reason:
    return Reason("dtype_missing", {"precision": precision, "silicon": silicon})


def _gguf_forms(spec: ModelSpec, silicon: Accelerator | None, engine: Engine, precision: str) -> tuple[Forms, Reason | None]:
    """Files of llama.cpp: 16 bits on a GPU only, because a CPU is too slow with them, then eight and four."""
    stored = spec.stored.quantization
    if spec.library == "gguf" and stored is not None:
        if precision in {AUTO, stored.format}:
            return ((AUTO, AS_STORED, ""),), None
        return (), Reason("engine_form", {"engine": engine, "precision": precision})
    if precision == AUTO:
        if stored is not None:  # llama.cpp loads no such checkpoint: its files are conversions
            packed = _effective_step(spec, FOUR_BITS) == AS_STORED
            eight: Forms = () if packed else ((AUTO, _effective_step(spec, EIGHT_BITS), "converted"),)
            return (*eight, (AUTO if packed else "gguf:Q4_K_M", _effective_step(spec, FOUR_BITS), "converted")), None
        half = AUTO if silicon is None or silicon.supports("bf16") else "gguf:F16"
        whole: Forms = () if silicon is None else ((half, AS_STORED, ""),)
        return (*whole, ("gguf:Q8_0", EIGHT_BITS, ""), ("gguf:Q4_K_M", FOUR_BITS, "")), None
    if precision.startswith("gguf:") or precision in {"int8", "int4"}:
        return (({"int8": "gguf:Q8_0", "int4": "gguf:Q4_K_M"}.get(precision, precision), AS_STORED, ""),), None
    return (), Reason("engine_form", {"engine": engine, "precision": precision})


def _compressed_formats(silicon: Accelerator, engine: Engine, family: Family, published: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The formats of eight and of four bits: fp8 if the silicon computes it as fast as int8 or faster; four bits as storage on GPUs.

    Four bits of text models: first a checkpoint that is known to exist; then AWQ, whose kernels read packed weights and which covers the
    experts of a mixture; then the format that the engine makes while loading. A Mac reads compressed weights from llama.cpp's files only.
    """
    if engine not in FORMATS["int4"]:
        return ()
    fp8, int8 = silicon.peak("fp8"), silicon.peak("int8")
    eight = ("fp8" if fp8 is not None and fp8 >= (int8 or 0) else "int8", EIGHT_BITS)
    if silicon.kind != "gpu":
        return () if silicon.kind == "apple" else (eight,)
    if family in {"image", "video"}:  # diffusers makes these while loading
        return (("int8", EIGHT_BITS), ("int4", FOUR_BITS))
    if family not in SERVED_TASKS:
        return (eight, ("int4", FOUR_BITS))
    four = [name for name in published if name in {"awq-4", "gptq-4"}] or ["awq-4"]
    converted = ["int4"] if TRAITS[engine].own_modules else []
    return (eight, *((name, FOUR_BITS) for name in (*four, *converted)))
