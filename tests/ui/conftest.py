"""What the tests of the page share."""

from __future__ import annotations

import pytest

from lib.catalog import load
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models


@pytest.fixture(scope="session")
def real_app() -> Services:
    """The services as the app has them, offline."""
    return Services(App(catalog=load, models=Models(), search=lambda _: (), providers=lambda _: pytest.fail("no provider is asked for")))
