"""A visitor's Spaces through the real huggingface_hub client against a stateful Hub on the loopback; whose token travels where."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hub_stand_in import Fault
from huggingface_hub import HfApi, constants, get_session
from space_stand_in import FakeSpace, Person, SpaceStandIn

from lib.answers.spaces import Volume
from lib.errors import AdvisorError, BadArgument, NotSignedIn, RateLimited
from lib.hub.space_answers import Runtime, TokenOwner
from lib.hub.spaces import Spaces

ADA = "hf_adaADAadaADAada0123456789"
SENTINEL = "hf_sentinelSENTINELsentinel0123456789"
SERVER = "hf_serverSERVERserver0123456789"
ACTIONS: dict[str, Callable[[Spaces], Any]] = {
    "hardware": lambda spaces: spaces.switch("ada/chat", "l4x1", 3600),
    "sleeptime": lambda spaces: spaces.sleep("ada/chat", 600),
    "pause": lambda spaces: spaces.pause("ada/chat"),
    "restart": lambda spaces: spaces.restart("ada/chat"),
    "account": lambda spaces: spaces.account(),
}
QUESTIONS: dict[str, Callable[[Spaces], Any]] = {
    "look": lambda spaces: spaces.look("ada/chat"),
    "runtime": lambda spaces: spaces.runtime("ada/chat"),
    "list": lambda spaces: spaces.zero_gpu_spaces("ada"),
}


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """A Hub with one Space of ada's; the sentinel is a token of hers too."""
    with SpaceStandIn() as stand_in:
        stand_in.people |= {ADA: Person(name="ada", is_pro=True), SENTINEL: Person(name="ada")}
        stand_in.add_space(FakeSpace(id="ada/chat"))
        yield stand_in


def stages(spaces: Spaces, most: int = 6) -> list[str]:
    """The stages that a watcher sees from look to look, without repetitions."""
    seen = [spaces.runtime("ada/chat").stage for _ in range(most)]
    return [stage for at, stage in enumerate(seen) if at == 0 or stage != seen[at - 1]]


def test_a_look_tells_what_the_hub_tells(hub: SpaceStandIn) -> None:
    """Every field arrives under its name; models of the card and of the Hub's relation are listed once each."""
    hub.add_space(
        FakeSpace(
            id="ada/full",
            sdk="docker",
            stage="RUNTIME_ERROR",
            hardware="l4x1",
            requested="a10g-small",
            sleep_s=-1,
            replicas=2,
            volumes=[{"type": "bucket", "source": "ada/data", "mountPath": "/data", "readOnly": False}],
            models=["org/one", "org/two", "not an id"],
            related=["org/two", "org/three"],
            error="Exit code: 1.\n\x1b[31mTraceback <b>here</b>",
        )
    )
    space = Spaces(None, hub.url).look("ada/full")
    assert (space.id, space.sdk, space.private, space.stage) == ("ada/full", "docker", False, "RUNTIME_ERROR")
    assert (space.hardware, space.requested_hardware, space.sleep_time_s) == ("l4x1", "a10g-small", -1)
    assert (space.replicas, space.requested_replicas, space.storage) == (2, 2, None)
    assert space.volumes == (Volume(type="bucket", source="ada/data", mount_path="/data", read_only=False),)
    assert space.models == ("org/one", "org/two", "org/three")
    assert space.error == "Exit code: 1. [31mTraceback <b>here</b>"  # one line, nothing unprintable; markup is the page's to escape


def test_a_stranger_sees_public_spaces_and_sends_no_token(hub: SpaceStandIn) -> None:
    """One request for a look, one for a runtime, one for a list, none with an Authorization header."""
    spaces = Spaces(None, hub.url)
    assert spaces.look("ada/chat").hardware == "cpu-basic"
    assert spaces.runtime("ada/chat").sleep_time_s == 172_800
    assert spaces.zero_gpu_spaces("ada") == 0
    assert hub.paths() == [
        "/api/spaces/ada/chat?expand=cardData&expand=models&expand=private&expand=runtime&expand=sdk",
        "/api/spaces/ada/chat/runtime",
        "/api/spaces?author=ada&expand=runtime",
    ]
    assert not any("authorization" in seen.headers for seen in hub.requests)


def test_a_private_space_is_seen_by_its_owner(hub: SpaceStandIn) -> None:
    """With the owner's token it is there, and said to be private."""
    hub.add_space(FakeSpace(id="ada/secret", private=True))
    assert Spaces(ADA, hub.url).look("ada/secret").private is True


