"""The work of a model in one precision, as the laws of speed take it: bytes read, parameters used by a token, layers, cache.

Taken from the same tensors and cache terms as the memory estimate. Embedding tables are looked up, not read (those that Gemma 3n keeps for
each layer too), and towers for pictures and sound are not passed by text: both are left out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lib.catalog.rows import ById
from lib.laws.cache_growth import growth_of
from lib.laws.kv_cache import linear_cache
from lib.laws.media_tokens import TOWERS
from lib.laws.weights import GGUF_LAW, is_tied
from lib.memory.components import WeightBytes, count_weight_bytes
from lib.memory.resolve import LayerSizes, layer_sizes
from lib.model.spec import CacheTerm, ModelSpec, TensorGroup
from lib.precision import element_bytes, weight_format

PACKED = frozenset({"bnb4", "bnb4_double", "gptq", "awq", "int_groups"})
_KERNELS = {
    "bnb4": "bnb4", "bnb8": "bnb8", "awq": "int4", "int_groups": "int4", "fp8_block": "fp8", "scaled_tensor": "fp8",
    "mxfp4": "fp4", "nvfp4": "fp4",
}  # fmt: skip


_MODULES_OF_LAYER = 8
"""Of a transformer encoder's layer: two norms, four projections of attention, two matrices (ViTLayer of transformers 5.23.0). Launching a
network that has no such layers is taken to cost as much by the module."""


class DecoderStack(NamedTuple):
    """A stack of layers that tokens pass: bytes read in a pass, parameters used by a token (the output projection's among them), sizes."""

    dense_bytes: float
    expert_bytes: float
    experts: int
    experts_per_token: int
    active_parameters: float
    head_parameters: float
    layers: float
    hidden: float
    attention_width: float
    full_layers: float
    windowed_layers: float


class ForwardCost(NamedTuple):
    """A model in one precision: `encoder` and `decoder`, None if there is none; the cache in the terms of `cache_bytes_read`.

    A decoder that embeds or ranks makes one pass and no token: its stack is the encoder, and its table of words is only looked up.

    `tower` reads the pictures of a prompt (None if the model takes none), `tower_window` positions of its windowed layers.
    `encoder_tokens` are the positions that an encoder before a decoder always has (a window of sound), else 0.

    `packed_parameters` are stored in fewer bits than they are multiplied in; 0 for formats with units of their own.
    """

    decoder: DecoderStack | None
    encoder: DecoderStack | None
    tower: DecoderStack | None
    tower_window: int
    encoder_tokens: int
    kernel: str
    packed_parameters: float
    cache_shards: int
    cache_constant: float
    cache_per_token: float
    cache_windowed: float
    window: float
    total_bytes: int


def choose_kernel(precision: str, *, experts: bool, recorded: bool) -> str:
    """Which kernels read the weights of a resolved format; `recorded` where the engine replays recorded graphs."""
    form = weight_format(precision)
    if form.bits >= 16:  # noqa: PLR2004 not quantized
        return "fp32" if form.bits == 32 else "half"  # noqa: PLR2004
    if form.law == "gguf":
        return "gguf"
    if form.law == "scaled_rows":
        return "fp8" if form.arithmetic == "fp8" else "int8"
    if form.law == "awq" and not recorded:
        return "awq"
    name = _KERNELS.get(form.law) or ("int4" if form.bits == 4 else "int8")  # noqa: PLR2004 gptq comes in both
    return f"{name}-experts" if experts and recorded and name in {"int4", "int8"} else name


def _bytes_of(groups: list[TensorGroup], spec: ModelSpec, stored: WeightBytes) -> float:
    """Bytes of some of the spec's tensors."""
    sizes = dict(zip(map(id, spec.tensors), stored.by_group, strict=True))
    return float(sum(sizes[id(group)] for group in groups))


def _layers(terms: tuple[CacheTerm, ...], attended: str) -> int:
    """Layers of the kinds whose attention reads these tokens; a kind may hold several tensors."""
    by_kind: dict[str, int] = {}
    for term in terms:
        if growth_of(term.growth).attended == attended and "state" not in term.kind:
            by_kind[term.kind] = max(by_kind.get(term.kind, 0), term.layers)
    return sum(by_kind.values())


@lru_cache(maxsize=4096)
def _derive(key: ById[ModelSpec], precision: str, compute: str, kv_precision: str, recorded: bool) -> ForwardCost:
    spec = key.value
    stored = count_weight_bytes(spec, precision, compute, keeps_fp32=False)
    size = layer_sizes(spec)
    terms = spec.cache_terms or ()
    parts = spec.parameters_by_component
    share = {name: stored.by_component.get(name, stored.total * parts[name] / max(1, spec.parameters_total)) for name in parts}
    decodes, apart, left, tables = _find_passed(spec)
    by_group = stored.law is not GGUF_LAW  # which is taken as an average over a component's tensors
    in_tables = _bytes_of(tables, spec, stored) if by_group else sum(share[g.component] * g.parameters / parts[g.component] for g in tables)
    read = stored.total - sum(share[name] for name in left) - in_tables
    experts = [g for g in spec.tensors if g.kind == "expert"]
    expert_parameters = sum(g.parameters for g in experts)
    in_experts = _bytes_of(experts, spec, stored) if by_group else read * expert_parameters / max(1, spec.parameters_total)
    stack = _stack(spec, size, read, in_experts, float(count_multiplied(spec)))
    if spec.picture_pass is not None:
        # Parameters and layers of attention for which 2 · P · n and the law of attention give the FLOP of the executed pass.
        run = spec.picture_pass
        stack = stack._replace(
            active_parameters=run.flop / (2 * run.positions),
            layers=run.modules / _MODULES_OF_LAYER,
            full_layers=run.attention_flop / (4 * stack.attention_width * run.positions**2),
        )
    encoder = None
    if apart:
        used = float(parts["encoder"])
        encoder = stack._replace(
            dense_bytes=share["encoder"], expert_bytes=0.0, experts=0, active_parameters=used, head_parameters=0.0, windowed_layers=0.0
        )
    tokens = spec.dimensions.encoder_tokens
    cache = linear_cache(terms, element_bytes(kv_precision, compute), tokens)
    packed = 0.0
    if weight_format(precision).law in PACKED:
        packed = float(sum(group.parameters for group in spec.tensors if group.kind == "linear") or spec.parameters_total)
    by_layer = max((t.elements for t in terms if t.growth in {"tokens", "window"}), default=0)
    return ForwardCost(
        decoder=stack if decodes else None,
        encoder=encoder if decodes else stack,
        tower=_tower(spec, share, stack),
        tower_window=spec.vision.window if spec.vision else 0,
        encoder_tokens=tokens,
        kernel=choose_kernel(precision, experts=stack.experts > 0, recorded=recorded),
        packed_parameters=packed,
        cache_shards=max(1, size.kv_heads) if by_layer == 2 * size.key_width else 1,
        cache_constant=cache.constant,
        cache_per_token=cache.per_token,
        cache_windowed=cache.windowed_per_token,
        window=cache.window,
        total_bytes=stored.total,
    )


def _tower(spec: ModelSpec, share: dict[str, float], stack: DecoderStack) -> DecoderStack | None:
    """The vision tower and what projects its output."""
    if spec.vision is None:
        return None
    tower, windowed = spec.vision.tower, spec.vision.windowed_layers
    parts = [name for name in ("vision_tower", "projector") if name in share]
    return stack._replace(
        dense_bytes=sum(share[name] for name in parts),
        expert_bytes=0.0,
        experts=0,
        experts_per_token=0,
        active_parameters=float(sum(spec.parameters_by_component[name] for name in parts)),
        head_parameters=0.0,
        layers=tower.layers,
        hidden=tower.hidden_size,
        attention_width=tower.hidden_size,
        full_layers=tower.layers - windowed,
        windowed_layers=windowed,
    )


class _Passed(NamedTuple):
    """The text's way: whether it `decodes`, with an encoder `apart`; components and single tables that it is not multiplied with."""

    decodes: bool
    apart: bool
    left: set[str]
    tables: list[TensorGroup]


def _find_passed(spec: ModelSpec, *, with_loss: bool = False) -> _Passed:
    parts = spec.parameters_by_component
    generates = (bool(spec.cache_terms) or spec.unknown_cache or not spec.tensors) and spec.work != "embedding decoder"
    decodes = generates or with_loss
    apart = generates and not with_loss and {"encoder", "decoder"} <= parts.keys()
    left = set() if decodes and is_tied(spec.tensors) else {"embeddings"} & parts.keys()
    left |= ({"encoder"} if apart else set()) | (TOWERS & parts.keys() if decodes else set())
    tables = [g for g in spec.tensors if decodes and g.kind == "embedding" and g.component not in {"embeddings", *left}]
    vocabulary = layer_sizes(spec).vocabulary
    # by token, for each layer; positions and distances are small
    return _Passed(decodes, apart, left, [g for g in tables if 2 * g.shape[0] > vocabulary])


def count_multiplied(spec: ModelSpec, *, with_loss: bool = False) -> int:
    """Parameters that a token of text is multiplied with, output projection included: of the decoder where the model writes.

    Active parameters do not include tables that are only looked up (Gemma 3n has one for each layer), towers, and an encoder before the
    decoder. A tied table counts as the head of what writes.

    Args:
        spec: the model.
        with_loss: in training, whose loss is over all tokens: a tied table is the head of encoders too, and an encoder before the decoder
            is passed as well.
    """
    _, _, left, tables = _find_passed(spec, with_loss=with_loss)
    parts = spec.parameters_by_component
    return max(1, spec.parameters_active - sum(parts[name] for name in left) - sum(g.parameters for g in tables))


def count_head_parameters(spec: ModelSpec, active: float) -> float:
    """Parameters of the output projection, which only the last position of a prompt passes, of the `active` ones."""
    size = layer_sizes(spec)
    return min(float(size.vocabulary * size.hidden), active)


def _stack(spec: ModelSpec, size: LayerSizes, read: float, in_experts: float, active: float) -> DecoderStack:
    terms = spec.cache_terms or ()
    first = next((g for g in spec.tensors if g.kind == "expert" and g.experts), None)
    routed = min(read, in_experts) if first else 0.0
    return DecoderStack(
        dense_bytes=read - routed,
        expert_bytes=routed,
        experts=first.experts if first else 0,
        experts_per_token=first.experts_per_token if first else 0,
        active_parameters=active,
        head_parameters=count_head_parameters(spec, active),
        layers=max(size.layers, *(t.layers for t in terms)) if terms else size.layers,
        hidden=size.hidden,
        attention_width=size.query_width,
        full_layers=_layers(terms, "all") if terms else size.layers,
        windowed_layers=_layers(terms, "window"),
    )


def derive_model_work(spec: ModelSpec, precision: str, compute: str, kv_precision: str, *, recorded: bool) -> ForwardCost:
    """The work of a model in a resolved precision; cached for each spec. `recorded` where the engine replays recorded graphs."""
    return _derive(ById(spec), precision, compute, kv_precision, recorded)
