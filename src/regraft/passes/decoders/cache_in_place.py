"""CacheInPlace: a decoder that copies its cache in each step becomes one that writes into a buffer of maximal length.

In a decoder that was exported with its cache as inputs and results, each layer concatenates the earlier keys and values
with the new ones and attends to all of them. ONNX Runtime has one operator for this. It also applies the rotary
embedding to queries and keys, and it writes only the new rows if the incoming and the outgoing cache share their
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ... import op as ops
from ...analysis import free_symbolic_vars, free_vars, get_var2val
from ...analysis.axes import View, arrangement, axis_of, sources
from ...analysis.tensors import dtype_of, shape_of
from ...analysis.values import call_of, definition, leaves_of, resolve
from ...ir.binding_values import bind_sizes
from ...ir.builder import in_normal_form
from ...ir.dims import Dim, SymVar, dims_equal, free_symvars
from ...ir.expr import DataflowVar, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, const
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Binding, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding
from ...ir.reading import defining_symvars
from ...ir.types import ShapeType, TensorType
from ...ir.visitor import iter_bindings
from ...op.extras.microsoft.grouped import group_query_attention
from ...op.primitive.manipulate import permutation
from ...pattern import PatternContext, is_op, is_tuple, wildcard
from ...rewrite import Bindings, Decline, Rule, decline
from ..context import PassContext, PassError
from ..passes import FunctionPass, Pass, RulePass
from .indices import VisibleKeys, index_of, visible_keys
from .other_attention import LEFT_OUT, OTHER_ATTENTION, given, with_other_attention
from .rotary import Rotation, numbers_of_pairs, part_of, rotation_of
from .row_maps import RowMaps, read_caches, row_maps
from .slopes import BiasOfPlaces, bias_of_places
from .tables import PositionTables

TOTAL: Final = "total_length"
"""The name of the parameter that holds the number of places after a step."""

_PAIRS: Final = 8
"""Inside its attention, ONNX Runtime rotates pairs only in multiples of this number."""

_HEADS_FIRST: Final = (0, 2, 1, 3)
_BATCH_OF_HEADS: Final = (2, 0, 1, 3)
"""The order of an attention's axes in a cache, if the heads of one text are the batch of the attention."""
_past, _new = wildcard(), wildcard()
_joined = is_op("relax.concat")(is_tuple([_past, _new]))
_ATTENTIONS: Final = ("relax.nn.attention", "relax.nn.attention_bias", OTHER_ATTENTION.name)


class _Cache(NamedTuple):
    """``joined`` is the parameter ``past`` with ``new`` rows after it: (batch, heads, sequence, size)."""

    past: Var
    new: Expr
    joined: Var


class _CachedAttention(NamedTuple):
    """One attention over a cache. ``query`` is (batch, heads, sequence, size); ``bias`` says which keys are visible.

    The batch of ``call`` may be the heads of a text; it then has one head. With ``maps``, the operands are chosen so
    that the attention is over the rows of the caches, and the result is computed from sums of these rows.
    """

    var: Var
    call: Call
    query: Expr
    keys: _Cache
    values: _Cache
    bias: BiasOfPlaces
    maps: RowMaps | None = None


