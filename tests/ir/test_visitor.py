"""Walking programs: order, sharing, pruning, and no limit on length or depth."""

from __future__ import annotations

from regraft import op
from regraft.ir import (
    BlockBuilder,
    Call,
    Constant,
    DataflowVar,
    Expr,
    ExprVisitor,
    Function,
    GlobalVar,
    If,
    IRModule,
    Op,
    SeqExpr,
    TensorType,
    Tuple,
    Var,
    VarBinding,
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


def test_a_visitor_method_is_called_for_each_kind_of_node() -> None:
    class Recorder(ExprVisitor):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_call_(self, call: Call) -> None:
            self.seen.append("call")

        def visit_constant_(self, constant: Constant) -> None:
            self.seen.append("constant")

        def visit_if_(self, branch: If) -> None:
            self.seen.append("if")

        def visit_var_def_(self, var: Var) -> None:
            self.seen.append(f"def {var.name}")

        def visit_var_(self, var: Var) -> None:
            self.seen.append(f"use {var.name}")

        def visit_var_binding_(self, binding: VarBinding) -> None:
            self.seen.append("binding")

        def visit_module_(self, module: IRModule) -> None:
            self.seen.append("module")

    recorder = Recorder()
    recorder.visit(branching())
    assert recorder.seen == [
        "def x", "def c", "use x", "use x", "call", "binding", "def first",
        "use c", "use first", "constant", "call", "binding", "def inner", "use inner", "use x",
        "if", "binding", "def last", "use last", "module",
    ]  # fmt: skip


def test_every_kind_of_leaf_has_its_method() -> None:
    class Names(ExprVisitor):
        def __init__(self) -> None:
            self.names: list[str] = []

        def visit_op_(self, op: Op) -> None:
            self.names.append(op.name)

        def visit_global_var_(self, var: GlobalVar) -> None:
            self.names.append(var.name)

        def visit_dataflow_var_(self, var: DataflowVar) -> None:
            self.names.append(var.name)

    names = Names()
    local = DataflowVar("lv", TensorType((2, 3), "float32"))
    names.visit(Tuple([GlobalVar("f"), op.add(local, local)]))
    assert names.names == ["f", "relax.add", "lv", "lv"]


def test_a_visitor_may_pass_over_nodes() -> None:
    class Outer(ExprVisitor):
        def __init__(self) -> None:
            self.calls = 0

        def enters(self, node: Visitable) -> bool:
            return not isinstance(node, If)

        def visit_call_(self, call: Call) -> None:
            self.calls += 1

    outer = Outer()
    outer.visit(branching())
    assert outer.calls == 1


class _Counter(ExprVisitor):
    def __init__(self) -> None:
        self.calls = 0
        self.branches = 0

    def visit_call_(self, call: Call) -> None:
        self.calls += 1

    def visit_if_(self, branch: If) -> None:
        self.branches += 1


def test_long_chains_and_deep_nests_are_visited_without_recursion() -> None:
    counter = _Counter()
    for program in (chain(100_000), nested_calls(50_000), nested_branches(3_000)):
        counter.visit(program)
    assert counter.calls == 100_001 + 50_001
    assert counter.branches == 3_000
    assert sum(1 for _ in iter_bindings(nested_branches(3_000))) == 3_000
    assert sum(isinstance(expr, Call) for expr in walk(nested_calls(50_000))) == 50_001


def test_walk_is_lazy() -> None:
    first: Expr = next(walk(nested_calls(50_000)))
    assert isinstance(first, Op)
