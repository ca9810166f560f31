"""The caching allocator's rules, and what varying lengths cost it."""

from __future__ import annotations

from lib.memory.allocator import load_constants
from lib.units import MIB
from scripts.simulate_allocator import Allocator, Sizes, simulate, simulate_pairs

SIZES = Sizes(hidden=256, layers=2, keys=64, mlp=1024, vocabulary=50_000)


def test_blocks_are_cut_and_joined() -> None:
    """20 MiB are asked of the device for 4; the rest serves the next, and freed neighbours serve one of both sizes."""
    allocator = Allocator()
    first, second = allocator.allocate(4 * MIB), allocator.allocate(6 * MIB)
    assert allocator.reserved == 20 * MIB
    allocator.release(first, second)
    allocator.allocate(10 * MIB)
    assert (allocator.reserved, allocator.live, allocator.peak) == (20 * MIB, 10 * MIB, 10 * MIB)


def test_lengths_that_grow_reserve_more_than_the_longest_alone() -> None:
    """Equal lengths are served from what is there; a longest row that comes first serves all that follow."""
    once, thrice = simulate(SIZES, [512]), simulate(SIZES, [512] * 3)
    assert (once.live, thrice.live, once.reserved) == (0, 0, thrice.reserved)
    assert simulate(SIZES, [200, 300, 400, 512]).reserved > 1.2 * once.reserved
    assert simulate(SIZES, [512, 400, 300, 200]).reserved < 1.1 * once.reserved


def test_pairs_without_logits_reserve_a_part_of_their_activations() -> None:
    """Texts that vary cost up to the share that the law takes; texts that all reach the limit cost nothing."""
    varying = [simulate_pairs(16, 128, 512, keeps=keeps, seed=1) for keeps in (False, True)]
    assert all(0.05 < one.reserved / one.peak - 1 < load_constants().without_logits + 0.25 for one in varying)
    equal = simulate_pairs(16, 10_000, 512, keeps=True, seed=1)
    assert equal.reserved / equal.peak - 1 < 0.05
