"""Files of a recommendation: every card, requirement and command can be read, and nothing from outside escapes its quotes."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import NASTY, parse_words, texts
from huggingface_hub import SpaceCard
from huggingface_hub.cli.hf import app as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from lib.catalog import load
from lib.catalog.rows import read_rows
from lib.engines import TRAITS
from lib.errors import BadArgument, BadCatalog
from lib.platforms import traits_of
from lib.present.releases import FILE, Versions, load_versions
from lib.present.setup_files import FRAMEWORKS, write_setup
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.recommend import recommend


class Place(dict[str, Any]):
    """A place of a recommendation, read by attribute."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    def __or__(self, other: Mapping[str, Any]) -> Place:  # type: ignore[override]
        return Place({**self, **other})


def entry(
    platform: str, hardware: str, accelerator: str | None, engine: str = "transformers", precision: str = "bf16", sdk: str = ""
) -> Any:
    """What is read of a place of a recommendation."""
    built = sdk or ("gradio" if platform in {"spaces", "zerogpu"} else "")
    return Place(
        platform=platform, hardware=hardware, accelerator=accelerator, engine=engine, precision=precision, sdk=built,
        devices=1, gpu_layers=-1, cpu_moe_layers=0, replicas=1, repository="", loading="as stored",
    )  # fmt: skip


TRANSFORMERS: dict[str, set[str]] = {"torch": set(), "transformers": set(), "accelerate": set()}
CATALOG = load()
ZEROGPU = CATALOG.rules.zerogpu
TIERS = [entry(row.platform, row.id, row.accelerator) for row in CATALOG.on(["spaces", "zerogpu"])]
EVERY = [(place, framework) for place in TIERS for framework in traits_of(place["platform"]).frameworks]


def packages(requirements: str | None) -> dict[str, Requirement]:
    """The packages of a requirements.txt by name; every other line is a comment or an index."""
    assert requirements is not None
    lines = [
        line for line in requirements.splitlines() if not line.startswith(("# ", "--extra-index-url https://download.pytorch.org/whl/"))
    ]
    return {Requirement(line).name: Requirement(line) for line in lines}


@pytest.mark.parametrize(("place", "framework"), EVERY, ids=lambda value: value if isinstance(value, str) else value["hardware"])
def test_front_matter_is_a_card(place: Place, framework: str) -> None:
    """The Hub's own card parser reads the front matter of every tier, and finds only values that the platform documents."""
    made = write_setup(place, CATALOG, model="Qwen/Qwen3-8B", framework=framework)
    assert made.front_matter is not None
    card = SpaceCard(f"{made.front_matter}\n# Qwen3\n").data.to_dict()
    suggested = card.pop("suggested_hardware", None)
    assert card == {
        "title": "Qwen3-8B",
        "sdk": "gradio",
        "sdk_version": load_versions()["gradio"].version,
        "python_version": "3.12.12",
        "app_file": "app.py",
        "models": ["Qwen/Qwen3-8B"],
    }
    # documented on 2026-03-20: CPU, T4, L4, L40S, A10G and A100 flavors; neither ZeroGPU nor the RTX PRO 6000
    lacking = place["hardware"].startswith(("zero-", "rtx-pro-6000"))
    assert suggested == (None if lacking else place["hardware"])
    assert ("lack" in made.front_matter.splitlines()[1]) == lacking


@settings(max_examples=80, deadline=None)
@given(st.one_of(texts, st.text(alphabet="ab/-\n: #'\"{", max_size=20)))
def test_hostile_models_stay_out_of_the_card(model: str) -> None:
    """A model that is no Hub id adds nothing to the card; one that is stands there as it was, without the name of a file."""
    made = write_setup(TIERS[0], CATALOG, model=model)
    card = SpaceCard(f"{made.front_matter}\n").data.to_dict()
    if "models" in card:
        repository = model.partition(":")[0]
        assert card["models"] == [repository]
        assert card["title"] == repository.split("/")[1]
    else:
        assert card["title"] == "My Space"


