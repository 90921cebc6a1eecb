"""Traversal of programs: in order, once per expression, and with no limit on length or depth.

`walk` and `iter_bindings` read programs. `ExprMutator` (in `mutator`) calls one method per kind of expression and
builds a program from the results. All of them keep an explicit stack: 100,000 bindings in a row, calls nested
as deeply, and branches inside branches do not reach Python's recursion limit.

The order is that of evaluation: operands before the call, a value before its variable, branches before the
`If`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from .expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from .module import IRModule
from .op import Call, Op
from .program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding

Visitable: TypeAlias = Expr | VarBinding | MatchCast | BindingBlock | IRModule
"""The kinds of nodes that a visitor may start from."""

METHODS: Final[dict[type, str]] = {
    Var: "visit_var_",
    DataflowVar: "visit_dataflow_var_",
    GlobalVar: "visit_global_var_",
    Constant: "visit_constant_",
    ShapeExpr: "visit_shape_expr_",
    PrimValue: "visit_prim_value_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
    ExternFunc: "visit_extern_func_",
    Op: "visit_op_",
    Tuple: "visit_tuple_",
    TupleGetItem: "visit_tuple_getitem_",
    Call: "visit_call_",
    If: "visit_if_",
    SeqExpr: "visit_seq_expr_",
    Function: "visit_function_",
}
"""The name of the method for each kind of expression, as in Relax."""

COMPOUND: Final[frozenset[type]] = frozenset({Call, Tuple, TupleGetItem, If, SeqExpr, Function})
"""The kinds of expression that have parts."""


def parts_of(node: Visitable) -> Sequence[Visitable]:
    """The direct parts of ``node`` in order of evaluation, with callees and blocks, but without definitions."""
    match node:
        case Call():
            return (node.op, *node.args)
        case Tuple():
            return node.fields
        case TupleGetItem():
            return (node.tuple_value,)
        case VarBinding() | MatchCast():
            return (node.value,)
        case BindingBlock():
            return node.bindings
        case If():
            return (node.cond, node.true_branch, node.false_branch)
        case SeqExpr():
            return (*node.blocks, node.body)
        case Function():
            return (node.body,)
        case IRModule():
            return tuple(node.functions.values())
        case _:
            return ()


def walk(root: Visitable, enters: Callable[[Expr], bool] = lambda _compound: True) -> Iterator[Expr]:
    """Every expression of ``root``, operands before users; ``root`` itself last, if it is one.

    Enters blocks, branches and functions, and skips a compound expression for which ``enters`` is false. A leaf
    (operators too) is yielded at each use; a compound expression once, even if it is shared. Parameters and the
    variables of bindings are yielded where they are used, not where they are defined. Cost: linear in the expressions
    and their operands.
    """
    seen: set[int] = set()
    stack: list[tuple[Visitable, bool]] = [(root, False)]
    while stack:
        current, leaving = stack.pop()
        if leaving:
            if isinstance(current, Expr):
                yield current
            continue
        kind = type(current)
        if kind in COMPOUND:
            if id(current) in seen or not enters(cast(Expr, current)):
                continue
            seen.add(id(current))
        elif isinstance(current, Expr):
            yield current
            continue
        stack.append((current, True))
        stack.extend([(part, False) for part in reversed(parts_of(current))])


def iter_bindings(root: Visitable) -> Iterator[Binding]:
    """Every binding of ``root`` in order of evaluation, branches and inner functions included.

    The bindings of a branch come before the binding of its `If`. Cost: linear.
    """
    seen: set[int] = set()
    stack: list[Iterator[Visitable | _Left]] = [iter((root,))]
    while stack:
        for current in stack[-1]:
            if isinstance(current, VarBinding | MatchCast):
                if not holds_bindings(current.value):
                    yield current
                    continue
                stack.append(iter((current.value, _Left(current))))
                break
            if isinstance(current, _Left):
                yield current.binding
            elif not isinstance(current, Expr) or (id(current) not in seen and holds_bindings(current)):
                seen.add(id(current))
                stack.append(iter(parts_of(current)))
                break
        else:
            stack.pop()


class _Left(NamedTuple):
    """Marks that the bindings inside the value of ``binding`` are done."""

    binding: Binding


def holds_bindings(expr: Expr) -> bool:
    """True if ``expr`` contains, or may contain, blocks: it is a branch, body or function, or has compound parts.

    A call or tuple whose operands are all leaves has none; this case is fast.
    """
    kind = type(expr)
    if kind not in COMPOUND:
        return False
    if kind is If or kind is SeqExpr or kind is Function:
        return True
    for part in parts_of(expr):  # noqa: SIM110 - a generator for each binding takes twice the time
        if type(part) in COMPOUND:
            return True
    return False
