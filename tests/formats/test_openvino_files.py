"""Files of OpenVINO are read as the programs that they are: each layer gives what OpenVINO gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
import torch
from openvino import opset15, opset16

import regraft as rx
from regraft.convert import ConvertError, UnsupportedOperatorError
from regraft.engine import build
from regraft.formats.openvino import from_openvino
from regraft.model import UsageError, open_model
from regraft.run.originals import openvino_original
from regraft.transform import op_counts
from tests.cli.harness import invoke
from tests.kit import assert_close

RNG = np.random.default_rng(5)
ops: Any = opset15
library: Any = ov


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def saved(
    path: Path, make: Callable[..., Any], inputs: Sequence[np.ndarray], sizes: Sequence[Any] | None = None
) -> Path:
    """A file of what ``make`` builds of its inputs."""
    shapes = [one.shape for one in inputs] if sizes is None else sizes
    params = [
        ops.parameter(list(shape), one.dtype, name=f"in{place}")
        for place, (one, shape) in enumerate(zip(inputs, shapes, strict=True))
    ]
    made = make(*params)
    model = library.Model(made if isinstance(made, list) else [made], params, "net")
    library.save_model(model, path / "net.xml", compress_to_fp16=False)
    return path / "net.xml"


def both(path: Path, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of OpenVINO, and those of the program that is read from the file."""
    found = build(from_openvino(path))["main"](*inputs)
    found = found if isinstance(found, list | tuple) else [found]
    return openvino_original(path, threads=1)(inputs), [np.asarray(one) for one in found]


