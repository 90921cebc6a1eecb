"""The torch engine, and modules made of programs: the numbers of NumPy, gradients, devices, state, `torch.export`."""

from __future__ import annotations

import copy
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regraft as rx
from regraft import op as R
from regraft.engine import BuildError, ExecutionError, TypeCheckError, build, runs_on
from regraft.gradient import Gradient
from regraft.ir import BlockBuilder, Constant, IRModule, Op, SymVar, TensorType, Tuple, Var, walk
from regraft.run.lifted_constants import lift_constants
from regraft.testing import random_inputs, random_module
from tests.op.harness import assert_close, to_numpy
from tests.run.programs import program, tensor

OPERATORS = [op for op in Op.all() if op.name.startswith("relax.")]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_operator_runs(op: Op) -> None:
    # That each gives its reference's numbers is tested with the operators: `tests.op.harness.check` runs both.
    assert runs_on("torch", op)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_give_what_numpy_gives(seed: int) -> None:
    module = random_module(seed, size=25, helpers=seed % 3)
    arguments = random_inputs(module["main"], seed)
    expected = build(module, target="numpy")["main"](*arguments)
    assert_close(to_numpy(build(module, target="torch")["main"](*arguments)), expected, 1e-4)


def _layer(width: int = 4) -> IRModule:
    weight = np.arange(width * 3, dtype=np.float32).reshape(width, 3) / 7
    x = tensor("x", (SymVar("n"), width))
    return program([x], lambda bb, v: R.nn.gelu(R.add(R.matmul(v, rx.const(weight)), rx.const(0.5))))


def test_tensors_come_out_and_arrays_and_tensors_go_in() -> None:
    main = build(_layer(), target="torch")["main"]
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    results = [main(x), main(torch.from_numpy(x)), main(x.tolist())]
    for result in results:
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)


def test_gradients_flow_through_a_built_program() -> None:
    module = _layer()
    x = torch.randn(5, 4, requires_grad=True)
    build(module, target="torch")["main"](x).sum().backward()
    y = x.detach().clone().requires_grad_()
    weight = next(c.data.numpy() for c in walk(module["main"]) if isinstance(c, Constant) and c.data.shape)
    F.gelu(y @ torch.from_numpy(np.array(weight)) + 0.5).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.grad)


def test_constants_are_not_copied_on_the_cpu() -> None:
    weight = np.ones((2, 2), np.float32)
    module = program([tensor("x", (2,))], lambda bb, v: rx.const(weight))
    assert build(module, target="torch")["main"](torch.ones(2)).data_ptr() == weight.ctypes.data


