"""A module: functions by name, which may call each other.

Functions are immutable. `with_function` returns a new module that shares the unchanged functions. As in Relax, the
table of a module can also be edited in place: ``mod["f"] = func``. No pass does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast, final

from .errors import IRError
from .expr import ExternFunc, GlobalVar
from .node import Folded, Node, init_field
from .op import Attrs
from .program import Function
from .types import Type

GLOBAL_INFOS: Final = "global_infos"
"""The module attribute that holds its meshes and devices: pairs of a name and a tuple of them."""
OUTSIDE: Final = "outside_functions"
"""The module attribute that lists its external functions: the name in the module, the symbol and the type of each."""

_OWN: Final = {OUTSIDE: (str, str, Type), GLOBAL_INFOS: (str, tuple)}
"""The attributes of a module that are tuples of rows, and the kinds of the values in a row."""

_Entry: TypeAlias = Function | ExternFunc


def _is_row(row: Any, kinds: tuple[type, ...]) -> bool:
    if not isinstance(row, tuple):
        return False
    parts = cast("tuple[Any, ...]", row)
    return len(parts) == len(kinds) and all(map(isinstance, parts, kinds))


@final
class IRModule(Folded, Node):
    """Functions by their `GlobalVar`, in order, with attributes of the whole module.

    ``IRModule({"main": func})`` makes the global variables itself, and ``mod["main"]`` is the function.
    ``global_infos`` are the meshes and devices that the module names. A module may also name external functions:
    ``mod["ext"]`` is then an `ExternFunc`. ``functions`` does not list these.
    """

    __slots__ = ("_by_name", "attrs", "functions")
    functions: Mapping[GlobalVar, Function]
    attrs: Attrs
    _by_name: dict[str, GlobalVar]

    def __init__(
        self,
        functions: Mapping[GlobalVar, _Entry] | Mapping[str, _Entry] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Iterable[Any]] | None = None,
    ) -> None:
        table: dict[GlobalVar, Function] = {}
        by_name: dict[str, GlobalVar] = {}
        outside: dict[str, ExternFunc] = {}
        for key, function in (functions or {}).items():
            if isinstance(function, ExternFunc):
                outside[key if isinstance(key, str) else key.name_hint] = function
                continue
            if not isinstance(function, Function):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise IRError(f"a module holds functions; {key!r} is {function!r}")
            variable = key if isinstance(key, GlobalVar) else GlobalVar(key, function.ty)
            if variable.name_hint in by_name:
                raise IRError(f"the module has two functions named {variable.name_hint!r}")
            by_name[variable.name_hint] = variable
            table[variable] = function
        init_field(self, "functions", table)
        if outside:
            known = {row[0]: row for row in (attrs or {}).get(OUTSIDE, ())}
            known |= {name: (name, function.global_symbol, function.ty) for name, function in outside.items()}
            attrs = {**(attrs or {}), OUTSIDE: tuple(known.values())}
        if global_infos:
            attrs = {
                **(attrs or {}),
                GLOBAL_INFOS: tuple([(name, tuple(infos)) for name, infos in global_infos.items()]),
            }
        init_field(self, "attrs", attrs if isinstance(attrs, Attrs) else Attrs(attrs))
        init_field(self, "_by_name", by_name)
        for name, kinds in _OWN.items():
            rows = attrs.get(name, ()) if attrs else ()
            if not isinstance(rows, tuple) or not all(_is_row(row, kinds) for row in cast("tuple[Any, ...]", rows)):
                raise IRError(
                    f"the module attribute {name!r} is reserved for device declarations; it cannot be {rows!r}"
                )

    def _put(self, functions: Mapping[GlobalVar, Function]) -> None:
        """Replace the module's table by ``functions``, in place."""
        init_field(self, "functions", dict(functions))
        init_field(self, "_by_name", {variable.name_hint: variable for variable in functions})

    @classmethod
    def from_expr(cls, function: Function) -> IRModule:
        """A module that holds only ``function``, named by its ``global_symbol``, or ``main`` if it has none."""
        name = function.name or "main"
        return cls({name: function})

    @property
    def outside(self) -> dict[str, ExternFunc]:
        """The external functions that the module names."""
        rows = cast("tuple[tuple[str, str, Type], ...]", self.attrs.get(OUTSIDE, ()))
        return {name: ExternFunc(symbol, ty) for name, symbol, ty in rows}

    @property
    def global_infos(self) -> dict[str, tuple[Any, ...]]:
        """The meshes and virtual devices that the module names."""
        return dict(self.attrs.get(GLOBAL_INFOS, ()))

    def get_global_var(self, name: str) -> GlobalVar:
        """The global variable called ``name``. Raises `IRError`, which lists the existing names, if there is none."""
        found = self._by_name.get(name)
        if found is None and OUTSIDE in self.attrs and name in self.outside:
            return GlobalVar(name, self.outside[name].ty)
        if found is None:
            raise IRError(f"the module has no function {name!r}; it has: {', '.join(self._by_name) or 'none'}")
        return found

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        """The global variables of all functions, external ones included, sorted by name."""
        outside = [GlobalVar(name, function.ty) for name, function in self.outside.items()]
        return tuple(sorted([*self.functions, *outside], key=lambda variable: variable.name_hint))

    def __getitem__(self, name: str | GlobalVar) -> Function:
        if isinstance(name, GlobalVar):
            name = name.name_hint
        if OUTSIDE in self.attrs and name not in self._by_name and name in self.outside:
            return cast(Function, self.outside[name])
        return self.functions[self.get_global_var(name)]

    def __contains__(self, name: object) -> bool:
        name = name.name_hint if isinstance(name, GlobalVar) else name
        return name in self._by_name or (OUTSIDE in self.attrs and name in self.outside)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self.functions)

    def items(self) -> Iterator[tuple[str, Function]]:
        """Names and functions, in order."""
        return ((variable.name_hint, function) for variable, function in self.functions.items())

    def with_function(self, name: str | GlobalVar, function: Function) -> IRModule:
        """This module with one function added or replaced. Calls of a replaced function stay valid."""
        if isinstance(name, GlobalVar) and name not in self:
            return IRModule({**self.functions, name: function}, self.attrs)
        return self.with_functions({name if isinstance(name, str) else name.name_hint: function})

    def with_functions(self, functions: Mapping[str, Function]) -> IRModule:
        """This module with several functions added or replaced."""
        table = dict(self.functions)
        for name, function in functions.items():
            known = self._by_name.get(name)
            table[GlobalVar(name, function.ty) if known is None else known] = function
        return IRModule(table, self.attrs)

    def with_each(self, change: Callable[[str, Function], Function]) -> IRModule:
        """This module with each function replaced by ``change(name, function)``; itself if no function changes."""
        changed = {name: new for name, function in self.items() if (new := change(name, function)) is not function}
        return self.with_functions(changed) if changed else self

    def without_functions(self, names: frozenset[str] | set[str]) -> IRModule:
        """This module without the functions in ``names``."""
        return IRModule({v: f for v, f in self.functions.items() if v.name_hint not in names}, self.attrs)

    def with_attr(self, name: str | Mapping[str, Any], value: Any = None) -> IRModule:
        """This module with the attribute ``name`` set to ``value``, or with all attributes of a mapping set."""
        extra = {name: value} if isinstance(name, str) else dict(name)
        return IRModule(self.functions, {**self.attrs, **extra})

    def with_attrs(self, attrs: Mapping[str, Any]) -> IRModule:
        """This module with several attributes set."""
        return self.with_attr(attrs)

    def without_attr(self, name: str) -> IRModule:
        """This module without one attribute."""
        return IRModule(self.functions, {key: value for key, value in self.attrs.items() if key != name})

    def get_attr(self, name: str) -> Any:
        """The value of an attribute; None if the module does not have it."""
        return self.attrs.get(name)

    def clone(self) -> IRModule:
        """A module of the same functions with a table of its own."""
        return IRModule(self.functions, self.attrs)

    def __copy__(self) -> IRModule:
        return self.clone()

    def __deepcopy__(self, memo: object) -> IRModule:
        return self.clone()

    # --- editing the table in place, as in Relax; functions themselves never change

    def __setitem__(self, name: str | GlobalVar, function: _Entry) -> None:
        if isinstance(function, ExternFunc):
            key = name if isinstance(name, str) else name.name_hint
            init_field(self, "attrs", IRModule({key: function}, self.attrs).attrs)
            return
        self._put(self.with_function(name, function).functions)

    def __delitem__(self, name: str | GlobalVar) -> None:
        variable = self.get_global_var(name if isinstance(name, str) else name.name_hint)
        self._put({v: f for v, f in self.functions.items() if v is not variable})

    def update_func(self, var: GlobalVar, func: Function) -> None:
        """Set the function named by ``var`` to ``func``, in place."""
        self[var] = func

    def update(self, other: IRModule | Mapping[str, Function] | Mapping[GlobalVar, Function]) -> None:
        """Add the functions of ``other`` to this module in place. Functions of the same names are replaced."""
        functions = other.functions if isinstance(other, IRModule) else other
        for name, function in functions.items():
            self[name] = function

    def update_global_info(self, name: str, global_info: Iterable[Any]) -> None:
        """Set the meshes or devices called ``name`` to ``global_info``, in place."""
        init_field(self, "attrs", IRModule(None, self.attrs, {**self.global_infos, name: global_info}).attrs)

    def functions_items(self) -> list[tuple[GlobalVar, Function]]:
        """Pairs of a global variable and its function, sorted by name."""
        return sorted(self.functions.items(), key=lambda item: item[0].name_hint)
