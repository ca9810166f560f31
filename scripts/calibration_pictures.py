"""Published times of diffusion pipelines, and the constants of `lib.laws.pipeline` fitted to them.

The rows of four files: `measured_throughput.json`, `bench_throughput.json`, `field_points.json` (ML.ENERGY) and `offload_points.json`.
Left out: low reliability, more than one card, caches of blocks between steps, ControlNets and pipelines whose FLOP are not known, stacks
before cuDNN 8.7, and one of two figures of the same run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lib.laws.forward_pass import Array
from lib.memory.pipeline import picture_work, resolve_size
from lib.model.bundled import find_spec
from lib.speed.diffusion import PictureLoad, picture_class, predict_seconds
from lib.speed.hardware import card_class, find_peak
from lib.workload import PipelineRequest
from scripts.calibration_fit import minimise
from scripts.calibration_points import CARDS

WAY = {"maxdiffusion": "chip", "diffusers-flax": "chip", "neuronx": "chip", "ipex": "host"}
COMPILED = frozenset({"tensorrt", "tensorrt 9.3", "aitemplate", "stable-fast", "onediff-nexfort", "comfyui + onediff (nexfort)"})
PLAIN = frozenset({"comfyui (pytorch)"})
"""Rows of a table of compilers that are its uncompiled baseline."""
_BEFORE_TORCH_2 = frozenset({"2021", "2022"})  # `scaled_dot_product_attention` came in March 2023; diffusers held the scores until then
WIDTH = {"way": 0.7, "units": 0.5, "class": 1.0, "traffic": 0.7, "class_traffic": 1.0}
RIDGE = 0.25
TERA = 1e12
OF_ONE_KIND = 4
"""A model on a card from one source counts as much as this many rows."""
SDXL, SD_15 = "stabilityai/stable-diffusion-xl-base-1.0", "stable-diffusion-v1-5/stable-diffusion-v1-5"
SD_3, FLUX = "stabilityai/stable-diffusion-3-medium-diffusers", "black-forest-labs/FLUX.1-dev"
SAME_WORK = {
    "CompVis/stable-diffusion-v1-4": SD_15, "zai-org/CogVideoX-2b": "THUDM/CogVideoX-2b", "stabilityai/stable-diffusion-3-medium": SD_3,
}  # fmt: skip
"""The same classes and sizes."""
BENCH_MODELS = {
    "sdxl": SDXL,
    "sdxl-1.0-base": SDXL,
    "sd1.5": SD_15,
    "flux.1-dev": FLUX,
    "sd3.5-large": "stabilityai/stable-diffusion-3.5-large",
}
EMBEDDED = frozenset({FLUX, "tencent/HunyuanVideo"})
"""Guidance is an input of the denoiser: one evaluation a step."""


class Work(NamedTuple):
    """FLOP of an evaluation for one picture and of attention in it, bytes of products per other FLOP, FLOP of the decoder."""

    flop: float
    attention_flop: float
    product_bytes_per_flop: float
    decoder_flop: float


NOT_BUNDLED = {
    "stabilityai/stable-diffusion-3.5-large": Work(31.12e12, 7.25e12, 6.2e-4, 10.47e12),
    "stabilityai/stable-diffusion-3.5-medium": Work(11.25e12, 4.2e12, 1.025e-3, 10.47e12),
    "THUDM/CogVideoX-5b": Work(332.2e12, 163e12, 4.89e-4, 315e12),
    "tencent/HunyuanVideo": Work(12069e12, 10451e12, 4.57e-4, 2900e12),
    "Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers": Work(14.37e12, 4.1e12, 1.155e-3, 10e12),
    "Efficient-Large-Model/SANA1.5_1.6B_1024px_diffusers": Work(2.967e12, 0.06e12, 9.04e-4, 8.37e12),
}
"""At the published size, with the classes of diffusers 0.42.1 at their published configuration on the meta device, as `lib.model.diffusion`
counts; HunyuanVideo's decoder with the overlaps of its tiles. Checked 2026-11-25."""


def _sides(resolution: object) -> tuple[int, int, int]:
    """Height, width and frames (0: a picture)."""
    sides = [int(side) for side in re.findall(r"\d+", str(resolution))]
    return (sides[0], sides[-1] if len(sides) < 3 else sides[1], sides[2] if len(sides) > 2 else 0)  # noqa: PLR2004 height, width, frames


def work_of(model: str, height: int, width: int, frames: int) -> Work | None:
    """Memory or time of a picture or clip: as the pipeline's run gives it, else as above."""
    spec = find_spec(model)
    if spec is None or spec.pipeline is None:
        return NOT_BUNDLED.get(model)
    request = PipelineRequest(width=width, height=height, frames=frames)
    work = picture_work(spec, resolve_size(spec, request), request)
    return Work(work.flop, work.attention_flop, work.product_bytes_per_flop, work.decoder_flop)


