"""Activations on one device.

Where the model's forward pass was traced, `transformers` is counted by the trace (`ActivationFit`); elsewhere, and for the other engines,
by the laws of plain decoders (`lib.laws.activation`). What a training step takes is in `lib.memory.training`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lib.engines import traits_of
from lib.laws import Law, parallelism, training
from lib.laws import activation as law
from lib.laws.parallelism import ceil_divide, head_share
from lib.memory.resolve import layer_sizes, tower_bytes

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
        self._diffusion = spec.library in {"diffusers", "timm"}
        self.kernel = traced_kernel(spec, request.element_bytes)
        self._fits = self._of(spec, self.kernel)
        self._vision, self._before = spec.vision, request.media.tokens
        self._reads = (
            0 if spec.picture_pass and self._fits else request.media.read_positions
        )  # a trace took its own picture: T is the text's
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
        return max(0, round(max(f(tokens + self._before, batch) for f in self._with_scores)) - self.bytes(tokens, batch))

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
        if self._start_up == "compute buffer":
            symbols |= {"u": str(self._request.micro_batch), "flash attention": "yes" if self._request.flash_attention else "no"}
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
        waiting = self._request.media.waiting_features * batch * self._request.element_bytes
        return max(self._decoder(self._reads or tokens + self._before, batch) + waiting, self.tower(batch))

    def tower(self, batch: int) -> int:
        """Temporary tensors of the vision tower, which runs before the prompt is read; servers run it for one request at a time."""
        together = batch if self._start_up == "forward pass" else 1
        return tower_bytes(self._vision, self._request.media, together, self._request.element_bytes)

    def _decoder(self, tokens: int, batch: int) -> int:
        if self._start_up == "forward pass":
            if self._fits:
                return max(0, round(max(f(tokens, batch) for f in self._fits)))
            return self._plain(tokens, batch)
        return self._compute_buffer(tokens) if self._start_up == "compute buffer" else self._buffer

    @cached_property
    def _buffer(self) -> int:
        """Bytes that a run at start sets aside, independent of the length."""
        return self._profile_run()

    def _compute_buffer(self, tokens: int) -> int:
        """llama.cpp's buffer on the device that multiplies by the output matrix."""
        of, heads = self._request, 0 if self._request.flash_attention else self._sizes.heads
        return law.compute_buffer_bytes(
            hidden=self._sizes.hidden, vocabulary=self._sizes.vocabulary, context=tokens, heads=heads, micro_batch=of.micro_batch
        )

    def host_buffer(self, tokens: int) -> int:
        """llama.cpp's buffer on the host of a GPU."""
        return parallelism.host_buffer_bytes(
            hidden=self._sizes.hidden, context=tokens + self._before, micro_batch=self._request.micro_batch
        )

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
