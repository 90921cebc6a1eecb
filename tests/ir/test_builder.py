"""The builder: A-normal form, names, blocks, scopes, and what it says to misuse."""

from __future__ import annotations

import pytest

from regraft import op
from regraft.analysis import well_formed
from regraft.ir import (
    BlockBuilder,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    IRError,
    MatchCast,
    NameSupply,
    Origin,
    SeqExpr,
    SymVar,
    TensorType,
    Tuple,
    Var,
    VarBinding,
    const,
    flatten,
    iter_bindings,
)
from tests.ir.programs import MATRIX, TRUTH, matrix, nested_calls


def names(function: Function) -> list[str]:
    return [binding.var.name for binding in iter_bindings(function)]


def test_nested_calls_are_bound_one_by_one_operands_first() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(op.add(op.exp(x), op.sin(op.cos(x))))
            output = builder.emit_output(op.add(value, x))
        builder.emit_func_output(output)
    function = builder.get()["main"]
    well_formed(builder.get())
    [block] = function.body.blocks
    assert isinstance(block, DataflowBlock)
    assert [b.value.op.name for b in block] == [  # type: ignore[union-attr]
        "relax.exp", "relax.cos", "relax.sin", "relax.add", "relax.add",
    ]  # fmt: skip
    assert names(function) == ["lv", "lv1", "lv2", "lv3", "gv"]
    assert [type(b.var) for b in block] == [DataflowVar] * 4 + [Var]
    assert block.outputs == (output,)


def test_an_expression_used_twice_is_bound_once() -> None:
    x = matrix()
    shared = op.exp(x)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(op.add(shared, shared))
    assert names(builder.get()["main"]) == ["gv", "gv1"]


def test_names_that_are_asked_for_do_not_clash() -> None:
    x = matrix("gv")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        first = builder.emit(op.exp(x), "named")
        second = builder.emit(op.exp(first), "named")
        builder.emit_func_output(builder.emit(op.exp(second)))
    assert names(builder.get()["main"]) == ["named", "named1", "gv1"]


def test_names_beside_a_function_are_none_of_its_own() -> None:
    x = matrix("x")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.exp(x), "y"))
    supply = NameSupply.beside(builder.get()["main"])
    taken = ["x", *names(builder.get()["main"])]
    assert set(taken).isdisjoint([supply.fresh(name) for name in taken])


def test_names_after_a_number_are_kept_apart() -> None:
    supply = NameSupply(["a", "a1", "b2"])
    assert [supply.fresh(prefix) for prefix in ("a", "a", "b2", "b2", "c")] == ["a2", "a3", "b2_1", "b2_2", "c"]


def test_blocks_follow_each_other_as_they_were_opened() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit(op.exp(x))
        with builder.dataflow():
            builder.emit_output(op.exp(x))
        with builder.dataflow():
            pass
        builder.emit(op.exp(x))
        with builder.dataflow():
            pass
        builder.emit(op.exp(x))
        builder.emit_func_output(x)
    blocks = builder.get()["main"].body.blocks
    assert [(type(block).__name__, len(block)) for block in blocks] == [
        ("BindingBlock", 1),
        ("DataflowBlock", 1),
        ("BindingBlock", 2),
    ]


def test_outputs_of_functions_are_leaves_or_tuples_of_them() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output([op.exp(x), (x, 2.0)])
    function = builder.get()["main"]
    assert isinstance(function.body.body, Tuple)
    assert function.ret_ty == Tuple([x, Tuple([x, const(2.0)])]).ty
    well_formed(function)


def test_parameters_may_come_with_the_output() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", private=True):
        builder.emit_func_output(builder.emit(op.exp(x)), x)
    assert builder.get()["main"].params == (x,)
    assert builder.get()["main"].is_private


def test_casts_define_the_type_of_what_follows() -> None:
    x, k = Var("x", TensorType(None, "float32")), SymVar("k")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            cast = builder.match_cast(op.exp(x), TensorType((k, 3), "float32"))
            output = builder.emit_output(op.add(cast, cast))
        builder.emit_func_output(output)
    function = builder.get()["main"]
    well_formed(function)
    assert isinstance(cast, DataflowVar)
    assert output.ty == TensorType((k, 3), "float32")
    assert function.ret_ty == TensorType(None, "float32", 2)


