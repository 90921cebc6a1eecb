"""Functions marked for a backend: who compiles them, how they are called on each engine, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft import transform
from regraft.dpl import is_op, wildcard
from regraft.engine import ExecutionError, TypeCheckError
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import PassContext, PassError
from tests.kit import assert_close

ENGINES = ("numpy", "torch", "onnxruntime", "xla")


@R.function
def layer(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((3,), "float32")):
    with R.dataflow():
        h = R.matmul(x, w)
        y = R.exp(R.add(h, b))
        back = R.matmul(y, R.permute_dims(w))
        z = R.exp(R.add(back, R.const(0.5)))
        R.output(y, z)
    return y, z


@R.function
def narrow(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32"), b: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.exp(R.add(R.matmul(x, w), b))
        z = R.exp(R.add(R.matmul(y, R.permute_dims(w)), R.const(0.25)))
        R.output(y, z)
    return y, z


MODULE = rx.IRModule({"layer": layer})
ARRAYS = [np.linspace(-1, 1, size, dtype="f4").reshape(shape) for size, shape in ((8, (2, 4)), (12, (4, 3)), (3, (3,)))]
PATTERNS = [("mine.exp_add", is_op("relax.exp")(is_op("relax.add")(wildcard(), wildcard())))]
MARK = transform.FuseOpsByPattern(PATTERNS, annotate_codegen=True)


def by_numpy(functions: Mapping[str, rx.Function], options: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """A backend that has the reference engine compute what it is handed."""
    inlined = {name: transform.inline_composites(function) for name, function in functions.items()}
    return {name: rx.build(rx.IRModule({name: f}), "numpy")[name] for name, f in inlined.items()}


@pytest.fixture
def mine() -> Iterator[Callable[..., None]]:
    def register(compiler: Any = by_numpy, **options: Any) -> None:
        transform.register_codegen("mine", compiler, override=True, **options)

    yield register
    transform.remove_codegen("mine")


def run(module: rx.IRModule, target: str, name: str = "layer", arrays: Any = ARRAYS) -> list[np.ndarray]:
    return [np.asarray(value) for value in rx.build(module, target)[name](*arrays)]


@pytest.mark.parametrize("target", ENGINES)
def test_what_a_backend_compiled_runs_on_every_engine(mine: Callable[..., None], target: str) -> None:
    mine()
    compiled = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    assert list(compiled) == ["layer"]
    assert "R.exp" not in compiled.script()
    for got, want in zip(run(compiled, target), run(MODULE, "numpy"), strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("target", ENGINES)
def test_a_compiled_function_may_write_into_the_arrays_of_its_results(mine: Callable[..., None], target: str) -> None:
    def compile_(functions: Mapping[str, rx.Function], _options: Any) -> dict[str, Any]:
        def exp_add(*arrays: np.ndarray) -> None:
            np.exp(sum(arrays[:-1], np.float32(0.5) if len(arrays) == 2 else np.float32(0)), out=arrays[-1])

        return dict.fromkeys(functions, exp_add)

    mine(compile_, writes_results=True)
    compiled = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    assert "call_dps_packed" in compiled.script()
    for got, want in zip(run(compiled, target), run(MODULE, "numpy"), strict=True):
        assert_close(got, want)


def test_merged_composites_are_compiled_as_one_function_with_several_results(mine: Callable[..., None]) -> None:
    handed: dict[str, rx.Function] = {}

    def compile_(functions: Mapping[str, rx.Function], options: Any) -> dict[str, Any]:
        handed.update(functions)
        return by_numpy(functions, options)

    mine(compile_)
    ops = [("mine.add", is_op("relax.add")(wildcard(), wildcard())), ("mine.exp", is_op("relax.exp")(wildcard()))]

    @R.function
    def two(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            R.output(a, b)
        return a, b

    before = rx.IRModule({"two": two})
    steps = [transform.FuseOpsByPattern(ops), transform.MergeCompositeFunctions(), transform.RunCodegen()]
    after = transform.Sequential(steps)(before)
    assert len(handed) == 1
    x = np.array([0.5, -1], "f4")
    for target in ENGINES:
        for got, want in zip(run(after, target, "two", [x]), run(before, "numpy", "two", [x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_composite_functions_of_a_registered_backend_need_no_other_mark(mine: Callable[..., None]) -> None:
    mine()
    fused = transform.FuseOpsByPattern([*PATTERNS, ("other.matmul", is_op("relax.matmul")(wildcard(), wildcard()))])
    compiled = transform.RunCodegen()(fused(MODULE))
    assert [function.attrs.get("Composite") for _, function in compiled.items()] == ["other.matmul"] * 2 + [None]
    np.testing.assert_allclose(run(compiled, "numpy")[1], run(MODULE, "numpy")[1], rtol=1e-6)


def test_a_compiler_gets_its_options_and_functions_without_functions_inside(mine: Callable[..., None]) -> None:
    seen: list[Any] = []

    def compile_(functions: Mapping[str, rx.Function], options: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(options)
        for function in functions.values():
            flat = transform.inline_composites(function)
            ops = [binding.value.op.name for block in flat.body.blocks for binding in block]
            assert ops == ["relax.add", "relax.exp"]
            assert flat.attrs["Codegen"] == "mine"
        return by_numpy(functions, options)

    mine(compile_)
    transform.Sequential([MARK, transform.RunCodegen({"mine": {"level": 3}})])(MODULE)
    assert seen == [{"level": 3}]


def test_only_what_the_entry_functions_reach_is_compiled(mine: Callable[..., None]) -> None:
    mine()
    marked = MARK(rx.IRModule({"layer": layer, "other": narrow}))
    compiled = transform.RunCodegen(entry_functions=["layer"])(marked)
    assert sum("Codegen" in function.attrs for _, function in compiled.items()) == 2
    assert "R.call_pure_packed" in compiled["layer"].script()
    assert "R.call_pure_packed" not in compiled["other"].script()


def test_a_module_is_compiled_in_two_rounds_without_names_that_clash(mine: Callable[..., None]) -> None:
    mine()
    once = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    ops = [("mine.exp_add", is_op("relax.matmul")(wildcard(), wildcard()))]
    other = once.with_function("second", layer)
    twice = transform.Sequential([MARK, transform.RunCodegen()])(other)
    twice = transform.Sequential([transform.FuseOpsByPattern(ops, annotate_codegen=True), transform.RunCodegen()])(
        twice
    )
    for name in ("layer", "second"):
        np.testing.assert_allclose(run(twice, "numpy", name)[1], run(MODULE, "numpy")[1], rtol=1e-6)


def test_what_was_compiled_is_verified_by_value_like_any_pass(mine: Callable[..., None]) -> None:
    def wrong(functions: Mapping[str, rx.Function], _options: Any) -> dict[str, Any]:
        return {name: lambda *arrays: np.zeros((arrays[0].shape[0], 3), "f4") for name in functions}

    mine(wrong)
    marked = transform.FuseOpsByPattern(
        [("mine.f", is_op("relax.exp")(is_op("relax.add")(wildcard(), wildcard().has_shape((3,)))))],
        annotate_codegen=True,
    )(MODULE)
    with PassContext(verify="values"), pytest.raises(transform.PassValueError, match="RunCodegen"):
        transform.RunCodegen()(marked)


def test_a_compiled_module_prints_as_text_that_parses_and_is_not_pickled(mine: Callable[..., None]) -> None:
    mine()
    compiled = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    again = rx.parse(compiled.script())
    with pytest.raises(ExecutionError, match="no function 'fused_relax_add_relax_exp_mine' is registered"):
        rx.build(again, "numpy")["layer"](*ARRAYS)
    with pytest.raises(rx.IRError, match="compiled functions cannot be pickled: fused_relax_add"):
        pickle.dumps(compiled)


# --- what is refused


def test_a_mark_of_an_unknown_backend_names_the_function_and_what_to_do(mine: Callable[..., None]) -> None:
    mine()
    fuse = transform.FuseOpsByPattern(
        [("mein.f", is_op("relax.matmul")(wildcard(), wildcard()))], annotate_codegen=True
    )
    expected = (
        r"fused_relax_matmul_mein is marked for 'mein': .*did you mean mine.*register_codegen\('mein', compiler\)"
    )
    with pytest.raises(PassError, match=expected):
        transform.RunCodegen()(fuse(MODULE))
    with pytest.raises(PassError, match="target_options: there is no compiler of that name"):
        transform.RunCodegen({"mein": {}})(MODULE)
    with pytest.raises(PassError, match="there is no function 'train'; there are: layer"):
        transform.RunCodegen(entry_functions=["train"])(MODULE)


def _raises(functions: Any, options: Any) -> Any:
    raise KeyError("relax.exp")


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (_raises, r"the compiler 'mine' failed for fused_relax_add_relax_exp_mine, .*: KeyError: 'relax\.exp'"),
        (lambda functions, options: None, "gave a NoneType; expected a callable for each of fused_relax_add"),
        (lambda functions, options: {}, "was asked for fused_relax_add_relax_exp_mine, and left it out"),
        (lambda functions, options: dict.fromkeys(functions, 3), "and gave 3, which cannot be called"),
    ],
)
def test_a_compiler_that_fails_is_named_with_what_it_was_asked_for(
    mine: Callable[..., None], compiler: Any, message: str
) -> None:
    mine(compiler)
    with pytest.raises(PassError, match=message) as caught:
        transform.RunCodegen()(MARK(MODULE))
    assert isinstance(caught.value.__cause__, KeyError) == (compiler is _raises)


def test_results_to_write_into_need_known_shapes(mine: Callable[..., None]) -> None:
    mine(writes_results=True)

    @R.function
    def unknown(x: R.Tensor(None, "float32", ndim=2)):
        with R.dataflow():
            y = R.exp(R.add(x, x))
            R.output(y)
        return y

    with pytest.raises(PassError, match=r"needs arrays for its results, but fused_relax_add_relax_exp_mine gives"):
        transform.RunCodegen()(MARK(rx.IRModule({"unknown": unknown})))


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("result", [np.zeros((2, 3)), np.zeros((3, 2), "f4"), (np.zeros((2, 3), "f4"),), None], ids=str)
def test_a_result_of_another_type_is_refused_when_it_is_run(
    mine: Callable[..., None], target: str, result: Any
) -> None:
    mine(lambda functions, options: dict.fromkeys(functions, lambda *arrays: result))
    compiled = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    with pytest.raises((TypeCheckError, ExecutionError), match="fused_relax_add_relax_exp_mine"):
        run(compiled, target)


def test_a_gradient_is_not_lost_in_a_compiled_function(mine: Callable[..., None]) -> None:
    mine()
    compiled = transform.Sequential([MARK, transform.RunCodegen()])(MODULE)
    tensors = [torch.from_numpy(array) for array in ARRAYS]
    tensors[1].requires_grad_()
    with pytest.raises(ExecutionError, match=r"fused_relax_add_relax_exp_mine is a compiled function, .*no gradient"):
        rx.build(compiled, "torch")["layer"](*tensors)
    with torch.no_grad():
        rx.build(compiled, "torch")["layer"](*tensors)


def test_a_name_is_registered_once_unless_it_is_overridden(mine: Callable[..., None]) -> None:
    mine()
    with pytest.raises(PassError, match="there is a compiler for 'mine' already"):
        transform.register_codegen("mine", by_numpy)
    with pytest.raises(PassError, match="3 cannot be called"):
        transform.register_codegen("three", 3)  # type: ignore[arg-type]


def test_a_function_that_is_also_passed_on_as_a_value_stays(mine: Callable[..., None]) -> None:
    mine()

    @I.ir_module
    class Closed:
        @R.function
        def part(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Codegen": "mine"})
            return R.exp(x)

        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            closure = R.make_closure(Closed.part, ())
            y = R.invoke_closure(closure, (x,), ty_args=R.Tensor((2,), "float32"))
            z = Closed.part(y)
            return z

    compiled = transform.RunCodegen()(Closed)
    assert list(compiled) == ["part", "main"]
    x = np.array([0.5, 1], "f4")
    np.testing.assert_allclose(rx.build(compiled, "numpy")["main"](x), np.exp(np.exp(x)), rtol=1e-6)
