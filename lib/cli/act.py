"""Actions in two steps: what would happen and what it costs, then the question, then the act, then watching until the Space runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import click

from lib.cli.outcome import DONE, FAILED, INTERRUPTED, NotConfirmed, answer, end, say
from lib.cli.session import opened, own_login
from lib.cli.show import acted_lines, preview_lines, progress_line
from lib.present.numbers import usd
from lib.service.account import AccountQuestions

_WORDS = {
    "switch": "switch the hardware of a Space",
    "sleep": "set the sleep time of a Space",
    "pause": "pause a Space",
    "restart": "restart a Space",
}
Act = Callable[[AccountQuestions, Mapping[str, Any], str], Mapping[str, Any]]


def carry_out(space: str, action: str, act: Act, *, planned: Mapping[str, Any], yes: bool, watch: bool, as_json: bool) -> None:
    """Preview, ask, act, watch. `planned` are the preview's own arguments; `act` gets the preview and the token.

    Raises:
        AdvisorError: refused by us, by the platform or by the person.
    """
    token = own_login(_WORDS[action])
    account = opened().account
    preview = account.preview(space, action, **planned, token=token)
    _told(preview)
    _confirmed(preview, yes=yes)
    done = act(account, preview, token)
    say(f"Sent. {done['stage_message']}")
    shown = {(note["code"], note["message"]) for note in preview["caveats"]}
    for note in done["caveats"]:
        if (note["code"], note["message"]) not in shown:
            say(f"note: {note['message']}")
    last, status = watched(account, done["space"], _bound_for(done), token) if watch else (None, DONE)
    answer({**done, "watched": last}, acted_lines(done, last), as_json=as_json)
    end(status)


def _terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def _bound_for(done: Mapping[str, Any]) -> str:
    """The tier that the Space is on its way to."""
    return str(done["after"]["hardware"]) if "after" in done else ""


def _told(preview: Mapping[str, Any]) -> None:
    for line in preview_lines(preview):
        say(line)


def _confirmed(preview: Mapping[str, Any], *, yes: bool) -> None:
    """Ask, unless that was done with --yes.

    Raises:
        NotConfirmed: nobody could be asked, or the answer was no.
    """
    if yes:
        return
    if not _terminal():
        raise NotConfirmed("Nothing was changed: this is no terminal, so nobody can be asked. Read the price above and add --yes to agree.")
    price = preview["confirm_usd_per_hour"]
    question = f"Do it, for {usd(price)} an hour and replica?" if price else "Do it?"
    if not click.confirm(question, default=False, err=True):
        raise NotConfirmed("Not confirmed: nothing was changed.")


def watched(account: AccountQuestions, space: str, hardware: str, token: str | None) -> tuple[Mapping[str, Any] | None, int]:
    """Show the stages until the Space rests; Ctrl-C ends the watching, and nothing else."""
    say("Watching. Ctrl-C stops the watching; what was asked for goes on.")
    last: Mapping[str, Any] | None = None
    try:
        with closing(account.watch(space, token=token, hardware=hardware)) as stages:  # type: ignore[type-var]
            for last in stages:
                say(progress_line(last))
    except KeyboardInterrupt:
        say(f"\nNo longer watching. The Space goes on as asked: `python scripts/manage_space.py status {space}` tells how it stands.")
        return last, INTERRUPTED
    return last, DONE if last is not None and last["arrived"] else FAILED