def test_attention_is_one_call_of_pytorchs_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    original = F.scaled_dot_product_attention

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs)
        return original(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    q, k = tensor("q", (2, 5, 6, 8)), tensor("k", (2, 7, 2, 8))
    module = program([q, k], lambda bb, a, b: R.nn.attention(a, b, b, causal_mask="BottomRight", window_size=3))
    arguments = [np.random.default_rng(0).normal(size=v.ty.shape).astype(np.float32) for v in (q, k)]
    result = build(module, target="torch")["main"](*arguments)
    assert len(calls) == 1
    np.testing.assert_allclose(result, build(module, target="numpy")["main"](*arguments), rtol=1e-4, atol=1e-6)


def test_a_convolution_of_permuted_data_copies_no_kernel() -> None:
    kernel = np.ones((6, 5, 3, 3), np.float32)
    module = program(
        [tensor("x", (2, 8, 9, 5))],
        lambda _, x: R.nn.conv2d(R.permute_dims(x, [0, 3, 1, 2]), rx.const(kernel), padding=1),
    )
    main = build(module, target="torch")["main"]
    x = torch.randn(2, 8, 9, 5)
    with torch.profiler.profile(record_shapes=True) as profiled:
        result = main(x)
    torch.testing.assert_close(result, F.conv2d(x.permute(0, 3, 1, 2), torch.from_numpy(kernel), padding=1))
    copied = [event.input_shapes[0] for event in profiled.events() if event.name == "aten::copy_"]
    assert list(kernel.shape) not in copied


def test_a_split_is_one_call_whose_parts_are_views() -> None:
    module = program([tensor("x", (2, 9))], lambda bb, x: bb.emit(R.split(x, [2, 5], axis=1)))
    main = build(module, target="torch")["main"]
    x = torch.randn(2, 9)
    with torch.profiler.profile() as profiled:
        parts = main(x)
    assert [event.name for event in profiled.events() if "split" in event.name or "slice" in event.name] == [
        "aten::split_with_sizes"
    ]
    for part, want in zip(parts, (x[:, :2], x[:, 2:5], x[:, 5:]), strict=True):
        assert part.data_ptr() == want.data_ptr()
        torch.testing.assert_close(part, want, rtol=0, atol=0)


@pytest.mark.parametrize("norm", [R.nn.instance_norm, lambda *given, **axes: R.nn.group_norm(*given, 2, **axes)])
def test_a_norm_over_one_number_is_that_of_numpy(norm: Any) -> None:
    shift, array = rx.const(np.array([0.5, 2], np.float32)), np.ones((1, 2, 1, 1), np.float32)
    module = program([tensor("x", array.shape)], lambda bb, v: norm(v, shift, shift, channel_axis=1, axes=[2, 3]))
    assert_close(to_numpy(build(module, target="torch")["main"](array)), build(module, target="numpy")["main"](array))


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(BuildError, match="PyTorch has no device 'nowhere'"):
        build(_layer(), target="torch", device="nowhere")


def test_the_meta_device_computes_shapes_only() -> None:
    result = build(_layer(), target="torch", device="meta")["main"](torch.ones(5, 4))
    assert (result.device.type, tuple(result.shape)) == ("meta", (5, 3))


def test_a_dtype_that_pytorch_lacks_is_named() -> None:
    main = build(program([tensor("x", (2,), "int4")], lambda bb, v: v), target="torch")["main"]
    with pytest.raises(TypeCheckError, match="parameter x: PyTorch has no dtype int4"):
        main(np.zeros(2, rx.ir.dtypes.numpy_dtype("int4")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 5),), "main: parameter x: axis 1 is 5; expected 4"),
        ((torch.ones(2, 4, dtype=torch.float64),), "main: parameter x has dtype float64; expected float32"),
        ((), r"main\(x\) takes 1 arguments, but got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        build(_layer(), target="torch")["main"](*arguments)


def test_a_failing_operator_is_named_with_its_operands() -> None:
    module = program([tensor("x", (3,)), tensor("i", (2,), "int64")], lambda bb, x, i: R.take(x, i, axis=0))
    with pytest.raises(ExecutionError, match=r"relax\.take failed[\s\S]*x: float32 \(3,\), i: int64 \(2,\)"):
        build(module, target="torch")["main"](torch.ones(3), torch.tensor([1, 9]))


# --- modules


def test_a_module_takes_arguments_in_order_or_by_name() -> None:
    module = rx.to_torch(_layer())
    assert str(inspect.signature(module.forward)) == "(x)"
    x = torch.randn(2, 4)
    torch.testing.assert_close(module(x), module(x=x), rtol=0, atol=0)
    with pytest.raises(ExecutionError, match=r"forward takes \(x\), but got 1 in order, y="):
        module(x, y=x)


def test_the_weights_of_a_module_are_its_own() -> None:
    program_ = _layer()
    module = rx.to_torch(program_)
    (weight,) = module.state_dict().values()
    before = weight.clone()
    weight.zero_()
    torch.testing.assert_close(next(iter(rx.to_torch(program_).state_dict().values())), before)
    shared = rx.to_torch(program_, share_memory=True)
    original = next(c for c in walk(program_["main"]) if isinstance(c, Constant) and c.data.shape)
    assert next(iter(shared.state_dict().values())).data_ptr() == original.data.numpy().ctypes.data


def test_a_copy_of_a_module_has_weights_of_its_own() -> None:
    module = rx.to_torch(_layer())
    twin = copy.deepcopy(module)
    next(iter(twin.state_dict().values())).zero_()
    x = torch.randn(2, 4)
    assert not torch.equal(module(x), twin(x))


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 4))
        self.body[2].bias.requires_grad_(False)
        self.tied = self.body[0]

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, torch.Tensor]:
        return {"out": self.body(x) * scale + torch.arange(4)}


