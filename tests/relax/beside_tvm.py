"""The same program text through this library and through TVM's Relax.

Texts are written short: ``f32[2, 3]`` is ``R.Tensor((2, 3), "float32")``, ``f32[?2]`` a tensor of two axes of unknown
sizes, ``with flow:`` opens a dataflow block, and the body of a module stands alone. Of functions without a decorator,
``main`` is public and others are private.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import tvm
from tvm import relax as tvm_relax
from tvm.script import from_source

import regraft as rx
from regraft import IRModule
from regraft.analysis import well_formed

_DTYPES: Final = {"f16": "float16", "f32": "float32", "i32": "int32", "i64": "int64", "b1": "bool"}

HERE: Final[Any] = SimpleNamespace(
    relax=rx, transform=rx.transform, analysis=rx.analysis, dpl=rx.dpl, training=rx.training, ir=rx
)
"""What a program that is run on both sides uses of this library."""

THERE: Final[Any] = SimpleNamespace(
    relax=tvm_relax,
    transform=tvm_relax.transform,
    analysis=tvm_relax.analysis,
    dpl=tvm_relax.dpl,
    training=tvm_relax.training,
    ir=tvm.ir,
)
"""What it uses of TVM."""


def written_out(text: str) -> str:
    """The text of a module for what is written short; what is a module already stays as it is."""
    text = dedent(text).strip("\n")
    if "@I.ir_module" in text:
        return text
    if not re.search(r"^@R\.function", text, re.MULTILINE):
        text = re.sub(r"^def (?!main)", "@R.function(private=True)\ndef ", text, flags=re.MULTILINE)
        text = re.sub(r"^def main", "@R.function\ndef main", text, flags=re.MULTILINE)
    text = text.replace("with flow:", "with R.dataflow():")
    text = re.sub(rf"\b({'|'.join(_DTYPES)})\[([^\]]*)\]", _tensor, text)
    return "@I.ir_module\nclass Module:\n" + indent(text, "    ")


def _tensor(short: re.Match[str]) -> str:
    dtype, dims = _DTYPES[short[1]], short[2].strip()
    if dims.startswith("?"):
        return f'R.Tensor(dtype="{dtype}"{f", ndim={dims[1:]}" if dims[1:] else ""})'
    shape = f"({dims},)" if dims and "," not in dims else f"({dims})"
    return f'R.Tensor({shape}, "{dtype}")'


def ours(text: str) -> IRModule:
    """The module that this library reads from ``text``."""
    module = rx.parse(written_out(text))
    assert isinstance(module, IRModule)
    return module


def theirs(text: str) -> Any:
    """The module that TVM reads from ``text``."""
    return from_source(written_out(text))


_ARRAY: Final = re.compile(r'metadata\["ir\.GenericConst"\]\[(\d+)\]')


def read_back(module: Any) -> IRModule:
    """A module of TVM as this library reads what TVM prints of it; TVM cannot print the arrays of ``main``."""
    text = module.script(show_meta=False)
    if not _ARRAY.search(text):
        return ours(module.script(show_meta=True))
    arrays = _arrays_of(module["main"])
    params = ", ".join([f'array_{i}: R.Tensor({array.shape}, "{array.dtype}")' for i, array in enumerate(arrays)])
    text = _ARRAY.sub(r"array_\1", text.partition("# Metadata omitted")[0])
    read = ours(re.sub(r"def main\(\s*", lambda found: f"{found[0]}{params}, ", text, count=1))
    bound = read["main"].bind_params({f"array_{i}": rx.const(array) for i, array in enumerate(arrays)})
    return read.with_function("main", bound.with_attrs(read["main"].attrs))


def _arrays_of(function: Any) -> list[Any]:
    """The arrays of a function of TVM, each once, in the order in which TVM numbers them."""
    constants: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.ir.GenericConst) and not any(node.same_as(seen) for seen in constants):
            constants.append(node)

    tvm_relax.analysis.post_order_visit(function, visit)
    arrays = [constant.value.numpy() for constant in constants]
    return [array for array in arrays if array.shape]


def both(text: str, name: str, *args: Any, **keywords: Any) -> tuple[IRModule, IRModule]:
    """The results of the pass ``name`` on ``text`` here and in TVM."""
    here = getattr(rx.transform, name)(*args, **keywords)(ours(text))
    there = getattr(tvm_relax.transform, name)(*args, **keywords)(theirs(text))
    assert isinstance(there, tvm.IRModule)
    return here, read_back(there)


def assert_alike(text: str, change: Callable[[Any, Any], Any]) -> None:
    """Check that ``change(package, module)`` makes the same program of ``text`` here as in TVM, and a sound one.

    ``package`` is `HERE` or `THERE`.
    """
    here = change(HERE, ours(text))
    well_formed(here)
    rx.assert_structural_equal(here, read_back(change(THERE, theirs(text))))


class Program(NamedTuple):
    """A program of the collection in ``programs/``: what it is about, the passes that it goes through, and its text."""

    title: str
    passes: str
    text: str

    def __call__(self, package: Any, module: Any) -> Any:
        """``module`` after the passes."""
        return self.run(package, module)

    def run(self, package: Any, module: Any, **names: Any) -> Any:
        """``module`` after the passes, an expression over the names of ``package.transform`` and ``names``."""
        for one in eval(f"[{self.passes}]", {**vars(package.transform), **names}):
            module = one(module)
        return module


PROGRAMS: Final = Path(__file__).parent / "programs"


def programs_of(path: Path) -> Iterator[Program]:
    """The programs of a file: each is a title after ``##``, passes after ``>``, and a text."""
    for part in path.read_text().split("## ")[1:]:
        title, passes, text = part.split("\n", 2)
        yield Program(title, passes.removeprefix(">").strip(), text)
