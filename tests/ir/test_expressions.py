"""Expressions, operators and constants: immutable, typed as they are built, lazy where the numbers are far away."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from regraft import op
from regraft.ir import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRError,
    IRModule,
    Op,
    OpTypeError,
    PrimValue,
    ShapeExpr,
    StringImm,
    SymVar,
    TensorData,
    TensorType,
    Trait,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    as_expr,
    const,
)
from regraft.ir import op as op_module
from regraft.ir.types import OBJECT
from tests.ir.programs import MATRIX, TRUTH, matrix


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators declared inside are forgotten after."""
    monkeypatch.setattr(op_module, "_registry", dict(op_module._registry))


def keep(call: Call) -> Type:
    return call.args[0].ty


# --- immutability


@pytest.mark.parametrize(
    ("node", "field"),
    [(matrix(), "name_hint"), (MATRIX, "shape"), (op.add(matrix(), matrix()), "args"), (Tuple([]), "other")],
)
def test_nodes_cannot_be_changed(node: Expr, field: str) -> None:
    kind = type(node).__name__
    with pytest.raises(AttributeError, match=f"{kind} is immutable: cannot set '{field}'; build a new {kind}"):
        setattr(node, field, None)
    with pytest.raises(AttributeError, match=f"{kind} is immutable: cannot delete"):
        delattr(node, field)


def test_a_copy_of_a_node_is_the_node() -> None:
    x = matrix()
    assert copy.copy(x) is x
    assert copy.deepcopy(Tuple([x])).fields[0] is not matrix()
    assert copy.deepcopy(x) is x


def test_attributes_of_a_call_cannot_be_changed() -> None:
    attrs = op.permute_dims(matrix(), (1, 0)).attrs
    assert attrs.axes == (1, 0)
    with pytest.raises(AttributeError, match="attributes are immutable: cannot set 'axes'"):
        attrs.axes = (0, 1)
    with pytest.raises(AttributeError, match="no attribute 'axis' here; there are: axes"):
        _ = attrs.axis


# --- attributes


def test_attributes_that_are_not_made_yet_have_none() -> None:
    """PyTorch's compiler asks an instance what it has before it runs ``__init__``."""
    made = Attrs.__new__(Attrs)
    assert not hasattr(made, "__dict__")
    assert not hasattr(made, "axes")


def test_attributes_compare_by_type_and_value() -> None:
    assert Attrs({"a": 1, "b": 2}) == Attrs({"b": 2, "a": 1})
    assert hash(Attrs({"a": 1, "b": 2})) == hash(Attrs({"b": 2, "a": 1}))
    assert Attrs({"a": float("nan")}) == Attrs({"a": float("nan")})
    different = [1, 1.0, True, "1", (1,), None, 0.0, -0.0, (1.0,)]
    for i, left in enumerate(different):
        for j, right in enumerate(different):
            assert (Attrs({"a": left}) == Attrs({"a": right})) == (i == j)


# --- operators


@pytest.mark.usefixtures("scratch")
def test_an_operator_is_declared_once() -> None:
    once = Op("test.once", ("x",), infer=keep)
    assert Op("test.once", ("x",), infer=keep) is once
    with pytest.raises(IRError, match=r"operator 'test.once' is declared already, with another value of operands"):
        Op("test.once", ("x", "y"), infer=keep)


def test_an_unknown_operator_suggests_near_names() -> None:
    assert Op.get("add") is Op.get("relax.add")
    with pytest.raises(IRError, match=r"there is no operator 'relax.ad'; did you mean .*relax.add"):
        Op.get("relax.ad")
    with pytest.raises(
        IRError, match=r"there is no operator 'zzzzzz'; declare your own operators first, by rx.operator$"
    ):
        Op.get("zzzzzz")


@pytest.mark.usefixtures("scratch")
def test_a_call_gives_declared_attributes_and_those_without_default() -> None:
    scale = Op("test.scale", ("x",), {"factor": op_module.REQUIRED, "shift": 0}, infer=keep)
    assert dict(scale(matrix(), factor=2).attrs) == {"factor": 2, "shift": 0}
    with pytest.raises(OpTypeError, match=r"test.scale needs its attribute 'factor'"):
        scale(matrix())
    with pytest.raises(OpTypeError, match=r"test.scale has no attribute 'factors'; its attributes are: factor, shift"):
        scale(matrix(), factors=2)


