"""Reading operators on optional values, where the value is a tensor, or nothing."""

from __future__ import annotations

import numpy as np

from ....ir.expr import const
from ..importing import Imported, NodeImporter, reads


@reads("OptionalGetElement")
def _get_element(node: NodeImporter) -> Imported:
    return node.imported(0)


@reads("OptionalHasElement")
def _has_element(node: NodeImporter) -> Imported:
    return const(np.asarray(node.has(0)))
