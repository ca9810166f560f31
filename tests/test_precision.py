"""Names of number formats."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.engines import ENGINES
from lib.errors import BadArgument
from lib.model.spec import Quantization, StoredWeights
from lib.precision import (
    KV_NAMES,
    NAMES,
    check_support,
    compute_dtype,
    element_bytes,
    lacks_stored_format,
    loads,
    parse,
    resolve,
    weight_format,
)


@dataclass
class Card:
    """Silicon that computes in a few types."""

    types: set[str] = field(default_factory=set)

    def supports(self, dtype: str) -> bool:
        """Whether it does."""
        return dtype in self.types


@dataclass
class Model:
    """A checkpoint, as far as precision is concerned."""

    stored: StoredWeights


T4 = Card({"fp32", "fp16", "int8"})
A100 = Card({"fp32", "fp16", "bf16", "int8"})
H100 = Card({"fp32", "fp16", "bf16", "int8", "fp8"})


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    """What is accepted is one of the names; what is not raises the one refusal."""
    try:
        assert parse(text) in NAMES
    except BadArgument as refusal:
        assert "Accepted: auto" in str(refusal)  # noqa: PT017 either outcome is right


@given(st.sampled_from(NAMES), st.sampled_from(ENGINES))
def test_every_name_means_a_format(name: str, engine: str) -> None:
    """Every name but auto has a format with every engine that loads it, in any spelling of capitals."""
    assert parse(name.upper()) == name
    if name != "auto" and loads(engine, name):
        assert weight_format(name, engine).effective_bits > 0


@pytest.mark.parametrize(
    ("engine", "name", "stored"),
    [("tei", "int4", ""), ("tei", "bf16", ""), ("tgi", "gguf:Q4_K_M", ""), ("tensorrt-llm", "bnb-nf4", ""), ("tgi", "auto", "mxfp4")],
)
def test_what_an_engine_does_not_load_is_refused(engine: str, name: str, stored: str) -> None:
    """With the formats that it does load; also where the checkpoint is stored so."""
    kept = Quantization(method=stored, format=stored) if stored else None
    with pytest.raises(BadArgument, match=rf"precision was .*Accepted: .*fp16.* with {engine}"):
        resolve(name, Model(StoredWeights(dtype="bfloat16", quantization=kept)), engine)


def test_tei_computes_in_fp16_on_a_gpu_and_in_fp32_elsewhere() -> None:
    """It has no bf16: `--dtype` takes float16 and float32."""
    model = Model(StoredWeights(dtype="bfloat16"))
    assert [resolve("auto", model, "tei", card) for card in (None, A100, Card({"fp32"}))] == ["fp16", "fp16", "fp32"]


@pytest.mark.parametrize(("text", "name"), [("Q4_K_M", "gguf:Q4_K_M"), (" torch.bfloat16 ", "bf16"), ("float16", "fp16"), ("INT4", "int4")])
def test_customary_spellings(text: str, name: str) -> None:
    """Words of torch and bare llama.cpp types are understood."""
    assert parse(text) == name


@pytest.mark.parametrize(
    ("stored", "card", "name"),
    [
        (StoredWeights(dtype="bfloat16"), None, "bf16"),
        (StoredWeights(dtype="bfloat16"), T4, "fp16"),
        (StoredWeights(dtype="float32"), T4, "fp32"),
        (StoredWeights(dtype="float16"), A100, "fp16"),
        (StoredWeights(dtype=""), None, "bf16"),
        (StoredWeights(dtype="bfloat16", quantization=Quantization(method="mxfp4", format="mxfp4")), H100, "mxfp4"),
        (StoredWeights(dtype="float16", quantization=Quantization(method="aqlm", format="")), H100, "fp16"),
    ],
)
def test_auto_is_what_the_checkpoint_is_stored_in(stored: StoredWeights, card: Card | None, name: str) -> None:
    """The stored dtype or quantization; fp16 where silicon has no bf16."""
    assert resolve("auto", Model(stored), accelerator=card) == name


@pytest.mark.parametrize(("stored", "name"), [("mxfp4", "gguf:MXFP4_MOE"), ("fp8-block", "gguf:Q8_0"), ("nvfp4", "gguf:Q4_K_M")])
def test_llama_cpp_loads_only_its_own_files(stored: str, name: str) -> None:
    """A quantized checkpoint becomes the file type of the same width."""
    model = Model(StoredWeights(dtype="bfloat16", quantization=Quantization(method="any", format=stored)))
    assert resolve("auto", model, "llama.cpp") == name
    assert resolve("auto", model, "vllm") == stored


def test_a_dtype_is_unstated_only_where_nothing_tells_it() -> None:
    """The config's dtype, a quantization or the headers of the files each tell it."""
    assert lacks_stored_format(Model(StoredWeights(dtype="")))
    told = (
        StoredWeights(dtype="float32"),
        StoredWeights(dtype="", bytes_by_dtype={"F32": 4}),
        StoredWeights(dtype="", quantization=Quantization(method="mxfp4", format="mxfp4")),
    )
    assert not any(lacks_stored_format(Model(stored)) for stored in told)


def test_families_mean_what_an_engine_can_load() -> None:
    """int4 is NF4 for transformers, AWQ for vLLM, Q4_K_M for llama.cpp."""
    model = Model(StoredWeights(dtype="bfloat16"))
    assert [resolve("int4", model, e) for e in ("transformers", "vllm", "llama.cpp")] == ["bnb-nf4", "awq-4", "gguf:Q4_K_M"]


def test_quantized_weights_compute_in_a_half_that_the_silicon_has() -> None:
    """bf16 on an A100, fp16 on a T4, the plain format itself when it is one."""
    model = Model(StoredWeights(dtype="bfloat16"))
    assert [compute_dtype("int4", model, card) for card in (None, A100, T4)] == ["bf16", "bf16", "fp16"]
    assert compute_dtype("fp32", model, T4) == "fp32"


def test_what_silicon_lacks() -> None:
    """No bf16 on a T4; fp8 before Ada is only a storage format; 4-bit integers are unpacked everywhere."""
    assert [check_support("bf16", card) for card in (T4, A100)] == ["missing", "native"]
    assert [check_support("fp8", card) for card in (A100, H100)] == ["storage", "native"]
    assert check_support("awq-4", H100) == "storage"


def test_bytes_of_a_cached_element() -> None:
    """The cache follows the compute dtype; int8 and int4 carry a half-precision scale per 32 elements."""
    assert [element_bytes(name) for name in KV_NAMES] == [2, 4, 2, 2, 1, 1.0625, 0.5625]
    with pytest.raises(BadArgument):
        element_bytes("int2")
