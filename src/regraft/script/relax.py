"""The ``R`` namespace: every operator of the vocabulary, and the words of the language around them.

The names of operators are those of `regraft.op`. ``R.rewriter`` belongs to rewriting, which builds on the written form;
the package's top module sets it.
"""

from __future__ import annotations

import builtins as _builtins
import typing as _typing

from ..ir.expr import ExternFunc as ExternFunc
from ..ir.expr import ShapeExpr as ShapeExpr
from ..ir.expr import TupleGetItem as TupleGetItem
from ..ir.near_names import meant as _meant
from ..ir.op import Op as _Op
from ..ir.program import SeqExpr as SeqExpr
from ..op import *  # noqa: F403 - the vocabulary is this namespace
from ..op.builtin import stop_lift_params as stop_lift_params
from ..op.primitive.dist import device_mesh as device_mesh
from . import annotations as _types
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
from .intrinsics import written_statement as _written_statement
from .names import declared_operator as _declared_operator

Tensor = _types.TensorConstructor()
Shape = _types.ShapeConstructor()
Tuple = _types.TupleConstructor()
Prim = _types.PrimConstructor()
Object = _types.ObjectConstructor()
Any = Object
foreign = _Op.foreign
Callable = _types.CallableConstructor()
FuncType = Callable

if _typing.TYPE_CHECKING:

    @_typing.overload
    def rewriter(cls: _builtins.type, /) -> _typing.Any: ...
    @_typing.overload
    def rewriter(*, approximate: float | None = None) -> _typing.Callable[[_builtins.type], _typing.Any]: ...
    def rewriter(cls: _builtins.type | None = None, /, *, approximate: float | None = None) -> _typing.Any:
        """The rule made from a class of two functions: `regraft.rewrite.from_module.rewriter`."""


__all__ = sorted(name for name in globals() if not name.startswith("_") and name != "annotations")  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: _builtins.str) -> _typing.Any:
    declared = _declared_operator(name)
    if declared is None:
        declared = _written_statement(name)
    if declared is not None:
        return declared
    near = _meant(name, __all__, 3, "R.{}".format)
    raise AttributeError(f"R.{name} does not exist{near and f'; {near}'}")
