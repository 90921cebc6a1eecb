import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def _model(nodes, inputs, outputs, weights=()):
    def described(values):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values]

    initializers = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "graph", described(inputs), described(outputs), initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _relu(shape=(2, 3), name="a"):
    return _model([helper.make_node("Relu", [name], ["c"])], [(name, shape)], [("c", shape)])


def t_dtype_of_one_input():
    return from_onnx(_relu(), dtype_dict={"a": "float16"})


def t_one_dtype_for_all_inputs():
    return from_onnx(_relu(), dtype_dict="float16")


def t_two_results():
    nodes = [helper.make_node("Relu", ["a"], ["c"]), helper.make_node("Tanh", ["a"], ["d"])]
    return from_onnx(_model(nodes, [("a", [2, 3])], [("c", [2, 3]), ("d", [2, 3])]))


def t_a_result_that_is_read():
    nodes = [helper.make_node("Relu", ["a"], ["c"]), helper.make_node("Tanh", ["c"], ["d"])]
    return from_onnx(_model(nodes, [("a", [2, 3])], [("c", [2, 3]), ("d", [2, 3])]))


def t_results_of_a_split():
    nodes = [helper.make_node("Split", ["a"], ["c", "d"], axis=0, num_outputs=2)]
    return from_onnx(_model(nodes, [("a", [4, 3])], [("c", [2, 3]), ("d", [2, 3])]))


def t_names_of_inputs():
    names = ["1.a", "b.c", "_d"]
    return [from_onnx(_relu(name=name))["main"].params[0].name for name in names]


def t_names_as_they_are():
    return from_onnx(_relu(name="a/x"), sanitize_input_names=False)["main"].params[0].name


def t_weights_as_parameters():
    nodes = [helper.make_node("Add", ["a", "w"], ["c"])]
    model = _model(nodes, [("a", [2, 3])], [("c", [2, 3])], [("w", np.ones((2, 3), "float32"))])
    module, params = relax.frontend.detach_params(from_onnx(model, keep_params_in_input=True))
    return [list(params), len(params["main"]), params["main"][0].numpy(), module]
