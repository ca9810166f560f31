"""Files to copy for a recommendation: the README's front matter, requirements.txt or a Dockerfile, the line that starts a server.

    write_setup(entry, catalog, model="Qwen/Qwen3-8B", framework="pytorch").requirements

`entry` is a place of `/recommend` (its hardware, platform, accelerator, engine, sdk, devices, replicas and precision are read). Versions
are the releases of the day in `lib/data/frameworks.json`, with their source; nothing is looked up while the app runs. ZeroGPU takes the
newest torch of its own list. Endpoints, Jobs and Cloud TPU have no front matter; how servers are started is in `lib.present.snippets`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from lib.advisor.result import ConfiguredHardware
from lib.answers.files import FilesAnswer
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_OFFERS, tier_of
from lib.catalog.rules import ZeroGpuRules
from lib.engines import TRAITS
from lib.engines import traits_of as engine_traits
from lib.errors import BadArgument
from lib.live.zerogpu import start_seconds, whole_seconds
from lib.model.spec import ModelSpec
from lib.platforms import TRAITS as PLATFORMS
from lib.platforms import Framework, PlatformTraits, traits_of
from lib.precision import resolve as resolve_precision
from lib.precision import weight_format
from lib.present.app_files import ANSWER_TOKENS, FORMAT_PACKAGES, AppFile, AppPlace, find_kind, picture_of, write_app
from lib.present.cards import source_list
from lib.present.markup import bullet_list, code_blocks, escape, fold
from lib.present.releases import Versions, load_versions
from lib.present.sentences import note, say
from lib.present.snippets import (
    PORT,
    Instance,
    Start,
    command_words,
    dockerfile,
    endpoint_command,
    job_command,
)
from lib.present.templates import render
from lib.provenance import Source
from lib.request.serving import DEFAULTS, Serving, keep_experts_in_host
from lib.workload import AS_THE_PIPELINE

FRAMEWORKS: dict[Framework, str] = {"pytorch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}
SERVERS_OF_OWN = frozenset(name for name, row in TRAITS.items() if row.command is not None and not row.in_process)
"""Engines that a command starts on a machine of one's own; llama.cpp comes as a package there."""
_SOME_MODEL = "organization/model"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_HUB_FILE = re.compile(_HUB_ID.pattern + r":\w[\w.+/-]{0,199}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9._-]{1,80}")
_note, _say = partial(note, "files"), partial(say, "files")
_comment = partial(say, "files", "comments")
_TORCH_INDEX = "https://download.pytorch.org/whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The files, each ending with a line break; `None` for those that it does not take.

    `front_matter` is the head of a Space's README.md, `app` its app.py, `requirements` its Python packages, `dockerfile` that of a Docker
    Space. `command` is a line of `hf` that starts a Job or an Inference Endpoint.
    """

    framework: Framework
    front_matter: str | None
    app: str | None = None
    tested_with: str = "none"
    """The part of such an app that the tests executed."""
    requirements: str | None
    dockerfile: str | None = None
    command: str | None = None
    notes: tuple[str, ...]
    sources: tuple[Source, ...]


def write_setup(
    entry: ConfiguredHardware,
    catalog: Catalog,
    *,
    model: str = "",
    task: str = "",
    spec: ModelSpec | None = None,
    framework: str = "pytorch",
    context_tokens: int = 0,
    sequences: int = 1,
    serving: Serving = DEFAULTS,
) -> Setup:
    """The files for one place of a recommendation and a Hub task; `spec` says more about the model where it is known.

    They serve requests of at most `context_tokens` (0: the engine's own), so many at a time, with the settings of `serving`.

    Raises:
        BadArgument: the platform or the hardware cannot be one, or the platform or the engine does not run the framework.
    """
    zerogpu = catalog.rules.zerogpu
    platform = str(entry.platform)
    if platform not in PLATFORMS:
        raise BadArgument("platform", platform, ", ".join(PLATFORMS))
    place = traits_of(platform)
    if place.runs == "machine" and catalog.accelerator(str(entry.accelerator)).vendor != "NVIDIA":
        raise BadArgument("hardware", entry.hardware, "a card of NVIDIA, or hardware that is rented: only for these files are written")
    if _ID.fullmatch(str(entry.hardware)) is None:
        raise BadArgument("hardware", entry.hardware, "an id of /list_hardware, such as l4x1")
    versions = load_versions()
    # What the files load: the quantized checkpoint of this precision where one is needed.
    loaded, missing = loaded_repository(entry, model), missing_notes(entry, model)
    head = _front_matter(entry, entry.repository or model, versions) if place.runs_spaces else None
    usable = next((name for name in place.frameworks if name == framework), None)
    if usable is None:
        raise BadArgument("framework", framework, f"{', '.join(place.frameworks)} on {platform}")
    is_server = not engine_traits(entry.engine).own_modules and (entry.sdk == "docker" or place.runs_images)
    starts_command = entry.engine in SERVERS_OF_OWN or entry.cpu_moe_layers > 0  # the package leaves no experts to the host
    if is_server or (place.runs == "machine" and starts_command):
        if usable != "pytorch":
            raise BadArgument("framework", framework, f"pytorch with {entry.engine}, a server that brings its own")
        server = _server(entry, catalog, versions, loaded, _Served(context_tokens, max(1, sequences), serving))
        return replace(server, front_matter=head, notes=(*server.notes, *missing))
    takes_app = usable == "pytorch" and (place.runs_spaces or place.owned)
    app = _app(entry, loaded, task, spec, context_tokens) if takes_app else None
    lines = list(_requirements(entry, usable, versions, zerogpu, app))
    cards = zerogpu.sources[:1] if place.per_call else ()
    metadata = (
        versions.python.as_source(_say("facts", "python")),
        versions.suggested_hardware.as_source(_say("facts", "suggested")),
        versions["gradio"].source,
    )
    return Setup(
        framework=usable,
        front_matter=head,
        app=None if app is None else app.text,
        tested_with="none" if app is None else app.tested_with,
        requirements="\n".join(line for _, line in lines) + "\n",
        dockerfile=render("dockerfile_python.j2", python=versions.python.version.rpartition(".")[0]) if entry.sdk == "docker" else None,
        notes=(_usage_note(place) if app is None or not place.per_call else _quota_note(entry), *missing),
        sources=tuple(
            dict.fromkeys((*(versions[name].source for name, _ in lines if name), *cards, *(metadata if place.runs_spaces else ())))
        ),
    )


def _app(entry: ConfiguredHardware, model: str, task: str, spec: ModelSpec | None, context_tokens: int) -> AppFile | None:
    """The Space's app.py, where this model and engine have one."""
    file_named = engine_traits(entry.engine).own_files and _HUB_FILE.fullmatch(model)
    if find_kind(task, entry.engine) is None or not (_HUB_ID.fullmatch(model) or file_named):
        return None
    return write_app(task, model, describe_place(entry, spec, context_tokens))


def describe_place(entry: ConfiguredHardware, spec: ModelSpec | None, context_tokens: int) -> AppPlace:
    """Device of the code and how it loads the model, in the configuration of the entry."""
    predicted, lent, silicon = entry.speed.predicted, traits_of(entry.platform).per_call, entry.offer.silicon
    half = "bf16" if silicon is None or silicon.supports("bf16") else "fp16"
    return AppPlace(
        precision=entry.precision if spec is None else resolve_precision(entry.precision, spec, entry.engine, silicon),
        engine=entry.engine,
        where="lent gpu" if lent else "cpu" if entry.accelerator is None else "gpu",
        size=next((name for name, offer in ZEROGPU_OFFERS.items() if offer == entry.hardware), "") if lent else "",
        duration_s=_declared_seconds(entry) if lent else None,
        devices=entry.devices,
        compute="fp32" if entry.accelerator is None else half,
        on_load=entry.loading == "quantized on load",
        answer_tokens=ANSWER_TOKENS if predicted is None else max(1, predicted.request.output_tokens),
        context_tokens=context_tokens,
        gpu_layers=0 if entry.accelerator is None else entry.gpu_layers,
        gated=bool(spec is not None and spec.gated),
        model_type="" if spec is None else spec.model_type,
        picture=None if spec is None else picture_of(spec, AS_THE_PIPELINE if predicted is None else predicted.request.pictures),
    )


def _declared_seconds(entry: ConfiguredHardware) -> int | None:
    """The upper estimate of a call, with the start of its process; None if no speed is predicted."""
    if entry.speed.predicted is None or entry.memory is None:
        return None
    return whole_seconds(start_seconds(entry.memory.weights_bytes) + entry.speed.predicted.request_s_at("high"))


GRADIO_PORT = 7860


class _Served(NamedTuple):
    """The longest request, how many at a time, and the server's settings."""

    context_tokens: int
    sequences: int
    settings: Serving


def _server(entry: ConfiguredHardware, catalog: Catalog, versions: Versions, model: str, served: _Served) -> Setup:
    """The files of an engine that is a server: a Docker Space, or the line that starts a Job or an Endpoint."""
    engine, place, precision = str(entry.engine), traits_of(entry.platform), str(entry.precision)
    on_gpu = entry.accelerator is not None
    image = versions.image(engine, "gpu" if on_gpu else "cpu")
    start = Start(
        precision=precision,
        devices=entry.devices,
        context_tokens=served.context_tokens,
        sequences=served.sequences,
        on_gpu=on_gpu,
        gpu_layers=entry.gpu_layers,
        serving=keep_experts_in_host(served.settings, entry.cpu_moe_layers),
    )
    name = model if _HUB_ID.fullmatch(model) or _HUB_FILE.fullmatch(model) else _SOME_MODEL
    words = command_words(engine, name, start)
    command = None
    if place.runs == "machine":
        words[0] = words[0].rpartition("/")[2]  # the program, not its place in an image
        command = shlex.join("127.0.0.1" if word == "0.0.0.0" else word for word in words) + "\n"  # noqa: S104  no other machine
    elif place.runs_jobs:
        command = job_command(image.image, words, str(entry.hardware)) + "\n"
    elif place.runs_images:
        at = catalog.offer(str(entry.hardware), entry.platform).endpoint
        if at is None:
            raise BadArgument("hardware", entry.hardware, "an instance of Inference Endpoints, such as aws-nvidia-l4-x1")
        instance = Instance(
            accelerator="gpu" if on_gpu else "cpu",
            vendor=at.vendor,
            region=at.regions[0],
            instance_type=at.instance_type,
            instance_size=at.instance_size,
            replicas=max(1, entry.replicas),
        )
        command = endpoint_command(engine, name, image.image, start, instance) + "\n"
    routes = _say("routes", "generates" if engine_traits(engine).generates else "embeds")
    notes = [_note("server", port=PORT, routes=routes), *([_note("named_file")] if ":" in name else []), _say("server", place.runs)]
    suggested = (versions.suggested_hardware.as_source(_say("facts", "suggested")),) if place.runs_spaces else ()
    return Setup(
        framework="pytorch",
        front_matter=None,
        requirements=None,
        dockerfile=dockerfile(image.image, words) if place.runs_spaces else None,
        command=command,
        notes=tuple(notes),
        sources=(image.source, *suggested),
    )


def loaded_repository(entry: ConfiguredHardware, model: str) -> str:
    """Repository that the files load: the checkpoint of this precision where one is needed, a placeholder if none is known."""
    return model if entry.repository == "" else _SOME_MODEL if entry.repository is None else entry.repository


def missing_notes(entry: ConfiguredHardware, model: str) -> tuple[str, ...]:
    """Placeholder of an unknown repository."""
    if entry.repository is not None:
        return ()
    form = _say("forms", "gguf" if weight_format(entry.precision, entry.engine).law == "gguf" else "other", precision=entry.precision)
    named = model if _HUB_ID.fullmatch(model) else _say("forms", "unnamed")
    return (_note("placeholder", placeholder=_SOME_MODEL, form=form, model=named),)


def _quota_note(entry: ConfiguredHardware) -> str:
    """Declaration of a call, and its request."""
    seconds, of = _declared_seconds(entry), entry.speed.predicted
    if seconds is None or of is None:
        return _note("no_duration")
    if of.tpot_s is None:
        return _note("duration", seconds=seconds)
    request = of.request
    return _note("duration_of_tokens", seconds=seconds, prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens)


def _usage_note(place: PlatformTraits) -> str:
    """How the files are used there."""
    return _note("per_call") if place.per_call else _say("place", place.runs)


def _title(model: str) -> str:
    """The model's own name if there is a Hub id."""
    repository = model.partition(":")[0]
    return repository.partition("/")[2] if _HUB_ID.fullmatch(repository) else "My Space"


def _front_matter(entry: ConfiguredHardware, model: str, versions: Versions) -> str:
    """The block at the head of README.md; YAML's own writer quotes its values."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  comes with huggingface_hub, and is not needed to start

    hardware = tier_of(str(entry.hardware))
    metadata: dict[str, object] = {"title": _title(model)}
    if entry.sdk == "docker":
        metadata |= {"sdk": "docker", "app_port": GRADIO_PORT if engine_traits(entry.engine).own_modules else PORT}
    else:
        version = versions["gradio"].version
        metadata |= {"sdk": "gradio", "sdk_version": version, "python_version": versions.python.version, "app_file": "app.py"}
    why = _comment("not_suggested", hardware_id=hardware, day=versions.suggested_hardware.checked)
    if hardware in versions.suggested_hardware.values:
        metadata["suggested_hardware"] = hardware
        why = _comment("suggested", hardware_id=hardware)
    if _HUB_ID.fullmatch(model.partition(":")[0]):
        metadata["models"] = [model.partition(":")[0]]
    return f"---\n{why}\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"


def _requirements(
    entry: ConfiguredHardware, framework: Framework, versions: Versions, zerogpu: ZeroGpuRules, app: AppFile | None
) -> Iterator[tuple[str, str]]:
    """The lines of requirements.txt, each after the package that it pins ("" for a line without a pin); for an app its imports."""
    on_tpu, on_cpu = traits_of(entry.platform).rents_tpus, entry.accelerator is None

    def pin(name: str, extra: str = "") -> tuple[str, str]:
        return name, versions[name].line(extra)

    match framework:
        case "pytorch":
            yield from _pytorch(entry, versions, zerogpu, app)
        case "jax":
            if on_tpu:
                yield "", _comment("jax_on_tpu")
            elif not on_cpu:
                yield "", _comment("jax_on_gpu")
            yield pin("jax", "tpu" if on_tpu else "" if on_cpu else "cuda13")
            yield "", _comment("port", framework=FRAMEWORKS[framework])
            yield pin("flax")
        case "tensorflow":
            if not on_cpu:
                yield "", _comment("tensorflow_on_gpu")
            yield pin("tensorflow", "" if on_cpu else "and-cuda")
            yield "", _comment("port", framework=FRAMEWORKS[framework])


def _pytorch(entry: ConfiguredHardware, versions: Versions, zerogpu: ZeroGpuRules, app: AppFile | None) -> Iterator[tuple[str, str]]:
    engine, place, torch = engine_traits(entry.engine), traits_of(entry.platform), versions["torch"]
    package = FORMAT_PACKAGES.get(weight_format(entry.precision, entry.engine).law)
    names = ["torch", "transformers", "accelerate", *([package] if package else [])] if app is None else [*app.packages]
    if engine.package and not place.per_call:
        yield "", f"# {engine.package_note}"
        names = [engine.package]
    elif place.rents_tpus:
        yield "", _comment("torch_on_tpu", brings=versions["torch_tpu"].brings or "")
        names = ["torch_tpu", "torch", "transformers"]
    elif place.per_call:
        names.remove("torch")
        admitted = zerogpu.torch_versions
        yield "", _comment("torch_on_zerogpu", releases=", ".join(admitted))
        yield "", f"torch=={max(admitted, key=lambda version: [int(part) for part in version.split('.')])}"
        yield "spaces", f"spaces>={versions['spaces'].version}"
    elif entry.accelerator is None:
        yield "", _comment("torch_on_cpu")
        yield "", f"--extra-index-url {_TORCH_INDEX}/cpu"
    else:
        yield "", _comment("torch_on_gpu", brings=torch.brings or "")
        yield "", _comment("torch_older", index=_TORCH_INDEX)
    if entry.sdk == "docker" or (app is not None and not place.runs_spaces):
        names.append("gradio")
    for name in names:
        if versions[name].follows:
            yield "", _comment("follows", package=versions[name].follows)
        yield name, versions.requirement(name)


def setup_code(setup: Setup) -> str:
    """The files of a recommendation, with notes and the sources of the versions, each with its date."""
    blocks = [] if setup.front_matter is None else [(_say("blocks", "head"), setup.front_matter)]
    files = (
        ("app.py", setup.app),
        ("requirements.txt", setup.requirements),
        ("Dockerfile", setup.dockerfile),
        ("hf command" if (setup.command or "").startswith("hf ") else "Command", setup.command),
    )
    blocks += [(name, text) for name, text in files if text is not None]
    return _code(blocks, setup.notes, setup.sources)


def files_code(answer: FilesAnswer) -> str:
    """The files of `/write_files` and the line that starts them, with their notes and sources."""
    command = [] if answer.command is None else [("Command", answer.command)]
    return _code([*answer.files.items(), *command], answer.notes, answer.sources)


def _code(blocks: Sequence[tuple[str, str]], notes: Sequence[str], sources: Sequence[Source]) -> str:
    listed = bullet_list([escape(note) for note in notes], "notes")
    return code_blocks(blocks) + listed + fold(_say("blocks", "origin"), source_list(sources))