class _CachedFunction:
    """A function with a cache and attentions over it, and its conversion to a cache in place."""

    def __init__(self, function: Function, longest: int) -> None:
        self._function = function
        self._longest = longest
        self._values: Mapping[Var, Expr] = get_var2val(function)
        self._uses: Counter[Expr] = Counter()
        for value in self._values.values():
            self._uses.update(resolve(self._values, leaf) for leaf in leaves_of(value))
        self._outputs = [resolve(self._values, leaf) for leaf in leaves_of(function.body.body)]
        self._biases: dict[Expr, BiasOfPlaces | None] = {}
        self._tables: PositionTables | None = None

    # --- reading

    def _layers(self) -> list[_CachedAttention]:
        found: list[_CachedAttention] = []
        for var, value in self._values.items():
            if is_call_of(value, *_ATTENTIONS):
                found.append(self._layer(var, value))
        if not found:
            raise PassError("it has no attention that is a single operator; FuseAttention makes these operators")
        return found

    def _layer(self, var: Var, call: Call) -> _CachedAttention:
        for order in (_HEADS_FIRST, _BATCH_OF_HEADS) if _may_be_heads(call) else (_HEADS_FIRST,):
            query, key, value = (self._as_in_cache(arg, order) for arg in call.args[:3])
            caches = self._cache(key), self._cache(value)
            if caches[0] is None or caches[1] is None or shape_of(caches[0].past)[3] != shape_of(caches[1].past)[3]:
                continue
            return _CachedAttention(var, call, query, caches[0], caches[1], self._bias(var, call, caches[0]))
        if (mapped := self._mapped_layer(var, call)) is not None:
            return mapped
        raise PassError(f"the keys and values of {var.name_hint} are not a cache and new rows after it")

    def _mapped_layer(self, var: Var, call: Call) -> _CachedAttention | None:
        """The layer as an attention over rows of its caches, if keys and values are linear maps of them; else None."""
        read = [read_caches(arg, self._values, lambda leaf: self._cache(leaf) is not None) for arg in call.args[1:3]]
        joined = list(dict.fromkeys([*(read[0] or ()), *(read[1] or ())]))
        first, second = (self._cache(one) for one in joined) if len(joined) == 2 else (None, None)
        if first is None or second is None:
            return None
        past, count = shape_of(first.past)[2], shape_of(call.args[0])[1]
        places = self._places(past, count)
        maps = None if places is None else self._maps(call, joined, places)
        bias = self._bias(var, call, first)
        sinks = given(call, 4) if is_call_of(call, OTHER_ATTENTION.name) else None
        if maps is None or (maps.order is not None and (not bias.is_of_all_heads or sinks is not None)):
            return None
        query = ops.permute_dims(call.args[0], _HEADS_FIRST)
        keys, values = maps.rows(first.new, second.new)
        return _CachedAttention(
            var, call, maps.query(query), first._replace(new=keys), second._replace(new=values), bias, maps
        )

    def _maps(self, call: Call, joined: Sequence[Var], places: PositionTables) -> RowMaps | None:
        query, key, value = call.args[:3]
        return row_maps(key, value, shape_of(query)[2], joined, places.of_rows)

    def _as_in_cache(self, operand: Expr, order: Sequence[int]) -> Expr:
        """``operand`` of an attention, transposed by ``order`` to (batch, heads, sequence, size)."""
        batch, *others = shape_of(operand)
        groups = [axis_of(batch, divisible=True), *map(axis_of, others)]
        view = View(operand, groups)
        for inner in sources(view, self._values):
            view = inner if len(inner.groups) == 4 and all(len(group) <= 1 for group in inner.groups) else view
        return arrangement(view, [groups[axis] for axis in order]).written()

    def _cache(self, joined: Expr) -> _Cache | None:
        found = _joined.extract_matched_expr(joined, self._values)
        var = resolve(self._values, joined)
        if found is None or not isinstance(var, Var) or found[_joined].attrs.axis not in (2, -2):
            return None
        past = resolve(self._values, found[_past])
        if past not in self._function.params or self._uses[past] != 1 or var not in self._outputs:
            return None
        assert isinstance(past, Var)
        shape = shape_of(past)
        is_known = len(shape) == 4 and isinstance(shape[2], SymVar) and isinstance(shape[1], int)
        return _Cache(past, found[_new], var) if is_known and isinstance(shape[3], int) else None

    def _bias(self, var: Var, call: Call, keys: _Cache) -> BiasOfPlaces:
        """The bias that hides keys from queries, and the slopes added to it; raises `PassError` for another mask."""
        past, count = shape_of(keys.past)[2], shape_of(call.args[0])[1]
        span = VisibleKeys()
        if call.attrs.causal_mask == "BottomRight":
            size = call.attrs.window_size
            span = VisibleKeys(None if size is None else past - size + 1, past)
        elif call.attrs.causal_mask is not None:
            raise PassError(f"{var.name_hint} is masked as if there were no cache")
        bias = given(call, 3)
        if bias is not None:
            found = visible_keys(bias, self._values)
            if found is None and span.most is None:
                return self._computed_bias(var, bias, self._places(past, count))
            if found is None or span.most is not None:
                raise PassError(f"the mask of {var.name_hint} is more than a causal one and a window")
            span = found
        if span.most is None and dims_equal(count, 1) is True:
            span = VisibleKeys(None, past)
        if span.most is None or dims_equal(span.most, past) is not True:
            raise PassError(f"{var.name_hint} is not causal")
        size = None if span.least is None else span.most - span.least + 1
        if size is not None and not isinstance(size, int):
            raise PassError(f"the window of {var.name_hint} has no fixed size")
        return BiasOfPlaces(size)

    def _computed_bias(self, var: Var, bias: Expr, places: PositionTables | None) -> BiasOfPlaces:
        """The bias of an attention, found by computing it at all places, however the model computes it."""
        leaf = resolve(self._values, bias)
        if leaf not in self._biases:
            self._biases[leaf] = None if places is None else bias_of_places(leaf, places)
        found = self._biases[leaf]
        if found is None:
            raise PassError(f"the mask of {var.name_hint} shows later keys, or depends on more than positions")
        return found

    def _places(self, past: Dim, count: Dim) -> PositionTables | None:
        if not isinstance(past, SymVar) or not (isinstance(count, SymVar) or dims_equal(count, 1) is True):
            return None
        if self._tables is None:
            self._tables = PositionTables(
                self._function, past, count if isinstance(count, SymVar) else None, self._longest
            )
        return self._tables

    # --- writing

    def in_place(self) -> Function:
        """The function with room for ``longest`` places; raises `PassError` if this is not possible."""
        layers = {layer.var: layer for layer in self._layers()}
        first = next(iter(layers.values()))
        past = shape_of(first.keys.past)[2]
        batch, _, count, _ = shape_of(first.query)
        assert isinstance(past, SymVar)
        lengths = _Lengths(past, count, batch, self._values)
        places = self._places(past, count)
        caches = [cache for layer in layers.values() for cache in (layer.keys, layer.values)]
        _check_sharing(layers.values())
        rooms = {cache.past: self._room(cache) for cache in caches}
        left = [param.name_hint for param in self._function.params if param not in rooms and _grows(param, past)]
        if left:
            raise PassError(
                f"no attention that is a single operator reads {left[0]}; FuseAttention makes these operators"
            )
        present = {cache.joined: Var(cache.joined.name_hint, rooms[cache.past].ty) for cache in caches}
        bindings: list[Binding] = []
        written: list[Var] = []
        sums: list[tuple[_CachedAttention, Var]] = []
        for binding in iter_bindings(self._function):
            if binding.var in layers:
                layer = layers[binding.var]
                found = next((found for other, found in sums if self._attends_as(layer, other)), None)
                if found is not None:
                    bindings.append(_result(layer, found))
                    continue
                given = [present[cache.joined] for cache in (layer.keys, layer.values)]
                given = [Var(f"{one.name_hint}_again", one.ty) if one in written else one for one in given]
                written += given
                found, attended = _attended(layer, rooms, given, lengths, self._turn(layer, places))
                bindings += [*attended, _result(layer, found)]
                sums.append((layer, found))
            elif binding.var not in present:
                bindings.append(lengths.without_past(binding))
        params = [*(rooms.get(param, param) for param in self._function.params), lengths.total]
        results = [present.get(leaf, leaf) if isinstance(leaf, Var) else leaf for leaf in self._outputs]
        results += [var for var in written if var not in present.values()]
        body = SeqExpr([DataflowBlock(bindings)], Tuple(results))
        made = in_normal_form(Function(params, body, None, self._function.is_pure, self._function.attrs))
        made = made.with_body(SeqExpr([DataflowBlock(_needed(made))], made.body.body))
        if not set(free_vars(made)).isdisjoint(present):
            raise PassError("something other than attention reads the cache")
        if past in free_symbolic_vars(made):
            blocks = [DataflowBlock([lengths.of_past(), *_needed(made)])]
            made = in_normal_form(made.with_body(SeqExpr(blocks, made.body.body)))
        return made

    def _attends_as(self, layer: _CachedAttention, other: _CachedAttention) -> bool:
        """True if both attend over the same rows in the same way; only their results differ."""
        if layer.maps is None or other.maps is None or not layer.maps.reads_as(other.maps):
            return False
        pairs = zip(layer.call.args[:1] + layer.call.args[3:], other.call.args[:1] + other.call.args[3:], strict=False)
        is_same = all(resolve(self._values, ours) is resolve(self._values, theirs) for ours, theirs in pairs)
        return is_same and layer.call.attrs == other.call.attrs and layer.keys.past is other.keys.past

    def _room(self, cache: _Cache) -> Var:
        past, (batch, heads, _, size) = cache.past, shape_of(cache.new)
        return Var(past.name_hint, TensorType((batch, heads, self._longest, size), dtype_of(past)), past.origins)

    def _turn(self, layer: _CachedAttention, places: PositionTables | None) -> _Turn | None:
        """The layer's rotary embedding as tables; None if queries or keys have no such embedding."""
        query, key = self._rotation(layer.query), self._rotation(layer.keys.new)
        if query is None or key is None or places is None or query.width % (2 * _PAIRS):
            return None
        if query.interleaved != key.interleaved:
            return None
        tables: list[np.ndarray] = []
        for ours, theirs in ((query.cosine, key.cosine), (query.sine, key.sine)):
            table, other = places.table_of(ours), places.table_of(theirs)
            if table is None or other is None or table.shape[-1] * self._longest != table.size:
                return None
            rows = table.reshape(self._longest, -1)
            if not np.array_equal(rows, other.reshape(rows.shape)):
                return None
            pairs = numbers_of_pairs(rows, query.width, interleaved=query.interleaved)
            if pairs is None:
                return None
            tables.append(np.ascontiguousarray(pairs, np.float32))
        return _Turn(query.data, key.data, tables[0], tables[1], query.interleaved)

    def _rotation(self, value: Expr) -> Rotation | None:
        """``value`` as a rotation, also if its heads were moved to the front afterwards."""
        made = definition(self._values, value)
        if is_call_of(made, "relax.permute_dims") and permutation(made) == _HEADS_FIRST:
            found = rotation_of(made.args[0], self._values)
            return None if found is None else found._replace(data=ops.permute_dims(found.data, _HEADS_FIRST))
        return rotation_of(value, self._values)


