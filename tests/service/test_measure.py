"""`/measure`: what is refused before a run, and what a run tells. A real one beside its prediction: tests/api/test_measure.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from llama import llama_config
from written import Written

from lib.catalog import load
from lib.catalog.offers import ZEROGPU_OFFERS, Offer
from lib.errors import BadArgument, DoesNotFit, InvalidInput, TooLong, UnknownModel, UnsupportedModel
from lib.live.demo_model import ON_CPU, ON_GPU, precision_for
from lib.live.device import Device
from lib.live.limits import DeviceRates, RunWork, device_rates, estimate_duration
from lib.live.measure import MeasuredRun, MeasureRequest, RunStage, gpu_seconds, measure_run, run_measurement
from lib.live.zerogpu import quota_seconds
from lib.present.live_measurements import expected_s
from lib.service import runs
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.measure import (
    SHORT_S,
    MeasureArguments,
    default_measurement,
    measurement_case,
    predict_measurement,
    stream_measurement,
    suggest_measurement,
)
from lib.service.models import Models

GIB = 2**30
TINY = llama_config()
FIGURES = MeasuredRun(
    peak_bytes=16_000_000_000, weights_bytes=15_900_000_000, before_bytes=0, reserved_bytes=17_000_000_000, ttft_s=0.2,
    decode_tokens_per_s=10.0, mean_tokens_per_s=9.0, steps=63, weights_s=1.0, kernel="sdpa", device_name="NVIDIA L4",
)  # fmt: skip
CPU = Device(
    kind="cpu", name="Some Processor", accelerator=None, memory_bytes=16 * GIB, free_bytes=12 * GIB, capability=None, cores=2, driver=None,
    torch="2.13.0", transformers="5.23.0",
)  # fmt: skip
CUDA = replace(CPU, kind="cuda", name="NVIDIA L4", accelerator="L4", memory_bytes=22 * GIB, free_bytes=22 * GIB, capability=(8, 9))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


MODELS = Models()


@pytest.fixture(autouse=True)
def _plain_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor whose products in bf16 copy nothing, wherever the tests run."""
    monkeypatch.setattr(runs, "copies_head", lambda _: False)


class Runs:
    """A stand-in for the device: keeps what it was asked, and answers with fixed figures."""

    def __init__(self, figures: MeasuredRun = FIGURES) -> None:
        self.figures = figures
        self.asked: list[MeasureRequest] = []

    def __call__(self, ask: MeasureRequest, device: Device) -> Iterator[RunStage | MeasuredRun]:  # noqa: ARG002 the interface
        self.asked.append(ask)
        yield "weights"
        yield "running"
        yield self.figures


class Records:
    """A ledger that writes nothing, or what `record` makes of a run."""

    def __init__(self, record: Any = None) -> None:
        self.record = record or (lambda *_, **__: None)


def _serve_live(runs: Any = None, *, device: Any = None, record: Any = None, placed_bytes: int = 0, rates: Any = device_rates) -> Any:
    """What runs on a device; `placed_bytes` are the weights of the chat's model, placed by then."""
    demo: Any = SimpleNamespace(loaded_model=SimpleNamespace(weights_bytes=placed_bytes) if placed_bytes else None)
    ledger: Any = Records(record)
    app = App(
        catalog=load, models=MODELS, run_measurement=runs or run_measurement, find_device=device, ledger=ledger, demo=demo, rates=rates
    )
    return Written(Services(app))


RATES = DeviceRates(flop_per_s=1e11, bytes_per_s=1e10)


def _question(device: Device, runs: Runs | None = None, record: Any = None, rates: DeviceRates = RATES) -> Any:
    """The device as stated, a processor with stated rates: no answer depends on the machine that runs the tests."""

    def rates_of(device: Device, precision: str) -> DeviceRates | None:  # noqa: ARG001 the interface
        return rates if device.kind == "cpu" else None

    return _serve_live(runs or Runs(), device=lambda size="large": device, record=record, rates=rates_of)  # noqa: ARG005


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"model": "7B"}, UnknownModel, "names no architecture"),
        ({"model": "stabilityai/stable-diffusion-xl-base-1.0"}, UnsupportedModel, "makes pictures"),
        ({"prompt_tokens": 0}, BadArgument, "whole number from 1"),
        ({"output_tokens": "64"}, BadArgument, "output_tokens"),
        ({"precision": "int4"}, BadArgument, "fp32, fp16, bf16"),
        ({"prompt_tokens": 2048, "output_tokens": 2}, BadArgument, "at most 2,048 tokens in all"),
        (
            {"model": "openai-community/openai-gpt", "output_tokens": 256},
            BadArgument,
            "512 with output_tokens 256.*at most 512 tokens in all",
        ),
        ({"model": "google-t5/t5-small", "output_tokens": 513}, BadArgument, "output_tokens.*at most 512 tokens"),
        ({"model": "{"}, InvalidInput, "not JSON"),
    ],
)
def test_refused_before_anything_is_done(arguments: dict[str, Any], kind: type[Exception], words: str) -> None:
    """Wrong arguments never reach the device."""
    runs = Runs()
    with pytest.raises(kind, match=words):
        _question(CPU, runs).measure(**({"model": json.dumps(TINY)} | arguments))
    assert not runs.asked


