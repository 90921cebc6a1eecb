"""CombineParallelMatmul: what it makes, what it leaves, and the numbers on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.analysis import well_formed
from regraft.ir import BlockBuilder, Call, Function, TensorType, TupleGetItem, Var, iter_bindings
from regraft.script import relax as R
from regraft.testing import assert_same_values
from regraft.transform import CombineParallelMatmul, PassContext, report
from tests.passes.harness import checked, counts, program

F32 = '"float32"'


def _tensor(name: str, *shape: object, dtype: str = "float32") -> str:
    dims = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in shape)
    return f'{name}: R.Tensor(({dims}{"," if len(shape) == 1 else ""}), "{dtype}")'


def _signature(**shapes: tuple[object, ...]) -> str:
    return ", ".join(_tensor(name, *shape) for name, shape in shapes.items())


QKV = _signature(x=(2, 7, 3), wq=(3, 4), wk=(3, 5), wv=(3, 6), bq=(4,), bk=(5,), bv=(6,))


def test_three_projections_of_one_input_become_one_matmul() -> None:
    before = program(QKV, "q = R.matmul(x, wq)\nk = R.matmul(x, wk)\nv = R.matmul(x, wv)", "q, k, v")
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "concat": 1, "split": 1}


def test_the_result_is_a_concat_of_weights_a_matmul_and_a_split_by_indices() -> None:
    before = program(_signature(x=(2, 3), a=(3, 4), b=(3, 5)), "p = R.matmul(x, a)\nq = R.matmul(x, b)", "p, q")
    after = CombineParallelMatmul()(before)
    values = [binding.value for binding in iter_bindings(after)]
    concat, product, split, first, second = values
    assert isinstance(concat, Call)
    assert isinstance(product, Call)
    assert isinstance(split, Call)
    assert concat.attrs.axis == 1
    assert product.attrs.out_dtype == "float32"
    assert split.attrs.indices_or_sections == (4,)
    assert split.attrs.axis == 1
    assert isinstance(first, TupleGetItem)
    assert isinstance(second, TupleGetItem)
    assert [output.name_hint for output in after.body.blocks[0].outputs] == ["p", "q"]  # type: ignore[attr-defined]


def test_weights_may_be_bound_after_the_first_matmul_that_uses_the_others() -> None:
    before = program(
        _signature(x=(2, 7, 3), w0=(4, 3), w1=(3, 5), w2=(6, 3)),
        """
w0_t = R.permute_dims(w0)
q = R.matmul(x, w0_t)
w1_t = R.permute_dims(w1)
w1_t_t = R.permute_dims(w1_t)
k = R.matmul(x, w1_t_t)
w2_t = R.permute_dims(w2)
v = R.matmul(x, w2_t)
""",
        "q, k, v",
    )
    assert counts(checked(CombineParallelMatmul(), before))["matmul"] == 1


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_a_bias_and_an_activation_of_every_branch_are_done_once(activation: str) -> None:
    before = program(
        QKV,
        f"""
