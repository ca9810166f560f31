"""The choice between GPU and TPU as markup: verdict, reasons, options, slices, prices, a side-by-side table, retired tiers, recipes.

The side-by-side table has the figures of the cards and chips that are offered today: every figure comes from the catalog, the words from
`lib/data/wording/gpu_tpu.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from lib.present.numbers import count_words, deviation, gib, seconds, tokens_per_s, usd, usd_an_hour, usd_per_hour
from lib.present.sentences import note, say
from lib.present.tables import hardware_name, render_table, show_table
from lib.present.wording import load_wording, term

_NONE = "–"
_MOST_REGIONS = 20


def verdict_card(answer: GpuTpuAnswer, model: str) -> str:
    """The verdict and why, the other reasons, the price of each side, and the side of each stage where both were asked for."""
    stages = " · ".join(f"{stage}: {term('sides', side)}" for stage, side in answer.by_stage.items()) if len(answer.by_stage) > 1 else ""
    why, decides = _why(answer)
    about = f"GPU or TPU for {escape(model)}" if model else "GPU or TPU"
    others = [one for one in answer.reasons if one is not decides]
    rest = [f"<strong>{term('sides', one.favours)}, {_strength(one)}:</strong> {escape(one.message)}" for one in others]
    return (
        f'<section class="card" aria-labelledby="verdict"><p class="eyebrow">{about}</p>'
        f'<h2 id="verdict" class="headline"><span class="figure">{verdict_words(answer)}</span></h2>'
        f"<p><strong>{escape(why)}</strong></p>{f'<p>{stages}</p>' if stages else ''}"
        f"{bullet_list(rest[:_MOST_REASONS], 'why')}<p>{escape(price_finding(answer))}</p></section>"
    )


_MOST_REASONS = 5
_PRICE_REASONS = {"tpu_price_much_lower", "tpu_price_lower", "tpu_price_higher", "tpu_price_much_higher"}


def verdict_words(answer: GpuTpuAnswer) -> str:
    """The verdict in a few words; where either will do and one side is clearly cheaper, which one."""
    cheaper = [one.favours for one in answer.reasons if one.code in _PRICE_REASONS]
    if answer.verdict == "either" and cheaper:
        return say("gpu_tpu", "verdicts", "either_cheaper", favours=term("sides", cheaper[0]))
    return say("gpu_tpu", "verdicts", answer.verdict)


def price_finding(answer: GpuTpuAnswer) -> str:
    """The lowest price per token on each side and how they compare; "" if only one side has a price."""
    priced = [(one.usd_per_million_output_tokens, one) for one in answer.options if one.usd_per_million_output_tokens is not None]
    cheapest = {kind: min((pair for pair in priced if pair[1].kind == kind), key=itemgetter(0), default=None) for kind in ("gpu", "tpu")}
    gpu, tpu = cheapest["gpu"], cheapest["tpu"]
    if gpu is None or tpu is None:
        return ""
    (low, cheap), (high, dear) = sorted((gpu, tpu), key=itemgetter(0))
    sides = {"favours": term("sides", cheap.kind), "cheap": cheap.name, "other": term("sides", dear.kind), "dear": dear.name}
    return note("gpu_tpu", "price", **sides, low=usd(low), high=usd(high), difference=deviation(high, low))


def _why(answer: GpuTpuAnswer) -> tuple[str, WeighedReasonEntry | None]:
    """Why this verdict, in a sentence or two, and the reason that it states."""
    hard = [reason for reason in answer.reasons if reason.hard]
    if hard:
        return note("gpu_tpu", "constraints", constraints=len(hard), reason=hard[0].message), hard[0]
    if answer.score == 0:
        return note("gpu_tpu", "balance" if answer.reasons else "undecided"), None
    side = "tpu" if answer.score > 0 else "gpu"
    strongest = max((one for one in answer.reasons if one.favours == side), key=lambda one: one.weight)
    code = "leans" if answer.verdict == "either" else "ahead"
    return note("gpu_tpu", code, favours=term("sides", side), reason=strongest.message), strongest


def _heads(table: str) -> Sequence[str]:
    heads: Sequence[str] = load_wording("gpu_tpu")["heads"][table]
    return heads


def _title(table: str) -> str:
    return say("gpu_tpu", "tables", table)


def reasons_table(answer: GpuTpuAnswer) -> str:
    """Constraints first, then preferences by weight, each with its source and date, behind a line."""
    if not answer.reasons:
        return f'<p class="hint">{note("gpu_tpu", "undecided")}</p>'
    rows = [_reason_row(reason) for reason in answer.reasons]
    return fold(_title("reasons"), render_table("Why", _heads("reasons"), rows, "reasons"))


def _reason_row(reason: WeighedReasonEntry) -> tuple[str, str, str]:
    origin = trusted(link_source(reason.source)) + f", {reason.checked}"
    stage = f"{reason.stages[0]} only" if len(reason.stages) == 1 else ""
    strength = STRONG.format(_strength(reason)) if reason.hard else _strength(reason)
    return with_small(reason.message, origin), with_small(term("sides", reason.favours), stage), strength


def options_table(answer: GpuTpuAnswer) -> str:
    """The slices and the GPU offers with memory, speed and price."""
    if not answer.options:
        return ""
    slices = [option for option in answer.options if option.kind == "tpu"]
    where = note("gpu_tpu", "no_slice")
    if slices:
        where = note("gpu_tpu", "slice_prices", region=slices[0].region or "", terms=term("commitments", slices[0].commitment))
    by_price = sorted(answer.options, key=lambda one: (one.usd_per_million_output_tokens is None, one.usd_per_million_output_tokens or 0))
    return show_table(note("gpu_tpu", "options", where=where), _heads("options"), list(map(_option_row, by_price)), "options")


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
    return with_small(seconds(option.ttft_s), "" if option.within_ttft else note("gpu_tpu", "above_limit"))


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
        return with_small(_NONE, note("gpu_tpu", "no_price"))
    head = _NONE if million is None else f"{usd(million)} per million tokens at full use"
    what_if = ""
    if claimed is not None:
        low, high = claimed.usd_per_million_output_tokens_low, claimed.usd_per_million_output_tokens_high
        what_if = f"what if: {usd(low)} to {usd(high)}"
    each = f" each, {option.replicas} machines" if option.replicas > 1 else ""
    return with_small(with_small(head, f"{usd_an_hour(hourly)}{each}"), what_if)


def _role(option: OptionEntry) -> str:
    if option.kind == "gpu":
        return "GPU"
    return {"smallest": "TPU, smallest", "cheapest": "TPU, cheapest"}.get(option.role, "TPU")


def options_notes(answer: GpuTpuAnswer) -> str:
    """Notes below the options: Hugging Face's older advice, Optimum TPU, the what-if."""
    guidance, optimum = answer.guidance, answer.optimum_tpu
    notes = [] if guidance is None else [escape(guidance.message)]
    if guidance is not None:
        code = "optimum_lists" if optimum.lists_this_family else "optimum_lacks"
        notes.append(escape(note("gpu_tpu", code, version=optimum.version, state=optimum.state, models=", ".join(optimum.models))))
    claims = [option.what_if.label for option in answer.options if option.what_if is not None]
    notes += [escape(note("gpu_tpu", "claim_only", claim=claims[0]))] if claims else []
    return bullet_list(notes, "notes")


