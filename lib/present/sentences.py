"""The wording of everything that the core states as a code with values: reasons, caveats, stages, ways to save, break-even points.

    sentence(Reason("price", {"usd_per_hour": …, "usd_per_month": …, "days": 30, "hours": 24}))

One template per code. A name in braces is a value of the statement, shown with the unit at the end of its name ("…_bytes" as GiB,
"…_s" as a time, "usd_per_hour" as dollars); `!s` shows it as it is, `:plain` as the shortest decimal without exponent, `:span` as a
time in its largest whole unit, and any other format as Python does. A code with several sentences has them under "code:variant".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType

from lib.advisor.savings import NoSaving, Saving
from lib.answers.common import CaveatEntry, ReasonEntry
from lib.cost import BreakEvenPoint
from lib.cost.compare import FULL_UTILISATION, Comparison, Side
from lib.present import gpu_tpu_words, traffic_words
from lib.present.numbers import Number, gib, seconds, span, tokens_per_s, usd
from lib.provenance import Caveat, Reason, Statement, Value
from lib.units import GIB

ACCOUNTS = {"anonymous": "signed out", "pro": "PRO", "team": "Team", "enterprise": "Enterprise"}
BOUNDS = {"bandwidth": "memory bandwidth limits it", "compute": "arithmetic limits it", "overhead": "launch and host time limit it"}
SERVED = frozenset({"generate", "vision_language"})


def sentence(statement: Statement) -> str:
    """A reason or a caveat as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    if isinstance(statement, Caveat):
        return statement.message or CAVEATS[_key(statement, statement.variant)].format_map(_Shown(statement.values))
    return REASONS[_key(statement, _variant(statement))].format_map(_Shown(statement.values))


def reason_entries(reasons: Iterable[Reason]) -> list[ReasonEntry]:
    """Reasons with their sentences, as answers carry them."""
    return [{"code": reason.code, "message": sentence(reason)} for reason in reasons]


def caveat_entries(caveats: Iterable[Caveat]) -> list[CaveatEntry]:
    """Each distinct caveat once, in the order met."""
    return [{"code": caveat.code, "message": sentence(caveat)} for caveat in dict.fromkeys(caveats)]


def _key(statement: Statement, variant: str) -> str:
    return f"{statement.code}:{variant}" if variant else statement.code


def _variant(reason: Statement) -> str:
    """Of codes that are worded by the kind of work, or by the account."""
    code, values = reason.code, reason.values
    if code in {"cpu_too_slow", "cpu_enough"}:
        family = str(values["family"])
        return "generate" if family in SERVED else "draw" if family in {"image", "video"} else family
    if code == "quota_too_small" and values["requests_per_visitor"] == 0:
        return "one"
    if code == "retired" and values["since"]:
        return "since"
    if code == "free" and values.get("gradio_only"):
        return "gradio"
    if code == "price":
        return "idle" if values["usd_per_month"] == 0 else "replicas" if "replicas" in values else ""
    return reason.variant


