"""The set-up that a pasted text describes, and the app's own figures for it.

Model, hardware, engine, settings, lengths and the release's defaults are read from the text; arguments of the caller come before it. A text
of a training run is compared with a training step, any other with one request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lib.answers.explain import Printed
from lib.catalog.engine_models import find_unlisted
from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.engines import ENGINES, traits_of, usual_engine
from lib.engines.traits import Setting
from lib.errors import AdvisorError, BadArgument, HubError, UnknownHardware
from lib.explain import Explanation
from lib.explain.advice import advise, advise_beyond
from lib.explain.names import Named
from lib.explain.rows import load_messages
from lib.memory import count_per_device, fit_memory, host_memory, usable_memory
from lib.memory.objectives import WITH_VALUE_MODEL, make_whole_groups, note_shown_as_grpo
from lib.memory.picture_training import check_picture_training, estimate_picture_training, trains_pictures
from lib.memory.resolve import choose_engine, first_engine_step, limit_context, settle_formats
from lib.memory.rollouts import estimate_step
from lib.memory.spread import spread
from lib.memory.training import TrainingMemory, check_training
from lib.model.plain_names import find_by_name, find_id, find_quantized
from lib.precision import NAMES, loads
from lib.provenance import Caveat
from lib.request.objectives import MOST_GENERATIONS, OBJECTIVE_TRAITS, RolloutRequest
from lib.request.serving import drop_settings, read_flags
from lib.request.sharding import SHARDING_TRAITS
from lib.request.types import AUTO, MAX_BATCH, MAX_CONCURRENCY, MAX_TOKENS, check_precision
from lib.request.words import find_choice, find_meaning, note_reading
from lib.service.models import read_copy
from lib.speed import SpeedRequest, predict_speed
from lib.workload import ACCUMULATION, PROMPT_TOKENS, MemoryRequest, TrainingRequest

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.model.spec import ModelSpec
    from lib.service.endpoint import App

_ENGINE_OF = {"ollama": "llama.cpp"}
"""Programs that are an engine under another name."""
_LENGTHS = ("max_model_len", "n_ctx_slot", "n_ctx", "max_total_tokens_set")
_OF_LENGTH_AND_CARDS: tuple[Setting, ...] = (
    "max_model_len", "ctx_size", "parallel", "cpu_moe_layers", "tensor_parallel", "pipeline_parallel", "data_parallel",
)  # fmt: skip
"""Settings that the length and the devices of the predicted request say already, and experts in host memory, which no step names."""
_SHARE = re.compile(r"[01]?\.\d{1,4}|1")
_MOST_CARDS = 64
_TENSOR_FLAGS, _PIPELINE_FLAGS = ("tensor_parallel_size", "tp_size", "num_shard"), ("pipeline_parallel_size", "pp_size")
_SAME_SIZE = 0.1
"""Two sizes of a card's memory within this are the same card: driver and display take some of it."""
_MOST_COPIES = 100
"""Words that are read as names of quantized copies, the first ones."""
_STEP_COUNTS = {
    "per_device_train_batch_size": ("micro_batch", MAX_BATCH), "train_batch_size": ("micro_batch", MAX_BATCH),
    "batch": ("micro_batch", MAX_BATCH), "max_seq_length": ("sequence_tokens", MAX_TOKENS), "max_seq_len": ("sequence_tokens", MAX_TOKENS),
    "cutoff_len": ("sequence_tokens", MAX_TOKENS), "max_length": ("sequence_tokens", MAX_TOKENS),
    "max_len": ("sequence_tokens", MAX_TOKENS), "num_generations": ("generations", MOST_GENERATIONS),
    "max_completion_length": ("completion_tokens", MAX_TOKENS), "gradient_accumulation_steps": ("accumulation", MAX_BATCH),
}  # fmt: skip
"""Settings and printed numbers of training programs that are a field of a training request or of its rollouts, with its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """Model, hardware and engine of a text, as far as they are known."""

    spec: ModelSpec | None
    hardware: Hardware | None
    engine: Any
    precision: str = AUTO
    """The format of a quantized copy, which the name of its repository tells."""
    size: str = ""
    """The parameter count in place of a model, such as 70B."""
    unread: tuple[Caveat, ...] = ()
    """Why the model that was asked for is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The app's figures for a set-up, settings with which it would fit, and what these figures leave open."""

    figures: dict[str, Printed] = field(default_factory=dict)
    advice: dict[str, int | float | str] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()


