"""Code to copy for every action on a Space: the huggingface_hub call, the `hf` command and the line of our own command line.

    switch("ada/chat", "l4x1", sleep_time_s=3600).hf
    'hf spaces settings ada/chat --hardware l4x1 --sleep-time 3600'

Text from outside stays one Python literal and one word of a shell command; an id that begins with a dash is not read as an option. No code
holds a token: all three use the login of the machine they run on (`hf auth login`, or HF_TOKEN). Written for huggingface_hub 2.4; the
tests check every call against the installed client's signatures and every command with its own parser. The page shows each block with its
name and a button that copies it (`assets/page.js`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lib.answers.common import source_entries
from lib.catalog.offers import tier_of
from lib.present.cards import source_list
from lib.present.markup import bullet_list, code_blocks, escape
from lib.present.setup_files import Setup
from lib.present.space_steps import Action

_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/:._-]*")


def python_literal(text: str) -> str:
    """A Python literal of the text; what cannot be seen is written as an escape."""
    return f'"{text}"' if _PLAIN.fullmatch(text) else repr(text)


def shell_command(words: str, positional: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A line for a POSIX shell: `words` is ours, everything else is quoted; `--` parts the options off where a value looks like one."""
    dashed = any(value.startswith("-") for value in positional)
    order = (*options, "--", *positional) if dashed else (*positional, *options)
    return " ".join((words, *(shlex.quote(value) for value in order)))


def client_call(method: str, arguments: Sequence[str], *, result: str | None = None) -> str:
    """A call of the Hub's client; `result` is what is printed of the answer, which the code calls `answer`."""
    call = f"HfApi().{method}({', '.join(arguments)})"
    lines = ["from huggingface_hub import HfApi", ""]
    lines += [call] if result is None else [f"answer = {call}", f"print({result})"]
    return "\n".join(lines)


OURS = "python scripts/manage_space.py"
_STATE = "answer.stage, answer.hardware, answer.requested_hardware"

NO_QUESTION = "The Python call and the hf command act at once; the command line names the price first and asks."
LOGIN = "Sign in once with `hf auth login`, or set HF_TOKEN: a token that may write to the Space."


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One action, ready to copy. `cli` is `None` where our command line has no such action."""

    action: str
    title: str
    python: str
    hf: str
    cli: str | None
    notes: tuple[str, ...] = ()


def switch_snippet(space: str, hardware: str, sleep_time_s: int | None = None) -> Snippet:
    """Switch to a tier; `sleep_time_s` in seconds, -1 for never, `None` to leave it to the tier."""
    tier = tier_of(hardware)
    timed = [] if sleep_time_s is None else ["--sleep-time", str(sleep_time_s)]
    arguments = [
        python_literal(space),
        f"hardware={python_literal(tier)}",
        *([] if sleep_time_s is None else [f"sleep_time={sleep_time_s}"]),
    ]
    size = f'{hardware} is the tier {tier}; the size is asked for in the code: @spaces.GPU(size="xlarge").'
    return Snippet(
        action="switch",
        title=f"Switch to {tier}",
        python=client_call("request_space_hardware", arguments, result=_STATE),
        hf=shell_command("hf spaces settings", [space], ["--hardware", tier, *timed]),
        cli=shell_command(f"{OURS} hardware", [space], ["--tier", tier, *timed]),
        notes=(NO_QUESTION, LOGIN, *((size,) if tier != hardware else ())),
    )


def sleep_time_snippet(space: str, seconds: int) -> Snippet:
    """Set after how many seconds without a visit the Space sleeps; -1 for never."""
    return Snippet(
        action="sleep_time",
        title="Never sleep" if seconds == -1 else f"Sleep after {seconds} s without a visit",
        python=client_call("set_space_sleep_time", [python_literal(space), f"sleep_time={seconds}"], result="answer.sleep_time"),
        hf=shell_command("hf spaces settings", [space], ["--sleep-time", str(seconds)]),
        cli=shell_command(f"{OURS} sleep", [space], ["--sleep-time", str(seconds)]),
        notes=(LOGIN,),
    )


def pause_snippet(space: str) -> Snippet:
    """Pause the Space: not billed, and only its owner can restart it."""
    return Snippet(
        action="pause",
        title="Pause",
        python=client_call("pause_space", [python_literal(space)], result="answer.stage"),
        hf=shell_command("hf spaces pause", [space]),
        cli=shell_command(f"{OURS} pause", [space]),
        notes=(LOGIN,),
    )


def restart_snippet(space: str, *, factory: bool = False) -> Snippet:
    """Restart the Space; `factory` builds it anew, without the cached build."""
    return Snippet(
        action="restart",
        title="Factory restart" if factory else "Restart",
        python=client_call("restart_space", [python_literal(space), *(["factory_reboot=True"] if factory else [])], result="answer.stage"),
        hf=shell_command("hf spaces restart", [space], ["--factory-reboot"] if factory else []),
        cli=shell_command(f"{OURS} restart", [space], ["--factory"] if factory else []),
        notes=(NO_QUESTION, LOGIN),
    )


Block = tuple[str, str]


def action_snippet(action: Action, space: str, hardware: str, sleep_time_s: int | None) -> Snippet:
    """The code of exactly this action; `sleep_time_s` is `None` where the tier has a sleep of its own."""
    match action:
        case "switch":
            return switch_snippet(space, hardware, sleep_time_s)
        case "sleep":
            return sleep_time_snippet(space, -1 if sleep_time_s is None else sleep_time_s)
        case "pause":
            return pause_snippet(space)
        case "restart" | "factory":
            return restart_snippet(space, factory=action == "factory")


def action_code(snippet: Snippet) -> str:
    """The three ways to do an action, behind one line."""
    blocks: list[Block] = [("Python", snippet.python), ("hf command", snippet.hf)]
    if snippet.cli is not None:
        blocks.append(("This project's command line", snippet.cli))
    return f'<details class="rest code-rest"><summary>Code to copy</summary>{code_blocks(blocks)}{_notes(snippet.notes)}</details>'


def setup_code(setup: Setup) -> str:
    """The files of a recommendation, with what to mind and where the versions come from, each with its date."""
    blocks: list[Block] = [] if setup.front_matter is None else [("Head of README.md", setup.front_matter)]
    files = (
        ("app.py", setup.app),
        ("requirements.txt", setup.requirements),
        ("Dockerfile", setup.dockerfile),
        ("hf command", setup.command),
    )
    blocks += [(name, text) for name, text in files if text is not None]
    origin = source_list(source_entries(setup.sources))
    return f'{code_blocks(blocks)}{_notes(setup.notes)}<details class="rest"><summary>Where this comes from</summary>{origin}</details>'


def _notes(notes: Sequence[str]) -> str:
    return bullet_list([escape(note) for note in notes], "notes")
