"""/explain's set-up of a text: models and sizes by any name, and the step of a training run."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.explain import explain
from lib.service.memory import solve
from lib.service.models import Models

APP = App(catalog=load, models=Models())
QUESTION = ask(explain, APP)


def test_grpo_is_predicted_on_any_number_of_cards_and_ppo_with_its_value_model() -> None:
    """A step writes 8 answers on each card, as in /estimate_training; 16 to a prompt on one card take 16 micro-batches."""
    full = (
        "Qwen/Qwen2.5-7B-Instruct: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of "
    )
    text = f"GRPO {full}95.22 GiB of which 2.1 GiB is free. grpo_trainer.py zero3"
    for cards, hardware in ((1, "H20"), (2, "H20x2"), (4, "H20x4")):
        predicted = QUESTION(text, hardware=hardware)["predicted"]
        assert (predicted["objective"], predicted["devices"], predicted["accumulation"]) == ("grpo", cards, 8)
    assert QUESTION(f"{text} num_generations=16", hardware="H20")["predicted"]["accumulation"] == 16
    ppo = QUESTION(f"{full}79.11 GiB of which 2.1 GiB is free. verl ppo_trainer fully_shard", hardware="H100x8")
    assert any(caveat["code"] == "training_shown_as_grpo" and "value model" in caveat["message"] for caveat in ppo["caveats"])
    grpo = QUESTION(f"{full}79.11 GiB of which 2.1 GiB is free. verl ppo_trainer adv_estimator=grpo fully_shard", hardware="H100x8")
    more = ppo["predicted"]["per_device_bytes"] - grpo["predicted"]["per_device_bytes"]
    assert abs(more * 8 / (7.615e9 * 16) - 1) < 0.01


FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 23.6 GiB of which 1 GiB is free. "
)


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("Qwen3-8B", "Qwen/Qwen3-8B"),
        ("loading /models/gpt-oss-20b/ now", "openai/gpt-oss-20b"),
        ("flux.1-DEV", "black-forest-labs/FLUX.1-dev"),
        ("Llama-3.1-70B-Instruct, not Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("gemma-3-27b-it-int4-awq", "gemma-3-27b-it-int4-awq"),
        ("AutoTrain 70B int4 SFT", "70B"),
        ("7B or 13B", ""),
        ("Qwen3-8B or gpt-oss-20b", ""),
        ("30B-A3B, 0.5 GB, 16 B, 1,024B", ""),
    ],
)
def test_names_without_an_owner_and_sizes_are_read(words: str, model: str) -> None:
    """People write names as they say them; a size alone is a typical model of that size. Two of them are none."""
    answer = QUESTION(FULL + words, hardware="RTX-4090")
    assert answer["read"]["model"] == model
    assert bool(answer["predicted"]) == bool(model)


def test_a_quantized_copy_is_read_alike_in_a_text_and_as_an_argument() -> None:
    """Without the Hub the name says the base and its format, to /solve too; it needs what the base needs in that format."""
    copy = "Qwen/Qwen2.5-3B-Instruct-AWQ"
    in_text, argued = QUESTION(f"{FULL} vllm serve {copy}", hardware="RTX-4090"), QUESTION(f"{FULL} vllm serve", copy, hardware="RTX-4090")
    assert in_text["predicted"] == argued["predicted"]
    asked = ask(solve, APP)
    named = asked(copy, "RTX-A4000", engine="vllm")
    base = asked("Qwen/Qwen2.5-3B-Instruct", "RTX-A4000", engine="vllm", precision="awq")
    assert (named["model"], named["precision"], named["server"]) == (copy, "awq-4", base["server"])
    assert next(caveat["message"] for caveat in named["caveats"]).startswith(
        f"model: '{copy}' was read as Qwen/Qwen2.5-3B-Instruct in awq-4"
    )


@pytest.mark.parametrize(
    ("model", "hardware", "words", "asked"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "H20x4", "grpo_trainer.py zero3", {"objective": "grpo", "method": "full", "sharding": "zero3"}),
        ("Qwen/Qwen2.5-7B-Instruct", "H100x8", "ppo_trainer fully_shard", {"objective": "ppo", "method": "full", "sharding": "fsdp"}),
        ("meta-llama/Llama-3.1-8B-Instruct", "L40Sx4", "SFTTrainer LoraConfig", {"method": "lora", "sharding": "ddp"}),
        ("black-forest-labs/FLUX.1-dev", "A100-40GB", "train_dreambooth_lora_flux.py", {"method": "lora", "checkpointing": "none"}),
    ],
)
def test_a_training_run_has_one_answer(model: str, hardware: str, words: str, asked: dict[str, Any]) -> None:
    """/estimate_training with its own defaults counts the same bytes for the same run."""
    step = ask(estimate_training, APP)(model, own_hardware=hardware, **asked)["own"]["cards"]
    predicted = QUESTION(f"{FULL} {words}", model, hardware=hardware)["predicted"]
    assert (predicted["per_device_bytes"], predicted["capacity_bytes"]) == (step["needed_bytes"], step["capacity_bytes"])
