"""60 graphics cards and 12 models: the speed that `/recommend` states on a visitor's own card, and the best that `/estimate_speed` states.

python tests/benchmarks/bench_own_cards.py [--cards RTX-3060,RTX-4090] [--all]

Three bests are printed:

offered    all engines, and the formats that `/recommend` takes for any checkpoint (`OFFERED`), where a tenth of the card stays free and the
           upper estimate of memory fits, as `/recommend` asks of a comfortable fit
tight      the same formats wherever they fit
every      all formats of 4 bits or more wherever they fit, also NVFP4 and MXFP4, for which most models have no published checkpoint

Memory is that of `/estimate_memory` at 4,096 tokens. Left out are formats that `/recommend` refuses because the silicon does not compute in
them, engines that do not list the model's class, and further compression of checkpoints that are stored in 4 bits. A pair of card and model
passes with a share of 0.9 or more.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from written import ask

from lib.catalog import load
from lib.engines import TRAITS
from lib.errors import AdvisorError
from lib.precision import list_formats
from lib.service.endpoint import App
from lib.service.memory import estimate_memory
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.speed import estimate_speed

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b", "mistralai/Mistral-7B-Instruct-v0.3",
    "google/gemma-2-9b-it", "google/gemma-3-12b-it",
)  # fmt: skip
LEAST_SHARE, FREE_SHARE = 0.9, 0.1
OFFERED = frozenset({
    "auto", "fp16", "bf16", "fp8-channel", "fp8-tensor", "int8-channel", "bnb-int8", "bnb-nf4", "awq-4", "gptq-4", "gguf:F16", "gguf:BF16",
    "gguf:Q8_0", "gguf:Q4_K_M",
})  # fmt: skip
STORED_IN_4_BITS = frozenset({"openai/gpt-oss-20b"})
LESS_THAN_4_BITS = re.compile(r"gguf:I?Q[123]_")
APP = App(catalog=load, models=Models(), quantized=lambda _: None)
RECOMMEND, SPEED, MEMORY = (ask(question, APP) for question in (recommend, estimate_speed, estimate_memory))


class Way(NamedTuple):
    """An engine and a format on a card, and its speed there."""

    tokens_per_s: float
    engine: str
    precision: str


def list_cards() -> list[str]:
    """The graphics cards that own hardware can name."""
    return [card.id for card in load().accelerators.values() if card.kind == "gpu"]


def list_ways(model: str, card: str) -> list[Way]:
    """Every engine and format with a speed on the card, the fastest first."""
    ways = set()
    for engine in TRAITS:
        formats = ("auto",) if model in STORED_IN_4_BITS else ("auto", *list_formats(engine))
        for precision in formats:
            if LESS_THAN_4_BITS.match(precision):
                continue
            try:
                speed = SPEED(model, card, engine=engine, precision=precision)
            except AdvisorError:
                continue
            if speed["decode_tokens_per_s"]:
                ways.add(Way(speed["decode_tokens_per_s"], engine, speed["precision"]))
    return sorted(ways, reverse=True)


def is_refused(model: str, card: str, way: Way) -> bool:
    """Whether `/recommend` states that the silicon does not compute in the format, or that the engine does not list the model's class.

    `/estimate_speed` knows neither.
    """
    try:
        own = RECOMMEND(model, own_hardware=card, engine=way.engine, precision=way.precision)["own"]
    except AdvisorError:
        return False
    said = {reason["code"] for reason in (own["runs_as"]["reasons"] if own["runs_as"] else own["obstacles"])}
    return bool(said & {"dtype_missing", "engine_untested"})


def find_bests(model: str, card: str) -> dict[str, Way]:
    """The fastest way of each kind that fits the card, by kind."""
    bests: dict[str, Way] = {}
    for way in list_ways(model, card):
        memory = MEMORY(model, engine=way.engine, precision=way.precision, hardware=card)
        fit = memory["fits"][0]
        if not fit["fits"] or is_refused(model, card, way):
            continue
        bests.setdefault("every", way)
        if way.precision not in OFFERED and model not in STORED_IN_4_BITS:
            continue
        bests.setdefault("tight", way)
        if fit["free_bytes"] >= FREE_SHARE * fit["capacity_bytes"] and memory["high_bytes"] <= fit["capacity_bytes"]:
            bests["offered"] = way
            break
    return bests


def describe_way(way: Way) -> str:
    """Speed, engine and format."""
    return f"{way.tokens_per_s:.1f} tokens/s ({way.engine} {way.precision})"


def main() -> None:
    """Ask about every pair and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cards", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    began, shares = time.perf_counter(), {kind: list[float]() for kind in ("offered", "tight", "every")}
    cards = options.cards.split(",") if options.cards else list_cards()
    for card in cards:
        for model in MODELS:
            runs = RECOMMEND(model, own_hardware=card)["own"]["runs_as"]
            rate = (runs["speed"]["decode_tokens_per_s"] or 0.0) if runs else 0.0
            said = describe_way(Way(rate, runs["engine"], runs["precision"])) if runs else "does not run"
            for kind, best in find_bests(model, card).items():
                share = rate / best.tokens_per_s
                shares[kind].append(share)
                if options.all or share < LEAST_SHARE:
                    print(f"{kind} {share:.2f} {card} {model}: {said}, best {describe_way(best)}", flush=True)  # noqa: T201
    pairs = len(cards) * len(MODELS)
    print(f"{len(cards)} cards x {len(MODELS)} models = {pairs} pairs in {time.perf_counter() - began:.0f} s")  # noqa: T201
    for kind, of in shares.items():
        passed = sum(share >= LEAST_SHARE for share in of)
        print(  # noqa: T201
            f"{kind}: {passed} of {len(of)} pairs that fit have {LEAST_SHARE} or more; least {min(of):.3f}, median"
            f" {statistics.median(of):.3f}; nothing fits on the other {pairs - len(of)}"
        )


if __name__ == "__main__":
    main()
