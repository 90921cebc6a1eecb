"""Values live no longer than they are needed."""

from __future__ import annotations

import tracemalloc
import weakref
from typing import Any

import numpy as np

import regraft.op as R
from regraft.engine import register_func, remove_global_func
from regraft.ir import BlockBuilder, Call, Expr, ExternFunc, IRModule, TensorType, Tuple, Var, const
from tests.run.programs import build, program, tensor

MEGABYTE = 1 << 20
SIDE = 512  # float32 SIDE x SIDE is one megabyte


def _peak(run: Any, *arguments: Any) -> float:
    """Megabytes allocated at most at one time while ``run`` runs, above what there was."""
    run(*arguments)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(*arguments)
        return (tracemalloc.get_traced_memory()[1] - before) / MEGABYTE
    finally:
        tracemalloc.stop()


def _chain(length: int) -> IRModule:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        value: Expr = x
        for _ in range(length):
            value = bb.emit(R.add(value, const(1.0)))
        return value

    return program([tensor("x", (SIDE, SIDE))], write)


def test_a_chain_of_fifty_steps_holds_two_values_at_a_time() -> None:
    assert _peak(build(_chain(50))["main"], np.zeros((SIDE, SIDE), "float32")) < 2.5


def test_a_value_that_is_read_late_lives_until_then_and_no_other_does() -> None:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        early = bb.emit(R.add(x, x))
        value: Expr = x
        for _ in range(20):
            value = bb.emit(R.add(value, const(1.0)))
        return R.add(early, value)

    assert _peak(build(program([tensor("x", (SIDE, SIDE))], write))["main"], np.zeros((SIDE, SIDE), "f4")) < 3.5


def test_an_unread_value_is_freed_at_once() -> None:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        for _ in range(20):
            bb.emit(R.add(x, const(1.0)))
        return x

    assert _peak(build(program([tensor("x", (SIDE, SIDE))], write))["main"], np.zeros((SIDE, SIDE), "f4")) < 1.5


class _Watch:
    """Registers an outside function that notes which of the watched arrays are alive when it is called."""

    def __init__(self) -> None:
        self.watched: dict[str, weakref.ref[np.ndarray]] = {}
        self.alive: list[list[str]] = []

    def array(self, name: str) -> np.ndarray:
        value = np.zeros(3, "float32")
        self.watched[name] = weakref.ref(value)
        return value

    def __call__(self, value: np.ndarray) -> np.ndarray:
        self.alive.append([name for name, ref in self.watched.items() if ref() is not None])
        return value + 1

    def __enter__(self) -> _Watch:
        register_func("test.watch", self)
        return self

    def __exit__(self, *error: object) -> None:
        remove_global_func("test.watch")


def _watch(value: Expr) -> Call:
    return Call(ExternFunc("test.watch"), [value], ty_args=[TensorType((3,), "float32")])


def test_parameters_are_freed_after_their_last_read() -> None:
    def write(bb: BlockBuilder, x: Var, y: Var) -> Expr:
        first = bb.emit(R.add(x, x))
        seen = bb.emit(_watch(first))
        return _watch(bb.emit(R.add(seen, y)))

    mod = program([tensor("x", (3,)), tensor("y", (3,))], write, dataflow=False)
    with _Watch() as watch:
        build(mod)["main"](watch.array("x"), watch.array("y"))
    assert watch.alive == [["y"], []]


def test_a_branch_frees_what_only_the_other_branch_reads() -> None:
    condition = tensor("c", (), "bool")
    x, y = tensor("x", (3,)), tensor("y", (3,))
    bb = BlockBuilder()
    with bb.function("main", [condition, x, y], pure=False):
        bb.begin_scope()
        inner = bb.emit(R.add(x, x))
        then = bb.end_scope(bb.emit(_watch(inner)))
        bb.begin_scope()
        otherwise = bb.end_scope(bb.emit(_watch(bb.emit(R.add(y, y)))))
        from regraft.ir import If

        bb.emit_func_output(bb.emit(If(condition, then, otherwise)))
    exe = build(bb.get())
    with _Watch() as watch:
        exe["main"](True, watch.array("x"), watch.array("y"))
        exe["main"](False, watch.array("x"), watch.array("y"))
    assert watch.alive == [[], []]


def test_a_called_function_frees_its_arguments_too() -> None:
    bb = BlockBuilder()
    p = tensor("p", (3,))
    with bb.function("inner", [p], private=True, pure=False):
        bb.emit_func_output(bb.emit(_watch(bb.emit(R.add(p, p)))))
    x = tensor("x", (3,))
    with bb.function("main", [x], pure=False):
        bb.emit_func_output(bb.emit(bb.get().get_global_var("inner")(x)))
    exe = build(bb.get())
    assert "lv" in exe.source or "gv" in exe.source
    with _Watch() as watch:
        exe["main"](watch.array("x"))
    # The caller's own frame holds its variable until the call is over; what the callee bound is gone.
    assert watch.alive == [["x"]]


def test_a_returned_tuple_keeps_its_fields_only() -> None:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        big = bb.emit(R.add(x, x))
        return Tuple([bb.emit(R.sum(big)), bb.emit(R.sum(x))])

    exe = build(program([tensor("x", (SIDE, SIDE))], write))
    tracemalloc.start()
    try:
        result = exe["main"](np.zeros((SIDE, SIDE), "float32"))
        assert tracemalloc.get_traced_memory()[0] < 0.1 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert len(result) == 2
