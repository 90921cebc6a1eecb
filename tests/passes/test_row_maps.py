"""A cache of rows that keys and values are made of: attention over these rows gives the same values, or is left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, Expr, IRModule, ShapeExpr, SymVar, TensorType, Var, const
from regraft.passes import PassError
from regraft.passes.decoders import CacheInPlace
from regraft.transform import op_counts
from tests.kit import assert_close

WIDTH, HEADS, SIZE, LATENT, PLACED, LONGEST = 24, 4, 16, 8, 16, 12
RNG = np.random.default_rng(11)
Made = Callable[[Expr, Expr], tuple[Expr, Expr]]


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def by_rows(heads_first: Expr) -> Expr:
    return R.permute_dims(heads_first, [0, 2, 1, 3])


def decoder(first: tuple[int, int], second: tuple[int, int], made: Made, size: int = SIZE) -> IRModule:
    """Attention over two caches of ``first`` and ``second``: heads, size. ``made``: keys and values of the joined ones.

    Keys have ``size`` elements.
    """
    count, past = SymVar("count"), SymVar("past")
    x = Var("x", TensorType((1, count, WIDTH), "float32"))
    shapes = (first[0], past, first[1]), (second[0], past, second[1])
    caches = [Var(f"past_{place}", TensorType((1, *shape), "float32")) for place, shape in enumerate(shapes)]
    builder = BlockBuilder()
    with builder.function("main", [x, *caches]):
        with builder.dataflow():
            rows = [
                by_rows(R.reshape(R.matmul(x, weights(WIDTH, heads * size)), [1, count, heads, size]))
                for heads, size in (first, second)
            ]
            joined = [builder.emit_output(R.concat(pair, axis=2)) for pair in zip(caches, rows, strict=True)]
            query = R.reshape(R.matmul(x, weights(WIDTH, HEADS * size)), [1, count, HEADS, size])
            keys, values = (builder.emit(by_rows(one)) for one in made(*joined))
            places = R.add(R.arange(0, count), R.squeeze(R.shape_to_tensor(ShapeExpr([past])), [0]))
            seen = R.less_equal(R.expand_dims(R.arange(0, past + count), [0]), R.expand_dims(places, [1]))
            hidden = const(np.float32(-np.inf))
            bias = R.where(R.expand_dims(seen, [0, 1]), const(np.float32(0)), hidden)
            attended = builder.emit(R.nn.attention(query, keys, values, bias))
            wide = HEADS * attended.ty.shape[3]
            y = builder.emit_output(R.matmul(R.reshape(attended, [1, count, wide]), weights(wide, WIDTH)))
        builder.emit_func_output([y, *joined])
    return builder.get()


def _heads_of(rows: Expr, size: int) -> Expr:
    """(1, heads, sequence, size) by one product of rows that all heads share."""
    _, _, length, width = rows.ty.shape
    return by_rows(R.reshape(R.matmul(rows, weights(width, HEADS * size)), [1, length, HEADS, size]))


def latent(rows: Expr, placed: Expr, between: Callable[[Expr], Expr] = lambda rows: rows) -> tuple[Expr, Expr]:
    """Keys and values that heads make of narrow rows, and a part of the keys that all share."""
    length = rows.ty.shape[2]
    both = _heads_of(between(rows), SIZE + 8)
    shared = R.broadcast_to(placed, [1, HEADS, length, PLACED])
    keys = R.concat([R.strided_slice(both, [3], [0], [SIZE]), shared], axis=3)
    return keys, R.strided_slice(both, [3], [SIZE], [SIZE + 8])


def tiled(keys: Expr, values: Expr) -> tuple[Expr, Expr]:
    return R.tile(keys, [1, 2, 1, 1]), R.tile(values, [1, 2, 1, 1])


ONE, PLACES = (1, LATENT), (1, PLACED)
FORMS: dict[str, tuple[IRModule, int]] = {
    "narrow rows that heads expand, beside a part that they share": (
        decoder(ONE, PLACES, latent, SIZE + PLACED),
        LATENT + PLACED,
    ),
    "heads that are repeated one after the other": (decoder((2, SIZE), (2, SIZE), tiled), SIZE),
    "keys and values of two widths": (decoder((HEADS, SIZE), (HEADS, 8), lambda keys, values: (keys, values)), SIZE),
    "values wider than keys, of heads in another order": (decoder((2, 8), (2, 24), tiled, 8), 24),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_attention_over_the_rows_that_are_kept_gives_the_same_values(form: str, engine: str) -> None:
    module, width = FORMS[form]
    made = CacheInPlace(LONGEST)(module)
    assert op_counts(made)["com.microsoft.GroupQueryAttention"] == 1
    caches = made["main"].params[1:3]
    assert [param.ty.shape[3] for param in caches] == [width, width]
    before, after = rx.build(module, target="numpy")["main"], rx.build(made, target=engine)["main"]
    grown = [np.zeros((*param.ty.shape[:2], 0, param.ty.shape[3]), np.float32) for param in module["main"].params[1:]]
    kept = [np.zeros(param.ty.shape, np.float32) for param in caches]
    total = 0
    for count in (5, 1, 3, 2):
        x = RNG.standard_normal((1, count, WIDTH)).astype(np.float32)
        total += count
        expected, *grown = (np.asarray(one) for one in before(x, *grown))
        found, *kept = (np.asarray(one) for one in after(x, *kept, np.int32(total)))
        assert_close(found, expected)


def of_places(rows: Expr) -> Expr:
    places = R.reshape(R.astype(R.arange(0, rows.ty.shape[2]), "float32"), [1, 1, rows.ty.shape[2], 1])
    return R.multiply(rows, R.add(places, const(np.float32(1))))


@pytest.mark.parametrize(
    "between",
    [
        lambda rows: R.nn.rms_norm(rows, weights(LATENT), [3]),
        lambda rows: R.clip(rows, -100.0, 100.0),
        lambda rows: R.multiply(rows, rows),
        lambda rows: R.add(rows, const(np.float32(0.5))),
        of_places,
    ],
    ids=["a norm", "a bound far out", "a square", "an offset", "a factor of places"],
)
def test_rows_on_whose_way_to_the_keys_is_more_than_a_linear_map_are_refused(between: Callable[[Expr], Expr]) -> None:
    module = decoder(ONE, PLACES, lambda rows, placed: latent(rows, placed, between), SIZE + PLACED)
    with pytest.raises(PassError, match="are not a cache and new rows"):
        CacheInPlace(LONGEST)(module)
