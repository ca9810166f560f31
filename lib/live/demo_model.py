"""The model that the chat runs: which one it is, how its files are fetched, where it is put, and why it may be missing.

    DEMO_MODEL    a Hub id (owner/name, or owner/name@revision) or a folder; without it SmolLM3-3B on a GPU and
                  SmolLM2-360M-Instruct on a CPU (both Apache-2.0, open, and in the bundled catalog, so that their predictions
                  are exact), each at one commit: what runs here changes with this app, not with a push to a repository

The files come from the owner's folder, from the Hub's cache, or from the Hub without a token, so the model has to be public. Fetched are
the top-level files that `transformers` reads (settings, tokenizer, one copy of the safetensors weights), after a check of their sizes
against the free disk. No code of a repository is run.

On ZeroGPU the model is put on "cuda" while the app starts (`place`), as the platform requires; each run's process gets it on the real
GPU. Elsewhere the first conversation loads it, and it stays.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.catalog import Catalog
from lib.errors import AdvisorError, LiveError, ModelNotAtHand, quote_value
from lib.live.device import IMPORT_LOCK, Device, current_device, on_zero_gpu
from lib.live.zerogpu import translate_failure
from lib.precision import TORCH_DTYPES
from lib.present.wording import write_text
from lib.units import GIB

Note = str | Callable[[], str]
NoteListener = Callable[[Note], None]
"""Receives each step: a sentence, or a function that makes the sentence each time it is shown."""

MEANWHILE_SENTENCE = "Run and Run the heartbeat need no weights and work meanwhile."
_SETTINGS = re.compile(r"[\w.-]+\.(json|jinja|txt|model)")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_SPARE_BYTES = GIB
_LOOK_S = 10.0


def _load_refusal(name: str, why: str, after: str) -> ModelNotAtHand:
    return ModelNotAtHand(f"The chat's model {quote_value(name)} is not at hand: {why}. Next: {after}. {MEANWHILE_SENTENCE}")


def weights_bytes_in(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def choose_files(sizes: Mapping[str, int]) -> dict[str, int]:
    """The files to fetch with their bytes: one copy of the weights, and the small files of its folder; none without safetensors."""
    weights = [_SINGLE] if _SINGLE in sizes else [name for name in sizes if _SHARD.fullmatch(name)] if _INDEX in sizes else []
    small = [name for name in sizes if _SETTINGS.fullmatch(name)]
    return {name: sizes[name] for name in (*weights, *small)} if weights else {}


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a model to read: its config and every file of its weights."""
    if not (folder / "config.json").is_file():
        return False
    if (folder / _SINGLE).is_file():
        return True
    try:
        shards = set(json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return bool(shards) and all(isinstance(shard, str) and (folder / shard).is_file() for shard in shards)


def fetch_model(reference: str, name: str, tell: NoteListener) -> Path:
    """The folder that holds the model's files."""
    own = Path(reference)
    if own.is_dir():
        if is_complete(own):
            return own
        raise _load_refusal(name, "the folder holds no config.json with safetensors weights", "the owner of the Space mends DEMO_MODEL")
    from huggingface_hub import constants, try_to_load_from_cache  # noqa: PLC0415
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    reference, revision = split_revision(reference)
    try:
        config = try_to_load_from_cache(reference, "config.json", revision=revision)  # the Hub is not asked for a newer copy
        if isinstance(config, str) and is_complete(Path(config).parent):
            return Path(config).parent
        if constants.is_offline_mode():
            raise _load_refusal(
                name, "this server runs offline (HF_HUB_OFFLINE=1) and holds no copy", "the owner of the Space lets it go online"
            )
        return _download(reference, revision, name, tell)
    except HFValidationError:
        raise _load_refusal(name, "that is neither a folder nor the id of a model", "the owner of the Space mends DEMO_MODEL") from None


def split_revision(reference: str) -> tuple[str, str | None]:
    """The id, and the revision that is named behind it or pinned here; None is the newest.

    >>> split_revision("ada/chat@v1.0"), split_revision("ada/chat")
    (('ada/chat', 'v1.0'), ('ada/chat', None))
    """
    name, _, revision = reference.partition("@")
    return name, revision or REVISIONS.get(name)


def _download(repository: str, revision: str | None, name: str, tell: NoteListener) -> Path:
    from httpx2 import HTTPError  # noqa: PLC0415
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415

    tell(write_text("live", "waiting", "asking_hub", model=name))
    try:
        info = HfApi(token=False).model_info(repository, revision=revision, files_metadata=True, timeout=_LOOK_S)
        files = choose_files({file.rfilename: file.size or 0 for file in info.siblings or ()})
        if not files:
            raise _load_refusal(
                name, "the repository holds no safetensors weights", "the owner of the Space names another model in DEMO_MODEL"
            )
        _check_disk_space(name, sum(files.values()))
        tell(_progress(repository, name, sum(files.values())))
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(files), token=False))
    except ModelNotAtHand:
        raise
    except (OSError, HTTPError) as error:
        raise _fetch_refusal(name, error) from error


