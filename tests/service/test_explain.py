"""/explain in-process: the answer's words, its comparison with the app's own figures, tiers with prices, and refusals."""

from __future__ import annotations

import json
import re

import pytest
from contract import check_fields
from written import ask

from lib.catalog import load
from lib.cli.act import explanation_text
from lib.errors import BadArgument, HubUnreachable
from lib.explain.rows import load_messages
from lib.model.spec import ModelSpec
from lib.present.explain_words import cause_sentence, step_words
from lib.present.sentences import to_json
from lib.present.wording import load_wording
from lib.service.endpoint import App, bind_arguments
from lib.service.explain import _holds, explain
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models

APP = App(catalog=load, models=Models())
QUESTION = ask(explain, APP)
VLLM = (
    "vllm serve meta-llama/Llama-3.1-8B --max-model-len 131072   # NVIDIA L4\nValueError: To serve at least one request with the model's "
    "max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.21 GiB). Based on the "
    "available memory, the estimated maximum model length is 26288."
)


def test_a_message_is_compared_with_what_the_app_predicts() -> None:
    """Model, card and length of the text; the cache of one request is the same number on both sides."""
    answer = QUESTION(VLLM)
    check_fields("explain", answer)
    json.dumps(answer, allow_nan=False)
    assert (answer["read"]["model"], answer["read"]["hardware"], answer["read"]["engine"]) == ("meta-llama/Llama-3.1-8B", "L4", "vllm")
    assert answer["logged"]["needed_bytes"] == answer["predicted"]["needed_bytes"] == 16 * 2**30
    assert answer["predicted"]["fits"] is False
    assert answer["next_steps"][0]["change"] == "--max-model-len 26288"
    larger = answer["next_steps"][-1]
    assert larger["usd_per_hour"] == float(load().offer(larger["hardware"], "spaces").usd_per_hour or 0)


def test_a_larger_card_holds_the_need_within_the_engines_share() -> None:
    """Weights and cache of a 32B are 64 to 71 GiB: of an A100's 79 vLLM fills 71, so a need above that takes a larger card."""
    whole = 72 * 2**30
    predicted = {"per_device_bytes": whole, "capacity_bytes": 100, "engine_bytes": 90}
    assert not _holds(79 * 2**30, predicted)
    assert _holds(95 * 2**30, predicted)
    assert _holds(0, {})


FEWER = "The model's max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache ({})."


def test_the_first_engine_is_predicted_with_its_profile_and_the_arithmetic_starts_from_the_text() -> None:
    """VLLM's first engine profiles a whole request up to 32,768 tokens, one chunk of 512 above. A T4 held 58,192 tokens of a 3B."""
    long = QUESTION("Loading model weights took 6.0160 GB\n" + FEWER.format(131072, 58192), model="meta-llama/Llama-3.2-3B", hardware="T4")
    assert 58_192 / 1.25 < long["predicted"]["kv_cache_tokens"] < 58_192 * 1.25
    assert any("6.02 GiB weights" in line and "6.22 GiB cache of 58,192 tokens" in line for line in long["arithmetic"])
    short = QUESTION(FEWER.format(32768, 20000), model="mistralai/Mistral-7B-Instruct-v0.3", hardware="RTX-A5000")
    cut = QUESTION(
        "--max-num-batched-tokens 512 " + FEWER.format(32768, 20000), model="mistralai/Mistral-7B-Instruct-v0.3", hardware="RTX-A5000"
    )
    assert cut["predicted"]["kv_cache_tokens"] > short["predicted"]["kv_cache_tokens"]


def test_layers_that_a_checkpoint_leaves_unquantized_count_and_the_larger_hardware_has_as_many_cards() -> None:
    """vllm#6746: 57.75 GiB of weights on each of eight cards, with 16 key/value heads; today's revision has 8. It is in FP8 already."""
    text = FEWER.format(131072, 79392)
    answer = QUESTION(text, model="meta-llama/Llama-3.1-405B-Instruct-FP8", hardware="H100-SXMx8")
    heads = 2 * 126 * 8 * 128 * 16384 * 2 / 8  # keys and values, in 16 bits
    assert abs((answer["predicted"]["weights_bytes"] + heads) / (57.752 * 2**30) - 1) < 0.002
    assert "quantized_checkpoint" not in {step["code"] for step in answer["next_steps"]}
    larger = next(step["hardware"] for step in answer["next_steps"] if step["code"] == "larger_card")
    assert (answer["predicted"]["devices"], load().resolve_hardware(larger).accelerator_count) == (8, 8)
    differs = next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "explain_differs")
    assert "79,392" in differs


FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 288.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 12.69 MiB "
    "is free. Of the allocated memory 78.30 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."
)


def test_a_full_card_with_room_by_the_apps_figures_has_other_causes() -> None:
    """A 20B takes a quarter of the card in 16 bits: in 32, or all of it on one card, it takes more. A larger card is no cure."""
    answer = QUESTION(FULL, model="20B", hardware="A100-SXM4-80GBx2")
    steps = {step["code"]: step for step in answer["next_steps"]}
    assert "explain_should_fit" in {caveat["code"] for caveat in answer["caveats"]}
    assert "74.5 GiB" in steps["load_in_16_bit"]["message"]
    assert steps["spread_over_cards"]["change"] == 'device_map="auto"'
    assert "larger_card" not in steps
    fits_not = QUESTION(FULL, model="70B", hardware="A100-SXM4-80GB")
    assert "explain_should_fit" not in {caveat["code"] for caveat in fits_not["caveats"]}


def test_a_pipeline_that_only_the_argument_names_gets_the_offload_of_pipelines() -> None:
    """With the bytes of its largest part; tokens are none of its figures."""
    answer = QUESTION(FULL, model="black-forest-labs/FLUX.2-dev", hardware="H100-SXM")
    assert answer["code"] == "torch_pipeline_does_not_fit"
    assert answer["next_steps"][0]["change"] == "pipe.enable_model_cpu_offload()"
    assert "61.7 GiB" in answer["next_steps"][0]["message"]
    assert "context_tokens" not in answer["predicted"]


@pytest.mark.parametrize(
    ("text", "account", "code"),
    [
        ("You have exceeded your free ZeroGPU quota (60s requested vs. 0s left). It falls back to IP-based quota", "free", "of_address"),
        ("You have exceeded your free ZeroGPU quota (60s requested vs. 12s left). Try again in 3:12:05", "pro", "of_another"),
        ("You have exceeded your free ZeroGPU quota (60s requested vs. 12s left). Try again in 3:12:05", "free", ""),
        ("You have exceeded your Pro ZeroGPU quota (60s requested vs. 12s left). Try again in 3:12:05", "free", ""),
    ],
)
def test_a_lost_identity_is_told_with_the_quota(text: str, account: str, code: str) -> None:
    """By the second message of the text, or by a plan below the caller's; the durations that fit are told all the same."""
    answer = QUESTION(text, account=account)
    assert answer["code"] == "_".join(filter(None, ("zerogpu_quota", code)))
    steps = {step["code"] for step in answer["next_steps"]}
    assert "zerogpu_shorter_than_left" in steps
    assert ("zerogpu_page" in steps) == bool(code)


def test_a_class_that_the_engine_dropped_is_said() -> None:
    """The list of vLLM has Mllama up to 0.10.2."""
    answer = QUESTION(f"vllm serve meta-llama/Llama-3.2-11B-Vision-Instruct\n{FULL}", hardware="RTX-A4000x2")
    assert "0.10.2" in next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "engine_dropped")


def test_a_quantized_copy_is_read_as_its_model_in_that_format() -> None:
    """The catalog has the base model alone; the answer says how the name was read, and which share is enough."""
    start = "vllm serve Qwen/Qwen2.5-3B-Instruct-AWQ  # RTX 4090\nModel loading took 1.9500 GiB and 2.1 seconds\n"
    answer = QUESTION(start + "GPU KV cache size: 364,080 tokens")
    assert (answer["read"]["model"], answer["predicted"]["precision"]) == ("Qwen/Qwen2.5-3B-Instruct-AWQ", "awq-4")
    assert "taken_for" in {caveat["code"] for caveat in answer["caveats"]}
    assert abs(answer["predicted"]["weights_bytes"] / answer["numbers"]["weights_bytes"] - 1) < 0.05
    assert answer["next_steps"][1]["change"].startswith("--gpu-memory-utilization 0.")


