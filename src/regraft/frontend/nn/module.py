"""Modules, and containers of modules and parameters; a module owns the values of its attributes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .subroutine import SubroutineMixin
from .values import Effect, Parameter

if TYPE_CHECKING:
    from .jit import JitModule

_Item = TypeVar("_Item")


class Module(SubroutineMixin):
    """A part of a model: parameters, effects and other modules as attributes, and methods that compute with them.

    Derive from it, set the attributes in ``__init__``, and write ``forward``. A call of ``super().__init__()`` is not
    needed.
    """

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters in the order in which they were set, each with ``prefix`` and its path of attributes."""
        for name, item in owned(self, ""):
            if isinstance(item, Parameter):
                yield prefix + name, item

    def named_effects(self) -> Iterator[tuple[str, Effect]]:
        """The effects, each with its path of attributes."""
        for name, item in owned(self, ""):
            if isinstance(item, Effect):
                yield name, item

    def parameters(self) -> Iterator[Parameter]:
        """The parameters, in the order in which they were set."""
        for _, parameter in self.named_parameters():
            yield parameter

    def state_dict(self, *, prefix: str = "", destination: dict[str, Parameter] | None = None) -> dict[str, Parameter]:
        """The parameters by path, added to ``destination`` if that is given."""
        found = OrderedDict[str, Parameter]() if destination is None else destination
        found.update(self.named_parameters(prefix))
        return found

    def load_state_dict(self, state_dict: Mapping[str, Parameter], strict: bool = True) -> tuple[list[str], list[str]]:
        """Set the values of the parameters from ``state_dict``.

        Returns the paths that ``state_dict`` lacks, and the paths in it that this module lacks; with ``strict``, either
        raises `KeyError`. Raises `ValueError` for a parameter without values, or with values that do not fit.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"parameters that are missing: {missing}; parameters that are not known: {unexpected}")
        for name, given in state_dict.items():
            if name not in own:
                continue
            if given.data is None:
                raise ValueError(f"parameter {name} has no values: set its `data`")
            own[name].data = given.data
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of everything that this module owns."""
        for _, item in self.owned_items():
            if isinstance(item, Module | Parameter | Effect):
                item.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def owned_items(self) -> Iterable[tuple[str, Any]]:
        """The named contents of this module: its attributes, or the items of a container."""
        return vars(self).items()

    def replace(self, name: str, item: Any) -> None:
        """Put ``item`` in place of the one with that name."""
        setattr(self, name, item)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of ``forward``.

        Raises `NotImplementedError` for a module without one.
        """
        forward = getattr(self, "forward", None)
        if forward is None:
            raise NotImplementedError(f"{type(self).__name__} has no method `forward`")
        return forward(*args, **kwargs)

    def export_tvm(self, spec: Any, debug: bool = False, allow_extern: bool = False) -> Any:
        """The program of the methods that ``spec`` names.

        Args:
            spec: For each method a dictionary from its arguments to their specifications: `spec.Tensor`, ``int``,
                `spec.Object`, or a list or tuple of these. Its entry ``"$"`` may say how the function takes parameters
                and effects: ``{"param_mode": "plain" | "packed" | "none", "effect_mode": ...}``, by default both plain.
            debug: True if the program can print: it then takes and returns an effect, ``_io``.
            allow_extern: True to return the list of external modules from `add_extern` as a third item.

        Returns:
            The module and its named parameters, in the order in which functions take them.

        Raises `ValueError` for external modules without ``allow_extern``.
        """
        from .exporter import Exporter
        from .spec import ModuleSpec

        exporter = Exporter(debug=debug)
        module, parameters = exporter.build(ModuleSpec.from_raw(spec, self))
        if allow_extern:
            return module, parameters, exporter.outside_modules
        if exporter.outside_modules:
            raise ValueError("the program has outside modules; export it with allow_extern=True, which gives them, too")
        return module, parameters

    export = export_tvm

    def jit(
        self, spec: Any, device: str = "cpu", pipeline: Any = None, out_format: str = "torch", debug: bool = False
    ) -> JitModule:
        """The methods that ``spec`` names, compiled, with the values of the parameters.

        Args:
            spec: As for `export_tvm`.
            device: The name of an engine; ``"cpu"`` is the NumPy engine.
            pipeline: A pass that is applied to the program first.
            out_format: With ``"torch"``, methods take and return PyTorch tensors; with ``"numpy"``, arrays.
            debug: As for `export_tvm`.

        Raises `ValueError` for a parameter without values, and for another ``out_format``.
        """
        from .jit import JitModule

        return JitModule(self, spec, device, pipeline, out_format, debug=debug)


def owned(root: Any, prefix: str) -> Iterator[tuple[str, Parameter | Effect]]:
    """The parameters and effects under ``root``, with their paths, depth first."""
    if isinstance(root, Parameter | Effect):
        yield prefix, root
    elif isinstance(root, Module):
        for name, item in root.owned_items():
            yield from owned(item, f"{prefix}.{name}" if prefix else str(name))


class _Listed(Module, Generic[_Item]):
    """Items in order, each owned under its index."""

    items: list[_Item]

    def owned_items(self) -> Iterable[tuple[str, Any]]:
        return ((str(index), item) for index, item in enumerate(self.items))

    def replace(self, name: str, item: Any) -> None:
        """Put ``item`` in place of the one at the index ``name``."""
        self.items[int(name)] = item

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.items)

    def __getitem__(self, idx: int) -> _Item:
        return self.items[idx]

    def __setitem__(self, idx: int, item: _Item) -> None:
        self.items[idx] = item

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: _Item) -> None:
        """Add ``item`` at the end."""
        self.items.append(item)


class _Named(Module, Generic[_Item]):
    """Items by name, in the order in which they were added."""

    held: OrderedDict[str, _Item]

    def owned_items(self) -> Iterable[tuple[str, Any]]:
        return self.held.items()

    def replace(self, name: str, item: Any) -> None:
        """Put ``item`` under ``name``."""
        self.held[name] = item

    def __iter__(self) -> Iterator[Any]:
        return iter(self.held)

    def __getitem__(self, key: str) -> _Item:
        return self.held[key]

    def __setitem__(self, key: str, item: _Item) -> None:
        self.held[key] = item

    def __len__(self) -> int:
        return len(self.held)

    def __contains__(self, key: str) -> bool:
        return key in self.held

    def keys(self) -> Iterable[str]:
        """The names."""
        return self.held.keys()

    def values(self) -> Iterable[_Item]:
        """The items."""
        return self.held.values()

    def items(self) -> Iterable[tuple[str, _Item]]:
        """The names and items."""
        return self.held.items()

    def get(self, key: str, default: _Item | None = None) -> _Item | None:
        """The item of that name, or ``default``."""
        return self.held.get(key, default)

    def update(self, items: Mapping[str, _Item]) -> None:
        """Add or replace items."""
        for key, item in items.items():
            self[key] = item

    def clear(self) -> None:
        """Remove all items."""
        self.held.clear()

    def pop(self, key: str) -> _Item:
        """Remove the item of that name and return it."""
        return self.held.pop(key)


class ModuleList(_Listed[Any]):
    """Modules in order; called, it passes the result of each to the next."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self.items = list(modules)

    @property
    def modules(self) -> list[Any]:
        """The modules."""
        return self.items

    def forward(self, x: Any) -> Any:
        """``x`` through all modules in order."""
        for module in self.items:
            x = module(x)
        return x


