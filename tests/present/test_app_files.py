"""app.py of each kind: it runs as it is written on a tiny model, imports what its requirements list, and pools as the model does."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tiny_chat
import tiny_models
import torch
from commands import NASTY
from PIL import Image

from lib.model import bundled
from lib.precision import list_formats
from lib.present import templates
from lib.present.app_files import AppPlace, FileKind, Picture, find_kind, gguf_pattern, load_kinds, picture_of, write_app
from lib.workload import AS_THE_PIPELINE

MODEL = "ada/tiny"
CPU = AppPlace(precision="fp32", where="cpu", answer_tokens=8, picture=Picture(width=32, height=16, steps=2, guided=True))
TEXT, LONGER = "Ada", "Ada wrote notes."


class Run(NamedTuple):
    """A kind of app, the model that it is run with, and one call."""

    kind: str
    task: str
    model: str
    save: Callable[[Path], Path]
    function: str
    arguments: tuple[Any, ...]


PICTURE = "picture.png"
TURNS = [
    {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
]
SEEN = [{"role": "user", "content": [{"type": "file", "file": {"path": PICTURE}}, {"type": "text", "text": "What?"}]}]
RUNS = {
    "chat": Run(
        "chat", "text-generation", "a Llama of 4 layers", partial(tiny_chat.save, max_position_embeddings=4096), "answer", ("And?", TURNS)
    ),
    "see": Run(
        "chat about pictures", "image-text-to-text", "a LLaVA of 2 layers", tiny_models.save_llava, "answer",
        ({"text": "And this?", "files": [PICTURE]}, SEEN),
    ),
    "cls": Run(
        "embed", "feature-extraction", "a BERT (first token) and a Qwen3 (last token) of 2 layers",
        partial(tiny_models.save_embedder, pooling="cls"), "embed", (LONGER, "query"),
    ),
    "last": Run(
        "embed", "sentence-similarity", "a BERT (first token) and a Qwen3 (last token) of 2 layers",
        partial(tiny_models.save_embedder, pooling="lasttoken"), "embed", (LONGER, "document"),
    ),
    "rank": Run(
        "rank", "text-ranking", "a BERT of 2 layers", partial(tiny_models.save_classifier, labels=1), "rank",
        ("Who?", f"{TEXT}\n\n{LONGER}"),
    ),
    "classify": Run(
        "classify", "text-classification", "a BERT of 2 layers", partial(tiny_models.save_classifier, labels=3), "classify", (TEXT,)
    ),
    "hear": Run(
        "transcribe", "automatic-speech-recognition", "a Whisper of 2 layers", tiny_models.save_whisper, "transcribe",
        ({"seconds": 40, "rate": 44_100},),
    ),
    "draw": Run("draw", "text-to-image", "a Stable Diffusion of 2 blocks", tiny_models.save_painter, "draw", ("A cat", 7)),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Each app's answer and its folder, where the model's id is a folder, as the libraries read it offline."""
    folder = tmp_path_factory.mktemp("apps")
    calls = []
    for name, run in RUNS.items():
        run.save(folder / name / MODEL)
        Image.new("RGB", (20, 12), "red").save(folder / name / PICTURE)
        made = write_app(run.task, MODEL, CPU)
        assert made is not None
        (folder / name / "app.py").write_text(made.text, encoding="utf-8")
        calls.append({"folder": str(folder / name), "function": run.function, "arguments": run.arguments})
    (folder / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRADIO_", "HF_", "SPACE"))}
    runner = Path(__file__).parents[1] / "support" / "run_apps.py"
    done = subprocess.run(
        [sys.executable, str(runner), str(folder / "calls.json"), str(folder / "results.json")],
        env=kept | {"HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {name: (folder / name, result) for name, result in zip(RUNS, found, strict=True)}


@pytest.mark.slow
def test_every_app_answers(results: dict[str, tuple[Path, Any]]) -> None:
    """Text of chats and sound, an order of documents, shares that add up, and a picture of the size asked for."""
    answers = {name: result for name, (_, result) in results.items()}
    assert all(isinstance(answers[name], str) and answers[name] for name in ("chat", "see"))
    assert isinstance(answers["hear"], str)
    assert sorted(text for _, text in answers["rank"]) == [TEXT, LONGER]
    assert answers["rank"][0][0] >= answers["rank"][1][0]
    assert sum(answers["classify"].values()) == pytest.approx(1, abs=1e-5)
    assert answers["draw"] == [32, 16]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "token"), [("cls", 0), ("last", -1)])
def test_vectors_are_pooled_as_the_model_says(results: dict[str, tuple[Path, Any]], name: str, token: int) -> None:
    """The vector is that of the first or of the last token, and is not the mean over the tokens."""
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415  slow

    folder, vector = results[name]
    model = AutoModel.from_pretrained(folder / f"{MODEL}-body").eval()
    with torch.inference_mode():
        states = model(**AutoTokenizer.from_pretrained(folder / f"{MODEL}-body")(LONGER, return_tensors="pt")).last_hidden_state[0]
    assert torch.allclose(torch.tensor(vector), states[token], atol=1e-5)
    assert not torch.allclose(torch.tensor(vector), states.mean(0), atol=1e-2)


def test_the_rows_say_what_is_executed() -> None:
    """`tested_with` names the models of `RUNS`; an app that is not among them is parsed only."""
    executed = {run.kind: f"executed: {run.model} with random weights" for run in RUNS.values()}
    assert {kind.name: kind.tested_with for kind in load_kinds().apps} == {
        kind.name: executed.get(kind.name, "parsed") for kind in load_kinds().apps
    }
    assert executed.keys() <= {kind.name for kind in load_kinds().apps}


PLACES = [
    CPU,
    replace(CPU, gated=True),
    replace(CPU, where="lent gpu", precision="bf16", size="xlarge", duration_s=33),
    replace(CPU, engine="llama.cpp", precision="gguf:Q4_K_M"),
    *(
        replace(CPU, precision=name, where="gpu", devices=devices, on_load=name in load_kinds().on_load)
        for name in list_formats("transformers")
        for devices in (1, 2)
    ),
]
TASKS = [kind.tasks[0] for kind in load_kinds().apps]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.where}-{place.precision}-{place.devices}")
def test_an_app_is_python_and_its_packages_are_what_it_imports(place: AppPlace) -> None:
    """It compiles; what it imports is listed; what is listed besides is what loads the weights. Names of transformers exist."""
    import diffusers  # noqa: PLC0415  slow
    import transformers  # noqa: PLC0415  slow

    written = 0
    for task in TASKS:
        made = write_app(task, MODEL, place)
        if made is None:
            continue
        written += 1
        tree = ast.parse(made.text)
        imports: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imports |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imports.add(str(node.module))
                if node.module in {"transformers", "diffusers"}:
                    assert all(hasattr({"transformers": transformers, "diffusers": diffusers}[node.module], n.name) for n in node.names)
        names = {name.replace("-", "_") for name in made.packages}
        needed = {name for name in imports if name not in sys.stdlib_module_names} - {"gradio", "spaces"}
        assert needed <= {"llama_cpp" if name == "llama_cpp_python" else name for name in names}
        loads = {"accelerate", "bitsandbytes", "kernels", "gptqmodel", "compressed_tensors", "torch", "torchvision", "transformers"}
        assert names - needed - {"llama_cpp_python"} <= loads
        assert ("spaces" in imports) == ("@spaces.GPU(" in made.text) == (place.where == "lent gpu")
        assert ('os.environ.get("HF_TOKEN")' in made.text) == place.gated
        if place.where == "lent gpu":
            assert '@spaces.GPU(duration=33, size="xlarge")' in made.text
        for name in re.findall(r"\b(torch|numpy|scipy|math|threading|os)\.", made.text):
            assert re.search(rf"^import {name}\b", made.text, re.MULTILINE)
    assert written >= 1


