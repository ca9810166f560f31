"""Laws of activations, runtime, devices and training, against figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.engines import ENGINES
from lib.laws import activation, parallelism, runtime, training
from lib.laws.activation import LayerTraining, LayerWidths, save_for_backward
from lib.model import bundled
from lib.units import GIB, MIB, Bytes
from lib.workload import Optimizer

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


def trained(parameters: int, width: int) -> training.TrainedParameters:
    """Matrices of 100 rows and columns in all."""
    return training.TrainedParameters(parameters, parameters, 100, parameters, width)


def test_adam_in_mixed_precision() -> None:
    """ZeRO counts 16 bytes a parameter: 2 weight, 2 more of master, 4 gradient, 8 moments (2 + 2 + 12 where gradients stay in 16 bits)."""
    states = training.optimizer_states("adamw", trained(1000, 4), foreach=False)
    assert training.gradient_bytes(trained(1000, 4)) + states.resident == 12_000
    assert training.optimizer_states("adamw", trained(1000, 2), foreach=True).temporary == 2000


@pytest.mark.parametrize(
    ("optimizer", "held", "paged"),
    [("adamw_8bit", 2031, 0), ("paged_adamw", 0, 8000), ("adafactor", 400, 0), ("muon", 2000, 0), ("sgd", 0, 0)],
)
def test_states_of_optimizers(optimizer: Optimizer, held: int, paged: int) -> None:
    """A thousand parameters in 16 bits."""
    states = training.optimizer_states(optimizer, trained(1000, 2), foreach=False)
    assert (states.resident, states.paged) == (held, paged)


def test_a_fused_loss_does_not_grow_with_the_vocabulary() -> None:
    """Plain: 10 and then 12 bytes an entry and token, 2 more with a cap, 4 and 6 without a float32 copy.

    Fused: four hidden states a token and one chunk of logits.
    """
    sizes = {"vocabulary": 128_256, "hidden": 4096, "element_bytes": 2}
    assert training.loss_bytes(tokens=4096, fused=False, **sizes) == (4096 * 128_256 * 10, 4096 * 128_256 * 12)
    assert training.loss_bytes(tokens=1, fused=False, capped=True, **sizes) == (128_256 * 12, 128_256 * 14)
    assert training.loss_bytes(tokens=1, fused=False, copied=False, **sizes) == (128_256 * 4, 128_256 * 6)
    longer, shorter = (training.loss_bytes(tokens=tokens, fused=True, **sizes) for tokens in (8192, 4096))
    more = longer.backward - shorter.backward
    assert more == 4096 * 4 * 2 * 4096


def test_moments_of_a_step() -> None:
    """With few tokens the update is the fullest moment, with many the loss; accumulated gradients lie there through all of them."""
    tensors = training.StepTensors(
        states={"weights": 100}, copies=0, copies_in_backward=0, tied_gradients=0, gradients=50, first_gradients=10,
        saved_activations=20, layer=5, activation_gradients=1, loss=training.LossBytes(Bytes(8), Bytes(10)),
        optimizer_temporary=40, accumulates=False, recomputes=True,
    )  # fmt: skip
    few = [sum(moment.values()) for moment in training.find_peaks(tensors)]
    assert few == [128, 130, 136, 156, 190]
    assert sum(training.find_peaks(tensors._replace(accumulates=True)).loss.values()) == 180


def test_a_layer_of_llama_2_7b() -> None:
    """In full, a token: two norms 2 · 6 · 4096, their outputs 2 · 2 · 4096, attention 2 · 4 · 4096 + 4 · 32, MLP 2 · 4 · 11 008."""
    model = bundled.find_spec("meta-llama/Llama-2-7b-hf")
    assert model is not None
    layers = [group for group in model.tensors if ".layers." in group.name]
    how = LayerTraining(weights=True, adapted=lambda _: False, rank=0, casts=False, dora=False, scores=False, repeats=True)
    saved = save_for_backward(layers, LayerWidths(4096, 32, 32, 32, 128), how, 2)
    assert saved.one_layer == 2 * 6 * 4096 + 4 * 4096 + 8 * 4096 + 128 + 8 * 11_008
    assert saved.layers == 32 * saved.one_layer
