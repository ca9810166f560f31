"""A row of a fleet: its cells are arguments, its answer is that of /recommend and /right_size, and it never raises."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lib.answers.fleet import FleetRow
from lib.catalog import load
from lib.errors import InvalidInput, RateLimited
from lib.service.endpoint import App
from lib.service.fleet import COLUMNS, WINDOW_S, answer_row, check_columns
from lib.service.models import Models
from lib.service.recommend import RecommendArguments, recommend


@pytest.fixture(scope="module")
def app() -> App:
    """Bundled models and prices."""
    catalog = load()
    return App(catalog=lambda: catalog, models=Models(), quantized=lambda _: None)


def _row(app: App, row: int, cells: dict[str, Any]) -> FleetRow:
    return answer_row(app.models, app.catalog(), row, cells)


def test_a_row_is_the_answer_of_recommend(app: App) -> None:
    """The same pick, bytes and price; cells of CSV are text, and an empty one is the default."""
    cells = {"model": "Qwen/Qwen3-8B", "concurrency": "4", "hours_per_day": "8.5", "platforms": "spaces,jobs", "task": "", "label": "a"}
    row = _row(app, 7, cells)
    found = recommend(
        app,
        RecommendArguments.model_validate({"model": "Qwen/Qwen3-8B", "concurrency": 4, "hours_per_day": 8.5, "platforms": "spaces,jobs"}),
    )
    pick = found.pick
    assert pick is not None
    assert pick.memory is not None
    assert (row.row, row.label, row.model, row.error_code) == (7, "a", "Qwen/Qwen3-8B", None)
    assert (row.pick, row.precision, row.engine, row.verdict) == (pick.hardware, pick.precision, pick.engine, pick.verdict)
    assert (row.total_bytes, row.usd_per_month) == (pick.memory.total_bytes, pick.cost.total_usd_per_month)
    assert row.total_bytes == sum((row.weights_bytes or 0, row.kv_cache_bytes or 0, row.activation_bytes or 0, row.runtime_bytes or 0))
    assert row.decision is None
    assert row.saving_usd_per_month is None


def test_the_current_hardware_is_compared(app: App) -> None:
    """An A100 for 0.5B costs 1,800 USD a month too many; a tier that should stay saves nothing."""
    small = {"model": "Qwen/Qwen2.5-0.5B-Instruct", "platforms": "spaces"}
    row = _row(app, 0, small | {"hardware": "a100-large"})
    assert (row.current, row.decision, row.current_usd_per_month) == ("a100-large", "move", Decimal(1800))
    assert row.saving_usd_per_month == Decimal(1800) - (row.usd_per_month or 0)
    assert row.reasons[0].code == "saves"
    stays = _row(app, 0, small | {"hardware": row.pick})
    assert (stays.decision, stays.saving_usd_per_month) == ("stay", 0)


@pytest.mark.parametrize(
    ("cells", "code", "words"),
    [
        ({"model": "7B", "concurrency": "many"}, "bad_argument", "whole number"),
        ({"model": "7B", "concurrency": 1e400}, "bad_argument", "whole number"),
        ({"model": "7B", "hardware": "moon"}, "unknown_hardware", "moon"),
        ({"model": "7B", "label": "a\nb"}, "bad_argument", "printable"),
        ({"model": ""}, "unknown_model", "empty"),
        ({"model": None}, "bad_argument", "null"),
        ({"model": {"deep": []}}, "bad_argument", "object"),
        ({"model": "7B", "serving": '{"max_num_seqs": '}, "bad_argument", "JSON object"),
        ({"model": "7B", "serving": '{"max_num_sequences": 4}'}, "bad_argument", "max_num_seqs"),
        ({"model": "7B", "extra": 1}, "invalid_input", "extra"),
        ({"model": "hf_abcdefghijklmnop"}, "unknown_model", "token"),
    ],
)
def test_a_bad_row_is_a_row_with_an_error(app: App, cells: dict[str, object], code: str, words: str) -> None:
    """With a stable code, a sentence, and no token."""
    row = _row(app, 3, cells)
    assert (row.row, row.error_code, row.pick) == (3, code, None)
    assert words in (row.error or "")
    assert "hf_abc" not in row.model


def test_a_mistake_of_ours_is_a_row_too(app: App) -> None:
    """The next rows are answered, and nothing of the failure is told."""

    def fail(_: object) -> None:
        raise KeyError("secret")

    row = answer_row(fail, app.catalog(), 0, {"model": "7B"})  # type: ignore[arg-type]
    assert row.error_code == "failed"
    assert "secret" not in (row.error or "")


def test_columns_are_those_of_recommend() -> None:
    """One list of arguments; a missing or unknown column is refused with the nearest name."""
    own = {"limit", "own_hardware", "host_memory"}
    assert set(COLUMNS) - {"hardware", "label"} == set(RecommendArguments.list_fields()) - own
    with pytest.raises(InvalidInput, match="'model' is missing"):
        check_columns(["name", "concurrency"])
    with pytest.raises(InvalidInput, match="rename it to 'concurrency'"):
        check_columns(["model", "concurency"])


def test_the_hub_s_rate_limit_is_waited_for(app: App) -> None:
    """As long as the Hub says, else a window; and a limited number of times."""
    stated, unstated = RateLimited("Slow down."), RateLimited("Slow down.")
    stated.wait_s = 17
    refusals = [stated, unstated]

    def models(model: object) -> object:
        if refusals:
            raise refusals.pop(0)
        return app.models(model)

    waits: list[float] = []

    def ask() -> str | None:
        return answer_row(models, app.catalog(), 0, {"model": "7B"}, sleep=waits.append).error_code  # type: ignore[arg-type]

    assert ask() is None
    assert waits == [17, WINDOW_S]
    refusals += [stated] * 100
    assert ask() == "rate_limited"
    assert len(waits) < 20
