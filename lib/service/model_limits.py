"""What a question asks beyond its model: longer than it reads, an encoder that it has not, devices over which no engine splits it."""

from __future__ import annotations

from dataclasses import replace

from lib.engines import TRAITS
from lib.memory import tensor_parallel_degree
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.workload import AS_THE_PIPELINE, MemoryRequest


def context_caveats(spec: ModelSpec, prompt_tokens: int, output_tokens: int) -> list[Caveat]:
    """A prompt and answer that the model cannot hold; in an encoder-decoder the answer alone has to fit, an encoder answers nothing."""
    answers = spec.work not in {"text encoder", "other encoder"}
    tokens = (output_tokens if answers else 0) + (0 if spec.has_encoder else prompt_tokens)
    if spec.context_limit is None or tokens <= spec.context_limit:
        return []
    return [Caveat("beyond_context", {"asked_tokens": tokens, "limit_tokens": spec.context_limit})]


def encoder_caveats(spec: ModelSpec, encoder_tokens: int) -> list[Caveat]:
    """A length of the encoder's side where there is none."""
    return [Caveat("no_encoder", {"encoder_tokens": encoder_tokens})] if encoder_tokens and not spec.has_encoder else []


def picture_caveats(spec: ModelSpec, request: MemoryRequest) -> list[Caveat]:
    """A context for pictures, or ways of a pipeline for a model that is none."""
    if spec.library == "diffusers":
        return [Caveat("context_of_pictures")] if request.context_tokens != MemoryRequest().context_tokens else []
    return [Caveat("not_a_pipeline")] if replace(request.pictures, width=0, height=0, frames=0) != AS_THE_PIPELINE else []


def split_caveats(spec: ModelSpec, engine: str, devices: int) -> list[Caveat]:
    """Devices that an engine with tensor parallelism leaves unused, because the model's heads and widths do not divide by them."""
    traits = TRAITS.get(engine)  # type: ignore[call-overload]  # "host" and "neuron" are names of fitted constants, not of engines
    if traits is None or not traits.tensor_parallel or devices <= 1:
        return []
    degree = tensor_parallel_degree(spec, devices)
    if devices % degree == 0:
        return []
    return [Caveat("devices_unused", {"engine": engine, "devices": devices, "degree": degree})]
