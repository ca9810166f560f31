"""`/ways_to_save`: what would make a deployment cheaper, each way worked out with the real estimates."""

from __future__ import annotations

from lib.advisor.deployment import Deployment
from lib.advisor.savings import NoSaving, Saving, find_savings
from lib.answers.common import fill, source_entries
from lib.answers.cost import NoWayEntry, WayEntry, WaysToSaveAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import TokenPrice, Usage
from lib.model.spec import ModelSpec
from lib.present.sentences import SAVING_NAMES, caveat_entries, no_saving_sentence, saving_effect, saving_step
from lib.service.arguments import check_offer
from lib.service.cost import CostArguments, read_own_price, read_usage
from lib.service.endpoint import App, read_reference
from lib.service.usage import estimate_or_none, predict_loads, predict_usage
from lib.speed import SpeedEstimate
from lib.workload import MemoryRequest

SLOWER = 0.95
"""Below this ratio of speeds a way is called slower: a twentieth is within the datasheets' own error."""


def ways_to_save(app: App, arguments: CostArguments) -> WaysToSaveAnswer:
    """What would make a deployment cheaper: smaller formats, other tiers, sleep, ZeroGPU, a provider, more requests at a time.

    Returns:
        Ways that save, the most first, with what each gives up, and those that save nothing, with the reason.
    """
    catalog = app.catalog()
    offer = check_offer(catalog, arguments.hardware)
    usage = read_usage(arguments, catalog)
    spec = app.models(arguments.model)
    price = read_own_price(arguments)
    if price is None and read_reference(arguments.model).kind == "id" and spec.id and spec.library != "gguf":
        price = next(iter(app.providers(spec.id).prices), None)
    request = arguments.memory_request(spec, offer, usage)
    report = find_savings(deploy(app, catalog, spec, offer, request, usage, price))
    return fill(
        WaysToSaveAnswer,
        report,
        model=spec.id,
        hardware=offer.id,
        platform=offer.platform,
        ways=[way_entry(saving) for saving in report.savings],
        no_ways=[no_way_entry(none) for none in report.no_savings],
        caveats=caveat_entries(spec.caveats),
        sources=source_entries((*offer.sources, *spec.sources, *(() if price is None else (price.source,)))),
    )


def deploy(
    app: App, catalog: Catalog, spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage, price: TokenPrice | None
) -> Deployment:
    """What runs today, with each speed predicted once: ways to save try the same configurations over and over."""
    estimates: dict[tuple[object, ...], SpeedEstimate | None] = {}

    def predict(spec: ModelSpec, offer: Offer, request: MemoryRequest, used: Usage) -> SpeedEstimate | None:
        where = (offer.id, offer.platform, request.precision, request.engine, request.devices, request.kv_precision)
        key = (*where, used.concurrency)
        if key not in estimates and used.concurrency != usage.concurrency:  # one load is asked for after the other
            loads = predict_loads(app.predict, spec, offer, request, usage, catalog.accelerators)
            estimates.update({(*where, load.request.concurrency): load for load in loads})
        if key not in estimates:
            estimates[key] = estimate_or_none(predict_usage(app.predict, spec, offer, request, used, catalog.accelerators))
        return estimates[key]

    return Deployment(spec=spec, offer=offer, request=request, usage=usage, catalog=catalog, price=price, speed=predict)


def way_entry(saving: Saving) -> WayEntry:
    """A way that saves."""
    offer = saving.offer
    needs = {name: value if isinstance(value, str | int) else float(value) for name, value in saving.needs.items()}
    return {
        "code": saving.code,
        "message": saving_step(saving),
        "saves_usd_per_month": float(saving.saves_usd_per_month),
        "usd_per_month": float(saving.usd_per_month),
        "slower": None if saving.speed_ratio is None else saving.speed_ratio < SLOWER,
        "effect": saving_effect(saving),
        "needs": needs if offer is None else {"hardware": offer.id, "platform": offer.platform, **needs},
    }


def no_way_entry(none: NoSaving) -> NoWayEntry:
    """A way that saves nothing."""
    return {"code": none.code, "message": SAVING_NAMES[none.code], "reason_code": none.reason, "reason": no_saving_sentence(none)}
