"""The levels of `optimize`, and passes by name."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest

from regraft import transform
from regraft.passes.pipeline import LEVELS, available_passes, named_passes, pipeline
from regraft.transform import Pass, PassError


def test_each_level_runs_the_passes_of_the_one_below_it() -> None:
    names = [{one.name for one in pipeline(level)} for level in range(len(LEVELS))]
    assert all(lower <= higher for lower, higher in pairwise(names))


def test_a_level_is_the_same_by_number_by_name_and_as_text() -> None:
    for number, name in enumerate(LEVELS):
        assert repr(pipeline(number)) == repr(pipeline(name)) == repr(pipeline(str(number)))


@pytest.mark.parametrize("level", [4, -1, "fast", "", 1.5])
def test_a_level_that_does_not_exist_is_refused_with_those_that_do(level: int | str) -> None:
    with pytest.raises(PassError, match=r"there is no level .*; there are: 0 \(canonical\), 1 \(safe\)"):
        pipeline(level)


def test_a_pass_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(PassError, match=r"there is no pass 'FoldConstants'; did you mean FoldConstant?"):
        named_passes("CombineParallelMatmul,FoldConstants")


def test_every_pass_that_needs_no_arguments_can_be_asked_for_by_name() -> None:
    made: dict[str, Pass] = {}
    for name in transform.__all__:
        thing = getattr(transform, name)
        if name[0].isupper() and callable(thing) and not isinstance(thing, type):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # an older name of a pass warns
                    result = thing()
            except (TypeError, UserWarning):
                continue
            if isinstance(result, Pass):
                made[name] = result
    assert sorted(available_passes()) == sorted(made)
    assert {name: make().name for name, make in available_passes().items()} == {name: name for name in made}
