"""Rewriting programs node by node: sharing, types that follow, emitted and dropped bindings, depth."""

from __future__ import annotations

import pytest
from hypothesis import given

from regraft import op
from regraft.analysis import well_formed
from regraft.ir import (
    BindingBlock,
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExprMutator,
    Function,
    If,
    IRError,
    IRModule,
    MatchCast,
    Origin,
    SeqExpr,
    ShapeExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    Type,
    Var,
    VarBinding,
    assert_structural_equal,
    const,
    is_call_of,
    iter_bindings,
)
from regraft.ir.program import Binding
from regraft.ir.types import substitute_type
from regraft.testing import programs
from tests.ir.programs import MATRIX, chain, matrix, nested_branches, nested_calls


class Transposer(ExprMutator):
    """Transposes every sum."""

    def visit_call_(self, call: Call) -> Expr:
        return op.permute_dims(call) if is_call_of(call, "relax.add") else call


class Doubler(ExprMutator):
    """Puts two nested calls where there was one."""

    def visit_call_(self, call: Call) -> Expr:
        return op.permute_dims(op.permute_dims(call)) if is_call_of(call, "relax.add") else call


@given(programs(25))
def test_a_mutator_that_changes_nothing_gives_back_the_same_object(module: IRModule) -> None:
    assert ExprMutator().mutate(module) is module
    assert ExprMutator().mutate(module["main"]) is module["main"]


@given(programs(25))
def test_a_mutator_that_rebuilds_everything_gives_an_equal_program(module: IRModule) -> None:
    class Rebuilder(ExprMutator):
        def visit_var_def_(self, var: Var) -> Var:
            return type(var)(var.name, var.ty, var.origins)

    rebuilt = Rebuilder().mutate(module)
    assert rebuilt is not module
    assert_structural_equal(rebuilt, module)
    well_formed(rebuilt)


def test_unchanged_parts_are_shared() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit_output(op.multiply(x, x))
        first = builder.emit(op.exp(first))
        with builder.dataflow():
            second = builder.emit_output(op.add(first, first))
        builder.emit_func_output(second)
    module = builder.get().with_function("other", Function([matrix()], const(1.0)))
    changed = Doubler().mutate(module)
    assert changed["other"] is module["other"]
    assert changed["main"].body.blocks[0] is module["main"].body.blocks[0]
    assert changed["main"].params[0] is x


def test_types_follow_and_variables_keep_name_and_origins() -> None:
    x = matrix()
    origin = (Origin("torch", "layer.0"),)
    total = DataflowVar("total", MATRIX, origin)
    result = Var("result", MATRIX)
    block = DataflowBlock([VarBinding(total, op.add(x, x)), VarBinding(result, op.multiply(total, total))])
    changed = Transposer().mutate(Function([x], SeqExpr([block], result)))
    well_formed(changed)
    inner, outer, product = changed.body.blocks[0].bindings
    assert inner.var.ty == MATRIX
    assert outer.var.name == "total"
    assert outer.var.origins == origin
    assert isinstance(outer.var, DataflowVar)
    assert outer.var.ty == TensorType((3, 2), "float32")
    assert product.var.ty == TensorType((3, 2), "float32")
    assert changed.ret_ty == TensorType((3, 2), "float32")


def test_emitted_bindings_have_fresh_names_and_the_origins_of_what_they_come_from() -> None:
    x = matrix("lv")
    total = DataflowVar("lv1", MATRIX, (Origin("onnx", "Add_0"),))
    result = Var("gv", MATRIX)
    block = DataflowBlock([VarBinding(total, op.add(x, x)), VarBinding(result, op.multiply(total, total))])
    changed = Doubler().mutate(Function([x], SeqExpr([block], result)))
    names = [binding.var.name for binding in iter_bindings(changed)]
    assert len({*names, "lv"}) == len(names) + 1
    first = changed.body.blocks[0].bindings[0].var
    assert isinstance(first, DataflowVar)
    assert first.origins == total.origins


def test_a_declared_type_that_still_holds_is_kept() -> None:
    x = matrix()
    wide = Var("wide", TensorType(None, "float32", 2))
    function = Function([x], SeqExpr([BindingBlock([VarBinding(wide, op.add(x, x))])], wide))
    changed = Doubler().mutate(function)
    assert changed.body.blocks[0].bindings[-1].var is wide
    assert changed.ret_ty == wide.ty


def test_a_return_type_that_the_new_body_breaks_is_inferred_anew() -> None:
    x = matrix()
    var = Var("v", MATRIX)
    body = SeqExpr([BindingBlock([VarBinding(var, op.add(x, x))])], var)
    ranked = TensorType(None, "float32", 2)
    assert Function([x], body, ranked).ret_ty == MATRIX
    for promised in (ranked, MATRIX):
        assert Transposer().mutate(Function([x], body, promised)).ret_ty == TensorType((3, 2), "float32")


