"""Texts of the page itself: what the field's words mean, one sentence each, and what this Space sends and keeps.

`assets/page.js` shows the sentence of a word on hover and focus.
"""

from __future__ import annotations

import re

from lib.present.markup import bullet_list, escape

TERMS: dict[str, str] = {
    "TTFT": "Time to first token: from sending a request to the first token of its answer. It is waiting and prefill.",
    "TPOT": "Time per output token: the time between two tokens of an answer, after the first.",
    "prefill": "The pass that reads the whole prompt at once and fills the KV cache. It is bound by arithmetic.",
    "decode": "The passes that write an answer, one token each for every request. They are bound by memory bandwidth.",
    "KV cache": "Keys and values of all earlier tokens, kept for each request so that attention need not compute them again.",
    "MoE": "Mixture of experts: each token uses a few of many feed-forward blocks. All of them take memory, few of them compute.",
    "tensor parallel": "Every layer is split over several devices, which exchange results in each layer.",
    "continuous batching": "New requests join the running batch at every token, instead of waiting until it ends.",
    "throughput": "Tokens per second of all requests together, not of one.",
    "activations": "What the layers compute between their inputs and outputs; it grows with the tokens computed at once.",
    "optimizer states": "What the optimizer keeps beside each trained weight, such as AdamW's two moments.",
    "LoRA": "Low-rank adaptation: the weights stay as they are, and small matrices beside them are trained.",
    "QLoRA": "LoRA beside weights that are kept in four bits.",
    "ZeroGPU": "Spaces that borrow a GPU for the seconds of each call; visitors pay with their daily quota.",
    "p99": "99 of 100 requests are at least as fast as this.",
}
"""In the spelling in which a text has them; a word in capitals at the head of a sentence counts as the same."""

_SILENT = frozenset({"a", "button", "summary", "code", "pre", "abbr", "label", "option", "script", "style", "svg", "h1", "h2", "h3"})
"""Elements whose text stays as it is: what can be pressed, code, and headings."""
_TAG = re.compile(r"(<[^>]*>)")
_WORD = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})\b", re.IGNORECASE)
_BY_FOLDED = {term.lower(): term for term in TERMS}
_EXACT = frozenset({"MoE"})
"""Written in other letters these are other words."""


def explain_terms(markup: str) -> str:
    """The markup with the first mention of each term explained; inside links, buttons, code and headings nothing changes.

    Markup of this package writes no bare ">" in an attribute (`lib.present.markup.escape`), so that every tag ends at its first one.
    """
    if not _WORD.search(markup):
        return markup
    mentions: set[str] = set()
    silent: list[str] = []
    pieces: list[str] = []
    for piece in _TAG.split(markup):
        if piece.startswith("<"):
            _follow_tag(piece, silent)
            pieces.append(piece)
        else:
            pieces.append(piece if silent else _WORD.sub(lambda match: _explain(match[0], mentions), piece))
    return "".join(pieces)


def _follow_tag(tag: str, silent: list[str]) -> None:
    """Keep the stack of open elements whose text stays."""
    name = tag.strip("</>").partition(" ")[0].lower()
    if name not in _SILENT and 'class="sr"' not in tag and not silent:
        return
    if tag.startswith("</"):
        if silent and silent[-1] == name:
            silent.pop()
    elif not tag.endswith("/>") and (name in _SILENT or 'class="sr"' in tag):
        silent.append(name)


def _explain(word: str, mentions: set[str]) -> str:
    term = _BY_FOLDED[word.lower()]
    if term in mentions or (term in _EXACT and word != term):
        return word
    mentions.add(term)
    return f'<abbr class="term" tabindex="0" data-term="{escape(TERMS[term])}">{word}</abbr>'


def glossary_list() -> str:
    """All terms, for those who look one up."""
    entries = "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(words)}</dd></div>" for term, words in TERMS.items())
    return f'<details class="colophon" id="glossary"><summary>Words of the field</summary><dl class="facts">{entries}</dl></details>'


TITLE = "What this Space sends and keeps"
_SENT = (
    "To huggingface.co: the name of the model or Space that you ask about, what you type to search for one, and your token with requests "
    "about Spaces, your account and gated or private models, if you gave one (the list of an account also asks "
    "api.endpoints.huggingface.cloud). To nobody else: no analytics, nothing from third parties. A pasted config.json is sent nowhere."
)
_KEPT = (
    "Kept here: what was measured on the Live demo (the architecture, a public model's name, the device and the figures, never who asked "
    "or what was said), and in memory what the Hub answered. Your last questions and the theme are stored in your "
    "browser only. The log has a line for each question: its kind, how it ended and how long it took."
)
_ACTS = (
    "A pasted token is used for the request that it comes with and is not stored; what it read of a gated or private model is remembered "
    "for that token alone. A sign-in is stored in a cookie of your browser until you sign out. It asks for manage-repos, the Hub's "
    "permission to change the settings of repositories, such as a Space's hardware. That permission covers more, but this app creates, "
    "renames and deletes nothing."
)
_ACTS_OFF = (
    "Changing a Space is switched off in this copy of the app. A pasted token is used to look at your private Spaces, for the request that "
    "it comes with, and is not stored."
)


def privacy_note(*, account_actions: bool) -> str:
    """A box to open at the foot of the page."""
    sentences = [escape(sentence) for sentence in (_SENT, _KEPT, _ACTS if account_actions else _ACTS_OFF)]
    return f'<details class="colophon" id="privacy"><summary>{escape(TITLE)}</summary>{bullet_list(sentences, "notes")}</details>'
