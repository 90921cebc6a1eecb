"""Plans for many devices, found by patterns: which weight is split along which axis of a mesh.

A mesh is a mapping from the names of its axes to their sizes; `regraft.Mesh` is one. A plan maps the names of weights
to specs, as the argument ``shardings=`` of `regraft.build`. Knows patterns and rewriting, but no engines.
"""

from .data_parallel import DataParallel, FullySharded
from .join_products import JoinSummedProducts
from .megatron import Megatron
from .plan import ShardingPlan
from .rule import COLUMN, ROW, Role, ShardingRule
from .split_projections import SplitProjections

__all__ = [
    "COLUMN",
    "ROW",
    "DataParallel",
    "FullySharded",
    "JoinSummedProducts",
    "Megatron",
    "Role",
    "ShardingPlan",
    "ShardingRule",
    "SplitProjections",
]
