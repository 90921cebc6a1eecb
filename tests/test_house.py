"""House rules that can be read off the tree: module sizes, names, light imports, dependencies explained."""

from __future__ import annotations

import ast
import json
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import RunPython

MOST_LINES = 600
HEAVY = ["html", "tempfile", "jax", "jaxlib", "onnx", "onnx_ir", "onnxruntime", "torch", "tvm"]


def test_no_module_is_longer_than_600_lines(root: Path) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (root / "src").rglob("*.py")}
    assert lengths
    assert {str(path.relative_to(root)): count for path, count in lengths.items() if count > MOST_LINES} == {}


def test_no_module_is_named_utils_but_for_the_facades_with_relaxs_names(root: Path) -> None:
    package = root / "src" / "regraft"
    facades = {package / "utils.py", package / "training" / "utils.py"}
    rooms = ("src", "tests", "bench", "examples")
    assert {path for room in rooms for path in (root / room).rglob("*") if path.stem in {"util", "utils"}} == facades


def test_importing_regraft_imports_no_framework(run_python: RunPython) -> None:
    finished = run_python("-c", "import json, sys, regraft; print(json.dumps([regraft.__name__, *sys.modules]))")
    assert finished.returncode == 0, finished.stderr
    loaded = json.loads(finished.stdout)
    assert "regraft" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_every_dependency_is_explained_with_its_range(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    explained = (root / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [wanted for group in groups for wanted in group if f"`{wanted}`" not in explained] == []


def test_every_slow_test_is_one_that_there_is(root: Path) -> None:
    for line in (root / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        path, _, name = line.partition("::")
        function = name.split("[")[0].split("::")[-1]
        assert f"def {function}(" in (root / path).read_text(encoding="utf-8"), line


def test_a_docstring_begins_with_the_thing_that_it_is_about(root: Path) -> None:
    questions = {"How", "That", "What", "Where", "Whether", "Which", "Who", "Why"}
    found: list[str] = []
    for path in sorted(one for room in ("src", "tests", "bench", "tools") for one in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and text.split()[0] in questions:
                    found.append(f"{path.relative_to(root)}: {text[:80]}")
    assert found == []


def test_a_class_has_one_meaning(root: Path) -> None:
    found = defaultdict[str, list[str]](list)
    for path in sorted((root / "src").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.stem)
    given_by_relax = {"Linear", "Module", "Object", "ReLU", "Sequential", "Tensor", "Tuple"}
    assert {name: homes for name, homes in found.items() if len(homes) > 1 and name not in given_by_relax} == {}