def test_the_last_position_may_be_used() -> None:
    """2,048 positions: a prompt of 2,047 and two tokens, of which the second is never read."""
    runs = Runs()
    _question(CPU, runs).measure(json.dumps(TINY), prompt_tokens=2047, output_tokens=2)
    assert runs.asked[0].prompt_tokens == 2047


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"precision": "fp32"}, r"In bf16 it takes 15\.\d\d GiB and fits"),  # 8 030 261 248 parameters × 2 B = 14.96 GiB, and what runs it
        ({"prompt_tokens": 100_000}, r"A prompt of [\d,]+ tokens would fit"),
        ({"model": "meta-llama/Llama-3.1-70B-Instruct"}, r"a model of up to about 8\.9 billion parameters fits"),
    ],
)
def test_what_does_not_fit_says_what_would(arguments: dict[str, Any], advice: str) -> None:
    """20.9 GiB × 0.9 of a processor's memory: (18.81 − 0.38) GiB / 2.2 B = 9.0·10⁹."""
    runs = Runs()
    device = replace(CPU, memory_bytes=24 * GIB, free_bytes=int(20.7 * GIB))
    with pytest.raises(DoesNotFit, match=advice):
        _question(device, runs).measure(**({"model": LLAMA} | arguments))
    assert not runs.asked


def test_a_processor_that_copies_the_output_projection_holds_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the last token of a prompt in bf16: 50,257 × 768 × 2 B of GPT-2, less the layers' activations; a single token copies nothing."""
    asked = {"prompt_tokens": 64, "output_tokens": 16}
    plain = _question(CPU, Runs()).results[predict_measurement]("openai-community/gpt2", **asked).predicted
    monkeypatch.setattr(runs, "copies_head", lambda precision: precision == "bf16")
    copied = _question(CPU, Runs()).results[predict_measurement]("openai-community/gpt2", **asked).predicted
    assert copied.peak_bytes - plain.peak_bytes == pytest.approx(50_257 * 768 * 2, rel=0.04)
    single = _question(CPU, Runs()).results[predict_measurement]("openai-community/gpt2", prompt_tokens=1, output_tokens=16).predicted
    assert single.peak_bytes < plain.peak_bytes


