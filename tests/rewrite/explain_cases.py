"""The subjects of the tests of `explain`: small programs, and a pattern or rule for each reason with its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import regraft as rx
from regraft import Rule, decline
from regraft.dpl import (
    DataflowVarPattern,
    Extent,
    ExternFuncPattern,
    FunctionPattern,
    PatternContext,
    is_const,
    is_expr,
    is_gv,
    is_if,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    repeat,
    wildcard,
)
from regraft.script import ir as I
from regraft.script import relax as R

add, multiply, matmul = is_op("relax.add"), is_op("relax.multiply"), is_op("relax.matmul")
relu, exp, sigmoid = is_op("relax.nn.relu"), is_op("relax.exp"), is_op("relax.sigmoid")
permute_dims, concat = is_op("relax.permute_dims"), is_op("relax.concat")


@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        total = R.add(x, y)
        product = R.multiply(total, x)
        turned = R.permute_dims(product, axes=[1, 0])
        R.output(turned)
    return turned


@R.function
def sized(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        first = R.matmul(x, w)
        second = R.matmul(x, v)
        third = R.matmul(x, w)
        joined = R.concat((first, second, third), axis=1)
        R.output(joined)
    return joined


@R.function
def reused(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        e = R.exp(x)
        r = R.nn.relu(e)
        s = R.sigmoid(e)
        t = R.add(r, s)
        R.output(t)
    return t


@I.ir_module
class calls:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        a = calls.helper(x)
        b = R.call_pure_packed("outside", a, sinfo_args=R.Tensor((2,), "float32"))
        return b

    @R.function
    def helper(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.exp(x)
        return y


@R.function
def joined_twice(x: R.Tensor((2,), "float32"), y: R.Tensor((4,), "float32")):
    with R.dataflow():
        two = R.concat((y, x))
        three = R.concat((x, x, x))
        s = R.add(two, three)
        R.output(s)
    return s


@R.function
def scaled(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        s = R.multiply(R.const(2.0), x)
        R.output(s)
    return s


@R.function
def reshaped(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        s = R.reshape(x, (6,))
        R.output(s)
    return s


@R.function
def unused(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        e = R.exp(x)
        r = R.nn.relu(x)
        t = R.add(e, r)
        R.output(t)
    return t


@R.function
def output(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        e = R.exp(x)
        r = R.nn.relu(e)
        R.output(e, r)
    return (e, r)


def context(fill: Callable[[], Any]) -> PatternContext:
    with PatternContext() as ctx:
        fill()
    return ctx


def alike(count: int) -> PatternContext:
    """``count`` matmuls with one left side."""
    left = wildcard()
    return context(lambda: [matmul(left, wildcard()) for _ in range(count)])


def parallel(**options: Any) -> PatternContext:
    """Any number of matmuls with one left side."""
    left = wildcard()
    return context(lambda: repeat(matmul(left, wildcard()), shared=[left], **options))


def used(only: bool, index: int = -1) -> PatternContext:
    def fill() -> None:
        source, user = exp(wildcard()), relu(wildcard())
        if only:
            source.only_used_by(user, index)
        else:
            source.used_by(user, index)

    return context(fill)


def shared_wildcard() -> Any:
    same = wildcard()
    return add(same, same)


def two_runs() -> Any:
    """A concat of two runs of one length."""
    extent = Extent("n")
    return concat(is_tuple([repeat(matmul(wildcard(), wildcard()), extent=extent), repeat(wildcard(), extent=extent)]))


def runs_of_two_concats() -> Any:
    """The sum of two concats of equally many values."""
    extent = Extent("n")
    return add(*(concat(is_tuple([repeat(wildcard(), extent=extent)])) for _ in range(2)))


def runs_of_two_tuples() -> PatternContext:
    """As many matmuls of one left side as there are fields in a concat."""
    left, extent = wildcard(), Extent("n")

    def fill() -> None:
        concat(is_tuple([repeat(is_var(), extent=extent)]))
        repeat(matmul(left, wildcard().has_shape((3, 4))), shared=[left], extent=extent)

    return context(fill)


def two_users() -> PatternContext:
    """Two relus that use one exp, the second as well as the first."""

    def fill() -> None:
        source, user, other = exp(wildcard()), relu(wildcard()), relu(wildcard())
        source.used_by(user, 0)
        source.used_by(other)

    return context(fill)


def same_shapes() -> PatternContext:
    def fill() -> None:
        left = wildcard()
        matmul(left, is_var("w")).same_shape_as(matmul(left, is_var("v")))

    return context(fill)


def elsewhere() -> Any:
    hidden = rx.DataflowVar("hidden", rx.TensorType((2, 3), "float32"))
    return Rule(add(wildcard(), wildcard()), lambda e, m: R.exp(hidden), "reach out")


def swap() -> Rule:
    def replace(m: Any, bindings: Any) -> Any:
        return {m[first]: R.sigmoid(m[second]), m[second]: R.nn.relu(m[first])}

    with PatternContext() as ctx:
        first, second = exp(wildcard()), relu(wildcard())
        first.used_by(second)
    return Rule(ctx, replace, "swap")


def rule(result: Callable[[Any, Any], Any], name: str = "try") -> Rule:
    return Rule(add(wildcard(), wildcard()), result, name)


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "op": (lambda: relu(add(wildcard(), wildcard())), reused),
    "op: not defined here": (lambda: add(exp(wildcard()), wildcard()), main),
    "arity": (lambda: (add | is_op("relax.where"))(wildcard(), wildcard(), wildcard()), main),
    "arity: at least": (lambda: (permute_dims | matmul)(wildcard(), wildcard(), varg_default_wildcard=True), main),
    "arity: fields": (lambda: concat(is_tuple([wildcard(), wildcard()])), sized),
    "arity: fields in any order": (lambda: concat(is_tuple([wildcard()], unordered=True)), sized),
    "attribute": (lambda: permute_dims(wildcard()).has_attr({"axes": [0, 1]}), main),
    "attribute: unknown": (lambda: (permute_dims | is_op("relax.nn.softmax"))(wildcard()).has_attr({"axis": 1}), main),
    "attribute: no call": (lambda: add(wildcard().has_attr({"axis": 1}), wildcard()), main),
    "dtype": (lambda: add(wildcard(), wildcard().has_dtype("float16")), main),
    "shape": (lambda: add(wildcard(), wildcard().has_shape((2, 4))), main),
    "shape: not certain": (lambda: matmul(wildcard().has_shape((2, 3)), is_var("w")), sized),
    "shape: a literal": (lambda: is_op("relax.reshape")(wildcard(), is_shape((3, 2))), reshaped),
    "shape: one for all": (same_shapes, sized),
    "type": (lambda: relu(wildcard().has_ty(R.Tensor((2, 4), "float32"))), reused),
    "type: not certain": (
        lambda: concat(is_tuple([wildcard().has_ty(R.Tensor((2, 4), "float32")), repeat(wildcard())])),
        sized,
    ),
    "type: of the replacement": (lambda: rule(lambda e, m: R.astype(e, "float16"), "halve"), main),
    "constant": (lambda: add(wildcard(), is_const()), main),
    "constant: another": (lambda: multiply(is_expr(rx.const(1.0)), is_var()), scaled),
    "kind: a tuple": (lambda: is_tuple([wildcard()]), scaled),
    "kind: a projection": (lambda: relu(is_tuple_get_item(wildcard(), 1)), reused),
    "kind: an expression": (lambda: relu(is_expr(reused.params[0])), reused),
    "kind: a variable": (lambda: multiply(is_var(), is_var()), scaled),
    "kind: a variable of a block": (lambda: exp(DataflowVarPattern()), reused),
    "kind: a function": (lambda: relu(FunctionPattern([wildcard()], wildcard())), reused),
    "kind: a name of a function": (lambda: is_gv("helper")(wildcard()), reused),
    "kind: a branch": (lambda: relu(is_if(wildcard(), wildcard(), wildcard())), reused),
    "name": (lambda: add(is_var("x"), is_var("z")), main),
    "name: of a function": (lambda: is_gv("other")(wildcard()), calls),
    "name: of an outside function": (
        lambda: is_op("relax.call_pure_packed")(ExternFuncPattern("inside"), wildcard()),
        calls,
    ),
    "shared value": (shared_wildcard, main),
    "rejected": (lambda: relu(~exp(wildcard())), reused),
    "extent: no way to share out": (two_runs, sized),
    "extent: fixed by another run": (runs_of_two_concats, joined_twice),
    "extent: too short": (lambda: concat(is_tuple([repeat(wildcard(), min=4)])), sized),
    "extent: too few": (lambda: parallel(min=4), sized),
    "extent: another length": (runs_of_two_tuples, sized),
    "not used": (lambda: used(False, 1), reused),
    "no candidate": (lambda: used(False), unused),
    "no candidate: alike": (lambda: alike(4), sized),
    "users": (lambda: relu(exp(wildcard()).users(1)), reused),
    "users: not bound here": (lambda: exp(wildcard().users(1)), reused),
    "extra user": (lambda: used(True), reused),
    "extra user: output": (lambda: used(True), output),
    "taken": (two_users, reused),
    "declined": (lambda: rule(lambda e, m: decline("the sum is needed")), main),
    "declined: itself": (lambda: rule(lambda e, m: e), main),
    "cycle": (swap, reused),
    "visible": (elsewhere, main),
    "error": (lambda: rule(lambda e, m: m[None]), main),
    "error: no expression": (lambda: rule(lambda e, m: "e"), main),
}
"""For each reason, as its kind and what is special: how to make a subject, and the program to explain it over."""
