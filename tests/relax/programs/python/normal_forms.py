"""Programs put together by hand and brought into normal form, and half precision beside constants."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.training.loss import CategoricalCrossEntropyLoss
from tvm.script import ir as I
from tvm.script import relax as R

SCALAR = R.Tensor([], "int32")


def normal(params, body, result, is_pure=True):
    function = relax.Function(params, body, ret_ty=result, is_pure=is_pure)
    return relax.transform.Normalize()(tvm.IRModule.from_expr(function))


def t_variable_without_a_type():
    x = relax.Var("x", R.Tensor([3], "float32"))
    cond = relax.Var("cond", R.Tensor([], "bool"))
    y = relax.Var("y")
    branch = relax.If(cond, relax.op.add(relax.op.exp(x), x), relax.op.multiply(x, x))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, branch)])], y)
    return normal([cond, x], body, R.Tensor("float32", ndim=1))


def t_dataflow_blocks_side_by_side():
    x = relax.Var("x", SCALAR)
    rows = []
    last = x
    for i in range(3):
        inner, outer = relax.DataflowVar(f"a{i}", SCALAR), relax.Var(f"b{i}", SCALAR)
        rows.append(relax.DataflowBlock([relax.VarBinding(inner, last), relax.VarBinding(outer, inner)]))
        last = outer
    return normal([x], relax.SeqExpr(rows, last), SCALAR)


def t_dataflow_block_of_an_inner_body():
    first, second, result = relax.Var("first", SCALAR), relax.Var("second", SCALAR), relax.Var("result", SCALAR)
    local = relax.DataflowVar("local", SCALAR)
    inner = relax.SeqExpr(
        [
            relax.BindingBlock([relax.VarBinding(first, relax.const(2))]),
            relax.DataflowBlock([relax.VarBinding(local, first), relax.VarBinding(second, local)]),
        ],
        second,
    )
    return normal([], relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, inner)])], result), SCALAR)


def t_reading_what_gives_nothing():
    x = relax.Var("x", R.Tuple([]))
    check = R.assert_op(R.const(True, "bool"))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(x, check)])], x)
    return normal([], body, R.Tuple([]), is_pure=False)


def mixed(bias, out_dtype):
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                product = R.matmul(x, w)
                row = R.reshape(b, (1, 4))
                out = R.add(product, row)
                R.output(out)
            return out

    bound = relax.transform.BindParams("main", {"b": tvm.runtime.tensor(np.array(bias, "float32"))})(M)
    function = relax.transform.ToMixedPrecision(out_dtype=out_dtype)(bound)["main"]
    return [str(binding.var.ty) for binding in function.body.blocks[0].bindings]


def t_half_precision_of_constants():
    return mixed([1e-9, 2.0, np.nan, 65504.0], "float16")


def t_half_precision_of_constants_that_it_has_no_room_for():
    return [mixed([1.0, 2.0, 3.0, number], "float16") for number in (1e6, -1e6, np.inf, -np.inf)]


def t_half_precision_of_constants_after_single():
    return mixed([1.0, 2.0, 3.0, 4.0], "float32")


def t_parameters_in_half_precision_in_their_order():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), v: R.Tensor((4, 5), "float32"), w: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                y = R.matmul(x, w)
                z = R.matmul(y, v)
                R.output(z)
            return z

    return relax.transform.ToMixedPrecision()(M)


def t_loss_of_shares_with_weights():
    predictions, targets = relax.TensorType((3, 5), "float32"), relax.TensorType((3, 5), "int64")
    loss = CategoricalCrossEntropyLoss(reduction="sum")
    return [loss(predictions, targets), loss(predictions, targets, relax.TensorType((5,), "float32"))]
