"""The text of a config.json is read within bounds, and refused with a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_facts import LLAMA, config, list_counted_ids

from lib.errors import BadConfig
from lib.model.config import MAX_CHARACTERS, check_config, parse_config

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("llama", "not JSON"),
        ("[]", "Accepted: a JSON object"),
        ("{}", "Accepted: a JSON object"),
        ("null", "Accepted: a JSON object"),
        ("[" * 900_000, "levels deep"),
        ('{"a":' * 200_000, "levels deep"),
        (json.dumps({"a": "x" * MAX_CHARACTERS}), "characters"),
        ('{"a": NaN}', "finite"),
        ('{"a": Infinity}', "finite"),
        ('{"a": 1e999}', "finite"),
        ('{"hidden_size": 1, "hidden_size": 2}', "twice"),
        ('{"num_labels": 1' + "0" * 5000 + "}", "too many digits"),
        ('{"hidden_size": "4096"}', "without quotes"),
        ('{"num_hidden_layers": 1000000000}', "Accepted: up to 2,000"),
        ('{"hidden_size": 1000000000000}', "Accepted: up to"),
        ('{"hidden_size": -1}', "Accepted: 1 or more"),
        ('{"hidden_size": 4096.5}', "whole number"),
        ('{"vocab_size": true}', "whole number"),
        ('{"text_config": {"num_experts": 100000}}', "Accepted: up to 65,536"),
        ('{"num_labels": 1000000000}', "Accepted: up to"),
        ('{"depths": [2, 2, 100000]}', "Accepted: up to 2,000"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_is_accepted(text: str, said: str) -> None:
    """Each kind of bad text gets a sentence about itself."""
    with pytest.raises(BadConfig, match=said):
        parse_config(text)


def test_a_long_flat_list_is_refused() -> None:
    """60,000 values are more than any configuration holds."""
    with pytest.raises(BadConfig, match="more than 50,000 values"):
        parse_config(json.dumps({"layers": [1] * 60_000}))


def test_every_published_configuration_passes() -> None:
    """The bounds refuse none of the bundled configurations, infinite time limits of Mamba included."""
    for name in list_counted_ids():
        text = json.dumps(config(name))
        assert parse_config(text) == json.loads(text)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but the refusal."""
    try:
        found = parse_config(text)
    except BadConfig as refusal:
        assert len(str(refusal)) < 400  # noqa: PT017 either outcome is right
    else:
        assert isinstance(found, dict)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(sorted(LLAMA)) | st.text(max_size=12), json_values, min_size=1, max_size=6))
def test_any_object_is_accepted_or_refused(value: dict[str, object]) -> None:
    """No object raises anything but the refusal, and what passes is returned unchanged."""
    try:
        check_config(value)
    except BadConfig as refusal:
        assert str(refusal).endswith((".", "'"))  # noqa: PT017 either outcome is right
