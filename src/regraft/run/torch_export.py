"""A PyTorch module of ours exported by `torch.export`, with dynamic sizes for symbolic ones.

PyTorch traces the module for example inputs. Their sizes are chosen, within the limits of the source model, so that no
number in the program equals one of them by chance. The result is then run at other sizes as a check.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from ..formats.errors import ConvertError
from ..formats.quiet import quiet
from ..formats.torch.exported import export
from ..formats.torch.tensors import torch_dtype
from ..ir.dims import Dim, SymVar, evaluate, free_symvars, substitute
from ..ir.types import PrimType, TensorType, Type, type_symvars
from .errors import ExecutionError
from .torch_complex import keep_complex_whole
from .torch_conditions import restore_conditions
from .torch_fresh_writes import write_fresh_in_place
from .torch_in_place import write_in_place
from .torch_loops import limited_steps
from .torch_module import RegraftModule
from .torch_out import ExampleCall
from .torch_state import OWN_CONSTANT, repeatable

_TOLERANCE: Final = 1e-3
_VERIFIED: Final = 2
_MOST_STEPS: Final = 1000
"""The limit of a loop's steps in a run that only compares two programs."""
_MOST_AXES: Final = 64
"""The limit of a tensor's axes in PyTorch's operators; tracing more of them would take hours."""
_NUMBERED: Final = re.compile(r"_\d+$")
_VIOLATED: Final = "Constraints violated"
_PRIMES: Final = (
    11,
    13,
    17,
    19,
    23,
    29,
    31,
    37,
    41,
    43,
    47,
    53,
    59,
    61,
    67,
    71,
    73,
    79,
    83,
    89,
    97,
    101,
    103,
    107,
    109,
)


def export_torch(module: RegraftModule, examples: ExampleCall | None = None) -> ExportedProgram:
    """The program that `torch.export` returns. Symbolic sizes are dynamic, with the limits of the source model.

    ``examples`` is the example call of the source model, which becomes that of the result if it has the structure of
    its arguments. PyTorch traces the program for other sizes, which may be larger.

    A program with symbolic sizes is run at two more choices of them. Raises `ConvertError` if PyTorch rejects the
    program, or fixes a size. Cost: tracing, and a few runs of both programs if there are symbolic sizes.
    """
    if module.most_axes > _MOST_AXES:
        raise ConvertError(f"a tensor has {module.most_axes} axes; programs of PyTorch have at most {_MOST_AXES}")
    sizes = _InputSizes(module)
    first, *others = sizes.choices()
    program = _traced(module, sizes, first)
    verified = 0
    for choice in others if sizes.variables else ():
        verified += _is_same(module, program, choice)
        if verified == _VERIFIED:
            break
    if examples is not None and pytree.tree_structure(examples) == pytree.tree_structure(program.example_inputs):
        program.example_inputs = examples
    return program


def _traced(module: RegraftModule, sizes: _InputSizes, choice: Mapping[SymVar, int]) -> ExportedProgram:
    args, kwargs = module.nesting.nested([_example(ty, choice) for ty in module.types])
    try:
        program = export(module, args, kwargs, sizes.dynamic_shapes())
    except ConvertError as error:
        if _VIOLATED not in str(error.__cause__):
            raise
        # A fact that holds for all sizes within the limits, but that PyTorch cannot prove, is checked at every call.
        program = export(module, args, kwargs, sizes.dynamic_shapes(checked=True))
    keep_complex_whole(program)
    restore_conditions(program)
    changes = bool(module.signature.mutated or module.signature.written)
    if changes:
        write_in_place(program)
    if module.signature.fills:
        write_fresh_in_place(program, module.signature.fills)
    program.graph.eliminate_dead_code()  # PyTorch keeps results that nothing reads
    _drop_unread_constants(program)
    if changes or module.signature.fills:
        _state_sizes(program)
        _number_names(program)
    program.graph_module.recompile()
    return program


