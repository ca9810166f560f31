"""The choice between GPU and TPU as markup: verdict, reasons, options, slices, prices, a side-by-side table, retired tiers, recipes.

The side-by-side table has the figures of the cards and chips that are offered today. Words on execution and fit follow
docs.cloud.google.com/compute/docs/tpus/overview (read 2026-11-22); every figure comes from the catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from operator import itemgetter

from markupsafe import Markup

from lib.answers.gpu_tpu import GpuTpuAnswer, OptionEntry, PropertyEntry, RecipeEntry, WeighedReasonEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.silicon import PEAK_DTYPES, Accelerator
from lib.platforms import RENTED, TPU_PLATFORMS
from lib.present.cards import PLATFORM_NAMES
from lib.present.html import STRONG, trusted, with_small
from lib.present.markup import bullet_list, code_blocks, escape, fold, link_source
from lib.present.numbers import count_words, deviation, gib, seconds, tokens_per_s, usd, usd_per_hour
from lib.present.tables import hardware_name, render_table, show_table
from lib.present.wording import term

VERDICTS = {"gpu": "Choose a GPU", "tpu": "Choose a TPU", "either": "Either will do", "both": "Both, by stage"}
WEIGHTS = {1: "slightly", 2: "clearly", 3: "strongly"}
SUPPORT = {
    "passing": "tested, passes",
    "same_class": "another model of its class passes",
    "other_generation": "tested on another generation only",
    "implemented": "untested; its class is implemented",
    "untested": "untested",
    "not_enough_hbm": "tested, the tested chips have too little memory",
    "failing": "reported to fail",
}
TORCHTPU_CLAIM = "What if TorchTPU's claim held here (by Google: Fused Eager mode is 1.5 to 2 times as fast as Debug Eager mode)?"
_NONE = "–"
_MOST_REGIONS = 20


def verdict_card(answer: GpuTpuAnswer, model: str) -> str:
    """The verdict, the price of each side, the strongest reasons, and what each stage goes to where both were asked for."""
    stages = " · ".join(f"{stage}: {term('sides', side)}" for stage, side in answer.by_stage.items()) if len(answer.by_stage) > 1 else ""
    hard = [reason for reason in answer.reasons if reason.hard]
    why = f"{count_words(len(hard), 'constraint')} that no TPU meets" if hard else _ahead(answer.score)
    about = f"GPU or TPU for {escape(model)}" if model else "GPU or TPU"
    first = [f"<strong>{term('sides', one.favours)}, {_strength(one)}:</strong> {escape(one.message)}" for one in answer.reasons]
    return (
        f'<section class="card" aria-labelledby="verdict"><p class="eyebrow">{about}</p>'
        f'<h2 id="verdict" class="headline"><span class="figure">{verdict_words(answer)}</span></h2>'
        f"<p>{escape(price_finding(answer))}</p>"
        f'<p class="quiet">{escape(why)}{f" ({stages})" if stages else ""}.</p>'
        f"{bullet_list(first[:_MOST_REASONS], 'why')}</section>"
    )


_MOST_REASONS = 5
_PRICE_REASONS = {"tpu_price_much_lower", "tpu_price_lower", "tpu_price_higher", "tpu_price_much_higher"}


def verdict_words(answer: GpuTpuAnswer) -> str:
    """The verdict in a few words; where either will do and one side is clearly cheaper, which one."""
    cheaper = [one.favours for one in answer.reasons if one.code in _PRICE_REASONS]
    if answer.verdict == "either" and cheaper:
        return f"Either works; a {term('sides', cheaper[0])} costs less"
    return VERDICTS[answer.verdict]


def price_finding(answer: GpuTpuAnswer) -> str:
    """The lowest price per token on each side and how they compare; "" where only one side has a price."""
    priced = [(one.usd_per_million_output_tokens, one) for one in answer.options if one.usd_per_million_output_tokens is not None]
    cheapest = {kind: min((pair for pair in priced if pair[1].kind == kind), key=itemgetter(0), default=None) for kind in ("gpu", "tpu")}
    gpu, tpu = cheapest["gpu"], cheapest["tpu"]
    if gpu is None or tpu is None:
        return ""
    (low, cheap), (high, dear) = sorted((gpu, tpu), key=itemgetter(0))
    sides = (
        f"{term('sides', cheap.kind)} ({cheap.name}) costs {usd(low)}, the cheapest {term('sides', dear.kind)} ({dear.name}) {usd(high)}"
    )
    return f"Per million output tokens the cheapest {sides}: {deviation(high, low)}."


def _ahead(score: int) -> str:
    if score == 0:
        return "The reasons balance"
    return f"The reasons for a {'TPU' if score > 0 else 'GPU'} lead by {count_words(abs(score), 'point')} (2 needed to decide)"


def reasons_table(answer: GpuTpuAnswer) -> str:
    """Constraints first, then preferences by weight, each with its source and date, behind a line."""
    if not answer.reasons:
        return '<p class="hint">No answer so far favours a GPU or a TPU. Answer more of the questions.</p>'
    rows = [_reason_row(reason) for reason in answer.reasons]
    return fold("Every reason with its source", render_table("Why", ("Reason", "Favours", "How strongly"), rows, "reasons"))


def _reason_row(reason: WeighedReasonEntry) -> tuple[str, str, str]:
    origin = trusted(link_source(reason.source)) + f", {reason.checked}"
    stage = f"{reason.stages[0]} only" if len(reason.stages) == 1 else ""
    strength = STRONG.format("constraint") if reason.hard else WEIGHTS[reason.weight]
    return with_small(reason.message, origin), with_small(term("sides", reason.favours), stage), strength


def options_table(answer: GpuTpuAnswer) -> str:
    """The slices and the GPU offers with memory, speed and price."""
    if not answer.options:
        return ""
    slices = [option for option in answer.options if option.kind == "tpu"]
    where = "No slice of TPU is among them"
    if slices:
        where = f"TPU prices: {slices[0].region}, {term('commitments', slices[0].commitment)}"
    heads = ("Hardware", "Memory per device (every request at full context)", "First token", "Speed", "Price")
    by_price = sorted(answer.options, key=lambda one: (one.usd_per_million_output_tokens is None, one.usd_per_million_output_tokens or 0))
    return show_table(f"Options, predicted, cheapest first. {where}", heads, list(map(_option_row, by_price)), "options")


def _option_row(option: OptionEntry) -> tuple[str, ...]:
    mark = Markup(' <span class="badge">{}</span>').format(_role(option))
    name = hardware_name(option.name, option.hardware, option.platform, mark)
    return (
        with_small(name, f"{option.precision} with {option.engine}"),
        with_small(gib(option.per_device_bytes), f"of {gib(option.capacity_bytes or 0)}, on {_devices(option)}"),
        _first_token(option),
        _rates(option),
        _price(option),
    )


def _devices(option: OptionEntry) -> str:
    """The number of devices that share the model; a slice can have more."""
    return count_words(option.devices, "chip" if option.kind == "tpu" else "card")


def _first_token(option: OptionEntry) -> str:
    if not option.ttft_s:
        return _NONE
    return with_small(seconds(option.ttft_s), "" if option.within_ttft else "above the limit")


def _rates(option: OptionEntry) -> str:
    """Tokens per second of one request and, if there are several, of all together."""
    one, together = option.decode_tokens_per_s, option.throughput_tokens_per_s
    if not one:
        return _NONE
    return with_small(tokens_per_s(one), f"{tokens_per_s(together)} together" if together and together > one else "")


def _price(option: OptionEntry) -> str:
    """USD per million tokens, per hour, and with the claim where it was asked for."""
    million, hourly, claimed = option.usd_per_million_output_tokens, option.usd_per_hour, option.what_if
    if hourly is None:
        return with_small(_NONE, "no such price was found")
    head = _NONE if million is None else f"{usd(million)} per million tokens"
    what_if = ""
    if claimed is not None:
        low, high = claimed.usd_per_million_output_tokens_low, claimed.usd_per_million_output_tokens_high
        what_if = f"what if: {usd(low)} to {usd(high)}"
    each = f" each, {option.replicas} machines" if option.replicas > 1 else ""
    return with_small(with_small(head, f"{usd_per_hour(hourly)} an hour{each}"), what_if)


def _role(option: OptionEntry) -> str:
    if option.kind == "gpu":
        return "GPU"
    return {"smallest": "TPU, smallest", "cheapest": "TPU, cheapest"}.get(option.role, "TPU")


def options_notes(answer: GpuTpuAnswer) -> str:
    """Notes below the options: Hugging Face's older advice, Optimum TPU, the what-if."""
    guidance, optimum = answer.guidance, answer.optimum_tpu
    notes = [] if guidance is None else [escape(guidance.message)]
    if guidance is not None:
        support = "lists models of this family" if optimum.lists_this_family else "lists no model of this family"
        notes.append(escape(f"Optimum TPU {optimum.version} {support}; it is in {optimum.state}. Its models: {', '.join(optimum.models)}."))
    claims = [option.what_if.label for option in answer.options if option.what_if is not None]
    notes += [escape(f"{claims[0]} No other figure here contains it.")] if claims else []
    return bullet_list(notes, "notes")


