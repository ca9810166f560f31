"""Which modules a checkpoint's quantization leaves alone, by the names in its own list.

Each method matches names its own way, and the names are those of the published files, which `transformers` may have renamed since:
its own renaming rules are applied to the list. A list that names single experts leaves the fused module alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from typing import TYPE_CHECKING

from lib.model.spec import Quantization

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Test = Callable[[str], bool]
_BY_TRANSFORMERS = frozenset({"fp8", "fbgemm_fp8", "mxfp4", "bitsandbytes", "torchao", "eetq", "quanto"})
_MAX_EXPRESSION = 300
_MAX_EXPRESSIONS = 500
_REPEATED_GROUP = re.compile(r"[)\]][*+?{]")
_MAX_REPEATS = 3


def _renamed(model: PreTrainedModel, names: tuple[str, ...]) -> set[str]:
    """The listed names in the words of the installed library, with the published ones kept."""
    from transformers.conversion_mapping import get_model_conversion_mapping  # noqa: PLC0415 loaded when first needed

    rules = get_model_conversion_mapping(model)
    found = set(names)
    for name in names:
        new = name + "."
        for rule in rules:
            new, _ = rule.rename_source_key(new)
        found.add(new.removesuffix("."))
    return found


def _expression(pattern: str, *, regular: bool) -> re.Pattern[str] | None:
    """A listed pattern as an expression; None where it is no valid one, or built so that matching could take for ever."""
    repeats = pattern.count("*") + pattern.count("+") + pattern.count("{")
    if len(pattern) > _MAX_EXPRESSION or (regular and (repeats > _MAX_REPEATS or _REPEATED_GROUP.search(pattern))):
        return None
    try:
        return re.compile(pattern if regular else translate(pattern))
    except re.error:
        return None


def _ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _literal(names: set[str]) -> Test:
    """Exact names, parents of a module, ends of its path, or single experts below it."""
    ends = tuple(names)
    experts = {n.partition(".experts.")[0] + ".experts" for n in names if ".experts." in n}
    return lambda path: path in experts or path.endswith(ends) or any(a in names for a in _ancestors(path))


def skip_test(quantization: Quantization | None, model: PreTrainedModel) -> Test:
    """Whether the module at a path is left in its own dtype.

    A method of `transformers` keeps float32 modules too and, without a list, the head and tied weights, as a load would.
    """
    if quantization is None:
        return lambda _path: False
    listed = quantization.skipped
    if quantization.method in _BY_TRANSFORMERS:
        from transformers.quantizers.base import HfQuantizer  # noqa: PLC0415 loaded when first needed

        in_fp32 = list(model._keep_in_fp32_modules or ())  # noqa: SLF001
        listed = tuple(HfQuantizer.get_modules_to_not_convert(model, list(listed) or None, in_fp32))
    names = _renamed(model, listed)
    plain = {n for n in names if not n.startswith("re:") and not set(n) & set("*?[")}
    patterns = [
        e
        for n in sorted(names - plain)[:_MAX_EXPRESSIONS]
        if (e := _expression(n.removeprefix("re:"), regular=n.startswith("re:"))) is not None
    ]
    literal = _literal(plain)
    return cache(lambda path: literal(path) or any(p.match(path) is not None for p in patterns))
