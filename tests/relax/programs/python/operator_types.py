"""Types of calls of operators: of known, symbolic and unknown sizes, and calls that are refused."""

from tvm import relax, tirx
from tvm.script import relax as R
from tvm.script import tirx as T

n, m, k, c, h, w, kh, kw = SIZES = [tirx.Var(name, "int64") for name in "n m k c h w kh kw".split()]
V = relax.Var
op, nn, im = relax.op, relax.op.nn, relax.op.image


def X(shape, dtype="float32"):
    return V("x", R.Tensor(shape, dtype))


def S(*shape):
    return X(shape)


def I64(*shape):
    return X(shape, "int64")


def I32(*shape):
    return X(shape, "int32")


def U(ndim=None, dtype="float32"):
    return V("x", R.Tensor(dtype=dtype) if ndim is None else R.Tensor(dtype=dtype, ndim=ndim))


def types_of(*calls):
    """The type of each call, or that it is refused."""
    found = []
    builder = relax.BlockBuilder()
    with builder.testing_scope(def_vars=SIZES):
        for call in calls:
            try:
                text = str(builder.normalize(call()).ty)
            except Exception:
                text = "refused"
            for there, here in (("T.Tuple", "R.Tuple"), ("T.int64(", ""), (")", ""), ("(", "")):
                text = text.replace(there, here)
            found.append(text)
    return found


def t_convolutions_of_one_axis():
    return types_of(
        lambda: nn.conv1d(S(2, 3, 28), S(4, 3, 3)),
        lambda: nn.conv1d(S(2, 3, 28), S(4, 3, 3), padding=1, strides=2, dilation=2),
        lambda: nn.conv1d(S(n, c, w), S(4, c, kw)),
        lambda: nn.conv1d(U(3), S(4, 3, 3)),
        lambda: nn.conv1d(S(2, 28, 3), S(4, 3, 3), data_layout="NWC"),
        lambda: nn.conv1d(S(2, 3, 28), S(3, 3, 4), kernel_layout="WIO"),
        lambda: nn.conv1d(S(2, 3, 28), S(4, 4, 3)),
        lambda: nn.conv1d(S(2, 3), S(4, 3, 3)),
        lambda: nn.conv1d(S(2, 128, 28), S(128, 16, 3), groups=8),
        lambda: nn.conv1d(S(2, 128, 28), S(128, 16, 3), groups=7),
        lambda: nn.conv1d(S(2, 3, 28), S(4, 3, 3), out_layout="NWC"),
        lambda: nn.conv1d(S(2, 3, 28), S(4, 3, 3), strides=(1, 1)),
        lambda: nn.conv1d(S(2, 3, 28), S(4, 3, 3), data_layout="OIW"),
    )


def t_convolutions_of_two_axes():
    return types_of(
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, 3, 3, 3)),
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, 3, 3, 3), padding=(1, 2)),
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, 3, 3, 3), padding=[1, 2, 3, 4]),
        lambda: nn.conv2d(S(n, c, h, w), S(k, c, kh, kw), strides=(2, 2), padding=(1, 1)),
        lambda: nn.conv2d(U(4), U(4)),
        lambda: nn.conv2d(U(), U()),
        lambda: nn.conv2d(S(2, 28, 28, 3), S(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO"),
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, 3, 3, 3), out_dtype="float16"),
        lambda: nn.conv2d(S(2, 4, 28, 28, 16), S(4, 3, 3, 3), data_layout="NCHW16c"),
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, 3, 3, 3), padding=[1, 2, 3]),
        lambda: nn.conv2d(S(2, 3, 28, 28), X((4, 3, 3, 3), "int8")),
        lambda: nn.conv2d(V("x", R.Shape((2, 3, 28, 28))), S(4, 3, 3, 3)),
        lambda: nn.conv2d(S(2, 3, 28, 28), S(4, n, 3, 3)),
        lambda: nn.conv2d(S(2, c, 28, 28), S(4, c, 3, 3), dilation=n),
    )


def t_convolutions_of_three_axes():
    return types_of(
        lambda: nn.conv3d(S(2, 3, 8, 8, 8), S(4, 3, 3, 3, 3)),
        lambda: nn.conv3d(S(2, 8, 8, 8, 3), S(4, 3, 3, 3, 3), data_layout="NDHWC"),
        lambda: nn.conv3d(U(5), S(4, 3, 3, 3, 3)),
        lambda: nn.conv3d(U(4), S(4, 3, 3, 3, 3)),
    )


