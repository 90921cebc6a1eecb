import tvm
import pytest
from tvm import relax
from tvm.relax.binding_rewrite import DataflowBlockRewrite
from tvm.script import relax as R
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import ir as IB
from tvm.script.ir_builder import relax as RB


def t_ir_module():
    with IRBuilder() as b:
        with IB.ir_module():
            with RB.function():
                RB.func_name("foo")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                RB.func_ret_value(x)
            with RB.function():
                RB.func_name("bar")
                x = RB.arg("x", relax.TensorType((3,), "float32"))
                y = RB.emit(RB.exp(x))
                RB.func_ret_value(y)
    return b.get()


def t_decl_function():
    with IRBuilder() as b:
        with IB.ir_module():
            x0 = relax.Var("x", relax.TensorType((2,), "float32"))
            decl = relax.Function.create_empty([x0], relax.TensorType((2,), "float32"))
            gv = IB.decl_function("foo", decl)
            with RB.function():
                RB.func_name("foo")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                RB.func_ret_value(x)
            with RB.function():
                RB.func_name("bar")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                y = RB.emit(relax.Call(gv, [x]))
                RB.func_ret_value(y)
    return b.get()


def t_module_attrs():
    with IRBuilder() as b:
        with IB.ir_module():
            IB.module_attrs({"a": 1})
            IB.module_global_infos({"vdevice": [relax.VDevice("llvm")]})
            with RB.function():
                RB.func_name("foo")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                RB.func_ret_value(x)
    m = b.get()
    return int(m.attrs["a"]), len(m.global_infos["vdevice"])


def t_attrs_overwrite():
    with IRBuilder() as b:
        with IB.ir_module():
            IB.module_attrs({"a": 1, "z": 3})
            IB.module_attrs({"b": 1, "a": 2}, allow_overwrite=True)
    m = b.get()
    return sorted((k, int(v)) for k, v in m.attrs.items())


def t_def_undeclared():
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    with IRBuilder() as b:
        with IB.ir_module():
            IB.def_function("f", f)
    return b.get()


def t_decl_def():
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    with IRBuilder() as b:
        with IB.ir_module():
            IB.decl_function("f", f)
            IB.def_function("f", f)
    return b.get()


def t_decl_twice():
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    with IRBuilder() as b:
        with IB.ir_module():
            IB.decl_function("f", f)
            IB.decl_function("f", f)
            IB.def_function("f", f)
    return sorted(g.name_hint for g in b.get().get_global_vars())


def t_decl_no_function():
    with IRBuilder() as b:
        with IB.ir_module():
            with pytest.raises(ValueError):
                IB.decl_function("f", 3)


@tvm.script.ir_module
class Identity:
    @R.function
    def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
        with R.dataflow():
            lv0 = x
            R.output(lv0)
        return lv0


def t_simple_auto_add_variable():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.add(root_fn.params[0], is_dfvar=False)
    return rwt.mutated_root_fn(), rwt.mutated_dfb().bindings[-1].var.name


def t_not_dfb():
    @R.function
    def f(x: R.Tensor((32, 32), "float32")):
        a = R.exp(x)
        return a

    DataflowBlockRewrite(f.body.blocks[0], f)
