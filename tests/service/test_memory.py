"""Arguments of /estimate_memory; /solve in-process: sentences, the cheapest tier; the search itself is tests/advisor/test_limits.py."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson
import pytest
from contract import ARGUMENTS, EXAMPLE, check_fields
from written import ask

from lib.catalog import load
from lib.errors import AdvisorError, BadArgument, UnsupportedModel
from lib.service.endpoint import App
from lib.service.memory import MemoryArguments, estimate_memory, solve
from lib.service.models import Models
from lib.service.recommend import recommend


def change_defaults(**changed: object) -> dict[str, object]:
    """The defaults of the contract, with changes."""
    return {**ARGUMENTS["estimate_memory"], "model": "7B", **changed}


@pytest.mark.parametrize(
    ("written", "meant"), [("bfloat16", "bf16"), ("torch.float16", "fp16"), ("q4_k_m", "gguf:Q4_K_M"), (" BNB-NF4 ", "bnb-nf4")]
)
def test_a_precision_is_understood_in_other_spellings(written: str, meant: str) -> None:
    """Words of torch and of llama.cpp, and any capitals."""
    assert MemoryArguments.model_validate(change_defaults(precision=written)).request.precision == meant


@pytest.mark.parametrize(
    "name", ["precision", "engine", "context_tokens", "batch_size", "kv_precision", "mode", "devices", "encoder_tokens"]
)
@pytest.mark.parametrize("value", [None, [], {}, float("nan"), -1, True, "\0", "x" * 1000, [[[[[]]]]]])
def test_each_argument_is_named_when_it_is_wrong(name: str, value: object) -> None:
    """Short sentences, whatever came."""
    with pytest.raises(BadArgument, match=f"^{name} was") as refusal:
        MemoryArguments.model_validate(change_defaults(**{name: value}))
    assert len(str(refusal.value)) < 400


APP = App(catalog=load, models=Models())
ASK: Any = ask(solve, APP)
RECOMMEND: Any = ask(recommend, APP)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_the_answer_keeps_the_contract() -> None:
    """Every field, and plain JSON without NaN."""
    answer = ASK(**EXAMPLE["solve"])
    check_fields("solve", answer)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.parametrize("mode", ["inference", "lora", "qlora", "full"])
def test_the_memory_of_every_mode_can_be_sent(mode: str) -> None:
    """The event stream's own writer takes it: its keys are plain texts."""
    answer = ask(estimate_memory, APP)(LLAMA, mode=mode)
    assert orjson.loads(orjson.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("model", "hardware", "others"),
    [
        (LLAMA, "l4x1", {"engine": "vllm", "max_ttft_s": 1, "min_tokens_per_s": 10}),
        (LLAMA, "t4-small", {}),
        (LLAMA, "zero-a10g", {"concurrency": 4, "max_ttft_s": 1e-9}),
        (LLAMA, "RTX-4090x2", {"engine": "sglang", "min_tokens_per_s": 1e5}),
        ("google-bert/bert-base-uncased", "cpu-upgrade", {"max_ttft_s": 1}),
        ("openai/whisper-large-v3", "a10g-small", {}),
        ("7B", "v6e-4", {"engine": "vllm-tpu"}),
        ("state-spaces/mamba-2.8b-hf", "l4x1", {}),
    ],
)
def test_every_answer_is_worded(model: str, hardware: str, others: dict[str, Any]) -> None:
    """No value is missing in a sentence, and what one more would pass is said for each."""
    answer = ASK(model, hardware, **others)
    for name in ("longest_context", "most_requests", "largest_batch"):
        assert answer[name]["message"]
        assert "{" not in answer[name]["message"]
    assert all(way["message"] and way["effect"] and "{" not in way["message"] for way in answer["memory_savings"])
    assert "full_length" in {caveat["code"] for caveat in answer["caveats"]}


def test_the_cheapest_tier_is_that_of_the_recommendation() -> None:
    """The lowest price of what /recommend lets pass within the limits; a tighter limit is never cheaper."""
    loose, tight = ASK(LLAMA, "l4x1", max_ttft_s=5)["cheapest"], ASK(LLAMA, "l4x1", max_ttft_s=0.3)["cheapest"]
    assert loose["usd_per_hour"] <= tight["usd_per_hour"]
    assert tight["ttft_s"] <= 0.3
    ranked = RECOMMEND(LLAMA, context_tokens=4096, prompt_tokens=3840, output_tokens=256, max_ttft_s=0.3, priority="cheapest")["ranked"]
    rented = [entry for entry in ranked if entry["platform"] == "spaces" and entry["speed"]["ttft_s"] and entry["speed"]["ttft_s"] <= 0.3]
    assert tight["usd_per_hour"] == min(entry["cost"]["usd_per_hour"] * entry["replicas"] for entry in rented)
    assert ASK(LLAMA, "l4x1", max_ttft_s=1e-6)["cheapest"] is None


def test_fewer_cards_that_meet_a_limit_are_named() -> None:
    """Two B200 miss 300 tokens/s, one reaches them; its tensor_parallel gives the same answer as one card."""
    asked = {"engine": "vllm", "precision": "fp8", "min_tokens_per_s": 300}
    both, single = (ASK("Qwen/Qwen3-30B-A3B", hardware, **asked) for hardware in ("B200x2", "B200"))
    said = next(caveat["message"] for caveat in both["caveats"] if caveat["code"] == "fewer_cards")
    assert (both["meets_limits"], single["meets_limits"]) == (False, True)
    assert f"On 1 card it meets them: about {single['tokens_per_s']:.0f} tokens/s" in said
    assert "fewer_cards" not in {caveat["code"] for caveat in single["caveats"]}


