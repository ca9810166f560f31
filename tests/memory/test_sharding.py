"""States that are shared over GPUs: what an offload keeps in host memory and moves, against numbers that were added up by hand."""

from __future__ import annotations

import pytest

from lib.memory.sharding import WholeStates, share_states
from lib.request.sharding import SHARDING_TRAITS, Sharding

PARAMETERS = 800
WHOLE = WholeStates(
    weights=2 * PARAMETERS, upcast=0, adapters=0, reference=0, optimizer=8 * PARAMETERS, optimizer_temporary=0, head_gradients=0,
    parameters=PARAMETERS, trained_width=4, masters=True, layer_weights=0, micro_batches=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("sharding", "micro_batches", "held", "link", "update"),
    [
        # Master weights 4, gradients 4, AdamW 8, weights in 16 bits 2; one micro-batch more needs a buffer of gradients.
        ("zero2_offload", 1, 18, 4 + 2, 16 + 12 + 6),
        ("zero2_offload", 3, 20, 3 * 2 + 2 * 2 + 4 + 2, 16 + 12 + 6),
        ("zero3_offload", 3, 18, 3 * 2 + 2 * 2 + 4 + 2, 16 + 12 + 6),
        # FSDP: float32 weights 4 in twice, gradients 4 out, each micro-batch.
        ("fsdp_offload", 1, 16, 8 + 4, 16 + 12),
        ("fsdp_offload", 3, 16, 3 * (8 + 4), 16 + 12),
        ("zero2", 3, 0, 0, 0),
    ],
)
def test_bytes_of_a_parameter_in_host_memory(sharding: Sharding, micro_batches: int, held: int, link: int, update: int) -> None:
    """Of all GPUs held and updated, of one of eight GPUs moved."""
    shared = share_states(WHOLE._replace(micro_batches=micro_batches), SHARDING_TRAITS[sharding], 8)
    assert (shared.host, shared.host_update) == (held * PARAMETERS, update * PARAMETERS)
    assert shared.link == link * PARAMETERS // 8
