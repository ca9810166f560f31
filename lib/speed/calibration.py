"""The fitted constants of the laws of speed: what they are called, and reading them.

Written by `scripts/calibrate.py` into `lib/data/speed_constants.json`. Shares are logits, times and factors natural logarithms, so that
any value the optimiser tries is a possible one. An engine, a card class or a kernel has an offset from the common value; the fit holds
the offsets near zero (ridge), so that few measurements move them little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lib.engines import TRAITS
from lib.errors import BadCatalog
from lib.laws.forward_pass import Array

ENGINES = (
    "transformers", "vllm", "llama.cpp", "vllm-tpu", "host",
    "sglang", "tensorrt-llm", "tgi", "compiled", "exllama", "autoawq", "fastertransformer", "neuron",
)  # fmt: skip
"""Programs whose measurements were fitted; those of `lib.engines.ENGINES` can be asked for, `host` is any of them on a CPU."""
EAGER = frozenset({*(name for name, row in TRAITS.items() if row.eager), "autoawq"})
"""Engines in which launching kernels overlaps with computing, and which take any number of requests into a batch."""
CLASSES = ("gddr", "turing", "a100", "hopper", "blackwell", "cdna", "tpu", "neuron", "cpu")
KERNELS = ("half", "fp32", "fp8", "fp4", "int4", "int4-experts", "int8", "int8-experts", "bnb4", "bnb8", "gguf", "awq")
"""Ways of storing weights that differ in the kernels that read them; "awq" is AutoAWQ's own, in eager engines."""
ALL_ROWS = 1e12
FUSED_ROWS = {"bnb4": 1.0, "int4": 50.0, "int8": 50.0, "awq": 1023.0}
"""Rows up to which the kernels of eager engines unpack weights in registers; more are unpacked to memory. bitsandbytes 0.45 `matmul_4bit`
(a vector goes to `gemv_4bit`), exllamav2 `MAX_Q_GEMM_ROWS`, AutoAWQ 0.2 `WQLinear_GEMM` (its heuristic of 1024 rows)."""
CACHE_COPYING = frozenset(name for name, row in TRAITS.items() if row.own_modules)
"""Engines whose default cache is copied at each step (`lib.laws.forward_pass.cache_bytes_copied`)."""
OWN_FILES = frozenset(name for name, row in TRAITS.items() if row.own_files)
"""Engines that multiply quantized weights in 8-bit integers."""
GRAPH_REPLAYING = frozenset(name for name, row in TRAITS.items() if row.captured_graphs)
"""Engines that record decode steps as CUDA graphs and launch passes with prompts kernel by kernel (`lib.laws.forward_pass.step_time`)."""
MAX_NUM_SEQS: dict[str, int] = {
    **dict.fromkeys(ENGINES, 256),
    **{name: row.max_num_seqs for name, row in TRAITS.items()},
    "neuron": 16,
    "host": 128,
}
"""Sequences an engine runs at once by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Arrays of one entry, or with an entry per engine, card class or kernel (see `SIZES`).

    bandwidth, compute: logits of the share that is reached, and offsets of it. `bandwidth_cache`: offset for attention kernels that read
    the cache. `bandwidth_copy`: offset for copies (cache, unpacked weights). `rows_half`, `width_half`: ln of the rows and of the columns
    at which half of the compute is reached. launch: ln seconds of launch overhead per layer, step and sequence; `scheduling_s`: ln seconds
    between two steps of releases that schedule there; `prompt_layer_s`: per layer
    of a pass with prompts; `eager_kernel`: ln factor on the time of a layer where eager engines unpack a format; `launch_experts`: where
    there are experts. `all_reduce_s`: ln seconds of latency; `all_reduce_pcie`, `all_reduce_rows`: ln factors over PCIe and for a split by
    rows; `link_share`: ln of the share of the link that is reached. `attention`: offset for attention kernels over prompts.
    `chunked_prefill`, `prefill_queue`, `bunched`, `steps_waited`, `ttft_fixed_s`, `request_s`: ln of the symbols ι, q, φ, κ, τ of
    `lib.laws.serving` and of the fixed time of a request. `full_load`: ln factor.
    """

    bandwidth: Array
    bandwidth_engine: Array
    bandwidth_class: Array
    bandwidth_kernel: Array
    bandwidth_cache: Array
    bandwidth_copy: Array
    compute: Array
    compute_engine: Array
    compute_class: Array
    compute_kernel: Array
    width_half: Array
    rows_half: Array
    rows_half_class: Array
    launch_layer_s: Array
    launch_step_s: Array
    scheduling_s: Array
    launch_sequence_s: Array
    prompt_layer_s: Array
    eager_kernel: Array
    launch_experts: Array
    all_reduce_s: Array
    all_reduce_pcie: Array
    all_reduce_rows: Array
    link_share: Array
    link_share_pcie: Array
    attention: Array
    attention_engine: Array
    attention_class: Array
    chunked_prefill: Array
    prefill_queue: Array
    bunched: Array
    steps_waited: Array
    ttft_fixed_s: Array
    request_s: Array
    full_load: Array


