"""The box of inverse questions, without a browser."""

from __future__ import annotations

import page_values

from lib.service.app import Services
from lib.ui.solve_box import CHOOSE, NOT_TRAINING, solve_html

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MEMORY = page_values.asked("memory")


def test_the_box_answers_for_the_questions_of_the_tab(whole: Services) -> None:
    """The figures of /solve, with the context of the tab; a refusal and a missing model become sentences."""
    answer = whole.solve(LLAMA, "l4x1", context_tokens=4096, max_ttft_s=2)
    shown = solve_html(whole, LLAMA, ["spaces:l4x1", 2, 0], MEMORY)
    assert f"{answer['longest_context']['value']:,} tokens" in shown
    assert all(way["effect"] in shown for way in answer["memory_savings"])
    assert CHOOSE in solve_html(whole, "", ["spaces:l4x1", 0, 0], MEMORY)
    assert "There is no hardware called" in solve_html(whole, LLAMA, ["nowhere", 0, 0], MEMORY)
    assert "RTX 4090" in solve_html(whole, LLAMA, ["RTX-4090", None, None], MEMORY)
    assert NOT_TRAINING in solve_html(whole, LLAMA, ["spaces:l4x1", 0, 0], page_values.asked("memory", mode="lora"))
