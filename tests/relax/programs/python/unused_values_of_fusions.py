from tvm.relax import transform
from tvm.relax.dpl.pattern import is_op, wildcard
from tvm.script import relax as R
from tvm.script import ir as I


def t_dead_binding_before():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                dead = R.exp(x)
                a = R.add(x, x)
                b = R.nn.relu(a)
                R.output(b)
            return b

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_dead_after():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                dead = R.exp(b)
                R.output(b)
            return b

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_dead_matched():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                c = R.exp(x)
                R.output(c)
            return c

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_dead_user_of_inner():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                dead = R.exp(a)
                R.output(b)
            return b

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_dead_alias_and_field():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                al = b
                s = R.split(b, 2, axis=1)
                f = s[1]
                g = s[0]
                tt = (g, b)
                R.output(g)
            return g

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_dead_only_and_live():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                a1 = R.add(x, b)
                b1 = R.nn.relu(a1)
                c = R.exp(b1)
                R.output(b)
            return b

    return transform.FuseOpsByPattern([("p.ar", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_merge_dead():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                dead = R.exp(x)
                a = R.nn.relu(x)
                b = R.add(a, a)
                dead2 = R.exp(b)
                R.output(b)
            return b

    m = transform.FuseOpsByPattern(
        [("c.relu", is_op("relax.nn.relu")(wildcard())), ("c.add", is_op("relax.add")(wildcard(), wildcard()))]
    )(M)
    return transform.MergeCompositeFunctions()(m)


def t_merge_dead_composite():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            cls = M
            with R.dataflow():
                a = cls.f(x)
                b = cls.f(a)
                dead = cls.f(b)
                R.output(b)
            return b

        @R.function(private=True)
        def f(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"Composite": "c.relu", "Primitive": True})
            with R.dataflow():
                gv = R.nn.relu(x)
                R.output(gv)
            return gv

    return transform.MergeCompositeFunctions()(M)
