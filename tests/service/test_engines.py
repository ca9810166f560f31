"""Questions about every engine: what it runs, where it runs, and the sentences of what it does not."""

from __future__ import annotations

import re

import pytest
from written import ask, services

from lib.catalog import load
from lib.engines import ENGINES, TRAITS, Engine
from lib.errors import BadArgument
from lib.service.endpoint import App
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.speed import estimate_speed

LLAMA, BERT, EMBEDDER = "meta-llama/Llama-3.1-8B-Instruct", "BAAI/bge-small-en-v1.5", "Qwen/Qwen3-Embedding-0.6B"
MEMORY, SPEED = services().estimate_memory, services().estimate_speed
SERVERS: tuple[Engine, ...] = ("vllm", "sglang", "tensorrt-llm", "tgi")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_answers_for_a_model_that_it_runs(engine: Engine) -> None:
    """With the engine's name, parts that add up, and a caveat where it claims a share of the device."""
    answer = MEMORY(BERT if engine == "tei" else LLAMA, engine=engine)
    assert answer["engine"] == engine
    assert sum(part["bytes"] for part in answer["parts"]) == answer["total_bytes"]
    assert ("preallocates" in {one["code"] for one in answer["caveats"]}) == TRAITS[engine].preallocates


@pytest.mark.parametrize("engine", SERVERS)
def test_servers_run_as_many_as_fit(engine: Engine) -> None:
    """128 users of Llama-3.1-8B on an L4: one law for the largest batch and for the requests that run at once."""
    hardware = "L40S" if engine == "tensorrt-llm" else "l4x1"
    answer = SPEED(LLAMA, hardware, engine=engine, concurrency=128)
    assert answer["engine"] == engine
    assert 20 < answer["running_requests"] <= 128
    assert answer["throughput_tokens_per_s"]


@pytest.mark.parametrize(
    ("model", "engine", "able"),
    [
        (LLAMA, "tei", "transformers, vllm, sglang, tensorrt-llm, tgi, llama.cpp, vllm-tpu for a model that makes text token by token"),
        ("google-t5/t5-base", "vllm", "transformers, tgi for a model that reads one text and writes another"),
        (BERT, "tgi", "transformers, vllm, sglang, tei, llama.cpp for a model that reads text in one pass"),
        (EMBEDDER, "tensorrt-llm", "transformers, vllm, sglang, tei, llama.cpp, vllm-tpu for a model that embeds or ranks text"),
        ("google/vit-base-patch16-224", "vllm", "transformers for a model that reads pictures, sound"),
        ("black-forest-labs/FLUX.1-schnell", "vllm", "transformers for a model that makes pictures"),
    ],
)
def test_a_model_that_an_engine_does_not_run_is_refused(model: str, engine: Engine, able: str) -> None:
    """By memory and speed alike, with the engines that do run it."""
    for question in (lambda: MEMORY(model, engine=engine), lambda: SPEED(model, "l4x1", engine=engine)):
        with pytest.raises(BadArgument, match=re.escape(f"engine was '{engine}'. Accepted: {able}")):
            question()


def test_tei_is_timed_as_compiled_encoders_are() -> None:
    """Its only published point, on which nothing was fitted: bge-large on an L4 reads 62,192 tokens/s (infinity's benchmark, 256 × 449)."""
    assert MEMORY(BERT, engine="tei", precision="fp16")["kv_cache_bytes"] == 0
    answer = SPEED("BAAI/bge-large-en-v1.5", "l4x1", engine="tei", precision="fp16", prompt_tokens=449, concurrency=256)
    assert answer["throughput_tokens_per_s"] == pytest.approx(62_192, rel=0.2)
    assert "engine_replaced" in {one["code"] for one in answer["caveats"]}


@pytest.mark.parametrize("engine", [*SERVERS, "tei"])
def test_a_server_that_is_asked_for_is_picked_on_a_docker_space(engine: Engine) -> None:
    """With eight requests at a time; the free CPU is no obstacle that is left unsaid."""
    answer = services().recommend(BERT if engine == "tei" else LLAMA, engine=engine, concurrency=8)
    assert answer["pick"] is not None
    assert (answer["pick"]["engine"], answer["pick"]["sdk"]) == (engine, "docker")
    assert {one["engine"] for one in answer["ranked"]} == {engine}


