import pytest
import numpy as np
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _check(parsed, expect=None):
    test = parsed.script(show_meta=True)
    roundtrip = tvm.script.from_source(test)
    tvm.ir.assert_structural_equal(parsed, roundtrip)
    if isinstance(parsed, IRModule) and isinstance(roundtrip, IRModule):
        assert relax.analysis.check_well_formed(parsed)
        assert relax.analysis.check_well_formed(roundtrip)
    if expect is not None:
        tvm.ir.assert_structural_equal(parsed, expect)


from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import Module, Tensor, op, spec
from tvm.relax.frontend.nn import core, modules


def ex(model, sp, debug=False):
    mod, params = model.export_tvm(spec=sp, debug=debug)
    return mod, [(n, [str(s) for s in p.shape], str(p.dtype)) for n, p in params]


def one(f, *shapes, dtype="float32"):
    if len(shapes) == 1:

        class M1(Module):
            def forward(self, a: Tensor):
                return f(a)
    else:

        class M1(Module):
            def forward(self, a: Tensor, b: Tensor):
                return f(a, b)

    names = ["a", "b"][: len(shapes)]
    return ex(M1(), {"forward": {k: spec.Tensor(list(s), dtype) for k, s in zip(names, shapes)}})


def t_unary():
    return one(lambda a: op.square(op.sqrt(a)), (1, 10))


def t_sum_max():
    return one(lambda a: (op.sum(a, axis=1), op.max(a, axis=[1, 2], keepdims=True), op.min(a, 0)), (3, 5, 2))


def t_manip():
    return one(
        lambda a: (
            op.broadcast_to(a, (2, 5, 2)),
            op.permute_dims(a, [2, 1, 0]),
            op.reshape(a, [1, 10]),
            op.repeat(a, 2, 1),
            op.squeeze(a, 0),
            op.unsqueeze(a, 1),
            op.concat([a, a], dim=0),
        ),
        (1, 5, 2),
    )


def t_split():
    return one(lambda a: op.split(a, 2, axis=1), (2, 4))


def t_chunk():
    return one(lambda a: op.chunk(a, 2, dim=-1), (2, 4))


def t_create():
    return one(
        lambda a: (
            op.triu(a),
            op.full([10, 10], fill_value=10),
            op.zeros([2]),
            op.ones([2], "float16"),
            op.arange(0, 10, 2) if hasattr(op, "arange") else a,
        ),
        (3, 3),
    )


def t_act():
    return one(
        lambda a: (
            op.relu(a),
            op.silu(a),
            op.gelu(a),
            op.gelu(a, "tanh"),
            op.sigmoid(a),
            op.softmax(a, axis=2),
            op.softplus(a, 1.0, 20.0),
            op.tanh(a),
            op.exp(a),
            op.negative(a),
        ),
        (2, 3, 4),
    )


def t_norm_ops():
    return one(lambda a, b: (op.layer_norm(a, [4], b, b, 1e-5), op.rms_norm(a, b, axes=-1)), (2, 4), (4,))


def t_group():
    return one(lambda a, b: op.group_norm(a, 2, b, b), (2, 4, 3), (4,))


def t_conv():
    return one(
        lambda a, b: (op.conv1d(a, b), op.conv1d_transpose(a, b) if False else op.conv1d(a, b, stride=2, padding=1)),
        (1, 3, 8),
        (4, 3, 3),
    )


def t_conv2d():
    return one(
        lambda a, b: op.conv2d(a, b, padding="same") if False else op.conv2d(a, b, padding=1, dilation=1),
        (1, 3, 8, 8),
        (4, 3, 3, 3),
    )


def t_matmul():
    return one(lambda a, b: op.matmul(a, b, out_dtype="float32"), (2, 3), (3, 4), dtype="float16")


def t_interp():
    return one(
        lambda a: (
            op.interpolate(a, scale_factor=2.0, mode="nearest"),
            op.interpolate(a, (8, 8), mode="bilinear", align_corners=True),
        ),
        (1, 3, 4, 4),
    )


