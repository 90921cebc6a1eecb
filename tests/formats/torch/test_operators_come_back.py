"""Operators that nothing rewrote come back as themselves, however much they were read as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.ir import Function, TensorType, Var, const
from regraft.script import relax as R
from tests.torch_kit import Of, kinds_called

_ATEN: Any = torch.ops.aten


def _pool_adjoint(x: torch.Tensor) -> torch.Tensor:
    found, places = _ATEN.max_pool2d_with_indices(x, [2, 2], [2, 2])
    return _ATEN.max_pool2d_with_indices_backward(found.exp(), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)


def _norm_adjoint(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mean, spread = torch.ones(2, 2), torch.full((2, 2), 0.5)
    return _ATEN.native_group_norm_backward(x.sin(), x, mean, spread, torch.ones(4), 2, 4, 16, 2, [True, True, True])


_IMAGE = torch.sin(torch.arange(128.0)).reshape(2, 4, 4, 4)
_CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "the adjoint of max pooling": (_pool_adjoint, (_IMAGE,)),
    "the adjoint of a group norm": (_norm_adjoint, (_IMAGE,)),
    "roll over all axes": (lambda x: torch.roll(x, 3), (_IMAGE,)),
    "addr": (torch.addr, (torch.ones(3, 4), torch.arange(3.0), torch.arange(4.0))),
    "complex numbers out of pairs": (lambda x: torch.view_as_complex(x).abs(), (_IMAGE.reshape(-1, 2),)),
    "rows added in a scalar": (
        lambda x, i, y: torch.index_add(x, 0, i, y),
        (torch.ones(()), torch.tensor([0]), torch.ones(())),
    ),
    "windows of a scalar": (lambda x: x.unfold(0, 1, 1), (torch.ones(()),)),
}


@pytest.mark.parametrize("name", _CASES)
def test_what_nothing_rewrote_is_the_same_operators_again(name: str) -> None:
    function, args = _CASES[name]
    model = torch.export.export(Of(function), args)
    again = rx.optimize(model, verify=True)
    counts = [Counter(str(n.target) for n in m.graph.nodes if n.op == "call_function") for m in (model, again)]
    assert counts[1].total() <= counts[0].total(), counts


def _names(program: torch.export.ExportedProgram) -> Counter[str]:
    return Counter(str(n.target) for n in program.graph.nodes if n.op == "call_function")


def _rotated(x: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * pairs[:, :1]).flatten(2)


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (_rotated, 0),
        (lambda x: torch.view_as_complex(x.transpose(1, 2).contiguous().unflatten(-1, (-1, 2))).abs() * x.shape[1], 1),
    ],
)
def test_pairs_are_put_in_order_only_where_the_model_did(function: Callable[..., Any], copies: int) -> None:
    length = torch.export.Dim("length", min=2, max=20) * 2
    program = torch.export.export(Of(function), (torch.randn(2, 8, 4),), dynamic_shapes={"args": ({1: length},)})
    reports: list[Any] = []
    again = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None or "operators" not in reports[0].kept
    assert _names(again)["aten.contiguous.default"] == copies
    for x in (torch.randn(2, 12, 4), torch.randn(2, 4, 8).transpose(1, 2), torch.randn(2, 8, 8)[:, :, ::2]):
        if copies or x.is_contiguous():
            torch.testing.assert_close(again.module()(x), function(x))


@pytest.mark.parametrize("function", [torch.nn.functional.hardshrink, torch.nn.functional.softshrink])
def test_an_operator_stays_whole_beside_one_that_works_in_place(function: Callable[..., Any]) -> None:
    program = torch.export.export(Of(lambda x: function(torch.sin(x).relu_())), (_IMAGE,))
    reports: list[Any] = []
    again = rx.optimize(program, report=reports.append, verify=True)
    assert reports[0].kept is None
    name = f"aten.{function.__name__}.default"
    assert _names(again)[name] == _names(program)[name] == 1


def test_batch_norms_beside_activations_in_place_are_folded_into_convolutions() -> None:
    layers = torch.nn.Conv2d(4, 6, 3, bias=False), torch.nn.BatchNorm2d(6), torch.nn.Hardswish(inplace=True)
    model = torch.nn.Sequential(*layers, torch.nn.BatchNorm2d(6)).eval()
    again = rx.optimize(torch.export.export(model, (_IMAGE,)), verify=True)
    norm = "aten._native_batch_norm_legit_no_training.default"
    assert {"aten.conv2d.default": 1, "aten.hardswish_.default": 1, norm: 1}.items() <= _names(again).items()


def test_a_conjugate_comes_back_as_one() -> None:
    x, y = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
    program = torch.export.export(Of(lambda x, y: ((x.conj() * y).sum(-1), torch.relu(x.real + 0) * 1)), (x, y))
    reports: list[Any] = []
    again = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    assert "aten.complex.default" not in _names(again)
    torch.testing.assert_close(again.module()(x, y), program.module()(x, y))


@pytest.mark.parametrize("accumulate", [False, True])
def test_rows_and_elements_are_put_by_one_operator(accumulate: bool) -> None:
    data, values = Var("data", TensorType((4, 5), "float32")), np.sin(np.arange(10, dtype="float32"))
    x = torch.cos(torch.arange(20.0)).reshape(4, 5)
    for dtype in ("int64", "int32", "int8"):
        rows, columns = np.array([3, 0], dtype), np.array([-1, 2], dtype)
        for indices, put in (([rows], values.reshape(2, 5)), ([rows, columns], values[:2])):
            call = R.index_put(data, [const(one) for one in indices], const(put), accumulate=accumulate)
            made = rx.to_torch(Function([data], call))
            wanted = x.clone().index_put_([torch.tensor(one).long() for one in indices], torch.tensor(put), accumulate)
            torch.testing.assert_close(made(x), wanted)
            program = torch.export.export(made, (x,))
            assert (len(_names(program)) == 1) == (dtype != "int8")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("reduction", ["update", "add"])
def test_elements_are_scattered_by_one_operator(reduction: Any, dtype: str) -> None:
    shapes = (TensorType((4, 5), dtype), TensorType((2, 5), "int64"), TensorType((2, 5), dtype))
    params = [Var(name, ty) for name, ty in zip("xip", shapes, strict=True)]
    program = Function(params, R.scatter_elements(*params, axis=0, reduction=reduction))
    places = np.array([[0, 3, -1, 1, 2], [-4 if reduction == "add" else 1, 2, 0, -2, -1]])
    given = np.arange(20).reshape(4, 5).astype(dtype), places, np.arange(50, 60).reshape(2, 5).astype(dtype)
    wanted = given[0].copy()
    for row, column in np.ndindex(2, 5):
        before = wanted[places[row, column], column] if reduction == "add" else 0
        wanted[places[row, column], column] = before + given[2][row, column]
    tensors = [torch.from_numpy(one) for one in given]
    made = rx.to_torch(program)
    np.testing.assert_array_equal(made(*tensors).numpy(), wanted)
    name = "aten.scatter.src" if reduction == "update" else "aten.scatter_add.default"
    exported = _names(torch.export.export(made, tuple(tensors)))
    assert exported[name] == 1
    assert exported.total() == 4


def _summed_products(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.addbmm(torch.tanh(x), y, z, beta=0.5, alpha=0.2) * 2


def _pooled_twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    both = torch.nn.functional.adaptive_max_pool2d, {"output_size": 1, "return_indices": True}
    return (*both[0](x, **both[1]), *both[0](x, **both[1]))


def _likelihood(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    factor = torch.linalg.cholesky(torch.cdist(x, x).neg().exp() + torch.eye(4))
    normal = torch.distributions.MultivariateNormal(torch.zeros(4), scale_tril=factor, validate_args=False)
    return normal.log_prob(x[:, 0]), normal.entropy(), torch.cholesky_solve(x, factor)


def _norm_of_batch(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return _ATEN._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5)


_TAKEN_APART: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "running maxima": (lambda x: torch.cummax(torch.tanh(x), 1), (torch.sin(torch.arange(27.0)).reshape(3, 9),)),
    "a cross product": (
        torch.linalg.cross,
        (_IMAGE.reshape(-1)[:6].reshape(2, 3), _IMAGE.reshape(-1)[6:12].reshape(2, 3)),
    ),
    "a sum of products": (_summed_products, (_IMAGE[0, 0], _IMAGE[0], _IMAGE[1])),
    "the same pooling twice": (_pooled_twice, (_IMAGE,)),
    "a likelihood": (_likelihood, (_IMAGE.reshape(-1)[:12].reshape(4, 3),)),
    "a loss": (torch.nn.functional.multi_margin_loss, (_IMAGE[0, 0], torch.tensor([0, 1, 3, 2]))),
    "statistics beside a norm": (_norm_of_batch, (_IMAGE,)),
    "a diagonal": (lambda x: (x.diagonal().exp(), (x + 1).diagonal()), (_IMAGE[0, 0],)),
    "a triangle": (lambda x: torch.tril(torch.sin(x) @ x), (_IMAGE[0, 0],)),
}


@pytest.mark.parametrize("make", [torch.exp, lambda x: torch.cummax(x, -1)[0]])
@pytest.mark.parametrize("same", [lambda x: x.view(x.shape), lambda x: x.expand(x.shape), lambda x: x.to(x.dtype)])
def test_calls_that_change_nothing_are_gone(make: Callable[..., Any], same: Callable[..., Any]) -> None:
    model = torch.export.export(Of(lambda x: same(torch.relu(same(make(x))))), (_IMAGE,))
    again = rx.optimize(model)
    made = rx.to_torch(rx.optimize(rx.from_torch(model)))
    assert sum(kinds_called(again.module(), (_IMAGE,)).values()) == 2
    torch.testing.assert_close(again.module()(_IMAGE), model.module()(_IMAGE))
    torch.testing.assert_close(made(_IMAGE), model.module()(_IMAGE))


@pytest.mark.parametrize("name", _TAKEN_APART)
def test_a_module_that_was_optimized_calls_no_more_operators_than_the_model(name: str) -> None:
    function, args = _TAKEN_APART[name]
    model = torch.export.export(Of(function), args)
    made = rx.to_torch(rx.optimize(rx.from_torch(model)))
    counts = [sum(kinds_called(one, args).values()) for one in (model.module(), made)]
    assert counts[1] <= counts[0], counts
    torch.testing.assert_close(made(*args), function(*args), rtol=1e-4, atol=1e-5)
