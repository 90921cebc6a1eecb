import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_realize_from_hints():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.hint_on_device(x, tvm.cpu())
                b = R.add(a, y)
                c = R.multiply(b, R.const(2.0))
                R.output(c)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_realize_declared():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32", "llvm:0"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            with R.dataflow():
                b = R.add(x, y)
                c = R.multiply(b, b)
                R.output(c)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_realize_backward():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32", "cuda"):
            with R.dataflow():
                b = R.add(x, y)
                c: R.Tensor((2, 3), "float32", "cuda") = R.multiply(b, b)
                R.output(c)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_realize_to_vdevice():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.hint_on_device(x, tvm.cpu())
                b = R.add(a, y)
                c = R.to_vdevice(b, I.vdevice("cuda", 0))
                d = R.multiply(c, c)
                R.output(d)
            return d

    return transform.RealizeVDevice()(Before)["main"]


def t_update_vdevice():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32", "llvm:0"), y: R.Tensor((2, 3), "float32", "llvm:0")):
            with R.dataflow():
                b = R.add(x, y)
                R.output(b)
            return b

    return transform.UpdateVDevice(relax.VDevice("llvm", 1), 0)(Before)["main"].ret_ty.vdevice.vdevice_id


def t_hint_twice():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.hint_on_device(x, tvm.cpu())
                a1 = R.hint_on_device(y, tvm.cpu())
                b = R.add(a, a1)
                h = R.hint_on_device(b, tvm.cuda())
                d = R.multiply(h, h)
                R.output(d)
            return d

    return transform.RealizeVDevice()(Before)["main"]


def t_zeros():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            z = R.zeros((2, 3), "float32")
            a = R.hint_on_device(x, tvm.cpu())
            b = R.add(a, z)
            c = R.sum(b)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_tuples():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))):
            a = R.hint_on_device(x, tvm.cpu())
            b = R.split(a, 3, axis=1)
            c = b[0]
            u = t[0]
            v = R.add(u, a)
            w = (v, u)
            d = R.concat(w)
            return (c, d)

    return transform.RealizeVDevice()(Before)["main"]


def t_branch():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
            a = R.hint_on_device(x, tvm.cpu())
            if c:
                b = R.add(a, a)
            else:
                b = R.exp(x)
            d = R.exp(b)
            return d

    return transform.RealizeVDevice()(Before)["main"]


def t_late_hint():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            b = R.add(x, y)
            c = R.exp(b)
            d = R.hint_on_device(c, tvm.cpu())
            e = R.exp(x)
            return (d, e)

    return transform.RealizeVDevice()(Before)["main"]


def t_conflict():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.hint_on_device(x, tvm.cpu())
            b = R.hint_on_device(x, tvm.opencl())
            c = R.add(b, b)
            d = R.add(a, a)
            return (c, d)

    return transform.RealizeVDevice()(Before)["main"]


def t_conflict2():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.hint_on_device(x, tvm.cpu())
            b = R.hint_on_device(y, tvm.opencl())
            c = R.add(a, b)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_unknowndev():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.hint_on_device(x, tvm.opencl())
            c = R.add(a, a)
            return c

    return transform.RealizeVDevice()(Before)["main"]


def t_unreached():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.exp(x)
            return a

    return transform.RealizeVDevice()(Before)["main"]


def t_kill():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            storage = R.memory.alloc_storage(R.shape([24]), 0, "global", "float32")
            y = R.memory.alloc_tensor(storage, 0, R.shape([2, 3]), "float32")
            _ = R.call_packed("f", x, y, ty_args=(R.Tuple,))
            z = R.add(x, x)
            w = R.multiply(z, y)
            v = R.exp(w)
            return v

    return transform.KillAfterLastUse()(Before)


def t_kill_tuple():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.add(x, x)
            t = (a, x)
            b = t[0]
            c = R.exp(b)
            return c

    return transform.KillAfterLastUse()(Before)


def t_kill_unused():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.add(x, x)
            _1 = R.call_packed("g", a, ty_args=(R.Object,))
            b = R.exp(x)
            return b

    return transform.KillAfterLastUse()(Before)


def t_kill_alias():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            storage = R.memory.alloc_storage(R.shape([24]), 0, "global", "float32")
            y = R.memory.alloc_tensor(storage, 0, R.shape([2, 3]), "float32")
            r = R.reshape(y, (3, 2))
            q = y
            s = R.exp(q)
            return s

    return transform.KillAfterLastUse()(Before)


def t_lower_alloc():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.builtin.alloc_tensor(R.shape([2, 3]), "float32", 0)
            return a

    return transform.LowerAllocTensor()(Before)


def t_lower_alloc_dynamic():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 3), "float16")):
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n, 3]), "float16", 0)
            b = R.builtin.alloc_tensor(R.shape([4]), "bool", 0)
            _ = R.call_packed("f", x, a, b, ty_args=(R.Tuple,))
            return a

    return transform.LowerAllocTensor()(Before)


def t_lower_then_kill():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.builtin.alloc_tensor(R.shape([2, 3]), "float32", 0)
            _ = R.call_packed("f", x, a, ty_args=(R.Tuple,))
            b = R.builtin.alloc_tensor(R.shape([2, 3]), "float32", 0)
            _1 = R.call_packed("f", a, b, ty_args=(R.Tuple,))
            return b

    return tvm.transform.Sequential([transform.LowerAllocTensor(), transform.KillAfterLastUse()])(Before)


def t_to_non_dataflow_remove():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                R.output(a)
            return a

    return tvm.transform.Sequential([transform.ToNonDataflow(), transform.RemovePurityChecking()])(Before)


def t_lower_runtime_memory():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            R.func_attr({"relax.force_pure": True})
            storage = R.memory.alloc_storage(R.shape([24]), 0, "global", "uint8")
            a = R.memory.alloc_tensor(storage, 0, R.shape([2, 3]), "float32")
            _ = R.memory.kill_tensor(a)
            _1 = R.memory.kill_storage(storage)
            return x

    return transform.LowerRuntimeBuiltin()(Before)


def t_lower_runtime_shapes():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), t: R.Tensor((2,), "int64"), c: R.Tensor((), "bool")):
            R.func_attr({"relax.force_pure": True})
            s = R.shape_of(x)
            u = R.tensor_to_shape(t)
            z = R.memory.ensure_zero_offset(x)
            if c:
                y = R.reshape(z, (3, 2))
            else:
                y = R.reshape(x, (3, 2))
            return (s, u, y)

    return transform.VMBuiltinLower()(Before)


def t_lower_runtime_without_a_storage():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            R.func_attr({"relax.force_pure": True})
            a = R.builtin.alloc_tensor(R.shape([2, 3]), "float32", 0)
            return a

    return transform.LowerRuntimeBuiltin()(Before)
