"""Files that run one model on several machines: a script for Ray, a LeaderWorkerSet for Kubernetes, a task for SkyPilot.

    serve_script(command_words("vllm", "Qwen/Qwen3-8B", start), machines=2)

The script is the same everywhere: it starts Ray's head or joins it, and the head starts the server when every machine is there. Releases
and SkyPilot's names of cards are rows of `lib/data/clusters.json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from lib.catalog.rows import DATA, ReadFact, Row, Table, Text, read_rows
from lib.present.releases import load_versions
from lib.present.templates import render
from lib.units import GIB

_SPARE_GIB = 50
"""Disk for the rest: compiled programs, and the image where it is unpacked on the same disk."""


class Program(ReadFact):
    """A program that starts containers on several machines."""

    version: Text


class Sky(Program):
    """SkyPilot."""

    accelerators: Table[Text]
    """Its names, by id of the card; it rents no other card under a name that its documentation states."""


class ClusterFacts(Row):
    """clusters.json."""

    what: Text
    parallelism: ReadFact
    ray: ReadFact
    devices: Table[Text]
    """Kubernetes' name of a card, by the vendors whose cards the image of vLLM runs on."""
    lws: Program
    sky: Sky


@cache
def load_cluster_facts() -> ClusterFacts:
    """The bundled rows, read at the first call."""
    return read_rows(ClusterFacts, DATA / "clusters.json")


def disk_gib(weights_bytes: int) -> int:
    """Disk for a model: its weights and 50 GiB, rounded up to tens.

    >>> disk_gib(16 * 2**30)
    70
    """
    return 10 * math.ceil((weights_bytes / GIB + _SPARE_GIB) / 10)


def gpu_packages() -> dict[str, str]:
    """Packages that the script installs where they are missing, by module; the image of vLLM brings no Ray."""
    versions = load_versions()
    return {"vllm": versions["vllm"].line(), "ray": versions["ray"].line("cgraph")}


def serve_script(words: Sequence[str], *, machines: int, packages: Mapping[str, str]) -> str:
    """The script of every machine: `serve.sh head`, or `serve.sh worker ADDRESS`."""
    return render("ray_serve.sh.j2", words=list(words), machines=machines, packages=packages)


def lws_manifest(script: str, *, device: str, devices: int, machines: int, environment: Mapping[str, str], **pod: Any) -> str:
    """The machines as one group of pods that start and fail together, with the head behind a Service.

    `device` is Kubernetes' name of the cards; `pod` holds image, selector, disk_gib and port.
    """
    return render("lws.yaml.j2", script=script, device=device, devices=devices, machines=machines, environment=environment, **pod)


def sky_task(accelerator: str, *, devices: int, machines: int, image: str, disk_gib: int) -> str:
    """A task of SkyPilot that copies the script to each machine and runs it."""
    return render("sky.yaml.j2", accelerator=accelerator, devices=devices, machines=machines, image=image, disk_gib=disk_gib)
