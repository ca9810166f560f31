"""The models that come with the app."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from model_facts import config, counted, facts

from lib.errors import BadCatalog
from lib.model import bundled


def test_every_counted_model_is_bundled_with_its_exact_counts() -> None:
    """One spec a counted fact, with the same total, the same active parameters, and components that add up."""
    assert sorted(bundled.ids()) == sorted(counted())
    for name in counted():
        spec, row = bundled.find(name), facts()[name]
        assert spec is not None
        assert (spec.id, spec.source, spec.parameters_total) == (name, "catalog", row["parameters"])
        assert spec.parameters_active == row.get("active", row["parameters"])
        assert sum(spec.parameters_by_component.values()) == row["parameters"]
        assert spec.sources[0].checked
        assert config(name)


def test_a_spec_goes_to_json_and_back() -> None:
    """Nothing is lost or changed on the way."""
    for name in bundled.ids():
        spec = bundled.find(name)
        assert spec is not None
        assert bundled.from_json(bundled.to_json(spec)) == spec


def test_capitals_do_not_matter_and_unknown_ids_are_none() -> None:
    """Ids are found as the Hub finds them."""
    assert bundled.find("OPENAI/GPT-OSS-20B") is bundled.find("openai/gpt-oss-20b")
    assert bundled.find("nobody/nothing") is None
    assert bundled.config("nobody/nothing") is None


def test_a_damaged_line_names_the_script() -> None:
    """Our own data being wrong is said, with what to do."""
    with pytest.raises(BadCatalog, match="build_models"):
        bundled.from_json({"id": "x"})


def test_listing_and_one_answer_are_fast_and_import_no_torch() -> None:
    """A fresh process lists all ids and answers one within 100 ms, imports of this module aside, without torch."""
    code = (
        "import sys, time; from lib.model import bundled; t = time.perf_counter(); n = len(bundled.ids()); "
        "bundled.find('openai/gpt-oss-20b'); print(n, time.perf_counter() - t, 'torch' in sys.modules, 'pydantic' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(told[0]) == len(bundled.ids())
    assert float(told[1]) < 0.1
    assert told[2:] == ["False", "False"]


def test_an_answer_is_remembered() -> None:
    """The second look-up is a dictionary access."""
    bundled.find("google/gemma-3-27b-it")
    started = time.perf_counter()
    for _ in range(100):
        bundled.find("google/gemma-3-27b-it")
    assert time.perf_counter() - started < 0.01
