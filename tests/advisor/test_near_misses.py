"""Where nothing qualifies, the answer names what comes closest and the change that admits it."""

from __future__ import annotations

from decimal import Decimal

from lib.advisor import Recommendation, recommend
from lib.catalog import load
from lib.model.bundled import find_spec
from lib.model.resolve import resolve_count
from lib.present.sentences import sentence
from lib.workload import Workload

CATALOG = load()


def ask(model: str, workload: Workload) -> Recommendation:
    """The answer for a bundled model."""
    spec = find_spec(model)
    assert spec is not None
    return recommend(spec, workload, CATALOG)


def near_misses(answer: Recommendation) -> dict[str, str]:
    """The sentence of each kind of near miss."""
    return {note.variant: sentence(note) for note in answer.notes if note.code == "near_miss"}


def test_a_budget_that_is_too_small_names_the_next_price_and_the_context_that_fits() -> None:
    """70B for ten users at $1,500: an A100 costs $1,800, and an L40S holds a shorter context."""
    workload = Workload(concurrency=10, requests_per_day=5000, context_tokens=8192, max_usd_per_month=Decimal(1500))
    answer = ask("meta-llama/Llama-3.3-70B-Instruct", workload)
    assert answer.pick is None
    said = near_misses(answer)
    assert "$1,800 a month is the cheapest that fits (Nvidia A100 - large); your $1,500 pays 20 hours a day" in said["hours"]
    assert "L40S runs it with 1,216 tokens of context" in said["context"]


def test_free_hardware_that_only_the_format_rules_out_is_named() -> None:
    """A GGUF file does not run on ZeroGPU, the model does; where ZeroGPU is the pick, nothing is hidden."""
    asked = Workload(account="pro", max_usd_per_month=Decimal(25), precision="gguf:Q4_K_M")
    said = near_misses(ask("Qwen/Qwen3-4B", asked))
    assert said["format"].startswith("ZeroGPU (large) is free and runs it in bf16 with transformers")
    assert "CPU Upgrade writes about 12 tokens/s" in said["speed"]
    paid = ask("Qwen/Qwen3-4B", Workload(account="pro", engine="vllm"))
    assert paid.pick is not None
    assert set(near_misses(paid)) == {"format"}
    assert near_misses(ask("Qwen/Qwen3-4B", Workload(account="pro"))) == {}


def test_encoders_for_several_visitors_run_on_the_server_that_batches() -> None:
    """500 pairs a second need batches: TEI makes them, an app of one's own only if it hands requests over together, which is then said."""
    busy = Workload(requests_per_day=43_200_000, concurrency=32, prompt_tokens=300, context_tokens=512)
    pick = ask("BAAI/bge-reranker-large", busy).pick
    assert pick is not None
    assert (pick.engine, pick.precision) == ("tei", "fp16")
    alone = ask("BAAI/bge-reranker-large", Workload(requests_per_day=1000)).pick
    assert alone is not None
    assert alone.engine == "transformers"
    assert "app_batches" not in {reason.code for reason in alone.reasons}
    gradio = ask("BAAI/bge-reranker-large", Workload(concurrency=32, sdk="gradio", platforms=("spaces",))).pick
    assert gradio is not None
    assert "run 32 requests as one batch" in next(sentence(reason) for reason in gradio.reasons if reason.code == "app_batches")


def test_a_large_bare_count_is_said_to_be_dense() -> None:
    """Of 120B most models are mixtures of experts."""
    assert "counted as a dense decoder" in " ".join(map(sentence, resolve_count("120B").caveats))
    assert "dense" not in " ".join(map(sentence, resolve_count("70B").caveats))


def test_a_card_of_the_catalog_that_reaches_the_minimum_speed_is_named_and_fewer_own_cards_may_do() -> None:
    """300 tokens/s of a Qwen3-30B-A3B: nothing for rent writes them, a B200 does, and two B200 do not: they exchange results."""
    spec = find_spec("Qwen/Qwen3-30B-A3B")
    assert spec is not None
    answer = recommend(spec, Workload(min_tokens_per_s=300), CATALOG, own=CATALOG.resolve_hardware("B200x2"))
    assert answer.pick is None
    card = next(note for note in answer.notes if (note.code, note.variant) == ("near_miss", "card"))
    assert card.values["hardware"] == "B200"
    assert answer.own is not None
    assert answer.own.runs_as is not None
    assert answer.own.runs_as.speed.tokens_per_s == card.values["tokens_per_s"]
    assert (answer.own.offer.id, answer.own.runs_as.hardware, answer.own.runs_as.devices) == ("B200x2", "B200", 1)
    assert any(sentence(reason).startswith("Use 1 of your 2 cards") for reason in answer.own.runs_as.reasons)
    assert "card" not in near_misses(ask("Qwen/Qwen3-30B-A3B", Workload(min_tokens_per_s=50_000)))
