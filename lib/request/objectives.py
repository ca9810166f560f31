"""Objectives of training as TRL computes them, and the fields of a training request that GRPO alone reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, get_args

from lib.engines import Engine
from lib.request import types as asked
from lib.request.fields import Form, Request, number, one_of, whole_number

Objective = Literal["sft", "dpo", "kto", "reward", "orpo", "grpo", "contrastive", "contrastive-cached", "rerank", "classify"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
Rollouts = Literal["transformers", "vllm-colocate", "vllm-server"]
ROLLOUTS: tuple[Rollouts, ...] = get_args(Rollouts)
MOST_GENERATIONS = 1_024
MOST_ROLLOUT_DEVICES = 64
MOST_NEGATIVES = 256
Library = Literal["trl", "sentence-transformers", "transformers"]
_WRITERS = frozenset({"decoder"})
_EMBEDDERS = frozenset({"text encoder", "embedding decoder"})


class ObjectiveTraits(NamedTuple):
    """Extra work of an objective in a step of TRL 1.16 or sentence-transformers 6.2, compared with supervised training."""

    sequences: int
    """Sequences of an example that the policy trains on: two where a chosen and a rejected answer go through it together."""
    passes_without_gradient: int
    """Further forward passes over the same number of sequences: of the reference, and of the mismatched pairs of KTO."""
    reference: bool
    """Whether a second model gives reference probabilities; with adapters the same model with its adapters switched off."""
    least_micro_batch: int
    """The smallest micro-batch that it accepts: KTO makes mismatched pairs within one."""
    loss: Literal["tokens", "log-probabilities", "logits", "score", "similarities"]
    """A loss over tokens as the stack computes it; log-probabilities in tiles without logits, or from all logits in float32; a score in
    place of the head; or similarities of embeddings, without a head."""
    offloads: bool = True
    """Whether its trainer can keep activations in the host's memory."""
    samples: bool = False
    """Whether the policy writes the answers that it trains on."""
    trainer: Library = "trl"
    """The library whose trainer it is."""
    works: frozenset[str] = _WRITERS
    """Kinds of models that it trains."""
    negatives: bool = False
    """Whether an example has hard negatives, a sequence each."""
    policy_passes: int = 0
    """Of the passes without gradient, those of the policy itself, with its adapters on."""
    in_parts: bool = False
    """Whether a micro-batch passes in parts, twice: without gradient for the loss, then with its gradient (GradCache)."""
    keeps_head_of: frozenset[str] = frozenset()
    """Kinds of models whose output projection it keeps for the logits of one token, in spite of a loss that needs none."""

    @property
    def has_head(self) -> bool:
        """Whether the output projection makes logits of all tokens."""
        return self.loss not in {"score", "similarities"}


OBJECTIVE_TRAITS: Mapping[Objective, ObjectiveTraits] = MappingProxyType(
    {
        "sft": ObjectiveTraits(1, 0, reference=False, least_micro_batch=1, loss="tokens"),
        "dpo": ObjectiveTraits(2, 1, reference=True, least_micro_batch=1, loss="log-probabilities"),
        "kto": ObjectiveTraits(1, 3, reference=True, least_micro_batch=2, loss="log-probabilities", policy_passes=1),
        "reward": ObjectiveTraits(2, 0, reference=False, least_micro_batch=1, loss="score"),
        "orpo": ObjectiveTraits(2, 0, reference=False, least_micro_batch=1, loss="logits", offloads=False),
        "grpo": ObjectiveTraits(1, 0, reference=False, least_micro_batch=1, loss="log-probabilities", offloads=False, samples=True),
        "contrastive": ObjectiveTraits(
            2, 0, reference=False, least_micro_batch=2, loss="similarities", offloads=False, trainer="sentence-transformers",
            works=_EMBEDDERS, negatives=True,
        ),
        "contrastive-cached": ObjectiveTraits(
            2, 1, reference=False, least_micro_batch=2, loss="similarities", offloads=False, trainer="sentence-transformers",
            works=_EMBEDDERS, negatives=True, in_parts=True, policy_passes=1,
        ),
        "rerank": ObjectiveTraits(
            1, 0, reference=False, least_micro_batch=1, loss="score", offloads=False, trainer="sentence-transformers",
            works=_EMBEDDERS | _WRITERS, negatives=True, keeps_head_of=_WRITERS | {"embedding decoder"},
        ),
        "classify": ObjectiveTraits(
            1, 0, reference=False, least_micro_batch=1, loss="score", offloads=False, trainer="transformers", works=_EMBEDDERS | _WRITERS
        ),
    }
)  # fmt: skip
"""Read in TRL 1.16.0: dpo_trainer.py, kto_trainer.py and reward_trainer.py of trl/trainer (2026-11-25); grpo_trainer.py and
trl/experimental/orpo/orpo_trainer.py (2026-11-26). Whether GRPO has a reference, and how often it scores, its request says. Read in
sentence-transformers 6.2.0, 2026-11-26: MultipleNegativesRankingLoss, its cached variant, the losses of CrossEncoder, and its
LogitScore, with which a causal model is a reranker."""


