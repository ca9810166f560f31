"""The sentences of traffic and of latency: what a simulation leaves open, where the time of a request goes, what to do next.

`lib.present.sentences` takes them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CAVEATS: Mapping[str, str] = MappingProxyType(
    {
        "steps_predicted": "Steps take the times that the laws of speed predict; the simulation adds queues, batches and the cache, but no "
        "network.",
        "continuous_what_if": "{engine} starts a batch together by default; continuous batching with its step times is a what-if.",
        "batch_cut": "A padded batch of {asked!s} does not fit beside the weights: at most {batch_size!s} sequences are batched.",
        "sleeps_at_start": "Replicas are asleep at the start, and the first request waits {cold_start_s} for one to wake.",
        "queue_grows": "More arrives than is served: {backlog} of {requests} requests had not begun when the last one came, so waits and "
        "percentiles grow with the time that is simulated.",
        "requests_refused": "{refused} of {requests} requests were refused: alone they would not fit the cache.",
        "few_requests": "Only {completed} requests were answered, so the 99th percentile is that of one or two of them. Ask for a longer "
        "time.",
        "not_steady": "Requests take longer than half of the {duration_s} in which they arrive, so no steady part is left to count: rates "
        "and price are those of the whole {span_s}, with its empty beginning and end, and tokens look dearer than they would. Ask for a "
        "longer time.",
        "loads_not_steady": "Hollow points ({points} of {total}, from {lowest_requests_per_s:.3g} requests per second on) count the whole "
        "run: requests take longer than half of the time in which they arrive, so no steady part is left. Throughput and price there look "
        "worse than on a server that goes on.",
        "needs_not_steady": "For {unsteady} of {total} hardware options the price per million tokens counts the whole run: requests take "
        "longer than half of the time that was tried. It is higher than on a server that goes on.",
        "requests_preempted": "The cache was full: {preemptions} times a sequence gave its cache back and was read again.",
        "means_since_start": "Times of a metrics text are means since the server started, over all of its requests.",
        "tgi_first_token": "TGI states no time to first token: its prefill is the mean time of a prefill batch.",
        "queue_beyond_first_token": "The queue is longer than the time to first token, which should hold it: they come from different "
        "requests, or the queue is that of a proxy in front. The prefill is taken as not measured.",
    }
)
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "dominant_part": "The {part} takes the most time: {part_s}, {percent:.0f} % of the whole.",
        "part_slower": "The {part} took {measured_s}; the laws expect {low_s} to {high_s} on this hardware.",
        "part_faster": "The {part} took {measured_s}, less than the {low_s} to {high_s} that the laws expect: a prefix cache, speculative "
        "decoding, or other lengths than stated.",
        "below_ridge": "With {running:.0f} at a time a step is below the ridge point ({ridge!s} sequences): it waits for bytes of weights "
        "and cache, so weights of fewer bytes make it shorter.",
        "above_ridge": "With {running:.0f} at a time a step is above the ridge point ({ridge!s} sequences): its arithmetic takes longer "
        "than reading the weights, so only faster units (FP8 where the card has them) make it shorter.",
        "never_ridge": "However many requests are batched, a step waits for bytes before arithmetic here: weights of fewer bytes make it "
        "shorter.",
        "ridge_out_of_reach": "The cache holds {holds!s} requests of this length, fewer than the {ridge!s} of the ridge point: no batch "
        "that fits here is bound by arithmetic.",
        "too_many_at_once": "{concurrency} requests are on their way, and about {running:.0f} run at once: the others wait.",
        "measure_first": "Nothing was measured yet: the table says what each part should take. State times or paste a server's /metrics.",
        "optimise_outside": "Optimise the {part} before you rent more: it is outside the model, and no other GPU makes it shorter.",
        "optimise_engine": "Optimise first: the {part} takes longer than this hardware needs, so a second copy would be as slow.",
        "optimise_also": "Optimise the {part} too: it takes longer than the laws expect.",
        "add_replicas": "Scale out: requests wait for a place while the engine is as fast as it can be. /simulate_batching (capacity) "
        "tells how many replicas a target needs.",
        "mend_before_scaling": "Optimise first, then scale out: requests wait, and the engine serves them slower than it could.",
        "as_fast_as_laws": "The {part} is about as fast as this hardware allows: a smaller format, fewer tokens or faster hardware help, "
        "another replica does not make one request shorter.",
        "next_preprocess": "Tokenise and template off the request's thread, cache what repeats, give the server more CPU.",
        "next_transfer": "Stream the answer, keep connections open, and place the server near its callers; send pictures and sound "
        "compressed.",
        "next_queue": "Raise max_num_seqs as far as the cache allows, add replicas, or let fewer requests through at a time.",
        "next_prefill": "Shorten prompts or let them share a prefix (prefix caching); else split the model over more GPUs, or take a card "
        "with more FLOP/s.",
        "next_decode": "Ask for fewer tokens, batch fewer requests, try speculative decoding, or take a card with more memory bandwidth or "
        "more of them.",
        "next_postprocess": "Detokenise and format while the answer is streamed, not after it.",
        "more_cache": "About {running:.0f} requests fit the cache: an FP8 cache or a smaller context nearly doubles that.",
        "smaller_format": "{precision} cuts the {part} by about {percent:.0f} % here.",
        "format_only_memory": "From {ridge!s} sequences on, fewer bits per weight save memory here, not time.",
        "format_latency": "{precision}: {percent:.0f} % off a step, so it cuts latency here.",
        "format_prompt": "{precision}: {percent:.0f} % off the first token, nothing off a step.",
        "format_memory": "{precision}: memory only. Steps take about as long as now.",
        "format_slower": "{precision}: memory only, and steps are {percent:.0f} % longer: unpacking costs more than the bytes saved.",
    }
)
