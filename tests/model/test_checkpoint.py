"""What checkpoints say about their storage: formats, modules left unquantized, and why a total on a model's page is not its parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from model_facts import LLAMA

from lib.model.build import build
from lib.model.checkpoint import read_quantization, reconcile, skip_test
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec, Quantization
from lib.present.sentences import sentence

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel", "group_size": None}


@pytest.mark.parametrize(
    ("said", "form", "group"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 128),
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}, "fp8-block-e8m0", 128),
        ({"quant_method": "fp8"}, "fp8-tensor", 0),
        ({"quant_method": "fbgemm_fp8"}, "fp8-channel", 0),
        ({"quant_method": "mxfp4"}, "mxfp4", 0),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq-4", 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq-8", -1),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "", 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq-4", 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-int8", 0),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb-nf4", 0),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
            "bnb-nf4-double",
            0,
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": INT4}}}, "int4-group", 32),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": FP8}}}, "fp8-channel", 0),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": INT4}, "b": {"weights": FP8}}}, "", 0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4", 16),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}, "int4-group", 128),
        ({"quant_method": "eetq"}, "int8-channel", 0),
        ({"quant_method": "aqlm"}, "", 0),
        ({"quant_method": "made up"}, "", 0),
        ({"quant_method": 7}, "", 0),
    ],
)
def test_each_method_means_a_format(said: dict[str, Any], form: str, group: int) -> None:
    """The format and the weights per scale; a variant that is not known has no format and a caveat."""
    found, told = read_quantization({"quantization_config": said})
    assert found is not None
    assert (found.format, found.group_size, bool(told)) == (form, group, not form)


def test_the_second_file_and_the_text_part_are_read() -> None:
    """NVIDIA's file stands beside config.json; composite models keep the statement in their text part."""
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    found, _told = read_quantization({"model_type": "llama"}, beside)
    assert found is not None
    assert (found.method, found.format, found.skipped) == ("modelopt", "fp8-tensor", ("lm_head",))
    found, _told = read_quantization({"text_config": {"quantization_config": {"quant_method": "mxfp4"}}})
    assert found is not None
    assert found.format == "mxfp4"
    assert read_quantization({"model_type": "llama"}, {"quantization": {"quant_algo": None}}) == (None, ())


PATHS = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.experts", "lm_head")


@pytest.mark.parametrize(
    ("method", "listed", "skipped"),
    [
        ("fp8", (), ("lm_head",)),
        ("fp8", ("lm_head", "model.layers.0"), (PATHS[0], "lm_head")),
        ("fp8", ("q_proj",), PATHS[:2]),
        ("modelopt", (), ()),
        ("modelopt", ("model.layers.1*",), PATHS[1:3]),
        ("compressed-tensors", ("re:.*self_attn.*", "lm_head"), (*PATHS[:2], "lm_head")),
        ("modelopt", ("model.layers.1.mlp.experts.0.up_proj",), PATHS[2:3]),
        ("compressed-tensors", ("re:(((", "re:[b-a]"), ()),
    ],
)
def test_names_match_as_each_method_means_them(method: str, listed: tuple[str, ...], skipped: tuple[str, ...]) -> None:
    """Exact names, parents, ends, wildcards and expressions; an invalid expression matches nothing."""
    test = skip_test(Quantization(method=method, format="", skipped=listed), build(LLAMA).model)
    assert tuple(p for p in PATHS if test(p)) == skipped


@dataclass(frozen=True)
class Entry:
    """A tensor in a header."""

    dtype: str
    shape: tuple[int, ...]


@pytest.fixture(scope="module")
def tied_spec() -> ModelSpec:
    """A small model whose head is its embedding."""
    return resolve_config(LLAMA | {"tie_word_embeddings": True})


def header(spec: ModelSpec) -> dict[str, Entry]:
    """What a plain checkpoint of it holds."""
    return {g.name.replace("*", str(i)): Entry("BF16", g.shape) for g in spec.tensors for i in range(g.count)}


def test_a_plain_checkpoint_needs_no_words(tied_spec: ModelSpec) -> None:
    """Elements equal parameters: nothing is told."""
    assert reconcile(tied_spec, header(tied_spec)) == ()
    assert reconcile(tied_spec, {}) == ()


@pytest.mark.parametrize(
    ("more", "code", "number"),
    [
        ({"lm_head.weight": Entry("BF16", (512, 64))}, "tied_weight_stored", "32,768"),
        ({"model.layers.3.mlp.up_proj.weight": Entry("BF16", (160, 64))}, "extra_layers_stored", "10,240"),
        ({"mtp.fc.weight": Entry("BF16", (64, 128))}, "extra_layers_stored", "8,192"),
        ({"model.layers.0.mlp.up_proj.weight_scale_inv": Entry("F32", (2, 1))}, "scales_stored", "2 of"),
        ({"model.rotary_emb.inv_freq": Entry("F32", (8,))}, "buffers_stored", "8 of"),
        ({"something.else": Entry("BF16", (10, 10))}, "unexplained_difference", "100 of the difference"),
    ],
)
def test_each_reason_is_told_with_its_number(tied_spec: ModelSpec, more: dict[str, Entry], code: str, number: str) -> None:
    """One extra kind of tensor gives one caveat, with how many elements it explains."""
    told = reconcile(tied_spec, header(tied_spec) | more)
    assert [c.code for c in told] == [code]
    assert number in sentence(told[0])


def test_a_missing_head_is_told() -> None:
    """An embedding model's files hold no head although the class has one."""
    apart = resolve_config(LLAMA)
    told = reconcile(apart, {n: e for n, e in header(apart).items() if n != "lm_head.weight"})
    assert [c.code for c in told] == ["head_not_stored"]
    assert "32,768" in sentence(told[0])


def test_packed_weights_are_told(tied_spec: ModelSpec) -> None:
    """Half as many bytes as weights: packed four-bit values, and their scales."""
    entries = header(tied_spec)
    entries["model.layers.0.mlp.up_proj.weight"] = Entry("U8", (160, 32))
    entries["model.layers.0.mlp.up_proj.weight_scale"] = Entry("F8_E4M3", (160, 4))
    assert [c.code for c in reconcile(tied_spec, entries)] == ["scales_stored", "packed_weights"]


def test_a_bare_count_is_not_compared(tied_spec: ModelSpec) -> None:
    """A rule of thumb has no tensors to compare."""
    assert reconcile(replace(tied_spec, source="rule_of_thumb"), {"x": Entry("BF16", (3,))}) == ()
