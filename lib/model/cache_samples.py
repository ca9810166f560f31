"""The shapes of each cached tensor of a model, by length: what its growth is told from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import bfloat16

from lib.errors import AdvisorError, UnsupportedModel
from lib.model.cache_prompt import fixed_positions
from lib.model.cache_runs import BATCH, ENCODED, ONE, SHORT, Record, Runs, record, repeats
from lib.model.growth import size
from lib.model.pass_through import in_dtype, standing

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(slots=True, kw_only=True)
class Tensor:
    """One cached tensor of a first layer: shape for one sequence by length; `layers` equal layers hold one like it."""

    path: str
    dtype: str
    layers: int
    owner: int
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    by_encoder: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All cached tensors of first layers, of a model whose parameters are all in `dtype`."""

    tensors: tuple[Tensor, ...]
    dtype: str = "bfloat16"


def _tensors(made: Record) -> list[Tensor]:
    """A Tensor for each path that a first layer holds in any run, in the order of the cache."""
    twins = Counter(id(layer.first) for layer in {id(layer): layer for layer in made.owners.values()}.values())
    found: dict[str, Tensor] = {}
    for leaf in (leaf for run in (made.first, *made.by_length.values()) for leaf in run.values()):
        owner = made.owners.get(leaf.index) if leaf.index is not None else None
        if leaf.path in found or (owner is not None and owner.twin is not None):
            continue
        place = id(owner) if owner else -1 - (leaf.index or 0)
        found[leaf.path] = Tensor(path=leaf.path, dtype=leaf.dtype, layers=twins[id(owner)] if owner else 1, owner=place)
    return list(found.values())


def _filled(tensor: Tensor, made: Record) -> Tensor:
    """The tensor with its shapes for one sequence."""
    tensor.shapes[ONE] = (size(made.first[tensor.path].shape) // BATCH if tensor.path in made.first else 0,)
    for tokens, run in made.by_length.items():
        if tokens == SHORT or tensor.owner not in made.idle:
            tensor.shapes[tokens] = run[tensor.path].shape if tensor.path in run else (0,)
    tensor.by_encoder = {encoded: size(run[tensor.path].shape) if tensor.path in run else 0 for encoded, run in made.by_encoder.items()}
    return tensor


def _answered(runs: Runs, error: Exception, *, free_encoder: bool) -> Record | None:
    """The record of a model that asks for values: under one answer, and confirmed under the other unless that one cannot be run."""
    for answer in (0, 1):
        runs.answer = answer
        try:
            made = record(runs, free_encoder=free_encoder)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001, S112 an answer that leads to a refusal is not one that a real run could get
            continue
        runs.answer = 1 - answer
        try:
            same = made is None or answer == 1 or repeats(runs, made)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001 as above
            same = True
        if not same:
            raise UnsupportedModel("What this model caches depends on the values in the prompt, not only on its length.") from error
        return made
    raise error


def sample(module: PreTrainedModel) -> Samples | None:
    """Run `module` and collect what it caches; None if it returns no cache.

    Raises:
        UnsupportedModel: the cache is not linear in the batch, depends on values, or a run takes too many operations.
    """
    config: Any = module.config
    with in_dtype(module, bfloat16), standing(module, config) as stand:
        fixed = fixed_positions(module)
        runs = Runs(module=module, stand=stand, answer=None, encoded=fixed or ENCODED)
        free_encoder = bool(config.is_encoder_decoder) and fixed is None
        try:
            made = record(runs, free_encoder=free_encoder)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything where a value is missing
            made = _answered(runs, error, free_encoder=free_encoder)
    return None if made is None else Samples(tensors=tuple(_filled(tensor, made) for tensor in _tensors(made)))
