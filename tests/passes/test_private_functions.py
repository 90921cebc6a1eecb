"""RemoveUnusedParameters, RemoveUnusedOutputs, InlinePrivateFunctions: functions that only their module sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from regraft.analysis import well_formed
from regraft.ir import DataflowBlock, IRModule, TensorType, iter_bindings
from regraft.script.text import parse
from regraft.testing import assert_same_values, programs
from regraft.transform import (
    ExpandTupleArguments,
    FoldConstant,
    InlineKnownCalls,
    InlinePrivateFunctions,
    Pass,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
)
from tests.passes.harness import checked_module, counts, run

HEADER = "from regraft.script import relax as R, ir as I, tir as T\n@I.ir_module\nclass Module:\n"


def module(text: str) -> IRModule:
    parsed = parse(HEADER + text)
    assert isinstance(parsed, IRModule)
    return parsed


def two_results() -> IRModule:
    return module(
        """
    @R.function(private=True)
    def h(x: R.Tensor((2, 3), "float32"), u: R.Tensor((2, 3), "float32")):
        a = R.exp(x)
        b = R.sin(x)
        return (a, b)
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        t = Module.h(x, R.cos(y))
        r = t[0]
        return r
"""
    )


def test_a_parameter_that_the_body_does_not_use_goes_with_its_arguments() -> None:
    before = two_results()
    after = checked_module(RemoveUnusedParameters(), before)
    assert [p.name_hint for p in after["h"].params] == ["x"]
    assert [p.name_hint for p in after["main"].params] == ["x", "y"]
    assert_same_values(before, after)


def test_parameters_go_through_all_levels_of_calls() -> None:
    before = module(
        """
    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32"), u: R.Tensor((2,), "float32")):
        return R.exp(x)
    @R.function(private=True)
    def outer(x: R.Tensor((2,), "float32"), u: R.Tensor((2,), "float32")):
        return Module.inner(x, u)
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        return Module.outer(x, y)
"""
    )
    after = checked_module(RemoveUnusedParameters(), before)
    assert [len(after[name].params) for name in ("inner", "outer", "main")] == [1, 1, 2]
    assert_same_values(before, after)


def test_a_size_that_only_an_unused_parameter_told_becomes_a_parameter() -> None:
    before = module(
        """
    @R.function(private=True)
    def h(x: R.Tensor((2,), "float32"), u: R.Tensor(("n",), "float32"), v: R.Tensor((5,), "float32")):
        n = T.int64()
        return R.broadcast_to(R.sum(x), (n, 3))
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor(("m",), "float32"), z: R.Tensor((5,), "float32")):
        m = T.int64()
        r = Module.h(x, y, z)
        return r
"""
    )
    after = checked_module(RemoveUnusedParameters(), before)
    assert [p.name_hint for p in after["h"].params] == ["x", "param_n"]
    assert_same_values(before, after)


def test_a_field_that_no_caller_takes_is_no_longer_returned() -> None:
    before = two_results()
    after = checked_module(RemoveUnusedOutputs(), before)
    assert isinstance(after["h"].ret_ty, TensorType)
    assert counts(after["h"]) == {"exp": 1}
    assert_same_values(before, after)


def test_of_three_fields_the_two_that_are_taken_keep_their_order() -> None:
    before = module(
        """
    @R.function(private=True)
    def h(x: R.Tensor((2, 3), "float32")):
        a = R.exp(x)
        b = R.sum(x)
        c = R.permute_dims(x)
        return (a, b, c)
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            t = Module.h(x)
            r = t[2]
            s = t[0]
            R.output(r, s)
        u = Module.h(x)
        v = u[2]
        return (r, s, v)
"""
    )
    after = checked_module(RemoveUnusedOutputs(), before)
    assert counts(after["h"]) == {"exp": 1, "permute_dims": 1}
    assert_same_values(before, after)


def _with_use(use: str) -> IRModule:
    return module(
        f"""
    @R.function(private=True)
    def h(x: R.Tensor((2, 3), "float32")):
        a = R.exp(x)
        b = R.sum(x)
        return (a, b)
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        t = Module.h(x)
        r = t[0]
        {use}
