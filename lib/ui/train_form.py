"""The form of *Fine-tune* for a model: which of its fields count, values that do not suit the model, refusals in the form's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr

from lib.errors import AdvisorError
from lib.memory.picture_training import PICTURE_METHODS
from lib.present.sentences import note
from lib.request.objectives import OBJECTIVE_TRAITS, ROLLOUT_TRAITS
from lib.service.resolve_model import resolve_model
from lib.ui import fields as ask
from lib.ui.events import Updates
from lib.ui.fields import Value

if TYPE_CHECKING:
    from lib.service.app import Services

Medium = Literal["text", "pictures", "clips"]
WORDS: Mapping[str, Mapping[str, str]] = {
    argument: {value: label for label, value in words}
    for argument, words in {
        "method": ask.METHOD_WORDS, "objective": ask.OBJECTIVE_WORDS, "optimizer": ask.OPTIMIZER_WORDS, "stack": ask.STACK_WORDS,
        "checkpointing": ask.CHECKPOINTING_WORDS, "attention": ask.ATTENTION_WORDS, "sharding": ask.SHARDING_WORDS,
        "rollouts": ask.ROLLOUT_WORDS, "train_tower": ask.TOWER_WORDS, "cached": ask.CACHED_WORDS, "base_precision": ask.BASE_WORDS,
    }.items()
}  # fmt: skip
"""The form's words for the values of an argument."""
SHOWN_ALONE = {
    "objective": "objective", "rank": "rank", "modules": "target_modules", "doublequant": "double_quantization", "packing": "packing",
    "loss": "fused_loss", "attention": "attention", "stack": "stack", "sharding": "sharding", "gpus": "devices", "base": "base_precision",
}  # fmt: skip
"""Fields that are shown or hidden one by one, with their arguments."""
BOXES = {
    "lengths": ("sequence_tokens", "tokens_per_row"), "tower": ("train_tower",), "negatives": ("negatives",), "parts": ("cached_batch",),
    "pictures": ("width", "height", "cached"), "clips": ("frames",), "grpo": ("generations",), "colocated": ("rollout_share",),
    "server": ("rollout_devices",), "several": ("attention", "sharding"),
}  # fmt: skip
"""Boxes of fields, with arguments that they hold: a box is shown where one of these counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedKind:
    """Properties of a model that decide which fields count; the defaults are those of an unknown model."""

    id: str = ""
    medium: Medium = "text"
    objectives: tuple[str, ...] = ()
    """Those for this kind of model, the usual one first; empty if the model is not known."""
    media: frozenset[str] = frozenset()
    """Pictures or sound that an example has."""

    @property
    def pictures(self) -> bool:
        """Whether it is trained on pictures or clips."""
        return self.medium != "text"

    def suit_objective(self, objective: str) -> str:
        """The objective, or the usual one where this one does not suit the model."""
        return objective if not self.objectives or objective in self.objectives else self.objectives[0]


def find_kind(services: Services, model: str, images: int) -> TrainedKind:
    """The kind of a model, whose examples have so many pictures."""
    try:
        found = services[resolve_model](model)
    except AdvisorError:
        return TrainedKind()
    makes = found.library == "diffusers"
    pictures, speech = "images" in found.media and images > 0, found.task == "automatic-speech-recognition"
    return TrainedKind(
        id=found.id,
        medium="text" if not makes else "clips" if found.task == "text-to-video" else "pictures",
        objectives=found.objectives,
        media=frozenset(name for name, read in (("images", pictures), ("sound", "sound" in found.media and speech)) if read),
    )


def suit_model(kind: TrainedKind, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that do not suit the model or the objective, with the values that do."""
    objective = kind.suit_objective(arguments["objective"])
    least = OBJECTIVE_TRAITS[objective].least_micro_batch  # type: ignore[index]  # the form's choices
    suited = {
        "objective": objective,
        "method": "lora" if kind.pictures and arguments["method"] not in PICTURE_METHODS else arguments["method"],
        "micro_batch": max(least, int(arguments["micro_batch"])),
    }
    return {name: value for name, value in suited.items() if value != arguments[name]}


