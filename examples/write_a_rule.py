"""Two new rules: written, tested on programs that are generated for them, and applied to a model.

The model is a gated network: each layer multiplies one projection of its input, passed through ``v * sigmoid(v)``, by
another projection. One rule replaces this activation by ``silu``; the other makes one product of the two projections.

    python examples/write_a_rule.py
"""

import regraft as rx
from regraft.dpl import is_op, wildcard
from regraft.script import relax as R
from regraft.testing import assert_same_values, check_rule

value = wildcard()
name_silu = rx.Rule(
    is_op("relax.multiply")(value, is_op("relax.sigmoid")(value)),
    lambda _, matchings: R.nn.silu(matchings[value]),
    "v * sigmoid(v) is silu(v)",
)


@R.rewriter
class CombineTwoProjections:
    @R.function
    def pattern(x: R.Tensor, gate: R.Tensor(("k", "n")), up: R.Tensor(("k", "n"))):
        return R.matmul(x, gate), R.matmul(x, up)

    @R.function
    def replacement(x: R.Tensor, gate: R.Tensor(("k", "n")), up: R.Tensor(("k", "n"))):
        both = R.split(R.matmul(x, R.concat((gate, up), axis=1)), 2, axis=-1)
        return both[0], both[1]


def gated_network(layers: int, width: int, hidden: int) -> rx.Function:
    builder = rx.BlockBuilder()
    x = rx.Var("x", R.Tensor(("n", width), "float32"))
    params = [x]

    def weight(name: str, rows: int, columns: int) -> rx.Var:
        params.append(rx.Var(name, R.Tensor((rows, columns), "float32")))
        return params[-1]

    with builder.function("network"):
        with builder.dataflow():
            state: rx.Expr = x
            for i in range(layers):
                gate = builder.emit(R.matmul(state, weight(f"gate{i}", width, hidden)))
                active = builder.emit(gate * R.sigmoid(gate))
                up = builder.emit(R.matmul(state, weight(f"up{i}", width, hidden)))
                state = builder.emit(state + R.matmul(active * up, weight(f"down{i}", hidden, width)))
            out = builder.emit_output(state)
        builder.emit_func_output(out, params=params)
    return builder.get()["network"]


def count(program: rx.Function) -> str:
    script = program.script()
    return ", ".join(f"{script.count(f'R.{op}(')} {op}" for op in ("matmul", "sigmoid", "nn.silu", "split"))


def main() -> None:
    rules = name_silu | CombineTwoProjections
    print("Each rule, on random programs that contain a match:")
    for rule in rules:
        print(f"  {check_rule(rule)}")

    network = gated_network(layers=3, width=4, hidden=6)
    rewritten = rules(network, verify="values")
    assert_same_values(network, rewritten)
    print(f"\nBefore: {count(network)}\nAfter:  {count(rewritten)}\n\nThe first layer:")
    print("\n".join(rewritten.script().splitlines()[5:18]))


if __name__ == "__main__":
    main()
