"""The wording of the advisor's reasons, by code. Names in braces are values of the reason, already shown with their units."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lib.present.right_size_sentences import RIGHT_SIZE

_HOLDS = {
    "fits": "{free_percent} % of its memory stays free: {needed_bytes} of {capacity_bytes} used.",
    "fits_tightly": "Tight: {needed_bytes} of {capacity_bytes} used, {free_percent} % stays free.",
    "working_room": "Of that, {bytes} are for decoding pictures, as published pipelines need.",
    "quantized_sibling": "In {bits} bits ({precision}), made from the unquantized checkpoint, not from this one.",
    "unpacked": "Unpacked to {precision}: {silicon} has no units for the stored format.",
    "quantized": "Only in {bits} bits ({precision}): as stored it does not fit comfortably.",
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
    "too_slow": "About {tokens_per_s} per request; {wanted_tokens_per_s} were asked for.",
}
_TRAFFIC = {
    "traffic_exceeds": "Serves about {served} requests a day at {concurrency} at a time; {requests_per_day} are expected.",
}
_PRICE = {
    "free": "Free of charge.",
    "free:gradio": "Free of charge; Gradio Spaces only.",
    "price": "{usd_per_hour} an hour, {usd_per_month} a month ({days} days of {hours} hours).",
    "price:idle": "{usd_per_hour} an hour; at 0 hours a day nothing is billed.",
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
    "zerogpu_no_quota_used": "A Space that never calls the GPU uses none of its visitors' quota.",
    "quota_too_small": "{requests_per_day} requests a day, about {request_quota_s} of quota each, use up that of {visitors} visitors "
    "({quota_s} a day, {account} account). Up to {most_visitors} counts as light traffic here.",
    "quota_too_small:one": "One request takes about {request_quota_s} of quota; a visitor has {quota_s} a day ({account} account).",
    "zerogpu_xlarge": "Declare size={size}: a whole card, at {multiplier} times the quota.",
    "zerogpu_declare_size": "Declare size={size}: weights above {limit_bytes} otherwise make calls xlarge, at twice the quota.",
    "zerogpu_long_call": "A call takes about {seconds}, above the default {default_s}: declare a longer duration.",
}
_REFUSED = {
    "too_small": "Too small: even in {precision} it needs {needed_bytes} on the fullest device, which has {capacity_bytes}.",
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
    "nothing_fits": "Nothing on the chosen platforms does it; the rejected entries say why. Try more platforms, a larger budget, a shorter "
    "context or a smaller precision.",
    "picked_balanced": "Chosen for giving up the least (as stored, one device, a tenth to spare), then for the price.",
    "picked_cheapest": "Chosen for the lowest price that does it.",
    "picked_fastest": "Chosen for the highest predicted speed.",
    "speed_is_predicted": "Speeds are predictions for {prompt_tokens} tokens in and {output_tokens} out, {concurrency} at a time; each has "
    "its range.",
    "speed_is_a_bound": "Speeds are upper bounds from datasheets, to compare hardware and to rule out what cannot be quick enough; real "
    "engines reach 25 to 90 % of them, and the exchange between devices is left out.",
    "rate_not_judged": "This kind of work has no tokens per second, so the wanted rate was not judged.",
    "account_needed": "Hosting or renting anything needs an account.",
}
SENTENCES: Mapping[str, str] = MappingProxyType(
    _HOLDS | _SPEED | _TRAFFIC | _PRICE | _PLATFORM | _ZEROGPU | _REFUSED | _PROVIDER | _NOTES | dict(RIGHT_SIZE)
)