def t_transposed_convolutions():
    return types_of(
        lambda: nn.conv1d_transpose(S(2, 3, 28), S(3, 4, 3)),
        lambda: nn.conv1d_transpose(S(2, 3, 28), S(3, 4, 3), strides=2, output_padding=1),
        lambda: nn.conv1d_transpose(S(2, 3, 28), S(3, 4, 3), output_padding=2),
        lambda: nn.conv2d_transpose(S(n, 3, 28, w), S(3, 4, 3, 3), strides=2, padding=1),
        lambda: nn.conv2d_transpose(S(2, 3, 28, 28), S(3, 4, 3, 3), groups=3),
        lambda: nn.conv2d_transpose(S(2, 4, 28, 28), S(3, 4, 3, 3)),
        lambda: nn.conv2d_transpose(U(4), U(4)),
        lambda: nn.conv3d_transpose(S(2, 3, 4, 4, 4), S(3, 5, 2, 2, 2)),
        lambda: nn.conv2d_transpose(S(2, 28, 28, 3), S(3, 4, 3, 3), data_layout="NHWC"),
    )


def t_pools():
    return types_of(
        lambda: nn.max_pool2d(S(2, 3, 32, 32), (2, 2), strides=2),
        lambda: nn.max_pool2d(S(n, c, h, w), (3, 3), ceil_mode=True),
        lambda: nn.max_pool2d(S(2, 3, 31, 31), (2, 2), strides=2, ceil_mode=True),
        lambda: nn.max_pool2d(U(4)),
        lambda: nn.max_pool2d(U()),
        lambda: nn.max_pool2d(S(2, 32, 32, 3), (2, 2), layout="NHWC"),
        lambda: nn.max_pool2d(S(2, 3, 32), (2, 2)),
        lambda: nn.max_pool2d(S(2, 3, 32, 32), (2, 2, 2)),
        lambda: nn.max_pool2d(S(2, 3, 32, 32), (2, 2), dilation=(1, 2, 3)),
        lambda: nn.max_pool2d(S(2, 3, 32, 32), (2, 2), out_layout="NHWC"),
        lambda: nn.avg_pool1d(S(2, 3, 32), 2),
        lambda: nn.avg_pool2d(S(2, 3, 32, 32), 2, count_include_pad=True),
        lambda: nn.avg_pool3d(S(2, 3, 8, 8, 8), 2),
        lambda: nn.max_pool1d(S(2, 3, 32), 3, padding=(1, 1)),
        lambda: nn.max_pool3d(S(2, 3, 8, 8, n), 2),
        lambda: nn.avg_pool2d(S(2, 4, 32, 32, 16), 2, layout="NCHW16c"),
        lambda: nn.max_pool2d(X((2, 3, 32, 32), "int8"), 2),
        lambda: nn.max_pool2d(V("x", R.Shape((1, 2, 3, 4))), 2),
    )


def t_adaptive_pools():
    return types_of(
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32, 32)),
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32, 32), 7),
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32, 32), (7, 30)),
        lambda: nn.adaptive_avg_pool1d(S(2, 3, 32), 7),
        lambda: nn.adaptive_avg_pool3d(S(n, 3, 8, 8, 8), (2, 3, 4)),
        lambda: nn.adaptive_avg_pool2d(S(2, 32, 32, 3), 7, layout="NHWC"),
        lambda: nn.adaptive_avg_pool2d(U(4)),
        lambda: nn.adaptive_avg_pool2d(U()),
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32)),
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32, 32), (7, 7, 7)),
        lambda: nn.adaptive_avg_pool2d(S(2, 3, 32, 32), 7, out_layout="NHWC"),
    )


