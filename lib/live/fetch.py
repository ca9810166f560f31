"""The files of the chat's model: a folder of the owner's, what the Hub's cache holds, or fetched from the Hub as anybody may.

Fetched are the files at the top of the repository that `transformers` reads (settings, tokenizer, one copy of the safetensors weights),
after a look at their sizes and the free disk. No token is sent, so the model has to be public.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lib.errors import ModelNotAtHand, shown

Note = str | Callable[[], str]
Tell = Callable[[Note], None]
"""Hears what is going on: a sentence, or what makes it anew each time it is shown."""

AFTER = "Measure and Heartbeat need no weights and work meanwhile."
_SETTINGS = re.compile(r"[\w.-]+\.(json|jinja|txt|model)")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_SPARE_BYTES = 1 << 30
_LOOK_S = 10.0


def _refused(name: str, why: str, after: str) -> ModelNotAtHand:
    return ModelNotAtHand(f"The chat's model {shown(name)} is not at hand: {why}. Next: {after}. {AFTER}")


def weigh(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def chosen(sizes: Mapping[str, int]) -> dict[str, int]:
    """The files to fetch with their bytes: one copy of the weights, and the small files beside them; none without safetensors."""
    weights = [_SINGLE] if _SINGLE in sizes else [name for name in sizes if _SHARD.fullmatch(name)] if _INDEX in sizes else []
    small = [name for name in sizes if _SETTINGS.fullmatch(name)]
    return {name: sizes[name] for name in (*weights, *small)} if weights else {}


def whole(folder: Path) -> bool:
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


def fetched(wanted: str, name: str, tell: Tell) -> Path:
    """The folder that holds the model's files.

    Raises:
        ModelNotAtHand: they are not there and cannot be fetched, with the reason and what to do.
    """
    own = Path(wanted)
    if own.is_dir():
        if whole(own):
            return own
        raise _refused(name, "the folder holds no config.json with safetensors weights", "the owner of the Space mends DEMO_MODEL")
    from huggingface_hub import constants  # noqa: PLC0415
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    try:
        kept = _kept(wanted)
        if kept is not None:
            return kept
        if constants.is_offline_mode():
            raise _refused(
                name, "this server runs offline (HF_HUB_OFFLINE=1) and holds no copy", "the owner of the Space lets it go online"
            )
        return _download(wanted, name, tell)
    except HFValidationError:
        raise _refused(name, "that is neither a folder nor the id of a model", "the owner of the Space mends DEMO_MODEL") from None


def _kept(wanted: str) -> Path | None:
    """The copy in the Hub's cache, if it is whole; the Hub is not asked whether there is a newer one."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415

    config = try_to_load_from_cache(wanted, "config.json")
    return Path(config).parent if isinstance(config, str) and whole(Path(config).parent) else None


def _download(wanted: str, name: str, tell: Tell) -> Path:
    from httpx2 import HTTPError  # noqa: PLC0415
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415

    tell(f"Asking the Hub for {name}.")
    try:
        info = HfApi(token=False).model_info(wanted, files_metadata=True, timeout=_LOOK_S)
        files = chosen({file.rfilename: file.size or 0 for file in info.siblings or ()})
        if not files:
            raise _refused(name, "the repository holds no safetensors weights", "the owner of the Space names another model in DEMO_MODEL")
        _space(name, sum(files.values()))
        tell(_progress(wanted, name, sum(files.values())))
        return Path(snapshot_download(wanted, allow_patterns=list(files), token=False))
    except ModelNotAtHand:
        raise
    except (OSError, HTTPError) as error:
        raise _unfetched(name, error) from error


def _cache() -> Path:
    from huggingface_hub import constants  # noqa: PLC0415

    return Path(constants.HF_HUB_CACHE)


def _space(name: str, need: int) -> None:
    place = next((folder for folder in (_cache(), *_cache().parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    if need + _SPARE_BYTES > free:
        raise _refused(
            name,
            f"its files take {need / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB free",
            "the owner of the Space sets DEMO_MODEL to a smaller model, or attaches storage and points HF_HOME there",
        )


def _progress(wanted: str, name: str, total: int) -> Callable[[], str]:
    """What has arrived, read from the cache's files each time it is asked."""
    blobs = _cache() / f"models--{wanted.replace('/', '--')}" / "blobs"

    def sizes() -> Iterable[int]:
        for path in blobs.glob("*"):
            try:
                yield path.stat().st_size
            except OSError:  # renamed between the listing and the look
                continue

    return lambda: f"Fetching {name}: {min(sum(sizes()), total) / 1e6:,.0f} of {total / 1e6:,.0f} MB."


def _unfetched(name: str, error: Exception) -> ModelNotAtHand:
    """Why the files did not come."""
    from huggingface_hub import errors as hub  # noqa: PLC0415

    owner = "the owner of the Space names a public, open model in DEMO_MODEL"
    match error:
        case hub.OfflineModeIsEnabled():
            return _refused(name, "this server runs offline (HF_HUB_OFFLINE=1)", "the owner of the Space lets it go online")
        case hub.GatedRepoError():
            return _refused(name, "it is gated, and no token is sent for it", f"{owner}, or a folder with its files")
        case hub.RepositoryNotFoundError() | hub.RevisionNotFoundError() | hub.DisabledRepoError():
            return _refused(name, "the Hub has no such public model", owner)
        case hub.HfHubHTTPError(response=response) if response is not None:
            return _refused(name, f"the Hub answered with status {response.status_code}", "try again later")
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _refused(
            name, "the disk was full before all of it had come", "the owner of the Space attaches storage, or sets a smaller model"
        )
    return _refused(
        name,
        f"the Hub could not be reached ({type(error).__name__})",
        "try again later; on a server without network, DEMO_MODEL may name a folder",
    )
