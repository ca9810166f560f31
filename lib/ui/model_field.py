"""Which model: one field above all tabs, suggestions while typing, a place for a config.json, and a line that names the model.

The field is a text box with the browser's own list of suggestions (`assets/page.js` ties them together): Enter takes the typed text.
Gradio's Dropdown would take its first suggestion instead, so that "7B" became a model that happens to hold those letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.advisor.candidates import family_of, lengths_of, own_task
from lib.errors import AdvisorError, HubError, NotPermitted, RepoGated, RepoNotFound
from lib.present.cards import model_choices, model_line
from lib.present.markup import escape, hint_note, refusal_note, suggestion_list
from lib.present.numbers import whole
from lib.present.wording import page_note
from lib.service.resolve_model import resolve_model
from lib.ui import account
from lib.ui.fields import EXAMPLE
from lib.workload import LONGEST_CONTEXT

if TYPE_CHECKING:
    from lib.service.app import Services

_SEARCH_FROM = 3
_SUGGESTED = 60
_FINE_STEP_UP_TO = 8192
_STEP = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReference:
    """The model that every tab asks about, as the visitor named it.

    `text` ("" while there is no model) may be a whole config.json, so it is a field that the page does not show: its text stays in the
    visitor's browser, while a `gr.State` keeps its value on the server.
    """

    text: gr.Textbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """The components of the model bar; `limit` holds the model's longest context."""

    model: gr.Textbox
    token: gr.Textbox
    suggested: gr.HTML
    config: gr.Textbox
    check: gr.Button
    facts: gr.HTML
    reference: ModelReference
    limit: gr.State


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """Values of the model field: markup, the reference to ask with ("" when refused), the longest context, and its media.

    "tokens" among them says that it is not a pipeline: layers and a context can be asked about.
    """

    facts: str
    reference: str
    context_limit: int
    media: tuple[str, ...] = ("tokens", *lengths_of("generate"))


EXAMPLES = (
    ("Small chat model on CPU", "?model=HuggingFaceTB/SmolLM2-135M-Instruct&priority=cheapest"),
    ("8B on ZeroGPU", "?model=meta-llama/Llama-3.1-8B-Instruct"),
    ("120B MoE", "?model=openai/gpt-oss-120b&engine=vllm"),
    ("Image model", "?model=stabilityai/stable-diffusion-xl-base-1.0"),
    ("Fine-tune 8B with QLoRA", "?tab=train&model=meta-llama/Llama-3.1-8B-Instruct&method=qlora"),
)


def example_links() -> str:
    """Questions to try."""
    links = "".join(f'<a href="{escape(query)}">{escape(words)}</a>' for words, query in EXAMPLES)
    return f'<p class="examples"><span>Try:</span> {links}</p>'


def build(services: Services) -> ModelView:
    """The model bar. The place for a config.json is rendered with the workload, which folds on narrow screens."""
    with gr.Row(elem_classes="model-row"):
        model = gr.Textbox(
            value=EXAMPLE,
            label="Model",
            info="A Hub id such as Qwen/Qwen3-8B, a GGUF file such as owner/name:Q4_K_M, or a parameter count such as 7B.",
            lines=1,
            max_lines=1,
            scale=5,
            min_width=240,
            elem_id="model",
        )
        check = gr.Button("Find hardware", variant="primary", scale=1, min_width=150, elem_id="check")
    gr.HTML(example_links(), elem_id="examples")
    token = _access_box(services)
    config = gr.Textbox(
        label="config.json",
        info="For a private or unpublished model. While this box is open and holds text, it is used in place of the model above.",
        lines=6,
        max_lines=14,
        elem_id="config",
        render=False,
    )
    suggested = gr.HTML(suggestion_list(()), elem_id="suggested")
    facts = gr.HTML(elem_id="facts")
    reference = ModelReference(text=gr.Textbox("", visible=False, elem_id="model-reference"))
    return ModelView(
        model=model,
        token=token,
        suggested=suggested,
        config=config,
        check=check,
        facts=facts,
        reference=reference,
        limit=gr.State(LONGEST_CONTEXT),
    )


