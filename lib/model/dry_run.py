"""A dry run: the real architecture executed under torch's `FakeTensorMode`, which gives tensors shapes and no values.

Every storage is followed from the operation that makes it to its release (`lib.model.allocations.MemoryTracker`), every product
is counted by torch's own formulas (`torch.utils.flop_counter.flop_registry`). The lengths are those that were asked for, so nothing is
fitted: this is the executed truth to compare with the closed forms of `lib.laws` and with the polynomials of
`lib.model.activations`. Few layers of each kind compute for all (`lib.model.layer_extrapolation`), with the operators of CUDA
unless the run is to be compared with one on a CPU (`kernels="cpu"`).

`torch.distributed._tools.MemTracker` follows storages in the same way and comes to the same peaks, of a prompt and of a training step, in
nine times the time (tests/model/test_dry_run.py). Under a bare `FakeTensorMode` both count more (8.7 % of a small Llama's step):
transformers then assumes a tracing compiler and builds a mask that an eager run does not build: `_eager` prevents that.

LoRA and 4-bit weights are as peft and bitsandbytes hold them, as far as memory and arithmetic go; neither library is needed to count them:

    peft    y = base(x) + B(A(x')) · s      x' is x in the adapter's dtype (float32 with 16-bit weights); y returns to that of base(x)
    bnb     y = x · dequantize(W)           W is unpacked to the compute dtype for each product, forward and backward; only packed W is kept

Source: peft `src/peft/tuners/lora/layer.py` (Linear.forward), bitsandbytes `bitsandbytes/autograd/_functions.py` (MatMul4Bit).
Limits: scratch memory inside kernels and the allocator's blocks are not seen; text only where a model takes text; questions for a
tensor's value are answered with 0, in training with 1 (nothing is padded, nothing packed).
"""

from __future__ import annotations

import contextlib
import re
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import torch
from torch import Tensor, long, nn, zeros
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.pytorch_utils import Conv1D
from transformers.utils import import_utils

from lib.errors import AdvisorError, BadArgument, UnsupportedModel
from lib.laws.activation import FLOAT32, HALF
from lib.laws.parallelism import ceil_divide
from lib.model import parameters
from lib.model.activations import last_scores, step_inputs
from lib.model.allocations import CudaOperators
from lib.model.build import LOCK, BuiltModel, build, output_head
from lib.model.cache_terms import cache_of
from lib.model.config import check_config
from lib.model.dry_run_figures import DryRun, InferenceRun, TrainingRun
from lib.model.layer_extrapolation import CounterSnapshot, Layer, LayerSkipper, RunCounter, at_full_depth, layers_of
from lib.model.meta_device import Lengths, MetaRun, has_argument, prefill_inputs, unchecked_distributions
from lib.workload import check_rank, check_targets, is_targeted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from transformers import PreTrainedModel

    from lib.workload import Optimizer, TrainingRequest

Kernels = Literal["gpu", "cpu"]
MOST_OPERATIONS = 60_000
_CALLS = 200_000
_WITH_LOSS = re.compile(r"For(CausalLM|MaskedLM|ConditionalGeneration|SpeechSeq2Seq)$|LMHeadModel$")
_STEPS = 2
_UNPADDED = 1
"""The answer to what a model without a cache asks of its mask and positions: is all of it attended to, is all of it one sequence."""
_WHOLE = 10


def _make_fake(model: PreTrainedModel) -> tuple[int, int]:
    """Give the model parameters and buffers that are fake; the bytes of each.

    Call it inside the mode. Shared ones stay shared.
    """
    fakes: dict[int, Tensor] = {}
    sizes = [0, 0]
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)  # noqa: SLF001 nn.Module has no other way to replace them
        for place, table in enumerate(tables):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in fakes:
                    fake: Tensor = torch.empty(tensor.shape, dtype=tensor.dtype)
                    if place == 0:
                        fake = nn.Parameter(fake, requires_grad=tensor.requires_grad)
                    fakes[id(tensor)] = fake
                    sizes[place] += fake.nbytes
                table[name] = fakes[id(tensor)]
    return sizes[0], sizes[1]