@pytest.mark.parametrize(("place", "framework"), EVERY, ids=lambda value: value if isinstance(value, str) else value["hardware"])
def test_requirements_can_be_read(place: Place, framework: str) -> None:
    """Every line is a requirement that pip's own grammar takes, with the pin of the data file, and its source is told."""
    made = write_setup(place, CATALOG, framework=framework)
    for name, wanted in packages(made.requirements).items():
        if name == "torch" and place["platform"] == "zerogpu":
            continue
        known = load_versions()[name]
        assert wanted.specifier.contains(known.version)
        assert known.source in made.sources
        assert known.source.source == f"PyPI {name} {known.version}, read 2026-11-21"


def test_zerogpu_takes_its_newest_torch() -> None:
    """On ZeroGPU torch is the newest of the platform's list (2.11.0), never the newest release (2.15.0)."""
    admitted = ZEROGPU.torch_versions
    torch = packages(write_setup(entry("zerogpu", "zero-a10g", "RTX-PRO-6000-Blackwell-Server"), CATALOG).requirements)["torch"]
    assert [version for version in admitted if torch.specifier.contains(version)] == [str(max(map(Version, admitted)))]
    assert not torch.specifier.contains(load_versions()["torch"].version)


def test_pytorch_by_host() -> None:
    """A GPU gets PyPI's CUDA build and is told which CUDA; a CPU tier gets the CPU index."""
    gpu, cpu = (
        str(write_setup(entry("spaces", "l4x1", "L4"), CATALOG).requirements),
        str(write_setup(entry("spaces", "cpu-upgrade", None), CATALOG).requirements),
    )
    assert "CUDA 13.2" in gpu
    assert "\n--extra-index-url https://download.pytorch.org/whl/cpu\n" in cpu
    assert "--extra-index-url" not in {line.split()[0] for line in gpu.splitlines()}


