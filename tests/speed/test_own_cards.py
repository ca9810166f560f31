"""Cards that people own: they leave the fitted cards as they were, and Apple's GPUs come near what was published of them."""

from __future__ import annotations

import pytest

from lib.catalog import load
from lib.errors import BadArgument
from lib.model import bundled
from lib.speed import SpeedRequest, predict_speed

CATALOG = load()
LLAMA = bundled.find_spec("meta-llama/Llama-3.1-8B-Instruct")


def test_cards_without_a_fit_do_not_move_the_others() -> None:
    """The ceilings of an A100 are the same with and without an RTX 5090 in the catalog, which it exceeds in both."""
    assert LLAMA is not None
    fitted = {key: card for key, card in CATALOG.accelerators.items() if card.in_calibration}
    for key in ("A100-SXM4-80GB", "T4", "L40S"):
        request = SpeedRequest(precision="int4", engine="vllm")
        hardware = CATALOG.resolve_hardware(key)
        assert (
            predict_speed(LLAMA, hardware, request, CATALOG.accelerators).tpot_s == predict_speed(LLAMA, hardware, request, fitted).tpot_s
        )


@pytest.mark.parametrize(
    ("mac", "written", "read"),
    [("M1-Max-64GB", 46.2, 499.58), ("M4-16GB", 20.87, 224.81)],  # llama-bench tg128 and pp512, brand-o/normiebench issues 40 and 3
)
def test_a_mac_with_llama_cpp(mac: str, written: float, read: float) -> None:
    """Llama 3.1 8B in Q4_K_M: the published rates lie within half and twice the prediction, which says that it is extrapolated."""
    assert LLAMA is not None
    request = SpeedRequest(precision="gguf:Q4_K_M", engine="llama.cpp", prompt_tokens=512, output_tokens=128)
    speed = predict_speed(LLAMA, CATALOG.resolve_hardware(mac), request, CATALOG.accelerators)
    assert speed.decode_tokens_per_s is not None
    assert 0.5 < speed.decode_tokens_per_s.value / written < 2
    assert 0.5 < 512 / speed.ttft_s.value / read < 2
    assert "extrapolated" in {caveat.code for caveat in speed.caveats}


def test_an_engine_that_does_not_run_on_a_mac() -> None:
    """VLLM has no kernels for Metal."""
    assert LLAMA is not None
    with pytest.raises(BadArgument, match=r"transformers, llama\.cpp on Apple M4"):
        predict_speed(LLAMA, CATALOG.resolve_hardware("M4-16GB"), SpeedRequest(engine="vllm"), CATALOG.accelerators)
