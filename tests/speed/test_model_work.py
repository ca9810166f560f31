"""What a model's passes work on: the parameters that each token meets, and what is only looked up."""

from __future__ import annotations

from lib.catalog import load
from lib.model.bundled import find_spec
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.speed.model_work import count_multiplied, derive_model_work

EMBEDDING = "Qwen/Qwen3-Embedding-0.6B"


def read_spec(name: str) -> ModelSpec:
    """A spec that the app comes with."""
    spec = find_spec(name)
    assert spec is not None
    return spec


def test_the_table_of_an_embedding_decoder_is_looked_up() -> None:
    """595.8 M parameters less a table of 151,669 x 1,024; no token follows, so there is no decoder."""
    spec = read_spec(EMBEDDING)
    work = derive_model_work(spec, "bf16", "bf16", "auto", recorded=False)
    assert work.decoder is None
    assert work.encoder is not None
    assert work.encoder.active_parameters == spec.parameters_total - spec.parameters_by_component["embeddings"] == 440_467_456


def test_a_prompt_on_a_processor_is_bound_by_arithmetic() -> None:
    """512 tokens of an embedding model on two virtual CPUs: 2 · 440 M · 512 FLOP, far above reading 0.9 GB; no step follows."""
    catalog = load()
    speed = predict_speed(read_spec(EMBEDDING), catalog.resolve_offer("cpu-basic"), SpeedRequest(), catalog.accelerators)
    assert speed.bound == "compute"
    assert speed.tpot_s is None
    assert speed.unit == "sequences"


def test_a_table_for_each_layer_is_looked_up() -> None:
    """Gemma 3n: 5,418,464,192 parameters less towers and projectors (983,281,504) and a table of 262,144 x 7,680 that is looked up."""
    work = derive_model_work(read_spec("google/gemma-3n-E2B-it"), "bf16", "bf16", "auto", recorded=False)
    assert work.decoder is not None
    assert work.decoder.active_parameters == 5_418_464_192 - 983_281_504 - 262_144 * 7_680
    assert count_multiplied(read_spec("google/gemma-3n-E2B-it"), with_loss=True) == work.decoder.active_parameters


def test_a_loss_is_over_all_tokens() -> None:
    """In training a tied table is an encoder's head too (BERT fills masks), and a token of T5 passes encoder or decoder."""
    bert, t5 = read_spec("google-bert/bert-base-uncased"), read_spec("google-t5/t5-small")
    table = bert.parameters_by_component["embeddings"]
    assert count_multiplied(bert, with_loss=True) == count_multiplied(bert) + table == bert.parameters_active
    assert count_multiplied(t5, with_loss=True) == count_multiplied(t5) + t5.parameters_by_component["encoder"] == t5.parameters_active


def test_the_head_of_a_small_model_may_be_most_of_it() -> None:
    """Pythia 14M: its head of 50,304 x 128 has more parameters than its layers; of a prompt the last position alone passes it."""
    work = derive_model_work(read_spec("EleutherAI/pythia-14m"), "bf16", "bf16", "auto", recorded=False)
    assert work.decoder is not None
    assert work.decoder.head_parameters == 50_304 * 128 > work.decoder.active_parameters / 2
