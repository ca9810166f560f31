"""The page's main cards: the model, the memory it needs, the recommended hardware, and the evidence.

The evidence is the law, its inputs, how a part divides, and the source with its date. The four parts of an estimate have one name, one
order and one colour here, for every bar, legend and chart; so have platforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Literal
from urllib.parse import quote

from lib.advisor.candidates import family_of
from lib.advisor.entry_memory import EntryMemory
from lib.advisor.result import ConfiguredHardware, Cost, Entry, OwnHardware, Recommendation, Speed
from lib.answers.memory import MemoryAnswer
from lib.answers.model import ModelAnswer
from lib.catalog import PriceState, days_if_old
from lib.engines import find_engine, traits_of
from lib.memory.result import MemoryPart
from lib.platforms import PLATFORMS, TRAITS
from lib.present.markup import bullet_list, definition_list, escape, fold, link_source
from lib.present.numbers import (
    count,
    count_words,
    deviation,
    gib,
    gib_figure,
    rate,
    seconds,
    share,
    tokens_per_s,
    usd_per_hour,
    usd_per_month,
    whole,
)
from lib.present.reason_order import MOST_REASONS, order_reasons
from lib.present.sentences import say, sentence
from lib.present.wording import load_wording
from lib.provenance import Answer, Caveat, Reason, Source, Statement

PLATFORM_NAMES = {name: traits.label for name, traits in TRAITS.items()}
PLATFORM_COLOURS: dict[str, str] = {**{name: TRAITS[name].colour for name in PLATFORMS}, "providers": "#8467c9"}
Memory = MemoryAnswer | EntryMemory
"""An object with the four parts: a whole answer, or the memory of a recommended tier."""
PartBytes = Literal["weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes"]
PARTS: tuple[tuple[str, str, PartBytes], ...] = (
    ("weights", "Weights", "weights_bytes"),
    ("cache", "Cache", "kv_cache_bytes"),
    ("activations", "Activations", "activation_bytes"),
    ("runtime", "Runtime", "runtime_bytes"),
)
# Distinct in hue and in lightness, so that the order survives colour blindness and grey print; both themes carry them.
PART_COLOURS: dict[str, str] = {"weights": "#3d74b8", "cache": "#c98018", "activations": "#2f9e7a", "runtime": "#8b93a1"}


def part_bytes(memory: Memory) -> dict[str, int]:
    """Bytes of each part of a memory answer, in the order of `PARTS`; a model that keeps nothing of its tokens has no cache."""
    sizes: dict[str, int] = {key: getattr(memory, field) for key, _, field in PARTS}
    return {key: size for key, size in sizes.items() if key != "cache" or size}


def model_line(model: ModelAnswer) -> str:
    """One line about the model: size, task, layers, limit, and the origin of these."""
    total, active = model.parameters_total, model.parameters_active
    facts = [f"<strong>{count(total)}</strong> parameters" + (f", {count(active)} of them active per token" if 0 < active < total else "")]
    if model.task:
        facts.append(escape(model.task.replace("-", " ")))
    if model.layer_kinds:
        facts.append("layers: " + ", ".join(f"{number} × {escape(kind)}" for kind, number in model.layer_kinds.items()))
    if model.context_limit_tokens:
        facts.append(f"context up to {whole(model.context_limit_tokens)} tokens")
    facts.append(load_wording("findings")["sources"].get(model.source, escape(model.source)))
    line = f'<p class="model-line" role="status" tabindex="0">{" <span aria-hidden=true>·</span> ".join(facts)}</p>'
    return line + _gguf_choice(model)


def model_choices(names: Sequence[str]) -> str:
    """Models that may have been meant, each a link that takes it as the model (`assets/page.js`)."""
    links = "".join(f'<a href="?model={quote(name)}" data-model="{escape(name)}">{escape(name)}</a>' for name in names)
    return f'<p class="examples"><span>Did you mean:</span> {links}</p>' if names else ""


def _gguf_choice(model: ModelAnswer) -> str:
    """The GGUF files of the repository with their sizes, each a link that takes it as the model (`assets/page.js`)."""
    files = model.gguf_files
    if not files:
        return ""
    links = [
        f'<a href="?model={quote(file.model)}" data-model="{escape(file.model)}"'
        f"{' aria-current=true' if file.model == model.id else ''}>{escape(file.model.partition(':')[2])}</a>"
        f"{' ' + gib(file.bytes) if file.bytes else ''}"
        for file in files
    ]
    return f'<p class="model-line">GGUF files: {" <span aria-hidden=true>·</span> ".join(links)}</p>'


def model_name(model_id: str, query: str) -> str:
    """Name of the model in a sentence: its id, or the text of the request if it has none."""
    if model_id:
        return model_id
    return "the pasted config" if query.lstrip().startswith("{") else f"a model of {query.strip()} parameters"


def memory_bar(memory: Memory, capacity: int | None = None, need: int | None = None) -> str:
    """A stacked bar of the parts on the fullest device; with a capacity, the track it has to stay inside.

    `need` replaces the bytes on the fullest device. The bar is decoration: the same numbers follow as text.
    """
    total = sum(part_bytes(memory).values()) or 1
    need = need or memory.per_device_bytes or total
    scale = max(need, capacity or 0)
    segments = "".join(
        f'<i class="seg {key}" style="width:{share(size * need / total, scale):.2f}%"></i>' for key, size in part_bytes(memory).items()
    )
    if capacity is None:
        return f'<div class="bar" aria-hidden="true">{segments}</div>'
    over = " over" if need > capacity else ""
    return f'<div class="bar{over}" aria-hidden="true"><b class="track" style="width:{share(capacity, scale):.2f}%"></b>{segments}</div>'


def memory_legend(memory: Memory, capacity: int | None = None, free_label: str = "Free") -> str:
    """The parts with their sizes and their shares of the bar above: of the fullest device with a capacity, else of all parts."""
    sizes = part_bytes(memory)
    total = sum(sizes.values()) or 1
    need = total if capacity is None else memory.per_device_bytes or total
    whole_bar = need if capacity is None else max(need, capacity)
    on_device = {key: size * need // total for key, size in sizes.items()}
    rows = [
        (f'<i class="swatch {key}"></i>{label}', f"{gib(on_device[key])} <small>{share(on_device[key], whole_bar):.0f} %</small>")
        for key, label, _ in PARTS
        if key in sizes
    ]
    if capacity is not None and (free := capacity - need) > 0:
        rows.append((f'<i class="swatch free"></i>{escape(free_label)}', f"{gib(free)} <small>{share(free, whole_bar):.0f} %</small>"))
    return definition_list(rows, "legend")


def memory_card(memory: MemoryAnswer, model: str, devices: int, configured: str = "") -> str:
    """Memory of the configuration: one figure, one bar, the parts, and the rule of thumb.

    `configured` is the hardware whose recommended configuration this is.
    """
    where = f"on each of {devices} GPUs, {gib(memory.total_bytes)} in total" if devices > 1 else "on one device"
    if memory.host_bytes:
        where = f"{where if devices > 1 else 'on the GPU'}, {gib(memory.host_bytes)} in the memory of the processor"
    as_on = f" · as recommended for {escape(configured)}" if configured else ""
    settings = escape(memory_settings(memory))
    of_stages = [f"{stage.name} {gib(stage.total_bytes)}" for stage in memory.stages]
    stages = f'<p class="quiet">By stage: {", ".join(of_stages)}</p>' if of_stages else ""
    between = _between(memory) + (" in total" if devices > 1 and _between(memory) else "")
    return (
        '<section class="card memory-card" aria-label="Memory needed"><h2 class="sr">Memory needed</h2>'
        f'<p class="eyebrow">{escape(model)} needs</p>'
        f'<p class="headline"><span class="figure">{gib(memory.per_device_bytes)}</span> {where}</p>'
        f'<p class="quiet">{settings}{as_on}{between}</p>{stages}{memory_bar(memory)}{memory_legend(memory)}'
        f"{rule_of_thumb_line(memory)}</section>"
    )


def held_words(held: EntryMemory, longest_tokens: int) -> str:
    """The requests that the memory is counted for; `longest_tokens` is the context that was asked for."""
    length = f"{count_words(held.batch_size, 'request')} of {whole(held.context_tokens)} tokens"
    if held.context_tokens >= longest_tokens:
        return length
    return f"{length} on average (context up to {whole(longest_tokens)})"


def memory_settings(memory: MemoryAnswer) -> str:
    """Precisions and engine in a phrase."""
    cache = f"{memory.kv_precision} cache, " if memory.kv_cache_bytes else ""
    return f"{memory.precision} weights, {cache}{memory.engine}"


def _between(memory: MemoryAnswer) -> str:
    low, high = gib(memory.low_bytes), gib(memory.high_bytes)
    return "" if low == high else f" · between {low} and {high}"


def rule_of_thumb_line(memory: MemoryAnswer) -> str:
    """The community's rule of thumb, and its deviation from the answer."""
    rule = memory.rule_of_thumb_bytes
    off = deviation(rule, max(1, memory.total_bytes))
    compared = " than this estimate" if off.endswith(("more", "less")) else ""
    return f'<p class="thumb">Rule of thumb, parameters × bytes × 1.2: <strong>{gib(rule)}</strong>, {off}{compared}.</p>'