def generations_table(answer: GpuTpuAnswer) -> str:
    """The generations: chips that the model needs, slices that exist, and vLLM's tests."""
    rows = []
    for one in answer.generations:
        fitting = [each.hardware for each in one.slices if each.fits]
        chips = _NONE if one.chips_needed is None else str(one.chips_needed)
        memory = with_small(gib(one.memory_bytes_per_chip or 0), f"{one.bandwidth_bytes_per_s / 1e9:,.0f} GB/s")
        slices = ", ".join(f"{each.topology} ({each.chips:,})" for each in one.slices)
        alone = note("gpu_tpu", "runs_on_none" if one.chips_needed is None else "several_slices")
        holds = note("gpu_tpu", "runs_on", slice=fitting[0]) if fitting else alone
        runs = with_small(Markup('<span class="wraps">{}</span>').format(slices), holds)
        rows.append((one.name, chips, memory, runs, with_small(one.support_message, f"vLLM: {one.vllm}")))
    if not rows:
        return ""
    return show_table(_title("generations"), _heads("generations"), rows, "generations")


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
    table = render_table(say("gpu_tpu", "tables", "region", slice=best.name), _heads("regions"), rows, "regions")
    return fold(say("gpu_tpu", "tables", "regions", slice=best.name), table)


def side_by_side_table(answer: GpuTpuAnswer) -> str:
    """Properties of GPU and TPU, side by side."""
    rows = [(row.property, row.gpu, row.tpu) for row in answer.side_by_side]
    return show_table(_title("sides"), _heads("sides"), rows, "sides")


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
    return show_table(_title("retired"), _heads("retired"), rows, "retired")


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
    strengths = load_wording("gpu_tpu")["strengths"]
    strength: str = strengths["constraint" if reason.hard else reason.weight]
    return strength


