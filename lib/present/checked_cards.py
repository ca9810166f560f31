"""The cards of hardware that a visitor owns or names, and the card if nothing qualifies, with what comes closest."""

from __future__ import annotations

from markupsafe import Markup

from lib.advisor.result import ConfiguredHardware, Entry, OwnHardware, Recommendation, Rejection
from lib.answers.memory import SolveAnswer
from lib.present.cards import (
    PLATFORM_NAMES,
    larger_texts,
    memory_words,
    pace_words,
    per_device_words,
    precision_words,
    price_figures,
    reason_lists,
    run_figures,
)
from lib.present.markup import bullet_list, definition_list, escape, fold
from lib.present.numbers import count_words, whole
from lib.present.sentences import say, sentence

_CLOSEST = "near_miss"
_ONLY_SO = {"", "refused", "slow", "tight"}
"""Variants of the reason `quantized` in which higher precision does not fit or misses a limit."""


def no_pick_card(answer: Recommendation, model: str) -> str:
    """The card shown when nothing qualifies, with the changes that come closest: a larger budget first."""
    closest = [escape(sentence(note)) for note in answer.notes if note.code == _CLOSEST]
    advice = Markup("<p>{}</p>").format(say("findings", "no_pick", "advice"))
    return (
        f'<section class="card none" role="status"><h2>{escape(say("findings", "no_pick", "title"))}</h2>'
        f"<p>{escape(say('findings', 'no_pick', 'none', model=model))}</p>"
        f"{bullet_list(closest, 'why') if closest else advice}</section>"
    )


def _fits_words(runs: ConfiguredHardware) -> str:
    """That it fits, and in how many bits where they are fewer than those of the checkpoint."""
    bits = next((one.values["bits"] for one in runs.reasons if one.code == "quantized"), None)
    return "fits" if bits is None else f"fits in {bits} bits"


def own_card(own: OwnHardware, model: str, links: str = "") -> str:
    """The visitor's own cards: whether they run the model and how fast, in which memory, and why; `links` is markup."""
    runs = own.runs_as
    if runs is None:
        title, why = say("findings", "own", "title_refused", name=own.name), [*map(sentence, own.obstacles), *larger_texts(own)]
        settings, body = "", bullet_list([escape(one) for one in why], "why")
    else:
        title = say("findings", "own", "title_fits", name=own.name, configured=", ".join([_fits_words(runs), *pace_words(runs)]))
        settings = f'<p class="quiet">{precision_words(runs)} · {escape(say("findings", "own", "not_counted"))}</p>'
        body = run_figures(runs) + reason_lists(runs.reasons)
    eyebrow = f'<p class="eyebrow">{say("findings", "own", "run", model=escape(model))}</p>'
    head = f'<h2 id="own-name">{escape(title)}</h2>'
    return f'<section class="card own first" aria-labelledby="own-name">{eyebrow}{head}{settings}{body}{links}</section>'


def checked_text(answer: Recommendation, hardware: str) -> str:
    """Whether the named hardware runs the model, in which precision and how fast, in a sentence; where not, why."""
    found = _find(answer, hardware)
    if isinstance(found, Entry):
        compressed = next((one for one in found.reasons if one.code == "quantized" and one.variant in _ONLY_SO), None)
        form = f"only in {compressed.values['bits']} bits ({found.precision})" if compressed else f"runs in {found.precision}"
        return f"On {found.name}: {', '.join([form, *pace_words(found)])}"
    return f"On {found.name}: does not run" if found is not None else ""


def checked_card(answer: Recommendation, hardware: str, limits: SolveAnswer | None, links: str = "") -> str:
    """The named hardware as a card: the finding, price and memory, its limits, and why; "" if it is not among the offers.

    Args:
        answer: the recommendation with every platform.
        hardware: "platform:id", as the form's field has it.
        limits: the longest context and the most requests that fit; None if the model does not run.
        links: markup.
    """
    found = _find(answer, hardware)
    if found is None:
        return ""
    head = f'<h2 id="checked-name">{escape(checked_text(answer, hardware))}</h2>'
    named = f"{escape(found.name)} · {escape(PLATFORM_NAMES.get(found.platform, found.platform))}"
    if isinstance(found, Rejection):
        why = bullet_list([escape(sentence(one)) for one in (found.reason, *found.also)], "why")
        return f'<section class="card checked" aria-labelledby="checked-name"><p class="eyebrow">{named}</p>{head}{why}{links}</section>'
    rank = next(number for number, one in enumerate(answer.ranked, start=1) if one is found)
    place = "the best of all platforms" if rank == 1 else f"number {rank} of {count_words(len(answer.ranked), 'option')} on all platforms"
    figures = price_figures(found.cost)
    if found.memory is not None:
        figures.append((f"Memory used{per_device_words(found)}", memory_words(found.memory)))
    if limits is not None:
        figures += [
            ("Longest context", whole(limits.longest_context.value, "no limit")),
            ("Concurrent requests, at most", whole(limits.most_requests.value, "no limit")),
        ]
    return (
        f'<section class="card checked" aria-labelledby="checked-name"><p class="eyebrow">{named} · {precision_words(found)} · {place}</p>'
        f"{head}{definition_list(figures)}{links}{fold('Why', reason_lists(found.reasons))}</section>"
    )


def _find(answer: Recommendation, hardware: str) -> Entry | Rejection | None:
    """The offer of this name, as ranked or as rejected."""
    listed: tuple[Entry | Rejection, ...] = (*answer.ranked, *answer.rejected)
    return next((one for one in listed if f"{one.platform}:{one.hardware}" == hardware), None)
