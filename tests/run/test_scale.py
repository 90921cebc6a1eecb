"""Programs of 100,000 bindings build and run, whatever their shape. What each binding costs is for bench/ to say."""

from __future__ import annotations

import numpy as np

import regraft.op as R
from regraft.ir import BlockBuilder, Expr, If, ShapeExpr, SymVar, Tuple, TupleGetItem, Var, const
from tests.run.programs import build, program, tensor

MANY = 100_000


def test_a_chain_of_a_hundred_thousand_bindings_runs() -> None:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        value: Expr = x
        for _ in range(MANY):
            value = bb.emit(R.add(value, x))
        return value

    assert float(build(program([tensor("x", ())], write), target="numpy")["main"](1.0)) == MANY + 1.0


def test_a_value_with_a_hundred_thousand_users_runs() -> None:
    def write(bb: BlockBuilder, x: Var) -> Expr:
        return R.concat([bb.emit(R.add(x, x)) for _ in range(MANY)], axis=0)

    result = build(program([tensor("x", (1,))], write), target="numpy")["main"]([0.5])
    np.testing.assert_array_equal(result, np.ones(MANY, "float32"))


def test_twenty_thousand_parameters_fields_and_results_run() -> None:
    count = 20_000
    params = [tensor(f"p{i}", ()) for i in range(count)]

    def write(bb: BlockBuilder, *values: Var) -> Expr:
        packed = bb.emit(Tuple(reversed(values)))
        return Tuple([bb.emit(TupleGetItem(packed, i)) for i in range(len(values))])

    arguments = [np.float32(i) for i in range(count)]
    result = build(program(params, write), target="numpy")["main"](*arguments)
    assert [float(r) for r in result[:3]] == [count - 1.0, count - 2.0, count - 3.0]
    assert len(result) == count


def test_ten_thousand_branches_in_a_row_run() -> None:
    count = 10_000
    n = SymVar("n")
    c, x = tensor("c", (), "bool"), tensor("x", (n,))
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        value: Expr = x
        for _ in range(count):
            bb.begin_scope()
            then = bb.end_scope(R.add(value, x))
            bb.begin_scope()
            otherwise = bb.end_scope(value)
            value = bb.emit(If(c, then, otherwise))
        bb.emit_func_output(Tuple([value, ShapeExpr([n * count])]))
    main = build(bb.get(), target="numpy")["main"]
    assert main(True, [1.0])[0].tolist() == [count + 1.0]
    assert main(False, [1.0, 2.0])[1] == (2 * count,)


def test_ten_thousand_constants_run() -> None:
    count = 10_000

    def write(bb: BlockBuilder, x: Var) -> Expr:
        value: Expr = x
        for i in range(count):
            value = bb.emit(R.add(value, const(float(i % 2))))
        return value

    assert float(build(program([tensor("x", ())], write), target="numpy")["main"](0.0)) == count / 2
