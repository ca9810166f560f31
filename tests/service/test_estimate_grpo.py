"""GRPO in `/estimate_training`: phases, rollouts by each engine, refusals, and stacks that are shown as TRL."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, UnsupportedModel
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training as question
from lib.service.models import Models
from lib.service.write_files import write_files
from lib.units import GIB
from scripts.accuracy import read_figures

APP = App(catalog=load, models=Models())
ASK, FILES = ask(question, APP), ask(write_files, APP)
QWEN = "Qwen/Qwen2.5-7B-Instruct"


def parts(answer: dict[str, Any]) -> dict[str, int]:
    """Bytes by part."""
    return {part["name"]: part["bytes"] for part in answer["parts"]}


def phases(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Phases by name."""
    return {phase["name"]: phase for phase in answer["phases"]}


def test_the_trainers_model_writes_by_default() -> None:
    """As in GRPOConfig: 8 answers, no reference, nothing scored again; the cache of the answers is counted, the script is TRL's."""
    answer = ASK(QWEN, method="grpo")
    assert answer == ASK(QWEN, objective="grpo", generations=8, completion_tokens=512)
    assert (answer["method"], answer["objective"], answer["server_command"]) == ("lora", "grpo", None)
    assert phases(answer).keys() == {"rollout", "update"}
    assert "reference model" not in parts(answer)
    assert "GRPOTrainer(model=MODEL, args=arguments, train_dataset=rows, reward_funcs=reward" in answer["script"]
    assert answer["total_tokens"] == 10_000 * 8 * (512 + 512)
    assert answer["steps"] == 10_000
    option = next(option for option in answer["options"] if option["devices"] == 1)
    assert option["step_s"] == pytest.approx(option["rollout_s"] + option["scoring_s"] + option["update_s"])
    assert option["hours"] == pytest.approx(answer["steps"] * option["step_s"] / 3600)


def test_a_colocated_vllm_takes_its_share_of_each_card() -> None:
    """Memory on hardware grows with the card; sleep keeps only the runtime during the update; vLLM is faster than the trainer's model."""
    awake, asleep, alone = (
        ASK(QWEN, method="grpo", rollouts=rollouts, rollout_sleep=sleep)
        for rollouts, sleep in (("vllm-colocate", False), ("vllm-colocate", True), ("transformers", False))
    )
    assert phases(awake).keys() == {"rollout", "scoring", "update"}
    cards = {option["hardware"]: option for option in awake["options"]}
    assert cards["h200"]["needed_bytes"] - cards["a100-large"]["needed_bytes"] == pytest.approx(
        0.3 * (cards["h200"]["capacity_bytes"] - cards["a100-large"]["capacity_bytes"]), rel=0.01
    )
    small = cards["l4x1"]  # weights of 14 GiB and one answer need more than 0.3 of 22 GiB
    assert small["rollout_share"] > 0.6
    assert phases(asleep)["update"]["allocated_bytes"] < phases(awake)["update"]["allocated_bytes"] - 10 * GIB
    assert phases(asleep)["rollout"]["allocated_bytes"] == phases(awake)["rollout"]["allocated_bytes"]
    assert cards["a100-large"]["rollout_s"] < {o["hardware"]: o for o in alone["options"]}["a100-large"]["rollout_s"]
    assert "rollout_sleep" in {change["code"] for change in awake["changes"]}


def test_a_vllm_on_other_cards_needs_them() -> None:
    """Only hardware with two cards or more; one of them trains nothing; its command is written."""
    answer = ASK(QWEN, method="grpo", rollouts="vllm-server")
    assert "vLLM" not in parts(answer)
    assert {option["rollout_devices"] for option in answer["options"]} == {1}
    assert all(option["hardware"] not in {"l4x1", "a100-large", "h200"} for option in answer["options"])
    place = next(option for option in answer["options"] if option["verdict"] != "no")
    assert f"CUDA_VISIBLE_DEVICES={place['devices']} vllm serve" in answer["server_command"]  # the GPU after those that train
    assert "SERVER = [" in answer["script"] or "SERVER = (" in answer["script"]
    with pytest.raises(BadArgument, match="transformers or vllm-colocate on l4x1, which has 1 GPU"):
        FILES(QWEN, "l4x1", "train", objective="grpo", rollouts="vllm-server")


def test_a_reference_is_a_second_model_in_full_training_alone() -> None:
    """With beta above 0; with adapters the same model scores with its adapters off."""
    full = ASK(QWEN, method="full", objective="grpo", precision="bf16", beta=0.04)
    assert parts(full)["reference model"] == parts(full)["weights"]
    adapters = ASK(QWEN, method="grpo", beta=0.04)
    assert "reference model" not in parts(adapters)
    assert "scoring" in phases(adapters)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"generations": 0}, "generations was '0'. Accepted: 2 or more"),
        ({"generations": 1}, "generations was '1'. Accepted: 2 or more"),
        ({"generations": 3}, r"a divisor of the 8 answers of a step \(2, 4, 8\)"),
        ({"generations": 2, "accumulation": 1}, "2 or more answers in a step"),
        ({"completion_tokens": 2048}, "at most 2,047: sequence_tokens"),
        ({"mean_completion_tokens": 600}, r"0, or at most completion_tokens \(512\)"),
        ({"rollouts": "ollama"}, "transformers, vllm-colocate, vllm-server"),
        ({"rollouts": "vllm-server", "rollout_devices": 64}, "no hardware on spaces, jobs has 65 GPUs"),
        ({"checkpointing": "offloaded"}, "none or layers with objective grpo"),
        ({"method": "lora-8bit", "objective": "grpo", "rollouts": "vllm-colocate"}, "transformers with method=lora-8bit"),
    ],
)
def test_refusals_say_what_is_accepted(arguments: dict[str, Any], message: str) -> None:
    """As TRL's GRPOTrainer would, before a GPU is rented."""
    with pytest.raises(BadArgument, match=message):
        ASK(QWEN, **{"method": "grpo", **arguments})


