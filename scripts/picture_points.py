"""Published runs of training pictures and clips as questions to the law: memory and seconds from the folder of facts.

SimpleTuner's sweep states the size of its validation picture; the size that trains is that of the example's data set. `EXAMPLES` has it, as
read in simpletuner/examples at bc8e6ab77 (2026-08-22): data_backend_config, train_batch_size, lora_rank. Clips of 480 pixels are those of
a data set of 720 x 480, cut by SimpleTuner's rule (helpers/multiaspect/image.py) to sides that 32 (Wan) or 64 divide. Which blocks an
interval means is read in each family's transformer.

Left out are rows that move attention's activations to the host, and families whose denoiser does not run here (HiDream, LTX-2). Also left
out are other adapters than LoRA: PixArt, Sana, SDXL, Cosmos 2, OmniGen and Kandinsky 5 Image were trained with LoKr. ERNIE is left out
because its source does not say which weights are in host memory. Left out, too, are checkpointed rows whose peak is that of the row without
checkpoints: regional compilation kept all activations there (Krea 2, SanaVideo).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lib.model import bundled
from lib.model.diffusion import resolve_pipeline
from lib.model.spec import ModelSpec, Origin
from lib.request.pictures import BasePrecision, PictureTrainingRequest
from lib.units import GIB
from lib.workload import Optimizer, TrainingRequest

ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
_JOINT = (*ATTENTION, "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")
_KANDINSKY = ("to_query", "to_key", "to_value")
_SDXL, _FLUX, _COGVIDEO = "stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev", "THUDM/CogVideoX-2b"
_SD3 = "stabilityai/stable-diffusion-3-medium-diffusers"


class Example(NamedTuple):
    """An example of SimpleTuner: the model, and the shape that trains."""

    model: str
    width: int
    height: int
    frames: int = 0
    batch: int = 1
    rank: int = 16
    segments: Literal["segments", "every", "ignored"] = "segments"
    """Meaning of an interval: blocks that are recomputed together; one block in so many; or nothing."""
    offload: bool = False
    targets: tuple[str, ...] = ATTENTION
    quantized: bool = True
    """Whether a format of few bits reaches the blocks: SimpleTuner skips quantization where RamTorch holds the weights."""


EXAMPLES: dict[str, Example] = {
    "AuraFlow": Example("fal/AuraFlow-v0.3", 512, 512, rank=8, segments="every"),
    "Chroma": Example("lodestones/Chroma1-Base", 512, 512, segments="every"),
    "HunyuanVideo": Example("tencent/HunyuanVideo-1.5", 640, 448, 49, batch=2, targets=_JOINT),
    "Kandinsky 5 Video": Example("kandinskylab/Kandinsky-5.0-T2V-Lite", 640, 448, 49, batch=2, targets=_KANDINSKY, segments="every"),
    "Krea 2": Example("krea/Krea-2-Raw", 512, 512, rank=64),
    "Kolors": Example("Kwai-Kolors/Kolors-diffusers", 512, 512, segments="ignored"),
    "LongCat Image": Example("meituan-longcat/LongCat-Image", 512, 512, segments="every"),
    "LTXVideo 0.9.5": Example("Lightricks/LTX-Video-0.9.5", 704, 480, 41),
    "Lumina2": Example("Alpha-VLLM/Lumina-Image-2.0", 512, 512, batch=2),
    "Qwen Image": Example("Qwen/Qwen-Image", 1024, 1024, rank=8, segments="ignored"),
    "SanaVideo": Example("Efficient-Large-Model/SANA-Video_2B_480p_diffusers", 640, 448, 49),
    "SD 1.x": Example("stable-diffusion-v1-5/stable-diffusion-v1-5", 512, 512, segments="ignored"),
    "SD3": Example("stabilityai/stable-diffusion-3.5-medium", 1024, 1024, batch=3, rank=128),
    "Wan 2.1 T2V 1.3B": Example("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 576, 384, 81, offload=True, quantized=False),
    "Wan 2.1 T2V 14B": Example("Wan-AI/Wan2.1-T2V-14B-Diffusers", 576, 384, 81, offload=True, quantized=False),
    "Z-Image Turbo": Example("Tongyi-MAI/Z-Image-Turbo", 512, 512, rank=64),
}


def _vae(model: str) -> dict[str, Any]:
    return dict((bundled.find_config(model) or {})["vae"])


@cache
def _configs() -> dict[str, dict[str, dict[str, Any]]]:
    """Pipelines that are not bundled: the denoiser by the defaults of its class in diffusers 0.42.1, with the stated settings."""

    def of(name: str, vae: dict[str, Any], **settings: Any) -> dict[str, dict[str, Any]]:
        return {"transformer": {"_class_name": name, **settings}, "vae": vae}

    cogvideo = dict((bundled.find_config(_COGVIDEO) or {})["transformer"])
    sd3 = dict((bundled.find_config(_SD3) or {})["transformer"])
    kandinsky = of(
        "Kandinsky5Transformer3DModel", {"_class_name": "AutoencoderKLHunyuanVideo"},
        in_visual_dim=16, out_visual_dim=16, model_dim=1792, ff_dim=7168, visual_cond=True,
    )  # fmt: skip
    return {
        "kandinskylab/Kandinsky-5.0-T2V-Lite": kandinsky,
        "krea/Krea-2-Raw": of("Krea2Transformer2DModel", _vae("Qwen/Qwen-Image")),
        "meituan-longcat/LongCat-Image": of("LongCatImageTransformer2DModel", _vae(_FLUX), num_layers=10, num_single_layers=20),
        "tencent/HunyuanVideo-1.5": of("HunyuanVideo15Transformer3DModel", {"_class_name": "AutoencoderKLHunyuanVideo15"}),
        "Efficient-Large-Model/SANA-Video_2B_480p_diffusers": of("SanaVideoTransformer3DModel", _vae("Wan-AI/Wan2.1-T2V-1.3B-Diffusers")),
        "stabilityai/stable-diffusion-3.5-medium": {
            "transformer": sd3 | {"dual_attention_layers": list(range(13)), "qk_norm": "rms_norm", "pos_embed_max_size": 384},
            "vae": _vae(_SD3),
        },
        "fal/AuraFlow-v0.3": of("AuraFlowTransformer2DModel", _vae(_SDXL)),
        "lodestones/Chroma1-Base": of("ChromaTransformer2DModel", _vae(_FLUX)),
        "Lightricks/LTX-Video-0.9.5": of("LTXVideoTransformer3DModel", {"_class_name": "AutoencoderKLLTXVideo"}),
        "Alpha-VLLM/Lumina-Image-2.0": of("Lumina2Transformer2DModel", _vae(_FLUX), cap_feat_dim=2304),
        "THUDM/CogVideoX-5b": {
            "transformer": cogvideo | {"num_attention_heads": 48, "num_layers": 42, "use_rotary_positional_embeddings": True},
            "vae": _vae(_COGVIDEO),
        },
    }


@cache
def find_model(model_id: str) -> ModelSpec | None:
    """The bundled pipeline, else one of class defaults; None if there is neither."""
    spec = bundled.find_spec(model_id)
    if spec is None and model_id in _configs():
        return resolve_pipeline(_configs()[model_id], Origin(id=model_id), limit_s=None)
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRun:
    """A published run of training a denoiser: its request, its peak, and its seconds a step (0: not stated)."""

    source: str
    family: str
    variant: str
    card: str
    spec: ModelSpec
    request: TrainingRequest
    peak_bytes: int
    reserved: bool
    """Whether the peak is the reserved bytes; else those of tensors."""
    step_s: float = 0.0


_BASES: dict[str, BasePrecision] = {
    "bf16": "bf16", "int8-sdnq-hadamard": "int8", "fp8-torchao": "fp8-dynamic", "fp8wo-torchao": "fp8",
}  # fmt: skip
_SCHEMES = {"none": (0, 0), "layer": (1, 0), "interval2": (2, 0), "seg2-stride4": (2, 4)}


def _sweep_request(example: Example, precision: str, mode: str) -> TrainingRequest | None:
    base = _BASES.get(precision) if example.quantized else "bf16"
    if base is None or mode not in _SCHEMES:
        return None
    blocks, every = _SCHEMES[mode]
    if blocks > 1 and example.segments == "every":
        blocks, every = 1, 2
    if blocks > 1 and example.segments == "ignored":
        blocks, every = 1, 0
    return TrainingRequest(
        rank=example.rank, target_modules=example.targets, micro_batch=example.batch,
        checkpointing="layers" if blocks else "none",
        pictures=PictureTrainingRequest(
            width=example.width, height=example.height, frames=example.frames, base_precision=base, checkpoint_blocks=max(1, blocks),
            checkpoint_every=every, base_offload=example.offload,
        ),
    )  # fmt: skip


_ROW = re.compile(r"\| (\S+) \| (\S+) \| (.+?) \| (.+?) \|")
_CELL = re.compile(r"([\d.]+) / ([\d.]+)")


def read_sweep(page: str) -> Iterator[tuple[str, str, str, str, float, float]]:
    """The measured cells of SimpleTuner's page: family, precision, mode, card, GiB, seconds a step."""
    family = ""
    for line in page.split("\n"):
        if line.startswith("### "):
            family = line.removeprefix("### ").strip()
        row = _ROW.match(line)
        for card, cell in zip(("H100-SXM-80GB", "L40S"), row.groups()[2:] if row and family else (), strict=False):
            if row and (numbers := _CELL.match(cell)):
                yield family, row[1], row[2], card, float(numbers[2]), float(numbers[1])


