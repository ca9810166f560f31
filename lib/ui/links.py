"""Links to an answer: the questions as query parameters of the page.

A link comes from anyone, so a parameter is used only when it names a field and reads as that field's type and range; whatever does not is
left at its default, and the page says which ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from lib.ui.fields import FIELDS_BY_NAME, MODEL_LENGTH, Field, Value

FORMER_NAMES = {
    ("memory", "batch"): "concurrency",
    ("cost", "once"): "concurrency",
    ("tpu", "precision"): "needs",
    ("tpu", "batch"): "batches",
    ("tpu", "budget"): "spend",
    ("train", "precision"): "master",
    ("train", "batch"): "microbatch",
    ("traffic", "batch"): "slots",
    ("traffic", "tpot"): "tpot_target",
    ("traffic", "sleep"): "idle",
}
"""Tab and name in links from before the tabs shared one workload, and the name today."""


def link_text(value: Value) -> str:
    """A value as a link carries it."""
    return ",".join(value) if isinstance(value, list) else str(value)


def link_query(tab: str, model: str, fields: Sequence[Field], values: Sequence[Value]) -> str | None:
    """The query of a link to this answer, defaults left out; `None` when the model is too long for one (a pasted config)."""
    if len(model) > MODEL_LENGTH:
        return None
    query = {
        field.name: link_text(value) for field, value in zip(fields, values, strict=True) if value != field.default and value is not None
    }
    return "?" + urlencode({"tab": tab, "model": model, **query})


def read_link(fields: Sequence[Field], params: Mapping[str, str]) -> tuple[list[Value], list[str]]:
    """Values for the fields from a link's parameters, and the names of those that could not be used."""
    params = rename_former(params)
    values: list[Value] = []
    unread: list[str] = []
    for field in fields:
        value = field.read(params[field.name]) if field.name in params else field.default
        if value is None:
            unread.append(field.name)
        values.append(field.default if value is None else value)
    return values, unread


def rename_former(params: Mapping[str, str]) -> dict[str, str]:
    """The parameters by today's names.

    A former name that another field has today (`precision`) stands for the former one only where today's field cannot hold the value.
    """
    renamed = dict(params)
    for (tab, former), name in FORMER_NAMES.items():
        today = FIELDS_BY_NAME.get(former)
        if renamed.get("tab") != tab or former not in renamed or (today and today.read(renamed[former]) is not None):
            continue
        text = renamed.pop(former)
        renamed.setdefault(name, text)
    return renamed
