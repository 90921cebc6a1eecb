"""HoistFromLoops: compute values that are the same in every step of a loop once, before the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from ..analysis import free_vars, loop_body
from ..ir.dims import Dim, SymExpr, dim_product, dims_equal
from ..ir.dtypes import is_float
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, Trait
from ..ir.origin import Origins
from ..ir.program import Binding, Function, VarBinding
from ..ir.types import TensorType, is_subtype, type_symvars
from ..op.primitive.loop import LoopParts, loop, loop_parts
from .context import PassContext
from .passes import FunctionPass, Pass

_LOOP: Final = "relax.loop"
_PRODUCT: Final = "relax.matmul"
_DIVIDING: Final = frozenset({"relax.divide", "relax.floor_divide", "relax.mod", "relax.floor_mod", "relax.power"})
"""Elementwise operators that an engine may reject for some integers."""
_MOST_GROWN: Final = 8
"""The most elements of a hoisted result, as a multiple of its largest operand's: it is kept for the whole loop."""


def HoistFromLoops() -> Pass:
    """Compute values that are the same in each step of a loop once, before the loop.

    If every step passes a carried value on unchanged, the body and the code after the loop use the initial value
    instead. Elementwise operators, changes of arrangement and matmuls move before the loop if all their operands come
    from outside the body. Operators that may fail stay, such as a lookup or the division of integers: a loop without
    steps would not have run them. A result that is much larger than its operands stays, too. If one part of a source
    operator stays, so do its other parts.

    Needs: bodies that are defined in the block of their loops. Guarantees: the same values. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        found = _Hoisting().mutate(function)
        # If something else uses a body, too, the hoisting has removed its definition: keep the function as it was.
        return function if found is function or free_vars(found) else found

    return FunctionPass(transform, "HoistFromLoops")


class _Hoisting(ExprMutator):
    """Moves invariant bindings before the loop, and replaces the loop by a smaller one."""

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        value = binding.value
        if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name != _LOOP:
            return binding
        parts = loop_parts(value)
        bindings, _ = self._scopes[-1]
        near = reversed(range(len(bindings)))
        place = next((place for place in near if bindings[place].var is parts.body), None)
        body = None if place is None else bindings[place].value
        lighter = self._lighter(body, parts) if isinstance(body, Function) else None
        if lighter is None or place is None:
            return binding
        del bindings[place]
        kind = type(binding.var)
        var = kind(binding.var.name_hint, lighter.ty, binding.var.origins)
        self._remap[binding.var] = var
        return VarBinding(var, lighter)

    def _lighter(self, body: Function, parts: LoopParts) -> Tuple | None:
        """The results of a loop, computed by a smaller loop; None if nothing can be moved out of the loop."""
        results = body.body.body
        if not isinstance(results, Tuple) or not isinstance(parts.carried, Tuple):
            return None
        constant = _handed_on(body, results, parts.carried, 0 if parts.condition is None else 1)
        given = {body.params[1 + index]: start for index, start in constant.items()}
        moving = _moving(body, given)
        if not moving and not constant:
            return None
        for binding in moving:
            given[binding.var] = self._before(binding, given)
        return self._without(body, results, parts, constant, given)

    def _before(self, binding: VarBinding, given: Mapping[Var, Expr]) -> Var:
        """The variable of a binding of the body, now computed before the loop."""
        bindings, in_dataflow = self._scopes[-1]
        value = _OutsideValues(given).mutate(binding.value)
        make = DataflowVar if in_dataflow else Var
        var = make(binding.var.name_hint, value.ty, binding.var.origins)
        bindings.append(VarBinding(var, value))
        return var

    def _without(
        self,
        body: Function,
        results: Tuple,
        parts: LoopParts,
        constant: Mapping[int, Expr],
        given: Mapping[Var, Expr],
    ) -> Tuple:
        """The results of the loop without the values carried unchanged, and without the bindings that are ``given``."""
        assert isinstance(parts.carried, Tuple)
        count, first = len(parts.carried.fields), 0 if parts.condition is None else 1
        kept = [index for index in range(count) if index not in constant]
        inner = _OutsideValues(given).mutate(body)
        assert isinstance(inner.body.body, Tuple)
        fields = inner.body.body.fields
        params = [inner.params[0], *[inner.params[1 + index] for index in kept], *inner.params[1 + count :]]
        left = [*fields[:first], *[fields[first + index] for index in kept], *fields[first + count :]]
        name = parts.body.name_hint if isinstance(parts.body, Var) else ""
        function = self.emit(loop_body(params, inner.body, left), name)
        carried = [parts.carried.fields[index] for index in kept]
        found = self.emit(loop(function, carried, parts.scanned, parts.count, parts.condition), name)
        fresh = iter(range(len(kept) + len(results.fields) - first - count))
        finals = [constant[index] if index in constant else TupleGetItem(found, next(fresh)) for index in range(count)]
        stacks = [TupleGetItem(found, index) for index in fresh]
        return Tuple([self.emit(one) if isinstance(one, TupleGetItem) else one for one in (*finals, *stacks)])


class _OutsideValues(ExprMutator):
    """Replaces variables of the body by values from outside, and removes the variables' bindings."""

    def __init__(self, given: Mapping[Var, Expr]) -> None:
        super().__init__()
        self._given = given
        for var, value in given.items():
            self.remap(var, value)

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        return None if binding.var in self._given else binding


