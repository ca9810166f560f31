"""Activations of inference and of training, against figures worked out by hand and what engines print."""

from __future__ import annotations

import pytest

from lib.laws import activation
from lib.laws.activation import LayerTraining, LayerWidths, save_for_backward
from lib.model import bundled
from lib.units import GIB, MIB


def test_prefill_of_a_llama() -> None:
    """4096 tokens, h 4096, q 4096, k 1024, f 14 336, b 2: 2 · 4096 · (3h + h + 3f) = 486 539 264; logits 128 256 · (2 + 4)."""
    found = activation.prefill_bytes(
        tokens=4096, batch=1, element_bytes=2, hidden=4096, query_width=4096, key_width=1024, mlp_width=14_336, heads=32, vocabulary=128_256
    )
    assert found == 2 * 4096 * (4 * 4096 + 3 * 14_336) + 128_256 * 6


def test_eager_scores() -> None:
    """32 heads at 1000 tokens hold 32 · 10^6 scores: 2·2 + 4 bytes each in 16 bits, 8 in float32."""
    plain = {"tokens": 1000, "batch": 1, "hidden": 64, "query_width": 64, "key_width": 64, "mlp_width": 64, "heads": 32, "vocabulary": 100}
    for width, each in ((2, 8), (4, 8)):
        flash = activation.prefill_bytes(element_bytes=width, **plain)
        eager = activation.prefill_bytes(element_bytes=width, kernel="eager", **plain)
        assert eager - flash == 32 * 1000**2 * each


def test_logits_of_a_whole_prompt() -> None:
    """30 720 tokens over 151 936 words, bf16 and float32: 28.0 GB, which is why transformers stopped keeping them."""
    assert activation.logits_bytes(rows=30_720, vocabulary=151_936, element_bytes=2) == 30_720 * 151_936 * 6


def test_vllms_profile_run() -> None:
    """Llama 3 8B, 8192 tokens, 256 sequences: vLLM's log says 1.26 GiB; the law 1.21."""
    found = activation.paged_engine_bytes(
        batched_tokens=8192,
        sequences=256,
        element_bytes=2,
        hidden=4096,
        query_width=4096,
        key_width=1024,
        mlp_width=14_336,
        vocabulary=128_256,
    )
    assert found == pytest.approx(1.26 * GIB, rel=0.05)


@pytest.mark.parametrize(("hidden", "vocabulary", "printed_mib"), [(2048, 151_936, 300.75), (3072, 50_432, 105.0)])
def test_llamacpps_compute_buffer(hidden: int, vocabulary: int, printed_mib: float) -> None:
    """Compute buffers as llama.cpp prints them, within 1 %."""
    assert activation.compute_buffer_bytes(hidden=hidden, vocabulary=vocabulary) == pytest.approx(printed_mib * MIB, rel=0.01)


def test_a_layer_of_llama_2_7b() -> None:
    """In full, a token: two norms 2 · 6 · 4096, their outputs 2 · 2 · 4096, attention 2 · 4 · 4096 + 4 · 32, MLP 2 · 4 · 11 008."""
    model = bundled.find_spec("meta-llama/Llama-2-7b-hf")
    assert model is not None
    layers = [group for group in model.tensors if ".layers." in group.name]
    how = LayerTraining(weights=True, adapted=lambda _: False, rank=0, casts=False, dora=False, scores=False, repeats=True)
    saved = save_for_backward(layers, LayerWidths(4096, 32, 32, 32, 128), how, 2)
    assert saved.one_layer == 2 * 6 * 4096 + 4 * 4096 + 8 * 4096 + 128 + 8 * 11_008
    assert saved.layers == 32 * saved.one_layer
