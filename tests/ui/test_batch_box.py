"""The box *A fixed amount of work (batch)* answers for the model of the page with the command to copy; a refusal is a sentence."""

from __future__ import annotations

from lib.catalog import load
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.ui.batch_box import batch_markup
from lib.ui.fields import QUESTION

WORKLOAD = [field.default for field in QUESTION]
SERVICES = Services(App(catalog=load, models=Models()))


def test_the_finding_the_table_and_the_command() -> None:
    """As /estimate_batch says; without a model the page asks for one."""
    pick = SERVICES.estimate_batch("Qwen/Qwen3-8B", 100_000, deadline_hours=6).pick
    markup = batch_markup(SERVICES, "Qwen/Qwen3-8B", [100_000, 512, 256, 6.0, *WORKLOAD])
    assert pick is not None
    assert "100,000 documents" in markup
    assert pick.name in markup
    assert "hf jobs" in markup
    assert "data-copy" in markup
    assert "data-no-model" in batch_markup(SERVICES, "", [1, 512, 256, 0, *WORKLOAD])


def test_a_refusal_is_a_sentence_without_markup() -> None:
    """A model that is hostile, and a number out of range."""
    assert "<img" not in batch_markup(SERVICES, "<img src=x>", [1, 512, 256, 0, *WORKLOAD])
    assert "Accepted" in batch_markup(SERVICES, "7B", [0, 512, 256, 0, *WORKLOAD])


def test_the_workload_above_the_tabs_counts() -> None:
    """An engine and its settings that are stated there."""
    stated = {"engine": "vllm", "serving": "--max-num-seqs 4"}
    asked = [stated.get(field.name, field.default) for field in QUESTION]
    pick = SERVICES.estimate_batch("Qwen/Qwen3-8B", 100_000, deadline_hours=6, **stated).pick
    assert pick is not None
    assert f"{pick.shards} machines" in batch_markup(SERVICES, "Qwen/Qwen3-8B", [100_000, 512, 256, 6.0, *asked])
    assert f"{pick.shards} machines" not in batch_markup(SERVICES, "Qwen/Qwen3-8B", [100_000, 512, 256, 6.0, *WORKLOAD])
