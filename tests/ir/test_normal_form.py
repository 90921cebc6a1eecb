"""Nested expressions of functions made by hand become bindings, and mean what they meant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regraft import op as ops
from regraft.engine import build
from regraft.gradient import Gradient
from regraft.ir import DataflowBlock, DataflowVar, Function, IRModule, SeqExpr, TensorType, Tuple, Var, VarBinding
from regraft.ir.builder import in_normal_form
from regraft.ir.program import is_leaf
from regraft.ir.visitor import iter_bindings


def nested() -> Function:
    x = Var("x", TensorType((3, 4), "float64"))
    inner, out = DataflowVar("y", x.ty), Var("lv", TensorType((), "float64"))
    shared = ops.sin(x)
    block = DataflowBlock([VarBinding(inner, ops.multiply(shared, ops.exp(shared))), VarBinding(out, ops.sum(inner))])
    return Function([x], SeqExpr([block], Tuple([ops.multiply(out, out), ops.negative(x)])))


def bare() -> Function:
    x = Var("x", TensorType((3, 4), "float64"))
    return Function([x], ops.sum(ops.multiply(ops.sin(x), x)))


def results(function: Function, x: np.ndarray) -> tuple[np.ndarray, ...]:
    found = build(IRModule({"main": function}), target="numpy")["main"](x)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("build_function", [nested, bare])
def test_operands_become_leaves_and_values_stay(build_function: Callable[[], Function]) -> None:
    function = build_function()
    flat = in_normal_form(function)
    assert is_leaf(flat.body.body)
    assert all(is_leaf(operand) for binding in iter_bindings(flat) for operand in getattr(binding.value, "args", ()))
    assert in_normal_form(flat) is flat
    assert len({binding.var.name_hint for binding in iter_bindings(flat)}) == len(list(iter_bindings(flat)))
    x = np.random.default_rng(0).standard_normal((3, 4))
    for got, want in zip(results(flat, x), results(function, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_expression_that_occurs_twice_is_bound_once() -> None:
    names = [getattr(binding.value, "op", None) for binding in iter_bindings(in_normal_form(nested()))]
    assert names.count(ops.sin(Var("x", TensorType((), "float64"))).op) == 1


@pytest.mark.parametrize("build_function", [nested, bare])
def test_the_gradient_sees_through_nested_expressions(build_function: Callable[[], Function]) -> None:
    program = Gradient("main")(IRModule({"main": build_function()}))
    run = build(program, target="numpy")
    x = np.random.default_rng(1).standard_normal((3, 4))
    step = np.zeros_like(x)
    step[1, 2] = 1e-6

    def value(at: np.ndarray) -> float:
        return float(results(build_function(), at)[0])

    _, (gradient,) = run["main_adjoint"](x)
    np.testing.assert_allclose(gradient[1, 2], (value(x + step) - value(x - step)) / 2e-6, rtol=1e-6)
