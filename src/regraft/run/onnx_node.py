"""ONNX nodes that are read at run time, when their operands have sizes, and computed by the engine that runs them.

The meaning of such a node depends on a size, or on a number that another node computes, so in the program it is a call
of a foreign operator. Each combination of sizes, and of such numbers, is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..ir.dtypes import as_dtype, is_exact, numpy_dtype
from ..ir.expr import Constant, Expr, Var, const
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Function, SeqExpr
from ..ir.types import TensorType, Type, map_type
from .errors import ExecutionError

_Kind: TypeAlias = tuple[tuple[int, ...], str]
"""The sizes and the dtype of an operand."""

_STANDARD: Final = "ai.onnx::"
_MOST_KEPT: Final = 64
"""The number of combinations for which a node is kept compiled."""
_MOST_NUMBERS: Final = 64
"""The most elements of an integer or bool operand whose values may decide a node's meaning; of a float operand, one."""


class NodeEngine(NamedTuple):
    """The engine that computes such nodes."""

    compile: Callable[[IRModule], Callable[..., Any]]
    """Compiles the function ``main`` of a module for the engine's arrays."""
    dtype: Callable[[Any], str | None]
    """The dtype of an array by its name in the language; None for a value that is not an array."""
    numbers: Callable[[Any], np.ndarray | None]
    """The values of an array; None if they are unknown, as while a program is traced."""


def is_carried_node(op: Op) -> bool:
    """True if ``op`` is a deterministic ONNX operator that is foreign in the program."""
    return op.is_foreign and op.is_pure and op.name.startswith(_STANDARD)


def carried_node(call: Call, engine: NodeEngine) -> Callable[..., Any] | None:
    """The function that computes such a call over arrays of ``engine``; None for a call of another operator."""
    if not isinstance(call.op, Op) or not is_carried_node(call.op):
        return None

    # Each call has its own cache, so the compiled programs are freed together with the call.
    @lru_cache(_MOST_KEPT)
    def read(kinds: Sequence[_Kind | None], numbers: tuple[tuple[int, bytes], ...]) -> _Reading:
        return _Reading(call, engine, kinds, dict(numbers))

    def kind(value: Any) -> _Kind | None:
        dtype = engine.dtype(value)
        return None if dtype is None else (tuple([int(size) for size in value.shape]), dtype)

    def run(*operands: Any, **attributes: Any) -> Any:
        del attributes  # they are the attributes of the call
        kinds = tuple([kind(x) for x in operands])
        found = read(kinds, ())
        if found.problem:
            deciding = [index for index, one in enumerate(kinds) if _may_decide(one)]
            known = [(index, engine.numbers(operands[index])) for index in deciding]
            found = read(kinds, tuple([(index, numbers.tobytes()) for index, numbers in known if numbers is not None]))
        return found(operands)

    return run


def _may_decide(kind: _Kind | None) -> bool:
    if kind is None:
        return False
    most = _MOST_NUMBERS if is_exact(kind[1]) else 1
    return len(kind[0]) <= 1 and prod(kind[0]) <= most


class _Reading:
    """A node as a program for operands of certain sizes, some with known numbers, or the reason why there is none."""

    __slots__ = ("_given", "_run", "problem")

    def __init__(
        self, call: Call, engine: NodeEngine, kinds: Sequence[_Kind | None], numbers: Mapping[int, bytes]
    ) -> None:
        from ..formats.errors import ConvertError
        from ..formats.onnx.read.reader import from_run
        from ..formats.onnx.write.writer import OPSETS, to_onnx

        params: dict[int, Var] = {}
        args: list[Expr] = []
        for index, (arg, kind) in enumerate(zip(call.args, kinds, strict=True)):
            if kind is None or isinstance(arg, Constant):
                args.append(arg)
            elif index in numbers:
                shape, dtype = kind
                args.append(const(np.frombuffer(numbers[index], numpy_dtype(as_dtype(dtype))).reshape(shape), dtype))
            else:
                args.append(params.setdefault(index, Var(f"operand{index}", TensorType(*kind))))
        alone = Call(call.op, args, call.attrs, [map_type(ty, _without_sizes) for ty in call.ty_args])
        function = Function(list(params.values()), SeqExpr([], alone), attrs={"global_symbol": "main"})
        assert isinstance(call.op, Op)
        version = call.op.onnx_name.version
        self._given: Final = tuple(params)
        self._run: Callable[..., Any] | None = None
        self.problem = ""
        try:
            model = to_onnx(IRModule({"main": function}), opset=max(OPSETS[0], version))
            self._run = engine.compile(from_run(model))
        except ConvertError as error:
            self.problem = str(error)

    def __call__(self, operands: Sequence[Any]) -> Any:
        if self._run is None:
            raise ExecutionError(self.problem)
        return self._run(*[operands[index] for index in self._given])


def _without_sizes(ty: Type) -> Type:
    """``ty`` without sizes, whose names belong to the program around the node."""
    return TensorType(None, ty.dtype, ty.ndim) if isinstance(ty, TensorType) else ty