def test_a_card_is_held_against_its_own_prediction() -> None:
    """8B in bf16 on an L4: 16.06 GB of weights; 300 GB/s allow 18.7 tokens/s; 10 are plausible, and the run is written down."""
    written: list[dict[str, Any]] = []

    def record(spec: Any, device: Any, figures: Any, **run: Any) -> None:
        written.append({"spec": spec.id, "device": device.name, "peak": figures.peak_bytes, **run})

    stages = list(_question(CUDA, Runs(), record)[stream_measurement](LLAMA))
    answer: Any = stages[-1]
    assert stages[:-1] == [{"stage": "weights"}, {"stage": "running"}]
    assert answer["predicted"]["weights_bytes"] == 16_060_522_496
    assert answer["predicted"]["hardware"] == "L4"
    assert answer["error_ratio"]["peak_bytes"] == pytest.approx(answer["predicted"]["peak_bytes"] / 16e9 - 1)
    assert answer["verdict"]["code"] == "confirmed"
    assert {caveat["code"] for caveat in answer["caveats"]} >= {"random_weights"}
    assert written == [
        {
            "spec": LLAMA, "device": "NVIDIA L4", "peak": 16_000_000_000, "kind": "measure", "precision": "bf16", "prompt_tokens": 512,
            "output_tokens": 64,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("rate", "possible"), [(19.9, True), (20.2, False)])
def test_a_rate_above_the_bandwidth_is_no_measurement(rate: float, possible: bool) -> None:
    """8B on an L4: of 16.06 GB a step reads all but 1.05 of input embedding and 0.05 of cache on chip: 14.96 GB, 20.05 a second."""
    written: list[object] = []
    runs = Runs(replace(FIGURES, decode_tokens_per_s=rate))
    answer = _question(CUDA, runs, lambda *a, **k: written.append((a, k))).measure(LLAMA)
    assert (answer["verdict"]["code"] != "invalid") is possible
    assert bool(written) is possible


def test_no_bound_counts_what_a_step_does_not_read() -> None:
    """Of flan-t5-xxl's 22.3 GB in bf16 a step reads less than 12.8, the decoder and the head: 20 a second on 300 GB/s are possible."""
    roomy = replace(CUDA, free_bytes=24 * GIB)
    answer = _question(roomy, Runs(replace(FIGURES, decode_tokens_per_s=20.0))).measure("google/flan-t5-xxl", 16, 8)
    assert answer["verdict"]["code"] != "invalid"


def test_a_part_of_a_card_may_have_the_bandwidth_of_the_whole() -> None:
    """Half an RTX PRO 6000, whose 1,597 GB/s read 15.01 GB less 128 MiB of cache 107 times a second: 100 are possible."""
    half = replace(
        CUDA, kind="zerogpu", accelerator="RTX-PRO-6000-Blackwell-Server", memory_bytes=50_986_975_232, free_bytes=50_986_975_232
    )
    for rate, possible in ((100.0, True), (110.0, False)):
        answer = _question(half, Runs(replace(FIGURES, decode_tokens_per_s=rate))).measure(LLAMA)
        assert (answer["verdict"]["code"] != "invalid") is possible


def test_zero_gpu_chooses_the_size_and_declares_its_seconds() -> None:
    """What fits half a card runs there; the quota that is asked stands in the answer. 70B in bf16 needs the whole card and more."""
    half = replace(
        CUDA, kind="zerogpu", accelerator="RTX-PRO-6000-Blackwell-Server", memory_bytes=50_986_975_232, free_bytes=50_986_975_232
    )
    whole = replace(half, memory_bytes=101_973_950_464, free_bytes=101_973_950_464)
    sizes: list[str] = []

    def device(size: str = "large") -> Device:
        sizes.append(size)
        return half if size == "large" else whole

    runs = Runs()
    question = _serve_live(runs, device=device)
    answer = question.measure("Qwen/Qwen2.5-32B-Instruct")
    assert sizes == ["large", "xlarge"]
    assert 10 < runs.asked[0].limit_s <= 60
    assert "of your quota" in next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "quota")
    with pytest.raises(TooLong, match="A run may declare 60 s"):
        question.measure("Qwen/Qwen2.5-32B-Instruct", output_tokens=4096)
    with pytest.raises(DoesNotFit):
        question.measure("meta-llama/Llama-3.1-70B-Instruct")
    sizes.clear()  # 16 GB of Llama beside 35 GB of another model: more than half a card, and 35 GB that take time to move there
    beside = _serve_live(runs, device=device, placed_bytes=35 * 10**9)
    beside.measure(LLAMA)
    assert sizes == ["large", "xlarge"]
    assert runs.asked[-1].placed_bytes == 35 * 10**9
    assert gpu_seconds(runs.asked[-1]) > gpu_seconds(replace(runs.asked[-1], placed_bytes=0)) + 20


def test_a_need_just_below_half_a_card_takes_the_whole() -> None:
    """A run may take 95 % of what is free. Beside 33.8 GB half a card has 17.2 GB, so 16.3; Llama takes 16.6 (16.06 of weights)."""
    half = replace(
        CUDA, kind="zerogpu", accelerator="RTX-PRO-6000-Blackwell-Server", memory_bytes=50_986_975_232, free_bytes=50_986_975_232
    )
    whole = replace(half, memory_bytes=101_973_950_464, free_bytes=101_973_950_464)
    runs = Runs()
    question = _serve_live(runs, device=lambda size="large": half if size == "large" else whole, placed_bytes=33_800_000_000)
    question.measure(LLAMA)
    assert runs.asked[0].size == "xlarge"


def test_workspace_of_cublas_is_in_every_prediction_on_a_card() -> None:
    """T5-base in bf16 on an L4: 445.8 MB of weights, and 8 519 680 B that torch gives to cuBLAS, as for a decoder."""
    for model in ("google-t5/t5-base", LLAMA):
        case = measurement_case(_question(CUDA)._app, MeasureArguments(model=model, prompt_tokens=512, output_tokens=1))
        rest = case.expected.peak_bytes - case.expected.weights_bytes - case.expected.kv_cache_bytes - case.expected.activation_bytes
        assert rest == 8_519_680


