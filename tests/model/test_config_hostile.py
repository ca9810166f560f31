"""Damaged configurations give a spec or a refusal, never another exception and never an endless wait."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_facts import LLAMA, config

from lib.errors import AdvisorError, BadConfig
from lib.model.build import build
from lib.model.checkpoint import read_quantization, skip_test
from lib.model.config import check_config
from lib.model.parameters import group_parameters

SMALL: tuple[dict[str, Any], ...] = (
    LLAMA,
    {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100},
    {
        "model_type": "mixtral",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_local_experts": 4,
        "vocab_size": 99,
    },
    {"model_type": "t5", "d_model": 32, "num_layers": 2, "num_heads": 2, "d_kv": 16, "d_ff": 64, "vocab_size": 90},
)
wild = st.sampled_from([None, True, -1, 0, 1, 3, 2**31, 0.5, "", "x", "4096", [], [1], {}, {"a": 1}, [None] * 3])


def try_config(changed: dict[str, Any]) -> None:
    """Try it as the app does."""
    try:
        check_config(changed)
        quantization, _told = read_quantization(changed)
        built = build(changed)
        tensors = group_parameters(built, skip_test(quantization, built.model))
    except AdvisorError as refusal:
        assert 20 < len(str(refusal)) < 900  # noqa: PT017 either outcome is right
    else:
        assert all(g.parameters >= 0 and g.count > 0 for g in tensors)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.data())
def test_small_models_with_changed_fields(base: dict[str, Any], data: st.DataObject) -> None:
    """Up to three fields dropped or given a value of another kind."""
    changed = dict(base)
    for key in data.draw(st.lists(st.sampled_from(sorted(base)), max_size=3)):
        if data.draw(st.booleans()):
            changed.pop(key, None)
        else:
            changed[key] = data.draw(wild)
    try_config(changed)


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        ({"model_type": "poolformer", "depths": [2_000] * 40_000}, "adds up to 80,000,000"),
        ({"model_type": "segformer", "depths": [2_000] * 40_000}, "adds up to 80,000,000"),
        ({"model_type": "levit", "image_size": 2**24}, "image_size"),
        ({"model_type": "videomae", "image_size": 2**20, "patch_size": 1}, "image_size"),
        ({"model_type": "deimv2", "num_feature_levels": 10**7}, "num_feature_levels"),
        ({"model_type": "prophetnet", "ngram": 10**7}, "ngram"),
    ],
)
def test_what_would_be_written_out_in_python_is_refused_before_it_is_built(hostile: dict[str, Any], says: str) -> None:
    """Each of these took gigabytes, or minutes, in a constructor that makes no torch call meanwhile."""
    with pytest.raises(BadConfig, match=says):
        check_config(hostile)


def test_no_parameter_is_in_memory() -> None:
    """XLNet's constructor asks for real memory; what is built holds none, and keeps the dtype that a load gives it."""
    model = build({"model_type": "xlnet", "d_model": 32, "n_head": 2, "n_layer": 1, "d_inner": 16, "vocab_size": 50}).model
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert str(dict(model.named_parameters())["transformer.layer.0.rel_attn.q"].dtype) == "torch.float32"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_published_models_with_one_damaged_field(seed: int) -> None:
    """One field of a published file, at any depth, dropped, scaled, negated or retyped."""
    dice = random.Random(seed)  # noqa: S311 repeatable damage
    names = ("openai/gpt-oss-20b", "google/gemma-3-4b-it", "Qwen/Qwen2-VL-2B-Instruct", "openai/whisper-tiny", "deepseek-ai/DeepSeek-V3")
    changed = json.loads(json.dumps(config(dice.choice(names))))
    place = changed
    while True:
        key = dice.choice(sorted(place))
        if isinstance(place[key], dict) and place[key] and dice.random() < 0.8:
            place = place[key]
            continue
        break
    value = place[key]
    scaled = value * 1000 if isinstance(value, int) and not isinstance(value, bool) else "many"
    place[key] = dice.choice([None, scaled, -1, [], {"a": 1}, "x", 0.5, True])
    if dice.random() < 0.3:
        del place[key]
    try_config(changed)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "quant_method",
                "bits",
                "group_size",
                "config_groups",
                "weight_block_size",
                "ignore",
                "quant_type",
                "load_in_4bit",
                "quant_algo",
            ]
        ),
        wild | st.sampled_from(["fp8", "gptq", "awq", "compressed-tensors", "bitsandbytes", "torchao", "modelopt", "made up"]),
        min_size=1,
    )
)
def test_any_statement_of_quantization_is_read(said: dict[str, Any]) -> None:
    """An unknown variant gives an empty format and a caveat, never a guess and never an exception."""
    found, told = read_quantization({"quantization_config": said})
    if found is not None and not found.format:
        assert [c.code for c in told] == ["unknown_quantization"]
