"""Which modules a checkpoint's quantization leaves alone, by the names in its own list.

Each method matches names its own way, and the names are those of the published files, which `transformers` may have renamed since:
its own renaming rules are applied to the list. A list that names single experts leaves the fused module alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined] # the parser that `re` itself uses has no public name
from re._parser import parse  # type: ignore[import-not-found]
from typing import TYPE_CHECKING, Any

from lib.model.spec import Quantization

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Test = Callable[[str], bool]
_BY_TRANSFORMERS = frozenset({"fp8", "fbgemm_fp8", "mxfp4", "bitsandbytes", "torchao", "eetq", "quanto"})
_MAX_NAME = 300
_BY_NUMBER = re.compile(r"\\[0-9uUxN]")
_MAX_EXPRESSIONS = 500
_MAX_PATH = 128
"""A path longer than this is not compared with expressions; the longest in `transformers` has some 100 characters."""
_MAX_WAYS = 500_000
"""Ways to match that all expressions of a list together may leave open on one path: some milliseconds."""
_MOST_DIGITS = 8
_FREE = 16
_DIGITS = [(sre.IN, [(sre.CATEGORY, sre.CATEGORY_DIGIT)]), (sre.IN, [(sre.RANGE, (ord("0"), ord("9")))])]
_REPEATS = frozenset({sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT})
_PLAIN = frozenset({sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.AT})
_UNBOUNDED_WAYS = (0, _MAX_WAYS + 1)


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


def _ways(tree: Any) -> tuple[int, int]:
    """What a backtracking matcher may have to try: repetitions that share the text freely, and a factor for every other choice.

    A repetition of something that itself leaves a choice, and what the matcher cannot bound (references back), count as too many.
    """
    free, factor = 0, 1
    for kind, value in tree:
        if kind in _REPEATS:
            more, times = _repeated(*value)
        elif kind is sre.BRANCH:
            parts = [_ways(branch) for branch in value[1]]
            more, times = max(n for n, _ in parts), sum(f for _, f in parts)
        elif kind in {sre.SUBPATTERN, sre.ASSERT, sre.ASSERT_NOT}:
            more, times = _ways(value[-1])
        else:
            more, times = (0, 1) if kind in _PLAIN else _UNBOUNDED_WAYS
        free, factor = free + more, factor * times
    return free, factor


def _repeated(least: int, most: Any, inner: Any) -> tuple[int, int]:
    """The ways of one repetition. A run of digits is short in any path, so it leaves few choices."""
    ways = _ways(inner)
    if most <= 1:
        return ways[0], ways[1] + 1
    if ways != (0, 1) or inner.getwidth()[0] == 0:
        return _UNBOUNDED_WAYS
    choices = min(int(most), _MAX_PATH) - min(least, _MAX_PATH) + 1
    if list(inner) in [[digits] for digits in _DIGITS]:
        choices = min(choices, _MOST_DIGITS)
    return (1, 1) if choices > _FREE else (0, choices)


def _most_ways(pattern: str) -> int:
    """An upper bound of what matching the start of a path with this regular expression may try.

    Free repetitions divide the text among them: k of them in n letters have C(n+k, k) ways. One that ends the expression takes the rest
    and is never gone back on.

    Raises:
        re.error: it is no expression.
    """
    tree = list(parse(pattern))
    if tree and tree[-1][0] is sre.MAX_REPEAT and list(tree[-1][1][2]) == [(sre.ANY, None)] and tree[-1][1][0] == 0:
        tree.pop()
    free, factor = _ways(tree)
    return math.comb(_MAX_PATH + free, free) * factor


def _expressions(names: Iterable[str]) -> list[re.Pattern[str]]:
    """The listed patterns as expressions, without those that are invalid or built so that matching could take for ever.

    A list comes from outside. "re:" marks a regular expression; anything else has wildcards, which are translated so that nothing is tried
    twice. Escapes by number are left out with references back: a range over all of Unicode takes long to compile.
    """
    found: list[re.Pattern[str]] = []
    left = _MAX_WAYS
    for name in names:
        pattern = name.removeprefix("re:")
        if len(found) == _MAX_EXPRESSIONS or not name.isascii() or (name.startswith("re:") and _BY_NUMBER.search(pattern)):
            continue
        try:
            ways = _most_ways(pattern) if name.startswith("re:") else 1
            if ways <= left:
                found.append(re.compile(pattern if name.startswith("re:") else translate(pattern)))
                left -= ways
        except (re.error, RecursionError, OverflowError):
            continue
    return found


def _ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _literal(names: set[str]) -> Test:
    """Exact names, parents of a module, ends of its path, or single experts below it."""
    lengths = {len(n) for n in names}
    experts = {n.partition(".experts.")[0] + ".experts" for n in names if ".experts." in n}

    def test(path: str) -> bool:
        ending = any(path[len(path) - n :] in names for n in lengths if n <= len(path))
        return path in experts or ending or any(a in names for a in _ancestors(path))

    return test


def skip_test(quantization: Quantization | None, model: PreTrainedModel) -> Test:
    """Whether the module at a path is left in its own dtype.

    A method of `transformers` keeps float32 modules too and, without a list, the head and tied weights, as a load would.
    """
    if quantization is None:
        return lambda _path: False
    listed = tuple(name for name in quantization.skipped if len(name) <= _MAX_NAME)
    if quantization.method in _BY_TRANSFORMERS:
        from transformers.quantizers.base import HfQuantizer  # noqa: PLC0415 loaded when first needed

        in_fp32 = list(model._keep_in_fp32_modules or ())  # noqa: SLF001
        listed = tuple(HfQuantizer.get_modules_to_not_convert(model, list(listed) or None, in_fp32))
    names = _renamed(model, listed)
    plain = {n for n in names if not n.startswith("re:") and not set(n) & set("*?[")}
    patterns, literal = _expressions(sorted(names - plain)), _literal(plain)

    def test(path: str) -> bool:
        return literal(path) or (len(path) <= _MAX_PATH and any(p.match(path) is not None for p in patterns))

    return cache(test)
