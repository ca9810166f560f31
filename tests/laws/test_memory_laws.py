"""Laws of activations, runtime, devices and training, against figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.engines import ENGINES
from lib.laws import activation, parallelism, runtime, training
from lib.units import GIB, MIB

sizes = st.integers(1, 2**40)
counts = st.integers(1, 64)


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


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("silicon", ["gpu", "cpu", "tpu", "neuron"])
def test_runtime_is_a_range(engine: str, silicon: str) -> None:
    """Low ≤ typical ≤ high, and a GPU process takes at least its context of 0.3 GiB."""
    parts = runtime.runtime_parts(engine=engine, silicon=silicon)
    assert all(part.low <= part.typical <= part.high for part in parts.values())
    assert silicon != "gpu" or sum(part.low for part in parts.values()) >= int(0.3 * GIB)


def test_workspace_by_card() -> None:
    """8.125 MiB up to Ada, 32 MiB from Hopper on; either when the card is not known."""
    assert runtime.cublas_workspace((8, 9)).high == 8_519_680 == int(8.125 * MIB)
    assert runtime.cublas_workspace((9, 0)).typical == 32 * MIB
    assert runtime.cublas_workspace(None) == (8_519_680, 8_519_680, 32 * MIB)


@given(sizes, sizes, counts)
def test_tensor_parallel_shares(sharded: int, replicated: int, n: int) -> None:
    """Every device holds all of what is replicated and, together, at least all of what is cut."""
    each = parallelism.tensor_parallel_bytes(sharded=sharded, replicated=replicated, devices=n)
    assert n * (each - replicated) >= sharded
    assert n * (each - replicated) < sharded + n


@given(sizes, sizes, st.integers(1, 128), counts)
def test_layers_shared_out(in_layers: int, ends: int, layers: int, n: int) -> None:
    """The fullest device holds at least an equal share and never more than everything."""
    each = parallelism.layer_split_bytes(in_layers=in_layers, ends=ends, layers=layers, devices=n)
    assert each * n >= in_layers + ends
    assert each <= in_layers + ends


def test_heads_cannot_be_split() -> None:
    """Eight heads on four devices: two each; on sixteen: one each, so eight parts; unknown heads are not cut."""
    assert [parallelism.head_share(kv_heads=h, devices=n) for h, n in ((8, 4), (8, 16), (0, 4), (1, 8))] == [4, 8, 1, 1]


def test_adam_in_mixed_precision() -> None:
    """ZeRO counts 16 bytes a parameter: 2 weight, 2 gradient, 4 master, 8 moments."""
    states = training.gradient_bytes(parameters=10, element_bytes=2) + training.optimizer_bytes(parameters=10)
    assert 20 + states + training.master_bytes(parameters=10, element_bytes=2) == 160
    assert training.master_bytes(parameters=10, element_bytes=4) == 0


def test_checkpointing_keeps_inputs_and_one_layer() -> None:
    """100 tokens, h 8, ten layers, b 2: inputs 2·100·8·10 = 16 000 and one layer; without: ten layers."""
    kept = {"tokens": 100, "element_bytes": 2, "hidden": 8, "layers": 10, "layer": 5000}
    assert training.stored_activation_bytes(**kept, checkpointing=True) == 21_000
    assert training.stored_activation_bytes(**kept, checkpointing=False) == 50_000


def test_a_layer_of_llama_2_7b() -> None:
    """Per token 2 · (4·4096 + 3·4096 + 4·4096 + 4·11 008) + 8·4096 = 210 944 bytes."""
    layer = training.layer_bytes(tokens=1, element_bytes=2, hidden=4096, query_width=4096, key_width=4096, mlp_width=11_008)
    assert layer == 210_944