"""
    )


@pytest.mark.parametrize("use", ["return t", "s = (t, x)\n        return s"])
def test_a_result_that_is_used_as_a_whole_keeps_its_fields(use: str) -> None:
    before = _with_use(use)
    assert RemoveUnusedOutputs()(before)["h"] is before["h"]


def test_a_second_name_of_a_result_is_looked_through() -> None:
    before = _with_use("w = t\n        return w[0]")
    after = RemoveUnusedOutputs()(before)
    assert counts(after["h"]) == {"exp": 1}
    assert_same_values(before, after)


def test_a_private_function_is_written_out_where_it_is_called() -> None:
    before = two_results()
    after = checked_module(InlinePrivateFunctions(), before)
    assert list(after) == ["main"]
    assert_same_values(before, after)


def test_a_private_function_of_constants_is_written_out_and_folded() -> None:
    before = module(
        """
    @R.function(private=True)
    def h(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        a = R.add(x, y)
        b = R.exp(a)
        return b
    @R.function(private=True)
    def other(x: R.Tensor((2,), "float32")):
        a = R.negative(x)
        return a
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        p = Module.h(R.const([1.0, 2.0], "float32"), R.const([3.0, 4.0], "float32"))
        q = Module.other(x)
        return R.add(p, q)
"""
    )
    after = checked_module(InlineKnownCalls(), before)
    assert list(after) == ["other", "main"]
    assert counts(FoldConstant()(after)["main"]) == {"add": 1}
    assert_same_values(before, after)


@pytest.mark.parametrize(
    "body",
    [
        'R.dequantize(w, R.const([0.5, 0.25], "float32"), R.astype(z, "int8"), axis=0)',
        'R.subtract(R.astype(w, "float32"), R.const([[1.0], [2.0]], "float32"))',
        "R.broadcast_to(R.astype(z, 'float32'), (900, 2))",
    ],
)
def test_functions_of_constants_of_which_a_part_alone_would_be_folded_stay_calls(body: str) -> None:
    before = module(
        f"""
    @R.function(private=True)
    def weight(w: R.Tensor((2, 800), "int8"), z: R.Tensor((2,), "int64")):
        return {body}
    @R.function
    def main():
        return Module.weight(R.zeros((2, 800), "int8"), R.const([3, 4], "int64"))
"""
    )
    before = FoldConstant(1 << 20)(before)
    assert list(InlineKnownCalls()(before)) == ["weight", "main"]
    assert list(InlineKnownCalls(most_grown=1 << 20)(before)) == (
        ["weight", "main"] if "dequantize" in body else ["main"]
    )


def test_functions_that_call_each_other_are_written_out_from_the_inside() -> None:
    before = module(
        """
    @R.function(private=True)
    def outer(x: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        with R.dataflow():
            a = Module.inner(x)
            b = R.add(a, Module.inner(a))
            R.output(b)
        return b
    @R.function(private=True)
    def inner(x: R.Tensor(("m", "k"), "float32")):
        m = T.int64()
        k = T.int64()
        with R.dataflow():
            a = R.reshape(x, (m * k,))
            b = R.reshape(R.exp(a), (m, k))
            R.output(b)
        return b
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((5, 3), "float32")):
        with R.dataflow():
            p = Module.outer(x)
            q = Module.outer(y)
            R.output(p, q)
        return (p, q)
"""
    )
    after = checked_module(InlinePrivateFunctions(), before)
    assert list(after) == ["main"]
    assert counts(after)["exp"] == 4
    assert len({binding.var for binding in iter_bindings(after)}) == len(list(iter_bindings(after)))
    assert_same_values(before, after)


@pytest.mark.parametrize("caller", ["", "with R.dataflow():"])
@pytest.mark.parametrize("callee", ["", "with R.dataflow():"])
def test_each_copy_of_a_body_has_sizes_of_its_own(callee: str, caller: str) -> None:
    def body(rows: str, result: str, block: str) -> str:
        inside = [*rows.split("; "), f"R.output({result})"] if block else rows.split("; ")
        indent = " " * (12 if block else 8)
        return "\n".join([f"        {block}", *[indent + row for row in inside], f"        return {result}\n"])

    cast = 'cast = R.match_cast(q, R.Tensor((own,), "float32")); '
    own = cast + 'one = R.ones(R.shape([own]), "float32"); r = R.concat((cast, one))'
    before = module(
        f"""
    @R.function(private=True)
    def longer(q: R.Tensor(ndim=1, dtype="float32")):
        own = T.int64()
{body(own, "r", callee)}
    @R.function(private=True)
    def both(q: R.Tensor(ndim=1, dtype="float32"), p: R.Tensor(ndim=1, dtype="float32")):
{body("a = Module.longer(q); b = Module.longer(p); c = R.concat((a, b))", "c", callee)}
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
{body("a = Module.both(x, y); i = Module.longer(y); b = Module.both(y, x); c = R.concat((a, i, b))", "c", caller)}
"""
    )
    after = checked_module(InlinePrivateFunctions(), before)
    assert list(after) == ["main"]
    inputs = [np.zeros(2, "float32"), np.full(3, 5, "float32")]
    np.testing.assert_array_equal(run(after, inputs), run(before, inputs))


def test_a_function_that_calls_itself_stays() -> None:
    before = module(
        """
    @R.function(private=True)
    def down(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        if R.greater(n, R.const(0, "int32")):
            s = Module.down(R.subtract(n, R.const(1, "int32")))
        else:
            s = n
        return s
    @R.function
    def main(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        return Module.down(n)
"""
    )
    assert InlinePrivateFunctions()(before) is before
    assert run(before, [np.int32(3)]) == 0


def test_a_branch_is_written_out_between_the_parts_of_the_dataflow_block_that_called_it() -> None:
    text = """
    @R.function(private=True)
    def pick(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            y = R.exp(x)
            z = R.negative(y)
        else:
            z = R.sin(x)
        return z
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
"""
    plain = module(text + "        r = Module.pick(c, x)\n        s = Module.pick(c, r)\n        return s\n")
    after = checked_module(InlinePrivateFunctions(), plain)
    assert list(after) == ["main"]
    assert_same_values(plain, after)
    rows = ("a = R.exp(x)", "r = Module.pick(c, a)", "s = R.add(r, a)", "R.output(s)")
    body = "".join(f"            {row}\n" for row in rows)
    flows = module(f"{text}        with R.dataflow():\n{body}        return s\n")
    after = checked_module(InlinePrivateFunctions(), flows)
    assert [isinstance(block, DataflowBlock) for block in after["main"].body.blocks] == [True, False, True]
    assert_same_values(flows, after)


@pytest.mark.parametrize("value", ["lv", "(lv, t)[0]", "t[0]", "(lv, t)[1][1]", "t"])
def test_an_output_of_a_dataflow_block_stays_beside_a_tuple_taken_one_by_one(value: str) -> None:
    before = module(
        f"""
    @R.function(private=True)
    def h(t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
        with R.dataflow():
            lv = R.subtract(t[0], t[1])
            gv = {value}
            R.output(gv)
        return (t, gv)
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        return Module.h((x, y))
"""
    )
    after = checked_module(ExpandTupleArguments(), before)
    assert [p.name_hint for p in after["h"].params] == ["t_0", "t_1"]
    assert_same_values(before, after, rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    "one",
    [
        RemoveUnusedParameters(),
        RemoveUnusedOutputs(),
        ExpandTupleArguments(),
        InlineKnownCalls(),
        InlinePrivateFunctions(),
    ],
    ids=lambda one: one.name,
)
@settings(max_examples=40)
@given(before=programs(most=24, helpers=3))
def test_random_modules_keep_their_values(one: Pass, before: IRModule) -> None:
    after = one(before)
    well_formed(after)
    assert one(after) is after
    assert_same_values(before, after, rtol=0.0, atol=0.0, seeds=[0])


def test_a_function_that_a_branch_gives_keeps_its_parameters() -> None:
    before = module(
        """
    @R.function(private=True)
    def h(x: R.Tensor((2,), "float32"), u: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    @R.function
    def main(c: R.Tensor((), "bool")):
        cls = Module
        if c:
            f = cls.h
        else:
            f = cls.h
        return f
"""
    )
    assert RemoveUnusedParameters()(before) is before
