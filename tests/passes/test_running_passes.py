"""Passes as values, what runs and watches them, and the search for the rewrite that changed a value."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from regraft.dpl import is_op, wildcard
from regraft.ir import Expr, Function, IRModule
from regraft.rewrite import Rule
from regraft.script import parse
from regraft.script import relax as R
from regraft.transform import (
    CanonicalizeBindings,
    CombineParallelMatmul,
    ConvertToDataflow,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    LiftTransformParams,
    Pass,
    PassContext,
    PassError,
    PassInstrument,
    PassTimingInstrument,
    PassValueError,
    PrintAfter,
    PrintBeforeAll,
    Sequential,
    first_change,
    function_pass,
    module_pass,
    report,
)
from tests.passes.harness import checked, counts, program

X = 'x: R.Tensor((2, 3), "float32")'


def _simple() -> Function:
    return program(X, "a = R.exp(x)\nb = R.exp(x)\nr = R.add(a, b)", "r")


def _replace(before: str, after: str) -> Rule:
    x = wildcard()

    def rewriter(_: Expr, found: dict[Any, Any]) -> Expr:
        return getattr(R, after)(found[x])

    return Rule(is_op(f"relax.{before}")(x), rewriter, f"{before}_to_{after}")


# --- passes


def test_a_pass_gives_a_function_for_a_function_and_a_module_for_a_module() -> None:
    one, before = EliminateCommonSubexpr(), _simple()
    assert isinstance(one(before), Function)
    module = one(IRModule.from_expr(before))
    assert isinstance(module, IRModule)
    assert counts(module["main"]) == counts(one(before)) == {"exp": 1, "add": 1}


def test_a_pass_refuses_what_is_no_program() -> None:
    with pytest.raises(PassError, match="EliminateCommonSubexpr works on a function or a module, not on int"):
        EliminateCommonSubexpr()(3)  # type: ignore[type-var]


def test_a_sequence_runs_its_passes_in_order_and_refuses_what_is_none() -> None:
    both = Sequential([EliminateCommonSubexpr(), DeadCodeElimination()])
    assert [one.name for one in both] == ["EliminateCommonSubexpr", "DeadCodeElimination"]
    assert counts(both(_simple())) == {"exp": 1, "add": 1}
    with pytest.raises(PassError, match=r"call the pass's name to make it: P\(\)"):
        Sequential([EliminateCommonSubexpr])  # type: ignore[list-item]


def test_a_block_too_small_for_dataflow_is_left_as_it_is_beside_dataflow_blocks() -> None:
    text = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        if c:
            b = R.sin(a)
        else:
            b = R.cos(a)
        r = R.tanh(b)
        return r
    """
    before = parse(dedent(text))
    assert checked(ConvertToDataflow(), before) is before


