"""Operators on images, reached as ``regraft.op.image`` and, in scripts, as ``R.image``."""

from __future__ import annotations

from .composite.grid import affine_grid, grid_sample
from .composite.resize import resize2d, resize3d

__all__ = ["affine_grid", "grid_sample", "resize2d", "resize3d"]