def _drop_unread_constants(program: ExportedProgram) -> None:
    """Remove unnamed constants that nothing reads, such as the bias of a norm that adds none."""
    signature = program.graph_signature
    unread = {node.name: node for node in program.graph.find_nodes(op="placeholder") if not node.users}
    for spec in list(signature.input_specs):
        node = unread.get(getattr(spec.arg, "name", ""))
        if node is not None and not spec.persistent and spec.target and OWN_CONSTANT.fullmatch(spec.target):
            signature.input_specs.remove(spec)
            program.constants.pop(spec.target, None)
            program.graph.erase_node(node)


def _state_sizes(program: ExportedProgram) -> None:
    """Replace the -1 of reshapes by fixed sizes, as PyTorch does in a program that writes in place."""
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.reshape.default and -1 in node.args[1]:
            sizes = list(node.meta["val"].shape)
            if all(isinstance(size, int) for size in sizes):
                node.args = (node.args[0], sizes)


def _number_names(program: ExportedProgram) -> None:
    """Number nodes of the same name consecutively, as PyTorch does: a program that writes in place is traced with more
    nodes.
    """
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    others = {node.name for node in program.graph.nodes} - {node.name for node in nodes}
    last: dict[str, int] = {}
    renamed: dict[str, str] = {}
    for node in nodes:
        base = _NUMBERED.sub("", node.name)
        number = last.get(base, -1) + 1
        while (name := f"{base}_{number}" if number else base) in others or _is_reserved(name):
            number += 1
        last[base] = number
        renamed[node.name], node.name = name, name
    for spec in program.graph_signature.output_specs:
        if hasattr(spec.arg, "name"):
            spec.arg.name = renamed.get(spec.arg.name, spec.arg.name)


def _is_reserved(name: str) -> bool:
    return keyword.iskeyword(name) or hasattr(builtins, name)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Limits of one size: the least and the greatest (None: no limit) value, and the value in the model's example."""

    low: int
    high: int | None
    example: int

    def unusual(self, place: int) -> int:
        """A size that no number in a model equals by chance, if the limits allow it: at least that of the example."""
        fitting = [prime for prime in _PRIMES if prime >= self.example and (self.high is None or prime <= self.high)]
        return fitting[place % len(fitting)] if fitting else self.near(0)

    def near(self, more: int) -> int:
        """The example's size plus ``more``, within the limits; 1 only if that is the example's.

        PyTorch traces a program for sizes of 2 or more, and may refuse 1.
        """
        size = max(self.low, min(2, self.example), self.example + more)
        return size if self.high is None else min(size, self.high)


class _InputSizes:
    """The size variables of a module's inputs."""

    def __init__(self, module: RegraftModule) -> None:
        self._module: Final = module
        limits = {name: _Limits(low, high, example) for name, low, high, example in module.signature.sizes}
        found = dict.fromkeys(variable for ty in module.types for variable in type_symvars(ty))
        self.variables: Final = tuple(found)
        self._limits: Final = {variable: limits.get(variable.name, _Limits(0, None, 3)) for variable in found}
        unique = len({variable.name for variable in found}) == len(found)
        self._dims: Final[dict[SymVar, Any]] = {
            variable: self._named(variable) for variable in found if unique and variable.name.isidentifier()
        }

    def _named(self, variable: SymVar) -> Any:
        limits = self._limits[variable]
        return torch.export.Dim(variable.name, min=limits.low, max=limits.high)

    def choices(self) -> Iterator[dict[SymVar, int]]:
        """Sizes to try: first those to trace with, all different if the limits allow, then others."""
        yield {variable: self._limits[variable].unusual(place) for place, variable in enumerate(self.variables)}
        for more in (0, 1, 5, -1, 16):
            yield {
                variable: self._limits[variable].near(more + place * (more > 0))
                for place, variable in enumerate(self.variables)
            }

    def dynamic_shapes(self, *, checked: bool = False) -> Any:
        """The arguments for `torch.export` that keep sizes dynamic; None if there are no symbolic sizes.

        With ``checked``, a fact about a size that PyTorch cannot prove does not fail, but becomes a check in the
        program.
        """
        if not self.variables:
            return None
        nesting = self._module.nesting
        args, kwargs = nesting.nested([self._dynamic_axes(ty, checked) for ty in self._module.types], marks=True)
        return {**dict(zip(nesting.arguments, args, strict=False)), **kwargs}

    def _dynamic_axes(self, ty: Type, checked: bool) -> Any:
        if isinstance(ty, TensorType):
            mark = self._hint if checked else self._mark
            return {axis: mark(size) for axis, size in enumerate(ty.shape or ()) if not isinstance(size, int)}
        return torch.export.Dim.AUTO if isinstance(ty, PrimType) and not isinstance(ty.value, int | float) else None

    def _hint(self, size: Dim) -> Any:
        """The mark of a size that PyTorch determines, with the limits of a size variable."""
        limits = self._limits.get(size) if isinstance(size, SymVar) else None
        auto: Any = torch.export.Dim.AUTO
        return auto if limits is None else auto(min=limits.low, max=limits.high)

    def _mark(self, size: Dim) -> Any:
        """The named dim of a size that is linear in one variable; for any other size, PyTorch determines it."""
        variables = free_symvars(size)
        dim = self._dims.get(variables[0]) if len(variables) == 1 else None
        if dim is None:
            return torch.export.Dim.AUTO
        start = substitute(size, {variables[0]: 0})
        factor = substitute(size, {variables[0]: 1}) - start
        if not isinstance(factor, int) or not isinstance(start, int) or size != variables[0] * factor + start:
            return torch.export.Dim.AUTO
        dim = dim if factor == 1 else factor * dim
        return dim + start if start else dim


