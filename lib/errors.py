"""Everything that can be refused, as one tree.

    AdvisorError
    ├── InvalidInput            the caller can mend it
    │   ├── BadQuantity         text that is not a number with a unit
    │   ├── BadArgument         an argument out of range, of a wrong type, or an unknown choice
    │   ├── BadConfig           a config.json that cannot be read or built
    │   ├── UnknownModel        neither a Hub id, nor a config, nor a parameter count
    │   ├── UnknownHardware     an id that the catalog does not hold
    │   ├── PriceNotConfirmed   the price that was confirmed is not today's
    │   └── AgainstRules        the platform's rules forbid it (tier retired, Gradio only, fixed sleep, hosting limit)
    ├── UnsupportedModel        readable, but needs code that is not run here (remote code, unknown class)
    │   └── UnknownGrowth       its cache was run, and grows by no law that is known here
    ├── SwitchedOff the operator of this copy of the app does not offer it
    ├── NotSignedIn             an account action, and the caller sent no token of their own
    ├── HubError the Hub did not answer the request
    │   ├── RepoNotFound        no such public repository (or private, and no token)
    │   ├── RepoGated           the licence has to be accepted first
    │   ├── NotPermitted        a token was sent and is not allowed to do this
    │   ├── PaymentNeeded       no payment method, no credits, or a plan that does not include it
    │   ├── Conflict            something else is being done to the repository
    │   ├── RateLimited         too many requests
    │   ├── HubUnreachable      no network, a timeout, or a server error
    │   └── HubGarbage          an answer that is not what the Hub's own format promises
    ├── LiveError the local device did not do the work
    │   ├── DoesNotFit          more memory than the device has, found before the run
    │   ├── TooLong             more time than a run may take, found before the run
    │   ├── QuotaExceeded       the visitor's ZeroGPU seconds do not suffice
    │   ├── RunLimit            the visitor's ZeroGPU runs of the day are used up
    │   ├── NoGpuFree           the ZeroGPU queue gave none in time
    │   ├── IllegalDuration     ZeroGPU does not grant a run of this length
    │   ├── TaskAborted         the run was ended from outside
    │   ├── OutOfMemory         the device ran out of memory during the run
    │   └── ModelNotAtHand      the weights are not on this machine and cannot be fetched
    ├── Busy                    too much is asked at the same time, or one answer took too long
    └── BadCatalog              our own data files are wrong (found at load, in tests)

A message states the value, the accepted ones and the next step. It is safe to show to anyone: it has no token, no path of the server and no
traceback. `code` is stable and meant for programs.

An `AdvisorError` carries its sentence to the caller of an endpoint, so docstrings name an error only where some caller handles it.

`read_json` checks JSON from outside before it is parsed. A few bytes of text become a list or a dict of sixty bytes and more, and a parser
blocks the interpreter until it has finished: 64 MiB of "[],[],…" take 2 GB and stop every other thread for over ten seconds. So the text is
scanned first, piece by piece and without recursion. The scan counts the bytes `[`, `{`, `,` and `:` outside of strings: a list of n values
has n of them, an object with n keys has 2·n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_SHOWN = 80
_LOOKED_AT = 10_000
LINE_END = r"(?:[ \t]{0,8}(?:\r?\n|\\n){1,2}[ \t>|│]{0,20})?"
"""A token that a terminal broke continues in the next line, or after an empty one."""
TOKENS = (
    re.compile(rf"(?:hf|api_org)(?:_|%5[Ff])(?:[A-Za-z0-9]{LINE_END}){{20,40}}(?:_[A-Za-z0-9]{{16,40}}){{0,9}}"),  # also pasted twice
    re.compile(r"hf(?:_|%5[Ff])[^\s'\"()]{16,}"),  # longer than the word after "hf_" in any id that was seen; a token has 34 letters there
    re.compile(rf"(?<![a-z])sk-(?:[A-Za-z0-9_-]{LINE_END}){{20,160}}"),
    re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    re.compile(r"(?<![a-z])(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AIza|npm_|dckr_pat_|r8_)[A-Za-z0-9_-]{16,100}"),
    re.compile(r"(?<![\w-])eyJ[A-Za-z0-9_-]{10,2000}+\.[A-Za-z0-9_-]{10,2000}+\.[A-Za-z0-9_-]{5,2000}"),
    re.compile(rf"\b[Bb]earer[ \t]{{1,4}}(?:[A-Za-z0-9._~+/=-]{LINE_END}){{8,400}}"),
)
"""Tokens and keys that their beginning gives away. `lib.explain.text` adds those that their name or their letters give away."""
_PIECE_BYTES = 2**16
_NODES = b"[{,:"
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def hide_tokens(text: str) -> str:
    """The text without anything that looks like a token, so that one pasted into the wrong field is not repeated."""
    for token in TOKENS:
        text = token.sub("(what looks like a token)", text)
    return text


def quote_value(value: object) -> str:
    """A short, printable form of something a caller sent, for use inside a message."""
    text = value if isinstance(value, str) else repr(value)
    text = hide_tokens(text[:_LOOKED_AT])
    text = "".join(c if c.isprintable() else "·" for c in text[: _SHOWN + 1])
    return f"'{text[:_SHOWN]}…'" if len(text) > _SHOWN else f"'{text}'"


class AdvisorError(Exception):
    """Root of the tree. `str(error)` is the sentence for the visitor, `error.code` the stable code."""

    code = "error"

    def __init__(self, sentence: str = "") -> None:
        super().__init__(hide_tokens(sentence))


class InvalidInput(AdvisorError):
    """The caller can mend it."""

    code = "invalid_input"


class BadQuantity(InvalidInput):
    """Text that is not a number with a unit."""

    code = "bad_quantity"

    def __init__(self, seen: str, accepted: str) -> None:
        super().__init__(f"{quote_value(seen)} is not a quantity. Accepted: {accepted}.")


class BadArgument(InvalidInput):
    """An argument out of range, of a wrong type, or an unknown choice."""

    code = "bad_argument"

    def __init__(self, name: str, seen: object, accepted: str) -> None:
        self.name = name
        super().__init__(f"{name} was {quote_value(seen)}. Accepted: {accepted}.")


class NoLinkedModel(BadArgument):
    """No model was named, and the Space's card names none."""

    code = "no_linked_model"


