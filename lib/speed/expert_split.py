"""The speed of a mixture of experts whose routed experts llama.cpp keeps in the host's memory: the card's time and the host's, added up.

The laws are `lib.laws.expert_split`. The card's part is predicted as usual: a decode step without the experts in host memory, and a
prompt with all experts, because from 32 tokens on their weights are copied to the card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lib.catalog.rows import DATA
from lib.engines.traits import MICRO_BATCH
from lib.errors import BadArgument
from lib.laws import expert_split as laws
from lib.laws.forward_pass import expert_share
from lib.memory import count_per_device, fit_memory, host_memory, usable_memory
from lib.memory.resolve import UNLIMITED
from lib.memory.spread import spread
from lib.provenance import Caveat, Source, Value
from lib.request.serving import drop_settings
from lib.speed.batch import SpeedRequest, resolve_engine_config
from lib.speed.hardware import card_class, find_host_link_rate, is_measured
from lib.speed.offload import batch_throughput, find_host_rate
from lib.speed.predict import UNMEASURED_WIDENING, ExplainedSpeed, Interval, SpeedFloor, SpeedPart
from lib.units import GIB, Seconds
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.offers import Hardware
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.speed.batch import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertConstants:
    """The fitted constants (`lib.laws.expert_split`), and half-widths of the ranges in natural logarithms.

    `measured` lists the classes of cards (`lib.speed.hardware.card_class`) with runs in the fit.
    """

    host_share: float
    layer_s: float
    bus_share: float
    copy_share: float
    spread_tpot: float
    spread_ttft: float
    measured: frozenset[str]
    source: str
    checked: str


@lru_cache(maxsize=1)
def load_expert_constants() -> ExpertConstants:
    """The constants that `scripts/check_experts.py` fitted."""
    content = json.loads((DATA / "expert_constants.json").read_text(encoding="utf-8"))
    return ExpertConstants(**content["constants"], **content["spread"], **{name: content[name] for name in ("source", "checked")},
                           measured=frozenset(content["measured"]))  # fmt: skip


class ExpertLoad(NamedTuple):
    """The experts in the host's memory, and the links over which they are reached.

    `host_bytes` of routed experts in `in_host` layers; `experts` of a layer, of which a token reaches `per_token`; rates in bytes/s.
    `reached`: `bandwidth` is a rate that programs reach, so no efficiency factor is applied.
    """

    host_bytes: float
    in_host: float
    experts: int
    per_token: int
    bandwidth: float
    bus: float
    reached: bool = False

    def read_bytes(self, tokens: float) -> float:
        """Bytes of the experts in the host's memory that a pass over this many tokens reads."""
        return self.host_bytes * float(expert_share(experts=self.experts, per_token=self.per_token, tokens=tokens))


def pass_s(load: ExpertLoad, tokens: int, constants: ExpertConstants) -> float:
    """Seconds that a pass adds: the processor computes fewer than 32 tokens, more are computed by the card with copied weights."""
    if tokens < laws.LEAST_COPIED_TOKENS:
        return laws.host_step_time(
            read_bytes=load.read_bytes(tokens),
            bandwidth=load.bandwidth,
            share=1.0 if load.reached else constants.host_share,
            in_host=load.in_host,
            layer_s=constants.layer_s,
        )
    return laws.copy_time(
        moved_bytes=load.read_bytes(tokens),
        bus=load.bus,
        bus_share=constants.bus_share,
        bandwidth=load.bandwidth,
        copy_share=1.0 if load.reached else constants.copy_share,
    )


def prompt_s(load: ExpertLoad, tokens: int, constants: ExpertConstants, micro_batch: int = MICRO_BATCH) -> float:
    """Seconds that a prompt adds to the card's own time."""
    return sum(pass_s(load, each, constants) for each in laws.micro_batches(tokens, micro_batch))


