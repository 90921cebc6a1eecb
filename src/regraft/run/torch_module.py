"""A program as a PyTorch module.

The module owns the program's constants as parameters and buffers, under the names of the source model. So
``state_dict``, ``.to(device)``, autograd, `torch.compile` and `torch.export` work as on any other module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import torch

from ..formats.errors import ConvertError
from ..formats.torch.signature import VALUE, CallingConvention, Nesting, part_names
from ..formats.torch.tensors import torch_dtype
from ..ir.builder import NameSupply
from ..ir.collection import collection_paused
from ..ir.expr import Constant
from ..ir.leaf_types import leaf_types
from ..ir.module import IRModule
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings
from .arrays import BYTES_FOR_BITS
from .errors import ExecutionError, TypeCheckError
from .failures import located
from .function_writer import write_module
from .lifted_constants import lift_constants
from .python_source import identifier
from .torch_calls import restore_calls
from .torch_engine import dialect, serial
from .torch_full import with_numbers_written
from .torch_narrow import require_narrow_is_read_only, with_packed_numbers
from .torch_sizes import with_read_sizes
from .torch_state import ModuleState


def as_torch_module(module: IRModule, name: str, *, share_memory: bool) -> RegraftModule:
    """The program as a module whose ``forward`` has the arguments of the source model."""
    function = module[name]
    signature = CallingConvention.of(function) or _flat_signature(function)
    nesting = Nesting(signature)

    def forward(self: RegraftModule, *args: Any, **kwargs: Any) -> Any:
        return self.run_program(args, kwargs)

    names = ["self", *nesting.arguments]
    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    forward.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    forward.__doc__ = "Run the program; nested arguments in, nested results out."
    kind = type("RegraftModule", (RegraftModule,), {"forward": forward, "__module__": __name__})
    return kind(module, name, signature, nesting, share_memory)


def _flat_signature(function: Function) -> CallingConvention:
    """The signature of a program that did not come from PyTorch: parameters in order, and the result as it is."""
    supply = NameSupply(["self"])
    names = tuple([supply.fresh(identifier(param.name_hint)) for param in function.params])
    inputs = tuple([(VALUE, i) for i in range(len(names))])
    return CallingConvention(None, None, inputs, (), (), arguments=names)


def _statistics(function: Function) -> Iterator[str]:
    """The names of running statistics of batch norms, for which PyTorch's operator has no gradients."""
    for binding in iter_bindings(function):
        call = binding.value
        if is_call_of(call, "relax.nn.batch_norm"):
            held = [operand.data.name for operand in call.args[3:] if isinstance(operand, Constant)]
            yield from filter(None, held)


