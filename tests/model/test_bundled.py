"""The models that come with the app."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model_facts import config, facts, list_counted_ids, published_totals

from lib.errors import BadCatalog
from lib.memory import estimate_memory
from lib.memory.components import count_weight_bytes
from lib.model import bundled
from lib.model.checkpoint import read_layer_formats
from lib.model.resolve import resolve_config
from lib.model.spec import Origin
from lib.units import GIB
from lib.workload import MemoryRequest


def test_a_configuration_of_another_model_is_a_caveat() -> None:
    """Half of the models have known sizes in the configuration of a sibling; each says so, and no other does."""
    told = {
        name: [c.values for c in spec.caveats if c.code == "sibling_config"]
        for name in bundled.list_ids()
        if (spec := bundled.find_spec(name))
    }
    assert told["01-ai/Yi-1.5-6B-Chat"] == [{"sibling": "01-ai/Yi-1.5-6B"}]
    assert told["deepseek-ai/DeepSeek-V4-Flash"] == []
    assert all(values == [] or values[0]["sibling"] != name for name, values in told.items())
    assert 240 <= sum(bool(values) for values in told.values()) <= 260


def test_every_counted_model_is_bundled_with_its_exact_counts() -> None:
    """One spec a counted fact, with the same total, the same active parameters, and components that add up."""
    assert sorted(bundled.list_ids()) == sorted({*list_counted_ids(), *published_totals()})
    for name in list_counted_ids():
        spec, row = bundled.find_spec(name), facts()[name]
        assert spec is not None
        assert (spec.id, spec.source, spec.parameters_total) == (name, "catalog", row["parameters"])
        assert spec.parameters_active == row.get("active", row["parameters"])
        assert sum(spec.parameters_by_component.values()) == row["parameters"]
        assert spec.sources[0].checked
        assert config(name)


def test_the_other_models_meet_their_published_totals() -> None:
    """Equal to the last parameter, or the difference has a reason; of at least three quarters a total was read."""
    rows = published_totals()
    for name, row in rows.items():
        spec = bundled.find_spec(name)
        assert spec is not None
        assert spec.parameters_total == row["parameters"], name
        assert row["published"] in {None, row["parameters"]} or row["because"], name
        assert spec.sources[0].checked
        assert config(name)
    assert sum(row["published"] is not None for row in rows.values()) >= 0.75 * len(rows)
    assert len(bundled.list_ids()) >= 400


@pytest.mark.parametrize(
    ("name", "format_", "gib"),
    [
        ("mistralai/Ministral-3-3B-Instruct-2512", "fp8-tensor", 4.35),
        ("openai/gpt-oss-20b", "mxfp4", 25.63 / 2),
        ("moonshotai/Kimi-K2.5", "int4-group", 554.32),
        ("microsoft/phi-4", "bf16", 27.31),
    ],
)
def test_weights_as_stored_are_as_large_as_the_published_files(name: str, format_: str, gib: float) -> None:
    """Within 0.2 % of the weight files; those of gpt-oss hold two copies (catalog of kaito-project/kaito, 2026-08-17)."""
    spec = bundled.find_spec(name)
    assert spec is not None
    held = estimate_memory(spec, MemoryRequest(context_tokens=1))
    assert held.precision == format_
    assert held.weights.bytes / GIB == pytest.approx(gib, rel=2e-3)


def test_which_repository_is_quantized() -> None:
    """DeepSeek V3 is published in FP8 blocks; of Llama 4 Maverick the repository without FP8 in its name is the one in bf16."""
    stored = {name: spec.stored for name in bundled.list_ids() if (spec := bundled.find_spec(name)) is not None}
    for name in ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1"):
        quantization = stored[name].quantization
        assert quantization is not None
        assert (quantization.format, quantization.group_size) == ("fp8-block", 128)
    assert stored["meta-llama/Llama-4-Maverick-17B-128E-Instruct"].quantization is None


def test_a_spec_goes_to_json_and_back() -> None:
    """Nothing is lost or changed on the way."""
    for name in bundled.list_ids():
        spec = bundled.find_spec(name)
        assert spec is not None
        assert bundled.from_json(bundled.to_json(spec)) == spec


def test_capitals_do_not_matter_and_unknown_ids_are_none() -> None:
    """Ids are found as the Hub finds them."""
    assert bundled.find_spec("OPENAI/GPT-OSS-20B") is bundled.find_spec("openai/gpt-oss-20b")
    assert bundled.find_spec("nobody/nothing") is None
    assert bundled.find_config("nobody/nothing") is None


def test_a_damaged_line_names_the_script() -> None:
    """Our own data being wrong is said, with what to do."""
    with pytest.raises(BadCatalog, match="build_models"):
        bundled.from_json({"id": "x"})


def test_listing_and_one_answer_import_no_torch() -> None:
    """A fresh process lists all ids and answers one without torch and transformers."""
    code = (
        "import sys; from lib.model import bundled; n = len(bundled.list_ids()); bundled.find_spec('openai/gpt-oss-20b'); "
        "print(n, 'torch' in sys.modules, 'transformers' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(told[0]) == len(bundled.list_ids())
    assert told[1:] == ["False", "False"]


def test_an_answer_is_remembered() -> None:
    """The second look-up returns the very object of the first."""
    assert bundled.find_spec("google/gemma-3-27b-it") is bundled.find_spec("google/gemma-3-27b-it")


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", 20.23),
        ("nvidia/Qwen3.6-27B-NVFP4", 19.62),
        ("nvidia/DeepSeek-V4-Flash-NVFP4", 158.74),
        ("nvidia/DeepSeek-V4-Pro-NVFP4", 858.32),
    ],
)
def test_mixed_precision_is_counted_module_by_module(name: str, gib: float) -> None:
    """ModelOpt's `quantized_layers`; counted in 16 bits or FP8 as a whole they took 65.4, 51.0, 272 and 1,500 GiB.

    Qwen3.6-27B by hand, in GiB: MLP 64 × 3 × 5120 × 17408 and the head 248320 × 5120 at 4.5 bits 9.63 (18.38e9 weights), attention in FP8
    6.48 (6.96e9), the table of words 2.37 and the picture tower 0.86 in 16 bits, small rest 0.2.
    """
    spec = bundled.find_spec(name)
    assert spec is not None
    assert spec.stored.quantization is not None
    assert spec.stored.quantization.format == "nvfp4"
    weights = count_weight_bytes(spec, "nvfp4", "bf16", keeps_fp32=False)
    assert weights.total / GIB == pytest.approx(gib, abs=0.01)


def test_experts_of_fp4_beside_fp8() -> None:
    """DeepSeek-V4 states FP8 for all matrices and `expert_dtype` fp4 for its routed experts; in FP8 throughout it took 286.9 GB.

    By hand: 277.03e9 weights of experts × (1/2 + 1/32) bytes = 147.17e9; 7.3e9 other weights, of which 1.06e9 of two bytes.
    """
    statement = {
        "expert_dtype": "fp4",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"},
    }
    assert read_layer_formats(statement) == {".experts": "mxfp4"}
    assert read_layer_formats({**statement, "expert_dtype": "fp8"}) == {}
    spec = bundled.find_spec("deepseek-ai/DeepSeek-V4-Flash")
    assert spec is not None
    assert {g.stored_as for g in spec.tensors if g.kind == "expert"} == {"mxfp4"}
    weights = count_weight_bytes(spec, "fp8-block-e8m0", "bf16", keeps_fp32=False)
    assert 147.17e9 + 7.3e9 + 1.06e9 < weights.total < 157e9


def test_a_model_with_the_sizes_of_another_has_its_own_context() -> None:
    """Longest contexts of the published configurations."""
    limits = {
        "meta-llama/Llama-2-13b-hf": 4096, "meta-llama/Llama-2-70b-chat-hf": 4096, "lmsys/vicuna-13b-v1.5": 4096,
        "Qwen/Qwen2.5-1.5B-Instruct": 32_768, "Qwen/Qwen2.5-72B-Instruct": 32_768, "Qwen/Qwen2.5-7B": 131_072,
    }  # fmt: skip
    for name, limit in limits.items():
        spec = bundled.find_spec(name)
        assert spec is not None
        assert (spec.context_limit, (bundled.find_config(name) or {})["max_position_embeddings"]) == (limit, limit)


def test_rows_of_positions_before_the_first_token_are_not_context() -> None:
    """RoBERTa's table has two more rows than tokens: padding and the row before it."""
    config_file = bundled.find_config("FacebookAI/roberta-base")
    assert config_file is not None
    read = resolve_config(config_file, Origin(id="FacebookAI/roberta-base", source="catalog", checked="2026-11-26"))
    assert (config_file["max_position_embeddings"], read.context_limit) == (514, 512)
    stored = [bundled.find_spec(name) for name in ("BAAI/bge-m3", "BAAI/bge-reranker-v2-m3", "FacebookAI/roberta-base")]
    assert [spec.context_limit for spec in stored if spec] == [8192, 8192, 512]


def test_bundled_rows_that_are_cut_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows are valid rows: the number of rows is kept beside them."""
    read = Path.read_text

    def read_half(path: Path, *args: Any, **named: Any) -> str:
        text = read(path, *args, **named)
        return text[: text.index("\n", len(text) // 2) + 1] if path.name == bundled.SPECS else text

    monkeypatch.setattr(Path, "read_text", read_half)
    bundled._lines.cache_clear()
    try:
        with pytest.raises(BadCatalog, match=r"models.jsonl has .* rows instead of"):
            bundled.find_spec("Qwen/Qwen3-8B")
    finally:
        bundled._lines.cache_clear()
