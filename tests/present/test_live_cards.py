"""The live demo in words: device, progress, chat and heartbeat; nothing that a model or device is called is markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from live_fake import GIB, beat, metrics, piece

from lib.advisor import recommend
from lib.answers.live import ChatPrediction, ErrorRatio, HeartbeatProgress, RunFigures
from lib.catalog import load
from lib.live.device import Device
from lib.live.heartbeat import MatmulCase
from lib.model.bundled import find_spec
from lib.present.live_cards import (
    PUBLISHED_S,
    chat_card,
    chat_text,
    device_line,
    explain_published_time,
    heartbeat_card,
    heartbeat_text,
    phase_words,
    progress_line,
    run_tiers,
    script_block,
    stage_list,
    verdict_sentences,
)
from lib.present.live_measurements import (
    STAGES,
)
from lib.present.numbers import format_flops
from lib.present.sentences import sentence
from lib.workload import Workload

CPU = Device(
    kind="cpu", name="Some <b>Processor</b>", accelerator=None, memory_bytes=16 * GIB, free_bytes=12 * GIB, capability=None, cores=2,
    driver=None, torch="2.13.0", transformers="5.23.0",
)  # fmt: skip


def test_an_answer_stands_beside_its_prediction() -> None:
    """Three figures, each with prediction, range and error; what is not known is said; names are no markup."""
    card = chat_card(metrics(), piece("done", "Hi", taken=metrics()))
    assert "<dd>400 ms<small>predicted 500 ms (250 ms to 1 s)</small><small>25 % too pessimistic</small>" in card
    assert "<dd>10 tokens/s<small>predicted 12 tokens/s (10 to 20 tokens/s)</small><small>25 % too optimistic</small>" in card
    assert "<dd>1.00 GiB<small>predicted 1.00 GiB</small><small>right to half a percent</small>" in card
    assert "Some &lt;Processor&gt;" in card
    assert "<typical>" not in card
    values: dict[str, Any] = dict.fromkeys(("ttft_s", "decode_tokens_per_s", "peak_bytes"))
    nothing, parts = RunFigures(**values), dict.fromkeys(("weights_bytes", "kv_cache_bytes", "activation_bytes"))
    unknown = metrics(predicted=ChatPrediction(**values, **parts, low=nothing, high=nothing), error_ratio=ErrorRatio(**values))
    assert chat_card(unknown, piece("done")).count("not predicted") == 3


def test_the_answer_in_plain_words() -> None:
    """What was said, then what it took."""
    text = chat_text(" Hi there ", metrics())
    assert text.splitlines()[:3] == ["Hi there", "", "tiny-instruct on Some <Processor>"]
    assert "Peak memory: 1.00 GiB, predicted 1.00 GiB (right to half a percent)" in text


def test_where_it_runs() -> None:
    """Cores and memory of a CPU; a GPU by its name; of ZeroGPU also what a second costs."""
    assert "<strong>CPU (2 cores, 16.0 GiB)</strong>, Some &lt;b&gt;Processor" in device_line(CPU, on_space=True)
    assert "The chat is answered by <strong>a/&lt;b&gt;</strong>." in device_line(CPU, on_space=True, chat="a/<b>")
    assert device_line(CPU, on_space=False).startswith('<p class="device" role="status">This app runs on')
    card = replace(CPU, kind="cuda", name="NVIDIA L4", memory_bytes=22 * GIB)
    assert "This Space runs on <strong>NVIDIA L4 (22.0 GiB)</strong>" in device_line(card, on_space=True)
    zero = replace(CPU, kind="zerogpu", name="ZeroGPU large", memory_bytes=48 * GIB)
    assert "takes 1.5 s of your own daily quota" in device_line(zero, on_space=True, quota_per_s=1.5)


def test_stages_tell_where_a_run_is() -> None:
    """Two done, one now, the others ahead; a note is text; a bar where the end is known."""
    shown = stage_list(STAGES, "weights")
    assert [shown.count(f'class="{kind}"') for kind in ("done", "now", "ahead")] == [2, 1, 2]
    assert "<progress" not in progress_line("At <work>")
    assert "At &lt;work&gt;" in progress_line("At <work>")
    assert '<progress max="9" value="3"' in progress_line("At work", 3, 9)


def test_a_heartbeat_that_can_be_believed() -> None:
    """Cold apart from warm, floor, efficiency, rate: a 40 ms median over a floor of 10 ms is 25 %."""
    card = heartbeat_card(beat())
    assert '<span class="figure">40 ms</span> <em class="badge fits">valid</em>' in card
    for name, text in (("First product, cold", "200 ms"), ("Floor", "10 ms"), ("Efficiency", "25.0 %"), ("Achieved", "0.43 TFLOP/s")):
        assert f"<dt>{name}</dt><dd>{text}</dd>" in card
    assert "One product of 128 × 4,096 by 4,096 × 16,384 in float32, on Some &lt;Processor&gt;" in card
    assert "efficiency 25.0 %" in heartbeat_text(beat())


def test_a_heartbeat_that_cannot() -> None:
    """It says so first, and why; it has no efficiency."""
    card = heartbeat_card(beat(valid=False))
    assert "These times cannot be right.</strong> The shortest time was 0.0056 ms" in card
    assert '<em class="badge lacks">not valid</em>' in card
    assert "<dt>Efficiency</dt><dd>none</dd>" in card
    assert "NOT valid" in heartbeat_text(beat(valid=False))


def test_small_words_of_the_heartbeat() -> None:
    """How far it is; a rate in the unit that suits; the script as text."""
    assert phase_words(HeartbeatProgress(phase="warm", done=37, of=1000, last_s=0.0231)) == "Product 37 of 1,000, each awaited: 23.1 ms"
    assert phase_words(HeartbeatProgress(phase="cold", of=1)).startswith("The first product")
    assert format_flops(1.24e10) == "12.4 GFLOP/s"
    assert format_flops(1.5e14) == "150.00 TFLOP/s"
    assert "&lt;b&gt;" in script_block("x.py", "print('<b>')")
    assert 'download="x.py"' in script_block("x.py", "print(1)")


def test_published_time_is_thirty_times_too_short() -> None:
    """268 MB at 1640 GB/s are 0.164 ms, 17.2 GFLOP at 918 TFLOP/s 0.0187 ms; 0.164 / 0.0056 = 29."""
    said = explain_published_time(load().accelerator("TPU-v6e"))
    for part in (
        "0.0056 ms",
        "268 MB",
        "1,640 GB/s",
        "0.164 ms",
        "17.2 GFLOP",
        "0.0187 ms",
        "29 times as long",
        "48 TB/s",
        "3.1 PFLOP/s",
        "dispatch",
    ):
        assert part in said


def test_figures_come_from_the_catalog() -> None:
    """A chip whose memory is twice as fast needs half the time for the weights."""
    chip = load().accelerator("TPU-v6e")
    assert "take 0.0818 ms" in explain_published_time(chip.model_copy(update={"bandwidth": 2 * chip.bandwidth}))


def test_its_case_is_the_default_one() -> None:
    """The words speak of the product that the heartbeat runs."""
    said, case = explain_published_time(load().accelerator("TPU-v6e")), MatmulCase()
    assert f"the weights alone are {case.weight_bytes / 1e6:,.0f} MB" in said
    assert f"its {case.flops / 1e9:,.1f} GFLOP" in said


ANSWER = replace(beat(), median_s=0.3, cold_first_s=0.5, floor_s=0.03, achieved_flops_per_s=57e9, efficiency=0.1)


def test_verdict_of_each_kind() -> None:
    """Valid, without a floor, impossible."""
    assert "57 GFLOP/s" in verdict_sentences(ANSWER)
    assert "reaches 10%" in verdict_sentences(ANSWER)
    assert "reaches" not in verdict_sentences(replace(ANSWER, efficiency=None))
    assert "not possible" in verdict_sentences(replace(ANSWER, valid=False, efficiency=None))
    assert PUBLISHED_S == 5.6e-6


def test_a_run_on_every_tier_is_a_table_with_reasons() -> None:
    """A row for each offer of Spaces and ZeroGPU; where it does not run, the first reason."""
    spec = find_spec("HuggingFaceTB/SmolLM2-360M-Instruct")
    answer = recommend(spec, Workload(precision="bf16", engine="transformers"), load())
    shown = run_tiers(answer)
    assert shown.count('<tr role="row">') - 1 == len(answer.ranked) + len(answer.rejected)
    assert "zero-a10g" in shown
    assert sentence(answer.rejected[0].reason).split(" ")[0] in shown