def test_branches_are_written_in_scopes() -> None:
    x, condition = matrix(), Var("c", TRUTH)
    builder = BlockBuilder()
    with builder.function("main", [x, condition]):
        builder.begin_scope()
        side = builder.end_scope(op.exp(x))
        assert isinstance(side, SeqExpr)
        builder.emit_func_output(builder.emit(If(condition, side, x)))
    well_formed(builder.get())


def test_bound_values_can_be_looked_up() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        call = op.exp(x)
        var = builder.emit(call)
        assert builder.lookup_binding(var) is call
        assert builder.lookup_binding(x) is None
        builder.emit_func_output(var)


def test_finished_bindings_are_taken_as_they_are() -> None:
    x, var, cast = matrix(), Var("gv", MATRIX), Var("cast", MATRIX)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_normalized(VarBinding(var, op.exp(x)))
        builder.emit_normalized(MatchCast(cast, var, MATRIX))
        builder.emit_func_output(builder.emit(op.exp(cast)))
    assert names(builder.get()["main"]) == ["gv", "cast", "gv1"]


def test_variables_carry_the_origin_they_are_emitted_under() -> None:
    x = matrix()
    origin = Origin("onnx", "Gemm_7")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.origin(origin):
            inside = builder.emit(op.exp(x))
        outside = builder.emit(op.exp(inside))
        builder.emit_func_output(outside)
    assert inside.origins == (origin,)
    assert outside.origins == ()


def test_functions_of_a_module_can_be_called_and_replaced() -> None:
    x, y = matrix("x"), matrix("y")
    builder = BlockBuilder()
    with builder.function("f", [x], private=True):
        f = builder.emit_func_output(op.exp(x))
    with builder.function("main", [y]):
        builder.emit_func_output(builder.emit(f(y)))
    well_formed(builder.get())
    replacement = Function([x], x)
    builder.update_func(f, replacement)
    assert builder.get()["f"] is replacement


def test_deep_expressions_are_flattened_without_recursion() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(nested_calls(50_000).body.body)
    assert len(builder.get()["main"].body.blocks[0]) == 50_001


def test_what_is_flat_stays_the_same_object() -> None:
    x = matrix()
    call = op.exp(x)
    assert flatten(call, lambda _: pytest.fail("nothing is to be bound")) is call


def _emit_outside(builder: BlockBuilder) -> None:
    builder.emit(matrix())


def _no_output(builder: BlockBuilder) -> None:
    with builder.function("main", []):
        pass


def _dataflow_inside(builder: BlockBuilder) -> None:
    with builder.function("main", []), builder.dataflow(), builder.dataflow():
        pass


def _output_outside_dataflow(builder: BlockBuilder) -> None:
    with builder.function("main", []):
        builder.emit_output(const(1.0))


def _result_inside_dataflow(builder: BlockBuilder) -> None:
    with builder.function("main", []), builder.dataflow():
        builder.emit_func_output(const(1.0))


def _result_outside(builder: BlockBuilder) -> None:
    builder.emit_func_output(const(1.0))


def _parameters_twice(builder: BlockBuilder) -> None:
    with builder.function("main", []):
        builder.emit_func_output(const(1.0), [])


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (_emit_outside, "nothing can be emitted outside of a function: use `with bb.function"),
        (_no_output, "function 'main' has no result: call emit_func_output before its block ends"),
        (_dataflow_inside, "a dataflow block cannot be opened inside another"),
        (_output_outside_dataflow, "emit_output is called outside of a dataflow block; use emit"),
        (_result_inside_dataflow, "the dataflow block is still open; close it before the result is given"),
        (_result_outside, "emit_func_output is called outside of a function"),
        (_parameters_twice, "the parameters of 'main' are given twice"),
    ],
)
def test_misuse_is_told_with_what_to_do(misuse: object, message: str) -> None:
    with pytest.raises(IRError, match=message):
        misuse(BlockBuilder())  # type: ignore[operator]


def test_a_failed_function_leaves_the_builder_usable() -> None:
    builder = BlockBuilder()

    def fail() -> None:
        with builder.function("main", []), builder.dataflow():
            builder.emit(const(1.0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with builder.function("main", []):
        builder.emit_func_output(builder.emit(const(2.0)))
    assert len(builder.get()["main"].body.blocks) == 1
