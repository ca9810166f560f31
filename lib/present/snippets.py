"""Code to copy: every action on a Space, and the start of an engine that is a server of its own.

An action is the huggingface_hub call, the `hf` command and the line of our own command line:

    switch_snippet("ada/chat", "l4x1", sleep_time_s=3600).hf
    'hf spaces settings ada/chat --hardware l4x1 --sleep-time 3600'

Text from outside stays one Python literal and one word of a shell command; an id that begins with a dash is not read as an option. No code
holds a token: all three use the login of the machine they run on (`hf auth login`, or HF_TOKEN). Written for huggingface_hub 2.4; the
tests check every call against the installed client's signatures and every command with its own parser.

A server's image and command, as a Dockerfile for a Space and as lines for `hf`:

    command_words("vllm", "Qwen/Qwen3-8B", Start(precision="bf16", devices=1, context_tokens=8192))

The flags repeat the settings of the recommendation (length, devices, format, share of the device), so that other defaults of a release do
not change the result. Sources of the flags, read 2026-11-22: `vllm serve --help` (docs.vllm.ai), docs.sglang.io server arguments,
trtllm-serve (nvidia.github.io/TensorRT-LLM), TGI `launcher/src/main.rs` (db931fc), text-embeddings-inference 1.9 README, llama.cpp
tools/server README.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from lib.catalog.offers import tier_of
from lib.engines import traits_of
from lib.engines.traits import ServerCommand, Setting
from lib.precision import weight_format
from lib.present.markup import bullet_list, code_blocks, escape, fold
from lib.present.sentences import note, say
from lib.present.space_cards import Action
from lib.present.templates import python_literal, render
from lib.request.serving import DEFAULTS, Serving


def shell_command(words: str, positional: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A line for a POSIX shell: `words` is ours, everything else is quoted; `--` parts the options off where a value looks like one."""
    dashed = any(value.startswith("-") for value in positional)
    order = (*options, "--", *positional) if dashed else (*positional, *options)
    return " ".join((words, *(shlex.quote(value) for value in order)))


def client_call(method: str, space: str, arguments: Sequence[str], result: str) -> str:
    """A call of the Hub's client about a Space; `result` is the expression that is printed; the code calls the answer `answer`."""
    call = f"HfApi().{method}({', '.join((python_literal(space), *arguments))})"
    return "\n".join(["from huggingface_hub import HfApi", "", f"answer = {call}", f"print({result})"])


