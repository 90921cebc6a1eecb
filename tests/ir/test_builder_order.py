"""A builder that is asked for something out of order says so as Relax's does, by RuntimeError."""

from __future__ import annotations

import pytest

from regraft import BlockBuilder, TensorType, Var


def test_what_stands_in_the_wrong_place_is_a_runtime_error() -> None:
    x = Var("x", TensorType((2, 3)))
    with pytest.raises(RuntimeError, match="has no result"), BlockBuilder().function("main", [x]):
        pass
    with pytest.raises(RuntimeError, match="outside of a dataflow block"), BlockBuilder().function("main", [x]) as _:
        BlockBuilder.current().emit_output(x)  # type: ignore[union-attr]
    builder = BlockBuilder()
    with pytest.raises(RuntimeError, match="has no parameters"), builder.function("main"):
        builder.emit_func_output(x)
    with pytest.raises(RuntimeError, match="is opened inside function"), builder.function("main", [x]):
        builder.function("inner", [x]).__enter__()


def test_a_function_may_have_no_parameters_where_that_is_said() -> None:
    builder = BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(())
    assert builder.get()["main"].params == ()
