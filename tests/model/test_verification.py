"""Verification: a wrong result is found, told, and never written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regraft import BlockBuilder, Function, IRModule, Rule, TensorType, Var, const, op
from regraft.dpl import is_op, wildcard
from regraft.ir.mutator import ExprMutator
from regraft.model import UsageError, VerificationError, optimize
from regraft.model.comparison import compare_outputs
from regraft.model.models import open_model, run_as_it_is, run_exactly
from regraft.model.verification import Verification, run_program, verify
from regraft.reference.trials import tolerance
from regraft.run.errors import ExecutionError
from regraft.run.originals import onnx_original
from regraft.run.processor import multiplies_bytes
from regraft.transform import FunctionPass, PassContext
from tests.model.models import WIDTHS, files, projections, save


def scaled_by(factor: float, name: str = "relax.matmul") -> FunctionPass:
    """A pass that is wrong by a factor at calls of an operator, and says that it is not."""

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        class Scale(ExprMutator):
            def visit_call_(self, call: Any) -> Any:
                if call.op.name != name:
                    return call
                return op.multiply(self.emit(call), const(factor, call.ty.dtype))

        return Scale().mutate(function)

    return FunctionPass(transform, "ScaledBy")


def one_op(
    name: str, *, kind: int = TensorProto.FLOAT, shape: list[Any] | None = None, **attributes: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(name, ["x"], ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", kind, shape or ["n", 3])],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_a_wrong_result_is_told_with_output_and_size_and_not_written(tmp_path: Path) -> None:
    source = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    with pytest.raises(VerificationError, match=r"output query_out: .* of 240 elements differ") as caught:
        optimize(source, output=tmp_path / "out.onnx", passes=scaled_by(1.001), verify=True)
    assert [one.problem is not None for one in caught.value.differences] == [True] * len(WIDTHS)
    assert caught.value.differences[0].relative == pytest.approx(1e-3, rel=0.05)
    assert files(tmp_path) == before


def test_samples_take_the_place_of_random_inputs(tmp_path: Path) -> None:
    """The rule is wrong for large numbers only, which random inputs do not have and one sample has."""
    source = save(one_op("Clip", shape=[4]), tmp_path / "model.onnx")
    x = wildcard()
    wrong = Rule(
        is_op("relax.clip")(x, wildcard(), wildcard()), lambda _, found: op.minimum(found[x], const(50.0)), "wrong"
    )
    folder = tmp_path / "samples"
    folder.mkdir()
    for index, least in enumerate((0, 10, 60)):
        np.savez(folder / f"{index}.npz", x=np.arange(least, least + 4, dtype="float32"))
    made: list[Any] = []
    output = tmp_path / "out.onnx"
    optimize(source, output=output, rules=wrong, verify=True, report=made.append)
    optimize(source, output=output, rules=wrong, verify=True, inputs=[folder / "0.npz"], report=made.append)
    assert "on 1 sample" in made[1].verification.against
    with pytest.raises(VerificationError, match="output y") as caught:
        optimize(source, output=output, rules=wrong, verify=True, inputs=folder)
    assert "on 3 samples" in caught.value.against
    assert caught.value.differences[0].absolute == 13


def test_files_that_together_have_all_inputs_are_one_sample(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "sum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    source = save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx"
    )
    np.save(tmp_path / "a.npy", np.ones(3, "float32"))
    np.save(tmp_path / "b.npy", np.full(3, -np.inf, "float32"))
    made: list[Any] = []
    inputs = [tmp_path / "a.npy", tmp_path / "b.npy"]
    optimize(source, verify=True, inputs=inputs, report=made.append)
    assert made[0].verification.against.endswith("on 1 sample")


def test_a_difference_that_was_allowed_passes(tmp_path: Path) -> None:
    source = save(projections(), tmp_path / "model.onnx")
    optimize(source, output=tmp_path / "out.onnx", passes=scaled_by(1.001), verify=True, tolerance=2e-3)
    assert (tmp_path / "out.onnx").exists()


def test_without_verification_nothing_is_run(tmp_path: Path) -> None:
    verifications: list[object] = []
    optimize(
        save(projections(), tmp_path / "model.onnx"),
        output=tmp_path / "out.onnx",
        passes=scaled_by(2.0),
        report=lambda made: verifications.append(made.verification),
    )
    assert verifications == [None]
    assert (tmp_path / "out.onnx").exists()


def test_sizes_of_the_random_inputs_can_be_set() -> None:
    shapes: list[tuple[int, ...]] = []
    optimize(
        projections(),
        verify=True,
        dims={"batch": 4},
        report=lambda made: shapes.extend(one.shape for one in made.verification.differences),
    )
    assert shapes[0] == (4, 6, 8)


def test_a_size_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"sizes cannot be set: .*nobody"):
        optimize(projections(), verify=True, dims={"nobody": 4})


def test_a_model_that_gives_no_numbers_cannot_be_verified() -> None:
    model = one_op("Sqrt")
    model.graph.node.insert(0, helper.make_node("Exp", ["x"], ["e"]))
    model.graph.node.insert(1, helper.make_node("Neg", ["e"], ["m"]))
    model.graph.node[2].input[0] = "m"
    with pytest.raises(UsageError, match="NaN or infinities on every choice of random inputs"):
        optimize(model, verify=True)


def test_a_model_that_draws_random_numbers_cannot_be_verified() -> None:
    model = one_op("Add")
    del model.graph.node[:]
    for name, given in ((["twice"], ["x", "x"]), (["y"], ["twice", "noise"])):
        model.graph.node.append(helper.make_node("Add", given, name))
    model.graph.node.insert(1, helper.make_node("RandomNormalLike", ["twice"], ["noise"]))
    model.graph.node.insert(0, helper.make_node("Identity", ["x"], ["unused"]))  # the drawing node comes earlier now
    assert len(optimize(model).graph.node) == 3
    with pytest.raises(UsageError, match="draws random numbers"):
        optimize(model, verify=True)


def test_indices_are_drawn_until_they_are_in_range() -> None:
    table = onnx.numpy_helper.from_array(np.arange(8, dtype="float32").reshape(2, 4), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "tokens"], ["y"])],
        "gather",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    problems: list[object] = []
    optimize(model, verify=True, report=lambda made: problems.extend(d.problem for d in made.verification.differences))
    assert problems == [None]


def test_a_model_that_onnx_runtime_does_not_open_is_held_against_what_was_read() -> None:
    model = projections()
    model.ir_version = 99  # of a format that is not there yet
    against: list[str] = []
    optimize(model, verify=True, report=lambda made: against.append(made.verification.against))
    assert against[0].startswith("the model as it was read, since ONNX Runtime")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), None),
        (np.float32([1, np.nan]), np.float32([1, np.nan]), None),
        (np.float32([1, 2]), np.float32([1, np.nan]), "1 of 2 elements differ"),
        (np.float32([1, 2]), np.float64([1, 2]), "dtype float64 instead of float32"),
        (np.float32([1, 2]), np.float32([[1, 2]]), "shape"),
        (np.int64([2**60]), np.int64([2**60 + 1]), "1 of 1 elements differ"),
        (np.float32([1000, 0]), np.float32([1000, 1e-3]), None),
        (np.float32([1, 0]), np.float32([1, 1e-3]), "1 of 2 elements differ"),
    ],
)
def test_outputs_are_compared_by_dtype_shape_and_value(
    before: np.ndarray, after: np.ndarray, problem: str | None
) -> None:
    [found] = compare_outputs(["y"], [before], [after])
    assert (found.problem is None) if problem is None else problem in str(found.problem)


def test_a_pass_of_the_right_values_has_a_difference_of_zero() -> None:
    x = Var("x", TensorType((2, 3), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(op.nn.relu(x))
        builder.emit_func_output(y)
    found: list[float] = []
    optimize(builder.get(), verify=True, report=lambda made: found.append(made.verification.differences[0].absolute))
    assert found == [0.0]


def test_double_precision_that_comes_of_single_is_held_to_single(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.DOUBLE),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n", "n"])
    graph = helper.make_graph(nodes, "sums", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    source = save(model, tmp_path / "sums.onnx")
    optimize(source, output=tmp_path / "out.onnx", passes=scaled_by(1 + 1e-6), verify=True)
    with pytest.raises(VerificationError, match="output y"):
        optimize(source, output=tmp_path / "other.onnx", passes=scaled_by(1.001), verify=True)


def test_single_precision_that_comes_of_half_is_held_to_half(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Transpose", ["h"], ["t"]),
        helper.make_node("MatMul", ["h", "t"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "n"])
    graph = helper.make_graph(nodes, "sums", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    source = save(model, tmp_path / "sums.onnx")
    optimize(source, output=tmp_path / "out.onnx", passes=scaled_by(1.001), verify=True)
    with pytest.raises(VerificationError, match="output y"):
        optimize(source, output=tmp_path / "other.onnx", passes=scaled_by(1.05), verify=True)


PACKED = helper.make_node("MultiHeadAttention", ["x"], ["y"], domain="com.microsoft", num_heads=2)
"""A form that ONNX Runtime's kernel on CPUs refuses when it runs."""
ELSEWHERE = helper.make_node("BiasSplitGelu", ["x", "b"], ["y"], domain="com.microsoft")
"""An operator without a kernel on CPUs, so that ONNX Runtime does not open the model."""


