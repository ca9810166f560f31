"""A visitor's Spaces: read, switch the hardware, set the sleep time, pause, restart, through huggingface_hub's own `HfApi`.

Beside them the Inference Endpoints and Jobs that an account pays for: listed, paused, cancelled.

    spaces = Spaces(token)                 # the visitor's token, or None (anonymous)
    spaces.look("owner/name").stage        # anonymous: public Spaces only
    spaces.switch("owner/name", "l4x1", 3600)

Every request carries the visitor's token or none (`token=False`), never the server's own; an action without a token is refused before a
request is made. `lib.hub.space_session` bounds the client's calls. The caller checks whether an action is allowed and what it costs.

Source: huggingface_hub 2.4.0, _space_api.py, _inference_endpoints.py, _jobs_api.py and hf_api.py; checked 2026-11-21.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lib.catalog.offers import ZEROGPU_TIER
from lib.errors import BadArgument, HubError, NotSignedIn
from lib.hub import refusals
from lib.hub.client import check_id, open_hub
from lib.hub.space_answers import (
    FLAVOR,
    NAME,
    check_space_id,
    garbage,
    parse_space,
    read_account,
    read_endpoint,
    read_job,
    read_quota,
    read_runtime,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from huggingface_hub import HfApi

    from lib.hub.refusals import Act
    from lib.hub.space_answers import InferenceEndpoint, Job, Runtime, Space, TokenOwner, ZeroGpuQuota

T = TypeVar("T")
SECONDS = 15.0  # a whole question or action; the client itself would wait for ever
NEVER = -1
_MAX_SLEEP_S = 366 * 24 * 3600
_MAX_LISTED = 10_000
MOST_ROWS = 500
"""Spaces, Endpoints or Jobs of one owner that are read; `list_…` reads one more if there are more."""
_BILLABLE_JOBS = ("SCHEDULING", "RUNNING")  # the others are over


class Spaces:
    """Spaces as one visitor sees them. Holds the token for as long as the request lasts; its repr does not show it."""

    __slots__ = ("_hub", "_turn")

    def __init__(
        self, token: str | None, endpoint: str | None = None, *, turn: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """`endpoint` is the Hub's address, by default the client's own (`HF_ENDPOINT`); each call runs within a `turn()`."""
        from huggingface_hub import constants  # noqa: PLC0415 - only when the Hub is asked

        if constants.is_offline_mode():
            raise refusals.space_offline()
        self._hub, self._turn = open_hub(token, endpoint), turn

    def look(self, space_id: str) -> Space:
        """A Space with everything that the Hub says about it. A renamed Space is returned under its new id."""
        space = check_space_id(space_id)
        fields: Any = ["cardData", "models", "private", "runtime", "sdk"]

        def read(api: HfApi) -> Space:
            info = api.space_info(space, expand=fields, token=self._token())
            runtime = info.runtime if info.runtime is not None else api.get_space_runtime(space, token=self._token())
            return parse_space(info, read_runtime(runtime.raw, space), space)

        return self._call_hub("look", space, read)

    def runtime(self, space_id: str) -> Runtime:
        """Current hardware of a Space: the small answer, for repeated polling."""
        space = check_space_id(space_id)
        return self._call_hub("look", space, lambda api: read_runtime(api.get_space_runtime(space, token=self._token()).raw, space))

    def account(self) -> TokenOwner:
        """The account of the token."""
        token = self._require_token("account", "your account")
        return self._call_hub("account", "your account", lambda api: read_account(api.whoami(token=token)))

    def zero_gpu_quota(self) -> ZeroGpuQuota:
        """The daily ZeroGPU quota of the token's owner, and the seconds that remain."""
        token = self._require_token("zerogpu_quota", "your account")
        return self._call_hub("zerogpu_quota", "your account", lambda api: read_quota(vars(api.get_zero_gpu_quota(token=token))))

    def zero_gpu_spaces(self, owner: str) -> int:
        """How many ZeroGPU Spaces an owner has, as far as this visitor can see them."""
        return self._call_hub("list", _check_name("owner", owner), lambda api: self._count(api, owner))

    def list_spaces(self, owner: str, *, linked: bool = False) -> tuple[Space, ...]:
        """Spaces of an owner, in the Hub's order; `linked` also reads the models that they link."""
        fields: Any = ["private", "runtime", "sdk", *(("cardData", "models") if linked else ())]

        def read(api: HfApi) -> tuple[Space, ...]:
            infos = islice(api.list_spaces(author=owner, expand=fields, token=self._token()), MOST_ROWS + 1)
            return tuple(
                parse_space(info, read_runtime({"stage": "UNKNOWN"} if info.runtime is None else info.runtime.raw, info.id), info.id)
                for info in infos
            )

        return self._call_hub("list", _check_name("owner", owner), read)

    def list_models(self, owner: str) -> tuple[str, ...]:
        """Ids of an owner's models, in the Hub's order, at most 10,000."""

        def read(api: HfApi) -> tuple[str, ...]:
            infos = islice(api.list_models(author=owner, token=self._token()), _MAX_LISTED)
            return tuple(check_id(info.id, None) for info in infos)

        return self._call_hub("list", _check_name("owner", owner), read)

    def list_endpoints(self, owner: str) -> tuple[InferenceEndpoint, ...]:
        """Inference Endpoints of an owner."""
        token = self._require_token("list_endpoints", _check_name("owner", owner))

        def read(api: HfApi) -> tuple[InferenceEndpoint, ...]:
            return tuple(read_endpoint(one.raw, owner) for one in api.list_inference_endpoints(owner, token=token)[: MOST_ROWS + 1])

        return self._call_hub("list_endpoints", owner, read)

    def list_jobs(self, owner: str) -> tuple[Job, ...]:
        """Jobs of an owner that are scheduled or run."""
        token = self._require_token("list_jobs", _check_name("owner", owner))

        def read(api: HfApi) -> tuple[Job, ...]:
            infos = api.list_jobs(namespace=owner, status=list(_BILLABLE_JOBS), token=token)
            return tuple(read_job(info, owner) for info in islice(infos, MOST_ROWS + 1))

        return self._call_hub("list_jobs", owner, read)

    def pause_endpoint(self, owner: str, name: str) -> str:
        """Pause an Inference Endpoint until its owner resumes it; its state right after."""
        token, what = self._require_token("pause_endpoint", name), f"{_check_name('owner', owner)}/{_check_name('name', name)}"

        def order(api: HfApi) -> str:
            return read_endpoint(api.pause_inference_endpoint(name, namespace=owner, token=token).raw, owner).state

        return self._call_hub("pause_endpoint", what, order)

    def cancel_job(self, owner: str, name: str) -> None:
        """End a Job."""
        token, what = self._require_token("cancel_job", name), f"{_check_name('owner', owner)}/{_check_name('name', name)}"
        self._call_hub("cancel_job", what, lambda api: api.cancel_job(job_id=name, namespace=owner, token=token))

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
        return self._act(
            "hardware", space_id, lambda api, at, token: api.request_space_hardware(at, flavor, sleep_time=seconds, token=token)
        )

    def sleep(self, space_id: str, seconds: int) -> Runtime:
        """Set after how many idle seconds a Space sleeps, -1 = never."""
        idle_s = _check_seconds(seconds)
        return self._act("sleeptime", space_id, lambda api, at, token: api.set_space_sleep_time(at, idle_s, token=token))

    def pause(self, space_id: str) -> Runtime:
        """Stop a Space until its owner restarts it."""
        return self._act("pause", space_id, lambda api, at, token: api.pause_space(at, token=token))

    def restart(self, space_id: str, *, factory: bool = False) -> Runtime:
        """Restart a Space; `factory` builds it from scratch."""
        return self._act("restart", space_id, lambda api, at, token: api.restart_space(at, factory_reboot=factory, token=token))

    def _act(self, act: Act, space_id: str, order: Callable[[HfApi, str, str], Any]) -> Runtime:
        space = check_space_id(space_id)
        token = self._require_token(act, space)
        return self._call_hub(act, space, lambda api: read_runtime(order(api, space, token).raw, space))

    def _count(self, api: HfApi, owner: str) -> int:
        count = 0
        for number, info in enumerate(api.list_spaces(author=owner, expand=["runtime"], token=self._token()), 1):
            if number > _MAX_LISTED:
                raise garbage(owner, f"it lists more than {_MAX_LISTED:,} Spaces")
            if info.runtime is not None and ZEROGPU_TIER in (info.runtime.hardware, info.runtime.requested_hardware):
                count += 1
        return count

    def _call_hub(self, act: Act, what: str, question: Callable[[HfApi], T]) -> T:
        """Put a question through the client: bounded, with this visitor's token or none, and with our own errors."""
        from huggingface_hub import HfApi  # noqa: PLC0415 - 0.1 s, and only when the Hub is asked
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

        from lib.hub.space_session import BoundedCall, bound_requests  # noqa: PLC0415

        call = BoundedCall(hub=self._hub, act=act, what=what, seconds=SECONDS)
        try:
            with self._turn(), bound_requests(call):
                return question(HfApi(endpoint=self._hub.endpoint, token=self._token()))
        except HfHubHTTPError as error:
            raise refusals.space_refusal(
                error.response, endpoint=self._hub.endpoint, token_sent=self._hub.token is not None, act=act, what=what
            ) from error
        except HubError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            del error  # its text may repeat what the server wrote
            raise refusals.unreadable(act, what) from None

    def _token(self) -> str | bool:
        return self._hub.token or False

    def _require_token(self, act: Act, what: str) -> str:
        if self._hub.token is None:
            raise NotSignedIn(refusals.sign_in(act, what))
        return self._hub.token


def _check_name(argument: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadArgument(argument, name, "a name as the Hub writes it: letters, digits, ., - and _")
    return name


def _check_seconds(seconds: int) -> int:
    if type(seconds) is not int or not (seconds == NEVER or 0 < seconds <= _MAX_SLEEP_S):
        raise BadArgument("sleep time", seconds, f"whole seconds from 1 to {_MAX_SLEEP_S:,}, or -1 for never")
    return seconds
