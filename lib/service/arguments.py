"""Arguments from outside: the types that endpoints declare, and the checks behind them.

Gradio checks nothing for HTTP callers, so every check takes `object` and either returns the type it promises or refuses with the argument's
name, what was seen and what is accepted. Rules that hold everywhere: a number is a JSON number, never text, never true or false; NaN and
infinity are not numbers; 4096.0 is the whole number 4096 (JSON does not tell them apart).

The sections: checks of one value; names of the catalog and of precisions; whose token came; and the types. What `model` and `space_id`
mean is `lib.service.endpoint`.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from lib import engines, workload
from lib import precision as precisions
from lib.advisor import TASKS
from lib.errors import BadArgument, NotSignedIn
from lib.memory.resolve import LONGEST_IMAGE, LONGEST_SOUND_S, MOST_IMAGES, SHORTEST_SIDE
from lib.platforms import PLATFORMS, with_listed
from lib.workload import ACCOUNTS, MODES, PRIORITIES

Choice = TypeVar("Choice", bound=str)

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
MAX_NAME = 200
_LISTED = 12  # names; a longer list is not read
MAX_HARDWARE = 200
ALL = "all"


def describe_value(value: object) -> str:
    """What was sent, in a few words; never the whole of a big or deep value (writing that out could itself fail)."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float | Decimal):
        return _digits(value)
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"an object with {len(value)} keys" if isinstance(value, dict) else type(value).__name__


def _digits(value: float | Decimal) -> str:
    if isinstance(value, int) and value.bit_length() > 200:  # noqa: PLR2004  60 digits; Python refuses to write out thousands
        return f"a whole number of about {int(value.bit_length() * 0.30103)} digits"
    return str(value)


def _not_a_number(value: object) -> str:
    return f'the text "{value[:40]}"' if isinstance(value, str) else describe_value(value)


def check_flag(name: str, value: object) -> bool:
    """True or false, as JSON's own values.

    Raises:
        BadArgument: anything else, 0 and 1 included.
    """
    if isinstance(value, bool):
        return value
    raise BadArgument(name, describe_value(value), "true or false")


def check_text(name: str, value: object, example: str) -> str:
    """A short line of text without surrounding blanks.

    Raises:
        BadArgument: not text, empty, too long, or with control characters.
    """
    accepted = f"text such as '{example}', at most {MAX_NAME} characters"
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise BadArgument(name, describe_value(value), accepted)
    line = value.strip()
    if not line or not line.isprintable():
        raise BadArgument(name, describe_value(value), accepted)
    return line


