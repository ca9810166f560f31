"""Memory of preference and reinforcement learning apart from the policy's own step.

Log-probabilities of a pair from all logits, as TRL's ORPO computes them, for each token and entry of the vocabulary (float32, 4 bytes):

    forward    4 logits of both sequences, then the chosen half of them once more and its log-softmax: 2 + 2
    backward   4 logits, 2 log-softmax, 2 its gradient, 4 the gradient of the log-probabilities

Limits: one pair or answer is not longer than the cap; rewards and the start of a server take no time. Seconds of GRPO are compared with
published steps by `scripts/check_rl.py`; no public run of KTO or of a reward model reports its seconds or its memory.

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


def adapted_pass_bytes(*, tokens: int, hidden: int, outputs: int, element_bytes: int, adapter_bytes: int, casts: bool) -> Bytes:
    """Passing tensors of a forward pass without autocast at its widest matrix with an adapter, of `outputs` rows.

    Two streams, the gate and the matrix's own product in the model's format; the adapter's product, once more scaled, and where the adapter
    `casts` its input in the adapter's format. Source: peft, src/peft/tuners/lora/layer.py (Linear.forward), executed.

    >>> adapted_pass_bytes(tokens=1, hidden=256, outputs=704, element_bytes=2, adapter_bytes=4, casts=True)
    10496
    """
    streams = 2 * hidden * element_bytes + (hidden * adapter_bytes if casts else 0)
    return Bytes(tokens * (streams + 2 * outputs * (element_bytes + adapter_bytes)))


ROLLOUT = Law(
    equation="answers · mean / rate + (longest - mean) · tpot",
    source="rates of lib/laws/serving.py; last term: generation took 144, 99, 74 s on 8, 16, 32 H100 (ISEEKYAN/verl_megatron_practice)",
)


def rollout_seconds(*, answers: float, mean_tokens: float, longest_tokens: float, tokens_per_s: float, lone_tpot_s: float) -> float:
    """Seconds until the last of the answers is complete.

    `tokens_per_s` is the rate of all answers that run at once. After the mean answers the longest one runs alone, at `lone_tpot_s` a token;
    more cards do not shorten that.

    >>> rollout_seconds(answers=64, mean_tokens=512, longest_tokens=512, tokens_per_s=4096, lone_tpot_s=0.01)
    8.0
    """
    return answers * mean_tokens / tokens_per_s + max(0.0, longest_tokens - mean_tokens) * lone_tpot_s
