"""The cache of a spec as sums that are quick to evaluate.

For each layer kind: bytes per token, bytes per token up to a window, and constant bytes. For the engine transformers this is exactly
`lib.laws.kv_cache`. The law itself is asked where a kind grows in blocks of tokens, where an element is not whole bytes, and for engines
that allocate in blocks, pages or cells (`lib.laws.kv_cache_by_engine`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lib.engines import traits_of
from lib.identity import ById
from lib.laws.kv_cache import peak_tokens, units, width
from lib.laws.kv_cache_by_engine import LONG_CONTEXT, EngineCache, engine_cache
from lib.laws.parallelism import ceil_divide

if TYPE_CHECKING:
    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import CacheTerm, ModelSpec

_LATENT = re.compile(r"kv_a_proj|kv_b_proj|kv_a_layernorm")
_REMEMBERED = 2048
_PLAIN = frozenset({"tokens", "window", "constant", "encoder"})
"""Growths that are summed here; for a cache with any other the law is asked."""


class _Kind(NamedTuple):
    """One layer kind, for one sequence, in bytes; `parts`: the devices that share its heads."""

    parts: int
    per_token: int
    constant: int
    windows: tuple[tuple[int, int], ...]


class Shares(NamedTuple):
    """In how many parts tensor parallelism cuts what layers cache: heads of keys and values, and heads of states.

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
def _engine_cache(
    terms: ById[tuple[CacheTerm, ...]],
    engine: str,
    tokens: int,
    batch: int,
    element_bytes: float,
    head_dim: int,
    encoder_tokens: int,
    state_bytes: float,
    micro_batch: int,
) -> EngineCache:
    """The law, asked once for cards and formats of weights that make no difference to it."""
    return engine_cache(
        engine, terms.value, tokens=tokens, batch=batch, element_bytes=element_bytes, head_dim=head_dim, encoder_tokens=encoder_tokens,
        state_bytes=state_bytes, micro_batch=micro_batch,
    )  # fmt: skip


class Cache:
    """Bytes of the cache over all devices, and on the fullest one when it is cut; tokens are those of text, beside those of pictures."""

    def __init__(self, terms: tuple[CacheTerm, ...] | None, request: ResolvedRequest, head_dim: int = 0, shares: Shares = WHOLE) -> None:
        self._terms = terms or ()
        self._request = request
        self._before = request.media.tokens
        self._shares = shares
        self._head_dim = head_dim
        self._kinds = self._summed()
        self._single: dict[int, tuple[tuple[int, int], ...]] = {}
        self.codes = self._by_law(1, 1).codes

    def _width(self, term: CacheTerm) -> float:
        return width(term, self._request.kv_element_bytes, float(self._request.element_bytes))

    def _summed(self) -> tuple[_Kind, ...] | None:
        """The kinds as sums; None where the law itself has to be asked."""
        if traits_of(self._request.engine).cache != "exact" or any(t.growth not in _PLAIN or self._width(t) % 1 for t in self._terms):
            return None
        kinds = []
        for name in dict.fromkeys(t.kind for t in self._terms):
            of = [(t, int(t.layers * t.elements * self._width(t))) for t in self._terms if t.kind == name]
            kinds.append(
                _Kind(
                    self._shares.of(name),
                    sum(size for t, size in of if t.growth == "tokens"),
                    sum(
                        size * units(t.growth, t.span, 0, self._request.encoder_tokens)
                        for t, size in of
                        if t.growth in {"constant", "encoder"}
                    ),
                    tuple((t.span, size) for t, size in of if t.growth == "window"),
                )
            )
        return tuple(kinds)

    def _by_law(self, tokens: int, batch: int) -> EngineCache:
        of = self._request
        return _engine_cache(
            ById(self._terms),
            of.engine,
            tokens,
            batch,
            of.kv_element_bytes,
            self._head_dim,
            of.encoder_tokens,
            float(of.element_bytes),
            of.micro_batch,
        )

    def by_kind(self, tokens: int, batch: int) -> dict[str, int]:
        """By layer kind, over all devices, nothing held twice."""
        return dict(self._by_law(tokens + self._before, batch).by_kind)

    def share(self, tokens: int, batch: int) -> int:
        """One device's share of the heads; everything when there is one device or whole layers are dealt out."""
        if self._kinds is None:
            return self._law_share(tokens, batch)
        total, tokens = 0, tokens + self._before
        for parts, per_token, constant, windows in self._kinds:
            size = per_token * tokens + constant
            for span, each in windows:
                size += each * min(tokens, span)
            total += -(-size * batch // parts)
        return total

    def _law_share(self, tokens: int, batch: int) -> int:
        """As `share`, by the law itself; sequences of whole bytes are asked for once a length, since all laws are linear in the batch."""
        if self._request.kv_element_bytes % 1:
            return sum(ceil_divide(size, self._shares.of(kind)) for kind, size in self.by_kind(tokens, batch).items())
        known = self._single.get(tokens)
        if known is None:
            if len(self._single) >= _REMEMBERED:
                self._single.clear()
            known = tuple((self._shares.of(kind), size) for kind, size in self.by_kind(tokens, 1).items())
            self._single[tokens] = known
        return sum(-(-size * batch // parts) for parts, size in known)

    def worst_share(self, tokens: int, batch: int) -> int:
        """The largest `share` at any length up to `tokens`: buffers of unfilled blocks come and go, pages of a TPU shrink once."""
        if self._kinds is not None:
            return self.share(tokens, batch)
        whole = tokens + self._before
        lengths = {*peak_tokens(self._terms, whole), *([LONG_CONTEXT] if whole > LONG_CONTEXT else [])}
        return max(self.share(max(0, length - self._before), batch) for length in lengths)
