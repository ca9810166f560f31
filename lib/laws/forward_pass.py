"""Time of one forward pass from its parts.

    device = (t_W³ + t_C³)^(1/3) + t_K        step = device + t_H       (engines that replay a graph or launch ahead of time)
                                              step = (device⁴ + t_H⁴)^(1/4)   (eager engines: launching overlaps with computing)
    then + t_X

    t_W  reading weights   t_C  matrix arithmetic   t_K  reading the cache   t_H  host and launches   t_X  exchange between devices

Reading weights and computing with them overlap within a kernel: the longer of the two, with a rounded corner where both are as long.
Attention is another kernel and adds. Every form is at least its largest part, so no step is faster than its bytes and its FLOP allow.
Limits: kernels that overlap attention with matrices, or the exchange with computing, are a little faster.
Source: Williams et al. 2009, "Roofline", with a smooth corner; the overlap of eager launches: PyTorch's asynchronous execution.

What a law of speed computes with: one number, or an array with one entry per case.

Bytes of weights that one step reads.

    W(n) = D + X · (1 - (1 - k/E)ⁿ)

    D  bytes of the weights that every token uses     X  bytes of the routed experts
    E  experts of a layer     k  experts a token reaches     n  tokens in the step

Weights are read once for all tokens of a step. Each token reaches k of E experts; with n tokens that choose independently an
expert is missed by all with probability (1 - k/E)ⁿ.
Limits: routers are trained to balance their load over long texts; within one batch of similar texts the choices are correlated and fewer
experts are read. A dense model has X = 0.
Source: expected coverage of independent draws; Pope et al. 2022, arXiv:2211.05102, §2 for the weights read once per step.

Bytes of cache that one sequence holds, and a decode step therefore reads, as a function of its length.

    C(T) = c₀ + c₁·T + c_w·min(T, w)

    c₀   bytes that do not grow (states of linear and convolutional layers, cross attention)
    c₁   bytes per token of layers that keep everything     c_w  bytes per token of layers that keep a window
    w    length of that window, tokens

The three sums come from the cache terms of the model (`lib.model.spec.CacheTerm`), so sliding windows, latent attention and hybrids
each count what they hold. The static caches of TPU and Neuron engines read the whole allocated length instead: T is that length.
Limits: layers that hold everything and read a selection (sparse attention with an index) read less than this. Blocks of a
compressed cache are taken as proportional to T. Models with windows of several lengths are given their mean, weighted by bytes.
Source: `lib.laws.kv_cache` for what is held; one read per step: Pope et al. 2022, arXiv:2211.05102, §2.

Floating-point operations of a forward pass.

    F_linear(n) = 2 · P · n              F_attention(T) = 2 · a · (L_full · T² + L_win · T · min(T, 2w))

    P  parameters one token uses   n  tokens   T  length of the prompt   a  heads · width of a head
    L_full, L_win  layers with full and with windowed attention   w  length of the window, tokens

A multiplication and an addition per parameter and token; scores and their product with the values take 4·a per pair of positions and
layer, and a causal mask leaves half of the T² pairs (for a window T·w of them, once T is well past w).
Limits: latent attention computes its products in a width of its own; layers without attention have no such term.
Source: Kaplan et al. 2020, arXiv:2001.08361, §2.1.

Time that devices spend exchanging activations in one step of a tensor-parallel group.

    t = 2 · L · ( τ · log₂ N + 2 · n · h / λ · (N - 1) / N )       N > 1, else 0

    L  layers, two all-reduces in each   N  devices   τ  latency of an exchange between two   n  tokens in the step
    h  hidden size, 2 bytes each         λ  bytes per second of the link, one direction, as far as reached

Measured: about 20 µs per layer over NVLink in a tuned engine, several times that over PCIe.
Limits: layers split over devices one after the other (pipeline) exchange almost nothing and are not meant here; expert parallel exchanges
are taken as all-reduces.
Source: ring all-reduce, Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; constants from `scripts/calibrate.py`.

Time that the host and the launches of kernels take in one step.

    t = L · τ_layer · f · m + τ_step + n · τ_seq

    L  layers   τ_layer  time of a layer   τ_step  time of a step, both by engine   τ_seq  time per sequence (sampling, scheduling)
    f  factor of the weight format in eager engines (bitsandbytes int8 launches several kernels for one matrix)
    m  factor for layers with routed experts     n  sequences

transformers in eager mode needs 20-26 ms a step for 24-36 layers on any card; engines that replay a recorded graph 2-4 ms.
Limits: the host's processor is not among the inputs; a slow one (2 virtual CPUs) takes longer.
Source: fitted by `scripts/calibrate.py`.

Bandwidth and compute that are reached, from the datasheet and fitted shares.

    β = max_g  β_g · σ(z + z_g)              φ(n) = max_g  φ_g · σ(y + y_g) · n / (n + h·h_g)

    β_g, φ_g  the highest datasheet bandwidth and dense peak of class g among the cards that this card equals or exceeds in
              both ceilings (the card itself for its own class; 0 where there is none)
    z, y      logits of the share reached, by engine and weight format    z_g, y_g  by card class
    σ(x) = 1 / (1 + e⁻ˣ)     n  rows (tokens) in the step     h·h_g  rows at which half of the rate is reached

The share falls with small steps: 128 rows reach 35-47 % of an H100's matmul rate, 512 rows 80 %. The maximum over classes says that a
card whose two ceilings are both higher is never credited with less than the lower card, whatever its class: a faster card never
comes out slower. It overrates cards whose software does not yet reach what their sheet says (MI300X).
Limits: one share for all sizes of matrices; power limits under long load are inside the class's share.
Source: shares fitted by `scripts/calibrate.py`; form: Williams et al. 2009, "Roofline"; rows: published matmul tables.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Quantity: TypeAlias = "float | NDArray[np.float64]"
Array: TypeAlias = NDArray[np.float64]


def fraction(logit: Quantity) -> Array:
    """A share between 0 and 1 from its logit z: 1 / (1 + e⁻ᶻ); fitted shares are kept as logits so that none can pass 1.

    >>> float(fraction(0.0))
    0.5
    """
    share: Array = 1.0 / (1.0 + np.exp(-np.asarray(logit, dtype=np.float64)))
    return share


_CORNER = 3.0
_OVERLAP = 4.0


def device_time(*, weights_s: Quantity, compute_s: Quantity, cache_s: Quantity) -> Array:
    """Seconds the device works.

    >>> round(float(device_time(weights_s=0.05, compute_s=0.001, cache_s=0.002)), 4)
    0.052
    """
    time: Array = np.cbrt(np.power(weights_s, _CORNER) + np.power(compute_s, _CORNER)) + cache_s
    return time


def step_time(*, device_s: Quantity, host_s: Quantity, exchange_s: Quantity, eager: bool | NDArray[np.bool_]) -> Array:
    """Seconds of the step; `eager` is true where launches overlap.

    3 ms of work behind 24 ms of launches: eager 24.0 ms, as a graph 27 ms if it had as much host time:

    >>> [round(float(step_time(device_s=0.003, host_s=0.024, exchange_s=0.0, eager=e)) * 1e3, 1) for e in (True, False)]
    [24.0, 27.0]
    """
    overlapped = (np.power(device_s, _OVERLAP) + np.power(host_s, _OVERLAP)) ** (1.0 / _OVERLAP)
    total: Array = np.where(eager, overlapped, np.add(device_s, host_s)) + exchange_s
    return total


def share_reached(*, experts: Quantity, per_token: Quantity, tokens: Quantity) -> Array:
    """Expected share of the experts that n tokens reach; 1 without experts.

    Two of eight experts, one token and eight tokens: 1/4 and 1 - (3/4)⁸ = 0.8999:

    >>> [round(float(share_reached(experts=8, per_token=2, tokens=n)), 4) for n in (1, 8)]
    [0.25, 0.8999]
    """
    each = np.minimum(1.0, np.asarray(per_token, dtype=np.float64) / np.maximum(experts, 1.0))
    reached: Array = np.where(np.asarray(experts) > 0, 1.0 - (1.0 - each) ** tokens, 1.0)
    return reached


def weights_read(*, dense_bytes: Quantity, expert_bytes: Quantity, reached: Quantity) -> Quantity:
    """Bytes of weights a step reads, with this share of the experts reached."""
    return dense_bytes + expert_bytes * reached


def cache_read(*, constant: Quantity, per_token: Quantity, windowed_per_token: Quantity, window: Quantity, tokens: Quantity) -> Quantity:
    """Bytes for one sequence of `tokens`.

    Llama-3.1-8B keeps 128 KiB per token; a model with half of such layers in a window of 1024 keeps less at 4096 tokens:

    >>> int(cache_read(constant=0, per_token=131072, windowed_per_token=0, window=0, tokens=4096)) // 2**20
    512
    >>> int(cache_read(constant=0, per_token=65536, windowed_per_token=65536, window=1024, tokens=4096)) // 2**20
    320
    """
    return constant + per_token * tokens + windowed_per_token * np.minimum(tokens, window)


def linear_flop(*, parameters: Quantity, tokens: Quantity) -> Quantity:
    """FLOP of the matrices.

    >>> linear_flop(parameters=8e9, tokens=1000)
    16000000000000.0
    """
    return 2.0 * parameters * tokens


def attention_flop(*, width: Quantity, full_layers: Quantity, windowed_layers: Quantity, window: Quantity, tokens: Quantity) -> Quantity:
    """FLOP of attention over a prompt of one sequence.

    Llama-3.1-8B (32 layers, 4096 wide) over 8192 tokens: 2 · 4096 · 32 · 8192² = 17.6 TFLOP, a seventh of its matrices' 131:

    >>> round(float(attention_flop(width=4096, full_layers=32, windowed_layers=0, window=0, tokens=8192)) / 1e12, 1)
    17.6
    """
    return 2.0 * width * tokens * (full_layers * tokens + windowed_layers * np.minimum(tokens, 2.0 * window))


def exchange_time(*, layers: Quantity, devices: Quantity, tokens: Quantity, hidden: Quantity, latency_s: Quantity, link: Quantity) -> Array:
    """Seconds of exchange in a step.

    Two devices, 32 layers, 10 µs: 2 · 32 · 10 µs = 0.64 ms, the bytes of one token being nothing beside it:

    >>> round(float(exchange_time(layers=32, devices=2, tokens=1, hidden=4096, latency_s=1e-5, link=4e11)) * 1e3, 2)
    0.64
    """
    n = np.maximum(devices, 1.0)
    each = latency_s * np.log2(n) + 2.0 * tokens * hidden / link * (n - 1.0) / n
    total: Array = np.where(n > 1.0, 2.0 * layers * each, 0.0)
    return total


def host_time(
    *, layers: Quantity, layer_s: Quantity, step_s: Quantity, sequence_s: Quantity, sequences: Quantity, factor: Quantity
) -> Quantity:
    """Seconds of host time in a step; `factor` = f · m.

    >>> host_time(layers=32, layer_s=0.0007, step_s=0.001, sequence_s=0, sequences=1, factor=1)
    0.0234
    """
    return layers * layer_s * factor + step_s + sequences * sequence_s


def achieved_bandwidth(*, by_class: Array, logit: Quantity, class_logit: Array) -> Array:
    """Bytes per second that are reached; `by_class` has one column per card class.

    >>> float(achieved_bandwidth(by_class=np.array([[300e9, 0.0]]), logit=0.0, class_logit=np.array([0.0, 1.0]))[0]) / 1e9
    150.0
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    reached: Array = (by_class * shares).max(axis=-1)
    return reached


def achieved_compute(*, by_class: Array, logit: Quantity, class_logit: Array, rows: Quantity, half_rows: Array) -> Array:
    """FLOP per second that are reached with so many rows; `half_rows` has one entry per class.

    >>> one = np.array([[1e12]])
    >>> eighty, common = np.array([80.0]), np.zeros(1)
    >>> float(achieved_compute(by_class=one, logit=0.0, class_logit=common, rows=eighty, half_rows=eighty)[0]) / 1e12
    0.25
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    n = np.asarray(rows, dtype=np.float64)[..., None]
    reached: Array = (by_class * shares * n / (n + half_rows)).max(axis=-1)
    return reached
