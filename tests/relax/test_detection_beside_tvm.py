"""The operators of single-shot detectors give the values that Relax compiles, and its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax as theirs

import regraft as rx
from tests.kit import assert_close

pytestmark = pytest.mark.filterwarnings("ignore")

Build = Callable[[Any, Any], Any]


def boxes(seed: int, batch: int = 2, number: int = 8) -> np.ndarray:
    """Rows of class, score and corners, of which many overlap; some have no class, some a score below 0."""
    rng = np.random.default_rng(seed)
    rows = np.empty((batch, number, 6), np.float32)
    rows[:, :, 0] = rng.integers(-1, 3, (batch, number))
    rows[:, :, 1] = rng.permutation(batch * number).reshape(batch, number) / (batch * number) - 0.2
    low = rng.random((batch, number, 2)) * 0.4
    rows[:, :, 2:4], rows[:, :, 4:6] = low, low + 0.2 + rng.random((batch, number, 2)) * 0.5
    return rows


def here(build: Build, *arrays: np.ndarray, target: str = "numpy") -> list[np.ndarray]:
    builder = rx.BlockBuilder()
    params = [rx.Var(f"p{i}", rx.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(rx.op, params)))
    found = rx.build(builder.get(), target=target)["main"](*arrays)
    return [np.asarray(value) for value in (found if isinstance(found, tuple) else (found,))]


def there(build: Build, *arrays: np.ndarray) -> list[np.ndarray]:
    builder = theirs.BlockBuilder()
    params = [theirs.Var(f"p{i}", theirs.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(theirs.op, params)))
    machine = theirs.VirtualMachine(tvm.compile(builder.get(), "llvm"), tvm.cpu())
    found = machine["main"](*[tvm.runtime.tensor(array) for array in arrays])
    return [found.numpy()] if hasattr(found, "numpy") else [value.numpy() for value in found]


def agree(build: Build, *arrays: np.ndarray, target: str = "numpy") -> None:
    for ours, wanted in zip(here(build, *arrays, target=target), there(build, *arrays), strict=True):
        assert ours.dtype == wanted.dtype
        assert_close(ours, wanted)


@pytest.mark.parametrize("options", [{}, {"score_threshold": 0.3}, {"id_index": -1, "score_threshold": 0.5}])
def test_valid_boxes_move_to_the_front(options: dict[str, Any]) -> None:
    agree(lambda op, p: op.vision.get_valid_counts(p[0], **options), boxes(1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"iou_threshold": 0.2, "force_suppress": True},
        {"id_index": -1, "max_output_size": 2},
        {"top_k": 3, "iou_threshold": 0.3},
        {"return_indices": False, "iou_threshold": 0.3},
        {"return_indices": False, "invalid_to_bottom": True, "iou_threshold": 0.3, "force_suppress": True},
        {"soft_nms_sigma": 0.5, "iou_threshold": 0.6, "score_threshold": 0.1},
        {"soft_nms_sigma": 0.1, "force_suppress": True, "iou_threshold": 0.9, "max_output_size": 3},
    ],
)
@pytest.mark.parametrize("seed", [2, 3])
def test_boxes_that_overlap_a_better_one_are_dropped(options: dict[str, Any], seed: int) -> None:
    data = boxes(seed)
    counts = np.array([8, 5], np.int32)
    indices = np.random.default_rng(seed).permuted(np.tile(np.arange(8, dtype=np.int32), (2, 1)), axis=1)
    agree(lambda op, p: op.vision.non_max_suppression(*p, **options), data, counts, indices)


@pytest.mark.parametrize("target", ["onnxruntime", "torch", "xla"])
def test_other_engines_drop_the_same_boxes(target: str) -> None:
    data, counts = boxes(4, number=5), np.array([5, 3], np.int32)
    indices = np.tile(np.arange(5, dtype=np.int32), (2, 1))

    def build(op: Any, p: Any) -> Any:
        return op.vision.non_max_suppression(*p, iou_threshold=0.3)

    for ours, wanted in zip(
        here(build, data, counts, indices, target=target), here(build, data, counts, indices), strict=True
    ):
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip": True, "threshold": 0.3, "keep_background": False, "variances": (0.1, 0.1, 0.2, 0.2)},
        {"apply_softmax": False, "threshold": 0.1},
    ],
)
def test_boxes_are_decoded_from_their_anchors(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    scores, encoded = rng.standard_normal((2, 3, 5), np.float32), rng.standard_normal((2, 20), np.float32)
    low = rng.random((1, 5, 2), np.float32)
    anchors = np.concatenate([low, low + rng.random((1, 5, 2), np.float32)], axis=2)
    agree(lambda op, p: op.vision.multibox_transform_loc(*p, **options), scores, encoded, anchors)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda op, v: op.vision.get_valid_counts(v((5, 6))),
        lambda op, v: op.vision.get_valid_counts(v((2, 5, 6)), score_index=6),
        lambda op, v: op.vision.non_max_suppression(v((2, 5, 6)), v((2,), "int64"), v((2, 5), "int32")),
        lambda op, v: op.vision.non_max_suppression(v((2, 5, 6)), v((3,), "int32"), v((2, 5), "int32")),
        lambda op, v: op.vision.non_max_suppression(v((2, 5, 6)), v((2,), "int32"), v((2, 5), "int32"), coord_start=3),
        lambda op, v: op.vision.multibox_transform_loc(v((2, 3, 5)), v((2, 21)), v((1, 5, 4))),
        lambda op, v: op.vision.multibox_transform_loc(v((2, 3, 5)), v((2, 20)), v((1, 6, 4))),
        lambda op, v: op.vision.multibox_transform_loc(v((2, 3, 5)), v((2, 20)), v((1, 5, 4), "float16")),
    ],
)
def test_what_relax_refuses_is_refused(wrong: Build) -> None:
    with pytest.raises(rx.OpTypeError):
        wrong(rx.op, lambda shape, dtype="float32": rx.Var("x", rx.TensorType(shape, dtype)))
    with pytest.raises((ValueError, TypeError, tvm.error.InternalError)):
        theirs.BlockBuilder().normalize(
            wrong(theirs.op, lambda shape, dtype="float32": theirs.Var("x", theirs.TensorType(shape, dtype)))
        )