def _cache() -> Path:
    from huggingface_hub import constants  # noqa: PLC0415

    return Path(constants.HF_HUB_CACHE)


def _check_disk_space(name: str, need: int) -> None:
    place = next((folder for folder in (_cache(), *_cache().parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    if need + _SPARE_BYTES > free:
        raise _load_refusal(
            name,
            f"its files take {need / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB free",
            "the owner of the Space sets DEMO_MODEL to a smaller model, or attaches storage and points HF_HOME there",
        )


def _progress(repository: str, name: str, total: int) -> Callable[[], str]:
    """Bytes that have arrived, read from the cache's files at each call."""
    blobs = _cache() / f"models--{repository.replace('/', '--')}" / "blobs"

    def sizes() -> Iterable[int]:
        for path in blobs.glob("*"):
            try:
                yield path.stat().st_size
            except OSError:  # renamed between the listing and the look
                continue

    return lambda: write_text("live", "waiting", "fetching", model=name, done=min(sum(sizes()), total) / 1e6, total=total / 1e6)


def _fetch_refusal(name: str, error: Exception) -> ModelNotAtHand:
    """Why the files did not come."""
    from huggingface_hub import errors as hub  # noqa: PLC0415

    owner = "the owner of the Space names a public, open model in DEMO_MODEL"
    match error:
        case hub.OfflineModeIsEnabled():
            return _load_refusal(name, "this server runs offline (HF_HUB_OFFLINE=1)", "the owner of the Space lets it go online")
        case hub.GatedRepoError():
            return _load_refusal(name, "it is gated, and no token is sent for it", f"{owner}, or a folder with its files")
        case hub.RepositoryNotFoundError() | hub.RevisionNotFoundError() | hub.DisabledRepoError():
            return _load_refusal(name, "the Hub has no such public model", owner)
        case hub.HfHubHTTPError(response=response) if response is not None:
            return _load_refusal(name, f"the Hub answered with status {response.status_code}", "try again later")
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _load_refusal(
            name, "the disk was full before all of it had come", "the owner of the Space attaches storage, or sets a smaller model"
        )
    return _load_refusal(
        name,
        f"the Hub could not be reached ({type(error).__name__})",
        "try again later; on a server without network, DEMO_MODEL may name a folder",
    )


log = logging.getLogger(__name__)

ON_GPU = "HuggingFaceTB/SmolLM3-3B"
ON_CPU = "HuggingFaceTB/SmolLM2-360M-Instruct"
REVISIONS = {ON_GPU: "a07cc9a04f16550a088caea529712d1d335b0ac1", ON_CPU: "a10cc1512eabd3dde888204e902eca88bddb4951"}
"""Commits of these two repositories, the newest on 2026-11-22 as far as public pins of them tell."""
CONTEXT_ON_GPU, CONTEXT_ON_CPU = 8192, 2048
"""Tokens that a conversation may take. Prefill of 512 tokens took 2.4 s on two vCPU like those of Spaces (SmolLM2-360M's shape, random
weights, float32, AMD EPYC, 2026-11-21). A longer prompt would let a visitor wait for ten seconds."""

ROOM = 1.3
"""Factor for memory beyond the weights: cache, activations, other programs. An allowance."""

_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model that can be talked to. `config_text` is its config.json, `context_tokens` the limit of a conversation."""

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


def display_name(model: str) -> str:
    """The model's name for visitors: of a folder, there or not, its last part only."""
    is_folder = Path(model).is_dir() or model.count("/") != 1 or model.startswith((".", "/", "~"))
    return Path(model).name if is_folder else split_revision(model)[0]


class DemoModel:
    """Holds the one model of the chat, or the reason why there is none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read DEMO_MODEL from `environment`; nothing is loaded yet."""
        self._reference = environment.get("DEMO_MODEL", "").strip()
        self._loading = threading.Lock()
        self._model: LoadedModel | None = None
        self._refusal: LiveError | None = None

    def choose_model(self, device: Device) -> str:
        """Hub id or folder of the model for this device."""
        return self._reference or (ON_CPU if device.kind == "cpu" else ON_GPU)

    @property
    def loaded_model(self) -> LoadedModel | None:
        """The model, if it is loaded."""
        return self._model

    def place(self, catalog: Catalog) -> None:
        """On ZeroGPU: put the model where the platform expects it; call it while the app starts. Elsewhere: nothing.

        A model that cannot be had does not stop the app: the chat then says why.
        """
        if not on_zero_gpu():
            return
        try:
            reference = self.choose_model(current_device(catalog))
            self._model = load(reference, current_device(catalog, "xlarge"), lambda _: None)  # the size is chosen by what was loaded
        except LiveError as error:
            log.warning("no model for the chat: %s", error)
            self._refusal = type(error)(f"{error} It is looked for while the app starts: the owner restarts the Space to try again.")

    def load(self, device: Device, tell: NoteListener) -> LoadedModel:
        """The model, loaded now if it is not yet; `tell` receives each step."""
        if self._model is not None:
            return self._model
        if on_zero_gpu():
            raise self._refusal or ModelNotAtHand(
                "The chat's model was not placed while the app started. Next: the owner restarts the Space."
            )
        with self._loading:
            if self._model is None:
                self._model = load(self.choose_model(device), device, tell)
        return self._model


def load(reference: str, device: Device, tell: NoteListener) -> LoadedModel:
    """Fetch the missing files, read them, put the model on the device."""
    name = display_name(reference)
    folder = fetch_model(reference, name, tell)
    precision = precision_for(device)
    need = weights_bytes_in(folder) * (2 if precision == "fp32" else 1) * ROOM  # checkpoints are stored in 16 bits
    if need > device.free_bytes:
        raise ModelNotAtHand(
            f"{name} needs about {need / GIB:.1f} GiB as {precision} and {device.name} has {device.free_bytes / GIB:.1f} GiB free. "
            "Next: a tier with more memory, or DEMO_MODEL set to a smaller model."
        )
    tell(write_text("live", "waiting", "loading", model=name, device=device.name))
    return load_from_folder(name, folder, device, precision)


def load_from_folder(name: str, folder: Path, device: Device, precision: str) -> LoadedModel:
    """Tokenizer and weights from a folder, on the device."""
    with IMPORT_LOCK:
        import torch  # noqa: PLC0415
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    dtype = getattr(torch, TORCH_DTYPES[precision])
    alone: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config_text = (folder / "config.json").read_text(encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder, **alone)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **alone)
        model = model.eval().to(device.torch_name)
    except AdvisorError:
        raise
    except Exception as error:
        failure = translate_failure(error)
        if failure is not None:
            raise failure from error
        log.warning("the model %s cannot be read", name, exc_info=True)
        raise ModelNotAtHand(
            f"The files of {name} cannot be used for a chat ({type(error).__name__}). Accepted: a text model of transformers with "
            "safetensors weights and a tokenizer, without code of its own. Next: the owner of the Space sets DEMO_MODEL to such a model."
        ) from error
    if not tokenizer.chat_template:
        raise ModelNotAtHand(
            f"{name} has no chat template, so it is not a chat model. Next: the owner of the Space sets DEMO_MODEL to an instruct model."
        )
    return _ready(name, model, tokenizer, config_text, precision, device)


def _ready(name: str, model: Any, tokenizer: Any, config_text: str, precision: str, device: Device) -> LoadedModel:
    from transformers import GenerationConfig  # noqa: PLC0415

    stated, ours = model.generation_config, CONTEXT_ON_CPU if device.kind == "cpu" else CONTEXT_ON_GPU
    ends = stated.eos_token_id if stated.eos_token_id is not None else tokenizer.eos_token_id
    end_ids = frozenset(ends) if isinstance(ends, list | tuple) else frozenset() if ends is None else frozenset({int(ends)})
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(end_ids, default=0)
    # A checkpoint's own settings may ask for anything (beams, assistants, time); only its ends of text are taken over.
    kind: Any = GenerationConfig
    model.generation_config = kind(eos_token_id=sorted(end_ids) or None, pad_token_id=pad, bos_token_id=tokenizer.bos_token_id)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return LoadedModel(
        name=name,
        model=model,
        tokenizer=tokenizer,
        config_text=config_text,
        precision=precision,
        weights_bytes=sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers())),
        context_tokens=min(ours, limit) if isinstance(limit, int) and limit > 0 else ours,
        end_ids=end_ids,
    )
