"""Figures of a dry run (`lib.model.dry_run`): plain values, which cross from the process that runs the model.

Sizes are in bytes. FLOP are counted as `torch.utils.flop_counter` counts them: two for a multiplication and an addition, matrices,
convolutions and attention only, and both halves of a causal mask. Operations are calls of aten, the unit that eager PyTorch launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One part of a run: the most bytes alive in it without weights and buffers, its FLOP and its operations, at the model's full depth."""

    peak_bytes: int
    flop: int
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRun:
    """A prompt and the last step of the answer.

    `prompt_cache_bytes` and `cache_bytes` are what stays after the prompt and after the last step; both are 0 for a model without a cache,
    whose `decode` is None.
    """

    prefill: Phase
    decode: Phase | None
    prompt_cache_bytes: int
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One step with optimizer states already there, as every step after the first.

    `saved_bytes` are alive between the forward pass and the backward pass, without states. Adapters count among `weights_bytes` of the run.
    """

    forward: Phase
    backward: Phase
    update: Phase
    trained_parameters: int
    saved_bytes: int
    gradient_bytes: int
    optimizer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """An execution without values. `layers_run` of `layers` computed; the others held and counted what their likes did."""

    architecture: str
    layers: int
    layers_run: int
    parameters: int
    weights_bytes: int
    buffer_bytes: int
    encoder_decoder: bool = False
    inference: InferenceRun | None = None
    training: TrainingRun | None = None

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once, weights and buffers among them."""
        if self.inference is not None:
            phases = [phase for phase in (self.inference.prefill, self.inference.decode) if phase is not None]
        else:
            assert self.training is not None, "one of them is there"  # noqa: S101 a fact for the type checker
            phases = [self.training.forward, self.training.backward, self.training.update]
        return self.weights_bytes + self.buffer_bytes + max(phase.peak_bytes for phase in phases)


class KeptBytes(NamedTuple):
    """Bytes that one forward pass keeps, by where (`lib.model.spec.KeptFit`); `per_rank` for each rank of the adapters, in all blocks.

    `product_inputs` and `outside_inputs` are elements and not bytes: the inputs of all linear layers in blocks and outside of them, each
    counted for its own layer, as far as gradients reach them. Plain weights do not keep them; products of quantized weights keep them in
    formats of their own. `outside_weights` are the elements of frozen weights outside of blocks that gradients pass: a weight that is
    unpacked for its product is kept so.
    """

    outside: float
    checkpoints: float
    blocks: float
    largest: float
    per_rank: float
    product_inputs: float
    outside_inputs: float
    outside_weights: float
