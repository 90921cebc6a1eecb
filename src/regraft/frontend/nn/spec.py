"""Specifications of the arguments of an exported method: tensors, sizes, objects, and tuples of these."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .nested import is_sequence
from .values import Size

_MODES: Final = ("plain", "packed", "none")


class Int:
    """An argument that is a size."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """An argument that is a tensor; a size is an int, a symbolic size or the name of one."""

    def __init__(self, shape: Sequence[Size], dtype: str) -> None:
        self.shape = list(shape)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """An argument of type ``R.Any``, which the method receives as an ``object_type``."""

    def __init__(self, object_type: type) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return "object"


class Tuple:
    """An argument that is a list or a tuple, which the method receives as the same kind."""

    def __init__(self, name: str, elements: list[Any] | tuple[Any, ...]) -> None:
        if not isinstance(elements, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance] - given by users
            raise TypeError(f"the elements of {name} are a list or a tuple, not {type(elements).__name__}")
        self.name = name
        self.elements = elements

    def __repr__(self) -> str:
        return repr(self.elements)


class MethodSpec:
    """A method, its arguments in order, and the way it takes parameters and effects."""

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: list[str],
        arg_specs: list[Any],
        param_mode: str,
        effect_mode: str,
    ) -> None:
        for mode, given in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if given not in _MODES:
                raise ValueError(f"{mode} is {given!r}: it is one of {', '.join(_MODES)}")
        self.method = method
        self.arg_names = arg_names
        self.arg_specs = arg_specs
        self.param_mode = param_mode
        self.effect_mode = effect_mode

    def __repr__(self) -> str:
        return self.shown("MethodSpec")

    def shown(self, name: str) -> str:
        """The method as ``name(argument: specification, ...)``."""
        pairs = zip(self.arg_names, self.arg_specs, strict=True)
        return f"{name}({', '.join(f'{argument}: {spec}' for argument, spec in pairs)})"

    @staticmethod
    def from_raw(spec: MethodSpec | Mapping[str, Any], method: Callable[..., Any]) -> MethodSpec:
        """The specification for a dictionary from arguments to their specifications.

        Raises `TypeError` for an invalid entry, for an argument that the method does not have, and for a missing
        argument.
        """
        if isinstance(spec, MethodSpec):
            return spec
        modes: Mapping[str, str] = spec.get("$", {})
        stated = {name: _argument(name, given) for name, given in spec.items() if name != "$"}
        known = inspect.signature(method).parameters.values()
        names = [one.name for one in known if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        if not any(one.kind is one.VAR_KEYWORD for one in known):
            for name in stated:
                if name not in names:
                    takes = ", ".join(names) or "nothing"
                    raise TypeError(f"the specification names the argument {name!r}, but the method takes {takes}")
        for one in known:
            if one.name in names and one.default is one.empty and one.name not in stated:
                raise TypeError(f"the specification lacks the argument {one.name!r} of the method")
        ordered = [name for name in names if name in stated] + [name for name in stated if name not in names]
        return MethodSpec(
            method,
            ordered,
            [stated[name] for name in ordered],
            modes.get("param_mode", "plain"),
            modes.get("effect_mode", "plain"),
        )


def _argument(name: str, given: Any) -> Any:
    if given is Int or given is int:
        return Int()
    if isinstance(given, Int | Tensor | Object):
        return given
    if isinstance(given, str) and given == "int":
        return Int()
    if isinstance(given, Tuple):
        given = given.elements
    if is_sequence(given):
        inner = [_argument(f"{name}_{index}", element) for index, element in enumerate(given)]
        return Tuple(name, inner if isinstance(given, list) else tuple(inner))
    raise TypeError(
        f"argument {name!r} is specified as {given!r}: give spec.Tensor(shape, dtype), int, spec.Object(type), or a "
        "list or tuple of these"
    )


class ModuleSpec:
    """The exported methods of a module, in order."""

    def __init__(self, module: Any, method_names: list[str], method_specs: list[MethodSpec]) -> None:
        self.module = module
        self.method_names = method_names
        self.method_specs = method_specs

    def __repr__(self) -> str:
        lines = (spec.shown(name) for name, spec in zip(self.method_names, self.method_specs, strict=True))
        return "ModuleSpec:\n" + "\n".join(f"  {line}" for line in lines)

    @staticmethod
    def from_raw(spec: ModuleSpec | Mapping[str, Any], module: Any) -> ModuleSpec:
        """The specification for a dictionary from methods to their arguments.

        Raises `AttributeError` for a method that the module lacks.
        """
        if isinstance(spec, ModuleSpec):
            return spec
        for name in spec:
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no method {name!r}")
        return ModuleSpec(
            module, list(spec), [MethodSpec.from_raw(one, getattr(module, name)) for name, one in spec.items()]
        )