@pytest.mark.parametrize(("device", "order"), [("cuda", ["gauge", "probe"]), ("cpu", ["probe", "gauge"])])
def test_what_counts_as_held_before(monkeypatch: pytest.MonkeyPatch, device: Any, order: list[str]) -> None:
    """The first product brings cuBLAS's workspace, which belongs to a run on a card, and libraries, which belong to none on a CPU."""
    seen: list[str] = []

    class Gauge:
        def __init__(self) -> None:
            seen.append("gauge")
            if len(seen) == len(order):
                raise TooLong("enough seen")

    def probe(*_: object) -> DeviceRates:
        seen.append("probe")
        if len(seen) == len(order):
            raise TooLong("enough seen")
        return DeviceRates(flop_per_s=1e12, bytes_per_s=1e12)

    monkeypatch.setattr("lib.live.process.CudaGauge", Gauge)
    monkeypatch.setattr("lib.live.process.HostGauge", Gauge)
    monkeypatch.setattr("lib.live.measure.measure_rates", probe)
    work = RunWork(weights_bytes=10**6, parameters_per_token=10**5, step_bytes=10**5, layers=2, prompt_tokens=16, output_tokens=4)
    ask = MeasureRequest(config=TINY, precision="bf16", prompt_tokens=16, output_tokens=4, device=device, work=work, limit_s=60.0)
    with pytest.raises(TooLong, match="enough seen"):
        list(measure_run(ask))
    assert seen == order


FAMILIES: dict[str, dict[str, Any]] = {
    "encoder-decoder": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4,
        "num_layers": 2, "vocab_size": 211, "is_encoder_decoder": True, "decoder_start_token_id": 0,
    },
    "encoder": {
        "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
        "num_hidden_layers": 2, "vocab_size": 211,
    },
    "pictures": {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 32, "intermediate_size": 48,
        "num_attention_heads": 4, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8,
    },
    "experts": TINY | {
        "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "head_dim": 16,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_architecture_runs(family: str) -> None:
    """Those that write are timed token by token (4 tokens: 3 steps after the first), the others in one pass."""
    config = FAMILIES[family]
    work = RunWork(weights_bytes=10**6, parameters_per_token=10**5, step_bytes=10**5, layers=2, prompt_tokens=16, output_tokens=4)
    *stages, found = measure_run(
        MeasureRequest(config=config, precision="fp32", prompt_tokens=16, output_tokens=4, device="cpu", work=work, limit_s=60.0)
    )
    assert stages == ["building", "weights", "warm-up", "running"]
    assert isinstance(found, MeasuredRun)
    assert found.ttft_s > 0
    assert found.steps == (3 if family in {"encoder-decoder", "experts"} else 0)


@pytest.mark.parametrize(
    ("device", "rates"),
    [
        (CPU, RATES),  # too slow for Qwen3.5-4B, in time for gemma-3n-E2B: 5.4 billion parameters, of which a token reads about 2
        (CPU, DeviceRates(flop_per_s=1e10, bytes_per_s=1e10)),
        (replace(CPU, free_bytes=GIB), RATES),
        (CUDA, RATES),
    ],
    ids=["processor", "slow processor", "one GiB", "L4"],
)
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_the_model_that_is_offered_instead_is_the_largest_in_memory_and_time(device: Device, rates: DeviceRates, precision: str) -> None:
    """It fits in both; each larger one is refused for its memory or its context limit, or takes too long."""
    live = _question(device, rates=rates).results
    name = live[suggest_measurement](LLAMA, 512, 64, precision)
    expected = live[predict_measurement](name, 512, 64, precision)
    seconds = expected_s(expected)
    assert expected.need_bytes <= expected.allowed_bytes
    assert seconds is not None
    assert seconds <= expected.limit_s
    decoders = [one for one in map(MODELS, MODELS.bundled) if one.library == "transformers" and one.work == "decoder"]
    for larger in [one for one in decoders if one.parameters_total > MODELS(name).parameters_total]:
        try:
            refused = live[predict_measurement](larger.id, 512, 64, precision)
            case = measurement_case(live._app, MeasureArguments(model=larger.id, precision=precision))
        except (BadArgument, DoesNotFit, TooLong):
            continue
        needed = estimate_duration(case.ask.work, rates, case.ask.device)
        by_rates = needed.total_s if device.kind == "cpu" else 0.0
        assert max(by_rates, needed.weights_s + (expected_s(refused) or 0)) > refused.limit_s, larger.id


def test_nothing_is_offered_where_nothing_fits() -> None:
    """A prompt beyond every model's limit."""
    assert _question(CPU)[suggest_measurement](LLAMA, 1_000_000, 64, "bf16") == ""


SPACES = [
    offer
    for offer in load().offers
    if offer.platform in {"spaces", "zerogpu"} and (offer.ram_bytes if offer.silicon is None else offer.vram_bytes_per_accelerator)
]
"""Tiers whose memory is known."""


def _device_of(offer: Offer) -> Device:
    """The device that a Space of this tier sees, with nothing else in its memory but the app itself (2 GiB on a CPU)."""
    if offer.silicon is None:
        ram = int(offer.ram_bytes or 0)
        return replace(CPU, cores=int(offer.vcpu or 1), memory_bytes=ram, free_bytes=ram - 2 * GIB)
    memory, kind = int(offer.vram_bytes_per_accelerator or 0), "zerogpu" if offer.id in ZEROGPU_OFFERS.values() else "cuda"
    capability = offer.silicon.compute_capability
    card = replace(CUDA, name=offer.silicon.name, accelerator=offer.silicon.id, memory_bytes=memory, free_bytes=memory)
    return replace(card, kind=kind, capability=capability)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["HuggingFaceTB/SmolLM2-360M-Instruct", LLAMA, "meta-llama/Meta-Llama-3.1-405B"])
