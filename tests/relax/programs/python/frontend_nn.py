"""Models written as modules, and what is exported of them."""

from tvm import relax
from tvm import tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import Tensor, op, spec

import numpy as np


def exported(forward, *, debug=False, mode=None, **inputs):
    """The program of one method, whose inputs are ``[dtype, *sizes]`` or specifications."""

    class Model(nn.Module):
        pass

    Model.forward = forward
    stated = {
        name: spec.Tensor(given[1:], given[0]) if isinstance(given, list) and isinstance(given[0], str) else given
        for name, given in inputs.items()
    }
    if mode:
        stated["$"] = mode
    return Model().export_tvm({"forward": stated}, debug=debug)[0]


def of(module, *, debug=False, dtype="float32", **inputs):
    """The program of a module's ``forward``, and the names and types of its parameters."""
    stated = {name: given if isinstance(given, type) else spec.Tensor(given, dtype) for name, given in inputs.items()}
    program, parameters = module.export_tvm({"forward": stated}, debug=debug)
    return program, [(name, str(parameter)) for name, parameter in parameters]


F = "float32"


def t_unary_operators():
    return exported(
        lambda self, x: (
            op.sqrt(x),
            op.square(x),
            op.exp(x),
            op.log(x),
            op.floor(x),
            op.negative(x),
            op.relu(x),
            op.relu6(x),
            op.silu(x),
            op.gelu(x),
            op.gelu(x, "tanh"),
            op.sigmoid(x),
            op.tanh(x),
            op.softmax(x),
            op.softmax(x, 0),
            op.softplus(x),
            op.softplus(x, 2.0, 3.0),
            op.triu(x, 1),
            op.ccl_allreduce(x),
            op.ccl_allgather(x, 2),
            op.ccl_broadcast_from_worker0(x),
        ),
        x=[F, 2, 3],
    )


def t_binary_operators():
    return exported(
        lambda self, x, y: (
            op.add(x, y),
            op.subtract(x, y),
            op.multiply(x, y),
            op.divide(x, y),
            op.maximum(x, y),
            op.minimum(x, y),
            op.equal(x, y),
            op.not_equal(x, y),
            op.less(x, y),
            op.less_equal(x, y),
            op.greater(x, y),
            op.greater_equal(x, y),
            op.where(op.greater(x, y), x, y),
        ),
        x=[F, 2, 3],
        y=[F, 1, 3],
    )


def t_python_operators():
    return exported(
        lambda self, x, y: (
            x + y,
            x - y,
            x * y,
            x / y,
            x + 1,
            1 + x,
            2 - x,
            x - 2,
            x / 2,
            x * 2.0,
            2 * x,
            x < y,
            x <= 1,
            x > 2.0,
            x >= y,
            x.maximum(y),
            x.minimum(y),
            x.astype("float16"),
            x.astype("float32"),
            x.reshape(3, 2),
            x.permute_dims(1, 0),
            x.repeat(2, 0),
        ),
        x=[F, 2, 3],
        y=[F, 2, 3],
    )


def t_integers_take_no_fractions():
    return exported(lambda self, x: (x + 1, x * 2, 3 - x), x=["int32", 2, 4])


def t_reductions():
    return exported(
        lambda self, x: (
            op.sum(x, 1, True),
            op.sum(x, -1),
            op.max(x, keepdims=True),
            op.max(x, [0, 1]),
            op.min(x, [0]),
            op.cumsum(x, 1),
            op.cumsum(x),
            op.cumsum(x, 1, "int32", True),
            op.sort(x),
            op.sort(x, 0, True),
            op.argsort(x, 0, True),
            op.topk(x, 2),
            op.topk(x, 2, 0, "indices", False, "int64"),
            op.topk(x, 2, ret_type="values"),
        ),
        x=[F, 2, 4],
    )


