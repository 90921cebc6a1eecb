"""The values that modules compute with: tensors, objects and effects, and the parameters that modules own.

A `Tensor` represents an expression of the program that is being written. Functions of `nn.op` take and return tensors,
and append bindings to the builder whose function is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...ir.builder import BlockBuilder
from ...ir.dims import Dim, KnownSize, SymExpr, SymVar
from ...ir.dtypes import numpy_dtype
from ...ir.errors import BuilderError
from ...ir.expr import Constant, Expr, TupleGetItem, Var, const
from ...ir.types import ObjectType, TensorType, TupleType
from ...run.relax_values import Tensor as Array
from .operators import TensorOperators

Size = int | str | SymExpr
"""A size of a parameter or an input: a number, a symbolic size, or the name of one."""

_default_dtype: Final = ["float32"]


def get_default_dtype() -> str:
    """The dtype of parameters that are created without one; float32 at first."""
    return _default_dtype[0]


def set_default_dtype(dtype: str) -> None:
    """Set the dtype of parameters that are created later without one."""
    _default_dtype[0] = dtype


def sizes_of(shape: Sequence[Size], named: dict[str, SymVar]) -> list[Dim]:
    """``shape`` with a symbolic size for each name.

    ``named`` maps names to their sizes, and is extended with new names. Raises `TypeError` for a value that is not a
    size.
    """
    sizes: list[Dim] = []
    for size in shape:
        if isinstance(size, str):
            sizes.append(named.setdefault(size, SymVar(size)))
        elif isinstance(size, SymExpr) or type(size) in (int, KnownSize):
            sizes.append(size)
        else:
            raise TypeError(f"{size!r} is no size: give an int, the name of a size or a symbolic size")
    return sizes


def open_builder() -> BlockBuilder:
    """The builder whose function is being written.

    Raises `BuilderError` if there is none.
    """
    builder = BlockBuilder.current()
    if builder is None:
        raise BuilderError("operators on nn.Tensor write a program: call them in a method that `export_tvm` exports")
    return builder


class Tensor(TensorOperators):
    """A tensor of the program that is being written; ``_expr`` is its expression."""

    _expr: Expr

    def __init__(self, *, _expr: Expr) -> None:
        if not isinstance(_expr.ty, TensorType):
            raise TypeError(f"nn.Tensor holds expressions of tensor type, this one is of type {_expr.ty}")
        if _expr.ty.ndim < 0 or _expr.ty.shape is None:
            raise TypeError(f"nn.Tensor needs the sizes of its axes, this one is of type {_expr.ty}")
        self._expr = _expr

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """The constant with the elements of ``data``: an array, a number or a list of numbers."""
        return Tensor(_expr=const(data))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> Tensor:
        """The constant of rank 0 with the value ``data``."""
        return Tensor(_expr=const(data, dtype))

    @staticmethod
    def from_ty(ty: TensorType, name: str = "tensor") -> Tensor:
        """A new variable of type ``ty``."""
        return Tensor(_expr=Var(name, ty))

    @staticmethod
    def placeholder(shape: Sequence[Size], dtype: str, name: str = "tensor") -> Tensor:
        """A new variable with the given sizes; each name becomes a new symbolic size."""
        return Tensor.from_ty(TensorType(sizes_of(shape, {}), dtype), name)

    @property
    def _type(self) -> TensorType:
        ty = self._expr.ty
        assert isinstance(ty, TensorType)  # checked when the tensor is made
        return ty

    @property
    def shape(self) -> list[Dim]:
        """The sizes: ints and symbolic sizes."""
        return list(self._type.shape or ())

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._type.ndim

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return str(self._type.dtype)

    def __repr__(self) -> str:
        sizes = ", ".join(str(size) for size in self.shape)
        return f'Tensor([{sizes}], "{self.dtype}")'


class Parameter(Tensor):
    """A weight of a module: its sizes, its dtype, and its values once they are known.

    A size with a name is the same size in all parameters that a method is exported with, and never the size of an
    input. ``attrs`` is a dictionary for the user's own notes.
    """

    def __init__(self, shape: Sequence[Size], dtype: str | None = None) -> None:
        self.attrs: dict[str, Any] = {}
        self._sizes = tuple(shape)
        self._data: Array | None = None
        super().__init__(_expr=self.variable("param", {}, dtype or get_default_dtype()))

    def variable(self, name: str, named: dict[str, SymVar], dtype: str | None = None) -> Var:
        """A new variable of this type, or of another dtype; ``named`` maps names to their sizes."""
        return Var(name, TensorType(sizes_of(self._sizes, named), dtype or self.dtype))

    def exported_variable(self, name: str, named: dict[str, SymVar]) -> Var:
        """A `variable` in which symbolic sizes are also replaced by new ones, by name."""
        sizes = [size.name if isinstance(size, SymVar) else size for size in self._sizes]
        return Var(name, TensorType(sizes_of(sizes, named), self.dtype))

    def stand_for(self, expr: Expr) -> None:
        """Make this parameter represent ``expr`` in the program that is being written."""
        self._expr = expr

    @property
    def data(self) -> Array | None:
        """The values, None if they are not known yet. The setter takes anything that NumPy converts to an array.

        Raises `ValueError` for values of another shape or dtype.
        """
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if data is None:
            self._data = None
            return
        array = _array(data)
        fits = len(array.shape) == self.ndim and all(
            isinstance(size, SymExpr) or size == given for size, given in zip(self.shape, array.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"the values are of shape {array.shape}, the parameter of shape {tuple(self.shape)}")
        if array.dtype != numpy_dtype(self.dtype):
            raise ValueError(f"the values are {array.dtype}, the parameter is {self.dtype}")
        self._data = array.view(Array)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of a parameter whose values are not known yet.

        Raises `ValueError` if they are: convert the values first, and set them afterwards.
        """
        if dtype is None:
            return
        if self._data is not None:
            raise ValueError(f"the parameter holds {self.dtype} values: convert them, then set `data` after `to`")
        self._expr = self.variable("param", {}, dtype)


