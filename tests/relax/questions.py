"""Questions about programs that are asked of both packages, and their answers in a form that can be compared.

A question is a function of a package, `HERE` or `THERE`; its answer may hold modules, functions, types, variables,
operators, sizes, and lists and mappings of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax as tvm_relax
from tvm.script import relax as tvm_script
from tvm.script import tirx as tvm_sizes

import regraft as rx
from regraft.script import relax as R
from regraft.script import tir as T

from .beside_tvm import HERE as _HERE
from .beside_tvm import THERE as _THERE
from .beside_tvm import ours, read_back, theirs

HERE: Final[Any] = SimpleNamespace(
    **vars(_HERE),
    passes=rx.transform,
    read=ours,
    T=T,
    R=R,
    Op=rx.Op,
    PrimType=rx.PrimType,
    BlockBuilder=rx.BlockBuilder,
    op=rx.op,
)
THERE: Final[Any] = SimpleNamespace(
    **vars(_THERE),
    passes=tvm.transform,
    read=theirs,
    T=tvm_sizes,
    R=tvm_script,
    Op=tvm.ir.Op,
    PrimType=tvm.ir.PrimType,
    BlockBuilder=tvm_relax.BlockBuilder,
    op=tvm_relax.op,
)

_SPELLINGS: Final = (
    (r"T\.int64\((-?\d+)\)", r"\1"),
    (r"\bT\.(int32|int64|float32|float16|bool|int8)\b(?!\()", r'R.Prim("\1")'),
    (r"T\.Tuple\b", "R.Tuple"),
    (r", purity=False", ""),
)
"""What the two packages write differently and mean the same."""


def answer(question: Callable[[Any], Any], package: Any) -> Any:
    """The answer of ``package``, over plain values; ``"refused"`` for an error."""
    try:
        found = question(package)
    except (ValueError, TypeError, RuntimeError, KeyError, IndexError, tvm.error.InternalError):
        return "refused"
    return _plain(found)


def assert_same_answer(question: Callable[[Any], Any]) -> None:
    """Check that both packages answer a question alike."""
    here, there = answer(question, HERE), answer(question, THERE)
    _compare(here, there, "")


def _compare(here: Any, there: Any, where: str) -> None:
    if isinstance(here, rx.IRModule) and isinstance(there, rx.IRModule):
        rx.assert_structural_equal(here, there)
    elif isinstance(here, dict) and isinstance(there, dict):
        assert here.keys() == there.keys(), where
        for key in here:
            _compare(here[key], there[key], f"{where}/{key}")
    elif isinstance(here, list) and isinstance(there, list):
        assert len(here) == len(there), (where, here, there)
        for index, (one, other) in enumerate(zip(here, there, strict=True)):
            _compare(one, other, f"{where}/{index}")
    else:
        assert here == there, where


def _plain(value: Any) -> Any:
    for kinds, say in _SAID:
        if isinstance(value, kinds):
            return say(value)
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    return _spelled(str(value))


def _spelled(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line and not line.startswith("#")]
    text = "\n".join(lines)
    for theirs_form, our_form in _SPELLINGS:
        text = re.sub(theirs_form, our_form, text)
    return text


_SAID: Final[list[tuple[Any, Callable[[Any], Any]]]] = [
    ((bool, str, type(None), float), lambda value: value),
    (int, int),
    (np.ndarray, lambda array: array.tolist()),
    (rx.IRModule, lambda module: module),
    (tvm.IRModule, read_back),
    (rx.Function, lambda function: rx.IRModule({"main": function})),
    (tvm_relax.Function, lambda function: read_back(tvm.IRModule({"main": function}))),
    ((rx.Var, rx.GlobalVar), lambda variable: f"variable {variable.name}"),
    (tvm_relax.Var, lambda var: var.name if isinstance(var.ty, tvm.ir.PrimType) else f"variable {var.name}"),
    (tvm.ir.GlobalVar, lambda variable: f"variable {variable.name_hint}"),
    ((rx.Op, tvm.ir.Op), lambda op: op.name),
    ((rx.Type, tvm.ir.Type), lambda ty: _spelled(ty.script())),
    (rx.Constant, lambda constant: constant.data.numpy().tolist()),
    (tvm.ir.GenericConst, lambda constant: constant.value.numpy().tolist()),
    ((rx.Expr, tvm_relax.Expr), lambda expr: _spelled(expr.script())),
]
"""How values of each kind are said; the first that fits."""