def _example(ty: Type, sizes: Mapping[SymVar, int]) -> Any:
    match ty:
        case TensorType(shape=tuple() as shape, dtype=str() as dtype):
            return torch.zeros([evaluate(size, sizes) for size in shape], dtype=torch_dtype(dtype))
        case PrimType():
            if isinstance(ty.value, SymVar):
                return sizes[ty.value]
            return 2 if "int" in ty.dtype else 2.0
        case _:
            raise ConvertError(f"no example can be made for a parameter of type {ty!r}; give inputs")


def _trial(value: Any) -> Any:
    """An input of the same shape and dtype filled with numbers; integers are 0 and 1, which are valid in any table."""
    if not isinstance(value, torch.Tensor):
        return value
    numbers = torch.arange(value.numel()).reshape(value.shape)
    if value.is_floating_point() or value.is_complex():
        return (torch.sin(numbers * 1.0)).to(value.dtype)
    return (numbers % 2).to(value.dtype)


def _is_same(module: RegraftModule, program: ExportedProgram, sizes: Mapping[SymVar, int]) -> bool:
    """True if the module runs at ``sizes``; raises `ConvertError` unless the exported program then gives the same
    results.

    Attention is computed by products: PyTorch's fast kernel reads beyond the values if there are more keys than values.
    """
    where = ", ".join(f"{variable.name} = {size}" for variable, size in sizes.items())
    given, again = [module.nesting.nested([_trial(_example(ty, sizes)) for ty in module.types]) for _ in "12"]
    try:
        with torch.no_grad(), repeatable(module), limited_steps(_MOST_STEPS), sdpa_kernel(SDPBackend.MATH):
            wanted = _tensors((module(*given[0], **given[1]), given))
    except ExecutionError:
        return False  # the model does not accept these sizes, or its loops do not end for these numbers
    try:
        with torch.no_grad(), repeatable(module), quiet(), sdpa_kernel(SDPBackend.MATH):
            got = _tensors((cast(Any, program).module()(*again[0], **again[1]), again))
    except Exception as error:  # PyTorch raises whatever its guards raise
        raise ConvertError(
            f"torch.export fixed a size that is dynamic: the result does not run for {where}: {error}"
        ) from error
    for index, (first, second) in enumerate(zip(wanted, got, strict=True)):
        if first.shape != second.shape or first.dtype != second.dtype or not _is_close(first, second):
            raise ConvertError(f"torch.export gives another program: for {where}, output {index} differs")
    return True


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _is_close(first: torch.Tensor, second: torch.Tensor) -> bool:
    wide = [tensor.to(torch.complex128) for tensor in (first, second)]
    return torch.allclose(wide[0], wide[1], _TOLERANCE, _TOLERANCE, equal_nan=True)
