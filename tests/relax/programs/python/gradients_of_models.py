import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir.base import assert_structural_equal
from tvm.script.parser import ir as I, relax as R


def G(mod, name="main", **kw):
    return relax.transform.Gradient(name, **kw)(mod)


def t_targets_that_are_refused():
    @I.ir_module
    class TargetNotTensor:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv1 = R.sum(x)
                gv = R.tuple(lv1, lv1)
                R.output(gv)
            return gv

    with pytest.raises(Exception):
        G(TargetNotTensor)

    @I.ir_module
    class TargetNotScalar:
        @R.function
        def main(x0: R.Tensor((3, 3), "float32"), x1: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv = R.add(x0, x1)
                R.output(gv)
            return gv

    with pytest.raises(Exception):
        G(TargetNotScalar)

    @I.ir_module
    class TargetNotFloat:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv = R.const(1)
                R.output(gv)
            return gv

    with pytest.raises(Exception):
        G(TargetNotFloat)

    @I.ir_module
    class ReturnScalarAndWrongTargetIndex:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

    with pytest.raises(Exception):
        G(ReturnScalarAndWrongTargetIndex, target_index=1)

    @I.ir_module
    class ReturnTupleAndWrongTargetIndex:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv1 = R.sum(x)
                gv2 = R.sum(x)
                R.output(gv1, gv2)
            return gv1, gv2

    with pytest.raises(Exception):
        G(ReturnTupleAndWrongTargetIndex, target_index=2)

    @I.ir_module
    class IndexedTargetNotVar:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv, (gv, gv)

    with pytest.raises(Exception):
        G(IndexedTargetNotVar, target_index=1)

    @I.ir_module
    class NoDataflow:
        @R.function
        def main(x0: R.Tensor((3, 3), "float32")):
            gv = R.sum(x0)
            return gv

    with pytest.raises(Exception):
        G(NoDataflow, func_name="main1")


def t_variables_that_are_refused():
    @I.ir_module
    class NormalModule:
        @R.function
        def main(x0: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                gv = R.sum(x0)
                R.output(gv)
            return gv

    # no such function
    with pytest.raises(Exception):
        relax.transform.Gradient("main1")(NormalModule)
    # no such var
    with pytest.raises(Exception):
        relax.transform.Gradient("main", require_grads=relax.Var("x", R.Tensor((3, 3), "float32")))(NormalModule)
    # wrong function
    p = NormalModule["main"].params[0]
    with pytest.raises(Exception):
        relax.transform.Gradient("main", require_grads=[p, p])(NormalModule)
    with pytest.raises(Exception):
        relax.transform.Gradient("main", require_grads=5)(NormalModule)


def t_params_copy():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x0: R.Tensor((3, 3), "float32"),
            x1: R.Tensor((3, 3), "float32"),
        ):
            with R.dataflow():
                lv0 = R.add(x0, x1)
                gv = R.sum(lv0)
                R.output(gv)
            return gv

    After = relax.transform.Gradient("main")(Before)
    assert len(Before["main"].params) == len(After["main"].params) == len(After["main_adjoint"].params)
    for i in range(len(After["main"].params)):
        assert Before["main"].params[i].same_as(After["main"].params[i])
        assert not Before["main"].params[i].same_as(After["main_adjoint"].params[i])


def t_function_copy():
    @I.ir_module
    class Before:
        @R.function
        def main(x0: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv0 = R.add(x0, x0)
                gv = R.sum(lv0)
                R.output(gv)
            return gv

    After = relax.transform.Gradient("main")(Before)
    # After should have the same "main" function as Before
    assert_structural_equal(Before["main"], After["main"])
    # the first bindings of its backward function is the forward
    before_bindings = Before["main"].body.blocks[0].bindings
    adjoint_bindings = After["main_adjoint"].body.blocks[0].bindings
    assert len(adjoint_bindings) > len(before_bindings)
    for i in range(len(before_bindings)):
        assert not before_bindings[i].var.same_as(adjoint_bindings[i].var)
        assert_structural_equal(before_bindings[i].var.ty, adjoint_bindings[i].var.ty)


def t_tuple_copy():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32")),
        ):
            with R.dataflow():
                lv1 = x[0]
                lv2 = x[1]
                lv3 = R.add(lv1, lv2)
                gv = R.sum(lv3)
                R.output(gv)
            return gv

    After = relax.transform.Gradient("main")(Before)
    assert_structural_equal(After["main"], Before["main"])
    return After


def t_mlp():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((3, 10), "float32"),
            w0: R.Tensor((10, 5), "float32"),
            b0: R.Tensor((5,), "float32"),
            label: R.Tensor((3, 5), "float32"),
        ):
            with R.dataflow():
                lv0 = R.matmul(x, w0)
                out = R.add(lv0, b0)
                logits = R.nn.log_softmax(out)
                loss = R.nn.cross_entropy_with_logits(logits, label)
                R.output(loss)
            return loss

    p = Before["main"].params
    return G(Before, require_grads=p[1:3])


