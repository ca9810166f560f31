"""A visitor's Spaces: read, switch the hardware, set the sleep time, pause, restart, through huggingface_hub's own `HfApi`.

    spaces = Spaces(token)                 # the visitor's token, or None for a stranger
    spaces.look("owner/name").stage        # strangers see public Spaces
    spaces.switch("owner/name", "l4x1", 3600)

Every request carries the visitor's token or none (`token=False`), never the server's own; an action without a token is refused before a
request is made. `lib.hub.space_session` bounds the client's calls. The caller checks whether an action is allowed and what it costs.

Answers are checked field by field. huggingface_hub 2.4 knows part of a runtime (`SpaceRuntime`); replicas and the error message stand in
its `raw` only. Stages are text: the client lists twelve, the Hub has more (SLEEPING). Fields:

    stage                          text
    hardware.current / .requested  flavor ids; both may be missing during a first build or a pause
    gcTimeout                      seconds of idling before sleep; -1 = never; missing = the platform's default
    replicas.current / .requested  numbers; `requested` may be a word
    storage, volumes, errorMessage

Source: huggingface_hub 2.4.0, _space_api.py and hf_api.py; whoami as in _oauth.py and `Organization`; checked 2026-11-21.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lib.catalog.offers import ZEROGPU_TIER
from lib.errors import BadArgument, HubError, HubGarbage, InvalidInput, NotSignedIn, quote_value
from lib.hub import refusals
from lib.hub.client import Places, check_id, open_hub

if TYPE_CHECKING:
    from collections.abc import Callable

    from huggingface_hub import HfApi

    from lib.hub.refusals import Act
    from lib.workload import Account as Plan

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
class Volume:
    """A volume that is mounted into a Space; `type` is bucket, model, dataset or space. `read_only` is None where the Hub does not tell."""

    type: str
    source: str
    mount_path: str
    read_only: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a Space runs on now, and what it was asked to run on.

    `sleep_time_s`: idle seconds before it sleeps, -1 = never, None = the platform's default. `error`: why an error stage was
    reached, bounded and printable, but written by strangers.
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
class Account:
    """Whose token it is. `can_pay` (a payment method exists) is None where the token may not tell; organizations as (name, plan)."""

    name: str
    plan: Plan
    can_pay: bool | None
    organizations: tuple[tuple[str, Plan], ...]


def check_space_id(space_id: object) -> str:
    """A Space's id, owner/name.

    Raises:
        BadArgument: the text cannot be one.
    """
    accepted = "owner/name, as on the Space's page of the Hub"
    if not isinstance(space_id, str) or space_id.count("/") != 1:
        raise BadArgument("space_id", space_id, accepted)
    try:
        return check_id(space_id, None)
    except InvalidInput as error:
        raise BadArgument("space_id", space_id, accepted) from error


def garbage(what: str, seen: str) -> HubGarbage:
    """An answer that is not what the Hub's own format promises; `seen` repeats nothing that the server wrote."""
    return HubGarbage(f"The answer about {quote_value(what)} cannot be used: {seen}. Look at it on the Hub itself, or try again later.")