class RolloutTraits(NamedTuple):
    """Properties of a way to make answers."""

    engine: Engine
    """The engine that writes the answers."""
    holds_share: bool = False
    """Whether it holds a share of each training GPU."""
    own_devices: bool = False
    """Whether it runs on GPUs of its own."""
    starts_together: bool = False
    """Whether all answers are written as one batch, until the longest is complete."""
    scores_again: bool = False
    """Whether the policy computes the log-probabilities of the answers once more, to correct for the engine's."""


ROLLOUT_TRAITS: Mapping[Rollouts, RolloutTraits] = MappingProxyType(
    {
        "transformers": RolloutTraits("transformers", starts_together=True),
        "vllm-colocate": RolloutTraits("vllm", holds_share=True, scores_again=True),
        "vllm-server": RolloutTraits("vllm", own_devices=True, scores_again=True),
    }
)
"""Read in trl/trainer/grpo_trainer.py and trl/generation/vllm_generation.py of TRL 1.16.0, 2026-11-26."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest(Request):
    """Rollouts of GRPO: answers to each prompt, and the engine that writes them. Other objectives ignore it.

    A step writes micro_batch × accumulation × GPUs answers, `generations` to each prompt.
    """

    generations: Annotated[int, whole_number(0, MOST_GENERATIONS), Form("Answers to a prompt", group="train")] = 8
    """GRPO: answers to each prompt, at least 2 (TRL: num_generations). It must divide micro_batch × accumulation × GPUs."""
    completion_tokens: Annotated[asked.Tokens, Form("Answer, tokens", "completion", group="train")] = 512
    """GRPO: tokens of an answer at most; the rest of `sequence_tokens` is for the prompt."""
    mean_completion_tokens: Annotated[
        asked.TokensOrNone, Form("Answer, mean tokens", "meancompletion", group="train", info="0: all reach the limit")
    ] = 0
    """GRPO: mean tokens of an answer, which decides the time; 0 counts every answer at `completion_tokens`."""
    rollouts: Annotated[Rollouts, one_of(ROLLOUTS, Rollouts), Form("Answers are written by", group="train")] = "transformers"
    """GRPO: transformers (the trainer's own model), vllm-colocate (vLLM on the training GPUs) or vllm-server (vLLM on other GPUs)."""
    rollout_share: Annotated[float, number(0.05, 0.95), Form("vLLM's share of a GPU", "vllmshare", group="train")] = 0.3
    """GRPO with vllm-colocate: share of each GPU's memory that vLLM takes, raised where weights and one answer need more."""
    rollout_sleep: Annotated[asked.Flag, Form("vLLM sleeps during the update", "vllmsleep", group="train")] = False
    """GRPO with vllm-colocate: whether vLLM frees its weights and cache while the policy is scored and updated."""
    rollout_tensor_parallel: Annotated[int, whole_number(1, MOST_ROLLOUT_DEVICES)] = 1
    """GRPO with vllm-colocate: training GPUs over which a vLLM splits each layer (TRL: vllm_tensor_parallel_size). It must divide the
    GPUs, and hardware with several is then needed. 1: each GPU has a whole vLLM."""
    rollout_devices: Annotated[int, whole_number(1, MOST_ROLLOUT_DEVICES), Form("GPUs of vLLM", "vllmgpus", group="train")] = 1
    """GRPO with vllm-server: GPUs of vLLM, in addition to those that train."""
    beta: Annotated[float, number(0, 10), Form("KL weight (beta)", group="train")] = 0.0
    """GRPO: weight of the KL term. Above 0 a reference model scores too: a second model, or the same one with its adapters off."""
    card_bytes: int = 0
    """Usable memory of the card, of which vLLM takes a share; 0: not known."""
    value_model: bool = False
    """Whether a value model of the same size is trained too, as PPO does. No argument sets it; the name of the objective does."""

    @property
    def traits(self) -> RolloutTraits:
        """Properties of the chosen way."""
        return ROLLOUT_TRAITS[self.rollouts]


AS_TRL = RolloutRequest()
"""TRL's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRequest(Request):
    """Pairs of texts with hard negatives, for embedding models and rerankers. Other objectives ignore it."""

    negatives: Annotated[int, whole_number(0, MOST_NEGATIVES), Form("Hard negatives of a pair", group="train")] = 0
    """contrastive and rerank: hard negatives of each pair, a sequence each. The other rows of the micro-batch are negatives in any case
    of contrastive."""
    cached_batch: Annotated[int, whole_number(1, asked.MAX_BATCH), Form("Sequences at a time", "cachedbatch", group="train")] = 32
    """contrastive-cached: sequences whose activations are held at a time (sentence-transformers: mini_batch_size)."""


ONE_PAIR = PairsRequest()
