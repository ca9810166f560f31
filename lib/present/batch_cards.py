"""A pile of work: the finding, each hardware with hours, price and machines, and the command for Jobs to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from lib.present.cards import caveat_list
from lib.present.markup import code_blocks, escape, hint_note
from lib.present.numbers import usd
from lib.present.sentences import say, sentence
from lib.present.tables import TableTools, show_table

if TYPE_CHECKING:
    from lib.answers.batch import BatchAnswer, BatchOption

SHOWN = 8
"""Rows that are shown until more are asked for."""


def _machines(option: BatchOption) -> str:
    return "1 machine" if option.shards == 1 else f"{option.shards:,} machines"


def finding(answer: BatchAnswer) -> str:
    """The pick in a sentence."""
    pick, work = answer.pick, f"{answer.items:,} {answer.unit}"
    if pick is None:
        return say("findings", "batch", "too_late" if answer.deadline_hours else "none", work=work, hours=answer.deadline_hours)
    return say(
        "findings", "batch", "pick", work=work, hours=pick.hours, cost=usd(pick.usd), machines=_machines(pick), name=pick.name,
        precision=pick.precision, engine=pick.engine,
    )  # fmt: skip


def batch_card(answer: BatchAnswer) -> str:
    """The answer as markup."""
    heads = ("Hardware", "Machines", "Hours", "Price", "Items/s", "Runs as")
    rows = [
        (
            Markup("<strong>{}</strong><small>{}</small>").format(one.name, one.platform),
            f"{one.shards:,}",
            f"{one.hours:,.3g}",
            usd(one.usd),
            f"{one.items_per_s:,.3g}",
            Markup("{}<small>{}</small>").format(one.precision, one.engine),
        )
        for one in answer.options
    ]
    keys = [(one.name.lower(), one.shards, one.hours, float(one.usd), one.items_per_s, one.precision) for one in answer.options]
    table = show_table(say("findings", "batch", "table"), heads, rows, "batch-options", TableTools(keys=keys, first=SHOWN))
    command = answer.pick.command if answer.pick is not None else ""
    code = code_blocks([(say("findings", "batch", "start"), command)]) if command else ""
    why = hint_note(sentence(answer.rejected[0].reason)) if answer.pick is None and answer.rejected else ""
    return (
        f'<section class="card" aria-label="A fixed amount of work"><h2>{escape(finding(answer))}</h2>{why}{code}'
        f"{table if rows else ''}{caveat_list(answer.caveats)}</section>"
    )
