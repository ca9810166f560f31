"""How a checkpoint is stored: the format of its weights, the modules left unquantized, and its tensors other than parameters.

Two files can say the format: `quantization_config` inside config.json (fp8, mxfp4, gptq, awq, bitsandbytes, compressed-tensors, torchao …),
and NVIDIA's `hf_quant_config.json`. An unknown method or variant gets an empty format and a caveat. Its bytes come from the files' headers
or are not counted.

Each method matches the names of modules to skip its own way, and the names are those of the published files, which `transformers` may
have renamed since: its own renaming rules are applied to the list. A list that names single experts leaves the fused module alone.
Expressions in a list come from outside: one that takes too long ends with the process that builds the model, at its deadline.

Stored elements differ from parameters for a few reasons only (`reconcile`), each recognised by the tensors' names, dtypes and places:
layers for multi-token prediction that `transformers` does not load, a tied head stored twice, scales of quantized weights, weights packed
several to an element. A caveat names the unexplained rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import translate
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lib.errors import quote_value
from lib.laws.weights import is_tied
from lib.model.spec import ModelSpec, Quantization, StoredTensor
from lib.precision import NAMES, weight_format
from lib.provenance import Caveat

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MAX_PATTERNS = 20_000
_MAX_NAME = 300
_SKIP_KEYS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "exclude_modules", "ignored_layers", "modules_to_not_quantize")
Format = tuple[str, int]
"""Name of the format (empty: not known here), weights per scale (0: the format's customary number, -1: a row)."""


def _whole(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _fp8(statement: Mapping[str, Any]) -> Format:
    block = statement.get("weight_block_size")
    if block is None:
        return "fp8-tensor", 0
    if not isinstance(block, (list, tuple)) or len(set(map(str, block))) != 1:
        return "", 0
    return ("fp8-block-e8m0" if statement.get("scale_fmt") == "ue8m0" else "fp8-block"), _whole(block[0])


def _bitsandbytes(statement: Mapping[str, Any]) -> Format:
    if statement.get("load_in_8bit") or statement.get("_load_in_8bit"):
        return "bnb-int8", 0
    kind = statement.get("bnb_4bit_quant_type", "fp4")
    if kind == "nf4":
        return ("bnb-nf4-double" if statement.get("bnb_4bit_use_double_quant") else "bnb-nf4"), 0
    return ("bnb-fp4" if kind == "fp4" and not statement.get("bnb_4bit_use_double_quant") else ""), 0


def _by_bits(names: Mapping[int, str], bits: str = "bits", group: str = "group_size") -> Callable[[Mapping[str, Any]], Format]:
    def read(statement: Mapping[str, Any]) -> Format:
        return names.get(_whole(statement.get(bits)), ""), _whole(statement.get(group, statement.get("q_group_size")))

    return read


def _read_compressed_tensors(statement: Mapping[str, Any]) -> Format:
    groups = statement.get("config_groups")
    weights = [g.get("weights") for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []
    schemes = [scheme for scheme in weights if isinstance(scheme, Mapping)]
    if len({(str(s.get("num_bits")), str(s.get("type")), str(s.get("strategy")), str(s.get("group_size"))) for s in schemes}) != 1:
        return "", 0
    scheme = schemes[0]
    kind, bits, strategy, group = (
        str(scheme.get("type")),
        _whole(scheme.get("num_bits")),
        scheme.get("strategy"),
        _whole(scheme.get("group_size")),
    )
    if kind == "float" and bits == 4:  # noqa: PLR2004
        return {16: ("nvfp4", 16), 32: ("mxfp4", 32)}.get(group, ("", 0))
    if kind == "int" and bits == 4 and strategy in {"group", "channel"}:  # noqa: PLR2004
        return "int4-group", group or -1
    by_strategy = {"channel": "channel", "tensor": "tensor", "block": "block"}.get(str(strategy), "")
    eight = bits == 8 and by_strategy  # noqa: PLR2004
    name = f"{'fp8' if kind == 'float' else 'int8'}-{by_strategy}" if eight else ""
    return (name if name in NAMES else ""), 0


_ALGORITHMS = {
    "FP8": "fp8-tensor", "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8_PB_WO": "fp8-block", "W4A16_AWQ": "awq-4", "MXFP4": "mxfp4",
}  # fmt: skip
"""Formats by ModelOpt's `quant_algo`."""
_MIXED = "MIXED_PRECISION"
_EXPERT_FORMATS = {"fp4": "mxfp4"}
"""Formats by `expert_dtype`: two weights a byte and an exponent byte for 32 (NVIDIA-NeMo/Automodel, issue 2034, read 2026-11-25)."""


def _modelopt(statement: Mapping[str, Any]) -> Format:
    return _ALGORITHMS.get(str(statement.get("quant_algo", "")).upper(), ""), _whole(statement.get("group_size"))


def _layer_formats(statement: Mapping[str, Any]) -> dict[str, str]:
    """The format of each listed module where ModelOpt mixed several ("": not known here); empty for every other checkpoint."""
    listed = statement.get("quantized_layers")
    if str(statement.get("quant_algo", "")).upper() != _MIXED or not isinstance(listed, Mapping):
        return {}
    names = [name for name in listed if isinstance(name, str) and len(name) <= _MAX_NAME][:_MAX_PATTERNS]
    return {name: _modelopt(listed[name])[0] if isinstance(listed[name], Mapping) else "" for name in names}


def _torchao(statement: Mapping[str, Any]) -> Format:
    text = str(statement.get("quant_type", "")).lower()
    eight = "fp8-channel" if "float8" in text else "int8-channel" if "int8" in text and "int4" not in text else ""
    return ("int4-group", _whole(statement.get("group_size"), 128)) if "int4weightonly" in text.replace("_", "") else (eight, 0)


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], Format]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _statement: ("fp8-channel", 0),
    "mxfp4": lambda _statement: ("mxfp4", 0),
    "bitsandbytes": _bitsandbytes,
    "gptq": _by_bits({4: "gptq-4", 8: "gptq-8"}),
    "auto-round": _by_bits({4: "gptq-4", 8: "gptq-8"}),
    "awq": _by_bits({4: "awq-4"}),
    "compressed-tensors": _read_compressed_tensors,
    "modelopt": _modelopt,
    "torchao": _torchao,
    "eetq": lambda _statement: ("int8-channel", 0),
    "quanto": lambda statement: ({"int8": "int8-channel", "float8": "fp8-channel"}.get(str(statement.get("weights")), ""), 0),
}


