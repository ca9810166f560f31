"""From what the Hub or the network answered to our own errors, each with a sentence for the visitor.

The Hub tells less than one would like: to a stranger a private repository and a missing one look the same (401 with
RepoNotFound), and so they do here. Nothing that the server wrote is repeated: only what was asked for, and its status.
Source: huggingface_hub 2.4.0, utils/_http.py (`hf_raise_for_status`), errors.py; checked 2026-11-21.
"""

from __future__ import annotations

from lib.errors import HubError, HubGarbage, HubUnreachable, NotPermitted, RateLimited, RepoGated, RepoNotFound, shown

_INSTEAD = "Choose a model of the bundled catalog, or paste its config.json instead."


def offline() -> HubUnreachable:
    """The switch HF_HUB_OFFLINE is on: a choice, not a fault."""
    return HubUnreachable(f"The Hub is not asked: this server runs offline (HF_HUB_OFFLINE=1). {_INSTEAD}")


def too_slow(what: str, seconds: float) -> HubUnreachable:
    """The time of the whole request is up."""
    return HubUnreachable(f"The Hub did not finish answering about {shown(what)} within {seconds:g} s. Try again later. {_INSTEAD}")


def foreign_redirect(what: str, host: str) -> HubGarbage:
    """Sent elsewhere than the Hub and its own file servers."""
    return HubGarbage(f"The answer about {shown(what)} points to another host, {shown(host)}, which is not asked. {_INSTEAD}")


def too_large(what: str, limit: int) -> HubGarbage:
    """An answer longer than such an answer ever is."""
    return HubGarbage(f"The answer about {shown(what)} is longer than {limit:,} bytes and was not read to its end. {_INSTEAD}")


def garbage(what: str, seen: str) -> HubGarbage:
    """An answer that is not what the Hub's own format promises."""
    return HubGarbage(f"The answer about {shown(what)} cannot be used: {seen}. Try again later. {_INSTEAD}")


def refusal(error: Exception, *, what: str, page: str, token_sent: bool) -> HubError:
    """Our error for one of huggingface_hub's or httpx2's; `what` was asked for, `page` is the model's page."""
    from huggingface_hub import errors as hub  # noqa: PLC0415 - only when the Hub is asked

    told: HubError
    match error:
        case hub.OfflineModeIsEnabled():
            told = offline()
        case hub.GatedRepoError():  # before RepositoryNotFoundError, which it is a kind of
            told = _gated(what, page, token_sent=token_sent)
        case hub.DisabledRepoError():
            told = RepoNotFound(f"The Hub has disabled the model {shown(what)}. {_INSTEAD}")
        case hub.RevisionNotFoundError():
            told = RepoNotFound(f"The model {shown(what)} has no such revision. Leave it empty for the newest one, or check its name.")
        case hub.RepositoryNotFoundError():
            told = _missing(what, token_sent=token_sent)
        case hub.EntryNotFoundError():
            told = garbage(what, "a file that it lists is not there")
        case hub.HfHubHTTPError(response=response) if response is not None:
            told = _by_status(response.status_code, response.headers, what, token_sent=token_sent)
        case _:
            seen = type(error).__name__
            told = HubUnreachable(f"The Hub could not be reached for {shown(what)} ({seen}). Try again later. {_INSTEAD}")
    return told


def _gated(what: str, page: str, *, token_sent: bool) -> RepoGated:
    if token_sent:
        return RepoGated(
            f"The model {shown(what)} is gated and your account has no access yet. Ask for it on {page}, or paste its config.json."
        )
    return RepoGated(
        f"The model {shown(what)} is gated: its licence has to be accepted first. Accept it on {page}, then sign in here or send a token, "
        "or paste its config.json."
    )


def _missing(what: str, *, token_sent: bool) -> RepoNotFound:
    if token_sent:
        return RepoNotFound(f"There is no model {shown(what)} that your account can see. Check the spelling, or ask its owner for access.")
    return RepoNotFound(
        f"There is no public model {shown(what)}: it does not exist, or it is private. "
        "Check the spelling (owner/name); for a private model sign in or send a token."
    )


def _by_status(status: int, headers: object, what: str, *, token_sent: bool) -> HubError:
    match status:
        case 401 if token_sent:
            return NotPermitted(f"The Hub did not accept the token sent for {shown(what)}: it is wrong or has expired. Sign in again.")
        case 401 | 404 | 410:
            return _missing(what, token_sent=token_sent)
        case 403:
            return NotPermitted(
                f"The Hub does not allow reading {shown(what)}" + (" with this token" if token_sent else "") + ". "
                "Use a token with read access to this model, or paste its config.json."
            )
        case 429:
            wait = wait_s(headers)
            return RateLimited(
                f"The Hub asks for fewer requests. Try {shown(what)} again "
                + (f"in {wait} s" if wait else "in some minutes")
                + ("." if token_sent else ", or sign in: signed-in accounts have a higher limit.")
            )
        case _ if status >= 500:  # noqa: PLR2004 - the class of server errors
            return HubUnreachable(f"The Hub has a problem (status {status}) with {shown(what)}. Try again later. {_INSTEAD}")
    return garbage(what, f"status {status}")


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
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 6 else None  # noqa: PLR2004 - more is no advice
