"""Rules as people write them, with few annotations: Pyright's strict mode takes all of this (`test_strict`)."""

from typing import Any, no_type_check

import regraft as rx
from regraft.dpl import *
from regraft.script import relax as R
from regraft.testing import check_rule

x, y = wildcard(), wildcard()
product = is_op("relax.matmul")(x, y)
turned = is_op("relax.permute_dims")(product).has_attr({"axes": [1, 0]})


def turn(expr: rx.Expr, found: Matchings) -> Any:
    if found[x].ty.ndim != 2 or found[y].ty.ndim != 2:
        return rx.decline("no matrices")
    return R.matmul(R.permute_dims(found[y]), R.permute_dims(found[x]))


turn_products = rx.Rule(turned, turn, "turn products")
reversed_axes = rx.Rule(
    is_op("relax.permute_dims")(x), lambda expr, m: m[x] if m[x].ty.ndim == 1 and expr.attrs.axes is None else expr
)
square = rx.rule(lambda v: R.power(v, 2.0), lambda v: R.square(v), name="square")
double = rx.rule(lambda v, w: (v + w) + (v + w), lambda v, w: (v + w) * 2.0, name="double", approximate=1e-6)

with PatternContext() as context:
    left, right = wildcard(), wildcard()
    each = is_op("relax.matmul")(left, right)
    repeat(each, min=2, shared=[left])

same_weights = rx.Rule(
    context,
    lambda m, bindings: (
        {m[each][1]: m[each][0]} if m[right][0] is m[right][1] and not bindings[m[each][0]].attrs.out_dtype else {}
    ),
    "same weights",
)


@R.rewriter
class Twice:
    @R.function
    @no_type_check
    def pattern(a: R.Tensor):
        return R.nn.relu(R.nn.relu(a))

    @R.function
    @no_type_check
    def replacement(a: R.Tensor):
        return R.nn.relu(a)


rules = turn_products | square | double | Twice
program = rx.parse("""
@R.function
def main(x: R.Tensor((2, 2), "float32")):
    with R.dataflow():
        y = R.power(R.nn.relu(R.nn.relu(x)), R.const(2.0, "float32"))
        R.output(y)
    return y
""")
rewritten = rules(program)
rewritten.show()
print(check_rule(square, examples=3, near_misses=3), rx.explain(rules, program), rx.diff(program, rewritten))
print([step.rule for done in rx.transform.report(rules, program).passes for step in done.rewrote])
