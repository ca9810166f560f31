"""Recipes: shell that a shell reads, Python that compiles and calls what exists, YAML that Kubernetes would take."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from lib.answers.gpu_tpu import RecipeEntry
from lib.catalog import load
from lib.catalog.gpu_or_tpu import load_tpu_software
from lib.present.snippets import Start
from lib.present.tpu_recipes import RecipeChoice, tpu_recipes

CATALOG, SOFTWARE = load(), load_tpu_software()
BASH = shutil.which("bash")
SHELLCHECK = shutil.which("shellcheck")


def choice(hardware: str = "v6e-4", **changes: Any) -> RecipeChoice:
    """A slice for Llama-3.1-8B."""
    offer = CATALOG.offer(hardware, "tpu")
    assert offer.tpu is not None
    terms = SOFTWARE.terms(offer.tpu.generation.id)
    assert terms is not None
    plain = RecipeChoice(
        offer=offer,
        terms=terms,
        model="meta-llama/Llama-3.1-8B-Instruct",
        start=Start(precision="bf16", devices=offer.accelerator_count, context_tokens=4096),
        region="us-central1",
        spot=False,
        optimum=SOFTWARE.optimum,
        optimum_lists_model=True,
    )
    return replace(plain, **changes)


CHOICES = {
    "one host": choice(),
    "spot": choice("v5litepod-8", spot=True),
    "several hosts": choice("v6e-16"),
    "no runtime version": choice("tpu7x-8"),
    "another region": choice(region="europe-west4"),
    "no model": choice(model=""),
    "hostile model": choice(model="a/b\"; rm -rf $HOME; echo '$(id)"),
}
ALL = [(name, recipe) for name, chosen in CHOICES.items() for recipe in tpu_recipes(chosen)]
IDS = [f"{name}: {recipe.name}" for name, recipe in ALL]


def of(language: str) -> list[Any]:
    """The recipes in a language, as parameters."""
    return [pytest.param(recipe, id=identity) for (_, recipe), identity in zip(ALL, IDS, strict=True) if recipe.language == language]


def read_by(program: list[str], code: str) -> str:
    """What the program complains about when it reads the code; "" for nothing."""
    done = subprocess.run(program, input=code, capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_a_shell_reads_every_command() -> None:
    """`bash -n` over all of them, one process."""
    assert BASH is not None
    code = "\n".join(recipe.code for _, recipe in ALL if recipe.language == "bash")
    assert read_by([BASH, "-n"], code) == ""


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("name", [name for name in CHOICES if name != "hostile model"])
def test_shellcheck_has_nothing_to_say(name: str) -> None:
    """The commands of one choice as one script: the variables of the first block are set in it."""
    script = "\n".join(recipe.code for recipe in tpu_recipes(CHOICES[name]) if recipe.language == "bash")
    # SC1091: the environment that is activated is made on the machine; SC2034: a variable for the visitor's own commands
    assert read_by([str(SHELLCHECK), "--shell=bash", "--exclude=SC1091,SC2034,SC2164", "-"], script) == ""


def test_a_hostile_name_stays_one_word() -> None:
    """What looks like a command is an argument of vLLM: the shell sees it as one word."""
    commands = next(recipe.code for recipe in tpu_recipes(CHOICES["hostile model"]) if recipe.name == "vllm")
    line = commands.split("vllm serve ", 1)[1].split(" --host", 1)[0]
    assert BASH is not None
    done = subprocess.run([BASH, "-c", f"printf '%s' {line}"], capture_output=True, text=True, check=True)
    assert done.stdout == CHOICES["hostile model"].model


@pytest.mark.parametrize("recipe", of("python"))
def test_python_compiles(recipe: RecipeEntry) -> None:
    """It is a module, and it states its releases."""
    compile(recipe.code, recipe.name, "exec")
    assert recipe.code.startswith("# pip install ")
    assert "==" in recipe.code.splitlines()[0]


@pytest.mark.parametrize("recipe", of("python")[:2])
def test_calls_fit_the_installed_signatures(recipe: RecipeEntry) -> None:
    """What is called of torch and transformers exists here and takes these arguments; torch_tpu and torch_xla need a TPU host."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    known: dict[str, Any] = {"torch.device": None, "torch.no_grad": torch.no_grad.__init__, "torch.compile": torch.compile}
    loaders = ("AutoTokenizer.from_pretrained", "AutoModelForCausalLM.from_pretrained")
    seen = set()
    for node in ast.walk(ast.parse(recipe.code)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in known and known[name] is not None:
            of_self = [object()] if inspect.isfunction(known[name]) and name == "torch.no_grad" else []
            inspect.signature(known[name]).bind(*of_self, *node.args, **{word.arg or "": word.value for word in node.keywords})
            seen.add(name)
        elif name in loaders:
            cls, method = name.split(".")
            inspect.signature(getattr(getattr(transformers, cls), method)).bind(*node.args, **{word.arg or "": 0 for word in node.keywords})
            seen.add(name)
    assert seen >= {"torch.no_grad", *loaders}


@pytest.mark.parametrize("recipe", of("yaml"))
def test_a_manifest_asks_for_the_chips_of_a_host(recipe: RecipeEntry) -> None:
    """Selector, requests equal to limits, and no alias of YAML's own."""
    assert "&id" not in recipe.code
    documents = {document["kind"]: document for document in yaml.safe_load_all(recipe.code)}
    assert all(document.keys() >= {"apiVersion", "kind", "metadata"} for document in documents.values())
    runs = documents.get("Deployment") or documents["LeaderWorkerSet"]
    group = runs["spec"].get("leaderWorkerTemplate")
    for template in [group["leaderTemplate"], group["workerTemplate"]] if group else [runs["spec"]["template"]]:
        pod = template["spec"]
        assert pod["nodeSelector"].keys() >= {"cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"}
        resources = pod["containers"][0]["resources"]
        assert resources["requests"]["google.com/tpu"] == resources["limits"]["google.com/tpu"] >= 1


def test_a_slice_of_several_hosts_is_one_group() -> None:
    """v6e-16 is 4 hosts of 4 chips: four pods that start together, each with four chips; the head serves on all 16."""
    recipe = next(one for one in tpu_recipes(CHOICES["several hosts"]) if one.name == "gke")
    documents = {document["kind"]: document for document in yaml.safe_load_all(recipe.code)}
    group = documents["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert group["size"] == 4
    assert group["workerTemplate"]["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] == 4
    assert "--tensor-parallel-size 16" in documents["ConfigMap"]["data"]["serve.sh"]


def test_one_host_keeps_weights_and_compiled_programs() -> None:
    """A volume of the disk type that the chip's machines take, which holds the weights; an hour for the first start."""
    recipe = next(one for one in tpu_recipes(choice(weights_bytes=61 * 2**30)) if one.name == "gke")
    documents = {document["kind"]: document for document in yaml.safe_load_all(recipe.code)}
    assert documents["StorageClass"]["parameters"]["type"] == "hyperdisk-balanced"
    assert documents["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "120Gi"
    container = documents["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"] == 3600
    assert {"HF_HOME": "/data/huggingface", "VLLM_XLA_CACHE_PATH": "/data/xla-cache"}.items() <= {
        variable["name"]: variable.get("value") for variable in container["env"]
    }.items()


def test_a_name_cannot_name_a_variable_of_the_container() -> None:
    """Kubernetes puts the value of a variable for `$(NAME)` in a command: written as `$$(NAME)` it stays text."""
    recipe = next(one for one in tpu_recipes(choice(model="a/$(HF_TOKEN)")) if one.name == "gke")
    deployment = next(document for document in yaml.safe_load_all(recipe.code) if document["kind"] == "Deployment")
    assert "a/$$(HF_TOKEN)" in deployment["spec"]["template"]["spec"]["containers"][0]["command"]


def test_the_zone_is_one_of_the_region_where_the_generation_is() -> None:
    """europe-west4 has v6e in europe-west4-a; a region without it falls back to the first zone of the list."""
    assert CHOICES["another region"].zone == "europe-west4-a"
    assert choice("tpu7x-8", region="europe-west4").zone == "us-central1-c"


def test_what_is_archived_or_retired_says_so() -> None:
    """JetStream by its name, Optimum TPU by its state, PyTorch/XLA by its successor; TPU7x has no TPU VM."""
    recipes = {recipe.name: recipe for recipe in tpu_recipes(choice())}
    assert "archived" in recipes["jetstream"].title
    assert "maintenance" in recipes["optimum_tpu"].title
    assert "TorchTPU will replace it" in recipes["torch_xla"].notes[0]
    assert "tpu_vm" not in {recipe.name for recipe in tpu_recipes(choice("tpu7x-8"))}
    assert {"environment", "queued_resource", "tpu_vm", "vllm", "gke", "torch_tpu", "torch_xla", "maxtext"} <= recipes.keys()
