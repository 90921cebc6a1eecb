"""Every operator that computes floating numbers from floating numbers has a gradient, stops it, or says why not."""

from __future__ import annotations

from regraft.gradient import has_gradient
from regraft.ir import Op, Trait

WITHOUT = {
    "call_builtin_with_ctx": "a function outside of the program, whose derivative is not known",
    "call_py_func": "a function of Python, whose derivative is not known",
    "call_dps_packed": "a function outside of the program, whose derivative is not known",
    "call_inplace_packed": "a function outside of the program, whose derivative is not known",
    "call_pure_packed": "a function outside of the program, whose derivative is not known",
    "invoke_closure": "a call of a function value: write what it computes in the function itself",
    "invoke_pure_closure": "a call of a function value: write what it computes in the function itself",
    "make_closure": "a function value: write what it computes in the function itself",
    "assert_op": "gives no tensor",
    "print": "gives no tensor",
    "null_value": "gives no tensor",
}
ELSEWHERE = ("relax.nn.", "relax.image.", "relax.grad.", "relax.quantize", "relax.dequantize")


def _operators() -> list[Op]:
    return [op for op in Op.all() if op.name.startswith("relax.") and not op.name.startswith(ELSEWHERE)]


def test_every_operator_has_a_gradient_or_stops_it_or_is_explained() -> None:
    missing = [
        op.name
        for op in _operators()
        if not has_gradient(op)
        and Trait.STOPS_GRADIENT not in op.traits
        and op.name.removeprefix("relax.") not in WITHOUT
    ]
    assert missing == []


def test_nothing_is_explained_that_needs_no_explanation() -> None:
    names = {op.name.removeprefix("relax.") for op in _operators() if not has_gradient(op)}
    assert set(WITHOUT) <= names


def test_no_operator_both_stops_the_gradient_and_has_one() -> None:
    assert [op.name for op in Op.all() if op.gradient is not None and Trait.STOPS_GRADIENT in op.traits] == []
