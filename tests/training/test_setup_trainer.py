"""The additions of `SetupTrainer` to a module, and its refusals."""

from __future__ import annotations

import pytest

from regraft import training
from regraft.analysis import well_formed
from regraft.ir import IRModule
from regraft.script import ir as I
from regraft.script import relax as R
from tests.training.models import LABELS, LOGITS, ConvolutionalNet, Perceptron


def setup(optimizer: training.Optimizer | None = None) -> training.SetupTrainer:
    optimizer = optimizer or training.SGD(0.1)
    return training.SetupTrainer(training.CrossEntropyLoss(), optimizer, [LOGITS, LABELS])


def test_a_module_gets_loss_gradient_and_optimizer() -> None:
    after = setup()(Perceptron)
    well_formed(after)
    assert list(after) == ["backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"]
    assert after["backbone"] is Perceptron["backbone"]
    assert dict(after.attrs) == {
        "param_num": 4,
        "state_num": 0,
        "input_num": 1,
        "optim_state": (("int64", (), 0),),
    }
    assert [param.name_hint for param in after["backbone_loss"].params] == ["x", "w1", "b1", "w2", "b2", "targets"]
    gradients = after["backbone_loss_adjoint"].ret_ty.fields[1].fields
    assert list(gradients) == [param.ty for param in Perceptron["backbone"].params[1:]]
    assert all(after[name].name == name for name in after)


def test_batch_norms_use_the_batch_in_training_only() -> None:
    after = setup()(ConvolutionalNet)
    well_formed(after)
    assert "training=False" in after["backbone"].script()
    assert "training=True" not in after["backbone"].script()
    assert "training=False" not in after["backbone_loss"].script()
    assert [str(ty) for ty in after["backbone_loss"].ret_ty.fields[1:]] == [
        str(param.ty) for param in ConvolutionalNet["backbone"].params[-2:]
    ]


def test_the_text_of_a_trainable_module_parses_back() -> None:
    import regraft as rx
    from regraft.ir import assert_structural_equal

    after = setup(training.Adam(0.1))(Perceptron)
    assert_structural_equal(rx.parse(after.script()), after)


@I.ir_module
class Other:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Other, "the module has no function 'backbone'; it has: main"),
        (IRModule(Perceptron.functions), r"attribute param_num is None; expected how many .*I.module_attrs"),
        (IRModule(Perceptron.functions, {"param_num": 2, "state_num": -1}), "attribute state_num is -1"),
        (
            IRModule(Perceptron.functions, {"param_num": 4, "state_num": 2}),
            "backbone has 5 parameters, of which param_num=4",
        ),
        (IRModule(Perceptron.functions, {"param_num": 0, "state_num": 0}), "param_num=0 and state_num=0.*at least 1"),
        (
            IRModule(Perceptron.functions, {"param_num": 4, "state_num": 1}),
            "expected a tuple of predictions and then the 1",
        ),
    ],
)
def test_a_module_of_another_form_is_refused_with_what_is_missing(module: IRModule, message: str) -> None:
    with pytest.raises(training.TrainingError, match=message):
        setup()(module)


def test_a_function_alone_is_refused() -> None:
    with pytest.raises(training.TrainingError, match="works on a module with a function 'backbone'"):
        setup()(Perceptron["backbone"])
