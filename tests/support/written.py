"""Services that answer with JSON, as callers of the API see it: most tests read that."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import closing
from typing import Any

from lib.present.sentences import to_json
from lib.service import app
from lib.service.app import Services
from lib.service.endpoint import App, bind_arguments


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or generator, with JSON in place of results; anything else that it returns stays."""

    def call(*values: object, **named: object) -> Any:
        return to_json(function(*values, **named))

    def stream(*values: object, **named: object) -> Any:
        with closing(function(*values, **named)) as pieces:
            yield from map(to_json, pieces)

    return functools.update_wrapper(stream if inspect.isgeneratorfunction(function) else call, function)


def ask(function: Callable[..., Any], app_: App) -> Callable[..., Any]:
    """The endpoint's function bound to an app, `written`."""
    return written(bind_arguments(function, app_))


class Written:
    """Services whose methods are `written`; `results` are the services themselves, whose results the page draws."""

    def __init__(self, results: Services) -> None:
        self.results = results

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.results, name)
        return written(found) if callable(found) and hasattr(found, "arguments") else found

    def __getitem__(self, function: Callable[..., Any]) -> Any:
        return written(self.results[function])


def services() -> Any:
    """The app's own services."""
    return Written(app.services())
