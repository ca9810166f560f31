"""Errors of the Hub and of the network as our own errors, each with a sentence for the visitor and the next step.

Models: anonymously, a private repository and a missing one look the same (401 with RepoNotFound), so they get the same sentence. Only
the request and the status are repeated, nothing that the server wrote.
Spaces and accounts: the Hub answers 401 for several things, and its client calls most of them "repository not found". Without a token that
is right; with a token it means missing permission: some sign-ins (OAuth tokens) may read and pause a Space, but get 401 when they
change its hardware, set its sleep time or restart it (huggingface_hub issue 4972, open on 2026-09-22). The Hub's own words are quoted for
400, 402, 403 and 409 only: shortened, in plain characters, and never if they hold a token.
Source: huggingface_hub 2.4.0, utils/_http.py (`hf_raise_for_status`), errors.py; checked 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from lib.errors import (
    AdvisorError,
    AgainstRules,
    Conflict,
    HubError,
    HubGarbage,
    HubUnreachable,
    NotPermitted,
    PaymentNeeded,
    RateLimited,
    RepoGated,
    RepoNotFound,
    quote_value,
)

if TYPE_CHECKING:
    from httpx2 import Response

_INSTEAD = "Choose a model of the bundled catalog, or paste its config.json instead."


_FAULTS = {
    "ConnectError": "no connection",
    "ConnectTimeout": "no connection in time",
    "ReadTimeout": "no answer in time",
    "PoolTimeout": "too many connections",
    "ReadError": "the connection broke off",
    "WriteError": "the connection broke off",
    "WriteTimeout": "the connection stalled",
    "RemoteProtocolError": "the connection broke off",
}
"""Errors of the HTTP client in words."""


def describe_fault(error: Exception) -> str:
    """A failed connection in a few plain words; the name of an error without words stays, so that it can be reported."""
    return _FAULTS.get(type(error).__name__, type(error).__name__)


def offline() -> HubUnreachable:
    """The switch HF_HUB_OFFLINE is on: a choice, not a fault."""
    return HubUnreachable(f"The Hub is not asked: this server runs offline (HF_HUB_OFFLINE=1). {_INSTEAD}")


def too_slow(what: str, seconds: float) -> HubUnreachable:
    """The time of the whole request is up."""
    return HubUnreachable(f"The Hub did not finish answering about {quote_value(what)} within {seconds:g} s. Try again later. {_INSTEAD}")


def too_large(what: str, limit: int) -> HubGarbage:
    """An answer longer than such an answer ever is."""
    return HubGarbage(f"The answer about {quote_value(what)} is longer than {limit:,} bytes and was not read to its end. {_INSTEAD}")


def garbage(what: str, fault: str) -> HubGarbage:
    """An answer that is not what the Hub's own format promises."""
    return HubGarbage(f"The answer about {quote_value(what)} cannot be used: {fault}. Try again later. {_INSTEAD}")


def refusal(error: Exception, *, what: str, page: str, token_sent: bool) -> HubError:
    """Our error for one of huggingface_hub's or httpx2's; `what` was asked for, `page` is the model's page."""
    from huggingface_hub import errors as hub  # noqa: PLC0415 - only when the Hub is asked

    advisor_error: HubError
    match error:
        case hub.OfflineModeIsEnabled():
            advisor_error = offline()
        case hub.GatedRepoError():  # before RepositoryNotFoundError, which it is a kind of
            advisor_error = _gated_error(what, page, token_sent=token_sent)
        case hub.DisabledRepoError():
            advisor_error = RepoNotFound(f"The Hub has disabled the model {quote_value(what)}. {_INSTEAD}")
        case hub.RevisionNotFoundError():
            advisor_error = RepoNotFound(
                f"The model {quote_value(what)} has no such revision. Leave it empty for the newest one, or check its name."
            )
        case hub.RepositoryNotFoundError():
            advisor_error = _missing_error(what, token_sent=token_sent)
        case hub.EntryNotFoundError():
            advisor_error = garbage(what, "a file that it lists is not there")
        case hub.HfHubHTTPError(response=response) if response is not None:
            advisor_error = _status_error(response.status_code, response.headers, what, token_sent=token_sent)
        case _:
            fault = describe_fault(error)
            advisor_error = HubUnreachable(f"The Hub could not be reached for {quote_value(what)} ({fault}). Try again later. {_INSTEAD}")
    return advisor_error


