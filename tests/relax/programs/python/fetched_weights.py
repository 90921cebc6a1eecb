from tvm import relax
from tvm.relax.transform import LazyTransformParams, LazyGetInput, LazySetOutput, ToNonDataflow, RemovePurityChecking
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class Conv:
    @R.function
    def main_transform_params(
        params: R.Tuple(R.Tensor((3, 16, 3, 3), "float32"), R.Tensor((16, 16, 3, 3), "float32")),
    ) -> R.Tuple(R.Tensor((16, 16, 3, 3), "float32"), R.Tensor((16, 3, 3, 3), "float32")):
        R.func_attr({"relax.force_pure": True})
        lv: R.Tensor((16, 16, 3, 3), "float32") = params[1]
        lv1: R.Tensor((3, 16, 3, 3), "float32") = params[0]
        lv2: R.Tensor((16, 3, 3, 3), "float32") = R.permute_dims(lv1, axes=[1, 0, 2, 3])
        gv: R.Tuple(R.Tensor((16, 16, 3, 3), "float32"), R.Tensor((16, 3, 3, 3), "float32")) = (lv, lv2)
        return gv


@I.ir_module
class Flow:
    @R.function
    def main_transform_params(
        params: R.Tuple(R.Tensor((3, 16), "float32"), R.Tensor((16, 16), "float32"), R.Tensor((4,), "float32")),
    ) -> R.Tuple(R.Tensor((16, 16), "float32"), R.Tensor((16, 3), "float32"), R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = params[1]
            lv1 = params[0]
            lv2 = R.permute_dims(lv1, axes=[1, 0])
            lv3 = R.multiply(lv, lv)
            lv4 = params[2]
            gv = (lv3, lv2, lv4)
            R.output(gv)
        return gv


def lazy(mod, *args, **keywords):
    return LazyTransformParams(*args, **keywords)(mod)


def prepared(mod):
    mod = ToNonDataflow()(mod)
    return RemovePurityChecking()(mod)


def t_plain():
    return lazy(Conv)


def t_flow():
    return lazy(prepared(Flow))


def t_no_set():
    return lazy(prepared(Flow), fset_item=None)


def t_other_names():
    return lazy(prepared(Flow), "g.i", "s.i")


def t_extra():
    fget = relax.Var("loader", relax.AnyType())
    fset = relax.Var("saver", relax.AnyType())
    return lazy(prepared(Flow), extra_get_item_params=[fget], extra_set_item_params=[fset])


def t_extra_get_only():
    fget = relax.Var("loader", relax.AnyType())
    return lazy(prepared(Flow), extra_get_item_params=[fget], fset_item=None)


def t_num_input():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(
            n: R.Tensor((), "int64"), params: R.Tuple(R.Tensor((3, 16), "float32"), R.Tensor((16, 16), "float32"))
        ) -> R.Tuple(R.Tensor((16, 3), "float32"), R.Tensor((16, 16), "float32")):
            R.func_attr({"relax.force_pure": True, "num_input": 1})
            a = params[0]
            b = R.permute_dims(a)
            c = params[1]
            d = R.add(c, c)
            e = (b, d)
            return e

    return lazy(M)


def t_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(
            params: R.Tuple(R.Tensor((3, "ic"), "float32"), R.Tensor((16, 16), "float32"), R.Shape(["ic"])),
        ) -> R.Tuple(R.Tensor(("ic", 3), "float32"), R.Tensor((16, 16), "float32")):
            R.func_attr({"relax.force_pure": True})
            ic = T.int64()
            a: R.Tensor((3, ic), "float32") = params[0]
            b: R.Tensor((ic, 3), "float32") = R.permute_dims(a)
            c = params[1]
            e = (b, c)
            return e

    return lazy(M)


def t_symbolic_all():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(
            params: R.Tuple(R.Tensor(("oc", "ic"), "float32"), R.Tensor((16, 16), "float32"), R.Shape(["oc", "ic"])),
        ) -> R.Tuple(R.Tensor(("ic", "oc"), "float32"), R.Tensor((16, 16), "float32")):
            R.func_attr({"relax.force_pure": True})
            ic = T.int64()
            oc = T.int64()
            c = params[1]
            a: R.Tensor((oc, ic), "float32") = params[0]
            b: R.Tensor((ic, oc), "float32") = R.permute_dims(a)
            e = (b, c)
            return e

    return lazy(M)


def t_duplicate_outputs():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([16], "int32"), R.Tensor([16], "int32"))) -> R.Tuple(
            R.Tensor([16], "int32"), R.Tensor([16], "int32"), R.Tensor([16], "int32")
        ):
            R.func_attr({"relax.force_pure": True})
            param0 = params[0]
            param1 = params[1]
            transformed0 = R.add(param0, R.const(1, "int32"))
            transformed1 = R.add(param1, R.const(2, "int32"))
            output = (transformed0, transformed0, transformed1)
            return output

    return lazy(M)