def test_a_module_trains_like_the_model_it_came_from() -> None:
    model, x = _Net(), torch.randn(3, 4)
    module = rx.to_torch(rx.from_torch(model, (x,), {"scale": 2.0}))
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    assert {name: parameter.requires_grad for name, parameter in module.named_parameters()} == wanted
    for trained in (model, module):
        optimizer = torch.optim.SGD([p for p in trained.parameters() if p.requires_grad], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            trained(x, scale=2.0)["out"].square().mean().backward()
            optimizer.step()
    assert set(model.state_dict()) == set(module.state_dict())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value)


def test_a_module_moves_to_another_dtype_and_device() -> None:
    model, x = _Net(), torch.randn(3, 4)
    module = rx.to_torch(rx.from_torch(model, (x,), {"scale": 2.0}))
    moved = module.to("meta")
    assert {value.device.type for value in moved.state_dict().values()} == {"meta"}
    assert moved(x.to("meta"), scale=2.0)["out"].device.type == "meta"


def test_a_row_that_a_tensor_names_is_not_asked_for_while_compiling() -> None:
    x = torch.randn(2, 4, 3)
    row = program([tensor("x", (2, 4, 3))], lambda builder, x: builder.emit(R.take(x, rx.const(-2, "int64"), axis=1)))
    module = rx.to_torch(row)
    torch.testing.assert_close(module(x), x[:, -2])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for other in (x, torch.randn(2, 4, 3)):
        torch.testing.assert_close(compiled(other), other[:, -2])


def test_a_module_compiles_without_a_break_and_exports() -> None:
    model, x = _Net(), torch.randn(3, 4)
    module = rx.to_torch(rx.from_torch(model, (x,), {"scale": 2.0}))
    expected = model(x, scale=2.0)["out"]
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, scale=2.0)["out"], expected)
    exported = torch.export.export(module, (x,), {"scale": 2.0})
    torch.testing.assert_close(exported.module()(x, scale=2.0)["out"], expected)
    assert set(exported.state_dict) == set(model.state_dict())


def test_another_nesting_of_arguments_is_an_error_that_shows_both() -> None:
    model, x = _Net(), torch.randn(3, 4)
    module = rx.to_torch(rx.from_torch(model, (x,), {"scale": 2.0}))
    with pytest.raises(ExecutionError, match=r"nested as \(\[\.\.\.\], scale=\.\.\.\).*exported for \(\.\.\., scale"):
        module([x], scale=2.0)
    with pytest.raises(ExecutionError, match=r"an argument is 3.0; the program was exported for 2.0"):
        module(x, scale=3.0)


