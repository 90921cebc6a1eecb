"""Weights of a program as safetensors: what their library reads, and what it writes is read here."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import regraft as rx
from regraft.ir import BlockBuilder
from regraft.op import add, astype, matmul
from tests.cli.harness import invoke

X = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")


def program(scale: float = 1.0) -> rx.IRModule:
    """``x @ w + b``, of a named weight, a nameless one, and one of half precision with a name that is taken."""
    random = np.random.default_rng(1)
    weight = rx.TensorData((random.standard_normal((8, 32)) * scale).astype("float32"), "layer.weight")
    shift = rx.TensorData(random.standard_normal(32).astype("float32"))
    narrow = rx.TensorData(random.standard_normal(32).astype(ml_dtypes.bfloat16), "layer.weight")
    builder = BlockBuilder()
    x = rx.Var("x", rx.TensorType((2, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(matmul(x, rx.Constant(weight)))
            moved = builder.emit(add(product, rx.Constant(shift)))
            result = builder.emit_output(add(moved, astype(rx.Constant(narrow), "float32")))
        builder.emit_func_output(result)
    return builder.get()


def run(module: rx.IRModule) -> np.ndarray:
    return np.asarray(rx.build(module, target="numpy")["main"](X))


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.relax"
    rx.save_script(program(), path, safetensors=True)
    return path


def test_a_program_comes_back_with_its_weights(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.relax", "model.relax.safetensors"]
    again = rx.load_script(path)
    rx.assert_structural_equal(again, program())
    np.testing.assert_array_equal(run(again), run(program()))


def test_the_library_of_the_format_reads_the_file(tmp_path: Path) -> None:
    found = load_file(f"{saved(tmp_path)}.safetensors")
    assert set(found) == {"layer.weight", "constant.1", "layer.weight.2"}
    weight = next(b.value.args[1] for b in program()["main"].body.blocks[0])
    np.testing.assert_array_equal(found["layer.weight"], weight.data.numpy())


def test_other_numbers_may_take_the_place_of_those_that_were_saved(tmp_path: Path) -> None:
    """As a tool that trained them would write them."""
    path = saved(tmp_path)
    beside = Path(f"{path}.safetensors")
    tensors = dict(load_file(beside))
    tensors["layer.weight"] = tensors["layer.weight"] * 2
    save_file(tensors, beside)
    np.testing.assert_allclose(run(rx.load_script(path)), run(program(scale=2.0)), rtol=1e-6)


def test_the_command_writes_and_reads_them(tmp_path: Path) -> None:
    path, output, onnx = saved(tmp_path), tmp_path / "out.relax", tmp_path / "out.onnx"
    done = invoke("optimize", path, "-o", output, "--safetensors", "--verify")
    assert done.exit_code == 0, done.stderr
    assert "out.relax.safetensors" in done.stdout
    np.testing.assert_allclose(run(rx.load_script(output)), run(program()), rtol=1e-6)
    assert invoke("convert", output, "-o", onnx).exit_code == 0
    assert invoke("convert", onnx, "-o", tmp_path / "out.relax.safetensors").exit_code == 2


def test_an_output_never_replaces_the_weights_of_its_input(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = Path(f"{path}.safetensors").read_bytes()
    assert invoke("optimize", path, "-o", path, "--safetensors").exit_code == 2
    assert Path(f"{path}.safetensors").read_bytes() == before


def changed_header(path: Path, name: str, **facts: object) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[name] |= facts
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"shape": [32, 8]}, r"is F32 \[32, 8\]; the program takes float32 \[8, 32\]"),
        ({"dtype": "F16"}, "is F16"),
        ({"data_offsets": [0, 10**9]}, "the file is damaged"),
        ({"data_offsets": [-1024, 0]}, "the file is damaged"),
        ({"data_offsets": "all"}, "is damaged"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(tmp_path: Path, facts: dict[str, object], message: str) -> None:
    path = saved(tmp_path)
    changed_header(Path(f"{path}.safetensors"), "layer.weight", **facts)
    with pytest.raises(rx.RegraftError, match=message):
        run(rx.load_script(path))


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"{", b"\x01" + bytes(7) + b"1", None])
def test_a_file_that_is_missing_or_damaged_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = saved(tmp_path)
    beside = Path(f"{path}.safetensors")
    beside.unlink()
    if content is not None:
        beside.write_bytes(content)
    with pytest.raises(rx.RegraftError, match=r"safetensors"):
        rx.load_script(path)


def test_a_dtype_that_the_format_lacks_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    data = rx.TensorData(np.zeros(32, ml_dtypes.int4), "packed")
    builder = BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            result = builder.emit_output(astype(rx.Constant(data), "float32"))
        builder.emit_func_output(result)
    with pytest.raises(rx.RegraftError, match="safetensors has no dtype int4"):
        rx.save_script(builder.get(), tmp_path / "model.relax", safetensors=True)
    assert list(tmp_path.iterdir()) == []