def test_a_space_without_a_runtime_in_its_card_is_asked_for_it(hub: SpaceStandIn) -> None:
    """The runtime is asked for separately where the description lacks it."""
    hub.faults["?expand"] = Fault(body=b'{"id": "ada/chat", "sdk": "gradio"}')
    space = Spaces(None, hub.url).look("ada/chat")
    assert (space.stage, space.hardware, space.private) == ("RUNNING", "cpu-basic", False)
    assert hub.paths()[-1] == "/api/spaces/ada/chat/runtime"


def test_a_stage_that_the_client_does_not_list_is_text(hub: SpaceStandIn) -> None:
    """SLEEPING is on the Hub and not in the client's enumeration; nor is what will come."""
    for stage in ("SLEEPING", "DREAMING_OF_SHEEP"):
        hub.spaces["ada/chat"].stage = stage
        assert Spaces(None, hub.url).runtime("ada/chat").stage == stage


def test_a_renamed_space_is_answered_under_its_new_id(hub: SpaceStandIn) -> None:
    """A look follows the Hub's redirect."""
    hub.renamed["ada/old"] = "ada/chat"
    assert Spaces(None, hub.url).look("ada/old").id == "ada/chat"


def test_a_switch_passes_through_its_stages(hub: SpaceStandIn) -> None:
    """Requested first, current once the app starts; the request is the one that the Hub documents."""
    spaces = Spaces(ADA, hub.url)
    ordered = spaces.switch("ada/chat", "l4x1", 3600)
    assert (ordered.stage, ordered.hardware, ordered.requested_hardware) == ("BUILDING", "cpu-basic", "l4x1")
    assert stages(spaces) == ["BUILDING", "APP_STARTING", "RUNNING"]
    after = spaces.look("ada/chat")
    assert (after.hardware, after.requested_hardware, after.sleep_time_s) == ("l4x1", "l4x1", 3600)
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "l4x1", "sleepTimeSeconds": 3600})]


def test_a_switch_without_a_sleep_time_names_none(hub: SpaceStandIn) -> None:
    """None leaves it to the platform: paid hardware then never sleeps by itself."""
    assert Spaces(ADA, hub.url).switch("ada/chat", "a10g-small").sleep_time_s is None
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "a10g-small"})]


@pytest.mark.parametrize(
    ("ending", "seen"),
    [
        ("RUNTIME_ERROR", ["BUILDING", "APP_STARTING", "RUNTIME_ERROR"]),
        ("BUILD_ERROR", ["BUILDING", "BUILD_ERROR"]),
        ("CONFIG_ERROR", ["BUILDING", "CONFIG_ERROR"]),
    ],
)
def test_a_switch_can_end_in_an_error_stage_with_its_reason(hub: SpaceStandIn, ending: str, seen: list[str]) -> None:
    """The stage and the message of the failed start are told."""
    hub.spaces["ada/chat"].ending = ending
    spaces = Spaces(ADA, hub.url)
    assert spaces.switch("ada/chat", "l4x1").error is None
    assert stages(spaces) == seen
    assert spaces.runtime("ada/chat").error == "Exit code: 1. Reason: CUDA out of memory"


def test_sleep_pause_and_restart_do_what_they_say(hub: SpaceStandIn) -> None:
    """Each changes the Space and answers with its runtime; a factory restart says so in its address."""
    hub.spaces["ada/chat"].hardware = hub.spaces["ada/chat"].requested = "l4x1"
    spaces = Spaces(ADA, hub.url)
    assert spaces.sleep("ada/chat", 600).sleep_time_s == 600
    assert spaces.sleep("ada/chat", -1).sleep_time_s == -1
    paused = spaces.pause("ada/chat")
    assert (paused.stage, paused.hardware, paused.requested_hardware) == ("PAUSED", None, "l4x1")
    assert spaces.restart("ada/chat").stage == "BUILDING"
    assert stages(spaces) == ["BUILDING", "APP_STARTING", "RUNNING"]
    assert spaces.restart("ada/chat", factory=True).stage == "BUILDING"
    assert hub.spaces["ada/chat"].factory is True
    assert hub.actions() == [
        ("/api/spaces/ada/chat/sleeptime", {"seconds": 600}),
        ("/api/spaces/ada/chat/sleeptime", {"seconds": -1}),
        ("/api/spaces/ada/chat/pause", None),
        ("/api/spaces/ada/chat/restart", None),
        ("/api/spaces/ada/chat/restart?factory=true", None),
    ]


