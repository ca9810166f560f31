"""Adds to each change of a training the hardware that it makes large enough, if that costs less than the current cheapest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.speed.training_hardware import TrainingChange, TrainingOption, judge_hardware, list_hardware

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


def add_cheaper(
    spec: ModelSpec,
    request: TrainingRequest,
    changes: Iterable[TrainingChange],
    options: Sequence[TrainingOption],
    catalog: Catalog,
    platforms: Sequence[str],
    count_tokens: Callable[[TrainingRequest], int],
) -> Iterator[TrainingChange]:
    """The changes, each with the cheapest run that it makes possible (`cheaper`), if that costs less than the best of `options`.

    Args:
        spec: the model.
        request: the training as asked.
        changes: single changes of it.
        options: the hardware for the request, cheapest first.
        catalog: offers and cards.
        platforms: platforms whose hardware is judged.
        count_tokens: the tokens of the whole training of a request.
    """
    best = next((option for option in options if option.verdict != "no"), None)
    places = list(_too_small(options, best, list_hardware(catalog, platforms)))
    for change in changes:
        other = replace(request, **change.fields)
        if other.devices > request.devices:  # hardware with several GPUs trains on all of them in any case
            yield change
            continue
        runs = judge_hardware(spec, other, places, catalog.accelerators, total_tokens=count_tokens(other), limits=False)
        fitting = (run for run in runs if run.verdict == "fits" and run.usd is not None)
        cheapest = min(fitting, key=lambda run: run.usd or 0, default=None)
        saves = cheapest is not None and (best is None or (best.usd is not None and cheapest.usd is not None and cheapest.usd < best.usd))
        yield replace(change, cheaper=cheapest) if saves else change


def _too_small(options: Sequence[TrainingOption], best: TrainingOption | None, places: Iterable[Hardware]) -> Iterator[Hardware]:
    """Rented hardware that does not fit and costs less per hour than the best; the same hardware on two platforms counts once."""
    small = {(option.platform, option.hardware) for option in options if option.verdict != "fits"}
    seen: set[tuple[str, object]] = set()
    for place in places:
        price = place.usd_per_hour
        if (place.platform, place.id) not in small or price is None or (place.id, price) in seen:
            continue
        if best is None or (best.usd_per_hour is not None and price < best.usd_per_hour):
            seen.add((place.id, price))
            yield place