def test_functions_become_passes_under_their_own_or_a_given_name() -> None:
    @function_pass(opt_level=0)
    def mark(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        assert isinstance(ctx, PassContext)
        return func.with_attr("functions", len(mod))

    @module_pass(opt_level=1, name="rename")
    def move(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_attr("moved", True)

    assert isinstance(mark, Pass)
    assert (mark.name, move.name) == ("mark", "rename")
    assert mark(_simple()).attrs["functions"] == 1
    assert move(IRModule.from_expr(_simple())).attrs["moved"] is True


def test_a_class_becomes_a_pass_when_it_is_made() -> None:
    @function_pass(opt_level=0)
    class Mark:
        def __init__(self, value: int) -> None:
            self.value = value

        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            return func.with_attr("mark", self.value)

    assert Mark(3)(_simple()).attrs["mark"] == 3
    assert Mark(3).name == "Mark"
    with pytest.raises(PassError, match="Broken has no method transform_module"):

        @module_pass(opt_level=0)
        class Broken:
            pass


def test_a_module_pass_that_needs_several_functions_says_so_to_a_function_alone() -> None:
    before = program(f'{X}, w: R.Tensor((3,), "float32")', "a = R.exp(w)\nr = R.add(x, a)", "r")
    with pytest.raises(PassError, match=r"give it a module: IRModule\.from_expr"):
        LiftTransformParams()(before.with_attr("num_input", 1))


# --- instruments


def test_instruments_see_each_pass_and_can_stop_it() -> None:
    seen: list[str] = []

    class Watch(PassInstrument):
        def enter_pass_ctx(self) -> None:
            seen.append("enter")

        def exit_pass_ctx(self) -> None:
            seen.append("exit")

        def should_run(self, mod: Function | IRModule, info: Pass) -> bool:
            return info.name != "DeadCodeElimination"

        def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
            seen.append(f"after {info.name}")

    class WatchSinglePasses(Watch):
        sees_sequences = False

    passes = Sequential([CanonicalizeBindings(), DeadCodeElimination()], name="both")
    with PassContext(instruments=[WatchSinglePasses()]):
        passes(_simple())
    canonicalize = ["before CanonicalizeBindings", "after CanonicalizeBindings"]
    assert seen == ["enter", *canonicalize, "exit"]
    seen.clear()
    with PassContext(instruments=[Watch()]):
        passes(_simple())
    assert seen == ["enter", "before both", *canonicalize, "after both", "exit"]


def test_a_context_whose_instrument_fails_is_not_entered() -> None:
    class Fails(PassInstrument):
        def enter_pass_ctx(self) -> None:
            raise RuntimeError("no")

    before = PassContext.current()
    with pytest.raises(RuntimeError, match="no"), PassContext(instruments=[Fails()]):
        pass
    assert PassContext.current() is before
    with PassContext() as context:
        with pytest.raises(RuntimeError, match="no"):
            context.override_instruments([Fails()])
        DeadCodeElimination()(_simple())
        assert context.instruments == ()


def test_times_are_taken_pass_by_pass() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([CanonicalizeBindings(), EliminateCommonSubexpr()], name="both")(_simple())
    assert [time.name for time in timing.times] == ["both", "CanonicalizeBindings", "EliminateCommonSubexpr"]
    assert all(time.seconds > 0 for time in timing.times)
    assert "ms  both" in timing.render()
    assert "ms    EliminateCommonSubexpr" in timing.render()


def test_programs_are_shown_before_and_after_the_passes_asked_for() -> None:
    shown: list[str] = []
    with PassContext(instruments=[PrintBeforeAll(shown.append), PrintAfter("Common", shown.append)]):
        Sequential([CanonicalizeBindings(), EliminateCommonSubexpr()], name="both")(_simple())
    heads = [text.splitlines()[0] for text in shown]
    assert heads == [
        "# before both",
        "# before CanonicalizeBindings",
        "# before EliminateCommonSubexpr",
        "# after EliminateCommonSubexpr",
    ]
    assert "R.exp(x)" in shown[0]


def test_contexts_nest_and_end_with_their_block() -> None:
    outer, inner = PassContext(), PassContext()
    with outer:
        with inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() not in (outer, inner)


# --- reports


def test_a_report_says_what_was_rewritten_and_what_was_left_and_why() -> None:
    before = program(
        f'{X}, w: R.Tensor((3, 4), "float32"), v: R.Tensor((3,), "float32"), u: R.Tensor((3, 5), "float32")',
        "a = R.matmul(x, w)\nb = R.matmul(x, v)\nc = R.matmul(x, u)",
        "a, b, c",
    )
    found = report(Sequential([CombineParallelMatmul(), DeadCodeElimination()]), before)
    combine, dead = found.passes
    assert (combine.name, dead.name) == ("CombineParallelMatmul", "DeadCodeElimination")
    assert combine.changed_ops == {"relax.concat": (0, 1), "relax.matmul": (3, 2), "relax.split": (0, 1)}
    assert [step.binding for step in combine.rewrote] == ["a"]
    assert len(combine.declined) == 1
    assert "b: its right side is a vector" in str(found)
    assert "DeadCodeElimination: 0 rewrites, no op count changed" in str(found)


# --- values


@function_pass(opt_level=0, name="wrong")
def wrong(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Replaces one operator rightly, and one not."""
    return ctx.rewrite(func, _replace("square", "exp") | _replace("abs", "sin"))


def test_a_pass_that_changes_a_value_is_stopped_where_values_are_verified() -> None:
    @function_pass(opt_level=0)
    def drop(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.params[0])

    before = program(X, "r = R.exp(x)", "r")
    drop(before)
    with PassContext(verify="values"), pytest.raises(PassValueError, match="drop changed what main computes: output"):
        drop(before)


def test_a_rewrite_that_changes_a_value_is_stopped_as_it_is_made() -> None:
    from regraft.rewrite import RewriteValueError

    before = program(X, "r = R.square(x)", "r")
    with PassContext(verify="values"), pytest.raises(RewriteValueError, match="square_to_exp"):
        wrong(before)


def test_the_first_wrong_rewrite_is_found_among_right_ones() -> None:
    lines = "\n".join(f"a{i} = R.negative(R.negative({'x' if i == 0 else f'a{i - 1}'}))" for i in range(9))
    before = program(X, f"{lines}\nb = R.abs(a8)\nc = R.square(b)", "c")
    x = wildcard()
    twice = Rule(is_op("relax.negative")(is_op("relax.negative")(x)), lambda _, found: found[x], "negative_of_negative")

    @function_pass(opt_level=0, name="mixed")
    def mixed(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return ctx.rewrite(func, twice | _replace("square", "exp"))

    culprit = first_change(Sequential([CanonicalizeBindings(), mixed]), before)
    assert culprit is not None
    assert culprit.pass_name == "mixed"
    assert culprit.step is not None
    assert (culprit.step.rule, culprit.step.binding) == ("square_to_exp", "c")
    assert counts(culprit.before)["square"] == 1
    assert counts(culprit.after)["square"] == 0
    assert "square_to_exp" in str(culprit)
    assert first_change(CanonicalizeBindings(), before) is None


def test_a_pass_without_rules_is_the_culprit_as_a_whole() -> None:
    @function_pass(opt_level=0)
    def drop(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.params[0])

    culprit = first_change([EliminateCommonSubexpr(), drop], _simple())
    assert culprit is not None
    assert (culprit.pass_name, culprit.rewrite, culprit.step) == ("drop", None, None)
