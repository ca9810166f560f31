"""The states of a training on one of several GPUs: what each keeps of them, what it gathers and buffers, and bytes in host memory.

    FSDP        float32 weights, gradients and states over n; two layers, or the head, gathered in 16 bits
    ZeRO 1, 2   16-bit weights whole; master weights and states over n, with ZeRO 2 gradients too; a bucket of gradients to reduce
    ZeRO 3      all over n; at most 1.05e9 gathered parameters; the bucket
    offload     master weights, states and gradients in host memory; the GPU keeps the bucket, with FSDP one layer's gradients

DeepSpeed keeps gradients in 16 bits and puts its part of them into float32 while it updates; with `bf16_master_weights_and_grads` the
master weights are a copy in 16 bits. In host memory it keeps gradients in the format of the master weights, and 16-bit buffers: one for
the new weights (ZeRO 1, 2) and one for gradients that add up (ZeRO 3 always, ZeRO 1 and 2 with several micro-batches).

Over the link to the host, of each GPU's part:

    DeepSpeed   gradients in 16 bits out after each micro-batch and in again before the next, if there are several; once out in the
                format of the master weights; new weights in, in 16 bits
    FSDP        weights in for the forward and the backward pass, gradients out, after each micro-batch

Sources: deepspeed/runtime/zero/config.py, stage_1_and_2.py and stage3.py at edaa72212; torch 2.13, distributed/fsdp/_fully_shard;
accelerate 1.15.0, utils/fsdp_utils.py. Limits: default bucket sizes; each machine has the same number of GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.laws.activation import FLOAT32, HALF
from lib.laws.parallelism import ceil_divide
from lib.request.sharding import ShardingTraits

REDUCE_BUCKET = 500_000_000
"""Gradients that DeepSpeed reduces together."""
LIVE_PARAMETERS = 1_050_000_000
"""Parameters that ZeRO 3 keeps gathered at most: `stage3_max_live_parameters` and `stage3_prefetch_bucket_size`."""


class WholeStates(NamedTuple):
    """Bytes of a training's states before they are shared out."""

    weights: int
    upcast: int
    adapters: int
    reference: int
    optimizer: int
    optimizer_temporary: int
    head_gradients: int
    parameters: int
    """Trained parameters."""
    trained_width: int
    """Bytes of a trained parameter as FSDP and one GPU hold it."""
    masters: bool
    """Whether trained weights are kept in float32 in addition to their 16 bits."""
    layer_weights: int
    """Bytes of two layers in 16 bits, or of the head if that is larger."""
    micro_batches: int
    """Micro-batches of a step."""


class SharedStates(NamedTuple):
    """Bytes of the fullest GPU, and of the host."""

    weights: int
    upcast: int
    masters: int
    adapters: int
    reference: int
    optimizer: int
    gradients: int
    head_gradients: int
    optimizer_temporary: int
    gathered: int
    """Weights that are gathered at a time, or copied by autocast."""
    buckets: int
    """Buffers for the exchange."""
    host: int
    """Bytes in the host's memory, of all GPUs together."""
    link: int
    """Bytes that each GPU moves to and from the host's memory in a step."""
    host_update: int
    """Bytes that the optimizer on the CPU reads and writes in a step, of all GPUs together."""


def share_states(whole: WholeStates, traits: ShardingTraits, devices: int) -> SharedStates:
    """Each GPU's part of the states with a sharding over `devices`."""
    # Gradients and master weights: DeepSpeed keeps its own of each.
    deepspeed = traits.stage > 0
    gradient_width = HALF if deepspeed else whole.trained_width
    gradients = whole.parameters * gradient_width
    masters = 0
    if whole.masters:
        masters = whole.parameters * (FLOAT32 if deepspeed else HALF)
    elif deepspeed:
        masters = whole.parameters * whole.trained_width
    part_weights, part_gradients, part_states = (devices if part else 1 for part in (traits.weights, traits.gradients, traits.states))
    # Tensors that exist for a moment: flattened parameters, gathered layers, buckets.
    temporary = whole.optimizer_temporary
    if deepspeed:  # flattened in 16 bits, then in the width of the master weights
        temporary += whole.parameters * (HALF + (FLOAT32 if whole.masters else HALF))
    gathered = buckets = 0
    if traits.stage == 3:  # noqa: PLR2004 of ZeRO
        gathered = min(whole.weights, HALF * LIVE_PARAMETERS)
    elif traits.weights:
        gathered = whole.weights if traits.stays_gathered else whole.layer_weights
    if deepspeed:
        buckets = HALF * min(whole.parameters, REDUCE_BUCKET)
    elif traits.launcher == "MULTI_GPU":
        buckets = gradients
    # What the host holds is not on the card.
    host, link, host_update = _offload(whole, traits, devices, masters, gradients)
    kept, kept_weights = not traits.offloads_states, not traits.offloads_weights
    return SharedStates(
        weights=kept_weights * ceil_divide(whole.weights, part_weights),
        upcast=kept_weights * ceil_divide(whole.upcast, part_weights),
        masters=kept * ceil_divide(masters, part_states),
        adapters=ceil_divide(whole.adapters, part_weights),
        reference=kept_weights * ceil_divide(whole.reference, part_weights),
        optimizer=kept * ceil_divide(whole.optimizer, part_states),
        gradients=kept * ceil_divide(gradients, part_gradients),
        head_gradients=ceil_divide(whole.head_gradients * gradient_width // max(1, whole.trained_width), part_gradients),
        optimizer_temporary=kept * ceil_divide(temporary, part_states),
        gathered=gathered,
        buckets=buckets,
        host=host,
        link=link,
        host_update=host_update,
    )


def _offload(whole: WholeStates, traits: ShardingTraits, devices: int, masters: int, gradients: int) -> tuple[int, int, int]:
    """The last three fields of `SharedStates` (host, link, host_update), from the bytes of master weights and gradients."""
    if not traits.offloads_states:
        return 0, 0, 0
    deepspeed, micro_batches = traits.stage > 0, whole.micro_batches
    width = FLOAT32 if whole.masters else whole.trained_width  # of a master weight
    held = masters + whole.optimizer + (whole.parameters * width if deepspeed else gradients)
    # The optimizer reads gradients, weights and states, and writes weights and states; DeepSpeed then copies the weights to 16 bits.
    update = 2 * whole.optimizer + whole.parameters * (3 * width + (width + HALF if deepspeed else 0))
    link = 0
    if deepspeed:
        held += HALF * whole.parameters * (1 if traits.weights or micro_batches == 1 else 2)
        between = 2 * micro_batches - 1 if micro_batches > 1 else 0
        link = ceil_divide(whole.parameters, devices) * (HALF * between + width + HALF)
    if traits.offloads_weights:
        weights = whole.weights + whole.upcast
        held += weights + whole.reference
        link += micro_batches * (2 * ceil_divide(weights + masters, devices) + ceil_divide(gradients, devices))
    return held, link, update
