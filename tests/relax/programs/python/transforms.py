import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I


def t_checkpoint_chain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.power(s, R.const(3, "float32"))
                b = R.sin(a)
                c = R.cos(b)
                e = R.grad.end_checkpoint(c)
                gv = R.sum(e)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_checkpoint_two():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.multiply(s, y)
                e = R.grad.end_checkpoint(a)
                s2 = R.grad.start_checkpoint(e)
                b = R.exp(s2)
                c = R.sin(b)
                e2 = R.grad.end_checkpoint(c)
                gv = R.sum(e2)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32")), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = x[0]
                b = x[1]
                c = R.multiply(a, b)
                d = R.add(c, y)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_split():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((6,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                a = s[0]
                b = R.multiply(a, y)
                gv = R.sum(b)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_split_both():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((6,), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                a = s[0]
                b = s[1]
                c = R.multiply(a, b)
                gv = R.sum(c)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_concat():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                t = (x, y)
                c = R.concat(t)
                d = R.multiply(c, c)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return relax.transform.Gradient("main")(M)


def t_target_index():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.sum(a)
                R.output(a, b)
            return (b, a)

    return relax.transform.Gradient("main", target_index=0)(M)


def t_mixed():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32")) -> R.Tensor((4, 3), "float32"):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                c = R.matmul(b, w)
                R.output(c)
            return c

    return relax.transform.ToMixedPrecision()(M)


def t_mixed_wide():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32")) -> R.Tensor(dtype="float32", ndim=2):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.exp(a)
                R.output(b)
            return b

    return relax.transform.ToMixedPrecision()(M)


def t_mixed_names():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.matmul(a, w)
                R.output(a, b)
            return (a, b)

    return relax.transform.ToMixedPrecision(out_dtype="float16", fp16_input_names=["w"])(M)


def t_fuse_names():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                c = R.matmul(b, w)
                d = R.nn.relu(c)
                R.output(d)
            return d

    from tvm.relax.dpl import is_op, wildcard

    p = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))
    return relax.transform.FuseOpsByPattern([("a.mm", p)])(M), relax.transform.FuseOpsByPattern(
        [("a.mm", p)], bind_constants=False, annotate_codegen=True
    )(M)


def t_disabled():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 3), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.sin(x)
                R.output(b)
            return b

    with tvm.transform.PassContext(opt_level=3, disabled_pass=["DeadCodeElimination"]):
        m = tvm.transform.Sequential([relax.transform.DeadCodeElimination()])(M)
        n = relax.transform.DeadCodeElimination()(M)
    return m, n
