"""`/resolve_model`, `/tensors` and `/dry_run`: what a model is, the bytes of each tensor, and the architecture run without values.

A dry run shows each figure and the closed form's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from lib import memory
from lib.answers.model import DryRunAnswer, FigureEntry, GgufFile, ModelAnswer, StoredFormat, TensorEntry, TensorsAnswer
from lib.errors import BadArgument, UnsupportedModel
from lib.laws.activation import FLOAT32, HALF, generation_peak_bytes
from lib.laws.forward_pass import attention_flop, linear_flop
from lib.laws.training import StepPart
from lib.laws.weights import weight_bytes
from lib.memory import estimate_memory
from lib.memory.objectives import list_objectives
from lib.memory.resolve import layer_sizes
from lib.memory.tower import add_media, hears
from lib.memory.training import estimate_training, step_peaks
from lib.model.dry_run_figures import DryRun, InferenceRun, TrainingRun
from lib.model.spec import ModelSpec, TensorGroup
from lib.precision import weight_format
from lib.provenance import Caveat, Source
from lib.request.fields import Arguments, Asked, one_of, whole_number
from lib.request.types import MAX_BATCH, MAX_TOKENS, Flag, Model
from lib.service.endpoint import App, endpoint
from lib.speed.model_work import derive_model_work
from lib.workload import MODES, MOST_RANK, MemoryRequest, Mode, TrainingRequest

if TYPE_CHECKING:
    from lib.workload import Method


class ModelArguments(Arguments):
    """Arguments of `/resolve_model`."""

    model: Model


@endpoint()
def resolve_model(app: App, arguments: ModelArguments) -> ModelAnswer:
    """Describe a model: parameters, weights as stored, layer kinds, the cache of each kind, limits.

    Returns:
        The resolved model.
    """
    return model_answer(app.models(arguments.model))


def model_answer(spec: ModelSpec) -> ModelAnswer:
    """A resolved model; `weights_bytes` is what it holds when loaded as it is stored."""
    loaded = estimate_memory(spec, MemoryRequest(context_tokens=1))
    by_dtype = _by_dtype(spec, loaded.weights.bytes, loaded.precision)
    unstated = [caveat for caveat in loaded.caveats if caveat.code == "dtype_unstated"]
    stored = spec.stored.quantization
    return ModelAnswer(
        id=spec.id,
        architecture=spec.architecture,
        model_type=spec.model_type,
        library=spec.library,
        media=tuple(name for name, read in (("images", spec.vision), ("sound", spec.sound)) if read),
        task=spec.task,
        objectives=list_objectives(spec),
        parameters_total=spec.parameters_total,
        parameters_active=spec.parameters_active,
        parameters_by_component=spec.parameters_by_component,
        weights_bytes=loaded.weights.bytes,
        weights_bytes_by_dtype=by_dtype,
        weights_bytes_by_component=spec.stored.bytes_by_component or loaded.weights.details,
        quantization=None if stored is None else StoredFormat(method=stored.method, format=stored.format, group_size=stored.group_size),
        context_limit_tokens=spec.context_limit,
        layer_kinds=spec.layer_kinds,
        cache=spec.cache_terms or (),
        license=spec.license,
        gated=spec.gated,
        source=spec.source,
        gguf_files=tuple(GgufFile(model=f"{spec.id.partition(':')[0]}:{label}", bytes=size) for label, size in spec.gguf_files),
        caveats=(*spec.caveats, *unstated, *_differs(sum(by_dtype.values()), loaded.weights.bytes)),
        sources=spec.sources,
    )


def _by_dtype(spec: ModelSpec, loaded: int, precision: str) -> dict[str, int]:
    """The weights by the dtype they lie in: as the headers list them, else as the law of their format gives them.

    Keys are safetensors' words ("BF16"), or the format's name where a format packs payload and scales together.
    """
    if spec.stored.bytes_by_dtype:
        return dict(spec.stored.bytes_by_dtype)
    form = weight_format(precision)
    if form.law != "plain":
        return {precision: loaded}
    whole = weight_bytes([g for g in spec.tensors if g.fp32 or (g.fp32_in_fp16 and precision == "fp16")], weight_format("fp32"))
    name = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}[precision]
    if name == "F32" or not whole:
        return {name: loaded}
    return {name: loaded - whole, "F32": whole}


def _differs(stored: int, loaded: int) -> tuple[Caveat, ...]:
    if stored == loaded:
        return ()
    return (Caveat("stored_bytes_differ", {"stored_bytes": stored, "loaded_bytes": loaded}),)


class TensorsArguments(Arguments):
    """Arguments of `/tensors`."""

    model: Model
    request: Annotated[MemoryRequest, Asked("precision engine quantized")] = MemoryRequest()


@endpoint()
def tensors(app: App, arguments: TensorsArguments) -> TensorsAnswer:
    """List the bytes of a model's weights: its tensors by component, block and name, in the asked precision, on one device.

    Returns:
        The tensors, the largest first; their bytes add up to the weights of `/estimate_memory`.
    """
    spec = app.models(arguments.model)
    if not spec.tensors:
        raise BadArgument("model", arguments.model, "a Hub id or a config.json: a parameter count alone has no tensors")
    estimate = memory.estimate_memory(spec, arguments.request)
    sizes, total = estimate.of.tensor_bytes, estimate.weights_bytes
    pairs = sorted(zip(spec.tensors, sizes, strict=True), key=lambda pair: (-pair[1], pair[0].component, pair[0].name))
    return TensorsAnswer(
        model=spec.id,
        precision=estimate.precision,
        engine=estimate.engine,
        parameters_total=spec.parameters_total,
        weights_bytes=total,
        tensors=tuple(_tensor_entry(group, size, total) for group, size in pairs),
        caveats=spec.caveats,
        sources=(*spec.sources, *estimate.sources[:1]),
    )


def _tensor_entry(group: TensorGroup, size: int, total: int) -> TensorEntry:
    return TensorEntry(
        component=group.component,
        block=group.block,
        kind=group.kind,
        name=group.name,
        shape=group.shape,
        count=group.count,
        parameters=group.parameters,
        bytes=size,
        share=round(size / total, 6) if total else 0.0,
    )


_PRECISION = "bf16"
_CLOSE = 0.05
_READS_TOKENS = frozenset({"decoder", "embedding decoder", "text encoder"})
_OTHERWISE = ("state", "latent")
"""Kinds of layers whose products the plain law of attention does not give."""


class DryRunArguments(Arguments):
    """Arguments of `/dry_run`."""

    model: Model
    prompt_tokens: Annotated[int, whole_number(1, MAX_TOKENS)] = 512
    """Tokens of each prompt; of a training step, its sequences."""
    output_tokens: Annotated[int, whole_number(1, MAX_TOKENS)] = 64
    """Tokens of each answer; the last step is executed at its end."""
    batch_size: Annotated[int, whole_number(1, MAX_BATCH)] = 1
    """Sequences at the same time."""
    mode: Annotated[Mode, one_of(MODES, Mode)] = "inference"
    """Inference, or how the model is trained."""
    rank: Annotated[int, whole_number(1, MOST_RANK)] = 16
    """Rank of LoRA and QLoRA, on all linear modules."""
    checkpointing: Flag = True
    """Whether a training step recomputes its layers."""


@endpoint()
def dry_run(app: App, arguments: DryRunArguments) -> DryRunAnswer:
    """Execute the real architecture without values and count bytes, FLOP and operations, each with its closed form.

    Bfloat16 throughout, text only, operators of a GPU; AdamW in a training step. One or two layers of each kind run for all of them.

    Returns:
        Each figure as executed, as the closed form of this app gives it, and their ratio.
    """
    return _answer(app, arguments, app.models.execute(*_question(arguments)))


def stream_dry_run(app: App, arguments: DryRunArguments) -> Iterator[DryRunAnswer | None]:
    """The same for the page: None about twice a second until the answer is there; closed early, it ends the run."""
    with closing(app.models.watch_execution(*_question(arguments))) as watched:
        for run in watched:
            yield None if run is None else _answer(app, arguments, run)


def _question(arguments: DryRunArguments) -> tuple[object, int, int, int, TrainingRequest | None]:
    training = None if arguments.mode == "inference" else training_step(arguments)
    output = 1 if training else arguments.output_tokens
    return arguments.model, arguments.batch_size, arguments.prompt_tokens, output, training


def _answer(app: App, arguments: DryRunArguments, run: DryRun) -> DryRunAnswer:
    """Each figure and the closed form's."""
    spec = app.models(arguments.model)
    if run.inference is not None:
        figures = inference_figures(run, run.inference, spec, arguments)
    elif run.training is not None:
        figures = training_figures(run, run.training, spec, arguments)
    else:
        raise UnsupportedModel("Nothing was executed. Ask again, or ask for the estimate, which needs no run.")
    executed = Source(what="executed figures", source=f"{run.architecture} under torch's FakeTensorMode", checked="")
    return DryRunAnswer(
        model=spec.id,
        architecture=run.architecture,
        mode=arguments.mode,
        layers=run.layers,
        layers_run=run.layers_run,
        peak_bytes=run.peak_bytes,
        figures=tuple(figures),
        caveats=(*spec.caveats, *_differences(figures)),
        sources=(executed, *spec.sources),
    )


