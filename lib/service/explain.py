"""`/explain`: what a pasted error, log or table says, compared with what the app predicts, and what to do.

Nothing that is pasted is stored or logged, and none of it is repeated but numbers and names that `lib.explain` reads. A model is looked up
on the Hub only if the caller names it as an argument; of models named in the text those of the catalog are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from lib.answers.explain import AlsoEntry, ExplainAnswer, ExplainStep, Printed, ReadEntry
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.offers import Offer
from lib.engines import traits_of, usual_engine
from lib.errors import BadArgument
from lib.explain import MAX_BYTES, PROGRAMS, Explanation, decide_cause, read_text
from lib.explain.advice import SHARES
from lib.explain.figures import complete_figures
from lib.explain.rows import load_messages
from lib.laws.runtime import VLLM_GRAPHS
from lib.memory import usable_memory
from lib.platforms import PLATFORMS, TRAITS
from lib.present.explain_words import arithmetic_lines, cause_sentence, step_words
from lib.present.wording import load_wording
from lib.provenance import Caveat, Source
from lib.request.checks import describe_value
from lib.request.fields import Arguments, Checked
from lib.request.types import AUTO, Account, AnyEngine, Hardware, look_up_later
from lib.service.endpoint import App, endpoint
from lib.service.explain_prediction import SetUp, find_set_up, predict
from lib.service.explain_shares import count_cache, count_logged_requests, find_shares

if TYPE_CHECKING:
    from lib.catalog import Catalog

_LOGGED = ("weights_bytes", "needed_bytes", "kv_cache_tokens", "capacity_bytes", "tokens_per_s")
_SAME = {"total_bytes": "capacity_bytes"}
_SAME_OF_SERVERS = {"available_kv_bytes": "available_bytes", "kv_cache_bytes": "available_bytes", "available_bytes": "available_bytes"}
"""Names in messages of figures that have another name in predictions; those of caches, of engines that allocate one at start."""
_DIVIDED = frozenset({"tensor_parallel_size", "pipeline_parallel_size"})
"""Flags of a server that divides a model over cards."""
_CLEARLY = 1.25
"""Two counts of the same bytes differ clearly from this factor on: start logs are predicted within about 15 % (docs/accuracy.md)."""
_PLANS = {"Pro": "pro", "free": "free"}
"""Plans as ZeroGPU's messages call them; they name none of a visitor who is not signed in."""
_ROOM = 1.05
"""The next card has to exceed the number by this."""
_RAM_STEP = 0.08
"""A limit of host memory is that of a tier, within this: container and catalog round differently (14Gi is the tier of 15 GiB)."""


