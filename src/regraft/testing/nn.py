"""Relax's small layers for tests, and checkpoints: values that the gradient recomputes.

The layers write into the open builder. A layer is a Python object with parameters and a ``forward``. For models, use
`regraft.frontend.nn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..ir.builder import BlockBuilder
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.types import TensorType
from ..op.grad import end_checkpoint, start_checkpoint
from ..run import Tensor, tensor
from ..script import relax as R


def _builder() -> BlockBuilder:
    builder = BlockBuilder.current()
    if builder is None:
        raise RuntimeError("no BlockBuilder is open; write this inside `with builder.function(...)`")
    return builder


def emit(expr: Expr, name_hint: str = "") -> Var:
    """The variable that ``expr`` is bound to in the open builder."""
    return _builder().emit(expr, name_hint)


def checkpoint(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``func(*args, **kwargs)`` as a checkpoint: the gradient recomputes its values instead of keeping them."""
    return _ended(end_checkpoint, _started(start_checkpoint, func, args, kwargs))


def emit_checkpoint(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`checkpoint` with its marks bound to variables, named after the argument (``_scp``) and the result (``_ecp``)."""

    def start(value: Expr) -> Expr:
        return emit(start_checkpoint(value), f"{value.name_hint}_scp") if isinstance(value, Var) else value

    def end(value: Expr) -> Var:
        bound = value if isinstance(value, Var) else emit(value)
        return emit(end_checkpoint(bound), f"{bound.name_hint}_ecp")

    result = _started(start, func, args, kwargs)
    return _ended(end, emit(result) if isinstance(result, Expr) else result)


def _started(mark: Callable[[Any], Any], func: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    return func(*_marked(mark, args), **dict(zip(kwargs, _marked(mark, kwargs.values()), strict=True)))


def _ended(mark: Callable[[Any], Any], result: Any) -> Any:
    return mark(result) if isinstance(result, Expr) else _marked(mark, result)


def _marked(mark: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [mark(value) if isinstance(value, Expr) else value for value in values]


def emit_checkpoint_sequential(
    functions: Sequence[Callable[..., Any]], segments: int | list[int], x: Var, checkpoint_last: bool = False
) -> Var:
    """The result of the functions, applied one after another in segments that are checkpoints.

    ``segments`` is the number of segments, or the list of the indices at which they begin. The last segment is a
    checkpoint only with ``checkpoint_last``.
    """
    n = len(functions)
    begins = segments if isinstance(segments, list) else list(range(0, n, n // segments))
    bounds = begins if begins[-1] == n else [*begins, n]
    value: Any = x
    for begin, end in pairwise(bounds):

        def run(given: Any, part: Sequence[Callable[..., Any]] = functions[begin:end]) -> Any:
            for function in part:
                given = function(given)
            return given

        value = emit_checkpoint(run, value) if end != n or checkpoint_last else run(value)
    return value if isinstance(value, Var) else emit(value)


def _named(name: str) -> str:
    builder = BlockBuilder.current()
    return name if builder is None else builder.get_unique_name(name)


def Placeholder(shape: Sequence[Any], dtype: str = "float32", name: str = "data") -> Var:
    """An input of a model: a variable with a unique name. Raises `TypeError` if ``shape`` is no list or tuple."""
    if not isinstance(shape, list | tuple):
        raise TypeError(f"the shape of {name!r} is {shape!r}; give a list or a tuple")
    return Var(_named(name), TensorType(shape, dtype))


def Parameter(shape: Sequence[Any], dtype: str = "float32", name: str = "param") -> Var:
    """A weight of a model: a variable with a unique name, as from `Placeholder`."""
    return Placeholder(shape, dtype, name)


class Module:
    """A layer. A subclass has parameters and layers as attributes, and a ``forward`` that writes its computation."""

    def parameters(self) -> list[Var]:
        """The parameters of this layer and of the layers in it."""
        return _parameters(vars(self))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Write the computation of the layer, and return its result."""
        raise NotImplementedError(f"{type(self).__name__} has no `forward`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of `forward`."""
        return self.forward(*args, **kwargs)


def _parameters(value: Any) -> list[Var]:
    if isinstance(value, Var):
        return [value]
    if isinstance(value, Module):
        return value.parameters()
    items: Any = value.values() if hasattr(value, "values") else value
    return [found for item in items for found in _parameters(item)] if type(value) in (dict, list, tuple) else []


def init_params(mod: IRModule) -> list[Tensor]:
    """Float32 zeros for each parameter of ``main`` whose name does not begin with ``data``.

    Raises `TypeError` if the shape of one is not known in numbers.
    """
    params: list[Tensor] = []
    for param in mod["main"].params:
        if not param.name_hint.startswith("data"):
            shape = getattr(param.ty, "shape", None)
            if shape is None or not all(isinstance(size, int) for size in shape):
                raise TypeError(f"{param.name_hint} has no known shape: {param.ty}")
            params.append(tensor(np.zeros(tuple(shape), "float32")))
    return params


class Sequential(Module):
    """Layers, one after another."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, x: Expr) -> Any:
        """The result of the last layer."""
        for module in self.modules:
            x = module(x)
        return x


class ReLU(Module):
    """The rectified linear unit."""

    def forward(self, x: Expr) -> Var:
        """``relu(x)``."""
        return emit(R.nn.relu(x))


class LogSoftmax(Module):
    """The logarithm of softmax over the last axis."""

    def forward(self, x: Expr) -> Var:
        """``log_softmax(x)``."""
        return emit(R.nn.log_softmax(x))


class Linear(Module):
    """A linear layer: a matmul with a weight of shape ``(in_features, out_features)``, plus a bias by default."""

    def __init__(self, in_features: Any, out_features: Any, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, x: Expr) -> Var:
        """``x @ weight + bias``."""
        product = emit(R.matmul(x, self.weight))
        return product if self.bias is None else emit(R.add(product, self.bias))