@pytest.mark.parametrize(("node", "shape"), [(PACKED, [2, 5, 2, 3, 4]), (ELSEWHERE, [2, 5, 64])])
def test_a_model_for_another_device_is_verified_as_it_was_read_and_as_it_was_written(
    node: onnx.NodeProto, shape: list[int], tmp_path: Path
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    bias = onnx.numpy_helper.from_array(np.linspace(-1, 1, 64, dtype="float32"), "b")
    nodes = [node, helper.make_node("Relu", ["y"], ["a"]), helper.make_node("Relu", ["a"], ["z"])]
    graph = helper.make_graph(nodes, "other", [x], [y], [bias] if "b" in node.input else [])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    source = save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "other.onnx")
    against: list[str] = []
    out = tmp_path / "out.onnx"
    optimize(source, output=out, verify=True, report=lambda made: against.append(made.verification.against))
    assert against[0].startswith("the model as it was read, since ONNX Runtime")
    assert onnx.load(out).graph.node[0].op_type == node.op_type
    with pytest.raises(VerificationError, match="output z"):
        optimize(source, output=out, passes=scaled_by(1.001, "relax.nn.relu"), verify=True)


def step_by_step(step: list[onnx.NodeProto], factor: float) -> onnx.ModelProto:
    """A loop that computes ``now`` from ``before`` by ``step``, in which ``factor`` is a constant."""
    same = helper.make_node("Identity", ["go"], ["on"])
    kept = helper.make_node("Identity", ["now"], ["all"])
    body = helper.make_graph(
        [same, *step, kept],
        "step",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("now", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("all", TensorProto.FLOAT, [3]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["steps", "", "x"], ["last", "y"], body=body)],
        "steps",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("steps", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.float32(value), name) for name, value in [("one", 1), ("factor", factor)]],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