@pytest.mark.parametrize(
    ("place", "framework", "wanted"),
    [
        (entry("spaces", "l4x1", "L4"), "jax", {"jax": {"cuda13"}, "flax": set()}),
        (entry("spaces", "cpu-upgrade", None), "jax", {"jax": set(), "flax": set()}),
        (entry("tpu", "v6e-8", "TPU-v6e"), "jax", {"jax": {"tpu"}, "flax": set()}),
        (entry("tpu", "v6e-8", "TPU-v6e"), "pytorch", {"torch_tpu": set(), "torch": set(), "transformers": set()}),
        (entry("tpu", "v6e-8", "TPU-v6e", "vllm-tpu"), "pytorch", {"vllm-tpu": set()}),
        (entry("spaces", "l4x1", "L4"), "tensorflow", {"tensorflow": {"and-cuda"}}),
        (entry("spaces", "cpu-upgrade", None), "tensorflow", {"tensorflow": set()}),
        (entry("spaces", "cpu-upgrade", None, "llama.cpp", "gguf:Q4_K_M"), "pytorch", {"llama-cpp-python": set()}),
        (entry("jobs", "h200", "H200", precision="bnb-nf4"), "pytorch", {**TRANSFORMERS, "bitsandbytes": set()}),
        (entry("endpoints", "x", "L4", precision="awq-4"), "pytorch", {**TRANSFORMERS, "gptqmodel": set()}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("hardware", ""),
)  # fmt: skip
def test_framework_lines(place: Place, framework: str, wanted: dict[str, set[str]]) -> None:
    """Each framework and engine brings its own packages and extras, and a card only where there is a Space."""
    made = write_setup(place, CATALOG, framework=framework)
    assert {name: one.extras for name, one in packages(made.requirements).items()} == wanted
    assert (made.front_matter is None) == (place["platform"] not in {"spaces", "zerogpu"})


MODEL = "Qwen/Qwen3-8B"
SERVED = [
    (entry("spaces", "l4x1", "L4", "vllm", "bf16", "docker"), "vllm/vllm-openai:",
     "--max-model-len 8192 --max-num-seqs 4 --tensor-parallel-size 1 --gpu-memory-utilization 0.9 --dtype bfloat16"),
    (entry("spaces", "l40sx1", "L40S", "vllm", "fp8-tensor", "docker"), "vllm/vllm-openai:", "--quantization fp8"),
    (
        entry("spaces", "l4x1", "L4", "sglang", "awq-4", "docker"),
        "lmsysorg/sglang:", "--context-length 8192 --max-running-requests 4 --tp-size 1",
    ),
    (entry("spaces", "t4-small", "T4", "tgi", "fp16", "docker"), "ghcr.io/huggingface/text-generation-inference:",
     "--num-shard 1 --max-total-tokens 8192 --dtype float16"),
    (entry("spaces", "t4-small", "T4", "tei", "fp16", "docker"), "ghcr.io/huggingface/text-embeddings-inference:cuda", "--dtype float16"),
    (entry("spaces", "cpu-upgrade", None, "tei", "fp32", "docker"), "ghcr.io/huggingface/text-embeddings-inference:cpu", "--dtype float32"),
    (entry("spaces", "l4x1", "L4", "llama.cpp", "gguf:Q4_K_M", "docker"), "ghcr.io/ggml-org/llama.cpp:server-cuda",
     "-hf Qwen/Qwen3-8B:Q4_K_M --host 0.0.0.0 --port 8000 -np 4 -c 32768 -ngl 99"),
    (entry("spaces", "l40sx1", "L40S", "tensorrt-llm", "bf16", "docker"), "nvcr.io/nvidia/tensorrt-llm/release:",
     "--tp_size 1 --max_seq_len 8192 --max_batch_size 4 --kv_cache_free_gpu_memory_fraction 0.9"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "image", "flags"), SERVED, ids=lambda value: value if isinstance(value, str) else value["engine"])
def test_a_server_runs_in_a_docker_space(place: Place, image: str, flags: str) -> None:
    """The card asks for Docker and the port that the server listens on; the flags are those of the recommendation."""
    made = write_setup(place, CATALOG, model=MODEL, context_tokens=8192, sequences=4)
    card = SpaceCard(f"{made.front_matter}\n").data.to_dict()
    assert (card["sdk"], card["app_port"], card["models"]) == ("docker", 8000, [MODEL])
    assert "sdk_version" not in card
    assert (made.requirements, made.command) == (None, None)
    lines = dict(line.split(" ", 1) for line in str(made.dockerfile).splitlines())
    words = json.loads(lines["ENTRYPOINT"])
    assert lines["FROM"].startswith(image)
    assert lines["USER"] == "1000"
    assert words[words.index("--port") + 1] == lines["EXPOSE"] == "8000"
    assert flags in " ".join(words)
    assert any(source.what == f"image of {place['engine']}" for source in made.sources)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("org/m-GGUF:Q8_0", "-hf org/m-GGUF:Q8_0 --host"),
        ("org/m-GGUF:sub/m-Q8_0.gguf", "-hf org/m-GGUF -hff sub/m-Q8_0.gguf --host"),
    ],
)
def test_the_gguf_file_that_was_named_is_served(model: str, words: str) -> None:
    """By its quantization or by its name, with the layers that fit; the card and an Endpoint name the repository."""
    place = entry("spaces", "t4-medium", "T4", "llama.cpp", "gguf:Q8_0", "docker") | {"gpu_layers": 24}
    made = write_setup(place, CATALOG, model=model, context_tokens=8192, sequences=1)
    card = SpaceCard(f"{made.front_matter}\n").data.to_dict()
    assert (card["title"], card["models"]) == ("m-GGUF", ["org/m-GGUF"])
    lines = dict(line.split(" ", 1) for line in str(made.dockerfile).splitlines())
    served = " ".join(json.loads(lines["ENTRYPOINT"]))
    assert words in served
    assert served.endswith("-ngl 24")
    own = entry("own", "RTX-3090", "RTX-3090", "llama.cpp", "gguf:Q8_0") | {"cpu_moe_layers": 25}
    command = str(write_setup(own, CATALOG, model=model, context_tokens=8192, sequences=1).command)
    assert ("-ngl 99" in command, "--n-cpu-moe 25" in command) == (True, True)
    offer = next(row for row in CATALOG.on(["endpoints"]) if row.accelerator == "T4" and row.endpoint is not None)
    made = write_setup(place | {"platform": "endpoints", "hardware": offer.id, "sdk": ""}, CATALOG, model=model, context_tokens=8192)
    assert parse_words(hf, shlex.split(str(made.command))[1:])[1]["repo"] == "org/m-GGUF"


