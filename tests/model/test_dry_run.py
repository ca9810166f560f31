"""Dry runs, against the same models really executed on the CPU, against all layers executed, and against torch's own trackers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from llama import llama_config
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig

from lib.errors import BadArgument, UnsupportedModel
from lib.model.allocations import MemoryTracker
from lib.model.build import model_class
from lib.model.dry_run import dry_run
from lib.model.dry_run_figures import DryRun
from lib.workload import TrainingRequest

STEP = TrainingRequest(method="full", precision="bf16")
LLAMA = llama_config(hidden_size=128, intermediate_size=512, num_hidden_layers=6)
QWEN = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 64, "tie_word_embeddings": True}
GEMMA = QWEN | {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}
DEEP_GEMMA = GEMMA | {"num_hidden_layers": 10, "layer_types": ["sliding_attention", "full_attention"] * 5}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 128, "n_layer": 6, "n_head": 4, "vocab_size": 1000}
NEOX = LLAMA | {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox"}
MOE = QWEN | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
BERT = LLAMA | {"architectures": ["BertForMaskedLM"], "model_type": "bert"}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 128,
    "d_ff": 256,
    "d_kv": 32,
    "num_layers": 6,
    "num_heads": 4,
    "vocab_size": 1000,
}
MODELS = {"llama": LLAMA, "qwen3": QWEN, "gemma3": GEMMA, "gpt2": GPT2, "gpt_neox": NEOX, "bert": BERT}


def _build_with_values(config: dict[str, Any], *, checkpointing: bool | None = None) -> Any:
    """The model with values, in float32 on the CPU."""
    parsed = AutoConfig.for_model(**config)
    model = model_class(parsed, config)[0](parsed)
    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    return model.eval() if checkpointing is None else model.train()


def _real_peak(model: Any, run: Callable[[], None]) -> int:
    """Most bytes of real storages alive in a run, beside the model's own."""
    with MemoryTracker([*model.parameters(), *model.buffers()], 10**6) as counter:
        run()
    return counter.peak_bytes


def _profiled_peak(run: Callable[[], None]) -> int:
    """Most bytes that torch's allocator held in a run beyond those at its start, by its profiler's records."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    total = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            total += event.nbytes()
            peak = max(peak, total)
    return peak


def _tracked_peak(model: Any, run: Callable[[], None]) -> int:
    """Most bytes alive in a run beside the model's own, by torch's MemTracker."""
    tracker = MemTracker()
    tracker.track_external(model)
    with tracker:
        run()
    peak: int = next(iter(tracker.get_tracker_snapshot("peak").values()))["Total"]
    return peak - sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def _assert_same(one: DryRun, other: DryRun, within: float) -> None:
    """Every count of two runs but the layers that were run."""

    def flatten(values: dict[str, Any]) -> dict[str, int]:
        inner = {k: v for v in values.values() if isinstance(v, dict) for k, v in {**flatten(v)}.items()}
        return {k: v for k, v in values.items() if isinstance(v, int) and k != "layers_run"} | inner

    for name in ("inference", "training"):
        a, b = getattr(one, name), getattr(other, name)
        for key, value in (asdict(a) if a else {}).items():
            against = asdict(b)[key]
            expected = {k: pytest.approx(v, rel=within, abs=64) for k, v in against.items()} if isinstance(against, dict) else against
            assert value == (expected if isinstance(against, dict) else pytest.approx(expected, rel=within, abs=64)), (name, key)
    assert one.peak_bytes == pytest.approx(other.peak_bytes, rel=within)


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_takes_what_it_takes_with_values(name: str) -> None:
    """Within 3 % of what torch's allocator really held during a prefill of 2 · 300 tokens."""
    model = _build_with_values(MODELS[name])
    ids = torch.zeros(2, 300, dtype=torch.long)
    options = {} if name == "bert" else {"logits_to_keep": 1, "use_cache": True}

    def run() -> None:
        with torch.no_grad():
            output = model(input_ids=ids, **options)
            if options:
                output.logits[:, -1].to(dtype=torch.float32, copy=True)

    run()  # a first run makes tables that stay
    executed = dry_run(MODELS[name], batch=2, prompt_tokens=300, dtype="float32", kernels="cpu").inference
    assert executed is not None
    assert executed.prefill.peak_bytes == pytest.approx(_real_peak(model, run), rel=0.03)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_takes_what_it_takes_with_values(name: str, checkpointing: bool) -> None:
    """Within 3 % of what torch's allocator really held during a step of 2 · 200 tokens with AdamW's states."""
    model = _build_with_values(MODELS[name], checkpointing=checkpointing)
    ids = torch.zeros(2, 200, dtype=torch.long)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def run() -> None:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()

    run()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    training = replace(STEP, precision="fp32", checkpointing="layers" if checkpointing else "none")
    executed = dry_run(MODELS[name], batch=2, prompt_tokens=200, training=training, kernels="cpu").training
    assert executed is not None
    peak = max(executed.forward.peak_bytes, executed.backward.peak_bytes) - executed.optimizer_bytes
    assert peak == pytest.approx(_real_peak(model, run), rel=0.03)
    if name == "llama":
        optimizer.zero_grad(set_to_none=True)
        assert peak == pytest.approx(_profiled_peak(run), rel=0.03)
        optimizer.zero_grad(set_to_none=True)
        assert peak == pytest.approx(_tracked_peak(model, run), rel=0.005)
    real_states = sum(v.nbytes for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor))
    assert executed.optimizer_bytes == pytest.approx(real_states, rel=0.005)  # parameters that get no gradient have states here


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(LLAMA, id="llama"),
        pytest.param(DEEP_GEMMA, id="gemma3", marks=pytest.mark.slow),
        pytest.param(MOE, id="qwen3_moe", marks=pytest.mark.slow),
        pytest.param(T5, id="t5", marks=pytest.mark.slow),
    ],
)
def test_few_layers_stand_for_all(config: dict[str, Any]) -> None:
    """With the layers between standing aside every count is that of all layers."""
    asked: list[dict[str, Any]] = [
        {"prompt_tokens": 150, "output_tokens": 20},
        {"prompt_tokens": 100, "training": replace(STEP, checkpointing="none")},
        {"prompt_tokens": 100, "training": replace(STEP, method="lora", rank=4)},
        {"prompt_tokens": 100, "training": replace(STEP, precision="mixed")},
    ]
    for options in asked:
        few, whole = (dry_run(config, batch=2, whole=whole, **options) for whole in (False, True))
        assert few.layers_run < whole.layers_run == whole.layers
        _assert_same(few, whole, 0.005)


