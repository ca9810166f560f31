"""Settings of a server: reading them, what an engine has, and what it writes of them on its command line."""

from __future__ import annotations

import pytest

from lib.engines import TRAITS
from lib.errors import BadArgument
from lib.present.snippets import Start, command_words
from lib.request.serving import DEFAULTS, SETTINGS, Serving, check_serving, check_settings, read_flags

STATED = {
    "gpu_memory_utilization": 0.85, "max_model_len": 8192, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "kv_cache_dtype": "fp8",
    "cuda_graphs": False, "tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2, "gpu_layers": 20, "ctx_size": 65_536,
    "parallel": 8,
}  # fmt: skip
"""A value of each setting that has a flag and is not its default."""


def test_object_text_and_flags_say_the_same() -> None:
    """The object, its text and the flags of a command are read alike; an empty text leaves all to the engine."""
    expected = Serving(max_num_seqs=64, gpu_memory_utilization=0.95, cuda_graphs=False, tensor_parallel=2, kv_cache_dtype="fp8")
    flags = "--max-num-seqs 64 --gpu-memory-utilization=0.95 --enforce-eager -tp 2 --kv-cache-dtype fp8_e5m2"
    text = '{"max_num_seqs": 64, "gpu_memory_utilization": 0.95, "cuda_graphs": false, "tensor_parallel": 2, "kv_cache_dtype": "fp8"}'
    assert check_serving("serving", flags) == check_serving("serving", text) == expected
    for graphs, words in ((False, "--enforce-eager true"), (True, "--cuda-graphs 1 2 4"), (False, "--cuda-graphs 0")):
        assert check_serving("serving", words) == Serving(cuda_graphs=graphs)
    assert check_serving("serving", "") is check_serving("serving", {"max_num_seqs": None}) is DEFAULTS


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"max_seqs": 3}, "the nearest: max_num_seqs"),
        ({"tp_size": 2}, "the nearest: tensor_parallel"),
        ({"mem_fraction_static": 0.8}, "the nearest: gpu_memory_utilization"),
        ({"gpu_memory_utilization": 95}, "a number from 0.01 to 1"),
        ({"max_num_seqs": True}, "a whole number"),
        ({"max_num_seqs": 256, "max_num_batched_tokens": 128}, "at least max_num_seqs"),
        ("--trust-remote-code", "flags of a server"),
        ('{"max_num_seqs": 64', "a JSON object"),
        ("--max-num-seqs '64", "quotation mark"),
        ("--max-num-seqs 64 --max-model-len", "--max-model-len without a value"),
        ("--max-model-len --max-num-seqs 64", "--max-model-len without a value"),
        ("--max-num-seqs 64 128", "one value after --max-num-seqs"),
        ([1], "an object of settings"),
        ("{" * 3_000, "at most 2,000"),
    ],
)
def test_wrong_settings_are_refused_with_what_is_accepted(sent: object, says: str) -> None:
    """Unknown settings name the nearest, values of a wrong kind what is accepted."""
    with pytest.raises(BadArgument, match=says):
        check_serving("serving", sent)


def test_an_engine_refuses_what_it_does_not_have_and_names_what_to_use() -> None:
    """Each refusal is of the engine's row."""
    with pytest.raises(BadArgument, match=r"llama\.cpp has no max_num_seqs: use parallel"):
        check_settings("llama.cpp", Serving(max_num_seqs=64))
    with pytest.raises(BadArgument, match="transformers has no cuda_graphs; vllm, sglang"):
        check_settings("transformers", Serving(cuda_graphs=False))
    with pytest.raises(BadArgument, match="auto, fp8 with tgi"):
        check_settings("tgi", Serving(kv_cache_dtype="int4"))
    for name, row in TRAITS.items():
        assert row.settings <= set(SETTINGS)
        assert not row.settings & row.instead.keys(), name


@pytest.mark.parametrize("engine", [name for name, row in TRAITS.items() if row.command is not None])
def test_every_setting_of_a_command_is_written_and_read_again(engine: str) -> None:
    """What a command states of its settings is read as the same settings; without any it states none of the switches."""
    command = TRAITS[engine].command  # type: ignore[index]
    assert command is not None
    dtype = next((name for name in ("fp8", "int8") if name in command.cache_words), None)
    stated = {name: value for name, value in STATED.items() if name in command.settings} | ({"kv_cache_dtype": dtype} if dtype else {})
    serving = check_serving("serving", stated)
    check_settings(engine, serving)  # type: ignore[arg-type]
    cards = 2 * stated.get("pipeline_parallel", 1)
    start = Start(precision="bf16", devices=cards, sequences=4, context_tokens=4096, serving=serving)
    words = command_words(engine, "Qwen/Qwen3-8B", start)
    flags = {flag: words[at + 1] if at + 1 < len(words) else "" for at, flag in enumerate(words) if flag.startswith("-")}
    read = read_flags(engine, flags)
    assert {name: value for name, value in read.stated.items() if name in stated} == stated
    plain = command_words(engine, "Qwen/Qwen3-8B", Start(precision="bf16"))
    assert not {"--enforce-eager", "--disable-cuda-graph", "--kv-cache-dtype", "-ctk"} & set(plain)
