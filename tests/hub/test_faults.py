"""A Hub that fails, lies or hangs: each time a sentence of our own, in bounded time, and no token where it does not belong."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import struct
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hub_repos import TINY, as_json, header, llama_8b, pack_file, safetensors
from hub_stand_in import Blob, Fault, Repo, StandIn
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import HubError, HubGarbage, HubUnreachable, InvalidInput, NotPermitted, RateLimited, RepoGated, RepoNotFound, UnknownModel
from lib.hub import model_files, search
from lib.hub.client import Cache, Hub
from lib.hub.model_files import read_model
from lib.hub.search import suggest_models
from lib.hub.weight_files import BITS, Header, NeedMore, header_length, parse_gguf, parse_safetensors

SENTINEL = "hf_sentinelSENTINELsentinel0123456789"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A Hub with one model that huggingface_hub takes for the real one."""
    with StandIn() as stand_in:
        monkeypatch.setattr(constants, "ENDPOINT", stand_in.url)
        model_files.clear_cache()
        search.clear_cache()
        stand_in.add(llama_8b())
        yield stand_in


def catch_refusal(token: str | None = None, name: str = "org/llama-8b") -> HubError:
    """The error that reading the model ends with; it is a short sentence without a trace of the server."""
    with pytest.raises(HubError) as caught:
        read_model(name, token=token)
    text = str(caught.value)
    assert 20 < len(text) < 600
    assert text.endswith(".")
    assert "Traceback" not in text
    return caught.value


STATUSES: list[tuple[Fault, str | None, type[HubError], str]] = [
    (Fault(status=401), None, RepoNotFound, "does not exist, or it is private"),
    (Fault(status=401, headers=(("X-Error-Code", "RepoNotFound"),)), None, RepoNotFound, "does not exist, or it is private"),
    (Fault(status=401), SENTINEL, NotPermitted, "did not accept the token"),
    (Fault(status=401, headers=(("X-Error-Code", "GatedRepo"),)), None, RepoGated, "licence has to be accepted first"),
    (Fault(status=403, headers=(("X-Error-Code", "GatedRepo"),)), SENTINEL, RepoGated, "your account has no access yet"),
    (Fault(status=403), None, NotPermitted, "does not allow reading"),
    (Fault(status=403, headers=(("X-Error-Message", "Access to this resource is disabled."),)), None, RepoNotFound, "has disabled"),
    (Fault(status=404, headers=(("X-Error-Code", "RepoNotFound"),)), SENTINEL, RepoNotFound, "that your account can see"),
    (Fault(status=404), None, RepoNotFound, "does not exist, or it is private"),
    (Fault(status=404, headers=(("X-Error-Code", "RevisionNotFound"),)), None, RepoNotFound, "no such revision"),
    (Fault(status=429), None, RateLimited, "in some minutes"),
    (Fault(status=429, headers=(("Retry-After", "17"),)), None, RateLimited, "again in 17 s"),
    (Fault(status=429, headers=(("Retry-After", "soon"),)), SENTINEL, RateLimited, "in some minutes"),
    (Fault(status=429, headers=(("RateLimit", '"api";r=0;t=55'),)), None, RateLimited, "again in 55 s"),
    (Fault(status=500), None, HubUnreachable, "status 500"),
    (Fault(status=503, body=b"[[[[["), None, HubUnreachable, "status 503"),
    (Fault(status=500, body=b"[1]"), None, HubUnreachable, "status 500"),
    (Fault(status=418, body=b"\xff\xfe"), None, HubGarbage, "status 418"),
    (Fault(status=416), None, HubGarbage, "status 416"),
]


@pytest.mark.parametrize(("fault", "token", "kind", "words"), STATUSES)
def test_each_refusal_has_its_own_sentence(hub: StandIn, fault: Fault, token: str | None, kind: type[HubError], words: str) -> None:
    """Missing, gated, forbidden, limited and broken are told apart as far as the Hub tells."""
    hub.faults["/api/models/"] = fault
    error = catch_refusal(token)
    assert type(error) is kind
    assert words in str(error)


