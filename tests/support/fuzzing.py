"""Seeded nonsense: arguments, configurations, bodies and events as a hostile or careless caller sends them.

Everything is drawn from one `random.Random`, so a seed and a number name a case for good. `SENTINEL` stands for a visitor's token: it is
sent where tokens are sent and where they are pasted by mistake, whole, with letters beyond ASCII and with half a surrogate pair, and may
stand in no answer and in no line of a log.
"""

from __future__ import annotations

import gzip
import inspect
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SENTINEL = "S3nt1nelT0kenOfSomebody"
TOKENS = (
    f"hf_{SENTINEL}",
    f"hf_{SENTINEL}é",
    f"hf_\udc80{SENTINEL}",
    f"hf_{SENTINEL}\ud800",
    f"hf_{SENTINEL}\r\nX-Evil: 1",
    f"hf_{SENTINEL}\x00",
    f" hf_{SENTINEL} ",
    f"hf_{SENTINEL}" * 50,
    f"Bearer hf_{SENTINEL}",
)
LEAKS = (SENTINEL, "Traceback", "site-packages", 'File "', "object at 0x", "/lib/ui/", "/lib/service/")
_CONFIGS = Path(__file__).parents[2] / "lib" / "data" / "model_configs.jsonl.gz"

_TEXTS = (
    "", " ", "\x00", "\u202e", "\ud800", "é" * 50, "🧭", "<script>alert(1)</script>", "{{7*7}}", "${jndi:ldap://x}", "%s%n",
    "../../etc/passwd", "file:///etc/passwd", "http://169.254.169.254/latest", "a" * 2_000, "NaN", "Infinity", "-0", "1e999", "0x10",
    "１２", "7B", "0B", "7b param", "auto", "none", "null", "true", "[]", "{}", "spaces,zerogpu", "l4x1", "jobs:l4x1", "spaces:nope",
    "cpu-basic", "bf16", "gguf:Q4_K_M", "vllm", "Qwen/Qwen3-8B", "openai-community/gpt2", "no-such/model", "ada/chat", "ada/secret",
    "https://huggingface.co/spaces/ada/chat", "https://huggingface.co/Qwen/Qwen3-8B", "text-generation", "ada/", "/", "ada/..", "a/b/c",
    "hf_short", "\n\n\n", "1,5", "1_000",
)  # fmt: skip
_NUMBERS = (
    0, 1, 2, -1, 7, 100, 4096, 2**31, 2**53, 2**63, 10**30, 10**400, -(10**400), 0.0, -0.0, 0.5, 1e-300, 1e300, 24, 31, 3600, 172800,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


class Fuzzer:
    """A source of nonsense."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - it guards nothing

    def text(self) -> str:
        """A text: a known trap, a token, or letters of all planes."""
        draw = self.random.random()
        if draw < 0.75:
            return self.random.choice(_TEXTS)
        if draw < 0.85:
            return self.random.choice(TOKENS)
        return "".join(
            chr(self.random.choice((self.random.randrange(128), self.random.randrange(0x110000)))) for _ in range(self.random.randrange(40))
        )

    def value(self, depth: int = 2) -> Any:
        """Any value that JSON has, NaN and infinity with it."""
        draw = self.random.random()
        if draw < 0.4:
            return self.text()
        if draw < 0.75:
            return self.random.choice(_NUMBERS)
        if draw < 0.9 or depth == 0:
            return self.random.choice((None, True, False))
        if draw < 0.95:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        return {self.text(): self.value(depth - 1) for _ in range(self.random.randrange(4))}

    def near(self, value: Any) -> Any:
        """The value, or something in its place."""
        draw = self.random.random()
        if draw < 0.6:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53 and draw < 0.8:
            return self.random.choice((value + 1, value * 2, -value, value * 1000, float(value), value - 0.5))
        return self.value()

    def arguments(self, question: Callable[..., Any]) -> dict[str, Any]:
        """Arguments of a question by name: most near their defaults, some left out, some that it does not have."""
        named: dict[str, Any] = {}
        for name, parameter in inspect.signature(question).parameters.items():
            if parameter.default is inspect.Parameter.empty:
                good = {"space_id": "ada/chat", "model": "7B", "message": "hello", "hardware": "l4x1"}.get(name, 1)
                named[name] = self.near(self.config_text() if name == "model" and self.random.random() < 0.02 else good)
            elif name == "token" or ("token" in name and parameter.kind is parameter.KEYWORD_ONLY):
                named[name] = self.random.choice((*TOKENS, None, "hf_ada", "hf_bob"))
            elif self.random.random() < 0.3:
                named[name] = self.near(parameter.default)
        if self.random.random() < 0.02:
            named[self.text()] = self.value()
        if named and self.random.random() < 0.02:
            named.pop(self.random.choice(list(named)))
        return named

    def config(self) -> dict[str, Any]:
        """A configuration near one of the bundled ones."""
        config = dict(self.random.choice(bundled_configs()))
        for _ in range(self.random.randrange(1, 4)):
            key = self.random.choice(list(config)) if config else "x"
            draw = self.random.random()
            if draw < 0.15:
                del config[key]
            elif draw < 0.25:
                config[self.text() if draw < 0.2 else "model_type"] = self.value()
            elif isinstance(config[key], dict) and config[key]:
                inner = dict(config[key])
                inner[self.random.choice(list(inner))] = self.value()
                config[key] = inner
            else:
                config[key] = self.near(config[key]) if self.random.random() < 0.5 else self.value()
        return config

    def config_text(self) -> str:
        """A configuration as it is pasted, now and then with a piece missing."""
        text = json.dumps(self.config())
        return text[: self.random.randrange(len(text))] if self.random.random() < 0.1 else text

    def mutated(self, body: bytes) -> bytes:
        """A body with some bytes changed."""
        changed = bytearray(body)
        for _ in range(self.random.randrange(1, 6)):
            at = self.random.randrange(len(changed) + 1)
            changed[at : at + self.random.randrange(3)] = self.random.randbytes(self.random.randrange(3))
        return bytes(changed)


@cache
def bundled_configs() -> Sequence[Mapping[str, Any]]:
    """Configurations of the bundled models of transformers."""
    with gzip.open(_CONFIGS, "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return [row["config"] for row in read if row.get("kind") == "transformers" and isinstance(row.get("config"), dict)]


def leaks(text: str) -> list[str]:
    """What stands in a text that may stand in no answer and no log."""
    return [leak for leak in LEAKS if leak in text]
