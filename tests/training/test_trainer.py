"""Running a trainer: parameters and states, steps, files, and what happens when something breaks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import training
from regraft.training import state_file
from tests.kit import assert_close
from tests.training.models import LABELS, LOGITS, ConvolutionalNet, Perceptron, batches, digits


def trainer(module: Any = Perceptron, optimizer: Any = None, target: str = "numpy", **options: Any) -> training.Trainer:
    optimizer = optimizer or training.Adam(0.01)
    made = training.SetupTrainer(training.CrossEntropyLoss(), optimizer, [LOGITS, LABELS])(module)
    return training.Trainer(made, target=target, **options)


def some_batches(count: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    images, labels, *_ = digits()
    return batches(images, labels, 20)[:count]


def test_parameters_start_as_zeros_or_at_random() -> None:
    made = trainer()
    assert not any(array.any() for array in made.export_params().values())
    made.xavier_uniform_init_params(seed=3)
    found = made.export_params()
    limit = np.sqrt(6 / (64 + 48))
    assert 0.95 * limit < np.abs(found["w1"]).max() < limit
    assert not found["b1"].any()
    made.xaiver_uniform_init_params(seed=3)
    for name, array in made.export_params().items():
        np.testing.assert_array_equal(array, found[name])


def test_what_is_exported_is_a_copy_that_can_be_loaded_in_order_or_by_name() -> None:
    made, other = trainer(), trainer()
    made.xavier_uniform_init_params(seed=1)
    found = made.export_params()
    other.load_params(list(found.values()))
    found["w1"][:] = 7
    assert made.export_params()["w1"].max() < 1
    other.load_params({"w2": np.ones((48, 10), "float32")})
    assert (other.export_params()["w2"] == 1).all()
    np.testing.assert_array_equal(other.export_params()["w1"], made.export_params()["w1"])


def test_nothing_runs_before_all_parameters_are_set() -> None:
    made = trainer(zero_init_param_state=False)
    with pytest.raises(training.TrainingError, match="parameter w1 is not set; set it first, as with load_params"):
        made.predict(np.zeros((2, 64), "float32"))


def test_a_trainer_without_parameters_goes_on_from_a_file_or_a_checkpoint(tmp_path: Path) -> None:
    made = trainer()
    made.xavier_uniform_init_params(seed=1)
    made.update(*some_batches(1)[0])
    made.save(tmp_path / "state.npz")
    made.save_checkpoint(tmp_path / "steps")
    for load, place in ((training.Trainer.load, "state.npz"), (training.Trainer.load_checkpoint, "steps")):
        again = trainer(zero_init_param_state=False)
        load(again, tmp_path / place)
        assert again.num_steps == 1
        for name, array in made.export_params().items():
            np.testing.assert_array_equal(again.export_params()[name], array)


def test_a_trained_model_predicts_with_its_moving_statistics() -> None:
    made = trainer(ConvolutionalNet, training.MomentumSGD(0.02, 0.9))
    made.xavier_uniform_init_params(seed=0)
    made.load_params({"gamma": np.ones(8, "float32")})
    made.train(some_batches())
    images = some_batches()[0][0]
    whole = made.predict(images)
    assert whole.shape == (20, 10)
    # Alone, an image gets what it gets among others: nothing depends on the batch.
    assert_close(made.predict(images[:1]), whole[:1])
    assert made.export_states()["mean"].any()


def test_a_trainer_takes_a_module_that_is_built_already() -> None:
    module = trainer().mod
    for vm in (rx.build(module), rx.VirtualMachine(rx.build(module), "cpu")):
        made = training.Trainer(module, vm, "cpu")
        made.xavier_uniform_init_params(seed=0)
        assert len(made.train(some_batches(2))) == 2
    with pytest.raises(training.TrainingError, match="target='numpy' and a module that is built already"):
        training.Trainer(module, rx.build(module), target="numpy")


@pytest.mark.parametrize("module", [Perceptron, ConvolutionalNet])
def test_a_step_that_pytorch_compiles_is_one_program_and_gives_the_same(module: Any, tmp_path: Path) -> None:
    plain, compiled = trainer(module), trainer(module, target="torch", options={"compile": "aot_eager"})
    assert "train_step" in compiled.vm
    for made in (plain, compiled):
        made.xavier_uniform_init_params(seed=0)
    steps = some_batches()
    np.testing.assert_allclose(compiled.train(steps[:3]), plain.train(steps[:3]), rtol=1e-4)
    compiled.save(tmp_path / "state.npz")
    with pytest.raises(rx.engine.TypeCheckError):
        compiled.update(steps[3][0][:, :3], steps[3][1])
    again = trainer(module, target="torch", options={"compile": "aot_eager"})
    again.load(tmp_path / "state.npz")
    expected = plain.train(steps[3:])
    for made in (compiled, again):
        np.testing.assert_allclose(made.train(steps[3:]), expected, rtol=1e-4)
    for name, array in plain.export_params().items():
        assert_close(compiled.export_params()[name], array)


# --- files


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    for module in (Perceptron, ConvolutionalNet):
        whole, first, second = trainer(module), trainer(module), trainer(module)
        for made in (whole, first):
            made.xavier_uniform_init_params(seed=0)
        steps = some_batches()
        expected = whole.train(steps)
        first.train(steps[:3])
        first.save(tmp_path / "state.npz")
        second.load(tmp_path / "state.npz")
        assert second.num_steps == 3
        assert second.train(steps[3:]) == expected[3:]


@pytest.mark.parametrize("moment", ["savez", "fsync", "replace"])
def test_a_save_that_is_interrupted_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    made = trainer()
    made.xavier_uniform_init_params(seed=0)
    path = tmp_path / "state.npz"
    made.save(path)
    before = path.read_bytes()
    made.train(some_batches(2))

    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np if moment == "savez" else os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["state.npz"]


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer()
    made.save(tmp_path / "state.npz")
    before = (tmp_path / "state.npz").read_bytes()

    def full(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(training.TrainingError, match=r"state.npz cannot be written: No space left.*is unchanged"):
        made.save(tmp_path / "state.npz")
    assert (tmp_path / "state.npz").read_bytes() == before
    with pytest.raises(training.TrainingError, match="cannot be written: No such file"):
        made.save(tmp_path / "nowhere" / "state.npz")


def test_an_interrupted_run_is_saved_at_its_last_complete_step(tmp_path: Path) -> None:
    made, path = trainer(), tmp_path / "state.npz"
    made.xavier_uniform_init_params(seed=0)

    def stop(step: int, loss: float) -> None:
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.train(some_batches(), on_step=stop, save_to=path)
    after = trainer()
    after.load(path)
    assert after.num_steps == made.num_steps == 4
    for name, array in after.export_params().items():
        np.testing.assert_array_equal(array, made.export_params()[name])


def test_a_step_that_fails_changes_nothing() -> None:
    made = trainer()
    made.xavier_uniform_init_params(seed=0)
    before = made.export_params()
    with pytest.raises(rx.ExecutionError, match=r"x.*64"):
        made.update(np.zeros((2, 63), "float32"), np.zeros(2, "int64"))
    assert made.num_steps == 0
    for name, array in made.export_params().items():
        np.testing.assert_array_equal(array, before[name])


def test_saving_now_and_then_saves_the_steps_in_between(tmp_path: Path) -> None:
    made, path = trainer(), tmp_path / "state.npz"
    saved: list[bool] = []
    made.train(some_batches(5), on_step=lambda *_: saved.append(path.exists()), save_to=path, save_every=2)
    assert saved == [False, False, True, True, True]
    with np.load(path) as content:
        assert int(content["array/optimizer/0"]) == 5


def test_a_file_of_another_kind_or_model_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    made = trainer()
    made.xavier_uniform_init_params(seed=0)
    before = made.export_params()
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    (tmp_path / "text.npz").write_text("no zip")
    trainer(ConvolutionalNet).save(tmp_path / "conv.npz")
    trainer(optimizer=training.SGD(0.1)).save(tmp_path / "sgd.npz")
    whole = tmp_path / "whole.npz"
    made.save(whole)
    (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:-200])
    for name, message in {
        "other.npz": "is not the saved state of a trainer; give a file that Trainer.save wrote",
        "text.npz": "cannot be read as the saved state of a trainer",
        "cut.npz": "cannot be read as the saved state of a trainer",
        "none.npz": "cannot be read as the saved state of a trainer.*No such file",
        "conv.npz": "saved with another optimizer, or for another model",
        "sgd.npz": "saved with another optimizer, or for another model",
    }.items():
        with pytest.raises(training.TrainingError, match=message):
            made.load(tmp_path / name)
    for name, array in made.export_params().items():
        np.testing.assert_array_equal(array, before[name])


def test_dtypes_that_numpy_does_not_know_come_back_from_a_file(tmp_path: Path) -> None:
    wide = np.linspace(-2, 2, 6).reshape(2, 3)
    arrays = {"a": wide.astype(rx.ir.dtypes.numpy_dtype("bfloat16")), "b": wide, "c": np.zeros((), "int64")}
    state_file.write_arrays(tmp_path / "x.npz", arrays)
    found = state_file.read_arrays(tmp_path / "x.npz")
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name].astype("float64"), array.astype("float64"))


# --- the rest


def test_a_progress_bar_shows_epoch_steps_and_loss(capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer()
    made.train(some_batches(3), 2)
    assert capsys.readouterr().out == ""
    losses = made.train(some_batches(3), 2, progress=True)
    shown = capsys.readouterr().out
    assert "epoch 2" in shown
    assert "6/6" in shown
    assert f"loss {losses[-1]:.4f}" in shown


def test_what_a_trainer_cannot_work_with_is_named() -> None:
    made, x, y = trainer(), np.zeros((2, 64), "float32"), np.zeros(2, "int64")
    cases: list[tuple[Any, str]] = [
        (lambda: training.Trainer(Perceptron), "the module has no backbone_loss_adjoint, optimizer.*use SetupTrainer"),
        (lambda: made.predict(x, x), "2 inputs given; the model takes 1"),
        (lambda: made.update([x], [y, y]), "2 targets given; the model takes 1"),
        (lambda: made.load_params([x]), "1 parameters given; there are 4"),
        (lambda: made.load_params({"w": x}), "there is no parameter 'w'; the parameters are: w1, b1, w2, b2"),
        (lambda: made.load_params({"b1": np.zeros(3, "float32")}), r"b1 is float32 \(3,\); expected float32 \(48,\)"),
        (lambda: made.load_params({"b1": np.zeros(48)}), r"b1 is float64 \(48,\); expected float32 \(48,\)"),
        (lambda: made.load_states({"b1": x}), "there is no state 'b1'; the states are: none"),
        (lambda: made.train(iter(some_batches()), 2), "batches is an iterator, which gives one epoch only"),
    ]
    for call, message in cases:
        with pytest.raises(training.TrainingError, match=message):
            call()
