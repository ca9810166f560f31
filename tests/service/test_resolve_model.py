"""`/tensors`: its bytes are those of `/estimate_memory`, its table, CSV and picture are its rows; `/dry_run` beside closed forms."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from llama import llama_config
from written import Written, ask

from lib.catalog import load
from lib.errors import BadArgument, UnknownModel, UnsupportedModel
from lib.model import dry_run as executed_here
from lib.present.charts import KIND_COLOURS, draw_tensors, tensor_map_head
from lib.present.tables import dry_run_csv, dry_run_table, tensors_csv, tensors_table
from lib.present.wording import page_note
from lib.service.app import Services
from lib.service.build_process import BuildProcess, build_process, run_process
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.resolve_model import dry_run, stream_dry_run
from lib.ui import fields
from lib.ui.memory_boxes import dry_run_markup, tensors_updates

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MODELS = (
    LLAMA,
    "openai/gpt-oss-20b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "google/gemma-3-4b-it",
    "google-t5/t5-base",
    "openai/whisper-large-v3",
    "deepseek-ai/DeepSeek-V3",
    "stable-diffusion-v1-5/stable-diffusion-v1-5",
    "black-forest-labs/FLUX.1-dev",
)


@pytest.fixture(scope="module")
def real_app() -> Services:
    """The services as the app has them, offline."""
    return Services(App(catalog=load, models=Models()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("precision", ["auto", "fp32", "int8", "bnb-nf4", "fp8", "gguf:Q4_K_M"])
def test_bytes_are_the_estimates(real_app: Services, model: str, precision: str) -> None:
    """One rule gives both: the sum over the tensors is the weights of the estimate, in every precision."""
    asked = {"precision": precision, "engine": "llama.cpp" if precision.startswith("gguf") else "transformers"}
    try:
        memory = Written(real_app).estimate_memory(model, **asked)
    except BadArgument as refused:
        with pytest.raises(BadArgument, match=refused.name):
            Written(real_app).tensors(model, **asked)
        return
    answer = Written(real_app).tensors(model, **asked)
    sizes = [tensor["bytes"] for tensor in answer["tensors"]]
    assert sum(sizes) == answer["weights_bytes"] == memory["weights_bytes"]
    assert sum(tensor["parameters"] for tensor in answer["tensors"]) == answer["parameters_total"]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(tensor["share"] for tensor in answer["tensors"]) == pytest.approx(1, abs=1e-3)
    assert {tensor["kind"] for tensor in answer["tensors"]} <= KIND_COLOURS.keys()
    memory_parts = next(part for part in memory["parts"] if part["name"] == "weights")["details"]
    by_component = dict.fromkeys(memory_parts, 0)
    for tensor in answer["tensors"]:
        by_component[tensor["component"]] += tensor["bytes"]
    assert by_component == memory_parts


def test_a_denoiser_alone_is_quantized(real_app: Services) -> None:
    """As in `/estimate_memory`, where text encoders can stay as they are."""
    asked = {"precision": "bnb-nf4", "quantized": "denoiser"}
    answer = Written(real_app).tensors(MODELS[-1], **asked)
    assert answer["weights_bytes"] == Written(real_app).estimate_memory(MODELS[-1], **asked)["weights_bytes"]
    assert answer["weights_bytes"] > Written(real_app).tensors(MODELS[-1], precision="bnb-nf4")["weights_bytes"]


def test_a_tensor_by_hand(real_app: Services) -> None:
    """Llama 3.1 8B: 32 matrices of 4096 × 14336 in two bytes each are 3.5 GiB."""
    answer = Written(real_app).tensors(LLAMA)
    down = next(tensor for tensor in answer["tensors"] if tensor["name"].endswith("down_proj.weight"))
    assert down["bytes"] == 32 * 4096 * 14336 * 2
    assert (down["component"], down["block"], down["shape"], down["count"]) == ("language_model", "mlp", [4096, 14336], 32)


def test_a_count_has_no_tensors(real_app: Services) -> None:
    """The sentence says so, and what is accepted."""
    with pytest.raises(BadArgument, match="a parameter count alone has no tensors"):
        Written(real_app).tensors("7B")


def test_rows_and_picture(real_app: Services) -> None:
    """Every tensor is a row of the table and of the CSV and a tile; a tile is as large as what it holds."""
    answer = real_app.tensors("google/gemma-3-4b-it")
    rows = list(csv.DictReader(io.StringIO(tensors_csv(answer))))
    assert len(rows) == len(answer.tensors) == tensors_table(answer, "gemma").count('<tr role="row">') - 1
    assert [int(row["bytes"]) for row in rows] == [tensor.bytes for tensor in answer.tensors]
    assert rows[0]["shape"] == "x".join(map(str, answer.tensors[0].shape))
    tiles = draw_tensors(answer, "gemma").data[0]
    size = dict(zip(tiles.ids, tiles.values, strict=True))
    held = dict.fromkeys(size, 0)
    for tile, parent in zip(tiles.ids, tiles.parents, strict=True):
        if parent:
            held[parent] += size[tile]
    assert size[tiles.ids[0]] == answer.weights_bytes
    assert all(within in (0, size[tile]) for tile, within in held.items())
    assert sum(1 for within in held.values() if not within) == len(rows)
    assert "Embeddings" in tensor_map_head(answer)
    assert "Routed experts" not in tensor_map_head(answer)


def test_the_box(real_app: Services) -> None:
    """It follows the estimate's precision; without a model and for a count it is a sentence."""

    def updates(model: str, **arguments: str) -> dict[str, Any]:
        return tensors_updates(lambda *_: arguments, real_app, model, ())

    shown = updates(LLAMA, precision="bnb-nf4")
    assert shown["chart"] is not None
    assert "Matrices" in shown["head"]
    assert "bnb-nf4" in shown["table"]
    assert page_note("name_model:tensors") in updates("")["head"]
    assert "has no tensors" in updates("7B")["head"]


