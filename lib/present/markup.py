"""HTML as text: whatever comes from outside goes through `escape`, sources become links; and the texts of the page itself.

Those are the notes in place of an answer or beside a form (`NOTES`), what the field's words mean (`assets/page.js` shows a word's
sentence on hover and focus), what this Space sends and keeps, and how scripts and agents call it: Markdown in the form of llms.txt
(llmstxt.org), whose examples run as they stand, which a test does.

Sources become links to the addresses that their text names: "github:huggingface/hub-docs docs/hub/spaces-gpus.md @34ee0f00" leads to
that file at that commit. What names no address (a measurement of our own) stays text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_PLAIN_IN_DATA = " {}[]():,;/"  # browsers take these as they are in a data address; encoded, a JSON would be a third longer
_PLAIN_WORD = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/:._-]*")


def escape(value: object) -> str:
    """Text that is safe both between tags and inside a quoted attribute."""
    return html.escape(str(value), quote=True)


def download_link(label: str, name: str, media: str, content: str) -> str:
    """A link that saves text as a file; the content travels in the link, so that no file lies on the server."""
    href = f"data:{media};charset=utf-8,{quote(content, safe=_PLAIN_IN_DATA)}"
    return f'<a class="act" download="{escape(name)}" href="{escape(href)}">{escape(label)}</a>'


PASTED = "pasted"
"""The value of `config` in a link to an answer about a pasted config.json, which no link carries."""


def answer_actions(*, text: str, query: str | None, files: tuple[tuple[str, str, str, str], ...]) -> str:
    """What can be done with an answer: copy it as text, link to it, save it. `assets/page.js` does the copying.

    Args:
        text: the answer in plain words.
        query: the link's query, None for no link. No link carries a pasted config.json, and the button says so.
        files: (label, file name, media type, content) of each download.
    """
    copy = f'<button type="button" class="act" data-copy="{escape(text)}">Copy as text</button>'
    words = "Copy link, without the config.json" if f"config={PASTED}" in (query or "") else "Copy link"
    link = "" if query is None else f'<a class="act" data-copy-link href="{escape(query)}">{words}</a>'
    downloads = "".join(download_link(*file) for file in files)
    status = '<span class="sr" role="status"></span>'
    return f'<div class="actions" role="group" aria-label="Copy, link, download">{copy}{link}{downloads}{status}</div>'


def bullet_list(items: list[str], name: str) -> str:
    """A list of sentences that are already markup; nothing when there are none."""
    return f'<ul class="{name}">{"".join(f"<li>{item}</li>" for item in items)}</ul>' if items else ""


def definition_list(pairs: Iterable[tuple[str, str]], name: str = "figures") -> str:
    """Figures or facts by their names; both are markup already."""
    return f'<dl class="{name}">{"".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in pairs)}</dl>'


def fold(summary: str, inner: str, name: str = "rest") -> str:
    """A box that opens at a press; both are markup already."""
    of_class = f' class="{name}"' if name else ""
    return f"<details{of_class}><summary>{summary}</summary>{inner}</details>"


def refusal_note(sentence: str, outcome: str = "Not answered.") -> str:
    """The markup in place of an answer when the question was refused; `outcome` says in two or three words what did not happen."""
    return f'<div class="refusal" role="alert"><strong>{escape(outcome)}</strong> {escape(sentence)}</div>'


def hint_note(sentence: str) -> str:
    """A quiet sentence where nothing is to be shown yet."""
    return f'<p class="hint" role="status">{escape(sentence)}</p>'


def no_model_note(place: str) -> str:
    """What to do where no model is named. `assets/page.js` puts the reason here when the named model cannot be used."""
    return f'<div class="hint" role="status" data-no-model><p>{escape(NOTES[f"name_model:{place}"])}</p></div>'


def code_blocks(blocks: Sequence[tuple[str, str]]) -> str:
    """Named blocks of code, each with its button."""
    return "".join(
        f'<figure class="code"><figcaption>{escape(name)}'
        f'<button type="button" class="act" data-copy="{escape(code)}" aria-label="Copy: {escape(name)}">Copy</button>'
        f'<span class="sr" role="status"></span></figcaption><pre tabindex="0"><code>{escape(code.rstrip())}</code></pre></figure>'
        for name, code in blocks
    )


def python_literal(text: str) -> str:
    """A Python literal of the text; what cannot be seen is written as an escape."""
    return f'"{text}"' if _PLAIN_WORD.fullmatch(text) else repr(text)


def suggestion_list(ids: Iterable[str]) -> str:
    """Names that a text field suggests while one types."""
    options = "".join(f'<option value="{escape(name)}"></option>' for name in ids)
    return f'<datalist id="model-names">{options}</datalist>'


_REPO = r"[A-Za-z0-9][\w-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"  # the Hub's longest; without an end, a long word takes minutes
_PATH = r"[\w.+-]+(?:/[\w.+-]{1,100}){1,12}|[\w+-]+\.(?:md|mdx|csv|py|yml|json|ts)"
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"https://[^\s<>\"')]+(?<![.,;:])", lambda m: m[0]),
    (
        rf"(?P<id>{_REPO}) at (?P<revision>[0-9a-f]{{40}}|main) on the Hub",
        lambda m: f"https://huggingface.co/{m['id']}/tree/{m['revision']}",
    ),
    (rf"github:(?P<r1>{_REPO}) issue (?P<number>\d+)", lambda m: f"https://github.com/{m['r1']}/issues/{m['number']}"),
    (rf"github:(?P<r2>{_REPO}) (?P<commit>[0-9a-f]{{7,40}})\b", lambda m: f"https://github.com/{m['r2']}/commit/{m['commit']}"),
    (rf"github:(?P<r3>{_REPO})(?: (?P<path>{_PATH}))?(?: @(?P<ref>[0-9a-f]{{7,40}}))?", lambda m: _github(m["r3"], m["ref"], m["path"])),
    (rf"(?P<r4>{_REPO})@(?P<at>[0-9a-f]{{7,40}})(?: (?P<file>{_PATH}))?", lambda m: _github(m["r4"], m["at"], m["file"])),
    (rf"(?P<r5>{_REPO})#(?P<issue>\d+)", lambda m: f"https://github.com/{m['r5']}/issues/{m['issue']}"),
    (r"arXiv:(?P<paper>\d{4}\.\d{4,5})", lambda m: f"https://arxiv.org/abs/{m['paper']}"),
    (
        r"(?:PyPI )?\b(?P<package>huggingface_hub|spaces|transformers|torch|diffusers) (?P<release>\d+\.\d+\.\d+)",
        lambda m: f"https://pypi.org/project/{m['package']}/{m['release']}/",
    ),
    (r"\b(?:[a-z0-9-]{1,63}\.){1,6}(?:com|org|net|co)(?:/[\w./-]*[\w/])?", lambda m: f"https://{m[0]}"),
)
"""What an address looks like, and where it leads; earlier forms go first."""
_ANY = re.compile("|".join(f"(?P<form{number}>{pattern})" for number, (pattern, _) in enumerate(_FORMS)))


def _github(repository: str, ref: str | None, path: str | None) -> str:
    """A file at a commit, or as much of that as is named."""
    home = f"https://github.com/{repository}"
    if path is None:
        return home if ref is None else f"{home}/tree/{ref}"
    return f"{home}/blob/{ref or 'HEAD'}/{quote(path)}"


def link_source(source: str) -> str:
    """A source as markup: text in which every address that it names is a link."""
    pieces: list[str] = []
    end = 0
    for match in _ANY.finditer(source):
        to = next(lead for number, (_, lead) in enumerate(_FORMS) if match[f"form{number}"] is not None)
        address = f'<a href="{escape(to(match))}" target="_blank" rel="noopener noreferrer">{escape(match[0])}</a>'
        pieces += [escape(source[end : match.start()]), address]
        end = match.end()
    return "".join([*pieces, escape(source[end:])])


TERMS: dict[str, str] = {
    "TTFT": "Time to first token: from sending a request to the first token of its answer. It is waiting and prefill.",
    "TPOT": "Time per output token: the time between two tokens of an answer, after the first.",
    "prefill": "The pass that reads the whole prompt and fills the KV cache. It is bound by arithmetic.",
    "decode": "The passes that write an answer, one token each for every request. They are bound by memory bandwidth.",
    "KV cache": "Keys and values of all earlier tokens, kept for each request so that attention need not compute them again.",
    "MoE": "Mixture of experts: each token uses a few of many feed-forward blocks. All of them take memory, few of them compute.",
    "tensor parallel": "Every layer is split over several devices, which exchange results in each layer.",
    "continuous batching": "New requests join the running batch at every token, instead of waiting until it ends.",
    "throughput": "Tokens per second of all requests together, not of one.",
    "activations": "What the layers compute between their inputs and outputs; it grows with the tokens computed together.",
    "optimizer states": "What the optimizer keeps beside each trained weight, such as AdamW's two moments.",
    "LoRA": "Low-rank adaptation: the weights stay as they are, and small matrices beside them are trained.",
    "QLoRA": "LoRA beside weights that are kept in four bits.",
    "ZeroGPU": "Spaces that borrow a GPU for the seconds of each call; visitors pay with their daily quota.",
    "p99": "99 of 100 requests are at least as fast as this.",
}
"""In the spelling in which a text has them; a word in capitals at the head of a sentence counts as the same."""

_SILENT = frozenset({"a", "button", "summary", "code", "pre", "abbr", "label", "option", "script", "style", "svg", "h1", "h2", "h3"})
"""Elements whose text stays as it is: what can be pressed, code, and headings."""
_TAG = re.compile(r"(<[^<>]*>)")
_WORD = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})\b", re.IGNORECASE)
_BY_FOLDED = {term.lower(): term for term in TERMS}
_EXACT = frozenset({"MoE"})
"""Written in other letters these are other words."""


_BEFORE_UNIT = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?B|[GTP]FLOP|tokens|ms|s|min|h|%|×|million|billion|days|GPUs|requests|visitors)(?!\w))"
    r"|(?<=×) (?=\d)|(?<=\ban) (?=hour\b)|(?<=\ba) (?=(?:day|month)\b)|(?<=\bper) (?=hour\b)"
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_COPIED = frozenset({"code", "pre", "script", "style"})
"""Elements whose text is copied character by character."""


def bind_units(text: str) -> str:
    """The text with numbers that no line break parts from their units, nor a price from its hour."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def explain_terms(markup: str) -> str:
    """The markup with the first mention of each term explained, and numbers and dates that no line break parts.

    Inside links, buttons, code and headings no term is explained. Markup of this package writes no bare "<" or ">" in an attribute
    (`lib.present.markup.escape`), so that every tag ends at its first ">".
    """
    mentions: set[str] = set()
    silent: list[str] = []
    pieces: list[str] = []
    for piece in _TAG.split(markup):
        if piece.startswith("<"):
            _follow_tag(piece, silent)
            pieces.append(piece)
        else:
            bound = piece if silent and silent[-1] in _COPIED else bind_units(piece)
            explained = bound if silent else _WORD.sub(lambda match: _explain(match[0], mentions), bound)
            pieces.append(explained if silent else _DATE.sub(r'<span class="date">\g<0></span>', explained))
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
    """All terms with their explanations."""
    entries = definition_list(((escape(term), escape(words)) for term, words in TERMS.items()), "facts")
    return f'<details class="colophon" id="glossary"><summary>Glossary</summary>{entries}</details>'


