"""What a model's own default cache holds, found by running it: on the meta device, at a few lengths, without values.

1. All layers, one token, three sequences: which tensors there are, and that their size is linear in the batch.
2. The first of equal layers, one sequence, at a few more lengths, the last two past every window. Layers whose cache is the
   same after 1 and after `SHORT` tokens (recurrent states) do not run again.
3. `lib.model.growth` tells the law of each tensor. Equal layers count together.

No architecture is named here. What cannot be run or explained raises; it is never guessed.
Source: the model and cache classes of the installed transformers, as executed. Limit: dense batch, text-only prompt.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lib.errors import AdvisorError, UnsupportedModel
from lib.model.cache_form import named
from lib.model.cache_prompt import candidates
from lib.model.cache_samples import sample
from lib.model.cache_terms import terms
from lib.model.likeness import holds_cache
from lib.model.spec import CacheTerm

if TYPE_CHECKING:
    from lib.model.build import Built


def run_cache(built: Built) -> tuple[CacheTerm, ...] | None:
    """The terms of the model's default cache, or None if the model keeps none (an encoder).

    The built model is as before when this returns.

    Raises:
        UnsupportedModel: the model could not be run, or a tensor grows by a law that is not known here.
    """
    from lib.model.build import LOCK  # noqa: PLC0415 loaded when first needed

    if not holds_cache(built.model):
        return None
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _terms(built)
        except AdvisorError:
            raise
        except Exception as error:
            raise UnsupportedModel(
                f"The cache of {built.architecture} could not be run ({type(error).__name__}), so its size is not known here."
            ) from error


def _terms(built: Built) -> tuple[CacheTerm, ...] | None:
    """Ask the whole model, then the text decoders inside it, until one runs."""
    failure: Exception | None = None
    for module in candidates(built.model):
        try:
            samples = sample(module)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything on an input it cannot take
            failure = failure or error
        else:
            # A part of a model that did not run as a whole may well be its encoder, which has no cache of its own.
            if samples is not None:
                return named(terms(samples), built.config)
            if module is built.model:
                return None
    raise failure or UnsupportedModel(f"{built.architecture} has no part that takes tokens, so its cache was not run.")
