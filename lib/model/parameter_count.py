"""A parameter count as the only thing known ("7B", "350M"): a spec of a decoder with the usual proportions.

    N = 12 · L · h²     with   L = h / 128

    N  parameters     L  layers     h  hidden size

12·h² are the weights of a layer (4·h² attention, 8·h² feed-forward), and published decoders are some 128 times wider than they are
many layers (Llama-2-7B: 4096 and 32). Heads are 128 wide; keys and values have 8 heads at most, as most models since 2024.
Source: Kaplan et al. 2020, arXiv:2001.08361 (12·L·h²); proportions from the bundled models.
Limit: a typical model, not the one that is meant. The weights follow from N alone; cache and activations are typical for its size.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from lib.errors import UnknownModel, quote_value
from lib.model.spec import CacheTerm, Dimensions, ModelSpec, StoredWeights
from lib.provenance import Caveat, Source

HEAD_DIM = 128
KV_HEADS = 8
LARGEST = 100 * 10**12
_ACCEPTED = "a parameter count from 1 thousand to 100 trillion, such as 350M, 7B or 1.5b"
_COUNT = re.compile(
    r"(?P<number>[0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*"
    r"(?:(?P<unit>k|m|b|t|thousand|million|billion|trillion)\s*)?(?:param(?:eter)?s)?",
    re.IGNORECASE,
)
_UNITS = {"": 1, "k": 10**3, "t": 10**12, "m": 10**6, "b": 10**9, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_LEAST = 1_000


def parse_count(text: str) -> int:
    """Read "7B", "1.5b", "350M" or "7000000000" as a number of parameters.

    Raises:
        UnknownModel: not a count, or none that a model could have.
    """
    match = _COUNT.fullmatch(text.strip()) if len(text) <= 60 else None  # noqa: PLR2004
    try:
        number = Decimal(match["number"].replace(",", "").replace("_", "")) if match else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    count = number * _UNITS[(match["unit"] or "").lower()] if match else Decimal(0)
    if not _LEAST <= count <= LARGEST:
        raise UnknownModel(f"{quote_value(text)} is no parameter count. Accepted: {_ACCEPTED}.")
    return int(count)


def typical_decoder(parameters: int) -> Dimensions:
    """Sizes of a decoder of usual proportions with this many parameters."""
    layers = max(1, round((parameters * HEAD_DIM / 12) ** (1 / 3) / HEAD_DIM))
    return Dimensions(
        hidden_size=layers * HEAD_DIM,
        layers=layers,
        attention_heads=layers,
        kv_heads=min(layers, KV_HEADS),
        head_dim=HEAD_DIM,
        intermediate_size=4 * layers * HEAD_DIM,
    )


def resolve_count(text: str) -> ModelSpec:
    """A spec for a bare parameter count.

    Raises:
        UnknownModel: not a count.
    """
    parameters = parse_count(text)
    sizes = typical_decoder(parameters)
    cache = CacheTerm(
        kind="full attention", holds="keys and values", layers=sizes.layers, elements=2 * sizes.kv_heads * HEAD_DIM, growth="tokens"
    )
    values = {"layers": sizes.layers, "hidden_size": sizes.hidden_size, "kv_heads": sizes.kv_heads}
    return ModelSpec(
        id="",
        architecture="",
        model_type="",
        task="text-generation",
        library="none",
        source="rule_of_thumb",
        parameters_total=parameters,
        parameters_active=parameters,
        tensors=(),
        dimensions=sizes,
        layer_kinds={"full attention": sizes.layers},
        cache_terms=(cache,),
        unknown_cache=False,
        activations=(),
        context_limit=None,
        stored=StoredWeights(dtype=""),
        caveats=(Caveat("typical_model", values),),
        sources=(Source(what="proportions of a decoder", source="Kaplan et al. 2020, arXiv:2001.08361", checked="2026-11-21"),),
    )
