"""Fit the law of experts in host memory on published runs, and print its errors by model and by host, with models left out.

    python -m scripts.check_experts                       the points in tests/data/expert_points.json, with the app's constants
    python -m scripts.check_experts --left-out            fitted without each shape of model in turn
    python -m scripts.check_experts --facts FACTS --write read the points anew; write them, and lib/data/expert_constants.json
    python -m scripts.check_experts --record              write the errors into docs/accuracy.json

Four constants are fitted by robust least squares with priors (`scripts.calibration_fit.minimise`). Decode rates of a fork (ik_llama.cpp)
are among the runs: a factor of its own for them came out as 1.00. Only runs whose card and host are known are fitted. The others are
predicted with the assumed host of `lib.catalog.host_memory`. A model on a card from one source counts as much as four rows. Models of one
shape (DeepSeek-R1 and -0528) are left out together.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lib.catalog.host_memory import assume_host
from lib.catalog.rows import DATA
from lib.laws.forward_pass import Array
from lib.laws.media_tokens import TOWERS
from lib.memory import count_per_device, estimate_memory
from lib.memory.resolve import UNLIMITED
from lib.model.bundled import find_spec
from lib.request.serving import Serving
from lib.speed.batch import SpeedRequest, resolve_engine_config
from lib.speed.expert_split import ExpertConstants, ExpertLoad, load_expert_constants, pass_s, prompt_s, without_experts
from lib.speed.hardware import find_host_link_rate
from lib.speed.predict import predict_engine_configs
from lib.units import GIB
from lib.workload import MemoryRequest
from scripts.accuracy import record, summarize_errors
from scripts.calibration_fit import minimise
from scripts.expert_points import CATALOG, read, read_memory

POINTS = Path(__file__).resolve().parents[1] / "tests" / "data" / "expert_points.json"
CONSTANTS = DATA / "expert_constants.json"
NAMES = ("host_share", "layer_s", "bus_share", "copy_share")
START = np.array([0.4, np.log(1e-4), 1.4, 0.8])
WIDTH = np.array([1.0, 1.0, 0.5, 0.5])
RIDGE, OF_ONE_KIND, COVERED = 0.17, 4, 85
MEASURED = ("gddr",)
CHECKED = "2026-11-26"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run with what does not depend on the constants: seconds of the card's part, and the experts in the host's memory."""

    point: dict[str, Any]
    card_s: float
    load: ExpertLoad

    @property
    def measured_s(self) -> float:
        """Seconds of a token, or of the prompt."""
        decodes = self.point["metric"] == "decode"
        return float((1 if decodes else self.point["prompt_tokens"]) / self.point["tokens_per_s"])

    @property
    def host_stated(self) -> bool:
        """Whether the run names its processor or the rate of its memory, and its card."""
        return self.point["bandwidth_gb_s"] is not None and not self.point["card_assumed"]

    @property
    def shape(self) -> str:
        """Layers and width of the model, by which models are left out."""
        spec = find_spec(self.point["model"])
        assert spec is not None  # noqa: S101 the points are of bundled models
        return f"{spec.dimensions.layers} × {spec.dimensions.hidden_size}"

    def seconds(self, constants: ExpertConstants) -> float:
        """The law's answer."""
        if self.point["metric"] == "prompt":
            return self.card_s + prompt_s(self.load, self.point["prompt_tokens"], constants, self.point["micro_batch"])
        return self.card_s + pass_s(self.load, 1, constants)


@cache
def _stored(model: str, precision: str, file_gib: float | None, quant: str) -> tuple[float, float]:
    """Bytes of routed experts, and of all else without towers; a file of another size than the law's mix differs in its experts.

    Files that are called dynamic (UD) keep dense tensors in more bits: what they are larger by is in those.
    """
    spec = find_spec(model)
    assert spec is not None  # noqa: S101 the points are of bundled models
    of = count_per_device(spec, MemoryRequest(precision=precision, engine="llama.cpp"))
    experts = float(of.expert_bytes)
    rest = float(sum(size for name, size in of.weights.by_component.items() if name not in TOWERS)) - experts
    more = 0.0 if file_gib is None else file_gib * GIB - experts - rest
    return (experts, rest + more) if more > 0 and quant.startswith("UD") else (experts + more, rest)


