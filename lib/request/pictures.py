"""The fields of a training request that picture models alone read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from lib.request import types as asked
from lib.request.fields import Form, Request, one_of, whole_number

BasePrecision = Literal["bf16", "fp8", "fp8-dynamic", "int8", "nf4"]
Cached = Literal["all", "latents", "text", "none"]
BASE_PRECISIONS: tuple[BasePrecision, ...] = get_args(BasePrecision)
CACHED: tuple[Cached, ...] = get_args(Cached)
MOST_CHECKPOINTED = 256
LONGEST_SIDE = 8_192
"""Most pixels of a side that the page offers."""
MOST_FRAMES = 2_049
"""Most frames that the page offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureTrainingRequest(Request):
    """The pictures or clips that a denoiser is trained on, and how it is held."""

    width: Annotated[asked.Pixels, Form("Width, pixels", "trainwidth", group="train", high=LONGEST_SIDE, info="0: automatic")] = 0
    """Picture models only: pixels of a training picture; 0 is the pipeline's own, as for height and frames."""
    height: Annotated[asked.Pixels, Form("Height, pixels", "trainheight", group="train", high=LONGEST_SIDE, info="0: automatic")] = 0
    """Picture models only: pixels, as width."""
    frames: Annotated[asked.Pixels, Form("Frames", "trainframes", group="train", high=MOST_FRAMES, info="0: automatic")] = 0
    """Picture models only: frames of a training clip."""
    cached: Annotated[Cached, one_of(CACHED, Cached), Form("Computed before training", group="train")] = "all"
    """Picture models only: inputs that are computed before training. all: latents and text embeddings, so that VAE and text encoders are
    not on the card; latents: these alone; text: embeddings alone; none: each step computes both."""
    base_precision: Annotated[BasePrecision, one_of(BASE_PRECISIONS, BasePrecision), Form("Frozen weights", "base", group="train")] = "bf16"
    """Picture models only: number format of the frozen weights under adapters. fp8 (weights alone) and fp8-dynamic are
    those of torchao, int8 that of SDNQ, nf4 that of bitsandbytes; method=qlora means nf4."""
    checkpoint_blocks: Annotated[int, whole_number(1, MOST_CHECKPOINTED)] = 1
    """Picture models only: blocks that gradient checkpointing recomputes together."""
    checkpoint_every: Annotated[int, whole_number(0, MOST_CHECKPOINTED)] = 0
    """Picture models only: number of blocks after which gradient checkpointing begins again; the blocks between keep their activations. 0:
    it covers every block."""
    base_offload: asked.Flag = False
    """Picture models only: frozen blocks wait in the host's memory and come to the card one by one."""


DEFAULT_PICTURES = PictureTrainingRequest()
