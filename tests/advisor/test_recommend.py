"""The advisor's rules, one by one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from advisor_specs import decoder, encoder, pipeline
from gguf_files import decoder as decoder_tensors
from gguf_files import decoder_keys, gguf_file

from lib.advisor import Entry, Recommendation, Rejection, recommend
from lib.advisor.candidates import family_of, task_of
from lib.advisor.fit import JudgeContext
from lib.advisor.judge import judge_offers
from lib.advisor.rank import rate_speed
from lib.advisor.speed import shape_request
from lib.catalog import load
from lib.errors import BadArgument
from lib.hub.weight_files import parse_gguf
from lib.memory import estimate_memory, host_memory, usable_memory
from lib.model.file_header import resolve_gguf
from lib.model.spec import ModelSpec, Origin, Quantization
from lib.provenance import Reason
from lib.request.types import AccountName
from lib.speed import SpeedRequest, predict_speed
from lib.workload import MemoryRequest, Workload

CATALOG = load()
EVERYWHERE = ("spaces", "zerogpu", "endpoints", "jobs", "tpu")
SMALL, MIDDLE = decoder(1.5e9, layers=28, heads=12, kv_heads=2), decoder(8e9)


def answer(spec: ModelSpec | None = MIDDLE, **asked: object) -> Recommendation:
    """The recommendation for a model and parts of a workload."""
    return recommend(spec, replace(Workload(), **asked), CATALOG)


def why_not(found: Recommendation, hardware: str, platform: str | None = None) -> Reason:
    """Why an offer was rejected."""
    return next(r.reason for r in found.rejected if r.offer.id == hardware and platform in {None, r.offer.platform})


def entry(found: Recommendation, hardware: str, platform: str | None = None) -> Entry:
    """The entry of an offer that was ranked."""
    return next(e for e in found.ranked if e.offer.id == hardware and platform in {None, e.offer.platform})


def codes(one: Entry) -> set[str]:
    """The codes of an entry's reasons."""
    return {reason.code for reason in one.reasons}


@pytest.mark.parametrize(
    ("spec", "task"),
    [
        (MIDDLE, "text-to-image"), (MIDDLE, "automatic-speech-recognition"), (MIDDLE, "image-text-to-text"),
        (encoder(1e8), "text-generation"), (pipeline(2e9, task="text-to-image"), "text-generation"),
    ],
)  # fmt: skip
def test_a_task_that_the_model_cannot_do_is_refused(spec: ModelSpec, task: str) -> None:
    """A decoder of text makes no pictures, an encoder no text; what the model is for is named."""
    with pytest.raises(BadArgument, match=f"task was '{task}'. Accepted: auto or .* is a model for"):
        answer(spec, task=task)


def test_a_decoder_also_makes_vectors_and_labels() -> None:
    """Text classification and embeddings are read off a decoder's last state; a Space that calls a provider fits every model."""
    for task in ("text-classification", "feature-extraction", "inference-api"):
        assert answer(MIDDLE, task=task).pick is not None


# --- dtypes


def test_t4_runs_bf16_models_in_fp16() -> None:
    """A T4 has no bf16: the model runs in fp16, and the entry says so."""
    t4 = entry(answer(SMALL), "t4-small")
    assert t4.precision == "fp16"
    assert "no_bf16" in codes(t4)


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [({"precision": "bf16"}, {"t4-small"}), ({"precision": "fp8", "engine": "transformers"}, {"t4-small", "a10g-small", "a100-large"})],
)
def test_dtype_the_silicon_lacks(asked: dict[str, Any], lacking: set[str]) -> None:
    """No bf16 before Ampere, no fp8 before Ada: asked for by name, such hardware is rejected with that reason."""
    found = answer(SMALL, **asked)
    for hardware in lacking:
        assert why_not(found, hardware).code == "dtype_missing"
    assert not lacking & {e.offer.id for e in found.ranked}


