"""The script that trains a model, the configuration of accelerate for several GPUs, and the lines that start them.

    training_script("Qwen/Qwen3-8B", TrainingRequest(), fused=True, epochs=1)

`uv` reads the packages from the head of the script. Classes, dataset and learning rates of an objective are a row of
`lib/data/training_recipes.json` with its source: TRL's, those of sentence-transformers for pairs of texts, and transformers' Trainer for
labels. Configurations are those that TRL 1.16.0 ships (trl/accelerate_configs, read 2026-11-25).
TRL computes its loss in chunks of tokens only where `loss_type="chunked_nll"` asks for it. Layers of bitsandbytes in 8 bits keep their
inputs outside autograd, so that only reentrant checkpoints free them (bitsandbytes 0.50.2, autograd/_functions.py; measured on an H100:
10.7 GB instead of 3.8 GB). 4-bit weights are sharded only where they are stored as floats (accelerate 1.15.0, utils/fsdp_utils.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from lib.catalog.rows import Day, Row, Text, read_rows, require_distinct
from lib.engines.traits import Work
from lib.platforms import TRAITS
from lib.precision import TORCH_DTYPES
from lib.present.releases import load_versions
from lib.present.templates import Code, render, write_shell
from lib.request.objectives import OBJECTIVE_TRAITS, Objective
from lib.request.sharding import SHARDING_TRAITS, Sharding
from lib.speed.training_hardware import TrainingOption, limit_hours
from lib.workload import TrainingRequest

FILE = Path(__file__).parent.parent / "data" / "training_recipes.json"
SCRIPT, CONFIG = "train.py", "accelerate.yaml"
SERVER_TIMEOUT_S = 1800
"""How long the trainer waits for vLLM to load the model; TRL's own limit is four minutes."""
_OPTIMIZERS = {
    "adamw": "adamw_torch_fused", "adamw_foreach": "adamw_torch", "adamw_8bit": "adamw_8bit", "paged_adamw": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit", "adafactor": "adafactor", "sgd": "sgd",
}  # fmt: skip
_SAVED_EVERY_S, _SAVED_SHARE = 1_800, 0.1
_KERNELS = {"sdpa": "sdpa", "flash": "kernels-community/flash-attn2", "eager": "eager"}


class Recipe(Row):
    """How a library trains for an objective."""

    name: Objective
    template: Text = "train.py.j2"
    module: Text = "trl"
    """Module of its classes."""
    config: Text
    trainer: Text
    model: str = ""
    """Class that loads the model; empty if the trainer does."""
    loss_module: str = ""
    loss: str = ""
    """Class of the loss; empty if the trainer has its own."""
    dataset: Text
    """An example, to replace."""
    columns: bool = False
    """Whether the columns of the dataset can be named."""
    sharding: Sharding = "fsdp"
    """How several GPUs share it where the request does not say so."""
    task_type: str
    """Of peft's LoraConfig; empty if none is set."""
    learning_rate_full: float
    learning_rate_adapter: float
    packs: bool
    """Whether it packs rows and chooses how it computes its loss."""
    source: Text
    checked: Day
    tested_with: Text


class MediaRecipe(Recipe):
    """How a library trains with pictures or sound."""

    reads: Literal["pictures", "sound"]
    library: Literal["trl", "transformers"] = "trl"
    packages: tuple[Text, ...]
    """Packages in addition to those of the library."""


class NegativesDataset(Row):
    """A public dataset of a query, its answer and hard negatives, in this order."""

    most: int
    """Hard negatives of each row."""
    dataset: Text
    source: Text
    checked: Day


class Recipes(Row):
    """training_recipes.json."""

    what: Text
    negatives: Annotated[tuple[NegativesDataset, ...], require_distinct("most")]
    """Fewest negatives first."""
    objectives: Annotated[tuple[Recipe, ...], require_distinct("name")]
    media: Annotated[tuple[MediaRecipe, ...], require_distinct("reads")]


