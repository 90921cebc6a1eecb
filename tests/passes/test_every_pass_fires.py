"""Every pass, on a program made for it: it changes the program, leaves it well formed, and keeps the values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regraft as rx
from regraft import IRModule, TensorType, transform
from regraft.analysis import well_formed
from regraft.dpl import is_op, wildcard
from regraft.reference.trials import difference
from regraft.testing import programs, random_inputs
from regraft.transform import Pass

Case = tuple[Callable[[], Pass], str]


def fuse() -> Pass:
    """A backend that takes sums and their activations."""
    total = is_op("relax.add")(wildcard(), wildcard())
    return transform.FuseOpsByPattern([("here.add_relu", is_op("relax.nn.relu")(total)), ("here.add", total)])


def dataflow(params: str, rows: str, result: str, attrs: str = "") -> str:
    """The text of a module whose one function has one dataflow block."""
    lines = "\n".join(f"            {row.strip()}" for row in rows.strip().splitlines())
    stated = f"        R.func_attr({attrs})\n" if attrs else ""
    return (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n{stated}        with R.dataflow():\n"
        f"{lines}\n            R.output({result})\n        return {result}\n"
    )


def tensor(name: str, *sizes: int | str) -> str:
    shape = ", ".join(f'"{size}"' if isinstance(size, str) else str(size) for size in sizes)
    return f'{name}: R.Tensor(({shape},), "float32")'


X = tensor("x", 4, 6)
LOOP = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
        @R.function
        def step(i: R.Tensor((), "int64"), state: R.Tensor((4, 6), "float32"), weight: R.Tensor((6, 6), "float32")):
            turned = R.permute_dims(weight)
            new = R.matmul(state, turned)
            return new, weight

        found = R.loop(step, (x, w), count=3)
        return found
"""
DEVICES = """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

    @R.function
    def main(x: R.Tensor((4, 6), "float32", "llvm"), y: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.hint_on_device(a, "cuda:0")
            R.output(b)
        return b
"""
PAIR = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        cls = Module
        with R.dataflow():
            t = cls.helper(x, y, x)
            z = t[0]
            R.output(z)
        return z

    @R.function(private=True)
    def helper(
        a: R.Tensor((4, 6), "float32"), b: R.Tensor((4, 6), "float32"), c: R.Tensor((4, 6), "float32")
    ) -> R.Tuple(R.Tensor((4, 6), "float32"), R.Tensor((4, 6), "float32")):
        with R.dataflow():
            s = R.add(a, b)
            r = R.nn.relu(s)
            R.output(s, r)
        return (s, r)
