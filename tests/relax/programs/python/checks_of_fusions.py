"""The operands of a check of a fusion."""

import tvm
from tvm import relax
from tvm.relax.transform import FusionPattern
from tvm.relax.dpl import is_op, wildcard
from tvm.script import relax as R, ir as I


@I.ir_module
class Mod:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, w)
            d = R.nn.relu(c)
            R.output(d)
        return d


mm = is_op("relax.matmul")(wildcard(), wildcard())
mr = is_op("relax.nn.relu")(mm)


def seen(f, pattern=mr):
    out = []

    def check(ctx):
        out.append(f(ctx))
        return True

    relax.transform.FuseOpsByPattern([FusionPattern("a.mr", pattern, {"mm": mm}, check)])(Mod)
    return out


def name(v):
    return v.name_hint if hasattr(v, "name_hint") else v.name


def t_keys():
    return seen(lambda c: sorted(c.annotated_expr))


def t_usages():
    return seen(
        lambda c: {name(k): [name(v) for v in vs] for k, vs in sorted(c.var_usages.items(), key=lambda i: name(i[0]))}
    )


def t_expr():
    return seen(lambda c: type(c.matched_expr).__name__ + c.matched_expr.op.name)