class _Turn(NamedTuple):
    """Queries and keys before their rotary embedding, and the tables (places, pairs) of the embedding."""

    query: Expr
    key: Expr
    cosine: np.ndarray
    sine: np.ndarray
    interleaved: bool


class _Lengths:
    """The number of places, which becomes a parameter once the cache has room for more."""

    def __init__(self, past: SymVar, count: Dim, batch: Dim, values: Mapping[Var, Expr]) -> None:
        self.total: Final = Var(TOTAL, TensorType((), "int32"))
        last = ops.reshape(ops.subtract(self.total, const(np.int32(1))), [1])
        self.last: Final = last if dims_equal(batch, 1) is True else ops.broadcast_to(last, [batch])
        """The last place of each row of the batch."""
        self._past = past
        self._count = count
        self._values = values
        self._slopes: dict[int, Var] = {}

    def of_keys(self, slopes: np.ndarray, count: Dim) -> tuple[Var, list[Binding]]:
        """Slopes (1, heads, 1, keys) for all keys after a step, repeated for each of ``count`` queries."""
        if id(slopes) in self._slopes:
            return self._slopes[id(slopes)], []
        ends = const(np.array([1, slopes.shape[1], 1])), ops.reshape(ops.astype(self.total, "int64"), [1])
        begin, step = const(np.zeros(4, np.int64)), const(np.ones(4, np.int64))
        cut = ops.dynamic_strided_slice(const(slopes), begin, ops.concat(ends, axis=0), step)
        found = ops.add(cut, ops.zeros(ShapeExpr([1, 1, count, 1]), "float32"))
        var = self._slopes[id(slopes)] = DataflowVar("slopes", found.ty)
        return var, [VarBinding(var, found)]

    def of_past(self) -> MatchCast:
        """The length of the cache, bound to the size variable that it had before."""
        found = ops.tensor_to_shape(self._beside_total(-self._count, [1]))
        return MatchCast(DataflowVar("length", ShapeType([self._past])), found, ShapeType([self._past]))

    def without_past(self, binding: Binding) -> Binding:
        """``binding`` with the length of the cache computed from the parameter, if it is only used as a number."""
        call = binding.value
        if not isinstance(binding, VarBinding) or not isinstance(call, Call):
            return binding
        if is_call_of(call, "relax.shape_to_tensor") and isinstance(call.args[0], ShapeExpr):
            sizes = call.args[0].values
            found = self._number(sizes[0], [1]) if len(sizes) == 1 else None
            return binding if found is None else VarBinding(binding.var, found)
        if is_call_of(call, "relax.strided_slice"):
            places = self._places(binding.var)
            return binding if places is None else VarBinding(binding.var, places)
        if is_call_of(call, "relax.arange") and all(isinstance(arg, PrimValue) for arg in call.args[:3]):
            start, end, step = (arg.value for arg in call.args[:3] if isinstance(arg, PrimValue))
            if isinstance(start, float) or isinstance(end, float) or step != 1 or call.attrs.dtype != "int64":
                return binding
            first = self._number(start, [])
            if first is not None:
                return VarBinding(binding.var, ops.add(ops.arange(0, end - start, dtype="int64"), first))
        return binding

    def _places(self, var: Var) -> Expr | None:
        """Places that are sliced from the places of all tokens, computed directly; None for another value."""
        index, shape = index_of(var, self._values), shape_of(var)
        if index is None or index.axis is None or not isinstance(var.ty, TensorType) or var.ty.dtype != "int64":
            return None
        first, length = self._number(index.first, []), shape[index.axis]
        if first is None or any(
            dims_equal(size, 1) is not True for size in (*shape[: index.axis], *shape[index.axis :][1:])
        ):
            return None
        return ops.reshape(ops.add(ops.arange(0, length, dtype="int64"), first), list(shape))

    def _number(self, size: Dim, shape: list[int]) -> Expr | None:
        """``size`` as a tensor, if it is the length of the cache plus a number independent of it; else None."""
        beside = size - self._past
        if isinstance(size, int) or self._past in free_symvars(beside):
            return None
        return self._beside_total(beside - self._count, shape)

    def _beside_total(self, more: Dim, shape: list[int]) -> Expr:
        count = const(np.array([more])) if isinstance(more, int) else ops.shape_to_tensor(ShapeExpr([more]))
        return ops.reshape(ops.add(ops.astype(self.total, "int64"), count), shape)


