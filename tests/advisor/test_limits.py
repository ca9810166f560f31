"""Inverse questions: the answer fits and keeps the limits, one more does not; ways to take less memory add up with the estimate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.advisor.limits import (
    SLO,
    best_precision,
    find_largest_batch,
    find_longest_context,
    find_most_requests,
    try_precisions,
)
from lib.advisor.memory_savings import find_memory_savings
from lib.advisor.setup import ServingConfig, resolve_setup
from lib.catalog import load
from lib.engines import Engine, traits_of
from lib.errors import BadArgument
from lib.memory import attention_scores
from lib.model import bundled
from lib.request.serving import Serving

CATALOG = load()
LLAMA, SMALL = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-0.6B"
NONE = SLO()


def hosting(model: str = LLAMA, hardware: str = "l4x1", engine: Engine = "vllm", **asked: int | str | Serving) -> ServingConfig:
    """A bundled model on hardware."""
    spec = bundled.find_spec(model)
    assert spec is not None
    return resolve_setup(spec, CATALOG.resolve_hardware(hardware), CATALOG.accelerators, engine=engine, **asked)  # type: ignore[arg-type]


def keeps_limits(of: ServingConfig, targets: SLO) -> bool:
    """Whether it fits and misses no limit."""
    return of.fit().fits and targets.missed_limit(of.predict()) is None


@settings(max_examples=40, deadline=None)
@given(
    model=st.sampled_from([LLAMA, SMALL, "openai/gpt-oss-20b", "google/gemma-2b"]),
    where=st.sampled_from(
        [("l4x1", "vllm"), ("a100x4", "vllm"), ("t4-small", "transformers"), ("RTX-4090x2", "llama.cpp"), ("l40sx8", "vllm")]
    ),
    context=st.integers(1, 32_000),
    requests=st.integers(1, 64),
    first=st.sampled_from([0.0, 0.05, 0.5, 5.0]),
    rate=st.sampled_from([0.0, 5.0, 40.0]),
)
def test_the_answer_fits_and_one_more_does_not(
    model: str, where: tuple[str, Engine], context: int, requests: int, first: float, rate: float
) -> None:
    """Longest context, most requests and largest batch, with and without limits on speed."""
    try:
        of = hosting(model, *where, context_tokens=context, requests=requests)
    except BadArgument:  # the engine does not load this model's format
        return
    targets = SLO(max_ttft_s=first, min_tokens_per_s=rate)
    longest, most, batch = find_longest_context(of, targets), find_most_requests(of, targets), find_largest_batch(of)
    assert longest.value is not None
    assert most.value is not None
    assert batch.value is not None
    for value, one in ((longest.value, replace(of, context_tokens=longest.value)), (most.value, replace(of, requests=most.value))):
        assert value == 0 or keeps_limits(one, targets)
    assert batch.value == 0 or replace(of, requests=batch.value).fit().fits
    if longest.limited_by != "model":
        assert not keeps_limits(replace(of, context_tokens=longest.value + 1), targets)
    if most.limited_by == "engine":
        assert most.value == of.copies * traits_of(of.engine).max_num_seqs
    else:
        assert not keeps_limits(replace(of, requests=most.value + 1), targets)
    assert not replace(of, requests=batch.value + 1).fit().fits
    assert most.value <= batch.value


def test_more_requests_than_are_looked_through_are_checked_too() -> None:
    """A T4 holds 13,484 requests of one token; the limit was looked up at 4,096, so that all of them passed it."""
    of = hosting(SMALL, "t4-small", "transformers", context_tokens=1, requests=1)
    most = find_most_requests(of, SLO(max_ttft_s=0.5, min_tokens_per_s=0.0))
    assert most.limited_by == "ttft"
    assert most.value is not None
    assert keeps_limits(replace(of, requests=most.value), SLO(max_ttft_s=0.5, min_tokens_per_s=0.0))


def test_more_memory_never_answers_less() -> None:
    """The same card twice: no shorter context, no fewer requests."""
    one, two = hosting(hardware="L40S"), hosting(hardware="L40Sx2")
    for find in (find_longest_context, find_most_requests):
        less, more = find(one, NONE).value, find(two, NONE).value
        assert less is not None
        assert more is not None
        assert less <= more


def test_what_the_shortest_requests_miss_longer_ones_may_keep() -> None:
    """64 requests of 16 tokens wait for each other's prompts (0.76 s to the first token), of 256 tokens they do not (0.43 s)."""
    of, targets = hosting(requests=64), SLO(max_ttft_s=0.5)
    assert targets.missed_limit(replace(of, context_tokens=16).predict()) == "ttft"
    assert targets.missed_limit(replace(of, context_tokens=256).predict()) is None
    longest = find_longest_context(of, targets)
    assert longest.value is not None
    assert longest.value >= 256
    assert keeps_limits(replace(of, context_tokens=longest.value), targets)
    assert not keeps_limits(replace(of, context_tokens=longest.value + 1), targets)


