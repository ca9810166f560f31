"""How much torch's caching allocator reserves in addition to the tensors of training steps, by its own rules, run without a device.

    python -m scripts.simulate_allocator

The allocator keeps freed memory in blocks: it hands out the smallest free block that is large enough, cuts off the rest if that is more
than 1 MiB, and joins free neighbours. If no block fits, it takes more from the device (c10/cuda/CUDACachingAllocator.cpp, torch 2.13: small
blocks up to 1 MiB in segments of 2, others in segments of 20 MiB, or of their own size in steps of 2 MiB from 10 MiB on). Here it serves
the tensors of micro-batches of a decoder with LoRA: forward pass with checkpoints, logits and loss, backward pass that recomputes. Once all
micro-batches are as long as stated; once their lengths vary below it as rows of text do (log-normal, mean half the limit, deviation 0.8 of
the mean; longer rows left out; one row in the middle reaches the limit). It prints the bytes reserved beyond the tensors' peak as a share
of the peak. No figure of a published run goes in, so it is an independent check of the share that `scripts/check_training.py` fits for
varying lengths (2.17 typical; here 2.6, and 1.6 to 4.3). A full device reserves less, because the allocator returns cached blocks before it
fails.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lib.memory.resolve import layer_sizes
from lib.model import bundled
from lib.units import GIB, MIB

MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "microsoft/phi-2")
LIMIT = 2048
ORDERS = 12
ROWS = 64
SPREAD = 0.8
PAIRS = ((8, 128, 512), (32, 128, 512), (64, 128, 512), (64, 512, 2048), (32, 60, 512))
"""Rows of a micro-batch, and mean and limit of the tokens of a text."""
_STEP = 512
_SEGMENT, _SMALL_SEGMENT, _LARGE_FROM = 20 * MIB, 2 * MIB, 10 * MIB


@dataclass(slots=True, kw_only=True)
class Block:
    """A piece of a segment, with its neighbours in it."""

    size: int
    small: bool
    free: bool = True
    before: int | None = None
    after: int | None = None


@dataclass(slots=True)
class Allocator:
    """The two pools of the caching allocator."""

    blocks: dict[int, Block] = field(default_factory=dict)
    pools: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(default_factory=lambda: ([], []))
    names: int = 0
    reserved: int = 0
    live: int = 0
    peak: int = 0

    def _add(self, block: Block) -> int:
        self.names += 1
        self.blocks[self.names] = block
        return self.names

    def allocate(self, size: int) -> int:
        """A block of at least so many bytes; its name."""
        size = max(_STEP, -(-size // _STEP) * _STEP)
        small = size <= MIB
        pool = self.pools[small]
        place = bisect.bisect_left(pool, (size, -1))
        if place < len(pool):
            name = pool.pop(place)[1]
        else:
            segment = _SMALL_SEGMENT if small else _SEGMENT if size < _LARGE_FROM else -(-size // _SMALL_SEGMENT) * _SMALL_SEGMENT
            self.reserved += segment
            name = self._add(Block(size=segment, small=small))
        block = self.blocks[name]
        rest_size = block.size - size
        if rest_size >= _STEP if small else rest_size > MIB:
            rest = self._add(Block(size=rest_size, small=small, before=name, after=block.after))
            if block.after is not None:
                self.blocks[block.after].before = rest
            block.after, block.size = rest, size
            bisect.insort(pool, (rest_size, rest))
        block.free = False
        self.live += block.size
        self.peak = max(self.peak, self.live)
        return name

    def release(self, *names: int) -> None:
        """Give blocks back; neighbours that are free become one."""
        for name in names:
            block = self.blocks[name]
            self.live -= block.size
            pool = self.pools[block.small]
            for other in (block.before, block.after):
                if other is None or not self.blocks[other].free:
                    continue
                neighbour = self.blocks.pop(other)
                pool.pop(bisect.bisect_left(pool, (neighbour.size, other)))
                block.size += neighbour.size
                if other == block.before:
                    block.before = neighbour.before
                    if neighbour.before is not None:
                        self.blocks[neighbour.before].after = name
                else:
                    block.after = neighbour.after
                    if neighbour.after is not None:
                        self.blocks[neighbour.after].before = name
            block.free = True
            bisect.insort(pool, (block.size, name))


class Sizes(NamedTuple):
    """Hidden size, layers, widths of keys and MLP, entries of the vocabulary."""

    hidden: int
    layers: int
    keys: int
    mlp: int
    vocabulary: int


ENCODER = Sizes(hidden=1024, layers=24, keys=1024, mlp=4096, vocabulary=0)
"""bge-large."""


def _layer(to: Allocator, t: int, of: Sizes, *, keeps: bool) -> tuple[int, list[int]]:
    """One layer's forward pass in 16 bits: its output and what it keeps for the backward pass."""
    h, k, f = 2 * of.hidden * t, 2 * of.keys * t, 2 * of.mlp * t
    saved_blocks: list[int] = []

    def norm() -> int:
        wide, square = to.allocate(2 * h), to.allocate(2 * h)
        to.release(square)
        normed = to.allocate(h)
        saved_blocks.append(wide)
        return normed

    normed = norm()
    query, key, value = to.allocate(h), to.allocate(k), to.allocate(k)
    turned = to.allocate(h), to.allocate(k)
    to.release(query, key)
    attended, projection = to.allocate(h), to.allocate(h)
    stream = to.allocate(h)
    to.release(projection)
    saved_blocks += [*turned, value, attended, normed]
    normed = norm()
    gate, active, up, product = (to.allocate(f) for _ in range(4))
    saved_blocks += [gate, active, up, stream]
    projection = to.allocate(h)
    to.release(product, normed)
    output = to.allocate(h)
    to.release(projection)
    if not keeps:
        to.release(*saved_blocks)
        saved_blocks = []
    return output, saved_blocks