@pytest.mark.parametrize(("place", "image", "flags"), SERVED, ids=lambda value: value if isinstance(value, str) else value["engine"])
def test_a_server_runs_as_a_job(place: Place, image: str, flags: str) -> None:
    """The installed client's parser reads the line: flavor, port, image, and the server's command word by word."""
    made = write_setup(place | {"platform": "jobs", "sdk": ""}, CATALOG, model=MODEL, context_tokens=8192, sequences=4)
    assert (made.front_matter, made.dockerfile, made.requirements) == (None, None, None)
    name, read = parse_words(hf, shlex.split(str(made.command))[1:])
    assert name == "run"
    assert (str(read["flavor"]), [*read["expose"]], [*read["secrets"]]) == (place["hardware"], [8000], ["HF_TOKEN"])
    assert str(read["image"]).startswith(image)
    assert flags in " ".join(read["command"])


@pytest.mark.parametrize(("place", "image", "flags"), SERVED, ids=lambda value: value if isinstance(value, str) else value["engine"])
def test_a_server_runs_as_an_endpoint(place: Place, image: str, flags: str) -> None:
    """The same for Inference Endpoints, which start the engines that they manage: the model is mounted, devices have an option."""
    offer = next(row for row in CATALOG.on(["endpoints"]) if row.accelerator == place["accelerator"] and row.endpoint is not None)
    made = write_setup(place | {"platform": "endpoints", "hardware": offer.id, "sdk": ""}, CATALOG, model=MODEL, context_tokens=8192)
    name, read = parse_words(hf, shlex.split(str(made.command))[1:])
    assert name == "deploy"
    assert offer.endpoint is not None
    assert (read["repo"], read["vendor"], read["region"]) == (MODEL, offer.endpoint.vendor, offer.endpoint.regions[0])
    assert (read["instance_type"], read["instance_size"]) == (offer.endpoint.instance_type, offer.endpoint.instance_size)
    assert str(read["custom_image"]).startswith(image)
    managed = {"llama.cpp": "llamacpp", "tensorrt-llm": None}.get(place["engine"], place["engine"])
    assert (None if read["engine"] is None else str(getattr(read["engine"], "value", read["engine"]))) == managed
    told = shlex.split(read["container_args"] or read["container_command"])
    assert told[-1] in flags.split()
    assert "--" not in told


def test_devices_of_a_server() -> None:
    """Four cards: one flag in a Dockerfile, an option of the Endpoint's own."""
    place = entry("spaces", "l4x4", "L4", "vllm", "bf16", "docker") | {"devices": 4}
    assert '"--tensor-parallel-size", "4"' in str(write_setup(place, CATALOG, model=MODEL).dockerfile)
    at_endpoints = place | {"platform": "endpoints", "hardware": "aws-nvidia-l4-x4", "sdk": ""}
    _, read = parse_words(hf, shlex.split(str(write_setup(at_endpoints, CATALOG, model=MODEL).command))[1:])
    assert read["tensor_parallel_size"] == 4
    assert "--tensor-parallel-size" not in read["container_args"]


def test_a_docker_space_of_ones_own_code() -> None:
    """Transformers in Docker: a Python image that installs requirements.txt, with Gradio in it, on Gradio's port."""
    made = write_setup(entry("spaces", "l4x1", "L4", sdk="docker"), CATALOG, model=MODEL)
    card = SpaceCard(f"{made.front_matter}\n").data.to_dict()
    assert (card["sdk"], card["app_port"]) == ("docker", 7860)
    assert {"transformers", "gradio"} <= packages(made.requirements).keys()
    assert "pip install --no-cache-dir --user -r requirements.txt" in str(made.dockerfile)
    assert str(made.dockerfile).startswith("FROM python:3.12\n")


@pytest.mark.parametrize("model", NASTY)
def test_hostile_models_stay_out_of_a_dockerfile_and_a_command(model: str) -> None:
    """Text that is no Hub id is not written: a placeholder stands there."""
    docker = write_setup(entry("spaces", "l4x1", "L4", "vllm", sdk="docker"), CATALOG, model=model)
    job = write_setup(entry("jobs", "l4x1", "L4", "vllm"), CATALOG, model=model)
    for text in (str(docker.dockerfile), str(job.command)):
        assert "organization/model" in text


