"""Text from outside meets no expression that could take for ever, and no key or list that repeats one without end."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from re import _constants as sre
from re._parser import parse
from typing import Any

import pytest
from model_facts import LLAMA

import lib
from lib.errors import BadConfig
from lib.model import checkpoint, config
from lib.model.build import build
from lib.model.checkpoint import _MTP, _is_scale, _layer_number, read_quantization, skip_test
from lib.model.config import check_config
from lib.model.spec import Quantization

REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}
BOUNDED = {
    ("lib.catalog.offers", "_COUNTED"): "its text has at most 80 characters, and one end",
    ("lib.model.file_header", "_BLOCK"): "its text is a tensor's name of at most 1,024 characters, and one end",
    ("lib.ui.http.shortcuts", "_CONFIG"): "reads the page that this app makes, whose config escapes what would end it",
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


EXPLOSIVE = (
    "(a|a)*b", "a*a*a*a*b", "(a+)+$", ".?" * 100 + "." * 100, "(.|.)" * 50 + "x", "a?" * 100 + "a" * 100, "((a{0,50}){0,50})b",
    ".{0,90}" * 9 + "x", "(x|xx)+y", "(.*)(.*)(.*)(.*)x", "(a*)*b", r"(a*)\1\1b", "(?=(.*a){9})b", "(" * 99 + "a*" + ")*" * 99,
)  # fmt: skip
HARMLESS = (
    ".*self_attn.*", r".*mlp\.(gate|up|gate_up|down)_proj.*", r"model\.layers\.[0-9]+\.mlp", r".*layers\.\d+\..*gate$", "^(?!.*experts).*$",
    r".*(?<!shared_)experts.*", r"model\.layers\.(0|1|2|61)\..*", "lm_head", r".*\.(q|k|v|o)_proj$",
)  # fmt: skip


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_an_explosive_expression_is_not_tried(pattern: str) -> None:
    """Each could take longer than anyone waits on a text of a hundred letters."""
    assert checkpoint._expressions(["re:" + pattern]) == []


@pytest.mark.parametrize("pattern", HARMLESS)
def test_a_customary_expression_is_kept(pattern: str) -> None:
    """Those of published files and of the same form."""
    assert [e.pattern for e in checkpoint._expressions(["re:" + pattern])] == [pattern]


def test_a_list_of_expressions_has_one_bound() -> None:
    """Together they try no more than one may."""
    few = checkpoint._expressions(["re:" + ".*a.*b.*" + "c" * n for n in range(1, 200)])
    assert 0 < len(few) == checkpoint._MAX_WAYS // checkpoint._most_ways(".*a.*b.*c") < 199
    assert checkpoint._expressions(["re:(((", "re:[b-a]", "re:[\\U00000000-\\U0010ffff]", "re:(?i)[\x00-\U0010ffff]"]) == []
    assert len(checkpoint._expressions(["*a" * 100] * 900)) == checkpoint._MAX_EXPRESSIONS


@pytest.mark.parametrize(
    ("free", "factor", "pattern"), [(1, 1, "a*b"), (2, 1, ".*a.+b"), (1, 2, ".*(bc|ad)"), (0, 6, "(bc|ad)(ef|gh|ij)"), (1, 1, "a*b.*")]
)
def test_ways_are_counted(free: int, factor: int, pattern: str) -> None:
    """Of k free repetitions in n letters: C(n+k, k)."""
    assert checkpoint._most_ways(pattern) == math.comb(checkpoint._MAX_PATH + free, free) * factor


def test_names_too_long_for_a_module_are_not_compared() -> None:
    """Neither a listed name nor a path that came from outside (X-MOD names modules after its languages)."""
    test = skip_test(Quantization(method="compressed-tensors", format="", skipped=("x" * 301, "re:.*a.*")), build(LLAMA).model)
    assert (test("x" * 301), test("a" * 129), test("a" * 128)) == (False, False, True)


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
