"""Rotary embedding as ONNX Runtime's one operator: the forms in which models write it, by value, and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.ir import Function
from regraft.transform import RotaryByKernel, for_engine, op_counts, report
from tests.kit import assert_close

RNG = np.random.default_rng(3)
KERNEL = "com.microsoft.RotaryEmbedding"

HALVES = """
        a = R.strided_slice(h, axes=[3], begin=[0], end=[4], strides=[1])
        b = R.strided_slice(h, axes=[3], begin=[4], end=[8], strides=[1])
        t = R.concat((R.negative(b), a), axis=-1)"""
PAIRS = """
        a = R.strided_slice(h, axes=[3], begin=[0], end=[8], strides=[2])
        b = R.strided_slice(h, axes=[3], begin=[1], end=[8], strides=[2])
        t = R.reshape(R.stack((R.negative(b), a), axis=-1), R.shape([2, {one}, {two}, 8]))"""
COLUMNS = """
        a = R.strided_slice(h, axes=[-1], begin=[0], end=[9999], strides=[2])
        b = R.strided_slice(h, axes=[-1], begin=[1], end=[9999], strides=[2])
        c1 = R.expand_dims(R.negative(b), axis=[-1])
        t = R.reshape(R.concat((c1, R.expand_dims(a, axis=[-1])), axis=-1), R.shape([2, {one}, {two}, 8]))"""
ROWS = """
        p = R.split(R.reshape(h, R.shape([2, {one}, {two}, 4, 2])), 2, axis=-1)
        a = R.squeeze(p[0], axis=[4])
        b = R.squeeze(p[1], axis=[4])
        t = R.reshape(R.stack((R.negative(b), a), axis=-1), R.shape([2, {one}, {two}, 8]))"""
TWICE = "R.concat((f, f), axis=-1)"
EACH_TWICE = "R.repeat(f, repeats=2, axis=-1)"
STACKED = "R.reshape(R.stack((f, f), axis=-1), R.shape([{batch}, 5, 8]))"
COLUMN_TWICE = """R.expand_dims(f, axis=[-1])
        ff = R.reshape(R.concat((ff, ff), axis=-1), R.shape([{batch}, 5, 8]))"""


def program(
    turned: str = HALVES, angles: str = TWICE, *, heads_first: bool = True, size: int = 8, batch: int = 1, **other: str
) -> Function:
    one, two = (3, 5) if heads_first else (5, 3)
    head = "x" if size == 8 else "R.strided_slice(x, axes=[3], begin=[0], end=[8], strides=[1])"
    rest = "" if size == 8 else f"\n        r = R.strided_slice(x, axes=[3], begin=[8], end=[{size}], strides=[1])"
    result = other.get("result", "y" if size == 8 else "R.concat((y, r), axis=-1)")
    return rx.parse(f"""
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((2, {one}, {two}, {size}), "float32"), f: R.Tensor(({batch}, 5, 4), "float32")):
    with R.dataflow():
        ff = {angles.format(batch=batch)}
        c = R.expand_dims({other.get("cosine", "R.cos(ff)")}, axis=[{1 if heads_first else 2}])
        s = R.expand_dims(R.sin(ff), axis=[{1 if heads_first else 2}])
        h = {head}{rest}{turned.format(one=one, two=two)}
        y = {other.get("sum", "R.add(R.multiply(h, c), R.multiply(t, s))")}
        z = {result}
        R.output(z)
    return z