@pytest.mark.usefixtures("scratch")
def test_operands_are_counted_optional_and_variadic_ones_included() -> None:
    two = Op("test.two", ("x", "y?"), infer=keep)
    assert len(two(matrix()).args) == 1
    assert len(two(matrix(), None).args) == 1
    with pytest.raises(OpTypeError, match=r"test.two takes \(x, y\?\), but the call gives 3 arguments"):
        two(matrix(), matrix(), matrix())
    with pytest.raises(OpTypeError, match="but the call gives 0 arguments"):
        two()
    many = Op("test.many", ("x", "*rest"), infer=keep)
    assert len(many(matrix(), matrix(), matrix()).args) == 3
    assert many.operand_name(2) == "rest[2]"


@pytest.mark.usefixtures("scratch")
def test_traits_say_what_an_operator_is() -> None:
    random = Op("test.random", ("x",), infer=keep, traits=(Trait.IMPURE,))
    assert not random.is_pure
    assert not random(matrix()).is_pure
    assert op.add(matrix(), matrix()).is_pure


def test_numbers_take_the_dtype_of_the_tensor_beside_them() -> None:
    x = Var("x", TensorType((2,), "float16"))
    call = op.add(x, 2)
    assert isinstance(call.args[1], Constant)
    assert call.args[1].ty == TensorType((), "float16")
    with pytest.raises(OpTypeError, match="300 does not fit the dtype uint8"):
        op.add(Var("x", TensorType((2,), "uint8")), 300)
    with pytest.raises(OpTypeError, match=r"1.5 would lose its fraction in the int32"):
        op.add(Var("x", TensorType((2,), "int32")), 1.5)
    with pytest.raises(OpTypeError, match=r"relax.add: argument x2: <object object .* is not an expression"):
        op.add(x, object())  # type: ignore[arg-type]


def test_calls_of_functions_are_checked_and_sizes_carried_over() -> None:
    n, m = SymVar("n"), SymVar("m")
    callee = GlobalVar("f", FuncType([TensorType((n, 3), "float32")], TensorType((n * 3,), "float32")))
    assert Call(callee, [matrix()]).ty == TensorType((6,), "float32")
    wider = Var("w", TensorType((m * 2, 3), "float32"))
    assert Call(callee, [wider]).ty == TensorType((m * 6,), "float32")
    assert Call(callee, [Var("u", TensorType(None, "float32", 2))]).ty == TensorType(None, "float32", 1)
    with pytest.raises(OpTypeError, match=r"argument 0 is .*; expected"):
        Call(callee, [Var("w", TensorType((2, 4), "float32"))])
    with pytest.raises(OpTypeError, match="takes 1 arguments, but the call gives 2"):
        Call(callee, [matrix(), matrix()])
    with pytest.raises(OpTypeError, match="cannot call"):
        Call(matrix(), [])


# --- constants


def test_arrays_are_shared_and_read_only() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = const(array).data
    assert np.shares_memory(data.numpy(), array)
    with pytest.raises(ValueError, match="read-only"):
        data.numpy()[0, 0] = 7
    array[0, 0] = 7
    assert data.numpy()[0, 0] == 7


def test_a_lazy_tensor_is_loaded_once_and_when_needed() -> None:
    loads: list[int] = []

    def load() -> np.ndarray:
        loads.append(1)
        return np.ones((2, 3), np.float32)

    data = TensorData.lazy((2, 3), "float32", load)
    constant = Constant(data)
    assert constant.ty == MATRIX
    assert (data.size, data.nbytes, data.is_loaded) == (6, 24, False)
    assert loads == []
    assert data.numpy() is data.numpy()
    assert loads == [1]
    assert data.is_loaded


def test_a_lazy_tensor_must_be_what_it_promised() -> None:
    data = TensorData.lazy((2, 3), "float32", lambda: np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"loaded \(3, 2\) of float32, where \(2, 3\) of float32 was promised"):
        data.numpy()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "float32"), (3, "int32"), (2**40, "int64"), (True, "bool"), ([1.0, 2.0], "float32"),
        (np.float64(1), "float64"), (np.zeros(2, np.int8), "int8"), ([], "float32"),
    ],
)  # fmt: skip
def test_numbers_become_constants_of_relaxs_dtypes(value: object, dtype: str) -> None:
    assert const(value).ty.dtype == dtype  # type: ignore[attr-defined]


