"""Relations of types: values that fit, the common type of two branches, sizes that arguments decide."""

from __future__ import annotations

import pytest

from regraft.ir import FuncType, IRError, ObjectType, PrimType, ShapeType, SymVar, TensorType, TupleType, Type
from regraft.ir.dims import Dim
from regraft.ir.types import (
    MOST_NESTED,
    bind_type,
    common_supertype,
    erase_unbound,
    is_subtype,
    substitute_type,
    type_symvars,
)

N, M = SymVar("n"), SymVar("m")
OBJECT = ObjectType()
FIXED = TensorType((2, 3), "float32")
RANKED = TensorType(None, "float32", 2)
ANY = TensorType(dtype=None)


@pytest.mark.parametrize(
    ("derived", "base", "answer"),
    [
        (FIXED, FIXED, True),
        (FIXED, RANKED, True),
        (FIXED, ANY, True),
        (FIXED, OBJECT, True),
        (RANKED, FIXED, None),
        (ANY, FIXED, None),
        (OBJECT, FIXED, None),
        (FIXED, TensorType((3, 2), "float32"), False),
        (FIXED, TensorType((2, 3), "float64"), False),
        (FIXED, TensorType(None, "float32", 3), False),
        (RANKED, TensorType((2, 3, 4), "float32"), False),
        (TensorType((2, 3), None), FIXED, None),
        (TensorType((N, 3), "float32"), FIXED, None),
        (TensorType((N, 3), "float32"), TensorType((N, 3), "float32"), True),
        (TensorType((N + 1, 3), "float32"), TensorType((N, 3), "float32"), False),
        (TensorType((N, 3), "float32"), TensorType((M, 3), "float32"), None),
        (FIXED, TupleType([FIXED]), False),
        (TupleType([FIXED, FIXED]), TupleType([FIXED, ANY]), True),
        (TupleType([FIXED]), TupleType([FIXED, FIXED]), False),
        (TupleType([FIXED, ANY]), TupleType([FIXED, FIXED]), None),
        (TupleType([ANY, FIXED]), TupleType([FIXED, TensorType((3, 2), None)]), False),
        (ShapeType((2, 3)), ShapeType(None, 2), True),
        (ShapeType(None, 2), ShapeType((2, 3)), None),
        (ShapeType((2, 3)), ShapeType(None, 3), False),
        (PrimType("int64", 3), PrimType("int64"), True),
        (PrimType("int64"), PrimType("int64", 3), None),
        (PrimType("int64", 3), PrimType("int64", 4), False),
        (PrimType("int32", 3), PrimType("int64", 3), False),
        (FuncType([ANY], FIXED), FuncType([FIXED], ANY), True),
        (FuncType([FIXED], FIXED), FuncType([ANY], FIXED), None),
        (FuncType([FIXED], FIXED, False), FuncType([FIXED], FIXED, True), False),
        (FuncType([FIXED], FIXED, True), FuncType([FIXED], FIXED, False), True),
        (FuncType([FIXED], FIXED), FuncType(None, FIXED), True),
        (FuncType([FIXED], FIXED), FuncType([FIXED, FIXED], FIXED), False),
    ],
)
def test_whether_values_of_one_type_fit_another_has_three_answers(
    derived: Type, base: Type, answer: bool | None
) -> None:
    assert is_subtype(derived, base) is answer


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (FIXED, FIXED, FIXED),
        (FIXED, TensorType((3, 2), "float32"), RANKED),
        (FIXED, TensorType((3, 2), "float64"), TensorType(None, None, 2)),
        (FIXED, TensorType((2, 3), "float64"), TensorType((2, 3), None)),
        (FIXED, TensorType((2,), "float32"), TensorType(None, "float32")),
        (FIXED, TupleType([FIXED]), OBJECT),
        (TupleType([FIXED, FIXED]), TupleType([FIXED, RANKED]), TupleType([FIXED, RANKED])),
        (TupleType([FIXED]), TupleType([]), OBJECT),
        (ShapeType((2, 3)), ShapeType((3, 2)), ShapeType(None, 2)),
        (PrimType("int64", 1), PrimType("int64", 2), PrimType("int64")),
        (PrimType("int64", 1), PrimType("int32", 1), OBJECT),
        (TensorType((N * 2 + 1,), "int8"), TensorType((1 + 2 * N,), "int8"), TensorType((2 * N + 1,), "int8")),
    ],
)
def test_the_common_supertype_holds_for_both_and_no_less_is_known(left: Type, right: Type, common: Type) -> None:
    assert common_supertype(left, right) == common
    assert common_supertype(right, left) == common
    assert is_subtype(left, common) is True
    assert is_subtype(right, common) is True


def test_arguments_say_what_sizes_are() -> None:
    sizes: dict[SymVar, Dim] = {}
    assert bind_type(TensorType((N, M), "float32"), FIXED, sizes) is True
    assert sizes == {N: 2, M: 3}


