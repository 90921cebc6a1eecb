"""How a program from PyTorch is called: the nesting of its inputs and outputs, and the names of its tensors.

The facts travel as one attribute of the function, a JSON text, so they survive rewriting and the written form;
`Signature` reads and writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from torch.utils import _pytree as pytree

from ...ir.program import Function
from ..errors import ConvertError

Kind: TypeAlias = Literal["parameter", "frozen", "buffer", "temporary", "constant"]
"""A trainable parameter, one without gradient, a buffer in or not in the ``state_dict``, a constant of the code."""

Leaf: TypeAlias = "tuple[str, Any]"
"""("value", index among the function's own), or ("constant", a value that JSON can hold)."""

ATTRIBUTE: Final = "torch_signature"
"""The attribute of a function that holds its signature."""
VALUE: Final = "value"
CONSTANT: Final = "constant"


@dataclass(frozen=True, slots=True)
class Signature:
    """The calling convention of one program.

    ``tensors`` gives each tensor of the model's state its kind, by dotted name; ``aliases`` further names of the same
    tensor. ``mutated`` are the buffers that the first results of the function are new values of. ``inputs`` and
    ``outputs`` list the leaves of the nested arguments and results, whose nesting is ``in_spec`` and ``out_spec``
    (PyTorch's JSON for trees; None: flat).
    """

    in_spec: str | None
    out_spec: str | None
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    tensors: tuple[tuple[str, Kind], ...]
    aliases: tuple[tuple[str, str], ...] = ()
    mutated: tuple[str, ...] = ()

    def text(self) -> str:
        """The facts as the value of an attribute."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def of(function: Function) -> Signature | None:
        """The signature that a function carries; None for one that did not come from PyTorch."""
        text = function.attrs.get(ATTRIBUTE)
        if text is None:
            return None
        facts = cast("dict[str, Any]", json.loads(text))
        return Signature(**{name: _as_tuples(value) for name, value in facts.items()})


class Nesting:
    """Calls of one program: its own flat arguments out of nested ones, and nested results out of its own."""

    def __init__(self, signature: Signature) -> None:
        self._inputs: Final = signature.inputs
        self._outputs: Final = signature.outputs
        self._in_spec: Final = _loaded(signature.in_spec)
        self._out_spec: Final = _loaded(signature.out_spec)
        self.is_nested: Final = bool(signature.outputs)
        """Whether there is anything to nest: whether the program came from PyTorch."""

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The function's own arguments out of a nested call; raises `ConvertError` for another nesting."""
        expected = self._in_spec
        if expected is None:
            return list(args)
        named = _in_order(kwargs, expected)
        leaves, found = pytree.tree_flatten((tuple(args), named))
        if found != expected:
            raise ConvertError(
                f"the arguments are nested as {_shape_text(found)}; the program was exported for {_shape_text(expected)}"
            )
        values: list[Any] = []
        for leaf, (kind, fact) in zip(leaves, self._inputs, strict=True):
            if kind == VALUE:
                values.append(leaf)
            elif leaf != fact:
                raise ConvertError(f"an argument is {leaf!r}; the program was exported for {fact!r}")
        return values

    def nested(self, values: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The nested call, args and kwargs, out of the function's own arguments."""
        if self._in_spec is None:
            return values, {}
        leaves = [values[fact] if kind == VALUE else fact for kind, fact in self._inputs]
        return pytree.tree_unflatten(leaves, self._in_spec)

    def unflatten(self, results: Sequence[Any]) -> Any:
        """The nested result out of the function's own results (without the new values of buffers)."""
        leaves = [results[fact] if kind == VALUE else fact for kind, fact in self._outputs]
        if self._out_spec is None:
            return leaves[0] if len(leaves) == 1 else tuple(leaves)
        return pytree.tree_unflatten(leaves, self._out_spec)


def _loaded(text: str | None) -> pytree.TreeSpec | None:
    """The tree of a JSON text; None for none, and for a class that this process has not registered."""
    if text is None:
        return None
    try:
        return pytree.treespec_loads(text)
    except NotImplementedError:
        return None


def spec_text(spec: pytree.TreeSpec | None) -> str | None:
    """The JSON text of a tree; None for one that PyTorch cannot write, whose values are then handed over flat."""
    if spec is None:
        return None
    try:
        text = pytree.treespec_dumps(spec)
        pytree.treespec_loads(text)
    except Exception:  # PyTorch raises whatever the class of the node makes it raise
        return None
    return text


def constant_leaf(value: Any, place: str) -> Leaf:
    """The leaf of a value that is part of the program; raises `ConvertError` for what JSON cannot hold."""
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ConvertError(f"{place} is {value!r}; expected a tensor, number, string or None")
    return CONSTANT, value


def _as_tuples(value: Any) -> Any:
    """Lists out of JSON as the tuples that they were."""
    return tuple([_as_tuples(item) for item in cast("list[Any]", value)]) if isinstance(value, list) else value


def _in_order(kwargs: Mapping[str, Any], spec: pytree.TreeSpec) -> dict[str, Any]:
    """Keyword arguments in the order of the exported call, which is part of the tree."""
    names: list[str] = list(spec.child(1).context) if spec.num_children == 2 else []
    known = {name: kwargs[name] for name in names if name in kwargs}
    return known | {name: value for name, value in kwargs.items() if name not in known}


def _shape_text(spec: pytree.TreeSpec) -> str:
    dummy = pytree.tree_unflatten([...] * spec.num_leaves, spec)
    args, kwargs = dummy
    texts = [repr(arg).replace("Ellipsis", "...") for arg in args]
    texts += [f"{name}={value!r}".replace("Ellipsis", "...") for name, value in kwargs.items()]
    return f"({', '.join(texts)})"
