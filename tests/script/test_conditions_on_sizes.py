# ruff: noqa: SIM108 - programs have no conditional expressions on tensors
"""Comparisons of sizes in programs are conditions, decided when the sizes are known."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft import IRModule, SymVar
from regraft.ir.dims import both, compare, either, evaluate, negation, select, substitute
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor(("N", 3), "float32"), y: R.Tensor(("M", 3), "float32")) -> R.Tensor(("N", 3), "float32"):
        N = T.int64()
        M = T.int64()
        if R.prim_value(N % 4 == 0 and (N < 9 or not M == 2)):  # noqa: SIM201
            z = R.add(x, x)
        else:
            z = R.multiply(x, x)
        return z

    @R.function
    def bare(x: R.Tensor(("N", 3), "float32")) -> R.Tensor(("N", 3), "float32"):
        N = T.int64()
        if N != 8:
            z = R.add(x, x)
        else:
            z = R.multiply(x, x)
        return z

    @R.function
    def sized(x: R.Tensor(("N", 3), "float32")):
        N = T.int64()
        wide = R.zeros(R.shape([T.if_then_else(N != 4, N + 1, T.max(N, 7)), 3]), "float32")
        return wide

    @R.function
    def chosen(x: R.Tensor(("N", 3), "float32")):
        N = T.int64()
        wide = R.zeros(R.shape([N + 1 if 4 <= N < 10 else 2, 3]), "float32")
        return wide


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch"])
def test_conditions_on_sizes_are_decided_when_the_program_runs(target: str) -> None:
    run = rx.build(Program, target=target)
    for n in (3, 4, 8, 12):
        x = np.full((n, 3), 3, "float32")
        for m in (2, 5):
            holds = n % 4 == 0 and (n < 9 or m != 2)
            np.testing.assert_array_equal(run["main"](x, np.ones((m, 3), "float32")), x + x if holds else x * x)
        np.testing.assert_array_equal(run["bare"](x), x + x if n != 8 else x * x)
        assert np.asarray(run["sized"](x)).shape == (n + 1 if n != 4 else 7, 3)
        assert np.asarray(run["chosen"](x)).shape == (n + 1 if 4 <= n < 10 else 2, 3)


def test_a_program_with_conditions_prints_and_reads_back() -> None:
    text = Program.script()
    assert "if N % 4 == 0 and (N < 9 or M != 2):" in text
    assert "T.if_then_else(N != 4, N + 1, T.max(N, 7))" in text
    back = rx.parse(text)
    assert isinstance(back, IRModule)
    rx.assert_structural_equal(back, Program)
    assert back.script() == text


def test_a_condition_in_a_text_means_what_it_means_in_a_decorated_function() -> None:
    text = """
@R.function
def main(x: R.Tensor(("N", 3), "float32")) -> R.Tensor(("N", 3), "float32"):
    N = T.int64()
    if N == 16:
        z = R.add(x, x)
    else:
        z = R.multiply(x, x)
    return z
"""

    @R.function
    def main(x: R.Tensor(("N", 3), "float32")) -> R.Tensor(("N", 3), "float32"):
        N = T.int64()
        if N == 16:
            z = R.add(x, x)
        else:
            z = R.multiply(x, x)
        return z

    rx.assert_structural_equal(rx.parse(text), main)


def test_an_assertion_on_sizes_is_checked_at_run_time() -> None:
    @R.function(pure=False)
    def main(x: R.Tensor(("N", 3), "float32")) -> R.Tensor(("N", 3), "float32"):
        N = T.int64()
        _ = R.assert_op(R.prim_value(N == 2 or N >= 5), format="N is 2, or at least 5")
        return x

    run = rx.build(IRModule({"main": main}), target="numpy")
    run["main"](np.ones((2, 3), "float32"))
    run["main"](np.ones((6, 3), "float32"))
    with pytest.raises(Exception, match="N is 2, or at least 5"):
        run["main"](np.ones((3, 3), "float32"))


def test_binding_a_size_decides_the_conditions_on_it() -> None:
    bound = Program["bare"].bind_symbolic_vars({"N": 8})
    assert "if False:" in bound.script()
    assert "N" not in bound.script()


def test_conditions_say_what_integers_say_on_every_pair() -> None:
    n, m = SymVar("n"), SymVar("m")
    for sign in ("==", "!=", "<", "<=", ">", ">="):
        condition = compare(sign, n * 2, m + 1)
        again = select(both(condition, compare("<", n, m)), n, either(negation(condition), compare("==", m, 1)))
        for a in range(4):
            for b in range(4):
                known = {"n": a, "m": b}
                holds = eval(f"n * 2 {sign} m + 1", {}, known)
                sizes = {n: a, m: b}
                assert bool(evaluate(condition, sizes)) == holds
                assert bool(substitute(condition, sizes)) == holds
                assert bool(evaluate(negation(condition), sizes)) == (not holds)
                assert evaluate(again, sizes) == (a if holds and a < b else int(not holds or b == 1))


def test_a_condition_that_holds_for_all_sizes_or_for_none_is_decided_at_once() -> None:
    n = SymVar("n")
    assert compare("<", n, n + 1) is True
    assert compare("==", n, n + 1) is False
    assert negation(compare(">=", n, 0)) is False
    assert both(compare("==", n, 3), compare("<", n, n)) is False
    assert either(compare("==", n, 3), True) is True
