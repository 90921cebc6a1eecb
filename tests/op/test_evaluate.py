"""The small evaluator: values of single expressions, without an engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regraft.ir import DataflowVar, Expr, ExternFunc, SymVar, TensorType, Tuple, TupleGetItem, Var, const
from regraft.op.evaluate import EvaluationError, Evaluator
from regraft.script import relax as R

n = SymVar("n")
x = Var("x", TensorType((2, n), "float32"))


def evaluator(definitions: dict[Var, Expr] | None = None, **options: Any) -> Evaluator:
    return Evaluator(definitions or {}, lambda var: np.ones((2, 3), np.float32), lambda _: 3, **options)


def test_calls_tuples_shapes_and_sizes_have_values() -> None:
    expr = Tuple([TupleGetItem(R.split(x + x, 3, axis=1), 0), R.shape([n, n * 2]), R.prim_value(n), const(2)])
    part, shape, size, two = evaluator().value(expr)
    np.testing.assert_array_equal(part, np.full((2, 1), 2, np.float32))
    assert (shape, size, int(two)) == ((3, 6), 3, 2)


def test_a_long_chain_of_bindings_is_no_deep_recursion() -> None:
    definitions: dict[Var, Expr] = {}
    last: Var = x
    for i in range(20_000):
        var = DataflowVar(f"v{i}", x.ty)
        definitions[var] = R.negative(last)
        last = var
    assert evaluator(definitions, most=30_000).value(last)[0, 0] == 1
    with pytest.raises(EvaluationError, match="depends on too many values"):
        evaluator(definitions).value(last)


def test_each_value_is_computed_once() -> None:
    definitions: dict[Var, Expr] = {}
    last: Var = x
    for i in range(60):
        var = DataflowVar(f"v{i}", x.ty)
        definitions[var] = R.multiply(last, last)
        last = var
    assert evaluator(definitions, most=60).value(last)[0, 0] == 1


def test_bound_variables_can_be_inputs() -> None:
    y = Var("y", x.ty)
    exact = evaluator({y: R.exp(x)}).value(y)
    drawn = evaluator({y: R.exp(x)}, is_input=lambda var, _: var is y).value(y)
    assert exact[0, 0] == np.exp(np.float32(1))
    assert drawn[0, 0] == 1


def test_what_has_no_reference_is_refused() -> None:
    outside = R.call_pure_packed("f", x, sinfo_args=R.Tensor((2,), "float32"))
    with pytest.raises(EvaluationError, match=r"a call of relax.call_pure_packed cannot be computed"):
        evaluator().value(outside)
    with pytest.raises(EvaluationError, match="a ExternFunc has no value"):
        evaluator().value(ExternFunc("f"))


def test_huge_results_are_refused_before_they_are_computed() -> None:
    with pytest.raises(EvaluationError, match=r"the result of relax.zeros has 1000000000000 elements"):
        evaluator().value(R.zeros(R.shape([10**6, 10**6]), "float32"))
