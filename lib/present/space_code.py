"""Code to copy as blocks of the page: each with its name and a button that copies it (`assets/page.js`)."""

from __future__ import annotations

from collections.abc import Sequence

from lib.present.explain import sources
from lib.present.markup import bullets, escaped
from lib.present.snippet_setup import Setup
from lib.present.snippets import Snippet, pause, restart, sleep_time, switch
from lib.present.space_steps import Action

Block = tuple[str, str]


def of_action(action: Action, space: str, hardware: str, sleep_time_s: int | None) -> Snippet:
    """The code of exactly this action; `sleep_time_s` is `None` where the tier has a sleep of its own."""
    match action:
        case "switch":
            return switch(space, hardware, sleep_time_s)
        case "sleep":
            return sleep_time(space, -1 if sleep_time_s is None else sleep_time_s)
        case "pause":
            return pause(space)
        case "restart" | "factory":
            return restart(space, factory=action == "factory")


def action_code(snippet: Snippet) -> str:
    """The three ways to do an action, behind one line."""
    blocks: list[Block] = [("Python", snippet.python), ("hf command", snippet.hf)]
    if snippet.cli is not None:
        blocks.append(("This project's command line", snippet.cli))
    return f'<details class="rest code-rest"><summary>Code to copy</summary>{blocks_of(blocks)}{_notes(snippet.notes)}</details>'


def setup_code(setup: Setup) -> str:
    """The files of a recommendation, with what to mind and where the versions come from, each with its date."""
    blocks: list[Block] = [] if setup.front_matter is None else [("Head of README.md", setup.front_matter)]
    blocks.append(("requirements.txt", setup.requirements))
    read = [{"what": source.what, "source": source.source, "checked": source.checked} for source in setup.sources]
    return (
        f'{blocks_of(blocks)}{_notes(setup.notes)}<details class="rest"><summary>Where this comes from</summary>{sources(read)}</details>'
    )


def _notes(notes: Sequence[str]) -> str:
    return bullets([escaped(note) for note in notes], "notes")


def blocks_of(blocks: Sequence[Block]) -> str:
    """Named blocks of code, each with its button."""
    return "".join(
        f'<figure class="code"><figcaption>{escaped(name)}'
        f'<button type="button" class="act" data-copy="{escaped(code)}" aria-label="Copy: {escaped(name)}">Copy</button>'
        f'<span class="sr" role="status"></span></figcaption><pre tabindex="0"><code>{escaped(code.rstrip())}</code></pre></figure>'
        for name, code in blocks
    )