def dry_run(
    config: Mapping[str, Any],
    *,
    batch: int = 1,
    prompt_tokens: int = 512,
    output_tokens: int = 1,
    dtype: str = "bfloat16",
    training: TrainingRequest | None = None,
    kernels: Kernels = "gpu",
    whole: bool = False,
) -> DryRun:
    """Execute an architecture without values.

    Args:
        config: the parsed config.json.
        batch: sequences at once.
        prompt_tokens: of each sequence; of the encoder's input if there is one; of a training step, its sequence length.
        output_tokens: of the answer; the last step of decoding is executed at its end.
        dtype: of weights and arithmetic in inference; a training step names its own.
        training: the step to execute in place of an inference, with the plain loss on one device; of the request, `method`, `rank`,
            `target_modules`, `optimizer`, `precision`, `checkpointing` and `double_quantization` count.
        kernels: operators of a GPU, or those that this torch takes on a CPU.
        whole: whether every layer computes.

    Raises:
        BadArgument: no such batch, lengths beyond the model's limit, a rank or targets that do not fit.
        BadConfig: the configuration cannot be built.
        UnsupportedModel: it needs code or a library that is not here, has no loss over tokens, or cannot be executed without values.
    """
    check_config(config)
    for name, value in (("batch", batch), ("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        if value < 1:
            raise BadArgument(name, value, "a whole number from 1")
    stored = dtype if training is None else "bfloat16" if training.precision == "bf16" else "float32"
    built = build(config, stored)
    own = prompt_tokens if training is not None else output_tokens if built.config.is_encoder_decoder else prompt_tokens + output_tokens
    limit = parameters.context_limit(built)
    if limit is not None and own > limit:
        raise BadArgument("tokens", f"{own:,}", f"at most {limit:,}, the limit that the model's own configuration states")
    try:
        with LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if training is not None:
                return _run_training(built, training, Lengths(batch, prompt_tokens, prompt_tokens), kernels, whole=whole)
            return _run_inference(built, Lengths(batch, prompt_tokens, prompt_tokens), output_tokens, kernels, whole=whole)
    except AdvisorError:
        raise
    except Exception as error:
        refusal = f"{built.architecture} cannot be executed without values ({type(error).__name__})"
        raise UnsupportedModel(f"{refusal}. The closed forms of the estimate still answer; they do not need a run.") from error


@contextlib.contextmanager
def _no_values(kernels: Kernels, answer: int) -> Iterator[None]:
    """Inside the fake mode: no device but the CPU's name, questions for a value answered, the operators of a GPU."""
    operators: Any = CudaOperators() if kernels == "gpu" else contextlib.nullcontext()
    with _eager(), unchecked_distributions(), MetaRun(answer, budget=_CALLS, device_type="cpu"), operators:
        yield


@contextlib.contextmanager
def _eager() -> Iterator[None]:
    """Transformers takes fake tensors for a compiler that traces, and then builds masks that an eager run leaves out: not here."""
    own = import_utils.is_fake_tensor
    import_utils.is_fake_tensor = lambda x: False  # noqa: ARG005 the name is the function's
    try:
        yield
    finally:
        import_utils.is_fake_tensor = own


def _run_inference(built: BuiltModel, lengths: Lengths, output_tokens: int, kernels: Kernels, *, whole: bool) -> DryRun:
    model = built.model
    layers, budget = layers_of(model), MOST_OPERATIONS * (_WHOLE if whole else 1)
    with FakeTensorMode(allow_non_fake_inputs=True):
        weights, buffers = _make_fake(model)
        counter = RunCounter([*model.parameters(), *model.buffers()], budget)
        with at_full_depth(layers, counter, training=False, whole=whole) as depth, torch.no_grad(), _no_values(kernels, 0), counter:
            run = _generate(model, depth, lengths, output_tokens)
    return _result(built, layers, depth, weights, buffers, parameters=sum(p.numel() for p in model.parameters()), inference=run)


def _generate(model: PreTrainedModel, depth: LayerSkipper, lengths: Lengths, output_tokens: int) -> InferenceRun:
    """A prompt as `generate` reads it, and the last step of the answer."""
    counter = depth.counter
    start, cache, states = _prefill(model, depth, lengths)
    prefill, prompt_cache = counter.phase(start), counter.live_bytes
    if cache is None:
        return InferenceRun(prefill=prefill, decode=None, prompt_cache_bytes=0, cache_bytes=0)
    ahead = output_tokens - 1 - _STEPS
    if ahead > 0 and not model.config.is_encoder_decoder:
        del cache
        depth.stand_ins.clear()
        _, cache, states = _prefill(model, depth, lengths._replace(tokens=lengths.tokens + ahead))
    elif ahead > 0:
        ids, inputs = step_inputs(model, cache, states)
        depth.phase = "ahead"
        model(**inputs, **{ids: zeros(lengths.batch, ahead, dtype=long)})
    for step in range(_STEPS):  # the first lets go of what slices of the prompt's tensors kept alive
        depth.phase = f"step {step}"
        start = counter.begin()
        ids, inputs = step_inputs(model, cache, states)
        output = model(**inputs, **{ids: zeros(lengths.batch, 1, dtype=long)})
        last = last_scores(output)
        decode = counter.phase(start)
        del output, last, inputs
    return InferenceRun(prefill=prefill, decode=decode, prompt_cache_bytes=prompt_cache, cache_bytes=counter.live_bytes)


def _prefill(model: PreTrainedModel, depth: LayerSkipper, lengths: Lengths) -> tuple[CounterSnapshot, object, Any]:
    depth.phase = "prefill"
    start = depth.counter.begin()
    inputs = prefill_inputs(model, lengths)
    output = model(**inputs)
    last = last_scores(output) if "use_cache" in inputs else None
    cache = cache_of(output) if "use_cache" in inputs else None
    states = getattr(output, "encoder_last_hidden_state", None)
    del output, last, inputs
    return start, cache, states


def _check_loss(built: BuiltModel) -> None:
    model = built.model
    if not (_WITH_LOSS.search(built.architecture) and has_argument(model, "labels")):
        raise UnsupportedModel(
            f"{built.architecture} has no loss over tokens, so no training step of it is executed. Accepted: a model whose class ends in "
            "ForCausalLM, ForMaskedLM, ForConditionalGeneration or LMHeadModel."
        )


_OPTIMIZERS: Mapping[Optimizer, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adamw": lambda trained: torch.optim.AdamW(trained, fused=True),
    "adamw_foreach": lambda trained: torch.optim.AdamW(trained, foreach=True),
    "adafactor": torch.optim.Adafactor,
    "sgd": lambda trained: torch.optim.SGD(trained, lr=1.0),
}
"""Those of torch; the ones in 8 bits and paged are kernels of bitsandbytes, which are not here."""


def _check_step(training: TrainingRequest) -> None:
    """Refuse a method or an optimizer of which no module is here."""
    if training.method == "dora":
        raise BadArgument("method", training.method, "full, lora or qlora in a dry run")
    if training.optimizer not in _OPTIMIZERS:
        raise BadArgument("optimizer", training.optimizer, f"{', '.join(_OPTIMIZERS)} in a dry run")


def _run_training(built: BuiltModel, training: TrainingRequest, lengths: Lengths, kernels: Kernels, *, whole: bool) -> DryRun:
    _check_loss(built)
    _check_step(training)
    model = built.model
    layers, count = layers_of(model), sum(p.numel() for p in model.parameters())
    budget = MOST_OPERATIONS * (_WHOLE if whole else 1)
    if training.method == "full":
        model.requires_grad_(requires_grad=True)
    else:
        _adapt(model, training)
    model.train()
    model.config.use_cache = False
    if model.config.is_encoder_decoder and getattr(model.config, "decoder_start_token_id", None) is None:
        model.config.decoder_start_token_id = 0  # older files leave it to the generation config; any id makes the same shapes
    if training.checkpointing != "none":
        if not model.supports_gradient_checkpointing:
            raise UnsupportedModel(f"{built.architecture} has no gradient checkpointing in transformers. Ask without checkpointing.")
        # What recomputes does so from inside `backward`, where torch leaves the modes of functions out.
        again = {"context_fn": lambda: (contextlib.nullcontext(), _no_values(kernels, _UNPADDED))}
        model.activation_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False, **again})
    with FakeTensorMode(allow_non_fake_inputs=True):
        weights, buffers = _make_fake(model)
        counter = RunCounter([*model.parameters(), *model.buffers()], budget)
        with at_full_depth(layers, counter, training=True, whole=whole) as depth, _no_values(kernels, _UNPADDED), counter:
            run = _train(model, depth, training, lengths)
    return _result(built, layers, depth, weights, buffers, parameters=count, training=run)


