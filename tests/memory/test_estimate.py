"""The estimate: parts that add up, devices, ranges, and the inverse; on real models that come with the app."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import catalog
from lib.catalog.offers import own_hardware
from lib.engines import ENGINES
from lib.errors import BadArgument
from lib.memory import cache_headroom, count_per_device, estimate_memory, fit_memory, usable_memory
from lib.memory.resolve import find_largest, resolve_request
from lib.memory.training import estimate_training
from lib.model import bundled
from lib.model.resolve import resolve_count
from lib.model.spec import Dimensions, ModelSpec
from lib.units import GIB
from lib.workload import MODES, MemoryRequest, TrainingRequest

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MODELS = [
    LLAMA,
    "google/gemma-3-4b-it",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V3.2",
    "state-spaces/mamba-2.8b-hf",
    "openai/whisper-large-v3",
    "google-bert/bert-base-uncased",
]
SILICON = catalog.load().accelerators

models = st.sampled_from(MODELS)
engines = st.sampled_from(ENGINES)
requests = st.builds(
    MemoryRequest,
    precision=st.sampled_from(["auto", "fp32", "bf16", "int8", "int4"]),
    engine=engines,
    context_tokens=st.integers(1, 200_000),
    batch_size=st.integers(1, 64),
    kv_precision=st.sampled_from(["auto", "fp16", "fp8", "int4"]),
    mode=st.sampled_from(MODES),
    devices=st.integers(1, 8),
)
cards = st.sampled_from(["T4", "L4", "A100-SXM4-80GB", "H200-SXM", "TPU-v6e", "CPU-8vCPU"]).map(SILICON.__getitem__)


def accepts_request(name: str, request: MemoryRequest) -> bool:
    """Whether the engine runs the model, and loads the format."""
    with contextlib.suppress(BadArgument):
        resolve_request(spec(name), request, None)
        return True
    return False


asked = st.tuples(models, requests).filter(lambda question: accepts_request(*question))


def spec(name: str) -> ModelSpec:
    """A bundled model."""
    found = bundled.find_spec(name)
    assert found is not None, name
    return found


@given(asked, cards)
@settings(max_examples=200, deadline=None)
def test_parts_add_up(question: tuple[str, MemoryRequest], card: object) -> None:
    """The total is the sum of the parts, each part that of its details, and the range holds the total."""
    name, request = question
    found = estimate_memory(spec(name), request, card)
    parts = (found.weights, found.kv_cache, found.activation, found.runtime)
    assert sum(part.bytes for part in parts) == found.total_bytes
    for part in parts:
        assert sum(part.details.values()) == part.bytes
        assert all(size >= 0 for size in part.details.values()), part
        assert part.law
        assert part.source
    assert found.weights.bytes + found.kv_cache.bytes <= found.total_bytes
    assert 0 < found.low_bytes <= found.total_bytes <= found.high_bytes


@given(asked, cards)
@settings(max_examples=200, deadline=None)
def test_no_device_holds_less_than_its_share(question: tuple[str, MemoryRequest], card: object) -> None:
    """The fullest of n devices holds at least a part in n of everything, and never more than everything."""
    name, request = question
    found = estimate_memory(spec(name), request, card)
    assert found.per_device_bytes * request.devices >= found.total_bytes
    assert found.per_device_bytes <= found.total_bytes


@given(asked, st.integers(1, 100_000), st.integers(1, 32))
@settings(max_examples=200, deadline=None)
def test_more_never_takes_less(question: tuple[str, MemoryRequest], tokens: int, sequences: int) -> None:
    """The peak grows with context and with batch."""
    name, request = question
    of = count_per_device(spec(name), request)
    here = of.peak(request.context_tokens, request.batch_size)
    assert of.peak(request.context_tokens + tokens, request.batch_size) >= here
    assert of.peak(request.context_tokens, request.batch_size + sequences) >= here


def test_tensors_that_shrink_as_the_cache_grows_do_not_lower_the_peak() -> None:
    """gpt-oss on eight devices with an fp8 cache: a token adds 24 576 / 8 bytes of cache; what a decode step holds falls by 4094."""
    model = spec("openai/gpt-oss-20b")
    of = count_per_device(model, MemoryRequest(kv_precision="fp8", devices=8))
    assert of.activation.bytes(1, 1) - of.activation.bytes(2, 1) > 24_576 // 8
    assert of.peak(2, 1) >= of.peak(1, 1)


@given(asked, st.integers(1, 400))
@settings(max_examples=150, deadline=None)
def test_the_longest_that_fits_fits_and_one_more_does_not(question: tuple[str, MemoryRequest], gib: int) -> None:
    """`fit` turns the law round exactly, in both directions."""
    name, request = question
    model = spec(name)
    found = fit_memory(model, request, gib * GIB)
    of = count_per_device(model, request)
    capacity = of.claim(request.context_tokens, request.batch_size).capacity_bytes(gib * GIB)
    assert found.capacity_bytes == capacity
    assert found.fits == (of.peak(request.context_tokens, request.batch_size) <= capacity)
    assert found.free_bytes == capacity - of.peak(request.context_tokens, request.batch_size)
    longest, most = found.max_context_tokens, found.max_batch_size
    if longest is not None:
        assert longest == 0 or of.peak(longest, request.batch_size) <= capacity
        assert longest == model.context_limit or of.peak(longest + 1, request.batch_size) > capacity
    if most is not None:
        assert most == 0 or of.peak(request.context_tokens, most) <= capacity
        assert of.peak(request.context_tokens, most + 1) > capacity


@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(0, 50), st.integers(0, 10**9))
def test_the_inverse_of_a_curve(fixed: int, slope: int, bend: int, capacity: int) -> None:
    """The largest n with fixed + slope·n + bend·n² within a capacity, as a plain search finds it."""
    limit = 3000

    def size(n: int) -> int:
        return fixed + slope * n + bend * n * n

    plain = max((n for n in range(1, limit + 1) if size(n) <= capacity), default=0)
    assert find_largest(size, capacity, limit) == plain


def test_a_llama_by_hand() -> None:
    """Llama 3.1 8B in bf16 at 4096 tokens.

    Weights: 8 030 261 248 parameters × 2. Cache: 32 layers · 2 · 8 heads · 128 · 4096 tokens · 2 bytes = 512 MiB.
    Activations: in the second layer's MLP 4·4096 + 3·14 336 elements of two bytes and eight bytes of token id, 118 792 a token,
    and 520 bytes of rotary tables and positions: 4096 · 119 312.
    """
    found = estimate_memory(spec(LLAMA), MemoryRequest())
    assert found.weights.bytes == 2 * 8_030_261_248
    assert found.kv_cache.bytes == 2**29
    assert found.activation.bytes == 4096 * 119_312
    assert found.precision == "bf16"
    assert found.rule_of_thumb_bytes == pytest.approx(8_030_261_248 * 2.4, abs=1)


def test_the_law_explains_the_trace() -> None:
    """The law of plain decoders gives what the trace finds for dense decoders, within 2 %."""
    for name in (LLAMA, "Qwen/Qwen2.5-7B-Instruct", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-2-7b-hf"):
        model = spec(name)
        traced = estimate_memory(model, MemoryRequest(context_tokens=4000)).activation.bytes
        by_law = estimate_memory(replace(model, activations=()), MemoryRequest(context_tokens=4000))
        assert by_law.activation.bytes == pytest.approx(traced, rel=0.02), name
        assert "activation_by_law" in {c.code for c in by_law.caveats}


def test_tensor_parallel_holds_few_heads_more_than_once() -> None:
    """Eight key heads on sixteen devices: each device holds one, so the cache is held twice; weights are cut, norms are not."""
    request = MemoryRequest(engine="vllm", devices=16)
    found = estimate_memory(spec(LLAMA), request)
    assert found.kv_cache.bytes == 2 * 2**29
    # 65 norms of 4096 in bf16 are held sixteen times; matrices divide evenly
    assert found.weights.bytes == 2 * 8_030_261_248 + 15 * 65 * 4096 * 2
    assert found.weights.details["copies on other devices"] == 15 * 65 * 4096 * 2


def test_latent_attention_is_held_by_every_device() -> None:
    """DeepSeek's latent vector serves all heads: eight devices hold eight copies."""
    one = estimate_memory(spec("deepseek-ai/DeepSeek-V3.2"), MemoryRequest(engine="vllm"))
    eight = estimate_memory(spec("deepseek-ai/DeepSeek-V3.2"), MemoryRequest(engine="vllm", devices=8))
    assert eight.kv_cache.bytes == 8 * one.kv_cache.bytes


