import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def var(name="x", shape=(2, 3), dtype="float32"):
    return relax.Var(name, R.Tensor(shape, dtype))


def typed(call):
    ty = relax.BlockBuilder().normalize(call).ty
    if isinstance(ty, relax.TupleType):
        return [_facts(field) for field in ty.fields]
    return _facts(ty)


def _facts(ty):
    if isinstance(ty, relax.ShapeType):
        return ["shape", ty.ndim, None if ty.values is None else [int(v) for v in ty.values]]
    if not isinstance(ty, relax.TensorType):
        return str(type(ty).__name__)
    known = isinstance(ty.shape, relax.ShapeExpr) or isinstance(ty.shape, tuple)
    try:
        sizes = [int(v) for v in ty.shape] if known else None
    except TypeError:
        sizes = "symbolic"
    return [ty.ndim, sizes, str(ty.dtype or "")]


def t_reshape_by_a_shape_variable():
    s = relax.Var("s", R.Shape([3, 2]))
    t = relax.Var("t", R.Shape(ndim=3))
    return [typed(relax.op.reshape(var(), s)), typed(relax.op.reshape(var(), t))]


def t_reshape_infers_one_size():
    return [
        typed(relax.op.reshape(var(), (3, -1))),
        typed(relax.op.reshape(var(), (-1,))),
        typed(relax.op.reshape(var(), 6)),
    ]


def t_reshape_two_unknown():
    return typed(relax.op.reshape(var(), (-1, -1)))


def t_reshape_of_another_count():
    return typed(relax.op.reshape(var(), (4, 2)))


def t_reshape_of_a_shape():
    return typed(relax.op.reshape(relax.ShapeExpr([2]), (4, 2)))


def t_permute_dims():
    x = var(shape=(1, 2, 3))
    return [
        typed(relax.op.permute_dims(x)),
        typed(relax.op.permute_dims(x, [2, 0, 1])),
        typed(relax.op.permute_dims(x, [-1, 0, 1])),
    ]


def t_permute_dims_wrong():
    return typed(relax.op.permute_dims(var(), [0]))


def t_permute_dims_repeated():
    return typed(relax.op.permute_dims(var(), [0, 0]))


def t_expand_dims():
    return [typed(relax.op.expand_dims(var(), 0)), typed(relax.op.expand_dims(var(), [0, -1]))]


def t_expand_dims_repeated():
    return typed(relax.op.expand_dims(var(), [0, 0]))


def t_squeeze():
    x = var(shape=(1, 2, 1))
    return [typed(relax.op.squeeze(x)), typed(relax.op.squeeze(x, 0)), typed(relax.op.squeeze(x, [0, -1]))]


def t_squeeze_of_a_larger_axis():
    return typed(relax.op.squeeze(var(), 0))


def t_concat():
    return [
        typed(relax.op.concat([var(), var("y")], axis=0)),
        typed(relax.op.concat(relax.Tuple([var(), var("y")]), axis=-1)),
    ]


def t_concat_of_other_shapes():
    return typed(relax.op.concat([var(), var("y", (3, 4))], axis=0))


def t_concat_of_other_dtypes():
    return typed(relax.op.concat([var(), var("y", dtype="int32")], axis=0))


def t_concat_flat():
    return typed(relax.op.concat([var("x", (3,)), var("y", (4,))], axis=None))


def t_split():
    x = var(shape=(6, 4))
    return [typed(relax.op.split(x, 3, 0)), typed(relax.op.split(x, [1, 4], 0)), typed(relax.op.split(x, 3, 1))]


def t_split_by_nothing():
    return typed(relax.op.split(var(), 0, 0))


def t_take():
    i = var("i", (5,), "int64")
    return [
        typed(relax.op.take(var(), i, axis=1)),
        typed(relax.op.take(var("v", (7,)), i)),
        typed(relax.op.take(var(), relax.const(1, "int64"), axis=0)),
    ]


def t_take_without_axis():
    return typed(relax.op.take(var(), var("i", (5,), "int64")))


def t_take_by_floats():
    return typed(relax.op.take(var(), var("i", (5,), "float32"), axis=0))


def t_strided_slice():
    x = var(shape=(8, 9))
    return [
        typed(relax.op.strided_slice(x, [0], [1], [5])),
        typed(relax.op.strided_slice(x, [0, 1], [1, 0], [8, 9], [2, 3])),
        typed(relax.op.strided_slice(x, [1], [8], [0], [-1])),
        typed(relax.op.strided_slice(x, [-1], [-4], [-1])),
    ]


def t_strided_slice_of_lengths_that_differ():
    return typed(relax.op.strided_slice(var(), [0], [1, 2], [5]))