class RegraftModule(torch.nn.Module):
    """A program that runs on PyTorch; made by `regraft.to_torch`. ``source`` is its text, for people."""

    source: str
    nesting: Nesting
    signature: CallingConvention
    types: tuple[Type, ...]
    """The types of the function's own parameters."""
    most_axes: int
    """The largest number of axes of a tensor in the program."""

    def __init__(
        self, module: IRModule, name: str, signature: CallingConvention, nesting: Nesting, share_memory: bool
    ) -> None:
        super().__init__()
        with collection_paused():
            restored = restore_calls(with_read_sizes(module, name, signature.checks))
            require_narrow_is_read_only(restored)
            restored = with_packed_numbers(restored)
            lifted = lift_constants(with_numbers_written(restored), held_as=dict.fromkeys(BYTES_FOR_BITS, "int8"))
            filename = f"<regraft torch module {next(serial)}>"
            program = write_module(lifted.module, dialect(None, goes_out=True), filename, verify_types=False)

        def explain(error: Exception) -> Exception:
            return located(program, name, error)

        self._run: Callable[..., Any] = program.namespace[program.functions[name]]
        self._explain: Callable[[Exception], Exception] = explain
        self.nesting = nesting
        self.signature = signature
        self._restores = bool(signature.outputs)
        self._mutated = signature.mutated
        self._written = signature.written
        self.types = tuple([param.ty for param in module[name].params])
        values = leaf_types(*self.types, *[binding.var.ty for binding in iter_bindings(module[name])])
        self.most_axes = max((ty.ndim for ty in values if isinstance(ty, TensorType)), default=0)
        self.source = program.source
        state = ModuleState(self, signature, _statistics(module[name]), share_memory)
        self._places = state.place_all(lifted.taken[name])
        types = _result_types(module[name].ret_ty)
        state.place_written({buffer: _zeros(ty) for buffer, ty in zip(self._mutated, types, strict=False)})
        state.add_aliases()
        places = {buffer: place for place, (buffer, _) in enumerate(self.named_buffers())}
        # In the order in which an exported PyTorch program lists them.
        self._changed = sorted(state.changed(), key=lambda one: places.get(one.name, len(places)))
        unread = {*[each for each, _ in signature.tensors], *signature.complexes} - state.names
        parted = [each for each in signature.complexes if each not in state.names]
        cast(Any, self).register_load_state_dict_pre_hook(_without(unread, parted))

    @contextmanager
    def plain_results(self) -> Generator[None]:
        """Inside the ``with`` block, results that are PyTorch's own named tuples become plain ones, which a file can
        hold.
        """
        before = self.nesting
        self.nesting = Nesting(replace(self.signature, structures=()))
        try:
            yield
        finally:
            self.nesting = before

    def run_program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the program with the arguments of ``forward``, whatever their names are."""
        inputs = self._own_inputs(args, kwargs)
        weights = [place.value() for place in self._places]
        device = next((x.device for x in (*weights, *inputs) if isinstance(x, torch.Tensor)), None)
        with nullcontext() if device is None or device.type == "cpu" else device:
            result = self._computed(inputs, weights)
        if not self._restores:
            return result
        changed = [self.get_buffer(one.name) for one in self._changed] + [inputs[place] for place in self._written]
        results = [_apart_from(changed, value) for value in _as_list(result)] if changed else _as_list(result)
        # An exported program states which buffers carry gradients between calls; in other programs none does.
        detached = self.signature.detached if torch.compiler.is_exporting() else self._mutated
        count = len(self._mutated)
        for one, buffer in zip(self._changed, changed, strict=False):
            value = one.new(results)
            buffer.copy_(value.detach() if self._mutated[one.places[0]] in detached else value)
        for given, value in zip(changed[len(self._changed) :], results[count:], strict=False):
            given.copy_(value)
        return self.nesting.unflatten(results[count + len(self._written) :])

    def _own_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = self.nesting.arguments
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) + len(kwargs) != len(names) or len(values) != len(names) or any(n not in values for n in names):
            given = ", ".join([f"{len(args)} in order", *[f"{each}=" for each in kwargs]])
            raise ExecutionError(f"forward takes ({', '.join(names)}), but got {given}")
        try:
            return self.nesting.flatten(values)
        except ConvertError as error:
            raise ExecutionError(str(error)) from None

    def _computed(self, inputs: Sequence[Any], weights: Sequence[Any]) -> Any:
        if torch.compiler.is_compiling():
            return self._run(*inputs, *weights)
        try:
            return self._run(*inputs, *weights)
        except TypeCheckError:
            raise
        except Exception as error:
            raise self._explain(error) from error


def _apart_from(changed: Sequence[torch.Tensor], value: Any) -> Any:
    """``value``, or a copy of it if it shares memory with a tensor that is about to change."""
    if not isinstance(value, torch.Tensor):
        return value
    # Dynamo cannot query memory, and it removes unneeded copies.
    shares = torch.compiler.is_dynamo_compiling() or any(_memory(value) == _memory(tensor) for tensor in changed)
    return value.clone() if shares else value


def _memory(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory, also in a program that PyTorch traces."""
    return cast(Any, tensor.untyped_storage())._cdata


def _result_types(ty: Type) -> Sequence[Type]:
    return ty.fields if isinstance(ty, TupleType) else (ty,)


def _zeros(ty: Type) -> torch.Tensor:
    """A tensor of zeros of a type with known shape and dtype."""
    assert isinstance(ty, TensorType)
    return torch.zeros([int(cast(int, size)) for size in ty.shape or ()], dtype=torch_dtype(ty.dtype or ""))


def _as_list(result: Any) -> list[Any]:
    return list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else [result]


def _without(names: set[str], parted: Sequence[str]) -> Callable[..., None]:
    """A hook that removes tensors from a checkpoint that the program does not read, including parts of ``parted``."""

    def drop(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *_more: Any) -> None:
        for name in parted:
            whole = state_dict.get(prefix + name)
            if isinstance(whole, torch.Tensor):
                parts = zip(part_names(name), (torch.real(whole), torch.imag(whole)), strict=True)
                state_dict.update({prefix + label: part for label, part in parts})
        for name in names:
            state_dict.pop(prefix + name, None)

    return drop