def list_properties(catalog: Catalog) -> list[PropertyEntry]:
    """The rows of the table, for the cards and chips that are offered today."""
    offers = _list_offers(catalog, "gpu"), _list_offers(catalog, "tpu")
    parts = [list({one.silicon.id: one.silicon for one in each if one.silicon is not None}.values()) for each in offers]
    in_bf16 = [[card for card in cards if card.peak("bf16")] for cards in parts]
    most_gpus, most_tpus = (max(offer.accelerator_count for offer in each) for each in offers)
    prices = [[offer.usd_per_hour / offer.accelerator_count for offer in each if offer.usd_per_hour] for each in offers]
    figures: dict[str, list[str]] = {
        "memory": [_range(cards, lambda card: card.memory_usable or 0, lambda size: f"{gib(size)} usable") for cards in parts],
        "bandwidth": [_range(cards, lambda card: card.bandwidth, lambda rate: f"{rate / 1e9:,.0f} GB/s") for cards in parts],
        "bf16": [_range(cards, _bf16, lambda peak: f"{peak / 1e12:,.0f} TFLOP/s") for cards in in_bf16],
        "intensity": [_range(cards, lambda card: _bf16(card) / card.bandwidth, "{:,.0f}".format) for cards in in_bf16],
        "interconnect": [", ".join(dict.fromkeys(card.interconnect.kind for card in cards if card.interconnect)) for cards in parts],
        "devices": [f"up to {most_gpus} cards", f"up to {most_tpus:,} chips in one slice"],
        "dtypes": list(map(_dtypes, parts)),
        "platforms": [", ".join(dict.fromkeys(PLATFORM_NAMES[offer.platform] for offer in each)) for each in offers],
        "prices": [f"{usd(min(each))} to {usd(max(each))}" for each in prices],
    }
    rows = ([*words, *figures.get(row, [])] for row, words in load_wording("gpu_tpu")["sides"].items())
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


def guidance_sentence(parameters: int, advised: int, by_memory: int | None, limit: int) -> str:
    """Hugging Face's older advice on chips by size, compared with the chips that this app counts by memory; `None`: no slice holds it."""
    advice = note("gpu_tpu", "guidance", billions=parameters / 1e9, advised=advised, limit=limit / 1e9)
    if by_memory is None:
        return note("gpu_tpu", "guidance_none", advice=advice)
    agree = "same" if by_memory == advised else "more" if by_memory > advised else "fewer"
    return note("gpu_tpu", f"guidance_{agree}", advice=advice, by_memory=by_memory)
