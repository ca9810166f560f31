"""The script that trains a pipeline that makes pictures or clips, or adapters of it, with diffusers and peft.

    picture_script("black-forest-labs/FLUX.1-dev", TrainingRequest(method="lora"), OutputSize(1024, 1024, 0))

Learning rates and the dataset of pictures are those of diffusers' own examples; for clips there is no example, so that the visitor names a
folder. Latents and embedded prompts are computed before the training. It covers pipelines whose latents are scaled by one number or by mean
and deviation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lib.errors import BadArgument
from lib.precision import TORCH_DTYPES
from lib.present.releases import load_versions
from lib.present.templates import Code, render
from lib.workload import ALL_LINEAR

if TYPE_CHECKING:
    from lib.memory.pipeline import OutputSize
    from lib.workload import TrainingRequest

DATASET = "lambdalabs/naruto-blip-captions"
CLIPS = "clips"
CHECKED = "2026-11-26"
TESTED_WITH = "executed: a Stable Diffusion, a FLUX and a Wan of 2 blocks with random weights, two steps"


class LearningRate(NamedTuple):
    """A learning rate and its source."""

    value: float
    source: str


_RATES = {
    True: LearningRate(1e-5, "diffusers, examples/text_to_image/README.md: train_text_to_image.py"),
    False: LearningRate(1e-4, "diffusers, examples/text_to_image/train_text_to_image_lora.py: default of --learning_rate"),
}
"""By whether the whole denoiser is trained."""


class OptimizerClass(NamedTuple):
    """The class of an optimizer, and its settings besides the learning rate."""

    module: str
    name: str
    settings: dict[str, Any]


OPTIMIZERS = {
    "adamw": OptimizerClass("torch", "AdamW", {"fused": True}),
    "adamw_foreach": OptimizerClass("torch", "AdamW", {"foreach": True}),
    "adamw_8bit": OptimizerClass("bitsandbytes", "AdamW8bit", {}),
    "paged_adamw": OptimizerClass("bitsandbytes", "PagedAdamW", {}),
    "paged_adamw_8bit": OptimizerClass("bitsandbytes", "PagedAdamW8bit", {}),
    "adafactor": OptimizerClass("torch", "Adafactor", {}),
    "sgd": OptimizerClass("torch", "SGD", {}),
}
"""By the optimizer of a request: torch's (Adafactor since 2.5) and those of bitsandbytes 0.50."""
_WRITTEN = {
    "method": ("full", "lora", "qlora"),
    "base_precision": ("bf16", "nf4"),
    "cached": ("all",),
    "checkpoint_every": (0,),
    "checkpoint_blocks": (1,),
    "base_offload": (False,),
}
"""Values for which a script is written, by argument."""


def is_quantized(request: TrainingRequest) -> bool:
    """Whether the frozen base is held in 4 bits."""
    return request.method == "qlora" or request.pictures.base_precision == "nf4"


def learning_rate(request: TrainingRequest) -> LearningRate:
    """The rate that the script starts with."""
    return _RATES[request.method == "full"]


def find_obstacle(request: TrainingRequest) -> BadArgument | None:
    """Why no script is written for this training; None if one is."""
    for name, accepted in _WRITTEN.items():
        value = getattr(request, name) if hasattr(request, name) else getattr(request.pictures, name)
        if value not in accepted:
            return BadArgument(name, value, f"{', '.join(map(str, accepted))}, for which a script is written")
    if request.checkpointing == "offloaded":
        return BadArgument("checkpointing", request.checkpointing, "none or layers, for which a script is written")
    return None


def picture_packages(request: TrainingRequest, *, clips: bool) -> tuple[str, ...]:
    """Requirements of the script."""
    names = ["torch", "diffusers", "transformers", "accelerate"]
    names += ["peft"] if request.method != "full" else []
    names += ["imageio", "imageio-ffmpeg"] if clips else ["datasets"]
    names += ["bitsandbytes"] if is_quantized(request) or OPTIMIZERS[request.optimizer].module == "bitsandbytes" else []
    return tuple(names)


def picture_script(
    model: str, request: TrainingRequest, size: OutputSize, *, epochs: float = 1, half: str = "bf16", offloads: bool = True
) -> str:
    """A script that trains the denoiser or its adapters as the request says; the dataset is an example to replace.

    `half` is the 16-bit type that the card multiplies in. With `offloads`, text encoders and VAE come to the card one after the other while
    their results are computed.
    """
    modules: str | tuple[str, ...] = ALL_LINEAR if ALL_LINEAR in request.target_modules else tuple(request.target_modules)
    versions, rate = load_versions(), learning_rate(request)
    return render(
        "train_pictures.py.j2",
        model=model,
        dataset=CLIPS if size.frames else DATASET,
        width=size.width,
        height=size.height,
        frames=size.frames,
        full=request.method == "full",
        batch=request.micro_batch,
        accumulation=request.accumulation,
        epochs=int(epochs) if epochs == int(epochs) else epochs,
        learning_rate=rate.value,
        source=Code(rate.source),
        half=TORCH_DTYPES["fp32" if request.precision == "fp32" else half],
        requirements=[versions.requirement(name) for name in picture_packages(request, clips=bool(size.frames))],
        quantized=is_quantized(request),
        whole_adapters=request.precision == "mixed",
        checkpointing=request.checkpointing != "none",
        rank=request.rank,
        modules=modules,
        optimizer=OPTIMIZERS[request.optimizer],
        offloads=offloads,
    )
