"""Losses, optimizers and trainers are written as Relax writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from regraft.training import SGD, MSELoss, SetupTrainer, Trainer

from .questions import HERE, assert_same_answer

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


def _huber(p: Any, reduction: str) -> Any:
    """A loss written for Relax, which builds its program itself."""

    class Huber(p.training.loss.Loss):
        def __init__(self) -> None:
            super().__init__("huber", 1, reduction)

        def __call__(self, predictions: Any, targets: Any) -> Any:
            builder = p.BlockBuilder()
            params = [p.relax.Var("predictions", predictions), p.relax.Var("targets", targets)]
            with builder.function(self._loss_name, params):
                with builder.dataflow():
                    distance = p.op.abs(builder.emit(p.op.subtract(*params)))
                    result = builder.emit_output(self._with_reduction(builder.emit(distance)))
                builder.emit_func_output(result)
            return builder.get()[self._loss_name]

    return Huber()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "most"])
def test_a_loss_written_for_relax_is_the_same_program(reduction: str) -> None:
    def asked(p: Any) -> Any:
        loss = _huber(p, reduction)
        return loss.num_backbone_outputs, loss(_tensor(p, 2, 3), _tensor(p, 2, 3))

    assert_same_answer(asked)


def _sign(p: Any, params: list[Any]) -> Any:
    """An optimizer written for Relax, which builds its program itself and holds its states."""

    class Sign(p.training.optimizer.Optimizer):
        def __init__(self) -> None:
            super().__init__("Sign")

        def init(self, params: list[Any]) -> Any:
            self._set_params_and_dtype(params)
            self.state = (np.array([1, 2], "int64"),)
            return self

        def get_function(self) -> Any:
            self._check_init()
            builder, rx = p.BlockBuilder(), p.relax
            kinds = rx.TupleType([param.ty for param in self.param_list])
            states = rx.Var("states", rx.TupleType([_tensor(p, 2, dtype="int64")]))
            given = [rx.Var("params", kinds), rx.Var("gradients", kinds), states]
            with builder.function(self.name, given):
                with builder.dataflow():
                    step = p.op.sign(rx.TupleGetItem(given[1], 0))
                    new = builder.emit(p.op.subtract(rx.TupleGetItem(given[0], 0), step))
                    result = builder.emit_output(rx.Tuple([rx.Tuple([new]), states]))
                builder.emit_func_output(result)
            return builder.get()[self.name]

    return Sign().init(params)


def test_an_optimizer_written_for_relax_is_the_same_program() -> None:
    def asked(p: Any) -> Any:
        made = _sign(p, [p.relax.Var("x", _tensor(p, 2))])
        return str(made.dtype), list(made.state), made.get_function()

    assert_same_answer(asked)


@pytest.mark.parametrize("title", OPTIMIZERS)
def test_parameters_of_unknown_sizes_are_taken_and_refused_alike(title: str) -> None:
    def asked(p: Any) -> Any:
        n = p.T.Var("n", "int64") if hasattr(p.T, "Var") else p.relax.SymVar("n")
        params = [p.relax.Var("x", p.relax.TensorType((n, 2), "float32"))]
        return OPTIMIZERS[title](p.training.optimizer).init(params).get_function()

    assert_same_answer(asked)


def test_an_optimizer_without_parameters_is_refused() -> None:
    assert_same_answer(lambda p: p.training.optimizer.SGD(0.1).get_function())
    assert_same_answer(lambda p: p.training.optimizer.SGD(0.1).state)
    for kind in (RuntimeError, ValueError):
        with pytest.raises(kind, match="call init with the parameters"):
            SGD(0.1).get_function()


def test_a_tuple_expression_is_no_list_of_parameters() -> None:
    assert_same_answer(lambda p: p.training.optimizer.SGD(0.1).init(p.relax.Tuple([p.relax.Var("x", _tensor(p, 2))])))


BACKBONE: Final = """
@I.ir_module
class Module:
    I.module_attrs({"param_num": 2, "state_num": 0})
    @R.function
    def backbone(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((3,), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            out = R.add(lv, b)
            R.output(out)
        return out
"""
STATEFUL: Final = """
@I.ir_module
class Module:
    I.module_attrs({"param_num": 1, "state_num": 1})
    @R.function
    def backbone(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32"), seen: R.Tensor((3,), "float32")):
        with R.dataflow():
            out = R.multiply(x, w)
            after = R.add(seen, w)
            R.output(out, after)
        return out, after
"""


@pytest.mark.parametrize("optimizer", ["SGD", "MomentumSGD, nesterov"])
@pytest.mark.parametrize("text", [BACKBONE, STATEFUL])
def test_a_module_is_set_up_for_training_as_in_relax(text: str, optimizer: str) -> None:
    def asked(p: Any) -> Any:
        kind = _tensor(p, 2, 3)
        loss, how = p.training.loss.MSELoss("sum"), OPTIMIZERS[optimizer](p.training.optimizer)
        module = p.training.SetupTrainer(loss, how, [kind, kind], legalize=False)(p.read(text))
        found = module.without_attr("optim_state")
        return found, len(module.attrs["optim_state"]), sorted(module.attrs.keys())

    assert_same_answer(asked)


def test_states_of_an_optimizer_written_for_relax_reach_the_trainer() -> None:
    text = BACKBONE.replace('"param_num": 2', '"param_num": 1')

    class Halves(SGD):
        def init(self, params: Any) -> Any:
            self._set_params_and_dtype(params)
            self.state = (np.array(7),)
            return self

    kind = HERE.relax.TensorType((2, 3), "float32")
    module = SetupTrainer(MSELoss("sum"), Halves(0.5), [kind, kind])(HERE.read(text))
    trainer = Trainer(HERE.relax.parse(module.script()), target="numpy")
    trainer.load_params([np.ones(3, "float32")])
    trainer.update([np.zeros((2, 4), "float32"), np.zeros((4, 3), "float32")], np.zeros((2, 3), "float32"))
    assert trainer.num_steps == 8
    np.testing.assert_array_equal(trainer.export_params()["b"], np.full(3, -1.0))
