"""Settings of a server count in every endpoint that takes them, by the laws of the engine."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, UnknownHardware
from lib.hub.search import ProviderOffers
from lib.laws.runtime import VLLM_GRAPHS
from lib.request.serving import Serving, check_serving
from lib.service.cost import estimate_cost, ways_to_save
from lib.service.endpoint import App
from lib.service.explain import explain
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.simulate_batching import simulate_batching
from lib.service.speed import estimate_speed
from lib.service.write_files import write_files

APP = App(catalog=load, models=Models(), quantized=lambda _: {}, providers=lambda _: ProviderOffers(status="none"))
MEMORY, SOLVE, SPEED = (ask(question, APP) for question in (estimate_memory, solve, estimate_speed))
RECOMMEND, COST, SAVE, TRAFFIC = (ask(question, APP) for question in (recommend, estimate_cost, ways_to_save, simulate_batching))
EXPLAIN, FILES = ask(explain, APP), ask(write_files, APP)
MODEL, SMALL = "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"
L4 = load().resolve_hardware("l4x1").vram_bytes_per_accelerator or 0


def fit(hardware: str = "l4x1", **arguments: Any) -> dict[str, Any]:
    """The entry of `/estimate_memory` for a tier of Spaces."""
    answer = MEMORY(MODEL, **{"engine": "vllm", "context_tokens": 8192} | arguments)
    return next(entry for entry in answer["fits"] if (entry["platform"], entry["hardware"]) == ("spaces", hardware))


def speed(hardware: str = "l4x1", model: str = MODEL, **arguments: Any) -> dict[str, Any]:
    """The answer of `/estimate_speed`."""
    return SPEED(model, hardware, **{"engine": "vllm", "prompt_tokens": 2048} | arguments)


def test_the_share_moves_capacity_and_cache_by_as_much_of_the_card() -> None:
    """vLLM: exactly the difference of the shares; TGI's 1.0 is its default; SGLang's 0.5 leaves no cache."""
    usual, more = fit(), fit(serving={"gpu_memory_utilization": 0.95})
    assert more["capacity_bytes"] - usual["capacity_bytes"] == int(0.95 * L4) - int(0.9 * L4)
    assert more["free_bytes"] - usual["free_bytes"] == int(0.95 * L4) - int(0.9 * L4)
    token = 36 * 2 * 8 * 128 * 2  # bytes of one token in the cache of Qwen3-8B
    assert more["kv_cache_tokens"] - usual["kv_cache_tokens"] == pytest.approx(0.05 * L4 / token, abs=20)
    assert fit(engine="tgi", serving={"gpu_memory_utilization": 1})["capacity_bytes"] == fit(engine="tgi")["capacity_bytes"]
    sglang = fit(engine="sglang", serving={"gpu_memory_utilization": 0.5})
    assert not sglang["fits"]
    assert sglang["kv_cache_tokens"] == 0


def test_each_setting_of_memory_changes_its_figure() -> None:
    """In the direction and by the amount of the laws."""
    usual = fit()
    assert fit(serving={"cuda_graphs": False})["free_bytes"] - usual["free_bytes"] == VLLM_GRAPHS.typical
    assert fit(serving={"kv_cache_dtype": "fp8"}) == fit(kv_precision="fp8")
    assert fit(serving={"kv_cache_dtype": "fp8"})["kv_cache_tokens"] == pytest.approx(2 * usual["kv_cache_tokens"], rel=0.01)
    assert fit(serving={"max_num_batched_tokens": 16_384})["free_bytes"] < usual["free_bytes"]  # activations of a larger step
    longest = fit(serving={"max_model_len": 16_384})
    assert longest["max_context_tokens"] == 16_384
    assert longest["free_bytes"] < usual["free_bytes"]  # the server starts only with room for one such request
    assert not fit(serving={"max_model_len": 32_768})["fits"]
    assert fit(batch_size=64, serving={"max_num_seqs": 2})["fits"]
    assert fit(serving={"max_num_seqs": 2})["free_bytes"] - usual["free_bytes"] == 12 * (256 - 2) * 151_936  # logits of the run at start
    assert fit("l4x4", serving={"max_num_seqs": 4})["max_batch_size"] == 4
    eight = {"context_tokens": 1024, "batch_size": 8}
    assert fit(**eight, serving={"prefix_share": 0.5})["free_bytes"] - fit(**eight)["free_bytes"] == 7 * 384 * 36 * 2 * 8 * 128 * 2


def test_cards_are_split_as_stated() -> None:
    """Degrees, stages and copies in memory and speed, and what the machine or the model does not allow."""
    four, two = fit("l4x4"), fit("l4x4", serving={"tensor_parallel": 2})
    assert (four["devices"], two["devices"]) == (4, 2)
    assert two["free_bytes"] < four["free_bytes"]
    copies = fit("l4x4", batch_size=2, serving={"tensor_parallel": 2, "data_parallel": 2})
    assert (copies["devices"], copies["free_bytes"]) == (2, two["free_bytes"])  # each copy holds one of the two requests
    stages = fit("l4x4", serving={"tensor_parallel": 1, "pipeline_parallel": 4})
    assert stages["devices"] == 4
    assert stages["free_bytes"] == pytest.approx(four["free_bytes"], rel=0.1)
    assert not fit(serving={"tensor_parallel": 2})["fits"]
    rates = {name: speed("l4x4", concurrency=8, serving=of)["throughput_tokens_per_s"] for name, of in {
        "one": {"tensor_parallel": 1, "data_parallel": 1}, "four copies": {"tensor_parallel": 1, "data_parallel": 4},
        "two cards": {"tensor_parallel": 2}, "two copies": {"tensor_parallel": 2, "data_parallel": 2},
    }.items()}  # fmt: skip
    assert rates["four copies"] > rates["one"]
    assert rates["two copies"] > rates["two cards"] > rates["one"]
    with pytest.raises(BadArgument, match="at most 4, the devices of"):
        speed("l4x4", serving={"tensor_parallel": 4, "data_parallel": 2})
    with pytest.raises(BadArgument, match="1, 2, 4 for Qwen/Qwen3-8B"):
        speed("l4x4", serving={"tensor_parallel": 3})


def test_each_setting_of_speed_changes_its_figure() -> None:
    """Waiting, a cached prefix, kernels without graphs, a smaller cache."""
    usual = speed(concurrency=8)
    waiting = speed(concurrency=8, serving={"max_num_seqs": 4})
    assert waiting["running_requests"] == 4
    assert waiting["ttft_s"] > 5 * usual["ttft_s"]
    prefix = speed(serving={"prefix_share": 0.5})
    assert 0.4 < prefix["ttft_s"] / speed()["ttft_s"] < 0.65
    assert prefix["inter_token_s"] == pytest.approx(speed()["inter_token_s"])  # a token reads the whole cache
    small, unrecorded = speed("h100x1", SMALL), speed("h100x1", SMALL, serving={"cuda_graphs": False})
    assert unrecorded["inter_token_s"] > 3 * small["inter_token_s"]
    published = SPEED("Qwen/Qwen2.5-7B-Instruct", "A100-SXM4-80GB", engine="vllm", serving={"cuda_graphs": False})
    assert published["inter_token_s"] == pytest.approx(0.0225, rel=0.15)  # Qwen2.5-Omni-7B on an A800: vllm-omni issue 7960
    large = [speed(serving=of)["inter_token_s"] for of in ({}, {"cuda_graphs": False})]
    assert large[1] == pytest.approx(large[0], rel=0.05)  # an 8B model on an L4 reads its weights for longer than it launches
    assert speed(concurrency=8, serving={"kv_cache_dtype": "fp8"})["inter_token_s"] < usual["inter_token_s"]


def test_llama_cpp_allocates_its_slots_and_splits_layers() -> None:
    """All slots take their cells at start; -ngl is the argument gpu_layers."""
    usual, slots = fit(engine="llama.cpp"), fit(engine="llama.cpp", serving={"ctx_size": 32_768, "parallel": 4})
    assert usual["free_bytes"] - slots["free_bytes"] == 3 * 8192 * 36 * 2 * 8 * 128 * 2
    assert fit(engine="llama.cpp", serving={"gpu_layers": 20}) == fit(engine="llama.cpp", gpu_layers=20)
    rates = [speed(engine="llama.cpp", **of)["inter_token_s"] for of in ({"serving": {"gpu_layers": 20}}, {"gpu_layers": 20})]
    assert rates[0] == rates[1] > speed(engine="llama.cpp")["inter_token_s"]
    with pytest.raises(BadArgument, match="at least 32,768, because a request has 8,192 tokens"):
        fit(engine="llama.cpp", batch_size=4, serving={"ctx_size": 8192})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fit(kv_precision="int8", serving={"kv_cache_dtype": "fp8"}), "kv_precision was 'int8'. Accepted: fp8, as serving"),
        (lambda: fit(devices=4, serving={"tensor_parallel": 2}), "devices was '4'"),
        (lambda: fit(engine="llama.cpp", gpu_layers=10, serving={"gpu_layers": 20}), "gpu_layers was '10'"),
        (lambda: TRAFFIC(SMALL, "l4x1", max_batch_size=16, serving={"max_num_seqs": 8}), "max_batch_size was '16'"),
        (lambda: TRAFFIC(SMALL, "l4x1", token_budget=4096, serving={"max_num_batched_tokens": 512}), "token_budget was '4096'"),
        (lambda: TRAFFIC(SMALL, "l4x1", shared_prefix_tokens=9, serving={"prefix_share": 0.5}), "shared_prefix_tokens was '9'"),
        (lambda: fit(serving={"max_model_len": 4096}), "at least 8,192, because a request has 8,192 tokens"),
        (lambda: fit(serving={"max_model_len": 65_536}), "at most 40,960: Qwen/Qwen3-8B takes 40,960 tokens"),
        (lambda: RECOMMEND(MODEL, serving={"max_model_len": 1024}), "at least 4,096"),
        (lambda: SOLVE(MODEL, "l4x1", serving={"max_num_seqs": 4}), "transformers has no max_num_seqs"),
        (lambda: COST("l4x1", model=MODEL, serving={"max_num_seqs": 4}), "transformers has no max_num_seqs"),
    ],
)
def test_contradictions_and_settings_of_other_engines_are_refused(call: Any, says: str) -> None:
    """Two values of one thing, lengths that do not hold the request, settings that the engine lacks."""
    with pytest.raises(BadArgument) as refused:
        call()
    assert says in str(refused.value)


def test_recommend_takes_engines_and_cards_that_have_the_settings() -> None:
    """Only engines that have every setting, on enough cards, with the memory that it changes."""

    def ask_recommend(**serving: Any) -> dict[str, Any]:
        return RECOMMEND(MODEL, platforms="spaces", concurrency=16, context_tokens=8192, serving=serving)

    usual, graphs = ask_recommend(), ask_recommend(cuda_graphs=False)
    assert {entry["engine"] for entry in graphs["ranked"]} <= {"vllm", "sglang", "tgi"}
    free = {entry["hardware"]: entry["memory"]["free_bytes"] for entry in usual["ranked"] if entry["engine"] == "vllm"}
    entry = next(entry for entry in graphs["ranked"] if entry["hardware"] in free and entry["engine"] == "vllm")
    assert entry["memory"]["free_bytes"] - free[entry["hardware"]] == VLLM_GRAPHS.typical
    copies = ask_recommend(tensor_parallel=2, data_parallel=2)
    assert {entry["devices"] for entry in copies["ranked"]} == {2}
    assert all(entry["accelerator_count"] >= 4 for entry in copies["ranked"])
    assert {row["reason_code"] for row in copies["rejected"]} >= {"too_few_devices"}
    slots = ask_recommend(parallel=16, ctx_size=131_072)
    assert {entry["engine"] for entry in slots["ranked"]} == {"llama.cpp"}


def test_the_simulation_takes_the_settings_as_its_own_arguments() -> None:
    """The same answer as by max_batch_size, token_budget and shared_prefix_tokens; copies are replicas."""
    lengths = {"requests_per_s": 2, "duration_s": 60, "prompt_tokens": 512}
    own = TRAFFIC(SMALL, "l4x1", **lengths, max_batch_size=8, token_budget=1024, shared_prefix_tokens=256)
    stated = TRAFFIC(SMALL, "l4x1", **lengths, serving={"max_num_seqs": 8, "max_num_batched_tokens": 1024, "prefix_share": 0.5})
    assert stated == own
    assert TRAFFIC(SMALL, "l4x4", **lengths, serving={"tensor_parallel": 1, "data_parallel": 4})["replicas"] == 4


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi"])
@pytest.mark.parametrize(("requests", "context"), [(1, 4096), (3, 2048), (1, 9000)])
def test_the_least_share_holds_the_requests_and_a_hundredth_less_does_not(engine: str, requests: int, context: int) -> None:
    """Round trip through `/solve` itself; the cache at start holds as many tokens as the requests have."""
    asked: dict[str, Any] = {"engine": engine, "concurrency": requests, "context_tokens": context}
    server = SOLVE(MODEL, "l4x1", **asked)["server"]
    least = server["least_gpu_memory_utilization"]
    assert SOLVE(MODEL, "l4x1", **asked, serving={"gpu_memory_utilization": least})["fits"]
    assert not SOLVE(MODEL, "l4x1", **asked, serving={"gpu_memory_utilization": round(least - 0.01, 2)})["fits"]
    assert server["kv_cache_tokens"] >= requests * context
    assert server["kv_cache_bytes"] == pytest.approx(requests * context * 36 * 2 * 8 * 128 * 2, rel=0.01)
    size = {"vllm": server["kv_cache_bytes"] + requests * 16 * 36 * 2 * 8 * 128 * 2, "sglang": requests * context}.get(engine)
    assert (server["cache_flag"].rpartition(" ")[2] or None) == (None if size is None else str(size))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp"])
def test_files_and_limits_write_the_same_flags(engine: str) -> None:
    """The flags of `/solve` are those of the Dockerfile or the command that `/write_files` writes with the same settings."""
    asked: dict[str, Any] = {"engine": engine, "concurrency": 2, "context_tokens": 4096, "precision": "bf16"}
    if engine == "llama.cpp":
        asked |= {"precision": "gguf:Q8_0"}
    server = SOLVE(MODEL, "l40sx1", **asked, output_tokens=256)["server"]
    least = server["least_gpu_memory_utilization"]
    written = FILES(MODEL, "l40sx1", **asked, serving={} if least is None else {"gpu_memory_utilization": least})
    words = json.loads(written["files"]["Dockerfile"].partition("ENTRYPOINT ")[2].splitlines()[0])
    assert shlex.join(words).endswith(server["flags"])
    assert SOLVE(MODEL, "l4x1", **asked | {"concurrency": 64})["server"]["flags"] == ""


def test_explain_predicts_with_the_flags_of_the_text() -> None:
    """A pasted command and a printed configuration: cache and capacity are those of `/estimate_memory` with these settings."""
    settings = {"gpu_memory_utilization": 0.95, "kv_cache_dtype": "fp8", "cuda_graphs": False, "max_num_batched_tokens": 1024}
    line = f"vllm serve {MODEL} --max-model-len 8192 --gpu-memory-utilization 0.95 --kv-cache-dtype fp8 --max-num-batched-tokens 1024"
    found = EXPLAIN(f"{line}\nenforce_eager=True, tensor_parallel_size=1", hardware="l4x1", engine="vllm")["predicted"]
    expected = fit(serving=settings)
    assert (found["kv_cache_tokens"], found["engine_bytes"]) == (expected["kv_cache_tokens"], expected["capacity_bytes"])
    assert EXPLAIN(line, hardware="l4x1", engine="vllm")["predicted"]["kv_cache_tokens"] < found["kv_cache_tokens"]  # with CUDA graphs


def test_savings_of_a_server_with_settings_are_found() -> None:
    """Other engines and tiers are compared without the settings that they lack."""
    report = SAVE("l4x4", model=MODEL, engine="vllm", requests_per_day=1000, serving={"kv_cache_dtype": "fp8", "tensor_parallel": 2})
    assert report["ways"]


@pytest.mark.parametrize(
    ("hardware", "engine", "precision", "warned"),
    [
        ("v5litepod-8", "vllm-tpu", "int8", True), ("h100x1", "vllm", "fp8", True), ("v6e-8", "vllm-tpu", "int8", False),
        ("h100x1", "vllm", "awq", False), ("h100x1", "transformers", "bnb-int8", False),
    ],
)  # fmt: skip
def test_weights_that_fit_in_8_bits_alone_may_not_load(hardware: str, engine: str, precision: str, warned: bool) -> None:
    """70B in 16 bits exceeds a v5litepod-8 and an H100, and engines that quantize on load may hold them so first (vllm issue 9331)."""
    answer = SOLVE("meta-llama/Llama-3.1-70B-Instruct", hardware, engine=engine, precision=precision)
    assert ("whole_while_loading" in {caveat["code"] for caveat in answer["caveats"]}) == warned


def test_offered_flags_start_the_server() -> None:
    """The cache of the flag holds one request of max_model_len; where no share up to 0.97 does, only a shorter length is offered."""
    held = SOLVE(MODEL, "l40sx1", engine="vllm", serving="--max-model-len 40K")["server"]
    assert held["cache_flag_tokens"] >= 40_960
    assert SOLVE(MODEL, "l40sx1", engine="vllm", serving=f"--max-model-len 40960 {held['cache_flag']}")["fits"]
    for share in ("0.9", "1.0"):
        short = SOLVE(MODEL, "l4x1", engine="vllm", serving=f"--max-model-len 40960 --gpu-memory-utilization {share}")["server"]
        assert (short["least_gpu_memory_utilization"], short["flags"], short["cache_flag"]) == (None, "", "")
        length, usable = short["shorter_flag"].rpartition(" ")[2], f"--gpu-memory-utilization {min(float(share), 0.97)}"
        assert SOLVE(MODEL, "l4x1", engine="vllm", serving=f"--max-model-len {length} {usable}")["fits"]
        assert not SOLVE(MODEL, "l4x1", engine="vllm", serving=f"--max-model-len {int(length) + 16} {usable}")["fits"]


@pytest.mark.parametrize(
    ("flag", "value"), [("16k", 16_000), ("16K", 16_384), ("2.5k", 2_500), ("8192", 8192), ("2.5K", None), ("k", None)]
)
def test_suffixes_of_vllm_are_read(flag: str, value: int | None) -> None:
    """As `human_readable_int`: small suffixes count in thousands, large ones in 1,024 and take no fraction."""
    if value is None:
        with pytest.raises(BadArgument, match="max_model_len"):
            check_serving("serving", f"--max-model-len {flag}")
        return
    assert check_serving("serving", f"--max-model-len {flag}") == Serving(max_model_len=value)


def test_only_flags_that_take_a_suffix_are_read_with_one() -> None:
    """Of vLLM --max-num-seqs is a plain number, of llama.cpp -c."""
    assert check_serving("serving", "--kv-cache-memory-bytes 8G").kv_cache_memory_bytes == 8 * 2**30
    for flags in ("--max-num-seqs 1k", "-c 16k", "--context-length 16k"):
        with pytest.raises(BadArgument):
            check_serving("serving", flags)


def test_announced_hardware_without_a_price_is_named() -> None:
    """An id in a platform's own form names the announcement; another id does not."""
    with pytest.raises(UnknownHardware, match="was announced for endpoints on 2026-06-23"):
        SOLVE(MODEL, "aws-nvidia-rtx-pro-6000-x1")
    with pytest.raises(UnknownHardware) as refused:
        SOLVE(MODEL, "aws-nvidia-rtx-9000-x1")
    assert "announced" not in str(refused.value)


def test_explain_reads_the_suffixes_of_a_command() -> None:
    """The command of a log is read as the flags of the argument `serving`."""
    told = EXPLAIN(f"vllm serve {MODEL} --max-model-len 16K\nGPU KV cache size: 3,584 tokens", hardware="l4x1")
    assert told["predicted"]["context_tokens"] == 16_384
