"""Each program of `programs/` comes out of its passes as it comes out of Relax's."""

from __future__ import annotations

import pytest

from .beside_tvm import PROGRAMS, Program, assert_alike, programs_of

pytestmark = pytest.mark.filterwarnings("ignore")

_ALL = [
    pytest.param(program, id=f"{path.stem}: {program.title}")
    for path in sorted(PROGRAMS.glob("*.txt"))
    for program in programs_of(path)
]


@pytest.mark.parametrize("program", _ALL)
def test_a_program_comes_out_as_it_does_in_relax(program: Program) -> None:
    assert_alike(program.text, program)
