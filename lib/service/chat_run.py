"""One answer beside its prediction: how long it may take, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lib.answers.common import SCHEMA
from lib.answers.live import ChatMetrics, ChatPiece, ChatResultsRunFigures, RunPrediction
from lib.errors import AdvisorError
from lib.live.chat import Piece, Taken
from lib.live.demo import Loaded
from lib.live.device import Device
from lib.provenance import Caveat, Source
from lib.service.predicted import Predicted, Run, predicted, ratio
from lib.service.wire import caveat_entries, source_entries

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.live.pace import Pace
    from lib.service.models import Models
    from lib.speed import Band

ANSWER_S = 120.0
"""An answer on hardware of one's own ends here: others wait for the same device."""

UNKNOWN_S, LEAST_S, SLACK = 60.0, 5.0, 1.5
"""Asked of ZeroGPU: what the prediction's slow end says, and half as much again; where nothing is predicted, the platform's own default."""

PEAK_SOURCES = {
    "allocator": "torch.cuda.max_memory_allocated",
    "weights_and_growth": "bytes of the loaded weights + growth of the resident set",
}
CPU_PEAK = Caveat(
    code="peak_from_resident_set",
    message="On a CPU nothing counts a model's memory by itself: the peak is the weights as loaded and what the app's process grew by "
    "while it answered, whatever else it did meanwhile included.",
)
TOO_SHORT = Caveat(code="too_short_for_speed", message="One token is too few for a speed: decode_tokens_per_s needs two.")
TIME_UP = Caveat(code="time_limit", message="The answer was ended because its time was up; what is there was written until then.")


class Exactly:
    """One run and its prediction: before, of the longest answer; afterwards, of the answer as it was."""

    def __init__(
        self, *, catalog: Catalog, models: Models, loaded: Loaded, device: Device, prompt_tokens: int, limit: int, pace: Pace | None = None
    ) -> None:
        """Predict from `catalog`; the model is the bundled one where that is it, else what its own config says.

        `pace` is what a processor was seen to reach, before the answer.
        """
        self._catalog, self._models, self._loaded, self._device = catalog, models, loaded, device
        self._prompt_tokens, self._limit, self._pace = prompt_tokens, limit, pace
        self._unknown: tuple[Caveat, ...] = ()

    def predicted(self, output_tokens: int) -> Predicted | None:
        """What the laws say, None where they say nothing; then a caveat says why."""
        loaded = self._loaded
        try:
            spec = self._models(loaded.name if loaded.name in self._models.bundled else loaded.config_text)
            run = Run(
                spec=spec,
                precision=loaded.precision,
                device=self._device,
                prompt_tokens=self._prompt_tokens,
                output_tokens=max(1, output_tokens),
                pace=self._pace,
            )
            return predicted(run, self._catalog)
        except AdvisorError as error:
            self._unknown = (Caveat(code="not_predicted", message=f"This run was not predicted. {error}"),)
            return None

    def seconds(self) -> float:
        """Time that the answer may take."""
        if self._device.kind != "zerogpu":
            return ANSWER_S
        expected = self.predicted(self._limit)
        if expected is None or expected.ttft_s is None or expected.decode_tokens_per_s is None:
            return UNKNOWN_S
        slow = expected.ttft_s.high + self._limit / expected.decode_tokens_per_s.low
        return min(ANSWER_S, max(LEAST_S, slow * SLACK))

    def ended(self, piece: Piece, taken: Taken, told: Sequence[Caveat]) -> ChatPiece:
        """The last item."""
        expected = self.predicted(taken.output_tokens)
        caveats = [
            *told,
            *([CPU_PEAK] if self._device.kind == "cpu" else []),
            *([TOO_SHORT] if taken.decode_tokens_per_s is None else []),
            *([TIME_UP] if taken.stopped == "stopped" else []),
            *self._unknown,
            *(expected.caveats if expected is not None else ()),
        ]
        sources = (self._measured(taken), *(expected.sources if expected is not None else ()))
        return item(piece, caveats, sources, self._metrics(taken, expected))

    def _measured(self, taken: Taken) -> Source:
        versions = f"torch {self._device.torch}, transformers {self._device.transformers}"
        today = datetime.now(tz=UTC).date().isoformat()
        return Source(what=f"measured here ({PEAK_SOURCES[taken.peak_of]})", source=f"{self._device.name}, {versions}", checked=today)

    def _metrics(self, taken: Taken, expected: Predicted | None) -> ChatMetrics:
        first, rate = (expected.ttft_s, expected.decode_tokens_per_s) if expected is not None else (None, None)
        return {
            "ttft_s": taken.ttft_s,
            "decode_tokens_per_s": taken.decode_tokens_per_s,
            "peak_bytes": taken.peak_bytes,
            "peak_of": taken.peak_of,
            "device": self._device.name,
            "model": self._loaded.name,
            "precision": self._loaded.precision,
            "prompt_tokens": taken.prompt_tokens,
            "output_tokens": taken.output_tokens,
            "stopped": taken.stopped,
            "predicted": _prediction(expected, on_cpu=self._device.kind == "cpu"),
            "error_ratio": {
                "ttft_s": ratio(first.value if first else None, taken.ttft_s),
                "decode_tokens_per_s": ratio(rate.value if rate else None, taken.decode_tokens_per_s),
                "peak_bytes": ratio(expected.peak_bytes if expected is not None else None, taken.peak_bytes),
            },
        }


def _prediction(found: Predicted | None, *, on_cpu: bool) -> RunPrediction:
    """The prediction as plain JSON.

    A cache grows by new copies of itself. On a GPU the allocator uses the freed ones again; in the memory of a process they may stay, so
    that the high end on a CPU has the cache twice.
    """
    first, rate = (found.ttft_s, found.decode_tokens_per_s) if found is not None else (None, None)

    def figures(end: Callable[[Band], float], copies: int = 0) -> ChatResultsRunFigures:
        return {
            "ttft_s": end(first) if first is not None else None,
            "decode_tokens_per_s": end(rate) if rate is not None else None,
            "peak_bytes": None if found is None else found.peak_bytes + copies * found.kv_cache_bytes,
        }

    return {
        **figures(lambda band: band.value),
        "weights_bytes": found.weights_bytes if found is not None else None,
        "kv_cache_bytes": found.kv_cache_bytes if found is not None else None,
        "activation_bytes": found.activation_bytes if found is not None else None,
        "low": figures(lambda band: band.low),
        "high": figures(lambda band: band.high, copies=1 if on_cpu else 0),
    }


def item(piece: Piece, caveats: Iterable[Caveat] = (), sources: Iterable[Source] = (), metrics: ChatMetrics | None = None) -> ChatPiece:
    """A piece as plain JSON."""
    return {
        "schema": SCHEMA,
        "stage": piece.stage,
        "text": piece.text,
        "note": piece.note,
        "metrics": metrics,
        "caveats": caveat_entries(caveats),
        "sources": source_entries(sources),
    }
