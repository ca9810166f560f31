"""Which kind of work a task is. Names are the Hub's pipeline tags, and the plain words of the community's hardware guide.

Families:  generate (text, token by token) · vision_language (the same, with images in the prompt) · encode (one pass: labels, vectors,
boxes) · speech · image · video · provider (the Space only calls an API; the model runs elsewhere).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from lib.errors import BadArgument
from lib.model.spec import ModelSpec

Family = Literal["generate", "vision_language", "encode", "speech", "image", "video", "provider"]

_MEMBERS: dict[Family, tuple[str, ...]] = {
    "generate": ("text-generation", "text2text-generation", "summarization", "translation", "conversational", "chat"),
    "vision_language": (
        "image-text-to-text", "image-to-text", "visual-question-answering", "document-question-answering",
        "video-text-to-text", "audio-text-to-text", "any-to-any", "vision-language",
    ),
    "encode": (
        "text-classification", "token-classification", "zero-shot-classification", "fill-mask", "question-answering",
        "table-question-answering", "feature-extraction", "sentence-similarity", "text-ranking", "image-classification",
        "zero-shot-image-classification", "object-detection", "zero-shot-object-detection", "image-segmentation",
        "mask-generation", "depth-estimation", "keypoint-detection", "image-feature-extraction", "audio-classification",
        "video-classification", "voice-activity-detection", "tabular-classification", "tabular-regression",
        "time-series-forecasting", "visual-document-retrieval", "classification", "embedding",
    ),
    "speech": ("automatic-speech-recognition", "text-to-speech", "text-to-audio", "audio-to-audio", "speech"),
    "image": (
        "text-to-image", "image-to-image", "unconditional-image-generation", "inpainting", "image-to-3d", "text-to-3d", "image",
    ),
    "video": ("text-to-video", "image-to-video", "video-to-video", "image-text-to-video", "video"),
    "provider": ("inference-api", "inference-provider"),
}  # fmt: skip
FAMILIES = MappingProxyType({task: family for family, tasks in _MEMBERS.items() for task in tasks})
TASKS: tuple[str, ...] = ("auto", *FAMILIES)
_PLAIN = MappingProxyType(
    {
        "conversational": "text-generation",
        "chat": "text-generation",
        "classification": "text-classification",
        "embedding": "feature-extraction",
        "speech": "automatic-speech-recognition",
        "image": "text-to-image",
        "video": "text-to-video",
        "vision-language": "image-text-to-text",
    }
)


def task_of(task: str, spec: ModelSpec | None) -> str:
    """The task to judge: the one asked for, or the model's own; a bare count or a model with a cache generates text.

    Raises:
        BadArgument: the task is not known, or there is neither a task nor a model.
    """
    name = task.strip().casefold()
    if name != "auto":
        if name not in FAMILIES:
            raise BadArgument("task", task, "auto, or a Hub task such as text-generation, feature-extraction or text-to-image")
        return _PLAIN.get(name, name)
    if spec is None:
        raise BadArgument("task", task, "inference-api when no model is named; otherwise name the model")
    if spec.task in FAMILIES:
        return spec.task
    generates = spec.cache_terms is not None or spec.source == "rule_of_thumb"
    return "text-generation" if generates else "feature-extraction"


def family_of(task: str) -> Family:
    """The family of a known task."""
    return FAMILIES[task]
