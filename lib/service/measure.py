"""`/measure`: any architecture with random weights on the device at hand, beside the prediction for exactly this run.

What is known of a measurement before it: the prediction for exactly that run, and the memory it needs beside what is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import ExpectedAnswer, MeasureAnswer, MeasureStage
from lib.catalog import Catalog
from lib.errors import UnsupportedModel
from lib.live import measure_process
from lib.live.device import Device, current_device
from lib.live.limits import DeviceRates, device_rates, usable_bytes
from lib.live.measure import MeasuredRun, MeasureRequest, Stage
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries
from lib.provenance import Source
from lib.service import arguments
from lib.service.measure_report import measure_answer
from lib.service.models import Models
from lib.service.run_prediction import Case, Run, prepare
from lib.service.speed import run_end

MAX_PROMPT, MAX_OUTPUT = 1_048_576, 4_096
PRECISIONS = ("fp32", "fp16", "bf16")

Running = Callable[[MeasureRequest, Device], Iterator[Stage | MeasuredRun]]


class Recording(Protocol):
    """Where a finished run is written down."""

    def __call__(self, spec: ModelSpec, device: Device, figures: Mapping[str, Any], **run: Any) -> None:
        """Write it; never fails the run."""


class MeasureQuestion:
    """Measures architectures on the device at hand."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Models,
        run: Running = measure_process.run_measurement,
        device: Callable[..., Device] | None = None,
        record: Recording | None = None,
        placed: Callable[[], int] = lambda: 0,
        pace: Callable[[Device, str], DeviceRates | None] = device_rates,
    ) -> None:
        """`run` measures where the device is; `record` is told of every finished run; `pace` tells what a processor reaches.

        `device(size)` tells what is at hand, by default what `catalog()` makes of this machine; `placed` the bytes of other models that
        ZeroGPU moves to the device before a run.
        """
        self._catalog, self._models, self._run, self._record = catalog, models, run, record
        self._device = device or (lambda size="large": current_device(catalog(), size))
        self._placed, self._pace = placed, pace

    def measure(self, model: str, prompt_tokens: int = 512, output_tokens: int = 64, precision: str = "bf16") -> MeasureAnswer:
        """Run any architecture with random weights on this device: peak memory, first token, tokens per second, beside the prediction.

        Args:
            model: a Hub id or the text of a config.json; only its configuration is read, no weights
            prompt_tokens: tokens of the prompt
            output_tokens: tokens to write
            precision: fp32, fp16 or bf16

        Returns:
            What was measured, what was predicted for exactly this run, and how far apart they are.
        """
        *_, answer = self.measuring(model, prompt_tokens, output_tokens, precision)
        return cast("MeasureAnswer", answer)  # the last item, as `measuring` says

    def measuring(
        self, model: str, prompt_tokens: int = 512, output_tokens: int = 64, precision: str = "bf16"
    ) -> Iterator[MeasureStage | MeasureAnswer]:
        """`measure` as it goes: what is being done, and as the last item the answer. Closing it ends the run.

        Raises:
            InvalidInput: an argument is wrong.
            UnsupportedModel: it is no architecture of transformers that can be built here.
            DoesNotFit: found beforehand, with the arithmetic.
            TooLong: found beforehand, with the arithmetic.
            LiveError: the device did not do it.
        """
        case = self.case(model, prompt_tokens, output_tokens, precision)
        for item in self._run(case.ask, case.run.device):
            if not isinstance(item, MeasuredRun):
                yield {"stage": item}
                continue
            answer = measure_answer(case, item, self._catalog())
            if self._record is not None and answer["verdict"]["code"] != "invalid":
                sizes = {"prompt_tokens": case.run.prompt_tokens, "output_tokens": case.run.output_tokens}
                self._record(case.run.spec, case.run.device, answer, kind="measure", precision=case.run.precision, **sizes)
            yield answer

    def case(self, model: object, prompt_tokens: object, output_tokens: object, precision: object) -> Case:
        """The question checked, and all that is known before the run.

        Raises:
            AdvisorError: whatever is refused before a run.
        """
        prompt = arguments.whole("prompt_tokens", prompt_tokens, 1, MAX_PROMPT)
        output = arguments.whole("output_tokens", output_tokens, 1, MAX_OUTPUT)
        wanted = arguments.choice("precision", precision, PRECISIONS)
        config, spec = self._models.config(model), self._models(model)
        if spec.library != "transformers":
            raise UnsupportedModel(
                f"{spec.id or 'This'} is a pipeline that makes pictures. Only single architectures of transformers are measured; "
                "its memory and speed are estimated on the other tabs."
            )
        device = self._device()
        run = Run(spec=spec, precision=wanted, device=device, prompt_tokens=prompt, output_tokens=output, pace=self._pace(device, wanted))
        return prepare(run, config, self._catalog(), self._device, self._placed())


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
            "predicted": {"peak_bytes": said.peak_bytes, **run_end(said.speed, "value")},
            "low": run_end(said.speed, "low"),
            "high": run_end(said.speed, "high"),
            "weights_bytes": said.weights_bytes,
            "kv_cache_bytes": said.kv_cache_bytes,
            "activation_bytes": said.activation_bytes,
            "runtime_bytes": need.runtime_bytes,
            "need_bytes": need.total_bytes,
            "allowed_bytes": usable_bytes(run.device),
            "free_bytes": run.device.free_bytes,
            "limit_s": case.ask.limit_s,
            "caveats": caveat_entries(said.caveats),
            "sources": source_entries((seen, *said.sources)),
        }
