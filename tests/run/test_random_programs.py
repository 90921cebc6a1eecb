"""The engine against an interpreter that is as plain as can be: an environment, one expression after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regraft.ir import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeType,
    SymExpr,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
)
from regraft.ir.dims import Dim, evaluate, match_dim
from regraft.testing import random_inputs, random_module
from tests.run.programs import build


class _Interpreter:
    def __init__(self, module: IRModule) -> None:
        self.module = module

    def call(self, function: Function, arguments: list[Any]) -> Any:
        values: dict[Var, Any] = {}
        sizes: dict[SymVar, int] = {}
        for param, argument in zip(function.params, arguments, strict=True):
            values[param] = argument
            self.bind(param.ty, argument, sizes)
        return self.run(function.body, values, sizes)

    def bind(self, ty: Type, value: Any, sizes: dict[SymVar, int]) -> None:
        if isinstance(ty, TupleType):
            for field, item in zip(ty.fields, value, strict=True):
                self.bind(field, item, sizes)
        dims = ty.shape if isinstance(ty, TensorType) else ty.values if isinstance(ty, ShapeType) else None
        have = np.shape(value) if isinstance(ty, TensorType) else value
        for dim, size in zip(dims or (), have if dims else (), strict=True):
            known: dict[SymVar, Dim] = dict(sizes)
            assert match_dim(dim, size, known) is True
            sizes.update({v: int(s) for v, s in known.items() if isinstance(s, int)})

    def run(self, body: SeqExpr, values: dict[Var, Any], sizes: dict[SymVar, int]) -> Any:
        for block in body.blocks:
            for binding in block.bindings:
                value = self.evaluate(binding.value, values, sizes)
                if isinstance(binding, MatchCast):
                    self.bind(binding.ty, value, sizes)
                values[binding.var] = value
        return self.evaluate(body.body, values, sizes)

    def evaluate(self, expr: Expr, values: dict[Var, Any], sizes: dict[SymVar, int]) -> Any:
        def inner(part: Expr) -> Any:
            return self.evaluate(part, values, sizes)

        match expr:
            case Var():
                return values[expr]
            case Constant():
                return expr.data.numpy()
            case ShapeExpr():
                return tuple(evaluate(dim, sizes) for dim in expr.values)
            case PrimValue():
                return evaluate(expr.value, sizes) if isinstance(expr.value, SymExpr) else expr.value
            case Tuple():
                return tuple(map(inner, expr.fields))
            case TupleGetItem():
                return inner(expr.tuple_value)[expr.index]
            case If():
                branch = expr.true_branch if inner(expr.cond) else expr.false_branch
                return self.run(branch, dict(values), dict(sizes))
            case Call(op=GlobalVar() as callee):
                return self.call(self.module[callee], list(map(inner, expr.args)))
            case Call(op=Op() as op):
                assert op.reference is not None
                given = list(map(inner, expr.args))
                given += [None] * (0 if op.variadic else len(op.operands) - len(given))
                return op.reference(np, *given, **expr.attrs)
            case _:
                raise AssertionError(f"the random programs have no {type(expr).__name__}")


def _assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        for a, e in zip(actual, expected, strict=True):
            _assert_same(a, e)
    elif isinstance(expected, np.ndarray | np.generic):
        assert isinstance(actual, np.ndarray)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    else:
        assert actual == expected


@pytest.mark.parametrize("first_seed", range(0, 200, 40))
def test_random_programs_give_what_a_plain_interpreter_gives(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 40):
        module = random_module(seed, size=25, helpers=seed % 3)
        arguments = random_inputs(module["main"], seed)
        with np.errstate(all="ignore"):
            expected = _Interpreter(module).call(module["main"], arguments)
        _assert_same(build(module, target="numpy")["main"](*arguments), expected)


def test_values_of_random_programs_are_of_the_types_that_were_inferred() -> None:
    for seed in range(200, 300):
        module = random_module(seed, size=25)
        build(module, target="numpy", verify_types=True)["main"](*random_inputs(module["main"], seed))


def test_running_twice_gives_the_same_and_leaves_the_arguments_alone() -> None:
    for seed in range(300, 340):
        module = random_module(seed, size=25)
        arguments = random_inputs(module["main"], seed)
        before = [np.array(a, copy=True) if isinstance(a, np.ndarray) else a for a in arguments]
        main = build(module, target="numpy")["main"]
        _assert_same(main(*arguments), main(*arguments))
        for a, b in zip(arguments, before, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b)
