"""Visitors and mutators written for Relax go over the same nodes in the same order, and make the same programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax as tvm_relax

import regraft as rx
from regraft.analysis import well_formed
from tests.relax.beside_tvm import ours, read_back, theirs

BRANCHES = """
@I.ir_module
class Module:
    @R.function
    def main(
        c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")
    ) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            t = (a, R.const(1.0, "float32"))
            b = t[0]
            R.output(b)
        if c:
            d = R.nn.relu(b)
            e = R.multiply(d, d)
        else:
            e = R.add(b, x)
        return e
"""


def logging_visitor(package: Any) -> Any:
    """A visitor class of ``package`` that writes down calls, variables and definitions as it meets them."""

    class Log(package.expr_functor.PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[str] = []

        def visit_call_(self, op: Any) -> None:
            self.log.append(f"call {op.op.name}")
            for arg in op.args:
                self.visit_expr(arg)

        def visit_tuple_getitem_(self, op: Any) -> None:
            self.log.append(f"field {op.index}")
            self.visit_expr(op.tuple_value)

        def visit_if_(self, op: Any) -> None:
            self.log.append("if")
            self.visit_expr(op.false_branch)
            self.visit_expr(op.true_branch)
            self.visit_expr(op.cond)

        def visit_var_(self, op: Any) -> None:
            self.log.append(f"use of {op.name}")

        def visit_dataflow_var_(self, op: Any) -> None:
            self.log.append(f"local use of {op.name}")

        def visit_var_def_(self, var: Any) -> None:
            self.log.append(f"definition of {var.name}")

        def visit_dataflow_var_def_(self, var: Any) -> None:
            self.log.append(f"local definition of {var.name}")

    return package.expr_functor.visitor(Log)


def test_a_visitor_meets_the_nodes_in_the_order_of_relax() -> None:
    logs: list[list[str]] = []
    for package, module in ((rx, ours(BRANCHES)), (tvm_relax, theirs(BRANCHES))):
        visitor = logging_visitor(package)()
        visitor.visit_expr(module["main"])
        logs.append([line.replace("relax.", "") for line in visitor.log])
    assert logs[0] == logs[1]


def replacing_mutator(package: Any) -> Any:
    """A mutator class of ``package`` that puts ``multiply`` and a negation in the place of each ``add``."""
    get = rx.Op.get if package is rx else tvm.ir.Op.get

    class Replace(package.expr_functor.PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            if call.op == get("relax.add"):
                product = self.builder_.emit(package.op.multiply(call.args[0], call.args[1]))
                return package.op.negative(product)
            return call

    return package.expr_functor.mutator(Replace)


def test_a_mutator_makes_the_program_that_relaxs_makes() -> None:
    here = rx.IRModule({"main": replacing_mutator(rx)().visit_expr(ours(BRANCHES)["main"])})
    there = tvm.IRModule({"main": replacing_mutator(tvm_relax)().visit_expr(theirs(BRANCHES)["main"])})
    well_formed(here)
    rx.assert_structural_equal(here, read_back(there))


def test_a_mutator_that_changes_nothing_gives_the_same_object() -> None:
    main = ours(BRANCHES)["main"]
    assert rx.PyExprMutator().visit_expr(main) is main


def test_a_mutator_updates_the_module_that_it_was_given() -> None:
    module = ours(BRANCHES)

    @rx.expr_functor.mutator
    class Renamed(rx.PyExprMutator):
        def run(self) -> rx.IRModule:
            for variable, function in module.functions.items():
                self.builder_.update_func(variable, self.visit_expr(function).with_attr("seen", 1))
            self.builder_.add_func(module["main"].with_attr("global_symbol", "copy"), "copy")
            return self.builder_.get()

    after = Renamed(module).run()
    assert after["main"].attrs["seen"] == 1
    assert list(after) == ["main", "copy"]


def test_decorators_ask_for_the_base_class() -> None:
    with pytest.raises(ValueError, match="must derive from PyExprVisitor"):
        rx.expr_functor.visitor(int)


ROWS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.exp(a)
            c = R.multiply(a, y)
            R.output(c)
        return c
"""


def test_a_block_is_edited_as_relax_edits_it() -> None:
    results: list[rx.IRModule] = []
    for package, module in ((rx, ours(ROWS)), (tvm_relax, theirs(ROWS))):
        function = module["main"]
        block = function.body.blocks[0]
        a, b, c = [binding.var for binding in block.bindings]
        edit = package.DataflowBlockRewrite(block, function)
        edit.remove_unused(b)
        edit.add(function.params[1], "d", is_dfvar=True)
        edit.replace_all_uses(a, function.params[0])
        after = edit.mutated_root_fn()
        assert len(edit.mutated_dfb().bindings) == 3
        module = edit.mutate_irmodule(module)
        assert len(function.body.blocks[0].bindings) == 3
        results.append(module if package is rx else read_back(module))
        assert after is not function
        assert c is not None
    rx.assert_structural_equal(*results)


def test_a_variable_that_is_used_is_not_removed() -> None:
    function = ours(ROWS)["main"]
    edit = rx.DataflowBlockRewrite(function.body.blocks[0], function)
    a, b, _ = [binding.var for binding in function.body.blocks[0].bindings]
    with pytest.raises(ValueError, match="a is used by b, c"):
        edit.remove_unused(a)
    with pytest.raises(ValueError, match="does not bind x"):
        edit.remove_unused(function.params[0])
    edit.remove_unused(function.params[0], allow_undef=True)
    edit.remove_all_unused()
    assert b not in [binding.var for binding in edit.mutated_dfb()]
    well_formed(edit.mutated_root_fn())
    x = np.ones((2, 3), "float32")
    run = rx.build(edit.mutate_irmodule(rx.IRModule({"main": function})), target="numpy")
    np.testing.assert_array_equal(run["main"](x, x), x * 2)
