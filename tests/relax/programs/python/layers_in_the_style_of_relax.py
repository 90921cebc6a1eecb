import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op, spec, Module, Tensor, Parameter, modules


def _exp(mod, sp, **kw):
    r = mod.export_tvm(spec=sp, **kw)
    return r[0]


def t_relu():
    return _exp(modules.ReLU(), {"forward": {"x": spec.Tensor((3, 3), "float32")}}, debug=True)


def t_silu():
    return _exp(modules.SiLU(), {"forward": {"x": spec.Tensor((3, 3), "float32")}}, debug=True)


def t_gelu():
    return _exp(modules.GELU(), {"forward": {"x": spec.Tensor((3, 3), "float32")}}, debug=True)


def t_identity():
    return _exp(modules.Identity(), {"forward": {"x": spec.Tensor((3, 3), "float32")}}, debug=True)


def t_linear():
    return _exp(modules.Linear(4, 8), {"forward": {"x": spec.Tensor((1, 4), "float32")}}, debug=True)


def t_conv1d():
    return _exp(modules.Conv1D(3, 32, 3, bias=True), {"forward": {"x": spec.Tensor([1, 3, 32], "float32")}}, debug=True)


def t_conv1dt():
    return _exp(
        modules.ConvTranspose1D(3, 32, 3, bias=True), {"forward": {"x": spec.Tensor([1, 3, 30], "float32")}}, debug=True
    )


def t_layer_norm():
    return _exp(modules.LayerNorm(8), {"forward": {"x": spec.Tensor((2, 4, 8), "float32")}}, debug=True)


def t_conv2d():
    return _exp(
        modules.Conv2D(3, 32, 3, bias=True), {"forward": {"x": spec.Tensor([1, 3, 32, 32], "float32")}}, debug=True
    )


def t_conv2d_dyn():
    return _exp(
        modules.Conv2D(3, 32, 3, bias=True), {"forward": {"x": spec.Tensor(["n", 3, "h", "w"], "float32")}}, debug=True
    )


def t_conv3d():
    return _exp(
        modules.Conv3D(3, 8, 3, bias=True), {"forward": {"x": spec.Tensor([1, 3, 8, 8, 8], "float32")}}, debug=True
    )


def t_rms_norm():
    return _exp(modules.RMSNorm(8, [2], bias=False), {"forward": {"x": spec.Tensor((2, 4, 8), "float32")}}, debug=True)


def t_group_norm():
    return _exp(
        modules.GroupNorm(num_groups=2, num_channels=4),
        {"forward": {"x": spec.Tensor((2, 4, 8), "float32")}},
        debug=True,
    )


def t_embedding():
    return _exp(modules.Embedding(4, 8, "float32"), {"forward": {"x": spec.Tensor((1, 4), "int32")}}, debug=True)


def t_embedding2():
    return _exp(modules.Embedding(4, 8, "float32"), {"forward": {"x": spec.Tensor((4,), "int32")}}, debug=True)


def t_timesteps():
    return _exp(modules.Timesteps(10), {"forward": {"x": spec.Tensor((3,), "float32")}}, debug=True)


def t_kv_cache():
    class KVCacheTest(modules.Module):
        def __init__(self):
            self.cache = modules.KVCache(10, [2, 4])

        def forward(self, x: nn.Tensor):
            self.cache.append(x)
            return self.cache.view(4)

    return _exp(KVCacheTest(), {"forward": {"x": spec.Tensor((2, 4), "float32")}}, debug=True)


def t_attention():
    return _exp(
        modules.Attention(query_dim=32, cross_attention_dim=16, heads=2, dim_head=8, bias=True, norm_num_groups=8),
        {
            "forward": {
                "hidden_states": spec.Tensor((2, 4, 32), "float32"),
                "encoder_hidden_states": spec.Tensor((2, 4, 16), "float32"),
            }
        },
        debug=True,
    )


def t_nn_module_list_input():
    class Layer(nn.Module):
        def __init__(self):
            pass

        def forward(self, x: list):
            return nn.add(x[0], x[1])

    return _exp(
        Layer(), {"forward": {"x": [spec.Tensor((10, 5), "float32"), spec.Tensor((10, 5), "float32")]}}, debug=True
    )


def t_module_list():
    class M(nn.Module):
        def __init__(self):
            self.ls = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)])

        def forward(self, x):
            return self.ls(x)

    m = M()
    return [
        [n for n, _ in m.named_parameters()],
        len(m.ls),
        _exp(m, {"forward": {"x": spec.Tensor((1, 4), "float32")}}),
    ]


def t_module_dict():
    class M(nn.Module):
        def __init__(self):
            self.d = nn.ModuleDict({"a": nn.Linear(4, 4, bias=False), "b": nn.Linear(4, 2, bias=False)})

        def forward(self, x):
            for k in self.d.keys():
                x = self.d[k](x)
            return x

    m = M()
    return [
        [n for n, _ in m.named_parameters()],
        list(m.d.keys()),
        _exp(m, {"forward": {"x": spec.Tensor((1, 4), "float32")}}),
    ]


