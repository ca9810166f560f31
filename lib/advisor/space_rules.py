"""The platform's rules for a Space: the tier that a name means, whether a change is allowed, its sleep time, its stage.

Pure: the state of the Space and the catalog come in; the tier, the request to the Hub and the caveats come out, or a refusal. Names of
tiers are ids of Spaces and ZeroGPU and their aliases; the sizes of ZeroGPU are one tier, `zero-a10g`.

Billed are Starting and Running, used or not; builds, sleep and pause are not. While a running Space builds its next version, the old one
keeps running and is billed. A stage that is not in the table is passed on as text, and whether it is billed is not known.
Sources: huggingface_hub 2.4.0 `SpaceStage`, the JavaScript client (SLEEPING); billing: hub-docs spaces-gpus.md of 2026-07-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_TIER, Offer
from lib.catalog.rules import PlatformRules
from lib.errors import AgainstRules, PriceNotConfirmed, UnknownHardware, quote_value
from lib.laws.price import HOUR_S
from lib.platforms import Platform
from lib.provenance import Caveat, Reason

HOURS_PER_MONTH = 24 * 30
FLOAT_NOISE = Decimal("1e-9")
"""USD per hour: far below the smallest step of a price, far above the noise of a binary fraction (0.1 + 0.2)."""
SAME_MEMORY = 0.9
"""A card with nine tenths of a retired one's memory counts as its match: boxes say 80 GB for 79.1 and 79.6 GiB."""
_GRADIO = "gradio"


# Tiers and their names


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceTier:
    """The tier of a Space that a name means, and caveats about the name."""

    offer: Offer
    caveats: tuple[Caveat, ...] = ()


def resolve_tier(catalog: Catalog, name: str) -> SpaceTier:
    """The tier of a Space that this name means.

    Raises:
        AgainstRules: it was withdrawn, or is hardware of another product.
        UnknownHardware: nothing is called so.
    """
    zerogpu = _find_by_name(catalog, name, "zerogpu")
    if zerogpu is not None:
        return _resolve_zerogpu(catalog, zerogpu, name)
    offer = _find_by_name(catalog, name, "spaces")
    if offer is None:
        raise _refuse_unknown(catalog, name)
    if offer.status == "retired":
        raise _refuse_withdrawn(catalog, offer)
    return SpaceTier(offer=offer, caveats=_explain_renaming(name, offer.id))


def find_offer(catalog: Catalog, flavor: str | None) -> Offer | None:
    """The offer of a flavor that the Hub reports, retired ones too; `None` if it is not in the catalog."""
    if flavor is None:
        return None
    offers = catalog.names.by_id
    return offers.get(("zerogpu", flavor)) or offers.get(("spaces", flavor))


def _find_by_name(catalog: Catalog, name: str, platform: Platform) -> Offer | None:
    try:
        return catalog.resolve_offer(name, platform)
    except UnknownHardware:
        return next(iter(catalog.names.by_name[platform].get(name.strip().casefold(), ())), None)  # withdrawn, or nothing


def _resolve_zerogpu(catalog: Catalog, size: Offer, name: str) -> SpaceTier:
    """ZeroGPU is one tier; its sizes are asked for by the functions of the app."""
    offer = catalog.offer(ZEROGPU_TIER, "zerogpu")
    if size.id == offer.id:
        return SpaceTier(offer=offer, caveats=_explain_renaming(name, offer.id))
    declared = catalog.rules.zerogpu.size(size.id).size
    return SpaceTier(offer=offer, caveats=(Caveat("zerogpu_size", {"size_id": size.id, "hardware": offer.id, "size": declared}),))


def _explain_renaming(name: str, current: str) -> tuple[Caveat, ...]:
    if name.rpartition(":")[2].strip() == current:
        return ()
    return (Caveat("renamed", {"name": quote_value(name.strip()), "hardware": current}),)


