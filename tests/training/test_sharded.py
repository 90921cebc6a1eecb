"""Training on XLA: NumPy's losses on one device and on every mesh, the traffic of the formulas, memory that is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.ir import TensorType
from regraft.run import BuildError, Mesh, TypeCheckError
from regraft.run.externs import register_func, remove_global_func
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.training import SGD, Adam, CrossEntropyLoss, MomentumSGD, SetupTrainer, Trainer, TrainingError
from regraft.training.train_step import owners
from tests.op.on_xla import OPTIONS
from tests.training.models import LABELS, LOGITS, ConvolutionalNet, Perceptron

RANDOM = np.random.default_rng(0)
BATCHES = [
    (RANDOM.normal(size=(16, 64)).astype("float32"), RANDOM.integers(0, 10, 16).astype("int64")) for _ in range(4)
]
PAIR = {"w1": (None, "model"), "b1": ("model",), "w2": ("model", None)}
FULLY = {"w1": ("data", None), "w2": ("data", None), "b1": ("data",)}
BY_BATCH = {"x": ("data",), "targets": ("data",)}
FAST = {"compiler_options": OPTIONS}
GRADIENTS = (64 * 48 + 48 + 48 * 10 + 10) * 4


def setup(model: Any = Perceptron, optimizer: Any = None) -> Any:
    return SetupTrainer(CrossEntropyLoss(), optimizer or Adam(0.01), [LOGITS, LABELS])(model)


def losses(trainer: Trainer) -> list[float]:
    trainer.xavier_uniform_init_params(seed=1)
    return [float(np.asarray(trainer.update(*batch))) for batch in BATCHES]


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return losses(Trainer(setup(), target="numpy"))


def test_a_step_is_one_program_that_updates_in_place(expected: list[float]) -> None:
    trainer = Trainer(setup(), target="xla", options=FAST)
    np.testing.assert_allclose(losses(trainer), expected, atol=2e-6)
    assert trainer.num_steps == 4
    report = trainer.vm.report("train_step")["train_step"]  # type: ignore[union-attr]
    # parameters and Adam's two moments of each, and its three numbers of the step
    assert report.aliased >= 3 * GRADIENTS
    assert trainer.vm.compilations["backbone"] == 0  # type: ignore[union-attr]
    assert np.asarray(trainer.predict(BATCHES[0][0])).shape == (16, 10)


@pytest.mark.parametrize(
    ("mesh", "shardings"),
    [
        (Mesh(data=8, model=1), {}),
        (Mesh(data=1, model=2), PAIR),
        (Mesh(data=2, model=2), PAIR),
        (Mesh(data=8), FULLY),
    ],
    ids=["data parallel", "tensor parallel", "both", "fully sharded"],
)
def test_losses_are_those_of_one_device_and_traffic_is_that_of_the_plan(
    mesh: Mesh, shardings: dict[str, Any], expected: list[float]
) -> None:
    trainer = Trainer(setup(), target="xla", mesh=mesh, shardings=shardings, inputs=BY_BATCH, options=FAST)
    np.testing.assert_allclose(losses(trainer), expected, atol=2e-6)
    report = trainer.vm.report("train_step")["train_step"]  # type: ignore[union-attr]
    assert trainer.vm.compilations["train_step"] == 1  # type: ignore[union-attr]
    if not shardings:
        # the gradients, once, and the loss
        assert set(report.counts) == {"all-reduce"}
        assert GRADIENTS <= report.collective_bytes <= GRADIENTS + 64
    if shardings is FULLY:
        whole = 3 * GRADIENTS + 16 * 64 * 4 + 16 * 8
        assert report.arguments < whole / 8 + 400
    exported = trainer.export_params()
    assert exported["w1"].shape == (64, 48)


def test_states_of_the_model_are_carried_along() -> None:
    found = [losses(Trainer(setup(ConvolutionalNet, MomentumSGD(0.05, 0.9)), target="numpy"))]
    trainer = Trainer(setup(ConvolutionalNet, MomentumSGD(0.05, 0.9)), target="xla", options=FAST)
    found.append(losses(trainer))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    assert not np.array_equal(trainer.export_states()["mean"], np.zeros(8))


@pytest.mark.parametrize(("optimizer", "shared"), [(SGD(0.1), 1), (MomentumSGD(0.1, 0.9), 1), (Adam(0.1), 3)])
def test_what_an_optimizer_keeps_of_a_parameter_is_known(optimizer: Any, shared: int) -> None:
    module = setup(Perceptron, optimizer)
    params = module["backbone_loss_adjoint"].params[1:5]
    kept = module["optimizer"].params[2].ty.fields
    found = owners(params, kept)
    assert found[:shared] == [None] * shared
    assert found[shared:] == [0, 1, 2, 3] * ((len(kept) - shared) // 4)
    odd = [TensorType((3,), "float32")] * 5
    assert owners(params, odd) == [None] * 5


def test_shardings_that_fit_nothing_and_other_engines_are_refused() -> None:
    with pytest.raises(BuildError, match='"w3" is none of 4 tensors'):
        Trainer(setup(), target="xla", mesh=Mesh(data=2), shardings={"w3": ("data",)})
    with pytest.raises(TrainingError, match="mesh, shardings and inputs are for target='xla'"):
        Trainer(setup(), target="numpy", mesh=Mesh(data=2))


# --- checkpoints


@pytest.mark.parametrize("target", ["numpy", "torch", "xla", "another mesh"])
def test_training_goes_on_from_a_checkpoint_on_another_mesh_or_on_none(target: str, tmp_path: Path) -> None:
    first = Trainer(setup(), target="xla", mesh=Mesh(data=4, model=2), shardings=PAIR, inputs=BY_BATCH, options=FAST)
    losses(first)
    first.save_checkpoint(tmp_path)
    if target == "another mesh":
        again = Trainer(setup(), target="xla", mesh=Mesh(data=2), shardings=FULLY, inputs=BY_BATCH, options=FAST)
    else:
        again = Trainer(setup(), target=target, options=FAST if target == "xla" else None)
    again.load_checkpoint(tmp_path)
    assert again.num_steps == 4
    for name, value in first.export_params().items():
        np.testing.assert_array_equal(value, again.export_params()[name])
    one, other = [float(np.asarray(trainer.update(*BATCHES[0]))) for trainer in (first, again)]
    assert abs(one - other) < 2e-6


def test_a_checkpoint_of_another_model_or_optimizer_changes_nothing(tmp_path: Path) -> None:
    saved = Trainer(setup(ConvolutionalNet), target="numpy")
    saved.xavier_uniform_init_params(seed=1)
    saved.save_checkpoint(tmp_path)
    other = Trainer(setup(), target="numpy")
    other.xavier_uniform_init_params(seed=2)
    before = other.export_params()
    with pytest.raises(TrainingError, match="is of another model or optimizer: param w1 is float32"):
        other.load_checkpoint(tmp_path)
    for name, value in other.export_params().items():
        np.testing.assert_array_equal(value, before[name])
    plain = Trainer(setup(Perceptron, SGD(0.1)), target="numpy")
    plain.save_checkpoint(tmp_path / "plain")
    with pytest.raises(TrainingError, match=r"optimizer 1 is .*; it does not have it"):
        other.load_checkpoint(tmp_path / "plain")


# --- steps that fail


@I.ir_module
class LooksOutside:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function
    def backbone(x: R.Tensor((16, 64), "float32"), w: R.Tensor((64, 10), "float32")):
        with R.dataflow():
            seen = R.grad.no_grad(R.call_pure_packed("test.look", x, sinfo_args=R.Tensor((16, 64), "float32")))
            logits = R.matmul(seen, w)
            R.output(logits)
        return logits


def test_a_step_that_fails_before_it_runs_changes_nothing() -> None:
    trainer = Trainer(setup(), target="xla", options=FAST)
    first = losses(trainer)
    with pytest.raises(TypeCheckError, match="axis 1 is 63; expected 64"):
        trainer.update(BATCHES[0][0][:, :63], BATCHES[0][1])
    assert trainer.num_steps == 4
    assert float(np.asarray(trainer.update(*BATCHES[0]))) < first[0]


def test_a_step_that_fails_while_it_runs_says_what_is_lost_and_a_checkpoint_brings_it_back(tmp_path: Path) -> None:
    def look(x: np.ndarray) -> np.ndarray:
        if x[0, 0] == 0:
            raise ValueError("the first feature is 0")
        return x

    register_func("test.look", look)
    bad = BATCHES[0][0].copy()
    bad[0, 0] = 0
    try:
        trainer = Trainer(setup(LooksOutside), target="xla", options=FAST)
        before = losses(trainer)
        trainer.save(tmp_path / "state.npz")
        trainer.save_checkpoint(tmp_path / "steps")
        for restore in (
            lambda: trainer.load(tmp_path / "state.npz"),
            lambda: trainer.load_checkpoint(tmp_path / "steps"),
        ):
            with pytest.raises(
                TrainingError, match=r"a step failed \(.*the first feature is 0.*go on from the last saved"
            ):
                trainer.train([BATCHES[1], (bad, BATCHES[0][1])], save_to=tmp_path / "other.npz")
            for use in (lambda: trainer.predict(bad), trainer.export_params, lambda: trainer.update(*BATCHES[0])):
                with pytest.raises(TrainingError, match="they are gone; go on from the last saved ones"):
                    use()
            assert not (tmp_path / "other.npz").exists()
            restore()
            assert trainer.num_steps == 4
            assert float(np.asarray(trainer.update(*BATCHES[0]))) < before[0]
    finally:
        remove_global_func("test.look")