def test_weights_that_are_quantized_after_loading_have_to_fit_in_16_bits() -> None:
    """vllm#9331: a 70B with tpu_int8 on eight chips of v5e. The engine is vLLM's variant for TPUs."""
    text = "vllm serve meta-llama/Llama-3.1-70B-Instruct --quantization tpu_int8 -tp 8 # v5litepod-8\nRESOURCE_EXHAUSTED: Ran "
    answer = QUESTION(text + "out of memory in memory space hbm. Used 17.50G of 15.75G hbm. Exceeded hbm capacity by 1.75G.")
    assert (answer["read"]["engine"], answer["predicted"]["precision"]) == ("vllm-tpu", "int8-channel")
    assert answer["predicted"]["loading_bytes"] > answer["predicted"]["capacity_bytes"] > answer["predicted"]["weights_bytes"]
    assert (answer["code"], answer["predicted"]["fits"]) == ("tpu_quantized_on_load", False)
    larger = next(step for step in answer["next_steps"] if step["code"] == "tpu_larger_slice")
    slice_ = load().resolve_hardware(larger["hardware"])
    assert larger["usd_per_hour"] > 0
    assert (slice_.vram_bytes_per_accelerator or 0) * slice_.accelerator_count > 8 * answer["predicted"]["loading_bytes"]


def test_a_training_run_is_compared_with_a_step_of_its_sharding() -> None:
    """OpenRLHF#424: Qwen2-7B in full on four RTX 4090 with ZeRO-3; the optimizer in host memory cures it. Sharding is no advice twice."""
    text = "train_sft.py zero_stage 3 --max_len 128 --model Qwen/Qwen2-7B  # 4 x RTX 4090\ntorch.OutOfMemoryError: CUDA out of "
    answer = QUESTION(text + "memory. Tried to allocate 1.02 GiB. GPU 2 has a total capacity of 23.64 GiB of which 512.00 MiB is free.")
    asked = {name: answer["predicted"][name] for name in ("method", "sharding", "devices", "sequence_tokens", "fits")}
    assert asked == {"method": "full", "sharding": "zero3", "devices": 4, "sequence_tokens": 128, "fits": False}
    assert answer["next_steps"][0]["code"] == "offload_states"
    assert "GiB" in answer["next_steps"][0]["message"]
    assert "shard_states" not in {step["code"] for step in answer["next_steps"]}


def test_the_card_is_the_variant_whose_memory_the_text_prints() -> None:
    """An A100 of 39.59 GiB is the one of 40 GB; two of them are two cards. The number and length of GRPO's answers are read too."""
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 288.00 MiB (GPU 0; {} GiB total capacity; 90.19 MiB free)"
    small, large = (QUESTION("2x NVIDIA A100 " + text.format(size), model="20B")["read"]["hardware"] for size in ("39.59", "79.15"))
    assert (small, large) == ("A100-SXM4-40GBx2", "A100-SXM4-80GBx2")
    missing = QUESTION("NVIDIA A100-PCIE-40GB " + text.format("39.39"), model="20B")  # the catalog has it with SXM alone
    assert missing["read"]["hardware"] == "A100-SXM4-40GB"
    assert "taken_for" in {caveat["code"] for caveat in missing["caveats"]}
    grpo = "GRPOTrainer per_device_train_batch_size=4 num_generations=4 max_completion_length={} Qwen/Qwen2.5-7B-Instruct NVIDIA H200 "
    short, long = (QUESTION(grpo.format(tokens) + text.format("139.80"))["predicted"]["per_device_bytes"] for tokens in (256, 8192))
    assert long > short


