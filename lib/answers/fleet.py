"""One row of a fleet: a question about a model, and its answer in columns."""

from __future__ import annotations

from dataclasses import dataclass

from lib.provenance import Reasons
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow(Result):
    """The answer to one row of questions. A row that has no answer has `error_code` and `error` instead."""

    row: int
    """Number of the question in the input, from 0."""
    label: str
    """The question's own label."""
    model: str
    """Id of the model; the text of the question, shortened, where the model has none."""
    error_code: str | None = None
    """A stable code of the refusal; null if there is an answer."""
    error: str | None = None
    """The refusal in a sentence."""
    decision: str | None = None
    """stay, move or none, compared with the current hardware; null without current hardware."""
    pick: str | None = None
    """Id of the recommended hardware; null if nothing qualifies."""
    platform: str | None = None
    """Platform that rents it out."""
    precision: str | None = None
    """Format of the weights on it."""
    engine: str | None = None
    """Engine."""
    devices: int | None = None
    """Devices that hold a copy of the model."""
    replicas: int | None = None
    """Machines that the day's requests take."""
    verdict: str | None = None
    """comfortable, usable, tight or slow."""
    weights_bytes: int | None = None
    """Weights, over all devices."""
    kv_cache_bytes: int | None = None
    """KV cache, over all devices."""
    activation_bytes: int | None = None
    """Activations, over all devices."""
    runtime_bytes: int | None = None
    """CUDA context, kernels and fragmentation, over all devices."""
    total_bytes: int | None = None
    """All of them."""
    per_device_bytes: int | None = None
    """Bytes on the fullest device."""
    capacity_bytes: int | None = None
    """Bytes of a device that the engine may fill."""
    ttft_s: float | None = None
    """Predicted time to first token, or of the whole request if nothing is decoded."""
    tokens_per_s: float | None = None
    """Predicted output tokens per second of one request; null if nothing is decoded."""
    request_s: float | None = None
    """Predicted time of a request."""
    usd_per_hour: Usd | None = None
    """Price of one machine."""
    usd_per_month: Usd | None = None
    """Price of all machines in the stated hours."""
    current: str | None = None
    """Id of the current hardware."""
    current_fits: bool | None = None
    """Whether the current hardware does the work; null if it is no longer offered."""
    current_usd_per_month: Usd | None = None
    """Price of the current hardware under the same workload."""
    saving_usd_per_month: Usd | None = None
    """Price of the current hardware less that of the pick; 0 if it stays, negative if the pick costs more."""
    reasons: Reasons = ()
    """Comparison with the current hardware, then the reasons for the pick; without a pick, the obstacle of the nearest hardware."""
    prices: str
    """live or bundled."""
    prices_checked: str
    """Day or moment of the prices."""
