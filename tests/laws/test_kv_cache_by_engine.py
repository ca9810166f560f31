"""What serving engines allocate, worked by hand from their own rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.engines import ENGINES
from lib.laws.kv_cache import cache_bytes
from lib.laws.kv_cache_by_engine import CacheQuestion, engine_cache
from lib.model.spec import CacheTerm
from lib.present.wording import load_sentences

LLAMA = CacheTerm(kind="full attention", holds="keys and values", layers=32, elements=2048, growth="tokens")
LATENT = CacheTerm(kind="latent attention (MLA)", holds="latent and rope key", layers=61, elements=576, growth="tokens")
INDEX = CacheTerm(kind="latent attention (MLA)", holds="indexer keys", layers=61, elements=128, growth="tokens")
GEMMA = (
    CacheTerm(kind="full attention", holds="keys and values", layers=10, elements=4096, growth="tokens"),
    CacheTerm(kind="sliding window", holds="keys and values", layers=52, elements=4096, growth="window", span=1023),
)
HYBRID = (
    CacheTerm(kind="full attention", holds="keys and values", layers=4, elements=2048, growth="tokens"),
    CacheTerm(kind="convolution state", holds="convolution state", layers=36, elements=13_312, growth="constant"),
    CacheTerm(kind="state space (Mamba 2) state", holds="recurrent state", layers=36, elements=393_216, growth="constant", dtype="float32"),
)


def total_bytes(engine: str, terms: tuple[CacheTerm, ...], tokens: int, **sizes: float) -> int:
    """Total of one sequence in 16 bits unless said otherwise."""
    given_sizes = {"batch": 1, "element_bytes": 2.0, "head_dim": 128, **sizes}
    return engine_cache(engine, CacheQuestion(tokens, terms=terms, **given_sizes)).bytes  # type: ignore[arg-type]


def test_vllm_rounds_up_to_blocks_of_sixteen() -> None:
    """1000 tokens are 63 blocks of 16: 32 layers · 63 · 16 · 2048 · 2 bytes."""
    assert total_bytes("vllm", (LLAMA,), 1000) == 32 * 63 * 16 * 2048 * 2


def test_vllm_fills_up_groups_of_layers() -> None:
    """Gemma 3 27B: 52 sliding layers take 60 slots of 1024/16 + 1 = 65 blocks each; 10 full layers hold 500 blocks of 8000 tokens."""
    assert total_bytes("vllm", GEMMA, 8000) == (10 * 500 + 60 * 65) * 16 * 4096 * 2


def test_vllm_keeps_latent_rows_in_blocks_of_64_and_index_rows_in_fp8() -> None:
    """DeepSeek V3.2 at 100 tokens: 2 blocks of 64; rows of 576 · 2 and of 128 + 4 bytes, whatever the cache dtype."""
    assert total_bytes("vllm", (LATENT, INDEX), 100) == 61 * 128 * (576 * 2 + 132)
    assert total_bytes("vllm", (LATENT, INDEX), 100, element_bytes=1.0) == 61 * 128 * (576 + 132)


def test_vllm_grows_the_blocks_of_a_hybrid_to_the_size_of_a_state() -> None:
    """States of a layer: 13312 · 2 + 393216 · 4 = 1599488 bytes; a token of attention 4096, so blocks of 400 tokens (390.5 in steps of 16).

    A page is then 400 · 4096 = 1638400 bytes. 36 state layers are 9 groups of 4: no filling up. 1000 tokens are 3 blocks.
    """
    assert total_bytes("vllm", HYBRID, 1000) == (4 * 3 + 36) * 1_638_400


def test_llama_cpp_pads_cells_and_windows_to_256() -> None:
    """1000 tokens take 1024 cells; a window of 1024 and a micro-batch of 512 take 1536 of 8192."""
    assert total_bytes("llama.cpp", (LLAMA,), 1000) == 32 * 1024 * 2048 * 2
    assert total_bytes("llama.cpp", GEMMA, 8000) == (10 * 8192 + 52 * 1536) * 4096 * 2
    assert total_bytes("llama.cpp", GEMMA, 100) == (10 + 52) * 256 * 4096 * 2


def test_llama_cpp_drops_a_window_that_every_layer_has() -> None:
    """Mistral 7B v0.1 slides over 4096 tokens in all 32 layers; llama.cpp's `llama` graph knows no window: 16384 cells all the same."""
    mistral = (CacheTerm(kind="sliding window", holds="keys and values", layers=32, elements=2048, growth="window", span=4095),)
    assert total_bytes("llama.cpp", mistral, 16_384) == 32 * 16_384 * 2048 * 2
    assert total_bytes("vllm", mistral, 16_384) == 32 * (4096 + 16) * 2048 * 2


