"""Questions about variables: what is bound, free, used, and under which name."""

from __future__ import annotations

from hypothesis import given

from regraft import op
from regraft.analysis import (
    all_global_vars,
    all_vars,
    bound_vars,
    called_names,
    defined_symbolic_vars,
    direct_uses,
    free_symbolic_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
    users_of,
)
from regraft.ir import (
    BindingBlock,
    BlockBuilder,
    Call,
    DataflowBlock,
    Function,
    If,
    IRModule,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    SymVar,
    TensorType,
    Tuple,
    Type,
    Var,
    VarBinding,
    iter_bindings,
)
from regraft.testing import programs
from tests.ir.programs import MATRIX, TRUTH, chain, matrix


def names(variables: object) -> list[str]:
    return [var.name for var in variables]  # type: ignore[attr-defined]


def diamond() -> Function:
    """``a = exp(x); b = sin(a); unused = cos(x); r = a + b`` in one block."""
    x = matrix()
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.exp(x), "a")
            b = builder.emit(op.sin(a), "b")
            builder.emit(op.cos(x), "unused")
            result = builder.emit_output(op.add(a, b), "r")
        builder.emit_func_output(result)
    return builder.get()["main"]


def branch() -> Function:
    x, condition = matrix(), Var("c", TRUTH)
    builder = BlockBuilder()
    with builder.function("main", [x, condition]):
        first = builder.emit(op.exp(x), "first")
        builder.begin_scope()
        inner = builder.emit(op.sin(first), "inner")
        side = builder.end_scope(inner)
        last = builder.emit(If(condition, side, x), "last")
        builder.emit_func_output(last)
    return builder.get()["main"]


def test_values_of_variables_come_in_order_without_casts() -> None:
    function = diamond()
    values = get_var2val(function)
    assert names(values) == ["a", "b", "unused", "r"]
    assert [binding.value for binding in function.body.blocks[0]] == list(values.values())
    x = matrix()
    cast = Var("cast", MATRIX)
    block = BindingBlock([MatchCast(cast, x, MATRIX)])
    assert get_var2val(Function([x], SeqExpr([block], cast))) == {}


def test_values_inside_branches_are_found() -> None:
    assert names(get_var2val(branch())) == ["first", "inner", "last"]


def test_bindings_are_found_by_name_even_when_names_repeat() -> None:
    x = matrix()
    rows = [VarBinding(Var("v", MATRIX), op.add(x, x)), VarBinding(Var("v", MATRIX), op.multiply(x, x))]
    found = name_to_binding(Function([x], SeqExpr([BindingBlock(rows)], x)))
    assert found == {"v": rows}


def test_users_come_in_order_and_once_each() -> None:
    function = diamond()
    by_name = {var.name: names(b.var for b in users) for var, users in users_of(function).items()}
    assert by_name == {"x": ["a", "unused"], "a": ["b", "r"], "b": ["r"]}


def test_a_branch_uses_its_condition_and_results_and_its_bindings_use_the_rest() -> None:
    by_name = {var.name: names(b.var for b in users) for var, users in users_of(branch()).items()}
    assert by_name == {"x": ["first", "last"], "first": ["inner"], "c": ["last"], "inner": ["last"]}


def test_the_use_def_chain_lists_users_of_each_variable() -> None:
    [block] = diamond().body.blocks
    assert isinstance(block, DataflowBlock)
    chain_of = {var.name: names(users) for var, users in udchain(block).items()}
    assert chain_of == {"x": ["a", "unused"], "a": ["b", "r"], "b": ["r"], "unused": [], "r": []}


def test_direct_uses_keep_repeats_and_leave_nested_bindings_out() -> None:
    x = matrix()
    assert direct_uses(op.add(x, Call(op.add(x, x).op, [x, x]))).variables == [x, x, x]
    binding = branch().body.blocks[0].bindings[1]
    uses = direct_uses(binding.value)
    assert names(uses.variables) == ["c", "inner", "x"]
    assert len(uses.bodies) == 2


def test_free_bound_and_all_variables_of_a_function() -> None:
    function = diamond()
    assert free_vars(function) == []
    assert names(bound_vars(function)) == ["x", "a", "b", "unused", "r"]
    assert names(all_vars(function)) == ["x", "a", "b", "unused", "r"]
    assert names(used_vars(function)) == ["x", "a", "b", "r"]


def test_free_variables_of_an_expression_come_in_order_of_first_use() -> None:
    x, y = matrix("x"), matrix("y")
    expr = op.add(op.multiply(y, x), y)
    assert free_vars(expr) == [y, x]
    assert bound_vars(expr) == []
    assert free_vars(Function([x], expr)) == [y]


def test_mentioned_functions_are_listed_once() -> None:
    module = IRModule({"f": diamond(), "g": diamond()})
    f, g = module.get_global_vars()
    assert all_global_vars(Tuple([g, f, g])) == [g, f]
    one, two = Function([], Tuple([g, f, g])), Function([], Tuple([f]))
    assert list(called_names(one)) == ["g", "f"]
    assert list(called_names(IRModule({"two": two, "one": one}))) == ["f", "g"]


def test_post_order_visits_operands_first() -> None:
    x = matrix()
    seen: list[str] = []
    post_order_visit(op.add(x, op.exp(x)), lambda expr: seen.append(type(expr).__name__))
    assert seen == ["Op", "Var", "Op", "Var", "Call", "Call"]


def sized(param: Type, *shown: object) -> Function:
    return Function([Var("x", param)], ShapeExpr(shown))


def test_sizes_are_defined_where_they_stand_alone() -> None:
    n, m, k = SymVar("n"), SymVar("m"), SymVar("k")
    function = sized(TensorType((n, m * 2), "float32"), n, k)
    assert defined_symbolic_vars(function) == [n]
    assert free_symbolic_vars(function) == [m, k]


def test_casts_define_sizes() -> None:
    n, k = SymVar("n"), SymVar("k")
    x = Var("x", TensorType((n, 3), "float32"))
    cast = Var("cast", TensorType((k, 3), "float32"))
    function = Function([x], SeqExpr([BindingBlock([MatchCast(cast, x, cast.ty)])], ShapeExpr([k + n])))
    assert defined_symbolic_vars(function) == [n, k]
    assert free_symbolic_vars(function) == []


def test_a_size_that_is_used_before_its_cast_is_free() -> None:
    n, k = SymVar("n"), SymVar("k")
    x = Var("x", TensorType((n, 3), "float32"))
    grown = Var("grown", TensorType((k, n, 3), "float32"))
    spread = VarBinding(grown, op.broadcast_to(x, (k, n, 3)))
    cast = Var("cast", grown.ty)
    blocks = [BindingBlock([spread, MatchCast(cast, grown, cast.ty)])]
    assert free_symbolic_vars(Function([x], SeqExpr(blocks, cast))) == [k]


@given(programs(20))
def test_random_programs_have_nothing_free(module: IRModule) -> None:
    for function in module.functions.values():
        assert free_vars(function) == []
        assert free_symbolic_vars(function) == []
        bound = set(bound_vars(function))
        assert set(users_of(function)) <= bound
        assert {binding.var for binding in iter_bindings(function)} <= bound


def test_questions_about_long_programs_are_answered_without_recursion() -> None:
    module = chain(100_000)
    function = module["main"]
    assert len(users_of(function)) == 100_001
    assert len(get_var2val(function)) == 100_001
    assert free_vars(function) == []
