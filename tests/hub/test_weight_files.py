"""Which GGUF file a name means, and what is said where there is none."""

from __future__ import annotations

import pytest

from lib.errors import UnknownModel
from lib.hub.weight_files import choose_gguf, list_gguf

FILES: dict[str, int | None] = {
    "README.md": 9,
    "m-Q4_K_M.gguf": 4_000_000_000,
    "m-Q8_0.gguf": 8_000_000_000,
    "m-UD-Q4_K_XL.gguf": 4_500_000_000,
    "mmproj-F16.gguf": 1,
    "imatrix.gguf": 1,
    "BF16/m-BF16-00001-of-00002.gguf": 10_000_000_000,
    "BF16/m-BF16-00002-of-00002.gguf": 6_000_000_000,
    "m-Q2_K-00001-of-00003.gguf": 1,
}


def test_models_are_listed_with_their_sizes() -> None:
    """Parts are one model; projectors, importance matrices and models of which parts are missing are left out."""
    assert [(one.label, one.total_bytes) for one in list_gguf(FILES)] == [
        ("Q4_K_M", 4_000_000_000), ("UD-Q4_K_XL", 4_500_000_000), ("Q8_0", 8_000_000_000), ("BF16", 16_000_000_000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "first", "parts"),
    [
        ("", "m-Q4_K_M.gguf", 1),
        ("q8_0", "m-Q8_0.gguf", 1),
        ("m-Q8_0.gguf", "m-Q8_0.gguf", 1),
        ("m-q8_0", "m-Q8_0.gguf", 1),
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf", 1),
        ("bf16", "BF16/m-BF16-00001-of-00002.gguf", 2),
        ("m-BF16-00002-of-00002.gguf", "BF16/m-BF16-00001-of-00002.gguf", 2),
        ("BF16/m-BF16.gguf", "BF16/m-BF16-00001-of-00002.gguf", 2),
    ],
)
def test_a_name_means_one_model(wanted: str, first: str, parts: int) -> None:
    """A quantization, a file with or without its folder and ending, any part of it; without a name what llama.cpp takes."""
    chosen = choose_gguf(FILES, wanted)
    assert (chosen[0], len(chosen)) == (first, parts)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("Q4_K_S", r"holds no GGUF file 'Q4_K_S'. The nearest: Q4_K_M \(4.0 GB\)"),
        ("Q2_K", r"It holds: Q4_K_M \(4.0 GB\), UD-Q4_K_XL \(4.5 GB\), Q8_0 \(8.0 GB\), BF16 \(16.0 GB\)"),
    ],
)
def test_a_file_that_is_lacking_is_refused_with_those_there_are(wanted: str, said: str) -> None:
    """Near matches first; a model of which parts are missing is none."""
    with pytest.raises(UnknownModel, match=said):
        choose_gguf(FILES, wanted)


def test_several_files_of_one_quantization_have_to_be_named_in_full() -> None:
    """Two models in one repository: their files' names are the labels."""
    files: dict[str, int | None] = {"a-Q8_0.gguf": 1, "b-Q8_0.gguf": 2}
    assert choose_gguf(files, "b-Q8_0.gguf") == ("b-Q8_0.gguf",)
    with pytest.raises(UnknownModel, match=r"'Q8_0' means 2 GGUF files .* a-Q8_0.gguf"):
        choose_gguf(files, "Q8_0")


def test_a_repository_without_gguf_files_says_so() -> None:
    """The sentence says what to name."""
    with pytest.raises(UnknownModel, match=r"holds no GGUF files, so none is called 'Q8_0'. Name the repository alone"):
        choose_gguf({"model.safetensors": 1}, "Q8_0")


def test_a_wrong_name_is_compared_with_few_of_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may hold 50,000: comparing with each would hold up everybody who waits for the Hub."""
    compared: list[int] = []
    monkeypatch.setattr("difflib.get_close_matches", lambda _, names, **_options: compared.append(len(names)) or [])
    with pytest.raises(UnknownModel, match="and 4988 more"):
        choose_gguf({f"m-{at:05d}.gguf": 9 for at in range(5_000)}, "m-x")
    assert compared == [200]
