"""What the live questions answer, contract-shaped and fixed: the tab is tested without a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import measured_row

from lib.answers.live import (
    ChatMetrics,
    ChatPiece,
    ChatPrediction,
    DeviceEntry,
    ErrorRatio,
    ExpectedAnswer,
    HeartbeatAnswer,
    MeasureAnswer,
    MeasurePrediction,
    RunEnd,
    RunFigures,
)
from lib.errors import AdvisorError
from lib.live.ledger import LedgerStatus
from lib.live.measurements import Measurement
from lib.provenance import Caveat, Source, StatementText
from lib.result import fields_of
from lib.service.measure import DefaultRun

GIB = 2**30
COMMON: dict[str, Any] = {
    "caveats": (Caveat("sdk_unknown", {"space": "a <typical> one"}),),
    "sources": (Source(what="measured here", source="this device", checked="2026-11-21"),),
}
NEED: dict[str, Any] = {
    "weights_bytes": GIB,
    "kv_cache_bytes": 10 * 2**20,
    "activation_bytes": 20 * 2**20,
    "runtime_bytes": GIB // 2,
}
VALUES: dict[str, Any] = {"ttft_s": 0.5, "decode_tokens_per_s": 12.5, "peak_bytes": GIB}
ENDS: dict[str, Any] = {"low": RunEnd(ttft_s=0.25, decode_tokens_per_s=10.0), "high": RunEnd(ttft_s=1.0, decode_tokens_per_s=20.0)}


def metrics(**changed: Any) -> ChatMetrics:
    """What an answer took: 0.4 s against 0.5 predicted is +25 %, 10 tokens/s against 12.5 likewise, memory exact."""
    ends = {name: RunFigures(peak_bytes=GIB, **fields_of(end)) for name, end in ENDS.items()}
    parts = {name: size for name, size in NEED.items() if name != "runtime_bytes"}
    took = ChatMetrics(
        ttft_s=0.4,
        decode_tokens_per_s=10.0,
        peak_bytes=GIB,
        peak_of="weights_and_growth",
        device="Some <Processor>",
        model="tiny-instruct",
        precision="fp32",
        prompt_tokens=20,
        output_tokens=8,
        stopped="limit",
        predicted=ChatPrediction(**VALUES, **parts, **ends),
        error_ratio=ErrorRatio(ttft_s=0.25, decode_tokens_per_s=0.25, peak_bytes=0.0),
    )
    return replace(took, **changed)


def piece(stage: str, text: str = "", note: str = "", taken: ChatMetrics | None = None) -> ChatPiece:
    """A piece of an answer."""
    return ChatPiece(**COMMON, stage=stage, text=text, note=note, metrics=taken)


def make_measurement(**changed: Any) -> MeasureAnswer:
    """A finished measurement: the peak was predicted 4 % too low, the speed is exact."""
    device = DeviceEntry(
        kind="cpu", name="Some <Processor>", accelerator=None, memory_bytes=16 * GIB, cores=2, driver=None, torch="2.13.0",
        transformers="5.23.0",
    )  # fmt: skip
    measured = MeasureAnswer(
        **COMMON,
        model="Qwen/Qwen3-0.6B",
        architecture="Qwen3ForCausalLM",
        device=device.name,
        device_details=device,
        weights="random",
        precision="bf16",
        attention="sdpa",
        prompt_tokens=512,
        output_tokens=64,
        peak_bytes=1_118_481_067,  # GIB / 0.96
        weights_bytes=GIB,
        before_bytes=400 * 2**20,
        reserved_bytes=None,
        ttft_s=0.5,
        decode_tokens_per_s=12.5,
        mean_tokens_per_s=12.4,
        weights_s=1.5,
        predicted=MeasurePrediction(**VALUES, **NEED, **ENDS, hardware=None),
        error_ratio=ErrorRatio(ttft_s=0.0, decode_tokens_per_s=0.0, peak_bytes=-0.04),
        verdict=StatementText(code="confirmed", message="Memory: predicted 4.0% less than was measured."),
    )
    return replace(measured, **changed)


def make_prediction(**changed: Any) -> ExpectedAnswer:
    """A run before it."""
    expected = ExpectedAnswer(
        **COMMON,
        model="Qwen/Qwen3-0.6B",
        architecture="Qwen3ForCausalLM",
        device="Some <Processor>",
        device_kind="cpu",
        precision="bf16",
        prompt_tokens=512,
        output_tokens=64,
        predicted=RunFigures(**VALUES),
        **ENDS,
        **NEED,
        need_bytes=sum(NEED.values()),
        allowed_bytes=9 * GIB,
        free_bytes=10 * GIB,
        limit_s=120.0,
    )
    return replace(expected, **changed)


def beat(*, valid: bool = True) -> HeartbeatAnswer:
    """A heartbeat of the usual case: 17.2 GFLOP in 40 ms are 430 GFLOP/s; the floor of 10 ms is a fourth of it."""
    why = Caveat("beats_the_floor", {"shortest_ms": 0.0056, "moved_mb": 268.0, "gb_per_s": 1640.0, "memory_ms": 0.164})
    return HeartbeatAnswer(
        caveats=() if valid else (why,),
        device="Some <Processor>",
        device_kind="cpu",
        accelerator=None,
        dtype="float32",
        batch=128,
        hidden=4096,
        intermediate=16384,
        iterations=100,
        warmup=5,
        mean_s=0.041,
        median_s=0.04 if valid else 5.6e-6,
        p95_s=0.05,
        min_s=0.03 if valid else 5.6e-6,
        cold_first_s=0.2,
        flops=17_179_869_184,
        weight_bytes=268_435_456,
        moved_bytes=278_921_216,
        achieved_flops_per_s=4.295e11,
        floor_s=0.01 if valid else 1.64e-4,
        floor_memory_s=0.01,
        floor_compute_s=None,
        bound="bandwidth",
        efficiency=0.25 if valid else None,
        valid=valid,
        bandwidth_bytes_per_s=2.789e10,
        peak_flops_per_s=None,
        driver=None,
        torch="2.13.0",
    )


def row(**changed: Any) -> Measurement:
    """A row of the ledger: 1 GiB measured, 5 % more predicted."""
    figures = {"peak_bytes": GIB, "predicted_peak_bytes": round(1.05 * GIB), "predicted_ttft_s": 0.05, "ttft_s": 0.04}
    return measured_row.row(**figures | {"predicted_decode_tokens_per_s": 90.0, "decode_tokens_per_s": 90.0} | changed)


class FakeLedger:
    """Rows that were put there."""

    def __init__(self, rows: list[Measurement]) -> None:
        self.measurements = rows
        self.refusal: AdvisorError | None = None

    def rows(self) -> list[Measurement]:
        return self.measurements

    def status(self) -> LedgerStatus:
        count = len(self.measurements)
        return LedgerStatus(place="a file", lasting=True, rows=count, own_rows=count, problem=None, copied="Rows are not copied.")

    def export(self, form: str) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        return f"the rows as {form}".encode()


class FakeLive:
    """Plays what it was given: items are told, exceptions raised. `questions` records questions, `ended` counts runs that are over."""

    def __init__(self, *items: Any, rows: list[Measurement] | None = None) -> None:
        self.items = items
        self.questions: list[tuple[Any, ...]] = []
        self.ended = 0
        self.ledger = FakeLedger(rows or [])
        self.chat = self._play_items
        self.stream_measurement = self._play_items
        self.stream_heartbeat = self._play_items
        self.predict_measurement: Callable[..., Any] = lambda *_: make_prediction()
        self.suggest_measurement = lambda *_: "small/one"
        self.recommend: Callable[..., Any] = lambda *_, **__: SimpleNamespace(ranked=(), rejected=())
        self.default_measurement: Callable[..., Any] = lambda *asked: DefaultRun(
            model=asked[0], prompt_tokens=asked[1], output_tokens=asked[2], seconds=4.0, changed=False
        )

    def _play_items(self, *asked: Any, **named: Any) -> Iterator[Any]:
        self.questions.append((*asked, *named.items()))
        try:
            for item in self.items:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.ended += 1


class FakeServices:
    """Services of which only the live questions are asked."""

    def __init__(self, *items: Any, rows: list[Measurement] | None = None) -> None:
        self.live = FakeLive(*items, rows=rows)
        self.ledger = self.live.ledger

    def __getitem__(self, question: Callable[..., Any]) -> Callable[..., Any]:
        asked: Callable[..., Any] = getattr(self.live, question.__name__)
        return asked
