"""Activations: the peak of temporary tensors during inference, and the tensors that a forward pass saves for the backward pass.

Inference, from the sizes of a decoder. Prefill of B sequences of T tokens in `transformers` (one layer at a time, nothing kept for a
backward pass):

    M = b·B·T·(3h + max(norm, attention, mlp)) + scores + logits
        norm      = h + 8h/b           the normed copy, and its float32 input and square while it is made
        attention = h + 3q + 3k        normed input; queries, keys, values and their rotated copies
        mlp       = h + 3f             normed input; gate, activated gate · up, and the product
    scores = B·H·T²·s                  eager attention only: s = 2b + 4 (scores, float32 softmax, its copy), 8 in float32
    logits = B·R·V·(b + 4)             R rows in the compute dtype and again as float32 (generate: R = 1)

    b  bytes per element of the compute dtype     h  hidden size       q  H·D query width      k  H_kv·D key width
    f  width of the MLP that one token reaches    V  vocabulary        H  attention heads

The 3h are the embeddings, which the model's forward keeps until it returns, the layer's input, which the loop over layers keeps, and
the residual stream.

Limits: it knows only dense decoders of the Llama kind. Mixtures (sorted copies of the tokens for each of the experts
they reach), state space layers and latent attention hold more; `lib.model.activations` traces those, and this law then only
explains. Source: the forward pass of transformers 5.23.0, counted tensor by tensor.

Training, for each token, read off a model's own matrices. Autograd keeps for each operation the tensors that its gradient needs. Over the
modules of a layer, with b bytes an element:

    norm of width w (RMS)         4·w, and b·w for the gradient of its weight        float32 copy of its input, the normed input
    norm of width w (LayerNorm)   b·w                          4·w each time where the stream is in float32 (autocast)
    matrix (out, in) that trains  b·in          matrices of one module share it, unless the stream is in float32: each casts its own
    matrix with an adapter        b·in of its own where the adapter is cast, b·r between A and B; DoRA: 2·b·out more
    attention                     b·(q + k + v) + its output, and 4 for each head   with eager also (4 + b) · heads · T scores
    rotated, of one fused matrix  b·(q + k) more                                    of towers: values keep the whole projection
    MLP with a gate               b·3f          gate, its activation, up; 4·3f of bitsandbytes in a float32 stream
    MLP without                   b·f           what the activation function reads
    dropout                       h for each matrix that writes the stream: a mask; with eager also heads · T for that of the scores
    k experts of a token          b·k·(2f + f + h), and b·k·(h + f) where they train
    a scan (Mamba, gated delta)   b·2·(what its matrices put out) + 4·(the same)

    T tokens of a sequence    f width of an MLP    h hidden size    q, k, v widths of queries, keys, values    r rank of the adapter

A whole layer without scores is then a number of bytes for each token, linear in the batch. Checked against a backward pass that is run:
tests/memory/test_training_dry_run.py. Limits: models that are built of other modules than these; torch's own fused kernels only.
Source: torch 2.13 tools/autograd/derivatives.yaml (what each operation saves); transformers 5.23.0, the models' own code;
Korthikanti et al. 2022, arXiv:2205.05198.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from lib.engines.traits import MICRO_BATCH
from lib.laws import Law
from lib.laws.weights import Tensors
from lib.units import Bytes

_COUNTED = "counted from the forward pass; lib/laws/activation.py"
PREFILL = Law(equation="b·B·T·(3h + max(h + 8h/b, h + 3q + 3k, h + 3f)) + B·V·(b + 4)", source=_COUNTED)
PROFILE_RUN = Law(equation="b·M·(3h + max(2q + 2k, 3f)) + 12·S·V", source=_COUNTED)
COMPUTE_BUFFER = Law(equation="4·u·(V + h), without flash attention 4·u·(V + h + H·C)", source=_COUNTED)
TRACED_MOMENTS = Law(
    equation="largest of the traced moments: c + a·B·T + s·B·T² + m·T² + …",
    source="traced on the meta device with transformers 5.23.0; lib/model/activations.py",
)

FLOAT32, HALF = 4, 2
"""Bytes of one element."""


def prefill_bytes(
    *,
    tokens: int,
    batch: int,
    element_bytes: int,
    hidden: int,
    query_width: int,
    key_width: int,
    mlp_width: int,
    heads: int,
    vocabulary: int,
    kernel: Literal["sdpa", "eager"] = "sdpa",
    logit_rows: int = 1,
) -> Bytes:
    """Peak during the prefill, by the equation above.

    >>> prefill_bytes(tokens=4096, batch=1, element_bytes=2, hidden=4096, query_width=4096, key_width=1024, mlp_width=14336, heads=32,
    ...               vocabulary=128256)
    487308800
    """
    attention = hidden + 3 * query_width + 3 * key_width
    mlp = hidden + 3 * mlp_width
    norm = hidden + 2 * FLOAT32 * hidden // element_bytes
    flow = element_bytes * batch * tokens * (3 * hidden + max(norm, attention, mlp))
    per_score = 2 * FLOAT32 if element_bytes == FLOAT32 else 2 * element_bytes + FLOAT32
    scores = per_score * batch * heads * tokens**2 if kernel == "eager" else 0
    return Bytes(flow + scores + logits_bytes(rows=batch * logit_rows, vocabulary=vocabulary, element_bytes=element_bytes))


def logits_bytes(*, rows: int, vocabulary: int, element_bytes: int) -> Bytes:
    """Scores over the vocabulary in the compute dtype, and the float32 copy that sampling works on: R·V·(b + 4)."""
    return Bytes(rows * vocabulary * (element_bytes + FLOAT32))


def paged_engine_bytes(
    *,
    batched_tokens: int,
    sequences: int,
    element_bytes: int,
    hidden: int,
    query_width: int,
    key_width: int,
    mlp_width: int,
    vocabulary: int,
) -> Bytes:
    """Peak of vLLM's own profile run: M tokens through the model, then sampling for S sequences.

        M = b·M·(3h + max(2q + 2k, 3f)) + 4·S·V·3

    Fused kernels leave a residual, the hidden states and one normed copy; the MLP holds gate and up side by side and their product;
    the sampler holds the logits in float32, their sorted copy and probabilities. Defaults of the engine (V1): M = 8192 tokens on
    cards of 70 GiB and more, 2048 below; S = 256. Limits: without the memory of captured graphs (`lib.laws.runtime`).
    Source: vLLM's start-up log for Meta-Llama-3-8B on a card of 80 GB, 1.26 GiB with M = 8192 (github.com/vllm-project/vllm/pull/10511,
    2024-12-14); this law gives 1.21 GiB.
    """
    layer = 3 * hidden + max(2 * query_width + 2 * key_width, 3 * mlp_width)
    return Bytes(element_bytes * batched_tokens * layer + 3 * FLOAT32 * sequences * vocabulary)


def compute_buffer_bytes(*, hidden: int, vocabulary: int, context: int = 0, heads: int = 0, micro_batch: int = MICRO_BATCH) -> Bytes:
    """llama.cpp's compute buffer: one micro-batch of u tokens (512) in float32, logits and hidden states.

        M = 4·u·(V + h)            with flash attention (the default where the card has it)
        M = 4·u·(V + h + H·C)      without: scores of the micro-batch against a context of C tokens; at most, for logits come after them

    Source: printed compute buffers: 300.75 MiB for Qwen2.5-3B (V 151 936, h 2048; github.com/SciSharp/LLamaSharp/issues/1099, this law
    300.75) and 105 MiB for a 3.9B model (V 50 432, h 3072; github.com/mozilla-ai/llamafile/pull/552, this law 104.5).
    Limits: one sequence slot; state space layers hold more (github.com/ggml-org/llama.cpp/issues/24175).
    """
    return Bytes(FLOAT32 * micro_batch * (vocabulary + hidden + heads * context))


def generation_peak_bytes(*, weights: int, moments: Iterable[tuple[int, int]], workspace: int = 0) -> Bytes:
    """Peak of one generation as torch's allocator counts it: M = W + max over its moments of (cache + activations) + workspace.

    Args:
        weights: W.
        moments: cache and activations in bytes; of a decoder (cache(p), activations(p)) while the prompt of p tokens is read at once and
            (cache(p + o - 1), activations(1)) at its end, for the last of o output tokens is never read.
        workspace: of cuBLAS, on a GPU.

    The process, its libraries and the CUDA context are left out, for the allocator does not count them.

    >>> generation_peak_bytes(weights=1000, moments=[(100, 50), (120, 1)], workspace=8)
    1158
    """
    return Bytes(weights + max(cache + activations for cache, activations in moments) + workspace)


_MATRIX = 2
_SCANS = ("mamba", "linear_attn", "mixer", "ssm", "delta")
_WRITERS = ("o_proj", "out_proj", "o", "wo", "w2", "dense", "c_proj", "down_proj", "dense_4h_to_h", "fc2", "attention.output")


class LayerWidths(NamedTuple):
    """Sizes of the layers: hidden size, number, query and key heads, width of a head."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


