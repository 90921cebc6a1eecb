"""Programs of 10,000 and 100,000 bindings: nothing recurses along a chain, and no user is forgotten.

How long it takes is the benchmarks' business; these would not end, or would overflow the stack, if it were wrong.
"""

from __future__ import annotations

import regraft as rx
from regraft.analysis import well_formed
from regraft.dpl import *
from regraft.script import relax as R
from tests.rewrite.algebra import double
from tests.rewrite.harness import assert_rewritten, op_counts


def test_one_value_with_ten_thousand_users_is_replaced_once() -> None:
    x = rx.Var("x", rx.TensorType((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            shared = builder.emit(R.add(x, x))
            users = [builder.emit(R.multiply(shared, R.const(float(i)))) for i in range(10_000)]
            result = builder.emit_output(R.concat(users, axis=0))
        builder.emit_func_output(result)
    before = builder.get()["main"]
    after = double()(before)
    assert op_counts(after) == {"relax.multiply": 10_001, "relax.concat": 1}
    assert len(after.body.blocks[0]) == len(before.body.blocks[0])
    assert_rewritten(before, after, exact=True)


def test_a_chain_of_100_000_bindings_is_rewritten() -> None:
    x = rx.Var("x", rx.TensorType((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(50_000):
                value = builder.emit(R.maximum(builder.emit(R.add(value, value)), x))
            result = builder.emit_output(R.negative(value))
        builder.emit_func_output(result)
    before = builder.get()["main"]
    after = double()(before)
    assert op_counts(after) == {"relax.multiply": 50_000, "relax.maximum": 50_000, "relax.negative": 1}
    assert well_formed(after)


def test_a_match_that_spans_a_chain_of_100_000_bindings_removes_it_all() -> None:
    x = rx.Var("x", rx.TensorType((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(100_000):
                value = builder.emit(R.nn.relu(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    before = builder.get()["main"]
    p = wildcard()
    twice = is_op("relax.nn.relu")(is_op("relax.nn.relu")(p))
    after = rewrite_call(twice, lambda _, m: R.nn.relu(m[p]), before)
    assert op_counts(after) == {"relax.nn.relu": 1}
    assert_rewritten(before, after, exact=True)
