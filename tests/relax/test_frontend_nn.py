"""Models written as modules compute what PyTorch computes, and keep their state."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.frontend import nn
from regraft.frontend.nn import op, spec


def _filled(module: nn.Module) -> nn.Module:
    random = np.random.default_rng(0)
    for parameter in module.parameters():
        parameter.data = random.standard_normal(parameter.shape).astype(parameter.dtype)
    return module


class _Perceptron(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.second(op.silu(self.first(x)))

    def rows(self, x: nn.Tensor, k: int) -> nn.Tensor:
        return op.reshape(x, [k, 2])


@pytest.mark.parametrize("param_mode", ["plain", "packed"])
def test_a_compiled_module_computes_what_pytorch_does(param_mode: str) -> None:
    module = _filled(_Perceptron())
    compiled = module.jit({"forward": {"x": spec.Tensor(["n", 4], "float32"), "$": {"param_mode": param_mode}}})
    values = {name: torch.tensor(one.data) for name, one in module.named_parameters()}
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    hidden = torch.nn.functional.silu(x @ values["first.weight"].T + values["first.bias"])
    expected = hidden @ values["second.weight"].T + values["second.bias"]
    torch.testing.assert_close(compiled["forward"](x), expected)


def test_a_compiled_method_takes_sizes() -> None:
    compiled = _filled(_Perceptron()).jit({"rows": {"x": spec.Tensor(["n"], "float32"), "k": int}}, out_format="numpy")
    assert compiled["rows"](np.arange(6, dtype="float32"), 3).shape == (3, 2)


def test_a_module_without_values_is_not_compiled() -> None:
    with pytest.raises(ValueError, match=r"first\.weight"):
        _Perceptron().jit({"forward": {"x": spec.Tensor([1, 4], "float32")}})


class _Cached(nn.Module):
    def __init__(self) -> None:
        self.cache = nn.KVCache(1, [2])

    def forward(self, x: nn.Tensor, length: int) -> nn.Tensor:
        self.cache.append(x)
        return self.cache.view(length)


@pytest.mark.parametrize("effect_mode", ["plain", "packed"])
def test_a_cache_keeps_its_rows_from_call_to_call(effect_mode: str) -> None:
    one = {"x": spec.Tensor([1, 2], "float32"), "length": int, "$": {"effect_mode": effect_mode}}
    compiled = _Cached().jit({"forward": one}, out_format="numpy")
    rows = np.arange(10, dtype="float32").reshape(5, 1, 2)
    for length, row in enumerate(rows, start=1):
        np.testing.assert_array_equal(compiled["forward"](row, length), rows[:length, 0])
    with pytest.raises(rx.ExecutionError, match="6 positions, not 9"):
        compiled["forward"](rows[0], 9)


def test_debug_functions_are_called_with_the_place_in_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[object, ...]] = []
    rx.register_func("tests.seen", lambda place, *values: calls.append((place, *values)), override=True)

    class Printing(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            op.print_(x)
            op.debug_func("tests.seen", x, 3, "text")
            return x + 1

    compiled = Printing().jit({"forward": {"x": spec.Tensor([2], "float32")}}, out_format="numpy", debug=True)
    np.testing.assert_array_equal(compiled["forward"](np.ones(2, "float32")), [2, 2])
    (place, array, number, text), *more = calls
    assert not more
    assert "test_frontend_nn.py:" in str(place)
    np.testing.assert_array_equal(np.asarray(array), [1, 1])
    assert (number, text) == (3, "text")
    assert "shape = (2,), dtype = float32" in capsys.readouterr().out


def test_layers_compute_what_pytorch_does() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            self.conv = nn.Conv2D(3, 4, 3, stride=2, padding=1)
            self.group = nn.GroupNorm(2, 4)
            self.layer = nn.LayerNorm(4)

        def forward(self, x: nn.Tensor) -> tuple[nn.Tensor, ...]:
            x = self.group(self.conv(x))
            return self.layer(x), op.layer_norm(x, [4]), op.interpolate(x, scale_factor=2, mode="bilinear")

    module = _filled(Layers())
    compiled = module.jit({"forward": {"x": spec.Tensor([1, 3, 8, 8], "float32")}})
    values = {name: torch.tensor(one.data) for name, one in module.named_parameters()}
    x = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    function = torch.nn.functional
    y = function.conv2d(x, values["conv.weight"], values["conv.bias"], 2, 1)
    y = function.group_norm(y, 2, values["group.weight"], values["group.bias"])
    expected = (
        function.layer_norm(y, [4], values["layer.weight"], values["layer.bias"]),
        function.layer_norm(y, [4]),
        function.interpolate(y, scale_factor=2, mode="bilinear"),
    )
    for found, wanted in zip(compiled["forward"](x), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class _Scaled(nn.Module):
    define_subroutine = True

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return x * self.factor


def test_modules_of_one_class_that_compute_differently_have_functions_of_their_own() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.double, self.again, self.triple = _Scaled(2.0), _Scaled(2.0), _Scaled(3.0)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.triple(self.again(self.double(x)))

    compiled = Model().jit({"forward": {"x": spec.Tensor([1], "float32")}}, out_format="numpy")
    assert {name for name, _ in compiled.program.items()} == {"forward", "_scaled", "_scaled1"}
    np.testing.assert_array_equal(compiled["forward"](np.ones(1, "float32")), [12])


def test_a_subroutine_takes_tuples_and_gives_them() -> None:
    class Pair(nn.Module):
        define_subroutine = True

        def forward(self, pair: tuple[nn.Tensor, nn.Tensor], k: object) -> tuple[nn.Tensor, nn.Tensor]:
            left, right = pair
            return op.add(left, right), op.full([k, 1], 2.0)

    class Model(nn.Module):
        def __init__(self) -> None:
            self.pair = Pair()

        def forward(self, x: nn.Tensor, k: int) -> nn.Tensor:
            total, filled = self.pair((x, x), k)
            return op.add(total, filled)

    one = {"x": spec.Tensor([1], "float32"), "k": int}
    compiled = Model().jit({"forward": one}, out_format="numpy")
    np.testing.assert_array_equal(compiled["forward"](np.ones(1, "float32"), 2), [[4], [4]])


def test_a_parameter_keeps_its_own_type_after_an_export_that_fails() -> None:
    linear = nn.Linear(4, 2)
    with pytest.raises(rx.RegraftError):
        linear.export_tvm({"forward": {"x": spec.Tensor([1, 5], "float32")}})
    program, _ = linear.export_tvm({"forward": {"x": spec.Tensor([1, 4], "float32")}})
    assert program["forward"].ret_ty.shape == (1, 2)


def test_an_argument_that_the_method_lacks_is_named() -> None:
    with pytest.raises(TypeError, match="names the argument 'y', but the method takes x"):
        nn.ReLU().export_tvm({"forward": {"x": spec.Tensor([1], "float32"), "y": int}})
