"""Memory of fine-tuning apart from the weights: gradients, optimizer states, master weights, kept activations, logits and loss.

Bytes for each trained parameter of w bytes (two in pure bf16; four where it is trained in mixed precision, adapters among them):

    gradient                   w
    AdamW                      2·w (two moments)         foreach: w more during the update; fused: nothing more
    AdamW in 8 bits            2·(1 + 4/256)             a byte for each moment, and one float32 for 256 of them
    paged AdamW                0                         the states are in unified memory; they are on the device while it has room
    Adafactor                  4·(rows + columns)        for a matrix; during the update 12 for each element of the largest one
    Muon                       w                         one momentum for a matrix; AdamW for tables, the head and vectors
    SGD                        0
    master weights             2                         mixed precision: weights in float32 take two bytes more than in 16 bits

A step has five moments at which memory can peak; the largest is the peak:

    logits    weights + states + saved activations of all layers + logits, their float32 copy and log-softmax (inside autocast)
    loss      weights + states + saved activations of all layers + log-softmax and its two gradients (after autocast)
    layer     weights + states + gradients of head and table + saved activations + the last layer, recomputed, and its passing gradients
    end       weights + states + all gradients + the first layer in full. A tied table's gradient counts once more until both are added,
              and twice more with accumulation.
    update    weights + states + all gradients + temporary tensors of the optimizer

With accumulation, gradients take memory at every moment. In mixed precision autocast makes a 16-bit copy of each trained matrix and keeps
the copies of all layers until its context ends, after the loss. Then the graph keeps all copies if nothing is recomputed, and with
checkpoints those of the layer that is recomputed.

Logits and loss, for each token and entry of the vocabulary, with b bytes an element: first b + 4 + 4 (logits, their float32 copy,
log-softmax), then 4 + 4 + 4 (log-softmax, its gradient, the gradient of the copy; transformers ≥ 4.45). If a tanh caps the logits, both
have b more. A fused or chunked loss keeps the hidden states and their gradient instead: 4·b·h for each token, and one chunk.

An encoder that reads pictures or sound adds two moments; one that no gradient passes adds the first only:

    encoder forward    weights + states + the input + one layer's temporary tensors
    encoder backward   weights + states + gradients of the decoder + saved by the encoder + one layer recomputed; at its end all gradients

Limits: transformers' own modules; FSDP and ZeRO as published, without the traffic's buffers beyond two layers.
Sources: Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054; Dettmers et al. 2022, arXiv:2110.02861 (8-bit states in blocks); Shazeer and
Stern 2018, arXiv:1804.04235; torch 2.13 torch/optim (foreach, Muon); transformers 5.23.0 loss/loss_utils.py; bytes of a loss were
measured by github.com/linkedin/Liger-Kernel benchmark/data (ead96b61).
"""

from __future__ import annotations

import math
from enum import StrEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from lib.laws import Law
from lib.laws.activation import FLOAT32
from lib.units import Bytes

if TYPE_CHECKING:
    from lib.workload import Optimizer

LAW = Law(
    equation="the fullest of five moments of a step: logits, loss, first layer, last layer, update",
    source="arXiv:1910.02054, torch 2.13 and transformers 5.23.0; lib/laws/training.py",
)
_BLOCK = 256
_EIGHT_BITS = 1 + FLOAT32 / _BLOCK
_CHUNK_TOKENS = 256
_FUSED_COPIES = 4


class TrainedParameters(NamedTuple):
    """Trained parameters: all, those in matrices of layers, their rows and columns, and the largest tensor."""

    parameters: int
    in_matrices: int
    rows_and_columns: int
    largest: int
    width: int


class OptimizerStates(NamedTuple):
    """Bytes of an optimizer: resident on the device, paged in unified memory, and temporary during the update."""

    resident: Bytes
    paged: Bytes
    temporary: Bytes


