import pytest
import numpy as np
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _check(parsed, expect=None):
    test = parsed.script(show_meta=True)
    roundtrip = tvm.script.from_source(test)
    tvm.ir.assert_structural_equal(parsed, roundtrip)
    if isinstance(parsed, IRModule) and isinstance(roundtrip, IRModule):
        assert relax.analysis.check_well_formed(parsed)
        assert relax.analysis.check_well_formed(roundtrip)
    if expect is not None:
        tvm.ir.assert_structural_equal(parsed, expect)


from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import relax as RB
from tvm.script.ir_builder import ir as IB


def t_function_simple():
    with IRBuilder() as ib:
        with RB.function():
            RB.func_name("foo")
            RB.func_attr({"Primitive": True})
            x = RB.arg("x", relax.TensorType((128, 128), "float32"))
            RB.func_ret_ty(relax.TensorType(dtype="float32", ndim=2))
            y = RB.emit(RB.call_dps_packed("extern_func", x, relax.TensorType((128, 128), dtype="float32")))
            out = RB.emit(RB.call_dps_packed("extern_dps_func", y, relax.TensorType((128, 128), dtype="float32")))
            IRBuilder.name("out", out)
            RB.func_ret_value(out)
    func = ib.get()
    mod = tvm.IRModule({"foo": func})
    assert func.params[0].name == "x"
    return mod


def t_match_cast():
    with IRBuilder() as ib:
        with RB.function():
            RB.func_name("foo")
            x = RB.arg("x", relax.TensorType(None, "float32", ndim=-1))
            y = RB.arg("y", relax.TensorType(None, "float32", ndim=-1))
            m = tirx.Var("m", "int64")
            n = tirx.Var("n", "int64")
            _ = RB.emit_match_cast(x, relax.TensorType((m,), "float32"))
            y1 = RB.emit_match_cast(y, relax.TensorType((n,), "float32"))
            IRBuilder.name("y1", y1)
            RB.func_ret_value(RB.shape([m, n * 2]))
    return ib.get()


def t_dataflow_output_vars():
    with IRBuilder() as ib:
        with RB.function():
            RB.func_name("foo")
            x = RB.arg("x", relax.TensorType((128, 128), "float32"))
            with RB.dataflow() as df:
                lv0 = RB.emit(RB.add(x, x))
                IRBuilder.name("lv0", lv0)
                gv = RB.emit(RB.multiply(lv0, x))
                IRBuilder.name("gv", gv)
                RB.output(gv)
            (gv,) = df.output_vars
            RB.func_ret_value(gv)
    return ib.get()


def t_if():
    with IRBuilder() as ib:
        with RB.function():
            RB.func_name("foo")
            c = RB.arg("c", relax.TensorType((), "bool"))
            x = RB.arg("x", relax.TensorType((2,), "float32"))
            with RB.If(c) as i:
                with RB.Then():
                    out = RB.emit(RB.add(x, x))
                    IRBuilder.name("out", out)
                with RB.Else():
                    out = RB.emit(RB.multiply(x, x))
                    IRBuilder.name("out", out)
            RB.func_ret_value(i.var)
    return ib.get()


def t_module():
    with IRBuilder() as ib:
        with IB.ir_module():
            gv = IB.decl_function(
                "f",
                relax.Function.create_empty(
                    [relax.Var("x", relax.TensorType((2,), "float32"))], relax.TensorType((2,), "float32")
                ),
            )
            with RB.function():
                RB.func_name("f")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                y = RB.emit(RB.add(x, x))
                RB.func_ret_value(y)
            with RB.function():
                RB.func_name("main")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                y = RB.emit(gv(x))
                RB.func_ret_value(y)
    return sorted(g.name_hint for g in ib.get().get_global_vars())


def t_module_attrs():
    with IRBuilder() as ib:
        with IB.ir_module():
            IB.module_attrs({"k": 1})
            with RB.function():
                RB.func_name("main")
                x = RB.arg("x", relax.TensorType((2,), "float32"))
                RB.func_ret_value(x)
    m = ib.get()
    return m.attrs["k"], m


def t_emit_with_type():
    with IRBuilder() as ib:
        with RB.function():
            RB.func_name("main")
            x = RB.arg("x", relax.TensorType((2,), "float32"))
            y = RB.emit(relax.op.exp(x), relax.TensorType(ndim=1, dtype="float32"))
            RB.func_ret_value(y)
    return ib.get()


def t_private_impure():
    with IRBuilder() as ib:
        with RB.function(is_pure=False, is_private=True):
            RB.func_name("main")
            x = RB.arg("x", relax.TensorType((2,), "float32"))
            y = RB.emit(RB.print(x, format="{}"))
            RB.func_ret_value(x)
    f = ib.get()
    return f.is_pure, "global_symbol" in (f.attrs or {}), f


def t_errors():
    with pytest.raises(Exception):
        with IRBuilder() as ib:
            with RB.function():
                RB.func_name("main")
                RB.arg("x", relax.TensorType((2,), "float32"))
    with pytest.raises(Exception):
        with IRBuilder() as ib:
            with RB.function():
                RB.func_name("main")
                RB.func_name("main2")
    with pytest.raises(Exception):
        IRBuilder.current()
    assert not IRBuilder.is_in_scope()
