"""Buffers and inputs that an exported program changes: written in place again, like caches.

Our programs compute the new value of a buffer beside the old one, and copy it over. If the new value is the old one
with some places overwritten, or is computed from it element by element, and nothing reads the old one afterwards,
PyTorch's in-place operator does the same without two copies of the whole buffer. The target of a write may be a view of
the buffer, such as one layer of a cache, or the buffer with permuted axes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind

from ..formats.torch.tensors import have_one_shape
from ..ir.walks import reached

_ATEN: Final[Any] = torch.ops.aten
WRITES: Final = {
    _ATEN.index_copy.default: _ATEN.index_copy_.default,
    _ATEN.index_put.default: _ATEN.index_put_.default,
    _ATEN.index_add.default: _ATEN.index_add_.default,
    _ATEN.index_fill.int_Scalar: _ATEN.index_fill_.int_Scalar,
    _ATEN.index_fill.int_Tensor: _ATEN.index_fill_.int_Tensor,
    _ATEN.scatter.src: _ATEN.scatter_.src,
    _ATEN.scatter.value: _ATEN.scatter_.value,
    _ATEN.scatter_add.default: _ATEN.scatter_add_.default,
    _ATEN.masked_fill.Scalar: _ATEN.masked_fill_.Scalar,
    _ATEN.masked_fill.Tensor: _ATEN.masked_fill_.Tensor,
    _ATEN.masked_scatter.default: _ATEN.masked_scatter_.default,
}
"""Operators that return a tensor with some places overwritten, and their in-place forms."""
PARTS: Final = {
    _ATEN.slice_scatter.default: _ATEN.slice.Tensor,
    _ATEN.select_scatter.default: _ATEN.select.int,
    _ATEN.diagonal_scatter.default: _ATEN.diagonal.default,
    _ATEN.as_strided_scatter.default: _ATEN.as_strided.default,
}
"""Operators that return a tensor with one part replaced, and the operators that return this part as a view."""
TURNS: Final = {
    _ATEN.permute.default,
    _ATEN.t.default,
    _ATEN.transpose.int,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.default,
    _ATEN.squeeze.dim,
    _ATEN.squeeze.dims,
    _ATEN.view.default,
}
"""Operators that return all of a tensor in another order or shape, as a view."""


_NORM: Final = _ATEN._native_batch_norm_legit_functional.default
_MEAN: Final = 3
_VARIANCE: Final = 4
"""The positions of the statistics among the arguments of a batch norm, and of the new ones among its results."""


COMPLEX_VIEWS: Final = {
    _ATEN.real.default,
    _ATEN.imag.default,
    _ATEN.view_as_real.default,
    _ATEN.view_as_complex.default,
}
"""Operators that view complex numbers as real ones, or real ones as complex, in the same memory."""


@dataclass(frozen=True, slots=True)
class ViewCall:
    """An operator that returns a view, and all its arguments after the first."""

    target: Any
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class EditedGraph:
    """A graph that is being changed: of a program, whose ``signature`` describes its results, or of a body in one."""

    graph: torch.fx.Graph
    signature: ExportGraphSignature | None

    def rename_result(self, node: torch.fx.Node, other: torch.fx.Node) -> None:
        """Note that ``other`` replaces ``node`` among the results, if ``node`` is one."""
        if self.signature is not None and any(user.op == "output" for user in node.users):
            self.signature.replace_all_uses(node.name, other.name)


@dataclass(frozen=True, slots=True)
class _BufferWrite:
    """One write on the way from a buffer's old value to its new value.

    ``node`` is the new value of the part behind ``views`` of the buffer. The part becomes ``source``; without a source,
    the in-place form of the operator writes to it. ``is_done`` says that earlier writes have done the work.
    """

    node: torch.fx.Node
    views: tuple[ViewCall, ...]
    source: torch.fx.Node | None = None
    is_done: bool = False


def write_in_place(program: ExportedProgram) -> None:
    """Change ``program`` to write in place wherever that gives the same results. Cost: linear."""
    graph = program.graph
    _copy_early(graph)
    kinds = (InputKind.BUFFER, InputKind.USER_INPUT)
    buffers = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind in kinds}
    found = [node for node in graph.nodes if node.target is _ATEN.copy_.default and not node.users]
    copies = {copy.args[0]: copy for copy in found if copy.args[0].op == "placeholder" and copy.args[0].name in buffers}
    _write_statistics(graph, copies)
    _change_in_place(graph, copies)
    for buffer, copy in copies.items():
        writes = _writes(copy.args[1], partial(operator.is_, buffer), (), buffer)
        if writes and not _is_read_later(buffer, writes, copy):
            graph.erase_node(copy)
            for write in writes:
                _write(graph, write, buffer)
            merge_views(EditedGraph(graph, program.graph_signature), buffer)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _copy_early(graph: torch.fx.Graph) -> None:
    """Move copies next to their originals, so that they are made before the originals may be written to."""
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in list(graph.nodes):
        if node.target is _ATEN.clone.default:
            operand = cast(torch.fx.Node, node.args[0])
            if any(user < node for user in changing(operand)):
                continue
            if operand.op != "placeholder":
                operand.append(node)
            elif node is not first:
                first.prepend(node)


def changing(value: torch.fx.Node) -> list[torch.fx.Node]:
    """The calls of operators that change ``value`` or another of their arguments."""
    return [user for user in value.users if getattr(getattr(user.target, "_schema", None), "is_mutable", False)]


def _change_in_place(graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]) -> None:
    """Make operators that change a copy change its original, if nothing reads the original afterwards.

    Buffers whose changes are all made so are removed from ``copies``.
    """
    for node in reversed(list(graph.nodes)):
        if node.target is not _ATEN.clone.default or not changing(node):
            continue
        operand = cast(torch.fx.Node, node.args[0])
        back = copies.get(operand)
        is_own = operand.target is _ATEN.clone.default or (back is not None and _plain(back.args[1]) is node)
        readers = {user for value in sharing(operand) for user in value.users} - {node, back}
        kept = any(user.op == "output" for value in sharing(node) for user in value.users)
        if is_own and not (back is not None and kept) and not any(reader > node for reader in readers):
            if back is not None:
                graph.erase_node(copies.pop(operand))
            node.replace_all_uses_with(operand)
            graph.erase_node(node)


def _writes(
    value: Any, is_start: Callable[[Any], bool], views: tuple[ViewCall, ...], buffer: torch.fx.Node
) -> list[_BufferWrite] | None:
    """The writes to the part behind ``views`` of ``buffer`` that lead from the start, recognized by ``is_start``, to
    ``value``.

    They are in order; None if something else leads to ``value``.
    """
    found: list[_BufferWrite] = []
    value = _plain(value)
    while not is_start(value):
        if not isinstance(value, torch.fx.Node):
            return None
        if value.target in PARTS:
            whole, source = _plain(value.args[0]), cast(torch.fx.Node, value.args[1])
            view = view_of(PARTS[value.target], value.args[2:], value.kwargs)
            inside = _writes(source, partial(_is_view, view, whole), (*views, view), buffer)
            if inside is None:
                found.append(_BufferWrite(value, (*views, view), source))
            else:
                found += [_BufferWrite(value, views, is_done=True), *reversed(inside)]
        elif twin(value) is not None:
            found.append(_BufferWrite(value, views))
        elif turns := _turns(value, views, buffer):
            found.append(_BufferWrite(value, views, is_done=True))
            seen = (*views, *[view for _, view in turns[:-1]])
            for (start, _), (end, _) in reversed([*pairwise(turns)]):
                inside = _writes(end.args[0], partial(operator.is_, start), seen, buffer)
                if inside is None:
                    return None
                found += [*reversed(inside), _BufferWrite(start, seen, is_done=True)]
                seen = seen[:-1]
            value = found.pop().node
        else:
            return None
        value = _plain(value.args[0])
    return found[::-1]


def _turns(
    value: torch.fx.Node, views: Sequence[ViewCall], buffer: torch.fx.Node
) -> list[tuple[torch.fx.Node, ViewCall]] | None:
    """The nodes that permute or reshape the part behind ``views``, up to ``value``, which undoes that, each with its
    view.

    There are only writes between them. None if there are no such nodes.
    """
    part: Any = buffer.meta["val"]
    if not all(isinstance(size, int) for size in part.shape):
        return None
    for view in views:
        part = seen_through(view, part)
    found: list[tuple[torch.fx.Node, ViewCall]] = []
    node: Any = value
    while isinstance(node, torch.fx.Node):
        view = _turn(node)
        if view is not None:
            found.insert(0, (node, view))
            if len(found) > 1 and _are_taken_back(part, found):
                return found
        elif node.target not in PARTS and twin(node) is None:
            return None
        node = _plain(node.args[0])
    return None


def _are_taken_back(part: torch.Tensor, turns: Sequence[tuple[torch.fx.Node, ViewCall]]) -> bool:
    """True if ``turns``, applied to a tensor with the shape of ``part``, lead back to the same memory layout."""
    again = part
    for node, view in turns:
        if not have_one_shape(again, cast(torch.fx.Node, node.args[0]).meta["val"]):
            return False
        try:
            again = seen_through(view, again)
        except RuntimeError:  # a shape that the part's memory does not allow
            return False
    return _memory(again) == _memory(part)


def _turn(node: torch.fx.Node) -> ViewCall | None:
    """The operator of ``node`` as a view of a whole tensor (a reshape counts as one); None for other operators."""
    target = _ATEN.view.default if node.target is _ATEN.reshape.default else node.target
    return ViewCall(target, view_of(node.target, node.args[1:], node.kwargs).args) if target in TURNS else None


def _memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """The memory layout of a tensor: offset, shape, and strides of axes of sizes other than 1."""
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    return tensor.storage_offset(), tuple(tensor.shape), strides


def seen_through(view: ViewCall, whole: torch.Tensor) -> torch.Tensor:
    """``view`` of ``whole``, a tensor without data."""
    return view.target(whole, *torch.fx.map_arg(view.args, lambda each: each.meta["val"]))


def view_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ViewCall:
    """The view that ``target`` returns for the arguments after the first, with defaults filled in."""
    schema = target._schema.arguments[1:]
    given = {**dict(zip([each.name for each in schema], args, strict=False)), **kwargs}
    return ViewCall(target, tuple([given.get(each.name, each.default_value) for each in schema]))


def _is_view(view: ViewCall, whole: Any, node: Any) -> bool:
    """True if ``node`` is ``view`` of ``whole``, or of an equal view."""
    if not isinstance(node, torch.fx.Node) or node.target is not view.target:
        return False
    return view_of(node.target, node.args[1:], node.kwargs) == view and _is_same(_plain(node.args[0]), whole)


def _is_same(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if not isinstance(second, torch.fx.Node) or (second.target not in PARTS.values() and _turn(second) is None):
        return False
    view = view_of(second.target, second.args[1:], second.kwargs)
    return _is_view(view, _plain(second.args[0]), first)


def _is_read_later(buffer: torch.fx.Node, writes: Sequence[_BufferWrite], copy: torch.fx.Node) -> bool:
    """True if something reads an old value of ``buffer`` after a write to it, or if the result is returned to the
    caller.
    """
    if any(user.op == "output" for value in sharing(writes[-1].node) for user in value.users):
        return True
    own = {*[write.node for write in writes], copy}
    old, held = sharing(buffer), set[torch.fx.Node]()
    for write in writes:
        held |= old
        if not write.is_done:
            if any(value in held and value is not write.node.args[0] for value in write.node.all_input_nodes):
                return True  # a part of the buffer is written to another place of it
            readers = {user for node in old for user in node.users} - held - own
            if any(reader > write.node for reader in readers):
                return True
        old = sharing(write.node)
    return False


def _write(graph: torch.fx.Graph, write: _BufferWrite, buffer: torch.fx.Node) -> None:
    """Replace the operator that returns a new tensor by the one that writes in place."""
    node, parts = write.node, [buffer]
    with graph.inserting_before(node):
        for view in write.views:
            parts.append(graph.call_function(view.target, (whole := parts[-1], *view.args)))
            parts[-1].meta = {**node.meta, "val": seen_through(view, whole.meta["val"])}
        if write.source is not None:
            made = _written_part(graph, parts.pop(), write.source)
            made.meta = {**node.meta, "val": write.source.meta["val"]}
        elif not write.is_done:
            made = graph.call_function(twin(node), (parts[-1], *node.args[1:]), dict(node.kwargs))
            made.meta = node.meta.copy()
    node.replace_all_uses_with(parts[-1])
    graph.erase_node(node)


def _written_part(graph: torch.fx.Graph, part: torch.fx.Node, source: torch.fx.Node) -> torch.fx.Node:
    """The operator that writes ``source`` to ``part``; it repeats a value itself that is written to many places."""
    if source.target is _ATEN.full.default:
        return graph.call_function(_ATEN.fill_.Scalar, (part, source.args[1]))
    given = source
    while given.target in (_ATEN.clone.default, _ATEN.expand.default, _ATEN.broadcast_to.default):
        given = cast(torch.fx.Node, given.args[0])
    is_constant = not any(changing(value) for value in sharing(_whole_of(given)))
    return graph.call_function(_ATEN.copy_.default, (part, given if is_constant else source))


def _whole_of(node: torch.fx.Node) -> torch.fx.Node:
    """The value whose memory ``node`` may be a view of."""
    while node.args and _may_be_view(node) and isinstance(operand := node.args[0], torch.fx.Node):
        node = operand
    return node


def merge_views(edited: EditedGraph, whole: torch.fx.Node) -> None:
    """Keep one of equal views of ``whole``, and of its views; they always share their memory."""
    found: dict[ViewCall, torch.fx.Node] = {}
    for user in sorted(whole.users):
        if user.target in PARTS.values() or user.target in TURNS or user.target in COMPLEX_VIEWS:
            first = found.setdefault(view_of(user.target, user.args[1:], user.kwargs), user)
            if first is not user:
                put_in_place(edited, user, first)
    for view in found.values():
        merge_views(edited, view)


def put_in_place(edited: EditedGraph, node: torch.fx.Node, other: torch.fx.Node) -> None:
    """Remove ``node`` from a graph, and use ``other`` in its place, also among the results."""
    edited.rename_result(node, other)
    node.replace_all_uses_with(other)
    edited.graph.erase_node(node)


def _write_statistics(graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]) -> None:
    """Make batch norms in training write their statistics themselves; remove these from ``copies``."""
    for mean, copy in list(copies.items()):
        norms = _norms(mean, copy.args[1], _MEAN)
        variance: Any = norms[0].args[_VARIANCE] if norms else None
        if variance not in copies or _norms(variance, copies[variance].args[1], _VARIANCE) != norms:
            continue
        fields = [_fields(norm) for norm in norms]
        if any(set(each) != {0, _MEAN, _VARIANCE} for each in fields):
            continue
        places = {mean: _MEAN, variance: _VARIANCE}
        for norm, each in zip(norms, fields, strict=True):
            norm.append(each[_MEAN])
            norm.append(each[_VARIANCE])
        if any(
            _is_read_later(at, [_BufferWrite(each[i], ()) for each in fields], copies[at]) for at, i in places.items()
        ):
            continue
        for at in places:
            graph.erase_node(copies.pop(at))
        for norm, each in zip(norms, fields, strict=True):
            with graph.inserting_before(norm):
                args = (*norm.args[:3], mean, variance, *norm.args[5:], torch.backends.cudnn.enabled)
                whole = graph.call_function(_ATEN.batch_norm.default, args)
            whole.meta = {**norm.meta, "val": each[0].meta["val"]}
            for place, value in {0: whole, _MEAN: mean, _VARIANCE: variance}.items():
                each[place].replace_all_uses_with(value)
                graph.erase_node(each[place])


def _norms(buffer: torch.fx.Node, value: Any, place: int) -> list[torch.fx.Node]:
    """The batch norms that lead from the statistics in ``buffer`` to ``value``, in order; empty if others do."""
    found: list[torch.fx.Node] = []
    while (value := _plain(value)) is not buffer:
        norm: Any = value.args[0] if isinstance(value, torch.fx.Node) and value.target is operator.getitem else None
        if norm is None or norm.target is not _NORM or value.args[1] != place or norm.args[5] is not True:
            return []
        found.append(norm)
        value = norm.args[place]
    return found[::-1]


def _fields(call: torch.fx.Node) -> dict[int, torch.fx.Node]:
    """The fields of the result of ``call`` that are read, by their positions."""
    return {cast(int, user.args[1]): user for user in call.users if user.users}


def twin(node: torch.fx.Node) -> Any:
    """The in-place form of the operator of ``node``, which writes into its first operand; None if there is none."""
    target: Any = node.target
    is_pointwise = torch.Tag.pointwise in getattr(target, "tags", ()) or target is _ATEN.hardswish.default
    if target in WRITES or not is_pointwise:
        return WRITES.get(target)
    packet, overload = str(cast(object, target)).removeprefix("aten.").rsplit(".", 1)
    operand: Any = node.args[0] if node.args else None
    old: Any = operand.meta.get("val") if isinstance(operand, torch.fx.Node) else None
    new: Any = node.meta.get("val")
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return None
    found = getattr(getattr(_ATEN, f"{packet}_", None), overload, None)
    return found if have_one_shape(old, new) and old.dtype == new.dtype else None


def _plain(value: Any) -> Any:
    """The operand of a `detach`, because buffers carry no gradient; any other value itself."""
    while isinstance(value, torch.fx.Node) and value.target is _ATEN.detach.default:
        value = value.args[0]
    return value


def sharing(start: torch.fx.Node) -> set[torch.fx.Node]:
    """``start`` and all nodes that may share its memory, as views do."""
    return set(reached([start], lambda node: filter(_may_be_view, node.users)))


def _may_be_view(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.op == "call_function"
    return any(result.alias_info is not None for result in schema.returns)