@cache
def load_recipes() -> Mapping[str, Recipe]:
    """The bundled rows by objective, read at the first call."""
    return {recipe.name: recipe for recipe in read_rows(Recipes, FILE).objectives}


@cache
def load_media_recipes() -> Mapping[str, MediaRecipe]:
    """The bundled rows for pictures and sound, read at the first call."""
    return {recipe.reads: recipe for recipe in read_rows(Recipes, FILE).media}


@cache
def find_negatives(negatives: int) -> str:
    """A public dataset with so many hard negatives in each row; empty if none is known."""
    return next((row.dataset for row in read_rows(Recipes, FILE).negatives if row.most >= negatives), "")


def _wanted_columns(negatives: int, *, scores: bool) -> str:
    """The columns that a script of pairs trains on."""
    labelled = "3 columns: a query, a text, and a label from 0 to 1"
    if scores and not negatives:
        return labelled
    each = "a hard negative, a text that does not" if negatives == 1 else f"{negatives} hard negatives, texts that do not"
    texts = f"{2 + negatives} columns of text: a query and its answer"
    texts += f", and {each} answer it" if negatives else ""
    return f"{labelled}; or {texts}" if scores else texts


def find_recipe(request: TrainingRequest) -> Recipe | None:
    """The row of a request; None if no script is written."""
    if not request.reads_media or request.objective != "sft":
        return load_recipes().get(request.objective)
    return load_media_recipes()["sound" if request.reads_sound else "pictures"]


def list_scripts(work: Work) -> tuple[Objective, ...]:
    """Objectives for which a script is written that trains a model of this kind."""
    return tuple(recipe.name for recipe in load_recipes().values() if work in OBJECTIVE_TRAITS[recipe.name].works)


def job_command(flavor: str, hours: float) -> str:
    """The line that starts the script on a flavor of Jobs, with half as much time again as is predicted, an hour at least.

    `hours` include those of the start.
    """
    limit = max(1, math.ceil(1.5 * hours))
    return str(write_shell(["hf", "jobs", "uv", "run", "--flavor", flavor, "--timeout", f"{limit}h", "--secrets", "HF_TOKEN", SCRIPT]))


def server_words(model: str, request: TrainingRequest, tensor_parallel: int) -> tuple[str, ...]:
    """The command of the vLLM that writes answers on GPUs of its own, as TRL 1.16 starts it (trl/scripts/vllm_serve.py)."""
    copies = request.rollout.rollout_devices // tensor_parallel
    return (
        "serve", model, "--tensor-parallel-size", f"{tensor_parallel}", "--data-parallel-size", f"{copies}",
        "--max-model-len", f"{request.sequence_tokens}", "--enable-scale-out", "--weight-transfer-config", '{"backend": "nccl"}',
        "--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1",
    )  # fmt: skip


def server_command(model: str, request: TrainingRequest, tensor_parallel: int) -> str:
    """The line that starts this vLLM by hand on the GPUs after those that train."""
    first = request.devices
    gpus = ",".join(map(str, range(first, first + request.rollout.rollout_devices)))
    words = ["env", "VLLM_SERVER_DEV_MODE=1", f"CUDA_VISIBLE_DEVICES={gpus}", "vllm", *server_words(model, request, tensor_parallel)]
    return str(write_shell(words))


def _uses_vllm(request: TrainingRequest) -> bool:
    return request.samples and not request.rollout.traits.starts_together


def list_packages(request: TrainingRequest) -> tuple[str, ...]:
    """Requirements of the script."""
    recipe = find_recipe(request)
    media = recipe if isinstance(recipe, MediaRecipe) else None
    library = media.library if media else OBJECTIVE_TRAITS[request.objective].trainer
    names = ["torch", "transformers", "accelerate", "datasets"]
    names += [library] if library not in names else []
    names += media.packages if media else []
    names += ["peft"] if request.method != "full" else []
    names += ["bitsandbytes"] if request.quantizes or "8bit" in request.optimizer or "paged" in request.optimizer else []
    names += ["kernels"] if request.attention == "flash" else []
    names += ["vllm"] if _uses_vllm(request) else []
    names += ["deepspeed"] if SHARDING_TRAITS[request.sharding].stage else []
    return tuple(names)


