"""The layers that models consist of, and the effects: printing, and a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import op as _op
from ...ir.builder import BlockBuilder
from ...ir.dims import Dim
from ...ir.errors import BuilderError
from ...ir.expr import PrimValue, ShapeExpr, Var
from ...ir.types import ObjectType, TensorType
from . import op
from .module import Module, ModuleList
from .values import Effect, Parameter, Size, Tensor, expression, get_default_dtype, open_builder


class _OneValue(Effect):
    """An effect whose state is one value of type ``R.Any``."""

    _state: Var | None = None

    @property
    def state(self) -> Var:
        """The state at this point of the method.

        Raises `BuilderError` outside a method that is being exported.
        """
        if self._state is None:
            raise BuilderError(f"{type(self).__name__} has a state only in a method that is being exported")
        return self._state

    def create(self, name_hint: str) -> list[Var]:
        """One new variable."""
        return [Var(name_hint, ObjectType())]

    def set_state(self, state_vars: list[Var]) -> None:
        """Set the value to start from."""
        (self._state,) = state_vars

    def finalize(self) -> list[Var]:
        """The value at the end."""
        state, self._state = self.state, None
        return [state]


class IOEffect(_OneValue):
    """The order in which a program prints."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """The first state: nothing has been printed."""
        return [builder.emit(_op.null_value(), f"{name_hint}_io")]

    def create(self, name_hint: str) -> list[Var]:
        """One new variable, with the suffix ``_io``."""
        return super().create(f"{name_hint}_io")


class KVCache(_OneValue):
    """The keys or values of all positions so far, one row each.

    External functions, ``vm.builtin.attention_kv_*``, store the rows.

    Args:
        init_seq_len: The number of positions for which memory is reserved at first.
        unit_shape: The sizes of one row.
        dtype: The dtype of the rows.
    """

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = list(unit_shape)
        self.dtype = dtype or get_default_dtype()

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """An empty cache."""
        shape = ShapeExpr([self.init_seq_len, *self.unit_shape])
        call = _op.call_pure_packed(
            "vm.builtin.attention_kv_cache_create",
            _op.zeros(shape, self.dtype),
            shape,
            PrimValue(0),
            ty_args=[ObjectType()],
        )
        return [builder.emit(call, name_hint)]

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the rows."""
        if dtype is not None:
            self.dtype = dtype

    def view(self, seq_len: Dim) -> Tensor:
        """The first ``seq_len`` rows as one tensor."""
        shape: list[Dim] = [seq_len, *self.unit_shape]
        call = _op.call_pure_packed(
            "vm.builtin.attention_kv_cache_view",
            self.state,
            ShapeExpr(shape),
            ty_args=[TensorType(shape, self.dtype)],
        )
        return Tensor(_expr=open_builder().emit(call))

    def append(self, new_element: Tensor) -> None:
        """Add rows.

        Raises `TypeError` for rows of another dtype.
        """
        if new_element.dtype != self.dtype:
            raise TypeError(f"the cache holds {self.dtype}, the new rows are {new_element.dtype}")
        call = _op.call_inplace_packed(
            "vm.builtin.attention_kv_cache_append",
            self.state,
            expression(new_element),
            inplace_indices=[0],
            ty_args=[ObjectType()],
        )
        self.set_state([open_builder().emit(call)])


