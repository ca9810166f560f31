"""Peak of temporary tensors during inference, from the sizes of a decoder.

Prefill of B sequences of T tokens in `transformers` (one layer at a time, nothing kept for a backward pass):

    M = b·B·T·(3h + max(norm, attention, mlp)) + scores + logits
        norm      = h + 8h/b           the normed copy, and its float32 input and square while it is made
        attention = h + 3q + 3k        normed input; queries, keys, values and their rotated copies
        mlp       = h + 3f             normed input; gate, activated gate · up, and the product
    scores = B·H·T²·s                  eager attention only: s = 2b + 4 (scores, float32 softmax, its copy), 8 in float32
    logits = B·R·V·(b + 4)             R rows in the compute dtype and again as float32 (generate: R = 1)

    b  bytes per element of the compute dtype     h  hidden size       q  H·D query width      k  H_kv·D key width
    f  width of the MLP that one token reaches    V  vocabulary        H  attention heads

The 3h are the embeddings, which the model's forward keeps until it returns, the layer's input, which the loop over layers keeps, and
the residual stream.

Limits: it knows only dense decoders of the Llama kind. Mixtures (sorted copies of the tokens for each of the experts
they reach), state space layers and latent attention hold more; `lib.model.activation_peaks` traces those, and this law then only
explains. Source: the forward pass of transformers 5.23.0, counted tensor by tensor; Korthikanti et al. 2022, arXiv:2205.05198, for
the training case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from lib.engines import MICRO_BATCH
from lib.laws import Law
from lib.units import Bytes

_COUNTED = "counted from the forward pass; lib/laws/activation.py"
PREFILL = Law(equation="b·B·T·(3h + max(h + 8h/b, h + 3q + 3k, h + 3f)) + B·V·(b + 4)", source=_COUNTED)
PROFILE_RUN = Law(equation="b·M·(3h + max(2q + 2k, 3f)) + 12·S·V", source=_COUNTED)
COMPUTE_BUFFER = Law(equation="4·u·(V + h), without flash attention 4·u·(V + h + H·C)", source=_COUNTED)
TRACED_MOMENTS = Law(
    equation="largest of the traced moments: c + a·B·T + s·B·T² + m·T² + …",
    source="traced on the meta device with transformers 5.23.0; lib/model/activation_peaks.py",
)

FLOAT32 = 4


def prefill_bytes(
    *,
    tokens: int,
    batch: int,
    element_bytes: int,
    hidden: int,
    query_width: int,
    key_width: int,
    mlp_width: int,
    heads: int,
    vocabulary: int,
    kernel: Literal["sdpa", "eager"] = "sdpa",
    logit_rows: int = 1,
) -> Bytes:
    """Peak during the prefill, by the equation above.

    >>> prefill_bytes(tokens=4096, batch=1, element_bytes=2, hidden=4096, query_width=4096, key_width=1024, mlp_width=14336, heads=32,
    ...               vocabulary=128256)
    487308800
    """
    attention = hidden + 3 * query_width + 3 * key_width
    mlp = hidden + 3 * mlp_width
    norm = hidden + 2 * FLOAT32 * hidden // element_bytes
    flow = element_bytes * batch * tokens * (3 * hidden + max(norm, attention, mlp))
    per_score = 2 * FLOAT32 if element_bytes == FLOAT32 else 2 * element_bytes + FLOAT32
    scores = per_score * batch * heads * tokens**2 if kernel == "eager" else 0
    return Bytes(flow + scores + logits_bytes(rows=batch * logit_rows, vocabulary=vocabulary, element_bytes=element_bytes))


def logits_bytes(*, rows: int, vocabulary: int, element_bytes: int) -> Bytes:
    """Scores over the vocabulary in the compute dtype, and the float32 copy that sampling works on: R·V·(b + 4)."""
    return Bytes(rows * vocabulary * (element_bytes + FLOAT32))


def paged_engine_bytes(
    *,
    batched_tokens: int,
    sequences: int,
    element_bytes: int,
    hidden: int,
    query_width: int,
    key_width: int,
    mlp_width: int,
    vocabulary: int,
) -> Bytes:
    """Peak of vLLM's own profile run: M tokens through the model, then sampling for S sequences.

        M = b·M·(3h + max(2q + 2k, 3f)) + 4·S·V·3

    Fused kernels leave a residual, the hidden states and one normed copy; the MLP holds gate and up side by side and their product;
    the sampler holds the logits in float32, their sorted copy and probabilities. Defaults of the engine (V1): M = 8192 tokens on
    cards of 70 GiB and more, 2048 below; S = 256. Limits: without the memory of captured graphs (`lib.laws.runtime`).
    Source: vLLM's start-up log for Meta-Llama-3-8B on a card of 80 GB, 1.26 GiB with M = 8192 (github.com/vllm-project/vllm/pull/10511,
    2024-12-14); this law gives 1.21 GiB.
    """
    layer = 3 * hidden + max(2 * query_width + 2 * key_width, 3 * mlp_width)
    return Bytes(element_bytes * batched_tokens * layer + 3 * FLOAT32 * sequences * vocabulary)


def compute_buffer_bytes(*, hidden: int, vocabulary: int, context: int = 0, heads: int = 0, micro_batch: int = MICRO_BATCH) -> Bytes:
    """llama.cpp's compute buffer: one micro-batch of u tokens (512) in float32, logits and hidden states.

        M = 4·u·(V + h)            with flash attention (the default where the card has it)
        M = 4·u·(V + h + H·C)      without: scores of the micro-batch against a context of C tokens; at most, for logits come after them

    Source: printed compute buffers: 300.75 MiB for Qwen2.5-3B (V 151 936, h 2048; github.com/SciSharp/LLamaSharp/issues/1099, this law
    300.75) and 105 MiB for a 3.9B model (V 50 432, h 3072; github.com/mozilla-ai/llamafile/pull/552, this law 104.5).
    Limits: one sequence slot; state space layers hold more (github.com/ggml-org/llama.cpp/issues/24175).
    """
    return Bytes(FLOAT32 * micro_batch * (vocabulary + hidden + heads * context))


def generation_peak_bytes(*, weights: int, moments: Iterable[tuple[int, int]], workspace: int = 0) -> Bytes:
    """Peak of one generation as torch's allocator counts it: M = W + max over its moments of (cache + activations) + workspace.

    Args:
        weights: W.
        moments: cache and activations in bytes; of a decoder (cache(p), activations(p)) while the prompt of p tokens is read at once and
            (cache(p + o - 1), activations(1)) at its end, for the last of o output tokens is never read.
        workspace: of cuBLAS, on a GPU.

    The process, its libraries and the CUDA context are left out, for the allocator does not count them.

    >>> generation_peak_bytes(weights=1000, moments=[(100, 50), (120, 1)], workspace=8)
    1158
    """
    return Bytes(weights + max(cache + activations for cache, activations in moments) + workspace)