UNSTEADY = [
    helper.make_node("Sub", ["one", "before"], ["rest"]),
    helper.make_node("Mul", ["before", "rest"], ["product"]),
    helper.make_node("Mul", ["product", "factor"], ["now"]),
]
"""The logistic map: at 3.9, a difference grows to some 1.6 times in a step."""

STEADY = [
    helper.make_node("Tanh", ["before"], ["bent"]),
    helper.make_node("Mul", ["bent", "factor"], ["now"]),
]


def held_against_each_other(step: list[onnx.NodeProto], right: float, found: float, folder: Path) -> Verification:
    sample = {"x": np.float32([0.31, 0.52, 0.77]), "steps": np.int64(12)}
    paths = [save(step_by_step(step, factor), folder / f"{factor!r}.onnx") for factor in (right, found)]
    model, result = (open_model(path) for path in paths)
    return verify(model, result, inputs=[sample])


def test_roundings_that_a_loop_lets_grow_are_allowed_as_far_as_the_model_itself_moves(tmp_path: Path) -> None:
    rounded = float(np.nextafter(np.float32(3.9), np.float32(4)))
    [found] = held_against_each_other(UNSTEADY, 3.9, rounded, tmp_path).differences
    assert tolerance("float32") < found.relative <= found.tolerance <= np.finfo(np.float32).eps ** 0.5


@pytest.mark.parametrize(("step", "right", "wrong"), [(UNSTEADY, 3.9, 3.9003), (STEADY, 0.9, 0.90003)])
def test_a_loop_that_computes_something_else_is_found(
    step: list[onnx.NodeProto], right: float, wrong: float, tmp_path: Path
) -> None:
    with pytest.raises(VerificationError, match="output y"):
        held_against_each_other(step, right, wrong, tmp_path)


