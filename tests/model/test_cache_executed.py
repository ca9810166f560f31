"""The executed cache against what `transformers` held in real forward passes, to the byte."""

from __future__ import annotations

from typing import Any

import kv_truth
import pytest
import torch
import transformers
from model_facts import LLAMA, config

from lib.errors import UnsupportedModel
from lib.laws.kv_cache import cache_bytes
from lib.model.build import BuiltModel, build
from lib.model.cache_executed import run_cache
from lib.model.cache_terms import cache_of, describe_tensors
from lib.model.layer_dedup import holds_cache


@pytest.mark.parametrize("case", kv_truth.cases())
def test_every_measurement_of_a_shrunken_model(case: str) -> None:
    """Bytes after the prefill and after three more steps, in both dtypes, for every batch and length that was measured."""
    terms = kv_truth.execute_cache(case)
    for run in kv_truth.read_runs(case):
        for tokens, held in ((run.prefill_tokens, run.prefill_bytes), (run.tokens, run.bytes)):
            law = cache_bytes(terms, tokens=tokens, batch=run.batch, element_bytes=run.element_bytes, encoder_tokens=run.encoder_tokens)
            assert law == held, (run, tokens)


FULL_SIZE = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ai21labs/AI21-Jamba-1.5-Mini",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "google/paligemma-3b-mix-224",
    "openai/whisper-large-v3-turbo",
    "google-t5/t5-base",
    "tiiuae/Falcon-H1-0.5B-Base",
)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_models(name: str) -> None:
    """Published models at their own size, one for each way of caching."""
    terms = run_cache(build(config(name)))
    for tokens, encoder, held in kv_truth.full_size()[name]:
        assert cache_bytes(terms, tokens=tokens, batch=1, element_bytes=2, encoder_tokens=encoder) == held


@pytest.mark.parametrize("name", ["google-bert/bert-base-uncased", "openai/clip-vit-base-patch16", "facebook/wav2vec2-base-960h"])
def test_encoders_keep_no_cache(name: str) -> None:
    """A model that hands nothing on has no terms, rather than terms of zero bytes."""
    assert run_cache(build(config(name))) is None


def test_the_cache_dtype_is_told_apart() -> None:
    """Qwen3-Next: recurrent states are float32 whatever the model, convolution states and keys follow it."""
    dtypes = {term.holds: term.dtype for term in kv_truth.execute_cache("qwen3_next/3-linear-1-full-default")}
    assert dtypes == {"convolution state": "model", "recurrent state": "float32", "keys and values": "model"}


def snapshot_modules(built: BuiltModel) -> list[tuple[str, Any, Any]]:
    """Everything that a run could leave behind in the modules."""
    return [
        (name, dict(vars(module)), {key: (id(buffer), buffer.dtype) for key, buffer in module._buffers.items() if buffer is not None})
        for name, module in built.model.named_modules()
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("case", ["llama/gqa", "gemma3n_text/kv-shared-layers", "minimax/lightning-hybrid", "rwkv/rwkv4"])
def test_the_model_is_left_as_it_was(case: str, dtype: str) -> None:
    """Forwards, buffers, parameter dtypes and attributes are the same objects after the runs, so that a trace can follow."""
    built = build(kv_truth.cases()[case]["config"], dtype)
    before, parameters = snapshot_modules(built), [(id(p), p.dtype) for p in built.model.parameters()]
    run_cache(built)
    assert [(id(p), p.dtype) for p in built.model.parameters()] == parameters
    for (name, attributes, buffers), (_, attributes_now, buffers_now) in zip(before, snapshot_modules(built), strict=True):
        assert attributes.keys() == attributes_now.keys(), name
        assert all(attributes[key] is attributes_now[key] for key in attributes), name
        assert buffers == buffers_now, name


def test_a_model_built_in_float32_is_told_the_same() -> None:
    """The runs are in half precision whatever the model was built in; else a float32 state could not be seen as fixed."""
    case = "mamba2/mamba2"
    assert run_cache(build(kv_truth.cases()[case]["config"], "float32")) == kv_truth.execute_cache(case)


def test_a_state_inside_the_modules_is_refused() -> None:
    """RecurrentGemma returns no cache and keeps its states to itself: unknown, and not mistaken for an encoder."""
    small = {"model_type": "recurrent_gemma", "architectures": ["RecurrentGemmaForCausalLM"], "num_hidden_layers": 3, "hidden_size": 64,
             "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "lru_width": 64,
             "vocab_size": 128}  # fmt: skip
    with pytest.raises(UnsupportedModel, match="inside its modules"):
        run_cache(build(small))


def test_a_growth_that_is_not_known_is_refused() -> None:
    """CPM-Ant caches 32 positions beside those of the prompt: no law has that, and the sentence names the tensor."""
    small = {"model_type": "cpmant", "architectures": ["CpmAntForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "dim_ff": 96,
             "num_attention_heads": 4, "dim_head": 16, "vocab_size": 128}  # fmt: skip
    with pytest.raises(UnsupportedModel, match=r"layers\[0\]\.keys' grows with the prompt by no law"):
        run_cache(build(small))


def test_a_window_beyond_the_configured_context_is_seen() -> None:
    """A window of 300,000 tokens in a model of 512 positions is still told: the longest run is past every window."""
    terms = run_cache(build({**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 300_000}))
    assert terms is not None
    assert [(term.growth, term.span) for term in terms] == [("window", 299_999)]


def test_likeness_does_not_hide_a_layer_that_differs() -> None:
    """Layers with other head counts than their neighbours are run and counted for themselves (OpenELM-like: 2, 4, 4 heads here)."""
    built = build(LLAMA)
    middle = built.model.model.layers[1].self_attn  # type: ignore[union-attr, index]
    with torch.device("meta"):
        middle.k_proj = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)
        middle.v_proj = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)
    middle.num_key_value_groups = 1
    terms = run_cache(built)
    assert terms is not None
    assert sorted((term.layers, term.elements) for term in terms) == [(1, 2 * 4 * 16), (2, 2 * 2 * 16)]


