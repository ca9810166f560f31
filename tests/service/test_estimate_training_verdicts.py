"""Verdicts of /estimate_training on hardware: what people ran, what ended for want of memory, and which sharding fits."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.memory.training import estimate_training
from lib.model import bundled
from lib.present.numbers import gib
from lib.request.sharding import SHARDINGS
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training as question
from lib.service.models import Models
from lib.speed.training_hardware import judge_fit
from lib.units import GIB
from lib.workload import TrainingRequest

ASK = ask(question, App(catalog=load, models=Models()))
CARDS = load().accelerators
LLAMA = "meta-llama/Llama-3.1-8B"

_LITGPT: dict[str, Any] = {"precision": "bf16", "checkpointing": "none", "packing": False, "stack": "transformers"}
_FMS: dict[str, Any] = {
    "precision": "bf16", "optimizer": "adamw_foreach", "attention": "flash", "sequence_tokens": 4096, "stack": "transformers",
}  # fmt: skip
THREADS: dict[str, tuple[str, dict[str, Any], str, bool]] = {
    "litgpt @4839345a, 13B LoRA": (
        "meta-llama/Llama-2-13b-hf", {**_LITGPT, "method": "lora", "sequence_tokens": 1304, "micro_batch": 4}, "A100-SXM4-40GB", False,
    ),
    "litgpt @4839345a, 40B QLoRA": (
        "tiiuae/falcon-40b", {**_LITGPT, "method": "qlora", "sequence_tokens": 1079}, "A100-SXM4-40GB", False,
    ),
    "fms-acceleration @876e2ed6, 8B full on one": (
        "meta-llama/Meta-Llama-3-8B", {**_FMS, "method": "full", "micro_batch": 8}, "A100-SXM4-80GB", False,
    ),
    "fms-acceleration, 8B full on two, batch 16": (
        "meta-llama/Meta-Llama-3-8B",
        {**_FMS, "method": "full", "precision": "mixed", "micro_batch": 16, "fused_loss": True, "sharding": "fsdp", "devices": 2},
        "A100-SXM4-80GB", False,
    ),
    "fms-acceleration, 7B full on four, batch 8": (
        "mistralai/Mistral-7B-v0.1",
        {**_FMS, "method": "full", "precision": "mixed", "micro_batch": 8, "sharding": "fsdp", "devices": 4}, "A100-SXM4-80GB", True,
    ),
    "fms-acceleration, 7B QLoRA on two, batch 32": (
        "mistralai/Mistral-7B-v0.1",
        {**_FMS, "method": "qlora", "micro_batch": 32, "sharding": "fsdp", "devices": 2}, "A100-SXM4-80GB", False,
    ),
}  # fmt: skip
"""Model, request, card, and whether it ran; threads and tables of GitHub, read 2026-11."""


@pytest.mark.parametrize(("name", "asked", "card", "ran"), THREADS.values(), ids=THREADS)
def test_what_ran_and_what_did_not(name: str, asked: dict[str, Any], card: str, *, ran: bool) -> None:
    """What ran is not called too large, and what ended for want of memory is."""
    model = bundled.find_spec(name)
    assert model is not None
    verdict = judge_fit(estimate_training(model, TrainingRequest(**asked)), CARDS[card].memory_usable or 0)
    assert (verdict != "no") is ran


def test_sharded_full_tuning_as_measured() -> None:
    """Two A100 with FSDP and float32 masters: 20 bytes a parameter in the optimizer step (fms-acceleration, 74.8 GiB each)."""
    model = bundled.find_spec("meta-llama/Meta-Llama-3-8B")
    assert model is not None
    request = TrainingRequest(
        **{**_FMS, "precision": "mixed"}, method="full", micro_batch=8, fused_loss=True, sharding="fsdp", devices=2,
    )  # fmt: skip
    assert estimate_training(model, request).allocated_bytes / GIB == pytest.approx(74.8, rel=0.03)


def test_full_tuning_names_gpus_and_sharding() -> None:
    """A row and a sentence for each sharding: hardware whose GPUs hold the upper estimate, else how many of the largest would."""
    rows = {row["sharding"]: row for row in ASK(LLAMA, method="full", platforms="jobs")["shardings"]}
    assert rows.keys() == set(SHARDINGS) - {"fsdp_hybrid"}  # which is for several machines
    assert rows["zero2_offload"]["devices"] == 1  # its optimizer is in host memory, whose RAM is checked
    assert rows["none"]["hardware"] is None
    assert rows["none"]["message"].startswith("Full fine-tuning does not fit on one GPU: the largest, ")
    assert rows["ddp"]["devices"] is None  # more GPUs do not help
    fsdp = rows["fsdp"]
    assert fsdp["devices"] >= 2
    assert fsdp["device_high_bytes"] <= fsdp["capacity_bytes"]
    assert f"with FSDP fits on {fsdp['devices']} × {fsdp['accelerator']} ({fsdp['hardware']}, $" in fsdp["message"]
    offloaded = rows["fsdp_offload"]
    assert offloaded["usd_per_hour"] <= fsdp["usd_per_hour"]
    assert f"the host {gib(offloaded['host_bytes'])}" in offloaded["message"]
    option = next(o for o in ASK(LLAMA, method="full", platforms="jobs", sharding="fsdp", devices=2)["options"] if o["verdict"] == "fits")
    assert option["usd_per_hour"] >= fsdp["usd_per_hour"] or option["devices"] == fsdp["devices"]


def test_a_sharding_beyond_the_hardware_names_how_many() -> None:
    """405B in full: no machine of Jobs holds it with FSDP, and the row says how many of the largest GPU would."""
    rows = {row["sharding"]: row for row in ASK("meta-llama/Meta-Llama-3.1-405B", method="full", platforms="jobs")["shardings"]}
    assert rows["fsdp"]["hardware"] is None
    assert rows["fsdp"]["devices"] > 8
    assert "more than any hardware listed here has" in rows["fsdp"]["message"]
    assert [row["sharding"] for row in ASK(LLAMA, method="full", stack="unsloth")["shardings"]] == ["none"]
