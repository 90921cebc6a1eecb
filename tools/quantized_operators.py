"""The table of the operators that quantizers write to ONNX, with the form in which each one is read.

``python -m tools.quantized_operators`` prints the page ``docs/quantized_operators.md``. The names come from ONNX
Runtime, the rest from the readers and the declared operators.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, Final

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

import regraft.formats.onnx.read.reader as reader
from regraft.formats.onnx.read.importing import IMPORTERS
from regraft.ir.op import Op

assert reader  # it fills the table of readers

_HEADER: Final = """\
# Quantized operators of ONNX

These are the operators of ONNX and of ONNX Runtime {version} that compute with quantized numbers. There are {count}:

- {program} are read into **a program** of this language. So its rules see what the operator consists of. If no rewrite
  changed that, it is written as the operator again. A node in a form that has no program is read as one of the next
  kind, if its operator is declared. [Models in and out](converters.md#in) says which forms these are.
- {operator} are **an operator** of their own. It has a type and a meaning, so it runs on NumPy, ONNX Runtime and
  PyTorch, is checked by value, and is written as it was read. Rules that do not name it leave it as it is.
- {carried} are **carried through**. `optimize` keeps the node as it is, and rewrites what is around it. Only ONNX
  Runtime can run it.

`python -m tools.quantized_operators` prints this page.

| operator | domain | read as |
|---|---|---|
"""
_KINDS: Final = ("a program", "an operator", "carried through")
_QUANTIZED: Final = re.compile(r"[Qq]uant|^Q[A-Z]|Integer|NBits|Bnb4|Float8")
_DOMAINS: Final = {"": "ONNX", "com.microsoft": "com.microsoft"}


def quantized_operators() -> list[tuple[str, str]]:
    """The domain and the name of each of ONNX Runtime's operators for quantized numbers, in order."""
    schemas: Iterable[Any] = onnxruntime_pybind11_state.get_all_operator_schema()
    found = {(str(schema.domain), str(schema.name)) for schema in schemas}
    return sorted(key for key in found if key[0] in _DOMAINS and _QUANTIZED.search(key[1]))


def kind(domain: str, name: str) -> str:
    """The form in which an operator is read: one of the three in `_KINDS`."""
    if (domain, name) in IMPORTERS:
        return _KINDS[0]
    op = Op.of_onnx(domain, name)
    return _KINDS[2] if op is None or op.reference is None else _KINDS[1]


def page() -> str:
    """The whole page."""
    kinds = {key: kind(*key) for key in quantized_operators()}
    counts = [list(kinds.values()).count(one) for one in _KINDS]
    program, operator, carried = counts
    header = _HEADER.format(
        version=onnxruntime.__version__, count=len(kinds), program=program, operator=operator, carried=carried
    )
    ordered = sorted(kinds, key=lambda key: (_KINDS.index(kinds[key]), *key))
    return header + "".join(f"| `{name}` | {_DOMAINS[domain]} | {kinds[domain, name]} |\n" for domain, name in ordered)


if __name__ == "__main__":
    sys.stdout.write(page())
