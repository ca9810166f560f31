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
Runs = Literal["Space", "Endpoint", "Job", "TPU", "machine"]
Idle = Literal["sleeps", "scales_to_zero", "ends", "runs_on"]
RulesGroup = Literal["sleep", "zerogpu", "endpoints", "jobs"]
Framework = Literal["pytorch", "jax", "tensorflow"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformTraits:
    """The properties of one platform."""

    label: str
    """Its name on the page."""
    colour: str = ""
    """Its colour in charts."""
    runs: Runs
    """Unit that is started there: a Space, an Inference Endpoint, a Job, a slice of Cloud TPU, or a machine to install packages on."""
    idle: Idle
    """Behaviour of idle hardware: it sleeps, scales to zero, has ended with its work, or runs on until it is deleted."""
    owned: bool = False
    """It is hardware of the visitor's own, without a price or rules."""
    per_call: bool = False
    """It lends a card to one call of a Gradio Space at a time. Visitors pay with their daily quota, the owner pays nothing."""
    on_hub: bool = True
    """Hugging Face bills it and stores its files."""
    rules: RulesGroup | None = None
    """The group of `lib.catalog.rules.PlatformRules` that its bills follow."""
    live_list: str = ""
    """The function of huggingface_hub that lists its hardware with today's prices."""
    listed_with: Platform | None = None
    """The platform whose choices and live list include it, as one flavor in several sizes."""
    shares_address: bool = False
    """Its copies answer under one address, and it documents how requests are spread over them.

    Inference Endpoints do (autoscaling, huggingface.co/docs/inference-endpoints, 2026-07). A Space can have replicas, but how requests
    reach them is not documented (hub-docs spaces-config-reference, 2026-07-21). Jobs and slices of Cloud TPU have an address each."""
    prepaid: bool = False
    """Its paid hardware needs prepaid credits."""
    trains: bool = False
    """People train models there."""
    frameworks: tuple[Framework, ...] = FRAMEWORKS
    """The frameworks for which set-up files are written."""

    @property
    def one_machine(self) -> bool:
        """Whether a model runs on one machine at most: those of Hugging Face are not connected with each other."""
        return self.on_hub

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
        return self.runs == "Space"

    @property
    def rents_spaces(self) -> bool:
        """Whether it rents hardware of Spaces out by the hour."""
        return self.runs_spaces and not self.per_call

    @property
    def runs_jobs(self) -> bool:
        """Whether work runs as a Job, which ends at its timeout and pays for an exposed port."""
        return self.runs == "Job"

    @property
    def runs_images(self) -> bool:
        """Whether it runs container images, such as those of servers."""
        return self.runs in {"Endpoint", "Job"}

    @property
    def rents_tpus(self) -> bool:
        """Whether it rents slices of Cloud TPU out."""
        return self.runs == "TPU"


TRAITS: Mapping[str, PlatformTraits] = MappingProxyType(
    {
        "spaces": PlatformTraits(
            label="Spaces", colour="#3d74b8", runs="Space", idle="sleeps", rules="sleep", prepaid=True, trains=True,
            live_list="list_spaces_hardware",
        ),
        "zerogpu": PlatformTraits(
            label="ZeroGPU", colour="#2f9e7a", runs="Space", idle="ends", per_call=True, rules="zerogpu",
            listed_with="spaces", frameworks=("pytorch",),
        ),
        "endpoints": PlatformTraits(
            label="Inference Endpoints", colour="#c98018", runs="Endpoint", idle="scales_to_zero", rules="endpoints",
            trains=True, shares_address=True,
        ),
        "jobs": PlatformTraits(
            label="Jobs", colour="#8b93a1", runs="Job", idle="ends", rules="jobs", trains=True,
            live_list="list_jobs_hardware",
        ),
        "tpu": PlatformTraits(
            label="Cloud TPU", colour="#b8478a", runs="TPU", idle="runs_on", on_hub=False,
            frameworks=("pytorch", "jax"),
        ),
        OWN: PlatformTraits(label="your own", owned=True, runs="machine", idle="runs_on", on_hub=False, trains=True),
    }
)  # fmt: skip
"""One row for each platform, and one for hardware of one's own."""
LISTED: Mapping[Platform, frozenset[Platform]] = {
    name: frozenset({name, *(other for other in PLATFORMS if TRAITS[other].listed_with == name)}) for name in PLATFORMS
}
"""The platforms whose hardware the live list of a platform names."""
SPACE_PLATFORMS: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].runs_spaces)
RENTED: tuple[Platform, ...] = tuple(name for name in PLATFORMS if not TRAITS[name].per_call)
"""The platforms that rent hardware out by the hour."""
TPU_PLATFORMS: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].rents_tpus)
PER_CALL: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].per_call)


def traits_of(platform: str) -> PlatformTraits:
    """The row of a platform.

    Raises:
        KeyError: there is none of this name; arguments from outside are checked before.
    """
    return TRAITS[platform]


def with_listed(platform: str) -> tuple[Platform, ...]:
    """The platform and those that are offered with it.

    >>> with_listed("spaces"), with_listed("jobs")
    (('spaces', 'zerogpu'), ('jobs',))
    """
    return tuple(name for name in PLATFORMS if platform in {name, TRAITS[name].listed_with})