def test_gated_private_and_missing_are_told_apart(hub: StandIn) -> None:
    """The stand-in's own rules: a gated model shows its card to anyone, a private one to its readers only."""
    hub.add(llama_8b("org/gated", gated="manual", readers=frozenset({"hf_reader"})))
    hub.add(llama_8b("org/private", private=True, readers=frozenset({"hf_reader"})))
    assert type(catch_refusal(name="org/gated")) is RepoGated
    assert type(catch_refusal(token=SENTINEL, name="org/gated")) is RepoGated
    assert type(catch_refusal(name="org/private")) is RepoNotFound
    assert type(catch_refusal(name="org/missing")) is RepoNotFound
    assert read_model("org/gated", token="hf_reader").gated == "manual"  # noqa: S106 - of the stand-in
    assert read_model("org/private", token="hf_reader").private is True  # noqa: S106 - of the stand-in


@pytest.mark.parametrize("part", ["/api/models/", "config.json", "index.json", "00003-of"])
@pytest.mark.parametrize(
    "fault", [Fault(hang=True), Fault(drip_s=0.1), Fault(drip_s=0.1, drip_headers=True)], ids=["hang", "slow body", "slow head"]
)
def test_a_hub_that_does_not_finish_is_left_in_time(hub: StandIn, monkeypatch: pytest.MonkeyPatch, part: str, fault: Fault) -> None:
    """A hang or a byte every 0.1 s ends at the deadline of the whole read, wherever it happens."""
    monkeypatch.setattr(model_files, "SECONDS", 0.4)
    hub.faults[part] = fault
    error = catch_refusal()
    assert type(error) is HubUnreachable
    assert "within 0.4 s" in str(error)


def test_the_reader_works_again_after_a_hang(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that was cut off leaves nothing behind that disturbs the next one."""
    monkeypatch.setattr(model_files, "SECONDS", 0.3)
    hub.faults["/resolve/"] = Fault(hang=True)
    catch_refusal()
    hub.faults.clear()
    monkeypatch.setattr(model_files, "SECONDS", 20.0)
    assert read_model("org/llama-8b").total_bytes == 2 * 8_030_261_248


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    """No connection: the sentence says so and offers the catalog."""
    with pytest.raises(HubUnreachable, match=r"could not be reached for .* \(no connection\)"):
        read_model("org/llama-8b", endpoint="http://127.0.0.1:9")


def test_offline_is_a_state_and_not_a_fault(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE=1: nothing is sent, the model and the search say why."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    error = catch_refusal()
    assert type(error) is HubUnreachable
    assert "HF_HUB_OFFLINE=1" in str(error)
    assert "HF_HUB_OFFLINE=1" in suggest_models("llama").reason
    assert hub.requests == []


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("/api/models/", b"<html>"),
        ("/api/models/", b"[]"),
        ("/api/models/", b"[" * 200_000),
        ("/api/models/", b'{"sha": 1}'),
        ("/api/models/", as_json({"id": "org/llama-8b", "sha": "f" * 40, "siblings": 3})),
        ("/api/models/", as_json({"id": "org/llama-8b", "sha": "f" * 40, "siblings": [{"rfilename": "../secret"}]})),
        ("/api/models/", as_json({"id": "../../x", "sha": "f" * 40, "siblings": []})),
        ("config.json", b"\xff\xfe\x00"),
        ("index.json", b"nonsense"),
        ("index.json", b'{"weight_map": [1]}'),
        ("index.json", b'{"weight_map": {}}'),
        ("index.json", b'{"weight_map": {"a": 5}}'),
        ("index.json", as_json({"weight_map": {"a": "../../../api/whoami-v2"}})),
        ("index.json", as_json({"weight_map": {str(at): f"model-{at}.safetensors" for at in range(1001)}})),
        ("00002-of", b"not a header"),
    ],
)
def test_garbage_is_called_garbage(hub: StandIn, part: str, body: bytes) -> None:
    """Whatever is not in the Hub's own format is refused, file names that lead elsewhere included."""
    hub.faults[part] = Fault(body=body)
    assert type(catch_refusal()) is HubGarbage
    assert not any("whoami" in path or "secret" in path for path in hub.paths())


def test_a_config_of_many_megabytes_is_not_read_to_its_end(hub: StandIn) -> None:
    """5 MB of config.json: refused at the limit of 4 MiB."""
    hub.repos["org/llama-8b"].files["config.json"] = b" " * 5_000_000
    assert "longer than" in str(catch_refusal())


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("index.json", b'{"weight_map": [' + b"[]," * 500_000 + b"[]]}"),
        ("/api/models/", b'{"siblings": [' + b"{}," * 1_100_000 + b"{}]}"),
    ],
)
def test_an_answer_of_a_million_values_is_refused_before_it_is_parsed(hub: StandIn, part: str, body: bytes) -> None:
    """Every pair of bytes would become a list or a dict; none is built."""
    hub.faults[part] = Fault(body=body)
    assert "values" in str(catch_refusal())


