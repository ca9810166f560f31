"""Steps of TRL's own trainers on a processor, with values and counted tensors, against the law of their phases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_chat
import torch
from datasets import Dataset
from transformers import TrainerCallback

from lib.memory.rollouts import list_moments
from lib.model.layer_extrapolation import RunCounter
from lib.model.resolve import resolve_config
from lib.request.objectives import RolloutRequest
from lib.workload import TrainingRequest

SIZES = {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 8192, "tie_word_embeddings": False,
}  # fmt: skip
PROMPT, ANSWER = 192, 64
GRPO = TrainingRequest(
    objective="grpo", micro_batch=4, accumulation=2, sequence_tokens=PROMPT + ANSWER, packing=False, rank=8,
    rollout=RolloutRequest(generations=4, completion_tokens=ANSWER, beta=0.1),
)  # fmt: skip
DPO = replace(GRPO, objective="dpo", micro_batch=2)
CASES = {
    "GRPO, bf16": replace(GRPO, method="full", precision="bf16"),
    "GRPO, mixed": replace(GRPO, method="full", precision="mixed"),
    "GRPO, LoRA": replace(GRPO, method="lora"),
    "DPO, bf16": replace(DPO, method="full", precision="bf16"),
    "DPO, LoRA": replace(DPO, method="lora"),
}


def make_trainer(folder: Path, request: TrainingRequest) -> Any:
    """TRL's trainer with a model that never ends an answer, and rows of the request's length."""
    from peft import LoraConfig  # noqa: PLC0415 seconds
    from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer  # noqa: PLC0415 seconds

    tiny_chat.save(folder, template=None, **SIZES)
    whole = request.method == "full" and request.precision == "mixed"
    common: dict[str, Any] = {
        "output_dir": str(folder / "out"), "use_cpu": True, "bf16": True, "report_to": "none", "max_steps": 2, "save_strategy": "no",
        "optim": "adamw_torch_fused", "gradient_checkpointing": True, "model_init_kwargs": {"dtype": "float32" if whole else "bfloat16"},
        "per_device_train_batch_size": request.micro_batch, "gradient_accumulation_steps": request.accumulation,
    }  # fmt: skip
    ready: dict[str, Any] = {
        "model": str(folder),
        "processing_class": tiny_chat.tokenizer(None),
        "peft_config": LoraConfig(r=request.rank, target_modules="all-linear") if request.method == "lora" else None,
    }
    if request.samples:
        rollout = request.rollout
        arguments = GRPOConfig(
            **common, num_generations=rollout.generations, max_completion_length=rollout.completion_tokens, beta=rollout.beta
        )
        rows = Dataset.from_dict({"prompt": ["a" * PROMPT] * 8})
        return GRPOTrainer(**ready, args=arguments, train_dataset=rows, reward_funcs=lambda completions, **_: [*map(len, completions)])
    answers = {name: [letter * (request.sequence_tokens - 5)] * 8 for name, letter in (("chosen", "b"), ("rejected", "c"))}
    rows = Dataset.from_dict({"prompt": ["a" * 4] * 8} | answers)  # the law counts a sequence as an answer from end to end
    return DPOTrainer(**ready, args=DPOConfig(**common, max_length=request.sequence_tokens), train_dataset=rows)


class Watch(TrainerCallback):  # type: ignore[misc]
    """Counts tensors in the second step, which has the optimizer's states from its start; one peak for each phase."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.peaks: dict[str, int] = {}
        self.counter: Any = None
        self.base = 0
        for method, phase in (("_generate_single_turn", "rollout"), ("_generate_and_score_completions", "scoring")):
            if hasattr(trainer, method):
                setattr(trainer, method, self._note(getattr(trainer, method), phase))

    def _note(self, call: Any, phase: str) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            if self.counter is not None:
                self.peaks[phase] = self.base + self.counter.peak_bytes
                self.counter.begin()
            return result

        return noted

    def on_step_begin(self, _args: Any, state: Any, _control: Any, **kwargs: Any) -> None:
        """Start to count."""
        if state.global_step == 1:
            models = [model for model in (self.trainer.model, self.trainer.ref_model) if model is not None]
            states = [value for state in kwargs["optimizer"].state.values() for value in state.values() if torch.is_tensor(value)]
            held = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())] + states
            self.base = sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in held}.values())
            self.counter = RunCounter(held, 10**8)
            self.counter.__enter__()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop."""
        if self.counter is not None:
            self.peaks["update"] = self.base + self.counter.peak_bytes
            self.counter.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_phases_of_a_step(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase within 5 % of the tensors that TRL's trainer holds; kernels of a GPU fold a tile in place, so they are left out here."""
    kernels = pytest.importorskip("trl.kernels.chunked_logprob")
    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        monkeypatch.setattr(kernels, name, lambda *_, **__: None)
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda _: True)  # the tokens of answers alone are scored, as on a GPU
    request = CASES[case]
    trainer = make_trainer(tmp_path, request)
    watch = Watch(trainer)
    trainer.add_callback(watch)
    trainer.train()
    spec = resolve_config(tiny_chat.config(architectures=["LlamaForCausalLM"], **SIZES).to_dict())
    moments = list_moments(spec, request)
    closed = {name: sum(parts.values()) for name, parts in (("rollout", moments.rollout), ("scoring", moments.scoring)) if parts}
    closed["update"] = max(sum(moment.values()) for moment in moments[:5])
    assert closed == {name: pytest.approx(size, rel=0.05) for name, size in watch.peaks.items()}
