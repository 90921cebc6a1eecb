"""A module whose functions take PyTorch tensors, together with Python functions that are added to it.

Like `tvm.relax.BasePyModule`, without TensorIR: it holds functions of the language and external functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.module import IRModule
from ..ir.types import TensorType
from .arrays import array_dtype
from .errors import ExecutionError, MissingFunctionError
from .executable import EntryFunction
from .externs import get_global_func, register_func
from .relax_values import Device, Tensor, cpu, tensor
from .targets import build
from .virtual_machine import VirtualMachine

if TYPE_CHECKING:
    import torch


class BasePyModule:
    """``BasePyModule(module, cpu()).main(*tensors)``: a compiled module whose results are PyTorch tensors.

    ``target`` is a target of `build`, by default the reference engine. Raises the errors of `build`.
    """

    def __init__(self, ir_mod: IRModule | ProgramClass, device: Device, target: object = None) -> None:
        pyfuncs: Mapping[str, Callable[..., Any]] = {}
        if isinstance(ir_mod, ProgramClass):
            ir_mod, pyfuncs = ir_mod.ir_module, ir_mod.pyfuncs
        self.ir_mod = ir_mod
        self.device = device
        self.target = "numpy" if target is None else target
        self.tir_func_names: list[str] = []
        self.functions = ir_mod.functions
        self.relax_func_names = sorted(name for name, _ in ir_mod.items())
        self.extern_funcs: dict[str, Callable[..., Any]] = {}
        self.pyfuncs: dict[str, Callable[..., Any]] = {}
        self.relax_vm = VirtualMachine(build(ir_mod, self.target), device) if self.relax_func_names else None
        for name, func in pyfuncs.items():
            self.add_python_function(name, func)

    @classmethod
    def with_functions_of(cls, module: IRModule) -> ProgramClass:
        """The result of ``@I.ir_module`` for a class that derives from this one."""
        found = {name: vars(cls)[name] for name in module.outside if name in vars(cls)}
        return ProgramClass(module, found, cls.__name__)

    def __getattr__(self, name: str) -> Any:
        """The function with that name, or the attribute of the module itself."""
        if name.startswith("__") or "ir_mod" not in vars(self):
            raise AttributeError(name)
        return self.get_function(name) or getattr(self.ir_mod, name)

    def __getitem__(self, name: Any) -> Any:
        return self.ir_mod[name]

    def get_function(self, name: str) -> EntryFunction | None:
        """The function with that name, which takes and returns PyTorch tensors; None if there is none."""
        if name in self.extern_funcs:
            return self.extern_funcs[name]
        if self.relax_vm is None or name not in self.relax_func_names:
            return None
        run = self.relax_vm[name]

        def call(*arguments: Any) -> Any:
            return _as_torch(run(*map(_as_tensor, arguments)))

        return call

    def list_functions(self) -> Mapping[str, list[str]]:
        """The names of the functions, by kind; there are no TensorIR functions."""
        return {"tirx": [], "relax": self.relax_func_names, "extern": list(self.extern_funcs)}

    def add_python_function(self, name: str, func: Callable[..., Any]) -> None:
        """Make ``self.name(*arguments)`` a call of ``func``, whose first parameter may be ``self``.

        Programs call it by ``R.call_py_func``, with PyTorch tensors. Among several functions of one name, the last one
        added counts.
        """
        self.pyfuncs[name] = func

        @wraps(func)
        def call(*arguments: Any, **named: Any) -> Any:
            takes_self = next(iter(signature(func).parameters), None) == "self"
            return func(self, *arguments, **named) if takes_self else func(*arguments, **named)

        def called(*arguments: Any) -> Any:
            return _as_tensor(call(*map(_as_torch, arguments)))

        setattr(self, name, call)
        register_func(name, called, override=True)

    def call_py_func(self, func_name: str, args: Sequence[Any]) -> Any:
        """Call a function that was added, passing this module first. Raises `ExecutionError` if there is none."""
        if func_name not in self.pyfuncs:
            raise MissingFunctionError(f"no Python function {func_name!r} was added; add_python_function adds one")
        return self.pyfuncs[func_name](self, *args)

    def call_dps_packed(self, func_name: str, args: Sequence[Any], out_ty: Any) -> Any:
        """Call an external function that writes into arrays of ``out_ty``: a tensor's type or sizes, or a list of
        these.

        An unknown size is taken from an argument of the same rank. Returns one tensor, or a list of them.
        """
        added = vars(self).get(func_name)
        if added is not None:
            return added(*args)
        function = self.extern_funcs.setdefault(func_name, get_global_func(func_name))
        types = cast("list[Any]", out_ty) if isinstance(out_ty, list) else [out_ty]
        outputs = [tensor(_zeros(ty, args)) for ty in types]
        function(*map(_as_tensor, args), *outputs)
        results = [_as_torch(output) for output in outputs]
        return results[0] if len(results) == 1 else results

    def _convert_pytorch_to_tvm(self, tensors: Any) -> Any:
        return _as_tensor(tensors)

    def _convert_tvm_to_pytorch(self, tvm_tensors: Any) -> Any:
        return _as_torch(tvm_tensors)

    def script(self, **options: Any) -> str:
        """The text of the module."""
        return self.ir_mod.script(**options)

    def show(self, **options: Any) -> None:
        """Print the text of the module."""
        self.ir_mod.show(**options)


class ProgramClass:
    """A module and its Python functions: ``M(device)`` is a `BasePyModule` of them; other attributes are the module's.

    ``@I.ir_module`` returns it for a class that derives from `BasePyModule`.
    """

    def __init__(self, ir_module: IRModule, pyfuncs: Mapping[str, Callable[..., Any]], name: str) -> None:
        self.ir_module = ir_module
        self.pyfuncs = dict(pyfuncs)
        self.pyfunc_methods = list(pyfuncs)
        self.__name__ = name

    def __call__(self, device: Device | None = None, target: object = None) -> BasePyModule:
        """The module on ``device``, by default the first processor."""
        return BasePyModule(self, cpu() if device is None else device, target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "ir_module" not in vars(self):
            raise AttributeError(name)
        return getattr(self.ir_module, name)

    def __getitem__(self, name: Any) -> Any:
        return self.ir_module[name]


def _as_tensor(value: Any) -> Any:
    """A PyTorch tensor as one of ours with the same memory, also inside tuples and lists; other values unchanged."""
    if isinstance(value, tuple | list):
        return type(cast(Any, value))([_as_tensor(field) for field in cast("Sequence[Any]", value)])
    if not type(value).__module__.startswith("torch"):
        return value
    from ..formats.torch.tensors import to_numpy

    return to_numpy(value, "an argument").view(Tensor)


def _as_torch(value: Any) -> torch.Tensor | Any:
    if isinstance(value, tuple | list):
        return type(cast(Any, value))([_as_torch(field) for field in cast("Sequence[Any]", value)])
    if not isinstance(value, np.ndarray):
        return value
    from ..formats.torch.tensors import from_numpy

    return from_numpy(cast(Any, value), array_dtype(value) or "")


def _zeros(ty: Any, args: Sequence[Any]) -> Any:
    if not isinstance(ty, TensorType):
        return np.zeros(tuple(ty), np.float32)
    shapes = [tuple(arg.shape) for arg in args if len(getattr(arg, "shape", ())) == ty.ndim]
    sizes = ty.shape or ()
    if ty.shape is None or (not shapes and not all(isinstance(size, int) for size in sizes)):
        raise ExecutionError(f"the sizes of {ty!r} are not known from the arguments; give them as numbers")
    known = shapes[0] if shapes else sizes
    shape = [size if isinstance(size, int) else other for size, other in zip(sizes, known, strict=True)]
    return np.zeros(cast(Any, shape), numpy_dtype(ty.dtype or "float32"))