def make_config(model_type: str, architecture: str, **sizes: Any) -> dict[str, Any]:
    """A config of a family that is in no table of facts."""
    common = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
              "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0,
              "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    return {"model_type": model_type, "architectures": [architecture], **common, **sizes}


_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_MLA = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_key_value_heads": 4}
UNSEEN = {
    "cohere2": make_config("cohere2", "Cohere2ForCausalLM", sliding_window=16),
    "helium": make_config("helium", "HeliumForCausalLM", head_dim=16),
    "apertus": make_config("apertus", "ApertusForCausalLM"),
    "ernie4_5_moe": make_config("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", moe_num_experts=4, moe_k=2, moe_intermediate_size=32),
    "qwen2_moe": make_config("qwen2_moe", "Qwen2MoeForCausalLM", **_MOE, shared_expert_intermediate_size=32),
    "afmoe": make_config("afmoe", "AfmoeForCausalLM", **_MOE, sliding_window=16, head_dim=16),
    "bamba": make_config("bamba", "BambaForCausalLM", attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16),
    "kimi_linear": make_config(
        "kimi_linear", "KimiLinearForCausalLM", **_MLA, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        linear_num_heads=4, linear_head_dim=16, layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    ),
    "longcat_flash": make_config(
        "longcat_flash", "LongcatFlashForCausalLM", **_MLA, num_layers=2, n_routed_experts=4, moe_topk=2, expert_ffn_hidden_size=32,
        ffn_hidden_size=96, zero_expert_num=2, head_dim=8,
    ),
    "phi3/longrope": make_config(
        "phi3", "Phi3ForCausalLM", original_max_position_embeddings=64,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
    ),
}  # fmt: skip


def held_by_a_real_run(sizes: dict[str, Any], tokens: int, batch: int) -> int:
    """Bytes that the cache of a float32 model with random weights holds after a prefill on the CPU."""
    parsed = transformers.CONFIG_MAPPING[sizes["model_type"]].from_dict(dict(sizes))
    model = getattr(transformers, sizes["architectures"][0])(parsed).eval()
    with torch.no_grad():
        output = model(input_ids=torch.randint(3, 100, (batch, tokens)), use_cache=True)
    return sum(4 * torch.Size(leaf.shape).numel() for leaf in describe_tensors(cache_of(output)))


@pytest.mark.parametrize("family", UNSEEN)
def test_families_that_no_fact_is_about(family: str) -> None:
    """Other families, measured here by a real forward pass below and above their windows."""
    terms = run_cache(build(UNSEEN[family]))
    for tokens, batch in ((9, 2), (70, 1)):
        assert cache_bytes(terms, tokens=tokens, batch=batch, element_bytes=4) == held_by_a_real_run(UNSEEN[family], tokens, batch)


def test_whether_a_module_is_handed_a_cache() -> None:
    """The question that decides what runs and what stands aside: asked of signatures, not of names of classes."""
    model = build(LLAMA).model
    layer = model.model.layers[0]  # type: ignore[union-attr, index]
    assert holds_cache(model)
    assert holds_cache(layer.self_attn)
    assert not holds_cache(layer.mlp)
