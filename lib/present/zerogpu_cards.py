"""A ZeroGPU call against the quota: the decorator to copy, the figures, and the platform's checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lib.present.markup import bullet_list, code_blocks, definition_list, escape
from lib.present.sentences import say, sentence

if TYPE_CHECKING:
    from lib.answers.zerogpu import ZeroGpuQuotaAnswer


def finding(answer: ZeroGpuQuotaAnswer) -> str:
    """The verdict in a sentence."""
    return say("findings", "quota", answer.verdict, calls=answer.calls_a_day)


def _figures(answer: ZeroGpuQuotaAnswer) -> Iterator[tuple[str, str]]:
    yield "Reserved", f"{answer.reserved_s:,} s"
    yield "Charged at the end", f"{float(answer.charged_s):,.4g} s"
    if answer.left is None:
        yield f"Quota a day ({answer.account})", f"{answer.daily_quota_s:,} s"
    else:
        yield "Left", f"{answer.left.remaining_s:,.0f} of {answer.left.base_s:,.0f} s"
        yield "Resets", answer.left.resets_at or "24 h after the first use"
    yield "Longest duration that fits", f"{answer.longest_declared_s:,} s"


def quota_card(answer: ZeroGpuQuotaAnswer) -> str:
    """The answer as markup."""
    figures = definition_list((escape(name), escape(value)) for name, value in _figures(answer))
    checks = bullet_list([escape(sentence(check)) for check in answer.checks], "reasons")
    return (
        f'<section class="card" aria-label="ZeroGPU quota"><h2>{escape(finding(answer))}</h2>{figures}'
        f"{code_blocks([('Write above the function', answer.declaration)])}<h3>The platform's checks, in their order</h3>{checks}</section>"
    )


def quota_lines(answer: ZeroGpuQuotaAnswer) -> list[str]:
    """The answer for a terminal."""
    rows = [f"  {name}: {value}" for name, value in _figures(answer)]
    return [finding(answer), f"  {answer.declaration}", *rows, *(f"- {sentence(check)}" for check in answer.checks)]
