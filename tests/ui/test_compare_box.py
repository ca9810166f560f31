"""*Compare*: values in, finding and table out, with the real services and no network."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import page_values
import pytest
from page_fake import LLAMA

from lib.advisor.result import Entry
from lib.present.side_by_side import Column, comparison_text, find_difference, ranges_overlap
from lib.service.app import Services
from lib.service.recommend import recommend
from lib.ui.compare_box import compare_updates

SMALL = "Qwen/Qwen2.5-0.5B-Instruct"


def show(services: Services, chosen: str, model: str = LLAMA, **asked: Any) -> dict[str, Any]:
    """The updates for a choice under a question."""
    return compare_updates(services, model, [*page_values.fill_form("recommend", **asked), chosen])


def _row(card: str, title: str) -> list[str]:
    """The cells of a row as text."""
    row = re.search(rf'<th role="rowheader" scope="row">{title}</th>(.*?)</tr>', card)
    assert row is not None
    return [re.sub("<[^>]+>", " ", cell).strip() for cell in re.findall("<td.*?>(.*?)</td>", row[1])]


def test_rows_are_those_of_the_recommendation(real_app: Services) -> None:
    """Prices, speed and memory as its table has them; the finding divides them."""
    card = show(real_app, "spaces:l4x1,spaces:a100-large")["card"]
    found = {entry.hardware: entry for entry in real_app[recommend](LLAMA).ranked}
    l4, a100 = found["l4x1"], found["a100-large"]
    assert _row(card, "Price per hour") == ["$0.80", "$2.50"]
    assert l4.speed.decode_tokens_per_s is not None
    assert a100.speed.decode_tokens_per_s is not None
    ratio = a100.speed.decode_tokens_per_s / l4.speed.decode_tokens_per_s
    price = a100.cost.total_usd_per_month / l4.cost.total_usd_per_month
    assert f"is {ratio:.1f} × as fast as {l4.name}, for {price:.1f} × the price" in card
    assert f"{l4.memory.per_device_bytes / 2**30:.1f}" in _row(card, "Memory used")[0]  # type: ignore[union-attr]


def test_models_are_compared_at_their_best_or_on_one_row(real_app: Services) -> None:
    """Without a row each has its own pick; with one both run there."""
    best = show(real_app, SMALL)["card"]
    assert "The quality of answers is not compared." in best
    there = show(real_app, f"spaces:l4x1,{SMALL}")["card"]
    assert "Predicted on 1x Nvidia L4 for" in there
    speeds = [float(cell.split()[0]) for cell in _row(there, "Speed per request")]
    assert speeds[1] > speeds[0]


def test_own_cards_cost_no_rent(real_app: Services) -> None:
    """They have a column like others, without a price."""
    card = show(real_app, "spaces:l4x1,RTX-4090")["card"]
    assert _row(card, "Price per month") == ["$576", "nothing to rent"]
    assert "and costs no rent" in card


def test_a_column_that_does_not_run_says_why(real_app: Services) -> None:
    """In its column, in the words of the recommendation; a model that cannot be read too, unless it is the page's."""
    card = show(real_app, "spaces:l4x1,spaces:cpu-basic")["card"]
    assert "Only 1x Nvidia L4 runs as asked" in card
    assert _row(card, "Runs as asked")[1].startswith("no: ")
    assert "&lt;img" in show(real_app, "<img src=x>")["card"]
    assert "<img" not in show(real_app, "<img src=x>")["card"]
    assert 'role="alert"' in show(real_app, SMALL, model="7Bx")["card"]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("spaces:l4x1", "Tick another one"),
        (f"spaces:l4x1,spaces:a10g-small,{SMALL}", "2 models on 2 hardware choices each"),
        ("spaces:l4x1,spaces:l4x1", "Tick another one"),
    ],
)
def test_one_column_or_too_many_say_what_to_do(real_app: Services, chosen: str, words: str) -> None:
    """Each part can be removed there."""
    shown = show(real_app, chosen)
    assert words in shown["bar"]
    assert 'data-drop="spaces:l4x1"' in shown["bar"]
    assert "card" not in shown
    assert show(real_app, "") == {}
    assert 'role="alert"' in show(real_app, "a,b,c,d")["card"]


def _columns(services: Services, *prices_and_ratios: tuple[int, float]) -> list[Column]:
    """An L4 as often as asked, each with a monthly price and with so many times its speed."""
    entry = next(one for one in services[recommend](LLAMA).ranked if one.hardware == "l4x1")
    columns = []
    for number, (usd, ratio) in enumerate(prices_and_ratios):
        runs = replace(entry, cost=replace(entry.cost, total_usd_per_month=Decimal(usd)), speed=_faster(entry, ratio))
        columns.append(Column(model=LLAMA, hardware=f"card {number}", platform="spaces", task="text-generation", runs=runs))
    return columns


def _faster(entry: Entry, ratio: float) -> Any:
    predicted = entry.speed.predicted
    assert predicted is not None
    assert predicted.tpot_s is not None
    shorter = replace(
        predicted.tpot_s, low=predicted.tpot_s.low / ratio, value=predicted.tpot_s.value / ratio, high=predicted.tpot_s.high / ratio
    )
    return replace(entry.speed, predicted=replace(predicted, tpot_s=shorter))


@pytest.mark.parametrize(
    ("columns", "finding"),
    [
        ([(100, 1), (160, 2)], "Card 1 is twice as fast as card 0, for 1.6 × the price"),
        ([(100, 1), (70, 1.4)], "Card 1 is 1.4 × as fast as card 0 and costs 30 % less"),
        ([(100, 1), (100, 1.4)], "Card 1 is 1.4 × as fast as card 0 at the same price"),
        ([(0, 1), (576, 12)], "Card 1 is 12 × as fast as card 0, but costs $576 a month"),
        ([(0, 1), (0, 1.2)], "Card 1 is 1.2 × as fast as card 0"),
        ([(100, 1), (62, 1.02)], "Card 1 costs 38 % less and is about as fast as card 0"),
        ([(100, 1), (0, 1)], "Card 1 is free and is about as fast as card 0"),
        ([(100, 1), (101, 1.01), (102, 1)], "About the same speed, and the same price"),
        ([(100, 1), (130, 1.5), (300, 3)], "Card 2 is 3 × as fast as card 0, for 3 × the price"),
    ],
)
def test_the_finding_weighs_speed_against_price(real_app: Services, columns: list[tuple[int, float]], finding: str) -> None:
    """By hand: ratios of speed and of the monthly price, a twentieth counts as equal."""
    made = _columns(real_app, *columns)
    assert find_difference(made) == finding
    assert comparison_text(made).startswith(f"{finding}.\ncard 0: ")


def test_overlapping_ranges_are_admitted(real_app: Services) -> None:
    """A tenth is within the range of the prediction, ten times is not."""
    assert ranges_overlap(_columns(real_app, (100, 1), (100, 1.1)))
    assert not ranges_overlap(_columns(real_app, (100, 1), (100, 10)))
