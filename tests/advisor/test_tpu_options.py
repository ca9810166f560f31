"""A model on slices of TPU: chips worked by hand, support, prices, the old advice, and what the decision is told."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import pytest

from lib.advisor.recommend import recommend
from lib.advisor.tpu_options import (
    TpuOptions,
    apply_claim,
    check_guidance,
    find_general_values,
    find_tpu_options,
    list_region_prices,
    rescale_usd_per_million,
)
from lib.catalog import load
from lib.catalog.gpu_or_tpu import load_tpu_software
from lib.service.models import Models
from lib.workload import Workload

CATALOG, SOFTWARE, MODELS = load(), load_tpu_software(), Models()


@cache
def options(model: str, *, context: int = 4096, concurrency: int = 1, precision: str = "bf16", max_ttft_s: float = 0) -> TpuOptions:
    """The options of a bundled model."""
    work = Workload(context_tokens=context, concurrency=concurrency, precision=precision)
    return find_tpu_options(MODELS(model), work, CATALOG, SOFTWARE, max_ttft_s=max_ttft_s)


# vLLM claims 0.9 of a chip's usable memory: v5e 0.9 × 15.75 GiB = 15.2 GB, v6e 0.9 × 31.25 GiB = 30.2 GB, v5p 0.9 × 93.5 GiB = 90.4 GB,
# TPU7x 0.9 × 189 GiB = 182.6 GB. Slices have 1, 4, 8, 16, ... chips of v5e and v6e, and at least 4 of v5p and TPU7x.
# bf16: two bytes per parameter; cache of one sequence of 4,096 tokens = 2 × 2 bytes × layers × key/value heads × width × 4,096.
# A chip holds weights / N + cache / N, and some 0.3 to 1.2 GB of activations beside.
CHIPS: tuple[tuple[str, int | None, int | None, int, int], ...] = (
    # 0.12 billion × 2 = 0.25 GB: one chip of any kind.
    ("openai-community/gpt2", 1, 1, 4, 4),
    # 0.60 × 2 = 1.2 GB, cache 2·2·28·8·128·4096 = 0.47 GB.
    ("Qwen/Qwen3-0.6B", 1, 1, 4, 4),
    # 1.24 × 2 = 2.5 GB, cache 2·2·16·8·64·4096 = 0.13 GB.
    ("meta-llama/Llama-3.2-1B-Instruct", 1, 1, 4, 4),
    # 2.51 × 2 = 5.0 GB, one key/value head of 256: 2·2·18·1·256·4096 = 0.08 GB; the vocabulary of 256,000 makes 1 GB of logits.
    ("google/gemma-2b", 1, 1, 4, 4),
    # 3.21 × 2 = 6.4 GB, cache 2·2·28·8·128·4096 = 0.47 GB.
    ("meta-llama/Llama-3.2-3B-Instruct", 1, 1, 4, 4),
    # 8.03 × 2 = 16.1 GB > 15.2, so four chips of v5e: 4.0 + 0.13; 16.1 + 0.54 + 0.6 = 17.2 < 30.2 on one of v6e.
    ("meta-llama/Llama-3.1-8B-Instruct", 4, 1, 4, 4),
    # 8.19 × 2 = 16.4 GB > 15.2; with cache 2·2·36·8·128·4096 = 0.60 GB below 30.2.
    ("Qwen/Qwen3-8B", 4, 1, 4, 4),
    # 8.54 × 2 = 17.1 GB > 15.2; 16 key/value heads of 256: 2·2·28·16·256·4096 = 1.88 GB, 19 + 1.1 < 30.2.
    ("google/gemma-7b", 4, 1, 4, 4),
    # 20.9 × 2 = 41.8 GB > 30.2; over four chips 10.5 GB each. On v6e its kernel is reported not to compile.
    ("openai/gpt-oss-20b", 4, None, 4, 4),
    # 32.8 × 2 = 65.5 GB: 16.4 each on four of v5e is too much, 8.2 on eight is not; 16.4 on four of v6e.
    ("Qwen/Qwen3-32B", 8, 4, 4, 4),
    # 46.7 × 2 = 93.4 GB: 23.4 each on four (v6e holds it), 11.7 on eight of v5e.
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", 8, 4, 4, 4),
    # 70.6 × 2 = 141 GB: 17.6 each on eight of v5e is too much, 8.8 on sixteen; on v6e 35 on four, 17.6 on eight; v5p 35 on four.
    ("meta-llama/Llama-3.1-70B-Instruct", 16, 8, 4, 4),
    # 72.7 × 2 = 145 GB: as above.
    ("Qwen/Qwen2.5-72B-Instruct", 16, 8, 4, 4),
    # 671 × 2 = 1,342 GB in bf16: v5e 21 on 64, 10.5 on 128; v6e 42 on 32, 21 on 64; v5p 168 on eight, 42 on 32 (there is no slice of 16);
    # TPU7x 335 on four, 168 on eight.
    ("deepseek-ai/DeepSeek-V3", 128, 64, 32, 8),
)


@pytest.mark.parametrize(("model", "v5e", "v6e", "v5p", "tpu7x"), CHIPS, ids=[row[0] for row in CHIPS])
def test_chips_needed_are_those_worked_by_hand(model: str, v5e: int | None, v6e: int, v5p: int, tpu7x: int) -> None:
    """The smallest slice of each generation that holds one sequence of 4,096 tokens."""
    needed = {option.generation.id: option.chips_needed for option in options(model).generations}
    assert needed == {"v5e": v5e, "v5p": v5p, "v6e": v6e, "tpu7x": tpu7x}


def test_more_sequences_never_take_fewer_chips() -> None:
    """64 sequences of 8,192 tokens: 64 × 1.07 GB of cache do not fit one v6e chip beside 16 GB of weights, nor four with 17 + 4."""
    few, many = options("meta-llama/Llama-3.1-8B-Instruct"), options("meta-llama/Llama-3.1-8B-Instruct", context=8192, concurrency=64)
    for before, after in zip(few.generations, many.generations, strict=True):
        assert before.chips_needed is not None
        assert after.chips_needed is not None
        assert after.chips_needed >= before.chips_needed
    assert {option.generation.id: option.chips_needed for option in many.generations}["v6e"] == 4


def test_chips_of_slices_that_share_the_requests_are_added_up() -> None:
    """256 sequences of 16,384 tokens hold 256 × 2.1 GB of cache: no slice of v6e splits it over more than the 8 key/value heads."""
    crowd = {each.generation.id: each for each in options("meta-llama/Llama-3.1-8B-Instruct", context=16_384, concurrency=256).generations}
    smallest = crowd["v6e"].smallest
    assert smallest is not None
    assert smallest.replicas > 1
    assert crowd["v6e"].chips_needed == smallest.replicas * smallest.offer.accelerator_count


def test_the_cheapest_keeps_the_limit_on_the_first_token() -> None:
    """A limit can only make the price per token higher, and what keeps none is not named."""
    free, bound = options("Qwen/Qwen3-32B", concurrency=8), options("Qwen/Qwen3-32B", concurrency=8, max_ttft_s=0.2)
    for before, after in zip(free.generations, bound.generations, strict=True):
        if before.cheapest is not None and after.cheapest is not None and after.cheapest.speed.predicted is not None:
            assert after.cheapest.speed.predicted.ttft_s.value <= 0.2
            assert _usd(after.cheapest) >= _usd(before.cheapest)
    nobody = options("Qwen/Qwen3-32B", concurrency=8, max_ttft_s=1e-6)
    assert [option.cheapest for option in nobody.generations] == [None] * 4
    assert nobody.gpu == ()
    assert nobody.findings.ttft == "neither"


def _usd(entry: object) -> Decimal:
    price = entry.cost.usd_per_million_output_tokens  # type: ignore[attr-defined]
    assert isinstance(price, Decimal)
    return price


def test_gpu_offers_come_once_for_each_card_and_cheapest_first() -> None:
    """The same card at the same count is one row, whoever rents it out."""
    found = options("meta-llama/Llama-3.1-8B-Instruct", concurrency=8).gpu
    assert len({(entry.offer.accelerator, entry.offer.accelerator_count) for entry in found}) == len(found) > 1
    assert [_usd(entry) for entry in found] == sorted(_usd(entry) for entry in found)


@pytest.mark.parametrize(
    ("model", "architecture", "chip", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", "TPU-v6e", "passing"),
        ("META-LLAMA/llama-3.1-8b-instruct", "", "TPU7x", "passing"),
        ("someone/llama-of-mine", "LlamaForCausalLM", "TPU-v6e", "same_class"),
        ("openai/gpt-oss-20b", "GptOssForCausalLM", "TPU7x", "same_class"),  # gpt-oss-120b passes there
        ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", "TPU-v5e", "other_generation"),  # recommended, but the matrix has no v5e
        ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", "TPU-v5p", "untested"),  # vLLM calls v5p experimental
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2ForCausalLM", "TPU-v6e", "implemented"),
        ("openai/gpt-oss-120b", "GptOssForCausalLM", "TPU-v6e", "failing"),
        ("google/gemma-4-26B-A4B-it", "Gemma4ForConditionalGeneration", "TPU-v5e", "failing"),
        ("google/gemma-4-26B-A4B-it", "Gemma4ForConditionalGeneration", "TPU-v6e", "not_enough_hbm"),
        ("mistralai/Mistral-Small-4-119B-2603", "", "TPU7x", "untested"),  # its unit test was not run
        ("nobody/knows", "", "TPU7x", "untested"),
    ],
)
def test_support_is_what_the_matrix_says(model: str, architecture: str, chip: str, expected: str) -> None:
    """Its own line first, then lines of its class, then the classes that are implemented."""
    assert expected == SOFTWARE.rate(model, architecture, chip)


def test_too_little_memory_is_said_of_the_tested_slices() -> None:
    """The tests ran on up to eight chips; a larger slice of v6e may hold the model."""
    large = ("google/gemma-4-26B-A4B-it", "Gemma4ForConditionalGeneration", "TPU-v6e")
    assert [SOFTWARE.rate(*large, chips) for chips in (8, 16)] == ["not_enough_hbm", "same_class"]


def test_recommend_reads_the_same_rows() -> None:
    """A model that is reported to fail is not offered, and an untested class does not come before a tested one."""
    answer, llama = (
        recommend(MODELS(model), Workload(platforms=("tpu",)), CATALOG)
        for model in ("google/gemma-4-26B-A4B-it", "meta-llama/Llama-3.1-8B-Instruct")
    )
    refused = {rejection.offer.id: (rejection.reason.code, rejection.reason.variant) for rejection in answer.rejected}
    assert (refused["v5litepod-8"], refused["v6e-8"]) == (("tpu_fails", ""), ("tpu_fails", "memory"))
    tested = {entry.offer.id: {reason.variant for reason in entry.reasons if reason.code == "tpu_tested"} for entry in answer.ranked}
    assert (tested["tpu7x-8"], tested["v6e-16"]) == ({"passing"}, {"same_class"})
    alone = [entry for entry in llama.ranked if entry.offer.tpu is not None and entry.offer.tpu.hosts == 1]
    untested = [any(reason.code == "tpu_untested" for reason in entry.reasons) for entry in alone]
    assert untested == sorted(untested)
    assert any(untested)


@pytest.mark.parametrize(("parameters", "advised"), [(1_200_000_000, 1), (2_000_000_000, 1), (2_000_000_001, 4), (70_000_000_000, 4)])
def test_the_old_advice(parameters: int, advised: int) -> None:
    """One chip up to two billion parameters, four above."""
    assert advised == check_guidance(parameters, None, SOFTWARE.guidance).advised


def test_the_old_advice_and_memory_disagree_both_ways() -> None:
    """gemma-2b (2.5 billion) was advised four chips and fits one; Qwen3-32B was advised four and takes eight."""
    small, large = options("google/gemma-2b").guidance, options("Qwen/Qwen3-32B").guidance
    assert (small.advised, small.by_laws) == (4, 1)
    assert (large.advised, large.by_laws) == (4, 8)


def test_prices_by_region_are_chips_times_the_chip_hour() -> None:
    """v6e-4 in us-central1: 4 × 2.70, spot 4 × 0.544208, one year 4 × 1.89, three years 4 × 1.22; europe-west4 has no such commitment."""
    prices = {price.region: price for price in list_region_prices(CATALOG.offer("v6e-4", "tpu"), SOFTWARE)}
    home = prices["us-central1"]
    assert (home.usd_per_hour, home.spot_usd_per_hour) == (Decimal("10.80"), Decimal("2.176832"))
    assert (home.one_year_usd_per_hour, home.three_years_usd_per_hour) == (Decimal("7.56"), Decimal("4.88"))
    assert prices["europe-west4"].usd_per_hour == Decimal("11.88")
    assert prices["europe-west4"].one_year_usd_per_hour is None
    assert prices["southamerica-west1"].spot_usd_per_hour is None
    assert list_region_prices(CATALOG.offer("l4x1", "spaces"), SOFTWARE) == ()


def test_half_the_price_per_hour_is_half_the_price_per_token() -> None:
    """The speed stays what it is."""
    entry = options("meta-llama/Llama-3.1-8B-Instruct").generations[2].smallest
    assert entry is not None
    half = rescale_usd_per_million(entry, entry.cost.usd_per_hour / 2)
    assert half is not None
    assert float(half * 2) == pytest.approx(float(_usd(entry)))


def test_a_claim_is_a_factor_and_changes_no_prediction() -> None:
    """1.5 to 2 times the tokens, 1 / 2 to 1 / 1.5 of the price."""
    entry = options("meta-llama/Llama-3.1-8B-Instruct", concurrency=8).generations[2].smallest
    assert entry is not None
    claimed = apply_claim(entry, _usd(entry), SOFTWARE.torchtpu_claim)
    assert claimed is not None
    assert float(claimed.usd_per_million_low * 2) == pytest.approx(float(_usd(entry)))
    assert claimed.tokens_per_s_high / claimed.tokens_per_s_low == pytest.approx(2 / 1.5)


@pytest.mark.parametrize("model", ["openai/whisper-large-v3", "stabilityai/stable-diffusion-xl-base-1.0"])
def test_a_model_that_no_engine_serves_on_a_tpu(model: str) -> None:
    """Speech and pictures: no configuration on any slice, and the decision is told so."""
    found = options(model)
    assert [option.chips_needed for option in found.generations] == [None] * 4
    assert found.findings.engine == "none_on_tpu"


def test_a_model_that_only_slices_hold() -> None:
    """DeepSeek-V3 in bf16 takes 1,342 GB; the largest GPU offer here has 8 × 139.8 GiB = 1,201 GB."""
    assert options("deepseek-ai/DeepSeek-V3").findings.fits == "no_gpu_offer"


def test_figures_for_sentences_come_from_the_catalog() -> None:
    """The largest slice has 6,144 chips, the largest GPU offer 8 cards, v6e does 918 TFLOP/s on 1,640 GB/s."""
    values = find_general_values(CATALOG, SOFTWARE)
    assert values["chips"] == {"largest_slice": 6144, "largest_gpu_offer": 8}
    assert values["latency"] == {"v6e_flop_per_byte": 560}