def test_what_has_no_app() -> None:
    """Other tasks, models of other classes, files of another engine, and what has to be quantized on a card while ZeroGPU starts."""
    assert write_app("text-to-video", MODEL, CPU) is None
    assert write_app("automatic-speech-recognition", MODEL, replace(CPU, model_type="voxtral")) is None
    assert write_app("text-generation", MODEL, replace(CPU, precision="gguf:Q8_0")) is None
    assert write_app("text-generation", MODEL, replace(CPU, precision="bnb-nf4", where="lent gpu", on_load=True)) is None
    assert write_app("text-to-image", MODEL, replace(CPU, picture=None)) is None
    assert find_kind("text-to-image", "vllm") is None


def test_a_distilled_pipeline_is_asked_as_its_card_says() -> None:
    """FLUX.1-schnell: four steps without guidance at the size of its class; FLUX.1-dev keeps the guidance of its class."""
    schnell, dev = (bundled.find_spec(f"black-forest-labs/FLUX.1-{name}") for name in ("schnell", "dev"))
    assert schnell is not None
    assert dev is not None
    quick, slow = picture_of(schnell, AS_THE_PIPELINE), picture_of(dev, AS_THE_PIPELINE)
    assert quick is not None
    assert slow is not None
    assert (quick.steps, quick.guided, quick.width) == (4, False, 1024)
    assert (slow.steps, slow.guided, slow.quantized) == (28, True, ("transformer", "text_encoder", "text_encoder_2"))
    text = write_app("text-to-image", MODEL, replace(CPU, where="gpu", precision="bnb-nf4", on_load=True, picture=quick))
    assert text is not None
    assert "guidance_scale=0.0" in text.text
    assert "num_inference_steps=4," in text.text
    assert 'quant_kwargs={"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}' in text.text


