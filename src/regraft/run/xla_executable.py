"""The result of `build` for target ``"xla"``: functions that compile when called, and a report on the compiled
programs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..ir.module import IRModule
from .arrays import check_donated
from .errors import BuildError
from .executable import Executable
from .function_writer import write_module
from .lifted_constants import Lifted, lift_constants
from .mesh import CutAxes, Mesh
from .sharding_gate import ShardedTensor, resolved
from .xla_calls import OutsideCalls
from .xla_engine import is_known
from .xla_placement import Placement
from .xla_program import Home, XlaFunction, dialect, engine_settings, leaves_of
from .xla_report import FunctionReport, XlaReport

_serial: Final = itertools.count()


class XlaExecutable(Executable):
    """A module on XLA. Functions compile at their first call, once for each set of sizes."""

    __slots__ = ("_compiling", "_placement", "mesh", "placements")
    mesh: Mesh | None
    placements: Mapping[str, CutAxes]
    """The axes of the mesh that cut each axis of a weight or argument, by name; all others are whole on each device."""

    def __init__(
        self,
        module: IRModule,
        device: Any,
        mesh: Mesh | None,
        shardings: Mapping[str, Any] | None,
        inputs: Mapping[str, Any] | None,
        donate: Sequence[str],
        cache: str | os.PathLike[str] | None,
        compiler_options: Mapping[str, Any] | None,
        verify_types: bool,
    ) -> None:
        lifted = lift_constants(module, is_known)
        specs = _specs(module, lifted, mesh, shardings, inputs)
        check_donated(donate, module)
        self.mesh = mesh
        self.placements = specs
        outside, placement = OutsideCalls(mesh is None), Placement(device, mesh, specs)
        self._placement: Final = placement
        text = f"<regraft xla {next(_serial)}>"
        with engine_settings():
            program = write_module(lifted.module, dialect(module, outside, placement), text, verify_types=verify_types)
        home = Home(program, placement, outside, None if cache is None else os.fspath(cache), compiler_options)
        self._compiling: Final = {
            name: XlaFunction(name, function, lifted.taken[name], home, frozenset(donate))
            for name, function in module.items()
        }
        super().__init__("xla", {name: _entry(f) for name, f in self._compiling.items()}, program.source)

    def place(self, name: str, shape: tuple[int, ...], read: Callable[[tuple[slice, ...]], Any]) -> Any:
        """A JAX array with the sharding of the parameter ``name``; ``read(region)`` returns the numbers of a part of
        it.

        Each process reads only the parts of its own devices.
        """
        with engine_settings():
            return self._placement.put_parts(shape, self._placement.sharding(name), read)

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The prefixes of the names of the devices that this runs on."""
        platform = self._placement.platform
        return (platform, "llvm") if platform == "cpu" else (platform, "cuda" if platform == "gpu" else platform)

    @property
    def runs_where(self) -> str:
        """The devices that this runs on, for messages."""
        return "the CPU" if self._placement.platform == "cpu" else self._placement.platform

    @property
    def compilations(self) -> dict[str, int]:
        """The number of times that each function was compiled: once for each set of sizes that it was called with."""
        return {name: len(function.compiled) for name, function in self._compiling.items()}

    def report(self, function: str | None = None, sizes: Mapping[str, int] | None = None) -> XlaReport:
        """The report on compiled programs: weights, arguments and temporaries by device, collectives by source layer.

        ``function`` is the function to report on, by default all. Functions that have been called are reported for the
        sizes of the latest call. Others are compiled for the sizes in their types, with symbolic sizes from ``sizes``
        by name. Weights are not read. Cost: the compilation once, then linear in the text of the compiled program.
        Raises `BuildError` if a size is unknown, and the errors of a call.
        """
        chosen = [function] if function is not None else list(self._compiling)
        reports: list[FunctionReport] = []
        for name in chosen:
            if name not in self._compiling:
                raise BuildError(f"there is no function {name!r}; there are: {', '.join(self._compiling)}")
            found = self._compiling[name]
            latest = list(found.compiled)[-1:] if sizes is None else []
            reports.append(found.report(latest[0] if latest else found.signature(sizes or {})))
        return XlaReport(self.mesh, tuple(reports), sum(self.compilations.values()))


def _entry(function: XlaFunction) -> Any:
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    call.__name__ = call.__qualname__ = function.name
    return call


def _specs(
    module: IRModule,
    lifted: Lifted,
    mesh: Mesh | None,
    shardings: Mapping[str, Any] | None,
    inputs: Mapping[str, Any] | None,
) -> dict[str, CutAxes]:
    """The spec of each tensor that has one, by name."""
    if mesh is None:
        for argument, given in (("shardings", shardings), ("inputs", inputs)):
            if given:
                raise BuildError(f"{argument} need a mesh to be laid over: mesh=regraft.Mesh(data=2, model=4)")
        return {}
    params: dict[str, ShardedTensor] = {}
    for function in module.functions.values():
        for param in function.params:
            for leaf in leaves_of(param.name_hint, param.ty, ", ".join(map(str, param.origins[:1]))):
                params.setdefault(leaf.name, leaf)
    weights: dict[str, ShardedTensor] = {}
    for data in itertools.chain.from_iterable(lifted.taken.values()):
        if data.name is not None:
            weights.setdefault(data.name, ShardedTensor(data.name, data.shape, data.dtype))
    named = [*weights.values(), *[leaf for name, leaf in params.items() if name not in weights]]
    return {
        **resolved("shardings", shardings, named, mesh),
        **resolved("inputs", inputs, list(params.values()), mesh),
    }