def t_shapes():
    return exported(
        lambda self, x: (
            op.permute(x, [1, 0]),
            op.permute_dims(x),
            op.reshape(x, [-1]),
            op.reshape(x, (4, 2)),
            op.unsqueeze(x, 0),
            op.squeeze(op.unsqueeze(x, 0), 0),
            op.repeat(x, 2, 1),
            op.repeat(x, 2),
            op.broadcast_to(x, [3, 2, 4]),
            op.concat([x, x], 1),
            op.pad(x, [1, 1, 0, 2]),
            op.pad(x, [1, 1, 0, 0], "reflect", 2.0),
        ),
        x=[F, 2, 4],
    )


def t_symbolic_shapes():
    return exported(
        lambda self, x: (x.reshape(x.shape[1], x.shape[0]), op.reshape(x, [-1]), op.zeros([x.shape[0], 2])),
        x=[F, "n", "m"],
    )


def t_parts():
    return exported(lambda self, x: (op.split(x, 2, 1), op.split(x, [1, 2], 1), op.chunk(x, 2, 0)), x=[F, 2, 4])


def t_nested_values():
    return exported(lambda self, x: nn.wrap_nested(relax.op.split(x._expr, 2, 0), "parts"), x=[F, 2, 4])


def t_new_tensors():
    return exported(
        lambda self, x: (
            op.zeros([2, 3]),
            op.ones([2], "int32"),
            op.full([2], 3.0),
            op.full([2], 3),
            op.full([2], 1, "int32"),
            op.full([2], op.sum(x)),
            op.empty([2], "int32"),
            op.arange(5),
            op.arange(1, 10, 2, "int32"),
        ),
        x=[F, 2, 4],
    )


def t_take_and_matmul():
    return exported(
        lambda self, x, i: (
            op.take(x, i, 0),
            op.matmul(x, op.permute_dims(x)),
            op.matmul(x, op.permute_dims(x), "float32"),
        ),
        x=["float16", 2, 4],
        i=["int32", 3],
    )


def t_convolutions():
    return exported(
        lambda self, x, w, b: (
            op.conv2d(x, w, b, 2, 1, 1, 1),
            op.conv2d(x, w),
            op.conv2d(x, w, None, (1, 2), (1, 2)),
            op.conv2d(x, w, None, 1, [1, 2, 3, 4]),
        ),
        x=[F, 1, 3, 8, 8],
        w=[F, 3, 3, 3, 3],
        b=[F, 3],
    )


def t_convolutions_of_one_axis():
    return exported(
        lambda self, x, w, b: (
            op.conv1d(x, w, b, 2, 1),
            op.conv1d(x, w),
            op.conv1d_transpose(x, w, b, 2, 1, 1, 1, 1),
        ),
        x=[F, 1, 3, 8],
        w=[F, 3, 3, 3],
        b=[F, 3],
    )


def t_convolutions_of_three_axes():
    return exported(
        lambda self, x, w, b: (op.conv3d(x, w, b), op.conv3d(x, w, None, (1, 2, 2), (0, 1, 1))),
        x=[F, 1, 3, 8, 8, 8],
        w=[F, 3, 3, 3, 3, 3],
        b=[F, 3],
    )


def t_convolution_with_channels_last():
    return exported(
        lambda self, x, w, b: op.conv2d(x, w, b, data_layout="NHWC"), x=[F, 1, 8, 8, 3], w=[F, 4, 3, 3, 3], b=[F, 4]
    )


def t_interpolate():
    return exported(
        lambda self, x: (
            op.interpolate(x, (16, 16)),
            op.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
            op.interpolate(x, 16, None, "bicubic", True),
            op.interpolate(x, None, (2, 3), "nearest-exact"),
            op.interpolate(x, (4, 4), None, "linear", True),
        ),
        x=[F, 1, 3, 8, 8],
    )


def t_norms():
    return exported(
        lambda self, x, w: (
            op.rms_norm(x, w, -1),
            op.rms_norm(x, w, [-1], 1e-6),
            op.layer_norm(x, 4, w, w),
            op.layer_norm(x, [4], w, w, 1e-6),
        ),
        x=[F, 2, 4],
        w=[F, 4],
    )


def t_group_norm():
    return exported(
        lambda self, x, w: (op.group_norm(x, 2, w, w), op.group_norm(x, 2, w, w, 1e-6, 1, [2])),
        x=[F, 1, 4, 8, 4],
        w=[F, 4],
    )


