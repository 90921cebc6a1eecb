"""Patterns match, and rewriters rewrite, what Relax's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import tvm

from .questions import assert_same_answer

pytestmark = pytest.mark.filterwarnings("ignore")

_PROGRAM: Final = """
def main(x: f32[32, 32], w: f32[32, 32]) -> R.Tuple(f32[32, 32], f32[32, 32]):
    with flow:
        lv0 = R.matmul(x, w)
        lv1 = R.nn.relu(lv0)
        lv2 = R.nn.relu(lv0)
        lv3 = R.add(lv1, lv2)
        lv4 = R.multiply(lv3, x)
        R.output(lv3, lv4)
    return (lv3, lv4)
"""


def _values(p: Any, function: Any) -> dict[str, Any]:
    rx = p.relax
    x, first = function.params[0], function.body.blocks[0].bindings[0]
    return {
        "x": x,
        "lv0": first.var,
        "matmul": first.value,
        "constant": rx.const(1.0, "float32"),
        "pair": rx.Tuple([x, x]),
        "shape": rx.ShapeExpr([2, 3]),
        "operator": p.Op.get("relax.add"),
        "outside": rx.ExternFunc("f"),
        "field": rx.TupleGetItem(rx.Tuple([x, x]), 1),
        "global": rx.GlobalVar("foo"),
        "function": function,
    }


PATTERNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "anything": lambda d, any_: any_(),
    "a variable": lambda d, any_: d.is_var(),
    "x": lambda d, any_: d.is_var("x"),
    "y": lambda d, any_: d.is_var("y"),
    "a local variable": lambda d, any_: d.is_dfv(),
    "lv0": lambda d, any_: d.is_dfv("lv0"),
    "a global": lambda d, any_: d.is_gv(),
    "foo": lambda d, any_: d.is_gv("foo"),
    "bar": lambda d, any_: d.is_gv("bar"),
    "a constant": lambda d, any_: d.is_const(),
    "a pair": lambda d, any_: d.is_tuple([any_(), any_()]),
    "three": lambda d, any_: d.is_tuple([any_(), any_(), any_()]),
    "a pair in any order": lambda d, any_: d.is_tuple([d.is_var("x"), any_()], unordered=True),
    "2 by 3": lambda d, any_: d.is_shape([2, 3]),
    "3 by 2": lambda d, any_: d.is_shape([3, 2]),
    "add": lambda d, any_: d.is_op("relax.add"),
    "f": lambda d, any_: d.ExternFuncPattern("f"),
    "g": lambda d, any_: d.ExternFuncPattern("g"),
    "a field": lambda d, any_: d.is_tuple_get_item(any_()),
    "field 1": lambda d, any_: d.is_tuple_get_item(any_(), 1),
    "field 0": lambda d, any_: d.is_tuple_get_item(any_(), 0),
    "a product": lambda d, any_: d.is_op("relax.matmul")(any_(), any_()),
    "x times w": lambda d, any_: d.is_op("relax.matmul")(d.is_var("x"), d.is_var("w")),
    "w times x": lambda d, any_: d.is_op("relax.matmul")(d.is_var("w"), d.is_var("x")),
    "a product of whatever": lambda d, any_: d.is_op("relax.matmul")(varg_default_wildcard=True),
    "y or x": lambda d, any_: d.is_var("y") | d.is_var("x"),
    "x and anything": lambda d, any_: d.is_var("x") & any_(),
    "x and y": lambda d, any_: d.is_var("x") & d.is_var("y"),
    "not x": lambda d, any_: ~d.is_var("x"),
    "float32": lambda d, any_: any_().has_dtype("float32"),
    "float16": lambda d, any_: any_().has_dtype("float16"),
    "32 by 32": lambda d, any_: any_().has_shape([32, 32]),
    "32": lambda d, any_: any_().has_shape([32]),
    "a function of two": lambda d, any_: d.FunctionPattern([any_(), any_()], any_()),
}


def _matches(pattern: Any, value: Any) -> bool:
    try:
        return bool(pattern.match(value))
    except tvm.error.InternalError:  # what has no type in TVM has no shape, too
        return False


@pytest.mark.parametrize("title", PATTERNS)
def test_a_pattern_matches_the_values_that_relaxs_matches(title: str) -> None:
    def asked(p: Any) -> Any:
        pattern = PATTERNS[title](p.dpl, p.dpl.wildcard)
        values = _values(p, p.read(_PROGRAM)["main"])
        return {name: _matches(pattern, value) for name, value in values.items()}

    assert_same_answer(asked)


def _op(d: Any, name: str, *operands: Any) -> Any:
    return d.is_op(f"relax.{name}")(*(operands or (d.wildcard(), d.wildcard())))


def test_variables_are_looked_through_as_in_relax() -> None:
    def asked(p: Any) -> Any:
        d, function = p.dpl, p.read(_PROGRAM)["main"]
        known = p.analysis.get_var2val(function)
        lv1, lv3 = (function.body.blocks[0].bindings[index] for index in (1, 3))
        left, right = d.wildcard(), d.wildcard()
        product = _op(d, "matmul", left, right)
        relu = _op(d, "nn.relu", product)
        found = relu.extract_matched_expr(lv1.value, known)
        return [
            relu.match(lv1.value),
            relu.match(lv1.value, var2val=known),
            _op(d, "add", relu, relu).match(lv3.var, known),
            _op(d, "add", relu, _op(d, "nn.relu", d.wildcard())).match(lv3.value, known),
            _op(d, "add", _op(d, "nn.relu", _op(d, "nn.relu", d.wildcard())), d.wildcard()).match(lv3.value, known),
            found[left],
            found[right],
            len(found),
            relu.extract_matched_expr(lv3.value, known),
        ]

    assert_same_answer(asked)


# --- contexts

_OUTSIDE: Final = """
def main(x: f32[32, 32], w: f32[32, 32]) -> f32[32, 32]:
    with flow:
        lv0 = R.call_dps_packed("product", (x, w), R.Tensor((32, 32), dtype="float32"))
        lv1 = R.call_dps_packed("dropout", (lv0,), R.Tensor((32, 32), dtype="float32"))
        lv2 = R.call_dps_packed("pair", (x, lv0), R.Tensor((32, 32), dtype="float32"))
        lv3 = R.call_dps_packed("sum", (lv1, lv2), R.Tensor((32, 32), dtype="float32"))
        R.output(lv3)
    return lv3
