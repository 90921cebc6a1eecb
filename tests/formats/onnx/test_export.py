"""Writing programs as ONNX: what the model looks like, and that ONNX Runtime alone gets the same numbers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import regraft.op as R
from regraft.engine import build
from regraft.formats import from_onnx, to_onnx
from regraft.formats.onnx.read import untold
from regraft.formats.onnx.write.kernels import KERNELS
from regraft.formats.onnx.write.lowering import LOWERINGS, REASONS
from regraft.ir import (
    BlockBuilder,
    Function,
    If,
    IRModule,
    Op,
    Origin,
    ShapeExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    Var,
    const,
)
from regraft.script import ir as I
from regraft.script import relax as R_script
from regraft.script import tir as T
from tests.kit import assert_close

UNWRITABLE = {
    "assert_op",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_pure_packed",
    "call_py_func",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
    "memory.view",
    "null_value",
    "print",
}
"""What leaves the program: calls of outside functions, closures, checks, printing, and memory read as other types."""


def _run(model: onnx.ModelProto, *arrays: np.ndarray) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([value.name for value in session.get_inputs()], arrays, strict=True)))


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def test_every_primitive_is_written_in_nodes_of_its_own_or_leaves_the_program() -> None:
    names = {op.name.removeprefix("relax.") for op in Op.all() if op.name.startswith("relax.")}
    primitives = {op.name.removeprefix("relax.") for op in Op.all() if op.is_primitive}
    written = {name.removeprefix("relax.") for name in LOWERINGS if name.startswith("relax.")}
    assert primitives - written == UNWRITABLE
    assert written <= names


def test_a_composite_has_nodes_of_its_own_for_a_reason_only() -> None:
    assert set(REASONS) == {name for name in LOWERINGS if not Op.get(name).is_primitive}


def test_the_table_of_kernels_is_no_more_than_onnxruntime_has() -> None:
    state = onnxruntime.capi.onnxruntime_pybind11_state
    names = {"float": "float32", "double": "float64"}
    present: dict[str, set[str]] = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain == "":
            for types in kernel.type_constraints.values():
                plain = [text.removeprefix("tensor(").rstrip(")") for text in types]
                present.setdefault(kernel.op_name, set()).update(names.get(text, text) for text in plain)
    assert {op: types - present[op] for op, types in KERNELS.items() if types - present[op]} == {}


def test_an_onnx_with_more_dtypes_than_onnx_ir_knows_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    known = onnx.TensorProto.DataType.items()
    with monkeypatch.context() as patch:
        patch.setattr(onnx.TensorProto.DataType, "items", lambda: [*known, ("FLOAT3", 999)])
        importlib.reload(untold)
    importlib.reload(untold)


@I.ir_module
class Attends:
    @R_script.function
    def main(
        x: R_script.Tensor(("n", 8), "float32"),
        w: R_script.Tensor((8, 16), "float32"),
        b: R_script.Tensor((16,), "float32"),
    ) -> R_script.Tensor(("n", 16), "float32"):
        n = T.int64()
        with R_script.dataflow():
            h = R_script.add(R_script.matmul(x, w), b)
            q = R_script.reshape(R_script.nn.gelu(h), R_script.shape([1, n, 2, 8]))
            a = R_script.nn.attention(q, q, q, causal_mask="BottomRight")
            y = R_script.nn.softmax(R_script.reshape(a, R_script.shape([n, 16])), axis=-1)
            R_script.output(y)
        return y


def test_a_model_runs_on_onnxruntime_alone_at_any_size(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(Attends, path)
    reference = build(Attends, target="numpy")["main"]
    session = onnxruntime.InferenceSession(path)
    w, b = _random(8, 16), _random(16)
    for n in (1, 5, 12):
        x = _random(n, 8, seed=n)
        [found] = session.run(None, {"x": x, "w": w, "b": b})
        assert_close(found, reference(x, w, b))


def test_reading_what_was_written_keeps_operators_names_and_sizes() -> None:
    module = from_onnx(to_onnx(Attends))
    text = module.script()
    for operator in ("R.matmul", "R.nn.gelu", "R.nn.attention", "R.nn.softmax"):
        assert operator in text
    assert [param.name_hint for param in module["main"].params] == ["x", "w", "b"]
    assert str(module["main"].params[0].ty.shape) == "R.shape([n, 8])"
    assert module["main"].attrs["output_names"] == ("y",)


def test_origins_are_in_the_metadata_of_nodes() -> None:
    x = Var("x", TensorType((2, 3), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.origin(Origin("torch", "encoder.layer.0")):
            y = bb.emit(R.exp(x))
        bb.emit_func_output(y)
    [node] = to_onnx(bb.get()).graph.node
    assert [(item.key, item.value) for item in node.metadata_props] == [("regraft.origin", "torch:encoder.layer.0")]


def test_names_and_metadata_of_a_model_come_back(tmp_path: Path) -> None:
    helper = onnx.helper
    x = helper.make_tensor_value_info("input.1", onnx.TensorProto.FLOAT, ["batch size", 4])
    y = helper.make_tensor_value_info("/head/out:0", onnx.TensorProto.FLOAT, ["batch size", 4])
    node = helper.make_node("Relu", ["input.1"], ["/head/out:0"], name="/head/Relu")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(model, {"author": "someone"})
    back = to_onnx(from_onnx(model))
    assert [value.name for value in back.graph.input] == ["input.1"]
    assert [value.name for value in back.graph.output] == ["/head/out:0"]
    assert back.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch size"
    assert {item.key: item.value for item in back.metadata_props} == {"author": "someone"}
    assert [node.name for node in back.graph.node] == ["/head/Relu"]


def test_numbers_that_say_how_a_function_is_run_come_back_and_what_is_none_stays_metadata() -> None:
    x = Var("x", TensorType((2,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x], {"regraft.run.read_again_after": 8, "other": 3}):
        builder.emit_func_output(builder.emit(R.negative(x)))
    written = to_onnx(builder.get())
    assert [(one.key, one.value) for one in written.metadata_props] == [("regraft.run.read_again_after", "8")]
    onnx.helper.set_model_props(written, {"regraft.run.read_again_after": "8", "regraft.run.other": "soon"})
    back = from_onnx(written)
    assert back["main"].attrs["regraft.run.read_again_after"] == 8
    assert "regraft.run.other" not in back["main"].attrs
    again = {one.key: one.value for one in to_onnx(back).metadata_props}
    assert again == {"regraft.run.read_again_after": "8", "regraft.run.other": "soon"}


def test_results_that_are_parameters_constants_or_the_same_are_outputs_of_their_own() -> None:
    x = Var("x", TensorType((2,), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(R.add(x, x))
        bb.emit_func_output(Tuple([x, y, y, const([3.0, 4.0])]))
    found = _run(to_onnx(bb.get()), np.array([1, 2], np.float32))
    assert [value.tolist() for value in found] == [[1, 2], [2, 4], [2, 4], [3, 4]]


def test_tuples_shapes_and_private_functions_are_written_in_place() -> None:
    n = SymVar("n")
    a = Var("a", TensorType((n,), "float32"))
    bb = BlockBuilder()
    with bb.function("twice", [a], private=True):
        bb.emit_func_output(bb.emit(R.add(a, a)))
    m = SymVar("m")
    pair = Var("pair", Tuple([Var("p", TensorType((m,), "float32")), Var("q", TensorType((m,), "float32"))]).ty)
    size = Var("size", ShapeType([2, m]))
    with bb.function("main", [pair, size]):
        total = bb.emit(R.add(pair[0], pair[1]))
        doubled = bb.emit(bb.get().get_global_var("twice")(total))
        wide = bb.emit(R.broadcast_to(doubled, size))
        bb.emit_func_output(Tuple([wide, ShapeExpr([m * 2 + 1])]))
    model = to_onnx(bb.get())
    assert [value.name for value in model.graph.input] == ["pair_0", "pair_1", "size"]
    first, second = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    wide, sizes = _run(model, first, second, np.array([2, 3]))
    assert wide.tolist() == [[10, 14, 18]] * 2
    assert sizes.tolist() == [7]


def test_a_branch_is_an_if_that_sees_outer_values() -> None:
    flag, x = Var("flag", TensorType((), "bool")), Var("x", TensorType((3,), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [flag, x]):
        y = bb.emit(R.exp(x))
        bb.begin_scope()
        then = bb.end_scope(bb.emit(R.add(y, x)))
        bb.begin_scope()
        otherwise = bb.end_scope(x)
        bb.emit_func_output(bb.emit(If(flag, then, otherwise)))
    model = to_onnx(bb.get())
    assert "If" in [node.op_type for node in model.graph.node]
    array = _random(3)
    np.testing.assert_allclose(_run(model, np.array(True), array)[0], np.exp(array) + array, rtol=1e-6)
    np.testing.assert_array_equal(_run(model, np.array(False), array)[0], array)


@pytest.mark.parametrize(
    ("cuts", "places", "nodes"), [(3, [3, 6], 7), ([2], [2], 2), ([2, 5, 6], [2, 5, 6], 4)], ids=str
)
def test_parts_of_an_axis_of_open_size_are_cut_out(cuts: int | list[int], places: list[int], nodes: int) -> None:
    x = Var("x", TensorType((SymVar("n"), 4), "float32"))
    model = to_onnx(IRModule.from_expr(Function([x], R.split(x, cuts))))
    assert len(model.graph.node) <= nodes
    array = _random(7, 4)
    for found, expected in zip(_run(model, array), np.split(array, places), strict=True):
        assert_close(found, expected)


def test_a_size_inside_a_larger_one_is_solved_for() -> None:
    n = SymVar("n")
    x = Var("x", TensorType((n * 2 + 1,), "float32"))
    module = IRModule.from_expr(Function([x], R.zeros([n], "float32")))
    [found] = _run(to_onnx(module), np.zeros(9, np.float32))
    assert found.shape == (4,)


@pytest.mark.parametrize("external", [True, False, "auto"])
def test_constants_go_outside_when_asked_and_come_back_lazily(external: bool | str, tmp_path: Path) -> None:
    weights = _random(64, 32)
    x = Var("x", TensorType((2, 64), "float32"))
    path = tmp_path / "model.onnx"
    to_onnx(Function([x], R.matmul(x, const(weights))), path, external_data=external)
    assert (tmp_path / "model.onnx.data").exists() == (external is True)
    module = from_onnx(path)
    array = _random(2, 64, seed=1)
    if external is True:
        constant = next(arg for arg in module["main"].body.blocks[0].bindings[0].value.args if hasattr(arg, "data"))
        assert not constant.data.is_loaded
    found = build(module, target="onnxruntime")["main"](array)
    assert_close(found, array @ weights)


def test_constants_are_not_copied_until_they_are_written() -> None:
    from regraft.formats.onnx.write.writer import lower_function

    weights = _random(64, 32)
    x = Var("x", TensorType((2, 64), "float32"))
    lowered = lower_function(IRModule.from_expr(Function([x], R.matmul(x, const(weights)))), "main")
    [value] = lowered.graph.initializers.values()
    assert value.const_value is not None
    assert np.shares_memory(value.const_value.numpy(), weights)


@pytest.mark.parametrize("opset", [23, 24, 25, 26])
def test_every_opset_that_is_offered_gives_a_valid_model(opset: int) -> None:
    model = to_onnx(Attends, opset=opset)
    assert model.opset_import[0].version == opset
    onnx.checker.check_model(model, full_check=True)
    x, w, b = _random(3, 8), _random(8, 16), _random(16)
    assert_close(_run(model, x, w, b)[0], build(Attends, target="numpy")["main"](x, w, b))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(4, 6), (3, 4, 5)])
@pytest.mark.parametrize("batch", [2, SymVar("batch")])
def test_a_grid_of_an_affine_map_goes_before_its_sampling(
    batch: int | SymVar, size: tuple[int, ...], align_corners: bool
) -> None:
    rank = len(size)
    image = Var("image", TensorType((batch, 3, *[5] * rank), "float32"))
    theta = Var("theta", TensorType((batch, rank, rank + 1), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [image, theta]):
        with builder.dataflow():
            grid = builder.emit(R.image.affine_grid(theta, size, align_corners))
            layout = "NCHW" if rank == 2 else "NCDHW"
            found = R.image.grid_sample(image, grid, "bilinear", layout, "zeros", align_corners)
            result = builder.emit_output(found)
        builder.emit_func_output(result)
    module = builder.get()
    model = to_onnx(module)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds[-2:] == ["AffineGrid", "GridSample"]
    assert len(kinds) == (2 if isinstance(batch, int) else 4)
    arrays = _random(2, 3, *[5] * rank), _random(2, rank, rank + 1, seed=1)
    assert_close(_run(model, *arrays)[0], build(module, target="numpy")["main"](*arrays))