class BadConfig(InvalidInput):
    """A config.json that cannot be read or built."""

    code = "bad_config"


class UnknownModel(InvalidInput):
    """Neither a Hub id, nor a config.json, nor a parameter count."""

    code = "unknown_model"


class UnknownHardware(InvalidInput):
    """A hardware id that the catalog does not hold."""

    code = "unknown_hardware"


class PriceNotConfirmed(InvalidInput):
    """The price that the caller confirmed is not the price of today."""

    code = "price_not_confirmed"


class AgainstRules(InvalidInput):
    """The platform's rules forbid it."""

    code = "against_rules"


class UnsupportedModel(AdvisorError):
    """A readable model whose architecture needs code that is not run here."""

    code = "unsupported_model"


class UnknownGrowth(UnsupportedModel):
    """A cache that was run and grows by no law that is known here."""

    code = "unknown_growth"


class SwitchedOff(AdvisorError):
    """The operator of this copy of the app does not offer it."""

    code = "switched_off"


class NotSignedIn(AdvisorError):
    """An account action, and the caller sent no token of their own."""

    code = "not_signed_in"


class HubError(AdvisorError):
    """The Hub did not answer the request. `sentence` is the message without `near`, the bundled models of a similar name."""

    code = "hub_error"

    def __init__(self, sentence: str = "", near: tuple[str, ...] = ()) -> None:
        hint = f" Near matches in the bundled catalog: {', '.join(near)}." if near else ""
        super().__init__(sentence + hint)
        self.sentence, self.near = hide_tokens(sentence), near


class RepoNotFound(HubError):
    """No such public repository, or a private one and no token that may read it."""

    code = "repo_not_found"


class RepoGated(HubError):
    """The repository's licence has to be accepted first."""

    code = "repo_gated"


class NotPermitted(HubError):
    """A token was sent and is not allowed to do this."""

    code = "not_permitted"


class PaymentNeeded(HubError):
    """No payment method, no credits, or a plan that does not include it."""

    code = "payment_needed"


class Conflict(HubError):
    """Something else is being done to the repository."""

    code = "conflict"


class RateLimited(HubError):
    """The Hub asks for fewer requests."""

    code = "rate_limited"
    wait_s: int | None = None
    """Seconds after which the Hub answers again, as it says; None if it does not say."""


class HubUnreachable(HubError):
    """No network, a timeout, or a server error."""

    code = "hub_unreachable"


class HubGarbage(HubError):
    """An answer that is not what the Hub's own format promises."""

    code = "hub_garbage"


class LiveError(AdvisorError):
    """The local device did not do the work."""

    code = "live_error"


class DoesNotFit(LiveError):
    """More memory than the device has, found before the run."""

    code = "does_not_fit"


