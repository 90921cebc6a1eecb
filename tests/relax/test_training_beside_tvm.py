"""Losses, optimizers and trainers are written as Relax writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from .questions import assert_same_answer

pytestmark = pytest.mark.filterwarnings("ignore")


def _tensor(p: Any, *sizes: int, dtype: str = "float32") -> Any:
    return p.relax.TensorType(sizes, dtype)


LOSSES: Final[dict[str, Callable[[Any], Any]]] = {
    **{
        f"{name}, {how}": lambda p, name=name, how=how: getattr(p.training.loss, name)(how)(
            _tensor(p, 3, 5), _tensor(p, 3, 5)
        )
        for name in ("L1Loss", "MSELoss")
        for how in ("none", "mean", "sum")
    },
    **{
        f"CrossEntropyLoss, {how}": lambda p, how=how: p.training.loss.CrossEntropyLoss(how)(
            _tensor(p, 3, 5), _tensor(p, 3, dtype="int64")
        )
        for how in ("none", "mean", "sum")
    },
    "weighted": lambda p: p.training.loss.CrossEntropyLoss("sum")(
        _tensor(p, 3, 5), _tensor(p, 3, dtype="int64"), _tensor(p, 5)
    ),
    "without a batch": lambda p: p.training.loss.CrossEntropyLoss("mean")(_tensor(p, 5), _tensor(p, dtype="int64")),
    "with classes that are ignored": lambda p: p.training.loss.CrossEntropyLoss("mean", ignore_index=2)(
        _tensor(p, 3, 5), _tensor(p, 3, dtype="int64")
    ),
    "of an unknown reduction": lambda p: p.training.loss.L1Loss("most")(_tensor(p, 3, 5), _tensor(p, 3, 5)),
}


@pytest.mark.parametrize("title", LOSSES)
def test_a_loss_is_relaxs(title: str) -> None:
    assert_same_answer(LOSSES[title])


OPTIMIZERS: Final[dict[str, Callable[[Any], Any]]] = {
    "SGD": lambda o: o.SGD(0.01),
    "SGD, decayed": lambda o: o.SGD(0.01, 0.02),
    "MomentumSGD": lambda o: o.MomentumSGD(0.01, 0.9),
    "MomentumSGD, dampened and decayed": lambda o: o.MomentumSGD(0.01, 0.9, 0.85, 0.02, False),
    "MomentumSGD, nesterov": lambda o: o.MomentumSGD(0.01, 0.9, 0.85, 0.02, True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("title", OPTIMIZERS)
def test_a_step_of_an_optimizer_is_relaxs(title: str, dtype: str) -> None:
    def asked(p: Any) -> Any:
        params = [p.relax.Var("x", _tensor(p, 3, 3, dtype=dtype)), p.relax.Var("y", _tensor(p, 3, dtype=dtype))]
        return OPTIMIZERS[title](p.training.optimizer).init(params).get_function()

    assert_same_answer(asked)


@pytest.mark.parametrize("title", OPTIMIZERS)
def test_the_first_states_are_relaxs(title: str) -> None:
    def asked(p: Any) -> Any:
        optimizer = OPTIMIZERS[title](p.training.optimizer).init([p.relax.Var("x", _tensor(p, 2))])
        return [state.tolist() if hasattr(state, "tolist") else state.numpy() for state in optimizer.state]

    assert_same_answer(asked)


_WRONG: Final[dict[str, Callable[[Any], list[Any]]]] = {
    "twice": lambda p: [p.relax.Var("x", _tensor(p, 2))] * 2,
    "integers": lambda p: [p.relax.Var("x", _tensor(p, 2, dtype="int64"))],
    "two dtypes": lambda p: [p.relax.Var(name, _tensor(p, 2, dtype=name)) for name in ("float32", "float16")],
}


@pytest.mark.parametrize("title", _WRONG)
def test_parameters_that_relax_refuses_are_refused(title: str) -> None:
    assert_same_answer(lambda p: p.training.optimizer.SGD(0.1).init(_WRONG[title](p)).get_function())


MODEL: Final = """
def main(x: f32[2, 4], w: f32[4, 3], b: f32[3]) -> f32[2, 3]:
    with flow:
        lv = R.matmul(x, w)
        out = R.add(lv, b)
        R.output(out)
    return out
"""
MORE: Final = """
def main(x: f32[2, 4], w: f32[4, 3], b: f32[3]) -> R.Tuple(f32[2, 3], f32[3], f32[4, 3]):
    with flow:
        lv = R.matmul(x, w)
        out = R.add(lv, b)
        b1 = R.add(b, b)
        w1 = R.multiply(w, w)
        R.output(out, b1, w1)
    return out, b1, w1
"""


def _of_two(p: Any) -> Any:
    """A loss of two predictions, written by hand."""
    builder = p.BlockBuilder()
    params = [p.relax.Var("a", _tensor(p, 2, 3)), p.relax.Var("b", _tensor(p, 3)), p.relax.Var("c", _tensor(p, 2, 3))]
    a, b, c = params
    with builder.function("loss", params):
        with builder.dataflow():
            difference = builder.emit(p.op.subtract(builder.emit(p.op.add(a, b)), c))
            result = builder.emit_output(p.op.sum(difference))
        builder.emit_func_output(result)
    return builder.get()["loss"]


def _mse(p: Any) -> Any:
    return p.training.loss.MSELoss("sum")(_tensor(p, 2, 3), _tensor(p, 2, 3))


APPENDED: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "one prediction": (MODEL, lambda p: p.training.AppendLoss("main", _mse(p))),
    "a name": (MODEL, lambda p: p.training.AppendLoss("main", _mse(p), 1, "judged")),
    "further results": (MORE, lambda p: p.training.AppendLoss("main", _mse(p), 1)),
    "two predictions": (MORE, lambda p: p.training.AppendLoss("main", _of_two(p), 2)),
    "a function that is not there": (MODEL, lambda p: p.training.AppendLoss("other", _mse(p))),
    "a loss of other sizes": (
        MODEL,
        lambda p: p.training.AppendLoss("main", p.training.loss.L1Loss()(_tensor(p, 2, 5), _tensor(p, 2, 5))),
    ),
}


@pytest.mark.parametrize("title", APPENDED)
def test_a_loss_is_appended_as_in_relax(title: str) -> None:
    text, loss = APPENDED[title]
    assert_same_answer(lambda p: loss(p)(p.read(text)))
