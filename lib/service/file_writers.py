"""The files of `/write_files`, one function for each way to put them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lib.advisor.machines import MOST_MACHINES, MachineGroup, find_machines
from lib.advisor.result import ConfiguredHardware, Recommendation
from lib.advisor.tpu_options import HOME_REGION
from lib.catalog.gpu_or_tpu import load_tpu_software
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.offers import Offer
from lib.engines import TRAITS as ENGINES
from lib.engines import traits_of
from lib.errors import BadArgument
from lib.memory.objectives import as_trained
from lib.memory.picture_training import refuse_picture_arguments, trains_pictures
from lib.memory.rollouts import server_tensor_parallel
from lib.memory.stacks import fuses_loss, quantized_base
from lib.memory.tower import read_examples
from lib.memory.trained import frozen_pattern
from lib.memory.training import check_training
from lib.present.app_files import find_kind
from lib.present.batch_files import SCRIPT, batch_command, batch_job, write_batch
from lib.present.cluster_files import disk_gib, gpu_packages, load_cluster_facts, lws_manifest, serve_script, sky_task
from lib.present.releases import load_versions
from lib.present.sentences import note, say, sentence
from lib.present.setup_files import describe_place, loaded_repository, missing_notes, write_setup
from lib.present.snippets import PORT, command_words
from lib.present.tpu_recipes import RecipeChoice, environment, gke_manifest, tpu_vm_scripts, vllm_on_tpu
from lib.present.training_files import (
    CONFIG,
    accelerate_config,
    find_recipe,
    job_command,
    launch_command,
    list_packages,
    list_scripts,
    training_script,
)
from lib.present.training_files import SCRIPT as TRAINING_SCRIPT
from lib.provenance import Source, Value
from lib.request.types import AUTO
from lib.service.files_question import Question, Written, find_configuration
from lib.service.picture_writer import job_notes, write_picture_training
from lib.speed.training import train_on
from lib.speed.training_hardware import judge_hardware, rented_for_vllm, trains_on

TRAINING_HOURS = 8
"""Hours that a training on Jobs gets (half as many again): how long it takes depends on the dataset, which is not asked."""


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
    start = replace(question.start(entry), precision=place.precision)
    made = write_batch(kind, loaded_repository(entry, question.spec.id), place, start)
    if made is None:
        raise BadArgument("precision", entry.precision, f"a format that {entry.engine} loads there: no script is written for this one")
    versions, traits = load_versions(), traits_of(entry.engine)
    on_jobs = question.hardware.traits.runs_jobs
    image = None if traits.own_modules or not on_jobs else versions.image(entry.engine, "cpu" if entry.accelerator is None else "gpu").image
    return Written(
        **_facts(question, entry, answer),
        files={SCRIPT: made.text},
        command=batch_job(entry.hardware, image) if on_jobs else batch_command(),
        tested_with=made.tested_with,
        notes=(
            note("files", "column", column=kind.column),
            *((note("files", "datasets"),) if on_jobs else ()),
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


def _write_tpu(question: Question) -> Written:
    """Manifests for GKE, and scripts for a TPU VM where the generation has them."""
    offer, software = question.hardware, load_tpu_software()
    assert isinstance(offer, Offer) and offer.tpu is not None  # noqa: PT018, S101  the purpose has no other platform
    # The configuration, which must use all hosts.
    generation, hosts = offer.tpu.generation, offer.tpu.hosts
    terms, matrix = software.terms(generation.id), software.support
    assert terms is not None  # noqa: S101  a test compares the two files
    entry, answer = find_configuration(question)
    if hosts > 1 and entry.devices < offer.accelerator_count:
        accepted = f"a slice of one host: vLLM splits this model over {entry.devices} of the {offer.accelerator_count} chips"
        raise BadArgument("hardware", offer.id, f"{accepted}, and starts no copies on the other {hosts} hosts")
    choice = RecipeChoice(
        offer=offer,
        terms=terms,
        model=loaded_repository(entry, question.spec.id),
        start=question.start(entry),
        weights_bytes=0 if entry.memory is None else entry.memory.weights_bytes,
        region=HOME_REGION,
        spot=False,
        optimum=software.optimum,
        optimum_lists_model=False,
    )
    recipes, files = [environment(choice), gke_manifest(choice)], {}
    if hosts == 1 and generation.runtime_version is not None:
        recipes.append(vllm_on_tpu(choice))
        files = tpu_vm_scripts(choice)
    versions = load_versions()
    return Written(
        **_facts(question, entry, answer),
        files={"gke.yaml": recipes[1].code} | files,
        command="kubectl apply -f gke.yaml",
        tested_with=question.row.tested_with,
        notes=(
            *dict.fromkeys(note for recipe in recipes for note in recipe.notes),
            *missing_notes(entry, question.spec.id),
        ),
        sources=(
            versions.image(entry.engine, "tpu").source,
            software.gke.as_source(say("files", "facts", "labels")),
            software.disks.as_source(say("files", "facts", "disks")),
            matrix.as_source(say("files", "facts", "tested", package=matrix.package, release=matrix.release)),
            *answer.sources,
        ),
    )


def _write_for_machines(question: Question) -> Written:
    """A script for Ray, which Kubernetes and SkyPilot start on the fewest machines that hold the model."""
    machine, facts = question.hardware, load_cluster_facts()
    card = machine.silicon
    device = None if card is None else facts.devices.get(card.vendor)
    if card is None or device is None or card.kind != "gpu" or machine.accelerator_fraction < 1:
        raise BadArgument("hardware", machine.id, f"machines with whole graphics cards of {', '.join(facts.devices)}")
    # The fewest machines that hold the model, and how vLLM splits it over them.
    group = find_group(question, machine)
    entry, plan = group.runs_as, group.serving
    start = replace(question.start(entry), serving=plan, machines=group.machines)
    versions, image = load_versions(), load_versions().image(entry.engine, card.kind)
    words = command_words(entry.engine, loaded_repository(entry, question.spec.id), start)
    script = serve_script(words, machines=group.machines, packages=gpu_packages())
    held = None if entry.memory is None else entry.memory.estimate
    disk = disk_gib(0 if held is None else held.weights_bytes)
    # A manifest for Kubernetes; SkyPilot's task only for cards that it names.
    manifest = lws_manifest(
        script,
        device=device,
        devices=machine.accelerator_count,
        machines=group.machines,
        environment={},
        image=image.image,
        selector={},
        disk_gib=disk,
        port=PORT,
    )
    files, name = {"serve.sh": script, "lws.yaml": manifest}, facts.sky.accelerators.get(card.id)
    if name is not None:
        files["sky.yaml"] = sky_task(name, devices=machine.accelerator_count, machines=group.machines, image=image.image, disk_gib=disk)
    split: dict[str, Value] = {"machines": group.machines, "cards": machine.accelerator_count, "card": card.name}
    return Written(
        precision=entry.precision,
        engine=entry.engine,
        devices=entry.devices,
        machines=group.machines,
        repository=question.spec.id if entry.repository == "" else entry.repository,
        caveats=(*question.spec.caveats, *(() if held is None else held.caveats)),
        files=files,
        command="kubectl apply -f lws.yaml",
        tested_with=question.row.tested_with,
        notes=(
            *((note("files", "one_machine", platform=machine.traits.label),) if machine.traits.one_machine else ()),
            note("files", "split", **split, tensor=plan.tensor_parallel or 1, groups=plan.pipeline_parallel or 1),
            note("files", "start"),
            note("files", "network"),
            note("files", "weights", disk_gib=disk),
            note("recipes", "lws", release=facts.lws.version),
            note("recipes", "secret"),
            note("files", "sky_lacks", card=card.name) if name is None else note("files", "sky"),
            *missing_notes(entry, question.spec.id),
        ),
        sources=(
            facts.parallelism.as_source(say("files", "facts", "parallelism")),
            facts.ray.as_source(say("files", "facts", "ray")),
            facts.lws.as_source(f"LeaderWorkerSet {facts.lws.version}"),
            *((facts.sky.as_source(f"SkyPilot {facts.sky.version}"),) if name is not None else ()),
            image.source,
            versions["ray"].source,
            *question.spec.sources,
            *(() if held is None else held.sources),
        ),
    )


def find_group(question: Question, machine: AnyHardware) -> MachineGroup:
    """The fewest machines that hold the model, more than one, with the repository of its checkpoint where the Hub lists one.

    Raises:
        BadArgument: one machine is enough, or none of them are; or no engine runs this model on several machines.
    """
    able = [
        name for name, row in ENGINES.items() if row.command is not None and row.command.over_machines and question.spec.work in row.works
    ]
    asked = question.arguments.engine
    if not able or asked not in {AUTO, *able}:
        raise BadArgument("engine", asked, f"{', '.join(able) or 'none'} to run this model on several machines")
    workload = question.arguments.workload(question.spec, machine.platform, AUTO, able[0])
    found = find_machines(question.spec, workload, question.catalog, machine)
    if isinstance(found, MachineGroup) and found.machines > 1 and found.runs_as.repository is None:
        published = question.app.quantized(question.spec.id)
        named = find_machines(question.spec, workload, question.catalog, machine, published) if published else found
        found = named if isinstance(named, MachineGroup) and named.runs_as.repository is not None else found
    if not isinstance(found, MachineGroup):
        why = " ".join(sentence(reason) for reason in found[:1]).rstrip(".")
        accepted = f"machines of which at most {MOST_MACHINES} hold this model as asked. On {MOST_MACHINES} of {machine.name}: {why}"
        raise BadArgument("hardware", machine.id, accepted)
    if found.machines == 1:
        larger = "a more exact precision, a longer context or smaller machines"
        accepted = f"serve: one machine holds this model in {found.runs_as.precision}; several are for {larger}"
        raise BadArgument("purpose", question.row.name, accepted)
    return found


def _write_training(question: Question) -> Written:
    """A script of the library that trains this objective, and for several GPUs the configuration of accelerate."""
    if trains_pictures(question.spec):
        return write_picture_training(question, TRAINING_HOURS)
    spec, hardware = question.spec, question.hardware
    refuse_picture_arguments(question.arguments.step)
    step = read_examples(spec, as_trained(question.arguments.step))
    check_training(spec, step)
    written, recipe = list_scripts(spec.work), find_recipe(step)
    if recipe is None or not (step.reads_media or step.objective in written):
        accepted = f"{', '.join(written) or 'none'}, for which a script is written that trains this kind of model ({spec.work})"
        raise BadArgument("objective", step.objective, accepted)
    cards = max(1, hardware.accelerator_count)
    if rented_for_vllm(step) >= cards:
        accepted = f"transformers or vllm-colocate on {hardware.id}, which has {cards} GPU{'s' if cards > 1 else ''}"
        raise BadArgument("rollouts", step.rollout.rollouts, accepted)
    training = cards - rented_for_vllm(step)
    asked = replace(step, devices=training, sharding=recipe.sharding if training > 1 else "none")
    options = [
        option
        for tried in (step, asked)
        for option in judge_hardware(spec, tried, [hardware] if trains_on(hardware) else [], question.catalog.accelerators, total_tokens=1)
        if option.devices <= cards
    ]
    option = next((option for option in options if option.verdict != "no"), None)
    if option is None:
        nearest = min(options, key=lambda option: option.needed_bytes, default=None)
        why = "no training is computed for this one" if nearest is None else " ".join(map(sentence, nearest.reasons)).rstrip(".")
        raise BadArgument("hardware", hardware.id, f"hardware that trains this model so, which /estimate_training lists: {why}")
    request = replace(train_on(hardware.processor, step), devices=option.devices, sharding=option.sharding)
    half = "fp16" if request.fp16 else "bf16"
    share, split = option.rollout_share, server_tensor_parallel(spec, request)
    frozen = frozen_pattern(spec, request) if request.reads_media else ""
    script = training_script(
        spec.id, request, fused=fuses_loss(request), epochs=1, half=half, share=share, tensor_parallel=split, frozen=frozen
    )
    config = accelerate_config(request, half=half)
    on_jobs, versions = hardware.traits.runs_jobs, load_versions()
    rate = recipe.learning_rate_full if request.method == "full" else recipe.learning_rate_adapter
    return Written(
        precision=quantized_base(request) or option.compute_dtype,
        engine="transformers",
        devices=option.devices,
        repository=spec.id,
        caveats=spec.caveats,
        files={TRAINING_SCRIPT: script} | ({} if config is None else {CONFIG: config}),
        command=job_command(hardware.id, TRAINING_HOURS) if on_jobs else launch_command(),
        tested_with=recipe.tested_with if config is None else "parsed",
        notes=(
            note("files", "dataset"),
            *((note("files", "columns"),) if recipe.columns else ()),
            note("files", "learning_rate", rate=rate, origin=recipe.source),
            note("files", "uploaded"),
            *job_notes(hardware, TRAINING_HOURS),
        ),
        sources=(
            Source(what=say("files", "facts", "learning_rates", recipe=recipe.name), source=recipe.source, checked=recipe.checked),
            *(versions[name].source for name in list_packages(request)),
        ),
    )


WRITERS = {"setup": _write_app, "batch": _write_batch, "training": _write_training, "tpu": _write_tpu, "machines": _write_for_machines}
"""By the word in `writer` of a purpose."""
