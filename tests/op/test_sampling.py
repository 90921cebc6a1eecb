"""Drawing from a distribution, given the random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError, TensorType
from tests.op.harness import check, evaluate, variable
from tests.op.samples import N, tensor, type_of


def test_a_uniform_number_draws_the_first_outcome_whose_running_sum_exceeds_it():
    prob = np.array([[0.25, 0.25, 0.5], [0.0, 0.75, 0.25]], "float32")
    uniform = np.array([[0.1], [0.25], [0.6], [0.0], [0.9], [1.0]], "float32")
    rows = np.array([[0], [0], [0], [1], [1], [0]])
    expected = np.array([[0], [1], [2], [1], [2], [2]])
    check(R.multinomial_from_uniform, [prob, uniform, rows], expected)
    check(lambda *v: R.multinomial_from_uniform(*v, "int32"), [prob, uniform, rows], expected.astype("int32"))


def test_drawn_outcomes_have_the_frequencies_of_their_row():
    generator = np.random.default_rng(7)
    prob = generator.dirichlet(np.ones(5), 3).astype("float16")
    uniform = generator.random((60000, 1)).astype("float32")
    rows = np.repeat(np.arange(3), 20000)[:, None]
    call = R.multinomial_from_uniform(variable(prob), variable(uniform), variable(rows))
    drawn = evaluate(call, dict(zip(call.args, (prob, uniform, rows), strict=True)))
    for row in range(3):
        frequency = np.bincount(drawn[rows == row], minlength=5) / 20000
        np.testing.assert_allclose(frequency, prob[row], atol=0.02)


def test_types_of_drawn_outcomes():
    prob = TensorType((N, 5), "float32")
    drawn = type_of(R.multinomial_from_uniform, prob, TensorType((3, 1), "float32"), TensorType(None, "int64"))
    assert drawn == TensorType((3, 1), "int64")
    assert type_of(R.multinomial_from_uniform, *[TensorType(dtype=None)] * 3) == TensorType(None, "int64", 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.multinomial_from_uniform(tensor((2,)), x, x), r"argument prob is .*a tensor of rank 2"),
        (lambda x: R.multinomial_from_uniform(x, x, x), r"argument uniform_sample is .*shape \(n, 1\)"),
        (
            lambda x: R.multinomial_from_uniform(x, tensor((4, 1)), tensor((5, 1), "int64")),
            r"argument sample_indices is .*as many rows as uniform_sample has, 4",
        ),
        (
            lambda x: R.multinomial_from_uniform(x, tensor((4, 1)), tensor((4, 1))),
            r"argument sample_indices is .*expected integers",
        ),
        (
            lambda x: R.multinomial_from_uniform(x, tensor((4, 1)), tensor((4, 1), "int64"), "float32"),
            r"multinomial_from_uniform: dtype='float32'; expected an integer dtype",
        ),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
