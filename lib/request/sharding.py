"""Ways to share a training's states over GPUs, a row each: the states that each GPU keeps whole, and those in the host's memory.

Sources: Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO); Ren et al. 2021, arXiv:2101.06840 (ZeRO-Offload); Zhao et al. 2023,
arXiv:2304.11277 (FSDP); accelerate 1.15.0, utils/fsdp_utils.py, read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

Sharding = Literal[
    "none", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp_offload",
    "fsdp1", "fsdp_grad_op", "fsdp_hybrid", "zero2_offload", "zero3_offload",
]  # fmt: skip
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
Launcher = Literal["", "MULTI_GPU", "DEEPSPEED", "FSDP"]


class ShardingTraits(NamedTuple):
    """How a sharding spreads the states of a training."""

    launcher: Launcher = ""
    """accelerate's `distributed_type`; empty for one GPU."""
    stage: int = 0
    """DeepSpeed's ZeRO stage."""
    weights: bool = False
    """Whether each GPU keeps a part of the weights."""
    gradients: bool = False
    """Whether each GPU keeps a part of the gradients."""
    states: bool = False
    """Whether each GPU keeps a part of the optimizer states and master weights."""
    stays_gathered: bool = False
    """Whether gathered weights stay from the forward pass to the backward pass (SHARD_GRAD_OP)."""
    offloads_states: bool = False
    """Whether optimizer states, master weights and gradients lie in the host's memory, where the CPU updates them."""
    offloads_weights: bool = False
    """Whether weights lie in the host's memory too."""
    within_machine: bool = False
    """Whether only the GPUs of one machine share, and machines hold copies (HYBRID_SHARD)."""
    keeps_input_gradients: bool = False
    """Whether the gradient of each layer's input stays until the backward pass ends, where layers are recomputed and weights are frozen.
    Seen in runs with torch 2.4.1 (scripts/sharded_points.py), not with torch 2.13."""

    @property
    def trains_alone(self) -> bool:
        """Whether it helps one GPU: DeepSpeed's optimizer on the CPU does."""
        return self.stage > 0 and self.offloads_states


SHARDING_TRAITS: Mapping[Sharding, ShardingTraits] = MappingProxyType(
    {
        "none": ShardingTraits(),
        "ddp": ShardingTraits("MULTI_GPU"),
        "zero1": ShardingTraits("DEEPSPEED", 1, states=True),
        "zero2": ShardingTraits("DEEPSPEED", 2, gradients=True, states=True),
        "zero3": ShardingTraits("DEEPSPEED", 3, weights=True, gradients=True, states=True),
        "fsdp": ShardingTraits("FSDP", weights=True, gradients=True, states=True),
        "fsdp_offload": ShardingTraits("FSDP", weights=True, gradients=True, states=True, offloads_states=True, offloads_weights=True),
        "fsdp1": ShardingTraits("FSDP", weights=True, gradients=True, states=True, keeps_input_gradients=True),
        "fsdp_grad_op": ShardingTraits("FSDP", weights=True, gradients=True, states=True, stays_gathered=True),
        "fsdp_hybrid": ShardingTraits("FSDP", weights=True, gradients=True, states=True, within_machine=True),
        "zero2_offload": ShardingTraits("DEEPSPEED", 2, gradients=True, states=True, offloads_states=True),
        "zero3_offload": ShardingTraits("DEEPSPEED", 3, weights=True, gradients=True, states=True, offloads_states=True),
    }
)
