"""Plain words: each means a name that exists, and the answer says what it was taken for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files

import pytest
from written import ask

from lib import precision
from lib.catalog import load
from lib.engines import ENGINES
from lib.errors import BadArgument, UnknownHardware
from lib.model import bundled
from lib.request.checks import check_choice
from lib.request.objectives import OBJECTIVES, ROLLOUTS
from lib.request.types import check_precision
from lib.request.words import collect_readings, fold_word
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.models import Models
from lib.workload import METHODS, MODES, OPTIMIZERS, SHARDINGS, STACKS

TRAIN = ask(estimate_training, App(catalog=load, models=Models()))
NAMES: Mapping[str, tuple[str, ...]] = {
    "precision": precision.NAMES, "kv_precision": precision.KV_NAMES, "optimizer": OPTIMIZERS, "sharding": SHARDINGS, "method": METHODS,
    "rollouts": ROLLOUTS, "objective": OBJECTIVES, "mode": MODES, "engine": ENGINES, "stack": STACKS, "model": tuple(bundled.list_ids()),
    "hardware": tuple(load().accelerators),
}  # fmt: skip


def test_every_word_means_a_name_that_exists() -> None:
    """The table is written without separators, and no word of it is itself a name."""
    words = json.loads(files("lib.data").joinpath("words.json").read_text(encoding="utf-8"))
    assert words.pop("unmodelled_objective").keys() <= words["objective"].keys()  # shown as another objective, with a caveat
    assert words.keys() == NAMES.keys()
    for subject, meanings in words.items():
        assert [name for name in meanings.values() if name not in NAMES[subject]] == []
        assert [word for word in meanings if word != fold_word(word) or word in NAMES[subject]] == []


@pytest.mark.parametrize(("written", "meant"), [("AWQ", "awq-4"), ("4-bit", "int4"), ("q4_k_m", "gguf:Q4_K_M"), ("gptq", "gptq-4")])
def test_a_format_in_plain_words(written: str, meant: str) -> None:
    """What was spelled otherwise is noted; a name in its own spelling, or in that of llama.cpp, is not."""
    with collect_readings() as readings:
        assert check_precision("precision", written, precision.NAMES) == meant
    noted = [(reading.code, reading.values["written"], reading.values["meant"]) for reading in readings]
    assert noted == ([] if written == "q4_k_m" else [("taken_for", written, meant)])


def test_separators_do_not_matter_and_a_wrong_word_names_the_nearest() -> None:
    """`adamw-8bit` is adamw_8bit; `adamv` is refused, and the nearest is named."""
    assert check_choice("optimizer", "adamw-8bit", OPTIMIZERS) == "adamw_8bit"
    assert check_choice("sharding", "DeepSpeed ZeRO-3", SHARDINGS) == "zero3"
    with pytest.raises(BadArgument, match="the nearest: adamw"):
        check_choice("optimizer", "adamv", OPTIMIZERS)


@pytest.mark.parametrize(
    ("written", "hardware", "own"),
    [
        ("RTX PRO 6000", "rtx-pro-6000", "RTX-PRO-6000-Blackwell-Workstation"),
        ("DGX Spark", "GB10", "GB10"),
        ("2x RTX 3090", "RTX-3090x2", "RTX-3090x2"),
        ("4 L4 GPUs", "l4x4", "L4x4"),
        ("7900 XTX", "RX-7900XTX", "RX-7900XTX"),
        ("RTX 3090 24GB", "RTX-3090", "RTX-3090"),
        ("RTX 4060 Ti", "RTX-4060Ti-8GB", "RTX-4060Ti-8GB"),
        ("MacBook Pro M5 Max", "M5-Max-36GB", "M5-Max-36GB"),
        ("H100", "H100-SXM", "H100-SXM"),
    ],
)
def test_hardware_in_plain_words(written: str, hardware: str, own: str) -> None:
    """A tier of a platform where one has this name, else silicon; of one's own cards always silicon. Both are noted."""
    with collect_readings() as readings:
        assert load().resolve_hardware(written).id == hardware
        assert load().resolve_cards(written).id == own
    assert [reading.values["argument"] for reading in readings] == ["hardware", "own_hardware"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("4 GPUs", "number without a card"),
        ("0x RTX 3090", "asks for 0 cards"),
        ("RTX 3090 99GB", "Near matches: 'RTX-3090"),
        ("(((", "((("),
    ],
)
def test_words_that_mean_no_hardware(written: str, says: str) -> None:
    """Refused, with what is missing or what is near."""
    with pytest.raises(UnknownHardware) as refused:
        load().resolve_hardware(written)
    assert says in str(refused.value)


@pytest.mark.parametrize(("written", "devices"), [("4 GPUs", 4), ("x8 cards", 8), (2, 2)])
def test_a_number_of_gpus_may_have_its_unit(written: object, devices: int) -> None:
    """Several without a sharding train with ddp."""
    answer = TRAIN("7B", devices=written)
    assert (answer["devices"], answer["sharding"]) == (devices, "ddp")


@pytest.mark.parametrize("written", ["4", "0 GPUs", "9999 GPUs", "4 GPUs; x", "four GPUs"])
def test_other_texts_are_no_number_of_gpus(written: str) -> None:
    """The sentence names the range."""
    with pytest.raises(BadArgument, match="devices was"):
        TRAIN("7B", devices=written)
