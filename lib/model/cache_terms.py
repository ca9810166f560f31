"""From the shapes of cached tensors to cache terms."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from lib.errors import UnknownGrowth
from lib.model.cache_names import holds_of, kind_of
from lib.model.cache_samples import Samples, Tensor
from lib.model.growth import Law, block_length, size, tell
from lib.model.spec import CacheTerm


def _spans(tensors: list[Tensor]) -> set[int]:
    """Block lengths that show in any tensor of one layer."""
    return {block for tensor in tensors if len(tensor.shapes) > 3 and (block := block_length(tensor.shapes)) > 1}  # noqa: PLR2004 with long runs


def _law(tensor: Tensor, spans: set[int]) -> Law:
    counts = tensor.by_encoder
    if len(set(counts.values())) > 1:
        law = tell({encoded: (count,) for encoded, count in counts.items()})
        if law is None or law.growth != "tokens" or tell(tensor.shapes) is None:
            raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the encoder's length by no law that is known here.")
        return replace(law, growth="encoder", span=1)
    found = tell(tensor.shapes, spans)
    if found is None:
        raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the prompt by no law that is known here.")
    return found


def terms(samples: Samples) -> tuple[CacheTerm, ...]:
    """Terms of all layers; tensors of a layer that hold the same thing by the same law are one term, and so are equal layers.

    Raises:
        UnknownGrowth: no law explains a tensor.
    """
    by_owner: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    for tensor in samples.tensors:
        if any(size(shape) for shape in tensor.shapes.values()):
            by_owner[tensor.owner, tensor.layers].append(tensor)
    found: Counter[CacheTerm] = Counter()
    for (_, layers), tensors in by_owner.items():
        spans = _spans(tensors)
        held: Counter[CacheTerm] = Counter()
        for tensor in tensors:
            law = _law(tensor, spans)
            holds = holds_of(tensor.path)
            kind = kind_of(tensor.path, holds, law.growth, compressed=bool(spans))
            dtype = "model" if tensor.dtype == samples.dtype else tensor.dtype
            held[CacheTerm(kind=kind, holds=holds, layers=1, elements=0, growth=law.growth, span=law.span, dtype=dtype)] += law.elements
        for term, elements in held.items():
            found[replace(term, elements=elements)] += layers
    return tuple(replace(term, layers=layers) for term, layers in found.items())
