"""The wording of the advisor's reasons, by code. Names in braces are values of the reason, already shown with their units."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_HOLDS = {
    "fits": "Holds it with {free_percent} % to spare: {needed_bytes} of {capacity_bytes} on the fullest device.",
    "fits_tightly": "Holds it, but tightly: {needed_bytes} of {capacity_bytes} on the fullest device leave {free_percent} %.",
    "working_room": "Of that, {bytes} are room for decoding the picture: what published pipelines of this kind need beyond their weights.",
    "quantized": "Only with weights in {bits} bits ({precision}): as stored, the model does not fit here with room to spare.",
    "no_bf16": "{silicon} does not compute in bf16, so the model runs in fp16.",
    "tensor_parallel": "{engine} splits every matrix over {devices} devices (tensor parallel).",
    "layer_split": "{engine} deals the layers out over {devices} devices; that adds memory, not speed.",
    "cards_unused": "Uses {devices} of its {count} devices.",
    "multi_host": "Spans {hosts} hosts, which have to be started and kept as one.",
    "runs_elsewhere": "The model runs at a provider; this hardware only serves the page.",
}
_SPEED = {
    "speed_bound": "At most {tokens_per_s} for each request, since every token takes one read of the weights ({basis}). "
    "A bound, not a prediction.",
    "cpu_enough:generate": "A CPU is enough: up to {tokens_per_s} (from {limit_tokens_per_s} on it counts as usable here), and the first "
    "token after {seconds} at best.",
    "cpu_enough:encode": "A CPU is enough: one pass of 512 tokens takes {seconds} at best (up to {limit_s} counts as usable here).",
    "cpu_enough:speech": "A CPU is enough: half a minute of sound takes {seconds} at best.",
    "cpu_too_slow:generate": "Too slow on {vcpu} virtual CPUs: at best {tokens_per_s} (from {limit_tokens_per_s} on it counts as usable "
    "here) and the first token after {seconds} (up to {limit_s}).",
    "cpu_too_slow:encode": "Too slow on {vcpu} virtual CPUs: one pass of 512 tokens takes {seconds} at best (up to {limit_s} counts as "
    "usable here).",
    "cpu_too_slow:speech": "Too slow on {vcpu} virtual CPUs: half a minute of sound takes {seconds} at best, longer than it lasts.",
    "cpu_too_slow:draw": "Too slow on {vcpu} virtual CPUs: even 32 cores take {seconds} for one small picture with Stable Diffusion 1.5.",
    "cpu_speed_unknown": "No figures are known for a machine of {vcpu} virtual CPUs, so nothing can be promised.",
    "too_slow": "At most {tokens_per_s} for each request, even at full memory bandwidth; {wanted_tokens_per_s} were asked for.",
}
_TRAFFIC = {
    "traffic_exceeds": "At best {served} requests a day with {concurrency} at a time, of 512 tokens in and 256 out: {requests_per_day} "
    "need more at the same time, or faster hardware.",
}
_PRICE = {
    "free": "Free of charge.",
    "price": "{usd_per_hour} an hour, {usd_per_month} a month ({days} days of {hours} hours).",
    "price:idle": "{usd_per_hour} an hour; at 0 hours a day nothing is billed.",
    "price_unverified": "This price was not read from the platform's own page (state of {checked}): check it before you rely on it.",
    "over_budget": "{usd_per_month} a month of {days} days is above the budget of {limit_usd}.",
}
_PLATFORM = {
    "needs_credits": "Needs a payment method and prepaid credits; billed by the minute while starting or running, used or not.",
    "needs_subscription": "An Inference Endpoint: needs an active subscription or credits; it can scale to zero when idle.",
    "needs_cloud_account": "Rented from Google Cloud, outside Hugging Face: needs an account, quota and a set-up of your own.",
    "needs_allowlist": "Google admits customers to this hardware one by one.",
    "gradio_only": "Takes Gradio Spaces only.",
    "sleeps": "Falls asleep after 48 hours without a visitor; that cannot be changed.",
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
    "zerogpu_quota": "Visitors pay with their own daily quota, {quota_s} of GPU for an account of this kind ({account}). One request takes "
    "{request_quota_s} of it at least, so that one visitor has {requests_per_visitor} requests a day at most, and "
    "{requests_per_day} requests need {visitors} visitors at least.",
    "zerogpu_quota_unknown": "Visitors pay with their own daily quota, {quota_s} of GPU for an account of this kind ({account}): "
    "{default_calls} calls of the default {default_duration_s}. How long one request takes is not known.",
    "zerogpu_no_quota_used": "A Space that never calls the GPU uses none of its visitors' quota.",
    "quota_too_small": "{requests_per_day} requests a day use up the daily quota ({quota_s}, {account} account) of at least {visitors} "
    "visitors, at {request_quota_s} or more each. ZeroGPU is for less: up to {most_visitors} visitors' worth counts as light traffic here.",
    "quota_too_small:one": "One request takes {request_quota_s} of quota at least; a visitor has {quota_s} a day ({account} account).",
    "zerogpu_xlarge": "Declare size={size}: a whole card, at {multiplier} times the quota.",
    "zerogpu_declare_size": "Declare size={size}: without it, more than {limit_bytes} of weights (here {weight_bytes}) make the calls "
    "xlarge, at twice the quota.",
    "zerogpu_long_call": "One call takes about {seconds}, more than the default of {default_s}: declare a longer duration. "
    "Visitors with less quota left than that are turned away.",
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
    "picked_balanced": "Chosen for giving up the least, then for the price: as stored, on one device, with a tenth to spare comes first.",
    "picked_cheapest": "Chosen for the lowest price that does it.",
    "picked_fastest": "Chosen for the highest speed that a datasheet allows.",
    "speed_is_a_bound": "Speeds are upper bounds from datasheets, to compare hardware and to rule out what cannot be quick enough; real "
    "engines reach 25 to 90 % of them, and the exchange between devices is left out.",
    "rate_not_judged": "This kind of work has no tokens per second, so the wanted rate was not judged.",
    "account_needed": "Hosting or renting anything needs an account.",
}
SENTENCES: Mapping[str, str] = MappingProxyType(_HOLDS | _SPEED | _TRAFFIC | _PRICE | _PLATFORM | _ZEROGPU | _REFUSED | _PROVIDER | _NOTES)
