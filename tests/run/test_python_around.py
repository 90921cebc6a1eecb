"""Work that only Python can do, between graphs of ONNX Runtime: where programs are parted, in what order they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.engine import BuildError, register_func, remove_global_func
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from tests.kit import assert_close


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    noted: list[Any] = []

    def note(x: np.ndarray, label: str = "") -> np.ndarray:
        noted.append(label or x.shape)
        return x * 2

    register_func("test.double", note)
    yield noted
    remove_global_func("test.double")


def build(module: Any, **options: Any) -> rx.Executable:
    return rx.build(module, "onnxruntime", **options)


def parts_of(executable: rx.Executable) -> int:
    """The number of graphs that a program calls."""
    return executable.source.count("kernel_main_part")


@R.function
def chain(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 3), "float32")):
    with R.dataflow():
        a = R.exp(R.matmul(x, w))
        b = R.call_pure_packed("test.double", a, ty_args=R.Tensor(("n", 3), "float32"))
        c = R.matmul(b, w)
        d = R.nn.softmax(R.add(c, a), axis=-1)
        R.output(d)
    return d


CHAIN = rx.IRModule({"main": chain})


def same_as_numpy(module: rx.IRModule, *arrays: np.ndarray) -> None:
    got, want = build(module)["main"](*arrays), rx.build(module, "numpy")["main"](*arrays)
    assert_close(got, want)


X, W = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3), np.linspace(-1, 1, 9, dtype="f4").reshape(3, 3)


def test_graphs_run_before_and_after_a_call_of_an_outside_function(seen: list[Any]) -> None:
    same_as_numpy(CHAIN, X, W)
    assert parts_of(build(CHAIN)) == 2
    assert seen == [(2, 3)] * 2


def test_independent_calls_share_the_graphs_before_and_after_them(seen: list[Any]) -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.call_pure_packed("test.double", a, ty_args=R.Tensor((2, 3), "float32"))
            c = R.sin(x)
            d = R.call_pure_packed("test.double", c, ty_args=R.Tensor((2, 3), "float32"))
            e = R.add(R.cos(b), R.sin(d))
            R.output(e)
        return e

    module = rx.IRModule({"main": main})
    same_as_numpy(module, X)
    assert parts_of(build(module)) == 2


def test_effects_come_in_the_order_of_the_program(seen: list[Any]) -> None:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")):
        a = R.call_packed("test.double", x, "first", ty_args=R.Tensor((2, 3), "float32"))
        b = R.exp(a)
        c = R.call_packed("test.double", b, "second", ty_args=R.Tensor((2, 3), "float32"))
        d = R.call_packed("test.double", x, "third", ty_args=R.Tensor((2, 3), "float32"))
        e = R.add(R.add(c, d), b)
        return e

    same_as_numpy(rx.IRModule({"main": main}), X)
    assert seen == ["first", "second", "third"] * 2


def test_a_call_inside_a_branch_is_made_on_its_side_only(seen: list[Any]) -> None:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
        y = R.exp(x)
        if c:
            a = R.sin(y)
            b = R.call_pure_packed("test.double", a, ty_args=R.Tensor((2, 3), "float32"))
            z = R.cos(b)
        else:
            z = R.tanh(y)
        return R.add(z, y)

    module = rx.IRModule({"main": main})
    same_as_numpy(module, np.array(False), X)
    assert seen == []
    same_as_numpy(module, np.array(True), X)
    assert len(seen) == 2


def test_sizes_that_a_match_cast_finds_are_known_to_later_graphs(seen: list[Any]) -> None:
    module = rx.parse(
        """
@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    n, k = T.int64(), T.int64()
    a = R.call_pure_packed("test.double", x, ty_args=R.Tensor(None, "float32", ndim=2))
    b = R.match_cast(a, R.Tensor((k, 3), "float32"))
    c = R.reshape(b, R.shape([3, k]))
    d = R.full(R.shape([k, n]), R.max(c), dtype="float32")
    return d
