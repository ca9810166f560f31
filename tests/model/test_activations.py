"""Activations traced on the meta device, against the same models really executed on the CPU."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from model_facts import LLAMA
from torch.profiler import ProfilerActivity, profile

from lib.model.activations import trace_activations
from lib.model.allocations import StorageRecorder
from lib.model.build import BuiltModel, build
from lib.model.cache_terms import cache_of, tensors_of
from lib.model.meta_device import Lengths
from lib.model.spec import ActivationFit

SMALL = {**LLAMA, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 1000}
QWEN_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1000,
}
SLIDING = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1000,
    "sliding_window": 64,
}
BERT = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}


MAMBA = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "vocab_size": 500,
    "state_size": 8,
}
MAMBA2 = {
    **MAMBA,
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "num_heads": 8,
    "head_dim": 16,
    "expand": 2,
    "n_groups": 1,
    "chunk_size": 64,
}


def traced_peak(fits: tuple[ActivationFit, ...], kernel: str, size: int, tokens: int, batch: int) -> float:
    """The traced peak: the largest form that holds."""
    held = [f for f in fits if f.kernel == kernel and f.element_bytes == size and f.from_tokens <= tokens]
    return max(
        f.constant
        + f.per_position * tokens
        + f.mask * tokens**2
        + batch * (f.per_sequence + f.per_token * tokens + f.per_token_squared * tokens**2)
        for f in held
    )


def on_cpu(config: dict[str, Any], kernel: str) -> BuiltModel:
    """The model with memory behind its tensors; what is in them does not matter."""
    built = build(config, "float32")
    built.model.to_empty(device="cpu")
    for tensor in (*built.model.parameters(), *built.model.buffers()):
        torch.nn.init.zeros_(tensor)
    built.model.set_attn_implementation(kernel)
    return built


def prefill(built: BuiltModel, tokens: int, batch: int) -> Any:
    """A prefill as generate makes it, with the float32 copy of the last logits."""
    out = built.model(input_ids=torch.zeros(batch, tokens, dtype=torch.long), use_cache=True, logits_to_keep=1)
    return out, out.logits[:, -1].to(dtype=torch.float32, copy=True)


def run_peak(built: BuiltModel, tokens: int, batch: int) -> int:
    """Peak of live bytes beyond weights and cache, followed tensor by tensor on the CPU."""
    known = [*built.model.parameters(), *built.model.buffers()]
    with torch.no_grad(), StorageRecorder(known, Lengths(1, 1, 1), 100_000) as recorder:
        out, _ = prefill(built, tokens, batch)
        cache = {recorder.number_of(t) for layer in out.past_key_values.layers for t in (layer.keys, layer.values)}
        moments = recorder.moments(without={entry for entry in cache if entry is not None})
    return max(int(m.get((0, 0, 0), 0)) for m in moments)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize(("tokens", "batch"), [(96, 1), (200, 3), (512, 2)])
def test_the_trace_foretells_a_real_prefill(kernel: str, tokens: int, batch: int) -> None:
    """All four layers of a small Llama on the CPU peak where two layers on the meta device said.

    The CPU's kernel keeps a float32 sum per row that the GPU's memory-efficient one, traced for float32, does not: within 1 %.
    """
    fits = trace_activations(build(SMALL))
    assert run_peak(on_cpu(SMALL, kernel), tokens, batch) == pytest.approx(traced_peak(fits, kernel, 4, tokens, batch), rel=0.01)


def test_recorded_storages_agree_with_torchs_own_profiler() -> None:
    """What torch's profiler counts as allocated and freed peaks at the recorded peak plus the cache."""
    built = on_cpu(SMALL, "eager")
    prefill(built, 256, 2)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        out, _ = prefill(built, 256, 2)
    cache = sum(t.nbytes for layer in out.past_key_values.layers for t in (layer.keys, layer.values))
    live = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert peak == pytest.approx(run_peak(built, 256, 2) + cache, rel=0.02)


@pytest.mark.parametrize(("config", "within"), [(MAMBA2, 1e-9), (MAMBA, 0.02)])
def test_scans_of_state_space_models(config: dict[str, Any], within: float) -> None:
    """A scan by chunks follows laws exactly; one written as a loop over tokens is interpolated from short runs."""
    fits = trace_activations(build(config))
    built = on_cpu(config, fits[0].kernel)
    with torch.no_grad(), StorageRecorder([*built.model.parameters(), *built.model.buffers()], Lengths(1, 1, 1), 1_000_000) as recorder:
        out = built.model(input_ids=torch.zeros(2, 64, dtype=torch.long), use_cache=True, logits_to_keep=1)
        sampled = out.logits[:, -1].to(dtype=torch.float32, copy=True)
        cached = {recorder.number_of(t) for _, t in tensors_of(cache_of(out))}
        moments = recorder.moments(without={entry for entry in cached if entry is not None})
    assert sampled.shape == (2, 500)
    assert traced_peak(fits, fits[0].kernel, 4, 64, 2) == pytest.approx(max(m.get((0, 0, 0), 0) for m in moments), rel=within)


