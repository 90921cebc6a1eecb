"""Attention whose operands come in any layout, by permutations, reshapes and repetition, and its result too."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

import regraft as rx
from regraft.transform import FuseAttention, op_counts
from tests.kit import assert_close

SIZES = {"b": 2, "g": 3, "r": 4, "s": 5, "t": 7, "d": 6, "e": 9}
"""Batch, groups of heads, heads of a group, queries, keys, and the sizes of keys and of values."""

LEADS = (["bgr"], ["b", "gr"], ["bg", "r"], ["b", "g", "r"])
"""What the leading axes of the scores may be made of."""


def size(letters: str) -> int:
    return int(np.prod([SIZES[letter] for letter in letters]))


def sizes(groups: Sequence[str]) -> list[int]:
    return [size(group) for group in groups]


class Writer:
    """Writes one attention; each operand is a parameter in a layout of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.params: list[str] = []

    def let(self, text: str) -> str:
        self.lines.append(f"        v{len(self.lines)} = {text}")
        return f"v{len(self.lines) - 1}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def reshaped(self, x: str, groups: Sequence[str]) -> str:
        return self.let(f"R.reshape({x}, R.shape({sizes(groups)}))")

    def param(self, groups: Sequence[int], dtype: str = "float32") -> str:
        self.params.append(f'p{len(self.params)}: R.Tensor({tuple(groups)}, "{dtype}")')
        return f"p{len(self.params) - 1}"

    def source(self, wanted: Sequence[str]) -> str:
        """A parameter of any layout, brought to the axes ``wanted``."""
        letters = list("".join(wanted))
        self.random.shuffle(letters)
        have: list[str] = []
        for letter in letters:
            if have and self.chance(0.3):
                have[-1] += letter
            else:
                have.append(letter)
        x = self.param(sizes(have))
        x = self.reshaped(x, letters) if len(have) != len(letters) else x
        order = [letters.index(letter) for letter in "".join(wanted)]
        x = self.let(f"R.permute_dims({x}, axes={order})")
        return self.reshaped(x, wanted) if len(wanted) != len(letters) else x

    def keys(self, lead: Sequence[str], last: str, *, shared: bool) -> str:
        """Keys or values, which the heads of a group have in common if ``shared``."""
        if not shared:
            return self.source([*lead, "t", last])
        x = self.source(["b", "g", "t", last])
        x = self.let(f"R.expand_dims({x}, axis=[2])")
        x = self.let(f"R.broadcast_to({x}, R.shape({sizes(['b', 'g', 'r', 't', last])}))")
        return self.reshaped(x, [*lead, "t", last]) if len(lead) != 3 else x

    def program(self) -> str:
        lead, shared = self.random.choice(LEADS), self.chance(0.4)
        query, key, value = self.source([*lead, "s", "d"]), *[self.keys(lead, x, shared=shared) for x in "de"]
        count = len(lead)
        turned = self.let(f"R.permute_dims({key}, axes={[*range(count), count + 1, count]})")
        scores = self.let(f'R.multiply(R.matmul({query}, {turned}), R.const(0.3, "float32"))')
        if self.chance(0.5):
            shape = [*[each if self.chance(0.5) else 1 for each in sizes([*lead, "s"])], SIZES["t"]]
            mask = self.param(shape, "int32")
            scores = self.let(f'R.add({scores}, R.astype({mask}, "float32"))')
        result = self.let(f"R.matmul(R.nn.softmax({scores}), {value})")
        outputs = [self.result(result, [*lead, "s", "e"]) for _ in range(self.random.choice([1, 2]))]
        body = "\n".join(self.lines)
        head = f"@R.function\ndef main({', '.join(self.params)}):\n    with R.dataflow():\n{body}\n"
        return f"{head}        R.output({', '.join(outputs)})\n    return {', '.join(outputs)}\n"

    def result(self, x: str, groups: Sequence[str]) -> str:
        """The result, or it with its heads behind the queries, or in any other order."""
        letters = list("".join(groups))
        if self.chance(0.8):
            x = self.reshaped(x, letters) if len(groups) != len(letters) else x
            wanted = list("bsgre")
            if self.chance(0.3):
                self.random.shuffle(wanted)
            x = self.let(f"R.permute_dims({x}, axes={[letters.index(letter) for letter in wanted]})")
            x = self.reshaped(x, ["b", "s", "gre"]) if wanted == list("bsgre") else x
        return self.let(f"R.abs({x})")


@pytest.mark.parametrize("seed", range(60))
def test_attention_in_any_layout_is_fused_and_computes_the_same(seed: int) -> None:
    before = rx.parse(Writer(seed).program())
    after = FuseAttention()(before)
    counts = op_counts(after)
    assert counts["relax.nn.softmax"] == counts["relax.matmul"] == 0
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(-3, 3, param.ty.shape).astype(param.ty.dtype)
        if param.ty.dtype == "int32"
        else rng.standard_normal(param.ty.shape).astype("float32")
        for param in before.params
    ]
    found, expected = (rx.build(one, "numpy", verify_types=True)["main"](*arrays) for one in (after, before))
    for ours, theirs in pairs(found, expected):
        assert_close(ours, theirs)


def pairs(found: object, expected: object) -> list[tuple[np.ndarray, np.ndarray]]:
    ours, theirs = (one if isinstance(one, list | tuple) else [one] for one in (found, expected))
    return [(np.asarray(a), np.asarray(b)) for a, b in zip(ours, theirs, strict=True)]
