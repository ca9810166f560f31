"""Rows of questions: a row's columns are the arguments of `/recommend`, the current hardware and a label; its answer is a `FleetRow`.

    answer_row(models, catalog, 0, {"model": "Qwen/Qwen3-8B", "concurrency": "4", "hardware": "a100-large"})

A row never raises: a rejected question becomes a row with the error's code and sentence. Cells come from CSV, JSON or Parquet; the text of
a number is read as that number, an empty cell is the default. Published checkpoints are not looked up, so a row is the same everywhere.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, get_origin

from lib.advisor.recommend import RightSizing
from lib.advisor.result import Recommendation
from lib.answers.fleet import FleetRow
from lib.catalog import Catalog
from lib.errors import AdvisorError, BadArgument, InvalidInput, RateLimited, UnreadableJson, hide_tokens, read_json
from lib.hub.spaces import Spaces
from lib.model.spec import ModelSpec
from lib.provenance import Reason
from lib.request.checks import MAX_NAME, describe_value
from lib.request.fields import Arguments, Checked
from lib.request.types import Hardware, Model
from lib.service.recommend import RecommendArguments, find_hardware
from lib.service.right_size import MOST_MODELS, allow_current, compare_current
from lib.workload import Workload

log = logging.getLogger(__name__)

WINDOW_S = 300
"""Seconds of the window in which the Hub counts requests (hub-docs rate-limits.md, read 2026-11-23)."""
_WAITS = 5
"""Most windows that one row waits when the Hub limits the rate of requests."""
_LONGEST_WAIT_S = 3_600
_SHOWN = 80
_MOST_NODES = 1_000
_SHOWN_COLUMNS = 5


def _label(name: str, value: object) -> str:
    if isinstance(value, str) and len(value) <= MAX_NAME and value.isprintable():
        return value
    raise BadArgument(name, describe_value(value)[:_SHOWN], f"printable text of at most {MAX_NAME} characters")


class FleetArguments(Arguments):
    """The columns of a row."""

    model: Model
    workload: Workload = Workload()
    hardware: Hardware = ""
    """The current hardware, such as l4x1; empty compares with nothing."""
    label: Annotated[str, Checked(_label, str)] = ""
    """A text of your own that the answer repeats, such as the name of a Space."""


COLUMNS = FleetArguments.list_fields()
"""The columns that a row may have, by name."""


def check_columns(names: Iterable[object]) -> None:
    """Reject rows without a model or with an unknown column.

    Raises:
        InvalidInput: with the columns that are accepted.
    """
    found = [str(name) for name in names]
    if "model" not in found:
        seen = ", ".join(name[:_SHOWN] for name in found[:_SHOWN_COLUMNS]) or "none"
        raise InvalidInput(f"The column 'model' is missing. Columns found: {seen}. Add a column 'model' with Hub ids or counts such as 7B.")
    for name in found:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            hint = f"rename it to '{near[0]}' or remove it" if near else "remove it"
            raise InvalidInput(f"The column {name[:_SHOWN]!r} is not known; {hint}. Accepted: {', '.join(COLUMNS)}.")


_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


def _read_cell(name: str, value: object) -> object:
    """Convert the text of a cell to the type of its column; the check of the column validates the value."""
    if not isinstance(value, str):
        return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
    text, shown = value.strip(), COLUMNS[name].check.shown
    if shown is bool:
        return _FLAGS.get(text.casefold(), text)
    if get_origin(shown) is dict:
        return read_json(text.encode(errors="surrogatepass"), _MOST_NODES)
    if shown not in (int, float):
        return value
    try:
        return int(text) if text.lstrip("+-").isdecimal() and len(text) <= MAX_NAME else float(text)
    except ValueError:
        return text


def _read_cells(cells: Mapping[str, object]) -> dict[str, object]:
    check_columns(cells)
    read: dict[str, object] = {}
    for name, value in cells.items():
        if value in (None, "") and name != "model":
            continue
        try:
            read[name] = _read_cell(name, value)
        except UnreadableJson:
            raise BadArgument(name, describe_value(value)[:_SHOWN], 'a JSON object such as {"max_num_seqs": 64}') from None
    return read


def list_owner_rows(spaces: Spaces, owner: str) -> Iterator[dict[str, object]]:
    """Questions about an account: each model that its Spaces link, on their hardware, then each of its own models.

    Raises:
        AdvisorError: the Hub does not list them.
    """
    for space in spaces.list_spaces(owner, linked=True):
        for model in space.models[:MOST_MODELS] if space.hardware or space.requested_hardware else ():
            yield {"model": model, "hardware": space.requested_hardware or space.hardware, "label": space.id}
    for model in spaces.list_models(owner):
        yield {"model": model}


FindModel = Callable[[object], ModelSpec]


def answer_row(
    models: FindModel, catalog: Catalog, row: int, cells: Mapping[str, object], *, sleep: Callable[[float], None] = time.sleep
) -> FleetRow:
    """The answer to one row. It waits with `sleep` when the Hub answers with its rate limit (429)."""
    try:
        arguments = FleetArguments.model_validate(_read_cells(cells))
        waits = 0
        while True:
            try:
                return _answer(models, catalog, row, arguments)
            except RateLimited as limit:
                waits += 1
                if waits > _WAITS:
                    raise
                sleep(min(limit.wait_s or WINDOW_S, _LONGEST_WAIT_S))
    except AdvisorError as refused:
        return refused_row(row, cells, catalog, refused.code, str(refused))
    except Exception as error:
        log.exception("a row of a fleet failed")
        return refused_row(row, cells, catalog, "failed", f"The row has no answer because of a bug in this app ({type(error).__name__}).")


def refused_row(row: int, cells: Mapping[str, object], catalog: Catalog, code: str, sentence: str) -> FleetRow:
    """A row without an answer."""
    prices = catalog.prices["spaces"]
    label, model = (cells.get(name) for name in ("label", "model"))
    return FleetRow(
        row=row,
        label=_shorten(label),
        model=_shorten(model),
        error_code=code,
        error=sentence,
        prices=prices.basis,
        prices_checked=prices.checked,
    )


def _shorten(value: object) -> str:
    """A cell as far as an answer repeats it: printable, short and without tokens."""
    text = hide_tokens(describe_value(value)) if value not in (None, "") else ""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_NAME])


def _answer(models: FindModel, catalog: Catalog, row: int, arguments: FleetArguments) -> FleetRow:
    current = catalog.resolve_offer(arguments.hardware) if arguments.hardware != "" else None
    allowed = allow_current(catalog, current, arguments.workload)
    found = find_hardware(RecommendArguments(model=arguments.model, workload=arguments.workload), allowed, models)
    verdict = None if current is None else compare_current(current, found, found.spec, allowed)
    prices = catalog.prices["spaces"]
    return FleetRow(
        row=row,
        label=hide_tokens(arguments.label),
        model=found.model or _shorten(arguments.model),
        reasons=_reasons(found, verdict),
        prices=prices.basis,
        prices_checked=prices.checked,
        **_pick_columns(found),
        **({} if verdict is None or current is None else _current_columns(current.id, verdict)),
    )


def _reasons(found: Recommendation, verdict: RightSizing | None) -> tuple[Reason, ...]:
    compared = () if verdict is None else verdict.reasons
    if found.pick is not None:
        return (*compared, *found.pick.reasons)
    return (*compared, *found.notes, *(rejection.reason for rejection in found.rejected[:1]))


def _pick_columns(found: Recommendation) -> dict[str, Any]:
    pick = found.pick
    if pick is None:
        return {}
    memory = {} if pick.memory is None else {name: getattr(pick.memory, name) for name in _MEMORY}
    return memory | {
        "pick": pick.hardware,
        "platform": pick.platform,
        "precision": pick.precision,
        "engine": pick.engine,
        "devices": pick.devices,
        "replicas": pick.replicas,
        "verdict": pick.verdict,
        "ttft_s": pick.speed.ttft_s,
        "tokens_per_s": pick.speed.decode_tokens_per_s,
        "request_s": pick.speed.request_s,
        "usd_per_hour": pick.cost.usd_per_hour,
        "usd_per_month": pick.cost.total_usd_per_month,
    }


_MEMORY = (
    "weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes", "total_bytes", "per_device_bytes", "capacity_bytes",
)  # fmt: skip


def _current_columns(current: str, verdict: RightSizing) -> dict[str, Any]:
    return {
        "decision": verdict.decision,
        "current": current,
        "current_fits": verdict.fits,
        "current_usd_per_month": verdict.usd_per_month,
        "saving_usd_per_month": Decimal(0) if verdict.decision == "stay" else verdict.saving_usd_per_month,
    }
