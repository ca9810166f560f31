"""Why a total on a model's page is not its number of parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from model_facts import LLAMA

from lib.model.reconcile import reconcile
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence


@dataclass(frozen=True)
class Entry:
    """A tensor in a header."""

    dtype: str
    shape: tuple[int, ...]


@pytest.fixture(scope="module")
def tied() -> ModelSpec:
    """A small model whose head is its embedding."""
    return resolve_config(LLAMA | {"tie_word_embeddings": True})


def header(spec: ModelSpec) -> dict[str, Entry]:
    """What a plain checkpoint of it holds."""
    return {g.name.replace("*", str(i)): Entry("BF16", g.shape) for g in spec.tensors for i in range(g.count)}


def test_a_plain_checkpoint_needs_no_words(tied: ModelSpec) -> None:
    """Elements equal parameters: nothing is told."""
    assert reconcile(tied, header(tied)) == ()
    assert reconcile(tied, {}) == ()


@pytest.mark.parametrize(
    ("more", "code", "number"),
    [
        ({"lm_head.weight": Entry("BF16", (512, 64))}, "tied_weight_stored", "32,768"),
        ({"model.layers.3.mlp.up_proj.weight": Entry("BF16", (160, 64))}, "extra_layers_stored", "10,240"),
        ({"mtp.fc.weight": Entry("BF16", (64, 128))}, "extra_layers_stored", "8,192"),
        ({"model.layers.0.mlp.up_proj.weight_scale_inv": Entry("F32", (2, 1))}, "scales_stored", "2 of"),
        ({"model.rotary_emb.inv_freq": Entry("F32", (8,))}, "buffers_stored", "8 of"),
        ({"something.else": Entry("BF16", (10, 10))}, "unexplained_difference", "100 of the difference"),
    ],
)
def test_each_reason_is_told_with_its_number(tied: ModelSpec, more: dict[str, Entry], code: str, number: str) -> None:
    """One extra kind of tensor gives one caveat, with how many elements it explains."""
    told = reconcile(tied, header(tied) | more)
    assert [c.code for c in told] == [code]
    assert number in sentence(told[0])


def test_a_missing_head_is_told() -> None:
    """An embedding model's files hold no head although the class has one."""
    apart = resolve_config(LLAMA)
    told = reconcile(apart, {n: e for n, e in header(apart).items() if n != "lm_head.weight"})
    assert [c.code for c in told] == ["head_not_stored"]
    assert "32,768" in sentence(told[0])


def test_packed_weights_are_told(tied: ModelSpec) -> None:
    """Half as many bytes as weights: packed four-bit values, and their scales."""
    entries = header(tied)
    entries["model.layers.0.mlp.up_proj.weight"] = Entry("U8", (160, 32))
    entries["model.layers.0.mlp.up_proj.weight_scale"] = Entry("F8_E4M3", (160, 4))
    assert [c.code for c in reconcile(tied, entries)] == ["scales_stored", "packed_weights"]


def test_a_bare_count_is_not_compared(tied: ModelSpec) -> None:
    """A rule of thumb has no tensors to compare."""
    assert reconcile(replace(tied, source="rule_of_thumb"), {"x": Entry("BF16", (3,))}) == ()