"""


def _calls(d: Any, *names: str) -> list[Any]:
    return [d.is_call_dps_packed(name) for name in names]


def _used(index: int) -> Callable[[Any], list[Any]]:
    def build(d: Any) -> list[Any]:
        product, pair = _calls(d, "product", "pair")
        product.used_by(pair, index)
        return [product, pair]

    return build


def _only_used(index: int) -> Callable[[Any], list[Any]]:
    def build(d: Any) -> list[Any]:
        dropout, total = _calls(d, "dropout", "sum")
        dropout.only_used_by(total, index)
        return [dropout, total]

    return build


def _fork(d: Any) -> list[Any]:
    product, dropout, pair = _calls(d, "product", "dropout", "pair")
    product.fork_to(dropout, pair)
    return [product, dropout, pair]


def _chain(d: Any) -> list[Any]:
    product, dropout, total = _calls(d, "product", "dropout", "sum")
    product ^ dropout >> total  # pyright: ignore[reportUnusedExpression]
    return [product, dropout, total]


def _not_only(d: Any) -> list[Any]:
    product, dropout = _calls(d, "product", "dropout")
    product >> dropout  # pyright: ignore[reportUnusedExpression]
    return [product, dropout]


CONTEXTS: Final[dict[str, Callable[[Any], list[Any]]]] = {
    **{f"used as argument {index}": _used(index) for index in (-1, 0, 1, 2)},
    **{f"only used as argument {index}": _only_used(index) for index in (-1, 0, 1, 2)},
    "used twice": _fork,
    "a chain": _chain,
    "used elsewhere": _not_only,
}


@pytest.mark.parametrize("title", CONTEXTS)
def test_a_context_matches_the_block_that_relaxs_matches(title: str) -> None:
    def asked(p: Any) -> Any:
        block = p.read(_OUTSIDE)["main"].body.blocks[0]
        with p.dpl.PatternContext() as context:
            patterns = CONTEXTS[title](p.dpl)
            found = context.match_dfb(block)
        return None if found is None else [found[pattern] for pattern in patterns]

    assert_same_answer(asked)


# --- rewriting

_CHAIN: Final = """
def main(x: f32[8, 8], y: f32[8, 8]) -> f32[8, 8]:
    with flow:
        lv2 = R.add(x, y)
        lv = R.add(lv2, y)
        lv1 = R.nn.relu(lv)
        gv = R.add(lv1, x)
        R.output(gv)
    return gv
"""
_NAMES: Final = """
def main(x: f32[8, 8], y: f32[8, 8]) -> f32[8, 8]:
    with flow:
        a = R.add(x, y)
        b = a
        c = R.nn.relu(b)
        t = (c, a)
        e = t[0]
        R.output(e)
    return e
