"""Converts questions about speed to the inputs of the laws.

A question is a model, hardware and a request. `resolve_engine_config` decides everything that it leaves open (formats, devices, layout,
requests that run) and returns an `EngineConfig`. `describe_passes` makes rows of it: one for the decoder, and one for an encoder or a tower
that runs before it; a model without a decoder has the encoder's row only. `tabulate` joins the rows of all questions to arrays
(`CostModelInputs`), so that each law computes them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib import engines
from lib import precision as precisions
from lib.catalog.kernels import is_weight_only
from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.errors import BadArgument, UnsupportedModel
from lib.laws.forward_pass import Array
from lib.laws.parallelism import ceil_divide
from lib.laws.serving import MEAN_FILL
from lib.memory import count_sequences
from lib.memory.media import PromptMedia, resolve_media
from lib.memory.resolve import choose_engine, limit_length, resolve_cache_format, settle_formats
from lib.model.spec import ModelSpec
from lib.precision import weight_format
from lib.provenance import Caveat
from lib.request import types as asked
from lib.request.fields import Asked, Request
from lib.request.media import TEXT_ONLY, MediaRequest
from lib.request.serving import DEFAULTS, ServingSettings, check_settings, drop_settings
from lib.speed.calibration import ALL_ROWS, CACHE_COPYING, EAGER, ENGINES, FUSED_ROWS, KERNELS, MAX_NUM_SEQS, OWN_FILES
from lib.speed.hardware import Ceilings, Devices, Layout, class_ceilings, emulates, lay_out, resolve_devices
from lib.speed.model_work import DecoderStack, ForwardCost, derive_model_work
from lib.workload import AS_THE_PIPELINE, MemoryRequest, PipelineRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRequest(Request):
    """One question about speed: so many requests in flight all the time, each of the same shape.

    Tokens mean nothing for pipelines that make pictures.
    """

    precision: asked.Precision = "auto"
    engine: asked.Engine = "transformers"
    prompt_tokens: asked.Tokens = 512
    """Tokens of a prompt (encoders: of a sequence)."""
    output_tokens: asked.Tokens = 256
    """Tokens of an answer (sound: of each window of half a minute)."""
    concurrency: asked.Concurrency = 1
    """Requests in flight all the time (pictures: of a batch)."""
    gpu_layers: asked.GpuLayers = None
    pictures: Annotated[PipelineRequest, Asked("width height frames steps guidance")] = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
    kv_precision: str = "auto"
    """Precision of the KV cache, a name of `lib.precision`."""
    serving: ServingSettings = DEFAULTS


SpeedQuestion = tuple[ModelSpec, Hardware, SpeedRequest]
WITH_CROSS_ATTENTION = 1.5  # a layer has three blocks instead of two: 1.5 times the kernels
BOTH_WAYS = 2  # encoders also attend to later tokens: twice the pairs of a causal mask
Columns = dict[str, float]


class EngineConfig(NamedTuple):
    """A model as an engine runs it on hardware: the formats in which it is stored and multiplied, on which devices, for how many requests.

    `compute`: dtype of activations. `arithmetic`: units that multiply the weights. `ceilings`: their datasheet rates by card class.
    `running_requests`: number of requests in flight that run at the same time.
    """

    spec: ModelSpec
    devices: Devices
    layout: Layout
    request: SpeedRequest
    precision: str
    compute: str
    work: ForwardCost
    arithmetic: str
    ceilings: Ceilings
    running_requests: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModelInputs:
    """Inputs of the laws, in base units: arrays of shape (n,); `bandwidth`, `compute` and `attention` of shape (n, card classes + 1).

    Model.
        `engine`, `kernel`: places in `ENGINES` and `KERNELS`. `dense_bytes`, `expert_bytes`: weights outside and inside routed experts.
        `experts_per_token`: experts that a token reaches. `active_parameters`: those that a token uses; `head_parameters`: those of the
        output projection, which only the last position passes. `cache_constant`, `cache_per_token`, `cache_windowed`, `window`: sums of
        `lib.laws.forward_pass`. `cache_shards`: devices over which the cache can be split (its heads).
    Software.
        `cache_copied`: the cache is copied at each step, and each key is repeated for `cache_repeats` query heads (`cache_bytes_copied`).
        `packed_parameters`: weights that are unpacked to memory beyond `fused_rows` rows (`unpacked_bytes_moved`). `emulated`: the card
        emulates the arithmetic. `converted`: weights are converted to a wider type.
    Hardware.
        `bandwidth`, `compute`, `attention`: datasheet rates of one device by class, and measured rates, which are the share `of_datasheet`
        (`lib.speed.hardware`). `memory` of one device; its `link` in bytes/s, which may be PCIe.
    Layout.
        `tensor_parallel` devices, `pipeline_stages`, independent `replicas`. `row_split` and `pipelined` are llama.cpp's two ways.
    Request.
        `running_requests`: those that run at once. `static_cache_tokens`: allocated length that static caches read, 0 elsewhere.
        `prefix_tokens`: tokens of a prompt that are already in the cache. `held_steps`: decode steps that a server lets new requests wait
        so that they start together (0 by every engine's default). `bunched_arrivals`: an engine that schedules a step ahead gets requests
        of exactly one length, as in some benchmarks. `scheduled_between`: the release schedules in Python between two steps while the
        device waits, as vLLM did before 0.8. `unrecorded`: the server was told not to record decode steps as CUDA graphs.
    """

    engine: NDArray[np.int64]
    kernel: NDArray[np.int64]
    eager: NDArray[np.bool_]
    dense_bytes: Array
    expert_bytes: Array
    experts: Array
    experts_per_token: Array
    active_parameters: Array
    head_parameters: Array
    layers: Array
    hidden: Array
    attention_width: Array
    full_layers: Array
    windowed_layers: Array
    cache_constant: Array
    cache_per_token: Array
    cache_windowed: Array
    window: Array
    cache_shards: Array
    cache_copied: NDArray[np.bool_]
    cache_repeats: Array
    packed_parameters: Array
    fused_rows: Array
    emulated: NDArray[np.bool_]
    converted: NDArray[np.bool_]
    bandwidth: Array
    compute: Array
    attention: Array
    of_datasheet: Array
    memory: Array
    link: Array
    over_pcie: NDArray[np.bool_]
    tensor_parallel: Array
    pipeline_stages: Array
    replicas: Array
    row_split: NDArray[np.bool_]
    pipelined: NDArray[np.bool_]
    prompt_tokens: Array
    output_tokens: Array
    running_requests: Array
    static_cache_tokens: Array
    prefix_tokens: Array
    held_steps: Array
    bunched_arrivals: NDArray[np.bool_]
    scheduled_between: NDArray[np.bool_]
    unrecorded: NDArray[np.bool_]

    def __len__(self) -> int:
        """n, the number of rows."""
        return len(self.engine)

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> CostModelInputs:
        """The rows at these places, or those where a mask is true."""
        return CostModelInputs(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


DTYPES = dict.fromkeys(
    (
        "eager", "cache_copied", "emulated", "converted", "over_pcie", "row_split", "pipelined", "bunched_arrivals", "scheduled_between",
        "unrecorded",
    ),
    np.bool_,
) | {"engine": np.int64, "kernel": np.int64}  # fmt: skip
"""Types of the columns that are not float64."""


def choose_arithmetic(precision: str, compute: str, card: Accelerator, engine: str) -> str:
    """The units that multiply weights of this format: its own where the silicon has a rate for them, else those of the compute dtype.

    A processor without bf16 instructions converts to float32, at best as fast as float32 itself. llama.cpp multiplies quantized weights
    with 8-bit integer units of a GPU. The 8-bit products of bitsandbytes are a small part of its time. No source shows eager kernels for
    fp8 to be faster than those for 16 bits: the authors of Qwen3 call theirs unoptimised (qwen.readthedocs.io, speed benchmark).
    """
    form = weight_format(precision)
    if form.law == "gguf" and form.bits < 16 and engine in OWN_FILES:  # noqa: PLR2004
        return "int8"
    if form.law == "plain" or not form.arithmetic or form.law == "bnb8":
        return "fp32" if card.kind == "cpu" and not card.supports(compute) else compute
    if engine in EAGER and form.arithmetic == "fp8":
        return compute
    return form.arithmetic if card.peak(form.arithmetic) else compute


def resolve_engine_config(question: SpeedQuestion, accelerators: Mapping[str, Accelerator]) -> EngineConfig:
    """Decide precision, layout and how many requests run at once; `accelerators` are the catalog's, as in `lib.speed.hardware`.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware, does not run the model or was not measured.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: nothing is known about the model's work per token.
    """
    spec, hardware, request = question
    # Reject questions that the laws do not cover.
    if spec.library == "diffusers":
        raise UnsupportedModel(f"{spec.id or 'A pipeline'} makes pictures: its speed does not follow from tokens.")
    if spec.library == "timm":
        raise UnsupportedModel(
            f"{spec.id} is a model of timm: its work follows from pixels, and nothing is known of it. Measure it instead."
        )
    request = settle_formats(replace(request, engine=choose_engine(spec, request.engine)))
    check_settings(request.engine, question[2].serving)
    answered = 0 if spec.work in {"text encoder", "embedding decoder"} else request.output_tokens
    limit_length(spec, request.serving, request.prompt_tokens + answered, request.concurrency)
    zerogpu = hardware.traits.per_call
    if zerogpu and not engines.traits_of(request.engine).on_zerogpu:
        if spec.library == "gguf":
            raise BadArgument(
                "hardware", hardware.id, "hardware on which llama.cpp runs for a GGUF file; ZeroGPU lends its card to PyTorch"
            )
        able = ", ".join(name for name in engines.list_engines(spec.work) if engines.traits_of(name).on_zerogpu)
        raise BadArgument("engine", request.engine, f"{able} on ZeroGPU, which lends its card to PyTorch for one call at a time")
    # Devices, formats and layout.
    devices = resolve_devices(hardware, accelerators)
    if zerogpu and request.concurrency > 1:  # each call has a card of its own
        not_shared = Caveat("calls_not_shared", {"concurrency": request.concurrency})
        devices, request = replace(devices, caveats=(*devices.caveats, not_shared)), replace(request, concurrency=1)
    card = devices.silicon
    precision = precisions.resolve(request.precision, spec, request.engine, card)
    compute = precisions.compute_dtype(precision, spec, card)
    layout = lay_out(hardware, devices, request.engine, spec, request.serving)
    cache = resolve_cache_format(spec, request.engine, precision, request.kv_precision, compute)
    # Work of a token, in the type in which the silicon computes.
    work = derive_model_work(spec, precision, compute, cache, recorded=layout.engine not in EAGER)
    timed_as = native_format(precision, compute, card)
    packed = is_weight_only(layout.engine, precision, card, mixture=spec.is_mixture)
    if timed_as != precision and not packed:  # stored in `precision`, computed as if stored in the wider type
        native = derive_model_work(spec, timed_as, timed_as, cache if cache != compute else timed_as, recorded=layout.engine not in EAGER)
        work = native._replace(total_bytes=work.total_bytes, kernel=work.kernel)
    arithmetic = choose_arithmetic(precision, compute, card, layout.engine)
    return EngineConfig(
        spec=spec,
        devices=devices,
        layout=layout,
        request=request,
        precision=precision,
        compute=compute,
        work=work,
        arithmetic=arithmetic,
        ceilings=class_ceilings(card, devices.share, arithmetic, accelerators),
        running_requests=_running_requests(spec, work, devices, layout, request),
    )


def native_format(precision: str, compute: str, card: Accelerator) -> str:
    """The format whose speed applies: the format itself, or the plain one to which it is converted if the silicon has no units for it.

    fp8 on a GPU without fp8 units: transformers unpacks it to 16 bits while loading (its FP8 quantizer, below compute capability 8.9).
    Weight-only kernels multiply in that type too, but read the weights packed (`lib.catalog.kernels`): in FP8 two RTX 3090 made 1.5 times
    the tokens of Qwen3-8B, 1.25 times of 14B, 1.05 times of 4B (vLLM; FP16: 387, 214, 749 tokens/s; r/LocalLLaMA 1kkvqti, 2025-05-12).
    bf16 on a processor without bf16 instructions: float32, because the conversion costs more than it saves (torch 2.13 limited to AVX2 or
    AVX-512 took 1.6-4 times as long as float32, tried 2026-11-22).
    """
    form = weight_format(precision)
    if card.kind == "gpu" and form.arithmetic == "fp8" and not card.peak("fp8"):
        return compute
    if card.kind == "cpu" and form.law == "plain" and form.bits == 16 and not card.supports(precision):  # noqa: PLR2004 bits
        return "fp32"
    return precision


def _running_requests(spec: ModelSpec, work: ForwardCost, devices: Devices, layout: Layout, request: SpeedRequest) -> float:
    """Number of requests in flight that run together. Two limits: the memory after the weights, and the engine's own (max_num_seqs)."""
    if work.decoder is None or not devices.memory:
        return float(request.concurrency)
    each, limit = ceil_divide(request.concurrency, layout.replicas), request.serving.sequences
    wanted = min(each, limit or (each if layout.engine in EAGER else MAX_NUM_SEQS[layout.engine]))
    if wanted <= 1:
        return float(min(request.concurrency, layout.replicas))
    timed = engines.find_engine(layout.engine)
    mean = MemoryRequest(
        precision=request.precision,
        engine=timed if timed is not None and timed in engines.list_engines(spec.work) else request.engine,
        context_tokens=request.prompt_tokens + round(request.output_tokens * MEAN_FILL),
        kv_precision=request.kv_precision,
        devices=layout.tensor_parallel * layout.pipeline_stages,
        media=request.media,
        serving=drop_settings(request.serving, "data_parallel"),
    )
    fitting = count_sequences(spec, mean, int(devices.memory), devices.silicon, at_most=wanted)
    of_one_replica = wanted if fitting is None else max(1, fitting)  # if none fits, the speed is that of one
    return float(min(request.concurrency, of_one_replica * layout.replicas))


def describe_passes(of: EngineConfig) -> tuple[Columns, Columns | None]:
    """The row of a configuration, and that of the encoder that runs before its decoder."""
    work, request = of.work, of.request
    if work.decoder is None:
        assert work.encoder is not None  # noqa: S101 one of the two is always there
        return _row(of, work.encoder, count_read(of), 1.0, cached=False), None
    if work.encoder is None:
        media = resolve_media(of.spec, request.media)
        decoder = _row(of, work.decoder, request.prompt_tokens + media.tokens, request.output_tokens, cached=True)
        return decoder, _tower_row(of, work.tower, media)
    layers = work.decoder.layers * WITH_CROSS_ATTENTION
    decoder = _row(of, work.decoder._replace(layers=layers), 1.0, request.output_tokens, cached=True)
    return decoder, _row(of, work.encoder, count_read(of), 1.0, cached=False)


def count_read(of: EngineConfig) -> int:
    """Positions that an encoder reads in a pass: those of a picture or a sound, else tokens of the prompt up to the context limit."""
    heard = of.work.encoder_tokens if of.spec.task == "automatic-speech-recognition" else 0
    limit = of.spec.context_limit if of.work.decoder is None else None
    prompt = of.request.prompt_tokens if limit is None else min(limit, of.request.prompt_tokens)
    return resolve_media(of.spec, of.request.media).read_positions or heard or prompt


def _tower_row(of: EngineConfig, tower: DecoderStack | None, media: PromptMedia) -> Columns | None:
    """The row of the tower's passes over the pictures of one step: those of a batch that starts together, or of one request."""
    if tower is None or not (media.passes and tower.layers):
        return None
    row = _row(of, tower, media.positions, 1.0, cached=False)
    requests = of.running_requests if of.layout.engine in EAGER else row["replicas"]
    return row | {"running_requests": requests * media.passes, "window": of.work.tower_window}


def _row(of: EngineConfig, stack: DecoderStack, prompt_tokens: float, output_tokens: float, *, cached: bool) -> Columns:
    work, devices, layout = of.work, of.devices, of.layout
    both_ways = not cached and of.spec.work != "embedding decoder"
    return {
        "engine": ENGINES.index(layout.engine), "kernel": KERNELS.index(work.kernel), "eager": layout.engine in EAGER,
        "dense_bytes": stack.dense_bytes, "expert_bytes": stack.expert_bytes,
        "experts": stack.experts, "experts_per_token": stack.experts_per_token, "active_parameters": stack.active_parameters,
        "head_parameters": stack.head_parameters if cached else 0.0,
        "layers": stack.layers, "hidden": stack.hidden, "attention_width": stack.attention_width,
        "full_layers": stack.full_layers * (BOTH_WAYS if both_ways else 1), "windowed_layers": stack.windowed_layers,
        "cache_constant": work.cache_constant if cached else 0.0, "cache_per_token": work.cache_per_token if cached else 0.0,
        "cache_windowed": work.cache_windowed if cached else 0.0, "window": work.window, "cache_shards": work.cache_shards,
        "cache_copied": cached and layout.engine in CACHE_COPYING, "cache_repeats": 1.0,
        "packed_parameters": work.packed_parameters if layout.engine in EAGER else 0.0, "fused_rows": FUSED_ROWS.get(work.kernel, ALL_ROWS),
        "emulated": emulates(devices.silicon, of.arithmetic),
        "converted": native_format(of.precision, of.compute, devices.silicon) != of.precision,
        "memory": devices.memory, "link": devices.link, "over_pcie": devices.over_pcie,
        "tensor_parallel": layout.tensor_parallel, "pipeline_stages": layout.pipeline_stages,
        "replicas": min(layout.replicas, of.running_requests), "row_split": False, "pipelined": layout.pipelined,
        "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "running_requests": of.running_requests,
        "static_cache_tokens": 0.0, "prefix_tokens": float(of.request.serving.shared_tokens(int(prompt_tokens))) if cached else 0.0,
        "held_steps": 0.0, "bunched_arrivals": False, "scheduled_between": False,
        "unrecorded": of.request.serving.cuda_graphs is False,
    }  # fmt: skip


OF_SETTINGS = frozenset({"prefix_tokens", "unrecorded"})
"""Columns of settings that no published measurement states: 0 if a row has none."""


def tabulate(rows: Sequence[Mapping[str, float]], ceilings: Sequence[Ceilings]) -> CostModelInputs:
    """Join n rows to columns of shape (n,), and the ceilings of their devices to arrays of shape (n, card classes + 1)."""
    names = [f.name for f in fields(CostModelInputs) if f.name not in Ceilings._fields]
    table = np.array([[row[name] if name not in OF_SETTINGS else row.get(name, 0.0) for name in names] for row in rows], dtype=np.float64)
    columns: dict[str, Any] = {name: table[:, at].astype(DTYPES.get(name, np.float64)) for at, name in enumerate(names)}
    rates: dict[str, Any] = {name: np.array([getattr(c, name) for c in ceilings], dtype=np.float64) for name in Ceilings._fields}
    return CostModelInputs(**rates, **columns)
