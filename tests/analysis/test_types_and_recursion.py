"""Questions about types and calls that Relax's analyses answer."""

from __future__ import annotations

import pytest

from regraft import AnyType, FuncType, PrimType, ShapeType, SymVar, TensorType, TupleType, Type, Var
from regraft.analysis import (
    BaseCheckResult,
    collect_non_negative_expressions,
    computable_at_compile_time,
    definable_tir_vars_in_type,
    derive_call_ret_type,
    detect_recursion,
    erase_to_well_defined,
    get_static_type,
    tir_vars_in_type,
    type_base_check,
    type_lca,
)
from regraft.script import ir as I
from regraft.script import relax as R

N, M = SymVar("n"), SymVar("m")
FIXED = TensorType((2, 3))


@pytest.mark.parametrize(
    ("base", "derived", "grade"),
    [
        (FIXED, FIXED, BaseCheckResult.PASS),
        (AnyType(), FIXED, BaseCheckResult.PASS),
        (TensorType(None, "float32", 2), FIXED, BaseCheckResult.PASS),
        (FIXED, TensorType((N, 3)), BaseCheckResult.FAIL_L2),
        (FIXED, TensorType(None, "float32", 2), BaseCheckResult.FAIL_L2),
        (FIXED, TensorType(None, "float32"), BaseCheckResult.FAIL_L1),
        (FIXED, AnyType(), BaseCheckResult.FAIL_L1),
        (FIXED, TensorType((2, 4)), BaseCheckResult.FAIL_L0),
        (FIXED, TensorType((2, 3, 4)), BaseCheckResult.FAIL_L0),
        (FIXED, TensorType((2, 3), "int8"), BaseCheckResult.FAIL_L0),
        (FIXED, ShapeType((2, 3)), BaseCheckResult.FAIL_L0),
    ],
)
def test_a_type_holds_for_another_in_four_grades(base: Type, derived: Type, grade: BaseCheckResult) -> None:
    assert type_base_check(base, derived) is grade


def test_the_common_type_keeps_what_both_say() -> None:
    assert type_lca(FIXED, TensorType((2, 4))) == TensorType(None, "float32", 2)
    assert type_lca(FIXED, TensorType((2, 3), "float16")) == TensorType((2, 3), None)
    assert type_lca(FIXED, ShapeType((2,))) == AnyType()
    functions = FuncType([FIXED], FIXED), FuncType([TensorType((2, 4))], FIXED, False)
    assert type_lca(*functions) == FuncType([TensorType(None, "float32", 2)], FIXED, False)


def test_sizes_are_erased_bound_and_listed() -> None:
    ty = TupleType([TensorType((N, M + 1)), ShapeType((M, N)), PrimType("int64", N)])
    assert get_static_type(ty) == TupleType([TensorType(None, "float32", 2), ShapeType(None, 2), PrimType("int64")])
    assert erase_to_well_defined(TensorType((N, M)), {N: N, M: N + 1}) == TensorType((N, N + 1))
    assert erase_to_well_defined(TensorType((N, M)), {N: 3}) == TensorType(None, "float32", 2)
    assert tir_vars_in_type(ty) == [N, M]
    assert definable_tir_vars_in_type(TensorType((N, M + 1))) == [N]
    assert collect_non_negative_expressions(ty) == [N, M + 1, M]


def test_the_type_of_a_call_follows_from_the_functions() -> None:
    callee = FuncType([TensorType((N, 3))], TensorType((N, 4)))
    call = Var("f", callee)(Var("x", TensorType((5, 3))))
    assert derive_call_ret_type(callee, call) == TensorType((5, 4))


def test_functions_that_reach_themselves_are_found_in_groups() -> None:
    @I.ir_module
    class Module:
        @R.function
        def a(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = Module.b(x)
            return y

        @R.function
        def b(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = Module.a(x)
            return y

        @R.function
        def c(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = Module.c(x)
            return y

        @R.function
        def d(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = Module.a(x)
            return y

    assert [[v.name for v in group] for group in detect_recursion(Module)] == [["a", "b"], ["c"]]


def test_what_weights_alone_decide_is_listed_in_order() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32"), v: R.Tensor((3,), "float32")):
        R.func_attr({"num_input": 1})
        a = R.add(w, v)
        b = R.add(x, w)
        c = R.const([1.0, 2.0, 3.0], "float32")
        d = R.exp(a)
        e = R.add(d, c)
        return b, d, e

    assert [var.name for var in computable_at_compile_time(main)] == ["w", "v", "a", "c", "d", "e"]
    assert computable_at_compile_time(main.without_attr("num_input")) == []
