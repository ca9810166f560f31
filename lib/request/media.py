"""Pictures and sound of a request or of a training example, and whether their encoder is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from lib.request import types as asked
from lib.request.fields import Form, Request, number, whole_number

TrainTower = Literal["auto", "no", "projector", "yes"]
TRAIN_TOWER: tuple[TrainTower, ...] = get_args(TrainTower)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRequest(Request):
    """The pictures and the sound of each request, in addition to its text or instead of it."""

    images: Annotated[int, whole_number(0, asked.MOST_IMAGES), Form("Images in a prompt", group="workload")] = 0
    """Pictures in each prompt, for models that take them; their tokens come on top."""
    image_width: Annotated[asked.ImageSide, Form("Image width, pixels", group="workload")] = 1024
    """Width of each picture in a prompt, in pixels."""
    image_height: Annotated[asked.ImageSide, Form("Image height, pixels", group="workload")] = 1024
    """Height of each picture in a prompt, in pixels."""
    audio_seconds: Annotated[
        float, number(0, asked.LONGEST_SOUND_S), Form("Length of sound, s", "sound", group="workload", info="0: half a minute")
    ] = 0.0
    """Seconds of sound in each request, for models that hear; 0 is half a minute."""


TEXT_ONLY = MediaRequest()
