import tvm
from tvm import relax
from tvm.relax.dpl import PatternContext, is_op, is_var, wildcard
from tvm.relax.training import SetupTrainer
from tvm.relax.training.loss import MSELoss
from tvm.relax.training.optimizer import SGD, MomentumSGD
from tvm.relax.transform import Gradient
from tvm.script import relax as R, ir as I, tirx as T


def t_rows():
    with PatternContext():
        first, second, third = wildcard(), wildcard(), wildcard()
        row = first.only_used_by(second) ^ third
        return [str(row), str(row.dup()), str(first), len(row.patterns)]


def t_same_pattern():
    one = wildcard()
    return [one.same_as(one), one.same_as(wildcard())]


def t_operands_that_no_call_has():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    call = relax.op.add(x, x)
    return [
        is_op("relax.add")(is_var("x")).match(call),
        is_op("relax.add")(is_var("x"), varg_default_wildcard=True).match(call),
    ]


def _first_states(optimizer):
    @I.ir_module
    class Backbone:
        I.module_attrs({"param_num": 1, "state_num": 0})

        @R.function
        def backbone(x: R.Tensor((2, 2), "float64"), w: R.Tensor((2, 2), "float64")):
            with R.dataflow():
                out = R.matmul(x, w)
                R.output(out)
            return out

    out = relax.TensorType((2, 2), "float64")
    module = SetupTrainer(MSELoss(reduction="sum"), optimizer, [out, out], legalize=False)(Backbone)
    return [state.numpy() for state in module.attrs["optim_state"]]


def t_first_states():
    return [_first_states(SGD(0.1)), _first_states(MomentumSGD(0.1, 0.9))]


def t_gradient_of_a_sum_of_one_number():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                product = R.matmul(x, y)
                total = R.sum(product)
                R.output(total)
            return total

    return Gradient("main")(Module)


def t_combined_products_are_outputs():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 8), "float32"))
    weights = [relax.Var(f"w{i}", R.Tensor((8, 6 + i), "float32")) for i in range(3)]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            products = [builder.emit(R.nn.relu(builder.emit(R.matmul(x, weight)))) for weight in weights]
            outputs = [builder.emit_output(product) for product in products]
        builder.emit_func_output(relax.Tuple(outputs))
    return relax.transform.CombineParallelMatmul()(builder.get())
