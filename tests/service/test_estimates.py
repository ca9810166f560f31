"""What an answer leaves open is told in each answer it concerns."""

from __future__ import annotations

from typing import Any

from written import ask

from lib import catalog
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.memory import memory_answer
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.resolve_model import model_answer
from lib.workload import MemoryRequest

CATALOG = catalog.load()


def spec(name: str) -> ModelSpec:
    """A bundled model."""
    found = bundled.find_spec(name)
    assert found is not None, name
    return found


def codes(name: str, **request: object) -> set[str]:
    """Codes of `/estimate_memory`."""
    return {caveat.code for caveat in memory_answer(spec(name), MemoryRequest(**request), CATALOG).caveats}  # type: ignore[arg-type]


def test_the_memory_answer_tells_what_is_open_about_the_model() -> None:
    """Gemma 3 27B's published file leaves sizes out: that stands beside what is open about the estimate."""
    assert {"class_defaults", "one_prompt"} <= codes("google/gemma-3-27b-it")
    answer = memory_answer(spec("google/gemma-3-27b-it"), MemoryRequest(), CATALOG)
    assert {"configuration", "runtime"} <= {source.what for source in answer.sources}


def test_scores_of_a_whole_prompt_are_explained() -> None:
    """gpt-oss has no fused kernel in transformers: at 32k tokens its scores outweigh the model, and the caveat says why."""
    answer = memory_answer(spec("openai/gpt-oss-20b"), MemoryRequest(context_tokens=32768), CATALOG)
    assert any(caveat.code == "one_prompt" and "scores" in sentence(caveat) for caveat in answer.caveats)


def test_a_dtype_that_nobody_states_is_a_guess_and_said_to_be_one() -> None:
    """GPT-2's config names no dtype (its files are float32): 16 bits are a guess; with a precision asked for there is nothing to guess."""
    assert "dtype_unstated" in codes("openai-community/gpt2")
    assert "dtype_unstated" in {caveat.code for caveat in model_answer(spec("openai-community/gpt2")).caveats}
    assert "dtype_unstated" not in codes("openai-community/gpt2", precision="fp32")
    assert "dtype_unstated" not in codes("Qwen/Qwen3-8B")


def test_a_context_beyond_the_model_is_cut_and_said_first() -> None:
    """GPT-2 knows 1,024 positions: 4,096 tokens, the default, are counted as 1,024, and the first caveat says so."""
    cut, whole = (memory_answer(spec("openai-community/gpt2"), MemoryRequest(context_tokens=at), CATALOG) for at in (4096, 1024))
    assert cut.kv_cache_bytes == whole.kv_cache_bytes
    assert cut.caveats[0].code == "context_cut"
    assert "context_cut" not in codes("openai-community/gpt2", context_tokens=1024)


def test_that_bitsandbytes_leaves_experts_alone_is_told() -> None:
    """Mixtral in NF4 still takes 91 GB: 45.1 of its 46.7 billion parameters are experts, in fused tensors. A dense model has none."""
    assert "experts_not_converted" in codes("mistralai/Mixtral-8x7B-Instruct-v0.1", precision="bnb-nf4")
    assert "experts_not_converted" not in codes("mistralai/Mixtral-8x7B-Instruct-v0.1", precision="awq-4")
    assert "experts_not_converted" not in codes("Qwen/Qwen3-8B", precision="bnb-nf4")


def test_answers_that_count_differently_say_so() -> None:
    """The same question gets other figures where another page counts other requests, steps or tokens: each of the two says what it counts.

    Eight requests at 4,096 tokens: servers are judged by eight usual ones, ZeroGPU lends each call a card. A page names no card, so vLLM's
    activations are those of 8,192 tokens, and of an L4 those of 2,048. Two questions about training accumulate one and eight micro-batches.
    """
    llama = "meta-llama/Llama-3.1-8B-Instruct"
    app = App(catalog=lambda: CATALOG, models=Models())
    asked, train = ask(recommend, app), ask(estimate_training, app)

    def read_messages(answer: Any) -> dict[str, str]:
        return {entry["code"]: entry["message"] for entry in answer["caveats"]}

    many = read_messages(asked(llama, concurrency=8, context_tokens=4096))
    assert "8 requests of 768 tokens (your prompt and answer" in many["usual_lengths"]
    assert "one request at a time, not of 8" in many["calls_not_shared"]
    assert not {"usual_lengths", "calls_not_shared"} & read_messages(asked(llama, concurrency=1)).keys()
    assert "usual_lengths" not in read_messages(asked(llama, concurrency=8, prompt_tokens=3840, output_tokens=256))
    assert "step_tokens" in codes(llama, engine="vllm")
    assert "step_tokens" not in codes(llama, engine="transformers")
    assert "8 micro-batches" in read_messages(train(llama, method="full"))["training_accumulates"]
    assert "training_accumulates" not in read_messages(train(llama, method="full", accumulation=1))
