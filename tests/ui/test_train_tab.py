"""The tab *Fine-tune*: values in, markup out, with the real services and no network."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import page_values
import pytest

from lib.present.training_cards import COLOURS, LABELS, PARTS
from lib.service.app import Services
from lib.ui import fields as ask
from lib.ui import page, workload
from lib.ui.train_tab import asked_arguments, train_updates

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
DEFAULTS: list[Any] = page_values.fill_form("train")


def fill_form(**named: Any) -> list[Any]:
    """The defaults with some questions answered, by the name in a link."""
    return page_values.fill_form("train", **named)


def arguments_of(**named: Any) -> dict[str, Any]:
    """The tab's own fields as arguments."""
    return asked_arguments(fill_form(**named)[len(ask.QUESTION) :])


@pytest.mark.parametrize("model", [LLAMA, "", "7B", "openai/whisper-large-v3", "{not a config"])
def test_every_model_has_an_answer(real_app: Services, model: str) -> None:
    """With a model, without one, with one that has no loss over tokens, and with nonsense."""
    assert train_updates(real_app, model, DEFAULTS)["need"]


def test_the_card_names_what_holds_the_memory(real_app: Services) -> None:
    """Place, time and cost first; master weights and gradients in full tuning; adapters with LoRA; the script."""
    full = train_updates(real_app, LLAMA, fill_form(method="full"))
    for text in ("Optimizer", "Master weights", "Gradients", "The allocator reserves"):
        assert text in full["need"]
    lora = train_updates(real_app, LLAMA, DEFAULTS)
    assert "Adapters" in lora["need"]
    place, memory = lora["need"].split("<h3")
    assert all(f"<dt>{name}</dt>" in place for name in ("Time", "Cost", "Memory per GPU"))
    assert "Weights" in memory
    assert "Ways to save memory" in lora["options"]
    assert "hf jobs uv run" in lora["recipe"]


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (LLAMA, {"lengths"}),
        ("black-forest-labs/FLUX.1-dev", {"pictures"}),
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", {"pictures", "clips"}),
    ],
)
def test_a_model_is_asked_for_its_own_sizes(real_app: Services, model: str, shown: set[str]) -> None:
    """A length for text, pixels for pictures, frames for clips; sizes that a form kept are not sent for text."""
    updates = train_updates(real_app, model, fill_form(trainwidth=512, trainheight=512))
    visible = {name for name in ("lengths", "pictures", "clips") if updates[name]["visible"]}
    assert visible == shown
    assert "No training estimate" not in updates["need"]
    assert "hf jobs uv run" in updates["recipe"] or "clips" in shown


@pytest.mark.parametrize(
    ("model", "images", "shown"),
    [
        (LLAMA, 2, False),
        ("HuggingFaceTB/SmolVLM-Instruct", 0, False),
        ("HuggingFaceTB/SmolVLM-Instruct", 2, True),
        ("openai/whisper-small", 0, True),
    ],
)
def test_a_tower_is_asked_for_where_examples_pass_one(real_app: Services, model: str, images: int, *, shown: bool) -> None:
    """Pictures are those of the workload; a tower that a form kept is not sent for text."""
    updates = train_updates(real_app, model, fill_form(images=images, tower="yes"))
    assert updates["tower"]["visible"] == shown
    assert "No training estimate" not in updates["need"]
    assert ("Each example" in updates["sources"]) == shown


def test_refusals_are_sentences(real_app: Services) -> None:
    """Modules that the model lacks, an optimizer that the stack lacks, a model without a loss; markup stays text."""
    assert "q_proj" in train_updates(real_app, LLAMA, fill_form(modules="<b>c_attn</b>"))["need"]
    assert "<b>" not in train_updates(real_app, LLAMA, fill_form(modules="<b>c_attn</b>"))["need"]
    assert "Accepted" in train_updates(real_app, LLAMA, fill_form(optimizer="muon"))["need"]
    assert "no loss over tokens" in train_updates(real_app, "mistralai/Voxtral-Mini-3B-2507", DEFAULTS)["need"]


def test_the_form_becomes_arguments() -> None:
    """Emptied fields are their defaults; sharding means two GPUs at least, none means one."""
    assert arguments_of(sharding="zero3")["devices"] == 2
    assert arguments_of(gpus=4)["devices"] == 1
    sent = arguments_of(rank=None, where=[], packing="no")
    assert (sent["rank"], sent["platforms"], sent["packing"]) == (16, "spaces,jobs", False)


@pytest.mark.parametrize("field", [field for field in ask.TRAIN if field.choices], ids=lambda field: field.name)
def test_every_choice_is_one_that_the_api_takes(real_app: Services, field: ask.Field) -> None:
    """No word of the form is refused, with a stack and a model that have it."""
    usual = "black-forest-labs/FLUX.1-dev" if field.name in {"cached", "base"} else LLAMA
    for choice in field.choices:
        value = [choice] if isinstance(field.default, list) else choice
        stack = "axolotl" if choice == "muon" else "trl"
        model = "BAAI/bge-large-en" if str(choice).startswith("contrastive") else usual
        pictures = {}
        if field.name == "tower":
            model, pictures = "HuggingFaceTB/SmolVLM-Instruct", {"images": 1}
        real_app.estimate_training(model, **arguments_of(**{"stack": stack, field.name: value}), **pictures)


