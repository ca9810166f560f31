"""Arguments of endpoints, as they are described and checked."""

from __future__ import annotations

import pytest

from lib.request import fields
from lib.service.memory import MemoryArguments


def test_a_check_reads_no_source_that_the_description_has_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ast.parse` of Python 3.11 fails while another thread parses, as the import of torch does after the start."""
    described = set[type]()
    monkeypatch.setattr(fields, "field_descriptions", lambda kind: described.add(kind) or {})
    fields._parts.cache_clear()
    MemoryArguments.list_fields.__func__.__wrapped__(MemoryArguments)  # type: ignore[attr-defined]
    at_start = set(described)
    MemoryArguments.model_validate({"model": "7B"})
    assert MemoryArguments in at_start
    assert described == at_start
