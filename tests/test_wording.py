"""Patterns that make sentences hard to read: their number in docstrings, visitor texts and docs may only fall."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = {
    "what is, what has, what was, what are as nouns": r"\b[Ww]hat (?:is|has|was|are|were)\b",
    "whoever, whatever, nobody, everybody, stranger": r"\b(?:[Ww]hoever|[Ww]hatever|[Nn]obody|[Ee]verybody|[Ss]trangers?)\b",
    "X is no Y": r"(?<![Tt]here )\b(?:is|are) no\b(?! longer)",
    "things that stand or lie": r"\b(?:[Ss]tands?|lies|stood)\b",
    "beside": r"\bbeside\b",
    "what, outside of questions": r"\b[Ww]hat\b(?![^.?]*\?)",
    "null where, None where": r"(?:\b[Nn]ull|\bNone|`None`) where\b",
    "a text that begins with What, Where, Whose or Who": r"\A(?:What|Where|Whose|Who)\b(?![^.\n]*\?)",
}
MOST = {
    "what is, what has, what was, what are as nouns": 1,
    "whoever, whatever, nobody, everybody, stranger": 0,
    "X is no Y": 0,
    "things that stand or lie": 0,
    "beside": 2,
    "what, outside of questions": 350,
    "null where, None where": 10,
    "a text that begins with What, Where, Whose or Who": 1,
}
"""Lower a number when a text was rewritten; never raise one."""
MOST_IN_PYTHON = 77
"""Sentences for visitors in Python code that `list_python_sentences` finds: refusals that a name or a function holds."""
MOST_LINES = 5_000
"""Lines of the wording files and templates together."""
VISITOR_ROOMS = ("present", "ui", "service", "live", "hub", "cli", "explain")
FIELD_PARTS = {"info", "label", "placeholder", "help"}
"""Arguments and names that hold the words of a form field."""
FIELD_CALLS = {"number", "Form", "Field", "Argument"}
MOST_LONG_SENTENCES = 7
"""Sentences of more than 30 words in docstrings."""
VISITOR_TEXTS = ("lib/present/",)
DOCS = ("README.md", "SECURITY.md", "docs/methodology.md", "docs/operating.md", "docs/development.md", "docs/architecture.md")


def read_texts() -> Iterator[str]:
    """Docstrings of lib and scripts, strings of several words in `lib/present`, wording files, templates, README and docs."""
    for file in (
        *(ROOT / name for name in DOCS),
        *sorted(ROOT.glob("lib/data/wording/*.yaml")),
        *sorted(ROOT.glob("lib/templates/**/*.j2")),
    ):
        yield file.read_text(encoding="utf-8")
    for file in (file for folder in ("lib", "scripts") for file in sorted((ROOT / folder).rglob("*.py"))):
        shown = str(file.relative_to(ROOT)).startswith(VISITOR_TEXTS)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))) if not shown:
                    yield text
                case ast.Constant(value=str(text)) if shown and " " in text:
                    yield text


def test_patterns_that_are_hard_to_read_only_become_fewer() -> None:
    """Rules 2 and 4 of how this project writes; see docs/development.md."""
    counts = dict.fromkeys(PATTERNS, 0)
    for text in read_texts():
        for name, pattern in PATTERNS.items():
            counts[name] += len(re.findall(pattern, text))
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}


def list_long_sentences(docstring: str) -> list[str]:
    """Sentences of more than 30 words. Tables, examples and lists of arguments are not sentences."""
    found = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if re.search(r"\S {3,}\S|>>>|^\s*(?:Args|Raises|Returns|Attributes):", paragraph, re.MULTILINE):
            continue
        for item in re.split(r"\n\s*[-*] ", paragraph):
            sentences = re.split(r"(?<=[.:;?!])\s+(?=\S)", " ".join(item.split()))
            found += [sentence for sentence in sentences if len(re.findall(r"\S*[A-Za-z]{2}\S*", sentence)) > 30]
    return found


def test_long_sentences_only_become_fewer() -> None:
    """One idea a sentence."""
    files = [file for folder in ("lib", "scripts") for file in sorted((ROOT / folder).rglob("*.py"))]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Expr)]
    texts = [node.value.value for node in nodes if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
    found = [sentence for text in texts for sentence in list_long_sentences(text)]
    assert len(found) <= MOST_LONG_SENTENCES, "\n".join(found)


def list_errors() -> set[str]:
    """Names of the error classes of lib."""
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in ROOT.glob("lib/**/*.py"))
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"Exception", "ValueError"}
    while new := {name for name, parents in bases.items() if parents & found} - found:
        found |= new
    return found


def holds_allowed_text(node: ast.AST, errors: set[str]) -> bool:
    """Whether sentences in this node may be in Python: a docstring, a refusal, a log line, a command, or the words of a form field."""
    match node:
        case ast.Raise() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in errors | FIELD_CALLS or name in {"error", "warning", "exception", "info"}
        case ast.keyword(arg=name) | ast.Assign(targets=[ast.Name(id=name)]) if name is not None:
            return name in FIELD_PARTS
    return False


def list_python_sentences(code: str, errors: set[str]) -> list[str]:
    """Sentences of four words and more in Python code, outside the places where they are allowed."""
    tree = ast.parse(code)
    allowed = [node for node in ast.walk(tree) if holds_allowed_text(node, errors)]
    allowed += [decorator for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for decorator in node.decorator_list]
    skipped = {id(part) for node in allowed for part in ast.walk(node)}
    texts = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.JoinedStr(values=parts):
                texts.append("".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in parts))
                skipped |= {id(part) for part in parts}
            case ast.Constant(value=str(text)):
                texts.append(text)
    return [text for text in texts if len(re.findall(r"[A-Za-z]{2,}", text)) >= 4 and re.search(r"[a-z] [a-z].*\.\W?(?:\s|$)", text)]


def test_sentences_are_recognized_in_python() -> None:
    """A sentence counts in an assignment and in an f-string, and neither in a docstring nor in a refusal or a field's info."""
    code = '''
def show(name):
    """This docstring has more than four words."""
    raise BadArgument("This is a refusal of four words.")
    number("seed", info="This is the info of a field.")
    return f"This sentence of {name} belongs in the data."
'''
    assert list_python_sentences(code, {"BadArgument"}) == ["This sentence of 1 belongs in the data."]


def test_sentences_in_python_only_become_fewer() -> None:
    """Visitors' sentences are data in lib/data/wording or templates; docs/development.md has the rule."""
    errors = list_errors()
    files = [file for room in VISITOR_ROOMS for file in sorted((ROOT / "lib" / room).rglob("*.py"))]
    texts = {file: list_python_sentences(file.read_text(encoding="utf-8"), errors) for file in files}
    found = [f"{file.relative_to(ROOT)}: {text}" for file, sentences in texts.items() for text in sentences]
    assert len(found) <= MOST_IN_PYTHON, "\n".join(found)


def test_wording_and_templates_stay_small() -> None:
    """Lines of both together."""
    wording = [file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("lib/data/wording/*.yaml"))]
    templates = [file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("lib/templates/**/*.j2"))]
    assert sum(len(text.splitlines()) for text in (*wording, *templates)) <= MOST_LINES
