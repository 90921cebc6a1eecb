"""Plans that need no pattern: the batch split over devices, and every weight split over devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.compile_time import weights_of
from ...ir.dims import Dim
from ...ir.expr import Constant, Var
from ...ir.module import IRModule
from ...ir.program import Function
from ...ir.types import TensorType
from ...ir.visitor import walk
from ..context import PassError
from .plan import ShardingPlan


def axis_size(axis: str, mesh: Mapping[str, int] | None) -> int:
    """The number of devices of ``axis``; 1 without a mesh. Raises `PassError` if the mesh has no such axis."""
    if mesh is None:
        return 1
    if axis not in mesh:
        raise PassError(f"the mesh has no axis {axis!r}; it has: {', '.join(mesh)}")
    return mesh[axis]


class DataParallel:
    """Specs for the inputs of a program: axis 0, the batch, over ``axis``; for ``inputs=`` of `regraft.build`.

    Inputs are the parameters of ``function`` that are not weights (before ``num_input``, if it has that attribute).
    With a ``mesh``, inputs whose batch is not divisible are left out, and ``reasons`` names them.
    """

    def __init__(self, axis: str = "data", mesh: Mapping[str, int] | None = None, function: str = "main") -> None:
        self.axis = axis
        self.mesh = mesh
        self.function = function

    def __call__(self, module: IRModule) -> ShardingPlan:
        """The specs of the inputs of ``module``. Raises `PassError` for a function or an axis that does not exist."""
        ways = axis_size(self.axis, self.mesh)
        if self.function not in module:
            raise PassError(f"DataParallel: there is no function {self.function!r}; there are: {', '.join(module)}")
        function = module[self.function]
        weights = set(weights_of(function))
        plan = ShardingPlan()
        for param in function.params:
            if param in weights or not isinstance(param.ty, TensorType) or not param.ty.shape:
                continue
            batch = param.ty.shape[0]
            if isinstance(batch, int) and batch % ways:
                plan.reasons.append(f"{param.name_hint}: a batch of {batch} does not divide over {ways}")
            else:
                plan[param.name_hint] = (self.axis,)
        return plan


class FullySharded:
    """A plan that splits every weight over ``axis``, along its longest divisible axis.

    Each device keeps 1/n of all weights. A weight is gathered when it is used, which costs traffic and saves memory:
    after Rajbhandari et al., "ZeRO" (2020). Weights of fewer than ``least`` elements stay whole. Weights with no
    divisible axis stay whole, too, and ``reasons`` names them.
    """

    def __init__(self, axis: str = "data", mesh: Mapping[str, int] | None = None, least: int = 1024) -> None:
        self.axis = axis
        self.mesh = mesh
        self.least = least

    def __call__(self, module: IRModule) -> ShardingPlan:
        """The specs of all weights of ``module``. Raises `PassError` for an axis that the mesh does not have."""
        ways = axis_size(self.axis, self.mesh)
        plan = ShardingPlan()
        for name, dims in _weights(module):
            sizes = [dim if isinstance(dim, int) else 0 for dim in dims]
            count = 1
            for size in sizes:
                count *= size
            if count < self.least or name in plan:
                continue
            fits = [index for index, size in enumerate(sizes) if size % ways == 0]
            if not fits:
                plan.reasons.append(f"{name}: no axis of {tuple(sizes)} divides over {ways}")
                continue
            cut = max(fits, key=lambda index: sizes[index])
            plan[name] = tuple([self.axis if index == cut else None for index in range(len(sizes))])
        return plan


def _weights(module: IRModule) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    """The names and sizes of named constants, and of parameters that are weights."""
    for function in module.functions.values():
        yield from _weights_of(function)


def _weights_of(function: Function) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    for expr in walk(function):
        if isinstance(expr, Constant) and expr.data.name is not None:
            yield expr.data.name, expr.data.shape
    own: tuple[Var, ...] = weights_of(function)
    for param in own:
        if isinstance(param.ty, TensorType) and param.ty.shape is not None:
            yield param.name_hint, param.ty.shape
