"""Activations on one device, and what training holds besides.

Where the model's forward pass was traced, `transformers` is counted by the trace (`ActivationFit`); elsewhere, and for the other engines,
by the laws of plain decoders (`lib.laws.activation`). Training adds kept activations, gradients, optimizer states and adapters
(`lib.laws.training`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lib.engines import traits_of
from lib.laws import Law, training
from lib.laws import activation as law
from lib.laws.parallelism import ceil_divide, head_share
from lib.memory.resolve import layer_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import ActivationFit, ModelSpec

SEQUENCES = 256  # of vLLM's profile run; the others are taken to sample as many


def traced_kernel(spec: ModelSpec, element_bytes: int) -> Literal["sdpa", "eager"] | None:
    """The kernel that `transformers` takes by itself: sdpa where the model has it; None without a trace."""
    kernels = {fit.kernel for fit in spec.activations if fit.element_bytes == element_bytes}
    return "sdpa" if "sdpa" in kernels else "eager" if kernels else None


def _quick(fit: ActivationFit, encoder_tokens: int) -> Callable[[int, int], float]:
    """The traced form with what does not change folded together; 0 below the length from which it holds."""
    fixed = fit.per_sequence + (fit.per_encoder_token + fit.per_encoder_token_squared * encoder_tokens) * encoder_tokens
    constant, position, mask, token, square, start = (
        fit.constant, fit.per_position, fit.mask, fit.per_token, fit.per_token_squared, fit.from_tokens,
    )  # fmt: skip

    def form(tokens: int, batch: int) -> float:
        if tokens < start:
            return 0.0
        return constant + tokens * (position + mask * tokens) + batch * (fixed + tokens * (token + square * tokens))

    return form


class Activation:
    """Bytes on one device as a function of tokens and batch, and how they came about."""

    def __init__(self, spec: ModelSpec, request: ResolvedRequest) -> None:
        self._request = request
        self._start_up = traits_of(request.engine).start_up
        self._sizes = layer_sizes(spec)
        self._diffusion = spec.library == "diffusers"
        self.kernel = traced_kernel(spec, request.element_bytes)
        self._fits = self._of(spec, self.kernel)
        self._with_scores = self._of(spec, "eager") if self._may_hold_scores(spec) else ()
        self.by_law = not self._fits or self._start_up != "forward pass" or request.mode != "inference"

    def _of(self, spec: ModelSpec, kernel: str | None) -> tuple[Callable[[int, int], float], ...]:
        of = self._request
        return tuple(_quick(f, of.encoder_tokens) for f in spec.activations if f.kernel == kernel and f.element_bytes == of.element_bytes)

    def _may_hold_scores(self, spec: ModelSpec) -> bool:
        shared = spec.dimensions.kv_heads < spec.dimensions.attention_heads
        inference = self._request.mode == "inference" and traits_of(self._request.engine).own_modules
        return inference and shared and self.kernel == "sdpa" and self._request.shared_heads_need_scores

    def scores(self, tokens: int, batch: int) -> int:
        """Additional bytes of an older torch on this silicon, a device: scores of all tokens, where no fused kernel takes shared heads."""
        if not self._with_scores:
            return 0
        return max(0, round(max(f(tokens, batch) for f in self._with_scores)) - self.bytes(tokens, batch))

    @property
    def law(self) -> Law:
        """The law that gives the bytes."""
        if self._request.mode != "inference":
            return training.LAW
        if self._start_up == "profile run":
            return law.PROFILE_RUN
        if self._start_up == "compute buffer":
            return law.COMPUTE_BUFFER
        return law.TRACED_MOMENTS if self._fits else law.PREFILL

    @property
    def known(self) -> bool:
        """Whether the sizes are the model's own, or those of a typical decoder."""
        return self._sizes.known

    @property
    def inputs(self) -> dict[str, str]:
        """Symbols of the law with their values."""
        if self._diffusion and self._request.mode == "inference":
            return {}
        s = self._sizes
        symbols = {"h": f"{s.hidden:,}", "f": f"{s.mlp_width:,}", "V": f"{s.vocabulary:,}"}
        if self._start_up == "profile run" and self._request.mode == "inference":
            symbols |= {"M": str(self._request.profiled_tokens), "S": str(self._sampled)}
        return symbols | {"attention": self.kernel} if self.kernel and not self.by_law else symbols

    @property
    def _sampled(self) -> int:
        """Sequences that are sampled at once; an engine without a cache samples none."""
        return 0 if traits_of(self._request.engine).cache == "none" else SEQUENCES

    def bytes(self, tokens: int, batch: int) -> int:
        """Peak on one device; 0 for a diffusion pipeline, of which no law here knows the resolution."""
        if self._diffusion:
            return 0
        if self._start_up == "forward pass":
            if self._fits:
                return max(0, round(max(f(tokens, batch) for f in self._fits)))
            return self._plain(tokens, batch)
        return self._buffer

    @cached_property
    def _buffer(self) -> int:
        """Bytes that other engines set aside at start, independent of the length."""
        if self._start_up == "compute buffer":
            return law.compute_buffer_bytes(hidden=self._sizes.hidden, vocabulary=self._sizes.vocabulary)
        return self._profile_run()

    def _plain(self, tokens: int, batch: int) -> int:
        s = self._sizes
        return law.prefill_bytes(
            tokens=tokens, batch=batch, element_bytes=self._request.element_bytes, hidden=s.hidden, query_width=s.query_width,
            key_width=s.key_width, mlp_width=s.mlp_width, heads=s.heads, vocabulary=s.vocabulary,
        )  # fmt: skip

    def _profile_run(self) -> int:
        s, n = self._sizes, self._request.devices
        return law.paged_engine_bytes(
            batched_tokens=self._request.profiled_tokens,
            sequences=self._sampled, element_bytes=self._request.element_bytes, hidden=s.hidden, query_width=ceil_divide(s.query_width, n),
            key_width=ceil_divide(s.key_width, head_share(kv_heads=s.kv_heads, devices=n)),
            mlp_width=ceil_divide(s.mlp_width, n), vocabulary=s.vocabulary,
        )  # fmt: skip

    def training(self, tokens: int, batch: int, *, checkpointing: bool = True) -> dict[str, int]:
        """Activations of fine-tuning: kept for the backward pass, and logits of every token."""
        s, b = self._sizes, self._request.element_bytes
        count = tokens * batch
        layer = training.layer_bytes(
            tokens=count, element_bytes=b, hidden=s.hidden, query_width=s.query_width, key_width=s.key_width, mlp_width=s.mlp_width
        )
        kept = training.stored_activation_bytes(
            tokens=count, element_bytes=b, hidden=s.hidden, layers=s.layers, layer=layer, checkpointing=checkpointing
        )
        return {"kept activations": kept, "logits and loss": training.loss_bytes(tokens=count, vocabulary=s.vocabulary, element_bytes=b)}