def test_an_account_has_a_plan_and_organizations(hub: SpaceStandIn) -> None:
    """PRO from isPro; an organization's plan from its text, or from the older flag; what is not told is None or free."""
    hub.people["hf_x"] = Person(name="x", can_pay=None, orgs={"a": "team", "b": "Enterprise Plus", "c": None})
    assert Spaces(ADA, hub.url).account() == TokenOwner(name="ada", plan="pro", can_pay=True, organizations=())
    told = Spaces("hf_x", hub.url).account()
    assert told == TokenOwner(name="x", plan="free", can_pay=None, organizations=(("a", "team"), ("b", "enterprise"), ("c", "free")))
    hub.faults["whoami"] = Fault(body=b'{"name": "y", "orgs": [{"name": "d", "isEnterprise": true}]}')
    assert Spaces("hf_x", hub.url).account().organizations == (("d", "enterprise"),)


def test_zero_gpu_spaces_are_counted_over_all_pages(hub: SpaceStandIn) -> None:
    """Three of ada's five, one of them private and one only requested; the list comes in pages of two."""
    hub.page = 2
    hub.add_space(FakeSpace(id="ada/one", hardware="zero-a10g", requested="zero-a10g"))
    hub.add_space(FakeSpace(id="ada/two", hardware="zero-a10g", requested="zero-a10g", private=True))
    hub.add_space(FakeSpace(id="ada/three", hardware=None, requested="zero-a10g"))
    hub.add_space(FakeSpace(id="ada/four", hardware="l4x1", requested="l4x1"))
    hub.add_space(FakeSpace(id="bob/five", hardware="zero-a10g", requested="zero-a10g"))
    assert Spaces(ADA, hub.url).zero_gpu_spaces("ada") == 3
    assert [path.partition("cursor=")[2] for path in hub.paths()] == ["", "2", "4"]
    assert Spaces(None, hub.url).zero_gpu_spaces("ada") == 2


@pytest.mark.parametrize(
    "space_id", ["chat", "ada/chat/more", "", "ada/..", "../ada/chat", "ada/chat?x=1", "ada/a b", "ada/", "a--b/c", None, 3, "é/b"]
)
def test_what_cannot_be_a_space_is_not_asked(hub: SpaceStandIn, space_id: Any) -> None:
    """Every way to name a Space checks the id before any request."""
    spaces = Spaces(ADA, hub.url)
    for call in (
        spaces.look,
        spaces.runtime,
        spaces.pause,
        spaces.restart,
        lambda at: spaces.switch(at, "l4x1"),
        lambda at: spaces.sleep(at, 1),
    ):
        with pytest.raises(BadArgument, match="owner/name"):
            call(space_id)
    assert hub.requests == []


@pytest.mark.parametrize("seconds", [0, -2, 10**9, True, 1.5])
def test_a_sleep_time_that_makes_no_sense_is_not_sent(hub: SpaceStandIn, seconds: Any) -> None:
    """Accepted: whole seconds up to a year, or -1; the same holds for a switch. Owners and tiers are checked too."""
    spaces = Spaces(ADA, hub.url)
    with pytest.raises(BadArgument, match="-1 for never"):
        spaces.sleep("ada/chat", seconds)
    with pytest.raises(BadArgument, match="-1 for never"):
        spaces.switch("ada/chat", "l4x1", seconds)
    with pytest.raises(BadArgument, match="hardware"):
        spaces.switch("ada/chat", "l4x1/../x")
    with pytest.raises(BadArgument, match="owner"):
        spaces.zero_gpu_spaces("ada&author=bob")
    assert hub.requests == []


