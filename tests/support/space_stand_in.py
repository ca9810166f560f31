"""A stateful stand-in of the Hub's Spaces, Endpoints, Jobs and accounts, beside the models of `hub_stand_in`; answers over HTTP.

In a test:       with SpaceStandIn() as hub: hub.add_space(FakeSpace(id="ada/chat")); hub.people["hf_ada"] = Person(name="ada")
                 hub.spaces["ada/chat"].stage, hub.requests (each with headers and body), hub.faults["/hardware"] = Fault(status=409)
By hand:         python tests/support/space_stand_in.py --port 8931      then start the app with HF_ENDPOINT=http://127.0.0.1:8931
                 and sign in, or paste a token, as one of the people that it prints

A switch or a restart passes through BUILDING and APP_STARTING, one stage per look (`seconds_per_stage` > 0: by the clock), and ends
in the Space's `ending`: RUNNING, or an error stage. Tokens: `write` may everything that its person may, `read` only looks (403),
`oauth` gets 401 "RepoNotFound" for hardware, sleep time and restart although it may look and pause, as some sign-ins on the Hub.
Answers follow what huggingface_hub 2.4 reads (_space_api.py, hf_api.py, utils/_http.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hub_stand_in import Answer, Seen, StandIn, refuse

FIXED_SLEEP_S = 172_800  # of cpu-basic
FREE = frozenset({"cpu-basic", "zero-a10g"})
ACTIONS = ("hardware", "sleeptime", "pause", "restart")
BUILT = ("BUILDING", "APP_STARTING")
LIMITED = frozenset({"hardware", "sleeptime", "restart"})
MOCKED_LOGIN = "mock-oauth-token-for-local-dev"  # what Gradio 6.31 hands over after its mocked login
WRONG_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 - the Hub's sentence


@dataclass(slots=True, kw_only=True)
class Person:
    """Who a token belongs to, and of which kind the token is: write, read or oauth. `orgs` maps names to plans.

    `quota` is the answer about ZeroGPU; None where the token may not read billing.
    """

    name: str
    kind: str = "write"
    is_pro: bool = False
    can_pay: bool | None = True
    quota: dict[str, Any] | None = field(default_factory=lambda: {"base": 300, "current": 300})
    orgs: dict[str, str | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON of /api/whoami-v2."""
        orgs = [{"type": "org", "name": name, "fullname": name} | ({"plan": plan} if plan else {}) for name, plan in self.orgs.items()]
        pays = {} if self.can_pay is None else {"canPay": self.can_pay}
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": self.kind}}
        named = {"type": "user", "id": f"id-{self.name}", "name": self.name, "fullname": self.name.title(), "avatarUrl": "/avatar.svg"}
        return named | {"isPro": self.is_pro, "orgs": orgs, "auth": auth} | pays


@dataclass(slots=True, kw_only=True)
class FakeSpace:
    """A Space and where it stands. `to_come` are the stages ahead; `ending` and `failure` say how the next build ends."""

    id: str
    sdk: str = "gradio"
    private: bool = False
    stage: str = "RUNNING"
    hardware: str | None = "cpu-basic"
    requested: str | None = "cpu-basic"
    sleep_s: int | None = FIXED_SLEEP_S
    replicas: int | None = 1
    volumes: list[dict[str, Any]] | None = None
    models: list[str] = field(default_factory=list)
    related: list[str] = field(default_factory=list)
    error: str | None = None
    ending: str = "RUNNING"
    failure: str = "Exit code: 1. Reason: CUDA out of memory"
    factory: bool = False
    busy: bool = False
    to_come: list[str] = field(default_factory=list)
    since: float = 0.0

    @property
    def owner(self) -> str:
        """The user or organization that it belongs to."""
        return self.id.partition("/")[0]

    def runtime(self) -> dict[str, Any]:
        """The JSON of /api/spaces/{id}/runtime."""
        fields = {
            "stage": self.stage,
            "hardware": {"current": self.hardware, "requested": self.requested},
            "storage": None,
            "gcTimeout": self.sleep_s,
            "replicas": {"current": self.replicas, "requested": self.replicas},
            "devMode": False,
        }
        return fields | ({"errorMessage": self.error} if self.error else {}) | ({"volumes": self.volumes} if self.volumes else {})

    def to_json(self) -> dict[str, Any]:
        """The JSON of /api/spaces/{id}."""
        card = {"title": self.id, "sdk": self.sdk} | ({"models": self.models} if self.models else {})
        told = {"id": self.id, "private": self.private, "sdk": self.sdk, "cardData": card, "models": self.related}
        return told | {"runtime": self.runtime()}

    def build(self) -> None:
        """Start a build; a build error comes in place of the app's start."""
        self.to_come = [*BUILT[: 1 if self.ending in ("BUILD_ERROR", "CONFIG_ERROR", "NO_APP_FILE") else 2], self.ending]
        self.error = None
        self.step()

    def step(self) -> None:
        """Enter the next stage, if one is ahead."""
        if self.to_come:
            self.stage, self.since = self.to_come.pop(0), time.monotonic()
            if self.stage in ("APP_STARTING", "RUNNING"):
                self.hardware = self.requested
            self.error = self.failure if self.stage.endswith("ERROR") else None


