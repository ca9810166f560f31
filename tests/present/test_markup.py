"""Markup: nothing from outside becomes a tag, and what is drawn says the same as what is written."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from dataclasses import is_dataclass, replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_fake import LLAMA, FakeServices

from lib.catalog.offers import Offer
from lib.present import cards, charts, checked_cards, tables
from lib.present.glossary import TERMS, explain_terms, glossary_list, privacy_note
from lib.present.markup import answer_actions, escape, link_source, refusal_note
from lib.present.sentences import to_json
from lib.present.wording import load_wording
from lib.provenance import Statement
from lib.result import Result

HOSTILE = "<img src=x onerror=\"alert(1)\"><script>alert('2')</script>&{{x}}${y}"
ASKED: dict[str, Any] = {"context_tokens": 4096, "batch_size": 1, "engine": "transformers", "devices": 1}


class _Tags(HTMLParser):
    """Every tag that a browser would make, with the names of its attributes; and whether they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.handlers: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.handlers |= {name for name, _ in attrs if name.startswith("on")}
        if tag not in {"img", "br", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _parse_tags(markup: str) -> _Tags:
    tags = _Tags()
    tags.feed(markup)
    tags.close()
    assert tags.open == []
    return tags


def _replace_texts(value: Any, text: str) -> Any:  # noqa: PLR0911  one line a type
    """The same answer with every text replaced, but for the codes of reasons and caveats."""
    if isinstance(value, Statement):
        return value
    if isinstance(value, Offer):
        return value.model_copy(update={"id": text, "name": text})
    if is_dataclass(value) and not isinstance(value, Result):
        return value
    if is_dataclass(value):
        return replace(value, **{name: _replace_texts(getattr(value, name), text) for name in value.__dataclass_fields__})  # type: ignore[type-var]
    if isinstance(value, tuple):
        return tuple(_replace_texts(inner, text) for inner in value)
    if isinstance(value, dict):
        return {key: _replace_texts(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_texts(inner, text) for inner in value]
    return text if isinstance(value, str) else value


@settings(max_examples=25)
@given(st.one_of(st.just(HOSTILE), st.text(max_size=60)))
def test_no_text_from_outside_becomes_markup(text: str) -> None:
    """With every text of every answer replaced by markup, the page holds the same tags as without."""
    services = FakeServices()
    model, memory = services.resolve_model(LLAMA), services.estimate_memory(LLAMA, **ASKED)
    answer = services.recommend(LLAMA, context_tokens=4096)

    def draw_all(m: Any, e: Any, a: Any) -> str:
        return "".join(
            [
                cards.model_line(replace(m, layer_kinds={m.source: 3})),
                cards.memory_card(e, e.model, 1),
                tables.tiers_table(e.fits, e),
                cards.memory_explanation(e),
                cards.pick_card(a.pick, a.model),
                tables.ranked_table(a.ranked, a.pick),
                tables.rejected_table(a.rejected),
                cards.recommendation_notes(a),
                cards.prices_line(replace(a.prices, checked="2026-07-21")),  # read as a date
                checked_cards.no_pick_card(a, a.model),
                refusal_note(a.model),
                answer_actions(text=a.model, query=None, files=(("Save", a.model, "text/csv", a.model),)),
            ]
        )

    plain = _parse_tags(draw_all(model, memory, answer))
    hostile = _parse_tags(draw_all(*(_replace_texts(part, text) for part in (model, memory, answer))))
    assert hostile.seen <= plain.seen
    assert hostile.handlers == set()


def test_a_chart_holds_no_markup() -> None:
    """Plotly reads a little HTML in labels, so an accelerator's name is escaped there too."""
    memory = FakeServices().estimate_memory(LLAMA, **ASKED)
    figure = charts.draw_growth([(1, memory), (4096, memory)], [("<b>x</b>", 80 * 2**30)], 4096)
    assert [note.text for note in figure.layout.annotations] == [escape("<b>x</b>"), "4,096 tokens"]


def test_the_bar_adds_up_to_the_capacity() -> None:
    """The parts are drawn to the scale of the track: 16.8 GiB of 22 GiB fill 76 %."""
    memory = FakeServices().estimate_memory(LLAMA, **ASKED)
    widths = [float(width) for width in re.findall(r'class="seg \w+" style="width:([\d.]+)%', cards.memory_bar(memory, 22 * 2**30))]
    # four parts: 16 060 522 496 + 536 870 912 + 700 000 000 + 900 000 000 = 18 197 393 408 bytes of 23 622 320 128
    assert abs(sum(widths) - 77.04) < 0.03
    assert "over" not in cards.memory_bar(memory, 22 * 2**30)
    assert "over" in cards.memory_bar(memory, 15 * 2**30)


def test_the_curve_shows_the_lines_that_matter() -> None:
    """Capacities below the curve, and the first above it; close ones share a line."""
    memory = FakeServices().estimate_memory(LLAMA, **ASKED)  # 16.9 GiB
    cards_held = [("T4", 15 * 2**30), ("L4", 22 * 2**30), ("A10G", 22 * 2**30 + 1), ("A100-SXM4-80GB", 79 * 2**30)]
    figure = charts.draw_growth([(1, memory), (8192, memory)], cards_held, 4096)
    assert [note.text for note in figure.layout.annotations] == ["T4", "L4", "4,096 tokens"]
    chosen = charts.draw_growth([(1, memory), (8192, memory)], cards_held, 4096, cards_held[3])
    assert [note.text for note in chosen.layout.annotations] == ["T4", "L4", "<b>A100</b>", "4,096 tokens"]
    assert [shape.line.dash for shape in chosen.layout.shapes[:3]] == ["dot", "dot", "solid"]
    assert [trace.name for trace in figure.data] == ["Weights", "Cache", "Activations", "Runtime"]
    assert charts.short_name("A100-SXM4-80GB") == "A100"
    assert charts.short_name("RTX-PRO-6000-Blackwell-Server") == "RTX PRO"
    assert charts.short_name("M4-Max-128GB") == "M4 Max"


def test_downloads_hold_the_answer() -> None:
    """The CSV has one row for each ranked entry, the JSON is the answer itself, and both travel in the link."""
    answer = FakeServices().recommend(LLAMA, context_tokens=4096)
    sheet = list(csv.DictReader(io.StringIO(tables.ranked_csv(answer.ranked))))
    assert [(row["rank"], row["hardware"], row["usd_per_hour"]) for row in sheet] == [
        (str(rank), entry.hardware, str(float(entry.cost.usd_per_hour))) for rank, entry in enumerate(answer.ranked, start=1)
    ]
    assert json.loads(tables.answer_json(answer)) == to_json(answer)
    link = answer_actions(text="t", query="?a=1", files=(("Save", "a.csv", "text/csv", 'a,"#%&<b>\n'),))
    href = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', link)
    assert href is not None
    assert unquote(unescape(href[1])) == 'a,"#%&<b>\n'


def test_a_spreadsheet_runs_nothing() -> None:
    """A text that a spreadsheet would take for a formula is written as text."""
    entry = FakeServices().recommend(LLAMA, context_tokens=4096).ranked[0]
    entry = replace(entry, offer=entry.offer.model_copy(update={"id": "=HYPERLINK(1)"}), reasons=())
    assert next(iter(csv.DictReader(io.StringIO(tables.ranked_csv([entry])))))["hardware"] == "'=HYPERLINK(1)"


SOURCES = json.loads((Path(__file__).parents[2] / "lib" / "data" / "sources.json").read_text(encoding="utf-8"))["sources"]
WITHOUT = {
    "hub-openapi-copy", "zerogpu-runs-community", "zerogpu-create-402", "cpu-report", "mem-report", "zerogpu",
    "brief-h200", "own-cpu",
}  # fmt: skip
"""Reports without an address, and what was measured here."""


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("github:a/b docs/hub/c.md @34ee0f00", "https://github.com/a/b/blob/34ee0f00/docs/hub/c.md"),
        ("github:a/b README.md", "https://github.com/a/b/blob/HEAD/README.md"),
        ("github:a/b @744d01e", "https://github.com/a/b/tree/744d01e"),
        ("github:a/b 47bdf77a (2025-12-16)", "https://github.com/a/b/commit/47bdf77a"),
        ("github:NVIDIA/mig-parted issue 120", "https://github.com/NVIDIA/mig-parted/issues/120"),
        ("printed (Wan-Video/Wan2.1#205)", "https://github.com/Wan-Video/Wan2.1/issues/205"),
        ("PyPI spaces 0.51.3", "https://pypi.org/project/spaces/0.51.3/"),
        ("Kaplan et al. 2020, arXiv:2001.08361", "https://arxiv.org/abs/2001.08361"),
        ("https://cloud.google.com/tpu/docs/v5e (undated)", "https://cloud.google.com/tpu/docs/v5e"),
        ("docs.cloud.google.com, last updated", "https://docs.cloud.google.com"),
        (f"a/b at {'0' * 40} on the Hub", f"https://huggingface.co/a/b/tree/{'0' * 40}"),
        ("a/b@f54a50a x/config.json (config.json file)", "https://github.com/a/b/blob/f54a50a/x/config.json"),
    ],
)
def test_a_source_opens_its_address(source: str, address: str) -> None:
    """The first link of the text; the text stays whole, but of a file in a repository only the repository's name is shown."""
    shown = link_source(source)
    assert re.findall(r'href="([^"]+)"', shown)[0] == address
    text = re.sub(r"<[^>]+>", "", shown)
    assert text == re.sub(r"(?<=a/b) (docs\S+|README.md|@)\S*( @\w+)?", "", source.removeprefix("github:"))
    assert not source.startswith("github:") or f'title="{source.partition(" (")[0]}"' in shown


