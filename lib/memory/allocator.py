"""Memory that torch's caching allocator reserves beyond the tensors of a training step.

    typical = tensors + share · fragmented + fixed
    upper   = factor · typical, with every row as long as the limit
    lower   = tensors

The allocator keeps freed blocks. A block serves a later tensor only if it is large enough, so the share depends on the order in which
tensors of different sizes are freed. Activations that are kept until the backward pass are allocated once in each micro-batch. With equal
lengths the order is the same, so their blocks fit again: by the rules of `scripts/simulate_allocator.py` an encoder's step reserves 1 to
2 % more than its tensors. Four cases have a share of their own (`AllocatorConstants`). The factor is a quantile of reserved
over typical bytes, pooled over all stacks: an upper share for each case was too wide where few runs had been published.
`scripts/check_training.py` fits all of them on published runs and writes `lib/data/training_constants.json`.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from lib.laws import training as law
from lib.memory.stacks import holds_logits
from lib.units import Bytes

if TYPE_CHECKING:
    from lib.workload import TrainingRequest


class AllocatorConstants(NamedTuple):
    """Bytes that torch's allocator reserves beyond the tensors, fitted on published runs."""

    equal: float
    """Share of the recurring bytes, where all micro-batches have the same length."""
    varying: float
    """Share of the recurring bytes, where lengths vary and layers are recomputed."""
    varying_kept: float
    """Share of the recurring bytes, where lengths vary and activations are kept: their freed blocks serve the logits."""
    fixed: Bytes
    """Bytes for any step."""
    upper: float
    """The upper estimate as a multiple of the typical one; one number for all stacks, methods and lengths."""

    without_logits: float = 0.6
    """Share of the temporary bytes, where lengths vary and logits of all tokens are never held: embeddings, scores, a fused loss. Every
    published run with varying lengths holds logits. The allocator's rules, run without a device on steps of bge-large, reserve 0.12 to
    0.85 of them in addition (upper quartile 0.57, `scripts/simulate_allocator.py`); four short runs on an H100 reserved 0.1 to 0.6."""

    def share(self, request: TrainingRequest) -> float:
        """The share that applies to this step."""
        if has_equal_lengths(request):
            return self.equal
        if not holds_logits(request):
            return self.without_logits
        return self.varying if request.checkpointing != "none" else self.varying_kept


@cache
def load_constants() -> AllocatorConstants:
    """The fitted constants that come with the app."""
    memory = json.loads(files("lib.data").joinpath("training_constants.json").read_text(encoding="utf-8"))["memory"]
    return AllocatorConstants(
        equal=memory["equal_share"],
        varying=memory["varying_share"],
        varying_kept=memory["varying_kept_share"],
        fixed=Bytes(memory["fixed_bytes"]),
        upper=memory["upper_factor"],
    )


_LONGEST_TO_MEAN = 4.0
"""The 99 % quantile of row lengths over their mean: log-normal, with a deviation of 0.8 of the mean, as rows of text vary
(`scripts/simulate_allocator.py`): exp(2.33 × 0.70 - 0.70² / 2)."""


def count_longest_row(request: TrainingRequest) -> int:
    """Tokens of a row in the longest batch: the limit itself where rows are packed or their mean is not stated.

    A row of GRPO is a prompt; each answer is counted at its full length.
    """
    if request.packing or not request.row_tokens:
        return request.sequence_tokens
    answer = request.rollout.completion_tokens if request.samples else 0
    text = request.row_tokens - request.media_tokens  # tokens of pictures do not vary
    return min(request.sequence_tokens, max(1, round(_LONGEST_TO_MEAN * text)) + answer + request.media_tokens)


_DEVIATION = math.sqrt(math.log(1 + 0.8**2))
"""Of the logarithm of a row's length, for the same distribution."""
_ALWAYS = 0.99
"""Chance from which on every micro-batch counts as one that has a row at the limit."""


def has_equal_lengths(request: TrainingRequest) -> bool:
    """Whether all micro-batches have the same length: of packed rows, or because each has a row that reaches the limit."""
    if request.packing:
        return True
    text = request.row_tokens - request.media_tokens
    if text <= 0 or request.samples:
        return False
    limit = request.sequence_tokens - request.media_tokens
    away = (math.log(max(1, limit) / text) + _DEVIATION**2 / 2) / _DEVIATION
    shorter = (1 + math.erf(away / math.sqrt(2))) / 2  # chance of a row below the limit
    return 1 - shorter**request.micro_batch >= _ALWAYS


def fragmented_bytes(peak: dict[str, int], request: TrainingRequest) -> int:
    """Bytes of a moment whose freed blocks the allocator cannot always use again; its shares are shares of these."""
    recomputes = request.checkpointing != "none"
    if has_equal_lengths(request) or holds_logits(request):
        return law.recurring_bytes(peak, recomputes=recomputes)
    once = peak.get(law.StepPart.COPIES, 0) + (0 if recomputes else peak.get(law.StepPart.ENCODER, 0))
    return law.temporary_bytes(peak) - once


def reserve_bytes(peak: dict[str, int], request: TrainingRequest, share: float) -> float:
    """Bytes that the allocator has reserved at a moment, without the fixed part."""
    apart = not has_equal_lengths(request) and request.checkpointing != "none"  # pictures and windows of sound have one size
    encoder = peak.get(law.StepPart.ENCODER, 0) if apart else 0
    return sum(peak.values()) + share * (fragmented_bytes(peak, request) - encoder) + load_constants().equal * encoder