def t_prelu():
    return exported(lambda self, x, a: op.prelu(x, a), x=[F, 2, 3], a=[F, 3])


def t_attention():
    return exported(
        lambda self, q, k: (
            op.scaled_dot_product_attention(q, k, k),
            op.scaled_dot_product_attention(q, k, k, scale=0.5),
            op.scaled_dot_product_attention(q, k, k, is_causal=True),
        ),
        q=[F, 1, 8, 2, 4],
        k=[F, 1, 8, 2, 4],
    )


def t_timestep_embedding():
    return exported(
        lambda self, x: (
            op.get_timestep_embedding(x, 32),
            op.get_timestep_embedding(x, 8, True, 0, 2.0, 100),
        ),
        x=["int32", 3],
    )


def t_timestep_embedding_of_floats():
    return exported(lambda self, x: op.get_timestep_embedding(x, 32), x=[F, 3])


def t_multinomial():
    return exported(
        lambda self, x, u, i: op.multinomial_from_uniform(x, u, i, "int32"), x=[F, 3, 5], u=[F, 6, 1], i=["int64", 6, 1]
    )


def t_extern():
    return exported(lambda self, x: op.extern("foo", [x, 3, "s"], Tensor.placeholder([2, 4], "float32")), x=[F, 2, 4])


def t_extern_of_a_size():
    return exported(
        lambda self, x: op.extern("foo", [x, x.shape[0]], Tensor.placeholder([x.shape[0], 4], "float32")), x=[F, "n", 4]
    )


def t_constants():
    return exported(
        lambda self, x: (x * Tensor.from_scalar(3, "float32"), x + Tensor.from_const(np.float32(2))), x=[F, 2]
    )


def t_debug_functions():
    def forward(self, x):
        op.debug_func("my.func", x, 1, 2.0, "s", _line_info="here:1")
        op.debug_func("my.func", x, _line_info="here:2")
        return x

    return exported(forward, debug=True, x=[F, 2, 4])


def t_debug_functions_need_debug():
    return exported(lambda self, x: (op.debug_func("my.func", x), x)[1], x=[F, 2, 4])


def t_results():
    return [
        exported(lambda self, x: x, x=[F, "n"]),
        exported(lambda self, x: x, debug=True, x=[F, "n"]),
        exported(lambda self, x: (x,), x=[F, "n"]),
        exported(lambda self, x: [x, (x, [x])], x=[F, "n"]),
        exported(lambda self, x: nn.Object(_expr=relax.op.null_value(), _name="q"), x=[F, 2]),
    ]


def t_results_that_are_none():
    return exported(lambda self, x: None, x=[F, 2])


def t_results_that_are_dictionaries():
    return exported(lambda self, x: {"a": x}, x=[F, 2])


def t_inputs():
    stated = {"x": spec.Tensor(["n", 4], F), "k": int, "c": spec.Object(object_type=nn.Object)}
    return [
        exported(lambda self, x, k, c: (op.zeros([k, 2]), x, c), **stated),
        exported(lambda self, x: (op.relu(x[0]), x[1]), x=[spec.Tensor([1, 4], F), spec.Tensor(["n"], F)]),
        exported(lambda self, x: (op.relu(x[0]), x[1]), x=(spec.Tensor([1, 4], F), (spec.Tensor(["n"], F),))),
        exported(lambda self, x, k: op.reshape(x, [k, 2]), x=spec.Tensor(["k", 2], F), k=spec.Int()),
    ]


def t_an_input_that_is_missing():
    return exported(lambda self, x, y: x, x=[F, 2])


def t_an_input_that_is_unknown():
    return exported(lambda self, x: x, x=[F, 2], y=[F, 2])


def t_an_input_that_is_no_specification():
    return exported(lambda self, x: x, x=3)


def t_a_mode_that_is_unknown():
    return exported(lambda self, x: x, x=[F, 2], mode={"param_mode": "some"})