@pytest.mark.parametrize("key", SOURCES)
def test_every_listed_source_is_a_link(key: str) -> None:
    """All but reports without an address and what was measured here."""
    assert ("<a " in link_source(SOURCES[key]["source"])) == (key not in WITHOUT)


def test_only_the_web_is_linked() -> None:
    """A script stays text."""
    assert link_source("javascript:alert(1)") == "javascript:alert(1)"
    assert "<img" not in link_source('<img src="https://example.org/a">')


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_explained_at_its_first_mention(term: str) -> None:
    """The second stays text."""
    shown = explain_terms(f"<p>The {term} and the {term}</p>")
    assert shown.count("data-term=") == 1
    assert re.sub(r"<[^>]+>", "", shown) == f"The {term} and the {term}"


@pytest.mark.parametrize(
    "markup",
    [
        '<button class="x">TTFT</button>',
        "<pre><code>decode</code></pre>",
        '<span class="sr">prefill</span>',
        '<p title="KV cache">plain</p>',
        "<h2>TPOT</h2>",
        "<p>moe</p>",
        "<p>decoder</p>",
    ],
)
def test_what_stays_as_it_is(markup: str) -> None:
    """Buttons, code, hidden text, attributes, headings, and words that only look alike."""
    assert explain_terms(markup) == markup


