"""Training scripts take two steps as they are written, offline, on a tiny model; configurations are read by accelerate itself."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_chat
from accelerate.commands.config.config_args import load_config_from_file
from commands import NASTY
from packaging.requirements import Requirement
from run_scripts import ROWS as ROWS_FILE
from run_scripts import run_script

from lib.present.training_files import accelerate_config, load_recipes, training_script
from lib.request.objectives import OBJECTIVE_TRAITS, Objective, RolloutRequest
from lib.request.sharding import Sharding
from lib.workload import METHODS, QUANTIZED_METHODS, TrainingRequest

MODEL = "ada/tiny"
CPU = TrainingRequest(precision="fp32", checkpointing="none", packing=False, sequence_tokens=64, rank=4)
EXECUTED = "executed: a Llama of 4 layers with random weights, two steps"
ROWS = {
    "sft": {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi Ada"}]},
    "dpo": {
        "prompt": [{"role": "user", "content": "Hello"}],
        "chosen": [{"role": "assistant", "content": "Hi Ada"}],
        "rejected": [{"role": "assistant", "content": "No"}],
    },
    "orpo": {"prompt": "Hello", "chosen": " Hi Ada", "rejected": " No"},
    "grpo": {"prompt": [{"role": "user", "content": "Hello"}]},
    "reward": {
        "chosen": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi Ada"}],
        "rejected": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "No"}],
    },
}


def request(**changed: object) -> TrainingRequest:
    """A step on a processor with changes."""
    return replace(CPU, **changed)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "method"), [("sft", "full"), ("sft", "lora"), ("dpo", "lora"), ("orpo", "lora"), ("grpo", "lora"), ("reward", "lora")]
)
def test_a_script_trains_two_steps(tmp_path: Path, objective: str, method: str) -> None:
    """The result is on disk after two steps, at the learning rate of the row; an adapter is one."""
    tiny_chat.save(tmp_path / MODEL, endless=False)
    rollout = RolloutRequest(generations=2, completion_tokens=16)
    asked = request(objective=objective, method=method, micro_batch=2, rollout=rollout)
    script = training_script(MODEL, asked, fused=objective == "sft", epochs=1)
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    (tmp_path / ROWS_FILE).write_text("".join(json.dumps(ROWS[objective]) + "\n" for _ in range(8)), encoding="utf-8")
    run_script(tmp_path, "--steps", "2")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert ("adapter_config.json" in names) == (method == "lora")
    assert ("config.json" in names) == (method == "full")
    state = json.loads(next((tmp_path / "out").glob("checkpoint-2/trainer_state.json")).read_text(encoding="utf-8"))
    assert state["global_step"] == 2
    if method == "full":  # once is enough: the trainer is the same for all
        assert "going on from out/checkpoint-2" in run_script(tmp_path, "--steps", "3", "--resume")
        assert {path.name for path in (tmp_path / "out").glob("checkpoint-*")} == {"checkpoint-3"}
    assert (
        f"learning_rate={getattr(load_recipes()[objective], 'learning_rate_' + ('full' if method == 'full' else 'adapter'))!r}," in script
    )


def test_the_rows_say_what_is_executed() -> None:
    """Each objective of the rows is trained above."""
    written = {name: recipe.tested_with for name, recipe in load_recipes().items() if OBJECTIVE_TRAITS[name].trainer == "trl"}
    assert written == dict.fromkeys(ROWS, EXECUTED)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", load_recipes())
@pytest.mark.parametrize("model", [MODEL, *NASTY])
def test_a_script_is_python_whose_head_lists_what_it_imports(method: str, objective: Objective, model: str) -> None:
    """Uv reads the head; a hostile name is one literal and changes no statement; fp16 cards get adapters in float32."""
    of = request(
        method=method, objective=objective, precision="mixed", attention="flash", optimizer="adamw_8bit", devices=4, sharding="ddp"
    )
    text, plain = (training_script(name, of, fused=False, epochs=1.5, half="fp16") for name in (model, MODEL))
    head = tomllib.loads("".join(line[2:] + "\n" for line in text.partition("# ///\n")[0].splitlines()[1:]))
    listed = {Requirement(line).name.replace("-", "_") for line in head["dependencies"]}
    assert all("==" in line for line in head["dependencies"])
    nodes = [*ast.walk(ast.parse(text))]
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module).partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    brought = {"huggingface_hub"}  # by transformers
    assert {name for name in imports if name not in sys.stdlib_module_names} <= listed | brought
    assert listed - imports <= {"accelerate", "bitsandbytes", "kernels", "transformers"}
    assert [type(node) for node in nodes] == [type(node) for node in ast.walk(ast.parse(plain))]
    assert any(isinstance(node, ast.Constant) and node.value == model for node in nodes)
    assert "bfloat16" not in text
    if OBJECTIVE_TRAITS[objective].trainer == "trl":
        assert ("parameter.data.float()" in text) == (method in QUANTIZED_METHODS)
    assert "hub_private_repo=True" in text


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["none", "fsdp"])
def test_a_script_starts_vllm_on_other_gpus(tmp_path: Path, sharding: Sharding) -> None:
    """Both processes see GPUs of their own, the server ends with the training, and the script ends with the training's code."""
    devices = 1 if sharding == "none" else 2
    rollout = RolloutRequest(rollouts="vllm-server", rollout_devices=2)
    asked = request(objective="grpo", method="lora", precision="mixed", devices=devices, sharding=sharding, rollout=rollout)
    script = training_script(MODEL, asked, fused=False, epochs=1, tensor_parallel=2)
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    stand_in = (
        "import os, sys, json, time, subprocess\n"
        "class Server:\n"
        "    def __init__(self, words, env): note(['server', env['CUDA_VISIBLE_DEVICES'], *words[3:6]])\n"
        "    def terminate(self): note(['terminated'])\n"
        "def note(line): open('log', 'a').write(json.dumps(line) + chr(10))\n"
        "def run(words, env):\n"
        "    note(['training', env['CUDA_VISIBLE_DEVICES'], 'accelerate' in ''.join(words), words[-1]])\n"
        "    return subprocess.CompletedProcess(words, 3)\n"
        "subprocess.Popen, subprocess.run = Server, run\n"
        "import runpy\n"
        "sys.argv = ['train.py', '--keep']\n"
        "runpy.run_path('train.py', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", stand_in], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr[-2000:]
    trains, serves = ("0", "1,2") if devices == 1 else ("0,1", "2,3")
    assert [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()] == [
        ["server", serves, "serve", MODEL, "--tensor-parallel-size"],
        ["training", trains, devices > 1, "--keep"],
        ["terminated"],
    ]
    assert "vllm_mode='server'" in script.replace('"', "'")


