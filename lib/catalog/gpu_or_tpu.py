"""The choice between GPU and TPU as rows: its rules, prices of slices, and the software that runs on them.

Two files are kept by hand, not written by `scripts/build_catalog.py`. `gpu_or_tpu.json`: an answer to a question, whom it favours, how
strongly, whether it is a constraint, and where that was read. `tpu_software.json`: spot and commitment prices, the models that vLLM was
tested with, Optimum TPU, and claims of vendors.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lib.catalog.engine_models import lists_model, normalize
from lib.catalog.rows import DATA, Count, Exact, Price, ReadFact, Row, Size, Table, Text, read_rows, require_distinct
from lib.engines import Engine
from lib.provenance import Source

Kind = Literal["gpu", "tpu"]
Stage = Literal["training", "inference"]
Check = Literal["passing", "untested", "not enough hbm"]
Support = Literal["passing", "same_class", "other_generation", "implemented", "untested", "not_enough_hbm", "failing"]
"""Best first: the model passed on this generation; another model of its class did; the model or its class did on another generation, and
vLLM recommends this one; its class has an implementation for TPUs, and vLLM recommends this generation; nothing of it is known; it passed
nowhere because the tested slices have too little memory; it is reported to fail."""
UNSUPPORTED = frozenset({"not_enough_hbm", "failing"})


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
    """A constraint: it decides against all other answers."""
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
    """How a generation is rented and run, besides its list price."""

    id: Text
    """Id of the generation."""
    accelerator: Text
    """Id of its chip."""
    gke_accelerator: Text
    """Its name in a Kubernetes node selector."""
    disk: Text
    """The type of disk that its machines take as a volume."""
    vllm: Literal["recommended", "experimental"]
    """How vLLM's TPU backend rates it."""
    usd_per_chip_hour_spot: Table[Price]
    """By region; it changes, and the capacity can be taken back at any time."""
    commitments: tuple[Commitment, ...]
    """In the regions with the lowest list price; empty if no price was found."""


class TestedModel(Row):
    """A line of vLLM's support matrix."""

    model: Text
    """Hub id; an ending such as /text-only names the part that was tested."""
    architecture: str
    """Class that its config.json names; empty if no config.json was read."""
    accelerator: Text
    kind: Literal["text", "multimodal", "embedding"]
    unit_test: Check
    accuracy: Check
    benchmark: Check

    @property
    def passes(self) -> bool:
        """Whether it loads and answers correctly; a benchmark is not needed for that."""
        return self.unit_test == self.accuracy == "passing"

    @property
    def lacks_memory(self) -> bool:
        """Whether a test ended because the slice had too little memory."""
        return "not enough hbm" in {self.unit_test, self.accuracy}

    def is_of(self, model: str) -> bool:
        """Whether the line is about this model."""
        tested, wanted = self.model.casefold(), model.casefold()
        return bool(wanted) and (tested == wanted or tested.startswith(f"{wanted}/"))


class SupportMatrix(ReadFact):
    """Models that vLLM's TPU backend was tested with."""

    engine: Engine
    """The engine that it is about."""
    package: Text
    release: Text
    slice_chips: Count
    """Chips of the largest slice that a test ran on: a model without memory there may fit a larger slice."""
    rows: Annotated[tuple[TestedModel, ...], require_distinct("model", "accelerator")]


class TpuFailure(ReadFact):
    """A report that vLLM's TPU backend does not run a model, and that is not closed."""

    models: tuple[Text, ...]
    """Hub ids."""
    accelerator: Text
    """The chip."""
    version: Text
    """Version of the backend in the report."""
    reference: Text
    """The report as a reader finds it."""


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
    """A vendor's claim: `faster_low` to `faster_high` times as fast."""

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
    failures: tuple[TpuFailure, ...]
    support: SupportMatrix

    def find_failure(self, model: str, accelerator: str) -> TpuFailure | None:
        """The report that a model does not run on a chip."""
        wanted = model.casefold()
        rows = (row for row in self.failures if row.accelerator == accelerator)
        return next((row for row in rows if wanted in map(str.casefold, row.models)), None)

    def rate(self, model: str, architecture: str, accelerator: str, chips: int = 1) -> Support:
        """How far a model and its class are known to run on slices of a chip; `chips` of the slice in question."""
        if self.find_failure(model, accelerator) is not None:
            return "failing"
        own = [row for row in self.support.rows if row.is_of(model)]
        here = next((row for row in own if row.accelerator == accelerator), None)
        if here is not None and here.passes:
            return "passing"
        if here is not None and here.lacks_memory and chips <= self.support.slice_chips:
            return "not_enough_hbm"
        return self._rate_class(architecture, accelerator, passes_elsewhere=any(row.passes for row in own))

    def _rate_class(self, architecture: str, accelerator: str, *, passes_elsewhere: bool) -> Support:
        """The support of a model that no test of this generation decides, by the other models of its class."""
        name = normalize(architecture)
        alike = [row.accelerator for row in self.support.rows if name and row.passes and normalize(row.architecture) == name]
        if accelerator in alike:
            return "same_class"
        if not any(terms.accelerator == accelerator and terms.vllm == "recommended" for terms in self.generations):
            return "untested"
        if alike or passes_elsewhere:
            return "other_generation"
        listed = bool(name) and lists_model(self.support.engine, architecture=architecture, model_type="")
        return "implemented" if listed else "untested"

    def terms(self, generation: str) -> TpuTerms | None:
        """The terms of a generation; `None` if none were read."""
        return next((row for row in self.generations if row.id == generation), None)


@cache
def load_decision_rules() -> DecisionRules:
    """The bundled rules, read at the first call."""
    return read_rows(DecisionRules, DATA / "gpu_or_tpu.json")


@cache
def load_tpu_software() -> TpuSoftware:
    """The bundled rows, read at the first call."""
    return read_rows(TpuSoftware, DATA / "tpu_software.json")
