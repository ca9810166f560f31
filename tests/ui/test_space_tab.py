"""The tab *My Space* as functions of plain values: two steps, one price, the visitor's token and no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import gradio as gr
import page_values
import pytest
from space_fake import acted, preview, progress, size, status

from lib.answers.spaces import ActionAnswer, ActionPreview, SpaceProgress, SpaceStatus
from lib.catalog import load
from lib.errors import HubUnreachable, NotPermitted, PriceNotConfirmed, RepoNotFound
from lib.present.space_cards import Action
from lib.present.wording import page_note
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.ui import account, recommend_tab, space_actions, space_tab
from lib.ui.space_actions import Confirmation, SpaceRequest, action_scenes, review_request

TOKEN = "hf_visitor"  # noqa: S105  opens nothing
SWITCH = SpaceRequest(space="ada/chat", action="switch", hardware="l4x1", sleep_time_s=3600)

QUESTION = page_values.fill_form("space")


class FakeAccount:
    """Answers for one Space, and records what was asked with whose token."""

    def __init__(self) -> None:
        self.questions: list[tuple[Any, ...]] = []
        self.price = Decimal("0.8")
        self.refusal: Exception | None = None
        self.lost = False

    def space_status(self, space: str, *, token: str | None) -> SpaceStatus:
        self.questions.append(("status", space, token))
        if space != "ada/chat":
            raise RepoNotFound(f"There is no Space <b>{space}</b>.")
        return status()

    def right_size(self, space: str, *, token: str | None, **asked: Any) -> Any:
        self.questions.append(("size", space, asked, token))
        return size()

    def preview(self, space: str, action: str, hardware: str, sleep: int, factory: bool, *, token: str | None) -> ActionPreview:
        self.questions.append(("preview", space, action, hardware, sleep, factory, token))
        after = replace(preview().after, usd_per_hour=self.price, sleep_time_s=sleep)
        return preview(action=action, after=after, confirm_usd_per_hour=self.price if action == "switch" else None)

    def switch_hardware(self, space: str, hardware: str, usd: Decimal, sleep: int, *, token: str | None) -> ActionAnswer:
        self.questions.append(("switch", space, hardware, usd, sleep, token))
        if self.refusal is not None:
            raise self.refusal
        if usd != self.price:
            raise PriceNotConfirmed(f"It costs {self.price}.")
        return acted()

    def set_sleep_time(self, space: str, seconds: int, *, token: str | None) -> ActionAnswer:
        self.questions.append(("sleep", space, seconds, token))
        return acted(sleep_time_s=seconds)

    def pause_space(self, space: str, *, token: str | None) -> ActionAnswer:
        self.questions.append(("pause", space, token))
        return acted(stage="PAUSED")

    def restart_space(self, space: str, factory: bool, *, token: str | None) -> ActionAnswer:
        self.questions.append(("restart", space, factory, token))
        return acted(stage="BUILDING")

    def watch(self, space: str, *, token: str | None, hardware: str) -> Iterator[SpaceProgress]:
        self.questions.append(("watch", space, hardware, token))
        yield progress(stage="BUILDING")
        if self.lost:
            raise HubUnreachable("The Hub could not be reached.")
        yield progress(stage="RUNNING", arrived=True, done=True, hardware="l4x1", hardware_name="1x Nvidia L4", usd_per_hour=Decimal("0.8"))


@pytest.fixture
def services(real_app: Services, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Those with an account that is recorded."""
    account, asked = FakeAccount(), Services.__getitem__
    monkeypatch.setattr(real_app, "account", account, raising=False)
    monkeypatch.setattr(Services, "__getitem__", lambda _, question: getattr(account, question.__name__, None) or asked(real_app, question))
    return real_app


def test_looking_needs_no_token(services: Any) -> None:
    """A public Space is shown to a stranger, with a link and a download; its address is asked for as it was typed, less the blanks."""
    found = space_tab.space_markup(services, " ada/chat ", None)
    assert (found.space, found.sleep_time_s) == ("ada/chat", 3600)
    assert "t4-small" in found.status
    assert "?tab=space&amp;space=ada%2Fchat" in found.status
    assert services.account.questions == [("status", "ada/chat", None)]