def test_a_checkpoint_that_an_engine_does_not_load() -> None:
    """TGI has no kernels for MXFP4: gpt-oss is refused with that reason, not with a wrong size."""
    answer = services().recommend("openai/gpt-oss-20b", engine="tgi")
    assert answer["pick"] is None
    assert "tgi does not load mxfp4." in {one["reason"] for one in answer["rejected"]}


@pytest.mark.parametrize(("engine", "hardware"), [("tensorrt-llm", "t4-small"), ("tensorrt-llm", "cpu-upgrade"), ("vllm-tpu", "l4x1")])
def test_an_engine_on_silicon_that_it_does_not_run_on(engine: Engine, hardware: str) -> None:
    """Speed is refused with the engines that run there; in the table of memory it does not fit."""
    with pytest.raises(BadArgument, match=rf"engine was '{engine}'. Accepted: transformers"):
        SPEED("Qwen/Qwen3-0.6B", hardware, engine=engine)
    entry = next(one for one in MEMORY("Qwen/Qwen3-0.6B", engine=engine)["fits"] if one["hardware"] == hardware)
    assert (entry["fits"], entry["max_context_tokens"], entry["max_batch_size"]) == (False, 0, 0)
    assert entry["free_bytes"] > 0


def test_zerogpu_runs_pytorch_in_the_spaces_own_process() -> None:
    """A server does not fit ZeroGPU, however large its slice; transformers does."""
    held = {engine: {one["hardware"]: one["fits"] for one in MEMORY(LLAMA, engine=engine)["fits"]} for engine in ("vllm", "transformers")}
    assert (held["vllm"]["zero-a10g"], held["transformers"]["zero-a10g"]) == (False, True)


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash", "zai-org/GLM-5"])
def test_sparse_attention_is_not_advised_below_hopper(model: str) -> None:
    """An indexer chooses what attention reads: no engine is known to start with it on an A100 (vllm issue 40851, sglang issue 35420)."""
    app = App(catalog=load, models=Models(), quantized=lambda _: {})
    answer = ask(recommend, app)(model, platforms="spaces,jobs,endpoints", limit=1_000)
    assert answer["pick"] is not None
    assert "H200" in answer["pick"]["accelerator"] or answer["pick"]["engine"] == "llama.cpp"
    assert {entry["engine"] for entry in answer["ranked"] if "a100" in entry["hardware"]} <= {"llama.cpp"}  # attends to all tokens
    for refused in (row for row in answer["rejected"] if row["hardware"] == "a100x8"):
        assert refused["reason_code"] == "sparse_attention"
        assert "Hopper" in refused["reason"]
    fits = ask(estimate_memory, app)(model, engine="vllm", precision="awq-4")["fits"]
    assert not any(row["fits"] for row in fits if "a100" in row["hardware"])
    for question in (estimate_speed, solve):
        with pytest.raises(BadArgument, match="engine was 'vllm'"):
            ask(question, app)(model, "spaces:a100x8", engine="vllm", precision="awq-4")


def test_an_engine_that_does_not_list_a_model_comes_last() -> None:
    """Llama 3.2 Vision left vLLM after 0.10.2; other servers list it and are advised, and vLLM says that it is untested."""
    model = "meta-llama/Llama-3.2-11B-Vision-Instruct"
    app = App(catalog=load, models=Models(), quantized=lambda _: {})
    asked = ask(recommend, app)
    pick = asked(model, concurrency=8, platforms="endpoints")["pick"]
    assert pick["engine"] in {"sglang", "tensorrt-llm", "tgi"}
    forced = asked(model, concurrency=8, platforms="endpoints", engine="vllm")["pick"]
    assert "engine_untested" in {reason["code"] for reason in forced["reasons"]}
    assert any("no longer lists MllamaForConditionalGeneration" in reason["message"] for reason in forced["reasons"])


def test_an_encoder_decoder_is_not_served_by_llama_server() -> None:
    """llama.cpp issue 26565: own cards and a CPU get another engine; asked for, it is refused with what does run it."""
    app = App(catalog=load, models=Models(), quantized=lambda _: {})
    own = ask(recommend, app)("google/flan-t5-xxl", own_hardware="RTX-4090")["own"]["runs_as"]
    assert own["engine"] != "llama.cpp"
    answer = ask(recommend, app)("google/flan-t5-xxl", engine="llama.cpp")
    assert answer["pick"] is None
    assert {row["reason_code"] for row in answer["rejected"]} <= {"engine_not_here", "cpu_basic_needs_plan"}
