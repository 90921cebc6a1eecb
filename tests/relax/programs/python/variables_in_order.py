import tvm
from tvm import relax
from tvm import relax as rx
from tvm.relax.dpl import PatternContext, is_call_dps_packed, is_op, is_var, wildcard
from tvm.relax.analysis import (
    all_global_vars,
    all_vars,
    bound_vars,
    free_vars,
    name_to_binding,
    remove_all_unused,
    used_vars,
)
from tvm.script import relax as R


def t_edge_if_used():
    @tvm.script.ir_module
    class IdentityUnused:
        @R.function
        def main(cond: R.Tensor((), "bool"), x: R.Tensor((32, 32), "float32")) -> R.Tensor((32, 32), "float32"):
            if cond:
                dead0 = R.exp(x)
                y = R.add(x, x)
                w = y
            else:
                z = R.multiply(x, x)
                dead = R.exp(z)
                w = z
            q = R.exp(w)
            return w

    return remove_all_unused(IdentityUnused["main"])


def t_name_to_binding_var_shadowing():
    @R.function
    def main(x: R.Tensor((32, 32), "float32")):
        with R.dataflow():
            lv0 = x
            lv1 = lv0
            R.output(lv1)
        with R.dataflow():
            lv0 = lv1
            lv2 = lv0
            R.output(lv2)
        return lv2

    nb = name_to_binding(main)
    return sorted((str(k), len(v)) for k, v in nb.items())


def t_bound_vars():
    func = VarExample["func"]
    a = {v.name for v in bound_vars(func)}
    return (
        sorted(a),
        [v.name for v in bound_vars(func.body)],
        [v.name for v in bound_vars(func.body.blocks[0].bindings[0].value)],
    )


@tvm.script.ir_module
class VarExample:
    @R.function
    def func(a: R.Tensor) -> R.Tensor:
        return R.add(a, a)

    @R.function
    def main(x: R.Tensor, y: R.Tensor) -> R.Tensor:
        z = R.add(x, y)
        p: R.Tensor = VarExample.func(z)
        q = p
        x = R.add(x, y)
        return R.add(p, x)


def t_free_vars():
    func = VarExample["func"]
    main = VarExample["main"]
    return [
        [v.name for v in free_vars(e)]
        for e in (
            func,
            func.body,
            main,
            main.body,
            main.body.blocks[0].bindings[0].value,
            main.body.blocks[0].bindings[1].value,
        )
    ]


def t_all_vars():
    main = VarExample["main"]
    return (
        [[v.name for v in all_vars(e)] for e in (main, main.body)],
        [[v.name for v in bound_vars(e)] for e in (main, main.body)],
        [sorted(v.name for v in used_vars(e)) for e in (main, main.body)],
    )


def t_all_global_vars():
    main = VarExample["main"]
    return [[v.name_hint for v in all_global_vars(e)] for e in (VarExample["func"], main, main.body)]


def t_free_vars_of_closure():
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def inner(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            s = R.add(a, y)
            return s

        z = inner(x)
        return z

    inner = main.body.blocks[0].bindings[0].value
    return (
        [v.name for v in free_vars(inner)],
        [v.name for v in bound_vars(inner)],
        [v.name for v in all_vars(inner)],
        [v.name for v in free_vars(main)],
        [v.name for v in bound_vars(main)],
        [v.name for v in all_vars(main)],
    )


def t_remove_two_blocks():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            R.output(a, b)
        with R.dataflow():
            c = R.add(b, b)
            R.output(c)
        return x

    return remove_all_unused(main)


def t_operands_in_order():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    return [v.name for v in all_vars(relax.op.add(y, relax.op.add(x, y)))]


def t_what_is_matched_in_a_block():
    @R.function
    def f(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            R.output(b)
        return b

    with PatternContext() as ctx:
        p = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), is_var("w")))
        d = ctx.match_dfb(f.body.blocks[0])
    return sorted((type(k).__name__, v.name) for k, v in d.items())


def names(d):
    return sorted((type(k).__name__, v.name) for k, v in d.items())


def t_call_dps():
    @R.function
    def f(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.call_dps_packed("k1", (x,), R.Tensor((2, 2), "float32"))
            b = R.call_dps_packed("k2", (a, x), R.Tensor((2, 2), "float32"))
            R.output(b)
        return b

    with PatternContext() as ctx:
        a = is_call_dps_packed("k1")
        b = is_call_dps_packed("k2")
        a >> b
        d = ctx.match_dfb(f.body.blocks[0])
    return names(d), d[a].name, d[b].name