class LayerTraining(NamedTuple):
    """How the layers are trained.

    `weights`: their own; `adapted`: which matrices have an adapter, of which `rank`; `casts`: bytes of an element to which an adapter casts
    its input, 0 for none; `scores`: attention keeps them; `repeats`: key heads are repeated for each query head before attention (sdpa
    does, FlashAttention does not).
    """

    weights: bool
    adapted: Callable[[Tensors], bool]
    rank: int
    casts: int
    dora: bool
    scores: bool
    repeats: bool
    rotates: bool = False
    """Whether queries and keys of one fused projection are rotated: they become new tensors, and the values keep the whole projection."""
    float32_stream: bool = False
    """Whether hidden states pass between layers in float32 and autocast casts them for each matrix: its weight copies alone are cached."""
    float32_outputs: bool = False
    """Whether matrices of a float32 stream put out float32, as those of bitsandbytes do: gate, activation and up have four bytes then."""
    drops_hidden: bool = False
    """Whether dropout applies to the outputs of attention and MLP: each keeps a mask of one byte an element."""
    drops_scores: bool = False
    """Whether dropout applies to the scores of attention. Only eager attention keeps that mask; sdpa draws it again from its seed."""


class SavedBytes(NamedTuple):
    """Bytes for each token of all layers and of the fullest one, and for each token and token of its sequence (scores)."""

    layers: float
    one_layer: float
    layers_by_length: float
    one_layer_by_length: float


