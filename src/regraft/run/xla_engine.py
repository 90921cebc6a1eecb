"""The XLA engine: a program as one compiled computation, through JAX.

The program is written as straight-line Python over `jax.numpy` (`function_writer`), traced, and compiled once for each
set of sizes that it is called with. Weights are arguments of the computation, not constants in it, so they are not
copied into the compiled program, and the compiler does not process them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..analysis import detect_recursion
from ..ir.collection import collection_paused
from ..ir.expr import Constant, Expr
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Binding, SeqExpr
from ..ir.tensor_data import TensorData
from ..ir.visitor import walk
from .errors import BuildError
from .mesh import Mesh
from .onnx_node import is_carried_node
from .packed import LOWERINGS

if TYPE_CHECKING:
    from .xla_executable import XlaExecutable

MOST_KNOWN: Final = 64
"""Unnamed constants of up to this many elements are compiled in: bounds of slices, scales, small tables."""

_SIZED_BY_VALUES: Final = {
    "relax.nonzero": (),
    "relax.unique": (),
    "relax.vision.all_class_non_max_suppression": (),
    "relax.dynamic_strided_slice": (1, 2, 3),
    "relax.tensor_to_shape": (0,),
}
"""Operators whose result's size depends on values, and the operands that determine it if they are constants."""


def runs(op: Op) -> bool:
    """True if this engine runs calls of ``op``, at least with constants for the operands that sizes depend on."""
    has_meaning = op.name in LOWERINGS or op.reference is not None or is_carried_node(op)
    return _SIZED_BY_VALUES.get(op.name, (0,)) != () and has_meaning


def is_known(data: TensorData) -> bool:
    """True if a constant is compiled into the program instead of being an argument."""
    return data.name is None and data.size <= MOST_KNOWN


def compile_module(
    module: IRModule,
    *,
    device: Any = None,
    mesh: Mesh | None = None,
    shardings: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    donate: Sequence[str] = (),
    cache: str | os.PathLike[str] | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    verify_types: bool = False,
) -> XlaExecutable:
    """``module`` compiled for XLA, through JAX.

    Args:
        module: its functions compile at their first call, once for each set of sizes.
        device: the device to run on: a JAX device, or a name such as ``"cpu"`` or ``"gpu:1"``; None is JAX's first.
            With a mesh, the platform of the mesh's devices.
        mesh: several devices, over which ``shardings`` and ``inputs`` distribute tensors; all other tensors are whole
            on each.
        shardings: specs of weights (and of parameters) by name or glob: an exact name takes precedence, else the first
            matching glob.
        inputs: specs of parameters, likewise.
        donate: names of parameters whose memory the results may reuse: a JAX array that is passed for one cannot be
            read again.
        cache: a directory for compiled programs, so that another process need not compile them again.
        compiler_options: XLA's own, such as ``{"xla_backend_optimization_level": 0}``.
        verify_types: True to check each binding's type while the program is compiled.

    Results are JAX arrays. 64-bit numbers stay 64-bit, and the user's JAX settings are not changed. Cost: linear in the
    bindings; compiling, at the first call, takes seconds for a large model. Raises `BuildError` for a program that XLA
    cannot compile, and for shardings that do not fit the mesh or the tensors.
    """
    _check_calls_end(module)
    _check_sizes_are_known(module)
    from .xla_executable import XlaExecutable

    with collection_paused():
        return XlaExecutable(module, device, mesh, shardings, inputs, donate, cache, compiler_options, verify_types)


def _check_calls_end(module: IRModule) -> None:
    """Raise `BuildError` for functions that call themselves, directly or through others."""
    for group in detect_recursion(module):
        names = [function.name_hint for function in group]
        circle = "itself" if len(names) == 1 else f"{', '.join(names[1:])} and through that itself"
        raise BuildError(
            f"{names[0]} calls {circle}; XLA puts a function in the place of each call when it compiles, and that "
            "would never end here. Write it with R.loop, or run it on another target"
        )


def _check_sizes_are_known(module: IRModule) -> None:
    """Raise `BuildError` for a call whose result's size depends on values of operands that are not constants."""
    for name, function in module.items():
        for expr in walk(function):
            for binding in _bindings(expr):
                call = binding.value
                if not isinstance(call, Call) or not isinstance(call.op, Op):
                    continue
                deciding = _SIZED_BY_VALUES.get(call.op.name)
                if deciding is None or (deciding and all(_is_known_operand(call.args[i]) for i in deciding)):
                    continue
                origins = binding.var.origins
                raise BuildError(
                    f"{name}: {binding.var.name_hint} = R.{call.op.name.removeprefix('relax.')}(...) has a size that "
                    f"depends on values; XLA needs it when it compiles{f' (from {origins[0]})' if origins else ''}. "
                    f"Run it on another target, or fold it first (FoldConstant) where its operands are constants"
                )


def _bindings(expr: Expr) -> Iterator[Binding]:
    if isinstance(expr, SeqExpr):
        for block in expr.blocks:
            yield from block.bindings


def _is_known_operand(expr: Expr) -> bool:
    return isinstance(expr, Constant) and is_known(expr.data)