def test_a_link_repeats_the_question(real_app: Services) -> None:
    """The page that a link opens has its values in the form, and the tab answers."""
    fields = page_values.fields_of("train")
    values = fill_form(method="qlora", sequence=4096, rank=64, modules="q_proj,v_proj", hardware="RTX-4090", cards=2, ram="64 GB")
    query = workload.link_query("train", LLAMA, fields, values)
    assert query is not None
    params = {name: found[0] for name, found in parse_qs(query[1:]).items()}
    opened = page.answer_link(real_app, params)
    named = {field.name: value for field, value in zip(fields, values, strict=True) if field in ask.TRAIN or field.default != value}
    assert {name: opened[name] for name in named} == named


def test_every_part_has_a_colour_and_a_label() -> None:
    """The bar and the legend name all of them."""
    assert {colour for colour, _ in PARTS.values()} == COLOURS.keys() == LABELS.keys()


def test_nothing_that_does_not_fit_is_called_fitting(real_app: Services) -> None:
    """Where no hardware holds it, card and caption say so, and name what the nearest lacks; one row for twins on two platforms."""
    shown = train_updates(real_app, "meta-llama/Meta-Llama-3.1-405B", fill_form(method="full"))
    assert "Nothing on these platforms fits" in shown["need"]
    assert "128 × H200-SXM" in shown["need"]
    assert "that fit" not in shown["options"]
    assert " GiB short" in shown["options"]
    assert "Spaces or Jobs" in shown["options"]


def test_a_link_to_training_on_memory_opens_this_tab(real_app: Services) -> None:
    """Links of the time when Memory had uses beside inference."""
    opened = page.answer_link(real_app, {"tab": "memory", "mode": "full", "model": LLAMA})
    assert opened["tabs"]["selected"] == "train"
    assert opened["method"] == "full"


@pytest.mark.parametrize("model", [LLAMA, "black-forest-labs/FLUX.1-dev"])
def test_own_cards_come_first_and_have_no_price(real_app: Services, model: str) -> None:
    """The cards that the shared fields name, for text and for pictures; on rented hardware or a Mac there is no such card."""
    shown = train_updates(real_app, model, fill_form(hardware="A100-SXM4-40GB"))["need"]
    line = shown[: shown.index("training-card")]
    assert "On your NVIDIA A100 SXM4 40GB: fits" in line
    assert "$" not in line
    for other in ("spaces:l4x1", "M4-16GB"):
        assert "On your" not in train_updates(real_app, model, fill_form(hardware=other))["need"]


def test_own_cards_that_lack_ram_say_so(real_app: Services) -> None:
    """A CPU optimizer on one card: the RAM of the stated machine decides, and no larger card is named as the mend."""
    asked = {"hardware": "A100-SXM4-80GB", "method": "full", "sharding": "zero2_offload", "where": ["jobs"]}
    line = train_updates(real_app, LLAMA, fill_form(**asked, ram="64 GB"))["need"].partition("</section>")[0]
    assert "does not fit. Offloading needs" in line
    assert "of RAM" in line
    assert "would hold it" not in line
    assert "fits" in train_updates(real_app, LLAMA, fill_form(**asked, ram="256 GB"))["need"].partition("</section>")[0]


@pytest.mark.parametrize(
    ("objective", "shown"), [("contrastive", {"negatives"}), ("contrastive-cached", {"negatives", "parts"}), ("rerank", {"negatives"})]
)
def test_pairs_are_asked_for_their_negatives(real_app: Services, objective: str, shown: set[str]) -> None:
    """Boxes of the objective alone are shown; what is in them is asked about."""
    asked = fill_form(objective=objective, negatives=3, cachedbatch=4, microbatch=8)
    boxes = train_updates(real_app, "BAAI/bge-base-en-v1.5", asked)
    assert {name for name in ("negatives", "parts", "grpo", "pictures") if boxes[name]["visible"]} == shown
    assert "NEGATIVES = 3" in boxes["recipe"]
    assert ("mini_batch_size=4" in boxes["recipe"]) == ("parts" in shown)


@pytest.mark.parametrize(
    ("model", "asked", "method", "objective"),
    [
        ("BAAI/bge-base-en-v1.5", {"objective": "dpo"}, None, "contrastive"),
        (LLAMA, {"objective": "contrastive", "microbatch": 8}, None, "sft"),
        ("black-forest-labs/FLUX.1-dev", {"objective": "grpo", "method": "dora", "sharding": "fsdp", "stack": "unsloth"}, "lora", None),
        (LLAMA, {"objective": "dpo"}, None, None),
    ],
)
def test_what_does_not_suit_the_model_is_replaced_and_said(
    real_app: Services, model: str, asked: dict[str, Any], method: str | None, objective: str | None
) -> None:
    """The field has what is computed; a field that does not count keeps its value, which is not sent."""
    updates = train_updates(real_app, model, fill_form(**asked))
    assert (updates["q_method"].get("value"), updates["q_objective"].get("value")) == (method, objective)
    assert ("does not suit this kind of model" in updates["need"]) == (method is not None or objective is not None)
    assert "No training estimate" not in updates["need"]