def _writes(group: Tensors, hidden: int) -> bool:
    """Whether a matrix writes the stream of hidden states; a square one by its name."""
    rows, columns = group.shape
    return rows == hidden and (columns != hidden or group.name.removesuffix(".weight").endswith(_WRITERS))


def save_for_backward(groups: Iterable[Tensors], stack: LayerWidths, training: LayerTraining, element_bytes: int) -> SavedBytes:
    """Bytes that the layers keep of each token.

    Args:
        groups: the tensors of the layers, without tables, head and towers.
        stack: sizes of the layers.
        training: how they are trained.
        element_bytes: of the compute dtype.
    """
    tensors = list(groups)
    total = one = total_scores = one_scores = 0.0
    for count, each, scores in _per_module(tensors, stack, training, element_bytes):
        share = max(1.0, count / max(1, stack.layers))
        total, one = total + count * each, one + share * each
        total_scores, one_scores = total_scores + count * scores, one_scores + share * scores
    return SavedBytes(total, one, total_scores, one_scores)


def _per_module(tensors: list[Tensors], stack: LayerWidths, training: LayerTraining, b: int) -> Iterable[tuple[int, float, float]]:
    """(How many there are, bytes for each token, bytes for each token and token of the sequence) of every module."""
    modules: dict[str, list[Tensors]] = {}
    biased = {group.name for group in tensors if group.kind == "norm" and group.name.endswith(".bias")}
    for group in tensors:
        if group.kind == "linear" and len(group.shape) == _MATRIX:
            modules.setdefault(group.name.removesuffix(".weight").rpartition(".")[0], []).append(group)
        elif group.kind == "norm" and group.name.endswith("weight"):
            yield group.count, _norm(group, stack, training, b, layer_norm=f"{group.name.removesuffix('weight')}bias" in biased), 0.0
        elif group.kind == "expert" and len(group.shape) > _MATRIX:
            yield group.count, _experts(group, stack, training, b), 0.0
    for name, matrices in modules.items():
        yield from _matrices(name, matrices, stack, training, b)


