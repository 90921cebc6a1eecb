"""Train a small language model over eight devices, tensor parallel and data parallel at once.

The devices are simulated on this machine, so values, traffic and memory are real, but speed is not. Run it as
`python examples/train_sharded.py [DIRECTORY]`; the loss curve and a checkpoint are written to the directory.
"""

import os
import sys
from pathlib import Path

# Before JAX is first used.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import numpy as np

import regraft as rx
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.training import Adam, CrossEntropyLoss, SetupTrainer, Trainer
from regraft.transform import Megatron

TEXT = "the quick brown fox jumps over the lazy dog while five boxing wizards pack my box with liquor jugs. " * 8
BATCH, TOKENS, WIDTH, HEADS, LETTERS = 16, 16, 32, 4, 32
STEPS, EPOCHS = 20, 3


@I.ir_module
class LanguageModel:
    """One block of a transformer, which maps letters to the scores of the next letter."""

    I.module_attrs({"param_num": 9, "state_num": 0})

    @R.function
    def backbone(
        ids: R.Tensor((16, 16), "int64"),
        embedding: R.Tensor((32, 32), "float32"),
        positions: R.Tensor((16, 32), "float32"),
        query: R.Tensor((32, 32), "float32"),
        key: R.Tensor((32, 32), "float32"),
        value: R.Tensor((32, 32), "float32"),
        out: R.Tensor((32, 32), "float32"),
        up: R.Tensor((32, 128), "float32"),
        down: R.Tensor((128, 32), "float32"),
        head: R.Tensor((32, 32), "float32"),
    ):
        with R.dataflow():
            x = R.take(embedding, ids, axis=0) + positions
            q = R.reshape(R.matmul(x, query), R.shape([16, 16, 4, 8]))
            k = R.reshape(R.matmul(x, key), R.shape([16, 16, 4, 8]))
            v = R.reshape(R.matmul(x, value), R.shape([16, 16, 4, 8]))
            attended = R.nn.attention(q, k, v, causal_mask="TopLeft")
            y = x + R.matmul(R.reshape(attended, R.shape([16, 16, 32])), out)
            z = y + R.matmul(R.nn.gelu(R.matmul(y, up)), down)
            scores = R.reshape(R.matmul(z, head), R.shape([256, 32]))
            R.output(scores)
        return scores


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Pieces of the text, and the next letter for each letter."""
    letters = np.array([ord(letter) % LETTERS for letter in TEXT])
    random = np.random.default_rng(0)
    made = []
    for _ in range(STEPS):
        starts = random.integers(0, len(letters) - TOKENS - 1, BATCH)
        pieces = np.stack([letters[start : start + TOKENS + 1] for start in starts])
        made.append((pieces[:, :-1], pieces[:, 1:].reshape(-1)))
    return made


def picture(losses: list[float]) -> str:
    """The losses as a curve, in SVG."""
    width, height, top = 480, 240, max(losses)
    points = " ".join(
        f"{40 + step * (width - 60) / (len(losses) - 1):.1f},{height - 30 - loss / top * (height - 50):.1f}"
        for step, loss in enumerate(losses)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<path d="M40 20V{height - 30}H{width - 20}" fill="none" stroke="gray"/>'
        f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="2"/>'
        f'<text x="40" y="14">loss, from {losses[0]:.2f} to {losses[-1]:.2f}</text>'
        f'<text x="{width - 20}" y="{height - 12}" text-anchor="end">{len(losses)} steps</text></svg>'
    )


def main(directory: Path) -> None:
    mesh = rx.Mesh(data=2, model=4)
    plan = Megatron(axis="model", mesh=mesh)(LanguageModel)
    print(f"The plan over {mesh}:\n{plan}\n")

    scores, targets = rx.TensorType((BATCH * TOKENS, LETTERS), "float32"), rx.TensorType((BATCH * TOKENS,), "int64")
    module = SetupTrainer(CrossEntropyLoss(), Adam(0.01), [scores, targets])(LanguageModel)
    trainer = Trainer(module, target="xla", mesh=mesh, shardings=plan, inputs={"ids": ("data",), "targets": ("data",)})
    trainer.xavier_uniform_init_params(seed=0)
    data = batches()
    losses = trainer.train(data, EPOCHS, progress=sys.stderr.isatty())
    print(trainer.vm.report("train_step"), "\n")

    trainer.save_checkpoint(directory / "checkpoint")
    (directory / "loss.svg").write_text(picture(losses), encoding="utf-8")
    alone = Trainer(module, target="numpy")
    alone.load_checkpoint(directory / "checkpoint")
    expected = np.asarray(alone.predict(data[0][0]))
    difference = np.abs(np.asarray(trainer.predict(data[0][0])) - expected).max()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; NumPy goes on from the checkpoint, within {difference:.1e}")
    print(f"Wrote {directory / 'loss.svg'}")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/train_sharded")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