def _loss(to: Allocator, t: int, of: Sizes) -> int:
    """Logits, their float32 copy, log-softmax, and the gradients back to the hidden states."""
    entries = of.vocabulary * t
    logits, wide = to.allocate(2 * entries), to.allocate(4 * entries)
    softmax = to.allocate(4 * entries)
    to.release(wide)
    gradient, through = to.allocate(4 * entries), to.allocate(4 * entries)
    to.release(gradient, softmax)
    narrow = to.allocate(2 * entries)
    to.release(through, logits)
    back = to.allocate(2 * of.hidden * t)
    to.release(narrow)
    return back


def micro_batch(to: Allocator, t: int, of: Sizes) -> None:
    """Forward and backward pass over t tokens with checkpointed layers."""
    checkpoints = [to.allocate(2 * of.hidden * t)]
    checkpoints += [_layer(to, t, of, keeps=False)[0] for _ in range(of.layers)]
    _backward(to, t, of, checkpoints, _loss(to, t, of), None)


def pairs_step(to: Allocator, texts: Sequence[int], of: Sizes, *, keeps: bool) -> None:
    """A step of an embedding model: a forward pass over the tokens of each text of the pairs, then the backward passes; no logits."""
    passes = []
    for t in texts:
        checkpoints, saved = [to.allocate(2 * of.hidden * t)], []
        for _ in range(of.layers):
            output, kept = _layer(to, t, of, keeps=keeps)
            checkpoints.append(output)
            saved.append(kept)
        passes.append((t, checkpoints, saved))
    gradients = [to.allocate(2 * of.hidden * t) for t in texts]
    for (t, checkpoints, saved), gradient in reversed(list(zip(passes, gradients, strict=True))):
        _backward(to, t, of, checkpoints, gradient, saved if keeps else None)


