"""The community's hardware guide, row by row, with today's ids; where today's answer differs, the reason stands beside the row.

The defaults hold: a free account, 100 requests a day, 4096 tokens, balanced, Spaces and ZeroGPU. `guide` is what the guide says,
`today` the pick (or two, where it is a near thing), `rented` the first hardware with a price (what is left when ZeroGPU does not suit).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from advisor_specs import decoder, encoder, pipeline

from lib.advisor import recommend
from lib.catalog import load
from lib.model.spec import ModelSpec
from lib.request.types import AccountName
from lib.workload import Workload

CATALOG = load()
ZERO = "zero-a10g"


@dataclass(frozen=True)
class Row:
    """One line of the guide."""

    name: str
    model: ModelSpec
    guide: frozenset[str]
    today: str
    rented: str
    why: str = ""

    def __str__(self) -> str:
        return self.name


def row(name: str, model: ModelSpec, guide: str, today: str, rented: str, why: str = "") -> Row:
    """A row with the guide's answers as words."""
    return Row(name, model, frozenset(guide.split()), today, rented, why)


HALF_CARD = (
    "half an RTX PRO 6000 (47.5 GiB) holds it as stored and is free within the visitors' quota; the guide's answer is the first rented"
)
INT8_ON_T4 = "free on half a card; rented, FP8 on an L4, or int8 with vLLM on a T4 of half the price"
FREE_AND_FASTER = "half a card is free and faster; the guide's answer is the first rented"
LLM = (
    row("135M", decoder(135e6, layers=30, heads=9, kv_heads=3), "cpu-upgrade", ZERO, "cpu-upgrade", FREE_AND_FASTER),
    row("350M", decoder(350e6, layers=24, heads=8, kv_heads=2), "cpu-upgrade", ZERO, "cpu-upgrade", FREE_AND_FASTER),
    row(
        "0.6B",
        decoder(0.6e9, layers=28, heads=16, kv_heads=8),
        "zero-a10g t4-small",
        "zero-a10g cpu-upgrade",
        "t4-small cpu-upgrade",
        "at the edge of what eight cores prefill in time",
    ),
    row("1.5B", decoder(1.5e9, layers=28, heads=12, kv_heads=2), "zero-a10g t4-small", ZERO, "t4-small"),
    row("3B", decoder(3e9, layers=36, heads=16, kv_heads=2), "zero-a10g t4-small", ZERO, "t4-small"),
    row(
        "5B",
        decoder(5e9),
        "zero-a10g l4x1",
        ZERO,
        "t4-small",
        "as ZeroGPU; rented, 14.6 GiB of a T4 hold it in fp16 for half the price of an L4",
    ),
    row("7B", decoder(7e9), "zero-a10g l4x1", ZERO, "t4-small l4x1", INT8_ON_T4),
    row(
        "8B", decoder(8e9), "l40sx1", ZERO, "l4x1 t4-small", "free on half a card; rented, FP8 on an L4, or int8 on a T4 of half the price"
    ),
    row(
        "13B",
        decoder(13e9, layers=40, heads=40, kv_heads=40),
        "l40sx1",
        "zero-a10g zero-a10g-xlarge",
        "l4x1",
        HALF_CARD + "; rented, an L4 holds it in FP8 for less than half the price",
    ),
    row(
        "30B",
        decoder(30e9, layers=60, heads=56),
        "a100-large",
        "zero-a10g-xlarge",
        "l40sx1 a100-large",
        "a whole card of 95 GiB holds it as stored for nothing while ten free visitors carry the requests; rented, an L40S holds it in FP8 "
        "for 72 % of an A100's price, which is full with it as stored",
    ),
    row(
        "34B",
        decoder(34e9, layers=60, heads=56),
        "a100-large",
        "zero-a10g-xlarge",
        "l40sx1 a100-large",
        "the whole card holds it in 16 bits for nothing, and a visitor's quota allows the eight runs a day that users report; rented, "
        "as 30B",
    ),
    row(
        "70B",
        decoder(70e9, layers=80, heads=64),
        "a100-large",
        "rtx-pro-6000",
        "rtx-pro-6000",
        "FP8 needs 66 of 95 GiB of the RTX PRO 6000, which the guide did not know, and loses less than four bits on an A100",
    ),
    row("120B", decoder(120e9, layers=80, heads=96), "a100-large", "a100-large", "a100-large"),
)
TASKS = (
    row("classification", encoder(110e6, task="text-classification"), "cpu-upgrade", "cpu-upgrade", "cpu-upgrade"),
    row("embedding", encoder(335e6), "cpu-upgrade", "cpu-upgrade", "cpu-upgrade"),
    row(
        "embedding with a 7B model",
        decoder(7e9, task="feature-extraction"),
        "cpu-upgrade",
        ZERO,
        "l4x1",
        "the guide means small encoders; one pass of this one takes 24 s on 8 virtual CPUs",
    ),
    row("custom chat", decoder(8e9), "zero-a10g", ZERO, "l4x1 t4-small", INT8_ON_T4),
    row("image, 3.5B", pipeline(3.5e9, task="text-to-image"), "zero-a10g l4x1", ZERO, "t4-small"),
    row("image, 12B", pipeline(12e9, task="text-to-image"), "zero-a10g l4x1", ZERO, "l40sx1", "as ZeroGPU; rented, it outgrows an L4"),
    row("video, 7B", pipeline(7.2e9, task="text-to-video"), "l40sx1 a100-large", "l40sx1", "l40sx1"),
    row("video, 20B", pipeline(20e9, task="text-to-video"), "l40sx1 a100-large", "a100-large", "a100-large"),
    row("vision-language", decoder(8e9, task="image-text-to-text"), "zero-a10g l4x1", ZERO, "l4x1 t4-small", INT8_ON_T4),
    row(
        "speech, 240M",
        decoder(0.24e9, task="automatic-speech-recognition", layers=12, heads=6),
        "cpu-upgrade zero-a10g",
        "cpu-upgrade",
        "cpu-upgrade",
    ),
    row(
        "speech, 1.5B", decoder(1.5e9, task="automatic-speech-recognition", layers=32, heads=10), "cpu-upgrade zero-a10g", ZERO, "t4-small"
    ),
)


