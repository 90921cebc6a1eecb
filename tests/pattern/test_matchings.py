"""The contents of a match, and copies and texts of a pattern, however deep it is."""

from __future__ import annotations

from regraft import op
from regraft.dpl import *
from regraft.dpl import CallPattern, DFPattern, ExternFuncPattern, FunctionPattern
from regraft.ir import BlockBuilder, Expr, SymVar, TensorType, Var, const
from regraft.pattern.chain_pattern import HolePattern
from regraft.pattern.matcher.match import compiled
from tests.pattern.programs import matches, program, tensor


def test_a_match_has_calls_and_tuples_as_expressions_and_wildcards_as_they_stand() -> None:
    x, y = tensor("x"), tensor("y")
    result, definitions = program([x, y], lambda b: op.exp(b.emit(op.add(b.emit(op.sin(x)), y))))
    operand, other = wildcard(), wildcard()
    add = is_op("relax.add")
    call = add(operand, other)
    pattern = is_op("relax.exp")(call)
    found = pattern.extract_matched_expr(result, definitions)
    assert found is not None
    assert found[pattern] is definitions[result]  # type: ignore[index]
    assert found[call].op.name == "relax.add"
    assert found[add] is found[call].op
    assert isinstance(found[operand], Var)
    assert definitions[found[operand]].op.name == "relax.sin"  # type: ignore[attr-defined]
    assert found[other] is y
    assert is_op("relax.cos")(wildcard()).extract_matched_expr(result, definitions) is None


def test_one_pattern_in_two_places_stands_for_one_value() -> None:
    x, y = tensor("x"), tensor("y")
    value = wildcard()
    double = is_op("relax.add")(value, value)
    assert double.match(op.add(x, x))
    assert not double.match(op.add(x, y))
    assert is_op("relax.add")(value, value.dup()).match(op.add(x, y))
    assert double.match(op.add(const(1.0), const(1.0)))
    assert not double.match(op.add(const(1.0), const(2.0)))


def test_a_duplicate_keeps_what_stands_in_several_places_together() -> None:
    x, y = tensor("x"), tensor("y")
    value = wildcard()
    copy = is_op("relax.add")(value, value).dup()
    assert isinstance(copy, CallPattern)
    assert copy.args[0] is copy.args[1]
    assert copy.args[0] is not value
    assert copy.match(op.add(x, x))
    assert not copy.match(op.add(x, y))


def every_pattern() -> list[tuple[DFPattern, str]]:
    n = SymVar("n")
    star = wildcard()
    return [
        (wildcard(), "*"),
        (is_const(), "const"),
        (is_const(2.0), "const(2.0)"),
        (is_scalar(), "scalar"),
        (elementwise(), "elementwise"),
        (is_var("x"), "var(x)"),
        (is_dfv(), "dfv()"),
        (is_gv("f"), "gv(f)"),
        (ExternFuncPattern("my.func"), "extern(my.func)"),
        (is_op("relax.nn.relu"), "nn.relu"),
        (is_expr(const(1.0)), 'is_expr(R.const(1.0, "float32"))'),
        (is_op("relax.add")(star, is_const()), "add(*, const)"),
        (is_op("relax.add")(star, varg_default_wildcard=True), "add(*, ...)"),
        (is_tuple([star]), "(*,)"),
        (is_tuple([star, is_const()]), "(*, const)"),
        (is_tuple([star, is_const()], unordered=True), "unordered(*, const)"),
        (is_tuple_get_item(star, 1), "*[1]"),
        (is_tuple_get_item(star), "*[any]"),
        (star | is_const(), "(* | const)"),
        (star & is_const(), "(* & const)"),
        (~is_const(), "~const"),
        (star.has_attr({"axis": 1}), "*{axis=1}"),
        (star.has_dtype("float32"), "*: float32"),
        (star.has_shape([2, n]), "*: (2, n)"),
        (star.has_ty(TensorType((2,), "float32")), '*: R.Tensor((2,), dtype="float32")'),
        (is_shape([2, n]), "shape(2, n)"),
        (FunctionPattern([star], is_const()), "function(*) -> const"),
        (repeat(star, min=2, max=4), "repeat(*, 2..4)"),
        (repeat(star), "repeat(*, 1..)"),
        (is_if(star, is_const(), star), "if(*, const, *)"),
        (chain(is_op("relax.exp"), until=is_const()), "chain(exp, until=const)"),
        (HolePattern(), "below"),
        (star.users(2), "*: 2 users"),
    ]


def test_every_pattern_has_a_text_and_a_duplicate_of_its_own_kind() -> None:
    kinds = set()
    for pattern, text in every_pattern():
        assert repr(pattern) == text
        copy = pattern.dup()
        assert copy is not pattern
        assert type(copy) is type(pattern)
        assert repr(copy) == text
        kinds.add(type(pattern))
    leaves = {kind for kind in all_kinds(DFPattern) if not kind.__subclasses__()}
    assert leaves <= kinds


def all_kinds(kind: type) -> set[type]:
    return {kind}.union(*(all_kinds(below) for below in kind.__subclasses__()))


def test_a_text_does_not_grow_with_how_often_its_parts_stand() -> None:
    pattern: DFPattern = wildcard()
    for _ in range(60):
        pattern = is_op("relax.add")(pattern, pattern)
    assert len(repr(pattern)) < 1000


def test_deep_patterns_match_and_duplicate_without_recursion() -> None:
    x = tensor()
    depth = 3000

    def chain(b: BlockBuilder) -> Expr:
        value: Expr = x
        for _ in range(depth):
            value = b.emit(op.exp(value))
        return value

    result = program([x], chain)
    inner = is_var("x")
    pattern: DFPattern = inner
    for _ in range(depth):
        pattern = is_op("relax.exp")(pattern)
    assert matches(pattern, result)
    assert matches(pattern.dup(), result)
    assert not matches(is_op("relax.exp")(pattern), result)
    assert repr(pattern).startswith("exp(exp(")


def test_many_alternatives_match_without_recursion() -> None:
    callee: DFPattern = is_op("relax.exp")
    for _ in range(1200):
        callee = callee | is_op("relax.sin")
    assert callee(wildcard()).match(op.exp(tensor()))
    assert compiled(callee(wildcard())).ops == (op.exp(tensor()).op, op.sin(tensor()).op)  # type: ignore[attr-defined]