def test_layers_are_dealt_out_whole() -> None:
    """Five devices share 32 layers as 7, 7, 6, 6, 6: the fullest holds 7/32 of them and, at most, the larger table."""
    found = estimate_memory(spec(LLAMA), MemoryRequest(devices=5))
    table = 128_256 * 4096 * 2
    in_layers = 2 * 8_030_261_248 - table
    cache, activation, runtime = 2**29, 4096 * 119_312, found.runtime.bytes // 5
    assert found.per_device_bytes == -(-in_layers * 7 // 32) + table + cache * 7 // 32 + activation + runtime
    assert found.weights.bytes == 2 * 8_030_261_248
    assert "layer_split" in {c.code for c in found.caveats}


def test_an_encoder_has_no_cache() -> None:
    """BERT: no cache part, but activations that grow with what is read."""
    bert = spec("google-bert/bert-base-uncased")
    found = estimate_memory(bert, MemoryRequest(context_tokens=512))
    assert found.kv_cache.bytes == 0
    assert found.activation.bytes > estimate_memory(bert, MemoryRequest(context_tokens=128)).activation.bytes


def test_a_bare_count_is_a_typical_decoder() -> None:
    """7B: 2 bytes a parameter; 33 layers (h = 33 · 128, 12·L·h² = 7.06e9) with 8 key heads of 128: 33 · 2·8·128 · 2 bytes a token."""
    found = estimate_memory(resolve_count("7B"), MemoryRequest(context_tokens=1000))
    assert found.weights.bytes == 14 * 10**9
    assert found.kv_cache.bytes == 1000 * 33 * 2 * 8 * 128 * 2
    # b·T·(4h + 3f), f = 4h
    assert found.activation.bytes == 2 * 1000 * 16 * 33 * 128
    assert "activation_by_law" in {c.code for c in found.caveats}


def test_unknown_sizes_are_those_of_a_typical_decoder() -> None:
    """Where a config names no width, activations are those of a bare count of as many parameters, and a caveat says so."""
    bare = resolve_count("7B")
    unknown = replace(bare, source="safetensors", dimensions=Dimensions())
    found = estimate_memory(unknown, MemoryRequest(context_tokens=1000))
    assert found.activation.bytes == estimate_memory(bare, MemoryRequest(context_tokens=1000)).activation.bytes
    assert "activation_typical" in {c.code for c in found.caveats}


def test_training_states() -> None:
    """Mixed precision in full: 2 of master weights beside the 16 bits, 4 of gradient, 8 of moments; LoRA trains 0.5 % of that."""
    full = estimate_memory(spec(LLAMA), MemoryRequest(mode="full"))
    count = 8_030_261_248
    assert {k: full.activation.details[k] for k in ("gradients", "optimizer", "master weights")} == {
        "gradients": 4 * count,
        "optimizer": 8 * count,
        "master weights": 2 * count,
    }
    assert full.kv_cache.bytes == 0
    step = estimate_training(spec(LLAMA), TrainingRequest(method="full", sequence_tokens=4096))
    assert full.total_bytes == step.device.typical  # one rule
    assert (full.low_bytes, full.high_bytes) == (step.device.low, step.device.high)
    lora = estimate_memory(spec(LLAMA), MemoryRequest(mode="lora"))
    # rank 16 on q, o (4096²), k, v (1024 × 4096), gate, up, down (14 336 × 4096) of 32 layers
    adapters = 32 * 16 * (2 * 8192 + 2 * 5120 + 3 * 18_432)
    assert lora.activation.details["adapters"] == 4 * adapters
    qlora = estimate_memory(spec(LLAMA), MemoryRequest(mode="qlora"))
    stated = TrainingRequest(method="qlora", sequence_tokens=4096)
    assert qlora.precision == "bnb-nf4-double"
    assert qlora.total_bytes == estimate_training(spec(LLAMA), stated).device.typical  # one default
    plain = estimate_memory(spec(LLAMA), MemoryRequest(mode="qlora", precision="bnb-nf4"))
    assert plain.total_bytes == estimate_training(spec(LLAMA), replace(stated, double_quantization=False)).device.typical
    assert qlora.total_bytes < lora.total_bytes < full.total_bytes


def test_old_cards_may_hold_scores() -> None:
    """A T4 has no FlashAttention: an older torch holds the scores, so the high value rises by far more than on an L4."""
    request = MemoryRequest(context_tokens=8192)
    on_t4 = estimate_memory(spec(LLAMA), request, SILICON["T4"])
    on_l4 = estimate_memory(spec(LLAMA), request, SILICON["L4"])
    assert on_t4.high_bytes - on_t4.total_bytes > 8 * 32 * 8192**2  # 8 bytes a score, 32 heads
    assert on_l4.high_bytes - on_l4.total_bytes < 2 * GIB
    assert "attention_scores" in {c.code for c in on_t4.caveats}
    assert on_t4.precision == "fp16"


def test_capacity_of_offers_and_cards() -> None:
    """A card's usable memory; a CPU's RAM less a twentieth; plain silicon like an offer."""
    held = catalog.load()
    l4 = next(o for o in held.offers if o.id == "l4x1")
    assert usable_memory(l4) == l4.vram_bytes_per_accelerator
    cpu = next(o for o in held.offers if o.id == "cpu-upgrade")
    assert cpu.ram_bytes is not None
    assert usable_memory(cpu) == int(cpu.ram_bytes * 0.95)
    assert usable_memory(own_hardware(SILICON["L4"], 2)) == SILICON["L4"].memory_usable


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(0, 10**13), st.integers(1, 2**24))
def test_the_search_for_the_largest_asks_rarely(fixed: int, slope: int, capacity: int, limit: int) -> None:
    """Sizes are straight lines, some with a bend: few questions find the largest that fits, so that a slider can move freely."""
    for bend in (2 * limit, limit // 2):
        asked: list[int] = []

        def size(n: int, bend: int = bend, asked: list[int] = asked) -> int:
            asked.append(n)
            return fixed + slope * n + slope * max(0, n - bend)

        found = find_largest(size, capacity, limit)
        assert len(asked) <= 2 * limit.bit_length() + 3
        assert found == 0 or size(found) <= capacity
        assert found == limit or size(found + 1) > capacity


def test_fp8_checkpoints_of_tensorrt_llm_hold_an_fp8_cache() -> None:
    """ModelOpt writes scales for the cache beside those of the weights; 16-bit weights and other engines keep a 16-bit cache."""
    spec = bundled.find_spec(LLAMA)
    assert spec is not None
    found = {
        (engine, precision): estimate_memory(spec, MemoryRequest(engine=engine, precision=precision)).kv_precision
        for engine in ("tensorrt-llm", "vllm")
        for precision in ("fp8", "bf16")
    }
    assert found == {
        ("tensorrt-llm", "fp8"): "fp8", ("tensorrt-llm", "bf16"): "bf16", ("vllm", "fp8"): "bf16", ("vllm", "bf16"): "bf16",
    }  # fmt: skip
    asked = MemoryRequest(engine="tensorrt-llm", precision="fp8", kv_precision="bf16")
    assert estimate_memory(spec, asked).kv_precision == "bf16"


def test_the_cache_that_an_engine_allocates_at_start_is_counted_in_tokens() -> None:
    """Llama-3.1-8B on an L4 with vLLM: what nine tenths of 22.03 GiB leave, at 128 KiB a token; transformers allocates none ahead."""
    spec, card = bundled.find_spec(LLAMA), SILICON["L4"]
    assert spec is not None
    request = MemoryRequest(engine="vllm", precision="bf16", context_tokens=4096)
    fit = fit_memory(spec, request, card.memory_usable or 0, card)
    assert fit.kv_cache_tokens is not None
    room = cache_headroom(spec, request, card.memory_usable or 0, card)
    assert fit.kv_cache_tokens == pytest.approx(room.capacity_bytes / 131_072, rel=0.01)
    assert 15_000 < fit.kv_cache_tokens < 40_000
    assert fit_memory(spec, replace(request, engine="transformers"), card.memory_usable or 0, card).kv_cache_tokens is None


def test_the_share_of_vllm_by_release_is_said() -> None:
    """0.9 with graphs beside it before 0.21, 0.92 with graphs inside since."""
    spec = bundled.find_spec(LLAMA)
    assert spec is not None
    said = [c for c in estimate_memory(spec, MemoryRequest(engine="vllm")).caveats if c.code == "share_by_release"]
    assert [(c.values["old_share"], c.values["new_share"], c.values["changed"]) for c in said] == [(0.9, 0.92, "0.21")]
    assert not [c for c in estimate_memory(spec, MemoryRequest(engine="sglang")).caveats if c.code == "share_by_release"]
