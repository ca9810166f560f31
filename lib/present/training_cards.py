"""Fine-tuning in words and as markup: card with its bar, hardware with hours and dollars, what to change, the recipe; as text and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lib.answers.training import ShardingEntry, TrainingAnswer, TrainingChangeEntry
from lib.present.charts import swatch
from lib.present.markup import code_blocks, definition_list, escape, fold, hint_note
from lib.present.numbers import count, gib, share, usd, usd_per_hour
from lib.present.tables import FIRST_ROWS, csv_text, hardware_name, table_markup
from lib.speed.phases import TrainingPhase
from lib.speed.shardings import ShardingOption
from lib.speed.training import TrainingOption

PARTS: dict[str, tuple[str, str]] = {
    "weights": ("weights", "Weights"),
    "float32 tables and norms": ("weights", "Weights kept in float32 (embeddings, norms)"),
    "master weights": ("master", "Master weights"),
    "16-bit copies": ("master", "16-bit copies, gathered weights"),
    "adapters": ("adapters", "Adapters"),
    "reference model": ("weights", "Reference model"),
    "optimizer": ("optimizer", "Optimizer states"),
    "optimizer step": ("optimizer", "Temporary copies in the optimizer step"),
    "gradients": ("gradients", "Gradients"),
    "saved activations": ("activations", "Saved activations"),
    "passing gradients": ("activations", "Activation gradients of one layer"),
    "logits and loss": ("loss", "Logits and loss"),
    "fragmentation and workspace": ("runtime", "Fragmentation and workspace"),
    "CUDA context": ("runtime", "CUDA context"),
}
"""The colour's name and the label of each part, in the order of the bar."""
SHARDING_WORDS = {
    "none": "None: one GPU", "ddp": "DDP", "zero1": "ZeRO 1", "zero2": "ZeRO 2", "zero3": "ZeRO 3", "fsdp": "FSDP",
    "fsdp_offload": "FSDP with offload",
}  # fmt: skip
OBJECTIVE_WORDS = {"sft": "Supervised", "dpo": "DPO", "kto": "KTO", "reward": "Reward model"}
PHASE_WORDS = {"policy forward": "Forward", "reference forward": "Reference, without gradient", "backward": "Backward", "update": "Update"}
METHODS = {"full": "Full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}
VERDICTS = {"fits": "Fits", "risky": "Risky", "no": "Does not fit"}
CHANGES: dict[str, str] = {
    "method_lora": "Train LoRA adapters of rank {rank} instead of all weights.",
    "method_qlora": "Store the base weights in 4 bits (QLoRA).",
    "rank": "Halve the adapter rank to {rank}.",
    "checkpointing_layers": "Use gradient checkpointing on every layer: activations are recomputed in the backward pass.",
    "checkpointing_offloaded": "Offload the checkpointed activations to host memory.",
    "fused_loss": "Use a fused loss (Liger, cut cross entropy): the logits are never all in memory together.",
    "optimizer_adamw_8bit": "Use 8-bit AdamW (bitsandbytes).",
    "optimizer_paged_adamw_8bit": "Use paged 8-bit AdamW: its states move to host memory when the GPU is full.",
    "precision_bf16": "Train in pure bf16 without master weights; small updates get rounded away.",
    "micro_batch": "Use a micro-batch of {micro_batch} with {accumulation} accumulation steps.",
    "sequence": "Shorten sequences to {sequence_tokens:,} tokens.",
    "attention": "Use a fused attention kernel (sdpa) instead of eager.",
    "shard_2": "Shard weights, gradients and optimizer states over 2 GPUs (FSDP).",
    "shard_8": "Shard weights, gradients and optimizer states over 8 GPUs (FSDP).",
}


def change_sentence(code: str, request: Mapping[str, Any]) -> str:
    """What to change, in words.

    Args:
        code: of the change.
        request: the request after the change, by field.
    """
    return CHANGES[code].format_map(request)


_SHARED = {
    "none": "", "ddp": " with DDP", "zero1": " with ZeRO 1", "zero2": " with ZeRO 2", "zero3": " with ZeRO 3", "fsdp": " with FSDP",
    "fsdp_offload": " with FSDP and offload to host memory",
}  # fmt: skip


def sharding_sentence(method: str, option: ShardingOption) -> str:
    """Whether a training fits with a sharding: how many GPUs of which kind, and the bytes of each."""
    way, gpu, devices = METHODS[method] + _SHARED[option.sharding], option.accelerator, option.devices
    room, high = f"of {gib(option.capacity_bytes)}", gib(option.device_high_bytes)
    if devices is None and option.sharding == "none":
        return f"{way} does not fit on one GPU: the largest, {gpu}, would need {high} {room} (upper estimate)."
    if devices is None:
        return f"{way} does not fit on any number of GPUs: each {gpu} would need {high} {room} (upper estimate)."
    needs = f"each needs {gib(option.device_bytes)} {room}, at most {high}"
    needs += f", and the host {gib(option.host_bytes)}" if option.host_bytes else ""
    if option.hardware is None:
        return f"{way} needs {devices} × {gpu}, more than any hardware listed here has: {needs}."
    price = f", {usd_per_hour(option.usd_per_hour)} per hour" if option.usd_per_hour is not None else ""
    return f"{way} fits on {devices} × {gpu} ({option.hardware}{price}): {needs}."


COLOURS: dict[str, str] = {
    "weights": "#3d74b8", "master": "#6a95cd", "adapters": "#b06fb5", "gradients": "#c8553d", "optimizer": "#c98018",
    "activations": "#2f9e7a", "loss": "#6b9a38", "runtime": "#8b93a1",
}  # fmt: skip
"""Distinct in hue and lightness on both themes, as the parts of memory are."""
LABELS = {
    "weights": "Weights", "master": "Master weights and copies", "adapters": "Adapters", "gradients": "Gradients",
    "optimizer": "Optimizer", "activations": "Saved activations", "loss": "Logits and loss", "runtime": "CUDA context and fragmentation",
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
    """One figure, one bar, the parts, and what allocated and reserved are."""
    sizes, total = _sizes(answer), answer.device_bytes
    bar = "".join(f'<i class="seg" style="width:{share(size, total):.2f}%;background:{COLOURS[name]}"></i>' for name, size in sizes.items())
    legend = (
        (swatch(COLOURS[name], "swatch") + LABELS[name], f"{gib(size)} <small>{share(size, total):.0f} %</small>")
        for name, size in sizes.items()
    )
    where = f"on each of {answer.devices} GPUs" if answer.devices > 1 else "on one GPU"
    host = f", {gib(answer.host_bytes)} in host memory" if answer.host_bytes else ""
    steps = f"{answer.tokens_per_step:,} tokens a step · {answer.steps:,} steps"
    trained = f"{count(answer.trained_parameters)} parameters trained · {steps}"
    return (
        '<section class="card training-card" aria-label="Memory of a training step"><h2 class="sr">Memory of a training step</h2>'
        f'<p class="eyebrow">{_way(answer)} of {escape(model)} needs</p>'
        f'<p class="headline"><span class="figure">{gib(total)}</span> {where}{host}</p>'
        f'<p class="quiet">between {gib(answer.device_low_bytes)} and {gib(answer.device_high_bytes)} · allocated '
        f"{gib(answer.allocated_bytes)}, reserved {gib(answer.reserved_bytes)} · {trained}</p>"
        f'<div class="bar" aria-hidden="true">{bar}</div>{definition_list(legend, "legend")}</section>'
    )


def _way(answer: TrainingAnswer) -> str:
    """Method and objective, as the head of the card has them."""
    return METHODS[answer.method] + ("" if answer.objective == "sft" else f", {OBJECTIVE_WORDS[answer.objective]},")


def phases_table(phases: Sequence[TrainingPhase]) -> str:
    """What each phase of a step holds, and its share of the time."""
    rows = [
        (PHASE_WORDS[one.name], gib(one.allocated_bytes), "–" if one.time_share is None else f"{100 * one.time_share:.0f} %")
        for one in phases
    ]
    return table_markup("Phases of a step", ("Phase", "Allocated", "Time"), rows, "training-phases")


def options_table(options: Sequence[TrainingOption]) -> str:
    """Hardware with its verdict, hours and dollars; what fits first."""
    if not options:
        return hint_note("No hardware on these platforms can train this. With sharding, only hardware with several GPUs is listed.")
    heads = ("Hardware", "Verdict", "Memory", "Tokens/s", "Hours", "Price", "Longest sequence", "Largest micro-batch")
    rows = [_row(option) for option in ([one for one in options if one.verdict != "no"] or options[:3])]
    first = table_markup("Hardware that fits, cheapest training run first", heads, rows[:FIRST_ROWS], "training-options")
    if len(rows) <= FIRST_ROWS:
        return first
    more = table_markup("More that fits", heads, rows[FIRST_ROWS:], "training-options more")
    return first + fold(f"{len(rows) - FIRST_ROWS} more that fit", more)


def _row(option: TrainingOption) -> tuple[str, ...]:
    speed, hours = option.tokens_per_s, option.hours
    hourly = option.usd_per_hour
    price = "–" if option.usd is None else f"{usd(option.usd)}<small>{usd_per_hour(hourly)} per hour</small>"
    name = hardware_name(option.name, option.hardware, option.platform)
    cards = f"<small>{option.devices} GPUs, {SHARDING_WORDS[option.sharding]}</small>" if option.devices > 1 else ""
    return (
        name + cards,
        f"<strong>{VERDICTS[option.verdict]}</strong>",
        f"{gib(option.needed_bytes)}<small>of {gib(option.capacity_bytes)}</small>",
        "–" if speed is None else f"{speed:,.0f}",
        "–" if hours is None else f"{hours:,.1f}",
        price,
        f"{option.longest_sequence_tokens:,}",
        f"{option.largest_micro_batch:,}",
    )


def shardings_list(shardings: Sequence[ShardingEntry]) -> str:
    """Where one GPU does not hold the training: a sentence for each way to share it over several."""
    if not shardings or shardings[0].hardware is not None:
        return ""
    items = "".join(f"<li>{escape(one.message)}</li>" for one in shardings)
    return f'<section class="card"><h3>Several GPUs: which sharding fits</h3><ul>{items}</ul></section>'


def changes_table(changes: Sequence[TrainingChangeEntry]) -> str:
    """What would take less memory, each on its own, with its price in speed."""
    if not changes:
        return ""
    rows = [(escape(one.message), gib(one.saved_bytes), gib(one.device_bytes), _ratio(one.speed_ratio)) for one in changes]
    heads = ("Change", "Saves", "Memory after", "Speed")
    return table_markup("Ways to save memory (savings do not add up)", heads, rows, "training-changes")


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.0f} % of today's"


def recipe(answer: TrainingAnswer) -> str:
    """The script and the line that starts it on Jobs."""
    if answer.command is None or answer.script is None:
        return hint_note("A script is only written for supervised training of a Hub model on one GPU of Jobs.")
    return code_blocks([("Start it on Jobs", answer.command), ("train.py", answer.script)])


def training_text(answer: TrainingAnswer, model: str) -> str:
    """The answer in a few plain lines."""
    parts = ", ".join(f"{LABELS[name].lower()} {gib(size)}" for name, size in _sizes(answer).items())
    first = next((option for option in answer.options if option.verdict != "no"), None)
    best = ""
    if first is not None and first.hours is not None:
        price = "" if first.usd is None else f", {usd(first.usd)}"
        best = f"\n{first.name} ({first.hardware}): {first.hours:,.1f} hours{price}."
    return f"{model}, {_way(answer)}: {gib(answer.device_bytes)} ({parts}).{best}"


def options_csv(options: Sequence[TrainingOption]) -> str:
    """Every piece of hardware as CSV in base units."""
    return csv_text(_CSV, options)
