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


def test_a_function_may_have_no_parameters_where_that_is_said() -> None:
    builder = BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(())
    assert builder.get()["main"].params == ()


def test_a_function_written_inside_another_is_a_function_of_the_module() -> None:
    x, y = Var("x", TensorType((2, 3))), Var("y", TensorType((2, 3)))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        kept = builder.emit(x)
        with builder.function("inner", [y]):
            builder.emit_func_output(builder.emit(y))
        builder.emit_func_output(kept)
    assert [binding.var for block in builder.get()["main"].body.blocks for binding in block.bindings] == [kept]
    assert sorted(variable.name_hint for variable in builder.get().functions) == ["inner", "main"]


def test_what_is_of_a_wrong_kind_is_a_type_error() -> None:
    builder = BlockBuilder()
    with pytest.raises(TypeError, match="parameters of a function are variables"), builder.function("main", ["x"]):  # type: ignore[list-item]
        pass
    with pytest.raises(TypeError, match="takes a binding"):
        builder.emit_normalized(Var("x", TensorType((2, 3))))  # type: ignore[arg-type]
