"""Published times of diffusion pipelines: the work table, and the share of the peak by how a pipeline runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lib.laws.forward_pass import Array
from lib.memory.pipeline import picture_work, resolve_size
from lib.model.bundled import find_spec
from lib.speed.diffusion import predict_seconds
from lib.speed.hardware import card_class, find_peak
from lib.workload import PipelineRequest
from scripts.calibration_fit import minimise
from scripts.calibration_points import CARDS

WAY = {"maxdiffusion": "chip", "diffusers-flax": "chip", "neuronx": "chip", "ipex": "host"}
COMPILED = frozenset({"tensorrt", "aitemplate", "stable-fast"})
_BEFORE_TORCH_2 = frozenset({"2021", "2022"})  # `scaled_dot_product_attention` came in March 2023; diffusers held the scores until then
WIDTH = {"way": 0.7, "units": 0.5, "class": 0.4}
RIDGE = 0.25
TERA = 1e12
_SAME_WORK = {"CompVis/stable-diffusion-v1-4": "stable-diffusion-v1-5/stable-diffusion-v1-5"}  # the same classes and sizes


def _way(p: Mapping[str, Any]) -> str:
    if CARDS[p["accelerator"]].kind == "cpu":
        return "host"
    compiled = p["engine"] in COMPILED or p.get("compiled")
    if p["engine"] == "diffusers" and p["engine_version"][:4] in _BEFORE_TORCH_2:
        return "unfused"
    return WAY.get(p["engine"], "compiled" if compiled else "eager")


def _units(p: Mapping[str, Any]) -> str:
    return "bf16" if p["compute_dtype"] in {"fp16", "bf16"} else p["compute_dtype"]


def _flop(of: Mapping[str, Any], resolution: str) -> dict[str, float]:
    """FLOP of an evaluation of the denoiser and of the decoder: as the pipeline's run gives them, else as published."""
    spec = find_spec(_SAME_WORK.get(of["hf_id"], of["hf_id"]))
    if spec is None or spec.pipeline is None:
        return {"flop": of["tflop_eval"][resolution] * TERA, "decoder_flop": of["vae_tflop"][resolution] * TERA}
    sides = [int(side) for side in resolution.split("x")]
    height, width = (sides * 2)[:2] if len(sides) == 1 else sides[:2]
    request = PipelineRequest(width=width, height=height, frames=sides[2] if len(sides) > 2 else 0)  # noqa: PLR2004 height, width, frames
    work = picture_work(spec.pipeline, resolve_size(spec, request), request)
    return {"flop": work.flop, "decoder_flop": work.decoder_flop}


def read(facts: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The points, and the work per picture by Hub id with the commonest number of steps."""
    content = json.loads((facts / "measured_throughput.json").read_text(encoding="utf-8"))
    points: list[dict[str, Any]] = []
    steps: dict[str, Counter[tuple[str, int, int]]] = {}
    for p in content["points"]:
        if p["task"] not in {"image", "video"} or p["reliability"] not in {"high", "medium"} or not p.get("steps"):
            continue
        m = content["models"][p["model"]]
        if p["resolution"] not in m["tflop_eval"]:
            continue
        steps.setdefault(m["hf_id"], Counter())[p["resolution"], p["steps"], p["evals_per_step"]] += 1
        work = {"steps": p["steps"], "evaluations_per_step": p["evals_per_step"], **_flop(m, p["resolution"])}
        batch = float(p["batch_or_concurrency"] or 1)
        time = p["value"] if p["metric"] == "seconds_per_batch" else batch * p["n_devices"] / p["value"]
        if p["metric"] == "seconds_per_batch":
            batch /= p["n_devices"] if "guidance" not in p["parallelism"] else 1
        card = CARDS[p["accelerator"]]
        row = {"work": work, "batch": batch, "seconds": time, "way": _way(p), "units": _units(p), "group": card_class(card)}
        points.append(row | {"peak": find_peak(card, p["compute_dtype"]), "bandwidth": card.bandwidth, "model": p["model"]})
    table = {}
    for name, counts in steps.items():
        (resolution, count, each), _ = counts.most_common(1)[0]
        m = next(m for m in content["models"].values() if m["hf_id"] == name)
        table[name] = {
            "resolution": resolution,
            "steps": count,
            "evaluations_per_step": each,
            **_flop(m, resolution),
        }
    return points, table


def _constants(x: Array, keys: list[tuple[str, str]]) -> dict[str, Any]:
    eager = float(x[3])
    constants: dict[str, Any] = {
        "base": float(x[0]),
        "host_s": float(x[1]),
        "compiled_host_s": float(x[2]),
        "bytes_per_flop": {"eager": eager, "unfused": eager, "compiled": float(x[4])},
        "way": {},
        "units": {},
        "class": {},
    }
    for (family, name), value in zip(keys, x[5:], strict=True):
        constants[family][name] = float(value)
    return constants


def errors(fit: Mapping[str, Any], points: Iterable[Mapping[str, Any]]) -> Array:
    """ln(predicted / measured)."""
    return np.array(
        [
            np.log(
                float(
                    predict_seconds(
                        p["work"],
                        dict(fit),
                        way=p["way"],
                        units=p["units"],
                        group=p["group"],
                        peak_rate=p["peak"],
                        bandwidth=p["bandwidth"],
                        batch=p["batch"],
                    )
                )
                / p["seconds"]
            )
            for p in points
        ]
    )


def fit(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Constants by robust least squares with priors; few points, so offsets stay small."""
    keys = [
        (family, name)
        for family, key in (("way", "way"), ("units", "units"), ("class", "group"))
        for name in sorted({p[key] for p in points})
    ]
    start = np.array([-0.5, np.log(0.015), np.log(0.003), np.log(4e-3), np.log(1e-3), *(0.0 for _ in keys)])
    pull = np.array([RIDGE, RIDGE, RIDGE, RIDGE, RIDGE, *(RIDGE / WIDTH[family] for family, _ in keys)])
    x, _, _ = minimise(lambda x: errors(_constants(x, keys), points), start, pull)
    return _constants(x, keys)


def left_out(points: list[dict[str, Any]]) -> Array:
    """Errors of each model under constants fitted without it."""
    errors_left_out = np.zeros(len(points))
    names = np.array([p["model"] for p in points])
    for name in np.unique(names):
        rest = fit([p for p in points if p["model"] != name])
        errors_left_out[names == name] = errors(rest, [p for p in points if p["model"] == name])
    return errors_left_out
