"""Pairs, rerankers and classification heads: a step that sentence-transformers runs, with counted tensors, against the law."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig

from lib.memory.training import step_peaks
from lib.model.layer_extrapolation import RunCounter
from lib.model.resolve import resolve_config
from lib.request.objectives import PairsRequest
from lib.workload import TrainingRequest

SIZES: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 4096, "num_labels": 2,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,  # a CPU computes dropout of attention another way than a GPU
}  # fmt: skip


class Embedder(torch.nn.Sequential):
    """A model with mean pooling, as the losses of sentence-transformers call it."""

    tokenizer = None

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The features with their embedding."""
        hidden = self[0](input_ids=features["input_ids"], attention_mask=features["attention_mask"]).last_hidden_state
        return {**features, "sentence_embedding": hidden.mean(1)}


def count_step(config: Any, request: TrainingRequest) -> int:
    """Bytes at the peak of the second step, which has the optimizer's states from its start."""
    from sentence_transformers.sentence_transformer import losses  # noqa: PLC0415 seconds

    embeds = request.objective.startswith("contrastive")
    model = (AutoModel if embeds else AutoModelForSequenceClassification).from_config(config).bfloat16().train()
    if request.checkpointing != "none":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    parts = request.pairs.cached_batch
    chosen: Any = {
        "contrastive": lambda: losses.MultipleNegativesRankingLoss(Embedder(model)),
        "contrastive-cached": lambda: losses.CachedMultipleNegativesRankingLoss(Embedder(model), mini_batch_size=parts),
    }

    def texts(number: int) -> dict[str, torch.Tensor]:
        shape = (number, request.sequence_tokens)
        return {"input_ids": torch.randint(0, 4000, shape), "attention_mask": torch.ones(shape, dtype=torch.long)}

    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        if embeds:
            loss = chosen[request.objective]()([texts(request.micro_batch) for _ in range(request.example_sequences)], None)
        else:
            scores = model(**texts(request.micro_batch * request.example_sequences)).logits.float()
            loss = torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    held = [*model.parameters(), *model.buffers(), *states]
    counter = RunCounter(held, 10**7)
    with counter:
        counter.begin()
        step()
    return counter.peak_bytes + sum(tensor.nbytes for tensor in held)


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", ["none", "layers"])
@pytest.mark.parametrize("objective", ["contrastive", "contrastive-cached", "rerank", "classify"])
def test_peak_of_a_step(
    objective: Literal["contrastive", "contrastive-cached", "rerank", "classify"], checkpointing: Literal["none", "layers"]
) -> None:
    """bf16, two negatives: within 6 % where activations are kept; where layers are recomputed at most 25 % too high and 5 % too low."""
    config = BertConfig(**SIZES, architectures=["BertModel" if objective.startswith("contrastive") else "BertForSequenceClassification"])
    request = TrainingRequest(
        method="full", objective=objective, precision="bf16", checkpointing=checkpointing, stack="transformers", packing=False,
        sequence_tokens=128, micro_batch=8, pairs=PairsRequest(negatives=2, cached_batch=4),
    )  # fmt: skip
    closed = max(sum(moment.values()) for moment in step_peaks(resolve_config(config.to_dict()), request))
    ratio = closed / count_step(config, request)
    low, high = (0.94, 1.06) if checkpointing == "none" else (0.95, 1.25)
    assert low <= ratio <= high
