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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lib.advisor.result import Entry
from lib.answers.gpu_tpu import RecipeEntry
from lib.catalog.offers import Offer, TpuSlice
from lib.catalog.rules import OptimumTpu, TpuTerms
from lib.present.cards import PLATFORM_NAMES
from lib.present.releases import load_versions
from lib.present.setup_files import Setup
from lib.present.templates import python_literal

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
    def checkpoint_notes(self) -> tuple[str, ...]:
        """That the slice takes another checkpoint than the one that is named."""
        if not self.checkpoint_precision:
            return ()
        note = (
            f"Memory on {self.offer.id} is counted for weights in {self.checkpoint_precision}: replace {self.named_model} by a checkpoint "
        )
        return (note + "in that precision. Its weights as stored were not counted and may not fit.",)


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


def environment(choice: RecipeChoice) -> RecipeEntry:
    """Variables, APIs, roles and quota: the block that the other commands rely on."""
    generation = choice.tpu.generation
    lines = [
        "export PROJECT_ID=my-project",
        f"export ZONE={shlex.quote(choice.zone)}",
        f"export TPU_NAME={shlex.quote(_resource_name(choice.offer.id))}",
        'export QUEUED_RESOURCE_ID="$TPU_NAME-request"',
        f"export ACCELERATOR_TYPE={shlex.quote(choice.offer.id)}",
    ]
    if generation.runtime_version is not None:
        lines.append(f"export RUNTIME_VERSION={shlex.quote(generation.runtime_version)}")
    lines += [
        f"export MODEL={shlex.quote(choice.named_model)}",
        "",
        "gcloud auth login",
        'gcloud config set project "$PROJECT_ID"',
        "gcloud services enable tpu.googleapis.com compute.googleapis.com container.googleapis.com",
        'gcloud compute tpus accelerator-types list --zone="$ZONE"',
        'gcloud beta quotas info list --project="$PROJECT_ID" --service=tpu.googleapis.com',
    ]
    quota = "preemptible quota" if choice.spot else "on-demand quota"
    elsewhere = f"{generation.name} is not rented in {choice.region}: this zone is elsewhere, where it is rented."
    notes = [
        *choice.checkpoint_notes,
        *(() if not choice.region or choice.zone.startswith(f"{choice.region}-") else (elsewhere,)),
        f"Quota: {choice.offer.accelerator_count} chips of {generation.name} as {quota} in {choice.zone}; a new project may have none.",
        "Roles: TPU Admin (roles/tpu.admin) and Service Account User (roles/iam.serviceAccountUser); for GKE also roles/container.admin.",
        "A listed price does not mean that the zone has free chips: a queued resource waits for them.",
        *(("TPU7x is rented through GKE and Compute Engine; use the manifest below.",) if generation.runtime_version is None else ()),
    ]
    return RecipeEntry(name="environment", title="Project, APIs, quota", language="bash", code="\n".join(lines), notes=notes)


def queued_resource(choice: RecipeChoice) -> RecipeEntry:
    """Ask for a slice, wait until it is there, log in, give it back."""
    spot = " \\\n  --spot" if choice.spot else ""
    workers = " --worker=all" if choice.tpu.hosts > 1 else ""
    code = f"""gcloud compute tpus queued-resources create "$QUEUED_RESOURCE_ID" \\
  --node-id="$TPU_NAME" --project="$PROJECT_ID" --zone="$ZONE" \\
  --accelerator-type="$ACCELERATOR_TYPE" --runtime-version="$RUNTIME_VERSION"{spot}

until [ "$(gcloud compute tpus tpu-vm list --zone="$ZONE" --filter="name~/$TPU_NAME\\$" --format="value(state)")" = "READY" ]; do
  state=$(gcloud compute tpus queued-resources describe "$QUEUED_RESOURCE_ID" --zone="$ZONE" --format="value(state.state)")
  echo "$state"
  case "$state" in FAILED | SUSPENDED) exit 1 ;; esac
  sleep 30
done

gcloud compute tpus tpu-vm ssh "$TPU_NAME" --zone="$ZONE"{workers}

# at the end
gcloud compute tpus queued-resources delete "$QUEUED_RESOURCE_ID" --zone="$ZONE" --force --quiet"""
    notes = [
        "Billing runs while the slice is READY, used or not: the last command ends billing.",
        *(("A spot slice can be taken back at any time; its queued resource is then SUSPENDED.",) if choice.spot else ()),
    ]
    return RecipeEntry(name="queued_resource", title="Queued resource: wait for a slice", language="bash", code=code, notes=notes)