def _refuse_withdrawn(catalog: Catalog, gone: Offer) -> AgainstRules:
    since = f" since {gone.since}" if gone.since else ""
    instead = find_nearest_tier(catalog, gone)
    price = "" if instead is None else f" Nearest today: '{instead.id}' ({instead.name}), {instead.usd_per_hour} USD per hour."
    return AgainstRules(f"'{gone.id}' ({gone.name}) is no longer offered on Spaces{since}.{price} /list_hardware lists every tier.")


def find_nearest_tier(catalog: Catalog, gone: Offer) -> Offer | None:
    """Today's cheapest tier with about as much memory of accelerators, else the one with the most; without a card the largest CPU."""
    tiers = [offer for offer in catalog.on(("spaces",)) if offer.usd_per_hour]
    successor = next((offer for offer in tiers if offer.id == gone.successor), None)
    if successor is not None:
        return successor
    if gone.vram_bytes is None:
        return max((offer for offer in tiers if offer.silicon is None), key=lambda offer: offer.vcpu or 0, default=None)
    cards = [offer for offer in tiers if offer.vram_bytes]
    enough = [offer for offer in cards if (offer.vram_bytes or 0) >= SAME_MEMORY * gone.vram_bytes]
    if enough:
        return min(enough, key=lambda offer: (offer.usd_per_hour or Decimal(0), offer.accelerator_count, offer.id))
    return max(cards, key=lambda offer: offer.vram_bytes or 0, default=None)


def _refuse_unknown(catalog: Catalog, name: str) -> AgainstRules | UnknownHardware:
    rows = catalog.names.by_name[None].get(name.strip().casefold(), ())
    for row in rows:
        if not row.traits.runs_spaces:
            instead = find_nearest_tier(catalog, row)
            near = f" Nearest tier of a Space: '{instead.id}'." if instead is not None else ""
            return AgainstRules(f"'{row.id}' is hardware of {row.traits.label}, which a Space cannot run on.{near}")
    return UnknownHardware(catalog.names.unknown(name, "spaces"))


# What a change needs


def confirm_price(offer: Offer, usd_per_hour: Decimal) -> Decimal:
    """Check that the caller confirmed today's price, and return it.

    Raises:
        PriceNotConfirmed: it is another one.
        AgainstRules: the tier has no price.
    """
    price = offer.usd_per_hour
    if price is None:
        raise AgainstRules(f"'{offer.id}' has no list price today, so none can be confirmed. /list_hardware lists the tiers that have one.")
    if abs(usd_per_hour - price) > FLOAT_NOISE:
        raise PriceNotConfirmed(
            f"confirm_usd_per_hour was {quote_value(str(usd_per_hour))}, and {offer.id} costs {price} USD per hour for each replica "
            f"({offer.source}, {offer.checked}). Nothing was changed. Look at the price, and send {float(price)} if you agree."
        )
    return price


def check_sdk(offer: Offer | None, space: str, sdk: str | None) -> None:
    """Whether a Space built with this can be on the tier, or without one, on any.

    Raises:
        AgainstRules: it cannot.
    """
    if sdk == "static":
        raise AgainstRules(f"{space} is a static Space: files that are served, without hardware. There is nothing to switch or size.")
    if offer is not None and "gradio_only" in offer.rules and sdk is not None and sdk != _GRADIO:
        raise AgainstRules(f"ZeroGPU takes Gradio Spaces only; {space} is built with {sdk}. Choose another tier.")


def check_change(offer: Offer, space: str, current: str | None, requested: str | None) -> None:
    """Whether it is a change at all: the Hub would restart the Space for nothing.

    Raises:
        AgainstRules: the Space is on the tier, or already on its way there.
    """
    bound_for = requested or current
    if bound_for != offer.id:
        return
    if current not in {None, offer.id}:
        raise AgainstRules(f"{space} is already on its way from {current} to {offer.id}. /space_status tells when it has arrived.")
    raise AgainstRules(
        f"{space} has {offer.id} already, and asking for it again would restart the app. "
        "For another sleep time use /set_sleep_time, to start it anew /restart_space."
    )