def _requirement(name: str, request: TrainingRequest) -> str:
    """The line that asks for a package; vLLM decides about torch."""
    versions = load_versions()
    brought = versions["vllm"].brings if _uses_vllm(request) and name == "torch" else None
    return versions.requirement(name) if brought is None else brought.replace(" ", "==")


def _rollout_settings(request: TrainingRequest, share: float | None) -> dict[str, Any]:
    """Settings of GRPOConfig in place of `max_length`: it has no limit for a whole sequence."""
    rollout, traits = request.rollout, request.rollout.traits
    settings: dict[str, Any] = {
        "num_generations": rollout.generations, "max_completion_length": rollout.completion_tokens, "beta": rollout.beta,
    }  # fmt: skip
    if _uses_vllm(request):
        settings |= {"use_vllm": True, "vllm_mode": "colocate" if traits.holds_share else "server"}
    if traits.holds_share:
        settings |= {
            "vllm_gpu_memory_utilization": round(share or rollout.rollout_share, 2), "vllm_enable_sleep_mode": rollout.rollout_sleep,
            "vllm_max_model_length": request.sequence_tokens,
        }  # fmt: skip
        settings |= {"vllm_tensor_parallel_size": rollout.rollout_tensor_parallel} if rollout.rollout_tensor_parallel > 1 else {}
    return settings | ({"vllm_server_timeout": SERVER_TIMEOUT_S} if traits.own_devices else {})


def _length_settings(request: TrainingRequest, share: float | None) -> dict[str, Any]:
    """The setting of TRL that cuts sequences; other libraries cut them in the tokenizer."""
    if request.samples:
        return _rollout_settings(request, share)
    if request.media.images:
        return {"max_length": None}  # a cut could leave a picture without some of its tokens
    if request.reads_sound:
        return {"remove_unused_columns": False, "label_names": ["labels"]}
    return {"max_length": request.sequence_tokens} if OBJECTIVE_TRAITS[request.objective].trainer == "trl" else {}


