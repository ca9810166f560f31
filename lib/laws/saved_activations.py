"""What a backward pass needs of the forward pass, for each token, read off a model's own matrices.

Autograd keeps for each operation what its gradient needs. Over the modules of a layer, with b bytes an element:

    norm of width w (RMS)         4·w, and b·w for the gradient of its weight        float32 copy of its input, the normed input
    norm of width w (LayerNorm)   b·w
    matrix (out, in) that trains  b·in          matrices of one module that read the same stream share it
    matrix with an adapter        b·in of its own where the adapter is cast, b·r between A and B; DoRA: 2·b·out more
    attention                     b·(q + k + v) + its output, and 4 for each head   with eager also (4 + b) · heads · T scores
    MLP with a gate               b·3f          gate, its activation, up; their product is the input of the last matrix
    MLP without                   b·f           what the activation function reads
    k experts of a token          b·k·(2f + f + h), and b·k·(h + f) where they train
    a scan (Mamba, gated delta)   b·2·(what its matrices put out) + 4·(the same)

    T tokens of a sequence    f width of an MLP    h hidden size    q, k, v widths of queries, keys, values    r rank of the adapter

A whole layer without scores is then a number of bytes for each token, linear in the batch. Checked against a backward pass that is run:
tests/memory/test_training_dry_run.py. Limits: models that are built of other modules than these; torch's own fused kernels only.
Source: torch 2.13 tools/autograd/derivatives.yaml (what each operation saves); transformers 5.23.0, the models' own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from lib.laws.activation import FLOAT32

_MATRIX = 2
_SCANS = ("mamba", "linear_attn", "mixer", "ssm", "delta")
_WRITERS = ("o_proj", "out_proj", "o", "wo", "w2", "dense", "c_proj", "down_proj", "dense_4h_to_h", "fc2", "attention.output")


class Group(Protocol):
    """A group of equal tensors, as far as this law looks at it (`lib.model.spec.TensorGroup`)."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def count(self) -> int: ...  # noqa: D102
    @property
    def experts(self) -> int: ...  # noqa: D102
    @property
    def experts_per_token(self) -> int: ...  # noqa: D102


class LayerStack(NamedTuple):
    """Sizes of the layers: hidden size, number, query and key heads, width of a head."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


class LayerTraining(NamedTuple):
    """How the layers are trained.

    `weights`: their own; `adapted`: which matrices have an adapter, of which `rank`; `casts`: bytes of what an adapter casts its input to,
    0 for none; `scores`: attention keeps them; `repeats`: key heads are repeated for each query head before attention (sdpa does,
    FlashAttention does not).
    """

    weights: bool
    adapted: Callable[[Group], bool]
    rank: int
    casts: int
    dora: bool
    scores: bool
    repeats: bool


class SavedBytes(NamedTuple):
    """Bytes for each token of all layers and of the fullest one, and for each token and token of its sequence (scores)."""

    layers: float
    one_layer: float
    layers_by_length: float
    one_layer_by_length: float


def _module(name: str) -> str:
    """The module in which a matrix stands: `model.layers.*.mlp` of `model.layers.*.mlp.up_proj.weight`."""
    return name.removesuffix(".weight").rpartition(".")[0]


def _own(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


def _writes(group: Group, hidden: int) -> bool:
    """Whether a matrix writes the stream of hidden states; a square one by its name."""
    rows, columns = group.shape
    return rows == hidden and (columns != hidden or group.name.removesuffix(".weight").endswith(_WRITERS))


def save_for_backward(groups: Iterable[Group], stack: LayerStack, training: LayerTraining, element_bytes: int) -> SavedBytes:
    """What the layers keep of each token.

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


def _per_module(tensors: list[Group], stack: LayerStack, training: LayerTraining, b: int) -> Iterable[tuple[int, float, float]]:
    """(How many there are, bytes for each token, bytes for each token and token of the sequence) of every module."""
    modules: dict[str, list[Group]] = {}
    biased = {group.name for group in tensors if group.kind == "norm" and group.name.endswith(".bias")}
    for group in tensors:
        if group.kind == "linear" and len(group.shape) == _MATRIX:
            modules.setdefault(_module(group.name), []).append(group)
        elif group.kind == "norm" and group.name.endswith("weight"):
            yield group.count, _norm(group, stack, training, b, layer_norm=f"{group.name.removesuffix('weight')}bias" in biased), 0.0
        elif group.kind == "expert" and len(group.shape) > _MATRIX:
            yield group.count, _experts(group, stack, training, b), 0.0
    for name, matrices in modules.items():
        yield from _matrices(name, matrices, stack, training, b)


def _norm(group: Group, stack: LayerStack, training: LayerTraining, b: int, *, layer_norm: bool) -> float:
    width = math.prod(group.shape)
    own = _own(group.name)
    if width == stack.head_dim and width != stack.hidden:
        width *= stack.kv_heads if own.startswith("k") else stack.heads
    return b * width if layer_norm else FLOAT32 * width + (b * width if training.weights else 0)


def _experts(group: Group, stack: LayerStack, training: LayerTraining, b: int) -> float:
    """Fused experts come as a pair; each of the two tensors answers for its own side."""
    rows, columns = group.shape[-2:]
    inner = rows if columns == stack.hidden else columns
    k = group.experts_per_token
    if columns == stack.hidden and rows != stack.hidden:  # gate and up: what they put out, the activation, and what they read
        return k * b * (inner + inner / 2 + (stack.hidden if training.weights else 0))
    return k * b * (stack.hidden + (inner if training.weights else 0))


def _matrices(name: str, matrices: list[Group], stack: LayerStack, training: LayerTraining, b: int) -> Iterable[tuple[int, float, float]]:
    h = stack.hidden
    count = max(group.count for group in matrices)
    writers = [g for g in matrices if _writes(g, h)]
    others = [g for g in matrices if not _writes(g, h)]
    read = sum(g.shape[0] if g.shape[1] == h or g.shape[0] != h else g.shape[1] for g in others)
    written = sum(g.shape[1] for g in writers)
    scans = any(word in name.lower() for word in _SCANS)
    attends = not scans and ("attn" in name.lower() or "attention" in name.lower())
    keeps = 0.0
    if any(_keeps_input(g, training) for g in others):
        keeps += b * h
    keeps += sum(b * g.shape[1] for g in others if g.shape[1] != h and _keeps_input(g, training))
    scores = 0.0
    if scans:
        keeps += (2 * b + FLOAT32) * read + b * written
    elif attends:
        repeated = 2 * (stack.heads - stack.kv_heads) * stack.head_dim if training.repeats and len(others) > 1 else 0
        keeps += b * (read + written + repeated) + FLOAT32 * stack.heads
        scores = (FLOAT32 + b) * stack.heads if training.scores else 0.0
    else:
        gated = bool(writers) and read >= 2 * written
        keeps += b * read + (b * written if gated else 0)
        keeps += sum(b * g.shape[1] for g in writers if _keeps_input(g, training))
    for group in matrices:
        if training.adapted(group):
            keeps += (
                (training.casts or b) * training.rank + training.casts * group.shape[1] + (2 * b * group.shape[0] if training.dora else 0)
            )
    yield count, keeps, scores


def _keeps_input(group: Group, training: LayerTraining) -> bool:
    return training.weights or (training.adapted(group) and not training.casts)
