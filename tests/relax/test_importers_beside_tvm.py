"""Exported PyTorch programs become the programs that they become in Relax."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import tvm
from torch import nn
from torch.export import export
from tvm import relax as theirs
from tvm.relax.frontend.torch import from_exported_program as read_there
from tvm.relax.frontend.torch import from_fx as trace_there

import regraft as rx
from regraft.formats import ConvertError
from regraft.frontend.torch import from_exported_program as read_here
from regraft.frontend.torch import from_fx as trace_here
from regraft.script import tir as T

from .beside_tvm import read_back

pytestmark = pytest.mark.filterwarnings("ignore")

X, V, W = torch.zeros(1, 3, 10, 10), torch.zeros(2, 4), torch.zeros(4, 5)
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "one call": (torch.exp, (X,)),
    "several calls": (
        lambda x: (
            torch.tanh(torch.sin(x)) + x,
            x * 1.5 - 2,
            F.softmax(x, 1),
            torch.mean(x, dim=(2, 3), keepdim=True),
            x.permute(0, 3, 2, 1).reshape(2, -1),
            torch.where(x > 0, x, -x),
        ),
        (X,),
    ),
    "products": (lambda x, y: (torch.matmul(x, y), torch.addmm(x[0, 0], x, y, beta=0.5, alpha=2)), (V, W)),
    "scans of another dtype": (
        lambda x: (torch.cumsum(x, 1, dtype=torch.int32), torch.cumprod(x, 0, dtype=torch.float64)),
        (V,),
    ),
    "bounds that are tensors": (lambda x, y: (torch.clamp(x, y), torch.clamp(x, y, y[0])), (V, V)),
    "a copy in place": (lambda x, y: (x * 2).copy_(y), (V, V[0])),
    "one number": (lambda x: x.item(), (V[0, :1],)),
    "two results": (lambda x: (x + x, torch.relu(x)), (V,)),
    "nothing among results": (lambda x: (None, x + x, (torch.relu(x), None)), (V,)),
    "nothing beside one result": (lambda x: {"a": x + x, "b": None}, (V,)),
    "its input": (lambda x: x, (V,)),
    "dropout in training": (lambda x: F.dropout(x, 0.5, training=True) + x, (V,)),
    "functions": (
        lambda x: (
            *(torch.log2(x), torch.log10(x), torch.log1p(x), torch.expm1(x)),
            *(F.elu(x, 0.5), F.silu(x), F.hardswish(x), F.softplus(x), F.relu6(x)),
            *(x.clamp(min=0.5), x.clamp(0.1, 0.5), F.hardtanh(x), x.clamp(max=1)),
        ),
        (V,),
    ),
    "sorts, maxima and norms": (
        lambda x: (
            *(*torch.sort(x, 1), *torch.max(x, 1), torch.topk(x, 2)[0]),
            *(torch.linalg.vector_norm(x, 3, 1), x.abs().max(), x.mean(), x.sum()),
        ),
        (V,),
    ),
    "images": (
        lambda x: (
            F.max_pool2d(F.avg_pool2d(x, 2), 2),
            F.avg_pool1d(x[0], 2),
            F.interpolate(x, (40, 40)),
            F.interpolate(x, (7, 9), mode="bilinear"),
            F.interpolate(x, (15, 20), mode="bicubic"),
        ),
        (X,),
    ),
    "attention": (F.scaled_dot_product_attention, (torch.zeros(1, 2, 4, 8), *torch.ones(2, 1, 2, 4, 8))),
    "parts": (lambda x: (*torch.split(x, 1, 1), x[:, 1:, ::2], x.roll(1, 2), x.unbind(1)[0]), (X,)),
    "places": (
        lambda x, i: (x[i], x.index_put((i, i), x[0, :2]), x.scatter(0, i[:, None], 1.5), torch.split(x, 3, 1)[1]),
        (V, torch.tensor([0, 1])),
    ),
    "fills": (lambda x: (torch.full((2, 3), 2.0), torch.zeros_like(x), x.masked_fill(x > 0, 1.0)), (V,)),
    "one image alone": (lambda x: (F.max_pool2d(x[0], 2), F.max_pool1d(x[0, 0], 2)), (X,)),
    "spreads": (
        lambda x: (
            x.var(),
            x.std(1),
            x.var(dim=(0, -1), keepdim=True),
            torch.std(x, correction=0),
            x.var(1, correction=2),
        ),
        (V,),
    ),
    "steps between two numbers": (
        lambda x: (torch.linspace(0, 1, steps=9), F.affine_grid(x, [1, 3, 4, 5], align_corners=False)),
        (X[:, :2, 0, :3],),
    ),
    "a squeeze of nothing, a constant": (lambda x: (x.squeeze(0), torch.tensor([3, 1]), x.repeat(1, 1)), (V,)),
    "one tensor after another": (
        lambda x: (torch.cat((x,)), torch.tensordot(x, x.T, 1), torch.trace(x[:, :2] + x[:, 2:])),
        (V,),
    ),
    "integers": (lambda x: (x**3, x.sum(1), torch.logical_not(x)), (torch.arange(6, dtype=torch.int32).view(2, 3),)),
}
LAYERS: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {
    "convolution, norm, linear": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2)).eval(),
        (X,),
    ),
    "norms with weights": (nn.Sequential(nn.LayerNorm(10), nn.GroupNorm(3, 3)), (X,)),
    "an instance norm with weights": (nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(), (X,)),
    "norms without weights": (nn.Sequential(nn.LayerNorm(10, elementwise_affine=False), nn.InstanceNorm2d(3)), (X,)),
    "an embedding": (nn.Embedding(10, 3), (torch.ones(2, 4, dtype=torch.int64),)),
    "dropout of a model in training": (nn.Sequential(nn.Dropout(0.5), nn.ReLU()), (V,)),
}
TRACED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "one call": CASES["one call"],
    "products": (torch.matmul, (V, W)),
    "dropout in training": CASES["dropout in training"],
    "a split as it is": (lambda x: torch.split(x, 1, 1), (X,)),
    "a change in place": (lambda x: F.relu(x, inplace=True), (V,)),
    "tuples in tuples": (
        lambda x: (
            (F.softmax(x, 1), torch.sort(x, 1)),
            (x.clamp(min=0.5), x.clamp(0.1, 0.5), F.hardtanh(x)),
            (x.narrow(1, 0, 2), x.squeeze(), torch.cumsum(x, 1, dtype=torch.int32), torch.lerp(x, x + 1, x)),
            (x.new_ones(2, 3), x.new_zeros(4), torch.where(x > 0, x, -x)),
        ),
        (V,),
    ),
    "a part of several": (
        lambda x: (torch.sort(x, 1)[1], torch.topk(x, 2, 1)[0], x.split(1, 1)[2], x.chunk(2, 1)),
        (V,),
    ),
    "a cast that changes nothing": (lambda x: x.float(), (V,)),
    "norms": (lambda x: (torch.norm(x), torch.norm(x, p=2.0)), (V,)),
    "what is read of places": (
        lambda x, y: (torch.take(x, y), torch.diagonal(y.reshape(2, 2)), torch.zeros_like(y)),
        (torch.zeros(4), torch.tensor([1, 3, 0, 2])),
    ),
    "bounds that are tensors": (lambda x, y: torch.clamp(x, min=y, max=y + 1), (V, V)),
    "slopes for negatives": (lambda x, y: F.prelu(x, y), (V, torch.ones(1))),
    "a smaller image": (lambda x: F.interpolate(x, (5, 5)), (X,)),
    "images": (
        lambda x: (
            F.max_pool2d(F.avg_pool2d(x, 2), 2),
            F.interpolate(x, scale_factor=2.0, mode="bilinear"),
            F.interpolate(x, scale_factor=(1.5, 1.0), mode="bicubic"),
        ),
        (X,),
    ),
}


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Single(Model):
    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Pair(Model):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


@pytest.mark.parametrize(("function", "args"), CASES.values(), ids=CASES)
def test_an_exported_program_is_read_as_relax_reads_it(function, args) -> None:
    program = export(Model(function), args)
    rx.assert_structural_equal(read_here(program), read_back(read_there(program)))


@pytest.mark.parametrize(("model", "args"), LAYERS.values(), ids=LAYERS)
def test_an_exported_model_with_weights_is_read_as_relax_reads_it(model, args) -> None:
    rx.assert_structural_equal(read_here(export(model, args)), read_back(read_there(export(model, args))))


@pytest.mark.parametrize(("model", "args"), LAYERS.values(), ids=LAYERS)
def test_what_is_read_computes_what_pytorch_computes(model, args) -> None:
    inputs = [torch.randint(0, 5, x.shape) if x.dtype == torch.int64 else torch.randn(x.shape) for x in args]
    program = read_here(export(model.eval(), tuple(args)))
    (found,) = rx.build(program, "numpy")["main"](*[x.numpy() for x in inputs])
    torch.testing.assert_close(torch.as_tensor(found), model(*inputs).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("function", "args"), TRACED.values(), ids=TRACED)
def test_a_traced_model_is_read_as_relax_reads_it(function, args) -> None:
    model = torch.fx.symbolic_trace((Single if len(args) == 1 else Pair)(function))
    info = [(tuple(arg.shape), str(arg.dtype).removeprefix("torch.")) for arg in args]
    here = trace_here(model, info)
    rx.assert_structural_equal(here, read_back(trace_there(model, info)))
    if function is not CASES["dropout in training"][0]:
        inputs = [torch.randn(arg.shape) if arg.is_floating_point() else arg for arg in args]
        found = rx.build(here, "numpy")["main"](*[x.numpy() for x in inputs])
        expected = torch.utils._pytree.tree_leaves(function(*[x.clone() for x in inputs]))
        for ours, real in zip(torch.utils._pytree.tree_leaves(found), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(ours), real, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function", [lambda x: x.size(), lambda x: x.shape[0], lambda x: (x + 1, None), torch.is_floating_point]
)
def test_results_that_are_no_tensors_are_those_of_relax(function) -> None:
    model = torch.fx.symbolic_trace(Single(function))
    info = [([2, 4], "float32")]
    rx.assert_structural_equal(
        trace_here(model, info)["main"].ret_ty, read_back(trace_there(model, info))["main"].ret_ty
    )


def test_a_traced_model_is_read_for_any_size() -> None:
    model = torch.fx.symbolic_trace(Pair(lambda x, y: torch.relu(x) + y.sum(1, keepdim=True)))
    here = trace_here(model, [([T.Var("n", "int64"), 4], torch.float32)] * 2)
    n = tvm.tirx.Var("n", "int64")
    rx.assert_structural_equal(here, read_back(trace_there(model, [([n, 4], "float32")] * 2)))


def test_traced_weights_are_parameters_sorted_by_name() -> None:
    layers = OrderedDict(linear=nn.Linear(10, 4), after=nn.LayerNorm(4))
    model = torch.fx.symbolic_trace(nn.Sequential(layers))
    info = [([1, 3, 10, 10], "float32")]
    here = trace_here(model, info, keep_params_as_input=True)["main"]
    there = trace_there(model, info, keep_params_as_input=True)
    weights = dict(model.named_parameters())
    assert [value.shape for value in here.attrs["params"]] == [tuple(weights[name].shape) for name in sorted(weights)]
    there["main"] = there["main"].without_attr("params")
    rx.assert_structural_equal(here.without_attr("params"), read_back(there)["main"])


@pytest.mark.parametrize("name", ["norms with weights", "an embedding"])
def test_operators_that_are_not_taken_apart_are_read_as_relax_reads_them(name) -> None:
    model, args = LAYERS[name]
    program = export(nn.Sequential(model, nn.Hardswish()), args)
    here, there = (read(program, run_ep_decomposition=False) for read in (read_here, read_there))
    rx.assert_structural_equal(here, read_back(there))


def test_the_weights_are_parameters_when_they_are_kept_as_input() -> None:
    model, args = LAYERS["convolution, norm, linear"]
    here = read_here(export(model, args), keep_params_as_input=True)["main"]
    there = read_there(export(model, args), keep_params_as_input=True)
    assert [value.shape for value in here.attrs["params"]] == [tuple(p.shape) for p in model.parameters()]
    there["main"] = there["main"].without_attr("params")
    rx.assert_structural_equal(here.without_attr("params"), read_back(there)["main"])


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


def test_new_values_of_buffers_are_no_results() -> None:
    program = export(Counter(), (V,))
    here, there = read_here(program)["main"], read_back(read_there(program))["main"]
    rx.assert_structural_equal(here.ret_ty, there.ret_ty)
    (found,) = rx.build(here, "numpy")["main"](V.numpy())
    assert (found == 1).all()


def test_the_bounds_of_sizes_are_attributes() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = export(Model(lambda x: torch.relu(x) + 1), (V,), dynamic_shapes={"args": ({0: batch},)})
    rx.assert_structural_equal(read_here(program), read_back(read_there(program)))


@pytest.mark.parametrize("options", [{"unwrap_unit_return_tuple": True}, {"no_bind_return_tuple": True}])
def test_the_results_are_returned_as_the_options_say(options) -> None:
    for name in ("one call", "two results"):
        program = export(Model(CASES[name][0]), CASES[name][1])
        rx.assert_structural_equal(read_here(program, **options), read_back(read_there(program, **options)))


def _subtraction(package: Any) -> Callable[[Any, Any], Any]:
    def convert(node: torch.fx.Node, importer: Any) -> Any:
        left, right = (importer.env[argument] for argument in node.args)
        return importer.block_builder.emit(package.op.subtract(left, right))

    return convert


def test_a_conversion_of_the_caller_comes_before_those_that_are_there() -> None:
    program = export(Model(lambda x: torch.relu(x) + x), (V,))
    here = read_here(program, custom_convert_map={"add.Tensor": _subtraction(rx)})
    there = read_there(program, custom_convert_map={"add.Tensor": _subtraction(theirs)})
    rx.assert_structural_equal(here, read_back(there))
    assert "R.subtract" in here.script()
    for name in ("add", "aten.add.Tensor"):
        rx.assert_structural_equal(read_here(program, custom_convert_map={name: _subtraction(rx)}), here)


def test_a_conversion_that_gives_another_shape_is_named() -> None:
    program = export(Model(lambda x: x + x), (V,))
    with pytest.raises(ConvertError, match="PyTorch has"):
        read_here(
            program, custom_convert_map={"add": lambda node, importer: rx.op.sum(importer.retrieve_args(node)[0])}
        )
