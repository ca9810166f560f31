"""What the platform's rules say about changing a Space's hardware and sleep time, before anybody asks the Hub.

Pure: the state of the Space and the catalog come in; what comes out is the tier that is meant, what to send and what to tell, or a
refusal. Names of tiers: ids of Spaces and ZeroGPU and their aliases; the ZeroGPU sizes are one tier, `zero-a10g`.

The stages of a Space: in plain words, whether they last, and whether they are billed.

Billed is what is Starting or Running, used or not; builds, sleep and pause are not. While a running Space builds its next version the
old one goes on, and is billed. A stage that is not in the table is passed on as text, with nothing said about it.
Sources: huggingface_hub 2.4.0 `SpaceStage`, the JavaScript client (SLEEPING); billing: hub-docs spaces-gpus.md of 2026-07-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from lib.catalog import Catalog, hardware_names
from lib.catalog.offers import Offer, Platform
from lib.catalog.rules import PlatformRules
from lib.errors import AgainstRules, PriceNotConfirmed, UnknownHardware, shown
from lib.provenance import Caveat

ZEROGPU_TIER = "zero-a10g"
HOURS_PER_MONTH = 24 * 30
FLOAT_NOISE = Decimal("1e-9")
"""USD per hour: far below the smallest step of a price, far above the noise of a binary fraction (0.1 + 0.2)."""
SAME_MEMORY = 0.9
"""A card with nine tenths of a retired one's memory counts as its match: boxes say 80 GB for 79.1 and 79.6 GiB."""
_ELSEWHERE: dict[Platform, str] = {"jobs": "Jobs", "endpoints": "Inference Endpoints", "tpu": "Google Cloud TPU"}
_GRADIO = "gradio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The tier that a name means, and what to tell about the name."""

    offer: Offer
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """The sleep time to send; `seconds` is `None` where none is sent."""

    seconds: int | None
    caveats: tuple[Caveat, ...] = ()


def tier(catalog: Catalog, name: str) -> Tier:
    """The tier of a Space that this name means.

    Raises:
        AgainstRules: it was withdrawn, or is hardware of another product.
        UnknownHardware: nothing is called so.
    """
    zero = _called(catalog, name, "zerogpu")
    if zero is not None:
        return _zerogpu(catalog, zero, name)
    found = _called(catalog, name, "spaces")
    if found is None:
        raise _elsewhere(catalog, name)
    if found.status == "retired":
        raise AgainstRules(_withdrawn(catalog, found))
    return Tier(offer=found, caveats=_renamed(name, found.id))


def known(catalog: Catalog, flavor: str | None) -> Offer | None:
    """The offer of a flavor that the Hub told, retired ones too; `None` where it is not in the catalog."""
    if flavor is None:
        return None
    names = catalog.names.offers
    return names.get(("zerogpu", flavor)) or names.get(("spaces", flavor))


def _called(catalog: Catalog, name: str, platform: Platform) -> Offer | None:
    try:
        return hardware_names.offer(catalog.names, name, platform)
    except UnknownHardware:
        rows = catalog.names.called.get(name.strip().casefold(), ())
        return next((row for row in rows if row.platform == platform), None)  # withdrawn, or nothing


def _zerogpu(catalog: Catalog, size: Offer, name: str) -> Tier:
    """ZeroGPU is one tier; its sizes are asked for by the functions of the app."""
    offer = catalog.offer(ZEROGPU_TIER, "zerogpu")
    if size.id == offer.id:
        return Tier(offer=offer, caveats=_renamed(name, offer.id))
    declared = catalog.rules.zerogpu.size(size.id).size
    message = f"'{size.id}' is a size, not a tier: the Space runs on {offer.id}, and its function asks for it with size='{declared}'."
    return Tier(offer=offer, caveats=(Caveat(code="zerogpu_size", message=message),))


def _renamed(name: str, current: str) -> tuple[Caveat, ...]:
    if name.strip() == current:
        return ()
    return (Caveat(code="renamed", message=f"{shown(name.strip())} is called '{current}' today."),)


