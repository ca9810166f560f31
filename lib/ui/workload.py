"""The question of all tabs, in one panel above them; its address; and the configuration that it leads to on some hardware.

Model, concurrent requests, plan and priority come first; all other fields are in one fold. Its bar states their values, and has a button
for the hardware (`assets/page.js`). Gradio builds the fields of a closed fold when it is first opened. Tabs with other questions
(*My Space*, *Live demo*) hide the panel.

The address of an answer has its question as query parameters. A link comes from anyone, so a parameter is used only if it names a field and
reads as that field's type and range; other fields keep their default, and the page names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from lib.advisor.result import ConfiguredHardware, Entry, Recommendation
from lib.catalog.host_memory import LONGEST
from lib.catalog.silicon import OWNED_KINDS, Accelerator
from lib.present.markup import PASTED, escape
from lib.request.serving import MAX_LENGTH, check_serving, keep_experts_in_host
from lib.service.app import Services
from lib.service.recommend import recommend
from lib.ui import fields as ask
from lib.ui.fields import FIELDS_BY_NAME, MODEL_LENGTH, QUESTION, Field, Value, arguments


def number(asked: str | ask.Field, info: str | None = None, *, step: float = 1, visible: bool = True) -> gr.Number:
    """The field of a number: one of a tab by its name, or one of a box. In a panel two of them share a line.

    Its range is checked by the page's script, next to the field, and by the service: Gradio's own check would refuse every later event of
    the page, in no words.
    """
    field = FIELDS_BY_NAME[asked] if isinstance(asked, str) else asked
    precision = 0 if isinstance(field.default, int) else None
    return gr.Number(
        field.default,  # type: ignore[arg-type]
        label=field.label,
        info=info or field.info,
        precision=precision,
        step=step,
        min_width=120,
        elem_id=f"q-{field.name}",
        elem_classes="half",
        visible=visible,
    )


def slider(field: ask.Field, info: str | None = None, *, step: float = 1) -> gr.Slider:
    """The slider of a number, over its whole range."""
    name, start = f"q-{field.name}", field.default
    return gr.Slider(field.low, field.high, value=start, step=step, buttons=[], label=field.label, info=info, elem_id=name)  # type: ignore[arg-type]


def choice(name: str, words: Sequence[tuple[str, str]] = ()) -> gr.Dropdown:
    """The list of a field's choices, by their words where it has some."""
    field = FIELDS_BY_NAME[name]
    choices = list(words or field.choices)
    return gr.Dropdown(choices, value=field.default, label=field.label, info=field.info, min_width=120, elem_id=f"q-{name}")  # type: ignore[arg-type]


Inputs = dict[str, Any]
"""The questions of a tab by their names in a link, in the order of its fields."""


def in_order(fields: Sequence[ask.Field], inputs: Inputs) -> Inputs:
    """The inputs of the fields in their order; a field that the layout does not name gets its input here, at the end."""
    made = {field.name: choice(field.name) if field.choices else number(field) for field in fields if field.name not in inputs}
    return {field.name: (inputs | made)[field.name] for field in fields}


def fold_button(label: str, target: str) -> gr.HTML:
    """A button that opens and closes a panel on narrow screens; the style hides it on wide ones."""
    return gr.HTML(
        f'<button type="button" class="fold" data-fold="{escape(target)}" aria-expanded="false"><span>{escape(label)}</span></button>',
        elem_classes="fold-holder",
    )


_BAR = (
    '<div class="more-bar"><button type="button" class="fold" data-fold="#more" aria-expanded="false"><span>More</span> '
    '<span class="folded"></span></button><button type="button" class="act" data-hardware>Hardware: we choose</button></div>'
)
"""The bar of the fold. The page's script writes the values into it; its second button opens the fold at the list of hardware."""


def build(services: Services, config: gr.Textbox) -> tuple[Inputs, list[Any]]:
    """The panel: first fields, the fold with the others and with the place for a config.json.

    Returns the inputs of `lib.ui.fields.QUESTION`, and the component that is shown for each row of `lib.ui.fields.FIELDS_BY_MEDIUM`.
    """
    with gr.Column(elem_id="workload"):
        with gr.Row(elem_id="first-fields"):
            q: Inputs = {"concurrency": number("concurrency"), "account": choice("account", ask.ACCOUNT_WORDS)}
            q["priority"] = gr.Radio(list(ask.PRIORITY_WORDS), value="balanced", label="Priority", elem_classes="segments")
        gr.HTML(_BAR, elem_id="more-bar")
        with gr.Accordion("More", open=False, elem_id="more"):  # its own button is hidden: the bar presses it
            with gr.Column(elem_classes="fields"):
                rows = _request_fields(q)
            with gr.Column(elem_classes="fields"):
                _hardware_fields(services, q)
            with gr.Column(elem_classes="fields"):
                _limit_fields(q)
            with gr.Accordion("Paste a config.json instead of a model's name", open=False, elem_classes="quiet-accordion", elem_id="paste"):
                config.render()  # type: ignore[no-untyped-call]
            return in_order(ask.QUESTION, q), rows


