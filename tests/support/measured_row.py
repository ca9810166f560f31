"""A measurement as the tests of the ledger use it."""

from __future__ import annotations

from dataclasses import replace

from lib.live.measurements import Measurement

ROW = Measurement(
    when="2026-11-21T09:30Z",
    kind="measure",
    device="NVIDIA L4",
    accelerator="L4",
    devices=1,
    driver="580.65.06",
    torch="2.13.0",
    engine="transformers 5.23.0",
    model="Qwen/Qwen3-0.6B",
    architecture="Qwen3ForCausalLM",
    weights="random",
    precision="bf16",
    prompt_tokens=512,
    output_tokens=64,
    predicted_peak_bytes=1_500_000_000,
    peak_bytes=1_450_000_000,
    predicted_ttft_s=0.05,
    ttft_s=0.048,
    predicted_decode_tokens_per_s=90.0,
    decode_tokens_per_s=84.5,
    provenance="measured on this machine",
)


def row(**named: object) -> Measurement:
    """The same with other values."""
    return replace(ROW, **named)  # type: ignore[arg-type]