def _array(data: Any) -> np.ndarray:
    if hasattr(data, "detach"):  # a PyTorch tensor, which may require gradients
        data = data.detach().cpu().numpy()
    return np.asarray(data.numpy() if hasattr(data, "numpy") else data)


class Object:
    """A value of the program that is not a tensor, such as a cache that external functions keep."""

    _expr: Expr

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        self._expr = _expr if isinstance(_expr, Var) else open_builder().emit(_expr, _name)
        if not isinstance(self._expr.ty, ObjectType):
            raise TypeError(f"nn.Object holds values of type R.Any, this one is of type {self._expr.ty}")


def expression(value: Tensor | Object) -> Expr:
    """The expression that a tensor or an object represents."""
    return value._expr  # pyright: ignore[reportPrivateUsage] - named as in Relax, where users read it


class Effect:
    """State that methods change: a function takes it as parameters, and returns it beside its result."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Write the first state into the open function of ``builder``."""
        raise NotImplementedError(f"{type(self).__name__}.emit_init")

    def create(self, name_hint: str) -> list[Var]:
        """New variables for the state, which become parameters of a function."""
        raise NotImplementedError(f"{type(self).__name__}.create")

    def set_state(self, state_vars: list[Var]) -> None:
        """Set the state to start from."""
        raise NotImplementedError(f"{type(self).__name__}.set_state")

    def finalize(self) -> list[Var]:
        """The state at the end of a method; the effect then forgets it."""
        raise NotImplementedError(f"{type(self).__name__}.finalize")

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the state, if it has one."""


def wrap_nested(expr: Expr, name: str) -> Any:
    """Bind ``expr`` in the open function; returns a `Tensor`, or a tuple with a result for each field.

    ``name`` is the name of the variable; fields get this name and their index. Raises `TypeError` for values that are
    neither tensors nor tuples of them.
    """
    if not isinstance(expr, Var | Constant):
        expr = open_builder().emit(expr, name)
    if isinstance(expr.ty, TensorType):
        return Tensor(_expr=expr)
    if isinstance(expr.ty, TupleType):
        return tuple(wrap_nested(TupleGetItem(expr, index), f"{name}_{index}") for index in range(len(expr.ty.fields)))
    raise TypeError(f"a value of type {expr.ty} is neither a tensor nor a tuple of tensors")
