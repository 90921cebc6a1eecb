"""Sizes in PyTorch's terms: sizes in tensors are read at once, with the model's promises about them, and branches
compare numbers.

PyTorch's exporter cannot compare a size from a tensor with another one unless it is told the relation.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import torch

from ..analysis.uses import variables_of
from ..formats.torch.signature import SizeCheck
from ..ir.dims import Dim, SymVar
from ..ir.expr import Constant, Expr, ExternFunc, PrimValue, ShapeExpr, StringImm, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, is_call_of
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import OBJECT, TensorType, type_symvars
from ..ir.visitor import iter_bindings

READ_SIZE: Final = "regraft.torch.read_size"
"""The function that returns the number in a scalar as a shape of one size."""
_PROMISE: Final = "regraft.torch.promise"
_DECIDE: Final = "regraft.torch.decide"
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
_RELATIONS: Final = {
    "relax.greater_equal": ">=",
    "relax.greater": ">",
    "relax.less_equal": "<=",
    "relax.less": "<",
    "relax.equal": "==",
}


def with_read_sizes(module: IRModule, name: str, checks: Sequence[SizeCheck]) -> IRModule:
    """``module`` with sizes read directly from scalars, and with ``checks`` made as soon as their sizes are known.

    Conditions of branches that compare sizes become comparisons of numbers. Cost: linear in the bindings.
    """
    function = module[name]
    known = {size.name: size for param in function.params for size in type_symvars(param.ty)}
    pending = [check for check in checks if check[1] in _COMPARE]
    bindings: list[Binding] = []
    definitions: dict[Expr, Expr] = {}
    changed = False
    decides = _conditions(function)
    for block in function.body.blocks:
        for binding in block.bindings:
            decision = _decision(binding.value, definitions) if binding.var in decides else None
            if decision is not None:
                binding, changed = VarBinding(binding.var, decision), True
            scalar = _scalar_read(binding, definitions)
            if scalar is not None:
                binding = VarBinding(binding.var, Call(ExternFunc(READ_SIZE), [scalar], {}, [binding.var.ty]))
                changed = True
            definitions[binding.var] = binding.value
            bindings.append(binding)
            if isinstance(binding, MatchCast):
                known.update((size.name, size) for size in type_symvars(binding.ty))
                ready = [check for check in pending if _is_known(check, known)]
                pending = [check for check in pending if check not in ready]
                bindings.extend(_promises(ready, known))
                changed = changed or bool(ready)
    if not changed:
        return module
    return module.with_function(name, function.with_body(SeqExpr([BindingBlock(bindings)], function.body.body)))


def _scalar_read(binding: Binding, definitions: Mapping[Expr, Expr]) -> Expr | None:
    """The scalar whose number is the only size of a binding; None for any other binding."""
    value = binding.value
    if isinstance(binding, MatchCast) or not is_call_of(value, "relax.tensor_to_shape"):
        return None
    line = definitions.get(value.args[0])
    if not is_call_of(line, "relax.reshape"):
        return None
    scalar = line.args[0].ty
    return line.args[0] if isinstance(scalar, TensorType) and scalar.ndim == 0 else None


def _conditions(function: Function) -> set[Expr]:
    """The variables that are conditions of branches, and that nothing else reads."""
    values = [binding.value for binding in iter_bindings(function)]
    conditions = Counter(value.cond for value in values if isinstance(value, If) and isinstance(value.cond, Var))
    used = Counter(var for value in (*values, function.body.body) for var in variables_of(value))
    return {var for var, count in conditions.items() if used[var] == count}


def _decision(value: Expr, definitions: Mapping[Expr, Expr]) -> Call | None:
    """A comparison of sizes as a comparison of numbers; None for any other value."""
    relation = _RELATIONS.get(value.op.name) if isinstance(value, Call) and isinstance(value.op, Op) else None
    if relation is None:
        return None
    assert isinstance(value, Call)
    sides = [_number(operand, definitions) for operand in value.args]
    if None in sides:
        return None
    operands = [PrimValue(cast(Dim, sides[0])), StringImm(relation), PrimValue(cast(Dim, sides[1]))]
    return Call(ExternFunc(_DECIDE), operands, {}, [OBJECT])


def _number(operand: Expr, definitions: Mapping[Expr, Expr]) -> Dim | None:
    """The size, or the integer, that a scalar holds; None for any other value."""
    if isinstance(operand, Constant):
        is_whole = operand.data.dtype == "int64" and not operand.data.shape
        return int(operand.data.numpy()) if is_whole else None
    line = definitions.get(operand)
    if not is_call_of(line, "relax.reshape"):
        return None
    sizes = definitions.get(line.args[0])
    given = sizes.args[0] if is_call_of(sizes, "relax.shape_to_tensor") else None
    return given.values[0] if isinstance(given, ShapeExpr) and len(given.values) == 1 else None


def _is_known(check: SizeCheck, known: Mapping[str, SymVar]) -> bool:
    return all(isinstance(side, int) or side in known for side in (check[0], check[2]))


def _promises(checks: Iterable[SizeCheck], known: Mapping[str, SymVar]) -> Iterator[Binding]:
    for left, relation, right in checks:
        sides: list[Dim] = [side if isinstance(side, int) else known[side] for side in (left, right)]
        operands = [PrimValue(sides[0]), StringImm(relation), PrimValue(sides[1])]
        yield VarBinding(Var("kernel_promise", OBJECT), Call(ExternFunc(_PROMISE), operands, {}, [OBJECT]))


def _read_size(scalar: torch.Tensor) -> tuple[Any, ...]:
    number = scalar.item()
    if torch.compiler.is_exporting():
        cast(Any, torch)._check(number >= 0)  # tells PyTorch a fact that no shape states
    return (number,)


def _promise(left: Any, relation: str, right: Any) -> None:
    cast(Any, torch)._check(_decide(left, relation, right))


def _decide(left: Any, relation: str, right: Any) -> Any:
    return _COMPARE[relation](left, right)


TOOLS: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    READ_SIZE: ("kernel_read_size", _read_size),
    _PROMISE: ("kernel_promise", _promise),
    _DECIDE: ("kernel_decide", _decide),
}
"""The functions behind these names, and their names in the text of a program."""