def test_a_vllm_over_several_gpus_takes_less_of_each() -> None:
    """TRL's vllm_tensor_parallel_size: a quarter of the weights on each GPU, and answers of all four; other numbers are refused."""
    asked = {"method": "full", "objective": "grpo", "rollouts": "vllm-colocate", "sharding": "zero3", "devices": 8, "platforms": "jobs"}
    whole, split = (ASK("Qwen/Qwen2.5-32B-Instruct", **asked, rollout_tensor_parallel=n) for n in (1, 4))
    assert parts(whole)["vLLM"] - parts(split)["vLLM"] > 0.7 * 65e9
    assert whole["options"][0]["rollout_s"] > split["options"][0]["rollout_s"]
    for degree, change, accepted in (
        (3, {}, r"1, 2, 4, 8: it divides devices \(8 GPUs train\)"),
        (2, {"rollouts": "transformers"}, "1 with rollouts transformers"),
    ):
        with pytest.raises(BadArgument, match=accepted):
            ASK("Qwen/Qwen2.5-32B-Instruct", **{**asked, **change}, rollout_tensor_parallel=degree)


def test_the_caveat_states_the_recorded_error() -> None:
    """The median error and the number of steps are those of docs/accuracy.json."""
    (row,) = (row for row in read_figures()["rl"]["rows"] if row["phase"] == "step, dense models")
    (caveat,) = (c["message"] for c in ASK(QWEN, method="grpo")["caveats"] if c["code"] == "training_objective")
    assert f"{row['median_error']:.0%}".replace("%", " %") in caveat
    assert f"dense models (n = {row['n']})" in caveat


@pytest.mark.parametrize(
    ("asked", "method", "objective", "rollouts"),
    [
        ({"method": "grpo", "rollouts": "vllm"}, "lora", "grpo", "vllm-colocate"),
        ({"method": "grpo", "rollouts": "colocated"}, "lora", "grpo", "vllm-colocate"),
        ({"method": "grpo", "rollouts": "HF"}, "lora", "grpo", "transformers"),
        ({"method": "DPO training"}, "lora", "dpo", None),
        ({"objective": "reward model"}, "lora", "reward", None),
        ({"method": "qlora", "objective": "rl"}, "qlora", "grpo", None),
    ],
)
def test_plain_words_are_understood(asked: dict[str, Any], method: str, objective: str, rollouts: str | None) -> None:
    """The answer says what each was taken for."""
    answer = ASK(QWEN, **asked)
    assert (answer["method"], answer["objective"]) == (method, objective)
    (reading,) = (caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "taken_for")
    assert f"was read as {rollouts or ''}" in reading
    if rollouts is not None:
        written = {name: value for name, value in asked.items() if name != "rollouts"}
        assert answer["device_bytes"] == ASK(QWEN, **written, rollouts=rollouts)["device_bytes"]


@pytest.mark.parametrize("asked", [{"method": "ppo"}, {"objective": "PPO"}, {"objective": "rlhf", "stack": "verl"}])
def test_ppo_is_shown_as_grpo_and_says_so(asked: dict[str, Any]) -> None:
    """PPO trains a value model as well: the figures of GRPO are shown with a caveat."""
    answer = ASK(QWEN, **asked)
    assert answer["objective"] == "grpo"
    assert any(c["code"] == "training_shown_as_grpo" and "PPO is not modelled" in c["message"] for c in answer["caveats"])


def test_pictures_have_no_preferences() -> None:
    """A pipeline that makes pictures is refused, whatever the objective."""
    for objective in ("dpo", "grpo"):
        with pytest.raises((UnsupportedModel, BadArgument), match=r"objective sft and method lora instead"):
            ASK("stabilityai/stable-diffusion-xl-base-1.0", objective=objective)


@pytest.mark.parametrize(("stack", "objective"), [("verl", "grpo"), ("openrlhf", "dpo"), ("unsloth", "grpo"), ("llama-factory", "sft")])
def test_other_frameworks_are_shown_as_trl(stack: str, objective: str) -> None:
    """The figures are those of TRL, and a caveat names the framework."""
    answer, own = (ASK(QWEN, objective=objective, stack=name) for name in (stack, "trl"))
    assert answer["device_bytes"] == own["device_bytes"]
    assert any(caveat["code"] == "training_stack" and "those of TRL" in caveat["message"] for caveat in answer["caveats"])
    assert all(caveat["code"] != "training_stack" for caveat in own["caveats"])


def test_ppo_states_the_bytes_of_its_value_model() -> None:
    """A 7.6B in mixed precision holds 16 bytes of states a parameter, an eighth of them on each of eight cards. RLOO has no value model.

    The verdict counts them.
    """
    asked = {"method": "full", "own_hardware": "H100-SXMx8", "platforms": "jobs"}
    answer = ASK("Qwen/Qwen2.5-7B-Instruct", objective="ppo", **asked)
    found = next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "training_value_model")
    assert "14.2 GiB" in found
    alone = ASK("Qwen/Qwen2.5-7B-Instruct", objective="grpo", **asked)
    more = answer["own"]["cards"]["needed_bytes"] - alone["own"]["cards"]["needed_bytes"]
    assert abs(more * 8 / (7.615e9 * 16) - 1) < 0.01
    assert "value model" in parts(answer)
    assert "value model" not in parts(alone)
    for objective in ("rloo", "grpo"):
        codes = {caveat["code"] for caveat in ASK("Qwen/Qwen2.5-7B-Instruct", objective=objective, **asked)["caveats"]}
        assert "training_value_model" not in codes
