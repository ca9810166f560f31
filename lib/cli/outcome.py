"""How a command ends: its exit status, its answer on stdout, everything else on stderr.

With --json, stdout holds exactly one JSON object, also when the command was refused: {"schema": 1, "error": {"code", "message"}}.
Text from elsewhere is printed without control characters: a terminal obeys some of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NoReturn

import click

from lib import errors
from lib.present.wording import write_text

DONE, REFUSED, USAGE, NOT_PERMITTED, PAYMENT, NOT_FOUND, UNREACHABLE, NOT_CONFIRMED, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 130
MEANINGS = {
    DONE: "done",
    REFUSED: "refused: an argument, the platform's rules, a model that cannot be used",
    USAGE: "the command line itself is wrong",
    NOT_PERMITTED: "not signed in, or the token may not do this",
    PAYMENT: "a payment method, credits or a plan is missing",
    NOT_FOUND: "no such Space or model that the token can see",
    UNREACHABLE: "the Hub did not answer, is busy with the Space, or asks for fewer requests",
    NOT_CONFIRMED: "not confirmed, so nothing was changed",
    FAILED: "done, but the Space did not come to run within the time: an error stage, or still starting",
    INTERRUPTED: "stopped with Ctrl-C",
}
_OF = (
    (errors.NotSignedIn, NOT_PERMITTED),
    (errors.NotPermitted, NOT_PERMITTED),
    (errors.RepoGated, NOT_PERMITTED),
    (errors.PaymentNeeded, PAYMENT),
    (errors.RepoNotFound, NOT_FOUND),
    (errors.HubError, UNREACHABLE),
    (errors.Busy, UNREACHABLE),
)
_CALLED = {
    "/list_hardware": "the command `tiers`",
    "/set_sleep_time": "the command `sleep`",
    "/restart_space": "the command `restart`",
    "/space_status": "the command `status`",
    "/account_overview": "the command `account`",
    "/zerogpu_quota": "the command `zerogpu`",
}


class NotConfirmed(errors.AdvisorError):
    """The user answered no, or there was no terminal to ask on."""

    code = "not_confirmed"


write_line = partial(write_text, "command_line")
"""A sentence of the commands, by its group and code in command_line.yaml, with its values."""


def status_of(error: errors.AdvisorError) -> int:
    """The exit status of a refusal."""
    if isinstance(error, NotConfirmed):
        return NOT_CONFIRMED
    return next((status for kind, status in _OF if isinstance(error, kind)), REFUSED)


def strip_controls(text: object) -> str:
    """Text without control characters, line breaks kept."""
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in str(text))


def say(text: object = "") -> None:
    """One line for the person: progress, notes, questions."""
    click.echo(strip_controls(text), err=True)


def print_answer(result: object, text: str, *, as_json: bool) -> None:
    """The answer, as one JSON object or as text."""
    from lib.present.sentences import to_json  # noqa: PLC0415  slow to import

    click.echo(json.dumps(to_json(result), ensure_ascii=True) if as_json else strip_controls(text))


def end_command(status: int) -> NoReturn:
    """End the command with a status."""
    raise click.exceptions.Exit(status)


def name_commands(message: str) -> str:
    """A sentence that names endpoints, for people who have commands."""
    for endpoint, words in _CALLED.items():
        message = message.replace(f". {endpoint}", f". {words.capitalize()}").replace(endpoint, words)
    return message


def guard_command(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose refusals end it with a sentence and a status; it takes `as_json`."""

    @wraps(command)
    def run(*args: Any, as_json: bool, **options: Any) -> None:
        try:
            command(*args, as_json=as_json, **options)
        except errors.AdvisorError as error:
            _print_refusal(error.code, name_commands(str(error)), as_json=as_json)
            end_command(status_of(error))
        except click.Abort:
            _print_refusal(NotConfirmed.code, write_line("acting", "not_confirmed"), as_json=as_json)
            end_command(NOT_CONFIRMED)
        except KeyboardInterrupt:
            _print_refusal("interrupted", write_line("acting", "interrupted"), as_json=as_json)
            end_command(INTERRUPTED)
        except BrokenPipeError:  # the reader of a pipe left, as `head` does
            sys.stderr.close()
            end_command(DONE)

    return run


def _print_refusal(code: str, message: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": 1, "error": {"code": code, "message": message}}))
    say(message)
