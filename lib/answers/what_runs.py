"""The answer of `/what_runs`: models of the catalog on one piece of hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lib.advisor.entry_memory import EntryMemory
from lib.advisor.result import Speed, Verdict
from lib.catalog.offers import Hardware
from lib.engines import Engine
from lib.provenance import Answer, Reasons
from lib.result import Hidden, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningModel(Result):
    """A model that runs on the hardware, in the configuration that `/recommend` gives it there."""

    model: str
    """Id on the Hub."""
    task: str
    """The model's own task on the Hub."""
    parameters_total: int
    """Parameters."""
    parameters_active: int
    """Parameters that one token uses."""
    precision: str
    """Format of the weights."""
    engine: Engine
    """Engine."""
    devices: int
    """Devices that hold the model."""
    gpu_layers: int
    """llama.cpp's `-ngl` where the devices do not hold all layers; -1: they do."""
    cpu_moe_layers: int
    """llama.cpp's `--n-cpu-moe`: layers, from the first, whose routed experts are in the host's memory; 0: none."""
    repository: str | None
    """"" for the model's own checkpoint; null if another one is needed (the Hub is not asked for it here)."""
    memory: EntryMemory
    """Memory of the configuration."""
    speed: Speed
    """Speed of the configuration."""
    longest_context: int | None
    """Tokens of the longest request that fits, up to the model's limit; null if nothing limits it."""
    verdict: Verdict
    """`comfortable`, `usable`, `tight` or `slow`, as in `/recommend`."""
    reasons: Reasons
    """Memory, precision, devices and speed; of rented hardware its price too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedModel(Result):
    """A model that almost runs on the hardware."""

    model: str
    """Id on the Hub."""
    parameters_total: int
    """Parameters."""
    misses_bytes: int
    """Bytes that are missing on the fullest device; 0 if speed is missing."""
    would: str | None
    """Hardware of the same kind or platform that runs it: the fewest more cards, a larger Mac, the cheapest tier; null if none does."""
    reasons: Reasons
    """Reasons why it does not run."""
    would_name: Hidden[str | None] = None
    """The name of that hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatRunsAnswer(Answer):
    """Models of the catalog that run on one piece of hardware: comfortable and usable ones first, then the larger first."""

    hardware: str
    """Id of the hardware."""
    name: str
    """Its name."""
    platform: str
    """Platform that rents it out; "own" for cards without a price."""
    task: str
    """Task of the models."""
    models: tuple[RunningModel, ...]
    """Models that run, best first, at most as many as the limit."""
    models_total: int
    """Number of models that run."""
    misses: tuple[MissedModel, ...]
    """The models that come closest to running, the nearest first, at most ten."""
    refused: Mapping[str, int]
    """Number of models that do not run, by the code of the first obstacle."""
    considered: int
    """Number of models of the catalog for this task, with the text in their name."""
    offer: Hidden[Hardware]
    """The hardware."""
