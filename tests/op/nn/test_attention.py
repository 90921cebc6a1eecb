"""Attention against PyTorch: masks, windows, shared heads, packed sequences, queries that see nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, PrimValue, SymVar, TensorType, Var
from regraft.op import nn
from tests.op.harness import check


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def inputs(
    queries: int = 5, keys: int = 7, heads: int = 4, key_heads: int = 4, dtype: Any = np.float32
) -> list[np.ndarray]:
    """Query, key and value of a batch of 2, all sizes different."""
    return [
        random(2, queries, heads, 3, dtype=dtype),
        random(2, keys, key_heads, 3, dtype=dtype, seed=1),
        random(2, keys, key_heads, 6, dtype=dtype, seed=2),
    ]


def expected(
    arrays: list[np.ndarray],
    bias: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    scale: float | None = None,
) -> np.ndarray:
    """PyTorch's attention in float64; ``mask`` is true where a query sees a key."""
    q, k, v = [torch.from_numpy(a.astype(np.float64)).permute(0, 2, 1, 3) for a in arrays[:3]]
    added = torch.zeros(1, 1, q.shape[2], k.shape[2], dtype=torch.float64)
    if bias is not None:
        added = added + torch.from_numpy(bias.astype(np.float64))
    if mask is not None:
        added = added.masked_fill(~torch.from_numpy(mask), float("-inf"))
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale, enable_gqa=True)
    return out.permute(0, 2, 1, 3).numpy().astype(arrays[0].dtype)


def causal(queries: int, keys: int, offset: int = 0, window: int = 1000) -> np.ndarray:
    distance = np.arange(queries)[:, None] + offset - np.arange(keys)
    return (distance >= 0) & (distance < window)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16], ids=str)
def test_attention_agrees_with_pytorch(dtype: Any) -> None:
    arrays = inputs(dtype=dtype)
    check(nn.attention, arrays, expected(arrays))
    check(lambda q, k, v: nn.attention(q, k, v, scale=0.25), arrays, expected(arrays, scale=0.25))


@pytest.mark.parametrize("bias_shape", [(2, 4, 5, 7), (1, 4, 5, 7), (2, 1, 1, 7), (1, 1, 5, 7)])
def test_a_bias_is_added_to_the_scores_before_the_softmax(bias_shape: tuple[int, ...]) -> None:
    arrays, bias = inputs(), random(*bias_shape, seed=3)
    wanted = expected(arrays, bias)
    check(nn.attention, [*arrays, bias], wanted)
    check(nn.attention_bias, [*arrays, bias], wanted)


def test_a_bias_may_have_another_floating_dtype() -> None:
    arrays, bias = inputs(dtype=np.float16), random(1, 1, 5, 7)
    check(nn.attention, [*arrays, bias], expected(arrays, bias))


def test_heads_may_share_keys() -> None:
    arrays = inputs(heads=6, key_heads=2)
    check(nn.attention, arrays, expected(arrays))
    arrays = inputs(heads=6, key_heads=1)
    check(nn.attention, arrays, expected(arrays))


@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (7, 7), (1, 7)])
def test_a_causal_mask_is_aligned_at_the_top_left_or_the_bottom_right(queries: int, keys: int) -> None:
    arrays = inputs(queries, keys)
    top = lambda q, k, v: nn.attention(q, k, v, causal_mask="TopLeft")  # noqa: E731
    check(top, arrays, expected(arrays, mask=causal(queries, keys)))
    bottom = lambda q, k, v: nn.attention(q, k, v, causal_mask="BottomRight")  # noqa: E731
    check(bottom, arrays, expected(arrays, mask=causal(queries, keys, keys - queries)))


@pytest.mark.parametrize("window", [1, 3])
def test_a_window_keeps_the_latest_keys(window: int) -> None:
    arrays, bias = inputs(), random(1, 4, 5, 7)
    check(
        lambda q, k, v, b: nn.attention(q, k, v, b, causal_mask="BottomRight", window_size=window),
        [*arrays, bias],
        expected(arrays, bias, causal(5, 7, 2, window)),
    )
    check(
        lambda q, k, v: nn.attention(q, k, v, causal_mask="TopLeft", window_size=window),
        arrays,
        expected(arrays, mask=causal(5, 7, 0, window)),
    )


def test_a_query_that_sees_no_key_gives_zeros_as_in_pytorch() -> None:
    arrays = inputs(queries=7, keys=5)
    wanted = expected(arrays, mask=causal(7, 5, -2))
    assert (wanted[:, :2] == 0).all()
    check(lambda q, k, v: nn.attention(q, k, v, causal_mask="BottomRight"), arrays, wanted)
    bias = random(1, 1, 7, 5)
    bias[:, :, 3] = -np.inf
    wanted = expected(arrays, bias)
    assert (wanted[:, 3] == 0).all()
    check(nn.attention, [*arrays, bias], wanted)
    nothing = inputs(keys=0)
    check(nn.attention, nothing, np.zeros((2, 5, 4, 6), np.float32))


def test_a_nan_is_not_hidden() -> None:
    arrays = inputs()
    arrays[0][0, 1, 2] = np.nan
    check(nn.attention, arrays, expected(arrays))


def test_the_greatest_scores_do_not_overflow() -> None:
    arrays = inputs()
    arrays[0] = arrays[0] * 1000
    check(nn.attention, arrays, expected(arrays), tolerance=1e-4)