def test_arguments_that_disagree_on_a_size_do_not_fit() -> None:
    sizes: dict[SymVar, Dim] = {}
    assert bind_type(TensorType((N, N), "float32"), FIXED, sizes) is False


def test_a_size_may_stand_for_an_expression_of_the_callers_sizes() -> None:
    sizes: dict[SymVar, Dim] = {}
    assert bind_type(TensorType((N, 3), "float32"), TensorType((M * 2, 3), "float32"), sizes) is True
    assert sizes == {N: M * 2}


@pytest.mark.parametrize(
    ("pattern", "actual", "answer"),
    [
        (TensorType((N, 3), "float32"), RANKED, None),
        (TensorType((N, 3), "float32"), OBJECT, None),
        (TensorType((N, 3), "float32"), TensorType((2, 3), "int8"), False),
        (TensorType((N, 3), "float32"), TensorType((2, 3), None), None),
        (TensorType((N,), "float32"), FIXED, False),
        (
            TupleType([TensorType((N,), None), TensorType((N,), None)]),
            TupleType([TensorType((2,), None), TensorType((3,), None)]),
            False,
        ),
        (TupleType([ANY]), TupleType([]), False),
        (ShapeType((N, N)), ShapeType((4, 4)), True),
        (PrimType("int64", N), PrimType("int64", 4), True),
        (PrimType("int64", N), PrimType("int64"), None),
        (PrimType("int64", N), PrimType("int32"), False),
    ],
)
def test_arguments_fit_or_not_or_it_cannot_be_told(pattern: Type, actual: Type, answer: bool | None) -> None:
    assert bind_type(pattern, actual, {}) is answer


def test_types_are_values() -> None:
    assert TensorType((2, N), "int8") == TensorType((2, N), "int8")
    assert hash(TensorType((2, N), "int8")) == hash(TensorType((2, N), "int8"))
    assert TensorType((2, N), None) != TensorType((2, SymVar("n")), None)
    assert PrimType("int64", 1) != PrimType("int64", True)
    assert TensorType((), "int8") != TensorType(None, "int8")


def test_sizes_of_a_type_come_in_order_and_once() -> None:
    ty = FuncType([TensorType((N, M), None), TupleType([TensorType((M * N,), None)])], ShapeType((M,)))
    assert type_symvars(ty) == (N, M)


def test_sizes_are_replaced_at_once_and_unchanged_types_are_shared() -> None:
    assert substitute_type(TensorType((N, M), None), {N: M, M: N}) == TensorType((M, N), None)
    assert substitute_type(FIXED, {N: 1}) is FIXED
    nested = TupleType([FIXED, PrimType("int64", N)])
    assert substitute_type(nested, {N: 4}) == TupleType([FIXED, PrimType("int64", 4)])


def test_what_is_not_known_is_erased_and_ranks_stay() -> None:
    known = {N}.__contains__
    assert erase_unbound(TensorType((N, 2), "int8"), known) == TensorType((N, 2), "int8")
    assert erase_unbound(TensorType((M, 2), "int8"), known) == TensorType(None, "int8", 2)
    assert erase_unbound(ShapeType((M,)), known) == ShapeType(None, 1)
    assert erase_unbound(PrimType("int64", M), known) == PrimType("int64")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorType((2, -1), None), "a size cannot be negative, got -1"),
        (lambda: TensorType((2, 1.5), None), "1.5 is not a size"),
        (lambda: TensorType((True,), None), "True is not a size"),
        (lambda: TensorType((2, 3), ndim=3, dtype=None), "has ndim 2, not 3"),
        (lambda: TensorType(None, ndim=-2, dtype=None), "ndim is -1 .unknown. or more, got -2"),
        (lambda: TensorType((2,), "float33"), "'float33' is not a dtype"),
        (lambda: ShapeType((2,), 3), "a shape of 1 values has ndim 1, not 3"),
        (lambda: PrimType(), "a PrimType needs a dtype or a value"),
    ],
)
def test_a_type_that_cannot_be_says_why(make: object, message: str) -> None:
    with pytest.raises(IRError, match=message):
        make()  # type: ignore[operator]


def _nested(depth: int) -> TupleType:
    ty = TupleType([FIXED])
    for _ in range(depth - 1):
        ty = TupleType([ty])
    return ty


def test_tuples_nest_to_a_depth_at_which_every_question_is_answered() -> None:
    ty = _nested(MOST_NESTED)
    assert ty.nesting == MOST_NESTED
    assert ty == _nested(MOST_NESTED)
    assert is_subtype(ty, _nested(MOST_NESTED)) is True
    assert substitute_type(ty, {N: 4}) is ty
    with pytest.raises(IRError, match="nests more than 50 tuples deep; put the values into one flat tuple"):
        _nested(MOST_NESTED + 1)