def _handed_on(body: Function, results: Tuple, carried: Tuple, first: int) -> dict[int, Expr]:
    """The initial values, by position, that a loop carries unchanged; each type is as precise as the parameter's."""
    found: dict[int, Expr] = {}
    for index, start in enumerate(carried.fields):
        param = body.params[1 + index]
        is_same = results.fields[first + index] is param and isinstance(start, Var | Constant)
        says_all = is_subtype(start.ty, param.ty) is True
        if is_same and says_all and set(type_symvars(param.ty)) <= set(type_symvars(start.ty)):
            found[index] = start
    return found


def _moving(body: Function, given: Mapping[Var, Expr]) -> list[VarBinding]:
    """The bindings of a body that are invariant and may move, in order; of a source operator all or none."""
    bindings = [binding for block in body.body.blocks for binding in block.bindings]
    bound = {*body.params, *[binding.var for binding in bindings]} - given.keys()
    staying: set[Origins] = set()
    while True:
        moved: dict[Var, VarBinding] = {}
        parted: set[Origins] = set()
        for binding in bindings:
            origins = binding.var.origins
            is_free = all(var not in bound or var in moved for var in free_vars(binding.value))
            if is_free and origins not in staying and isinstance(binding, VarBinding) and _is_total(binding.value):
                moved[binding.var] = binding
            elif origins:
                parted.add(origins)
        if parted <= staying or not any(binding.var.origins in parted for binding in moved.values()):
            return list(moved.values())
        staying |= parted


def _is_total(value: Expr) -> bool:
    """True for a call that has a result for all operands of its types, one that is not much larger than they are."""
    if not isinstance(value, Call) or not isinstance(value.op, Op) or not isinstance(value.ty, TensorType):
        return False
    tensors = [arg.ty for arg in value.args if isinstance(arg.ty, TensorType)]
    shapes = [ty.shape for ty in tensors if ty.shape is not None]
    shape, traits = value.ty.shape, value.op.traits
    if shape is None or not shapes or len(shapes) < len(tensors) or Trait.IMPURE in traits:
        return False
    mentioned = {size for ty in tensors for size in type_symvars(ty)}
    if not set(type_symvars(value.ty)) <= mentioned or not any(_is_near(shape, own) for own in shapes):
        return False
    if Trait.VIEW in traits:
        return dims_equal(dim_product(shape), dim_product(shapes[0])) is True
    if Trait.ELEMENTWISE in traits:
        return value.op.name not in _DIVIDING or is_float(value.ty.dtype or "")
    if value.op.name != _PRODUCT:
        return False
    return len(shapes) == 2 and dims_equal(shapes[0][-1], shapes[1][max(len(shapes[1]) - 2, 0)]) is True


def _is_near(shape: Sequence[Dim], operand: Sequence[Dim]) -> bool:
    """True if a result of ``shape`` has at most `_MOST_GROWN` times the elements of an operand, for all sizes."""
    open_sizes, own = (Counter(size for size in dims if isinstance(size, SymExpr)) for dims in (shape, operand))
    known, beside = (prod(size for size in dims if isinstance(size, int)) for dims in (shape, operand))
    return open_sizes <= own and known <= _MOST_GROWN * max(beside, 1)