def t_norms():
    return types_of(
        lambda: nn.batch_norm(S(2, 3, 28, 28), S(3), S(3), S(3), S(3), axis=1),
        lambda: nn.batch_norm(S(n, c, h, w), S(c), S(c), S(c), S(c), axis=1),
        lambda: nn.batch_norm(U(4), U(1), U(1), U(1), U(1), axis=1),
        lambda: nn.batch_norm(S(2, 3, 28, 28), S(4), S(3), S(3), S(3), axis=1),
        lambda: nn.batch_norm(S(2, 3, 28, 28), S(3), S(3), S(3), S(3), axis=4),
        lambda: nn.batch_norm(X((2, 3), "int32"), S(3), S(3), S(3), S(3), axis=1),
        lambda: nn.layer_norm(S(2, 3, 4), S(4), S(4), axes=-1),
        lambda: nn.layer_norm(S(2, 3, 4), S(3, 4), S(3, 4), axes=[-2, -1]),
        lambda: nn.layer_norm(S(2, 3, 4), S(3), S(4), axes=-1),
        lambda: nn.layer_norm(S(n, m), S(m), S(m), axes=-1),
        lambda: nn.layer_norm(U(), U(1), U(1), axes=-1),
        lambda: nn.layer_norm(S(2, 3), S(3), S(3), axes=3),
        lambda: nn.group_norm(S(2, 4, 8, 8), S(4), S(4), 2, 1, [2, 3]),
        lambda: nn.group_norm(S(2, 4, 8, 8), S(4), S(4), 3, 1, [2, 3]),
        lambda: nn.group_norm(S(n, c, h, w), S(c), S(c), 2, -3, [-2, -1]),
        lambda: nn.group_norm(S(2, 4, 8, 8), S(4), S(4), 2, 1, [1, 3]),
        lambda: nn.instance_norm(S(2, 4, 8, 8), S(4), S(4), 1, [2, 3]),
        lambda: nn.rms_norm(S(2, 3, 4), S(4), axes=-1),
        lambda: nn.rms_norm(S(2, 3, 4), S(5), axes=-1),
        lambda: nn.rms_norm(U(3), U(1), axes=[-1]),
    )


def t_attention():
    return types_of(
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 32, 8), S(4, 8, 32, 16)),
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 32, 8), S(4, 8, 32, 16), S(4, 32, 16, 8)),
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 32, 8), S(4, 8, 32, 16), causal_mask="TopLeft"),
        lambda: nn.attention(S(n, m, 32, 8), S(n, k, 32, 8), S(n, k, 32, 16)),
        lambda: nn.attention(S(4, 16, 32, 8), S(5, 8, 32, 8), S(4, 8, 32, 16)),
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 32, 8), S(4, 9, 32, 16)),
        lambda: nn.attention(S(4, 16, 32), S(4, 8, 32, 8), S(4, 8, 32, 16)),
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 32, 8), S(4, 8, 32, 16), S(4, 32, 16, 9)),
        lambda: nn.attention(S(4, 16, 32, 8), S(4, 8, 16, 8), S(4, 8, 16, 16)),
    )


def t_losses():
    return types_of(
        lambda: nn.cross_entropy_with_logits(S(2, 3), S(2, 3)),
        lambda: nn.cross_entropy_with_logits(S(n, m), S(n, m)),
        lambda: nn.cross_entropy_with_logits(S(2, 3), S(2, 4)),
        lambda: nn.cross_entropy_with_logits(S(2, 3), X((2, 3), "float16")),
        lambda: nn.nll_loss(S(3, 5, 10, 10), I64(3, 10, 10), S(5)),
        lambda: nn.nll_loss(S(3, 5, 10, 10), I64(3, 10, 10), S(5), reduction="none"),
        lambda: nn.nll_loss(S(3, 5), I64(3), S(4)),
        lambda: nn.nll_loss(S(3, 5), I64(4)),
        lambda: nn.nll_loss(S(5), I64()),
        lambda: nn.nll_loss(S(n, c, k), I64(n, k), reduction="none"),
        lambda: nn.nll_loss(U(), I64(3)),
        lambda: nn.nll_loss(S(3, 5), S(3)),
        lambda: nn.nll_loss(S(3, 5), I64(3), reduction="x"),
        lambda: nn.nll_loss(S(3, 5, 2), I64(3)),
    )