def make_case(point: dict[str, Any]) -> Case:
    """The run's card part, by the laws of speed as they are, and its load."""
    spec = find_spec(point["model"])
    assert spec is not None  # noqa: S101 the points are of bundled models
    hardware = CATALOG.resolve_hardware(point["card"])
    hardware = hardware.with_count(point["devices"]) if point["devices"] > 1 else hardware
    silicon = hardware.silicon
    assert silicon is not None  # noqa: S101 every point has a card
    decodes = point["metric"] == "decode"
    request = SpeedRequest(
        precision=point["precision"], engine="llama.cpp", output_tokens=point["output_tokens"],
        prompt_tokens=point["cached_tokens"] + 1 if decodes else point["prompt_tokens"],
    )  # fmt: skip
    unlimited = hardware.model_copy(update={"silicon": silicon.model_copy(update={"memory_usable": UNLIMITED})})
    config = resolve_engine_config((spec, unlimited, request), CATALOG.accelerators)
    stack = config.work.decoder
    assert stack is not None  # noqa: S101 every point decodes
    experts, rest = _stored(point["model"], point["precision"], point["file_gib"], point["quant"] or "")
    law_experts, law_rest = _stored(point["model"], point["precision"], None, "")
    dense = max(0.0, stack.dense_bytes + stack.expert_bytes - law_experts) + rest - law_rest
    share = point["in_host"] / count_expert_layers_of(point["model"])
    table = predict_engine_configs([without_experts(config, share if decodes else 0.0, experts, dense)])
    bandwidth = assume_host().bandwidth if point["bandwidth_gb_s"] is None else point["bandwidth_gb_s"] * 1e9
    load = ExpertLoad(
        host_bytes=experts * share, in_host=point["in_host"], experts=stack.experts, per_token=stack.experts_per_token,
        bandwidth=bandwidth, bus=find_host_link_rate(silicon),
    )  # fmt: skip
    return Case(point=point, card_s=float(table.tpot_s.value[0] if decodes else table.prefill_s[0]), load=load)


@cache
def count_expert_layers_of(model: str) -> int:
    """Layers with routed experts of a bundled model."""
    spec = find_spec(model)
    assert spec is not None  # noqa: S101 the points are of bundled models
    return count_per_device(
        spec, MemoryRequest(engine="llama.cpp", precision="gguf:Q4_K_M", serving=Serving(cpu_moe_layers=spec.dimensions.layers))
    ).expert_layers


def _constants(x: Array) -> ExpertConstants:
    share = 1 / (1 + np.exp(-x[[0, 2, 3]]))
    return ExpertConstants(
        host_share=float(share[0]), layer_s=float(np.exp(x[1])), bus_share=float(share[1]), copy_share=float(share[2]),
        spread_tpot=0.0, spread_ttft=0.0, measured=frozenset(), source="", checked="",
    )  # fmt: skip


def errors(cases: Sequence[Case], constants: ExpertConstants) -> Array:
    """ln(predicted / measured)."""
    return np.log([case.seconds(constants) / case.measured_s for case in cases])


def fit(cases: Sequence[Case]) -> ExpertConstants:
    """The constants that fit the cases best."""
    kinds = [(case.point["model"], case.point["card"], case.point["source"], case.point["metric"]) for case in cases]
    count = Counter(kinds)
    weight = np.array([min(1.0, (OF_ONE_KIND / count[kind]) ** 0.5) for kind in kinds])
    x, _, _ = minimise(lambda x: errors(cases, _constants(x)) * weight, START, RIDGE / WIDTH)
    return _constants(x)


def left_out(cases: Sequence[Case]) -> Array:
    """Errors of each case under constants that were fitted without models of its shape."""
    out = np.zeros(len(cases))
    shapes = np.array([case.shape for case in cases])
    for shape in np.unique(shapes):
        fitted = fit([case for case in cases if case.shape != shape and case.host_stated])
        out[shapes == shape] = errors([case for case in cases if case.shape == shape], fitted)
    return out


def group_rows(cases: Sequence[Case], own: Array, alone: Array) -> list[dict[str, Any]]:
    """The errors by kind of run, then by model and by host; `own` fitted, `alone` with models left out."""

    def names(case: Case) -> Iterable[str]:
        point = case.point
        kind = "decode" if point["metric"] == "decode" else "prompt"
        yield kind
        yield f"{kind}, host stated" if case.host_stated else f"{kind}, {'card' if point['card_assumed'] else 'host'} assumed"
        if case.host_stated:
            yield f"{kind}, host stated, {'fork' if point['fork'] else 'llama.cpp'}"
        yield f"{kind}, model {point['model']}"
        if point["host"]:
            yield f"{kind}, host {point['host']}"

    groups: dict[str, list[int]] = {}
    for at, case in enumerate(cases):
        for name in names(case):
            groups.setdefault(name, []).append(at)
    order = sorted(groups, key=lambda name: (name.count(","), "model" in name, "host " in name, name))
    return [
        {
            "group": name,
            "fitted_median_error": summarize_errors(np.exp(own[groups[name]]))["median_error"],
            **summarize_errors(np.exp(alone[groups[name]])),
        }
        for name in order
    ]


