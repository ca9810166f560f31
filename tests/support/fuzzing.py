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
from typing import Any, Literal, get_args, get_origin

from contract import TINY_CONFIG

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


_MODELS = (
    "7B", "0.5B", "70b", TINY_CONFIG, "Qwen/Qwen3-8B", "openai-community/gpt2", "black-forest-labs/FLUX.1-dev", "no-such/model",
    "org/gguf:Q4_K_M", "org/gguf:../../x", "mistralai/Mixtral-8x7B-v0.1", "openai/whisper-large-v3", "org/llama-8b",
)  # fmt: skip
_HARDWARE = ("l4x1", "cpu-basic", "jobs:l4x1", "v6e-8", "H100-SXMx8", "zero-a10g", "t4-small", "H100-SXMx0", "RTX-4090x2", "spaces:l4x1")
_WAYS = ({"hardware": "l4x1"}, {"hardware": "t4-small", "engine": "vllm", "precision": "fp16", "concurrency": 8}, {"hardware": []}, {}, [])
_TRACE = "time,prompt_tokens,output_tokens\n0,100,20\n1.5,300,40\n2,10,1\n"
_TRACES = (
    "", _TRACE, "0\n1\n2\n", "2026-01-01T00:00:00\n2026-01-01T00:00:01\n", "time\n1\n0\n", "0,1e400,2\n", "0,-1,0\n", "nan,1,1\n",
    "0\n1e300\n",
    "0001-01-01\n9999-12-31\n", '"', "time,time\n1,2\n", "=cmd|' /C calc'!A0,1,1\n", "0," * 5_000, "0,100000000,100000000\n" * 50, "\x00\n",
)  # fmt: skip
_METRICS = (
    "", "# HELP x\n", "vllm:time_to_first_token_seconds_sum 3.5\nvllm:time_to_first_token_seconds_count 10\n",
    'vllm:time_per_output_token_seconds_sum{model_name="x"} nan\nvllm:time_per_output_token_seconds_count{model_name="x"} 0\n',
    "vllm:e2e_request_latency_seconds_sum 1e400\nvllm:e2e_request_latency_seconds_count 1\n", "a{" * 2_000, "tgi_request_duration_sum -1\n",
    "vllm:time_to_first_token_seconds_count -7\nvllm:time_to_first_token_seconds_sum Inf\n", '{"a":' * 500, "x 1 " * 3_000,
)  # fmt: skip
GOOD: Mapping[str, Sequence[Any]] = {
    "model": _MODELS,
    "hardware": _HARDWARE,
    "before": _WAYS,
    "after": _WAYS,
    "space_id": ("ada/chat", "ada/secret", "bob/app"),
    "name": ("ada/llama", "ada/large", "ada/687fb701"),
    "kind": ("space", "endpoint", "job"),
    "message": ("hello",),
    "action": ("switch", "sleep", "pause", "restart"),
    "trace": _TRACES,
    "metrics_text": _METRICS,
    "policy": ("static", "dynamic", "continuous"),
    "arrivals": ("poisson", "bursty", "recorded", "closed"),
    "lengths": ("fixed", "uniform", "lognormal"),
    "precision": ("auto", "bf16", "fp16", "fp32", "int8", "int4", "fp8", "awq-4", "gguf:Q4_K_M", "q4_k_m"),
    "kv_precision": ("auto", "bf16", "fp8", "int8", "q8_0"),
    "guidance": ("auto", "on", "off", "none", True, 7.5),
    "quantized": ("all", "transformer", "none", "text_encoder"),
    "platforms": ("spaces", "jobs", "spaces,jobs", "all", "endpoints", "gcp"),
    "task": ("auto", "text-generation", "text-to-image", "feature-extraction"),
    "target_modules": ("all-linear", "q_proj,v_proj", "attention", "q_proj," * 30),
    "region": ("", "us-central1", "us-east-1", "europe-west4"),
    "batch": ("not_stated", "small", "large"),
    "prompt_tokens": (1, 512, 8_192, 1_000_000, 100_000_000),
    "output_tokens": (1, 256, 100_000, 100_000_000),
    "context_tokens": (1, 4_096, 131_072, 100_000_000),
    "requests_per_s": (0.0001, 1, 50, 10_000),
    "duration_s": (1, 30, 300, 604_800),
    "max_ttft_s": (0, 1e-300, 0.5, 10, 86_400),
    "max_tpot_s": (0, 5e-324, 0.05, 1, 604_800),
    "min_tokens_per_s": (0, 1e-300, 10, 1_000_000),
    "images": (0, 1, 16, 10_000),
    "image_width": (1, 336, 1_024, 100_000),
    "max_batch_size": (1, 32, 1_024),
    "replicas": (1, 2, 64),
    "clients": (0, 1, 64, 4_096),
    "concurrency": (1, 8, 64, 100_000),
    "batch_size": (1, 8, 65_536),
    "gpu_layers": (-1, 0, 1, 16, 99, 10_000),
    "width": (0, 8, 512, 1_024, 1_000_000),
    "height": (0, 8, 512, 1_023, 1_000_000),
    "frames": (0, 1, 81, 1_000_000),
    "steps": (0, 1, 50, 1_000),
    "rank": (1, 16, 1_024),
    "sequence_tokens": (1, 2_048, 100_000_000),
    "micro_batch": (1, 512, 65_536),
    "rows": (1, 10_000, 10**9),
    "epochs": (1, 3, 0.1),
    "items": (1, 1_000_000, 10**12),
    "text": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 22.03 GiB of which 1.18 GiB is free.",
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (26288).",
    ),
}
"""Values by the name of an argument: those that are accepted, and those at the edge."""


