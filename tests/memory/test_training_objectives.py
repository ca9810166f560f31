"""Preferences and reward models: the law beside steps that run TRL's own code on a real architecture, without values."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from written import ask

from lib.catalog import load
from lib.errors import BadArgument
from lib.memory.training import step_peaks
from lib.model import bundled
from lib.model.build import LOCK, build
from lib.model.dry_run import _OPTIMIZERS, _UNPADDED, _adapt, _make_fake, _no_values
from lib.model.layer_extrapolation import RunCounter, at_full_depth, layers_of
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training as question
from lib.service.models import Models
from lib.workload import TrainingRequest

ASK = ask(question, App(catalog=load, models=Models()))
LLAMA = "meta-llama/Llama-3.1-8B"
TINY = "Qwen/Qwen3-0.6B"


def execute(request: TrainingRequest) -> int:
    """Bytes at the peak of one step: a pair through the policy, the reference without gradient, loss, backward pass and update."""
    config = dict(bundled.find_config(TINY) or {})
    if request.objective == "reward":
        config |= {"architectures": ["Qwen3ForSequenceClassification"], "num_labels": 1, "pad_token_id": 0}
    full = request.method == "full"
    policy = build(config, "bfloat16").model
    reference = build(config, "bfloat16").model.requires_grad_(requires_grad=False) if full and request.objective == "dpo" else None
    if full:
        policy.requires_grad_(requires_grad=True)
    else:
        _adapt(policy, request)
    policy.train()
    policy.config.use_cache = False
    again = {"context_fn": lambda: (contextlib.nullcontext(), _no_values("gpu", _UNPADDED))}
    policy.activation_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False, **again})
    models = [policy] if reference is None else [policy, reference]
    with LOCK, warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True):
        warnings.simplefilter("ignore")
        for model in models:
            _make_fake(model)
        held = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
        counter = RunCounter(held, 10**7)
        with at_full_depth(layers_of(policy), counter, training=True, whole=True), _no_values("gpu", _UNPADDED), counter:
            trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
            optimizer = _OPTIMIZERS["adamw"](trained)
            for parameter in trained:
                parameter.grad = torch.empty_like(parameter)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            counter.begin()
            _loss(policy, reference, request).backward()
            optimizer.step()
    return counter.peak_bytes + sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in held}.values())


def _loss(policy: Any, reference: Any, request: TrainingRequest) -> torch.Tensor:
    from trl.trainer.utils import add_fused_lm_head  # noqa: PLC0415 seconds

    tokens = torch.ones(2, request.sequence_tokens, dtype=torch.long)
    if request.objective == "orpo":
        return _orpo_loss(policy, tokens)
    if request.objective == "reward":
        chosen, rejected = policy(input_ids=tokens, use_cache=False).logits.squeeze(-1).chunk(2)
        return -functional.logsigmoid(chosen - rejected).mean()
    for model in (policy, reference):
        if model is not None:
            add_fused_lm_head(model, outputs=("log_probs", "entropy", "mean_logits", "is_top1"))
    asked = {"input_ids": tokens, "labels": tokens, "fused_lm_head": True, "use_cache": False}
    learned = policy(**asked).log_probs.sum(1)
    with torch.no_grad():
        fixed = (policy if reference is None else reference)(**asked).log_probs.sum(1)
    chosen, rejected = (learned - fixed).chunk(2)
    return -functional.logsigmoid(0.1 * (chosen - rejected)).mean()


def _orpo_loss(policy: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The loss of TRL's ORPOTrainer, without the trainer; logits in float32, as accelerate returns them."""
    from trl.experimental.orpo.orpo_trainer import ORPOTrainer  # noqa: PLC0415 seconds

    def model(ids: torch.Tensor, **asked: Any) -> Any:
        return SimpleNamespace(logits=policy(ids, use_cache=asked["use_cache"]).logits.float())

    together = {"concatenated_input_ids": tokens, "concatenated_attention_mask": tokens, "concatenated_labels": tokens}
    trainer: Any = SimpleNamespace(
        concatenated_inputs=lambda *_, **__: together, get_batch_logps=ORPOTrainer.get_batch_logps,
        accelerator=SimpleNamespace(device="cpu"), is_encoder_decoder=False, padding_value=0, aux_loss_enabled=False, beta=0.1,
    )  # fmt: skip
    chosen, rejected, *_, likelihood = ORPOTrainer.concatenated_forward(trainer, model, {"chosen_labels": tokens[:1]})
    return likelihood - ORPOTrainer.odds_ratio_loss(trainer, chosen, rejected)[0].mean()


