"""Endpoints that are asked about one model, engine and hardware give one answer: devices, bytes on each, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lib.catalog import load
from lib.errors import AdvisorError
from lib.memory.spread import spread
from lib.model import bundled
from lib.service.cost import ways_to_save
from lib.service.endpoint import App, bind_arguments
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models

APP = App(catalog=load, models=Models())
MEMORY, SOLVE, SAVE = (bind_arguments(question, APP) for question in (estimate_memory, solve, ways_to_save))
ENGINES = ("transformers", "vllm", "sglang", "tgi", "llama.cpp")
SPECS = {name: spec for name in bundled.list_ids() if (spec := bundled.find_spec(name)) is not None}
EMBEDDERS = tuple(name for name, spec in SPECS.items() if spec.work in {"text encoder", "embedding decoder"})
DECODERS = tuple(name for name, spec in SPECS.items() if spec.work == "decoder" and spec.library == "transformers")
PLACES = tuple(
    offer
    for offer in load().on(["spaces", "jobs", "endpoints"])
    if offer.silicon is not None and offer.silicon.kind == "gpu" and offer.accelerator_count > 1
)


def questions(step: int) -> Iterator[tuple[str, str]]:
    """Models and engines: every `step`-th decoder with each engine, and the embedders with TEI."""
    yield from ((model, engine) for model in DECODERS[::step] for engine in ENGINES)
    yield from ((model, "tei") for model in EMBEDDERS[:: max(1, step // 8)])


def compare(step: int) -> int:
    """Triples that were compared."""
    compared = 0
    for at, (model, engine) in enumerate(questions(step)):
        try:
            fits = {(entry["platform"], entry["hardware"]): entry for entry in MEMORY(model, engine=engine)["fits"]}
        except AdvisorError:  # the engine does not run this model, or not in the format of its checkpoint
            continue
        for place in PLACES[at % 3 :: 3]:
            entry = fits.get((place.platform, place.id))
            if entry is None:
                continue
            assert entry["devices"] == spread(SPECS[model], engine, place.accelerator_count).devices
            try:
                limits = SOLVE(model, f"{place.platform}:{place.id}", engine=engine)
            except AdvisorError:  # no speed is known of this engine or format there
                continue
            where = (model, engine, place.platform, place.id)
            assert limits["devices"] == entry["devices"], where
            assert (limits["fits"], limits["free_bytes"]) == (entry["fits"], entry["free_bytes"]), where
            compared += 1
    return compared


def test_memory_and_limits_agree_on_devices_and_fit() -> None:
    """`/estimate_memory` and `/solve` over a sample; `tei` holds a model on one device, whatever the machine has."""
    assert compare(40) >= 150


@pytest.mark.slow
def test_memory_and_limits_agree_everywhere() -> None:
    """The same over at least 2,000 triples of model, engine and hardware."""
    assert compare(3) >= 2_000


@pytest.mark.parametrize("model", EMBEDDERS)
def test_ways_to_save_refuse_nothing_that_was_not_sent(model: str) -> None:
    """TEI loads no formats of 8 and 4 bits: each such way gives that as its reason, and the question is answered."""
    answer = SAVE("l4x4", model, engine="tei")
    lacking = {way["code"] for way in answer["no_ways"] if way["reason_code"] == "engine_lacks_format"}
    assert {"fp8", "int8", "int4"} <= lacking
