"""The gradients of products of matrices: every rank, broadcast batches, symbolic sizes, narrower dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regraft.gradient import Gradient, GradientError
from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, gradients, loss_module, numbers

PRODUCTS = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((6, 5, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_a_product_has_the_gradient_of_both_oracles(shapes: tuple) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_gradient(R.matmul, *arrays, reference=torch.matmul)


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 2, 3), (3, 2))], ids=str)
def test_a_product_can_be_differentiated_twice(shapes: tuple) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_second_order(R.matmul, *arrays, reference=torch.matmul)


def test_a_product_of_symbolic_sizes_has_the_gradient_of_both_oracles() -> None:
    batch, rows = SymVar("batch"), SymVar("rows")
    types = [TensorType((batch, rows, 3), "float64"), TensorType((3, 4), "float64")]
    check_gradient(lambda x, w: R.sin(R.matmul(x, w)), numbers(5, 2, 3), numbers(3, 4, seed=1), types=types)


def test_one_matrix_for_a_batch_gets_its_gradient_from_one_product() -> None:
    module = loss_module(R.matmul, [numbers(5, 2, 3), numbers(3, 4)])
    text = Gradient("main", require_grads="x1")(module)["main_adjoint"].script()
    assert "R.collapse_sum_to" not in text
    assert 'R.Tensor((10, 4), dtype="float64")' in text


def test_a_product_in_another_dtype_gives_each_operand_its_own() -> None:
    arrays = [numbers(2, 3).astype(np.float32), numbers(3, 4, seed=1).astype(np.float32)]
    module = loss_module(lambda x, y: R.matmul(x, y, out_dtype="float64"), arrays)
    wide = [array.astype(np.float64) for array in arrays]
    found = gradients(module, arrays)
    expected = gradients(loss_module(R.matmul, wide), wide)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_product_of_unknown_rank_says_what_its_gradient_needs() -> None:
    types = [TensorType(None, "float64"), TensorType((3, 4), "float64")]
    module = loss_module(lambda x, y: R.sum(R.matmul(x, y)), [numbers(2, 3), numbers(3, 4)], types)
    with pytest.raises(GradientError, match=r"(?s)relax.matmul: the gradient needs the ranks.*match_cast"):
        Gradient("main")(module)


def test_a_linear_layer_has_the_gradient_of_both_oracles() -> None:
    arrays = numbers(2, 5, 3), numbers(4, 3, seed=1), numbers(4, seed=2)
    check_gradient(R.linear, *arrays, reference=torch.nn.functional.linear)
    check_second_order(lambda *x: R.tanh(R.linear(*x)), numbers(2, 3), numbers(4, 3), numbers(4))


def test_an_outer_product_has_the_gradient_of_both_oracles() -> None:
    check_gradient(R.outer, numbers(3), numbers(4), reference=torch.outer)
    check_second_order(R.outer, numbers(3), numbers(4), reference=torch.outer)


SUMS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(5, 2, 3), (5, 3, 4)],
    "ij->ji": [(2, 3)],
    "ij->": [(2, 3)],
    "ij->i": [(2, 3)],
    "ij,kl->il": [(2, 3), (4, 5)],
    "ii->i": [(3, 3)],
    "ii->": [(3, 3)],
    "iij,jk->ik": [(2, 2, 3), (3, 4)],
    "i,j,k->kji": [(2,), (3,), (4,)],
    "...ij,...jk->...ik": [(5, 1, 2, 3), (6, 3, 4)],
    "...i,i->...": [(2, 4, 3), (3,)],
    "ij,jk": [(2, 3), (3, 4)],
    "bqhd,bkhd->bhqk": [(2, 3, 2, 4), (2, 5, 2, 4)],
    "i...->...": [(2, 3, 4)],
}


@pytest.mark.parametrize("subscripts", SUMS)
def test_a_sum_of_products_has_the_gradient_of_both_oracles(subscripts: str) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(SUMS[subscripts])]
    check_gradient(lambda *x: R.einsum(x, subscripts), *arrays, reference=lambda *x: torch.einsum(subscripts, *x))


@pytest.mark.parametrize("shapes", [((1, 3), (3, 4)), ((2, 1), (3, 4)), ((2, 3), (1, 4))], ids=str)
def test_a_sum_of_products_sums_over_what_was_broadcast(shapes: tuple) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_gradient(lambda *x: R.einsum(x, "ij,jk->ik"), *arrays)


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ii->i", "ij,kl->il"])
def test_a_sum_of_products_can_be_differentiated_twice(subscripts: str) -> None:
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(SUMS[subscripts])]
    check_second_order(
        lambda *x: R.sin(R.einsum(x, subscripts)), *arrays, reference=lambda *x: torch.sin(torch.einsum(subscripts, *x))
    )


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_a_triangle_passes_the_gradient_of_what_it_keeps(name: str, k: int) -> None:
    x = numbers(2, 3, 5)
    check_gradient(lambda x: getattr(R, name)(x, k), x, reference=lambda x: getattr(torch, name)(x, k))
