"""GGUF files: the cache that llama.cpp itself prints, bytes as stored, and headers that lie."""

from __future__ import annotations

from typing import Any

import pytest
from gguf_files import decoder, decoder_keys, deepseek_v3, gemma_3_12b, gguf_file, gpt_oss_20b, qwen3_06b, qwen3_8b
from hub_stand_in import Blob
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import AdvisorError, BadArgument, BadConfig, UnsupportedModel
from lib.hub.weight_files import parse_gguf
from lib.memory import estimate_memory
from lib.memory.training import check_training
from lib.model.file_header import resolve_gguf
from lib.model.spec import ModelSpec, Origin
from lib.units import MIB
from lib.workload import MemoryRequest, TrainingRequest

HONEST = gguf_file(
    "llama",
    decoder_keys(4, 64, 4, 2, 32, 128, 2048),
    decoder(4, 64, 4, 2, 32, 128, 96) | {"blk.0.ssm_in.weight": ("Q8_0", (256, 64)), "blk.1.attn_kv_a_mqa.weight": ("Q8_0", (64, 64))},
)
KEYS = (
    "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers", "attention.kv_lora_rank",
    "attention.key_length_mla", "rope.dimension_count", "expert_count", "expert_used_count", "nextn_predict_layers", "context_length",
    "ssm.inner_size", "ssm.state_size", "ssm.conv_kernel", "ssm.group_count", "pooling_type", "attention.causal", "decoder_block_count",
)  # fmt: skip


def resolve_file(file: Blob) -> ModelSpec:
    """The spec of a file that a test wrote."""
    header = parse_gguf(file.head, "x.gguf")
    return resolve_gguf(header.keys, header.tensors, Origin(id="org/x:Q8_0"))


def resolve_decoder(architecture: str = "llama", layers: int = 4, **keys: Any) -> ModelSpec:
    """A small decoder with other keys."""
    stated = decoder_keys(layers, 64, 4, 2, 32, 128, 2048, general__file_type=7, **keys)
    return resolve_file(gguf_file(architecture, stated, decoder(layers, 64, 4, 2, 32, 128, 96)))


@pytest.mark.parametrize(
    ("file", "mib"),
    [(qwen3_8b, 4608), (qwen3_06b, 3584), (gemma_3_12b, 2528), (gpt_oss_20b, 786), (deepseek_v3, 2196)],
)
def test_the_cache_is_the_one_that_llama_cpp_prints(file: Any, mib: int) -> None:
    """At 32,768 tokens with an f16 cache, in MiB, as llama.cpp's own log states it."""
    estimate = estimate_memory(resolve_file(file()), MemoryRequest(context_tokens=32_768))
    assert (estimate.engine, estimate.kv_precision, estimate.kv_cache.bytes / MIB) == ("llama.cpp", "fp16", mib)