_note = partial(note, "files")
OURS = "python scripts/manage_space.py"
_STATE = "answer.stage, answer.hardware, answer.requested_hardware"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One action, ready to copy: for Python, for a shell with `hf`, and for our own command line."""

    action: str
    title: str
    python: str
    hf: str
    cli: str
    notes: tuple[str, ...] = ()


def switch_snippet(space: str, hardware: str, sleep_time_s: int | None = None) -> Snippet:
    """Switch to a tier; `sleep_time_s` in seconds, -1 for never, `None` to leave it to the tier."""
    tier = tier_of(hardware)
    options = [] if sleep_time_s is None else ["--sleep-time", str(sleep_time_s)]
    arguments = [f"hardware={python_literal(tier)}", *([] if sleep_time_s is None else [f"sleep_time={sleep_time_s}"])]
    return Snippet(
        action="switch",
        title=f"Switch to {tier}",
        python=client_call("request_space_hardware", space, arguments, _STATE),
        hf=shell_command("hf spaces settings", [space], ["--hardware", tier, *options]),
        cli=shell_command(f"{OURS} hardware", [space], ["--tier", tier, *options]),
        notes=(_note("act"), _note("login"), *((_note("size", offer=hardware, tier=tier),) if tier != hardware else ())),
    )


def sleep_time_snippet(space: str, seconds: int) -> Snippet:
    """Set after how many seconds without a visit the Space sleeps; -1 for never."""
    return Snippet(
        action="sleep_time",
        title="Never sleep" if seconds == -1 else f"Sleep after {seconds} s without a visit",
        python=client_call("set_space_sleep_time", space, [f"sleep_time={seconds}"], "answer.sleep_time"),
        hf=shell_command("hf spaces settings", [space], ["--sleep-time", str(seconds)]),
        cli=shell_command(f"{OURS} sleep", [space], ["--sleep-time", str(seconds)]),
        notes=(_note("login"),),
    )


def pause_snippet(space: str) -> Snippet:
    """Pause the Space: not billed, and only its owner can restart it."""
    return Snippet(
        action="pause",
        title="Pause",
        python=client_call("pause_space", space, [], "answer.stage"),
        hf=shell_command("hf spaces pause", [space]),
        cli=shell_command(f"{OURS} pause", [space]),
        notes=(_note("login"),),
    )


def restart_snippet(space: str, *, factory: bool = False) -> Snippet:
    """Restart the Space; `factory` rebuilds it, without the cached build."""
    return Snippet(
        action="restart",
        title="Factory restart" if factory else "Restart",
        python=client_call("restart_space", space, ["factory_reboot=True"] if factory else [], "answer.stage"),
        hf=shell_command("hf spaces restart", [space], ["--factory-reboot"] if factory else []),
        cli=shell_command(f"{OURS} restart", [space], ["--factory"] if factory else []),
        notes=(_note("act"), _note("login")),
    )


def action_snippet(action: Action, space: str, hardware: str, sleep_time_s: int | None) -> Snippet:
    """The code of exactly this action; `sleep_time_s` is `None` if the tier has a sleep of its own."""
    match action:
        case "switch":
            return switch_snippet(space, hardware, sleep_time_s)
        case "sleep":
            return sleep_time_snippet(space, -1 if sleep_time_s is None else sleep_time_s)
        case "pause":
            return pause_snippet(space)
        case "restart" | "factory":
            return restart_snippet(space, factory=action == "factory")


def action_code(snippet: Snippet) -> str:
    """The three ways to do an action, behind one line."""
    blocks = code_blocks([("Python", snippet.python), ("hf command", snippet.hf), (say("files", "blocks", "ours"), snippet.cli)])
    return fold(say("files", "blocks", "copy"), blocks + bullet_list([escape(note) for note in snippet.notes], "notes"), "rest code-rest")


PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Settings behind the recommendation; 0 tokens leave the length to the engine, -1 layers are all of them on the GPU."""

    precision: str
    devices: int = 1
    context_tokens: int = 0
    sequences: int = 1
    on_gpu: bool = True
    gpu_layers: int = -1
    serving: Serving = DEFAULTS
    machines: int = 1
    """Machines that run it together."""


def command_words(engine: str, model: str, start: Start) -> list[str]:
    """The command of a server that listens on `PORT`, word by word.

    >>> " ".join(command_words("vllm", "Qwen/Qwen3-8B", Start(precision="bf16", devices=2, context_tokens=8192)))
    'vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --port 8000 --max-model-len 8192 --tensor-parallel-size 2 --gpu-memory-utilization 0.9 --dtype bfloat16'
    """  # noqa: E501 one line of output
    command = traits_of(engine).command
    if command is None:
        raise ValueError(f"no server of an engine named {engine}")
    files = own_file_words(model, start) if traits_of(engine).own_files else []
    named = (files if word == "{files}" else [word.format(model=model, port=PORT)] for word in command.program.split())
    return [*chain.from_iterable(named), *_options(engine, command, start)]


def flag_words(engine: str, start: Start) -> list[str]:
    """The flags of that command by which the server runs as computed; none of an engine without a server."""
    command = traits_of(engine).command
    return [] if command is None else _options(engine, command, start)


def _options(engine: str, command: ServerCommand, start: Start, *, with_devices: bool = True) -> list[str]:
    """The options whose values are known."""
    quantization = None
    if command.formats:
        form = weight_format(start.precision)
        quantization = next((command.formats[key] for key in (start.precision, form.law, form.arithmetic) if key in command.formats), None)
    values = {
        "quantization": quantization,
        "dtype": None if quantization else command.dtypes.get(start.precision, command.dtypes.get("")),
    }
    known = {name: value for name, value in values.items() if value is not None}
    settings = _settings(engine, command, start, with_devices=with_devices)
    flags = [words.format(settings[name]) for name, words in command.settings.items() if settings.get(name) is not None]
    flags += [option.format(**known) for option in command.options if option.partition("{")[2][:-1] in known]
    flags += [command.over_machines] if start.machines > 1 else []
    return [word for flag in flags for word in flag.split()]


