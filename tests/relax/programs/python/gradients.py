from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I


def run(mod, **kw):
    return relax.transform.Gradient("main", **kw)(mod)


def t_target_index():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((5, 5), "float32"), y: R.Tensor((5, 5), "float32")):
            with R.dataflow():
                a = x
                b = R.sum(x)
                c = R.sum(y)
                R.output(a, b, c)
            return (a, b, c)

    return run(B, target_index=1), run(B, target_index=2)


def t_intermediate_var_grads():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((5, 5), "float32"), y: R.Tensor((5, 5), "float32")):
            with R.dataflow():
                a = x
                b = R.add(a, y)
                gv = R.sum(b)
                R.output(gv)
            return gv

    m = B
    a = m["main"].body.blocks[0].bindings[0].var
    return run(m, require_grads=[a])


def t_tuple_construct():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                t = (x, y)
                a = t[0]
                b = R.multiply(a, y)
                gv = R.sum(b)
                R.output(gv)
            return gv

    return run(B)


def t_tuple_param():
    @I.ir_module
    class B:
        @R.function
        def main(
            x: R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32")),
            y: R.Tensor((3, 3), "float32"),
        ):
            with R.dataflow():
                a = x[0]
                b = R.add(a, y)
                c = x[2]
                d = R.add(b, c)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return run(B)


def t_tuple_assignment():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                t = (x, y)
                u = t
                a = u[0]
                b = u[1]
                c = R.add(a, b)
                gv = R.sum(c)
                R.output(gv)
            return gv

    return run(B)


def t_tuple_nested():
    @I.ir_module
    class B:
        @R.function
        def main(
            x: R.Tuple(R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")), R.Tensor((3,), "float32")),
            y: R.Tensor((3,), "float32"),
            z: R.Tensor((3,), "float32"),
            u: R.Tensor((3,), "float32"),
        ):
            with R.dataflow():
                a = ((y, z), u)
                b = a[0]
                c = x[1]
                d = b[1]
                e = x[0]
                f = e[0]
                g = R.add(d, f)
                h = R.add(g, c)
                gv = R.sum(h)
                R.output(gv)
            return gv

    return run(B)


def t_tuple_update():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv0 = (x, y)
                lv1 = lv0[0]
                lv2 = R.add(lv1, y)
                lv3 = (lv2, lv1)
                lv4 = lv3[0]
                lv5 = R.add(lv4, y)
                lv6 = lv3[1]
                lv7 = R.add(lv5, lv6)
                gv = R.sum(lv7)
                R.output(gv)
            return gv

    return run(B)


def t_split_two_used():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((6,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                a = s[0]
                b = R.add(a, y)
                c = s[1]
                d = R.multiply(b, c)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return run(B)


def t_split_concat():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                t = (x, x)
                c = R.concat(t)
                s = R.split(c, 2)
                a = s[0]
                b = R.add(a, y)
                t2 = (b, y)
                d = R.concat(t2, axis=0)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return run(B)


def t_split_three():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((2, 12), "float32")):
            with R.dataflow():
                s = R.split(x, 3, axis=1)
                a = s[0]
                b = s[1]
                c = s[2]
                d = R.multiply(a, b)
                e = R.multiply(d, c)
                gv = R.sum(e)
                R.output(gv)
            return gv

    return run(B)


def t_split_middle_unused():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((2, 12), "float32")):
            with R.dataflow():
                s = R.split(x, [2, 5], axis=1)
                a = s[0]
                c = s[2]
                d = R.sum(a)
                e = R.sum(c)
                gv = R.add(d, e)
                R.output(gv)
            return gv

    return run(B)


def t_concat_require_some():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                c = R.concat((x, y), axis=1)
                gv = R.sum(c)
                R.output(gv)
            return gv

    return run(B, require_grads=B["main"].params[1])


def t_zero_when_unreached():
    @I.ir_module
    class B:
        @R.function
        def main(
            x: R.Tensor((3, 3), "float32"),
            y: R.Tensor((2,), "float32"),
            z: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32")),
        ):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

    return run(B)


def t_tuple_param_unreached_field():
    @I.ir_module
    class B:
        @R.function
        def main(z: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))):
            with R.dataflow():
                a = z[1]
                gv = R.sum(a)
                R.output(gv)
            return gv

    return run(B)