def t_matmul_forms():
    return [
        typed(relax.op.matmul(var("a", (2, 3)), var("b", (3, 4)))),
        typed(relax.op.matmul(var("a", (3,)), var("b", (3, 4)))),
        typed(relax.op.matmul(var("a", (3,)), var("b", (3,)))),
        typed(relax.op.matmul(var("a", (5, 2, 3)), var("b", (3, 4)))),
        typed(relax.op.matmul(var("a", (5, 1, 2, 3)), var("b", (6, 3, 4)))),
        typed(relax.op.matmul(var("a", (2, 3), "float16"), var("b", (3, 4), "float16"), out_dtype="float32")),
    ]


def t_matmul_mismatch():
    return typed(relax.op.matmul(var("a", (2, 3)), var("b", (4, 4))))


def t_matmul_scalar():
    return typed(relax.op.matmul(var("a", ()), var("b", (4, 4))))


def t_einsum():
    return [
        typed(relax.op.einsum((var("a", (2, 3)), var("b", (3, 4))), "ij,jk->ik")),
        typed(relax.op.einsum((var("a", (2, 2)),), "ii->i")),
    ]


def t_reductions():
    x = var(shape=(2, 3, 4))
    return [
        typed(relax.op.sum(x)),
        typed(relax.op.sum(x, 1)),
        typed(relax.op.mean(x, [0, -1], keepdims=True)),
        typed(relax.op.max(x, axis=[])) if False else None,
    ]


def t_reduction_axis_out_of_range():
    return typed(relax.op.sum(var(), 3))


def t_reduction_axis_repeated():
    return typed(relax.op.sum(var(), [0, 0]))


def t_argmax():
    return [
        typed(relax.op.argmax(var())),
        typed(relax.op.argmax(var(), 1)),
        typed(relax.op.argmin(var(), 0, keepdims=True)),
    ]


def t_broadcast():
    return [
        typed(relax.op.broadcast_to(var("x", (2, 1)), (4, 2, 3))),
        typed(relax.op.add(var("x", (2, 1)), var("y", (3,)))),
    ]


def t_broadcast_mismatch():
    return typed(relax.op.broadcast_to(var("x", (2, 2)), (4, 2, 3)))


def t_add_mismatch():
    return typed(relax.op.add(var("x", (2, 2)), var("y", (3, 3))))


def t_add_dtypes():
    return typed(relax.op.add(var("x", (2, 2)), var("y", (2, 2), "float16")))


def t_add_of_a_shape():
    return typed(relax.op.add(relax.Var("s", R.Shape([2])), var()))


def t_add_of_one():
    return typed(relax.op.add(var()))


def t_creation():
    return [
        typed(relax.op.full((2, 3), relax.const(1.0, "float32"))),
        typed(relax.op.full((2, 3), relax.const(1.0, "float32"), "float16")),
        typed(relax.op.zeros((2, 3), "int32")),
        typed(relax.op.ones(relax.ShapeExpr([4]), "bool")),
        typed(relax.op.full_like(var(), relax.const(1, "int8"))),
        typed(relax.op.zeros_like(var(), "int8")),
        typed(relax.op.arange(5)),
        typed(relax.op.arange(1, 10, 3)),
        typed(relax.op.arange(0.0, 2.0, 0.5)),
        typed(relax.op.tril(var())),
        typed(relax.op.eye(3)),
        typed(relax.op.eye(3, 4, 1, "int32")),
    ]


def t_full_of_a_vector():
    return typed(relax.op.full((2, 3), relax.const([1.0, 2.0], "float32")))


def t_tril_of_a_vector():
    return typed(relax.op.tril(var("x", (3,))))


def t_zeros_without_dtype():
    return typed(relax.op.zeros((2, 3), None))


def t_astype():
    return [typed(relax.op.astype(var(), "float16")), typed(relax.op.astype(relax.Var("x", R.Tensor(ndim=2)), "int8"))]


def t_where():
    c = var("c", (2, 1), "bool")
    return typed(relax.op.where(c, var(), var("y", (3,))))


def t_where_on_numbers():
    return typed(relax.op.where(var("c"), var(), var("y")))


def t_unique():
    return [typed(relax.op.unique(var()))]


def t_topk():
    x = var(shape=(4, 8))
    return [
        typed(relax.op.topk(x, 3)),
        typed(relax.op.topk(x, 3, axis=0, ret_type="values")),
        typed(relax.op.topk(x, 2, ret_type="indices", dtype="int64")),
    ]


def t_sorting():
    return [typed(relax.op.sort(var())), typed(relax.op.argsort(var(), 0, True, "int64"))]


