"""Calls of outside functions, closures, print and assert: operands, stated types, purity, errors."""

import pytest

from regraft.ir import (
    Call,
    ExternFunc,
    FuncType,
    GlobalVar,
    ObjectType,
    Op,
    OpTypeError,
    PrimValue,
    StringImm,
    SymVar,
    TensorType,
    Tuple,
    TupleType,
    Var,
    const,
)
from regraft.op.primitive import packed
from regraft.op.primitive.packed import (
    assert_op,
    call_dps_packed,
    call_inplace_packed,
    call_packed,
    call_pure_packed,
    invoke_closure,
    invoke_pure_closure,
    make_closure,
    null_value,
)

F32 = TensorType((2, 3), "float32")
I32 = TensorType((SymVar("n"),), "int32")
X = Var("x", F32)
CONDITION = Var("c", TensorType((), "bool"))


def test_call_dps_packed_returns_the_tensors_that_it_states():
    one = call_dps_packed("my.func", (X, X), out_ty=F32)
    assert isinstance(one.args[0], ExternFunc)
    assert one.args[0].global_symbol == "my.func"
    assert isinstance(one.args[1], Tuple)
    assert one.args[1].fields == (X, X)
    assert one.ty == F32
    assert one.is_pure
    several = call_dps_packed(ExternFunc("my.func"), X, out_sinfo=[F32, I32])
    assert several.ty == TupleType([F32, I32])
    assert several.args[1].fields == (X,)
    assert several.with_args(several.args).ty == several.ty


def test_call_dps_packed_takes_a_variable_that_is_the_tuple_of_arguments():
    arguments = Var("t", TupleType([F32, F32]))
    assert call_dps_packed("f", arguments, F32).args[1] is arguments


def test_call_packed_is_an_impure_call_of_the_function_itself():
    call = call_packed("my.func", X, 2, ty_args=F32)
    assert isinstance(call.op, ExternFunc)
    assert not call.is_pure
    assert call.ty == F32
    assert call.args[0] is X
    assert call_packed("my.func", ty_args=[F32, ObjectType()]).ty == TupleType([F32, ObjectType()])
    assert call_packed("my.func", X, sinfo_args=(F32,)).ty == F32


def test_call_pure_packed_is_pure_and_takes_any_number_of_arguments():
    call = call_pure_packed("my.func", X, X, ty_args=F32)
    assert call.is_pure
    assert len(call.args) == 3
    assert call.ty == F32
    assert call_pure_packed("my.func", ty_args=I32).ty == I32


def test_call_inplace_packed_says_which_arguments_it_writes():
    call = call_inplace_packed("f", X, X, inplace_indices=[1, -1], ty_args=[F32, I32])
    assert call.attrs.inplace_indices == (1, -1)
    assert call.ty == TupleType([F32, I32])
    assert call_inplace_packed("f", X, inplace_indices=0, ty_args=F32).ty == F32


def test_closures_keep_what_they_are_given():
    function = GlobalVar("f", FuncType([F32, F32], F32))
    closure = make_closure(function, [X])
    assert closure.ty == ObjectType()
    pure, impure = invoke_pure_closure(closure, X, F32), invoke_closure(closure, (X,), sinfo_args=F32)
    assert pure.ty == impure.ty == F32
    assert (pure.is_pure, impure.is_pure) == (True, False)


def test_print_and_assert_are_impure_and_return_nothing():
    shown = packed.print(X, 2, format="{} {}")
    assert shown.ty == TupleType(())
    assert not shown.is_pure
    assert shown.attrs.format == "{} {}"
    assert packed.print(format=StringImm("hi")).attrs.format == "hi"
    checked = assert_op(CONDITION, [X, X], format=StringImm("bad {} {}"))
    assert checked.args == (CONDITION, X, X)
    assert checked.ty == TupleType(())
    assert not checked.is_pure
    assert assert_op(CONDITION, X, X).args == checked.args
    assert assert_op(PrimValue(True)).args[0].value is True
    assert assert_op(const(True)).attrs.format == ""


def test_null_value_is_an_object():
    assert null_value().ty == ObjectType()
    assert isinstance(null_value(), Call)


def test_only_an_engine_knows_what_these_calls_do():
    for name in ("call_dps_packed", "call_pure_packed", "invoke_closure", "print", "assert_op", "null_value"):
        assert Op.get(name).reference is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: call_dps_packed("f", (X,)), r"give the type of the result, once, as out_ty"),
        (lambda: call_dps_packed("f", (X,), F32, out_sinfo=F32), r"once, as out_ty"),
        (lambda: call_dps_packed("f", (X,), ObjectType()), r"tensors of known shape"),
        (lambda: call_dps_packed("f", (X,), TensorType(None, "float32", 2)), r"tensors of known shape"),
        (lambda: call_dps_packed(X, (X,), F32), r"argument func .* a function"),
        (
            lambda: call_packed("f", X, ty_args=F32, sinfo_args=F32),
            r"relax\.call_packed: give the type of the result, once, as ty_args",
        ),
        (lambda: call_pure_packed("f", X, ty_args="float32"), r"ty_args='float32'; expected a type"),
        (lambda: call_inplace_packed("f", X, inplace_indices=1, ty_args=F32), r"indices of the 1 arguments"),
        (lambda: call_inplace_packed("f", X, inplace_indices=-1, ty_args=F32), r"but not only -1"),
        (lambda: call_inplace_packed("f", X, inplace_indices=[0, 0], ty_args=[F32, F32]), r"all different"),
        (lambda: call_inplace_packed("f", X, inplace_indices=[0, -1], ty_args=F32), r"each of the 1 results"),
        (
            lambda: call_inplace_packed("f", X, inplace_indices=0, ty_args=I32),
            r"the type of the result that is",
        ),
        (lambda: invoke_closure(X, (X,), F32), r"argument closure .* a closure"),
        (lambda: assert_op(X), r"argument condition .* a bool"),
        (lambda: assert_op(CONDITION, format=3), r"format=3; expected a string"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