class _GpuLogProbs(torch.autograd.Function):
    """Tensors of trl/kernels/logprob_entropy.py, which a GPU runs: logits are saved, and their gradient is one tensor."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        return logits.new_empty(logits.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return torch.empty_like(ctx.saved_tensors[0])


@pytest.mark.parametrize(
    ("objective", "method"),
    [
        ("dpo", "full"),
        ("reward", "lora"),
        ("orpo", "lora"),
        pytest.param("dpo", "lora", marks=pytest.mark.slow),
        pytest.param("reward", "full", marks=pytest.mark.slow),
        pytest.param("orpo", "full", marks=pytest.mark.slow),
    ],
)
def test_peak_of_a_pair(
    objective: Literal["dpo", "reward", "orpo"], method: Literal["full", "lora"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """512 tokens a sequence in bf16 with checkpoints: within 5 % of what is executed.

    TRL's kernels fold a tile in place on a GPU; on a CPU stand-ins take copies of it, which are left out here.
    """
    kernels = pytest.importorskip("trl.kernels.chunked_logprob")
    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        monkeypatch.setattr(kernels, name, lambda *_, **__: None)
    monkeypatch.setattr("trl.experimental.orpo.orpo_trainer.selective_log_softmax", lambda logits, _: _GpuLogProbs.apply(logits))
    request = TrainingRequest(method=method, objective=objective, precision="bf16", sequence_tokens=512, packing=False)
    spec = bundled.find_spec(TINY)
    assert spec is not None
    closed = max(sum(moment.values()) for moment in step_peaks(spec, request))
    assert closed == pytest.approx(execute(request), rel=0.05)


def test_preferences_are_asked_by_objective_or_method() -> None:
    """`method=dpo` is DPO with LoRA; a reference is a second model in full fine-tuning alone; pairs count both sequences."""
    dpo = ASK(LLAMA, method="dpo")
    assert dpo == ASK(LLAMA, objective="dpo")
    assert (dpo["method"], dpo["objective"]) == ("lora", "dpo")
    assert "reference model" not in {part["name"] for part in dpo["parts"]}
    full = {part["name"]: part["bytes"] for part in ASK(LLAMA, method="full", objective="dpo", precision="bf16")["parts"]}
    assert full["reference model"] == full["weights"]
    assert dpo["total_tokens"] == 2 * ASK(LLAMA)["total_tokens"]
    assert [phase["name"] for phase in dpo["phases"]] == ["policy forward", "reference forward", "backward", "update"]
    assert sum(phase["time_share"] for phase in dpo["phases"]) == pytest.approx(1)
    assert any("public run that reports its memory" in caveat["message"] for caveat in dpo["caveats"])
    assert "DPOTrainer" in dpo["script"]
    assert ASK(LLAMA, objective="reward")["device_bytes"] < dpo["device_bytes"]
    assert ASK(LLAMA, objective="orpo")["device_bytes"] > dpo["device_bytes"]
    with pytest.raises(BadArgument, match="none or layers with objective orpo"):
        ASK(LLAMA, objective="orpo", checkpointing="offloaded")
    assert ASK(LLAMA, objective="kto", micro_batch=1)["device_bytes"] == ASK(LLAMA, objective="kto", micro_batch=2)["device_bytes"]
    with pytest.raises(BadArgument, match="full, lora, dora, qlora"):
        ASK(LLAMA, method="dpo", objective="kto")
