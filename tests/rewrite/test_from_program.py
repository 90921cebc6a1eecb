"""Patterns from a part of a program: where the part ends, what stays variable, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import pattern_from
from regraft.script import relax as R
from regraft.script import tir as T
from regraft.testing import check_rule
from regraft.transform import report


@R.function
def block(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    n = T.int64()
    with R.dataflow():
        h = R.matmul(x, w)
        scaled = R.multiply(h, R.const(0.125))
        p = R.nn.softmax(scaled, axis=1)
        q = R.add(p, p)
        flat = R.reshape(q, R.shape([n * 4]))
        R.output(p, flat)
    return p, flat


MODEL = rx.IRModule({"main": block})


def test_a_part_becomes_a_rule_with_its_variables_as_parameters() -> None:
    part = pattern_from(MODEL, ["q"], inputs=["h"], numbers={"scale": 0.125}, loose=["axis"])
    assert list(part.variables) == ["h", "scale"]

    def after(h: Any, scale: Any, axis: int) -> rx.Expr:
        return R.nn.softmax(h * scale, axis=axis) * 2.0

    rule = rx.rule(part, after, name="double softmax")
    assert check_rule(rule).rewrites > 0
    changed = rule(MODEL)
    assert "R.add" not in changed.script()
    assert 'R.multiply(p, R.const(2.0, "float32"))' in changed.script()


def test_a_part_matches_in_other_programs_of_other_sizes_and_dtypes() -> None:
    part = pattern_from(MODEL, ["p"], inputs=["h"])

    @R.function
    def other(a: R.Tensor((3, 7), "float16")):
        with R.dataflow():
            b = R.multiply(R.const(0.125, "float16"), R.exp(a))
            c = R.nn.softmax(b, axis=1)
            R.output(c)
        return c

    found: list[Any] = []
    rx.rule(part, lambda h: found.append(h) or rx.decline("looked only"))(other)
    assert [str(value) for value in found] == ["lv"]


def heads(batch: int, width: int, wide: str, accumulated: str) -> rx.Function:
    """Rows as heads, in ``wide``, and a product of them that adds up in ``accumulated``."""
    x = rx.Var("x", rx.TensorType((batch, width), "float16"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            split = builder.emit(R.reshape(R.astype(x, wide), R.shape([batch, width // 2, 2])), "split")
            product = builder.emit_output(R.matmul(split, R.permute_dims(split, [0, 2, 1]), out_dtype=accumulated))
        builder.emit_func_output(product)
    return builder.get()["main"]


def test_loose_sizes_and_dtypes_stand_for_any_and_equal_ones_stay_equal() -> None:
    example = heads(3, 8, "float32", "float32")
    *_, last = (binding.var for binding in example.body.blocks[0])

    def after(x: rx.Expr) -> rx.Expr:
        return rx.decline(str(x.ty))

    def reason(part: Any, program: rx.Function) -> str:
        return str(report(rx.rule(part, after, name="look"), program))

    exact, loose = pattern_from(example, [last]), pattern_from(example, [last], loose=["sizes", "dtypes"])
    others = [heads(5, 12, "float32", "float32"), heads(3, 8, "float64", "float64")]
    assert all('dtype="float16")' in reason(loose, one) for one in (example, *others))
    assert 'dtype="float16")' in reason(exact, example)
    assert not any("left" in reason(exact, one) for one in others)
    assert "the loose attribute out_dtype is" in reason(loose, heads(3, 8, "float32", "float64"))


def test_several_outputs_are_replaced_together_and_symbolic_sizes_match_any() -> None:
    part = pattern_from(block, ["flat", "p"], inputs=["h"])
    rule = rx.rule(part, lambda h: (R.reshape(h, (-1,)), h), name="flat")
    changed = rule(MODEL)
    assert "softmax" not in changed.script()


def test_without_inputs_a_part_ends_at_parameters_and_weights() -> None:
    weights = [rx.const(np.full((4, 4), value, "float32")) for value in (1, 2)]
    builder = rx.BlockBuilder()
    x = rx.Var("x", R.Tensor((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(R.matmul(R.matmul(x, weights[0]), weights[1]), "y")
            out = builder.emit_output(R.nn.relu(y), "out")
        builder.emit_func_output(out)
    model = builder.get()
    part = pattern_from(model, ["out"])
    assert list(part.variables) == ["x", "weight", "weight1"]

    def after(x: Any, weight: Any, weight1: Any) -> Any:
        if weight.ty.ndim != 2 or weight1.ty.ndim != 2:
            return rx.decline("the weights are no matrices")
        return R.nn.relu(R.matmul(x, R.matmul(weight, weight1)))

    rule = rx.rule(part, after)
    assert check_rule(rule).rewrites > 0
    assert rule(model, verify="values").script().count("R.matmul(x") == 1
    assert part["weight1"] is part.variables["weight1"]


def test_a_long_part_is_read_without_recursion() -> None:
    builder = rx.BlockBuilder()
    x = rx.Var("x", R.Tensor((2,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: rx.Expr = x
            for _ in range(3000):
                value = builder.emit(R.exp(value))
            out = builder.emit_output(R.sin(value), "out")
        builder.emit_func_output(out)
    part = pattern_from(builder.get(), ["out"])
    assert list(part.variables) == ["x"]


@pytest.mark.parametrize(
    ("outputs", "options", "message"),
    [
        ([], {}, "say which variables of main the part computes"),
        (["z"], {}, "main has no variable 'z'"),
        (["x"], {}, "x is not computed by a call"),
        (["q"], {"inputs": ["flat"]}, "the outputs are not computed from flat"),
        (["q"], {"numbers": {"scale": 0.5}}, r"the part has no constant 0\.5, to be scale"),
        (["q"], {"loose": ["keepdims"]}, "no call of the part has the attribute keepdims"),
    ],
)
def test_names_that_stand_for_nothing_are_refused(outputs: list[str], options: Any, message: str) -> None:
    with pytest.raises(rx.RewriteError, match=message):
        pattern_from(MODEL, outputs, **options)


def test_a_name_that_two_variables_have_is_refused_and_the_variable_itself_is_taken() -> None:
    a, first, second = (rx.Var(name, R.Tensor((2,), "float32")) for name in ("a", "same", "same"))
    bindings = [rx.VarBinding(first, R.exp(a)), rx.VarBinding(second, R.exp(first))]
    body = rx.SeqExpr([rx.DataflowBlock(bindings)], second)
    program = rx.Function([a], body)
    with pytest.raises(rx.RewriteError, match="2 variables 'same'; give the variable itself"):
        pattern_from(program, ["same"])
    assert list(pattern_from(program, [second]).variables) == ["a"]


def test_an_unknown_variable_is_named_with_those_that_there_are() -> None:
    part = pattern_from(MODEL, ["q"], inputs=["h"])
    assert part._repr_html_() == f"<div>part with variables h</div>{part.pattern._repr_html_()}"
    with pytest.raises(rx.RewriteError, match="the part has no variable 'w'; it has: h"):
        part["w"]
    with pytest.raises(rx.RewriteError, match="after takes w, which before does not have; it has: h"):
        rx.rule(part, lambda w: w)
    with pytest.raises(rx.RewriteError, match=r"pattern_from\(loose=\.\.\.\)"):
        rx.rule(part, lambda h: h, loose=["axis"])
