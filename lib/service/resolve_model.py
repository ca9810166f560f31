"""`/resolve_model` and `/tensors`: what a model is, and each of its tensors with its bytes in one precision."""

from __future__ import annotations

from lib import memory
from lib.answers.common import SCHEMA, source_entries
from lib.answers.model import CacheEntry, ModelAnswer, QuantizationEntry, TensorsAnswer
from lib.errors import BadArgument
from lib.laws.weights import weight_bytes
from lib.memory import estimate_memory
from lib.model.spec import CacheTerm, ModelSpec, Quantization
from lib.precision import weight_format
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat
from lib.service.arguments import Arguments, Engine, Model, Precision, Quantized
from lib.service.endpoint import App
from lib.workload import MemoryRequest, PipelineRequest


class ModelArguments(Arguments):
    """Arguments of `/resolve_model`."""

    model: Model


def resolve_model(app: App, arguments: ModelArguments) -> ModelAnswer:
    """What a model is: parameters, weights as stored, layer kinds, what each kind caches, limits.

    Returns:
        The resolved model.
    """
    return model_answer(app.models(arguments.model))


def model_answer(spec: ModelSpec) -> ModelAnswer:
    """A resolved model; `weights_bytes` is what it holds when loaded as it is stored."""
    loaded = estimate_memory(spec, MemoryRequest(context_tokens=1))
    by_dtype = _by_dtype(spec, loaded.weights.bytes, loaded.precision)
    unstated = [caveat for caveat in loaded.caveats if caveat.code == "dtype_unstated"]
    return {
        "schema": SCHEMA,
        "id": spec.id,
        "architecture": spec.architecture,
        "model_type": spec.model_type,
        "library": spec.library,
        "media": [*(["images"] if spec.vision else []), *(["sound"] if spec.sound else [])],
        "task": spec.task,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "parameters_by_component": spec.parameters_by_component,
        "weights_bytes": loaded.weights.bytes,
        "weights_bytes_by_dtype": by_dtype,
        "weights_bytes_by_component": dict(spec.stored.bytes_by_component or loaded.weights.details),
        "quantization": _quantization_entry(spec.stored.quantization),
        "context_limit_tokens": spec.context_limit,
        "layer_kinds": dict(spec.layer_kinds),
        "cache": [_cache_entry(term) for term in spec.cache_terms or ()],
        "license": spec.license,
        "gated": spec.gated,
        "source": spec.source,
        "gguf_files": [{"model": f"{spec.id.partition(':')[0]}:{label}", "bytes": size} for label, size in spec.gguf_files],
        "caveats": caveat_entries((*spec.caveats, *unstated, *_differs(sum(by_dtype.values()), loaded.weights.bytes))),
        "sources": source_entries(spec.sources),
    }


def _cache_entry(term: CacheTerm) -> CacheEntry:
    return {
        "kind": term.kind,
        "holds": term.holds,
        "layers": term.layers,
        "elements": term.elements,
        "growth": term.growth,
        "span": term.span,
        "dtype": term.dtype,
    }


def _quantization_entry(quantization: Quantization | None) -> QuantizationEntry | None:
    if quantization is None:
        return None
    return {"method": quantization.method, "format": quantization.format, "group_size": quantization.group_size}


def _by_dtype(spec: ModelSpec, loaded: int, precision: str) -> dict[str, int]:
    """The weights by the dtype they lie in: as the headers list them, else as the law of their format gives them.

    Keys are safetensors' words ("BF16"), or the format's name where a format packs payload and scales together.
    """
    if spec.stored.bytes_by_dtype:
        return dict(spec.stored.bytes_by_dtype)
    form = weight_format(precision)
    if form.law != "plain":
        return {precision: loaded}
    whole = weight_bytes([g for g in spec.tensors if g.fp32 or (g.fp32_in_fp16 and precision == "fp16")], weight_format("fp32"))
    name = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}[precision]
    if name == "F32" or not whole:
        return {name: loaded}
    return {name: loaded - whole, "F32": whole}


def _differs(stored: int, loaded: int) -> tuple[Caveat, ...]:
    if stored == loaded:
        return ()
    return (Caveat("stored_bytes_differ", {"stored_bytes": stored, "loaded_bytes": loaded}),)


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
