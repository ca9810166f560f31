"""The sentences of traffic: what a simulation leaves open. `lib.present.sentences` takes them up."""

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
        "requests_preempted": "The cache was full: {preemptions} times a sequence gave its cache back and was read again.",
    }
)