def t_linear():
    return [
        of(nn.Linear(4, 8), x=["b", 4]),
        of(nn.Linear(4, 8, bias=False), debug=True, x=["b", 4]),
        of(nn.Linear(3, 4, dtype="float16", out_dtype="float32"), dtype="float16", x=[2, 3]),
        of(nn.Linear(4, "n"), x=[1, 4]),
        of(nn.Linear("n", 4), x=[1, "n"]),
    ]


def t_layers():
    return [
        of(nn.Conv1D(3, 4, 3, 2, 1), x=[1, 3, 8]),
        of(nn.Conv2D(3, 4, 3), x=[1, 3, 8, 8]),
        of(nn.Conv2D(4, 4, [3, 2], 1, 1, 1, 2, False), x=[1, 4, 8, 8]),
        of(nn.Conv2D(3, 4, 3, data_layout="NHWC"), x=[1, 8, 8, 3]),
        of(nn.Conv3D(3, 4, 3), x=[1, 3, 8, 8, 8]),
        of(nn.ConvTranspose1D(3, 4, 3), x=[1, 3, 8]),
        of(nn.GroupNorm(2, 4), x=[2, 4, 3, 3]),
        of(nn.RMSNorm(4, -1), x=[2, 4]),
        of(nn.RMSNorm(4, [-1], bias=False), x=[2, 4]),
        of(nn.LayerNorm(4), x=[2, 4]),
        of(nn.ReLU(), x=[3]),
        of(nn.SiLU(), x=[3]),
        of(nn.GELU(), x=[3]),
        of(nn.modules.Identity(), x=[3]),
    ]


def t_embedding():
    return [of(nn.Embedding(5, 4), dtype="int32", x=[3, 2]), of(nn.Embedding("v", 4), dtype="int32", x=["n"])]


def t_diffusion_layers():
    return [
        of(nn.modules.TimestepEmbedding(4, 8), sample=[1, 4]),
        of(nn.modules.TimestepEmbedding(4, 8, "silu", 16, None, 2), sample=[1, 4], condition=[1, 2]),
        of(nn.modules.Timesteps(32), x=[3]),
        of(nn.modules.Attention(16, 8, 2, 4), hidden_states=[1, 8, 16], encoder_hidden_states=[1, 3, 8]),
        of(
            nn.modules.Attention(16, None, 2, 4, True, 2, False),
            hidden_states=[1, 8, 16],
            encoder_hidden_states=[1, 8, 16],
        ),
        of(nn.modules.Attention(16, None, 2, 4), hidden_states=[1, 8, 16]),
    ]


class Everything(nn.Module):
    """A model that owns something of each kind."""

    def __init__(self):
        self.cache = nn.KVCache(10, [2, 4])
        self.w = nn.Parameter((4, 4))
        self.printing = nn.IOEffect()
        self.layers = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.ReLU()])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4)})
        self.listed = nn.ParameterList([nn.Parameter((4,))])
        self.kept = nn.ParameterDict({"z": nn.Parameter((4,), "float16")})

    def forward(self, x: Tensor):
        self.cache.append(x)
        return self.cache.view(4)

    def second(self, x: Tensor):
        return self.layers(x), self.named["a"](x) + self.listed[0], op.matmul(x, self.w)


def t_effects_and_containers():
    found = []
    for debug in (False, True):
        for effect_mode in ("plain", "packed"):
            for param_mode in ("plain", "packed"):
                modes = {"effect_mode": effect_mode, "param_mode": param_mode}
                module, parameters = Everything().export_tvm(
                    {
                        "forward": {"x": spec.Tensor([2, 2, 4], F), "$": modes},
                        "second": {"x": spec.Tensor(["n", 4], F), "$": modes},
                    },
                    debug=debug,
                )
                found.append((module, [(name, str(one)) for name, one in parameters]))
    return found


def t_parameters():
    model = Everything()
    names = list(model.state_dict()), [name for name, _ in model.named_parameters()], len(list(model.parameters()))
    model.to("float16")
    return (
        *names,
        [str(one) for one in model.parameters()],
        model.cache.dtype,
        nn.Parameter(("n", 2)).ndim,
        str(nn.Parameter(("n", 2))),
        nn.Parameter((2, 3)).shape,
        nn.get_default_dtype(),
    )


