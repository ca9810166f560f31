"""The real app on an emulated ZeroGPU, called from outside: the chat streams, is stopped, and is refused in sentences."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import tiny_chat
from gradio_client import Client
from gradio_client.exceptions import AppError
from zero_emulation import Reply, Scheduler, start_emulated_app

pytestmark = pytest.mark.slow

VISITOR = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, {"user": "me"}, 0)
)


class Zero(NamedTuple):
    """The scheduler, a visitor whom the Hub's proxy knows, and a stranger."""

    scheduler: Scheduler
    visitor: Client
    stranger: Client


@pytest.fixture(scope="module")
def zero(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zero]:
    """One app for all of this."""
    folder = tiny_chat.save(tmp_path_factory.mktemp("models") / "tiny-instruct")
    with Scheduler() as scheduler, start_emulated_app(scheduler, DEMO_MODEL=str(folder)) as url:
        quiet: dict[str, Any] = {"analytics_enabled": False, "verbose": False}
        yield Zero(scheduler, Client(url, headers={"x-ip-token": VISITOR}, **quiet), Client(url, **quiet))


@pytest.fixture(autouse=True)
def _grant_gpu(zero: Zero) -> None:
    """Every test begins with a scheduler that hands out a GPU at once."""
    zero.scheduler.reply = Reply()


def test_it_reported_for_duty(zero: Zero) -> None:
    """The decorated functions were there before the launch: else the platform stops the Space."""
    assert len(zero.scheduler.list_queries("/startup-report")) == 1


def test_the_chat_streams_from_the_gpu(zero: Zero) -> None:
    """Items cross the border between the processes; the seconds asked are those of this request, on half a card, in the visitor's name."""
    items = list(zero.visitor.submit("Hello", [], 12, 0.7, api_name="/chat"))
    assert len(items) > 1
    assert items[-1]["metrics"]["prompt_tokens"] == len("<user\nHello>\n<assistant\n")
    assert items[-1]["metrics"]["device"].startswith("ZeroGPU large")
    assert 1 <= items[-1]["metrics"]["output_tokens"] <= 12
    assert items[-1]["metrics"]["precision"] == "bf16"
    asked = zero.scheduler.list_queries("/schedule")[-1]
    assert (asked["token"], asked["gpuSize"]) == (VISITOR, "large")
    (told,) = [caveat["message"] for caveat in items[-1]["caveats"] if caveat["code"] == "quota_asked"]
    assert f"= {asked['durationSeconds']} s of your quota" in told
    assert int(asked["durationSeconds"]) < 60  # the platform's default
    assert zero.scheduler.wait_for("/release", len(zero.scheduler.list_queries("/schedule")))
    assert zero.scheduler.list_queries("/release")[-1]["fail"] == "false"


def test_a_stop_gives_the_gpu_back(zero: Zero) -> None:
    """The visitor stops in the middle: the GPU is released although the answer had long to go, and the next visitor is answered."""
    before = len(zero.scheduler.list_queries("/release"))
    job = zero.visitor.submit("Tell me everything", [], 256, 0.7, api_name="/chat")
    for item in job:
        if item["stage"] == "writing":
            break
    job.cancel()
    assert zero.scheduler.wait_for("/release", before + 1)
    assert zero.stranger.predict("Hello", [], 2, 0.7, api_name="/chat")["metrics"]["output_tokens"] <= 2


REFUSED = [
    (
        "visitor",
        Reply(
            status=429, body={"left": 10, "wait": 3600}, headers=(("X-Authenticated", "regular"), ("X-Approve-Result", "quota-exceeded"))
        ),
        ["s asked for, 10 s left", "wait 1:00:00", "PRO"],
    ),
    ("stranger", Reply(status=429, body={"left": 0, "wait": 60}), ["strangers share", "sign in"]),
    ("visitor", Reply(status=429, body={"left": 99, "wait": 0}, headers=(("X-Authenticated", "regular"),)), ["runs of today are used up"]),
    (
        "visitor",
        Reply(status=429, body={"left": 99, "wait": -1}, headers=(("X-Authenticated", "pro"),)),
        ["does not grant a run this long"],
    ),
    (
        "visitor",
        Reply(status=429, body={"left": 99, "wait": 9}, headers=(("X-Approve-Result", "pending-overquota-exceeded"),)),
        ["credits are held by tasks"],
    ),
    ("visitor", Reply(events=("ping", "failed")), ["no GPU free within 60 s"]),
    ("visitor", Reply(status=503, body={}), ["no GPU free,"]),
    ("visitor", Reply(status=401, body={}), ["Reload the page"]),
    ("visitor", Reply(status=500, body={}), ["scheduler did not answer as it should"]),
]


@pytest.mark.parametrize(("who", "reply", "holds"), REFUSED)
def test_what_the_scheduler_refuses(zero: Zero, who: str, reply: Reply, holds: list[str]) -> None:
    """The words of the package become ours, with a next step; the app goes on."""
    zero.scheduler.reply = reply
    with pytest.raises(AppError) as told:
        getattr(zero, who).predict("Hello", [], 4, 0.7, api_name="/chat")
    for part in holds:
        assert part in str(told.value)


def test_a_queue_that_is_waited_for(zero: Zero) -> None:
    """Pings while others are served, then a GPU."""
    granted = 'succeeded\ndata: {"idle": true, "nvidiaIndex": 0, "nvidiaUUID": "GPU-emulated", "allowToken": "let-me-in"}'
    zero.scheduler.reply = Reply(events=(granted,))
    assert zero.visitor.predict("Hello", [], 2, 0.7, api_name="/chat")["stage"] == "done"


def test_what_is_refused_before_a_gpu_is_asked_for(zero: Zero) -> None:
    """A message that cannot be answered costs nobody quota."""
    before = len(zero.scheduler.list_queries("/schedule"))
    for arguments in (("x" * 600, [], 4, 0.7), ("a", [{"role": "system", "content": "x"}], 4, 0.7), ("a", [], 1e99, 0.7)):
        with pytest.raises(AppError, match=r"(message|history|max_new_tokens).* was "):
            zero.visitor.predict(*arguments, api_name="/chat")
    assert len(zero.scheduler.list_queries("/schedule")) == before


def test_a_run_that_is_killed(zero: Zero) -> None:
    """The platform ends the GPU's process in the middle: a sentence, the GPU is released as failed, and the next run gets a new process."""
    job = zero.visitor.submit("Tell me everything", [], 256, 0.7, api_name="/chat")
    for item in job:
        if item["stage"] == "writing":
            break
    os.kill(int(zero.scheduler.list_queries("/allow")[-1]["pid"]), signal.SIGKILL)
    with pytest.raises(AppError, match="ended from outside before it was done"):
        job.result()
    assert zero.scheduler.list_queries("/release")[-1]["fail"] == "true"
    processes = len(zero.scheduler.list_queries("/allow"))
    assert zero.visitor.predict("Hello", [], 2, 0.7, api_name="/chat")["stage"] == "done"
    assert len(zero.scheduler.list_queries("/allow")) == processes + 1