def _published_work(of: Mapping[str, Any], resolution: str) -> Work:
    """FLOP as published, of a pipeline with the shapes of SD 1.5."""
    flop = of["tflop_eval"][resolution] * TERA
    return Work(flop, 0.15 * flop, 1.7e-3, of["vae_tflop"][resolution] * TERA)


def _row(work: Work, p: Mapping[str, Any], *, way: str, units: str, evaluations: float, batch: float, seconds: float) -> dict[str, Any]:
    card = CARDS[p["accelerator"]]
    half = "bf16" if card.supports("bf16") else "fp16"
    multiplied = half if units == "bf16" else units
    return work._asdict() | {
        "way": way, "units": units, "group": picture_class(card), "memory": card_class(card),
        "evaluations": evaluations, "batch": batch, "seconds": seconds,
        "peak": find_peak(card, multiplied), "attention_peak": find_peak(card, half if units in {"fp8", "int8", "fp4"} else multiplied),
        "bandwidth": card.bandwidth, "card": card.id,
    }  # fmt: skip


def _units(name: str) -> str:
    return "bf16" if name in {"fp16", "bf16"} else name


def _way(p: Mapping[str, Any]) -> str:
    if CARDS[p["accelerator"]].kind == "cpu":
        return "host" if p["engine"] != "ipex" else WAY["ipex"]
    if p["engine"] == "diffusers" and str(p.get("engine_version"))[:4] in _BEFORE_TORCH_2:
        return "unfused"
    compiled = p["engine"] in COMPILED or (p.get("compiled") and p["engine"] not in PLAIN)
    return WAY.get(p["engine"], "compiled" if compiled else "eager")