def t_cumsum():
    return [
        typed(relax.op.cumsum(var())),
        typed(relax.op.cumsum(var(), 1)),
        typed(relax.op.cumprod(var(), 0, "float64", True)),
    ]


def t_repeat_and_tile():
    return [
        typed(relax.op.repeat(var(), 2, 0)),
        typed(relax.op.repeat(var(), 2)),
        typed(relax.op.tile(var(), (2, 2))),
        typed(relax.op.tile(var(), 3)),
        typed(relax.op.flip(var(), 0)),
    ]


def t_scatter_and_gather():
    x, i, u = var("x", (4, 4)), var("i", (2, 2), "int64"), var("u", (2, 2))
    return [
        typed(relax.op.scatter_elements(x, i, u, 0)),
        typed(relax.op.gather_elements(x, i, 1)),
        typed(relax.op.gather_nd(x, i)),
        typed(relax.op.scatter_nd(x, var("i", (3, 1), "int64"), var("u", (3, 4)))),
    ]


def t_one_hot():
    return typed(relax.op.one_hot(var("i", (5,), "int32"), relax.prim_value(1), relax.prim_value(0), 10, -1))


def t_conv2d_forms():
    x, w = var("x", (2, 3, 28, 28)), var("w", (4, 3, 3, 3))
    return [
        typed(relax.op.nn.conv2d(x, w)),
        typed(relax.op.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))),
        typed(relax.op.nn.conv2d(x, w, padding=[1, 2, 3, 4], dilation=2)),
        typed(relax.op.nn.conv2d(var("x", (2, 28, 28, 3)), w, data_layout="NHWC")),
        typed(relax.op.nn.conv2d(x, w, out_layout="NHWC")),
        typed(relax.op.nn.conv2d(var("x", (2, 6, 28, 28)), var("w", (4, 3, 3, 3)), groups=2)),
        typed(relax.op.nn.conv2d(x, w, out_dtype="float16")),
    ]


def t_conv2d_of_other_channels():
    return typed(relax.op.nn.conv2d(var("x", (2, 5, 28, 28)), var("w", (4, 3, 3, 3))))


def t_conv2d_of_a_wrong_layout():
    return typed(relax.op.nn.conv2d(var("x", (2, 3, 28, 28)), var("w", (4, 3, 3, 3)), data_layout="OIHW"))


def t_conv2d_of_three_strides():
    return typed(relax.op.nn.conv2d(var("x", (2, 3, 28, 28)), var("w", (4, 3, 3, 3)), strides=(1, 2, 3)))


def t_conv2d_of_three_axes():
    return typed(relax.op.nn.conv2d(var("x", (3, 28, 28)), var("w", (4, 3, 3, 3))))


def t_other_convolutions():
    return [
        typed(relax.op.nn.conv1d(var("x", (2, 3, 28)), var("w", (4, 3, 3)))),
        typed(relax.op.nn.conv3d(var("x", (2, 3, 8, 8, 8)), var("w", (4, 3, 3, 3, 3)))),
        typed(
            relax.op.nn.conv2d_transpose(var("x", (2, 3, 8, 8)), var("w", (3, 4, 3, 3)), strides=2, output_padding=1)
        ),
        typed(relax.op.nn.conv1d_transpose(var("x", (2, 3, 8)), var("w", (3, 4, 3)))),
    ]


def t_pools():
    x = var("x", (2, 3, 9, 9))
    return [
        typed(relax.op.nn.max_pool2d(x)),
        typed(relax.op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1))),
        typed(relax.op.nn.max_pool2d(x, (2, 2), (2, 2), ceil_mode=True)),
        typed(relax.op.nn.avg_pool2d(x, (3, 3), layout="NHWC")),
        typed(relax.op.nn.adaptive_avg_pool2d(x)),
        typed(relax.op.nn.adaptive_avg_pool2d(x, (3, 4))),
        typed(relax.op.nn.avg_pool1d(var("x", (2, 3, 9)), 3)),
    ]


def t_norms():
    x, g = var("x", (2, 3, 4, 4)), var("g", (3,))
    return [
        typed(relax.op.nn.batch_norm(x, g, var("b", (3,)), var("m", (3,)), var("v", (3,)), axis=1)),
        typed(relax.op.nn.layer_norm(x, var("g", (4,)), var("b", (4,)), axes=-1)),
        typed(relax.op.nn.group_norm(x, g, var("b", (3,)), num_groups=3, channel_axis=1, axes=[2, 3])),
        typed(relax.op.nn.rms_norm(x, var("g", (4,)), axes=[-1])),
    ]


def t_layer_norm_of_other_sizes():
    return typed(relax.op.nn.layer_norm(var("x", (2, 3)), var("g", (4,)), var("b", (4,)), axes=-1))