def test_fp8_checkpoint_is_unpacked_where_fp8_is_missing() -> None:
    """With transformers a checkpoint in fp8 runs as stored on an L40S, and in bf16 on an A100, where it takes twice the room."""
    spec = decoder(8e9, stored_as=Quantization(method="fp8", format="fp8-block"))
    found = answer(spec, engine="transformers")
    ada, ampere = entry(found, "l40sx1"), entry(found, "a100-large")
    assert (ada.precision, ada.step) == ("fp8-block", 0)
    assert ampere.precision == "bf16"
    assert ampere.memory is not None
    assert ada.memory is not None
    assert ampere.memory.weights_bytes > 1.8 * ada.memory.weights_bytes


# --- ways to fit


def test_quantization_is_a_way_to_fit() -> None:
    """8B in 16 bits do not fit a T4 (16 GB > 14.6 GiB less overhead); in fewer bits they do."""
    t4 = entry(answer(), "t4-small")
    assert t4.step > 0
    assert "quantized" in codes(t4)


def test_asked_precision_is_kept() -> None:
    """A precision asked for by name is never replaced by a smaller one."""
    found = answer(precision="fp16")
    assert why_not(found, "t4-small").code == "too_small"
    assert {e.precision for e in found.ranked} == {"fp16"}


def test_several_cards_hold_what_one_cannot() -> None:
    """34B in bf16 (68 GB) fit four L4 of 22 GiB, divided among them."""
    l4s = entry(answer(decoder(34e9, layers=60, heads=56), precision="bf16"), "l4x4")
    assert l4s.devices == 4
    assert "tensor_parallel" in codes(l4s)


def test_heads_must_divide_among_the_cards() -> None:
    """28 heads divide by 4 but not by 8: eight cards are used as four."""
    l40s = entry(answer(decoder(7e9, heads=28, kv_heads=4), engine="vllm"), "l40sx8")
    assert l40s.devices == 4
    assert "cards_unused" in codes(l40s)


def test_too_small_says_by_how_much() -> None:
    """A rejection for size names what is needed and what is there."""
    reason = why_not(answer(decoder(400e9, layers=120, heads=128)), "l4x1")
    assert reason.code == "too_small"
    assert int(reason.values["needed_bytes"]) > int(reason.values["capacity_bytes"])


def test_download_must_fit_the_disk() -> None:
    """26B are 13 GB in four bits, which a T4 holds at a short context; the 52 GB download in bf16 exceeds the 50 GB disk of t4-small."""
    model = decoder(26e9, layers=48, heads=48)
    reason = why_not(answer(model, precision="int4", context_tokens=64), "t4-small")
    assert reason.code == "disk_too_small"
    assert reason.values == {"download_bytes": 52_000_000_000, "disk_bytes": 50_000_000_000}


def test_memory_that_is_too_small_is_told_before_the_disk() -> None:
    """40B are 20 GB in four bits: they exceed a T4, whatever its disk holds."""
    assert why_not(answer(decoder(40e9, layers=48, heads=48), precision="int4", context_tokens=64), "t4-small").code == "too_small"


# --- CPU


def test_small_models_run_on_cpu() -> None:
    """350M in fp32 are 1.4 GB: 45 GB/s read them some 30 times a second."""
    cpu = entry(answer(decoder(350e6, layers=24, heads=8, kv_heads=2)), "cpu-upgrade")
    assert "cpu_enough" in codes(cpu)
    assert cpu.speed.tokens_per_s is not None
    assert 8 < cpu.speed.tokens_per_s < 40


def test_large_models_are_too_slow_on_cpu() -> None:
    """8B fit 32 GB of RAM, but not even four bits are read fast enough."""
    assert why_not(answer(), "cpu-upgrade").code == "cpu_too_slow"


def test_pictures_are_not_drawn_on_cpu() -> None:
    """Diffusion on a CPU takes most of a minute per picture on 32 cores."""
    assert why_not(answer(pipeline(1e9, task="text-to-image")), "cpu-upgrade").code == "cpu_too_slow"


# --- accounts, ZeroGPU


@pytest.mark.parametrize("account", ["anonymous", "free"])
def test_cpu_basic_needs_a_plan(account: AccountName) -> None:
    """Only PRO, Team and Enterprise create Spaces on the free CPU."""
    assert why_not(answer(encoder(30e6), account=account), "cpu-basic").code == "cpu_basic_needs_plan"