_BY_ENGINE = {"launch_layer_s", "launch_step_s", "launch_sequence_s", "prompt_layer_s", "ttft_fixed_s", "request_s"}
_LENGTHS = {"engine": len(ENGINES), "class": len(CLASSES), "kernel": len(KERNELS)}
SIZES = {f.name: len(ENGINES) if f.name in _BY_ENGINE else _LENGTHS.get(f.name.rsplit("_", 1)[-1], 1) for f in fields(Constants)}
"""Entries of each array."""

DATA = Path(__file__).parent.parent / "data" / "speed_constants.json"
KEYS = {
    "bandwidth_kernel": "bandwidth_form", "bandwidth_cache": "cache", "compute_kernel": "compute_form", "launch_layer_s": "layer_s",
    "launch_step_s": "step_s", "launch_sequence_s": "sequence_s", "eager_kernel": "eager_form", "launch_experts": "experts_host",
    "all_reduce_s": "exchange_s", "all_reduce_pcie": "exchange_bus", "all_reduce_rows": "exchange_rows", "link_share": "exchange_share",
    "chunked_prefill": "interruption", "prefill_queue": "queued", "ttft_fixed_s": "first_s", "ttft": "first", "tpot": "between",
}  # fmt: skip
"""Names in the file where they differ from those of the code: a file of constants outlives the names."""
QUANTITIES = ("ttft", "tpot", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The constants with their evidence.

    `spread` holds, by quantity and engine, the half-width of a range in ln: 85 % of the measurements that were left out of the fit differ
    by no more. `measured` holds the pairs of engine and card class of which there were measurements. `pictures` are the facts about
    diffusion pipelines (`lib.speed.diffusion`). `errors` are the tables of the fit.
    """

    constants: Constants
    spread: dict[str, dict[str, float]]
    measured: frozenset[tuple[str, str]]
    pictures: dict[str, Any]
    errors: dict[str, dict[str, float]]
    source: str
    checked: str


def _array(name: str, numbers: object) -> Array:
    values = np.array(numbers, dtype=np.float64)
    if values.shape != (SIZES[name],) or not np.isfinite(values).all():
        key = KEYS.get(name, name)
        raise BadCatalog(f"speed_constants.json: '{key}' does not hold {SIZES[name]} numbers. Run scripts/calibrate.py again.")
    return values


def read_calibration(data: Mapping[str, Any]) -> Calibration:
    """The content of the file.

    Raises:
        BadCatalog: it was written for other engines, classes or kernels, or a number is missing.
    """
    if (tuple(data.get("engines", ())), tuple(data.get("classes", ())), tuple(data.get("forms", ()))) != (ENGINES, CLASSES, KERNELS):
        raise BadCatalog(
            "speed_constants.json: it names other engines, card classes or formats than the code. Run scripts/calibrate.py again."
        )
    try:
        spread = {quantity: data["spread"][KEYS.get(quantity, quantity)] for quantity in QUANTITIES}
        return Calibration(
            constants=Constants(**{name: _array(name, data["constants"][KEYS.get(name, name)]) for name in SIZES}),
            spread={quantity: {engine: float(widths[engine]) for engine in ENGINES} for quantity, widths in spread.items()},
            measured=frozenset((engine, group) for engine, group in data["measured"]),
            pictures=dict(data["pictures"]),
            errors={name: dict(row) for name, row in data["errors"].items()},
            source=str(data["source"]),
            checked=str(data["checked"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadCatalog(f"speed_constants.json: {type(error).__name__}: {error}. Run scripts/calibrate.py again.") from None


@lru_cache(maxsize=1)
def load_calibration() -> Calibration:
    """The bundled constants, read at the first call."""
    return read_calibration(json.loads(DATA.read_text(encoding="utf-8")))
