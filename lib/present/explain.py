"""What stands behind each number: the law, the numbers that went in, how it splits, and the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lib.present.markup import bullets, escaped
from lib.present.numbers import gib, share, whole
from lib.present.parts import PARTS

_KEYS = {"weights": "weights", "kv_cache": "cache", "cache": "cache", "activation": "activations", "activations": "activations"}


def explanation(memory: Mapping[str, Any]) -> str:
    """Every part opened, then what the estimate leaves open, then the sources with their dates."""
    opened = "".join(_part(part) for part in memory["parts"])
    return f'<div class="explain">{opened}{caveats(memory["caveats"])}{sources(memory["sources"])}</div>'


def _part(part: Mapping[str, Any]) -> str:
    key = _KEYS.get(part["name"], "runtime")
    label = next(label for known, label, _ in PARTS if known == key)
    inputs = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in part["inputs"].items())
    return (
        f'<section class="law"><h3><i class="swatch {key}"></i>{label} <span>{gib(part["bytes"])}</span></h3>'
        f"<pre>{escaped(part['law'])}</pre>"
        + (f'<dl class="inputs">{inputs}</dl>' if inputs else "")
        + _split(part)
        + f'<p class="quiet">Exactly {whole(part["bytes"])} bytes. Source: {linked(part["source"])}</p></section>'
    )


def _split(part: Mapping[str, Any]) -> str:
    """How a part divides, largest first, when it divides at all."""
    if len(part["details"]) == 0:
        return ""
    ordered = sorted(part["details"].items(), key=lambda pair: -pair[1])
    rows = "".join(
        f"<tr><th scope='row'>{escaped(name)}</th><td>{gib(size)}</td><td>{share(size, part['bytes']):.0f} %</td></tr>"
        for name, size in ordered
    )
    return f'<table class="split"><caption class="sr">{escaped(part["name"])} by what holds it</caption><tbody>{rows}</tbody></table>'


def linked(source: str) -> str:
    """A source as text, as a link when it is an address of the web."""
    if source.startswith("https://") and not any(c.isspace() for c in source):
        return f'<a href="{escaped(source)}" target="_blank" rel="noopener noreferrer">{escaped(source)}</a>'
    return escaped(source)


def caveats(entries: Sequence[Mapping[str, Any]]) -> str:
    """What an answer leaves open, one sentence each."""
    if not entries:
        return ""
    sentences = [escaped(entry["message"]) for entry in entries]
    return f'<section class="caveats"><h3>What this leaves open</h3>{bullets(sentences, "notes")}</section>'


def sources(entries: Sequence[Mapping[str, Any]]) -> str:
    """Where the figures come from and when each was checked."""
    if not entries:
        return ""
    items = [f"{escaped(entry['what'])}: {linked(entry['source'])} <time>{escaped(entry['checked'])}</time>" for entry in entries]
    return f'<section class="sources"><h3>Sources</h3>{bullets(items, "notes")}</section>'