def filled(*shape):
    parameter = nn.Parameter(shape)
    parameter.data = np.ones(shape, "float32")
    return parameter


def t_states():
    model = nn.Linear(4, 4)
    found = model.load_state_dict({"weight": filled(4, 4), "more": filled(1)}, strict=False)
    return found, model.weight.data.numpy()


def t_states_that_lack_a_parameter():
    return nn.Linear(4, 4).load_state_dict({"weight": filled(4, 4)})


def t_states_without_values():
    return nn.Linear(4, 4, bias=False).load_state_dict({"weight": nn.Parameter((4, 4))})


def t_values_of_another_shape():
    filled(2, 2).data = np.zeros((2, 3), "float32")


def t_values_of_another_dtype():
    filled(2, 2).data = np.zeros((2, 2), "float16")


def t_dtype_of_values_that_are_known():
    return filled(2, 2).to("float16")


def network():
    """A model of subroutines; its classes are new, since TVM keeps functions by class from one export to the next."""

    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self, before, after):
            self.w = nn.Parameter((before, after), "float32")

        def forward(self, x):
            return op.matmul(x, self.w)

    class Pair(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.inner = Layer(4, 4)

        def forward(self, x, y=None):
            return op.relu(self.inner(x))

    class Network(nn.Module):
        def __init__(self):
            self.a, self.b, self.c, self.p = Layer(4, 4), Layer(4, 4), Layer(4, 5), Pair()

        def forward(self, x):
            x = self.p(self.b(self.a(x)))
            return self.c(x + x)

    return Network()


def t_subroutines():
    return of(network(), x=["n", 4]), of(network(), debug=True, x=["n", 4])


class Sized(nn.Module):
    define_subroutine = True

    def __init__(self):
        self.l = nn.Linear("m", 4)

    def forward(self, x, k):
        return self.l(x)


class SizedTwice(nn.Module):
    def __init__(self):
        self.s, self.t = Sized(), Sized()

    def forward(self, x, k):
        return self.s(x, k), self.t(x, k)


def t_subroutines_of_sizes():
    return of(SizedTwice(), x=["n", "m"], k=int)


class Shared(nn.Module):
    def __init__(self):
        self.a, self.b = nn.Linear(2, 2, False), nn.Linear(2, 2, False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def t_shared_parameters():
    return of(Shared(), x=[1, 2])


def t_sizes_that_are_given_as_variables():
    h = tirx.Var("h", "int64")

    class Model(nn.Module):
        def __init__(self):
            self.l = nn.Linear(h, 4)
            self.m = nn.Linear("q", "q")

        def forward(self, x, q: int):
            return self.l(x), self.m.weight

    return Model().export_tvm({"forward": {"x": spec.Tensor(["q", h], F), "q": int}})[0]


def t_several_methods():
    class Model(nn.Module):
        def __init__(self):
            self.w = nn.Parameter((2,))

        def f(self, x):
            return op.add(x, self.w)

        def g(self, x, y):
            return x - y * self.w

    one = spec.Tensor(["n", 2], F)
    return Model().export_tvm({"f": {"x": one}, "g": {"x": one, "y": spec.Tensor([2], F)}})[0]


def t_a_method_that_is_missing():
    return nn.ReLU().export_tvm({"backward": {"x": spec.Tensor([2], F)}})


def t_weights_that_no_parameter_gives():
    return nn.Linear(2, 2).export_tvm({"forward": {"x": spec.Tensor([2, 2], F), "$": {"param_mode": "none"}}})


def t_mutators():
    log = []

    class Change(nn.Mutator):
        def visit_module(self, name, node):
            log.append(f"module {name} {type(node).__name__}")
            return nn.ReLU() if isinstance(node, nn.Linear) else super().visit_module(name, node)

        def visit_param(self, name, node):
            log.append(f"param {name}")
            return node

        def visit_effect(self, name, node):
            log.append(f"effect {name}")
            return node

    for start in ("", "root"):
        model = Everything()
        model.network = network()
        changed = Change().visit(start, model)
        log.append(changed is model)
        log.extend(type(one).__name__ for one in (*model.layers, *model.named.values()))
    return log


def t_outside_of_a_program():
    return op.relu(Tensor.placeholder([2], "float32"))


def t_parameter_lists_hold_parameters():
    return nn.ParameterList([1])


def t_parameter_dicts_hold_parameters():
    return nn.ParameterDict({"a": nn.ReLU()})


def t_sizes_that_are_fractions():
    return nn.Parameter((2.5,))


def t_specifications():
    method = spec.ModuleSpec.from_raw({"forward": {"x": spec.Tensor([1], F)}}, nn.modules.Timesteps(4))
    return repr(spec.Tensor([1, "n"], F)), repr(spec.Int()), repr(spec.Object(nn.Object)), repr(method)


def t_containers():
    listed = nn.ModuleList([nn.ReLU()])
    listed.append(nn.SiLU())
    listed[0] = nn.GELU()
    named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.ReLU()})
    named["c"] = nn.GELU()
    named.update({"d": nn.SiLU()})
    popped = named.pop("a")
    kept = nn.ParameterList()
    kept.extend([nn.Parameter((2,)), nn.Parameter((3,))])
    return (
        len(listed),
        [type(one).__name__ for one in listed],
        list(named.keys()),
        type(popped).__name__,
        "a" in named,
        named.get("z") is None,
        [key for key, _ in named.items()],
        [type(one).__name__ for one in named],
        [str(one) for one in kept],
        len(kept),
    )


