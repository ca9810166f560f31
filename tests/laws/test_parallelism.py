"""What each device holds of a split model; one rule says over how many devices vLLM splits it, and all who ask follow it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.advisor.candidates import TENSOR_PARALLEL_ENGINES, family_of, list_candidates, task_of
from lib.catalog import load
from lib.engines import traits_of
from lib.laws.parallelism import head_share, layer_split_bytes, tensor_parallel_bytes
from lib.memory.spread import spread, tensor_parallel_degree
from lib.model.bundled import find_spec, list_ids
from lib.model.spec import ModelSpec
from lib.speed.hardware import lay_out, resolve_devices
from lib.workload import Workload

CATALOG = load()
CARDS = CATALOG.offer("l40sx8")
CHIPS = next(offer for offer in CATALOG.on(("tpu",)) if offer.accelerator_count == 8)
COUNTS = range(1, 17)
sizes = st.integers(1, 2**40)
counts = st.integers(1, 64)
MODELS = [spec for name in list_ids() if (spec := find_spec(name)) is not None and spec.library != "diffusers"]


def passes_checks(spec: ModelSpec, devices: int) -> bool:
    """Whether vLLM's own checks pass: heads, key/value heads, the MLP's width and the padded vocabulary."""
    of = spec.dimensions
    heads, kv_heads = of.attention_heads, of.kv_heads or of.attention_heads
    shared = kv_heads % devices == 0 if kv_heads >= devices else devices % kv_heads == 0
    return heads % devices == 0 and shared and of.intermediate_size % devices == 0 and -(-of.vocab_size // 64) * 64 % devices == 0


def test_all_who_ask_agree() -> None:
    """For every bundled model on 1 to 16 devices: the advisor, the spread and the speed take the same number of devices."""
    for spec in MODELS:
        for count in COUNTS:
            degree = tensor_parallel_degree(spec, count)
            for offer, engine in ((CARDS, "vllm"), (CHIPS, "vllm-tpu")):
                hardware = offer.model_copy(update={"accelerator_count": count})
                tried = list_candidates(spec, family_of(task_of("auto", spec)), hardware, Workload()).tried
                assert {c.devices for c in tried if c.engine in TENSOR_PARALLEL_ENGINES} <= {degree}, spec.id
                assert spread(spec, engine, hardware).devices == degree
                if not traits_of(engine).runs_on(hardware.processor, sparse=spec.sparse_attention):
                    continue
                layout = lay_out(hardware, resolve_devices(hardware, CATALOG.accelerators), engine, spec)
                assert (layout.tensor_parallel, layout.tensor_parallel * layout.replicas <= count) == (degree, True), spec.id


def test_vllm_starts_with_it() -> None:
    """The degree passes vLLM's checks, and so does no larger one that those sizes know of."""
    for spec in MODELS:
        if spec.dimensions.attention_heads:
            for count in COUNTS:
                degree = tensor_parallel_degree(spec, count)
                assert 1 <= degree <= count
                assert passes_checks(spec, degree), (spec.id, count, degree)


@pytest.mark.parametrize(
    ("model", "devices", "degree"),
    [
        ("Qwen/Qwen2-7B-Instruct", 8, 4),  # 28 heads, 4 of keys: 7 would divide the heads, but not the keys
        ("microsoft/phi-4", 8, 2),  # 40 heads, 10 of keys: 5 would divide both, but not 100,352 words
        ("openai-community/gpt2", 8, 6),  # 12 heads; 50,257 words are padded to 50,304 = 6 · 8384
        ("meta-llama/Llama-3.1-8B-Instruct", 16, 16),  # 32 heads, 8 of keys: each is held twice
        ("zai-org/GLM-4.7-Flash", 8, 4),  # 20 heads; experts 1536 wide, which 5 does not divide
        ("HuggingFaceTB/SmolLM2-360M-Instruct", 8, 1),  # 15 heads, 5 of keys, 49,152 = 2¹⁴ · 3 words
    ],
)
def test_models_that_the_heads_alone_would_split_wrongly(model: str, devices: int, degree: int) -> None:
    """Degrees worked out by hand."""
    spec = find_spec(model)
    assert spec is not None
    assert tensor_parallel_degree(spec, devices) == degree


@given(sizes, sizes, counts)
def test_tensor_parallel_shares(sharded: int, replicated: int, n: int) -> None:
    """Every device holds all of what is replicated and, together, at least all of what is cut."""
    each = tensor_parallel_bytes(sharded=sharded, replicated=replicated, devices=n)
    assert n * (each - replicated) >= sharded
    assert n * (each - replicated) < sharded + n


@given(sizes, sizes, st.integers(1, 128), counts)
def test_layers_shared_out(in_layers: int, ends: int, layers: int, n: int) -> None:
    """The fullest device holds at least an equal share and never more than everything."""
    each = layer_split_bytes(in_layers=in_layers, ends=ends, layers=layers, devices=n)
    assert each * n >= in_layers + ends
    assert each <= in_layers + ends


def test_heads_cannot_be_split() -> None:
    """Eight heads on four devices: two each; on sixteen: one each, so eight parts; unknown heads are not cut."""
    assert [head_share(kv_heads=h, devices=n) for h, n in ((8, 4), (8, 16), (0, 4), (1, 8))] == [4, 8, 1, 1]
