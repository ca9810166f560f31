"""Times of forward passes and of serving: the laws of `lib.laws.forward_pass` and `lib.laws.serving` with the fitted constants.

`inputs` is one row per combination of a model, hardware and a request; every array has its shape (n,), every time is in seconds. Numbers
of tokens and sequences are scalars or arrays of that shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.engines import TRAITS
from lib.engines.traits import MICRO_BATCH
from lib.laws import forward_pass, serving
from lib.laws.serving import (
    FULL_LOAD_FILL,
    MEAN_FILL,
    FirstToken,
    chance_of_decoding,
    decoding_requests,
    running_requests,
    time_per_output_token,
    time_to_first_token,
)
from lib.speed.batch import CostModelInputs
from lib.speed.calibration import CLASSES, ENGINES, GRAPH_REPLAYING, KERNELS, MAX_NUM_SEQS, Constants
from lib.speed.hardware import with_measured_share

MAX_SEQS = np.array([MAX_NUM_SEQS[name] for name in ENGINES], dtype=np.float64)
REPLAYS = np.array([name in GRAPH_REPLAYING for name in ENGINES])
UNRECORDED = np.array([name.endswith("-experts") for name in KERNELS])  # no measured engine runs these from a CUDA graph
MATRIX_UNITS = np.array([float(name != "cpu") for name in CLASSES])  # 0 for a CPU: its vector units are as fast with few rows
EAGER_MODULES = next(ENGINES.index(name) for name, row in TRAITS.items() if row.eager)
"""The engine that launches PyTorch's modules kernel by kernel, as a server without CUDA graphs does."""
HALF = KERNELS.index("half")
HOST = ENGINES.index("host")  # a CPU's vector units are as fast with narrow matrices
MANY_ROWS = 1e9  # enough rows for the full rate
NO_HALF_ROWS = np.zeros(len(CLASSES) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedRates:
    """Inputs that do not change from pass to pass; arrays of shape (n,)."""

    bandwidth: forward_pass.Array
    """Bytes/s of weights."""
    cache_bandwidth: forward_pass.Array
    """Bytes/s of the cache."""
    copy_bandwidth: forward_pass.Array
    """Bytes/s of copies."""
    compute_logit: forward_pass.Array
    """Logit of the share of the compute peak."""
    attention: forward_pass.Array
    """FLOP/s of attention over prompts."""
    launch_layer_s: forward_pass.Array
    """Seconds of launch overhead per layer."""
    launch_factor: forward_pass.Array
    """Factor on that overhead."""
    all_reduce_latency: forward_pass.Array
    """Seconds of latency of an all-reduce."""
    link: forward_pass.Array
    """Bytes/s of the link between devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardPass:
    """Seconds of one forward pass and of its parts; arrays of shape (n,). The parts overlap and do not add up to `total`."""

    total: forward_pass.Array
    weights: forward_pass.Array
    cache: forward_pass.Array
    copy: forward_pass.Array
    unpack: forward_pass.Array
    compute: forward_pass.Array
    launch: forward_pass.Array
    all_reduce: forward_pass.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """Seconds in which prompts are read, with the pass of the matrices and the attention in it; arrays of shape (n,)."""

    total: forward_pass.Array
    matrices: ForwardPass
    attention: forward_pass.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTimes:
    """Seconds; arrays of shape (n,).

    `step` is a decode step in which all running requests of a replica decode. In `busy_step` only `decoding_sequences` do, while prompts of
    the others are read. `prefill` reads the prompts of all together, `lone_prefill` that of one. `request_s` is the fixed time of each.
    `decoding_sequences`, `first_token` and `tpot_s` are means in a closed loop.
    """

    step: ForwardPass
    busy_step: ForwardPass
    prefill: Prefill
    lone_prefill: Prefill
    request_s: forward_pass.Array
    decoding_sequences: forward_pass.Array
    first_token: FirstToken
    tpot_s: forward_pass.Array


def reach_rates(inputs: CostModelInputs, constants: Constants) -> ReachedRates:
    """Achieved rates of each row: datasheet rates times fitted shares, whose logits add up offsets of engine, kernel and card class."""
    i, k = inputs, constants
    class_logit = with_measured_share(k.bandwidth_class)
    base = k.bandwidth[0] + k.bandwidth_engine[i.engine]
    slower = np.where(i.over_pcie, np.exp(k.all_reduce_pcie[0]), 1.0) * np.where(i.row_split, np.exp(k.all_reduce_rows[0]), 1.0)
    unpacking = np.where(i.eager | UNRECORDED[i.kernel], np.exp(k.eager_kernel[i.kernel]), 1.0)
    read_by, computed_by = (_of_kernel(i, offsets) for offsets in (k.bandwidth_kernel, k.compute_kernel))
    of_cache = np.full(len(i), k.bandwidth[0] + k.bandwidth_cache[0])
    of_copies = np.full(len(i), k.bandwidth[0] + k.bandwidth_copy[0])
    attends = k.compute[0] + k.compute_engine[i.engine] + k.attention[0] + k.attention_engine[i.engine]
    of_attention = forward_pass.fraction(attends[:, None] + with_measured_share(k.compute_class + k.attention_class))
    return ReachedRates(
        bandwidth=forward_pass.achieved_bandwidth(by_class=i.bandwidth, logit=base + read_by, class_logit=class_logit),
        cache_bandwidth=forward_pass.achieved_bandwidth(by_class=i.bandwidth, logit=of_cache, class_logit=class_logit),
        copy_bandwidth=forward_pass.achieved_bandwidth(by_class=i.bandwidth, logit=of_copies, class_logit=class_logit),
        attention=(i.attention * of_attention).max(axis=-1),
        compute_logit=k.compute[0] + k.compute_engine[i.engine] + computed_by,
        launch_layer_s=np.exp(k.launch_layer_s[i.engine]),
        launch_factor=unpacking * np.where(i.experts > 0, np.exp(k.launch_experts[0]), 1.0),
        all_reduce_latency=np.exp(k.all_reduce_s[0]) * slower,
        link=i.link * np.exp(k.link_share[0] + np.where(i.over_pcie, k.link_share_pcie[0], 0.0)),
    )


def _of_kernel(inputs: CostModelInputs, offsets: forward_pass.Array) -> forward_pass.Array:
    """Offsets of the kernels; converted weights are read and multiplied as 16-bit ones are, by no better a kernel than their own."""
    own = offsets[inputs.kernel]
    return np.where(inputs.converted, np.minimum(own, offsets[HALF]), own)


def cache_bytes(inputs: CostModelInputs, tokens: forward_pass.Quantity) -> forward_pass.Quantity:
    """Bytes of cache of one sequence of so many tokens."""
    return forward_pass.cache_bytes_read(
        constant=inputs.cache_constant,
        per_token=inputs.cache_per_token,
        windowed_per_token=inputs.cache_windowed,
        window=inputs.window,
        tokens=tokens,
    )


def _weight_bytes(inputs: CostModelInputs, tokens: forward_pass.Quantity) -> forward_pass.Quantity:
    """Bytes of weights that a pass over so many tokens reads, on all devices together."""
    reached = forward_pass.expert_share(experts=inputs.experts, per_token=inputs.experts_per_token, tokens=tokens)
    return forward_pass.weight_bytes_read(dense_bytes=inputs.dense_bytes, expert_bytes=inputs.expert_bytes, expert_share=reached)


def bytes_moved(
    inputs: CostModelInputs, *, tokens: forward_pass.Quantity, sequences: forward_pass.Quantity, cached_tokens: forward_pass.Quantity
) -> forward_pass.Array:
    """Bytes of weights and cache that a pass over `tokens` tokens of `sequences` sequences reads, on all devices together; shape (n,)."""
    cache = np.multiply(sequences, cache_bytes(inputs, cached_tokens)) * np.greater(cached_tokens, 0)
    return np.asarray(_weight_bytes(inputs, tokens) + cache)


def prompt_attention_flop(inputs: CostModelInputs) -> forward_pass.Quantity:
    """FLOP of attention over the prompt of one sequence; over its prefix, where that is in the cache, nothing."""

    def over(tokens: forward_pass.Quantity) -> forward_pass.Quantity:
        return forward_pass.attention_flop(
            width=inputs.attention_width,
            full_layers=inputs.full_layers,
            windowed_layers=inputs.windowed_layers,
            window=inputs.window,
            tokens=tokens,
        )

    return over(inputs.prompt_tokens) - over(inputs.prefix_tokens) if np.any(inputs.prefix_tokens) else over(inputs.prompt_tokens)


def read_tokens(inputs: CostModelInputs) -> forward_pass.Array:
    """Tokens of a prompt that are read: those that no cached prefix holds; shape (n,)."""
    return inputs.prompt_tokens - inputs.prefix_tokens


def _narrowness(inputs: CostModelInputs, constants: Constants) -> forward_pass.Array:
    """How much longer the products take than with wide matrices (`lib.laws.forward_pass.narrow_matrices`); shape (n,)."""
    i = inputs
    columns = i.active_parameters / np.maximum(i.layers * i.hidden * i.tensor_parallel * np.maximum(i.experts_per_token, 1.0), 1.0)
    return forward_pass.narrow_matrices(columns=columns, half_columns=np.exp(constants.width_half[0]) * (i.engine != HOST))


def _full_compute(inputs: CostModelInputs, constants: Constants, rates: ReachedRates) -> forward_pass.Array:
    """Achieved FLOP/s with enough rows for the full rate."""
    return forward_pass.achieved_compute(
        by_class=inputs.compute,
        logit=rates.compute_logit,
        class_logit=with_measured_share(constants.compute_class),
        rows=np.full(len(inputs), MANY_ROWS),
        half_rows=NO_HALF_ROWS,
    )


def time_forward_pass(
    inputs: CostModelInputs,
    constants: Constants,
    rates: ReachedRates,
    *,
    tokens: forward_pass.Quantity,
    cached_tokens: forward_pass.Quantity,
    sequences: forward_pass.Quantity,
) -> ForwardPass:
    """One pass over `tokens` tokens of `sequences` sequences whose caches hold `cached_tokens` tokens each."""
    i, k = inputs, constants
    # Seconds to read the weights and the cache.
    weights = _weight_bytes(i, tokens) / i.tensor_parallel / rates.bandwidth
    sequence_bytes = cache_bytes(i, np.where(i.static_cache_tokens > 0, i.static_cache_tokens, cached_tokens))
    read_s = sequences * sequence_bytes / np.minimum(i.tensor_parallel, i.cache_shards) / rates.cache_bandwidth
    cache = np.where(np.asarray(cached_tokens) > 0, read_s * i.cache_repeats, 0.0)
    # Seconds to copy a cache that grows by concatenation, and to unpack weights.
    grows = cache_bytes(i, cached_tokens) - i.cache_constant  # recurrent states and an encoder's keys stay where they are
    moved = np.multiply(sequences, forward_pass.cache_bytes_copied(cache_bytes=grows, repeats=i.cache_repeats))
    copy = np.where(i.cache_copied & (np.asarray(cached_tokens) > 0), moved / rates.copy_bandwidth, 0.0)
    unpacked = forward_pass.unpacked_bytes_moved(parameters=i.packed_parameters, rows=tokens, fused_rows=i.fused_rows)
    unpack = unpacked / i.tensor_parallel / rates.copy_bandwidth
    # Seconds of arithmetic.
    flop_per_s = forward_pass.achieved_compute(
        by_class=i.compute,
        logit=rates.compute_logit,
        class_logit=with_measured_share(k.compute_class),
        rows=np.broadcast_to(np.asarray(tokens, dtype=np.float64), len(i)),
        half_rows=np.append(np.exp(k.rows_half[0] + k.rows_half_class) * MATRIX_UNITS, 0.0),
    )
    flop = forward_pass.linear_flop(parameters=i.active_parameters, tokens=tokens, head_parameters=i.head_parameters, sequences=sequences)
    compute = flop / i.tensor_parallel / flop_per_s * _narrowness(i, k)
    # Seconds to launch kernels, and to exchange activations between devices.
    launch = forward_pass.launch_overhead(
        layers=i.layers,
        layer_s=rates.launch_layer_s,
        step_s=np.exp(k.launch_step_s[i.engine]) + np.exp(k.scheduling_s[0]) * i.scheduled_between,
        sequence_s=np.exp(k.launch_sequence_s[i.engine]),
        sequences=sequences,
        factor=rates.launch_factor,
    )
    layer_s = np.where(np.greater(tokens, sequences), np.exp(k.prompt_layer_s[i.engine]), 0.0)
    layer_s = np.where(i.unrecorded, np.maximum(layer_s, np.exp(k.launch_layer_s[EAGER_MODULES])), layer_s)
    prompt_launch = np.where(REPLAYS[i.engine], i.layers * layer_s * rates.launch_factor, 0.0)
    all_reduce = forward_pass.all_reduce_time(
        layers=i.layers, devices=i.tensor_parallel, tokens=tokens, hidden=i.hidden, latency_s=rates.all_reduce_latency, link=rates.link
    )
    # The parts overlap in the laws.
    device = forward_pass.device_time(weights_s=weights, compute_s=compute, cache_s=cache + copy, unpack_s=unpack, emulated=i.emulated)
    total = forward_pass.step_time(device_s=device, launch_s=launch, all_reduce_s=all_reduce, eager=i.eager, prompt_launch_s=prompt_launch)
    return ForwardPass(
        total=total,
        weights=weights,
        cache=cache,
        copy=copy,
        unpack=np.asarray(unpack),
        compute=compute,
        launch=np.asarray(launch),
        all_reduce=all_reduce,
    )


def time_prefill(inputs: CostModelInputs, constants: Constants, rates: ReachedRates, *, sequences: forward_pass.Quantity) -> Prefill:
    """Reading the prompts of `sequences` requests together."""
    i = inputs
    tokens = np.maximum(sequences * read_tokens(i), 1.0)
    matrices = time_forward_pass(i, constants, rates, tokens=tokens, cached_tokens=0.0, sequences=sequences)
    attention: forward_pass.Array = np.asarray(sequences) * prompt_attention_flop(i) / i.tensor_parallel / rates.attention
    chunks = np.maximum(1.0, tokens / MICRO_BATCH)  # a prompt is fed to the stages in micro-batches
    bubble = np.where(i.pipelined, forward_pass.pipeline_share(chunks=chunks, stages=i.pipeline_stages), 1.0)
    return Prefill(total=(matrices.total + attention) * bubble, matrices=matrices, attention=attention)


def steps_waited(inputs: CostModelInputs, constants: Constants) -> forward_pass.Array:
    """Decode steps that a new request waits for while others decode (κ of `lib.laws.serving`); shape (n,)."""
    return np.asarray(np.exp(constants.steps_waited[0]) + inputs.held_steps)


def time_serving(inputs: CostModelInputs, constants: Constants) -> ServingTimes:
    """All times of each row, with the requests that it runs at once."""
    i, k = inputs, constants
    rates = reach_rates(i, k)
    batch = i.running_requests / i.replicas
    mean = i.prompt_tokens + i.output_tokens * MEAN_FILL
    # One step of all requests, then the mean number that decodes while prompts are read.
    together = time_prefill(i, k, rates, sequences=batch)
    step = time_forward_pass(i, k, rates, tokens=batch, cached_tokens=mean, sequences=batch)
    alone = time_prefill(i, k, rates, sequences=1.0)
    busy = decoding_requests(requests=batch, prompt_s=alone.total, step_s=step.total, output_tokens=i.output_tokens)
    busy_step = time_forward_pass(i, k, rates, tokens=busy, cached_tokens=mean, sequences=busy)
    # Means in a closed loop.
    tpot_s = time_per_output_token(
        step_s=busy_step.total,
        prompt_s=alone.total,
        requests=batch,
        output_tokens=i.output_tokens,
        interference=np.exp(k.chunked_prefill[0]),
    )
    decoding = chance_of_decoding(requests=batch, prompt_s=alone.total, step_s=step.total, output_tokens=i.output_tokens)
    first_token = time_to_first_token(
        prompt_s=alone.total,
        requests=batch,
        decoding=decoding,
        queued=np.exp(k.prefill_queue[0]),
        bunched=np.exp(k.bunched[0]) * i.bunched_arrivals,
        tpot_s=tpot_s,
        steps=steps_waited(i, k),
        output_tokens=i.output_tokens,
        fixed_s=np.exp(k.ttft_fixed_s[i.engine]),
    )
    return ServingTimes(
        step=step,
        busy_step=busy_step,
        prefill=together,
        lone_prefill=alone,
        request_s=np.exp(k.request_s[i.engine]),
        decoding_sequences=busy,
        first_token=first_token,
        tpot_s=np.asarray(tpot_s),
    )


def full_load_throughput(inputs: CostModelInputs, constants: Constants) -> forward_pass.Array:
    """Generated tokens per second when more requests wait than the engine takes; prompts are read in full chunks between steps."""
    i = inputs
    rates = reach_rates(i, constants)
    batch = running_requests(
        limit=MAX_SEQS[i.engine],
        memory=i.memory * i.tensor_parallel * i.pipeline_stages,
        weight_bytes=i.dense_bytes + i.expert_bytes,
        sequence_bytes=cache_bytes(i, i.prompt_tokens + i.output_tokens * FULL_LOAD_FILL),
    )
    step = time_forward_pass(
        i, constants, rates, tokens=batch, cached_tokens=i.prompt_tokens + i.output_tokens * MEAN_FILL, sequences=batch
    )
    flop = forward_pass.linear_flop(parameters=i.active_parameters, tokens=i.prompt_tokens, head_parameters=i.head_parameters)
    prompt_s = flop / _full_compute(i, constants, rates) * _narrowness(i, constants) + prompt_attention_flop(i) / rates.attention
    each = serving.full_load_throughput(
        prompt_s=prompt_s / i.tensor_parallel, step_s=step.total, running=batch, output_tokens=i.output_tokens
    )
    return np.asarray(i.replicas * i.pipeline_stages * each * np.exp(constants.full_load[0]))
