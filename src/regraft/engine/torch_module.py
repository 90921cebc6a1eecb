"""A program as a PyTorch module, and as a program that `torch.export` writes to a file.

The module owns the program's constants as parameters and buffers, under the names of the source model, so that
``state_dict``, ``.to(device)``, autograd, `torch.compile` and `torch.export` work on it as on any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from ..convert.errors import ConvertError
from ..convert.torch.exported import export
from ..convert.torch.signature import Kind, Nesting, Signature
from ..convert.torch.tensors import torch_dtype
from ..ir.collection import collection_paused
from ..ir.module import IRModule
from ..ir.tensor_data import TensorData
from ..ir.types import PrimType, TensorType
from .failures import located
from .function_writer import write_module
from .torch_arrays import as_constant
from .torch_engine import dialect, serial
from .torch_weights import lift_constants

_FLAT: Final = Signature(None, None, (), (), ())


class RegraftModule(torch.nn.Module):
    """A program that runs on PyTorch; made by `regraft.to_torch`."""

    def __init__(self, module: IRModule, name: str = "main", *, share_memory: bool = False) -> None:
        super().__init__()
        function = module[name]
        signature = Signature.of(function)
        with collection_paused():
            lifted = lift_constants(module)
            filename = f"<regraft torch module {next(serial)}>"
            program = write_module(lifted.module, dialect(None), filename, verify_types=False)

        def explain(error: Exception) -> Exception:
            return located(program, name, error)

        self._run: Callable[..., Any] = program.namespace[program.functions[name]]
        self._explain: Callable[[Exception], Exception] = explain
        self._nesting = Nesting(signature or _FLAT)
        self._inputs = tuple(param.name_hint for param in function.params)
        self._tuple = len(getattr(function.ret_ty, "fields", ())) if signature is None else 0
        self._mutated = () if signature is None else signature.mutated
        self._example = tuple(param.ty for param in function.params)
        self.source = program.source
        state = _State(self, signature, share_memory)
        self._places = [state.place(data) for data in lifted.taken[name]]
        state.add_aliases()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; nested arguments in, nested results out."""
        inputs = self._nesting.flatten(args, kwargs) if self._nesting.is_nested else self._in_order(args, kwargs)
        weights = [getattr(owner, attribute) for owner, attribute in self._places]
        device = next((x.device for x in (*weights, *inputs) if isinstance(x, torch.Tensor)), None)
        if device is None or device.type == "cpu":
            result = self._computed(inputs, weights)
        else:
            with device:
                result = self._computed(inputs, weights)
        if not self._nesting.is_nested:
            return result
        results = list(result) if isinstance(result, tuple) else [result]
        count = len(self._mutated)
        for buffer, value in zip(self._mutated, results[:count], strict=True):
            self.get_buffer(buffer).copy_(value.detach())
        return self._nesting.unflatten(results[count:])

    def _computed(self, inputs: Sequence[Any], weights: Sequence[Any]) -> Any:
        if torch.compiler.is_compiling():
            return self._run(*inputs, *weights)
        try:
            return self._run(*inputs, *weights)
        except Exception as error:
            raise self._explain(error) from error

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = self._inputs
        rest = names[len(args) :]
        if len(args) > len(names) or set(kwargs) != set(rest):
            given = ", ".join([f"{len(args)} in order", *kwargs])
            raise ConvertError(f"forward takes ({', '.join(names)}), but got {given}")
        return [*args, *[kwargs[name] for name in rest]]

    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the right shapes and dtypes, all zeros, with 2 for each dynamic size; for `torch.export`."""
        values = [_example(ty) for ty in self._example]
        args, kwargs = self._nesting.nested(values)
        return tuple(args), dict(kwargs)

    def dynamic_shapes(self) -> Any:
        """What `torch.export` needs to keep symbolic sizes dynamic; None where there are none."""
        marks = [_dynamic_axes(ty) for ty in self._example]
        if not any(marks):
            return None
        args, kwargs = self._nesting.nested(marks)
        shapes: dict[str, Any] = {"args": tuple(args)} if args else {}
        return {**shapes, "kwargs": dict(kwargs)} if kwargs else shapes


def _dynamic_axes(ty: Any) -> Any:
    if isinstance(ty, TensorType):
        return {axis: torch.export.Dim.AUTO for axis, size in enumerate(ty.shape or ()) if not isinstance(size, int)}
    return torch.export.Dim.AUTO if isinstance(ty, PrimType) and not isinstance(ty.value, int | float) else None


def _example(ty: Any) -> Any:
    match ty:
        case TensorType(shape=tuple() as shape, dtype=str() as dtype):
            sizes = [size if isinstance(size, int) else 2 for size in shape]
            return torch.zeros(sizes, dtype=torch_dtype(dtype))
        case PrimType():
            return 2 if "int" in ty.dtype else 2.0
        case _:
            raise ConvertError(f"no example can be made for a parameter of type {ty!r}; give inputs")


class _State:
    """Puts constants into a module as parameters and buffers, each once."""

    def __init__(self, root: torch.nn.Module, signature: Signature | None, share_memory: bool) -> None:
        self._root: Final = root
        self._kinds: Final[dict[str, Kind]] = dict(signature.tensors) if signature else {}
        self._aliases: Final = signature.aliases if signature else ()
        self._is_foreign: Final = signature is None
        self._share: Final = share_memory
        self._count: Final = itertools.count()

    def place(self, data: TensorData) -> tuple[torch.nn.Module, str]:
        """Register a constant; where it is from now on."""
        tensor = as_constant(data, None)
        if not self._share:
            tensor = tensor.clone()
        name = data.name if data.name is not None else f"constant_{next(self._count)}"
        owner, attribute = self._owner(name)
        kind = self._kind(data)
        if kind in ("parameter", "frozen"):
            owner.register_parameter(attribute, torch.nn.Parameter(tensor, requires_grad=kind == "parameter"))
        else:
            owner.register_buffer(attribute, tensor, persistent=kind == "buffer")
        return owner, attribute

    def _kind(self, data: TensorData) -> Kind:
        if data.name is None:
            # Single numbers are part of the code; whole tensors are what rewriting made of weights.
            return "buffer" if data.shape else "constant"
        known = self._kinds.get(data.name)
        if known is not None:
            return known
        return "parameter" if self._is_foreign and _is_trainable(data) else "buffer"

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        """The nested module that a dotted name belongs to, made where it does not exist, and the last part."""
        *path, attribute = [part or "_" for part in name.split(".")]
        owner = self._root
        for part in path:
            if part not in owner._modules:
                owner.add_module(self._free(owner, part), torch.nn.Module())
            found = owner._modules.get(part) or owner._modules[f"{part}_"]
            assert found is not None
            owner = found
        return owner, self._free(owner, attribute)

    def _free(self, owner: torch.nn.Module, name: str) -> str:
        while hasattr(owner, name):
            name = f"{name}_"
        return name

    def add_aliases(self) -> None:
        """Give tied tensors their further names."""
        for alias, name in self._aliases:
            *path, last = name.split(".")
            try:
                tensor = getattr(self._root.get_submodule(".".join(path)), last)
            except AttributeError:
                continue  # the program no longer reads it
            owner, attribute = self._owner(alias)
            if isinstance(tensor, torch.nn.Parameter):
                owner.register_parameter(attribute, tensor)
            else:
                owner.register_buffer(attribute, tensor)


def _is_trainable(data: TensorData) -> bool:
    return "float" in data.dtype and bool(data.shape)


def export_torch(module: RegraftModule) -> torch.export.ExportedProgram:
    """The program as `torch.export` gives it, with its symbolic sizes dynamic."""
    args, kwargs = module.example_inputs()
    return export(module, args, kwargs, module.dynamic_shapes())
