"""What Gradio offers and this page does not use: ways in which strangers could fill the server's disk, or have it fetch files for them.

Nothing here takes a file. A value that says it is one is fetched by Gradio from whatever address it names, into the server's cache,
before any function of ours is asked; a "deep link" writes half a megabyte for each session, with what that session was shown in it.
"""

from __future__ import annotations

from typing import Any

NO_FILES = "Files are not taken here. Paste the text of a config.json as the model instead."
_TAKING = ("/gradio_api/upload", "/gradio_api/process_recording")
_OTHER = ("/gradio_api/deep_link", "/gradio_api/dev/")
_FILE = "gradio.FileData"


def closed(path: str) -> str | None:
    """The sentence for a route that is not offered here; None for all others."""
    if path.startswith(_TAKING):
        return NO_FILES
    return "Nothing is offered at this address." if path.startswith(_OTHER) else None


def holds_file(sent: Any) -> bool:
    """Whether anything in a call's JSON would be taken for a file by Gradio (`gradio_client.utils.is_file_obj_with_meta`)."""
    left = [sent]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            meta = value.get("meta")
            if isinstance(meta, dict) and meta.get("_type") == _FILE:
                return True
            left += value.values()
    return False