def test_releases_that_start_otherwise_are_told_with_their_figures() -> None:
    """A 7B without grouped queries on a 3090: vLLM 0.6 held 24,320 tokens at 32,768, newer ones more. 2 % of an A10G are 0.44 GiB."""
    sizes = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32}
    stored = {"quantization_config": {"bits": 4, "group_size": 128, "quant_method": "gptq"}, "torch_dtype": "float16"}
    seven = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 151936, "max_position_embeddings": 32768}
    answer = ASK(json.dumps(seven | sizes | stored | {"tie_word_embeddings": False}), "RTX-3090", engine="vllm")
    older = next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "whole_length_profiled")
    told = int(older.rpartition(" ")[2].rstrip("."))
    assert told < 24_320 < answer["longest_context"]["value"]
    assert abs(told / 24_320 - 1) < 0.1
    assert answer["server"]["kv_cache_tokens"] % 16 == 0
    full = {"engine": "vllm", "precision": "awq", "context_tokens": 2048}
    graphs = ASK("google/gemma-3-27b-it", "A10G", serving="--gpu-memory-utilization 0.98", **full)
    assert any(caveat["code"] == "graphs_outside_share" and "leaves 0.44 GiB" in caveat["message"] for caveat in graphs["caveats"])
    eager = ASK("google/gemma-3-27b-it", "A10G", serving="--gpu-memory-utilization 0.98 --enforce-eager", **full)
    assert "graphs_outside_share" not in {caveat["code"] for caveat in eager["caveats"]}


def test_a_context_beyond_the_model_is_cut_and_said() -> None:
    """BERT takes 512 tokens, and 4,096 are asked for when nothing is stated."""
    answer = ASK("google-bert/bert-base-uncased", "l4x1")
    assert (answer["context_tokens"], answer["longest_context"]["value"], answer["longest_context"]["limited_by"]) == (512, 512, "model")
    assert answer["caveats"][0]["code"] == "context_cut"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"hardware": "l4x0"}, "l4x0"),
        ({"context_tokens": 0}, "context_tokens was '0'"),
        ({"max_ttft_s": math.nan}, "max_ttft_s was 'nan'"),
        ({"min_tokens_per_s": -1}, "min_tokens_per_s was '-1'"),
        ({"hardware": "zero-a10g", "engine": "vllm"}, "engine was 'vllm'. Accepted: transformers on ZeroGPU"),
        ({"hardware": "v6e-4", "engine": "llama.cpp"}, "engine was 'llama.cpp'"),
        ({"platforms": "moon"}, "platforms was 'moon'"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], says: str) -> None:
    """In a sentence that names the argument."""
    with pytest.raises(AdvisorError) as refused:
        ASK(LLAMA, **({"hardware": "l4x1"} | asked))
    assert says in str(refused.value)


def test_pictures_are_refused() -> None:
    """A pipeline has no tokens to count."""
    with pytest.raises((UnsupportedModel, BadArgument)):
        ASK("stabilityai/stable-diffusion-xl-base-1.0", "l4x1")


def test_where_nothing_fits_the_format_that_does_is_named() -> None:
    """Qwen2.5-14B in 16 bits does not fit an RTX 4090 (29.5 GB); fewer bits do."""
    answer = ASK("Qwen/Qwen2.5-14B-Instruct", "RTX-4090", engine="vllm", precision="bf16")
    assert answer["longest_context"]["value"] == 0
    asked = re.search(r"precision=([\w-]+)", answer["longest_context"]["message"])
    assert asked
    longest = {}
    for tried in filter(lambda one: one["fits"], answer["precisions"]):
        again = ASK("Qwen/Qwen2.5-14B-Instruct", "RTX-4090", engine="vllm", precision=tried["precision"])
        longest[tried["precision"]] = again["longest_context"]["value"]
    assert longest[asked[1]] == max(longest.values()) > longest[answer["best_precision"]] > 0


def test_a_model_that_is_known_to_fail_does_not_fit() -> None:
    """Gemma 4 26B on v5e fails by a report, as /compare_gpu_tpu and /recommend say; and classes that an engine dropped are named."""
    answer = ASK("google/gemma-4-26B-A4B-it", "v5litepod-8", engine="vllm-tpu")
    assert (answer["fits"], answer["meets_limits"], answer["best_precision"]) == (False, False, None)
    assert {answer[name]["limited_by"] for name in ("longest_context", "most_requests", "largest_batch")} == {"support"}
    assert "tpu_fails" in {caveat["code"] for caveat in answer["caveats"]}
    fine = ASK(LLAMA, "v5litepod-8", engine="vllm-tpu")
    assert fine["fits"]
    dropped = ASK("meta-llama/Llama-3.2-11B-Vision-Instruct", "RTX-A4000x2", engine="vllm")
    assert "0.10.2" in next(caveat["message"] for caveat in dropped["caveats"] if caveat["code"] == "engine_untested")