def rounded_to_steps(
    factor: float, offset: float = 0.0, *, gives_codes: bool = False, domain: str = ""
) -> onnx.ModelProto:
    """Whole numbers and a half, times ``factor``, to whole ones, times 3; then ``offset`` is added.

    ``gives_codes``: the whole ones alone, transposed, beside those of whole numbers and ``offset``. ``domain``: whose
    operators do it.
    """
    nodes = [
        helper.make_node("Floor", ["x"], ["whole"]),
        helper.make_node("Add", ["whole", "half"], ["between"]),
        helper.make_node("Mul", ["between", "factor"], ["near"]),
        helper.make_node("QuantizeLinear", ["near", "step", "zero"], ["codes"], domain=domain),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["numbers"], domain=domain),
        helper.make_node("Mul", ["numbers", "three"], ["times"]),
        helper.make_node("Add", ["times", "offset"], ["y"]),
    ]
    if gives_codes:
        nodes[4:] = [
            helper.make_node("Add", ["whole", "offset"], ["moved"]),
            helper.make_node("QuantizeLinear", ["moved", "step", "zero"], ["others"]),
            helper.make_node("Concat", ["codes", "others"], ["both"], axis=0),
            helper.make_node("Transpose", ["both"], ["y"]),
        ]
    numbers = {"half": 0.5, "factor": factor, "step": 1, "three": 3, "offset": offset}
    weights = [numpy_helper.from_array(np.array(number, np.float32), name) for name, number in numbers.items()]
    graph = helper.make_graph(
        nodes,
        "rounded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8 if gives_codes else TensorProto.FLOAT, None)],
        [*weights, numpy_helper.from_array(np.array(0, np.uint8), "zero")],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_a_value_between_two_steps_of_a_quantization_may_go_to_either(domain: str) -> None:
    model = open_model(rounded_to_steps(1, domain=domain))

    def against(factor: float, offset: float = 0.0) -> Verification:
        result = open_model(rounded_to_steps(factor, offset, domain=domain))
        return verify(model, result, ranges={"x": (0, 200)}, dims={"n": 4})

    found = against(1 + 1e-6)
    [row] = found.differences
    assert row.absolute == 3
    assert row.relative <= row.tolerance <= 1 / 16
    assert "by the effect of one step" in found.against
    assert "by the effect of one step" not in against(1).against
    for wrong in ({"factor": 1.1}, {"factor": 1, "offset": 13}):
        with pytest.raises(VerificationError, match="output y"):
            against(**wrong)
    with pytest.raises(VerificationError, match="an error of 3 "):
        verify(model, open_model(rounded_to_steps(1 + 1e-6, domain=domain)), ranges={"x": (0, 200)}, allowed=1e-5)


def test_codes_may_differ_by_one_where_the_value_before_lies_between_two() -> None:
    model = open_model(rounded_to_steps(1, gives_codes=True))

    def against(factor: float, offset: float = 0.0) -> Verification:
        result = open_model(rounded_to_steps(factor, offset, gives_codes=True))
        return verify(model, result, ranges={"x": (0, 200)}, dims={"n": 4})

    found = against(1 + 1e-6)
    [row] = found.differences
    assert (row.absolute, row.relative) == (1, row.tolerance)
    assert "by the effect of one step" in found.against
    assert "by the effect of one step" not in against(1, 1e-6).against
    # A code more where the value is a whole number, and two codes more.
    for wrong in ((1, 0.6), (1.01, 0)):
        with pytest.raises(VerificationError, match="output y"):
            against(*wrong)


def test_a_quantized_model_that_overflows_here_is_held_against_its_exact_values(tmp_path: Path) -> None:
    weights = np.full((64, 3), 127, np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "scale"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    opened = open_model(model)
    run = run_exactly(opened)
    assert (run is None) == multiplies_bytes()
    given = np.full((4, 64), 3, np.float32)
    found = (run or run_program(opened.module, "main"))([given])[0]
    np.testing.assert_allclose(found, given @ weights.astype(np.float32), rtol=1e-6)
    for suffix in (".onnx", ".relax", ".xml"):
        result = optimize(model, output=tmp_path / f"out{suffix}", verify=True, ranges={"x": (2, 3)})
        assert result.exists()


def test_products_with_weights_of_few_bits_are_held_against_their_exact_values() -> None:
    random = np.random.default_rng(0)
    weights = onnx.helper.make_tensor(
        "w", TensorProto.INT4, [64, 32], random.integers(-8, 8, 64 * 32).astype(np.int8).tolist()
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scales"], ["numbers"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "numbers"], ["y"]),
    ]
    scales = random.uniform(0.01, 0.1, (2, 32)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "few_bits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [weights, numpy_helper.from_array(scales, "scales")],
    )
    model = open_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    run = run_as_it_is(model)
    assert run is not None
    given = random.normal(size=(4, 64)).astype(np.float32)
    [found], [exact] = run([given]), run_program(model.module, "main", "numpy")([given])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_a_result_of_more_axes_than_numpy_has_is_an_error_of_the_run() -> None:
    graph = helper.make_graph(
        [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])],
        "deep",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.arange(70), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ExecutionError, match="64"):
        onnx_original(model)([np.ones(4, np.float32)])