"""
TUPLES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        cls = Module
        z = cls.helper((x, y))
        return z

    @R.function(private=True)
    def helper(t: R.Tuple(R.Tensor((4, 6), "float32"), R.Tensor((4, 6), "float32"))) -> R.Tensor((4, 6), "float32"):
        a = t[0]
        s = R.add(a, t[1])
        return s
"""
CLOSURE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        @R.function
        def inner(a: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            s = R.add(a, y)
            return s

        z = inner(x)
        w = inner(z)
        return w
"""
ROWS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        y = R.add(x, x)
        z = R.nn.relu(y)
        return z
"""
TRANSFORM = """
@I.ir_module
class Module:
    @R.function
    def main_transform_params(params: R.Tuple(R.Tensor((4, 6), "float32"), R.Tensor((6,), "float32"))):
        a = params[0]
        b = params[1]
        c = R.add(a, b)
        out = (c, b)
        return out
"""
BATCH_NORM = ", ".join([tensor("x", 2, 6, 5, 4), *(tensor(name, 6) for name in "gbmv")])
WEIGHTED = dataflow(", ".join([X, tensor("w", 6, 5)]), "t = R.add(w, w)\ny = R.matmul(x, t)", "y", '{"num_input": 1}')
SUMS = dataflow(
    ", ".join([X, tensor("y", 4, 6)]), "a = R.add(x, y)\nb = R.nn.relu(a)\nc = R.add(b, y)\nd = R.add(c, a)", "d"
)
ATTENTION = dataflow(
    ", ".join(tensor(name, 2, 3, 5, 8) for name in "qkv"),
    """kt = R.permute_dims(k, [0, 1, 3, 2])
    s = R.matmul(q, kt)
    p = R.nn.softmax(s, axis=-1)
    o = R.matmul(p, v)""",
    "o",
)
HALVES = "a = R.matmul(x, w)\nb = R.matmul(x, v)\nc = R.add(R.nn.relu(a), b)"

CASES: dict[str, Case] = {
    "AdjustMatmulOrder": (
        transform.AdjustMatmulOrder,
        dataflow(
            ", ".join([tensor("x", 16, 2), tensor("w", 2, 16), tensor("v", 16, 2)]),
            "a = R.matmul(x, w)\nb = R.matmul(a, v)",
            "b",
        ),
    ),
    "AttachGlobalSymbol": (transform.AttachGlobalSymbol, PAIR),
    "BindParams": (lambda: transform.BindParams("main", {"y": np.ones((4, 6), "float32")}), SUMS),
    "BindSymbolicVars": (
        lambda: transform.BindSymbolicVars({"n": 4}),
        dataflow(tensor("x", "n", 6), "y = R.add(x, x)", "y"),
    ),
    "BundleModelParams": (transform.BundleModelParams, WEIGHTED),
    "CanonicalizeBindings": (transform.CanonicalizeBindings, dataflow(X, "a = x\nb = R.add(a, x)\nc = b", "c")),
    "CombineParallelMatmul": (
        transform.CombineParallelMatmul,
        dataflow(", ".join([X, tensor("w", 6, 5), tensor("v", 6, 5)]), HALVES, "c"),
    ),
    "ConvertLayout": (
        lambda: transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
        dataflow(
            ", ".join([tensor("x", 2, 3, 7, 8), tensor("w", 4, 3, 3, 2)]),
            "y = R.nn.conv2d(x, w)\nz = R.nn.relu(y)",
            "z",
        ),
    ),
    "ConvertToDataflow": (transform.ConvertToDataflow, ROWS),
    "DeadCodeElimination": (transform.DeadCodeElimination, dataflow(X, "a = R.exp(x)\nb = R.add(x, x)", "b")),
    "DecomposeOpsForInference": (
        transform.DecomposeOpsForInference,
        dataflow(BATCH_NORM, "t = R.nn.batch_norm(x, g, b, m, v, axis=1)\ny = t[0]", "y"),
    ),
    "DecomposeOpsForTraining": (
        transform.DecomposeOpsForTraining,
        dataflow(BATCH_NORM, "t = R.nn.batch_norm(x, g, b, m, v, axis=1)\ny = t[0]", "y"),
    ),
    "EliminateCommonSubexpr": (
        transform.EliminateCommonSubexpr,
        dataflow(X, "a = R.exp(x)\nb = R.exp(x)\nc = R.add(a, b)", "c"),
    ),
    "ExpandMatmulOfSum": (
        transform.ExpandMatmulOfSum,
        dataflow(", ".join([X, tensor("w", 6, 5), tensor("v", 6, 5)]), "s = R.add(w, v)\ny = R.matmul(x, s)", "y"),
    ),
    "ExpandTupleArguments": (transform.ExpandTupleArguments, TUPLES),
    "FoldBatchnormToConv2D": (
        transform.FoldBatchnormToConv2D,
        dataflow(
            ", ".join([tensor("x", 2, 3, 7, 8), tensor("w", 6, 3, 3, 2), *(tensor(name, 6) for name in "gbmv")]),
            "y = R.nn.conv2d(x, w)\nt = R.nn.batch_norm(y, g, b, m, v, axis=1, training=False)\nz = t[0]",
            "z",
            '{"num_input": 1}',
        ),
    ),
    "FoldConstant": (
        transform.FoldConstant,
        dataflow(X, "a = R.exp(R.const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))\nb = R.add(x, a)", "b"),
    ),
    "FuseAttention": (transform.FuseAttention, ATTENTION),
    "HoistFromLoops": (transform.HoistFromLoops, LOOP),
    "FuseOpsByPattern": (fuse, SUMS),
    "Gradient": (lambda: transform.Gradient("main"), dataflow(X, "a = R.exp(x)\nb = R.sum(a)", "b")),
    "InlineKnownCalls": (
        transform.InlineKnownCalls,
        PAIR.replace("helper(x, y, x)", f"helper({', '.join([f'R.const({[[1.0] * 6] * 4})'] * 3)})"),
    ),
    "InlinePrivateFunctions": (transform.InlinePrivateFunctions, PAIR),
    "KillAfterLastUse": (transform.KillAfterLastUse, ROWS),
    "LambdaLift": (transform.LambdaLift, CLOSURE),
    "LazyGetInput": (transform.LazyGetInput, WEIGHTED),
    "LazySetOutput": (transform.LazySetOutput, WEIGHTED),
    "LazyTransformParams": (transform.LazyTransformParams, TRANSFORM),
    "LegalizeOps": (
        lambda: transform.LegalizeOps(
            {"relax.exp": lambda builder, call: rx.op.power(rx.const(np.float32(np.e)), call.args[0])}
        ),
        dataflow(X, "y = R.exp(x)", "y"),
    ),
    "LiftTransformParams": (transform.LiftTransformParams, WEIGHTED),
    "LowerAllocTensor": (
        transform.LowerAllocTensor,
        dataflow(X, 'a = R.builtin.alloc_tensor(R.shape([4, 6]), "float32", 0)\nb = R.add(a, x)', "b"),
    ),
    "LowerRuntimeBuiltin": (
        transform.LowerRuntimeBuiltin,
        dataflow(X, "s = R.shape_of(x)\na = R.reshape(x, (6, 4))\nb = R.exp(R.reshape(a, s))", "b"),
    ),
    "MergeCompositeFunctions": (
        lambda: transform.Sequential([fuse(), transform.MergeCompositeFunctions()]),
        SUMS,
    ),
    "RealizeVDevice": (transform.RealizeVDevice, DEVICES),
    "RemovePurityChecking": (transform.RemovePurityChecking, ROWS),
    "RemoveRedundantReshape": (
        transform.RemoveRedundantReshape,
        dataflow(X, "a = R.reshape(x, (24,))\nb = R.reshape(a, (8, 3))", "b"),
    ),
    "RemoveUnusedOutputs": (transform.RemoveUnusedOutputs, PAIR),
    "RemoveUnusedParameters": (transform.RemoveUnusedParameters, PAIR),
    "ReorderPermuteDimsAfterConcat": (
        transform.ReorderPermuteDimsAfterConcat,
        dataflow(
            ", ".join([tensor("x", 4, 6), tensor("y", 5, 6)]),
            "a = R.permute_dims(x)\nb = R.permute_dims(y)\nc = R.concat([a, b], axis=1)",
            "c",
        ),
    ),
    "ReorderTakeAfterMatmul": (
        transform.ReorderTakeAfterMatmul,
        dataflow(
            ", ".join([X, tensor("w", 6, 16), 'i: R.Tensor((3,), "int64")']),
            "t = R.take(w, i, axis=1)\ny = R.matmul(x, t)",
            "y",
        ),
    ),
    "SimplifyTransposes": (
        transform.SimplifyTransposes,
        dataflow(X, "a = R.permute_dims(x)\nb = R.permute_dims(a)\nc = R.add(b, x)", "c"),
    ),
    "UpdateVDevice": (lambda: transform.UpdateVDevice("cuda:1", 0), DEVICES),
    "ToMixedPrecision": (
        transform.ToMixedPrecision,
        dataflow(", ".join([X, tensor("w", 6, 5)]), "y = R.matmul(x, w)", "y"),
    ),
    "ToNonDataflow": (transform.ToNonDataflow, SUMS),
    "TopologicalSort": (
        transform.TopologicalSort,
        dataflow(
            ", ".join([X, tensor("y", 4, 6)]), "b = R.exp(y)\na = R.exp(x)\nc = R.nn.relu(b)\nd = R.add(a, c)", "d"
        ),
    ),
    "UpdateParamType": (
        lambda: transform.UpdateParamType(lambda var: TensorType((3, 6)) if var.name == "x" else None),
        dataflow(X, "y = R.exp(x)", "y"),
    ),
}

ELSEWHERE = {
    "JoinSummedProducts",
    "Legalize",
    "Normalize",
    "AttendInTiles",
    "CacheInPlace",
    "NormalizeGlobalVar",
    "PackQueryKeyValue",
    "PrintIR",
    "Quantize",
    "QuantizeDynamic",
    "QuantizeRecurrent",
    "QuantizeWeights",
    "RecognizeOperators",
    "RemoveNoOps",
    "RotaryByKernel",
    "RunCodegen",
    "SmoothOutliers",
    "SplitProjections",
    "VMBuiltinLower",
    "WriteOutQuantized",
}
"""Passes that have such a test of their own, beside what else is asked of them."""


def test_every_pass_is_asked_for() -> None:
    made = {
        name
        for name in transform.__all__
        if name[0].isupper()
        and not inspect.isclass(getattr(transform, name))
        and inspect.signature(getattr(transform, name)).return_annotation in ("Pass", Pass)
    }
    assert made == {*CASES, *ELSEWHERE}


def values(module: IRModule, inputs: list[Any]) -> Any:
    return rx.build(module, target="numpy")["main"](*inputs)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_fires_on_the_program_made_for_it_and_leaves_it_well_formed(name: str) -> None:
    make, text = CASES[name]
    before = rx.parse(text)
    assert isinstance(before, IRModule)
    well_formed(before)
    one = make()
    after = one(before)
    assert not rx.structural_equal(after, before), f"{name} did not fire"
    well_formed(after)
    if one.keeps_values and [p.ty for p in after["main"].params] == [p.ty for p in before["main"].params]:
        inputs = random_inputs(before["main"])
        found = difference(values(before, inputs), values(after, inputs))
        assert found is None, str(found)


_NAMED = {"BindParams", "BindSymbolicVars", "Gradient", "UpdateVDevice"}
"""Passes that name what they work on, which another program may not have."""
_AFTER = [name for name, (make, _) in CASES.items() if make().keeps_values and name not in _NAMED]


@settings(max_examples=60, deadline=None)
@given(first=st.sampled_from(sorted(CASES)), second=st.sampled_from(_AFTER), third=st.sampled_from(_AFTER))
def test_passes_after_each_other_leave_programs_well_formed(first: str, second: str, third: str) -> None:
    program: Any = rx.parse(CASES[first][1])
    for name in (first, second, third):
        program = CASES[name][0]()(program)
        well_formed(program)


@pytest.mark.parametrize("name", [name for name in CASES if name not in _NAMED])
@settings(max_examples=6, deadline=None)
@given(module=programs(most=16))
def test_a_pass_leaves_random_programs_well_formed(name: str, module: IRModule) -> None:
    before = rx.parse(CASES[name][1]) if name == "UpdateParamType" else module
    well_formed(CASES[name][0]()(before))


def test_a_normal_form_is_made_of_nested_calls() -> None:
    x = rx.Var("x", TensorType((2, 3)))
    nested = rx.Function([x], rx.op.nn.relu(rx.op.add(x, rx.op.exp(x))), attrs={"global_symbol": "main"})
    after = transform.Normalize()(IRModule({"main": nested}))
    well_formed(after)
    assert len(after["main"].body.blocks[0]) == 3


def test_public_names_are_those_of_the_module() -> None:
    main = rx.parse(ROWS)["main"]
    module = IRModule({"main": main.without_attr("global_symbol"), "other": main})
    after = transform.NormalizeGlobalVar()(module)
    well_formed(after)
    assert after["main"].name == "main"
    assert len(after) == 2
