"""Tensors that an exported program makes and then fills: written in place, as in the source model.

Our programs make a new tensor for each write. If nothing reads the old one afterwards, PyTorch's in-place operator does
the same without a copy. This is done only in memory that the program itself has allocated, and only if no operator
keeps the old content for its gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ..formats.errors import ConvertError
from ..formats.torch.tensors import said
from .torch_in_place import (
    COMPLEX_VIEWS,
    PARTS,
    TURNS,
    WRITES,
    EditedGraph,
    ViewCall,
    changing,
    merge_views,
    put_in_place,
    seen_through,
    sharing,
    twin,
    view_of,
)
from .torch_kept import KeptForGradients

_ATEN: Final[Any] = torch.ops.aten
_SHAPED: Final = {_ATEN.view.default, _ATEN.reshape.default}
"""Operators that return a view only of contiguous memory."""
_VIEWS: Final = {*PARTS.values(), *TURNS, *_SHAPED, *COMPLEX_VIEWS} - {_ATEN.as_strided.default}
_OF_MEMORY: Final = {_ATEN.view.default, _ATEN.view_as_complex.default, _ATEN.as_strided.default}
"""Operators whose result or success depends on the memory layout of their operand."""
_FILLED: Final = {_ATEN.zeros.default: 0, _ATEN.ones.default: 1}
_CREATED: Final = {*_FILLED, _ATEN.full.default, _ATEN.empty.memory_format}
"""Operators whose results are contiguous for any inputs; some of them fill the result with one number."""
_MADE: Final = {
    "matmul", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "max_pool1d", "max_pool2d", "max_pool3d",
}  # fmt: skip
"""Operators composed of others whose results are nevertheless new memory."""
_REPEATING: Final = (_ATEN.expand.default, _ATEN.broadcast_to.default)
_ANYWHERE: Final = WRITES.keys() - {_ATEN.masked_fill.Scalar, _ATEN.masked_fill.Tensor}
"""Operators that copy the whole tensor to change a few places of it."""


def write_fresh_in_place(program: ExportedProgram, operators: Collection[str] = ()) -> None:
    """Change ``program``, and the bodies in it, to write in place to tensors that they have made. Cost: linear in the
    nodes.

    ``operators``, such as ``aten.relu_.default``, are the operators that may change a whole tensor.

    Raises `ConvertError` if PyTorch does not return a view of the memory that is written to.
    """
    with _without_guards(program):
        parts = [part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
        graphs = [EditedGraph(part.graph, program.graph_signature if part is parts[0] else None) for part in parts]
        views = [{node for node in part.graph.nodes if _is_view(node)} for part in parts]
        for edited, own in zip(graphs, views, strict=True):
            _plain_sources(edited)
            _make_apart(edited, own)
        for part, edited, plan in zip(parts, graphs, _plans(parts, views, {*operators}), strict=True):
            _write_in(edited, plan)
            part.graph.eliminate_dead_code()
            part.recompile()


def _plans(parts: list[torch.fx.GraphModule], views: list[set[torch.fx.Node]], operators: set[str]) -> list[_WritePlan]:
    """The writes of each graph. An operator that writes in one place may write in all places, as in a second run."""
    while True:
        plans = [_WritePlan(part.graph, each, operators) for part, each in zip(parts, views, strict=True)]
        more = set[str]().union(*[plan.operators() for plan in plans])
        if more <= operators:
            return plans
        operators |= more


def _write_in(edited: EditedGraph, plan: _WritePlan) -> None:
    writes, views = plan.writes, plan.views
    memories = dict.fromkeys(write.memory for write in writes)
    for memory in memories:
        if memory.is_shaped:
            memory.put_in_order(edited)
    for write in writes:
        views.update(_written(edited, write))
    try:
        for memory in memories:
            _tidy(edited, memory.root, views)
    except RuntimeError as error:
        raise ConvertError(f"a view cannot be written to in place: {error}") from error
    for node in [node for node in edited.graph.nodes if node.target in PARTS and node.meta["val"].is_complex()]:
        _write_in_copy(edited, node)


def _write_in_copy(edited: EditedGraph, node: torch.fx.Node) -> None:
    """Write the change of ``node`` to a copy: PyTorch has no gradients of complex tensors with one part replaced."""
    whole, graph = cast(torch.fx.Node, node.args[0]), edited.graph
    with graph.inserting_before(node):
        copied = graph.call_function(_ATEN.clone.default, (whole,))
        copied.meta = {**node.meta, "val": whole.meta["val"].clone()}
        _fill(graph, _part(graph, copied, _replaced(node)), cast(torch.fx.Node, node.args[1]))
    put_in_place(edited, node, copied)


def _plain_sources(edited: EditedGraph) -> None:
    """Keep one of equal views, and remove writes of a part to its own place, with which ``y[i] += x`` ends.

    Also remove copies of constant values that are written to another tensor. ``broadcast_to`` becomes ``expand``, the
    operator that PyTorch decomposes it into in a program that writes in place.
    """
    seen: dict[object, torch.fx.Node] = {}
    for node in list(edited.graph.nodes):
        source: Any = node.args[1] if node.target in PARTS else None
        if node.target is _ATEN.broadcast_to.default:
            node.target = _ATEN.expand.default
        elif node.target in _VIEWS:
            first = seen.setdefault((node.args[0], _seen(node)), node)
            if first is not node:
                put_in_place(edited, node, first)
        elif isinstance(source, torch.fx.Node) and source.target is _ATEN.clone.default:
            if _never_changes(cast(torch.fx.Node, source.args[0])):
                node.update_arg(1, source.args[0])
        elif isinstance(source, torch.fx.Node) and seen.get((node.args[0], _replaced(node))) is source:
            put_in_place(edited, node, cast(torch.fx.Node, node.args[0]))


def _make_apart(edited: EditedGraph, views: set[torch.fx.Node]) -> None:
    """Make a separate tensor for each write but the first: tensors that were filled with one number are shared here.

    Views of the new tensors are added to ``views``.
    """
    for made in [node for node in edited.graph.nodes if node.target in _CREATED]:
        for write in sorted(user for user in made.users if _is_write_to(user, made))[1:]:
            with edited.graph.inserting_after(made):
                own = edited.graph.node_copy(made)
            own.meta = {**made.meta, "val": made.meta["val"].clone()}
            part: Any = write
            while isinstance(part, torch.fx.Node) and part.target in WRITES.keys() | PARTS.keys():
                way = _way_to(made, cast(torch.fx.Node, part.args[0]), views)
                if way is None:
                    break
                seen = _seen_again(edited.graph, way, own)
                views.update(seen)
                part.update_arg(0, seen[-1] if seen else own)
                part = part.args[1]


def _is_write_to(node: torch.fx.Node, value: torch.fx.Node) -> bool:
    return (node.target in PARTS or node.target in _ANYWHERE) and node.args[0] is value


def _way_to(root: torch.fx.Node, view: torch.fx.Node, views: set[torch.fx.Node]) -> list[torch.fx.Node] | None:
    """The views of ``root`` that lead to ``view``, in order; None if ``view`` is not a view of it."""
    way: list[torch.fx.Node] = []
    while view is not root:
        if view not in views:
            return None
        way.append(view)
        view = cast(torch.fx.Node, view.args[0])
    return way[::-1]


def _seen_again(graph: torch.fx.Graph, way: list[torch.fx.Node], value: torch.fx.Node) -> list[torch.fx.Node]:
    """The chain of views in ``way``, applied to ``value``."""
    found: list[torch.fx.Node] = []
    for view in way:
        with graph.inserting_after(value):
            value = graph.call_function(cast(Any, view.target), (value, *view.args[1:]), dict(view.kwargs))
        value.meta = {**view.meta, "val": seen_through(_seen(view), cast(torch.fx.Node, value.args[0]).meta["val"])}
        found.append(value)
    return found


def _without_guards(program: ExportedProgram) -> AbstractContextManager[Any]:
    """Inside the ``with`` block, a condition on a symbolic size is answered for the example and adds no guard."""
    for node in program.graph.nodes:
        sizes = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if sizes is not None:
            return sizes.suppress_guards()
    return nullcontext()


@dataclass(slots=True, eq=False)
class _OwnMemory:
    """The memory of a tensor that an operator of the program has made.

    ``is_kept`` says that an operator keeps its content for the gradient. ``is_shaped`` says that the written value is a
    view of it only if it is contiguous.
    """

    root: torch.fx.Node
    is_kept: bool
    is_shaped: bool = False

    def put_in_order(self, edited: EditedGraph) -> None:
        """Make all users read the memory as contiguous; this copies only if the inputs have another layout."""
        if self.root.target in _CREATED:
            return
        old, users = self.root, list(self.root.users)
        with edited.graph.inserting_after(old):
            self.root = edited.graph.call_function(_ATEN.contiguous.default, (old,))
        self.root.meta = {**old.meta, "val": old.meta["val"].contiguous()}
        edited.rename_result(old, self.root)
        for user in users:
            user.replace_input_with(old, self.root)


@dataclass(slots=True, eq=False)
class _HeldVersion:
    """The content of a memory between two writes: the values that may be stored in it, and all their readers."""

    memory: _OwnMemory
    values: set[torch.fx.Node]
    _readers: list[torch.fx.Node] = field(default_factory=list[torch.fx.Node])

    def readers(self) -> list[torch.fx.Node]:
        """The readers, the last one first."""
        if not self._readers:
            found = {user for value in self.values for user in value.users} - self.values
            self._readers = sorted(found, reverse=True)
        return self._readers

    def add(self, values: set[torch.fx.Node]) -> None:
        """Add ``values`` to the values stored in the memory."""
        self.values |= values
        self._readers = []


@dataclass(frozen=True, slots=True)
class _FreshWrite:
    """A write: ``node`` is the new value of its first operand, and ``wholes`` are the tensors around it, from inside.

    ``is_done`` says that the part is in its place already.
    """

    node: torch.fx.Node
    memory: _OwnMemory
    wholes: tuple[torch.fx.Node, ...] = ()
    is_done: bool = False


class _WritePlan:
    """The writes of a graph that can be done in place, in order. The graph is not changed.

    ``views`` are its nodes that are a view of their first operand, for all sizes; ``operators`` are those that may
    change a whole tensor.
    """

    def __init__(self, graph: torch.fx.Graph, views: set[torch.fx.Node], operators: Collection[str]) -> None:
        self.views: Final = views
        self.writes: Final[list[_FreshWrite]] = []
        self._roots: Final[dict[torch.fx.Node, torch.fx.Node]] = {}
        self._versions: Final[dict[torch.fx.Node, _HeldVersion]] = {}
        self._gradients: Final = KeptForGradients()
        self._operators: Final = operators
        for node in graph.nodes:
            if node not in self._versions and (_may_write(node) or self._is_written(node)):
                version = self._version(node.args[0])
                if version is not None and not self._repeats(node, version):
                    self._consider(node, version)

    def operators(self) -> set[str]:
        """The in-place operators of PyTorch among the writes, such as ``aten.relu_.default``."""
        computed = [write.node for write in self.writes if write.node.target not in PARTS]
        return {str(twin(node)) for node in computed}

    def _version(self, value: torch.fx.Node) -> _HeldVersion | None:
        """The content of the memory that ``value`` is a view of; None if the program did not allocate it."""
        root = self._root(value)
        if root not in self._versions and _is_fresh(root):
            memory = _OwnMemory(root, self._gradients.keeps_result(root))
            self._versions[root] = _HeldVersion(memory, sharing(root))
        return self._versions.get(root)

    def _root(self, value: torch.fx.Node) -> torch.fx.Node:
        """The node whose memory ``value`` is a view of."""
        way: list[torch.fx.Node] = []
        while value not in self._roots and value not in self._versions and value in self.views:
            way.append(value)
            value = cast(torch.fx.Node, value.args[0])
        root = self._roots.get(value, value)
        self._roots.update(dict.fromkeys(way, root))
        return root

    def _repeats(self, node: torch.fx.Node, version: _HeldVersion) -> bool:
        """True if ``node`` writes a part to where it is already."""
        source: Any = node.args[1] if node.target in PARTS else None
        if not isinstance(source, torch.fx.Node) or source not in version.values or not self._is_place(node, source):
            return False
        version.add(sharing(node))
        self._versions[node] = version
        self.writes.append(_FreshWrite(node, version.memory, is_done=True))
        return True

    def _consider(self, node: torch.fx.Node, version: _HeldVersion) -> None:
        part, memory = cast(torch.fx.Node, node.args[0]), version.memory
        wholes = tuple(self._wholes(node, part))
        if not wholes and node.target not in PARTS and node.target not in _ANYWHERE and not self._is_written(node):
            return
        leaves = pytree.tree_leaves((node.args, node.kwargs))
        if sum(isinstance(leaf, torch.fx.Node) and leaf in version.values for leaf in leaves) > 1:
            return  # a part is written to another place of the memory
        for reader in version.readers():
            if reader <= node:
                break
            if reader not in wholes:
                return
        others = [reader for reader in version.readers() if reader is not node and reader not in wholes]
        memory.is_kept |= any(self._gradients.keeps_any(reader, version.values) for reader in others)
        seen = {result: sharing(result) for result in (node, *wholes)}
        if memory.is_kept or not all(map(_lies_alike, seen, seen.values())):
            return
        memory.is_kept = self._gradients.keeps_result(node)
        memory.is_shaped |= any(map(self._is_shaped, (part, *[one.args[0] for one in wholes])))
        self.writes.append(_FreshWrite(node, memory, wholes))
        self._versions.update(
            dict.fromkeys((node, *wholes), _HeldVersion(memory, set[torch.fx.Node]().union(*seen.values())))
        )

    def _is_written(self, node: torch.fx.Node) -> bool:
        """True if ``node`` computes what the source model elsewhere computes in place."""
        is_operator = bool(self._operators) and bool(node.args) and isinstance(node.args[0], torch.fx.Node)
        return is_operator and str(twin(node)) in self._operators

    def _wholes(self, value: torch.fx.Node, part: torch.fx.Node) -> Iterator[torch.fx.Node]:
        """The nodes that write ``value`` to the place of ``part`` in the tensors around it, from inside."""
        while True:
            users = [user for user in value.users if user.target in PARTS and user.args[1] is value]
            found = [user for user in users if self._is_place(user, part)]
            if len(found) != 1:
                return
            yield found[0]
            value, part = found[0], cast(torch.fx.Node, found[0].args[0])

    def _is_place(self, node: torch.fx.Node, part: torch.fx.Node) -> bool:
        """True if the part that ``node`` replaces in its first operand is ``part``."""
        whole, view = cast(torch.fx.Node, node.args[0]), _replaced(node)
        if part.target is view.target and part.args[0] is whole:
            return _seen(part) == view
        if part not in self._roots or self._root(whole) is not self._root(part):
            return False
        return _place(seen_through(view, whole.meta["val"])) == _place(part.meta["val"])

    def _is_shaped(self, value: Any) -> bool:
        """True if a view on the way to ``value`` needs contiguous memory."""
        while value not in self._versions and value in self.views:
            if value.target in _SHAPED:
                return True
            value = value.args[0]
        return False


def _may_write(node: torch.fx.Node) -> bool:
    """True if ``node`` returns a tensor with some elements replaced, or computes a whole part of one."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    if node.target in PARTS or node.target in _ANYWHERE:
        return True
    is_part = any(user.target in PARTS and user.args[1] is node for user in node.users)
    is_turned = node.args[0].target in _VIEWS and any(user.target in _VIEWS for user in node.users)
    return (is_part or is_turned) and twin(node) is not None