class Here:
    """In place of the child: this process."""

    def __call__(self, function: Callable[..., Any], *arguments: object, given_up: threading.Event | None = None) -> Any:  # noqa: ARG002 the child's
        """What the function returns."""
        assert executed_here  # imported ahead: a busy machine takes longer for that than a visitor waits
        return function(*arguments)


APP = App(catalog=load, models=Models(cast("BuildProcess", Here())))
QUESTION = ask(dry_run, APP)
LLAMA_CONFIG = json.dumps(llama_config(num_hidden_layers=6))


class Held(Here):
    """A dry run that goes on for as long as its test likes."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self, function: Callable[..., Any], *arguments: object, given_up: threading.Event | None = None) -> Any:
        """Wait for the test."""
        self.given_up = given_up
        self.begun.set()
        assert self.over.wait(60)
        return super().__call__(function, *arguments)


def test_nobodys_unseen_model_waits_for_a_dry_run() -> None:
    """A run has a process of its own: one stranger's long ones keep no build waiting."""
    assert run_process() is not build_process()
    run = Held()
    models = Models(cast("BuildProcess", Here()), run=cast("BuildProcess", run))
    with ThreadPoolExecutor() as pool:
        held = pool.submit(models.execute, LLAMA_CONFIG, 1, 8, 8, None)
        assert run.begun.wait(60)
        assert models(json.dumps(llama_config(num_hidden_layers=7))).layer_kinds == {"full attention": 7}
        assert not held.done()
        run.over.set()
        assert held.result(60).layers == 6


def test_stop_gives_the_run_up_unless_somebody_else_waits_for_it() -> None:
    """Gradio closes the stream of the visitor who presses Stop."""
    run = Held()
    services = Services(App(catalog=load, models=Models(cast("BuildProcess", Here()), run=cast("BuildProcess", run))))
    own, others = (services[stream_dry_run](LLAMA_CONFIG, prompt_tokens=8) for _ in range(2))
    assert next(own) is None
    assert next(others) is None
    assert run.begun.wait(60)
    assert run.given_up is not None
    own.close()
    assert not run.given_up.is_set()
    others.close()
    assert run.given_up.is_set()
    run.over.set()


def _ratios(answer: Any) -> dict[str, float | None]:
    return {figure["name"]: figure["ratio"] for figure in answer["figures"]}


def test_closed_forms_beside_the_executed_architecture() -> None:
    """Weights, cache and peak within a percent, FLOP within three (norms count as parameters there and as no product here)."""
    answer = QUESTION(LLAMA_CONFIG, prompt_tokens=300, output_tokens=40, batch_size=2)
    ratios = _ratios(answer)
    for name in ("parameters", "weights and buffers", "cache at the end", "activations of the prompt", "peak"):
        assert ratios[name] == pytest.approx(1, abs=0.01), name
    for name in ("prefill", "decode step"):
        assert ratios[name] == pytest.approx(1, abs=0.03), name
    assert (answer["layers"], answer["layers_run"]) == (6, 4)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.parametrize(("name", "batch", "tokens"), [("google/gemma-3-1b-it", 16, 256), ("microsoft/deberta-v3-base", 4, 200)])
