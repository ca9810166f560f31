"""`/compare_gpu_tpu`: GPU or TPU for a piece of work, a model on every slice of TPU and on the best GPU offers, and their recipes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, cast

from lib.advisor import gpu_tpu, tpu_options
from lib.advisor.gpu_tpu import Decision, Findings, WeighedReason, Work, decide
from lib.answers.gpu_tpu import GpuTpuAnswer, GuidanceEntry, OptimumEntry, RecipeEntry, RetiredEntry, WeighedReasonEntry
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import TpuSoftware, load_decision_rules, load_tpu_software
from lib.errors import BadArgument
from lib.memory.pipeline import check_media
from lib.memory.resolve import limit_context
from lib.model.spec import ModelSpec
from lib.platforms import TPU_PLATFORMS
from lib.present.gpu_tpu_cards import guidance_sentence, list_properties
from lib.present.sentences import sentence
from lib.present.setup_files import write_setup
from lib.present.snippets import Start
from lib.present.tpu_recipes import RecipeChoice, gpu_recipes, tpu_recipes
from lib.provenance import Caveat, Source, Value
from lib.request.checks import check_choice
from lib.request.fields import Arguments, Asked, Checked, Form, number, one_of, whole_number
from lib.request.types import Flag
from lib.service.endpoint import App, endpoint
from lib.service.gpu_tpu_entries import list_entries, show_generation
from lib.workload import Workload

MOST_CHIPS, MOST_STEPS, LONGEST_TTFT_S = 100_000, 10**12, 3_600
_WEIGHED: Mapping[str, str] = {"auto": "auto", "fp16": "bf16", "bf16": "bf16", "fp8": "fp8", "int8": "int8"}
"""The precision in which slices and offers are judged; others are judged in bf16, which a TPU has."""
OF_WORKLOAD = Asked(
    "context_tokens concurrency prompt_tokens output_tokens width height frames steps guidance "
    "images image_width image_height audio_seconds"
)
_PRICED: Mapping[str, tuple[tpu_options.Commitment, ...]] = {"interruptible": ("spot",), "committed": ("1_year", "3_years")}
"""Terms of TPU prices in which a budget shows."""


class GpuTpuArguments(Arguments):
    """Arguments of `/compare_gpu_tpu`."""

    behind = ("concurrency max_ttft_s region commitment torchtpu_claim",)

    model: Annotated[object, Checked(lambda _, value: value, str)] = ""
    """A Hub id, the text of a config.json, or a parameter count; empty: only the questions."""
    framework: Annotated[gpu_tpu.Framework, one_of(gpu_tpu.FRAMEWORKS), Form("Framework", group="tpu")] = "pytorch"
    """pytorch, jax or tensorflow."""
    phase: Annotated[gpu_tpu.Phase, one_of(gpu_tpu.PHASES), Form("Use", group="tpu")] = "inference"
    """inference, training, or both (a verdict by stage)."""
    shape_changes: Flag = False
    """Shapes change between steps, within a few buckets."""
    custom_kernels: Flag = False
    """Kernels were written for the model (in CUDA, unless kernels says otherwise)."""
    dynamic_shapes: Flag = False
    """Shapes change at every step."""
    outside_gcp: Flag = False
    """It has to run outside Google Cloud."""
    on_gcp: Flag = False
    """It runs on Google Cloud already."""
    chips_at_scale: Annotated[int, whole_number(0, MOST_CHIPS), Form("Chips or cards together", "chips", group="tpu")] = 0
    """Chips or cards that work together; 0: not stated."""
    latency_sensitive: Flag = False
    """The slowest requests have a limit (p99)."""
    precision: Annotated[gpu_tpu.Precision, one_of(gpu_tpu.PRECISIONS), Form("Precision needed", "needs", group="tpu")] = "auto"
    """The precision that it needs; auto: as stored, or fewer bits where that is cheaper."""
    static_shapes: Flag = False
    """Shapes never change."""
    kernels: Annotated[gpu_tpu.Kernels, one_of(gpu_tpu.KERNELS), Form("Own kernels", group="tpu")] = "none"
    """none, cuda, triton or pallas."""
    irregular_control_flow: Flag = False
    """Branches depend on the data."""
    unstructured_sparsity: Flag = False
    """It skips zeros without structure."""
    large_embeddings: Flag = False
    """Very large embedding tables (ranking, recommendation)."""
    on_prem: Flag = False
    """It runs in one's own data centre."""
    edge: Flag = False
    """It runs at the edge."""
    multi_cloud: Flag = False
    """It runs in several clouds."""
    regulated: Flag = False
    """Rules say where data may be."""
    training_steps: Annotated[int, whole_number(0, MOST_STEPS), Form("Training steps", "steps", group="tpu")] = 0
    """Steps of a training run; 0: not stated."""
    batch: Annotated[gpu_tpu.Batch, one_of(gpu_tpu.BATCHES), Form("Batches", "batches", group="tpu")] = "not_stated"
    """not_stated, large_regular or small_irregular."""
    team: Annotated[gpu_tpu.Team, one_of(gpu_tpu.TEAMS), Form("The team knows", group="tpu")] = "not_stated"
    """The team's experience: not_stated, cuda or jax."""
    experiments: Flag = False
    """The program changes often."""
    budget: Annotated[gpu_tpu.Budget, one_of(gpu_tpu.BUDGETS), Form("Budget", "spend", group="tpu")] = "not_stated"
    """not_stated, interruptible (may be stopped at any time) or committed (one to three years)."""
    workload: Annotated[Workload, OF_WORKLOAD] = Workload(concurrency=8)
    max_ttft_s: Annotated[float, number(0, LONGEST_TTFT_S)] = 0
    """Limit on the time to first token; 0 sets none."""
    region: Annotated[str, Checked(lambda _, value: value, str), Form("Region", group="tpu")] = tpu_options.HOME_REGION
    """Region of the TPU prices, such as europe-west4."""
    commitment: Annotated[tpu_options.Commitment, one_of(tpu_options.COMMITMENTS), Form("TPU price", group="tpu")] = "on_demand"
    """TPU price: on_demand, spot, 1_year or 3_years."""
    torchtpu_claim: Annotated[Flag, Form("Claim", "claim", group="tpu")] = False
    """Add the effect of a vendor's claim of 1.5 to 2 times the speed."""

    @property
    def rental(self) -> tpu_options.Rental:
        """Region and terms of renting slices."""
        return tpu_options.Rental(region=self.region, commitment=self.commitment)

    @property
    def work(self) -> Work:
        """The same as the decision takes it."""
        shapes: gpu_tpu.Shapes = "not_stated"
        for name, stated in (("never", self.static_shapes), ("buckets", self.shape_changes), ("every_step", self.dynamic_shapes)):
            shapes = cast("gpu_tpu.Shapes", name) if stated else shapes
        return Work(
            framework=self.framework,
            phase=self.phase,
            shapes=shapes,
            kernels="cuda" if self.custom_kernels and self.kernels == "none" else self.kernels,
            control_flow="irregular" if self.irregular_control_flow else "regular",
            sparsity="unstructured" if self.unstructured_sparsity else "dense",
            embeddings="very_large" if self.large_embeddings else "usual",
            places=frozenset(place for place in gpu_tpu.PLACES if getattr(self, place)),
            precision=self.precision,
            chips=self.chips_at_scale,
            training_steps=self.training_steps,
            latency="tail" if self.latency_sensitive else "not_stated",
            batch=self.batch,
            team=self.team,
            work="experiments" if self.experiments else "production",
            budget=self.budget,
        )