def _is_view(node: torch.fx.Node) -> bool:
    """True if ``node`` is a view of its first operand, for all sizes."""
    if node.target not in _VIEWS:
        return False
    memories = [cast(Any, each).meta["val"].untyped_storage()._cdata for each in (node, node.args[0])]
    return node.target not in _SHAPED or memories[0] == memories[1]


def _is_fresh(node: torch.fx.Node) -> bool:
    """True if ``node`` returns memory that nothing else shares."""
    target: Any = node.target
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return False
    if schema.is_mutable or len(schema.returns) != 1 or schema.returns[0].alias_info is not None:
        return False
    made_of_others: Any = torch._C.DispatchKey.CompositeImplicitAutograd  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType, reportUnknownMemberType, reportAttributeAccessIssue]
    name = schema.name.removeprefix("aten::")
    is_made = name in _MADE or (name.startswith("fft_") and "shift" not in name)
    return is_made or not target.has_kernel_for_dispatch_key(made_of_others)


def _lies_alike(result: torch.fx.Node, values: set[torch.fx.Node]) -> bool:
    """True if ``result`` has the layout of the value that it replaces, or if no reader of ``values`` depends on it."""
    if not any(user.target in _OF_MEMORY for value in values for user in value.users):
        return True
    old, new = [_place(cast(Any, each).meta["val"]) for each in (result.args[0], result)]
    return old[1:] == new[1:]


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The memory layout of a tensor's elements, for all sizes."""
    axes = list(zip(cast("tuple[Any, ...]", tensor.shape), tensor.stride(), strict=True))
    steps = tuple([said(stride) for size, stride in axes if said(size) != 1])
    return said(tensor.storage_offset()), steps, tuple([said(size) for size, _ in axes]), tensor.dtype


