"""The parts of a spec's memory: its weights in one format, its cache, and its activations, as functions of tokens and batch.

Cache. For each layer kind: bytes per token, bytes per token up to a window, and constant bytes. For the engine transformers this is exactly
`lib.laws.kv_cache`. The law is evaluated again if a kind grows in blocks of tokens, if an element is not whole bytes, and for engines
that allocate in blocks, pages or cells (`lib.laws.kv_cache_by_engine`).

Activations on one device. Where the model's forward pass was traced, `transformers` is counted by the trace (`ActivationFit`); elsewhere,
and for the other engines, by the laws of plain decoders (`lib.laws.activation`). Training steps are in `lib.memory.training`.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from lib.catalog.rows import ById
from lib.engines import traits_of
from lib.laws import Law, parallelism, training
from lib.laws import activation as law
from lib.laws.kv_cache import peak_tokens, units, width
from lib.laws.kv_cache_by_engine import LONG_CONTEXT, CacheQuestion, EngineCache, engine_cache
from lib.laws.media_tokens import TOWERS
from lib.laws.parallelism import ceil_divide, head_share
from lib.laws.weights import BY_COUNT, ENDS, GGUF_LAW, LAW, GgufShape, bytes_by_group, bytes_by_group_gguf
from lib.memory.media import tower_bytes
from lib.memory.resolve import layer_sizes
from lib.precision import weight_format
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import ActivationFit, CacheTerm, ModelSpec


AS_STORED = Law(equation="Σ bytes of the tensors, each in its own type", source="header of the GGUF file")
_CUT = frozenset({"linear", "expert", *ENDS})


class WeightBytes(NamedTuple):
    """Bytes of each group of `ModelSpec.tensors`, and by component: both add up to `total`.

    `cut` are bytes that tensor parallelism splits; `ends` are bytes of the larger one of embedding table and output head.
    """

    total: int
    by_group: tuple[int, ...]
    by_component: dict[str, int]
    cut: int
    ends: int
    largest_matrix: int
    law: Law


def count_weight_bytes(spec: ModelSpec, precision: str, compute_dtype: str, *, keeps_fp32: bool, towers: bool = True) -> WeightBytes:
    """The weights in one format; a bare parameter count takes the format's published bits per weight.

    Args:
        spec: the model.
        precision: a resolved format name.
        compute_dtype: dtype of the tensors that the format leaves unquantized.
        keeps_fp32: the engine keeps the same tensors in float32 as transformers.
        towers: whether the towers for pictures and sound are loaded.
    """
    form = weight_format(precision)
    if not spec.tensors:
        total = ceil_divide(round(spec.parameters_total * form.effective_bits), 8)
        return WeightBytes(total, (), {"parameters": total}, total, 0, 0, BY_COUNT)
    sizes = group_bytes(spec, precision, compute_dtype, keeps_fp32=keeps_fp32)
    if not towers:
        sizes = tuple(0 if group.component in TOWERS else size for group, size in zip(spec.tensors, sizes, strict=True))
    pairs = tuple(zip(spec.tensors, sizes, strict=True))
    cut = sum(size for group, size in pairs if group.kind in _CUT)
    ends = max((size for group, size in pairs if group.kind in ENDS), default=0)
    matrices = [g.shape[-1] * g.shape[-2] for g in spec.tensors if g.kind == "linear" and len(g.shape) > 1]
    law = AS_STORED if spec.library == "gguf" else GGUF_LAW if form.law == "gguf" else LAW
    return WeightBytes(sum(sizes), sizes, sum_by_component(spec, sizes), cut, ends, max(matrices, default=0), law)


def group_bytes(spec: ModelSpec, precision: str, compute_dtype: str, *, keeps_fp32: bool) -> tuple[int, ...]:
    """Bytes of each group of the spec's tensors in one format; the arguments are those of `count_weight_bytes`."""
    form = weight_format(precision)
    if spec.library == "gguf":
        return tuple(group.stored_bytes for group in spec.tensors)
    if form.law == "gguf":
        d = spec.dimensions
        experts = max((g.experts for g in spec.tensors), default=0)
        queries = d.attention_heads // d.kv_heads if d.kv_heads else 1
        shape = GgufShape(layers=d.layers, queries_per_kv=queries, experts=experts)
        return tuple(bytes_by_group_gguf(spec.tensors, form.name.removeprefix("gguf:"), shape))
    quantization = spec.stored.quantization
    stored = quantization if quantization is not None and quantization.format == form.name else None
    group = stored.group_size if stored else 0
    return tuple(bytes_by_group(spec.tensors, form, rest=compute_dtype, stored=stored is not None, group=group, keeps_fp32=keeps_fp32))