def t_tuple_op_indices():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((10, 4), "float32")):
            with R.dataflow():
                s = R.split(x, [3, 7])
                a = s[0]
                b = s[2]
                lv = R.add(a, b)
                gv = R.sum(lv)
                R.output(gv)
            return gv

    return G(Before)


def t_nested_tuple_output():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv0 = ((x, y), x)
                lv1 = lv0[0]
                lv2 = lv1[1]
                lv3 = lv0[1]
                lv4 = R.multiply(lv2, lv3)
                lv5 = (lv0, lv4)
                lv6 = lv5[1]
                gv = R.sum(lv6)
                R.output(gv)
            return gv

    return G(Before)


def t_intermediate_required():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((5, 5), "float32"), y: R.Tensor((5, 5), "float32")):
            with R.dataflow():
                lv1 = R.add(x, y)
                lv2 = R.tanh(lv1)
                gv = R.sum(lv2)
                R.output(gv)
            return gv

    b = Before["main"].body.blocks[0].bindings
    return G(Before, require_grads=[b[0].var, Before["main"].params[1]]), G(Before, require_grads=b[1].var)


def t_other_name():
    @I.ir_module
    class Before:
        @R.function
        def loss_fn(x: R.Tensor((5, 5), "float64")):
            R.func_attr({"relax.force_pure": 1})
            with R.dataflow():
                lv1 = R.sigmoid(x)
                gv = R.sum(lv1)
                R.output(gv)
            return gv

        @R.function
        def other(x: R.Tensor((5, 5), "float64")):
            return x

    After = G(Before, "loss_fn")
    assert {gv.name_hint for gv in After.get_global_vars()} == {"loss_fn", "loss_fn_adjoint", "other"}
    return After


def t_built():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((3, 2), "float32"))
    with bb.function("main", [x, y]):
        with bb.dataflow():
            lv = bb.emit(relax.op.matmul(x, y))
            lv1 = bb.emit(relax.op.nn.silu(lv))
            gv = bb.emit_output(relax.op.sum(lv1))
        bb.emit_func_output(gv)
    return G(bb.get(), require_grads=[x])


def t_softmax_cross_two_targets():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                a = R.nn.softmax(x)
                b = R.nn.cross_entropy_with_logits(a, y)
                c = R.sum(R.multiply(a, y))
                R.output(b, c)
            return (b, c)

    return G(Before, target_index=0), G(Before, target_index=1)


def t_divide_mean():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((1, 3), "float32")):
            with R.dataflow():
                lv1 = R.divide(x, y)
                lv2 = R.mean(lv1, axis=[0], keepdims=True)
                gv = R.sum(lv2)
                R.output(gv)
            return gv

    return G(Before)


def t_vector_product():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), m: R.Tensor((4, 3), "float32")):
            with R.dataflow():
                lv1 = R.matmul(x, w)
                lv2 = R.matmul(x, m)
                lv3 = R.sum(lv2)
                gv = R.add(lv1, lv3)
                R.output(gv)
            return gv

    return G(Before)


def t_checkpoint_default_inputs():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    y = relax.Var("y", R.Tensor((3, 3), "float32"))
    with bb.function("main", [x, y]):
        with bb.dataflow():
            xs = bb.emit(relax.op.grad.start_checkpoint(x))
            a = bb.emit(relax.op.multiply(xs, y))
            b = bb.emit(relax.op.grad.end_checkpoint(a))
            gv = bb.emit_output(relax.op.sum(b))
        bb.emit_func_output(gv)
    return G(bb.get())


def t_python_operators():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = x + y
                b = a * x
                c = b - y
                d = c / R.const(2.0, "float32")
                e = -d
                gv = R.sum(e)
                R.output(gv)
            return gv

    return G(Before)


def t_two_layers_no_bias():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            w1: R.Tensor((3, 4), "float32"),
            w2: R.Tensor((4, 5), "float32"),
            y: R.Tensor((2, 5), "float32"),
        ):
            with R.dataflow():
                h = R.tanh(R.matmul(x, w1))
                o = R.matmul(h, w2)
                d = R.subtract(o, y)
                s = R.multiply(d, d)
                gv = R.mean(s)
                R.output(gv)
            return gv

    return G(Before, require_grads=Before["main"].params[1:3])