def month_figures(cost: Cost) -> list[tuple[str, str]]:
    """The price per month as stated, and what it is for one who never pauses the hardware, or lets it sleep between requests."""
    figures = [("Price per month", usd_per_month(cost.total_usd_per_month))]
    if cost.usd_per_month_unpaused is not None:
        figures.append(("Never paused", usd_per_month(cost.usd_per_month_unpaused)))
    if cost.usd_per_month_asleep is not None:
        figures.append(("Asleep when idle", usd_per_month(cost.usd_per_month_asleep)))
    return figures


def price_figures(cost: Cost) -> list[tuple[str, str]]:
    """The price per hour and per month; free hardware is called free once."""
    if not cost.usd_per_hour:
        return [("Price", usd_per_hour(cost.usd_per_hour).capitalize())]
    return [("Price per hour", usd_per_hour(cost.usd_per_hour)), *month_figures(cost)]


def pick_card(pick: Entry, model: str, notes: Sequence[Reason] = (), *, has_own: bool = False) -> str:
    """The recommended hardware: price, memory, engine, reasons and caveats; `notes` are those of the whole answer.

    `has_own`: it is the alternative to the visitor's own hardware, whose card comes first.
    """
    chosen = [f"<strong>{escape(sentence(note).partition('. ')[0].rstrip('.'))}.</strong>" for note in notes if note.code in _PICKED]
    return (
        '<section class="card pick" aria-labelledby="pick-name">'
        f'<p class="eyebrow">{say("findings", "pick", "rented" if has_own else "run", model=escape(model))}</p>'
        f'<h2 id="pick-name">{escape(pick.name)}</h2>'
        f'<p class="quiet">{escape(PLATFORM_NAMES.get(pick.platform, pick.platform))} · {precision_words(pick)}</p>'
        f"{run_figures(pick, price_figures(pick.cost))}{reason_lists(pick.reasons, first=chosen[:1])}</section>"
    )


