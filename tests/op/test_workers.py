"""Collective operators on the one worker that an engine is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import regraft as rx
from regraft.ir import OpTypeError
from regraft.op import ccl

X = np.arange(12, dtype="float32").reshape(4, 3)


def run(call: Callable[[rx.Expr], rx.Expr]) -> np.ndarray:
    x = rx.Var("x", rx.TensorType(X.shape, "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(call(x)))
    return rx.build(builder.get(), target="numpy")["main"](X)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ccl.allreduce(x, "avg"),
        lambda x: ccl.allgather(x, 1),
        ccl.broadcast_from_worker0,
        lambda x: ccl.scatter_from_worker0(x, 1),
    ],
    ids=["allreduce", "allgather", "broadcast_from_worker0", "scatter_from_worker0"],
)
def test_one_worker_tells_itself_its_tensor(call: Callable[[rx.Expr], rx.Expr]) -> None:
    np.testing.assert_array_equal(run(call), X)


def test_a_call_of_more_workers_is_refused_when_it_runs() -> None:
    with pytest.raises(rx.RegraftError, match="needs 2"):
        run(lambda x: ccl.allgather(x, 2))


def test_a_sum_over_workers_of_a_constant_is_kept() -> None:
    """In a program that Relax runs on four workers it is four times the constant."""
    builder = rx.BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(builder.emit(ccl.allreduce(rx.const(X), "sum")))
    optimized = rx.optimize(builder.get())
    assert "R.ccl.allreduce(" in optimized.script()
    np.testing.assert_array_equal(rx.build(optimized, target="numpy")["main"](), X)


def test_parts_are_equal() -> None:
    x = rx.Var("x", rx.TensorType((4, 3), "float32"))
    assert str(ccl.scatter_from_worker0(x, 3, axis=1).ty) == 'R.Tensor((4, 1), dtype="float32")'
    with pytest.raises(OpTypeError, match="a multiple of the 3 workers"):
        ccl.scatter_from_worker0(x, 3)
    with pytest.raises(OpTypeError, match="num_workers"):
        ccl.allgather(x, 0)
