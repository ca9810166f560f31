"""Scripts for datasets run as they are written, offline, on tiny models; the vLLM one is parsed."""

from __future__ import annotations

import ast
import json
import shlex
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tiny_chat
import tiny_models
from commands import NASTY, parse_words
from huggingface_hub.cli.hf import app as hf
from packaging.requirements import Requirement
from run_scripts import run_python

from lib.present.app_files import AppPlace, find_kind, load_kinds
from lib.present.batch_files import batch_job, write_batch
from lib.present.snippets import Start

MODEL = "ada/tiny"
RUNS: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "answer prompts": ("text-generation", partial(tiny_chat.save, max_position_embeddings=4096), "a Llama of 4 layers"),
    "embed texts": ("feature-extraction", partial(tiny_models.save_embedder, pooling="cls"), "a BERT (first token)"),
}


def script(name: str, model: str = MODEL, *, gated: bool = False) -> str:
    """The script of a row, for a processor or, of vLLM, for a card."""
    kind = next(kind for kind in load_kinds().batches if kind.name == name)
    engine = kind.engines[0]
    place = AppPlace(precision="fp32", engine=engine, where="cpu" if engine == "transformers" else "gpu", answer_tokens=4, gated=gated)
    made = write_batch(kind, model, place, Start(precision="fp32", sequences=2, context_tokens=256))
    assert made is not None
    return made.text


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_script_works_through_a_dataset(tmp_path: Path, name: str) -> None:
    """Three rows in batches of two: each gets its answer or vector, and keeps its other columns; a prompt's answer is the same alone."""
    task, save, _ = RUNS[name]
    kind = find_kind(task, "transformers", kinds=load_kinds().batches)
    assert kind is not None
    save(tmp_path / MODEL)
    (tmp_path / "batch.py").write_text(script(name), encoding="utf-8")
    rows = [{"id": at, kind.column: text} for at, text in enumerate(("Hello", "A longer one, which the others are padded to", "Ada"))]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for limit in ([], ["--limit", "1"]):
        run_python(tmp_path, "batch.py", "rows.jsonl", f"made{len(limit)}.jsonl", *limit)
    whole, first = ([json.loads(line) for line in (tmp_path / f"made{n}.jsonl").read_text().splitlines()] for n in (0, 2))
    (new,) = whole[0].keys() - rows[0].keys()
    assert [{key: row[key] for key in rows[0]} for row in whole] == rows
    assert all(row[new] for row in whole)
    assert len(first) == 1
    assert first[0][new] == (pytest.approx(whole[0][new], abs=1e-4) if new == "embedding" else whole[0][new])


def test_the_rows_say_what_is_executed() -> None:
    """`tested_with` names the models of `RUNS`; the others are parsed."""
    for kind in load_kinds().batches:
        assert kind.tested_with == (f"executed: {RUNS[kind.name][2]} with random weights" if kind.name in RUNS else "parsed")


@pytest.mark.parametrize("name", [kind.name for kind in load_kinds().batches])
@pytest.mark.parametrize("model", [MODEL, *NASTY])
def test_a_script_is_python_whose_head_lists_what_it_imports(name: str, model: str) -> None:
    """Uv reads the head; every import is listed with its release; a hostile name is one literal and changes no statement."""
    text, plain = script(name, model, gated=True), script(name, gated=True)
    head = tomllib.loads("".join(line[2:] + "\n" for line in text.partition("# ///\n")[0].splitlines()[1:]))
    listed = {Requirement(line).name.replace("-", "_") for line in head["dependencies"]}
    nodes = [*ast.walk(ast.parse(text))]
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in imports if name not in sys.stdlib_module_names} == listed
    assert [type(node) for node in nodes] == [type(node) for node in ast.walk(ast.parse(plain))]
    assert any(isinstance(node, ast.Constant) and node.value == model for node in nodes)


def test_the_vllm_script_has_the_settings_of_the_server() -> None:
    """Length, sequences, devices and share are keywords of `LLM`, as the server's options name them."""
    tree = ast.parse(script("answer prompts with vLLM"))
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LLM")
    assert {key.arg: ast.literal_eval(key.value) for key in call.keywords} == {
        "max_model_len": 256, "max_num_seqs": 2, "tensor_parallel_size": 1, "gpu_memory_utilization": 0.9, "dtype": "float32",
    }  # fmt: skip


@pytest.mark.parametrize("image", [None, "vllm/vllm-openai:v0.33.0"])
def test_the_job_is_a_command_of_the_client(image: str | None) -> None:
    """The installed client's parser reads flavor, image, script and its two arguments."""
    _, read = parse_words(hf, shlex.split(batch_job("l4x1", image))[1:])
    assert (str(read["flavor"]), read["image"], read["script"]) == ("l4x1", image, "batch.py")
    assert len(read["script_args"]) == 2
