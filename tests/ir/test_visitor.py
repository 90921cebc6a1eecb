"""Walking programs: order, sharing, pruning, and no limit on length or depth."""

from __future__ import annotations

from regraft import op
from regraft.ir import (
    BlockBuilder,
    Call,
    Expr,
    Function,
    If,
    IRModule,
    Op,
    SeqExpr,
    TensorType,
    Tuple,
    Var,
    const,
    iter_bindings,
    walk,
)
from regraft.ir.visitor import Visitable
from tests.ir.programs import chain, matrix, nested_branches, nested_calls


def kinds(root: Visitable) -> list[str]:
    return [type(expr).__name__ for expr in walk(root)]


def branching() -> IRModule:
    x, condition = matrix(), Var("c", TensorType((), "bool"))
    builder = BlockBuilder()
    with builder.function("main", [x, condition]):
        first = builder.emit(op.add(x, x), "first")
        builder.begin_scope()
        inner = builder.emit(op.add(first, const(1.0)), "inner")
        branch = builder.end_scope(inner)
        last = builder.emit(If(condition, branch, x), "last")
        builder.emit_func_output(last)
    return builder.get()


def test_operands_come_before_users_and_the_root_last() -> None:
    x = matrix()
    assert kinds(op.add(op.permute_dims(op.permute_dims(x)), x)) == [
        "Op", "Op", "Op", "Var", "Call", "Call", "Var", "Call",
    ]  # fmt: skip


def test_definitions_are_not_uses() -> None:
    x = matrix()
    assert kinds(Function([x], SeqExpr([], x))) == ["Var", "SeqExpr", "Function"]


def test_leaves_come_at_each_use_and_shared_calls_once() -> None:
    x = matrix()
    shared = op.add(x, x)
    assert kinds(Tuple([shared, shared])) == ["Op", "Var", "Var", "Call", "Tuple"]


def test_walking_a_module_enters_every_function_and_branch() -> None:
    found = kinds(branching())
    assert found.count("Call") == 2
    assert found.count("If") == 1
    assert found[-1] == "Function"


def test_bindings_come_in_order_of_evaluation_branches_first() -> None:
    assert [binding.var.name for binding in iter_bindings(branching())] == ["first", "inner", "last"]


def test_bindings_of_a_block_or_of_one_binding_can_be_asked_for() -> None:
    body = branching()["main"].body
    assert [binding.var.name for binding in iter_bindings(body.blocks[0])] == ["first", "inner", "last"]
    assert [binding.var.name for binding in iter_bindings(body.blocks[0].bindings[1])] == ["inner", "last"]


def test_walking_may_pass_over_expressions_with_all_their_parts() -> None:
    found = [type(expr) for expr in walk(branching(), lambda expr: not isinstance(expr, If))]
    assert found.count(Call) == 1
    assert If not in found


def test_long_chains_and_deep_nests_are_visited_without_recursion() -> None:
    assert sum(isinstance(expr, Call) for expr in walk(chain(100_000))) == 100_001
    assert sum(isinstance(expr, Call) for expr in walk(nested_calls(50_000))) == 50_001
    assert sum(isinstance(expr, If) for expr in walk(nested_branches(3_000))) == 3_000
    assert sum(1 for _ in iter_bindings(nested_branches(3_000))) == 3_000


def test_walk_is_lazy() -> None:
    first: Expr = next(walk(nested_calls(50_000)))
    assert isinstance(first, Op)
