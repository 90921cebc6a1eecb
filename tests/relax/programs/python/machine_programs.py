"""The virtual machine: results, checks of arguments, inputs that are set, and functions that are saved."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import relax as R, ir as I, tirx as T


def built(mod):
    return relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())


def arr(*v):
    return tvm.runtime.tensor(np.array(v, "float32"))


@I.ir_module
class Packed:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Any:
        y = R.call_packed("langtest.add_one", x, ty_args=(R.Tensor(ndim=1, dtype="float32"),))
        return y


@I.ir_module
class Cast:
    @R.function
    def main(x: R.Any) -> R.Shape:
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        return R.shape([n + 1, m * 2, 3])


@I.ir_module
class Same:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Shape:
        n = T.int64()
        return R.shape([n])


@I.ir_module
class Branch:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32"
    ):
        if c:
            z = x
        else:
            z = y
        return z


@I.ir_module
class Tuples:
    @R.function
    def main(t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((2,), "float32"), R.Shape(ndim=1)))) -> R.Tuple(
        R.Shape(ndim=1), R.Tensor((2,), "float32")
    ):
        a = t[1]
        return (a[1], t[0])


@I.ir_module
class Strings:
    @R.function
    def main(x: R.Any) -> R.Any:
        return R.str("hello")

    @R.function
    def number(x: R.Any) -> R.Prim("int64"):
        return R.prim_value(3)

    @R.function
    def dt(x: R.Any) -> R.Any:
        return R.dtype("float16")

    @R.function
    def pair(x: R.Any):
        return (x, R.prim_value(1), R.shape([2, 3]))


def t_packed():
    tvm.register_global_func("langtest.add_one", lambda x: tvm.runtime.tensor(x.numpy() + 1), override=True)
    return built(Packed)["main"](arr(1, 2)).numpy()


def t_cast():
    vm = built(Cast)
    return list(vm["main"](tvm.runtime.tensor(np.zeros((2, 3), "float32"))))


def t_raises_cast_rank():
    built(Cast)["main"](arr(1, 2))


def t_raises_cast_dtype():
    built(Cast)["main"](tvm.runtime.tensor(np.zeros((2, 3), "int32")))


def t_raises_cast_kind():
    built(Cast)["main"]((arr(1),))


def t_raises_same():
    built(Same)["main"](arr(1, 2), arr(1, 2, 3))


def t_raises_count():
    built(Same)["main"](arr(1, 2))


def t_raises_name():
    built(Same)["other"]


def t_branch():
    vm = built(Branch)
    t = tvm.runtime.tensor(np.array(True))
    f = tvm.runtime.tensor(np.array(False))
    return [vm["main"](t, arr(1, 2), arr(3, 4)).numpy(), vm["main"](f, arr(1, 2), arr(3, 4)).numpy()]


def t_tuples():
    r = built(Tuples)["main"]((arr(1, 2), (arr(3, 4), tvm.runtime.ShapeTuple([7]))))
    return [len(r), list(r[0]), r[1].numpy()]


def t_raises_tuple_length():
    built(Tuples)["main"]((arr(1, 2),))


def t_number():
    return int(built(Strings)["number"](arr(1)))


def t_dtype():
    return str(built(Strings)["dt"](arr(1)))


def t_pair():
    r = built(Strings)["pair"](arr(1))
    return [r[0].numpy(), int(r[1]), list(r[2])]


def t_set_input():
    vm = built(Same)
    vm.set_input("main", arr(1, 2), arr(3, 4))
    vm.invoke_stateful("main")
    return list(vm.get_outputs("main"))


def t_set_input_named():
    vm = built(Branch)
    vm.set_input("main", c=tvm.runtime.tensor(np.array(True)), x=arr(1, 2), y=arr(3, 4))
    vm.invoke_stateful("main")
    return vm.get_outputs("main").numpy()


def t_save_function():
    vm = built(Branch)
    vm.save_function("main", "saved", tvm.runtime.tensor(np.array(True)), arr(1, 2), arr(3, 4), include_return=True)
    return vm["saved"]().numpy()


def t_save_function_no_return():
    vm = built(Branch)
    vm.save_function("main", "saved", tvm.runtime.tensor(np.array(True)), arr(1, 2), arr(3, 4), include_return=False)
    return vm["saved"]() is None


def t_time_evaluator():
    vm = built(Branch)
    r = vm.time_evaluator("main", tvm.cpu(), number=2)(tvm.runtime.tensor(np.array(True)), arr(1, 2), arr(3, 4))
    return [r.mean >= 0, len(r.results)]


def t_instrument():
    tvm.register_global_func("langtest.add_one", lambda x: tvm.runtime.tensor(x.numpy() + 1), override=True)
    vm = built(Packed)
    seen = []
    vm.set_instrument(lambda func, name, before, ret, *args: seen.append((name, before)))
    vm["main"](arr(1, 2))
    return [s for s in seen if "langtest" in s[0]]


@I.ir_module
class Rec:
    @R.function(pure=False)
    def count(n: R.Tensor((), "int64"), c: R.Tensor((), "bool")) -> R.Tensor((), "int64"):
        cls = Rec
        if c:
            m = R.call_packed("langtest.dec", n, ty_args=(R.Tensor((), "int64"),))
            d = R.call_packed("langtest.pos", m, ty_args=(R.Tensor((), "bool"),))
            r = cls.count(m, d)
        else:
            r = n
        return r


def t_recursion():
    tvm.register_global_func("langtest.dec", lambda x: tvm.runtime.tensor(x.numpy() - 1), override=True)
    tvm.register_global_func("langtest.pos", lambda x: tvm.runtime.tensor(np.array(bool(x.numpy() > 0))), override=True)
    return built(Rec)["count"](tvm.runtime.tensor(np.array(4, "int64")), tvm.runtime.tensor(np.array(True))).numpy()


@I.ir_module
class Assert:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool")) -> R.Tensor((), "bool"):
        _ = R.assert_op(c, c, format="no {}")
        return c


def t_assert():
    return built(Assert)["main"](tvm.runtime.tensor(np.array(True))).numpy()


def t_raises_assert():
    built(Assert)["main"](tvm.runtime.tensor(np.array(False)))