def test_activations_of_prompts_below_a_window_and_of_collected_states(name: str, batch: int, tokens: int) -> None:
    """Gemma 3's window is 512; DeBERTa's encoder keeps the hidden states of all layers until it is done."""
    ratios = _ratios(QUESTION(name, prompt_tokens=tokens, output_tokens=1, batch_size=batch))
    assert ratios["activations of the prompt"] == pytest.approx(1, abs=0.01)


def test_a_training_step() -> None:
    """States and saved activations of LoRA, which trains 4 · (in + out) of each matrix: 8192 in two layers, 24,576 in six."""
    answer = QUESTION(LLAMA_CONFIG, prompt_tokens=64, mode="lora", rank=4)
    executed = {figure["name"]: figure["executed"] for figure in answer["figures"]}
    assert (executed["trained parameters"], executed["gradients"]) == (24_576, 4 * 24_576)
    assert 0 < executed["saved activations"] < executed["peak"] == answer["peak_bytes"]
    ratios = {figure["name"]: figure["ratio"] for figure in answer["figures"]}
    for name in ("trained parameters", "weights and buffers", "gradients", "optimizer states", "peak"):
        assert ratios[name] == pytest.approx(1, abs=0.05)


def test_a_training_step_of_a_model_that_hears() -> None:
    """Whisper keeps its encoder's 30 seconds in every step, whatever the length of the answer; the states have closed forms."""
    tiny = {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64, "encoder_layers": 4,
        "decoder_layers": 4, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
        "vocab_size": 1000, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448, "pad_token_id": 0,
    }  # fmt: skip
    short, long = (
        {figure["name"]: figure for figure in QUESTION(json.dumps(tiny), prompt_tokens=tokens, mode="full", checkpointing=False)["figures"]}
        for tokens in (16, 160)
    )
    for name in ("trained parameters", "weights and buffers", "gradients", "optimizer states"):
        assert long[name]["ratio"] == pytest.approx(1, abs=0.05)
    saved = [figures["saved activations"]["executed"] for figures in (short, long)]
    assert saved[0] < saved[1] < 1.3 * saved[0]


def test_a_closed_form_that_differs_says_so() -> None:
    """Without checkpoints gelu_new is written out in several operations; a plain Llama has nothing to say."""
    gpt2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 128, "n_layer": 6, "n_head": 4, "vocab_size": 1000}
    low, plain = (QUESTION(model, prompt_tokens=256, mode="lora", checkpointing=False) for model in (json.dumps(gpt2), LLAMA_CONFIG))
    said = [[caveat["code"] for caveat in answer["caveats"]] for answer in (low, plain)]
    assert "dry_run_too_low" in said[0]
    assert "dry_run_too_low" not in said[1]


@pytest.mark.parametrize(
    ("model", "asked", "refusal"),
    [
        ("7B", {}, UnknownModel),
        (LLAMA_CONFIG, {"batch_size": 0}, BadArgument),
        (LLAMA_CONFIG, {"prompt_tokens": 2048}, BadArgument),
        (LLAMA_CONFIG, {"mode": "lora", "rank": 65}, BadArgument),
        ("google/vit-base-patch16-224", {"mode": "full"}, UnsupportedModel),
        ("stabilityai/stable-diffusion-xl-base-1.0", {}, UnsupportedModel),
    ],
)
def test_what_cannot_be_executed_is_said(model: str, asked: dict[str, Any], refusal: type[Exception]) -> None:
    """A sentence, with what is accepted."""
    with pytest.raises(refusal):
        QUESTION(model, **asked)


def test_the_box_of_the_page() -> None:
    """It says that it runs, then shows the table; a refusal is a sentence in its place."""
    services = Services(APP)
    values = [100 if field.argument == "context_tokens" else field.default for field in (*fields.QUESTION, *fields.MEMORY)]
    *running, table = dry_run_markup(services, LLAMA_CONFIG, values)
    assert all("executing" in shown for shown in running)
    assert "4 of 6 layers computed" in table
    assert "refusal" in list(dry_run_markup(services, "7B", values))[-1]
    assert len(list(dry_run_markup(services, "", values))) == 1


def test_every_figure_is_in_the_table_and_in_the_csv() -> None:
    """One row each."""
    answer = bind_arguments(dry_run, APP)(LLAMA_CONFIG, prompt_tokens=32)
    rows = dry_run_csv(answer).splitlines()
    assert rows[0] == "figure,unit,executed,closed_form,ratio"
    assert len(rows) == 1 + len(answer.figures) == dry_run_table(answer).count('<tr role="row">')
