"""Write docs/api.md from the endpoints' own schemas.

    python -m scripts.write_api_page

A test fails while the page differs from the schemas.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lib.answers.memory import ServerStartEntry
from lib.engines import TRAITS
from lib.engines.traits import Setting
from lib.result import field_descriptions
from lib.service.app import services
from lib.ui.http.api import output_schema
from lib.ui.http.mcp import list_endpoints

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "api.md"
COMMON = ("schema", "caveats", "sources")


def name_type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The type of an argument or of a field of a result in a few words: a reference is the type that it points to."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return name_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(name_type(one, definitions) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {name_type(schema.get('items', {}), definitions)}"
    return {"integer": "whole number"}.get(kind := str(schema.get("type", "any")), kind)


def render_page() -> str:
    """The text of `docs/api.md`."""
    endpoints = services().endpoints()
    results = {}
    for name, endpoint in endpoints.items():
        schema = output_schema(endpoint.question)
        if "$ref" in schema:
            schema = schema["$defs"][schema["$ref"].rpartition("/")[2]] | {"$defs": schema["$defs"]}
        fields = {field: content for field, content in schema.get("properties", {}).items() if field not in COMMON}
        definitions = schema.get("$defs", {})
        results[name] = [(field, name_type(content, definitions), content.get("description", "")) for field, content in fields.items()]
    environment = Environment(loader=FileSystemLoader(DOCS), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    environment.filters["tojson_plain"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["type_words"] = lambda schema: name_type(schema, {})
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    settings = {name: [engine for engine, row in TRAITS.items() if name in row.settings] for name in get_args(Setting)}
    return environment.get_template("api.md.j2").render(
        endpoints=list_endpoints(endpoints), results=results, settings=settings, server=field_descriptions(ServerStartEntry)
    )


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