def find_set_up(app: App, catalog: Catalog, said: Explanation, model: object, hardware: Any, engine: str) -> SetUp:
    """The set-up of a text: what the caller names, else what the text names alone."""
    spec, precision, unread = _find_model(app, model, said)
    found = _find_hardware(catalog, hardware, said)
    chosen = _find_engine(engine, said, spec, found)
    size = "" if spec is None or spec.source != "rule_of_thumb" else str(model or said.named.sizes[0][0])
    return SetUp(spec=spec, hardware=found, engine=chosen, precision=precision, size=size, unread=unread)


def _find_model(app: App, asked: object, said: Explanation) -> tuple[ModelSpec | None, str, tuple[Caveat, ...]]:
    """The model that the caller names; else the only one of the text, if the catalog has it or the model that it is a copy of."""
    if asked != "":
        try:
            return app.models(asked), AUTO, ()
        except HubError as refused:  # the text can be explained without it
            return None, AUTO, (Caveat("explain_not_predicted", {"reason": str(refused)}),)
    spec, precision = _find_named(app, said.named)
    return spec, precision, ()


def _find_named(app: App, named: Named) -> tuple[ModelSpec | None, str]:
    """The only model that a text names, else the only size, and the format that the name or the next word says."""
    listed = app.models.bundled
    names = named.models or tuple(name for name in named.mentioned if name in listed) or named.tags or _find_bare(named.bare)
    if not names and len(named.sizes) == 1:
        size, word = named.sizes[0]
        return app.models(size), find_choice("precision", word, NAMES) or AUTO
    if len(names) != 1:
        return None, AUTO
    name = names[0]
    if name in listed:
        return app.models(name), AUTO
    if (copied := read_copy(name)) is not None:
        return copied, AUTO
    whole = None if "/" in name else find_by_name(name) or find_id(name)
    meant, precision = find_quantized(name) or (whole, AUTO)
    if meant is None:
        return None, AUTO
    note_reading("model", name, meant if precision == AUTO else f"{meant} in {precision}")
    return app.models(meant), precision


def _find_bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that are names of bundled models, or of quantized copies of one, without their owners; each model once."""
    models = {model: word for word in reversed(words) if (model := find_by_name(word)) is not None}
    if models:
        return tuple(models.values())
    copies = {copied: word for word in reversed(words[:_MOST_COPIES]) if (copied := find_quantized(word)) is not None}
    return tuple(copies.values())


def _find_hardware(catalog: Catalog, asked: Any, said: Explanation) -> Hardware | None:
    """The hardware that the caller names, else the only card of the text, with as many cards as the text splits the model over."""
    if asked != "":
        return _with_cards(catalog, catalog.resolve_hardware(asked), _stated_cards(said))
    if len(said.named.cards) != 1:
        return None
    printed = said.named.cards[0]
    found, shortened = _resolve_card(catalog, printed.removeprefix("Tesla ").removesuffix(" Edition"))
    if found is None:
        return None
    count = max(_stated_cards(said), min(_MOST_CARDS, said.named.card_count))
    card = _card_of_size(catalog, found, said)
    if shortened:
        note_reading("hardware", printed, card.id)
    of_catalog = not found.traits.owned and (card != found.processor or count > found.accelerator_count > 0)
    if of_catalog or (shortened and card != found.processor):
        found = catalog.resolve_hardware(card.id)  # an offer has another card, or fewer of them, than the text
    return found.with_count(count) if found.traits.owned and count > 1 else found


def _with_cards(catalog: Catalog, given: Hardware, count: int) -> Hardware:
    """The hardware, or so many cards of its kind where it has fewer: the text's flags say that the model ran on them."""
    if not 0 < given.accelerator_count < count:
        return given
    own: Hardware = given if given.traits.owned else catalog.resolve_hardware(given.processor.id)
    return own.with_count(count) if own.traits.owned else given


def _resolve_card(catalog: Catalog, printed: str) -> tuple[Hardware | None, bool]:
    """The hardware of a printed name, and whether the name had to be shortened: the catalog lacks the A100 PCIe of 40 GB."""
    parts = printed.split("-")
    for length in range(len(parts), 0, -1):
        try:
            return catalog.resolve_hardware("-".join(parts[:length])), length < len(parts)
        except UnknownHardware:
            continue
    return None, False