def _withdrawn(catalog: Catalog, gone: Offer) -> str:
    since = f" since {gone.since}" if gone.since else ""
    instead = nearest(catalog, gone)
    price = "" if instead is None else f" Nearest today: '{instead.id}' ({instead.name}), {instead.usd_per_hour} USD per hour."
    return f"'{gone.id}' ({gone.name}) is no longer offered on Spaces{since}.{price} /list_hardware lists every tier."


def nearest(catalog: Catalog, gone: Offer) -> Offer | None:
    """Today's cheapest tier with about as much memory of accelerators, else the one with the most; without a card the largest CPU."""
    listed = [offer for offer in catalog.on(("spaces",)) if offer.usd_per_hour]
    successor = next((offer for offer in listed if offer.id == gone.successor), None)
    if successor is not None:
        return successor
    if gone.vram_bytes is None:
        return max((offer for offer in listed if offer.silicon is None), key=lambda offer: offer.vcpu or 0, default=None)
    cards = [offer for offer in listed if offer.vram_bytes]
    enough = [offer for offer in cards if (offer.vram_bytes or 0) >= SAME_MEMORY * gone.vram_bytes]
    if enough:
        return min(enough, key=lambda offer: (offer.usd_per_hour or Decimal(0), offer.accelerator_count, offer.id))
    return max(cards, key=lambda offer: offer.vram_bytes or 0, default=None)


def _elsewhere(catalog: Catalog, name: str) -> AgainstRules | UnknownHardware:
    rows = catalog.names.called.get(name.strip().casefold(), ())
    for row in rows:
        if row.platform in _ELSEWHERE:
            instead = nearest(catalog, row)
            near = f" Nearest tier of a Space: '{instead.id}'." if instead is not None else ""
            return AgainstRules(f"'{row.id}' is hardware of {_ELSEWHERE[row.platform]}, which a Space cannot run on.{near}")
    return UnknownHardware(catalog.names.unknown(name, "spaces"))


