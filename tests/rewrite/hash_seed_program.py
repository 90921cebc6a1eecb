"""Rewrites a program with rules of both kinds, many matches and shared values, and prints it; run by `test_traps`."""

from regraft import BlockBuilder, TensorType, Var
from regraft.dpl import *
from regraft.ir import Function
from regraft.rewrite import Rule, RuleSet
from regraft.script import relax as R


def _program() -> Function:
    x = Var("x", TensorType((5, 7), "float32"))
    weights = [Var(f"w{i}", TensorType((7, i + 1), "float32")) for i in range(9)]
    builder = BlockBuilder()
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            left = builder.emit(R.nn.relu(builder.emit(R.add(x, x))))
            products = [builder.emit(R.matmul(side, w)) for w in weights for side in (x, left)]
            doubled = [builder.emit(R.add(p, p)) for p in products]
            result = builder.emit_output([builder.emit(R.nn.relu(builder.emit(R.nn.relu(d)))) for d in doubled])
        builder.emit_func_output(result)
    return builder.get()["main"]


def _rules() -> RuleSet:
    p = wildcard()
    double = Rule(is_op("relax.add")(p, p), lambda _, m: R.multiply(m[p], R.const(2.0)), "double")
    again = is_op("relax.nn.relu")(p)
    relu = Rule(is_op("relax.nn.relu")(again), lambda _, m: m[again], "relu twice")
    with PatternContext() as ctx:
        left, right = wildcard(), wildcard()
        product = is_op("relax.matmul")(left, right)
        repeat(product, min=2, shared=[left])

    def join(matchings, _):
        ends = [0]
        for weight in matchings[right]:
            ends.append(ends[-1] + weight.ty.shape[1])
        parts = R.split(R.matmul(matchings[left], R.concat(matchings[right], axis=1)), ends[1:-1], axis=1)
        return {var: parts[i] for i, var in enumerate(matchings[product])}

    return double | relu | Rule(ctx, join, "parallel")


if __name__ == "__main__":
    print(_rules()(_program()).script())
