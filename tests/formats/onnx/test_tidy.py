"""Exported graphs hold no more nodes than they need, and constants are stored once, under their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import regraft as rx
from regraft import op
from regraft.ir import BlockBuilder, Function, IRModule, SymVar, TensorType, Var
from regraft.ir.expr import Constant, Expr
from regraft.ir.tensor_data import TensorData
from tests.kit import assert_close


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng([7, *shape]).standard_normal(shape).astype(np.float32)


def _weight(array: np.ndarray, name: str | None = None) -> Constant:
    return Constant(TensorData(array, name))


def _program(params: list[Var], write: Callable[[Callable[[Expr], Var]], list[Expr]]) -> Function:
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            outputs = [builder.emit_output(result) for result in write(builder.emit)]
        builder.emit_func_output(rx.ir.Tuple(outputs) if len(outputs) > 1 else outputs[0])
    return builder.finalize()["main"]


def _input(*shape: Any, name: str = "x") -> Var:
    return Var(name, TensorType(shape, "float32"))


def _operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def _exported(function: Function, *arrays: np.ndarray) -> onnx.ModelProto:
    """The model of ``function``, once ONNX Runtime gives what the reference engine gives."""
    model = rx.to_onnx(function)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, dict(zip([value.name for value in session.get_inputs()], arrays, strict=True)))
    expected = rx.build(IRModule({"main": function}), target="numpy")["main"](*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)
    return model


@pytest.mark.parametrize("shape", [(5, 1, 1), (1, 5, 1, 1)])
@pytest.mark.parametrize("bias_first", [False, True])
def test_a_bias_for_each_channel_goes_into_the_convolution(shape: tuple[int, ...], bias_first: bool) -> None:
    weight, bias = _weight(_random(5, 3, 2, 2)), _weight(_random(5).reshape(shape))

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        conv = emit(op.nn.conv2d(x, weight))
        return [op.add(bias, conv) if bias_first else op.add(conv, bias)]

    x = _input(2, 3, 6, 5)
    assert _operators(_exported(_program([x], write), _random(2, 3, 6, 5))) == {"Conv": 1}


def test_a_bias_that_is_read_as_it_is_too_goes_into_the_convolution() -> None:
    x, bias = _input(1, 3, 6, 6), _weight(_random(5), "b")

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        convolved = emit(op.nn.conv2d(x, _weight(_random(5, 3, 3, 3))))
        return [op.add(convolved, emit(op.reshape(bias, (5, 1, 1)))), op.multiply(bias, emit(op.mean(x)))]

    assert _operators(_exported(_program([x], write), _random(1, 3, 6, 6)))["Add"] == 0


def test_a_bias_of_a_named_weight_keeps_its_name_and_shape() -> None:
    weight, bias = _weight(_random(5, 3, 2, 2), "conv.weight"), _weight(_random(5), "conv.bias")
    x = _input(2, 3, 6, 5)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.add(emit(op.nn.conv2d(x, weight)), emit(op.reshape(bias, (5, 1, 1))))]

    model = _exported(_program([x], write), _random(2, 3, 6, 5))
    assert _operators(model) == {"Conv": 1}
    assert {each.name: list(each.dims) for each in model.graph.initializer} == {
        "conv.weight": [5, 3, 2, 2],
        "conv.bias": [5],
    }


def test_groups_of_a_transposed_convolution_get_their_bias() -> None:
    x = _input(2, 4, 6, 5)
    weight, bias = _weight(_random(4, 3, 2, 2)), _weight(_random(1, 6, 1, 1))

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.add(emit(op.nn.conv2d_transpose(x, weight, groups=2)), bias)]

    assert _operators(_exported(_program([x], write), _random(2, 4, 6, 5))) == {"ConvTranspose": 1}


@pytest.mark.parametrize("shape", [(1,), (5, 5, 4), (4,), (2, 5, 1, 1)])
def test_what_is_no_number_for_each_channel_is_added(shape: tuple[int, ...]) -> None:
    x = _input(2, 3, 6, 5)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.add(emit(op.nn.conv2d(x, _weight(_random(5, 3, 2, 2)))), _weight(_random(*shape)))]

    assert _operators(_exported(_program([x], write), _random(2, 3, 6, 5))) == {"Conv": 1, "Add": 1}


def test_a_convolution_that_is_read_elsewhere_stays_as_it_is() -> None:
    x = _input(2, 3, 6, 5)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        conv = emit(op.nn.conv2d(x, _weight(_random(5, 3, 2, 2))))
        return [op.add(conv, _weight(_random(5, 1, 1))), op.negative(conv)]

    operators = _operators(_exported(_program([x], write), _random(2, 3, 6, 5)))
    assert operators == {"Conv": 1, "Add": 1, "Neg": 1}


def test_a_linear_layer_on_a_matrix_is_one_node_on_its_own_weight() -> None:
    x = _input(3, 4)
    weight, bias = _weight(_random(6, 4), "linear.weight"), _weight(_random(6), "linear.bias")

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.add(emit(op.matmul(x, emit(op.permute_dims(weight)))), bias)]

    model = _exported(_program([x], write), _random(3, 4))
    assert _operators(model)["Gemm"] == len(model.graph.node) == 1
    assert sorted(each.name for each in model.graph.initializer) == ["linear.bias", "linear.weight"]


def test_a_permuted_weight_is_stored_permuted_unless_it_is_read_as_it_is() -> None:
    x, ids = _input(2, 3, 4), Var("ids", TensorType((2, 3), "int64"))
    weight = _weight(_random(70, 4), "table")

    def tied(emit: Callable[[Expr], Var]) -> list[Expr]:
        rows = emit(op.take(weight, ids, 0, "fast"))
        return [op.matmul(rows, emit(op.permute_dims(weight)))]

    model = _exported(_program([ids], tied), np.arange(6).reshape(2, 3))
    assert _operators(model) == {"Gather": 1, "Transpose": 1, "MatMul": 1}
    assert [each.name for each in model.graph.initializer] == ["table"]

    def free(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.matmul(x, emit(op.permute_dims(weight)))]

    model = _exported(_program([x], free), _random(2, 3, 4))
    assert _operators(model) == {"MatMul": 1}
    assert [(each.name, list(each.dims)) for each in model.graph.initializer] == [("table_transposed", [4, 70])]


def test_a_constant_that_is_read_from_a_file_is_arranged_only_as_it_is_written() -> None:
    reads: list[int] = []

    def load() -> np.ndarray:
        reads.append(1)
        return _random(6, 4)

    weight = Constant(TensorData.lazy((6, 4), "float32", load))
    x = _input(2, 3, 4)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.matmul(x, emit(op.permute_dims(weight)))]

    function = _program([x], write)
    assert reads == []
    assert _operators(_exported(function, _random(2, 3, 4))) == {"MatMul": 1}


def test_attention_takes_the_rows_that_heads_were_made_of_and_gives_rows() -> None:
    n, m = SymVar("n"), SymVar("m")
    params = [_input(n, m, 12, name=name) for name in "qkv"]

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        heads = [emit(op.reshape(x, (n, m, 3, 4))) for x in params]
        return [op.reshape(emit(op.nn.attention(*heads)), (n, m, 12))]

    arrays = [_random(2, size, 12) for size in (5, 5, 5)]
    assert _operators(_exported(_program(params, write), *arrays)) == {"Attention": 1}


def test_reshapes_in_a_row_are_one_and_reach_back_over_what_is_read_elsewhere() -> None:
    x = _input(2, 3, 4)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        first = emit(op.reshape(x, (6, 4)))
        back = emit(op.reshape(emit(op.reshape(first, (24,))), (2, 3, 4)))
        return [op.exp(first), op.negative(back)]

    assert _operators(_exported(_program([x], write), _random(2, 3, 4))) == {"Reshape": 1, "Exp": 1, "Neg": 1}


@pytest.mark.parametrize(("first", "then"), [([2], [3]), ([0], [0]), ([1], [0]), ([0, 2], [1]), ([3], [0, 2])])
def test_axes_that_are_added_twice_are_added_once(first: list[int], then: list[int]) -> None:
    x = _input(2, 3, 4)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.exp(emit(op.expand_dims(emit(op.expand_dims(x, first)), then)))]

    assert _operators(_exported(_program([x], write), _random(2, 3, 4))) == {"Unsqueeze": 1, "Exp": 1}


def test_a_result_that_is_the_sum_behind_a_convolution_keeps_its_place_and_name() -> None:
    x = _input(2, 3, 6, 5)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        conv = emit(op.nn.conv2d(x, _weight(_random(5, 3, 2, 2))))
        return [op.exp(x), op.add(conv, _weight(_random(5, 1, 1)))]

    function = _program([x], write).with_attr("output_names", ("first", "second"))
    model = _exported(function, _random(2, 3, 6, 5))
    assert [value.name for value in model.graph.output] == ["first", "second"]
    assert _operators(model) == {"Exp": 1, "Conv": 1}


def test_what_nothing_reads_is_not_written() -> None:
    x = _input(2, 3)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        emit(op.exp(emit(op.negative(x))))
        return [op.sin(x)]

    assert _operators(_exported(_program([x], write), _random(2, 3))) == {"Sin": 1}


def test_what_is_computed_twice_is_one_node_and_both_results_are_there() -> None:
    x = _input(2, 3)

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.exp(emit(op.sin(x))), op.exp(emit(op.sin(x))), op.cumsum(x, 0), op.cumsum(x, 1)]

    model = _exported(_program([x], write), _random(2, 3))
    assert _operators(model) == {"Sin": 1, "Exp": 1, "Identity": 1, "CumSum": 2}
    assert len({value.name for value in model.graph.output}) == 4


def test_layers_of_attention_prepare_their_mask_once() -> None:
    mask = _input(2, 1, 1, 5, name="mask")
    params = [_input(2, 5, 3, 4, name=name) for name in "qkv"]

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        first = emit(op.nn.attention(*params, mask))
        return [op.nn.attention(first, params[1], params[2], mask)]

    arrays = [_random(2, 1, 1, 5), *[_random(2, 5, 3, 4) + place for place in range(3)]]
    operators = _operators(_exported(_program([mask, *params], write), *arrays))
    assert operators["Attention"] == 2
    assert operators["Expand"] == 1


def test_weights_keep_the_names_of_the_onnx_model_that_they_come_from() -> None:
    x = _input(2, 3, 4)
    weight, table = _weight(_random(4, 5), "decoder.weight"), _weight(_random(2, 3, 5), "decoder.table")
    shift = _weight(np.asarray(0.5, np.float32))

    def write(emit: Callable[[Expr], Var]) -> list[Expr]:
        return [op.multiply(emit(op.add(emit(op.matmul(x, weight)), table)), shift)]

    model = _exported(_program([x], write), _random(2, 3, 4))
    for result in (rx.to_onnx(rx.from_onnx(model)), rx.optimize(model)):
        names = {each.name for each in result.graph.initializer if len(each.dims)}
        assert names == {"decoder.weight", "decoder.table"}


def test_constant_results_of_a_file_are_constants_under_their_names_and_take_no_nodes() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[n] x) => (float[n] y, float[2] a, float[2] b, float[2] c)
        <float[4] both = {1, 2, 3, 4}> {
            y = Neg (x)
            [the_split_of_both] a, b = Split <axis = 0> (both)
            [the_sum_of_its_halves] c = Add (a, b)
        }
    """)
    result = rx.optimize(model)
    assert _operators(result) == {"Neg": 1}
    assert [one.name for one in result.graph.output] == ["y", "a", "b", "c"]
    x = _random(3)
    runs = [onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x}) for each in (model, result)]
    here = rx.build(rx.from_onnx(result), target="openvino")["main"](x)
    for wanted, found, again in zip(*runs, here, strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(again, wanted)
