"""Fitted constants of the seconds of training (`scripts/check_training.py`, `lib/data/training_constants.json`)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class SpeedConstants(NamedTuple):
    """The fitted constants: `flops` on cards with HBM, `host_s` and `adapter_s` seconds for a layer and for an adapter, each call.

    The others are shares of a ceiling.
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