def test_a_file_holds_the_program_with_its_dynamic_sizes(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3)
    shapes = {"input": {0: torch.export.Dim("rows")}}
    rx.save_torch(rx.from_torch(model, (torch.randn(5, 4),), dynamic_shapes=shapes), tmp_path / "model.pt2")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for rows in (2, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(loaded(x), model(x))


def test_a_program_that_does_not_export_leaves_no_file(tmp_path: Path) -> None:
    module = program([tensor("x", None, ndim=2)], lambda bb, v: v)
    with pytest.raises(rx.RegraftError, match="no example can be made"):
        rx.save_torch(module, tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []


def test_functions_hand_their_constants_on_to_the_functions_they_call() -> None:
    for seed in range(30):
        module = random_module(seed, size=20, helpers=3)
        arguments = random_inputs(module["main"], seed)
        expected = build(module, target="numpy")["main"](*arguments)
        lifted = lift_constants(module)
        weights = [data.numpy() for data in lifted.taken["main"]]
        assert not any(isinstance(expr, Constant) for f in lifted.module.functions.values() for expr in walk(f))
        assert_close(build(lifted.module, target="numpy")["main"](*arguments, *weights), expected, 1e-6)


# --- faster


def _products() -> tuple[IRModule, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((6, 64), (64, 32), (32,))]
    x, w, b = [Var(name, TensorType(array.shape, "float32")) for name, array in zip("xwb", arrays, strict=True)]
    builder = BlockBuilder()
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            product = builder.emit(R.add(R.matmul(x, w), b))
            out = builder.emit_output(Tuple([builder.emit(R.nn.softmax(product)), product]))
        builder.emit_func_output(out)
    return builder.get(), arrays


def test_a_program_that_pytorch_compiles_gives_the_same() -> None:
    module, arrays = _products()
    plain, compiled = (build(module, target="torch", compile=how)["main"](*arrays) for how in (False, "aot_eager"))
    for expected, found in zip(plain, compiled, strict=True):
        torch.testing.assert_close(found, expected)


def test_compiling_warns_of_nothing() -> None:
    rows = tensor("rows", (2, 1), "int64")
    scattered = program(
        [tensor("x", (4, 3)), rows, tensor("updates", (2, 3))],
        lambda builder, *args: builder.emit(R.scatter_nd(*args, reduction="add")),
    )
    arrays = torch.zeros(4, 3), torch.tensor([[1], [3]]), torch.ones(2, 3)
    run = build(scattered, target="torch", compile="aot_eager")["main"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = run(*arrays)
    assert [str(one.message) for one in told] == []
    torch.testing.assert_close(found[:, 0], torch.tensor([0.0, 1.0, 0.0, 1.0]))


def test_products_in_a_narrower_dtype_are_coarser_and_results_keep_theirs() -> None:
    module, arrays = _products()
    plain = build(module, target="torch")["main"](*arrays)
    narrow = build(module, target="torch", dtype="bfloat16")["main"](*arrays)
    for expected, found in zip(plain, narrow, strict=True):
        assert found.dtype == torch.float32
        error = float((found - expected).abs().max() / expected.abs().max())
        assert 1e-5 < error < 3e-2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_recurrent_layers_run_in_a_narrower_dtype_on_every_processor(dtype: str) -> None:
    rng = np.random.default_rng(0)
    weight, recurrence = (rx.const(rng.normal(size=(1, 32, size)).astype(np.float32)) for size in (4, 8))
    before = rx.const(rng.normal(size=(4, 4)).astype(np.float32))
    module = program(
        [tensor("x", (5, 2, 4))],
        lambda bb, x: bb.emit(R.nn.lstm(bb.emit(R.matmul(x, before)), weight, recurrence))[0],
    )
    x = torch.from_numpy(rng.normal(size=(5, 2, 4)).astype(np.float32))
    plain, narrow = (build(module, target="torch", **options)["main"](x) for options in ({}, {"dtype": dtype}))
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, plain, rtol=0, atol=2e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dtype": "int8"}, "expected one of bfloat16, float16"), ({"compile": "gcc"}, "PyTorch has the backends")],
)
def test_dtypes_and_compilers_that_do_not_exist_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        build(_products()[0], target="torch", **options)


@pytest.mark.parametrize(
    ("size", "kernel", "options"),
    [
        ((3, 8, 10, 12), (5, 8, 3, 3), {"padding": 1}),
        ((2, 6, 9, 11), (4, 6, 3, 2), {"strides": (2, 3), "padding": (1, 0, 1, 0)}),
        ((2, 4, 12, 10), (6, 4, 3, 3), {"strides": 2, "dilation": (2, 1)}),
        ((1, 5, 7, 7), (3, 5, 1, 1), {}),
        ((2, 4, 8, 8), (4, 2, 3, 3), {"groups": 2, "padding": 1}),
    ],
)
def test_gradients_of_kernels_are_those_of_the_reference(
    size: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]
) -> None:
    """PyTorch computes the gradient of a kernel as one operator, whatever convolution it is written as."""
    random = np.random.default_rng(3)
    x, w = (Var(name, TensorType(shape, "float64")) for name, shape in (("x", size), ("w", kernel)))
    builder = BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            loss = builder.emit_output(R.sum(builder.emit(R.sin(builder.emit(R.nn.conv2d(x, w, **options))))))
        builder.emit_func_output(loss)
    adjoint = Gradient("main")(builder.get())
    arrays = random.standard_normal(size), random.standard_normal(kernel)
    _, expected = rx.build(adjoint, target="numpy")["main_adjoint"](*arrays)
    _, found = rx.build(adjoint, target="torch")["main_adjoint"](*arrays)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-10, atol=1e-10)
    leaf = torch.from_numpy(arrays[1]).requires_grad_()
    given = torch.from_numpy(arrays[0])
    pad = options.get("padding", 0)
    torch.sin(
        F.conv2d(
            given,
            leaf,
            None,
            options.get("strides", 1),
            pad if isinstance(pad, int) else pad[:2],
            options.get("dilation", 1),
            options.get("groups", 1),
        )
    ).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    np.testing.assert_allclose(np.asarray(found[1]), leaf.grad.numpy(), rtol=1e-10, atol=1e-10)


