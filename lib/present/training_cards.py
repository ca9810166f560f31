"""Fine-tuning in words and as markup: where, how long and how much, then memory, hardware, what to change, the recipe; as text and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from markupsafe import Markup

from lib.answers.training import ShardingEntry, TrainingAnswer, TrainingChangeEntry
from lib.catalog import largest_stated_ram
from lib.laws.price import HOUR_S
from lib.present.cards import PLATFORM_NAMES, own_section
from lib.present.charts import swatch
from lib.present.html import render_html, trusted, with_small
from lib.present.markup import code_blocks, fold, hint_note
from lib.present.numbers import duration, gib, gib_figure, seconds, share, tokens_per_s, usd, usd_an_hour, usd_per_hour
from lib.present.sentences import note, say, sentence
from lib.present.tables import FIRST_ROWS, csv_text, hardware_name, show_table
from lib.present.wording import load_wording
from lib.provenance import Reason
from lib.speed.phases import TrainingPhase
from lib.speed.shardings import ShardingOption
from lib.speed.training_hardware import TrainingChange, TrainingOption, find_started, is_host_unstated
from lib.workload import TrainingRequest

PARTS: dict[str, tuple[str, str]] = {
    "weights": ("weights", "Weights"),
    "float32 tables and norms": ("weights", "Weights kept in float32 (embeddings, norms)"),
    "master weights": ("master", "Master weights"),
    "16-bit copies": ("master", "16-bit copies, gathered weights"),
    "adapters": ("adapters", "Adapters"),
    "reference model": ("weights", "Reference model"),
    "value model": ("master", "States of the value model"),
    "vLLM": ("rollout", "vLLM"),
    "cache of the answers": ("rollout", "KV cache of the answers"),
    "forward pass": ("activations", "Forward pass"),
    "optimizer": ("optimizer", "Optimizer states"),
    "optimizer step": ("optimizer", "Temporary copies in the optimizer step"),
    "gradients": ("gradients", "Gradients"),
    "text encoders": ("weights", "Text encoders"),
    "VAE": ("weights", "VAE"),
    "unpacked weights": ("activations", "Frozen weights unpacked for the backward pass"),
    "saved activations": ("activations", "Saved activations"),
    "activations of the encoder": ("activations", "Activations of the tower or encoder"),
    "passing gradients": ("activations", "Activation gradients of one layer"),
    "logits and loss": ("loss", "Logits and loss"),
    "fragmentation and workspace": ("runtime", "Fragmentation and workspace"),
    "CUDA context": ("runtime", "CUDA context"),
}
"""The colour's name and the label of each part, in the order of the bar."""
SHARDING_WORDS = {
    "none": "None: one GPU", "ddp": "DDP", "zero1": "ZeRO 1", "zero2": "ZeRO 2", "zero3": "ZeRO 3", "fsdp": "FSDP",
    "fsdp_offload": "FSDP with offload", "fsdp1": "FSDP version 1", "fsdp_grad_op": "FSDP, gradients and optimizer only",
    "fsdp_hybrid": "FSDP within each of two machines", "zero2_offload": "ZeRO 2, optimizer on the CPU",
    "zero3_offload": "ZeRO 3, optimizer on the CPU",
}  # fmt: skip
OBJECTIVE_WORDS = {
    "sft": "Supervised", "dpo": "DPO", "kto": "KTO", "reward": "Reward model", "orpo": "ORPO", "grpo": "GRPO",
    "contrastive": "Embeddings from pairs", "contrastive-cached": "Embeddings from pairs, in parts", "rerank": "Reranker",
    "classify": "Classification",
}  # fmt: skip
PHASE_WORDS = {
    "policy forward": "Forward", "reference forward": "Reference, without gradient", "backward": "Backward", "update": "Update",
    "rollout": "Rollout", "scoring": "Scoring, without gradient",
}  # fmt: skip
METHODS = {"full": "Full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA", "lora-8bit": "LoRA in 8 bits"}
VERDICTS = {"fits": "Fits", "risky": "Risky", "no": "Does not fit"}


