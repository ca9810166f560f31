"""Times that a server states of itself: a Prometheus text of vLLM or TGI, or the JSON of a benchmark.

It comes from outside, so it is bounded. Means are sums over counts since the server started, all models together; `vllm bench serve
--save-result` and its kin write means in ms. Names: vllm v1/metrics/loggers.py; text-generation-inference
docs/source/reference/metrics.md; read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lib.errors import BadArgument, UnreadableJson, read_json

MAX_TEXT = 2_000_000  # characters
LONGEST_MS = 86_400_000  # a day: no mean of a request is longer
MOST_AT_ONCE = 100_000
_MOST_NODES = 200_000
_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,199})(\{[^{}]{0,2000}\})?[ \t]+([0-9eE+.\-]{1,40})(?:[ \t]+[0-9]{1,20})?[ \t]*", re.ASCII)
_ACCEPTED = "the text of a vLLM or TGI server's /metrics, or the JSON that vllm bench serve saves"
Origin = Literal["vllm", "tgi", "benchmark", "stated"]
_VLLM: Mapping[str, tuple[str, ...]] = {
    "ttft_ms": ("vllm:time_to_first_token_seconds",),
    "tpot_ms": ("vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    "queue_ms": ("vllm:request_queue_time_seconds",),
    "prompt_tokens": ("vllm:request_prompt_tokens",),
    "output_tokens": ("vllm:request_generation_tokens",),
}
_TGI: Mapping[str, tuple[str, ...]] = {
    "tpot_ms": ("tgi_request_mean_time_per_token_duration",),
    "queue_ms": ("tgi_request_queue_duration",),
    "preprocess_ms": ("tgi_request_validation_duration",),
    "prompt_tokens": ("tgi_request_input_length",),
    "output_tokens": ("tgi_request_generated_tokens",),
}
_COUNTERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {"vllm": _VLLM, "tgi": _TGI}
"""Names of a server's histograms, by the time that they count; means of all its requests since it was started."""
_TGI_PREFILL = 'tgi_batch_inference_duration{method="prefill"}'
_BENCHMARK: Mapping[str, tuple[str, ...]] = {
    "ttft_ms": ("mean_ttft_ms", "median_ttft_ms"),
    "tpot_ms": ("mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"),
    "concurrency": ("max_concurrency",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Means of a request, in ms; 0 if a time was not measured. `ttft_ms` begins when the server has the request, its queue included.

    Tokens and requests at a time are None if nothing tells them.
    """

    preprocess_ms: float = 0.0
    queue_ms: float = 0.0
    transfer_ms: float = 0.0
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    postprocess_ms: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    origin: Origin = "stated"

    @property
    def since_start(self) -> bool:
        """Whether the times are means of all requests since the server was started."""
        return self.origin in _COUNTERS

    @property
    def sums_first_token(self) -> bool:
        """Whether the server has no counter of `ttft_ms`, which is then a sum of parts."""
        return self.since_start and "ttft_ms" not in _COUNTERS[self.origin]


def read_metrics(text: str) -> MeasuredTimes:
    """The times in a text."""
    if len(text) > MAX_TEXT:
        raise BadArgument("metrics_text", f"{len(text):,} characters", f"{_ACCEPTED}, at most {MAX_TEXT:,} characters")
    read = _benchmark(text) if text.lstrip().startswith(("{", "[")) else _prometheus(text)
    if read is None or not (read.ttft_ms or read.tpot_ms or read.queue_ms):
        raise BadArgument("metrics_text", text[:40], _ACCEPTED)
    for name in ("preprocess_ms", "queue_ms", "ttft_ms", "tpot_ms"):
        if getattr(read, name) > LONGEST_MS:
            raise BadArgument("metrics_text", f"{name}: {getattr(read, name):.3g}", f"means of at most a day ({LONGEST_MS:,} ms)")
    if read.concurrency is not None and read.concurrency > MOST_AT_ONCE:
        raise BadArgument("metrics_text", f"{read.concurrency:,} requests at a time", f"at most {MOST_AT_ONCE:,}")
    return read


def _prometheus(text: str) -> MeasuredTimes | None:
    """Sums and counts of the histograms; labels are summed over, but for the method of TGI's batches."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line)
        if sample is None:  # comments, NaN, and what is no sample
            continue
        name, labels, written = sample.groups()
        try:
            value = float(written)
        except ValueError:
            continue
        if not 0 <= value < 1e18:  # noqa: PLR2004  negative, infinite, or longer than any time
            continue
        method = '{method="prefill"}' if labels and 'method="prefill"' in labels else ""
        values[name + method] = values.get(name + method, 0.0) + value
    vllm = any(name.startswith("vllm:") for name in values)
    if not vllm and not any(name.startswith("tgi_") for name in values):
        return None
    figures = {field: _mean(values, names) for field, names in (_VLLM if vllm else _TGI).items()}
    running = values.get("vllm:num_requests_running" if vllm else "tgi_batch_current_size", 0.0)
    first_s = figures["ttft_ms"] if vllm else _mean(values, (_TGI_PREFILL,))
    return MeasuredTimes(
        preprocess_ms=_ms(figures.get("preprocess_ms")),
        queue_ms=_ms(figures["queue_ms"]),
        ttft_ms=_ms(first_s) + (0.0 if vllm else _ms(figures["queue_ms"])),
        tpot_ms=_ms(figures["tpot_ms"]),
        prompt_tokens=_count(figures["prompt_tokens"]),
        output_tokens=_count(figures["output_tokens"]),
        concurrency=_count(running),
        origin="vllm" if vllm else "tgi",
    )


def _mean(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Sum over count of the first of these histograms that counted anything; their parts may carry a method."""
    for name in names:
        base, _, method = name.partition("{")
        suffix = "{" + method if method else ""
        total, count = values.get(f"{base}_sum{suffix}"), values.get(f"{base}_count{suffix}")
        if total is not None and count:
            return total / count
    return None


def _ms(seconds: float | None) -> float:
    return 0.0 if seconds is None else seconds * 1e3


def _count(value: float | None) -> int | None:
    return None if value is None or not 1 <= value <= 1e8 else round(value)  # noqa: PLR2004  tokens of a request, requests at a time


def _benchmark(text: str) -> MeasuredTimes | None:
    try:
        read = read_json(text.encode("utf-8", "replace"), _MOST_NODES)
    except UnreadableJson as error:
        raise BadArgument("metrics_text", text[:40], f"{_ACCEPTED}; {error}") from None
    if isinstance(read, list):
        read = read[-1] if read else {}
    if not isinstance(read, dict):
        return None
    figures = {field: next((value for name in names if (value := _plain(read, name))), 0.0) for field, names in _BENCHMARK.items()}
    completed = _plain(read, "completed")
    tokens = {
        field: _count(total / completed) if completed and (total := _plain(read, name)) else None
        for field, name in (("prompt_tokens", "total_input_tokens"), ("output_tokens", "total_output_tokens"))
    }
    return MeasuredTimes(
        ttft_ms=figures["ttft_ms"],
        tpot_ms=figures["tpot_ms"],
        concurrency=_count(figures["concurrency"]),
        prompt_tokens=tokens["prompt_tokens"],
        output_tokens=tokens["output_tokens"],
        origin="benchmark",
    )


def _plain(read: Mapping[str, Any], name: str) -> float:
    """A number of the JSON; 0 if it is missing or null."""
    value = read.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:  # noqa: PLR2004  more is no time
        raise BadArgument("metrics_text", f"{name}: {value!s:.40}", f"a number from 0 on for {name}")
    return float(value)
