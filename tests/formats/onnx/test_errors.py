"""Bad input: each kind has a message of its own, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
import regraft.op as R
from regraft.formats import ConvertError, UnsupportedOperatorError, from_onnx, to_onnx
from regraft.ir import Call, ExternFunc, Function, IRModule, ObjectType, RegraftError, TensorType, Var
from tests.formats.onnx.writing import onnx_model


def _model(*nodes: onnx.NodeProto, opset: int = 20, initializers: list[TensorProto] | None = None) -> onnx.ModelProto:
    constants = {one.name: one for one in initializers or []}
    return onnx_model(nodes, {"x": ["n", 3]}, ["y"], constants, opset=opset)


def _outside(location: str, length: int = 12) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return _model(helper.make_node("Add", ["x", "w"], ["y"]), initializers=[tensor])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="there is no such file"):
        from_onnx(tmp_path / "none.onnx")


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is a letter, not a model")
    with pytest.raises(ConvertError, match=r"text\.onnx: this is no ONNX model, or it is damaged"):
        from_onnx(path)


def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    with pytest.raises(ConvertError, match="this is no ONNX model"):
        from_onnx(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_file_is_an_error_of_ours(share: float, tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((3, 50), np.float32), "w")
    model = _model(helper.make_node("MatMul", ["x", "w"], ["y"]), initializers=[weights])
    whole = model.SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(RegraftError):
        from_onnx(path)


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_outside("weights.bin").SerializeToString())
    with pytest.raises(ConvertError, match=r"constant w: its data should be in .*weights\.bin"):
        from_onnx(path)


def test_external_data_that_is_too_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_outside("weights.bin").SerializeToString())
    (tmp_path / "weights.bin").write_bytes(b"1234")
    with pytest.raises(ConvertError, match="ends before byte 12; the file is damaged"):
        from_onnx(path)


@pytest.mark.parametrize("place", ["../secret.bin", "/etc/hostname", "link.bin"])
def test_external_data_outside_of_the_folder_is_refused(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "model.onnx"
    path.write_bytes(_outside(place).SerializeToString())
    with pytest.raises(ConvertError, match="outside of the model's folder; refused"):
        from_onnx(path)


def test_all_unsupported_operators_are_listed_with_their_nodes() -> None:
    model = _model(
        helper.make_node("RandomUniformLike", ["x"], ["a"], name="noise"),
        helper.make_node("Relu", ["x"], ["b"]),
        helper.make_node("Quaternion", ["b"], ["y"], name="turn"),
    )
    with pytest.raises(UnsupportedOperatorError) as caught:
        from_onnx(model)
    lines = str(caught.value).splitlines()
    assert lines[1:] == [
        "  RandomUniformLike (node noise): its values are random, but a program is deterministic; draw them outside "
        "and pass them as an input",
        "  Quaternion (node turn): the operator is not supported",
    ]


def test_an_opset_that_is_too_new_is_named() -> None:
    with pytest.raises(ConvertError, match="knows up to"):
        from_onnx(_model(helper.make_node("Relu", ["x"], ["y"]), opset=999))


def test_an_operator_that_has_not_changed_is_read_from_any_opset() -> None:
    model = _model(helper.make_node("Ceil", ["x"], ["c"]), helper.make_node("Tanh", ["x"], ["y"]), opset=6)
    assert "R.tanh" in from_onnx(model).script()


def test_wrong_types_in_a_model_name_the_node() -> None:
    model = _model(helper.make_node("MatMul", ["x", "x"], ["y"], name="product"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 5
    with pytest.raises(ConvertError, match=r"MatMul \(node product\): relax\.matmul: argument x2"):
        from_onnx(model)


def test_a_constant_for_an_input_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConvertError, match="there is no input 'z'"):
        from_onnx(_model(helper.make_node("Relu", ["x"], ["y"])), constants={"z": 1})


# --- writing


def _module(build: Callable[[Var], Call]) -> IRModule:
    x = Var("x", TensorType((2, 3), "float32"))
    return IRModule.from_expr(Function([x], build(x)))


def test_an_outside_function_cannot_be_written() -> None:
    module = _module(lambda x: Call(ExternFunc("my.kernel"), [x], None, [TensorType((2, 3), "float32")]))
    with pytest.raises(ConvertError, match=r'outside function "my\.kernel" cannot be written as ONNX'):
        to_onnx(module)


def test_an_unknown_dtype_cannot_be_written() -> None:
    x = Var("x", TensorType((2, 3), None))
    with pytest.raises(ConvertError, match=r"parameter x is .* an ONNX model needs its dtype"):
        to_onnx(Function([x], R.add(x, x)))


def test_an_object_cannot_be_an_input() -> None:
    x = Var("x", ObjectType())
    with pytest.raises(ConvertError, match=r"parameter x is .* takes and gives tensors, shapes and scalars"):
        to_onnx(Function([x], x))


def test_writing_into_a_folder_that_is_not_there_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="there is no folder"):
        to_onnx(_module(lambda x: R.add(x, x)), tmp_path / "none" / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ConvertError, match="No space left on device; nothing was written"):
        to_onnx(_module(lambda x: R.add(x, x)), path)
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["model.onnx"]


def test_an_opset_that_cannot_be_written_is_named() -> None:
    with pytest.raises(ConvertError, match="opset=9; expected 13 to"):
        to_onnx(_module(lambda x: R.add(x, x)), opset=9)


def test_the_functions_are_reached_from_the_top() -> None:
    assert rx.to_onnx is to_onnx
    assert rx.from_onnx is from_onnx