def test_scripts_of_diffusers_keep_activations_unless_they_are_told() -> None:
    """FLUX LoRA on an A100 of 40 GB: without --gradient_checkpointing the step does not fit, with it it does."""
    script = "accelerate launch train_dreambooth_lora_flux.py --pretrained_model_name_or_path=black-forest-labs/FLUX.1-dev {}\n" + FULL
    kept = QUESTION(script.format("--train_batch_size=1"), hardware="A100-SXM4-40GB")
    told = QUESTION(script.format("--gradient_checkpointing"), hardware="A100-SXM4-40GB")
    assert [kept["predicted"][name] for name in ("checkpointing", "fits")] == ["none", False]
    assert [told["predicted"][name] for name in ("checkpointing", "fits")] == ["layers", True]
    cure = next(step for step in kept["next_steps"] if step["code"] == "checkpoint_gradients")
    assert "a card then needs" in cure["message"]


class _NoHub(Models):
    """Models without a network."""

    def __call__(self, model: object) -> ModelSpec:
        raise HubUnreachable(f"The Hub could not be reached for {model!r}.")


def test_without_the_hub_a_text_is_explained_all_the_same() -> None:
    """The answer says that it has no figures of its own."""
    answer = ask(explain, App(catalog=load, models=_NoHub()))(VLLM, model="owner/name")
    assert answer["code"] == "vllm_cache_too_small"
    assert [caveat["code"] for caveat in answer["caveats"]] == ["explain_not_predicted"]


def test_shown_zerogpu_seconds_are_divided_back() -> None:
    """By the factors of the catalog, for both sizes."""
    answer = QUESTION("You have exceeded your free ZeroGPU quota (90s requested vs. 60s left). Try again in 2:00:00.")
    assert answer["numbers"]["declared_large_s"] == 60
    assert answer["numbers"]["declared_xlarge_s"] == 45
    assert answer["next_steps"][0]["change"] == "@spaces.GPU(duration=40)"
    assert answer["predicted"]["daily_quota_s"] == 300


@pytest.mark.parametrize(("account", "seconds", "below"), [("free", 120, (80, 60)), ("pro", 180, (120, 90)), ("free", 900, (200, 150))])
def test_a_refused_duration_is_not_advised_again(account: str, seconds: int, below: tuple[int, int]) -> None:
    """The bound is the smaller of the refused seconds and the day's quota, for both sizes."""
    answer = QUESTION(f"The requested GPU duration ({seconds}s) is larger than the maximum allowed", account=account)
    step = next(step for step in answer["next_steps"] if step["code"] == "zerogpu_shorter")
    assert step["change"].endswith("# below {} (large), {} (xlarge)".format(*below))


def test_a_next_step_has_the_value_with_which_one_request_fits() -> None:
    """Checked against /solve and /estimate_memory: the number of cards, the layers on the card, the share of it."""
    no_cache = "vllm serve Qwen/Qwen3-32B  # NVIDIA L4\nNo available memory for the cache blocks"
    changes = {step["code"]: step["change"] for step in QUESTION(no_cache)["next_steps"]}
    assert changes["more_devices"] == "--tensor-parallel-size 8"
    assert "higher_share" not in changes  # weights alone exceed the card
    assert not ask(solve, APP)("Qwen/Qwen3-32B", "L4x4", context_tokens=40_960, engine="vllm")["fits"]
    assert ask(solve, APP)("Qwen/Qwen3-32B", "L4x8", context_tokens=40_960, engine="vllm")["fits"]
    full = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 11264.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    full += "llama_model_load: error loading model: unable to allocate CUDA0 buffer"
    asked = {"model": "Qwen/Qwen3-14B", "hardware": "RTX-4060", "engine": "llama.cpp"}
    layers = next(step["change"] for step in QUESTION(full, **asked)["next_steps"] if step["code"] == "fewer_gpu_layers")
    fits = [
        ask(estimate_memory, APP)("Qwen/Qwen3-14B", engine="llama.cpp", context_tokens=40_960, hardware="RTX-4060", gpu_layers=number)
        for number in (int(layers.removeprefix("-ngl ")), int(layers.removeprefix("-ngl ")) + 1)
    ]
    assert [fit["per_device_bytes"] <= load().accelerators["RTX-4060"].memory_usable for fit in fits] == [True, False]
    short = QUESTION(VLLM.replace("3.21 GiB", "15.50 GiB"))
    assert next(step["change"] for step in short["next_steps"] if step["code"] == "higher_share") == "--gpu-memory-utilization 0.93"