def _backward(to: Allocator, t: int, of: Sizes, checkpoints: list[int], gradient: int, saved: list[list[int]] | None) -> None:
    """The backward pass over t tokens; layers are recomputed without `saved`."""
    h, k, f = 2 * of.hidden * t, 2 * of.keys * t, 2 * of.mlp * t
    to.release(checkpoints.pop())
    for _ in range(of.layers):
        if saved is None:
            again, saved_blocks = _layer(to, t, of, keeps=True)
            to.release(again)
        else:
            saved_blocks = saved.pop()
        inner = [to.allocate(f) for _ in range(3)]
        lower = to.allocate(h)
        to.release(*inner)
        inner = [to.allocate(h), to.allocate(k), to.allocate(k)]
        through = to.allocate(h)
        to.release(*inner, lower, gradient, *saved_blocks, checkpoints.pop())
        gradient = through
    to.release(gradient)


def simulate_pairs(rows: int, mean: int, limit: int, *, keeps: bool, seed: int) -> Allocator:
    """Steps of bge-large on pairs whose longest texts vary: of a query and of its answer, one step at the limit."""
    chance = random.Random(seed)  # noqa: S311 no secret
    deviation = math.sqrt(math.log(1 + SPREAD**2))
    middle = math.log(mean) - deviation**2 / 2

    def longest() -> int:
        return max(1, *(min(limit, int(chance.lognormvariate(middle, deviation))) for _ in range(rows)))

    steps = [(longest(), longest()) for _ in range(ROWS)]
    steps[ROWS // 2] = limit, limit
    allocator = Allocator()
    for first, second in steps:
        pairs_step(allocator, (rows * first, rows * second), ENCODER, keeps=keeps)
    return allocator


def lengths(limit: int, seed: int) -> Iterator[int]:
    """Lengths of rows below a limit."""
    chance = random.Random(seed)  # noqa: S311 no secret
    deviation = math.sqrt(math.log(1 + SPREAD**2))
    middle = math.log(limit / 2) - deviation**2 / 2
    while True:
        length = int(chance.lognormvariate(middle, deviation))
        if 0 < length <= limit:
            yield length


def simulate(of: Sizes, tokens: Sequence[int]) -> Allocator:
    """Micro-batches of these lengths, one after another."""
    allocator = Allocator()
    for t in tokens:
        micro_batch(allocator, t, of)
    return allocator


def main() -> None:
    """Print shares by model and limit, and their quantiles."""
    equal, varying = [], []
    print(f"{'model':28} {'order':>6} {'peak GiB':>9} {'equal':>7} {'varying':>8}   share reserved beyond the peak")
    for name in MODELS:
        spec = bundled.find_spec(name)
        if spec is None:
            continue
        s = layer_sizes(spec)
        of = Sizes(s.hidden, s.layers, s.key_width, s.mlp_width, s.vocabulary)
        one = simulate(of, [LIMIT] * 3)
        equal.append(one.reserved / one.peak - 1)
        for order in range(ORDERS):
            rows = lengths(LIMIT, seed=order)
            many = simulate(of, [*(next(rows) for _ in range(ROWS)), LIMIT, *(next(rows) for _ in range(ROWS))])
            varying.append(many.reserved / one.peak - 1)
            print(f"{name:28} {order:6} {one.peak / GIB:9.2f} {equal[-1]:7.2f} {varying[-1]:8.2f}", flush=True)
    pairs = []
    for (count, mean, limit), keeps, seed in itertools.product(PAIRS, (False, True), range(ORDERS // 3)):
        one = simulate_pairs(count, mean, limit, keeps=keeps, seed=seed)
        pairs.append(one.reserved / one.peak - 1)
        print(f"pairs {count:3} rows, mean {mean:4} of {limit:4} {one.peak / GIB:9.2f} {pairs[-1]:16.2f}", flush=True)
    quarters = statistics.quantiles(pairs, n=4)
    print(f"varying lengths without logits: quartiles {', '.join(f'{one:.2f}' for one in quarters)}, at most {max(pairs):.2f}")
    for title, shares in (("equal lengths", equal), ("varying lengths", varying)):
        tenths = statistics.quantiles(shares, n=10)
        print(f"{title}: low {tenths[0]:.2f}, typical {statistics.median(shares):.2f}, high {tenths[-1]:.2f}")


if __name__ == "__main__":
    main()
