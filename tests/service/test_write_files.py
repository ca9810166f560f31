"""/write_files: every file can be read by the parser of its language, loads what was computed, and hostile values reach none."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from commands import NASTY, parse_words
from huggingface_hub import SpaceCard
from huggingface_hub.cli.hf import app as hf
from packaging.requirements import Requirement
from written import ask

from lib.catalog import load
from lib.engines import TRAITS as ENGINES
from lib.errors import AdvisorError, BadArgument
from lib.present.app_files import load_kinds
from lib.present.cluster_files import gpu_packages, lws_manifest, serve_script
from lib.present.snippets import Start, command_words
from lib.present.training_files import load_recipes
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.write_files import PURPOSES, write_files

BASH = shutil.which("bash") or ""
HUB = {"awq-4": "org/Model-AWQ", "gguf": "org/Model-GGUF"}
WRITE = ask(write_files, App(catalog=load, models=Models(), quantized=lambda _: HUB))
QWEN, LLAMA_70B, LLAMA_405B = "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-405B-Instruct"
FLUX = "black-forest-labs/FLUX.1-dev"
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    (QWEN, "l4x1", "app", {}),
    (QWEN, "zero-a10g", "app", {}),
    (QWEN, "t4-small", "app", {"precision": "bnb-nf4"}),
    (QWEN, "RTX-4090", "app", {}),
    (QWEN, "l4x1", "serve", {"concurrency": 16, "context_tokens": 8192}),
    (QWEN, "jobs:l4x1", "serve", {"engine": "sglang", "precision": "bf16"}),
    (QWEN, "aws-nvidia-l4-x1", "serve", {"engine": "vllm", "precision": "bf16"}),
    (QWEN, "RTX-4090", "serve", {"engine": "vllm"}),
    ("Qwen/Qwen3-0.6B", "cpu-upgrade", "serve", {"engine": "llama.cpp", "precision": "gguf:Q4_K_M", "context_tokens": 1024}),
    (QWEN, "v6e-1", "tpu", {"concurrency": 8}),
    (LLAMA_70B, "v6e-16", "tpu", {}),
    (QWEN, "tpu7x-8", "tpu", {}),
    (LLAMA_405B, "H100-SXMx8", "multi-node", {"precision": "bf16"}),
    (LLAMA_405B, "gcp-nvidia-h100-x8", "multi-node", {"precision": "bf16"}),
    (LLAMA_70B, "RTX-4090x2", "multi-node", {"precision": "bf16"}),
    (QWEN, "l4x1", "job", {"concurrency": 8}),
    (QWEN, "RTX-4090", "batch", {}),
    ("Qwen/Qwen3-0.6B", "t4-small", "train", {"method": "qlora"}),
    (QWEN, "RTX-4090", "train", {"method": "qlora", "objective": "dpo"}),
    (QWEN, "jobs:l4x4", "train", {"method": "lora", "objective": "reward"}),
    ("BAAI/bge-base-en-v1.5", "jobs:t4-small", "train", {"objective": "contrastive", "negatives": 2, "micro_batch": 8, "rank": 8}),
    ("BAAI/bge-reranker-large", "RTX-4090x2", "train", {"objective": "rerank", "method": "full"}),
    (QWEN, "jobs:l4x1", "train", {"objective": "classify", "method": "qlora"}),
    (LLAMA_70B, "a100-large", "serve", {"precision": "awq-4"}),
    ("BAAI/bge-base-en-v1.5", "cpu-basic", "app", {}),
    ("BAAI/bge-base-en-v1.5", "t4-small", "job", {}),
    ("BAAI/bge-reranker-large", "t4-small", "app", {}),
    ("Qwen/Qwen3-Embedding-0.6B", "zero-a10g", "app", {}),
    ("openai/whisper-large-v3", "t4-small", "app", {}),
    ("google/gemma-3-12b-it", "l40sx1", "app", {}),
    ("black-forest-labs/FLUX.1-schnell", "zero-a10g", "app", {}),
    (FLUX, "l4x1", "app", {}),
]


def read_file(name: str, text: str) -> None:
    """Read a file with the parser of its language."""
    if name.endswith(".py"):
        ast.parse(text)
        if text.startswith("# /// script"):
            tomllib.loads("".join(line[2:] + "\n" for line in text.partition("# ///\n")[0].splitlines()[1:]))
    elif name.endswith(".sh"):
        subprocess.run([BASH, "-n"], input=text, text=True, check=True, timeout=60)
    elif name in {"gke.yaml", "lws.yaml"}:
        assert all({"apiVersion", "kind", "metadata"} <= document.keys() for document in yaml.safe_load_all(text))
    elif name == "sky.yaml":
        task = yaml.safe_load(text)
        assert task.keys() == {"name", "num_nodes", "resources", "secrets", "file_mounts", "run"}
        subprocess.run([BASH, "-n"], input=task["run"], text=True, check=True, timeout=60)
    elif name == "accelerate.yaml":
        assert yaml.safe_load(text)["num_processes"] > 1
    elif name == "README.md":
        assert SpaceCard(text + "\n").data.to_dict()["sdk"] in {"gradio", "docker"}
    elif name == "requirements.txt":
        assert all(Requirement(line) for line in text.splitlines() if not line.startswith(("#", "--extra-index-url ")))
    else:
        assert name == "Dockerfile"
        lines = [line.split(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        assert {word for word, _ in lines} <= {"FROM", "RUN", "USER", "ENV", "WORKDIR", "COPY", "EXPOSE", "CMD", "ENTRYPOINT"}
        assert all(isinstance(json.loads(rest), list) for word, rest in lines if word in {"CMD", "ENTRYPOINT"})
        assert any(word == "ENV" and "USER=user" in rest for word, rest in lines)
        assert ["USER", "1000"] in lines


@pytest.mark.parametrize(("model", "hardware", "purpose", "more"), CASES)
def test_files_can_be_read_and_load_what_was_computed(model: str, hardware: str, purpose: str, more: Mapping[str, Any]) -> None:
    """Files parse, the command is one of the client or of a shell, and the repository that the answer names is the one in the files."""
    answer = WRITE(model, hardware, purpose, **more)
    for name, text in answer["files"].items():
        read_file(name, text)
    assert answer["files"] or answer["command"]
    everything = "\n".join((*answer["files"].values(), answer["command"] or ""))
    assert (answer["repository"] or "organization/model") in everything
    words = shlex.split(answer["command"] or "")
    if words[:1] == ["hf"]:
        parse_words(hf, words[1:])
    assert answer["runs_on"].partition(":")[2] == hardware.rpartition(":")[2] or answer["runs_on"] == hardware
    kinds = {kind.tested_with for kind in (*load_kinds().apps, *load_kinds().batches, *load_recipes().values())}
    assert answer["tested_with"] in {*kinds, "parsed"}
    if answer["tested_with"].startswith("executed") and answer["precision"] not in {"auto", "fp32", "fp16", "bf16"}:
        assert any("was not run" in note for note in answer["notes"])


def test_the_server_has_the_sizes_that_were_computed() -> None:
    """Length and number of sequences of the question stand in the Dockerfile, and in the line for a Job."""
    docker = WRITE(QWEN, "l4x1", "serve", engine="vllm", concurrency=16, context_tokens=8192)["files"]["Dockerfile"]
    assert '"--max-model-len", "8192", "--max-num-seqs", "16"' in docker
    assert "--max-running-requests 16" in WRITE(QWEN, "jobs:l4x1", engine="sglang", concurrency=16)["command"]


def test_several_machines_share_what_one_cannot_hold() -> None:
    """405 billion parameters in bfloat16 take 756 GiB: two machines of eight H100, which split layers inside and hand them on between."""
    answer = WRITE(LLAMA_405B, "H100-SXMx8", "multi-node", precision="bf16", concurrency=8)
    assert (answer["machines"], answer["devices"]) == (2, 16)
    script = answer["files"]["serve.sh"]
    words = shlex.split(script.rpartition("exec ")[2])
    known = {flag.split()[0] for flag in (*ENGINES["vllm"].command.settings.values(), *ENGINES["vllm"].command.options)}
    assert {word for word in words if word.startswith("--")} <= known | {"--host", "--port", "--distributed-executor-backend"}
    at = {word: words[place + 1] for place, word in enumerate(words) if word.startswith("--")}
    assert (at["--tensor-parallel-size"], at["--pipeline-parallel-size"]) == ("8", "2")
    assert at["--distributed-executor-backend"] == "ray"
    documents = {document["kind"]: document for document in yaml.safe_load_all(answer["files"]["lws.yaml"])}
    assert documents["ConfigMap"]["data"]["serve.sh"] == script
    group = documents["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert group["size"] == 2
    for role, words in (("leader", ["head"]), ("worker", ["worker", "$(LWS_LEADER_ADDRESS)"])):
        container = group[f"{role}Template"]["spec"]["containers"][0]
        assert container["command"] == ["bash", "/files/serve.sh", *words]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    task = yaml.safe_load(answer["files"]["sky.yaml"])
    assert (task["num_nodes"], task["resources"]["accelerators"]) == (2, "H100:8")


def test_stated_groups_of_cards_are_kept() -> None:
    """Four groups of two cards: on machines of two cards that is four machines, whatever fewer would hold."""
    split = {"tensor_parallel": 2, "pipeline_parallel": 4}
    answer = WRITE(LLAMA_70B, "RTX-4090x2", "multi-node", precision="bf16", serving=split)
    assert (answer["machines"], answer["devices"]) == (4, 8)


def test_rented_machines_are_not_connected() -> None:
    """A platform of Hugging Face runs a model on one machine: the note says so, and nothing is said of cards of one's own."""
    rented, own = (WRITE(LLAMA_405B, name, "multi-node", precision="bf16") for name in ("gcp-nvidia-h100-x8", "H100-SXMx8"))
    assert "Inference Endpoints runs a model on one machine at most" in rented["notes"][0]
    assert not any("at most" in note for note in own["notes"])