def _first_statement(config: Mapping[str, Any], beside: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The first statement found: in the file, in its text part, or in the second file."""
    text = config.get("text_config")
    for place in (config, text if isinstance(text, Mapping) else {}):
        for key in ("quantization_config", "compression_config"):
            if isinstance(place.get(key), Mapping) and place[key]:
                return place[key]  # type: ignore[no-any-return]
    inner = (beside or {}).get("quantization")
    if not isinstance(inner, Mapping) or not inner.get("quant_algo"):
        return None
    return {"quant_method": "modelopt", **inner}


def read_quantization(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> tuple[Quantization | None, tuple[Caveat, ...]]:
    """Storage of the checkpoint, as it states it.

    Args:
        config: the parsed config.json.
        beside: the parsed hf_quant_config.json of the same repository, if it has one.

    Returns:
        None for an unquantized checkpoint; and a caveat when the method is not known here.
    """
    statement = _first_statement(config, beside)
    if statement is None:
        return None, ()
    method = statement.get("quant_method")
    if method is None and (statement.get("load_in_4bit") or statement.get("load_in_8bit")):
        method = "bitsandbytes"
    elif method is None and statement.get("quant_algo"):
        method = "modelopt"
    name = str(method)[:60].lower().replace("intel/", "")
    form, group = _METHODS[name](statement) if name in _METHODS else ("", 0)
    if layers := _layer_formats(statement):
        known = set(layers.values())  # most parameters are stored in the format with the fewest bits
        form, group = "" if "" in known else min(known, key=lambda each: weight_format(each).effective_bits), 0
    names = next((statement[key] for key in _SKIP_KEYS if isinstance(statement.get(key), (list, tuple))), ())
    skipped = tuple(each for each in names if isinstance(each, str))[:_MAX_PATTERNS]
    quantization = Quantization(method=name, format=form, group_size=group, skipped=skipped)
    if form:
        return quantization, ()
    return quantization, (Caveat("unknown_quantization", {"method": quote_value(name)}),)


def read_layer_formats(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Mapping[str, str]:
    """The format of each module of a checkpoint that mixes several, by the module's published path; empty for every other checkpoint.

    The arguments are those of `read_quantization`. Modules that ModelOpt does not list are not quantized. DeepSeek-V4 states the format
    of its routed experts and the quantization of all other matrices (`expert_dtype`).
    """
    statement = _first_statement(config, beside)
    if statement is None:
        return {}
    experts = _EXPERT_FORMATS.get(str(config.get("expert_dtype")), "") if statement.get("quant_method") == "fp8" else ""
    return _layer_formats(statement) or ({".experts": experts} if experts else {})


Test = Callable[[str], bool]
_BY_TRANSFORMERS = frozenset({"fp8", "fbgemm_fp8", "mxfp4", "bitsandbytes", "torchao", "eetq", "quanto"})


def _rename(model: PreTrainedModel, names: tuple[str, ...]) -> set[str]:
    """The listed names in the words of the installed library, with the published ones kept."""
    from transformers.conversion_mapping import get_model_conversion_mapping  # noqa: PLC0415 loaded when first needed

    rules = get_model_conversion_mapping(model)
    renamed = set(names)
    for name in names:
        new = name + "."
        for rule in rules:
            new, _ = rule.rename_source_key(new)
        renamed.add(new.removesuffix("."))
    return renamed


def _compile_patterns(names: Iterable[str]) -> list[re.Pattern[str]]:
    """The listed patterns without invalid ones: "re:" marks a regular expression, anything else has wildcards.

    A list comes from outside. What a pattern may take is bounded by the deadline of the process that builds the model.
    """
    patterns: list[re.Pattern[str]] = []
    for name in names:
        with suppress(re.error, RecursionError, OverflowError):
            patterns.append(re.compile(name.removeprefix("re:") if name.startswith("re:") else translate(name)))
    return patterns


def _literal(names: set[str]) -> Test:
    """Exact names, parents of a module, ends of its path, or single experts below it."""
    lengths = {len(n) for n in names}
    experts = {n.partition(".experts.")[0] + ".experts" for n in names if ".experts." in n}

    def test(path: str) -> bool:
        ending = any(path[len(path) - n :] in names for n in lengths if n <= len(path))
        parts = path.split(".")
        return path in experts or ending or any(".".join(parts[:n]) in names for n in range(1, len(parts) + 1))

    return test


def format_test(layers: Mapping[str, str], model: PreTrainedModel) -> Callable[[str], str]:
    """The format of the module at a path where a checkpoint states one for each (`layers`); "" if it states none."""
    tests = {
        form: _literal(_rename(model, tuple(name for name, of in layers.items() if of == form))) for form in sorted(set(layers.values()))
    }
    return cache(lambda path: next((form for form, test in tests.items() if test(path)), ""))


def skip_test(quantization: Quantization | None, model: PreTrainedModel, layers: Mapping[str, str] = MappingProxyType({})) -> Test:
    """Whether the module at a path is left in its own dtype.

    A method of `transformers` keeps float32 modules too and, without a list, the head and tied weights, as a load would. Where `layers`
    lists the quantized modules, ModelOpt leaves all others.
    """
    if quantization is None:
        return lambda _path: False
    skipped = tuple(name for name in quantization.skipped if len(name) <= _MAX_NAME)
    if quantization.method in _BY_TRANSFORMERS:
        from transformers.quantizers.base import HfQuantizer  # noqa: PLC0415 loaded when first needed

        in_fp32 = list(model._keep_in_fp32_modules or ())  # noqa: SLF001
        skipped = tuple(HfQuantizer.get_modules_to_not_convert(model, list(skipped) or None, in_fp32))
    names = _rename(model, skipped)
    plain = {n for n in names if not n.startswith("re:") and not set(n) & set("*?[")}
    patterns, literal = _compile_patterns(sorted(names - plain)), _literal(plain)
    listed = _literal(_rename(model, tuple(layers))) if layers and quantization.method == "modelopt" else None

    def test(path: str) -> bool:
        return (listed is not None and not listed(path)) or literal(path) or any(pattern.match(path) for pattern in patterns)

    return cache(test)


# A header may hold hundreds of thousands of names of a thousand characters each, so no expression here may go back over a name.
_MTP = re.compile(r"(?:^|\.)(?:mtp|mtp_\w+|nextn|eh_proj|enorm|hnorm|shared_head)(?:\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)(?=\.)")
_SCALES = (
    "scale", "scales", "scale_inv", "scale_2", "absmax", "quant_map", "qzeros", "zero_point", "zeros", "g_idx", "SCB", "weight_shape",
)  # fmt: skip
_BUFFERS = ("position_ids", "inv_freq", "masked_bias", "attn.bias", "attention.bias", "e_score_correction_bias")
_PACKED = frozenset({"U8", "I32", "I8", "F4", "F8_E8M0"})


def _elements(tensors: Iterable[StoredTensor]) -> int:
    return sum(math.prod(t.shape) for t in tensors)


def _layer_number(name: str) -> int:
    """The number of the innermost layer that the tensor belongs to; -1 for none."""
    numbers = _LAYER.findall(name)
    return int(numbers[-1]) if numbers else -1


def _is_scale(name: str) -> bool:
    """Whether the name is that of data which quantization adds: a scale, a zero point, or a part of bitsandbytes' state."""
    parent, _, last = name.rpartition(".")
    return name.endswith(_SCALES) or "nested_" in last[:-1] or (parent.endswith("quant_state") and last != "")


def _extra_layers(spec: ModelSpec, tensors: Mapping[str, StoredTensor]) -> set[str]:
    """Tensors of layers that the architecture does not have."""
    last = spec.dimensions.layers
    beyond = {n for n in tensors if last and _layer_number(n) >= last and "vision" not in n and "audio" not in n}
    return beyond | {n for n in tensors if _MTP.search(n)}


def _missing_head(spec: ModelSpec, tensors: Mapping[str, StoredTensor]) -> int:
    """Parameters of an output head that the architecture has and the files have not (embedding models)."""
    heads = [g for g in spec.tensors if g.kind == "head"]
    stored = {n.rpartition(".")[0].rpartition(".")[2] for n in tensors}
    return sum(g.parameters for g in heads if g.name.rpartition(".")[0].rpartition(".")[2] not in stored)


def reconcile(spec: ModelSpec, tensors: Mapping[str, StoredTensor]) -> tuple[Caveat, ...]:
    """Caveats that account for the difference between stored elements and parameters.

    Args:
        spec: the architecture's counts.
        tensors: every tensor of the checkpoint, by name.
    """
    if not tensors or spec.source == "rule_of_thumb":
        return ()
    stored = _elements(tensors.values())
    difference = stored - spec.parameters_total
    if difference == 0:
        return ()
    extra = _extra_layers(spec, tensors)
    scales = {n for n in tensors if n not in extra and _is_scale(n)}
    heads = {n for n in tensors.keys() - extra if n.endswith("lm_head.weight") or n == "output.weight"}
    second_heads = heads if is_tied(spec.tensors) else set()
    buffers = {n for n in tensors if n not in extra and n.endswith(_BUFFERS)}
    packed = {n for n, t in tensors.items() if n not in extra | scales and t.dtype in _PACKED}
    reasons = (("extra_layers_stored", extra), ("tied_weight_stored", second_heads), ("buffers_stored", buffers), ("scales_stored", scales))
    caveats = [Caveat(code, {"elements": _elements(tensors[n] for n in names), "stored": stored}) for code, names in reasons if names]
    explained = sum(_elements(tensors[n] for n in names) for _code, names in reasons)
    if missing := _missing_head(spec, tensors):
        explained -= missing
        caveats.append(Caveat("head_not_stored", {"parameters": missing}))
    if packed:
        count = _elements(tensors[n] for n in packed)
        caveats.append(Caveat("packed_weights", {"elements": count}))
    elif explained != difference:
        values = {"stored": stored, "parameters": spec.parameters_total, "unexplained": abs(difference - explained)}
        caveats.append(Caveat("unexplained_difference", values))
    return tuple(caveats)