def _request_fields(q: Inputs) -> list[Any]:
    """The fields of the requests: their lengths and their number. Returns the component of each row of `FIELDS_BY_MEDIUM`."""
    label = FIELDS_BY_NAME["context"].label
    q["context"] = gr.Slider(512, 131_072, value=4096, step=512, buttons=[], label=label, elem_id="q-context")
    q |= {name: number(name, visible=name in {"prompt", "answer"}) for name in ("prompt", "answer", "frames", "sound")}
    with gr.Column(visible=False, elem_classes="together") as pictures:
        q |= {name: number(name) for name in ("width", "height", "denoising")}
        q["guidance"] = choice("guidance", ask.GUIDANCE_WORDS)
    with gr.Column(visible=False, elem_classes="together") as images:
        q |= {name: number(name) for name in ("images", "image_width", "image_height")}
    q |= {name: number(name) for name in ("requests", "hours", "daily_visitors")}
    q["visitors"] = choice("visitors", ask.VISITOR_WORDS)
    shown = {"pictures": pictures, "clips": q["frames"], "images": images}
    return [shown.get(medium) or q[medium] for medium in ask.FIELDS_BY_MEDIUM]


def _hardware_fields(services: Services, q: Inputs) -> None:
    """The fields of the hardware to look at, and of the software on it."""
    catalog = services.catalog()
    choices = [("Let us choose", "auto"), *ask.hardware_words(catalog), *ask.own_words(catalog)]
    q["hardware"] = gr.Dropdown(choices, value="auto", label="Check specific hardware", min_width=120, elem_id="q-hardware")
    q["cards"] = number("cards")
    q["ram"] = _line("ram", LONGEST, info="Such as 64 GB DDR5-6000. Empty: assumed.")
    q["precision"] = choice("precision", ask.precision_choices())
    q["engine"] = choice("engine", ask.ENGINE_WORDS)
    q["serving"] = _line(
        "serving",
        MAX_LENGTH,
        info="Flags of vLLM, SGLang, TensorRT-LLM, TGI or llama.cpp, such as --max-num-seqs 64. Empty: its defaults. Enter takes them.",
    )


def _limit_fields(q: Inputs) -> None:
    """The fields that decide which hardware is recommended."""
    q["platforms"] = gr.CheckboxGroup(list(ask.PLATFORM_WORDS), value=["spaces"], label="Where", elem_classes="plain-choices")
    q["task"] = choice("task", ask.TASKS)
    q["sdk"] = choice("sdk", ask.SDK_WORDS)
    q["budget"], q["speed"], q["ttft"] = number("budget"), number("speed"), number("ttft", step=0.1)


def _line(name: str, longest: int, *, info: str) -> gr.Textbox:
    """The field of a line of text."""
    label = FIELDS_BY_NAME[name].label
    return gr.Textbox("", label=label, info=info, max_lines=1, max_length=longest, min_width=120, elem_id=f"q-{name}")


def recommend_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The question of a tab's values as arguments of `/recommend`."""
    asked = arguments(QUESTION, values[: len(QUESTION)])
    del asked["hardware"], asked["cards"], asked["host_memory"]
    return {**asked, "platforms": asked["platforms"] or "spaces"}


def own_hardware(services: Services, values: Sequence[Value]) -> dict[str, str]:
    """The visitor's own cards and the memory of their machine, as arguments of `/recommend`; empty where rented hardware is looked at."""
    asked = arguments(QUESTION, values[: len(QUESTION)])
    card = services.catalog().accelerators.get(str(asked["hardware"]))
    if card is None:
        return {}
    return _own_arguments(name_cards(card, int(asked["cards"])), card, values)


def name_cards(card: Accelerator, count: int) -> str:
    """Cards with their number, as the endpoints take them (`RTX-4090x2`); a Mac has no number."""
    return card.id if count == 1 or card.kind == "apple" else f"{card.id}x{count}"