def _card_of_size(catalog: Catalog, found: Hardware, said: Explanation) -> Accelerator:
    """The card, in the variant whose memory the text prints: an A100 of 39.6 GiB is the one of 40 GB."""
    printed = next((size for name in ("capacity_bytes", "total_bytes") if isinstance(size := said.numbers.get(name), int)), 0)
    card, chip = found.processor, found.processor.id.partition("-")[0]
    if not printed or found.silicon is None or _same_size(card, printed):
        return card
    variants = (other for other in catalog.accelerators.values() if other.id.partition("-")[0] == chip and _same_size(other, printed))
    return next(variants, card)


def _same_size(card: Accelerator, printed: int) -> bool:
    return card.memory_usable is not None and abs(card.memory_usable - printed) <= _SAME_SIZE * printed


def _stated_cards(said: Explanation) -> int:
    """The cards that hold one copy of the model by the flags of the text: those of a tensor split, times the stages of a pipeline."""
    return min(_MOST_CARDS, _stated_number(said, _TENSOR_FLAGS) * _stated_number(said, _PIPELINE_FLAGS))


def _stated_number(said: Explanation, flags: tuple[str, ...]) -> int:
    stated = next((said.named.flags[name] for name in flags if name in said.named.flags), "1")
    return int(stated) if stated.isdecimal() and 0 < int(stated) <= _MOST_CARDS else 1


def _find_engine(asked: str, said: Explanation, spec: ModelSpec | None, hardware: Hardware | None) -> Any:
    """The engine that the caller names, else the program of the text, its variant for the hardware, or the usual engine there."""
    if asked != AUTO:
        return asked
    programs = (_ENGINE_OF.get(program, program) for program in (said.program, *said.programs))
    own_files = spec is not None and spec.library == "gguf"
    engine: Any = next((program for program in programs if program in ENGINES), "llama.cpp" if own_files else "transformers")
    if hardware is None:
        return engine
    kind = hardware.processor.kind
    variants = (name for name in ENGINES if name.startswith(f"{engine}-") and kind in traits_of(name).advised_on)
    return next(variants, engine if traits_of(engine).runs_on(hardware.processor) else usual_engine(kind, own_files=own_files))


def predict(of: SetUp, said: Explanation, catalog: Catalog) -> Prediction:
    """The app's figures for the set-up; none, with the reason, where the model or the hardware is not known."""
    spec, hardware = of.spec, of.hardware
    if spec is None or hardware is None:
        comparable = said.recognised and said.program not in load_messages().unpredicted and not of.unread
        missing = Caveat("explain_not_compared", variant="model" if spec is None else "hardware")
        return Prediction(caveats=(*of.unread, *((missing,) if comparable else ())))
    if (memory := usable_memory(hardware)) is None:
        return Prediction()
    try:
        if said.phase == "train":
            return _predict_training(spec, hardware, memory, said)
        request = _request(of, spec, hardware, said)
        advice = advise(spec, request, memory, hardware.processor, stated_share(said))
        figures = _figures(spec, hardware, memory, request, said, catalog)
        if figures["fits"]:
            advice |= advise_beyond(spec, request, hardware.processor)
        loading = advice.get("loading_bytes")
        if said.stated.get("loads") == "whole" and isinstance(loading, int):
            figures |= {"loading_bytes": loading, "fits": bool(figures["fits"]) and loading <= memory}
        unlisted = find_unlisted(of.engine, spec.architecture, spec.model_type, on_gpu=hardware.processor.kind == "gpu")
        dropped = (Caveat("engine_dropped", unlisted),) if unlisted and "last_version" in unlisted else ()
        return Prediction(figures=figures, advice=advice, caveats=(*dropped, *spec.caveats))
    except AdvisorError as refused:
        return Prediction(caveats=(Caveat("explain_not_predicted", {"reason": str(refused)}),))


