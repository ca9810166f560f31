"""Arguments and options that several commands share, and their examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
SCRIPT = "python scripts/manage_space.py"


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def examples(*lines: str) -> str:
    """Lines for the foot of a help text, each a whole command."""
    return "\b\nExamples:\n" + "\n".join(f"  {SCRIPT} {line}" for line in lines)


space_argument = click.argument("space", metavar="USER/SPACE")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask: you agree to the price that is shown.")
no_wait = click.option("--no-wait", is_flag=True, help="Do not watch until the Space runs.")
workload = _options(
    click.option("--task", default="auto", show_default=True, help="A Hub task such as text-generation."),
    click.option("--context-tokens", default=4096, show_default=True, help="Tokens per request, prompt and answer together."),
    click.option("--concurrency", default=1, show_default=True, help="Requests served at the same time."),
    click.option("--requests-per-day", default=100, show_default=True, help="How many requests arrive in a day."),
    click.option("--hours-per-day", default=24.0, show_default=True, help="Hours a day that the hardware runs."),
    click.option("--precision", default="auto", show_default=True, help="fp16, bf16, fp8, int8, int4, bnb-nf4, gguf:Q4_K_M, ..."),
    click.option("--account", default="free", show_default=True, help="Plan of the account that hosts: free, pro, team, enterprise."),
    click.option("--max-usd-per-month", default=0.0, show_default=True, help="Budget; 0 sets no limit."),
    click.option("--min-tokens-per-s", default=0.0, show_default=True, help="What each request must get; 0 sets no limit."),
    click.option("--priority", default="balanced", show_default=True, help="cheapest, balanced or fastest."),
    click.option("--platforms", default="spaces", show_default=True, help="Comma list of spaces, zerogpu, endpoints, jobs, tpu, all."),
)
