"""Rules from two functions of PyTorch: what is exact, what is loosened on request, what is refused."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regraft as rx
from regraft.convert import ConvertError
from regraft.ir.dtypes import numpy_dtype
from regraft.script import relax as R
from regraft.testing import check_rule


def attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v


def fused(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, scale=0.125)


class Model(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return attention(q.relu(), k, v) + 1


def model_of(*shape: int, dtype: torch.dtype = torch.float32) -> rx.IRModule:
    one = torch.zeros(shape, dtype=dtype)
    return rx.from_torch(Model(), (one, one.clone(), one.clone()))


EXAMPLES = [torch.zeros(2, 4, 8, 16) for _ in range(3)]


def test_a_rule_is_about_the_shapes_and_dtypes_of_its_examples_unless_they_are_loose() -> None:
    exact = rx.rule_from_torch(attention, fused, EXAMPLES)
    assert exact.name == "attention"
    assert "R.nn.attention" in exact(model_of(2, 4, 8, 16), verify="values").script()
    for other in (model_of(2, 4, 8, 32), model_of(2, 4, 8, 16, dtype=torch.float16)):
        assert exact(other) is other


def test_loose_sizes_and_dtypes_stand_for_any_and_equal_sizes_stay_equal() -> None:
    rule = rx.rule_from_torch(attention, fused, EXAMPLES, loose=["sizes", "dtypes"])
    for shape in ((1, 3, 5, 16), (2, 4, 8, 32)):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            changed = rule(model_of(*shape, dtype=dtype), verify="values")
            assert "R.nn.attention" in changed.script()
    report = check_rule(rule)
    assert report.rewrites > 0
    assert any("the replacement takes" in reason for reason in report.reasons)


def test_sizes_that_the_functions_compute_follow_from_those_found() -> None:
    def before(x: Any) -> Any:
        b, s, d = x.shape
        return x.reshape(b, s, 4, d // 4).transpose(1, 2).reshape(b * 4, s, d // 4)

    def after(x: Any) -> Any:
        b, s, d = x.shape
        return x.transpose(1, 2).reshape(b * 4, d // 4, s).transpose(1, 2)

    class Heads(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return before(x).sin()

    rule = rx.rule_from_torch(before, after, [torch.zeros(2, 3, 8)], name="heads", loose=["sizes"])
    module = rx.from_torch(Heads(), (torch.zeros(3, 5, 24),))
    changed = rule(module, verify="values")
    assert changed is not module
    assert "R.shape([12, 6, 5])" in changed.script()


def test_dtypes_inside_the_functions_follow_those_of_the_operands() -> None:
    def after(x: Any) -> Any:
        return torch.full((), 2.0, dtype=torch.float32) * x

    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp() * 2.0

    rule = rx.rule_from_torch(lambda x: x * 2.0, after, [torch.zeros(3)], loose=["sizes", "dtypes"])
    for dtype, name in ((torch.float16, "float16"), (torch.float64, "float64")):
        changed = rule(rx.from_torch(Doubled(), (torch.zeros(7, dtype=dtype),)), verify="values")
        assert f'dtype="{name}")' in changed.script()
        assert "float32" not in changed.script()
    assert check_rule(rule).rewrites > 0


def test_a_number_of_a_loose_dtype_is_what_was_written_not_what_its_example_rounds_it_to() -> None:
    class Leaky(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.where(x > 0, x, x * 0.1).exp()

    def after(x: Any) -> Any:
        return F.leaky_relu(x, 0.1) * 0.7 / 0.7

    rule = rx.rule_from_torch(
        lambda x: torch.where(x > 0, x, x * 0.1), after, [torch.zeros(3)], loose=["sizes", "dtypes"]
    )
    for dtype in (torch.float32, torch.float64):
        changed = rule(rx.from_torch(Leaky(), (torch.zeros(7, dtype=dtype),)), verify="values").script()
        assert "R.nn.leakyrelu" in changed
        assert ("0.7," in changed) == (dtype == torch.float64)


def test_a_number_that_float32_rounds_is_found_in_float64_too() -> None:
    def by_hand(x: Any) -> Any:
        return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))

    class Activation(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return by_hand(x.sin())

    def in_one_call(x: Any) -> Any:
        return F.gelu(x)

    rule = rx.rule_from_torch(by_hand, in_one_call, [torch.zeros(3)], loose=["sizes", "dtypes"])
    for dtype in (torch.float32, torch.float64):
        changed = rule(rx.from_torch(Activation(), (torch.zeros(7, dtype=dtype),)), verify="values").script()
        assert "R.nn.gelu" in changed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_rule_for_any_dtype_is_also_for_numbers_that_pytorch_computes_with_in_float32(dtype: torch.dtype) -> None:
    def by_hand(x: Any) -> Any:
        return x * torch.sigmoid(x * 1.702)

    def in_one_call(x: Any) -> Any:
        return F.silu(x * 1.702) / 1.702

    class Activation(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return by_hand(x.sin())

    rule = rx.rule_from_torch(by_hand, in_one_call, [torch.zeros(3)], loose=["sizes", "dtypes"])
    x = torch.linspace(-3, 3, 700).to(dtype)
    changed = rule(rx.from_torch(Activation(), (x,)), verify="values")
    assert "R.nn.silu" in changed.script()
    found: Any = rx.build(changed, "torch")["main"](x)
    assert found.dtype == dtype
    torch.testing.assert_close(found, in_one_call(x.sin()))


def test_a_rule_for_any_dtype_has_no_more_forms_where_half_precision_has_the_same_operators() -> None:
    rule = rx.rule_from_torch(lambda x: x.exp().log(), lambda x: x + 0, [torch.zeros(3)], loose=["dtypes"])
    assert "|" not in str(rule.pattern)
    assert check_rule(rule, examples=4, near_misses=3).rewrites


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("number", [0.1, 0.3, 1.702, 1e-5, 65000.0, -2.5])
def test_a_number_of_a_part_of_a_program_is_the_shortest_that_its_dtype_rounds_to(dtype: str, number: float) -> None:
    x = rx.Var("x", rx.TensorType((3,), dtype))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.multiply(x, R.const(number, dtype)), "y"))
    [text] = re.findall(r"const\((.*)\)\)", str(rx.pattern_from(builder.get(), outputs=["y"]).pattern))
    found, written = (np.asarray(one, numpy_dtype(dtype)) for one in (float(text), number))
    assert found == written
    digits = [len(Decimal(one).normalize().as_tuple().digits) for one in (text, str(number))]
    assert digits[0] <= digits[1]


def test_several_results_and_number_tensors_are_variables_of_a_rule() -> None:
    def before(x: Any, scale: Any) -> Any:
        y = x * scale
        return y.sin(), y.cos()

    def after(x: Any, scale: Any) -> Any:
        y = scale * x
        return torch.sin(y), torch.cos(y + 0.0)

    class Waves(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 0.3
            return y.sin() + y.cos()

    rule = rx.rule_from_torch(before, after, [torch.zeros(5), torch.tensor(1.0)], loose=["sizes"])
    changed = rule(rx.from_torch(Waves(), (torch.zeros(9),)), verify="values")
    assert "R.add(" in changed.script()
    assert changed.script().count('R.const(0.0, "float32")') == 1


def test_modules_and_any_operator_of_aten_serve_as_functions() -> None:
    before = torch.nn.Sequential(torch.nn.Hardsigmoid(), torch.nn.Flatten())
    rule = rx.rule_from_torch(before, lambda x: F.hardsigmoid(x.flatten(1)), [torch.zeros(2, 3, 4)], loose=["sizes"])
    module = rx.from_torch(torch.nn.Sequential(torch.nn.ReLU(), before), (torch.zeros(5, 6, 7),))
    assert rule(module, verify="values") is not module


@pytest.mark.parametrize(
    ("after", "examples", "options", "error", "message"),
    [
        (lambda x: x, [3.0], {}, ConvertError, "example 0 is a float; expected a tensor"),
        (lambda x: x, [torch.zeros(2)], {"loose": ["shape"]}, rx.RewriteError, "loose='shape'; expected of 'sizes'"),
        (lambda x: x[x > 0].sum() if x.sum() > 0 else x, [torch.zeros(2)], {}, ConvertError, "'f': replacement: "),
        (lambda x: (x, x), [torch.zeros(2)], {}, rx.RewriteError, "pattern returns 1 values, replacement 2"),
        (lambda x: x.sum(), [torch.zeros(2)], {}, rx.RewriteError, "can never take its place"),
    ],
)
def test_functions_that_make_no_rule_are_refused(
    after: Any, examples: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rx.rule_from_torch(lambda x: x.exp(), after, examples, name="f", **options)


def test_a_rule_of_torch_functions_says_how_far_values_may_change() -> None:
    def exact(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)

    def close(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")

    examples = [torch.zeros(3, 5)]
    rule = rx.rule_from_torch(exact, close, examples, loose=["sizes"], approximate=1e-2)
    assert rule.approximate == 1e-2
    assert check_rule(rule, examples=4, near_misses=2).rewrites
    with pytest.raises(AssertionError, match="rule 'exact' is wrong"):
        check_rule(rx.rule_from_torch(exact, close, examples, loose=["sizes"]), examples=10, near_misses=2)
