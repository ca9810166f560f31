"""The choice between GPU and TPU as rows: its rules, prices of slices, and the software that runs on them.

Two files are kept by hand, not written by `scripts/build_catalog.py`. `gpu_or_tpu.json`: an answer to a question, whom it favours, how
strongly, whether it is a constraint, and where that was read. `tpu_software.json`: spot and commitment prices, the models that vLLM was
tested with, Optimum TPU, and claims of vendors.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lib.catalog.rows import DATA, Count, Exact, Price, ReadFact, Row, Size, Table, Text, read_rows, require_distinct
from lib.provenance import Source

Kind = Literal["gpu", "tpu"]
Stage = Literal["training", "inference"]
Check = Literal["passing", "untested", "not enough hbm"]


class Rule(Row):
    """One answer to one question, and what it says about the choice."""

    code: Text
    """Code of the reason."""
    question: Text
    """The question."""
    answer: Text
    """The answer that this row is about; of a number, the name of its range."""
    at_least: Count | None
    at_most: Count | None
    """Range of a number, both ends included; `None` for a question in words, or an open end."""
    favours: Kind
    """Whom it favours."""
    weight: Annotated[int, Field(ge=1, le=3)]
    """1 slightly, 2 clearly, 3 strongly. The weights are this project's judgement; the facts are the source's."""
    hard: bool
    """A constraint: it decides whatever else is answered."""
    stages: tuple[Stage, ...]
    """The stages of work that it is about."""
    source: Text
    """Key of the source."""

    def covers(self, value: str | int) -> bool:
        """Whether this row is about an answer: the word itself, or a number in its range."""
        if isinstance(value, str):
            return value == self.answer
        ranged = self.at_least is not None or self.at_most is not None
        return ranged and (self.at_least or 0) <= value and (self.at_most is None or value <= self.at_most)


class DecisionRules(Row):
    """gpu_or_tpu.json."""

    decisive_score: Size
    """Weights that one side has to be ahead by; less is `either`."""
    sources: Table[Source]
    rules: Annotated[tuple[Rule, ...], require_distinct("code")]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for rule in self.rules:
            if rule.source not in self.sources:
                raise ValueError(f"'{rule.code}': source is '{rule.source}'. Accepted: a key of sources.")
            if rule.hard and rule.favours != "gpu":
                raise ValueError(f"'{rule.code}': hard is true. Accepted: false for what favours TPUs, which no constraint asks for.")
        return self


class Commitment(Row):
    """A price for a commitment."""

    years: Size
    usd_per_chip_hour: Price


class TpuTerms(Row):
    """How a generation is rented and run, beside its list price."""

    id: Text
    """Id of the generation."""
    gke_accelerator: Text
    """Its name in a Kubernetes node selector."""
    disk: Text
    """The type of disk that its machines take as a volume."""
    vllm: Literal["recommended", "experimental"]
    """How vLLM's TPU backend rates it."""
    usd_per_chip_hour_spot: Table[Price]
    """By region; it changes, and the capacity can be taken back at any time."""
    commitments: tuple[Commitment, ...]
    """In the regions with the lowest list price; empty where no price was found."""


class TestedModel(Row):
    """A line of vLLM's support matrix."""

    model: Text
    """Hub id; an ending such as /text-only names the part that was tested."""
    accelerator: Text
    kind: Literal["text", "multimodal", "embedding"]
    unit_test: Check
    accuracy: Check
    benchmark: Check


class SupportMatrix(ReadFact):
    """Models that vLLM's TPU backend was tested with."""

    package: Text
    release: Text
    rows: Annotated[tuple[TestedModel, ...], require_distinct("model", "accelerator")]


class OptimumTpu(ReadFact):
    """Hugging Face's library for TPUs."""

    version: Text
    state: Text
    image: Text
    """Its container of Text Generation Inference."""
    generations: tuple[Text, ...]
    models: tuple[Text, ...]
    """In its own words."""
    families: tuple[Text, ...]
    """`model_type` of these models."""


class SpeedClaim(ReadFact):
    """A vendor's claim: so many times as fast, from `faster_low` to `faster_high`."""

    faster_low: Exact
    faster_high: Exact


class OldGuidance(ReadFact):
    """The sizes that Hugging Face advised when Spaces and Endpoints had TPUs."""

    generation: Text
    one_chip_parameters: Size
    """Models up to this size were to take one chip."""
    chips_above: Size
    """Chips for larger ones."""


class TpuSoftware(Row):
    """tpu_software.json."""

    generations: Annotated[tuple[TpuTerms, ...], require_distinct("id")]
    spot: ReadFact
    commitment: ReadFact
    gke: ReadFact
    disks: ReadFact
    optimum: OptimumTpu
    torchtpu_claim: SpeedClaim
    guidance: OldGuidance
    support: SupportMatrix

    def terms(self, generation: str) -> TpuTerms | None:
        """The terms of a generation; `None` where none were read."""
        return next((row for row in self.generations if row.id == generation), None)


@cache
def load_decision_rules() -> DecisionRules:
    """The bundled rules, read at the first call."""
    return read_rows(DecisionRules, DATA / "gpu_or_tpu.json")


@cache
def load_tpu_software() -> TpuSoftware:
    """The bundled rows, read at the first call."""
    return read_rows(TpuSoftware, DATA / "tpu_software.json")