"""
    )
    same_as_numpy(rx.IRModule({"main": module}), X)


def test_functions_of_the_module_are_called_inside_graphs_and_as_closures() -> None:
    @I.ir_module
    class Module:
        @R.function(private=True)
        def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.exp(x)

        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            closure = R.make_closure(Module.inner, ())
            a = R.invoke_closure(closure, (x,), ty_args=R.Tensor((2,), "float32"))
            b = Module.inner(R.sin(a))
            return b

    same_as_numpy(Module, np.array([0.5, 1], "f4"))
    assert parts_of(build(Module)) == 1


def test_a_function_that_needs_python_only_through_another_is_parted_too(seen: list[Any]) -> None:
    module = CHAIN.with_function("chain", chain)

    @R.function
    def plain(x: R.Tensor((2, 3), "float32")):
        return R.exp(x)

    whole = module.with_function("plain", plain)
    executable = build(whole)
    np.testing.assert_allclose(executable["plain"](X), np.exp(X), rtol=1e-6)
    assert set(executable) == {"main", "chain", "plain"}
    assert executable.target == "onnxruntime"


def test_what_a_graph_cannot_hold_is_still_refused_when_built() -> None:
    module = rx.parse(
        """
@R.function
def main(x: R.Tensor((2,), "int4")):
    a = R.add(x, x)
    b = R.call_pure_packed("test.never", a, ty_args=R.Tensor((2,), "int4"))
    return b
"""
    )
    with pytest.raises(BuildError, match="main_part"):
        build(module)


@I.ir_module
class Functions:
    @R.function
    def local(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 3), "float32")):
        n = T.int64()

        @R.function
        def outer(a: R.Tensor((n, 3), "float32")) -> R.Tensor((n, 3), "float32"):
            @R.function
            def inner(b: R.Tensor((n, 3), "float32")) -> R.Tensor((n, 3), "float32"):
                s = R.add(R.matmul(b, w), x)
                return s

            also = inner
            t = inner(a)
            u = also(t)
            return u

        if R.prim_value(n > 1):
            v = outer(x)
            y = R.exp(v)
        else:
            y = outer(x)
        return y

    @R.function
    def powers(count: R.Tensor((), "int32"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def times(i: R.Tensor((), "int32"), v: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            if R.greater(i, R.const(0, "int32")):
                j = R.subtract(i, R.const(1, "int32"))
                r = times(j, R.multiply(v, x))
            else:
                r = v
            return r

        y = R.exp(times(count, x))
        return y

    @R.function
    def doubled(count: R.Tensor((), "int32"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Functions
        if R.greater(count, R.const(0, "int32")):
            left = R.subtract(count, R.const(1, "int32"))
            r = cls.doubled(left, R.add(x, x))
        else:
            r = x
        return r


@pytest.mark.parametrize("module", [Functions, rx.transform.LambdaLift()(Functions)], ids=["local", "lifted"])
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_functions_inside_and_functions_that_call_themselves(module: rx.IRModule, target: str) -> None:
    built, plain = rx.build(module, target), rx.build(module, "numpy")
    assert_close(built["local"](X, W), plain["local"](X, W))
    assert_close(built["local"](X[:1], W), plain["local"](X[:1], W))
    for count in np.array([0, 3], "int32"):
        for name in ("powers", "doubled"):
            assert_close(built[name](count, X), plain[name](count, X))


def test_a_function_inside_is_written_in_the_place_of_its_calls() -> None:
    model = rx.to_onnx(rx.IRModule({"main": Functions["local"]}))
    assert sum(node.op_type == "MatMul" for node in model.graph.node[-1].attribute[0].g.node) == 2


@I.ir_module
class Answers:
    @R.function
    def nothing(_x: R.Tensor((2, 3), "float32")) -> R.Tuple:
        r = R.tuple()
        return r

    @R.function
    def untold(x: R.Tensor((2, 3), "float32")) -> R.Tensor:
        @R.function
        def inner(a: R.Tensor((2, 3), "float32")) -> R.Tensor:
            b = R.exp(a)
            return b

        y = inner(x)
        return y


def test_functions_that_answer_nothing_or_a_tensor_of_untold_dtype() -> None:
    built = build(Answers)
    assert built["nothing"](X) == ()
    assert_close(built["untold"](X), np.exp(X))
