"""Calls of external functions, and operators that only an engine can execute: print, assert, closures.

The only known fact about an external function is what its call states: ``out_ty`` or ``ty_args``, the type of
its result (the older names ``out_sinfo`` and ``sinfo_args`` are accepted too). The engine that runs a
program executes these calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ...ir.dtypes import is_bool
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, ExternFunc, GlobalVar, PrimValue, StringImm, Tuple, as_expr
from ...ir.op import REQUIRED, Attrs, Call, Trait, joined_type, stated_type, wrong_attribute, wrong_operand
from ...ir.types import OBJECT, FuncType, ObjectType, PrimType, TensorType, TupleType, Type, is_subtype
from ..public_function import declares
from ..row import primitive, published
from ..rules import as_int_tuple

__all__ = [
    "assert_op",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_py_func",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
    "null_value",
    "print",
]

Types: TypeAlias = "Type | Sequence[Type]"
Callee: TypeAlias = "str | Expr"


# --- stated types


def _as_types(stated: Any, name: str, argument: str) -> tuple[Type, ...]:
    """The types that a call states, given as one type or several, as a tuple."""
    if isinstance(stated, Type):
        return (stated,)
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        types: Sequence[Any] = stated  # pyright: ignore[reportUnknownVariableType]
        if all(isinstance(ty, Type) for ty in types):
            return tuple(types) or (TupleType(()),)
    raise OpTypeError(
        f'{name}: {argument}={stated!r}; expected a type, such as R.Tensor((2, 3), "float32"), or several'
    )


def one_of(name: str, given: Types | None, older: Types | None, argument: str = "ty_args") -> tuple[Type, ...]:
    """The types of a result, which a call states as ``argument`` or under Relax's older name.

    Raises `OpTypeError` unless exactly one of the two is given.
    """
    if (given is None) == (older is None):
        older_name = argument.replace("ty", "sinfo")
        raise OpTypeError(
            f"{name}: give the type of the result, once, as {argument} (or, as it was called, {older_name})"
        )
    return _as_types(older if given is None else given, name, argument)


def as_callee(func: Callee) -> Expr:
    """An external function, given by its name, or an expression of a function."""
    return ExternFunc(func) if isinstance(func, str) else func


def as_packed_arguments(args: Any) -> Expr:
    """The arguments of a call as one tuple; an expression that is not a tuple is the only argument."""
    if isinstance(args, Expr):
        return args if isinstance(args.ty, TupleType | ObjectType) else Tuple([args])
    items: Iterable[Any] = args
    return Tuple([_argument(arg) for arg in items])


def _check_callee(call: Call) -> None:
    callee = call.args[0]
    if not isinstance(callee, ExternFunc | GlobalVar) and not isinstance(callee.ty, FuncType | ObjectType):
        raise wrong_operand(call, 0, 'a function: its name, R.ExternFunc("name"), or an expression of one')


def check_arguments(call: Call) -> None:
    """Raise `OpTypeError` if operand 1 is not a tuple of arguments."""
    if not isinstance(call.args[1].ty, TupleType | ObjectType):
        raise wrong_operand(call, 1, "a tuple of the arguments")


# --- external functions


def _call_py_func_type(call: Call) -> Type:
    if not isinstance(call.args[0], StringImm):
        raise wrong_operand(call, 0, "the name of a Python function")
    check_arguments(call)
    return stated_type(call)


def _stated_results(call: Call) -> tuple[Type, Sequence[Type]]:
    """The type that a call states, and the types of its single results."""
    stated = stated_type(call)
    return stated, stated.fields if isinstance(stated, TupleType) else (stated,)


def _call_dps_packed_type(call: Call) -> Type:
    _check_callee(call)
    check_arguments(call)
    stated, fields = _stated_results(call)
    if not all(isinstance(field, TensorType) and field.shape is not None for field in fields):
        raise OpTypeError(
            f"{CALL_DPS_PACKED.name}: out_ty={stated!r}; expected tensors of known shape, "
            "because the caller allocates them"
        )
    return stated


CALL_PY_FUNC = primitive("relax.call_py_func", ("func", "args"), infer=_call_py_func_type)


def call_py_func(func_name: str | StringImm, args: Expr | Sequence[Expr], out_ty: Types) -> Call:
    """A call of a Python function of the module, added by ``@I.pyfunc`` or `BasePyModule`.

    Operands: ``func_name``, its name; ``args``, a tuple of the arguments, or the only argument. ``out_ty``: the type of
    the result (for several types, a tuple of them). It counts as pure; the author of the call guarantees that.
    Raises `OpTypeError` if types are not stated.
    """
    types = _as_types(out_ty, CALL_PY_FUNC.name, "out_ty")
    return Call(CALL_PY_FUNC, (_argument(func_name), as_packed_arguments(args)), None, (joined_type(types),))


CALL_DPS_PACKED = primitive("relax.call_dps_packed", ("func", "args"), infer=_call_dps_packed_type)


def call_dps_packed(
    func: Callee, args: Expr | Sequence[Expr], out_ty: Types | None = None, *, out_sinfo: Types | None = None
) -> Call:
    """A call of a pure external function that writes into tensors it is given ("destination-passing style").

    Operands: ``func``, its registered name or an expression of it; ``args``, a tuple of the values it reads, or the
    only one. ``out_ty``: the types of the tensors it writes, of known shape (and dtype, to be run). These tensors are
    the result: one tensor or, for several types, a tuple. Raises `OpTypeError` if the types are not stated, or are of
    another kind.
    """
    types = one_of(CALL_DPS_PACKED.name, out_ty, out_sinfo, "out_ty")
    return Call(CALL_DPS_PACKED, (as_callee(func), as_packed_arguments(args)), None, (joined_type(types),))


def call_packed(
    func: Callee, *args: Any, ty_args: Types | None = None, sinfo_args: Types | None = None, **attrs: Any
) -> Call:
    """A call of an external function that may have effects.

    Operands: ``func``, its registered name, and its arguments. ``ty_args``: the type of the result (for
    several types, a tuple of them). ``attrs``: further attributes of the call. Such a call is never moved, copied,
    shared or dropped. Without a type the result may be anything.
    """
    stated = ty_args is not None or sinfo_args is not None
    types = one_of("relax.call_packed", ty_args, sinfo_args) if stated else ()
    attrs.pop("attrs_type_key", None)  # TVM prints it to mark that there are attributes
    return Call(as_callee(func), [_argument(arg) for arg in args], _frozen(attrs), types)


def _argument(value: Any) -> Expr:
    """``value`` as an argument of an external function: strings become `StringImm`, Python numbers `PrimValue`."""
    if isinstance(value, str):
        return StringImm(value)
    return PrimValue(value) if isinstance(value, bool | int | float) else as_expr(value)


def _frozen(value: Any) -> Any:
    """Attribute values as calls store them: lists become tuples and mappings `Attrs`, at every level."""
    if isinstance(value, Mapping):
        return Attrs({name: _frozen(item) for name, item in cast("Mapping[str, Any]", value).items()})
    if isinstance(value, list | tuple):
        return tuple([_frozen(item) for item in cast("Sequence[Any]", value)])
    return value


def _call_pure_packed_type(call: Call) -> Type:
    _check_callee(call)
    return stated_type(call)


CALL_PURE_PACKED = primitive("relax.call_pure_packed", ("func", "*args"), infer=_call_pure_packed_type)


def call_pure_packed(func: Callee, *args: Any, ty_args: Types | None = None, sinfo_args: Types | None = None) -> Call:
    """A `call_packed` of a function without effects; the author of the call guarantees that.

    Operands: ``func``, its registered name or an expression of it, and its arguments. ``ty_args``: the
    type of the result (for several types, a tuple of them). Raises `OpTypeError` if the type is not stated.
    """
    types = one_of(CALL_PURE_PACKED.name, ty_args, sinfo_args)
    return Call(CALL_PURE_PACKED, (as_callee(func), *map(_argument, args)), None, types)


def _call_inplace_packed_type(call: Call) -> Type:
    _check_callee(call)
    stated, fields = _stated_results(call)
    places: tuple[int, ...] = call.attrs.inplace_indices
    count = len(call.args) - 1
    if len(places) != len(fields):
        raise wrong_attribute(call, "inplace_indices", f"one index for each of the {len(fields)} results")
    if all(place == -1 for place in places) or not all(-1 <= place < count for place in places):
        expected = f"indices of the {count} arguments, or -1 for a new tensor, but not only -1"
        raise wrong_attribute(call, "inplace_indices", expected)
    written = [place for place in places if place != -1]
    if len(set(written)) != len(written):
        raise wrong_attribute(call, "inplace_indices", "arguments that are all different")
    for place, field in zip(places, fields, strict=True):
        if place != -1 and is_subtype(call.args[place + 1].ty, field) is False:
            raise wrong_operand(call, place + 1, f"{field!r}, the type of the result that is written into it")
    return stated


CALL_INPLACE_PACKED = primitive(
    "relax.call_inplace_packed",
    ("func", "*args"),
    {"inplace_indices": REQUIRED},
    infer=_call_inplace_packed_type,
)


def call_inplace_packed(
    func: Callee,
    *args: Any,
    inplace_indices: int | Sequence[int],
    ty_args: Types | None = None,
    sinfo_args: Types | None = None,
) -> Call:
    """A `call_pure_packed` of a function that writes results into its arguments.

    It counts as pure: the author of the call guarantees that overwritten arguments are not used afterwards.
    Operands: ``func``, its registered name or an expression of it, and its arguments. Attributes:
    ``inplace_indices``: for each result the index, from 0, of the argument that it is written into, or -1 for a new
    tensor. ``ty_args``: the type of the result (for several types, a tuple of them). Raises `OpTypeError`
    if types are not stated, and for indices that do not fit them or the arguments.
    """
    name = CALL_INPLACE_PACKED.name
    types = one_of(name, ty_args, sinfo_args)
    places = as_int_tuple(inplace_indices, name, "inplace_indices")
    return Call(CALL_INPLACE_PACKED, (as_callee(func), *map(_argument, args)), {"inplace_indices": places}, types)


# --- closures


def _make_closure_type(call: Call) -> Type:
    _check_callee(call)
    check_arguments(call)
    return OBJECT


MAKE_CLOSURE = primitive("relax.make_closure", ("func", "args"), infer=_make_closure_type)


def make_closure(func: Expr, args: Expr | Sequence[Expr]) -> Call:
    """The closure of ``func`` with its last arguments already given, to be called with `invoke_closure`.

    Operands: ``func``, a function of the module; ``args``, a tuple of the captured values. Result: an object.
    """
    return MAKE_CLOSURE(func, as_packed_arguments(args))


def _invoke_type(call: Call) -> Type:
    if not isinstance(call.args[0].ty, ObjectType | FuncType):
        raise wrong_operand(call, 0, "a closure, as R.make_closure returns it")
    check_arguments(call)
    return stated_type(call)


def _invoking(name: str, traits: Sequence[Trait], doc: str):
    """Declare an operator that calls a closure. Returns its public function."""
    op = primitive(name, ("closure", "args"), infer=_invoke_type, traits=traits)

    def function(
        closure: Expr, args: Expr | Sequence[Expr], ty_args: Types | None = None, *, sinfo_args: Types | None = None
    ) -> Call:
        return Call(op, (closure, as_packed_arguments(args)), None, one_of(name, ty_args, sinfo_args))

    return published(function, op, doc)


invoke_closure = _invoking(
    "relax.invoke_closure",
    (Trait.IMPURE,),
    """A call of a closure that may have effects.

    Operands: ``closure``, a result of `make_closure`; ``args``, a tuple of the remaining arguments.
    ``ty_args``: the type of the result. Raises `OpTypeError` if it is not given, or if ``closure`` is no closure.
    """,
)
invoke_pure_closure = _invoking(
    "relax.invoke_pure_closure",
    (),
    "`invoke_closure` of a closure that has no effects. The caller guarantees this.",
)


# --- operators that an engine executes


@declares("relax.null_value", primitive=True, infer=lambda call: OBJECT)
def null_value() -> Call:
    """The null value: Python's ``None``, of type object."""
    ...


