"""Models for the advisor's tests, built by hand: plain decoders, encoders, a transcriber and pipelines of round sizes."""

from __future__ import annotations

from lib.model.spec import CacheTerm, Dimensions, ModelSpec, Quantization, StoredWeights, TensorGroup

HEAD_DIM = 128


def decoder(
    parameters: float,
    *,
    task: str = "text-generation",
    layers: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    context_limit: int | None = 131_072,
    dtype: str = "bfloat16",
    stored_as: Quantization | None = None,
) -> ModelSpec:
    """A dense decoder with grouped-query attention, tied embeddings and a tenth of its weights in the vocabulary."""
    total = int(parameters)
    hidden = heads * HEAD_DIM
    cache = CacheTerm(
        kind="full attention",
        holds="keys and values",
        layers=layers,
        elements=2 * kv_heads * HEAD_DIM,
        growth="tokens",
        span=0,
        dtype="model",
    )
    return ModelSpec(
        id=f"example/decoder-{total}",
        architecture="LlamaForCausalLM",
        model_type="llama",
        task=task,
        library="transformers",
        source="architecture",
        parameters_total=total,
        parameters_active=total,
        tensors=_split_weights(total, hidden),
        dimensions=Dimensions(
            hidden_size=hidden,
            layers=layers,
            attention_heads=heads,
            kv_heads=kv_heads,
            head_dim=HEAD_DIM,
            intermediate_size=4 * hidden,
            vocab_size=32_000,
        ),
        layer_kinds={"full attention": layers},
        cache_terms=(cache,),
        unknown_cache=False,
        activations=(),
        context_limit=context_limit,
        stored=StoredWeights(dtype=dtype, quantization=stored_as),
    )


def encoder(parameters: float, *, task: str = "feature-extraction") -> ModelSpec:
    """An encoder of 512 tokens without a cache."""
    total = int(parameters)
    return ModelSpec(
        id=f"example/encoder-{total}",
        architecture="BertModel",
        model_type="bert",
        task=task,
        library="transformers",
        source="architecture",
        parameters_total=total,
        parameters_active=total,
        tensors=_split_weights(total, 768),
        dimensions=Dimensions(
            hidden_size=768, layers=12, attention_heads=12, kv_heads=12, head_dim=64, intermediate_size=3072, vocab_size=30_522
        ),
        layer_kinds={"full attention": 12},
        cache_terms=None,
        unknown_cache=False,
        activations=(),
        context_limit=512,
        stored=StoredWeights(dtype="float32"),
    )


def pipeline(parameters: float, *, task: str) -> ModelSpec:
    """A diffusion pipeline: only its weights are known."""
    total = int(parameters)
    return ModelSpec(
        id=f"example/pipeline-{total}",
        architecture="DiffusionPipeline",
        model_type="diffusers",
        task=task,
        library="diffusers",
        source="catalog",
        parameters_total=total,
        parameters_active=total,
        tensors=_split_weights(total, 3072),
        dimensions=Dimensions(),
        layer_kinds={},
        cache_terms=None,
        unknown_cache=False,
        activations=(),
        context_limit=None,
        stored=StoredWeights(dtype="bfloat16"),
    )


def _split_weights(total: int, width: int) -> tuple[TensorGroup, ...]:
    """As many square matrices of this width as fit, and the rest as a vector, so that they add up exactly."""
    count, rest = divmod(total, width * width)
    name, part = "model.layers.*.mlp.down_proj.weight", "language_model"
    found = [TensorGroup(name=name, component=part, kind="linear", shape=(width, width), count=count, convertible=True)]
    if rest:
        found.append(TensorGroup(name="model.norm.weight", component=part, kind="norm", shape=(rest,), count=1))
    return tuple(group for group in found if group.count)
