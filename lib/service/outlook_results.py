"""The shape of what the tab *Cost* shows; see `lib.service.results` for what holds for all answers."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.service.cost_results import CostAnswer
from lib.service.results import Answer, PriceEntry


class LineEntry(TypedDict):
    """One way to run it: its month at the stated use, and its bills along the axis (null where it cannot carry the traffic).

    `full_at` is the requests a day that the hardware serves one at a time, null where that is not known.
    """

    kind: str
    label: str
    hardware: str
    platform: str
    name: str
    runs_as: str
    usd_per_hour: float | None
    billed_hours_per_month: float | None
    compute_usd_per_month: float | None
    storage_usd_per_month: float
    total_usd_per_month: float | None
    usd_per_request: float | None
    full_at: float | None
    usd: list[float | None]


class ChangeEntry(TypedDict):
    """From here on the axis another way is the cheapest."""

    at: float
    usd_per_month: float
    before: str
    after: str
    message: str


class SavingEntry(TypedDict):
    """One way to save, or (with `saves_usd_per_month` null) why it saves nothing here."""

    code: str
    what: str
    hardware: str | None
    usd_per_month: float | None
    saves_usd_per_month: float | None
    effect: str


class OutlookAnswer(Answer):
    """The bill of one piece of hardware, what else would cost how much, and where to save."""

    model: str
    hardware: str
    platform: str
    name: str
    chosen: str
    bill: CostAnswer
    axis: str
    stated: float
    x: list[float]
    lines: list[LineEntry]
    changes: list[ChangeEntry]
    savings: list[SavingEntry]
    no_savings: list[SavingEntry]
    prices: PriceEntry