def _train(model: PreTrainedModel, depth: LayerSkipper, training: TrainingRequest, lengths: Lengths) -> TrainingRun:
    """Forward, backward and update with the optimizer's states already there."""
    counter = depth.counter
    trained = [p for p in model.parameters() if p.requires_grad]
    # A first update creates the optimizer's states.
    optimizer = _OPTIMIZERS[training.optimizer](trained)
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    states = counter.live_bytes
    # Forward pass and loss.
    inputs = {**prefill_inputs(model, lengths), "labels": zeros(lengths.batch, lengths.tokens, dtype=long)}
    for name in ("logits_to_keep", "use_cache", "decoder_input_ids"):
        inputs.pop(name, None)
    depth.phase, start = "forward", counter.begin()
    context = torch.autocast("cpu", torch.bfloat16) if training.precision == "mixed" else contextlib.nullcontext()
    with context:
        loss = model(**inputs).loss  # as in the Trainer, nobody holds the scores any longer
    if training.checkpointing != "none" and training.precision == "mixed":
        depth.let_casts_go()
    forward, saved = counter.phase(start), counter.live_bytes - states
    # Backward pass.
    depth.phase, start = "backward", counter.begin()
    loss.backward()
    depth.count_backward()
    backward = counter.phase(start)
    depth.stand_ins.clear()
    gradients = sum(p.grad.nbytes for p in trained if p.grad is not None)
    # Update.
    del loss, inputs
    start = counter.begin()
    optimizer.step()
    return TrainingRun(
        forward=forward,
        backward=backward,
        update=counter.phase(start),
        trained_parameters=sum(p.numel() for p in trained),
        saved_bytes=saved,
        gradient_bytes=gradients,
        optimizer_bytes=states,
    )