def generations_table(answer: GpuTpuAnswer) -> str:
    """The generations: chips that the model needs, slices that exist, what vLLM was tested with."""
    rows = []
    for one in answer.generations:
        fitting = [each.hardware for each in one.slices if each.fits]
        chips = _NONE if one.chips_needed is None else str(one.chips_needed)
        memory = with_small(gib(one.memory_bytes_per_chip or 0), f"{one.bandwidth_bytes_per_s / 1e9:,.0f} GB/s")
        slices = ", ".join(f"{each.topology} ({each.chips:,})" for each in one.slices)
        alone = "runs on none of them" if one.chips_needed is None else "several slices would share the requests"
        runs = with_small(Markup('<span class="wraps">{}</span>').format(slices), f"runs on {fitting[0]} and larger" if fitting else alone)
        rows.append((one.name, chips, memory, runs, with_small(one.support_message, f"vLLM: {one.vllm}")))
    if not rows:
        return ""
    heads = ("Generation", "Chips needed", "Memory per chip", "Topologies (chips)", "This model on vLLM")
    return show_table("Slices of Cloud TPU", heads, rows, "generations")


def region_table(answer: GpuTpuAnswer) -> str:
    """Prices of the cheapest slice in every region."""
    slices = [option for option in answer.options if option.prices]
    if not slices:
        return ""
    best = min(slices, key=lambda option: option.usd_per_million_output_tokens or float("inf"))
    rows = []
    for price in best.prices[:_MOST_REGIONS]:
        terms = (price.usd_per_hour, price.spot_usd_per_hour, price.one_year_usd_per_hour, price.three_years_usd_per_hour)
        rows.append((price.region, *(_NONE if amount is None else usd(amount) for amount in terms)))
    table = render_table(f"{best.hardware}, USD per hour", ("Region", "On demand", "Spot", "1 year", "3 years"), rows, "regions")
    return fold(f"Prices of {best.hardware} by region and commitment", table)