@pytest.mark.parametrize("limit_s", [1e-6, 1e-300, 5e-324])
def test_a_limit_that_nothing_keeps_is_zero(limit_s: float) -> None:
    """A microsecond to the first token, or the smallest number that there is: not one token, not one request, and no precision."""
    of, targets = hosting(), SLO(max_ttft_s=limit_s)
    assert (find_longest_context(of, targets).value, find_longest_context(of, targets).limited_by) == (0, "ttft")
    assert (find_most_requests(of, targets).value, find_largest_batch(of).value) == (0, find_largest_batch(of).value)
    assert best_precision(try_precisions(of, targets)) is None


def test_the_best_precision_is_the_first_that_fits() -> None:
    """16 GB of an 8B do not fit a T4 beside the cache, eight bits do; on an L4 16 bits do."""
    assert best_precision(try_precisions(hosting(hardware="l4x1"), NONE)) == "bf16"
    on_t4 = try_precisions(hosting(hardware="t4-small"), NONE)
    assert [each.fits for each in on_t4][:2] == [False, True]
    assert best_precision(on_t4) == on_t4[1].precision
    weights = [each.weights_bytes for each in on_t4]
    assert weights == sorted(weights, reverse=True)


def test_a_processor_is_offered_no_format_of_cards() -> None:
    """AWQ and bitsandbytes are for GPUs: transformers on a CPU keeps what is stored."""
    assert len(try_precisions(hosting(SMALL, "cpu-upgrade", "transformers"), NONE)) == 1


def test_zerogpu_serves_one_request_on_each_card() -> None:
    """However many are asked for, each call has its own card."""
    of = hosting(hardware="zero-a10g", engine="transformers", requests=20)
    assert of.requests == 1
    assert (find_most_requests(of, NONE).value, find_most_requests(of, NONE).limited_by) == (1, "zerogpu")


@pytest.mark.parametrize(("hardware", "engine"), [("l4x1", "vllm"), ("t4-small", "transformers"), ("RTX-4090", "llama.cpp")])
def test_ways_save_what_the_estimate_says(hardware: str, engine: Engine) -> None:
    """Each way asked again with its own setting takes as many bytes less; the most bytes come first, and other hardware last."""
    of = hosting(SMALL, hardware, engine, context_tokens=8192, requests=4)
    ways = find_memory_savings(of, CATALOG)
    saved = [way.saved_bytes for way in ways if way.code != "more_devices"]
    assert saved == sorted(saved, reverse=True)
    names = {"context_tokens": "context_tokens", "concurrency": "requests", "precision": "precision", "kv_precision": "kv_precision"}
    checked = set()
    for way in ways:
        settings_of = {names[name]: value for name, value in way.needs.items() if name in names}
        if settings_of:
            after = replace(of, **settings_of)  # type: ignore[arg-type]
            assert after.estimate().per_device_bytes == way.per_device_bytes == of.estimate().per_device_bytes - way.saved_bytes
            checked.add(way.code)
    assert {"precision", "shorter_context", "fewer_requests", "cache_precision"} <= checked