def sweep_runs(facts: Path, page: Path | None) -> Iterator[PictureRun]:
    """The runs of SimpleTuner's sweep: those of the facts, and with its page at hand all of them."""
    points = json.loads((facts / "training_memory.json").read_text(encoding="utf-8"))["points"]
    cells: list[tuple[str, str, str, str, float, float]] = [
        (p["family"], *p["variant"].split(", "), p["accelerator"], p["value"], (p.get("speed") or {}).get("s_per_step") or 0.0)
        for p in points
        if p["source"] == "simpletuner-sweep"
    ]
    if page is not None:
        cells = list(read_sweep(page.read_text(encoding="utf-8")))
    whole = {(family, precision, card): gib for family, precision, mode, card, gib, _ in cells if mode == "none"}
    for family, precision, mode, card, gib, seconds in cells:
        if mode != "none" and whole.get((family, precision, card)) == gib:
            continue
        example = EXAMPLES.get(family)
        request = _sweep_request(example, precision, mode) if example else None
        spec = find_model(example.model) if example and request else None
        if spec is not None and request is not None:
            yield PictureRun(
                source="simpletuner-sweep", family=family, variant=f"{precision}, {mode}", card=card, spec=spec, request=request,
                peak_bytes=round(gib * GIB), reserved=False, step_s=seconds,
            )  # fmt: skip


