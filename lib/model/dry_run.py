"""A dry run: the real architecture executed under torch's `FakeTensorMode`, which gives tensors shapes and no values.

Every storage is followed from the operation that makes it to its release (`lib.model.activation_storages.StorageCounter`), every product
is counted by torch's own formulas (`torch.utils.flop_counter.flop_registry`). The lengths are those that were asked for, so nothing is
fitted: this is the executed truth that stands beside the closed forms of `lib.laws` and beside the polynomials of
`lib.model.activation_peaks`.

* Of a deep stack the first two layers of each kind and the last one compute (`lib.model.activation_trace.run_only` says what is equal). A
  layer that stands aside holds as many bytes as the second of its kind came to hold: cache, what it saved for the backward pass and, after
  that, its gradients. So the peaks are those of the full depth, and FLOP and operations are added for each.
* Attention, the mixed softmax, dropout and products of experts are CUDA's operators, with their own autograd formulas
  (`aten._scaled_dot_product_flash_attention` …), unless the run is to be compared with one on a CPU (`kernels="cpu"`).

`torch.distributed._tools.MemTracker` follows storages in the same way and comes to the same peaks (tests/model/test_dry_run.py), in nine
times the time. Limits: scratch memory inside kernels and the allocator's blocks are not seen; text only where a model takes text; questions
for a tensor's value are answered with 0, in training with 1 (nothing is padded, nothing packed).
"""

from __future__ import annotations

import contextlib
import re
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, float32, long, nn, ops, zeros
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry
from transformers.integrations import moe
from transformers.pytorch_utils import Conv1D
from transformers.utils import import_utils

from lib.errors import AdvisorError, BadArgument, UnsupportedModel
from lib.model import parameters
from lib.model.activation_storages import StorageCounter
from lib.model.activation_trace import Layer, layers_of, pad_width, run_only, select_layers, step_inputs, takes_flash, widens_in_softmax
from lib.model.adapters import Scales, adapt
from lib.model.build import LOCK, BuiltModel, build
from lib.model.cache_growth import cache_of
from lib.model.config import check_config
from lib.model.dry_run_result import DryRun, InferenceRun, Phase, Training, TrainingRun
from lib.model.meta_device import MetaRun
from lib.model.model_inputs import Lengths, has_argument, prefill_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from transformers import PreTrainedModel

    from lib.workload import Optimizer

Kernels = Literal["gpu", "cpu"]
MOST_OPERATIONS = 60_000
_CALLS = 200_000
_WITH_LOSS = re.compile(r"For(CausalLM|MaskedLM|ConditionalGeneration|SpeechSeq2Seq)$|LMHeadModel$")
_STEPS = 2
_UNPADDED = 1
"""The answer to what a model without a cache asks of its mask and positions: is all of it attended to, is all of it one sequence."""
_WHOLE = 10


