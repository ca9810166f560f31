"""One visual system: theme, style sheet and page script, for `Blocks.launch`; nothing is loaded from anywhere else."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.themes.utils.colors import Color

from lib.present.cards import PART_COLOURS
from lib.ui.fields import ALL_FIELDS, EXAMPLE, MODEL_LENGTH
from lib.ui.tabs import BOX_FIELDS, TABS
from lib.workload import OUTPUT_TOKENS, PROMPT_SHARE, PROMPT_TOKENS

TITLE = "Spaces Hardware Advisor"
ASSETS = Path(__file__).resolve().parents[2] / "assets"

_INK = Color(
    "#f7f8fa", "#eef0f3", "#dfe3e8", "#c6ccd5", "#9aa3b0", "#6b7480", "#515a66", "#3a424d", "#262c35", "#1a1f27", "#12161c", name="ink"
)
_TEAL = Color(
    "#effaf8", "#d6f1ec", "#aee2d9", "#7bcdc1", "#47b0a4", "#24918a", "#14756f", "#0f5e5b", "#0f4b4a", "#103e3d", "#052524", name="teal"
)
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


def theme() -> gr.themes.Base:
    """The theme: quiet neutrals, one accent, contrast of at least 4.5 in both modes."""
    base = gr.themes.Base(
        primary_hue=_TEAL, secondary_hue=_TEAL, neutral_hue=_INK, font=_SANS, font_mono=_MONO, radius_size="md", text_size="md"
    )
    return base.set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        background_fill_primary="white",
        background_fill_primary_dark="*neutral_900",
        block_background_fill="*background_fill_primary",
        block_border_width="0px",
        block_shadow="none",
        block_label_text_color="*body_text_color",
        block_label_text_color_dark="*body_text_color",
        block_title_text_color="*body_text_color",
        block_title_text_color_dark="*body_text_color",
        block_title_text_weight="600",
        block_title_text_size="*text_sm",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        body_text_color="*neutral_800",
        body_text_color_dark="*neutral_100",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        border_color_primary="*neutral_200",
        border_color_primary_dark="*neutral_700",
        input_background_fill="white",
        input_background_fill_dark="*neutral_950",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_600",
        input_border_width="1px",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
        slider_color="*primary_600",
        slider_color_dark="*primary_400",
        link_text_color="*primary_700",
        link_text_color_dark="*primary_300",
    )


def style_sheet() -> str:
    """The style sheet of the page, with the charts' colours of the parts of memory as its variables."""
    colours = "".join(f"--{part}: {colour};" for part, colour in PART_COLOURS.items())
    return f".gradio-container {{{colours}}}\n" + (ASSETS / "page.css").read_text(encoding="utf-8")


def page_script() -> str:
    """The page's script, with the fields, numbers, tabs and parts of the page written into it."""
    numbers = [(field, "") for field in ALL_FIELDS if not field.choices]
    numbers += [(field, box) for box, fields in BOX_FIELDS.items() for field in fields]
    page = {
        "fields": [{"name": field.name, "default": field.default} for field in ALL_FIELDS],
        "numbers": [{"name": one.name, "label": one.label, "low": one.low, "high": one.high, "box": box} for one, box in numbers],
        "tabs": {tab.word: tab.name for tab in TABS},
        "left": [tab.name for tab in TABS if not tab.asks_workload],
        "usual": {"output": OUTPUT_TOKENS, "prompt": PROMPT_TOKENS, "share": PROMPT_SHARE},
        "panels": [asdict(panel) | {"tab": tab.name} for tab in TABS for panel in tab.panels],
        "longest": MODEL_LENGTH,
        "example": EXAMPLE,
        "home": home_address(),
    }
    parts = "".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / "parts").glob("*.js")))
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return script.replace("__PARTS__", parts).replace("__PAGE__", json.dumps(page))


def home_address() -> str:
    """The address that visitors of a Space see: its page on the Hub, which passes a link's parameters on. Empty anywhere else."""
    space = os.environ.get("SPACE_ID", "")
    return f"https://huggingface.co/spaces/{space}" if space else ""


def launch_options() -> dict[str, Any]:
    """The options of `Blocks.launch` for the page's looks; add server options to them."""
    return {
        "theme": theme(),
        "css": style_sheet(),
        "js": page_script(),
        "footer_links": ["api"],
    }
