"""Meshes and specs as values, and every refusal of the gate before JAX sees a sharding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import IRModule, OpTypeError, SymVar, TensorData, TensorType, Tuple
from regraft.ir.expr import Constant
from regraft.run import BuildError, build
from regraft.run.mesh import Mesh, parse_spec, placement_text, spec_text
from tests.run.programs import program, tensor

MESH = Mesh(data=2, model=4)


def test_a_mesh_reads_as_a_mapping_of_axes_to_sizes() -> None:
    assert (dict(MESH), MESH.devices, str(MESH)) == ({"data": 2, "model": 4}, 8, "data=2, model=4")
    assert MESH == Mesh.parse("data=2, model=4") != Mesh(model=4, data=2)
    assert len({MESH, Mesh(data=2, model=4)}) == 1


@pytest.mark.parametrize("text", ["data", "data=0", "data=2,data=4", "data=-1", "=3", "data=2;model=4", ""])
def test_a_text_that_is_no_mesh_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match=r"is no mesh|an axis has 1 or more devices"):
        Mesh.parse(text)


def test_a_mesh_needs_an_axis_with_a_device() -> None:
    with pytest.raises(BuildError, match=r"Mesh\(\) has no axis"):
        Mesh()
    with pytest.raises(BuildError, match=r"Mesh\(data=0\): an axis has 1 or more devices"):
        Mesh(data=0)


def test_specs_are_read_and_written() -> None:
    assert parse_spec("model,-,a+b") == ("model", None, ("a", "b"))
    assert spec_text((("model",), (), ("a", "b"))) == "model,-,a+b"
    assert placement_text(((), ("model",)), MESH) == "R, S[1]"
    with pytest.raises(BuildError, match="is no spec"):
        parse_spec("model,?")


def weight(name: str, *shape: int) -> Constant:
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) / 100
    return Constant(TensorData(array, name))


def layer() -> IRModule:
    """Two linear layers; the weights have the names that a model gives them."""
    x = tensor("x", (SymVar("n"), 100))
    up, down = weight("encoder.layer.0.up.weight", 100, 400), weight("encoder.layer.0.down.weight", 400, 100)
    return program([x], lambda bb, x: R.matmul(R.nn.relu(R.matmul(x, up)), down))


@pytest.mark.parametrize(
    ("shardings", "message"),
    [
        (
            {"encoder.layer.0.up.weight": ("model", None)},
            r'shardings: "encoder.layer.0.up.weight" is float32 \(100, 400\); axis 0 = 100 does not divide over '
            r"model = 8; take model = 4 or 5, or leave the axis whole",
        ),
        (
            {"*qkv*": (None, "model")},
            r'shardings: "\*qkv\*" matches none of 3 tensors',
        ),
        (
            {"encoder.layer.0.dwon.weight": (None, "model")},
            r'"encoder.layer.0.dwon.weight" is none of 3 tensors; nearest: "encoder.layer.0.down.weight"',
        ),
        ({"*.up.*": ("modle", None)}, r"the mesh \(data=1, model=8\) has no axis 'modle'"),
        ({"*.up.*": ("model", "model")}, "the mesh axis 'model' cuts axis 0 and axis 1; it can cut one axis of a"),
        ({"*.up.*": (("model", "model"), None)}, "the mesh axis 'model' cuts axis 0 and axis 0"),
        ({"*.up.*": (None, None, "model")}, "of 2 axes; the spec .* has 3 entries"),
        ({"*.up.*": "model"}, "'model' is no spec; expected a tuple with an entry for each axis"),
        ({"*.up.*": (3, None)}, r"\(3, None\) is no spec"),
    ],
)
def test_a_sharding_that_does_not_fit_is_refused_with_what_would(shardings: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        build(layer(), target="xla", mesh=Mesh(data=1, model=8), shardings=shardings)


def test_an_open_size_that_does_not_divide_is_refused_at_the_call() -> None:
    exe = build(layer(), target="xla", mesh=MESH, inputs={"x": ("data",)})
    assert exe["main"](np.ones((4, 100), "float32")).shape == (4, 100)
    with pytest.raises(BuildError, match=r"main: inputs: \"x\" is float32 \(3, 100\); axis 0 = 3 does not divide over"):
        exe["main"](np.ones((3, 100), "float32"))


def test_shardings_without_a_mesh_and_a_mesh_without_devices_are_refused() -> None:
    with pytest.raises(BuildError, match="shardings need a mesh to be laid over"):
        build(layer(), target="xla", shardings={"*": ("model",)})
    late = r"mesh data=3, model=4 needs 12 devices; JAX sees 8 \(CPU: set XLA_FLAGS=.*device_count=12 before JAX is"
    with pytest.raises(BuildError, match=late):
        build(layer(), target="xla", mesh=Mesh(data=3, model=4))


def test_a_device_count_that_was_set_too_late_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    assert len(jax.devices()) == 8
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=16")
    with pytest.raises(BuildError, match="XLA_FLAGS asks for them, but was set after JAX was first used"):
        build(layer(), target="xla", mesh=Mesh(data=16))


def test_the_first_glob_that_matches_decides_and_a_name_goes_before_globs() -> None:
    shardings = {"*.weight": (None, None), "*up*": ("nowhere",), "encoder.layer.0.down.weight": ("model", None)}
    exe = build(layer(), target="xla", mesh=MESH, shardings={**shardings, "*up*": (None, "model")})
    report = exe.report(sizes={"n": 8})["main"]
    # up is whole, 400 × 100 × 4 bytes; of down there is a quarter
    assert report.weights == 160_000 + 40_000


# --- annotations in the program


TEXT = """
@I.ir_module
class Module:
    I.module_attrs({"owner": "me"})
    I.module_global_infos({"mesh": [R.device_mesh((2, 4), I.Range(0, 8)), R.device_mesh((1,), [3])]})

    @R.function
    def main(x: R.Tensor((8, 6), "float32")) -> R.Tensor((8, 6), "float32"):
        y = R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement="S[0],R")
        z = R.add(y, y)
        w = R.dist.annotate_sharding(z, R.device_mesh((2, 4)), "R, R")
        return w