def test_every_server_has_an_image() -> None:
    """Each engine that is no part of the Python process, and llama.cpp, which is both; only for the hosts it runs on."""
    servers = {name for name, row in TRAITS.items() if not row.in_process and "gpu" in row.silicon} | {"llama.cpp"}
    assert {image.engine for image in load_versions().images if image.silicon == "gpu"} == servers
    with pytest.raises(BadArgument, match=r"Accepted: tei, llama\.cpp on a cpu"):
        write_setup(entry("jobs", "cpu-upgrade", None, "vllm"), CATALOG, model=MODEL)
    with pytest.raises(BadArgument, match="Accepted: pytorch with vllm"):
        write_setup(entry("spaces", "l4x1", "L4", "vllm", sdk="docker"), CATALOG, framework="jax")


def test_torch_tpu_takes_this_torch() -> None:
    """The pinned torch lies in the span that torch_tpu names, and jax[tpu] is said not to go beside it."""
    brings = str(load_versions()["torch_tpu"].brings)
    low, high = brings.removeprefix("torch ").split(",")[0].split(" to ")
    assert Version(low) <= Version(load_versions()["torch"].version) <= Version(high)
    assert "do not install torch_tpu as well" in str(write_setup(entry("tpu", "v6e-8", "TPU-v6e"), CATALOG, framework="jax").requirements)


def test_transformers_has_pytorch_classes_only() -> None:
    """The sentence about ports is true of the installed transformers: it has no module for TensorFlow or Flax models."""
    assert importlib.util.find_spec("transformers.modeling_utils") is not None
    assert importlib.util.find_spec("transformers.modeling_tf_utils") is None
    assert importlib.util.find_spec("transformers.modeling_flax_utils") is None


@pytest.mark.parametrize(
    ("place", "framework"),
    [
        (entry("zerogpu", "zero-a10g", "X"), "jax"),
        (entry("tpu", "v6e-8", "X"), "tensorflow"),
        (entry("spaces", "l4x1", "L4"), "mxnet"),
        (entry("nowhere", "l4x1", "L4"), "pytorch"),
        (entry("spaces", "l4x1\n---\n# x", "L4"), "pytorch"),
    ],
)
def test_what_does_not_run_is_refused(place: Place, framework: str) -> None:
    """A framework that the platform does not run, an unknown platform and an id with a line break are refused by name."""
    with pytest.raises(BadArgument, match="Accepted"):
        write_setup(place, CATALOG, framework=framework)


def test_every_framework_is_offered_somewhere() -> None:
    """The choices of a Space on rented hardware are all that there are."""
    assert traits_of("spaces").frameworks == tuple(FRAMEWORKS)


@pytest.mark.parametrize("spoil", [{"name": "torch"}, {"version": ""}, {"checked": "2999-01-01"}, {"extra": 1}], ids=str)
def test_bad_rows_are_refused(tmp_path: Path, spoil: dict[str, Any]) -> None:
    """A row twice, without a version, of the future, or with an unknown field is refused."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    data["packages"][1] |= spoil
    (tmp_path / FILE.name).write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BadCatalog, match=r"frameworks\.json"):
        read_rows(Versions, tmp_path / FILE.name)


HUB = {"awq-4": "org/Llama-70B-AWQ", "gguf": "org/Llama-70B-GGUF"}


@pytest.mark.parametrize("published", [HUB, {}], ids=["found", "none known"])
@pytest.mark.parametrize("precision", ["auto", "awq-4", "gguf:Q4_K_M", "fp8", "int4"])
def test_a_quantized_entry_does_not_load_the_original(precision: str, published: dict[str, str]) -> None:
    """70B in fewer bits: the repository that holds them, or how to quantize it while it loads, or a note that one is needed."""
    original = "meta-llama/Llama-3.1-70B-Instruct"
    app = App(catalog=load, models=Models(), quantized=lambda _: published)
    answer = bind_arguments(recommend, app)(original, platforms="spaces,zerogpu", precision=precision)
    quantized = [of for of in answer.ranked if of.precision != "bf16"]
    assert quantized
    for of in quantized:
        made = write_setup(of, CATALOG, model=original, task=answer.task)
        files = "\n".join(filter(None, (made.app, made.dockerfile)))
        assert (f'{original}"' in files) == (of.loading == "quantized on load")
        if of.loading == "quantized on load":
            assert "quantization" in files
        else:
            assert (of.repository or "organization/model") in files
            assert any("Replace organization/model" in note for note in made.notes) == (of.repository is None)
    if published and answer.pick.loading == "other checkpoint":  # the Hub is asked for the pick
        assert answer.pick.repository in published.values()
