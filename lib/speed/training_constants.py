"""Fitted constants of the seconds of training (`scripts/check_training.py`, `lib/data/training_constants.json`)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class SpeedConstants(NamedTuple):
    """The fitted constants. `host_s`, `adapter_s` and `expert_s` are seconds of a call: of a layer, an adapter and a layer with experts.

    The others are shares of a ceiling; `flops` is that of cards with HBM. The last three are of experts.
    """

    flops: float
    flops_gddr: float
    kept: float
    scores: float
    host_s: float
    update: float
    unpack: float
    adapted: float
    adapter_s: float
    routed: float = 0.0
    merged: float = 0.0
    expert_s: float = 0.0


class RolloutConstants(NamedTuple):
    """Seconds of the host for each token that the trainer's own model writes: for a layer, and for an adapter."""

    layer_s: float
    adapter_s: float


@cache
def _read() -> dict[str, Any]:
    return dict(json.loads(files("lib.data").joinpath("training_constants.json").read_text(encoding="utf-8")))


@cache
def load_speed() -> tuple[SpeedConstants, tuple[float, float]]:
    """The constants that come with the app, and the factors between which four in five published runs lie."""
    plain = _read()["speed"]
    low, high = plain["range"]
    return SpeedConstants(**plain["constants"]), (low, high)


@cache
def load_rollout() -> RolloutConstants:
    """The constants of rollouts that come with the app."""
    return RolloutConstants(**_read()["rollout"]["constants"])