class _Counter(StorageCounter):  # type: ignore[no-untyped-call]
    """Counts FLOP beside bytes and operations."""

    def __init__(self, known: Sequence[Tensor], budget: int) -> None:
        super().__init__(known, budget)
        self.flop = 0
        self.further_operations = 0
        """Of layers that stand aside."""

    def _result(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = super()._result(func, args, kwargs)
        formula = flop_registry.get(func._overloadpacket) or _FURTHER.get(func._overloadpacket)  # noqa: SLF001 torch's own counter does so
        if formula is not None:
            self.flop += formula(*args, **kwargs, out_val=result)
        return result

    def begin(self) -> _Reading:
        """Start another phase: its peak is counted from what is alive now."""
        self.peak_bytes = self.live_bytes
        return self.read()

    def read(self) -> _Reading:
        """The counts as they are."""
        return _Reading(self.live_bytes, self.flop, self.operations + self.further_operations)

    def phase(self, since: _Reading) -> Phase:
        """What there was since a reading that `begin` gave."""
        now = self.read()
        return Phase(peak_bytes=self.peak_bytes, flop=now.flop - since.flop, operations=now.operations - since.operations)


@dataclass(frozen=True, slots=True)
class _Reading:
    live_bytes: int
    flop: int
    operations: int


def _grouped_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    """A product of each row with the matrix of its expert."""
    return int(2 * rows.numel() * weight.shape[-1])


def _grouped_backward_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * _grouped_flop(rows, weight)


_GROUPED = frozenset({getattr(functional, "grouped_mm", None), getattr(torch, "_grouped_mm", None)})
assert moe, "imported because it registers the products of experts"  # noqa: S101 or the import would seem unused
_FURTHER: dict[Any, Callable[..., int]] = {
    ops.aten._grouped_mm: _grouped_flop,  # noqa: SLF001 it has no public name
    ops.transformers.grouped_mm_fallback: _grouped_flop,
    ops.transformers.grouped_mm_fallback_backward: _grouped_backward_flop,
}
"""Products that `flop_registry` does not know."""


class CudaOperators(TorchFunctionMode):
    """Calls the operators that a CUDA device would, with their own shapes, autograd formulas and FLOP."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if widens_in_softmax(func, args, kwargs):
            return ops.aten._softmax(args[0], kwargs.get("dim", args[1] if len(args) > 1 else -1), True)  # noqa: SLF001 as called
        if func in _GROUPED and args[0].dtype is float32:  # the CUDA operator takes it, its meta function does not
            return ops.transformers.grouped_mm_fallback(args[0], args[1], kwargs["offs"])
        if func is functional.dropout:
            return _dropout(*args, **kwargs)
        return func(*args, **kwargs)


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: ARG001 torch's
    if not training or p == 0:
        return x
    dropped: Tensor = ops.aten.native_dropout(x, p, True)[0]
    return dropped


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `scaled_dot_product_attention` calls on CUDA: FlashAttention, or the memory-efficient kernel."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(torch.get_autocast_dtype("cpu")) for t in (query, key, value))
    width = value.shape[-1]
    lead, squeezed = query.shape[:-3], query.ndim == 3  # noqa: PLR2004 heads, positions, width
    if squeezed:
        query, key, value = (t.unsqueeze(0) for t in (query, key, value))
    if takes_flash(query, value, attn_mask):
        more = pad_width(width) - width
        if more:
            query, key, value = (functional.pad(t, (0, more)) for t in (query, key, value))
        result = ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]  # noqa: SLF001
        result = result[..., :width] if more else result
    else:
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        if attn_mask is not None:
            if attn_mask.dtype is torch.bool:
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), float("-inf"))
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
        kept = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        result = ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, kept, dropout_p, is_causal, scale=scale)[0]  # noqa: SLF001
    attended: Tensor = result.squeeze(0) if squeezed and lead == () else result
    return attended


@dataclass(slots=True)
class _Kind:
    """What the layers of one kind come to hold and do in one pass, as the second of them showed."""

    held_bytes: int = 0
    flop: int = 0
    operations: int = 0
    backward_flop: int = 0
    backward_operations: int = 0


@dataclass(slots=True, kw_only=True)
class _Depth:
    """Lets idle layers count: watches the ones that compute, and holds bytes for the others.

    `phase` names the pass that is under way; in a backward pass layers are called again where they recompute, which is no new pass.
    """

    counter: _Counter
    working: frozenset[int]
    training: bool
    phase: str = ""
    kinds: dict[tuple[int, str], _Kind] = field(default_factory=dict)
    held: dict[int, tuple[Layer, Tensor]] = field(default_factory=dict)
    passed_back: list[_Kind] = field(default_factory=list)
    entered: tuple[_Kind, int] | None = None

    def _enter(self) -> _Reading:
        """The counts as a layer begins; the one before it came to hold what is alive now and was not when it began."""
        now = self.counter.read()
        if self.entered is not None:
            kind, before = self.entered
            kind.held_bytes = now.live_bytes - before
        self.entered = None
        return now

    def watch(self, layer: Layer, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The layer's forward, with what it does noted."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.phase == "backward":
                return compute(*args, **kwargs)
            before = self._enter()
            kind = self.kinds.setdefault((layer.kind, self.phase), _Kind())
            self.entered = kind, before.live_bytes
            output = compute(*args, **kwargs)
            first = output[0] if isinstance(output, tuple) and output else output
            after = self.counter.read()
            kind.flop, kind.operations = after.flop - before.flop, after.operations - before.operations
            if self.training and isinstance(first, Tensor) and first.requires_grad:
                self._watch_backward(kind, first, args, kwargs)
            return output

        return forward

    def _watch_backward(self, kind: _Kind, output: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        start: list[_Reading] = []
        hidden = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.shape == output.shape and v.requires_grad), None)

        def begun(_: Tensor) -> None:
            start[:] = [self.counter.read()]

        def ended(_: Tensor) -> None:
            if start:
                now = self.counter.read()
                kind.backward_flop, kind.backward_operations = now.flop - start[0].flop, now.operations - start[0].operations

        output.register_hook(begun)  # type: ignore[no-untyped-call]
        if hidden is not None:
            hidden.register_hook(ended)  # type: ignore[no-untyped-call]

    def stand_aside(self, layer: Layer, hidden: Tensor) -> None:
        """Hold and count for a layer that hands its input on."""
        if self.phase == "backward":
            return
        self._enter()
        kind = self.kinds[layer.kind, self.phase]
        self._hold(layer, kind.held_bytes)
        self.counter.flop += kind.flop
        self.counter.further_operations += kind.operations - 1
        if self.training and hidden.requires_grad:
            hidden.register_hook(lambda _: self._backward(layer, kind))  # type: ignore[no-untyped-call]

    def _hold(self, layer: Layer, more_bytes: int) -> None:
        """So many bytes more, or fewer, for a layer that stands aside."""
        before = self.held.pop(id(layer), None)
        size = max(0, more_bytes + (0 if before is None else before[1].nbytes))
        del before
        self.held[id(layer)] = layer, torch.empty(size, dtype=torch.uint8)

    def _backward(self, layer: Layer, kind: _Kind) -> None:
        """The gradient passes a layer that stands aside: what it saved goes, gradients of its own appear."""
        self.held.pop(id(layer), None)
        self.passed_back.append(kind)
        before = self.counter.operations
        for parameter in layer.module.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        self.counter.further_operations -= self.counter.operations - before

    def let_casts_go(self) -> None:
        """Autocast keeps 16-bit copies of trained weights until it ends; where layers recompute, nothing else holds them."""
        for layer, _ in list(self.held.values()):
            matrices = (m.weight for m in layer.module.modules() if isinstance(m, (nn.Linear, Conv1D)))
            casts = sum(w.numel() * torch.bfloat16.itemsize for w in matrices if w.requires_grad and w.dtype is float32)
            self._hold(layer, -casts)

    def count_backward(self) -> None:
        """Count for the layers that the gradient passed; what one of their kind does is known after the whole pass."""
        self.counter.flop += sum(kind.backward_flop for kind in self.passed_back)
        self.counter.further_operations += sum(kind.backward_operations for kind in self.passed_back)


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


@contextlib.contextmanager
def _depth_of(layers: list[Layer], counter: _Counter, *, training: bool, whole: bool) -> Iterator[_Depth]:
    """The model's layers wrapped: few of them compute, unless the `whole` model is to."""
    last = {layer.kind: layer for layer in layers}
    chosen = layers if whole else [layer for layer in layers if layer is last[layer.kind] or layer in select_layers(layers)]
    depth = _Depth(counter=counter, working=frozenset(map(id, chosen)), training=training)
    with run_only(layers, chosen, watch=depth.watch, aside=depth.stand_aside):
        yield depth


def dry_run(
    config: Mapping[str, Any],
    *,
    batch: int = 1,
    prompt_tokens: int = 512,
    output_tokens: int = 1,
    dtype: str = "bfloat16",
    training: Training | None = None,
    kernels: Kernels = "gpu",
    whole: bool = False,
) -> DryRun:
    """Execute an architecture without values.

    Args:
        config: the parsed config.json.
        batch: sequences at once.
        prompt_tokens: of each sequence; of the encoder's input where there is one; of a training step, its sequence length.
        output_tokens: of the answer; the last step of decoding is executed at its end.
        dtype: of weights and arithmetic in inference; a training step names its own.
        training: the step to execute in place of an inference.
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
    stored = dtype if training is None else "float32" if training.arithmetic == "mixed" else training.arithmetic
    built = build(config, stored)
    own = prompt_tokens if training is not None else output_tokens if built.config.is_encoder_decoder else prompt_tokens + output_tokens
    _check_length(built, own)
    try:
        with LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if training is not None:
                return _run_training(built, training, Lengths(batch, prompt_tokens, prompt_tokens), kernels, whole=whole)
            return _run_inference(built, Lengths(batch, prompt_tokens, prompt_tokens), output_tokens, kernels, whole=whole)
    except AdvisorError:
        raise
    except Exception as error:
        seen = f"{built.architecture} cannot be executed without values ({type(error).__name__})"
        raise UnsupportedModel(f"{seen}. The closed forms of the estimate still answer; they do not need a run.") from error


def _check_length(built: BuiltModel, tokens: int) -> None:
    limit = parameters.context_limit(built)
    if limit is not None and tokens > limit:
        raise BadArgument("tokens", f"{tokens:,}", f"at most {limit:,}, the limit that the model's own configuration states")


@contextlib.contextmanager
def _no_values(kernels: Kernels, answer: int) -> Iterator[None]:
    """Inside the fake mode: no device but the CPU's name, questions for a value answered, the operators of a GPU."""
    with _eager(), MetaRun(answer, budget=_CALLS, device_type="cpu"), CudaOperators() if kernels == "gpu" else contextlib.nullcontext():
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
        counter = _Counter([*model.parameters(), *model.buffers()], budget)
        with _depth_of(layers, counter, training=False, whole=whole) as depth, torch.no_grad(), _no_values(kernels, 0), counter:
            run = _generate(model, depth, lengths, output_tokens)
    return _result(built, layers, depth, weights, buffers, parameters=sum(p.numel() for p in model.parameters()), inference=run)


def _generate(model: PreTrainedModel, depth: _Depth, lengths: Lengths, output_tokens: int) -> InferenceRun:
    """A prompt as `generate` reads it, and the last step of the answer."""
    counter = depth.counter
    start, cache, states = _prefill(model, depth, lengths)
    prefill, prompt_cache = counter.phase(start), counter.live_bytes
    if cache is None:
        return InferenceRun(prefill=prefill, decode=None, prompt_cache_bytes=0, cache_bytes=0)
    ahead = output_tokens - 1 - _STEPS
    if ahead > 0 and not model.config.is_encoder_decoder:
        del cache
        depth.held.clear()
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
        last = _sampled(output)
        decode = counter.phase(start)
        del output, last, inputs
    return InferenceRun(prefill=prefill, decode=decode, prompt_cache_bytes=prompt_cache, cache_bytes=counter.live_bytes)


def _prefill(model: PreTrainedModel, depth: _Depth, lengths: Lengths) -> tuple[_Reading, object, Any]:
    depth.phase = "prefill"
    start = depth.counter.begin()
    inputs = prefill_inputs(model, lengths)
    output = model(**inputs)
    last = _sampled(output) if "use_cache" in inputs else None
    cache = cache_of(output) if "use_cache" in inputs else None
    states = getattr(output, "encoder_last_hidden_state", None)
    del output, last, inputs
    return start, cache, states


def _sampled(output: Any) -> Tensor | None:
    """Scores of the last position in float32, as `generate` copies them."""
    logits = getattr(output, "logits", None)
    return logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None


def _check_loss(built: BuiltModel) -> None:
    model = built.model
    if not (_WITH_LOSS.search(built.architecture) and has_argument(model, "labels")):
        raise UnsupportedModel(
            f"{built.architecture} has no loss over tokens, so no training step of it is executed. Accepted: a model whose class ends in "
            "ForCausalLM, ForMaskedLM, ForConditionalGeneration or LMHeadModel."
        )


def _training_inputs(model: PreTrainedModel, lengths: Lengths) -> dict[str, Any]:
    inputs = prefill_inputs(model, lengths)
    for name in ("logits_to_keep", "use_cache", "decoder_input_ids"):
        inputs.pop(name, None)
    return {**inputs, "labels": zeros(lengths.batch, lengths.tokens, dtype=long)}


_OPTIMIZERS: Mapping[Optimizer, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adamw": lambda trained: torch.optim.AdamW(trained, fused=True),
    "adamw_foreach": lambda trained: torch.optim.AdamW(trained, foreach=True),
    "adafactor": torch.optim.Adafactor,
    "sgd": lambda trained: torch.optim.SGD(trained, lr=1.0),
}
"""Those of torch; the ones in 8 bits and paged are kernels of bitsandbytes, which are not here."""


def _check_step(training: Training) -> None:
    """Refuse a method or an optimizer of which no module is here."""
    if training.method == "dora":
        raise BadArgument("method", training.method, "full, lora or qlora in a dry run")
    if training.optimizer not in _OPTIMIZERS:
        raise BadArgument("optimizer", training.optimizer, f"{', '.join(_OPTIMIZERS)} in a dry run")


def _run_training(built: BuiltModel, training: Training, lengths: Lengths, kernels: Kernels, *, whole: bool) -> DryRun:
    _check_loss(built)
    _check_step(training)
    model, adapters = built.model, 0
    layers, count = layers_of(model), sum(p.numel() for p in model.parameters())
    budget = MOST_OPERATIONS * (_WHOLE if whole else 1)
    if training.method == "full":
        model.requires_grad_(requires_grad=True)
    else:
        adapters = sum(p.numel() for p in _adapt(model, training))
    model.train()
    model.config.use_cache = False
    if model.config.is_encoder_decoder and getattr(model.config, "decoder_start_token_id", None) is None:
        model.config.decoder_start_token_id = 0  # older files leave it to the generation config; any id makes the same shapes
    if training.checkpointing:
        if not model.supports_gradient_checkpointing:
            raise UnsupportedModel(f"{built.architecture} has no gradient checkpointing in transformers. Ask without checkpointing.")
        # What recomputes does so from inside `backward`, where torch leaves the modes of functions out.
        again = {"context_fn": lambda: (contextlib.nullcontext(), _no_values(kernels, _UNPADDED))}
        model.activation_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False, **again})
    with FakeTensorMode(allow_non_fake_inputs=True):
        weights, buffers = _make_fake(model)
        counter = _Counter([*model.parameters(), *model.buffers()], budget)
        with _depth_of(layers, counter, training=True, whole=whole) as depth, _no_values(kernels, _UNPADDED), counter:
            run = _train(model, depth, training, lengths)
    return _result(built, layers, depth, weights, buffers, parameters=count, training=replace(run, adapter_parameters=adapters))


