"""What people write, and the hardware that it means."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lib.catalog import load
from lib.catalog.offers import Hardware
from lib.errors import UnknownHardware

CATALOG = load()
IDS = sorted({offer.id for offer in CATALOG.offers if offer.status != "retired"})


@pytest.mark.parametrize(
    ("text", "platform", "key"),
    [
        ("l4x1", "spaces", "l4x1"),
        ("l4", "spaces", "l4x1"),
        (" L4X1 ", "spaces", "l4x1"),
        ("l40s", "spaces", "l40sx1"),
        ("a100", "spaces", "a100-large"),
        ("a10g", "spaces", "a10g-small"),
        ("t4", "spaces", "t4-small"),
        ("zerogpu", "zerogpu", "zero-a10g"),
        ("zero-a10g", "zerogpu", "zero-a10g"),
        ("zero-a10g-xlarge", "zerogpu", "zero-a10g-xlarge"),
        ("h200", "jobs", "h200"),
        ("cpu-xl", "jobs", "cpu-xl"),
        ("v5litepod-4", "tpu", "v5litepod-4"),
        ("v5e-4", "tpu", "v5litepod-4"),
        ("v6e-8", "tpu", "v6e-8"),
        ("aws-nvidia-l4-x1", "endpoints", "aws-nvidia-l4-x1"),
        ("aws-us-east-1-nvidia-l4-x1", "endpoints", "aws-nvidia-l4-x1"),
        ("aws-eu-west-1-nvidia-l4-x1", "endpoints", "aws-nvidia-l4-x1"),
        ("aws-nvidia-h100-x1", "endpoints", "aws-nvidia-h100-x1"),
    ],
)
def test_names_of_offers(text: str, platform: str, key: str) -> None:
    """Ids, aliases, any case, blanks around; Spaces before the others."""
    offer = CATALOG.resolve_offer(text)
    assert (offer.platform, offer.id) == (platform, key)
    assert CATALOG.resolve_hardware(text) is offer


@pytest.mark.parametrize(
    ("text", "card", "count"),
    [
        ("L4", "L4", 1),
        ("H100-SXM", "H100-SXM", 1),
        ("H100-SXMx8", "H100-SXM", 8),
        ("h100-sxmX8", "H100-SXM", 8),
        ("TPU-v6ex4", "TPU-v6e", 4),
        ("TPU7x", "TPU7x", 1),
        ("TPU7xx4", "TPU7x", 4),
        ("RTX-4090x2", "RTX-4090", 2),
        ("L4x3", "L4", 3),
        ("L4x4", "L4", 4),
        ("CPU-8vCPU", "CPU-8vCPU", 1),
        ("NVIDIA GeForce RTX 4090", "RTX-4090", 1),
        ("rtx 4070 ti superx2", "RTX-4070Ti-SUPER", 2),
        ("Apple M4 Max 128GB", "M4-Max-128GB", 1),
        ("AMD MI355X", "MI355X", 1),
    ],
)
def test_plain_silicon(text: str, card: str, count: int) -> None:
    """An id of silicon, with a count; the answer's id can be asked for again."""
    found = CATALOG.resolve_hardware(text)
    assert found.traits.owned
    assert (found.processor.id, max(1, found.accelerator_count)) == (card, count)
    assert CATALOG.resolve_hardware(found.id) == found


def test_owned_cards_read_like_an_offer() -> None:
    """Eight H100: eight times 79.1 GiB; a CPU has memory of its own and no accelerator."""
    cards = CATALOG.resolve_hardware("H100-SXMx8")
    assert (cards.accelerator, cards.accelerator_count, cards.accelerator_fraction) == ("H100-SXM", 8, 1.0)
    assert cards.vram_bytes_per_accelerator == int(79.1 * 2**30)
    assert cards.name == "8 × NVIDIA H100 SXM5 80GB"
    host = CATALOG.resolve_hardware("CPU-8vCPU")
    assert (host.accelerator, host.accelerator_count, host.vram_bytes_per_accelerator) == (None, 0, None)
    assert (host.vcpu, host.ram_bytes) == (8, 32 * 2**30)