@pytest.mark.parametrize("case", [*LLM, *TASKS], ids=str)
def test_pick_is_the_guides_or_says_why_not(case: Row) -> None:
    """The pick is one of the guide's answers, or the row says why today's is better."""
    found = recommend(case.model, Workload(), CATALOG)
    assert found.pick is not None
    assert found.pick.offer.id in case.today.split()
    assert found.pick.offer.id in case.guide or case.why


@pytest.mark.parametrize("case", [*LLM, *TASKS], ids=str)
def test_first_rented_hardware(case: Row) -> None:
    """Without ZeroGPU the first hardware with a price is the guide's, or the row says why not."""
    found = recommend(case.model, Workload(), CATALOG)
    assert next(entry.offer.id for entry in found.ranked if entry.cost.usd_per_hour > 0) in case.rented.split()


@pytest.mark.parametrize(("parameters", "layers", "heads"), [(70e9, 80, 64), (120e9, 80, 96)])
def test_above_30b_only_quantized_on_one_card(parameters: float, layers: int, heads: int) -> None:
    """More than 30B on one A100 means quantized weights, and the answer says so."""
    found = recommend(decoder(parameters, layers=layers, heads=heads), Workload(), CATALOG)
    assert found.pick is not None
    assert found.pick.step > 0
    assert "quantized" in {reason.code for reason in found.pick.reasons}


@pytest.mark.parametrize(
    ("account", "pick"),
    [("pro", "cpu-basic"), ("team", "cpu-basic"), ("enterprise", "cpu-basic"), ("free", ZERO)],
)
def test_inference_api_demo(account: AccountName, pick: str) -> None:
    """A Space that only calls a provider: cpu-basic, except that free accounts cannot create it and get ZeroGPU for nothing."""
    found = recommend(None, Workload(task="inference-api", account=account), CATALOG)
    assert found.pick is not None
    assert found.pick.offer.id == pick
    assert found.pick.cost.total_usd_per_month == 0


def test_l4_before_a10g() -> None:
    """The guide prefers l4x1 over a10g-small: as much memory for less money."""
    order = [entry.offer.id for entry in recommend(decoder(8e9), Workload(), CATALOG).ranked]
    assert order.index("l4x1") < order.index("a10g-small")
