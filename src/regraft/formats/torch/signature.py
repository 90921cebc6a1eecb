"""The signature of a program from PyTorch: the nesting of its inputs and outputs, and the names of its tensors.

It is one attribute of the function, a JSON text, so it survives rewriting and the written form. `CallingConvention`
reads and writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Final, Literal, TypeAlias, cast

import torch
from torch.utils import _pytree as pytree

from ...ir.program import Function
from ..errors import ConvertError, reading_attribute
from .archive import code_in_nesting

StateKind: TypeAlias = Literal["parameter", "frozen", "buffer", "temporary", "constant"]
"""A trainable parameter, one without gradient, a buffer in or not in the ``state_dict``, or a constant of the code."""

Leaf: TypeAlias = "tuple[str, Any]"
"""("value" or "number", index of a flat value), ("complex", two indices), or ("constant", a JSON value)."""

SizeCheck: TypeAlias = "tuple[int | str, str, int | str]"
"""A condition on sizes: two numbers or names of sizes, and a comparison operator of Python between them."""

ATTRIBUTE: Final = "torch_signature"
"""The attribute of a function that holds its signature."""
VALUE: Final = "value"
CONSTANT: Final = "constant"
NUMBER: Final = "number"
"""The kind of a result that is a Python number in the model and a tensor of one element in the function."""
COMPLEX: Final = "complex"
"""The kind of a complex leaf, which is two values of the function: its real and its imaginary part."""


@dataclass(frozen=True, slots=True)
class CallingConvention:
    """The calling convention of one program.

    ``tensors`` gives the kind of each tensor of the model's state, by dotted name; ``aliases`` are further names of the
    same tensor. ``mutated`` are the buffers whose new values are the first results of the function. The next results
    are new values of arguments of the function, whose indices are ``written``. ``detached`` are those of ``mutated``
    that carry no gradient to the next call. ``arguments`` are the names of ``forward``'s arguments. ``inputs`` and
    ``outputs`` list the leaves of the nested arguments and results, and ``in_spec`` and ``out_spec`` are their nesting
    (PyTorch's JSON for trees; None: flat). ``sizes`` are the symbolic sizes: their names, smallest and largest values
    (None: no limit), and the sizes of the example inputs.
    ``checks`` are the model's conditions on sizes that it reads from tensors. ``structures`` are the nodes of
    ``out_spec``, in preorder, that are PyTorch's own named tuples (`torch.return_types`): its JSON has plain tuples.
    ``complexes`` are the names of the complex tensors of the state, which ``tensors`` and ``mutated`` list by parts
    (`part_names`). ``fills`` are the operators of the model that write in place.
    """

    in_spec: str | None
    out_spec: str | None
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    tensors: tuple[tuple[str, StateKind], ...]
    aliases: tuple[tuple[str, str], ...] = ()
    mutated: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    written: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int, int | None, int], ...] = ()
    checks: tuple[SizeCheck, ...] = ()
    structures: tuple[tuple[int, str], ...] = ()
    complexes: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()

    def text(self) -> str:
        """The signature as the value of an attribute."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def of(function: Function) -> CallingConvention | None:
        """The signature of a function; None if it did not come from PyTorch."""
        text = function.attrs.get(ATTRIBUTE)
        if text is None:
            return None
        with reading_attribute(ATTRIBUTE):
            facts = cast("dict[str, Any]", json.loads(text))
            found = CallingConvention(**{name: _as_tuples(value) for name, value in facts.items()})
            for name, value in asdict(found).items():
                if not isinstance(value, str | None if name in ("in_spec", "out_spec") else tuple):
                    raise TypeError(f"{name} is {value!r}")
            return found


class Nesting:
    """The conversion, for calls of one program, between nested arguments and results and the function's flat ones."""

    def __init__(self, signature: CallingConvention) -> None:
        self._inputs: Final = signature.inputs
        self._outputs: Final = signature.outputs
        self._in_spec: Final = _loaded(signature.in_spec)
        self._out_spec: Final = _with_structures(_loaded(signature.out_spec), signature.structures)
        self._in_order, self._keywords = _counts(self._in_spec, len(signature.inputs))
        names = signature.arguments
        count = self._in_order + len(self._keywords)
        if len(names) != count or not all(name.isidentifier() for name in names):
            names = (*[f"arg{i}" for i in range(self._in_order)], *self._keywords)
        self.arguments: Final = names
        """The names of the arguments of a call, in order."""

    def flatten(self, values: Mapping[str, Any]) -> list[Any]:
        """The function's flat arguments, from the nested arguments by name.

        Raises `ConvertError` for arguments whose nesting differs from that at export.
        """
        given = [values[name] for name in self.arguments]
        args = tuple(given[: self._in_order])
        kwargs = dict(zip(self._keywords, given[self._in_order :], strict=True))
        leaves, found = (args, None) if self._in_spec is None else pytree.tree_flatten((args, kwargs))
        if found != self._in_spec:
            raise ConvertError(
                f"the arguments are nested as {_shape_text(found)}; the program was exported for "
                f"{_shape_text(self._in_spec)}"
            )
        own: list[Any] = []
        for leaf, (kind, fact) in zip(leaves, self._inputs, strict=True):
            if kind == VALUE:
                own.append(leaf)
            elif kind == COMPLEX:
                own += [torch.real(leaf), torch.imag(leaf)]
            elif leaf != fact:
                raise ConvertError(f"an argument is {leaf!r}; the program was exported for {fact!r}")
        return own

    def nested(self, values: Sequence[Any], *, marks: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The nested call, args and kwargs, from the function's flat arguments.

        ``marks`` is True if these are marks of dynamic axes; a value that is part of the program has no mark.
        """
        leaves = [None if marks and kind == CONSTANT else _leaf(kind, fact, values) for kind, fact in self._inputs]
        if self._in_spec is None:
            return tuple(leaves), {}
        return pytree.tree_unflatten(leaves, self._in_spec)

    def unflatten(self, results: Sequence[Any]) -> Any:
        """The nested result, from the function's flat results without the new values of buffers."""
        leaves = [_leaf(kind, fact, results) for kind, fact in self._outputs]
        if self._out_spec is None:
            return leaves[0] if len(leaves) == 1 else tuple(leaves)
        return pytree.tree_unflatten(leaves, self._out_spec)


def part_names(name: str) -> tuple[str, str]:
    """The names of the real and the imaginary part of a complex tensor of the state."""
    return f"{name}.real", f"{name}.imag"


def _leaf(kind: str, fact: Any, values: Sequence[Any]) -> Any:
    """A leaf of nested arguments or results, from the function's flat values."""
    if kind == COMPLEX:
        real, imag = values[fact[0]], values[fact[1]]
        # Marks of dynamic axes are the same for both parts.
        return torch.complex(real, imag) if isinstance(real, torch.Tensor) else real
    if kind == NUMBER:
        return values[fact].item()
    return values[fact] if kind == VALUE else fact


def _loaded(text: str | None) -> pytree.TreeSpec | None:
    """The tree of a JSON text; None without one, and for a class that is not registered in this process."""
    if text is None:
        return None
    with reading_attribute(ATTRIBUTE):
        code = code_in_nesting(text)
        if code is not None:
            raise ConvertError(f"the attribute {ATTRIBUTE!r} of the program would run code: {code}; refused")
        try:
            return pytree.treespec_loads(text)
        except NotImplementedError:
            return None


def plain_spec(spec: pytree.TreeSpec | None) -> tuple[pytree.TreeSpec | None, tuple[tuple[int, str], ...]]:
    """A tree with plain tuples in place of PyTorch's named tuples, and the positions in preorder and names of these."""
    found: list[tuple[int, str]] = []

    def kind(place: int, node: pytree.TreeSpec) -> Any:
        if node.type not in _STRUCTURES.values():
            return node.type
        found.append((place, str(node.type.__name__)))
        return tuple

    plain = None if spec is None else _retyped(spec, kind)
    return plain, tuple(found)


def _with_structures(spec: pytree.TreeSpec | None, structures: Sequence[tuple[int, str]]) -> pytree.TreeSpec | None:
    """The original tree before `plain_spec`."""
    if spec is None or not structures:
        return spec
    names = dict(structures)
    return _retyped(spec, lambda place, node: _STRUCTURES.get(names.get(place, ""), node.type))


def _retyped(spec: pytree.TreeSpec, kind: Callable[[int, pytree.TreeSpec], Any]) -> pytree.TreeSpec:
    """A tree with other types of its inner nodes, by their positions in preorder."""
    places = count()

    def walk(node: pytree.TreeSpec) -> pytree.TreeSpec:
        place = next(places)
        if node.is_leaf():
            return node
        return pytree.TreeSpec(kind(place, node), node.context, [walk(child) for child in node.children()])

    return walk(spec)


_STRUCTURES: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in torch.return_types.all_return_types}


def spec_text(spec: pytree.TreeSpec | None) -> str | None:
    """The JSON text of a tree; None if PyTorch cannot write it, and the values are passed flat."""
    if spec is None:
        return None
    try:
        _name_classes(spec)
        text = pytree.treespec_dumps(spec)
        pytree.treespec_loads(text)
    except Exception:  # PyTorch raises any error of the class of a node
        return None
    return text


def _name_classes(spec: pytree.TreeSpec) -> None:
    """Give the named tuples and other classes in a tree the names by which PyTorch writes and finds them."""
    register: Any = getattr(pytree, "_register_namedtuple", None)
    pending = [spec]
    while pending:
        node = pending.pop()
        pending.extend(node.children())
        kind: Any = node.context
        if register is not None and isinstance(kind, type) and hasattr(cast(Any, kind), "_fields"):
            register(kind, serialized_type_name=_full_name(cast(Any, kind)))
        elif not node.is_leaf():
            _name_class(node.type)


def _name_class(kind: Any) -> None:
    """Give a name to a class that was registered without one, as `torch.export.register_dataclass` does.

    Another class may have this name already, such as one from another call of the same function. It keeps the name.
    """
    library: Any = pytree
    known: dict[Any, Any] = library.SUPPORTED_SERIALIZED_TYPES
    by_name: dict[str, Any] = library.SERIALIZED_TYPE_TO_PYTHON_TYPE
    facts, name = known.get(kind), _full_name(kind)
    if facts is None or facts.serialized_type_name != library.NO_SERIALIZED_TYPE_NAME_FOUND:
        return
    if by_name.setdefault(name, kind) is kind:
        known[kind] = facts._replace(serialized_type_name=name)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def constant_leaf(value: Any, place: str) -> Leaf:
    """The leaf of a value that is part of the program; raises `ConvertError` for a value that JSON cannot hold."""
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ConvertError(f"{place} is {value!r}; expected a tensor, number, string or None")
    return CONSTANT, value


def _as_tuples(value: Any) -> Any:
    """``value`` with tuples in place of the lists that JSON makes of them."""
    return tuple([_as_tuples(item) for item in cast("list[Any]", value)]) if isinstance(value, list) else value


def _counts(spec: pytree.TreeSpec | None, leaves: int) -> tuple[int, tuple[str, ...]]:
    """The number of positional arguments of a call, and the names of its keyword arguments."""
    if spec is None:
        return leaves, ()
    in_order, by_name = spec.children()
    return in_order.num_children, tuple(by_name.context)


def _shape_text(spec: pytree.TreeSpec | None) -> str:
    assert spec is not None
    args, kwargs = pytree.tree_unflatten([...] * spec.num_leaves, spec)
    texts = [*map(repr, args), *[f"{name}={value!r}" for name, value in kwargs.items()]]
    return f"({', '.join(texts)})".replace("Ellipsis", "...")
