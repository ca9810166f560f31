"""Reasons as sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from string import Formatter

import pytest
import yaml  # type: ignore[import-untyped]

import lib
from lib.present.sentences import format_value, sentence
from lib.present.wording import FOLDER, load_sentences
from lib.provenance import Caveat, Reason

LIB = Path(lib.__file__).parent


def statements(kind: str) -> Iterator[ast.Call]:
    """Every call of `Reason` or `Caveat` in the source in the source."""
    for path in LIB.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind and node.args:
                yield node


def codes(kind: str) -> set[str]:
    """The codes that the source states as literals, by themselves or as one of two."""
    return {
        part.value
        for call in statements(kind)
        for part in ast.walk(call.args[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and re.fullmatch(r"[a-z][a-z0-9_]+[a-z0-9]", part.value)
    }


SENTENCES = [("Reason", load_sentences("reasons")), ("Caveat", load_sentences("caveats"))]


@pytest.mark.parametrize(("kind", "sentences"), SENTENCES)
def test_every_code_has_a_sentence(kind: str, sentences: Mapping[str, str]) -> None:
    """Codes written in the source are worded, and at least so many are found (the search itself works)."""
    found = codes(kind)
    assert len(found) >= 30
    assert found <= {key.split(":")[0] for key in sentences}


@pytest.mark.parametrize(("kind", "sentences"), SENTENCES)
def test_a_sentence_names_only_values_that_are_stated(kind: str, sentences: Mapping[str, str]) -> None:
    """Where code and values are literals, every name in braces is among the values; reasons may choose their variant themselves."""
    checked = 0
    for call in statements(kind):
        variant = next((word.value for word in call.keywords if word.arg == "variant"), None)
        literal = isinstance(call.args[0], ast.Constant) and (variant is None or isinstance(variant, ast.Constant))
        if not literal or (len(call.args) > 1 and not isinstance(call.args[1], ast.Dict)):
            continue
        key = ast.literal_eval(call.args[0]) + (f":{ast.literal_eval(variant)}" if variant is not None else "")
        stated = {ast.literal_eval(name) for name in call.args[1].keys if name is not None} if len(call.args) > 1 else set()
        for sentence_key in (
            name for name in sentences if name == key or (kind == "Reason" and variant is None and name.startswith(f"{key}:"))
        ):
            named = {name for _, name, _, _ in Formatter().parse(sentences[sentence_key]) if name}
            assert named <= stated, sentence_key
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_no_wording_file_states_a_code_twice(file: Path) -> None:
    """YAML keeps the last of two equal keys silently; a code may not be in two groups of reasons or caveats either."""

    def keys(node: yaml.Node) -> list[str]:
        """The keys of a mapping."""
        return [key.value for key, _ in node.value]

    root = yaml.compose(file.read_text(encoding="utf-8"))
    groups = [node for _, node in root.value if isinstance(node, yaml.MappingNode)]
    for names in (keys(root), *map(keys, groups), [key for node in groups if file.stem in {"reasons", "caveats"} for key in keys(node)]):
        assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("needed_bytes", 16 * 2**30, "16.0 GiB"),
        ("tokens_per_s", 18.68, "19 tokens/s"),
        ("usd_per_month", Decimal(576), "$576"),
        ("credit_usd", Decimal("0.1"), "$0.10"),
        ("request_quota_s", 7.04, "7.0 s"),
        ("seconds", 0.012, "12 ms"),
        ("quota_s", 2400, "2,400 s"),
        ("requests_per_day", 100_000, "100,000"),
        ("account", "pro", "PRO"),
        ("hours", Decimal("24.0"), "24"),
    ],
)
def test_values_by_the_unit_in_their_name(name: str, value: str | float | Decimal, text: str) -> None:
    """The end of a name says the unit, and with it the form."""
    assert format_value(name, value) == text


def test_a_sentence_with_its_numbers() -> None:
    """The price of l4x1 around the clock, in words."""
    values = {"usd_per_hour": Decimal("0.80"), "usd_per_month": Decimal("576.0"), "hours": Decimal(24), "days": 30}
    assert sentence(Reason("price", values)) == "$0.80 an hour, $576 a month (30 days of 24 hours)."


def test_an_unknown_code_is_an_error() -> None:
    """No code passes without a wording."""
    with pytest.raises(KeyError):
        sentence(Reason("no_such_code"))


def test_one_reason_for_what_is_free_and_for_gradio() -> None:
    """Free hardware that takes Gradio Spaces only says both at once."""
    assert sentence(Reason("free", {"gradio_only": True})) == "Free of charge; Gradio Spaces only."
    assert sentence(Reason("free", {"gradio_only": False})) == "Free of charge."


def test_a_template_may_ask_for_its_own_format() -> None:
    """A time in its largest whole unit, a decimal without exponent, a value as it is, and any format of Python."""
    assert sentence(Reason("sleeps_after", {"sleep_after_s": 172_800})).startswith("It sleeps after 48 hours without")
    spread = Caveat("quota_spread", {"requests_per_day": Decimal("1E+3"), "visitors": 1200})
    assert sentence(spread) == "1000 requests a day need the quota of at least 1200 such visitors."
    assert "up to 1.50 USD per hour" in sentence(Caveat("region_price", {"usd_per_hour": Decimal("1.50")}))
    assert "costs its visitor $0.04." in sentence(Caveat("overquota", {"usd_per_request": Decimal(1) / 24}))


def test_the_variant_of_a_code_has_its_own_sentence() -> None:
    """The sleep of the free CPU is one sentence in the bill, in the rules of Spaces and in the list."""
    values = {"hardware": "cpu-basic", "hours": 48}
    assert sentence(Caveat("sleep_fixed", values)) == "cpu-basic sleeps after 48 hours without a visit; that is fixed."
    assert sentence(Caveat("sleep_fixed", values, variant="bill")) == sentence(Reason("sleep_fixed", values))