def describe_changes(request: TrainingRequest, changes: Iterable[TrainingChange]) -> tuple[TrainingChangeEntry, ...]:
    """Changes of a request, each with its sentence about the request after it."""
    sentences: Mapping[str, str] = load_wording("training")["changes"]

    def describe(change: TrainingChange) -> str:
        after = replace(request, **change.fields)
        return sentences[change.code].format_map(asdict(after) | {"sequence_tokens": after.sequence_tokens - after.media_tokens})

    return tuple(
        TrainingChangeEntry(
            code=change.code,
            message=describe(change),
            saved_bytes=change.saved_bytes,
            device_bytes=change.device_bytes,
            speed_ratio=change.speed_ratio,
            hardware=None if change.cheaper is None else change.cheaper.hardware,
            platform=None if change.cheaper is None else change.cheaper.platform,
            name=None if change.cheaper is None else change.cheaper.name,
            usd=None if change.cheaper is None else change.cheaper.usd,
        )
        for change in changes
    )


def sharding_sentence(method: str, option: ShardingOption) -> str:
    """Whether a training fits with a sharding: how many GPUs of which kind, and the bytes of each."""
    way = say("training", "shared", option.sharding, method=METHODS[method])
    gpu, devices, high = option.accelerator, option.devices, gib(option.device_high_bytes)
    each = {"capacity": gib(option.capacity_bytes), "high": high}
    if devices is None:
        return note("training", "one_gpu" if option.sharding == "none" else "no_number", way=way, gpu=gpu, **each)
    host, ram = gib(option.host_bytes), option.host_memory_bytes
    if option.hardware is None and ram is not None and option.host_bytes > ram:
        return note("training", "ram_lacks", way=way, devices=devices, gpu=gpu, host=host, ram=gib(ram))
    if option.hardware is None and ram is None and option.host_bytes > (most := largest_stated_ram()):
        return note("training", "ram_unknown", way=way, devices=devices, gpu=gpu, host=host, ram=gib(most))
    needs = note("training", "needs_host" if option.host_bytes else "needs", each=gib(option.device_bytes), host=host, **each)
    if option.hardware is None:
        return note("training", "several_machines", way=way, devices=devices, gpu=gpu, needs=needs)
    price = f", {usd_per_hour(option.usd_per_hour)} per hour" if option.usd_per_hour is not None else ""
    risky = is_host_unstated(option.host_bytes, ram)
    return note(
        "training", "fits_unstated" if risky else "fits", way=way, devices=devices, gpu=gpu, where=f"{option.hardware}{price}", needs=needs
    )


COLOURS: dict[str, str] = {
    "weights": "#3d74b8", "master": "#6a95cd", "adapters": "#b06fb5", "gradients": "#c8553d", "optimizer": "#c98018",
    "activations": "#2f9e7a", "rollout": "#7479c9", "loss": "#6b9a38", "runtime": "#8b93a1",
}  # fmt: skip
"""Distinct in hue and lightness on both themes, as the parts of memory are."""
LABELS = {
    "weights": "Weights", "master": "Master weights and copies", "adapters": "Adapters", "gradients": "Gradients",
    "optimizer": "Optimizer", "activations": "Saved activations", "rollout": "KV cache of answers, or vLLM",
    "loss": "Logits and loss", "runtime": "CUDA context and fragmentation",
}  # fmt: skip
_CSV = (
    "hardware", "platform", "devices", "verdict", "capacity_bytes", "needed_bytes", "longest_sequence_tokens", "largest_micro_batch",
    "tokens_per_s", "hours", "usd_per_hour", "usd", "sharding",
)  # fmt: skip


def _sizes(answer: TrainingAnswer) -> dict[str, int]:
    """Bytes by colour, in the order of the bar."""
    sizes = dict.fromkeys(COLOURS, 0)
    for part in answer.parts:
        sizes[PARTS[part.name][0]] += part.bytes
    return {name: size for name, size in sizes.items() if size}