class ModuleDict(_Named[Any]):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Any] | None = None) -> None:
        self.held = OrderedDict(modules or {})

    @property
    def modules(self) -> OrderedDict[str, Any]:
        """The modules by name."""
        return self.held

    def __iter__(self) -> Iterator[Any]:
        """The modules; `keys` gives their names."""
        return iter(self.held.values())


def _parameter(item: Any, holder: str) -> Parameter:
    if not isinstance(item, Parameter):
        raise TypeError(f"{holder} holds nn.Parameter, not {type(item).__name__}")
    return item


class ParameterList(_Listed[Parameter]):
    """Parameters in order. Raises `TypeError` for an item that is not a parameter."""

    def __init__(self, params: Iterable[Parameter] | None = None) -> None:
        self.items = []
        self.extend(params or [])

    @property
    def params(self) -> list[Parameter]:
        """The parameters."""
        return self.items

    def __setitem__(self, idx: int, item: Parameter) -> None:
        self.items[idx] = _parameter(item, "ParameterList")

    def append(self, item: Parameter) -> None:
        """Add a parameter at the end."""
        self.items.append(_parameter(item, "ParameterList"))

    def extend(self, params: Iterable[Parameter]) -> None:
        """Add parameters at the end."""
        for param in params:
            self.append(param)


class ParameterDict(_Named[Parameter]):
    """Parameters by name. Raises `TypeError` for an item that is not a parameter."""

    def __init__(self, params: Mapping[str, Parameter] | None = None) -> None:
        self.held = OrderedDict()
        self.update(params or {})

    @property
    def params(self) -> OrderedDict[str, Parameter]:
        """The parameters by name."""
        return self.held

    def __setitem__(self, key: str, item: Parameter) -> None:
        self.held[key] = _parameter(item, "ParameterDict")