def _differences(figures: list[FigureEntry]) -> Iterator[Caveat]:
    """Caveats where the closed form differs from the executed figures."""
    ratios = [(figure.name, figure.unit, figure.ratio) for figure in figures if figure.ratio is not None]
    for name, _, ratio in ratios:
        if name == "peak" and ratio < 1 - _CLOSE:
            yield Caveat("dry_run_too_low", {"share": 1 - ratio})
    if any(unit == "FLOP" and abs(ratio - 1) > _CLOSE for _, unit, ratio in ratios):
        yield Caveat("dry_run_flop")


def _figure(name: str, unit: str, executed: int, closed: float | None = None) -> FigureEntry:
    ratio = round(closed / executed, 4) if closed is not None and executed else None
    return FigureEntry(name=name, unit=unit, executed=executed, closed_form=None if closed is None else round(closed), ratio=ratio)


def inference_figures(run: DryRun, did: InferenceRun, spec: ModelSpec, arguments: DryRunArguments) -> list[FigureEntry]:
    """Weights, cache, activations, peak, FLOP and operations of an inference.

    FLOP as torch counts them: both halves of a causal mask, so twice what `attention_flop` says, and a window's layers in full.
    """
    prompt, output, batch = arguments.prompt_tokens, arguments.output_tokens, arguments.batch_size
    if did.decode is None:
        output = 1
    # Bytes: of the run, and of the closed form.
    request = MemoryRequest(precision=_PRECISION, kv_precision=_PRECISION, batch_size=batch)
    first, last, _, weights, moments = memory.estimate_generation(spec, request, prompt, output)
    apart = run.encoder_decoder
    peak_beside_cache = did.prefill.peak_bytes - did.prompt_cache_bytes
    figures = [
        _figure("parameters", "parameters", run.parameters, spec.parameters_total),
        _figure("weights and buffers", "bytes", run.weights_bytes + run.buffer_bytes, weights),
        _figure("cache at the end", "bytes", did.cache_bytes, None if apart else last.kv_cache.bytes),
        _figure("activations of the prompt", "bytes", peak_beside_cache, None if apart else first.activation.bytes),
        _figure("peak", "bytes", run.peak_bytes, None if apart else generation_peak_bytes(weights=weights, moments=moments)),
    ]
    # FLOP: only for layers whose work the closed form counts.
    work = derive_model_work(spec, _PRECISION, _PRECISION, _PRECISION, recorded=False)
    stack = work.decoder or work.encoder
    grows = bool(spec.cache_terms) or did.decode is None
    plain = grows and spec.work in _READS_TOKENS and not any(kind in name for name in spec.layer_kinds for kind in _OTHERWISE)
    prefill = decode = None
    if stack is not None and plain:
        size = layer_sizes(spec)
        layers = stack.full_layers + stack.windowed_layers
        head = stack.head_parameters if did.decode is not None else 0.0
        every = size.vocabulary * size.hidden if "MaskedLM" in spec.architecture else 0  # the table is the head of every position
        pairs = attention_flop(width=stack.attention_width, full_layers=layers, windowed_layers=0, window=0, tokens=prompt)
        matrices = linear_flop(parameters=stack.active_parameters + every, tokens=batch * prompt, head_parameters=head, sequences=batch)
        prefill = float(matrices + 2 * batch * pairs)
        length = max(prompt + 2, prompt + output - 1)
        read = 4.0 * stack.attention_width * (stack.full_layers * length + stack.windowed_layers * min(length, work.window or length))
        decode = float(linear_flop(parameters=stack.active_parameters, tokens=batch)) + batch * read
    figures.append(_figure("prefill", "FLOP", did.prefill.flop, prefill))
    figures.append(_figure("operations of the prefill", "operations", did.prefill.operations))
    if did.decode is not None:
        figures.append(_figure("decode step", "FLOP", did.decode.flop, decode))
        figures.append(_figure("operations of a decode step", "operations", did.decode.operations))
    return figures