TITLE = "What this Space sends and stores"
_SENDS = (
    "To huggingface.co: the name of the model or Space that you ask about, what you type to search for one, and your token with requests "
    "about Spaces, your account and gated or private models, if you gave one (the list of an account also asks "
    "api.endpoints.huggingface.cloud). Nothing goes anywhere else: no analytics, no third parties. A pasted config.json is not sent."
)
_KEEPS = (
    "Stored here: measurements of the Live demo (architecture, a public model's name, device and figures, never a visitor or a chat "
    "message). Answers of the Hub are kept in memory. Your last questions and the theme are stored in your "
    "browser only. The log has a line for each question: its kind, how it ended and how long it took."
)
_ACTS = (
    "A pasted token is used for its own request and is not stored; data of a gated or private model is remembered "
    "for that token alone. A sign-in is stored in a cookie of your browser until you sign out. It asks for manage-repos, the Hub's "
    "permission to change settings of repositories, such as a Space's hardware. That permission covers more, but this app creates, "
    "renames and deletes nothing."
)
_ACTS_OFF = (
    "Changing a Space is switched off in this copy of the app. A pasted token is used to read your private Spaces, for its own "
    "request, and is not stored."
)


def privacy_note(*, account_actions: bool) -> str:
    """A box to open at the foot of the page."""
    sentences = [escape(sentence) for sentence in (_SENDS, _KEEPS, _ACTS if account_actions else _ACTS_OFF)]
    return f'<details class="colophon" id="privacy"><summary>{escape(TITLE)}</summary>{bullet_list(sentences, "notes")}</details>'