class TooLong(LiveError):
    """More time than a run may take, found before the run."""

    code = "too_long"


class QuotaExceeded(LiveError):
    """The visitor's ZeroGPU seconds do not suffice."""

    code = "quota_exceeded"


class RunLimit(LiveError):
    """The visitor's ZeroGPU runs of the day are used up."""

    code = "run_limit"


class NoGpuFree(LiveError):
    """The ZeroGPU queue gave none in time."""

    code = "no_gpu_free"


class IllegalDuration(LiveError):
    """ZeroGPU does not grant a run of this length."""

    code = "illegal_duration"


class TaskAborted(LiveError):
    """The run was ended from outside."""

    code = "task_aborted"


class OutOfMemory(LiveError):
    """The device ran out of memory during the run."""

    code = "out_of_memory"


class ModelNotAtHand(LiveError):
    """The weights are not on this machine and cannot be fetched."""

    code = "model_not_at_hand"


class Busy(AdvisorError):
    """Too much is asked at the same time, or one answer took too long."""

    code = "busy"

    @classmethod
    def for_full_line(cls, waiting: int, own: int) -> Busy:
        """The line of questions about new models is full; `own` of the `waiting` are the caller's."""
        whose = f", {own} of them from your account or network address" if own else ""
        return cls(f"{waiting} questions about new models wait already{whose}, and this one would be number {waiting + 1}. {_AT_ONCE}")

    @classmethod
    def for_long_wait(cls, seconds: float, ahead: int | None) -> Busy:
        """A question waited `seconds` in the line, and `ahead` others are still before it (None: it is being worked out)."""
        place = "is being worked out only now" if ahead is None else f"still has {ahead} others before it"
        return cls(f"Many new models are being worked out right now: after {seconds:g} s this one {place}. {_AT_ONCE}")


_AT_ONCE = (
    "Models that were asked for before, and those of the bundled catalog, still answer. Try again in half a minute, and send one "
    "question at a time."
)


class BadCatalog(AdvisorError):
    """Our own data files are wrong; found at load."""

    code = "bad_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One of our errors as a value that can be pickled: an exception would cross from another process as the name of its class."""

    code: str
    sentence: str

    def error(self) -> AdvisorError:
        """The same error again; of the root's kind when the code is unknown."""
        kind = next((kind for kind in _kinds(AdvisorError) if kind.code == self.code), AdvisorError)
        error = kind.__new__(kind, self.sentence)  # past each kind's own __init__: the sentence is already written
        AdvisorError.__init__(error, self.sentence)
        if isinstance(error, HubError):
            error.sentence, error.near = str(error), ()
        return error


def _kinds(of: type[AdvisorError]) -> Iterator[type[AdvisorError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


def to_fault(error: AdvisorError) -> Fault:
    """The error in a form that survives the way between processes."""
    return Fault(code=error.code, sentence=str(error))


# JSON from outside


class UnreadableJson(ValueError):
    """The text is not JSON, is nested too deep, or holds too many values; the message is the end of a sentence about it."""


def node_count(text: bytes, most: int) -> int:
    """Nodes of a JSON text; the scan ends soon after `most`, so a larger number only says that there are more than that."""
    nodes, inside = 0, False
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text  # every quote left begins or ends a string
    for start in range(0, len(plain), _PIECE_BYTES):
        parts = plain[start : start + _PIECE_BYTES].split(b'"')
        outside = b"".join(parts[inside::2])
        nodes += len(outside) - len(outside.translate(None, _NODES))
        if nodes > most:
            break
        inside ^= len(parts) % 2 == 0
    return nodes


def read_json(
    text: bytes, most: int, *, parse_float: Callable[[str], Any] | None = None, parse_constant: Callable[[str], Any] | None = None
) -> Any:
    """Parse a text in UTF-8 of at most `most` nodes; `parse_float` and `parse_constant` are those of `json.loads`.

    Half a surrogate pair is refused: it is not a character, so an answer that repeats it could not be sent.

    Raises:
        UnreadableJson: it is not JSON, is nested too deep, or holds more than that.
    """
    if node_count(text, most) > most:
        raise UnreadableJson(f"it holds more than {most:,} values")
    if _HALF.search(text) and _HALF.search(_PAIR.sub(b"", text.replace(rb"\\", b""))):
        raise UnreadableJson("it holds half a character (a surrogate without its other half)")
    try:
        return json.loads(text.decode("utf-8-sig"), parse_float=parse_float, parse_constant=parse_constant)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON, bad UTF-8, an integer of thousands of digits
        raise UnreadableJson("it is not readable JSON") from error
