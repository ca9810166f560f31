"""The public endpoints in one table: who answers, in whose name, and how.

Gradio (`lib.ui.api`), plain HTTP (`lib.ui.edge`) and MCP (`lib.ui.mcp`) are built from it, so a line here is all that a new
endpoint needs. Arguments without a default, then those with one, are public; a keyword-only `token` is the caller's own and is in no list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lib.service.services import Services

__all__ = ["Endpoint", "endpoints"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A public question, and how it is asked.

    `account`: it acts in the caller's name, so it takes a keyword-only `token: str | None`. `queued`: it takes long or needs the device,
    so it waits its turn; those of the same `slot` come one after the other. `streams`: it is a generator, and every item is an answer
    that is fuller than the one before.
    """

    question: Callable[..., Any]
    account: bool = False
    queued: bool = False
    streams: bool = False
    slot: str = "device"

    def __post_init__(self) -> None:
        """Hold the table to what the questions really are.

        Raises:
            TypeError: the question takes a token and does not say so, or the other way round; or it streams past the queue.
        """
        token = inspect.signature(self.question).parameters.get("token")
        if self.account != (token is not None and token.kind is inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"{self.question.__name__}: `account` and a keyword-only `token` go together")
        if self.streams and not self.queued:
            raise TypeError(f"{self.question.__name__}: only the queue can stream")


def endpoints(services: Services) -> dict[str, Endpoint]:
    """The endpoints by name: these, and no others, are answered over the API and MCP."""
    return {
        "resolve_model": Endpoint(question=services.resolve_model),
        "estimate_memory": Endpoint(question=services.estimate_memory),
        "recommend": Endpoint(question=services.recommend),
        "list_hardware": Endpoint(question=services.list_hardware),
        "estimate_speed": Endpoint(question=services.estimate_speed),
        "estimate_cost": Endpoint(question=services.estimate_cost),
        "chat": Endpoint(question=services.live.chat, queued=True, streams=True, slot="chat"),
        "measure": Endpoint(question=services.live.measure, queued=True),
        "heartbeat": Endpoint(question=services.live.heartbeat, queued=True),
        "space_status": Endpoint(question=services.account.space_status, account=True),
        "right_size": Endpoint(question=services.account.right_size, account=True),
        "switch_hardware": Endpoint(question=services.account.switch_hardware, account=True),
        "set_sleep_time": Endpoint(question=services.account.set_sleep_time, account=True),
        "pause_space": Endpoint(question=services.account.pause_space, account=True),
        "restart_space": Endpoint(question=services.account.restart_space, account=True),
    }