def _needed(function: Function) -> list[Binding]:
    """The bindings that the results of ``function`` are computed from, and those with effects.

    Checks of sizes of values that are no longer read are dropped: they held for all places that were examined. Checks
    that define a size are kept.
    """
    read = set(leaves_of(function.body.body))
    known = {size for param in function.params for size in defining_symvars(param.ty)}
    kept: list[Binding] = []
    for binding in reversed(list(iter_bindings(function))):
        is_effect = isinstance(binding.value, Call) and not binding.value.is_pure
        is_size = isinstance(binding, MatchCast) and not known.issuperset(defining_symvars(binding.ty))
        if binding.var in read or is_effect or is_size:
            kept.append(binding)
            read.update(leaves_of(binding.value))
    return kept[::-1]


def _attended(
    layer: _CachedAttention, rooms: Mapping[Var, Var], present: Sequence[Var], lengths: _Lengths, turn: _Turn | None
) -> tuple[Var, list[Binding]]:
    """The attention of a layer as the operator that keeps the cache; its second and third results are ``present``.

    The returned variable holds all three results. The first one holds sums of rows, which `_result` brings into shape.
    """
    query, key = (layer.query, layer.keys.new) if turn is None else (turn.query, turn.key)
    tables = (LEFT_OUT, LEFT_OUT) if turn is None else (const(turn.cosine), const(turn.sine))
    bindings: list[Binding] = []
    slopes: Expr = LEFT_OUT if layer.bias.computed is None else layer.bias.computed
    if layer.bias.slopes is not None:
        slopes, bindings = lengths.of_keys(layer.bias.slopes, shape_of(query)[2])
    is_other = is_call_of(layer.call, OTHER_ATTENTION.name)
    sinks = given(layer.call, 4) if is_other else None
    caches = layer.keys, layer.values
    call = group_query_attention(
        *[_rows(value) for value in (query, key, layer.values.new)],
        *[rooms[cache.past] for cache in caches],
        lengths.last,
        lengths.total,
        *tables,
        LEFT_OUT,
        slopes,
        LEFT_OUT if sinks is None else sinks,
        num_heads=shape_of(query)[1],
        kv_num_heads=shape_of(key)[1],
        do_rotary=int(turn is not None),
        rotary_interleaved=int(turn is not None and turn.interleaved),
        scale=_scale(layer.call),
        softcap=layer.call.attrs.cap if is_other else 0.0,
        local_window_size=-1 if layer.bias.window is None else layer.bias.window,
    )
    found = DataflowVar(f"{layer.var.name_hint}_and_cache", call.ty)
    bindings.append(VarBinding(found, call))
    bindings += [
        MatchCast(var, TupleGetItem(found, place), rooms[cache.past].ty)
        for place, (var, cache) in enumerate(zip(present, caches, strict=True), 1)
    ]
    return found, bindings


