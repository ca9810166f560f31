"""The fitted constants of the laws of speed: what they are called, and reading them.

Written by `scripts/calibrate.py` into `lib/data/speed_constants.json`. Shares are logits, times and factors natural logarithms, so that
any value the optimiser tries is a possible one. An engine, a class or a format has an offset from the common value; the offsets were
held near zero in the fit (ridge), so that few measurements move them little.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lib.errors import BadCatalog
from lib.laws.forward_pass import Array

ENGINES = (
    "transformers", "vllm", "llama.cpp", "vllm-tpu", "host",
    "sglang", "tensorrt-llm", "tgi", "compiled", "exllama", "autoawq", "fastertransformer", "neuron",
)  # fmt: skip
"""Programs whose measurements were fitted; the first four can be asked for, `host` is any of them on a CPU."""
EAGER = frozenset({"transformers", "autoawq"})
CLASSES = ("gddr", "turing", "a100", "hopper", "blackwell", "cdna", "tpu", "neuron", "cpu")
FORMS = ("half", "fp32", "fp8", "fp4", "int4", "int4-experts", "int8", "int8-experts", "bnb4", "bnb8", "gguf")
"""Ways of storing weights that differ in the kernels that read them."""
ADMITTED = {"tensorrt-llm": 1024, "tgi": 128, "neuron": 16, "host": 128}
"""Sequences an engine runs at once by default; 256 for the others."""

E, C, F = len(ENGINES), len(CLASSES), len(FORMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Arrays over `ENGINES`, `CLASSES` or `FORMS`, or of one entry.

    bandwidth_*, compute_*: logits of the share reached. `cache`: offset of the logit for attention kernels. `rows_half_*`: ln of the
    rows at which half the compute is reached. `layer_s`, `step_s`, `sequence_s`: ln seconds of host time per layer, step and
    sequence. `eager_form`: ln factor on the time of a layer where eager engines unpack a format; `experts_host` where there are experts.
    `exchange_s`: ln latency; `exchange_bus` and `exchange_rows` ln factors over PCIe and for a split by rows; `exchange_share` ln of
    the share of the link that is reached. `attention`: ln of the rate of attention kernels relative to matrices. `interruption`,
    `queued`, `steps_waited`, `first_s`, `request_s`: ln of the symbols of `lib.laws.serving`. `full_load`: ln factor.
    """

    bandwidth: Array
    bandwidth_engine: Array
    bandwidth_class: Array
    bandwidth_form: Array
    cache: Array
    compute: Array
    compute_engine: Array
    compute_class: Array
    compute_form: Array
    rows_half: Array
    rows_half_class: Array
    layer_s: Array
    step_s: Array
    sequence_s: Array
    eager_form: Array
    experts_host: Array
    exchange_s: Array
    exchange_bus: Array
    exchange_rows: Array
    exchange_share: Array
    attention: Array
    interruption: Array
    queued: Array
    steps_waited: Array
    first_s: Array
    request_s: Array
    full_load: Array


SIZES = {
    name: {"engine": E, "class": C, "form": F}.get(
        name.rsplit("_", 1)[-1], E if name in {"layer_s", "step_s", "sequence_s", "first_s", "request_s"} else 1
    )
    for name in (f.name for f in fields(Constants))
}

DATA = Path(__file__).parent.parent / "data" / "speed_constants.json"
QUANTITIES = ("first", "between", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The constants with what stands behind them.

    `spread` is, by quantity and engine, by how much in ln a measurement that was left out may differ: 85 % of them do not differ by
    more. `measured` holds the pairs of engine and card class of which there were measurements. `pictures` is what is known of
    diffusion pipelines (`lib.speed.diffusion`). `errors` are the tables of the fit, for the explanation.
    """

    constants: Constants
    spread: dict[str, dict[str, float]]
    measured: frozenset[tuple[str, str]]
    pictures: dict[str, Any]
    errors: dict[str, dict[str, float]]
    source: str
    checked: str


def _array(name: str, held: object) -> Array:
    values = np.array(held, dtype=np.float64)
    if values.shape != (SIZES[name],) or not np.isfinite(values).all():
        raise BadCatalog(f"speed_constants.json: '{name}' does not hold {SIZES[name]} numbers. Run scripts/calibrate.py again.")
    return values


def read(data: dict[str, Any]) -> Fitted:
    """The content of the file.

    Raises:
        BadCatalog: it was written for other engines, classes or formats, or a number is missing.
    """
    named = (tuple(data.get("engines", ())), tuple(data.get("classes", ())), tuple(data.get("forms", ())))
    if named != (ENGINES, CLASSES, FORMS):
        raise BadCatalog(
            "speed_constants.json: it names other engines, card classes or formats than the code. Run scripts/calibrate.py again."
        )
    try:
        return Fitted(
            constants=Constants(**{name: _array(name, data["constants"][name]) for name in SIZES}),
            spread={quantity: {engine: float(data["spread"][quantity][engine]) for engine in ENGINES} for quantity in QUANTITIES},
            measured=frozenset((engine, group) for engine, group in data["measured"]),
            pictures=dict(data["pictures"]),
            errors={name: dict(row) for name, row in data["errors"].items()},
            source=str(data["source"]),
            checked=str(data["checked"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadCatalog(f"speed_constants.json: {type(error).__name__}: {error}. Run scripts/calibrate.py again.") from None


@lru_cache(maxsize=1)
def fitted() -> Fitted:
    """The bundled constants, read at the first call."""
    return read(json.loads(DATA.read_text(encoding="utf-8")))