IMAGE = f(2, 6, 9, 11)
LAYERS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "products with sides turned": (
        lambda a, b: ops.matmul(a, b, True, True), [f(2, 5, 3), f(2, 4, 5)]
    ),
    "a convolution": (
        lambda x: ops.convolution(x, f(7, 6, 3, 2), [2, 1], [1, 0], [0, 2], [1, 2]), [IMAGE]
    ),
    "a convolution with padding as it needs": (
        lambda x: ops.convolution(x, f(7, 6, 4, 3), [2, 2], [0, 0], [0, 0], [1, 1], "same_upper"), [IMAGE]
    ),
    "a convolution in groups": (
        lambda x: ops.group_convolution(x, f(3, 4, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]), [IMAGE]
    ),
    "a transposed convolution": (
        lambda x: ops.convolution_backprop_data(
            x, f(6, 4, 3, 3), [2, 2], None, [1, 1], [0, 1], [1, 1], "explicit", [1, 0]
        ),
        [IMAGE],
    ),
    "an average pool without its padding": (
        lambda x: ops.avg_pool(x, [2, 1], [1, 0], [1, 1], [3, 2], True, "ceil"), [IMAGE]
    ),
    "a maximum pool": (
        lambda x: ops.max_pool(x, [2, 1], [1, 2], [1, 0], [1, 1], [2, 3]).output(0), [IMAGE]
    ),
    "a norm over two axes": (lambda x: ops.mvn(x, np.array([1, 3]), True, 1e-3, "outside_sqrt"), [IMAGE]),
    "a batch norm": (
        lambda x: ops.batch_norm_inference(x, f(6), f(6), f(6), np.abs(f(6)) + 0.1, 1e-3), [IMAGE]
    ),
    "a group norm": (lambda x: ops.group_normalization(x, f(6), f(6), 3, 1e-3), [IMAGE]),
    "length one": (lambda x: ops.normalize_l2(x, np.array([1]), 1e-2, "max"), [IMAGE]),
    "division of whole numbers": (
        # Of negative ones OpenVINO's kernel cuts off, where its specification and its own folding round down.
        lambda a, b: ops.divide(a, b), [np.array([7, 6, 8, 0], np.int32), np.array([2, 3, 3, 3], np.int32)]
    ),
    "the rest of floats": (lambda a, b: ops.floor_mod(a, b), [f(3, 4) * 5, np.abs(f(4)) + 0.5]),
    "activations": (
        lambda x: ops.add(
            ops.swish(ops.clamp(x, -1.0, 0.5), np.float32(1.5)),
            ops.add(ops.hard_sigmoid(x, np.float32(0.3), np.float32(0.4)), ops.hsigmoid(ops.mish(x))),
        ),
        [IMAGE],
    ),
    "a slope for each channel": (lambda x: ops.prelu(x, f(6)), [IMAGE]),
    "gelu by tanh": (lambda x: ops.gelu(x, "tanh"), [IMAGE]),
    "attention": (
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, m),
        [f(2, 3, 5, 8), f(2, 3, 7, 8), f(2, 3, 7, 6), f(5, 7)],
    ),
    "a slice by masks": (
        lambda x: ops.strided_slice(
            x, [0, 1, -1, 8], [0, 5, 0, 0], [1, 2, 1, -3], [1, 0, 0, 0], [1, 0, 0, 1], [], [0, 0, 1, 0]
        ),
        [IMAGE],
    ),
    "a slice with a new axis": (
        lambda x: ops.strided_slice(x, [0, 0, 2], [0, 0, 5], [1, 1, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0]), [IMAGE]
    ),
    "pieces of which one is the rest": (
        lambda x: [ops.relu(ops.variadic_split(x, 1, np.array([1, -1, 2])).output(i)) for i in range(3)], [IMAGE]
    ),
    "a padding of edges": (lambda x: ops.pad(x, [0, 1, 2, 0], [1, 0, 0, 3], "edge"), [IMAGE]),
    "the largest, and where": (
        lambda x: [ops.relu(one) for one in (lambda t: (t.output(0), ops.convert(t.output(1), "f32")))(
            ops.topk(x, 3, 2, "max", "value")
        )], [IMAGE]
    ),
    "rows by number": (lambda x, i: ops.gather(x, i, 2), [IMAGE, np.array([[1, 8], [-1, 0]], np.int64)]),
    "rows that are written": (
        lambda x, i, u: ops.scatter_nd_update(x, i, u, "sum"),
        [f(5, 4), np.array([[1], [3], [1]], np.int64), f(3, 4)],
    ),
    "one of many": (
        lambda i: ops.one_hot(i, 5, np.float32(2), np.float32(-1), 1), [np.array([[1, 4], [0, 2]], np.int64)]
    ),
    "an image resized": (
        lambda x: ops.interpolate(
            x, np.array([7, 20], np.int64), "linear_onnx", "sizes", None, None, "align_corners", axes=np.array([2, 3])
        ),
        [IMAGE],
    ),
    "depth into space": (lambda x: ops.depth_to_space(x, "depth_first", 2), [f(2, 8, 3, 5)]),
    "all along an axis": (
        lambda x: ops.select(ops.reduce_logical_and(ops.greater(x, np.float32(-1)), 2, True), x, ops.negative(x)),
        [IMAGE],
    ),
    "sums on the way": (lambda x: ops.cumsum(x, np.int64(2), True, True), [IMAGE]),
    "a value in 20 levels": (
        lambda x: ops.fake_quantize(x, np.float32(-1), np.float32(2), np.float32(-2), np.float32(1), 20), [IMAGE]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_what_openvino_gives(name: str, tmp_path: Path) -> None:
    make, inputs = LAYERS[name]
    expected, found = both(saved(tmp_path, make, inputs), inputs)
    for before, after in zip(expected, found, strict=True):
        assert before.shape == after.shape
        assert_close(after, before)


class _Recurrent(torch.nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.inner = kind(6, 8, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, state = self.inner(x)
        return found, state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_networks_are_read_with_their_gates_in_order(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = _Recurrent(kind).eval(), torch.randn(3, 7, 6)
    library.save_model(library.convert_model(model, example_input=x), tmp_path / "net.xml", compress_to_fp16=False)
    with torch.no_grad():
        expected = model(x)
    _, found = both(tmp_path / "net.xml", [x.numpy()])
    for before, after in zip(expected, found, strict=True):
        assert_close(after, before.numpy())


@pytest.mark.parametrize(("low", "high", "dtype"), [(-1.0, 1.55, "uint8"), (0.0, 2.55, "uint8"), (-1.28, 1.27, "int8")])
def test_values_held_to_the_steps_of_bytes_are_quantized_again(
    low: float, high: float, dtype: str, tmp_path: Path
) -> None:
    ends = [np.float32(one) for one in (low, high, low, high)]
    x = np.arange(-40, 40, dtype=np.float32).reshape(8, 10) * np.float32(0.0713) + np.float32(0.002)
    path = saved(tmp_path, lambda x: ops.fake_quantize(x, *ends, 256), [x])
    module = from_openvino(path)
    assert op_counts(module) == {"relax.quantize": 1, "relax.dequantize": 1}
    expected, found = both(path, [x])
    assert_close(found[0], expected[0])
    assert dtype in ("uint8", "int8")


def test_sizes_that_are_not_known_are_named_and_weights_stay_in_their_file(tmp_path: Path) -> None:
    weights = f(64, 700)
    path = saved(tmp_path, lambda x: ops.relu(ops.matmul(x, weights, False, False)), [f(3, 64)], [[-1, 64]])
    module = from_openvino(path)
    assert [str(size) for size in module["main"].params[0].ty.shape] == ["in0_0", "64"]
    x = f(5, 64)
    expected, found = both(path, [x])
    assert_close(found[0], expected[0])
    fixed = from_openvino(path, dims={"in0_0": 4})
    assert fixed["main"].params[0].ty.shape == (4, 64)


def test_half_precision_that_is_widened_is_read(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 4)).eval()
    x = torch.randn(3, 20)
    library.save_model(library.convert_model(model, example_input=x), tmp_path / "net.xml", compress_to_fp16=True)
    expected, found = both(tmp_path / "net.xml", [x.numpy()])
    assert_close(found[0], expected[0])


def test_a_file_is_optimized_verified_and_written_as_one_or_as_onnx(tmp_path: Path) -> None:
    path = saved(
        tmp_path, lambda x: ops.add(ops.relu(ops.matmul(x, f(40, 50), False, False)), np.float32(0)), [f(6, 40)]
    )
    x = f(6, 40)
    before = openvino_original(path, threads=1)([x])
    for name in ("out.xml", "out.onnx"):
        result = invoke("optimize", path, "-o", tmp_path / name, "--verify")
        assert result.exit_code == 0, result.output
        assert_close(openvino_original(tmp_path / name, threads=1)([x])[0], before[0])
    made = rx.optimize(path)
    assert type(made).__name__ == "Model"
    assert invoke("inspect", path).exit_code == 0
    with pytest.raises(UsageError, match="would overwrite the input"):
        rx.optimize(path, output=path)


def _attending(x: Any, mask: Any) -> Any:
    heads = [ops.reshape(ops.matmul(x, f(16, 16), False, False), [2, 5, 2, 8], False) for _ in range(3)]
    turned = [ops.transpose(one, [0, 2, 1, 3]) for one in heads]
    found = ops.scaled_dot_product_attention(*turned, ops.multiply(mask, np.float32(0.5)))
    return ops.transpose(ops.power(found, np.float32(2)), [0, 2, 1, 3])


def _both_ways(x: Any, state: Any) -> list[Any]:
    lengths = np.full(3, 7, np.int32)
    gates, bias = f(2, 24, 6), f(2, 24)
    found = ops.gru_sequence(x, state, lengths, gates, f(2, 24, 8), bias, 8, "bidirectional")
    return [ops.relu(found.output(0)), ops.multiply(found.output(1), np.float32(3))]


@pytest.mark.parametrize(
    ("make", "inputs"), [(_attending, [f(2, 5, 16), f(2, 2, 5, 5)]), (_both_ways, [f(3, 7, 6), f(3, 2, 8)])]
)
def test_a_file_that_is_optimized_again_is_the_same_to_the_byte(
    make: Callable[..., Any], inputs: list[np.ndarray], tmp_path: Path
) -> None:
    path = saved(tmp_path, make, inputs)
    once, again = (tmp_path / f"{name}.xml" for name in ("once", "again"))
    rx.optimize(path, output=once)
    rx.optimize(once, output=again)
    assert once.read_bytes() == again.read_bytes()
    assert once.with_suffix(".bin").read_bytes() == again.with_suffix(".bin").read_bytes()
    expected, found = (openvino_original(one, threads=1)(inputs) for one in (path, again))
    for before, after in zip(expected, found, strict=True):
        assert_close(after, before)


def test_constants_of_no_elements_and_copies_of_values_are_read(tmp_path: Path) -> None:
    x, none = f(1, 1), np.zeros(0, np.int64)
    path = saved(tmp_path, lambda x: ops.exp(opset16.identity(ops.reshape(x, none, False))), [x])
    theirs, ours = both(path, [x])
    assert_close(ours[0], theirs[0])


def test_layers_that_have_no_counterpart_are_all_listed(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        lambda x: [ops.relu(ops.roll(x, 1, 2)), ops.relu(ops.reverse_sequence(x, np.array([1, 2]), 0, 1))],
        [IMAGE],
    )
    with pytest.raises(UnsupportedOperatorError, match=r"(?s)layers that cannot be read:.*ReverseSequence.*Roll"):
        open_model(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "this is no file of OpenVINO, or it is damaged"),
        (lambda text: "<html><body/></html>", "it has no net with layers"),
        (lambda text: text.replace('version="11"', 'version="7"', 1), "read are files of version 10 and later"),
        (lambda text: text.replace('version="11"', 'version="3.5"', 1), "and this one is of 3.5"),
        (lambda text: re.sub('offset="[0-9]+"', 'offset="nan"', text, count=1), "the constant .* is damaged: .*nan"),
        (lambda text: re.sub(' size="[0-9]+"', "", text, count=1), "the constant .* is damaged: 'size'"),
        (lambda text: text.replace('from-layer="0"', 'from-layer="99"'), "which is not there"),
        (lambda text: text.replace('offset="0"', 'offset="400000000"'), "beyond its end|too short"),
        (lambda text: text.replace('size="', 'size="9'), "bytes, where"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(damage: Callable[[str], str], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, lambda x: ops.matmul(x, f(40, 50), False, False), [f(6, 40)])
    path.write_text(damage(path.read_text()))
    result = invoke("inspect", path)
    assert result.exit_code != 0
    assert "internal error" not in result.output
    with pytest.raises(ConvertError, match=message):
        open_model(path)


def test_constants_that_are_gone_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, lambda x: ops.matmul(x, f(40, 50), False, False), [f(6, 40)])
    path.with_suffix(".bin").unlink()
    with pytest.raises(ConvertError, match=r"net\.bin"):
        open_model(path)
