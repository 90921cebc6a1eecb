"""The names under ``R`` and ``I`` that are not operators: constants, shapes, tuples, calls to the outside.

The reader recognizes those that only have a meaning as a statement of a function (`dataflow`, `output`, `match_cast`,
`func_attr` ...) by their identity. Called anywhere else, they raise an error that says where they belong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..ir.dtypes import as_dtype
from ..ir.errors import IRError, RegraftError
from ..ir.expr import Constant, DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, Tuple
from ..ir.expr import const as make_const
from ..ir.op import Attrs
from ..ir.types import Shape
from ..ir.vdevice import DummyGlobalInfo, VDevice
from ..op.primitive.dist import DeviceMesh
from ..op.primitive.packed import call_py_func as call_python
from .attribute_text import DEVICES
from .evaluate import as_value
from .sizes import SizeScope

_SPECIAL_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def const(value: Any, dtype: str | None = None) -> Constant:
    """A tensor known in full, from a number, nested lists or an array.

    ``"inf"``, ``"-inf"`` and ``"nan"`` are numbers. Without ``dtype`` a float is float32, an int int32, a bool bool,
    and an array keeps its dtype.
    """
    if isinstance(value, PrimValue):
        value = value.value
    if isinstance(value, str):
        if value not in _SPECIAL_NUMBERS:
            raise IRError(f'R.const({value!r}): a constant in quotes is one of "inf", "-inf", "nan"')
        value = _SPECIAL_NUMBERS[value]
    if isinstance(value, Expr) and not isinstance(value, Constant):
        raise IRError("R.const takes numbers and arrays, not an expression of the program")
    try:
        return make_const(value, None if dtype is None else as_dtype(dtype))
    except (TypeError, ValueError, OverflowError) as error:
        raise IRError(f"R.const cannot make a tensor of {value!r}: {error}") from None


def shape(values: Sequence[object]) -> ShapeExpr:
    """A shape with written-out sizes: ints, size expressions, or scalars whose value is known."""
    sizes = SizeScope()
    is_of_a_type: bool = type(values) is Shape
    if isinstance(values, str | Expr) and not is_of_a_type:
        raise IRError(f"R.shape takes a sequence of sizes, R.shape([2, 3]), not {values!r}")
    for value in values:
        if isinstance(value, str):
            raise IRError(f"R.shape: {value!r} in quotes; declare the size, n = T.int64(), and write n")
    return ShapeExpr([sizes.resolve(value) for value in values])


def prim_value(value: Any) -> Expr:
    """A scalar that is not a tensor, from an int, a float, a bool or a size; a scalar of the program stays as it is."""
    return value if isinstance(value, Expr) else PrimValue(value)


def string(value: str) -> StringImm:
    """A string as a value of the program."""
    return StringImm(value)


def device(device_type: str | int, index: int = 0) -> str:
    """The text of a device, for ``R.hint_on_device``: its kind, by name or DLPack number, and its index."""
    kind = DEVICES.get(device_type, str(device_type)) if isinstance(device_type, int) else device_type
    return kind if ":" in kind else f"{kind}:{index}"


def cpu(dev_id: int = 0) -> str:
    """``R.device("cpu", dev_id)``."""
    return device("cpu", dev_id)


def cuda(dev_id: int = 0) -> str:
    """``R.device("cuda", dev_id)``."""
    return device("cuda", dev_id)


def dtype(value: str) -> DataTypeImm:
    """A dtype as a value of the program."""
    return DataTypeImm(value)


def make_tuple(*fields: Any) -> Tuple:
    """A tuple of the given fields; ``R.tuple()`` is the empty tuple."""
    return cast(Tuple, as_value(fields))


def freeze(value: Any) -> Any:
    """An attribute value in the form that the language stores.

    Lists become tuples and dictionaries become attributes, at every level.
    """
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return Attrs({key: freeze(item) for key, item in table.items()})
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return tuple([freeze(item) for item in items])
    if isinstance(value, StringImm | PrimValue):
        return value.value
    return value


def call_py_func(func_name: str | StringImm, *args: Any, out_ty: Any = None, ty_args: Any = None) -> Expr:
    """A call of a Python function of the module with ``args``; with ``ty_args``, as printed, they are one tuple."""
    values = [as_value(arg) for arg in args]
    if ty_args is not None:
        return call_python(func_name, values[0], ty_args)
    return call_python(func_name, values, out_ty)


_writers: Final[list[tuple[Callable[[], bool], Mapping[str, Any]]]] = []


def write_with(is_open: Callable[[], bool], statements: Mapping[str, Any]) -> None:
    """While ``is_open()`` is True, use ``statements`` for the statements of ``R``: inside an `IRBuilder`."""
    _writers.append((is_open, statements))


def written_statement(name: str) -> Any:
    """The function that currently writes the statement ``R.name``; None if no program is being written by calls."""
    return next((table[name] for is_open, table in _writers if name in table and is_open()), None)


def _statement(name: str, shown: str, where: str, *args: Any) -> Any:
    write = written_statement(name)
    if write is None:
        raise RegraftError(f"{shown} {where}")
    return write(*args)


def dataflow() -> Any:
    """``with R.dataflow():`` opens a block without effects or branches."""
    return _statement("dataflow", "R.dataflow()", "opens a block in a program: with R.dataflow():")


def output(*variables: Any) -> None:
    """``R.output(a, b)`` as the last statement of a dataflow block names what is visible after it."""
    _statement("output", "R.output(...)", "is a statement: the last one of a dataflow block", *variables)


def match_cast(value: Expr, ty: Any) -> Any:
    """``y = R.match_cast(x, ty)`` checks at run time that ``x`` has the type ``ty``; defines the sizes in ``ty``."""
    where = "is bound to a name directly: y = R.match_cast(x, R.Tensor((n, 4)))"
    return _statement("match_cast", "R.match_cast(...)", where, value, ty)


def func_attr(attrs: dict[str, Any]) -> None:
    """``R.func_attr({...})`` sets attributes of the function around it."""
    _statement("func_attr", "R.func_attr(...)", "is a statement of a function", attrs)


def func_name(name: str) -> None:
    """``R.func_name("f")`` names the function around it."""
    _statement("func_name", "R.func_name(...)", "is a statement of a function", name)


def module_attrs(attrs: dict[str, Any]) -> None:
    """``I.module_attrs({...})`` sets attributes of the module around it.

    Python evaluates it without effect.
    """


def module_global_infos(infos: dict[str, Any]) -> None:
    """``I.module_global_infos({"mesh": [R.device_mesh((2, 4), I.Range(0, 8))]})`` names the meshes of the module.

    Virtual devices may be named, too: ``{"vdevice": [I.vdevice("llvm")]}``. Python evaluates it without effect.
    """


def named_meshes(infos: Any) -> tuple[tuple[str, tuple[DeviceMesh | VDevice | DummyGlobalInfo, ...]], ...]:
    """The entries of ``I.module_global_infos``, as the module stores them; raises `IRError` for anything else."""
    named: list[tuple[str, tuple[DeviceMesh | VDevice | DummyGlobalInfo, ...]]] = []
    for name, entries in infos.items() if isinstance(infos, dict) else [("", None)]:  # pyright: ignore[reportUnknownVariableType]
        found: list[Any] = list(entries) if isinstance(entries, list | tuple) else [entries]  # pyright: ignore[reportUnknownArgumentType]
        if not isinstance(name, str) or not all(
            isinstance(entry, DeviceMesh | VDevice | DummyGlobalInfo) for entry in found
        ):
            raise IRError(
                'I.module_global_infos names device meshes, {"mesh": [R.device_mesh((2, 4), I.Range(0, 8))]}, and '
                'virtual devices, {"vdevice": [I.vdevice("llvm")]}'
            )
        named.append((name, tuple(found)))
    return tuple(named)
