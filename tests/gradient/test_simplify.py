"""The simplifier: the seed's three cases come out as its comment says, and what is no transpose is left alone."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.gradient import GRADIENT_RULES, Gradient, simplify_gradient
from regraft.ir import BlockBuilder, Function, IRModule, TensorType, Var
from regraft.rewrite import rewrite
from regraft.script import relax as R
from tests.gradient.checks import run


def forward(build, *shapes) -> IRModule:
    params = [Var(name, TensorType(shape, "float32")) for name, shape in zip("ab", shapes, strict=False)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit(build(*params), "out")
            gv = builder.emit_output(R.sum(out), "gv")
        builder.emit_func_output(gv)
    return builder.get()


def backward_lines(module: IRModule) -> dict[str, str]:
    """The values of the backward bindings, with the names of inner transposes spelled out."""
    after = Gradient("main")(module)
    well_formed(after)
    values: dict[str, str] = {}
    for block in after["main_adjoint"].body.blocks:
        for binding in block:
            text = repr(binding.value).replace("R.", "")
            for name in sorted(values, key=len, reverse=True):
                if values[name].startswith("permute_dims"):
                    text = text.replace(f"({name},", f"({values[name]},").replace(f" {name},", f" {values[name]},")
            values[binding.var.name_hint] = (
                text.replace(", axes=[1, 0]", "").replace(", axes=None", "").replace(", out_dtype=None", "")
            )
    return values


def test_a_product_with_a_transposed_right_side_has_the_gradients_of_the_seed() -> None:
    lines = backward_lines(forward(lambda a, b: R.matmul(a, R.permute_dims(b)), (2, 3), (4, 3)))
    assert lines["a_adjoint"] == "matmul(out_adjoint, b)"
    assert lines["b_adjoint"] == "matmul(permute_dims(out_adjoint), a)"


def test_a_product_with_a_transposed_left_side_has_the_gradients_of_the_seed() -> None:
    lines = backward_lines(forward(lambda a, b: R.matmul(R.permute_dims(a), b), (3, 2), (3, 4)))
    assert lines["a_adjoint"] == "matmul(b, permute_dims(out_adjoint))"
    assert lines["b_adjoint"] == "matmul(a, out_adjoint)"


def test_a_product_with_both_sides_transposed_has_the_gradients_of_the_seed() -> None:
    lines = backward_lines(forward(lambda a, b: R.matmul(R.permute_dims(a), R.permute_dims(b)), (3, 2), (4, 3)))
    assert lines["a_adjoint"] == "matmul(permute_dims(b), permute_dims(out_adjoint))"
    assert lines["b_adjoint"] == "matmul(permute_dims(out_adjoint), permute_dims(a))"


def function(build, *shapes, extra=None) -> Function:
    params = [Var(name, TensorType(shape, "float32")) for name, shape in zip("ab", shapes, strict=False)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(build(builder, *params), "out")
        builder.emit_func_output(out)
    return builder.get()["main"]


def swapped(x):
    ndim = x.ty.ndim
    return R.permute_dims(x, [*range(ndim - 2), ndim - 1, ndim - 2])


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3), [0, 1]), ((2, 3, 4), [1, 0, 2]), ((2, 3, 4), [0, 1, 2]), ((2, 3, 4), None), ((2, 3, 4), [2, 1, 0])],
    ids=str,
)
def test_an_identity_or_another_permutation_is_no_transpose(shape: tuple, axes: list[int] | None) -> None:
    twice = function(lambda bb, a: R.permute_dims(R.permute_dims(a, axes), axes), shape)
    assert simplify_gradient(twice) is twice


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3), None), ((2, 3), [1, 0]), ((2, 3), [-1, -2]), ((2, 3, 4), [0, 2, 1]), ((2, 3, 4), [0, -1, -2])],
    ids=str,
)
def test_two_swaps_of_the_last_two_axes_cancel_however_they_are_written(shape: tuple, axes: list[int] | None) -> None:
    twice = function(lambda bb, a: R.sin(R.permute_dims(R.permute_dims(a, axes), axes)), shape)
    assert "permute_dims" not in simplify_gradient(twice).script()


def test_a_reversal_of_unknown_rank_is_no_transpose() -> None:
    x = Var("x", TensorType(None, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(R.permute_dims(R.permute_dims(x)))
        builder.emit_func_output(out)
    main = builder.get()["main"]
    assert simplify_gradient(main) is main


@pytest.mark.parametrize(
    "shapes",
    [((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4))],
    ids=str,
)
def test_a_product_with_a_vector_or_of_batches_that_broadcast_is_left_alone(shapes: tuple) -> None:
    main = function(lambda bb, a, b: swapped(R.matmul(a, b)), *shapes)
    assert simplify_gradient(main) is main


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (6, 5, 3, 4))], ids=str)
def test_a_transposed_product_becomes_the_product_of_the_transposes(shapes: tuple) -> None:
    main = function(lambda bb, a, b: swapped(R.matmul(a, swapped(bb.emit(swapped(b))), out_dtype="float64")), *shapes)
    after = simplify_gradient(main)
    text = after.script()
    assert 'out_dtype="float64"' in text
    assert text.count("permute_dims") == 2
    arrays = [np.random.default_rng(0).uniform(size=shape).astype("f4") for shape in shapes]
    np.testing.assert_allclose(
        run(IRModule({"main": after}), "main", arrays), run(IRModule({"main": main}), "main", arrays), rtol=1e-6
    )


def test_a_transpose_that_is_there_is_undone_rather_than_done_again() -> None:
    main = function(lambda bb, a, b: R.permute_dims(R.matmul(R.permute_dims(a), R.permute_dims(b))), (3, 2), (4, 3))
    after = simplify_gradient(main)
    assert "permute_dims" not in after.script()
    assert "R.matmul(b, a" in after.script()


def test_a_product_that_is_used_elsewhere_is_not_computed_twice() -> None:
    def build(bb, a, b):
        product = bb.emit(R.matmul(a, b))
        return R.concat([R.permute_dims(product), R.permute_dims(R.sin(product))], 0)

    main = function(build, (2, 3), (3, 4))
    assert simplify_gradient(main) is main


def test_the_rules_compose_with_others_and_apply_to_any_program() -> None:
    main = function(lambda bb, a: R.permute_dims(R.permute_dims(a)), (2, 3))
    assert "permute_dims" not in rewrite(main, GRADIENT_RULES | GRADIENT_RULES).script()


def test_a_gradient_that_is_not_simplified_keeps_the_transposes_of_its_rules() -> None:
    module = forward(lambda a, b: R.matmul(a, R.permute_dims(b)), (2, 3), (4, 3))
    plain, tidy = [Gradient("main", simplify=simplify)(module)["main_adjoint"] for simplify in (False, True)]
    assert plain.script().count("permute_dims") > tidy.script().count("permute_dims")
    rx.assert_structural_equal(simplify_gradient(plain), tidy)
