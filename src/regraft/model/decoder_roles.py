"""The roles of a decoder's parameters and results: ids, logits, keys, values, states, the mask, and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..analysis.tensors import shape_of
from ..analysis.values import definition, leaves_of, resolve
from ..formats.torch import READ_AGAIN
from ..ir.dims import SymVar, dims_equal
from ..ir.dtypes import HALF
from ..ir.expr import Expr, TupleGetItem, Var
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings
from ..passes.decoders import TOTAL
from ..run.onnxruntime_decoder import Kept, Roles
from .errors import UsageError
from .grouped_caches import ATTENTION, PAST


def roles_of(function: Function) -> Roles:
    """The roles of the parameters and results of a decoder; raises `UsageError` if the function is not a decoder."""
    places: dict[str, int] = {}
    kept: list[int] = []
    for place, param in enumerate(function.params):
        ty = param.ty
        if not isinstance(ty, TensorType):
            raise UsageError(f"{param.name_hint} is no tensor, so this is no decoder over ids and a cache")
        if param.name_hint == TOTAL:
            places["total"] = place
        elif ty.dtype == "float32":
            kept.append(place)
        elif ty.ndim == 2 and ty.dtype == "int64":
            key = next((key for key in ("mask", "position") if key in param.name_hint), "ids")
            if key == "ids" and key in places:
                raise UsageError(f"{param.name_hint} is a second input of ids; a decoder has one")
            places["positions" if key == "position" else key] = place
        elif ty.dtype in HALF:
            raise UsageError(f"{param.name_hint} is {ty.dtype}; read_decoder brings a decoder to float32")
        else:
            raise _neither(param)
    if "ids" not in places or not kept:
        what = "ids (1, tokens) of int64" if kept else "keys and values of before (1, heads, tokens, size)"
        raise UsageError(
            f"the model has no input of {what}; give a folder of transformers, or a decoder with its cache"
        )
    results = function.ret_ty.fields if isinstance(function.ret_ty, TupleType) else (function.ret_ty,)
    logits = next((place for place, ty in enumerate(results) if isinstance(ty, TensorType) and ty.ndim == 3), None)
    if logits is None:
        raise UsageError("it gives no logits (1, tokens, vocabulary)")
    caches, states = _pairs(function, kept, results, logits)
    (texts, count), words = shape_of(function.params[places["ids"]]), results[logits]
    known = words.shape[-1] if isinstance(words, TensorType) and words.shape else None
    return Roles(
        logits=logits,
        caches=tuple(caches),
        states=tuple(states),
        **places,
        texts=texts if isinstance(texts, int) else 1,
        at_once=count if isinstance(count, int) else None,
        vocabulary=known if isinstance(known, int) else None,
        read_again_after=function.attrs.get(READ_AGAIN),
    )


def _neither(param: Var) -> UsageError:
    return UsageError(f"the input {param.name_hint} is neither ids nor keys and values of before: {param.ty!r}")


def _pairs(
    function: Function, kept: Sequence[int], results: Sequence[Type], logits: int
) -> tuple[list[Kept], list[Kept]]:
    """The caches and the states among the parameters at the places ``kept``, each with its result. Parameters and
    results are in the same order. Further results of a cache with room follow.
    """
    given = [place for place in range(len(results)) if place != logits]
    rooms = _rooms(function)
    caches: list[Kept] = []
    states: list[Kept] = []
    for place in kept:
        param = function.params[place]
        is_cache = param in rooms.values() or _grows(param)
        found = next((one for one in given if _may_be(results[one], param.ty, alike=not is_cache)), None)
        if found is None:
            raise _without_result(param, is_cache=is_cache)
        given = [one for one in given if one > found]
        (caches if is_cache else states).append((place, found, _at_first(param)))
    places = {param: place for place, param in enumerate(function.params)}
    used = {result for _, result, _ in caches}
    more = [(places[room], result, _at_first(room)) for result, room in rooms.items() if result not in used]
    return [*caches, *more], states


def _rooms(function: Function) -> Mapping[int, Var]:
    """The parameters that an attention writes new rows to, by the position of the result that returns them."""
    values = {binding.var: binding.value for binding in iter_bindings(function)}
    found: dict[int, Var] = {}
    for result, leaf in enumerate(leaves_of(function.body.body)):
        part = definition(values, resolve(values, leaf))
        call = definition(values, resolve(values, part.tuple_value)) if isinstance(part, TupleGetItem) else None
        if isinstance(part, TupleGetItem) and is_call_of(call, ATTENTION) and part.index:
            past: Expr = resolve(values, call.args[PAST + part.index - 1])
            if isinstance(past, Var) and past in function.params:
                found[result] = past
    return found


def _grows(param: Var) -> bool:
    shape = shape_of(param)
    return len(shape) == 4 and isinstance(shape[2], SymVar)


def _may_be(result: Type, ty: Type | None, *, alike: bool) -> bool:
    """True if ``result`` can be the new value of a parameter of type ``ty`` after a step; with the same sizes if
    ``alike``.
    """
    if not isinstance(result, TensorType) or not isinstance(ty, TensorType) or result.ndim != ty.ndim:
        return False
    before, after = ty.shape or (), result.shape or ()
    return not alike or all(dims_equal(*sizes) is True for sizes in zip(before, after, strict=False))


def _without_result(param: Var, *, is_cache: bool) -> UsageError:
    shape = shape_of(param)
    if is_cache:
        return UsageError(f"it takes keys and values, {param.name_hint}, and returns no new ones")
    if len(shape) == 4:
        return UsageError(
            f"{param.name_hint} holds {shape[2]} tokens in every run; export the decoder with a dynamic cache length, "
            "or give a folder of transformers"
        )
    return _neither(param)


def _at_first(param: Var) -> tuple[int, ...]:
    """The shape of a parameter before the first token, or its shape with room."""
    at_first = {0: 1, 2: 0}  # one text, of no tokens
    sizes = [
        at_first.get(axis, size) if isinstance(size, SymVar) else size for axis, size in enumerate(shape_of(param))
    ]
    known = tuple(size for size in sizes if isinstance(size, int))
    if len(known) != len(sizes):
        raise UsageError(f"the heads of {param.name_hint}, their size, or its length is not known")
    return known