q = R.nn.{activation}(R.matmul(x, wq) + bq)
k = R.nn.{activation}(bk + R.matmul(x, wk))
v = R.nn.{activation}(R.matmul(x, wv) + bv)
""",
        "q, k, v",
    )
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "add": 1, f"nn.{activation}": 1, "concat": 2, "split": 1}


def test_an_activation_without_a_bias_is_done_once() -> None:
    before = program(QKV, "q = R.tanh(R.matmul(x, wq))\nk = R.tanh(R.matmul(x, wk))", "q, k")
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 1, "tanh": 1, "concat": 1, "split": 1}


def test_an_activation_on_some_branches_only_stays_behind_the_split() -> None:
    before = program(
        QKV,
        "q = R.nn.relu(R.matmul(x, wq) + bq)\nk = R.matmul(x, wk) + bk\nv = R.nn.relu(R.matmul(x, wv) + bv)",
        "q, k, v",
    )
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "add": 1, "nn.relu": 2, "concat": 2, "split": 1}


def test_activations_that_differ_stay_behind_the_split() -> None:
    before = program(QKV, "q = R.nn.relu(R.matmul(x, wq))\nk = R.nn.gelu(R.matmul(x, wk))", "q, k")
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "nn.relu": 1, "nn.gelu": 1, "concat": 1, "split": 1}
    before = program(QKV, "q = R.nn.leakyrelu(R.matmul(x, wq), 0.1)\nk = R.nn.leakyrelu(R.matmul(x, wk), 0.2)", "q, k")
    assert counts(checked(CombineParallelMatmul(), before))["nn.leakyrelu"] == 2


def test_a_bias_on_some_branches_only_stays_behind_the_split() -> None:
    before = program(QKV, "q = R.matmul(x, wq) + bq\nk = R.matmul(x, wk)\nv = R.matmul(x, wv) + bv", "q, k, v")
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "add": 2, "concat": 1, "split": 1}


def test_groups_with_different_left_sides_are_combined_apart() -> None:
    before = program(
        _signature(x=(2, 3), y=(5, 3), a=(3, 4), b=(3, 7)),
        "p = R.matmul(x, a)\nq = R.matmul(y, a)\nr = R.matmul(x, b)\ns = R.matmul(y, b)",
        "p, q, r, s",
    )
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 2, "concat": 1, "split": 2}


def test_matmuls_that_share_only_the_right_side_are_left() -> None:
    before = program(_signature(x=(2, 3), y=(5, 3), a=(3, 4)), "p = R.matmul(x, a)\nq = R.matmul(y, a)", "p, q")
    assert CombineParallelMatmul()(before) is before


def test_a_program_without_groups_is_the_same_object() -> None:
    before = program(_signature(x=(2, 3), a=(3, 4)), "p = R.matmul(x, a)", "p")
    assert CombineParallelMatmul()(before) is before


# --- the check


def test_the_check_gets_the_group_and_declines_it_alone() -> None:
    seen: list[tuple[str, list[str], list[str]]] = []

    def check(left, right, bias, bindings) -> bool:  # type: ignore[no-untyped-def]
        assert all(w not in bindings or isinstance(bindings[w], Call) for w in right)
        seen.append((left.name_hint, [w.name_hint for w in right], [b.name_hint for b in bias]))
        return left.name_hint != "x"

    before = program(
        _signature(x=(2, 3), y=(5, 3), a=(3, 4), b=(3, 7), u=(4,), v=(7,)),
        "p = R.matmul(x, a)\nq = R.matmul(x, b)\nr = R.matmul(y, a) + u\ns = R.matmul(y, b) + v",
        "p, q, r, s",
    )
    after = checked(CombineParallelMatmul(check), before)
    assert ("x", ["a", "b"], []) in seen
    assert ("y", ["a", "b"], ["u", "v"]) in seen
    assert counts(after) == {"matmul": 3, "add": 1, "concat": 2, "split": 1}


def test_the_report_says_which_group_was_left_and_why() -> None:
    before = program(_signature(x=(2, 3), a=(3, 4), b=(3, 7)), "p = R.matmul(x, a)\nq = R.matmul(x, b)", "p, q")
    found = report(CombineParallelMatmul(lambda *_: False), before)
    assert found.program is before
    assert "left main.p (combine_parallel_matmul): p, q: the check declined it" in str(found)


# --- more shapes, and blocks of other kinds


def test_matmuls_in_a_plain_block_and_in_branches_are_combined() -> None:
    from regraft.script.text import parse

    before = parse(
        """
from regraft.script import relax as R
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"),
         b: R.Tensor((3, 5), "float32")):
    if c:
        p = R.matmul(x, a)
        q = R.matmul(x, b)
        r = R.sum(p)
        s = R.add(r, R.sum(q))
    else:
        s = R.sum(x)
    return s
"""
    )
    assert isinstance(before, Function)
    for value in (True, False):
        rng = np.random.default_rng(0)
        inputs = [np.array(value), *(rng.random(s, dtype=np.float32) for s in ((2, 3), (3, 4), (3, 5)))]
        after = checked(CombineParallelMatmul(), before, inputs=inputs)
    assert counts(after)["matmul"] == 1


def _fan_out(branches: int, layers: int = 1) -> Function:
    """``layers`` times: x @ w_i for each branch, all of different widths, summed up into the next x."""
    builder = BlockBuilder()
    x = Var("x", TensorType((2, 3), "float32"))
    weights = [
        [Var(f"w{layer}_{i}", TensorType((3, 1 + i % 5), "float32")) for i in range(branches)]
        for layer in range(layers)
    ]
    with builder.function("main", [x, *(w for row in weights for w in row)]):
        with builder.dataflow():
            value: object = x
            for row in weights:
                products = [builder.emit(R.matmul(value, w)) for w in row]
                total = products[0]
                sums = [builder.emit(R.sum(p, axis=[1], keepdims=True)) for p in products]
                total = sums[0]
                for other in sums[1:]:
                    total = builder.emit(R.add(total, other))
                value = builder.emit(R.tanh(R.add(value, total)))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()["main"]


@pytest.mark.parametrize("branches", [2, 32, 200])
def test_any_number_of_branches_becomes_one_matmul(branches: int) -> None:
    assert counts(checked(CombineParallelMatmul(), _fan_out(branches)))["matmul"] == 1


def test_each_layer_of_a_deep_network_gets_its_own_matmul() -> None:
    before = _fan_out(3, layers=40)
    after = CombineParallelMatmul()(before)
    well_formed(after)
    assert_same_values(before, after)
    assert counts(after)["matmul"] == 40


def test_values_are_verified_while_the_pass_runs_if_that_is_asked_for() -> None:
    before = program(QKV, "q = R.matmul(x, wq) + bq\nk = R.matmul(x, wk) + bk", "q, k")
    with PassContext(verify="values"):
        after = CombineParallelMatmul()(before)
    assert counts(after)["matmul"] == 1