def tpu_vm(choice: RecipeChoice) -> RecipeEntry:
    """A slice at once, where there is capacity."""
    spot = " --spot" if choice.spot else ""
    code = f"""gcloud compute tpus tpu-vm create "$TPU_NAME" --zone="$ZONE" \\
  --accelerator-type="$ACCELERATOR_TYPE" --version="$RUNTIME_VERSION"{spot}
gcloud compute tpus tpu-vm list --zone="$ZONE"
gcloud compute tpus tpu-vm ssh "$TPU_NAME" --zone="$ZONE"

# at the end
gcloud compute tpus tpu-vm delete "$TPU_NAME" --zone="$ZONE" --quiet"""
    machine = choice.tpu.machine_type
    note = "This API is no longer developed; Google's newer way for v5p and v6e is Compute Engine"
    notes = [f"{note} ({machine})."] if machine and choice.tpu.generation.id in {"v5p", "v6e"} else []
    return RecipeEntry(name="tpu_vm", title="TPU VM on demand", language="bash", code=code, notes=notes)


def vllm_on_tpu(choice: RecipeChoice) -> RecipeEntry:
    """VLLM with its TPU backend, on the TPU VM."""
    package = load_versions()["vllm-tpu"]
    code = f"""pip install uv
uv venv --python {PYTHON} "$HOME/vllm"
. "$HOME/vllm/bin/activate"
uv pip install {package.line()}
export HF_TOKEN=hf_your_token
export VLLM_XLA_CACHE_PATH="$HOME/xla-cache"
vllm serve {shlex.quote(choice.named_model)} --tensor-parallel-size {choice.devices} \\
  --max-model-len {choice.context_tokens} --port {PORT}"""
    hosts = choice.tpu.hosts
    notes = [
        *choice.checkpoint_notes,
        "The first start compiles every shape (20 to 30 minutes); the cache path keeps the result for the next one.",
        *((f"The slice has {hosts} hosts: vLLM connects them through Ray; the GKE manifest is the other way.",) if hosts > 1 else ()),
        *(("vLLM rates this generation as experimental.",) if choice.terms.vllm == "experimental" else ()),
    ]
    return RecipeEntry(name="vllm", title=f"vLLM on TPU ({package.line()})", language="bash", code=code, notes=notes)


def gke_manifest(choice: RecipeChoice) -> RecipeEntry:
    """A slice in Kubernetes: vLLM behind a Service on one host, an indexed Job over several."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  comes with huggingface_hub, and is not needed to start

    documents = [_deployment(choice), _service()] if choice.tpu.hosts == 1 else [_headless(), _indexed_job(choice)]
    chips, hosts, machine = choice.offer.accelerator_count, choice.tpu.hosts, choice.tpu.machine_type
    pool = (
        f"gcloud container node-pools create tpu --cluster=my-cluster --location={choice.zone.rsplit('-', 1)[0]} "
        f"--node-locations={choice.zone} --machine-type={machine or 'the machine type of this topology'} "
        f"--tpu-topology={choice.tpu.topology} --num-nodes={hosts}"
    )
    several = f"{hosts} hosts of {chips // hosts} chips start as one: the Job runs the same program on each."
    notes = [
        *choice.checkpoint_notes,
        f"Node pool: {pool}",
        "Secret: kubectl create secret generic hf --from-literal=token=$HF_TOKEN",
        *((several,) if hosts > 1 else ()),
    ]
    return RecipeEntry(
        name="gke", title="GKE manifest of the slice", language="yaml", code=yaml.safe_dump_all(documents, sort_keys=False), notes=notes
    )


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
    code = f"""# pip install {versions["torch_tpu"].line()} {versions["torch"].line()} {versions["transformers"].line()}
import torch
import torch_tpu  # noqa: F401  makes the device "tpu" known
from transformers import AutoModelForCausalLM, AutoTokenizer

name = {python_literal(choice.named_model)}
device = torch.device("tpu")  # was: torch.device("cuda")
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).to(device)
model = torch.compile(model, backend="tpu")
inputs = tokenizer("A tensor processing unit is", return_tensors="pt").to(device)
with torch.no_grad():
    logits = model(**inputs).logits
