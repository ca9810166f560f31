"""Writes files to copy from the templates in `lib/templates/`.

    render("dockerfile_server.j2", image="vllm/vllm-openai:v0.33.0", words=["vllm", "serve", model])

A text enters a file through a filter that quotes it for the language of the file; a template that forgets the filter is refused when it
is rendered. So a hostile name of a model stays one literal of Python, one word of a shell, one scalar of YAML or JSON.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent.parent / "templates"
_PLAIN_WORD = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/:._-]*")
_WORD = re.compile(r"[\w.:/@=,+<>\[\]~-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,8}", re.ASCII)


class Code(str):
    """A text that is written as it is: a filter has quoted it, or it is a part of a file that was rendered."""

    __slots__ = ()


def python_literal(text: str) -> str:
    """A Python literal of the text, with invisible characters as escapes."""
    return f'"{text}"' if _PLAIN_WORD.fullmatch(text) else repr(text)


def write_python(value: object) -> Code:
    """A value as Python's source: texts, numbers, true and false, and lists and tables of them.

    Raises:
        TypeError: any other type.
    """
    if isinstance(value, Code):
        return value
    if isinstance(value, str):
        return Code(python_literal(value))
    if value is None or isinstance(value, bool | int | float):
        return Code(repr(value))
    if isinstance(value, list | tuple):
        return Code(f"[{', '.join(map(write_python, value))}]")
    if isinstance(value, Mapping):
        return Code("{" + ", ".join(f"{write_python(key)}: {write_python(item)}" for key, item in value.items()) + "}")
    raise TypeError(f"a {type(value).__name__} has no literal")


def write_keywords(values: Mapping[str, object]) -> Code:
    """Arguments of a call: `load_in_4bit=True, bnb_4bit_quant_type="nf4"`."""
    return Code(", ".join(f"{require_name(name)}={write_python(value)}" for name, value in values.items()))


def write_shell(value: object) -> Code:
    """A text as one word of a POSIX shell; a list as its words."""
    return Code(shlex.join(map(str, value)) if isinstance(value, list | tuple) else shlex.quote(str(value)))


def write_json(value: object) -> Code:
    """A value as JSON in ASCII."""
    return Code(json.dumps(value))


def write_kube(words: Sequence[str]) -> Code:
    """Words of a container's command in Kubernetes, which would put the value of a variable for `$(NAME)`."""
    return write_json([word.replace("$(", "$$(") for word in words])


def write_yaml(value: object) -> Code:
    """A value as YAML on one line; a text in double quotes."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  comes with huggingface_hub, and is not needed to start

    style = '"' if isinstance(value, str) else None
    text = yaml.safe_dump(value, default_style=style, default_flow_style=True, width=float("inf"), allow_unicode=False)
    return Code(text.removesuffix("...\n").rstrip("\n"))


def write_yaml_file(name: str, text: str, indent: int = 2) -> Code:
    """A text as the entry `name` of a mapping of YAML, line by line where its characters allow it, else in quotes."""
    import yaml  # noqa: PLC0415  as above

    written = yaml.safe_dump({name: text}, default_style="|", width=float("inf"), allow_unicode=False)
    return Code("".join(f"{' ' * indent}{line}" for line in written.splitlines(keepends=True)).rstrip("\n"))


def require_word(value: object) -> Code:
    """A version, image or requirement: a text that holds neither blanks nor quotes.

    Raises:
        ValueError: it holds another character.
    """
    return _require_match(_WORD, value, "one word")


def require_name(value: object) -> Code:
    """A name of Python, dotted too.

    Raises:
        ValueError: it is not one.
    """
    return _require_match(_NAME, value, "a name")


def _require_match(pattern: re.Pattern[str], value: object, accepted: str) -> Code:
    if pattern.fullmatch(str(value)) is None:
        raise ValueError(f"{value!r} is not {accepted}")
    return Code(value)


def _require_code(value: object) -> object:
    """Accepted values of a template's expression: numbers, and texts that went through a filter."""
    if isinstance(value, Code) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} enters a file without a filter")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  not needed to start

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        finalize=_require_code,
        autoescape=False,  # noqa: S701  these are no pages; `finalize` refuses what no filter quoted
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "py": write_python, "keywords": write_keywords, "sh": write_shell, "json": write_json, "yaml": write_yaml, "word": require_word,
        "name": require_name, "kube": write_kube, "yaml_file": write_yaml_file,
    }  # fmt: skip
    return made


def render(template: str, /, **values: Any) -> str:
    """The file of a template; every value that the template names has to be given.

    Raises:
        TypeError: a text would enter the file without a filter.
        ValueError: a value is not of the form that its place needs.
    """
    return _environment().get_template(template).render(values)