def _adapt(model: PreTrainedModel, training: Training) -> list[nn.Parameter]:
    scales: Scales | None = None
    if training.method == "qlora":
        scales = "double" if training.double_quantization else "single"
    return adapt(model, training.rank, training.targets, scales=scales)


def _train(model: PreTrainedModel, depth: _Depth, training: Training, lengths: Lengths) -> TrainingRun:
    """Forward, backward and update with the optimizer's states already there."""
    counter = depth.counter
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = _OPTIMIZERS[training.optimizer](trained)
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    states = counter.live_bytes
    inputs = _training_inputs(model, lengths)
    depth.phase, start = "forward", counter.begin()
    context = torch.autocast("cpu", torch.bfloat16) if training.arithmetic == "mixed" else contextlib.nullcontext()
    with context:
        loss = model(**inputs).loss  # as in the Trainer, nobody holds the scores any longer
    if training.checkpointing and training.arithmetic == "mixed":
        depth.let_casts_go()
    forward, saved = counter.phase(start), counter.live_bytes - states
    depth.phase, start = "backward", counter.begin()
    loss.backward()
    depth.count_backward()
    backward = counter.phase(start)
    depth.held.clear()
    gradients = sum(p.grad.nbytes for p in trained if p.grad is not None)
    del loss, inputs
    start = counter.begin()
    optimizer.step()
    return TrainingRun(
        forward=forward,
        backward=backward,
        update=counter.phase(start),
        trained_parameters=sum(p.numel() for p in trained),
        adapter_parameters=0,
        saved_bytes=saved,
        gradient_bytes=gradients,
        optimizer_bytes=states,
    )


def _result(built: BuiltModel, layers: list[Layer], depth: _Depth, weights: int, buffers: int, **runs: Any) -> DryRun:
    return DryRun(
        architecture=built.architecture,
        layers=len(layers),
        layers_run=len(depth.working),
        weights_bytes=weights,
        buffer_bytes=buffers,
        encoder_decoder=bool(built.config.is_encoder_decoder),
        **runs,
    )
