"""Repositories for the Hub stand-in: headers in the real format, weights of the real size that are never written."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from hub_stand_in import Blob, Fault, Repo
from llama import LLAMA_8B_CONFIG

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I32": 32, "I64": 64}
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def header(tensors: Tensors, *, metadata: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file as JSON, and the bytes of data that it describes."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata or {"format": "pt"})}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        end = offset + math.prod(shape) * BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    return entries, offset


def pack_file(entries: Any, data_bytes: int) -> Blob:
    """A safetensors file: eight bytes of length, the header padded to eight bytes, zeros for the data."""
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return Blob(head=struct.pack("<Q", len(text)) + text, size=8 + len(text) + data_bytes)


def safetensors(tensors: Tensors) -> Blob:
    """A well-formed safetensors file of these tensors."""
    return pack_file(*header(tensors))


def shard_tensors(tensors: Tensors, shards: int, stem: str = "model") -> dict[str, bytes | Blob]:
    """The tensors over `shards` files in turn, with the index that names them."""
    parts: list[dict[str, tuple[str, tuple[int, ...]]]] = [{} for _ in range(shards)]
    for at, (name, tensor) in enumerate(tensors.items()):
        parts[at * shards // len(tensors)][name] = tensor
    names = [f"{stem}-{at + 1:05}-of-{shards:05}.safetensors" for at in range(shards)]
    total = sum(header(part)[1] for part in parts)
    index = {"metadata": {"total_size": total}, "weight_map": {key: name for name, part in zip(names, parts, strict=True) for key in part}}
    files: dict[str, bytes | Blob] = {f"{stem}.safetensors.index.json": json.dumps(index).encode()}
    return files | {name: safetensors(part) for name, part in zip(names, parts, strict=True)}


def llama(layers: int, hidden: int, inner: int, kv: int, vocab: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a Llama: 9 per layer and 3 around them, in bfloat16."""
    tensors = {"model.embed_tokens.weight": ("BF16", (vocab, hidden))}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        tensors |= {f"{prefix}.self_attn.{p}_proj.weight": ("BF16", (kv if p in "kv" else hidden, hidden)) for p in "qkvo"}
        tensors |= {f"{prefix}.mlp.{p}_proj.weight": ("BF16", (inner, hidden)) for p in ("gate", "up")}
        tensors[f"{prefix}.mlp.down_proj.weight"] = ("BF16", (hidden, inner))
        tensors |= {f"{prefix}.{p}_layernorm.weight": ("BF16", (hidden,)) for p in ("input", "post_attention")}
    return tensors | {"model.norm.weight": ("BF16", (hidden,)), "lm_head.weight": ("BF16", (vocab, hidden))}


def experts(layers: int, count: int, hidden: int, inner: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a mixture of experts, one tensor per expert and projection, in 8-bit floats with their scales."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for layer in range(layers):
        for expert in range(count):
            for name in ("gate", "up", "down"):
                name_of_weight = f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj.weight"
                tensors[name_of_weight] = ("F8_E4M3", (hidden, inner) if name == "down" else (inner, hidden))
                tensors[f"{name_of_weight}_scale_inv"] = ("F32", (hidden // 128, inner // 128))
    return tensors


LLAMA_8B = llama(layers=32, hidden=4096, inner=14336, kv=1024, vocab=128256)
TINY = {"a.weight": ("BF16", (8, 4)), "b.weight": ("F32", (3,))}


def as_json(value: Any) -> bytes:
    """A small file of JSON."""
    return json.dumps(value).encode()


def llama_8b(name: str = "org/llama-8b", **more: Any) -> Repo:
    """Llama 3.1 8B as it is published: four shards, and the original checkpoint beside them."""
    files = {"config.json": as_json(LLAMA_8B_CONFIG), "README.md": b"# readme", **shard_tensors(LLAMA_8B, 4)}
    files["original/consolidated.00.pth"] = Blob(head=b"PK", size=16_060_617_592)
    info = {"pipeline_tag": "text-generation", "library_name": "transformers", "tags": ["llama", "license:llama3.1"]}
    return Repo(id=name, files=files, info=info, **more)


def dense_135(name: str = "org/dense-135") -> Repo:
    """A dense model of Llama 405B's shape over 135 files: 1137 tensors."""
    tensors = llama(layers=126, hidden=16384, inner=53248, kv=1024, vocab=128256)
    return Repo(
        id=name, files={"config.json": as_json(LLAMA_8B_CONFIG), **shard_tensors(tensors, 135)}, info={"library_name": "transformers"}
    )


def experts_135(name: str = "org/experts-135") -> Repo:
    """A mixture of experts over 135 files: 45 312 tensors, as many as a model of 230 billion parameters has."""
    tensors = experts(layers=59, count=128, hidden=4096, inner=1536)
    return Repo(
        id=name, files={"config.json": as_json(LLAMA_8B_CONFIG), **shard_tensors(tensors, 135)}, info={"library_name": "transformers"}
    )


def demo_repos() -> Iterator[Repo]:
    """What `python tests/support/hub_stand_in.py` serves."""
    yield llama_8b()
    yield llama_8b("org/gated-8b", gated="manual", readers=frozenset({"hf_reader"}))
    yield llama_8b("org/private-8b", private=True, readers=frozenset({"hf_reader"}))
    yield dense_135()
    yield experts_135()
    for name in demo_faults():
        yield llama_8b(name)


def demo_faults() -> dict[str, Fault]:
    """One repository for each way to fail, by its name."""
    return {
        "faults/hang": Fault(hang=True),
        "faults/limit": Fault(status=429, headers=(("Retry-After", "17"),)),
        "faults/broken": Fault(status=500),
        "faults/garbage": Fault(body=b"<html>not json</html>"),
        "faults/drip": Fault(drip_s=0.2),
    }
