"""How scripts and agents call the app: Markdown in the form of llms.txt (llmstxt.org). Its examples run unchanged, which a test does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.present.templates import Code, render

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


def agents_text(url: str, mcp: str, endpoints: Sequence[EndpointText]) -> str:
    """The whole page; `url` is the app's own address without a slash at the end, `mcp` the path of its MCP server."""
    listed = "\n".join(line for endpoint in endpoints for line in _endpoint_lines(endpoint))
    return render("agents.md.j2", url=url, mcp=mcp, endpoints=Code(listed))


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
