"""The array API over expressions: a meaning that follows the standard is, written out, what it computes on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat.numpy as standard
import numpy as np
import pytest

import regraft as rx
from regraft.ir import SymVar
from regraft.transform import Legalize
from tests.kit import assert_close

rng = np.random.default_rng(0)
X = rng.standard_normal((3, 5)).astype("float32")
Y = np.abs(rng.standard_normal((3, 5)).astype("float32"))
V = rng.standard_normal(5).astype("float32")
SQUARE = rng.standard_normal((4, 4)).astype("float32")
N = rng.integers(-9, 9, (3, 5)).astype("int32")
ROWS = rng.integers(0, 3, 4)
EDGES = np.asarray([0.0, -0.0, 3, -2, np.inf], "float32")

MEANINGS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "roll": (lambda xp, x: xp.roll(x, (-1, 7), axis=(0, 1)), [X]),
    "roll_all": (lambda xp, x: xp.roll(x, 3), [X]),
    "tril": (lambda xp, x: xp.tril(x, k=1) + xp.triu(x, k=-1), [X]),
    "eye": (lambda xp, x: xp.eye(3, 3, k=1, dtype=x.dtype) @ x, [X]),
    "hypot": (lambda xp, x, y: xp.hypot(x, y), [X, Y]),
    "hypot_of_edges": (lambda xp, x: xp.hypot(x, xp.flip(x)), [EDGES]),
    "signbit": (lambda xp, x: xp.signbit(x), [EDGES]),
    "logarithms": (lambda xp, y: xp.log2(y) + xp.log10(y) + xp.reciprocal(y), [Y]),
    "std": (lambda xp, x: xp.std(x, axis=-1, correction=1), [X]),
    "var": (lambda xp, x: xp.var(x, axis=(0, 1), keepdims=True), [X]),
    "sort": (lambda xp, x: xp.sort(x, axis=0, descending=True), [X]),
    "argsort": (lambda xp, x: xp.argsort(x, axis=-1, descending=True), [X]),
    "backwards": (lambda xp, x: x[:, ::-2], [X]),
    "negative_index": (lambda xp, x: x[-1, ..., -3:-1], [X]),
    "new_axis": (lambda xp, x: xp.sin(x[:, None, 1:]), [X]),
    "columns_by_number": (lambda xp, x, i: x[:, i], [X, ROWS]),
    "rows_by_number": (lambda xp, x, i: x[i], [X, ROWS]),
    "transposes": (lambda xp, x: x.mT + x.T, [X]),
    "count_nonzero": (lambda xp, n: xp.count_nonzero(n, axis=1), [N]),
    "any": (lambda xp, n: xp.logical_or(xp.any(n, axis=1), xp.all(n, axis=1)), [N]),
    "sums_of_integers": (lambda xp, n: xp.sum(n, axis=1) + xp.prod(n, axis=1), [N]),
    "sum_of_booleans": (lambda xp, n: xp.sum(n > 0), [N]),
    "cumulative": (lambda xp, n: xp.cumulative_sum(n, axis=1, include_initial=True), [N]),
    "searchsorted": (lambda xp, v, x: xp.searchsorted(xp.sort(v), xp.reshape(x, (-1,)), side="right"), [V, X]),
    "vecdot": (lambda xp, x, y: xp.vecdot(x, y), [X, Y]),
    "tensordot": (lambda xp, x, y: xp.tensordot(x, y, axes=((1,), (1,))) + xp.tensordot(x, y.mT, axes=1), [X, Y]),
    "norms": (lambda xp, x: xp.linalg.vector_norm(x, axis=-1) + xp.linalg.vector_norm(x, ord=1), [X]),
    "outer": (lambda xp, v: xp.linalg.outer(v, v), [V]),
    "trace": (lambda xp, s: xp.linalg.trace(s, offset=1) + xp.linalg.diagonal(s, offset=-2), [SQUARE]),
    "diff": (lambda xp, x: xp.diff(x, axis=-1, n=2), [X]),
    "rows": (lambda xp, x: sum(list(x), xp.unstack(x, axis=0)[1]), [X]),
    "meshgrid": (lambda xp, v, w: xp.meshgrid(v, w)[0] + xp.meshgrid(v, w, indexing="ij")[1].mT, [V, V[:3]]),
    "clip": (lambda xp, x, y: xp.clip(x, -y, y) + xp.clip(x, max=0.5), [X, Y]),
    "linspace": (lambda xp, v: v * xp.linspace(0, 1, 5, dtype=v.dtype), [V]),
    "arange": (lambda xp, x: x + xp.arange(10, 0, -2, dtype=x.dtype), [X]),
    "dtypes": (lambda xp, x: x if xp.isdtype(x.dtype, ("real floating", "bool")) else -x, [X]),
    "limits": (lambda xp, x: xp.maximum(x, xp.asarray(xp.finfo(x.dtype).min, dtype=x.dtype)) * xp.pi, [X]),
    "where_of_two_dtypes": (lambda xp, x, n: xp.where(x > 0, x, xp.astype(n, xp.float64)), [X, N]),
    "nonzero": (lambda xp, n: xp.nonzero(n)[1], [N]),
    "number_of_a_constant": (lambda xp, x: x * float(xp.asarray(2.0)) if xp.asarray(True) else x, [X]),
    "sizes": (lambda xp, x: x / x.shape[0] + x.size, [X]),
}
NEEDS_SIZES = ("trace", "rows")
"""Those that need numbers for sizes."""


@pytest.mark.parametrize("name", MEANINGS)
def test_a_meaning_computes_the_same_when_it_is_written_out(name: str) -> None:
    meaning, arrays = MEANINGS[name]
    op = rx.operator(f"standard.{name}")(meaning)
    expected = np.asarray(meaning(standard, *arrays))
    sizes: dict[int, SymVar] = {}
    for symbolic in (False, True)[: 1 if name in NEEDS_SIZES else 2]:
        shapes = [[sizes.setdefault(d, SymVar(f"n{d}")) if symbolic else d for d in a.shape] for a in arrays]
        params = [
            rx.Var(f"x{i}", rx.TensorType(shape, str(a.dtype)))
            for i, (shape, a) in enumerate(zip(shapes, arrays, strict=True))
        ]
        function = rx.IRModule({"main": rx.Function(params, rx.SeqExpr([], op(*params)))})
        for program in (function, Legalize()(function)):
            found = np.asarray(rx.build(program, "numpy", verify_types=True)["main"](*arrays))
            assert found.dtype == expected.dtype
            assert_close(found, expected)


@pytest.mark.parametrize("name", ["backwards", "sizes", "argsort", "sums_of_integers"])
def test_a_meaning_gives_the_same_values_and_dtypes_on_pytorch(name: str) -> None:
    pytest.importorskip("torch")
    meaning, arrays = MEANINGS[name]
    op = rx.operator(f"standard.{name}")(meaning)
    params = [rx.Var(f"x{i}", rx.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(arrays)]
    found = np.asarray(rx.build(rx.Function(params, rx.SeqExpr([], op(*params))), "torch")["main"](*arrays))
    expected = np.asarray(meaning(standard, *arrays))
    assert found.dtype == expected.dtype
    assert_close(found, expected)


def _in_place(xp: Any, x: Any) -> Any:
    x[:, 0] = 0
    return x


def _by_value(xp: Any, x: Any) -> Any:
    return x if xp.any(x > 0) else -x


MISTAKES: dict[str, tuple[Callable[..., Any], str]] = {
    "method": (lambda xp, x: x.sum(axis=1), r"no 'sum'; the functions of xp take arrays, as xp.sum\(x\) does"),
    "numpy_name": (lambda xp, x: xp.concatenate([x, x]), r"there is no xp.concatenate over expressions"),
    "in_place": (_in_place, r"do not change arrays in place"),
    "by_value": (_by_value, r"known only at run time: write xp.where"),
    "masked": (lambda xp, x: x[x > 0], r"the number of elements of x\[mask\] is known only at run time"),
    "mixed_index": (lambda xp, x: x[xp.asarray([0, 1]), 1:, 0], r"one array beside slices, or only arrays"),
    "by_size": (lambda xp, x: xp.stack([x[i] for i in range(x.shape[0])]), r"give the size a value with Bind"),
    "raising": (lambda xp, x: 1 / 0, r"its reference raised ZeroDivisionError"),
    "no_array": (lambda xp, x: None, r"returned None, which cannot be a value of a program"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_meaning_that_cannot_be_written_out_says_why(name: str) -> None:
    meaning, message = MISTAKES[name]
    op = rx.operator(f"mistaken.{name}")(meaning)
    with pytest.raises(rx.OpTypeError, match=rf"mistaken.{name}: .*{message}"):
        op(rx.Var("x", rx.TensorType((SymVar("n"), 4, 2), "float32")))
