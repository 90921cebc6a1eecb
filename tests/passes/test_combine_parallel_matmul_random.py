"""CombineParallelMatmul on random programs full of matmuls with shared left sides, odd biases and crossing needs."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.analysis import well_formed
from regraft.ir import BlockBuilder, Function, OpTypeError, TensorType, Var
from regraft.script import relax as R
from regraft.testing import assert_same_values
from regraft.transform import CombineParallelMatmul


class _Writer:
    """Writes one program: ``lefts`` are multiplied again and again, ``values`` are what there is so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.builder = BlockBuilder()
        self.params: list[Var] = []
        self.lefts = [self.parameter(2, 3), self.parameter(3, 3), self.parameter(5, 2, 3), self.parameter(3)]
        self.values: list[Var] = []

    def parameter(self, *shape: int) -> Var:
        self.params.append(Var(f"p{len(self.params)}", TensorType(shape, "float32")))
        return self.params[-1]

    def weight(self) -> Var:
        """A right side: of any rank, of its own or taken again, or computed from an earlier result."""
        kind = self.random.random()
        if kind < 0.2 or not self.values:
            return self.parameter(3, self.random.randint(1, 5))
        if kind < 0.3:
            return self.parameter(5, 3, self.random.choice((2, 4)))
        if kind < 0.35:
            return self.parameter(3)
        if kind < 0.55:
            total = R.sum(self.random.choice(self.values))
            return self.builder.emit(R.broadcast_to(total, (3, self.random.randint(2, 4))))
        return self.random.choice(self.params)

    def bias(self, product: Var) -> Var:
        """A value that may be added to ``product``: fitting, scalar, of more axes, or computed from another result."""
        assert isinstance(product.ty, TensorType)
        shape = [int(dim) for dim in product.ty.shape or ()]  # type: ignore[arg-type]
        row = shape[-1:]
        if self.random.random() < 0.25:
            return self.builder.emit(R.broadcast_to(R.sum(self.random.choice(self.values)), row))
        return self.parameter(*self.random.choice((row, row, row, [], [1], shape, [7, *shape])))

    def branch(self) -> None:
        emit = self.builder.emit
        try:
            value = emit(R.matmul(self.random.choice(self.lefts), self.weight()))
        except OpTypeError:
            return
        self.values.append(value)
        if self.random.random() < 0.6:
            bias = self.bias(value)
            value = emit(R.add(bias, value) if self.random.random() < 0.5 else R.add(value, bias))
            self.values.append(value)
        if self.random.random() < 0.5:
            value = emit(self.random.choice((R.nn.relu, R.nn.relu, R.tanh))(value))
            self.values.append(value)
        if value.ty == TensorType((3, 3), "float32"):
            self.lefts.append(value)


def fan(seed: int) -> Function:
    """A program of some 25 matmuls, a few of its values its results."""
    write = _Writer(Random(seed))
    with write.builder.function("main"):
        with write.builder.dataflow():
            for _ in range(25):
                write.branch()
            chosen = write.random.sample(write.values, min(8, len(write.values)))
            outputs = [write.builder.emit_output(R.negative(value)) for value in chosen]
        write.builder.emit_func_output(outputs, params=write.params)
    return write.builder.get()["main"]


@settings(max_examples=150)
@given(st.integers(0, 1 << 30))
def test_whatever_the_branches_are_values_stay_and_a_second_run_has_nothing_to_do(seed: int) -> None:
    before = fan(seed)
    after = CombineParallelMatmul()(before)
    well_formed(after)
    assert CombineParallelMatmul()(after) is after
    assert_same_values(before, after, rtol=1e-3, atol=1e-3, seeds=[0])
