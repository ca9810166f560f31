"""*My Space*, seeing: what the Space is doing and costs, and the tier that suits it beside the one it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import gradio as gr

from lib.catalog.offers import ZEROGPU_TIER
from lib.errors import AdvisorError, NoLinkedModel
from lib.present.cards import prices_line
from lib.present.markup import answer_actions, escape, hint_note, refusal_note
from lib.present.space_cards import STATIC, price_words, size_card, status_card, status_text
from lib.present.tables import answer_json
from lib.ui import fields as ask
from lib.ui import workload

if TYPE_CHECKING:
    from lib.answers.common import HardwareEntry
    from lib.answers.spaces import SpaceStatus
    from lib.service.app import Services

UNLINKED = "Its card names no model (`models:` in the README.md). Name the model it runs and press “Right-size”."
CHOOSE = "Name a Space to see what it runs on, what that costs, and what would suit it better."


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceMarkup:
    """A Space as it was found: markup, its id ("" when it was not found or has no hardware to change), and the sleep time that it has."""

    status: str
    space: str = ""
    sleep_time_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMarkup:
    """The right size as markup, and the tier to move to ("" when there is none)."""

    card: str
    tier: str = ""


def build_size() -> gr.Textbox:
    """Which model the right size is for; the workload is that of the page."""
    return gr.Textbox(label="Model it runs", info="Empty: the models that the Space's card names.", max_lines=1, elem_id="size-model")


def space_markup(services: Services, space: str | None, token: str | None) -> SpaceMarkup:
    """Look at the Space; a refusal becomes a sentence."""
    if not (space or "").strip():
        return SpaceMarkup(status=hint_note(CHOOSE))
    try:
        status = services.account.space_status((space or "").strip(), token=token)
    except AdvisorError as refused:
        return SpaceMarkup(status=refusal_note(str(refused)))
    return SpaceMarkup(
        status=status_markup(status), space="" if status["sdk"] == STATIC else status["space"], sleep_time_s=status["sleep_time_s"]
    )


def status_markup(status: SpaceStatus) -> str:
    """The card of a Space with what can be done with it; of a private one no link is offered, for it tells strangers its name."""
    acts = answer_actions(
        text=status_text(status),
        query=None if status["private"] else "?" + urlencode({"tab": "space", "space": status["space"]}),
        files=(("Download JSON", "space.json", "application/json", answer_json(status)),),
    )
    return status_card(status) + acts + tpu_link(status) + prices_line(status["prices"])


def tpu_link(status: SpaceStatus) -> str:
    """Where to read what the Space's first model would take on a TPU; nothing for a private Space, whose models may be private too."""
    if status["private"] or not status["models"]:
        return ""
    query = "?" + urlencode({"tab": "tpu", "model": status["models"][0]})
    return f'<p class="notes"><a href="{escape(query)}">What would {escape(status["models"][0])} take on a TPU?</a></p>'


def size_markup(services: Services, space: str, model: str | None, values: Sequence[Any], token: str | None) -> SizeMarkup:
    """Ask for the right size under the workload of the page; a refusal becomes a sentence."""
    if not space:
        return SizeMarkup(card="")
    try:
        answer = services.account.right_size(space, model=model or "", **workload.recommend_arguments(values), token=token)
    except NoLinkedModel:
        return SizeMarkup(card=hint_note(UNLINKED))
    except AdvisorError as refused:
        return SizeMarkup(card=ask.word_refusal(refused, "No right size."))
    pick = answer["pick"]
    tier = ""
    if pick is not None and answer["decision"] == "move":
        tier = {"spaces": pick["hardware"], "zerogpu": ZEROGPU_TIER}.get(pick["platform"], "")
    return SizeMarkup(card=size_card(answer), tier=tier)


def tier_of_hardware(hardware: object) -> str | None:
    """The tier of a Space that the page's hardware is; `None` where it is no such tier."""
    platform, _, flavor = str(hardware or "").partition(":")
    return {"spaces": flavor, "zerogpu": ZEROGPU_TIER}.get(platform)


def tier_choices(services: Services) -> list[tuple[str, str]]:
    """The tiers that a Space can have today, each with its price; ZeroGPU is one, its sizes are asked for by the app's functions."""
    rows = services.list_hardware("spaces")["hardware"]
    return [(_tier(row), row["id"]) for row in rows if row["platform"] == "spaces" or row["id"] == ZEROGPU_TIER]


def _tier(row: HardwareEntry) -> str:
    name = "ZeroGPU" if row["id"] == ZEROGPU_TIER else row["name"]
    return f"{name} · {row['id']} · {price_words(row['usd_per_hour'])}"
