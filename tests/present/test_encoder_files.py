"""Training scripts of embedding models, rerankers and classifiers take two steps as they are written, offline, and go on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_chat
import tiny_models
from run_scripts import ROWS, run_script

from lib.present.training_files import list_scripts, load_recipes, training_script
from lib.request.objectives import OBJECTIVE_TRAITS, Objective, PairsRequest
from lib.workload import TrainingRequest

MODEL = "ada/tiny"
CPU = TrainingRequest(
    precision="fp32", checkpointing="layers", sequence_tokens=64, rank=4, micro_batch=2, stack="transformers", packing=False
)
EXECUTED = "executed: a BERT of 2 layers with random weights, two steps"
TEXTS = [{"about": f"Question {at}", "answer": f"Answer {at}", "wrong": f"Nonsense {at}", "label": at % 2} for at in range(12)]
ENCODERS = tuple(name for name in load_recipes() if OBJECTIVE_TRAITS[name].trainer != "trl")


def save_bert(folder: Path) -> None:
    """An embedding model."""
    tiny_models.save_embedder(folder, "cls")


def save_scorer(folder: Path) -> None:
    """An encoder with one score."""
    tiny_models.save_classifier(folder, labels=1)


def save_causal(folder: Path) -> None:
    """A decoder whose tokenizer has "yes" and "no"."""
    tiny_chat.save(folder, endless=False, vocab_size=264)
    words = tiny_chat.tokenizer()
    words.add_tokens(["yes", "no"])
    words.save_pretrained(folder)


def write_rows(folder: Path, *columns: str) -> None:
    """These columns of the texts, as JSON lines."""
    lines = [json.dumps({name: row[name] for name in columns}) for row in TEXTS]
    (folder / ROWS).write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "objective", "method", "negatives", "columns"),
    [
        (save_bert, "contrastive", "full", 0, "about answer label"),
        (save_bert, "contrastive", "lora", 1, "about answer wrong"),
        (save_bert, "contrastive-cached", "lora", 1, "about answer wrong"),
        (save_scorer, "rerank", "lora", 1, "about answer wrong"),
        (save_causal, "rerank", "lora", 1, "about answer wrong"),
        (save_scorer, "rerank", "full", 0, "about answer label"),
        (save_scorer, "classify", "full", 0, "about label"),
        (save_scorer, "classify", "lora", 0, "about label"),
    ],
)
def test_a_script_trains_two_steps(
    tmp_path: Path, save: Callable[[Path], object], objective: Objective, method: Any, negatives: int, columns: str
) -> None:
    """The result is on disk after two steps, with its head; an adapter is one, and goes on from its checkpoint."""
    save(tmp_path / MODEL)
    asked = replace(CPU, objective=objective, method=method, pairs=PairsRequest(negatives=negatives, cached_batch=1))
    (tmp_path / "train.py").write_text(training_script(MODEL, asked, fused=False, epochs=1), encoding="utf-8")
    write_rows(tmp_path, *columns.split())
    named = ["--columns", "about,answer"] if objective == "contrastive" and not negatives else []
    adds = method == "lora" and objective != "classify"
    run_script(tmp_path, "--steps", "2", *named, adds_adapter=adds)
    names = {path.name for path in (tmp_path / "out").rglob("*") if "checkpoint" not in str(path)}
    assert ("adapter_config.json" in names) == (method == "lora")
    assert ("model.safetensors" in names) == (method == "full")
    state = json.loads(next((tmp_path / "out").glob("checkpoint-2/trainer_state.json")).read_text(encoding="utf-8"))
    assert state["global_step"] == 2
    assert "going on from out/checkpoint-2" in run_script(tmp_path, "--steps", "3", "--resume", *named, adds_adapter=adds)
    assert {path.name for path in (tmp_path / "out").glob("checkpoint-*")} == {"checkpoint-3"}


def test_each_objective_of_encoders_is_trained_here() -> None:
    """The rows say so, and a decoder gets scripts of other objectives too."""
    assert {name: load_recipes()[name].tested_with for name in ENCODERS} == dict.fromkeys(ENCODERS, EXECUTED)
    assert list_scripts("text encoder") == ENCODERS == ("contrastive", "contrastive-cached", "rerank", "classify")
    assert set(list_scripts("decoder")) == {"sft", "dpo", "reward", "orpo", "grpo", "rerank", "classify"}
    assert list_scripts("speech") == ()


def test_sizes_of_the_request_are_in_the_script() -> None:
    """Negatives are columns of text, or pairs with a label; a reranker's micro-batch counts each of its pairs."""
    asked = replace(CPU, micro_batch=8, pairs=PairsRequest(negatives=3, cached_batch=4))
    pairs, cached, rerank = (
        training_script(MODEL, replace(asked, objective=name), fused=False, epochs=1)  # type: ignore[arg-type]
        for name in ("contrastive", "contrastive-cached", "rerank")
    )
    assert ("NEGATIVES = 3" in pairs, "per_device_train_batch_size=8" in pairs, "mini_batch_size" in pairs) == (True, True, False)
    assert "mini_batch_size=4" in cached
    assert ("per_device_train_batch_size=32" in rerank, "sql-questions:mined-negative" in rerank) == (True, True)
    accelerated = training_script(MODEL, replace(asked, objective="contrastive", devices=2, sharding="ddp"), fused=False, epochs=1)
    assert "MULTI_GPU" in accelerated


def test_hard_negatives_have_a_dataset_with_their_columns_or_are_asked_for() -> None:
    """The example has a column for each; a script with more says which columns it wants before it loads anything."""
    scripts = {
        number: training_script(MODEL, replace(CPU, objective="contrastive", pairs=PairsRequest(negatives=number)), fused=False, epochs=1)
        for number in (1, 10, 11)
    }
    assert ("all-nli:triplet" in scripts[1], "sql-questions:mined-negative" in scripts[10]) == (True, True)
    assert 'WANTED = "13 columns of text: a query and its answer, and 11 hard negatives, texts that do not answer it"' in scripts[
        11
    ].replace("'", '"')
    assert ("if not asked.dataset:" in scripts[11], "if not asked.dataset:" in scripts[10]) == (True, False)
