"""Code to copy that rents a slice of Cloud TPU and runs a model on it, or runs it on GPUs: written for the visitor's choice.

    tpu_recipes(choice)[0]["code"]

Every variable part stands in one block of environment variables; text from outside is quoted for the shell. Releases are those of
`lib/data/frameworks.json`, or stand beside their source below. The commands follow docs.vllm.ai/projects/tpu (setup and quickstart, read
2026-11-22), github:vllm-project/vllm-torchtpu @9c8d9b05, github:AI-Hypercomputer/maxtext docs/install_maxtext.md @0491bf3b,
huggingface.co/docs/optimum-tpu/howto/serving and cloud.google.com/tpu/docs/tutorials/LLM/jetstream.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lib.advisor.result import Entry
from lib.answers.gpu_tpu import RecipeEntry
from lib.catalog.gpu_or_tpu import OptimumTpu, TpuTerms
from lib.catalog.offers import Offer, TpuSlice
from lib.present.cards import PLATFORM_NAMES
from lib.present.releases import load_versions
from lib.present.sentences import fill
from lib.present.setup_files import Setup
from lib.present.templates import render
from lib.present.wording import load_wording
from lib.provenance import Value

TORCH_XLA = "2.9.0"  # the last release; PyPI torch_xla, read 2026-11-21
MAXTEXT = "0.2.0"  # the release whose installation guide was read
JETSTREAM = "0.2.2"  # PyPI google-jetstream, the last release
PYTHON = "3.12"
PORT = 8000
_NAME = re.compile(r"[^a-z0-9-]+")
_APP = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoice:
    """A slice, the model that runs on it ("" for none), and how it is rented."""

    offer: Offer
    terms: TpuTerms
    model: str
    devices: int
    context_tokens: int
    region: str
    spot: bool
    optimum: OptimumTpu
    optimum_lists_model: bool
    checkpoint_precision: str = ""
    """Of the weights that fit the slice, where it is not the one in which the model is stored."""

    @property
    def tpu(self) -> TpuSlice:
        """The slice of the offer.

        Raises:
            ValueError: the offer is not a slice; callers choose among slices.
        """
        if self.offer.tpu is None:
            raise ValueError(f"{self.offer.id} is not a TPU slice")
        return self.offer.tpu

    @property
    def zone(self) -> str:
        """A zone of the region that the generation's list names, else the first of the list."""
        zones = self.tpu.generation.zones
        return next((zone for zone in zones if zone.startswith(f"{self.region}-")), zones[0])

    @property
    def named_model(self) -> str:
        """The model, or one that runs everywhere where none with a Hub id is chosen."""
        return self.model if "/" in self.model else "Qwen/Qwen3-4B"

    @property
    def checkpoint(self) -> tuple[str, ...]:
        """That the slice takes another checkpoint than the one that is named."""
        precision = self.checkpoint_precision
        return (_note("checkpoint", slice=self.offer.id, precision=precision, model=self.named_model),) if precision else ()


def tpu_recipes(choice: RecipeChoice) -> tuple[RecipeEntry, ...]:
    """Every recipe for a slice, in the order in which one needs them."""
    by_api = () if choice.tpu.generation.runtime_version is None else (queued_resource(choice), tpu_vm(choice))
    return (
        environment(choice),
        *by_api,
        vllm_on_tpu(choice),
        gke_manifest(choice),
        torch_tpu(choice),
        torch_xla(choice),
        jax_maxtext(choice),
        optimum_tpu(choice),
        jetstream(),
    )


def _note(code: str, /, **values: Value) -> str:
    return fill(load_wording("recipes")["notes"][code], values)


def _recipe(name: str, language: str, code: str, notes: Sequence[str], /, **of_title: Value) -> RecipeEntry:
    title = fill(load_wording("recipes")["titles"][name], of_title)
    code = code.rstrip("\n") if language == "bash" else code  # pasted into a terminal, a last newline would run the last command
    return RecipeEntry(name=name, title=title, language=language, code=code, notes=notes)


