"""The community's rule, with the guide's own examples."""

from __future__ import annotations

import pytest

from lib.laws.rule_of_thumb import rule_of_thumb_bytes


@pytest.mark.parametrize(
    ("parameters", "gigabytes"),
    [(124_000_000, 0.3), (8_000_000_000, 19), (70_000_000_000, 168), (47_000_000_000, 113)],
)
def test_examples_of_the_guide(parameters: int, gigabytes: float) -> None:
    """P · 2 · 1.2 in GB, as printed: GPT-2 0.298, Llama-3-8B 19.2, Llama-3-70B 168, Mixtral-8x7B 112.8."""
    exact = rule_of_thumb_bytes(parameters) / 10**9
    assert round(exact, 1 if gigabytes < 1 else 0) == gigabytes
