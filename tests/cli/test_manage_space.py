"""`scripts/manage_space.py` through the real client against the Hub's stand-in: what it asks, what it sends, how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import huggingface_hub.constants
import pytest
from click.testing import CliRunner, Result
from contract import TINY_CONFIG
from hub_stand_in import Fault
from space_stand_in import FakeSpace, Person, RunningJob, SpaceStandIn, demo

from lib.cli import act, outcome
from lib.cli.app import main
from lib.errors import AdvisorError
from lib.request.fields import Arguments
from lib.service import space_status
from lib.service.recommend import RecommendArguments
from lib.service.right_size import RightSizeArguments

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "manage_space.py"
TOKEN = "hf_sentinel_of_the_command_line"  # noqa: S105 - a stand-in's
COMMANDS = (
    "account",
    "batch",
    "explain",
    "files",
    "fleet",
    "hardware",
    "pause",
    "recommend",
    "restart",
    "right-size",
    "sleep",
    "status",
    "stop",
    "tiers",
    "what-runs",
    "zerogpu",
)
Run = Callable[..., Result]


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """The stand-in with its demonstration Spaces; our sentinel is a token of ada's that may write."""
    with SpaceStandIn() as stand_in:
        demo(stand_in)
        stand_in.people[TOKEN] = Person(name="ada", is_pro=True)
        yield stand_in