def test_an_index_of_64_mib_is_not_read_to_its_end(hub: StandIn) -> None:
    """The largest real index has 9 MB."""
    hub.faults["index.json"] = Fault(body=b"[]," * (64 * 2**20 // 3))
    assert "longer than 25,165,824 bytes" in str(catch_refusal())


def test_a_connection_that_breaks_off_is_told(hub: StandIn) -> None:
    """Half a body and then silence."""
    hub.faults["00001-of"] = Fault(cut=True)
    assert type(catch_refusal()) is HubUnreachable


def test_a_file_that_is_listed_and_missing_is_told(hub: StandIn) -> None:
    """EntryNotFound for a listed file is not a missing model."""
    hub.faults["config.json"] = Fault(status=404, headers=(("X-Error-Code", "EntryNotFound"),))
    assert type(catch_refusal()) is HubGarbage


@pytest.mark.parametrize(
    "name", ["", "a/b/c", "../etc/passwd", "org/na me", "org/" + "x" * 200, "https://evil.example/x", "org/x.git", "é/x"]
)
def test_what_cannot_be_an_id_is_not_sent(hub: StandIn, name: str) -> None:
    """The sentence names the accepted form."""
    with pytest.raises(UnknownModel, match="owner/name"):
        read_model(name)
    assert hub.requests == []


@pytest.mark.parametrize("revision", ["", "a/../b", "x" * 201, "a\nb"])
def test_what_cannot_be_a_revision_is_not_sent(hub: StandIn, revision: str) -> None:
    """Empty, climbing, endless or unprintable names are refused."""
    with pytest.raises(UnknownModel, match="branch"):
        read_model("org/llama-8b", revision=revision)
    assert hub.requests == []


def test_another_host_never_sees_the_token(hub: StandIn) -> None:
    """A redirect to another origin is followed without it."""
    with StandIn() as foreign:
        hub.faults["/api/models/"] = Fault(status=302, headers=(("Location", f"{foreign.url}/api/models/org/x"),))
        catch_refusal(token=SENTINEL)
        assert foreign.requests
        assert not any("authorization" in seen.headers for seen in foreign.requests)


@pytest.mark.parametrize("location", ["http://[", "/api/models/org/llama-8b?blobs=true", "file:///etc/passwd"])
def test_redirects_that_lead_nowhere_end(hub: StandIn, location: str) -> None:
    """A loop, a broken address, another scheme."""
    hub.faults["/api/models/"] = Fault(status=302, headers=(("Location", location),))
    assert type(catch_refusal()) is HubUnreachable


def test_a_file_server_never_sees_the_token() -> None:
    """The Hub sends to its file server over https: followed without Authorization; the Hub itself got it."""
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.url.host == "huggingface.co":
            return httpx2.Response(302, headers={"location": "https://cas-bridge.xethub.hf.co/x?sig=1"}, stream=httpx2.ByteStream(b""))
        return httpx2.Response(206, headers={"content-range": "bytes 0-3/10"}, stream=httpx2.ByteStream(b"abcd"))

    async def fetch_bytes() -> bytes:
        here = Hub(endpoint="https://huggingface.co", token=SENTINEL)
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            url = here.file_url("org/x", "model.safetensors", "main")
            return (await here.fetch(client, url, what="org/x", limit=4, span=(0, 4))).body

    assert asyncio.run(fetch_bytes()) == b"abcd"
    assert [(request.url.host, request.headers.get("authorization")) for request in asked] == [
        ("huggingface.co", f"Bearer {SENTINEL}"),
        ("cas-bridge.xethub.hf.co", None),
    ]


@pytest.mark.parametrize("fault", [Fault(status=code) for code in (401, 403, 404, 429, 500)] + [Fault(body=b"\xff"), Fault(hang=True)])
def test_the_token_is_in_no_message_and_no_log(
    hub: StandIn, fault: Fault, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every logger at its most talkative, the token shows up nowhere but in the request itself."""
    if fault.hang:
        monkeypatch.setattr(model_files, "SECONDS", 2)
    caplog.set_level(logging.DEBUG)
    hub.faults["config.json"] = fault
    error = catch_refusal(token=SENTINEL)
    assert hub.requests
    assert all(seen.headers["authorization"] == f"Bearer {SENTINEL}" for seen in hub.requests)
    assert not any(SENTINEL in path for path in hub.paths())
    assert SENTINEL not in "".join(traceback.format_exception(error)) + caplog.text
    assert SENTINEL not in repr(Hub(endpoint="x", token=SENTINEL))


@pytest.mark.parametrize("token", ["", "hf a", "hf_\n", "hf_é", "x" * 513])
def test_what_cannot_be_a_token_is_not_sent_and_not_shown(hub: StandIn, token: str) -> None:
    """A header with a line break never reaches the wire."""
    with pytest.raises(InvalidInput) as caught:
        read_model("org/llama-8b", token=token)
    assert hub.requests == []
    assert not token or token not in str(caught.value)


def test_cookies_do_not_travel(hub: StandIn) -> None:
    """A cookie set for one visitor is not sent with the next request."""
    hub.faults["config.json"] = Fault(body=b"{}", headers=(("Set-Cookie", "session=1; Path=/"),))
    read_model("org/llama-8b")
    model_files.clear_cache()
    read_model("org/llama-8b")
    assert not any("cookie" in seen.headers for seen in hub.requests)


def entry(dtype: object = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict[str, Any]:
    """One entry of a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


BAD_HEADERS: list[tuple[str, object, int]] = [
    ("not an object", [1], 0),
    ("no offsets", {"a": {"dtype": "F32", "shape": [1]}}, 4),
    ("an entry that is a number", {"a": 1}, 4),
    ("three offsets", {"a": entry(offsets=[0, 2, 4])}, 4),
    ("negative offset", {"a": entry(offsets=[-4, 0])}, 0),
    ("end before begin", {"a": entry(offsets=[4, 0])}, 4),
    ("offsets of text", {"a": entry(offsets=["0", "4"])}, 4),
    ("fractional shape", {"a": entry(shape=[1.0])}, 4),
    ("negative shape", {"a": entry(shape=[-1], offsets=[0, -4])}, 0),
    ("two negatives", {"a": entry(shape=[-1, -1])}, 4),
    ("nested shape", {"a": entry(shape=[[1]])}, 4),
    ("shape of text", {"a": entry(shape="1")}, 4),
    ("a shape of 10**30 elements", {"a": entry(shape=[10**15, 10**15], offsets=[0, 4 * 10**30])}, 4 * 10**30),
    ("a shape that its span contradicts", {"a": entry(shape=[2])}, 4),
    ("a dtype that is a list", {"a": entry(dtype=["F32"])}, 4),
    ("a long dtype", {"a": entry(dtype="F" * 99)}, 4),
    ("an overlap", {"a": entry(), "b": entry(offsets=[2, 6])}, 6),
    ("a gap", {"a": entry(), "b": entry(offsets=[8, 12])}, 12),
    ("less data than the file", {"a": entry()}, 8),
    ("more data than the file", {"a": entry()}, 2),
    ("17 dimensions", {"a": entry(shape=[1] * 17)}, 4),
    ("half a byte", {"a": entry(dtype="F4", shape=[1], offsets=[0, 1])}, 1),
    ("a long name", {"a" * 2000: entry()}, 4),
    ("an unknown dtype of negative length", {"a": entry(dtype="X9", offsets=[4, 0])}, 0),
    ("not a number", {"a": entry(shape=[float("nan")])}, 4),
]


@pytest.mark.parametrize(("content", "data_bytes"), [row[1:] for row in BAD_HEADERS], ids=[row[0] for row in BAD_HEADERS])
def test_a_header_that_does_not_add_up_is_refused(content: object, data_bytes: int) -> None:
    """Each way a header can lie ends in one sentence about the file."""
    with pytest.raises(HubGarbage, match=r"'x.safetensors' cannot be read"):
        parse_safetensors(json.dumps(content).encode(), "x.safetensors", data_bytes)


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"{", b"[" * 1_000_000, b'{"a":' * 100_000, b"[[]," * 2_000_000, b'{"a":' + b"9" * 5000 + b"}"]
)
def test_a_header_that_is_not_json_is_refused(text: bytes) -> None:
    """Nesting of a megabyte, digits without end, 8 MB of empty lists."""
    with pytest.raises(HubGarbage):
        parse_safetensors(text, "x.safetensors", None)


@pytest.mark.parametrize("claim", [100 * 10**9, 2**63, 2**64 - 1, 25_000_001, 93])
def test_a_header_that_claims_too_much_is_not_fetched(hub: StandIn, claim: int) -> None:
    """100 GB of header, or one byte more than the file: one request, then a sentence with the claim in it."""
    hub.add(Repo(id="org/liar", files={"config.json": b"{}", "model.safetensors": struct.pack("<Q", claim) + b"{" + b" " * 91}))
    error = catch_refusal(name="org/liar")
    assert type(error) is HubGarbage
    assert f"{claim:,}" in str(error)
    assert sum("model.safetensors" in path for path in hub.paths()) == 1


def test_a_hundred_gigabyte_file_of_zeros_is_read_by_its_start(hub: StandIn) -> None:
    """A length of zero and no header."""
    hub.add(Repo(id="org/zeros", files={"config.json": b"{}", "model.safetensors": Blob(head=b"", size=100 * 10**9)}))
    assert type(catch_refusal(name="org/zeros")) is HubGarbage


@pytest.mark.parametrize("size", [0, 3])
def test_a_file_shorter_than_its_length_field_is_refused(hub: StandIn, size: int) -> None:
    """Not even eight bytes."""
    hub.add(Repo(id="org/short", files={"config.json": b"{}", "model.safetensors": b"\0" * size}))
    assert type(catch_refusal(name="org/short")) is HubGarbage


def test_spans_in_another_order_are_accepted() -> None:
    """The format does not order its entries; the spans only have to cover the data."""
    found = parse_safetensors(json.dumps({"b": entry(offsets=[4, 8]), "a": entry()}).encode(), "x", 8)
    assert found.bytes_by_dtype == {"F32": 8}


def test_a_dtype_of_tomorrow_is_weighed_by_its_span() -> None:
    """An unknown dtype still has a length."""
    found = parse_safetensors(
        json.dumps({"a": entry(dtype="F7_X", shape=[3], offsets=[0, 5]), "b": entry(offsets=[5, 9])}).encode(), "x", 9
    )
    assert found.bytes_by_dtype == {"F7_X": 5, "F32": 4}


names = st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__")
shapes = st.lists(st.integers(0, 64), max_size=4).map(tuple)
tensors = st.dictionaries(names, st.tuples(st.sampled_from(["F32", "BF16", "U8", "I64"]), shapes), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(tensors)
def test_a_well_formed_header_is_read_to_the_byte(made: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Names, shapes and the sum of bytes come back as they were written."""
    entries, size = header(made)
    blob = pack_file(entries, size)
    length = header_length(blob.head[:8], "x", blob.size)
    found = parse_safetensors(blob.head[8 : 8 + length], "x", blob.size - 8 - length)
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in found.tensors.items()} == made
    assert found.data_bytes == size
    assert sum(math.prod(tensor.shape) * BITS[tensor.dtype] for tensor in found.tensors.values()) == 8 * size


def run_parser(read: Callable[[], object]) -> None:
    """Run a parser: it may succeed or refuse, nothing else."""
    try:
        read()
    except (HubGarbage, NeedMore):
        return


@given(st.binary(max_size=300), st.none() | st.integers(0, 2**64))
def test_any_bytes_are_a_header_or_garbage(data: bytes, size: int | None) -> None:
    """No input ends in another exception."""
    run_parser(lambda: parse_safetensors(data, "x", size))
    run_parser(lambda: header_length(data[:8], "x", size))


@given(
    st.dictionaries(
        st.text(max_size=8),
        json_values | st.fixed_dictionaries({"dtype": json_values, "shape": json_values, "data_offsets": json_values}),
        max_size=4,
    )
)
def test_any_json_is_a_header_or_garbage(content: dict[str, Any]) -> None:
    """Wrong types anywhere end in our own refusal."""
    run_parser(lambda: parse_safetensors(json.dumps(content).encode(), "x", None))


@given(tensors.filter(bool), st.data())
def test_a_header_with_one_value_changed_never_yields_other_bytes(
    made: dict[str, tuple[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    """With the file's size known, a changed offset or shape is refused, or describes the same number of bytes."""
    entries, size = header(made)
    name = data.draw(st.sampled_from(sorted(made)))
    field = data.draw(st.sampled_from(["shape", "data_offsets"]))
    entries[name] = entries[name] | {field: data.draw(st.lists(st.integers(-8, 2**70), max_size=3))}
    try:
        found = parse_safetensors(json.dumps(entries).encode(), "x", size)
    except HubGarbage:
        return
    assert found.data_bytes == size


@given(st.binary(max_size=200), st.integers(0, 4), st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=300, deadline=None)  # the first one imports gguf
def test_any_bytes_behind_a_gguf_magic_are_calm(data: bytes, version: int, count: int, keys: int) -> None:
    """A GGUF header of any content is read, refused, or found to go on."""
    start = b"GGUF" + struct.pack("<IQQ", version, count, keys)
    run_parser(lambda: parse_gguf(start + data, "x.gguf"))
    run_parser(lambda: parse_gguf(data, "x.gguf"))


def text(value: str) -> bytes:
    """A GGUF string."""
    return struct.pack("<Q", len(value)) + value.encode()


BAD_GGUF: list[tuple[str, bytes]] = [
    ("2**60 tensors", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0)),
    ("2**60 keys", b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60)),
    ("version 9", b"GGUF" + struct.pack("<IQQ", 9, 0, 0)),
    ("a name of 2**63 bytes", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63)),
    ("an array of 2**62 texts", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2**62)),
    ("an array of 2**62 numbers", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**62)),
    ("an array of arrays", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1)),
    ("a value of type 77", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77)),
    ("a tensor of type 999", b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<IQIQ", 1, 4, 999, 0)),
    ("a tensor of 99 dimensions", b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 99)),
    ("2**120 elements", b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<IQQIQ", 2, 2**60, 2**60, 0, 0)),
]


