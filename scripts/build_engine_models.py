"""Write `lib/data/engine_models.json`: the model classes that each engine lists at a stated version.

    python scripts/build_engine_models.py vllm=WHEEL sglang=WHEEL llama.cpp=SDIST tensorrt-llm=PAGE tgi=REPO@TAG tei=REPO@TAG
    python scripts/build_engine_models.py vllm-tpu=REPO@COMMIT

Each argument names a downloaded release: a wheel of vLLM or SGLang from PyPI, the source distribution of llama-cpp-python (it contains
llama.cpp), the page `docs/source/models/supported-models.md` of TensorRT-LLM, or a git directory and tag of TGI, TEI or tpu-inference.
An engine that is not named keeps its row. Nothing of a release is imported or executed: the lists are read from its syntax tree or text.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "lib" / "data" / "engine_models.json"
_VLLM_TABLES = re.compile(
    r"_(TEXT_GENERATION|EMBEDDING|LATE_INTERACTION|REWARD|\w+_CLASSIFICATION|MULTIMODAL|TRANSFORMERS_SUPPORTED)_MODELS"
)
Row = dict[str, Any]


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names and values of a module's own assignments."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _texts(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def read_vllm(wheel: str) -> Row:
    """Keys of the registry's tables, and the classes that vLLM dropped with the last version that had them."""
    path = "vllm/model_executor/models/registry.py"
    with zipfile.ZipFile(wheel) as archive:
        tables = dict(_assignments(ast.parse(archive.read(path))))
    listed = {
        key.value
        for name, table in tables.items()
        if _VLLM_TABLES.fullmatch(name) and isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    version = Path(wheel).name.split("-")[1]
    dropped = ast.literal_eval(tables["_PREVIOUSLY_SUPPORTED_MODELS"])
    return _row(version, f"PyPI vllm {version}, {path}", listed, dropped=dropped)


def read_sglang(wheel: str) -> Row:
    """Classes that a module of `sglang.srt.models` names as its `EntryClass`."""
    folder, listed = "sglang/srt/models/", set[str]()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(folder) and name.endswith(".py"):
                for target, value in _assignments(ast.parse(archive.read(name))):
                    if target == "EntryClass":
                        listed |= {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    version = Path(wheel).name.split("-")[1]
    return _row(version, f"PyPI sglang {version}, {folder}*.py (EntryClass)", listed)


def read_llama_cpp(sdist: str) -> Row:
    """Classes that llama.cpp's converter registers."""
    listed = set[str]()
    with tarfile.open(sdist) as archive:
        for member in archive:
            if "/conversion/" in member.name and member.name.endswith(".py") and (file := archive.extractfile(member)):
                for node in ast.walk(ast.parse(file.read())):
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register":
                        listed |= set(_texts(node))
    version = re.sub(r".*llama_cpp_python-(.+)\.tar\.gz", r"\1", sdist)
    return _row(version, f"PyPI llama-cpp-python {version}, vendor/llama.cpp/conversion/*.py (register)", listed)


def read_tensorrt_llm(page: str) -> Row:
    """First column of the page's tables of models; classes that the AutoDeploy backend alone runs are left out."""
    rows = [line for line in Path(page).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {match[1] for line in rows if (match := re.match(r"\| `(\w+)`(?! \[\^5\])", line))}
    commit = Path(page).stem
    return _row("", f"github:NVIDIA/TensorRT-LLM docs/source/models/supported-models.md @{commit}", listed)


def _show(place: str, path: str) -> tuple[str, str]:
    repository, _, tag = place.rpartition("@")
    shown = subprocess.run(["git", "-C", repository, "show", f"{tag}:{path}"], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return tag, shown.stdout


def read_tgi(place: str) -> Row:
    """Values of `model_type` in TGI's `ModelType`: it has its own kernels for them."""
    path = "server/text_generation_server/models/__init__.py"
    tag, text = _show(place, path)
    enum = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "ModelType")
    listed = {_texts(node.value.values[0])[0] for node in enum.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)}
    return _row(tag.removeprefix("v"), f"github:huggingface/text-generation-inference {path} @{tag} (ModelType)", listed, by="model_type")


def read_tei(place: str) -> Row:
    """Values of `model_type` that TEI's Candle backend reads; those that it starts on CUDA alone."""
    path = "backends/candle/src/lib.rs"
    tag, text = _show(place, path)
    listed, cuda_only, renamed = set[str](), set[str](), ""
    body = re.search(r"\nenum Config \{\n(.*?)\n\}", text, re.DOTALL)
    for line in (body[1] if body else "").splitlines():
        if name := re.search(r'(?:rename\(deserialize = |rename = |alias = )"(\w+)"', line):
            listed.add(name[1])
            renamed = name[1] if "rename" in line else renamed
        elif variant := re.match(r"\s+(\w+)\(", line):
            word = renamed or re.sub(r"(?<!^)(?=[A-Z])", "-", variant[1]).lower()
            listed.add(word)
            if re.search(rf"\(Config::{variant[1]}\(_\), Device::Cpu \| Device::Metal\(_\)\) => Err", text):
                cuda_only.add(word)
            renamed = ""
    return _row(
        tag.removeprefix("v"), f"github:huggingface/text-embeddings-inference {path} @{tag}", listed, by="model_type", cuda_only=cuda_only
    )


def read_vllm_tpu(place: str) -> Row:
    """Classes that tpu-inference implements in JAX; drafts of speculative decoding are left out."""
    path = "tpu_inference/models/common/model_loader.py"
    commit, text = _show(place, path)
    targets = [node.targets[0] for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign)]
    names = {
        name
        for target in targets
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == "_MODEL_REGISTRY"
        for name in _texts(target.slice)
    }
    listed = {name for name in names if not re.search("Eagle|MTP|DFlash", name)}
    return _row("", f"github:vllm-project/tpu-inference {path} @{commit}", listed)


def _row(version: str, source: str, listed: set[str], *, by: str = "architecture", **further: Any) -> Row:
    """A row of the file; `by` names the field of `ModelSpec` that the list holds."""
    lists = {name: value if isinstance(value, dict) else sorted(value) for name, value in further.items()}
    return {
        "version": version,
        "source": source,
        "checked": datetime.now(UTC).date().isoformat(),
        "by": by,
        "listed": sorted(listed),
        **lists,
    }


READERS: dict[str, Callable[[str], Row]] = {
    "vllm": read_vllm,
    "sglang": read_sglang,
    "llama.cpp": read_llama_cpp,
    "tensorrt-llm": read_tensorrt_llm,
    "tgi": read_tgi,
    "tei": read_tei,
    "vllm-tpu": read_vllm_tpu,
}


def main() -> int:
    """Write the rows of the engines that were named; the others stay."""
    rows = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    for argument in sys.argv[1:]:
        engine, _, place = argument.partition("=")
        rows[engine] = READERS[engine](place)
        print(f"{engine} {rows[engine]['version']}: {len(rows[engine]['listed'])}", file=sys.stderr)
    lines = ",\n".join(f" {json.dumps(engine)}: {json.dumps(row)}" for engine, row in sorted(rows.items()))
    TARGET.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
