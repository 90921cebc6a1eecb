"""Decomposition of composite operators into primitives: an operator's reference semantics, run over expressions.

`decompose` returns the program of a call. `record` writes it to a `ProgramRecorder`, for example as nodes of a file.
`legalized` decomposes the calls of a whole function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from ..ir.builder import NameSupply
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op
from ..ir.origin import Origins
from ..ir.program import Binding, Function, MatchCast, VarBinding, is_leaf
from ..ir.types import PrimType, ShapeType, TensorType, TupleType, Type, is_subtype
from .folding import folded
from .open_namespace import namespace_for
from .program_xp import DecomposeError, ProgramArray, ProgramNamespace, ProgramRecorder


class Decomposition(NamedTuple):
    """The program of a call: ``bindings`` in order, and the result ``value``, a leaf or a tuple of leaves."""

    bindings: tuple[Binding, ...]
    value: Expr


class BindingRecorder:
    """Records a program as ``bindings`` of new variables of class ``kind``; ``origins`` may be set between calls."""

    def __init__(self, names: NameSupply, kind: type[Var] = Var) -> None:
        self.bindings: list[Binding] = []
        self.origins: Origins = ()
        self._names = names
        self._kind = kind

    def emit(self, value: Expr) -> Expr:
        """Bind ``value`` to a new variable and return it; a leaf is returned itself."""
        if is_leaf(value):
            return value
        var = self._kind(self._names.fresh("lv"), value.ty, self.origins)
        self.bindings.append(VarBinding(var, value))
        return var

    def match_cast(self, value: Expr, ty: Type) -> Expr:
        """Bind ``value`` to a new variable of type ``ty``, with a run-time check, and return it."""
        var = self._kind(self._names.fresh("lv"), ty, self.origins)
        self.bindings.append(MatchCast(var, value, ty))
        return var


class _FoldingRecorder:
    """A recorder that folds calls of small constants, and passes all others to another recorder."""

    __slots__ = ("_recorder", "match_cast")

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self.match_cast = recorder.match_cast

    def emit(self, value: Expr) -> Expr:
        known = folded(value) if isinstance(value, Call) else None
        return self._recorder.emit(value) if known is None else known


def decompose(call: Call) -> Decomposition:
    """``call``, of an operator with a reference, as calls of other operators on the same operands.

    Raises `DecomposeError` if it needs sizes or dtypes that are not known, or if the operator's reference cannot be
    run over expressions. Cost: that of running the reference; it does not depend on the sizes of the operands.
    """
    recorder = BindingRecorder(NameSupply())
    value = record(call, recorder)
    return Decomposition(tuple(recorder.bindings), value)


def record(call: Call, recorder: ProgramRecorder) -> Expr:
    """The value of ``call``, recorded by ``recorder``: a leaf, or a tuple of leaves. Raises as `decompose` does."""
    op = call.op
    if not isinstance(op, Op) or op.reference is None:
        raise DecomposeError(f"{call!r} has no definition that can be written as a program")
    recorder = _FoldingRecorder(recorder)
    operands = [_operand(arg, recorder) for arg in call.args]
    if not op.variadic:
        operands += [None] * (len(op.operands) - len(operands))
    try:
        return _result(op.reference(namespace_for(op, ProgramNamespace(recorder)), *operands, **call.attrs))
    except DecomposeError:
        raise
    except (TypeError, AttributeError, ValueError) as error:
        raise DecomposeError(_cannot(op, call, error)) from error


def _cannot(op: Op, call: Call, error: Exception) -> str:
    """The message about a reference that could not be run over expressions."""
    types = ", ".join(repr(arg.ty) for arg in call.args)
    said = f"{op.name} of ({types}) cannot be written as other operators: {error}"
    if "symbolic" in str(error) or "Sym" in str(error):
        return f"{said}; give the size a value with BindSymbolicVars"
    return said


def _operand(arg: Expr, recorder: ProgramRecorder) -> Any:
    match arg.ty:
        case TensorType():
            return ProgramArray(recorder, arg)
        case TupleType(fields=fields):
            parts: Sequence[Expr] = (
                arg.fields
                if isinstance(arg, Tuple)
                else [recorder.emit(TupleGetItem(arg, index)) for index in range(len(fields))]
            )
            return tuple([_operand(part, recorder) for part in parts])
        case ShapeType(values=tuple() as sizes):
            return sizes
        case PrimType(value=value) if value is not None:
            return value
        case _:
            raise DecomposeError(f"{arg!r} is {arg.ty!r}; to decompose its operator, this value must be known")


def _result(value: Any) -> Expr:
    if isinstance(value, ProgramArray):
        return value.expr
    if isinstance(value, tuple | list):
        fields = cast("Sequence[Any]", value)
        return Tuple([_result(field) for field in fields])
    raise DecomposeError(f"the reference semantics returned {value!r}, which cannot be a value of a program")


# --- in a whole function


Takes: TypeAlias = Callable[[Call], bool]
"""A function that returns True if a target supports a call without decomposition."""


class _Legalizer(ExprMutator):
    """Rewrites a function; the calls in a decomposition are decomposed again if the target does not take them."""

    def __init__(self, takes: Takes) -> None:
        super().__init__()
        self._takes = takes

    def visit_call_(self, call: Call) -> Expr:
        return call if self._is_taken(call) else self._decomposed(call)

    def _is_taken(self, call: Call) -> bool:
        op = call.op
        return not isinstance(op, Op) or op.is_primitive or op.reference is None or self._takes(call)

    def _decomposed(self, call: Call) -> Expr:
        value = record(call, _Nested(self))
        return value if is_subtype(value.ty, call.ty) is True else self.emit_match_cast(value, call.ty)


class _Nested:
    """The recorder of a decomposition, which emits its calls through the legalizer."""

    __slots__ = ("_legalizer",)

    def __init__(self, legalizer: _Legalizer) -> None:
        self._legalizer = legalizer

    def emit(self, value: Expr) -> Expr:
        if isinstance(value, Call):
            value = self._legalizer.visit_call_(value)
        return value if is_leaf(value) else self._legalizer.emit(value)

    def match_cast(self, value: Expr, ty: Type) -> Var:
        return self._legalizer.emit_match_cast(value, ty)


def legalized(function: Function, takes: Takes) -> Function:
    """``function`` with each call of a composite decomposed if ``takes`` is False for it; itself if nothing changes.

    Raises `DecomposeError` for a call whose decomposition needs sizes or dtypes that are not known. Cost: linear in
    the bindings, including the new ones.
    """
    return _Legalizer(takes).mutate(function)
