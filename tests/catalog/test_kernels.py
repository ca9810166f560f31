"""Formats that engines read on a GPU: rows of `lib/data/kernels.json` by compute capability; without a row, units of the silicon."""

from __future__ import annotations

import pytest

from lib.catalog import load
from lib.catalog.kernels import is_weight_only, read_kernels, reads_format
from lib.engines import TRAITS
from lib.precision import NAMES, weight_format

CARDS = load().accelerators


@pytest.mark.parametrize(
    ("engine", "precision", "card", "dense", "mixture"),
    [
        ("vllm", "fp8-block", "A100-SXM4-80GB", True, True),
        ("vllm", "fp8-tensor", "T4", True, True),
        ("vllm", "fp8-tensor", "V100-SXM2", False, False),
        ("vllm", "mxfp4", "T4", False, False),
        ("vllm", "awq-4", "V100-SXM2", False, False),
        ("sglang", "fp8-block", "A10G", True, False),  # its experts fail on Ampere
        ("sglang", "fp8-block", "T4", False, False),
        ("tensorrt-llm", "nvfp4", "L40S", False, False),
        ("tensorrt-llm", "fp8-tensor", "A100-SXM4-80GB", False, False),
        ("transformers", "fp8-block", "A100-SXM4-80GB", False, False),
        ("transformers", "fp8-block", "L40S", True, True),
        ("vllm", "fp8-tensor", "MI355X", True, True),  # no compute capability: its own units count
        ("vllm", "bf16", "T4", False, False),
    ],
)
def test_an_engine_reads_a_format_from_a_compute_capability_on(engine: str, precision: str, card: str, dense: bool, mixture: bool) -> None:
    """Of a dense model and of a mixture of experts."""
    found = [reads_format(engine, precision, CARDS[card], mixture=of_experts) for of_experts in (False, True)]
    assert found == [dense, mixture]


def test_weights_are_read_alone_only_where_units_are_missing() -> None:
    """An A100 has no units for fp8 and Marlin unpacks it; an L40S has them; nobody unpacks fp8 on a V100."""
    assert [is_weight_only("vllm", "fp8-tensor", CARDS[card], mixture=False) for card in ("A100-SXM4-80GB", "L40S", "V100-SXM2")] == [
        True,
        False,
        False,
    ]
    assert not is_weight_only("transformers", "fp8-block", CARDS["A100-SXM4-80GB"], mixture=False)


def test_every_row_is_about_a_format_that_its_engine_loads() -> None:
    """The name of a row is fp8 or a law of a format, and the engine does not refuse it on every silicon."""
    laws = {weight_format(name).law for name in NAMES if name != "auto"} | {"fp8"}
    for (engine, form), row in read_kernels().items():
        assert form in laws - TRAITS[row.engine].cannot_load, (engine, form)
        assert row.mixture_capability >= row.capability