def t_attn():
    return one(lambda a, b: op.scaled_dot_product_attention(a, b, b), (1, 8, 2, 4), (1, 8, 2, 4))


def t_where():
    return one(lambda a, b: op.where(op.less(a, b), a, b), (2, 3), (2, 3))


def t_cumsum_sort():
    return one(lambda a: (op.cumsum(a, 1), op.sort(a, 1, True), op.argsort(a, 1), op.topk(a, 2, axis=1)), (2, 4))


def t_timestep():
    return one(lambda a: op.get_timestep_embedding(a, 10), (3,))


def t_pad():
    return one(lambda a: op.pad(a, [0, 1, 2, 3]), (3, 4))


def t_print():
    return one(lambda a: op.split(op.softmax(a), [1], axis=-1), (2, 3))


def t_linear():
    class M(Module):
        def __init__(self):
            self.l = nn.Linear(4, 8, bias=False)
            self.m = nn.Linear(8, 2, out_dtype="float32")

        def forward(self, x: Tensor):
            return self.m(op.relu(self.l(x)))

    return ex(M(), {"forward": {"x": spec.Tensor(["n", 4], "float32")}})


def t_modules_all():
    class M(Module):
        def __init__(self):
            self.conv = nn.Conv2D(3, 8, 3, padding=1, bias=True)
            self.gn = nn.GroupNorm(2, 8)
            self.ln = nn.LayerNorm(8)
            self.rn = nn.RMSNorm(8, axes=-1, bias=False)
            self.act = nn.ModuleList([nn.ReLU(), nn.SiLU(), nn.GELU()])

        def forward(self, x: Tensor):
            y = self.gn(self.conv(x))
            y = op.permute_dims(y, [0, 2, 3, 1])
            y = self.rn(self.ln(y))
            for a in self.act:
                y = a(y)
            return y

    return ex(M(), {"forward": {"x": spec.Tensor([1, 3, 8, 8], "float32")}})


def t_embedding_cache():
    class M(Module):
        def __init__(self):
            self.e = nn.Embedding("vocab", 4)
            self.c = nn.KVCache(8, [2, 4])

        def forward(self, x: Tensor):
            return self.e(x)

    return ex(M(), {"forward": {"x": spec.Tensor([2], "int32")}})


def t_kv_cache():
    class M(Module):
        def __init__(self):
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x: Tensor):
            self.cache.append(x)
            return self.cache.view(4)

    return ex(M(), {"forward": {"x": spec.Tensor([2, 2, 4], "float32")}}, debug=True)


def t_two_methods():
    class M(Module):
        def __init__(self):
            self.w = nn.Parameter((4, 4), "float32")

        def prefill(self, x: Tensor, n: int):
            return op.matmul(x, self.w)

        def decode(self, x: Tensor):
            return op.add(x, self.w)

    return ex(
        M(),
        {
            "prefill": {"x": spec.Tensor([1, "s", 4], "float32"), "n": int},
            "decode": {"x": spec.Tensor([4, 4], "float32"), "$": {"param_mode": "plain", "effect_mode": "none"}},
        },
    )


def t_param_modes():
    class M(Module):
        def __init__(self):
            self.w = nn.Parameter((4, 4), "float32")

        def forward(self, x: Tensor):
            return op.matmul(x, self.w)

    return [
        ex(M(), {"forward": {"x": spec.Tensor([1, 4], "float32"), "$": {"param_mode": p, "effect_mode": "none"}}})[0]
        for p in ("plain", "packed")
    ]


def t_param_mode_none():
    class M(Module):
        def __init__(self):
            self.w = nn.Parameter((4, 4), "float32")

        def forward(self, x: Tensor):
            return op.matmul(x, self.w)

    with pytest.raises(Exception):
        ex(M(), {"forward": {"x": spec.Tensor([1, 4], "float32"), "$": {"param_mode": "wrong"}}})


