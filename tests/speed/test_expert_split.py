"""Experts in host memory: the law beside published runs, and what is refused."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from lib.catalog import load
from lib.errors import BadArgument
from lib.memory import estimate_memory, fit_memory
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.request.serving import Serving
from lib.speed import SpeedRequest, predict_speed
from lib.speed.expert_split import load_expert_constants
from lib.units import GIB
from lib.workload import MemoryRequest
from scripts.accuracy import read_figures
from scripts.check_experts import POINTS, check_memory, errors, make_case, memory_rows

CATALOG = load()
CARD = CATALOG.resolve_hardware("RTX-3090")
ASKED = SpeedRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", prompt_tokens=512, output_tokens=128)


@cache
def find(model: str) -> ModelSpec:
    """A bundled model."""
    spec = bundled.find_spec(model)
    assert spec is not None
    return spec


GPT_OSS = "openai/gpt-oss-120b"


def test_the_errors_are_the_recorded_ones() -> None:
    """Fitted errors on all runs, by decode and prompt, as docs/accuracy.json says; left out they are within the promise."""
    points = json.loads(POINTS.read_text(encoding="utf-8"))
    cases = [make_case(point) for point in points["points"]]
    off = np.abs(np.exp(errors(cases, load_expert_constants())) - 1)
    recorded = {row["group"]: row for row in read_figures()["experts"]["rows"]}
    for metric, promise in (("decode", 0.25), ("prompt", 0.35)):
        inside = np.array([case.point["metric"] == metric for case in cases])
        assert recorded[metric]["n"] == inside.sum()
        assert float(np.median(off[inside])) == pytest.approx(recorded[metric]["fitted_median_error"], abs=0.004)
        assert recorded[metric]["median_error"] <= promise
    assert memory_rows(check_memory(points["memory"])) == read_figures()["experts_memory"]["rows"]
    assert all(row["median_error"] <= 0.08 for row in read_figures()["experts_memory"]["rows"])


def test_each_layer_moves_its_experts_from_the_card_to_the_host() -> None:
    """Card and host together stay the same, within the rounding of a layer; the cache stays on the card."""
    sizes = []
    for layers in (1, 12, 36):
        request = MemoryRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", context_tokens=8192, serving=Serving(cpu_moe_layers=layers))
        sizes.append(estimate_memory(find(GPT_OSS), request, CARD.silicon))
    cards, hosts = [one.per_device_bytes for one in sizes], [one.host_bytes for one in sizes]
    each = sizes[0].of.expert_bytes / 36
    assert cards[0] - cards[1] == pytest.approx(11 * each, rel=1e-6)
    assert hosts[2] - hosts[0] == pytest.approx(35 * each, rel=1e-6)
    assert cards[2] < 6 * GIB < 55 * GIB < hosts[2]


def test_two_cards_are_as_full_as_the_one_with_the_last_layers() -> None:
    """The first card's layers have no experts: 26 of 36 in host memory leave 10 layers of experts to the second card."""
    request = MemoryRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", devices=2, serving=Serving(cpu_moe_layers=26))
    of = estimate_memory(find(GPT_OSS), request, CARD.silicon).of
    assert of.device_weights > 10 * of.expert_bytes / 36


def test_more_experts_in_host_memory_are_slower_and_a_faster_host_is_faster() -> None:
    """Times grow with the layers in host memory and shrink with its bandwidth; the caveats say what is assumed."""

    def tpot(layers: int, hardware: str = "RTX-3090") -> float:
        speed = predict_speed(
            find(GPT_OSS),
            CATALOG.resolve_hardware(hardware),
            SpeedRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", serving=Serving(cpu_moe_layers=layers)),
            CATALOG.accelerators,
        )
        assert speed.tpot_s is not None
        assert speed.tpot_s.low < speed.tpot_s.value < speed.tpot_s.high
        assert "experts_in_host" in {caveat.code for caveat in speed.caveats}
        assert sum(part.seconds for part in speed.decode_parts) == pytest.approx(speed.tpot_s.value, rel=0.01)
        assert sum(part.seconds for part in speed.prompt_parts) == pytest.approx(speed.ttft_s.value, rel=0.01)
        return speed.tpot_s.value

    assert tpot(12) < tpot(24) < tpot(36)
    speed = predict_speed(
        find(GPT_OSS),
        CARD,
        SpeedRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", serving=Serving(cpu_moe_layers=36)),
        CATALOG.accelerators,
    )
    assert "host_memory_assumed" in {caveat.code for caveat in speed.caveats}
    assert "does_not_fit" not in {caveat.code for caveat in speed.caveats}


@pytest.mark.parametrize(
    ("model", "engine", "layers", "words"),
    [
        ("Qwen/Qwen3-8B", "llama.cpp", 4, "no routed experts"),
        (GPT_OSS, "llama.cpp", 37, "0 to 36"),
        (GPT_OSS, "vllm", 4, "vllm has no cpu_moe_layers"),
    ],
)
def test_what_cannot_be_split_is_refused(model: str, engine: str, layers: int, words: str) -> None:
    """A dense model, more layers than there are, another engine."""
    with pytest.raises(BadArgument, match=words):
        estimate_memory(find(model), MemoryRequest(engine=engine, serving=Serving(cpu_moe_layers=layers)))  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match=words):
        predict_speed(find(model), CARD, SpeedRequest(engine=engine, serving=Serving(cpu_moe_layers=layers)), CATALOG.accelerators)  # type: ignore[arg-type]


def test_a_host_without_room_does_not_fit() -> None:
    """58 GiB of experts fit a host of 64 GiB and not one of 32 GiB."""
    request = MemoryRequest(precision="gguf:MXFP4_MOE", engine="llama.cpp", serving=Serving(cpu_moe_layers=36))
    fits = [fit_memory(find(GPT_OSS), request, 12 * GIB, CARD.silicon, host_bytes=size * GIB).fits for size in (32, 64)]
    assert fits == [False, True]
