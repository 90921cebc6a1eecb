"""The markers of the gradient: identities, of any type."""

import numpy as np
import pytest

from regraft.ir import Op, ShapeExpr, TensorType, Trait, TupleType, Var
from regraft.op.primitive.markers import end_checkpoint, no_grad, start_checkpoint
from tests.op.harness import check

MARKERS = [no_grad, start_checkpoint, end_checkpoint]


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_a_marker_leaves_its_operand_as_it_is(marker, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype).T
    check(marker, [x], x)


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_takes_a_value_of_any_type(marker):
    shape = ShapeExpr([2, 3])
    assert marker(shape).ty == shape.ty
    pair = TupleType([TensorType(None, "float32"), TensorType((2,), None)])
    assert marker(Var("t", pair)).ty == pair


def test_only_no_grad_stops_the_gradient():
    stops = {marker.__name__: Trait.STOPS_GRADIENT in Op.get(f"grad.{marker.__name__}").traits for marker in MARKERS}
    assert stops == {"no_grad": True, "start_checkpoint": False, "end_checkpoint": False}