ADAPTER_RANK = 16
_FLOAT32 = 4


def adapter_parameters(spec: ModelSpec) -> int:
    """Parameters of LoRA with rank 16 on every plain matrix of the stack; experts, tables and the head stay as they are."""
    shapes: dict[tuple[int, int], int] = {}
    for group in spec.tensors:
        if group.kind == "linear" and len(group.shape) == 2:  # noqa: PLR2004 matrices
            rows, columns = group.shape
            shapes[rows, columns] = shapes.get((rows, columns), 0) + group.count
    return training.adapter_parameters(rank=ADAPTER_RANK, shapes=shapes)


def training_bytes(spec: ModelSpec, request: ResolvedRequest, activation: Activation, tokens: int, batch: int) -> dict[str, int]:
    """By what holds them, on one device: activations, and its share of gradients, moments, master copy and adapters."""
    activations = activation.training(tokens, batch)
    states = _full(spec.parameters_total, request.element_bytes) if request.mode == "full" else _adapted(adapter_parameters(spec))
    return activations | {name: ceil_divide(size, request.devices) for name, size in states.items()}


def _full(count: int, width: int) -> dict[str, int]:
    """States when every parameter is trained."""
    return {
        "gradients": training.gradient_bytes(parameters=count, element_bytes=width),
        "optimizer": training.optimizer_bytes(parameters=count),
        "master weights": training.master_bytes(parameters=count, element_bytes=width),
    }


def _adapted(count: int) -> dict[str, int]:
    """Adapters in float32 with their states."""
    return {
        "adapters": count * _FLOAT32,
        "gradients": training.gradient_bytes(parameters=count, element_bytes=_FLOAT32),
        "optimizer": training.optimizer_bytes(parameters=count),
    }


def half_precision_states_saving(spec: ModelSpec, request: ResolvedRequest) -> int:
    """Bytes that full training in 16 bits saves, on one device, when moments are kept in 16 bits too and there is no master copy."""
    if request.mode != "full" or request.element_bytes == _FLOAT32:
        return 0
    count = spec.parameters_total
    states = training.optimizer_bytes(parameters=count) // 2 + training.master_bytes(parameters=count, element_bytes=request.element_bytes)
    return ceil_divide(states, request.devices)


def no_checkpointing_bytes(activation: Activation, tokens: int, batch: int) -> int:
    """Additional bytes that are kept, on one device, without gradient checkpointing."""
    without = activation.training(tokens, batch, checkpointing=False)
    return sum(without.values()) - sum(activation.training(tokens, batch).values())