_SERVER_ERRORS = 500


def client_refusal(error: Exception, doing: str, by_status: Mapping[int, tuple[type[HubError], str]]) -> HubError:
    """Our error for one of the client's while it acts for the user of a command, without the server's own text, which may hold anything.

    `by_status` has the kinds and sentences of this use; `doing` fills them.
    """
    status: object = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int) and status in by_status:
        kind, words = by_status[status]
        return kind(words.format(doing=doing))
    if isinstance(status, int) and status < _SERVER_ERRORS:
        return HubGarbage(f"The Hub refused {doing} (status {status}). Check the options of the command.")
    if isinstance(status, int):
        return HubUnreachable(f"The Hub has a problem (status {status}) with {doing}. Try again later.")
    if isinstance(error, (LookupError, TypeError, ValueError, AttributeError)):
        return HubGarbage(f"The Hub's answer to {doing} cannot be read ({type(error).__name__}). Look at its page on the Hub.")
    return HubUnreachable(f"The Hub could not be reached for {doing} ({describe_fault(error)}). Try again later.")


def _gated_error(what: str, page: str, *, token_sent: bool) -> RepoGated:
    if token_sent:
        return RepoGated(
            f"The model {quote_value(what)} is gated and your account has no access yet. Ask for it on {page}, or paste its config.json."
        )
    return RepoGated(
        f"The model {quote_value(what)} is gated: its licence has to be accepted first, on {page}. Then sign in here or send a token of "
        f"your own; or open {page}/blob/main/config.json while you are signed in there, and paste its text in place of the name."
    )


def _missing_error(what: str, *, token_sent: bool) -> RepoNotFound:
    if token_sent:
        return RepoNotFound(
            f"There is no model {quote_value(what)} that your account can see. Check the spelling, or ask its owner for access."
        )
    return RepoNotFound(
        f"There is no public model {quote_value(what)}: it does not exist, or it is private. "
        "Check the spelling (owner/name); for a private model sign in or send a token."
    )


def _status_error(status: int, headers: object, what: str, *, token_sent: bool) -> HubError:
    match status:
        case 401 if token_sent:
            return NotPermitted(
                f"The Hub did not accept the token sent for {quote_value(what)}: it is wrong or has expired. Sign in again."
            )
        case 401 | 404 | 410:
            return _missing_error(what, token_sent=token_sent)
        case 403:
            return NotPermitted(
                f"The Hub does not allow reading {quote_value(what)}" + (" with this token" if token_sent else "") + ". "
                "Use a token with read access to this model, or paste its config.json."
            )
        case 429:
            return _rate_error(headers, what, token_sent=token_sent)
        case _ if status >= 500:  # noqa: PLR2004 - the class of server errors
            return HubUnreachable(f"The Hub has a problem (status {status}) with {quote_value(what)}. Try again later. {_INSTEAD}")
    return garbage(what, f"status {status}")


def _rate_error(headers: object, what: str, *, token_sent: bool) -> RateLimited:
    wait = wait_s(headers)
    error = RateLimited(
        f"The Hub asks for fewer requests. Try {quote_value(what)} again "
        + (f"in {wait} s" if wait else "in some minutes")
        + ("." if token_sent else ", or sign in: signed-in accounts have a higher limit.")
    )
    error.wait_s = wait
    return error


def wait_s(headers: object) -> int | None:
    """Seconds to wait, from RateLimit or Retry-After."""
    from httpx2 import Headers  # noqa: PLC0415
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]  # noqa: PLC0415

    if not isinstance(headers, Headers):
        return None
    limit = parse_ratelimit_headers(headers)
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    stated = headers.get("retry-after", "").strip()
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 6 else None  # noqa: PLR2004 - a longer wait is not useful advice


