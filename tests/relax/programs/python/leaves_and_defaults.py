from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import EliminateCommonSubexpr, FuseOpsByPattern, Gradient, RemovePurityChecking


def t_shapes_and_numbers_with_names_are_shared():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            s = R.shape([3, 2])
            t = R.shape([3, 2])
            p = R.prim_value(3)
            q = R.prim_value(3)
            y = R.reshape(x, s)
            z = R.reshape(x, t)
            return (y, z, p, q)

    return [EliminateCommonSubexpr()(M), EliminateCommonSubexpr(call_only=True)(M)]


def t_texts_and_functions_with_names_are_shared():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.str("a")
            b = R.str("a")
            f = R.ExternFunc("f")
            g = R.ExternFunc("f")
            return (a, b, f, g)

    return EliminateCommonSubexpr()(M)


def t_purity_is_unchecked_in_a_dataflow_block():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                y = R.call_pure_packed("f", x, ty_args=R.Tensor((2, 3), "float32"))
                z = R.exp(y)
                R.output(z)
            return z

    return RemovePurityChecking()(M)


def t_gradients_stand_in_the_order_of_parameters():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 6), "float32"), i: R.Tensor((3,), "int32"), w: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                taken = R.take(x, i, axis=1)
                lv = R.multiply(taken, w)
                gv = R.sum(lv)
                R.output(gv)
            return gv

    return Gradient("main")(M)


def t_constraints_outside_of_a_context():
    a, b = is_op("relax.exp")(wildcard()), is_op("relax.log")(wildcard())
    row = a.used_by(b)
    return [type(row).__name__, type(a >> b).__name__, type(wildcard() ^ wildcard()).__name__, len(row.patterns)]


def t_users_of_parameters_in_a_check():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                R.output(b)
            return b

    seen = []

    def check(context):
        seen.append({var.name: len(users) for var, users in context.var_usages.items()})
        return True

    pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))
    FuseOpsByPattern([("x.relu", pattern, {}, check)])(M)
    return [sorted(name for name, count in found.items() if count) for found in seen]
