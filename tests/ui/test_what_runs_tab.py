"""The tab *What runs here* answers without a model, in the words of the form."""

from __future__ import annotations

import re
from typing import Any

from page_values import fields_of

from lib.catalog import load
from lib.model.bundled import list_ids
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.what_runs import GROUP
from lib.ui.what_runs_tab import asked_arguments, what_runs_scenes, what_runs_updates

SERVICES = Services(App(catalog=load, models=Models()))


def filled(**values: Any) -> list[Any]:
    """The values of the tab's fields, with these in place of defaults."""
    return [values.get(field.name, field.default) for field in fields_of("what-runs")]


def test_the_finding_comes_first_and_each_model_is_a_link_to_the_page() -> None:
    """Two cards of one's own: the count is part of the hardware, and a link looks at them."""
    updates = what_runs_updates(SERVICES, "", filled(have="RTX-3090", count=2, context=8192, kind="feature-extraction"))
    assert re.search(r"<h2>2 × [^<]*3090 runs \d+ of \d+ models. The largest that runs well is ", updates["found"])
    assert re.search(r'href="\?model=[^"]+&amp;hardware=RTX-3090&amp;cards=2"', updates["models"])
    assert (
        "do not run here, nearest first" in what_runs_updates(SERVICES, "", filled(have="spaces:t4-small", kind="text-to-image"))["models"]
    )


def test_the_refused_are_counted_in_words() -> None:
    """On a card that needs the machine's RAM too."""
    found = what_runs_updates(SERVICES, "", filled(have="RTX-4090", count=1))["found"]
    assert "need more host RAM (64.0 GiB assumed" in found
    assert "Example hardware" in found
    assert "need more host RAM than 96.0 GiB" in what_runs_updates(SERVICES, "", filled(have="RTX-4090", ram="96 GB DDR5-6000"))["found"]
    assert "Example hardware" not in what_runs_updates(SERVICES, "", filled(have="RTX-3090"))["found"]
    assert not re.search(r"[a-z]_[a-z]", found.partition("The others")[2].partition("<")[0])


def test_a_mac_and_a_tier_have_no_count() -> None:
    """The card count of the form has no effect on them; the workload above the tabs is asked too."""
    assert asked_arguments(SERVICES, filled(have="M4-Max-64GB", count=3))["hardware"] == "M4-Max-64GB"
    asked = asked_arguments(SERVICES, filled(have="spaces:l4x1", count=3, least=15.0, concurrency=4))
    assert (asked["hardware"], asked["min_tokens_per_s"], asked["concurrency"]) == ("spaces:l4x1", 15.0, 4)


def test_progress_is_shown_until_the_verdicts_are_known() -> None:
    """Each group of models moves the bar and Stop is there; known verdicts have one scene; a stopped run keeps nothing."""
    form = filled(have="RTX-3070", kind="text-to-image", least=1.0)
    scenes = what_runs_scenes(SERVICES, "", form)
    assert next(scenes)["stop"]["visible"]
    scenes.close()
    *progress, last = what_runs_scenes(SERVICES, "", form)
    assert len(progress) == -(-len(list_ids()) // GROUP)
    assert all(scene["found"] != last["found"] for scene in progress)
    assert not last["stop"]["visible"]
    assert len(list(what_runs_scenes(SERVICES, "", form))) == 1
    assert "No list of models." in next(what_runs_scenes(SERVICES, "", filled(have="<b>card</b>")))["found"]


def test_a_refusal_is_a_sentence() -> None:
    """An unknown name of hardware, as from a link that was typed."""
    assert "No list of models." in what_runs_updates(SERVICES, "", filled(have="<b>card</b>"))["found"]
    assert "<b>" not in what_runs_updates(SERVICES, "", filled(have="<b>card</b>"))["found"]
