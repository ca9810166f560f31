"""Own cards that are too small for a mixture of experts: its experts stay in the machine's memory."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument
from lib.memory import estimate_memory as estimate
from lib.model.bundled import find_spec
from lib.request.serving import Serving
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.speed import estimate_speed
from lib.service.what_runs import what_runs
from lib.workload import MemoryRequest

APP = App(catalog=load, models=Models(), quantized=lambda _: None)
RECOMMEND, RUNS, SPEED = ask(recommend, APP), ask(what_runs, APP), ask(estimate_speed, APP)
GPT_OSS = "openai/gpt-oss-120b"


def own(model: str, card: str, host: str, **asked: Any) -> dict[str, Any]:
    """The verdict of /recommend on own cards."""
    answer: dict[str, Any] = RECOMMEND(model, own_hardware=card, host_memory=host, platforms="zerogpu", limit=1, **asked)["own"]
    return answer


def test_the_fewest_layers_leave_their_experts_to_the_host() -> None:
    """gpt-oss-120b on 24 GB: the answer says K, and one layer less does not leave a tenth of the card free."""
    runs = own(GPT_OSS, "RTX-3090", "64 GB DDR5-6000")["runs_as"]
    layers = runs["cpu_moe_layers"]
    assert (runs["engine"], runs["precision"]) == ("llama.cpp", "gguf:MXFP4_MOE")
    assert runs["verdict"] in {"comfortable", "usable"}
    reason = next(reason for reason in runs["reasons"] if reason["code"] == "experts_on_host")
    assert f"Experts of {layers} of 36 layers in RAM (--n-cpu-moe {layers})" in reason["message"]
    spec, silicon = find_spec(GPT_OSS), load().accelerators["RTX-3090"]
    assert spec is not None
    assert silicon.memory_usable is not None
    for fewer, fits in ((0, True), (1, False)):
        request = MemoryRequest(
            precision="gguf:MXFP4_MOE", engine="llama.cpp", context_tokens=runs["memory"]["context_tokens"],
            serving=Serving(cpu_moe_layers=layers - fewer),
        )  # fmt: skip
        assert (estimate(spec, request, silicon).per_device_bytes <= silicon.memory_usable * 0.9) is fits
    lengths = {name: runs["speed"][name] for name in ("prompt_tokens", "output_tokens")}
    form = {"engine": "llama.cpp", "precision": "gguf:MXFP4_MOE", "serving": {"cpu_moe_layers": layers}}
    asked = SPEED(GPT_OSS, "RTX-3090", **form, **lengths, host_memory="64 GB DDR5-6000")
    assert asked["decode_tokens_per_s"] == pytest.approx(runs["speed"]["decode_tokens_per_s"])


def test_memory_of_the_host_decides() -> None:
    """Too little memory refuses with both figures; without a statement the answer says what it assumed."""
    refused = own(GPT_OSS, "RTX-3090", "32 GB DDR4-3200")
    assert refused["runs_as"] is None
    assert (refused["obstacles"][0]["code"], "in RAM" in refused["obstacles"][0]["message"]) == ("host_too_small", True)
    messages = [reason["message"] for reason in own(GPT_OSS, "RTX-3090", "")["runs_as"]["reasons"]]
    assert any("Assumed" in message and "host_memory" in message for message in messages)


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "Qwen/Qwen3-8B"])
def test_a_model_that_fits_the_card_keeps_everything_there(model: str) -> None:
    """No experts are moved where all fit, and none of a dense model."""
    assert own(model, "RTX-4090", "64 GB DDR5-6000")["runs_as"]["cpu_moe_layers"] == 0


def test_what_runs_lists_them_with_their_layers() -> None:
    """A smaller host holds fewer of them; with a host that is only assumed they come after the models that fit the card."""
    of_host = {host: RUNS("RTX-4090", limit=1000, host_memory=host) for host in ("16 GB DDR4-3200", "128 GB DDR5-6000")}
    found = {host: {row["model"] for row in answer["models"] if row["cpu_moe_layers"]} for host, answer in of_host.items()}
    assert GPT_OSS in found["128 GB DDR5-6000"] - found["16 GB DDR4-3200"]
    assumed = [row["cpu_moe_layers"] > 0 for row in RUNS("RTX-4090", limit=1000)["models"] if row["verdict"] in {"comfortable", "usable"}]
    assert assumed == sorted(assumed)
    assert all(row["engine"] == "llama.cpp" for row in of_host["128 GB DDR5-6000"]["models"] if row["cpu_moe_layers"])


@pytest.mark.parametrize(("hardware", "words"), [("l4x1", "graphics cards of your own"), ("M4-Max-64GB", "graphics cards of your own")])
def test_only_own_cards_have_a_host_to_describe(hardware: str, words: str) -> None:
    """Rented hardware has a known host, a Mac one memory for both."""
    with pytest.raises(BadArgument, match=words):
        SPEED(GPT_OSS, hardware, engine="llama.cpp", host_memory="64 GB")
    with pytest.raises(BadArgument, match="own_hardware"):
        RECOMMEND(GPT_OSS, host_memory="64 GB")