def t_group_norm_that_does_not_divide():
    return typed(
        relax.op.nn.group_norm(
            var("x", (2, 5, 4)), var("g", (5,)), var("b", (5,)), num_groups=2, channel_axis=1, axes=[2]
        )
    )


def t_attention():
    q, k, v = var("q", (2, 8, 4, 16)), var("k", (2, 9, 4, 16)), var("v", (2, 9, 4, 12))
    return [
        typed(relax.op.nn.attention(q, k, v)),
        typed(relax.op.nn.attention(q, k, v, bias=var("b", (2, 4, 8, 9)))),
        typed(relax.op.nn.attention(q, k, v, causal_mask="TopLeft")),
    ]


def t_losses():
    return [
        typed(relax.op.nn.cross_entropy_with_logits(var("p", (2, 5)), var("l", (2, 5)))),
        typed(relax.op.nn.nll_loss(var("p", (2, 5)), var("t", (2,), "int64"))),
        typed(relax.op.nn.nll_loss(var("p", (2, 5)), var("t", (2,), "int64"), var("w", (5,)), reduction="none")),
    ]


def t_nll_loss_of_a_wrong_reduction():
    return typed(relax.op.nn.nll_loss(var("p", (2, 5)), var("t", (2,), "int64"), reduction="total"))


def t_dropout_and_pads():
    return [
        typed(relax.op.nn.dropout(var(), 0.5)),
        typed(relax.op.nn.pad(var(), (1, 1, 2, 2))),
        typed(relax.op.nn.softmax(var(), -1)),
    ]


def t_resize():
    x = var("x", (2, 3, 8, 8))
    return [
        typed(relax.op.image.resize2d(x, (16, 16))),
        typed(relax.op.image.resize2d(x, 4, layout="NCHW")),
        typed(relax.op.image.resize2d(var("x", (2, 8, 8, 3)), (16, 16), layout="NHWC")),
    ]


def t_quantization():
    x, s, z = var("x", (2, 3)), var("s", (3,)), var("z", (3,), "int8")
    return [
        typed(relax.op.quantize(x, s, z, 1, "int8")),
        typed(relax.op.dequantize(var("q", (2, 3), "int8"), s, z, 1, "float32")),
    ]


def t_shapes_and_tensors():
    return [
        typed(relax.op.shape_of(var())),
        typed(relax.op.shape_to_tensor(relax.ShapeExpr([2, 3]))),
        typed(relax.op.tensor_to_shape(var("s", (2,), "int64"))),
        typed(relax.op.size(var())),
    ]


def t_index_tensor():
    i = var("i", (2,), "int64")
    return [typed(relax.op.index_tensor(var(), [i])), typed(relax.op.index_tensor(var(), [i, i]))]


def t_index_put():
    i = var("i", (2,), "int64")
    return [typed(relax.op.index_put(var(), (i,), var("v", (2, 3)), accumulate=True))]


def t_layout_transform():
    return typed(relax.op.layout_transform(var("x", (4, 8)), index_map=lambda a, b: (b, a)))


def t_attributes_of_calls():
    call = relax.op.nn.conv2d(var("x", (2, 3, 8, 8)), var("w", (4, 3, 3, 3)), strides=2, padding=1)
    return [
        [int(v) for v in call.attrs.strides],
        [int(v) for v in call.attrs.padding],
        call.attrs.data_layout,
        call.attrs.kernel_layout,
    ]


def t_attributes_of_reductions():
    call = relax.op.sum(var(), [0, 1], True)
    return [[int(v) for v in call.attrs.axis], bool(call.attrs.keepdims), call.op.name]


def t_memory_operators():
    return [
        typed(relax.op.memory.view(var(), (6,))),
        typed(relax.op.builtin.alloc_tensor(relax.ShapeExpr([2]), "int8", 0)),
        typed(relax.op.memory.ensure_zero_offset(var())),
    ]


def t_view_of_more():
    return typed(relax.op.memory.view(var(), (7,)))


def t_print_and_assert():
    return [typed(relax.op.assert_op(relax.const(True, "bool"))), typed(relax.op.print(var(), format="{}"))]


def t_assert_of_a_number():
    return typed(relax.op.assert_op(relax.const(1, "int32")))


def t_gradients_of_operators():
    x = var("x", (2, 3, 8, 8))
    return [
        typed(relax.op.grad.no_grad(x)),
        typed(relax.op.grad.max_pool2d_backward(var("g", (2, 3, 7, 7)), x, (2, 2))),
        typed(relax.op.grad.take_backward(var("g", (2, 3)), var("x", (5, 3)), var("i", (2,), "int64"), axis=0)),
    ]
