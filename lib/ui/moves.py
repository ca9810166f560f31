"""What counts as a visitor's change of a field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gradio as gr


def moves(components: Iterable[Any]) -> list[Any]:
    """The events to listen to.

    A slider's number box takes any value while it is typed (Gradio refuses one beyond the range) and puts it into the range when it is
    left, which only `change` tells.
    """
    return [event for c in components for event in ((c.input, c.change) if isinstance(c, gr.Slider) else (c.input,))]