def training_step(arguments: DryRunArguments) -> TrainingRequest:
    """The step that is executed: bf16, adapters in float32, plain loss, nothing packed, towers trained like the rest."""
    return TrainingRequest(
        method=cast("Method", arguments.mode), rank=arguments.rank, precision="bf16", fused_loss=False, packing=False, train_tower="yes",
        checkpointing="layers" if arguments.checkpointing else "none", sequence_tokens=arguments.prompt_tokens,
        micro_batch=arguments.batch_size,
    )  # fmt: skip


def training_figures(run: DryRun, did: TrainingRun, spec: ModelSpec, arguments: DryRunArguments) -> list[FigureEntry]:
    """Weights, states, saved activations, peak, FLOP and operations of a step.

    The closed form is that of `/estimate_training` for the step that is executed.
    Saved activations count the log-softmax, and the tanh of capped logits, which are alive between the two passes.
    """
    experts = any(group.kind == "expert" for group in spec.tensors)  # axolotl packs them, bitsandbytes by itself does not
    request = replace(training_step(arguments), stack="transformers" if experts else "axolotl")
    request = add_media(spec, request) if hears(spec) else request
    peaks, buffers, apart = step_peaks(spec, request), spec.buffer_bytes, run.encoder_decoder and not hears(spec)
    of = peaks.update
    weights = of[StepPart.WEIGHTS] + of[StepPart.ADAPTERS]
    width = (HALF if spec.work in {"text encoder", "speech"} else FLOAT32) + (HALF if spec.caps_logits else 0)
    softmax = width * layer_sizes(spec).vocabulary * request.micro_batch_tokens
    saved = None if apart else peaks.loss[StepPart.SAVED_ACTIVATIONS] + peaks.loss.get(StepPart.ENCODER, 0) + softmax
    peak = None if apart else max(sum(one.values()) for one in peaks) + buffers
    return [
        _figure("parameters", "parameters", run.parameters, spec.parameters_total),
        _figure("trained parameters", "parameters", did.trained_parameters, estimate_training(spec, request).trained_parameters),
        _figure("weights and buffers", "bytes", run.weights_bytes + run.buffer_bytes, weights + buffers),
        _figure("gradients", "bytes", did.gradient_bytes, of[StepPart.GRADIENTS]),
        _figure("optimizer states", "bytes", did.optimizer_bytes, of[StepPart.OPTIMIZER]),
        _figure("saved activations", "bytes", did.saved_bytes, saved),
        _figure("peak", "bytes", run.peak_bytes, peak),
        _figure("forward pass", "FLOP", did.forward.flop),
        _figure("backward pass", "FLOP", did.backward.flop),
        _figure("operations of the step", "operations", did.forward.operations + did.backward.operations + did.update.operations),
    ]
