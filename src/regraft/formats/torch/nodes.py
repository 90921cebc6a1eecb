"""Facts about the nodes of an exported graph: what they compute with, and what they assert."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from ...ir.dims import Dim, SymVar
from ...ir.expr import Expr
from ..errors import ConvertError
from .context import cast as as_dtype
from .outside import has_effect
from .signature import SizeCheck
from .sizes import SizeTable
from .tensors import dtype_name

_COMPARISONS: Final[Mapping[Any, str]] = {
    operator.ge: ">=",
    operator.gt: ">",
    operator.le: "<=",
    operator.lt: "<",
    operator.eq: "==",
}


IGNORED: Final = dict.fromkeys(
    (
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    )
)
"""Checks of promises to the exporter. The types of the program state the same."""


def all_nodes(graph_module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The nodes of a program's graph, and of the branches, regions and bodies of loops in it."""
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def is_operator(target: Any) -> bool:
    """True if a node calls an operator of PyTorch, not a function of Python or a region."""
    return hasattr(target, "_schema") and hasattr(target, "overloadpacket")


def writes_in_place(node: torch.fx.Node) -> bool:
    """True if a node calls an operator that changes one of its arguments."""
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))


def computing(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The calls of a graph, without the calls whose results only checks (`IGNORED`) read.

    Calls that name a size stay, because others may use the size by that name. Cost: linear.
    """
    found: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        is_plain = (is_operator(node.target) and not has_effect(node)) or is_size(node)
        read = [user for user in node.users if user not in found and str(user.target) not in IGNORED]
        if is_plain and node.users and not read and not node.meta.get("unbacked_bindings"):
            found.add(node)
    return [node for node in graph.nodes if node.op == "call_function" and node not in found]


def asserted(node: torch.fx.Node, sizes: SizeTable) -> Iterator[SizeCheck]:
    """The checks in a node of a size that is read from a tensor: comparisons with another size or a number."""
    condition = node.args[0] if node.args else None
    if str(node.target) != "aten._assert_scalar.default" or not isinstance(condition, torch.fx.Node):
        return
    relation = _COMPARISONS.get(condition.target)
    if relation is None:
        return
    sides: list[int | str] = []
    for side in condition.args:
        known = _plain(side, sizes)
        if known is None:
            return
        sides.append(known)
    if any(isinstance(side, str) for side in sides):
        yield sides[0], relation, sides[1]


def _plain(argument: Any, sizes: SizeTable) -> int | str | None:
    """A number, or the name of a size; None for anything else."""
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    if not isinstance(value, int | torch.SymInt):
        return None
    try:
        size: Dim = sizes.dim(value)
    except ConvertError:
        return None
    return size.name if isinstance(size, SymVar) else size if isinstance(size, int) else None


def has_tensor_for_number(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if an argument that PyTorch requires as a number is a scalar tensor here, like numbers read from tensors."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    by_name = {argument.name: argument for argument in schema.arguments}
    pairs = [*zip(schema.arguments, args, strict=False), *[(by_name[name], value) for name, value in kwargs.items()]]
    return any(isinstance(value, Expr) and "Tensor" not in str(argument.type) for argument, value in pairs)


def is_branch(node: torch.fx.Node) -> bool:
    """True if a node is a branch, `torch.cond`."""
    return node.target is torch.ops.higher_order.cond


def is_transform(node: torch.fx.Node) -> bool:
    """True if a node opens, closes or passes a level of `torch.vmap` or of a derivative, and is no operator."""
    return not is_operator(node.target) and str(getattr(node.target, "__module__", "")).startswith("torch._functorch")


def is_integer(argument: Any) -> bool:
    """True if an argument is a symbolic integer."""
    return isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("val"), torch.SymInt)


def narrowed(node: torch.fx.Node, value: Any) -> Any:
    """``value`` in the dtype that PyTorch states for the result of ``node``."""
    fake = node.meta.get("val")
    return (
        as_dtype(value, dtype_name(fake.dtype)) if isinstance(fake, torch.Tensor) and isinstance(value, Expr) else value
    )


def is_of_sizes(node: torch.fx.Node) -> bool:
    """True if a node computes a fraction or a boolean from symbolic sizes, which no dim can express."""
    return isinstance(node.meta.get("val"), torch.SymFloat | torch.SymBool)


def is_size(node: torch.fx.Node) -> bool:
    """True if a node computes with sizes only, so that PyTorch's own symbols give its result."""
    if is_operator(node.target):
        return False
    value = node.meta.get("val")
    return isinstance(value, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool)


def pairs_of_copy(node: torch.fx.Node) -> bool:
    """True if a call makes complex numbers of pairs in a tensor that was copied to be contiguous, or in a view of it.

    Copies are removed when a program is read, so the operand may have another layout there.
    """
    if str(node.target) != "aten.view_as_complex.default":
        return False
    operand = node.args[0]
    while isinstance(operand, torch.fx.Node) and operand.op == "call_function" and operand.args:
        if str(operand.target) in _COPIES:
            return True
        if not is_operator(operand.target) or not _is_view(operand.target):
            return False
        operand = operand.args[0]
    return False


_COPIES: Final = ("aten.clone.default", "aten.contiguous.default")
_VIEWS: Final = ("aten.reshape.default", "aten.flatten.using_ints")
"""Operators that return a view if possible, which their schemas do not state."""


def _is_view(target: Any) -> bool:
    return str(target) in _VIEWS or target._schema.arguments[0].alias_info is not None