def check_hosting(rules: PlatformRules, owner: str, plan: str, hosted: int) -> None:
    """Whether the owner may host one more Space on ZeroGPU.

    Raises:
        AgainstRules: the limit of the plan is reached.
    """
    limit = rules.zerogpu.max_spaces[plan]
    if hosted >= limit:
        raise AgainstRules(
            f"{owner} hosts {hosted} Spaces on ZeroGPU, and its plan ({plan}) allows {limit}. "
            "Move one of them to other hardware first, or choose another tier here."
        )


# Sleep time


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepSetting:
    """The sleep time to send to the Hub; `seconds` is `None` if none is sent."""

    seconds: int | None
    caveats: tuple[Caveat, ...] = ()


def plan_sleep_with_switch(offer: Offer, seconds: int, rules: PlatformRules) -> SleepSetting:
    """Sleep time that a switch to this tier sends; -1 is never, and left out where the tier has a rule of its own.

    Raises:
        AgainstRules: a time was asked for, and the tier's is fixed.
    """
    never = seconds == rules.sleep.never_value
    if "sleeps_after_48h" in offer.rules:
        if not never and seconds != rules.sleep.cpu_basic_after_s:
            raise _refuse_sleep_time(offer, rules)
        return SleepSetting(seconds=None, caveats=(Caveat("sleep_fixed", {"hardware": offer.id, "hours": _fixed_hours(rules)}),))
    if offer.traits.per_call:
        return SleepSetting(seconds=None if never else seconds, caveats=(_UNDOCUMENTED,))
    return SleepSetting(seconds=seconds)


def plan_sleep_change(offer: Offer | None, space: str, seconds: int, rules: PlatformRules) -> SleepSetting:
    """Body of a request that changes the sleep time alone.

    Raises:
        AgainstRules: the tier's is fixed.
    """
    if offer is None:
        return SleepSetting(seconds=seconds, caveats=(Caveat("tier_unknown", {"space": space}, variant="sleep"),))
    if "sleeps_after_48h" in offer.rules:
        raise _refuse_sleep_time(offer, rules)
    return SleepSetting(seconds=seconds, caveats=(_UNDOCUMENTED,) if offer.traits.per_call else ())


_UNDOCUMENTED = Caveat("sleep_not_documented")


def _fixed_hours(rules: PlatformRules) -> int:
    return rules.sleep.cpu_basic_after_s // HOUR_S


def _refuse_sleep_time(offer: Offer, rules: PlatformRules) -> AgainstRules:
    return AgainstRules(
        f"The sleep time of {offer.id} is fixed at {_fixed_hours(rules)} hours and cannot be set. Leave it out, or choose paid hardware."
    )


def choose_sleep_time(offer: Offer, current: Offer | None, reported_s: int | None, rules: PlatformRules) -> int:
    """The sleep time to ask for when the caller named none: a Space on paid hardware keeps its own, else -1 (never).

    `reported_s` is the value that the Hub reports now. A time that only belongs to the free tier it leaves is not taken along.
    """
    leaves_the_choice = "sleeps_after_48h" not in offer.rules and not offer.traits.per_call
    if leaves_the_choice and _is_paid(current) and reported_s is not None and reported_s > 0:
        return reported_s
    return rules.sleep.never_value


def resolve_sleep_time(offer: Offer | None, reported_s: int | None, rules: PlatformRules) -> int | None:
    """Seconds until the Space sleeps; -1 never, `None` if it is unknown. `reported_s` is the Hub's answer (`None`: the default)."""
    if offer is not None and "sleeps_after_48h" in offer.rules:
        return rules.sleep.cpu_basic_after_s
    if reported_s is not None or offer is None or offer.traits.per_call:
        return reported_s
    return rules.sleep.never_value if rules.sleep.paid_default_s is None else rules.sleep.paid_default_s


