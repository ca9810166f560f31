"""How scripts and agents call the app: Markdown in the form of llms.txt (llmstxt.org). Its examples run unchanged, which a test does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