def test_cpu_basic_for_members() -> None:
    """With a plan it is offered, and the cheapest answer for a small encoder."""
    assert entry(answer(encoder(30e6), account="pro"), "cpu-basic").cost.total_usd_per_month == 0
    found = answer(encoder(30e6), account="pro", priority="cheapest")
    assert found.pick is not None
    assert found.pick.offer.id == "cpu-basic"


def test_zerogpu_needs_an_account_to_host() -> None:
    """Signed out, nothing is hosted there."""
    assert why_not(answer(account="anonymous"), "zero-a10g").code == "zerogpu_needs_account"


def test_zerogpu_takes_gradio_only() -> None:
    """A Docker Space cannot use it."""
    found = answer(sdk="docker")
    assert why_not(found, "zero-a10g").code == "zerogpu_gradio_only"
    assert {e.sdk for e in found.ranked} == {"docker"}


def test_quota_seconds_of_a_request() -> None:
    """The large size asks for 1.5 times the seconds, xlarge for twice those of a whole card."""
    found = answer(SMALL)
    for hardware, factor in (("zero-a10g", 1.5), ("zero-a10g-xlarge", 2.0)):
        one = entry(found, hardware)
        quota = next(r for r in one.reasons if r.code == "zerogpu_quota")
        assert one.speed.predicted is not None
        assert float(quota.values["request_quota_s"]) == pytest.approx(factor * one.speed.predicted.request_s)


def test_heavy_traffic_outgrows_the_quota() -> None:
    """100 000 requests take more than six hours of GPU time a day: hardware of its own is picked, however many visitors share them."""
    found = answer(SMALL, requests_per_day=100_000)
    assert why_not(found, "zero-a10g").code == "zerogpu_busy"
    assert why_not(answer(SMALL, requests_per_day=100_000, visitors_per_day=10**6), "zero-a10g").code == "zerogpu_busy"
    assert found.pick is not None
    assert found.pick.offer.platform == "spaces"


def test_quota_by_account() -> None:
    """1000 requests of 20 visitors outgrow free accounts (300 s and 8 runs a day) and not PRO ones (2400 s)."""
    assert why_not(answer(requests_per_day=1000, visitors_per_day=20), "zero-a10g").code == "quota_too_small"
    assert entry(answer(requests_per_day=1000, visitors_per_day=20, account="pro"), "zero-a10g").verdict == "comfortable"


def test_reported_runs_bound_the_visitors() -> None:
    """Free: users report 8 runs a day, so that 100 requests take ⌈12.5⌉ = 13 visitors however short they are, and 161 take 21."""
    quota = next(r for r in entry(answer(SMALL, requests_per_day=100), "zero-a10g").reasons if r.code == "zerogpu_quota")
    assert (quota.variant, quota.values["requests_per_visitor"], quota.values["visitors"]) == ("runs", 8, 13)
    refused = why_not(answer(SMALL, requests_per_day=161, visitors_per_day=20), "zero-a10g")
    assert (refused.code, refused.variant, refused.values["visitors"]) == ("quota_too_small", "stated", 21)
    verdicts = [entry(answer(SMALL, requests_per_day=161, visitors_per_day=number), "zero-a10g").verdict for number in (21, 26)]
    assert verdicts == ["tight", "comfortable"]  # 21 visitors would have to make 7 or 8 requests each
    assert "zerogpu_visitors_own_plan" in codes(entry(answer(SMALL, account="pro"), "zero-a10g"))


def test_visitors_have_a_plan_of_their_own() -> None:
    """A PRO host's free visitors have 300 s a day, not 2,400; once their plan is stated, nothing is assumed of it."""

    def quota(**asked: object) -> tuple[object, ...]:
        found = entry(answer(SMALL, requests_per_day=10, **asked), "zero-a10g")
        said = next(reason for reason in found.reasons if reason.code == "zerogpu_quota")
        return said.values["account"], said.values["quota_s"], "zerogpu_visitors_own_plan" in codes(found)

    assert quota(account="pro") == ("pro", 2400, True)
    assert quota(account="pro", visitor_account="free") == ("free", 300, False)
    assert quota(visitor_account="pro") == ("pro", 2400, False)
    hosts = codes(entry(answer(SMALL, visitor_account="pro"), "zero-a10g"))
    assert "zerogpu_hosting" in hosts  # the host is still a free account
    refused = why_not(answer(SMALL, account="pro", visitor_account="free", requests_per_day=1000, visitors_per_day=10), "zero-a10g")
    assert refused.values["account"] == "free"