def side_by_side_table(answer: GpuTpuAnswer) -> str:
    """Properties of GPU and TPU, side by side."""
    rows = [(row.property, row.gpu, row.tpu) for row in answer.side_by_side]
    return show_table("GPU and TPU side by side, with the parts offered today", ("Property", "GPU", "TPU"), rows, "sides")


def retired_table(answer: GpuTpuAnswer) -> str:
    """TPU tiers that Spaces and Endpoints once had."""
    instead = ", ".join(PLATFORM_NAMES[name] for name in TPU_PLATFORMS)
    rows = [
        (
            hardware_name(one.name, one.hardware, one.platform),
            one.since or _NONE,
            _last_price(one.last_usd_per_hour),
            with_small(Markup("<code>{}</code>").format(one.successor or ""), instead),
        )
        for one in answer.retired
    ]
    heads = ("Tier", "Gone since", "Last price per hour", "Instead")
    return show_table("TPU tiers that Spaces and Inference Endpoints no longer have", heads, rows, "retired")


def _last_price(amount: Decimal | None) -> str:
    """USD per hour with a tenth of a cent where needed: 1.375 was a list price."""
    return usd_per_hour(amount) if amount is None or round(amount, 2) == amount else f"${amount:.3f}"


def recipe_boxes(answer: GpuTpuAnswer) -> str:
    """Every recipe behind one line."""
    return "".join(fold(escape(recipe.title), _recipe(recipe), "rest code-rest") for recipe in answer.recipes)


def _recipe(recipe: RecipeEntry) -> str:
    return code_blocks([(recipe.title, recipe.code)]) + bullet_list([escape(note) for note in recipe.notes], "notes")


def verdict_text(answer: GpuTpuAnswer, model: str) -> str:
    """The verdict and its reasons in plain words."""
    head = f"{verdict_words(answer)}{f' for {model}' if model else ''}. {price_finding(answer)}".strip()
    lines = [f"- {term('sides', reason.favours)} ({_strength(reason)}): {reason.message}" for reason in answer.reasons]
    return "\n".join([head, *lines])


def _strength(reason: WeighedReasonEntry) -> str:
    return "constraint" if reason.hard else WEIGHTS[reason.weight]


