"""What must hold for every model on every piece of hardware: no faster than the datasheet allows, and no slower on a faster card."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.catalog import load
from lib.catalog.kernels import is_weight_only, reads_format
from lib.catalog.offers import Hardware, own_hardware
from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS, Engine
from lib.model import bundled
from lib.model.resolve import resolve_count
from lib.model.spec import ModelSpec
from lib.precision import weight_format
from lib.speed import SpeedRequest, SpeedTable, predict_speed, predict_speeds
from lib.speed.batch import EngineConfig
from lib.speed.hardware import card_class, find_peak
from lib.speed.predict import STATIC_BATCH_ENGINES

CATALOG = load()
GPUS = tuple(card for card in CATALOG.accelerators.values() if card.kind == "gpu")
FEW = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-0.6B",
    "google-bert/bert-base-uncased",
    "openai/whisper-large-v3",
)
TOWERS = {"vision_tower", "audio_tower", "projector", "embeddings", "encoder"}


@cache
def decoders() -> tuple[ModelSpec, ...]:
    """Every bundled model but pipelines."""
    found = (bundled.find_spec(name) for name in bundled.list_ids())
    return tuple(spec for spec in found if spec is not None and spec.library != "diffusers")


@cache
def machines() -> tuple[Hardware, ...]:
    """Every offer of today with known silicon or a known processor, and every card and chip alone, each once."""
    offers = [o for o in CATALOG.offers if o.listed and (o.silicon is not None or o.vcpu is not None)]
    distinct = {(o.accelerator, o.accelerator_count, o.accelerator_fraction, o.vcpu if o.silicon is None else 0): o for o in offers}
    return (*distinct.values(), *(own_hardware(card) for card in CATALOG.accelerators.values()))


def engine_on(spec: ModelSpec, hardware: Hardware) -> Engine:
    """The serving engine of GPUs and TPUs, where it runs the model."""
    silicon = hardware.silicon
    if silicon is None or silicon.kind not in {"gpu", "tpu"} or hardware.traits.per_call:
        return "transformers"
    served: Engine = "vllm-tpu" if silicon.kind == "tpu" else "vllm"
    return served if TRAITS[served].runs_on(silicon, sparse=spec.sparse_attention) and spec.work in TRAITS[served].works else "transformers"


@cache
def dense_and_routed(spec_id: str) -> tuple[float, float]:
    """Parameters that a token passes whatever it is routed to, with all experts and without them; embeddings are looked up."""
    spec = bundled.find_spec(spec_id)
    assert spec is not None
    parts = spec.parameters_by_component
    looked_up = sum(g.parameters for g in spec.tensors if g.name.endswith("per_layer.weight") and g.kind == "embedding")
    passed = sum(count for name, count in parts.items() if name not in TOWERS) - looked_up
    return passed, spec.parameters_total - spec.parameters_active


def least_step(of: EngineConfig, sequences: float) -> float:
    """Datasheet seconds of a decode step, from the spec alone: matrices a token passes, without scales and cache.

    The bits are those of the format, or of the smallest one in a checkpoint of several formats.
    """
    passed, routed = dense_and_routed(of.spec.id)
    formats = {of.precision, *(group.stored_as for group in of.spec.tensors if group.stored_as)}
    bits = min(16.0, *(weight_format(name).bits for name in formats))
    devices = of.layout.tensor_parallel
    moved = max(0.0, passed - routed) * bits / 8 / (devices * of.devices.silicon.bandwidth * of.devices.share)
    rate = find_peak(of.devices.silicon, of.arithmetic) * of.devices.share
    computed = 2.0 * max(0.0, passed - routed) * sequences / (devices * rate) if rate else 0.0
    return max(moved, computed)


@pytest.mark.slow
def test_no_prediction_beats_the_datasheet() -> None:
    """Every bundled model on all of the catalog: not the value, and not the fast end of its range.

    The few of every kind are asked in all four ways; of the others each pair of a model and a machine is asked in one, which changes from
    one machine and one model to the next, so that every model and every machine is asked in each.
    """
    ways = [(precision, concurrency) for precision in ("auto", "int4") for concurrency in (1, 16)]
    questions = []
    for number, spec in enumerate(decoders()):
        for place, hardware in enumerate(machines()):
            engine = engine_on(spec, hardware)
            for precision, concurrency in ways if spec.id in FEW else [ways[(number + place) % len(ways)]]:
                request = SpeedRequest(precision=precision, engine=engine, concurrency=concurrency)
                questions.append((spec, hardware, request))
    found = predict_speeds(questions, CATALOG.accelerators)
    decodes = np.array([s.work.decoder is not None for s in found.engine_configs])
    asked = np.array([s.request.concurrency / s.layout.replicas for s in found.engine_configs])
    batched = np.array([s.layout.engine in STATIC_BATCH_ENGINES for s in found.engine_configs])
    each = np.where(batched, np.minimum([s.running_requests for s in found.engine_configs], asked), 1.0)
    least = np.array([least_step(s, n) for s, n in zip(found.engine_configs, each, strict=True)])
    assert np.isfinite(found.ttft_s.value).all()
    assert (found.ttft_s.low <= found.ttft_s.value).all()
    assert (found.ttft_s.value <= found.ttft_s.high).all()
    assert (found.tpot_s.low[decodes] >= least[decodes] * (1 - 1e-9)).all()
    copies = np.array([float(s.layout.replicas) for s in found.engine_configs])
    most = np.array([s.running_requests for s in found.engine_configs]) / np.where(decodes & (least > 0), least, 1e-30)
    assert (found.throughput_tokens_per_s.high <= most * np.maximum(copies, 1) * (1 + 1e-9)).all()


def list_ordered_pairs() -> list[tuple[Accelerator, Accelerator]]:
    """Pairs of GPUs of which the second has both ceilings at least as high in every type, units for each type of the first, and its memory.

    A card that the fit has not seen says nothing of cards of another class.
    """
    types = ("fp32", "fp16", "bf16", "fp8", "int8", "fp4")
    return [
        (low, high)
        for low in GPUS
        for high in GPUS
        if low is not high
        and (low.in_calibration or card_class(low) == card_class(high))
        and low.bandwidth <= high.bandwidth
        and all(find_peak(low, kind) <= find_peak(high, kind) and bool(low.peak(kind)) <= bool(high.peak(kind)) for kind in types)
        and (low.memory_usable or 0) <= (high.memory_usable or 0)
    ]


def reads_fp8(engine: Engine, card: Accelerator) -> bool:
    """Whether the engine has units or kernels for fp8 on a card."""
    return reads_format(engine, "fp8", card, mixture=False)


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang", "llama.cpp"])
@pytest.mark.parametrize("precision", ["auto", "int4", "fp8"])
def test_a_faster_card_is_never_slower(engine: Engine, precision: str) -> None:
    """Both ceilings higher: first token, time between tokens and throughput are no worse, for one request and for eight.

    A card without units and kernels for fp8 (Arc) may lose to one with kernels (RTX 3060).
    """
    pairs = [
        (low, high)
        for low, high in list_ordered_pairs()
        if TRAITS[engine].runs_on(low)
        and TRAITS[engine].runs_on(high)
        and (precision != "fp8" or not is_weight_only(engine, "fp8", low, mixture=False) or reads_fp8(engine, high))
    ]
    assert len(pairs) > 100
    cards = {card.id: card for pair in pairs for card in pair}
    slower, faster = (np.array([list(cards).index(pair[side].id) for pair in pairs]) for side in (0, 1))
    tight = 1 + 1e-9
    for name in FEW:
        spec = bundled.find_spec(name)
        assert spec is not None
        if spec.work not in TRAITS[engine].works:
            continue
        for requests in (1, 8):
            request = SpeedRequest(precision=precision, engine=engine, concurrency=requests)
            found: SpeedTable = predict_speeds([(spec, own_hardware(card), request) for card in cards.values()], CATALOG.accelerators)
            running = np.array([of.running_requests for of in found.engine_configs])
            same = running[slower] == running[faster]
            slow, fast = slower[same], faster[same]
            ttft_s, throughput, tpot_s = found.ttft_s.value, found.throughput_tokens_per_s.value, found.tpot_s.value
            assert (ttft_s[fast] <= ttft_s[slow] * tight).all()
            assert (throughput[fast] >= throughput[slow] / tight).all()
            if found.engine_configs[0].work.decoder is not None:
                assert (tpot_s[fast] <= tpot_s[slow] * tight).all()


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(min_value=10_000_000, max_value=500_000_000_000),
    prompt=st.integers(min_value=1, max_value=100_000),
    answer=st.integers(min_value=1, max_value=10_000),
    requests=st.integers(min_value=1, max_value=2_000),
    card=st.sampled_from(sorted(CATALOG.accelerators)),
)
def test_any_question_has_an_answer_in_order(count: int, prompt: int, answer: int, requests: int, card: str) -> None:
    """Low ≤ value ≤ high, all positive and finite, and rates are the inverse of times."""
    found = predict_speed(
        resolve_count(str(count)),
        own_hardware(CATALOG.accelerators[card]),
        SpeedRequest(prompt_tokens=prompt, output_tokens=answer, concurrency=requests),
        CATALOG.accelerators,
    )
    assert found.tpot_s is not None
    assert found.decode_tokens_per_s is not None
    for band in (found.ttft_s, found.tpot_s, found.decode_tokens_per_s, found.throughput_tokens_per_s):
        assert band is not None
        assert 0 < band.low <= band.value <= band.high < float("inf")
    assert found.decode_tokens_per_s.value == pytest.approx(1 / found.tpot_s.value)
    assert found.running_requests <= requests


def test_a_longer_prompt_takes_longer() -> None:
    """The first token comes later with every token of the prompt, and reading a longer cache slows the others."""
    spec = bundled.find_spec(FEW[0])
    assert spec is not None
    card = CATALOG.resolve_hardware("L40S")
    lengths = (1, 64, 512, 4096, 32768)
    found = predict_speeds([(spec, card, SpeedRequest(engine="vllm", prompt_tokens=n)) for n in lengths], CATALOG.accelerators)
    assert (np.diff(found.ttft_s.value) > 0).all()
    assert (np.diff(found.tpot_s.value) > 0).all()


def test_many_at_once_equal_one_by_one() -> None:
    """The vectorised path is the same arithmetic."""
    specs = [bundled.find_spec(name) for name in FEW]
    questions = [
        (s, CATALOG.resolve_hardware(h), SpeedRequest(concurrency=3)) for s in specs if s for h in ("l4x1", "cpu-upgrade", "TPU-v6e")
    ]
    together = predict_speeds(questions, CATALOG.accelerators).throughput_tokens_per_s.value
    alone = [predict_speed(*question, CATALOG.accelerators).throughput_tokens_per_s for question in questions]
    assert together.tolist() == pytest.approx([band.value for band in alone if band is not None])