def training_card(answer: TrainingAnswer, model: str) -> str:
    """Hardware to train on, hours and price; then the memory of a step with its bar and its parts."""
    best = next((row for row in merge_twins(answer.options) if row.option.verdict != "no"), None)
    sizes, total, shown = _sizes(answer), answer.device_bytes, Markup("{} <small>{} %</small>")
    values = {
        "answer": answer,
        "model": model,
        "way": _way(answer),
        "alone": any(option.verdict != "no" and option.devices == answer.devices for option in answer.options),
        "step_tokens": f"{answer.tokens_per_step:,}",
        "parts": [{"width": f"{share(size, total):.2f}", "colour": COLOURS[name]} for name, size in sizes.items()],
        "legend": [
            (trusted(swatch(COLOURS[name], "swatch")) + LABELS[name], shown.format(gib(size), f"{share(size, total):.0f}"))
            for name, size in sizes.items()
        ],
    }
    if best is None:
        return render_html("training.html.j2", option=None, here="", nearest=nearest_sentence(answer), **values)
    option = best.option
    return render_html(
        "training.html.j2",
        option=option,
        places=best.places,
        cards=f"{option.devices} GPUs with {SHARDING_WORDS[option.sharding]}" if option.devices > 1 else "1 GPU",
        steps=f"{answer.steps:,}",
        figures=_place_figures(answer, option),
        here=_needed_here(answer, option),
        **values,
    )


_ALIKE = 0.01
"""Share by which the bytes on one card may differ from those of a step before the card says why."""


def _needed_here(answer: TrainingAnswer, option: TrainingOption) -> str:
    """Why a GPU of this hardware needs other bytes than the step above; empty if it does not, and on another number of GPUs."""
    if option.devices != answer.devices or abs(option.needed_bytes / answer.device_bytes - 1) <= _ALIKE:
        return ""
    reason = "share" if option.rollout_share else "vllm" if option.rollout_devices else "fp16" if option.compute_dtype == "fp16" else ""
    code = f"here:{reason}" if reason else "here"
    return note("training", code, name=option.name, needed=gib(option.needed_bytes), percent=100 * (option.rollout_share or 0))


def _place_figures(answer: TrainingAnswer, option: TrainingOption) -> list[tuple[str, str]]:
    """Time, cost, memory and speed of a run."""
    figures: list[tuple[str, str]] = []
    if option.hours is not None:
        figures.append(("Time", with_small(duration(option.hours), _hours_range(option, answer.total_tokens))))
    if option.usd is not None:
        start = "" if not option.start_s else note("training", "with_start", start=duration(option.start_s / HOUR_S))
        figures.append(("Cost", with_small(usd(option.usd), _hourly(option) + start)))
    elif option.usd_per_hour is not None:
        figures.append(("Price", _hourly(option)))
    figures.append(("Memory per GPU", f"{gib_figure(option.needed_bytes)} of {gib(option.capacity_bytes)}"))
    if option.tokens_per_s is not None:
        rate = tokens_per_s(option.tokens_per_s)
        figures.append(("Speed", rate if option.step_s is None else with_small(rate, f"{seconds(option.step_s)} a step")))
    return figures


def _hourly(option: TrainingOption) -> str:
    return "" if option.usd_per_hour is None else usd_an_hour(option.usd_per_hour)


def nearest_sentence(answer: TrainingAnswer) -> str:
    """The bytes that the nearest hardware lacks, if none fits; and how many GPUs would do, where some number does."""
    if not answer.options:
        return note("training", "nothing")
    nearest = min(answer.options, key=_overflow)
    reasons = " ".join(map(sentence, nearest.reasons))
    lacks = note("training", "nearest", name=nearest.name, reasons=reasons)
    enough = sorted((one for one in answer.shardings if one.devices), key=lambda one: (one.host_bytes > 0, one.devices or 0))
    more = enough[0] if enough else None
    return f"{lacks} {more.message}" if more is not None else lacks