"""


def test_annotations_and_meshes_parse_and_print_as_relax_writes_them() -> None:
    module = rx.parse(TEXT)
    text = module.script()
    assert (
        'I.module_global_infos({"mesh": [R.device_mesh((2, 4), I.Range(0, 8)), R.device_mesh((1,), I.Range(3, 4))]})'
        in text
    )
    assert 'R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement="S[0], R")' in text
    rx.assert_structural_equal(rx.parse(text), module)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch", "xla"])
def test_an_annotation_is_an_identity_on_engines_without_a_mesh(target: str) -> None:
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    np.testing.assert_array_equal(np.asarray(build(rx.parse(TEXT), target=target)["main"](x)), 2 * x)


def test_an_annotation_lays_the_value_over_the_mesh() -> None:
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    cut = build(rx.parse(TEXT.replace("R, R", "R, S[0]")), target="xla", mesh=MESH)["main"](x)
    np.testing.assert_array_equal(np.asarray(cut), 2 * x)
    assert cut.addressable_shards[0].data.shape == (2, 6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("S[0],R", "S[1], R, R", "the placement 'S\\[1\\], R, R' has 3 entries"),
        ('"mesh[0]"', '"mash[0]"', r"the module names no mesh 'mash\[0\]'; it names: mesh"),
        ('"mesh[0]"', '"mesh[1]"', r"annotate_sharding is for a mesh of \(1,\) devices, not for data=2, model=4"),
        ("S[0],R", "R, S[1]", r"axis 1 = 6 does not divide over model = 4; take model = 2 or 3"),
    ],
)
def test_an_annotation_that_does_not_fit_the_mesh_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises((BuildError, OpTypeError), match=message):
        build(rx.parse(TEXT.replace(old, new)), target="xla", mesh=MESH)


def test_a_module_that_names_no_meshes_is_refused() -> None:
    with pytest.raises(rx.ParseError, match=r"I\.module_global_infos names device meshes"):
        rx.parse(TEXT.replace("R.device_mesh((1,), [3])", '"cuda"'))


def test_the_fields_of_a_tuple_are_laid_by_number() -> None:
    pair = rx.Var("pair", rx.TupleType([TensorType((8, 4), "float32"), TensorType((4,), "float32")]))
    module = program([pair], lambda bb, p: Tuple([bb.emit(R.add(rx.TupleGetItem(p, 0), rx.TupleGetItem(p, 1)))]))
    exe = build(module, target="xla", mesh=MESH, inputs={"pair[0]": ("data", "model")})
    found = exe["main"]((np.ones((8, 4), "float32"), np.ones(4, "float32")))[0]
    np.testing.assert_array_equal(np.asarray(found), np.full((8, 4), 2))
    with pytest.raises(BuildError, match='"pear" is none of 2 tensors'):
        build(module, target="xla", mesh=MESH, inputs={"pear": ("data",)})
