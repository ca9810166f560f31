"""Work of one machine per second at full load, in the configuration that the advisor would take for it.

Text uses the law of `/simulate_batching` (`lib.traffic.server.most_requests_per_s`). As many requests run at a time as the cache holds at
full length, so that none is preempted. Pictures in a prompt add the time of the vision tower (`lib.speed`). Encoders, speech, pictures and
encoder-decoder models have the speed of `lib.speed` at the best batch that fits.
Weights are as little compressed as fits; engines come in the advisor's order, those that batch continuously alone if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lib.advisor.candidates import SERVED_TASKS, SERVERS, Candidate, list_candidates
from lib.advisor.fit import DoesNotFitReason, HostedModel, JudgeContext, Placement, max_concurrency, place_candidate
from lib.advisor.speed import predict_placements
from lib.catalog.offers import Offer
from lib.cost.usage import LOADS
from lib.engines import traits_of
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws.price import HOUR_S
from lib.memory import usable_memory
from lib.memory.media import resolve_media
from lib.provenance import Reason
from lib.request.types import AUTO
from lib.speed import SpeedEstimate
from lib.traffic.arrivals import RequestShape
from lib.traffic.replica import ServerPlan
from lib.traffic.server import TrafficQuestion, most_requests_per_s, resolve_server


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCapacity:
    """One machine at full load: its configuration, requests at the same time, and items per second."""

    candidate: Candidate
    placement: Placement
    batch_size: int
    items_per_s: float


def find_capacity(offer: Offer, context: JudgeContext, model: HostedModel) -> MachineCapacity | Reason:
    """The capacity of the first configuration that fits, or the reason why there is none."""
    device_bytes = usable_memory(offer)
    if device_bytes is None:
        return Reason("memory_unknown")
    candidates = list_candidates(model.spec, context.family, offer, context.workload)
    tried = batched_first(candidates.tried, context)
    if not tried:
        return candidates.refused or Reason("batch_no_engine", {"name": offer.name})
    shortages: list[DoesNotFitReason] = []
    for candidate in tried:
        one = place_candidate(offer, candidate, context, model, device_bytes, 1)
        if isinstance(one, DoesNotFitReason):
            shortages.append(one)
            continue
        found = _serve(offer, one, context, model, device_bytes)
        if found is not None:
            return found
    if shortages:
        return min(shortages, key=lambda short: short.missing_bytes).explain()
    return Reason("batch_not_timed", {"name": offer.name})


def batched_first(tried: Sequence[Candidate], context: JudgeContext) -> list[Candidate]:
    """The configurations to try: for text those of engines that batch continuously, unless another engine was named or is the only one."""
    whole = [replace(candidate, may_offload=False) for candidate in tried]
    if context.family not in SERVED_TASKS or context.workload.engine != AUTO:
        return whole
    own_files = context.model is not None and context.model.spec.library == "gguf"
    return [candidate for candidate in whole if candidate.engine in SERVERS or own_files]


def _serve(offer: Offer, one: Placement, context: JudgeContext, model: HostedModel, device_bytes: int) -> MachineCapacity | None:
    """The capacity of a configuration that fits; None if its speed is not known."""
    if context.family in SERVED_TASKS and one.candidate.engine in SERVERS:
        try:
            return _serve_text(offer, one, context, model, device_bytes)
        except UnsupportedModel:  # an encoder-decoder: its speed is that of a batch
            pass
        except InvalidInput:  # the engine's own reserve leaves no request
            return None
    return _run_batches(offer, one.candidate, context, model, device_bytes)


def _serve_text(offer: Offer, one: Placement, context: JudgeContext, model: HostedModel, device_bytes: int) -> MachineCapacity:
    """Requests per second of a server whose slots are always full.

    Raises:
        UnsupportedModel: a model that generates no tokens from tokens.
        InvalidInput: one request does not fit into the memory that the engine leaves.
    """
    spec, workload, candidate = model.spec, context.workload, one.candidate
    serving = workload.serving
    held = max_concurrency(offer, candidate, context, model, device_bytes) // (serving.data_parallel or 1)
    slots = max(1, min(held, serving.sequences or traits_of(candidate.engine).max_num_seqs))
    media = resolve_media(spec, workload.media)
    prompt_tokens = context.speed_request.prompt_tokens + media.tokens
    shape = RequestShape(prompt_tokens=prompt_tokens, output_tokens=context.speed_request.output_tokens, lengths="fixed")
    plan = ServerPlan(
        policy="continuous",
        max_batch_size=slots,
        token_budget=serving.max_num_batched_tokens or 0,
        shared_prefix_tokens=serving.shared_tokens(prompt_tokens),
    )
    server = resolve_server(
        spec, offer, TrafficQuestion(shape=shape, plan=plan), context.accelerators,
        precision=candidate.precision, engine=candidate.engine, serving=serving,
    )  # fmt: skip
    request_s = 1 / most_requests_per_s(server, shape)
    if media.passes:
        request_s += _tower_seconds(offer, one, context, media.tokens) / server.engines
    return MachineCapacity(candidate=candidate, placement=one, batch_size=slots * server.engines, items_per_s=1 / request_s)


def _tower_seconds(offer: Offer, one: Placement, context: JudgeContext, tokens: int) -> float:
    """Seconds of the vision tower for the pictures of one request: a prompt with them less a prompt of as many tokens without them."""
    seen = replace(context.speed_request, concurrency=1)
    read = replace(seen, prompt_tokens=seen.prompt_tokens + tokens, media=replace(seen.media, images=0))
    times = []
    for request in (seen, read):
        estimate = predict_placements([(offer, one, replace(context, speed_request=request))])[0]
        times.append(0.0 if estimate is None or estimate.prefill_s is None else float(estimate.prefill_s))
    return max(0.0, times[0] - times[1])


def _run_batches(
    offer: Offer, candidate: Candidate, context: JudgeContext, model: HostedModel, device_bytes: int
) -> MachineCapacity | None:
    """The best of the batches that fit; None if their speed is not known."""
    placements = []
    for level in LOADS:
        placed = place_candidate(offer, candidate, context, model, device_bytes, level)
        if isinstance(placed, DoesNotFitReason):
            break
        placements.append(placed)
    estimates = predict_placements([(offer, placement, context) for placement in placements])
    timed = [
        MachineCapacity(
            candidate=candidate,
            placement=placement,
            batch_size=placement.concurrency,
            items_per_s=_items_per_s(estimate, placement.concurrency),
        )
        for placement, estimate in zip(placements, estimates, strict=True)
        if estimate is not None
    ]
    return max(timed, key=lambda one: one.items_per_s, default=None)


def _items_per_s(estimate: SpeedEstimate, concurrency: int) -> float:
    """Requests per second of a batch; of sound its hours per second."""
    heard = estimate.real_time_factor
    return concurrency / estimate.request_s if heard is None else heard.value / HOUR_S
