"""Where an answer of the Hub may send us: within its own origin, and for contents of files to its file servers over TLS."""

from __future__ import annotations

import pytest

from lib.errors import HubGarbage
from lib.hub.client import Hub

HUB = Hub(endpoint="https://huggingface.co", token="hf_somebody")  # noqa: S106 nobody's
FILE = HUB.file_url("org/x", "config.json", "main")

ELSEWHERE = [
    *("http://127.0.0.1/", "https://127.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://[::1]/", "https://localhost/"),
    *("https://[::ffff:127.0.0.1]/", "https://[fe80::1%25eth0]/", "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/"),
    *("https://evilhf.co/", "https://hf.co.evil.example/", "https://huggingface.co.evil.example/", "https://evil.example/.hf.co"),
    *("https://evil.example#.hf.co", "https://evil.example?.hf.co", "https://cdn.hf.co\t.evil.example/", "https://cdn.hf.co./"),
    *("https://cdn\u3002hf\u3002co.evil.example/", "https://evil.example\uff0f.hf.co/", "//evil.example/x", "\\\\evil.example/x"),
    *(
        "https://cdn.hf.co@evil.example/",
        "https://evil.example\\@huggingface.co/",
        "https://user:pw@huggingface.co/x",
        "file:///etc/passwd",
    ),
    *(
        "http://cdn.hf.co/x",
        "http://huggingface.co/x",
        "https://huggingface.co:444/",
        "https://cdn.hf.co:99999999/x",
        "gopher://cdn.hf.co/",
    ),
]


@pytest.mark.parametrize("location", ELSEWHERE)
def test_no_spelling_of_another_host_is_followed(location: str) -> None:
    """Loopback, link-local and private addresses in every form, names that look like the Hub's, and hosts hidden behind user names."""
    with pytest.raises(HubGarbage):
        HUB._next(FILE, location, "org/x")


def test_the_hub_and_its_file_servers_are_followed() -> None:
    """The address as it was told; a file server only where contents of a file were asked for. A made-up name under hf.co fails at TLS."""
    assert HUB._next(FILE, "/org/y/resolve/main/config.json", "org/x") == "https://huggingface.co/org/y/resolve/main/config.json"
    assert HUB._next(FILE, "https://cas-bridge.xethub.hf.co/x?sig=1", "org/x") == "https://cas-bridge.xethub.hf.co/x?sig=1"
    with pytest.raises(HubGarbage):
        HUB._next(HUB.model_url("org/x", None), "https://cas-bridge.xethub.hf.co/x", "org/x")
