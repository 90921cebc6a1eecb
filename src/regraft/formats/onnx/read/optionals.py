"""Reading operators on optional values: each is its value, and one that is empty is an operand that is left out."""

from __future__ import annotations

import numpy as np

from ....ir.expr import const
from .importing import Imported, NodeImporter, reads


@reads("Optional", "OptionalGetElement")
def _value(node: NodeImporter) -> Imported:
    if not node.has(0):
        raise node.refuse("an optional value that is empty is not supported, other than as an operand left out")
    return node.imported(0)


@reads("OptionalHasElement")
def _has_element(node: NodeImporter) -> Imported:
    return const(np.asarray(node.has(0)))