def test_the_format_of_the_text_is_predicted() -> None:
    """A setting that loads in 4 bits; a step that only says so again is left out."""
    text = "model = AutoModel.from_pretrained('Qwen/Qwen3-14B'{})\ntorch.OutOfMemoryError: CUDA out of memory. "
    text += "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 14.56 GiB of which 1.88 MiB is free."
    plain, packed = (QUESTION(text.format(setting), hardware="T4") for setting in ("", ", load_in_4bit=True"))
    assert plain["predicted"]["weights_bytes"] > 2.5 * packed["predicted"]["weights_bytes"]
    assert "load_in_16_if" in {step["code"] for step in plain["next_steps"]} - {step["code"] for step in packed["next_steps"]}


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90 MiB. GPU 0 has a total capacity of {} GiB of which 18 MiB is free."


@pytest.mark.parametrize("script", ["train_dreambooth_lora_flux.py", "train_text_to_image_lora.py"])
def test_a_training_script_of_diffusers_is_a_training_run(script: str) -> None:
    """No setting of a training is advised where nothing says that one runs."""
    answer = QUESTION(f"accelerate launch {script}\n{OOM.format('21.96')}", hardware="l4x1")
    assert (answer["phase"], answer["code"]) == ("train", "torch_training_does_not_fit")
    plain = QUESTION(OOM.format("21.96"), hardware="l4x1")
    assert not any("train" in step["change"] for step in plain["next_steps"])


def test_a_larger_card_without_a_prediction_comes_as_often_as_the_one_that_was_used() -> None:
    """Four L4 are not replaced by one card."""
    larger = next(step for step in QUESTION(OOM.format("21.96"), hardware="l4x4")["next_steps"] if step["code"] == "larger_card")
    assert load().resolve_hardware(larger["hardware"]).accelerator_count >= 4


def test_an_unknown_text_is_said_to_be_unknown() -> None:
    """With what is accepted."""
    answer = QUESTION("KeyError: 'foo'")
    assert not answer["recognised"]
    assert [step["code"] for step in answer["next_steps"]] == ["paste_more"]
    assert "vLLM" in answer["next_steps"][0]["message"]


def test_two_models_are_asked_about() -> None:
    """Nothing is predicted for a model that is guessed."""
    answer = QUESTION(f"{VLLM}\nvllm serve Qwen/Qwen3-8B")
    assert answer["read"]["model"] == ""
    assert answer["predicted"] == {}
    assert answer["next_steps"][0]["code"] == "which_model"
    assert QUESTION(f"{VLLM}\nvllm serve Qwen/Qwen3-8B", model="Qwen/Qwen3-8B")["read"]["model"] == "Qwen/Qwen3-8B"


def test_a_limit_of_host_memory_leads_to_a_tier_with_more() -> None:
    """The same card, if it is known."""
    (step, *_) = QUESTION("Memory limit exceeded (14Gi)", hardware="a10g-small")["next_steps"]
    assert step["hardware"] == "a10g-large"


@pytest.mark.parametrize("text", ["", "  \n", 7, None, "ä" * 100_001])
def test_what_is_no_text_or_too_long_is_refused(text: object) -> None:
    """The sentence says what is accepted and repeats nothing of a long text."""
    with pytest.raises(BadArgument) as refused:
        QUESTION(text)
    assert "ää" not in str(refused.value)


def test_markup_and_secrets_are_not_repeated() -> None:
    """Neither in the answer nor in what it read."""
    answer = bind_arguments(explain, APP)(
        f"--model <img src=x>/<b> hf_abcdefghijklmnopqrstuvwxyz123456 {VLLM} model=ada/hf_abcdefghijklmnopqrstuvwxyz123456"
    )
    assert answer.next_steps[0].change in explanation_text(answer)
    written = json.dumps(to_json(answer)) + explanation_text(answer)
    assert "<img" not in written
    assert "abcdefghijklm" not in written


def test_zero_bytes_of_a_listing_are_no_size_of_a_model() -> None:
    """XLA lists "arguments 0B"."""
    hbm = "Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm.\n    program 21.95G\n    arguments 0B"
    assert QUESTION(hbm)["read"]["model"] == ""