def t_attention_like():
    @I.ir_module
    class Before:
        @R.function
        def main(
            q: R.Tensor((2, 4, 8), "float32"), k: R.Tensor((2, 4, 8), "float32"), v: R.Tensor((2, 4, 8), "float32")
        ):
            with R.dataflow():
                kt = R.permute_dims(k, axes=[0, 2, 1])
                s = R.matmul(q, kt)
                s2 = R.divide(s, R.const(2.828, "float32"))
                p = R.nn.softmax(s2, axis=-1)
                o = R.matmul(p, v)
                gv = R.sum(o)
                R.output(gv)
            return gv

    return G(Before)


def t_reshape_concat_split():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((2, 6), "float32")):
            with R.dataflow():
                c = R.concat((x, y), axis=0)
                r = R.reshape(c, (3, 12))
                s = R.split(r, 3, axis=1)
                s0 = s[0]
                s2 = s[2]
                m = R.multiply(s0, s2)
                gv = R.sum(m)
                R.output(gv)
            return gv

    return G(Before)


def t_mean_axis_sqrt():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6,), "float32")):
            with R.dataflow():
                s = R.multiply(x, x)
                m = R.mean(s, axis=[-1], keepdims=True)
                r = R.sqrt(m)
                n = R.divide(x, r)
                o = R.multiply(n, w)
                gv = R.sum(o)
                R.output(gv)
            return gv

    return G(Before)


def t_dropout_like_scale():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), mask: R.Tensor((4, 6), "float32")):
            with R.dataflow():
                s = R.multiply(x, mask)
                t = R.multiply(s, R.const(1.25, "float32"))
                gv = R.mean(t)
                R.output(gv)
            return gv

    return G(Before, require_grads=[Before["main"].params[0]])


def t_target_var_in_middle():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                l = R.sum(x)
                m = R.multiply(l, l)
                n = R.exp(m)
                R.output(l, m, n)
            return l, m, n

    return [G(Before, target_index=i) for i in range(3)]


def t_float16():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float16"), y: R.Tensor((4,), "float16")):
            with R.dataflow():
                l = R.sigmoid(R.multiply(x, y))
                gv = R.sum(l)
                R.output(gv)
            return gv

    return G(Before)


def t_squeeze_flatten():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 4), "float32")):
            with R.dataflow():
                a = R.reshape(x, (2, -1))
                b = R.permute_dims(a)
                gv = R.sum(R.exp(b))
                R.output(gv)
            return gv

    return G(Before)


def t_sequence_with_gradient():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.add(a, a)
                gv = R.sum(b)
                R.output(gv)
            return gv

    seq = tvm.transform.Sequential(
        [
            relax.transform.Gradient("main", require_grads=Before["main"].params[1]),
            relax.transform.DeadCodeElimination(),
            relax.transform.EliminateCommonSubexpr(),
            relax.transform.CanonicalizeBindings(),
        ]
    )
    return seq(Before)


def t_variable_of_another_function():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

        @R.function
        def other(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

    with pytest.raises(Exception):
        G(Before, require_grads=Before["other"].params[0])


def t_gradient_with_if_raises():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((), "float32"), c: R.Tensor((), "bool")):
            if c:
                y = R.exp(x)
            else:
                y = x
            return y

    with pytest.raises(Exception):
        G(Before)


def t_rows_by_number():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), i: R.Tensor((2,), "int32")):
            with R.dataflow():
                a = R.take(x, i, axis=0)
                b = R.nn.log_softmax(a, axis=0)
                gv = R.mean(b)
                R.output(gv)
            return gv

    return G(Before, require_grads=Before["main"].params[0])


def t_avg_pool_conv_chain_shapes():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 8, 8), "float32"), b: R.Tensor((1, 3, 1, 1), "float32")):
            with R.dataflow():
                a = R.add(x, b)
                p = R.nn.avg_pool2d(a, (2, 2), strides=(2, 2), padding=(0, 0))
                q = R.nn.max_pool2d(p, (2, 2), strides=(1, 1), padding=(1, 1))
                r = R.reshape(q, (2, 75))
                gv = R.sum(r)
                R.output(gv)
            return gv

    return G(Before)


def t_linear_script():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 4), "float32")):
            with R.dataflow():
                lv = R.linear(x, w)
                gv = R.sum(lv)
                R.output(gv)
            return gv

    return G(Before)
