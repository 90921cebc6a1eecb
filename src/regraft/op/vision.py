"""Operators of object detection, reached as ``regraft.op.vision`` and, in scripts, as ``R.vision``."""

from __future__ import annotations

from .extras.detection import get_valid_counts, multibox_transform_loc, non_max_suppression
from .extras.non_max_suppression import all_class_non_max_suppression
from .extras.roi_align import roi_align
from .extras.roi_pool import roi_pool, roi_pool_backward

__all__ = [
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_transform_loc",
    "non_max_suppression",
    "roi_align",
    "roi_pool",
    "roi_pool_backward",
]
