"""The wording of a latency diagnosis: its reasons, its next steps, and the effects of formats and engines.

`lib.present.sentences` says how a template is written and fills it.
"""

from __future__ import annotations

LATENCY: dict[str, str] = {
    "dominant_part": "The {part} takes the most time: {part_s}, {percent:.0f} % of the whole.",
    "part_slower": "The {part} took {measured_s}; the laws expect {low_s} to {high_s} on this hardware.",
    "part_faster": "The {part} took {measured_s}, less than the {low_s} to {high_s} that the laws expect: a prefix cache, speculative "
    "decoding, or other lengths than stated.",
    "below_ridge": "With {running:.0f} at a time a step is below the ridge point ({ridge!s} sequences): it waits for bytes of weights "
    "and cache, so weights of fewer bytes make it shorter.",
    "below_ridge:unpacks": "With {running:.0f} at a time a step is below the ridge point ({ridge!s} sequences): it waits for bytes of "
    "weights and cache. {engine} gains nothing from a smaller format here, because it unpacks the weights first.",
    "overhead_bound": "With {running:.0f} at a time most of a step of {tpot_s} is launching kernels, not reading weights ({least_s} at "
    "least): a smaller format does not make it shorter.",
    "above_ridge": "With {running:.0f} at a time a step is above the ridge point ({ridge!s} sequences): its arithmetic takes longer "
    "than reading the weights, so only faster units (FP8 where the card has them) make it shorter.",
    "never_ridge": "Decoding stays memory-bound at every batch size here: weights of fewer bytes make a step shorter.",
    "never_ridge:unpacks": "However many requests are batched, a step waits for bytes before arithmetic here. {engine} gains nothing from "
    "a smaller format, because it unpacks the weights first.",
    "ridge_out_of_reach": "The cache holds {holds!s} requests of this length, fewer than the {ridge!s} of the ridge point: no batch "
    "that fits here is bound by arithmetic.",
    "too_many_at_once": "{concurrency} requests are on their way, and about {running:.0f} run at the same time: the others wait.",
    "measure_first": "Nothing was measured yet: the table says what each part should take. State times or paste a server's /metrics.",
    "optimise_outside": "Optimise the {part} before you rent more: it is outside the model, and no other GPU makes it shorter.",
    "optimise_engine": "Optimise first: the {part} takes longer than this hardware needs, so a second copy would be as slow.",
    "optimise_also": "Optimise the {part} too: it takes longer than the laws expect.",
    "add_replicas": "Scale out: requests wait for a place while the engine is as fast as it can be. /simulate_batching (capacity) "
    "tells how many replicas a target needs.",
    "mend_before_scaling": "Optimise first, then scale out: requests wait, and the engine serves them slower than it could.",
    "as_fast_as_laws": "The {part} is about as fast as this hardware allows: a smaller format, fewer tokens or faster hardware help, "
    "another replica does not make one request shorter.",
    "as_fast_as_engine": "The {part} is about as fast as {engine} makes it on this hardware; the hardware allows more.",
    "faster_engine:decode": "{other} takes about {other_s} a token on this hardware, {engine} {engine_s}: {percent:.0f} % less.",
    "faster_engine:prefill": "{other} takes about {other_s} to the first token on this hardware, {engine} {engine_s}: "
    "{percent:.0f} % less.",
    "next_preprocess": "Tokenise and template off the request's thread, cache what repeats, give the server more CPU.",
    "next_transfer": "Stream the answer, keep connections open, and place the server near its callers; send pictures and sound compressed.",
    "next_queue": "Raise max_num_seqs as far as the cache allows, add replicas, or let fewer requests through at a time.",
    "next_prefill": "Shorten prompts or let them share a prefix (prefix caching); else split the model over more GPUs, or take a card "
    "with more FLOP/s.",
    "next_decode": "Ask for fewer tokens, batch fewer requests, try speculative decoding, or take a card with more memory bandwidth or "
    "more of them.",
    "next_decode:overhead": "Replay recorded steps (torch.compile with a static cache, CUDA graphs), or use an engine that does; ask for "
    "fewer tokens, or try speculative decoding. More memory bandwidth hardly helps.",
    "next_postprocess": "Detokenise and format while the answer is streamed, not after it.",
    "more_cache": "About {running:.0f} requests fit the cache: an FP8 cache or a smaller context nearly doubles that.",
    "smaller_format": "{precision} cuts the {part} by about {percent:.0f} % here.",
    "format_only_memory": "From {ridge!s} sequences on, fewer bits per weight save memory here, not time.",
    "format_latency": "{precision}: {percent:.0f} % off a step, so it cuts latency here.",
    "format_prompt": "{precision}: {percent:.0f} % off the first token, nothing off a step.",
    "format_memory": "{precision}: memory only. Steps take about as long as now.",
    "format_slower": "{precision}: memory only, and steps are {percent:.0f} % longer: unpacking costs more than the bytes saved.",
}
