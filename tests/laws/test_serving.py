"""Requests that share an engine: places, queues and times, on numbers worked out by hand."""

from __future__ import annotations

import pytest

from lib.laws.serving import (
    chance_of_decoding,
    decoding_requests,
    full_load_throughput,
    queue_time,
    running_requests,
    time_per_output_token,
    time_to_first_token,
)


def test_admitted_is_bounded_by_the_engine_and_by_the_memory() -> None:
    """92 GB claimed less 80 GB of weights leave room for 12 sequences of 1 GB; the engine's own limit may be less; one always runs."""
    assert float(running_requests(limit=256, memory=100e9, weight_bytes=80e9, sequence_bytes=1e9)) == pytest.approx(12)
    assert float(running_requests(limit=8, memory=100e9, weight_bytes=80e9, sequence_bytes=1e9)) == 8
    assert float(running_requests(limit=8, memory=100e9, weight_bytes=200e9, sequence_bytes=1e12)) == 1


def test_a_closed_loop_of_one_has_no_queue() -> None:
    """One request: it decodes alone, nothing interrupts it, and its first token is prompt + fixed time: it waits for no step."""
    assert float(decoding_requests(requests=1, prompt_s=1.0, step_s=0.01, output_tokens=100)) == 1
    assert time_per_output_token(step_s=0.01, prompt_s=1.0, requests=1, output_tokens=100, interference=0.7) == 0.01
    assert float(chance_of_decoding(requests=1, prompt_s=1.0, step_s=0.01, output_tokens=100)) == 0
    first = time_to_first_token(
        prompt_s=1.0, requests=1, decoding=0, queued=0.1, bunched=1.3, tpot_s=0.01, steps=2, output_tokens=100, fixed_s=0.05
    )
    assert float(first.total) == pytest.approx(1.05)


def test_requests_of_one_length_come_while_prompts_are_read() -> None:
    """Two in flight, prompts of 1 s: a tenth of the other ahead, and 1.3 prompts more where all lengths are equal."""
    law = {
        "prompt_s": 1.0,
        "requests": 2,
        "decoding": 1.0,
        "queued": 0.1,
        "tpot_s": 0.01,
        "steps": 2,
        "output_tokens": 100,
        "fixed_s": 0.05,
    }
    differ, equal = (float(time_to_first_token(bunched=phi, **law).total) for phi in (0.0, 1.3))
    assert differ == pytest.approx(1.0 + 0.1 + 0.02 + 0.05)
    assert equal - differ == pytest.approx(1.3)


def test_an_answer_of_two_tokens_keeps_nobody_waiting_for_three_steps() -> None:
    """A first token comes with the prompt, so two tokens are one decode step: no more is waited for; one token is none."""
    law = {"prompt_s": 1.0, "requests": 9, "decoding": 1.0, "queued": 0.0, "bunched": 0.0, "tpot_s": 0.01, "steps": 3, "fixed_s": 0.0}
    assert [float(time_to_first_token(output_tokens=tokens, **law).total) for tokens in (1, 2, 100)] == pytest.approx([1.0, 1.01, 1.03])


def test_others_prompts_are_in_the_time_between_tokens() -> None:
    """Eleven requests: ten prompts of 1 s interrupt 100 tokens, 70 % of each: 0.01 + 0.7 · 10 / 100 = 0.08 s."""
    assert time_per_output_token(step_s=0.01, prompt_s=1.0, requests=11, output_tokens=100, interference=0.7) == pytest.approx(0.08)


def test_requests_beyond_the_places_wait_for_others_to_end() -> None:
    """Thirty in flight, ten places, 1 s + 100 · 0.01 s each: every request waits for two others: 4 s."""
    assert queue_time(requests=30, running=10, ttft_s=1.0, tpot_s=0.01, output_tokens=100) == pytest.approx(4.0)
    assert queue_time(requests=5, running=10, ttft_s=1.0, tpot_s=0.01, output_tokens=100) == 0.0


def test_full_load_is_the_prompt_and_a_share_of_every_step() -> None:
    """Prompts of 0.5 s, 20 sequences, steps of 40 ms, 100 tokens: 100 / (0.5 + 100 · 0.04 / 20) = 100 / 0.7."""
    assert full_load_throughput(prompt_s=0.5, step_s=0.04, running=20, output_tokens=100) == pytest.approx(100 / 0.7)
