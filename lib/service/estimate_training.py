"""`/estimate_training`: memory of a training step by part, the hardware that runs it, hours and dollars, and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from pydantic import model_validator

from lib.answers.training import ShardingEntry, TrainingAnswer, describe_step
from lib.catalog import Catalog
from lib.catalog.host_memory import HostMemoryText
from lib.catalog.offers import Hardware as Cards
from lib.errors import BadArgument
from lib.laws import training as law
from lib.memory.allocator import count_longest_row
from lib.memory.objectives import WITH_VALUE_MODEL, as_trained, note_shown_as_grpo
from lib.memory.picture_training import refuse_picture_arguments, trains_pictures
from lib.memory.rollouts import check_rollout_split, estimate_step, prompt_tokens, server_tensor_parallel, value_model_bytes
from lib.memory.stacks import SPEECH_STACK, STACK_TRAITS, fuses_loss, is_modelled
from lib.memory.tower import find_encoder, hears, read_examples
from lib.memory.trained import adapted_experts, frozen_pattern, trained_encoder
from lib.memory.training import check_training
from lib.model.spec import ModelSpec
from lib.platforms import TRAITS
from lib.present.training_cards import describe_changes, sharding_sentence
from lib.present.training_files import is_shared_by_script, list_scripts, server_command, start_command, training_script
from lib.provenance import Caveat, Source
from lib.request.checks import check_choices
from lib.request.fields import Arguments, Checked, Form, number, whole_number
from lib.request.objectives import OBJECTIVES
from lib.request.sharding import SHARDING_TRAITS
from lib.request.types import ALL, Hardware, Model
from lib.request.words import find_choice, find_meaning, find_noted, note_reading
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.picture_training import answer_picture_training
from lib.speed.cheaper_training import add_cheaper
from lib.speed.own_training import OwnTraining, judge_own, own_caveats
from lib.speed.phases import split_step
from lib.speed.rollouts import mean_lengths
from lib.speed.shardings import find_shardings
from lib.speed.training import count_padding, train_on
from lib.speed.training_hardware import (
    TrainingOption,
    count_training,
    find_changes,
    find_started,
    rank_hardware,
    rented_for_vllm,
    trains_on,
)
from lib.workload import ACCUMULATION, METHODS, TrainingRequest

MOST_ROWS = 10**12
MOST_BATCH = 65_536
MOST_DEVICES = 1_024
MOST_BYTES = 10**18
REFERENCE = "A100-SXM4-80GB"
"""The card on which a change's effect on speed is predicted."""
PLACES = tuple(name for name, traits in TRAITS.items() if traits.trains)
CHECKED = "2026-11-22"


def _places(name: str, value: object) -> tuple[str, ...]:
    names = check_choices(name, value, (*PLACES, ALL))
    return PLACES if ALL in names else names


