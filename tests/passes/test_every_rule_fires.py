"""Every rule of the passes: it fires on programs drawn from its own pattern or form, and changes no value there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest

import regraft as rx
from regraft import Function, IRModule, Rule
from regraft.dpl import PatternMatchingRewriter
from regraft.gradient.simplify import GRADIENT_RULES
from regraft.ir import BlockBuilder, Expr
from regraft.passes.pipeline import pipeline
from regraft.passes.torch_forms import TorchForms
from regraft.script import relax as R
from regraft.testing import check_rule
from regraft.transform import PassContext, PassInstrument
from tests.passes.harness import module_of
from tests.passes.test_every_pass_fires import CASES

Body = Callable[[BlockBuilder, Expr], Expr]


class Collected(PassInstrument):
    """The rules that passes apply, by name, each time with the program that they are applied to."""

    def __init__(self) -> None:
        self.found: dict[str, list[tuple[Rule, Function | IRModule]]] = {}

    def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
        for rule in rules.rules():
            self.found.setdefault(rule.name, []).append((rule, program))


def collected() -> dict[str, list[tuple[Rule, Function | IRModule]]]:
    """The rules of passes that have a program made for them, of the highest level, for PyTorch, and of gradients."""
    instrument = Collected()
    with PassContext(instruments=[instrument]):
        for make, text in CASES.values():
            make()(rx.parse(text))
            pipeline("aggressive")(rx.parse(text))
        TorchForms()(rx.parse(CASES["FuseAttention"][1]))
    for rule in GRADIENT_RULES.rules():
        instrument.found[rule.name] = [(rule, IRModule({}))]
    return instrument.found


RULES = collected()


def numbers(random: Random, *shape: int) -> Expr:
    return rx.const(np.random.default_rng(random.getrandbits(32)).standard_normal(shape).astype("float32"))


def sizes(random: Random, count: int) -> tuple[int, ...]:
    return tuple(random.randint(2, 5) for _ in range(count))


def gelu(random: Random) -> tuple[tuple[int, ...], Body]:
    erf = lambda x: R.erf(R.divide(x, R.const(math.sqrt(2), "float32")))  # noqa: E731
    one, half = R.const(1.0, "float32"), R.const(0.5, "float32")
    orders: list[Body] = [
        lambda _, x: R.multiply(R.multiply(x, R.add(erf(x), one)), half),
        lambda _, x: R.multiply(R.multiply(x, half), R.add(one, erf(x))),
    ]
    return sizes(random, random.randint(1, 4)), random.choice(orders)


def gelu_tanh(random: Random) -> tuple[tuple[int, ...], Body]:
    def body(_: BlockBuilder, x: Expr) -> Expr:
        cube = R.multiply(R.const(0.044715, "float32"), R.power(x, R.const(3.0, "float32")))
        inner = R.multiply(R.const(math.sqrt(2 / math.pi), "float32"), R.add(x, cube))
        return R.multiply(R.multiply(R.const(0.5, "float32"), x), R.add(R.const(1.0, "float32"), R.tanh(inner)))

    return sizes(random, random.randint(1, 4)), body


def limited_to_six(x: Expr) -> Expr:
    return R.clip(R.add(x, R.const(3.0, "float32")), 0.0, 6.0)


def hardsigmoid(random: Random) -> tuple[tuple[int, ...], Body]:
    return sizes(random, random.randint(1, 4)), lambda _, x: R.divide(limited_to_six(x), R.const(6.0, "float32"))


def hardswish(random: Random) -> tuple[tuple[int, ...], Body]:
    sixth = R.const(1 / 6, "float32")
    orders: list[Body] = [
        lambda _, x: R.multiply(R.multiply(x, limited_to_six(x)), sixth),
        lambda _, x: R.multiply(R.multiply(x, sixth), limited_to_six(x)),
    ]
    return sizes(random, random.randint(1, 4)), random.choice(orders)


def hardswish_by_gate(random: Random) -> tuple[tuple[int, ...], Body]:
    return sizes(random, random.randint(1, 4)), lambda _, x: R.multiply(x, R.nn.hardsigmoid(x))


def softmax(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, random.randint(1, 4))
    axis = random.randrange(len(shape))
    return shape, lambda _, x: R.nn.softmax(R.subtract(x, R.max(x, [axis], keepdims=True)), axis)


def spread(builder: BlockBuilder, x: Expr) -> Expr:
    mean = builder.emit(R.mean(R.power(x, R.const(2.0, "float32")), [-1], keepdims=True))
    return R.sqrt(R.add(mean, R.const(1e-5, "float32")))


def mean(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, 3)
    return shape, lambda _, x: R.divide(R.sum(x, [0, 2]), R.const(float(shape[0] * shape[2]), "float32"))


def layer_norm(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, random.randint(2, 4))

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        centred = builder.emit(R.subtract(x, R.mean(x, [-1], keepdims=True)))
        normal = R.multiply(R.divide(centred, spread(builder, centred)), numbers(random, shape[-1]))
        return R.add(normal, numbers(random, shape[-1]))

    return shape, body


def rms_norm(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, random.randint(2, 4))
    return shape, lambda b, x: R.multiply(R.divide(x, spread(b, x)), numbers(random, shape[-1]))


def group_norm(random: Random) -> tuple[tuple[int, ...], Body]:
    groups, each = sizes(random, 2)
    shape = (*sizes(random, 1), groups * each, *sizes(random, 2))

    def body(_: BlockBuilder, x: Expr) -> Expr:
        grouped = R.reshape(x, (shape[0], groups, -1))
        ones, zeros = (rx.const(make(groups, "float32")) for make in (np.ones, np.zeros))
        normal = R.nn.instance_norm(grouped, ones, zeros, channel_axis=1, axes=[2])
        factor, summand = (numbers(random, groups * each, 1, 1) for _ in range(2))
        return R.add(R.multiply(R.reshape(normal, shape), factor), summand)

    return shape, body


def pad_in_convolution(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = (1, *sizes(random, 3))
    widths = (0, 0, 0, 0, *[random.randint(1, 3) for _ in range(4)])
    return shape, lambda _, x: R.nn.conv2d(
        R.nn.pad(x, widths), numbers(random, 2, shape[1], 2, 2), padding=(1, 0, 0, 1)
    )


def there_and_back(random: Random, permuted: bool) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, 3)

    def body(_: BlockBuilder, x: Expr) -> Expr:
        there = R.permute_dims(x, (2, 0, 1)) if permuted else R.reshape(x, (-1, shape[2]))
        turned = R.tanh(R.negative(there))
        return R.permute_dims(turned, (1, 2, 0)) if permuted else R.reshape(turned, shape)

    return shape, body


def share_repeated_heads(random: Random) -> tuple[tuple[int, ...], Body]:
    batch, rows, heads, size = sizes(random, 4)
    times = random.randint(2, 3)

    def body(_: BlockBuilder, x: Expr) -> Expr:
        wide = R.broadcast_to(R.expand_dims(x, 3), (batch, rows, heads, times, size))
        repeated = R.reshape(wide, (batch, rows, heads * times, size))
        return R.nn.attention(numbers(random, batch, 3, heads * times, size), repeated, repeated)

    return (batch, rows, heads, size), body


def constant_bias(random: Random) -> tuple[tuple[int, ...], Body]:
    batch, rows, heads, size = sizes(random, 4)
    hidden = random.choice((-1e38, float("-inf")))
    mask = np.where(np.tri(rows, dtype=bool), 0.0, hidden).astype("float32")[None, None]
    return (batch, rows, heads, size), lambda _, x: R.nn.attention_bias(R.tanh(x), x, x, rx.const(mask))


def zero_bias(random: Random) -> tuple[tuple[int, ...], Body]:
    batch, rows, heads, size = sizes(random, 4)

    def body(_: BlockBuilder, x: Expr) -> Expr:
        places = R.reshape(R.arange(0, rows, 1, "int64"), (1, 1, rows, 1))
        seen = R.broadcast_to(R.greater_equal(places, rx.const(0, "int64")), (1, 1, rows, rows))
        hidden = R.where(seen, rx.const(0.0, "float32"), rx.const(float("-inf"), "float32"))
        return R.nn.attention_bias(R.tanh(x), x, x, hidden)

    return (batch, rows, heads, size), body


def convolution_with_bias(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = (*sizes(random, 2), 5, 5)

    def body(_: BlockBuilder, x: Expr) -> Expr:
        return R.add(R.nn.conv2d(x, numbers(random, 3, shape[1], 2, 2), padding=(1, 0, 1, 0)), numbers(random, 3, 1, 1))

    return shape, body


def packed_linear_with_bias(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, random.randint(2, 3))
    return shape, lambda _, x: R.add(R.matmul(x, numbers(random, shape[-1], 4)), numbers(random, 4))


def quantize_once(random: Random) -> tuple[tuple[int, ...], Body]:
    shape = sizes(random, 3)
    axis = random.choice((1, 1 - len(shape)))
    scale = np.random.default_rng(random.getrandbits(32)).uniform(1e-3, 0.1, shape[1]).astype("float32")
    zero_point = np.arange(shape[1], dtype="uint8")

    def body(_: BlockBuilder, x: Expr) -> Expr:
        def along(axis: int) -> tuple[Expr, Expr, int]:
            return rx.const(scale), rx.const(zero_point), axis

        decoded = R.dequantize(R.quantize(x, *along(1), "uint8"), *along(1))
        return R.dequantize(R.quantize(decoded, *along(axis), "uint8"), *along(1))

    return shape, body


WRITTEN: dict[str, Callable[[Random], tuple[tuple[int, ...], Body]]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    "hardswish_by_gate": hardswish_by_gate,
    "softmax": softmax,
    "mean": mean,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "pad_in_convolution": pad_in_convolution,
    "reshape_there_and_back": lambda random: there_and_back(random, permuted=False),
    "permute_there_and_back": lambda random: there_and_back(random, permuted=True),
    "share_repeated_heads": share_repeated_heads,
    "constant_bias": constant_bias,
    "zero_bias": zero_bias,
    "convolution_with_bias": convolution_with_bias,
    "packed_linear_with_bias": packed_linear_with_bias,
    "quantize_once": quantize_once,
}
"""Forms of so many calls that what is drawn from the pattern is hardly ever one of them."""
OF_THEIR_PROGRAM = ("fold_batchnorm_to_conv2d", "fuse_attention")
"""Rules that ask what a weight is in the program that they were made for, or that read on beyond their pattern."""


def drawn(name: str, count: int) -> Iterator[IRModule]:
    for seed in range(count):
        yield module_of(*WRITTEN[name](Random(seed)))


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_a_pass_fires_on_programs_drawn_for_it_and_keeps_their_values(name: str) -> None:
    uses = RULES[name]
    if name in WRITTEN:
        assert check_rule(uses[0][0], examples=0, near_misses=0, programs=drawn(name, 5)).rewrites >= 5
    elif name in OF_THEIR_PROGRAM:
        fired = 0
        for rule, program in uses:
            if rule(program) is not program:
                fired += check_rule(rule, examples=0, near_misses=0, programs=[program]).rewrites
        assert fired
    else:
        assert check_rule(uses[0][0], examples=5, near_misses=3).rewrites >= 4


def test_no_form_is_written_for_a_rule_that_is_gone() -> None:
    assert RULES.keys() >= {*WRITTEN, *OF_THEIR_PROGRAM}
