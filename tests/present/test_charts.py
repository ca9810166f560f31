"""What every chart owes: colours that are seen on both themes."""

from __future__ import annotations

import pytest

from lib.present import cards, charts, live_measurements, traffic_rows, training_cards

PANELS = ("#ffffff", "#1a1f27")  # light and dark, lib/ui/theme.py
MARKS = {
    *cards.PART_COLOURS.values(), *cards.PLATFORM_COLOURS.values(), *training_cards.COLOURS.values(), *traffic_rows.COLOURS.values(),
    *live_measurements._COLOURS, *charts._PASSES, charts.MARK, charts._INNER,
    *(colour for _, colour in charts.KIND_COLOURS.values()),
}  # fmt: skip


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("colour", sorted(MARKS))
def test_a_mark_is_seen_on_both_themes(colour: str, panel: str) -> None:
    """WCAG 1.4.11: 3:1 against the panel behind it."""
    bright, dark = sorted((_luminance(colour), _luminance(panel)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3
