"""One timed run of a model with random weights: `generate` with its own cache, greedy, one sequence; else one forward pass.

`generate` hands each token to a streamer after it was copied to the host, which waits for the device, so the times between tokens need no
events. The first interval ends with the first token (TTFT); the others are decode steps.

The model is built on the meta device and then gets memory and values; nothing is downloaded. Speed and memory do not depend on the values,
with three exceptions. Denormal numbers slow a CPU down, so values are around 0.02 and norms stay 1. Equal rows would send every token to
the same experts, so the noise repeats only after a prime number of values. Computed buffers (rotary frequencies, masks, windows) must be
right. For the last, `initialize_weights` of `transformers` fills them as `from_pretrained` does: matrices are marked as loaded, vectors and
buffers are initialised by the model's own code.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.live.limits import WARM_PROMPT, WARM_TOKENS
from lib.model.build import BuiltModel, build
from lib.model.parameters import build_fp32_test
from lib.precision import TORCH_DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """Seconds to the first token (or of the whole pass), and of each decode step; () if nothing is decoded."""

    ttft_s: float
    steps_s: tuple[float, ...]

    @property
    def decode_tokens_per_s(self) -> float | None:
        """From the median step: one that the machine interrupted does not count."""
        return 1 / statistics.median(self.steps_s) if self.steps_s else None

    @property
    def mean_tokens_per_s(self) -> float | None:
        """From all steps together."""
        return len(self.steps_s) / sum(self.steps_s) if self.steps_s else None


class _Clock:
    """A streamer that notes when each token came; the first call is the prompt."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self._prompt = True

    def put(self, value: object) -> None:  # noqa: ARG002 the streamer's interface
        """A token has reached the host."""
        if self._prompt:
            self._prompt = False
        else:
            self.at.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is held back."""


def generates_tokens(model: PreTrainedModel) -> bool:
    """Whether the model answers token ids with tokens: sounds and pictures to text are one forward pass here."""
    from lib.model.meta_device import has_argument  # noqa: PLC0415 loaded when first needed

    return bool(model.can_generate()) and model.main_input_name == "input_ids" and has_argument(model, "input_ids")


def _ids(model: PreTrainedModel, tokens: int, device: str) -> Tensor:
    """Different tokens: one and the same would always go to the same experts."""
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.model.build import word_table  # noqa: PLC0415

    table: Any = word_table(model)
    words = int(getattr(table, "num_embeddings", 0) or getattr(model.config.get_text_config(), "vocab_size", 0) or 2)
    order = torch.Generator().manual_seed(0)
    return torch.randint(0, words, (1, tokens), generator=order).to(device)


@contextmanager
def _synchronize_around(device: str) -> Iterator[None]:
    """All that was sent to the device before is done, and so is all that is sent within."""
    import torch  # noqa: PLC0415 loaded when first needed

    if device != "cpu":
        torch.cuda.synchronize()
    yield
    if device != "cpu":
        torch.cuda.synchronize()


def _generate(model: PreTrainedModel, prompt_tokens: int, output_tokens: int, device: str) -> RunTimes:
    import torch  # noqa: PLC0415 loaded when first needed
    from transformers import GenerationConfig  # noqa: PLC0415

    own = model.config
    start = getattr(own, "decoder_start_token_id", None) or getattr(own, "pad_token_id", None) or 0
    start = start if isinstance(start, int) else 0
    config = GenerationConfig(
        max_new_tokens=output_tokens,
        do_sample=False,
        use_cache=True,
        eos_token_id=None,  # random weights may write any token, and the run must not end early
        pad_token_id=0,
        bos_token_id=0,
        decoder_start_token_id=start if own.is_encoder_decoder else None,
    )  # type: ignore[no-untyped-call]
    model.generation_config = config
    ids, clock = _ids(model, prompt_tokens, device), _Clock()
    with torch.inference_mode(), _synchronize_around(device):
        began = time.perf_counter()
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=clock)  # type: ignore[operator]
    first, *later = clock.at
    return RunTimes(ttft_s=first - began, steps_s=tuple(b - a for a, b in zip([first, *later], later, strict=False)))


def _forward(model: PreTrainedModel, prompt_tokens: int, device: str) -> RunTimes:
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.model.meta_device import Lengths, prefill_inputs  # noqa: PLC0415

    inputs = prefill_inputs(model, Lengths(1, prompt_tokens, prompt_tokens))
    inputs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    if "input_ids" in inputs:
        inputs["input_ids"] = _ids(model, prompt_tokens, device)
    with torch.inference_mode():
        with _synchronize_around(device):
            began = time.perf_counter()
            output = model(**inputs)
        ended = time.perf_counter()
    del output
    return RunTimes(ttft_s=ended - began, steps_s=())


def time_run(model: PreTrainedModel, prompt_tokens: int, output_tokens: int, device: str) -> RunTimes:
    """Run the model once; `device` is torch's name of where its weights are."""
    if generates_tokens(model):
        return _generate(model, prompt_tokens, output_tokens, device)
    return _forward(model, prompt_tokens, device)


