"""Memory of preference and reinforcement learning apart from the policy's own step.

Log-probabilities of a pair from all logits, as TRL's ORPO computes them, for each token and entry of the vocabulary (float32, 4 bytes):

    forward    4 logits of both sequences, then the chosen half of them once more and its log-softmax: 2 + 2
    backward   4 logits, 2 log-softmax, 2 its gradient, 4 the gradient of the log-probabilities

accelerate returns logits in float32 whenever it trains in 16 bits. One pair is contiguous already, so its chosen half is not copied.

Source: trl/experimental/orpo/orpo_trainer.py and trl/kernels/logprob_entropy.py of TRL 1.16.0; the peaks are those of TRL's own code,
executed with counted tensors (tests/memory/test_training_objectives.py).
"""

from __future__ import annotations

from lib.laws import Law
from lib.laws.activation import FLOAT32
from lib.laws.training import LossBytes
from lib.units import Bytes

LAW = Law(
    equation="logits, log-probabilities and gradients of a pair, in float32",
    source="TRL 1.16.0, executed with counted tensors; lib/laws/rl.py",
)


def pair_logit_bytes(*, tokens: int, vocabulary: int, pairs: int) -> LossBytes:
    """Logits and loss of `tokens` tokens of `pairs` pairs, chosen and rejected together.

    >>> pair_logit_bytes(tokens=2, vocabulary=1000, pairs=1)
    LossBytes(forward=12000, backward=24000)
    """
    logits = tokens * vocabulary * FLOAT32
    chosen = logits // 2
    return LossBytes(Bytes(logits + chosen * (1 if pairs == 1 else 2)), Bytes(3 * logits))
