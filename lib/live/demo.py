"""The model that the chat runs: which one, where it is put, and why it is not there when it is not.

    DEMO_MODEL    a Hub id or a folder; without it SmolLM3-3B where there is a GPU and SmolLM2-360M-Instruct where there is none
                  (both Apache-2.0, open, and in the bundled catalog, so that what is predicted of them is exact)

On ZeroGPU the model is put on "cuda" while the app starts (`place`), as the platform asks: what was put there is moved to the real GPU in
each run's process. Elsewhere it is loaded by the first conversation and stays. Only safetensors are read, no code of a repository is run,
and the server's own token is not sent.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.errors import AdvisorError, LiveError, ModelNotAtHand
from lib.live import faults
from lib.live.device import Device, at_hand, on_zero_gpu
from lib.live.fetch import Tell, fetched, weigh
from lib.units import GIB

log = logging.getLogger(__name__)

ON_GPU = "HuggingFaceTB/SmolLM3-3B"
ON_CPU = "HuggingFaceTB/SmolLM2-360M-Instruct"
CONTEXT_ON_GPU, CONTEXT_ON_CPU = 8192, 2048
"""Tokens that a conversation may take. On two processors of Spaces' kind 512 tokens of prompt took 2.4 s to read (SmolLM2-360M's shape,
random weights, float32, 2 vCPU of an AMD EPYC, 2026-11-21), so a longer one would let a visitor wait for ten seconds."""

ROOM = 1.3
"""Weights are not all that is held: cache, activations, what else runs. An allowance."""

_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that can be talked to. `config_text` is its config.json, `context_tokens` what a conversation may take."""

    name: str
    model: Any
    tokenizer: Any
    config_text: str
    precision: str
    weights_bytes: int
    context_tokens: int
    end_ids: frozenset[int]


def precision_for(device: Device) -> str:
    """The format that the weights get: 16 bits where the device multiplies them, 32 on a CPU.

    A CPU without units for bfloat16 read a prompt of 512 tokens in 19.7 s instead of 2.4 s, though it wrote 13 tokens/s instead of 10
    (measured as above). Those with such units were not at hand and keep float32, which all of them run well.
    """
    if device.kind == "cpu":
        return "fp32"
    return "fp16" if device.capability is not None and device.capability < _AMPERE else "bf16"


def shown_name(model: str) -> str:
    """The model's name for visitors: of a folder, there or not, its last part only."""
    return Path(model).name if Path(model).is_dir() or model.count("/") != 1 or model.startswith((".", "/", "~")) else model


class DemoModel:
    """Holds the one model of the chat, or the reason why there is none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read DEMO_MODEL from `environment`; nothing is loaded yet."""
        self._wanted = environment.get("DEMO_MODEL", "").strip()
        self._loading = threading.Lock()
        self._held: Loaded | None = None
        self._refused: LiveError | None = None

    def wanted(self, device: Device) -> str:
        """Hub id or folder of the model for this device."""
        return self._wanted or (ON_CPU if device.kind == "cpu" else ON_GPU)

    @property
    def held(self) -> Loaded | None:
        """The model, if it is loaded."""
        return self._held

    def place(self) -> None:
        """On ZeroGPU: put the model where the platform expects it; call it while the app starts. Elsewhere: nothing.

        A model that cannot be had does not stop the app: the chat then says why.
        """
        if not on_zero_gpu():
            return
        try:
            self._held = load(self.wanted(at_hand()), at_hand("xlarge"), lambda _: None)  # the size is chosen by what was loaded
        except LiveError as error:
            log.warning("no model for the chat: %s", error)
            self._refused = type(error)(f"{error} It is looked for while the app starts: the owner restarts the Space to try again.")

    def load(self, device: Device, tell: Tell) -> Loaded:
        """The model, loaded now if it is not yet; `tell` hears what is going on.

        Raises:
            ModelNotAtHand: it cannot be had, with the reason.
            LiveError: the device failed to take it.
        """
        if self._held is not None:
            return self._held
        if on_zero_gpu():
            raise self._refused or ModelNotAtHand(
                "The chat's model was not placed while the app started. Next: the owner restarts the Space."
            )
        with self._loading:
            if self._held is None:
                self._held = load(self.wanted(device), device, tell)
        return self._held


def load(wanted: str, device: Device, tell: Tell) -> Loaded:
    """Fetch what is missing, read it, put it on the device.

    Raises:
        ModelNotAtHand: it cannot be had, with the reason.
        LiveError: the device failed to take it.
    """
    name = shown_name(wanted)
    folder = fetched(wanted, name, tell)
    precision = precision_for(device)
    _room(name, folder, device, precision)
    tell(f"Reading {name} into the memory of {device.name}.")
    return read(name, folder, device, precision)


def _room(name: str, folder: Path, device: Device, precision: str) -> None:
    """Refuse before the memory is full."""
    need = weigh(folder) * (2 if precision == "fp32" else 1) * ROOM  # checkpoints are stored in 16 bits
    if need > device.free_bytes:
        raise ModelNotAtHand(
            f"{name} needs about {need / GIB:.1f} GiB as {precision} and {device.name} has {device.free_bytes / GIB:.1f} GiB free. "
            "Next: a tier with more memory, or DEMO_MODEL set to a smaller model."
        )


def read(name: str, folder: Path, device: Device, precision: str) -> Loaded:
    """Tokenizer and weights from a folder, on the device.

    Raises:
        ModelNotAtHand: the files cannot be used.
        LiveError: the device failed to take them.
    """
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    alone: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config_text = (folder / "config.json").read_text(encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder, **alone)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **alone)
        model = model.eval().to(device.torch_name)
    except AdvisorError:
        raise
    except Exception as error:
        told = faults.understood(error)
        if told is not None:
            raise told from error
        log.warning("the model %s cannot be read", name, exc_info=True)
        raise ModelNotAtHand(
            f"The files of {name} cannot be used for a chat ({type(error).__name__}). Accepted: a text model of transformers with "
            "safetensors weights and a tokenizer, without code of its own. Next: the owner of the Space sets DEMO_MODEL to such a model."
        ) from error
    if not tokenizer.chat_template:
        raise ModelNotAtHand(
            f"{name} has no chat template, so it is no model to talk to. Next: the owner of the Space sets DEMO_MODEL to an instruct model."
        )
    return _ready(name, model, tokenizer, config_text, precision, device)


def _ready(name: str, model: Any, tokenizer: Any, config_text: str, precision: str, device: Device) -> Loaded:
    from transformers import GenerationConfig  # noqa: PLC0415

    stated, ours = model.generation_config, CONTEXT_ON_CPU if device.kind == "cpu" else CONTEXT_ON_GPU
    ends = stated.eos_token_id if stated.eos_token_id is not None else tokenizer.eos_token_id
    end_ids = frozenset(ends) if isinstance(ends, list | tuple) else frozenset() if ends is None else frozenset({int(ends)})
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(end_ids, default=0)
    # A checkpoint's own settings may ask for anything (beams, assistants, time); only its ends of text are taken over.
    kind: Any = GenerationConfig
    model.generation_config = kind(eos_token_id=sorted(end_ids) or None, pad_token_id=pad, bos_token_id=tokenizer.bos_token_id)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return Loaded(
        name=name,
        model=model,
        tokenizer=tokenizer,
        config_text=config_text,
        precision=precision,
        weights_bytes=sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers())),
        context_tokens=min(ours, limit) if isinstance(limit, int) and limit > 0 else ours,
        end_ids=end_ids,
    )
