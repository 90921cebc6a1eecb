"""Many rules over random programs: values stay, programs stay well formed, a second time changes nothing.

The rules (`algebra`) hold to the bit. Where layouts change what a sum or a matmul rounds to, programs of whole numbers
are compared to the bit, and programs of floats as far as rounding allows.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from regraft import BlockBuilder, Expr, Function, IRModule, TensorType, Var
from regraft.analysis import well_formed
from regraft.dpl import DFPattern
from regraft.reference.trials import difference
from regraft.rewrite import RuleSet
from regraft.script import relax as R
from regraft.testing import Options, programs, random_inputs, random_module
from tests.rewrite.algebra import rules
from tests.rewrite.harness import assert_same_bits, op_counts, run

RULES = rules()
WHOLE = Options(dtypes=("int32", "int64", "bool"))
UNARY = (R.negative, R.negative, R.abs, R.nn.relu, R.permute_dims, R.permute_dims, R.floor, R.ceil, R.sign)
BINARY = (R.add, R.subtract, R.maximum, R.minimum, lambda a, b: R.multiply(R.tanh(a), b))
COMPARE = (R.less, R.less_equal, R.greater)
chosen = st.lists(st.sampled_from(RULES), min_size=1, unique=True).map(RuleSet)
"""Some of the rules, in some order."""


def dense_program(random: Random, size: int) -> Function:
    """A block of ``size`` bindings of operators that the rules are about, over matrices of two shapes."""
    params = [Var(name, TensorType((2, 3), "float32")) for name in "xyz"]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            known: list[Expr] = list(params)
            flags: list[Expr] = [builder.emit(R.less(params[0], params[1]))]
            while len(known) < size + len(params):
                known.append(builder.emit(_next_value(random, builder, known, flags)))
            results = [builder.emit_output(var) for var in random.sample(known[3:], min(3, size))]
        builder.emit_func_output(results)
    return builder.get()["main"]


def _next_value(random: Random, builder: BlockBuilder, known: list[Expr], flags: list[Expr]) -> Expr:
    value = random.choice(known[-6:])
    alike = [other for other in known if other.ty == value.ty]
    kind = random.random()
    if kind < 0.5:
        return random.choice(UNARY)(value)
    if kind < 0.8:
        return random.choice(BINARY)(value, random.choice(alike[-3:]))
    if kind < 0.88:
        shape, dtype = value.ty.shape, value.ty.dtype
        neutral = (
            R.multiply(value, R.const(1, dtype)),
            R.astype(value, dtype),
            R.reshape(R.reshape(value, (6,)), shape),
            R.reshape(value, shape),
            R.squeeze(R.expand_dims(value, 0), [0]),
        )
        return random.choice(neutral)
    if kind < 0.94:
        same = [flag for flag in flags if flag.ty.shape == value.ty.shape]
        return R.where(random.choice(same), value, random.choice(alike)) if same else R.negative(value)
    flag = random.choice(flags)
    made = random.choice(COMPARE)(value, random.choice(alike))
    made = random.choice((made, R.logical_not(flag), R.logical_and(flag, flag), R.logical_or(flag, flag)))
    flags.append(builder.emit(made))
    return R.abs(value)


@given(st.randoms(use_true_random=False), st.integers(1, 40), chosen)
def test_rules_keep_the_values_of_programs_made_of_what_they_match(random: Random, size: int, some: RuleSet) -> None:
    before = dense_program(random, size)
    after = some(before)
    assert well_formed(after)
    inputs = random_inputs(before)
    found = difference(tuple(run(before, inputs)), tuple(run(after, inputs)))
    assert found is None, f"{found}\n{some!r}\n{before.script()}\n{after.script()}"


@given(programs(30, WHOLE), chosen)
def test_rules_keep_every_bit_of_random_programs_of_whole_numbers(module: IRModule, some: RuleSet) -> None:
    after = some(module)
    assert well_formed(after)
    inputs = random_inputs(module["main"])
    assert_same_bits(run(module, inputs), run(after, inputs))


@given(st.randoms(use_true_random=False), st.integers(1, 40), chosen)
def test_a_second_application_gives_the_same_object(random: Random, size: int, some: RuleSet) -> None:
    once = some(dense_program(random, size))
    assert some(once) is once


@given(programs(30), chosen)
def test_a_second_application_to_a_random_program_gives_the_same_object(module: IRModule, some: RuleSet) -> None:
    once = some(module)
    assert some(once) is once


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_rules_in_another_order_lead_to_the_same_values(random: Random, size: int) -> None:
    before = dense_program(random, size)
    inputs = random_inputs(before)
    shuffled = list(RULES)
    random.shuffle(shuffled)
    first, second = RuleSet(RULES)(before), RuleSet(shuffled)(before)
    found = difference(tuple(run(first, inputs)), tuple(run(second, inputs)))
    assert found is None, f"{found}\n{[rule.name for rule in shuffled]}\n{before.script()}"


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_sharing_computes_no_more_and_the_same(random: Random, size: int) -> None:
    before = dense_program(random, size)
    inputs = random_inputs(before)
    one_value = RuleSet([rule for rule in RULES if isinstance(rule.pattern, DFPattern)])
    shared, apart = one_value(before), one_value(before, share=False)
    assert difference(tuple(run(shared, inputs)), tuple(run(apart, inputs))) is None
    assert sum(op_counts(shared).values()) <= sum(op_counts(apart).values())


def test_the_random_programs_meet_the_rules() -> None:
    met: set[str] = set()
    for seed in range(100):
        for program in (dense_program(Random(seed), 40), random_module(seed, 60, WHOLE)):
            for rule in RULES:
                if rule.name not in met:
                    rule(program, listener=lambda event: met.add(event.rule) if event.reason is None else None)
    assert {rule.name for rule in RULES} - met == set()