def run_figures(entry: ConfiguredHardware, figures: Sequence[tuple[str, str]] = ()) -> str:
    """Memory and speed of a configuration after other figures, and its memory as a bar."""
    memory, pace = entry.memory, speed_figure(entry.speed)
    used = [(f"Memory used{per_device_words(entry)}", memory_words(memory))] if memory else []
    drawing = ""
    if memory:
        engine = find_engine(entry.engine)
        claims = engine is not None and traits_of(engine).preallocates
        free = say("cards", "free", "of_claim" if claims else "of_device", engine=entry.engine)
        drawing = memory_bar(memory, memory.capacity_bytes) + memory_legend(memory, memory.capacity_bytes, free)
    return f"{definition_list([*figures, *used, *([pace] if pace else [])])}{drawing}"


_PICKED = {"picked_balanced", "picked_cheapest", "picked_fastest"}


def own_text(own: OwnHardware) -> str:
    """Whether the visitor's own cards run it, how fast and in which memory, in a sentence; where they do not, why, and what would."""
    runs = own.runs_as
    if runs is not None:
        return say("findings", "own", "fits", name=own.name, configured=_configured_text(runs))
    return " ".join([say("findings", "own", "refused", name=own.name), *map(sentence, own.obstacles), *larger_texts(own)])


def larger_texts(own: OwnHardware) -> list[str]:
    """More or larger cards that would run it, each in a sentence."""
    return [say("findings", "own", "larger", name=one.name, configured=_configured_text(one)) for one in own.larger]


def _configured_text(entry: ConfiguredHardware) -> str:
    memory = entry.memory
    words = pace_words(entry) + ([] if memory is None else [f"{memory_words(memory)}{per_device_words(entry)}"])
    return ", ".join([*words, f"{entry.precision} with {entry.engine}"])


