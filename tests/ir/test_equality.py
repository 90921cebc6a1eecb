"""Structural equality and hashing: what counts, what does not, and where the first difference is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from regraft import op
from regraft.ir import (
    Attrs,
    BindingBlock,
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    IRModule,
    MatchCast,
    Node,
    Origin,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeType,
    StringImm,
    SymVar,
    TensorType,
    Tuple,
    Var,
    VarBinding,
    assert_structural_equal,
    const,
    first_difference,
    structural_equal,
    structural_hash,
)
from regraft.testing import programs
from tests.ir.programs import MATRIX, chain, matrix, nested_branches, nested_calls


def assert_same(a: Node, b: Node, map_free_vars: bool = False) -> None:
    assert_structural_equal(a, b, map_free_vars)
    assert structural_equal(b, a, map_free_vars)
    assert structural_hash(a, map_free_vars) == structural_hash(b, map_free_vars)


def assert_different(a: Node, b: Node, map_free_vars: bool = False) -> None:
    assert not structural_equal(a, b, map_free_vars)
    assert not structural_equal(b, a, map_free_vars)


def returning(*values: object) -> Function:
    """A function of no parameters with these constants as its result."""
    return Function([], Tuple([value if isinstance(value, Constant) else const(value) for value in values]))


def test_names_of_variables_do_not_count() -> None:
    assert_same(chain(5, "x"), chain(5, "other"))
    assert_same(chain(5, "x", symbolic=True), chain(5, "other", symbolic=True))


def test_origins_do_not_count() -> None:
    x, y = Var("x", MATRIX), Var("x", MATRIX, (Origin("onnx", "MatMul_3"),))
    assert_same(Function([x], x), Function([y], y))


def test_a_different_operand_is_found_and_named() -> None:
    difference = first_difference(chain(5), chain(5, "y", odd_one=3))
    assert difference is not None
    assert difference.path == "main: block 0, binding 3 (x3): args[1]"
    assert difference.left == "Var x"
    assert difference.right == "DataflowVar y2"
    assert structural_hash(chain(5)) != structural_hash(chain(5, odd_one=3))


def test_a_failing_assertion_shows_the_place_and_both_scripts_with_the_line_marked() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_structural_equal(chain(3), chain(3, odd_one=1))
    message = str(caught.value)
    assert message.startswith("the two programs differ at main: block 0, binding 1 (x1): args[1]: Var x on the left")
    marked = [line for line in message.splitlines() if line.startswith(">")]
    assert len(marked) == 2
    assert "R.add(x0, x)" in marked[0]
    assert "R.add(x0, x0)" in marked[1]


def test_the_marked_line_is_the_one_that_differs_when_names_differ_too() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_structural_equal(chain(3), chain(3, "y", odd_one=1))
    marked = [line for line in str(caught.value).splitlines() if line.startswith(">")]
    assert len(marked) == 2
    assert "R.add(x0, x)" in marked[0]
    assert "R.add(y0, y0)" in marked[1]


def test_a_program_that_goes_on_longer_differs_in_its_number_of_bindings() -> None:
    x, y = matrix(), matrix()
    one = DataflowVar("a", MATRIX)
    short = DataflowBlock([VarBinding(one, op.add(x, x))])
    a, b = DataflowVar("a", MATRIX), DataflowVar("b", MATRIX)
    long = DataflowBlock([VarBinding(a, op.add(y, y)), VarBinding(b, op.add(a, a))])
    difference = first_difference(Function([x], SeqExpr([short], x)), Function([y], SeqExpr([long], y)))
    assert difference is not None
    assert str(difference) == "function: block 0: 1 bindings on the left, 2 bindings on the right"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.float32(0.0), np.float32(-0.0)),
        (np.float32(1.0), np.float64(1.0)),
        (np.int32(1), np.float32(1.0)),
        (np.zeros((2, 3), np.int8), np.zeros((3, 2), np.int8)),
        (np.array(True), np.array(1, dtype=np.int8)),
        (np.float32(1.0), np.nextafter(np.float32(1.0), np.float32(2.0))),
    ],
)
def test_constants_differ_in_any_bit_shape_or_dtype(left: object, right: object) -> None:
    assert_different(returning(left), returning(right))
    assert structural_hash(returning(left)) != structural_hash(returning(right))


def test_nan_is_itself_and_layout_does_not_count() -> None:
    rows = np.array([[np.nan, 1, 2], [3, 4, -0.0]], dtype=np.float32)
    assert_same(returning(rows), returning(np.asfortranarray(rows.copy())))


def test_a_dataflow_variable_is_not_a_plain_one() -> None:
    def program(make: type[Var]) -> Function:
        x, var = matrix(), make("v", MATRIX)
        return Function([x], SeqExpr([DataflowBlock([VarBinding(var, op.add(x, x))])], x))

    assert_same(program(Var), program(Var))
    assert_different(program(Var), program(DataflowVar))


def test_a_plain_block_is_not_a_dataflow_block() -> None:
    x = matrix()
    var = Var("v", MATRIX)
    binding = VarBinding(var, op.add(x, x))
    assert_different(
        Function([x], SeqExpr([DataflowBlock([binding])], var)),
        Function([x], SeqExpr([BindingBlock([binding])], var)),
    )


def test_variables_correspond_one_to_one() -> None:
    x, y, p, q = matrix("x"), matrix("y"), matrix("p"), matrix("q")
    assert_different(Function([x, y], op.add(x, y)), Function([p, q], op.add(p, p)))
    assert_different(Function([x, y], op.add(x, x)), Function([p, q], op.add(p, q)))
    assert_different(Function([x, y], op.add(x, y)), Function([p, q], op.add(q, p)))


def test_free_variables_are_themselves_unless_they_may_be_mapped() -> None:
    x, y = matrix("x"), matrix("y")
    assert_same(op.add(x, x), op.add(x, x))
    assert_different(op.add(x, x), op.add(y, y))
    assert_same(op.add(x, x), op.add(y, y), map_free_vars=True)
    assert_different(op.add(x, y), op.add(y, y), map_free_vars=True)
    assert_different(op.add(x, y), op.add(x, x), map_free_vars=True)
    assert_same(op.add(x, y), op.add(y, x), map_free_vars=True)


def test_free_variables_of_different_types_are_never_mapped() -> None:
    x, y = Var("x", TensorType((2, 3), "float32")), Var("y", TensorType((3, 2), "float32"))
    assert_different(op.add(x, x), op.add(y, y), map_free_vars=True)


def test_a_bound_variable_never_stands_for_a_free_one() -> None:
    x, free = matrix("x"), matrix("free")
    assert_different(Function([x], x), Function([x], free))
    assert_different(Function([x], op.add(x, free)), Function([free], op.add(x, free)))


def test_sizes_correspond_one_to_one_through_arithmetic() -> None:
    n, m, a, b = SymVar("n"), SymVar("m"), SymVar("a"), SymVar("b")

    def flattened(rows: SymVar, columns: SymVar, result: object) -> Function:
        x = Var("x", TensorType((rows, columns), "float32"))
        return Function([x], op.reshape(x, ShapeExpr([result])))

    assert_same(flattened(n, m, n * m), flattened(a, b, b * a))
    assert_same(flattened(n, m, m * n), flattened(b, a, b * a))
    square = Var("s", TensorType((a, a), "float32"))
    assert_different(flattened(n, m, n * m), Function([square], op.reshape(square, ShapeExpr([a * a]))))


def test_order_of_sizes_in_shapes_counts() -> None:
    n, m, a, b = SymVar("n"), SymVar("m"), SymVar("a"), SymVar("b")
    first = Var("s", ShapeType((n, m)))
    second = Var("s", ShapeType((a, b)))
    assert_same(Function([first], ShapeExpr([n, m, n + 1])), Function([second], ShapeExpr([a, b, a + 1])))
    assert_different(Function([first], ShapeExpr([n, m])), Function([second], ShapeExpr([b, a])))


def test_a_cast_defines_its_sizes_for_what_follows() -> None:
    def program(rows: SymVar, shown: SymVar | int) -> Function:
        x = Var("x", TensorType(None, "float32", 2))
        cast = Var("c", TensorType((rows, 3), "float32"))
        block = BindingBlock([MatchCast(cast, x, cast.ty)])
        return Function([x], SeqExpr([block], Tuple([cast, ShapeExpr([shown])])))

    n, k = SymVar("n"), SymVar("k")
    assert_same(program(n, n), program(k, k))
    assert_different(program(n, n), program(k, 3))
    assert_different(program(n, n), program(k, n))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"axes": (1, 0)}, {"axes": (0, 1)}),
        ({"axes": (1, 0)}, {"axes": None}),
    ],
)
def test_attributes_of_calls_count(left: dict[str, object], right: dict[str, object]) -> None:
    x = matrix()
    permute = op.permute_dims(x).op
    assert_same(Call(permute, [x], left), Call(permute, [x], dict(left)))
    assert_different(Call(permute, [x], left), Call(permute, [x], right))
    assert structural_hash(Call(permute, [x], left)) != structural_hash(Call(permute, [x], right))


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (1, True), (0.0, -0.0), ("1", 1), (None, 0), ((1, 2), (1, 2, 3)), ((1,), (1.0,)), ([1], (1,))],
)
def test_values_of_function_attributes_count_with_their_type(left: object, right: object) -> None:
    function = returning(1)
    assert_same(function.with_attr("note", left), returning(1).with_attr("note", left))
    assert_different(function.with_attr("note", left), function.with_attr("note", right))
    assert structural_hash(function.with_attr("note", left)) != structural_hash(function.with_attr("note", right))


def test_nan_in_an_attribute_is_itself() -> None:
    assert_same(returning(1).with_attr("note", float("nan")), returning(1).with_attr("note", -float("nan")))


def test_attributes_may_hold_arrays_and_functions() -> None:
    def program(last: int, name: str) -> Function:
        x = matrix(name)
        return returning(1).with_attr(
            {"weights": [np.arange(3), {"at": np.array(last)}], "like": Function([x], op.add(x, x))}
        )

    assert_same(program(7, "x"), program(7, "y"))
    assert_different(program(7, "x"), program(8, "x"))


def test_order_of_attributes_does_not_count() -> None:
    function = returning(1)
    assert_same(function.with_attr("a", 1).with_attr("b", 2), function.with_attr("b", 2).with_attr("a", 1))


def test_public_private_and_purity_count() -> None:
    function = returning(1)
    assert_different(function, function.with_attr("global_symbol", "main"))
    assert_different(function, Function(function.params, function.body, function.ret_ty, is_pure=False))


def test_return_types_count() -> None:
    x = matrix()
    var = Var("v", TensorType(None, "float32"))
    body = SeqExpr([BindingBlock([VarBinding(var, op.add(x, x))])], var)
    promising = Function([x], body, TensorType(None, "float32", 2))
    difference = first_difference(promising, Function([x], body))
    assert difference is not None
    assert difference.path == "function: ret_ty"


def test_modules_compare_functions_by_name_in_any_order() -> None:
    one, two = returning(1), returning(2)
    assert_same(IRModule({"f": one, "g": two}), IRModule({"g": returning(2), "f": returning(1)}))
    difference = first_difference(IRModule({"f": one}), IRModule({"f": one, "g": two}))
    assert difference is not None
    assert str(difference) == "module: none of that name on the left, a function 'g' on the right"
    assert_different(IRModule({"f": one}), IRModule({"f": one}, {"version": 1}))


def test_called_functions_are_compared_by_name() -> None:
    x = matrix()
    ty = Function([x], x).ty
    assert_same(Call(GlobalVar("f", ty), [x]), Call(GlobalVar("f", ty), [x]))
    assert_different(Call(GlobalVar("f", ty), [x]), Call(GlobalVar("g", ty), [x]))


def test_one_function_under_two_names_equals_two_copies() -> None:
    def function() -> Function:
        x = Var("x", TensorType((SymVar("n"), 3), "float32"))
        return Function([x], op.add(x, x))

    shared = function()
    assert_same(IRModule({"f": shared, "g": shared}), IRModule({"f": function(), "g": function()}))


def test_sharing_inside_an_expression_does_not_count() -> None:
    x = matrix()
    shared = op.add(x, x)
    assert_same(op.multiply(shared, shared), op.multiply(op.add(x, x), op.add(x, x)))


def test_leaves_compare_by_value_and_kind() -> None:
    leaves = [
        PrimValue(1), PrimValue(1.0), PrimValue(True), PrimValue(1, "int32"), StringImm("f"), ExternFunc("f"),
        GlobalVar("f"), ShapeExpr([1]), const(1),
    ]  # fmt: skip
    for i, left in enumerate(leaves):
        for j, right in enumerate(leaves):
            assert structural_equal(left, right) == (i == j)
    assert_same(PrimValue(1.5), PrimValue(1.5))
    assert_same(ExternFunc("f"), ExternFunc("f"))


def test_types_compare_too() -> None:
    n, m = SymVar("n"), SymVar("m")
    assert_same(TensorType((n, 2), "int8"), TensorType((n, 2), "int8"))
    assert_different(TensorType((n, 2), "int8"), TensorType((m, 2), "int8"))
    assert_same(TensorType((n, 2), "int8"), TensorType((m, 2), "int8"), map_free_vars=True)


def test_a_long_chain_is_compared_without_recursion() -> None:
    left, right = chain(100_000), chain(100_000, "y", odd_one=99_999)
    difference = first_difference(left, right)
    assert difference is not None
    assert difference.path == "main: block 0, binding 99999 (x99999): args[1]"
    assert structural_hash(left) != structural_hash(right)


def test_deep_nesting_is_compared_without_recursion() -> None:
    assert_same(nested_calls(20_000), nested_calls(20_000))
    assert_different(nested_calls(20_000), nested_calls(20_001))
    assert_same(nested_branches(2_000), nested_branches(2_000))
    assert_different(nested_branches(2_000), nested_branches(2_001))


def test_places_inside_branches_are_named() -> None:
    def program(value: float) -> Function:
        x, condition = matrix(), Var("c", TensorType((), "bool"))
        builder = BlockBuilder()
        with builder.function("main", [x, condition]):
            builder.begin_scope()
            builder.emit(op.add(x, x), "inner")
            inner = builder.emit(op.add(x, const(value)), "inner")
            branch = builder.end_scope(inner)
            builder.emit_func_output(builder.emit(If(condition, x, branch), "v"))
        return builder.get()["main"]

    difference = first_difference(program(1.0), program(2.0))
    assert difference is not None
    assert difference.path == ("main: block 0, binding 0 (v), false_branch, block 0, binding 1 (inner1): args[1]")
    assert difference.left == "constant float32[] [1.]"


def test_attrs_compare_as_values() -> None:
    assert Attrs({"a": 1}) == Attrs({"a": 1})
    assert Attrs({"a": 1}) != Attrs({"a": True})


@given(programs(20), programs(20))
def test_programs_with_one_hash_are_equal_and_equal_ones_have_one_hash(left: IRModule, right: IRModule) -> None:
    assert structural_equal(left, right) == (structural_hash(left) == structural_hash(right))