def _count_flop_with_torch(tokens: int) -> int:
    """FLOP of a training step of the small Llama by torch's FlopCounterMode."""
    model = _build_with_values(LLAMA, checkpointing=False)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(torch.empty(parameter.shape)))
            for name, buffer in list(module.named_buffers(recurse=False)):
                setattr(module, name, torch.empty(buffer.shape))
        with FlopCounterMode(display=False) as counter:
            ids = torch.zeros(2, tokens, dtype=torch.long)
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    return counter.get_total_flops()


def test_its_flop_are_those_of_torchs_counter() -> None:
    """FlopCounterMode, which takes several times as long, comes to the same FLOP."""
    training = replace(STEP, precision="fp32", checkpointing="none")
    executed = dry_run(LLAMA, batch=2, prompt_tokens=200, training=training, kernels="cpu").training
    assert executed is not None
    assert executed.forward.flop + executed.backward.flop == _count_flop_with_torch(200)


def test_what_is_counted_by_hand() -> None:
    """A Llama of two layers: parameters, a cache of 256 bytes per token, AdamW's two moments, LoRA of rank 4 on every matrix.

    Matrices of a layer: q and o 64 · 64, k and v 64 · 32, gate, up and down 64 · 128. Rank 4 trains 4 · (in + out) of each:
    4 · (2 · 128 + 2 · 96 + 3 · 192) = 4096, 8192 in two layers. FLOP of a decode step: 2 a parameter of the matrices and of the head,
    73,728 and 64,000, and 4 · 64 · 2 layers a position for attention.
    """
    run = dry_run(llama_config(), prompt_tokens=100, output_tokens=11)
    assert run.inference is not None
    assert run.inference.decode is not None
    assert (run.parameters, run.weights_bytes) == (202_048, 404_096)
    assert run.inference.prompt_cache_bytes == 256 * 100
    assert run.inference.cache_bytes == 256 * 110
    assert run.inference.decode.flop == 2 * (73_728 + 64_000) + 4 * 64 * 2 * 110
    full = dry_run(llama_config(), prompt_tokens=64, training=STEP).training
    lora = dry_run(llama_config(), prompt_tokens=64, training=replace(STEP, method="lora", rank=4)).training
    assert full is not None
    assert lora is not None
    assert full.gradient_bytes == 404_096
    assert full.optimizer_bytes == pytest.approx(2 * 404_096, rel=0.001)  # beside the moments a step count for each tensor
    assert (lora.trained_parameters, lora.gradient_bytes) == (8192, 4 * 8192)


def test_a_packed_model_holds_half_a_byte_a_weight() -> None:
    """QLoRA: 73,728 weights in 4 bits, one byte of scale for 64 of them and two float32 for the scales of each of 14 matrices.

    The rest is in bfloat16, adapters in float32.
    """
    run = dry_run(llama_config(), prompt_tokens=64, training=replace(STEP, method="qlora", rank=4))
    assert run.weights_bytes == 2 * (202_048 - 73_728) + 73_728 // 2 + 73_728 // 64 + 14 * 2 * 4 + 4 * 8192


def test_bitsandbytes_leaves_subclasses_of_linear_as_they_are() -> None:
    """FalconLinear is no nn.Linear to it, so QLoRA of a Falcon holds 16 bits a weight, as LoRA does."""
    falcon = {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4, "vocab_size": 1000}  # fmt: skip
    lora, qlora = (dry_run(falcon, prompt_tokens=16, training=replace(STEP, method=method, rank=4)) for method in ("lora", "qlora"))
    assert qlora.weights_bytes == lora.weights_bytes


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"batch": 0}, "batch"),
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"prompt_tokens": 3000}, "2,048"),
        ({"training": replace(STEP, method="lora", rank=65)}, "rank"),
        ({"training": replace(STEP, method="lora", target_modules=("nothing",))}, "q_proj"),
    ],
)
def test_what_cannot_be_asked(asked: dict[str, Any], says: str) -> None:
    """A sentence that says what was seen and what is accepted."""
    with pytest.raises(BadArgument, match=says):
        dry_run(llama_config(), **asked)


def test_a_model_without_a_loss_is_not_trained() -> None:
    """A picture classifier, and the bare encoder."""
    vit = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2,
           "num_attention_heads": 2, "intermediate_size": 64}  # fmt: skip
    for config in (vit, BERT | {"architectures": ["BertModel"]}):
        with pytest.raises(UnsupportedModel, match="has no loss over tokens"):
            dry_run(config, prompt_tokens=32, training=STEP)
    run = dry_run(vit, prompt_tokens=1).inference
    assert run is not None
    assert run.decode is None
