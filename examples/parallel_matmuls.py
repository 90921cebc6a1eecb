"""Query, key and value projections as one matmul: a rewrite of several bindings together.

The pattern says "matmuls that share a left side", any number of them. The rewriter makes their replacement.

    python examples/parallel_matmuls.py
"""

import numpy as np

import regraft
from regraft.dpl import PatternContext, is_op, repeat, rewrite_bindings, wildcard
from regraft.script import relax as R


@R.function
def projections(
    x: R.Tensor((5, 8), "float32"),
    query: R.Tensor((8, 4), "float32"),
    key: R.Tensor((8, 4), "float32"),
    value_transposed: R.Tensor((6, 8), "float32"),
):
    with R.dataflow():
        q = R.matmul(x, query)
        k = R.matmul(x, key)
        value = R.permute_dims(value_transposed)
        v = R.matmul(x, value)
        out = (R.nn.softmax(q), k, v)
        R.output(out)
    return out


with PatternContext() as parallel:
    left, right = wildcard(), wildcard()
    product = is_op("relax.matmul")(left, right)
    repeat(product, min=2, shared=[left])


def combine(matchings, bindings):
    weights = matchings[right]
    ends = np.cumsum([weight.ty.shape[1] for weight in weights])[:-1].tolist()
    parts = R.split(R.matmul(matchings[left], R.concat(weights, axis=1)), ends, axis=1)
    return {var: parts[i] for i, var in enumerate(matchings[product])}


def main() -> None:
    combined = rewrite_bindings(parallel, combine, projections)
    print("Before:\n")
    projections.show()
    print("\nAfter:\n")
    combined.show()

    random = np.random.default_rng(7)
    arrays = [random.normal(size=param.ty.shape).astype("float32") for param in projections.params]
    before = regraft.build(projections, target="numpy")["projections"](*arrays)
    after = regraft.build(combined, target="numpy")["projections"](*arrays)
    for name, old, new in zip("qkv", before, after, strict=True):
        print(f"{name}: shape {new.shape}, largest difference {np.abs(old - new).max():.1e}")


if __name__ == "__main__":
    main()
