import numpy as np
import onnx
from onnx import TensorProto, helper
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import relax as R, tirx as T


def t_a_shape_as_a_value():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Shape(ndim=2):
        n = T.int64()
        s: R.Shape([n, 4]) = R.ShapeExpr([n, 4])
        return s

    return main


def t_a_shape_for_a_reshape():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        y = R.reshape(x, R.ShapeExpr([n * 4]))
        z = R.broadcast_to(R.const(1.0), R.ShapeExpr((2, n)))
        return y, z

    return main


def t_a_field_of_a_tuple():
    @R.function
    def main(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))):
        with R.dataflow():
            y = R.TupleGetItem(x, 1)
            z = R.add(y, y)
            R.output(z)
        return z

    return main


def _of_opset(opset, *nodes, **keywords):
    described = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes), "graph", [described("x", TensorProto.FLOAT, [2, 4])], [described("y", TensorProto.FLOAT, None)]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return from_onnx(helper.make_model(graph, opset_imports=imports, ir_version=9), opset=opset, **keywords)


def t_an_opset_of_the_caller():
    return _of_opset(18, helper.make_node("Relu", ["x"], ["y"]))["main"].ret_ty


def t_an_older_opset_of_the_caller():
    return _of_opset(13, helper.make_node("Softmax", ["x"], ["y"], axis=-1))["main"].ret_ty


def _runs(module, *arrays):
    ex = tvm.compile(module, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    found = vm["main"](*[tvm.runtime.tensor(array) for array in arrays])
    return np.round(found.numpy().astype("float64"), 4).tolist()


def _bias():
    tensor = helper.make_tensor("b", TensorProto.FLOAT, [4], [0.5, -0.5, 1.0, 0.0])
    return helper.make_node("Constant", [], ["b"], value=tensor)


_X = np.linspace(-3, 3, 8, dtype="float32").reshape(2, 4)


def t_gelu_of_microsoft():
    return _runs(_of_opset(18, helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")), _X)


def t_fast_gelu_of_microsoft():
    return _runs(_of_opset(18, helper.make_node("FastGelu", ["x"], ["y"], domain="com.microsoft")), _X)


def t_bias_gelu_of_microsoft():
    bias = _bias()
    return _runs(_of_opset(18, bias, helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")), _X)


def t_fast_gelu_with_a_bias():
    bias = _bias()
    return _runs(_of_opset(18, bias, helper.make_node("FastGelu", ["x", "b"], ["y"], domain="com.microsoft")), _X)