@pytest.mark.parametrize("causal_mask", [None, "TopLeft", "BottomRight"])
def test_packed_sequences_do_not_see_each_other(causal_mask: str | None) -> None:
    starts_q, starts_k = np.array([0, 2, 5, 6], np.int32), np.array([0, 3, 5, 9], np.int32)
    q, k, v = random(1, 7, 4, 3), random(1, 9, 2, 3, seed=1), random(1, 9, 2, 5, seed=2)
    parts: list[np.ndarray] = []
    for i in range(3):
        queries, keys = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        arrays = [q[:, queries], k[:, keys], v[:, keys]]
        rows, columns = arrays[0].shape[1], arrays[1].shape[1]
        offset = columns - rows if causal_mask == "BottomRight" else 0
        parts.append(expected(arrays, mask=None if causal_mask is None else causal(rows, columns, offset)))
    wanted = np.concatenate([*parts, np.zeros((1, 1, 4, 5), np.float32)], axis=1)
    longest = np.array(3, np.int32), np.array(4, np.int32)
    check(
        lambda q, k, v, sq, mq, sk, mk: nn.attention_var_len(q, k, v, sq, mq, sk, mk, causal_mask=causal_mask),
        [q, k, v, starts_q, longest[0], starts_k, longest[1]],
        wanted,
    )
    check(  # the order in which text that TVM prints gives the same operands
        lambda q, k, v, sq, sk, mq, mk: nn.attention_var_len(q, k, v, sq, sk, mq, mk, causal_mask=causal_mask),
        [q, k, v, starts_q, starts_k, *longest],
        wanted,
    )


def test_packed_keys_are_by_default_packed_as_the_queries_are() -> None:
    q, starts = random(1, 6, 2, 3), np.array([0, 4, 6], np.int64)
    halves = [expected([q[:, part]] * 3) for part in (slice(0, 4), slice(4, 6))]
    check(
        lambda q, s, m: nn.attention_var_len(q, q, q, s, m),
        [q, starts, np.array(4)],
        np.concatenate(halves, axis=1),
    )


def test_the_type_of_an_attention_is_as_precise_as_its_operands() -> None:
    b, s, t = SymVar("b"), SymVar("s"), SymVar("t")
    q, k, v = (Var("x", TensorType(shape, "float16")) for shape in ((b, s, 8, 64), (b, t, 8, 64), (b, t, 8, 32)))
    assert nn.attention(q, k, v).ty == TensorType((b, s, 8, 32), "float16")
    unknown = Var("u", TensorType(None, "float16"))
    assert nn.attention(unknown, k, v).ty == TensorType(None, "float16", 4)
    assert nn.attention(q, unknown, v).ty == TensorType((b, s, 8, 32), "float16")
    assert nn.attention(q, k, v, unknown).ty == TensorType((b, s, 8, 32), "float16")
    assert nn.attention(q, k, Var("v", TensorType((b, t, 8, 32), None))).ty == TensorType((b, s, 8, 32), dtype=None)


def test_the_operator_depends_on_the_bias_and_its_scale_is_a_number() -> None:
    q, bias = Var("q", TensorType((1, 5, 2, 4), "float32")), Var("b", TensorType((1, 1, 1, 5), "float32"))
    plain = nn.attention(q, q, q, scale=PrimValue(0.5, "float32"))
    assert plain.op.name == "relax.nn.attention"  # type: ignore[attr-defined]
    assert dict(plain.attrs) == {"scale": 0.5, "causal_mask": None, "window_size": None}
    assert nn.attention(q, q, q, bias).op.name == "relax.nn.attention_bias"  # type: ignore[attr-defined]


def var(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorType(shape, dtype))


Q, K, V = var(2, 5, 4, 3), var(2, 7, 4, 3), var(2, 7, 4, 6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: nn.attention(var(2, 5, 12), K, V),
            r"argument query .* 4 dimensions: \(batch, sequence, heads",
        ),
        (lambda: nn.attention(Q, var(3, 7, 4, 3), V), r"argument key .* query's batch size 2, not 3"),
        (lambda: nn.attention(Q, var(2, 7, 4, 5), V), r"argument key .* query's head size 3, not 5"),
        (lambda: nn.attention(Q, var(2, 7, 3, 3), V), r"argument key .* heads that divides query's 4"),
        (lambda: nn.attention(Q, var(2, 7, 2, 3), V), r"argument value .* key's number of heads 2, not 4"),
        (lambda: nn.attention(Q, K, var(2, 8, 4, 6)), r"argument value .* key's sequence length 7, not 8"),
        (lambda: nn.attention(Q, K, var(2, 7, 4, 6, dtype="float16")), r"the dtype of query, float32"),
        (lambda: nn.attention(*[var(2, 5, 4, 3, dtype="int32")] * 3), r"floating dtype"),
        (lambda: nn.attention(Q, K, V, var(5, 7)), r"argument bias .* \(batch, heads, queries, keys\)"),
        (lambda: nn.attention(Q, K, V, var(1, 1, 5, 1)), r"on its last axis key's sequence length 7, not 1"),
        (lambda: nn.attention(Q, K, V, var(1, 3, 5, 7)), r"1 or, for heads, query's 4, not 3"),
        (lambda: nn.attention(Q, K, V, var(1, 4, 5, 7, dtype="bool")), r"argument bias .* floating dtype"),
        (lambda: nn.attention(Q, K, V, causal_mask="Top"), r"causal_mask='Top'; expected"),
        (lambda: nn.attention(Q, K, V, window_size=3), r"window_size=3; expected .* causal_mask"),
        (lambda: nn.attention(Q, K, V, scale="x"), r"scale='x'; expected a number"),
        (
            lambda: nn.attention_var_len(Q, K, V, var(3, dtype="int32"), var(dtype="int32")),
            r"argument queries .* a batch of 1",
        ),
        (
            lambda: nn.attention_var_len(*[var(1, 5, 4, 3)] * 3, var(3), var(dtype="int32")),
            r"argument seqstart_q .* integers in 1 dimensions",
        ),
    ],
)
def test_a_wrong_attention_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