def t_subroutines_of_other_types():
    class L(nn.Module):
        define_subroutine = True

        def __init__(self, n):
            self.w = nn.Parameter((n, 4), F)
            self.b = nn.Parameter((4,), F)

        def forward(self, x):
            return op.add(op.matmul(x, self.w), self.b)

    class M(nn.Module):
        def __init__(self):
            self.a = nn.ModuleList([L(4), L(4), L(4)])
            self.c = L(8)

        def forward(self, x, y):
            return self.a(x), self.c(y)

    return M().export_tvm({"forward": {"x": spec.Tensor(["b", 4], F), "y": spec.Tensor(["b", 8], F)}}, debug=True)[0]


def t_subroutine_of_batch_variable():
    class Activation(nn.Module):
        define_subroutine = True

        def forward(self, state: relax.Expr):
            return op.silu(state)

    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self, i, o):
            self.weights = nn.Parameter((i, o), dtype="float32")
            self.activation = Activation()

        def forward(self, input: relax.Expr):
            return self.activation(op.matmul(input, self.weights))

    b = tirx.Var("batch_size", "int64")
    return Layer(64, 32).export_tvm({"forward": {"input": spec.Tensor((b, 64), "float32")}}, debug=True)[0]


def t_modes_of_effects():
    class M(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x, n: int):
            self.cache.append(x)
            return self.cache.view(n)

    out = []
    for em in ("plain", "packed"):
        for debug in (True, False):
            out.append(
                M().export_tvm(
                    {
                        "forward": {
                            "x": spec.Tensor((1, 2, 4), F),
                            "n": int,
                            "$": {"effect_mode": em, "param_mode": "packed"},
                        }
                    },
                    debug=debug,
                )[0]
            )
    return out


def t_effects_that_are_left_out():
    class M(nn.Module):
        def __init__(self):
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return self.l(x)

    return M().export_tvm(
        {"forward": {"x": spec.Tensor((1, 4), F), "$": {"effect_mode": "none", "param_mode": "plain"}}}, debug=True
    )[0]


def t_symbolic_layers():
    h = tirx.Var("hidden", "int64")
    i = tirx.Var("inter", "int64")

    class Mlp(nn.Module):
        def __init__(self):
            self.gate = nn.Linear(h, i, bias=False)
            self.up = nn.Linear(h, i, bias=False)
            self.down = nn.Linear(i, h, bias=False)

        def forward(self, x):
            return self.down(op.silu(self.gate(x)) * self.up(x))

    return Mlp().export_tvm({"forward": {"x": spec.Tensor(["b", h], F)}})[0]


