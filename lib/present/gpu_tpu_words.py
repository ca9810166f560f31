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
        "framework_jax": "JAX is compiled by XLA on every device, so the program runs on a TPU as it is.",
        "framework_pytorch": "Training in PyTorch reaches a TPU through torch_tpu, which is in beta; PyTorch/XLA is to be replaced by it.",
        "framework_tensorflow": "Not every TensorFlow operation runs on a TPU, and TPU7x does not run TensorFlow at all.",
        "shapes_every_step": "Shapes that change at every step are compiled again and again; a start of vLLM on TPU compiles for "
        "{first_minutes}, with its cache for about {cached_minutes}.",
        "shapes_buckets": "Every bucket of shapes is compiled once and then padded to: a start of vLLM on TPU takes {first_minutes}, "
        "with its cache about {cached_minutes}.",
        "shapes_never": "Shapes that never change are compiled once, which suits a TPU's matrix units.",
        "kernels_cuda": "CUDA kernels do not run on a TPU: each would have to be written again in Pallas or as plain operations.",
        "kernels_triton": "Triton kernels do not run on a TPU: each would have to be written again in Pallas or as plain operations.",
        "kernels_pallas": "Pallas kernels are what TPUs are programmed with.",
        "control_flow_irregular": "Programs that branch often on their data are among those that TPUs are not suited to.",
        "sparsity_unstructured": "Element-wise work on unstructured zeros leaves a TPU's matrix units idle.",
        "embeddings_very_large": "TPUs have SparseCores for the very large embedding tables of ranking and recommendation.",
        "place_on_prem": "Cloud TPUs stand in Google's data centres only; GPUs can be bought.",
        "place_outside_gcp": "TPUs are rented out by Google Cloud only.",
        "place_edge": "Cloud TPUs are not sold for the edge (the Edge TPU is another chip, for small int8 models).",
        "place_multi_cloud": "GPUs are rented out by every cloud, TPUs by one.",
        "place_regulated": "Rules on where data may be leave fewer places to choose from, and TPUs are offered in fewer regions.",
        "place_on_gcp": "The data and the accounts are at Google Cloud already, where TPUs are.",
        "precision_fp64": "No TPU computes in FP64.",
        "precision_fp32": "TPUs multiply in bf16; arithmetic of high precision is among what they are not suited to.",
        "precision_fp4": "No TPU of this catalog computes in FP4; Blackwell GPUs do.",
        "chips_pod": "{answer} chips work together over one interconnect: a slice goes up to {largest_slice} chips in this catalog, "
        "an offer of GPUs to {largest_gpu_offer} cards.",
        "chips_many": "{answer} chips are one slice of TPUs; here an offer of GPUs goes up to {largest_gpu_offer} cards.",
        "training_steps_long": "{answer} steps pay for compiling once; models that train for weeks are what TPUs are optimised for.",
        "training_steps_short": "{answer} steps: compiling takes a large part of so short a run.",
        "latency_tail": "A TPU reaches its rate at large batches (v6e does {v6e_flop_per_byte!s} FLOP per byte read); a limit on the "
        "slowest requests keeps batches small.",
        "batch_large_regular": "Large, regular batches fill a TPU's matrix units.",
        "batch_small_irregular": "Small or irregular batches leave a TPU's matrix units idle, and are padded to compiled shapes.",
        "team_cuda": "The team knows CUDA; sharding and profiling with XLA would have to be learnt.",
        "team_jax": "The team knows JAX and XLA.",
        "work_experiments": "Experiments change the program often; eager PyTorch on a GPU shows a mistake where it is made.",
        "budget_interruptible": "Work that may be interrupted rents spot slices: v6e in us-central1 was {spot_usd} an hour and chip "
        "instead of {list_usd}. The GPU offers here have no spot price.",
        "budget_committed": "A commitment lowers the price of v6e from {list_usd} an hour and chip to {one_year_usd} for one year and "
        "{three_years_usd} for three. The GPU offers here have none.",
        "engine_none_on_tpu": "No serving engine that this catalog knows runs {model} ({task}) on a TPU in this precision; it would need "
        "serving code of its own.",
        "support_passing": "{package} {release} was tested with {model} on {tested!s} and passed ({checked}).",
        "support_elsewhere": "{package} {release} was tested with {model} on {tested!s} and passed ({checked}), but not on "
        "{generation!s}, which has the lowest price per token here.",
        "support_untested": "{model} is untested on {package} {release} ({checked}): it may run, and it may not.",
        "fits_no_gpu_offer": "{model} fits slices of TPU, and no GPU offer of this catalog in this precision.",
        "fits_no_tpu_slice": "{model} fits GPU offers, and no slice of TPU of this catalog in this precision.",
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
        "weights_are_judgement": "The weights of the reasons are this project's judgement; what they rest on has a source each.",
        "tpu_prices_are_secondary": "Prices of TPUs come from copies of Google's list, not from the list itself.",
        "commitments_known_for_v6e": "Prices with a commitment were found for v6e only, in the regions with its lowest price.",
        "spot_changes": "Spot prices change, and a spot slice can be taken back at any time.",
        "context_cut": "This model takes {limit_tokens} tokens at most, so everything is judged at that length, not at {asked_tokens}.",
        "limit_not_kept": "No {kind} option is predicted to answer within {max_ttft_s}: {hardware!s} comes nearest with {ttft_s}. "
        "The limit therefore favours neither side.",
        "limit_not_kept:unknown": "No {kind} option is predicted to answer within {max_ttft_s}, for no speed is predicted on any. "
        "The limit therefore favours neither side.",
        "no_slice_compared": "No slice of TPU is compared: no serving engine of this catalog runs this kind of model there, so nothing is "
        "known of its memory, speed or price on a TPU.",
        "precisions_differ": "The prices are those of different precisions: {tpu!s} in {tpu_precision!s}, {gpu!s} in {gpu_precision!s}. "
        "Ask for one precision to compare like with like.",
        "priced_by_the_hour": "No price per million output tokens is known here, for the model generates none or its speed is not "
        "predicted: what holds it is listed by its price per hour.",
        "nothing_compared": "Nothing is compared: no GPU offer and no slice of TPU of this catalog is predicted to run this model within "
        "what was asked. /recommend says why each offer does not.",
        "options_serve": "Options and chips needed are those of serving this model; training it takes more memory and other hardware.",
        "options_in_bf16": "No slice of TPU computes in {precision}: memory, speed and prices are those of bf16.",
    }
)

SUPPORT: Mapping[str, str] = MappingProxyType(
    {
        "passing": "tested, passes",
        "not_enough_hbm": "tested, the test's chips have not enough memory",
        "untested": "untested",
    }
)


def replicas_sentence(replicas: int) -> str:
    """A slice that holds the model, but not all sequences at once."""
    return f"It holds the model, but not all requests at once: {replicas} of them would share the requests."


def guidance_sentence(parameters: int, advised: int, by_laws: int | None, limit: int) -> str:
    """The old advice on sizes beside what memory takes."""
    size = f"{parameters / 1e9:.1f} billion parameters"
    old = f"For {size} Hugging Face advised {advised} chip{'s' if advised > 1 else ''} of v5e (1 up to {limit / 1e9:.0f} billion, 4 above; "
    old += "more chips for lower latency)."
    if by_laws is None:
        return f"{old} By the laws of memory no slice of v5e holds it in this precision at this load."
    agree = "the same" if by_laws == advised else "more" if by_laws > advised else "fewer"
    return f"{old} By the laws of memory it takes {by_laws} at this load: {agree}."