@pytest.mark.parametrize(
    "text", ["9.32 GiB", "45 MiB", "34 tokens/s", "4,096 tokens", "91 %", "12 ms", "4.1 × real time", "8.03 billion", "8 GPUs", "30 days"]
)
def test_a_number_is_not_parted_from_its_unit(text: str) -> None:
    """In text and headings, but not where it is copied from, in attributes, and before words that only begin so."""
    number, _, unit = text.partition(" ")
    assert explain_terms(f"<h2>{text}</h2><p>of {text}.</p>") == f"<h2>{number}\u00a0{unit}</h2><p>of {number}\u00a0{unit}.</p>"
    for same in (f"<pre><code># {text}</code></pre>", f'<a data-copy="{text}">x</a>', f"<p>{number} moments, {number} GiBs</p>"):
        assert explain_terms(same) == same


def test_a_long_text_costs_one_look() -> None:
    """Where each letter was looked at as often as the text is long, a word of 100,000 letters took minutes."""
    for text in ("a" * 100_000, "a-" * 50_000, "github:" + "a" * 100_000 + "/"):
        assert link_source(text) == text
    for text in ("<" * 100_000, "1 < 2 <code>TTFT</code>"):  # a tag begins at its own bracket, not at one that stands alone before it
        assert explain_terms(text) == text


def test_a_price_and_a_date_stay_in_one_line() -> None:
    """A price keeps its hour and a factor its sign; a date is in an element that does not wrap, but not in what is copied."""
    shown = explain_terms("<p>$2.70 an hour, 100 requests a day, bytes × 1.2, 2026-08-22</p><pre>2026-08-22</pre>")
    assert shown.startswith("<p>$2.70 an\u00a0hour, 100\u00a0requests a\u00a0day, bytes ×\u00a01.2, ")
    assert shown.endswith('<span class="date">2026-08-22</span></p><pre>2026-08-22</pre>')


def test_text_after_a_silent_element_is_explained() -> None:
    """The stack of open elements ends where they do."""
    assert explain_terms("<p><code>TTFT</code> TTFT</p>").count("data-term=") == 1
    assert explain_terms('<p><span class="sr">x</span> <span>TTFT</span></p>').count("data-term=") == 1


def test_the_list_holds_every_term() -> None:
    """With its words."""
    assert all(term in glossary_list() for term in TERMS)


def test_it_is_short_and_says_what_is_sent_kept_and_done_with_tokens() -> None:
    """One box of three sentences' worth; with actions switched off no sign-in is spoken of."""
    on, off = privacy_note(account_actions=True), privacy_note(account_actions=False)
    privacy = load_wording("page")["privacy"]
    assert all(note.count("<li>") == 3 and privacy["title"] in note and len(note) < 1_500 for note in (on, off))
    assert ("manage-repos" in on, "manage-repos" in off) == (True, False)
    assert "switched off" in off


def _keys(key: ast.expr) -> list[object]:
    """What a lookup may ask for: a key, or one of two by a condition."""
    if isinstance(key, ast.IfExp):
        return [*_keys(key.body), *_keys(key.orelse)]
    assert isinstance(key, ast.Constant), ast.unparse(key)
    return [key.value]


def test_the_page_shows_every_note_and_looks_up_no_other() -> None:
    """The keys in the code of the page are those of the table."""
    pages = [ast.parse(path.read_text(encoding="utf-8")) for path in (Path(__file__).parents[2] / "lib" / "ui").rglob("*.py")]
    lookups = [node for page in pages for node in ast.walk(page) if isinstance(node, ast.Call) and ast.unparse(node.func) == "page_note"]
    places = [node for page in pages for node in ast.walk(page) if isinstance(node, ast.Call) and ast.unparse(node.func) == "no_model_note"]
    named = {f"name_model:{key}" for place in places for key in _keys(place.args[0])}
    assert {key for lookup in lookups for key in _keys(lookup.args[0])} | named == set(load_wording("page")["notes"])
