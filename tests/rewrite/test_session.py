"""The editing session on its own: edits, what they remove, cycles, order, and the block that comes out.

A random sequence of edits is held against a model that keeps nothing but which value each variable has.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import BlockBuilder, DataflowVar, Expr, Function, TensorType, Var
from regraft.analysis import well_formed
from regraft.analysis.values import leaves_of
from regraft.ir import Call, DataflowBlock, SeqExpr, Tuple
from regraft.ir.builder import NameSupply
from regraft.rewrite.emission import Emission
from regraft.rewrite.session import EditSession
from regraft.script import relax as R
from tests.rewrite.harness import assert_same_bits, run

TYPE = TensorType((2, 3), "int32")
INPUTS = [np.arange(6, dtype="int32").reshape(2, 3) - 2, np.arange(6, dtype="int32")[::-1].reshape(2, 3) * 3]
BINARY = {
    "relax.add": (R.add, np.add),
    "relax.subtract": (R.subtract, np.subtract),
    "relax.maximum": (R.maximum, np.maximum),
}
UNARY = {"relax.negative": (R.negative, np.negative), "relax.abs": (R.abs, np.abs)}


def open_session(function: Function, *, share: bool = True) -> EditSession:
    """A session on the only block of ``function``."""
    (block,) = function.body.blocks
    names = NameSupply([*(p.name_hint for p in function.params), *(b.var.name_hint for b in block)])
    outputs = [var for var in leaves_of(function.body.body) if isinstance(var, Var)]
    return EditSession(block, {}, outputs, names.fresh, share=share)


def emitted(session: EditSession, function: Function) -> Function:
    """``function`` with its block as the session has it."""
    renames: dict[Var, Var] = {}
    block = DataflowBlock(Emission(session, renames).run())
    fields = [renames.get(var, var) for var in leaves_of(function.body.body)]
    return function.with_body(SeqExpr([block], Tuple(fields)))


def variables(function: Function) -> dict[str, Var]:
    return {binding.var.name_hint: binding.var for block in function.body.blocks for binding in block}


@R.function
def straight(x: R.Tensor((2, 3), "int32"), y: R.Tensor((2, 3), "int32")):
    with R.dataflow():
        a = R.add(x, y)
        b = R.negative(a)
        c = R.abs(b)
        d = R.maximum(c, a)
        R.output(d)
    return (d,)


# --- edits


def test_a_replaced_value_takes_what_only_it_used_with_it() -> None:
    session = open_session(straight)
    v = variables(straight)
    session.replace(v["d"], R.negative(v["a"]))
    assert list(session.definitions) == [v["a"], v["d"]]
    assert session.users[v["a"]] == {v["d"]: None}
    assert [b.var.name_hint for b in emitted(session, straight).body.blocks[0]] == ["a", "d"]


def test_a_chain_of_unused_values_goes_as_far_as_an_output() -> None:
    session = open_session(straight)
    v = variables(straight)
    session.replace(v["d"], straight.params[0])
    assert list(session.definitions) == [v["d"]]
    session.drop_unused([v["d"]])
    assert list(session.definitions) == [v["d"]]


def test_users_need_no_edit_when_the_value_they_use_gets_another() -> None:
    session = open_session(straight)
    v = variables(straight)
    before = session.definitions[v["b"]]
    session.replace(v["a"], R.subtract(*straight.params))
    assert session.definitions[v["b"]] is before
    x, y = INPUTS
    assert_same_bits([np.maximum(np.abs(-(x - y)), x - y)], run(emitted(session, straight), INPUTS))


def test_an_added_value_that_is_there_already_is_the_one_that_is_there() -> None:
    v = variables(straight)
    x, y = straight.params
    for share, same in ((True, True), (False, False)):
        session = open_session(straight, share=share)
        assert (session.add_value(R.add(x, y), "new", ()) is v["a"]) is same


def test_an_alias_that_an_edit_makes_is_written_out_as_what_it_stands_for() -> None:
    session = open_session(straight)
    v = variables(straight)
    session.replace(v["b"], straight.params[0])
    after = emitted(session, straight)
    assert [b.var.name_hint for b in after.body.blocks[0]] == ["a", "c", "d"]
    x, y = INPUTS
    assert_same_bits([np.maximum(np.abs(x), x + y)], run(after, INPUTS))


def test_the_original_bindings_come_out_as_the_same_objects() -> None:
    session = open_session(straight)
    bindings = Emission(session, {}).run()
    assert all(new is old for new, old in zip(bindings, straight.body.blocks[0], strict=True))


def test_a_value_that_a_replacement_needs_from_further_down_comes_first() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "int32"), y: R.Tensor((2, 3), "int32")):
        with R.dataflow():
            early = R.negative(x)
            user = R.abs(early)
            late = R.add(x, y)
            out = R.add(user, late)
            R.output(out)
        return (out,)

    session = open_session(before)
    v = variables(before)
    session.replace(v["early"], R.negative(v["late"]))
    assert session.position[v["late"]] < session.position[v["early"]] < session.position[v["user"]]
    assert session.position[v["user"]] < session.position[v["out"]]
    after = emitted(session, before)
    assert [b.var.name_hint for b in after.body.blocks[0]] == ["late", "early", "user", "out"]
    x, y = INPUTS
    assert_same_bits([np.abs(-(x + y)) + (x + y)], run(after, INPUTS))


# --- cycles and dependence


def test_a_cycle_is_found_and_given_as_a_closed_path() -> None:
    session = open_session(straight)
    v = variables(straight)
    assert session.find_cycle({v["a"]: R.negative(v["d"])}, {}) == [v["a"], v["d"], v["c"], v["b"], v["a"]]
    assert session.find_cycle({v["a"]: R.negative(v["a"])}, {}) == [v["a"], v["a"]]
    assert session.find_cycle({v["d"]: R.negative(v["a"])}, {}) is None


def test_a_cycle_through_two_edits_is_found_though_neither_makes_one_alone() -> None:
    session = open_session(straight)
    v = variables(straight)
    x, y = straight.params
    # d no longer needs c, so b may use d; unless d needs b itself.
    assert session.find_cycle({v["d"]: R.add(x, y), v["b"]: R.negative(v["d"])}, {}) is None
    assert session.find_cycle({v["d"]: R.add(x, v["b"]), v["b"]: R.negative(v["d"])}, {}) is not None


@pytest.mark.parametrize(
    ("value", "others", "expected"), [("d", "a", True), ("c", "ab", True), ("a", "bcd", False), ("b", "d", False)]
)
def test_depends_on_follows_operands_all_the_way(value: str, others: str, expected: bool) -> None:
    session = open_session(straight)
    v = variables(straight)
    assert session.depends_on(v[value], [v[name] for name in others]) is expected


def test_a_cycle_through_100_000_values_is_found() -> None:
    x = Var("x", TYPE)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            chain = [builder.emit(R.abs(x))]
            for _ in range(100_000):
                chain.append(builder.emit(R.negative(chain[-1])))
            result = builder.emit_output(chain[-1])
        builder.emit_func_output([result])
    session = open_session(builder.get()["main"])
    cycle = session.find_cycle({chain[0]: R.abs(chain[-1])}, {})
    assert cycle is not None
    assert len(cycle) == 100_002
    assert session.depends_on(chain[-1], [chain[0]])


# --- random sequences of edits, held against a model


def _random_value(random: Random, operands: list[Var]) -> Expr:
    if random.random() < 0.15:
        return random.choice(operands)
    if random.random() < 0.4:
        return random.choice(list(UNARY.values()))[0](random.choice(operands))
    return random.choice(list(BINARY.values()))[0](random.choice(operands), random.choice(operands))


def _random_function(random: Random, size: int) -> Function:
    x, y = Var("x", TYPE), Var("y", TYPE)
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            known = [x, y]
            for _ in range(size):
                known.append(builder.emit(_random_value(random, known)))
            results = [builder.emit_output(R.abs(var)) for var in random.sample(known, 2)]
        builder.emit_func_output(results)
    return builder.get()["main"]


def _is_cyclic(model: Mapping[Var, Expr]) -> bool:
    """By taking away what depends on nothing that is left, again and again."""
    left = dict(model)
    while left:
        ready = [var for var, value in left.items() if not any(leaf in left for leaf in leaves_of(value))]
        if not ready:
            return True
        for var in ready:
            del left[var]
    return False


def _evaluate(model: Mapping[Var, Expr], inputs: Mapping[Var, np.ndarray], outputs: list[Var]) -> list[np.ndarray]:
    values = dict(inputs)
    while any(var not in values for var in outputs):
        known = len(values)
        for var, value in model.items():
            operands = list(leaves_of(value))
            if var in values or any(leaf not in values for leaf in operands):
                continue
            found = [values[leaf] for leaf in operands]
            values[var] = {**BINARY, **UNARY}[value.op.name][1](*found) if isinstance(value, Call) else found[0]
        assert len(values) > known, "the model has a value that cannot be computed"
    return [values[var] for var in outputs]


def _check_bookkeeping(session: EditSession, outputs: list[Var]) -> None:
    users: dict[Expr, set[Var]] = {}
    for var, value in session.definitions.items():
        for leaf in leaves_of(value):
            users.setdefault(leaf, set()).add(var)
            if leaf in session.definitions:
                assert session.position[leaf] < session.position[var]
        if isinstance(value, Call):
            assert var in session.by_op[value.op]
    assert {leaf: set(found) for leaf, found in session.users.items() if found} == users
    for op, found in session.by_op.items():
        assert all(session.definitions[var].op is op for var in found)
    assert all(var in session.definitions for var in outputs)


@given(st.randoms(use_true_random=False), st.integers(1, 25), st.integers(1, 30), st.booleans())
def test_after_any_edits_the_block_is_ordered_well_formed_and_worth_what_a_naive_rebuild_is(
    random: Random, size: int, edits: int, share: bool
) -> None:
    function = _random_function(random, size)
    session = open_session(function, share=share)
    model = {b.var: b.value for b in function.body.blocks[0]}
    outputs = [var for var in leaves_of(function.body.body) if isinstance(var, Var)]
    for _ in range(edits):
        alive = [*function.params, *session.definitions]
        var = random.choice(list(session.definitions))
        # Two levels: the inner value is added to the block, or shared with one that is there.
        inner = session.add_value(R.add(random.choice(alive), random.choice(alive)), "inner", ())
        value = _random_value(random, [*alive, inner])
        if inner not in alive:
            model[inner] = session.definitions[inner]  # a value that was dropped before may come back in another form
        wanted = {**{v: session.definitions[v] for v in session.definitions}, var: value}
        cycle = session.find_cycle({var: value}, {})
        assert (cycle is not None) is _is_cyclic(wanted)
        assert session.depends_on(inner, [var]) is _depends(session.definitions, inner, var)
        if cycle is None:
            model[var] = value
            session.replace(var, value)
        session.drop_unused([inner])
        _check_bookkeeping(session, outputs)
    after = emitted(session, function)
    assert well_formed(after)
    inputs = dict(zip(function.params, INPUTS, strict=True))
    assert_same_bits(_evaluate(model, inputs, outputs), run(after, INPUTS))
    used = {leaf for binding in after.body.blocks[0] for leaf in leaves_of(binding.value)}
    assert all(b.var in used or type(b.var) is not DataflowVar for b in after.body.blocks[0])


def _depends(definitions: Mapping[Var, Expr], value: Var, other: Var) -> bool:
    seen: set[Expr] = set()
    pending: list[Expr] = list(leaves_of(definitions[value]))
    while pending:
        leaf = pending.pop()
        if leaf not in seen:
            seen.add(leaf)
            pending.extend(leaves_of(definitions[leaf]) if leaf in definitions else ())
    return other in seen
