"""Calls between workers, lowerings of one's own, and errors by Relax's names."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import ir as I
from tvm.script import relax as R


def types(of):
    """The type of each collective operator on one tensor, or that it is refused."""
    x = relax.Var("x", of)
    ccl = relax.op.ccl
    calls = (
        lambda: ccl.allreduce(x, "sum"),
        lambda: ccl.allreduce(x, "max", False),
        lambda: ccl.allgather(x, 2),
        lambda: ccl.broadcast_from_worker0(x),
        lambda: ccl.scatter_from_worker0(x, 2),
        lambda: ccl.scatter_from_worker0(x, 3, 1),
    )
    found = []
    for call in calls:
        try:
            found.append(str(relax.BlockBuilder().normalize(call()).ty))
        except Exception:
            found.append("refused")
    return found


def t_collectives_of_types():
    return [
        types(of)
        for of in (
            R.Tensor((4, 6), "float32"),
            R.Tensor((5, 6), "float32"),
            R.Tensor("float32", ndim=2),
            R.Tensor(),
            R.Tensor(()),
            R.Shape((2, 3)),
        )
    ]


@I.ir_module
class Collectives:
    @R.function
    def main(x: R.Tensor((10, 10), "float32")):
        gv0 = R.ccl.allreduce(x, "sum")
        gv1 = R.ccl.allreduce(gv0, "prod", in_group=False)
        gv2: R.Tensor((20, 10), "float32") = R.ccl.allgather(gv1, 2)
        gv3 = R.ccl.broadcast_from_worker0(gv2)
        gv4: R.Tensor((2, 10), "float32") = R.ccl.scatter_from_worker0(gv3, num_workers=10, axis=0)
        return gv4


def t_collectives():
    return Collectives


def t_text_of_collectives():
    return Collectives.script()


def t_unknown_reduction_raises():
    return relax.op.ccl.allreduce(relax.Var("x", R.Tensor((2,))), "nothing")


def t_internal_errors():
    x, y = relax.Var("x", R.Tensor((2,), "float32")), relax.Var("y", R.Tensor((3,), "float32"))
    try:
        relax.BlockBuilder().normalize(relax.op.add(x, y))
    except (tvm.error.InternalError, ValueError):
        return True
    return False


def t_lowering_of_ones_own():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            z: R.Tensor((2, 3), "float32") = R.add(x, y)
            return z

    def lower(bb, call):
        return relax.op.subtract(bb.emit(relax.op.subtract(call.args[0], call.args[1])), call.args[0])

    return relax.transform.LegalizeOps({"relax.add": lower}, skip_ops=["relax.subtract"])(Module)


def file(weight):
    made = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(made, ir_version=8)


def t_file():
    return from_onnx(file(np.array(2.0, "float32")))


def t_weights_of_a_file():
    module, params = relax.frontend.detach_params(
        from_onnx(file(np.arange(3, dtype="float32")), keep_params_in_input=True)
    )
    return [len(module["main"].params), params["main"][0].numpy().tolist(), str(params["main"][0].dtype)]


def t_file_run_after_legalize_ops():
    module = from_onnx(file(np.arange(3, dtype="float32")), keep_params_in_input=True)
    module = relax.transform.LegalizeOps()(relax.transform.DecomposeOpsForInference()(module))
    module, params = relax.frontend.detach_params(module)
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    machine.set_input("main", tvm.runtime.tensor(np.ones((2, 3), "float32")), *params["main"])
    machine.invoke_stateful("main")
    return machine.get_outputs("main")