def list_properties(catalog: Catalog) -> list[PropertyEntry]:
    """The rows of the table, for the cards and chips that are offered today."""
    offers = _list_offers(catalog, "gpu"), _list_offers(catalog, "tpu")
    parts = [list({one.silicon.id: one.silicon for one in each if one.silicon is not None}.values()) for each in offers]
    in_bf16 = [[card for card in cards if card.peak("bf16")] for cards in parts]
    most_gpus, most_tpus = (max(offer.accelerator_count for offer in each) for each in offers)
    prices = [[offer.usd_per_hour / offer.accelerator_count for offer in each if offer.usd_per_hour] for each in offers]
    rows = (
        (
            "Execution",
            "Thousands of threads run kernels that are launched one by one; shapes and branches may change at any time.",
            "Matrix units run one program that XLA compiled for fixed shapes; another shape is another compilation.",
        ),
        (
            "Best at",
            "Mixed and irregular work, custom kernels, small batches, low latency, experiments.",
            "Large dense matrix products in large, regular batches; long training; thousands of chips.",
        ),
        ("Memory", *(_range(cards, lambda card: card.memory_usable or 0, lambda size: f"{gib(size)} usable") for cards in parts)),
        ("Memory bandwidth", *(_range(cards, lambda card: card.bandwidth, lambda rate: f"{rate / 1e9:,.0f} GB/s") for cards in parts)),
        ("Dense bf16", *(_range(cards, _bf16, lambda peak: f"{peak / 1e12:,.0f} TFLOP/s") for cards in in_bf16)),
        (
            "FLOP per byte needed to be compute-bound",
            *(_range(cards, lambda card: _bf16(card) / card.bandwidth, "{:,.0f}".format) for cards in in_bf16),
        ),
        ("Interconnect", *(", ".join(dict.fromkeys(card.interconnect.kind for card in cards if card.interconnect)) for cards in parts)),
        ("Devices in one offer", f"up to {most_gpus} cards", f"up to {most_tpus:,} chips in one slice"),
        ("Computes in", *map(_dtypes, parts)),
        (
            "Frameworks",
            "PyTorch, JAX, TensorFlow, and everything written in CUDA",
            "JAX, PyTorch (torch_tpu, beta), TensorFlow (not on TPU7x)",
        ),
        ("Engines", "transformers, vLLM, llama.cpp and many more", "vLLM (vllm-tpu); Optimum TPU in maintenance, JetStream archived"),
        (
            "Deployment",
            "A container or a Space, on any cloud, your own machines, the edge",
            "TPU VM, queued resource or GKE, on Google Cloud",
        ),
        ("Rented from", *(", ".join(dict.fromkeys(PLATFORM_NAMES[offer.platform] for offer in each)) for each in offers)),
        ("USD per hour and device", *(f"{usd(min(each))} to {usd(max(each))}" for each in prices)),
    )
    return [PropertyEntry(property=name, gpu=on_gpu, tpu=on_tpu) for name, on_gpu, on_tpu in rows]


def _list_offers(catalog: Catalog, kind: str) -> list[Offer]:
    listed = [offer for offer in catalog.on(RENTED) if offer.silicon is not None]
    return [offer for offer in listed if offer.silicon is not None and offer.silicon.kind == kind]


def _range(cards: list[Accelerator], figure: Callable[[Accelerator], float], words: Callable[[float], str]) -> str:
    """The lowest and the highest figure, with the parts that have them."""
    low, high = min(cards, key=figure), max(cards, key=figure)
    least, most = words(figure(low)), words(figure(high))
    return least if figure(low) == figure(high) else f"{least} ({_short(low)}) to {most} ({_short(high)})"


def _short(card: Accelerator) -> str:
    return card.name.removeprefix("Google ").removeprefix("NVIDIA ").partition(" (")[0]


def _bf16(card: Accelerator) -> float:
    return card.peak("bf16") or 0


def _dtypes(cards: list[Accelerator]) -> str:
    """Types by the number of parts that compute in them."""
    counts = {name: sum(card.supports(name) for card in cards) for name in (*PEAK_DTYPES, "fp64")}
    return ", ".join(name if number == len(cards) else f"{name} (some)" for name, number in counts.items() if number)


def replicas_sentence(replicas: int) -> str:
    """The sentence for a slice that holds the model, but not all sequences at once."""
    return f"It holds the model, but not all requests at the same time: {replicas} such slices would share the requests."


def guidance_sentence(parameters: int, advised: int, by_memory: int | None, limit: int) -> str:
    """Hugging Face's older advice on chips by size, beside the chips that this app counts by memory; `None`: no slice holds it."""
    size = f"{parameters / 1e9:.1f} billion parameters"
    old = f"For {size} Hugging Face advised {advised} chip{'s' if advised > 1 else ''} of v5e (1 up to {limit / 1e9:.0f} billion, 4 above; "
    old += "more chips for lower latency)."
    if by_memory is None:
        return f"{old} By this app's memory estimate no slice of v5e holds it in this precision at this load."
    agree = "the same" if by_memory == advised else "more" if by_memory > advised else "fewer"
    return f"{old} By this app's memory estimate it takes {by_memory} at this load: {agree}."
