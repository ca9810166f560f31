"""The wording of caveats: what an answer leaves open.

`lib.present.sentences` says how a template is written and fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lib.present.reason_words import DURATION_FACTOR_ASSUMED, SLEEP_TEMPLATES, ZEROGPU_RESERVATION

_WORDS = {
    "taken_for": "{argument}: '{written}' was taken for {meant}. Write {meant} to be sure, or another name of the list.",
}
_MODEL = {
    "typical_model": "Only a parameter count is known. Cache and activations are those of a typical decoder of that size ({layers!s} "
    "layers of width {hidden_size!s}, {kv_heads!s} key/value heads); name the model for exact figures.",
    "typical_model:large": "Only a parameter count is known, and it is taken as a dense decoder ({layers!s} layers of width "
    "{hidden_size!s}, {kv_heads!s} key/value heads). Most models of this size are mixtures of experts: their weights take as much memory, "
    "and they write several times as fast. Name the model for exact figures.",
    "class_defaults": "The configuration does not state {fields}: the default of {config_class} is used. Check that it is meant.",
    "architecture_inferred": "The config names no architecture; counted as {class}, the class of its model_type.",
    "architecture_inferred:unknown_class": "'{stated}' is not a class of transformers for this model_type; counted as {class}, the class "
    "of its model_type.",
    "architecture_spelling": "'{stated}' is spelled {class} in transformers; counted as that class.",
    "remote_code_as_llama": "{config} needs remote code, which is never run here; every size in it is one of a Llama decoder: counted as "
    "one.",
    "foreign_model_type": "{config} is not a model type of transformers, but {class} is one of its classes: counted as that class. "
    "Differences of the publisher's own code are not known here.",
    "separate_head": "The config states an output head of its own (tie_word_embeddings is false); it is counted, as the published weights "
    "hold it.",
    "unknown_routing": "{architecture} has routed experts but does not say how many of them a token reaches; all are counted as active.",
    "unknown_quantization": "The checkpoint is quantized with {method} in a variant that is not known here. Weights are counted from the "
    "files' headers where they were read, otherwise in the dtype of the config; choose a precision to see another.",
    "unknown_cache:executed": "{failure} The cache is left out of the total.",
    "cache_not_executed": "{failure} It is computed from the layer kinds that the configuration states.",
    "pipeline_activations": "Activations of a pipeline depend on picture size and steps; they are not part of this total. The "
    "pipeline of this denoiser is not known here, or takes too long to run while one waits.",
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
    "weights_single_file": "The weights are in one file with an unusual name; it was read as the model.",
    "other_copies": "Of several copies of the weights the one that is loaded by default counts ({counted}); not counted: {others}.",
    "gguf_engine": "This is a GGUF file: all figures are those of llama.cpp, whatever engine was named.",
    "gguf_default": "No file was named, so this is {file}, the default of llama.cpp; there are also {others}.",
    "no_weights": "The model {model} holds no weight files in a known place.",
    "tensors_stored_twice": "{tensors} tensors are in more than one file; their bytes are counted each time.",
    "tensors_missing": "The index names {tensors} tensors that none of its files has.",
    "index_total_differs": "The index states {index_bytes:,} bytes of weights and the files hold {file_bytes:,}; the files are right.",
    "pickle_not_opened": "The weights are pickle files (.bin), which are not opened; their size ({total_bytes:,} bytes) is known, their "
    "dtypes are not.",
}
_EXPLAIN = {
    "explain_not_compared:model": "Name the model to compare the text with what this app predicts.",
    "explain_not_compared:hardware": "Name the hardware to compare the text with what this app predicts.",
    "explain_not_predicted": "The app has no figures of its own for this set-up. {reason!s}",
}
_MEMORY = {
    "unknown_cache": "The size of this model's cache is not known, so it is not counted.",
    "dtype_unstated": "The config does not say which dtype the files are in: auto takes 16 bits. Older checkpoints often have 32.",
    "experts_not_converted": "bitsandbytes converts plain matrices only: the experts of this mixture, most of its weights, stay as is.",
    "activation_typical": "The sizes of its layers are not known; activations are those of a decoder of usual proportions.",
    "activation_by_law": "Activations follow the law of plain decoders; this architecture was not traced.",
    "activation_unknown": "Activations depend on the size and the number of pictures and are not counted.",
    "context_of_pictures": "A pipeline that makes pictures has no context; its size is width, height and frames.",
    "not_a_pipeline": "Guidance, offload, tiling and slicing are for pipelines that make pictures; they change nothing for this model.",
    "preallocates": "{engine} claims {share:.0%} of the device at start and fills what is left of it with cache; this is what the request "
    "needs. What fits, and the limits, are counted within that share.",
    "share_by_release": "vLLM claims {old_share:.0%} of the device by default before release {changed} and captures CUDA graphs outside "
    "that share; since then it claims {new_share:.0%} with the graphs inside. This estimate: {share:.0%}, graphs inside "
    "(--gpu-memory-utilization {share:g}).",
    "preallocates:rest": "{engine} fills {share:.0%} of what the model leaves of the device with cache at start; this is what the request "
    "needs. What fits, and the limits, are counted within that share.",
    "preallocates:computed": "{engine} fills the device with cache at start, but for what it keeps by the device's size for activations "
    "and graphs; this is what the request needs. What fits, and the limits, are counted without that reserve.",
    "step_tokens": "Activations are those of a step of {tokens} tokens, the default of {engine!s} (max_num_batched_tokens) on large cards, "
    "or where no card is named; small cards default to {least_tokens}, and the tiers are counted with what theirs take.",
    "usual_lengths": "On servers such as vLLM memory is counted for {concurrency} requests of the usual {usual_tokens} tokens, or for one "
    "of {context_tokens}, whichever takes more. /estimate_memory and /solve count every request at its full length, which takes more.",
    "device_runtime": "Memory of compiled programs on this kind of accelerator is not published and not counted.",
    "device_runtime:apple": "On a Mac only the model and its request are counted: Metal's own buffers are not published, and the program "
    "itself is outside the share of memory that Metal gives it.",
    "part_not_described:vision": "The configuration lacks values that pictures need ({error}), so only text is counted.",
    "part_not_described:sound": "The configuration lacks values that sound needs ({error}), so only text is counted.",
    "media_not_counted": "A text prompt is counted; pictures or sound in the prompt need more.",
    "media_not_counted:images": "A text prompt is counted; pictures need more: state how many (images) and their size.",
    "one_prompt": "The whole context is taken as one prompt, the worst case for activations.",
    "one_prompt:eager": "The whole context is taken as one prompt, and transformers has no fused attention kernel for this class: the "
    "scores of the whole prompt are held, which grow with the square of its length. A prompt read in pieces, or vLLM, needs "
    "far less.",
    "one_prompt:scan": "The whole context is taken as one prompt, and transformers runs this class in slow code that holds the states of "
    "every token, unless the model's own kernels are installed (for Mamba: mamba-ssm, causal-conv1d). With them, with a prompt read in "
    "pieces, or with vLLM it needs far less.",
    "layer_split": "Devices hold whole layers in turn; they add memory, not speed.",
    "training_assumed": "Training: fused AdamW, mixed precision with master weights, gradient checkpointing, TRL with a fused loss; LoRA "
    "of rank 16 on all plain matrices; several devices share by FSDP. Gradients are not accumulated here; /estimate_training accumulates "
    "8 micro-batches unless told otherwise, which holds gradients at every moment.",
    "training_reserved": "The allocator reserves more than the tensors take, because freed blocks do not always fit the next tensor. "
    "96 % of 103 published runs stayed below the upper estimate, which was 24 % above the truth in the median; their training library, "
    "or else their model, was left out of the fit.",
    "training_accumulates": "Gradients of {accumulation} micro-batches are accumulated, so they are held at every moment; /estimate_memory "
    "counts a step of one micro-batch.",
    "training_lengths_vary": "Without packing the longest batch decides the peak, not the mean one. The typical value counts "
    "{micro_batch} × {longest_tokens} tokens: a long row has four times the mean length of {mean_tokens} tokens, at most the limit. The "
    "upper estimate counts {micro_batch} × {limit_tokens} tokens, the limit: cut rows to the length that you need. Freed blocks do not fit "
    "the next length; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most of that. Time for padding is not counted.",
    "training_objective:dpo": "DPO as TRL 1.16 trains it: chosen and rejected sequence go through the policy together, and "
    "log-probabilities are computed in tiles without logits. Full fine-tuning holds a second, frozen model as reference; with adapters the "
    "reference is the model with its adapters off. Checked against executed steps, not against measured runs: one public run names its "
    "memory, without lengths.",
    "training_objective:kto": "KTO as TRL 1.16 trains it: besides the policy's sequence, three passes without gradient (reference, and "
    "mismatched pairs through both). Full fine-tuning holds a second, frozen model. Not measured: no public run names its memory.",
    "training_objective:reward": "A reward model as TRL 1.16 trains it: chosen and rejected sequence together, a score in place of the "
    "output projection. Checked against executed steps; not measured: no public run names its memory.",
    "training_text_only": "Only text is counted: pictures or sound in the rows need more.",
    "training_scan": "Layers that keep a state are trained by a scan; only the outputs of its matrices are counted. Where "
    "transformers scans in Python, as without Mamba's own kernels, a step takes several times as much: ask /dry_run, which executes it.",
    "training_activation": "Without checkpoints an activation function that is written out in several operations (gelu_new of GPT-2 and "
    "Phi) keeps more than is counted: up to 17 % of a step's peak in the dry runs of these models.",
    "dry_run_too_low": "The closed form of the peak is {share:.0%} lower than what was executed: estimates of this model are too low by as "
    "much.",
    "dry_run_flop": "FLOP of the closed form count every matrix that a token reaches, once for each token. Some classes of transformers "
    "compute otherwise: Llama 4 runs every expert on every token, Gemma 4 passes only the last position through layers that share a cache, "
    "and Llama 3.2 Vision skips its cross-attention without a picture.",
    "training_without_bf16": "Cards without bf16 (T4, V100 and older) are counted in fp16 with trained weights, gradients and optimizer "
    "states in float32: pure fp16 does not train, because its gradient scaler needs float32.",
    "training_experts": "Experts, tables and the head get no adapter.",
    "attention_scores": "On this silicon torch before mid 2026 holds the scores of all tokens; the high value covers that.",
    "beyond_context_limit": "The model is limited to {limit_tokens} tokens: {counted_tokens} were counted.",
    "engine_cache_layout": "The engine lays out a kind of layer of this model in its own way; it is counted as transformers does.",
    "engine_state_dtype": "Recurrent states are counted in the dtype that transformers keeps; the engine has a setting of its own.",
    "engine_latent_build": "Latent attention is counted as builds of 2026 keep it; older builds expand it to full heads.",
}
_PREDICTION = {
    "extrapolated": "No measurement of {engine} on a card like {silicon} was published with its conditions; the ranges are wider for that.",
    "extrapolated:encoder": "No measurement of {engine} with a model that generates nothing was fitted: the rates are those of its "
    "decoders.",
    "one_after_another": "{engine} puts layers on each of the {devices!s} devices, which work one after another: more memory, no more "
    "speed for one request.",
    "cpu_estimate:packed": "Programs differ on weights of few bits: on processors, with 4,096 tokens in the cache, the slowest measured "
    "one took 2.3 times as long as predicted, and llama.cpp took twice as long with some 4- and 5-bit formats as with others.",
    "cpu_estimate:speech": "Speech uses the speed model of text. On two virtual CPUs whisper-base took 1.7 times as long as predicted "
    "for its encoder and 2.0 times for each token (float32, PyTorch 2.0, one published report): too little for a law of its own.",
    "waveform_convolutions": "Too fast: the convolutions that read the waveform run at up to 64 positions for each one that is counted "
    "(1.5 times the counted work in wav2vec2-base), at rates below those of matrix products. Published runs of such models on an A100 hear "
    "450 to 690 seconds of sound a second, everything around the model included.",
    "prompts_of_2024": "Prompts are probably read faster than this: the points of llama.cpp are of 2024. On an RTX 4090, build 8720 of "
    "2026 reads dense models (Qwen3.5 9B, 27B) 1.5 times as fast as predicted, and 1.8 times after 32,768 tokens; a mixture of experts "
    "(35B-A3B) 0.7 to 1.4 times (llama-bench, github.com/jiegec/kb, docs/software/llm_local_serving.md, read 2026-11-23).",
    "cpu_estimate": "CPU figures are estimates for a shared host, not from a datasheet.",
    "emulated_dtype": "{silicon} has no units for {precision} and emulates it, several times slower than fp16, which takes as much memory.",
    "emulated_dtype:converted": "{silicon} has no units for {precision}: it is converted, so it is as slow as {timed_as}.",
    "cache_unknown": "How this model's cache grows is not known; reading it is left out of the times.",
    "typical_model:speed": "Only a parameter count is known: sizes of a typical decoder are taken.",
    "static_batch": "The requests start together as one batch; this engine does not take new ones in between.",
    "does_not_fit:speed": "The weights take {needed_gib:.1f} GiB and there are {capacity_gib:.1f} GiB: the speed is hypothetical: it "
    "assumes that they fit.",
    "does_not_fit:offload": "With the rest of the layers on the processor {needed_gib:.1f} GiB are needed where {capacity_gib:.1f} GiB are "
    "usable: the speed is hypothetical: it assumes that they fit.",
    "offload_typical_host": "The host of this card is unknown; its processor is assumed to be like {silicon}.",
    "layers_split": "{on_gpu} of {layers} layers are on the GPU, the others in host memory: the times of both parts add up "
    "({share:.0%} of the bytes of a step are read on the GPU).",
    "does_not_fit:bill": "The model does not fit {hardware} in this configuration: /recommend lists hardware that it fits.",
    "beyond_context": "Prompt and answer are {asked_tokens} tokens together; the model takes {limit_tokens}.",
    "no_encoder": "The model has no encoder: the {encoder_tokens} encoder tokens are not used.",
    "devices_unused": "{engine} does not split this model over {devices!s} devices, because its heads or widths do not divide by that: it "
    "starts on {degree!s}. Choose that many, or an engine that deals out whole layers.",
    "requests_wait": "Of {concurrency} requests about {running_requests:,.0f} run at the same time; the others wait for a place, which is "
    "in the time to the first token.",
    "picture_rows": "{rows} public times of pictures were found for {silicon}: its range is that of cards that the fit has not seen.",
    "picture_shape": "One picture or clip of {shape}, without torch.compile, on one device.",
    "engine_replaced:tpu": "On a TPU this is the figure of vllm-tpu; the engine that was asked for does not run there.",
    "engine_replaced": "Too few measurements of {engine!s} are published: its speed is taken to be that of {like!s}.",
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
    "sleep_fixed:bill": SLEEP_TEMPLATES["sleep_fixed"],
    "traffic_not_stated": "No requests per day are stated, so it counts as awake all of its hours. With them, the cost shows what sleep "
    "saves.",
    "paused_outside_hours:sleeps": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you pause it outside them or "
    "give it a sleep time: paid hardware never sleeps by itself, and left running it costs {left_running_usd_per_month}.",
    "paused_outside_hours:scales_to_zero": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you pause it outside "
    "them or let it scale to zero: left running it costs {left_running_usd_per_month}.",
    "paused_outside_hours:runs_on": "{hours:plain} hours a day are {paused_usd_per_month} a month only if you delete it outside them: "
    "left running it costs {left_running_usd_per_month}.",
    "no_hours": "At 0 hours a day nothing runs and nothing is billed; the {requests_per_day:plain} requests a day are not served.",
    "startup_assumed:model": "Each wake counts {startup_s} of billed start-up: the machine, then {bytes} to fetch and load ({low_s} to "
    "{high_s}). This is rough: it comes from start logs outside Spaces and Endpoints. Your own logs tell the real figure.",
    "startup_assumed": "Each wake counts {startup_s!s} s of billed start-up, an assumption: your Space's logs tell the real figure.",
    "cold_start": "Scaled to zero, it answers {status!s} while it starts, unless the request carries {header}.",
    "request_time_unknown": "How long a request takes is not known (no model, no speed estimate), so only sleep time and start-up keep it "
    "awake.",
    "too_little_capacity": "{replicas!s} replica(s) serve about {served:,} requests a day with {concurrency!s} concurrent in {hours:plain} "
    "hours, filled to {used_percent:plain} %: {requests_per_day:,.0f} of {request_s} each need "
    "{replicas_needed:,} replicas, {usd_per_month} a month; the price of a request is that.",
    "one_at_a_time": "A million output tokens cost {one_usd} with one request at a time and {usd} with {concurrency} concurrent requests, "
    "whose time to first token is {ttft_s}.",
    "targets_missed": "At no load does the time to first token stay within {ttft_s} and the time per output token within {tpot_s}, so no "
    "best price per million is given.",
    "prompt_price_unknown": "Of the provider only the price of output tokens was stated; prompt tokens are counted as free there.",
    "replicas_planned": "Replicas are as many as keep each at most 80 % full, and each is rented for all the hours; sleep, storage and the "
    "tab's own replicas are not counted. Estimated latencies are those with as many requests in flight as stated; at lower load they are "
    "shorter.",
    "replicas_of_visitors": "ZeroGPU has no replicas of the owner's: each visitor's call gets a GPU of its own.",
    "job_timeout": "A Job ends after {minutes!s} minutes unless a longer timeout is set.",
    "region_price": "Price of us-central1; other regions ask up to {usd_per_hour!s} USD per hour.",
}
_QUOTA = {
    "visitor_pays": "A call of {seconds:.4g} s takes {request_quota_s:.4g} s of the visitor's own quota ({quota_minutes:plain} "
    "minutes a day for the account '{account!s}'): {requests_per_visitor!s} such calls a day. The owner of the Space pays nothing for the "
    "GPU.",
    "runs_reported": "Users report {runs!s} runs a day for the account '{account!s}' beside the quota; not documented, but counted.",
    "duration_factor_assumed": DURATION_FACTOR_ASSUMED,
    "visitors_own_plan": "Visitors are counted as '{account!s}' accounts, as nothing else was stated. Those of a public Space mostly have "
    "a free account ({free_s:.4g} s a day) or none ({anonymous_s:.4g} s a day).",
    "quota_too_small": "A single call takes more than a visitor's whole daily quota.",
    "zerogpu_reservation": ZEROGPU_RESERVATION,
    "quota_spread": "{requests_per_day:plain} requests a day need the quota of at least {visitors!s} such visitors.",
    "no_overquota": "Beyond the quota such visitors wait for the next day; {accounts} can pay.",
    "overquota": "Beyond the quota each further call costs its visitor {usd_per_request}.",
}
_STORAGE = {
    "storage_elsewhere": "Storage is priced as on the Hub; Google Cloud also bills its own disks.",
    "volume_rate": "From {from_tb!s} TB on the lower rate applies to the part above; if it covers everything, it costs less.",
    "storage_tier_retired": "The persistent-storage tier '{tier}' ({size_gb:f} GB for {last_usd_per_month!s} USD/month) is gone since "
    "{until}. Today a bucket holds the same: {usd_per_month:plain} USD/month for private data on this account, of which {included_gb:f} "
    "GB are included, then {usd_per_tb_month!s} USD/TB/month.",
}
_TIER = {
    "sleep_fixed": SLEEP_TEMPLATES["sleep_fixed"],
    "sleep_not_documented": "When a Space on ZeroGPU sleeps is not documented: the platform may ignore a sleep time there.",
    "tier_unknown:sleep": "It is not known what {space} runs on, so the platform decides whether its sleep time can be set.",
    "zerogpu_size": "'{size_id}' is a size, not a tier: the Space runs on {hardware}, and its function asks for it with size='{size}'.",
    "renamed": "{name} is called '{hardware}' today.",
}
_QUOTA_ASKED = (
    "The run declares {declared} s on a GPU of size {size}. ZeroGPU asks {declared} × {duration_factor:g} (duration factor) × {multiplier} "
    "(size) = {quota!s} s of your quota, and starts only if that much is left."
)
_RUN = {
    "measured_unquantized": "The published weights are quantized ({format}); the architecture was run in {precision}, as if it were not.",
    "resident_set": "Memory is the process's resident set; blocks of 1 MiB and more return to the system immediately.",
    "quota": _QUOTA_ASKED,
    "quota_asked": _QUOTA_ASKED,
    "nothing_decoded": "One token or one pass was run, so there is no speed of decoding.",
    "other_attention": "The attention that ran is '{kernel}'; the prediction is that of the default kernel.",
    "random_weights": "Weights are random and made on the device: speed and memory do not depend on values.",
    "peak_from_resident_set": "On CPU the peak is an approximation: loaded weights plus growth of the whole process.",
    "too_short_for_speed": "One token is too few for a speed: decode_tokens_per_s needs two.",
    "time_limit": "The answer reached its time limit; it has the text up to then.",
    "history_cut": "The {messages!s} oldest messages were left out: with them the conversation is longer than {context_tokens:,} tokens.",
    "answer_limit": "The answer is held to {limit_tokens:,} tokens, half of the {context_tokens:,} that a conversation may take on this "
    "device.",
    "not_predicted": "This run was not predicted. {failure}",
    "speed_unknown": "The speed is not predicted. {failure}",
    "speed_unknown:card": "The card {card} is not in the catalog, so its speed is not predicted.",
    "speed_unknown:prices": "Prices per token are unknown. {failure}",
    "token_price_unknown": "{failure}",
    "stored_bytes_differ": "The files hold {stored_bytes:,} bytes of weights; loaded as they are, the model holds {loaded_bytes:,}. The "
    "other caveats say why.",
}
_NOT_THE_WORK = (
    " Nothing can be that fast: the clock stopped before the work was done (a call that only hands the work to the device returns at "
    "once), or the device was misidentified. Do not use these times."
)
_HEARTBEAT = {
    "beats_the_floor": "The shortest time was {shortest_ms:.4g} ms, but {moved_mb:,.1f} MB at {gb_per_s:,.0f} GB/s need {memory_ms:.4g} ms "
    "at least." + _NOT_THE_WORK,
    "beats_the_floor:compute": "The shortest time was {shortest_ms:.4g} ms, but {moved_mb:,.1f} MB at {gb_per_s:,.0f} GB/s need "
    "{memory_ms:.4g} ms and {gflop:,.2f} GFLOP at {tflop_per_s:,.1f} TFLOP/s need {compute_ms:.4g} ms at least." + _NOT_THE_WORK,
    "measured_floor": "No datasheet is known for {device}, so the floor is the memory's alone: its bandwidth was measured here, and a "
    "quarter was added for what the measurement may have missed. Arithmetic is not in this floor, so most of what is missing is "
    "arithmetic.",
    "cache_unknown:device": "The size of the last-level cache of {device} is not known: the floor leaves out the capacity of the "
    "largest one that is built ({cache_mib:,.0f} MiB), so the efficiency shown may be lower than it is.",
    "fits_cache": "The matrices ({matrices_mib:,.1f} MiB) fit the device's cache ({cache_mib:,.0f} MiB), so a warm product need not touch "
    "the memory: the floor is that of the arithmetic alone.",
    "not_native": "{device} has no unit for {dtype}: it is converted or worked out element by element, which says little about hardware "
    "that has one.",
    "tf32": "float32 was multiplied in TF32 here (a setting of torch allows it); the floor uses that unit's peak.",
    "fewer_iterations": "{timed!s} of {asked!s} products were timed: a run may take {limit_s:.0f} s here.",
    "part_of_a_card": "ZeroGPU gives a part of the card; the floor is the whole card's, so the efficiency shown is lower than that of the "
    "part.",
}
_EACH_BILLED = "Every replica is billed at the tier's price; the totals count all of them."
_SPACE = {
    "model_left_out": "The linked model {model} is left out. {failure}",
    "models_left_out": "{space} links {linked!s} models; the first {read!s} were read.",
    "largest_decides": "{model} decides: it takes the most memory of the {linked!s} linked models. Several loaded together need more.",
    "sdk_unknown": "The SDK of {space} is not known; Gradio is assumed.",
    "changing": "A change to {hardware} is pending; until it is made the Space stays on {current}.",
    "changing:taken": "{space} is on its way to {hardware}, which is taken as its tier.",
    "replicas": _EACH_BILLED,
    "replicas:billed": "{space} runs {replicas!s} replicas. " + _EACH_BILLED,
    "replicas:unpaid": "{space} runs {replicas!s} replicas, which only paid hardware has; the platform decides about them.",
    "replicas:workload": "{space} runs {replicas!s} replicas; costs and savings are those of as many machines as this workload takes.",
    "sleeps": "Months of {hours:plain} hours a day; with its sleep time of {sleep_after_s!s} s the Space may be billed less.",
    "sleep_changes": "Until now it slept after {before_s:span} without a visit; with this switch it will sleep after {after_s:span}.",
    "sleep_changes:never": "Until now it slept after {before_s:span} without a visit; with this switch it will never sleep.",
    "hosting_not_checked": "The limit of ZeroGPU Spaces was not checked: {failure}",
    "hosting_not_checked:signed_out": "How many ZeroGPU Spaces the owner may host depends on the plan; it is checked once you sign in.",
    "hosting_not_checked:plan": "This token does not show the plan of {owner}, so the limit of ZeroGPU Spaces is left to the platform.",
    "hosting_conditions": "A free account also needs a {needs} to host on ZeroGPU.",
    "paused": "{space} is paused: it is not documented whether a switch starts it; /restart_space does.",
    "cpu_basic_needs_plan": "New Gradio and Docker Spaces on the free CPU are for PRO, Team and Enterprise accounts. Whether an existing "
    "Space of a free account may move there is not documented; the platform may answer that a payment or plan is needed.",
    "needs_credits": "Paid hardware needs a payment method and prepaid credits; it is billed by the minute while Starting or Running.",
    "billed": "{space} is billed {usd_per_hour!s} USD per hour and replica on {hardware} while it is Starting or Running.",
    "price_bundled": "The price of {hardware} is the bundled one, state of {checked}; it was not taken from the list of today.",
    "price_bundled:unverified": "The price of {hardware} is the bundled one, state of {checked}; it was not taken from the list of today. "
    "It was not read from the platform's own page of Spaces.",
    "tier_unknown:price": "'{hardware}' is not in the catalog, so its price is not known here.",
    "retired": "'{hardware}' is no longer offered since {since}; its current price is not known.",
    "zerogpu": "Free for its owner: visitors spend their own daily quota. {reservation} {sleep}",
    "cpu_units": "A free account runs at most {units} CPU units at the same time on the free CPU; the Hub then answers “You've reached "
    "your CPU-basic quota limit”. Team and Enterprise have no such limit (Hub documentation, enterprise.md, read 2026-11-22).",
    "rows_left_out:space": "More than {most} Spaces: the rest is neither listed nor in the sums.",
    "rows_left_out:endpoint": "More than {most} Inference Endpoints: the rest is neither listed nor in the sums.",
    "rows_left_out:job": "More than {most} Jobs: the rest is neither listed nor in the sums.",
    "bill_unknown": "The current cost of {count} of them is not known: the sums leave them out.",
    "storage_retired": "Persistent storage tiers are no longer offered; buckets and volumes took their place.",
}
_LOAD = {
    "batch_predicted": "Hours are predictions for machines that are always full, with items of equal length. Retries and the upload of "
    "results come on top.",
    "batch_start": "A start counts {machine_s} for machine and engine and 0.2 GB/s from the Hub. This is rough: public start logs range "
    "from 2 to 870 MB/s, and none is of a Job. The wait for a free machine is not known.",
    "steps_predicted": "Steps take the times that the laws of speed predict; the simulation adds queues, batches and the cache, but no "
    "network.",
    "continuous_what_if": "{engine} starts a batch together by default; continuous batching with its step times is hypothetical.",
    "batch_cut": "A padded batch of {asked!s} does not fit beside the weights: at most {batch_size!s} sequences are batched.",
    "sleeps_at_start": "Replicas are asleep at the start, and the first request waits {cold_start_s} for one to wake.",
    "queue_grows": "Overloaded: {backlog} of {requests} requests were still queued at the last arrival, so waits and percentiles "
    "grow with the simulated time.",
    "requests_refused": "{refused} of {requests} requests were refused: alone they would not fit the cache.",
    "few_requests": "Only {completed} requests were answered, so the 99th percentile is that of one or two of them. Ask for a longer time.",
    "not_steady": "Requests take longer than half of the {duration_s} in which they arrive, so there is no steady part to count: rates "
    "and price are those of the whole {span_s}, with its empty beginning and end, and tokens look more expensive than they are. Ask for a "
    "longer time.",
    "loads_not_steady": "Hollow points ({points} of {total}, from {lowest_requests_per_s:.3g} requests per second on) count the whole "
    "run: requests take longer than half of the time in which they arrive, so there is no steady part. Throughput and price there look "
    "worse than on a server that keeps running.",
    "needs_not_steady": "For {unsteady} of {total} hardware options the price per million tokens counts the whole run: requests take "
    "longer than half of the time that was tried. It is higher than on a server that keeps running.",
    "needs_left_out": "Not tried: {hardware}. The search reached its limit of work. Ask about one of these as hardware, "
    "or for shorter answers.",
    "requests_preempted": "The cache was full: {preemptions} preemptions; those sequences were recomputed.",
    "means_since_start": "Times of a metrics text are means since the server started, over all of its requests.",
    "tgi_first_token": "TGI does not report time to first token: its prefill is the mean time of a prefill batch.",
    "queue_beyond_first_token": "The queue is longer than the time to first token, which should include it: they come from different "
    "requests, or the queue is that of a proxy in front. The prefill is taken as not measured.",
}
_SOLVE = {
    "full_length": "Every request is counted at its full length, with a prompt that fills the rest of the context. Shorter requests "
    "leave room for more: /recommend counts those of the usual length on servers.",
    "limits_not_checked": "No speed is predicted here, so the limits on the first token and on speed are not checked.",
    "ordered_by_size": "The catalog has no quality scores. Comfortable and usable models come first, then tight, then slow; within each by "
    "size, √(total · active parameters): a rule of thumb that does not compare generations.",
    "catalog_only": "These are the {models:,} models that come with the app; other models of the Hub are judged one at a time.",
    "checkpoints_not_asked": "The Hub was not asked which quantized checkpoints exist; /recommend asks it for one model.",
    "context_beyond_all": "No model of this list reads {asked_tokens} tokens; the longest context is {longest_tokens}.",
    "calls_not_shared": "On ZeroGPU each call has its own GPU: memory and speed there are those of one request at a time, not of "
    "{concurrency:,}.",
    "offload_price": "The slowdown of offloading counts every offloaded byte at every step, over the host link at its maker's "
    "stated speed.",
}
_GPU_TPU = {
    "weights_are_judgement": "The weights of the reasons are our judgement; each fact has a source.",
    "tpu_prices_are_secondary": "Prices of TPUs come from copies of Google's list, not from the list itself.",
    "commitments_known_for_v6e": "Prices with a commitment were found for v6e only, in the regions with its lowest price.",
    "spot_changes": "Spot prices change, and a spot slice can be taken back at any time.",
    "context_cut": "This model takes {limit_tokens} tokens at most, so everything is judged at that length, not at {asked_tokens}.",
    "limit_not_kept": "No {kind} option is predicted to answer within {max_ttft_s}: {hardware!s} comes nearest with {ttft_s}. "
    "The limit therefore favours neither side.",
    "limit_not_kept:unknown": "No {kind} option is predicted to answer within {max_ttft_s}, because no speed is predicted on any of "
    "them. The limit therefore favours neither side.",
    "no_slice_compared": "No TPU slice is compared: no serving engine of this catalog runs this kind of model there, so its memory, speed "
    "and price on a TPU are unknown.",
    "precisions_differ": "The prices are for different precisions: {tpu!s} in {tpu_precision!s}, {gpu!s} in {gpu_precision!s}. "
    "Ask for one precision to compare like with like.",
    "priced_by_the_hour": "No price per million output tokens is known here, because the model generates none or its speed is "
    "not predicted: hardware that holds it is sorted by its price per hour.",
    "nothing_compared": "Nothing is compared: no GPU offer and no TPU slice of this catalog is predicted to run this model within "
    "these limits. /recommend says why each offer does not.",
    "options_serve": "Options and chips are counted for serving this model; training it takes more memory and other hardware.",
    "options_in_bf16": "No TPU of this catalog computes in {precision}: memory, speed and prices are those of bf16.",
}
CAVEATS: Mapping[str, str] = MappingProxyType(
    _WORDS
    | _MODEL
    | _FILES
    | _EXPLAIN
    | _MEMORY
    | _PREDICTION
    | _BILL
    | _QUOTA
    | _STORAGE
    | _TIER
    | _RUN
    | _HEARTBEAT
    | _SPACE
    | _LOAD
    | _SOLVE
    | _GPU_TPU
)
