"""The wording of reasons of a pile of work (`/estimate_batch`)."""

from __future__ import annotations

_TAKES = "{items} {unit} on {shards} × {name} ({platform}) take about {hours:.2g} hours and cost {usd}."
BATCH = {
    "batch_rate": "About {per_hour:,.0f} {unit} an hour on each machine, with {batch_size} at the same time in {engine}.",
    "batch_starts": "Each machine starts for about {start_minutes} minutes: it fetches {download_bytes}, loads it and starts the engine. "
    "Hours and price include this.",
    "batch_compressed": "Weights in {precision}: less compressed ones do not fit. The order counts its price {weight} times.",
    "batch_timeout": "A Job ends after {minutes} minutes by default, so the command sets a timeout of {timeout_h} hours.",
    "batch_stop_it": "It does not end with the work: stop it yourself, or it is billed on.",
    "batch_free": "Free hardware sleeps and cannot run side by side, so it is not planned for a pile of work.",
    "batch_no_engine": "No engine that batches requests continuously runs this model on {name}.",
    "batch_not_timed": "The speed of this model on {name} is not predicted.",
    "batch_start_too_long": "The start alone takes about {start_minutes} minutes ({download_bytes} to fetch): no number of machines ends "
    "within {deadline_hours} hours.",
    "batch_too_many": "It takes {shards} machines to end within {deadline_hours} hours; at most {most} are planned.",
    "batch_pick": "The lowest price, with compressed weights counted as dearer: " + _TAKES,
    "batch_pick:deadline": "The lowest price within {deadline_hours} hours, with compressed weights counted as dearer: " + _TAKES,
    "batch_nothing": "No hardware on these platforms does this work; each rejected one states its reason.",
    "batch_nothing:deadline": "No hardware on these platforms does {items} {unit} within {deadline_hours} hours; each rejected one states "
    "its reason.",
}