def test_the_gradient_of_a_kernel_runs_as_one_operator_of_pytorch() -> None:
    from torch.profiler import profile

    x, w = (Var(name, TensorType(shape, "float32")) for name, shape in (("x", (2, 8, 9, 9)), ("w", (4, 8, 3, 3))))
    builder = BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            loss = builder.emit_output(R.sum(builder.emit(R.nn.conv2d(x, w, padding=1))))
        builder.emit_func_output(loss)
    step = rx.build(Gradient("main")(builder.get()), target="torch")["main_adjoint"]
    arrays = np.ones((2, 8, 9, 9), np.float32), np.ones((4, 8, 3, 3), np.float32)
    with profile() as seen:
        step(*arrays)
    assert "aten::convolution_backward" in {event.key for event in seen.key_averages()}


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2"])
def test_constants_of_fewer_than_8_bits_are_dequantized(dtype: str) -> None:
    codes = np.array([[1, 0, 1], [0, 1, 1]]).astype(rx.ir.dtypes.numpy_dtype(dtype))

    def body(bb: BlockBuilder, x: Any) -> Any:
        turned = bb.emit(R.permute_dims(rx.const(codes, dtype)))
        scale, zero = rx.const([0.5, 2.0], "float32"), rx.const(np.array(1).astype(codes.dtype), dtype)
        more = R.astype(rx.const(codes[0, 0], dtype), "float32")
        return R.matmul(x, R.dequantize(turned, scale, zero, axis=1)) + more

    module = program([tensor("x", (4, 3))], body)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    wanted, found = [np.asarray(build(module, target=target)["main"](x)) for target in ("numpy", "torch")]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(rx.to_torch(module)(torch.from_numpy(x)), wanted)


def test_arithmetic_in_fewer_than_8_bits_is_refused() -> None:
    module = program([tensor("x", (2,), "int4")], lambda bb, x: R.add(x, rx.const(np.array(7, np.int8), "int4")))
    for make in (rx.to_torch, lambda one: build(one, target="torch")):
        with pytest.raises(BuildError, match=r"computes in numbers of fewer than 8 bits.*R\.astype"):
            make(module)


@pytest.mark.parametrize(("size", "extents"), [((2, 2), (4, 6)), ((3, 1), (6, 2)), ((2, 2), (5, 6))])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_gradient_of_a_max_pool_is_the_same_compiled(
    size: tuple[int, int], extents: tuple[int, int], layout: str
) -> None:
    shape = (2, 3, *extents) if layout == "NCHW" else (2, *extents, 3)
    pool = {"pool_size": size, "strides": size, "layout": layout}
    x = Var("x", TensorType(shape, "float32"))
    forward = R.nn.max_pool2d(x, **pool)
    assert isinstance(forward.ty, TensorType)
    adjoint = Var("adjoint", forward.ty)
    module = program([adjoint, x], lambda bb, *own: bb.emit(R.grad.max_pool2d_backward(*own, **pool)))
    random = np.random.default_rng(0)
    # Few values, so that many are equal, and one that is no number.
    data = random.integers(0, 3, shape).astype("float32")
    data[0, 1, 1, 1] = np.nan
    given = random.standard_normal(tuple(map(int, forward.ty.shape or ()))).astype("float32"), data
    expected = build(module, target="numpy")["main"](*given)
    found = build(module, target="torch", compile="aot_eager")["main"](*given)
    np.testing.assert_array_equal(to_numpy(found), expected)


def test_a_compiled_function_holds_for_arguments_that_share_memory_or_not() -> None:
    module = program([tensor("x", (2,)), tensor("y", (2,))], lambda bb, x, y: bb.emit(R.subtract(x, y)))
    run = build(module, target="torch", compile="aot_eager")["main"]
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 5.0])
    assert run(one, one).tolist() == [0, 0]
    assert run(one, other).tolist() == [-4, -3]
    assert run(other, other).tolist() == [0, 0]
    assert run(one.requires_grad_(), other).requires_grad
