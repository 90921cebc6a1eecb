"""Functions that live outside of the program: how they are found, what they get, what they may return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, no_type_check

import numpy as np
import pytest

import regraft.op as R
from regraft import BasePyModule, cpu
from regraft.engine import (
    BuildError,
    ExecutionError,
    TypeCheckError,
    get_global_func,
    register_func,
    remove_global_func,
)
from regraft.ir import (
    BlockBuilder,
    Call,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    SymVar,
    TensorType,
    Tuple,
    Var,
)
from regraft.script import ir as I
from regraft.script import relax as S
from tests.run.programs import add_function, build, program, tensor

Register = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def register() -> Iterator[Register]:
    names: list[str] = []

    def add(name: str, function: Callable[..., Any]) -> None:
        register_func(name, function)
        names.append(name)

    yield add
    for name in names:
        remove_global_func(name)


def test_a_function_is_registered_found_replaced_and_removed() -> None:
    try:
        assert register_func("test.f")(abs) is abs
        assert get_global_func("test.f") is abs
        with pytest.raises(ExecutionError, match=r"'test\.f' is registered already; pass override=True"):
            register_func("test.f", max)
        register_func("test.f", max, override=True)
        assert get_global_func("test.f") is max
        with pytest.raises(ExecutionError, match=r"no function 'test\.g' is registered; did you mean .*test\.f"):
            get_global_func("test.g")
        with pytest.raises(ExecutionError, match="3 cannot be called"):
            register_func("test.three", 3)  # type: ignore[arg-type]
    finally:
        remove_global_func("test.f")
    assert get_global_func("test.f", allow_missing=True) is None


def test_an_outside_function_gets_arrays_shapes_numbers_and_text(register: Register) -> None:
    seen: list[Any] = []
    register("test.see", lambda *values: seen.append(values))
    n = SymVar("n")
    arguments = [
        ShapeExpr([n, 3]),
        PrimValue(2.5),
        PrimValue(n + 1),
        StringImm("é"),
        DataTypeImm("float32"),
        Tuple([PrimValue(True)]),
    ]
    mod = program([tensor("x", (n,))], lambda bb, x: Call(ExternFunc("test.see"), [x, *arguments]), dataflow=False)
    values = np.ones(2, "float32")
    assert build(mod)["main"](values) is None
    [(array, *rest)] = seen
    assert array is values
    assert rest == [(2, 3), 2.5, 3, "é", "float32", (True,)]


def test_a_pure_call_returns_what_the_function_returns(register: Register) -> None:
    register("test.sum", lambda x, y: np.float32(x.sum() + y.sum()))
    x = tensor("x", (2,))
    mod = program([x], lambda bb, x: R.call_pure_packed("test.sum", x, x, ty_args=TensorType((), "float32")))
    result = build(mod)["main"]([1, 2])
    assert type(result) is np.ndarray
    assert float(result) == 6.0


def test_a_function_may_be_registered_after_the_module_is_built(register: Register) -> None:
    x = tensor("x", (2,))
    ty = TensorType((2,), "float32")
    exe = build(program([x], lambda bb, x: R.call_packed("test.later", x, ty_args=ty), dataflow=False))
    with pytest.raises(ExecutionError) as caught:
        exe["main"]([1, 2])
    assert str(caught.value).splitlines()[0].startswith("main: call_packed of 'test.later' failed: no function")
    register("test.later", lambda x: x * 2)
    assert exe["main"]([1, 2]).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(3, "f4"), "axis 0 is 3; expected 2"),
        (np.zeros(2), "has dtype float64; expected float32"),
        ([1.0, 2.0], "is a tuple; expected a tensor"),
        (None, "is a NoneType; expected a tensor"),
    ],
)
def test_a_result_of_another_type_than_stated_is_refused(register: Register, returned: Any, message: str) -> None:
    register("test.wrong", lambda x: returned)
    x = tensor("x", (2,))
    ty = TensorType((2,), "float32")
    exe = build(program([x], lambda bb, x: R.call_pure_packed("test.wrong", x, ty_args=ty)))
    with pytest.raises(TypeCheckError) as caught:
        exe["main"]([1, 2])
    assert str(caught.value).startswith("main: gv = call_packed('test.wrong', x)")
    assert message in str(caught.value)


def test_the_stated_type_may_use_sizes_of_the_arguments(register: Register) -> None:
    register("test.double", lambda x: np.concatenate([x, x]))
    n = SymVar("n")
    ty = TensorType((n * 2,), "float32")
    mod = program([tensor("x", (n,))], lambda bb, x: R.call_pure_packed("test.double", x, ty_args=ty))
    assert build(mod)["main"]([1, 2, 3]).shape == (6,)


def test_a_destination_passing_call_writes_into_arrays_made_for_it(register: Register) -> None:
    def split(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        low[:] = np.floor(x)
        high[...] = np.ceil(x).astype("int32")

    register("test.split", split)
    register("test.copy", lambda x, out: out.__setitem__(..., x))
    n = SymVar("n")
    x = tensor("x", (n,))

    def write(bb: BlockBuilder, x: Var) -> Tuple:
        types = [TensorType((n,), "float32"), TensorType((n,), "int32")]
        pair = bb.emit(R.call_dps_packed("test.split", (x,), out_ty=types))
        one = bb.emit(R.call_dps_packed("test.copy", x, out_ty=TensorType((n,), "float32")))
        return Tuple([pair, one])

    values = np.array([0.5, 1.5, -2.5], "float32")
    (low, high), copied = build(program([x], write))["main"](values)
    assert low.tolist() == [0, 1, -3]
    assert (high.tolist(), high.dtype) == ([1, 2, -2], np.int32)
    assert copied.tolist() == values.tolist()
    assert not np.shares_memory(copied, values)


def test_a_destination_passing_call_of_a_function_of_the_module_is_refused() -> None:
    bb = BlockBuilder()
    add_function(bb, "helper", [tensor("p", (2,))], lambda bb, p: p)
    helper = bb.get().get_global_var("helper")
    ty = TensorType((2,), "float32")
    add_function(bb, "main", [tensor("x", (2,))], lambda bb, x: R.call_dps_packed(helper, (x,), out_ty=ty))
    with pytest.raises(BuildError, match="main: helper is a function of the module"):
        build(bb.get())


def test_an_in_place_call_leaves_the_argument_as_it_was(register: Register) -> None:
    def clear(x: np.ndarray) -> np.ndarray:
        x[:] = 0
        return x

    register("test.clear", clear)
    ty = TensorType((2,), "float32")
    x = tensor("x", (2,))
    mod = program([x], lambda bb, x: R.call_inplace_packed("test.clear", x, inplace_indices=0, ty_args=ty))
    values = np.ones(2, "float32")
    assert build(mod)["main"](values).tolist() == [0, 0]
    assert values.tolist() == [1, 1]


def test_print_writes_values_when_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def write(bb: BlockBuilder, x: Var) -> Var:
        bb.emit(R.print(x, PrimValue(3), format="x = {}, {}"))
        bb.emit(R.print(x, StringImm("end")))
        bb.emit(R.print(format="hi"))
        return x

    exe = build(program([tensor("x", (2,))], write, dataflow=False))
    assert capsys.readouterr().out == ""
    exe["main"]([1, 2])
    assert capsys.readouterr().out == "x = [1. 2.], 3\n[1. 2.] end\nhi\n"


def test_a_failed_assertion_gives_its_message_and_place() -> None:
    def write(bb: BlockBuilder, c: Var, x: Var) -> Var:
        bb.emit(R.assert_op(c, x, format="bad {}"))
        return x

    exe = build(program([tensor("c", (), "bool"), tensor("x", (), "int32")], write, dataflow=False))
    assert int(exe["main"](True, 7)) == 7
    with pytest.raises(ExecutionError, match=r"^main: relax\.assert_op failed: the assertion does not hold: bad 7\n"):
        exe["main"](False, 7)


def test_what_print_and_assert_return_is_an_empty_tuple() -> None:
    def write(bb: BlockBuilder, c: Var) -> Tuple:
        return Tuple([bb.emit(R.assert_op(c)), bb.emit(R.print(c))])

    assert build(program([tensor("c", (), "bool")], write, dataflow=False), verify_types=True)["main"](True) == ((), ())


def test_a_closure_gets_what_it_captured_after_its_own_arguments() -> None:
    bb = BlockBuilder()
    p, q = tensor("p", (2,)), tensor("q", (2,))
    add_function(bb, "take", [p, q], lambda bb, p, q: R.subtract(p, q))
    take = bb.get().get_global_var("take")
    ty = TensorType((2,), "float32")

    def write(bb: BlockBuilder, x: Var, y: Var) -> Call:
        closure = bb.emit(R.make_closure(take, (y,)))
        first = bb.emit(R.invoke_pure_closure(closure, (x,), ty_args=ty))
        return R.invoke_closure(closure, (first,), ty_args=ty)

    add_function(bb, "main", [tensor("x", (2,)), tensor("y", (2,))], write, dataflow=False, pure=False)
    assert build(bb.get())["main"]([10, 20], [1, 2]).tolist() == [8, 16]


def test_the_null_value_is_none() -> None:
    assert build(program([], lambda bb: R.null_value()))["main"]() is None


def test_an_error_inside_an_outside_function_is_its_cause(register: Register) -> None:
    def fail(x: np.ndarray) -> None:
        raise KeyError("lost")

    register("test.fail", fail)
    exe = build(program([tensor("x", (2,))], lambda bb, x: R.call_pure_packed("test.fail", x, ty_args=x.ty)))
    with pytest.raises(
        ExecutionError, match=r"relax\.call_pure_packed of 'test\.fail' failed: KeyError: 'lost'"
    ) as caught:
        exe["main"]([1, 2])
    assert isinstance(caught.value.__cause__, KeyError)


@no_type_check
def test_a_program_calls_the_python_functions_of_its_module() -> None:
    torch = pytest.importorskip("torch")

    @I.ir_module
    class Model(BasePyModule):
        @I.pyfunc
        def shifted(self, x, y):
            assert isinstance(x, torch.Tensor)
            return x + y.sum()

        @S.function
        def main(x: S.Tensor((2,), "float32")) -> S.Tensor((2,), "float32"):
            y = S.call_py_func("shifted", x, x, out_ty=S.Tensor((2,), "float32"))
            return S.multiply(y, y)

    assert Model(cpu()).main(torch.tensor([1.0, 2.0])).tolist() == [16.0, 25.0]