def _result(layer: _CachedAttention, found: Var) -> Binding:
    """The result of a layer, from the sums of rows that are the first field of ``found``."""
    batch, heads, sequence, size = shape_of(layer.query)
    attended = ops.reshape(TupleGetItem(found, 0), [batch, sequence, heads, size])
    if layer.maps is not None:
        attended = ops.permute_dims(layer.maps.result(ops.permute_dims(attended, _HEADS_FIRST)), _HEADS_FIRST)
    is_batch_of_heads = dims_equal(shape_of(layer.var)[0], batch) is not True
    return VarBinding(layer.var, ops.permute_dims(attended, (2, 1, 0, 3)) if is_batch_of_heads else attended)


def _check_sharing(layers: Iterable[_CachedAttention]) -> None:
    """Raise `PassError` unless all layers that read one cache keep it in the same way."""
    readers: dict[Var, _CachedAttention] = {}
    for layer in layers:
        for cache in (layer.keys, layer.values):
            other = readers.setdefault(cache.past, layer)
            is_alike = (other.keys.past, other.values.past) == (layer.keys.past, layer.values.past)
            is_kept_alike = layer.maps is other.maps or (
                layer.maps is not None and other.maps is not None and layer.maps.keeps_as(other.maps)
            )
            if other is not layer and not (is_alike and is_kept_alike):
                raise PassError(f"several attentions read {cache.past.name_hint}, each in its own way")


