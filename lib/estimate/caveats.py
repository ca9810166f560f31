"""What an estimate leaves open, and what stands behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.laws.kv_cache_engines import CODES
from lib.precision import unstated, weight_format
from lib.provenance import Caveat, Source

if TYPE_CHECKING:
    from lib.estimate.demand import Demand

_SAID = {
    "unknown_cache": "This model keeps a cache whose size could not be told, so none is counted.",
    "dtype_unstated": "The config does not say which dtype the files are in: auto takes 16 bits. Older checkpoints often lie in 32.",
    "experts_not_converted": "bitsandbytes converts plain matrices only: the experts of this mixture, most of its weights, stay as is.",
    "activation_typical": "Only a parameter count is known; activations are those of a decoder of usual proportions.",
    "activation_by_law": "Activations follow the law of plain decoders; this architecture was not traced.",
    "activation_unknown": "Activations of a pipeline depend on resolution and frames and are not counted.",
    "vllm_preallocates": "vLLM takes a share of the device at start (0.9 by default) and fills it with cache; this is what is needed.",
    "device_runtime": "Memory of compiled programs on this kind of accelerator is not published and not counted.",
    "media_not_counted": "A text prompt is counted; pictures or sound in the prompt need more.",
    "one_prompt": "The whole context is taken as one prompt, the worst case for activations.",
    "layer_split": "Devices hold whole layers in turn; they add memory, not speed.",
    "training_assumed": "Training: AdamW, gradient checkpointing, no 8-bit or paged optimizer; LoRA of rank 16 on all plain matrices.",
    "attention_scores": "On this silicon torch before mid 2026 holds the scores of all tokens; the high value covers that.",
}
_TEXT = frozenset({"image-text-to-text", "video-text-to-text", "audio-text-to-text", "any-to-any"})
_AUTO = frozenset({"bf16", "fp16", "gguf:BF16"})  # what auto takes where nothing is stated
_LONG = 1024
CHECKED = "2026-11-21"


def caveats(of: Demand, tokens: int) -> tuple[Caveat, ...]:
    """The sentences that hold for this estimate at this length."""
    spec, setting = of.spec, of.setting
    inference, own = setting.mode == "inference", setting.engine == "transformers"
    untraced = own and inference and not spec.activations
    holds = {
        "unknown_cache": spec.unknown_cache,
        "dtype_unstated": setting.precision in _AUTO and spec.source != "rule_of_thumb" and unstated(spec),
        "experts_not_converted": weight_format(setting.precision).takes == "modules" and any(g.kind == "expert" for g in spec.tensors),
        "activation_typical": not of.activation.known and spec.library != "diffusers",
        "activation_by_law": untraced and of.activation.known,
        "activation_unknown": spec.library == "diffusers",
        "vllm_preallocates": setting.engine in {"vllm", "vllm-tpu"},
        "device_runtime": setting.silicon in {"tpu", "neuron"},
        "media_not_counted": spec.task in _TEXT,
        "one_prompt": own and inference and spec.cache_terms is not None,
        "layer_split": setting.devices > 1 and not of.parallel,
        "training_assumed": not inference,
        "attention_scores": of.activation.scores(_LONG, 1) > 0,
    }
    said = [Caveat(code=code, message=_SAID[code]) for code, true in holds.items() if true]
    limit = spec.context_limit
    if limit is not None and tokens > limit:
        said.append(Caveat(code="beyond_context_limit", message=f"The model is limited to {limit:,} tokens: {tokens:,} were counted."))
    return (*said, *(Caveat(code=code, message=CODES[code]) for code in of.cache.codes))


def sources(of: Demand) -> tuple[Source, ...]:
    """Where the laws come from."""
    found = [
        Source(what="weights", source=of.weights.source, checked=CHECKED),
        Source(what="cache", source="transformers 5.23.0, cache classes as executed", checked=CHECKED),
        Source(what="activations", source="transformers 5.23.0 and torch 2.13.0, forward pass traced on the meta device", checked=CHECKED),
        Source(what="runtime", source="published start-up logs and driver figures, listed in lib/laws/runtime.py", checked=CHECKED),
    ]
    return tuple(found)
