"""The words of the choice between GPU and TPU: a sentence for every rule, verdicts, and what engines were tested with.

`lib.present.sentences` reads `RULES` with the other reasons; values in braces are shown as it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

VERDICTS: Mapping[str, str] = MappingProxyType(
    {"gpu": "Choose a GPU", "tpu": "Choose a TPU", "either": "Either will do", "both": "Both, by stage"}
)
SIDES: Mapping[str, str] = MappingProxyType({"gpu": "GPU", "tpu": "TPU", "either": "either"})
WEIGHTS: Mapping[int, str] = MappingProxyType({1: "slightly", 2: "clearly", 3: "strongly"})
COMMITMENTS: Mapping[str, str] = MappingProxyType(
    {"on_demand": "on demand", "spot": "spot", "1_year": "one year committed", "3_years": "three years committed"}
)

_PRICES = "A million output tokens cost {tpu_usd} on {tpu!s} ({commitment}, {region!s}) and {gpu_usd} on {gpu!s} (list price)."

RULES: Mapping[str, str] = MappingProxyType(
    {
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
        "training_steps_long": "{answer} steps: compiling once takes little of so long a run, and TPUs are optimised for models that "
        "train for weeks.",
        "training_steps_short": "{answer} steps: compiling takes a large part of so short a run.",
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
        "support_passing": "{package} {release} was tested with {model} on {tested!s} and passed ({checked}).",
        "support_elsewhere": "{package} {release} was tested with {model} on {tested!s} and passed ({checked}), but not on "
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
)

CAVEATS: Mapping[str, str] = MappingProxyType(
    {
        "weights_are_judgement": "The weights of the reasons are this project's judgement; each fact behind them has a source.",
        "tpu_prices_are_secondary": "Prices of TPUs come from copies of Google's list, not from the list itself.",
        "commitments_known_for_v6e": "Prices with a commitment were found for v6e only, in the regions with its lowest price.",
        "spot_changes": "Spot prices change, and a spot slice can be taken back at any time.",
        "context_cut": "This model takes {limit_tokens} tokens at most, so everything is judged at that length, not at {asked_tokens}.",
        "limit_not_kept": "No {kind} option is predicted to answer within {max_ttft_s}: {hardware!s} comes nearest with {ttft_s}. "
        "The limit therefore favours neither side.",
        "limit_not_kept:unknown": "No {kind} option is predicted to answer within {max_ttft_s}, because no speed is predicted on any of "
        "them. The limit therefore favours neither side.",
        "no_slice_compared": "No TPU slice is compared: no serving engine of this catalog runs this kind of model there, so nothing is "
        "known of its memory, speed or price on a TPU.",
        "precisions_differ": "The prices are for different precisions: {tpu!s} in {tpu_precision!s}, {gpu!s} in {gpu_precision!s}. "
        "Ask for one precision to compare like with like.",
        "priced_by_the_hour": "No price per million output tokens is known here, because the model generates none or its speed is "
        "not predicted: hardware that holds it is sorted by its price per hour.",
        "nothing_compared": "Nothing is compared: no GPU offer and no TPU slice of this catalog is predicted to run this model within "
        "these limits. /recommend says why each offer does not.",
        "options_serve": "Options and chips are counted for serving this model; training it takes more memory and other hardware.",
        "options_in_bf16": "No TPU of this catalog computes in {precision}: memory, speed and prices are those of bf16.",
    }
)

SUPPORT: Mapping[str, str] = MappingProxyType(
    {
        "passing": "tested, passes",
        "not_enough_hbm": "tested, the tested chips have too little memory",
        "untested": "untested",
    }
)


def replicas_sentence(replicas: int) -> str:
    """A slice that holds the model, but not all sequences at once."""
    return f"It holds the model, but not all requests at once: {replicas} of them would share the requests."


def guidance_sentence(parameters: int, advised: int, by_memory: int | None, limit: int) -> str:
    """Hugging Face's older advice on chips by size, beside the chips that this app counts by memory; `None`: no slice holds it."""
    size = f"{parameters / 1e9:.1f} billion parameters"
    old = f"For {size} Hugging Face advised {advised} chip{'s' if advised > 1 else ''} of v5e (1 up to {limit / 1e9:.0f} billion, 4 above; "
    old += "more chips for lower latency)."
    if by_memory is None:
        return f"{old} By this app's memory estimate no slice of v5e holds it in this precision at this load."
    agree = "the same" if by_memory == advised else "more" if by_memory > advised else "fewer"
    return f"{old} By this app's memory estimate it takes {by_memory} at this load: {agree}."
