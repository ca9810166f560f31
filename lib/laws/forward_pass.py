"""Time of one forward pass: the bytes it reads, the FLOP it computes, the rates that are reached, the parts put together; and its floor.

    device = (t_W³ + t_C³)^(1/3) + t_U + t_K + t_M    step = device + t_H               engines that replay a graph or launch ahead of time
                                                      step = (device⁴ + t_H⁴)^(1/4)     eager engines: launching overlaps with computing
                                                      step = ((device + t_H)⁴ + t_P⁴)^(1/4)   with prompts, in engines that replay
    then + t_X

    t_W  reading weights   t_C  matrix arithmetic      t_K  reading the cache   t_H  launch overhead of the host   t_X  all-reduces
    t_U  unpacking weights before a product            t_M  moving the cache to a longer tensor
    t_P  launching a pass with prompts one kernel after the other

Each part has its law at its function, in this order: bytes and FLOP, rates, overheads, the step. Quantities are numbers or arrays with one
entry per case. Fitted shares and times come from `scripts/calibrate.py`.

The floor is the least time that a datasheet allows, the roofline. No prediction, and no end of a range, may lie below it.

    t ≥ max( M / β ,  F / φ )

    M  bytes that have to cross the memory's bus        β  bandwidth of the memory, bytes/s
    F  floating-point operations                        φ  dense peak in the dtype that multiplies, FLOP/s

Several devices that work at the same time have N · β and N · φ. Without a published peak only the memory bounds. A decode step reads the
weights once for all B sequences, and C bytes of cache of each; a prompt's pass, or an encoder's, is over B sequences of T tokens:

    decode step   M = r · W + B · C    F = 2 · P · B            prompt   M = W    F = 2 · P · B · T

    W  bytes of weights      r  share of W that the step reads (`expert_share`; 1 for a dense model)      P  parameters that one token uses

1 / t of a decode step is an upper bound on the tokens per second of each request, B / t on those of all together. Limits: bounds, not
predictions; kernels reach 25 to 90 % of them. Sequences that share a prefix, and caches kept on chip, could read less than C. Attention's
own FLOP are left out, without which the bound stays a bound.
Sources: Williams et al. 2009, "Roofline", doi:10.1145/1498765.1498785; Pope et al. 2022, "Efficiently Scaling Transformer Inference",
arXiv:2211.05102, §2 (what a step reads); Kaplan et al. 2020, arXiv:2001.08361, §2.1 (2 FLOP per parameter and token).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lib.laws import Law

Quantity: TypeAlias = "float | NDArray[np.float64]"
Array: TypeAlias = NDArray[np.float64]

FITTED_CONSTANTS = "constants fitted by scripts/calibrate.py"
_ROOFLINE = "Williams et al. 2009, doi:10.1145/1498765.1498785; " + FITTED_CONSTANTS
_HERE = "lib/laws/forward_pass.py; " + FITTED_CONSTANTS
WEIGHTS = Law("(dense bytes + expert bytes · (1 - (1 - k/E)ⁿ)) / N / bandwidth reached", _ROOFLINE)
CACHE = Law("sequences · cache of one sequence / N / bandwidth reached", _HERE)
CACHE_COPY = Law(
    "2 · sequences · cache of one sequence / bandwidth that copies reach",
    "torch.cat in DynamicLayer.update, transformers 5.23 src/transformers/cache_utils.py; " + FITTED_CONSTANTS,
)
UNPACKING = Law(
    "2 · 16-bit bytes of the packed weights / N / bandwidth that copies reach, where more than r rows are multiplied",
    "bitsandbytes MatMul4Bit, auto-gptq exllama (reconstruct), autoawq WQLinear_GEMM; " + FITTED_CONSTANTS,
)
ARITHMETIC = Law("2 · parameters · tokens / compute reached", "Kaplan et al. 2020, arXiv:2001.08361; " + FITTED_CONSTANTS)
OVERLAP = Law("(t_W³ + t_C³)^(1/3)", _HERE)
ATTENTION = Law("2 · heads · width · (full layers · T² + windowed layers · T · min(T, 2w)) / compute that attention kernels reach", _HERE)
LAUNCHES = Law("layers · time of a layer + time of a step + sequences · time of a sequence", _HERE)
ALL_REDUCE = Law(
    "2 · layers · (latency · log₂ N + 2 · bytes / link · (N - 1)/N)",
    "Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; " + FITTED_CONSTANTS,
)
"""The laws of the parts, as an explained answer shows them."""


def expert_share(*, experts: Quantity, per_token: Quantity, tokens: Quantity) -> Array:
    """Expected share of the routed experts that n tokens reach, 1 - (1 - k/E)ⁿ; 1 without experts.

        E  experts of a layer     k  experts a token reaches     n  tokens in the step

    With n tokens that choose independently, an expert is missed by all with probability (1 - k/E)ⁿ. Limit: within one batch of similar
    texts the choices are correlated and fewer experts are read.

    Two of eight experts, one token and eight tokens: 1/4 and 1 - (3/4)⁸ = 0.8999:

    >>> [round(float(expert_share(experts=8, per_token=2, tokens=n)), 4) for n in (1, 8)]
    [0.25, 0.8999]
    """
    each = np.minimum(1.0, np.asarray(per_token, dtype=np.float64) / np.maximum(experts, 1.0))
    return np.asarray(np.where(np.asarray(experts) > 0, 1.0 - (1.0 - each) ** tokens, 1.0))


def weight_bytes_read(*, dense_bytes: Quantity, expert_bytes: Quantity, expert_share: Quantity) -> Quantity:
    """Bytes of weights that a step reads, once for all its tokens: dense bytes + expert bytes · share of the experts that are reached.

    Source: Pope et al. 2022, arXiv:2211.05102, §2.
    """
    return dense_bytes + expert_bytes * expert_share


def cache_bytes_read(
    *, constant: Quantity, per_token: Quantity, windowed_per_token: Quantity, window: Quantity, tokens: Quantity
) -> Quantity:
    """Bytes of cache that a decode step reads for one sequence of T tokens: C(T) = c₀ + c₁·T + c_w·min(T, w).

    The four numbers are `lib.laws.kv_cache.linear_cache`. The static caches of TPU and Neuron engines read the whole allocated length:
    T is that length. Limit: layers that hold everything and read a selection (sparse attention with an index) read less than this.

    Llama-3.1-8B keeps 128 KiB per token; a model with half of such layers in a window of 1024 keeps less at 4096 tokens:

    >>> int(cache_bytes_read(constant=0, per_token=131072, windowed_per_token=0, window=0, tokens=4096)) // 2**20
    512
    >>> int(cache_bytes_read(constant=0, per_token=65536, windowed_per_token=65536, window=1024, tokens=4096)) // 2**20
    320
    """
    return constant + per_token * tokens + windowed_per_token * np.minimum(tokens, window)


def cache_bytes_copied(*, cache_bytes: Quantity, repeats: Quantity) -> Quantity:
    """Bytes that a decode step of transformers copies besides reading its cache of C bytes: 2 · C, and (1 + g) · C for repeated heads.

        C  bytes of cache      g  query heads per key/value head, where a version repeats keys and values for each of them (else 1)

    The default `DynamicCache` appends the new token with `torch.cat`, layer by layer: the whole cache is read and written again. Versions
    before 4.54 also wrote keys and values once for each query head (`repeat_kv`) and attention read that copy; since then the kernels take
    grouped heads. Static caches, and engines that page the cache, copy nothing.
    Source: transformers, src/transformers/cache_utils.py (`DynamicLayer.update`) and integrations/sdpa_attention.py.

    Llama-2-7B, 512 KiB a token: at 512 tokens 256 MiB are read and another 512 MiB moved:

    >>> [float(cache_bytes_copied(cache_bytes=256.0, repeats=g)) for g in (1.0, 4.0)]
    [512.0, 1792.0]
    """
    return cache_bytes * (2.0 + np.where(np.greater(repeats, 1.0), 1.0 + np.asarray(repeats), 0.0))


def unpacked_bytes_moved(*, parameters: Quantity, rows: Quantity, fused_rows: Quantity) -> Quantity:
    """Bytes that unpacking P weights to 16 bits moves before a product of n rows: 4 · P where n > r, else 0.

        P  weights stored packed      r  rows up to which the kernel unpacks in registers (fused with the product)

    Above r rows a library writes the weights to memory in 16 bits and calls the ordinary matrix product, which reads them: 2 + 2 bytes
    each, for any number of rows. r is 1 in bitsandbytes' 4-bit products (`gemv_4bit`), 50 in exllama's GPTQ (`MAX_Q_GEMM_ROWS`).

    Prefill of a 7B model in 4 bits on an A100, 26 GB at about 1.3 TB/s, takes 20 ms more than in fp16 (measured: 52.6 against 26.0 ms):

    >>> float(unpacked_bytes_moved(parameters=6.5e9, rows=128, fused_rows=1)) / 1e9
    26.0
    """
    return 4.0 * parameters * np.greater(rows, fused_rows)


def linear_flop(*, parameters: Quantity, tokens: Quantity, head_parameters: Quantity = 0.0, sequences: Quantity = 1.0) -> Quantity:
    """FLOP of the matrices, 2 · (P · n - H · (n - B)): a multiplication and an addition per parameter and token (Kaplan et al. 2020, §2.1).

        P  parameters a token uses      n  tokens      H  parameters of the output projection that only the last of each sequence passes
        B  sequences; while generating engines want the logits of the last position alone, H is 0 if all positions are wanted

    >>> [float(linear_flop(parameters=8e9, tokens=1000, head_parameters=head)) / 1e12 for head in (0.0, 0.5e9)]
    [16.0, 15.001]
    """
    return 2.0 * (parameters * tokens - head_parameters * np.maximum(np.subtract(tokens, sequences), 0.0))


def attention_flop(*, width: Quantity, full_layers: Quantity, windowed_layers: Quantity, window: Quantity, tokens: Quantity) -> Quantity:
    """FLOP of attention over a prompt of T tokens: 2 · a · (L_full · T² + L_win · T · min(T, 2w)).

        a  heads · width of a head      L_full, L_win  layers with full and with windowed attention      w  window, tokens

    Scores and their product with the values take 4·a per pair of positions and layer. A causal mask leaves half of the T² pairs, a window
    T·w of them once T is much longer than w. Limits: latent attention computes its products in a width of its own.

    Llama-3.1-8B (32 layers, 4096 wide) over 8192 tokens: 2 · 4096 · 32 · 8192² = 17.6 TFLOP, a seventh of its matrices' 131:

    >>> round(float(attention_flop(width=4096, full_layers=32, windowed_layers=0, window=0, tokens=8192)) / 1e12, 1)
    17.6
    """
    return 2.0 * width * tokens * (full_layers * tokens + windowed_layers * np.minimum(tokens, 2.0 * window))


def fraction(logit: Quantity) -> Array:
    """A share between 0 and 1 from its logit z: 1 / (1 + e⁻ᶻ); fitted shares are kept as logits so that none can pass 1.

    >>> float(fraction(0.0))
    0.5
    """
    return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(logit, dtype=np.float64))))


def achieved_bandwidth(*, by_class: Array, logit: Quantity, class_logit: Array) -> Array:
    """Bytes per second that are reached, shape (n,): β = max_g β_g · σ(z + z_g).

        β_g  the highest datasheet bandwidth of class g among the cards that this card equals or exceeds in both ceilings (the card
             itself for its own class; 0 if there is none); `by_class` is of shape (n, classes), `class_logit` of (classes,)
        z    logit of the share reached, by engine and weight format      z_g  by card class      σ  `fraction`

    The maximum over classes says that a card whose two ceilings are both higher is never credited with less than the lower card: a faster
    card never comes out slower. It overrates cards whose software does not yet reach the datasheet (MI300X).

    >>> float(achieved_bandwidth(by_class=np.array([[300e9, 0.0]]), logit=0.0, class_logit=np.array([0.0, 1.0]))[0]) / 1e9
    150.0
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    return np.asarray((by_class * shares).max(axis=-1))


