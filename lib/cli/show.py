"""Answers as text for a terminal. Nothing is computed here; every figure is formatted by `lib.present.numbers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lib.advisor.space_rules import HOURS_PER_MONTH
from lib.present.cards import own_text
from lib.present.numbers import gib, tokens_per_s, usd, usd_per_hour, usd_per_month

Answer = Mapping[str, Any]
_NEVER = -1
_MOST_ALTERNATIVES = 8


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> list[str]:
    """Aligned columns; the last `right` ones lean to the right, as figures do."""
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    first = len(heads) - right
    return [
        "  ".join(
            cell.rjust(width) if column >= first else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]


def rate(entry: Answer) -> str:
    """A price per hour and month: "$0.80 an hour ($576 a month of 30 days around the clock)"."""
    return "free" if entry["usd_per_hour"] == 0 else _price(entry)


def _price(entry: Answer) -> str:
    """As `rate`, with $0 in figures."""
    each = entry["usd_per_hour"]
    if each is None:
        return "a price that is not known here"
    return f"{usd(each)} an hour ({usd(entry['usd_per_month'])} a month of 30 days around the clock)"


def sleep_words(after_s: int | None) -> str:
    """A sleep time: -1 never, `None` not documented."""
    if after_s is None:
        return "not documented"
    return "never" if after_s == _NEVER else f"after {after_s:,} s without a visit"


def preview_lines(preview: Answer) -> list[str]:
    """What an action would do and cost, before it is confirmed."""
    before, after = preview["before"], preview["after"]
    lines = [f"{preview['space']}: {preview['stage_message']} Now on {before['hardware'] or 'no hardware'}, {rate(before)}."]
    if preview["action"] == "switch":
        each = f", for each of {preview['replicas']} replicas" if preview["replicas"] > 1 else ""
        lines.append(f"{after['hardware']} ({after['name']}) costs {_price(after)}{each}.")
    lines += preview["effects"]
    change = preview["change_usd_per_hour"]
    if change:
        more = "more" if change > 0 else "less"
        lines.append(
            f"That is {usd(abs(change))} an hour {more} ({usd(abs(preview['change_usd_per_month']))} a month), if it runs around the clock."
        )
    lines += [f"note: {note['message']}" for note in preview["caveats"]]
    return [*lines, prices_line(preview["prices"])]


def prices_line(prices: Answer) -> str:
    """Which prices these are, and how old."""
    return f"Prices: {'the platform now' if prices['basis'] == 'live' else 'bundled with this program'}, {prices['checked']}."


def progress_line(progress: Answer) -> str:
    """A Space under way, as one line."""
    trouble = f" ({progress['trouble']})" if progress["trouble"] else ""
    failed = f" {progress['error']}" if progress["error"] else ""
    on = progress["hardware"] or "no hardware"
    return f"{progress['elapsed_s']:6.0f} s  {progress['stage']}  on {on}. {progress['stage_message']}{failed}{trouble}"


def action_lines(done: Answer, last: Answer | None) -> str:
    """The state in which an action ended, as lines."""
    state = last or done
    on = state["hardware"] or state["requested_hardware"] or "no hardware"
    line = f"{done['space']}: {state['stage']} on {on}, {rate(state)}; sleeps: {sleep_words(state['sleep_time_s'])}."
    return line if last is None or last["arrived"] else f"{line}\nIt does not run on what was asked for yet. {last['error'] or ''}".rstrip()


def status_text(status: Answer) -> str:
    """What a Space is doing, on what, and what that costs."""
    changing = f" → {status['requested_hardware']}" if status["changing"] else ""
    billed = {True: "billed now", False: "not billed now", None: "whether it is billed is not known"}[status["billed_now"]]
    rows = [
        ("stage", f"{status['stage']}: {status['stage_message']}"),
        ("hardware", f"{status['hardware'] or status['requested_hardware'] or 'none'} {status['hardware_name'] or ''}".rstrip() + changing),
        ("price", f"{rate(status)}; {billed}"),
        ("replicas", str(status["replicas"] or 1)),
        ("sleep", status["sleep_message"]),
        ("volumes", ", ".join(f"{one['source']} at {one['mount_path']}" for one in status["volumes"]) or "none"),
        ("models", ", ".join(status["models"]) or "none linked"),
        *([("error", status["error"])] if status["error"] else []),
    ]
    notes = [f"note: {note['message']}" for note in status["caveats"]]
    return "\n".join([f"{status['space']} ({status['sdk'] or 'no SDK'})", *(f"  {name:<9} {text}" for name, text in rows), *notes])


def tiers_text(hardware: Sequence[Answer]) -> str:
    """The tiers, as the platform lists them."""
    rows = [
        (
            row["id"],
            row["name"] if row["status"] == "listed" else f"{row['name']} (gone since {row['since'] or 'a day not known'})",
            "-" if row["vram_bytes_per_accelerator"] is None else gib(row["vram_bytes_per_accelerator"] * row["accelerator_count"]),
            "-" if row["vcpu"] is None else str(row["vcpu"]),
            "-" if row["ram_bytes"] is None else gib(row["ram_bytes"]),
            usd_per_hour(row["usd_per_hour"]) if row["status"] == "listed" else "-",
            usd_per_month(row["usd_per_hour"] * HOURS_PER_MONTH) if row["usd_per_hour"] is not None and row["status"] == "listed" else "-",
        )
        for row in hardware
    ]
    lines = table(("tier", "hardware", "GPU memory", "vCPU", "RAM", "USD/hour", "USD/month"), rows, right=5)
    return "\n".join([*lines, "A month is 30 days around the clock. ZeroGPU is free within each visitor's daily quota."])


def _place(entry: Answer) -> tuple[str, ...]:
    memory, speed, cost = entry["memory"], entry["speed"], entry["cost"]
    pace = speed["decode_tokens_per_s"]
    return (
        entry["hardware"],
        entry["precision"],
        f"{entry['engine']} (Docker)" if entry["sdk"] == "docker" else entry["engine"],
        entry["verdict"],
        "-" if memory is None else gib(memory["per_device_bytes"]),
        "-" if pace is None else tokens_per_s(pace),
        usd_per_hour(cost["usd_per_hour"]),
        usd_per_month(cost["total_usd_per_month"]),
    )


_PLACE = ("tier", "precision", "engine", "verdict", "per device", "speed", "USD/hour", "USD/month")


def recommendation_text(answer: Answer) -> str:
    """The pick with its reasons, the alternatives, and how many were rejected."""
    lines = [f"{answer['model'] or 'No model'}: {answer['task']}"]
    if answer["pick"] is None:
        lines.append("No hardware of these platforms does it.")
        lines += [f"  {row['hardware']}: {row['reason']}" for row in answer["rejected"]]
    else:
        pick = answer["pick"]
        lines += [f"Pick: {pick['hardware']} ({pick['name']})", *(f"  - {reason['message']}" for reason in pick["reasons"]), ""]
        lines += table(_PLACE, [_place(entry) for entry in answer["ranked"][:_MOST_ALTERNATIVES]], right=4)
        left = len(answer["ranked"]) - _MOST_ALTERNATIVES
        more = f"{left} more would do it too; " if left > 0 else ""
        lines.append(f"{more}{len(answer['rejected'])} are rejected (--json names each with its reason).")
    if "own" in answer:
        lines.append(own_text(answer["own"]))
    notes = [f"note: {note['message']}" for note in (*answer["notes"], *answer["caveats"])]
    return "\n".join([*lines, *notes, prices_line(answer["prices"])])


def _saving(usd_per_month: float | None) -> str:
    if not usd_per_month:
        return ""
    return f" It saves {usd(usd_per_month)} a month." if usd_per_month > 0 else f" It costs {usd(-usd_per_month)} a month more."


def right_size_text(answer: Answer) -> str:
    """The recommendation beside the current tier."""
    current, pick, saving = answer["current"], answer["pick"], answer["saving_usd_per_month"]
    words = {"stay": "Stay", "move": f"Move to {pick['hardware'] if pick else ''}", "none": "Nothing on these platforms does it"}
    lines = [
        f"{answer['space']} runs on {current['hardware'] or 'no hardware'}; judged for {answer['model'] or 'no model'}.",
        f"{words[answer['decision']]}.{_saving(saving) if answer['decision'] == 'move' else ''}",
        *(f"  - {reason['message']}" for reason in answer["reasons"]),
    ]
    if answer["ranked"]:
        lines += ["", *table(_PLACE, [_place(entry) for entry in answer["ranked"][:_MOST_ALTERNATIVES]], right=4)]
    notes = [f"note: {note['message']}" for note in (*answer["notes"], *answer["caveats"])]
    return "\n".join([*lines, *notes, prices_line(answer["prices"])])
