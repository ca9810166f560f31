"""A Hub on the loopback that answers the two hardware lists, well or badly, for the real client to talk to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hub_stand_in import Answer, Seen, StandIn

from lib.catalog import load

SPACES, JOBS = "/api/spaces/hardware", "/api/jobs/hardware"
LIVE_MODEL = {"A100-SXM4-80GB": "A100", "H200-SXM": "H200", "RTX-PRO-6000-Blackwell-Server": "RTX PRO 6000"}


@dataclass
class Reply:
    """What to answer: a status, a body, and how long to wait first."""

    status: int = 200
    body: bytes = b"[]"
    wait_s: float = 0.0


class PricesStandIn(StandIn):
    """The Hub with these two lists only. Set `replies`, point the client at `url`, read `requests`."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.replies: dict[str, Reply] = {}

    def lists(self, path: str, rows: object) -> None:
        """Answer this list with these rows."""
        self.replies[path] = Reply(body=json.dumps(rows).encode())

    def answer(self, seen: Seen) -> Answer:
        """The reply for this path, after its wait."""
        reply = self.replies.get(seen.path, Reply(status=404, body=b"{}"))
        self.stopping.wait(reply.wait_s)
        return Answer(status=reply.status, body=reply.body)


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
