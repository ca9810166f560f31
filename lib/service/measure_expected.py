"""What is known of a measurement before it: the prediction for exactly that run, and the memory it needs beside what is free."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from lib.answers.common import SCHEMA, Answer
from lib.answers.live import RunEnd, RunFigures
from lib.live.limits import room
from lib.provenance import Source
from lib.service.measure_case import Case
from lib.service.wire import caveat_entries, source_entries


class ExpectedAnswer(Answer):
    """The run that would be measured. `need_bytes` is all that it takes, `allowed_bytes` what it may take of the `free_bytes`."""

    model: str
    architecture: str
    device: str
    device_kind: str
    precision: str
    prompt_tokens: int
    output_tokens: int
    predicted: RunFigures
    low: RunEnd
    high: RunEnd
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    need_bytes: int
    allowed_bytes: int
    free_bytes: int
    limit_s: float


class ExpectedQuestion:
    """Foresees a measurement without starting it."""

    def __init__(self, case: Callable[[object, object, object, object], Case]) -> None:
        """`case` checks the question and prepares the run, as the measurement itself does."""
        self._case = case

    def expected(self, model: str, prompt_tokens: int = 512, output_tokens: int = 64, precision: str = "bf16") -> ExpectedAnswer:
        """What is predicted of this run on the device at hand.

        Raises:
            AdvisorError: whatever the measurement would refuse before it starts, in the same words.
        """
        case = self._case(model, prompt_tokens, output_tokens, precision)
        run, said, need = case.run, case.expected, case.need
        first, rate = said.ttft_s, said.decode_tokens_per_s
        seen = Source(what="free memory", source=f"looked at on {run.device.name}", checked=datetime.now(UTC).date().isoformat())
        return {
            "schema": SCHEMA,
            "model": run.spec.id,
            "architecture": run.spec.architecture,
            "device": run.device.name,
            "device_kind": run.device.kind,
            "precision": run.precision,
            "prompt_tokens": run.prompt_tokens,
            "output_tokens": run.output_tokens,
            "predicted": {
                "peak_bytes": said.peak_bytes,
                "ttft_s": first.value if first else None,
                "decode_tokens_per_s": rate.value if rate else None,
            },
            "low": {"ttft_s": first.low if first else None, "decode_tokens_per_s": rate.low if rate else None},
            "high": {"ttft_s": first.high if first else None, "decode_tokens_per_s": rate.high if rate else None},
            "weights_bytes": said.weights_bytes,
            "kv_cache_bytes": said.kv_cache_bytes,
            "activation_bytes": said.activation_bytes,
            "runtime_bytes": need.runtime_bytes,
            "need_bytes": need.total_bytes,
            "allowed_bytes": room(run.device),
            "free_bytes": run.device.free_bytes,
            "limit_s": case.ask.limit_s,
            "caveats": caveat_entries(said.caveats),
            "sources": source_entries((seen, *said.sources)),
        }
