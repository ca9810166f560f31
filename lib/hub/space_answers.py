"""The Hub's answers about a Space, an Inference Endpoint, a Job and an account, checked and in our types.

huggingface_hub 2.4 knows part of a runtime (`SpaceRuntime`); replicas and the error message are in its `raw` only. Stages are text: the
client lists twelve, the Hub has more (SLEEPING). Fields of a runtime:

    stage                          text
    hardware.current / .requested  flavor ids; both may be missing during a first build or a pause
    gcTimeout                      seconds of idling before sleep; -1 = never; missing = the platform's default
    replicas.current / .requested  numbers; `requested` may be a word
    storage, volumes, errorMessage

Of an Endpoint, its `raw`: `provider.vendor`, `compute.instanceType`, `.instanceSize`, `.scaling.minReplica`, `.maxReplica`,
`.scaleToZeroTimeout` (minutes), `status.state`, `.targetReplica` (replicas that the scaling asks for now).

A field that the format does not promise is ignored, one of a wrong type or range refuses the whole answer, and a refusal repeats nothing
that the server wrote.

Source: huggingface_hub 2.4.0, _space_api.py and hf_api.py; whoami as in _oauth.py and `Organization`; checked 2026-11-21.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lib.answers.spaces import Volume
from lib.errors import BadArgument, HubGarbage, InvalidInput, quote_value
from lib.hub.client import check_id, check_printable

if TYPE_CHECKING:
    from lib.request.types import AccountName as Plan

FLAVOR = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_STAGE = re.compile(r"[A-Za-z][A-Za-z_ ]{0,39}")
_MAX_TEXT = 200
_MAX_ERROR = 400
_MAX_VOLUMES = 100
_MAX_MODELS = 50
_MAX_ORGANIZATIONS = 500
_MAX_SECONDS = 10**9
_MAX_REPLICAS = 10**4


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Current and requested hardware of a Space.

    `sleep_time_s`: idle seconds before it sleeps, -1 = never, None = the platform's default. `error`: why an error stage was
    reached, bounded and printable, but not trusted.
    """

    id: str
    stage: str
    hardware: str | None
    requested_hardware: str | None
    sleep_time_s: int | None
    replicas: int | None
    requested_replicas: int | None
    storage: str | None
    volumes: tuple[Volume, ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Space(Runtime):
    """A Space: its runtime, its SDK and the models that its card or the Hub links to it."""

    sdk: str | None
    private: bool
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """The account of a token. `can_pay` (a payment method exists) is None if the token may not tell; organizations as (name, plan)."""

    name: str
    plan: Plan
    can_pay: bool | None
    organizations: tuple[tuple[str, Plan], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpoint:
    """An Inference Endpoint: vendor, instance type and size name its hardware. `replicas` is how many it has now, None if not told.

    `idle_timeout_s`: seconds without requests until it is scaled to zero, None if it never is.
    """

    id: str
    state: str
    vendor: str
    instance_type: str
    instance_size: str
    replicas: int | None
    idle_timeout_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A Job that is scheduled or runs; `since` is when it started, in ISO 8601, None before."""

    id: str
    stage: str
    flavor: str | None
    since: str | None


def _matching(pattern: re.Pattern[str]) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(pattern.pattern)
        return value

    return AfterValidator(check)


_Text = Annotated[str, Field(max_length=_MAX_TEXT), AfterValidator(check_printable)]
_Flavor = Annotated[str, _matching(FLAVOR)]
_Name = Annotated[str, _matching(NAME)]
_Replicas = Annotated[int, Field(ge=0, le=_MAX_REPLICAS)]


class _Answer(BaseModel):
    """Validates known fields strictly and ignores others; names are those of the Hub."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class _HardwareAnswer(_Answer):
    current: _Flavor | None = None
    requested: _Flavor | None = None


class _ReplicasAnswer(_Answer):
    current: _Replicas | None = None
    requested: _Replicas | str | None = None


class _VolumeAnswer(_Answer):
    type: _Text | None = None
    source: _Text | None = None
    mount_path: _Text | None = None
    read_only: Any = None


class _RuntimeAnswer(_Answer):
    stage: Annotated[str, _matching(_STAGE)]
    hardware: _HardwareAnswer | None = None
    gc_timeout: Annotated[int, Field(ge=-1, le=_MAX_SECONDS)] | None = None
    replicas: _ReplicasAnswer | None = None
    storage: _Text | None = None
    volumes: Annotated[list[_VolumeAnswer], Field(max_length=_MAX_VOLUMES)] | None = None
    error_message: Any = None


class _DescriptionAnswer(_Answer):
    private: bool | None
    sdk: _Text | None


class _ProviderAnswer(_Answer):
    vendor: _Name


class _ScalingAnswer(_Answer):
    min_replica: _Replicas | None = None
    scale_to_zero_timeout: Annotated[int, Field(ge=0, le=_MAX_SECONDS)] | None = None


class _ComputeAnswer(_Answer):
    instance_type: _Name
    instance_size: _Name
    scaling: _ScalingAnswer = _ScalingAnswer()


class _EndpointStatusAnswer(_Answer):
    state: _Name
    target_replica: _Replicas | None = None


class _EndpointAnswer(_Answer):
    name: _Name
    provider: _ProviderAnswer
    compute: _ComputeAnswer
    status: _EndpointStatusAnswer


class _JobAnswer(_Answer):
    id: _Name
    stage: Annotated[str, _matching(_STAGE)]
    flavor: _Flavor | None


class _OrganizationAnswer(_Answer):
    name: _Name
    plan: Any = None
    is_enterprise: Any = None


class _AccountAnswer(_Answer):
    name: _Name
    is_pro: Any = None
    can_pay: Any = None
    orgs: Annotated[list[_OrganizationAnswer], Field(max_length=_MAX_ORGANIZATIONS)] | None = None


_Seconds = Annotated[float, Field(ge=0, le=_MAX_SECONDS, allow_inf_nan=False)]
_A = TypeVar("_A", bound=_Answer)


def _read(shape: type[_A], data: Any, what: str) -> _A:
    """The answer in its shape."""
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise garbage(
            what, f"its field {place} has a type or a value that the Hub does not promise" if place else "not an object"
        ) from None


def check_space_id(space_id: object) -> str:
    """A Space's id, owner/name."""
    accepted = "owner/name, as on the Space's page of the Hub"
    if not isinstance(space_id, str) or space_id.count("/") != 1:
        raise BadArgument("space_id", space_id, accepted)
    try:
        return check_id(space_id, None)
    except InvalidInput as error:
        raise BadArgument("space_id", space_id, accepted) from error


def garbage(what: str, fault: str) -> HubGarbage:
    """An answer that is not what the Hub's own format promises; `fault` repeats nothing that the server wrote."""
    return HubGarbage(f"The answer about {quote_value(what)} cannot be used: {fault}. Look at it on the Hub itself, or try again later.")


def plain_line(text: str, most: int) -> str:
    """One printable line of at most `most` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def read_runtime(raw: Any, what: str) -> Runtime:
    """A runtime as the Hub sends it; `what` is the Space's id."""
    answer = _read(_RuntimeAnswer, raw, what)
    hardware, replicas = answer.hardware or _HardwareAnswer(), answer.replicas or _ReplicasAnswer()
    return Runtime(
        id=what,
        stage=answer.stage,
        hardware=hardware.current,
        requested_hardware=hardware.requested,
        sleep_time_s=answer.gc_timeout,
        replicas=replicas.current,
        requested_replicas=None if isinstance(replicas.requested, str) else replicas.requested,
        storage=answer.storage or None,
        volumes=tuple(
            Volume(
                type=volume.type or "model",  # the client's own default
                source=volume.source or "",
                mount_path=volume.mount_path or "",
                read_only=volume.read_only if isinstance(volume.read_only, bool) else None,
            )
            for volume in answer.volumes or ()
        ),
        error=plain_line(answer.error_message, _MAX_ERROR) or None if isinstance(answer.error_message, str) else None,
    )


def parse_space(info: Any, runtime: Runtime, space_id: str) -> Space:
    """A Space from the client's `SpaceInfo` and its runtime."""
    try:
        space_id = check_space_id(info.id)
    except InvalidInput as error:
        raise garbage(space_id, "it names no id") from error
    answer = _read(_DescriptionAnswer, {"private": info.private, "sdk": info.sdk}, space_id)
    return Space(
        **{name: getattr(runtime, name) for name in Runtime.__slots__ if name != "id"},
        id=space_id,
        sdk=answer.sdk or None,
        private=answer.private is True,
        models=_models(getattr(info.card_data, "models", None), info.models),
    )


def read_endpoint(raw: Any, owner: str) -> InferenceEndpoint:
    """An Inference Endpoint as its API sends it."""
    answer = _read(_EndpointAnswer, raw, owner)
    scaling = answer.compute.scaling
    minutes = None if scaling.min_replica else scaling.scale_to_zero_timeout
    return InferenceEndpoint(
        id=f"{owner}/{answer.name}",
        state=answer.status.state,
        vendor=answer.provider.vendor,
        instance_type=answer.compute.instance_type,
        instance_size=answer.compute.instance_size,
        replicas=answer.status.target_replica,
        idle_timeout_s=minutes * 60 if minutes else None,
    )


def read_job(info: Any, owner: str) -> Job:
    """A Job from the client's `JobInfo`."""
    stage = getattr(info.status.stage, "value", info.status.stage)
    answer = _read(_JobAnswer, {"id": info.id, "stage": stage, "flavor": info.flavor}, owner)
    since = None if info.started_at is None else info.started_at.isoformat(timespec="minutes")
    return Job(id=f"{owner}/{answer.id}", stage=answer.stage, flavor=answer.flavor, since=since)


def read_account(data: Any) -> TokenOwner:
    """An account from the answer to whoami."""
    answer = _read(_AccountAnswer, data, "your account")
    return TokenOwner(
        name=answer.name,
        plan="pro" if answer.is_pro is True else "free",
        can_pay=answer.can_pay if isinstance(answer.can_pay, bool) else None,
        organizations=tuple((one.name, _plan(one)) for one in answer.orgs or ()),
    )


class ZeroGpuQuota(_Answer):
    """Seconds of ZeroGPU quota of an account, by the names of the client's own class."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    base_s: _Seconds = Field(alias="base")
    """Seconds a day."""
    remaining_s: _Seconds = Field(alias="remaining")
    """Seconds that are left."""
    resets_at: datetime | None = Field(alias="resets_at")
    """When it resets; None while nothing of it was used."""
    overquota_used_s: _Seconds | None = Field(alias="overquota_used")
    """Seconds that were paid for beyond the quota."""


def read_quota(data: Any) -> ZeroGpuQuota:
    """The quota of an account, from the fields of the client's answer."""
    return _read(ZeroGpuQuota, data, "your account")


def _plan(organization: _OrganizationAnswer) -> Plan:
    """The plan of an organization; `plan` is text such as "team" or "enterprise", `isEnterprise` an older flag."""
    words = organization.plan.lower() if isinstance(organization.plan, str) else ""
    if "enterprise" in words:
        return "enterprise"
    if "team" in words:
        return "team"
    return "enterprise" if organization.is_enterprise is True else "free"


def _models(card: Any, related: Any) -> tuple[str, ...]:
    """Ids that the card or the Hub links; texts that cannot be an id are left out (a card is free text of its owner)."""
    names: dict[str, None] = {}
    for listed in (card, related):
        for name in (listed if isinstance(listed, list) else [listed])[:_MAX_MODELS]:
            if isinstance(name, str):
                try:
                    names[check_id(name, None)] = None
                except InvalidInput:
                    continue
    return tuple(names)[:_MAX_MODELS]
