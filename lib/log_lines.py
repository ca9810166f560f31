"""Lines of the log: one JSON object each, of at most 2 kB, without tokens.

Who reads the log of a Space may not be who uses it: no line holds an address, a text that a visitor typed or a token. Code that logs
leaves out what a caller sent; what libraries write about it is looked through here. A line is cut, for a stranger may choose how long a
message is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from datetime import UTC, datetime

MOST_CHARACTERS = 2_000
_TOKENS = re.compile(r"hf_[^\s\"']{8,}|(?<=Bearer )[^\s\"']+")
_WHERE = re.compile(r'File "[^"]*?([^/"]+/[^/"]+)"')
_CUT = " … "


class LineFormatter(logging.Formatter):
    """A record as one line: when, how bad, who, what, and where it went wrong, the ends of a long text kept."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
        }
        line |= getattr(record, "values", {})
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if text:
            line["said"] = ""
            line["said"] = _shorten(_hide_token(text), MOST_CHARACTERS - len(json.dumps(line)))
        return json.dumps(line, default=str)[:MOST_CHARACTERS]


def _hide_token(text: str) -> str:
    """The text without tokens, and without the folders above a file's own."""
    return _WHERE.sub(r'File "\1"', _TOKENS.sub("(token)", text))


def _shorten(text: str, most: int) -> str:
    """The beginning and the end of a text whose JSON is too long."""
    kept = len(text)
    while kept > 0 and len(json.dumps(text if kept == len(text) else _ends(text, kept))) > most:
        kept = kept * 2 // 3
    return text if kept == len(text) else _ends(text, kept)


def _ends(text: str, kept: int) -> str:
    return text[: kept // 3] + _CUT + text[len(text) - 2 * kept // 3 :]


def write_lines(level: int | None = None) -> None:
    """Have every logger of this process write such lines to stderr: ours from `level` on, those of libraries their errors.

    Warnings of libraries quote what was sent. None takes the level of the environment (`LOG_LEVEL`), by default `info`: a line for every
    question.
    """
    if level is None:
        configured = logging.getLevelNamesMapping().get(os.environ.get("LOG_LEVEL", "").upper())
        level = logging.INFO if configured is None else configured
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    logging.getLogger("lib").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "huggingface_hub", "transformers"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(capture=True)
    warnings.filterwarnings("ignore", module="gradio")  # they quote what a visitor sent
