"""Models of the catalog of the size of a bare parameter count."""

from __future__ import annotations

from lib.model.catalog_sizes import describe_size
from lib.model.resolve import resolve_count


def test_a_size_names_dense_models_and_mixtures_with_their_cache() -> None:
    """Llama-2-7B keeps 32 layers of 2 · 32 heads of 128, the typical 7B 33 of 2 · 8 heads: 3.9 times; a size of no model has no caveat."""
    seven = resolve_count("7B")
    (caveat,) = describe_size(seven.parameters_total, seven.cache_terms or ())
    assert "Llama-2-7b-chat-hf (cache × 3.9)" in str(caveat.values["dense"])
    assert "OLMoE-1B-7B" in str(caveat.values["mixtures"])
    assert "1.3B active" in str(caveat.values["mixtures"])
    assert describe_size(50 * 10**12, seven.cache_terms or ()) == ()