def sum_by_component(spec: ModelSpec, sizes: Iterable[int]) -> dict[str, int]:
    """Sizes of the groups added up for each component."""
    totals: dict[str, int] = {}
    for group, size in zip(spec.tensors, sizes, strict=True):
        totals[group.component] = totals.get(group.component, 0) + size
    return totals


_LATENT = re.compile(r"kv_a_proj|kv_b_proj|kv_a_layernorm")
_REMEMBERED = 2048
_PLAIN = frozenset({"tokens", "window", "constant", "encoder"})
"""Growths that `_KindBytes` can sum. A cache with any other growth is computed by the law."""


class _KindBytes(NamedTuple):
    """One layer kind, for one sequence, in bytes; `parts`: the devices that share its heads."""

    parts: int
    per_token: int
    constant: int
    windows: tuple[tuple[int, int], ...]


class Shares(NamedTuple):
    """Number of parts into which tensor parallelism can cut the cache: heads of keys and values, and heads of states.

    `latent`: one compressed vector serves all heads and is held by every device.
    """

    heads: int
    states: int
    latent: bool

    def of(self, kind: str) -> int:
        """Parts of a layer kind."""
        if "state" in kind:
            return self.states
        return 1 if self.latent or "latent" in kind or "compressed" in kind else self.heads


WHOLE = Shares(1, 1, latent=False)


def is_latent(spec: ModelSpec) -> bool:
    """Whether keys and values are made from a latent vector: told by the matrices that compress and expand it."""
    return any(_LATENT.search(group.name) for group in spec.tensors)


@lru_cache(maxsize=_REMEMBERED)
def _engine_cache(terms: ById[tuple[CacheTerm, ...]], engine: str, question: CacheQuestion) -> EngineCache:
    """The law with a cache: cards and formats of weights do not change its result."""
    return engine_cache(engine, question._replace(terms=terms.value))