def test_free_memory_is_said_of_what_comfort_is_judged_by() -> None:
    """A comfortable fit keeps a tenth of the device, and its sentence counts the same device; a CPU before ZeroGPU says why."""
    for one in answer(platforms=EVERYWHERE).ranked:
        room = next(r for r in one.reasons if r.code.startswith("fits"))
        assert int(room.values["free_percent"]) >= 10 or room.code == "fits_tightly"
        assert (room.variant != "") is (int(room.values["capacity_bytes"]) < int(room.values["device_bytes"]))
    small = answer(encoder(110e6))
    assert small.pick is not None
    assert small.pick.offer.id == "cpu-upgrade"
    assert ("picked_balanced", "cpu") in {(note.code, note.variant) for note in small.notes}


def test_weights_above_42_gib_want_a_declared_size() -> None:
    """34B in eight bits stay below 42 GiB; 23B in bf16 (46 GB = 42.8 GiB) do not, and large has to be declared."""
    found = answer(decoder(23e9, layers=48, heads=48), context_tokens=256, precision="bf16")
    assert "zerogpu_declare_size" in codes(entry(found, "zero-a10g"))
    assert "zerogpu_declare_size" not in codes(entry(answer(), "zero-a10g"))


def test_one_clip_takes_half_a_free_visitors_day() -> None:
    """94 s of GPU are 141 quota seconds: two clips a day for a free visitor, seventeen for PRO, who must declare the duration."""
    spec = pipeline(7e9, task="text-to-video")
    reason = why_not(answer(spec), "zero-a10g")
    assert (reason.code, reason.values["requests_per_visitor"]) == ("quota_too_small", 2)
    assert "zerogpu_long_call" in codes(entry(answer(spec, account="pro"), "zero-a10g"))


def test_traffic_beyond_one_at_a_time_is_served_in_parallel() -> None:
    """8B on an L4: 256 tokens of 54 ms at best are 13.9 s, at most 6200 requests a day one at a time; vLLM serves more of them together."""
    busy = entry(answer(requests_per_day=20_000), "l4x1")
    assert (busy.engine, busy.sdk, busy.replicas) == ("vllm", "docker", 1)
    together = next(r for r in busy.reasons if r.code == "traffic_in_flight")
    assert busy.speed.predicted is not None
    assert together.values["concurrency"] == busy.speed.predicted.request.concurrency > 1
    assert int(together.values["served"]) >= 20_000
    assert "traffic_in_flight" not in codes(entry(answer(requests_per_day=2_000), "l4x1"))