def test_a_private_space_gets_no_link(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is passed on would tell its name."""
    monkeypatch.setattr(services.account, "space_status", lambda *_, **__: status(private=True))
    assert "data-copy-link" not in space_tab.space_markup(services, "ada/chat", TOKEN).status


def test_a_refusal_is_a_sentence_and_nothing_can_be_changed(services: Any) -> None:
    """What is no Space leaves the form closed, and its name is no markup."""
    found = space_tab.space_markup(services, "no/such", None)
    assert found.space == ""
    assert 'role="alert"' in found.status
    assert "<b>" not in found.status
    assert space_tab.space_markup(services, "  ", None).space == ""


def test_of_a_static_space_nothing_can_be_changed(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown without price or bill, and neither sized nor offered a form."""
    static = status(sdk="static", hardware=None, hardware_name=None, usd_per_hour=None, usd_per_month=None)
    monkeypatch.setattr(services.account, "space_status", lambda *_, **__: static)
    found = space_tab.space_markup(services, "ada/chat", None)
    assert found.space == ""
    assert "nothing to switch or size" in found.status
    assert "Free of charge." in found.status
    assert "Price" not in found.status.replace("Prices", "")


def test_the_right_size_is_asked_as_the_tab_says(services: Any) -> None:
    """The workload of the page by its names; an emptied number falls back to the default; the tier to move to is handed on."""
    values = page_values.fill_form("space", concurrency=2, context=None, hours=12, priority="fastest", account="pro", hardware="jobs:l4x1")
    found = space_tab.size_markup(services, "ada/chat", "7B", values, TOKEN)
    assert found.tier == "l4x1"
    (_, space, sent, token), *_ = services.account.questions
    assert (space, token) == ("ada/chat", TOKEN)
    stated = {"model": "7B", "concurrency": 2, "hours_per_day": 12, "priority": "fastest", "account": "pro", "context_tokens": 4096}
    assert sent.items() >= stated.items()
    assert "hardware" not in sent
    assert space_tab.size_markup(services, "", "", QUESTION, None).card == ""


@pytest.mark.parametrize(("platform", "tier"), [("zerogpu", "zero-a10g"), ("jobs", "")])
def test_only_a_tier_of_a_space_is_handed_on(services: Any, monkeypatch: pytest.MonkeyPatch, platform: str, tier: str) -> None:
    """Both sizes of ZeroGPU are one tier; a Job's hardware is none."""
    pick = SimpleNamespace(**vars(size().pick) | {"platform": platform, "hardware": "zero-a10g-xlarge"})
    monkeypatch.setattr(services.account, "right_size", lambda *_, **__: size(pick=pick))
    assert space_tab.size_markup(services, "ada/chat", "", QUESTION, None).tier == tier


def test_the_tiers_are_those_of_today(real_app: Services) -> None:
    """Each once and priced, none that was withdrawn, and ZeroGPU as one."""
    shown = space_tab.tier_choices(real_app)
    ids = [value for _, value in shown]
    assert len(ids) == len(set(ids))
    assert {"cpu-basic", "l4x1", "zero-a10g"} <= set(ids)
    assert "zero-a10g-xlarge" not in ids
    retired = {offer.id for offer in load().on(("spaces",), include_retired=True)} - {offer.id for offer in load().on(("spaces",))}
    assert retired
    assert not retired & set(ids)
    assert {value: words for words, value in shown}["l4x1"] == "1x Nvidia L4 · l4x1 · $0.80 per hour"


def test_the_review_holds_the_price_it_shows(services: Any) -> None:
    """Card, button and what is confirmed name one price, and nothing was done."""
    seen = review_request(services, SWITCH, None)
    assert "$0.80" in seen.card
    assert seen.label == "Switch to 1x Nvidia L4 at $0.80/hour"
    assert seen.confirmation == Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8"))
    assert [name for name, *_ in services.account.questions] == ["preview"]


def test_the_code_of_the_review_is_that_of_the_action(services: Any) -> None:
    """Python, hf and our own command line, each with its button; a tier with a sleep of its own is switched to without one."""
    card = review_request(services, SWITCH, None).card
    assert card.count("data-copy=") == 3
    assert "hf spaces settings ada/chat --hardware l4x1 --sleep-time 3600" in card
    assert "python scripts/manage_space.py hardware ada/chat --tier l4x1 --sleep-time 3600" in card
    pause = review_request(services, replace(SWITCH, action="pause"), None).card
    assert "hf spaces pause ada/chat" in pause


def test_without_a_tier_there_is_nothing_to_review(services: Any) -> None:
    """The sentence says what to choose."""
    seen = review_request(services, replace(SWITCH, hardware=""), None)
    assert (seen.label, seen.confirmation) == ("", None)
    assert services.account.questions == []


def test_a_switch_sends_the_price_that_was_seen_and_is_watched(services: Any) -> None:
    """The confirmed price, the visitor's token, then every stage until it runs."""
    scenes = list(action_scenes(services, Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8")), SWITCH, TOKEN))
    assert services.account.questions == [("switch", "ada/chat", "l4x1", Decimal("0.8"), 3600, TOKEN), ("watch", "ada/chat", "l4x1", TOKEN)]
    assert [scene.watching for scene in scenes] == [False, True, False]
    assert "It runs on 1x Nvidia L4" in scenes[-1].progress


def test_a_price_that_changed_meanwhile_is_reviewed_anew(services: Any) -> None:
    """The old price is refused, nothing is switched, and the new review carries the new one."""
    services.account.price = Decimal("0.9")
    *_, last = action_scenes(services, Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8")), SWITCH, TOKEN)
    assert "The price of l4x1 is no longer $0.80 per hour." in last.progress
    assert last.review is not None
    assert last.review.label == "Switch to 1x Nvidia L4 at $0.90/hour"
    assert last.review.confirmation == Confirmation(request=SWITCH, usd_per_hour=Decimal("0.9"))
    assert "watch" not in [name for name, *_ in services.account.questions]


@pytest.mark.parametrize(
    "changed",
    [{"hardware": "a100-large"}, {"sleep_time_s": -1}, {"action": "pause"}, {"space": "ada/other"}],
)
def test_another_form_than_the_reviewed_one_is_refused(services: Any, changed: dict[str, Any]) -> None:
    """Whatever the page shows by then: what was not reviewed is not done."""
    (scene,) = action_scenes(services, Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8")), replace(SWITCH, **changed), TOKEN)
    assert "Review it again" in scene.progress
    assert services.account.questions == []
    (unseen,) = action_scenes(services, None, SWITCH, TOKEN)
    assert "Review it again" in unseen.progress


def test_a_refused_action_can_be_confirmed_again(services: Any) -> None:
    """With another token the same review may be confirmed once more."""
    services.account.refusal = NotPermitted("This token may not do that.")
    *_, last = action_scenes(services, Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8")), SWITCH, TOKEN)
    assert (last.again, last.review) == (True, None)
    assert "This token may not do that." in last.progress


def test_a_watch_that_is_lost_says_that_the_switch_goes_on(services: Any) -> None:
    """The action was taken; only its way cannot be seen any longer."""
    services.account.lost = True
    *_, last = action_scenes(services, Confirmation(request=SWITCH, usd_per_hour=Decimal("0.8")), SWITCH, TOKEN)
    assert "continues" in last.progress
    assert not last.again


@pytest.mark.parametrize(
    ("action", "called"),
    [
        ("sleep", ("sleep", "ada/chat", 3600, TOKEN)),
        ("pause", ("pause", "ada/chat", TOKEN)),
        ("restart", ("restart", "ada/chat", False, TOKEN)),
        ("factory", ("restart", "ada/chat", True, TOKEN)),
    ],
)
def test_every_action_reaches_the_service(services: Any, action: Action, called: tuple[Any, ...]) -> None:
    """With the visitor's token and the fields that the action takes."""
    wanted = space_actions.form_request("ada/chat", action, "l4x1", 3600)
    seen = review_request(services, wanted, TOKEN)
    assert seen.confirmation is not None
    scenes = list(action_scenes(services, seen.confirmation, wanted, TOKEN))
    assert services.account.questions[1] == called
    assert scenes[-1].status is not None


def test_fields_that_an_action_does_not_take_do_not_count() -> None:
    """A pause is the same pause whatever tier stands in the form; a tier with a sleep of its own takes no other."""
    assert space_actions.form_request("a/b", "pause", "l4x1", 3600) == space_actions.form_request("a/b", "pause", None, None)
    assert space_actions.form_request("a/b", "switch", "cpu-basic", 3600).sleep_time_s == -1
    assert space_actions.form_request("a/b", "nonsense", "l4x1", 60).action == "switch"


def test_the_token_is_in_no_picture(services: Any) -> None:
    """Nothing that goes to the page or stays in the session holds it."""
    seen = review_request(services, SWITCH, TOKEN)
    scenes = list(action_scenes(services, seen.confirmation, SWITCH, TOKEN))
    assert TOKEN not in repr(seen) + repr(scenes)
    assert TOKEN not in space_tab.space_markup(services, "ada/chat", TOKEN).status


def test_scenes_come_one_by_one() -> None:
    """As the service tells them, in a thread that is not one of the answering ones."""

    async def all_of() -> list[Any]:
        return [scene async for scene in space_actions.each_scene(iter([1, 2, 3]))]  # type: ignore[list-item]

    assert asyncio.run(all_of()) == [1, 2, 3]


def test_a_pasted_token_goes_before_the_sign_in() -> None:
    """Blanks are none; without either there is no token at all."""
    signed = gr.OAuthToken(token="hf_signed", scope="", expires_at=0)  # noqa: S106
    assert account.token_of(" hf_pasted ", signed) == "hf_pasted"
    assert account.token_of("  ", signed) == "hf_signed"
    assert account.token_of(None, None) is None


@pytest.mark.parametrize(
    ("environment", "there"),
    [
        ({"HF_TOKEN": "hf_server"}, False),
        ({"SYSTEM": "spaces", "SPACE_ID": "a/b", "HF_TOKEN": "hf_server"}, False),
        ({"SYSTEM": "spaces", "SPACE_ID": "a/b", "OAUTH_CLIENT_ID": "x"}, False),
        ({"SYSTEM": "spaces", "SPACE_ID": "a/b", **dict.fromkeys(account.OAUTH, "x")}, True),
    ],
)
def test_the_button_stands_where_it_can_work(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], there: bool) -> None:
    """On a Space with its whole OAuth environment; a token of the server alone makes no sign-in, nor a request."""
    for name in ("SYSTEM", "SPACE_ID", "MOCK_LOGIN", "HF_TOKEN", *account.OAUTH):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert account.can_sign_in() is there


def test_the_page_builds_without_a_sign_in(real_app: Services) -> None:
    """Offline there is only the field for a token: a password field with no value, and no event of the tab is public."""
    from lib.ui.page import build_page  # noqa: PLC0415

    page = build_page(real_app)
    assert not any(isinstance(block, gr.LoginButton) for block in page.blocks.values())
    (field,) = (block for block in page.blocks.values() if getattr(block, "elem_id", None) == "token")
    assert (field.type, field.value) == ("password", None)
    events = [
        fn for fn in page.fns.values() if str(fn.api_name).startswith(("space_", "login_", "code_")) and fn.api_name != "space_status"
    ]
    assert len(events) >= 8
    assert {fn.api_visibility for fn in events} == {"private"}


def test_gradios_own_question_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether somebody is signed in stands in neither the API nor among the tools."""
    info = {"access_token": "t", "scope": "openid", "expires_at": 0, "userinfo": {}}
    monkeypatch.setattr("gradio.oauth._get_mocked_oauth_info", lambda: info)
    with pytest.warns(UserWarning, match="OAuth"), gr.Blocks() as page:
        gr.LoginButton()
    account.close_status(page)
    assert [fn.api_visibility for fn in page.fns.values() if fn.api_name == "_check_login_status"] == ["private"]
    assert page.get_api_info()["named_endpoints"] == {}


def test_the_sign_in_names_no_path_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio's own button carries the path of its picture, from the server's root on."""
    monkeypatch.setattr("gradio.oauth._get_mocked_oauth_info", lambda: {"userinfo": {}})
    monkeypatch.setattr(account, "can_sign_in", lambda: True)
    with pytest.warns(UserWarning, match="OAuth"), gr.Blocks() as page:
        account.build_login()
    assert any(isinstance(block, gr.LoginButton) for block in page.blocks.values())
    assert "site-packages" not in json.dumps(page.config, default=str)


def test_where_actions_are_switched_off_the_page_hides_them() -> None:
    """No form even after a Space was found, no sign-in, and the page says so; looking stays."""
    from lib.ui.page import build_page  # noqa: PLC0415

    page = build_page(Services(App(catalog=load, models=Models(), account_actions=False)))
    (form,) = (block for block in page.blocks.values() if getattr(block, "elem_id", None) == "change")
    assert form.parent is not None
    assert form.parent.visible is False
    assert "Changes are switched off" in json.dumps(page.config, default=str)


def test_files_of_slices_and_of_several_machines(real_app: Services) -> None:
    """Hardware that is named: a TPU slice has a manifest; a card that is too small has files for several such machines."""
    slices, small = (page_values.fill_form("recommend", hardware=name) for name in ("tpu:v6e-1", "spaces:t4-small"))
    code = recommend_tab.setup_updates(real_app, "Qwen/Qwen3-8B", ["pytorch", *slices])["code"]
    assert "gke-tpu-topology" in code
    assert "tpu-vm.sh" in code
    code = recommend_tab.setup_updates(real_app, "meta-llama/Llama-3.1-70B-Instruct", ["pytorch", *small])["code"]
    assert page_note("nothing_to_set_up") in code
    assert "LeaderWorkerSet" in code


def test_the_files_of_the_pick(real_app: Services) -> None:
    """Both files with a button each and dated sources; a framework that the pick's platform does not run is a sentence."""
    asked = QUESTION
    code = recommend_tab.setup_updates(real_app, "Qwen/Qwen3-8B", ["pytorch", *asked])["code"]
    assert code.count("data-copy=") == 3
    assert "app.py" in code
    assert "python_version" in code
    assert "<time>2026-" in code
    assert page_note("name_model:code") in recommend_tab.setup_updates(real_app, "", ["pytorch", *asked])["code"]
    refused = recommend_tab.setup_updates(real_app, "Qwen/Qwen3-8B", ["nonsense", *asked])["code"]
    assert 'role="alert"' in refused
    assert "pytorch" in refused
