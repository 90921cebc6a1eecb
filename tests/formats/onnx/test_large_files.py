"""Files of which constants are neither parsed nor copied: whatever is in them is read as ONNX itself reads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regraft.engine import build
from regraft.formats import ConvertError
from regraft.formats.onnx import from_onnx, to_onnx, wire
from regraft.formats.onnx.external_data import external_files
from regraft.formats.reading import telling
from regraft.ir.expr import Constant
from regraft.ir.visitor import walk
from regraft.transform import FoldConstant
from tests.kit import assert_close

ROWS, COLUMNS = 7, 5


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LEAST_FILE", 0)
    monkeypatch.setattr(wire, "_LEAST_CONSTANT", 16)


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal((ROWS, COLUMNS)).astype("float32") for name in ("one", "two")}


def model() -> onnx.ModelProto:
    stored = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    # Not raw bytes, but a field of floats, as some writers have it.
    stored.append(helper.make_tensor("typed", TensorProto.FLOAT, [COLUMNS], np.arange(COLUMNS, dtype="float32")))
    nodes = [helper.make_node("MatMul", ["x", name], [f"{name}_out"]) for name in weights()]
    nodes += [helper.make_node("Sum", ["one_out", "two_out", "typed"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", ROWS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])],
        stored,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    proto.metadata_props.add(key="who", value="nobody")
    return proto


def expected(x: np.ndarray) -> np.ndarray:
    one, two = weights().values()
    return x @ one + x @ two + np.arange(COLUMNS, dtype="float32")


def saved(path: Path) -> Path:
    onnx.save(model(), path)
    return path


def test_how_much_of_a_large_file_has_been_read_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.onnx")
    told: list[tuple[int, int]] = []
    with telling(lambda done, total: told.append((done, total))):
        wire.read_model(str(path))
    size = path.stat().st_size
    assert {total for _, total in told} == {size}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] > 0.9 * size
    told.clear()
    wire.read_model(str(path))
    assert not told


def test_a_model_is_the_same_but_for_its_constants_which_refer_to_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.onnx")
    proto = wire.read_model(str(path))
    outside = [tensor.name for tensor in proto.graph.initializer if tensor.data_location == TensorProto.EXTERNAL]
    assert outside == ["one", "two"]
    onnx.load_external_data_for_model(proto, str(tmp_path))
    whole = onnx.load(path)
    assert [numpy_helper.to_array(one).tobytes() for one in proto.graph.initializer] == [
        numpy_helper.to_array(one).tobytes() for one in whole.graph.initializer
    ]
    for one in (proto, whole):
        del one.graph.initializer[:]
    assert proto == whole


def test_its_program_computes_the_same_and_reads_its_weights_from_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.onnx")
    module = from_onnx(path)
    x = np.random.default_rng(1).standard_normal((3, ROWS)).astype("float32")
    for target in ("numpy", "onnxruntime"):
        assert_close(build(module, target=target)["main"](x), expected(x))
    assert external_files(path) == (path,)


def test_what_is_written_is_one_valid_file_that_onnx_reads_whole(tmp_path: Path) -> None:
    module = from_onnx(saved(tmp_path / "model.onnx"))
    returned = to_onnx(FoldConstant()(module), tmp_path / "out.onnx", external_data=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    whole = onnx.load(tmp_path / "out.onnx")
    assert [tensor.data_location for tensor in whole.graph.initializer] == [TensorProto.DEFAULT] * 3
    assert whole.metadata_props[0].value == "nobody"
    onnx.load_external_data_for_model(returned, str(tmp_path))
    assert {one.name for one in returned.graph.initializer} == {one.name for one in whole.graph.initializer}
    x = np.random.default_rng(2).standard_normal((2, ROWS)).astype("float32")
    assert_close(build(from_onnx(whole))["main"](x), expected(x))


def test_a_file_that_ends_anywhere_too_soon_is_damaged(tmp_path: Path) -> None:
    content = model().SerializeToString()
    path = tmp_path / "model.onnx"
    refused = 0
    for end in range(1, len(content), 3):
        path.write_bytes(content[:end])
        try:
            from_onnx(path)
        except ConvertError:
            refused += 1
    # Cut off exactly between two of its fields, a file may still be a model.
    assert refused >= len(range(1, len(content), 3)) - 3


def test_a_file_of_noise_is_damaged(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for size in (1, 10, 1000, 100_000):
        path = tmp_path / f"{size}.onnx"
        path.write_bytes(random.bytes(size))
        with pytest.raises(ConvertError, match="this is no ONNX model, or it is damaged"):
            from_onnx(path)


# --- links


def with_external_data(folder: Path) -> Path:
    folder.mkdir()
    onnx.save(model(), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder / "m.onnx"


def test_a_cache_of_links_into_one_folder_is_read(tmp_path: Path) -> None:
    with_external_data(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for name in ("m.onnx", "m.data"):
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / name)
    x = np.ones((2, ROWS), "float32")
    path = tmp_path / "snapshot" / "m.onnx"
    assert_close(build(from_onnx(path), target="numpy")["main"](x), expected(x))
    assert external_files(path) == (tmp_path / "blobs" / "m.data",)
    saved(tmp_path / "blobs" / "whole.onnx")
    (tmp_path / "snapshot" / "w.onnx").symlink_to(tmp_path / "blobs" / "whole.onnx")
    whole = from_onnx(tmp_path / "snapshot" / "w.onnx")
    assert_close(build(whole, target="numpy")["main"](x), expected(x))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "model")
    (tmp_path / "secret").write_bytes((tmp_path / "model" / "m.data").read_bytes())
    (tmp_path / "model" / "m.data").unlink()
    (tmp_path / "model" / "m.data").symlink_to(tmp_path / "secret")
    with pytest.raises(ConvertError, match=r"its data is in m\.data, outside of the model's folder; refused"):
        from_onnx(path)


def test_a_model_file_may_have_several_hard_links_but_not_what_lies_beside_it(tmp_path: Path) -> None:
    x = np.ones((2, ROWS), "float32")
    (tmp_path / "again.onnx").hardlink_to(saved(tmp_path / "whole.onnx"))
    assert_close(build(from_onnx(tmp_path / "again.onnx"), target="numpy")["main"](x), expected(x))
    path = with_external_data(tmp_path / "model")
    (tmp_path / "again.data").hardlink_to(tmp_path / "model" / "m.data")
    with pytest.raises(ConvertError, match=r"m\.data, a file with several hard links.*Put a copy of the file there"):
        from_onnx(path)


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited by Linux alone")
def test_constants_of_one_file_map_no_more_than_themselves(tmp_path: Path) -> None:
    count, size = 64, 1 << 20
    stored = [numpy_helper.from_array(np.full((size,), index, np.uint8), f"w{index}") for index in range(count)]
    nodes = [helper.make_node("Identity", [f"w{index}"], [f"y{index}"]) for index in range(count)]
    outputs = [helper.make_tensor_value_info(f"y{index}", TensorProto.UINT8, [size]) for index in range(count)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "many", [], outputs, stored)), path)
    module = from_onnx(path)

    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    before = mapped()
    constants = [leaf for leaf in walk(module["main"]) if isinstance(leaf, Constant)]
    arrays = [constant.data.numpy() for constant in constants]
    assert len(arrays) == count
    assert mapped() - before < 4 * count * size


def test_an_absolute_place_is_refused_even_inside_the_folder(tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "model")
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = str(tmp_path / "model" / "m.data")
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ConvertError, match=r"outside of the model's folder; refused"):
        from_onnx(path)


@contextmanager
def nobody() -> Generator[None]:
    """Inside, files are opened as someone who is not root, who may read every file."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_weights_that_may_not_be_read_are_named() -> None:
    with TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        os.chmod(folder, 0o755)
        path = with_external_data(Path(folder) / "model")
        (path.parent / "m.data").chmod(0)
        with nobody(), pytest.raises(ConvertError, match="no permission"):
            from_onnx(path)