def t_param_list():
    class M(nn.Module):
        def __init__(self):
            self.p = nn.ParameterList([nn.Parameter((4, 4), "float32"), nn.Parameter((4, 2), "float32")])

        def forward(self, x):
            for p in self.p:
                x = op.matmul(x, p)
            return x

    m = M()
    return [[n for n, _ in m.named_parameters()], _exp(m, {"forward": {"x": spec.Tensor((1, 4), "float32")}})]


def t_state_dict():
    m = nn.Linear(3, 2)
    sd = m.state_dict()
    m.load_state_dict({k: nn.Parameter(v.shape, v.dtype) for k, v in sd.items()})
    return [list(sd.keys()), [list(v.shape) for v in sd.values()], [v.dtype for v in sd.values()]]


def t_load_bad():
    m = nn.Linear(3, 2)
    return m.load_state_dict({"zz": nn.Parameter((1,), "float32")})


def t_to():
    m = nn.Linear(3, 2)
    m.to("float16")
    return [p.dtype for p in m.parameters()]


def t_to_attr():
    m = nn.Linear(3, 2)
    return [m.weight.dtype, list(m.weight.shape), m.weight.ndim, m.bias is not None, m.in_features, m.out_features]


def t_tensor_props():
    x = Tensor.from_scalar(3.0, "float32")
    y = Tensor.from_const(np.ones((2, 3), "float32"))
    return [list(x.shape), x.dtype, x.ndim, list(y.shape), y.dtype, isinstance(y._expr, relax.Expr)]


def t_placeholder():
    x = Tensor.placeholder((3, 4), "float16", name="foo")
    return [list(x.shape), x.dtype, x._expr.name]


def t_manipulate():
    class M(Module):
        def forward(self, x: Tensor):
            z0 = op.broadcast_to(x, [2, 5, 2])
            z1 = op.permute_dims(x, [2, 1, 0])
            z2 = op.reshape(x, [1, 10])
            z3 = op.repeat(x, repeats=2, axis=1)
            z4 = op.squeeze(x, 0)
            z5 = op.unsqueeze(x, 0)
            z6 = op.concat([x, x], dim=0)
            return z0, z1, z2, z3, z4, z5, z6

    return _exp(M(), {"forward": {"x": spec.Tensor([1, 5, 2], "float32")}}, debug=True)


def t_split():
    class M(Module):
        def forward(self, x: Tensor):
            return op.split(x, 2, axis=1), op.chunk(x, 2, dim=0)

    return _exp(M(), {"forward": {"x": spec.Tensor([2, 4], "float32")}})


def t_datatype():
    class M(Module):
        def forward(self, x: Tensor):
            return op.astype(x, "float16"), x.astype("int32")

    return _exp(M(), {"forward": {"x": spec.Tensor([3], "float32")}})


def t_create():
    class M(Module):
        def forward(self, x: Tensor):
            return (
                op.triu(x),
                op.full([10, 10], 10, "float32"),
                op.zeros((2, 2)),
                op.ones((2, 2), "int32"),
                op.arange(0, 10),
                op.empty([2, 3]),
                op.full([2], 3.0),
            )

    return _exp(M(), {"forward": {"x": spec.Tensor([10, 10], "float32")}})


def t_extern():
    class M(Module):
        def forward(self, q: Tensor):
            return op.extern(name="ext", args=[q, 3], out=Tensor.placeholder((1, 2), "float32"))

    return _exp(M(), {"forward": {"q": spec.Tensor([1, 4], "float32")}})


def t_spec_int():
    class M(Module):
        def forward(self, x: Tensor, n: tirx.Var):
            return op.broadcast_to(x, [n, 3])

    return _exp(M(), {"forward": {"x": spec.Tensor([1, 3], "float32"), "n": int}})


def t_module_spec():
    class M(Module):
        def __init__(self):
            self.l = nn.Linear(4, 4, bias=False)

        def forward(self, x: Tensor):
            return self.l(x)

    m = M()
    s = spec.ModuleSpec.from_raw({"forward": {"x": spec.Tensor([1, 4], "float32")}}, m)
    return [list(s.method_names), s.method_specs[0].arg_names, str(s.method_specs[0].arg_specs[0])]


def t_default_dtype():
    return [nn.get_default_dtype(), nn.Linear(2, 2).weight.dtype]


def t_subroutine():
    class Act(nn.Module, nn.SubroutineMixin):
        define_subroutine = True

        def forward(self, x):
            return op.relu(x)

    class L(Module):
        define_subroutine = True

        def __init__(self, a, b):
            self.w = nn.Parameter((a, b), "float32")
            self.act = Act()

        def forward(self, x):
            return self.act(op.matmul(x, self.w))

    return _exp(
        L(4, 3),
        {"forward": {"x": spec.Tensor(("n", 4), "float32")}},
    )
