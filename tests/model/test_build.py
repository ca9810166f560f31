"""Real architectures, executed on the meta device: exact counts for every published configuration."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import transformers
from model_facts import LLAMA, config, facts, list_counted_ids

from lib.errors import BadConfig, UnsupportedModel
from lib.model.build import build
from lib.model.diffusion import is_pipeline, resolve_pipeline
from lib.model.meta_device import MetaBuild
from lib.model.parameters import group_parameters
from lib.model.spec import TensorGroup, parameters_active


def tensors_of(name: str) -> tuple[TensorGroup, ...]:
    """The parameters of a bundled model, built now."""
    found = config(name)
    return resolve_pipeline(found).tensors if is_pipeline(found) else group_parameters(build(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", list_counted_ids())
def test_parameters_equal_the_exact_count(name: str) -> None:
    """Total, active and component counts equal the recorded facts, to the last parameter."""
    row, tensors = facts()[name], tensors_of(name)
    assert sum(g.parameters for g in tensors) == row["parameters"]
    assert parameters_active(tensors) == row.get("active", row["parameters"])
    parts: dict[str, int] = {}
    for group in tensors:
        parts[group.component] = parts.get(group.component, 0) + group.parameters
    assert sum(parts.values()) == row["parameters"]
    if "components" in row:
        assert parts == row["components"]


@pytest.mark.parametrize("name", [n for n, row in facts().items() if row["parameters"] is None])
def test_what_needs_remote_code_is_refused(name: str) -> None:
    """Model types that transformers does not know, and that are no Llama by their own keys, are never guessed."""
    with pytest.raises(UnsupportedModel, match="remote code"):
        build(facts()[name]["config"])


def test_a_foreign_type_is_built_as_the_class_that_it_names() -> None:
    """Kimi-K2 publishes a DeepSeek-V3 under the type kimi_k2: the same tensors as under its own type, and a caveat."""
    own = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96,
        "moe_intermediate_size": 32, "num_hidden_layers": 3, "first_k_dense_replace": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
        "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "vocab_size": 200,
    }  # fmt: skip
    foreign = own | {"model_type": "kimi_k2", "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"}}
    built = build(foreign)
    assert (built.architecture, built.model_type) == ("DeepseekV3ForCausalLM", "kimi_k2")
    assert group_parameters(built) == group_parameters(build(own))
    assert [caveat.code for caveat in built.caveats] == ["foreign_model_type"]


@pytest.mark.parametrize("name", ["PreTrainedModel", "os", "_LazyModule", "NoSuchClass", "__import__", "AutoModel", "a.b", 7])
def test_a_foreign_type_with_no_class_of_its_own_is_refused(name: object) -> None:
    """Only a model class of transformers counts; what else the package holds is none."""
    with pytest.raises((UnsupportedModel, BadConfig)):
        build({"architectures": [name], "model_type": "kimi_k2", "hidden_size": 64})


def test_a_small_llama_by_hand() -> None:
    """Embedding 512·64 and head as much; a layer q 64·64, k and v 32·64 each, o 64·64, three 160·64, two norms 64; a last norm 64."""
    layer = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 160 * 64 + 2 * 64
    tensors = group_parameters(build(LLAMA))
    assert sum(g.parameters for g in tensors) == 2 * 512 * 64 + 3 * layer + 64
    assert {g.component for g in tensors} == {"embeddings", "language_model", "head"}
    assert {g.kind: g.count for g in tensors if "down_proj" in g.name} == {"linear": 3}


def test_a_tied_head_is_counted_once() -> None:
    """Tying takes exactly one vocabulary matrix away."""
    tied, apart = group_parameters(build(LLAMA | {"tie_word_embeddings": True})), group_parameters(build(LLAMA))
    assert sum(g.parameters for g in apart) - sum(g.parameters for g in tied) == 512 * 64


@pytest.mark.parametrize(
    ("changes", "architecture", "code"),
    [
        ({"architectures": ["LLaMAForCausalLM"]}, "LlamaForCausalLM", "architecture_spelling"),
        ({"architectures": ["MyOwnForCausalLM"]}, "LlamaForCausalLM", "architecture_inferred"),
        ({"architectures": ["BertForSequenceClassification"]}, "LlamaForSequenceClassification", "architecture_inferred"),
        ({"architectures": None}, "LlamaForCausalLM", "architecture_inferred"),
        ({"architectures": []}, "LlamaForCausalLM", "architecture_inferred"),
        ({"architectures": ["os.system"]}, "LlamaForCausalLM", "architecture_inferred"),
        ({"architectures": ["PreTrainedModel"]}, "LlamaModel", "architecture_inferred"),
    ],
)
def test_the_class_is_found_and_a_stand_in_is_told(changes: dict[str, Any], architecture: str, code: str) -> None:
    """A name that is not literally a class of transformers is answered by the class of its model_type, with a caveat."""
    built = build(LLAMA | changes)
    assert (built.architecture, [c.code for c in built.caveats]) == (architecture, [code])


def test_a_llama_under_another_name_is_counted_with_a_caveat() -> None:
    """Remote code whose every size is a Llama's is a Llama; the same file with one unknown size is refused."""
    remote = LLAMA | {
        "model_type": "tinylm",
        "architectures": ["TinyForCausalLM"],
        "hidden_act": "silu",
        "auto_map": {"AutoModelForCausalLM": "modeling_tiny.TinyForCausalLM"},
    }
    built = build(remote)
    assert [c.code for c in built.caveats] == ["remote_code_as_llama"]
    assert group_parameters(built) == group_parameters(build(LLAMA))
    for key, value in {"num_experts": 4, "kv_lora_rank": 512, "layer_types": ["x"], "qk_norm": True}.items():
        with pytest.raises(UnsupportedModel, match="remote code"):
            build(remote | {key: value})
    with pytest.raises(UnsupportedModel):
        build({k: v for k, v in remote.items() if k != "auto_map"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": None}, "model_type was"),
        ({"model_type": ["llama"]}, "model_type was"),
        ({"architectures": "LlamaForCausalLM"}, "Accepted: a list of class names"),
        ({"num_attention_heads": 7, "num_key_value_heads": 3}, "cannot be built"),
        ({"hidden_size": None}, "cannot be built"),
        ({"hidden_size": {"a": 1}}, "cannot be built"),
        ({"rope_scaling": {"rope_type": "nonsense"}}, "cannot be built"),
    ],
)
def test_a_configuration_that_cannot_be_built_says_why(changes: dict[str, Any], said: str) -> None:
    """Whatever the constructor raises becomes one sentence."""
    with pytest.raises(BadConfig, match=said):
        build(LLAMA | changes)