def _check_pasted(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadArgument(name, describe_value(value), "the text of an error, a log or a table")
    size = len(value.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        raise BadArgument(name, f"a text of {size:,} bytes", f"at most {MAX_BYTES:,} bytes; paste the lines around the first error")
    if not value.strip():
        raise BadArgument(
            name, "an empty text", "the text of an error, a log or a table, such as 'CUDA out of memory. Tried to allocate …'"
        )
    return value


class ExplainArguments(Arguments):
    """Arguments of `/explain`."""

    text: Annotated[str, Checked(_check_pasted, str)]
    """The pasted error, log, metrics or nvidia-smi table; at most 200,000 bytes. Tokens in it are masked, and nothing of it is kept."""
    model: Annotated[object, look_up_later(str)] = ""
    """The model that ran, as elsewhere; empty: the one that the text names, if the catalog has it."""
    hardware: Hardware = ""
    """The hardware it ran on, such as l4x1 or RTX-4090x2; empty: the card that the text names."""
    engine: AnyEngine = AUTO
    """The program that ran the model; auto: the one whose messages the text holds."""
    account: Account = "free"
    """The plan whose ZeroGPU quota counts where the message does not say it."""


def load_ahead() -> None:
    """Read the messages and the words ahead of the first question, which would wait a third of a second."""
    for message in load_messages().messages:
        message.patterns  # noqa: B018  worked out once
    read_text("")
    load_wording("explain")


@endpoint(heavy=True)
def explain(app: App, arguments: ExplainArguments) -> ExplainAnswer:
    """Paste an error, a start log, metrics or an nvidia-smi table: the cause, its numbers, what to change, and which hardware holds it.

    Returns:
        The cause with its numbers and arithmetic, the app's own prediction for the same set-up, next steps, and how sure the cause is.
    """
    catalog, reading = app.catalog(), read_text(arguments.text)
    said = decide_cause(reading)
    set_up = find_set_up(app, catalog, said, arguments.model, arguments.hardware, arguments.engine)
    if given := frozenset(_surroundings(said, set_up, arguments, catalog)):
        said = decide_cause(reading, given)
    spec, hardware, engine = set_up.spec, set_up.hardware, set_up.engine
    prediction = predict(set_up, said, catalog)
    predicted, advice = prediction.figures, prediction.advice
    numbers = _with_rules(said, catalog, arguments.account)
    of_model = {} if set_up.size else predicted  # a typical model of a size says nothing of the bytes of a token
    cache = count_cache(said, numbers, of_model, engine)
    shares = find_shares(said, numbers, of_model, engine, cache)
    requests = count_logged_requests(numbers)
    if shares.keys() & SHARES:  # the text's own bytes are more exact than a prediction
        advice = {name: value for name, value in advice.items() if name not in SHARES}
    known = {**_rules(catalog), **_switches(said), **advice, **shares, **requests, **numbers, "account": arguments.account}
    if "requested_s" in numbers:
        predicted["daily_quota_s"] = catalog.rules.zerogpu.daily_quota_s[numbers.get("plan", arguments.account)]
    logged = _logged(numbers, engine)
    should_fit = tuple(_should_fit(said, set_up, predicted))
    known |= {"should_fit": True} if should_fit else {}
    lines = {**_rules(catalog), **numbers, **cache, **shares}
    return ExplainAnswer(
        recognised=said.recognised,
        program=said.program,
        phase=said.phase,
        code=said.code,
        cause=cause_sentence(said.code, known) if said.recognised else "",
        outcome=said.outcome,
        certain=said.certain,
        numbers={**numbers, **complete_figures(said.figures, numbers)},
        arithmetic=tuple(arithmetic_lines(lines)) if said.recognised else (),
        logged=logged,
        predicted=predicted,
        next_steps=tuple(_steps(said, known, predicted, arguments, hardware, catalog)),
        also=tuple(AlsoEntry(code=other.code, cause=cause_sentence(other.code, other.numbers)) for other in said.also),
        read=ReadEntry(
            model="" if spec is None else set_up.size or spec.id,
            hardware="" if hardware is None else hardware.id,
            engine="" if spec is None else engine,
            models=said.named.models,
            cards=said.named.cards,
            flags=said.named.flags,
        ),
        caveats=(*prediction.caveats, *should_fit, *_differences(logged, predicted)),
        sources=(
            Source(
                what="Wording of the messages",
                source="libraries' sources and printed logs, named in lib/data/pasted_messages.yaml",
                checked=load_messages().checked,
            ),
            *(() if spec is None else spec.sources),
        ),
    )


def _rules(catalog: Catalog) -> dict[str, Any]:
    """Numbers of the platform's rules and of the memory laws that causes and next steps name."""
    zerogpu = catalog.rules.zerogpu
    quotas: dict[str, Any] = {f"quota_{plan}_min": seconds // 60 for plan, seconds in zerogpu.daily_quota_s.items()}
    graphs = {"graphs_low_bytes": VLLM_GRAPHS.low, "graphs_high_bytes": VLLM_GRAPHS.high}
    quotas |= {"default_duration_s": zerogpu.default_duration_s, "auto_xlarge_bytes": zerogpu.auto_xlarge_bytes}
    quotas["overquota_usd_per_gpu_hour"] = zerogpu.overquota_usd_per_gpu_hour
    return {
        **quotas,
        **graphs,
        "free_cpu_units": catalog.rules.accounts.free_cpu_units,
        "jobs_timeout_s": catalog.rules.jobs.default_timeout_s,
    }


def _switches(said: Explanation) -> dict[str, str]:
    """The settings of the text that are switched on; a step that sets them again is left out."""
    return {name: value for name, value in said.named.flags.items() if value == "True"}


def _surroundings(said: Explanation, set_up: SetUp, arguments: ExplainArguments, catalog: Catalog) -> Iterator[str]:
    """Codes of surroundings that follow from the caller's arguments: the engine, a model that is a pipeline, a plan above the message's."""
    contexts = (row for row in load_messages().messages if row.kind == "context" and row.phase != "train")
    yield from (row.code for row in contexts if row.program == arguments.engine)
    if set_up.spec is not None and set_up.spec.work == "pipeline":
        yield "in_diffusers"
    quotas = catalog.rules.zerogpu.daily_quota_s
    account = arguments.account
    if quotas[account] > quotas[_PLANS.get(str(said.numbers.get("plan")), account)]:
        yield "plan_of_another"


def _should_fit(said: Explanation, set_up: SetUp, predicted: Mapping[str, Printed]) -> Iterator[Caveat]:
    """That an allocation failed for which the app finds room, with the usual causes; servers that fill a share have causes of their own."""
    if not ("tried_bytes" in said.numbers and "larger_card" in said.steps and predicted.get("fits") is True):
        return
    if said.phase != "train" and traits_of(set_up.engine).preallocates:
        return
    pipeline = set_up.spec is not None and set_up.spec.work == "pipeline"
    values = {name: value for name, value in predicted.items() if isinstance(value, int)}
    yield Caveat("explain_should_fit", values, variant="train" if said.phase == "train" else "pipeline" if pipeline else "")


def _with_rules(said: Explanation, catalog: Catalog, account: str) -> dict[str, Any]:
    """The numbers, with what the catalog's rules make of them."""
    numbers: dict[str, Any] = dict(said.numbers)
    if "plan" in numbers:
        numbers["plan"] = _PLANS.get(numbers["plan"], "anonymous")
    if isinstance(requested := numbers.get("requested_s"), int):
        for size in catalog.rules.zerogpu.sizes:
            factor = size.quota_multiplier * size.duration_factor
            numbers[f"factor_{size.size}"] = float(factor)
            numbers[f"declared_{size.size}_s"] = float(round(Decimal(requested) / factor, 1))
            quota = catalog.rules.zerogpu.daily_quota_s[numbers.get("plan", account)]
            if requested > 0:  # a call of so many seconds was refused, so no limit above them is known to hold
                numbers[f"below_{size.size}_s"] = int(min(quota, requested) / factor)
            if size.default:
                numbers["declared_day_s"] = int(quota / factor)
            if size.default and isinstance(left := numbers.get("left_s"), int) and left > 0:
                numbers["declared_left_s"] = int(left / factor)
    split = numbers.get("tensor_parallel", numbers.get("num_shards"))
    if isinstance(divisors := numbers.get("divisors"), list) and isinstance(split, int):
        numbers["best_divisor"] = max(number for number in divisors if number <= max(1, split) and number & (number - 1) == 0)
    if isinstance(share := numbers.get("share_that_fits"), float):
        numbers["share_floor"] = int(share * 100) / 100
    return numbers


def _logged(numbers: Mapping[str, Any], engine: Any) -> dict[str, Printed]:
    same = _SAME | (_SAME_OF_SERVERS if traits_of(engine).preallocates else {})
    return {same.get(name, name): numbers[name] for name in (*same, *_LOGGED) if name in numbers}


def _differences(logged: Mapping[str, Printed], predicted: Mapping[str, Printed]) -> Iterator[Caveat]:
    """The first count of the text that clearly differs from the prediction; a gap in the weights explains one in the cache."""
    for name in ("weights_bytes", "available_bytes", "kv_cache_tokens"):
        of_text, of_app = logged.get(name), predicted.get(name)
        if isinstance(of_text, int) and isinstance(of_app, int) and not 1 / _CLEARLY <= of_text / max(1, of_app) <= _CLEARLY:
            unit = name.rpartition("_")[2]
            yield Caveat("explain_differs", {f"logged_{unit}": of_text, f"predicted_{unit}": of_app}, variant=name)
            return


def _steps(
    said: Explanation, numbers: Mapping[str, Any], predicted: Mapping[str, Printed], arguments: ExplainArguments,
    hardware: AnyHardware | None, catalog: Catalog,
) -> Iterator[ExplainStep]:  # fmt: skip
    if not said.recognised:
        yield from _worded("paste_more", {"programs": ", ".join(PROGRAMS)}, None, {}, catalog)
    asked = [
        (code, {"names": ", ".join(names)})
        for code, names, given in (
            ("which_model", said.named.models, arguments.model),
            ("which_hardware", said.named.cards, arguments.hardware),
        )
        if len(names) > 1 and given == ""
    ]
    late = said.certain and not _DIVIDED.isdisjoint(said.named.flags)  # the server may use all the cards that the text names
    for code, named in () if late else asked:
        yield from _worded(code, named, None, {}, catalog)
    codes = said.steps
    if "share_for_graphs" in codes and "graphs_share" not in numbers:  # no share is known that holds a request and leaves room for graphs
        codes = tuple(sorted(codes, key=lambda code: code != "eager_server"))
    for code in codes:
        yield from _worded(code, numbers, hardware, predicted, catalog)
    for code, named in asked if late else ():
        yield from _worded(code, named, None, {}, catalog)


def _worded(
    code: str, numbers: Mapping[str, Any], hardware: AnyHardware | None, predicted: Mapping[str, Printed], catalog: Catalog
) -> Iterator[ExplainStep]:
    words = step_words(code, numbers)
    if words is None:
        return
    tier = _find_tier(words.tier, numbers.get(words.than), hardware, predicted, catalog) if words.tier else None
    yield ExplainStep(
        code=code,
        message=words.message,
        change=words.change,
        hardware="" if tier is None else tier.id,
        usd_per_hour=None if tier is None else tier.usd_per_hour,
        hardware_name="" if tier is None else tier.name,
    )


def _find_tier(kind: str, than: object, hardware: AnyHardware | None, predicted: Mapping[str, Printed], catalog: Catalog) -> Offer | None:
    """The cheapest tier of Spaces that has what the step asks for, else (memory) of the Hub; None if none has it or it is not known."""
    listed = [
        tier
        for tier in catalog.on(name for name in PLATFORMS if TRAITS[name].on_hub)
        if tier.listed and tier.usd_per_hour is not None and tier.tpu is None
    ]
    tiers = [tier for tier in listed if tier.traits.rents_spaces]
    cards = [tier for tier in tiers if tier.accelerator is not None]
    number = than if isinstance(than, int) else 0
    match kind:
        case "tpu":
            able = list(_larger_slices(catalog, predicted))
        case "cpu":
            able = [tier for tier in tiers if tier.accelerator is None]
        case "gpu":
            able = cards
        case "paid_cpu":
            able = [tier for tier in tiers if tier.accelerator is None and tier.usd_per_hour]
        case "vram":
            needed = max(number, (hardware.vram_bytes_per_accelerator or 0) if hardware else 0)
            used = {"devices": max(1, hardware.accelerator_count) if hardware else 1, **predicted}  # no prediction: as many as were used
            able = [tier for tier in cards if needed and _is_larger(tier, needed, used)]
            able = able or [tier for tier in listed if needed and tier.accelerator is not None and _is_larger(tier, needed, used)]
        case "capability":
            able = [
                tier
                for tier in cards
                if tier.processor.compute_capability and tier.processor.compute_capability >= divmod(number or 80, 10)
            ]
        case "disk":
            able = [
                tier
                for tier in tiers
                if number and (tier.disk_bytes or 0) > number and (hardware is None or tier.accelerator == hardware.accelerator)
            ]
        case _:
            able = list(_with_more_ram(tiers, number, hardware))
    return min(able, key=lambda tier: tier.usd_per_hour or 0, default=None)


def _larger_slices(catalog: Catalog, predicted: Mapping[str, Printed]) -> Iterator[Offer]:
    """Slices of TPU whose chips hold the prediction together, with the weights as they are loaded, within the share that a server takes."""
    needed = max((size for name in ("loading_bytes", "per_device_bytes") if isinstance(size := predicted.get(name), int)), default=0)
    devices, share = predicted.get("devices"), traits_of(usual_engine("tpu")).memory_share
    if not needed or not isinstance(devices, int):
        return
    for tier in catalog.on(PLATFORMS):
        whole = (usable_memory(tier) or 0) * tier.accelerator_count
        if tier.tpu is not None and tier.listed and tier.usd_per_hour is not None and whole * share >= needed * devices:
            yield tier


def _is_larger(tier: Offer, needed: int, predicted: Mapping[str, Printed]) -> bool:
    """Whether its cards have room for so many bytes each, and are as many as the prediction takes."""
    devices = predicted.get("devices", 1)
    enough = isinstance(devices, int) and tier.accelerator_count >= devices
    return enough and (tier.vram_bytes_per_accelerator or 0) > needed * _ROOM and _holds(usable_memory(tier) or 0, predicted)


def _holds(memory: int, predicted: Mapping[str, Printed]) -> bool:
    """Whether a device's memory holds the prediction within the engine's share, which is that of the card it was made for."""
    whole, device = predicted.get("per_device_bytes"), predicted.get("capacity_bytes")
    share = predicted.get("engine_bytes", device)
    if not isinstance(whole, int) or not isinstance(device, int) or not isinstance(share, int):
        return True
    return whole * device <= memory * share


def _with_more_ram(tiers: list[Offer], limit: int, hardware: AnyHardware | None) -> Iterator[Offer]:
    """Tiers with more host memory and the same card: that of the hardware, else those of the tiers that have this limit."""
    if hardware is not None and hardware.ram_bytes:
        limit = limit or hardware.ram_bytes
    same = {tier.accelerator for tier in tiers if abs((tier.ram_bytes or 0) - limit) <= _RAM_STEP * limit}
    accelerators = {hardware.accelerator} if hardware is not None else same
    yield from (tier for tier in tiers if limit and (tier.ram_bytes or 0) > limit * (1 + _RAM_STEP) and tier.accelerator in accelerators)
