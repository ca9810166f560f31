"""Recipes of `/compare_gpu_tpu`: for the slice of TPU with the lowest price per token, and for the cheapest GPU offer of each platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lib.advisor.result import Entry
from lib.advisor.tpu_options import TpuOptions
from lib.answers.gpu_tpu import RecipeEntry
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import TpuSoftware
from lib.present.cards import PLATFORM_NAMES
from lib.present.setup_files import write_setup
from lib.present.tpu_recipes import RecipeChoice, tpu_recipes
from lib.service.recommend import ranked_entry

EXAMPLE_SLICE = "v6e-1"
"""Stands in the recipes where no model is named, or none that runs on a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeQuestion:
    """What the recipes are written for; `model` is "" where none is named."""

    model: str
    context_tokens: int
    concurrency: int
    region: str
    spot: bool


def needs_checkpoint(entry: Entry) -> bool:
    """Whether the weights come from another checkpoint than the model's own."""
    return any(reason.code == "checkpoint" for reason in entry.reasons)


def slice_recipes(question: RecipeQuestion, options: TpuOptions | None, catalog: Catalog, software: TpuSoftware) -> Iterable[RecipeEntry]:
    """Everything that is done with a slice, from the project to the server."""
    entry = None if options is None else options.best_slice
    offer = catalog.offer(EXAMPLE_SLICE, "tpu") if entry is None else entry.offer
    terms = None if offer.tpu is None else software.terms(offer.tpu.generation.id)
    if terms is None:
        return
    choice = RecipeChoice(
        offer=offer,
        terms=terms,
        model=question.model,
        devices=1 if entry is None else entry.devices,
        context_tokens=question.context_tokens,
        region=question.region,
        spot=question.spot,
        optimum=software.optimum,
        optimum_lists_model=options is not None and options.runs_on_optimum,
        checkpoint_precision=entry.precision if entry is not None and needs_checkpoint(entry) else "",
    )
    for recipe in tpu_recipes(choice):
        yield {
            "name": recipe.name,
            "title": recipe.title,
            "language": recipe.language,
            "code": recipe.code,
            "notes": list(recipe.notes),
        }


def gpu_recipes(question: RecipeQuestion, options: TpuOptions, catalog: Catalog) -> Iterable[RecipeEntry]:
    """The files and commands of the cheapest GPU offer of each platform, as the recommendation writes them."""
    for entry in options.gpu_by_platform:
        setup = write_setup(
            ranked_entry(entry), catalog, model=question.model, context_tokens=question.context_tokens, sequences=question.concurrency
        )
        where = f"GPU: {entry.engine} on {entry.offer.id}, {PLATFORM_NAMES[entry.offer.platform]}"
        parts = (
            ("README.md", "yaml", setup.front_matter),
            ("Dockerfile", "dockerfile", setup.dockerfile),
            ("requirements.txt", "text", setup.requirements),
            ("command", "bash", setup.command),
        )
        for name, language, code in parts:
            if code is not None:
                yield {
                    "name": f"gpu_{entry.offer.platform}_{name.partition('.')[0].casefold()}",
                    "title": f"{where}: {name}",
                    "language": language,
                    "code": code,
                    "notes": list(setup.notes),
                }