def test_sizes_can_be_replaced_everywhere() -> None:
    n = SymVar("n")
    x = Var("x", TensorType((n, 3), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            flat = builder.emit(op.reshape(x, ShapeExpr([n * 3])))
            cast = builder.match_cast(flat, TensorType((n * 3,), "float32"))
            output = builder.emit_output(op.add(cast, cast))
        builder.emit_func_output(output)

    class Concrete(ExprMutator):
        def visit_type(self, ty: Type) -> Type:
            return substitute_type(ty, {n: 5})

        def visit_shape_expr_(self, shape: ShapeExpr) -> Expr:
            ty = self.visit_type(shape.ty)
            assert isinstance(ty, ShapeType)
            return ShapeExpr(ty.values or ())

    function = Concrete().mutate(builder.get())["main"]
    well_formed(function)
    assert function.params[0].ty == TensorType((5, 3), "float32")
    assert function.ret_ty == TensorType((15,), "float32")
    assert isinstance(function.body.blocks[0].bindings[1], MatchCast)
    assert function.body.blocks[0].bindings[1].ty == TensorType((15,), "float32")


def test_a_binding_can_be_dropped_and_its_variable_replaced() -> None:
    class Forwarder(ExprMutator):
        def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
            if isinstance(binding.value, Var):
                self.remap(binding.var, binding.value)
                return None
            return binding

    x = matrix()
    alias, other = Var("alias", MATRIX), Var("other", MATRIX)
    first = DataflowBlock([VarBinding(alias, x)])
    second = BindingBlock([VarBinding(other, op.add(alias, alias))])
    changed = Forwarder().mutate(Function([x], SeqExpr([first, second], Tuple([alias, other]))))
    assert_structural_equal(
        changed, Function([x], SeqExpr([BindingBlock([VarBinding(other, op.add(x, x))])], Tuple([x, other])))
    )


def test_plain_blocks_that_come_together_become_one() -> None:
    class Dropper(ExprMutator):
        def visit_block_(self, block: BindingBlock) -> BindingBlock:
            return DataflowBlock([]) if isinstance(block, DataflowBlock) else block

    x = matrix()
    names = [Var(name, MATRIX) for name in "abc"]
    rows = [VarBinding(var, op.add(x, x)) for var in names]
    blocks = [BindingBlock(rows[:1]), DataflowBlock(rows[1:2]), BindingBlock(rows[2:])]
    changed = Dropper().mutate(Function([x], SeqExpr(blocks, x)))
    assert [[b.var.name for b in block] for block in changed.body.blocks] == [["a", "c"]]


def test_a_call_in_place_of_the_result_is_bound_after_the_blocks() -> None:
    class Wrapper(ExprMutator):
        def visit_constant_(self, constant: Constant) -> Expr:
            return op.add(constant, constant)

    changed = Wrapper().mutate(Function([], SeqExpr([], const(1.0))))
    well_formed(changed)
    assert len(changed.body.blocks) == 1
    assert not isinstance(changed.body.blocks[0], DataflowBlock)


def test_branches_are_rewritten_and_the_type_of_the_if_follows() -> None:
    x, condition = matrix(), Var("c", TensorType((), "bool"))
    builder = BlockBuilder()
    with builder.function("main", [x, condition]):
        sides = []
        for _ in range(2):
            builder.begin_scope()
            sides.append(builder.end_scope(builder.emit(op.add(x, x))))
        builder.emit_func_output(builder.emit(If(condition, *sides)))
    changed = Transposer().mutate(builder.get())
    well_formed(changed)
    assert changed["main"].ret_ty == TensorType((3, 2), "float32")


def test_only_leaves_can_stand_for_a_variable() -> None:
    x = matrix()
    with pytest.raises(IRError, match="x can only be replaced by a leaf, not by Call; emit it first"):
        ExprMutator().remap(x, op.add(x, x))


def test_nothing_is_emitted_outside_of_a_body() -> None:
    with pytest.raises(IRError, match="nothing can be emitted outside"):
        ExprMutator().emit(const(1.0))


def test_a_function_of_a_module_must_stay_one() -> None:
    class Eraser(ExprMutator):
        def visit_function_(self, function: Function) -> Expr:
            return const(1.0)

    with pytest.raises(IRError, match="main became Constant; a function of a module must stay a function"):
        Eraser().mutate(chain(1))


def test_long_chains_and_deep_nests_are_rewritten_without_recursion() -> None:
    long = Doubler().mutate(chain(20_000))
    assert len(long["main"].body.blocks[0]) == 3 * 20_001
    deep = Doubler().mutate(nested_calls(5_000))
    assert len(deep.body.blocks[0]) == 3 * 5_001
    branches = nested_branches(2_000)
    assert ExprMutator().mutate(branches) is branches