def t_layers():
    return types_of(
        lambda: nn.pad(S(2, 3), (1, 1, 0, 2)),
        lambda: nn.pad(S(n, 3), (1, 1, 0, 2)),
        lambda: nn.pad(S(2, 3), (1, 1, 0)),
        lambda: nn.pad(U(2), (1, 1, 1, 1)),
        lambda: nn.pixel_shuffle(S(1, 8, 10, 15), 2),
        lambda: nn.pixel_shuffle(S(1, 9, 10, 15), 2),
        lambda: nn.pixel_shuffle(S(1, 8, 10, 15), -1),
        lambda: nn.pixel_shuffle(S(n, 8, h, w), 2),
        lambda: nn.pixel_shuffle(S(4), 2),
        lambda: nn.prelu(S(2, 3), S(3)),
        lambda: nn.prelu(S(2, 3), S(2), axis=0),
        lambda: nn.dropout(S(2, 3), 0.3),
        lambda: nn.softmax(S(2, 3), axis=2),
        lambda: nn.softmax(I32(2, 3)),
        lambda: nn.log_softmax(U(), axis=1),
        lambda: nn.softplus(S(2), 1.0, 2.0),
        lambda: nn.gelu(I32(2)),
        lambda: nn.relu(I32(2)),
        lambda: nn.silu(V("x", R.Shape((2,)))),
        lambda: nn.leakyrelu(S(2), 0.2),
        lambda: nn.batch_flatten(S(2, 3, 4)),
        lambda: nn.batch_flatten(S(n, m, k)),
        lambda: nn.batch_flatten(S(2)),
        lambda: nn.batch_flatten(U()),
    )


def t_images():
    return types_of(
        lambda: im.resize2d(S(2, 3, 32, 32), (28, 28)),
        lambda: im.resize2d(S(2, 3, 32, 32), 28),
        lambda: im.resize2d(S(2, 32, 32, 3), 28, layout="NHWC"),
        lambda: im.resize2d(S(n, c, h, w), (h * 2, w * 2)),
        lambda: im.resize2d(U(4), 28),
        lambda: im.resize2d(U(), 28),
        lambda: im.resize2d(S(2, 3, 32), 28),
        lambda: im.resize2d(S(2, 3, 32, 32), (28, 28, 28)),
        lambda: im.resize2d(S(2, 3, 32, 32), 28, out_dtype="float16"),
        lambda: im.resize3d(S(2, 3, 4, 4, 4), (8, 8, 8)),
        lambda: im.grid_sample(S(2, 3, 32, 32), S(2, 2, 8, 9)),
        lambda: im.grid_sample(S(2, 3, 4, 4, 4), S(2, 3, 8, 9, 7)),
        lambda: im.affine_grid(S(2, 2, 3), (8, 9)),
        lambda: im.affine_grid(S(2, 3, 3), (8, 9)),
        lambda: im.affine_grid(S(n, 2, 3), (8, 9)),
        lambda: im.affine_grid(U(3), (8, 9)),
    )