def write_constants(cases: Sequence[Case], constants: ExpertConstants, alone: Array) -> None:
    """The constants, and the half-widths that cover 85 % of the left-out runs."""
    decodes = np.array([case.point["metric"] == "decode" for case in cases])
    wide = {
        name: round(float(np.percentile(np.abs(alone[inside]), COVERED)), 4)
        for name, inside in (("spread_tpot", decodes), ("spread_ttft", ~decodes))
    }
    content = {
        "what": "constants of experts in host memory (lib/laws/expert_split.py)",
        "constants": {name: float(f"{getattr(constants, name):.5g}") for name in NAMES},
        "spread": wide,
        "measured": MEASURED,
        "points": len(cases),
        "source": "fit by scripts/check_experts.py to published runs of llama.cpp and ik_llama.cpp (tests/data/expert_points.json)",
        "checked": CHECKED,
    }
    CONSTANTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCheck:
    """Bytes that a run states for the fullest card or for the host, and the law's."""

    point: dict[str, Any]
    place: str
    measured: int
    estimated: float


def check_memory(points: Iterable[dict[str, Any]]) -> list[MemoryCheck]:
    """Every stated memory compared with the law's; the file's own size corrects the law's mix, as its header does in the app."""
    found = []
    for point in points:
        spec = find_spec(point["model"])
        assert spec is not None  # noqa: S101 the points are of bundled models
        request = MemoryRequest(
            precision=point["precision"], engine="llama.cpp", context_tokens=point["context_tokens"], kv_precision=point["kv_precision"],
            devices=point["devices"], serving=Serving(cpu_moe_layers=point["cpu_moe_layers"]),
        )  # fmt: skip
        estimate = estimate_memory(spec, request)
        of, share = estimate.of, estimate.of.host_expert_bytes / estimate.of.expert_bytes
        experts, rest = _stored(point["model"], point["precision"], point["file_gib"], point["quant"] or "")
        law_experts, law_rest = _stored(point["model"], point["precision"], None, "")
        card = of.device_weights if point["weights_only"] else estimate.per_device_bytes
        host = of.host_weights if point["weights_only"] else estimate.host_bytes
        estimated = {
            "card": card + rest - law_rest + (experts - law_experts) * (1 - share),
            "host": host + (experts - law_experts) * share,
        }
        found += [
            MemoryCheck(point=point, place=place, measured=point[f"{place}_bytes"], estimated=size)
            for place, size in estimated.items()
            if point[f"{place}_bytes"]
        ]
    return found


def memory_rows(checks: Sequence[MemoryCheck]) -> list[dict[str, Any]]:
    """The errors of card and host."""
    places = {place: [one.estimated / one.measured for one in checks if one.place == place] for place in ("card", "host")}
    return [{"group": f"memory of the {place}", **summarize_errors(ratios)} for place, ratios in places.items()]


def main() -> None:
    """Print the errors, and write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=Path)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--all", action="store_true", help="every run with its error")
    arguments = parser.parse_args()
    if arguments.facts:
        (points, refused), memory = read(arguments.facts), read_memory(arguments.facts)
        print("left out:", ", ".join(f"{count} {why}" for why, count in refused.most_common()))
    else:
        content = json.loads(POINTS.read_text(encoding="utf-8"))
        points, memory = content["points"], content["memory"]
    cases = [make_case(point) for point in points]
    fresh = arguments.left_out or arguments.write or arguments.record
    constants = fit([case for case in cases if case.host_stated]) if fresh else load_expert_constants()
    own = errors(cases, constants)
    alone = left_out(cases) if fresh else own
    print(f"{len(cases)} runs; " + ", ".join(f"{name} {getattr(constants, name):.4g}" for name in NAMES))
    rows = group_rows(cases, own, alone)
    for row in rows:
        print(f"{row['group'][:78]:78} n={row['n']:3d}  fitted {row['fitted_median_error']:6.1%}  left out {row['median_error']:6.1%}"
              f"  bias {row['bias']:+6.1%}  p90 {row['p90_error']:6.1%}")  # fmt: skip
    if arguments.all:
        for at in np.argsort(-np.abs(alone)):
            p = cases[at].point
            run = f"{p['metric']:6} {p['published_as']:28} {p['quant'] or '':24} {p['card']:12} m {p['in_host']:5.1f}"
            print(f"{np.exp(alone[at]) - 1:+7.1%} {run}  {p['host'] or 'host assumed'}")
    checks = check_memory(memory)
    for one in checks if arguments.all else ():
        run = f"{one.point['published_as']} {one.point['quant']} --n-cpu-moe {one.point['cpu_moe_layers']}"
        print(f"{one.estimated / one.measured - 1:+7.1%} {one.place} {one.measured / GIB:7.2f} GiB  {run}")
    for row in memory_rows(checks):
        print(
            f"{row['group']:78} n={row['n']:3d}  median {row['median_error']:6.1%}  bias {row['bias']:+6.1%}  p90 {row['p90_error']:6.1%}"
        )
    if arguments.write:
        what = "runs with experts in host memory, as scripts/expert_points.py reads them"
        content = {"what": what, "points": points, "memory": memory}
        POINTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_constants(cases, constants, alone)
    if arguments.record:
        record("experts", "python -m scripts.check_experts --record", rows)
        record("experts_memory", "python -m scripts.check_experts --record", memory_rows(checks))


if __name__ == "__main__":
    main()