def plain_line(text: str, most: int) -> str:
    """One printable line of at most `most` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def read_runtime(raw: Any, what: str) -> Runtime:
    """A runtime as the Hub sends it; `what` is the Space's id.

    Raises:
        HubGarbage: a field has a type or a value that it cannot have.
    """
    if not isinstance(raw, dict):
        raise garbage(what, "its runtime is not a JSON object")
    stage = raw.get("stage")
    if not (isinstance(stage, str) and _STAGE.fullmatch(stage)):
        raise garbage(what, "its stage has not the form of one")
    hardware = _part(raw, "hardware", what)
    replicas = _part(raw, "replicas", what)
    asked = replicas.get("requested")
    error = raw.get("errorMessage")
    return Runtime(
        id=what,
        stage=stage,
        hardware=_flavor(hardware.get("current"), what),
        requested_hardware=_flavor(hardware.get("requested"), what),
        sleep_time_s=_number(raw.get("gcTimeout"), "sleep time", -1, _MAX_SECONDS, what),
        replicas=_number(replicas.get("current"), "number of replicas", 0, _MAX_REPLICAS, what),
        requested_replicas=None if isinstance(asked, str) else _number(asked, "requested number of replicas", 0, _MAX_REPLICAS, what),
        storage=_text(raw.get("storage"), "storage", what),
        volumes=_volumes(raw.get("volumes"), what),
        error=plain_line(error, _MAX_ERROR) or None if isinstance(error, str) else None,
    )


def parse_space(info: Any, runtime: Runtime, asked: str) -> Space:
    """A Space from the client's `SpaceInfo` and its runtime.

    Raises:
        HubGarbage: no id, or an SDK or a privacy flag of a wrong type.
    """
    try:
        space_id = check_space_id(info.id)
    except InvalidInput as error:
        raise garbage(asked, "it names no id") from error
    if info.private is not None and not isinstance(info.private, bool):
        raise garbage(asked, "whether it is private is not told by true or false")
    return Space(
        **{name: getattr(runtime, name) for name in Runtime.__slots__ if name != "id"},
        id=space_id,
        sdk=_text(info.sdk, "SDK", asked),
        private=info.private is True,
        models=_models(getattr(info.card_data, "models", None), info.models),
    )


def read_account(data: Any) -> Account:
    """An account from the answer to whoami.

    Raises:
        HubGarbage: the name is missing, or the organizations are not a list.
    """
    what = "your account"
    if not isinstance(data, dict):
        raise garbage(what, "it is not a JSON object")
    held = [] if data.get("orgs") is None else data["orgs"]
    if not isinstance(held, list) or len(held) > _MAX_ORGANIZATIONS or not all(isinstance(one, dict) for one in held):
        raise garbage(what, f"its organizations are not a list of at most {_MAX_ORGANIZATIONS}")
    can_pay = data.get("canPay")
    return Account(
        name=_name(data.get("name"), what),
        plan="pro" if data.get("isPro") is True else "free",
        can_pay=can_pay if isinstance(can_pay, bool) else None,
        organizations=tuple((_name(one.get("name"), what), _plan(one)) for one in held),
    )


def _plan(organization: dict[str, Any]) -> Plan:
    """The plan of an organization; `plan` is text such as "team" or "enterprise", `isEnterprise` an older flag."""
    told = organization.get("plan")
    words = told.lower() if isinstance(told, str) else ""
    if "enterprise" in words:
        return "enterprise"
    if "team" in words:
        return "team"
    return "enterprise" if organization.get("isEnterprise") is True else "free"


def _name(value: Any, what: str) -> str:
    if not (isinstance(value, str) and NAME.fullmatch(value)):
        raise garbage(what, "a name in it cannot be one")
    return value


def _part(raw: dict[str, Any], key: str, what: str) -> dict[str, Any]:
    value = raw.get(key)
    if value is not None and not isinstance(value, dict):
        raise garbage(what, f"its {key} is not a JSON object")
    return value or {}


def _flavor(value: Any, what: str) -> str | None:
    if value is not None and not (isinstance(value, str) and FLAVOR.fullmatch(value)):
        raise garbage(what, "its hardware is not an id")
    return value


def _number(value: Any, name: str, least: int, most: int, what: str) -> int | None:
    if value is not None and not (type(value) is int and least <= value <= most):
        raise garbage(what, f"its {name} is not a number in its range")
    return value


def _text(value: Any, name: str, what: str) -> str | None:
    if value is not None and not (isinstance(value, str) and len(value) <= _MAX_TEXT and value.isprintable()):
        raise garbage(what, f"its {name} is not a short text")
    return value or None


def _volumes(value: Any, what: str) -> tuple[Volume, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MAX_VOLUMES or not all(isinstance(one, dict) for one in value):
        raise garbage(what, f"its volumes are not a list of at most {_MAX_VOLUMES}")
    return tuple(
        Volume(
            type=_text(one.get("type"), "volume's type", what) or "model",  # the client's own default
            source=_text(one.get("source"), "volume's source", what) or "",
            mount_path=_text(one.get("mountPath"), "volume's path", what) or "",
            read_only=one["readOnly"] if isinstance(one.get("readOnly"), bool) else None,
        )
        for one in value
    )


def _models(card: Any, related: Any) -> tuple[str, ...]:
    """Ids that the card or the Hub links; what cannot be an id is left out (a card is free text of its owner)."""
    found: dict[str, None] = {}
    for listed in (card, related):
        for name in (listed if isinstance(listed, list) else [listed])[:_MAX_MODELS]:
            if isinstance(name, str):
                try:
                    found[check_id(name, None)] = None
                except InvalidInput:
                    continue
    return tuple(found)[:_MAX_MODELS]


T = TypeVar("T")


MOST_CALLS, OWN_CALLS = 12, 6
"""Questions and actions that may wait for the Hub at a time, of all visitors and of one."""
SECONDS = 15.0  # a whole question or action; the client itself would wait for ever
NEVER = -1
_MAX_SLEEP_S = 366 * 24 * 3600
_MAX_LISTED = 10_000


class Spaces:
    """Spaces as one visitor sees them. Holds the token for as long as the request lasts; its repr does not show it."""

    __slots__ = ("_hub", "_places")

    def __init__(self, token: str | None, endpoint: str | None = None, *, places: Places | None = None) -> None:
        """`endpoint` is the Hub's address, by default the client's own (`HF_ENDPOINT`); `places` bounds the calls of all visitors.

        Raises:
            HubUnreachable: this server runs offline.
            InvalidInput: the token cannot be one.
        """
        from huggingface_hub import constants  # noqa: PLC0415 - only when the Hub is asked

        if constants.is_offline_mode():
            raise refusals.space_offline()
        self._hub, self._places = open_hub(token, endpoint), places

    def look(self, space_id: str) -> Space:
        """A Space with everything that the Hub says about it. A renamed Space is returned under its new id.

        Raises:
            HubError: it is missing or closed to this visitor, or the Hub does not answer as it should.
        """
        asked = check_space_id(space_id)
        wanted: Any = ["cardData", "models", "private", "runtime", "sdk"]

        def read(api: HfApi) -> Space:
            info = api.space_info(asked, expand=wanted, token=self._token())
            held = info.runtime if info.runtime is not None else api.get_space_runtime(asked, token=self._token())
            return parse_space(info, read_runtime(held.raw, asked), asked)

        return self._asked("look", asked, read)

    def runtime(self, space_id: str) -> Runtime:
        """What a Space runs on now: the small answer, for looking again and again.

        Raises:
            HubError: as for `look`.
        """
        asked = check_space_id(space_id)
        return self._asked("look", asked, lambda api: read_runtime(api.get_space_runtime(asked, token=self._token()).raw, asked))

    def account(self) -> Account:
        """Whose token it is.

        Raises:
            NotSignedIn: there is none.
            HubError: the Hub does not accept it, or does not answer as it should.
        """
        token = self._signed_in("account", "your account")
        return self._asked("account", "your account", lambda api: read_account(api.whoami(token=token)))

    def zero_gpu_spaces(self, owner: str) -> int:
        """How many ZeroGPU Spaces an owner has, as far as this visitor can see them.

        Raises:
            BadArgument: the text cannot be an owner.
            HubError: the Hub does not answer as it should, or with more than 10,000 Spaces.
        """
        if not NAME.fullmatch(owner):
            raise BadArgument("owner", owner, "the name of a user or an organization")
        return self._asked("list", owner, lambda api: self._count(api, owner))

    def switch(self, space_id: str, hardware: str, sleep_time_s: int | None = None) -> Runtime:
        """Ask for other hardware; `sleep_time_s` None leaves the sleep time to the platform, -1 is never. Restarts the Space.

        Raises:
            NotSignedIn: there is no token.
            HubError: the Hub refuses or fails.
            AgainstRules: the Hub says that the request makes no sense for this Space.
        """
        if not FLAVOR.fullmatch(hardware):
            raise BadArgument("hardware", hardware, "the id of a Space's hardware such as l4x1")
        seconds = None if sleep_time_s is None else _check_seconds(sleep_time_s)
        flavor: Any = hardware  # the client's list of names is older than the Hub's
        return self._done(
            "hardware", space_id, lambda api, at, token: api.request_space_hardware(at, flavor, sleep_time=seconds, token=token)
        )

    def sleep(self, space_id: str, seconds: int) -> Runtime:
        """Set after how many idle seconds a Space sleeps, -1 = never. Raises as `switch`."""
        asked = _check_seconds(seconds)
        return self._done("sleeptime", space_id, lambda api, at, token: api.set_space_sleep_time(at, asked, token=token))

    def pause(self, space_id: str) -> Runtime:
        """Stop a Space until its owner restarts it. Raises as `switch`."""
        return self._done("pause", space_id, lambda api, at, token: api.pause_space(at, token=token))

    def restart(self, space_id: str, *, factory: bool = False) -> Runtime:
        """Start a Space anew; `factory` builds it from scratch. Raises as `switch`."""
        return self._done("restart", space_id, lambda api, at, token: api.restart_space(at, factory_reboot=factory, token=token))

    def _done(self, act: Act, space_id: str, order: Callable[[HfApi, str, str], Any]) -> Runtime:
        asked = check_space_id(space_id)
        token = self._signed_in(act, asked)
        return self._asked(act, asked, lambda api: read_runtime(order(api, asked, token).raw, asked))

    def _count(self, api: HfApi, owner: str) -> int:
        found = 0
        for number, info in enumerate(api.list_spaces(author=owner, expand=["runtime"], token=self._token()), 1):
            if number > _MAX_LISTED:
                raise garbage(owner, f"it lists more than {_MAX_LISTED:,} Spaces")
            if info.runtime is not None and ZEROGPU_TIER in (info.runtime.hardware, info.runtime.requested_hardware):
                found += 1
        return found

    def _asked(self, act: Act, what: str, question: Callable[[HfApi], T]) -> T:
        """Put a question through the client: bounded, with this visitor's token or none, and with our own errors."""
        from huggingface_hub import HfApi  # noqa: PLC0415 - 0.1 s, and only when the Hub is asked
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

        from lib.hub.space_session import BoundedCall, bound_requests  # noqa: PLC0415

        call = BoundedCall(hub=self._hub, act=act, what=what, seconds=SECONDS)
        try:
            with nullcontext() if self._places is None else self._places.place(), bound_requests(call):
                return question(HfApi(endpoint=self._hub.endpoint, token=self._token()))
        except HfHubHTTPError as error:
            raise refusals.space_refusal(error.response, hub=self._hub, act=act, what=what) from error
        except HubError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            del error  # its text may repeat what the server wrote
            raise refusals.unreadable(act, what) from None

    def _token(self) -> str | bool:
        return self._hub.token or False

    def _signed_in(self, act: Act, what: str) -> str:
        if self._hub.token is None:
            raise NotSignedIn(refusals.sign_in(act, what))
        return self._hub.token


def _check_seconds(seconds: int) -> int:
    if type(seconds) is not int or not (seconds == NEVER or 0 < seconds <= _MAX_SLEEP_S):
        raise BadArgument("sleep time", seconds, f"whole seconds from 1 to {_MAX_SLEEP_S:,}, or -1 for never")
    return seconds