_OPTIMIZERS: dict[str, Optimizer] = {"AdamW": "adamw_foreach", "AdamW (8-bit bitsandbytes)": "adamw_8bit", "adamw": "adamw_foreach"}


def video_runs(facts: Path) -> Iterator[PictureRun]:
    """CogVideoX by cogvideox-factory on one A100, with AdamW: reserved bytes."""
    for p in json.loads((facts / "training_memory.json").read_text(encoding="utf-8"))["points"]:
        if p["source"] != "cogvideox-factory" or p["reliability"] == "low":
            continue
        optimizer, spec = _OPTIMIZERS.get(p["optimizer"]), find_model(p["model_hf_id"])
        if spec is not None and optimizer is not None:
            height, width = map(int, p["resolution"].split("x"))
            request = TrainingRequest(
                method=p["method"], rank=p.get("lora_rank") or 16, target_modules=ATTENTION, optimizer=optimizer, precision="bf16",
                micro_batch=p["batch"], pictures=PictureTrainingRequest(width=width, height=height, frames=p["frames"]),
            )  # fmt: skip
            yield PictureRun(
                source=p["source"], family="CogVideoX", variant=f"{p['method']}, {p['variant']}", card=p["accelerator"], spec=spec,
                request=request, peak_bytes=p["bytes"], reserved=True,
            )  # fmt: skip


def peft_runs(facts: Path) -> Iterator[PictureRun]:
    """FLUX.2-klein by peft's comparison of methods: LoRA and full, the 99 % quantile of reserved bytes."""
    for p in json.loads((facts / "bench_memory.json").read_text(encoding="utf-8"))["points"]:
        if p["source"] != "peft-imagegen-raw" or p["method"] not in {"lora", "full"} or p["memory_kind"] == "allocated_after_step_avg":
            continue
        spec = find_model("black-forest-labs/FLUX.2-klein-4B")
        assert spec is not None  # noqa: S101 it is bundled
        request = TrainingRequest(
            method=p["method"], rank=p.get("lora_rank") or 16, precision="bf16" if p["method"] == "full" else "mixed",
            optimizer="adamw_foreach", micro_batch=p["batch"], target_modules=(*ATTENTION, "to_qkv_mlp_proj"),
            pictures=PictureTrainingRequest(width=p["resolution"], height=p["resolution"]),
        )  # fmt: skip
        yield PictureRun(
            source=p["source"], family="FLUX.2", variant=f"{p['method']}, {p['variant']}, {p['memory_kind']}",
            card=p["accelerator"], spec=spec, request=request, peak_bytes=round(p["value"] * 1e9), reserved=True,
        )  # fmt: skip
