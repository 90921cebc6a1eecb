"""The assertion that two programs are the same, and its message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .binding_values import SizeBinder
from .dims import SymVar
from .equality import Comparer
from .errors import StructuralInequalityError
from .expr import Expr, Var
from .module import IRModule
from .node import Node
from .reading import as_node


def assert_structural_equal(a: Node, b: Node, map_free_vars: bool = False) -> None:
    """Raise `StructuralInequalityError` unless ``a`` and ``b`` are `structural_equal`.

    The error is an AssertionError and a ValueError. Its message gives the path of the first difference
    (``main: block 0, binding 3 (lv3): args[1]``), the contents of both sides there, and both texts. The first line
    that differs in more than names is marked. Cost: linear.
    """
    a, b = as_node(a), as_node(b)
    comparer = Comparer(map_free_vars)
    if a is b or comparer.run(a, b):
        return
    left, right = _text(a), _text(b)
    line = _first_differing_line(left, _text(_renamed(b, comparer.names)))
    raise StructuralInequalityError(
        f"the two programs differ at {comparer.difference}\n"
        f"--- left\n{_marked(left, line)}\n--- right\n{_marked(right, line)}"
    )


def _text(node: Node) -> list[str]:
    return repr(node).splitlines()


def _first_differing_line(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(left), len(right)))


def _marked(lines: Sequence[str], line: int) -> str:
    return "\n".join(f"{'>' if i == line else ' '} {text}" for i, text in enumerate(lines))


class _Renamer(SizeBinder):
    def __init__(self, names: Mapping[Var | SymVar, str]) -> None:
        super().__init__({size: SymVar(name, size.dtype) for size, name in names.items() if isinstance(size, SymVar)})
        self._names_of = names

    def visit_var_def_(self, var: Var) -> Var:
        return type(var)(self._names_of.get(var, var.name_hint), self.visit_type(var.ty), var.origins)


def _renamed(node: Any, names: Mapping[Var | SymVar, str]) -> Node:
    """``node`` with its variables renamed by ``names``, so that its text can be compared with the other side's."""
    return _Renamer(names).mutate(node) if isinstance(node, Expr | IRModule) else node
