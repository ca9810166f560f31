"""A mixture of experts with routed experts in the host's memory, as llama.cpp runs it: `--n-cpu-moe K`, `--cpu-moe`, `-ot exps=CPU`.

Attention, shared experts, norms, output matrix and KV cache stay on the card. The routed experts of the first K layers stay in the host's
memory, and so does the embedding table. Layers without routed experts move nothing.

    m       layers whose experts are in the host's memory
            dense layers first:       max(0, K - (L - E))         every n-th layer has experts:       ⌊K / n⌋

    M_card  = layers + output + cache + buffer - m / E · X
    M_host  = table + m / E · X + 4·u·(h + C) + process

    L  layers     E  layers with routed experts     X  bytes of all routed experts
    u  micro-batch     h  hidden size     C  context (`lib.laws.parallelism`)

A decode step waits for the card and for the processor in turn, layer by layer, so the times add up:

    t_decode = t_card + m / E · X · share(B) / (η · β) + m · τ

    t_card  the step on the card without the experts in host memory     share(B)  experts that B tokens reach (`expert_share`)
    β  bandwidth of the host's memory (`lib.catalog.host_memory`)     η  share of β that is reached     τ  seconds to hand over a layer

A prompt is read in micro-batches of u tokens. From 32 tokens on the card computes the experts too, and their weights cross the bus once in
every micro-batch. Fewer than 32 tokens are computed by the processor, as in a decode step.

    t_prompt = t_card(all experts) + Σ over micro-batches of m / E · X · share(u) · (1 / (λ · bus) + 1 / (μ · β))

    λ  share of the bus's rate     μ  share of β at which the host copies weights into pinned memory

Limits: the experts of all layers are assumed to be equally large. Some formats are slower on processors (IQ types, trellis types of
forks). Not modelled: two sockets, memory that is paged from disk, a driver that spills the card's memory, draft models. η, λ, μ and τ are
fitted by `scripts/check_experts.py` on runs of one request at a time.
Sources: llama.cpp `common/arg.cpp` (the pattern `ffn_(up|down|gate)_(ch|)exps`, layers 0 to K - 1) and `ggml-cuda.cu`
(`min_batch_size` = 32, tokens of a `MUL_MAT_ID`), as quoted by forks and bindings, read 2026-11-26.
"""

from __future__ import annotations

from lib.laws import Law
from lib.laws.forward_pass import FITTED_CONSTANTS
from lib.units import Bytes, Seconds

HOST_EXPERTS = Law(
    "m / E · expert bytes · share of experts reached / (η · host bandwidth) + m · τ", "lib/laws/expert_split.py; " + FITTED_CONSTANTS
)
COPIED_EXPERTS = Law(
    "Σ over micro-batches: m / E · expert bytes · share of experts reached · (1 / (λ · bus) + 1 / (μ · host bandwidth))",
    "lib/laws/expert_split.py; " + FITTED_CONSTANTS,
)
LEAST_COPIED_TOKENS = 32
"""From this number of tokens in a micro-batch, the card computes the experts in host memory."""


def layers_in_host(*, layers: int, expert_layers: int, cpu_moe_layers: int) -> int:
    """m: layers whose routed experts are in the host's memory with `--n-cpu-moe cpu_moe_layers`.

    DeepSeek-R1 has 3 dense layers before 58 with experts, Llama 4 Maverick has experts in every second layer:

    >>> [layers_in_host(layers=61, expert_layers=58, cpu_moe_layers=k) for k in (0, 3, 10, 61)]
    [0, 0, 7, 58]
    >>> layers_in_host(layers=48, expert_layers=24, cpu_moe_layers=10)
    5
    """
    if expert_layers == 0:
        return 0
    every = round(layers / expert_layers)
    moved = cpu_moe_layers // every if every > 1 else cpu_moe_layers - (layers - expert_layers)
    return max(0, min(expert_layers, moved))


def expert_bytes_in_host(*, expert_bytes: int, expert_layers: int, in_host: int) -> Bytes:
    """The experts' bytes in the host's memory.

    >>> expert_bytes_in_host(expert_bytes=3_600, expert_layers=36, in_host=24)
    2400
    """
    return Bytes(expert_bytes * in_host // max(1, expert_layers))


def host_step_time(*, read_bytes: float, bandwidth: float, share: float, in_host: float, layer_s: float) -> Seconds:
    """Seconds that a decode step waits for the processor; `bandwidth` = β, `share` = η, `layer_s` = τ.

    >>> round(host_step_time(read_bytes=1.2e9, bandwidth=96e9, share=0.5, in_host=36, layer_s=1e-4), 4)
    0.0286
    """
    return Seconds(read_bytes / (share * bandwidth) + in_host * layer_s)


def copy_time(*, moved_bytes: float, bus: float, bus_share: float, bandwidth: float, copy_share: float) -> Seconds:
    """Seconds to copy experts to the card for one micro-batch; `bus_share` = λ, `copy_share` = μ.

    >>> round(copy_time(moved_bytes=20e9, bus=32e9, bus_share=0.8, bandwidth=50e9, copy_share=0.8), 3)
    1.281
    """
    return Seconds(moved_bytes * (1 / (bus_share * bus) + 1 / (copy_share * bandwidth)))


def micro_batches(tokens: int, micro_batch: int) -> tuple[int, ...]:
    """Tokens of each micro-batch of a prompt: full ones, and the rest.

    >>> micro_batches(1100, 512)
    (512, 512, 76)
    """
    full, rest = divmod(tokens, micro_batch)
    return (*(micro_batch,) * full, *((rest,) if rest else ()))
