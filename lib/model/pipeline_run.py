"""One run of a pipeline on the meta device: its peaks of temporary tensors by stage, and its FLOP.

The pipeline is the real one: the class of diffusers that a denoiser belongs to, made of the real denoiser and VAE, is called as a visitor
calls it, for one step. What it does around its modules is then not retold here: how guidance is batched, how latents are packed, that a
VAE is put into float32, that frames are decoded a few at a time. Two things are substitutes. The scheduler hands latents on (its arithmetic
is that of one addition, and the real ones ask for values, which the meta device has not). The text encoders are run by themselves, and the
pipeline is given embeddings of the shape that they would make.

Attention allocates what the CUDA kernels allocate (`lib.model.allocations`). Limits: kernels' own scratch memory (cuDNN's) is not
seen; a prompt fills the length that the pipeline pads to.

Source: diffusers as installed (checked with 0.42.1, 2026-11-22).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import diffusers
import numpy as np
import torch
from torch import Tensor, device, empty, no_grad, zeros
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from lib.errors import UnsupportedModel
from lib.model.allocations import GpuKernels, Polynomial, StorageRecorder
from lib.model.build import LOCK
from lib.model.meta_device import Lengths, MetaRun, has_argument, position_limit, without_values
from lib.model.pipeline_prompts import CLIP_TOKENS, find_class, find_pipeline, make_embeddings
from lib.model.spec import DENOISERS

if TYPE_CHECKING:
    from torch.nn import Module

    from lib.model.build import BuiltModel

BUDGET = 150_000
"""Torch calls that one step and the decoding after it may make. Wan with 81 frames needs some 25 thousand."""


_FRAMES = frozenset({"num_frames", "video_length", "frames"})
"""Names of the argument that says how many frames a call makes."""


class _Settings(dict[str, Any]):
    """Settings of a scheduler: unstated ones are absent."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class _Captured(Exception):
    """The denoiser was called: nothing after that is wanted."""


class _Step(NamedTuple):
    """A step's result, which some pipelines index and others ask by name."""

    prev_sample: Any
    pred_original_sample: Any


class _OneStep:
    """A scheduler of a single step that adds the prediction to the latents."""

    order = 1
    init_noise_sigma = 1.0
    config = _Settings(num_train_timesteps=1000, prediction_type="epsilon", steps_offset=1, clip_sample=False)

    def set_timesteps(self, *_: Any, timesteps: Any = None, sigmas: Any = None, **__: Any) -> None:  # noqa: ARG002 the names are asked for
        """A timestep, the same for every request; pipelines look whether both names are there."""
        self.timesteps = empty(1, device="meta")
        self.sigmas = empty(2, device="meta")

    def set_begin_index(self, *_: Any) -> None:
        """Nothing to count."""

    def scale_model_input(self, sample: Tensor, *_: Any) -> Tensor:
        """The latents as they are."""
        return sample

    def step(self, prediction: Any, _time: Any, sample: Any, *_: Any, **__: Any) -> _Step:
        """The latents after the step; a prediction of the picture itself for those that ask for one."""
        if isinstance(prediction, Tensor) and prediction.shape == sample.shape:
            sample = sample + prediction.to(sample.dtype)
        return _Step(sample, sample)


class _Kernels(GpuKernels):
    """Counts the FLOP of attention before it is replaced by its allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As the kernels; attention is counted too."""
        if func is torch.nn.functional.scaled_dot_product_attention:
            arguments = dict(zip(("query", "key", "value"), args, strict=False)) | (kwargs or {})
            shapes = (arguments[name].shape for name in ("query", "key", "value"))
            self.flop += sdpa_flop_count(*((1,) * (4 - len(shape)) + shape for shape in shapes))  # type: ignore[no-untyped-call]  # torch's
        return super().__torch_function__(func, types, args, kwargs)


_ACTIVATIONS = {
    torch.ops.aten.mm.default: (0,),
    torch.ops.aten.addmm.default: (1,),
    torch.ops.aten.bmm.default: (0, 1),
    torch.ops.aten.baddbmm.default: (1, 2),
    torch.ops.aten.convolution.default: (0,),
}
"""The arguments of a product that are activations; the others are weights."""


def _count_bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


