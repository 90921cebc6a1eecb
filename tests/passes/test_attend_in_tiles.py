"""Attention over many keys as ONNX Runtime's operator that takes them tile by tile: the same values, and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, IRModule, TensorType, Var
from regraft.transform import AttendInTiles, PassError, for_engine, op_counts, report
from tests.kit import assert_close

RNG = np.random.default_rng(2)
TILED = "com.microsoft.MultiHeadAttention"


def attention(queries: int, keys: int, heads: int = 2, groups: int = 2, **options: Any) -> IRModule:
    shapes = [(2, queries, heads, 8), (2, keys, groups, 8), (2, keys, groups, 4)]
    params = [Var(name, TensorType(shape, "float32")) for name, shape in zip("qkv", shapes, strict=True)]
    builder = BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(R.nn.attention(*params, **options)))
    return builder.get()


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}])
def test_many_keys_are_attended_to_in_tiles_with_the_same_values(options: dict[str, Any]) -> None:
    module = attention(5, 1000, **options)
    tiled = for_engine("onnxruntime")(module)
    assert dict(op_counts(tiled))[TILED] == 1
    arrays = [RNG.standard_normal(param.ty.shape).astype(np.float32) for param in module["main"].params]
    expected = np.asarray(rx.build(module, target="numpy")["main"](*arrays))
    for engine in ("onnxruntime", "numpy"):
        found = np.asarray(rx.build(tiled, target=engine)["main"](*arrays))
        assert_close(found, expected)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (attention(4, 999), "fewer than 1000 keys are faster without tiles"),
        (attention(4, 1000, heads=4), "heads share their keys"),
        (attention(1000, 1000, causal_mask="TopLeft"), "it has a causal mask"),
    ],
)
def test_what_is_left_says_why(module: IRModule, reason: str) -> None:
    done = report(AttendInTiles(), module)
    assert TILED not in op_counts(done.program)
    assert reason in str(done)


def test_an_engine_without_rules_of_its_own_gets_none_and_an_unknown_one_is_refused() -> None:
    module = attention(5, 1000)
    assert for_engine("openvino")(module) is module
    with pytest.raises(PassError, match="there are no rules for the engine 'abacus'"):
        for_engine("abacus")
    with pytest.raises(PassError, match="openvino keeps no cache in place"):
        for_engine("openvino", longest=8)
