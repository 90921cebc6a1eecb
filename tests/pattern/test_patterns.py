"""Each pattern by itself: what it matches, what it does not, how it is written, and what is wrong with a wrong one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from regraft import Rule, op
from regraft.analysis import get_var2val
from regraft.dpl import *
from regraft.dpl import ExternFuncPattern, FunctionPattern, PatternContext, PatternError, TuplePattern
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
from regraft.pattern import AttrPattern, CallPattern, PatternWarning
from regraft.script import relax as R
from tests.pattern.programs import MATRIX, matches, program, tensor

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
    either = add | is_op("relax.where") | is_op("relax.exp")
    assert not either(wildcard()).match(call)
    assert not either(wildcard(), wildcard(), wildcard()).match(call)
    assert add(wildcard(), varg_default_wildcard=True).match(call)
    assert add(varg_default_wildcard=True).match(call)
    assert not either(wildcard(), wildcard(), wildcard(), varg_default_wildcard=True).match(call)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: is_op("relax.add")(wildcard()),
            r"relax\.add takes 2 operands \(x1, x2\), .* has 1; varg",
        ),
        (lambda: is_op("relax.exp")(*[wildcard()] * 2), r"relax\.exp takes 1 operand \(x\), and the pattern has 2$"),
        (lambda: is_op("relax.strided_slice")(wildcard()), r"takes 4 to 5 operands \(x, axes, begin, end, strides\?\)"),
        (lambda: is_op("relax.exp")(wildcard(), wildcard(), varg_default_wildcard=True), "takes 1 operand"),
        (lambda: is_op("relax.exp"), "exp is an operator, not a value of a program; call it"),
        (lambda: is_op("relax.add")(wildcard(), is_op("relax.exp") | wildcard()), "exp is an operator, not a value"),
        (lambda: is_op(lambda op: op.is_commutative), "lambda is an operator, not a value of a program"),
        (
            lambda: is_op("relax.nn.softmax")(wildcard()).has_attr({"axes": 1}),
            r"has_attr: relax\.nn\.softmax has no attribute 'axes'; did you mean 'axis'\?",
        ),
        (lambda: is_op("relax.exp")(wildcard()).has_dtype("float32").has_attr({"axis": 1}), "it has: none"),
        (
            lambda: (is_op("relax.exp")(wildcard()) | is_op("relax.log")(wildcard())).has_attr({"axis": 1}),
            "has no attribute 'axis'",
        ),
        (lambda: has_attr({"axis": 1}, is_op("relax.exp")(wildcard())), "it has: none"),
    ],
)
def test_what_no_call_can_have_never_matches_and_is_refused_in_a_rule(make: Any, message: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pattern = make()
    assert not pattern.match(R.exp(tensor()))
    with pytest.raises(PatternError, match=message):
        Rule(pattern, lambda expr, found: expr)
    if isinstance(pattern, CallPattern | AttrPattern):
        [warning] = told
        assert issubclass(warning.category, PatternWarning)
        assert re.search(message, str(warning.message))
        assert warning.filename == __file__


def test_a_field_of_what_a_call_gives_is_written_by_its_place() -> None:
    x = wildcard()
    halves = is_op("relax.split")(x)
    both = R.split(tensor(), 2, 1)
    assert halves[1].match(both[1])
    assert not halves[1].match(both[0])
    with pytest.raises(TypeError, match="not iterable"):
        list(halves)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]


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


def test_a_projection_pattern_sees_a_field_that_is_bound_of_a_tuple_that_is_written_out() -> None:
    x, y = tensor("x"), tensor("y")
    first, second = wildcard(), wildcard()
    pair = is_tuple([first, second])
    field = pair[1]
    result = program([x, y], lambda b: op.exp(b.emit(b.emit(Tuple([x, y]))[1])))
    found = is_op("relax.exp")(field).extract_matched_expr(*result)
    assert found is not None
    assert (found[first], found[second]) == (x, y)
    assert isinstance(found[field], TupleGetItem)
    assert found[field].index == 1
    assert not matches(is_op("relax.exp")(is_tuple([wildcard(), wildcard()])[0]), result)
    assert matches(is_op("relax.exp")(is_tuple_get_item(wildcard())), result)
    assert field.match(result[1][result[0]].args[0], result[1])  # type: ignore[index, attr-defined]


def test_a_projection_pattern_sees_through_fields_of_fields_and_other_names() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> Expr:
        inner = b.emit(Tuple([x, y]))
        outer = b.emit(Tuple([b.emit(inner[1]), x]))
        return op.exp(b.emit(b.emit(outer[0])))

    result = program([x, y], write)
    outer, inner = is_tuple([wildcard(), is_var("x")]), is_tuple([is_var("x"), wildcard()])
    assert matches(is_op("relax.exp")(outer[0]), result)
    assert matches(is_op("relax.exp")(inner[1]), result)
    assert matches(is_op("relax.exp")(is_tuple([inner[1], wildcard()])[0]), result)
    assert not matches(is_op("relax.exp")(inner[0]), result)
    assert not matches(is_op("relax.exp")(~outer[0]), result)


def test_a_field_in_two_places_is_written_as_a_field_in_both_in_whatever_order() -> None:
    x, y = tensor("x"), tensor("y")
    field = is_tuple([wildcard(), wildcard()])[1]
    either = field | wildcard()

    def fields(b: BlockBuilder) -> Expr:
        whole = b.emit(Tuple([x, y]))
        return op.subtract(b.emit(whole[1]), b.emit(whole[1]))

    for pattern in (field, field.has_dtype("float32"), field & wildcard()):
        assert matches(is_op("relax.subtract")(pattern, pattern), program([x, y], fields))
        assert not matches(
            is_op("relax.subtract")(pattern, pattern), program([x, y], lambda b: _difference(b, x, y, y))
        )
        assert not matches(is_op("relax.add")(pattern, pattern), program([x, y], lambda b: op.add(y, _field(b, x, y))))
        assert not matches(is_op("relax.add")(pattern, pattern), program([x, y], lambda b: op.add(_field(b, x, y), y)))
    assert matches(is_op("relax.subtract")(either, either), program([x, y], lambda b: _difference(b, x, y, y)))
    assert matches(is_op("relax.subtract")(either, either), program([x, y], lambda b: op.subtract(y, _field(b, x, y))))


def _difference(b: BlockBuilder, x: Var, y: Var, other: Var) -> Expr:
    return op.subtract(_field(b, x, y), other)


def _field(b: BlockBuilder, x: Var, y: Var) -> Expr:
    return b.emit(b.emit(Tuple([x, y]))[1])


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
    assert pattern.has_attr({"axis": -1}).match(softmax)  # of rank 2
    assert not pattern.has_attr({"axis": 0}).match(softmax)
    assert not pattern.has_attr({"axis": 1.0}).match(softmax)
    assert not (pattern & has_attr({"axis": 1, "unknown": 2})).match(softmax)
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


def test_a_type_on_a_device_is_a_condition_on_the_device() -> None:
    on_device, elsewhere = (TensorType((2, 3), "float32", vdevice=device) for device in ("cuda:0", "llvm"))
    assert wildcard().has_ty(on_device).match(Var("x", on_device))
    assert not wildcard().has_ty(on_device).match(Var("x", elsewhere))
    assert not wildcard().has_ty(on_device).match(tensor())
    assert wildcard().has_ty(TensorType((2, 3), "float32")).match(Var("x", on_device))


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
        (lambda: (wildcard() | repeat(wildcard())).match(tensor()), "stands where a single value is wanted"),
        (lambda: repeat(wildcard()).match(tensor()), "or alone in a PatternContext"),
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
            out = b.emit(op.add(out, b.emit(op.reshape(bias, (4,))) if reshaped else Var("c", TensorType((4,), None))))
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
