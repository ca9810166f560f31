"""What a refusal repeats of what was sent; and values of a JSON text are counted before it is parsed.

Exactly, whatever its strings hold, and without building any.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import BadConfig, Fault, HubError, InvalidInput, RepoGated, UnreadableJson, node_count, quote_value, read_json

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz01234567"  # noqa: S105 - of nobody


@pytest.mark.parametrize(
    "secret",
    [
        "hf%5F" + TOKEN[3:],
        "sk-" + TOKEN[3:],
        "sk-proj-" + TOKEN[3:],
        "AKIA" + "ABCDEFGH23456789",
        "Bearer " + TOKEN[3:],
        TOKEN + TOKEN,
        "TOKENghp_" + TOKEN[3:],
        "_AKIA" + "ABCDEFGH23456789",
    ],
)
def test_a_token_of_another_kind_is_not_repeated(secret: str) -> None:
    """Nor one that a page's address holds; names that look a little like one are."""
    assert secret[-16:] not in quote_value(secret) + str(InvalidInput(f"model was {secret}."))
    for name in ("ada/sk-learn-embeddings", "ada/task-specific-sentence-embeddings", "bearer", "hf-internal-testing/tiny-random-gpt2"):
        assert quote_value(name) == f"'{name}'"


@pytest.mark.parametrize("text", [TOKEN, f"Bearer {TOKEN}", f"({TOKEN})", f"x='{TOKEN}'", TOKEN + "é", TOKEN + "\udc80"])
def test_a_token_is_not_repeated(text: str) -> None:
    """Pasted into the wrong field, whoever words the sentence: we, or a library that we quote."""
    for sentence in (quote_value(text), str(InvalidInput(f"model was {text}.")), str(BadConfig(text))):
        assert TOKEN not in sentence
        assert "(what looks like a token)" in sentence


def test_a_refusal_from_another_process_is_whole() -> None:
    """Whoever shows a refusal of the Hub asks for its sentence and its near matches; a token in it is hidden here, too."""
    error = Fault(code=RepoGated.code, sentence=f"Not with {TOKEN}.").error()
    assert isinstance(error, HubError)
    assert type(error) is RepoGated
    assert (error.sentence, error.near) == (str(error), ())
    assert TOKEN not in error.sentence


@pytest.mark.parametrize("text", ["hf-internal-testing/tiny-random-gpt2", "hf_org/model", "hf_hub_download"])
def test_an_ordinary_name_is(text: str) -> None:
    """Names that begin alike are short."""
    assert quote_value(text) == f"'{text}'"


ALL = 10**9
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[{,:é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='a"\\[,:', max_size=4), inner, max_size=5),
    max_leaves=40,
)


def nodes(value: Any) -> int:
    """What the scan has to find: n for a list of n, 2·n for an object of n, and one for an empty one."""
    if isinstance(value, list):
        return max(1, len(value)) + sum(map(nodes, value))
    return max(1, 2 * len(value)) + sum(map(nodes, value.values())) if isinstance(value, dict) else 0


@given(values, st.booleans(), st.integers(0, 3))
def test_nodes_are_those_of_the_value(value: Any, ascii_only: bool, indent: int) -> None:
    """Brackets, commas, quotes and backslashes inside strings are text."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent or None).encode()
    assert node_count(text, ALL) == nodes(value)


@pytest.mark.parametrize("before", [2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1])
def test_a_string_across_two_pieces_stays_one(before: int) -> None:
    """The scan goes on in the second piece where it stood in the first."""
    value = ["x" * before, '",[{:\\"', [1, 2, 3]]
    assert node_count(json.dumps(value).encode(), ALL) == nodes(value) == 6


def test_too_many_values_are_refused_before_any_is_built() -> None:
    """12 MB of empty lists would become 224 MB of Python; the scan takes a copy of one piece."""
    text = b"[" + b"[]," * 4_000_000 + b"[]]"
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableJson, match="more than 1,000 values"):
            read_json(text, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20
    assert read_json(b"[" + b"[]," * 999 + b"[]]", 2001) == [[]] * 1000


@pytest.mark.parametrize("text", [b"", b"nonsense", b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b'{"a": "\\'])
def test_what_no_parser_takes_is_one_error(text: bytes) -> None:
    """Bad text, bad bytes, nesting and numbers of thousands of digits."""
    with pytest.raises(UnreadableJson, match="not readable JSON"):
        read_json(text, ALL)
