"""`/tensors`: its bytes are those of `/estimate_memory`, for every kind of model; its table, its CSV and its picture are its rows."""

import csv
import io

import pytest

from lib.catalog import load
from lib.errors import BadArgument
from lib.present.memory_charts import KIND_COLOURS, draw_tensors, tensor_map_head
from lib.present.model_rows import tensors_csv, tensors_table
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.ui.memory_boxes import CHOOSE_FOR_TENSORS, TENSORS_OF_INFERENCE, tensors_updates

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
def whole() -> Services:
    """The services as the app has them, offline."""
    return Services(App(catalog=load, models=Models()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("precision", ["auto", "fp32", "int8", "bnb-nf4", "fp8", "gguf:Q4_K_M"])
def test_bytes_are_the_estimates(whole: Services, model: str, precision: str) -> None:
    """One rule gives both: the sum over the tensors is the weights of the estimate, in every precision."""
    asked = {"precision": precision, "engine": "llama.cpp" if precision.startswith("gguf") else "transformers"}
    try:
        memory = whole.estimate_memory(model, **asked)
    except BadArgument as refused:
        with pytest.raises(BadArgument, match=refused.name):
            whole.tensors(model, **asked)
        return
    answer = whole.tensors(model, **asked)
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


def test_a_denoiser_alone_is_quantized(whole: Services) -> None:
    """As in `/estimate_memory`, where text encoders can stay as they are."""
    asked = {"precision": "bnb-nf4", "quantized": "denoiser"}
    answer = whole.tensors(MODELS[-1], **asked)
    assert answer["weights_bytes"] == whole.estimate_memory(MODELS[-1], **asked)["weights_bytes"]
    assert answer["weights_bytes"] > whole.tensors(MODELS[-1], precision="bnb-nf4")["weights_bytes"]


def test_a_tensor_by_hand(whole: Services) -> None:
    """Llama 3.1 8B: 32 matrices of 4096 × 14336 in two bytes each are 3.5 GiB."""
    answer = whole.tensors(LLAMA)
    down = next(tensor for tensor in answer["tensors"] if tensor["name"].endswith("down_proj.weight"))
    assert down["bytes"] == 32 * 4096 * 14336 * 2
    assert (down["component"], down["block"], down["shape"], down["count"]) == ("language_model", "mlp", [4096, 14336], 32)


def test_a_count_has_no_tensors(whole: Services) -> None:
    """The sentence says so, and what is accepted."""
    with pytest.raises(BadArgument, match="a parameter count alone has no tensors"):
        whole.tensors("7B")


def test_rows_and_picture(whole: Services) -> None:
    """Every tensor is a row of the table and of the CSV and a tile; a tile is as large as what it holds."""
    answer = whole.tensors("google/gemma-3-4b-it")
    rows = list(csv.DictReader(io.StringIO(tensors_csv(answer))))
    assert len(rows) == len(answer["tensors"]) == tensors_table(answer, "gemma").count('<tr role="row">') - 1
    assert [int(row["bytes"]) for row in rows] == [tensor["bytes"] for tensor in answer["tensors"]]
    assert rows[0]["shape"] == "x".join(map(str, answer["tensors"][0]["shape"]))
    tiles = draw_tensors(answer, "gemma").data[0]
    size = dict(zip(tiles.ids, tiles.values, strict=True))
    held = dict.fromkeys(size, 0)
    for tile, parent in zip(tiles.ids, tiles.parents, strict=True):
        if parent:
            held[parent] += size[tile]
    assert size[tiles.ids[0]] == answer["weights_bytes"]
    assert all(within in (0, size[tile]) for tile, within in held.items())
    assert sum(1 for within in held.values() if not within) == len(rows)
    assert "Embeddings" in tensor_map_head(answer)
    assert "Routed experts" not in tensor_map_head(answer)


def test_the_box(whole: Services) -> None:
    """It follows the estimate's precision; without a model, in training and for a count it is a sentence."""
    head, figure, table = tensors_updates(whole, LLAMA, lambda *_: {"mode": "inference", "precision": "bnb-nf4"}, ())
    assert figure is not None
    assert "Matrices" in head
    assert "bnb-nf4" in table
    assert CHOOSE_FOR_TENSORS in tensors_updates(whole, "", lambda *_: {}, ())[0]
    assert TENSORS_OF_INFERENCE in tensors_updates(whole, LLAMA, lambda *_: {"mode": "lora"}, ())[0]
    assert "has no tensors" in tensors_updates(whole, "7B", lambda *_: {"mode": "inference"}, ())[0]
