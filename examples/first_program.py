"""A first program: write it, read it, run it.

A layer of attention over a batch of sequences, and a small network that classifies its results. Unknown sizes have
names: ``n`` sequences of ``length`` tokens each.

    python examples/first_program.py
"""

import numpy as np

import regraft
from regraft.script import relax as R

RANDOM = np.random.default_rng(7)
WIDTH, HIDDEN, CLASSES = 4, 6, 3


def weight(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape, scale=shape[0] ** -0.5).astype("float32")


@R.function
def classify(
    tokens: R.Tensor(("n", "length", 4), "float32"),
    query: R.Tensor((4, 4), "float32"),
    key: R.Tensor((4, 4), "float32"),
    up: R.Tensor((4, 6), "float32"),
    down: R.Tensor((6, 3), "float32"),
):
    with R.dataflow():
        q = R.matmul(tokens, query)
        k = R.matmul(tokens, key)
        scores = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) * R.const(0.5)
        mixed = R.matmul(R.nn.softmax(scores, axis=-1), tokens)
        sequence = R.mean(mixed, axis=[1])
        hidden = R.nn.relu(R.matmul(sequence, up))
        probabilities = R.nn.softmax(R.matmul(hidden, down), axis=-1)
        R.output(probabilities)
    return probabilities


def main() -> None:
    print("The program, with every type inferred:\n")
    classify.show()

    exe = regraft.build(classify, target="numpy")
    print("\nWhat the NumPy engine runs:\n")
    print(exe.source)

    weights = [weight(WIDTH, WIDTH), weight(WIDTH, WIDTH), weight(WIDTH, HIDDEN), weight(HIDDEN, CLASSES)]
    with np.printoptions(precision=3, suppress=True):
        for count, length in ((2, 5), (1, 9)):
            probabilities = exe["classify"](weight(count, length, WIDTH), *weights)
            print(f"{count} sequences of {length} tokens, {CLASSES} class probabilities each:\n{probabilities}\n")

    print("What happens when an argument does not fit:\n")
    try:
        exe["classify"](weight(2, 5, WIDTH + 1), *weights)
    except regraft.ExecutionError as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
