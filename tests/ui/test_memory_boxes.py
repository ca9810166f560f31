"""The boxes of precisions and of inverse questions, without a browser."""

from __future__ import annotations

import re

import page_values
import pytest
from written import Written

from lib.precision import list_formats, loads
from lib.present.numbers import seconds
from lib.present.wording import page_note
from lib.service.app import Services
from lib.ui import workload
from lib.ui.memory_boxes import precision_updates, solve_updates
from lib.ui.memory_tab import memory_arguments

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def _box(services: Services, model: str, **asked: object) -> str:
    return precision_updates(memory_arguments, services, model, page_values.fill_form("memory", **asked))["table"]


def _limits(services: Services, hardware: str, max_ttft_s: float | None, *, model: str = LLAMA, **asked: object) -> str:
    return solve_updates(services, model, [hardware, max_ttft_s, 0, *page_values.fill_form("memory", **asked)])["answer"]


def test_each_row_is_an_answer_about_memory(real_app: Services) -> None:
    """As many tiers hold a precision as /estimate_memory says, and the one in use is marked once."""
    shown = _box(real_app, LLAMA, engine="vllm", precision="bf16", hardware="spaces:l40sx1")
    rows = re.findall(r'<tr role="row">(<th role="rowheader".*?)</tr>', shown)
    assert len(rows) == len(list_formats("vllm"))
    assert shown.count("in use") == 1
    answer = real_app.estimate_memory(LLAMA, precision="awq-4", engine="vllm")
    awq = next(row for row in rows if ">awq-4<" in row)
    assert f"{sum(fit.fits for fit in answer.fits)} of {len(answer.fits)}" in awq
    assert "precision=awq-4" in awq


def test_what_cannot_be_asked_is_a_sentence(real_app: Services) -> None:
    """No model, and a model that nobody knows."""
    assert page_note("name_model:precisions") in _box(real_app, "")
    assert "No estimates by precision." in _box(real_app, "no such model")


@pytest.mark.parametrize("engine", ["transformers", "vllm", "tgi", "llama.cpp"])
def test_an_engine_is_offered_what_it_loads(engine: str) -> None:
    """llama.cpp its own files, others none of those."""
    formats = list_formats(engine)
    assert all(loads(engine, name) for name in formats)
    assert {name.startswith("gguf:") for name in formats} == {engine == "llama.cpp"}


MEMORY = page_values.fill_form("memory")


def test_the_box_answers_for_the_questions_of_the_tab(real_app: Services) -> None:
    """The figures of /solve, with the context of the tab; a refusal and a missing model become sentences."""
    ranked = Written(real_app).recommend(LLAMA)["ranked"]
    runs = next({"engine": one["engine"], "precision": one["precision"]} for one in ranked if one["hardware"] == "l4x1")
    answer = real_app.solve(LLAMA, "l4x1", context_tokens=4096, max_ttft_s=2, **runs)
    shown = _limits(real_app, "spaces:l4x1", 2)
    assert f"{answer.longest_context.value:,} tokens" in shown
    assert all(way.effect in shown for way in answer.memory_savings)
    long = real_app.solve(LLAMA, "l4x1", context_tokens=4096, output_tokens=1000, **runs)
    assert f"at full length · {seconds(long.ttft_s)} to the first token" in _limits(real_app, "spaces:l4x1", 0, answer=1000)
    assert page_note("name_model:solve") in _limits(real_app, "spaces:l4x1", 0, model="")
    assert "There is no hardware called" in _limits(real_app, "nowhere", 0)
    assert "RTX 4090" in _limits(real_app, "RTX-4090", None)


def test_settings_of_the_server_count_on_the_tab_and_their_flags_are_shown(real_app: Services) -> None:
    """Flags as they are typed; the box shows those of the server, and a setting of another engine is refused in words."""
    asked = {"engine": "vllm", "precision": "bf16"}
    form = page_values.fill_form("memory", **asked, hardware="spaces:l40sx1", serving="--gpu-memory-utilization 0.5 -tp 1")
    question = memory_arguments(real_app, LLAMA, form)
    assert real_app.estimate_memory(LLAMA, **question).fits != real_app.estimate_memory(LLAMA, **{**question, "serving": ""}).fits
    shown = _limits(real_app, "spaces:l40sx1", 0, **asked, serving="--gpu-memory-utilization 0.95 --enforce-eager")
    assert "--gpu-memory-utilization 0.95 --enforce-eager --dtype bfloat16" in shown
    assert "No engine" not in shown
    assert "has no max_num_seqs: use parallel" in _limits(real_app, "spaces:l40sx1", 0, engine="llama.cpp", serving="--max-num-seqs 8")


def test_experts_in_host_memory_count_on_every_tab(real_app: Services) -> None:
    """A model that a card runs with experts in the host's memory: Memory and the limits show the pick's configuration."""
    model, machine = "openai/gpt-oss-120b", "256 GB DDR4-3200 8 channels"
    form = page_values.fill_form("memory", hardware="RTX-3090", ram=machine)
    owned = workload.own_hardware(real_app, form)
    assert owned == {"own_hardware": "RTX-3090", "host_memory": machine}
    own = real_app.recommend(model, **owned).own
    assert own is not None
    assert own.runs_as is not None
    assert own.runs_as.cpu_moe_layers > 0
    memory = real_app.estimate_memory(model, **memory_arguments(real_app, model, form))
    assert memory.per_device_bytes == own.runs_as.memory.per_device_bytes
    assert f"--n-cpu-moe {own.runs_as.cpu_moe_layers}" in solve_updates(real_app, model, ["auto", 0, 0, *form])["answer"]
    slower = real_app.recommend(model, own_hardware="RTX-3090").own
    assert slower is not None
    assert slower.runs_as is not None
    assert slower.runs_as.speed.tokens_per_s < own.runs_as.speed.tokens_per_s
