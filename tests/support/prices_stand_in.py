"""A Hub on the loopback that answers the two hardware lists, well or badly, for the real client to talk to."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from lib.catalog import load

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACES, JOBS = "/api/spaces/hardware", "/api/jobs/hardware"
LIVE_MODEL = {"A100-SXM4-80GB": "A100", "H200-SXM": "H200", "RTX-PRO-6000-Blackwell-Server": "RTX PRO 6000"}


@dataclass
class Reply:
    """What to answer: a status, a body, and how long to wait first."""

    status: int = 200
    body: bytes = b"[]"
    wait_s: float = 0.0


@dataclass
class Seen:
    """One request that came in."""

    path: str
    authorization: str | None


@dataclass
class HubStandIn:
    """Set `replies`, point the client at `url`, read `seen`."""

    url: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def lists(self, path: str, rows: object) -> None:
        """Answer this list with these rows."""
        self.replies[path] = Reply(body=json.dumps(rows).encode())


def row(name: str, usd_per_hour: str | float, **more: Any) -> dict[str, Any]:
    """A row as the Hub writes it: sizes with units as text, cost per minute in millionths of a dollar."""
    micro = round(float(usd_per_hour) * 1e6 / 60)
    card = more.pop("accelerator", None)
    if card is not None:
        model, count, vram = card
        card = {"type": "gpu", "model": model, "quantity": str(count), "vram": f"{vram} GB", "manufacturer": "Nvidia"}
    base = {"name": name, "prettyName": name, "cpu": "8 vCPU", "ram": "30 GB", "ephemeralStorage": "400 GB", "accelerator": card}
    return base | {"unitCostMicroUSD": micro, "unitCostUSD": micro / 1e6, "unitLabel": "minute"} | more


def as_listed(platform: str, **prices: str) -> list[dict[str, Any]]:
    """The platform's bundled rows in the Hub's own format, with some prices changed; ZeroGPU among the Spaces, as on the Hub."""
    rows = []
    for offer in load().on([platform]):
        card = None
        if offer.silicon is not None and offer.silicon.memory_advertised is not None:
            total = offer.accelerator_count * offer.silicon.memory_advertised // 2**30
            card = (LIVE_MODEL.get(offer.silicon.id, offer.silicon.id), offer.accelerator_count, total)
        ram = (offer.ram_bytes or 0) // 2**30
        disk = (offer.disk_bytes or 0) // 10**9
        price = prices.get(offer.id.replace("-", "_"), str(offer.usd_per_hour))
        host = {"cpu": f"{offer.vcpu} vCPU", "ram": f"{ram} GB", "ephemeralStorage": f"{disk} GB", "prettyName": offer.name}
        rows.append(row(offer.id, price, accelerator=card, **host))
    if platform == "spaces":
        rows.append(row("zero-a10g", 0, accelerator=("A10G", 1, 24)))
    return rows


def serve() -> Iterator[HubStandIn]:
    """Run the stand-in while the test runs; use as the body of a fixture."""
    hub = HubStandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.seen.append(Seen(self.path, self.headers.get("Authorization")))
            reply = hub.replies.get(self.path, Reply(status=404, body=b"{}"))
            hub.released.wait(reply.wait_s)
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