def test_every_cause_and_step_has_words() -> None:
    """And no words are left over; numbers that a sentence names are those of some row."""
    words, messages = load_wording("explain"), load_messages().messages
    read = [message for message in messages if message.kind != "context"]
    told = [message for message in read if message.kind != "detail" or message.code in words["causes"]]  # a detail is never the cause
    cases = [case for message in read for case in message.cases]
    assert {message.code for message in told} | {case.code for case in cases} == words["causes"].keys()
    steps = {step for entry in (*told, *cases) for step in entry.steps} | {"which_model", "which_hardware", "paste_more"}
    assert steps == words["steps"].keys()
    assert {outcome for entry in (*told, *cases) if (outcome := entry.outcome)} <= words["outcomes"].keys()
    for message in told:
        found = {re.sub("_(gib|mib|kib|gb|mb|clock|list)$", "", name) for pattern in message.patterns for name in pattern.groupindex}
        known = {f"{name}{end}" for name in found for end in ("", "_bytes", "_s")} | {name.removesuffix("_text") for name in found}
        derived = known | {line.split()[0] for line in message.derive}
        assert cause_sentence(message.code, dict.fromkeys(derived, 1)) != words["unread"], message.code
    for code in steps:
        assert step_words(code, {**dict.fromkeys(_named(words["steps"][code]), 1), "runtime_cc": 1}), code


def _named(options: dict[str, str] | list[dict[str, str]]) -> set[str]:
    listed = [options] if isinstance(options, dict) else options
    return {name for option in listed for text in option.values() for name in re.findall(r"(?<!\{)\{(\w+)", text)}


GRAPHS = (
    "GPU KV cache size: {} tokens\nCapturing CUDA graph shapes: 0%\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. "
    "GPU 0 has a total capacity of 21.98 GiB of which 12.44 MiB is free."
)


@pytest.mark.parametrize(
    ("tokens", "hardware", "shares"), [(3584, "", [" 0.93"]), (3584, "a10g-small", []), (15584, "a10g-small", [" 0.93"])]
)
def test_share_for_graphs_leaves_room_for_a_request(tokens: int, hardware: str, shares: list[str]) -> None:
    """0.05 × 21.98 GiB less: a cache of 1.1 GiB is gone with it, one of 4.9 GiB is not. Else eager comes first."""
    text = (
        "vllm serve google/gemma-3-27b-it --quantization awq --gpu-memory-utilization 0.98 --max-model-len 2048\n"
        "Model loading took 17.6100 GiB\n" + GRAPHS.format(f"{tokens:,}")
    )
    steps = [step["change"] for step in QUESTION(text, hardware=hardware)["next_steps"]]
    assert (steps[0] == "--enforce-eager") == (tokens < 15_000)
    assert [step for step in steps if "utilization" in step] == [f"--gpu-memory-utilization{share}" for share in shares]


def test_lines_of_vllm_without_a_command_count_as_vllm_and_the_log_counts_requests() -> None:
    """The settings are in Namespace(...), the copy's name says its format twice, and the cache holds 1.75 requests of full length."""
    log = (
        "args: Namespace(model='gaunernst/gemma-3-27b-it-int4-awq', gpu_memory_utilization=0.98)\n"
        "[gpu_model_runner.py:1144] Model loading took 17.6100 GB\nMaximum concurrency for 2,048 tokens per request: 1.75x\n"
    )
    answer = QUESTION(log + GRAPHS.format("3,584"), hardware="A10G")
    assert (answer["code"], answer["read"]["model"]) == ("torch_graphs_do_not_fit", "gaunernst/gemma-3-27b-it-int4-awq")
    assert "22.0 GiB − 21.5 GiB = 0.44 GiB outside the share of 0.98" in " ".join(answer["arithmetic"])
    assert next(step["change"] for step in answer["next_steps"] if step["code"] == "fewer_sequences") == "--max-num-seqs 1"
    unknown = QUESTION(GRAPHS.format("3,584").split("\n", 1)[1], engine="vllm", hardware="A10G")
    assert unknown["code"] == "torch_graphs_do_not_fit"  # the engine that the caller names counts as the text's own lines


