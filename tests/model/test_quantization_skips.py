"""Modules that a checkpoint leaves unquantized, by the names in its list."""

from __future__ import annotations

import pytest
from model_facts import LLAMA

from lib.model.build import build
from lib.model.quantization import skip_test
from lib.model.spec import Quantization

PATHS = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.experts", "lm_head")


@pytest.mark.parametrize(
    ("method", "listed", "skipped"),
    [
        ("fp8", (), ("lm_head",)),
        ("fp8", ("lm_head", "model.layers.0"), (PATHS[0], "lm_head")),
        ("fp8", ("q_proj",), PATHS[:2]),
        ("modelopt", (), ()),
        ("modelopt", ("model.layers.1*",), PATHS[1:3]),
        ("compressed-tensors", ("re:.*self_attn.*", "lm_head"), (*PATHS[:2], "lm_head")),
        ("modelopt", ("model.layers.1.mlp.experts.0.up_proj",), PATHS[2:3]),
        ("compressed-tensors", ("re:(((", "re:(a+)+$"), ()),
    ],
)
def test_names_match_as_each_method_means_them(method: str, listed: tuple[str, ...], skipped: tuple[str, ...]) -> None:
    """Exact names, parents, ends, wildcards and expressions; an expression that is invalid or explosive matches nothing."""
    test = skip_test(Quantization(method=method, format="", skipped=listed), build(LLAMA).model)
    assert tuple(p for p in PATHS if test(p)) == skipped


def test_a_hostile_expression_is_not_tried() -> None:
    """Nested repetition on a long path would run for years: that this test ends shows that nobody tried."""
    test = skip_test(Quantization(method="compressed-tensors", format="", skipped=("re:(.*a)*(.*b)*$", "re:(x|xx)+y")), build(LLAMA).model)
    assert not test("x" * 200 + "." + "a" * 200)