def warm_up(model: PreTrainedModel, prompt_tokens: int, device: str) -> None:
    """A short run, so that the timed one loads no library, compiles no kernel and allocates no workspace."""
    time_run(model, min(prompt_tokens, WARM_PROMPT), WARM_TOKENS, device)


BLOCK = 1_000_003  # prime: no width of a matrix divides it, so no two rows of one are equal
SPREAD = 0.02
_LOADED = "_is_hf_initialized"
_RUNS_OWN = frozenset({"output_attentions", "output_hidden_states", "return_dict", "return_dict_in_generate", "use_cache"})
"""Keys that say what a call keeps and returns; a measured run asks for that itself, as the prediction does."""


def build_on_meta(config: Mapping[str, Any], precision: str) -> BuiltModel:
    """The architecture without memory, in the dtype of the run; holds the build lock for as long as that takes."""
    return build(_without_quantization(config), TORCH_DTYPES[precision])


def _without_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    """The file's statements about the model and its parts, without its names."""
    described = {key: value for key, value in config.items() if key not in _RUNS_OWN}
    return {key: _without_quantization(value) if isinstance(value, dict) else value for key, value in described.items()}


def give_memory(built: BuiltModel, precision: str, device: str, seed: int = 0) -> PreTrainedModel:
    """Put the built model on the device with random weights; tied tensors stay one. The build is used up.

    Parameters get the dtype that a load in this precision gives them: some stay in float32.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    model, is_fp32 = built.model, build_fp32_test(built)
    noise = torch.empty(BLOCK, device=device, dtype=getattr(torch, TORCH_DTYPES[precision]))
    noise.normal_(0.0, SPREAD, generator=torch.Generator(device=device).manual_seed(seed))
    copies: dict[int, Tensor] = {}
    for prefix, module in model.named_modules():
        module.__dict__.pop(_LOADED, None)
        for name, parameter in module.named_parameters(recurse=False):
            always, in_fp16 = is_fp32(f"{prefix}.{name}" if prefix else name)
            dtype = torch.float32 if always or (in_fp16 and precision == "fp16") else parameter.dtype
            module._parameters[name] = copies.setdefault(id(parameter), _random_like(parameter, dtype, device, noise))  # noqa: SLF001
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = copies.setdefault(id(buffer), torch.zeros_like(buffer, device=device))  # noqa: SLF001
    model.initialize_weights()  # type: ignore[no-untyped-call]
    return model.eval()  # type: ignore[no-any-return, no-untyped-call]


def _random_like(tensor: Tensor, dtype: Any, device: str, noise: Tensor) -> Tensor:
    """A parameter on the device: a matrix full of noise and marked as loaded; a vector left to the model's own initialisation."""
    import torch  # noqa: PLC0415 loaded when first needed

    filled = torch.nn.Parameter(torch.empty(tensor.shape, dtype=dtype, device=device), requires_grad=False)
    if tensor.ndim < 2:  # noqa: PLR2004 norms, biases and what has a meaning as a number
        filled.zero_()
        return filled
    flat = filled.view(-1)
    for start in range(0, flat.numel(), noise.numel()):
        part = flat[start : start + noise.numel()]
        part.copy_(noise[: part.numel()])
    setattr(filled, _LOADED, True)
    return filled