def without_experts(config: EngineConfig, share: float, expert_bytes: float, dense_bytes: float) -> EngineConfig:
    """The configuration without a share of the routed experts. `expert_bytes`: all experts; `dense_bytes`: other weights of a step."""
    stack = config.work.decoder
    assert stack is not None  # noqa: S101 a mixture of experts decodes
    parameters = sum(group.parameters for group in config.spec.tensors if group.kind == "expert")
    routed = parameters * stack.experts_per_token / max(1, stack.experts)
    kept = stack._replace(
        dense_bytes=dense_bytes,
        expert_bytes=expert_bytes * (1 - share),
        active_parameters=max(1.0, stack.active_parameters - routed * share),
    )
    total = round(config.work.total_bytes - expert_bytes * share)
    return config._replace(work=config.work._replace(decoder=kept, total_bytes=total))


class ExpertSplit(NamedTuple):
    """The card's configurations of a decode step and of a prompt, and the experts that the host holds."""

    decode: EngineConfig
    prompt: EngineConfig
    load: ExpertLoad
    caveats: tuple[Caveat, ...]
    is_measured: bool


def split_experts(
    spec: ModelSpec, hardware: Hardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]
) -> ExpertSplit | None:
    """How the request's experts are placed on this hardware; None if they are all in one memory.

    Raises:
        BadArgument: no routed experts, more layers than the model has, or `gpu_layers` that split the layers as well.
    """
    silicon = hardware.silicon
    if not request.serving.cpu_moe_layers:
        return None
    asked = _memory_request(spec, hardware, request)
    of = count_per_device(spec, asked, silicon)
    if hardware.accelerator is None or silicon is None or not of.host_expert_bytes:
        return None
    if request.gpu_layers is not None and request.gpu_layers < spec.dimensions.layers:
        accepted = "-1 with serving.cpu_moe_layers: experts of some layers in host memory, and everything else on the GPU"
        raise BadArgument("gpu_layers", request.gpu_layers, accepted)
    whole = replace(request, gpu_layers=None, serving=drop_settings(request.serving, "cpu_moe_layers"))
    cards = hardware.model_copy(update={"silicon": silicon.model_copy(update={"memory_usable": UNLIMITED})})
    config = resolve_engine_config((spec, cards, whole), accelerators)
    stack = config.work.decoder
    assert stack is not None  # noqa: S101 a mixture of experts decodes
    share = of.host_expert_bytes / of.expert_bytes
    dense = max(0.0, stack.dense_bytes + stack.expert_bytes - of.expert_bytes)
    bandwidth, reached, assumed = find_host_rate(hardware, accelerators)
    load = ExpertLoad(
        host_bytes=float(of.host_expert_bytes),
        in_host=of.request.experts_in_host,
        experts=stack.experts,
        per_token=stack.experts_per_token,
        bandwidth=bandwidth,
        bus=find_host_link_rate(silicon),
        reached=reached,
    )
    constants = load_expert_constants()
    seen = card_class(silicon) in constants.measured and is_measured(
        {("llama.cpp", name) for name in constants.measured}, "llama.cpp", silicon
    )
    measured = seen and not reached and request.concurrency == 1 and hardware.accelerator_count == 1
    values: dict[str, Value] = {"in_host": of.request.experts_in_host, "layers": of.expert_layers, "host_bytes": of.host_expert_bytes}
    values["bandwidth_gb_s"] = bandwidth / 1e9
    placed = Caveat("experts_in_host", values)
    open_points = (placed, *assumed, *(() if measured else (Caveat("experts_unmeasured", {"silicon": silicon.name}),)))
    return ExpertSplit(
        decode=without_experts(config, share, of.expert_bytes, dense),
        prompt=without_experts(config, 0.0, of.expert_bytes, dense),
        load=load,
        caveats=(*open_points, *_shortage(spec, hardware, asked)),
        is_measured=measured,
    )


def _memory_request(spec: ModelSpec, hardware: Hardware, request: SpeedRequest) -> MemoryRequest:
    return MemoryRequest(
        precision=request.precision,
        engine=request.engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        batch_size=request.concurrency,
        kv_precision=request.kv_precision,
        devices=spread(spec, request.engine, hardware).devices,
        gpu_layers=request.gpu_layers,
        media=request.media,
        serving=request.serving,
    )


def _shortage(spec: ModelSpec, hardware: Hardware, asked: MemoryRequest) -> tuple[Caveat, ...]:
    """The caveat if the card or the host cannot hold its part."""
    fit = fit_memory(spec, asked, usable_memory(hardware) or UNLIMITED, hardware.silicon, host_bytes=host_memory(hardware, experts=True))
    if fit.fits:
        return ()
    values = {"needed_gib": (fit.capacity_bytes - fit.free_bytes) / GIB, "capacity_gib": fit.capacity_bytes / GIB}
    return (Caveat("does_not_fit", values, variant="experts"),)


