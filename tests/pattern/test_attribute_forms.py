"""One attribute, written in several ways: what `has_attr` takes for the same computes the same."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

import regraft as rx
from regraft import op
from regraft.dpl import is_op, wildcard
from regraft.ir.op import REQUIRED, attribute_key
from regraft.testing.open_choices import draw_attributes
from tests.kit import tensor

Attribute = dict[str, Any]


def value(*shape: int, dtype: str = "float32") -> rx.Var:
    return tensor(shape, dtype)


CUBE, ROW, IMAGE, KERNEL = value(2, 3, 4), value(6), value(1, 3, 8, 8), value(7, 3, 3, 3)

SAME: list[tuple[rx.Call, Attribute]] = [
    *[(op.sum(CUBE, axis=axis), {"axis": [0, 1]}) for axis in ([1, 0], [-3, 1], (-2, 0))],
    *[(fold(CUBE, axis=[2, 0]), {"axis": (0, -1)}) for fold in (op.mean, op.max, op.min, op.variance, op.std, op.prod)],
    (op.sum(CUBE, axis=[2, 1, 0]), {"axis": None}),
    (op.squeeze(value(1, 3, 1), [2, 0]), {"axis": [0, 2]}),
    (op.squeeze(value(1, 3, 1)), {"axis": [2, 0]}),
    (op.expand_dims(CUBE, [1, 0]), {"axis": [-5, 1]}),
    (op.argmax(ROW), {"axis": -1}),
    (op.cumsum(ROW, axis=0), {"axis": None}),
    (op.take(ROW, value(3, dtype="int64")), {"axis": 0}),
    (op.repeat(ROW, 2), {"axis": 0}),
    (op.cumsum(ROW), {"dtype": "float32"}),
    (op.zeros_like(ROW, "float32"), {"dtype": None}),
    (op.nn.conv2d(IMAGE, KERNEL, padding=1), {"padding": 1}),
    (op.nn.conv2d(IMAGE, KERNEL, padding=(1, 2)), {"padding": [1, 2]}),
    (op.nn.conv2d(IMAGE, KERNEL, strides=2), {"strides": 2}),
    (op.nn.conv2d(IMAGE, KERNEL), {"out_dtype": "float32"}),
    (op.nn.max_pool2d(IMAGE, (2, 2)), {"pool_size": 2}),
]
OTHER: list[tuple[rx.Call, Attribute]] = [
    (op.sum(CUBE, axis=[0, 2]), {"axis": [0, 1]}),
    (op.permute_dims(CUBE, [1, 0, 2]), {"axes": [0, 1, 2]}),
    (op.repeat(CUBE, 2), {"axis": 0}),
    (op.cumsum(ROW, dtype="float64"), {"dtype": None}),
    (op.sum(tensor(), axis=[0, 1]), {"axis": [-2, -1]}),
    (op.nn.conv2d(IMAGE, KERNEL, padding=(1, 2)), {"padding": 1}),
    (op.nn.max_pool2d(IMAGE, (2, 2)), {"strides": 2}),
    (op.nn.conv2d(IMAGE, KERNEL, strides=3), {"strides": [3]}),
    (op.nn.conv2d(IMAGE, KERNEL, padding=1), {"padding": [1]}),
]


def matches(call: rx.Call, wanted: Attribute) -> bool:
    operands = [wildcard() for _ in call.args]
    assert isinstance(call.op, rx.Op)
    return is_op(call.op.name)(*operands).has_attr(wanted).match(call)


@pytest.mark.parametrize(("call", "wanted"), SAME, ids=str)
def test_an_attribute_matches_by_what_it_stands_for(call: rx.Call, wanted: Attribute) -> None:
    assert matches(call, wanted)


@pytest.mark.parametrize(("call", "wanted"), OTHER, ids=str)
def test_an_attribute_that_stands_for_something_else_or_may_do_so_is_another(call: rx.Call, wanted: Attribute) -> None:
    assert not matches(call, wanted)


def test_a_rule_of_functions_takes_the_axes_of_a_reduction_in_any_order() -> None:
    rule = rx.rule(lambda x: op.sum(x, [0, 1]), lambda x: op.sum(op.sum(x, [1]), [0]), name="one by one")
    before = rx.parse(
        "@R.function\ndef main(x: R.Tensor((2, 3, 4), 'float32')):\n    y = R.sum(x, axis=[-2, 0])\n    return y\n"
    )
    assert rule(before, verify="values") is not before


def drawn_calls(random: Random, declared: rx.Op) -> list[rx.Call]:
    """Calls of an operator of one operand, with attributes drawn."""
    found: list[rx.Call] = []
    for shape in ((6,), (2, 3, 4), (1, 3, 1)):
        x = value(*shape)
        for _ in range(4):
            with suppress(rx.RegraftError, ValueError, TypeError, IndexError, ZeroDivisionError):
                found.append(rx.Call(declared, [x], draw_attributes(random, declared, [x], {}, open_rate=0.7)))
    return found


def test_what_matches_for_any_operator_of_one_tensor_has_the_type_and_the_values_of_the_call() -> None:
    random, compared = Random(0), 0
    own = [one for one in rx.Op.all() if one.name.startswith("relax.") and one.is_pure and one.reference is not None]
    for declared in (one for one in own if len(one.operands) == 1 and not one.variadic and one.attributes):
        calls = drawn_calls(random, declared)
        for call, other in ((call, other) for call in calls for other in calls):
            defaults = {key: default for key, default in declared.attributes.items() if default is not REQUIRED}
            for key, wanted in [*other.attrs.items(), *defaults.items()]:
                if attribute_key(wanted) != attribute_key(call.attrs[key]) and matches(call, {key: wanted}):
                    again = rx.Call(declared, call.args, {**call.attrs, key: wanted})
                    assert again.ty == call.ty, (call, key, wanted)
                    rx.testing.assert_same_values(program(call), program(again), seeds=[0])
                    compared += 1
    assert compared > 40


def program(call: rx.Call) -> rx.Function:
    builder = rx.BlockBuilder()
    with builder.function("main", [call.args[0]]):
        builder.emit_func_output(builder.emit(call))
    return builder.get()["main"]
