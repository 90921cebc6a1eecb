from tvm import relax
from tvm.script import relax as R, ir as I, tirx as T


def t_pools():
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        y = R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1), out_dtype="float16")
        z = R.nn.max_pool2d(y, (2, 2), ceil_mode=True)
        a = R.nn.adaptive_avg_pool2d(z, (1, 1))
        return a

    return main.script()


def t_attributes_of_a_private_function():
    @R.function(private=True)
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"Composite": "a.b", "n": 3, "flag": True, "l": [1, 2], "f": 1.5, "d": {"k": "v"}})
        return x

    return f.script()


def t_strings_of_blocks():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    blk = relax.BindingBlock([relax.VarBinding(y, relax.op.add(x, x))])
    seq = relax.SeqExpr([blk], y)
    f = relax.Function([x], seq, R.Tensor((2,), "float32"))
    return [str(blk), str(seq), str(f)]


def t_recursion_and_main():
    @I.ir_module
    class M:
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            c = R.less(i, R.const(10, "int32"))
            if c:
                i1 = R.add(i, R.const(1, "int32"))
                s1 = R.add(s, s)
                r = M.loop(i1, s1)
            else:
                r = s
            return r

        @R.function
        def main(s: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return M.loop(R.const(0, "int32"), s)

    return M.script()


def t_main_stands_last():
    @I.ir_module
    class M:
        @R.function
        def main(
            f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"), True), x: R.Tensor((2,), "float32")
        ) -> R.Tensor((2,), "float32"):
            r = f(x)
            return r

        @R.function(private=True)
        def priv(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return x

    return M.script()


def t_strings_of_bindings():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    dx = relax.DataflowVar("dx", R.Tensor((2,), "float32"))
    gv = relax.Var("gv", R.Tensor((2,), "float32"))
    blk = relax.DataflowBlock([relax.VarBinding(dx, relax.op.add(x, x)), relax.VarBinding(gv, relax.op.add(dx, x))])
    return [
        str(blk),
        str(relax.MatchCast(gv, x, R.Tensor((2,), "float32"))),
        str(relax.VarBinding(gv, relax.Tuple([x, x]))),
    ]


def t_names_with_numbers():
    @I.ir_module
    class M:
        @R.function
        def f_1(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function
        def f(x: R.Tensor((2,), "float32")):
            cls = M
            a: R.Tensor((2,), "float32") = cls.f_1(x)
            b = cls.f_1(a)
            return (a, b)

    return M.script()


def t_names_of_lone_functions():
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        gv: R.Tensor((2,), "float32") = R.nn.relu(x)
        return gv

    return [
        main.script(),
        main.without_attr("global_symbol").script(),
        main.with_attr("k", 1).script(),
        main.with_attr("global_symbol", "other").script(),
    ]


def t_branch_on_a_number():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        if R.prim_value(True):
            y = R.add(x, x)
        else:
            y = x
        return y

    return main.script()


def t_branch_on_a_size():
    @R.function
    def main(x: R.Tensor(("N",), "float32"), n: R.Prim("int64")):
        N = T.int64()
        if R.prim_value(N % 4 == 0):
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    return main.script()


def t_branch_on_sizes():
    @R.function
    def main(x: R.Tensor(("N",), "float32")):
        N = T.int64()
        if R.prim_value(T.Or(N % 4 == 0, N < 3)):
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        b = R.prim_value(N < 3)
        return y

    return main.script()


def t_unnamed_values_are_numbered_by_their_place():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32"), gv: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(R.exp(x))
            with R.dataflow():
                b = R.add(R.exp(a), R.log(a))
                d = R.add(R.exp(b), b)
                R.output(d)
            e = R.exp(R.exp(d))
            s = R.match_cast(e, R.Tensor((2,), "float32"))
            if c:
                q = R.exp(R.exp(e))
                r = R.exp(R.exp(q))
            else:
                r = R.exp(R.exp(e))

            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                w = R.exp(R.exp(y))
                return R.exp(R.exp(w))

            h = inner(R.exp(r))
            return (R.exp(h), R.exp(R.exp(h)), gv)

        @R.function
        def g(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                lv = R.exp(R.exp(x))
                lv1 = R.exp(R.exp(lv))
                gv = lv1
                R.output(gv)
            y = gv
            return R.exp(R.exp(y))

    return M.script()


def t_padding():
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        y = R.nn.pad(x, (1, 1, 2, 2), "constant", 1.0)
        z = R.eye_like(y, 1)
        return (y, z)

    return main.script()