@endpoint(heavy=True)
def compare_gpu_tpu(app: App, arguments: GpuTpuArguments) -> GpuTpuAnswer:
    """GPU or TPU: a verdict with weighted reasons, constraints apart from preferences; for a model the TPU slices and their prices.

    Returns:
        The verdict, its reasons, the model on slices of TPU and on the best GPU offers, and recipes.
    """
    # Check the arguments.
    _check_consistent(arguments)
    catalog, software, rules = app.catalog(), load_tpu_software(), load_decision_rules()
    regions = sorted({name for offer in catalog.on(TPU_PLATFORMS) for name in offer.usd_per_hour_by_region})
    arguments = arguments.model_copy(update={"region": check_choice("region", arguments.region, regions)})
    has_model = not (isinstance(arguments.model, str) and not arguments.model.strip())
    spec = app.models(arguments.model) if has_model else None
    workload = replace(arguments.workload, precision=_WEIGHED.get(arguments.precision, "bf16"))
    # The model on slices and on GPUs, if one was named.
    options, findings, work = None, Findings(), arguments.work
    if spec is not None:
        check_media(spec, workload.pictures, workload.media)
        options = tpu_options.find_tpu_options(spec, workload, catalog, software, max_ttft_s=arguments.max_ttft_s, rental=arguments.rental)
        findings = options.findings
    # Decide.
    if findings.tpu_price is not None and arguments.commitment in _PRICED.get(work.budget, ()):
        work = replace(work, budget="not_stated")  # the price already counts it
    findings = replace(findings, values={**tpu_options.find_general_values(catalog, software), **findings.values})
    decision = decide(work, rules, findings)
    entries = (
        []
        if options is None
        else list(list_entries(options, software, arguments.rental, arguments.max_ttft_s, claimed=arguments.torchtpu_claim))
    )
    optimum = software.optimum
    return GpuTpuAnswer(
        model="" if spec is None else spec.id,
        verdict=decision.verdict,
        score=decision.score,
        by_stage=decision.by_stage,
        reasons=tuple(map(_reason, decision.reasons)),
        options=tuple(entries),
        generations=() if options is None else tuple(show_generation(each, catalog, software) for each in options.generations),
        guidance=None if spec is None or options is None else _guidance(spec, options, software),
        optimum_tpu=OptimumEntry(
            version=optimum.version,
            state=optimum.state,
            models=optimum.models,
            lists_this_family=options is not None and options.runs_on_optimum,
            source=optimum.source,
            checked=optimum.checked,
        ),
        retired=tuple(_retired_entries(catalog)),
        side_by_side=tuple(list_properties(catalog)),
        recipes=tuple(_recipes(arguments, "" if spec is None else spec.id, options, catalog, software)),
        caveats=tuple(_caveats(arguments, spec, options)),
        sources=tuple(_sources(decision, options, software)),
    )