class CacheBytes:
    """Bytes of the cache on all devices, and on the fullest one if it is split. `tokens` are text; those of media are added here."""

    def __init__(self, terms: tuple[CacheTerm, ...] | None, request: ResolvedRequest, head_dim: int = 0, shares: Shares = WHOLE) -> None:
        self._terms = terms or ()
        self._request = request
        self._media_tokens = request.media.tokens
        self._shares = shares
        self._head_dim = head_dim
        self._kinds = self._sum_kinds()
        self._single: dict[int, tuple[tuple[int, int], ...]] = {}
        self.codes = self._by_law(1, 1).codes

    def _width(self, term: CacheTerm) -> float:
        return width(term, self._request.kv_element_bytes, float(self._request.element_bytes))

    def _sum_kinds(self) -> tuple[_KindBytes, ...] | None:
        """The kinds as sums; None if only the law can compute the cache."""
        if traits_of(self._request.engine).cache != "exact" or any(t.growth not in _PLAIN or self._width(t) % 1 for t in self._terms):
            return None
        kinds, encoder_tokens = [], self._request.encoder_tokens
        for name in dict.fromkeys(t.kind for t in self._terms):
            of = [(t, int(t.layers * t.elements * self._width(t))) for t in self._terms if t.kind == name]
            kinds.append(
                _KindBytes(
                    self._shares.of(name),
                    sum(size for t, size in of if t.growth == "tokens"),
                    sum(size * units(t.growth, t.span, 0, encoder_tokens) for t, size in of if t.growth in {"constant", "encoder"}),
                    tuple((t.span, size) for t, size in of if t.growth == "window"),
                )
            )
        return tuple(kinds)

    def _by_law(self, tokens: int, batch: int) -> EngineCache:
        request = self._request
        question = CacheQuestion(
            tokens,
            batch,
            request.kv_element_bytes,
            self._head_dim,
            request.encoder_tokens,
            float(request.element_bytes),
            request.micro_batch,
        )
        return _engine_cache(ById(self._terms), request.engine, question)

    def by_kind(self, tokens: int, batch: int) -> dict[str, int]:
        """By layer kind, over all devices, nothing held twice."""
        held: dict[str, int] = dict(self._by_law(tokens + self._media_tokens, batch).by_kind)
        shared = self._shared(tokens)
        return {kind: size - (batch - 1) * shared.get(kind, 0) for kind, size in held.items()} if shared else held

    def _shared(self, tokens: int) -> Mapping[str, int]:
        """The part that all sequences of this length share: the prefix of their prompts, in layers that keep every token."""
        serving, block = self._request.serving, traits_of(self._request.engine).block_tokens
        if not serving.prefix_share:
            return {}
        prompt = tokens - prompt_and_output_tokens(tokens)[1]
        whole = tuple(term for term in self._terms if term.growth == "tokens")
        shared = serving.shared_tokens(prompt) // block * block
        if not (whole and shared):
            return {}
        request = self._request
        question = CacheQuestion(
            shared, 1, request.kv_element_bytes, self._head_dim, request.encoder_tokens, float(request.element_bytes), request.micro_batch
        )
        return engine_cache(request.engine, question._replace(terms=whole)).by_kind

    def share(self, tokens: int, batch: int) -> int:
        """One device's share of the heads; everything when there is one device or whole layers are dealt out."""
        if self._kinds is None:
            return self._law_share(tokens, batch)
        total, tokens = 0, tokens + self._media_tokens
        for parts, per_token, constant, windows in self._kinds:
            size = per_token * tokens + constant
            for span, each in windows:
                size += each * min(tokens, span)
            total += -(-size * batch // parts)
        return total

    def _law_share(self, tokens: int, batch: int) -> int:
        """As `share`, by the law. All laws are linear in the batch size, so one sequence is computed for each length and multiplied."""
        if self._request.kv_element_bytes % 1 or self._request.serving.prefix_share:
            return sum(ceil_divide(size, self._shares.of(kind)) for kind, size in self.by_kind(tokens, batch).items())
        single = self._single.get(tokens)
        if single is None:
            if len(self._single) >= _REMEMBERED:
                self._single.clear()
            single = tuple((self._shares.of(kind), size) for kind, size in self.by_kind(tokens, 1).items())
            self._single[tokens] = single
        return sum(-(-size * batch // parts) for parts, size in single)

    def worst_share(self, tokens: int, batch: int) -> int:
        """The largest `share` at any length up to `tokens`. A shorter length can take more: blocks unfilled, TPU pages get smaller."""
        if self._kinds is not None:
            return self.share(tokens, batch)
        whole = tokens + self._media_tokens
        lengths = {*peak_tokens(self._terms, whole), *([LONG_CONTEXT] if whole > LONG_CONTEXT else [])}
        return max(self.share(max(0, length - self._media_tokens), batch) for length in lengths)


SEQUENCES = 256  # sequences that vLLM samples in its profile run; assumed for the other engines too


def traced_kernel(spec: ModelSpec, element_bytes: int) -> Literal["sdpa", "eager"] | None:
    """The attention kernel that `transformers` selects by default: sdpa if the model has it; None without a trace."""
    kernels = {fit.kernel for fit in spec.activations if fit.element_bytes == element_bytes}
    return "sdpa" if "sdpa" in kernels else "eager" if kernels else None


def _fold_constants(fit: ActivationFit, encoder_tokens: int) -> Callable[[int, int], float]:
    """The traced polynomial with its constant terms added up; it returns 0 below the length from which the fit holds."""
    fixed = fit.per_sequence + (fit.per_encoder_token + fit.per_encoder_token_squared * encoder_tokens) * encoder_tokens
    constant, position, mask, token, square, start = (
        fit.constant, fit.per_position, fit.mask, fit.per_token, fit.per_token_squared, fit.from_tokens,
    )  # fmt: skip

    def form(tokens: int, batch: int) -> float:
        if tokens < start:
            return 0.0
        return constant + tokens * (position + mask * tokens) + batch * (fixed + tokens * (token + square * tokens))

    return form


@lru_cache(maxsize=4096)
def _forms(of: ById[ModelSpec], kernel: str | None, element_bytes: int, encoder_tokens: int) -> tuple[Callable[[int, int], float], ...]:
    """The polynomials of one kernel and dtype. They are cached, because engines and numbers of devices share them."""
    return tuple(
        _fold_constants(fit, encoder_tokens) for fit in of.value.activations if fit.kernel == kernel and fit.element_bytes == element_bytes
    )


class ActivationBytes:
    """Peak of temporary tensors on one device by tokens and batch size, with the law that gave it."""

    def __init__(self, spec: ModelSpec, request: ResolvedRequest) -> None:
        self._request = request
        self._start_up = traits_of(request.engine).start_up
        self._sizes = layer_sizes(spec)
        self._diffusion = spec.library in {"diffusers", "timm"}
        self.kernel = traced_kernel(spec, request.element_bytes)
        self._fits = self._of(spec, self.kernel)
        self._vision, self._media_tokens = spec.vision, request.media.tokens
        self._reads = (
            0 if spec.picture_pass and self._fits else request.media.read_positions
        )  # a trace includes its own picture, so T counts text alone
        shared = spec.dimensions.kv_heads < spec.dimensions.attention_heads
        runs = request.mode == "inference" and traits_of(request.engine).own_modules
        may_hold_scores = runs and shared and self.kernel == "sdpa" and request.shared_heads_need_scores
        self._with_scores = self._of(spec, "eager") if may_hold_scores else ()
        self.by_law = not self._fits or self._start_up != "forward pass" or request.mode != "inference"

    def _of(self, spec: ModelSpec, kernel: str | None) -> tuple[Callable[[int, int], float], ...]:
        return _forms(ById(spec), kernel, self._request.element_bytes, self._request.encoder_tokens)

    def scores(self, tokens: int, batch: int) -> int:
        """Additional bytes per device with an older torch: without a fused kernel for shared heads it stores the scores of all tokens."""
        if not self._with_scores:
            return 0
        return max(0, round(max(f(tokens + self._media_tokens, batch) for f in self._with_scores)) - self.bytes(tokens, batch))

    @property
    def law(self) -> Law:
        """The law that gives the bytes."""
        if self._request.mode != "inference":
            return training.LAW
        if self._start_up == "profile run":
            return law.PROFILE_RUN
        if self._start_up == "compute buffer":
            return law.COMPUTE_BUFFER
        return law.TRACED_MOMENTS if self._fits else law.PREFILL

    @property
    def is_known(self) -> bool:
        """Whether the sizes are the model's own; otherwise they are those of a typical decoder."""
        return self._sizes.is_known

    @property
    def inputs(self) -> dict[str, str]:
        """Symbols of the law with their values."""
        if self._diffusion and self._request.mode == "inference":
            return {}
        s = self._sizes
        symbols = {"h": f"{s.hidden:,}", "f": f"{s.mlp_width:,}", "V": f"{s.vocabulary:,}"}
        if self._start_up == "compute buffer":
            symbols |= {"u": str(self._request.micro_batch), "flash attention": "yes" if self._request.flash_attention else "no"}
        if self._start_up == "profile run" and self._request.mode == "inference":
            symbols |= {"M": str(self._request.profiled_tokens), "S": str(self._sampled_sequences)}
        return symbols | {"attention": self.kernel} if self.kernel and not self.by_law else symbols

    @property
    def _sampled_sequences(self) -> int:
        """Sequences that are sampled at once, no more than the tokens of the step; an engine without a cache samples none."""
        request = self._request
        most = request.serving.max_num_seqs or SEQUENCES
        return 0 if traits_of(request.engine).cache == "none" else min(most, request.profiled_tokens)

    def bytes(self, tokens: int, batch: int) -> int:
        """Peak on one device; 0 for a diffusion pipeline, because these laws do not take a resolution."""
        return self._peak(batch, tokens)

    def worst_bytes(self, tokens: int, batch: int) -> int:
        """The largest peak from the first token up to `tokens`: temporary tensors can shrink as the cache grows."""
        return self._peak(batch, 1, tokens)

    def _peak(self, batch: int, *lengths: int) -> int:
        if self._diffusion:
            return 0
        decoder = max([self._decoder(self._reads or tokens + self._media_tokens, batch) for tokens in lengths])
        waiting = self._request.media.waiting_features
        return max(decoder + waiting * batch * self._request.element_bytes if waiting else decoder, self.tower(batch))

    def tower(self, batch: int) -> int:
        """Temporary tensors of the vision tower, which runs before the prompt is read; servers run it for one request at a time."""
        together = batch if self._start_up == "forward pass" else 1
        return tower_bytes(self._vision, self._request.media, together, self._request.element_bytes)

    def _decoder(self, tokens: int, batch: int) -> int:
        if self._start_up == "forward pass":
            if self._fits:
                return max(0, round(max(f(tokens, batch) for f in self._fits)))
            s = self._sizes
            return law.prefill_bytes(
                tokens=tokens, batch=batch, element_bytes=self._request.element_bytes, hidden=s.hidden, query_width=s.query_width,
                key_width=s.key_width, mlp_width=s.mlp_width, heads=s.heads, vocabulary=s.vocabulary,
            )  # fmt: skip
        if self._start_up != "compute buffer":
            return self._profile_run
        heads = 0 if self._request.flash_attention else self._sizes.heads  # llama.cpp, on the device that multiplies by the output matrix
        return law.compute_buffer_bytes(
            hidden=self._sizes.hidden,
            vocabulary=self._sizes.vocabulary,
            context=tokens,
            heads=heads,
            micro_batch=self._request.micro_batch,
        )

    def host_buffer(self, tokens: int) -> int:
        """Bytes of llama.cpp's compute buffer in the memory of a GPU's host."""
        context, micro_batch = tokens + self._media_tokens, self._request.micro_batch
        return parallelism.host_buffer_bytes(hidden=self._sizes.hidden, context=context, micro_batch=micro_batch)

    @cached_property
    def _profile_run(self) -> int:
        """Bytes that the engine's profile run at start sets aside; they do not depend on the length."""
        s, n = self._sizes, self._request.devices
        return law.paged_engine_bytes(
            batched_tokens=self._request.profiled_tokens,
            sequences=self._sampled_sequences, element_bytes=self._request.element_bytes, hidden=s.hidden,
            query_width=ceil_divide(s.query_width, n), key_width=ceil_divide(s.key_width, head_share(kv_heads=s.kv_heads, devices=n)),
            mlp_width=ceil_divide(s.mlp_width, n), vocabulary=s.vocabulary,
        )  # fmt: skip