def confirmed(offer: Offer, usd_per_hour: Decimal) -> Decimal:
    """Today's price, which the caller confirmed.

    Raises:
        PriceNotConfirmed: it is another one.
        AgainstRules: the tier has no price.
    """
    price = offer.usd_per_hour
    if price is None:
        raise AgainstRules(f"'{offer.id}' has no list price today, so none can be confirmed. /list_hardware lists the tiers that have one.")
    if abs(usd_per_hour - price) > FLOAT_NOISE:
        raise PriceNotConfirmed(
            f"confirm_usd_per_hour was {shown(str(usd_per_hour))}, and {offer.id} costs {price} USD per hour for each replica "
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


def sleep_with(offer: Offer, seconds: int, rules: PlatformRules) -> Sleep:
    """What a switch to this tier sends as sleep time; -1 is never, and left out where the tier has a rule of its own.

    Raises:
        AgainstRules: a time was asked for, and the tier's is fixed.
    """
    never = seconds == rules.sleep.never_value
    if "sleeps_after_48h" in offer.rules:
        if not never and seconds != rules.sleep.cpu_basic_after_s:
            raise _fixed(offer, rules)
        return Sleep(seconds=None, caveats=(Caveat(code="sleep_fixed", message=sleep_words(offer, None, rules)),))
    if offer.platform == "zerogpu":
        return Sleep(seconds=None if never else seconds, caveats=(_UNDOCUMENTED,))
    return Sleep(seconds=seconds)


def kept_sleep(offer: Offer, current: Offer | None, told: int | None, rules: PlatformRules) -> int:
    """The sleep time to ask for when nobody named one: what a Space on paid hardware has is kept, else -1 (never).

    `told` is what the Hub says of the Space now. A time that only belongs to the free tier it leaves is not taken along.
    """
    leaves_the_choice = "sleeps_after_48h" not in offer.rules and offer.platform != "zerogpu"
    if leaves_the_choice and _paid(current) and told is not None and told > 0:
        return told
    return rules.sleep.never_value


def sleep_alone(offer: Offer | None, space: str, seconds: int, rules: PlatformRules) -> Sleep:
    """What a change of the sleep time alone sends.

    Raises:
        AgainstRules: the tier's is fixed.
    """
    if offer is None:
        message = f"It is not known what {space} runs on, so whether its sleep time can be set is left to the platform."
        return Sleep(seconds=seconds, caveats=(Caveat(code="tier_unknown", message=message),))
    if "sleeps_after_48h" in offer.rules:
        raise _fixed(offer, rules)
    return Sleep(seconds=seconds, caveats=(_UNDOCUMENTED,) if offer.platform == "zerogpu" else ())


_UNDOCUMENTED = Caveat(
    code="sleep_not_documented", message="When a Space on ZeroGPU sleeps is not documented: the platform may ignore a sleep time there."
)


def _fixed(offer: Offer, rules: PlatformRules) -> AgainstRules:
    return AgainstRules(
        f"The sleep time of {offer.id} is fixed at {rules.sleep.cpu_basic_after_s // 3600} hours and cannot be set. "
        "Leave it out, or choose paid hardware."
    )


def sleep_time(offer: Offer | None, told: int | None, rules: PlatformRules) -> int | None:
    """Seconds until the Space sleeps; -1 never, `None` where nobody says. `told` is what the Hub answered (`None`: the tier's default)."""
    if offer is not None and "sleeps_after_48h" in offer.rules:
        return rules.sleep.cpu_basic_after_s
    if told is not None or offer is None or offer.platform == "zerogpu":
        return told
    return rules.sleep.never_value if rules.sleep.paid_default_s is None else rules.sleep.paid_default_s


def sleep_words(offer: Offer | None, told: int | None, rules: PlatformRules) -> str:
    """The sleep time as a sentence."""
    seconds = sleep_time(offer, told, rules)
    if offer is not None and "sleeps_after_48h" in offer.rules:
        return f"{offer.id} sleeps after {rules.sleep.cpu_basic_after_s // 3600} hours without a visit; that is fixed."
    if seconds is None:
        return "When it sleeps is not documented." if offer is not None else "When it sleeps is not known."
    if seconds == rules.sleep.never_value:
        return "It never sleeps by itself: it is billed around the clock, used or not." if _paid(offer) else "It never sleeps by itself."
    return f"It sleeps after {span(seconds)} without a visit, and is not billed until a visit wakes it."


def _paid(offer: Offer | None) -> bool:
    return offer is not None and bool(offer.usd_per_hour)


def span(seconds: int) -> str:
    """A time in the largest unit that it is a whole number of.

    >>> span(172_800), span(100)
    ('48 hours', '100 seconds')
    """
    for size, word in ((3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {word}{'' if seconds == size else 's'}"
    return f"{seconds:,} seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage. `settled`: it does not change by itself; `failed`: an error to look at; `billed`: `None` where nobody knows."""

    name: str
    words: str
    settled: bool = False
    failed: bool = False
    billed: bool | None = False

    @property
    def running(self) -> bool:
        """Whether the app answers, with nothing in preparation."""
        return self.name == "RUNNING"


_STAGES = (
    Stage(name="RUNNING", words="It is running.", settled=True, billed=True),
    Stage(name="RUNNING_BUILDING", words="It is running, and its next version is being built.", billed=True),
    Stage(name="RUNNING_APP_STARTING", words="It is running, and its next version is starting.", billed=True),
    Stage(name="BUILDING", words="It is being built."),
    Stage(name="APP_STARTING", words="The app is starting.", billed=True),
    Stage(name="SLEEPING", words="It is asleep; a visit wakes it.", settled=True),
    Stage(name="PAUSED", words="It is paused; only its owner can restart it.", settled=True),
    Stage(name="STOPPED", words="It is stopped.", settled=True),
    Stage(name="DELETING", words="It is being deleted.", settled=True),
    Stage(name="NO_APP_FILE", words="It has no app file yet: push one.", settled=True, failed=True),
    Stage(name="CONFIG_ERROR", words="The configuration in its README.md is wrong.", settled=True, failed=True),
    Stage(name="BUILD_ERROR", words="The build failed: its build log says why.", settled=True, failed=True),
    Stage(name="RUNTIME_ERROR", words="The app ended with an error: its log says why.", settled=True, failed=True),
)
STAGES = MappingProxyType({stage.name: stage for stage in _STAGES})


def stage(name: str) -> Stage:
    """The stage of this name; an unknown one is kept as text."""
    return STAGES.get(name) or Stage(name=name, words=f"Its stage is {name}, which is not known here.", billed=None)
