"""What a model's passes work on: the parameters that each token meets, and what is only looked up."""

from __future__ import annotations

from lib.catalog import load
from lib.model.bundled import find_spec
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.speed.model_work import derive_model_work

EMBEDDING = "Qwen/Qwen3-Embedding-0.6B"


def bundled(name: str) -> ModelSpec:
    """A spec that the app comes with."""
    spec = find_spec(name)
    assert spec is not None
    return spec


def test_the_table_of_an_embedding_decoder_is_looked_up() -> None:
    """595.8 M parameters less a table of 151,669 x 1,024; no token follows, so there is no decoder."""
    spec = bundled(EMBEDDING)
    work = derive_model_work(spec, "bf16", "bf16", "auto", recorded=False)
    assert work.decoder is None
    assert work.encoder is not None
    assert work.encoder.active_parameters == spec.parameters_total - spec.parameters_by_component["embeddings"] == 440_467_456


def test_a_prompt_on_a_processor_is_bound_by_arithmetic() -> None:
    """512 tokens of an embedding model on two virtual CPUs: 2 · 440 M · 512 FLOP, far above reading 0.9 GB; no step follows."""
    catalog = load()
    speed = predict_speed(bundled(EMBEDDING), catalog.resolve_offer("cpu-basic"), SpeedRequest(), catalog.accelerators)
    assert speed.bound == "compute"
    assert speed.tpot_s is None
    assert speed.unit == "sequences"
