"""How a checkpoint is stored, from what it says about itself.

Two files can say it: `quantization_config` inside config.json (fp8, mxfp4, gptq, awq, bitsandbytes, compressed-tensors, torchao …),
and NVIDIA's `hf_quant_config.json` beside it. A method or a variant that is not known here gets an empty format and a caveat,
so that bytes are taken from the files' headers or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lib.errors import shown
from lib.model.spec import Quantization
from lib.provenance import Caveat

_MAX_PATTERNS = 20_000
_SKIP_KEYS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "exclude_modules", "ignored_layers", "modules_to_not_quantize")
Found = tuple[str, int]
"""Name of the format (empty: not known here), weights per scale (0: the format's customary number, -1: a row)."""


def _whole(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _fp8(said: Mapping[str, Any]) -> Found:
    block = said.get("weight_block_size")
    if block is None:
        return "fp8-tensor", 0
    if not isinstance(block, (list, tuple)) or len(set(map(str, block))) != 1:
        return "", 0
    return ("fp8-block-e8m0" if said.get("scale_fmt") == "ue8m0" else "fp8-block"), _whole(block[0])


def _bitsandbytes(said: Mapping[str, Any]) -> Found:
    if said.get("load_in_8bit") or said.get("_load_in_8bit"):
        return "bnb-int8", 0
    kind = said.get("bnb_4bit_quant_type", "fp4")
    if kind == "nf4":
        return ("bnb-nf4-double" if said.get("bnb_4bit_use_double_quant") else "bnb-nf4"), 0
    return ("bnb-fp4" if kind == "fp4" and not said.get("bnb_4bit_use_double_quant") else ""), 0


def _by_bits(names: Mapping[int, str], bits: str = "bits", group: str = "group_size") -> Callable[[Mapping[str, Any]], Found]:
    def read(said: Mapping[str, Any]) -> Found:
        return names.get(_whole(said.get(bits)), ""), _whole(said.get(group, said.get("q_group_size")))

    return read


def _compressed(said: Mapping[str, Any]) -> Found:
    groups = said.get("config_groups")
    listed = [g.get("weights") for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []
    schemes = [scheme for scheme in listed if isinstance(scheme, Mapping)]
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
    return (name if name in {"fp8-channel", "fp8-tensor", "fp8-block", "int8-channel"} else ""), 0


def _modelopt(said: Mapping[str, Any]) -> Found:
    algorithm = str(said.get("quant_algo", "")).upper()
    return {"FP8": "fp8-tensor", "NVFP4": "nvfp4", "FP8_PB_WO": "fp8-block", "W4A16_AWQ": "awq-4", "MXFP4": "mxfp4"}.get(
        algorithm, ""
    ), _whole(said.get("group_size"))


def _torchao(said: Mapping[str, Any]) -> Found:
    text = str(said.get("quant_type", "")).lower()
    eight = "fp8-channel" if "float8" in text else "int8-channel" if "int8" in text and "int4" not in text else ""
    return ("int4-group", _whole(said.get("group_size"), 128)) if "int4weightonly" in text.replace("_", "") else (eight, 0)


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], Found]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _said: ("fp8-channel", 0),
    "mxfp4": lambda _said: ("mxfp4", 0),
    "bitsandbytes": _bitsandbytes,
    "gptq": _by_bits({4: "gptq-4", 8: "gptq-8"}),
    "auto-round": _by_bits({4: "gptq-4", 8: "gptq-8"}),
    "awq": _by_bits({4: "awq-4"}),
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "torchao": _torchao,
    "eetq": lambda _said: ("int8-channel", 0),
    "quanto": lambda said: ({"int8": "int8-channel", "float8": "fp8-channel"}.get(str(said.get("weights")), ""), 0),
}


def _statement(config: Mapping[str, Any], beside: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
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


def _patterns(said: Mapping[str, Any]) -> tuple[str, ...]:
    listed = next((said[k] for k in _SKIP_KEYS if isinstance(said.get(k), (list, tuple))), ())
    return tuple(p for p in listed if isinstance(p, str))[:_MAX_PATTERNS]


def read_quantization(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> tuple[Quantization | None, tuple[Caveat, ...]]:
    """What the checkpoint says about its storage.

    Args:
        config: the parsed config.json.
        beside: the parsed hf_quant_config.json, if the repository has one.

    Returns:
        None for an unquantized checkpoint; and a caveat when the method is not known here.
    """
    said = _statement(config, beside)
    if said is None:
        return None, ()
    method = said.get("quant_method")
    if method is None and (said.get("load_in_4bit") or said.get("load_in_8bit")):
        method = "bitsandbytes"
    elif method is None and said.get("quant_algo"):
        method = "modelopt"
    name = str(method)[:60].lower().replace("intel/", "")
    form, group = _METHODS[name](said) if name in _METHODS else ("", 0)
    found = Quantization(method=name, format=form, group_size=group, skipped=_patterns(said))
    if form:
        return found, ()
    message = (
        f"The checkpoint is quantized with {shown(name)} in a variant that is not known here. Weights are counted from the files' headers "
        "where they were read, else in the dtype of the config; choose a precision to see another."
    )
    return found, (Caveat(code="unknown_quantization", message=message),)