class TrainingArguments(Arguments):
    """Arguments of `/estimate_training`."""

    model: Model
    step: TrainingRequest = TrainingRequest(accumulation=ACCUMULATION)
    rows: Annotated[int, whole_number(0, MOST_ROWS), Form("Rows", group="train")] = 10_000
    """Rows of the dataset; for GRPO its prompts."""
    tokens_per_row: Annotated[float, number(1, 10**8), Form("Tokens per row", "row", group="train")] = 512
    """Tokens of a row on average; `sequence_tokens` is the limit to which longer rows are cut. Without packing the longest batch decides
    the peak: rows of four times this mean, at most the limit. The upper estimate counts rows that reach the limit."""
    epochs: Annotated[float, number(0.0001, 10_000), Form("Epochs", group="train")] = 1
    """Passes over the dataset."""
    behind = (
        "platforms objective generations completion_tokens mean_completion_tokens rollouts rollout_share rollout_sleep",
        "rollout_sleep rollout_devices beta machines own_hardware host_memory rollout_tensor_parallel negatives cached_batch",
        "images image_width image_height audio_seconds train_tower",
    )
    platforms: Annotated[
        tuple[str, ...], Checked(_places, str, f"Comma list of {', '.join(PLACES)}, all."), Form("", "where", group="train")
    ] = ("spaces", "jobs")

    own_hardware: Hardware = ""
    """Your graphics cards, answered in addition to hardware for rent: RTX-4090, RTX-3090x2; empty is none. All cards train where `sharding`
    is stated, or where one is not enough."""
    host_memory: HostMemoryText = None
    """Memory of the machine of your cards, such as 64 GB DDR5-6000, for states that are offloaded; empty: taken as enough."""

    @model_validator(mode="before")
    @classmethod
    def _name_objective(cls, sent: dict[str, Any]) -> dict[str, Any]:
        """A `method` that names an objective means it with LoRA; a caveat names an objective that is shown as GRPO."""
        method = sent.get("method")
        written = sent.get("objective", method)
        if isinstance(written, str) and (shown := find_meaning("unmodelled_objective", written)) is not None:
            note_shown_as_grpo(shown)
        if "objective" in sent or not isinstance(method, str) or find_choice("method", method, METHODS) is not None:
            return sent
        objective = find_choice("objective", method, OBJECTIVES[1:])
        if objective is None:
            return sent
        if method.strip().casefold() != objective:
            note_reading("method", method, f"lora with objective={objective}")
        return {**sent, "method": "lora", "objective": objective}

    def request(self) -> TrainingRequest:
        """The question about one step; preferences and rewards are not packed. Several devices without a sharding train with ddp."""
        step = self.step
        if step.devices > 1 and step.sharding == "none":  # as torchrun and accelerate do where nothing else is said
            note_reading("devices", f"{step.devices}", f"{step.devices} GPUs with sharding=ddp")
            step = replace(step, sharding="ddp")
        if (shown := find_noted("training_shown_as_grpo")) is not None:
            step = replace(step, rollout=replace(step.rollout, value_model=shown.values["asked"] in WITH_VALUE_MODEL))
        step = as_trained(step)
        return replace(step, row_tokens=0 if step.packing else self.tokens_per_row)

    def total_tokens(self, request: TrainingRequest) -> int:
        """Tokens trained on over all epochs, of both sequences of a pair, or of all answers with their prompts.

        A sequence longer than `sequence_tokens` is cut to it. Tokens of pictures count.
        """
        if request.samples:
            each = sum(mean_lengths(request)) * request.rollout.generations
            return max(1, round(self.rows * each * self.epochs))
        text = request.sequence_tokens - request.media_tokens
        cut = (min(self.tokens_per_row, text) + request.media_tokens) * request.example_sequences
        return max(1, round(self.rows * cut * self.epochs))

    def count_steps(self, request: TrainingRequest) -> int:
        """Optimizer steps over all epochs: a step takes tokens of packed rows, else a number of rows or answers of any length."""
        if request.packing:
            return math.ceil(self.total_tokens(request) / request.step_tokens)
        examples = self.rows * self.epochs * (request.rollout.generations if request.samples else 1)
        return math.ceil(max(1, round(examples)) / request.step_examples)


@endpoint(heavy=True)
def estimate_training(app: App, arguments: TrainingArguments) -> TrainingAnswer:
    """Memory of a training step by part, the hardware that runs it with hours and price, and changes that save memory.

    Returns:
        The estimate, the hardware, changes that save memory, and the script and command that start it on Jobs.
    """
    spec, request = app.models(arguments.model), arguments.request()
    catalog = app.catalog()
    cards = catalog.plug_cards(arguments.own_hardware, arguments.host_memory)
    if cards is not None and request.machines > 1:
        if request.devices == 1:  # not stated
            sharding = "fsdp" if request.sharding == "none" else request.sharding
            request = replace(request, sharding=sharding, devices=max(1, cards.accelerator_count - rented_for_vllm(request)))
        cards = split_cards(cards, request)
    if cards is not None and request.sharding != "none" and request.devices == 1:
        request = replace(request, devices=max(1, count_training(cards, request)))
    if trains_pictures(spec):
        return answer_picture_training(
            spec, request, catalog, arguments.platforms, rows=arguments.rows, epochs=arguments.epochs, cards=cards
        )
    refuse_picture_arguments(request)
    request = read_examples(spec, request, arguments.tokens_per_row)
    check_training(spec, request)
    check_rollout_split(spec, request)
    step = estimate_step(spec, request)
    if step.device.high > MOST_BYTES:
        product = f"{request.micro_batch:,} × {request.sequence_tokens:,}"
        raise BadArgument("micro_batch × sequence_tokens", product, "a step that takes less than an exabyte (10^18 bytes)")
    total = arguments.total_tokens(request)
    own = None
    if cards is not None and trains_on(cards):
        own = judge_own(spec, request, cards, catalog.accelerators, total_tokens=total)
    options = rank_hardware(spec, request, catalog, arguments.platforms, total_tokens=total)
    check_rollout_devices(request, options, arguments.platforms)
    changes = find_changes(spec, request, catalog.accelerator(REFERENCE), catalog.accelerators)
    changes = list(add_cheaper(spec, request, changes, options, catalog, arguments.platforms, arguments.total_tokens))
    recipe = _recipe(spec, request, find_started(options, own.cards if own else None), arguments, catalog)
    return TrainingAnswer(
        model=spec.id,
        method=request.method,
        objective=request.objective,
        stack=request.stack,
        optimizer=request.optimizer,
        precision=request.precision,
        checkpointing=request.checkpointing,
        sharding=request.sharding,
        devices=request.devices,
        longest_row_tokens=count_longest_row(request),
        total_tokens=total,
        steps=arguments.count_steps(request),
        **describe_step(step),
        **_describe_encoder(spec, request),
        options=tuple(options),
        own=own,
        phases=split_step(spec, request, catalog.accelerator(REFERENCE), catalog.accelerators),
        shardings=tuple(
            ShardingEntry(**fields_of(option), message=sharding_sentence(request.method, option))
            for option in find_shardings(spec, request, catalog, arguments.platforms)
        ),
        changes=describe_changes(request, changes),
        server_command=recipe.server_command,
        command=recipe.command,
        script=recipe.script,
        caveats=(
            *spec.caveats,
            *own_caveats(cards, own),
            *_value_model(spec, request, own, options),
            *_stack_caveat(spec, arguments.step),
            *_caveats(spec, request),
        ),
        sources=(*spec.sources, *_SOURCES),
    )


