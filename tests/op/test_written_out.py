"""Values of attributes that say the same in other words: axes from either end, and what defaults stand for.

Two values are taken for one exactly where the calls compute the same, by reference, on random operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import op
from regraft.analysis.values import same_attribute
from regraft.dpl import is_op, wildcard
from regraft.ir import Call, Op
from regraft.ir.errors import OpTypeError
from regraft.reference.trials import random_value

X = rx.Var("x", rx.TensorType((2, 3, 4), "float32"))
Y = rx.Var("y", rx.TensorType((2, 3, 4), "float32"))
LONE = rx.Var("lone", rx.TensorType((1, 3, 1), "float32"))
LABELS = rx.Var("labels", rx.TensorType((2, 2), "int64"))
PICKED = rx.const(np.arange(8).reshape(2, 2, 2) // 3 % 2, "int64")
PLACES = [-4, -3, -2, -1, 0, 1, 2, 3, None]
AXES = [*PLACES, [0], [-1], [2], [0, 1], [0, 2], [0, -1], [1, 0], [0, 1, 2], [-3, -2, -1]]
ORDERS = [None, [2, 1, 0], [-1, -2, -3], [0, 1, 2], [1, 0, 2], [-2, -3, -1]]

CASES: dict[str, tuple[str, list[Any], Callable[[Any], Any]]] = {
    "permute_dims": ("axes", ORDERS, lambda v: op.permute_dims(X, v)),
    "softmax": ("axis", PLACES, lambda v: op.nn.softmax(X, v)),
    "sort": ("axis", PLACES, lambda v: op.sort(X, v)),
    "argsort": ("axis", PLACES, lambda v: op.argsort(X, v)),
    "argmax": ("axis", PLACES, lambda v: op.argmax(X, v)),
    "cumsum": ("axis", PLACES, lambda v: op.cumsum(X, v)),
    "flip": ("axis", PLACES, lambda v: op.flip(X, v)),
    "concat": ("axis", PLACES, lambda v: op.concat([X, Y], v)),
    "stack": ("axis", PLACES, lambda v: op.stack([X, Y], v)),
    "split": ("axis", PLACES, lambda v: op.split(X, [1], v)),
    "take": ("axis", PLACES, lambda v: op.take(X, rx.const([0, 1], "int64"), v)),
    "repeat": ("axis", PLACES, lambda v: op.repeat(X, 2, v)),
    "gather_elements": ("axis", PLACES, lambda v: op.gather_elements(X, PICKED, v)),
    "one_hot": ("axis", PLACES, lambda v: op.one_hot(LABELS, rx.prim_value(1), rx.prim_value(0), 3, v)),
    "expand_dims": ("axis", AXES, lambda v: op.expand_dims(X, v)),
    "squeeze": ("axis", AXES, lambda v: op.squeeze(LONE, v)),
    "sum": ("axis", AXES, lambda v: op.sum(X, v)),
    "max": ("axis", AXES, lambda v: op.max(X, v, keepdims=True)),
    "mean": ("axis", AXES, lambda v: op.mean(X, v)),
    "std": ("axis", AXES, lambda v: op.std(X, v)),
    "matmul": ("out_dtype", [None, "float32", "float64"], lambda v: op.matmul(X, op.permute_dims(Y, [0, 2, 1]), v)),
    "attention": (
        "scale",
        [None, 0.5, 0.25],
        lambda v: op.nn.attention(*[op.reshape(one, (1, 2, 3, 4)) for one in (X, Y, X)], scale=v),
    ),
}


def computed(call: rx.Expr) -> tuple[Any, ...]:
    """The type of ``call`` and what it computes."""
    params = [X, Y, LONE, LABELS]
    random = np.random.default_rng(7)
    builder = rx.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(call))
    arguments = [random_value(param.ty, int, random, (0, 2)) for param in params]  # type: ignore[arg-type]
    found = rx.build(builder.get(), target="numpy")["main"](*arguments)
    found = tuple(found) if isinstance(found, tuple | list) else (found,)
    return (str(call.ty), *(np.asarray(one).tobytes() for one in found))


@pytest.mark.parametrize("name", CASES)
def test_two_values_of_an_attribute_are_one_where_the_calls_compute_the_same(name: str) -> None:
    attribute, values, build = CASES[name]
    calls: list[tuple[Any, Call, tuple[Any, ...]]] = []
    for value in values:
        try:
            call = build(value)
        except (OpTypeError, TypeError):
            continue
        calls.append((call.attrs[attribute], call, computed(call)))
    assert len(calls) > 2
    agreed = 0
    for held, call, result in calls:
        for wanted, _, other in calls:
            is_same = same_attribute(call, attribute, wanted)
            in_another_order = isinstance(held, tuple) and isinstance(wanted, tuple) and len(held) == len(wanted) > 1
            assert not is_same or result == other, (held, wanted)
            assert is_same or result != other or in_another_order, (held, wanted)
            agreed += is_same and held != wanted
    assert agreed or name == "sort"


def test_where_the_rank_is_not_known_only_the_same_words_are_one() -> None:
    unknown = rx.Var("u", rx.TensorType(None, "float32"))
    turned = is_op("relax.permute_dims")(wildcard())
    assert turned.has_attr({"axes": [1, 0]}).match(op.permute_dims(rx.Var("m", rx.TensorType((2, 3), "float32"))))
    assert not turned.has_attr({"axes": [1, 0]}).match(op.permute_dims(unknown))
    assert turned.has_attr({"axes": None}).match(op.permute_dims(unknown))
    assert not is_op("relax.sum")(wildcard()).has_attr({"axis": [0]}).match(op.sum(unknown))
    sized = rx.Var("s", rx.TensorType((rx.SymVar("n"), 3), "float32"))
    assert not is_op("relax.squeeze")(wildcard()).has_attr({"axis": []}).match(op.squeeze(sized))


def test_one_axis_is_that_axis_in_a_tuple() -> None:
    total = is_op("relax.sum")(wildcard()).has_attr({"axis": -1, "keepdims": False})
    assert total.match(op.sum(X, 2))
    assert not total.match(op.sum(X, 2, keepdims=True))


def test_every_operator_that_counts_axes_says_of_what() -> None:
    for one in Op.all():
        names = [name for name in one.attributes if name.endswith("axis") or name == "axes"]
        assert not names or -1 <= one.axes_of < len(one.operands), one.name


def test_explain_names_the_attribute_that_differs_and_none_that_says_the_same() -> None:
    function = rx.parse("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = R.sum(x, axis=[1], keepdims=True)
    return y
""")
    pattern = is_op("relax.sum")(wildcard()).has_attr({"axis": -1, "keepdims": False})
    [miss] = rx.explain(pattern, function).misses
    assert miss.reason == "keepdims=False is wanted, but sum(x) has keepdims=True"


def test_a_rule_of_two_functions_finds_a_call_that_says_the_same_in_other_words() -> None:
    rule = rx.rule(lambda x: op.permute_dims(op.permute_dims(x, [0, 2, 1]), [0, 2, 1]), lambda x: x, name="two turns")
    function = rx.parse("""
@R.function
def main(x: R.Tensor((2, 3, 4), "float32")):
    a = R.permute_dims(x, axes=[0, -1, -2])
    b = R.permute_dims(a, axes=[-3, 2, -2])
    c = R.exp(b)
    return c
""")
    assert "permute_dims" not in str(rule(function))
