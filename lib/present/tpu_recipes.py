"""Code to copy that rents a slice of Cloud TPU and runs a model on it, or runs it on GPUs: written for the visitor's choice.

    tpu_recipes(choice)[0]["code"]

Every variable part is in one block of environment variables; text from outside is quoted for the shell. Releases are those of
`lib/data/frameworks.json`, or are below with their source. The commands follow docs.vllm.ai/projects/tpu (setup and quickstart, read
2026-11-22), github:vllm-project/vllm-torchtpu @9c8d9b05, github:AI-Hypercomputer/maxtext docs/install_maxtext.md @0491bf3b,
huggingface.co/docs/optimum-tpu/howto/serving and cloud.google.com/tpu/docs/tutorials/LLM/jetstream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lib.advisor.result import Entry
from lib.answers.gpu_tpu import RecipeEntry
from lib.catalog.gpu_or_tpu import OptimumTpu, TpuTerms
from lib.catalog.offers import Offer, TpuSlice
from lib.present.cards import PLATFORM_NAMES
from lib.present.cluster_files import disk_gib, load_cluster_facts, lws_manifest, serve_script
from lib.present.releases import load_versions
from lib.present.sentences import fill, note
from lib.present.setup_files import Setup
from lib.present.snippets import PORT, Start, command_words
from lib.present.templates import render
from lib.present.wording import load_wording
from lib.provenance import Value

TORCH_XLA = "2.9.0"  # the last release; PyPI torch_xla, read 2026-11-21
MAXTEXT = "0.2.0"  # the release whose installation guide was read
JETSTREAM = "0.2.2"  # PyPI google-jetstream, the last release
PYTHON = "3.12"
ENGINE = "vllm-tpu"
_RAY_ON_TPU = {"TPU_MULTIHOST_BACKEND": "ray"}  # tpu_inference/platforms/tpu_platform.py @b8692ff01
_NAME = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoice:
    """A slice, the model that runs on it ("" for none), and how it is rented."""

    offer: Offer
    terms: TpuTerms
    model: str
    start: Start
    """How vLLM is started on it."""
    weights_bytes: int = 0
    """Of the model, which a volume has to hold; 0: not known."""
    region: str
    spot: bool
    optimum: OptimumTpu
    optimum_lists_model: bool
    checkpoint_precision: str = ""
    """Of the weights that fit the slice, if it is not the one in which the model is stored."""

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
        """The model, or one that runs everywhere if none with a Hub id is chosen."""
        return self.model if "/" in self.model else "Qwen/Qwen3-4B"

    @property
    def words(self) -> list[str]:
        """The command of the server."""
        return command_words(ENGINE, self.named_model, self.start)

    @property
    def environment(self) -> dict[str, Any]:
        """Values of the variables that the commands rely on."""
        return {
            "zone": self.zone,
            "name": "advisor-" + _NAME.sub("-", self.offer.id.casefold()).strip("-"),
            "slice": self.offer.id,
            "runtime_version": self.tpu.generation.runtime_version,
            "model": self.named_model,
        }

    @property
    def node_selector(self) -> dict[str, str]:
        """Labels of the Kubernetes nodes that hold the slice."""
        labels = {"accelerator": self.terms.gke_accelerator, "topology": self.tpu.topology}
        spot = {"cloud.google.com/gke-spot": "true"} if self.spot else {}
        return {f"cloud.google.com/gke-tpu-{name}": value for name, value in labels.items()} | spot

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


_note = partial(note, "recipes")


def _recipe(name: str, language: str, code: str, notes: Sequence[str], /, **of_title: Value) -> RecipeEntry:
    title = fill(load_wording("recipes")["titles"][name], of_title)
    code = code.rstrip("\n") if language == "bash" else code  # pasted into a terminal, a last newline would run the last command
    return RecipeEntry(name=name, title=title, language=language, code=code, notes=notes)


def environment(choice: RecipeChoice) -> RecipeEntry:
    """Variables, APIs, roles and quota: the block that the other commands rely on."""
    generation, zone = choice.tpu.generation, choice.zone
    code = render("tpu_environment.sh.j2", **choice.environment)
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
    """A slice at once, if there is capacity."""
    machine = choice.tpu.machine_type
    notes = [_note("old_api", machine=machine)] if machine and choice.tpu.generation.id in {"v5p", "v6e"} else []
    return _recipe("tpu_vm", "bash", render("tpu_vm.sh.j2", spot=choice.spot, script=""), notes)


def vllm_on_tpu(choice: RecipeChoice) -> RecipeEntry:
    """VLLM with its TPU backend, on the TPU VM."""
    package, hosts = load_versions()["vllm-tpu"].line(), choice.tpu.hosts
    code = _serve_on_vm("tpu_vllm.sh.j2", choice)
    notes = [*choice.checkpoint, _note("first_start")]
    notes += [_note("ray", hosts=hosts)] if hosts > 1 else []
    notes += [_note("experimental")] if choice.terms.vllm == "experimental" else []
    return _recipe("vllm", "bash", code, notes, package=package)


def gke_manifest(choice: RecipeChoice) -> RecipeEntry:
    """A slice in Kubernetes: vLLM behind a Service on one host, or on several through a LeaderWorkerSet."""
    chips, hosts, machine = choice.offer.accelerator_count, choice.tpu.hosts, choice.tpu.machine_type
    pool = _note(
        "node_pool",
        region=choice.zone.rsplit("-", 1)[0],
        zone=choice.zone,
        machine=machine or "",
        topology=choice.tpu.topology,
        hosts=hosts,
    )
    pod = {
        "image": load_versions().image(ENGINE, "tpu").image,
        "selector": choice.node_selector,
        "disk_gib": disk_gib(choice.weights_bytes),
        "port": PORT,
    }
    several: tuple[str, ...] = ()
    if hosts > 1:
        several = (_note("same_program", hosts=hosts, chips=chips // hosts), _note("lws", release=load_cluster_facts().lws.version))
        script = serve_script(choice.words, machines=hosts, packages={})
        code = lws_manifest(script, **pod, device="google.com/tpu", devices=chips // hosts, machines=hosts, environment=_RAY_ON_TPU)
    else:
        code = render("gke_tpu.yaml.j2", **pod, words=choice.words, chips=chips, disk=choice.terms.disk)
    return _recipe("gke", "yaml", code, [*choice.checkpoint, pool, _note("secret"), *several])


def _serve_on_vm(template: str, choice: RecipeChoice) -> str:
    return render(template, python=PYTHON, package=load_versions()[ENGINE].line(), words=choice.words)


def tpu_vm_scripts(choice: RecipeChoice) -> dict[str, str]:
    """A script that rents the slice as a TPU VM, and the one that it runs there."""
    rent = render("tpu_vm_script.sh.j2", **choice.environment, spot=choice.spot, script="serve.sh")
    return {"tpu-vm.sh": rent, "serve.sh": _serve_on_vm("tpu_vllm_script.sh.j2", choice)}


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
