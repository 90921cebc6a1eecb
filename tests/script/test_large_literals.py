"""Large constants written out in a text: read without a syntax tree of their numbers, with the same meaning."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.script.large_literals import LONG, without_large_literals

COUNT = LONG // 4


def text_of(literal: str, dtype: str, shape: tuple[int, ...], after: str = "") -> str:
    return (
        "from regraft.script import relax as R\n\n"
        "@R.function\n"
        f'def main(x: R.Tensor({shape}, "{dtype}")):\n'
        f'    y = R.add(x, R.const({literal}, "{dtype}"))\n'
        f"    return {after or 'y'}\n"
    )


def constant(function: rx.Function) -> np.ndarray:
    return function.body.blocks[0].bindings[0].value.args[1].data.numpy()


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
def test_a_large_list_means_what_a_small_one_means(dtype: str) -> None:
    values = (np.arange(3 * COUNT) % 100 - 50).astype(dtype).reshape(3, COUNT)
    text = text_of(str(values.tolist()), dtype, values.shape)
    assert len(without_large_literals(text).values) == 1
    np.testing.assert_array_equal(constant(rx.parse(text)), values)


def test_a_list_over_several_lines_keeps_the_lines_of_errors() -> None:
    literal = "[\n" + ",\n".join(["0.5"] * COUNT * 2) + "\n]"
    text = text_of(literal, "float32", (COUNT * 2,), after="unknown")
    with pytest.raises(rx.ParseError) as caught:
        rx.parse(text)
    lines = text.split("\n")
    assert caught.value.line == len(lines) - 1
    assert "return unknown" in str(caught.value)


def test_an_error_behind_a_list_points_at_its_column() -> None:
    text = text_of(str([1.5] * COUNT), "float32", (COUNT,)).replace(
        '"float32"))\n    return', '"float32")) + nothing\n    return'
    )
    with pytest.raises(rx.ParseError) as caught:
        rx.parse(text)
    line = text.split("\n")[caught.value.line - 1]
    assert line[caught.value.column - 1 :] == "nothing"


@pytest.mark.parametrize("one", ["+1", "1.", ".5", "1_0"])
def test_numbers_that_are_no_json_are_read_as_python_writes_them(one: str) -> None:
    text = text_of(f"[{one}, " + ", ".join(["2"] * COUNT * 2) + "]", "float32", (COUNT * 2 + 1,))
    assert constant(rx.parse(text))[0] == float(one)


def test_an_integer_beyond_64_bits_is_refused_where_it_stands() -> None:
    text = text_of(f"[{2**70}, " + ", ".join(["2"] * COUNT * 2) + "]", "int64", (COUNT * 2 + 1,))
    with pytest.raises(rx.ParseError, match="beyond 64 bits"):
        rx.parse(text)


def test_a_list_inside_a_comment_or_a_string_stays_there() -> None:
    hidden = f"R.const([{'1, ' * COUNT * 2}1])"
    text = text_of("[1.0, 2.0]", "float32", (2,)).replace("    return", f"    # {hidden}\n    return")
    np.testing.assert_array_equal(constant(rx.parse(text)), [1.0, 2.0])
    quoted = (
        text_of("[1.0, 2.0]", "float32", (2,))
        .replace("def main", "def main")
        .replace("    y =", f"    '{hidden}'\n    y =")
    )
    assert [len(without_large_literals(t).values) for t in (text, quoted)] == [1, 1]


def test_brackets_without_end_are_an_error_at_once() -> None:
    with pytest.raises(rx.ParseError):
        rx.parse(text_of("[" * LONG * 2, "float32", (1,)))
    with pytest.raises(rx.ParseError):
        rx.parse(text_of("1[" * LONG * 2, "float32", (1,)))


def test_a_list_is_found_behind_however_many_others_that_do_not_end() -> None:
    whole = text_of(str([1.5] * COUNT), "float32", (COUNT,))
    [value] = without_large_literals("const(" * LONG + "\n" + whole).values.values()
    assert value == [1.5] * COUNT
    assert not without_large_literals("const([" * LONG).values
    assert not without_large_literals("const([" * LONG + "])").values


def test_bytes_of_other_constants_are_no_numbers() -> None:
    numbers = np.random.default_rng(0).normal(size=LONG).astype("float32")
    text = rx.transform.BindParams("main", {"w": numbers})(
        rx.parse(
            text_of("0.5", "float32", (LONG,))
            .replace("x:", f'w: R.Tensor(({LONG},), "float32"), x:')
            .replace('R.const(0.5, "float32")', "w")
        )
    ).script()
    assert not without_large_literals(text).values
    np.testing.assert_array_equal(constant(rx.parse(text)), numbers)
