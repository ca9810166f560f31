"""Models of the catalog of about the size of a bare parameter count: the count alone tells neither experts nor the size of the cache.

One model of each architecture is named, unquantized ones of the owners with the most models first. Each has its KV cache of 8,192
tokens compared with that of the typical decoder (`lib.model.resolve.typical_decoder`): models without grouped-query attention (most before
2024) keep several times as much.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache

from lib.laws.kv_cache import units
from lib.model import bundled
from lib.model.spec import CacheTerm, ModelSpec
from lib.provenance import Caveat

_WITHIN = 0.12
"""Largest difference in parameters: 7B also means the 7.6B and 6.2B that are sold under that name."""
_DENSE, _MIXTURES, _TOKENS = 5, 4, 8192
_TUNED = ("instruct", "chat", "-it")


@cache
def _text_models() -> tuple[ModelSpec, ...]:
    """The bundled models that write text and whose cache is known."""
    specs = (bundled.find_spec(model) for model in bundled.list_ids())
    return tuple(spec for spec in specs if spec is not None and spec.task == "text-generation" and spec.cache_terms)


@cache
def _owners() -> Counter[str]:
    """Bundled models by owner; the others mostly copy them."""
    return Counter(model.partition("/")[0] for model in bundled.list_ids())


def _elements(terms: tuple[CacheTerm, ...] | None) -> int:
    """Elements of the cache of one sequence."""
    return sum(term.layers * term.elements * units(term.growth, term.span, _TOKENS) for term in terms or ())


def _named(spec: ModelSpec, typical: int) -> str:
    active = f", {spec.parameters_active / 1e9:.1f}B active" if spec.is_mixture else ""
    return f"{spec.id} (cache × {_elements(spec.cache_terms) / typical:.2g}{active})"


@lru_cache(maxsize=256)
def describe_size(parameters: int, typical: tuple[CacheTerm, ...]) -> tuple[Caveat, ...]:
    """A caveat with the models of this size and their cache compared with `typical`; none if the catalog has none."""

    def rank(spec: ModelSpec) -> tuple[bool, int, bool, float, str]:
        tuned, owned = any(word in spec.id.casefold() for word in _TUNED), _owners()[spec.id.partition("/")[0]]
        return spec.stored.quantization is not None, -owned, not tuned, abs(spec.parameters_total / parameters - 1), spec.id

    alike = sorted((spec for spec in _text_models() if abs(spec.parameters_total / parameters - 1) <= _WITHIN), key=rank)
    first = {spec.model_type: spec for spec in reversed(alike)}
    one_each = [spec for spec in alike if first[spec.model_type] is spec]
    dense = [spec for spec in one_each if not spec.is_mixture]
    mixtures = [spec for spec in one_each if spec.is_mixture]
    if not one_each:
        return ()
    shown = dense[:_DENSE]
    heaviest = max(dense, key=lambda spec: _elements(spec.cache_terms), default=None)
    if heaviest is not None and heaviest not in shown:
        shown[-1] = heaviest
    lists = {
        "dense": ", ".join(_named(spec, _elements(typical)) for spec in shown) or "none",
        "mixtures": ", ".join(_named(spec, _elements(typical)) for spec in mixtures[:_MIXTURES]) or "none",
    }
    return (Caveat("models_of_size", lists),)