class _Shown(Mapping[str, "_Figure"]):
    """The values as text, made when a sentence names them."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> _Figure:
        return _Figure(name, self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _Figure:
    """One value: by the unit of its name, or in the format that the template asks for."""

    def __init__(self, name: str, value: Value) -> None:
        self._name, self._value = name, value

    def __str__(self) -> str:
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if not spec:
            return format_value(self._name, self._value)
        if spec == "span":
            return span(int(self._value))
        return _plain(self._value) if spec == "plain" else format(self._value, spec)


def format_value(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if isinstance(value, str | bool):
        words = {"account": ACCOUNTS, "bound": BOUNDS}.get(name, {})
        return words.get(str(value), str(value))
    for unit, written in _UNITS:
        if name.endswith(unit):
            return written(value)
    return f"{value:,}" if isinstance(value, int) else _plain(value)


def _plain(value: Value) -> str:
    return f"{Decimal(str(value)).normalize():f}"


_UNITS: tuple[tuple[str, Callable[[Number], str]], ...] = (
    ("bytes", gib),
    ("tokens_per_s", tokens_per_s),
    ("usd", usd),
    ("usd_per_hour", usd),
    ("usd_per_month", usd),
    ("usd_per_gpu_hour", usd),
    ("usd_per_request", usd),
    ("seconds", seconds),
    ("_s", seconds),
)

# Reasons of the advisor: what an offer holds, how fast, at what price, and what stands in the way.

_HOLDS = {
    "fits": "{free_percent} % of its memory stays free: {needed_bytes} of {capacity_bytes} used.",
    "fits_tightly": "Tight: {needed_bytes} of {capacity_bytes} used, {free_percent} % stays free.",
    "working_room": "Of that, {bytes} are for decoding pictures, as published pipelines need.",
    "quantized_sibling": "In {bits} bits ({precision}), made from the unquantized checkpoint, not from this one.",
    "quantized_sibling:converted": "Converted to {precision}, a file of the engine's own.",
    "unpacked": "Unpacked to {precision}: {silicon} has no units for the stored format.",
    "quantized": "In {bits} bits ({precision}): with less compressed weights it does not fit.",
    "quantized:tight": "In {bits} bits ({precision}): with less compressed weights less than a tenth of its memory stays free.",
    "quantized:slow": "In {bits} bits ({precision}): with less compressed weights it is slower than one can use it.",
    "quantized:comfortable": "In {bits} bits ({precision}), which is faster; less compressed weights fit too.",
    "quantized:refused": "In {bits} bits ({precision}): with less compressed weights it does not do what is asked.",
    "quantized:replicas": "In {bits} bits ({precision}), so that one machine serves more; less compressed weights fit too.",
    "checkpoint": "{precision} is loaded from a checkpoint made in it: look for one on the Hub, or make it. Whether one exists was not "
    "looked up.",
    "checkpoint:found": "Published quantized: {repository} (for {precision}).",
    "checkpoint:none": "{precision} is loaded from a checkpoint made in it, and the Hub lists none of this model: make it.",
    "halved": "The checkpoint is in 32 bits and is loaded in {precision}, which hardly changes it.",
    "needs_docker": "Needs a Docker Space: {engine} is a server of its own.",
    "no_bf16": "{silicon} does not compute in bf16, so the model runs in fp16.",
    "tensor_parallel": "{engine} splits every matrix over {devices} devices.",
    "layer_split": "{engine} deals layers out over {devices} devices: more memory, not speed.",
    "cards_unused": "Uses {devices} of its {count} devices.",
    "multi_host": "Spans {hosts} hosts, which have to be started and kept as one.",
    "runs_elsewhere": "The model runs at a provider; this hardware only serves the page.",
}
_SPEED = {
    "speed": "About {tokens_per_s} per request, first token after {seconds}; {bound}.",
    "request_speed": "About {seconds} per request; {bound}.",
    "speed_bound": "At most {tokens_per_s} per request: a bound ({basis}), not a prediction.",
    "cpu_enough:generate": "A CPU is enough: {limit_tokens_per_s} and a first token within {limit_s} count as usable.",
    "cpu_enough:encode": "A CPU is enough: a pass within {limit_s} counts as usable.",
    "cpu_enough:speech": "A CPU is enough: half a minute of sound takes about {seconds}.",
    "cpu_too_slow:generate": "Too slow on {vcpu} virtual CPUs: about {tokens_per_s}, first token after {seconds}. Usable is "
    "{limit_tokens_per_s} and {limit_s}.",
    "cpu_too_slow:encode": "Too slow on {vcpu} virtual CPUs: one pass takes about {seconds}; usable is {limit_s}.",
    "cpu_too_slow:speech": "Too slow on {vcpu} virtual CPUs: half a minute of sound takes about {seconds}.",
    "cpu_too_slow:draw": "Too slow on {vcpu} virtual CPUs: even 32 cores take {seconds} for one small picture with Stable Diffusion 1.5.",
    "cpu_speed_unknown": "No figures are known for a machine of {vcpu} virtual CPUs, so nothing can be promised.",
    "engine_not_measured": "Too few measurements of {engine} are published to predict its speed on a CPU, so nothing can be promised.",
    "too_slow": "About {tokens_per_s} per request; {wanted_tokens_per_s} were asked for.",
    "first_token_late": "First token after about {ttft_s}; within {wanted_s} was asked for.",
    "below_reading": "Slower than one reads: about {tokens_per_s}, and people read {reading_tokens_per_s}.",
    "slow_request": "A request takes about {seconds}; {limit_s} count as usable.",
}
_TRAFFIC = {
    "traffic_exceeds": "Serves about {served} requests a day at {concurrency} at a time; {requests_per_day} are expected, and it cannot "
    "run more than once.",
    "traffic_in_flight": "{requests_per_day} requests a day want {concurrency} at a time, which it serves: speed and memory are those.",
    "replicas_needed:together": "One takes {concurrency} at a time; {together} are expected: {replicas} of them, each billed.",
    "replicas_needed": "One serves about {served} requests a day at {concurrency} at a time; {requests_per_day} are expected: {replicas} "
    "of them, each billed.",
}
_PRICE = {
    "free": "Free of charge.",
    "free:gradio": "Free of charge; Gradio Spaces only.",
    "price": "{usd_per_hour} an hour, {usd_per_month} a month ({days} days of {hours} hours).",
    "price:idle": "{usd_per_hour} an hour; at 0 hours a day nothing is billed.",
    "price:replicas": "{usd_per_hour} an hour each, {usd_per_month} a month for {replicas} of them ({days} days of {hours} hours).",
    "paused_outside_hours:spaces": "Paid hardware does not sleep by itself: it costs {usd_per_month} a month unless it is paused outside "
    "its {hours} hours a day or given a sleep time.",
    "paused_outside_hours:endpoints": "It costs {usd_per_month} a month unless it is paused or scaled to zero outside its {hours} hours a "
    "day.",
    "price_unverified": "This price was not read from the platform's own page (state of {checked}): check it before you rely on it.",
    "over_budget": "{usd_per_month} a month of {days} days is above the budget of {limit_usd}.",
}
_PLATFORM = {
    "needs_credits": "Needs prepaid credits; billed by the minute while it runs, used or not.",
    "needs_subscription": "An Inference Endpoint: needs an active subscription or credits; it can scale to zero when idle.",
    "needs_cloud_account": "Rented from Google Cloud, outside Hugging Face: needs an account, quota and a set-up of your own.",
    "needs_allowlist": "Google admits customers to this hardware one by one.",
    "gradio_only": "Takes Gradio Spaces only.",
    "sleeps": "Falls asleep after 48 hours without a visitor.",
    "jobs_time_limit": "A Job, not a Space: it stops after {minutes} minutes unless told otherwise, and exposing a port costs "
    "{ports_usd_per_hour} an hour.",
    "cpu_basic_needs_plan": "New Gradio and Docker Spaces on the free CPU are for PRO, Team and Enterprise accounts; with this one "
    "({account}) the platform answers 402.",
    "retired": "No longer offered.",
    "retired:since": "No longer offered since {since}.",
    "memory_unknown": "Its memory is not published, so nothing can be promised.",
}
_ZEROGPU = {
    "zerogpu_gradio_only": "ZeroGPU takes Gradio Spaces only; this one is built with {sdk}.",
    "zerogpu_needs_account": "Hosting on ZeroGPU needs an account; a free one may host {free_spaces} such Spaces.",
    "zerogpu_quota": "Visitors spend their own quota ({account}: {quota_s} a day), about {request_quota_s} a request: "
    "{requests_per_visitor} a day each.",
    "zerogpu_quota_unknown": "Visitors spend their own quota ({account}: {quota_s} a day); the time of a request is not known.",
    "zerogpu_crowd": "{concurrency} at a time are at least as many visitors, each waiting for a slice of the shared cards. Up to "
    "{most_visitors} count as light traffic here.",
    "zerogpu_hosting": "A free account may host {spaces} such Spaces ({conditions}).",
    "zerogpu_runs": "Beside the quota runs are counted: users report {runs} a day for this account ({account}), which is not documented.",
    "zerogpu_no_quota_used": "A Space that never calls the GPU uses none of its visitors' quota.",
    "quota_too_small": "{requests_per_day} requests a day, about {request_quota_s} of quota each, use up that of {visitors} visitors "
    "({quota_s} a day, {account} account). Up to {most_visitors} counts as light traffic here.",
    "quota_too_small:one": "One request takes about {request_quota_s} of quota; a visitor has {quota_s} a day ({account} account).",
    "zerogpu_xlarge": "Declare size={size}: a whole card, at {multiplier} times the quota.",
    "zerogpu_declare_size": "Declare size={size}: weights above {limit_bytes} otherwise make calls xlarge, at twice the quota.",
    "zerogpu_long_call": "A call takes about {seconds}, above the default {default_s}: declare a longer duration.",
}
_REFUSED = {
    "too_small": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest device, "
    "which has {capacity_bytes}: {missing_bytes} are missing.",
    "too_small:context": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest "
    "device, which has {capacity_bytes}. With {fits_tokens} tokens of context it fits ({at_once} at a time).",
    "too_small:batch": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest "
    "device, which has {capacity_bytes}. With {fits_at_once} at a time it fits.",
    "engine_needs_docker": "{engine} is a server: in a Gradio Space on {offer} runs {others}. A Docker Space can run it.",
    "engine_not_here": "{engine} does not run this on {offer}; what does: {others}.",
    "engine_form": "{engine} does not load {precision}.",
    "disk_too_small": "The download of {download_bytes} does not fit its disk of {disk_bytes}.",
    "dtype_missing": "{silicon} does not compute in {precision}.",
    "no_engine": "No engine known here runs this kind of work ({family}) in this form on {silicon}.",
}
_PROVIDER = {
    "provider_task_not_served": "Inference Providers do not sell {task} per token.",
    "provider_unknown": "If a provider serves the model, no GPU is needed: you pay for what you use, with {credit_usd} of credit a month "
    "({account} account). Whether one does was not looked up.",
    "provider_live": "Needs no GPU: {providers} serve it today, at their own price without a markup; {credit_usd} of credit a month come "
    "with the account ({account}).",
    "provider_none": "No provider serves this model today.",
}
_NOTES = {
    "context_clamped": "The model is limited to {limit_tokens} tokens: those are counted, not the {asked_tokens} asked for.",
    "nothing_fits": "Nothing on the chosen platforms does it; the rejected entries say why. Try more platforms, a larger budget, a "
    "shorter context or a smaller precision.",
    "context_raised": "The stated request is longer than the context of {asked_tokens} tokens: {held_tokens} are held.",
    "first_token_not_judged": "The time to the first token is not predicted for this work, so the wanted one was not judged.",
    "picked_balanced": "Chosen for the lowest price of what is quick enough and leaves a tenth of its memory free, where weights in eight "
    "bits count double and in four bits two and a half times.",
    "picked_cheapest": "Chosen for the lowest price that does it.",
    "picked_fastest": "Chosen for the highest predicted speed.",
    "speed_is_predicted": "Speeds are predictions for {prompt_tokens} tokens in and {output_tokens} out, {concurrency} at a time; each "
    "has its range.",
    "speed_is_a_bound": "Speeds are upper bounds from datasheets, to compare hardware and to rule out what cannot be quick enough; real "
    "engines reach 25 to 90 % of them, and the exchange between devices is left out.",
    "rate_not_judged": "This kind of work has no tokens per second, so the wanted rate was not judged.",
    "account_needed": "Hosting or renting anything needs an account.",
}
_RIGHT_SIZE = {
    "stay": "Stay on {current}: it is the pick for this model and workload.",
    "stay_does_it": "Stay on {current}: it does what is asked, with room to spare. For a new Space {pick} would be the pick.",
    "stay_declare_size": "The tier stays the same; its functions have to declare the size of {size}.",
    "saves": "Moving from {current} to {pick} saves {usd_per_month} a month.",
    "costs_more": "Moving from {current} to {pick} costs {usd_per_month} a month more.",
    "costs_the_same": "{pick} costs the same as {current}.",
    "current_does_not_do_it": "{current} does not do it, which is the reason to move to {pick}.",
    "current_not_judged": "{current} is not among the tiers offered today, so it was not judged.",
    "pick_keeps_precision": "{current} does it only with more compressed weights than {pick}.",
    "pick_has_room": "{current} does it with less than a tenth of its memory free; {pick} leaves room.",
    "pick_is_faster": "{current} does it too; {pick} is faster.",
    "pick_ranks_first": "{current} does it too; {pick} ranks before it for the priority that was asked for.",
    "pick_elsewhere": "{pick} is hardware of {platform}, not a tier of a Space: moving there is more than a switch.",
    "nothing_else_fits": "{current} does it; on the chosen platforms nothing does.",
    "nothing_fits_here": "Neither {current} nor anything on the chosen platforms does it; the rejected entries say why.",
}
_SAVES = "It saves {worth_usd} over {months!s} months, not more than the effort of {effort_usd}"
_SAVES_NOTHING = "It saves nothing at this traffic"
_SCALE_OUT = ": {replicas!s} replicas of what exists already carry it, and another one is the cheaper step when it grows."
_FILL_FIRST = (
    ": one replica is used to {used_percent:.1f} %. More traffic on it, sleep, or smaller hardware lowers the price per token first."
)
_KEEP = ": one replica carries it, used to {used_percent:.1f} %."
_COMPARISON = {
    "optimise": "It saves {worth_usd} over {months!s} months; no effort is stated.",
    "optimise:effort": "It saves {worth_usd} over {months!s} months, more than the effort of {effort_usd}.",
    "scale_out": _SAVES_NOTHING + _SCALE_OUT,
    "scale_out:saves": _SAVES + _SCALE_OUT,
    "fill_first": _SAVES_NOTHING + _FILL_FIRST,
    "fill_first:saves": _SAVES + _FILL_FIRST,
    "keep": _SAVES_NOTHING + _KEEP,
    "keep:saves": _SAVES + _KEEP,
    "faster": "A replica makes {ratio:.3g} times the answer tokens per second.",
    "slower": "A replica makes {ratio:.3g} times the answer tokens per second: it is slower.",
    "cheaper_full": "Fully used, a million answer tokens cost {after_usd} instead of {before_usd}.",
    "dearer_full": "Fully used, a million answer tokens cost {after_usd}, up from {before_usd}.",
    "replicas": "The traffic takes {after} replica(s) instead of {before}.",
}
# Spaces: when one sleeps, and what its stage means.

_SLEEP = {
    "sleep_fixed": "{hardware} sleeps after {hours} hours without a visit; that is fixed.",
    "sleep_not_documented": "When it sleeps is not documented.",
    "sleep_unknown": "When it sleeps is not known.",
    "never_sleeps": "It never sleeps by itself.",
    "never_sleeps:paid": "It never sleeps by itself: it is billed around the clock, used or not.",
    "sleeps_after": "It sleeps after {sleep_after_s:span} without a visit, and is not billed until a visit wakes it.",
}
STAGE_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "RUNNING": "It is running.",
        "RUNNING_BUILDING": "It is running, and its next version is being built.",
        "RUNNING_APP_STARTING": "It is running, and its next version is starting.",
        "BUILDING": "It is being built.",
        "APP_STARTING": "The app is starting.",
        "SLEEPING": "It is asleep; a visit wakes it.",
        "PAUSED": "It is paused; only its owner can restart it.",
        "STOPPED": "It is stopped.",
        "DELETING": "It is being deleted.",
        "NO_APP_FILE": "It has no app file yet: push one.",
        "CONFIG_ERROR": "The configuration in its README.md is wrong.",
        "BUILD_ERROR": "The build failed: its build log says why.",
        "RUNTIME_ERROR": "The app ended with an error: its log says why.",
    }
)


def stage_sentence(name: str) -> str:
    """What a Space at this stage is doing."""
    return STAGE_SENTENCES.get(name) or f"Its stage is {name}, which is not known here."


REASONS: Mapping[str, str] = MappingProxyType(
    _HOLDS
    | _SPEED
    | _TRAFFIC
    | _PRICE
    | _PLATFORM
    | _ZEROGPU
    | _REFUSED
    | _PROVIDER
    | _NOTES
    | _RIGHT_SIZE
    | _COMPARISON
    | _SLEEP
    | dict(gpu_tpu_words.RULES)
    | dict(traffic_words.REASONS)
)

# Caveats: what an answer leaves open.

_MODEL = {
    "typical_model": "Only a parameter count is known. Cache and activations are those of a typical decoder of that size ({layers!s} "
    "layers of width {hidden_size!s}, {kv_heads!s} key/value heads); name the model for exact figures.",
    "class_defaults": "The configuration does not state {fields}: the default of {config_class} is used. Check that it is meant.",
    "architecture_inferred": "The config names no architecture; counted as {class}, the class of its model_type.",
    "architecture_inferred:unknown_class": "'{stated}' is not a class of transformers for this model_type; counted as {class}, the class "
    "of its model_type.",
    "architecture_spelling": "'{stated}' is spelled {class} in transformers; counted as that class.",
    "remote_code_as_llama": "{config} needs remote code, which is never run here; every size in it is one of a Llama decoder: counted as "
    "one.",
    "foreign_model_type": "{config} is no type of transformers, but {class} is a class of it: counted as that class. What the publisher's "
    "own code does otherwise is not known here.",
    "separate_head": "The config states an output head of its own (tie_word_embeddings is false); it is counted, as the published weights "
    "hold it.",
    "unknown_routing": "{architecture} has routed experts but does not say how many of them a token reaches; all are counted as active.",
    "unknown_quantization": "The checkpoint is quantized with {method} in a variant that is not known here. Weights are counted from the "
    "files' headers where they were read, else in the dtype of the config; choose a precision to see another.",
    "unknown_cache:executed": "{failure} The cache is left out of the total.",
    "cache_not_executed": "{failure} It is computed from the layer kinds that the configuration states.",
    "pipeline_activations": "Activations of a pipeline depend on picture size and steps; they are not part of this total.",
}
_FILES = {
    "extra_layers_stored": "{elements} of the {stored} stored elements belong to layers for multi-token prediction that transformers does "
    "not load.",
    "tied_weight_stored": "{elements} of the {stored} stored elements are a second copy of a tied embedding, held once in memory.",
    "buffers_stored": "{elements} of the {stored} stored elements are buffers, which are not parameters.",
    "scales_stored": "{elements} of the {stored} stored elements are scales and other data of the quantization, not parameters.",
    "head_not_stored": "The files hold no output head; the {parameters} parameters of the class's own are counted.",
    "packed_weights": "{elements} stored elements hold several quantized weights each.",
    "unexplained_difference": "The files hold {stored} elements and the architecture {parameters} parameters; {unexplained} of the "
    "difference are not explained.",
    "weights_variant": "Only a half-precision copy of these weights is stored, so that one was read.",
    "weights_consolidated": "Only the vendor's own format (consolidated.safetensors) is stored; transformers does not load it as it is.",
    "weights_single_file": "The weights lie in one file of an unusual name; it was read as the model.",
    "no_weights": "The model {model} holds no weight files in a known place.",
    "tensors_stored_twice": "{tensors} tensors lie in more than one file; their bytes are counted each time.",
    "tensors_missing": "{tensors} tensors that the index names are in none of its files.",
    "index_total_differs": "The index states {index_bytes:,} bytes of weights and the files hold {file_bytes:,}; the files are right.",
    "pickle_not_opened": "The weights are pickle files (.bin), which are not opened; their size ({total_bytes:,} bytes) is known, their "
    "dtypes are not.",
}
_MEMORY = {
    "unknown_cache": "This model keeps a cache whose size could not be told, so none is counted.",
    "dtype_unstated": "The config does not say which dtype the files are in: auto takes 16 bits. Older checkpoints often lie in 32.",
    "experts_not_converted": "bitsandbytes converts plain matrices only: the experts of this mixture, most of its weights, stay as is.",
    "activation_typical": "The sizes of its layers are not known; activations are those of a decoder of usual proportions.",
    "activation_by_law": "Activations follow the law of plain decoders; this architecture was not traced.",
    "activation_unknown": "Activations of a pipeline depend on resolution and frames and are not counted.",
    "preallocates": "{engine} claims {share:.0%} of the device at start and fills what is left of it with cache; this is what the request "
    "needs. What fits, and the limits, are counted within that share.",
    "preallocates:rest": "{engine} fills {share:.0%} of what the model leaves of the device with cache at start; this is what the request "
    "needs. What fits, and the limits, are counted within that share.",
    "preallocates:computed": "{engine} fills the device with cache at start, but for what it keeps by the device's size for activations "
    "and graphs; this is what the request needs. What fits, and the limits, are counted without that reserve.",
    "device_runtime": "Memory of compiled programs on this kind of accelerator is not published and not counted.",
    "media_not_counted": "A text prompt is counted; pictures or sound in the prompt need more.",
    "one_prompt": "The whole context is taken as one prompt, the worst case for activations.",
    "layer_split": "Devices hold whole layers in turn; they add memory, not speed.",
    "training_assumed": "Training: AdamW, gradient checkpointing, no 8-bit or paged optimizer; LoRA of rank 16 on all plain matrices.",
    "attention_scores": "On this silicon torch before mid 2026 holds the scores of all tokens; the high value covers that.",
    "beyond_context_limit": "The model is limited to {limit_tokens} tokens: {counted_tokens} were counted.",
    "engine_cache_layout": "The engine lays out a kind of layer of this model in its own way; it is counted as transformers does.",
    "engine_state_dtype": "Recurrent states are counted in the dtype that transformers keeps; the engine has a setting of its own.",
    "engine_latent_build": "Latent attention is counted as builds of 2026 keep it; older builds expand it to full heads.",
}
_PREDICTION = {
    "extrapolated": "No measurement of {engine} on a card like {silicon} was published with its conditions; the ranges are wider for that.",
    "one_after_another": "{engine} puts layers on each of the {devices!s} devices, which work one after another: more memory, no more "
    "speed for one request.",
    "cpu_estimate": "Figures of CPUs are estimates of what a shared host gives, not of a datasheet.",
    "emulated_dtype": "{silicon} has no units for {precision} and emulates it, several times slower than fp16, which takes as much memory.",
    "emulated_dtype:converted": "{silicon} has no units for {precision}: it is converted, so it is no faster than {timed_as}.",
    "cache_unknown": "How this model's cache grows is not known; reading it is left out of the times.",
    "typical_model:speed": "Only a parameter count is known: sizes of a typical decoder are taken.",
    "static_batch": "The requests start together as one batch; this engine does not take new ones in between.",
    "does_not_fit:speed": "The weights take {needed_gib:.1f} GiB and there are {capacity_gib:.1f} GiB: this is how fast it would be if "
    "they fitted.",
    "does_not_fit:bill": "The model does not fit {hardware} in this configuration: /recommend tells what does.",
    "beyond_context": "Prompt and answer are {asked_tokens} tokens together; the model takes {limit_tokens}.",
    "no_encoder": "The model has no encoder: the {encoder_tokens} encoder tokens are not used.",
    "devices_unused": "{engine} does not split this model over {devices!s} devices, because its heads or widths do not divide by that: it "
    "starts on {degree!s}. Choose that many, or an engine that deals out whole layers.",
    "requests_wait": "Of {concurrency} requests about {running_requests:,.0f} run at once; the others wait for a place, which is in the "
    "time to the first token.",
    "picture_shape": "One picture or clip of {shape}, without torch.compile, on one device.",
    "engine_replaced:tpu": "On a TPU this is the figure of vllm-tpu; the engine that was asked for does not run there.",
    "engine_replaced:neuron": "On Inferentia and Trainium this is the figure of AWS Neuron; the engine that was asked for does not run "
    "there.",
    "processor_scaled": "The processor is not in the catalog; its figures are those of {size!s} virtual CPUs, scaled to {vcpu!s}.",
    "processor_scaled:part": "{silicon}: the figures of all {size!s} virtual CPUs, scaled to {vcpu!s}; bandwidth falls less than the "
    "cores do.",
    "rates_measured": "The speed is predicted from rates measured on this machine just now ({gb_per_s:.1f} GB/s, {gflop_per_s:.0f} "
    "GFLOP/s in {precision}), not from a datasheet; what else it does meanwhile makes a run slower.",
}
_BILL = {
    "price_unverified": "The price of {hardware} is from a secondary source of {checked}.",
    "deprecated": "{hardware} is on its way out since {since}: it may not be granted.",
    "plan_not_counted": "The plan itself ({account!s}, {usd_per_month!s} USD/month and user) is not counted.",
    "needs_plan": "Creating a Gradio or Docker Space on {hardware} needs PRO, Team or Enterprise.",
    "replicas_paid_only": "{hardware} runs as one replica: replicas need paid hardware.",
    "never_sleeps": "The sleep time is not used: nothing sleeps on {platform}.",
    "sleep_fixed:bill": "{hardware} sleeps after {hours} h without visits; that cannot be changed.",
    "traffic_not_stated": "No requests per day are stated, so it counts as awake all of its hours. With them, the cost shows what sleep "
    "saves.",
    "paused_outside_hours": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you pause it outside them or give it a "
    "sleep time: paid hardware does not sleep by itself, and left running it costs {left_running_usd_per_month}.",
    "paused_outside_hours:endpoints": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you pause it outside them or "
    "let it scale to zero: left running it costs {left_running_usd_per_month}.",
    "paused_outside_hours:tpu": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you delete it outside them: left "
    "running it costs {left_running_usd_per_month}.",
    "no_hours": "At 0 hours a day nothing runs and nothing is billed; the {requests_per_day:plain} requests a day are not served.",
    "startup_assumed": "Each wake counts {startup_s!s} s of billed start-up, an assumption: your Space's logs tell the real figure.",
    "cold_start": "Scaled to zero, it answers {status!s} while it starts, unless the request carries {header}.",
    "request_time_unknown": "How long a request takes is not known (no model, no speed estimate), so only sleep time and start-up keep it "
    "awake.",
    "too_little_capacity": "{replicas!s} replica(s) serve about {served:,} requests a day, {concurrency!s} at a time in {hours:plain} "
    "hours: {requests_per_day:,.0f} of {request_s} each need {replicas_needed:,} replicas, {usd_per_month} a month; the price of a request "
    "is that.",
    "one_at_a_time": "A million answer tokens cost {one_usd} with one request at a time, all of its time; {concurrency} at a time make it "
    "{usd}, with a first token after {ttft_s}.",
    "targets_missed": "No load keeps a first token within {ttft_s} and a token each {tpot_s} here, so no best price per million is given.",
    "prompt_price_unknown": "Of the provider only the price of answer tokens was stated; prompt tokens are counted as free there.",
    "replicas_of_visitors": "ZeroGPU has no replicas of the owner's: each visitor's call gets a GPU of its own.",
    "job_timeout": "A Job ends after {minutes!s} minutes unless a longer timeout is set.",
    "region_price": "Price of us-central1; other regions ask up to {usd_per_hour!s} USD per hour.",
}
_QUOTA = {
    "visitor_pays": "A call of {seconds:plain} s takes {request_quota_s:plain} s of the visitor's own quota ({quota_minutes:plain} "
    "minutes a day for the account '{account!s}'): {requests_per_visitor!s} such calls a day. The owner of the Space pays nothing for the "
    "GPU.",
    "quota_too_small": "A single call takes more than this account's whole daily quota.",
    "quota_spread": "{requests_per_day:plain} requests a day need the quota of at least {visitors!s} such visitors.",
    "no_overquota": "Beyond the quota this account waits for the next day; {accounts} can pay.",
    "overquota": "Beyond the quota each further call costs its visitor {usd_per_request}.",
}
_STORAGE = {
    "storage_elsewhere": "Storage is priced as on the Hub; Google Cloud bills its own disks besides.",
    "volume_rate": "From {from_tb!s} TB on the lower rate is taken for what lies above; if it covers everything, it costs less.",
    "storage_tier_retired": "The persistent-storage tier '{tier}' ({size_gb:f} GB for {last_usd_per_month!s} USD/month) is gone since "
    "{until}. Today a bucket holds the same: {usd_per_month:plain} USD/month for private data on this account, of which {included_gb:f} "
    "GB are included, then {usd_per_tb_month!s} USD/TB/month.",
}
_TIER = {
    "sleep_fixed": _SLEEP["sleep_fixed"],
    "sleep_not_documented": "When a Space on ZeroGPU sleeps is not documented: the platform may ignore a sleep time there.",
    "tier_unknown:sleep": "It is not known what {space} runs on, so whether its sleep time can be set is left to the platform.",
    "zerogpu_size": "'{size_id}' is a size, not a tier: the Space runs on {hardware}, and its function asks for it with size='{size}'.",
    "renamed": "{name} is called '{hardware}' today.",
}
CAVEATS: Mapping[str, str] = MappingProxyType(
    _MODEL | _FILES | _MEMORY | _PREDICTION | _BILL | _QUOTA | _STORAGE | _TIER | dict(gpu_tpu_words.CAVEATS) | dict(traffic_words.CAVEATS)
)

# Break-even points and ways to save.

WAYS = {
    "always_on": "running around the clock",
    "sleeping": "sleeping between requests",
    "zerogpu": "ZeroGPU (one visitor who makes all requests)",
    "per_token": "paying a provider per token",
}


def format_dollars(amount: Decimal) -> str:
    """Two places, more where the amount is small: 576.00 USD, 0.0032 USD."""
    if amount != 0 and abs(amount) < Decimal("0.1"):
        return f"{amount:.2g} USD"
    return f"{amount.quantize(Decimal('0.01'), rounding=ROUND_HALF_UP):,} USD"


def break_even_sentence(point: BreakEvenPoint) -> str:
    """Which of two ways is cheaper up to where."""
    below, above = WAYS[point.below], WAYS[point.above]
    if point.requests_per_day is None:
        if point.below == "sleeping":
            return f"{_capital(below)} costs less than {above} at any traffic."
        return f"{_capital(below)} never costs more than {above}."
    requests = point.requests_per_day.quantize(Decimal(1), rounding=ROUND_HALF_UP)
    where = f"up to about {requests:,} requests a day"
    beyond = _share_at_crossing(point)
    if point.usd_per_month is None:
        return f"{_capital(below)} is free {where}; this account cannot pay for more."
    if point.below == "sleeping" and point.above == "always_on":
        return f"{_capital(below)} saves more than a hundredth {where}; from there on it is awake nearly all the time."
    return f"{_capital(below)} costs less than {above} {where} ({format_dollars(point.usd_per_month)} a month there).{beyond}"


def _share_at_crossing(point: BreakEvenPoint) -> str:
    """How much of the hardware that traffic takes, where paying per token is one of the ways."""
    share, at_once = point.best_utilisation, point.best_concurrency
    if "per_token" not in {point.below, point.above} or share is None or at_once is None:
        return " That is more than this hardware serves, so it stays cheaper." if point.within_capacity is False else ""
    if share > 1:
        return f" That is more than this hardware serves even {at_once} at a time, so it stays cheaper."
    return f" Served {at_once} at a time, that is {100 * share:.0f} % of what this hardware serves."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


SAVING_NAMES = {
    "provider": "Pay per token",
    "zerogpu": "ZeroGPU",
    "more_at_once": "More requests at a time",
    "cheaper_tier": "A cheaper tier",
    "l4_over_a10g": "L4 instead of A10G",
    "fp8": "Weights in fp8",
    "int8": "Weights in eight bits",
    "int4": "Weights in four bits",
    "shorter_context": "A shorter context",
    "smaller_batch": "Fewer requests at a time",
    "cache_precision": "A smaller cache format",
    "sleep": "Sleep between requests",
    "development_tier": "A smaller tier while developing",
}
SAVING = {
    "provider": "Pay {provider} per token instead of renting hardware",
    "zerogpu": "Host it on ZeroGPU ({size}): visitors spend their own quota, {requests_per_visitor!s} such requests each a day",
    "more_at_once": "Serve {at_once!s} requests at a time with {engine} on {offer} instead of renting more replicas",
    "cheaper_tier": "Move to {offer}, which holds it as it is",
    "l4_over_a10g": "Take the L4 ({offer}) instead of the A10G: the same memory for less",
    "fp8": "Store the weights in fp8 ({precision}) and move to {offer}",
    "int8": "Store the weights in eight bits ({precision}) and move to {offer}",
    "int4": "Store the weights in four bits ({precision}) and move to {offer}",
    "shorter_context": "Hold {context_tokens!s} tokens of context and move to {offer}",
    "smaller_batch": "Serve {batch_size!s} at a time and move to {offer}",
    "cache_precision": "Keep the cache in {kv_precision} and move to {offer}",
    "sleep": "Let it sleep after {sleep_after_s:f} s without requests (it wakes {wakes_per_day:.1f} times a day)",
    "development_tier": "Develop on {offer} in four bits, {hours_per_month:f} hours a month (a working week, if you stated none)",
}
GAINS = {
    "compute": "On the same card it is faster too: it multiplies this format natively, and the work is bound by compute.",
    "bandwidth": "On the same card it makes tokens faster too: fewer bytes are read per token, and the engine reads the packed weights.",
    "memory_only": "It saves memory only: no speed is gained.",
}
SACRIFICES = {
    "provider": "Speed and limits are the provider's, and what is asked goes there.",
    "zerogpu": "Visitors wait for a free card and stop at their quota.",
    "more_at_once": "Each answer is written more slowly, as requests share the card.",
    "fp8": "Answers change a little.",
    "int8": "Answers change a little.",
    "int4": "Answers get measurably worse: try it on your own task.",
    "shorter_context": "Longer requests are refused.",
    "smaller_batch": "The others wait.",
    "cache_precision": "Answers change a little, most at long context.",
    "sleep": "The request that wakes it waits for the start-up.",
    "development_tier": "Only while you work on it; its answers are those of a four-bit model.",
}
"""What a way gives up, in words: no figure is claimed where none was measured."""
NO_SAVING = {
    "price_unknown": "no price per token is known",
    "traffic_not_stated": "it needs the requests per day",
    "not_for_this_account": "this account cannot host it",
    "not_on_this_platform": "it is not offered on this platform",
    "one_replica_serves": "one replica serves the traffic",
    "does_not_fit": "the model does not fit",
    "quota_too_small": "one request takes more than a visitor's daily quota",
    "none_holds_it": "no cheaper tier holds the model",
    "no_cheaper_tier": "it opens no cheaper tier",
    "already_as_small": "it is that small already",
    "costs_as_much": "it costs as much or more",
}


def saving_step(saving: Saving) -> str:
    """What to do, without what it saves."""
    offer = "" if saving.offer is None else saving.offer.id
    return SAVING[saving.code].format_map(_Shown({**saving.values, "offer": offer}))


def saving_effect(saving: Saving) -> str:
    """What it costs in quality and what it does to speed, "" for nothing."""
    effects = [SACRIFICES.get(saving.code, "")] + ([] if saving.gain is None else [GAINS[saving.gain]])
    ratio = saving.speed_ratio
    shown_ratio = ratio is not None and not (saving.gain == "memory_only" and ratio > 1)
    if shown_ratio and not 0.95 < (ratio or 1.0) < 1.05:  # noqa: PLR2004  a twentieth is within the datasheets' own error
        how = "By the datasheets it makes at most" if saving.ratio_is_bound else "A request is written at"
        times = "times the tokens per second" if saving.ratio_is_bound else "times today's tokens per second"
        effects.append(f"{how} {ratio:.2g} {times}.")
    return " ".join(effect for effect in effects if effect)


def no_saving_sentence(no_saving: NoSaving) -> str:
    """Why a way saves nothing here."""
    freed = "" if not no_saving.freed_bytes else f" It would free {no_saving.freed_bytes / GIB:.1f} GiB."
    return f"{_capital(NO_SAVING[no_saving.reason])}.{freed}"


def comparison_arithmetic(of: Comparison) -> list[str]:
    """The bills of both sides, their GPU-hours and the difference, one line each."""
    old, new, saved = of.before.usd_per_month, of.after.usd_per_month, of.saved_usd_per_month
    difference = f"{old:.2f} - {new:.2f} = {saved:.2f} USD/month; over {of.horizon_months} months {of.worth_usd:.2f} USD"
    return [*_side_arithmetic(of.before, of), *_side_arithmetic(of.after, of), difference]


def _side_arithmetic(side: Side, of: Comparison) -> tuple[str, str]:
    own, rate = side.configuration, f"{side.configuration.tokens_per_s:.6g}"
    replicas = f"⌈{of.tokens_per_s:.6g} / ({FULL_UTILISATION} · {rate} tokens/s)⌉ = {side.replicas}"
    return (
        f"{own.name}: {replicas} × {own.usd_per_hour} USD/h × {of.hours_per_month:f} h = {side.usd_per_month:.2f} USD/month",
        f"{own.name}: 10⁶ / (3600 · {rate}) · {own.devices} = {side.gpu_hours_per_million_tokens:.4g} GPU-hours per million tokens",
    )
