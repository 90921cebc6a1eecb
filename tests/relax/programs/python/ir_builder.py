import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import relax as B
from tvm.script.ir_builder import ir as IB


def t_function():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            B.func_attr({"Primitive": 1})
            x = B.arg("x", relax.TensorType([128, 128], "float32"))
            B.func_ret_ty(relax.TensorType(dtype="float32", ndim=2))
            y = B.emit(B.call_dps_packed("extern_func", relax.Tuple([x]), relax.TensorType([128, 128], "float32")))
            out = B.emit(
                B.call_dps_packed("extern_dps_func", relax.Tuple([y]), relax.TensorType([128, 128], "float32"))
            )
            IRBuilder.name("out", out)
            B.func_ret_value(out)
    return ir_builder.get()


def t_match_cast():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType(ndim=-1, dtype="float32"))
            y = B.arg("y", relax.TensorType(ndim=-1, dtype="float32"))
            m = tirx.Var("m", "int64")
            n = tirx.Var("n", "int64")
            _ = B.emit_match_cast(x, relax.TensorType([m], "float32"))
            y1 = B.emit_match_cast(y, relax.TensorType([n], "float32"))
            IRBuilder.name("y1", y1)
            B.func_ret_value(y1)
    return ir_builder.get().ret_ty.ndim


def t_dataflow():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([128, 128], "float32"))
            with B.dataflow() as df:
                lv0 = B.emit(
                    B.call_dps_packed("extern_func", relax.Tuple([x]), relax.TensorType([128, 128], "float32"))
                )
                IRBuilder.name("lv0", lv0)
                gv = B.emit(
                    B.call_dps_packed("extern_func", relax.Tuple([lv0]), relax.TensorType([128, 128], "float32"))
                )
                IRBuilder.name("gv", gv)
                B.output(gv)
            (gv,) = df.output_vars
            B.func_ret_value(gv)
    return ir_builder.get()


def t_branches():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            cond = B.arg("cond", relax.TensorType([], "bool"))
            x = B.arg("x", relax.TensorType([1], "float32"))
            with B.If(cond) as if_frame:
                with B.Then():
                    out = B.emit(B.add(x, x))
                    IRBuilder.name("y", out)
                with B.Else():
                    out = B.emit(B.multiply(x, x))
                    IRBuilder.name("y", out)
            y = if_frame.var
            B.func_ret_value(y)
    return ir_builder.get()


def t_module():
    with IRBuilder() as ir_builder:
        with IB.ir_module():
            with B.function():
                B.func_name("f")
                x = B.arg("x", relax.TensorType([2], "float32"))
                B.func_ret_value(x)
            with B.function(is_pure=False):
                B.func_name("g")
                x = B.arg("x", relax.TensorType([2], "float32"))
                B.func_ret_value(x)
    mod = ir_builder.get()
    return sorted(gv.name_hint for gv in mod.get_global_vars())


def t_private():
    with IRBuilder() as ir_builder:
        with B.function(is_private=True):
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            B.func_ret_value(x)
    return ir_builder.get()


def t_tuple_and_const():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            y = B.emit(B.add(x, B.const(1.0, "float32")))
            B.func_ret_value(B.tuple(x, y))
    return ir_builder.get()


def t_two_returns():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            B.func_ret_value(x)
            B.func_ret_value(x)
    return ir_builder.get()


def t_no_name():
    with IRBuilder() as ir_builder:
        with B.function():
            x = B.arg("x", relax.TensorType([2], "float32"))
            B.func_ret_value(x)
    return ir_builder.get()


def t_same_parameter_twice():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            x = B.arg("x", relax.TensorType([2], "float32"))
            B.func_ret_value(x)
    return len(ir_builder.get().params)


def t_emit_with_type():
    with IRBuilder() as ir_builder:
        with B.function(is_pure=False):
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            y = (
                B.emit_with_type(
                    "relax.call_builtin_with_ctx",
                    [relax.ExternFunc("f"), relax.Tuple([x])],
                    [relax.TensorType([2], "float32")],
                )
                if False
                else B.emit(B.call_packed("f", x, ty_args=[relax.TensorType([2], "float32")]))
            )
            B.func_ret_value(y)
    return ir_builder.get()


def t_annotated_emit():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            y = B.emit(B.add(x, x), annotate_ty=relax.TensorType(dtype="float32", ndim=1))
            B.func_ret_value(y)
    return ir_builder.get()


def t_var_binding():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            binding = relax.VarBinding(relax.Var("z", relax.TensorType([2], "float32")), B.add(x, x))
            z = B.emit_var_binding(binding)
            B.func_ret_value(z)
    return ir_builder.get()


def t_seq_expr():
    with IRBuilder() as ir_builder:
        with B.function():
            B.func_name("foo")
            x = B.arg("x", relax.TensorType([2], "float32"))
            with B.SeqExpr() as seq:
                y = B.emit(B.add(x, x))
            B.func_ret_value(x)
    return True


def t_statements_of_the_script():
    with IRBuilder() as ir_builder:
        with B.function():
            R.func_name("foo")
            R.func_attr({"num_input": 1})
            x = R.arg("x", R.Tensor((2, 3), "float32"))
            w = R.arg("w", R.Tensor((3, 4), "float32"))
            with R.dataflow() as frame:
                y = R.emit(R.matmul(x, w, out_dtype="float32"))
                R.output(R.emit(R.nn.relu(y)))
            R.func_ret_value(frame.output_vars[0])
    return ir_builder.get()