def _overflow(option: TrainingOption) -> float:
    """Bytes that are needed over those that are there, of the memory that lacks most."""
    missing = (why.values for why in option.reasons if "capacity_bytes" in why.values)
    return max((float(values["needed_bytes"]) / float(values["capacity_bytes"]) for values in missing), default=0.0)


def own_training_text(answer: TrainingAnswer) -> str:
    """Whether the visitor's own cards hold the training, in a sentence, and how long it takes; else why not, and how many would."""
    if answer.own is None:
        return ""
    cards, larger = answer.own.cards, answer.own.larger
    if cards.verdict == "no":
        reasons = " ".join(map(sentence, cards.reasons))
        if larger is None:
            return note("training", "own_no", name=cards.name, reasons=reasons)
        several = larger.machines > 1
        more = note("training", "own_machines", machines=larger.machines, name=larger.name) if several else larger.name
        return note("training", "own_larger", name=cards.name, reasons=reasons, larger=more, placed=_placed_text(larger))
    said = note("training", "own", name=cards.name, verdict=VERDICTS[cards.verdict].lower(), placed=_placed_text(cards))
    return " ".join((said, *map(sentence, cards.reasons)))


def _placed_text(option: TrainingOption) -> str:
    words = [] if option.hours is None else [duration(option.hours)]
    words += [f"{gib(option.needed_bytes)} of {gib(option.capacity_bytes)} per GPU"]
    words += [say("training", "shared", option.sharding, method=f"{option.devices} GPUs") if option.devices > 1 else "1 GPU trains"]
    words += [f"{gib(option.host_bytes)} of RAM"] if option.host_bytes else []
    return ", ".join(words)


def own_training_card(answer: TrainingAnswer) -> str:
    """The training on the visitor's own cards, before hardware for rent; nothing without them."""
    return "" if answer.own is None else own_section(own_training_text(answer), runs=answer.own.cards.verdict != "no")


def _hours_range(option: TrainingOption, total_tokens: int) -> str:
    """The ends of the time, fastest first; nothing if they read alike."""
    fast, slow = option.tokens_per_s_high, option.tokens_per_s_low
    if not fast or not slow:
        return ""
    ends = [duration(total_tokens / pace / HOUR_S) for pace in (fast, slow)]
    return "" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


class OptionRow(NamedTuple):
    """Hardware and the platforms that rent it out at the same price."""

    option: TrainingOption
    places: str


def merge_twins(options: Sequence[TrainingOption]) -> list[OptionRow]:
    """One row for hardware that several platforms rent out at one price, in the order of the options."""
    twins: dict[tuple[object, ...], list[TrainingOption]] = {}
    for one in options:
        twins.setdefault((*one.setup, one.usd_per_hour), []).append(one)
    return [OptionRow(same[0], " or ".join(PLATFORM_NAMES[one.platform] for one in same)) for same in twins.values()]


def drop_idle(rows: Sequence[OptionRow]) -> list[OptionRow]:
    """The rows without those that pay more for the same GPUs in use: more GPUs that would idle, or more CPU."""
    first: dict[tuple[object, ...], OptionRow] = {}
    for row in sorted(rows, key=lambda row: row.option.usd_per_hour or 0):
        first.setdefault((row.option.accelerator, row.option.devices, row.option.sharding), row)
    return [row for row in rows if row in first.values()]


def _way(answer: TrainingAnswer) -> str:
    """Method and objective, as the head of the card has them."""
    return METHODS[answer.method] + ("" if answer.objective == "sft" else f" ({OBJECTIVE_WORDS[answer.objective]})")


def phases_table(phases: Sequence[TrainingPhase]) -> str:
    """Content of each phase of a step, and its time on the card of `TrainingPhase`, folded; nothing for a picture model."""
    if not phases:
        return ""
    rows = [(PHASE_WORDS[one.name], gib(one.allocated_bytes), _phase_time(one.seconds, one.time_share)) for one in phases]
    heads = ("Phase", "Allocated", note("training", "phases_title"))
    return fold("Phases of a step", show_table("Phases of a step", heads, rows, "training-phases"))


