"""A Python program that was written for TVM's Relax, run as it stands and with its imports changed.

A file of `programs/python` is such a program: its functions take nothing, and give what both packages must give, or
raise. `SUBSTITUTIONS` is the table of imports of ``docs/relax.md``.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import numpy as np

import regraft as rx

from .beside_tvm import read_back

PYTHON_PROGRAMS: Final = Path(__file__).parent / "programs" / "python"
SUBSTITUTIONS: Final = {
    "import tvm.testing\n": "",
    "import tvm\n": "import regraft as tvm\n",
    "from tvm.script import relax as R, ir as I, tirx as T\n": (
        "from regraft.script import relax as R, ir as I, tir as T\n"
    ),
    "from tvm.script import relax as R\n": "from regraft.script import relax as R\n",
    "from tvm.script import ir as I\n": "from regraft.script import ir as I\n",
    "from tvm.script import tirx as T": "from regraft.script import tir as T",
    "from tvm import relax, tirx\n": "import regraft as relax\nfrom regraft.script import tir as tirx\n",
    "from tvm import relax\n": "import regraft as relax\n",
    "from tvm import tirx\n": "from regraft.script import tir as tirx\n",
    "from tvm import IRModule\n": "from regraft import IRModule\n",
    "from tvm import ": "from regraft import ",
    "# from tvm.tirx.layout import Axis\n": "",
    "from tvm.ir.": "from regraft.",
    "from tvm.": "from regraft.",
    "from regraft.relax": "from regraft",
    "tvm.ir.": "tvm.",
}
"""What a line of imports becomes; everything else of a program stays."""


def changed(text: str) -> str:
    """The program with its imports changed."""
    for there, here in SUBSTITUTIONS.items():
        text = text.replace(there, here)
    return text


_FOLDER: Final = Path(mkdtemp())
_ON_A_SHORT_STACK: Final = ThreadPoolExecutor(max_workers=1)
"""The thread that runs the programs: TVM's decorators look up the source of every frame that is below them."""


def functions(path: Path) -> list[str]:
    """The names of the functions of a program, in order, as its text tells them: nothing is run."""
    statements = ast.parse(path.read_text()).body
    return [one.name for one in statements if isinstance(one, ast.FunctionDef) and one.name.startswith("t_")]


@cache
def loaded(path: Path, *, here: bool) -> Mapping[str, Callable[[], Any]]:
    """The functions of a program, of this package or of TVM's, by name."""
    name = f"{path.stem}_{'here' if here else 'there'}"
    file = _FOLDER / f"{name}.py"
    file.write_text(changed(path.read_text()) if here else path.read_text())
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _ON_A_SHORT_STACK.submit(spec.loader.exec_module, module).result()
    return {key: value for key, value in vars(module).items() if key.startswith("t_") and callable(value)}


def outcome(function: Callable[[], Any]) -> Any:
    """The result of the function, or the error that it raises."""
    running = _ON_A_SHORT_STACK.submit(function)
    return running.exception() or running.result()


def written(found: Any) -> Any:
    """An outcome as JSON: programs as text, what is raised by its kind."""
    if isinstance(found, Exception):
        return {"raises": type(found).__name__}
    if isinstance(found, dict):
        return {str(key): written(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [written(value) for value in found]
    if hasattr(found, "script"):
        return found.script().splitlines()
    return found if found is None or isinstance(found, bool | int | float) else str(found)


def same(here: Any, there: Any) -> str | None:
    """None where the two outcomes mean the same, and otherwise what differs."""
    if isinstance(there, Exception):
        if not isinstance(here, Exception):
            return f"there raises {type(there).__name__} ({str(there)[:300]}), here gives {here!r:.200}"
        if isinstance(there, ValueError | TypeError) and not isinstance(here, type(there)):
            kinds = [kind.__name__ for kind in type(there).__mro__ if kind in (ValueError, TypeError)]
            return f"there raises {type(there).__name__} ({kinds}), here {type(here).__name__}: {here}"
        return None
    if isinstance(here, Exception):
        return f"here raises {type(here).__name__}: {here}"
    if isinstance(there, dict):
        if list(here) != list(there):
            return f"keys {list(here)} here, {list(there)} there"
        return next((found for key in there if (found := same(here[key], there[key]))), None)
    if isinstance(there, list | tuple):
        if len(here) != len(there):
            return f"{len(here)} here: {here!r:.300}, {len(there)} there: {there!r:.300}"
        return next((found for a, b in zip(here, there, strict=True) if (found := same(a, b))), None)
    if isinstance(there, str):
        there = changed(there)
    if there is None or isinstance(there, bool | int | float | str):
        return None if here == there else f"{here!r} here, {there!r} there"
    if isinstance(there, np.ndarray | np.generic) or hasattr(there, "numpy"):
        a = np.asarray(here.numpy() if hasattr(here, "numpy") else here)
        b = np.asarray(there.numpy() if hasattr(there, "numpy") else there)
        if a.dtype != b.dtype or a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"values {a!r:.300} here, {b!r:.300} there"
        return None
    return _same_nodes(here, there)


def _same_nodes(here: Any, there: Any) -> str | None:
    if not isinstance(here, rx.IRModule | rx.Function):
        a, b = str(here), str(there)
        return None if a == b else f"{a} here, {b} there"
    if "metadata[" in there.script(show_meta=False):
        return "arrays that TVM cannot print"
    if isinstance(here, rx.IRModule):
        read = read_back(there)
    else:
        read = rx.script.from_source("from tvm.script import relax as R, tirx as T\n" + there.script(show_meta=True))
    if rx.structural_equal(here, read):
        return None
    try:
        rx.assert_structural_equal(here, read)
    except Exception as error:
        return f"{error}\n--- here\n{here.script()}\n--- there\n{there.script()}"
    return "unequal"
