"""`/tensors`: every tensor of a model with its bytes in one precision."""

from __future__ import annotations

from lib import memory
from lib.answers.common import SCHEMA, source_entries
from lib.answers.model import TensorsAnswer
from lib.errors import BadArgument
from lib.present.sentences import caveat_entries
from lib.service.arguments import Arguments, Engine, Model, Precision, Quantized
from lib.service.endpoint import App
from lib.workload import MemoryRequest, PipelineRequest


class TensorsArguments(Arguments):
    """Arguments of `/tensors`."""

    model: Model
    precision: Precision = "auto"
    engine: Engine = "transformers"
    quantized: Quantized = "all"


def tensors(app: App, arguments: TensorsArguments) -> TensorsAnswer:
    """Where the bytes of a model's weights are: its tensors by component, block and name, in the asked precision, on one device.

    Returns:
        The tensors, the largest first; their bytes add up to the weights of `/estimate_memory`.
    """
    spec = app.models(arguments.model)
    if not spec.tensors:
        raise BadArgument("model", arguments.model, "a Hub id or a config.json: a parameter count alone has no tensors")
    pictures = PipelineRequest(quantized=arguments.quantized)
    estimate = memory.estimate_memory(spec, MemoryRequest(precision=arguments.precision, engine=arguments.engine, pictures=pictures))
    sizes, total = estimate.of.tensor_bytes, estimate.weights_bytes
    pairs = sorted(zip(spec.tensors, sizes, strict=True), key=lambda pair: (-pair[1], pair[0].component, pair[0].name))
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "precision": estimate.precision,
        "engine": estimate.engine,
        "parameters_total": spec.parameters_total,
        "weights_bytes": total,
        "tensors": [
            {
                "component": group.component,
                "block": group.block,
                "kind": group.kind,
                "name": group.name,
                "shape": list(group.shape),
                "count": group.count,
                "parameters": group.parameters,
                "bytes": size,
                "share": round(size / total, 6) if total else 0.0,
            }
            for group, size in pairs
        ],
        "caveats": caveat_entries(spec.caveats),
        "sources": source_entries((*spec.sources, *estimate.sources[:1])),
    }