def test_a_gguf_file_is_named_or_found() -> None:
    """A quantization is a pattern that takes capitals or not; the name of a file is its own."""
    from fnmatch import fnmatchcase  # noqa: PLC0415  only here

    assert fnmatchcase("qwen3-8b-q4_k_m.gguf", gguf_pattern("Q4_K_M"))
    assert fnmatchcase("Qwen3-8B-Q4_K_M.gguf", gguf_pattern("Q4_K_M"))
    assert not fnmatchcase("Qwen3-8B-Q4_K_S.gguf", gguf_pattern("Q4_K_M"))
    assert gguf_pattern("sub/m-Q8_0.gguf") == "sub/m-Q8_0.gguf"


@pytest.mark.parametrize("kind", load_kinds().apps, ids=lambda kind: kind.name)
@pytest.mark.parametrize("model", [*NASTY, "a/b:c\"'; import os #.gguf"])
def test_a_hostile_name_stays_one_literal(kind: FileKind, model: str) -> None:
    """The app has the statements that it has for a harmless name; the name is literals in it, of a GGUF file its repository and file."""
    place = replace(CPU, engine=kind.engines[0], precision="gguf:Q4_K_M" if kind.engines[0] == "llama.cpp" else "fp32")
    made, plain = write_app(kind.tasks[0], model, place), write_app(kind.tasks[0], MODEL, place)
    assert made is not None
    assert plain is not None
    nodes, expected = ([*ast.walk(ast.parse(text.text))] for text in (made, plain))
    assert [type(node) for node in nodes] == [type(node) for node in expected]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    assert model in constants or {model.partition(":")[0], gguf_pattern(model.partition(":")[2] or "Q4_K_M")} <= {*constants}


@pytest.mark.parametrize(
    "source", ["{{ text }}", "{{ text|upper }}", "{{ 'a' ~ text }}", "{{ missing|py }}", "{% if missing %}{% endif %}"]
)
def test_a_template_that_quotes_nothing_is_refused(source: str) -> None:
    """A text without a filter, and a value that nobody gave, end the rendering."""
    from jinja2 import UndefinedError  # noqa: PLC0415  only here

    with pytest.raises((TypeError, UndefinedError)):
        templates._environment().from_string(source).render(text='"; import os')


def test_every_template_is_used() -> None:
    """No template lies around: each is named by a row, by another template or in the code."""
    folder = templates.FOLDER
    places = (*folder.glob("*.j2"), *Path("lib/data").glob("*.json"), *Path("lib").rglob("*.py"))
    named = "".join(path.read_text(encoding="utf-8") for path in places)
    assert [path.name for path in folder.glob("*.j2") if path.name not in named] == []