def t_split_tuple_returned_whole():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((6,), "float32"), y: R.Tensor((6,), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                c = R.concat(s, axis=0)
                d = R.multiply(c, y)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return run(B)


def t_checkpoints_in_a_row():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                x_scp = R.grad.start_checkpoint(x)
                lv1 = R.power(x_scp, R.const(3, "float32"))
                lv1_ecp = R.grad.end_checkpoint(lv1)
                lv2 = R.power(lv1_ecp, R.const(3, "float32"))
                lv2_scp = R.grad.start_checkpoint(lv2)
                lv3 = R.power(lv2_scp, R.const(3, "float32"))
                lv4 = R.power(lv3, R.const(3, "float32"))
                gv = R.sum(lv4)
                gv_ecp = R.grad.end_checkpoint(gv)
                R.output(gv_ecp)
            return gv_ecp

    return run(B)


def t_checkpoints_end_to_start():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                x_scp = R.grad.start_checkpoint(x)
                lv1 = R.power(x_scp, R.const(3, "float32"))
                lv2 = R.power(lv1, R.const(3, "float32"))
                lv2_ecp = R.grad.end_checkpoint(lv2)
                lv2_scp = R.grad.start_checkpoint(lv2_ecp)
                lv3 = R.power(lv2_scp, R.const(3, "float32"))
                lv4 = R.power(lv3, R.const(3, "float32"))
                gv = R.sum(lv4)
                gv_ecp = R.grad.end_checkpoint(gv)
                R.output(gv_ecp)
            return gv_ecp

    return run(B)


def t_checkpointed_tuple():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                x_scp = R.grad.start_checkpoint(x)
                lv1 = R.power(x_scp, R.const(3, "float32"))
                lv2 = (x, lv1)
                lv3 = lv2
                lv4 = R.power(lv3[0], R.const(3, "float32"))
                lv4_ecp = R.grad.end_checkpoint(lv4)
                gv = R.sum(lv4_ecp)
                R.output(gv)
            return gv

    return run(B)


def t_checkpointed_tree():
    @I.ir_module
    class B:
        @R.function
        def main(
            x: R.Tensor((3, 3), "float32"),
            y: R.Tensor((3, 3), "float32"),
            z: R.Tensor((3, 3), "float32"),
            u: R.Tensor((3, 3), "float32"),
            v: R.Tensor((3, 3), "float32"),
        ):
            with R.dataflow():
                x_scp = R.grad.start_checkpoint(x)
                y_scp = R.grad.start_checkpoint(y)
                z_scp = R.grad.start_checkpoint(z)
                lv1 = R.multiply(x_scp, y_scp)
                lv2 = R.multiply(lv1, z_scp)
                lv2_ecp = R.grad.end_checkpoint(lv2)
                u_scp = R.grad.start_checkpoint(u)
                v_scp = R.grad.start_checkpoint(v)
                lv3 = R.multiply(u_scp, v_scp)
                lv3_ecp = R.grad.end_checkpoint(lv3)
                lv4 = R.multiply(lv2_ecp, lv3_ecp)
                gv = R.sum(lv4)
                R.output(gv)
            return gv

    return run(B)


def t_checkpointed_operators():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32"), z: R.Tensor((3,), "float32")):
            with R.dataflow():
                x_s = R.grad.start_checkpoint(x)
                a = R.exp(x_s)
                b = R.sin(a)
                c = R.multiply(b, y)
                c_e = R.grad.end_checkpoint(c)
                d = R.multiply(c_e, z)
                gv = R.sum(d)
                R.output(gv)
            return gv

    return run(B)


def t_checkpointed_whole():
    @I.ir_module
    class B:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.exp(s)
                b = R.sin(a)
                c = R.cos(b)
                gv = R.sum(c)
                e = R.grad.end_checkpoint(gv)
                R.output(e)
            return e

    return run(B)


def t_linear_gradient():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.linear(x, w, b)
                s = R.sum(a)
                R.output(s)
            return s

    return relax.transform.Gradient("f", require_grads=None)(M)["f_adjoint"]
