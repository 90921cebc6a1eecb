"""Attributes that users set on operators, as in Relax: a value for each pair of an operator's name and a key.

Nothing in this library reads them. Every operator has ``"FPurity"``. Operators that have a gradient rule or stop
gradients have ``"FPrimalGradient"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from .errors import IRError
from .traits import Trait

_PURITY: Final = "FPurity"
_GRADIENT: Final = "FPrimalGradient"
_values: Final[dict[tuple[str, str], tuple[Any, int]]] = {}


class OpAttributes:
    """The base class of `Op` that reads and writes these attributes."""

    __slots__ = ()
    name: str
    is_pure: bool
    operands: tuple[Any, ...]
    variadic: bool
    gradient: Any
    traits: frozenset[Trait]

    @property
    def num_inputs(self) -> int:
        """The number of declared operands; -1 if a call takes any number."""
        return -1 if self.variadic else len(self.operands)

    def has_attr(self, attr_name: str) -> bool:
        """True if the operator has a value for ``attr_name``."""
        known = attr_name == _PURITY or (attr_name == _GRADIENT and self._has_rule())
        return known or (self.name, attr_name) in _values

    def get_attr(self, attr_name: str) -> Any:
        """The value for ``attr_name``, None if only other operators have one. Raises `IRError` if no operator has."""
        if attr_name == _PURITY:
            return self.is_pure
        if attr_name == _GRADIENT and self._has_rule():
            return self._primal_gradient
        found = _values.get((self.name, attr_name))
        if found is None and all(key != attr_name for _, key in _values):
            raise IRError(f"no operator has an attribute {attr_name!r}; set it with register_op_attr")
        return None if found is None else found[0]

    def _has_rule(self) -> bool:
        return self.gradient is not None or Trait.STOPS_GRADIENT in self.traits

    def _primal_gradient(self, orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any = None) -> list[Any]:
        """The gradient rule in Relax's form: for each operand its share of the adjoint, or `no_grad` of the operand.

        ``orig_var`` is bound to ``orig_call``, and ``output_grad`` is its adjoint. The builder ``ctx`` is ignored.
        """
        del ctx
        rule = self.gradient
        shares = [None] * len(orig_call.args) if rule is None else rule(orig_call, orig_var, output_grad)
        no_grad = cast(Any, type(self)).get("relax.grad.no_grad")
        return [no_grad(arg) if share is None else share for arg, share in zip(orig_call.args, shares, strict=True)]

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        """Set the value for ``attr_name``, unless one of the same or a higher level is already set."""
        _put(self.name, attr_name, value, plevel)

    def reset_attr(self, attr_name: str) -> None:
        """Remove the value for ``attr_name``."""
        _values.pop((self.name, attr_name), None)


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Callable[[Any], Any]:
    """Set ``value``, if given, for ``attr_key``. Returns a decorator that sets the decorated object as the value."""

    def register(given: Any) -> Any:
        _put(op_name, attr_key, given, level)
        return given

    if value is not None:
        register(value)
    return register


def _put(name: str, key: str, value: Any, level: int) -> None:
    if key == _PURITY:
        raise IRError("the purity of an operator is part of its declaration: the trait IMPURE")
    known = _values.get((name, key))
    if known is None or known[1] < level:
        _values[name, key] = (value, level)