def _phase_time(taken_s: float | None, part: float | None) -> str | Markup:
    return "–" if taken_s is None or part is None else with_small(seconds(taken_s), f"{100 * part:.0f} %")


def options_table(options: Sequence[TrainingOption]) -> str:
    """Hardware with hours and dollars: options that fit, then risky ones, folded; if none fits, the nearest one, marked so."""
    rows = merge_twins(options)
    fits, risky = ([row for row in drop_idle(rows) if row.option.verdict == verdict] for verdict in ("fits", "risky"))
    if not fits and not risky:
        nearest = sorted(rows, key=lambda row: _overflow(row.option))[:_NEAREST]
        return _options(note("training", "table_nearest"), nearest) if nearest else ""
    title = note("training", "table_fits" if any(row.option.usd is not None for row in fits) else "table_fits_hourly")
    lines = [_options(title, fits[:FIRST_ROWS])] if fits else []
    if rest := fits[FIRST_ROWS:]:
        line = note("training", "more_fit" if len(rest) > 1 else "one_more_fits", rows=len(rest))
        lines.append(fold(line, _options("More that fits", rest)))
    if risky:
        table = _options(note("training", "table_risky"), risky)
        lines.append(fold(note("training", "more_risky", rows=len(risky)), table) if fits else table)
    return "".join(lines)


_NEAREST = 3
_HEADS = ("Hardware", "Time", "Cost", "Memory per GPU", "Longest sequence", "Largest micro-batch")


def _options(caption: str, rows: Sequence[OptionRow]) -> str:
    return show_table(caption, _HEADS, list(map(_row, rows)), "training-options")


def _row(row: OptionRow) -> tuple[str, ...]:
    option = row.option
    speed, hours = option.tokens_per_s, option.hours
    cards = f"{option.devices} GPUs, {SHARDING_WORDS[option.sharding]}" if option.devices > 1 else ""
    name = with_small(option.name, row.places)
    room = "".join((f"of {gib(option.capacity_bytes)}", *(f", {_shortage(why)}" for why in option.reasons)))
    return (
        with_small(name, cards),
        "–" if hours is None else with_small(duration(hours), "" if speed is None else tokens_per_s(speed)),
        with_small("–" if option.usd is None else usd(option.usd), _hourly(option)),
        with_small(gib(option.needed_bytes), room),
        f"{option.longest_sequence_tokens:,}" if option.longest_sequence_tokens else "none",
        f"{option.largest_micro_batch:,}" if option.largest_micro_batch else "none",
    )


def _shortage(why: Reason) -> str:
    """The bytes that a memory lacks; of RAM that is not stated, those that it has to hold."""
    needed = int(why.values["needed_bytes"])
    if "capacity_bytes" not in why.values:
        return f"RAM not stated, needs {gib(needed)}"
    kind = "RAM " if why.code == "training_host_memory" else ""
    return f"{kind}{gib(needed - int(why.values['capacity_bytes']))} short"


def shardings_table(answer: TrainingAnswer) -> str:
    """If one GPU does not hold the training: a row for each way to share it over several, what fits first; folded where some fits."""
    shardings = answer.shardings
    if not shardings or shardings[0].hardware is not None:
        return ""
    rows = [_sharding_row(one) for one in sorted(shardings[1:], key=lambda one: (one.hardware is None, one.usd_per_hour or 0))]
    heads = ("Sharding", "Hardware", "GPUs", "Memory per GPU", "Per hour")
    title = "Several GPUs: what each sharding needs"
    return _folded_if_fits(answer, title, show_table(title, heads, rows, "training-shardings"))


def _folded_if_fits(answer: TrainingAnswer, title: str, table: str) -> str:
    """Changes that help are open if nothing fits, and folded otherwise."""
    return fold(title, table) if any(one.verdict == "fits" for one in answer.options) else table


