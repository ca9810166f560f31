"""Time that the host and the launches of kernels take in one step.

    t = L · τ_layer · f · m + τ_step + n · τ_seq

    L  layers   τ_layer  time of a layer   τ_step  time of a step, both by engine   τ_seq  time per sequence (sampling, scheduling)
    f  factor of the weight format in eager engines (bitsandbytes int8 launches several kernels for one matrix)
    m  factor for layers with routed experts     n  sequences

transformers in eager mode needs 20-26 ms a step for 24-36 layers on any card; engines that replay a recorded graph 2-4 ms.
Limits: the host's processor is not among the inputs; a slow one (2 virtual CPUs) takes longer.
Source: fitted by `scripts/calibrate.py`.
"""

from __future__ import annotations

from lib.laws.speed.quantity import Quantity


def host_time(
    *, layers: Quantity, layer_s: Quantity, step_s: Quantity, sequence_s: Quantity, sequences: Quantity, factor: Quantity
) -> Quantity:
    """Seconds of host time in a step; `factor` = f · m.

    >>> host_time(layers=32, layer_s=0.0007, step_s=0.001, sequence_s=0, sequences=1, factor=1)
    0.0234
    """
    return layers * layer_s * factor + step_s + sequences * sequence_s
