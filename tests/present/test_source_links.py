"""Sources lead where they say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lib.present.source_links import link_source

SOURCES = json.loads((Path(__file__).parents[2] / "lib" / "data" / "sources.json").read_text(encoding="utf-8"))["sources"]
WITHOUT = {
    "hub-openapi-copy", "zerogpu-runs-community", "zerogpu-create-402", "gcp-price-2026-09-18", "cpu-report", "mem-report", "zerogpu",
    "brief-h200", "own-cpu",
}  # fmt: skip
"""Reports without an address, and what was measured here."""


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("github:a/b docs/hub/c.md @34ee0f00", "https://github.com/a/b/blob/34ee0f00/docs/hub/c.md"),
        ("github:a/b README.md", "https://github.com/a/b/blob/HEAD/README.md"),
        ("github:a/b @744d01e", "https://github.com/a/b/tree/744d01e"),
        ("github:a/b 47bdf77a (2025-12-16)", "https://github.com/a/b/commit/47bdf77a"),
        ("github:NVIDIA/mig-parted issue 120", "https://github.com/NVIDIA/mig-parted/issues/120"),
        ("printed (Wan-Video/Wan2.1#205)", "https://github.com/Wan-Video/Wan2.1/issues/205"),
        ("PyPI spaces 0.51.3", "https://pypi.org/project/spaces/0.51.3/"),
        ("Kaplan et al. 2020, arXiv:2001.08361", "https://arxiv.org/abs/2001.08361"),
        ("https://cloud.google.com/tpu/docs/v5e (undated)", "https://cloud.google.com/tpu/docs/v5e"),
        ("docs.cloud.google.com, last updated", "https://docs.cloud.google.com"),
        (f"a/b at {'0' * 40} on the Hub", f"https://huggingface.co/a/b/tree/{'0' * 40}"),
        ("a/b@f54a50a x/config.json (config.json file)", "https://github.com/a/b/blob/f54a50a/x/config.json"),
    ],
)
def test_a_source_opens_its_address(source: str, address: str) -> None:
    """The first link of the text; the text itself stays whole."""
    shown = link_source(source)
    assert re.findall(r'href="([^"]+)"', shown)[0] == address
    assert re.sub(r"<[^>]+>", "", shown) == source


@pytest.mark.parametrize("key", SOURCES)
def test_every_listed_source_is_a_link(key: str) -> None:
    """All but reports without an address and what was measured here."""
    assert ("<a " in link_source(SOURCES[key]["source"])) == (key not in WITHOUT)


def test_only_the_web_is_linked() -> None:
    """A script stays text."""
    assert link_source("javascript:alert(1)") == "javascript:alert(1)"
    assert "<img" not in link_source('<img src="https://example.org/a">')
