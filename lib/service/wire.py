"""Small values as JSON: money, caveats, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from lib.answers.common import CaveatEntry, PriceEntry, SourceEntry
    from lib.catalog import PriceState
    from lib.provenance import Caveat, Source


def usd(amount: Decimal | None) -> float | None:
    """A price as a JSON number that prints as in the catalog: JSON writes the shortest decimal that means the float, 0.80 → 0.8."""
    return None if amount is None else float(amount)


def caveat_entries(caveats: Iterable[Caveat]) -> list[CaveatEntry]:
    """Each distinct caveat once, in the order met."""
    return [{"code": caveat.code, "message": caveat.message} for caveat in dict.fromkeys(caveats)]


def source_entries(sources: Iterable[Source]) -> list[SourceEntry]:
    """Each distinct source once, in the order met."""
    return [{"what": source.what, "source": source.source, "checked": source.checked} for source in dict.fromkeys(sources)]


def price_entry(state: PriceState) -> PriceEntry:
    """Which prices are used, and how old the oldest is."""
    return {"basis": state.basis, "checked": state.oldest}
