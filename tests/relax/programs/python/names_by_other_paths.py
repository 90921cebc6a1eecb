from tvm.ir import Call
from tvm.ir.attrs import DictAttrs
from tvm.relax.expr import Expr, Span, Type, make_shape
from tvm.relax.expr_functor import BindingBlock, DataflowVar, Function
from tvm.relax.type import Expr as TypedExpr
from tvm.script.ir_builder.base import IRBuilder
from tvm import relax
from tvm.script import relax as R
import tvm


def t_classes_of_expr():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return isinstance(x, Expr), isinstance(x, TypedExpr), isinstance(x.ty, Type), isinstance(x + x, Call)


def t_classes_of_expr_functor():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.add(y, y)
            R.output(z)
        return z

    block = f.body.blocks[0]
    return isinstance(f, Function), isinstance(block, BindingBlock), isinstance(block.bindings[0].var, DataflowVar)


def t_make_shape():
    kinds = []
    for value in ((1, 2), [3], "ab", 5):
        try:
            kinds.append(len(make_shape(value)))
        except TypeError:
            kinds.append("TypeError")
    return kinds


def t_attributes():
    return isinstance(relax.Var("x", R.Tensor((2,), "float32")), Expr), isinstance(DictAttrs, type)


def t_executables():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        return y

    module = tvm.IRModule({"main": main})
    return isinstance(relax.build(module, "llvm"), relax.VMExecutable), isinstance(module, relax.VMExecutable)


def t_no_such_name():
    try:
        from tvm.relax.expr import NoSuchName
    except ImportError:
        return "ImportError"
