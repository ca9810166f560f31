"""The question of `/write_files`, and the configuration that the advisor finds for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from lib import advisor
from lib.advisor.candidates import task_of
from lib.advisor.result import ConfiguredHardware, Recommendation
from lib.catalog import Catalog
from lib.catalog.offers import Hardware as AnyHardware
from lib.engines import TRAITS as ENGINES
from lib.engines import Engine, traits_of
from lib.errors import BadArgument
from lib.model.spec import ModelSpec
from lib.platforms import TRAITS as PLATFORMS
from lib.present.app_files import Purpose, PurposeRow, find_kind, list_tasks, load_kinds
from lib.present.sentences import sentence
from lib.present.snippets import Start
from lib.provenance import Caveat, Source
from lib.request.fields import Arguments, Asked, one_of
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.types import AUTO, MAX_TOKENS, AnyEngine, Concurrency, Hardware, Model, Precision, Tokens, TokensOrNone
from lib.service.endpoint import App
from lib.workload import ACCUMULATION, TASKS, Sdk, TrainingRequest, Workload

PURPOSES: tuple[Purpose, ...] = tuple(row.name for row in load_kinds().purposes)
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(:\w[\w.+/-]{0,199})?", re.ASCII)
ANSWER_TOKENS = 512
Tried = Engine | Literal["auto"]


class FilesArguments(Arguments):
    """Arguments of `/write_files`."""

    model: Model
    hardware: Hardware
    """An id such as l4x1, zero-a10g or jobs:a10g-small, or own cards such as RTX-4090x2."""
    purpose: Annotated[Purpose, one_of(PURPOSES, Purpose)] = "serve"
    """app: a Gradio app; serve: a server; tpu: a server on a slice of Cloud TPU, in Kubernetes or on a TPU VM; multi-node: a server on
    the fewest machines that hold the model together, with Ray; train: a script that fine-tunes the model; batch: a script that
    works through a dataset; job: the same on Jobs."""
    precision: Precision = "auto"
    engine: AnyEngine = "auto"
    """The program that runs the model; auto takes one that suits the purpose."""
    concurrency: Concurrency = 1
    """Requests that are served at the same time; of a script, rows in a batch."""
    context_tokens: Tokens = 4096
    """Tokens of the longest request, prompt and answer together."""
    output_tokens: TokensOrNone = 0
    """Tokens of an answer; 0 is 512, at most half of the context."""
    task: Annotated[str, one_of(TASKS)] = "auto"
    """A Hub task such as text-generation; auto is the model's own."""
    step: Annotated[
        TrainingRequest,
        Asked(
            "method objective rank sequence_tokens micro_batch accumulation generations completion_tokens rollouts negatives cached_batch "
            "width height frames base_precision images image_width image_height train_tower"
        ),
    ] = TrainingRequest(accumulation=ACCUMULATION)
    serving: ServingSettings = DEFAULTS
    behind = ("serving negatives cached_batch width height frames base_precision",)

    def workload(self, spec: ModelSpec, platform: str, sdk: Sdk | Literal["auto"], engine: Tried) -> Workload:
        """The question to the advisor; traffic is not part of it."""
        return replace(
            Workload(),
            task=self.task,
            context_tokens=self.context_tokens,
            output_tokens=self.output_tokens or min(ANSWER_TOKENS, max(1, min(self.context_tokens, spec.context_limit or MAX_TOKENS) // 2)),
            concurrency=self.concurrency,
            requests_per_day=0,
            account="pro",  # whether an account may host the Space is not the question
            precision=self.precision,
            engine=engine,
            sdk=sdk,
            platforms=() if PLATFORMS[platform].owned else (platform,),
            serving=self.serving,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files of one configuration."""

    precision: str
    engine: str
    devices: int
    repository: str | None
    caveats: tuple[Caveat, ...]
    files: Mapping[str, str]
    command: str | None
    tested_with: str
    machines: int = 1
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A model on hardware, for a purpose."""

    app: App
    arguments: FilesArguments
    catalog: Catalog
    spec: ModelSpec
    hardware: AnyHardware
    row: PurposeRow

    @property
    def task(self) -> str:
        """The Hub task."""
        return task_of(self.arguments.task, self.spec)

    def start(self, entry: ConfiguredHardware) -> Start:
        """The settings of an engine in this configuration."""
        return Start(
            precision=entry.precision,
            devices=entry.devices,
            context_tokens=self.arguments.context_tokens,
            sequences=self.arguments.concurrency,
            on_gpu=entry.accelerator is not None,
            serving=self.arguments.serving,
        )

    def suits(self, entry: ConfiguredHardware) -> bool:
        """Whether files are written for this purpose with the engine of the entry."""
        if self.row.kinds is None:
            return traits_of(entry.engine).command is not None
        return entry.sdk != "docker" and find_kind(self.task, entry.engine, self.spec.model_type, self.row.kinds) is not None

    def engines(self) -> tuple[Tried, ...]:
        """The engines to try: as asked; else the one that the advisor takes, then those that files of the purpose are written for."""
        if self.arguments.engine != AUTO:
            return (self.arguments.engine,)
        if self.row.kinds is None:
            return (AUTO, *(name for name, row in ENGINES.items() if row.command is not None))
        return (AUTO, *dict.fromkeys(name for kind in self.row.kinds for name in kind.engines))


def find_configuration(question: Question) -> tuple[ConfiguredHardware, Recommendation]:
    """The configuration in which the hardware runs the model with an engine that suits the purpose.

    Raises:
        BadArgument: no engine does, with the reason and what would.
    """
    unsuited: list[str] = []
    unnamed: list[tuple[ConfiguredHardware, Recommendation]] = []
    refusal: BadArgument | None = None
    for engine in question.engines():
        answer = _ask(question, engine)
        entry = _entry(question, answer)
        if entry is None or (entry.gpu_layers >= 0 and question.arguments.engine == AUTO):  # layers on the processor have to be asked for
            refusal = refusal or (_refuse(question, answer) if entry is None else None)
        elif not question.suits(entry):
            unsuited.append(entry.engine)
        elif entry.repository is not None:
            return entry, answer
        else:
            unnamed.append(_name_checkpoint(question, engine, entry, answer))
    named = next((pair for pair in unnamed if pair[0].repository is not None), None)
    if named or unnamed:  # a checkpoint that is known, else one for which the files hold a placeholder
        return named or unnamed[0]
    if unsuited and question.row.kinds is not None:
        accepted = f"a task that the purpose {question.row.name} has files for: {', '.join(list_tasks(question.row.kinds))}"
        raise BadArgument("task", f"{question.task} of a {question.spec.model_type or question.spec.library} with {unsuited[0]}", accepted)
    if unsuited:
        servers = ", ".join(name for name, row in ENGINES.items() if row.command is not None and question.spec.work in row.works)
        raise BadArgument("engine", unsuited[0], f"{servers or 'none'} to serve this model, or purpose app for a program of its own")
    assert refusal is not None  # noqa: S101  at least one engine was asked
    raise refusal


def _name_checkpoint(
    question: Question, engine: Tried, entry: ConfiguredHardware, answer: Recommendation
) -> tuple[ConfiguredHardware, Recommendation]:
    """The same with the repository that holds the checkpoint, where the Hub lists one."""
    published = question.app.quantized(question.spec.id)
    if not published:
        return entry, answer
    known = _ask(question, engine, published)
    named = _entry(question, known)
    return (entry, answer) if named is None or not question.suits(named) else (named, known)


def _ask(question: Question, engine: Tried, published: Mapping[str, str] | None = None) -> Recommendation:
    platform, owned = question.hardware.platform, question.hardware.traits.owned
    sdk: Sdk | Literal["auto"] = AUTO if not question.hardware.traits.runs_spaces else "docker" if question.row.kinds is None else "gradio"
    workload = question.arguments.workload(question.spec, platform, sdk, engine)
    return advisor.recommend(question.spec, workload, question.catalog, published=published, own=question.hardware if owned else None)


def _entry(question: Question, answer: Recommendation) -> ConfiguredHardware | None:
    """The configuration on the hardware; None if it does not run the model."""
    if answer.own is not None:
        return answer.own.runs_as
    return next((entry for entry in answer.ranked if entry.offer.id == question.hardware.id), None)


def _refuse(question: Question, answer: Recommendation) -> BadArgument:
    """Why the hardware does not run the model, and which does."""
    if answer.own is not None:
        reasons, larger = answer.own.obstacles, next((entry.hardware for entry in answer.own.larger), None)
    else:
        rejection = next(rejection for rejection in answer.rejected if rejection.offer.id == question.hardware.id)
        reasons, larger = (rejection.reason,), None if answer.pick is None else f"{answer.pick.platform}:{answer.pick.hardware}"
    why = " ".join(sentence(reason) for reason in reasons[:1]).rstrip(".")
    other = f"such as {larger}" if larger else "which /recommend finds"
    return BadArgument(
        "hardware", question.hardware.id, f"hardware that runs this model as asked, {other}. On {question.hardware.name}: {why}"
    )