def test_weights_are_the_bytes_of_the_tensors() -> None:
    """Qwen3-8B in Q8_0 without its 9,216 norms of queries and keys: matrices in blocks of 34 bytes for 32 weights, norms 4 bytes each."""
    spec = resolve_file(qwen3_8b())
    norms = (36 * 2 + 1) * 4096
    assert spec.parameters_total == 8_190_735_360 - 9216
    matrices = spec.parameters_total - norms
    assert estimate_memory(spec, MemoryRequest()).weights.bytes == matrices // 32 * 34 + norms * 4
    assert spec.stored.bytes_by_dtype == {"Q8_0": matrices // 32 * 34, "F32": norms * 4}


def test_experts_that_a_token_does_not_reach_are_not_active() -> None:
    """DeepSeek-V3 has 671 billion parameters, of which 37 work for a token."""
    spec = resolve_file(deepseek_v3())
    assert (round(spec.parameters_total / 1e9), round(spec.parameters_active / 1e9, 1)) == (671, 37.6)


def kinds(spec: ModelSpec) -> set[tuple[str, int, int, str, int]]:
    """What the cache terms say."""
    return {(t.kind, t.layers, t.elements, t.growth, t.span) for t in spec.cache_terms or ()}


def test_each_layer_has_its_own_heads() -> None:
    """Heads as a list: layers without any hold nothing, the others as many as they have; 64 elements for each head."""
    spec = resolve_decoder(attention__head_count_kv=[2, 0, 1, 2])
    assert kinds(spec) == {("full attention", 2, 128, "tokens", 0), ("full attention", 1, 64, "tokens", 0)}


@pytest.mark.parametrize(
    ("architecture", "keys", "sliding"),
    [
        ("gemma3", {"attention__sliding_window_pattern": 2}, 2),
        ("gemma4", {"attention__sliding_window_pattern": [True, True, True, False]}, 3),
        ("gemma2", {}, 2),
        ("modern-bert", {"attention__sliding_window_pattern": 3}, 2),  # layers 0 and 3 of four are full: there the first of three is
        ("phi3", {}, 0),  # llama.cpp drops this window
    ],
)
def test_windows_are_where_the_file_or_the_architecture_says(architecture: str, keys: dict[str, Any], sliding: int) -> None:
    """By a list, by a period, by the architecture's own period; else all tokens are kept."""
    spec = resolve_decoder(architecture, attention__sliding_window=512, **keys)
    assert sum(layers for kind, layers, _, _, span in kinds(spec) if kind == "sliding window" and span == 511) == sliding


def test_layers_that_share_a_cache_hold_none() -> None:
    """Gemma 4's last layers read the cache of earlier ones; its sliding layers have narrower heads (2 * 2 * 16 against 2 * 2 * 32)."""
    spec = resolve_decoder(
        "gemma4", attention__shared_kv_layers=1, attention__sliding_window=512, attention__key_length_swa=16,
        attention__value_length_swa=16, attention__sliding_window_pattern=[True, False, True, False],
    )  # fmt: skip
    assert kinds(spec) == {("sliding window", 2, 64, "window", 511), ("full attention", 1, 128, "tokens", 0)}


def test_layers_for_multi_token_prediction_are_not_loaded() -> None:
    """The last layer of four: neither its weights nor a cache."""
    spec, whole = resolve_decoder(nextn_predict_layers=1), resolve_decoder()
    assert spec.dimensions.layers == 3
    assert spec.parameters_total == whole.parameters_total - (64 * 2 + (4 + 2 + 2 + 4) * 32 * 64 + 3 * 64 * 128)
    assert kinds(spec) == {("full attention", 3, 128, "tokens", 0)}


def test_recurrent_layers_hold_states() -> None:
    """A Mamba layer: three columns of 128 + 2*1*16 inputs and a state of 128*16; llama.cpp keeps both in float32."""
    tensors = {"token_embd.weight": ("Q8_0", (96, 64)), "blk.0.ssm_in.weight": ("Q8_0", (256, 64))}
    keys = {
        "block_count": 1,
        "embedding_length": 64,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 128,
        "ssm.state_size": 16,
        "ssm.group_count": 1,
    }
    spec = resolve_file(gguf_file("mamba2", keys, tensors))
    assert kinds(spec) == {
        ("state space (Mamba) state", 1, 480, "constant", 0),
        ("state space (Mamba) state", 1, 2048, "constant", 0),
    }
    assert estimate_memory(spec, MemoryRequest()).kv_cache.bytes == 4 * (480 + 2048)


def test_an_encoder_keeps_no_cache() -> None:
    """A BERT: attention that is not causal."""
    spec = resolve_decoder("bert", attention__causal=False)
    assert (spec.cache_terms, spec.task, spec.work) == (None, "feature-extraction", "text encoder")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block_count": 0}, "states 0 layers"),
        ({"block_count": 2**31}, "a block_count of"),
        ({"block_count": 5}, "states 5 layers and holds tensors of 4"),
        ({"attention.head_count_kv": [1, 2]}, "lists 2 values of attention.head_count_kv for 4 layers"),
        ({"attention.head_count_kv": "many"}, "a whole number belongs there"),
        ({"context_length": 2**31}, "a context_length of"),
    ],
)
def test_headers_that_lie_are_refused_with_what_was_seen(changes: dict[str, Any], said: str) -> None:
    """Keys and tensors that contradict each other, and numbers that no model has."""
    keys = decoder_keys(4, 64, 4, 2, 32, 128, 2048) | changes
    with pytest.raises(BadConfig, match=said) as refusal:
        resolve_file(gguf_file("llama", keys, decoder(4, 64, 4, 2, 32, 128, 96)))
    assert "Choose another file" in str(refusal.value)


def test_a_projector_is_no_model() -> None:
    """Files called mmproj are of the architecture clip."""
    with pytest.raises(UnsupportedModel, match="a projector for pictures"):
        resolve_file(gguf_file("clip", {"block_count": 1}, {"v.blk.0.attn_q.weight": ("F16", (64, 64))}))


def test_a_file_is_run_as_it_is_stored() -> None:
    """Another precision, or training, is refused with what to name instead."""
    spec = resolve_decoder()
    with pytest.raises(BadArgument, match="auto or gguf:Q8_0, in which the GGUF file is stored"):
        estimate_memory(spec, MemoryRequest(precision="int4"))
    with pytest.raises(BadArgument, match="inference for a GGUF file"):
        estimate_memory(spec, MemoryRequest(mode="lora"))
    with pytest.raises(UnsupportedModel, match="which is run and not trained"):
        check_training(spec, TrainingRequest())
    assert estimate_memory(spec, MemoryRequest(precision="gguf:Q8_0")).precision == "gguf:Q8_0"


VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.integers(0, 300), st.floats(), st.booleans(), st.text(max_size=9),
    st.lists(st.integers(-1, 2**40), max_size=9).map(tuple),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), st.sampled_from(["llama", "gemma3", "deepseek2", "mamba2", "llama4"]))
def test_any_keys_are_read_or_refused(lies: dict[str, Any], architecture: str) -> None:
    """Whatever a header claims, there is an answer or a sentence; an answer can be estimated."""
    header = parse_gguf(HONEST.head, "x")
    keys = {f"{architecture}.{name.partition('.')[2]}": value for name, value in header.keys.items() if name.startswith("llama.")}
    keys |= {"general.architecture": architecture} | {f"{architecture}.{name}": value for name, value in lies.items()}
    try:
        spec = resolve_gguf(keys, header.tensors)
        estimate = estimate_memory(spec, MemoryRequest(context_tokens=1000, gpu_layers=2))
    except AdvisorError:
        return
    assert estimate.total_bytes == estimate.per_device_bytes + estimate.host_bytes
