"""The parts of a predicted time, opened: seconds, law, inputs, source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.speed.result import SpeedPart

if TYPE_CHECKING:
    from lib.speed.case import Setup
    from lib.speed.forecast import Step
    from lib.speed.many import Speeds

FITTED = "constants fitted by scripts/calibrate.py"
ROOFLINE = "Williams et al. 2009, doi:10.1145/1498765.1498785; " + FITTED


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s / 1e12:.2f} T{unit}/s" if per_s >= 1e12 else f"{per_s / 1e9:.1f} G{unit}/s"  # noqa: PLR2004


def _card(of: Setup) -> dict[str, str]:
    share = "" if of.on.share == 1 else f", {of.on.share:.2g} of it"
    return {"hardware": f"{of.laid.split} × {of.on.silicon.name}{share}", "bandwidth": _rate(of.on.silicon.bandwidth * of.on.share, "B")}


def _common(step: Step, of: Setup) -> list[SpeedPart]:
    stack = of.numbers.decoder or of.numbers.encoder
    layers = f"{stack.layers:g}" if stack else "0"
    return [
        SpeedPart(
            name="host and launches",
            seconds=float(step.host[0]),
            law="layers · time of a layer + time of a step + sequences · time of a sequence",
            inputs={"layers": layers, "engine": of.laid.engine},
            source="lib/laws/speed/host_time.py; " + FITTED,
        ),
        SpeedPart(
            name="exchange between devices",
            seconds=float(step.exchange[0]),
            law="2 · layers · (latency · log₂ N + bytes / link · (N - 1)/N)",
            inputs={"N": str(of.laid.split), "link": _rate(of.on.link, "B")},
            source="Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; " + FITTED,
        ),
    ]


def _arithmetic(seconds: float, of: Setup, tokens: float) -> SpeedPart:
    stack = of.numbers.decoder or of.numbers.encoder
    used = stack.active if stack else 0.0
    return SpeedPart(
        name="arithmetic",
        seconds=seconds,
        law="2 · parameters · tokens / compute reached",
        inputs={"parameters a token uses": f"{used:,.0f}", "tokens": f"{tokens:,.0f}", "units": of.arithmetic},
        source="Kaplan et al. 2020, arXiv:2001.08361; " + FITTED,
    )


def decode_parts(found: Speeds) -> tuple[SpeedPart, ...]:
    """Parts of one decode step. Reading weights overlaps with arithmetic, and in eager engines launching with both: they do not add up."""
    of, step = found.setups[0], found.forecast.step
    stack = of.numbers.decoder
    held = stack.dense_bytes + stack.expert_bytes if stack else 0.0
    return (
        SpeedPart(
            name="reading weights",
            seconds=float(step.weights[0]),
            law="(dense bytes + expert bytes · (1 - (1 - k/E)ⁿ)) / N / bandwidth reached",
            inputs={"bytes": f"{held:,.0f}", "precision": of.precision, "sequences": f"{of.running:g}", **_card(of)},
            source=ROOFLINE,
        ),
        SpeedPart(
            name="reading the cache",
            seconds=float(step.cache[0]),
            law="sequences · cache of one sequence / N / bandwidth reached",
            inputs={
                "bytes per token": f"{of.numbers.cache_per_token:,.0f}",
                "tokens": f"{of.request.prompt_tokens + of.request.output_tokens / 2:g}",
                "sequences": f"{of.running:g}",
            },
            source="lib/laws/speed/cache_read.py; " + FITTED,
        ),
        _arithmetic(float(step.compute[0]), of, of.running),
        *_common(step, of),
    )


def prompt_parts(found: Speeds) -> tuple[SpeedPart, ...]:
    """Parts of reading the prompts of the running requests at once, with the encoder before it and what waiting adds."""
    of, f = found.setups[0], found.forecast
    tokens = float(found.cases.prompt[0]) * of.running
    known = float(f.prompt[0]) + float(found.encoder_s[0])
    parts = [
        _arithmetic(float(f.prompt_step.compute[0]), of, tokens),
        SpeedPart(
            name="attention",
            seconds=float(f.prompt_attention[0]),
            law="2 · heads · width · (full layers · T² + windowed layers · T · min(T, 2w)) / compute reached",
            inputs={"T": f"{of.request.prompt_tokens}"},
            source="lib/laws/speed/work.py; " + FITTED,
        ),
        SpeedPart(
            name="reading weights",
            seconds=float(f.prompt_step.weights[0]),
            law="bytes / N / bandwidth reached",
            inputs=_card(of),
            source=ROOFLINE,
        ),
        *_common(f.prompt_step, of),
    ]
    if found.encoder_s[0]:
        parts.append(
            SpeedPart(
                name="encoder",
                seconds=float(found.encoder_s[0]),
                law="as for the prompt, with the encoder's layers",
                inputs={"positions": f"{of.numbers.encoder_tokens or of.request.prompt_tokens}"},
                source=FITTED,
            )
        )
    parts.append(
        SpeedPart(
            name="requests ahead and fixed time",
            seconds=float(found.first_s.value[0]) - known,
            law="queue of a closed loop; negative where a request does not wait for the prompts of all others",
            inputs={"in flight": f"{of.request.concurrency}", "running": f"{of.running:g}"},
            source="Reiser and Lavenberg 1980, doi:10.1145/322186.322195; " + FITTED,
        )
    )
    return tuple(parts)
