"""Building without the network: while a stranger's configuration is built, this thread opens no connection.

Some configuration classes of `transformers` look a name up on the Hub (`backbone` in DPT, UPerNet, DETR …), and they do it with the
server's own token. Names of that kind cannot all be known, so the door is closed where every connection has to pass: Python's
audit events. Other threads are not concerned.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from lib.errors import UnsupportedModel

_EVENTS = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto", "socket.sendmsg"}
)


class _Thread(threading.local):
    closed = False


_thread = _Thread()


def _refuse(event: str, _arguments: object) -> None:
    if event in _EVENTS and _thread.closed:
        raise UnsupportedModel(
            "The configuration names something that would have to be fetched from another place (such as a backbone), which is not done "
            "here. Paste a config.json that holds it in full, or give the parameter count instead (such as '7B')."
        )


@cache
def _hook() -> None:
    """Once a process: an audit hook cannot be taken out again, so it is put in at the first build and does nothing elsewhere."""
    sys.addaudithook(_refuse)


@contextmanager
def no_network() -> Iterator[None]:
    """Within this block, on this thread, every attempt to connect or to look up a host is refused.

    Raises:
        UnsupportedModel: something tried to.
    """
    _hook()
    before, _thread.closed = _thread.closed, True
    try:
        yield
    finally:
        _thread.closed = before
