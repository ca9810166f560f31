"""One row of properties for every platform that hardware is rented from, and one for hardware of one's own.

A platform is a name in `Platform` and a row here. Code that treats platforms differently asks the row (`traits_of`, or `traits` of an
offer) and compares no names. Prices and limits are data (`lib.catalog`). A row names its group of rules there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Platform = Literal["spaces", "zerogpu", "endpoints", "jobs", "tpu"]
"""In the order in which platforms rank."""
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
OWN: Literal["own"] = "own"
"""The platform of hardware that belongs to the visitor."""
Starts = Literal["Space", "image", "machine"]
Idle = Literal["sleeps", "scales_to_zero", "ends", "runs_on"]
RulesGroup = Literal["sleep", "zerogpu", "endpoints", "jobs"]
OfferDetails = Literal["endpoint", "tpu"]
Framework = Literal["pytorch", "jax", "tensorflow"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformTraits:
    """The properties of one platform."""

    label: str
    """Its name on the page."""
    unit: str
    """One thing that runs there, as a legend names it."""
    colour: str = ""
    """Its colour in charts."""
    starts: Starts
    """What is started there: a Space, a container image, or a machine to install packages on."""
    idle: Idle
    """What idle hardware does: it sleeps, scales to zero, has ended with its work, or runs on until it is deleted."""
    per_call: bool = False
    """It lends a card to one call of a Gradio Space at a time. Visitors pay with their daily quota, the owner pays nothing."""
    on_hub: bool = True
    """Hugging Face bills it and stores its files."""
    rules: RulesGroup | None = None
    """The group of `lib.catalog.rules.PlatformRules` that its bills follow."""
    details: OfferDetails | None = None
    """The field of an offer that describes its hardware further."""
    live_list: str = ""
    """The function of huggingface_hub that lists its hardware with today's prices."""
    listed_with: Platform | None = None
    """The platform whose choices and live list include it, as one flavor in several sizes."""
    prepaid: bool = False
    """Its paid hardware needs prepaid credits."""
    ports_cost: bool = False
    """An exposed port has a price of its own."""
    trains: bool = False
    """People train models there."""
    frameworks: tuple[Framework, ...] = FRAMEWORKS
    """The frameworks for which set-up files are written."""

    @property
    def sleeps(self) -> bool:
        """Whether idle hardware stops by itself and starts again with the next request."""
        return self.idle in {"sleeps", "scales_to_zero"}

    @property
    def ends(self) -> bool:
        """Whether hardware is released as soon as its work is done."""
        return self.idle == "ends"

    @property
    def runs_spaces(self) -> bool:
        """Whether its hardware is that of a Space."""
        return self.starts == "Space"

    @property
    def rents_tpus(self) -> bool:
        """Whether it rents slices of Cloud TPU out."""
        return self.details == "tpu"


TRAITS: Mapping[str, PlatformTraits] = MappingProxyType(
    {
        "spaces": PlatformTraits(
            label="Spaces", unit="Space", colour="#3d74b8", starts="Space", idle="sleeps", rules="sleep", prepaid=True, trains=True,
            live_list="list_spaces_hardware",
        ),
        "zerogpu": PlatformTraits(
            label="ZeroGPU", unit="Space", colour="#2f9e7a", starts="Space", idle="ends", per_call=True, rules="zerogpu",
            listed_with="spaces", frameworks=("pytorch",),
        ),
        "endpoints": PlatformTraits(
            label="Inference Endpoints", unit="Endpoint", colour="#c98018", starts="image", idle="scales_to_zero", rules="endpoints",
            details="endpoint", trains=True,
        ),
        "jobs": PlatformTraits(
            label="Jobs", unit="Job", colour="#8b93a1", starts="image", idle="ends", rules="jobs", ports_cost=True, trains=True,
            live_list="list_jobs_hardware",
        ),
        "tpu": PlatformTraits(
            label="Cloud TPU", unit="TPU", colour="#b8478a", starts="machine", idle="runs_on", details="tpu", on_hub=False,
            frameworks=("pytorch", "jax"),
        ),
        OWN: PlatformTraits(label="your own", unit="machine", starts="machine", idle="runs_on", on_hub=False, trains=True),
    }
)  # fmt: skip
"""One row for each platform, and one for hardware of one's own."""
SPACE_PLATFORMS: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].runs_spaces)
RENTED: tuple[Platform, ...] = tuple(name for name in PLATFORMS if not TRAITS[name].per_call)
"""The platforms that rent hardware out by the hour."""
PER_CALL: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].per_call)


def traits_of(platform: str) -> PlatformTraits:
    """The row of a platform.

    Raises:
        KeyError: there is none of this name; arguments from outside are checked before.
    """
    return TRAITS[platform]


def with_listed(platform: Platform) -> tuple[Platform, ...]:
    """The platform and those that are offered with it.

    >>> with_listed("spaces"), with_listed("jobs")
    (('spaces', 'zerogpu'), ('jobs',))
    """
    return tuple(name for name in PLATFORMS if platform in {name, TRAITS[name].listed_with})
