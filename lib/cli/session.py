"""What the commands ask: the services in this process, with today's prices where they can be had; and whose token is used.

The token is that of whoever runs the command: the login on this machine (`hf auth login`) or HF_TOKEN. It is never an argument, for
those stand in the shell's history and in the list of processes.
"""

from __future__ import annotations

from lib.catalog import load
from lib.errors import NotSignedIn
from lib.hub.prices import PriceFeed
from lib.hub.providers import offered
from lib.service.models import Models
from lib.service.services import Services
from lib.service.speed_pace import estimated


def opened() -> Services:
    """The services, with the platform's prices of now if it answers within some seconds, else the bundled ones."""
    feed = PriceFeed(load())
    feed.refresh()
    return Services(catalog=feed.catalog, models=Models(), search=lambda _: (), offered=offered, pace=estimated, today=feed.refresh)


def login() -> str | None:
    """The token of this machine's own login, if there is one."""
    from huggingface_hub import get_token  # noqa: PLC0415  slow to import

    return get_token()


def own_login(what: str) -> str:
    """The token, for what needs one.

    Raises:
        NotSignedIn: nobody is logged in here.
    """
    token = login()
    if token is None:
        raise NotSignedIn(
            f"To {what}, a Hugging Face login is needed, and this machine has none. "
            "Run `hf auth login` with a token that may write to the Space, or set HF_TOKEN, and try again."
        )
    return token
