"""Models, hardware and flags that a text names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_MOST = 6
_OWNER = r"[A-Za-z0-9][\w.-]{1,38}"
_NAME = r"[A-Za-z0-9][\w.-]{1,80}"
_BEFORE_MODEL = (
    r"--model(?:-path|-id|_id|_name_or_path)?[= ]", "vllm serve ", r"model(?:_id|_path|_name|_name_or_path)?['\"]?[=:] ?",
    r"from_pretrained\(", r"pipeline\([^)]{0,60}model=", "-hf ", r"huggingface\.co/api/models/", r"huggingface\.co/",
)  # fmt: skip
"""Words that precede the id of a model."""
_MODELS = (re.compile(rf"(?:{'|'.join(_BEFORE_MODEL)})['\"(]{{0,3}}({_OWNER}/{_NAME})"),)
_NOT_MODELS = frozenset(
    {
        "api",
        "docs",
        "spaces",
        "datasets",
        "settings",
        "subscribe",
        "blog",
        "models",
        "home",
        "usr",
        "tmp",
        "root",
        "app",
        "data",
        "mnt",
        "opt",
    }
)
_CARDS = re.compile(
    r"(?:RTX PRO \d000(?: Blackwell)?(?: (?:Server|Workstation)(?: Edition)?)?|RTX A?\d{4}(?: ?Ti)?(?: ?SUPER)?(?: Ada(?: Generation)?)?"
    r"|GTX \d{4}(?: ?Ti)?|(?:NVIDIA|Tesla) (?:T4|L40S?|L4|L20|A100|A10G?|A40|H100|H200|H20|B200|B300|P100|V100|P40)"
    r"(?:[- ](?:SXM\d?|PCIE|PCIe|NVL))?(?:[- ]\d{2,3} ?GB)?|MI(?:250X?|300X|325X|355X)|TPU v(?:5e|5p|6e|2|3|4)|v(?:5e|5p|6e)-\d{1,3})\b"
)
_FLAG_NAMES = (
    "gpu_memory_utilization max_model_len max_num_seqs max_num_batched_tokens tensor_parallel_size tp_size pipeline_parallel_size "
    "data_parallel_size kv_cache_dtype quantization dtype mem_fraction_static num_shard max_batch_prefill_tokens max_batch_total_tokens "
    "max_input_tokens max_input_length max_total_tokens ctx_size n_gpu_layers load_in_4bit load_in_8bit torch_dtype enforce_eager "
    "max_running_requests chunked_prefill_size cuda_memory_fraction kv_cache_free_gpu_memory_fraction"
)
_FLAG_VALUES = (
    r"\d[\d.]{0,11}", "auto", "half", r"b?float\d{1,2}", r"u?int\d", r"fp\d\w{0,8}", r"awq\w{0,10}", r"gptq\w{0,10}", "bitsandbytes",
    "True", "False",
)  # fmt: skip
_FLAGS = re.compile(
    rf"({'|'.join(_FLAG_NAMES.replace('_', '[-_]').split())})['\"]?[= :]{{1,3}}['\"]?(?:torch\.)?({'|'.join(_FLAG_VALUES)})\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Names in a text."""

    models: tuple[str, ...] = ()
    """Ids of models, in the order of the text."""
    cards: tuple[str, ...] = ()
    """Cards as they are printed."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Settings of a server, the last value of each, with underscores in their names."""


def find_names(text: str) -> Named:
    """The models, cards and flags of a text, whose secrets are masked."""
    models: dict[str, None] = {}
    for pattern in _MODELS:
        for match in pattern.finditer(text):
            name = match[1].rstrip(".-_")
            if name.split("/")[0] not in _NOT_MODELS and len(models) < _MOST:
                models[name] = None
    cards: dict[str, str] = {}
    for match in _CARDS.finditer(text):
        name = " ".join(match[0].split())
        if text[match.start() - 1 : match.start()].isalnum():
            continue
        folded = name.casefold().removeprefix("nvidia ").removeprefix("tesla ").removeprefix("geforce ").replace("-", "").replace(" ", "")
        if len(cards) < _MOST:
            cards.setdefault(folded, name)
    flags = {match[1].replace("-", "_"): match[2] for match in _FLAGS.finditer(text)}
    return Named(models=tuple(models), cards=tuple(cards.values()), flags=flags)