def pace_words(entry: ConfiguredHardware) -> list[str]:
    """The speed in a phrase, named unless it is in tokens per second; nothing if it is not known."""
    pace = speed_figure(entry.speed)
    return [] if pace is None else [pace[1] if "tokens" in pace[1] else f"{pace[0].lower()} {pace[1]}"]


def own_section(text: str, more: str = "", *, runs: bool) -> str:
    """A sentence about the visitor's own cards, as a card of its own; `more` is markup. Some costs of cards that run it are not counted."""
    not_counted = f'<p class="quiet">{escape(say("findings", "own", "not_counted"))}</p>' if runs else ""
    line = f"<p><strong>{escape(text)}</strong></p>{not_counted}"
    return f'<section class="card own" aria-label="Your own hardware">{line}{more}</section>'


def reason_lists(reasons: Sequence[Reason], assumptions: Sequence[str] = (), first: Sequence[str] = ()) -> str:
    """The weightiest reasons as a list; behind a line the others, and what they rest on with further assumptions.

    `first` are sentences that lead the list and count among its entries; they and `assumptions` are markup already.
    """
    ordered = order_reasons(reasons, MOST_REASONS - len(first))
    shown = [*first, *(escape(sentence(reason)) for reason in ordered.first)]
    folded = [escape(sentence(reason)) for reason in (*ordered.more, *ordered.grounds)]
    folded += [one for one in assumptions if one not in shown and one not in folded]
    return bullet_list(shown, "why") + (fold("More reasons and assumptions", bullet_list(folded, "notes")) if folded else "")


REAL_TIME = "× real time"
"""The unit of speed on sound: seconds of sound in a second."""


def speed_figure(speed: Speed) -> tuple[str, str] | None:
    """Name of the speed, and the speed: predicted, on sound, in tokens or seconds of a request; else the bound, else nothing."""
    if (factor := speed.real_time_factor) is not None:
        return "Speed on sound", f"{rate(factor) if factor >= 1 else f'{factor:.2g}'} {REAL_TIME}"
    if speed.decode_tokens_per_s is not None:
        return "Speed per request", tokens_per_s(speed.decode_tokens_per_s)
    if speed.request_s is not None:
        return "Time of a request", seconds(speed.request_s)
    bound = speed.decode_tokens_per_s_upper_bound
    return None if bound is None else ("Speed per request, at best", tokens_per_s(bound))


def request_words(speed: Speed, task: str) -> str:
    """Which requests a predicted speed is that of."""
    at_once, sound = speed.concurrency or 1, (speed.real_time_factor or 0) * (speed.request_s or 0)
    if family_of(task) in {"image", "video"}:
        made = "picture" if family_of(task) == "image" else "clip"
        return f"1 {made}" if at_once == 1 else f"{at_once} {made}s at the same time"
    prompt = f"{seconds(sound)} of sound" if sound else f"{speed.prompt_tokens} prompt"
    answer = " tokens" if speed.throughput_tokens_per_s is None else f" and {speed.output_tokens} output tokens"
    return f"{'1 request' if at_once == 1 else f'{at_once} concurrent requests'} with {prompt}{answer}"


def precision_words(entry: ConfiguredHardware) -> str:
    """Precision, engine and what they ask of the Space in one phrase; what needs no model memory says so."""
    if entry.hosted_with is None:
        return "the model runs at a provider"
    words = f"{escape(entry.precision)} with {escape(entry.engine)}"
    if entry.sdk == "docker":
        words += " · Docker Space"
    return f"{words} · {entry.replicas:,} machines" if entry.replicas > 1 else words


def memory_words(memory: EntryMemory) -> str:
    """Need against capacity of the fullest device, in one unit."""
    capacity = memory.capacity_bytes
    return gib(memory.per_device_bytes) if capacity is None else f"{gib_figure(memory.per_device_bytes)} of {gib(capacity)}"


def per_device_words(entry: ConfiguredHardware) -> str:
    """Said where memory is that of one device of several."""
    return f" on each of {entry.devices}" if entry.devices > 1 else ""