def test_llama_cpp_keeps_states_in_float32() -> None:
    """36 layers · (13312 + 393216) · 4 bytes, and 256 cells of attention in q8_0."""
    assert total_bytes("llama.cpp", HYBRID, 1, element_bytes=34 / 32) == 36 * (13_312 + 393_216) * 4 + 4 * 256 * 2048 * 34 // 32


def test_llama_cpp_matches_a_published_start_up_log() -> None:
    """Qwen3 4B, 36 layers of 8 heads of 128: the log of `-c 4096` says 576 MiB, of `-c 8192` 1152 MiB."""
    qwen = (CacheTerm(kind="full attention", holds="keys and values", layers=36, elements=2048, growth="tokens"),)
    assert total_bytes("llama.cpp", qwen, 4096) == 576 * 2**20
    assert total_bytes("llama.cpp", qwen, 8192) == 1152 * 2**20


@pytest.mark.parametrize(
    ("heads", "width", "element_bytes", "row"),
    [(8, 128, 2.0, 2048), (8, 96, 2.0, 2048), (8, 64, 2.0, 1024), (1, 64, 2.0, 256), (1, 256, 1.0, 1024)],
)
def test_tpu_rows_are_whole_registers(heads: int, width: int, element_bytes: float, row: int) -> None:
    """Heads of 96 take the room of 128; a head of 64 shares 128 lanes with its value, two heads a word; fp8 packs four."""
    term = CacheTerm(kind="full attention", holds="keys and values", layers=1, elements=2 * heads * width, growth="tokens")
    assert total_bytes("vllm-tpu", (term,), 16_384, element_bytes=element_bytes, head_dim=width) == 16_384 * row * element_bytes


def test_tpu_pages() -> None:
    """Latent attention has pages of 1024 tokens and rows of 640; 1000 tokens of others have pages of 64."""
    assert total_bytes("vllm-tpu", (LATENT,), 1025) == 61 * 2048 * 640 * 2
    assert total_bytes("vllm-tpu", (LLAMA,), 1000) == 32 * 1024 * 2048 * 2


HOLDING = [engine for engine in ENGINES if engine != "tei"]


@given(st.sampled_from(HOLDING), st.sampled_from([(LLAMA,), (LATENT, INDEX), GEMMA, HYBRID]), st.integers(0, 10**6), st.integers(1, 64))
def test_linear_in_the_batch_and_monotone(engine: str, terms: tuple[CacheTerm, ...], tokens: int, batch: int) -> None:
    """Sequences are held side by side; one more token never takes less (pages change at 8192 tokens, by less than a page)."""
    one = total_bytes(engine, terms, tokens)
    assert total_bytes(engine, terms, tokens, batch=batch) == batch * one
    if engine != "vllm-tpu":
        assert total_bytes(engine, terms, tokens + 1) >= one


@given(st.sampled_from(HOLDING), st.sampled_from([(LLAMA,), (LATENT,), GEMMA]), st.integers(1, 10**6))
def test_engines_never_hold_less_than_is_needed(engine: str, terms: tuple[CacheTerm, ...], tokens: int) -> None:
    """Blocks, cells and pages are rounded up; with attention only nothing is below what transformers holds."""
    assert total_bytes(engine, terms, tokens) >= cache_bytes(terms, tokens=tokens, batch=1, element_bytes=2)