def training_script(
    model: str,
    request: TrainingRequest,
    *,
    fused: bool,
    epochs: float,
    half: str = "bf16",
    share: float | None = None,
    tensor_parallel: int = 1,
    step_s: float | None = None,
    frozen: str = "",
) -> str:
    """A script that trains the model as the request says; the dataset, and the reward of GRPO, are examples to replace.

    `half` is the 16-bit type that the card multiplies in: "fp16" before NVIDIA's Ampere. `share` is that of a colocated vLLM,
    `tensor_parallel` how many GPUs of its own it splits each layer over. `frozen` is the expression of modules that do not train.
    A checkpoint is saved every half hour where `step_s` is known, else after each tenth of the run.
    """
    recipe = find_recipe(request) or load_recipes()[request.objective]
    trains_adapter = request.method != "full"
    whole = request.precision == "fp32" or (request.precision == "mixed" and not trains_adapter)
    traits = OBJECTIVE_TRAITS[request.objective]
    negatives = request.pairs.negatives if traits.negatives else 0
    scores = traits.negatives and traits.loss == "score"
    wanted = _wanted_columns(negatives, scores=scores)
    settings: dict[str, Any] = {
        "output_dir": "out",
        **_length_settings(request, share),
        "per_device_train_batch_size": request.micro_batch * (1 + negatives if scores else 1),
        "gradient_accumulation_steps": request.accumulation,
        "gradient_checkpointing": request.checkpointing != "none",
        "optim": _OPTIMIZERS.get(request.optimizer, "adamw_torch_fused"),
        "num_train_epochs": int(epochs) if epochs == int(epochs) else epochs,
        "bf16": half == "bf16" and request.precision != "fp32",
        "fp16": half == "fp16" and request.precision != "fp32",
    }
    settings |= {"activation_offloading": request.checkpointing == "offloaded"} if traits.offloads and not request.reads_sound else {}
    reentrant = request.method == "lora-8bit" and request.checkpointing != "none"
    if reentrant or request.reads_sound:
        settings["gradient_checkpointing_kwargs"] = {"use_reentrant": reentrant}
    settings |= {"packing": request.packing, "loss_type": "chunked_nll" if fused else "nll"} if recipe.packs else {}
    modules = request.target_modules
    adapter: dict[str, Any] = {
        "r": request.rank,
        "lora_alpha": 2 * request.rank,
        "target_modules": modules[0] if len(modules) == 1 and "-" in modules[0] else modules,
    }
    adapter |= {"task_type": recipe.task_type} if recipe.task_type else {}
    adapter |= {"exclude_modules": Code("FROZEN")} if frozen else {}
    adapter |= {"use_dora": True} if request.method == "dora" else {}
    adapter |= {"modules_to_save": ["classifier", "score"]} if scores else {}  # the head, which starts from random weights
    return render(
        recipe.template,
        model=model,
        dataset=find_negatives(negatives) if negatives else recipe.dataset,
        length=request.sequence_tokens,
        negatives=negatives,
        parts=request.pairs.cached_batch if traits.in_parts else 0,
        scores=scores,
        wanted=wanted,
        wanted_code=Code(wanted),
        frozen=frozen,
        reloads=request.media.images > 0 and not trains_adapter and request.devices == 1,
        reentrant=reentrant,
        whole_adapters=request.precision == "mixed",
        accelerate=accelerate_config(request, half=half),
        config=CONFIG,
        save_steps=max(1, round(_SAVED_EVERY_S / step_s)) if step_s else _SAVED_SHARE,
        devices=request.devices,
        recipe=recipe,
        requirements=[_requirement(name, request) for name in list_packages(request)],
        samples=request.samples,
        server=server_words(model, request, tensor_parallel) if request.samples and request.rollout.traits.own_devices else None,
        serving_devices=request.rollout.rollout_devices,
        adapter=adapter if trains_adapter else None,
        quantized=request.quantizes,
        eight_bits=request.method == "lora-8bit",
        stores_in=TORCH_DTYPES[half] if request.shards_weights else None,
        double_quantization=request.double_quantization,
        packing_note=recipe.packs and request.packing and request.attention != "flash",
        half=TORCH_DTYPES[half],
        dtype=TORCH_DTYPES["fp32" if whole else half],
        kernel=_KERNELS[request.attention],
        settings=settings,
        learning_rate=recipe.learning_rate_adapter if trains_adapter else recipe.learning_rate_full,
        source=Code(" ".join(recipe.source.split())),
    )


def accelerate_config(request: TrainingRequest, *, half: str) -> str | None:
    """The configuration of `accelerate launch` for the devices of the request; None for one device."""
    traits = SHARDING_TRAITS[request.sharding]
    if not traits.launcher:
        return None
    return render(
        "accelerate.yaml.j2",
        traits=traits,
        version=1 if traits.keeps_input_gradients else 2,
        mixed_precision="no" if request.precision == "fp32" else half,
        devices=request.devices,
        machines=request.machines,
        accumulation=request.accumulation,
    )


def launch_command() -> str:
    """The line that starts the script on a machine; `uv` installs the packages of its head."""
    return str(write_shell(["uv", "run", SCRIPT]))


def start_command(place: TrainingOption) -> str:
    """The line that starts the script on this hardware."""
    return job_command(place.hardware, limit_hours(place)) if TRAITS[place.platform].runs_jobs else launch_command()


def is_shared_by_script(request: TrainingRequest, sharding: Sharding) -> bool:
    """Whether the script of a request trains with this sharding: TRL's with each, others with their own and with copies."""
    recipe = find_recipe(request)
    return recipe is not None and (recipe.module.startswith("trl") or sharding in {"none", "ddp", recipe.sharding})
