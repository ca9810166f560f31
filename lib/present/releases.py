"""The releases that files to copy pin: packages, images of servers and the Python of a Space, each with its source and day.

    load_versions()["torch"].line()
    'torch==2.15.0'

They are rows of `lib/data/frameworks.json`; nothing is looked up while the app runs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lib.catalog.rows import Day, Row, Text, read_rows, require_distinct
from lib.engines import Engine
from lib.errors import BadArgument
from lib.provenance import Source

FILE = Path(__file__).parent.parent / "data" / "frameworks.json"


class _Fact(Row):
    where: Text = Field(validation_alias="source")
    checked: Day

    def as_source(self, what: str) -> Source:
        """The source of it; `what` names the fact."""
        return Source(what=what, source=self.where, checked=self.checked)


class Package(_Fact):
    """A release of today."""

    name: Text
    version: Text
    brings: Text | None
    """Packages that it installs with it, in words, if they limit other packages."""
    follows: str = ""
    """The package whose release decides about its own; empty: it is pinned to `version`."""

    @property
    def source(self) -> Source:
        """Source of the release."""
        return self.as_source(f"{self.name} {self.version}")

    def line(self, extra: str = "") -> str:
        """A line of requirements.txt: `jax[cuda13]==0.10.2`."""
        return f"{self.name}{f'[{extra}]' if extra else ''}=={self.version}"


class Python(_Fact):
    """The Python of a Space."""

    version: Text


class SuggestedHardware(_Fact):
    """The values that the README's `suggested_hardware` takes."""

    values: frozenset[Text]


ImagePurpose = Literal["server", "benchmark"]


class Image(_Fact):
    """A container image of a server, or of the engine's own benchmark, as its project names it."""

    engine: Engine
    silicon: Literal["gpu", "cpu", "tpu"]
    purpose: ImagePurpose = "server"
    image: Text

    @property
    def source(self) -> Source:
        """Source of the name."""
        return self.as_source(f"image of {self.engine}")


class Versions(Row):
    """frameworks.json: everything that is pinned."""

    as_of: Day
    """Nothing in it is dated later."""
    python: Python
    suggested_hardware: SuggestedHardware
    packages: Annotated[tuple[Package, ...], require_distinct("name")]
    images: tuple[Image, ...]

    @model_validator(mode="after")
    def _nothing_is_dated_later(self) -> Self:
        for fact in (self.python, self.suggested_hardware, *self.packages, *self.images):
            if fact.checked > self.as_of:
                raise ValueError(f"{fact.where}: checked is '{fact.checked}'. Accepted: a day not after {self.as_of}.")
        return self

    def __getitem__(self, name: str) -> Package:
        """The release of a package that is known to be there: names are written in the code, not asked for by callers."""
        return next(package for package in self.packages if package.name == name)

    def requirement(self, name: str) -> str:
        """The line that asks for a package: with its release, or by its name alone where another package decides."""
        package = self[name]
        return package.name if package.follows else package.line()

    def image(self, engine: str, kind: str, purpose: ImagePurpose = "server") -> Image:
        """The image of a server or of a benchmark for a kind of silicon ("gpu", "cpu" or "tpu"); its rows are checked by a test.

        Raises:
            BadArgument: there is no image of this engine for this kind.
        """
        images = {image.engine: image for image in self.images if (image.silicon, image.purpose) == (kind, purpose)}
        if engine not in images:
            raise BadArgument("engine", engine, f"{', '.join(images)} on a {kind}")
        return images[engine]


@cache
def load_versions() -> Versions:
    """The bundled rows, read at the first call."""
    return read_rows(Versions, FILE)