def t_shapes_of_tensors():
    return types_of(
        lambda: op.concat([S(2, 3), S(2, 4)], axis=1),
        lambda: op.concat([S(2, 3), S(2, 4)], axis=0),
        lambda: op.concat([S(2, 3), U(2)], axis=1),
        lambda: op.concat([S(2, 3), U()], axis=1),
        lambda: op.concat(V("t", R.Tuple(R.Tensor((2, n), "float32"), R.Tensor((2, m), "float32"))), axis=1),
        lambda: op.concat([S(2), S(3)], axis=None),
        lambda: op.concat([S(2), I32(3)], axis=0),
        lambda: op.concat([S(2)], axis=None),
        lambda: op.concat([], axis=0),
        lambda: op.concat([S(2, 3), S(2)], axis=0),
        lambda: op.expand_dims(S(2, 3), [-1, 1, -6, 3, 5]),
        lambda: op.expand_dims(S(2, 3), [0, 0]),
        lambda: op.expand_dims(S(2), 5),
        lambda: op.expand_dims(U(), [1, 2]),
        lambda: op.flatten(S()),
        lambda: op.permute_dims(S(2, 3, n)),
        lambda: op.permute_dims(S(2, 3, 4), [0, 2]),
        lambda: op.permute_dims(S(2, 3, 4), [0, 2, 2]),
        lambda: op.permute_dims(S(2, 3, 4), [0, 2, 5]),
        lambda: op.permute_dims(U(3), [2, 1, 0]),
        lambda: op.permute_dims(U()),
        lambda: op.reshape(S(2, 3, 4), (6, 4)),
        lambda: op.reshape(S(2, 3, 4), (-1,)),
        lambda: op.reshape(S(2, 3, 4), (5, -1)),
        lambda: op.reshape(S(2, 3, 4), (0, -1)),
        lambda: op.reshape(S(n, 3), (n * 3,)),
        lambda: op.reshape(S(n, 3), (-1,)),
        lambda: op.reshape(S(2, 3), (5,)),
        lambda: op.reshape(U(), (2, -1)),
        lambda: op.reshape(S(2, 3), (-1, -1)),
        lambda: op.reshape(S(2, 3), (n, 2)),
        lambda: op.split(S(2, 10), 3, axis=1),
        lambda: op.split(S(2, 10), [3, 7], axis=1),
        lambda: op.split(S(2, n), 2, axis=1),
        lambda: op.split(S(2, 10), 0, axis=1),
        lambda: op.split(S(2, 10), 2, axis=4),
        lambda: op.split(U(), 2),
        lambda: op.split(U(2), [2, 4], axis=1),
        lambda: op.squeeze(S(2, 1, 3, 1)),
        lambda: op.squeeze(S(2, 1, 3, 1), [1]),
        lambda: op.squeeze(S(2, 1, 3, 1), 0),
        lambda: op.squeeze(S(2, n), 1),
        lambda: op.squeeze(U(3)),
        lambda: op.squeeze(U(3), [1]),
        lambda: op.squeeze(S(2, n)),
        lambda: op.stack([S(2, 3), S(2, 3)], axis=1),
        lambda: op.stack([S(2, 3), S(2, 4)], axis=1),
        lambda: op.broadcast_to(S(2, 1), (4, 2, 3)),
        lambda: op.broadcast_to(S(2, 3), (4, 2, 2)),
        lambda: op.broadcast_to(S(n, 1), (n, 5)),
        lambda: op.broadcast_to(U(), (2, 3)),
        lambda: op.broadcast_to(S(2, 3), (3,)),
        lambda: op.repeat(S(2, 3), 2, 0),
        lambda: op.repeat(S(2, 3), 2),
        lambda: op.repeat(S(n, m), 2),
        lambda: op.repeat(S(2, 3), 2, 3),
        lambda: op.tile(S(2, 3), (2, 1, 2)),
        lambda: op.tile(S(n, 3), 2),
        lambda: op.tile(U(), 2),
        lambda: op.flip(S(2, 3), 1),
        lambda: op.flip(S(2, 3), 3),
        lambda: op.collapse_sum_like(S(2, 3, 4), S(3, 1)),
        lambda: op.collapse_sum_like(S(2, 3, 4), S(3, 2)),
        lambda: op.collapse_sum_to(S(2, 3, 4), (1, 4)),
        lambda: op.collapse_sum_to(S(n, 3), (n, 1)),
        lambda: op.collapse_sum_to(S(2, 3, 4), (3,)),
        lambda: op.layout_transform(S(10, 20, 30), index_map=lambda i, j, l: (j // 2, i, l, j % 2)),
        lambda: op.layout_transform(S(10), index_map=lambda i: (i // 4, i % 4), pad_value=0.0),
        lambda: op.layout_transform(S(10), index_map=lambda i, j: (i, j)),
        lambda: op.gather_elements(S(2, 3), I64(2, 3), 1),
        lambda: op.gather_elements(S(2, 3), I64(2), 1),
        lambda: op.gather_nd(S(2, 3, 4), I64(5, 2)),
        lambda: op.gather_nd(S(2, 3, 4), I64(5, 4)),
        lambda: op.gather_nd(S(n, 3, 4), I64(m, 1), 0),
        lambda: op.scatter_elements(S(4, 4), I64(2, 2), S(2, 2)),
        lambda: op.scatter_elements(S(4, 4), I64(2, 2), S(2, 3)),
        lambda: op.scatter_nd(S(8), I64(4, 1), S(4)),
        lambda: op.scatter_nd(S(8), I64(4, 1), S(5)),
        lambda: op.one_hot(I32(3), relax.prim_value(1.0), relax.prim_value(0.0), 5),
        lambda: op.one_hot(I32(3, n), relax.prim_value(1.0), relax.prim_value(0.0), 5, axis=0),
        lambda: op.meshgrid([S(2), S(3)]),
        lambda: op.meshgrid([S(2, 2), S(3)]),
        lambda: op.index_tensor(S(3, 4), [I64(2), I64(2)]),
        lambda: op.index_tensor(S(3, 4), [I64(2, 1), I64(5)]),
        lambda: op.index_tensor(S(3, 4), [I64(2), I64(2), I64(2)]),
        lambda: op.index_tensor(S(n, 4, 5), [I64(2)]),
        lambda: op.index_tensor(S(3, 4), [I64(2), I64(3)]),
        lambda: op.index_tensor(S(3, 4), [S(2)]),
    )


def t_indexing():
    return types_of(
        lambda: op.take(S(3, 4), I64(5), 1),
        lambda: op.take(S(3, 4), I64(5)),
        lambda: op.take(S(4), I64(n)),
        lambda: op.take(S(3, 4), relax.prim_value(1), 0),
        lambda: op.take(S(3, 4), S(5), 1),
        lambda: op.take(U(2), I64(5), 1),
        lambda: op.take(U(), I64(5, 6), 1),
        lambda: op.take(S(3, 4), I64(5), 2),
        lambda: op.strided_slice(S(8, 9, 10), [0, 1, 2], [1, 0, 8], [8, 9, 2], [2, 1, -3]),
        lambda: op.strided_slice(S(8, 9), [0], [-3], [100]),
        lambda: op.strided_slice(S(n, 9), [1], [1], [4]),
        lambda: op.strided_slice(S(8, 9), [2], [1], [4]),
        lambda: op.strided_slice(S(8, 9), [0, 0], [1, 1], [4, 4]),
        lambda: op.strided_slice(S(8, 9), [0, 1], [1], [4]),
        lambda: op.strided_slice(U(2), [0], [1], [4]),
        lambda: op.strided_slice(U(), [0], [1], [4]),
        lambda: op.strided_slice(S(8, 9), [0], [0], [n]),
        lambda: op.strided_slice(S(8, 9), [0], [0], [n], assume_inbound=True),
        lambda: op.dynamic_strided_slice(S(8, 9), I64(2), I64(2), I64(2)),
        lambda: op.dynamic_strided_slice(S(8, 9), I64(3), I64(2), I64(2)),
    )


def t_products():
    return types_of(
        lambda: op.matmul(S(3, 4), S(4, 5)),
        lambda: op.matmul(S(4), S(4)),
        lambda: op.matmul(S(2, 3, 4), S(4)),
        lambda: op.matmul(S(4), S(2, 4, 5)),
        lambda: op.matmul(S(2, 1, 3, 4), S(6, 4, 5)),
        lambda: op.matmul(S(3, 4), S(5, 5)),
        lambda: op.matmul(S(), S(4)),
        lambda: op.matmul(S(n, 4), S(4, m), out_dtype="float16"),
        lambda: op.matmul(U(), S(4, 5)),
        lambda: op.matmul(U(3), S(4, 5)),
        lambda: op.matmul(U(1), U(2)),
        lambda: op.matmul(X((3, 4), "int8"), X((4, 5), "int8")),
        lambda: op.matmul(S(3, 4), X((4, 5), "float16")),
        lambda: op.matmul(S(2, 3, 4), S(3, 4, 5)),
        lambda: op.linear(S(2, 3), S(4, 3)),
        lambda: op.linear(S(2, 3), S(4, 3), S(4)),
        lambda: op.einsum((S(2, 3), S(3, 4)), "ij,jk->ik"),
        lambda: op.einsum((S(n, m), S(m, k)), "ij,jk->ki"),
        lambda: op.einsum((S(2, 3), S(4, 5)), "ij,jk->ik"),
        lambda: op.einsum((S(2, 2),), "ii"),
        lambda: op.outer(S(2), S(3)),
        lambda: op.outer(S(2, 2), S(3)),
        lambda: op.outer(S(n), S(m)),
    )


def t_new_tensors():
    return types_of(
        lambda: op.full((2, 3), relax.const(1, "float16")),
        lambda: op.full((n, 3), S(), "int32"),
        lambda: op.full((2, 3), S(2)),
        lambda: op.full_like(S(2, 3), S()),
        lambda: op.full_like(U(), S(), "float16"),
        lambda: op.ones((2, n), "float32"),
        lambda: op.ones((2, n)),
        lambda: op.zeros((2.0,), "float32"),
        lambda: op.zeros_like(S(2), "int8"),
        lambda: op.ones_like(U()),
        lambda: op.arange(5),
        lambda: op.arange(1, 10, 2),
        lambda: op.arange(1.0, 5.0),
        lambda: op.arange(n),
        lambda: op.arange(0, n, 2, "float32"),
        lambda: op.eye(3),
        lambda: op.eye(n, m, 1, "int32"),
        lambda: op.eye_like(S(3, 4)),
        lambda: op.eye_like(S(3)),
        lambda: op.tril(S(3, 4)),
        lambda: op.tril(S(3)),
        lambda: op.triu(S(n, 4), 1),
        lambda: op.hamming_window(10, True, 0.5, 0.4, "float32"),
        lambda: op.hamming_window(10, True, 0.5, 0.4, "int32"),
    )


def t_reductions():
    return types_of(
        lambda: op.sum(S(2, 3, 4), [1, 2]),
        lambda: op.sum(S(2, 3, 4), [1, 2], keepdims=True),
        lambda: op.mean(S(2, n)),
        lambda: op.max(U(3), 1),
        lambda: op.min(U(), 1),
        lambda: op.sum(S(2, 3), [1, 1]),
        lambda: op.sum(S(2, 3), 2),
        lambda: op.sum(S(2, 3), -3),
        lambda: op.variance(S(2, 3), 0),
        lambda: op.std(S(2, 3), 0),
        lambda: op.prod(U(2), None, True),
        lambda: op.cumsum(S(2, 3)),
        lambda: op.cumsum(S(2, 3), 1, "int32"),
        lambda: op.cumprod(S(n, m)),
        lambda: op.argmax(S(2, 3), 1),
        lambda: op.argmax(S(2, 3), keepdims=True),
        lambda: op.argmin(U(), 1),
        lambda: op.argmax(S(2, 3), 3),
        lambda: op.median(S(2, 3), 1),
        lambda: op.median(S(2, 3)),
    )


def t_sorting():
    return types_of(
        lambda: op.sort(S(2, 3), 1, True),
        lambda: op.argsort(S(2, 3), 1, dtype="int64"),
        lambda: op.topk(S(2, 9), 3),
        lambda: op.topk(S(2, n), 3, ret_type="values"),
        lambda: op.topk(S(2, 9), 3, ret_type="x"),
        lambda: op.topk(S(2, 9), 3, axis=3),
        lambda: op.unique(S(2, 3)),
        lambda: op.unique(S(2, 3), return_index=True, return_inverse=True, return_counts=True),
        lambda: op.unique(S(2, 3), axis=1),
        lambda: op.nonzero(S(2, 3)),
        lambda: op.bucketize(S(2, 3), S(5)),
        lambda: op.bucketize(S(2, 3), S(5), out_int32=True),
        lambda: op.multinomial_from_uniform(S(2, 3), S(4, 1), I64(4, 1)),
        lambda: op.multinomial_from_uniform(S(2, 3), S(4, 2), I64(4, 1)),
    )


def t_elementwise():
    return types_of(
        lambda: op.where(X((2, 3), "bool"), S(3), S(2, 1)),
        lambda: op.where(S(2, 3), S(3), S(2, 1)),
        lambda: op.where(X((2, 3), "bool"), S(4), S(2, 1)),
        lambda: op.where(X((n, 3), "bool"), S(3), U(2)),
        lambda: op.where(X((2,), "bool"), S(2), I32(2)),
        lambda: op.ewise_fma(S(2, 3), S(2, 3), S(2, 3)),
        lambda: op.ewise_fma(S(2, 3), S(2, 4), S(2, 3)),
        lambda: op.clip(S(2), 0, 1),
        lambda: op.clip(S(2), 0, V("y", R.Tensor((), "float32"))),
        lambda: op.add(S(2, 3), S(3, 3)),
        lambda: op.add(S(2, 3), I32(2, 3)),
        lambda: op.add(S(n, 1), S(m)),
        lambda: op.add(S(n), S(m)),
        lambda: op.add(U(2), S(2, 3, 4)),
        lambda: op.add(U(), S(2)),
        lambda: op.less(S(2, 3), S(3)),
        lambda: op.logical_and(S(2), S(2)),
        lambda: op.left_shift(S(2), S(2)),
        lambda: op.bitwise_and(I32(2), I32(2)),
        lambda: op.add(V("x", R.Shape((2,))), S(2)),
        lambda: op.astype(S(2), "float16"),
        lambda: op.wrap_param(relax.const(1.0, "float32"), "float16"),
        lambda: op.exp(I32(2)),
        lambda: op.isnan(S(2)),
        lambda: op.negative(X((2,), "bool")),
        lambda: op.bitwise_not(S(2)),
        lambda: op.logical_not(S(2)),
    )


def t_quantization():
    return types_of(
        lambda: op.quantize(S(2, 3), S(3), X((3,), "int8"), 1, "int8"),
        lambda: op.quantize(S(2, 3), S(4), X((3,), "int8"), 1, "int8"),
        lambda: op.quantize(S(2, 3), S(3), X((3,), "int8"), 1, "float16"),
        lambda: op.dequantize(X((2, 3), "int8"), S(3), X((3,), "int8"), 1, "float32"),
        lambda: op.dequantize(X((2, 3), "int8"), S(3), X((2,), "int8"), 1, "float32"),
        lambda: op.quantize(S(n, 3), S(), X((), "int8"), 0, "int8"),
    )


def t_shapes_as_values():
    return types_of(
        lambda: op.shape_of(S(2, n)),
        lambda: op.shape_of(U(2)),
        lambda: op.shape_of(U()),
        lambda: op.shape_to_tensor(V("s", R.Shape((2, 3)))),
        lambda: op.shape_to_tensor(V("s", R.Shape(ndim=3))),
        lambda: op.tensor_to_shape(I64(3)),
        lambda: op.tensor_to_shape(I64(n)),
        lambda: op.tensor_to_shape(I64(2, 2)),
        lambda: op.shape_of(V("s", R.Shape((2,)))),
        lambda: op.size(S(2, 3)),
        lambda: op.size(U()),
    )


def t_gradients():
    return types_of(
        lambda: op.grad.no_grad(S(2, 3)),
        lambda: op.grad.nll_loss_backward(S(), S(3, 5), I64(3), S(5)),
        lambda: op.grad.max_pool2d_backward(S(2, 3, 16, 16), S(2, 3, 32, 32), (2, 2), (2, 2)),
        lambda: op.grad.avg_pool2d_backward(S(2, 3, 16, 16), S(2, 3, 32, 32), (2, 2), (2, 2)),
        lambda: op.grad.take_backward(S(2, 5), S(2, 9), I64(5), 1),
        lambda: op.grad.start_checkpoint(S(2)),
        lambda: op.grad.end_checkpoint(S(2)),
    )


def t_shapes_are_all_sizes():
    value = relax.const(1.0)
    return types_of(
        lambda: op.full(4, value),
        lambda: op.ones(n, "float32"),
        lambda: op.zeros(4, "float32"),
        lambda: op.broadcast_to(S(1), 6),
        lambda: op.zeros([n], "float32"),
    )


def t_flattened_scalars():
    return types_of(lambda: op.flatten(S()), lambda: op.flatten(U(0)), lambda: op.flatten(U(1)))


def t_slices_within_bounds():
    def cut(begin, end, stride=1):
        return lambda: op.strided_slice(S(m, 4), [0], [begin], [end], [stride], assume_inbound=True)

    return types_of(cut(1, m), cut(0, m), cut(2, 9), cut(2, m))


def t_sizes_by_the_names_of_their_nodes():
    return types_of(
        lambda: op.zeros((tirx.Add(n, m), tirx.Sub(n, m), tirx.Mul(n, m)), "float32"),
        lambda: op.zeros((tirx.FloorDiv(n, m), tirx.FloorMod(n, m), tirx.Max(n, m)), "float32"),
    )


def t_sizes_that_never_agree():
    x, y = X((m, n)), X((m, n + 2))
    return [relax.BlockBuilder().normalize(call).ty for call in (op.add(x, y), op.maximum(y, x))]


def t_arange_symbolic_step():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.arange(0, 10, n, "int64")
        return a

    return f


def t_arange_symbolic_step2():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.arange(R.prim_value(0), R.prim_value(n * 2), R.prim_value(2), "int64")
        return a

    return f
