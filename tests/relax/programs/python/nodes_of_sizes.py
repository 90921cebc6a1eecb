import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def t_each_size_of_a_shape():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    return [size.value for size in x.ty.shape]


def t_each_size_of_a_written_shape():
    shape = relax.ShapeExpr([2, 3])
    return [[size.value for size in sizes] for sizes in (shape, shape.values, shape.ty.values)]


def t_kinds_of_sizes():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    sizes = [n + m, n * m, n - m, n // 2, n % 2, n + 1, n * 2, n, tirx.min(n, m), tirx.max(n, m), n - 1]
    kinds = (
        tirx.Add,
        tirx.Mul,
        tirx.Sub,
        tirx.FloorDiv,
        tirx.FloorMod,
        tirx.Min,
        tirx.Max,
        tirx.Var,
        tirx.IntImm,
    )
    return [[isinstance(size, kind) for kind in kinds] for size in sizes]


def t_kinds_of_conditions():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    conditions = [n < m, n <= m, n > m, n >= m, tirx.EQ(n, m), tirx.NE(n, m), tirx.And(n < m, m < n * n)]
    kinds = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE, tirx.And, tirx.Or, tirx.Not)
    return [[isinstance(condition, kind) for kind in kinds] for condition in conditions]


def t_operands_of_sizes():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    sizes = [n + m, n * m, n - m, n // m, n % m, tirx.min(n, m), tirx.max(n, m), n < m]
    return [[size.a.same_as(n), size.b.same_as(m)] for size in sizes]


def t_numbers_in_sizes():
    n = tirx.Var("n", "int64")
    sizes = [n + 1, n * 2, n // 4, n % 8, n - 3]
    return [[size.a.same_as(n), isinstance(size.b, tirx.IntImm), size.b.value] for size in sizes]


def t_a_choice_of_sizes():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    size = tirx.Select(n < m, n, m)
    return [isinstance(size, tirx.Select), size.condition.a.same_as(n), size.true_value.same_as(n)]


def t_sizes_within_sizes():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    size = n * 4 + m
    return [isinstance(size.a, tirx.Mul), size.a.b.value, size.b.same_as(m)]


def t_a_size_has_no_other_operands():
    n = tirx.Var("n", "int64")
    return [hasattr(n, "a"), hasattr(n + 1, "condition"), hasattr(n, "value")]


def t_type_of_a_scalar_as_text():
    return [str(tvm.ir.PrimType(dtype)) for dtype in ("int64", "float32", "bool")]