def _measured(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for p in content["points"]:
        m = content["models"].get(p["model"], {})
        if p["task"] not in {"image", "video"} or p["reliability"] not in {"high", "medium"} or not p.get("steps"):
            continue
        if p["resolution"] not in m["tflop_eval"]:
            continue
        model = SAME_WORK.get(m["hf_id"], m["hf_id"])
        work = work_of(model, *_sides(p["resolution"])) or _published_work(m, p["resolution"])
        batch = float(p["batch_or_concurrency"] or 1)
        took = p["metric"] == "seconds_per_batch"
        seconds = p["value"] if took else batch * p["n_devices"] / p["value"]
        if took and "guidance" not in p["parallelism"]:
            batch /= p["n_devices"]
        evaluations = p["steps"] * p["evals_per_step"]
        row = _row(work, p, way=_way(p), units=_units(p["compute_dtype"]), evaluations=evaluations, batch=batch, seconds=seconds)
        yield row | {"model": model, "source": "measured"}


def _benchmarks(points: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    whole = {(p["source"], p["model"], p["accelerator"], p["engine"]) for p in points if p["metric"] == "seconds_per_batch"}
    for p in points:
        model = BENCH_MODELS.get(p["model"])
        if model is None or p.get("task") != "image" or p["reliability"] == "low" or p["source"] == "massed-compute":
            continue
        work = work_of(model, *_sides(p["resolution"]))
        assert work is not None  # noqa: S101 every model of the list is known
        steps, seconds = p.get("steps") or 0, p["value"]
        if p["metric"] == "denoise_it_per_s":  # of the denoiser alone
            if (p["source"], p["model"], p["accelerator"], p["engine"]) in whole:
                continue
            work, steps, seconds = work._replace(decoder_flop=0.0), 1, 1 / p["value"]
        evaluations = steps * p["evals_per_step"]
        batch = p["batch_or_concurrency"]
        yield _row(work, p, way=_way(p), units=_units(p["quant"]), evaluations=evaluations, batch=batch, seconds=seconds) | {
            "model": model, "source": p["source"],
        }  # fmt: skip


def _field(points: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for p in points:
        if p["source"] != "ml-energy" or p["task"] not in {"image", "video"} or p["n_devices"] != 1:
            continue
        model = SAME_WORK.get(p["model_hf_id"], p["model_hf_id"])
        work = work_of(model, p["height"], p["width"], p.get("frames") or 0)
        if work is not None:
            evaluations, batch = p["steps"] * (1 if model in EMBEDDED else 2), p["batch_or_concurrency"]
            yield _row(work, p, way="eager", units="bf16", evaluations=evaluations, batch=batch, seconds=p["value"]) | {
                "model": model, "source": p["source"],
            }  # fmt: skip


ENGINES = COMPILED | PLAIN | {"diffusers", "comfyui"}


def _offload(points: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for p in points:
        stated = p["kind"] == "picture" and p["reliability"] != "low" and p.get("steps") and p.get("evals_per_step")
        plain = p["n_devices"] == 1 and p["metric"] == "seconds_per_batch" and "cache" not in str(p.get("optimization"))
        if not (stated and plain and p["engine"] in ENGINES):
            continue
        model = SAME_WORK.get(p["model_hf_id"], p["model_hf_id"])
        work = work_of(model, *_sides(p["resolution"]))
        assert work is not None  # noqa: S101 every model of these rows is known
        units = "fp8" if p["quant"] == "fp8" and p.get("compiled") else "bf16"
        evaluations = p["steps"] * p["evals_per_step"]
        yield _row(work, p, way=_way(p), units=units, evaluations=evaluations, batch=p["batch"], seconds=p["value"]) | {
            "model": model, "source": p["source"],
        }  # fmt: skip


def read(facts: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The points, and the work per picture of pipelines that are not bundled, by Hub id, with the commonest number of steps."""

    def load(name: str) -> dict[str, Any]:
        return dict(json.loads((facts / name).read_text(encoding="utf-8")))

    measured = load("measured_throughput.json")
    raw = [*load("bench_throughput.json")["points"], *load("more_throughput.json")["points"]]
    points = [
        *_measured(measured),
        *_benchmarks([p for p in raw if p.get("task") in {"image", "video"}]),
        *_field(load("field_points.json")["points"]),
        *_offload(load("offload_points.json")["points"]),
    ]
    table: dict[str, Any] = {}
    for m in measured["models"].values():
        if "tflop_eval" not in m or find_spec(SAME_WORK.get(m["hf_id"], m["hf_id"])) is not None:
            continue
        rows = [p for p in measured["points"] if measured["models"].get(p["model"]) is m and p.get("steps")]
        (resolution, steps, each), _ = Counter((p["resolution"], p["steps"], p["evals_per_step"]) for p in rows).most_common(1)[0]
        work = work_of(m["hf_id"], *_sides(resolution)) or _published_work(m, resolution)
        shape = {"resolution": resolution, "steps": steps, "evaluations_per_step": each, "sequential": False}
        table[m["hf_id"]] = shape | work._asdict()
    return points, table


SCALARS = {"base": 0.5, "attention": -0.5, "host_s": float(np.log(0.015)), "compiled_host_s": float(np.log(0.003))}
TRAFFIC = {"eager": float(np.log(10)), "compiled": float(np.log(4))}
_TRAFFIC_OF = {"eager": ("eager", "unfused"), "compiled": ("compiled", "chip")}
Keys = list[tuple[str, str]]


def _constants(x: Array, keys: Keys) -> dict[str, Any]:
    values = [float(value) for value in x]
    constants: dict[str, Any] = dict(zip(SCALARS, values, strict=False))
    families: dict[str, dict[str, float]] = {family: {} for family in WIDTH}
    for (family, name), value in zip(keys, values[len(SCALARS) :], strict=True):
        for each in _TRAFFIC_OF[name] if family == "traffic" else (name,):
            families[family][each] = value
    return constants | families


def errors(fit: Mapping[str, Any], points: Iterable[Mapping[str, Any]]) -> Array:
    """ln(predicted / measured)."""
    rows = [dict(p) for p in points]
    return np.asarray(np.log(predict_seconds(PictureLoad.of_rows(rows), fit) / np.array([p["seconds"] for p in rows])))


def _keys(points: list[dict[str, Any]]) -> Keys:
    names = {"way": "way", "units": "units", "class": "group", "class_traffic": "memory"}
    keys = [(family, name) for family, column in names.items() for name in sorted({p[column] for p in points})]
    return [*(("traffic", name) for name in TRAFFIC), *(key for key in keys if key not in {("way", "eager"), ("units", "bf16")})]


def fit(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Constants by robust least squares with priors; few points, so offsets stay small."""
    keys = _keys(points)
    start = np.array([*SCALARS.values(), *(TRAFFIC[name] if family == "traffic" else 0.0 for family, name in keys)])
    pull = np.array([*(RIDGE for _ in SCALARS), *(RIDGE / WIDTH[family] for family, _ in keys)])
    load, measured = PictureLoad.of_rows(points), np.log([p["seconds"] for p in points])
    alike = Counter((p["model"], p["card"], p["source"]) for p in points)
    weight = np.array([min(1.0, (OF_ONE_KIND / alike[p["model"], p["card"], p["source"]]) ** 0.5) for p in points])
    x, _, _ = minimise(lambda x: (np.log(predict_seconds(load, _constants(x, keys))) - measured) * weight, start, pull)
    return _constants(np.round(x, 5), keys)


def left_out(points: list[dict[str, Any]], by: str = "model") -> Array:
    """Errors of each model (or card) under constants fitted without it."""
    errors_left_out = np.zeros(len(points))
    names = np.array([p[by] for p in points])
    for name in np.unique(names):
        rest = fit([p for p in points if p[by] != name])
        errors_left_out[names == name] = errors(rest, [p for p in points if p[by] == name])
    return errors_left_out
