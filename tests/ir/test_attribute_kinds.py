"""Attributes of a kind that their operator cannot compute with: one clear error, whatever the operator."""

from __future__ import annotations

from typing import Any

import pytest

import regraft as rx
from regraft.script import relax as R

X = rx.Var("x", R.Tensor((2, 3), "float32"))
IMAGE = rx.Var("image", R.Tensor((1, 2, 4, 4), "float32"))


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("relax.nn.softmax", {"axis": {}}, r"relax\.nn\.softmax: axis=\{\}; an attribute is .* not a dict"),
        ("relax.cumsum", {"axis": "rows", "dtype": "float32"}, r"relax\.cumsum: axis='rows'; it takes no str there"),
        ("relax.argmax", {"axis": (1.5, "a"), "keepdims": True}, r"relax\.argmax: axis=\(1\.5, 'a'\)"),
        ("relax.expand_dims", {"axis": "a"}, r"relax\.expand_dims: axis='a'"),
        ("relax.nn.max_pool2d", {"pool_size": "text"}, r"max_pool2d: pool_size="),
        ("relax.astype", {"dtype": {}}, r"relax\.astype: dtype=\{\}; an attribute is .* not a dict"),
    ],
)
def test_an_attribute_of_a_wrong_kind_is_named(name: str, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(rx.OpTypeError, match=message):
        rx.Call(rx.Op.get(name), [IMAGE if "pool" in name else X], attrs)


def test_an_error_in_somebodys_own_type_rule_reaches_them_as_it_is() -> None:
    def careless(call: rx.Call) -> Any:
        return len(call.attrs.scale)

    op = rx.Op("test.careless_rule", ("x",), {"scale": 1.0}, infer=careless)
    with pytest.raises(TypeError, match=r"object of type 'float' has no len\(\)"):
        op(X)