print(tokenizer.decode(logits[0, -1].argmax()))
"""
    package = versions["torch_tpu"]
    note = f"TorchTPU {package.version} is in beta; it works with {package.brings}. Keep shapes fixed: each new one is compiled."
    return RecipeEntry(
        name="torch_tpu", title=f"PyTorch: the device switch (torch_tpu {package.version})", language="python", code=code, notes=[note]
    )


def torch_xla(choice: RecipeChoice) -> RecipeEntry:
    """The same with PyTorch/XLA, for programs that use it today."""
    code = f"""# pip install "torch_xla[tpu]=={TORCH_XLA}" torch=={TORCH_XLA} transformers
import torch
import torch_xla
from transformers import AutoModelForCausalLM, AutoTokenizer

name = {python_literal(choice.named_model)}
device = torch_xla.device()  # an "xla" device
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).to(device)
inputs = tokenizer("A tensor processing unit is", return_tensors="pt").to(device)
with torch.no_grad():
    logits = model(**inputs).logits
torch_xla.sync()  # lazy tensors run here
print(tokenizer.decode(logits[0, -1].argmax().cpu()))
"""
    note = f"PyTorch/XLA {TORCH_XLA} is the last release; TorchTPU will replace it."
    return RecipeEntry(name="torch_xla", title=f"PyTorch/XLA {TORCH_XLA}, the equivalent", language="python", code=code, notes=[note])


def jax_maxtext(choice: RecipeChoice) -> RecipeEntry:
    """JAX sees the chips, and MaxText trains on synthetic data."""
    jax = load_versions()["jax"]
    code = f"""pip install uv
uv venv --python {PYTHON} "$HOME/jax"
. "$HOME/jax/bin/activate"
uv pip install "{jax.line("tpu")}"
python -c "import jax; print(jax.devices())"

uv venv --python {PYTHON} --seed "$HOME/maxtext"
. "$HOME/maxtext/bin/activate"
uv pip install "maxtext[tpu]=={MAXTEXT}" --resolution=lowest
install_maxtext_tpu_github_deps
python3 -m maxtext.trainers.pre_train.train run_name=first base_output_directory=gs://my-bucket/maxtext \\
  model_name=llama3.1-8b dataset_type=synthetic per_device_batch_size=1 steps=10"""
    hosts = choice.tpu.hosts
    notes = [
        f"JAX {jax.version}, MaxText {MAXTEXT}. Ten steps on synthetic data; the bucket takes logs and checkpoints.",
        *((f"Run it on all {hosts} hosts: gcloud compute tpus tpu-vm ssh --worker=all --command=…",) if hosts > 1 else ()),
    ]
    return RecipeEntry(name="maxtext", title=f"JAX {jax.version} and MaxText {MAXTEXT}", language="bash", code=code, notes=notes)


def optimum_tpu(choice: RecipeChoice) -> RecipeEntry:
    """Text Generation Inference on TPU, by Optimum TPU."""
    optimum = choice.optimum
    code = f"""docker run --privileged --net host --shm-size 16GB \\
  -e HF_TOKEN=hf_your_token -v "$HOME/hf_data:/data" \\
  {optimum.image} \\
  --model-id {shlex.quote(choice.named_model)} --max-input-length 512 --max-total-tokens 1024"""
    support = "is of a family that it supports" if choice.optimum_lists_model else "is not of a family that it supports"
    notes = [
        f"Optimum TPU {optimum.version}: {optimum.state}. {choice.named_model} {support}: {', '.join(optimum.models)}.",
        *(
            (f"It supports {', '.join(optimum.generations)}, not {choice.tpu.generation.id}.",)
            if choice.tpu.generation.id not in optimum.generations
            else ()
        ),
    ]
    return RecipeEntry(name="optimum_tpu", title=f"Optimum TPU {optimum.version} (maintenance)", language="bash", code=code, notes=notes)


def jetstream() -> RecipeEntry:
    """JetStream, for those who still run it."""
    code = f"""# JetStream is archived since 2026-02-01: use vLLM on TPU for new projects
git clone -b jetstream-v{JETSTREAM} https://github.com/google/maxtext.git
git clone -b v{JETSTREAM} https://github.com/google/JetStream.git
cd maxtext && bash setup.sh"""
    notes = ["Archived: its features moved to tpu-inference, the backend of vLLM on TPU."]
    return RecipeEntry(name="jetstream", title=f"JetStream {JETSTREAM} (archived)", language="bash", code=code, notes=notes)


def _resource_name(text: str) -> str:
    return "advisor-" + _NAME.sub("-", text.casefold()).strip("-")


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
