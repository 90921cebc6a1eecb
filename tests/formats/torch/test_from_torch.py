"""Reading programs from PyTorch: sizes, state, calls, branches, and what cannot be read."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regraft as rx
from regraft.formats.errors import ConvertError, UnsupportedOperatorError
from regraft.formats.torch.tensors import from_numpy, to_numpy
from regraft.ir import Call, Constant, If, MissingDependencyError, iter_bindings, walk
from regraft.ir.op import is_call_of
from regraft.transform import Gradient
from tests.kit import assert_close
from tests.torch_kit import Of

Dim = torch.export.Dim


class _Sizes(torch.nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> Any:
        batch, width = x.shape
        halves = x.reshape(batch * 2, width // 2)
        return (
            halves[:, : width // 4],
            halves.new_zeros(width * 2, batch + 1),
            x[:, :count],
            width // 3 + max(batch, width),
            x[torch.arange(width - 1) % batch],
            x.mean() * width + batch,
        )


def test_sizes_are_expressions_of_the_sizes_of_the_inputs() -> None:
    shapes = {"x": {0: Dim("batch"), 1: 2 * Dim("half")}, "count": Dim.DYNAMIC}
    program = rx.from_torch(_Sizes(), (torch.randn(4, 8), 3), dynamic_shapes=shapes)
    first = program["main"].ret_ty.fields[0].shape
    assert [str(size) for size in first] == ["batch * 2", "s0 // 2"]
    main = rx.build(program, target="numpy")["main"]
    for batch, width, count in [(4, 8, 3), (3, 10, 7), (9, 6, 2)]:
        x = torch.randn(batch, width)
        for got, want in zip(main(x, count), _Sizes()(x, count), strict=True):
            assert_close(got, np.asarray(want))


class _Affine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4))
        self.register_buffer("offset", torch.randn(3))
        self.register_buffer("scratch", torch.ones(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (F.linear(x, self.weight, self.offset) + torch.tensor([1.0, 2.0, 3.0])) * self.scratch


def test_constants_share_the_memory_of_the_model_and_have_its_names() -> None:
    model = _Affine()
    program = rx.from_torch(model, (torch.randn(2, 4),))
    constants = {c.data.name: c.data.numpy() for c in walk(program["main"]) if isinstance(c, Constant)}
    assert {"weight", "offset", "scratch"} <= constants.keys()
    assert constants["weight"].ctypes.data == model.weight.data_ptr()
    assert not constants["weight"].flags.writeable


def test_parameters_can_be_kept_as_inputs() -> None:
    model, x = _Affine(), torch.randn(2, 4)
    program = rx.from_torch(model, (x,), keep_params_as_input=True)
    function = program["main"]
    assert function.attrs["num_input"] == 1
    names = [param.name_hint for param in function.params]
    assert names[:4] == ["x", "p_weight", "b_offset", "b_scratch"]
    state = [model.weight, model.offset, model.scratch, torch.tensor([1.0, 2.0, 3.0])]
    got = rx.build(program, target="numpy")["main"](x, *state)
    assert_close(got, model(x).detach())


class _Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, scale: float) -> dict[str, Any]:
        self.count += 1
        y = x.clone()
        y[:, 1] = 3.0
        y[1:].mul_(2)
        with torch.no_grad():
            y = y + 1
        return {"out": self.norm(y) * scale + self.count, "rest": (y, None, "fixed")}


def test_changed_buffers_are_results_and_writing_in_place_is_no_writing() -> None:
    model, x = _Counter(), torch.randn(5, 4)
    program = rx.from_torch(model, (x, 2.0))
    before = x.clone()
    first, *_ = rx.build(program, target="numpy")["main"](x)
    np.testing.assert_array_equal(first, [1.0])
    torch.testing.assert_close(x, before, rtol=0, atol=0)


def test_a_module_that_went_back_changes_its_buffers_and_nests_its_results() -> None:
    model, x = _Counter(), torch.randn(5, 4)
    module = rx.to_torch(rx.from_torch(model, (x, 2.0)))
    for _ in range(3):
        expected, actual = model(x, 2.0), module(x, scale=2.0)
        torch.testing.assert_close(actual["out"], expected["out"])
        assert actual["rest"][1:] == (None, "fixed")
    assert set(module.state_dict()) == set(model.state_dict())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value)


def test_branches_on_values_stay_branches() -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,)) * 3

    program = rx.from_torch(Of(choose), (torch.ones(3),))
    assert sum(isinstance(binding.value, If) for binding in iter_bindings(program["main"])) == 1
    for engine in ("numpy", "torch"):
        main = rx.build(program, target=engine)["main"]
        np.testing.assert_allclose(main(torch.ones(3)), [6, 6, 6])
        np.testing.assert_allclose(main(-torch.ones(3)), [-6, -6, -6])


def test_branches_inside_of_both_branches_come_back() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.mean() > 0.1, lambda v: v.cos(), lambda v: v * v, (x,))

    def choose(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.cond(k > 1, inner, lambda v: inner(v + 1).exp(), (x,)) + x

    program = torch.export.export(Of(choose), (torch.ones(3), torch.tensor(0)))
    kept: list[str | None] = []
    again = rx.optimize(program, report=lambda made: kept.append(made.kept))
    assert not str(kept[0]).startswith("the result cannot be written")
    for k in (0, 2):
        for x in (torch.ones(3), -torch.ones(3), torch.tensor([-1.2, -0.9, -0.8])):
            torch.testing.assert_close(again.module()(x, torch.tensor(k)), choose(x, torch.tensor(k)))
    torch.export.export(rx.to_torch(rx.from_torch(program)), (torch.ones(3), torch.tensor(0)))


def test_a_dtype_without_counterpart_is_an_error_that_says_what_to_do() -> None:
    program = torch.export.export(Of(lambda x: x.to(torch.complex32).abs()), (torch.ones(3, dtype=torch.complex64),))
    with pytest.raises(ConvertError, match=r"complex32 .* with x.to\(dtype\), to one of complex64, complex128"):
        rx.from_torch(program)


def test_branches_give_complex_numbers() -> None:
    def choose(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cond(x.real.sum() > 0, lambda v: (v.abs(), v * 2), lambda v: (v.abs() + 1, v.conj() + 0), (x,))

    x = torch.randn(3, 4, dtype=torch.complex64)
    module = rx.from_torch(Of(choose), (x,))
    for given in (x + 3, x - 3):
        for got, want in zip(rx.to_torch(module)(given), choose(given), strict=True):
            torch.testing.assert_close(got, want)


def test_sizes_that_depend_on_data_are_checked_sizes() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
            count = mask.sum().item()
            torch._check(count >= 0)
            torch._check(count <= 10)
            return torch.zeros(count) + 1, torch.nonzero(x) * 2, x[mask], x * mask[0].float().item()

    x, mask = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([True, False, True])
    main = rx.build(rx.from_torch(Model(), (x, mask)), target="numpy")["main"]
    for inputs in ((x, mask), (-x, ~mask)):
        for got, want in zip(main(*inputs), Model()(*inputs), strict=True):
            np.testing.assert_array_equal(got, want)


@torch.library.custom_op("regraft_listed::counted", mutates_args=())
def counted(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x * 2, x.ndim


@counted.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return torch.empty_like(x), x.ndim


def test_all_unsupported_operators_are_listed_once_with_their_places() -> None:
    from torch._higher_order_ops.map import map as map_rows

    def noisy(x: torch.Tensor) -> Any:
        return map_rows(lambda row: row + torch.rand_like(row), x)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = torch.nn.Sequential(Of(lambda x: torch.ops.regraft_listed.counted(x)[0]))

        def forward(self, x: torch.Tensor) -> Any:
            return self.block(x) + self.block(x * 2), noisy(x)

    with pytest.raises(UnsupportedOperatorError) as caught:
        rx.from_torch(Model(), (torch.rand(3, 2),))
    message = str(caught.value)
    for part in ("map_impl: its steps change tensors or draw random numbers; draw", "block.0", "torch_kit.py"):
        assert part in message
    assert len(message.splitlines()) < 1 + message.count("block.0") + message.count("map_impl:")


def test_control_flow_on_values_of_tensors_is_named() -> None:
    with pytest.raises(ConvertError, match=r"test_from_torch\.py:\d+ \(control flow depends on the values of tensors"):
        rx.from_torch(Of(lambda x: x if x.sum() > 0 else -x), (torch.ones(2),))


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (_Affine(), (), "a module needs example inputs"),
        (torch.export.export(_Affine(), (torch.ones(2, 4),)), ((torch.ones(2, 4),),), "has its inputs"),
        ("model.pt2", (), "expected a torch.nn.Module or an ExportedProgram, not a str"),
    ],
)
def test_wrong_arguments_say_what_is_expected(source: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConvertError, match=message):
        rx.from_torch(source, *arguments)


def test_operators_without_a_handler_are_decomposed_and_the_others_stay_whole() -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.silu(F.linear(F.pairwise_distance(x, x + 1, keepdim=True), w))

    x, w = torch.randn(3, 4), torch.randn(2, 1)
    program = rx.from_torch(Of(both), (x, w))
    assert "R.nn.silu" in program.script()
    assert_close(rx.build(program, target="numpy")["main"](x, w), both(x, w))


def test_without_pytorch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regraft.formats.torch.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"regraft\[torch\]"):
        rx.to_torch(rx.IRModule())
    with pytest.raises(MissingDependencyError, match=r"regraft\[torch\]"):
        _ = rx.from_torch


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn],
)
def test_tensors_and_arrays_share_their_memory(dtype: torch.dtype) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype).t()
    array = to_numpy(tensor, "it")
    assert array.ctypes.data == tensor.data_ptr()
    array.flags.writeable = False
    back = from_numpy(array, str(dtype).removeprefix("torch."))
    assert back.data_ptr() == tensor.data_ptr()
    assert (back.dtype, back.shape, back.stride()) == (tensor.dtype, tensor.shape, tensor.stride())


@pytest.mark.parametrize("shape", [(0,), (0, 3), ()])
def test_empty_and_scalar_tensors_go_both_ways(shape: tuple[int, ...]) -> None:
    assert from_numpy(to_numpy(torch.ones(shape), "it"), "float32").shape == shape


def test_a_sparse_tensor_has_no_array() -> None:
    with pytest.raises(ConvertError, match=r"the weight is a .* tensor"):
        to_numpy(torch.eye(3).to_sparse(), "the weight")


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_recurrent_layer_stays_one_operator(kind: Any) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4, batch_first=True, bidirectional=True).eval()
    x = torch.randn(2, 5, 3)
    program = rx.from_torch(layer, (x,))
    assert program.script().count(f"R.nn.{kind.__name__.lower()}(") == 1
    for target in ("numpy", "onnxruntime"):
        first, *_ = rx.build(program, target=target)["main"](x)
        assert_close(first, layer(x)[0].detach())


class _Complex(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.register_buffer("offset", torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * self.weight + self.offset, x.abs()


def test_complex_inputs_results_and_weights_are_two_real_tensors_here_and_themselves_in_pytorch() -> None:
    torch.manual_seed(0)
    model, x = _Complex(), torch.randn(3, 4, dtype=torch.complex64)
    module = rx.from_torch(model, (x,))
    assert [param.name_hint for param in module["main"].params] == ["x_real", "x_imag"]
    parts = rx.build(module, target="numpy")["main"](x.real.contiguous(), x.imag.contiguous())
    want, size = model(x)
    for got, part in zip(parts, (want.real, want.imag, size), strict=True):
        assert_close(got, part.detach())
    for got, expected in zip(rx.to_torch(module)(x), (want, size), strict=True):
        torch.testing.assert_close(got, expected)


def test_the_angle_of_a_transform_of_real_numbers_has_the_sign_that_pytorch_gives_it() -> None:
    torch.manual_seed(0)
    for length in (6, 16, 20):
        model, x = Of(lambda x: torch.angle(torch.fft.rfft(x))), torch.randn(40, length)
        found = rx.build(rx.from_torch(model, (x,)), target="numpy")["main"](x)
        np.testing.assert_allclose(found, model(x), atol=1e-4)


def test_a_sparse_buffer_is_an_error_that_says_what_to_do() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("graph", torch.eye(3).to_sparse())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sparse.mm(self.graph, x)

    with pytest.raises(ConvertError, match=r"graph is a sparse tensor .*graph\.to_dense\(\)"):
        rx.from_torch(Model(), (torch.ones(3, 2),))


def test_hardtanh_from_0_to_6_has_no_gradient_at_its_limits_as_in_pytorch() -> None:
    x = torch.tensor([-1.0, 0.0, 3.0, 6.0, 7.0], requires_grad=True)
    model = Of(lambda x: torch.nn.functional.hardtanh(x, 0.0, 6.0).sum())
    model(x).backward()
    module = Gradient("main")(rx.from_torch(model, (x.detach(),)))
    _, (found,) = rx.build(module, target="numpy")["main_adjoint"](x.detach())
    np.testing.assert_array_equal(found, x.grad)


def test_what_is_written_to_by_strides_keeps_its_gradient() -> None:
    """PyTorch gives the gradients of `as_strided_scatter` to the wrong elements, so another operator stands there."""

    def write(x: torch.Tensor) -> torch.Tensor:
        whole = x * 2
        whole.as_strided((2, 4), (4, 1), 4).mul_(3)
        return whole

    weights, x = torch.arange(16.0).reshape(4, 4), torch.randn(4, 4, requires_grad=True)
    program = rx.from_torch(Of(write), (x.detach(),))
    wanted, found = [torch.autograd.grad((each(x) * weights).sum(), x)[0] for each in (write, rx.to_torch(program))]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.as_tensor(rx.build(program, target="onnxruntime")["main"](x)), write(x.detach()))


_NORMALIZATIONS: dict[str, torch.nn.Module] = {
    "layer norm": torch.nn.LayerNorm(5),
    "group norm": torch.nn.GroupNorm(2, 4),
    "batch norm in training": torch.nn.BatchNorm1d(4),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", _NORMALIZATIONS)
def test_normalizations_in_half_precision_are_read_in_core_operators_too(name: str, dtype: torch.dtype) -> None:
    layer = copy.deepcopy(_NORMALIZATIONS[name]).to(dtype)
    x = torch.sin(torch.arange(60.0)).reshape(3, 4, 5).to(dtype)
    program = torch.export.export(layer, (x,)).run_decompositions()
    found = torch.utils._pytree.tree_leaves(rx.build(rx.from_torch(program), target="numpy")["main"](x))[-1]
    np.testing.assert_allclose(np.asarray(found, "float32"), layer(x).float().detach().numpy(), atol=0.02)


def test_a_diagonal_of_a_matrix_is_one_take_of_its_elements() -> None:
    for offset in (-1, 0, 2):
        x = torch.arange(60.0).reshape(3, 4, 5)
        program = rx.from_torch(Of(lambda x, offset=offset: torch.diagonal(x, offset, 1, 2)), (x,))
        names = [binding.value.op.name for binding in iter_bindings(program["main"]) if isinstance(binding.value, Call)]
        assert names == ["relax.reshape", "relax.take"]
        assert_close(rx.build(program, target="numpy")["main"](x), to_numpy(x.diagonal(offset, 1, 2), "x"))


def test_a_transform_of_real_numbers_over_two_axes_multiplies_no_imaginary_parts_of_zeros() -> None:
    x = torch.sin(torch.arange(24.0)).reshape(2, 3, 4)
    program = rx.from_torch(Of(lambda x: torch.view_as_real(torch.fft.fft2(x))), (x,))
    products = [one for one in iter_bindings(program["main"]) if is_call_of(one.value, "relax.matmul")]
    assert len(products) == 6  # two along the last axis, and four along the other
    assert_close(rx.build(program, target="numpy")["main"](x), torch.view_as_real(torch.fft.fft2(x)).numpy())
