import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R


def mod():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = a
                c = R.add(x, y)
                d = R.multiply(b, c)
                u = R.exp(d)
                R.output(d)
            return d

    return M


def plain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.add(x, y)
            b = a
            d = R.multiply(b, a)
            u = R.exp(d)
            return d

    return M


def lift():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.permute_dims(y)
                d = R.matmul(x, a)
                R.output(d)
            return d

    return M


def lev(p, m, level):
    with tvm.transform.PassContext(opt_level=level):
        return [p(m), tvm.transform.Sequential([p])(m), tvm.transform.Sequential([p], opt_level=2)(m)]


def t_canon0():
    return lev(transform.CanonicalizeBindings(), mod(), 0)


def t_canon1():
    return lev(transform.CanonicalizeBindings(), mod(), 1)


def t_dce0():
    return lev(transform.DeadCodeElimination(), mod(), 0)


def t_cse0():
    return lev(transform.EliminateCommonSubexpr(), mod(), 0)


def t_cse1():
    return lev(transform.EliminateCommonSubexpr(), mod(), 1)


def t_flow1():
    return lev(transform.ConvertToDataflow(), plain(), 1)


def t_lift0():
    return lev(transform.LiftTransformParams(), lift(), 0)


def t_lift1():
    return lev(transform.LiftTransformParams(), lift(), 1)


def t_norm0():
    return lev(transform.Normalize(), mod(), 0)


def t_bundle0():
    return lev(transform.BundleModelParams(), lift(), 0)


def t_grad0():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.sum(a)
                R.output(b)
            return b

    return lev(transform.Gradient("main"), M, 0)


def t_dec_inf():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = R.nn.layer_norm(x, y, y, axes=[-1])
                R.output(a)
            return a

    return lev(transform.DecomposeOpsForInference(), M, 0)


def t_dec_train():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = R.nn.layer_norm(x, y, y, axes=[-1])
                R.output(a)
            return a

    return lev(transform.DecomposeOpsForTraining(), M, 0)


def t_mixed0():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, y)
                R.output(a)
            return a

    return lev(transform.ToMixedPrecision(), M, 0)


def t_no_level6():
    return relax.transform.function_pass(opt_level=1)(lambda f, m, c: f).info.name


def t_no_level7():
    return relax.transform.function_pass(lambda f, m, c: f, opt_level=1).info.name


def t_no_level8():
    return relax.transform.function_pass(lambda f, m, c: f, 3, "k").info.name


def t_a_function_pass_without_a_level():
    return relax.transform.function_pass(lambda function, module, context: function, name="pass")


def t_a_module_pass_without_a_level():
    return tvm.transform.module_pass(lambda module, context: module, name="pass")


def t_a_level_that_is_no_int():
    return relax.transform.function_pass(lambda function, module, context: function, opt_level=0.5)


def t_levels():
    passes = [
        transform.AdjustMatmulOrder(),
        transform.BindSymbolicVars({}),
        transform.BundleModelParams(),
        transform.CanonicalizeBindings(),
        transform.CombineParallelMatmul(),
        transform.DeadCodeElimination(),
        transform.EliminateCommonSubexpr(),
        transform.ExpandMatmulOfSum(),
        transform.LambdaLift(),
        transform.Normalize(),
        transform.ReorderPermuteDimsAfterConcat(),
        transform.ReorderTakeAfterMatmul(),
        transform.ToMixedPrecision(),
        transform.UpdateParamType(lambda var: None),
    ]
    return [(one.info.name, one.info.opt_level) for one in passes]