def test_blocks_of_sglang_tensorrt_and_tgi() -> None:
    """1000 tokens: 1000 of SGLang and TGI, 32 blocks of 32 tokens in TensorRT-LLM. TGI holds every layer of Gemma at full length."""
    assert total_bytes("sglang", (LLAMA,), 1000) == total_bytes("tgi", (LLAMA,), 1000) == 32 * 1000 * 2048 * 2
    assert total_bytes("tensorrt-llm", (LLAMA,), 1000) == 32 * 1024 * 2048 * 2
    assert total_bytes("sglang", GEMMA, 8000) == (10 * 8000 + 52 * 1024) * 4096 * 2
    assert total_bytes("tgi", GEMMA, 8000) == (10 + 52) * 8000 * 4096 * 2
    assert total_bytes("tgi", GEMMA[1:], 8000) == 52 * 1024 * 4096 * 2
    assert total_bytes("tei", (LLAMA,), 1000) == 0


def test_what_is_left_open_has_a_sentence() -> None:
    """Every code that a law gives is one that can be said."""
    compressed = CacheTerm(kind="compressed attention", holds="entries", layers=3, elements=512, growth="blocks", span=128)
    for engine in ENGINES:
        for terms in ((LATENT, INDEX), HYBRID, (LLAMA, compressed)):
            assert set(engine_cache(engine, CacheQuestion(5000, 2, 2, head_dim=128, terms=terms)).codes) <= load_sentences("caveats").keys()
    assert engine_cache("vllm", CacheQuestion(1, 1, 2, terms=HYBRID)).codes == ("engine_state_dtype",)
    assert engine_cache("llama.cpp", CacheQuestion(1, 1, 2, terms=(LATENT,))).codes == ("engine_latent_build",)
    cross = CacheTerm(kind="cross attention", holds="keys and values", layers=32, elements=3_840_000, growth="constant")
    assert engine_cache("vllm", CacheQuestion(1, 1, 2, terms=(LLAMA, cross))).codes == ("engine_cache_layout",)


def test_compressed_attention_is_fp8_in_vllm() -> None:
    """DeepSeek-V4: 64 entries of 584 bytes, padded to 37,440, hold 256 tokens at ratio 4; in bf16 they would take 1.7 times as much."""
    entries = CacheTerm(kind="compressed attention", holds="entries", layers=21, elements=512, growth="blocks", span=4)
    index = CacheTerm(kind="compressed attention", holds="index entries", layers=21, elements=128, growth="blocks", span=4)
    coarse = CacheTerm(kind="compressed attention", holds="entries", layers=20, elements=512, growth="blocks", span=128)
    assert total_bytes("vllm", (entries,), 256) == 21 * 37_440
    assert total_bytes("vllm", (entries,), 257) == 2 * 21 * 37_440
    assert total_bytes("vllm", (coarse,), 256) == 20 * 1728  # 2 x 584 = 1168, padded
    million = 2**20
    bf16 = cache_bytes((entries, index, coarse), tokens=million, batch=1, element_bytes=2)
    assert bf16 / 2**30 == pytest.approx(6.72, abs=0.02)  # vLLM's own figure for V4-Flash in bf16 (vllm.ai/blog/deepseek-v4, 2026-04-24)
    assert total_bytes("vllm", (entries, index, coarse), million) == pytest.approx(bf16 / 1.75, rel=0.03)
    assert engine_cache("vllm", CacheQuestion(million, 1, 2, terms=(entries,))).codes == ("engine_fp8_entries",)


def test_no_cache_and_no_such_engine() -> None:
    """An encoder holds nothing in any engine; an unknown engine is an error, not zero."""
    assert engine_cache("vllm", CacheQuestion(10, 1, 2)).bytes == 0
    with pytest.raises(ValueError, match="no law of memory or speed for an engine named abacus"):
        engine_cache("abacus", CacheQuestion(10, 1, 2, terms=(LLAMA,)))