def t_nested_modules():
    class A(Module):
        def __init__(self):
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return self.l(x)

    class B(Module):
        def __init__(self):
            self.items = nn.ModuleList([A(), A()])

        def forward(self, x: Tensor):
            for i in self.items:
                x = i(x)
            return x

    b = B()
    return (
        [n for n, _ in b.named_parameters()],
        len(list(b.parameters())),
        sorted(b.state_dict()),
        ex(b, {"forward": {"x": spec.Tensor([1, 4], "float32")}}),
    )


def t_load_state_dict():
    class A(Module):
        def __init__(self):
            self.w = nn.Parameter((2,), "float32")

    a = A()
    missing, unexpected = (
        a.load_state_dict({"w": np.ones(2, "float32"), "z": np.ones(2, "float32")}, strict=False) if False else ([], [])
    )
    a.w.data = np.full(2, 3.0, "float32")
    return np.asarray(a.w.data.numpy() if hasattr(a.w.data, "numpy") else a.w.data)


def t_to_dtype():
    class A(Module):
        def __init__(self):
            self.w = nn.Parameter((2,), "float32")
            self.l = nn.Linear(2, 2)

    a = A()
    a.to("float16")
    return [str(p.dtype) for p in a.parameters()]


def t_mutator():
    class Sub(Module):
        def __init__(self):
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return self.l(x)

    class Mut(nn.Mutator):
        def visit_module(self, name, node, *a, **k):
            if isinstance(node, nn.Linear):
                return nn.Linear(4, 4, bias=False)
            return super().visit_module(name, node, *a, **k)

    s = Mut().visit("", Sub()) if hasattr(nn.Mutator, "visit") else Mut().visit_module("", Sub())
    return [n for n, _ in s.named_parameters()]


def t_subroutine():
    class A(Module):
        define_subroutine = True

        def __init__(self):
            self.w = nn.Parameter((4, 4), "float32")

        def forward(self, x: Tensor):
            return op.matmul(x, self.w)

    class B(Module):
        def __init__(self):
            self.a = A()

        def forward(self, x: Tensor):
            return self.a(self.a(x))

    return ex(B(), {"forward": {"x": spec.Tensor([2, 4], "float32")}})


def t_default_dtype():
    nn.modules.set_default_dtype("float16") if hasattr(nn.modules, "set_default_dtype") else core.set_default_dtype(
        "float16"
    )
    try:
        return str(nn.Linear(2, 2).weight.dtype), core.get_default_dtype()
    finally:
        core.set_default_dtype("float32")


def t_extern():
    class M(Module):
        def forward(self, x: Tensor):
            return op.extern("my.add", [x, x], out=Tensor.placeholder(x.shape, x.dtype))

    return ex(M(), {"forward": {"x": spec.Tensor([2, 4], "float32")}})


def t_jit_numpy():
    class M(Module):
        def __init__(self):
            self.l = nn.Linear(4, 2)

        def forward(self, x: Tensor):
            return self.l(x)

    m = M()
    m.l.weight.data = np.ones((2, 4), "float32")
    m.l.bias.data = np.zeros(2, "float32")
    f = m.jit(spec={"forward": {"x": spec.Tensor([1, 4], "float32")}}, device="cpu", out_format="torch")
    import torch

    r = f["forward"](torch.ones(1, 4))
    return r.numpy()


def t_tensor_api():
    t = Tensor.placeholder(["n", 3], "float32", name="t")
    c = Tensor.from_scalar(1.0, "float32")
    return t.ndim, str(t.dtype), [str(s) for s in t.shape], c.ndim


def t_object_spec():
    class M(Module):
        def forward(self, x: Tensor, c: nn.Object):
            return x

    return ex(M(), {"forward": {"x": spec.Tensor([2], "float32"), "c": spec.Object(object_type=nn.Object)}})