def _seen(node: torch.fx.Node) -> ViewCall:
    """``node`` as a view of its first operand."""
    return view_of(node.target, node.args[1:], node.kwargs)


def _replaced(node: torch.fx.Node) -> ViewCall:
    """The part of its first operand that ``node`` replaces."""
    return view_of(PARTS[node.target], node.args[2:], node.kwargs)


# --- making the writes


def _written(edited: EditedGraph, write: _FreshWrite) -> Iterator[torch.fx.Node]:
    """Make ``write`` in the graph; returns the views that are made for it."""
    graph, node = edited.graph, write.node
    part = cast(torch.fx.Node, node.args[0])
    with graph.inserting_before(node):
        if node.target in PARTS and not write.is_done:
            view = _part(graph, part, _replaced(node))
            _fill(graph, view, cast(torch.fx.Node, node.args[1]))
            yield view
        elif not write.is_done:
            made = graph.call_function(twin(node), (part, *node.args[1:]), dict(node.kwargs))
            made.meta = node.meta.copy()
    put_in_place(edited, node, part)
    for whole in write.wholes:
        put_in_place(edited, whole, cast(torch.fx.Node, whole.args[0]))


def _part(graph: torch.fx.Graph, whole: torch.fx.Node, view: ViewCall) -> torch.fx.Node:
    """The node of ``view`` of ``whole``; a view of one part of complex numbers uses ``real`` or ``imag``."""
    val: Any = whole.meta["val"]
    target, args = view.target, (whole, *view.args)
    if whole.target is _ATEN.view_as_real.default and target is _ATEN.select.int:
        axis, index = view.args
        if axis in (-1, val.ndim - 1) and index in (0, 1):
            target, args = (_ATEN.imag if index else _ATEN.real).default, whole.args
    found = graph.call_function(target, args)
    found.meta = {**whole.meta, "val": seen_through(view, val)}
    return found


