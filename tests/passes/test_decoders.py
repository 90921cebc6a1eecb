"""A decoder's cache with room for a longest text: the same values at every length, on each engine, or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, Expr, IRModule, ShapeExpr, SymVar, TensorType, Var, const, iter_bindings
from regraft.model.decoding import Decoder, fast_decoder
from regraft.passes import PassError
from regraft.passes.decoders import TOTAL, CacheInPlace, PackQueryKeyValue
from regraft.transform import (
    CombineParallelMatmul,
    DeadCodeElimination,
    FoldConstant,
    FuseAttention,
    RemoveRedundantReshape,
    Sequential,
    SimplifyTransposes,
    op_counts,
)
from tests.kit import assert_close

WIDTH, HEADS, SHARED, SIZE, LONGEST = 32, 4, 2, 16, 24
RNG = np.random.default_rng(5)
STEPS = ((5, 0), (1, 5), (1, 23), (3, 9), (24, 0))
"""New places and those before them."""


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def _turned(x: Expr, cosine: Expr, sine: Expr, width: int) -> Expr:
    """Rotary embedding of the first ``width`` elements, as transformers writes it; of pairs side by side for -16."""
    if width < 0:
        first, second = (R.strided_slice(x, [3], [begin], [SIZE], [2]) for begin in (0, 1))
        pairs = R.reshape(R.stack([R.negative(second), first], axis=-1), x.ty.shape)
        return R.add(R.multiply(x, cosine), R.multiply(pairs, sine))
    half = width // 2
    head = x if width == SIZE else R.strided_slice(x, [3], [0], [width])
    first, second = R.strided_slice(head, [3], [0], [half]), R.strided_slice(head, [3], [half], [width])
    moved = R.concat([R.negative(second), first], axis=-1)
    found = R.add(R.multiply(head, cosine), R.multiply(moved, sine))
    return found if width == SIZE else R.concat([found, R.strided_slice(x, [3], [width], [SIZE])], axis=-1)


def decoder(*, turned: int = SIZE, window: int | None = None, masked: str = "where", learned: bool = False) -> IRModule:
    """One layer over a cache, with grouped heads that are repeated; ``learned``: positions come from a table."""
    count, past = SymVar("count"), SymVar("past")
    x = Var("x", TensorType((1, count, WIDTH), "float32"))
    caches = [Var(name, TensorType((1, SHARED, past, SIZE), "float32")) for name in ("past_key", "past_value")]
    builder = BlockBuilder()
    with builder.function("main", [x, *caches]):
        y, joined = _layer(builder, x, caches, turned, window, masked, learned)
        builder.emit_func_output([y, *joined])
    return builder.get()


def decoder_that_reads_its_cache_twice() -> IRModule:
    """Two attentions over one cache, of which the second asks with what the first found, after ids."""
    count, past = SymVar("count"), SymVar("past")
    ids = Var("ids", TensorType((1, count), "int64"))
    caches = [Var(name, TensorType((1, SHARED, past, SIZE), "float32")) for name in ("past_key", "past_value")]
    builder = BlockBuilder()
    with builder.function("main", [ids, *caches]):
        words = R.take(weights(WIDTH, WIDTH), R.reshape(ids, [count]), axis=0)
        x = builder.emit(R.reshape(words, [1, count, WIDTH]))
        y, joined = _layer(builder, x, caches, SIZE, None, "where", learned=False, again=True)
        builder.emit_func_output([y, *joined])
    return builder.get()


def _layer(
    builder: BlockBuilder,
    x: Var,
    caches: list[Var],
    turned: int,
    window: int | None,
    masked: str,
    learned: bool,
    again: bool = False,
) -> tuple[Var, list[Var]]:
    count, past = x.ty.shape[1], caches[0].ty.shape[2]
    with builder.dataflow():
        first = R.squeeze(R.shape_to_tensor(ShapeExpr([past])), [0])
        places = builder.emit(R.add(R.arange(0, count), first))
        data: Expr = x
        if learned:
            data = builder.emit(R.add(x, R.expand_dims(R.take(weights(64, WIDTH), places, axis=0), [0])))
        query, key, value = (
            builder.emit(
                R.permute_dims(
                    R.reshape(R.matmul(data, weights(WIDTH, heads * SIZE)), [1, count, heads, SIZE]), [0, 2, 1, 3]
                )
            )
            for heads in (HEADS, SHARED, SHARED)
        )
        if turned:
            width = abs(turned)
            rates = const((1e4 ** -(np.arange(width // 2) * 2 / width)).astype(np.float32))
            angles = R.multiply(R.expand_dims(R.astype(places, "float32"), [1]), rates)
            both = R.concat([angles, angles], axis=-1) if turned > 0 else R.repeat(angles, 2, axis=-1)
            both = R.reshape(both, [1, 1, count, width])
            cosine, sine = builder.emit(R.cos(both)), builder.emit(R.sin(both))
            query, key = (builder.emit(_turned(one, cosine, sine, turned)) for one in (query, key))
        joined = [builder.emit_output(R.concat(pair, axis=2)) for pair in zip(caches, (key, value), strict=True)]
        spread = [R.broadcast_to(R.expand_dims(one, [2]), [1, SHARED, 2, past + count, SIZE]) for one in joined]
        wide = [R.permute_dims(R.reshape(one, [1, HEADS, past + count, SIZE]), [0, 2, 1, 3]) for one in spread]
        keys, own = R.expand_dims(R.arange(0, past + count), [0]), R.expand_dims(places, [1])
        seen = R.less_equal(keys, own)
        if window is not None:
            seen = R.logical_and(seen, R.greater(keys, R.subtract(own, const(np.int64(window)))))
        low = const(np.float32(-3e38 if masked in ("capped", "shares", "shares of others") else -np.inf))
        bias = R.where(R.expand_dims(seen, [0, 1]), const(np.float32(0)), low)
        distance = R.astype(R.expand_dims(R.subtract(keys, own), [0, 1]), "float32")
        if masked == "twice":
            bias = R.multiply(bias, const(np.float32(2)))
        elif masked == "slopes":
            slopes = const(np.array([0.5, 0.25, 0.1, 0.01], np.float32).reshape(1, HEADS, 1, 1))
            bias = R.add(bias, R.multiply(slopes, distance))
        elif masked == "curves":
            bias = R.subtract(bias, R.multiply(distance, distance))
        elif masked == "earlier":
            bias = R.where(R.equal(distance, const(np.float32(0))), low, bias)
        elif masked == "later":
            bias = R.where(R.equal(distance, const(np.float32(1))), const(np.float32(0)), bias)
        elif masked == "every other":
            bias = R.where(R.equal(R.mod(distance, const(np.float32(2))), const(np.float32(0))), bias, low)
        if masked == "capped":
            capped = R.tanh(R.multiply(R.matmul(query, R.permute_dims(wide[0], [0, 2, 3, 1])), const(np.float32(0.5))))
            shares = R.nn.softmax(R.add(R.multiply(capped, const(np.float32(1.5))), bias), axis=-1)
            attended = R.permute_dims(R.matmul(shares, R.permute_dims(wide[1], [0, 2, 1, 3])), [0, 2, 1, 3])
        elif masked.startswith("shares"):
            attended = _beside_a_sink(query, wide, bias, of_others=masked == "shares of others")
        else:
            asked = R.permute_dims(query, [0, 2, 1, 3])
            attended = R.nn.attention(asked, *wide, bias)
            attended = R.nn.attention(R.add(asked, attended), *wide, bias) if again else attended
        y = builder.emit_output(R.matmul(R.reshape(attended, [1, count, HEADS * SIZE]), weights(HEADS * SIZE, WIDTH)))
    return y, joined


def _beside_a_sink(query: Expr, wide: list[Expr], bias: Expr, of_others: bool) -> Expr:
    """Attention times the share that a sink of each head leaves to the keys, as transformers writes it for Granite.

    With ``of_others`` what is taken from the scores is not what is added afterwards, so that it is another number.
    """
    scores = R.add(R.matmul(query, R.permute_dims(wide[0], [0, 2, 3, 1])), bias)
    found = R.matmul(R.nn.softmax(scores, axis=-1), R.permute_dims(wide[1], [0, 2, 1, 3]))
    highest = R.max(scores, [3], keepdims=True)
    taken = R.multiply(highest, highest) if of_others else highest
    total = R.sum(R.exp(R.subtract(scores, taken)), [3], keepdims=False)
    sinks = const(np.array([0.5, -1.0, 2.0, 0.0], np.float32).reshape(1, HEADS, 1))
    share = R.sigmoid(R.subtract(R.add(R.log(total), R.squeeze(highest, [3])), sinks))
    return R.permute_dims(R.multiply(found, R.expand_dims(share, [3])), [0, 2, 1, 3])


def in_place(module: IRModule, longest: int = LONGEST) -> IRModule:
    packed = [CombineParallelMatmul(), FoldConstant(), FuseAttention(), CacheInPlace(longest)]
    tidy = [SimplifyTransposes(), RemoveRedundantReshape(), PackQueryKeyValue(), DeadCodeElimination()]
    return Sequential([*packed, *tidy])(module)


def counts(module: IRModule) -> dict[str, int]:
    return dict(op_counts(module))


def inputs(count: int, past: int) -> list[np.ndarray]:
    shapes = [(1, count, WIDTH), *[(1, SHARED, past, SIZE)] * 2]
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


def with_room(arrays: list[np.ndarray], longest: int = LONGEST) -> list[np.ndarray]:
    x, *caches = arrays
    room = [np.pad(one, ((0, 0), (0, 0), (0, longest - one.shape[2]), (0, 0))) for one in caches]
    return [x, *room, np.int32(x.shape[1] + caches[0].shape[2])]


FORMS: dict[str, dict[str, Any]] = {
    "turned whole": {},
    "turned in part, in fewer pairs than the operator takes": {"turned": 8},
    "not turned, with a table of places": {"turned": 0, "learned": True},
    "turned in pairs side by side": {"turned": -SIZE},
    "a window": {"window": 4},
    "a mask of another form, and a window": {"window": 4, "masked": "twice"},
    "slopes": {"turned": 0, "masked": "slopes"},
    "scores that are capped, and a window": {"window": 4, "masked": "capped"},
    "a sink whose share is taken afterwards, and a window": {"window": 4, "masked": "shares"},
    "slopes and a window": {"turned": 0, "window": 4, "masked": "slopes"},
    "a bias that is the square of a distance": {"masked": "curves"},
    "a mask of every other key": {"masked": "every other"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_a_cache_with_room_gives_the_same_values_at_every_length(form: str, engine: str) -> None:
    module = decoder(**FORMS[form])
    made = in_place(module)
    assert counts(made)["com.microsoft.GroupQueryAttention"] == 1
    assert [param.name_hint for param in made["main"].params][-1] == TOTAL
    before, after = rx.build(module, target="numpy")["main"], rx.build(made, target=engine)["main"]
    for count, past in STEPS:
        given = inputs(count, past)
        expected, *cached = (np.asarray(one) for one in before(*given))
        found, *kept = (np.asarray(one) for one in after(*with_room(given)))
        assert_close(found, expected)
        for ours, theirs in zip(kept, cached, strict=True):
            assert_close(ours[:, :, : count + past], theirs)


@pytest.mark.parametrize("turned", [SIZE, -SIZE])
def test_turning_goes_into_the_attention_and_one_product_gives_it_everything(turned: int) -> None:
    found = counts(in_place(decoder(turned=turned)))
    assert "relax.cos" not in found
    assert "relax.split" not in found
    assert found["relax.matmul"] == 2
    assert "relax.concat" not in found


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (decoder(masked="earlier"), "the mask of .* shows later keys, or depends on more than positions"),
        (decoder(masked="shares of others"), "no attention that is a single operator"),
        (decoder(masked="later"), "the mask of .* shows later keys, or depends on more than positions"),
        (IRModule({"main": decoder()["main"].bind_symbolic_vars({"past": 4})}), "are not a cache and new rows"),
    ],
)
def test_what_is_no_decoder_with_a_growing_cache_is_refused_with_the_reason(module: IRModule, message: str) -> None:
    with pytest.raises(PassError, match=message):
        CacheInPlace(LONGEST)(FuseAttention()(module))


def test_attentions_that_read_one_cache_write_the_same_rows_to_one_memory() -> None:
    module = decoder_that_reads_its_cache_twice()
    in_room = fast_decoder(module, longest=LONGEST)
    assert in_room.copies is None
    assert counts(in_room.module)["com.microsoft.GroupQueryAttention"] == 2
    sessions = [one.session(threads=1) for one in (in_room, Decoder(module, "main"))]
    assert [session.roles.longest for session in sessions] == [LONGEST, None]
    for ids in ([3, 1, 4], [1], [5, 9], [2]):
        found, expected = (session.step(ids) for session in sessions)
        assert_close(found, expected)


def test_heads_that_are_repeated_for_attention_are_shared_to_the_bit() -> None:
    module = decoder()
    shared = FuseAttention()(module)
    assert not any("broadcast_to" in str(getattr(b.value, "op", "")) for b in iter_bindings(shared["main"]))
    given = inputs(3, 4)
    before, after = (rx.build(one, target="numpy")["main"](*given) for one in (module, shared))
    np.testing.assert_array_equal(np.asarray(before[0]), np.asarray(after[0]))
