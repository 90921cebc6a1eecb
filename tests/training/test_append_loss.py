"""A loss behind a model: results, states, sizes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft import training
from regraft.analysis import well_formed
from regraft.ir import SymVar, TensorType, assert_structural_equal
from regraft.script import ir as I
from regraft.script import relax as R

PAIR = TensorType((2, 4), "float32")


def test_the_result_is_one_block_that_predicts_and_then_judges() -> None:
    @I.ir_module
    class Before:
        @R.function
        def predict(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                out = R.add(x, y)
                R.output(out)
            return out

    @R.function
    def predict_loss(
        x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32"), targets: R.Tensor((2, 4), "float32")
    ):
        with R.dataflow():
            out = R.add(x, y)
            lv = R.subtract(out, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.sum(lv1)
            R.output(gv)
        return gv

    after = training.AppendLoss("predict", training.MSELoss("sum")(PAIR, PAIR))(Before)
    well_formed(after)
    assert after["predict"] is Before["predict"]
    assert_structural_equal(after["predict_loss"], predict_loss)
    assert [param.name_hint for param in after["predict_loss"].params] == ["x", "y", "targets"]


@pytest.mark.parametrize("as_variable", [False, True])
def test_results_after_the_predictions_come_after_the_loss(as_variable: bool) -> None:
    @R.function
    def several(x: R.Tensor((2, 4), "float32"), state: R.Tensor((), "float32")):
        with R.dataflow():
            out = R.sin(x)
            new = R.add(state, R.sum(out))
            R.output(out, new)
        return out, new

    @R.function
    def one(x: R.Tensor((2, 4), "float32"), state: R.Tensor((), "float32")):
        with R.dataflow():
            out = R.sin(x)
            both = (out, R.add(state, R.sum(out)))
            R.output(both)
        return both

    appended = training.append_loss(one if as_variable else several, training.L1Loss()(PAIR, PAIR))
    module = rx.IRModule({"main": appended})
    well_formed(module)
    x, targets = np.ones((2, 4), "float32"), np.zeros((2, 4), "float32")
    loss, state = rx.build(module, target="numpy")["main"](x, np.float32(2), targets)
    np.testing.assert_allclose(loss, np.sin(1), rtol=1e-6)
    np.testing.assert_allclose(state, 2 + 8 * np.sin(1), rtol=1e-6)


def test_a_model_that_returns_what_it_gets_can_be_judged() -> None:
    @R.function
    def unchanged(x: R.Tensor((2, 4), "float32"), state: R.Tensor((), "float32")):
        return x, state

    appended = training.append_loss(unchanged, training.L1Loss("sum")(PAIR, PAIR))
    loss, state = rx.build(appended, target="numpy")["main"](
        np.ones((2, 4), "float32"), np.float32(2), np.zeros((2, 4), "float32")
    )
    assert (float(loss), float(state)) == (8.0, 2.0)


def test_sizes_of_the_loss_become_those_of_the_model() -> None:
    @R.function
    def model(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            out = R.sin(x)
            R.output(out)
        return out

    m = SymVar("m")
    loss = training.MSELoss()(TensorType((m, 4), "float32"), TensorType((m, 4), "float32"))
    appended = training.append_loss(model, loss)
    assert appended.params[1].ty.shape == appended.params[0].ty.shape
    well_formed(rx.IRModule({"main": appended}))


def test_what_does_not_fit_is_named() -> None:
    @I.ir_module
    class Model:
        @R.function
        def plain(x: R.Tensor((2, 4), "float32")):
            y = R.sin(x)
            return y

        @R.function
        def predict(x: R.Tensor((2, 5), "float32")):
            with R.dataflow():
                y = R.sin(x)
                R.output(y)
            return y

    loss = training.MSELoss()(PAIR, PAIR)
    with pytest.raises(
        training.TrainingError, match=r"the model has bindings outside of dataflow blocks.*ConvertToDataflow"
    ):
        training.append_loss(Model["plain"], loss)
    with pytest.raises(training.TrainingError, match=r"takes predictions of type .*2, 4.*but the model gives .*2, 5"):
        training.append_loss(Model["predict"], loss)
    with pytest.raises(training.TrainingError, match="the loss has 2 predictions; the model has 1 results"):
        training.append_loss(Model["predict"], loss, 2)
    with pytest.raises(training.TrainingError, match="there is no function 'main'; there are: plain, predict"):
        training.AppendLoss("main", loss)(Model)
