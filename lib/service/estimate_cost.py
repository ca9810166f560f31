"""The question `/estimate_cost`: arguments of any kind in, checked, answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import cast

from lib.answers.cost import CostAnswer
from lib.catalog import Catalog
from lib.catalog.offers import PLATFORMS, Offer, Platform
from lib.catalog.rules import StoragePrices
from lib.cost import Usage, retired_tier
from lib.hub.providers import Offered
from lib.model.spec import ModelSpec
from lib.service import arguments
from lib.service.cost_answer import ZEROGPU, cost_answer
from lib.service.pace import Speed, paced
from lib.service.reference import read
from lib.service.requests import memory_request
from lib.units import GB
from lib.workload import ACCOUNTS, Account, Engine, MemoryRequest

MAX_REPLICAS = 1_000
MAX_SLEEP_S = 31 * 86_400
MAX_STORAGE_GB = 1_000_000_000
MAX_HARDWARE = 200


def offer_of(catalog: Catalog, hardware: object) -> Offer:
    """The offer that is meant; `jobs:l4x1` picks the platform of an id that several have (alone it is the Space's).

    Raises:
        UnknownHardware: no offer of today is called so.
    """
    if isinstance(hardware, str) and len(hardware) <= MAX_HARDWARE and ":" in hardware:
        platform, _, name = hardware.partition(":")
        if platform.strip().casefold() in PLATFORMS:
            return catalog.resolve_offer(name, cast("Platform", platform.strip().casefold()))
    return catalog.resolve_offer(hardware)


def storage_of(value: object, prices: StoragePrices) -> Decimal:
    """Gigabytes; the name of an old persistent tier means its size, and is answered as retired.

    Raises:
        BadArgument: neither.
    """
    tier = retired_tier(value.strip().casefold(), prices) if isinstance(value, str) and len(value) <= MAX_HARDWARE else None
    if tier is not None:
        return Decimal(tier.size) / GB
    return arguments.decimal("storage_gb", value, 0, MAX_STORAGE_GB)


def usage_of(
    prices: StoragePrices,
    *,
    hours_per_day: object,
    days_per_month: object,
    replicas: object,
    requests_per_day: object,
    sleep_after_s: object,
    storage_gb: object,
    account: object,
    prompt_tokens: object,
    output_tokens: object,
) -> Usage:
    """How hardware is used.

    Raises:
        BadArgument: the first argument that is wrong.
    """
    return Usage(
        hours_per_day=arguments.decimal("hours_per_day", hours_per_day, 0, 24),
        days_per_month=arguments.decimal("days_per_month", days_per_month, 0, 31),
        replicas=arguments.whole("replicas", replicas, 1, MAX_REPLICAS),
        requests_per_day=Decimal(arguments.whole("requests_per_day", requests_per_day, 0, arguments.MAX_REQUESTS_PER_DAY)),
        sleep_after_s=Decimal(max(0, arguments.whole("sleep_after_s", sleep_after_s, -1, MAX_SLEEP_S))),
        storage_gb=storage_of(storage_gb, prices),
        account=arguments.choice("account", account, ACCOUNTS),
        prompt_tokens=arguments.whole("prompt_tokens", prompt_tokens, 1, arguments.MAX_TOKENS),
        output_tokens=arguments.whole("output_tokens", output_tokens, 0, arguments.MAX_TOKENS),
    )


class CostQuestion:
    """Answers what hardware costs."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Callable[[object], ModelSpec],
        offered: Callable[[str], Offered],
        speed: Speed | None = None,
    ) -> None:
        """`offered` asks who serves a model per token, `speed` estimates how fast an offer runs it."""
        self._catalog, self._models, self._offered, self._speed = catalog, models, offered, speed

    def estimate_cost(
        self,
        hardware: str,
        hours_per_day: float = 24,
        days_per_month: float = 30,
        replicas: int = 1,
        requests_per_day: int = 0,
        sleep_after_s: int = 0,
        storage_gb: float = 0,
        account: Account = "free",
        model: str = "",
        precision: str = "auto",
        engine: Engine = "transformers",
        prompt_tokens: int = 512,
        output_tokens: int = 256,
    ) -> CostAnswer:
        """What hardware costs per hour, month, request and million tokens, and at which traffic another way is cheaper.

        Args:
            hardware: an id such as l4x1, zero-a10g, aws-nvidia-l4-x1 or v6e-8; jobs:l4x1 where several platforms share an id
            hours_per_day: hours a day that it runs at most, and in which requests arrive
            days_per_month: days of a month
            replicas: copies, each billed
            requests_per_day: requests that arrive in these hours; 0 if not known
            sleep_after_s: seconds without requests after which it sleeps (Endpoints: is scaled to zero); 0 or -1 is never
            storage_gb: private storage in gigabytes
            account: the plan of the account that pays; on ZeroGPU that of the visitors
            model: a Hub id, the text of a config.json, or a parameter count such as 7B; empty for hardware alone
            precision: auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M
            engine: what runs the model
            prompt_tokens: tokens of a prompt
            output_tokens: tokens of an answer

        Returns:
            The bill in parts, prices per request and token, and the break-even points.
        """
        catalog = self._catalog()
        offer = offer_of(catalog, hardware)
        usage = usage_of(
            catalog.rules.storage,
            hours_per_day=hours_per_day,
            days_per_month=days_per_month,
            replicas=replicas,
            requests_per_day=requests_per_day,
            sleep_after_s=sleep_after_s,
            storage_gb=storage_gb,
            account=account,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        asked = memory_request(precision, engine, usage.prompt_tokens + usage.output_tokens, 1, "auto", "inference", 1, 0)
        request = replace(asked, devices=max(1, offer.accelerator_count))
        if isinstance(model, str) and not model.strip():
            return cost_answer(offer, usage, catalog)
        return self._with_model(offer, usage, catalog, request, model)

    def _with_model(self, offer: Offer, usage: Usage, catalog: Catalog, request: MemoryRequest, model: object) -> CostAnswer:
        spec = self._models(model)
        on_hub = read(model).kind == "id"
        return cost_answer(
            offer,
            usage,
            catalog,
            spec=spec,
            request=request,
            speed=paced(self._speed, spec, offer, request, usage),
            zerogpu_speed=paced(self._speed, spec, catalog.offer(ZEROGPU, "zerogpu"), request, usage).pace,
            offered=self._offered(spec.id) if on_hub and spec.id else None,
        )
