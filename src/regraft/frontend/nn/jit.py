"""A module with compiled methods and the values of its parameters, to be called from Python."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.module import IRModule
from ...run import Executable, build
from .exporter import Exporter
from .nested import is_sequence
from .runtime import register_runtime
from .spec import ModuleSpec

if TYPE_CHECKING:
    from .module import Module


class JitModule:
    """Compiled methods by name: ``compiled["forward"](x)``. The state of effects is kept between calls.

    See `Module.jit` for the arguments.
    """

    def __init__(
        self, module: Module, spec: Any, device: str, pipeline: Any, out_format: str, *, debug: bool = False
    ) -> None:
        if out_format not in ("torch", "numpy"):
            raise ValueError(f"out_format is {out_format!r}: it is 'torch' or 'numpy'")
        self.spec = ModuleSpec.from_raw(spec, module)
        exported, parameters = Exporter(debug=debug).build(self.spec)
        lacking = [name for name, parameter in parameters if parameter.data is None]
        if lacking:
            raise ValueError(f"parameters without values: {', '.join(lacking)}; set their `data` first")
        program: IRModule = exported if pipeline is None else pipeline(exported)
        self.program = program
        self._compiled: Executable = build(program, target="numpy" if device == "cpu" else device)
        register_runtime()
        self._weights = tuple(parameter.data for _, parameter in parameters)
        self._effects: tuple[Any, ...] | None = None
        if "_initialize_effect" in program:
            self._effects = tuple(self._compiled["_initialize_effect"]())
        self._torch = out_format == "torch"

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        """The method of that name. Raises `KeyError` for a method that was not exported."""
        if method_name not in self.spec.method_names:
            raise KeyError(f"{method_name} is not among the methods: {', '.join(self.spec.method_names)}")
        method = self.spec.method_specs[self.spec.method_names.index(method_name)]

        def call(*args: Any) -> Any:
            values = [_array(arg, self._torch) for arg in args]
            keeps_state = self._effects is not None and method.effect_mode != "none"
            if keeps_state:
                values += _given(self._effects or (), method.effect_mode)
            values += _given(self._weights, method.param_mode)
            result = self._compiled[method_name](*values)
            if keeps_state:
                result, self._effects = result
            return _shown(result, self._torch)

        return call


def _given(values: tuple[Any, ...], mode: str) -> list[Any]:
    return [values] if mode == "packed" else list(values) if mode == "plain" else []


def _array(value: Any, as_torch: bool) -> Any:
    if is_sequence(value):
        return tuple(_array(one, as_torch) for one in value)
    if isinstance(value, int):
        return (value,)
    return value.detach().cpu().numpy() if as_torch and hasattr(value, "detach") else value


def _shown(value: Any, as_torch: bool) -> Any:
    if is_sequence(value):
        return tuple(_shown(one, as_torch) for one in value)
    if as_torch and isinstance(value, np.ndarray | np.generic):
        torch: Any = import_module("torch")
        return torch.as_tensor(value)
    return value