def _fill(graph: torch.fx.Graph, part: torch.fx.Node, source: torch.fx.Node) -> None:
    """Write ``source`` to ``part``: as a number if all its elements are equal, and a repeated value only once."""
    number = _number(source)
    is_alike = source.meta["val"].dtype == part.meta["val"].dtype
    if is_alike and number == 0 and "-" not in str(number):
        made = graph.call_function(_ATEN.zero_.default, (part,))
    elif is_alike and number is not None:
        made = graph.call_function(_ATEN.fill_.Scalar, (part, number))
    elif source.target is _ATEN.fill.Tensor:
        made = graph.call_function(_ATEN.fill_.Tensor, (part, source.args[1]))
    else:
        made = graph.call_function(_ATEN.copy_.default, (part, _once(source)))
    made.meta = part.meta.copy()


def _number(source: torch.fx.Node) -> Any:
    """The number that all elements of ``source`` have; None if it is not a Python number, or if there is none."""
    if source.target is _ATEN.complex.default:
        real, imag = map(_number, cast("tuple[torch.fx.Node, torch.fx.Node]", source.args))
        return None if real is None or imag is None else complex(real, imag)
    is_given = source.target in (_ATEN.full.default, _ATEN.fill.Scalar)
    number: Any = source.args[1] if is_given else _FILLED.get(source.target)
    return number if isinstance(number, bool | int | float | complex) else None