@pytest.mark.parametrize("where", ["environment", "disk"])
def test_the_servers_own_token_never_acts_for_a_visitor(
    hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    """With a server's token in HF_TOKEN or from a login: actions are refused unasked, questions go out without any token."""
    if where == "environment":
        monkeypatch.setenv("HF_TOKEN", SERVER)
    else:
        (tmp_path / "token").write_text(SERVER)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    hub.people[SERVER] = Person(name="ada")
    stranger = Spaces(None, hub.url)
    for action in ACTIONS.values():
        with pytest.raises(NotSignedIn, match=r"Sign in, or send a token of your own"):
            action(stranger)
    assert hub.requests == []
    for question in QUESTIONS.values():
        question(stranger)
    assert len(hub.requests) == 3
    assert not any("authorization" in seen.headers for seen in hub.requests)
    for call in (*ACTIONS.values(), *QUESTIONS.values()):
        call(Spaces(ADA, hub.url))
    assert {seen.headers.get("authorization") for seen in hub.requests[3:]} == {f"Bearer {ADA}"}


class Everything(logging.Handler):
    """Keeps every record of every logger as text, tracebacks and arguments included."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record) + repr(record.args))


@pytest.fixture
def log_handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Everything]:
    """All loggers at DEBUG, those that do not propagate too."""
    handler = Everything()
    loggers = [logging.getLogger(), *(one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger))]
    before = [(one, one.level) for one in loggers]
    monkeypatch.setattr(constants, "HF_DEBUG", True)
    for one in loggers:
        one.setLevel(logging.DEBUG)
        one.addHandler(handler)
    yield handler
    for one, level in before:
        one.setLevel(level)
        one.removeHandler(handler)


@pytest.mark.parametrize(
    "fault",
    [
        None,
        *(
            Fault(status=status, body=f'{{"error": "token {SENTINEL} refused"}}'.encode())
            for status in (400, 401, 402, 403, 404, 409, 429, 500)
        ),
        Fault(body=f'["{SENTINEL}"]'.encode()),
        Fault(body=f'{{"stage": "{SENTINEL}", "id": "{SENTINEL}", "name": "{SENTINEL} ?"}}'.encode()),
        Fault(cut=True),
    ],
    ids=lambda fault: "fine" if fault is None else f"{fault.status} {(fault.body or b'')[:6]!r}",
)
def test_a_visitors_token_travels_in_one_header_and_nowhere_else(hub: SpaceStandIn, log_handler: Everything, fault: Fault | None) -> None:
    """Not in an address, a body, a log line at DEBUG, a repr or an error with its whole chain, even where the Hub's answer repeats it."""
    if fault is not None:
        hub.faults["/api/"] = fault
    texts = []
    spaces = Spaces(SENTINEL, hub.url)
    for call in (*ACTIONS.values(), *QUESTIONS.values()):
        try:
            result = call(spaces)
        except AdvisorError as error:
            assert fault is not None
            texts += [str(error), repr(error)]
            texts += traceback.format_exception(error)
        else:
            texts.append(repr(result))
    texts += [repr(spaces), str(spaces), *log_handler.lines]
    for seen in hub.requests:
        assert seen.headers.pop("authorization") == f"Bearer {SENTINEL}"
        texts.append(repr(seen))
    assert len(hub.requests) >= 8
    assert any("/api/spaces/ada/chat" in line for line in log_handler.lines)  # the capture works
    assert not any(SENTINEL[3:] in text for text in texts)


def test_two_visitors_at_once_keep_their_tokens(hub: SpaceStandIn) -> None:
    """Eight visitors at the same time: each request for a Space carries the token of its own visitor."""
    tokens = [f"hf_visitor{number}" for number in range(8)]
    for number, token in enumerate(tokens):
        hub.people[token] = Person(name=f"user{number}")
        hub.add_space(FakeSpace(id=f"user{number}/app", private=True))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: [Spaces(tokens[n], hub.url).look(f"user{n}/app").id for _ in range(3)], range(8)))
    assert results == [[f"user{number}/app"] * 3 for number in range(8)]


def test_other_users_of_the_client_keep_their_session(hub: SpaceStandIn) -> None:
    """After our calls, the client's session still waits, follows redirects and runs its hooks for everyone else."""
    before = get_session()
    hooks, patience, follows = before.event_hooks, before.timeout, before.follow_redirects
    assert isinstance(Spaces(None, hub.url).runtime("ada/chat"), Runtime)
    session = get_session()
    assert (session.timeout, session.follow_redirects, session.event_hooks) == (patience, follows, hooks)
    hub.renamed["ada/old"] = "ada/chat"
    assert HfApi(endpoint=hub.url, token=False).space_info("ada/old", token=False).id == "ada/chat"
    assert "huggingface" not in hub.requests[0].headers["user-agent"]
    assert "hf_hub" in hub.requests[-1].headers["user-agent"]


def test_the_clients_telemetry_look_up_is_not_made(hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client would ask the Hub for its registry of agents before the first request; ours is the only request."""
    from huggingface_hub.utils import _detect_agent  # noqa: PLC0415 - private, for this test only

    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(tmp_path / "harnesses.json"))
    monkeypatch.setattr(_detect_agent, "_registry", None)
    Spaces(ADA).runtime("ada/chat")
    assert hub.paths() == ["/api/spaces/ada/chat/runtime"]


def test_a_look_takes_a_turn(hub: SpaceStandIn) -> None:
    """Where none is granted the Hub is not asked."""

    @contextmanager
    def refuse() -> Iterator[None]:
        raise RateLimited("no turn")
        yield

    with pytest.raises(RateLimited, match="no turn"):
        Spaces(None, hub.url, turn=refuse).look("ada/chat")
    assert hub.requests == []
