"""annotate_sharding: an identity with a placement that is checked where it is written."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError
from regraft.op.primitive.dist import ANNOTATE_SHARDING, DeviceMesh, device_mesh, placement_axes
from tests.gradient.checks import check_gradient
from tests.op.harness import check
from tests.op.samples import tensor


def test_annotate_sharding_changes_nothing() -> None:
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    check(lambda v: R.dist.annotate_sharding(v, device_mesh((2, 4)), "S[1], R"), [x], x)
    check_gradient(lambda v: R.dist.annotate_sharding(v, "mesh[0]", "R"), x)


def test_a_placement_names_an_axis_of_the_tensor_for_each_axis_of_the_mesh() -> None:
    assert placement_axes("S[1], R,S[0]") == (1, None, 0)
    assert R.dist.annotate_sharding(tensor((2, 3)), (2, 4), "S[1],R").attrs.placement == "S[1], R"
    assert device_mesh((2,)) == DeviceMesh((2,), (0, 1))


def test_a_wrong_annotation_is_refused_where_it_is_written() -> None:
    x = tensor((8, 6))
    with pytest.raises(OpTypeError, match="'S0' is no placement"):
        R.dist.annotate_sharding(x, (2,), "S0")
    with pytest.raises(OpTypeError, match="axes of the operand, which has 2"):
        R.dist.annotate_sharding(x, (2,), "S[2]")
    with pytest.raises(OpTypeError, match="an entry for each of the 2 axes of the mesh"):
        R.dist.annotate_sharding(x, (2, 4), "R")
    with pytest.raises(OpTypeError, match=r"a mesh of I.module_global_infos, such as \"mesh\[0\]\""):
        R.dist.annotate_sharding(x, "mesh", "R")
    with pytest.raises(OpTypeError, match="1 is no placement"):
        ANNOTATE_SHARDING(x, device_mesh=(2,), placement=1)
    with pytest.raises(OpTypeError, match="device_mesh=2; expected the name of a mesh"):
        ANNOTATE_SHARDING(x, device_mesh=2, placement="R")
    with pytest.raises(OpTypeError, match=r"\(2, 4\) is a grid of 8 devices; 3 are given"):
        device_mesh((2, 4), [0, 1, 2])