""")


def assert_same(before: Function, after: Function) -> None:
    arrays = [RNG.standard_normal(param.ty.shape).astype(np.float32) for param in before.params]
    expected = np.asarray(rx.build(before, target="numpy")["main"](*arrays))
    for engine in ("numpy", "onnxruntime"):
        found = np.asarray(rx.build(after, target=engine)["main"](*arrays))
        assert_close(found, expected)


@pytest.mark.parametrize("heads_first", [True, False])
@pytest.mark.parametrize(("size", "batch"), [(8, 2), (11, 1)])
@pytest.mark.parametrize(
    ("turned", "angles"),
    [
        (HALVES, TWICE),
        (PAIRS, EACH_TWICE),
        (COLUMNS, EACH_TWICE),
        (ROWS, EACH_TWICE),
        (PAIRS, STACKED),
        (COLUMNS, COLUMN_TWICE),
    ],
)
def test_each_form_becomes_one_operator_with_the_same_values(
    turned: str, angles: str, batch: int, size: int, heads_first: bool
) -> None:
    before = program(turned, angles, heads_first=heads_first, size=size, batch=batch)
    after = for_engine("onnxruntime")(before)
    assert op_counts(after)[KERNEL] == 1
    assert "relax.negative" not in op_counts(after)
    assert_same(before, after)


def test_operands_in_the_other_order_and_scaled_tables_are_read_as_well() -> None:
    before = program(
        sum="R.add(R.multiply(s, t), R.multiply(c, h))", cosine="R.multiply(R.cos(ff), R.const(0.5, 'float32'))"
    )
    after = RotaryByKernel()(before)
    assert op_counts(after)[KERNEL] == 1
    assert_same(before, after)


def test_heads_that_come_first_by_a_transpose_are_turned_before_it() -> None:
    before = rx.parse("""
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((2, "n", 24), "float32"), f: R.Tensor((1, "n", 4), "float32")):
    n = T.int64()
    with R.dataflow():
        ff = R.concat((f, f), axis=-1)
        c = R.expand_dims(R.cos(ff), axis=[1])
        s = R.expand_dims(R.sin(ff), axis=[1])
        h = R.permute_dims(R.reshape(x, R.shape([2, n, 3, 8])), axes=[0, 2, 1, 3])
        a = R.strided_slice(h, axes=[3], begin=[0], end=[4], strides=[1])
        b = R.strided_slice(h, axes=[3], begin=[4], end=[8], strides=[1])
        t = R.concat((R.negative(b), a), axis=-1)
        y = R.add(R.multiply(h, c), R.multiply(t, s))
        z = R.reshape(R.permute_dims(y, axes=[0, 2, 1, 3]), R.shape([2, n, 24]))
        R.output(z)
    return z
""")
    after = for_engine("onnxruntime")(before)
    assert op_counts(after)[KERNEL] == 1
    assert "relax.permute_dims" not in op_counts(after)
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 24), (1, 6, 4))]
    expected = np.asarray(rx.build(before, target="numpy")["main"](*arrays))
    found = np.asarray(rx.build(after, target="onnxruntime")["main"](*arrays))
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (program(angles="R.concat((f, R.exp(f)), axis=-1)"), "not known to be equal"),
        (program(angles=EACH_TWICE), "not known to be equal"),
        (program(PAIRS, TWICE), "not known to be equal"),
        (program(HALVES, STACKED), "not known to be equal"),
        (program(PAIRS, STACKED.replace("(f, f)", "(f, R.exp(f))")), "not known to be equal"),
        (program(PAIRS, STACKED.replace("axis=-1", "axis=-2")), "not known to be equal"),
        (program(HALVES.replace("(R.negative(b), a)", "(R.negative(a), b)")), "not the pairs of one tensor"),
        (
            program(HALVES.replace("slice(h, axes=[3], begin=[4]", "slice(R.exp(h), axes=[3], begin=[4]")),
            "not the pairs",
        ),
        (program(PAIRS.replace("axis=-1", "axis=-2"), EACH_TWICE), "not the pairs of one tensor"),
        (program(ROWS.replace("(R.negative(b), a)", "(R.negative(a), b)"), EACH_TWICE), "not the pairs of one tensor"),
        (program(ROWS.replace("p[0], axis=[4]", "p[1], axis=[4]"), EACH_TWICE), "not the pairs of one tensor"),
        (program(sum="R.add(R.multiply(h, R.exp(h)), R.multiply(t, s))"), "its data and tables"),
    ],
)
def test_what_is_no_rotation_stays_with_the_reason(before: Function, reason: str) -> None:
    done: Any = report(RotaryByKernel(), before)
    assert KERNEL not in op_counts(done.program)
    assert reason in str(done)
