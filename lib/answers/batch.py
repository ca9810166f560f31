"""The answer of `/estimate_batch`."""

from __future__ import annotations

from dataclasses import dataclass

from lib.provenance import Answer, Reasons, WordedReason
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOption(Result):
    """One kind of hardware that does the work by the deadline."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out."""
    name: str
    """Name for people."""
    engine: str
    """Program that runs the model."""
    precision: str
    """Precision of the weights."""
    batch_size: int
    """Requests at the same time on one machine: the most that its memory holds, up to the engine's own limit."""
    shards: int
    """Machines side by side, each with its own part: the fewest that keep the deadline."""
    items_per_s: float
    """Items per second of all machines together at full load."""
    start_s: int
    """Seconds until a machine works: the machine, the download, loading, and the start of the engine."""
    download_bytes: int
    """Bytes that each machine fetches from the Hub."""
    hours: float
    """Hours from the start to the end of the work."""
    usd_per_hour: Usd
    """Price per hour of one machine, with its port where the command starts a server."""
    usd: Usd
    """Price of the whole work, billed by the minute, starts included."""
    command: str
    """Command that starts it on Jobs, with the script of `/write_files` (purpose job) or as a server; empty if there is neither."""
    reasons: Reasons
    """Facts about this option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRejection(Result):
    """Hardware that does not do the work, or not by the deadline."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out."""
    name: str
    """Name for people."""
    reason: WordedReason
    """The fact that rules it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer(Answer):
    """Hours, price and machines of a pile of work on each kind of hardware."""

    model: str
    """Id of the model."""
    task: str
    """Kind of work."""
    items: int
    """Items of the pile."""
    unit: str
    """Meaning of an item: documents, rows, pictures, clips or hours of sound."""
    deadline_hours: float
    """Hours until it has to be done; 0 sets none."""
    pick: BatchOption | None
    """The best option; null if nothing does the work by the deadline."""
    options: tuple[BatchOption, ...]
    """Every option, the best first."""
    rejected: tuple[BatchRejection, ...]
    """Hardware that is ruled out, each with its reason."""
    notes: Reasons
    """The reason for the pick, or for the lack of one."""
