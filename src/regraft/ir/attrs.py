"""The attributes of a call: an immutable mapping, and the equality of attribute values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, cast

from .errors import OpTypeError


class _Required(Enum):
    REQUIRED = "required"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""The default that marks an attribute as required: every call must give it."""


class Attrs(Mapping[str, Any]):
    """The attributes of a call: an immutable mapping whose values are also Python attributes: ``call.attrs.axes``.

    Values are ints, floats, bools, strings, None, dims, and tuples of these.
    """

    __slots__ = ("_hash", "_values")
    _values: dict[str, Any]

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "_values", {} if values is None else dict(values))

    def __getattr__(self, name: str) -> Any:
        if name in self.__slots__:  # PyTorch's compiler reads instances before `__init__` has run
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"no attribute {name!r} here; there are: {known}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attributes are immutable: cannot set {name!r}; build a new call instead")

    def __reduce__(self) -> tuple[object, ...]:
        return (Attrs, (self._values,))

    def get_int(self, key: str) -> int:
        """The attribute ``key`` as an int."""
        return int(self[key])

    def get_str(self, key: str) -> str:
        """The attribute ``key`` as a string."""
        return str(self[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """The attribute ``key``, a sequence, as a tuple of ints."""
        return tuple([int(item) for item in self[key]])

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Attrs) and self._key() == other._key()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash(self._key())
            object.__setattr__(self, "_hash", value)
            return value

    def _key(self) -> tuple[object, ...]:
        return tuple((name, *attribute_key(value)) for name, value in sorted(self._values.items()))

    def __repr__(self) -> str:
        return f"Attrs({self._values!r})"


_PLAIN: Final = frozenset({int, float, bool, str, type(None)})


def held_attribute(op_name: str, name: str, value: Any) -> Any:
    """``value`` in the form that a call stores: lists become tuples, nested ones too.

    Raises `OpTypeError` for a mutable value, such as an array or a dict.
    """
    kind = cast("type[object]", type(value))
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return tuple([held_attribute(op_name, name, item) for item in cast("list[Any]", value)])
    if isinstance(value, int):  # a size that was read from a shape
        return int(value)
    try:
        hash(value)
    except TypeError:
        raise OpTypeError(
            f"{op_name}: {name}={value!r}; an attribute is a number, a string, None or a list of these, not a "
            f"{kind.__name__}: give an array as an operand, by R.const, or as a list of numbers"
        ) from None
    return value


def attribute_key(value: object) -> tuple[str, object]:
    """The key by which attribute values are compared: type and value. So 1, 1.0 and True differ, and NaN equals NaN."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return ("tuple", tuple(attribute_key(v) for v in items))
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, int) and not isinstance(value, bool):
        return ("int", int(value))  # a known size is a number
    return (type(value).__name__, value)


NO_ATTRS: Final = Attrs()
