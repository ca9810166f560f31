"""The closed form of a cache, by layer kind, against the executed one; and how a cached tensor's growth is told from its shapes."""

from __future__ import annotations

from typing import Any, get_args

import kv_truth
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model_facts import config
from transformers import CONFIG_MAPPING

from lib.laws.cache_growth import Growth
from lib.laws.kv_cache import cache_bytes, units
from lib.model.build import build
from lib.model.cache_executed import run_cache
from lib.model.cache_terms import TensorGrowth, derive_terms, fit_growth, name_terms, terms_agree
from lib.model.config import convert_to_llama

DIFFERS = {
    "rwkv/rwkv4": "RWKV-4 keeps its state in five tensors for all layers, in no cache that a kind of layer could be read from",
}
"""Cases in which the closed form has no answer, and why; the executed numbers are used."""


@pytest.mark.parametrize("case", [case for case in kv_truth.cases() if case not in DIFFERS])
def test_it_agrees_with_the_executed_cache(case: str) -> None:
    """Equal elements for every growth, span and dtype: equal bytes at every length and batch."""
    assert terms_agree(kv_truth.execute_cache(case), derive_terms(kv_truth.build_case(case).config))


@pytest.mark.parametrize("case", DIFFERS)
def test_where_it_has_no_answer_it_says_so(case: str) -> None:
    """No number is made up, and the executed terms stand as they are."""
    built = kv_truth.build_case(case)
    assert derive_terms(built.config) is None
    assert name_terms(kv_truth.execute_cache(case), built.config) == kv_truth.execute_cache(case)


@pytest.mark.parametrize("name", kv_truth.full_size())
def test_published_models_to_the_byte(name: str) -> None:
    """The configuration alone gives the bytes of every published model in the facts."""
    raw = config(name)
    used: dict[str, Any] = dict(raw if raw["model_type"] in CONFIG_MAPPING else convert_to_llama(raw) or {})
    terms = derive_terms(CONFIG_MAPPING[used["model_type"]].from_dict(used))
    assert terms is not None
    for tokens, encoder, held in kv_truth.full_size()[name]:
        assert cache_bytes(terms, tokens=tokens, batch=1, element_bytes=2, encoder_tokens=encoder) == held


def test_kinds_of_a_hybrid() -> None:
    """Gemma 3: 7 sliding layers to 1 full one, each with keys and values of 2 heads of width 32."""
    terms = derive_terms(kv_truth.build_case("gemma3_text/5-to-1-default").config)
    assert terms is not None
    assert {(term.kind, term.layers, term.elements) for term in terms} == {
        ("sliding window", 7, 2 * 2 * 32),
        ("full attention", 1, 2 * 2 * 32),
    }


def test_executed_terms_take_the_kinds_of_the_closed_form() -> None:
    """DeepSeek V3: the run shows keys and values of some width; the configuration knows them as a latent vector."""
    assert {term.kind for term in kv_truth.execute_cache("deepseek_v3/mla")} == {"latent attention (MLA)"}
    assert {term.kind for term in kv_truth.execute_cache("llama4_text/chunked-attention")} == {"chunked attention", "full attention"}


