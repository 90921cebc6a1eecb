"""FoldConstant, BindParams, BindSymbolicVars, LiftTransformParams: what can be computed before the inputs are there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from regraft.analysis import defined_symbolic_vars, well_formed
from regraft.ir import (
    BlockBuilder,
    Constant,
    Function,
    IRModule,
    Op,
    TensorData,
    TensorType,
    Var,
    assert_structural_equal,
)
from regraft.reference.trials import difference
from regraft.script import relax as R
from regraft.testing import random_inputs
from regraft.transform import (
    BindParams,
    BindSymbolicVars,
    CombineParallelMatmul,
    FoldBatchnormToConv2D,
    FoldConstant,
    LiftTransformParams,
    PassError,
    ReorderPermuteDimsAfterConcat,
    Sequential,
    report,
)
from tests.kit import assert_close
from tests.passes.harness import checked, counts, program, run

RNG = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _linear() -> Function:
    return program(
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), v: R.Tensor((5, 3), "float32")',
        "p = R.matmul(x, R.permute_dims(w))\nq = R.matmul(x, R.permute_dims(v))",
        "p, q",
    )


# --- FoldConstant


def test_chains_of_constants_fold_into_one() -> None:
    before = program(
        'x: R.Tensor((2, 3), "float32")',
        'a = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))\nb = R.multiply(a, a)\nr = R.add(x, b)',
        "r",
    )
    after = checked(FoldConstant(), before, exact=True)
    assert counts(after) == {"add": 1}


def test_numpy_does_not_warn_of_constants_that_fold() -> None:
    before = program(
        'x: R.Tensor((2,), "float32")',
        'c = R.mean(R.zeros(R.shape([2, 0]), "float32"), axis=1)\nr = R.add(x, c)',
        "r",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [binding] = FoldConstant()(before).body.blocks[0]
        [_x, constant] = binding.value.args
        assert np.isnan(constant.data.numpy()).all()


def test_results_of_several_fields_fold() -> None:
    before = program(
        'x: R.Tensor((2,), "float32")',
        'c = R.const([1.0, 2.0, 3.0, 4.0], "float32")\ns = R.split(c, 2)\nr = R.add(x, R.multiply(s[0], s[1]))',
        "r",
    )
    assert counts(checked(FoldConstant(), before, exact=True)) == {"add": 1}


def test_a_constant_that_would_grow_beyond_the_limit_is_left() -> None:
    before = program(
        'x: R.Tensor((100, 100), "float32")',
        'a = R.zeros((100, 100), "float32")\nb = R.broadcast_to(R.const(1.0, "float32"), (3, 1, 1))\n'
        "r = R.add(x, a)\ns = R.add(r, b)",
        "s",
    )
    after = checked(FoldConstant(), before, exact=True)
    assert counts(after) == {"zeros": 1, "add": 2}
    assert counts(checked(FoldConstant(most_grown=10_000), before, exact=True)) == {"add": 2}
    assert "larger than the constants" in str(report(FoldConstant(), before))


def _of_weights(body: str, *weights: np.ndarray) -> Function:
    """A program of ``x`` and of the constants ``w``, ``v``, named as those of a model, as ``body`` says."""
    names = ("w", "v")[: len(weights)]
    shapes = {"x": weights[0].shape, **{name: one.shape for name, one in zip(names, weights, strict=True)}}
    text = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items())
    named = {name: TensorData(one, name) for name, one in zip(names, weights, strict=True)}
    return BindParams("main", named)(program(text, body, "r"))


_NORMALIZED = "n = R.sqrt(R.sum(R.multiply(w, w), axis=[1], keepdims=True))\n"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("r = R.add(x, R.divide(w, n))", {"add": 1}),
        ("r = R.add(x, R.multiply(R.divide(w, n), v))", {"add": 1}),
        # The quotient would stand beside the weight, or beside another result of it.
        ("r = R.multiply(R.add(x, R.divide(w, n)), w)", {"divide": 1, "add": 1, "multiply": 1}),
        ("r = R.multiply(R.add(x, R.divide(w, n)), R.exp(w))", {"divide": 1, "add": 1, "multiply": 1, "exp": 1}),
        ("r = R.add(x, R.add(R.divide(w, n), R.permute_dims(R.permute_dims(w))))", {"add": 1}),
    ],
)
def test_a_weight_over_its_norm_is_computed_where_the_weight_then_goes(body: str, left: dict[str, int]) -> None:
    before = _of_weights(_NORMALIZED + body, *[_random(6, 7) for _ in range(2 if "v" in body else 1)])
    after = checked(FoldConstant(16, keep_named=True, keep_shared=True), before)
    assert counts(after) == left


def test_a_weight_that_is_quantized_and_back_stays_in_few_bits_where_constants_do_not_grow() -> None:
    scale = 'R.const(0.1, "float32"), R.const(0, "int8")'
    codes = f'q = R.quantize(w, {scale}, out_dtype="int8")\n'
    before = _of_weights(codes + f"r = R.add(x, R.dequantize(q, {scale}))", _random(6, 7))
    after = checked(FoldConstant(16, keep_named=True, keep_shared=True), before)
    assert counts(after) == {"dequantize": 1, "add": 1}


def test_large_weights_fold_where_they_are_only_rearranged() -> None:
    before = BindParams("main", {"w": _random(4, 3), "v": _random(5, 3)})(_linear())
    passes = Sequential([CombineParallelMatmul(), ReorderPermuteDimsAfterConcat(), FoldConstant(most_grown=1)])
    assert counts(checked(passes, before)) == {"matmul": 1, "split": 1}


def test_weights_that_are_not_in_memory_are_not_read() -> None:
    loads: list[str] = []

    def load() -> np.ndarray:
        loads.append("w")
        return np.arange(12, dtype=np.float32).reshape(4, 3)

    x = Var("x", TensorType((2, 3), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        weight = builder.emit(R.permute_dims(Constant(TensorData.lazy((4, 3), "float32", load))))
        builder.emit_func_output(builder.emit(R.matmul(x, weight)))
    before = builder.get()["main"]
    after = FoldConstant()(before)
    assert counts(after) == {"matmul": 1}
    assert loads == []
    inputs = [_random(2, 3)]
    np.testing.assert_array_equal(run(after, inputs), inputs[0] @ np.arange(12, dtype=np.float32).reshape(4, 3).T)
    assert loads == ["w"]


def test_a_call_without_a_meaning_here_stays_also_over_weights_that_are_not_in_memory() -> None:
    weight = Constant(TensorData.lazy((4, 3), "float32", lambda: np.zeros((4, 3), np.float32)))
    builder = BlockBuilder()
    with builder.function("main", []):
        call = Op.foreign("com.acme::Pool", pure=True)(weight, ty_args=[TensorType((2, 3), "float32")])
        builder.emit_func_output(builder.emit(call))
    before = builder.get()["main"]
    assert_structural_equal(FoldConstant()(before), before)


def test_a_call_that_fails_on_its_constants_stays_to_fail_when_it_runs() -> None:
    before = program(
        'x: R.Tensor((2,), "float32")',
        'c = R.take(R.const([1.0, 2.0], "float32"), R.const([5], "int64"), axis=0)\nr = R.add(x, c)',
        "r",
    )
    after = FoldConstant()(before)
    well_formed(after)
    assert counts(after) == {"take": 1, "add": 1}


def test_outputs_and_branches_fold_too() -> None:
    before = program('x: R.Tensor((2,), "float32")', 'a = R.exp(R.const(0.0, "float32"))\nr = R.exp(x)', "a, r")
    assert counts(checked(FoldConstant(), before, exact=True)) == {"exp": 1}


def test_shapes_that_types_say_are_written_down() -> None:
    before = program(
        'x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n * 3",), "float32")',
        "s = R.shape_of(x)\nr = R.reshape(y, s)",
        "r",
        "n = T.int64()",
    )
    assert counts(checked(FoldConstant(), before, exact=True)) == {"reshape": 1}


# --- BindParams


def test_bound_parameters_are_constants_and_no_parameters() -> None:
    w, v, x = _random(4, 3), _random(5, 3), _random(2, 3)
    before = _linear()
    after = BindParams("main", {"w": w, before.params[2]: v})(before)
    well_formed(after)
    assert [param.name_hint for param in after.params] == ["x"]
    for want, got in zip(run(before, [x, w, v]), run(after, [x]), strict=True):
        np.testing.assert_array_equal(want, got)


def test_a_bound_parameter_says_what_its_sizes_are_everywhere() -> None:
    before = program(
        'x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", "k"), "float32")',
        "y = R.matmul(x, w)\nz = R.reshape(y, (n * k,))",
        "z",
        "n = T.int64()\nm = T.int64()\nk = T.int64()",
    )
    after = BindParams("main", {"w": _random(3, 5)})(before)
    well_formed(after)
    [param] = after.params
    assert isinstance(param.ty, TensorType)
    assert param.ty.shape is not None
    assert param.ty.shape[1] == 3
    assert run(after, [_random(2, 3)]).shape == (10,)


def test_inputs_that_are_bound_are_no_longer_counted() -> None:
    before = _linear().with_attr("num_input", 1)
    assert BindParams("main", {"x": _random(2, 3)})(before).attrs["num_input"] == 0
    assert BindParams("main", {"w": _random(4, 3)})(before).attrs["num_input"] == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ww": np.zeros((4, 3), np.float32)}, "there is no parameter 'ww'; did you mean w"),
        ({"w": np.zeros((3, 4), np.float32)}, r"parameter w is .*\(4, 3\).* but its value is .*\(3, 4\)"),
        ({"w": np.zeros((4, 3), np.int32)}, "parameter w is"),
    ],
)
def test_a_wrong_name_or_value_is_told(params: dict[str, Any], message: str) -> None:
    with pytest.raises(PassError, match=message):
        BindParams("main", params)(_linear())


def test_a_function_that_does_not_exist_is_told() -> None:
    with pytest.raises(PassError, match="no function 'other'; it has: main"):
        BindParams("other", {})(IRModule.from_expr(_linear()))


# --- BindSymbolicVars


def test_a_size_is_bound_in_types_shapes_and_attributes() -> None:
    before = program(
        'x: R.Tensor(("n", 4), "float32")',
        "a = R.reshape(x, (n * 4,))\nb = R.split(a, [n, 2 * n])\nc = R.concat([b[2], b[0]])",
        "c",
        "n = T.int64()",
    )
    after = BindSymbolicVars({"n": 3})(before)
    well_formed(after)
    x = _random(3, 4)
    np.testing.assert_array_equal(run(after, [x]), run(before, [x]))
    assert defined_symbolic_vars(after) == []


def test_a_size_that_no_function_mentions_is_told() -> None:
    with pytest.raises(PassError, match="no function mentions a size zz"):
        BindSymbolicVars({"zz": 3})(_linear())


# --- LiftTransformParams


def _split_run(before: Function, after: IRModule) -> None:
    """The transform once, then the rest, beside the function as it was."""
    count = before.attrs["num_input"]
    inputs = random_inputs(before)
    prepared = run(after, [tuple(inputs[count:])], "main_transform_params")
    found = difference(run(before, inputs), run(after, [*inputs[:count], *prepared]), rtol=0.0, atol=0.0)
    assert found is None, str(found)


def test_what_is_made_of_weights_is_lifted_out() -> None:
    before = _linear().with_attr("num_input", 1)
    after = LiftTransformParams()(IRModule.from_expr(before))
    well_formed(after)
    assert list(after) == ["main_transform_params", "main"]
    assert counts(after["main"]) == {"matmul": 2}
    assert counts(after["main_transform_params"]) == {"permute_dims": 2}
    _split_run(before, after)
    assert LiftTransformParams()(after) is after


def test_combined_weights_are_lifted_out_as_one() -> None:
    before = _linear().with_attr("num_input", 1)
    module = Sequential([CombineParallelMatmul(), LiftTransformParams()])(IRModule.from_expr(before))
    well_formed(module)
    assert counts(module["main"]) == {"matmul": 1, "split": 1}
    assert len(module["main"].params) == 2
    inputs = random_inputs(before)
    prepared = run(module, [tuple(inputs[1:])], "main_transform_params")
    for want, got in zip(run(before, inputs), run(module, [inputs[0], *prepared]), strict=True):
        assert_close(want, got)


def test_weights_that_are_used_as_they_are_are_passed_on() -> None:
    before = program(
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((4,), "float32")',
        "wt = R.permute_dims(w)\np = R.matmul(x, wt) + b\nq = R.sum(w)\nr = R.exp(q)",
        "p, r, wt",
    ).with_attr("num_input", 1)
    after = LiftTransformParams()(IRModule.from_expr(before))
    well_formed(after)
    assert counts(after["main"]) == {"matmul": 1, "add": 1}
    _split_run(before, after)


def test_a_size_of_the_inputs_keeps_a_value_where_it_is() -> None:
    before = program(
        'x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")',
        "a = R.exp(w)\nb = R.broadcast_to(a, (n, 3))\nr = R.add(x, b)",
        "r",
        "n = T.int64()",
    ).with_attr("num_input", 1)
    after = LiftTransformParams()(IRModule.from_expr(before))
    well_formed(after)
    assert counts(after["main_transform_params"]) == {"exp": 1}
    _split_run(before, after)


def test_a_weight_that_defines_a_size_is_passed_on_for_it() -> None:
    before = program(
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor(("k", 3), "float32")',
        "a = R.sum(w)\nr = R.broadcast_to(R.add(R.sum(x), a), (k, 2))",
        "r",
        "k = T.int64()",
    ).with_attr("num_input", 1)
    after = LiftTransformParams()(IRModule.from_expr(before))
    well_formed(after)
    _split_run(before, after)


def test_functions_share_a_transform_of_what_they_all_do() -> None:
    first = _linear().with_attr({"num_input": 1, "global_symbol": "first"})
    second = program(
        'x: R.Tensor((7, 3), "float32"), w: R.Tensor((4, 3), "float32"), v: R.Tensor((5, 3), "float32")',
        "p = R.matmul(x, R.permute_dims(w))\nq = R.exp(R.permute_dims(v))",
        "p, q",
    ).with_attr({"num_input": 1, "global_symbol": "second"})
    before = IRModule({"first": first, "second": second})
    after = LiftTransformParams(shared_transform=True)(before)
    well_formed(after)
    assert list(after) == ["transform_params", "first", "second"]
    assert [p.name_hint for p in after["first"].params[1:]] == [p.name_hint for p in after["second"].params[1:]]
    weights = (_random(4, 3), _random(5, 3))
    prepared = run(after, [weights], "transform_params")
    for name, rows in (("first", 2), ("second", 7)):
        x = _random(rows, 3)
        for want, got in zip(run(before, [x, *weights], name), run(after, [x, *prepared], name), strict=True):
            np.testing.assert_array_equal(want, got)


def test_weights_that_differ_cannot_be_shared() -> None:
    first = _linear().with_attr({"num_input": 1, "global_symbol": "first"})
    second = _linear().with_attr({"num_input": 2, "global_symbol": "second"})
    with pytest.raises(PassError, match="their weights differ"):
        LiftTransformParams(shared_transform=True)(IRModule({"first": first, "second": second}))


# --- FoldBatchnormToConv2D


def _conv_norm(training: str, layout: str = "NCHW", **attributes: str) -> Function:
    axis = layout.index("C")
    sizes = {"N": 2, "C": 3, "H": 8, "W": 7}
    extra = "".join(f", {name}={value}" for name, value in attributes.items() if name in ("center", "scale"))
    groups = attributes.get("groups", "1")
    return program(
        f'x: R.Tensor({tuple(sizes[c] for c in layout)}, "float32"), w: R.Tensor((6, {3 // int(groups)}, 3, 2), '
        '"float32"), g: R.Tensor((6,), "float32"), b: R.Tensor((6,), "float32"), m: R.Tensor((6,), "float32"), '
        'v: R.Tensor((6,), "float32")',
        f'c = R.nn.conv2d(x, w, padding=1, groups={groups}, data_layout="{layout}")\n'
        f"t = R.nn.batch_norm(c, g, b, m, v, axis={axis}, training={training}{extra})\nr = R.nn.relu(t[0])",
        "r",
    )


def _bound(function: Function) -> Function:
    rng = np.random.default_rng(3)
    values = {p.name_hint: rng.random([int(d) for d in p.ty.shape]).astype(np.float32) for p in function.params[1:]}  # type: ignore[attr-defined]
    return BindParams("main", values)(function)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("attributes", [{}, {"groups": "3"}, {"center": "False"}, {"scale": "False"}])
def test_a_batch_norm_at_inference_goes_into_the_weights(layout: str, attributes: dict[str, str]) -> None:
    before = _bound(_conv_norm("False", layout, **attributes))
    after = checked(Sequential([FoldBatchnormToConv2D(), FoldConstant()]), before)
    assert counts(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}


def _biased_norm(bias: str, *, result: str = "r") -> Function:
    return program(
        'x: R.Tensor((2, 3, 8, 7), "float32"), w: R.Tensor((6, 3, 3, 2), "float32"), g: R.Tensor((6,), "float32"), '
        'b: R.Tensor((6,), "float32"), m: R.Tensor((6,), "float32"), v: R.Tensor((6,), "float32"), '
        f'k: R.Tensor({bias}, "float32")',
        "c = R.nn.conv2d(x, w)\ny = R.add(k, c)\nt = R.nn.batch_norm(y, g, b, m, v, axis=1, training=False)\n"
        "r = R.nn.relu(t[0])",
        result,
    )


@pytest.mark.parametrize("bias", ["(1, 6, 1, 1)", "(6, 1, 1)", "(1,)", "(6, 6)"])
def test_a_bias_between_convolution_and_batch_norm_goes_along(bias: str) -> None:
    after = checked(Sequential([FoldBatchnormToConv2D(), FoldConstant()]), _bound(_biased_norm(bias)))
    assert counts(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}


def test_a_biased_convolution_that_is_used_elsewhere_is_left() -> None:
    before = _bound(_biased_norm("(6, 1, 1)", result="r, y"))
    assert FoldBatchnormToConv2D()(before) is before
    assert "used elsewhere" in str(report(FoldBatchnormToConv2D(), before))


def test_a_batch_norm_in_training_is_left() -> None:
    before = _bound(_conv_norm("True"))
    assert FoldBatchnormToConv2D()(before) is before
    assert "in training" in str(report(FoldBatchnormToConv2D(), before))


def test_a_batch_norm_whose_weights_are_inputs_is_left() -> None:
    before = _conv_norm("False")
    assert FoldBatchnormToConv2D()(before) is before
    assert "not known before the inputs" in str(report(FoldBatchnormToConv2D(), before))
    checked(FoldBatchnormToConv2D(), before.with_attr("num_input", 1), inputs=[abs(v) for v in random_inputs(before)])
