"""Train a model on handwritten digits: loss, gradient and optimizer are programs, and any engine runs them.

A small convolutional net is written as a program, made trainable, trained on ONNX Runtime, saved, and used on NumPy.
The images, 8 x 8, come with scikit-learn: pip install scikit-learn

    python examples/train_digits.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import regraft as rx
from regraft import training
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T

BATCH = 25


@I.ir_module
class Model:
    I.module_attrs({"param_num": 6, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor(("n", 64), "float32"),
        first: R.Tensor((8, 1, 3, 3), "float32"),
        second: R.Tensor((16, 8, 3, 3), "float32"),
        hidden: R.Tensor((64, 32), "float32"),
        hidden_bias: R.Tensor((32,), "float32"),
        weight: R.Tensor((32, 10), "float32"),
        bias: R.Tensor((10,), "float32"),
    ):
        n = T.int64()
        with R.dataflow():
            image = R.reshape(x, (n, 1, 8, 8))
            edges = R.nn.max_pool2d(R.nn.relu(R.nn.conv2d(image, first, padding=1)), 2, 2)
            parts = R.nn.max_pool2d(R.nn.relu(R.nn.conv2d(edges, second, padding=1)), 2, 2)
            features = R.nn.relu(R.matmul(R.reshape(parts, (n, 64)), hidden) + hidden_bias)
            logits = R.matmul(features, weight) + bias
            R.output(logits)
        return logits


def trainer_with(rate: float) -> training.Trainer:
    """A trainer of the model, with cross entropy and Adam with this learning rate."""
    n = rx.SymVar("n")
    types = [rx.TensorType((n, 10), "float32"), rx.TensorType((n,), "int64")]
    setup = training.SetupTrainer(training.CrossEntropyLoss(), training.Adam(rate), types)
    return training.Trainer(setup(Model), target="onnxruntime")


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16).astype("float32"), labels[order].astype("int64")
    batches = [(images[start : start + BATCH], labels[start : start + BATCH]) for start in range(0, 1400, BATCH)]
    unseen, answers = images[1400:], labels[1400:]

    trainer = trainer_with(0.005)
    backward = trainer.mod["backbone_loss_adjoint"].script().splitlines()
    print("The functions of the module are now:", ", ".join(trainer.mod))
    print("The gradient of the loss is a program, which ends with:\n", *backward[-12:], sep="\n")

    trainer.xavier_uniform_init_params(seed=0)
    losses = trainer.train(batches, epochs=10, progress=True)
    print("Once more, with a tenth of the learning rate:")
    slower = trainer_with(0.0005)
    slower.load_params(trainer.export_params())
    losses += slower.train(batches, epochs=3, progress=True)
    accuracy = (np.argmax(slower.predict(unseen), axis=1) == answers).mean()
    print(f"Loss from {losses[0]:.3f} to {np.mean(losses[-50:]):.3f}; {accuracy:.1%} of unseen digits are right.")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.npz"
        slower.save(path)
        again = training.Trainer(slower.mod, target="numpy")
        again.load(path)
        same = np.allclose(again.predict(unseen), slower.predict(unseen), rtol=1e-3, atol=1e-3)
        print(f"Saved at step {again.num_steps} and loaded on the NumPy engine: predictions are the same: {same}.")


if __name__ == "__main__":
    main()
