"""Helpers of the tests of passes: a pass run, its promises checked, and the ops of the result counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from regraft.analysis import well_formed
from regraft.ir import BlockBuilder, Expr, Function, IRModule, TensorType, Var
from regraft.reference.trials import difference
from regraft.testing import assert_same_values
from regraft.transform import Pass, op_counts
from tests.kit import program as program
from tests.kit import run as run


def signature(dtype: str = "float32", **shapes: tuple[object, ...]) -> str:
    """The parameters of a program as text: tensors of one dtype, by name and shape; sizes may be names."""

    def one(name: str, shape: tuple[object, ...]) -> str:
        dims = "".join(f'"{d}", ' if isinstance(d, str) else f"{d}, " for d in shape)
        return f'{name}: R.Tensor(({dims}), "{dtype}")'

    return ", ".join(one(name, shape) for name, shape in shapes.items())


def checked(one: Pass, program: Function, *, exact: bool = False, inputs: Sequence[Any] | None = None) -> Function:
    """``one(program)``, once it is well formed, computes the same values, and a second run changes nothing.

    Values are compared on ``inputs``, or on random ones.
    """
    result = one(program)
    well_formed(result)
    assert one(result) is result
    if inputs is None:
        tolerance = 0.0 if exact else None
        assert_same_values(program, result, rtol=tolerance, atol=tolerance)
    else:
        found = difference(run(program, inputs), run(result, inputs))
        assert found is None, str(found)
    return result


def checked_module(one: Pass, module: IRModule) -> IRModule:
    """As `checked`, for a module whose public functions keep their parameters."""
    result = one(module)
    well_formed(result)
    assert one(result) is result
    return result


def counts(function: Function | IRModule) -> Counter[str]:
    """The number of calls of each op, without the ``relax.`` of its name."""
    return Counter({name.removeprefix("relax."): count for name, count in op_counts(function).items()})


def module_of(shape: tuple[int, ...], body: Callable[[BlockBuilder, Expr], Expr]) -> IRModule:
    """A module of one function of a float32 tensor of ``shape``; ``body`` writes it and gives its result."""
    x = Var("x", TensorType(shape, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(body(builder, x))
        builder.emit_func_output(out)
    return builder.get()
