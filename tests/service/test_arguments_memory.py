"""The arguments of a question become one value, or the first wrong one is named."""

from __future__ import annotations

import pytest

from lib.errors import BadArgument
from lib.service.memory import MemoryArguments


def asked(**changed: object) -> dict[str, object]:
    """The defaults of the contract, with changes."""
    defaults = {
        "model": "7B",
        "precision": "auto",
        "engine": "transformers",
        "context_tokens": 4096,
        "batch_size": 1,
        "kv_precision": "auto",
        "mode": "inference",
        "devices": 1,
        "encoder_tokens": 0,
    }
    return defaults | changed


@pytest.mark.parametrize(
    ("written", "meant"), [("bfloat16", "bf16"), ("torch.float16", "fp16"), ("q4_k_m", "gguf:Q4_K_M"), (" BNB-NF4 ", "bnb-nf4")]
)
def test_a_precision_is_understood_in_other_spellings(written: str, meant: str) -> None:
    """Words of torch and of llama.cpp, and any capitals."""
    assert MemoryArguments.model_validate(asked(precision=written)).precision == meant


@pytest.mark.parametrize(
    "name", ["precision", "engine", "context_tokens", "batch_size", "kv_precision", "mode", "devices", "encoder_tokens"]
)
@pytest.mark.parametrize("value", [None, [], {}, float("nan"), -1, True, "\0", "x" * 1000, [[[[[]]]]]])
def test_each_argument_is_named_when_it_is_wrong(name: str, value: object) -> None:
    """Short sentences, whatever came."""
    with pytest.raises(BadArgument, match=f"^{name} was") as refusal:
        MemoryArguments.model_validate(asked(**{name: value}))
    assert len(str(refusal.value)) < 400
