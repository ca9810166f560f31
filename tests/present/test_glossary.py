"""The field's words are explained once in each text, and nowhere where a button or code stands."""

from __future__ import annotations

import re

import pytest

from lib.present.glossary import TERMS, explain_terms, glossary_list


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


def test_text_after_a_silent_element_is_explained() -> None:
    """The stack of open elements ends where they do."""
    assert explain_terms("<p><code>TTFT</code> TTFT</p>").count("data-term=") == 1
    assert explain_terms('<p><span class="sr">x</span> <span>TTFT</span></p>').count("data-term=") == 1


def test_the_list_holds_every_term() -> None:
    """With its words."""
    assert all(term in glossary_list() for term in TERMS)
