"""Points of `field_points.json`: vLLM of 2025 on one H100 at small batches, from the ML.ENERGY benchmark.

The file states neither the length of prompts nor the release of vLLM. Chats and GPQA have prompts of a few hundred tokens: with 200 or 400
a step at batch 8 differs by 1 %, at batch 128 by 9-13 %. So only batches up to 16 are fitted. Pictures and clips in prompts, code to fill
in, whole racks and B200 at large batches are left out. The cases are what the app itself makes of the bundled models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lib.errors import InvalidInput
from lib.model.bundled import find_spec
from lib.speed.batch import SpeedRequest, describe_passes, resolve_engine_config
from scripts.calibration_points import CARDS, CATALOG, Point

PROMPT_TOKENS = 300
LARGEST_BATCH = 16
TASKS = frozenset({"gpqa", "lm-arena-chat"})
CARD = "H100-SXM"


def field(facts: Path) -> Iterator[Point]:
    """Median times between tokens at the measured mean batch, of models that are bundled."""
    content = json.loads((facts / "field_points.json").read_text(encoding="utf-8"))
    for p in content["points"]:
        if p["source"] != "ml-energy" or p["metric"] != "itl_ms" or p["task"] not in TASKS:
            continue
        if (p["accelerator"], p["n_devices"]) != (CARD, 1) or p["batch_or_concurrency"] > LARGEST_BATCH:
            continue
        spec = find_spec(p["model_hf_id"])
        if spec is None:
            continue
        request = SpeedRequest(
            precision={"bf16": "bf16"}.get(p["quant"], "auto"),
            engine="vllm",
            prompt_tokens=PROMPT_TOKENS,
            output_tokens=p["output_tokens"],
            concurrency=round(p["batch_or_concurrency"]),
        )
        try:
            config = resolve_engine_config((spec, CATALOG.resolve_hardware(CARD), request), CARDS)
        except InvalidInput:
            continue
        yield Point(
            case=describe_passes(config)[0],
            card=(CARD, 1.0, config.arithmetic),
            metric="itl_ms",
            value=p["value"],
            weight=1.0,
            model=p["model"],
            accelerator=CARD,
            regime=p["task"],
            source="field",
        )
