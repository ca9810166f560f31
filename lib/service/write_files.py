"""`/write_files`: the files that run a model on hardware, in the configuration that the advisor finds for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from lib import advisor
from lib.advisor.candidates import task_of
from lib.advisor.result import ConfiguredHardware, Recommendation
from lib.answers.files import FilesAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Hardware as AnyHardware
from lib.engines import TRAITS as ENGINES
from lib.engines import Engine, traits_of
from lib.errors import BadArgument
from lib.memory.training import check_training, fuses_loss
from lib.model.spec import ModelSpec
from lib.platforms import TRAITS as PLATFORMS
from lib.precision import QLORA, TORCH_DTYPES
from lib.present.app_files import Purpose, PurposeRow, find_kind, list_tasks, load_kinds
from lib.present.batch_files import SCRIPT, batch_command, batch_job, write_batch
from lib.present.releases import load_versions
from lib.present.sentences import sentence
from lib.present.setup_files import describe_place, loaded_repository, missing_notes, write_setup
from lib.present.snippets import Start
from lib.present.training_files import (
    CONFIG,
    accelerate_config,
    job_command,
    launch_command,
    list_packages,
    load_recipes,
    training_script,
)
from lib.present.training_files import SCRIPT as TRAINING_SCRIPT
from lib.provenance import Caveat, Source
from lib.request.fields import Arguments, Asked, one_of
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.types import AUTO, MAX_TOKENS, AnyEngine, Concurrency, Hardware, Model, Precision, Tokens, TokensOrNone
from lib.service.endpoint import App, endpoint
from lib.speed.training import rank_hardware, train_on
from lib.units import GIB
from lib.workload import TASKS, Sdk, TrainingRequest, Workload

PURPOSES: tuple[Purpose, ...] = tuple(row.name for row in load_kinds().purposes)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(:\w[\w.+/-]{0,199})?", re.ASCII)
ANSWER_TOKENS = 512
TRAINING_HOURS = 8
"""Hours that a training on Jobs gets (half as many again): how long it takes depends on the dataset, which is not asked."""
Tried = Engine | Literal["auto"]


class FilesArguments(Arguments):
    """Arguments of `/write_files`."""

    model: Model
    hardware: Hardware
    """An id such as l4x1, zero-a10g or jobs:a10g-small, or own cards such as RTX-4090x2."""
    purpose: Annotated[Purpose, one_of(PURPOSES, Purpose)] = "serve"
    """app: a Gradio app; serve: a server; train: a script of TRL; batch: a script that works through a dataset; job: the same on Jobs."""
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
    step: Annotated[TrainingRequest, Asked("method objective rank sequence_tokens micro_batch accumulation")] = TrainingRequest(
        accumulation=8
    )
    serving: ServingSettings = DEFAULTS

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


@endpoint(heavy=True)
def write_files(app: App, arguments: FilesArguments) -> FilesAnswer:
    """The files that run a model on hardware: an app, a server or a script, in the configuration that /recommend finds for it.

    Returns:
        The text of each file, the command that starts them, what they load, and what the project's tests ran of them.
    """
    catalog = app.catalog()
    row = next(row for row in load_kinds().purposes if row.name == arguments.purpose)
    hardware = resolve_hardware(catalog, arguments.hardware, row)
    spec = app.models(arguments.model)
    if _HUB_ID.fullmatch(spec.id) is None:
        raise BadArgument(
            "model", spec.id or arguments.model, "the Hub id of a model, such as Qwen/Qwen3-8B: the files load it by its name"
        )
    question = Question(app=app, arguments=arguments, catalog=catalog, spec=spec, hardware=hardware, row=row)
    made = _WRITERS[row.writer](question)
    page = f"https://huggingface.co/{spec.id.partition(':')[0]}"
    untried = made.tested_with.startswith("executed") and made.precision not in {AUTO, *TORCH_DTYPES}
    return FilesAnswer(
        model=spec.id,
        purpose=arguments.purpose,
        task=question.task,
        precision=made.precision,
        engine=made.engine,
        devices=made.devices,
        files=made.files,
        command=made.command,
        runs_on=hardware.id if hardware.traits.owned else f"{hardware.platform}:{hardware.id}",
        repository=made.repository,
        notes=(
            *made.notes,
            *((f"The model is gated: accept its terms on {page} first.",) if spec.gated else ()),
            *((f"The tests ran such a file in float32 on a processor; loading in {made.precision} was not run.",) if untried else ()),
        ),
        tested_with=made.tested_with,
        caveats=made.caveats,
        sources=made.sources,
    )


def resolve_hardware(catalog: Catalog, name: object, row: PurposeRow) -> AnyHardware:
    """The hardware of this name on a platform of the purpose.

    Raises:
        UnknownHardware: nothing is called so.
        BadArgument: it is hardware of other platforms, with the purposes that it is for.
    """
    hardware = catalog.resolve_hardware(name)
    if hardware.platform in row.platforms:
        return hardware
    offers = (catalog.names.by_id.get((platform, hardware.id)) for platform in row.platforms)
    found = next((offer for offer in offers if offer is not None and offer.listed), None)
    if found is not None:
        return found
    places = ", ".join(PLATFORMS[platform].label for platform in row.platforms)
    able = ", ".join(other.name for other in load_kinds().purposes if hardware.platform in other.platforms)
    raise BadArgument(
        "hardware", hardware.id, f"hardware of {places} for the purpose {row.name}; the purposes of {hardware.id} are {able or 'none'}"
    )


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
    """The configuration on the hardware; None where it does not run the model."""
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


def _write_app(question: Question) -> Written:
    """A Gradio app, or a server: a Docker Space, or the line that starts it."""
    (entry, answer), arguments = find_configuration(question), question.arguments
    setup = write_setup(
        entry,
        question.catalog,
        model=question.spec.id,
        task=question.task,
        spec=question.spec,
        context_tokens=arguments.context_tokens,
        sequences=arguments.concurrency,
        serving=arguments.serving,
    )
    kinds = question.row.kinds
    if kinds is not None and setup.app is None:
        raise BadArgument(
            "precision", entry.precision, f"a format that {entry.engine} loads there by itself: no app is written for this one"
        )
    named = {"README.md": setup.front_matter, "app.py": setup.app, "requirements.txt": setup.requirements, "Dockerfile": setup.dockerfile}
    upload = "hf upload my-name/my-space . --type space" if question.hardware.traits.runs_spaces else None
    start = None if kinds is None else "python app.py"
    return Written(
        **_facts(question, entry, answer),
        files={name: text for name, text in named.items() if text is not None},
        command=setup.command.rstrip("\n") if setup.command else upload or start,
        tested_with=question.row.tested_with or setup.tested_with,
        notes=setup.notes,
        sources=(*setup.sources, *answer.sources),
    )


def _write_batch(question: Question) -> Written:
    """A script for rows of a dataset."""
    entry, answer = find_configuration(question)
    kind = find_kind(question.task, entry.engine, question.spec.model_type, question.row.kinds or ())
    assert kind is not None  # noqa: S101  `suits` saw to it
    place = describe_place(entry, question.spec, question.arguments.context_tokens)
    start = Start(
        precision=place.precision,
        devices=entry.devices,
        context_tokens=question.arguments.context_tokens,
        sequences=question.arguments.concurrency,
        on_gpu=entry.accelerator is not None,
        serving=question.arguments.serving,
    )
    made = write_batch(kind, loaded_repository(entry, question.spec.id), place, start)
    if made is None:
        raise BadArgument("precision", entry.precision, f"a format that {entry.engine} loads there: no script is written for this one")
    versions, traits = load_versions(), traits_of(entry.engine)
    on_jobs = question.hardware.traits.runs_jobs
    image = None if traits.own_modules or not on_jobs else versions.image(entry.engine, on_gpu=entry.accelerator is not None).image
    return Written(
        **_facts(question, entry, answer),
        files={SCRIPT: made.text},
        command=batch_job(entry.hardware, image) if on_jobs else batch_command(),
        tested_with=made.tested_with,
        notes=(
            f'It reads the column "{kind.column}"; --column names another one, --limit 10 tries ten rows first.',
            *(("Replace both datasets by your own. The result is a private dataset: the disk of a Job is lost.",) if on_jobs else ()),
            *missing_notes(entry, question.spec.id),
        ),
        sources=(*(versions[name].source for name in made.packages), *answer.sources),
    )


def _facts(question: Question, entry: ConfiguredHardware, answer: Recommendation) -> dict[str, Any]:
    return {
        "precision": entry.precision,
        "engine": entry.engine,
        "devices": entry.devices,
        "repository": question.spec.id if entry.repository == "" else entry.repository,
        "caveats": answer.caveats,
    }


def _write_training(question: Question) -> Written:
    """A script of TRL, and for several GPUs the configuration of accelerate."""
    spec, hardware, step = question.spec, question.hardware, question.arguments.step
    recipe = load_recipes().get(step.objective)
    if recipe is None:
        raise BadArgument("objective", step.objective, ", ".join(load_recipes()))
    check_training(spec, step)
    asked = replace(step, devices=max(1, hardware.accelerator_count), sharding="fsdp" if hardware.accelerator_count > 1 else "none")
    options = [
        option
        for tried in (step, asked)
        for option in rank_hardware(spec, tried, question.catalog, (hardware.platform,), total_tokens=1)
        if option.hardware in {hardware.id, hardware.processor.id} and option.devices <= max(1, hardware.accelerator_count)
    ]
    option = next((option for option in options if option.verdict != "no"), None)
    if option is None:
        least = min((option.needed_bytes for option in options), default=None)
        why = f"it takes {least / GIB:,.1f} GiB on each GPU here" if least is not None else "no training is computed for this one"
        raise BadArgument("hardware", hardware.id, f"hardware that trains this model so, which /estimate_training lists: {why}")
    request = replace(train_on(hardware.processor, step), devices=option.devices, sharding=option.sharding)
    half = "fp16" if request.fp16 else "bf16"
    script = training_script(spec.id, request, fused=fuses_loss(request), epochs=1, half=half)
    config = accelerate_config(request, half=half)
    on_jobs, versions = hardware.traits.runs_jobs, load_versions()
    ends = f"The Job ends after {round(1.5 * TRAINING_HOURS)} h: /estimate_training predicts the hours of your dataset."
    quantized = request.method == "qlora"
    return Written(
        precision=QLORA[request.double_quantization] if quantized else option.compute_dtype,
        engine="transformers",
        devices=option.devices,
        repository=spec.id,
        caveats=spec.caveats,
        files={TRAINING_SCRIPT: script} | ({} if config is None else {CONFIG: config}),
        command=job_command(hardware.id, TRAINING_HOURS) if on_jobs else launch_command(),
        tested_with=recipe.tested_with if config is None else "parsed",
        notes=(
            "Replace the dataset by your own; --steps 2 --keep tries two steps and uploads nothing.",
            f"Learning rate {recipe.learning_rate_full if request.method == 'full' else recipe.learning_rate_adapter:g}: {recipe.source}.",
            "The result is uploaded to a private repository named after the folder out.",
            *((ends,) if on_jobs else ()),
        ),
        sources=(
            Source(what=f"learning rates of {recipe.name}", source=recipe.source, checked=recipe.checked),
            *(versions[name].source for name in list_packages(request)),
        ),
    )


_WRITERS = {"setup": _write_app, "batch": _write_batch, "training": _write_training}
"""By the word in `writer` of a purpose."""
