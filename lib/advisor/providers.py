"""Paying per token: whether the kind of work is sold that way, and what the account gets for free.

Which models have a provider today only the Hub knows; the caller passes what it was told, or nothing.
Families served: chat models with and without images, vectors, pictures, clips, transcription
(huggingface.co/docs/inference-providers, table of partners, 2026-08-21).
"""

from __future__ import annotations

from lib.advisor.result import ProviderOption, Reason, Value
from lib.platform_rules import ProviderCredits
from lib.workload import Workload

SERVED_TASKS = frozenset(
    {
        "text-generation",
        "image-text-to-text",
        "feature-extraction",
        "sentence-similarity",
        "text-to-image",
        "text-to-video",
        "automatic-speech-recognition",
        "inference-api",
        "inference-provider",
    }
)


def option(task: str, model_id: str, workload: Workload, rules: ProviderCredits, live: tuple[str, ...] | None) -> ProviderOption:
    """The way without hardware. `live` names the providers that serve this model now; `None` says that nobody asked."""
    suits = task in SERVED_TASKS
    if not suits:
        return ProviderOption(suits=False, available=None, providers=(), reasons=(Reason("provider_task_not_served", {"task": task}),))
    values: dict[str, Value] = {
        "model": model_id,
        "credit_usd": rules.monthly_usd[workload.account],
        "account": workload.account,
        "markup_percent": rules.markup_percent,
        "requests_per_month": workload.requests_per_day * 30,
    }
    if live is None:
        return ProviderOption(suits=True, available=None, providers=(), reasons=(Reason("provider_unknown", values),))
    code = "provider_live" if live else "provider_none"
    values["providers"] = ", ".join(live)
    return ProviderOption(suits=True, available=bool(live), providers=live, reasons=(Reason(code, values),))
