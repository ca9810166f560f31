"""Links to an answer."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.present.markup import answer_actions
from lib.ui import fields as ask
from lib.ui.fields import MODEL_LENGTH, Field
from lib.ui.workload import link_query, read_link

MEMORY = (*ask.WORKLOAD[:-1], *ask.MEMORY)
"""Without the hardware, whose choices are those of the day."""


def _params(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query, keep_blank_values=True).items()}


TEXTS = {"serving": ("--max-num-seqs 64 --enforce-eager", '{"tensor_parallel": 2}'), "ram": ("64 GB DDR5-6000", "128 GB 256 GB/s")}
"""Free texts that a link carries, by the name of their field."""


def _values(fields: tuple[Field, ...]) -> st.SearchStrategy[list[object]]:
    def one(field: Field) -> st.SearchStrategy[object]:
        if isinstance(field.default, list):
            return st.lists(st.sampled_from(field.choices), min_size=1, unique=True)
        if field.check is not None:
            return st.sampled_from(("", *TEXTS[field.name]))
        if isinstance(field.default, str):
            return st.sampled_from(field.choices)
        whole = st.integers(int(field.low), int(field.high))
        return whole if isinstance(field.default, int) else whole | st.floats(field.low, field.high)

    return st.tuples(*map(one, fields)).map(list)


@pytest.mark.parametrize("fields", [ask.QUESTION, MEMORY], ids=["recommend", "memory"])
@given(data=st.data())
def test_a_link_leads_back_to_its_question(fields: tuple[Field, ...], data: st.DataObject) -> None:
    """Question to link to question is the identity."""
    values = data.draw(_values(fields))
    link = link_query("memory", "a/b c&d", fields, values)
    assert link is not None
    params = _params(link)
    assert params["model"] == "a/b c&d"
    assert read_link(fields, params) == (values, [])


@given(st.dictionaries(st.sampled_from([field.name for field in MEMORY]), st.text(max_size=50)))
def test_a_hostile_link_opens_the_page(params: dict[str, str]) -> None:
    """Whatever a link holds, every value read lies in its field's range, and what was not used is named."""
    values, unread = read_link(MEMORY, params)
    for field, value in zip(MEMORY, values, strict=True):
        if field.check is not None:
            field.check(field.argument, str(value))
        else:
            assert value in field.choices if isinstance(field.default, str) else field.low <= value <= field.high
        assert (field.name in unread) <= (value == field.default)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1e99", "4096.5", "", "4096; drop"])
def test_no_absurd_number_is_read(text: str) -> None:
    """Numbers out of range, not whole, or no numbers at all leave the default in place and are named."""
    assert read_link(ask.WORKLOAD[:1], {"context": text}) == ([4096], ["context"])


def test_no_link_carries_a_pasted_config() -> None:
    """Neither a short one nor one that is too long for an address: the link says that there was one."""
    for pasted in ('{"model_type": "llama"}', " {}", "x" * (MODEL_LENGTH + 1)):
        link = link_query("memory", pasted, ask.MEMORY, [field.default for field in ask.MEMORY])
        assert link == "?tab=memory&config=pasted"
        assert "without the config.json" in answer_actions(text="", query=link, files=())