@pytest.fixture
def run(hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A command in this process, as ada unless another token (or none) is named; stages pass without waiting."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(space_status, "FIRST_S", 0.05)

    def run_words(*words: str, token: str | None = TOKEN, typed: str | None = None) -> Result:
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        if token is not None:
            monkeypatch.setenv("HF_TOKEN", token)
        if typed is not None:
            monkeypatch.setattr(act, "_terminal", lambda: True)
        result = CliRunner().invoke(main, list(words), input=typed)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        return result

    return run_words


def environment(hub_url: str, tmp_path: Path, **more: str) -> dict[str, str]:
    """The environment of a script that talks to the stand-in, without our own login and PYTHONPATH."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTHONPATH"))}
    return inherited | {"HF_ENDPOINT": hub_url, "HF_HOME": str(tmp_path)} | more


def test_switch_names_the_price_and_arrives(run: Run, hub: SpaceStandIn) -> None:
    """A switch shows the price per hour and month, sends exactly what was confirmed, and shows its stages until it runs."""
    done = run("hardware", "ada/chat", "--tier", "l4x1", "--sleep-time", "3600", "--yes")
    assert done.exit_code == outcome.DONE
    # 0.80 USD × 24 h × 30 days = 576 USD
    assert "$0.80 an hour ($576 a month of 30 days around the clock)" in done.stderr
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "l4x1", "sleepTimeSeconds": 3600})]
    stages = re.findall(r"^ +\d+ s  ([A-Z_]+)", done.stderr, re.MULTILINE)
    assert list(dict.fromkeys(stages)) == ["BUILDING", "APP_STARTING", "RUNNING"]
    assert done.stdout.startswith("ada/chat: RUNNING on l4x1, $0.80 an hour")


def test_json_is_one_object(run: Run) -> None:
    """With --json, stdout is one object and nothing else; what a person reads is on stderr."""
    done = run("hardware", "ada/chat", "--tier", "l4", "--yes", "--json")
    told = json.loads(done.stdout)
    assert (told["after"]["hardware"], told["after"]["usd_per_hour"], told["before"]["hardware"]) == ("l4x1", 0.8, "cpu-basic")
    assert told["watched"]["arrived"] is True
    assert "note: 'l4' is called 'l4x1' today." in done.stderr


def test_no_wait_leaves_at_once(run: Run, hub: SpaceStandIn) -> None:
    """With --no-wait the switch is sent and the Space is not looked at again."""
    done = run("hardware", "ada/chat", "--tier", "l4x1", "--yes", "--no-wait", "--json")
    assert (done.exit_code, json.loads(done.stdout)["watched"]) == (outcome.DONE, None)
    assert "POST" in {seen.method for seen in hub.requests[-1:]}


@pytest.mark.parametrize(
    "words",
    [
        ("hardware", "ada/chat", "--tier", "l4x1"),
        ("hardware", "ada/large", "--tier", "cpu-upgrade"),
        ("pause", "ada/chat"),
        ("restart", "ada/chat"),
        ("sleep", "ada/large", "600"),
    ],
    ids=" ".join,
)
def test_nothing_without_a_yes(run: Run, hub: SpaceStandIn, words: tuple[str, ...]) -> None:
    """Dearer or cheaper, nothing is changed without --yes where nobody can be asked, nor when the answer is no."""
    assert run(*words).exit_code == outcome.NOT_CONFIRMED
    assert run(*words, typed="n\n").exit_code == outcome.NOT_CONFIRMED
    assert run(*words, typed="\n").exit_code == outcome.NOT_CONFIRMED
    assert run(*words, typed="").exit_code == outcome.NOT_CONFIRMED  # the input ended
    refused = run(*words, "--json")
    assert json.loads(refused.stdout)["error"]["code"] == "not_confirmed"
    assert hub.actions() == []


def test_a_yes_at_the_prompt_is_enough(run: Run, hub: SpaceStandIn) -> None:
    """The question names the price per hour; a yes switches, and stdout holds none of the conversation."""
    done = run("hardware", "ada/chat", "--tier", "l4x1", "--no-wait", "--json", typed="y\n")
    assert "$0.80 an hour and replica?" in done.stderr
    assert json.loads(done.stdout)["after"]["hardware"] == "l4x1"
    assert len(hub.actions()) == 1


def test_an_account_is_listed_and_a_job_of_it_stopped(run: Run, hub: SpaceStandIn) -> None:
    """A Job on an A10G, 1.00 USD an hour, is billed until it is cancelled; nothing is stopped without a yes."""
    hub.add_job(RunningJob(id="ada/687fb701"))
    listed = run("account")
    assert re.search(r"^job +ada/687fb701 +a10g-small +RUNNING +ends +\$1\.00 +-$", listed.stdout, re.MULTILINE), listed.stdout
    nameless = run("stop", "job", "687fb701", typed="y\n")
    assert nameless.exit_code == outcome.REFUSED
    assert "name was '687fb701'" in nameless.stderr
    assert "Stop it?" not in nameless.stderr
    assert run("stop", "job", "ada/687fb701").exit_code == outcome.NOT_CONFIRMED
    assert run("stop", "job", "ada/687fb701", typed="n\n").exit_code == outcome.NOT_CONFIRMED
    assert hub.jobs["ada/687fb701"].stage == "RUNNING"
    done = run("stop", "job", "ada/687fb701", typed="y\n")
    assert "It is cancelled: it ends now" in done.stderr
    assert done.stdout.startswith("ada/687fb701: CANCELED. ")
    assert hub.jobs["ada/687fb701"].stage == "CANCELED"
    assert (
        json.loads(run("account", "--json").stdout)["usd_per_month"]
        == json.loads(run("account", "--owner", "ada", "--json").stdout)["usd_per_month"]
    )
    assert run("account", token=None).exit_code == outcome.NOT_PERMITTED


def test_pause_restart_sleep(run: Run, hub: SpaceStandIn) -> None:
    """Pause, factory restart and sleep time send their own request each, and say how the Space stands."""
    hub.add_space(FakeSpace(id="ada/gpu", hardware="l4x1", requested="l4x1", sleep_s=None))
    assert "PAUSED" in run("pause", "ada/gpu", "--yes").stdout
    again = run("restart", "ada/gpu", "--factory", "--yes")
    assert (again.exit_code, hub.spaces["ada/gpu"].factory) == (outcome.DONE, True)
    assert "RUNNING on l4x1" in again.stdout
    assert "after 600 s" in run("sleep", "ada/gpu", "600", "--yes").stdout
    assert "never" in run("sleep", "ada/gpu", "--sleep-time", "-1", "--yes").stdout
    sent = [(path.split("?")[0].rpartition("/")[2], body) for path, body in hub.actions()]
    assert sent == [("pause", None), ("restart", None), ("sleeptime", {"seconds": 600}), ("sleeptime", {"seconds": -1})]


@pytest.mark.parametrize(
    ("words", "token", "status", "said"),
    [
        (("hardware", "ada/chat", "--tier", "l4x1"), None, outcome.NOT_PERMITTED, "hf auth login"),
        (("pause", "ada/chat"), "hf_ada_read", outcome.NOT_PERMITTED, "write"),
        (("hardware", "ada/chat", "--tier", "l4x1"), "hf_ada_oauth", outcome.NOT_PERMITTED, "token"),
        (("pause", "bob/app"), TOKEN, outcome.NOT_PERMITTED, "bob/app"),
        (("hardware", "bob/app", "--tier", "l4x1"), "hf_bob", outcome.PAYMENT, "payment"),
        (("pause", "ada/nowhere"), TOKEN, outcome.NOT_FOUND, "ada/nowhere"),
        (("restart", "engines/busy"), TOKEN, outcome.NOT_PERMITTED, "engines/busy"),
        (("hardware", "ada/chat", "--tier", "h100"), TOKEN, outcome.REFUSED, "h100"),
        (("hardware", "ada/chat", "--tier", "nonsense"), TOKEN, outcome.REFUSED, "The command `tiers`"),
        (("hardware", "ada/chat", "--tier", "cpu-basic"), TOKEN, outcome.REFUSED, "the command `restart`"),
        (("hardware", "ada/docker", "--tier", "zero-a10g"), TOKEN, outcome.REFUSED, "Gradio"),
        (("sleep", "ada/chat", "600"), TOKEN, outcome.REFUSED, "48 hours"),
        (("pause", "not an id"), TOKEN, outcome.REFUSED, "owner/name"),
        (("restart", "ada/unbuilt"), TOKEN, outcome.FAILED, "torch==99"),
        (("restart", "ada/broken"), TOKEN, outcome.FAILED, "out of memory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_refusals_have_their_status(run: Run, words: tuple[str, ...], token: str | None, status: int, said: str) -> None:
    """Every way to be refused ends with its own status and a sentence that says what to do."""
    refused = run(*words, "--yes", token=token)
    assert refused.exit_code == status
    assert said in refused.output


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault(status=409), outcome.UNREACHABLE),
        (Fault(status=429), outcome.UNREACHABLE),
        (Fault(status=503), outcome.UNREACHABLE),
        (Fault(status=402), outcome.PAYMENT),
        (Fault(status=403), outcome.NOT_PERMITTED),
        (Fault(status=401), outcome.NOT_PERMITTED),
        (Fault(status=404), outcome.NOT_FOUND),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_what_the_hub_refuses(run: Run, hub: SpaceStandIn, fault: Fault, status: int) -> None:
    """What the Hub answers to the act itself ends with the status of its kind, as JSON too."""
    hub.faults["/ada/chat/pause"] = fault
    refused = run("pause", "ada/chat", "--yes", "--json")
    assert refused.exit_code == status
    assert json.loads(refused.stdout)["error"]["message"] in refused.stderr.replace("\n", " ")


def test_every_error_has_a_status() -> None:
    """Each kind of refusal in the tree ends with a status that --help explains, never with 0 or click's own 2."""

    def kinds(root: type[AdvisorError]) -> Iterator[type[AdvisorError]]:
        for kind in root.__subclasses__():
            yield kind
            yield from kinds(kind)

    found = {kind: outcome.status_of(kind.__new__(kind)) for kind in kinds(AdvisorError)}
    assert len(found) > 20
    assert set(found.values()) <= set(outcome.MEANINGS) - {outcome.DONE, outcome.USAGE}


def test_the_hosts_login_acts_and_never_shows(run: Run, hub: SpaceStandIn) -> None:
    """The login of this machine is what acts, in the authorization header only: never in an address or in what is printed."""
    output = "".join(
        run(*words).output
        for words in (
            ("status", "ada/secret"),
            ("status", "ada/chat", "--watch", "--json"),
            ("hardware", "ada/chat", "--tier", "l4x1", "--yes"),
            ("pause", "bob/app", "--yes", "--json"),
        )
    )
    assert TOKEN not in output
    assert not any(TOKEN in seen.path or TOKEN.encode() in (seen.body or b"") for seen in hub.requests)
    assert {seen.headers.get("authorization") for seen in hub.requests if seen.method == "POST"} == {f"Bearer {TOKEN}"}


def test_there_is_no_token_argument() -> None:
    """No command takes a token: arguments stand in the shell's history."""
    for command in main.commands.values():
        names = {name for option in command.params for name in (*option.opts, str(option.name))}
        assert not any("token" in name.replace("tokens", "") for name in names)


def test_status_needs_no_login(run: Run) -> None:
    """A public Space is shown to anyone, with its price and models; a private one is not found."""
    seen = run("status", "ada/large", token=None)
    assert seen.exit_code == outcome.DONE
    for part in ("RUNNING", "a100-large", "$2.50 an hour ($1,800 a month", "org/llama-8b", "billed now"):
        assert part in seen.stdout
    assert run("status", "ada/secret", token=None).exit_code == outcome.NOT_FOUND


def test_status_watch_follows_to_the_end(run: Run, hub: SpaceStandIn) -> None:
    """--watch shows the stages of what somebody else began, and ends with how it stands."""
    hub.spaces["ada/chat"].requested = "l4x1"
    hub.spaces["ada/chat"].build()
    seen = run("status", "ada/chat", "--watch", "--json")
    assert (seen.exit_code, json.loads(seen.stdout)["hardware"]) == (outcome.DONE, "l4x1")
    assert "APP_STARTING" in seen.stderr


def test_right_size_says_what_moving_saves(run: Run) -> None:
    """The pick beside the current tier, with the saving: an A100 (1,800 USD a month) is more than 7B in bf16 needs."""
    found = json.loads(run("right-size", "ada/large", "--model", "7B", "--account", "pro", "--json", token=None).stdout)
    assert (found["decision"], found["current"]["hardware"]) == ("move", "a100-large")
    shown = run("right-size", "ada/large", "--model", "7B", "--account", "pro", token=None).stdout
    assert f"Move to {found['pick']['hardware']}. It saves $" in shown
    assert found["saving_usd_per_month"] == 1800 - found["pick"]["cost"]["total_usd_per_month"]


def test_tiers_show_the_platforms_prices(run: Run, hub: SpaceStandIn) -> None:
    """The list is the platform's own of now: a price that changed there changes here."""
    row = next(one for one in hub.hardware["spaces"] if one["name"] == "l4x1")
    for field, value in {"unitCostMicroUSD": 15000, "unitCostUSD": 0.015}.items():  # a minute; × 60 = 0.90 an hour
        row[field] = value
    listed = json.loads(run("tiers", "--json", token=None).stdout)["hardware"]
    assert next(one["usd_per_hour"] for one in listed if one["id"] == "l4x1") == 0.9
    shown = run("tiers", token=None).stdout
    assert re.search(r"^l4x1 .* \$0\.90 +\$648$", shown, re.MULTILINE)
    assert "h100" not in shown
    assert "h100" in run("tiers", "--all", token=None).stdout


def test_recommend_writes_the_files(run: Run) -> None:
    """A recommendation with --files ends with the two files; an unknown framework is refused."""
    found = json.loads(run("recommend", "7B", "--files", "pytorch", "--json").stdout)
    assert found["files"]["readme_front_matter"].startswith("---\n")
    assert "torch==" in run("recommend", "7B", "--files", "pytorch").stdout
    assert run("recommend", "7B", "--files", "mxnet").exit_code == outcome.REFUSED
    assert run("recommend", "no such model").exit_code == outcome.REFUSED
    assert "No hardware of these platforms does it." in run("recommend", "9000B").stdout
    assert run("recommend", "7B").stdout.startswith("7B: text-generation")
    assert run("recommend", TINY_CONFIG).stdout.startswith("Pasted config.json: text-generation")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("hardware", "ada/chat"),
        ("hardware", "--tier", "l4x1"),
        ("sleep", "ada/chat"),
        ("sleep", "a/b", "1", "--sleep-time", "2"),
        ("fly",),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_2(run: Run, hub: SpaceStandIn, words: tuple[str, ...]) -> None:
    """What click itself refuses ends with 2, and the Hub is not asked."""
    assert run(*words).exit_code == outcome.USAGE
    assert hub.requests == []


def test_control_characters_are_not_printed(run: Run, hub: SpaceStandIn) -> None:
    """What a Space's owner wrote cannot steer the terminal of whoever looks."""
    hub.add_space(FakeSpace(id="ada/evil", stage="RUNTIME_ERROR", error="\x1b]0;owned\x07\x1b[2J", models=["a/\x1b[31mred"]))
    for seen in (run("status", "ada/evil"), run("status", "ada/evil", "--json")):
        assert not {c for c in seen.output if not c.isprintable() and c != "\n"}


def test_what_is_said_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is printed, as an answer or beside it, has lost its control characters; its lines stay."""
    outcome.say("a\x1b[2J\nb\u202e")
    outcome.print_answer({"x": "\x1b"}, "c\x07\nd", as_json=False)
    told = capsys.readouterr()
    assert (told.err, told.out) == ("a·[2J\nb·\n", "c·\nd\n")


def test_help_teaches() -> None:
    """The help names every command, the exit statuses and the login; each command shows an example that its parser takes."""
    told = CliRunner().invoke(main, ["--help"]).output
    assert all(f"  {name} " in told for name in COMMANDS)
    assert all(meaning.split()[0] in told and f" {status}  " in told for status, meaning in outcome.MEANINGS.items())
    assert "hf auth login" in told
    assert sorted(main.commands) == list(COMMANDS)
    for name, command in main.commands.items():
        examples = re.findall(r"manage_space\.py (.*)", str(command.epilog))
        assert examples
        for line in examples:
            first, *words = line.split()
            assert first == name
            command.make_context(name, words)
    for line in re.findall(r"manage_space\.py (.*)", str(main.epilog)):
        name, *words = line.split()
        main.commands[name].make_context(name, words)


@pytest.mark.parametrize(
    ("name", "arguments", "named"), [("recommend", RecommendArguments, {"model"}), ("right-size", RightSizeArguments, {"space_id"})]
)
def test_a_command_takes_every_argument_of_its_endpoint(name: str, arguments: type[Arguments], named: set[str]) -> None:
    """With its default and its words; a new argument of the endpoint is an option without a line here."""
    command = main.commands[name]
    options = {one.name: one for one in command.get_params(command.make_context(name, ["7B"])) if isinstance(one, click.Option)}
    listed = {name: argument for name, argument in arguments.list_fields().items() if name not in named}
    assert listed.keys() <= options.keys()
    assert {name: options[name].default for name in listed} == {name: argument.default for name, argument in listed.items()}
    told = " ".join(CliRunner().invoke(main, [name, "--help"]).output.split())
    assert all(str(argument.help).split(";")[0].split(",")[0] in told for argument in listed.values())


def test_a_value_reaches_the_endpoint_by_its_own_type(run: Run) -> None:
    """Ten minutes of sound are heard longer than half a minute; what is no number is refused by the parser."""
    asked = ("recommend", "openai/whisper-large-v3", "--json")
    usual, long = (json.loads(run(*asked, *more).stdout) for more in ((), ("--audio-seconds", "600")))
    assert long["pick"]["speed"]["request_s"] > usual["pick"]["speed"]["request_s"]
    assert run("recommend", "7B", "--images", "many").exit_code == 2


def test_help_imports_little(tmp_path: Path) -> None:
    """--help works from anywhere without PYTHONPATH, and imports nothing that takes long (tests/benchmarks/bench_small.py times it)."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", SCRIPT, "--help"],
        cwd=tmp_path, env=environment("", tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "python scripts/manage_space.py [OPTIONS] COMMAND" in told.stdout
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "lib.cli.app" in imported
    assert not imported & {"gradio", "huggingface_hub", "httpx", "numpy", "plotly", "pydantic", "torch", "transformers"}


def test_offline_answers_from_what_is_bundled(tmp_path: Path) -> None:
    """Without a network the tiers and a bundled model are answered, and are said to be the bundled prices."""
    alone = environment("http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    for words in (["tiers"], ["recommend", "Qwen/Qwen3-8B"]):
        told = subprocess.run([sys.executable, SCRIPT, *words], env=alone, capture_output=True, text=True, check=True)
        assert "l4x1" in told.stdout
        assert "bundled with this program" in told.stdout + told.stderr


def test_the_script_itself(hub: SpaceStandIn, tmp_path: Path) -> None:
    """The line of the issue, as a process: one JSON object on stdout, the token nowhere, nothing left behind in the login's folder."""
    words = ["hardware", "ada/chat", "--tier", "l4x1", "--sleep-time", "3600", "--yes", "--json", "--no-wait"]
    told = subprocess.run(
        [sys.executable, "scripts/manage_space.py", *words],
        cwd=ROOT,
        env=environment(hub.url, tmp_path, HF_TOKEN=TOKEN),
        capture_output=True,
        check=True,
    )
    assert json.loads(told.stdout)["requested_hardware"] == "l4x1"
    assert TOKEN.encode() not in told.stdout + told.stderr
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


OWN_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal on stdin the process's own, so that Ctrl-C reaches it, and becomes the command. Tests that a shell started in the
background hand down that Ctrl-C is ignored. As `preexec_fn` it would run between fork and exec, where a lock that another thread held (here
one of the stand-in's) is never released."""


PATIENCE_S = 120.0
"""The watching says something every 15 s, for ever."""


def _read_until(terminal: int, seen: str, wanted: str) -> str:
    """Read from a terminal until it shows this; where the script ends before, reading fails."""
    until = time.monotonic() + PATIENCE_S
    while wanted not in seen:
        assert time.monotonic() < until, f"no {wanted!r} after {PATIENCE_S} s in: {seen}"
        seen += os.read(terminal, 4096).decode()
    return seen


def test_ctrl_c_stops_the_watching_only(hub: SpaceStandIn, tmp_path: Path) -> None:
    """At a real terminal: it asks, a yes switches, Ctrl-C stops the watching and says so; the Space goes on."""
    hub.seconds_per_stage = 3600
    words = ["hardware", "ada/chat", "--tier", "l4x1"]
    ours, theirs = pty.openpty()
    script = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, sys.executable, SCRIPT, *words],
        env=environment(hub.url, tmp_path, HF_TOKEN=TOKEN),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen = _read_until(ours, "", "[y/N]")
        os.write(ours, b"y\n")
        seen = _read_until(ours, seen, "BUILDING")
        os.write(ours, b"\x03")
        seen = _read_until(ours, seen, "No longer watching")
        assert script.wait() == outcome.INTERRUPTED
    finally:
        script.kill()
        script.wait()
        os.close(ours)
    assert "Traceback" not in seen
    assert hub.spaces["ada/chat"].requested == "l4x1"
    assert [path for path, _ in hub.actions()] == ["/api/spaces/ada/chat/hardware"]


def test_files_are_written_into_a_folder_and_replace_none(run: Run, tmp_path: Path) -> None:
    """The files stand in the folder as in the JSON answer; a second time they are refused."""
    words = ("files", "Qwen/Qwen3-8B", "l4x1", "--purpose", "app", "--out", str(tmp_path / "space"), "--json")
    done = run(*words)
    answer = json.loads(done.stdout)
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "space").iterdir()} == answer["files"]
    assert answer["command"].startswith("hf upload")
    again = run(*words)
    assert (again.exit_code, json.loads(again.stdout)["error"]["code"]) == (1, "bad_argument")


def test_batch_prints_the_plan_and_its_command(run: Run) -> None:
    """A pile of work as a table with the pick first, and the line that starts it; a refusal names the argument."""
    done = run("batch", "Qwen/Qwen3-8B", "1000000", "--deadline-hours", "4", "--platforms", "jobs")
    assert done.exit_code == outcome.DONE
    first = done.stdout.index("hardware")
    assert done.stdout[first:].splitlines()[1].split()[1] == "jobs"
    assert "for part in $(seq 0" in done.stdout
    assert run("batch", "Qwen/Qwen3-8B", "0").exit_code == outcome.REFUSED