def environment(choice: RecipeChoice) -> RecipeEntry:
    """Variables, APIs, roles and quota: the block that the other commands rely on."""
    generation, zone = choice.tpu.generation, choice.zone
    code = render(
        "tpu_environment.sh.j2",
        zone=zone,
        name="advisor-" + _NAME.sub("-", choice.offer.id.casefold()).strip("-"),
        slice=choice.offer.id,
        runtime_version=generation.runtime_version,
        model=choice.named_model,
    )
    notes = [*choice.checkpoint]
    if choice.region and not zone.startswith(f"{choice.region}-"):
        notes.append(_note("elsewhere", generation=generation.name, region=choice.region))
    quota = "preemptible" if choice.spot else "on-demand"
    notes += [
        _note("quota", chips=choice.offer.accelerator_count, generation=generation.name, quota=quota, zone=zone),
        _note("roles"),
        _note("capacity"),
    ]
    if generation.runtime_version is None:
        notes.append(_note("no_api", generation=generation.name))
    return _recipe("environment", "bash", code, notes)


def queued_resource(choice: RecipeChoice) -> RecipeEntry:
    """Ask for a slice, wait until it is there, log in, give it back."""
    code = render("tpu_queued_resource.sh.j2", spot=choice.spot, hosts=choice.tpu.hosts)
    return _recipe("queued_resource", "bash", code, [_note("billed_until"), *((_note("spot"),) if choice.spot else ())])


def tpu_vm(choice: RecipeChoice) -> RecipeEntry:
    """A slice at once, where there is capacity."""
    machine = choice.tpu.machine_type
    notes = [_note("old_api", machine=machine)] if machine and choice.tpu.generation.id in {"v5p", "v6e"} else []
    return _recipe("tpu_vm", "bash", render("tpu_vm.sh.j2", spot=choice.spot), notes)


def vllm_on_tpu(choice: RecipeChoice) -> RecipeEntry:
    """VLLM with its TPU backend, on the TPU VM."""
    package, hosts = load_versions()["vllm-tpu"].line(), choice.tpu.hosts
    code = render(
        "tpu_vllm.sh.j2",
        python=PYTHON,
        package=package,
        model=choice.named_model,
        devices=choice.devices,
        context_tokens=choice.context_tokens,
        port=PORT,
    )
    notes = [*choice.checkpoint, _note("first_start")]
    notes += [_note("ray", hosts=hosts)] if hosts > 1 else []
    notes += [_note("experimental")] if choice.terms.vllm == "experimental" else []
    return _recipe("vllm", "bash", code, notes, package=package)


