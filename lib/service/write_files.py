"""`/write_files`: the files that run a model on hardware, in the configuration that the advisor finds for it."""

from __future__ import annotations

from lib.answers.files import FilesAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Hardware as AnyHardware
from lib.errors import BadArgument
from lib.platforms import TRAITS as PLATFORMS
from lib.precision import TORCH_DTYPES
from lib.present.app_files import PurposeRow, load_kinds
from lib.present.sentences import note
from lib.request.types import AUTO
from lib.service.endpoint import App, endpoint
from lib.service.file_writers import WRITERS
from lib.service.files_question import HUB_ID, PURPOSES, FilesArguments, Question

__all__ = ["PURPOSES", "FilesArguments", "resolve_hardware", "write_files"]


@endpoint(heavy=True)
def write_files(app: App, arguments: FilesArguments) -> FilesAnswer:
    """The files that run a model on hardware: an app, a server or a script, in the configuration that /recommend finds for it.

    Returns:
        The text of each file, the command that starts them, what they load, and what the project's tests ran of them.
    """
    catalog = app.catalog()
    row = next(row for row in load_kinds().purposes if row.name == arguments.purpose)
    hardware = resolve_hardware(catalog, arguments.hardware, row)
    spec = app.models(arguments.model)
    if HUB_ID.fullmatch(spec.id) is None:
        raise BadArgument(
            "model", spec.id or arguments.model, "the Hub id of a model, such as Qwen/Qwen3-8B: the files load it by its name"
        )
    question = Question(app=app, arguments=arguments, catalog=catalog, spec=spec, hardware=hardware, row=row)
    made = WRITERS[row.writer](question)
    page = f"https://huggingface.co/{spec.id.partition(':')[0]}"
    untried = made.tested_with.startswith("executed") and made.precision not in {AUTO, *TORCH_DTYPES}
    return FilesAnswer(
        model=spec.id,
        purpose=arguments.purpose,
        task=question.task,
        precision=made.precision,
        engine=made.engine,
        devices=made.devices,
        machines=made.machines,
        files=made.files,
        command=made.command,
        runs_on=hardware.id if hardware.traits.owned else f"{hardware.platform}:{hardware.id}",
        repository=made.repository,
        notes=(
            *made.notes,
            *((note("files", "gated", page=page),) if spec.gated else ()),
            *((note("files", "untried", precision=made.precision),) if untried else ()),
        ),
        tested_with=made.tested_with,
        caveats=made.caveats,
        sources=made.sources,
    )


def resolve_hardware(catalog: Catalog, name: object, row: PurposeRow) -> AnyHardware:
    """The hardware of this name on a platform of the purpose.

    Raises:
        UnknownHardware: nothing is called so.
        BadArgument: it is hardware of other platforms, with the purposes that it is for.
    """
    hardware = catalog.resolve_hardware(name)
    if hardware.platform in row.platforms:
        return hardware
    offers = (catalog.names.by_id.get((platform, hardware.id)) for platform in row.platforms)
    found = next((offer for offer in offers if offer is not None and offer.listed), None)
    if found is not None:
        return found
    places = ", ".join(PLATFORMS[platform].label for platform in row.platforms)
    able = ", ".join(other.name for other in load_kinds().purposes if hardware.platform in other.platforms)
    raise BadArgument(
        "hardware", hardware.id, f"hardware of {places} for the purpose {row.name}; the purposes of {hardware.id} are {able or 'none'}"
    )
