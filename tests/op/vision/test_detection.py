"""The operators of single-shot detectors, on boxes whose overlaps are known."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.ir import OpTypeError, TensorType, Var, const
from regraft.op import vision
from regraft.op.evaluate import Evaluator

A, B, C = [0.0, 0.9, 0.0, 0.0, 1.0, 1.0], [0.0, 0.8, 0.0, 0.0, 1.0, 0.8], [1.0, 0.7, 0.0, 0.0, 1.0, 1.0]
FAR, NONE = [0.0, 0.6, 5.0, 5.0, 6.0, 6.0], [-1.0, 0.95, 0.0, 0.0, 1.0, 1.0]
"""Rows of class, score and corners: B covers 0.8 of A, C all of it in another class."""


def value(call):
    return Evaluator({}, lambda _var: None, lambda _size: 0).value(call)


def rows(*given):
    return const(np.asarray([given], np.float32))


def counts_and_places(number):
    return const(np.array([number], np.int32)), const(np.arange(number, dtype=np.int32)[None] + 10)


def test_weak_boxes_and_those_of_no_class_are_counted_out():
    count, data, places = value(vision.get_valid_counts(rows(NONE, B, FAR, A), score_threshold=0.7))
    assert count.tolist() == [2]
    np.testing.assert_allclose(data[0, :2], np.asarray([B, A], np.float32))
    assert (data[0, 2:] == -1).all()
    assert places.tolist() == [[1, 3, -1, -1]]


def test_a_box_of_its_class_that_overlaps_a_better_one_is_dropped():
    found, count = value(vision.non_max_suppression(rows(FAR, C, B, A), *counts_and_places(4), iou_threshold=0.5))
    assert found.tolist() == [[13, 11, 10, -1]]
    assert count.tolist() == [[3]]
    found, _ = value(
        vision.non_max_suppression(rows(FAR, C, B, A), *counts_and_places(4), iou_threshold=0.5, force_suppress=True)
    )
    assert found.tolist() == [[13, 10, -1, -1]]


def test_scores_of_boxes_that_overlap_less_decay():
    data, found, count = value(
        vision.non_max_suppression(rows(A, B), *counts_and_places(2), iou_threshold=0.9, soft_nms_sigma=0.5)
    )
    assert found.tolist() == [[10, 11]]
    assert count.tolist() == [[2]]
    np.testing.assert_allclose(data[0, :, 1], [0.9, 0.8 * np.exp(-(0.8**2))], rtol=1e-6)


def test_an_encoding_of_zeros_is_the_anchor():
    scores, nothing = const(np.zeros((1, 2, 1), np.float32)), const(np.zeros((1, 4), np.float32))
    anchor = const(np.array([[[0.1, 0.2, 0.5, 0.8]]], np.float32))
    found, shares = value(vision.multibox_transform_loc(scores, nothing, anchor))
    np.testing.assert_allclose(found, [[[0.2, 0.1, 0.8, 0.5]]], rtol=1e-6)
    np.testing.assert_allclose(shares, np.full((1, 2, 1), 0.5))


def test_a_place_that_a_row_does_not_have_is_named():
    with pytest.raises(OpTypeError, match=r"get_valid_counts: score_index=6; expected a place in a row of 6 elements"):
        vision.get_valid_counts(Var("x", TensorType((1, 4, 6))), score_index=6)
