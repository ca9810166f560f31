"""The wording of reasons: what an offer holds, how fast, at what price, what stands in the way; and the stages of a Space.

`lib.present.sentences` says how a template is written and fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lib.present.batch_words import BATCH
from lib.present.latency_words import LATENCY

_HOLDS = {
    "fits": "{free_percent} % of its memory is free: {needed_bytes} of {device_bytes} used.",
    "fits:claim": "{free_percent} % of its memory is free: {needed_bytes} of {device_bytes} used; the engine uses up to {capacity_bytes}.",
    "fits_tightly": "Tight: {needed_bytes} of {device_bytes} used, {free_percent} % is free.",
    "fits_tightly:claim": "Tight: {needed_bytes} of {device_bytes} used, {free_percent} % is free; the engine uses up to {capacity_bytes}.",
    "fits:nearly_full": "{free_percent} % of its memory is free, but only {free_bytes} of the {capacity_bytes} that the engine uses: "
    "longer prompts, more requests or a release that takes more at start may not fit.",
    "fits_tightly:nearly_full": "Tight: {needed_bytes} of {device_bytes} used, and only {free_bytes} of the {capacity_bytes} that the "
    "engine uses is left.",
    "working_room": "Of that, {bytes} are for decoding pictures, as published pipelines need.",
    "cache_counted": "Counted with a KV cache for {requests} × {tokens} tokens: {cache_bytes}.",
    "cache_counted:fits": "Counted with a KV cache for {requests} × {tokens} tokens: {cache_bytes}. The full {concurrency} × {full_tokens} "
    "tokens take {full_cache_bytes} and fit too ({full_bytes} of {capacity_bytes}).",
    "cache_counted:waits": "Counted with a KV cache for {requests} × {tokens} tokens: {cache_bytes}. The full {concurrency} × "
    "{full_tokens} tokens take {full_cache_bytes} and do not fit ({full_bytes} of {capacity_bytes}): {requests_held} such requests fit "
    "at the same time, others wait.",
    "full_length_on": "{name} ({usd_per_month} a month) holds all of them at full length.",
    "quantized_sibling": "In {bits} bits ({precision}), made from the unquantized checkpoint, not from this one.",
    "quantized_sibling:converted": "Converted to {precision}, a file of the engine's own.",
    "unpacked": "Unpacked to {precision}: {silicon} has no units for the stored format.",
    "quantized": "In {bits} bits ({precision}): weights of more bits do not fit.",
    "quantized:tight": "In {bits} bits ({precision}): weights of more bits leave less than 10 % of its memory free.",
    "quantized:usable": "In {bits} bits ({precision}), which is faster; weights of more bits fit too, and are usable.",
    "quantized:slow": "In {bits} bits ({precision}): weights of more bits are too slow to use.",
    "quantized:comfortable": "In {bits} bits ({precision}), which is faster; weights of more bits fit too.",
    "quantized:refused": "In {bits} bits ({precision}): at higher precision it misses your limits.",
    "quantized:untried": "In {bits} bits ({precision}), the least compressed form that is tried with this engine and hardware.",
    "quantized:replicas": "In {bits} bits ({precision}), so that one machine serves more; weights of more bits fit too.",
    "quantize_ahead": "ZeroGPU lends no card while the app loads: load a checkpoint that was quantized to {precision} ahead. The package "
    "spaces (0.51.3) asks for bitsandbytes 0.46 or newer.",
    "checkpoint": "{precision} needs a checkpoint quantized that way (availability not checked).",
    "checkpoint:found": "Published quantized: {repository} (for {precision}).",
    "checkpoint:none": "{precision} needs a checkpoint quantized that way; the Hub lists none for this model, so quantize it first.",
    "halved": "The 32-bit checkpoint is loaded in {precision}, which hardly changes its answers.",
    "needs_docker": "Needs a Docker Space: {engine} is a server of its own.",
    "engine_untested": "Untested: {engine} {version} does not list {architecture}; it would try the modelling code of transformers.",
    "no_bf16": "{silicon} does not compute in bf16, so the model runs in fp16.",
    "tensor_parallel": "{engine} splits every matrix over {devices} devices.",
    "layer_split": "{engine} puts whole layers on each of {devices} devices: more memory, no more speed.",
    "layers_on_host": "The GPU holds {gpu_layers} layers (-ngl {gpu_layers}); {host_bytes} stay in host memory, where the CPU "
    "computes them: it fits, but every token takes longer.",
    "cards_unused": "Uses {devices} of its {count} devices.",
    "multi_host": "Spans {hosts} hosts, which start and stop together.",
    "runs_elsewhere": "The model runs at a provider; this hardware only serves the page.",
}
_SPEED = {
    "speed": "About {tokens_per_s} per request, time to first token {seconds}; {bound}.",
    "app_batches": "This counts on the app to run {concurrency} requests as one batch (Gradio: batch=True).",
    "request_speed": "About {seconds} per request; {bound}.",
    "sound_speed": "About {seconds} for {sound_s} of sound, {times:,.3g} times real time; {bound}.",
    "speed_bound": "At most {tokens_per_s} per request: a bound ({basis}), not a prediction.",
    "cpu_enough:generate": "A CPU is enough: {limit_tokens_per_s} and a time to first token of {limit_s} count as usable.",
    "cpu_enough:encode": "A CPU is enough: a pass within {limit_s} counts as usable.",
    "cpu_enough:speech": "A CPU is enough: {limit_s} of sound takes about {seconds}.",
    "cpu_too_slow:generate": "Too slow on {vcpu} virtual CPUs: about {tokens_per_s}, time to first token {seconds}. Usable is "
    "{limit_tokens_per_s} and {limit_s}.",
    "cpu_too_slow:encode": "Too slow on {vcpu} virtual CPUs: one pass takes about {seconds}; usable is {limit_s}.",
    "cpu_too_slow:speech": "Too slow on {vcpu} virtual CPUs: {limit_s} of sound takes about {seconds}.",
    "cpu_too_slow:draw": "Too slow on {vcpu} virtual CPUs: even 32 cores take {seconds} for one small picture with Stable Diffusion 1.5.",
    "cpu_speed_unknown": "No figures are known for a machine of {vcpu} virtual CPUs, so nothing can be promised.",
    "context_too_short": "Reads at most {limit_tokens} tokens; {asked_tokens} were asked for.",
    "too_slow": "About {tokens_per_s} per request; {wanted_tokens_per_s} were asked for.",
    "first_token_late": "Time to first token about {ttft_s}; at most {wanted_s} was asked for.",
    "below_comfortable:tokens_per_s": "Usable: about {expected_tokens_per_s} for each request, {low_end_tokens_per_s} at the low end; "
    "comfortable from {limit_tokens_per_s}.",
    "below_comfortable:ttft_s": "Usable: the first token comes after about {expected_s}, {low_end_s} at the high end; comfortable within "
    "{limit_s}.",
    "below_comfortable:request_s": "Usable: a request takes about {expected_s}, {low_end_s} at the high end; comfortable within {limit_s}.",
    "below_comfortable:share_of_sound": "Usable: about {expected_s} for each second of sound, {low_end_s} at the high end; comfortable "
    "within {limit_s}.",
    "below_usable:tokens_per_s": "Slow: about {expected_tokens_per_s} for each request; usable from {limit_tokens_per_s}.",
    "below_usable:ttft_s": "The first token comes after about {expected_s}; usable within {limit_s}.",
    "below_usable:request_s": "Slow: a request takes about {expected_s}; usable within {limit_s}.",
    "below_usable:share_of_sound": "Slow: about {expected_s} for each second of sound; usable within {limit_s}.",
}
_TRAFFIC = {
    "traffic_exceeds": "Serves about {served} requests a day ({concurrency} concurrent, filled to {used_percent} %); {requests_per_day} "
    "are expected, and it cannot have replicas.",
    "traffic_exceeds:own": "Serves about {served} requests a day ({concurrency} concurrent, filled to {used_percent} %). The "
    "{requests_per_day} that are expected take {replicas} such machines.",
    "traffic_in_flight": "{requests_per_day} requests a day mean {concurrency} concurrent requests, which it serves filled to at "
    "most {used_percent} %; speed and memory are for that load.",
    "replicas_needed:together": "One replica serves {concurrency} concurrent requests; {together} are expected: {replicas} "
    "replicas, each billed.",
    "replicas_needed": "One replica serves about {served} requests a day ({concurrency} concurrent, filled to {used_percent} %: fuller "
    "ones make requests wait); {requests_per_day} are expected: {replicas} replicas, each billed.",
}
_PRICE = {
    "free": "Free of charge.",
    "free:gradio": "Free of charge; Gradio Spaces only.",
    "price": "{usd_per_hour} an hour, {usd_per_month} a month ({days} days of {hours} hours).",
    "price:idle": "{usd_per_hour} an hour; at 0 hours a day nothing is billed.",
    "price:replicas": "{usd_per_hour} an hour each, {usd_per_month} a month for {replicas} of them ({days} days of {hours} hours).",
    "paused_outside_hours:sleeps": "Paid hardware never sleeps by itself: it costs {usd_per_month} a month unless it is paused outside "
    "its {hours} hours a day or given a sleep time.",
    "paused_outside_hours:scales_to_zero": "It costs {usd_per_month} a month unless it is paused or scaled to zero outside its "
    "{hours} hours a day.",
    "price_asleep:sleeps": "With a sleep time of {sleep_after_s:span} it costs about {usd_per_month} a month at this traffic. It starts "
    "about {wakes_per_day:.1f} times a day, and the request that finds it asleep waits about {start_s:span} for {file_bytes} of files to "
    "be fetched and loaded.",
    "price_asleep:scales_to_zero": "Scaled to zero after {sleep_after_s:span} without requests, it costs about {usd_per_month} a month "
    "at this traffic. It starts about {wakes_per_day:.1f} times a day, and the request that finds it asleep waits about {start_s:span} "
    "for {file_bytes} of files to be fetched and loaded.",
    "start_limit": "Fetching and loading {file_bytes} takes about {start_s:span}, and a Space has {limit_s:span} to start: set "
    "startup_duration_timeout in its README.md.",
    "price_old": "This price was read on {checked}, {days} days ago: check it before you rely on it.",
    "price_unverified": "This price was not read from the platform's own page (state of {checked}): check it before you rely on it.",
    "over_budget": "{usd_per_month} a month of {days} days is above the budget of {limit_usd}.",
}
_PLATFORM = {
    "needs_credits": "Needs prepaid credits; billed by the minute while it runs, used or not.",
    "why_not_free": "Why not {name}, which is free: {why}",
    "needs_subscription": "An Inference Endpoint: needs an active subscription or credits; it can scale to zero when idle.",
    "needs_cloud_account": "Rented from Google Cloud, outside Hugging Face: needs an account, quota and a set-up of your own.",
    "needs_allowlist": "Google admits customers to this hardware one by one.",
    "gradio_only": "Takes Gradio Spaces only.",
    "sleeps": "It sleeps after 48 hours without a visit; that is fixed.",
    "jobs_time_limit": "A Job, not a Space: it stops after {minutes} minutes unless told otherwise, and exposing a port costs "
    "{ports_usd_per_hour} an hour, which the month holds where requests come.",
    "cpu_basic_needs_plan": "New Gradio and Docker Spaces on the free CPU are for PRO, Team and Enterprise accounts; with this one "
    "({account}) the platform answers 402.",
    "implausible_price": "The live list added it at {usd_per_hour} an hour, far from what its hardware costs elsewhere, "
    "so it is never chosen.",
    "retired": "No longer offered.",
    "retired:since": "No longer offered since {since}.",
    "memory_unknown": "Its memory is not published, so nothing can be promised.",
}
DURATION_FACTOR_ASSUMED = (
    "The time used is counted {factor} times on the default size, as package spaces 0.51.3 counts declared seconds: an assumption; the "
    "documentation gives that size as 1 times."
)
ZEROGPU_RESERVATION = (
    "A call reserves what it declares ({default_s} × {factor} on half a card if it declares nothing): above what is "
    "left of the visitor's quota it is refused before credits engage (users' reports, not documented, read 2026-11-22). More than "
    "{limit_bytes} of weights on the GPU at the start turn an undeclared size into xlarge, a whole card at {multiplier} times the quota; "
    "the Hub's page does not show it."
)
_ZEROGPU = {
    "zerogpu_gradio_only": "ZeroGPU takes Gradio Spaces only; this one is built with {sdk}.",
    "zerogpu_needs_account": "Hosting on ZeroGPU needs an account; a free one may host {free_spaces} such Spaces.",
    "zerogpu_quota": "Works if the {requests_per_day} requests a day come from {visitors} or more visitors: each has a quota of {quota_s} "
    "a day ({account}), and a request takes about {request_quota_s} of it.",
    "zerogpu_quota:runs": "Works if the {requests_per_day} requests a day come from {visitors} or more visitors: each gets about "
    "{requests_per_visitor} runs a day (reported by users, not documented; {account}: {quota_s} of quota, about {request_quota_s} a "
    "request).",
    "zerogpu_quota:stated": "Your {visitors_per_day} visitors a day can make {requests_per_visitor} requests each, so their quota carries "
    "{requests_per_day} requests ({account}: {quota_s} a day, about {request_quota_s} a request).",
    "zerogpu_quota_unknown": "Visitors spend their own quota ({account}: {quota_s} a day); the time of a request is not known.",
    "zerogpu_crowd": "{concurrency} concurrent requests are at least as many visitors, each waiting for a slice of the shared GPUs. Up to "
    "{most_visitors} count as light traffic here.",
    "zerogpu_hosting": "A free account may host {spaces} such Spaces ({conditions}).",
    "zerogpu_reservation": ZEROGPU_RESERVATION,
    "zerogpu_runs_reported": "Runs are limited too: users report {runs} a day for a visitor ({account}); this is not documented.",
    "zerogpu_duration_factor_assumed": DURATION_FACTOR_ASSUMED,
    "zerogpu_visitors_own_plan": "Visitors are counted as {account} accounts, as nothing else was stated. Those of a public Space mostly "
    "have a free account ({free_s} a day) or none ({anonymous_s} a day).",
    "zerogpu_beyond": "Beyond the quota a visitor with a {account} account pays about {usd_per_request} a request ({usd_per_gpu_hour} a "
    "GPU hour, from prepaid credits).",
    "zerogpu_beyond:closed": "Beyond the quota a visitor waits for the next day: only {accounts} accounts can pay for more, "
    "{usd_per_gpu_hour} a GPU hour.",
    "zerogpu_no_quota_used": "A Space that never calls the GPU uses none of its visitors' quota.",
    "quota_too_small:stated": "{requests_per_day} requests a day need {visitors} visitors, and you state {visitors_per_day}: each can "
    "make {requests_per_visitor} a day ({account}: {quota_s} of quota, about {request_quota_s} a request).",
    "quota_too_small:few": "A visitor could make only {requests_per_visitor} requests a day ({account}: {quota_s} of quota, about "
    "{request_quota_s} a request), so {visitors} visitors would have to spend all of it.",
    "zerogpu_busy": "{requests_per_day} requests take {gpu_s} of GPU time a day. Above {most_gpu_s} calls would wait in the queue of the "
    "shared GPUs.",
    "quota_too_small:one": "One request takes about {request_quota_s} of quota; a visitor has {quota_s} a day ({account} account).",
    "zerogpu_xlarge": "Declare size={size}: a whole card, at {multiplier} times the quota.",
    "zerogpu_declare_size": "Declare size={size}: weights above {limit_bytes} otherwise make calls xlarge, at twice the quota.",
    "zerogpu_long_call": "A call takes about {seconds}, above the default {default_s}: declare a longer duration.",
}
_REFUSALS = {
    "too_small": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest device, "
    "which has {capacity_bytes}: {missing_bytes} are missing.",
    "too_small:context": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest "
    "device, which has {capacity_bytes}. With {fits_tokens} tokens of context it fits (concurrent requests: {at_once}).",
    "too_small:batch": "Too small: in {precision} with {engine}, the nearest that was tried, it needs {needed_bytes} on the fullest "
    "device, which has {capacity_bytes}. It fits with {fits_at_once} concurrent requests.",
    "engine_needs_docker": "{engine} is a server: in a Gradio Space on {offer} runs {others}. A Docker Space can run it.",
    "engine_not_here": "{engine} does not run this on {offer}; what does: {others}.",
    "sparse_attention": "Its sparse attention is not known to run on {silicon}: vLLM and SGLang need Hopper or data-centre Blackwell "
    "(H100, H200, B200).",
    "engine_form": "{engine} does not load {precision}.",
    "host_too_small": "With offload={offload}, {host_bytes} of the model are kept in host memory, and its host has {ram_bytes} for that.",
    "disk_too_small": "The download of {download_bytes} does not fit its disk of {disk_bytes}.",
    "dtype_missing": "{silicon} does not compute in {precision}.",
    "no_engine": "No engine known here runs this kind of work ({family}) in this form on {silicon}.",
}
_PROVIDER = {
    "provider_task_not_served": "Inference Providers do not sell {task} per token.",
    "provider_unknown": "If a provider serves the model, no GPU is needed: you pay for what you use, with {credit_usd} of credit a month "
    "({account} account). (Availability not checked.)",
    "provider_live": "Needs no GPU: {providers} serve it today, at their own price without a markup; {credit_usd} of credit a month come "
    "with the account ({account}).",
    "provider_none": "No provider serves this model today.",
}
_NOTES = {
    "context_clamped": "The model is limited to {limit_tokens} tokens: those are counted, not the {asked_tokens} asked for.",
    "nothing_fits": "Nothing on the chosen platforms runs this workload; the rejected entries say why. Try more platforms, a larger "
    "budget, a shorter context or a smaller precision.",
    "near_miss:budget": "Closest by price: {name} runs it for {usd_per_month} a month.",
    "near_miss:context": "Closest by memory: {name} runs it with {fits_tokens} tokens of context (concurrent requests: {at_once}).",
    "near_miss:batch": "Closest by memory: {name} runs it with {fits_at_once} concurrent requests.",
    "near_miss:speed": "Closest by speed: {name} writes about {tokens_per_s}, and its first token comes after {ttft_s}.",
    "near_miss:rate": "Closest by speed: {name} writes about {tokens_per_s}.",
    "near_miss:format": "{name} costs nothing and runs it in {precision} with {engine}: leave precision and engine on auto.",
    "context_raised": "The stated request is longer than the context of {asked_tokens} tokens: memory is planned for {held_tokens}.",
    "first_token_not_judged": "The time to the first token is not predicted for this work, so its limit was not checked.",
    "picked_balanced": "The lowest price among hardware that is fast enough and keeps 10 % of its memory free. Original precision is "
    "preferred: FP8 weights count as 1.2 times the price, other 8-bit weights as twice, 4-bit weights as two and a half times, several "
    "machines as one and a half.",
    "picked_balanced:usable": "The lowest price among hardware that keeps 10 % of its memory free, weighed by precision. Its speed is "
    "usable; hardware of comfortable speed costs more, needs weights of fewer bits or several machines.",
    "picked_balanced:cpu": "A CPU that is fast enough and costs less than every GPU. ZeroGPU runs it too and costs its owner nothing, but "
    "its visitors queue and spend a daily quota; priority=cheapest picks it.",
    "picked_balanced:short": "Nothing that fits is both fast enough and keeps 10 % of its memory free: of what does most of that, the "
    "lowest price, weighed by precision.",
    "picked_cheapest": "The lowest price that runs this workload.",
    "picked_fastest": "The lowest price within {within_percent} % of the highest predicted speed: smaller differences are below the error "
    "of the predictions.",
    "speed_is_predicted": "Speeds are predictions for {prompt_tokens} prompt and {output_tokens} output tokens (concurrent requests: "
    "{concurrency}); each has a range.",
    "speed_is_a_bound": "Speeds are upper bounds from datasheets, to compare hardware and to rule out what cannot be quick enough; real "
    "engines reach 25 to 90 % of them, and the exchange between devices is left out.",
    "rate_not_judged": "This kind of work has no tokens per second, so the minimum speed was not checked.",
    "account_needed": "Hosting or renting anything needs an account.",
}
_RIGHT_SIZE = {
    "stay": "Stay on {current}: it is the pick for this model and workload.",
    "stay_does_it": "Stay on {current}: it runs this workload with room to spare. For a new Space {pick} would be the pick.",
    "stay_declare_size": "The tier stays the same; its functions have to declare the size of {size}.",
    "saves": "Moving from {current} to {pick} saves {usd_per_month} a month.",
    "costs_more": "Moving from {current} to {pick} costs {usd_per_month} a month more.",
    "costs_the_same": "{pick} costs the same as {current}.",
    "current_does_not_do_it": "{current} cannot run this workload; {pick} can.",
    "current_not_judged": "{current} is not among the tiers offered today, so it was not judged.",
    "pick_keeps_precision": "{current} runs it only with more compressed weights than {pick}.",
    "pick_has_room": "{current} runs it with less than 10 % of its memory free; {pick} leaves room.",
    "pick_is_faster": "{current} runs it too; {pick} is faster.",
    "pick_ranks_first": "{current} runs it too; {pick} ranks higher for the chosen priority.",
    "pick_elsewhere": "{pick} is hardware of {platform}, not a tier of a Space: moving there is more than a switch.",
    "move_changes_code": "Its code changes: a Gradio Space, import spaces, the model on cuda at import, and @spaces.GPU with size={size} "
    "and a duration above the {seconds} of a call on each function that uses the GPU. Servers such as vLLM and torch.compile do not run "
    "there.",
    "move_changes_visits": "For visitors it changes too: each spends a daily quota ({account}: {quota_s}; signed out: {anonymous_s}), "
    "waits for a free GPU, and is refused after {wait_s} in that queue.",
    "nothing_else_fits": "{current} runs it; nothing on the chosen platforms does.",
    "nothing_fits_here": "Neither {current} nor anything on the chosen platforms runs it; the rejected entries say why.",
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
    "faster": "A replica makes {ratio:.3g} times the output tokens per second.",
    "slower": "A replica makes {ratio:.3g} times the output tokens per second: it is slower.",
    "cheaper_full": "At full load, a million output tokens cost {after_usd} instead of {before_usd}.",
    "dearer_full": "At full load, a million output tokens cost {after_usd}, up from {before_usd}.",
    "replicas": "The traffic takes {after} replica(s) instead of {before}.",
}
_SMALLER_RUN = {
    "bf16_fits": "In bf16 it takes {total_gib:,.2f} GiB and fits.",
    "shorter_prompt_fits": "A prompt of {prompt_tokens} tokens would fit.",
    "smaller_model_fits": "In bf16, a model of up to about {billions:,.1f} billion parameters fits here. Name a smaller one.",
}
_SOLVE = {
    "limited:memory": "More would not fit in the memory of a device.",
    "limited:memory_none": "Not even one fits in the memory of a device.",
    "limited:model": "The model's own limit.",
    "limited:engine": "The limit of {engine!s} (max_num_seqs); more requests would wait in its queue.",
    "limited:ttft": "More would take longer than {max_ttft_s} to the first token (predicted).",
    "limited:ttft_none": "Even one takes longer than {max_ttft_s} to the first token (predicted).",
    "limited:speed": "With more, each request would get fewer than {min_tokens_per_s} (predicted).",
    "limited:speed_none": "Even one gets fewer than {min_tokens_per_s} (predicted).",
    "limited:zerogpu": "On ZeroGPU each call has its own GPU.",
    "limited:nothing": "No known limit.",
    "memory_saving:precision": "Weights in {precision!s}",
    "memory_saving:cache_precision": "Cache in {kv_precision!s}",
    "memory_saving:shorter_context": "Half the context: {context_tokens:,} tokens",
    "memory_saving:fewer_requests": "Half the concurrent requests: {concurrency:,}",
    "memory_saving:kernel": "Fused attention (torch of mid 2026 or later, an engine with its own kernels, or an Ampere or newer GPU): "
    "without it attention scores stay in memory, which the high end of the estimate counts",
    "memory_saving:offload": "Offload {offload_bytes} of the weights to host memory",
    "memory_saving:layers_on_host": "Run {host_layers} of the layers on the CPU (-ngl {gpu_layers!s})",
    "memory_saving:more_devices": "More devices: {hardware!s}",
}
_PRICES = "A million output tokens cost {tpu_usd} on {tpu!s} ({commitment}, {region!s}) and {gpu_usd} on {gpu!s} (list price)."
GPU_TPU_RULES = {
    "framework_jax": "JAX is compiled by XLA on every device, so the program runs on a TPU unchanged.",
    "framework_pytorch": "PyTorch trains on a TPU through torch_tpu, which is in beta and will replace PyTorch/XLA.",
    "framework_tensorflow": "Not every TensorFlow operation runs on a TPU, and TPU7x does not run TensorFlow at all.",
    "shapes_every_step": "Each new shape is compiled again: the first start of vLLM on TPU compiles for {first_minutes}, "
    "a later one, with its cache, for about {cached_minutes}.",
    "shapes_buckets": "Each bucket of shapes is compiled once, and inputs are padded to it: the first start of vLLM on TPU "
    "takes {first_minutes}, a later one, with its cache, about {cached_minutes}.",
    "shapes_never": "Shapes that never change are compiled once, which suits a TPU's matrix units.",
    "kernels_cuda": "CUDA kernels do not run on a TPU: each has to be rewritten in Pallas or as plain operations.",
    "kernels_triton": "Triton kernels do not run on a TPU: each has to be rewritten in Pallas or as plain operations.",
    "kernels_pallas": "Custom kernels for TPUs are written in Pallas.",
    "control_flow_irregular": "TPUs are not suited to programs that branch often on their data.",
    "sparsity_unstructured": "Element-wise work on unstructured zeros leaves a TPU's matrix units idle.",
    "embeddings_very_large": "TPUs have SparseCores for the very large embedding tables of ranking and recommendation.",
    "place_on_prem": "Cloud TPUs exist in Google's data centres only; GPUs can be bought.",
    "place_outside_gcp": "TPUs are rented out by Google Cloud only.",
    "place_edge": "Cloud TPUs are not sold for the edge (the Edge TPU is another chip, for small int8 models).",
    "place_multi_cloud": "GPUs are rented out by every cloud, TPUs by one.",
    "place_regulated": "Rules on where data may be stored leave fewer places to choose from, and TPUs are offered in fewer regions.",
    "place_on_gcp": "The data and the accounts are at Google Cloud already, where TPUs are.",
    "precision_fp64": "No TPU computes in FP64.",
    "precision_fp32": "TPUs multiply in bf16 and are not suited to high-precision arithmetic.",
    "precision_fp4": "No TPU of this catalog computes in FP4; Blackwell GPUs do.",
    "chips_pod": "{answer} chips work together over one interconnect: in this catalog a TPU slice has up to {largest_slice} chips, "
    "a GPU offer up to {largest_gpu_offer} cards.",
    "chips_many": "{answer} chips fit in one TPU slice; a GPU offer of this catalog has up to {largest_gpu_offer} cards.",
    "training_steps_long": "{answer} steps: compiling once takes little of a run of this length, and TPUs are optimised for models that "
    "train for weeks.",
    "training_steps_short": "{answer} steps: compiling takes a large part of a run of this length.",
    "latency_tail": "A TPU reaches its full speed at large batches (v6e can do {v6e_flop_per_byte!s} FLOP per byte read); a limit "
    "on the slowest requests keeps batches small.",
    "batch_large_regular": "Large, regular batches fill a TPU's matrix units.",
    "batch_small_irregular": "Small or irregular batches leave a TPU's matrix units idle, and are padded to compiled shapes.",
    "team_cuda": "The team knows CUDA and would have to learn sharding and profiling with XLA.",
    "team_jax": "The team knows JAX and XLA.",
    "work_experiments": "Experiments change the program often; eager PyTorch on a GPU shows a mistake where it is made.",
    "budget_interruptible": "Work that may be interrupted can run on spot slices: v6e in us-central1 cost {spot_usd} per chip and hour "
    "instead of {list_usd}. The GPU offers here have no spot price.",
    "budget_committed": "A commitment lowers the price of v6e per chip and hour from {list_usd} to {one_year_usd} for one year and "
    "{three_years_usd} for three. The GPU offers here have none.",
    "engine_none_on_tpu": "No serving engine that this catalog knows runs {model} ({task}) on a TPU in this precision; you would have "
    "to write the serving code.",
    "support_passing": "{package} {release} passed its tests with {model} on {tested!s} ({checked}).",
    "support_elsewhere": "{package} {release} passed its tests with {model} on {tested!s} ({checked}), but not on "
    "{generation!s}, which has the lowest price per token here.",
    "support_untested": "{model} is untested on {package} {release} ({checked}): it may or may not run.",
    "fits_no_gpu_offer": "In this precision {model} fits TPU slices, but no GPU offer of this catalog.",
    "fits_no_tpu_slice": "In this precision {model} fits GPU offers, but no TPU slice of this catalog.",
    "ttft_gpu_only": "Only GPU offers are predicted to answer within {max_ttft_s}.",
    "ttft_tpu_only": "Only TPU slices are predicted to answer within {max_ttft_s}.",
    "tpu_price_much_lower": _PRICES,
    "tpu_price_lower": _PRICES,
    "tpu_price_higher": _PRICES,
    "tpu_price_much_higher": _PRICES,
}
# Spaces: what an action does, when one sleeps, and what its stage means.

_ACTIONS = {
    "hardware_changes": "{space} moves from {before:or no hardware} to {after}: {after_usd_per_hour:rate} instead of "
    "{before_usd_per_hour:rate}.",
    "restarts_on_new_hardware": "The app restarts on the new hardware; the time of a build is not billed.",
    "app_stops": "The app stops and visitors find it paused; only its owner can restart it.",
    "paused_is_free": "A paused Space is not billed.",
    "app_restarts": "The app starts anew.",
    "app_restarts:factory": "It is built from scratch, without what earlier builds left, and starts anew.",
    "billed_again": "On {hardware:or its hardware} it is billed {usd_per_hour:rate} from the start of the app on.",
    "billed_again:free": "On {hardware:or its hardware} it is not billed.",
}

SLEEP_TEMPLATES = {
    "sleep_fixed": "{hardware} sleeps after {hours} hours without a visit; that is fixed.",
    "sleep_not_documented": "When it sleeps is not documented.",
    "sleep_unknown": "When it sleeps is not known.",
    "never_sleeps": "It never sleeps by itself.",
    "never_sleeps:paid": "It never sleeps by itself: it is billed around the clock, used or not.",
    "sleeps_after": "It sleeps after {sleep_after_s:span} without a visit, and is not billed until a visit wakes it.",
    "static_files": "It is files that are served, without hardware.",
    "never_scales_to_zero": "It is never scaled to zero: it is billed around the clock, used or not.",
    "scales_to_zero": "It is scaled to zero after {sleep_after_s:span} without requests, and is not billed until a request wakes it.",
    "job_ends": "It is billed until its command ends or its time limit is reached.",
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
        "CANCELED": "It is cancelled.",
        "SCHEDULING": "It waits for hardware.",
        "pending": "It waits for hardware.",
        "initializing": "It is starting.",
        "updating": "It is running, and its next version is starting.",
        "updateFailed": "Its update failed: whether the version before still runs, and is billed, is not documented.",
        "running": "It is running.",
        "scaledToZero": "It is scaled to zero; a request wakes it.",
        "paused": "It is paused; it has to be resumed by hand.",
        "failed": "It failed: its log says why.",
    }
)


def stage_sentence(name: str) -> str:
    """What a Space at this stage is doing."""
    return STAGE_SENTENCES.get(name) or f"Its stage is {name}, which is not known here."


_CROSSING = "{below:Capital} costs less than {above} up to about {requests} requests a day ({usd_per_month} a month at that traffic)."
_BREAK_EVEN = {
    "break_even": _CROSSING,
    "break_even:beyond_capacity": _CROSSING + " That is more than this hardware serves, so it stays cheaper.",
    "break_even:beyond_best_load": _CROSSING
    + " That is more than this hardware serves even {concurrency!s} at a time, so it stays cheaper.",
    "break_even:share": _CROSSING + " Served {concurrency!s} at a time, that is {used_percent:.0f} % of what this hardware serves.",
    "break_even:awake": "{below:Capital} saves more than 1 % up to about {requests} requests a day; beyond that it is awake nearly all the "
    "time.",
    "break_even:free": "{below:Capital} is free up to about {requests} requests a day; this account cannot pay for more.",
    "break_even:any_traffic": "{below:Capital} costs less than {above} at any traffic.",
    "break_even:never_dearer": "{below:Capital} never costs more than {above}.",
}
REASONS: Mapping[str, str] = MappingProxyType(
    _HOLDS
    | _SPEED
    | _TRAFFIC
    | _PRICE
    | _PLATFORM
    | _ZEROGPU
    | _REFUSALS
    | _PROVIDER
    | _NOTES
    | _RIGHT_SIZE
    | _COMPARISON
    | _BREAK_EVEN
    | _ACTIONS
    | SLEEP_TEMPLATES
    | _SMALLER_RUN
    | LATENCY
    | _SOLVE
    | GPU_TPU_RULES
    | BATCH
)