def test_offloaded_weights_cross_the_link_at_each_step() -> None:
    """A quarter of 16.06 GB over the PCIe 4.0 x16 of an L4 (32 GB/s) is 4.02 GB / 32 = 125 ms a step."""
    of = hosting()
    way = next(way for way in find_memory_savings(of, CATALOG) if way.code == "offload")
    speed = of.predict()
    assert speed is not None
    assert speed.tpot_s is not None
    assert way.tpot_ratio is not None
    weights = of.estimate().weights.bytes
    assert way.saved_bytes == -(-weights // 4)
    assert (way.tpot_ratio - 1) * speed.tpot_s.value == pytest.approx(way.saved_bytes / 32e9)


def test_what_is_missing_is_offloaded_where_the_host_holds_it() -> None:
    """An 8B in 16 bits on a T4: the missing bytes; 70B on an L4 misses more than the host's 30 GB."""
    of = hosting(hardware="t4-small", engine="transformers")
    way = next(way for way in find_memory_savings(of, CATALOG) if way.code == "offload")
    assert way.saved_bytes == -of.fit().free_bytes > 0
    large = hosting("meta-llama/Llama-3.1-70B-Instruct", "l4x1", "transformers")
    assert "offload" not in {way.code for way in find_memory_savings(large, CATALOG)}


def test_a_fused_kernel_saves_the_scores() -> None:
    """A T4 and shared key heads: an older torch holds the scores of all tokens; an L4 has a kernel for them."""
    of = hosting(SMALL, "t4-small", "transformers", context_tokens=4096, requests=4)
    way = next(way for way in find_memory_savings(of, CATALOG) if way.code == "kernel")
    assert way.saved_bytes == attention_scores(of.spec, of.memory_request, of.silicon) > 0
    assert "kernel" not in {way.code for way in find_memory_savings(hosting(SMALL, "l4x1", "transformers"), CATALOG)}


def test_llama_cpp_leaves_as_few_layers_to_the_processor_as_it_must() -> None:
    """70B in four bits on an A10G: one layer more than those that stay on the card would not fit; where all fit, three quarters stay."""
    of = hosting("meta-llama/Llama-3.1-70B-Instruct", "a10g-large", "llama.cpp", precision="gguf:Q4_K_M")
    assert not of.fit().fits
    way = next(way for way in find_memory_savings(of, CATALOG) if way.code == "layers_on_host")
    kept = way.needs["gpu_layers"]
    assert isinstance(kept, int)
    assert replace(of, gpu_layers=kept).fit().fits
    assert not replace(of, gpu_layers=kept + 1).fit().fits
    assert way.needs["host_bytes"] == replace(of, gpu_layers=kept).estimate().host_bytes > 0
    assert way.tpot_ratio is None or way.tpot_ratio > 0
    easy = next(way for way in find_memory_savings(hosting(SMALL, "RTX-4090", "llama.cpp"), CATALOG) if way.code == "layers_on_host")
    assert easy.needs["gpu_layers"] == 28 * 3 // 4
    assert easy.tpot_ratio is not None
    assert easy.tpot_ratio > 1


def test_llama_cpp_leaves_as_few_experts_to_the_host_as_it_must() -> None:
    """gpt-oss-20b on a card of 12 GB lacks half a GiB (ollama#11688): experts of one layer less in RAM would not do."""
    of = hosting("openai/gpt-oss-20b", "RTX-4070", "llama.cpp")
    assert not of.fit().fits
    found = find_memory_savings(of, CATALOG)
    ways = {way.code: way for way in found}
    experts, layers = ways["experts_on_host"], ways["layers_on_host"]
    least = experts.needs["cpu_moe_layers"]
    assert isinstance(least, int)
    assert experts.fits
    assert not replace(of, serving=Serving(cpu_moe_layers=least - 1)).fit().fits
    assert experts.tpot_ratio is None  # today's setup does not fit and has no speed
    assert (experts.tokens_per_s or 0) > (layers.tokens_per_s or 0) > 0
    assert [found[0].code, found[-1].code] == ["experts_on_host", "more_devices"]


@pytest.mark.parametrize(
    ("engine", "serving", "longest", "most"),
    [
        ("vllm", {"max_model_len": 4096, "max_num_seqs": 2}, (4096, "max_model_len"), (2, "max_num_seqs")),
        ("vllm", {"max_num_seqs": 999}, (None, "memory"), (None, "memory")),  # memory holds fewer
        ("vllm", {"max_model_len": 120_000}, (0, "max_model_len"), (0, "max_model_len")),  # vLLM does not start
        ("vllm", {"kv_cache_memory_bytes": 20_000_000_000}, (0, "kv_cache_memory_bytes"), (0, "kv_cache_memory_bytes")),  # nor here
        ("vllm", {"kv_cache_memory_bytes": 1_073_741_824}, (8192, "memory"), (2, "memory")),  # 8 heads of 2 · 128 in 32 layers, 2 bytes
        ("llama.cpp", {"ctx_size": 8192}, (8192, "ctx_size"), (2, "ctx_size")),
        ("llama.cpp", {"ctx_size": 8192, "parallel": 2}, (4096, "ctx_size"), (2, "parallel")),
        ("llama.cpp", {"ctx_size": 120_000}, (0, "ctx_size"), (0, "ctx_size")),
    ],
)
def test_a_stated_setting_is_named_where_it_is_what_limits(
    engine: Engine, serving: dict[str, int], longest: tuple[int | None, str], most: tuple[int | None, str]
) -> None:
    """On an L4 an 8B in 16 bits holds five requests of 4,096 tokens; below that a stated setting bounds them, not the memory."""
    of = hosting(hardware="l4x1", engine=engine, serving=Serving(**serving))  # type: ignore[arg-type]
    for found, (value, name) in ((find_longest_context(of, NONE), longest), (find_most_requests(of, NONE), most)):
        assert found.limited_by == name
        assert value in {None, found.value}