def check_choice(name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """One of the choices; case and surrounding blanks are forgiven.

    Raises:
        BadArgument: none of them, with the nearest ones first.
    """
    if isinstance(value, str) and len(value) <= MAX_NAME:
        wanted = value.strip().casefold()
        for choice in choices:
            if choice.casefold() == wanted:
                return choice
    raise BadArgument(name, describe_value(value).strip(), _near(value, choices))


def check_choices(name: str, value: object, allowed: Sequence[Choice]) -> tuple[Choice, ...]:
    """A comma-separated list of choices, each once, in the order given.

    Raises:
        BadArgument: not text, empty, or one of them is unknown.
    """
    texts = value.split(",") if isinstance(value, str) and len(value) <= MAX_NAME else []
    parts = [check_choice(name, part, allowed) for part in texts if part.strip()]
    if not parts:
        raise BadArgument(name, describe_value(value), f"a comma-separated list of {_join_names(allowed)}")
    return tuple(dict.fromkeys(parts))


def check_whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number in [low, high].

    Raises:
        BadArgument: not a number, not whole, or out of range.
    """
    accepted = f"a whole number from {low:,} to {high:,}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgument(name, _not_a_number(value), accepted)
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise BadArgument(name, describe_value(value), accepted)
    if not low <= value <= high:
        raise BadArgument(name, describe_value(value), accepted)
    return int(value)


def check_number(name: str, value: object, low: float, high: float) -> float:
    """A finite number in [low, high].

    Raises:
        BadArgument: not a number, NaN, infinite, or out of range.
    """
    accepted = f"a number from {low:,} to {high:,}"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise BadArgument(name, _not_a_number(value), accepted)
    if not _is_finite(value) or not low <= value <= high:
        raise BadArgument(name, describe_value(value), accepted)
    return float(value)


_LEAST_DECIMAL = Decimal("1e-12")


def check_decimal(name: str, value: object, low: int, high: int) -> Decimal:
    """A number in [low, high], read as it was written: 0.1 is exactly a tenth.

    Raises:
        BadArgument: not a number, NaN, infinite, out of range, or so small that what is divided by it has too many digits.
    """
    check_number(name, value, low, high)
    read = Decimal(str(value))
    if 0 < abs(read) < _LEAST_DECIMAL:
        raise BadArgument(name, value, f"0, or a number from {_LEAST_DECIMAL} to {high:,}")
    return read


def _is_finite(value: float | Decimal) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) or math.isfinite(value)  # an integer of a thousand digits has no float


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _near(value: object, names: Sequence[str]) -> str:
    if len(names) <= _LISTED:
        return _join_names(names)
    near = difflib.get_close_matches(value[:MAX_NAME].strip(), names, n=5, cutoff=0.5) if isinstance(value, str) else []
    return f"one of {len(names)} names, {'the nearest' if near else 'such as'}: {_join_names(near or names[:_LISTED])}"


def check_platforms(name: str, value: object) -> tuple[str, ...]:
    """The platforms that a comma list means: `spaces` holds ZeroGPU too (its tiers are hardware of a Space), `all` everything.

    Raises:
        BadArgument: one of them is unknown.
    """
    names = check_choices(name, value, (*PLATFORMS, ALL))
    if ALL in names:
        return PLATFORMS
    return tuple(dict.fromkeys(held for name in names for held in with_listed(name)))


def check_precision(name: str, value: object, names: tuple[str, ...]) -> str:
    """The name of a precision in its own spelling; torch's words (`bfloat16`) and a bare GGUF type (`Q4_K_M`) are understood."""
    if isinstance(value, str) and len(value) <= MAX_NAME:
        with contextlib.suppress(BadArgument):
            return precisions.parse(value, names, name)
    return check_choice(name, value, names)  # refuses, with the nearest names


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


@dataclass(frozen=True, slots=True)
class Checked:
    """In the `Annotated` type of an argument: the check that reads what a caller sent, and the type that callers are shown.

    The check gets the argument's name and the value, and returns the value of the field's own type or raises one of `lib.errors`,
    which pydantic passes on as it is: the first argument that is wrong is the one that is named. `limits`, the least and the most, are
    shown with the type.
    """

    check: Callable[[str, Any], Any]
    shown: Any
    limits: tuple[int, int] | None = None

    def __get_pydantic_core_schema__(self, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """A validator of our own instead of pydantic's, whose sentences say neither what was seen nor what to do."""
        return core_schema.with_info_plain_validator_function(lambda value, info: self.check(info.field_name or "", value))

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of the shown type, within the limits."""
        return _schema_of(self.shown) | dict(zip(("minimum", "maximum"), self.limits or (), strict=False))


@functools.cache
def _schema_of(shown: Any) -> dict[str, Any]:
    return TypeAdapter(shown).json_schema()


def argument(value: Any, description: str) -> Any:
    """An argument's default as callers are shown it (it is checked like anything sent), and what the argument is."""
    return Field(value, description=description)


class Arguments(BaseModel):
    """The arguments of one endpoint, checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, arbitrary_types_allowed=True)
    behind: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of an argument and the one that it stands behind, where the published order is not that of `list_fields`."""

    @classmethod
    def list_fields(cls) -> dict[str, FieldInfo]:
        """The arguments in the order of the signature: those without a default, its own, those it shares, but for `behind`."""
        names = [name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in cls.model_fields]
        for name, other in cls.behind:
            names.remove(name)
            names.insert(names.index(other) + 1, name)
        required = [name for name in cls.model_fields if cls.model_fields[name].is_required()]
        return {name: cls.model_fields[name] for name in (*required, *names)}


def whole_number(low: int, high: int) -> Checked:
    """A whole number in [low, high]."""
    return Checked(lambda name, value: check_whole(name, value, low, high), int, (low, high))


def number(low: float, high: float) -> Checked:
    """A number in [low, high]."""
    return Checked(lambda name, value: check_number(name, value, low, high), float)


def decimal_number(low: int, high: int) -> Checked:
    """A number in [low, high] as it was written, for money and hours."""
    return Checked(lambda name, value: check_decimal(name, value, low, high), float, (low, high))


def one_of(choices: Sequence[str], shown_type: Any = str) -> Checked:
    """One of the choices; callers are shown `shown_type`, by default text."""
    return Checked(lambda name, value: check_choice(name, value, choices), shown_type)


def some_of(allowed: Sequence[str]) -> Checked:
    """A comma-separated list of choices."""
    return Checked(lambda name, value: check_choices(name, value, allowed), str)


def text_of(content: str) -> Checked:
    """Pasted text of what `content` names, or an empty text; whoever reads it checks what it holds."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise BadArgument(name, describe_value(value), f"the text of {content}, or an empty text")
        return value

    return Checked(check, str)


def own_token(action: str) -> Checked:
    """The caller's own token, for a function that acts in the caller's name; `action` completes "To …"."""
    return Checked(lambda _, value: require_token(value, action), str | None)


def look_up_later(shown_type: Any) -> Checked:
    """A name that is looked up after all other arguments were checked, with what the app knows (a model, hardware)."""
    return Checked(lambda _, value: value, shown_type)


Model = Annotated[
    object,
    look_up_later(str),
    Field(description="a Hub id, a GGUF file such as owner/name:Q4_K_M, the text of a config.json, or a count such as 7B"),
]
Hardware = Annotated[object, look_up_later(str)]
Precision = Annotated[
    str,
    Checked(lambda name, value: check_precision(name, value, precisions.NAMES), str),
    Field(description="auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M"),
]
CachePrecision = Annotated[
    str,
    Checked(lambda name, value: check_precision(name, value, precisions.KV_NAMES), str),
    Field(description="precision of the cache; auto is the model's own"),
]
Engine = Annotated[engines.Engine, one_of(engines.ENGINES, engines.Engine), Field(description="what runs the model")]
AnyEngine = Annotated[str, one_of((workload.AUTO, *engines.ENGINES))]
AnySdk = Annotated[str, one_of((workload.AUTO, *workload.SDKS))]
Mode = Annotated[workload.Mode, one_of(MODES, workload.Mode), Field(description="inference, or how it is trained")]
Task = Annotated[str, one_of(TASKS), Field(description="auto, or a Hub task such as text-generation")]
Account = Annotated[workload.Account, one_of(ACCOUNTS, workload.Account)]
VisitorAccount = Annotated[
    workload.VisitorAccount,
    one_of((workload.AUTO, *ACCOUNTS)),
    Field(description="the plan of ZeroGPU's visitors, who spend their own quota; auto takes that of account"),
]
Priority = Annotated[workload.Priority, one_of(PRIORITIES, workload.Priority), Field(description="what to weigh more")]
Platforms = Annotated[
    tuple[str, ...],
    Checked(check_platforms, str),
    Field(description="comma list of spaces, zerogpu, endpoints, jobs, tpu, all"),
]
Tokens = Annotated[int, whole_number(1, MAX_TOKENS)]
TokensOrNone = Annotated[int, whole_number(0, MAX_TOKENS)]
"""A number of tokens that may be 0."""
GpuLayers = Annotated[
    int,
    whole_number(-1, MAX_GPU_LAYERS),
    Field(description="llama.cpp: layers on the GPU (-ngl), the rest on the processor and in its memory; -1 is everything on the GPU"),
]
Concurrency = Annotated[int, whole_number(1, MAX_CONCURRENCY)]
RequestsPerDay = Annotated[int, whole_number(0, MAX_REQUESTS_PER_DAY)]
VisitorsPerDay = Annotated[
    int,
    whole_number(0, MAX_REQUESTS_PER_DAY),
    Field(description="visitors who share the day's requests and bring a ZeroGPU quota each; 0 if not stated"),
]
HoursPerDay = Annotated[Decimal, decimal_number(0, 24)]
DaysPerMonth = Annotated[Decimal, decimal_number(0, 31)]
UsdPerMonth = Annotated[Decimal, decimal_number(0, MAX_USD_PER_MONTH)]
TokensPerSecond = Annotated[float, number(0, MAX_TOKENS_PER_S)]
FirstTokenSeconds = Annotated[float, number(0, 86_400)]
Pixels = Annotated[int, whole_number(0, MAX_PIXELS)]
Frames = Annotated[int, whole_number(0, MAX_PIXELS)]
Steps = Annotated[int, whole_number(0, MAX_STEPS)]
ImageCount = Annotated[
    int,
    whole_number(0, MOST_IMAGES),
    Field(description="pictures in each prompt, for models that take them; their tokens come on top"),
]
ImageSide = Annotated[int, whole_number(SHORTEST_SIDE, LONGEST_IMAGE)]
SoundSeconds = Annotated[
    float,
    number(0, LONGEST_SOUND_S),
    Field(description="seconds of sound in each request, for models that hear; 0 is half a minute"),
]
Guidance = Annotated[
    workload.Guidance,
    one_of(workload.GUIDANCES, workload.Guidance),
    Field(description="auto: as the pipeline guides; off: a distilled model"),
]
Offload = Annotated[workload.Offload, one_of(workload.OFFLOADS, workload.Offload), Field(description="what waits in the host's memory")]
Quantized = Annotated[
    workload.Quantized,
    one_of(workload.QUANTIZED, workload.Quantized),
    Field(description="what a format of 8 or 4 bits is for: the denoiser alone, or text encoders too"),
]
Flag = Annotated[bool, Checked(check_flag, bool)]


class PromptMediaArguments(Arguments):
    """What a prompt holds beside text."""

    images: ImageCount = 0
    image_width: ImageSide = argument(1024, "pixels of each picture in a prompt")
    image_height: ImageSide = argument(1024, "pixels, as image_width")
    audio_seconds: SoundSeconds = 0


class MediaArguments(PromptMediaArguments):
    """What a request takes or makes beside text, last among the arguments of `/estimate_speed` and of what a bill is asked with."""

    width: Pixels = argument(0, "pictures and clips: pixels; 0 is the pipeline's own, as for height, frames and steps")
    height: Pixels = argument(0, "pixels, as width")
    frames: Frames = argument(0, "frames of a clip")
    steps: Steps = argument(0, "steps of denoising")
    guidance: Guidance = "auto"
