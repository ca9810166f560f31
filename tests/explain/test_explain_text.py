"""What a pasted text says: causes and numbers from messages as the libraries print them, hostile texts, and secrets."""

from __future__ import annotations

import itertools

import pytest

from lib.explain import MAX_BYTES, explain_text, mask_secrets
from lib.explain.names import find_names
from lib.explain.rows import load_messages
from lib.explain.text import PastedText
from lib.units import GIB, MIB

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} of which {free} is free. "
    "Including non-PyTorch memory, this process has {own} memory in use. {allowed}Of the allocated memory {allocated} is allocated by "
    "PyTorch, and {unused} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def torch_message(
    tried: str = "648.00 MiB", total: str = "47.50 GiB", free: str = "176.00 MiB", own: str = "47.30 GiB", allocated: str = "47.00 GiB",
    unused: str = "14.00 MiB", allowed: str = "",
) -> str:  # fmt: skip
    """The newest wording with these figures."""
    return TORCH.format(tried=tried, total=total, free=free, own=own, allocated=allocated, unused=unused, allowed=allowed)


VLLM = (
    "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than "
    "the available KV cache memory (0.71 GiB). Based on the available memory, the estimated maximum model length is 5632. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)
ALLOCATION = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1024.00 MiB on device 1: cudaMalloc failed: out of memory\n"


@pytest.mark.parametrize(
    ("text", "code", "numbers"),
    [
        (
            (
                "OSError: Qwen/Qwen3-80B is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\n"
                "If this is a private repository, make sure to pass a token having permission to this repo either by logging in"
            ),
            "hub_not_found",
            {"repo": "Qwen/Qwen3-80B"},
        ),
        (torch_message(), "torch_card_full", {"tried_bytes": 648 * MIB, "capacity_bytes": round(47.5 * GIB), "gpu_index": 0}),
        (torch_message(tried="2.00 GiB", unused="3.00 GiB"), "torch_fragmented", {"reserved_unallocated_bytes": 3 * GIB}),
        (torch_message(own="20.00 GiB"), "torch_others_hold_card", {"this_process_bytes": 20 * GIB}),
        (torch_message(tried="60.00 GiB"), "torch_huge_tensor", {"tried_bytes": 60 * GIB}),
        (torch_message(allocated="50.00 GiB"), "torch_spilled", {"allocated_bytes": 50 * GIB}),
        (torch_message(free="40.00 GiB", allowed="1.00 GiB allowed; "), "torch_memory_fraction", {"allowed_bytes": GIB}),
        (
            (
                "RuntimeError: HIP out of memory. Tried to allocate 80.00 MiB (GPU 1; 15.98 GiB total capacity; 15.20 GiB already "
                "allocated; 0 bytes free; 15.50 GiB reserved in total by PyTorch)"
            ),
            "torch_card_full",
            {"gpu_index": 1, "free_bytes": 0, "reserved_total_bytes": round(15.5 * GIB)},
        ),
        (
            (
                "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 14.75 GiB of "
                "which 9.06 MiB is free. Process 4242 has 14.73 GiB memory in use. Of the allocated memory 14.50 GiB is allocated by "
                "PyTorch, and 66.00 MiB is reserved by PyTorch but unallocated."
            ),
            "torch_card_full",
            {"capacity_bytes": round(14.75 * GIB), "processes_bytes": [round(14.73 * GIB)]},
        ),
        (VLLM, "vllm_cache_too_small", {"max_model_len": 131072, "needed_bytes": 16 * GIB, "estimated_max_len": 5632}),
        (VLLM.replace("GiB", "GB"), "vllm_cache_too_small", {"needed_bytes": 16 * GIB}),
        (
            "You have exceeded your free ZeroGPU quota (90s requested vs. 60s left). Try again in 1 day, 2:03:04. ",
            "zerogpu_quota",
            {"requested_s": 90, "left_s": 60, "retry_s": 93784, "plan": "free"},
        ),
        ("You have exceeded your GPU quota (60s left vs. 90s requested).", "zerogpu_quota", {"requested_s": 90, "left_s": 60}),
        (
            "You have exceeded your ZeroGPU quota (300s requested vs. 60s left). Try again in -1 day, 23:59:59.",
            "zerogpu_illegal_duration",
            {"requested_s": 300, "retry_s": -1},
        ),
        (
            "Free memory on device cuda:0 (19.77/22.05 GiB) on startup. Desired GPU memory utilization is (0.9, 19.84 GiB).",
            "vllm_started",
            {"utilization": 0.9},
        ),
        (
            "ValueError: Free memory on device (3.22/4.0 GiB) on startup is less than desired GPU memory utilization (0.9, 3.6 GiB).",
            "vllm_card_taken",
            {"free_bytes": round(3.22 * GIB), "desired_bytes": round(3.6 * GIB)},
        ),
        (
            ALLOCATION + "alloc_tensor_range: failed to allocate CUDA1 buffer of size 1073741824",
            "llama_weights_do_not_fit",
            {"buffer_bytes": GIB},
        ),
        (
            ALLOCATION + "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 1073741824\n"
            "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
            "llama_recovered",
            {"alloc_bytes": GIB, "device": 1},
        ),
        ("load_tensors: offloaded 20/33 layers to GPU", "llama_partial_offload", {"layers_host": 13}),
        (
            "load_tensors:   CPU_Mapped model buffer size =   281.81 MiB\nllama_kv_cache_unified:      CUDA0 KV buffer size =   512.00 MiB",
            "llama_started",
            {"cpu_mapped_bytes": round(281.81 * MIB), "kv_cuda0_bytes": 512 * MIB},
        ),
        (
            "Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
            "tgi_prefill",
            {"prefill_tokens": 4096, "half_prefill_tokens": 2048},
        ),
        (
            (
                "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used 36.25M of 32.00M vmem. "
                "Exceeded vmem capacity by 4.25M."
            ),
            "tpu_scratch_exceeded",
            {"used_bytes": round(36.25 * MIB), "space": "vmem"},
        ),
        (
            "| N/A   45C    P8    12W /  72W |      4MiB / 23034MiB |      0%      Default |",
            "gpu_table",
            {"used_bytes": 4 * MIB, "total_bytes": 23034 * MIB, "util_pct": 0},
        ),
    ],
)
def test_a_message_is_read_with_its_numbers(text: str, code: str, numbers: dict[str, object]) -> None:
    """As it is printed, and wrapped by a terminal, behind escapes of a browser and of JSON."""
    wrapped = "\n".join(text[start : start + 61] for start in range(0, len(text), 61))
    for form in (text, wrapped, text.replace(">", "&gt;"), f"prefix\\n{text}\\nbehind", f"\x1b[31m{text}\x1b[0m"):
        if "\n" in text and form == wrapped:
            continue
        said = explain_text(form)
        assert said.code == code
        assert {name: said.numbers[name] for name in numbers} == numbers


def test_the_first_cause_wins_and_a_message_in_other_words_is_not_listed() -> None:
    """The sampler's error wraps torch's; a second failure is listed."""
    sampler = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests."
    said = explain_text(f"{torch_message()}\nThe above exception was the direct cause\n{sampler}\n{VLLM}")
    assert said.code == "vllm_sampler"
    assert [other.code for other in said.also] == ["vllm_cache_too_small"]
    assert explain_text(f"{VLLM}\nRuntimeError: Engine core initialization failed. See root cause above.").also == ()


def test_the_lines_of_a_start_complete_a_failure() -> None:
    """Numbers of the same text; those of the message itself win."""
    said = explain_text(
        f"INFO [gpu_worker.py:466] Available KV cache memory: 0.47 GiB\nEstimated CUDA graph memory: 0.08 GiB total\n{VLLM}"
    )
    assert said.numbers["cuda_graph_bytes"] == round(0.08 * GIB)
    assert said.numbers["available_bytes"] == round(0.71 * GIB)


@pytest.mark.parametrize(
    "text",
    ["", "KeyError: 'foo'", "make: *** [all] Error 2", "out of stock", "I have a quota of 3 apples", "<script>alert(1)</script>", "GPU 0"],
)
def test_a_text_of_something_else_is_unknown(text: str) -> None:
    """Nothing is guessed."""
    assert not explain_text(text).recognised


def test_two_models_and_two_cards_are_both_named() -> None:
    """For the caller to say which is meant."""
    named = explain_text("vllm serve Qwen/Qwen3-8B on NVIDIA L4; from_pretrained('meta-llama/Llama-3.1-8B') on RTX 4090").named
    assert named.models == ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B")
    assert named.cards == ("NVIDIA L4", "RTX 4090")


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.mark.parametrize(
    "text",
    [
        f"hf_{LETTERS}",
        f"hf_{LETTERS[:13]}\n    {LETTERS[13:]}",
        f"hf_{LETTERS[:13]}\\n{LETTERS[13:]}",
        f"hf_{LETTERS[:13]}\n\n{LETTERS[13:]}",
        f"sk-{LETTERS}",
        f"AKIA{'ABCDEFGH23456789'}",
        f"Authorization: Bearer {LETTERS}",
        f"aws_secret_access_key = {LETTERS}",
        f"OPENAI_API_KEY='{LETTERS}'",
        f"https://ada:{LETTERS}@huggingface.co/ada/x",
        f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    """Those that a line end splits too; what stands around them stays."""
    masked = mask_secrets(f"before {text}\nbehind max_total_tokens=8192")
    assert LETTERS[:13] not in masked
    assert LETTERS[13:] not in masked
    assert "ABCDEFGH23456789" not in masked
    assert "before" in masked
    assert "max_total_tokens=8192" in masked
    said = explain_text(f"--model ada/{text}\n{torch_message()}")
    assert LETTERS[:13] not in repr(said)


@pytest.mark.parametrize("token", [f"hf_{LETTERS[:13]}\r\n{LETTERS[13:]}", f"hf&amp;#95;{LETTERS}"])
def test_a_secret_is_masked_before_any_number_is_read(token: str) -> None:
    """Split by a line end of Windows, or escaped twice: rows that read words would repeat a part of it."""
    said = explain_text(f"401 Client Error. Cannot access gated repo for url https://huggingface.co/ada/{token}/resolve/main/config.json.")
    assert said.code == "hub_gated_no_token"
    assert LETTERS[:8] not in repr(said)


def test_a_secret_that_lines_split_is_masked_where_a_row_reads_it() -> None:
    """Rows read lines as one; the pieces of a token are then whole again."""
    token = "ghp_" + LETTERS
    said = explain_text(f"GGML_ASSERT({token[:15]}\r\n{token[15:30]}\r\n{token[30:]}) failed")
    assert token not in repr(said)


@pytest.mark.parametrize("hidden", ["\u200b", "\u3164", "\u2060", "\u00ad", "\ufeff", "`", "\x00", "\x1b[1m", "\U000e0001", "\ufe0f"])
@pytest.mark.parametrize("beginning", ["hf_", "hf&#95;", "hf%5F", "api_org_", "ghp_", "sk-proj-"])
@pytest.mark.parametrize(
    "message", ["--model ada/{}", "{} with CUDA capability sm_50 is not compatible with the current PyTorch installation"]
)
def test_a_secret_with_an_invisible_character_is_masked(message: str, beginning: str, hidden: str) -> None:
    """The message names a model or a card, and would repeat it."""
    said = repr(explain_text(message.format(f"{beginning}{LETTERS[:13]}{hidden}{LETTERS[13:]}")))
    assert not any(LETTERS[place : place + 8] in said for place in range(len(LETTERS) - 7))


@pytest.mark.parametrize(
    "secret", ["rpa_ABC123DEF456GHI789JKL012", "550e8400-e29b-41d4-a716-446655440000", "abc123def456ghi789jkl012mno345", "pwd=Tr0ub4dor"]
)
def test_a_quoted_message_has_no_word_that_may_be_a_key(secret: str) -> None:
    """A family quotes the exception of a model library; keys of services that are not listed have no beginning to know them by."""
    frame = '  File "/usr/lib/python3/site-packages/transformers/models/x.py", line 1, in f'
    said = explain_text(f"Traceback (most recent call last):\n{frame}\nRuntimeError: cannot log in with {secret} at the service")
    assert "cannot log in with [secret] at the service" in repr(said)


def test_a_part_of_a_secret_is_masked() -> None:
    """Without its beginning and its name; names of classes and models, commits and digests are none."""
    for secret in ("dGhpc0lzQTJTZWNyZXQ3S2V5OXg", "ZN3c10dGhpc0lzQTJTZWNyZXQ3S2V5OXg", "9f86d081" * 4, "9f86d081" * 5, "9f86d081" * 8):
        assert mask_secrets(f"a {secret} b") == "a [secret] b"
    plain = "Qwen3VLMoeForConditionalGeneration org/DeepSeek-R1-Distill-Qwen-32B-bnb-4bit torch.cuda.OutOfMemoryError 17179869184"
    plain += "".join(f" {name}{'9f86d081' * 5}" for name in ("commit ", "sha256:", "revision=", "/resolve/", "snapshots/"))
    assert mask_secrets(plain) == plain


@pytest.mark.parametrize(
    ("printed", "name", "value"),
    [
        ("total_gpu_memory=23.58GiB", "total_gpu_memory_bytes", round(23.58 * GIB)),
        ("max_num_batched_tokens: 8,192", "max_num_batched_tokens", 8192),
        ('{"memoryUsed": "5.5 GiB"}', "memory_used_bytes", round(5.5 * GIB)),
        ("| KV cache | 12.25 GiB |", "kv_cache_bytes", round(12.25 * GIB)),
        ("mean TTFT (ms) is 50 ms, output throughput 104.5 tok/s", "output_throughput_tokens_per_s", 104.5),
        ("GPU KV cache usage: 12.5%", "gpu_kv_cache_usage_pct", 12.5),
        ("Total VRAM 2048 MB", "total_vram_bytes", 2048 * MIB),
    ],
)
def test_a_figure_with_a_known_name_is_read(printed: str, name: str, value: float) -> None:
    """Beside a known message, without a row of its own."""
    assert explain_text(f"FlashAttention only supports Ampere GPUs or newer\n{printed}").figures[name] == value


@pytest.mark.parametrize(
    "printed",
    ["password=123456", "alice_size=7", "memory of 7B", "time=2025-02-18", "port: 8000", "user memory: secret", "rank=3", "Llama size 8B"],
)
def test_other_words_are_no_figures(printed: str) -> None:
    """Names of unknown words, dates and counts of parameters; without a known message nothing is read."""
    assert explain_text(f"FlashAttention only supports Ampere GPUs or newer\n{printed}").figures == {}
    assert explain_text("total_gpu_memory=23.58GiB").figures == {}


def test_every_row_is_read_and_no_pattern_is_unbounded() -> None:
    """No `*` or `+` outside a class of characters, so that a pattern takes time in proportion to the text."""
    for message in load_messages().messages:
        assert message.needles
        for written, needle in zip(message.find, message.needles, strict=True):
            pasted = PastedText(f"before {written} behind")
            assert needle in (pasted.spaced if message.spaced else pasted.squeezed).joined, written
        for pattern in message.patterns:
            plain = itertools.filterfalse(lambda part: not part, pattern.pattern.split("\\d"))
            assert not any("*" in part or "+" in part.replace("\\+", "") for part in plain), pattern.pattern


@pytest.mark.parametrize(
    "unit", ["a", "1", "\n", "hf_a\n", "buffer size = ", "MiB / ", "Bearer ", "token = ", "&#", "&#" + "1" * 5000, "\x1b[", "ﷺ", "\ud800"]
)
def test_a_long_hostile_text_is_answered(unit: str) -> None:
    """Whatever is repeated (`tests/benchmarks/bench_explain.py` says how fast)."""
    assert explain_text(unit * (MAX_BYTES // len(unit))).named is not None


METRICS = """# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
vllm:num_requests_running{{engine="0",model_name="Qwen/Qwen3-8B"}} 32.0
vllm:num_requests_waiting{{engine="0",model_name="Qwen/Qwen3-8B"}} {waiting}.0
vllm:kv_cache_usage_perc{{engine="0",model_name="Qwen/Qwen3-8B"}} 0.9731
vllm:num_preemptions_total{{engine="0",model_name="Qwen/Qwen3-8B"}} {preemptions}.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="Qwen/Qwen3-8B"}} 400.0
vllm:time_to_first_token_seconds_count{{engine="0",model_name="Qwen/Qwen3-8B"}} 400.0
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="Qwen/Qwen3-8B"}} 120.5
"""
"""Of a server of vLLM 0.21, as prometheus_client writes them."""


@pytest.mark.parametrize(
    ("waiting", "preemptions", "code"), [(17, 12, "vllm_preempts"), (17, 0, "vllm_queue_cache_full"), (0, 0, "vllm_server_metrics")]
)
def test_metrics_of_a_server_say_whether_requests_wait(waiting: int, preemptions: int, code: str) -> None:
    """And how full the cache is; a mean time is the sum over the count of its histogram."""
    said = explain_text(METRICS.format(waiting=waiting, preemptions=preemptions))
    assert said.code == code
    numbers = {"running": 32.0, "waiting": float(waiting), "share_cache": 0.9731, "preemptions": float(preemptions), "ttft_mean_ms": 301}
    assert numbers.items() <= said.numbers.items()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("402 Payment Required: You've reached your CPU-basic quota limit", "space_cpu_units"),
        ("My Space is stuck at Building for two hours", "space_keeps_building"),
        (
            "You've reached your null quota limit, please upgrade your account, or pause your previous Spaces to restart this one",
            "space_cpu_units",
        ),
        (
            "RepositoryNotFoundError: 401 Client Error.\n\nRepository Not Found for url: https://huggingface.co/api/spaces/me/app/hardware.",
            "space_setting_refused",
        ),
        ("401 Client Error.\n\nRepository Not Found for url: https://huggingface.co/api/spaces/me/app.", "hub_not_found"),
        ("You have exceeded your GPU quota (60s requested vs. 0s left). Try again in 0:00:00", "zerogpu_identity_lost"),
        ("No GPU was available after 60s. Retry later", "zerogpu_queue_timeout"),
    ],
)
def test_words_of_the_hub_and_of_people_are_read(text: str, code: str) -> None:
    """The more exact cause comes before the status code."""
    assert explain_text(text).code == code


@pytest.mark.parametrize(("captured", "code"), [("", "torch_graphs_do_not_fit"), ("took 0.58 GiB", "torch_card_full")])
def test_memory_that_ends_while_graphs_are_captured_is_that_of_graphs(captured: str, code: str) -> None:
    """Not once the capture has finished: then the requests fill the card."""
    start = "vllm serve org/model\nCapturing CUDA graph shapes: 0%\n"
    finished = f"Graph capturing finished in 14 secs, {captured}\n" if captured else ""
    full = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 21.98 GiB of which 12.44 MiB is free."
    said = explain_text(start + finished + full)
    assert said.code == code
    assert (said.phase == "start") == (not captured)


@pytest.mark.parametrize(
    ("text", "cards", "count"),
    [
        ("OOM on 8xH100", ("H100",), 8), ("8 x H100", ("H100",), 8), ("on 4 A100 40G", ("A100 40GB",), 4),
        ("4xa100-80g", ("A100-80GB",), 4),
        ("2x RTX 3090", ("RTX 3090",), 2), ("8x NVIDIA RTX A6000", ("RTX A6000",), 8), ("A100 80GB x 4", ("A100 80GB",), 4),
        ("two RTX 3090", ("RTX 3090",), 2), ("dual NVIDIA L4", ("NVIDIA L4",), 2), ("four A100s", ("A100",), 4),
        ("NVIDIA H100 80GB HBM3 x 8", ("NVIDIA H100 80GB",), 8), ("-tp 8 on H100", ("H100",), 0), ("4 x A10G", ("A10G",), 4),
        ("on an A10G", ("A10G",), 0), ("the H100 of two", (), 0),
        ("8xH100, each NVIDIA H100 80GB HBM3", ("NVIDIA H100 80GB",), 8), ("4xL40S works, 4 x L4 does not", ("L40S", "L4"), 4),
        ("| 3 A100-SXM4-40GB On |", ("A100-SXM4-40GB",), 0), ("| 3 RTX A6000 Off |", ("RTX A6000",), 0),
        ("GPU 2 T4", (), 0), ("rank 7 H100 x", (), 0), ("blocks.4 T4", (), 0),
    ],
)  # fmt: skip
def test_cards_and_their_number_are_read_as_people_write_them(text: str, cards: tuple[str, ...], count: int) -> None:
    """The index of a card in a table is not a number of cards, and a word such as T4 alone is not a card."""
    named = find_names(text)
    assert (named.cards, named.card_count) == (cards, count)


@pytest.mark.parametrize("flag", ["-tp 8", "--tp 8", "--tp=8", "--tensor-parallel-size=8", "tensor_parallel_size=8"])
def test_short_flags_of_servers_are_read_as_the_long_ones(flag: str) -> None:
    """The names are those of the engines' rows; other two-letter flags are none of them."""
    assert find_names(f"vllm serve x {flag} -pp 2 -it 3").flags == {"tensor_parallel_size": "8", "pipeline_parallel_size": "2"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Inference Endpoints: 402 Payment Required. Please add credits or a payment method", "endpoint_credits"),
        ("402 Client Error: Payment Required for url: https://api.endpoints.huggingface.cloud/v2/endpoint/me", "endpoint_credits"),
        ("Inference Endpoints is accessible to Hugging Face accounts with an active subscription and credits on file", "endpoint_credits"),
        ("402 Client Error: Payment Required for url: https://huggingface.co/api/x", "hub_payment"),
    ],
)
def test_payment_for_an_endpoint_is_its_own_cause(text: str, code: str) -> None:
    """An endpoint needs credits also with a plan; elsewhere a plan may be enough."""
    assert explain_text(text).code == code


def test_training_is_told_by_words_that_people_write() -> None:
    """SFT in 4 bits trains adapters on a quantized base; a model whose name ends in -sft is not a training."""
    oom = torch_message(tried="448.00 MiB", total="44.40 GiB", free="200.00 MiB")
    said = explain_text(f"AutoTrain 70B int4 SFT: {oom}")
    assert (said.phase, said.stated["base"]) == ("train", "4bit")
    assert explain_text(f"serving alignment-handbook/zephyr-7b-SFT: {oom}").phase != "train"