@pytest.mark.parametrize(
    ("sharding", "kind", "stage"),
    [
        ("ddp", "MULTI_GPU", None),
        ("fsdp", "FSDP", None),
        ("fsdp_offload", "FSDP", None),
        ("fsdp1", "FSDP", None),
        ("fsdp_grad_op", "FSDP", None),
        ("fsdp_hybrid", "FSDP", None),
        ("zero2", "DEEPSPEED", 2),
        ("zero3", "DEEPSPEED", 3),
        ("zero2_offload", "DEEPSPEED", 2),
        ("zero3_offload", "DEEPSPEED", 3),
    ],
)  # fmt: skip
def test_accelerate_reads_its_configuration(tmp_path: Path, sharding: Sharding, kind: str, stage: int | None) -> None:
    """Accelerate's own reader takes the file; processes, machines, precision, sharding and offload are those of the request."""
    machines = 2 if sharding == "fsdp_hybrid" else 1
    asked = request(precision="mixed", devices=4, machines=machines, sharding=sharding)
    text = accelerate_config(asked, half="bf16")
    assert text is not None
    (tmp_path / "accelerate.yaml").write_text(text, encoding="utf-8")
    read = load_config_from_file(str(tmp_path / "accelerate.yaml"))
    assert (str(read.distributed_type).rpartition(".")[2], read.num_processes, str(read.mixed_precision)) == (kind, 4, "bf16")
    assert read.num_machines == machines
    assert read.deepspeed_config.get("zero_stage") == stage
    offload = read.deepspeed_config.get("offload_optimizer_device")
    assert (read.fsdp_config.get("fsdp_offload_params"), offload == "cpu") == (
        {"FSDP": sharding == "fsdp_offload"}.get(kind),
        stage is not None and sharding.endswith("offload"),
    )
    if kind == "FSDP":
        assert read.fsdp_config["fsdp_version"] == (1 if sharding == "fsdp1" else 2)
        assert read.fsdp_config.get("fsdp_reshard_after_forward", True) == (sharding != "fsdp_grad_op")
        assert read.parallelism_config.get("parallelism_config_dp_shard_size") == (2 if machines == 2 else None)
    assert accelerate_config(request(), half="bf16") is None


def test_weights_in_8_bits_and_in_shards() -> None:
    """8 bits: reentrant checkpoints, because bitsandbytes keeps inputs outside autograd. Sharded 4 bits are stored as floats."""
    plain, eight, four, shards = (
        training_script(MODEL, request(precision="mixed", checkpointing="layers", **changed), fused=True, epochs=1)
        for changed in ({}, {"method": "lora-8bit"}, {"method": "qlora"}, {"method": "qlora", "sharding": "fsdp", "devices": 2})
    )
    assert ("load_in_8bit=True" in eight, "use_reentrant" in eight, "load_in_4bit" in eight) == (True, True, False)
    assert "use_reentrant" not in plain + four + shards
    assert ("bnb_4bit_quant_storage=torch.bfloat16" in shards, "quant_storage" in four) == (True, False)
