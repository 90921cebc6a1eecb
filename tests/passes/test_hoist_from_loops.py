"""HoistFromLoops: what is the same in every step is computed once, and nothing that could fail without a step."""

from __future__ import annotations

from collections import Counter
from typing import Any, no_type_check

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.ir import Call, Function, IRModule, iter_bindings
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import DeadCodeElimination, HoistFromLoops, Sequential
from tests.kit import assert_close

_HOIST = Sequential([HoistFromLoops(), DeadCodeElimination()])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng([3, *shape]).standard_normal(shape).astype(np.float32)


def _within(module: IRModule) -> Counter[str]:
    """The operators in the bodies of the loops of a module."""
    found: Counter[str] = Counter()
    for binding in iter_bindings(module["main"]):
        if isinstance(binding.value, Function):
            calls = [inner.value for inner in iter_bindings(binding.value) if isinstance(inner.value, Call)]
            found.update(call.op.name.removeprefix("relax.") for call in calls)  # type: ignore[union-attr]
    return found


def _hoisted(module: IRModule, *inputs: Any) -> IRModule:
    """The module after the pass, which has nothing left to do, once it gives the same on two engines."""
    after = _HOIST(module)
    well_formed(after)
    assert _HOIST(after) is after
    for target in ("numpy", "onnxruntime"):
        results = [rx.build(one, target=target)["main"](*inputs) for one in (module, after)]
        for before, now in zip(*results, strict=True):
            assert_close(now, before)
    return after


@I.ir_module
class Carrying:
    @R.function
    @no_type_check
    def main(
        x: R.Tensor((4, 6), "float32"),
        w: R.Tensor((5, 6), "float32"),
        v: R.Tensor((5, 6), "float32"),
        steps: R.Tensor((), "int64"),
    ):
        @R.function
        @no_type_check
        def step(
            i: R.Tensor((), "int64"),
            weight: R.Tensor((5, 6), "float32"),
            state: R.Tensor((4, 6), "float32"),
            other: R.Tensor((5, 6), "float32"),
        ):
            turned = R.permute_dims(weight)
            wide = R.matmul(state, turned)
            half = R.multiply(other, R.const(0.5, "float32"))
            back = R.matmul(wide, half)
            return weight, R.tanh(back), other, R.sum(back)

        found = R.loop(step, (w, x, v), count=steps)
        return found


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_value_that_every_step_hands_on_is_carried_no_more(steps: int) -> None:
    after = _hoisted(Carrying, _random(4, 6), _random(5, 6), _random(5, 6)[::-1].copy(), np.asarray(steps))
    assert _within(after) == Counter({"matmul": 2, "tanh": 1, "sum": 1})
    [loop] = [b.value for b in iter_bindings(after["main"]) if isinstance(b.value, Call) and len(b.value.args) == 4]
    assert len(loop.args[1].fields) == 1  # type: ignore[attr-defined]


@I.ir_module
class MayFail:
    @R.function
    @no_type_check
    def main(
        table: R.Tensor((6, 4), "float32"),
        places: R.Tensor((3,), "int64"),
        column: R.Tensor((3, 1), "float32"),
        steps: R.Tensor((), "int64"),
    ):
        @R.function
        @no_type_check
        def step(i: R.Tensor((), "int64"), state: R.Tensor((3, 4), "float32")):
            rows = R.take(table, places, axis=0)
            halves = R.floor_divide(places, places)
            scale = R.astype(R.expand_dims(halves, [1]), "float32")
            wide = R.broadcast_to(column, (3, 400))
            return R.add(R.multiply(state, scale), rows), wide

        found = R.loop(step, (R.zeros((3, 4), "float32"),), count=steps)
        return found


@pytest.mark.parametrize("places", [[1, 5, 2], [1, 2, 3]])
def test_lookups_divisions_of_integers_and_what_grows_stay_in_the_body(places: list[int]) -> None:
    after = _hoisted(MayFail, _random(6, 4), np.asarray(places), _random(3, 1), np.asarray(2))
    assert _within(after) == _within(MayFail)
    found = rx.build(after, target="numpy")["main"](_random(6, 4), np.asarray([0, 9, 9]), _random(3, 1), np.asarray(0))
    np.testing.assert_array_equal(found[0], np.zeros((3, 4), np.float32))


@I.ir_module
class Nested:
    @R.function
    @no_type_check
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        @R.function
        @no_type_check
        def outer(i: R.Tensor((), "int64"), state: R.Tensor(("n", 4), "float32")):
            @R.function
            @no_type_check
            def inner(j: R.Tensor((), "int64"), value: R.Tensor(("n", 4), "float32")):
                fixed = R.matmul(x, w)
                here = R.multiply(state, state)
                new = R.add(R.add(value, fixed), here)
                return R.less(R.sum(new), R.const(50.0, "float32")), new

            found = R.loop(inner, (state,), count=3, condition=R.const(True, "bool"))
            return (found[0],)

        result = R.loop(outer, (x,), count=2)
        return result


def test_what_the_outer_loop_does_not_change_leaves_both() -> None:
    after = _hoisted(Nested, _random(3, 4), _random(4, 4))
    assert str(after["main"].body.blocks[0].bindings[0].value) == "R.matmul(x, w, out_dtype=None)"
    assert _within(after) == Counter({"add": 4, "sum": 2, "less": 2, "multiply": 1, "loop": 1})