def _describe_encoder(spec: ModelSpec, request: TrainingRequest) -> dict[str, Any]:
    """The fields of the answer about an encoder of pictures or sound."""
    encoder = find_encoder(spec, request)
    if encoder is None:
        return {}
    part = trained_encoder(spec, request)
    return {"picture_tokens": request.media_tokens, "encoder_positions": encoder.all_positions, "trained_encoder": part}


def split_cards(cards: Cards, request: TrainingRequest) -> Cards:
    """The cards of one machine, where own hardware names those of all machines together.

    Raises:
        BadArgument: these are not the devices of the request and of vLLM, or machines would have different numbers.
    """
    total = request.devices + rented_for_vllm(request)
    if cards.accelerator_count != total or total % request.machines:
        accepted = f"{total} cards, those of all {request.machines} machines together, the same number in each: devices={request.devices}"
        raise BadArgument("own_hardware", cards.id, accepted)
    return cards.with_count(total // request.machines)


def check_rollout_devices(request: TrainingRequest, options: list[TrainingOption], platforms: tuple[str, ...]) -> None:
    """Refuse a vLLM on GPUs of its own where no hardware has enough GPUs.

    Raises:
        BadArgument: with the other ways.
    """
    if rented_for_vllm(request) and not options:
        needs = rented_for_vllm(request) + request.devices
        accepted = f"transformers or vllm-colocate: no hardware on {', '.join(platforms)} has {needs} GPUs"
        raise BadArgument("rollouts", request.rollout.rollouts, accepted)


_SOURCES = (
    Source(what="memory of a step", source=law.LAW.source, checked=CHECKED),
    Source(what="allocator and speed", source="published training runs", checked=CHECKED),
)


_TOWERS = frozenset({"vision_tower", "audio_tower"})


def _caveats(spec: ModelSpec, request: TrainingRequest) -> tuple[Caveat, ...]:
    encoder = find_encoder(spec, request)
    towers, merged = any(group.component in _TOWERS for group in spec.tensors), bool(adapted_experts(spec, request))
    holds = {
        "training_reserved": True,
        "training_text_only": towers and encoder is None,
        "training_encoder_time": encoder is not None,
        "training_frozen_tower": encoder is not None and encoder.gradients and not encoder.trains,
        "activation_typical": not spec.tensors,
        "training_scan": any("state" in kind and "convolution" not in kind for kind in spec.layer_kinds),
        "training_activation": request.checkpointing == "none"
        and not any("gate" in group.name for group in spec.tensors if group.component not in _TOWERS),
        "training_without_bf16": request.precision == "bf16",
        "training_experts": request.method != "full" and not merged and any(group.kind == "expert" for group in spec.tensors),
        "training_adapted_experts": merged,
    }
    lengths = {
        "micro_batch": request.micro_batch,
        "longest_tokens": count_longest_row(request),
        "mean_tokens": request.row_tokens,
        "limit_tokens": request.sequence_tokens,
        "padding": count_padding(request),
    }
    varying = () if request.packing else (Caveat("training_lengths_vary", lengths),)
    accumulated = (Caveat("training_accumulates", {"accumulation": request.accumulation}),) if request.accumulation > 1 else ()
    preference = () if request.objective == "sft" else (Caveat("training_objective", variant=request.objective),)
    traits = SHARDING_TRAITS[request.sharding]
    offloaded = (Caveat("training_offload", variant="deepspeed" if traits.stage else ""),) if traits.offloads_states else ()
    special = (*_media_caveats(spec, request), *preference, *offloaded, *_rollout_caveats(request), *accumulated, *varying)
    return (*special, *(Caveat(code) for code, true in holds.items() if true))


def _value_model(spec: ModelSpec, request: TrainingRequest, own: OwnTraining | None, options: Sequence[TrainingOption]) -> Iterator[Caveat]:
    """The bytes of PPO's value model among those on the own cards, else on the first hardware."""
    place = own.cards if own is not None else next(iter(options), None)
    if not request.rollout.value_model or place is None:
        return
    asked = replace(request, sharding=place.sharding, devices=place.devices, machines=place.machines)
    value = value_model_bytes(spec, asked)
    yield Caveat(
        "training_value_model",
        {"name": place.name, "value_bytes": value, "needed_bytes": place.needed_bytes},
    )


def _media_caveats(spec: ModelSpec, request: TrainingRequest) -> tuple[Caveat, ...]:
    """Pictures and sound of an example, as they are counted."""
    media = request.media
    if media.images:
        width, height, tokens = media.image_width, media.image_height, request.media_tokens
        return (Caveat("training_pictures", {"images": media.images, "width": width, "height": height, "picture_tokens": tokens}),)
    if not hears(spec):
        return ()
    return (Caveat("training_sound", {"tokens": request.sequence_tokens}),)


def _stack_caveat(spec: ModelSpec, asked: TrainingRequest) -> tuple[Caveat, ...]:
    """That figures of another stack are shown in place of those of the stack."""
    if hears(spec):
        default = asked.stack in {SPEECH_STACK, TrainingRequest().stack}
        return () if default else (Caveat("training_stack", {"stack": STACK_TRAITS[asked.stack].name}, variant="speech"),)
    return () if is_modelled(asked) else (Caveat("training_stack", {"stack": STACK_TRAITS[asked.stack].name}),)


def _rollout_caveats(request: TrainingRequest) -> tuple[Caveat, ...]:
    """Engine and lengths of the answers of GRPO."""
    if not request.samples:
        return ()
    prompt, answer = mean_lengths(request)
    lengths = {
        "prompt_tokens": prompt,
        "answer_tokens": answer,
        "longest_tokens": request.rollout.completion_tokens,
        "prompt_limit_tokens": prompt_tokens(request),
    }
    engine = "" if request.rollout.traits.starts_together else request.rollout.rollouts
    reference = () if request.has_reference else (Caveat("training_no_reference"),)
    return Caveat("training_rollouts", variant=engine), *reference, Caveat("training_answer_lengths", lengths)


class _Recipe(NamedTuple):
    """The lines that start a training, and the script that they run."""

    server_command: str | None = None
    command: str | None = None
    script: str | None = None


def _recipe(
    spec: ModelSpec, request: TrainingRequest, place: TrainingOption | None, arguments: TrainingArguments, catalog: Catalog
) -> _Recipe:
    """For the hardware that trains it; without a script if none is written for that."""
    written = request.reads_media or request.objective in list_scripts(spec.work)
    if place is None or "/" not in spec.id or not written or not is_shared_by_script(request, place.sharding) or place.machines > 1:
        return _Recipe(_server_command(spec, request))
    sharded = replace(request, sharding=place.sharding, devices=place.devices)
    asked = train_on(catalog.accelerator(place.accelerator), sharded)
    script = training_script(
        spec.id,
        asked,
        fused=fuses_loss(asked),
        epochs=arguments.epochs,
        half="fp16" if asked.fp16 else "bf16",
        share=place.rollout_share,
        step_s=place.step_s,
        tensor_parallel=server_tensor_parallel(spec, asked),
        frozen=frozen_pattern(spec, asked) if asked.reads_media else "",
    )
    return _Recipe(_server_command(spec, asked), start_command(place), script)


def _server_command(spec: ModelSpec, request: TrainingRequest) -> str | None:
    """The command of a vLLM on GPUs of its own."""
    if not rented_for_vllm(request) or "/" not in spec.id:
        return None
    return server_command(spec.id, request, server_tensor_parallel(spec, request))