@given(
    heads=st.sampled_from([1, 2, 4]),
    width=st.sampled_from([8, 16, 40]),
    window=st.integers(2, 5000),
    pattern=st.lists(st.sampled_from(["full_attention", "sliding_attention"]), min_size=1, max_size=6),
    family=st.sampled_from([("qwen3", "Qwen3ForCausalLM"), ("gemma3_text", "Gemma3ForCausalLM"), ("gpt_oss", "GptOssForCausalLM")]),
)
@example(heads=1, width=8, window=2, pattern=["sliding_attention"], family=("qwen3", "Qwen3ForCausalLM"))
@settings(max_examples=12, deadline=None)
def test_mutated_attention(heads: int, width: int, window: int, pattern: list[str], family: tuple[str, str]) -> None:
    """Any mix of full and sliding layers, any heads: executed and closed form are equal."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": len(pattern), "num_attention_heads": 4, "vocab_size": 64,
             "num_key_value_heads": heads, "head_dim": width, "sliding_window": window, "use_sliding_window": True, "layer_types": pattern,
             "num_local_experts": 2, "num_experts_per_tok": 1}  # fmt: skip
    built = build({"model_type": family[0], "architectures": [family[1]], **sizes})
    terms = run_cache(built)
    assert terms is not None
    assert terms_agree(terms, derive_terms(built.config))


@given(
    key_heads=st.sampled_from([1, 2]),
    repeats=st.sampled_from([1, 3]),
    key=st.sampled_from([8, 16]),
    value=st.sampled_from([8, 24]),
    kernel=st.integers(2, 6),
    pattern=st.lists(st.sampled_from(["full_attention", "linear_attention"]), min_size=2, max_size=5).filter(
        lambda p: "full_attention" in p
    ),
)
@settings(max_examples=8, deadline=None)
def test_mutated_linear_attention(key_heads: int, repeats: int, key: int, value: int, kernel: int, pattern: list[str]) -> None:
    """Gated delta layers of any sizes: executed and closed form are equal."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": len(pattern), "num_attention_heads": 4, "vocab_size": 64,
             "num_key_value_heads": 2, "head_dim": 8, "linear_num_key_heads": key_heads, "linear_num_value_heads": key_heads * repeats,
             "linear_key_head_dim": key, "linear_value_head_dim": value, "linear_conv_kernel_dim": kernel,
             "layer_types": pattern}  # fmt: skip
    built = build({"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], **sizes})
    terms = run_cache(built)
    assert terms is not None
    assert terms_agree(terms, derive_terms(built.config))


LENGTHS = (1, 11, 1021, 16_777_259)


def shapes(growth: Growth, span: int, width: int) -> dict[int, tuple[int, ...]]:
    """What runs at `LENGTHS` would show of a tensor of this growth: batch, entries, width."""
    return {tokens: (1, units(growth, span, tokens), width) for tokens in LENGTHS}


@given(st.integers(1, 5000))
def test_every_token(width: int) -> None:
    """One entry a token is told as such, with the width as its elements."""
    assert fit_growth(shapes("tokens", 0, width)) == TensorGrowth(growth="tokens", elements=width)


@given(st.integers(2, 10**6), st.integers(1, 5000))
def test_a_window(span: int, width: int) -> None:
    """The window is read off the longest run, wherever it bends; a window of one token is a constant."""
    assert fit_growth(shapes("window", span, width)) == TensorGrowth(growth="window", elements=width, span=span)


@given(st.integers(1, 5000))
def test_a_constant(width: int) -> None:
    """The same at every length."""
    assert fit_growth(shapes("constant", 0, width)) == TensorGrowth(growth="constant", elements=width)


@given(st.integers(2, 1021), st.integers(1, 5000))
def test_blocks_and_what_goes_with_them(span: int, width: int) -> None:
    """Blocks give their length; remainders and steps are told with the lengths of blocks in the same layer."""
    assert fit_growth(shapes("blocks", span, width)) == TensorGrowth(growth="blocks", elements=width, span=span)
    open_block = fit_growth(shapes("remainder", span, width), {span})
    assert open_block is not None
    assert all(open_block.at(tokens) == width * (tokens % span) for tokens in LENGTHS)
    overlap = fit_growth(shapes("step", span, width), {span})
    assert overlap is not None
    assert all(overlap.at(tokens) == width * (tokens >= span) for tokens in LENGTHS)


@pytest.mark.parametrize("growth", sorted({*get_args(Growth)} - {"encoder"}))
def test_every_growth_is_recognised(growth: Growth) -> None:
    """By its shapes and, where blocks stand in the same layer, their length; the encoder's has runs of its own."""
    recognised = fit_growth(shapes(growth, 7, 64), {7})
    assert recognised is not None
    assert [recognised.at(tokens) for tokens in (5, 7, 100)] == [64 * units(growth, 7, tokens) for tokens in (5, 7, 100)]


@given(st.integers(1, 64), st.integers(1, 64))
def test_what_no_law_explains_is_not_told(offset: int, width: int) -> None:
    """Tokens and something on top (a prefix that is cached too) is none of the laws, so nothing is said."""
    assert fit_growth({tokens: (1, tokens + offset, width) for tokens in LENGTHS}) is None


def test_a_square_root_is_not_told() -> None:
    """A tensor that grows ever slower is not mistaken for a window."""
    assert fit_growth({tokens: (1, int(tokens**0.5), 8) for tokens in LENGTHS}) is None


def test_an_empty_tensor_has_no_law() -> None:
    """A value tensor of width 0, as some latent attention keeps, holds nothing."""
    assert fit_growth({tokens: (1, 1, tokens, 0) for tokens in LENGTHS}) is None