def test_a_platform_can_be_asked_for() -> None:
    """The same id on Spaces and Jobs."""
    assert CATALOG.resolve_offer("l4x1", "jobs").platform == "jobs"
    assert CATALOG.offer("cpu-basic").usd_per_hour == 0
    assert str(CATALOG.offer("cpu-basic", "jobs").usd_per_hour) == "0.01"
    with pytest.raises(UnknownHardware, match="on spaces"):
        CATALOG.resolve_offer("h200", "spaces")
    for resolve in (CATALOG.resolve_hardware, CATALOG.resolve_offer):
        assert resolve("Jobs: l4x1") is CATALOG.offer("l4x1", "jobs")
        with pytest.raises(UnknownHardware, match="on spaces"):
            resolve("spaces:h200")
    assert CATALOG.resolve_offer("spaces:l4x1", "spaces") is CATALOG.offer("l4x1", "spaces")
    with pytest.raises(UnknownHardware, match="jobs:l4x1"):
        CATALOG.resolve_offer("jobs:l4x1", "spaces")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("v5e-2x2", "it left spaces on 2025-04-02. Its last price was 5.50 USD per hour. Closest today: 'v5litepod-4'."),
        ("h100", "it left spaces in 2025-12. Its last price was 4.50 USD per hour. Closest today: 'h200'."),
        ("gcp-tpu-2x4", "it left endpoints on 2025-07-17. Its last price was 9.50 USD per hour. Closest today: 'v5litepod-8'."),
        ("sprx8", "it left spaces on 2026-05-27."),
    ],
)
def test_what_was_withdrawn_says_when_and_what_to_take(text: str, says: str) -> None:
    """Dates, last price, and what is closest today."""
    for resolve in (CATALOG.resolve_hardware, CATALOG.resolve_offer):
        with pytest.raises(UnknownHardware) as refused:
            resolve(text)
        assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("l4x2x", "'l4x4'"),
        ("a100-lage", "'a100-large'"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("x" * 100_000, "100000 characters"),
        ("L4x0", "1 to 16384"),
        ("L4x99999", "1 to 16384"),
        ("CPU-8vCPUx2", "one host"),
        ("quantum", "/list_hardware"),
        ("l4\n; rm", "There is no hardware"),
        (7, "It has to be text"),
        (None, "It has to be text"),
        (["l4x1"], "It has to be text"),
        (float("nan"), "It has to be text"),
    ],
)
def test_what_is_not_known_says_so(text: object, says: str) -> None:
    """What was seen, and what is near or where the list is."""
    with pytest.raises(UnknownHardware) as refused:
        CATALOG.resolve_hardware(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


def test_hardware_without_a_price_is_named_with_what_is_nearest() -> None:
    """RTX PRO 6000 is announced for Endpoints: its price elsewhere, and the cheapest card there that holds as much."""
    with pytest.raises(UnknownHardware) as refused:
        CATALOG.resolve_hardware("endpoints:RTX PRO 6000")
    for said in ("announced for endpoints on 2026-06-23", "'spaces:rtx-pro-6000' (2.75 USD", "'aws-nvidia-h200-x1' (5.00 USD"):
        assert said in str(refused.value)
    assert all(key in CATALOG.accelerators for row in CATALOG.unpriced for key in row.accelerators)


def test_plain_silicon_has_no_price() -> None:
    """Where a price is needed, a card that is no offer is refused; its name in lower case may still be an alias."""
    with pytest.raises(UnknownHardware, match="without a price"):
        CATALOG.resolve_offer("H100-SXMx8")
    assert CATALOG.resolve_offer("L4").id == "l4x1"


def test_unknown_silicon_by_id() -> None:
    """An exact lookup names near matches too."""
    with pytest.raises(UnknownHardware, match="'H100-SXM'"):
        CATALOG.accelerator("H100-SXN")


def test_exact_lookup_takes_no_alias() -> None:
    """`offer` is for ids that were resolved before."""
    with pytest.raises(UnknownHardware, match="l4x1"):
        CATALOG.offer("l4")


@given(st.sampled_from(IDS), st.sampled_from([str.upper, str.lower, str.title, str]))
def test_every_id_is_found_in_any_case(key: str, case: type[str]) -> None:
    """Where an offer is asked for, capital letters make no difference."""
    assert CATALOG.resolve_offer(case(key)).id == key


@given(st.sampled_from(sorted(CATALOG.accelerators)), st.integers(min_value=1, max_value=16384))
def test_every_silicon_is_found_with_any_count(key: str, count: int) -> None:
    """Id → text → cards is the identity."""
    if CATALOG.accelerator(key).kind not in {"cpu", "apple"}:
        found = CATALOG.resolve_hardware(f"{key}x{count}")
        assert found.traits.owned
        assert (found.processor.id, max(1, found.accelerator_count)) == (key, count)


@given(st.text(max_size=120) | st.sampled_from(IDS).flatmap(lambda key: st.text(max_size=4).map(lambda tail: key + tail)))
@example("x")
@example("x8")
@example("L4x١")
@example("ẞx2")
def test_any_text_is_resolved_or_refused_with_a_short_sentence(text: str) -> None:
    """Nothing else than hardware or UnknownHardware comes out."""
    try:
        found: Hardware | str = CATALOG.resolve_hardware(text)
    except UnknownHardware as refused:
        found = str(refused)
    assert isinstance(found, Hardware) or 0 < len(found) < 500