def recommendation_notes(answer: Recommendation) -> str:
    """Notes on the whole answer: notes, and paying per token where that suits."""
    provider = answer.provider
    without = ""
    if provider.suits:
        served_by = [f"Served by {escape(', '.join(provider.providers))}."] if provider.providers else []
        without = f"<h3>Or rent no hardware</h3>{note_list(provider.reasons, *served_by)}"
    notes = note_list(answer.notes)
    if not notes and not without:
        return ""
    title = "How we rank" + ("; or use an Inference Provider" if without else "")
    return fold(title, f'<section class="card aside">{notes}{without}</section>')


def old_prices(prices: PriceState, today: date | None = None) -> str:
    """A warning where the prices are old; "" if not. `today` is the day to count from."""
    days = days_if_old(prices.checked, today or datetime.now(UTC).date())
    return "" if days is None else say("cards", "prices", "old", checked=prices.checked[:10], days=days)


def old_prices_note(prices: PriceState) -> str:
    """The warning about old prices as markup; "" if they are not old."""
    warning = old_prices(prices)
    return f'<p class="prices old"><strong>{escape(warning)}</strong></p>' if warning else ""


def prices_line(prices: PriceState) -> str:
    """Which prices were used, and how old they are; old ones with a warning."""
    if warning := old_prices_note(prices):
        return warning
    if prices.basis == "live":
        fetched = datetime.fromisoformat(prices.checked).astimezone(UTC)
        return f'<p class="prices">Prices: live from the platform, fetched on {fetched:%Y-%m-%d at %H:%M} UTC.</p>'
    return f'<p class="prices">Prices: bundled with this app, checked {escape(prices.checked)}.</p>'


_KEYS = {"weights": "weights", "kv_cache": "cache", "cache": "cache", "activation": "activations", "activations": "activations"}


def memory_explanation(memory: MemoryAnswer) -> str:
    """Every part opened, then what the estimate leaves open, then the sources with their dates."""
    opened = "".join(_part(part) for part in memory.parts if part.name != "kv_cache" or part.bytes)
    return f'<div class="explain">{opened}{caveat_list(memory.caveats)}{source_list(memory.sources)}</div>'


def _part(part: MemoryPart) -> str:
    key = _KEYS.get(part.name, "runtime")
    label = next(label for part_name, label, _ in PARTS if part_name == key)
    return (
        f'<section class="law"><h3><i class="swatch {key}"></i>{label} <span>{gib(part.bytes)}</span></h3>'
        f"<pre>{escape(part.law)}</pre>"
        + (law_inputs(part.inputs) if part.inputs else "")
        + _split(part)
        + f'<p class="quiet">Exactly {whole(part.bytes)} bytes. Source: {link_source(part.source)}</p></section>'
    )


def law_inputs(inputs: Mapping[str, str]) -> str:
    """Inputs of a law, by name."""
    return definition_list(((escape(name), escape(value)) for name, value in inputs.items()), "inputs")


def _split(part: MemoryPart) -> str:
    """How a part divides, largest first, when it divides at all."""
    if not part.details:
        return ""
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{gib(size)}</td><td>{share(size, part.bytes):.0f} %</td></tr>"
        for name, size in sorted(part.details.items(), key=lambda pair: -pair[1])
    )
    return f'<table class="split"><caption class="sr">{escape(part.name)} by what holds it</caption><tbody>{rows}</tbody></table>'


def note_list(statements: Iterable[Statement], *more: str) -> str:
    """Each distinct caveat or reason in a quiet list; `more` is markup already."""
    return bullet_list([*(escape(sentence(statement)) for statement in dict.fromkeys(statements)), *more], "notes")


def caveat_list(caveats: Sequence[Caveat]) -> str:
    """The caveats of an answer, one sentence each."""
    return f'<section class="caveats"><h3>Assumptions</h3>{note_list(caveats)}</section>' if caveats else ""


def source_list(sources: Sequence[Source]) -> str:
    """Each distinct source of the figures, with the day on which it was checked."""
    if not sources:
        return ""
    items = [
        f"{link_source(source.what)}: {link_source(source.source)} <time>{escape(source.checked)}</time>"
        for source in dict.fromkeys(sources)
    ]
    return f'<section class="sources"><h3>Sources</h3>{bullet_list(items, "notes")}</section>'


def answer_details(answer: Answer) -> str:
    """The caveats and sources of a result, folded behind a line."""
    inner = caveat_list(answer.caveats) + source_list(answer.sources)
    return fold("Assumptions and sources", inner, "behind") if inner else ""
