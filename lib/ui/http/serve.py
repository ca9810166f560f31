"""How the app is served: the queue's size, the middleware in front of Gradio's routes, and the Gradio features that are turned off."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from lib.present.sentences import to_json
from lib.ui import live_boxes
from lib.ui.http.callers import CAPACITY, MOST_EVENTS, FrameAncestors, QueueSlots, Sessions, begin_without_settings
from lib.ui.http.failures import HANDLERS, Failures
from lib.ui.http.fair_queue import Threads
from lib.ui.http.gradio_internals import prevent_hot_reload, share_threads
from lib.ui.http.link_preview import LinkPreview, picture_route
from lib.ui.http.mcp import agent_routes, routes
from lib.ui.http.middleware import ApiMiddleware
from lib.ui.http.shortcuts import CompressEvents, PageCache, Skeleton, direct_routes

if TYPE_CHECKING:
    import gradio as gr

    from lib.service.app import Services
    from lib.ui.events import Page

log = logging.getLogger(__name__)

SWITCH_S = 0.001
"""How long a thread that computes may keep the interpreter while another waits for it. An answer passes through several threads and waits
each time: with Python's 5 ms a cheap question during eight simulations took 0.10 s in the median, with 1 ms 0.04 s (on a busy machine)."""
_ARENAS, _M_ARENA_MAX = 2, -8  # malloc.h
"""Of GNU's malloc, by default eight for each processor. Each keeps some of what its threads freed: after 16 searches of capacity on eight
threads the process had 292 MiB by default and 240 with two."""


def share_process() -> None:
    """Let threads that compute leave the interpreter to those that answer, keep little freed memory, and open all files that are allowed.

    To call before threads start.
    """
    sys.setswitchinterval(SWITCH_S)
    raise_file_limit()
    with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's has no such call
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, _ARENAS)


def raise_file_limit() -> None:
    """Allow as many open files as the system lets this process have: each connection is one, and without one left none is accepted."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):  # macOS says "unlimited" and takes less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def launch_arguments(page: Page, services: Services) -> dict[str, Any]:
    """Arguments for `page.launch`; host and port stay with the environment (GRADIO_SERVER_NAME, GRADIO_SERVER_PORT)."""
    public_endpoints = services.endpoints()
    threads = Threads()
    begin_without_settings()
    prevent_hot_reload()
    share_threads(page, threads.queue)
    page.mcp_server = True  # the page's "Use via API" then shows how to connect; the server itself is ours (lib.ui.http.mcp)

    def public() -> dict[int, str]:
        return {number: fn.api_name for number, fn in page.fns.items() if fn.api_name and fn.api_visibility == "public"}

    return {
        "_frontend": False,  # else Gradio asks for the page once, and on a busy machine ends the app if that takes more than 3 s
        "app_kwargs": {
            "routes": [
                *direct_routes(public_endpoints, threads),
                *routes(public_endpoints, threads),
                *agent_routes(public_endpoints),
                *live_boxes.routes(services),
                _health_route(services),
                picture_route(),
            ],
            "exception_handlers": HANDLERS,
            "middleware": [
                Middleware(Failures),
                Middleware(FrameAncestors),
                Middleware(CompressEvents),
                Middleware(PageCache, page=page, first_view=Skeleton(page, services), preview=LinkPreview(services, threads)),
                Middleware(
                    ApiMiddleware,
                    endpoints=public_endpoints,
                    public=public,
                    events={number for number, fn in page.fns.items() if fn.fn is not None},
                    places=QueueSlots(page),
                    sessions=Sessions(page),
                ),
            ],
        },
        "enable_monitoring": False,
        "max_file_size": "2mb",
        "max_threads": MOST_EVENTS,
        "mcp_server": False,
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
        "state_session_capacity": CAPACITY,
    }


def _health_route(services: Services) -> Route:
    """`/healthz`, for monitoring: from memory, without a login, and nothing of the request in it."""

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(to_json(services.health()), headers={"Cache-Control": "no-store"})

    return Route("/healthz", answer, methods=["GET"])


_FULL = 2
"""The generation of a full collection."""
KEEP_ALIVE_S = 75
"""Seconds for which a connection without a request is kept. Common clients keep theirs for 5 s (httpx) to 60 s (proxies); a server that
gives up first, as uvicorn does after 5 s, resets requests that are on their way."""


def after_launch(page: gr.Blocks, warm_up: Callable[[], None]) -> None:
    """Keep the connections of a launched page open, ask it once, aside, for what every visitor asks, and then `warm_up`.

    Gradio's launch takes no such setting, and each connection reads it as it opens. Gradio's routes put themselves together at the first
    request for each, which takes 0.2 s of the thread that serves all visitors. Objects that exist by then live as long as the process, so
    the garbage collector, which was off until now (`app.py`), need not scan them again: a scan takes 0.15 s, in which no request is
    answered. The collector is on from here, also if the visit fails.
    """
    gc.freeze()
    gc.enable()
    page.server.config.timeout_keep_alive = KEEP_ALIVE_S
    threading.Thread(target=_visit, args=(page.local_url, warm_up), name="first visit", daemon=True).start()


LOOK_AGAIN_S = 120.0
"""Garbage among these objects is found after this time at the latest."""


def spare_survivors(clock: Callable[[], float] = time.monotonic) -> Callable[[str, Mapping[str, int]], None]:
    """A callback for `gc.callbacks`: an object that survives a full collection is not looked at again for `LOOK_AGAIN_S` seconds.

    The caches hold up to 400,000 objects, which a full collection takes 0.4 s to look through, and nothing is answered meanwhile. Questions
    that make many objects (`/what_runs`) start one every second. A cache frees what it drops without the collector.

    Measured 2026-11-26 with 40 open calls of /what_runs (`bench_attacks.py`, two busy cores): a collection took 10 to 25 ms, not
    300 to 470, and another visitor's p95 was 198 ms, not 420. The look at everything takes 0.9 s each time.
    """
    looked = clock()

    def on_collection(phase: str, info: Mapping[str, int]) -> None:
        nonlocal looked
        if info["generation"] < _FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() - looked >= LOOK_AGAIN_S:
            looked = clock()
            gc.unfreeze()

    return on_collection


def _visit(url: str, warm_up: Callable[[], None]) -> None:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        try:
            client.get("/")
            client.get("/", params={"tab": "memory"})  # the page of links
            number = next(one["id"] for one in client.get("/config").json()["dependencies"] if one["api_name"] == "list_hardware")
            client.post("/gradio_api/queue/join", json={"data": [], "fn_index": number, "session_hash": "first"})
            client.get("/gradio_api/queue/data", params={"session_hash": "first"})
            client.post("/gradio_api/run/recommend", json={"data": ["7B"]})
        except (httpx.HTTPError, ValueError, KeyError, StopIteration) as error:  # then the first visitor waits for it
            log.warning("the first visit failed: %s", type(error).__name__)
    gc.unfreeze()
    gc.callbacks.append(spare_survivors())
    gc.collect()
    warm_up()
