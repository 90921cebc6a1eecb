"""Each pattern by itself: what it matches, what it does not, how it is written, and what is wrong with a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from regraft import op
from regraft.analysis import get_var2val
from regraft.dpl import *
from regraft.dpl import (
    CallPattern,
    DFPattern,
    Extent,
    ExternFuncPattern,
    FunctionPattern,
    PatternContext,
    PatternError,
    TuplePattern,
)
from regraft.dpl.match import compiled
from regraft.ir import (
    BlockBuilder,
    Call,
    Constant,
    DataflowVar,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    IRError,
    MatchCast,
    ShapeExpr,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
    const,
)
from regraft.script import relax as R

MATRIX = TensorType((2, 3), "float32")


def tensor(name: str = "x", shape: tuple[object, ...] = (2, 3), dtype: str = "float32") -> Var:
    return Var(name, TensorType(shape, dtype))  # type: ignore[arg-type]


def program(params: list[Var], write: Callable[[BlockBuilder], Expr]) -> tuple[Expr, dict[Var, Expr]]:
    """The result of a one-block function, and what its variables are bound to."""
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(write(builder))
        builder.emit_func_output(result)
    function = builder.get()["main"]
    return function.body.body, get_var2val(function)


def matches(pattern: DFPattern, result: tuple[Expr, dict[Var, Expr]]) -> bool:
    return pattern.match(*result)


# --- leaves


def test_a_wildcard_matches_every_kind_of_value() -> None:
    x = tensor()
    for expr in (x, const(1.0), ShapeExpr([2]), Tuple([x, x]), op.exp(x), GlobalVar("f"), ExternFunc("g")):
        assert wildcard().match(expr)


def test_a_variable_pattern_asks_for_the_name_if_one_is_given() -> None:
    x, local = tensor(), DataflowVar("lv", MATRIX)
    assert is_var().match(x)
    assert is_var("x").match(x)
    assert is_var().match(local)
    assert not is_var("y").match(x)
    assert not is_var().match(const(1.0))


def test_a_dataflow_variable_pattern_wants_a_variable_of_a_dataflow_block() -> None:
    local = DataflowVar("lv", MATRIX)
    assert is_dfv().match(local)
    assert is_dfv("lv").match(local)
    assert not is_dfv("other").match(local)
    assert not is_dfv().match(tensor())


def test_a_global_variable_pattern_asks_for_the_name_if_one_is_given() -> None:
    assert is_gv().match(GlobalVar("f"))
    assert is_gv("f").match(GlobalVar("f"))
    assert not is_gv("f").match(GlobalVar("g"))
    assert not is_gv("x").match(tensor("x"))
    call = Call(GlobalVar("f"), [tensor()])
    assert is_gv("f")(wildcard()).match(call)
    assert not is_gv("f")().match(call)


def test_an_outside_function_pattern_asks_for_the_symbol_if_one_is_given() -> None:
    assert ExternFuncPattern().match(ExternFunc("my.func"))
    assert ExternFuncPattern("my.func").match(ExternFunc("my.func"))
    assert not ExternFuncPattern("other").match(ExternFunc("my.func"))
    assert not ExternFuncPattern().match(GlobalVar("my.func"))


def test_a_constant_pattern_matches_constants_and_what_is_bound_to_one() -> None:
    assert is_const().match(const(1.0))
    assert not is_const().match(tensor())
    assert matches(is_op("relax.exp")(is_const()), program([], lambda b: op.exp(b.emit(const(2.0)))))


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        (const(1.0), const(1.000005)),
        (const(0.0), const(-0.0)),
        (const(1.0), const(1.0, "float64")),
        (const(1.0), const([1.0])),
        (const(1, "int32"), const(1, "int64")),
    ],
)
def test_a_constant_expression_matches_only_the_same_bits_dtype_and_shape(wanted: Constant, other: Constant) -> None:
    assert is_expr(wanted).match(const(wanted.data))
    assert not is_expr(wanted).match(other)


def test_a_nan_matches_itself() -> None:
    assert is_expr(const(float("nan"))).match(const(float("nan")))


def test_an_expression_pattern_matches_calls_by_structure_and_variables_by_identity() -> None:
    x, same_name = tensor("x"), tensor("x")
    assert is_expr(x).match(x)
    assert not is_expr(x).match(same_name)
    assert is_expr(op.exp(x)).match(op.exp(x))
    assert not is_expr(op.exp(x)).match(op.exp(same_name))
    assert matches(is_op("relax.sin")(is_expr(op.exp(x))), program([x], lambda b: op.sin(b.emit(op.exp(x)))))


def test_an_unknown_operator_is_named_with_near_names() -> None:
    with pytest.raises(IRError, match=re.escape("relax.matmul")):
        is_op("relax.matmull")


# --- calls


def test_an_operator_pattern_matches_the_operator_and_its_calls_when_called() -> None:
    x = tensor()
    add = is_op("relax.add")
    found = add(wildcard(), wildcard()).extract_matched_expr(op.add(x, x))
    assert found is not None
    call = op.add(x, x)
    assert add.match(call.op)  # type: ignore[attr-defined]
    assert not add.match(call)


def test_arguments_are_matched_in_order_unless_the_operator_commutes() -> None:
    x = tensor()
    one = const(1.0)
    for name, function, commutes in (
        ("relax.add", op.add, True),
        ("relax.multiply", op.multiply, True),
        ("relax.maximum", op.maximum, True),
        ("relax.equal", op.equal, True),
        ("relax.subtract", op.subtract, False),
        ("relax.divide", op.divide, False),
        ("relax.less", op.less, False),
    ):
        pattern = is_op(name)(wildcard(), is_const())
        assert pattern.match(function(x, one))
        assert pattern.match(function(one, x)) == commutes, name


def test_a_commuted_match_gives_each_pattern_the_argument_that_it_stands_for() -> None:
    x, one = tensor(), const(1.0)
    value, constant = wildcard(), is_const()
    found = is_op("relax.add")(value, constant).extract_matched_expr(op.add(one, x))
    assert found is not None
    assert (found[value], found[constant]) == (x, one)


def test_commuting_does_not_depend_on_how_the_arguments_are_listed() -> None:
    x, one = tensor(), const(1.0)
    add = is_op("relax.add")
    assert add(is_const(), varg_default_wildcard=True).match(op.add(x, one))
    assert add(is_const(), repeat(wildcard())).match(op.add(x, one))
    assert (is_op("relax.subtract") | add)(is_const(), wildcard()).match(op.add(x, one))
    assert not (is_op("relax.subtract") | add)(is_const(), wildcard()).match(op.subtract(x, one))


def test_a_call_pattern_wants_as_many_arguments_as_it_lists() -> None:
    x = tensor()
    call = op.add(x, x)
    add = is_op("relax.add")
    assert not add(wildcard()).match(call)
    assert not add(wildcard(), wildcard(), wildcard()).match(call)
    assert add(wildcard(), varg_default_wildcard=True).match(call)
    assert add(varg_default_wildcard=True).match(call)
    assert not add(wildcard(), wildcard(), wildcard(), varg_default_wildcard=True).match(call)


def test_calls_of_outside_functions_are_matched_by_name_and_arguments() -> None:
    x, y = tensor(), tensor("y")
    call = R.call_dps_packed("my.func", [x, y], MATRIX)
    assert is_call_dps_packed("my.func").match(call)
    assert is_call_dps_packed("my.func", [wildcard(), is_var("y")]).match(call)
    assert is_call_dps_packed("my.func", is_tuple([wildcard(), wildcard()])).match(call)
    assert not is_call_dps_packed("my.func", [wildcard()]).match(call)
    assert not is_call_dps_packed("other").match(call)


def test_packed_calls_are_matched_by_name_and_arguments() -> None:
    x, y = tensor(), tensor("y")
    call = R.call_packed("my.func", x, y, sinfo_args=MATRIX)
    assert is_call_packed("my.func").match(call)
    assert is_call_packed("my.func", [is_var("x"), is_var("y")]).match(call)
    assert not is_call_packed("my.func", [is_var("y"), is_var("x")]).match(call)
    assert not is_call_packed("my.func", [wildcard()]).match(call)
    assert not is_call_packed("other").match(call)


def test_without_definitions_a_variable_is_opaque() -> None:
    x = tensor()
    pattern = is_op("relax.sin")(is_op("relax.exp")(wildcard()))
    result, definitions = program([x], lambda b: op.sin(b.emit(op.exp(x))))
    assert pattern.match(result, definitions)
    assert not pattern.match(definitions[result])  # type: ignore[index]
    assert pattern.match(op.sin(op.exp(x)))


def test_aliases_are_looked_through() -> None:
    x = tensor()
    pattern = is_op("relax.sin")(is_op("relax.exp")(is_var("x")))
    assert matches(pattern, program([x], lambda b: op.sin(b.emit(b.emit(op.exp(b.emit(x)))))))


# --- tuples


def test_a_tuple_pattern_matches_fields_in_order() -> None:
    x, y = tensor("x"), tensor("y")
    assert is_tuple([is_var("x"), is_var("y")]).match(Tuple([x, y]))
    assert not is_tuple([is_var("y"), is_var("x")]).match(Tuple([x, y]))
    assert not is_tuple([wildcard()]).match(Tuple([x, y]))
    assert is_tuple([]).match(Tuple([]))
    assert not is_tuple([wildcard()]).match(x)


def test_an_unordered_tuple_pattern_matches_fields_in_any_order() -> None:
    x, y = tensor("x"), tensor("y")
    assert is_tuple([is_var("y"), is_var("x")], unordered=True).match(Tuple([x, y]))
    assert not is_tuple([is_var("x"), is_var("x")], unordered=True).match(Tuple([x, y]))
    assert not is_tuple([wildcard()], unordered=True).match(Tuple([x, y]))


def test_trap_22_commuted_arguments_are_tried_again_when_a_later_part_fails() -> None:
    a, b = tensor("a"), tensor("b")
    p, q = wildcard(), wildcard()
    found = is_op("relax.subtract")(is_op("relax.add")(p, q), p).extract_matched_expr(op.subtract(op.add(a, b), b))
    assert found is not None
    assert (found[p], found[q]) == (b, a)


def test_trap_22_fields_of_an_unordered_tuple_are_tried_again_when_a_later_one_fails() -> None:
    x, y = tensor("x"), tensor("y")
    value = Tuple([op.sin(x), op.cos(y)])
    sine, anything = is_op("relax.sin")(wildcard()), wildcard()
    for fields in ([anything, sine], [sine, anything]):
        found = is_tuple(fields, unordered=True).extract_matched_expr(value)
        assert found is not None
        assert found[anything] is value.fields[1]


def test_a_projection_pattern_asks_for_the_index_if_one_is_given() -> None:
    x = tensor("x", (2, 6))
    result = program([x], lambda b: b.emit(op.split(x, 2, axis=1))[1])
    split = is_op("relax.split")(wildcard())
    assert matches(is_tuple_get_item(split, 1), result)
    assert matches(is_tuple_get_item(split), result)
    assert not matches(is_tuple_get_item(split, 0), result)
    assert not matches(is_tuple_get_item(is_op("relax.exp")(wildcard()), 1), result)


def test_a_projection_written_on_a_tuple_pattern_is_one_of_its_fields() -> None:
    x, y = tensor("x"), tensor("y")
    pair = is_tuple([is_var("x"), is_var("y")])
    assert isinstance(pair, TuplePattern)
    assert pair[1].index == 1
    assert pair[-1].index == 1
    assert pair[None].index is None
    assert len(pair) == 2
    assert pair[0].match(TupleGetItem(Tuple([x, y]), 0))
    assert not pair[0].match(TupleGetItem(Tuple([x, y]), 1))
    with pytest.raises(IndexError, match="index 2 is out of range for a tuple pattern of 2 fields"):
        pair[2]


def test_a_field_of_a_tuple_that_is_written_out_is_the_field_itself() -> None:
    x, y = tensor("x"), tensor("y")
    assert matches(is_op("relax.exp")(is_var("y")), program([x, y], lambda b: op.exp(b.emit(b.emit(Tuple([x, y]))[1]))))


# --- combinations and conditions


def test_alternatives_are_tried_in_order_and_the_match_says_which_held() -> None:
    x = tensor()
    exponential, sine, anything = is_op("relax.exp")(wildcard()), is_op("relax.sin")(wildcard()), wildcard()
    either = exponential | sine
    found = either.extract_matched_expr(op.sin(x))
    assert found is not None
    assert exponential not in found
    assert found[either] is found[sine]
    first = (anything | sine).extract_matched_expr(op.sin(x))
    assert first is not None
    assert sine not in first
    assert not either.match(op.cos(x))


def test_a_later_failure_goes_back_to_the_next_alternative() -> None:
    a, b = tensor("a"), tensor("b")
    p, q = wildcard(), wildcard()
    pattern = is_op("relax.subtract")(is_op("relax.divide")(p, q) | is_op("relax.divide")(q, p), p)
    found = pattern.extract_matched_expr(op.subtract(op.divide(a, b), b))
    assert found is not None
    assert (found[p], found[q]) == (b, a)


def test_both_sides_of_an_and_must_match_one_value() -> None:
    x = tensor()
    both = is_op("relax.exp")(wildcard()) & has_dtype("float32")
    assert both.match(op.exp(x))
    assert not both.match(op.sin(x))
    assert not (is_op("relax.exp")(wildcard()) & has_dtype("int32")).match(op.exp(x))


def test_a_rejection_matches_what_its_pattern_does_not_and_binds_nothing_inside() -> None:
    x = tensor()
    inner = wildcard()
    rejection = ~is_op("relax.exp")(inner)
    assert not rejection.match(op.exp(x))
    found = rejection.extract_matched_expr(op.sin(x))
    assert found is not None
    assert set(found) == {rejection}
    assert reject(is_const()).match(x)
    assert (~~is_const()).match(const(1.0))


def test_a_rejection_of_a_value_that_stands_elsewhere_does_not_depend_on_which_comes_first() -> None:
    x, y = tensor("x"), tensor("y")
    for function, name in ((op.subtract, "relax.subtract"), (op.add, "relax.add")):
        for expr, differ in ((function(x, y), True), (function(x, x), False)):
            value = wildcard()
            assert is_op(name)(value, ~value).match(expr) == differ
            assert is_op(name)(~value, value).match(expr) == differ


def test_a_rejection_is_decided_after_the_sizes_that_it_mentions() -> None:
    n = SymVar("n")
    first = wildcard().has_shape([n, 3])
    other = wildcard() & ~wildcard().has_shape([3, n])
    pattern = is_op("relax.matmul")(other, first)
    assert pattern.match(op.matmul(tensor("a", (4, 3)), tensor("b", (3, 3))))
    assert not pattern.match(op.matmul(tensor("a", (3, 3)), tensor("b", (3, 3))))


def test_attributes_are_compared_by_type_and_value() -> None:
    x = tensor()
    softmax = op.nn.softmax(x, axis=1)
    pattern = is_op("relax.nn.softmax")(wildcard())
    assert pattern.has_attr({"axis": 1}).match(softmax)
    assert not pattern.has_attr({"axis": -1}).match(softmax)
    assert not pattern.has_attr({"axis": 1.0}).match(softmax)
    assert not pattern.has_attr({"axis": 1, "unknown": 2}).match(softmax)
    assert has_attr({"axis": 1}).match(softmax)
    assert has_attr({"axes": [1, 0]}).match(op.permute_dims(x, [1, 0]))
    assert not has_attr({"axis": 1}).match(x)


def test_attributes_of_a_bound_call_are_seen_through_any_pattern() -> None:
    x = tensor()
    result = program([x], lambda b: op.exp(b.emit(op.nn.softmax(x, axis=1))))
    for inner in (wildcard(), wildcard() & is_op("relax.nn.softmax")(wildcard())):
        assert matches(is_op("relax.exp")(inner.has_attr({"axis": 1})), result)
        assert not matches(is_op("relax.exp")(inner.has_attr({"axis": 0})), result)


def test_attributes_of_a_function_are_seen() -> None:
    x = tensor()
    builder = BlockBuilder()
    with builder.function("f", [x], attrs={"Composite": "my.kind"}):
        builder.emit_func_output(builder.emit(op.exp(x)))
    function = builder.get()["f"]
    assert has_attr({"Composite": "my.kind"}).match(function)
    assert not has_attr({"Composite": "other"}).match(function)


def test_a_dtype_condition_wants_a_tensor_of_that_dtype() -> None:
    assert has_dtype("float32").match(tensor())
    assert wildcard().has_dtype("float32").match(tensor())
    assert not has_dtype("float16").match(tensor())
    assert not has_dtype("float32").match(Var("t", TensorType(None, None)))
    assert not has_dtype("int64").match(ShapeExpr([2]))
    assert has_dtype("float32", is_op("relax.exp")(wildcard())).match(op.exp(tensor()))


def test_a_shape_condition_holds_only_for_certain() -> None:
    n = SymVar("n")
    assert wildcard().has_shape([2, 3]).match(tensor())
    assert not wildcard().has_shape([2, 4]).match(tensor())
    assert not wildcard().has_shape([2]).match(tensor())
    assert not wildcard().has_shape([2, 3]).match(tensor(shape=(n, 3)))
    assert not wildcard().has_shape([2, 3]).match(Var("t", TensorType(None, "float32", 2)))
    assert not wildcard().has_shape([2, 3]).match(ShapeExpr([2, 3]))


def test_size_variables_of_a_condition_are_bound_once_for_the_whole_match() -> None:
    n = SymVar("n")
    square = wildcard().has_shape([n, n])
    found = square.extract_matched_expr(tensor(shape=(5, 5)))
    assert found is not None
    assert found[n] == 5  # type: ignore[index]
    assert not square.match(tensor(shape=(5, 6)))
    m = SymVar("m")
    product = is_op("relax.matmul")(wildcard().has_shape([m, 3]), wildcard().has_shape([3, m]))
    assert product.match(op.matmul(tensor(shape=(4, 3)), tensor(shape=(3, 4))))
    assert not product.match(op.matmul(tensor(shape=(4, 3)), tensor(shape=(3, 5))))


def test_a_size_variable_may_stand_for_a_symbolic_size_of_the_program() -> None:
    n, size = SymVar("n"), SymVar("batch")
    found = wildcard().has_shape([n, 3]).extract_matched_expr(tensor(shape=(size, 3)))
    assert found is not None
    assert found[n] is size  # type: ignore[index]


def test_a_type_condition_holds_only_for_certain_and_binds_sizes() -> None:
    n = SymVar("n")
    pattern = wildcard().has_ty(TensorType((n, 3), "float32"))
    found = pattern.extract_matched_expr(tensor())
    assert found is not None
    assert found[n] == 2  # type: ignore[index]
    assert wildcard().has_struct_info(TensorType(None, "float32", 2)).match(tensor())
    assert not pattern.match(tensor(dtype="float16"))
    assert not pattern.match(Var("t", TensorType(None, "float32", 2)))


def test_a_size_bound_in_an_alternative_that_fails_is_free_again() -> None:
    n = SymVar("n")
    a, b = tensor("a", (4, 3)), tensor("b", (3, 5))
    left = (wildcard().has_shape([n, 3]) & is_const()) | wildcard()
    found = is_op("relax.matmul")(left, wildcard().has_shape([3, n])).extract_matched_expr(op.matmul(a, b))
    assert found is not None
    assert found[n] == 5  # type: ignore[index]


def test_a_shape_literal_is_matched_by_its_sizes() -> None:
    x = tensor()
    n = SymVar("n")
    reshape = op.reshape(x, (3, 2))
    assert is_op("relax.reshape")(wildcard(), is_shape([3, 2])).match(reshape)
    assert not is_op("relax.reshape")(wildcard(), is_shape([2, 3])).match(reshape)
    assert not is_op("relax.reshape")(wildcard(), is_shape([3, 2, 1])).match(reshape)
    found = is_op("relax.reshape")(wildcard(), is_shape([n, 2])).extract_matched_expr(reshape)
    assert found is not None
    assert found[n] == 3  # type: ignore[index]
    assert not is_shape([2, 3]).match(x)
    assert (len(is_shape([3, 2])), is_shape([3, 2])[0]) == (2, 3)


def local_function(first: Var, second: Var) -> Function:
    builder = BlockBuilder()
    with builder.function("f", [first, second]):
        with builder.dataflow():
            total = builder.emit(op.add(first, second))
            result = builder.emit_output(op.exp(total))
        builder.emit_func_output(result)
    return builder.get()["f"]


def test_a_function_pattern_matches_parameters_and_result() -> None:
    a, b = tensor("a"), tensor("b")
    function = local_function(a, b)
    p, q = is_var("a"), wildcard()
    body = is_op("relax.exp")(is_op("relax.add")(p, q))
    found = FunctionPattern([p, q], body).extract_matched_expr(function)
    assert found is not None
    assert (found[p], found[q]) == (a, b)
    assert FunctionPattern([q, p], is_op("relax.exp")(is_op("relax.add")(p, q))).match(function) is False
    assert not FunctionPattern([p], body).match(function)
    assert not FunctionPattern([p, q], is_op("relax.sin")(wildcard())).match(function)
    assert not FunctionPattern([p, q], body).match(a)


# --- matches


def test_a_match_has_calls_and_tuples_as_expressions_and_wildcards_as_they_stand() -> None:
    x, y = tensor("x"), tensor("y")
    result, definitions = program([x, y], lambda b: op.exp(b.emit(op.add(b.emit(op.sin(x)), y))))
    operand, other = wildcard(), wildcard()
    add = is_op("relax.add")
    call = add(operand, other)
    pattern = is_op("relax.exp")(call)
    found = pattern.extract_matched_expr(result, definitions)
    assert found is not None
    assert found[pattern] is definitions[result]  # type: ignore[index]
    assert found[call].op.name == "relax.add"
    assert found[add] is found[call].op
    assert isinstance(found[operand], Var)
    assert definitions[found[operand]].op.name == "relax.sin"  # type: ignore[attr-defined]
    assert found[other] is y
    assert is_op("relax.cos")(wildcard()).extract_matched_expr(result, definitions) is None


def test_one_pattern_in_two_places_stands_for_one_value() -> None:
    x, y = tensor("x"), tensor("y")
    value = wildcard()
    double = is_op("relax.add")(value, value)
    assert double.match(op.add(x, x))
    assert not double.match(op.add(x, y))
    assert is_op("relax.add")(value, value.dup()).match(op.add(x, y))
    assert double.match(op.add(const(1.0), const(1.0)))
    assert not double.match(op.add(const(1.0), const(2.0)))


def test_a_duplicate_keeps_what_stands_in_several_places_together() -> None:
    x, y = tensor("x"), tensor("y")
    value = wildcard()
    copy = is_op("relax.add")(value, value).dup()
    assert isinstance(copy, CallPattern)
    assert copy.args[0] is copy.args[1]
    assert copy.args[0] is not value
    assert copy.match(op.add(x, x))
    assert not copy.match(op.add(x, y))


def every_pattern() -> list[tuple[DFPattern, str]]:
    n = SymVar("n")
    star = wildcard()
    return [
        (wildcard(), "*"),
        (is_const(), "const"),
        (is_var("x"), "var(x)"),
        (is_dfv(), "dfv()"),
        (is_gv("f"), "gv(f)"),
        (ExternFuncPattern("my.func"), "extern(my.func)"),
        (is_op("relax.nn.relu"), "nn.relu"),
        (is_expr(const(1.0)), 'is_expr(R.const(1.0, "float32"))'),
        (is_op("relax.add")(star, is_const()), "add(*, const)"),
        (is_op("relax.add")(star, varg_default_wildcard=True), "add(*, ...)"),
        (is_tuple([star]), "(*,)"),
        (is_tuple([star, is_const()]), "(*, const)"),
        (is_tuple([star, is_const()], unordered=True), "unordered(*, const)"),
        (is_tuple_get_item(star, 1), "*[1]"),
        (is_tuple_get_item(star), "*[any]"),
        (star | is_const(), "(* | const)"),
        (star & is_const(), "(* & const)"),
        (~is_const(), "~const"),
        (star.has_attr({"axis": 1}), "*{axis=1}"),
        (star.has_dtype("float32"), "*: float32"),
        (star.has_shape([2, n]), "*: (2, n)"),
        (star.has_ty(TensorType((2,), "float32")), '*: R.Tensor((2,), dtype="float32")'),
        (is_shape([2, n]), "shape(2, n)"),
        (FunctionPattern([star], is_const()), "function(*) -> const"),
        (repeat(star, min=2, max=4), "repeat(*, 2..4)"),
        (repeat(star), "repeat(*, 1..)"),
    ]


def test_every_pattern_has_a_text_and_a_duplicate_of_its_own_kind() -> None:
    kinds = set()
    for pattern, text in every_pattern():
        assert repr(pattern) == text
        copy = pattern.dup()
        assert copy is not pattern
        assert type(copy) is type(pattern)
        assert repr(copy) == text
        kinds.add(type(pattern))
    leaves = {kind for kind in all_kinds(DFPattern) if not kind.__subclasses__()}
    assert leaves <= kinds


def all_kinds(kind: type) -> set[type]:
    return {kind}.union(*(all_kinds(below) for below in kind.__subclasses__()))


def test_a_text_does_not_grow_with_how_often_its_parts_stand() -> None:
    pattern: DFPattern = wildcard()
    for _ in range(60):
        pattern = is_op("relax.add")(pattern, pattern)
    assert len(repr(pattern)) < 1000


def test_deep_patterns_match_and_duplicate_without_recursion() -> None:
    x = tensor()
    depth = 3000

    def chain(b: BlockBuilder) -> Expr:
        value: Expr = x
        for _ in range(depth):
            value = b.emit(op.exp(value))
        return value

    result = program([x], chain)
    inner = is_var("x")
    pattern: DFPattern = inner
    for _ in range(depth):
        pattern = is_op("relax.exp")(pattern)
    assert matches(pattern, result)
    assert matches(pattern.dup(), result)
    assert not matches(is_op("relax.exp")(pattern), result)
    assert repr(pattern).startswith("exp(exp(")


def test_many_alternatives_match_without_recursion() -> None:
    callee: DFPattern = is_op("relax.exp")
    for _ in range(1200):
        callee = callee | is_op("relax.sin")
    assert callee(wildcard()).match(op.exp(tensor()))
    assert compiled(callee(wildcard())).ops == (op.exp(tensor()).op, op.sin(tensor()).op)  # type: ignore[attr-defined]


# --- repeats in rows


def concat_of(count: int, other: int = 0) -> tuple[Expr, dict[Var, Expr]]:
    """The concat of ``count`` permuted values and then ``other`` plain ones."""
    params = [tensor(f"x{i}") for i in range(count)] + [tensor(f"y{i}", (3, 2)) for i in range(other)]
    return program(
        params,
        lambda b: op.concat([*(b.emit(op.permute_dims(x)) for x in params[:count]), *params[count:]]),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 12, 13, 200, 10_000])
def test_a_repeat_takes_any_number_of_fields_and_gives_lists_in_order(count: int) -> None:
    result, definitions = concat_of(count)
    value = wildcard()
    permuted = is_op("relax.permute_dims")(value)
    run = repeat(permuted)
    found = is_op("relax.concat")(is_tuple([run])).extract_matched_expr(result, definitions)
    assert found is not None
    assert [var.name_hint for var in found[value]] == [f"x{i}" for i in range(count)]
    assert [definitions[var] for var in found[run]] == found[permuted]


def test_a_repeat_matches_only_if_all_of_its_elements_do() -> None:
    run = repeat(is_op("relax.permute_dims")(wildcard()))
    result = concat_of(3, other=1)
    assert not matches(is_op("relax.concat")(is_tuple([run])), result)
    assert matches(is_op("relax.concat")(is_tuple([run, wildcard()])), result)
    assert matches(is_op("relax.concat")(is_tuple([run, repeat(is_var())])), result)


def test_a_repeat_keeps_within_its_bounds() -> None:
    value = Tuple([tensor("a"), tensor("b"), tensor("c")])
    assert is_tuple([repeat(wildcard(), min=3, max=3)]).match(value)
    assert not is_tuple([repeat(wildcard(), min=4)]).match(value)
    assert not is_tuple([repeat(wildcard(), max=2)]).match(value)
    assert not is_tuple([repeat(wildcard())]).match(Tuple([]))
    assert is_tuple([repeat(wildcard(), min=0)]).match(Tuple([]))
    assert not is_tuple([repeat(wildcard(), max=2), is_var("d")]).match(value)
    assert is_tuple([repeat(wildcard(), max=2), is_var("c")]).match(value)


def test_a_run_is_as_long_as_the_rest_allows() -> None:
    a, b, c = tensor("a"), tensor("b"), tensor("c")
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(first), repeat(second)]).extract_matched_expr(Tuple([a, b, c]))
    assert found is not None
    assert (found[first], found[second]) == ([a, b], [c])


def test_a_shared_pattern_is_one_value_in_all_elements() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    left, right = wildcard(), wildcard()
    pattern = is_tuple([repeat(is_op("relax.subtract")(left, right), shared=[left])])
    found = pattern.extract_matched_expr(Tuple([op.subtract(x, y), op.subtract(x, z)]))
    assert found is not None
    assert found[left] is x
    assert found[right] == [y, z]
    assert not pattern.match(Tuple([op.subtract(x, y), op.subtract(z, y)]))


def test_a_pattern_that_also_stands_outside_of_the_repeat_is_shared() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    left = wildcard()
    for fields in ([repeat(is_op("relax.subtract")(left, wildcard())), left],):
        assert is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(x, z), x]))
        assert not is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(x, z), y]))
        assert not is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(y, z), x]))


def test_elements_of_a_run_are_tried_again_when_a_shared_value_differs() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    common, rest = wildcard(), wildcard()
    pattern = is_tuple([repeat(is_op("relax.add")(common, rest), shared=[common])])
    found = pattern.extract_matched_expr(Tuple([op.add(x, y), op.add(z, y), op.add(y, x)]))
    assert found is not None
    assert found[common] is y
    assert found[rest] == [x, z, x]


def test_each_way_of_an_element_is_found_with_its_own_values() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    outer, p, q = wildcard(), wildcard(), wildcard()
    body = is_op("relax.subtract")(outer, is_op("relax.add")(p, q))
    value = Tuple([op.subtract(x, op.add(y, z)), op.subtract(y, op.add(z, x))])
    found = [(m[outer], m[p], m[q]) for m in compiled(is_tuple([repeat(body)])).matches({}, value)]
    assert found == [
        ([x, y], [y, z], [z, x]),
        ([x, y], [y, x], [z, z]),
        ([x, y], [z, z], [y, x]),
        ([x, y], [z, x], [y, z]),
    ]


def test_elements_that_took_another_alternative_have_none_in_the_list() -> None:
    x, y = tensor("x"), tensor("y")
    sine = is_op("relax.sin")(wildcard())
    value = Tuple([x, op.sin(y)])
    found = is_tuple([repeat(is_var() | sine)]).extract_matched_expr(value)
    assert found is not None
    assert found[sine] == [None, value.fields[1]]


def test_an_operator_may_stand_in_two_repeats_but_other_patterns_may_not() -> None:
    x, y = tensor("x"), tensor("y")
    exponential = is_op("relax.exp")
    value = Tuple([op.exp(x), const(1.0), op.exp(y), op.exp(x)])
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(exponential(first)), is_const(), repeat(exponential(second))]).extract_matched_expr(value)
    assert found is not None
    assert (found[first], found[second]) == ([x], [y, x])
    assert found[exponential].name == "relax.exp"
    with pytest.raises(PatternError, match=r"stands in two repeats.*give the second a pattern of its own"):
        is_tuple([repeat(exponential(first)), is_const(), repeat(first)]).match(value)


def test_repeats_of_one_extent_have_one_length() -> None:
    a, b = tensor("a"), tensor("b")
    extent = Extent("n")

    def rows(first: int, second: int) -> Tuple:
        return Tuple([Tuple([op.exp(a)] * first), Tuple([op.sin(b)] * second)])

    def pattern(one: Extent | None, two: Extent | None) -> DFPattern:
        left = repeat(is_op("relax.exp")(wildcard()), extent=one)
        right = repeat(is_op("relax.sin")(wildcard()), extent=two)
        return is_tuple([is_tuple([left]), is_tuple([right])])

    assert pattern(extent, extent).match(rows(3, 3))
    assert not pattern(extent, extent).match(rows(3, 2))
    assert pattern(Extent(), Extent()).match(rows(3, 2))
    assert pattern(None, None).match(rows(3, 2))


def test_an_extent_shares_out_one_row_evenly_and_is_new_in_each_match() -> None:
    extent = Extent()
    first, second = wildcard(), wildcard()
    pattern = is_tuple([repeat(first, extent=extent), repeat(second, extent=extent)])
    for half in (1, 3):
        found = pattern.extract_matched_expr(Tuple([tensor(f"x{i}") for i in range(2 * half)]))
        assert found is not None
        assert (len(found[first]), len(found[second])) == (half, half)
    assert not pattern.match(Tuple([tensor("a"), tensor("b"), tensor("c")]))


def test_two_long_runs_of_different_operators_are_told_apart_at_once() -> None:
    count = 5000
    value = Tuple([*(op.exp(tensor(f"x{i}")) for i in range(count)), *(op.sin(tensor(f"y{i}")) for i in range(count))])
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(is_op("relax.exp")(first)), repeat(is_op("relax.sin")(second))]).extract_matched_expr(
        value
    )
    assert found is not None
    assert (len(found[first]), len(found[second])) == (count, count)


def test_a_repeat_stands_among_the_arguments_of_a_call() -> None:
    x, y = tensor("x"), tensor("y")
    rest = wildcard()
    found = is_call_packed("my.func", [is_var("x"), repeat(rest)]).extract_matched_expr(
        R.call_packed("my.func", x, y, y, sinfo_args=MATRIX)
    )
    assert found is not None
    assert found[rest] == [y, y]


# --- misuse


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: is_expr(1.0), "is_expr needs an expression, got 1.0"),
        (lambda: is_tuple(wildcard()), "is_tuple needs a sequence of patterns, got *"),
        (lambda: is_tuple([tensor()]), "which is no pattern; wrap an expression in is_expr(...)"),
        (lambda: is_op("relax.add")(wildcard(), tensor()), "argument 1 of a call pattern is"),
        (lambda: wildcard() | 1, "the right side of | is 1, which is no pattern"),
        (lambda: wildcard().has_shape(3), "has_shape needs a sequence of sizes, got 3"),
        (lambda: is_shape(3), "is_shape needs a sequence of sizes, got 3"),
        (lambda: wildcard().has_ty("float32"), "has_ty needs a type such as"),
        (lambda: repeat(wildcard(), min=-1), "a repeat needs 0 <= min <= max, got min=-1"),
        (lambda: repeat(wildcard(), min=3, max=2), "a repeat needs 0 <= min <= max, got min=3, max=2"),
        (lambda: repeat(repeat(wildcard())), "a repeat of a repeat"),
        (lambda: repeat(is_tuple([repeat(wildcard())])), "a repeat inside a repeat is not supported"),
        (lambda: repeat(wildcard(), shared=[is_const()]), "shared pattern const is no part of the repeated pattern *"),
        (lambda: is_tuple([repeat(wildcard())], unordered=True), "a repeat cannot stand in an unordered tuple"),
        (lambda: (wildcard() | repeat(wildcard())).match(tensor()), "stands where one value is wanted"),
        (lambda: repeat(wildcard()).match(tensor()), "or by itself in a PatternContext"),
        (
            lambda: wildcard() ^ wildcard(),
            "used_by (^) is a constraint between bindings: write it inside `with PatternC",
        ),
        (lambda: wildcard() >> wildcard(), "only_used_by (>>) is a constraint between bindings"),
        (lambda: wildcard().same_shape_as(wildcard()), "same_shape_as is a constraint between bindings"),
        (lambda: PatternContext(incremental=True), "extends a context, but none is open here"),
    ],
)
def test_a_pattern_that_cannot_mean_anything_says_so_where_it_is_written(
    write: Callable[[], object], message: str
) -> None:
    with pytest.raises(PatternError) as caught:
        write()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rejection_in_a_repeat_by_what_follows_the_repeat_is_refused() -> None:
    value = wildcard()
    pattern = is_tuple([repeat(wildcard() & ~value), value])
    with pytest.raises(PatternError, match="rejects by .* which may be known only after the repeat"):
        pattern.match(Tuple([tensor("a"), tensor("b")]))
    before = is_tuple([value, repeat(wildcard() & ~value)])
    a, b = tensor("a"), tensor("b")
    assert before.match(Tuple([a, b, b]))
    assert not before.match(Tuple([a, b, a]))


# --- composed


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("activation", [None, "relax.nn.relu"])
@pytest.mark.parametrize("reshaped", [False, True])
def test_the_fused_bias_activation_pattern_matches_what_it_is_asked_for(
    with_bias: bool, activation: str | None, reshaped: bool
) -> None:
    x, w, bias = tensor("x", (2, 3)), tensor("w", (3, 4)), tensor("b", (4, 1))

    def write(b: BlockBuilder) -> Expr:
        out: Expr = b.emit(op.matmul(x, w))
        if with_bias:
            out = b.emit(op.add(out, b.emit(op.reshape(bias, (4,))) if reshaped else Var("c", TensorType((4,)))))
        return op.nn.relu(out) if activation else out

    result = program([x, w, bias], write)
    pattern = make_fused_bias_activation_pattern("relax.matmul", with_bias, activation, allow_reshape=reshaped)
    assert matches(pattern, result)
    other = make_fused_bias_activation_pattern("relax.matmul", not with_bias, activation)
    assert matches(other, result) is False


def test_a_cast_hides_the_value_that_it_casts() -> None:
    x = Var("x", TensorType(None, "float32", 1))
    n = SymVar("n")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.match_cast(x, TensorType((n,), "float32"))
            result = builder.emit_output(op.exp(y))
        builder.emit_func_output(result)
    function = builder.get()["main"]
    assert any(isinstance(binding, MatchCast) for binding in function.body.blocks[0])
    definitions = get_var2val(function)
    operand = wildcard()
    found = is_op("relax.exp")(operand).extract_matched_expr(function.body.body, definitions)
    assert found is not None
    assert found[operand] is y
