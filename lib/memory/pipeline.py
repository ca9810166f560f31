"""Memory of a pipeline that makes pictures or clips, stage by stage.

    stage(s) = weights on the device while s runs + temporary tensors of s          peak = the fullest of encode, denoise, decode

Temporary tensors are the fits of the pipeline's runs on the meta device (`lib.model.diffusion`). Weights on the device, by offload:

    none         all components
    model        the component that runs (`enable_model_cpu_offload`)
    group        of that, the largest block and the modules outside blocks (`enable_group_offload`, one block at a time, no stream)
    sequential   of that, the largest module without children (`enable_sequential_cpu_offload`)

    sliced VAE   one picture is decoded at a time and every picture is kept: decode(1) + (B - 1) · o
    tiled VAE    decode of the tiles, and every tile and the whole are kept: decode(tile) + 2 · o
    o            bytes of the pictures: 3 · A · frames · bytes of an element

Source: diffusers 0.42.1 (`pipelines/pipeline_utils.py`, `hooks/group_offloading.py`, `models/autoencoders/autoencoder_kl.py`), read
2026-11-22. Limits: several devices hold whole components, none is split; overlaps of tiles are not counted twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from lib.errors import BadArgument
from lib.laws.pipeline import HOST_PROCESS_BYTES, byte_terms, latent_frames, sum_terms, work_terms
from lib.memory.components import group_bytes, sum_by_component
from lib.memory.media import resolve_media
from lib.model.picture_defaults import CardDefaults, find_card_defaults
from lib.model.spec import Pipeline
from lib.request.pictures import LONGEST_SIDE, MOST_FRAMES

if TYPE_CHECKING:
    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import ModelSpec
    from lib.request.media import MediaRequest
    from lib.workload import PipelineRequest

_CHANNELS = 3


class StageBytes(NamedTuple):
    """Bytes on the device while a stage runs."""

    name: Literal["encode", "denoise", "decode"]
    weights: dict[str, int]
    activation: int

    @property
    def total(self) -> int:
        """Weights and temporary tensors."""
        return sum(self.weights.values()) + self.activation


class OutputSize(NamedTuple):
    """Size of the output, in pixels and frames (0: a picture)."""

    width: int
    height: int
    frames: int

    @property
    def megapixels(self) -> float:
        """Pixels of a frame."""
        return self.width * self.height / 1e6


def resolve_size(spec: ModelSpec, request: PipelineRequest) -> OutputSize:
    """The requested size; missing values are the pipeline's own.

    Raises:
        BadArgument: a size that the pipeline cannot make, frames of a picture, or sizes for a model that makes none.
    """
    of = spec.pipeline
    if of is None:
        stated = next(((name, value) for name in ("width", "height", "frames") if (value := getattr(request, name))), None)
        if stated and spec.library != "diffusers":
            raise BadArgument(*stated, f"0, for {spec.id or 'this model'} makes no pictures or clips")
        return OutputSize(request.width, request.height, request.frames)
    card = find_card_defaults(spec.id) or _NOTHING_STATED
    size = OutputSize(request.width or card.width or of.width, request.height or card.height or of.height, request.frames or of.frames)
    step, frames = of.granularity, request.frames
    for name, side in (("width", size.width), ("height", size.height)):
        if side > LONGEST_SIDE:
            raise BadArgument(name, side, f"a multiple of {step} up to {LONGEST_SIDE // step * step:,} pixels, or 0 for the pipeline's own")
        if side % step:
            near = max(step, side // step * step)
            raise BadArgument(name, side, f"a multiple of {step}, as the VAE and its patches need, such as {near:,} or {near + step:,}")
    if frames and not of.frame_step:
        raise BadArgument("frames", frames, "0, for this pipeline makes pictures and not clips")
    if frames and (frames > MOST_FRAMES or (frames - 1) % of.frame_step):
        near = min(frames, MOST_FRAMES - 1) // of.frame_step * of.frame_step + 1
        raise BadArgument("frames", frames, f"1 more than a multiple of {of.frame_step}, up to {MOST_FRAMES:,}, such as {near:,}")
    return size


def check_media(spec: ModelSpec, pictures: PipelineRequest, media: MediaRequest) -> None:
    """Refuse sizes that the model neither makes nor takes, before anything is computed.

    Raises:
        BadArgument: as `resolve_size` and `resolve_media`.
    """
    resolve_size(spec, pictures)
    resolve_media(spec, media)


_NOTHING_STATED = CardDefaults(models=(), steps=0, guided=True, source="", checked="")


def is_guided(spec: ModelSpec, pictures: PipelineRequest) -> bool:
    """Whether the denoiser is asked with the prompt and without it in each step."""
    of = spec.pipeline
    card = find_card_defaults(spec.id) or _NOTHING_STATED
    return of is not None and of.guidance != "embedded" and pictures.guidance != "off" and card.guided


class PictureWork(NamedTuple):
    """FLOP of one picture or clip: of an evaluation of the denoiser, of the VAE; and how often the denoiser is asked.

    `attention_flop` are part of `flop`; the other products read and write `product_bytes_per_flop`. `sequential`: guidance asks the
    denoiser twice a step. `described` says steps and guidance, and whence they are.
    """

    flop: float
    attention_flop: float
    product_bytes_per_flop: float
    decoder_flop: float
    steps: int
    evaluations_per_step: int
    sequential: bool
    described: str


_LINEAR_TERMS = 3
"""Terms of the work that do not grow with the square of pixels or frames; the others are attention."""


def picture_work(spec: ModelSpec, size: OutputSize, pictures: PipelineRequest) -> PictureWork:
    """Work for one picture or clip of a pipeline that was run."""
    of = spec.pipeline
    assert of is not None  # noqa: S101 the callers look
    card = find_card_defaults(spec.id)
    terms = work_terms(size.megapixels, latent_frames(size.frames, of.frame_step))
    steps = pictures.steps or (card or _NOTHING_STATED).steps or of.steps
    guided = is_guided(spec, pictures)
    whence = "as asked" if pictures.steps else "as its model card" if card else "the pipeline's default"
    how = "guided" if guided else "guidance embedded" if of.guidance == "embedded" and card is None else "not guided"
    return PictureWork(
        flop=sum_terms(of.flop, terms),
        attention_flop=sum_terms(of.flop[_LINEAR_TERMS:], terms[_LINEAR_TERMS:]),
        product_bytes_per_flop=of.product_bytes_per_flop,
        decoder_flop=sum_terms(of.decoder_flop, terms) + of.encoder_flop,
        steps=steps,
        evaluations_per_step=2 if guided else 1,
        sequential=of.guidance == "sequential",
        described=f"{steps} step{'s' if steps > 1 else ''} ({whence}), {how}",
    )


class PipelineMemory:
    """The stages of a pipeline on one device, as a function of pictures or clips at once."""

    def __init__(self, spec: ModelSpec, of: Pipeline, request: ResolvedRequest) -> None:
        self._spec, self._of, self._request, self._pictures = spec, of, request, request.pictures
        self._guided = is_guided(spec, request.pictures)
        self.size = resolve_size(spec, request.pictures)
        self._frames = latent_frames(self.size.frames, of.frame_step)
        self._widths = 2 if request.compute_dtype == "fp32" else 1
        # The format is for the denoiser and, unless told otherwise, for text encoders; never for the VAE.
        sizes = (group_bytes(spec, name, request.compute_dtype, keeps_fp32=True) for name in (request.precision, request.compute_dtype))
        denoisers = {fit.component for fit in of.fits if fit.stage == "denoise"} | {"transformer_2"}
        quantizes_all = self._pictures.quantized == "all"
        self.tensor_bytes = tuple(
            formatted if group.component in denoisers or (quantizes_all and group.component != "vae") else plain
            for group, formatted, plain in zip(spec.tensors, *sizes, strict=True)
        )
        self.components = sum_by_component(spec, self.tensor_bytes)
        counts = spec.parameters_by_component
        self._per_parameter = {name: size / max(1, counts[name]) for name, size in self.components.items()}

    def all(self, batch: int) -> tuple[StageBytes, ...]:
        """Encode, denoise and decode, each with the component of it that takes most."""
        return tuple(max(self._candidates(stage, batch), key=lambda of: of.total) for stage in ("encode", "denoise", "decode"))

    def tiled_decoding(self, batch: int) -> tuple[int, int] | None:
        """Temporary bytes of the decoding whole and in tiles; None if tiles take no less, or were asked for."""
        if self._pictures.vae_tiling:
            return None
        pictures = replace(self._pictures, vae_tiling=True)
        tiled = PipelineMemory(self._spec, self._of, replace(self._request, pictures=pictures))
        now, then = (of.all(batch)[-1].activation for of in (self, tiled))
        return (now, then) if then < now else None

    @property
    def host_bytes(self) -> int:
        """Bytes in the host's memory: every component, also the one on the card, and the process; 0 without offload."""
        return 0 if self._pictures.offload == "none" else sum(self.components.values()) + HOST_PROCESS_BYTES

    def fullest(self, batch: int) -> StageBytes:
        """The stage that decides."""
        return max(self.all(batch), key=lambda of: of.total)

    def _candidates(self, stage: Literal["encode", "denoise", "decode"], batch: int) -> list[StageBytes]:
        fits = [fit for fit in self._of.fits if fit.stage == stage]
        own = [fit for fit in fits if fit.dtype == self._request.compute_dtype] or [fit for fit in fits if not fit.dtype]
        stages = []
        for component in dict.fromkeys(fit.component for fit in own):
            moments = [fit.coefficients for fit in own if fit.component == component]
            running = [component, "transformer_2"] if stage == "denoise" and "transformer_2" in self.components else [component]
            stages += [StageBytes(stage, self._resident(name), self._temporary(stage, moments, batch)) for name in running]
        return stages or [StageBytes(stage, self._resident(""), 0)]

    def _resident(self, component: str) -> dict[str, int]:
        """Weights on the device while a component runs."""
        offload = self._pictures.offload
        if offload == "none":
            return self.components
        if component not in self.components:
            return {}
        if offload == "model":
            return {component: self.components[component]}
        leaf, block, outside = self._of.units.get(component, (0, 0, 0))
        parameters = leaf if offload == "sequential" else block + outside
        return {component: round(parameters * self._per_parameter[component])}

    def _temporary(self, stage: str, moments: list[tuple[float, ...]], batch: int) -> int:
        def peak(pictures: float, megapixels: float) -> float:
            terms = byte_terms(pictures, megapixels, self._frames)
            return self._widths * max(sum_terms(coefficients, terms) for coefficients in moments)

        if stage == "denoise" and self._of.guidance == "batched" and not self._guided:
            return round(max(0.0, peak(batch / 2, self.size.megapixels)))
        if stage != "decode":
            return round(max(0.0, peak(batch, self.size.megapixels)))
        made = _CHANNELS * self.size.megapixels * 1e6 * max(1, self.size.frames) * self._request.element_bytes
        decoded_images = 1 if self._pictures.vae_slicing else batch
        decoded = peak(decoded_images, self.size.megapixels)
        if self._pictures.vae_tiling and 0 < self._of.tile < self.size.megapixels:
            decoded = min(decoded, peak(decoded_images, self._of.tile) + 2 * decoded_images * made)
        return round(max(0.0, decoded + (batch - decoded_images) * made))