def t_constant_output():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([16], "int32"), R.Tensor([16], "int32"))):
            R.func_attr({"relax.force_pure": True})
            param0 = params[0]
            transformed0 = R.add(param0, R.const(1, "int32"))
            output = (transformed0, R.const(3, "int32"), R.prim_value(4))
            return output

    return lazy(M)


def t_params_without_tuple():
    @I.ir_module
    class M:
        @R.function
        def transform_params(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            C = R.multiply(A, R.const(2, "float32"))
            D = R.add(C, B)
            output = (D, B)
            return output

    return lazy(M), lazy(M, fset_item=None)


def t_params_without_tuple_num_input():
    @I.ir_module
    class M:
        @R.function
        def transform_params(
            relax_rank: R.Prim("int64"), A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")
        ):
            R.func_attr({"num_input": 1})
            rank = T.int64()
            C = R.multiply(A, R.const(2, "float32"))
            D = R.add(C, B)
            output = (D, B)
            return output

    return lazy(M)


def t_retain_before_num_input():
    @I.ir_module
    class M:
        @R.function
        def transform_params(
            relax_rank: R.Prim("int64"), A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")
        ):
            R.func_attr({"num_input": 1})
            rank = T.int64()
            C = R.multiply(A, R.const(2, "float32"))
            D = R.strided_slice(B, axes=[0], begin=[rank * 8], end=[(rank + 1) * 8])
            output = (C, D)
            return output

    return lazy(M, fset_item=None)


def t_used_twice():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([16], "int32"), R.Tensor([16], "int32"))):
            R.func_attr({"relax.force_pure": True})
            a = params[0]
            b = R.add(a, a)
            c = params[1]
            d = R.multiply(b, c)
            e = R.subtract(d, a)
            o = (d, e, b)
            return o

    return lazy(M), lazy(M, fset_item=None)


def t_two_functions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor([16], "int32"), params: R.Tuple(R.Tensor([16], "int32"))):
            a = params[0]
            b = R.add(x, a)
            return b

        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([16], "int32"))):
            R.func_attr({"relax.force_pure": True})
            a = params[0]
            b = R.add(a, a)
            o = (b,)
            return o

    return lazy(M)


def t_inline_tuple_result():
    @I.ir_module
    class M:
        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([16], "int32"), R.Tensor([16], "int32"))):
            R.func_attr({"relax.force_pure": True})
            a = params[0]
            b = R.add(a, a)
            return (b, a)

    return lazy(M, fset_item=None)


def t_get_input():
    @I.ir_module
    class M:
        @R.function
        def transform_params(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            R.func_attr({"num_input": 0})
            C = R.multiply(A, R.const(2, "float32"))
            D = R.add(C, B)
            return (D, B)

    return LazyGetInput()(M), LazySetOutput()(M), LazySetOutput()(LazyGetInput()(M)), LazyGetInput()(LazySetOutput()(M))


def t_get_input_num():
    @I.ir_module
    class M:
        @R.function
        def transform_params(
            rank_arg: R.Prim("int64"), A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")
        ):
            R.func_attr({"num_input": 1})
            rank = T.int64()
            C = R.multiply(A, R.const(2, "float32"))
            D = R.add(C, B)
            return (D, B)

    return LazyGetInput()(M), LazySetOutput()(M)


def t_get_input_dynamic():
    @I.ir_module
    class M:
        @R.function
        def transform_params(A: R.Tensor(["m", "n"], "float32"), B: R.Tensor(["m", "n"], "float32")):
            R.func_attr({"num_input": 0})
            C = R.multiply(A, R.const(2, "float32"))
            D = R.add(C, B)
            return (D, B)

    return LazyGetInput()(M), LazySetOutput()(M)


def t_get_input_unused():
    @I.ir_module
    class M:
        @R.function
        def transform_params(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            C = R.multiply(A, R.const(2, "float32"))
            return C

    return LazyGetInput()(M), LazySetOutput()(M)


def t_set_output_impure():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def transform_params(A: R.Tensor([16, 16], "float32")):
            C = R.multiply(A, R.const(2, "float32"))
            _ = R.print(C, format="{}")
            return (C, A, C)

    return LazyGetInput()(M), LazySetOutput()(M)


def t_inner_function():
    @I.ir_module
    class M:
        @R.function
        def transform_params(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            cls = M
            C = cls.sub(A)
            return (C, B)

        @R.function(private=True)
        def sub(A: R.Tensor([16, 16], "float32")) -> R.Tensor([16, 16], "float32"):
            return R.add(A, A)

    return LazyGetInput()(M), LazySetOutput()(M)