def test_two_layers_stand_for_many() -> None:
    """The peak of a deep model is that of a shallow one: layers are run in turn and keep nothing but the cache."""
    deep, shallow = (trace_activations(build({**SMALL, "num_hidden_layers": n})) for n in (12, 2))
    assert deep == shallow


def test_a_llama_by_hand() -> None:
    """The largest moment of a bf16 prefill, counted from the forward pass.

    Embeddings, layer input, residual, normed input: 4 · 128; gate activated, up, product: 3 · 512; two bytes each, and eight for the
    token id: 2 · (512 + 1536) + 8 = 4104 bytes a token. Rotary tables: cos and sin of width 32 in bf16, 128 a position, and what
    stays of the positions themselves.
    """
    fits = trace_activations(build(SMALL))
    assert max(f.per_token for f in fits if f.kernel == "sdpa" and f.element_bytes == 2) == 4104


def test_eager_attention_holds_scores_and_sdpa_does_not() -> None:
    """Scores: bf16 products, their float32 softmax and its bf16 copy: 4 heads · (2 + 2 + 4) bytes, and the mask's 4 · … on top."""
    fits = trace_activations(build(SMALL))
    assert max(f.per_token_squared for f in fits if f.kernel == "sdpa") == 0
    assert max(f.per_token_squared for f in fits if f.kernel == "eager" and f.element_bytes == 2) >= 4 * 8


def test_a_mixture_runs_its_experts() -> None:
    """The routed copies are held: per token two experts, each with input 128, gate and up 2 · 64, in bf16: at least 1024 bytes more."""
    dense = {**QWEN_MOE, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "intermediate_size": 64}
    mixture = traced_peak(trace_activations(build(QWEN_MOE)), "sdpa", 2, 4096, 1)
    assert mixture - traced_peak(trace_activations(build(dense)), "sdpa", 2, 4096, 1) >= 1024 * 4096


def test_past_its_window_a_model_holds_a_mask() -> None:
    """Below 64 tokens no mask is built; above, a boolean T × T and its copy in the compute dtype: at least 3 bytes · T²."""
    fits = trace_activations(build({**SLIDING, "sliding_window": 2048}))
    below = [f for f in fits if f.from_tokens == 0 and f.kernel == "sdpa"]
    above = [f for f in fits if f.from_tokens == 2048 and f.kernel == "sdpa" and f.element_bytes == 2]
    assert max(f.mask + f.per_token_squared for f in below) == 0
    assert max(f.mask + f.per_token_squared for f in above) >= 3


def test_a_long_prefill_pins_what_the_window_drops() -> None:
    """Each of four layers keeps the storage of the whole prompt, 2 · 2 heads · 32 · 4 bytes a token, beside the slice that is cached."""
    built = on_cpu(SLIDING, "sdpa")
    with torch.no_grad():
        out, _ = prefill(built, 512, 1)
    pinned = sum(t.untyped_storage().nbytes() - t.nbytes for layer in out.past_key_values.layers for t in (layer.keys, layer.values))
    assert pinned == 4 * 2 * 2 * 32 * 4 * (512 - 63)
    with_four = traced_peak(trace_activations(build(SLIDING)), "sdpa", 4, 512, 1)
    with_two = traced_peak(trace_activations(build({**SLIDING, "num_hidden_layers": 2})), "sdpa", 4, 512, 1)
    assert with_four - with_two == pinned / 2


def test_an_encoder_is_traced_up_to_its_table_of_positions() -> None:
    """BERT has 512 positions; its logits are those of all of them: at least 4 · 1000 bytes a token in float32."""
    fits = trace_activations(build(BERT))
    assert max(f.per_token for f in fits if f.kernel == "sdpa" and f.element_bytes == 4) >= 4000


def test_the_model_is_as_before() -> None:
    """Dtype, kernel and forward of every module are put back."""
    built = build(SMALL)
    before = [(p.dtype, p.shape) for p in built.model.parameters()]
    trace_activations(built)
    assert [(p.dtype, p.shape) for p in built.model.parameters()] == before
    assert built.config._attn_implementation == "sdpa"
    assert not any("forward" in vars(m) for m in built.model.modules())


def _traced_while_collecting(built: BuiltModel, threshold: int) -> tuple[ActivationFit, ...]:
    """A trace with the garbage collector run after so many new objects; 0: never."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what exists already is not looked at again, so that frequent collections are quick
    gc.set_threshold(threshold, 1, 1)
    try:
        return trace_activations(built)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@pytest.mark.parametrize("config", [SMALL, QWEN_MOE, SLIDING], ids=lambda config: str(config["model_type"]))
def test_a_trace_does_not_depend_on_when_garbage_is_collected(config: dict[str, Any]) -> None:
    """What is alive is what the model still refers to: nothing that the trace itself or a cycle of references keeps a while longer."""
    built = build(config)
    assert _traced_while_collecting(built, 0) == _traced_while_collecting(built, 50)


def test_what_cannot_be_run_has_no_trace() -> None:
    """A forward that fails gives no fits instead of an error; the estimate then says that it follows a law."""
    built = build(SMALL)
    built.model.model.layers[0].self_attn.q_proj = torch.nn.Linear(7, 7, device="meta")
    assert trace_activations(built) == ()
