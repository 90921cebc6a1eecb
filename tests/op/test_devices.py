"""`to_vdevice` and `hint_on_device`: types name the device, and values are what they were."""

from __future__ import annotations

import pytest

import regraft as rx
from regraft.op import hint_on_device, to_vdevice
from regraft.script import relax as R


def test_a_tensor_on_another_device_keeps_the_rest_of_its_type() -> None:
    x = rx.Var("x", R.Tensor(("n", 3), "float16", rx.VDevice("llvm")))
    moved = to_vdevice(x, "cuda:1")
    assert moved.ty.vdevice == rx.VDevice("cuda", 1, "global")
    assert (moved.ty.shape, moved.ty.dtype) == (x.ty.shape, "float16")
    assert moved.attrs.dst_vdevice == rx.VDevice("cuda", 1)


def test_a_hint_changes_no_type() -> None:
    x = rx.Var("x", R.Tensor((2, 3), "float32"))
    assert hint_on_device(x, "cuda:1", memory_scope="shared").ty == x.ty


@pytest.mark.parametrize("device", [3, "", "cuda:first", None])
def test_what_is_no_device_is_refused(device: object) -> None:
    x = rx.Var("x", R.Tensor((2, 3), "float32"))
    with pytest.raises(rx.OpTypeError, match="is no device"):
        to_vdevice(x, device)  # pyright: ignore[reportArgumentType]
