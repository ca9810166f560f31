"""README and docs are true: written pages equal their sources, figures equal the recorded ones, examples run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scripts import accuracy, write_api_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = write_api_page.PAGE.read_text(encoding="utf-8")
PAGES = {"README.md": README, "api.md": API}
LOCAL = "http://127.0.0.1:7860"
RECORDED = {
    "memory of a prompt, `transformers`": ("memory", "kind", "prompts"),
    "memory that a training step reserves": ("training", "estimate", "this app, stacks left out"),
    "speed, published benchmarks": ("speed", "kind", "published points"),
    "time per output token under load": ("speed", "kind", "served time per output token"),
    "time to first token under load": ("speed", "kind", "served time to first token"),
    "pictures and clips, `diffusers`": ("pictures", "group", "eager"),
}


def test_written_pages_are_those_of_their_sources() -> None:
    """`python -m scripts.accuracy` and `python -m scripts.write_api_page` write them again."""
    assert accuracy.PAGE.read_text(encoding="utf-8") == accuracy.render_page()
    assert write_api_page.render_page() == API


def test_the_six_figures_of_the_readme_are_the_recorded_ones() -> None:
    """Each row of its table has the recorded median error, to the digits that it states."""
    rows = dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([\d.]+) % \|$", README, re.MULTILINE))
    assert rows.keys() == RECORDED.keys()
    sections = accuracy.read_figures()
    for name, (section, key, value) in RECORDED.items():
        (figure,) = (row["median_error"] for row in sections[section]["rows"] if row[key] == value)
        assert float(rows[name]) == pytest.approx(100 * figure, abs=0.51 * 10 ** -len(rows[name].partition(".")[2])), name


def test_the_readme_is_short() -> None:
    """A README is read in one sitting: at most 140 lines."""
    assert len(README.splitlines()) <= 140


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page: str, app_url: str, tmp_path: Path) -> None:
    """They print something, against a started app."""
    (block,) = blocks(PAGES[page], "python")
    script = tmp_path / "example.py"
    script.write_text(block.replace(LOCAL, app_url))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.strip()


@pytest.mark.parametrize("page", PAGES)
def test_curl_examples_run(page: str, app_url: str) -> None:
    """They answer with a pick."""
    (block,) = blocks(PAGES[page], "sh")
    ran = subprocess.run(["/bin/sh", "-c", block.replace(LOCAL, app_url)], capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(ran.stdout)["data"][0]["pick"]["hardware"]


@pytest.mark.parametrize("page", PAGES)
def test_the_mcp_server_answers_at_the_printed_address(page: str, app_url: str) -> None:
    """A client's first message gets an answer."""
    (block,) = blocks(PAGES[page], "json")
    (server,) = json.loads(block)["mcpServers"].values()
    answer = httpx.post(
        server["url"].replace(LOCAL, app_url),
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        headers={"Accept": "application/json, text/event-stream"},
        timeout=60,
    )
    assert "recommend" in answer.text


def test_command_line_examples_parse() -> None:
    """Every command that README and docs print exists with its options."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    commands = {
        line.split()[2]
        for text in [README, *texts]
        for line in re.findall(r"^python scripts/manage_space\.py [a-z].*$", text, re.MULTILINE)
    }
    assert commands
    for command in sorted(commands):
        ran = subprocess.run(
            [sys.executable, "scripts/manage_space.py", command, "--help"], cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        assert ran.returncode == 0, command