def _check_consistent(arguments: GpuTpuArguments) -> None:
    """Refuse answers that contradict each other."""
    if arguments.static_shapes and (arguments.shape_changes or arguments.dynamic_shapes):
        raise BadArgument("static_shapes", "true", "false where shape_changes or dynamic_shapes is true")
    if arguments.shape_changes and arguments.dynamic_shapes:
        raise BadArgument("shape_changes", "true", "false where dynamic_shapes is true: within buckets, or at every step")
    for elsewhere in ("outside_gcp", "on_prem"):
        if arguments.on_gcp and getattr(arguments, elsewhere):
            raise BadArgument("on_gcp", "true", f"false where {elsewhere} is true")


def _reason(weighed: WeighedReason) -> WeighedReasonEntry:
    return WeighedReasonEntry(
        code=weighed.reason.code,
        message=sentence(weighed.reason),
        favours=weighed.rule.favours,
        weight=weighed.rule.weight,
        hard=weighed.rule.hard,
        stages=weighed.rule.stages,
        source=weighed.source.source,
        checked=weighed.source.checked,
    )


def _guidance(spec: ModelSpec, options: tpu_options.TpuOptions, software: TpuSoftware) -> GuidanceEntry:
    check = options.guidance
    limit = software.guidance.one_chip_parameters
    return GuidanceEntry(
        generation=check.generation,
        advised_chips=check.advised,
        chips_by_laws=check.by_laws,
        message=guidance_sentence(spec.parameters_total, check.advised, check.by_laws, limit),
    )


def _retired_entries(catalog: Catalog) -> Iterable[RetiredEntry]:
    """The TPU tiers of Spaces and Endpoints that are gone."""
    for offer in catalog.offers:
        if offer.status == "retired" and offer.silicon is not None and offer.silicon.kind == "tpu":
            yield RetiredEntry(
                hardware=offer.id,
                platform=offer.platform,
                name=offer.name,
                accelerator_count=offer.accelerator_count,
                last_usd_per_hour=offer.last_usd_per_hour,
                since=offer.since,
                successor=offer.successor,
                notes=offer.notes,
                source=offer.source,
                checked=offer.checked,
            )


def _caveats(arguments: GpuTpuArguments, spec: ModelSpec | None, options: tpu_options.TpuOptions | None) -> Iterable[Caveat]:
    if spec is not None:
        yield from limit_context(spec, arguments.workload.context_tokens)[1]
    yield Caveat("weights_are_judgement")
    yield from () if spec is None else spec.caveats
    if options is not None:
        yield Caveat("tpu_prices_are_secondary")
        if arguments.phase != "inference":
            yield Caveat("options_serve")
        if arguments.commitment in {"1_year", "3_years"}:
            yield Caveat("commitments_known_for_v6e")
        if arguments.commitment == "spot":
            yield Caveat("spot_changes")
        if arguments.precision not in _WEIGHED:
            yield Caveat("options_in_bf16", {"precision": arguments.precision})
        yield from _not_compared(arguments, options)


