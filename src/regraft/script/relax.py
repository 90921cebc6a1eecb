"""The ``R`` namespace: every operator of the vocabulary, and the words of the language around them.

The vocabulary's names are those of `regraft.op`. ``R.rewriter`` is a word of rewriting, which builds on the written
form; the package's top module sets it.
"""

from __future__ import annotations

import builtins
import typing as _typing
from difflib import get_close_matches

from .. import op as _ops
from ..ir.expr import ExternFunc as ExternFunc
from ..ir.expr import ShapeExpr as ShapeExpr
from ..ir.expr import TupleGetItem as TupleGetItem
from ..ir.op import Op as _Op
from ..ir.program import SeqExpr as SeqExpr
from ..op import *  # noqa: F403 - the vocabulary is this namespace
from ..op.builtin import stop_lift_params as stop_lift_params
from ..op.primitive.dist import device_mesh as device_mesh
from .annotations import (
    CallableConstructor,
    ObjectConstructor,
    PrimConstructor,
    ShapeConstructor,
    TensorConstructor,
    TupleConstructor,
)
from .decorators import function as function
from .decorators import macro as macro
from .intrinsics import call_py_func as call_py_func
from .intrinsics import const as const
from .intrinsics import cpu as cpu
from .intrinsics import cuda as cuda
from .intrinsics import dataflow as dataflow
from .intrinsics import device as device
from .intrinsics import dtype as dtype
from .intrinsics import func_attr as func_attr
from .intrinsics import func_name as func_name
from .intrinsics import make_tuple as tuple  # noqa: F401  # pyright: ignore[reportUnusedImport]
from .intrinsics import match_cast as match_cast
from .intrinsics import output as output
from .intrinsics import prim_value as prim_value
from .intrinsics import shape as shape
from .intrinsics import string as str  # noqa: F401  # pyright: ignore[reportUnusedImport]
from .intrinsics import written_statement
from .names import declared_operator

Tensor = TensorConstructor()
Shape = ShapeConstructor()
Tuple = TupleConstructor()
Prim = PrimConstructor()
Object = ObjectConstructor()
Any = Object
foreign = _Op.foreign
Callable = CallableConstructor()
FuncType = Callable

if _typing.TYPE_CHECKING:

    @_typing.overload
    def rewriter(cls: builtins.type, /) -> _typing.Any: ...
    @_typing.overload
    def rewriter(*, approximate: float | None = None) -> _typing.Callable[[builtins.type], _typing.Any]: ...
    def rewriter(cls: builtins.type | None = None, /, *, approximate: float | None = None) -> _typing.Any:
        """The rule that a class of two functions is: `regraft.rewrite.from_module.rewriter`."""


_WORDS = [
    "Any",
    "Callable",
    "ExternFunc",
    "FuncType",
    "Object",
    "Prim",
    "SeqExpr",
    "Shape",
    "ShapeExpr",
    "Tensor",
    "Tuple",
    "TupleGetItem",
    "const",
    "cpu",
    "cuda",
    "device",
    "device_mesh",
    "dataflow",
    "dtype",
    "foreign",
    "func_attr",
    "func_name",
    "function",
    "macro",
    "match_cast",
    "output",
    "prim_value",
    "shape",
    "stop_lift_params",
    "str",
    "tuple",
]

__all__ = sorted({*_WORDS, *_ops.__all__})  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: builtins.str) -> _typing.Any:
    declared = declared_operator(name)
    if declared is None:
        declared = written_statement(name)
    if declared is not None:
        return declared
    near = get_close_matches(name, __all__, n=3)
    hint = f"; did you mean {' or '.join(f'R.{close}' for close in near)}?" if near else ""
    raise AttributeError(f"R.{name} does not exist{hint}")