def _sharding_row(one: ShardingEntry) -> tuple[str, ...]:
    fits = one.hardware is not None
    where = with_small("none listed", one.accelerator)
    if fits:
        where = hardware_name(one.name or "", one.hardware or "", one.platform or "")
    return (
        SHARDING_WORDS[one.sharding],
        where,
        "does not fit on any number" if one.devices is None else f"{one.devices:,}",
        with_small(gib(one.device_bytes), f"at most {gib(one.device_high_bytes)} of {gib(one.capacity_bytes)}"),
        usd_per_hour(one.usd_per_hour) if fits and one.usd_per_hour is not None else "–",
    )


_LEAST_SAVED = 0.02
"""Share of the memory that a change has to save to be listed: less is within the estimate's error."""


def changes_table(answer: TrainingAnswer) -> str:
    """Ways to save memory, each on its own, with its price in speed; folded where some hardware fits."""
    worth = [one for one in answer.changes if one.saved_bytes >= _LEAST_SAVED * answer.device_bytes]
    if not worth:
        return ""
    cheaper = min(((one.usd, one.name) for one in worth if one.usd is not None and one.name is not None), default=None)
    heads = ("Change", "Saves", "Memory after", "Speed", *(("Cheaper hardware that then fits",) if cheaper else ()))
    rows = [
        (one.message, gib(one.saved_bytes), gib(one.device_bytes), _ratio(one.speed_ratio), *((_cheaper(one),) if cheaper else ()))
        for one in worth
    ]
    table = show_table(note("training", "table_changes"), heads, rows, "training-changes")
    title = note("training", "changes")
    if cheaper is not None:
        title = note("training", "changes:cheaper", usd=usd(cheaper[0]), name=cheaper[1])
    return _folded_if_fits(answer, title, table)


def _cheaper(change: TrainingChangeEntry) -> str:
    """The hardware that a change makes large enough, with the price of the run."""
    return "–" if change.usd is None else with_small(change.name or "", usd(change.usd))


def _ratio(ratio: float | None) -> str:
    """The effect on speed: "6 % slower"."""
    if ratio is None:
        return "–"
    percent = round(100 * (ratio - 1))
    return "same" if percent == 0 else f"{abs(percent)} % {'faster' if percent > 0 else 'slower'}"


def recipe(answer: TrainingAnswer) -> str:
    """The script and the line that starts it on the hardware of the card."""
    place = find_started(answer.options, answer.own.cards if answer.own else None)
    if answer.command is None or answer.script is None or place is None:
        return hint_note(note("training", "no_script"))
    server = [] if answer.server_command is None else [(note("training", "start_server"), answer.server_command)]
    started = note("training", "start", where=f"{place.name} ({PLATFORM_NAMES[place.platform]})")
    return code_blocks([(started, answer.command), *server, ("train.py", answer.script)])


def training_text(answer: TrainingAnswer, model: str) -> str:
    """The answer in a few plain lines: where, how long, how much, then the memory."""
    parts = ", ".join(f"{LABELS[name].lower()} {gib(size)}" for name, size in _sizes(answer).items())
    first = next((option for option in answer.options if option.verdict != "no"), None)
    best = nearest_sentence(answer)
    if first is not None:
        figures = [] if first.hours is None else [duration(first.hours)]
        figures += [] if first.usd is None else [usd(first.usd)]
        best = f"{first.name} ({first.hardware}): {', '.join(figures) or VERDICTS[first.verdict].lower()}."
    own = f"{own_training_text(answer)}\n" if answer.own is not None else ""
    return f"{own}{model}, {_way(answer)}: {best}\nA step takes {gib(answer.device_bytes)} ({parts})."


def options_csv(answer: TrainingAnswer) -> str:
    """Every piece of hardware as CSV in base units, the visitor's own cards first."""
    own = () if answer.own is None else (answer.own.cards,)
    return csv_text(_CSV, (*own, *answer.options))
