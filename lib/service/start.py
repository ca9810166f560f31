"""The services of a running app: the catalog with live prices, the bundled models, the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.catalog import load
from lib.hub.prices import PriceFeed
from lib.hub.providers import offered
from lib.hub.search import suggest
from lib.hub.space_session import install
from lib.service.models import Models
from lib.service.services import Services
from lib.service.speed_pace import estimated

if TYPE_CHECKING:
    from collections.abc import Sequence


def _search(text: str) -> Sequence[str]:
    return suggest(text).ids


def services() -> Services:
    """Ready to answer at once from what is bundled; prices are refreshed in the background, the Hub is asked when a visitor does."""
    install()  # before the first request: taking over the Hub client's session closes the one that was there
    feed = PriceFeed(load())
    return Services(catalog=feed.catalog, models=Models(), search=_search, offered=offered, pace=estimated, today=feed.refresh)