NOTES: Mapping[str, str] = {
    "explain": "Tokens in it are masked, and nothing of it is stored. The first error with the lines around it is enough.",
    "explain_empty": "Paste a text: the cause, its numbers, the flag to change and the hardware that holds it appear here.",
    "name_model:recommend": "Name a model above to see the hardware that runs it.",
    "name_model:code": "Name a model above to get the files for its Space.",
    "name_model:roofline": "Name a model above to see where it sits.",
    "name_model:memory": "Name a model above to see what it takes.",
    "name_model:precisions": "Name a model above to see what each precision takes.",
    "name_model:tensors": "Name a model above to see its tensors.",
    "name_model:solve": "Name a model above to see the limits of this hardware for it.",
    "name_model:dry_run": "Name a model above to execute it.",
    "name_model:train": "Name a model above to see what it takes to fine-tune it.",
    "name_model:traffic": "Name a model above to see what happens when requests arrive together.",
    "name_model:cost": "Name a model above to see what it costs.",
    "name_model:compare": "Name a model above, or type the measured tokens per second of both.",
    "name_model:tpu": "Name a model above to see what it takes on slices of TPU, and what that costs.",
    "name_model:measure": "Name a model above: its architecture is run here with random weights, so nothing of it is downloaded but its "
    "configuration.",
    "what_runs": "Checking every bundled model on this hardware. The first time takes a few seconds.",
    "name_space": "Name a Space to see what it runs on, what that costs, and what would suit it better.",
    "context_cut": "The context asked for is longer than this model takes; it was set to {tokens} tokens.",
    "pasted_config": "Links do not carry a pasted config.json: paste it again, or name a model.",
    "bad_link": "The link held a value that cannot be used for: {fields}. These fields have their defaults.",
    "outdated": "A field of the page cannot hold the value that was sent for it, or values are missing. Correct what was changed last; if "
    "nothing is wrong with it, load the page again: it may be older than the app.",
    "no_platform": "No platform is ticked. Tick at least one under “Where”.",
    "nothing_to_set_up": "This hardware does not qualify, or nothing does, so there is nothing to set up.",
    "no_roofline": "Nothing qualifies, so there is no card to draw; choose specific hardware.",
    "dry_run": "Runs the real model class on tensors without values, in its own process. It counts bytes, FLOP and operations and compares "
    "them with the closed forms. Context, sequences and purpose are those above, in bfloat16. It takes seconds.",
    "executing": "Building the architecture and executing it. The run ends at its limits of time and memory.",
    "compare": "Traffic, hours and tokens are those of the workload above. Numbers you measured replace the estimate; 0 is not measured.",
    "provider_price": "USD per million tokens. At 0 the Hub is asked who serves the model, and for how much.",
    "measured_means": "Means of a request in ms, as you measured them on this hardware; 0 is not measured. Lengths are those above.",
    "simulating": "Simulating policies and loads.",
    "searching_tiers": "Finding what the targets need.",
    "device": "Looking at the device …",
    "chat": "After each answer you see its first token, speed and peak memory, each next to its prediction for that run.",
    "no_message": "Write a message first.",
    "chat_starts": "Looking at the model and the device.",
    "writing": "Writing the answer.",
    "at_work": "At work.",
    "empty_answer": "The model wrote nothing that can be shown. Ask again, or with another temperature.",
    "heartbeat": "One matrix product, timed over and over, compared with the physical minimum. Takes a few seconds.",
    "stopped:chat": "Stopped. The text so far is kept; there are no figures, because the run is incomplete.",
    "stopped:measure": "Stopped. The run ended and its memory is free; nothing was saved.",
    "stopped:dry_run": "Stopped. The run ended, unless another visitor waits for the same one.",
    "stopped:traffic": "Stopped. Results so far are kept.",
    "login": "Public Spaces can be viewed without a sign-in. To change one, sign in or paste your own token.",
    "no_login": "Public Spaces can be viewed without a sign-in. To change one, paste your own token: this copy of the app has no sign-in.",
    "actions_off": "Public Spaces can be viewed without a sign-in. Changes are switched off in this copy of the app.",
    "login_scopes": "For some sign-ins the Hub refuses to change hardware or sleep time, or to restart (401). A pasted token works then.",
    "token": "Fine-grained, with write access to this Space (huggingface.co, Settings, Access Tokens). It overrides the sign-in. It is "
    "sent with your requests on this tab only and is not stored. The field is emptied after each use.",
    "model_token": "For a gated or private model: a token with read access to it. While it is in this field, each question of this page "
    "carries it to this app and on to the Hub. It is not stored. It overrides the sign-in.",
    "token_needed:space": "To change a Space, your own Hugging Face token is needed. Sign in, or paste a token with write access to this "
    "Space under “Your token”. Nothing was changed.",
    "token_needed:account": "To list or stop what runs in your account, your own Hugging Face token is needed. Sign in, or paste a token "
    "under “Your token”: to list, with read access to your repositories, Inference Endpoints and Jobs; to stop something, with write "
    "access to it.",
    "account": "Sign in, or paste a token above, to see every Space, Inference Endpoint and Job of your account with what it costs a "
    "month.",
    "nothing_to_stop": "Choose what is to be stopped.",
    "no_linked_model": "Its card names no model (`models:` in the README.md). Name the model it runs and press “Right-size”.",
    "sizing": "Working out the right size …",
    "tier_changes": "The tier is being changed; “Right-size” judges the new one when it runs.",
    "tier_changed": "The tier has changed: “Right-size” judges the new one.",
    "no_tier": "No tier is chosen. Choose one under “Tier”.",
    "form_changed": "The form has changed since the review. Nothing was changed. Review it again.",
    "price_changed": "The price of {tier} is no longer {price}. Nothing was changed. The review above shows today's price: confirm that "
    "one, or choose another tier.",
    "unwatched": "The Hub continues with the request, but it cannot be watched any longer.",
}
"""Sentences in place of an answer, or beside a form: what the page says before, during and after a question, by occasion."""