def gke_manifest(choice: RecipeChoice) -> RecipeEntry:
    """A slice in Kubernetes: vLLM behind a Service on one host, an indexed Job over several."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  comes with huggingface_hub, and is not needed to start

    documents = [_deployment(choice), _service()] if choice.tpu.hosts == 1 else [_headless(), _indexed_job(choice)]
    chips, hosts, machine = choice.offer.accelerator_count, choice.tpu.hosts, choice.tpu.machine_type
    pool = _note(
        "node_pool",
        region=choice.zone.rsplit("-", 1)[0],
        zone=choice.zone,
        machine=machine or "",
        topology=choice.tpu.topology,
        hosts=hosts,
    )
    several = (_note("same_program", hosts=hosts, chips=chips // hosts),) if hosts > 1 else ()
    code = yaml.safe_dump_all(documents, sort_keys=False)
    return _recipe("gke", "yaml", code, [*choice.checkpoint, pool, _note("secret"), *several])


def _pod(choice: RecipeChoice, script: str, **container: Any) -> dict[str, Any]:
    chips = choice.offer.accelerator_count // choice.tpu.hosts
    return {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": choice.terms.gke_accelerator,
            "cloud.google.com/gke-tpu-topology": choice.tpu.topology,
            **({"cloud.google.com/gke-spot": "true"} if choice.spot else {}),
        },
        "containers": [
            {
                "name": _APP,
                "image": f"python:{PYTHON}",
                "command": ["bash", "-c", script],
                "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
                "resources": {"requests": {"google.com/tpu": chips}, "limits": {"google.com/tpu": chips}},
                **container,
            }
        ],
    }


def _deployment(choice: RecipeChoice) -> dict[str, Any]:
    package = load_versions()["vllm-tpu"].line()
    serve = (
        f"pip install {package} && exec vllm serve {shlex.quote(choice.named_model)} --tensor-parallel-size {choice.devices} "
        f"--max-model-len {choice.context_tokens} --port {PORT}"
    )
    ready = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 15, "failureThreshold": 240}
    pod = _pod(choice, serve, ports=[{"containerPort": PORT}], startupProbe=ready)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _APP},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": _APP}},
            "template": {"metadata": {"labels": {"app": _APP}}, "spec": pod},
        },
    }


def _service() -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": PORT}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _APP}, "spec": {"selector": {"app": _APP}, "ports": ports}}


def _headless() -> dict[str, Any]:
    spec = {"clusterIP": "None", "selector": {"job-name": "slice"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "slice"}, "spec": spec}


def _indexed_job(choice: RecipeChoice) -> dict[str, Any]:
    hosts = choice.tpu.hosts
    script = f'pip install "{load_versions()["jax"].line("tpu")}" && python -c "import jax; print(jax.device_count())"'
    pod = {**_pod(choice, script), "subdomain": "slice", "restartPolicy": "Never"}
    spec = {"completionMode": "Indexed", "parallelism": hosts, "completions": hosts, "backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "slice"}, "spec": spec}


def torch_tpu(choice: RecipeChoice) -> RecipeEntry:
    """PyTorch on the device "tpu"."""
    versions = load_versions()
    lines = {name: versions[name].line() for name in ("torch_tpu", "torch", "transformers")}
    package = versions["torch_tpu"]
    notes = [_note("torch_tpu_beta", release=package.version, brings=package.brings or "")]
    return _recipe("torch_tpu", "python", render("torch_tpu.py.j2", model=choice.named_model, **lines), notes, release=package.version)


def torch_xla(choice: RecipeChoice) -> RecipeEntry:
    """The same with PyTorch/XLA, for programs that use it today."""
    code = render("torch_xla.py.j2", model=choice.named_model, release=TORCH_XLA)
    return _recipe("torch_xla", "python", code, [_note("torch_xla_last", release=TORCH_XLA)], release=TORCH_XLA)


def jax_maxtext(choice: RecipeChoice) -> RecipeEntry:
    """JAX sees the chips, and MaxText trains on synthetic data."""
    jax, hosts = load_versions()["jax"], choice.tpu.hosts
    code = render("tpu_maxtext.sh.j2", python=PYTHON, jax=jax.line("tpu"), maxtext=MAXTEXT)
    notes = [_note("synthetic", jax=jax.version, release=MAXTEXT), *((_note("all_hosts", hosts=hosts),) if hosts > 1 else ())]
    return _recipe("maxtext", "bash", code, notes, jax=jax.version, release=MAXTEXT)


def optimum_tpu(choice: RecipeChoice) -> RecipeEntry:
    """Text Generation Inference on TPU, by Optimum TPU."""
    optimum, generation = choice.optimum, choice.tpu.generation.id
    values = {"release": optimum.version, "state": optimum.state, "model": choice.named_model, "families": ", ".join(optimum.models)}
    notes = [_note("optimum_lists" if choice.optimum_lists_model else "optimum_lacks", **values)]
    if generation not in optimum.generations:
        notes.append(_note("optimum_generations", generations=", ".join(optimum.generations), generation=generation))
    code = render("tpu_optimum.sh.j2", image=optimum.image, model=choice.named_model)
    return _recipe("optimum_tpu", "bash", code, notes, release=optimum.version)


def jetstream() -> RecipeEntry:
    """JetStream, for those who still run it."""
    return _recipe("jetstream", "bash", render("tpu_jetstream.sh.j2", release=JETSTREAM), [_note("archived")], release=JETSTREAM)


def gpu_recipes(entry: Entry, setup: Setup) -> Iterator[RecipeEntry]:
    """The files and the command of a GPU offer, as the recommendation writes them."""
    where = f"GPU: {entry.engine} on {entry.offer.id}, {PLATFORM_NAMES[entry.offer.platform]}"
    parts = (
        ("README.md", "yaml", setup.front_matter),
        ("Dockerfile", "dockerfile", setup.dockerfile),
        ("requirements.txt", "text", setup.requirements),
        ("command", "bash", setup.command),
    )
    for name, language, code in parts:
        if code is not None:
            yield RecipeEntry(
                name=f"gpu_{entry.offer.platform}_{name.partition('.')[0].casefold()}",
                title=f"{where}: {name}",
                language=language,
                code=code,
                notes=setup.notes,
            )