def optimizer_states(optimizer: Optimizer, trained: TrainedParameters, *, foreach: bool) -> OptimizerStates:
    """Bytes of an optimizer for the trained parameters; `foreach`: the plain implementation of torch, which copies one moment.

    >>> optimizer_states("adamw", TrainedParameters(1000, 1000, 100, 500, 2), foreach=False).resident
    4000
    """
    p, w = trained.parameters, trained.width
    vectors = p - trained.in_matrices
    resident = {
        "adamw": 2 * w * p,
        "adamw_8bit": 2 * _EIGHT_BITS * p,
        "adafactor": FLOAT32 * (trained.rows_and_columns + vectors),
        "muon": w * trained.in_matrices + 2 * w * vectors,
    }
    paged = {"paged_adamw": 2 * FLOAT32 * p, "paged_adamw_8bit": 2 * _EIGHT_BITS * p}
    temporary = {"adamw": w * p if foreach else 0, "adafactor": 3 * FLOAT32 * trained.largest, "muon": 3 * 2 * trained.largest}
    return OptimizerStates(*(Bytes(round(sizes.get(optimizer, 0))) for sizes in (resident, paged, temporary)))


def gradient_bytes(trained: TrainedParameters) -> Bytes:
    """One gradient for each trained parameter, in its own dtype."""
    return Bytes(trained.parameters * trained.width)


def adapter_parameters(*, rank: int, rows: int, columns: int, dora: bool) -> int:
    """Parameters of the adapter of a matrix: r · (out + in), with DoRA a magnitude for each row more.

    >>> adapter_parameters(rank=16, rows=4096, columns=4096, dora=False)
    131072
    """
    return rank * (rows + columns) + (rows if dora else 0)


class LossBytes(NamedTuple):
    """Bytes of logits and loss: at the end of the forward pass, and in the backward pass."""

    forward: Bytes
    backward: Bytes


def loss_bytes(
    *, tokens: int, vocabulary: int, hidden: int, element_bytes: int, fused: bool, capped: bool = False, copied: bool = True
) -> LossBytes:
    """Logits and loss of so many tokens.

    `capped`: a tanh caps the logits, and its output is kept for the gradient. `copied`: the loss is computed on a float32 copy, as in
    models that generate text. Models that fill masks compute it in the dtype of the logits, unless autocast uses float32.
    """
    kept, width = vocabulary * element_bytes if capped else 0, FLOAT32 if copied else element_bytes
    forward = kept + vocabulary * (element_bytes + (2 * width if copied else width))
    backward = kept + vocabulary * 3 * width
    if fused:
        chunk = min(tokens, _CHUNK_TOKENS) * (vocabulary * element_bytes + backward)
        both = Bytes(tokens * _FUSED_COPIES * element_bytes * hidden + chunk)
        return LossBytes(both, both)
    return LossBytes(Bytes(tokens * forward), Bytes(tokens * backward))


_TILE_TOKENS, _TILE_ENTRIES = 4096, 32_768
_STATISTICS = 7


def logprob_bytes(*, tokens: int, vocabulary: int, hidden: int, element_bytes: int, trains_head: bool) -> LossBytes:
    """Log-probabilities of so many tokens in tiles, without logits.

    Forward: a copy of the hidden states, a tile, seven float32 statistics for each token. Backward: that copy, its gradient in float32 and
    in its own dtype, and a tile; if the head is trained, its gradient in both dtypes. Source: trl/kernels/chunked_logprob.py and
    trl/trainer/utils.py of TRL 1.16.0.
    """
    tile = min(tokens, _TILE_TOKENS) * _TILE_ENTRIES * element_bytes  # as wide for a small vocabulary too
    copy = tokens * hidden * element_bytes
    head = vocabulary * hidden * (FLOAT32 + element_bytes) if trains_head else 0
    forward = copy + tile + tokens * _STATISTICS * FLOAT32
    return LossBytes(Bytes(forward), Bytes(2 * copy + tokens * hidden * FLOAT32 + tile + head))


def similarity_bytes(*, rows: int, candidates: int, sequences: int, hidden: int) -> LossBytes:
    """Similarities of `rows` embeddings to all candidates at a time, and the loss of softmax over them, in float32.

    Forward: embeddings of all sequences, their normed copies, scores. Backward: scores, their log-softmax, its gradient, and the gradients
    of both. Source: sentence_transformers/losses/multiple_negatives_ranking.py of 6.2.0.

    >>> similarity_bytes(rows=2, candidates=4, sequences=6, hidden=8)
    LossBytes(forward=416, backward=864)
    """
    embeddings, scores = FLOAT32 * sequences * hidden, FLOAT32 * rows * candidates
    return LossBytes(Bytes(2 * embeddings + scores), Bytes(4 * embeddings + 3 * scores))


