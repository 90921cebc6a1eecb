"""einsum: values against NumPy and PyTorch, types over unknown and symbolic sizes, errors."""

import ml_dtypes
import numpy as np
import pytest
import torch

from regraft.ir import OpTypeError, SymVar, TensorType, Tuple
from regraft.op.primitive.einsum import einsum
from tests.kit import tensor
from tests.op.harness import check

CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("bij,bjk->bki", [(5, 2, 3), (5, 3, 4)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("ij->", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("...ij,...jk->...ik", [(6, 1, 2, 3), (5, 3, 4)]),
    ("...ij,jk", [(5, 2, 3), (3, 4)]),
    ("i...->...", [(2, 3, 4)]),
    ("ij, ij -> j", [(2, 3), (1, 3)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
]


def numbers(shape, dtype, seed):
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize(("subscripts", "shapes"), CASES)
def test_einsum_sums_products_as_numpy_does(subscripts, shapes, dtype):
    arrays = tuple(numbers(shape, dtype, seed) for seed, shape in enumerate(shapes))
    check(lambda t: einsum(t, subscripts), [arrays], np.asarray(np.einsum(subscripts, *arrays)))


def test_narrow_floats_are_summed_in_float32_and_bool_is_logical():
    ones = np.ones((2, 4096), "float16")
    check(lambda t: einsum(t, "ij,kj->ik"), [(ones, ones)], np.full((2, 2), 4096, "float16"))
    brain = ones[:, :512].astype(ml_dtypes.bfloat16)
    check(lambda t: einsum(t, "ij,kj->ik"), [(brain, brain)], np.full((2, 2), 512, ml_dtypes.bfloat16))
    x, y = numbers((3, 4), "float32", 0) > 0, numbers((4, 5), "float32", 1) > 1
    check(lambda t: einsum(t, "ij,jk->ik"), [(x, y)], np.matmul(x, y))


def test_einsum_reads_strided_operands():
    x, y = numbers((6, 4), "float32", 0)[::2].T, numbers((4, 5), "float32", 1)
    expected = torch.einsum("ji,jk->ki", torch.from_numpy(x.copy()), torch.from_numpy(y)).numpy()
    check(lambda t: einsum(t, "ji,jk->ki"), [(x, y)], expected)


def test_types_of_symbolic_and_unknown_operands():
    n, m = SymVar("n"), SymVar("m")
    assert einsum([tensor((n, 3)), tensor((3, m))], "ij,jk").ty == TensorType((n, m), "float32")
    assert einsum([tensor((n, 3)), tensor((m, 3))], "ij,ij->j").ty == TensorType((3,), "float32")
    assert einsum([tensor((n, 3)), tensor((m, 3))], "ij,ij->i").ty == TensorType(None, "float32", 1)
    assert einsum([tensor((n, 2, 3)), tensor((m, 3, 4))], "...ij,...jk->...ik").ty == TensorType(None, "float32", 3)
    assert einsum([tensor(), tensor((3, m))], "ij,jk->ki").ty == TensorType(None, "float32", 2)
    assert einsum([tensor(), tensor((3, m))], "i...,jk->i...").ty == TensorType(None, "float32")
    assert einsum(Tuple([tensor((2, 3), None)]), "ij->ji").ty == TensorType((3, 2), None)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: einsum([tensor((2,))], "i,j"), r"a term for each of the 1 operands, not 2"),
        (lambda: einsum([tensor((2,))], "i1"), r'letters, commas and "\.\.\."'),
        (lambda: einsum([tensor((2,))], "i->j"), r"labels of the operands, each at most once"),
        (lambda: einsum([tensor((2,))], "i->ii"), r"labels of the operands, each at most once"),
        (lambda: einsum([tensor((2,))], "i->..."), r"labels of the operands"),
        (lambda: einsum([tensor((2,))], "ij"), r"2 axes for 'ij', not the 1 of tensor 0"),
        (lambda: einsum([tensor((2,))], "ij..."), r"2 axes or more for 'ij\.\.\.'"),
        (
            lambda: einsum([tensor((2, 3)), tensor((4, 5))], "ij,jk"),
            r"size \(3,\) for 'j', as before, not \(4,\)",
        ),
        (lambda: einsum([tensor((2, 3))], "ii"), r"one size for 'i', which tensor 0 has twice, not 2 and 3"),
        (lambda: einsum([tensor((4,)), tensor((1, 4))], "i,ii"), r"one size for 'i', which tensor 1 has twice"),
        (lambda: einsum([tensor((2, 3, 4))], "i...->i"), r'"\.\.\." after "->" too: it stands for 2 axes'),
        (lambda: einsum([tensor((2,)), tensor((2,), "int8")], "i,i"), r"tensors of one dtype"),
        (lambda: einsum([], ""), r"one tensor or more"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
