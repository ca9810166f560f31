"""The field's words are explained once in each text, and nowhere where a button or code stands.

What the page says that the Space sends and keeps.
"""

from __future__ import annotations

import re

import pytest

from lib.present.page_texts import TERMS, TITLE, explain_terms, glossary_list, privacy_note


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


def test_it_is_short_and_says_what_is_sent_kept_and_done_with_tokens() -> None:
    """One box of three sentences' worth; with actions switched off no sign-in is spoken of."""
    on, off = privacy_note(account_actions=True), privacy_note(account_actions=False)
    assert all(note.count("<li>") == 3 and TITLE in note and len(note) < 1_500 for note in (on, off))
    assert ("manage-repos" in on, "manage-repos" in off) == (True, False)
    assert "switched off" in off