@pytest.mark.parametrize("offer", SPACES, ids=lambda offer: offer.id)
def test_the_default_run_is_allowed_on_every_tier(offer: Offer, model: str) -> None:
    """It fits the memory, ends within the limit and, on ZeroGPU, within an anonymous visitor's quota; a smaller one ends in 20 s."""
    device = _device_of(offer)
    live = _question(device).results
    run = live[default_measurement](model, 512, 64, "bf16")
    assert run is not None
    expected = live[predict_measurement](run.model, run.prompt_tokens, run.output_tokens, "bf16")  # is not refused
    assert run.seconds is not None
    assert run.seconds <= (SHORT_S if run.changed else expected.limit_s)
    assert run.changed or run.model == model
    if "405B" in model and device.memory_bytes < 400 * GIB:
        assert run.changed
    if device.kind == "zerogpu":
        assert quota_seconds(load().rules.zerogpu, expected.limit_s + 8, "large") <= 120


@pytest.mark.parametrize("offer", SPACES, ids=lambda offer: offer.id)
def test_the_chat_model_fits_every_tier(offer: Offer) -> None:
    """The chat's own model, in the number format that the chat gives it, is a run that the tier allows: the first line names it."""
    device = _device_of(offer)
    chat = ON_CPU if device.kind == "cpu" else ON_GPU
    run = _question(device)[default_measurement](chat, 512, 64, precision_for(device))
    assert run is not None
    assert (run.model, run.changed) == (chat, False)


def test_a_run_is_shortened_where_no_model_can_do_its_length() -> None:
    """A prompt beyond every model's time on a very slow processor becomes the shorter run; without memory there is none."""
    slow = _question(CPU, rates=DeviceRates(flop_per_s=1e10, bytes_per_s=2e9))
    run = slow[default_measurement]("Qwen/Qwen3-0.6B", 8000, 64, "bf16")
    assert run is not None
    assert (run.changed, run.prompt_tokens, run.output_tokens) == (True, 128, 32)
    assert _question(replace(CPU, free_bytes=GIB // 64))[default_measurement](LLAMA, 512, 64, "bf16") is None


@pytest.mark.parametrize("device", [CPU, replace(CUDA, accelerator=None)], ids=["slow processor", "unknown card"])
@pytest.mark.parametrize("prompt", [128, 512])
def test_the_model_that_takes_the_place_decodes_within_its_context_limit(device: Device, prompt: int) -> None:
    """openai-gpt has 512 positions and keeps no cache: without a predicted rate its answer cost no time, and it looked fast enough."""
    asked = _question(replace(device, free_bytes=4 * GIB), rates=DeviceRates(flop_per_s=3e10, bytes_per_s=2e9)).results
    run = asked[default_measurement](LLAMA, prompt, 256, "bf16")
    assert run is not None
    assert (run.changed, run.prompt_tokens, run.output_tokens) == (True, prompt, 256)
    spec = MODELS(run.model)
    assert spec.cache_terms
    assert spec.context_limit is None or spec.context_limit >= prompt + 256
    rate = asked[predict_measurement](run.model, prompt, 256, "bf16").predicted.decode_tokens_per_s
    assert (rate is not None) == (device.kind == "cpu")