def test_traffic_beyond_one_machine_is_priced_in_machines() -> None:
    """One request at a time in transformers: 10,000 a day are two machines at least, and each costs 576 USD a month."""
    alone = entry(answer(requests_per_day=10_000, sdk="gradio"), "l4x1")
    reason = next(r for r in alone.reasons if r.code == "replicas_needed")
    assert alone.speed.predicted is not None
    served = int(0.8 * 86_400 / alone.speed.predicted.request_s)
    assert reason.values["served"] == served < 10_000
    assert alone.replicas == -(-10_000 // served)
    assert alone.cost.total_usd_per_month == Decimal(576) * alone.replicas
    assert why_not(answer(requests_per_day=10_000, sdk="gradio", max_usd_per_month=Decimal(576)), "l4x1").code == "over_budget"


def test_the_free_cpu_runs_once() -> None:
    """cpu-basic has no replicas: traffic beyond it is refused with what it serves."""
    refused = why_not(answer(encoder(110e6), account="pro", requests_per_day=1_000_000), "cpu-basic")
    assert refused.code == "traffic_exceeds"


# --- money, speed, platforms


def test_budget() -> None:
    """l4x1 costs 0.80 × 24 × 30 = 576 USD a month: within 576, above 575."""
    assert entry(answer(max_usd_per_month=Decimal(576)), "l4x1").cost.total_usd_per_month == Decimal(576)
    assert why_not(answer(max_usd_per_month=Decimal(575)), "l4x1").code == "over_budget"
    assert why_not(answer(max_usd_per_month=Decimal(575), hours_per_day=Decimal("23.99")), "l4x1").code == "over_budget"
    assert entry(answer(max_usd_per_month=Decimal(288), hours_per_day=Decimal(12)), "l4x1").cost.total_usd_per_month == Decimal(288)


def test_wanted_rate_rules_out_what_cannot_reach_it() -> None:
    """8B in bf16 are 16 GB: an L4 of 300 GB/s delivers 18.7 tokens/s at the very most, and less as predicted; fp8 reads half as much."""
    l4 = entry(answer(min_tokens_per_s=10), "l4x1")
    assert l4.precision == "bf16"
    assert l4.speed.decode_tokens_per_s_upper_bound == pytest.approx(18.7, rel=0.05)
    assert l4.speed.tokens_per_s is not None
    assert 10 < l4.speed.tokens_per_s < 18.7
    refused = why_not(answer(min_tokens_per_s=18, precision="bf16", engine="transformers"), "l4x1")
    assert refused.code == "too_slow"
    runs_as = {"engine": "transformers", "precision": "bf16"}
    assert refused.values == {"tokens_per_s": l4.speed.tokens_per_s, "wanted_tokens_per_s": 18, **runs_as}
    assert entry(answer(min_tokens_per_s=18), "l4x1").step > 0


def test_priorities() -> None:
    """Cheapest pays least; fastest pays least of what is within a tenth of the most tokens that fit with room to spare on one host."""
    cheapest, fastest = answer(priority="cheapest"), answer(priority="fastest", platforms=EVERYWHERE)
    assert cheapest.pick is not None
    assert cheapest.pick.cost.total_usd_per_month == min(e.cost.total_usd_per_month for e in cheapest.ranked)
    assert fastest.pick is not None
    single = [e for e in fastest.ranked if "multi_host" not in codes(e) and e.verdict == "comfortable"]
    close = [e for e in single if rate_speed(e) >= 0.9 * max(rate_speed(e) for e in single)]
    assert fastest.pick in close
    assert fastest.pick.cost.total_usd_per_month == min(e.cost.total_usd_per_month for e in close)
    assert fastest.pick.speed.predicted is not None


def test_pareto_entries_are_beaten_by_none() -> None:
    """Price against speed alone: a whole card for nothing beats half of one and every single card that is slower; few entries are left.

    Among the rented, a10g-large is a more expensive a10g-small.
    """
    found = answer()
    assert entry(found, "zero-a10g-xlarge").pareto
    assert not entry(found, "zero-a10g").pareto
    assert not entry(found, "l4x1").pareto
    assert sum(e.pareto for e in found.ranked) <= len(found.ranked) / 2
    rented = answer(platforms=("spaces",))
    assert not entry(rented, "a10g-large").pareto


def test_cost_is_that_of_the_bill() -> None:
    """l4x1 for 24 h on 30 days is 576 USD: over 3000 requests 0.192 each; a million tokens at full use by the predicted rate."""
    l4 = entry(answer(), "l4x1")
    assert l4.cost.usd_per_request == Decimal("0.192")
    assert l4.speed.predicted is not None
    assert l4.speed.predicted.throughput_tokens_per_s is not None
    full = 0.80 / 3600 / l4.speed.predicted.throughput_tokens_per_s.value * 1e6
    assert float(l4.cost.usd_per_million_output_tokens or 0) == pytest.approx(full)
    bert = entry(answer(encoder(110e6)), "t4-small")
    assert (bert.cost.usd_per_million_output_tokens, bert.cost.usd_per_request) == (None, Decimal("0.096"))


def test_shape_of_a_request_stays_within_the_context() -> None:
    """512 in and 256 out in 4096 tokens, an eighth in of more, half and half of a short context; stated lengths count as stated."""
    plain = Workload()
    assert shape_request("generate", 4096, replace(plain, concurrency=3)) == SpeedRequest(
        prompt_tokens=512, output_tokens=256, concurrency=3
    )
    assert shape_request("generate", 131_072, plain) == SpeedRequest(prompt_tokens=16_384, output_tokens=256, concurrency=1)
    assert shape_request("generate", 600, plain) == SpeedRequest(prompt_tokens=344, output_tokens=256, concurrency=1)
    assert shape_request("generate", 100, plain) == SpeedRequest(prompt_tokens=50, output_tokens=50, concurrency=1)
    assert shape_request("generate", 1, plain) == SpeedRequest(prompt_tokens=1, output_tokens=1, concurrency=1)
    assert shape_request("encode", 4096, plain) == SpeedRequest(prompt_tokens=512, output_tokens=1, concurrency=1)
    stated = replace(plain, prompt_tokens=3000, output_tokens=1000)
    assert shape_request("generate", 4096, stated) == SpeedRequest(prompt_tokens=3000, output_tokens=1000, concurrency=1)


def test_predictions_are_those_of_one_question() -> None:
    """Asked together or alone, on the cards that the configuration uses: the figures are the same, and stand behind the entry."""
    found = entry(answer(concurrency=4), "l4x4")
    alone = predict_speed(
        MIDDLE,
        found.offer.model_copy(update={"accelerator_count": found.devices}),
        SpeedRequest(precision=found.precision, engine="vllm", concurrency=4),
        CATALOG.accelerators,
    )
    assert found.speed.predicted is not None
    assert found.speed.basis == "prediction"
    assert found.speed.predicted.ttft_s.value == pytest.approx(alone.ttft_s.value)
    assert found.speed.predicted.tpot_s == alone.tpot_s
    assert found.speed.predicted.throughput_tokens_per_s == alone.throughput_tokens_per_s


def test_pipelines_without_a_prediction_say_so() -> None:
    """No work per picture is known of this pipeline: no figures, and the basis says what order was used."""
    found = entry(answer(pipeline(3.5e9, task="text-to-image")), "l4x1").speed
    assert (found.predicted, found.basis) == (None, "datasheet peak")


def test_engines_by_platform() -> None:
    """ZeroGPU runs transformers, an endpoint vLLM, a TPU vLLM for TPU; Inferentia has no engine here."""
    found = answer(platforms=EVERYWHERE)
    assert entry(found, "zero-a10g").engine == "transformers"
    assert entry(found, "aws-nvidia-l4-x1").engine == "vllm"
    assert entry(found, "v6e-8").engine == "vllm-tpu"
    assert why_not(found, "aws-inf2-x1").code == "no_engine"


def test_gguf_runs_on_llama_cpp_but_not_on_zerogpu() -> None:
    """ZeroGPU lends its GPU to PyTorch only."""
    found = answer(precision="gguf:Q4_K_M")
    assert entry(found, "l4x1").engine == "llama.cpp"
    assert why_not(found, "zero-a10g").code == "engine_form"


def test_context_beyond_the_models_own_is_not_counted() -> None:
    """A model of 2048 tokens asked for 100 000 holds 2048, and the first reason of each entry says so; the default is asked by nobody."""
    short = decoder(1.5e9, layers=28, heads=12, kv_heads=2, context_limit=2048)
    found = answer(short, context_tokens=100_000)
    assert entry(found, "t4-small").memory == entry(answer(short, context_tokens=2048), "t4-small").memory
    assert {of.reasons[0].code for of in found.ranked} == {"context_clamped"}
    by_default = answer(short)
    assert "context_clamped" in {note.code for note in by_default.notes}
    assert "context_clamped" not in codes(by_default.ranked[0])


# --- providers, retired, bad input


def test_provider_is_an_option_where_the_task_is_sold() -> None:
    """Offline it is unknown whether a provider serves the model; what the Hub says is taken over; fill-mask is not sold."""
    assert answer().provider.available is None
    told = recommend(MIDDLE, Workload(), CATALOG, live_providers=("groq", "together"))
    assert (told.provider.available, told.provider.providers) == (True, ("groq", "together"))
    assert recommend(MIDDLE, Workload(), CATALOG, live_providers=()).provider.available is False
    assert not answer(encoder(110e6), task="fill-mask").provider.suits


def test_retired_hardware_is_never_judged() -> None:
    """H100 on Spaces and TPU on Spaces are gone: neither ranked nor rejected; judged alone, the reason is that."""
    found = answer(platforms=EVERYWHERE)
    seen = {(e.offer.platform, e.offer.id) for e in found.ranked} | {(r.offer.platform, r.offer.id) for r in found.rejected}
    gone = [offer for offer in CATALOG.offers if not offer.listed]
    assert gone
    assert not {(offer.platform, offer.id) for offer in gone} & seen
    case = JudgeContext(
        model=None,
        family="provider",
        workload=Workload(),
        context_tokens=1,
        speed_request=shape_request("provider", 1, Workload()),
        rules=CATALOG.rules,
        cpus=(),
        accelerators=CATALOG.accelerators,
    )
    verdicts = judge_offers(gone, case)
    assert all(isinstance(verdict, Rejection) and verdict.reason.code == "retired" for verdict in verdicts)


def test_nothing_fits() -> None:
    """A trillion parameters in fp32 fit no Space: no pick, every offer rejected, and a note."""
    found = answer(decoder(2e12, layers=120, heads=128), precision="fp32")
    assert found.pick is None
    assert found.ranked == ()
    assert [note.code for note in found.notes] == ["nothing_fits"]


def test_tasks() -> None:
    """Plain words mean Hub tasks; auto asks the model; unknown words and no model at all are refused."""
    assert task_of("embedding", None) == "feature-extraction"
    assert task_of("auto", encoder(1e6, task="text-classification")) == "text-classification"
    assert task_of("auto", encoder(1e6, task="")) == "feature-extraction"
    assert task_of("auto", decoder(1e9, task="")) == "text-generation"
    assert family_of("image-text-to-text") == "vision_language"
    with pytest.raises(BadArgument, match="task"):
        task_of("cooking", None)
    with pytest.raises(BadArgument, match="task"):
        task_of("auto", None)


def test_a_small_gpu_leaves_layers_to_its_host() -> None:
    """Qwen3-32B's shape in 8 bits, 34.8 GB: a T4 with 15 GB of memory beside it cannot, one with 30 can, an L40S needs no such thing."""
    keys = decoder_keys(64, 5120, 64, 8, 128, 25_600, 40_960, general__file_type=7)
    header = parse_gguf(gguf_file("qwen3", keys, decoder_tensors(64, 5120, 64, 8, 128, 25_600, 151_936)).head, "x")
    spec = resolve_gguf(header.keys, header.tensors, Origin(id="org/m:Q8_0"))
    found = answer(spec)
    split, whole = entry(found, "t4-medium"), entry(found, "l40sx1")
    assert whole.gpu_layers == -1
    assert 0 < split.gpu_layers < 64
    assert split.memory is not None
    assert split.memory.estimate.host_bytes + split.memory.per_device_bytes == split.memory.total_bytes
    assert split.memory.estimate.host_bytes <= (host_memory(split.offer) or 0)
    more = estimate_memory(
        spec, MemoryRequest(engine="llama.cpp", gpu_layers=split.gpu_layers + 1, devices=split.devices), split.offer.silicon
    )
    assert more.per_device_bytes > 0.9 * (usable_memory(split.offer) or 0)
    assert "layers_on_host" in {reason.code for reason in split.reasons}
    assert whole.speed.tokens_per_s is not None
    assert split.speed.tokens_per_s is not None
    assert split.speed.tokens_per_s < whole.speed.tokens_per_s / 5
    assert why_not(found, "t4-small").code == "too_small"
    assert {one.engine for one in found.ranked} == {"llama.cpp"}
    assert why_not(found, "zero-a10g").code == "no_engine"


def test_layers_are_left_to_the_host_only_where_llama_cpp_is_wanted() -> None:
    """A model that other formats make fit is not split unasked; with llama.cpp asked for, its smallest file is."""
    big = decoder(32e9, layers=64)
    assert all(one.gpu_layers == -1 for one in answer(big).ranked)
    split = entry(answer(big, engine="llama.cpp"), "t4-medium")
    assert (split.precision, split.gpu_layers >= 0) == ("gguf:Q4_K_M", True)