def combine_experts(of: ExpertSplit, decode: ExplainedSpeed, prompt: ExplainedSpeed) -> ExplainedSpeed:
    """Add the host's time to the card's estimates: `decode` is without the host's experts, `prompt` with all experts."""
    constants, load = load_expert_constants(), of.load
    widening = 1.0 if of.is_measured else UNMEASURED_WIDENING
    sequences = max(1, round(prompt.running_requests))
    step_s = pass_s(load, sequences, constants)
    tokens = max(1, prompt.request.prompt_tokens)
    read_s = prompt_s(load, tokens, constants)
    least_step_s, least_read_s = _least(load, sequences), sum(_least(load, each) for each in laws.micro_batches(tokens, MICRO_BATCH))
    floor = None
    if prompt.floor is not None and decode.floor is not None and decode.floor.tpot_s is not None:
        least_tpot_s = Seconds(decode.floor.tpot_s + least_step_s)
        floor = SpeedFloor(ttft_s=Seconds(prompt.floor.ttft_s + least_read_s), tpot_s=least_tpot_s)
    ttft = _range(prompt.ttft_s.value + read_s, constants.spread_ttft * widening, 0.0 if floor is None else floor.ttft_s)
    tpot = None
    if decode.tpot_s is not None:
        least_s = 0.0 if floor is None or floor.tpot_s is None else floor.tpot_s
        tpot = _range(decode.tpot_s.value + step_s, constants.spread_tpot * widening, least_s)
    fit = Source(what="constants of experts in host memory", source=constants.source, checked=constants.checked)
    step_part, read_part = (
        _part(load, step_s, {"sequences": str(sequences)}, copied=sequences >= laws.LEAST_COPIED_TOKENS),
        _part(load, read_s, {"tokens": f"{tokens:,}", "micro-batch": str(MICRO_BATCH)}, copied=tokens >= laws.LEAST_COPIED_TOKENS),
    )
    return replace(
        prompt,
        ttft_s=ttft,
        tpot_s=tpot,
        prefill_s=None if prompt.prefill_s is None else Seconds(prompt.prefill_s + read_s),
        throughput_tokens_per_s=batch_throughput(prompt.request, ttft, tpot),
        bound="bandwidth" if decode.tpot_s is None or step_s > decode.tpot_s.value / 2 else decode.bound,
        floor=floor,
        decode_parts=(*decode.decode_parts, step_part),
        prompt_parts=(*prompt.prompt_parts, read_part),
        caveats=tuple(dict.fromkeys((*decode.caveats, *prompt.caveats, *of.caveats))),
        sources=(*prompt.sources, fit),
        items_per_s=None,
    )


def _least(load: ExpertLoad, tokens: int) -> float:
    """The least seconds at the datasheet rate of the host or the bus; 0 if the host's rate is a reached one."""
    if tokens >= laws.LEAST_COPIED_TOKENS:
        return load.read_bytes(tokens) / load.bus
    return 0.0 if load.reached else load.read_bytes(tokens) / load.bandwidth


def _range(value: float, half_width: float, least: float) -> Interval[Seconds]:
    value = max(value, least)
    return Interval(
        value=Seconds(value), low=Seconds(max(least, value * float(np.exp(-half_width)))), high=Seconds(value * float(np.exp(half_width)))
    )


def _part(load: ExpertLoad, seconds: float, inputs: dict[str, str], *, copied: bool) -> SpeedPart:
    law = laws.COPIED_EXPERTS if copied else laws.HOST_EXPERTS
    rates = {"host bandwidth": f"{load.bandwidth / 1e9:.1f} GB/s", "bus": f"{load.bus / 1e9:.1f} GB/s"}
    held = {"expert bytes in host memory": f"{load.host_bytes:,.0f}", "m": f"{load.in_host:g}"}
    return SpeedPart(
        name="experts copied to the GPU" if copied else "experts in host memory",
        seconds=seconds,
        law=law.equation,
        inputs=inputs | held | rates,
        source=law.source,
    )