@dataclass(slots=True, kw_only=True)
class FakeEndpoint:
    """An Inference Endpoint; `idle_minutes` None never scales to zero."""

    id: str
    state: str = "running"
    vendor: str = "aws"
    instance: str = "nvidia-l4"
    size: str = "x1"
    least: int = 1
    replicas: int = 1
    idle_minutes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON of /v2/endpoint/{owner}/{name}."""
        day = "2026-11-20T09:00:00.000Z"
        scaling = {"minReplica": self.least, "maxReplica": 2, "scaleToZeroTimeout": self.idle_minutes}
        return {
            "name": self.id.partition("/")[2],
            "type": "protected",
            "healthRoute": "/health",
            "provider": {"vendor": self.vendor, "region": "us-east-1"},
            "compute": {"accelerator": "gpu", "instanceType": self.instance, "instanceSize": self.size, "scaling": scaling},
            "model": {"repository": "org/llama-8b", "revision": None, "task": "text-generation", "framework": "custom"},
            "status": {"state": self.state, "createdAt": day, "updatedAt": day, "readyReplica": 0, "targetReplica": self.replicas},
        }


@dataclass(slots=True, kw_only=True)
class RunningJob:
    """A Job, as the list of an account tells it."""

    id: str
    stage: str = "RUNNING"
    flavor: str = "a10g-small"

    def to_json(self) -> dict[str, Any]:
        """The JSON of a Job."""
        owner, _, name = self.id.partition("/")
        told = {"id": name, "createdAt": "2026-11-21T09:00:00.000Z", "command": ["python"], "flavor": self.flavor}
        started = {} if self.stage == "SCHEDULING" else {"startedAt": "2026-11-21T09:00:05.000Z"}
        return told | started | {"status": {"stage": self.stage}, "owner": {"id": "1", "name": owner, "type": "user"}}


class SpaceStandIn(StandIn):
    """The server. `people` maps tokens to persons, `spaces` ids to Spaces; `page` is how many Spaces a list tells at once."""

    def __init__(self, port: int = 0) -> None:
        from prices_stand_in import as_listed  # noqa: PLC0415 - reads the catalog, which a script has to find first

        super().__init__(port)
        self.people: dict[str, Person] = {}
        self.spaces: dict[str, FakeSpace] = {}
        self.endpoints: dict[str, FakeEndpoint] = {}
        self.jobs: dict[str, RunningJob] = {}
        self.renamed: dict[str, str] = {}
        self.page = 100
        self.seconds_per_stage = 0.0
        self.hardware = {name: as_listed(name) for name in ("spaces", "jobs")}

    def add_space(self, space: FakeSpace) -> FakeSpace:
        """Serve one more Space."""
        self.spaces[space.id] = space
        return space

    def add_endpoint(self, endpoint: FakeEndpoint) -> None:
        """Serve one more Inference Endpoint."""
        self.endpoints[endpoint.id] = endpoint

    def add_job(self, job: RunningJob) -> None:
        """Serve one more Job."""
        self.jobs[job.id] = job

    def actions(self) -> list[tuple[str, Any]]:
        """What was asked to be done so far: path and JSON body of every POST."""
        return [(seen.path, json.loads(seen.body or b"null")) for seen in list(self.requests) if seen.method == "POST"]

    def answer(self, seen: Seen) -> Answer:
        """What the Hub would say to this request."""
        parts = urlsplit(seen.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if path in ("/api/spaces/hardware", "/api/jobs/hardware"):
            return _json(self.hardware[path.split("/")[2]])
        ours = path in ("/api/whoami-v2", "/api/spaces") or path.startswith(("/api/spaces/", "/v2/endpoint/", "/api/jobs/"))
        if not ours:
            return super().answer(seen)
        if token and token not in self.people:
            return refuse(401, "", WRONG_TOKEN)
        person = self.people.get(token)
        if path in ("/api/whoami-v2", "/api/spaces/zero-gpu/quota"):
            told = person and (person.to_json() if path == "/api/whoami-v2" else person.quota)
            return _json(told) if told else refuse(403 if person else 401, "", "Invalid username or password.")
        if not path.startswith("/api/spaces/"):
            return self._list_spaces(query, person) if path == "/api/spaces" else self._resources(path, query, person)
        owner, name, act = (*path.removeprefix("/api/spaces/").split("/"), "", "")[:3]
        return self._space(f"{owner}/{name}", act, seen, person)

    def _resources(self, path: str, query: dict[str, list[str]], person: Person | None) -> Answer:
        """Endpoints and Jobs, listed and stopped; a sign-in (oauth) has no scope for them."""
        _, first, second, owner, *rest = path.split("/")
        if person is None or person.kind == "oauth" or owner not in (person.name, *person.orgs):
            return refuse(401, "", "Unauthorized")
        if not rest and (first, second) == ("v2", "endpoint"):
            return _json({"items": [one.to_json() for one in self.endpoints.values() if one.id.startswith(f"{owner}/")]})
        if not rest:
            return _json([one.to_json() for one in self.jobs.values() if one.id.startswith(f"{owner}/") and one.stage in query["stage"]])
        name = f"{owner}/{rest[0]}"
        if person.kind == "read" or name not in self.endpoints | self.jobs:
            return refuse(403, "", "Forbidden") if person.kind == "read" else refuse(404, "", "Not found")
        if name in self.jobs:
            self.jobs[name].stage = "CANCELED"
            return _json({})
        self.endpoints[name].state, self.endpoints[name].replicas = "paused", 0
        return _json(self.endpoints[name].to_json())

    def _list_spaces(self, query: dict[str, list[str]], person: Person | None) -> Answer:
        author, start = query.get("author", [""])[0], int(query.get("cursor", ["0"])[0])
        found = [space.to_json() for space in self.spaces.values() if space.owner == author and _may_see(person, space)]
        answer = _json(found[start : start + self.page])
        if start + self.page < len(found):
            link = f"{self.url}/api/spaces?author={author}&expand=runtime&cursor={start + self.page}"
            answer.headers["Link"] = f'<{link}>; rel="next"'
        return answer

    def _space(self, name: str, act: str, seen: Seen, person: Person | None) -> Answer:
        if name in self.renamed:
            path = seen.path.replace(name, self.renamed[name], 1)
            return Answer(status=307, headers={"Location": path})
        space = self.spaces.get(name)
        if space is None or not _may_see(person, space):
            return refuse(404, "RepoNotFound", "Repository not found") if person else refuse(401, "RepoNotFound", "Repository Not Found")
        if seen.method == "POST" and act in ACTIONS:
            return self._refuse_act(space, act, person) or self._act_on_space(space, act, seen)
        told = space.to_json() if act == "" else space.runtime()
        if time.monotonic() - space.since >= self.seconds_per_stage:
            space.step()
        return _json(told)

    def _refuse_act(self, space: FakeSpace, act: str, person: Person | None) -> Answer | None:
        if person is None:
            return refuse(401, "", "Invalid username or password.")
        if person.kind == "oauth" and act in LIMITED:
            return refuse(401, "RepoNotFound", "Repository Not Found")
        if person.kind == "read" or space.owner not in (person.name, *person.orgs):
            return refuse(403, "", "You don't have the required permissions to perform this action")
        if space.busy:
            return refuse(409, "", "Another operation is in progress on this Space")
        if space.sdk == "static":
            return refuse(400, "", "Static Spaces cannot be paused or restarted")
        return None

    def _act_on_space(self, space: FakeSpace, act: str, seen: Seen) -> Answer:
        body = json.loads(seen.body) if seen.body else {}
        if act == "hardware":
            return self._switch_hardware(space, body, self.people[seen.headers["authorization"].removeprefix("Bearer ")])
        if act == "sleeptime":
            space.sleep_s = FIXED_SLEEP_S if space.requested == "cpu-basic" else body["seconds"]
        if act == "pause":
            space.stage, space.hardware, space.to_come = "PAUSED", None, []
        if act == "restart":
            space.factory = "factory=true" in seen.path
            space.build()
        return _json(space.runtime())

    def _switch_hardware(self, space: FakeSpace, body: dict[str, Any], person: Person) -> Answer:
        flavor = body["flavor"]
        if flavor not in {row["name"] for row in self.hardware["spaces"]}:
            return refuse(400, "", f"Invalid hardware flavor {flavor}")
        if flavor not in FREE and not person.can_pay:
            return refuse(402, "", "Payment required: add a payment method to your account")
        space.requested = flavor
        space.sleep_s = FIXED_SLEEP_S if flavor == "cpu-basic" else body.get("sleepTimeSeconds")
        space.build()
        return _json(space.runtime())


def _json(value: Any) -> Answer:
    return Answer(body=json.dumps(value).encode())


def _may_see(person: Person | None, space: FakeSpace) -> bool:
    return not space.private or (person is not None and space.owner in (person.name, *person.orgs))


def demo(hub: SpaceStandIn) -> None:
    """People and Spaces to try the page with."""
    hub.people |= {
        "hf_ada": Person(name="ada", is_pro=True, orgs={"engines": "team"}),
        MOCKED_LOGIN: Person(name="ada", is_pro=True, orgs={"engines": "team"}),
        "hf_ada_read": Person(name="ada", kind="read", is_pro=True),
        "hf_ada_oauth": Person(name="ada", kind="oauth", is_pro=True),
        "hf_bob": Person(name="bob", can_pay=False),
    }
    hub.add_space(FakeSpace(id="ada/chat", models=["org/llama-8b"]))
    hub.add_space(FakeSpace(id="ada/large", hardware="a100-large", requested="a100-large", sleep_s=None, models=["org/llama-8b"]))
    hub.add_space(FakeSpace(id="ada/secret", private=True))
    hub.add_space(FakeSpace(id="ada/zero", hardware="zero-a10g", requested="zero-a10g", sleep_s=FIXED_SLEEP_S))
    hub.add_space(FakeSpace(id="ada/page", sdk="static", hardware=None, requested=None, sleep_s=None, replicas=None))
    hub.add_space(FakeSpace(id="ada/docker", sdk="docker"))
    hub.add_space(FakeSpace(id="ada/broken", ending="RUNTIME_ERROR"))
    hub.add_space(FakeSpace(id="ada/unbuilt", ending="BUILD_ERROR", failure="pip could not find torch==99"))
    hub.add_space(FakeSpace(id="engines/busy", busy=True))
    hub.add_space(FakeSpace(id="bob/app"))
    hub.add_space(FakeSpace(id="ada/idle", stage="SLEEPING", hardware=None, requested="l4x1", sleep_s=3600))
    hub.add_endpoint(FakeEndpoint(id="ada/llama"))
    hub.add_endpoint(FakeEndpoint(id="ada/nightly", state="scaledToZero", instance="nvidia-a100", least=0, replicas=0, idle_minutes=15))
    hub.add_job(RunningJob(id="ada/687fb701"))


def main() -> None:
    """Serve the demonstration Spaces and models until stopped."""
    from hub_repos import demo_faults, demo_repos  # noqa: PLC0415 - that module imports the stand-in

    sys.path.insert(0, str(Path(__file__).parents[2]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8931)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each stage takes")
    asked = parser.parse_args()
    with SpaceStandIn(asked.port) as hub:
        hub.seconds_per_stage = asked.seconds
        for repo in demo_repos():
            hub.add(repo)
        hub.faults.update(demo_faults())
        demo(hub)
        print(hub.url, "tokens:", *hub.people, "Spaces:", *hub.spaces, flush=True)  # noqa: T201 - for whoever tries the page
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
