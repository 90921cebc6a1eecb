import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_lift_equal():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.permute_dims(w)
                b = R.permute_dims(w)
                c = R.matmul(x, a)
                d = R.matmul(c, b)
                R.output(d)
            return d

    return transform.LiftTransformParams()(M)


def t_lift_alias():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = w
                b = R.permute_dims(a)
                e = b
                c = R.matmul(x, e)
                d = R.matmul(c, b)
                R.output(d)
            return d

    return transform.LiftTransformParams()(M)


def t_lift_const():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                z = R.zeros((4, 4), "float32")
                a = R.add(w, z)
                o = R.add(x, z)
                c = R.matmul(o, a)
                R.output(c)
            return c

    return transform.LiftTransformParams()(M)


def t_lift_output_is_weight():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.add(w, w)
                c = R.matmul(x, a)
                R.output(a, c)
            return a, c

    return transform.LiftTransformParams()(M)


def t_lift_two_blocks():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.add(w, w)
                c = R.matmul(x, a)
                R.output(c, a)
            with R.dataflow():
                e = R.multiply(a, w)
                f = R.matmul(c, e)
                R.output(f)
            return f

    return transform.LiftTransformParams()(M)


def t_lift_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 2), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                s = R.split(w, 2, axis=0)
                a = s[0]
                b = s[1]
                c = R.matmul(x, a)
                d = R.matmul(x, b)
                e = R.add(c, d)
                R.output(e)
            return e

    return transform.LiftTransformParams()(M)


def t_seq_lift_bundle():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.permute_dims(w)
                c = R.matmul(x, a)
                d = R.add(c, v)
                R.output(d)
            return d

    return tvm.transform.Sequential([transform.LiftTransformParams(), transform.BundleModelParams()])(M)


def t_seq_combine_lift():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.matmul(x, v)
                R.output(a, b)
            return a, b

    return tvm.transform.Sequential([transform.CombineParallelMatmul(), transform.LiftTransformParams()])(M)


def t_seq_flow_canon():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            a = R.matmul(x, w)
            b = a
            t = (a, b)
            c = t[1]
            d = R.add(c, w)
            return d

    return tvm.transform.Sequential(
        [transform.ConvertToDataflow(), transform.CanonicalizeBindings(), transform.DeadCodeElimination()]
    )(M)


def t_seq_canon_flow():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            a = R.matmul(x, w)
            b = a
            _ = R.print(b, format="{}")
            c = R.add(b, w)
            d = R.add(c, a)
            e = d
            return e

    return tvm.transform.Sequential([transform.CanonicalizeBindings(), transform.ConvertToDataflow()])(M)


def t_seq_lift_canon():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.permute_dims(w)
                b = a
                c = R.permute_dims(x)
                d = R.matmul(c, b)
                e = d
                R.output(e)
            return e

    return tvm.transform.Sequential(
        [
            transform.CanonicalizeBindings(),
            transform.LiftTransformParams(),
            transform.ConvertToDataflow(),
            transform.CanonicalizeBindings(),
        ]
    )(M)


def t_seq_flow_lift():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            a = R.permute_dims(w)
            b = R.add(a, a)
            d = R.matmul(x, b)
            return d

    return tvm.transform.Sequential([transform.ConvertToDataflow(), transform.LiftTransformParams()])(M)


def t_seq_lift_no_flow():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            a = R.permute_dims(w)
            b = R.add(a, a)
            d = R.matmul(x, b)
            return d

    return transform.LiftTransformParams()(M)


def t_lift_branch():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                a = R.permute_dims(w)
                R.output(a)
            if c:
                y = R.matmul(x, a)
            else:
                y = R.add(x, a)
            return y

    return transform.LiftTransformParams()(M)
