"""The origin of a value: the nodes of the source model, or the line of the source program.

Variables carry origins, rewrites merge them, and converters write them back. So each value of the result can be
traced to a part of the source model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

OriginKind: TypeAlias = Literal["onnx", "torch", "source", "rule"]


class Origin(NamedTuple):
    """One place in a source model.

    ``kind`` says what ``name`` is the name of: an ONNX node, a torch module path, a line of a source file
    (``path:line``), or the rewrite rule that made the value. ``call`` is what a converter keeps of the node, so that
    it can write the node back unchanged. ``call`` is ignored when origins are compared.
    """

    kind: OriginKind
    name: str
    call: object = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self.kind == other.kind and self.name == other.name

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


Origins: TypeAlias = tuple[Origin, ...]


def merge_origins(groups: Iterable[Origins]) -> Origins:
    """The union of ``groups`` in order of first appearance. Cost: linear in their total length."""
    merged: dict[Origin, None] = {}
    for group in groups:
        for origin in group:
            merged[origin] = None
    return tuple(merged)