def _grows(param: Var, past: SymVar) -> bool:
    """True if ``param`` has the length of the cache as a size."""
    return isinstance(param.ty, TensorType) and past in (param.ty.shape or ())


def _scale(call: Call) -> float | None:
    """The scale of an attention, made explicit because its queries may get another size."""
    size = shape_of(call.args[0])[3]
    return call.attrs.scale if call.attrs.scale is not None or not isinstance(size, int) else size**-0.5


def _may_be_heads(call: Call) -> bool:
    """True if the batch of an attention with one head may be the heads of one text."""
    return all(dims_equal(shape_of(arg)[2], 1) is True for arg in call.args[:3])


def _rows(value: Expr) -> Expr:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    batch, heads, sequence, size = shape_of(value)
    return ops.reshape(ops.permute_dims(value, _HEADS_FIRST), [batch, sequence, heads * size])


def CacheInPlace(longest: int) -> Pass:
    """Give a decoder's cache room for ``longest`` places, and write new rows into it instead of concatenating tensors.

    The parameters that hold keys and values, (batch, heads, past, size) with a symbolic ``past``, become (batch, heads,
    ``longest``, size), and so do the results that hold them. A last parameter ``total_length``, an int32 scalar, is the
    number of places after a step; the contents of later rows are arbitrary. Attention becomes ONNX Runtime's
    ``GroupQueryAttention``. Rotary embedding becomes a part of it, with tables for all places. If the incoming and the
    outgoing cache share their memory, only the new rows are written. If several layers read one cache (Gemma 3n), each
    writes the same rows, and further results, named with ``_again``, hold what the later layers wrote: bind them to the
    same memory, too.

    If keys and values are linear maps of the rows of the cache (`row_maps`), attention is over these rows. The two
    caches of a layer then get one width; if keys are computed from both caches, each holds the contents of both.

    Needs: attention as one operator with a causal mask, and with a window or slopes if there are any (`FuseAttention`).
    Attention with sinks, or with scores capped by tanh, is recognized in its written-out form. A mask of another form,
    and slopes, are computed for all places to find their form. A mask that is neither a window nor slopes, but hides
    later keys, is computed in each step. All rows of a batch have the same length. Guarantees: the same values up to
    ``longest`` places, except for rounding. Raises `PassError` for a function of another form, with the reason. Cost:
    linear, plus the tables; the tables of a computed mask grow with the square of ``longest``.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return _CachedFunction(with_other_attention(_with_one_length(function), context), longest).in_place()

    return FunctionPass(transform, "CacheInPlace", keeps_values=False)


# --- queries, keys and values side by side

with PatternContext() as _APART:
    _parts = [wildcard() for _ in range(3)]
    _attention = is_op("com.microsoft.GroupQueryAttention")(*_parts, varg_default_wildcard=True)


def _packed(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    var = matchings[_attention]
    call = call_of(bindings, var)
    if any(not isinstance(arg.ty, TensorType) for arg in call.args[1:3]):
        return decline("they are one tensor already")
    query, key, value = (part_of(arg, bindings) for arg in call.args[:3])
    if query is None or key is None or value is None:
        return decline("queries, keys and values are not cut from one tensor")
    is_one = query.whole is key.whole is value.whole and (query.begin, value.end) == (0, shape_of(query.whole)[-1])
    if not is_one or (query.end, key.end) != (key.begin, value.begin):
        return decline("queries, keys and values are not adjacent slices of their tensor")
    if not call.attrs.do_rotary:
        return decline("queries and keys are rotated before the attention")
    return {var: Call(call.op, (query.whole, LEFT_OUT, LEFT_OUT, *call.args[3:]), call.attrs)}


def PackQueryKeyValue() -> Pass:
    """Pass queries, keys and values to ``GroupQueryAttention`` in one tensor, if they are slices of one.

    Needs: one product for the three (`CombineParallelMatmul`), with no reshapes in between (`RemoveRedundantReshape`),
    and rotary embedding in the operator. Guarantees: the same values. Cost: linear.
    """
    return RulePass(Rule(_APART, _packed, "pack_query_key_value"), "PackQueryKeyValue")


def _with_one_length(function: Function) -> Function:
    """``function`` with one size variable for the lengths of all caches that it appends rows to."""
    values = get_var2val(function)
    lengths: dict[SymVar, None] = {}
    for value in values.values():
        found = _joined.extract_matched_expr(value, values)
        if found is None or resolve(values, found[_past]) not in function.params:
            continue
        lengths.update((size, None) for size in shape_of(found[_past])[2:3] if isinstance(size, SymVar))
    first = next(iter(lengths), None)
    return function if first is None else bind_sizes(function, {size: first for size in lengths if size is not first})
