"""Services that answer with fixed, contract-shaped results: the page's handlers are tested without a model or a catalog."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lib import advisor
from lib.advisor.result import Recommendation
from lib.answers.hardware import HardwareAnswer, list_offer
from lib.answers.memory import FitEntry, MemoryAnswer
from lib.answers.model import GgufFile, ModelAnswer
from lib.catalog import Catalog, PriceState, load
from lib.errors import HubUnreachable, UnknownModel
from lib.memory.result import MemoryPart
from lib.model.bundled import find_spec
from lib.model.spec import CacheTerm
from lib.provenance import Caveat, Source
from lib.workload import Workload

GIB = 2**30
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
CHECKED = "2026-07-21"

_CARDS = (
    ("t4-small", "Nvidia T4 - small", "T4", 1, 15, 0.4),
    ("l4x1", "1x Nvidia L4", "L4", 1, 22, 0.8),
    ("l40sx1", "1x Nvidia L40S", "L40S", 1, 44, 1.8),
    ("a100-large", "Nvidia A100 - large", "A100", 1, 79, 2.5),
)

COMMON: dict[str, Any] = {
    "caveats": (Caveat("unknown_cache"),),
    "sources": (Source(what="prices", source="https://huggingface.co/docs/hub/spaces-gpus", checked=CHECKED),),
}


def _fill_common() -> dict[str, Any]:
    return {
        "schema": 1,
        "caveats": [{"code": "range", "message": "The runtime part differs between driver versions."}],
        "sources": [{"what": "prices", "source": "https://huggingface.co/docs/hub/spaces-gpus", "checked": CHECKED}],
    }


class FakeServices:
    """Answers for one model; anything else is refused. `questions` records every question."""

    account_actions = True

    def __init__(self, *, hub: bool = True) -> None:
        self.questions: list[tuple[str, dict[str, Any]]] = []
        self._hub = hub

    def __getitem__(self, question: Callable[..., Any]) -> Callable[..., Any]:
        """The fixed answer to a question of `lib.service`."""
        asked: Callable[..., Any] = getattr(self, question.__name__)
        return asked

    def catalog(self) -> Catalog:
        return load()

    def bundled_models(self) -> tuple[str, ...]:
        return (LLAMA, "Qwen/Qwen3-8B", "openai-community/gpt2")

    def search_models(self, text: str) -> tuple[str, ...]:
        if not self._hub:
            raise HubUnreachable("The Hub could not be reached.")
        return (f"found/{text}",)

    def prices(self) -> PriceState:
        return PriceState(basis="bundled", checked=CHECKED, newest=CHECKED)

    def _check_model(self, model: str) -> str:
        if model in self.bundled_models() or model.startswith("{"):
            return "" if model.startswith("{") else model
        raise UnknownModel(f"'{model}' is not a model. Accepted: a Hub id, a config.json, or a count such as 7B.")

    def resolve_model(self, model: str) -> ModelAnswer:
        return ModelAnswer(
            **COMMON,
            id=self._check_model(model),
            architecture="LlamaForCausalLM",
            model_type="llama",
            library="transformers",
            task="text-generation",
            parameters_total=8_030_261_248,
            parameters_active=8_030_261_248,
            parameters_by_component={"language_model": 8_030_261_248},
            weights_bytes=16_060_522_496,
            weights_bytes_by_dtype={"bfloat16": 16_060_522_496},
            weights_bytes_by_component={"language_model": 16_060_522_496},
            quantization=None,
            context_limit_tokens=131_072,
            layer_kinds={"full attention": 32},
            cache=(CacheTerm(kind="full attention", holds="keys and values", layers=32, elements=2048, growth="tokens"),),
            license="llama3.1",
            gated=True,
            source="catalog",
            media=("images",) if "VL" in model else (),
            gguf_files=(GgufFile(model=f"{model}:Q8_0", bytes=8_540_771_328),),
        )

    def estimate_memory(self, model: str, **asked: Any) -> MemoryAnswer:
        self.questions.append(("estimate_memory", asked))
        # 32 layers x 2 x 8 heads x 128 x 2 bytes = 131 072 bytes for each token
        cache = 131_072 * int(asked["context_tokens"]) * int(asked["batch_size"])
        parts = {"weights_bytes": 16_060_522_496, "kv_cache_bytes": cache, "activation_bytes": 700_000_000, "runtime_bytes": 900_000_000}
        total = sum(parts.values())
        law: dict[str, Any] = {"source": "Pope et al. 2022, arXiv:2211.05102", "inputs": {"T": str(asked["context_tokens"]), "L": "32"}}
        weights = parts["weights_bytes"]
        explain = (
            MemoryPart(name="weights", bytes=weights, law="M = P · b", details={"language_model": weights}, **law),
            MemoryPart(name="kv_cache", bytes=cache, law="M_kv = 2 · B · L · T · H · D · b", details={"full attention": cache}, **law),
            MemoryPart(name="activation", bytes=parts["activation_bytes"], law="M_a = c + a · T", details={}, **law),
            MemoryPart(name="runtime", bytes=parts["runtime_bytes"], law="context + libraries", details={}, **law),
        )
        return MemoryAnswer(
            **COMMON,
            **parts,
            model=self._check_model(model),
            precision="bf16",
            kv_precision="bf16",
            engine=asked["engine"],
            total_bytes=total,
            low_bytes=total - GIB,
            high_bytes=total + GIB,
            per_device_bytes=total // int(asked["devices"]),
            host_bytes=0,
            rule_of_thumb_bytes=19_272_626_995,
            parts=explain,
            stages=(),
            fits=tuple(
                FitEntry(
                    hardware=name,
                    platform="spaces",
                    name=title,
                    accelerator=card,
                    accelerator_count=1,
                    devices=1,
                    usd_per_hour=Decimal(str(price)),
                    fits=total < size * GIB,
                    capacity_bytes=size * GIB,
                    free_bytes=size * GIB - total,
                    max_context_tokens=max(0, (size * GIB - total + cache) // 131_072),
                    max_batch_size=4 if total < size * GIB else 0,
                )
                for name, title, card, _, size, price in _CARDS
            ),
        )

    def recommend(self, model: str, **asked: Any) -> Recommendation:
        self.questions.append(("recommend", asked))
        self._check_model(model)
        return _recommend(asked["context_tokens"])

    def list_hardware(self, platform: str = "spaces", include_retired: bool = False) -> HardwareAnswer:
        offers = load().on((platform,), include_retired=include_retired)
        return HardwareAnswer(hardware=tuple(map(list_offer, offers)))


@functools.cache
def _recommend(context_tokens: int) -> Recommendation:
    """What the advisor answers of the cards in `_CARDS`, and why nothing else does."""
    answer = advisor.recommend(find_spec(LLAMA), Workload(context_tokens=context_tokens, platforms=("spaces",)), load())
    names = [card[0] for card in _CARDS]
    ranked = tuple(sorted((one for one in answer.ranked if one.hardware in names), key=lambda one: names.index(one.hardware)))
    return replace(answer, pick=ranked[0], ranked=ranked, **COMMON)