"""
_SPLIT: Final = """
def main(x: f32[8, 8]) -> f32[8, 8]:
    with flow:
        s = R.split(x, 2)
        a = s[0]
        b = s[1]
        c = R.concat((a, b))
        R.output(c)
    return c
"""
_BRANCHES: Final = """
def main(c: b1[], x: f32[8, 8], y: f32[8, 8]) -> f32[8, 8]:
    a = R.add(x, y)
    if c:
        b = R.add(a, y)
        r = R.nn.relu(b)
    else:
        d = R.nn.relu(R.add(a, a))
        r = R.add(d, x)
    return r
"""
_TEXTS: Final = {
    "a dataflow block": _CHAIN,
    "plain rows": _CHAIN.replace("    with flow:\n", "").replace("        ", "    ").replace("    R.output(gv)\n", ""),
    "names": _NAMES,
    "branches": _BRANCHES,
}


def _differences(p: Any, d: Any) -> tuple[Any, Any]:
    a, b = d.wildcard(), d.wildcard()
    return _op(d, "add", a, b), lambda _, found: p.op.subtract(found[a], found[b])


def _maxima(p: Any, d: Any) -> tuple[Any, Any]:
    total = _op(d, "add")
    return _op(d, "nn.relu", total), lambda _, found: p.op.maximum(found[total], p.relax.const(0.0, "float32"))


def _nothing(p: Any, d: Any) -> tuple[Any, Any]:
    return _op(d, "add"), lambda expr, _: expr


def _nested(p: Any, d: Any) -> tuple[Any, Any]:
    a = d.wildcard()
    return _op(d, "nn.relu", a), lambda _, found: p.op.nn.silu(p.op.exp(p.op.negative(found[a])))


def _operands(p: Any, d: Any) -> tuple[Any, Any]:
    a = d.wildcard()
    return _op(d, "add", a, d.wildcard()), lambda _, found: found[a]


CHANGES: Final = [_differences, _maxima, _nothing, _nested, _operands]


@pytest.mark.parametrize("title", _TEXTS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_program_is_rewritten_as_relax_rewrites_it(title: str, change: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    def asked(p: Any) -> Any:
        pattern, rewriter = change(p, p.dpl)
        return p.dpl.rewrite_call(pattern, rewriter, p.read(_TEXTS[title])["main"])

    assert_same_answer(asked)


def _joined(p: Any, d: Any) -> tuple[Any, Any]:
    x = d.wildcard()
    fields = [d.is_tuple_get_item(_op(d, "split", x), index) for index in (0, 1)]
    return _op(d, "concat", d.is_tuple(fields)), lambda _, found: found[x]


def _slices(p: Any, d: Any) -> tuple[Any, Any]:
    x = d.wildcard()

    def rewriter(_: Any, found: Any) -> Any:
        return p.relax.Tuple([p.op.strided_slice(found[x], [0], [4 * i], [4 * i + 4]) for i in (0, 1)])

    return _op(d, "split", x), rewriter


@pytest.mark.parametrize("change", [_joined, _slices])
def test_tuples_are_rewritten_as_relax_rewrites_them(change: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    def asked(p: Any) -> Any:
        pattern, rewriter = change(p, p.dpl)
        return p.dpl.rewrite_call(pattern, rewriter, p.read(_SPLIT)["main"])

    assert_same_answer(asked)


def test_products_of_one_left_side_are_rewritten_together_as_in_relax() -> None:
    text = """
def main(x: f32[2, 8, 6], w0: f32[6, 6], w1: f32[6, 6], w2: f32[6, 6]) -> R.Object:
    with flow:
        lv0 = R.matmul(x, w0)
        lv1 = R.matmul(x, w1)
        lv2 = R.matmul(x, w2)
        out = (lv0, lv1, lv2)
        R.output(out)
    return out
"""

    def asked(p: Any) -> Any:
        d = p.dpl
        with d.PatternContext() as context:
            x, *weights = (d.wildcard() for _ in range(4))
            products = [_op(d, "matmul", x, weight) for weight in weights]

        def rewriter(found: Any, _: Any) -> Any:
            whole = p.op.matmul(found[x], p.op.concat([found[weight] for weight in weights], axis=1))
            return {
                found[product]: p.op.strided_slice(whole, axes=[2], begin=[6 * i], end=[6 * (i + 1)])
                for i, product in enumerate(products)
            }

        return d.rewrite_bindings(context, rewriter, p.read(text)["main"])

    assert_same_answer(asked)
