"""Text from outside meets no expression of ours that could take for ever, and no key or list that repeats one without end."""

from __future__ import annotations

import importlib
import pkgutil
import re
from re import _constants as sre
from re._parser import parse
from typing import Any

import pytest

import lib
from lib.errors import BadConfig
from lib.model import config
from lib.model.checkpoint import _MTP, _is_scale, _layer_number, read_quantization
from lib.model.config import check_config

REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}
BOUNDED = {
    ("lib.catalog.names", "_COUNTED"): "its text has at most 80 characters, and one end",
    ("lib.catalog.names", "_COUNT_FIRST"): "its text has at most 80 characters",
    ("lib.catalog.names", "_COUNT_LAST"): "its text has at most 80 characters",
    ("lib.model.file_header", "_BLOCK"): "its text is a tensor's name of at most 1,024 characters, and one end",
    ("lib.ui.http.shortcuts", "_CONFIG"): "reads the page that this app makes, whose config escapes what would end it",
    ("lib.ui.http.shortcuts", "_INFO"): "the same page",
    ("lib.ui.http.shortcuts", "_SETTINGS"): "the same page",
}
"""Expressions with an unbounded dot, and why they may keep it."""


def find_unbounded(tree: Any) -> list[tuple[Any, bool]]:
    """The unbounded repetitions of an expression in order: what each repeats, and whether it holds another one."""
    found: list[tuple[Any, bool]] = []
    for kind, value in tree:
        if kind in REPEATS:
            inner = find_unbounded(value[2])
            if value[1] is sre.MAXREPEAT:
                found.append((list(value[2]), bool(inner)))
            found += inner
        elif kind is sre.BRANCH:
            found += [one for branch in value[1] for one in find_unbounded(branch)]
        elif kind in {sre.SUBPATTERN, sre.ASSERT, sre.ASSERT_NOT}:
            found += find_unbounded(value[-1])
    return found


def patterns() -> dict[tuple[str, str], re.Pattern[str]]:
    """Every compiled expression that a module of `lib` holds, in collections too."""
    found: dict[tuple[str, str], re.Pattern[str]] = {}

    def visit(module: str, name: str, value: Any) -> None:
        if isinstance(value, re.Pattern):
            found[module, name] = value
        elif isinstance(value, (tuple, list)):
            for at, item in enumerate(value):
                visit(module, f"{name}[{at}]", item)

    for module in pkgutil.walk_packages(lib.__path__, "lib."):
        for name, value in vars(importlib.import_module(module.name)).items():
            visit(module.name, name, value)
    return found


def test_no_expression_of_ours_goes_back_over_its_text() -> None:
    """No dot is repeated without end, but for those above, and no repetition stands in a repetition."""
    every = patterns()
    assert len(every) > 50
    dotted = {
        place for place, pattern in every.items() if any(inner == [(sre.ANY, None)] for inner, _ in find_unbounded(parse(pattern.pattern)))
    }
    assert dotted == set(BOUNDED)
    assert [place for place, pattern in every.items() if any(nested for _, nested in find_unbounded(parse(pattern.pattern)))] == []


@pytest.mark.parametrize(("pattern", "dots", "nested"), [(".*a.*", 2, 0), ("(a+)+", 0, 1), ("(?:x|.+)", 1, 0), ("ab{2,9}", 0, 0)])
def test_the_walk_sees_dots_and_nests(pattern: str, dots: int, nested: int) -> None:
    """What the test above relies on."""
    found = find_unbounded(parse(pattern))
    assert (sum(inner == [(sre.ANY, None)] for inner, _ in found), sum(holds for _, holds in found)) == (dots, nested)


@pytest.mark.parametrize("hostile", ["expert" * 20_000, "x" * 201, "num_" * 60])
@pytest.mark.parametrize("value", [1, [1] * 1_000, {"a": 1}])
def test_a_long_key_is_refused_at_any_depth(hostile: str, value: object) -> None:
    """The sentence has the length seen, the length accepted, and what to do."""
    for damaged in ({hostile: value}, {"model_type": "llama", "text_config": [{hostile: value}]}):
        with pytest.raises(
            BadConfig, match=rf"has {len(hostile):,} characters\. Accepted: up to 200; take it out, or shorten it"
        ) as refused:
            check_config(damaged)
        assert len(str(refused.value)) < 300


def test_the_range_of_a_key_is_looked_up_once_for_a_list() -> None:
    """Also for lists in lists."""
    config._range.cache_clear()
    check_config({"expert" * 33: [[1] * 100] * 100})
    assert config._range.cache_info().misses == 1


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("number_of_conv_states", 2_000),
        ("num_stacks", 2**15),
        ("decoder_n_points", 2**15),
        ("hc_count", 2**15),
        ("num_hash_buckets", 2**18),
        ("num_bpe_labels", 2**18),
        ("num_train_steps", 10_000_000),
        ("n_inner", 10_000_000),
        ("moe_expert_hidden_size", 2**22),
        ("num_local_experts", 2**16),
        ("size_per_expert", 2**16),
        ("hidden_size", 2**24),
        ("num_hidden_layers", 2_000),
        ("layers_block_type", 10_000_000),
        ("eos_token_id", 2**63 - 1),
    ],
)
def test_a_key_has_its_limit(key: str, most: int) -> None:
    """Ten million states of 86 bytes of text took five gigabytes."""
    check_config({key: most})
    with pytest.raises(BadConfig, match=rf"'{key}' was .* Accepted: up to {most:,}\."):
        check_config({key: most + 1})


def test_a_published_list_is_read_as_before() -> None:
    """From the file to the test."""
    said = {"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*", "lm_head", ""]}
    found, _ = read_quantization({"quantization_config": said})
    assert found is not None
    assert found.skipped == ("re:.*self_attn.*", "lm_head", "")


@pytest.mark.parametrize(
    ("name", "layer", "mtp", "scale"),
    [
        ("model.layers.61.eh_proj.weight", 61, True, False),
        ("layers.3.moe.layers.12.w.weight_scale_inv", 12, False, True),
        ("mtp.layers.0.mlp.weight", 0, True, False),
        ("model.mtp_block.norm.weight", -1, True, False),
        ("smtp.x", -1, False, False),
        ("model.layers.7", -1, False, False),
        ("a.weight.quant_state.bitsandbytes__nf4", -1, False, True),
        ("a.weight.nested_absmax", -1, False, True),
        ("a.nested_", -1, False, False),
        ("layers." * 146, -1, False, False),
        (".mtp_" + "a" * 1_000 + "-", -1, False, False),
    ],
)
def test_names_in_headers_are_told_apart(name: str, layer: int, *, mtp: bool, scale: bool) -> None:
    """The innermost layer counts."""
    assert (_layer_number(name), _MTP.search(name) is not None, _is_scale(name)) == (layer, mtp, scale)
