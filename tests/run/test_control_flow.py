"""Branches, calls between functions, recursion, and functions defined inside functions."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.engine import BuildError, ExecutionError
from regraft.ir import (
    BindingBlock,
    BlockBuilder,
    Expr,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRModule,
    SeqExpr,
    ShapeExpr,
    SymVar,
    TensorType,
    Tuple,
    Var,
    VarBinding,
    const,
)
from tests.run.programs import add_function, build, tensor


def _branch(bb: BlockBuilder, value: Expr) -> SeqExpr:
    bb.begin_scope()
    return bb.end_scope(value)


def test_a_branch_runs_only_the_side_that_its_condition_picks() -> None:
    c, x = tensor("c", (), "bool"), tensor("x", (2,))
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        bb.begin_scope()
        then = bb.end_scope(R.add(x, x))
        bb.begin_scope()
        inner = bb.emit(If(c, _branch(bb, x), _branch(bb, R.negative(x))))
        otherwise = bb.end_scope(R.multiply(inner, const(10.0)))
        y = bb.emit(If(c, then, otherwise), "y")
        bb.emit_func_output(R.add(y, x))
    exe = build(bb.get())
    np.testing.assert_array_equal(exe["main"](True, [1, 2]), [3, 6])
    np.testing.assert_array_equal(exe["main"](False, [1, 2]), [-9, -18])


def test_a_branch_nobody_reads_still_runs_and_may_be_empty() -> None:
    c, x = tensor("c", (), "bool"), tensor("x", (2,))
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        bb.emit(If(c, _branch(bb, x), _branch(bb, x)))
        bb.emit_func_output(x)
    np.testing.assert_array_equal(build(bb.get())["main"](False, [1, 2]), [1, 2])


def test_a_condition_that_is_no_scalar_is_an_error() -> None:
    c, x = tensor("c", None, "bool"), tensor("x", ())
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        bb.emit_func_output(bb.emit(If(c, _branch(bb, x), _branch(bb, R.add(x, x)))))
    exe = build(bb.get())
    assert float(exe["main"](np.array(False), 3)) == 6.0
    with pytest.raises(ExecutionError, match=r"a condition must be a scalar, but this one has shape \(1,\)"):
        exe["main"](np.array([False]), 3)


@pytest.mark.parametrize("depth", [3, 39, 45, 130])
def test_branches_nest_as_deep_as_they_like(depth: int) -> None:
    x = tensor("x", ())
    bb = BlockBuilder()
    with bb.function("main", [x]):
        for _ in range(depth):
            bb.begin_scope()
        inner: Expr = R.add(x, const(0.5))
        for level in reversed(range(depth)):
            then = bb.end_scope(inner)
            low = bb.emit(R.less(x, const(float(level))), f"low{level}")
            inner = If(low, _branch(bb, const(float(level))), then)
            inner = bb.emit(inner, f"y{level}")
        bb.emit_func_output(inner)
    exe = build(bb.get())
    # The tests run from the outermost, 0, inwards: the first level above x answers.
    assert float(exe["main"](-1.0)) == 0.0
    assert float(exe["main"](1.5)) == 2.0
    assert float(exe["main"](depth - 1.5)) == depth - 1
    assert float(exe["main"](1000.0)) == 1000.5


def test_functions_call_each_other_with_sizes_of_their_own() -> None:
    n, m = SymVar("n"), SymVar("n")
    p = tensor("p", (n, 3))
    x = tensor("x", (3, m))
    bb = BlockBuilder()
    add_function(bb, "helper", [p], lambda bb, p: Tuple([R.add(p, p), ShapeExpr([n * 2])]))
    helper = bb.get().get_global_var("helper")
    add_function(
        bb,
        "main",
        [x],
        lambda bb, x: Tuple([bb.emit(helper(R.permute_dims(x))), ShapeExpr([m])]),
        dataflow=False,
    )
    exe = build(bb.get())
    (doubled, inner), outer = exe["main"](np.ones((3, 2), "float32"))
    assert (doubled.shape, inner, outer) == ((2, 3), (4,), (2,))


def _factorial() -> IRModule:
    x = tensor("x", (), "int64")
    me = GlobalVar("factorial", FuncType([TensorType((), "int64")], TensorType((), "int64")))
    bb = BlockBuilder()
    with bb.function("factorial", [x]):
        small = bb.emit(R.less(x, const(2, "int64")))
        bb.begin_scope()
        then = bb.end_scope(const(1, "int64"))
        bb.begin_scope()
        before = bb.emit(me(R.subtract(x, const(1, "int64"))))
        otherwise = bb.end_scope(bb.emit(R.multiply(x, before)))
        bb.emit_func_output(bb.emit(If(small, then, otherwise)))
    function = bb.get()["factorial"]
    return IRModule({me: Function(function.params, function.body, function.ret_ty, attrs=function.attrs)})


def test_a_function_may_call_itself() -> None:
    assert int(build(_factorial())["factorial"](10)) == 3628800


def test_recursion_without_end_says_so() -> None:
    x = tensor("x", (), "int64")
    me = GlobalVar("f", FuncType([TensorType((), "int64")], TensorType((), "int64")))
    result = Var("r", TensorType((), "int64"))
    function = Function([x], SeqExpr([BindingBlock([VarBinding(result, me(x))])], result))
    with pytest.raises(ExecutionError, match="f: the functions call each other deeper than Python's limit of"):
        build(IRModule({me: function}))["f"](1)


def test_a_function_inside_sees_the_variables_around_it() -> None:
    n = SymVar("n")
    x, y = tensor("x", (n,)), tensor("y", (n,))
    inner = Function([y], R.add(R.add(x, y), y))
    f = Var("f", inner.ty)
    first, second = Var("a", TensorType((n,), "float32")), Var("b", TensorType((n,), "float32"))
    body = SeqExpr(
        [BindingBlock([VarBinding(f, inner), VarBinding(first, f(x)), VarBinding(second, f(first))])],
        Tuple([second, ShapeExpr([n + 1])]),
    )
    result, sizes = build(Function([x], body))["main"]([1, 2])
    np.testing.assert_array_equal(result, [7, 14])
    assert sizes == (3,)


def test_a_call_of_a_function_that_the_module_lacks_is_an_error_when_built() -> None:
    x = tensor("x", ())
    ghost = GlobalVar("ghost", FuncType([x.ty], x.ty))
    with pytest.raises(BuildError, match="main: the module has no function 'ghost'; it has: main"):
        build(Function([x], ghost(x)))


def test_a_variable_from_nowhere_is_an_error_when_built() -> None:
    with pytest.raises(BuildError, match="main: the variable stray is used before it is bound"):
        build(Function([tensor("x", ())], tensor("stray", ())))


def test_sizes_that_a_branch_defines_stay_inside_it() -> None:
    n = SymVar("n")
    c, x = tensor("c", (), "bool"), tensor("x", None, None)
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        branches: list[SeqExpr] = []
        for _ in range(2):
            bb.begin_scope()
            bb.match_cast(x, TensorType((n,), "float32"))
            branches.append(bb.end_scope(ShapeExpr([n + len(branches)])))
        bb.emit_func_output(bb.emit(If(c, *branches)))
    exe = build(bb.get())
    assert exe["main"](True, np.zeros(4, "f4")) == (4,)
    assert exe["main"](False, np.zeros(4, "f4")) == (5,)
