"""What a refusal repeats of what was sent."""

from __future__ import annotations

import pytest

from lib.errors import BadConfig, InvalidInput, quote_value

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz01234567"  # noqa: S105 - of nobody


@pytest.mark.parametrize("text", [TOKEN, f"Bearer {TOKEN}", f"({TOKEN})", f"x='{TOKEN}'", TOKEN + "é", TOKEN + "\udc80"])
def test_a_token_is_not_repeated(text: str) -> None:
    """Pasted into the wrong field, whoever words the sentence: we, or a library that we quote."""
    for sentence in (quote_value(text), str(InvalidInput(f"model was {text}.")), str(BadConfig(text))):
        assert TOKEN not in sentence
        assert "(what looks like a token)" in sentence


@pytest.mark.parametrize("text", ["hf-internal-testing/tiny-random-gpt2", "hf_org/model", "hf_hub_download"])
def test_an_ordinary_name_is(text: str) -> None:
    """Names that begin alike are short."""
    assert quote_value(text) == f"'{text}'"