def _result(built: BuiltModel, layers: list[Layer], depth: LayerSkipper, weights: int, buffers: int, **runs: Any) -> DryRun:
    return DryRun(
        architecture=built.architecture,
        layers=len(layers),
        layers_run=len(depth.working),
        weights_bytes=weights,
        buffer_bytes=buffers,
        encoder_decoder=bool(built.config.is_encoder_decoder),
        **runs,
    )


_PACKED = 2  # weights in a byte
_BLOCK = 64  # weights with one scale
_SCALES = 256  # scales in 8 bits with one of their own in float32


class LoraLinear(nn.Module):
    """A linear module with a low-rank update."""

    def __init__(self, base: nn.Module, inputs: int, outputs: int, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(inputs, rank, bias=False, device="meta", dtype=dtype)
        self.up = nn.Linear(rank, outputs, bias=False, device="meta", dtype=dtype)

    @property
    def weight(self) -> Tensor:
        """The base's, whose dtype some models ask for."""
        return self.base.weight  # type: ignore[return-value]  # a tensor

    @property
    def bias(self) -> Tensor | None:
        """The base's weight, which Mamba's scan reads without calling the module."""
        return self.base.bias  # type: ignore[return-value]  # as above

    def forward(self, x: Tensor) -> Tensor:
        """The base's result and the update."""
        result: Tensor = self.base(x)
        update = self.up(self.down(x.to(self.down.weight.dtype)))
        updated: Tensor = (result + update * 1.0).to(result.dtype)
        return updated


class _UnquantizedProduct(torch.autograd.Function):
    """x · Wᵀ with W unquantized for the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, outputs: int) -> Tensor:
        ctx.inputs, ctx.outputs = x.shape[-1], outputs
        return x @ x.new_empty(outputs, x.shape[-1]).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0]
        return gradient @ gradient.new_empty(ctx.outputs, ctx.inputs), None


class Linear4bit(nn.Module):
    """A linear module whose weight is stored in 4 bits with a scale for each block."""

    def __init__(self, linear: nn.Linear | Conv1D, *, double: bool) -> None:
        super().__init__()
        self.inputs, self.outputs = _sizes(linear)
        self.dtype = linear.weight.dtype
        count = self.inputs * self.outputs
        quantized = torch.empty(ceil_divide(count, _PACKED), dtype=torch.uint8, device="meta")
        blocks = ceil_divide(count, _BLOCK)
        scale_bytes = blocks + FLOAT32 * (ceil_divide(blocks, _SCALES) + 1) if double else FLOAT32 * blocks
        self.weight = nn.Parameter(quantized, requires_grad=False)
        self.scales = nn.Parameter(torch.empty(scale_bytes, dtype=torch.uint8, device="meta"), requires_grad=False)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """The product in the compute dtype."""
        y: Tensor = _UnquantizedProduct.apply(x.to(self.dtype), self.outputs)  # type: ignore[no-untyped-call]  # torch's
        return y if self.bias is None else y + self.bias


def _is_converted(module: nn.Module) -> TypeGuard[nn.Linear | Conv1D]:
    """Whether bitsandbytes packs a module: subclasses of `nn.Linear` stay as they are (transformers 5.23 integrations/bitsandbytes.py)."""
    return type(module) is nn.Linear or isinstance(module, Conv1D)


def _sizes(module: Any) -> tuple[int, int]:
    """Width of its input and of its output."""
    if isinstance(module, Conv1D):
        return module.weight.shape[0], module.weight.shape[1]
    return module.in_features, module.out_features


def _adapt(model: PreTrainedModel, training: TrainingRequest) -> None:
    """Put adapters on the targeted modules of a model on the meta device and, for QLoRA, plain linear ones in 4 bits; freeze the rest."""
    model.requires_grad_(requires_grad=False)
    head, packs = output_head(model), training.method == "qlora"  # the head is left out, as `all-linear` leaves it out
    modules = {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, Conv1D)) and m is not head}
    check_targets(training.target_modules, list(modules))
    target_modules = {name: module for name, module in modules.items() if is_targeted(name, training.target_modules)}
    for name, module in target_modules.items():
        check_rank(training.rank, name, *reversed(_sizes(module)))
    for name, module in (modules if packs else target_modules).items():
        base: nn.Module = Linear4bit(module, double=training.double_quantization) if packs and _is_converted(module) else module
        if name in target_modules:
            dtype = module.weight.dtype
            base = LoraLinear(base, *_sizes(module), training.rank, torch.float32 if dtype.itemsize == HALF else dtype)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, base)