def _not_compared(arguments: GpuTpuArguments, options: tpu_options.TpuOptions) -> Iterable[Caveat]:
    """Missing options, and why."""
    on_tpu, on_gpu = options.fastest
    if options.findings.ttft == "neither":
        for kind, entry in (("tpu", on_tpu), ("gpu", on_gpu)):
            values: dict[str, Value] = {"max_ttft_s": arguments.max_ttft_s, "kind": kind}
            if entry is not None and entry.speed.predicted is not None:
                values |= {"hardware": entry.offer.id, "ttft_s": entry.speed.predicted.ttft_s.value}
                yield Caveat("limit_not_kept", values)
            else:
                yield Caveat("limit_not_kept", values, variant="unknown")
    if options.findings.engine == "none_on_tpu":
        yield Caveat("no_slice_compared")
    best, cheapest = options.best_slice, next(iter(options.gpu), None)
    if best is not None and cheapest is not None and best.precision != cheapest.precision:
        slice_of = {"tpu": best.offer.id, "tpu_precision": best.precision}
        yield Caveat("precisions_differ", slice_of | {"gpu": cheapest.offer.id, "gpu_precision": cheapest.precision})
    if options.gpu and all(entry.cost.usd_per_million_output_tokens is None for entry in options.gpu):
        yield Caveat("priced_by_the_hour")
    if not options.gpu and options.best_slice is None:
        yield Caveat("nothing_compared")


def _sources(decision: Decision, options: tpu_options.TpuOptions | None, software: TpuSoftware) -> Iterable[Source]:
    yield from (reason.source for reason in decision.reasons)
    yield software.optimum.as_source(f"Optimum TPU {software.optimum.version}")
    if options is not None:
        yield software.support.as_source(f"{software.support.package} {software.support.release}: tested models")
        yield software.spot.as_source("Spot prices of TPU")
        yield software.commitment.as_source("Prices of v6e with a commitment")
        yield software.guidance.as_source("Advised sizes of v5e")
        yield software.torchtpu_claim.as_source("TorchTPU's claim")
        for generation in options.generations:
            if generation.smallest is not None:
                yield from generation.smallest.offer.sources


EXAMPLE_SLICE = "v6e-1"
"""The model of the recipes if none is named, or none that runs on a slice."""


def _recipes(
    arguments: GpuTpuArguments, model: str, options: tpu_options.TpuOptions | None, catalog: Catalog, software: TpuSoftware
) -> Iterable[RecipeEntry]:
    """Everything that is done with a slice, from the project to the server; then the cheapest GPU offer of each platform.

    `model` is "" if none is named. Files and commands of GPUs are as the recommendation writes them.
    """
    entry = None if options is None else options.best_slice
    offer = catalog.offer(EXAMPLE_SLICE, "tpu") if entry is None else entry.offer
    terms = None if offer.tpu is None else software.terms(offer.tpu.generation.id)
    if terms is not None:
        checkpoint = entry is not None and any(reason.code == "checkpoint" for reason in entry.reasons)
        choice = RecipeChoice(
            offer=offer,
            terms=terms,
            model=model,
            start=Start(
                precision="" if entry is None else entry.precision,
                devices=1 if entry is None else entry.devices,
                context_tokens=arguments.workload.context_tokens,
                sequences=arguments.workload.concurrency,
            ),
            weights_bytes=0 if entry is None or entry.memory is None else entry.memory.weights_bytes,
            region=arguments.region,
            spot=arguments.commitment == "spot" or arguments.budget == "interruptible",
            optimum=software.optimum,
            optimum_lists_model=options is not None and options.runs_on_optimum,
            checkpoint_precision=entry.precision if entry is not None and checkpoint else "",
        )
        yield from tpu_recipes(choice)
    for entry in () if options is None else options.gpu_by_platform:
        setup = write_setup(
            entry,
            catalog,
            model=model,
            context_tokens=arguments.workload.context_tokens,
            sequences=arguments.workload.concurrency,
        )
        yield from gpu_recipes(entry, setup)