def choices_of(name: str, parameter: inspect.Parameter) -> Sequence[Any]:
    """Values that an argument takes: those that its type names, those known for its name, or what it has by default."""
    types = (parameter.annotation, *get_args(parameter.annotation))
    named = [choice for one in types if get_origin(one) is Literal for choice in get_args(one)]
    default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
    return (*named, *GOOD.get(name, ()), *default, *((True, False) if parameter.annotation is bool else ()))


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

    def vary_value(self, value: Any) -> Any:
        """The value, or something in its place."""
        draw = self.random.random()
        if draw < 0.6:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53 and draw < 0.8:
            return self.random.choice((value + 1, value * 2, -value, value * 1000, float(value), value - 0.5))
        return self.value()

    def arguments(self, question: Callable[..., Any]) -> dict[str, Any]:
        """Arguments of a question by name: most of them accepted or near that, some left out, some that it does not have."""
        values: dict[str, Any] = {}
        wild = self.random.choice((0.02, 0.02, 0.3))  # of much nonsense little gets through
        stated_share = self.random.choice((0.05, 0.15, 0.4))
        for name, parameter in inspect.signature(question).parameters.items():
            if name == "token" or ("token" in name and parameter.kind is parameter.KEYWORD_ONLY):
                values[name] = self.random.choice((*TOKENS, None, "hf_ada", "hf_bob"))
            elif parameter.default is inspect.Parameter.empty or self.random.random() < stated_share:
                good = self.random.choice(choices_of(name, parameter) or (1,))
                if name == "model" and self.random.random() < 0.02:
                    good = self.config_text()
                values[name] = self.vary_value(good) if self.random.random() < wild else good
        if self.random.random() < 0.02:
            values[self.text()] = self.value()
        if values and self.random.random() < 0.02:
            values.pop(self.random.choice(list(values)))
        return values

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
                config[key] = self.vary_value(config[key]) if self.random.random() < 0.5 else self.value()
        return config

    def config_text(self) -> str:
        """A configuration as it is pasted, now and then with a piece missing."""
        text = json.dumps(self.config())
        return text[: self.random.randrange(len(text))] if self.random.random() < 0.1 else text

    def mutate_body(self, body: bytes) -> bytes:
        """A body with some bytes changed."""
        mutant = bytearray(body)
        for _ in range(self.random.randrange(1, 6)):
            position = self.random.randrange(len(mutant) + 1)
            mutant[position : position + self.random.randrange(3)] = self.random.randbytes(self.random.randrange(3))
        return bytes(mutant)


@cache
def bundled_configs() -> Sequence[Mapping[str, Any]]:
    """Configurations of the bundled models of transformers."""
    with gzip.open(_CONFIGS, "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return [row["config"] for row in read if row.get("kind") == "transformers" and isinstance(row.get("config"), dict)]


def find_leaks(text: str) -> list[str]:
    """What stands in a text that may stand in no answer and no log."""
    return [leak for leak in LEAKS if leak in text]