def _settings(engine: str, command: ServerCommand, start: Start, *, with_devices: bool) -> dict[Setting, int | float | str | None]:
    """The settings that the command states: the stated ones, else those of the recommendation."""
    stated, parallel, stages = start.serving, start.serving.parallel or start.sequences, start.serving.pipeline_parallel or 1
    sized = stated.kv_cache_memory_bytes is not None  # then the engine ignores its share
    layers = start.gpu_layers if stated.gpu_layers is None else stated.gpu_layers
    return {
        **stated.stated,
        "max_model_len": stated.max_model_len or start.context_tokens or None,
        "max_num_seqs": stated.max_num_seqs or (start.sequences if start.sequences > 1 and not command.refuses_more else None),
        "tensor_parallel": start.devices // stages if with_devices else None,
        "gpu_memory_utilization": stated.gpu_memory_utilization or (None if sized else traits_of(engine).stated_share),
        "kv_cache_dtype": None if stated.kv_cache_dtype is None else command.cache_words.get(stated.kv_cache_dtype),
        "cuda_graphs": None if stated.cuda_graphs is not False else "",
        "parallel": parallel,
        "ctx_size": stated.ctx_size or start.context_tokens * parallel or None,
        "gpu_layers": None if not start.on_gpu else layers if layers >= 0 else 99,
    }


def list_options(engine: str, start: Start) -> Iterator[tuple[str, int | float | str]]:
    """The same options as keywords of Python: `max_model_len`, 8192."""
    words = flag_words(engine, start)
    for at, word in enumerate(words):
        value = words[at + 1] if at + 1 < len(words) else "-"
        number = float(value) if value.replace(".", "", 1).isdigit() else None
        if word.startswith("-"):
            read = value if number is None else int(number) if number.is_integer() else number
            yield word.lstrip("-").replace("-", "_"), True if value.startswith("-") else read


def own_file_words(model: str, start: Start) -> list[str]:
    """The argument that names the file of a repository for llama.cpp: the one of that name or quantization, or that of the precision."""
    repository, _, file = model.partition(":")
    if file.lower().endswith(".gguf"):
        return ["-hf", repository, "-hff", file]
    return ["-hf", f"{repository}:{file or start.precision.removeprefix('gguf:').upper()}"]


def dockerfile(image: str, words: Sequence[str]) -> str:
    """A Dockerfile for a Space, which runs its container as user 1000.

    USER is set because torch asks for the name of the user, which images have for no such number (vllm issue 44548, read 2026-11-25).
    """
    return render("dockerfile_server.j2", image=image, words=list(words), port=PORT)


def job_command(image: str, words: Sequence[str], flavor: str, *, hours: int = 8, detach: bool = False) -> str:
    """The line that runs the server as a Job, reachable through the Jobs proxy; `--` keeps the server's options from being read by `hf`."""
    options = ["--flavor", flavor, "--expose", str(PORT), "--timeout", f"{hours}h", "--secrets", "HF_TOKEN"]
    return shlex.join(["hf", "jobs", "run", *(["--detach"] if detach else []), *options, "--", image, *words])


def repeat_command(line: str, times: int) -> str:
    """A line for a POSIX shell that runs several times; `$part` counts from 0.

    >>> repeat_command("hf jobs ps", 2)
    'for part in $(seq 0 1); do hf jobs ps; done'
    """
    return line if times == 1 else f"for part in $(seq 0 {times - 1}); do {line}; done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Instance of an Inference Endpoint."""

    accelerator: str
    vendor: str
    region: str
    instance_type: str
    instance_size: str
    replicas: int = 1


def endpoint_command(engine: str, model: str, image: str, start: Start, at: Instance) -> str:
    """The line that deploys an Inference Endpoint; the platform starts the engines that it manages, and mounts the model at /repository."""
    command = traits_of(engine).command
    if command is None or not command.endpoint_name:
        words = command_words(engine, "/repository", start)
        how = ["--container-command", shlex.join(words), "--health-route", "/health", "--port", str(PORT)]
    else:
        how = ["--engine", command.endpoint_name]
        how += ["--tensor-parallel-size", str(start.devices)] if command.endpoint_splits and start.devices > 1 else []
        how.append(f"--container-args={shlex.join(_options(engine, command, start, with_devices=not command.endpoint_splits))}")
    options = [
        "--repo", model.partition(":")[0], "--framework", "custom", "--custom-image", image, *how, "--accelerator", at.accelerator,
        "--vendor", at.vendor, "--region", at.region, "--instance-type", at.instance_type, "--instance-size", at.instance_size,
        "--min-replica", "0", "--max-replica", str(at.replicas), "--scale-to-zero-timeout", "60",
    ]  # fmt: skip
    return shlex.join(["hf", "endpoints", "deploy", "my-endpoint", *options])