def test_nothing_is_fetched() -> None:
    """Names that a library would look up on the Hub are refused before it sees them."""
    with pytest.raises(UnsupportedModel, match="not fetched here"):
        build(LLAMA | {"vision_config": {"architecture": "hf-hub:someone/something"}})
    with pytest.raises(UnsupportedModel, match="not fetched here"):
        build({"model_type": "detr", "backbone": "someone/something"})


def test_too_many_modules_stop_early() -> None:
    """A budget of torch calls ends a build that no real model needs."""
    with MetaBuild(torch.bfloat16, budget=50):
        made = [torch.empty(1) for _ in range(40)]
        with pytest.raises(BadConfig, match="more than 50 tensor operations"):
            made.extend(torch.empty(1) for _ in range(11))
    assert {t.device.type for t in made} == {"meta"}


def test_the_process_is_left_as_it_was() -> None:
    """Another thread makes ordinary float32 tensors on the CPU while a model is built, and after."""
    seen: list[tuple[torch.dtype, str]] = []
    stop = threading.Event()

    def make_tensors() -> None:
        while not stop.is_set():
            made = torch.zeros(1)
            seen.append((made.dtype, made.device.type))

    watcher = threading.Thread(target=make_tensors)
    watcher.start()
    build(LLAMA)
    stop.set()
    watcher.join()
    seen.append((torch.zeros(1).dtype, torch.zeros(1).device.type))
    assert set(seen) == {(torch.float32, "cpu")}


@pytest.mark.parametrize(
    "name", ["ai21labs/AI21-Jamba-1.5-Mini", "openai/gpt-oss-20b", "google/gemma-3-4b-it", "openai/whisper-tiny", "BAAI/bge-small-en-v1.5"]
)
def test_the_mode_gives_the_dtypes_of_a_load(name: str) -> None:
    """Two ways to one answer: this mode, and torch's own defaults as `from_pretrained` sets them."""
    built = build(config(name))
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            same = getattr(transformers, built.architecture)(built.config)
    finally:
        torch.set_default_dtype(usual)
    assert {n: (p.shape, p.dtype) for n, p in built.model.named_parameters()} == {n: (p.shape, p.dtype) for n, p in same.named_parameters()}