LENGTH_SPREAD = 0.8
"""Deviation of the lengths of rows of text over their mean; their logarithms are normal (`scripts/simulate_allocator.py`)."""
_INTERVALS = 400


def padding_factor(*, rows: int, limit_to_mean: float) -> float:
    """Tokens of a batch that is padded to its longest row, over those of its rows, on average; rows are truncated at the limit.

    >>> round(padding_factor(rows=1, limit_to_mean=4), 2), round(padding_factor(rows=4, limit_to_mean=4), 2)
    (1.0, 1.8)
    """
    deviation = math.sqrt(math.log(1 + LENGTH_SPREAD**2))
    logarithms = NormalDist(-(deviation**2) / 2, deviation)
    width = limit_to_mean / _INTERVALS
    shares = [logarithms.cdf(math.log((n + 0.5) * width)) for n in range(_INTERVALS)]
    return sum(1 - share**rows for share in shares) / sum(1 - share for share in shares)


class StepPart(StrEnum):
    """Tensors that hold bytes in a step."""

    WEIGHTS = "weights"
    UPCAST = "float32 tables and norms"
    MASTERS = "master weights"
    COPIES = "16-bit copies"
    ADAPTERS = "adapters"
    REFERENCE = "reference model"
    VALUE_MODEL = "value model"
    TEXT_ENCODERS = "text encoders"
    VAE = "VAE"
    UNPACKED = "unpacked weights"
    ROLLOUT_ENGINE = "vLLM"
    ROLLOUT_CACHE = "cache of the answers"
    FORWARD = "forward pass"
    OPTIMIZER = "optimizer"
    OPTIMIZER_TEMPORARY = "optimizer step"
    GRADIENTS = "gradients"
    SAVED_ACTIVATIONS = "saved activations"
    ENCODER = "activations of the encoder"
    ACTIVATION_GRADIENTS = "passing gradients"
    LOSS = "logits and loss"
    FRAGMENTATION = "fragmentation and workspace"
    CONTEXT = "CUDA context"


class StepPeaks(NamedTuple):
    """Bytes at a step's fullest moments, by `StepPart`; the last four are empty without GRPO, pictures or sound."""

    logits: dict[str, int]
    loss: dict[str, int]
    layer: dict[str, int]
    end: dict[str, int]
    update: dict[str, int]
    rollout: dict[str, int] = {}  # noqa: RUF012 never changed
    """GRPO: while answers are written."""
    scoring: dict[str, int] = {}  # noqa: RUF012 never changed
    """GRPO: while answers are scored without gradient."""
    encoder_forward: dict[str, int] = {}  # noqa: RUF012 never changed
    """Pictures and sound: while their encoder reads them."""
    encoder_backward: dict[str, int] = {}  # noqa: RUF012 never changed
    """Pictures and sound: while gradients pass their encoder."""


class EncoderTensors(NamedTuple):
    """Bytes of an encoder that reads pictures or sound; all 0 without one."""

    saved: int = 0
    """From its forward pass to its backward pass: its input, and its activations or checkpoints if gradients pass it."""
    forward: int = 0
    """Temporary tensors of its forward pass."""
    layer: int = 0
    """One layer that is recomputed."""
    passing: int = 0
    """Gradients that pass through one layer; 0 if none do."""
    gradients: int = 0
    """Gradients of its own weights."""


NO_ENCODER = EncoderTensors()


class StepTensors(NamedTuple):
    """Bytes on a device that last through a step, or come and go in it."""

    states: dict[str, int]
    """Through the whole step: weights, master weights, adapters, optimizer."""
    copies: int
    """Of trained weights in 16 bits, as long as autocast's context lasts; or gathered shards."""
    copies_in_backward: int
    gradients: int
    first_gradients: int
    """Those of the head and the table, which come before the last layer's."""
    saved_activations: int
    """Of all layers, or their checkpoints."""
    layer: int
    """One layer in full."""
    activation_gradients: int
    """Gradients that pass through one layer."""
    kept_inputs: int
    """Inputs of all layers with their gradients, if they are kept until the backward pass ends; otherwise 0."""
    loss: LossBytes
    tied_gradients: int
    """Gradients of a table that is also the head, in addition to the sum of both."""
    optimizer_temporary: int
    accumulates: bool
    recomputes: bool
    encoder: EncoderTensors = NO_ENCODER


