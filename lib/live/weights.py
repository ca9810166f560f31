"""Random weights, made where they are used: a model built on the meta device gets memory, values and correct buffers on a device.

Nothing is downloaded and nothing crosses the bus. Speed and memory do not depend on the values, with three exceptions that are seen to
here: denormal numbers slow a CPU down (values are drawn around 0.02, and norms stay 1), equal rows would send every token to the same
experts (the noise repeats only after a prime number of values), and what is computed, not learned (the frequencies of rotary
positions, masks, windows) has to be as in any other run.

The last is done by `initialize_weights` of `transformers`, the way `from_pretrained` fills in what a checkpoint does not hold: matrices
are marked as loaded, and everything else, vectors and buffers, is initialised by the model's own code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.model.build import Built, build
from lib.model.inventory import held_in_fp32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from transformers import PreTrainedModel

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""What can be measured, and torch's words for it."""

BLOCK = 1_000_003  # prime: no width of a matrix divides it, so no two rows of one are equal
SPREAD = 0.02
_LOADED = "_is_hf_initialized"
_RUNS_OWN = frozenset({"output_attentions", "output_hidden_states", "return_dict", "return_dict_in_generate", "use_cache"})
"""Keys that say what a call keeps and returns; a measured run asks for that itself, as the prediction does."""


def on_meta(config: Mapping[str, Any], precision: str) -> Built:
    """The architecture without memory, in the dtype of the run; holds the build lock for as long as that takes.

    Raises:
        BadConfig: the file does not describe a model that can be constructed.
        UnsupportedModel: it needs remote code or a library that is not installed.
    """
    return build(_described(config), DTYPES[precision])


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of the model, those of its parts included, and nothing of how it is called."""
    kept = {key: value for key, value in config.items() if key not in _RUNS_OWN}
    return {key: _described(value) if isinstance(value, dict) else value for key, value in kept.items()}


def give_memory(built: Built, precision: str, device: str, seed: int = 0) -> PreTrainedModel:
    """Put the built model on the device with random weights; tied tensors stay one. The build is used up.

    Parameters get the dtype that a load in this precision gives them: some stay in float32.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    model, kept = built.model, held_in_fp32(built)
    noise = torch.empty(BLOCK, device=device, dtype=getattr(torch, DTYPES[precision]))
    noise.normal_(0.0, SPREAD, generator=torch.Generator(device=device).manual_seed(seed))
    made: dict[int, Tensor] = {}
    for prefix, module in model.named_modules():
        module.__dict__.pop(_LOADED, None)
        for name, held in module.named_parameters(recurse=False):
            always, in_fp16 = kept(f"{prefix}.{name}" if prefix else name)
            dtype = torch.float32 if always or (in_fp16 and precision == "fp16") else held.dtype
            module._parameters[name] = made.setdefault(id(held), _filled(held, dtype, device, noise))  # noqa: SLF001
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = made.setdefault(id(buffer), torch.zeros_like(buffer, device=device))  # noqa: SLF001
    model.initialize_weights()  # type: ignore[no-untyped-call]
    return model.eval()  # type: ignore[no-any-return, no-untyped-call]


def _filled(held: Tensor, dtype: Any, device: str, noise: Tensor) -> Tensor:
    """A parameter on the device: a matrix full of noise and marked as loaded; a vector left to the model's own initialisation."""
    import torch  # noqa: PLC0415 loaded when first needed

    filled = torch.nn.Parameter(torch.empty(held.shape, dtype=dtype, device=device), requires_grad=False)
    if held.ndim < 2:  # noqa: PLR2004 norms, biases and what has a meaning as a number
        filled.zero_()
        return filled
    flat = filled.view(-1)
    for start in range(0, flat.numel(), noise.numel()):
        part = flat[start : start + noise.numel()]
        part.copy_(noise[: part.numel()])
    setattr(filled, _LOADED, True)
    return filled
