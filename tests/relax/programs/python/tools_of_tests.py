"""Programs that use the tools with which Relax's own tests are written."""

import numpy as np
import tvm
import tvm.testing
from tvm import relax
from tvm import te, topi  # noqa: F401
from tvm.relax.backend import DispatchSampling, DispatchSortScan  # noqa: F401
from tvm.relax.backend.cuda.cublas import partition_for_cublas  # noqa: F401
from tvm.relax.backend.utils import BackendDispatcher  # noqa: F401
from tvm.relax.distributed import DeviceMesh  # noqa: F401
from tvm.relax.frontend.stablehlo import from_stablehlo  # noqa: F401
from tvm.relax.testing import nn
from tvm.relax.testing.attention import get_relax_attention_module, get_relax_stacked_attention_module
from tvm.relax.testing.lib_comparator import LibCompareVMInstrument  # noqa: F401
from tvm.relax.testing.matmul import get_relax_matmul_module
from tvm.relax.testing.nn import checkpoint, emit_checkpoint, emit_checkpoint_sequential
from tvm.relax.testing.runtime_builtin import MakeShapeCode, MatchShapeCode  # noqa: F401
from tvm.relax.transform import ComputePrimValue, StaticPlanBlockMemory, VMShapeLower  # noqa: F401
from tvm.relax.transform.legalize_ops.common import register_legalize  # noqa: F401
from tvm.runtime import disco as di  # noqa: F401
from tvm.script import relax as R
from tvm.script.parser.core import dispatch  # noqa: F401
from tvm.support import utils
from tvm.testing import env


def t_product():
    return get_relax_matmul_module((2, 3), (3, 4), "float16")


def t_product_transposed_with_bias_and_activation():
    return get_relax_matmul_module(
        (5, 2, 3), (5, 4, 3), "float16", "float32", transposed_y=True, bias_shape=(4,), activation=R.nn.gelu
    )


def t_product_with_residual():
    return get_relax_matmul_module(
        (4, 4), (4, 4), "float32", activation=R.nn.relu, residual_bin_op=R.multiply, residual_activation=R.nn.silu
    )


def t_attention():
    return get_relax_attention_module((2, 8, 4, 16), (2, 8, 4, 16), (2, 8, 4, 16), dtype="float16")


def t_attention_with_all():
    shape = (2, 8, 4, 16)
    return get_relax_attention_module(
        shape,
        shape,
        shape,
        dtype="float32",
        bias_shape=(2, 4, 8, 8),
        qk_scale=0.5,
        causal_mask="TopLeft",
        window_size=4,
    )


def t_stacked_attention():
    qkv, bias = np.zeros((2, 8, 3 * 4 * 16), "float16"), np.zeros((2, 4, 8, 8), "float16")
    return [
        get_relax_stacked_attention_module(qkv, 2, 8, 4, 16, 16, "split", bias),
        get_relax_stacked_attention_module(qkv, 2, 8, 4, 16, 16, "split", None, 0.25, causal_mask="BottomRight"),
        get_relax_stacked_attention_module(qkv, 2, 8, 4, 16, 16, "strided_slice", single_shape=True),
    ]


def t_checkpoint_in_a_dataflow_block():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 3), "float32"))
    y = relax.Var("y", relax.TensorType((3, 3), "float32"))

    def func(x, y, w):
        return [relax.op.power(x, y), relax.op.multiply(w, y)]

    with builder.function("main", [x, y]):
        with builder.dataflow():
            z = builder.emit(relax.op.add(x, y))
            out = emit_checkpoint(func, z, y, w=x)
            gv = builder.emit_output(relax.Tuple(out))
        builder.emit_func_output(gv)
    return builder.get()


def _sequential(segments, last):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            steps = [relax.op.sin, relax.op.cos, lambda v: nn.emit(relax.op.exp(v)), relax.op.tanh, relax.op.abs]
            out = builder.emit_output(emit_checkpoint_sequential(steps, segments, x, checkpoint_last=last))
        builder.emit_func_output(out)
    return builder.get()


def t_checkpoints_of_a_sequence():
    return [_sequential(2, False), _sequential(2, True), _sequential([0, 3], True)]


def t_checkpoint_without_bindings():
    x = relax.Var("x", relax.TensorType((3, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        out = builder.emit(checkpoint(relax.op.sin, x))
        builder.emit_func_output(out)
    return builder.get()


def t_gradient_of_checkpoints():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            lv1 = emit_checkpoint(lambda v: relax.op.power(v, relax.const(3, "float32")), x)
            gv = builder.emit_output(relax.op.sum(lv1))
        builder.emit_func_output(gv)
    return relax.transform.Gradient("main")(builder.get())["main_adjoint"]


class _Layer(nn.Module):
    def __init__(self):
        self.weight = nn.Parameter((4, 5), name="weight")
        self.others = [nn.Parameter((5,), name="bias"), {"scale": nn.Parameter((5,), "float16", name="scale")}]

    def forward(self, x):
        return nn.emit(relax.op.add(nn.emit(relax.op.matmul(x, self.weight)), self.others[0]))


def t_layers():
    builder = relax.BlockBuilder()
    with builder.function("main"):
        model = nn.Sequential(_Layer(), nn.Sequential())
        data = nn.Placeholder((3, 4), name="data")
        params = [data, *model.parameters()]
        with builder.dataflow():
            out = builder.emit_output(model(data))
        builder.emit_func_output(out, params=params)
    mod = builder.get()
    return [mod, len(model.modules[0].parameters()), [value.numpy() for value in nn.init_params(mod)]]


def t_shapes_of_layers():
    return nn.Placeholder("n")


def t_files():
    with utils.tempdir() as folder:
        path = folder.relpath("a.txt")
        (folder / "b.txt").write_text("b")
        with open(path, "w") as file:
            file.write("a")
        found = sorted(folder.listdir())
    return found


def t_devices():
    return [env.has_llvm(), env.has_multi_gpu(1000), env.has_cuda_arch("none")]


def t_values_of_layers():
    builder = relax.BlockBuilder()
    with builder.function("main"):
        model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2, bias=False), nn.LogSoftmax())
        data = nn.Placeholder((3, 4), name="data")
        out = builder.emit(model(data))
        builder.emit_func_output(out, params=[data, *model.parameters()])
    mod = builder.get()
    names = [param.name for param in mod["main"].params]
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    rng = np.random.default_rng(0)
    arrays = [
        tvm.runtime.tensor(rng.normal(size=[int(size) for size in param.ty.shape]).astype("float32"))
        for param in mod["main"].params
    ]
    return [names, machine["main"](*arrays)]