class Identity(Module):
    """Returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x


class ReLU(Module):
    """`op.relu`."""

    def forward(self, x: Tensor) -> Tensor:
        """``max(x, 0)``."""
        return op.relu(x)


class SiLU(Module):
    """`op.silu`."""

    def forward(self, x: Tensor) -> Tensor:
        """``x * sigmoid(x)``."""
        return op.silu(x)


class GELU(Module):
    """`op.gelu`."""

    def forward(self, x: Tensor) -> Tensor:
        """GELU of ``x``."""
        return op.gelu(x)


class Linear(Module):
    """``x @ weight.T + bias``, with a weight of shape ``(out_features, in_features)``.

    With ``out_dtype``, the product and the bias have that dtype.
    """

    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), dtype if out_dtype is None else out_dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of shape ``(..., in_features)`` to ``(..., out_features)``."""
        product = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return product if self.bias is None else op.add(product, self.bias)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the weight, and of the bias unless ``out_dtype`` is given."""
        self.weight.to(dtype=dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


def _each_axis(size: int | Sequence[int], axes: int) -> list[int]:
    return [size] * axes if isinstance(size, int) else list(size)


class _Convolution(Module):
    """The base of the convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: list[int] | int,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter(self._weight_shape(), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    @property
    def _window(self) -> Sequence[Size]:
        return self.kernel_size if isinstance(self.kernel_size, list) else [self.kernel_size]

    def _weight_shape(self) -> tuple[Size, ...]:
        return (self.out_channels, self.in_channels // self.groups, *self._window)


class _OfImages(_Convolution):
    """The base of the convolutions whose data can have another layout."""

    _layout: str
    _convolve: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: list[int] | int,
        stride: list[int] | int = 1,
        padding: list[int] | int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str | None = None,
    ) -> None:
        kernel = _each_axis(kernel_size, len(self._layout) - 2)
        super().__init__(in_channels, out_channels, kernel, stride, padding, dilation, groups, bias, dtype)
        self.data_layout = data_layout or self._layout

    def forward(self, x: Tensor) -> Tensor:
        """``x`` in ``data_layout``."""
        return self._convolve(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.data_layout
        )


class Conv1D(_Convolution):
    """`op.conv1d` with a weight of shape ``(out_channels, in_channels / groups, kernel_size)``."""

    def forward(self, x: Tensor) -> Tensor:
        """``x`` in NCW."""
        return op.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2D(_OfImages):
    """`op.conv2d` with a weight of shape ``(out_channels, in_channels / groups, *kernel_size)``; NCHW by default."""

    _layout = "NCHW"
    _convolve = staticmethod(op.conv2d)


class Conv3D(_OfImages):
    """`op.conv3d` with a weight of shape ``(out_channels, in_channels / groups, *kernel_size)``; NCDHW by default."""

    _layout = "NCDHW"
    _convolve = staticmethod(op.conv3d)


class ConvTranspose1D(_Convolution):
    """`op.conv1d_transpose` with a weight of shape ``(in_channels, out_channels / groups, kernel_size)``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)
        self.output_padding = output_padding

    def _weight_shape(self) -> tuple[Size, ...]:
        return (self.in_channels, self.out_channels // self.groups, *self._window)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` in NCW."""
        return op.conv1d_transpose(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
        )


class LayerNorm(Module):
    """`op.layer_norm` over the last axis."""

    def __init__(
        self,
        normalized_shape: int,
        eps: float | None = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = 1e-5 if eps is None else eps
        self.elementwise_affine = elementwise_affine
        self.weight = Parameter((normalized_shape,), dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of shape ``(..., normalized_shape)``."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """`op.rms_norm`, followed by adding a bias."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.axes = axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with ``hidden_size`` elements along ``axes``."""
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else op.add(out, self.bias)


class GroupNorm(Module):
    """`op.group_norm`."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str | None = None
    ) -> None:
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """``x`` with ``num_channels`` along ``channel_axis``."""
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


class Embedding(Module):
    """Rows of a weight of shape ``(num, dim)`` by index."""

    def __init__(self, num: Size, dim: Size, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Integers of any shape to ``(*shape, dim)``."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])


class TimestepEmbedding(Module):
    """Two linear layers with SiLU between them, for the embeddings of time steps.

    Raises `ValueError` for another activation.
    """

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        if act_fn != "silu" or post_act_fn not in (None, "silu"):
            raise ValueError(f"TimestepEmbedding has SiLU alone, not {act_fn!r} and {post_act_fn!r}")
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        self.act = SiLU()
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else SiLU()

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """``sample`` of shape ``(steps, in_channels)``; ``condition`` is projected and added to it."""
        if condition is not None:
            if self.cond_proj is None:
                raise ValueError("a condition needs cond_proj_dim, the size of its last axis")
            sample = op.add(sample, self.cond_proj(condition))
        out = self.linear_2(self.act(self.linear_1(sample)))
        return out if self.post_act is None else self.post_act(out)


class Timesteps(Module):
    """`op.get_timestep_embedding`."""

    def __init__(self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1) -> None:
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """A vector of time steps."""
        return op.get_timestep_embedding(x, self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift)


class Attention(Module):
    """Attention from one sequence to itself or another, with projections before and after.

    Raises `ValueError` for ``norm_num_groups`` of None together with a mask, which it does not take.
    """

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        self.query_dim = query_dim
        self.cross_attention_dim = query_dim if cross_attention_dim is None else cross_attention_dim
        self.heads = heads
        self.dim_head = dim_head
        self.bias = bias
        self.norm_num_groups = norm_num_groups
        self.out_bias = out_bias
        self.scale_qk = scale_qk
        self.scale = dim_head**-0.5 if scale_qk else 1.0
        self.inner_dim = heads * dim_head
        self.to_q = Linear(query_dim, self.inner_dim, bias=bias)
        self.to_k = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.to_v = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_out = ModuleList([Linear(self.inner_dim, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """Sequences of shape ``(batch, length, dim)``; the second is by default the first."""
        del cross_attention_kwargs
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        other = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        queries, keys, values = self.to_q(hidden_states), self.to_k(other), self.to_v(other)
        queries, keys, values = (self._by_head(one) for one in (queries, keys, values))
        out = op.scaled_dot_product_attention(
            queries, keys, values, attention_mask, is_causal=False, scale=None if self.scale_qk else self.scale
        )
        batch, length = queries.shape[:2]
        return self.to_out[0](op.reshape(out, [batch, length, self.inner_dim]))

    def _by_head(self, x: Tensor) -> Tensor:
        batch, length = x.shape[:2]
        return op.reshape(x, [batch, length, self.heads, self.dim_head])