def tab_arguments(values: Sequence[Value], of: Sequence[ask.Field]) -> dict[str, Any]:
    """The tab's own values, which follow the question's, as arguments."""
    return arguments(of, values[len(QUESTION) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareChoice:
    """The hardware that a question leads to: its name for other endpoints ("" where nothing qualifies), and its configuration.

    `entry` is `None` where it does not do the work; `by_visitor` tells that a visitor named it.
    """

    hardware: str
    entry: ConfiguredHardware | None
    by_visitor: bool


def choose_hardware(services: Services, model: str, values: Sequence[Value]) -> HardwareChoice:
    """The named hardware, else the pick of `/recommend`, each in the configuration that `/recommend` found.

    Raises:
        AdvisorError: the question is refused.
    """
    stated = arguments(QUESTION, values[: len(QUESTION)])
    asked, hardware = recommend_arguments(values), str(stated["hardware"])
    if hardware == "auto":
        pick = services[recommend](model, **asked).pick
        return HardwareChoice(hardware="" if pick is None else entry_name(pick), entry=pick, by_visitor=False)
    hardware = own_hardware(services, values).get("own_hardware", hardware)
    return HardwareChoice(hardware=hardware, entry=configure_named(services, model, values, hardware), by_visitor=True)


def configure_named(services: Services, model: str, values: Sequence[Value], hardware: str) -> ConfiguredHardware | None:
    """How the question's work runs on a tier or on own cards with this name; None if it does not run.

    Raises:
        AdvisorError: the question is refused, or no hardware has this name.
    """
    looked_at = place_arguments(services, values, hardware)
    answer = services[recommend](model, **{**recommend_arguments(values), **looked_at})
    if "own_hardware" not in looked_at:
        return find_entry(answer, hardware)
    return None if answer.own is None else answer.own.runs_as


def place_arguments(services: Services, values: Sequence[Value], hardware: str) -> dict[str, str]:
    """The arguments with which `/recommend` looks at hardware of this name: own cards in the stated machine, or every platform.

    Raises:
        UnknownHardware: no hardware has this name.
    """
    named = services.catalog().resolve_hardware(hardware)
    if not named.traits.owned or named.silicon is None or named.silicon.kind not in OWNED_KINDS:
        return {"platforms": "all"}
    return _own_arguments(hardware, named.silicon, values)


def _own_arguments(hardware: str, card: Accelerator, values: Sequence[Value]) -> dict[str, str]:
    """Own cards and the stated memory of their machine; a Mac states its own."""
    stated = arguments(QUESTION, values[: len(QUESTION)])
    return {"own_hardware": hardware} | ({"host_memory": str(stated["host_memory"])} if card.kind == "gpu" else {})


def run_settings(entry: ConfiguredHardware, serving: str) -> dict[str, Any]:
    """The entry's configuration and the stated settings of a server, as arguments of other endpoints."""
    kept = keep_experts_in_host(check_serving("serving", serving), entry.cpu_moe_layers)
    return {"precision": entry.precision, "engine": entry.engine, "gpu_layers": entry.gpu_layers, "serving": kept.stated}


def find_entry(answer: Recommendation, hardware: str) -> Entry | None:
    """The entry of this hardware, if it qualifies."""
    return next((one for one in answer.ranked if entry_name(one) == hardware), None)


def entry_name(entry: Entry) -> str:
    """An entry's hardware as other endpoints take it."""
    return f"{entry.platform}:{entry.hardware}"


def link_text(value: Value) -> str:
    """A value as a link carries it."""
    return ",".join(value) if isinstance(value, list) else str(value)


def link_query(tab: str, model: str, fields: Sequence[Field], values: Sequence[Value]) -> str:
    """The query of a link to this answer, defaults left out. A pasted config.json is not in it: the link says that there was one."""
    query = {
        field.name: link_text(value) for field, value in zip(fields, values, strict=True) if value != field.default and value is not None
    }
    pasted = model.lstrip().startswith("{") or len(model) > MODEL_LENGTH
    asked = {"config": PASTED} if pasted else {"model": model}
    return "?" + urlencode({"tab": tab, **asked, **query})


def current_link(params: Mapping[str, str]) -> Mapping[str, str]:
    """The parameters as this page takes them: training was once a use of the tab Memory, and links of that time still arrive."""
    trained = params.get("mode", "") in {value for _, value in ask.METHOD_WORDS}
    return {**params, "tab": "train", "method": params["mode"]} if trained and params.get("tab") == "memory" else params


def asks_something(params: Mapping[str, str]) -> bool:
    """Whether the address has other parameters than the theme: then its page opens without the example's answer."""
    return any(name != "__theme" for name in params)


def read_link(fields: Sequence[Field], params: Mapping[str, str]) -> tuple[list[Value], list[str]]:
    """Values for the fields from a link's parameters, and the names of those that could not be used."""
    values: list[Value] = []
    unread: list[str] = []
    for field in fields:
        value = field.read(params[field.name]) if field.name in params else field.default
        if value is None:
            unread.append(field.name)
        values.append(field.default if value is None else value)
    return values, unread