def _once(source: torch.fx.Node) -> torch.fx.Node:
    """The value that ``source`` repeats."""
    while source.target in _REPEATING:
        source = cast(torch.fx.Node, source.args[0])
    return source


def _never_changes(value: torch.fx.Node) -> bool:
    """True if ``value`` repeats an input or a weight that nothing changes."""
    while value.target in (*_REPEATING, _ATEN.clone.default):
        value = cast(torch.fx.Node, value.args[0])
    return value.op == "placeholder" and not any(changing(each) for each in sharing(value))


def _tidy(edited: EditedGraph, root: torch.fx.Node, views: set[torch.fx.Node]) -> None:
    """Update the layout of the ``views`` of ``root``, keep one of equal views, and remove views of the whole."""
    own = _place(root.meta["val"])
    for node in sorted(sharing(root) & views):
        if node.target is _ATEN.reshape.default:
            node.target, node.args = _ATEN.view.default, (node.args[0], _with_one_left_out(node.args[1]))
        node.meta["val"] = seen_through(_seen(node), cast(Any, node.args[0]).meta["val"])
        if _place(node.meta["val"]) == own:
            put_in_place(edited, node, root)
    merge_views(edited, root)


def _with_one_left_out(sizes: Any) -> Any:
    """The sizes of a view, with a single symbolic size replaced by -1, so that nothing computes it."""
    symbolic = [size for size in sizes if not isinstance(size, int)]
    if len(symbolic) != 1 or not all(size > 0 for size in sizes if isinstance(size, int)):
        return sizes
    return [size if isinstance(size, int) else -1 for size in sizes]
