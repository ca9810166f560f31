"""What checkpoints say about their storage."""

from __future__ import annotations

from typing import Any

import pytest

from lib.model.quantization import read_quantization

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
