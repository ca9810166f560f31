"""The types that fields of several requests and endpoints share, each with its check and one line of help.

A docstring under a field says more where it has to: the same number can be the usual prompt of one request and the longest of another.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from lib import precision as precisions
from lib.engines import ENGINES
from lib.engines import Engine as EngineName
from lib.errors import BadArgument, NotSignedIn
from lib.platforms import PLATFORMS, TRAITS, with_listed
from lib.request.checks import MAX_NAME, check_choice, check_choices, check_whole, describe_value
from lib.request.fields import Checked, decimal_number, flag, number, one_of, whole_number

MAX_TOKENS = 100_000_000  # ten times the longest context any published model states
MAX_BATCH = 65_536
MAX_DEVICES = 4_096
MAX_STEPS = 1_000  # training schedules have as many
MAX_PIXELS = 1_000_000  # of a side; a pipeline makes less, and `lib.memory.pipeline` knows how much
MAX_CONCURRENCY = 100_000
MAX_GPU_LAYERS = 10_000
MAX_REQUESTS_PER_DAY = 1_000_000_000
MAX_USD_PER_MONTH = 1_000_000_000
MAX_TOKENS_PER_S = 1_000_000
MAX_HARDWARE = 200
MOST_IMAGES = 10_000
SHORTEST_SIDE, LONGEST_IMAGE = 28, 16_384
LONGEST_SOUND_S = 86_400
ALL = "all"
AUTO: Literal["auto"] = "auto"

AccountName = Literal["anonymous", "free", "pro", "team", "enterprise"]
VisitorAccountName = AccountName | Literal["auto"]
ACCOUNTS: tuple[AccountName, ...] = get_args(AccountName)


def check_platforms(name: str, value: object) -> tuple[str, ...]:
    """The platforms that a comma list means: `spaces` includes ZeroGPU (its tiers are hardware of a Space), `all` everything.

    Raises:
        BadArgument: one of them is unknown.
    """
    names = check_choices(name, value, (*PLATFORMS, ALL))
    if ALL in names:
        return PLATFORMS
    return tuple(dict.fromkeys(held for name in names for held in with_listed(name)))


def _write_platforms(names: tuple[str, ...]) -> str:
    return ",".join(name for name in names if TRAITS[name].listed_with not in names)


def check_precision(name: str, value: object, names: tuple[str, ...]) -> str:
    """The name of a precision in its own spelling; torch's words (`bfloat16`) and a bare GGUF type (`Q4_K_M`) are understood."""
    if isinstance(value, str) and len(value) <= MAX_NAME:
        with contextlib.suppress(BadArgument):
            return precisions.parse(value, names, name)
    return check_choice(name, value, names)  # refuses, with the nearest names


def _check_gpu_layers(name: str, value: object) -> int | None:
    layers = check_whole(name, value, -1, MAX_GPU_LAYERS)
    return None if layers < 0 else layers


def require_token(token: object, what: str) -> str:
    """The caller's own token; `what` is the action that needs it.

    Raises:
        NotSignedIn: none came with the request; the server's own is never taken instead.
    """
    if isinstance(token, str) and token:
        return token
    raise NotSignedIn(
        f"To {what}, your own Hugging Face token is needed, and none came with this request. "
        "On the page sign in, or paste a fine-grained token that may do this; "
        'over the API send it as "oauth_token", over MCP in the X-HF-Token header.'
    )


def own_token(action: str) -> Checked:
    """The caller's own token, for a function that acts in the caller's name; `action` completes "To …"."""
    return Checked(lambda _, value: require_token(value, action), str | None)


def text_of(content: str) -> Checked:
    """Pasted text of the kind that `content` names, or an empty text; its reader checks the content."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise BadArgument(name, describe_value(value), f"the text of {content}, or an empty text")
        return value

    return Checked(check, str)


def look_up_later(shown: Any, about: str = "") -> Checked:
    """A name that is looked up after all other arguments were checked, with what the app knows (a model, hardware)."""
    return Checked(lambda _, value: value, shown, about)


Model = Annotated[
    object, look_up_later(str, "A Hub id, a GGUF file such as owner/name:Q4_K_M, the text of a config.json, or a count such as 7B.")
]
Hardware = Annotated[object, look_up_later(str)]
Platforms = Annotated[
    tuple[str, ...],
    Checked(
        check_platforms,
        str,
        f"Comma list of {', '.join(PLATFORMS)}, all.",
        choices=(*PLATFORMS, ALL),
        write=_write_platforms,
    ),
]
Precision = Annotated[
    str,
    Checked(
        lambda name, value: check_precision(name, value, precisions.NAMES),
        str,
        "auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M.",
        choices=tuple(precisions.NAMES),
    ),
]
CACHE_CHECK = Checked(
    lambda name, value: check_precision(name, value, precisions.KV_NAMES),
    str,
    "Precision of the KV cache; auto is the model's own.",
    choices=tuple(precisions.KV_NAMES),
)
CachePrecision = Annotated[str, CACHE_CHECK]
Engine = Annotated[EngineName, one_of(ENGINES, EngineName, "The program that runs the model.")]
AnyEngine = Annotated[EngineName | Literal["auto"], one_of((AUTO, *ENGINES))]
Account = Annotated[AccountName, one_of(ACCOUNTS, AccountName)]
VisitorAccount = Annotated[
    VisitorAccountName,
    one_of((AUTO, *ACCOUNTS), about="The plan of ZeroGPU's visitors, who spend their own quota; auto takes that of account."),
]
Tokens = Annotated[int, whole_number(1, MAX_TOKENS)]
TokensOrNone = Annotated[int, whole_number(0, MAX_TOKENS)]
"""A number of tokens that may be 0."""
GpuLayers = Annotated[
    int | None,
    Checked(
        _check_gpu_layers,
        int,
        "llama.cpp: layers on the GPU (-ngl), the rest runs on the processor from its memory; -1 puts everything on the GPU.",
        -1,
        MAX_GPU_LAYERS,
        write=lambda layers: -1 if layers is None else layers,
    ),
]
"""`None` puts everything on the GPU."""
Concurrency = Annotated[int, whole_number(1, MAX_CONCURRENCY)]
RequestsPerDay = Annotated[int, whole_number(0, MAX_REQUESTS_PER_DAY)]
VisitorsPerDay = Annotated[
    int,
    whole_number(0, MAX_REQUESTS_PER_DAY, "Visitors who share the day's requests and bring a ZeroGPU quota each; 0 if not stated."),
]
HoursPerDay = Annotated[Decimal, decimal_number(0, 24)]
DaysPerMonth = Annotated[Decimal, decimal_number(0, 31, "Days of a month.")]
UsdPerMonth = Annotated[Decimal, decimal_number(0, MAX_USD_PER_MONTH)]
TokensPerSecond = Annotated[float, number(0, MAX_TOKENS_PER_S)]
FirstTokenSeconds = Annotated[float, number(0, 86_400)]
Pixels = Annotated[int, whole_number(0, MAX_PIXELS)]
ImageSide = Annotated[int, whole_number(SHORTEST_SIDE, LONGEST_IMAGE)]
FLAG_CHECK = flag()
Flag = Annotated[bool, FLAG_CHECK]