def _norm(group: Tensors, stack: LayerWidths, training: LayerTraining, b: int, *, layer_norm: bool) -> float:
    width = math.prod(group.shape)
    own = group.name.removesuffix(".weight").rpartition(".")[2]
    if width == stack.head_dim and width != stack.hidden:
        width *= stack.kv_heads if own.startswith("k") else stack.heads
    if training.float32_stream and width == stack.hidden:
        b = FLOAT32
    return b * width if layer_norm else FLOAT32 * width + (b * width if training.weights else 0)


def _experts(group: Tensors, stack: LayerWidths, training: LayerTraining, b: int) -> float:
    """Fused experts come as a pair; each of the two tensors answers for its own side."""
    rows, columns = group.shape[-2:]
    inner = rows if columns == stack.hidden else columns
    k = group.experts_per_token
    if columns == stack.hidden and rows != stack.hidden:  # gate and up: what they put out, the activation, and what they read
        return k * b * (inner + inner / 2 + (stack.hidden if training.weights else 0))
    return k * b * (stack.hidden + (inner if training.weights else 0))


def _matrices(
    name: str, matrices: list[Tensors], stack: LayerWidths, training: LayerTraining, b: int
) -> Iterable[tuple[int, float, float]]:
    h = stack.hidden
    count = max(group.count for group in matrices)
    writers = [g for g in matrices if _writes(g, h)]
    others = [g for g in matrices if not _writes(g, h)]
    read = sum(g.shape[0] if g.shape[1] == h or g.shape[0] != h else g.shape[1] for g in others)
    written = sum(g.shape[1] for g in writers)
    scans = any(word in name.lower() for word in _SCANS)
    attends = not scans and ("attn" in name.lower() or "attention" in name.lower())
    keeps = 0.0
    readers = sum(_keeps_input(g, training) for g in others if g.shape[1] == h)
    keeps += b * h * (readers if training.float32_stream else min(1, readers))
    keeps += sum(b * g.shape[1] for g in others if g.shape[1] != h and _keeps_input(g, training))
    scores = 0.0
    if scans:
        keeps += (2 * b + FLOAT32) * read + b * written
    elif attends:
        repeated = 2 * (stack.heads - stack.kv_heads) * stack.head_dim if training.repeats and len(others) > 1 else 0
        keeps += b * (read + written + repeated) + FLOAT32 * stack.heads
        fused = training.rotates and len(others) == 1 and others[0].shape[0] > written
        keeps += b * (read - written) if fused else 0
        scores = (FLOAT32 + b + training.drops_scores) * stack.heads if training.scores and others else 0.0  # BERT's writer is apart
    else:
        gated = bool(writers) and read >= 2 * written
        width = FLOAT32 if training.float32_outputs else b
        keeps += width * read + (width * written if gated else 0)
        keeps += sum(b * g.shape[1] for g in writers if _keeps_input(g, training))
    keeps += h * len(writers) if training.drops_hidden else 0
    for group in matrices:
        if training.adapted(group):
            keeps += (
                (training.casts or b) * training.rank + training.casts * group.shape[1] + (2 * b * group.shape[0] if training.dora else 0)
            )
    yield count, keeps, scores


def _keeps_input(group: Tensors, training: LayerTraining) -> bool:
    return training.weights or (training.adapted(group) and not training.casts)
