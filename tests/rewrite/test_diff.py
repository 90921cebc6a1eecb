"""The difference of two programs, as people read them."""

from __future__ import annotations

import regraft as rx
from regraft.script import relax as R


@R.function
def program(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.power(a, R.const(2.0))
        R.output(b)
    return b


def test_a_diff_shows_the_lines_that_changed_and_no_others() -> None:
    square = rx.rule(lambda x: R.power(x, 2.0), lambda x: R.square(x))
    shown = rx.diff(program, square(program), context=0)
    assert [line[0] for line in str(shown).splitlines()[3:]] == ["-", "+"]
    assert "R.power" in shown.lines[3]
    assert "R.square" in shown.lines[4]


def test_two_programs_that_print_the_same_have_no_diff() -> None:
    same = rx.diff(program, rx.parse(program.script()))
    assert not same
    assert str(same) == "the programs are the same"
