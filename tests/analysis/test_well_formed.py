"""The rules of the language: each broken once, and the message that says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from regraft import op
from regraft.analysis import WellFormedError, check_well_formed, well_formed
from regraft.ir import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExternFunc,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRModule,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    Type,
    Var,
    VarBinding,
)
from regraft.testing import Options, programs
from tests.ir.programs import MATRIX, TRUTH, chain, matrix, nested_branches

X, Y, C = matrix("x"), matrix("y"), Var("c", TRUTH)
V, W = Var("v", MATRIX), Var("w", MATRIX)
LOCAL = DataflowVar("lv", MATRIX)
N, K = SymVar("n"), SymVar("k")
SUM = op.add(X, X)
LOG = Call(ExternFunc("log"), [X], ty_args=[MATRIX])
UNKNOWN = Var("u", TensorType(None, "float32"))


def tensor(*shape: object) -> TensorType:
    return TensorType(shape, "float32")  # type: ignore[arg-type]


def plain(*bindings: Binding) -> BindingBlock:
    return BindingBlock(bindings)


def dataflow(*bindings: Binding) -> DataflowBlock:
    return DataflowBlock(bindings)


def program(
    blocks: Sequence[BindingBlock],
    body: Expr = X,
    params: Sequence[Var] = (X, C),
    ret_ty: Type | None = None,
    pure: bool = True,
) -> Function:
    return Function(params, SeqExpr(blocks, body), ret_ty, pure)


SIDE = SeqExpr([plain(VarBinding(V, SUM))], V)

BROKEN = {
    "use before definition": (
        program([plain(VarBinding(V, op.add(X, W)), VarBinding(W, SUM))], V),
        r"function: block 0, binding 0 \(v\): w is used before it is defined",
    ),
    "undefined result": (program([], V), "function: v is used before it is defined"),
    "bound twice": (
        program([plain(VarBinding(V, SUM), VarBinding(V, SUM))], V),
        r"block 0, binding 1 \(v\): v is bound a second time; give this binding a new variable",
    ),
    "parameter bound again": (program([plain(VarBinding(X, X))]), "x is bound a second time"),
    "bound in both branches": (
        program([plain(VarBinding(W, If(C, SIDE, SeqExpr([plain(VarBinding(V, SUM))], V))))], W),
        r"block 0, binding 0 \(w\), block 0, binding 0 \(v\): v is bound a second time",
    ),
    "dataflow variable outside its block": (
        program([dataflow(VarBinding(LOCAL, SUM))], LOCAL),
        r"the DataflowVar lv is used outside of its block; make it an output \(a Var\)",
    ),
    "dataflow variable in a plain block": (
        program([plain(VarBinding(LOCAL, SUM))]),
        "lv is a DataflowVar, but its block is no dataflow block; use a Var",
    ),
    "dataflow parameter": (
        program([], X, [X, LOCAL]),
        "parameter lv is a DataflowVar; a parameter is a plain Var",
    ),
    "variable of a branch used after it": (
        program([plain(VarBinding(W, If(C, SeqExpr([plain(VarBinding(V, SUM))], V), X)))], Tuple([W, V])),
        "v is used outside of the branch or function that defines it",
    ),
    "branch in a dataflow block": (
        program([dataflow(VarBinding(V, If(C, X, X)))], V),
        "an If is in a dataflow block; end the block before it",
    ),
    "nested call": (
        program([plain(VarBinding(V, op.add(SUM, X)))], V),
        "an operand is a Call; bind it to a variable first",
    ),
    "nested projection in a tuple": (
        program([plain(VarBinding(Var("t", op.add(X, X).ty), TupleGetItem(Tuple([SUM]), 0)))]),
        "an operand is a Tuple; bind it to a variable first",
    ),
    "call as a condition": (
        program([plain(VarBinding(V, If(op.logical_not(C), X, X)))], V),
        "the condition of an If is a Call; bind it to a variable first",
    ),
    "call as a result": (program([], SUM), "the result of a body is a Call; bind it to a variable first"),
    "call in a cast": (
        program([plain(MatchCast(V, SUM, MATRIX))], V),
        "the value of a match_cast is a Call; bind it to a variable first",
    ),
    "body as a value": (
        program([plain(VarBinding(V, SeqExpr([], X)))], V),
        r"a body \(SeqExpr\) is bound as a value; put its bindings before this one",
    ),
    "effect in a pure function": (
        program([plain(VarBinding(V, LOG))], V),
        "the call of ExternFunc has effects, but the function is pure; declare it with pure=False",
    ),
    "effect in a dataflow block": (
        program([dataflow(VarBinding(V, LOG))], V, pure=False),
        "the call of ExternFunc has effects, but is in a dataflow block; move it out",
    ),
    "size of a parameter that no dimension defines": (
        program([], X, [X, Var("p", tensor(N * 2))]),
        "the type of parameter p mentions the size n, which is not defined",
    ),
    "size in a shape": (
        program([plain(VarBinding(Var("s"), ShapeExpr([N])))]),
        "a ShapeExpr mentions the size n, which is not defined",
    ),
    "size in the type of a variable": (
        program([plain(VarBinding(Var("s", tensor(N, 3)), UNKNOWN))], X, [X, UNKNOWN]),
        "the type of s mentions the size n, which is not defined; a parameter or cast with this size alone",
    ),
    "size in a cast that is no plain size": (
        program([plain(MatchCast(Var("s", tensor(N * 2)), UNKNOWN, tensor(N * 2)))], X, [X, UNKNOWN]),
        "the type that is cast to mentions the size n, which is not defined",
    ),
    "size in the return type": (
        program([], UNKNOWN, [UNKNOWN], tensor(N)),
        "the return type mentions the size n, which is not defined",
    ),
    "size cast in a branch and used after it": (
        program(
            [plain(VarBinding(V, If(C, SeqExpr([plain(MatchCast(Var("s", tensor(K, 3)), X, tensor(K, 3)))], X), X)))],
            ShapeExpr([K]),
        ),
        "a ShapeExpr mentions the size k, which is not defined",
    ),
    "variable of another type than its value": (
        program([plain(VarBinding(Var("s", tensor(3, 3)), SUM))]),
        r"s is declared as R.Tensor\(\(3, 3\).*, but its value is R.Tensor\(\(2, 3\).*does not always fit",
    ),
    "variable of a type that its value may not have": (
        program([plain(VarBinding(V, UNKNOWN))], V, [X, UNKNOWN]),
        "use match_cast to check it at run time",
    ),
    "cast to another type than the variable's": (
        program([plain(MatchCast(Var("s", tensor(3, 3)), UNKNOWN, MATRIX))], X, [X, UNKNOWN]),
        r"s is declared as R.Tensor\(\(3, 3\)",
    ),
    "result of another type": (
        program([], X, ret_ty=tensor(7, 7)),
        "does not always fit the return type",
    ),
    "constant of another type than its data": (
        program([], Constant(np.zeros((2, 2), np.float32), tensor(3, 3))),
        "a constant of type .* holds TensorData",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_named_with_its_place(rule: str) -> None:
    function, message = BROKEN[rule]
    with pytest.raises(WellFormedError, match=message):
        well_formed(function)
    assert not check_well_formed(function)
    assert not check_well_formed(IRModule({"main": function}))


def test_types_can_be_left_unchecked() -> None:
    function = program([], X, ret_ty=tensor(7, 7))
    assert check_well_formed(function, check_ty=False)


def test_the_message_shows_the_bindings_around_the_fault() -> None:
    first, last, distant = Var("first", MATRIX), Var("last", MATRIX), Var("distant", MATRIX)
    block = plain(
        VarBinding(distant, op.exp(X)),
        VarBinding(first, op.sin(X)),
        VarBinding(V, op.add(first, W)),
        VarBinding(last, op.cos(X)),
    )
    with pytest.raises(WellFormedError) as caught:
        well_formed(IRModule({"main": program([block], V)}))
    lines = str(caught.value).splitlines()
    assert lines[0] == "main: block 0, binding 2 (v): w is used before it is defined"
    shown = "\n".join(lines[1:])
    assert "R.sin(x)" in shown
    assert "R.cos(x)" in shown
    assert "R.exp(x)" not in shown
    assert [line for line in lines if line.startswith("  >") and "R.add(first, w)" in line]


def test_functions_that_are_mentioned_must_exist() -> None:
    callee = GlobalVar("missing", FuncType([MATRIX], MATRIX))
    function = program([plain(VarBinding(V, Call(callee, [X])))], V)
    assert check_well_formed(function)
    with pytest.raises(WellFormedError, match="the module has no function 'missing'; it has: main"):
        well_formed(IRModule({"main": function}))


def test_a_function_must_be_used_as_the_type_it_has() -> None:
    callee = GlobalVar("other", FuncType([MATRIX], tensor(7, 7)))
    var = Var("r", tensor(7, 7))
    function = program([plain(VarBinding(var, Call(callee, [X])))], var)
    with pytest.raises(WellFormedError, match=r"other is used as .* but the function is"):
        well_formed(IRModule({"main": function, "other": Function([Y], Y)}))


def test_a_public_function_must_bear_its_name_in_the_module() -> None:
    function = program([]).with_attr("global_symbol", "main")
    assert check_well_formed(IRModule({"main": function}))
    with pytest.raises(WellFormedError, match="the function's global_symbol is 'main'; the two names must agree"):
        well_formed(IRModule({"other": function}))


def test_one_function_may_stand_under_two_names() -> None:
    function = Function([X], X)
    assert check_well_formed(IRModule({"f": function, "g": function}))


def test_effects_are_allowed_where_they_are_declared_or_forced() -> None:
    impure = program([plain(VarBinding(V, LOG))], V, pure=False)
    assert check_well_formed(impure)
    assert check_well_formed(program([plain(VarBinding(V, LOG))], V).with_attr("relax.force_pure", True))


def test_a_wider_declared_type_and_a_defining_cast_are_fine() -> None:
    wide = Var("wide", TensorType(None, None, 2))
    cast = Var("cast", tensor(K, 3))
    block = plain(VarBinding(wide, SUM), MatchCast(cast, wide, tensor(K, 3)))
    assert check_well_formed(program([block], Tuple([cast, ShapeExpr([K * 2])])))


def test_parameters_define_sizes_for_each_other_in_any_order() -> None:
    twice, once = Var("twice", tensor(N * 2)), Var("once", tensor(N))
    assert check_well_formed(program([], once, [twice, once]))


def test_inner_functions_see_what_is_around_them_and_hide_what_is_theirs() -> None:
    p, q = matrix("p"), Var("q", MATRIX)
    inner = Function([p], SeqExpr([plain(VarBinding(q, op.add(p, X)))], q))
    closure = Var("closure", inner.ty)
    assert check_well_formed(program([plain(VarBinding(closure, inner))], closure))
    with pytest.raises(WellFormedError, match="q is used outside of the branch or function that defines it"):
        well_formed(program([plain(VarBinding(closure, inner))], Tuple([closure, q])))


@given(programs(30, Options(odd_constants=True)))
def test_random_programs_are_well_formed(module: IRModule) -> None:
    assert well_formed(module)


def test_long_programs_and_deep_branches_are_checked_without_recursion() -> None:
    assert well_formed(chain(100_000))
    assert well_formed(nested_branches(3_000))