@pytest.mark.parametrize("data", [row[1] for row in BAD_GGUF], ids=[row[0] for row in BAD_GGUF])
def test_a_gguf_header_that_claims_too_much_is_refused(data: bytes) -> None:
    """Counts and lengths are judged before anything is read for them."""
    with pytest.raises(HubGarbage, match=r"'x.gguf' cannot be read"):
        parse_gguf(data + b"\0" * 64, "x.gguf")


def test_a_gguf_file_that_ends_inside_its_header_is_refused(hub: StandIn) -> None:
    """The header says that it goes on, and the file does not."""
    hub.add(Repo(id="org/cut", files={"m.gguf": b"GGUF" + struct.pack("<IQQ", 3, 5, 0)}))
    assert "ends inside its header" in str(catch_refusal(name="org/cut"))


def test_an_empty_gguf_header_is_read() -> None:
    """No keys and no tensors is little, but well-formed."""
    assert parse_gguf(b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "x") == Header(keys={}, tensors={}, bytes_by_dtype={})


@pytest.mark.parametrize(
    "fault", [Fault(status=500), Fault(status=429), Fault(body=b"<html>"), Fault(body=b"{}"), Fault(hang=True), Fault(drip_s=0.1)]
)
def test_suggestions_never_raise(hub: StandIn, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """A search that fails or hangs is an empty list with a reason, and is tried again the next time."""
    monkeypatch.setattr(search, "SECONDS", 0.4)
    hub.faults["/api/models?"] = fault
    found = suggest_models("llama")
    assert found.ids == ()
    assert found.reason.endswith(".")
    hub.faults.clear()
    assert suggest_models("llama").ids == ("org/llama-8b",)


def test_suggestions_are_ids(hub: StandIn) -> None:
    """Whatever the Hub lists, only what can be an id is offered."""
    listed = [{"id": "org/a"}, {"id": "<script>"}, {"id": 5}, 7, {"id": "x/../y"}, {}]
    hub.faults["/api/models?"] = Fault(body=as_json(listed))
    assert suggest_models("llama").ids == ("org/a",)


def test_the_cache_forgets_the_least_recent_and_the_old() -> None:
    """Weight 3 of single values: the fourth displaces the one not used since; time ends the rest."""
    now = [0.0]
    cache: Cache[str, int] = Cache(most=3, seconds=10, weight=lambda _: 1, clock=lambda: now[0])
    for at, key in enumerate("abc"):
        cache.keep(key, at)
    assert cache.find("a") == 0
    cache.keep("d", 3)
    assert [cache.find(key) for key in "abcd"] == [0, None, 2, 3]
    now[0] = 10.5
    assert [cache.find(key) for key in "acd"] == [None, None, None]


def test_the_cache_does_not_hold_what_outweighs_it() -> None:
    """One huge value does not displace all others."""
    cache: Cache[str, int] = Cache(most=10, seconds=10, weight=lambda value: value)
    cache.keep("small", 2)
    cache.keep("huge", 11)
    assert (cache.find("small"), cache.find("huge")) == (2, None)


def test_a_tiny_file_is_what_the_others_are_derived_from(hub: StandIn) -> None:
    """The well-formed file that the faults above damage is itself accepted."""
    hub.add(Repo(id="org/tiny", files={"config.json": b"{}", "model.safetensors": safetensors(TINY)}))
    assert read_model("org/tiny").bytes_by_dtype == {"BF16": 64, "F32": 12}


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**40])
def test_a_text_of_a_vocabulary_that_no_header_could_hold_is_refused_at_once(length: int) -> None:
    """It is not asked for piece by piece until the limit is reached."""
    array = struct.pack("<QsIIQQ", 1, b"a", 9, 8, 2, length)
    with pytest.raises(HubGarbage, match="longer than"):
        parse_gguf(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + array + b"\0" * 64, "x.gguf")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "NEW4", "shape": [2**40] * 16, "data_offsets": [0, 8]},  # more elements than bits, of a dtype whose size is not known
        {"dtype": "NEW4", "shape": [65], "data_offsets": [0, 8]},
        {"dtype": "NEW4", "shape": [2], "data_offsets": [8, 0]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [10**300], "data_offsets": [0, 8]},
    ],
)
def test_a_tensor_that_its_span_cannot_hold_is_refused(entry: dict[str, Any]) -> None:
    """Whatever its dtype: numbers made of it would be too large for everything behind."""
    with pytest.raises(HubGarbage, match="cannot be read"):
        parse_safetensors(json.dumps({"a": entry}).encode(), "x.safetensors", None)