PRINT = primitive("relax.print", ("*values",), {"format": ""}, infer=lambda call: TupleType(()), traits=(Trait.IMPURE,))


def print(*values: Any, format: str | Expr = "") -> Call:
    """Write values to standard output while the program runs.

    Operands: ``values``, any. Attributes: ``format``, as for ``str.format``, with one field for each value;
    "" writes them separated by spaces. Result: an empty tuple. The call is impure: it cannot be in a dataflow
    block.
    """
    return PRINT(*map(as_expr, values), format=_as_text(format, PRINT.name))


def _assert_op_type(call: Call) -> Type:
    ty = call.args[0].ty
    scalar = isinstance(ty, PrimType) or (isinstance(ty, TensorType) and ty.ndim in (-1, 0))
    dtype = ty.dtype if isinstance(ty, PrimType | TensorType) else None
    if not scalar or not (dtype is None or is_bool(dtype)):
        raise wrong_operand(call, 0, "a bool, as a scalar tensor or R.prim_value; reduce a tensor of them with R.min")
    return TupleType(())


ASSERT_OP = primitive(
    "relax.assert_op", ("condition", "*format_args"), {"format": ""}, infer=_assert_op_type, traits=(Trait.IMPURE,)
)


def assert_op(condition: Expr, format_args: Any = None, *more: Any, format: str | Expr = "") -> Call:
    """Stop the program with an error if ``condition`` is false.

    Operands: ``condition``, a bool, as a scalar tensor or a prim value; ``format_args``, the values for the message:
    one value or a sequence of them (more may follow as arguments). Attributes: ``format``, the message, as for
    ``str.format``. Result: an empty tuple. The call is impure: it cannot be in a dataflow block. Raises
    `OpTypeError` if the condition is not a bool.
    """
    several = isinstance(format_args, list | tuple)
    first = cast("Sequence[Any]", format_args) if several else [format_args]
    values = [as_expr(value) for value in (*first, *more) if value is not None]
    return ASSERT_OP(condition, *values, format=_as_text(format, ASSERT_OP.name))


def _as_text(format: Any, name: str) -> str:
    text = format.value if isinstance(format, StringImm) else format
    if not isinstance(text, str):
        raise OpTypeError(f"{name}: format={format!r}; expected a string")
    return text