STEADY = frozenset(
    {
        StepPart.WEIGHTS, StepPart.UPCAST, StepPart.MASTERS, StepPart.ADAPTERS, StepPart.REFERENCE, StepPart.VALUE_MODEL,
        StepPart.OPTIMIZER, StepPart.GRADIENTS, StepPart.OPTIMIZER_TEMPORARY, StepPart.TEXT_ENCODERS, StepPart.VAE, StepPart.ROLLOUT_ENGINE,
    }
)  # fmt: skip
"""Parts whose blocks stay allocated. Blocks of other parts are freed and allocated again, and the allocator cannot always reuse them."""


def temporary_bytes(peak: dict[str, int]) -> int:
    """Bytes at a moment that are freed within the step: activations, logits, loss, passing gradients, copies."""
    return sum(size for name, size in peak.items() if name not in STEADY)


def recurring_bytes(peak: dict[str, int], *, recomputes: bool) -> int:
    """The temporary bytes that are allocated more than once in a micro-batch: logits and loss, recomputed layers, passing gradients."""
    once = (StepPart.COPIES,) if recomputes else (StepPart.COPIES, StepPart.SAVED_ACTIVATIONS, StepPart.ENCODER)
    return temporary_bytes(peak) - sum(peak.get(part, 0) for part in once)


def engine_bytes(peak: dict[str, int]) -> int:
    """Bytes of vLLM at a moment."""
    return peak.get(StepPart.ROLLOUT_ENGINE, 0)


def find_peaks(step_tensors: StepTensors) -> StepPeaks:
    """The fullest moments of a step."""
    encoder = step_tensors.encoder
    before = step_tensors.gradients if step_tensors.accumulates else 0
    early = step_tensors.gradients if step_tensors.accumulates else step_tensors.first_gradients
    own = step_tensors.gradients - (0 if step_tensors.accumulates else encoder.gradients)
    one = step_tensors.layer if step_tensors.recomputes else 0
    last = step_tensors.layer if not step_tensors.recomputes else step_tensors.layer + step_tensors.saved_activations // 64
    copies, gradients, saved = StepPart.COPIES, StepPart.GRADIENTS, StepPart.SAVED_ACTIVATIONS
    through = {StepPart.ACTIVATION_GRADIENTS: step_tensors.activation_gradients}
    read = {StepPart.ENCODER: encoder.saved} if encoder.saved else {}
    base: dict[str, int] = {**step_tensors.states, copies: step_tensors.copies_in_backward} | read
    kept = {gradients: before, saved: step_tensors.saved_activations}
    peaks = StepPeaks(
        logits=base | kept | {copies: step_tensors.copies, StepPart.LOSS: step_tensors.loss.forward},
        loss=base | kept | {StepPart.LOSS: step_tensors.loss.backward},
        layer=base | {gradients: early, saved: step_tensors.saved_activations + one} | through,
        end=base | {gradients: own + step_tensors.tied_gradients, saved: last + step_tensors.kept_inputs} | through,
        update=step_tensors.states | {gradients: step_tensors.gradients, StepPart.OPTIMIZER_TEMPORARY: step_tensors.optimizer_temporary},
    )
    return _add_encoder(peaks, step_tensors, before=before, own=own) if read else peaks


def _add_encoder(peaks: StepPeaks, step_tensors: StepTensors, *, before: int, own: int) -> StepPeaks:
    """The moments of an encoder; its backward pass is fullest at its start, or at its end if its own gradients are the larger part."""
    encoder, states = step_tensors.encoder, step_tensors.states
    forward = states | {StepPart.GRADIENTS: before, StepPart.ENCODER: encoder.saved + encoder.forward}
    if not encoder.passing:
        return peaks._replace(encoder_forward=forward)
    through = {StepPart.ACTIVATION_GRADIENTS: encoder.passing}
    start = states | {StepPart.GRADIENTS: own, StepPart.ENCODER: encoder.saved + encoder.layer} | through
    end = states | {StepPart.GRADIENTS: step_tensors.gradients, StepPart.ENCODER: encoder.layer} | through
    return peaks._replace(encoder_forward=forward, encoder_backward=max(start, end, key=lambda peak: sum(peak.values())))