def achieved_compute(*, by_class: Array, logit: Quantity, class_logit: Array, rows: Quantity, half_rows: Array) -> Array:
    """FLOP per second that are reached with r rows (tokens) in the step, shape (n,): φ(r) = max_g φ_g · σ(y + y_g) · r / (r + h_g).

    φ_g, y and y_g as in `achieved_bandwidth`; h_g, of shape (classes,), are the rows at which half of the rate is reached. The share
    falls with small steps: 128 rows reach 35-47 % of an H100's matmul rate, 512 rows 80 %.
    Limits: one share for all sizes of matrices; power limits under long load are inside the class's share.

    >>> one = np.array([[1e12]])
    >>> eighty, common = np.array([80.0]), np.zeros(1)
    >>> float(achieved_compute(by_class=one, logit=0.0, class_logit=common, rows=eighty, half_rows=eighty)[0]) / 1e12
    0.25
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    n = np.asarray(rows, dtype=np.float64)[..., None]
    return np.asarray((by_class * shares * n / (n + half_rows)).max(axis=-1))


def narrow_matrices(*, columns: Quantity, half_columns: Quantity) -> Array:
    """Factor on the time of matrix products whose matrices are narrow: 1 + m_h / m.

        m  columns of a layer's matrices on one device, all together; of one expert if there are experts      m_h  at which half is lost

    Tensor parallelism and experts cut matrices into pieces that fill fewer of the units of a card.

    Llama-3.1-70B has 107,000 columns a layer, and 13,000 on each of eight devices:

    >>> [round(float(narrow_matrices(columns=m, half_columns=4000)), 2) for m in (107_000, 13_400)]
    [1.04, 1.3]
    """
    return np.asarray(1.0 + np.divide(half_columns, np.maximum(columns, 1.0)))


def launch_overhead(
    *, layers: Quantity, layer_s: Quantity, step_s: Quantity, sequence_s: Quantity, sequences: Quantity, factor: Quantity
) -> Quantity:
    """Seconds that the host and the launches of kernels take in a step: L · τ_layer · f + τ_step + n · τ_seq.

        L  layers   τ_layer, τ_step  time of a layer and of a step, by engine   n  sequences   τ_seq  time of a sequence (sampling)
        f  factor of the weight format in eager engines (bitsandbytes int8 launches several kernels for one matrix) and of experts

    transformers in eager mode needs 20-26 ms a step for 24-36 layers on any card; engines that replay a recorded graph 2-4 ms.
    Limits: the host's processor is not among the inputs; a slow one (2 virtual CPUs) takes longer.

    >>> launch_overhead(layers=32, layer_s=0.0007, step_s=0.001, sequence_s=0, sequences=1, factor=1)
    0.0234
    """
    return layers * layer_s * factor + step_s + sequences * sequence_s


def all_reduce_time(
    *, layers: Quantity, devices: Quantity, tokens: Quantity, hidden: Quantity, latency_s: Quantity, link: Quantity
) -> Array:
    """Seconds that tensor-parallel devices spend on all-reduces in a step: 2 · L · (τ · log₂ N + 2 · b · n · h / λ · (N - 1) / N).

        L  layers, two all-reduces in each   N  devices (0 s for one)   τ  latency of an exchange between two   n  tokens in the step
        h  hidden size                       b  2 bytes each    λ  bytes per second of the link, one direction, as far as reached

    Every device sends each of the N parts but one twice: while they are summed, and while the sums are handed round.
    Measured: about 20 µs per layer over NVLink in a tuned engine, several times that over PCIe.
    Limits: layers dealt out to devices in turn (pipeline) exchange almost nothing and are not meant here; the all-to-alls of expert
    parallelism are taken as all-reduces. Source: ring all-reduce, Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002.

    Two devices, 32 layers, 10 µs: 2 · 32 · 10 µs = 0.64 ms; the bytes of one token are negligible:

    >>> round(float(all_reduce_time(layers=32, devices=2, tokens=1, hidden=4096, latency_s=1e-5, link=4e11)) * 1e3, 2)
    0.64
    """
    n = np.maximum(devices, 1.0)
    each = latency_s * np.log2(n) + 2.0 * (2.0 * tokens * hidden) / link * (n - 1.0) / n
    return np.asarray(np.where(n > 1.0, 2.0 * layers * each, 0.0))


_CORNER = 3.0
_OVERLAP = 4.0


def device_time(
    *, weights_s: Quantity, compute_s: Quantity, cache_s: Quantity, unpack_s: Quantity = 0.0, emulated: bool | NDArray[np.bool_] = False
) -> Array:
    """Seconds the device works: (t_W³ + t_C³)^(1/3) + t_U + t_K; t_W + t_C instead of the root where the arithmetic is emulated.

    Reading weights and computing with them overlap within a kernel: the longer of the two, with a rounded corner where both are as long.
    Attention and unpacking are other kernels and add. Emulation converts every element in the cores that also load it, so nothing overlaps.
    The form is at least its largest part, so no step is faster than its bytes and its FLOP allow.
    Limits: kernels that overlap attention with matrices are a little faster.
    Source: Williams et al. 2009, "Roofline", with a smooth corner.

    >>> round(float(device_time(weights_s=0.05, compute_s=0.001, cache_s=0.002)), 4)
    0.052
    """
    return overlapped_time(weights_s=weights_s, compute_s=compute_s, emulated=emulated) + unpack_s + cache_s


def overlapped_time(*, weights_s: Quantity, compute_s: Quantity, emulated: bool | NDArray[np.bool_]) -> Array:
    """Seconds of matrix products: (t_W³ + t_C³)^(1/3), t_W + t_C where the arithmetic is emulated (see `device_time`).

    >>> [round(float(overlapped_time(weights_s=1.0, compute_s=1.0, emulated=e)), 2) for e in (False, True)]
    [1.26, 2.0]
    """
    corner = np.cbrt(np.power(weights_s, _CORNER) + np.power(compute_s, _CORNER))
    return np.asarray(np.where(emulated, np.add(weights_s, compute_s), corner))


def step_time(
    *, device_s: Quantity, launch_s: Quantity, all_reduce_s: Quantity, eager: bool | NDArray[np.bool_], prompt_launch_s: Quantity = 0.0
) -> Array:
    """Seconds of the step; `eager` is true where launches overlap with computing, as PyTorch's asynchronous execution does.

    A graph is recorded for a number of sequences that decode. A pass with prompts has another number of tokens each time, so its kernels
    are launched one after the other while the device works: `prompt_launch_s`, 0 in other passes and engines. Sources, of which only the
    opening sections were seen, as a search engine's excerpts (2026-11-23): "Torch Compile & Prefill CUDA Graph" of TensorRT-LLM 1.4 and
    "Piecewise CUDA Graph" of SGLang, on what the graph of generation leaves out. Newer releases record such passes in pieces.

    A server that was told to record nothing (vLLM's --enforce-eager) launches every pass so, each layer in the time fitted for eager
    PyTorch. Published: 22 to 23 ms a token with it and 13 ms with graphs (Qwen2.5-Omni-7B on an A800, vLLM 0.29,
    github.com/vllm-project/vllm-omni/issues/7960, 2026-09-22, read 2026-11-26); for the same decoder on an A100 this gives 19.4 and 12.0.

    3 ms of work behind 24 ms of launches: eager 24.0 ms, as a graph 27 ms if it had as much launch overhead:

    >>> [round(float(step_time(device_s=0.003, launch_s=0.024, all_reduce_s=0.0, eager=e)) * 1e3, 1) for e in (True, False)]
    [24.0, 27.0]
    """
    ahead = np.where(eager, device_s, np.add(device_s, launch_s))
    behind = np.where(eager, launch_s, prompt_launch_s)
    return np.asarray((np.power(ahead, _OVERLAP) + np.power(behind, _OVERLAP)) ** (1.0 / _OVERLAP) + all_reduce_s)


def pipeline_share(*, chunks: Quantity, stages: Quantity) -> Quantity:
    """Time of a prompt on S stages that work on its m chunks at the same time, as a share of one device's: (m + S - 1) / (m · S).

    The S - 1 are the bubble: while the pipeline fills and empties some stages wait (Huang et al. 2019, "GPipe", arXiv:1811.06965).

    Four chunks on two stages: 5 of 8 chunk times; one chunk gains nothing:

    >>> pipeline_share(chunks=4.0, stages=2.0), pipeline_share(chunks=1.0, stages=2.0)
    (0.625, 1.0)
    """
    return (chunks + stages - 1.0) / chunks / stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Seconds that moving the bytes and that the arithmetic take at least; `compute_s` is None if no peak is known."""

    memory_s: float
    compute_s: float | None

    @property
    def seconds(self) -> float:
        """The larger of the two."""
        return max(self.memory_s, self.compute_s or 0.0)

    @property
    def bound(self) -> Literal["bandwidth", "compute"]:
        """Which of the two is larger."""
        return "compute" if self.compute_s is not None and self.compute_s > self.memory_s else "bandwidth"


def roofline(*, moved_bytes: float, flop: float, bandwidth: float, peak: float | None) -> Floor:
    """The floor of any piece of work.

    16.06 GB on 300 GB/s take 53.5 ms, far more than 16.06 GFLOP on 121 TFLOP/s:

    >>> floor = roofline(moved_bytes=16.06e9, flop=16.06e9, bandwidth=300e9, peak=121e12)
    >>> round(floor.seconds, 4), floor.bound
    (0.0535, 'bandwidth')
    """
    return Floor(memory_s=moved_bytes / bandwidth, compute_s=None if peak is None else flop / peak)


def decode_floor(
    *,
    weight_bytes: float,
    cache_bytes: float,
    bandwidth: float,
    active_parameters: int,
    batch: int = 1,
    share_read: float = 1.0,
    peak: float | None = None,
) -> Floor:
    """The floor of one decode step.

    An 8B model in bf16 on a card of 300 GB/s gives no more than 18.7 tokens/s:

    >>> step = decode_floor(weight_bytes=16_060_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=8_030_000_000)
    >>> round(1 / step.seconds, 1)
    18.7
    """
    moved = share_read * weight_bytes + batch * cache_bytes
    return roofline(moved_bytes=moved, flop=2.0 * active_parameters * batch, bandwidth=bandwidth, peak=peak)


def prefill_floor(
    *,
    active_parameters: int,
    tokens: int,
    weight_bytes: float,
    bandwidth: float,
    batch: int = 1,
    peak: float | None = None,
    head_parameters: float = 0.0,
) -> Floor:
    """The floor of reading prompts; the output projection's `head_parameters` are passed once for each, as in `linear_flop`.

    A BERT of 110 million parameters on 8 virtual CPUs of 300 GFLOP/s reads 512 tokens in 0.38 s:

    >>> pass_ = prefill_floor(active_parameters=110_000_000, tokens=512, weight_bytes=440_000_000, bandwidth=45e9, peak=300e9)
    >>> round(pass_.seconds, 2)
    0.38
    """
    flop = linear_flop(parameters=active_parameters, tokens=batch * tokens, head_parameters=head_parameters, sequences=batch)
    return roofline(moved_bytes=weight_bytes, flop=float(flop), bandwidth=bandwidth, peak=peak)


def roofline_seconds(*, read_bytes: Quantity, flop: Quantity, devices: Quantity, bandwidth: Quantity, peak: Quantity) -> Array:
    """`roofline` for many cases at once, in seconds; `bandwidth` and `peak` are those of one device, a peak of 0 is not known.

    >>> round(float(roofline_seconds(read_bytes=16.06e9, flop=16.06e9, devices=1, bandwidth=300e9, peak=121e12)), 4)
    0.0535
    """
    moved = np.divide(read_bytes, np.multiply(devices, bandwidth))
    computed = np.where(np.greater(peak, 0), np.divide(flop, np.multiply(devices, np.maximum(peak, 1.0))), 0.0)
    return np.asarray(np.maximum(moved, computed))
