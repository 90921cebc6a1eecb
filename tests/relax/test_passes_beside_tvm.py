"""Passes that Relax has give the programs that Relax's give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from tests.kit import assert_close
from tests.relax.beside_tvm import both

pytestmark = pytest.mark.filterwarnings("ignore")

DATAFLOW = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, y)
            R.output(b)
        c = R.nn.relu(b)
        return c
"""

PLAIN = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        a = R.add(x, y)
        b = R.multiply(a, y)
        c = R.nn.relu(b)
        return c
"""

CLOSURE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def inner(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            s = R.add(a, y)
            return s

        @R.function
        def plain(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            s = R.add(a, a)
            return s

        z = inner(x)
        w = plain(z)
        return w
"""

RECURSION = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            c = R.less(i, R.const(10, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                t = R.add(s, x)
                r = loop(j, t)
            else:
                r = s
            return r

        g = loop(R.const(0, "int32"), x)
        return g
"""

WEIGHTS = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32"), v: R.Tensor((2, 3), "float32")
    ) -> R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            p = R.add(x, w)
            q = R.multiply(v, w)
            R.output(p, q)
        return (p, q)
"""

TUPLE_ARGUMENT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Module
        y = cls.func((x, w))
        return y

    @R.function(private=True)
    def func(t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))) -> R.Tensor((2, 3), "float32"):
        a = t[0]
        b = t[1]
        c = R.add(a, b)
        return c
"""

BATCH_NORM = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2, 4, 5, 6), "float32"),
        g: R.Tensor((4,), "float32"),
        b: R.Tensor((4,), "float32"),
        m: R.Tensor((4,), "float32"),
        v: R.Tensor((4,), "float32"),
    ) -> R.Tuple(R.Tensor((2, 4, 5, 6), "float32"), R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.nn.batch_norm(x, g, b, m, v, axis=1, epsilon=1e-5, momentum=0.25)
            R.output(y)
        return y
"""

LAYER_NORM = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((4, 6), "float32"), g: R.Tensor((6,), "float32"), b: R.Tensor((6,), "float32")
    ) -> R.Tensor((4, 6), "float32"):
        with R.dataflow():
            y = R.nn.layer_norm(x, g, b, axes=[-1])
            R.output(y)
        return y
"""

UNUSED = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Module
        with R.dataflow():
            dead = R.add(x, y)
            z = cls.func(x, y)
            R.output(z)
        return z

    @R.function(private=True)
    def func(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            c = R.add(a, a)
            R.output(c)
        return c
"""

SIZES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            R.output(a)
        return a
"""

CONVOLUTION = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2, 3, 8, 9), "float32"), w: R.Tensor((4, 3, 3, 2), "float32"), b: R.Tensor((1, 4, 1, 1), "float32")
    ) -> R.Tensor((2, 4, 1, 1), "float32"):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            z = R.add(y, b)
            u = R.nn.relu(z)
            v = R.nn.max_pool2d(u, pool_size=[2, 2])
            s = R.sum(v, axis=[2, 3], keepdims=True)
            R.output(s)
        return s
"""

PROGRAMS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "dataflow blocks become plain": (DATAFLOW, "ToNonDataflow", ()),
    "a normal program stays": (DATAFLOW, "Normalize", ()),
    "plain rows become dataflow blocks": (PLAIN, "ConvertToDataflow", ()),
    "functions get their names": (UNUSED, "AttachGlobalSymbol", ()),
    "closures are lifted": (CLOSURE, "LambdaLift", ()),
    "a recursive closure is lifted": (RECURSION, "LambdaLift", ()),
    "weights become a tuple": (WEIGHTS, "BundleModelParams", ()),
    "weights become a tuple of a name": (WEIGHTS, "BundleModelParams", ("base",)),
    "weights are asked for": (WEIGHTS, "LazyGetInput", ()),
    "tuples are taken one by one": (TUPLE_ARGUMENT, "ExpandTupleArguments", ()),
    "batch norm for inference": (BATCH_NORM, "DecomposeOpsForInference", ()),
    "layer norm for inference stays": (LAYER_NORM, "DecomposeOpsForInference", ()),
    "layer norm for training": (LAYER_NORM, "DecomposeOpsForTraining", ()),
    "dead values go": (UNUSED, "DeadCodeElimination", ()),
    "private functions are inlined": (UNUSED, "InlinePrivateFunctions", ()),
    "sizes are bound": (SIZES, "BindSymbolicVars", ({"n": 4},)),
    "convolutions change their layout": (CONVOLUTION, "ConvertLayout", ({"relax.nn.conv2d": ["NHWC", "OHWI"]},)),
    "an order is kept": (DATAFLOW, "TopologicalSort", ()),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_pass_gives_what_relaxs_gives(case: str) -> None:
    text, name, args = PROGRAMS[case]
    here, there = both(text, name, *args)
    well_formed(here)
    rx.assert_structural_equal(here, there)


def test_batch_norm_in_training_computes_what_relaxs_decomposition_computes() -> None:
    here, there = both(BATCH_NORM, "DecomposeOpsForTraining")
    random = np.random.default_rng(3)
    x = random.normal(size=(2, 4, 5, 6)).astype("float32")
    parameters = [np.abs(random.normal(size=4)).astype("float32") for _ in range(4)]
    results = [rx.build(module, target="numpy")["main"](x, *parameters) for module in (here, there)]
    for one, other in zip(*results, strict=True):
        assert_close(one, other)


def test_handing_on_results_calls_the_function_once_for_each() -> None:
    module = rx.transform.LazySetOutput()(rx.parse(WEIGHTS))
    well_formed(module)
    main = module["main"]
    assert [param.name for param in main.params] == ["x", "fset_output", "w", "v"]
    assert not main.is_pure
    calls = [b.value for block in main.body.blocks for b in block if "fset_output(" in b.value.script()]
    assert [call.args[0].value for call in calls] == [0, 1]


def test_weights_are_fetched_by_a_function_of_the_outside() -> None:
    text = WEIGHTS.replace('x: R.Tensor((2, 3), "float32"), ', "").replace("R.add(x, w)", "R.add(w, w)")
    bundled = rx.transform.BundleModelParams()(rx.parse(text.replace('num_input": 1', 'num_input": 0')))
    transform = rx.IRModule(
        {"main_transform_params": bundled["main"].with_attr("global_symbol", "main_transform_params")}
    )
    lazy = rx.transform.LazyTransformParams(fset_item=None)(transform)
    well_formed(lazy)
    values = [np.full((2, 3), value, "float32") for value in (2.0, 5.0)]
    rx.register_func("get_item", lambda index: values[int(index)], override=True)
    sums, products = rx.build(lazy, target="numpy")["main_transform_params"]()
    np.testing.assert_array_equal(sums, values[0] * 2)
    np.testing.assert_array_equal(products, values[0] * values[1])


def test_a_function_that_returns_a_lifted_closure_keeps_its_promise_and_runs() -> None:
    text = """
@R.function
def make(x: f32[2]) -> R.Callable((f32[2],), f32[2]):
    @R.function
    def inner(b: f32[2]) -> f32[2]:
        s = R.add(b, x)
        return s

    return inner

@R.function
def main(x: f32[2], y: f32[2]) -> f32[2]:
    cls = Module
    f = cls.make(x)
    z = f(y)
    return z
"""
    here, there = both(text, "LambdaLift")
    well_formed(here)
    rx.assert_structural_equal(here, there)
    ones = np.ones(2, "float32")
    np.testing.assert_array_equal(rx.build(here, target="numpy")["main"](ones, ones), ones + ones)