def test_things_become_expressions() -> None:
    n = SymVar("n")
    assert isinstance(as_expr((1, [2.0])), Tuple)
    assert isinstance(as_expr(n + 1), PrimValue)
    with pytest.raises(IRError, match="'text' is not an expression"):
        as_expr("text")


# --- tuples, branches, functions, modules


def test_fields_of_tuples_are_counted_from_either_end() -> None:
    pair = Var("t", TupleType([MATRIX, TRUTH]))
    assert TupleGetItem(pair, -1).index == 1
    assert TupleGetItem(pair, 1).ty == TRUTH
    with pytest.raises(IRError, match="index 2 is out of range for a tuple of 2 fields"):
        TupleGetItem(pair, 2)
    with pytest.raises(IRError, match="cannot take field 0 of a value that is no tuple"):
        TupleGetItem(matrix(), 0)
    assert TupleGetItem(Var("o"), 3).ty is OBJECT
    with pytest.raises(IRError, match="the length of this tuple is not known"):
        TupleGetItem(Var("o"), -1)


def test_an_expression_has_no_truth_value_and_is_no_sequence() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(matrix())
    with pytest.raises(TypeError, match="only an expression of tuple type can be unpacked"):
        iter(matrix())
    first, second = Var("t", TupleType([MATRIX, TRUTH]))
    assert (first.ty, second.ty) == (MATRIX, TRUTH)


def test_a_branch_has_what_its_sides_have_in_common() -> None:
    other = Var("o", TensorType((3, 2), "float32"))
    assert If(Var("c", TRUTH), matrix(), other).ty == TensorType(None, "float32", 2)
    with pytest.raises(IRError, match="expected a boolean scalar"):
        If(matrix(), matrix(), matrix())


def test_a_function_promises_what_its_callers_can_know() -> None:
    n, k = SymVar("n"), SymVar("k")
    x, inner = Var("x", TensorType((n, 3), None)), Var("i", TensorType((k, 3), "int8"))
    assert Function([x], inner).ret_ty == TensorType(None, "int8", 2)
    assert Function([x], x).ret_ty == x.ty
    with pytest.raises(IRError, match="a parameter is listed twice"):
        Function([x, x], x)


def test_attributes_of_functions_are_added_and_taken() -> None:
    function = Function([], const(1.0)).with_attr({"global_symbol": "f", "note": 1})
    assert (function.name, function.is_private) == ("f", False)
    assert function.without_attr("global_symbol").is_private
    assert function.with_attr("note", 2).attrs.note == 2


def test_a_module_or_function_that_is_given_what_it_has_stays_itself() -> None:
    x = Var("x", TensorType((2,), "float32"))
    one, two = Function([x], x), Function([x], x, is_pure=False)
    module = IRModule({"f": one, "g": two})
    assert one.with_body(one.body) is one
    assert module.with_each(lambda name, function: function) is module
    changed = module.with_each(lambda name, function: two if name == "f" else function)
    assert [changed["f"], changed["g"]] == [two, two]
    assert module["f"] is one


def test_modules_share_what_does_not_change() -> None:
    one, two = Function([], const(1.0)), Function([], const(2.0))
    module = IRModule({"f": one, "g": two})
    changed = module.with_function("f", two)
    assert changed["f"] is two
    assert module["f"] is one
    assert changed.get_global_var("f") is module.get_global_var("f")
    assert list(changed.without_functions({"f"})) == ["g"]
    assert "f" in module
    assert module.with_attr("version", 3).attrs.version == 3


def test_modules_name_what_they_have_when_asked_for_what_they_lack() -> None:
    function = Function([], const(1.0))
    with pytest.raises(IRError, match="the module has no function 'h'; it has: f"):
        IRModule({"f": function})["h"]
    with pytest.raises(IRError, match="two functions named 'f'"):
        IRModule({GlobalVar("f"): function, GlobalVar("f"): function})
    with pytest.raises(IRError, match="a module holds functions"):
        IRModule({"f": const(1.0)})  # type: ignore[dict-item]


def test_values_that_are_no_scalars_or_sizes_are_refused() -> None:
    with pytest.raises(IRError, match="a PrimValue holds an int, float, bool or symbolic size"):
        PrimValue("1")  # type: ignore[arg-type]
    with pytest.raises(IRError, match="a size cannot be negative"):
        ShapeExpr([-1])
    with pytest.raises(IRError, match="field 1 of a tuple is 3, not an expression"):
        Tuple([StringImm("a"), 3])  # type: ignore[list-item]