@pytest.mark.parametrize("model", ["a/b\"; rm -rf $HOME; echo '$(id)", "a/b: [x]\n- y", "a/$(HF_TOKEN)"])
def test_a_hostile_name_stays_one_word_in_every_file(model: str) -> None:
    """The script hands it on as one word; the manifest holds the script as one scalar."""
    words = command_words("vllm", model, Start(precision="bf16", devices=4, machines=2))
    script = serve_script(words, machines=2, packages=gpu_packages())
    echoed = script.replace(script[: script.index("exec ")], "").replace("exec ", "printf '%s\\n' ", 1)
    done = subprocess.run([BASH, "-c", echoed], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n".join(words) + "\n"
    pod = {"image": "vllm/vllm-openai:v1", "selector": {}, "disk_gib": 50, "port": 8000, "device": "nvidia.com/gpu", "devices": 2}
    documents = list(yaml.safe_load_all(lws_manifest(script, **pod, machines=2, environment={})))
    assert [document["kind"] for document in documents] == ["ConfigMap", "LeaderWorkerSet", "Service"]
    assert documents[0]["data"] == {"serve.sh": script}


def test_a_card_without_bfloat16_multiplies_in_float16() -> None:
    """A T4 loads compressed weights with float16; an L4 with bfloat16."""
    old, new = (WRITE(QWEN, tier, "app", precision="bnb-nf4")["files"]["app.py"] for tier in ("t4-small", "l4x1"))
    assert "bnb_4bit_compute_dtype=torch.float16" in old
    assert "bnb_4bit_compute_dtype=torch.bfloat16" in new


def test_zerogpu_declares_what_is_predicted() -> None:
    """A longer answer declares more seconds, which the note explains."""
    short, long = (WRITE(QWEN, "zero-a10g", "app", output_tokens=tokens) for tokens in (64, 1024))
    declared = [int(answer["files"]["app.py"].partition("@spaces.GPU(duration=")[2].partition(",")[0]) for answer in (short, long)]
    assert 1 <= declared[0] < declared[1] <= 300
    assert f"A call declares {declared[1]} s" in " ".join(long["notes"])


def test_a_gated_model_asks_for_a_token() -> None:
    """The app reads HF_TOKEN, and a note names the page with the terms."""
    answer = WRITE(LLAMA_70B, "a100-large", "app")
    assert 'os.environ.get("HF_TOKEN")' in answer["files"]["app.py"]
    assert any(f"https://huggingface.co/{LLAMA_70B}" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("model", "hardware", "purpose", "sentence"),
    [
        ("7B", "l4x1", "app", "the Hub id of a model"),
        (QWEN, "zero-a10g", "serve", "the purposes of zero-a10g are app"),
        (QWEN, "v6e-8", "app", "hardware of Spaces, ZeroGPU, your own"),
        (LLAMA_70B, "l4x1", "serve", r"such as spaces:\S+\. On 1x Nvidia L4: Too small"),
        ("google-bert/bert-base-uncased", "l4x1", "app", "fill-mask of a bert.*a task that the purpose app has files for"),
        ("openai/gpt-oss-120b", "v6e-8", "tpu", "is reported to fail on Google TPU v6e"),
        (QWEN, "l4x1", "tpu", "hardware of Cloud TPU for the purpose tpu"),
        (QWEN, "l4x4", "multi-node", "serve: one machine holds this model in"),
        (QWEN, "zero-a10g", "multi-node", "the purposes of zero-a10g are app"),
        (QWEN, "RX-7900-XTX", "multi-node", "graphics cards of NVIDIA"),
        ("mistralai/Voxtral-Mini-3B-2507", "l4x1", "app", "automatic-speech-recognition of a voxtral"),
    ],
)
def test_a_refusal_says_what_is_accepted(model: str, hardware: str, purpose: str, sentence: str) -> None:
    """What was wrong, what is accepted, and what to do next."""
    with pytest.raises(BadArgument, match=sentence):
        WRITE(model, hardware, purpose)


@pytest.mark.parametrize("argument", ["model", "hardware", "purpose", "precision", "engine", "task", "concurrency", "context_tokens"])
@pytest.mark.parametrize(
    "value", [*NASTY, '"; import os #', "a/b\nRUN rm -rf /", "l4x1 --flavor h100", -1, 10**30, ["x"], {"a": 1}, True, None]
)
def test_hostile_values_are_refused(argument: str, value: object) -> None:
    """None of them is an argument that is accepted, so none reaches a file."""
    with pytest.raises(AdvisorError):
        WRITE(**({"model": QWEN, "hardware": "l4x1", "purpose": "serve"} | {argument: value}))


def test_every_purpose_is_asked() -> None:
    """The cases above have every purpose."""
    assert {purpose for _, _, purpose, _ in CASES} == {*PURPOSES}


def test_a_training_of_pictures_has_the_size_that_was_estimated() -> None:
    """The same arguments as /estimate_training, with the same refusals."""
    answer = WRITE(FLUX, "jobs:l4x1", "train", width=512, height=768, base_precision="nf4")
    assert ("WIDTH, HEIGHT = 512, 768" in answer["files"]["train.py"], answer["precision"]) == (True, "nf4")
    with pytest.raises(BadArgument, match="a multiple of 16"):
        WRITE(FLUX, "jobs:l4x1", "train", width=500, base_precision="nf4")
    with pytest.raises(BadArgument, match="it makes no pictures"):
        WRITE(QWEN, "jobs:l4x1", "train", frames=9)
