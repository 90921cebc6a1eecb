import tvm
import numpy as np
import pytest
from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I


@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        z = R.add(x, y)
        return z

    @R.function
    def tup(x: R.Tensor(("n",), "float32")):
        a = R.exp(x)
        b = R.add(x, x)
        return (a, (b, x))

    @R.function
    def shape(x: R.Tensor(("n", "m"), "float32")):
        s = R.shape_of(x)
        return s

    @R.function
    def noargs():
        a = R.ones((2, 2), "float32")
        return a


def vm(mod=None):
    ex = tvm.compile(mod or M, "llvm")
    return relax.VirtualMachine(ex, tvm.cpu())


def t(a):
    return tvm.runtime.tensor(np.asarray(a))


X = np.arange(6, dtype="float32").reshape(2, 3)


def t_outputs_tuple():
    v = vm()
    v.set_input("tup", t(X[0]))
    v.invoke_stateful("tup")
    o = v.get_outputs("tup")
    return o[0].numpy(), o[1][0].numpy(), o[1][1].numpy()


def t_shape():
    s = vm()["shape"](t(X))
    return list(s), isinstance(s, tvm.runtime.ShapeTuple)


def t_build_pipeline():
    ex = relax.build(M, "llvm", relax_pipeline="default")
    return relax.VirtualMachine(ex, tvm.cpu())["main"](t(X), t(X)).numpy()


def t_build_pipeline_zero():
    with pytest.raises(ValueError):
        relax.build(M, "llvm", relax_pipeline="nonsense")


def t_pipeline_names():
    return (
        callable(relax.get_pipeline("zero")),
        callable(relax.get_pipeline()),
        callable(relax.pipeline.zero_pipeline()),
    )


def t_unknown_pipeline():
    with pytest.raises(ValueError):
        relax.get_pipeline("nothing")


def t_register_twice():
    name = "rlx_pipe2_%d" % id(object())

    def g():
        @tvm.transform.module_pass(opt_level=0)
        def _p(mod, ctx):
            return mod

        return _p

    relax.register_pipeline(name)(g)
    with pytest.raises(ValueError):
        relax.register_pipeline(name)(g)


def t_custom_pipeline_build():
    @tvm.transform.module_pass(opt_level=0)
    def pipe(mod, ctx):
        return relax.get_default_pipeline(tvm.target.Target("llvm"))(mod)

    ex = relax.build(M, "llvm", relax_pipeline=pipe)
    return relax.VirtualMachine(ex, tvm.cpu())["main"](t(X), t(X)).numpy()


def t_build_registered_pipeline():
    name = "rlx_pipe3_%d" % id(object())
    log = []

    @relax.register_pipeline(name)
    def g():
        @tvm.transform.module_pass(opt_level=0)
        def _p(mod, ctx):
            log.append(1)
            return relax.get_default_pipeline(tvm.target.Target("llvm"))(mod)

        return _p

    ex = relax.build(M, "llvm", relax_pipeline=name)
    return relax.VirtualMachine(ex, tvm.cpu())["main"](t(X), t(X)).numpy(), log