def test_the_micro_batch_of_the_field_is_the_one_that_is_computed(real_app: Services) -> None:
    """Pairs need two rows to compare: the field shows what the script has."""
    updates = train_updates(real_app, "BAAI/bge-base-en-v1.5", fill_form(objective="contrastive"))
    assert updates["q_microbatch"]["value"] == 2
    assert "per_device_train_batch_size=2" in updates["recipe"]


@pytest.mark.parametrize(
    ("model", "asked", "counts", "idle"),
    [
        (LLAMA, {}, {"rank", "packing", "stack", "sharding"}, {"doublequant", "gpus", "base"}),
        (LLAMA, {"method": "qlora", "sharding": "fsdp"}, {"doublequant", "gpus"}, set()),
        (LLAMA, {"method": "full", "objective": "dpo"}, set(), {"rank", "modules", "packing", "loss", "stack"}),
        ("openai/whisper-small", {}, {"sharding"}, {"objective", "packing", "loss", "stack"}),
        ("black-forest-labs/FLUX.1-dev", {}, {"rank", "base"}, {"objective", "packing", "attention", "sharding", "gpus"}),
        ("black-forest-labs/FLUX.1-dev", {"method": "full"}, set(), {"base", "rank"}),
    ],
)
def test_a_field_is_shown_where_it_counts(real_app: Services, model: str, asked: dict[str, Any], counts: set[str], idle: set[str]) -> None:
    """The answer depends on a shown field alone."""
    updates = train_updates(real_app, model, fill_form(**asked))
    assert {name: updates[f"q_{name}"]["visible"] for name in counts | idle} == dict.fromkeys(counts, True) | dict.fromkeys(idle, False)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"objective": "orpo", "checkpointing": "offloaded"}, "Accepted: “None” or “Every layer” with the objective ORPO"),
        ({"method": "lora-8bit", "sharding": "fsdp"}, "or Method: QLoRA"),
        ({"objective": "grpo", "completion": 4096}, "Sequence, tokens (2,048)"),
    ],
)
def test_refusals_have_the_words_of_the_form(real_app: Services, asked: dict[str, Any], said: str) -> None:
    """Labels and words of the fields, not arguments of the API."""
    assert said in train_updates(real_app, LLAMA, fill_form(**asked))["need"]


@pytest.mark.parametrize(
    ("model", "asked"), [(LLAMA, {}), ("Qwen/Qwen3-32B", {"method": "full"}), (LLAMA, {"where": ["spaces"]}), (LLAMA, {"where": ["own"]})]
)
def test_the_command_is_for_the_hardware_of_the_card(real_app: Services, model: str, asked: dict[str, Any]) -> None:
    """Its flavor, and the number of GPUs in the script; a line for the machine where Jobs was not asked for."""
    answer = real_app.estimate_training(model, **arguments_of(**asked))
    option = next(option for option in answer.options if option.verdict != "no")
    expected = f"--flavor {option.hardware} " if "where" not in asked else "uv run train.py"
    assert expected in str(answer.command)
    assert (f"on each of {option.devices} GPUs" in str(answer.script)) == (option.devices > 1)
    assert option.name in train_updates(real_app, model, fill_form(**asked))["recipe"]


@pytest.mark.parametrize(("model", "holds"), [("Qwen/Qwen3-0.6B", True), ("Qwen/Qwen3-32B", False)])
def test_the_command_is_for_own_cards_that_train_it(real_app: Services, model: str, *, holds: bool) -> None:
    """Cards that hold it get the script; those that do not leave it to rented hardware."""
    recipe = train_updates(real_app, model, fill_form(hardware="RTX-3060"))["recipe"]
    assert ("RTX 3060" in recipe, "hf jobs" in recipe) == (holds, not holds)


def test_the_memory_of_a_colocated_vllm_is_that_of_the_card(real_app: Services) -> None:
    """Its share of a GPU is more than a step needs: the card says so."""
    need = train_updates(real_app, LLAMA, fill_form(objective="grpo", rollouts="vllm-colocate"))["need"]
    assert "vLLM takes 30 % of the GPU" in need
    assert "vLLM takes" not in train_updates(real_app, LLAMA, DEFAULTS)["need"]


def test_equal_times_on_unlike_cards_are_explained(real_app: Services) -> None:
    """Where the trainer's own model writes the answers, the host sets the pace; where vLLM writes them, cards differ."""
    alike = "the host that starts its kernels sets the pace"
    slow = train_updates(real_app, LLAMA, fill_form(objective="grpo"))
    assert alike in slow["options"]
    assert "the cheapest run that fits as asked" in slow["need"]
    assert alike not in train_updates(real_app, LLAMA, fill_form(objective="grpo", rollouts="vllm-colocate"))["options"]
