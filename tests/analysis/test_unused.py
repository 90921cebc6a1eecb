"""Dead bindings go; effects, checks and all that they need stay."""

from __future__ import annotations

from hypothesis import given

from regraft import op
from regraft.analysis import contains_impure_call, find_impure_call, remove_all_unused, well_formed
from regraft.ir import (
    BindingBlock,
    BlockBuilder,
    Call,
    DataflowVar,
    ExternFunc,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRModule,
    MatchCast,
    SeqExpr,
    TensorType,
    Tuple,
    Var,
    VarBinding,
    iter_bindings,
    structural_equal,
)
from regraft.testing import programs
from tests.ir.programs import MATRIX, TRUTH, chain, matrix


def names(function: Function) -> list[str]:
    return [binding.var.name for binding in iter_bindings(function)]


def effect(x: Var) -> Call:
    """A call of an outside function, which may have effects."""
    return Call(ExternFunc("log"), [x], ty_args=[MATRIX])


def test_bindings_that_nothing_needs_go_with_their_operands() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.exp(x), "a")
            b = builder.emit(op.sin(a), "b")
            builder.emit(op.cos(b), "c")
            kept = builder.emit_output(op.add(a, a), "kept")
            builder.emit_output(op.exp(b), "unread")
        builder.emit(op.exp(kept), "later")
        builder.emit_func_output(kept)
    function = remove_all_unused(builder.get()["main"])
    assert names(function) == ["a", "kept"]
    assert len(function.body.blocks) == 1


def test_a_function_without_dead_bindings_is_given_back_as_it_is() -> None:
    function = chain(10)["main"]
    assert remove_all_unused(function) is function


def test_effects_stay_with_what_they_need() -> None:
    x = matrix()
    needed, logged, dead = Var("needed", MATRIX), Var("logged", MATRIX), Var("dead", MATRIX)
    block = BindingBlock(
        [
            VarBinding(needed, op.exp(x)),
            VarBinding(logged, effect(needed)),
            VarBinding(dead, op.add(logged, logged)),
        ]
    )
    assert names(remove_all_unused(Function([x], SeqExpr([block], x), is_pure=False))) == ["needed", "logged"]


def test_checks_stay() -> None:
    x = Var("x", TensorType(None, "float32"))
    alias, cast = Var("alias", x.ty), Var("cast", MATRIX)
    block = BindingBlock([VarBinding(alias, x), MatchCast(cast, alias, MATRIX)])
    assert names(remove_all_unused(Function([x], SeqExpr([block], x)))) == ["alias", "cast"]


def branching(value: Call, result_used: bool) -> Function:
    x, condition = matrix(), Var("c", TRUTH)
    inside, dead, last = Var("inside", MATRIX), Var("dead", MATRIX), Var("last", MATRIX)
    side = SeqExpr([BindingBlock([VarBinding(inside, value), VarBinding(dead, op.exp(inside))])], x)
    block = BindingBlock([VarBinding(last, If(condition, side, x))])
    return Function([matrix("p"), x, condition], SeqExpr([block], last if result_used else x), is_pure=False)


def test_dead_bindings_inside_a_branch_go() -> None:
    assert names(remove_all_unused(branching(op.exp(matrix()), True))) == ["last"]


def test_a_dead_branch_goes_whole_unless_it_has_effects() -> None:
    assert names(remove_all_unused(branching(op.exp(matrix()), False))) == []
    assert names(remove_all_unused(branching(effect(matrix()), False))) == ["inside", "last"]


def test_defining_an_inner_function_is_not_calling_it() -> None:
    x, y = matrix("x"), matrix("y")
    logged = Var("logged", MATRIX)
    inner = Function([y], SeqExpr([BindingBlock([VarBinding(logged, effect(y))])], y), is_pure=False)
    closure, outside = Var("closure", inner.ty), Var("outside", MATRIX)

    def program(result: Var) -> Function:
        block = BindingBlock([VarBinding(outside, op.exp(x)), VarBinding(closure, inner)])
        return Function([x], SeqExpr([block], Tuple([result, x])))

    assert names(remove_all_unused(program(x))) == []
    assert names(remove_all_unused(program(closure))) == ["logged", "closure"]
    assert not contains_impure_call(program(closure))
    assert contains_impure_call(inner)


def test_impure_calls_are_found_in_branches() -> None:
    x = matrix()
    call = effect(x)
    assert find_impure_call(branching(call, True)) is call
    assert not contains_impure_call(branching(op.exp(x), True))


def test_a_function_of_unknown_purity_counts_as_impure() -> None:
    x = matrix()
    assert contains_impure_call(Call(GlobalVar("f"), [x]))
    assert contains_impure_call(Call(GlobalVar("f", FuncType([MATRIX], MATRIX, False)), [x]))
    assert not contains_impure_call(Call(GlobalVar("f", FuncType([MATRIX], MATRIX, True)), [x]))


def test_calls_of_the_function_itself_do_not_make_it_impure() -> None:
    x = matrix()
    own = GlobalVar("loop", FuncType([MATRIX], MATRIX, False))
    assert contains_impure_call(Call(own, [x]))
    assert not contains_impure_call(Call(own, [x]), own)
    assert not contains_impure_call(Call(GlobalVar("loop", own.ty), [x]), own)
    assert contains_impure_call(Call(GlobalVar("other", own.ty), [x]), own)


@given(programs(25))
def test_what_is_left_is_well_formed_and_has_nothing_more_to_remove(module: IRModule) -> None:
    for function in module.functions.values():
        left = remove_all_unused(function)
        well_formed(left)
        assert remove_all_unused(left) is left
        assert structural_equal(left.body.body, function.body.body, map_free_vars=True)


def test_a_long_dead_chain_goes_without_recursion() -> None:
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Var = x
            for _ in range(50_000):
                value = builder.emit(op.add(value, value))
            kept = builder.emit_output(op.add(x, x))
        builder.emit_func_output(kept)
    assert isinstance(value, DataflowVar)
    assert len(names(remove_all_unused(builder.get()["main"]))) == 1