def find_counting(kind: TrainedKind, arguments: Mapping[str, Any]) -> frozenset[str]:
    """Arguments that have an effect on this training, among those that do not count for each."""
    objective, rollouts = OBJECTIVE_TRAITS[arguments["objective"]], ROLLOUT_TRAITS[arguments["rollouts"]]
    text, hears, adapters = not kind.pictures, "sound" in kind.media, arguments["method"] != "full"
    supervised, samples = arguments["objective"] == "sft", objective.samples
    counts = {
        "objective": len(kind.objectives) != 1, "sequence_tokens": text, "tokens_per_row": text, "attention": text, "sharding": text,
        "rank": adapters, "target_modules": adapters, "double_quantization": text and arguments["method"] == "qlora",
        "packing": text and supervised and not kind.media, "fused_loss": text and objective.loss == "tokens" and not hears,
        "stack": text and supervised and not hears, "devices": text and arguments["sharding"] != "none",
        "negatives": objective.negatives, "cached_batch": objective.in_parts, "train_tower": bool(kind.media),
        "width": kind.pictures, "height": kind.pictures, "frames": kind.medium == "clips", "cached": kind.pictures,
        "base_precision": kind.pictures and adapters,
        "generations": samples, "completion_tokens": samples, "mean_completion_tokens": samples, "rollouts": samples, "beta": samples,
        "rollout_share": samples and rollouts.holds_share, "rollout_sleep": samples and rollouts.holds_share,
        "rollout_devices": samples and rollouts.own_devices,
    }  # fmt: skip
    return frozenset(name for name, true in counts.items() if true) | (arguments.keys() - counts.keys())


def form_updates(kind: TrainedKind, counting: frozenset[str], suited: Mapping[str, Any]) -> Updates:
    """Fields and boxes: shown where they count; with the choices of the model, and the values that suit it."""
    shown: dict[str, dict[str, Any]] = {f"q_{name}": {"visible": argument in counting} for name, argument in SHOWN_ALONE.items()}
    shown |= {name: {"visible": not counting.isdisjoint(arguments)} for name, arguments in BOXES.items()}
    shown["q_method"] = {"choices": [pair for pair in ask.METHOD_WORDS if not kind.pictures or pair[1] in PICTURE_METHODS]}
    shown["q_microbatch"] = {}
    usual = f"Usual for this model: {WORDS['objective'][kind.objectives[0]]}" if kind.objectives else ""
    shown["q_objective"] |= {
        "choices": [pair for pair in ask.OBJECTIVE_WORDS if not kind.objectives or pair[1] in kind.objectives],
        "info": usual,
    }
    names = {field.argument: f"q_{field.name}" for field in ask.TRAIN}
    for argument, value in suited.items():
        shown[names[argument]]["value"] = value
    return {name: gr.update(**changes) for name, changes in shown.items()}


def suit_values(values: Sequence[Value], suited: Mapping[str, Any]) -> list[Value]:
    """The form's values with those that suit the model."""
    return [suited.get(field.argument, value) for field, value in zip(ask.TRAIN, values, strict=True)]


def suited_notes(before: Mapping[str, Any], suited: Mapping[str, Any], model: str) -> list[str]:
    """A sentence for each value that was replaced."""
    labels = {field.argument: field.label for field in ask.TRAIN}

    def word(name: str, value: Any) -> str:
        return WORDS.get(name, {}).get(value, f"{value}")

    return [
        note("training", f"suited:{name}", field=labels[name], before=word(name, before[name]), after=word(name, value), model=model)
        for name, value in suited.items()
    ]


_LABELS = {field.argument: field.label for field in (*ask.QUESTION, *ask.TRAIN) if field.label}
_PAIR = re.compile(r"\b([a-z][a-z_]*)=([\w-]+)")
_NAME = re.compile(rf"\b(?:{'|'.join(name for name in _LABELS if '_' in name)})\b")
_OBJECTIVE = re.compile(rf"\bobjective ({'|'.join(sorted(WORDS['objective'], key=len, reverse=True))})\b")
_LIST_ENDS = re.compile(r"(?=:|;| with | for | on )")


def word_refusal(refused: Exception) -> str:
    """A refusal with the form's labels and words in place of arguments and their values."""
    sentence = str(refused)
    name, was, rest = sentence.partition(" was ")
    words = WORDS.get(name, {})
    if was and words:
        value, accepted, listed = rest.partition(" Accepted: ")
        head, *tail = _LIST_ENDS.split(listed, maxsplit=1)
        choices = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        worded = re.sub(rf"(?<![\w/-])({choices})(?![\w/-])", lambda found: f"“{words[found[0]]}”", head)
        quoted = re.sub(rf"'({choices})'", lambda found: f"'{words[found[1]]}'", value)
        sentence = f"{name}{was}{quoted}{accepted}{worded}{''.join(tail)}"
    before, was, rest = sentence.partition(" was ")
    return f"{before}{was}{_word_names(rest)}" if was else sentence


def _word_names(text: str) -> str:
    """The text with labels for arguments, and words for their values."""
    pairs = _PAIR.sub(
        lambda found: f"{_LABELS[found[1]]}: {WORDS.get(found[1], {}).get(found[2], found[2])}" if found[1] in _LABELS else found[0], text
    )
    objectives = _OBJECTIVE.sub(lambda found: f"the objective {WORDS['objective'][found[1]]}", pairs)
    return _NAME.sub(lambda found: _LABELS[found[0]], objectives)