_SIGN_IN = '<p><a class="act" data-sign-in href="/login/huggingface?_target_url=">Sign in with Hugging Face</a></p>'


def _access_box(services: Services) -> gr.Textbox:
    """The sign-in and the field for a token, which appears where the Hub refuses a model to anonymous readers.

    The field is not an input of any event: the page's script sends it as a header (`lib.ui.http.callers`). No body and no session has it.
    """
    with gr.Row(elem_id="access"):
        if services.account_actions and account.can_sign_in():
            gr.HTML(_SIGN_IN)
        return account.token_field("model-token", "Token to read this model", page_note("model_token"))


def resolve(services: Services, model: str | None, config: str | None) -> ResolvedModel:
    """Resolve the model, or the config.json if there is one; a refusal becomes a sentence, and the inputs stay as they are."""
    reference = (config or "").strip() or (model or "").strip()
    try:
        answer = services[resolve_model](reference)
    except AdvisorError as error:
        sentence, near = (error.sentence, error.near) if isinstance(error, HubError) else (str(error), ())
        # The page's script repeats the element around the refusal in every empty answer; the choices are outside, so they appear once.
        facts = f"<div>{refusal_note(sentence, page_note('model_unusable'))}</div>{model_choices(near)}"
        if isinstance(error, RepoGated | RepoNotFound | NotPermitted):
            facts = f"<div data-closed>{facts}</div>"
        return ResolvedModel(facts=facts, reference="", context_limit=LONGEST_CONTEXT)
    makes = answer.library == "diffusers"
    task = own_task(answer.task, generates=bool(answer.cache) or answer.source == "rule_of_thumb")
    made = ("pictures" if makes else "tokens", *(["clips"] if makes and answer.task.endswith("-to-video") else []))
    limit, media = answer.context_limit_tokens or LONGEST_CONTEXT, (*answer.media, *made, *lengths_of(family_of(task)))
    return ResolvedModel(
        facts=f'<div data-media="{" ".join(media)}">{model_line(answer)}</div>',  # for the bar of the workload (`assets/page.js`)
        reference=reference,
        context_limit=min(limit, LONGEST_CONTEXT),
        media=media,
    )


def suggestions(services: Services, typed: str) -> list[str]:
    """Bundled ids that hold every typed word, then what the Hub finds; without the Hub, the bundled ones alone."""
    words = typed.casefold().split()
    bundled = [model_id for model_id in services.bundled_models() if all(word in model_id.casefold() for word in words)]
    if len(typed.strip()) < _SEARCH_FROM or len(bundled) >= _SUGGESTED or typed.lstrip().startswith("{"):
        return bundled[:_SUGGESTED]
    try:
        hits = services.search_models(typed)
    except HubError:
        hits = ()  # suggestions are a convenience: the field takes any id, and resolving it reports a failure of the Hub
    return list(dict.fromkeys([*bundled, *hits]))[:_SUGGESTED]


def context_slider(limit: int, value: object) -> dict[str, Any]:
    """The context slider for a model: up to its limit, the value kept where it is still inside, fine steps for short ones.

    A kept value below the first step lowers the start of the slider: Gradio refuses every later event over a value outside its range.
    """
    tokens = int(value) if isinstance(value, int | float) else None
    step = 64 if limit <= _FINE_STEP_UP_TO or (tokens is not None and tokens < _STEP) else _STEP
    position = min(step, limit) if tokens is None else min(max(tokens, 1), limit)
    return dict(gr.update(minimum=min(step, position), maximum=limit, step=step, value=position))


def context_note(limit: int) -> str:
    """The note when the context asked for is beyond the model's own limit."""
    return hint_note(page_note("context_cut").format(tokens=whole(limit)))


def wire(view: ModelView, services: Services) -> None:
    """Suggestions follow the typing; what the model is, is answered by the page, for every tab."""

    def suggest(typed: str) -> str:
        return suggestion_list(suggestions(services, typed))

    view.model.input(
        suggest,
        view.model,
        view.suggested,
        queue=False,
        show_progress="hidden",
        trigger_mode="always_last",
        api_name="model_suggested",
        api_visibility="private",
    )