_TYPE_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointText:
    """The text about an endpoint: its name, one sentence, the JSON schema of its arguments, and whether it is more than a question.

    `account`: it takes the caller's token; `waits`: it waits for the device; `writes`: it changes something.
    """

    name: str
    summary: str
    arguments: Mapping[str, Any]
    account: bool
    waits: bool
    writes: bool


def python_example(url: str) -> str:
    """A script that asks for a recommendation with gradio_client."""
    return (
        "from gradio_client import Client\n\n"
        f'answer = Client("{url}").predict(model="7B", platforms="spaces", api_name="/recommend")\n'
        'print(answer["pick"]["hardware"], answer["pick"]["cost"]["usd_per_hour"])'
    )


def curl_example(url: str) -> str:
    """The same with curl: arguments in order at once, or by name in two steps."""
    post = "curl -s -H 'Content-Type: application/json'"
    event = """sed 's/.*"event_id": *"//; s/".*//'"""
    return (
        f"""{post} {url}/gradio_api/run/recommend -d '{{"data": ["7B"]}}'\n"""
        f"""EVENT=$({post} {url}/gradio_api/call/v2/recommend -d '{{"model": "7B", "platforms": "spaces"}}' | {event})\n"""
        f"curl -s {url}/gradio_api/call/v2/recommend/$EVENT"
    )


