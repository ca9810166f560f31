"""Actions in two steps: what would happen and what it costs, then the question, then the act, then watching until the Space runs.

What the commands ask: the services in this process, with today's prices where they can be had; and whose token is used.

The token belongs to the user who runs the command: the login on this machine (`hf auth login`) or HF_TOKEN. It is never an argument, for
those stand in the shell's history and in the list of processes.

The files for a recommendation, as JSON and as text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import click

from lib.answers.common import RankedEntry
from lib.catalog import Catalog, load
from lib.cli.outcome import DONE, FAILED, INTERRUPTED, NotConfirmed, end_command, print_answer, say
from lib.cli.show import action_lines, preview_lines, progress_line
from lib.errors import NotSignedIn
from lib.hub.prices import PriceFeed
from lib.present.numbers import usd
from lib.present.setup_files import write_setup
from lib.service.app import Account, Services
from lib.service.endpoint import App
from lib.service.models import Models


def open_services() -> Services:
    """The services, with the platform's prices of now if it answers within some seconds, else the bundled ones."""
    feed = PriceFeed(load())
    feed.refresh()
    return Services(App(catalog=feed.catalog, refreshed_catalog=feed.refresh, models=Models()))


def login() -> str | None:
    """The token of this machine's own login, if there is one."""
    from huggingface_hub import get_token  # noqa: PLC0415  slow to import

    return get_token()


def require_login(what: str) -> str:
    """The token, for what needs one.

    Raises:
        NotSignedIn: this machine has no login.
    """
    token = login()
    if token is None:
        raise NotSignedIn(
            f"To {what}, a Hugging Face login is needed, and this machine has none. "
            "Run `hf auth login` with a token that may write to the Space, or set HF_TOKEN, and try again."
        )
    return token


_WORDS = {
    "switch": "switch the hardware of a Space",
    "sleep": "set the sleep time of a Space",
    "pause": "pause a Space",
    "restart": "restart a Space",
}
Act = Callable[[Account, Mapping[str, Any], str], Mapping[str, Any]]


def carry_out(space: str, action: str, act: Act, *, planned: Mapping[str, Any], yes: bool, watch: bool, as_json: bool) -> None:
    """Preview, ask, act, watch. `planned` are the preview's own arguments; `act` gets the preview and the token.

    Raises:
        AdvisorError: refused by us, by the platform or by the person.
    """
    token = require_login(_WORDS[action])
    account = open_services().account
    preview = account.preview(space, action, **planned, token=token)
    _say_preview(preview)
    _confirmed(preview, yes=yes)
    done = act(account, preview, token)
    say(f"Sent. {done['stage_message']}")
    in_preview = {(note["code"], note["message"]) for note in preview["caveats"]}
    for note in done["caveats"]:
        if (note["code"], note["message"]) not in in_preview:
            say(f"note: {note['message']}")
    last, status = watch_stages(account, done["space"], _bound_for(done), token) if watch else (None, DONE)
    print_answer({**done, "watched": last}, action_lines(done, last), as_json=as_json)
    end_command(status)


def _terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def _bound_for(done: Mapping[str, Any]) -> str:
    """The tier that the Space is on its way to."""
    return str(done["after"]["hardware"]) if "after" in done else ""


def _say_preview(preview: Mapping[str, Any]) -> None:
    for line in preview_lines(preview):
        say(line)


def _confirmed(preview: Mapping[str, Any], *, yes: bool) -> None:
    """Ask, unless that was done with --yes.

    Raises:
        NotConfirmed: there was no terminal to ask on, or the answer was no.
    """
    if yes:
        return
    if not _terminal():
        raise NotConfirmed("Nothing was changed: this is no terminal, so nobody can be asked. Read the price above and add --yes to agree.")
    price = preview["confirm_usd_per_hour"]
    question = f"Do it, for {usd(price)} an hour and replica?" if price else "Do it?"
    if not click.confirm(question, default=False, err=True):
        raise NotConfirmed("Not confirmed: nothing was changed.")


def watch_stages(account: Account, space: str, hardware: str, token: str | None) -> tuple[Mapping[str, Any] | None, int]:
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


def files_entry(entry: RankedEntry, catalog: Catalog, framework: str, *, model: str, context_tokens: int, sequences: int) -> dict[str, Any]:
    """README front matter, requirements.txt, Dockerfile and the `hf` line, each null where there is none, and what to know about them.

    Raises:
        BadArgument: the hardware does not run this framework.
    """
    setup = write_setup(entry, catalog, model=model, framework=framework, context_tokens=context_tokens, sequences=sequences)
    return {
        "framework": setup.framework,
        "readme_front_matter": setup.front_matter,
        "requirements_txt": setup.requirements,
        "dockerfile": setup.dockerfile,
        "command": setup.command,
        "notes": list(setup.notes),
        "sources": [{"what": one.what, "source": one.source, "checked": one.checked} for one in setup.sources],
    }


def files_text(files: Mapping[str, Any]) -> str:
    """The files one below the other, each under its name."""
    named = {"readme_front_matter": "README.md", "requirements_txt": "requirements.txt", "dockerfile": "Dockerfile", "command": "Command"}
    blocks = [part for key, name in named.items() if files[key] is not None for part in (f"{name}:", "", files[key])]
    return "\n".join([*blocks, *(f"note: {note}" for note in files["notes"])])