def _precision(of: SetUp, spec: ModelSpec, flags: Mapping[str, str], engine: Any) -> str:
    """The format that the settings of the text load the weights in; auto for a checkpoint that is quantized, and where none is named."""
    switched_on = [name for name in ("load_in_4bit", "load_in_8bit") if flags.get(name) == "True"]
    named = [*switched_on, *(flags[name] for name in ("quantization", "dtype", "torch_dtype") if name in flags), of.precision]
    if of.precision != AUTO:
        named.insert(0, of.precision)
    if named[0] == AUTO or spec.stored.quantization is not None:
        return AUTO
    try:
        precision = check_precision("precision", named[0], NAMES)
    except BadArgument:  # a word for a format that is stored in the checkpoint, such as compressed-tensors
        return AUTO
    return precision if loads(engine, precision) else AUTO


def _request(of: SetUp, spec: ModelSpec, hardware: Hardware, said: Explanation) -> MemoryRequest:
    """One request with the settings of the text."""
    flags, chosen = said.named.flags, choose_engine(spec, of.engine)
    serving, settings = read_flags(chosen, flags), traits_of(chosen).settings
    stated = next((length for name in _LENGTHS if isinstance(length := said.numbers.get(name), int) and length > 0), 0)
    length = limit_context(spec, stated or serving.longest_tokens(1) or spec.context_limit or 4096)[0]
    stated_devices = _stated_cards(said)
    devices = min(stated_devices, max(1, hardware.accelerator_count)) if stated_devices > 1 else spread(spec, chosen, hardware).devices
    share = stated_share(said)
    if share is not None and "gpu_memory_utilization" in settings:
        serving = replace(serving, gpu_memory_utilization=share)
    if said.stated.get("profile") == "length" and "max_num_batched_tokens" in settings and serving.max_num_batched_tokens is None:
        serving = replace(serving, max_num_batched_tokens=first_engine_step(spec, length))
    request = MemoryRequest(
        precision=_precision(of, spec, flags, chosen),
        engine=chosen,
        context_tokens=length,
        devices=devices,
        serving=drop_settings(serving, *_OF_LENGTH_AND_CARDS),
    )
    return settle_formats(request)


def stated_share(said: Explanation) -> float | None:
    """The share of a device that a message or a setting of the text gives the server."""
    flagged = said.named.flags.get("gpu_memory_utilization", "")
    share = said.numbers.get("utilization", float(flagged) if _SHARE.fullmatch(flagged) else None)
    return share if isinstance(share, float) and 0 < share <= 1 else None


def _figures(
    spec: ModelSpec, hardware: Hardware, memory: int, request: MemoryRequest, said: Explanation, catalog: Catalog
) -> dict[str, Printed]:
    of = count_per_device(spec, request, hardware.processor)
    fit = fit_memory(spec, request, memory, hardware.processor, host_bytes=host_memory(hardware))
    found: dict[str, Printed] = {
        "weights_bytes": of.device_weights,
        "per_device_bytes": of.peak(request.context_tokens, 1),
        "capacity_bytes": memory,
        "engine_bytes": fit.capacity_bytes,
        "devices": request.devices,
        "precision": of.request.precision,
        "fits": fit.fits,
    }
    if spec.work == "pipeline":
        return found
    found |= {"needed_bytes": of.worst_cache(request.context_tokens, 1), "context_tokens": request.context_tokens}
    if fit.kv_cache_tokens is not None:
        found["kv_cache_tokens"] = fit.kv_cache_tokens
        found["available_bytes"] = fit.capacity_bytes - of.beside_cache(request.context_tokens, 1)
    if fit.max_context_tokens is not None:
        found["longest_context_tokens"] = fit.max_context_tokens
    if "tokens_per_s" in said.numbers and (speed := _speed(spec, hardware, request.engine, said, catalog)) is not None:
        found["tokens_per_s"] = speed
    return found


def _speed(spec: ModelSpec, hardware: Hardware, engine: Any, said: Explanation, catalog: Catalog) -> float | None:
    running = said.numbers.get("running", 1)
    request = SpeedRequest(engine=engine, concurrency=running if isinstance(running, int) and 0 < running <= MAX_CONCURRENCY else 1)
    rate = predict_speed(spec, hardware, request, catalog.accelerators).output_tokens_per_s
    return None if rate is None else rate.value