def agents_text(url: str, mcp: str, endpoints: Sequence[EndpointText]) -> str:
    """The whole page; `url` is the app's own address without a slash at the end, `mcp` the path of its MCP server."""
    mcp_settings = json.dumps({"mcpServers": {"spaces-hardware-advisor": {"url": f"{url}{mcp}/"}}})
    return "\n".join(
        [
            "# Spaces Hardware Advisor",
            "",
            "> Says which hardware runs a model on Hugging Face Spaces, Endpoints, Jobs and Cloud TPU: memory, speed, cost and why.",
            "",
            'Every answer is one JSON object with a "schema" field; the end of a field\'s name is its unit (_bytes, _s, _usd_per_month).',
            "A refusal says what was seen, what is accepted and what to do next.",
            "",
            "## Python",
            "",
            "```python",
            python_example(url),
            "```",
            "",
            "## curl",
            "",
            "Arguments in order at /gradio_api/run/NAME, answer in data[0];",
            "or by name at /gradio_api/call/v2/NAME, answer as one server-sent event.",
            "",
            "```sh",
            curl_example(url),
            "```",
            "",
            "Endpoints that wait for the device are called in two steps only.",
            "",
            "## MCP",
            "",
            f"Streamable HTTP without sessions: {url}{mcp}/ (tools as JSON: {url}{mcp}/schema).",
            "Tools have the endpoints' names and arguments.",
            "",
            "```json",
            mcp_settings,
            "```",
            "",
            "## Token",
            "",
            'Endpoints marked "token" act for an account: "oauth_token" in the body of a call, the header X-HF-Token over MCP.',
            "Every other endpoint with a model takes it the same way, to read a gated or private model for that one call.",
            "",
            "## Endpoints",
            "",
            *(line for endpoint in endpoints for line in _endpoint_lines(endpoint)),
        ]
    )


def _endpoint_lines(endpoint: EndpointText) -> list[str]:
    marks = [word for word, holds in (("token", endpoint.account), ("waits", endpoint.waits), ("changes", endpoint.writes)) if holds]
    marks_text = f" ({', '.join(marks)})" if marks else ""
    required = endpoint.arguments["required"]
    lines = [f"### /{endpoint.name}{marks_text}", endpoint.summary]
    for name, schema in endpoint.arguments["properties"].items():
        missing = "required" if name in required else f"default {json.dumps(schema['default'])}"
        lines.append(f"- {name} ({_type_words(schema)}, {missing}): {schema['description']}")
    return [*lines, ""]


def _type_words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_words(one) for one in schema["anyOf"])
    holds = str(schema.get("type", "anything"))
    return _TYPE_WORDS.get(holds, holds)
