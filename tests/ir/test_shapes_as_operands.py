"""The shape that a tensor's type has may stand wherever a shape is an operand: in a call, in a tuple, in a rule."""

from __future__ import annotations

import regraft as rx
from regraft.dpl import Matchings, is_op, wildcard
from regraft.ir import ShapeExpr
from regraft.script import relax as R
from regraft.testing import check_rule

x = rx.Var("x", rx.TensorType((2, 3), "float32"))
y = rx.Var("y", rx.TensorType((3, 2), "float32"))


def test_the_shape_of_a_type_becomes_an_expression_where_it_is_an_operand() -> None:
    shape = x.ty.shape
    calls = [R.reshape(y, shape), rx.Call(rx.Op.get("relax.reshape"), [y, shape]), R.shape_to_tensor(shape)]
    for call in calls:
        assert type(call.args[-1]) is ShapeExpr
    assert type(rx.Tuple([x, shape]).fields[1]) is ShapeExpr
    assert R.shape(shape).values == (2, 3)


def test_a_rule_may_reshape_to_the_shape_of_what_it_replaces() -> None:
    data = wildcard()

    def reshaped(expr: rx.Call, found: Matchings) -> rx.Expr:
        sizes, axes = found[data].ty.shape, expr.attrs.axes
        if sizes is None or axes is None:
            return rx.decline("the sizes are not known")
        moved = [axis for axis in axes if sizes[axis] != 1]
        return R.reshape(found[data], expr.ty.shape) if moved == sorted(moved) else rx.decline("elements move")

    rule = rx.Rule(is_op("relax.permute_dims")(data), reshaped, "transpose as reshape")
    assert check_rule(rule, examples=6, near_misses=6).rewrites > 0
