"""Texts that TVM 0.27 printed, read here; and texts printed here, read by TVM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regraft as rx
from regraft import ParseError, assert_structural_equal

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.relax"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_text_that_tvm_printed_reads_and_prints_stably(path: Path) -> None:
    module = rx.parse(path.read_bytes(), path.name)
    text = module.script()
    again = rx.parse(text)
    assert_structural_equal(again, module)
    assert again.script() == text


def test_the_numbers_in_tvms_metadata_are_read() -> None:
    path = next(path for path in CORPUS if path.name == "constants_arrays.meta.relax")
    module = rx.parse(path.read_text(encoding="utf-8"))
    arrays = [binding.value.data.numpy() for binding in module["main"].body.blocks[0]]
    expected = [
        np.arange(3, dtype="float32"),
        np.arange(3, dtype="float16"),
        np.arange(3, dtype="float32"),
        np.arange(3, dtype="int8"),
        np.arange(3, dtype="int32"),
        np.arange(3, dtype="int32"),
        np.arange(3, dtype="uint8"),
        np.array([True, False]),
        np.zeros((2, 0), dtype="float32"),
        np.array([5], dtype="float32"),
    ]
    for actual, wanted in zip(arrays, expected, strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)


def test_a_tensor_on_what_is_no_device_is_refused() -> None:
    text = "@R.function\ndef main(x: R.Tensor((2,), vdevice='llvm:first')):\n    return x\n"
    with pytest.raises(ParseError, match=r"is no device"):
        rx.parse(text)


_OURS_ONLY = {
    "call_packed_sinfo_args_old_keyword.relax": "TVM takes the older keyword for an attribute",
    "prim_dtypes.relax": "TVM does not read back a tuple of scalars",
    "prim_value_str_dtype.relax": "TVM does not read back a tuple of scalars",
    "symbolic_arithmetic.relax": "equal sizes, which TVM compares as they are written",
    "tensor_with_shape_variable.relax": "a shape given by a variable is kept as its rank",
    "constants_inf_nan_scalar.relax": "TVM does not read back the infinities that it prints",
    "local_function.relax": "TVM does not read a function inside a function without its imports",
}


_READ_BY_BOTH = [path for path in CORPUS if "meta" not in path.name and path.name not in _OURS_ONLY]


def test_each_text_that_is_not_held_against_tvm_is_there_and_says_why() -> None:
    assert _OURS_ONLY.keys() <= {path.name for path in CORPUS}


@pytest.mark.parametrize("path", _READ_BY_BOTH, ids=lambda path: path.name)
def test_what_is_printed_here_tvm_reads_as_the_same_program(path: Path) -> None:
    import tvm
    from tvm.script import from_source

    theirs = from_source(path.read_text(encoding="utf-8"))
    ours = from_source(rx.parse(path.read_bytes()).script())
    tvm.ir.assert_structural_equal(ours, theirs, map_free_vars=True)
