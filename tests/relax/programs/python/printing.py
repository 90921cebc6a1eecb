import tvm
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def t_function():
    @R.function
    def func(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
        return a

    return func.script(verbose_expr=True)


def t_lone_private_function():
    @R.function(private=True)
    def func(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
        return a

    return func.script(verbose_expr=True)


def t_extern_func():
    @I.ir_module
    class Mod:
        my_ext = R.ExternFunc("my_ext")

        @R.function
        def func(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            return a

    return Mod.script(verbose_expr=True)


def t_object_type():
    return relax.ObjectType().script()


def t_prim_type():
    return str(relax.AnyType())


def t_shape_type_0():
    return relax.ShapeType(ndim=-1).script(verbose_expr=True)


def t_shape_type_1():
    return relax.ShapeType([1, 2, 3]).script()


def t_shape_type_2():
    obj = relax.ShapeType([1, tirx.Var("a", "int64"), 3])
    return obj.script()


def t_shape_type_ndim():
    return relax.ShapeType(ndim=3).script()


def t_tensor_type():
    obj = relax.TensorType([1, tirx.Var("a", "int64"), 3], "float32")
    return obj.script()


def t_tensor_type_ndim():
    return [
        relax.TensorType(ndim=2, dtype="float32").script(),
        relax.TensorType(dtype="float32").script(),
        relax.TensorType().script(),
    ]


def t_func_type():
    obj = relax.FuncType([relax.ShapeType([1, 2])], relax.TensorType([1, 2, 3], "float32"))
    return obj.script()


def t_func_type_impure():
    obj = relax.FuncType([relax.TensorType([1], "float32")], relax.TensorType([1], "float32"), purity=False)
    return obj.script()


def t_shape_expr():
    return relax.ShapeExpr([1, 2, 3]).script()


def t_shape_expr_sym():
    return relax.ShapeExpr([1, tirx.Var("n", "int64")]).script()


def t_call():
    x = tirx.Var("x", "int64")
    a = relax.Var("a", relax.TensorType([1, x, 3], "float32"))
    obj = relax.op.add(a, a)
    return str(obj)


def t_call_script():
    a = relax.Var("a", relax.TensorType([1, 3], "float32"))
    return relax.op.add(a, relax.op.exp(a)).script()


def t_seq_expr():
    x = tirx.Var("x", "int64")
    a = relax.Var("a", relax.TensorType([1, x, 3], "float32"))
    b = relax.DataflowVar("b", relax.TensorType([1, x, 3], "float32"))
    c = relax.Var("c", relax.TensorType([1, x, 3], "float32"))
    obj = relax.SeqExpr(
        blocks=[
            relax.DataflowBlock(
                bindings=[
                    relax.VarBinding(b, relax.op.sin(a)),
                    relax.VarBinding(c, relax.op.sin(b)),
                ]
            ),
        ],
        body=c,
    )
    return obj.script(verbose_expr=True)


def t_binding_block():
    x = tirx.Var("x", "int64")
    a = relax.Var("a", relax.TensorType([1, x, 3], "float32"))
    b = relax.Var("b", relax.TensorType([1, x, 3], "float32"))
    c = relax.Var("c", relax.TensorType([1, x, 3], "float32"))
    obj = relax.BindingBlock(
        bindings=[
            relax.VarBinding(b, relax.op.sin(a)),
            relax.VarBinding(c, relax.op.sin(b)),
        ]
    )
    return obj.script(verbose_expr=True)


def t_dataflow_block():
    x = tirx.Var("x", "int64")
    a = relax.Var("a", relax.TensorType([1, x, 3], "float32"))
    b = relax.DataflowVar("b", relax.TensorType([1, x, 3], "float32"))
    c = relax.Var("c", relax.TensorType([1, x, 3], "float32"))
    obj = relax.DataflowBlock(
        bindings=[
            relax.VarBinding(b, relax.op.sin(a)),
            relax.VarBinding(c, relax.op.sin(b)),
        ]
    )
    return obj.script(verbose_expr=True)


def t_match_cast():
    x = tirx.Var("x", "int64")
    a = relax.Var("a", relax.TensorType([1, x, 3], "float32"))
    b = relax.Var("b", relax.TensorType([1, 5, 3], "float32"))
    obj = relax.MatchCast(b, a, relax.TensorType([1, 5, 3], "float32"))
    return obj.script(verbose_expr=True)


def t_var_binding():
    a = relax.Var("a", relax.TensorType([1, 5, 3], "float32"))
    b = relax.Var("b", relax.TensorType([1, 5, 3], "float32"))
    return relax.VarBinding(b, relax.op.sin(a)).script(verbose_expr=True)


def t_if():
    a = relax.Var("a", relax.TensorType([], "bool"))
    b = relax.Var("b", relax.TensorType([1, 2, 3], "float32"))
    c = relax.Var("c", relax.TensorType([1, 2, 3], "float32"))
    obj = relax.If(a, relax.SeqExpr([], b), relax.SeqExpr([], c))
    return obj.script(verbose_expr=True)


def t_module_cross_func_call():
    @I.ir_module
    class Module:
        @R.function
        def foo(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
            return x

        @R.function
        def main(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
            cls = Module
            gv0 = cls.foo(x)
            return gv0

    return Module.script(verbose_expr=True)


def t_call_packed():
    @R.function(pure=False)
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        z = R.call_packed("vm.builtin.copy", x, ty_args=R.Tensor((3, 4), "float32"))
        return z

    return main.script(verbose_expr=True)


def t_call_dps_packed():
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        z = R.call_dps_packed("my_extern", (x,), R.Tensor((3, 4), "float32"))
        return z

    return main.script(verbose_expr=True)


def t_call_pure_packed():
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        z = R.call_pure_packed("my_extern", x, ty_args=R.Tensor((3, 4), "float32"))
        return z

    return main.script(verbose_expr=True)


def t_directly_return():
    @I.ir_module
    class Module:
        @R.function
        def foo(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
            R.func_attr({"a": 1, "b": "c"})
            return x

    return Module.script(verbose_expr=True)


def t_show_all_ty():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.add(x, x)
        z: R.Tensor = R.exp(y)
        return z

    return [main.script(show_all_ty=False), main.script(show_all_ty=True), main.script()]


def t_inf_nan_const():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.add(x, R.const(float("inf"), "float32"))
        z = R.add(y, R.const(float("nan"), "float32"))
        w = R.maximum(z, R.const(-float("inf"), "float32"))
        return w

    return main.script()


def t_class_name():
    @I.ir_module
    class Foo:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    return Foo.script(name="Bar")


def t_prefixes():
    @I.ir_module
    class Foo:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.add(x, x)
            return y

    return Foo.script(indent_spaces=2)


def t_null_value_and_hint():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.null_value()
        return y

    return main.script()
