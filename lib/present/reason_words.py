"""The wording of reasons: what an offer holds, how fast, at what price, what stands in the way; and the stages of a Space.

`lib.present.sentences` says how a template is written and fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lib.present import gpu_tpu_words, solve_words, traffic_words

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
    "layers_on_host": "The GPU holds what -ngl {gpu_layers} puts on it; {host_bytes} lie in the memory of the processor, which computes "
    "them: it fits, and every token takes longer.",
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

SLEEP_TEMPLATES = {
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
    | SLEEP_TEMPLATES
    | dict(gpu_tpu_words.RULES)
    | dict(traffic_words.REASONS)
    | dict(solve_words.REASONS)
)