Act = Literal[
    "look",
    "account",
    "list",
    "list_endpoints",
    "list_jobs",
    "hardware",
    "sleeptime",
    "pause",
    "restart",
    "pause_endpoint",
    "cancel_job",
    "zerogpu_quota",
]
ACTIONS: frozenset[Act] = frozenset({"hardware", "sleeptime", "pause", "restart", "pause_endpoint", "cancel_job"})
INVALID_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 - the Hub's sentence, no password
_DOING: dict[Act, str] = {
    "look": "read",
    "account": "read",
    "list": "list the Spaces of",
    "list_endpoints": "list the Inference Endpoints of",
    "list_jobs": "list the Jobs of",
    "hardware": "change the hardware of",
    "sleeptime": "set the sleep time of",
    "pause": "pause",
    "restart": "restart",
    "pause_endpoint": "pause",
    "cancel_job": "cancel",
    "zerogpu_quota": "read the ZeroGPU quota of",
}
_KIND: dict[Act, str] = {"pause_endpoint": "the Endpoint", "cancel_job": "the Job"}  # every other action is on a Space
_PERMISSIONS: dict[Act, str] = {
    "list_endpoints": "read access to Inference Endpoints",
    "pause_endpoint": "write access to Inference Endpoints",
    "list_jobs": "the permission for Jobs",
    "cancel_job": "the permission for Jobs",
    "zerogpu_quota": "the permission to read billing (scope read-billing)",
}
_KNOWN_401 = frozenset({"hardware", "sleeptime", "restart"})
_UNSURE = "Whether it was done is not known: look at it before you try again."
_MAX_REMARK = 160
_WORDS = re.compile(r"[^A-Za-z0-9 .,:;'()/%$+-]+")


def space_offline() -> HubUnreachable:
    """The switch HF_HUB_OFFLINE is on: a choice, not a fault."""
    return HubUnreachable(
        "The Hub is not asked: this server runs offline (HF_HUB_OFFLINE=1). Spaces can be looked at and changed on huggingface.co itself."
    )


def sign_in(act: Act, what: str) -> str:
    """The sentence for an action without a token."""
    if act == "account":
        return "Not signed in, so the account is unknown. Sign in, or send a token of your own."
    return (
        f"To {_DOING[act]} {_name_it(act, what)} you have to be signed in. Sign in, or send a token of your own with "
        f"{_PERMISSIONS.get(act, 'write access to this Space')}. This server's own token is never used for visitors."
    )


def space_too_slow(act: Act, what: str, seconds: float) -> HubUnreachable:
    """The time is up."""
    return HubUnreachable(f"The Hub did not finish answering about {quote_value(what)} within {seconds:g} s. {_advice(act)}")


def unreachable(act: Act, what: str, fault: str, *, sent: bool) -> HubUnreachable:
    """No connection, or one that broke; `sent` tells that the request may have arrived."""
    return HubUnreachable(f"The Hub could not be reached for {quote_value(what)} ({fault}). {_advice(act) if sent else 'Try again later.'}")


def unreadable(act: Act, what: str, fault: str = "it is not what the Hub's own format promises") -> HubGarbage:
    """An answer that cannot be used."""
    return HubGarbage(f"The answer about {quote_value(what)} cannot be used: {fault}. {_advice(act)}")


def unfollowed_redirect(what: str) -> HubGarbage:
    """An action is not sent on to another address: it may cost money there."""
    return HubGarbage(
        f"The Hub sends the request about {quote_value(what)} on to another address; nothing was changed. "
        "Was the Space renamed? Look at it, and use the id that it has now."
    )


def sanitize_remote_message(text: str, token: str | None) -> str:
    """The Hub's text, safe to quote: one line of plain characters; nothing if it holds a token."""
    if "hf_" in text or (token is not None and token in text):
        return ""
    plain = " ".join(_WORDS.sub(" ", " ".join(word for word in text.split() if "://" not in word)).split()).strip(" .")
    return plain[:_MAX_REMARK]


def space_refusal(response: Response, *, endpoint: str, token_sent: bool, act: Act, what: str) -> AdvisorError:
    """Our error for an answer of status 400 or higher."""
    remark = response.extensions.get("remark", "")
    quoted = f" The Hub says: '{remark}'." if remark else ""
    advisor_error: AdvisorError
    match response.status_code:
        case 401:
            advisor_error = _unauthorized_error(response, endpoint, act, what, token_sent=token_sent)
        case 402:
            advisor_error = PaymentNeeded(
                f"The Hub asks for payment before it can {_DOING[act]} {_name_it(act, what)}.{quoted} Add a payment method or prepaid "
                f"credits on {endpoint}/settings/billing (of the organization, if the Space belongs to one), or choose cheaper hardware."
            )
        case 403:
            advisor_error = _forbidden_error(endpoint, act, what, quoted, token_sent=token_sent)
        case 404 | 410:
            advisor_error = _missing_space_error(act, what, token_sent=token_sent)
        case 409:
            advisor_error = Conflict(
                f"The Hub did not {_DOING[act]} {_name_it(act, what)}: something else is being done to it right now.{quoted} "
                "Wait until it has settled, look at it again, and repeat the action if it is still needed."
            )
        case 429:
            advisor_error = _rate_error(response.headers, what, token_sent=token_sent)
        case status if status >= 500:  # noqa: PLR2004 - the class of server errors
            advisor_error = HubUnreachable(f"The Hub has a problem (status {status}) with {quote_value(what)}. {_advice(act)}")
        case 400 | 422 if act in ACTIONS and act not in _KIND:
            advisor_error = AgainstRules(
                f"The Hub refuses to {_DOING[act]} the Space {quote_value(what)}.{quoted} Static Spaces have no hardware, sleep time or "
                "restart; for others, check that the hardware and the sleep time are among those offered today."
            )
        case status:
            advisor_error = unreadable(act, what, f"status {status}")
    return advisor_error