def describe_sleep(offer: Offer | None, reported_s: int | None, rules: PlatformRules) -> Reason:
    """When and whether the Space sleeps, to be worded."""
    seconds = resolve_sleep_time(offer, reported_s, rules)
    if offer is not None and "sleeps_after_48h" in offer.rules:
        return Reason("sleep_fixed", {"hardware": offer.id, "hours": _fixed_hours(rules)})
    if seconds is None:
        return Reason("sleep_unknown" if offer is None else "sleep_not_documented")
    if seconds == rules.sleep.never_value:
        return Reason("never_sleeps", variant="paid" if _is_paid(offer) else "")
    return Reason("sleeps_after", {"sleep_after_s": seconds})


def _is_paid(offer: Offer | None) -> bool:
    return offer is not None and bool(offer.usd_per_hour)


# Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage. `settled`: it does not change by itself; `failed`: an error to look at; `billed`: `None` if it is not known."""

    name: str
    settled: bool = False
    failed: bool = False
    billed: bool | None = False

    @property
    def running(self) -> bool:
        """Whether the app answers, with nothing in preparation."""
        return self.name == "RUNNING"


_STAGES = (
    Stage(name="RUNNING", settled=True, billed=True),
    Stage(name="RUNNING_BUILDING", billed=True),
    Stage(name="RUNNING_APP_STARTING", billed=True),
    Stage(name="BUILDING"),
    Stage(name="APP_STARTING", billed=True),
    Stage(name="SLEEPING", settled=True),
    Stage(name="PAUSED", settled=True),
    Stage(name="STOPPED", settled=True),
    Stage(name="DELETING", settled=True),
    Stage(name="NO_APP_FILE", settled=True, failed=True),
    Stage(name="CONFIG_ERROR", settled=True, failed=True),
    Stage(name="BUILD_ERROR", settled=True, failed=True),
    Stage(name="RUNTIME_ERROR", settled=True, failed=True),
)
STAGES = MappingProxyType({stage.name: stage for stage in _STAGES})
_ENDPOINT_STAGES = (
    Stage(name="pending"),
    Stage(name="initializing", billed=True),
    Stage(name="updating", billed=True),
    Stage(name="running", settled=True, billed=True),
    Stage(name="scaledToZero", settled=True),
    Stage(name="paused", settled=True),
    Stage(name="failed", settled=True, failed=True),
)
ENDPOINT_STAGES = MappingProxyType({stage.name: stage for stage in _ENDPOINT_STAGES})
"""Of Inference Endpoints, which are billed while initializing or running; the price in `updateFailed` is not documented."""
_JOB_STAGES = (Stage(name="SCHEDULING"), Stage(name="RUNNING", billed=True))
JOB_STAGES = MappingProxyType({stage.name: stage for stage in _JOB_STAGES})
Idling = Literal["always_on", "sleeps_after", "ends", "asleep", "paused", "not_running", "free", "unknown"]
_RESTS: Mapping[str, Idling] = MappingProxyType({"SLEEPING": "asleep", "scaledToZero": "asleep", "PAUSED": "paused", "paused": "paused"})


def judge_idling(stage: Stage, usd_per_hour: Decimal | None, when_idle: Reason) -> Idling:
    """Cost of idle time: `always_on` is billed used or not, `unknown` may be. `when_idle` says what ends it."""
    if stage.billed is None:
        return "unknown"
    if not stage.billed:
        return _RESTS.get(stage.name, "not_running")
    if not usd_per_hour:
        return "unknown" if usd_per_hour is None else "free"
    return {"sleeps_after": "sleeps_after", "scales_to_zero": "sleeps_after", "job_ends": "ends"}.get(when_idle.code, "always_on")  # type: ignore[return-value]


def find_stage(name: str) -> Stage:
    """The stage of this name; of an unknown one only the name is known."""
    return STAGES.get(name) or Stage(name=name, billed=None)