def t_named_symbolic_layers():
    class Mlp(nn.Module):
        def __init__(self):
            self.gate = nn.Linear("h", "i", bias=False)
            self.down = nn.Linear("i", "h", bias=False)

        def forward(self, x):
            return self.down(self.gate(x))

    return Mlp().export_tvm({"forward": {"x": spec.Tensor(["b", "h"], F)}})[0]


def t_sizes_that_are_expressions():
    h = tirx.Var("h", "int64")

    class M(nn.Module):
        def __init__(self):
            self.l = nn.Linear(h, h * 2)

        def forward(self, x):
            return self.l(x)

    return M().export_tvm({"forward": {"x": spec.Tensor(["b", h], F)}})[0]


def t_params_in_forward():
    class M(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(("v", 4), F)

        def forward(self, x):
            return op.reshape(op.matmul(x, op.permute_dims(self.w)), [self.w.shape[0], -1])

    return M().export_tvm({"forward": {"x": spec.Tensor([2, 4], F)}})[0]


def t_two_functions_share_sizes():
    class M(nn.Module):
        def f(self, x):
            return x + 1.0

        def g(self, x):
            return x * 2.0

    return M().export_tvm({"f": {"x": spec.Tensor(["n"], F)}, "g": {"x": spec.Tensor(["n", "n"], F)}})[0]


def t_tuples_with_sizes():
    class M(nn.Module):
        def forward(self, x, k):
            return op.reshape(x[0], [k, 2])

    return M().export_tvm({"forward": {"x": (spec.Tensor(["k", 2], F), int), "k": int}})[0]


def t_constants_as_tensors():
    t = Tensor.from_const([[1.0, 2.0], [3.0, 4.0]])
    return t.shape, t.dtype, t.ndim, str(t), Tensor.from_const(1).dtype, Tensor.from_scalar(2, "float16").shape


def t_conditions_that_are_numbers():
    class M(nn.Module):
        def forward(self, c, x, y):
            return op.where(c, x, y)

    return M().export_tvm(
        {"forward": {"c": spec.Tensor([3], "int32"), "x": spec.Tensor([3], F), "y": spec.Tensor([3], F)}}
    )[0]


def t_chains_of_operators():
    class M(nn.Module):
        def forward(self, x):
            return x.astype("float16") * 2 + 1, x - x.reshape(1, 6).reshape(2, 3)

    return M().export_tvm({"forward": {"x": spec.Tensor([2, 3], F)}})[0]


def t_parts_of_symbolic_tensors():
    class M(nn.Module):
        def forward(self, x):
            return op.split(x, 2, axis=1)[1], op.concat([x, x], dim=0), op.chunk(x, 4, -1)[0]

    return M().export_tvm({"forward": {"x": spec.Tensor(["n", 4], F)}})[0]


def t_dtypes_of_layers():
    m = nn.ModuleList([nn.Linear(4, 4), nn.Embedding(3, 3), nn.LayerNorm(4), nn.RMSNorm(4, -1)])
    m.to("float16")
    l = nn.Linear(4, 4, out_dtype="float32")
    l.to("float16")
    return [str(p) for p in m.parameters()], [str(p) for p in l.parameters()]


def t_extern_of_an_input_size():
    class M(nn.Module):
        def forward(self, x, k):
            return op.extern("f", [x, k], Tensor.placeholder((2, 2), F))

    return M().export_tvm({"forward": {"x": spec.Tensor([2], F), "k": int}})[0]


def t_outside_modules():
    r = nn.ReLU().export_tvm({"forward": {"x": spec.Tensor([2], F)}}, allow_extern=True)
    return len(r), r[2]


def t_rows_of_another_dtype():
    class M(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x):
            self.cache.append(x)
            return x

    return M().export_tvm({"forward": {"x": spec.Tensor((1, 2, 4), "float16")}})[0]


def t_named_prefix():
    m = nn.ModuleDict({"a": nn.Linear(1, 1)})
    return [n for n, _ in m.named_parameters("root")], list(m.state_dict(prefix="q."))