def _unauthorized_error(response: Response, endpoint: str, act: Act, what: str, *, token_sent: bool) -> AdvisorError:
    """Status 401: unknown to anonymous callers, missing permission for others."""
    tokens = f"{endpoint}/settings/tokens"
    if not token_sent:
        return _missing_space_error(act, what, token_sent=token_sent)
    if act == "account" or response.headers.get("x-error-message") == INVALID_TOKEN:
        return NotPermitted(
            f"The Hub did not accept the token sent for {quote_value(what)}: it is wrong or has expired. "
            f"Sign in again, or make a new one on {tokens}."
        )
    if act in _KNOWN_401:
        return NotPermitted(
            f"The Hub did not allow this token to {_DOING[act]} the Space {quote_value(what)} (status 401). This is a matter of permission "
            "and does not mean that the Space is missing: the Hub is known to answer so to some sign-ins that may read and pause a Space. "
            f"Paste a fine-grained token with write access to this Space instead (made on {tokens}; it is used for this request only)."
        )
    need = _PERMISSIONS.get(act, "write access" if act in ACTIONS else "read access")
    return NotPermitted(
        f"The Hub did not allow this token to {_DOING[act]} {quote_value(what)} (status 401): it has expired, or lacks {need}. "
        f"Sign in again, or send a token with {need}, made on {tokens}."
    )


def _forbidden_error(endpoint: str, act: Act, what: str, quoted: str, *, token_sent: bool) -> NotPermitted:
    if act not in ACTIONS:
        return NotPermitted(
            f"The Hub does not allow {'this token' if token_sent else 'strangers'} to {_DOING[act]} {quote_value(what)}.{quoted} "
            f"Use a token with {_PERMISSIONS.get(act, 'read access')}, made on {endpoint}/settings/tokens."
        )
    if act in _PERMISSIONS:
        return NotPermitted(
            f"This token may not {_DOING[act]} {_name_it(act, what)}.{quoted} It needs {_PERMISSIONS[act]} for the account or organization "
            f"that pays ({endpoint}/settings/tokens)."
        )
    return NotPermitted(
        f"This token may not {_DOING[act]} the Space {quote_value(what)}.{quoted} Only its owner, or a member of its organization with "
        f"write access, may; the token itself needs write access to it too ({endpoint}/settings/tokens). A Space "
        "of others can be duplicated."
    )


def _missing_space_error(act: Act, what: str, *, token_sent: bool) -> RepoNotFound:
    if act == "list":
        return RepoNotFound(f"There is no user or organization {quote_value(what)} whose Spaces can be listed. Check the spelling.")
    if act in _PERMISSIONS:
        return RepoNotFound(
            f"The Hub finds nothing when it is to {_DOING[act]} {quote_value(what)} (status 404). Check the name; the token needs "
            f"{_PERMISSIONS[act]}."
        )
    if token_sent:
        return RepoNotFound(
            f"There is no Space {quote_value(what)} that your account can see. Check the spelling, or ask its owner for access."
        )
    return RepoNotFound(
        f"There is no public Space {quote_value(what)}: it does not exist, or it is private. "
        "Check the spelling (owner/name); for a private Space sign in or send a token."
    )


def _name_it(act: Act, what: str) -> str:
    return f"{_KIND.get(act, 'the Space')} {quote_value(what)}"


def _advice(act: Act) -> str:
    return _UNSURE if act in ACTIONS else "Try again later."