def _predict_training(spec: ModelSpec, hardware: Hardware, memory: int, said: Explanation) -> Prediction:
    """Memory of a training step with the method, lengths and sharding of the text, the rest as in /estimate_training, and of cures."""
    request = _training_request(hardware, said)
    pictures = trains_pictures(spec)
    step = _training_step(spec, request)
    advice: dict[str, int | float | str] = {}
    cures: dict[str, dict[str, Any]] = {
        "sharded": {"sharding": "zero3"},
        "offloaded": {"sharding": "zero3_offload"},
        "packed": {"method": "qlora"},
        **({"recomputed": {"checkpointing": "layers"}} if request.checkpointing == "none" else {}),
    }
    needed: dict[str, float] = {}
    for name, fields in cures.items():
        cure = replace(request, **fields)
        alone = cure.devices == 1 and not SHARDING_TRAITS[cure.sharding].trains_alone and cure.sharding != "none"
        needed[name] = math.inf if alone else _step_bytes(spec, cure)
    least = min(needed.values())
    for name, size in needed.items():  # where one cure is enough, those that are not are left out
        helps = size < step.device.typical and (size <= memory or least > memory)
        advice |= {f"{name}_bytes": int(size)} if helps else {f"{name}_helps_not": name}
    figures: dict[str, Printed] = {
        "per_device_bytes": int(step.device.typical),
        "per_device_high_bytes": int(step.device.high),
        "capacity_bytes": memory,
        "method": request.method,
        "objective": request.objective,
        "sharding": request.sharding,
        "devices": request.devices,
        "micro_batch": request.micro_batch,
        "checkpointing": request.checkpointing,
        **({} if pictures else {"sequence_tokens": request.sequence_tokens}),
        **({"accumulation": request.accumulation, "generations": request.rollout.generations} if request.samples else {}),
        "fits": step.device.typical <= memory,
    }
    return Prediction(figures=figures, advice=advice, caveats=spec.caveats)


def _step_bytes(spec: ModelSpec, request: TrainingRequest) -> float:
    """Bytes of a step on the fullest device; infinite for a combination that the stack lacks."""
    try:
        return int(_training_step(spec, request).device.typical)
    except AdvisorError:
        return math.inf


def _training_step(spec: ModelSpec, request: TrainingRequest) -> TrainingMemory:
    if trains_pictures(spec):
        check_picture_training(spec, request)
        return estimate_picture_training(spec, request)
    check_training(spec, request)
    return estimate_step(spec, request)


def _training_request(hardware: Hardware, said: Explanation) -> TrainingRequest:
    flags, stated = said.named.flags, said.stated
    fields: dict[str, Any] = {name: stated[name] for name in ("objective", "sharding", "checkpointing") if name in stated}
    method = stated.get("method", "full")
    packed = {"load_in_4bit": "qlora", "load_in_8bit": "lora-8bit"}
    fields["method"] = next((packed[name] for name in packed if flags.get(name) == "True" and method != "full"), method)
    if stated.get("base") == "4bit" and flags.get("load_in_4bit") != "False" and fields["method"] in {"full", "lora"}:
        fields["method"] = "qlora"  # a base of 4 bits is trained by adapters only
    for name, (setting, most) in _STEP_COUNTS.items():
        value = flags.get(name, str(said.numbers.get(name, "")))
        if value.isdecimal() and 0 < int(value) <= most:
            fields.setdefault(setting, int(value))
    devices = max(1, hardware.accelerator_count)
    if devices > 1:
        fields.setdefault("sharding", "ddp")
    else:
        fields.pop("sharding", None)  # one card shares nothing
    shown = find_meaning("unmodelled_objective", fields.get("objective", ""))
    if shown is not None:
        note_shown_as_grpo(shown)
        fields["objective"] = find_meaning("objective", fields["objective"])
    samples = OBJECTIVE_TRAITS[fields.get("objective", "sft")].samples
    if not (samples and "micro_batch" in fields):  # a stated batch of answers is often the whole step
        fields.setdefault("accumulation", ACCUMULATION)
    packing = fields.get("objective", "sft") == "sft"
    if "completion_tokens" in fields:
        fields.setdefault("sequence_tokens", PROMPT_TOKENS + fields["completion_tokens"])
    rollout = RolloutRequest(**{name: fields.pop(name) for name in ("generations", "completion_tokens") if name in fields})
    rollout = replace(rollout, value_model=shown in WITH_VALUE_MODEL)
    return make_whole_groups(TrainingRequest(**fields, devices=devices, packing=packing, rollout=rollout))
