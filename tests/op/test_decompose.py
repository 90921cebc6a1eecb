"""Decomposition: what an operator means, run over expressions, is a program of other operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import op
from regraft.analysis import call_cost
from regraft.gradient import Gradient
from regraft.ir import BlockBuilder, Call, IRModule, MatchCast, Op, TensorType, Var
from regraft.ir import op as ir_op
from regraft.ir.visitor import iter_bindings
from regraft.op import nn
from regraft.op.decompose import decompose
from regraft.op.program_xp import DecomposeError
from regraft.transform import Legalize, PassError
from tools.ops_table import YES, columns, row


def _squashed(xp: Any, x: Any, scale: float) -> Any:
    return xp.tanh(x * scale) / (xp.abs(x) + 1.0)


@pytest.fixture
def squash() -> Iterator[Op]:
    """A composite that says no more than its type and its meaning."""
    yield Op("relax.nn.squash", ("x",), {"scale": 2.0}, infer=lambda call: call.args[0].ty, reference=_squashed)
    ir_op._registry.pop("relax.nn.squash")


def _called(program: IRModule) -> list[str]:
    calls = [binding.value for binding in iter_bindings(program) if isinstance(binding.value, Call)]
    return [call.op.name for call in calls if isinstance(call.op, Op)]


def _module(build: Any, *types: TensorType) -> IRModule:
    builder, params = BlockBuilder(), [Var(f"x{i}", ty) for i, ty in enumerate(types)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(*params)))
    return builder.get()


X = TensorType((2, 3), "float32")


def test_a_decomposition_computes_on_the_operands_of_the_call(squash: Op) -> None:
    x = Var("x", X)
    program = decompose(squash(x))
    assert [b.value.op.name for b in program.bindings] == [
        "relax.multiply",
        "relax.tanh",
        "relax.abs",
        "relax.add",
        "relax.divide",
    ]
    assert program.bindings[0].value.args[0] is x
    assert program.value.ty == X


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_a_new_composite_runs_on_every_engine(squash: Op, target: str) -> None:
    x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
    found = np.asarray(rx.build(_module(squash, X), target=target)["main"](x))
    np.testing.assert_allclose(found, np.tanh(2 * x) / (np.abs(x) + 1), rtol=1e-6)


def test_a_new_composite_is_written_as_onnx_nodes(squash: Op) -> None:
    model = rx.to_onnx(_module(squash, X))
    assert {node.op_type for node in model.graph.node} == {"Mul", "Tanh", "Abs", "Add", "Div"}


def test_a_new_composite_has_the_gradient_of_its_meaning(squash: Op) -> None:
    adjoint = Gradient("main")(_module(lambda x: op.sum(squash(x)), TensorType((2, 3), "float64")))
    x = np.linspace(-3, 3, 6).reshape(2, 3)
    _, (found,) = rx.build(adjoint, target="numpy")["main_adjoint"](x)
    tanh, width = np.tanh(2 * x), np.abs(x) + 1
    np.testing.assert_allclose(found, 2 * (1 - tanh**2) / width - tanh * np.sign(x) / width**2, rtol=1e-12)


def test_a_new_composite_costs_what_its_decomposition_does(squash: Op) -> None:
    assert call_cost(squash(Var("x", X))).operations == 5 * 6


def test_a_new_composite_is_on_the_page_of_operators(squash: Op) -> None:
    cells = dict(zip(columns(), row(squash), strict=True))
    assert cells["kind"] == "composite"
    assert cells["precision"] == "keeps"
    assert (cells["reference"], cells["gradient"], cells["onnx"], cells["torch"]) == (YES, YES, YES, YES)


def test_sizes_that_are_not_known_get_names_in_a_decomposition() -> None:
    module = _module(lambda x: nn.pixel_shuffle(x, 2), TensorType(None, "float32", 4))
    program = Legalize()(module)
    assert any(isinstance(binding, MatchCast) for binding in iter_bindings(program))
    x = np.arange(2 * 4 * 3 * 5, dtype=np.float32).reshape(2, 4, 3, 5)
    expected = rx.build(module, target="numpy")["main"](x)
    np.testing.assert_array_equal(rx.build(program, target="numpy")["main"](x), expected)


def test_what_is_kept_stays_whole() -> None:
    module = _module(lambda x: nn.silu(nn.mish(x)), X)
    kept = Legalize(keep=["nn.mish"])(module)
    assert "relax.nn.mish" in _called(kept)
    assert "relax.nn.silu" not in _called(kept)
    assert Legalize(keep=lambda call: True)(module) is module


def test_an_unknown_rank_is_an_error_that_says_what_to_do() -> None:
    module = _module(lambda x: nn.pixel_shuffle(x, 2), TensorType(None, "float32"))
    with pytest.raises(PassError, match=r"rank .* is not known; state its shape with a match_cast"):
        Legalize()(module)


def test_an_operator_without_meaning_has_no_decomposition() -> None:
    opaque = Op("test.opaque", ("x",), infer=lambda call: call.args[0].ty)
    with pytest.raises(DecomposeError, match="no definition"):
        decompose(opaque(Var("x", X)))
    ir_op._registry.pop("test.opaque")


def test_a_pool_over_an_axis_of_unknown_size_has_a_cost_and_no_decomposition() -> None:
    pool = nn.max_pool2d(Var("x", TensorType((1, 4, 6, rx.SymVar("w")), "float32")), (3, 3), padding=1)
    assert isinstance(pool, Call)
    with pytest.raises(DecomposeError, match="symbolic"):
        decompose(pool)
    assert call_cost(pool).operations is not None
