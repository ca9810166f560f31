"""Everything about a measurement that is known before it: the prediction, what it needs, and what it may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lib.catalog import Catalog
from lib.catalog.silicon import Accelerator
from lib.errors import BadArgument, TooLong
from lib.live.device import Device, hardware
from lib.live.limits import LIMIT_S, Need, check_memory, free_for, room
from lib.live.measure import Ask
from lib.live.pace import Work
from lib.live.zero import size_for
from lib.memory import MemoryEstimate, estimate_memory, fit_memory
from lib.model.spec import ModelSpec
from lib.service.predicted import WORKSPACE, Predicted, Run, predicted
from lib.workload import MemoryRequest

HALF = "bf16"
_SOUND_OR_PICTURE = frozenset({"automatic-speech-recognition", "image-to-text", "text-to-speech", "text-to-audio"})
_SPARE_S, _TIMES = 10.0, 3.0  # a prediction of speed may be this far off, and a GPU's process makes the weights first
_SMALLEST_CACHE = 1.1  # weights of a decoder, with cache and activations of a short prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run with its prediction, its need of memory, and the question to the device."""

    run: Run
    expected: Predicted
    need: Need
    ask: Ask


def prepare(run: Run, config: Mapping[str, Any], catalog: Catalog, device: Callable[..., Device], placed_bytes: int = 0) -> Case:
    """The case of a run; on ZeroGPU on the smallest size that holds it (`device(size)`), beside the `placed_bytes` that move in with it.

    Raises:
        BadArgument: longer than the model's own limit.
        DoesNotFit: with the arithmetic and what would fit.
        TooLong: on ZeroGPU, whose time is known before only from the prediction.
    """
    _check_length(run)
    expected, need = _expected(run, config, catalog)
    if run.device.kind == "zerogpu":
        card = device(size_for(free_for(need, run.device) + placed_bytes))
        run = replace(run, device=replace(card, free_bytes=max(0, card.free_bytes - placed_bytes)))
        expected, need = _expected(run, config, catalog)
    check_memory(need, run.device, _advice(run, config, need, catalog))
    ask = Ask(
        config=config,
        precision=run.precision,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        device=run.device.torch_name,
        work=_work(run, expected),
        limit_s=_limit_s(run, expected),
        need_bytes=free_for(need, run.device) + placed_bytes,
        placed_bytes=placed_bytes,
        memory_limit_bytes=run.device.free_bytes if run.device.kind == "cpu" else 0,
    )
    return Case(run=run, expected=expected, need=need, ask=ask)


def _check_length(run: Run) -> None:
    """Refuse what runs past the model's positions; the last token is written and never read."""
    limit, read = run.spec.context_limit, run.prompt_tokens
    if run.spec.cache_terms and not run.spec.dimensions.encoder_tokens:
        read += run.output_tokens - 1
    if limit is not None and read > limit:
        seen = f"{run.prompt_tokens:,} with output_tokens {run.output_tokens:,}"
        raise BadArgument("prompt_tokens", seen, f"at most {limit:,} tokens in all, the model's own limit")


def _silicon(run: Run, catalog: Catalog) -> Accelerator | None:
    found = hardware(run.device, catalog)
    if found is None:
        return None
    return found.silicon or getattr(found, "host_cpu", None) or catalog.accelerator("CPU-2vCPU")


def _at(run: Run, catalog: Catalog, tokens: int, encoder: int = 0) -> MemoryEstimate:
    request = MemoryRequest(precision=run.precision, engine="transformers", context_tokens=max(1, tokens), encoder_tokens=encoder)
    return estimate_memory(run.spec, request, _silicon(run, catalog))


def _expected(run: Run, config: Mapping[str, Any], catalog: Catalog) -> tuple[Predicted, Need]:
    """The prediction, and the same with the process's own memory.

    An encoder-decoder reads the prompt with its encoder and writes from a single token; where it listens or looks, one pass is run.
    """
    expected = predicted(run, catalog)
    now = _at(run, catalog, run.prompt_tokens)
    if config.get("is_encoder_decoder") is True:
        heard = run.spec.task in _SOUND_OR_PICTURE
        now = _at(run, catalog, 1) if heard else _at(run, catalog, run.output_tokens, run.prompt_tokens)
        expected = replace(
            expected,
            peak_bytes=now.weights.bytes + now.kv_cache.bytes + now.activation.bytes + now.runtime.details.get(WORKSPACE, 0),
            kv_cache_bytes=now.kv_cache.bytes,
            activation_bytes=now.activation.bytes,
        )
    need = Need(
        weights_bytes=expected.weights_bytes,
        kv_cache_bytes=expected.kv_cache_bytes,
        activation_bytes=expected.activation_bytes,
        runtime_bytes=now.runtime.bytes,
    )
    return expected, need


def _advice(run: Run, config: Mapping[str, Any], need: Need, catalog: Catalog) -> str:
    """What would fit: half the precision, a shorter prompt, a smaller model; the first that does."""
    allowed = room(run.device)
    if run.precision == "fp32":
        half = _expected(replace(run, precision=HALF), config, catalog)[1]
        if half.total_bytes <= allowed:
            return f"In bf16 it takes {half.total_bytes / 2**30:,.2f} GiB and fits."
    request = MemoryRequest(precision=run.precision, engine="transformers", context_tokens=run.prompt_tokens)
    longest = fit_memory(run.spec, request, allowed, _silicon(run, catalog)).max_context_tokens or 0
    if longest > run.output_tokens:
        return f"A prompt of {longest - run.output_tokens:,} tokens would fit."
    most = (allowed - need.runtime_bytes) / (2 * _SMALLEST_CACHE)
    return f"In bf16, a model of up to about {max(0.0, most) / 1e9:,.1f} billion parameters fits here. Name a smaller one."


def _work(run: Run, expected: Predicted) -> Work:
    spec = run.spec
    return Work(
        weights_bytes=expected.weights_bytes,
        parameters_per_token=spec.parameters_active,
        step_bytes=expected.weights_bytes * spec.parameters_active // max(1, spec.parameters_total) + expected.kv_cache_bytes,
        layers=spec.dimensions.layers,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens if _decodes(spec) else 0,
    )


def _decodes(spec: ModelSpec) -> bool:
    return bool(spec.cache_terms) or spec.unknown_cache


def _limit_s(run: Run, expected: Predicted) -> float:
    """Seconds that the run may be estimated to take. On ZeroGPU they are declared, and asked of the visitor's quota: no more than needed.

    Raises:
        TooLong: on ZeroGPU, more than a run may declare.
    """
    limit = LIMIT_S[run.device.kind]
    if run.device.kind != "zerogpu":
        return limit
    first = expected.ttft_s.value if expected.ttft_s else 0.0
    rate = expected.decode_tokens_per_s
    answer = run.output_tokens / rate.value if rate else 0.0
    wanted = _SPARE_S + _TIMES * (first + answer)
    if wanted > limit:
        raise TooLong(
            f"This run is predicted to take {first:,.1f} s for the prompt and {answer:,.1f} s for {run.output_tokens:,} tokens; declared "
            f"{_TIMES:g}-fold with {_SPARE_S:g} s to make the weights that is {wanted:,.0f} s of a GPU. A run may declare {limit:,.0f} s. "
            "Ask for fewer tokens, a shorter prompt or a smaller model."
        )
    return wanted