@pytest.mark.parametrize(
    ("model", "hardware", "tokens", "share"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "L4", (32768, 29568), 0.92),
        ("Qwen/Qwen3-8B", "RTX-4090", (32768, 29568), 0.92),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "H100-SXMx8", (131072, 79392), 0.94),
    ],
)
def test_the_tokens_of_the_text_set_the_share_that_holds_one_request(
    model: str, hardware: str, tokens: tuple[int, int], share: float
) -> None:
    """The missing tokens take 0.39 / 22.0, 0.44 / 23.5 and 3.11 / 79.1 of the card more, whatever the app predicts for it."""
    answer = QUESTION(FEWER.format(*tokens), model=model, hardware=hardware)
    assert answer["next_steps"][1]["change"] == f"--gpu-memory-utilization {share}"
    assert any(line.startswith("0.9 + ") and f"= {share}, rounded up" in line for line in answer["arithmetic"])


def test_cards_of_the_text_and_its_short_flags_share_the_cache() -> None:
    """Of a 405B over 8 cards, 79,392 tokens take 4.77 GiB on each card: 126 layers keep 64,512 bytes a token there."""
    text = f"{FEWER.format('131072', '79392')} vllm serve meta-llama/Meta-Llama-3.1-405B-Instruct-FP8"
    for said, hardware in (("-tp 8 on 8xH100 80GB", ""), ("on 8 x H100", ""), ("-tp 4 -pp 2", "H100"), ("-tp 8", "h200")):
        answer = QUESTION(f"{text} {said}", hardware=hardware)
        assert (answer["read"]["hardware"], answer["predicted"]["devices"]) == ("H200-SXMx8" if hardware == "h200" else "H100-SXMx8", 8)
        assert any("4.77 GiB of cache on each card" in line for line in answer["arithmetic"])


def test_a_full_card_of_a_server_is_explained() -> None:
    """The share is taken on purpose, and the flag lowers it, whichever line of a log or table comes first."""
    table = "| Driver Version: 550.54.14 CUDA Version: 12.4 |\n| 30% 40C P8 20W / 450W | 21500MiB / 24564MiB | 0% Default |\n"
    for text, flag in (
        (table + "| 0 N/A N/A 1234 C VLLM::EngineCore 21480MiB |", "--gpu-memory-utilization"),
        (table + "| 0 N/A N/A 1234 C sglang::scheduler 21480MiB |", "--mem-fraction-static"),
        ("model weights take 1.93GiB; the rest of the memory reserved for KV Cache is 11.5GiB.", "--gpu-memory-utilization"),
        ("Load weight end. type=X, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=15.00 GB.", "--mem-fraction-static"),
    ):
        answer = QUESTION(text)
        assert "on purpose" in answer["cause"] or "intended" in answer["cause"]
        assert any(step["change"].startswith(flag) for step in answer["next_steps"])
    unknown = QUESTION(table + "| 0 N/A N/A 1234 C python3 21480MiB |")
    assert "on purpose" in unknown["next_steps"][0]["message"]


def test_a_call_that_fits_the_quota_is_not_counted_as_too_long() -> None:
    """90 s of 100 s leave 10 s; the other way round 10 s are missing."""
    fits, exceeds = (QUESTION(f"You have exceeded your GPU quota ({a}s requested vs. {b}s left)") for a, b in ((90, 100), (100, 90)))
    assert "10 s to spare" in fits["arithmetic"][0]
    assert "10 s too many" in exceeds["arithmetic"][0]


def test_training_in_four_bits_is_predicted_as_training() -> None:
    """Not as inference of one request at the model's longest context."""
    oom = "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 1 has a total capacity of 44.40 GiB of which 200.00 MiB is free"
    predicted = QUESTION(f"AutoTrain int4 SFT on 4xL40S: torch.OutOfMemoryError: {oom}", model="meta-llama/Llama-3.1-70B-Instruct")[
        "predicted"
    ]
    assert (predicted["method"], predicted["devices"]) == ("qlora", 4)
    assert "context_tokens" not in predicted