class _Recorder(StorageRecorder):  # type: ignore[no-untyped-call]  # torch's
    """Records storages with their sizes in bytes and the FLOP of matrix products and convolutions; a question for a value gets 0.

    `product_bytes` are the bytes of activations that these products read and write, with the copies of layouts below.

    cuDNN's kernels for tensor cores read and write channels last, so that a convolution of contiguous pictures copies its input and its
    output. That is inferred from peaks: without the copies, published ones of SD 1.5, SDXL and FLUX.1 are 0.9-1.0 GiB a megapixel higher
    (github.com/siliconflow/onediff, 2024-07 and 2024-11), with them they agree within 5 %.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__(weights, Lengths(1, 1, 1), BUDGET)
        self.flop = 0
        self.product_bytes = 0

    def bytes_alive(self) -> list[int]:
        """Bytes alive right after each storage appeared, in the order of appearance."""
        changes = np.zeros(2 * self.operations + 2, dtype=np.int64)
        ends = [(end, size) for end, size in zip(self._deaths, self.sizes, strict=True) if end is not None]
        np.add.at(changes, 2 * np.array(self._births, dtype=int), self.sizes)
        np.subtract.at(changes, [2 * end + 1 for end, _ in ends], [size for _, size in ends])
        return [int(total) for total in np.cumsum(changes)[2 * np.array(self._births, dtype=int)]]

    def _law_of(self, tensor: Tensor, size: int) -> Polynomial:  # noqa: ARG002 as the base has it
        """Sizes are wanted as numbers here."""
        return {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record the operation and count its FLOP."""
        if func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001 torch's name for item()
            return 0
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.aten.convolution.default and args[1].shape[-1] > 1:
            copies = [empty(t.numel(), dtype=t.dtype) for t in (args[0], result)]
            for copy in copies:
                self._follow(copy)
            self.product_bytes += 2 * _count_bytes(copies)
            del copies, copy
        count = flop_registry.get(func._overloadpacket)  # noqa: SLF001 as torch's own counter does
        if count is not None:
            self.flop += count(*args, **(kwargs or {}), out_val=result)
            self.product_bytes += _count_bytes([result, *(args[k] for k in _ACTIVATIONS.get(func, ()))])
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A call: pictures (or clips) at once, their size in pixels, frames (0: a picture), and whether they are guided.

    0 in a size leaves it to the pipeline's own default.
    """

    batch: int = 1
    height: int = 0
    width: int = 0
    frames: int = 0
    guided: bool = True


@dataclass(slots=True)
class StageRun:
    """Bytes of temporary tensors right after each operation of a stage that made some, and its FLOP.

    `attention_flop` of these are those of attention, `product_bytes` what the other products read and write of activations.
    """

    moments: list[int] = field(default_factory=list)
    flop: int = 0
    attention_flop: int = 0
    product_bytes: int = 0

    @property
    def peak(self) -> int:
        """The fullest moment, in bytes."""
        return max(self.moments, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """Work of a call: one step with everything before it, the decoding, and the size of its output (as batch, height, width, frames)."""

    denoise: StageRun
    decode: StageRun
    output: Shape


class MetaPipeline:
    """A pipeline of diffusers whose denoiser and VAE are on the meta device; `call` runs it, `decode` its VAE alone."""

    def __init__(self, parts: Mapping[str, Module]) -> None:
        """Put the pipeline together."""
        denoiser = next((parts[name] for name in DENOISERS if name in parts), None)
        self.vae: Any = parts.get("vae")
        if denoiser is None or self.vae is None:
            raise UnsupportedModel("Without a denoiser and a VAE a pipeline cannot be run.")
        self.denoiser: Any = denoiser
        self._parts = parts
        self._size = 0, 0
        self._row = find_pipeline(denoiser)
        self._class = find_class(self._row)
        self._arguments = inspect.signature(self._class.__call__).parameters
        self._pipeline = self._construct()
        self.spatial, self.temporal = self._compression()

    def _construct(self) -> Any:
        values: dict[str, Any] = {"requires_safety_checker": False, "add_watermarker": False, "scheduler": _OneStep()} | dict(self._parts)
        values["guider"] = diffusers.ClassifierFreeGuidance()  # type: ignore[no-untyped-call]  # diffusers
        accepted = inspect.signature(self._class.__init__).parameters
        required = [n for n, p in accepted.items() if n != "self" and p.default is p.empty]
        with _loose_registration():
            pipeline = self._class(**(dict.fromkeys(required) | {n: v for n, v in values.items() if n in accepted}))
        pipeline.set_progress_bar_config(disable=True)
        pipeline.check_inputs = lambda *_, **__: None  # some refuse a scale that guides nothing, or texts next to embeddings
        for module in self.vae.modules():
            if hasattr(module, "prepare_causal_attention_mask"):  # fills the mask row by row, with a call for each position
                module.prepare_causal_attention_mask = _empty_mask
        if hasattr(pipeline, "_unpack_latents_with_ids"):  # reads height and width from the values of a tensor
            pipeline._unpack_latents_with_ids = self._unpack  # noqa: SLF001 there is no other way in
        if hasattr(pipeline, "_pad_text"):  # reads the longest length from the values of a tensor; here all have one length
            pipeline._pad_text = _stack_prompts  # noqa: SLF001 as above
        return pipeline

    def _unpack(self, latents: Tensor, *_: Any) -> Tensor:
        """Latents (batch, channels, height, width) from a row of patches, by the size that was asked for."""
        height, width = ((side or self._pipeline.default_sample_size * self.spatial) // self.granularity for side in self._size)
        return latents.transpose(1, 2).reshape(latents.shape[0], -1, height, width)

    def _compression(self) -> tuple[int, int]:
        """Pixels of a side, and frames, of one latent."""
        pipeline = self._pipeline
        spatial = ("vae_scale_factor_spatial", "vae_spatial_compression_ratio", "vae_spatial_scale_factor", "vae_scale_factor")
        temporal = ("vae_scale_factor_temporal", "vae_temporal_compression_ratio", "vae_temporal_scale_factor")
        factors = [next((int(v) for n in names if (v := getattr(pipeline, n, None))), 0) for names in (spatial, temporal)]
        return factors[0] or 8, factors[1]

    @property
    def granularity(self) -> int:
        """Step of height and width: pixels of a side of one latent, times the latents of a side of one patch."""
        config = self.denoiser.config
        patch = getattr(config, "patch_size", None) or getattr(config, "all_patch_size", None) or 1
        side = int(patch[-1] if isinstance(patch, (list, tuple)) else patch)
        channels = getattr(self.vae.config, "latent_channels", None) or getattr(self.vae.config, "z_dim", 0)
        packed = 2 if channels and getattr(config, "in_channels", 0) == 4 * channels else 1
        return self.spatial * max(side, packed)

    @property
    def makes_clips(self) -> bool:
        """Whether a call says how many frames."""
        return bool(_FRAMES & self._arguments.keys())

    @property
    def denoiser_folder(self) -> str:
        """The folder of the denoiser."""
        return next(name for name in DENOISERS if name in self._parts)

    def default_shape(self) -> Shape:
        """Size and frames of a call that states neither, as a run of it shows."""
        return self.call(Shape(), torch.bfloat16).output

    @property
    def steps(self) -> int:
        """Steps of a call that does not say how many."""
        return int(self._arguments["num_inference_steps"].default)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a prompt is padded to; CLIP's where the pipeline does not say."""
        stated = self._arguments.get("max_sequence_length")
        return self._row.tokens or (int(stated.default) if stated is not None and stated.default else CLIP_TOKENS)

    def call(self, shape: Shape, dtype: torch.dtype) -> PipelineRun:
        """Run one step and decode, with everything in this dtype."""
        for part in self._parts.values():
            part.to(dtype)
        self._size = shape.height, shape.width
        decode_start: dict[str, Any] = {}
        weights = [t for part in self._parts.values() for t in (*part.parameters(), *part.buffers())]
        recorder, kernels, decode = _Recorder(weights), _Kernels(), self.vae.decode

        def decode_noted(latents: Tensor, *args: Any, **kwargs: Any) -> Any:
            decode_start.setdefault("at", (len(recorder.sizes), recorder.flop, kernels.flop, recorder.product_bytes))
            return decode(latents, *args, **kwargs)

        self.vae.decode = decode_noted
        try:
            with _meta_run(recorder, kernels):
                output = self._pipeline(**self._inputs(shape, dtype), num_inference_steps=1, output_type="pt", return_dict=False)[0]
        finally:
            del self.vae.decode
        storages, product_flop, attention_flop, product_bytes = decode_start["at"]
        flop = product_flop + attention_flop
        moments = recorder.bytes_alive()
        return PipelineRun(
            denoise=StageRun(moments[:storages], flop, attention_flop, product_bytes),
            decode=StageRun(moments[storages:], recorder.flop + kernels.flop - flop),
            output=self._shape_of(output, shape),
        )

    def capture(self, shape: Shape, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that the denoiser is called with at this shape, without guidance: the tensors are on the meta device."""
        for part in self._parts.values():
            part.to(dtype)
        self._size = shape.height, shape.width
        captured: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def stop(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            captured.append((args, kwargs))
            raise _Captured

        handle = self.denoiser.register_forward_pre_hook(stop, with_kwargs=True)
        weights = [t for part in self._parts.values() for t in (*part.parameters(), *part.buffers())]
        try:
            with suppress(_Captured), _meta_run(_Recorder(weights), _Kernels()):
                inputs = self._inputs(replace(shape, guided=False), dtype)
                self._pipeline(**inputs, num_inference_steps=1, output_type="pt", return_dict=False)
        finally:
            handle.remove()
        return captured[0]

    def decode_by_tiles(self, latents: Tensor) -> StageRun:
        """Run the VAE alone on such latents, by tiles."""
        self.vae.to(latents.dtype)
        self.vae.enable_tiling()
        recorder, kernels = _Recorder([*self.vae.parameters(), *self.vae.buffers()]), _Kernels()
        try:
            with _meta_run(recorder, kernels):
                self.vae.decode(empty(latents.shape, dtype=latents.dtype), return_dict=False)
        finally:
            self.vae.disable_tiling()
        return StageRun(recorder.bytes_alive(), recorder.flop + kernels.flop)

    @property
    def tile_megapixels(self) -> float:
        """Size of the tiles that the VAE cuts large pictures into; 0 if it has none."""
        if not hasattr(self.vae, "enable_tiling"):
            return 0.0
        square = getattr(self.vae, "tile_sample_min_size", 0)
        height, width = (getattr(self.vae, f"tile_sample_min_{side}", square) for side in ("height", "width"))
        return float(height * width) / 1e6

    def _shape_of(self, output: Any, request: Shape) -> Shape:
        clips = self.temporal or output.ndim > 4  # noqa: PLR2004 (batch, frames, channels, height, width)
        frames = int(output.shape[1]) if clips and output.ndim > 4 else 1 if clips else 0  # noqa: PLR2004
        return Shape(batch=request.batch, height=int(output.shape[-2]), width=int(output.shape[-1]), frames=frames, guided=request.guided)

    def _inputs(self, shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
        """Arguments of a call: embeddings in place of prompts, and the sizes that are stated."""
        inputs = make_embeddings(self._row, self.denoiser.config, shape.batch, self.prompt_tokens, dtype)
        sizes = {"height": shape.height, "width": shape.width} | dict.fromkeys(_FRAMES, shape.frames)
        inputs |= {name: value for name, value in sizes.items() if value and name in self._arguments}
        if (guider := getattr(self._pipeline, "guider", None)) is not None:
            (guider.enable if shape.guided else guider.disable)()
        if not shape.guided:
            inputs |= {name: 0.0 for name in ("guidance_scale", "true_cfg_scale") if name in self._arguments}  # some guide above 0
        fixed = {"use_resolution_binning": False, "clean_caption": False, "enable_prompt_rewrite": False}
        return {name: value for name, value in (inputs | fixed).items() if name in self._arguments}


def run_encoder(built: BuiltModel, prompts: int, tokens: int) -> StageRun:
    """A text encoder on so many prompts, padded to the pipeline's length or to its own limit; pipelines ask for all hidden states."""
    model: Any = built.model
    length = min(tokens, position_limit(model) or tokens)
    recorder, kernels = _Recorder([*model.parameters(), *model.buffers()]), _Kernels()
    with _meta_run(recorder, kernels):
        options = {"output_hidden_states": True} | ({"use_cache": False} if has_argument(model, "use_cache") else {})
        model(input_ids=zeros(prompts, length, dtype=torch.long), **options)
    return StageRun(recorder.bytes_alive(), recorder.flop + kernels.flop)


def _empty_mask(n_frame: int, n_hw: int, dtype: torch.dtype, device: Any, batch_size: int | None = None) -> Tensor:  # noqa: ARG001 as called
    """A mask of attention over all positions of a clip, without its values."""
    mask = empty(n_frame * n_hw, n_frame * n_hw, dtype=dtype)
    return mask if batch_size is None else mask.unsqueeze(0).expand(batch_size, -1, -1)


def _stack_prompts(text_hiddens: list[Tensor], **_: Any) -> tuple[Tensor, Tensor]:
    """Embedded prompts of one length as one tensor, and their lengths."""
    return torch.stack(text_hiddens), empty(len(text_hiddens), dtype=torch.long)


@contextmanager
def _loose_registration() -> Iterator[None]:
    """A pipeline takes any object as a component while this lasts; else only classes of its list, and a substitute is none of them."""
    base: Any = diffusers.DiffusionPipeline
    before = base.register_modules

    def register(self: Any, **modules: Any) -> None:
        for name, module in modules.items():
            self.register_to_config(**{name: (None, None)})
            setattr(self, name, module)

    base.register_modules = register
    try:
        yield
    finally:
        base.register_modules = before


@contextmanager
def _meta_run(recorder: _Recorder, kernels: _Kernels) -> Iterator[None]:
    """A run without gradients on the meta device."""
    with LOCK, warnings.catch_warnings(), no_grad(), without_values(), MetaRun(0, BUDGET), kernels, device("meta"), recorder:
        warnings.simplefilter("ignore")
        yield
