"""Calls of ATen operators that few models have: complex numbers, places of maxima, groups and bags, adjoints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from tests.formats.torch.cases import Case, aten, b, f, i, pos


def z(x: torch.Tensor) -> torch.Tensor:
    """The last axis, of size 2, as complex numbers."""
    return torch.view_as_complex(x)


def back(x: torch.Tensor) -> torch.Tensor:
    """Complex numbers as an axis of size 2."""
    return torch.view_as_real(x)


COMPLEX: dict[str, Case] = {
    "product": Case(lambda x, y: back(z(x) * z(y)), (f(3, 4, 2), f(4, 2))),
    "product_with_real": Case(lambda x, y: back(z(x) * y), (f(3, 4, 2), f(3, 4))),
    "product_with_number": Case(lambda x: back(z(x) * (2 - 1j)), (f(3, 4, 2),)),
    "quotient": Case(lambda x, y: back(z(x) / z(y)), (f(3, 4, 2), f(4, 2))),
    "quotient_by_real": Case(lambda x, y: back(z(x) / y), (f(3, 4, 2), pos(4))),
    "sum_with_number": Case(lambda x: back(z(x) + 1.5), (f(3, 4, 2),)),
    "sum_with_wider_real": Case(lambda x, y: back(z(x) + y), (f(4, 2), f(3, 4))),
    "difference": Case(lambda x, y: back(torch.sub(z(x), z(y), alpha=3)), (f(3, 4, 2), f(4, 2))),
    "matmul": Case(lambda x, y: back(z(x) @ z(y)), (f(3, 4, 2), f(4, 5, 2))),
    "conjugate": Case(lambda x: back(z(x).conj().resolve_conj()), (f(3, 2),)),
    "polar": Case(lambda r, t: back(torch.polar(r, t)), (pos(3, 4), f(3, 4))),
    "complex_of_parts": Case(lambda x, y: back(torch.complex(x, y)), (f(3, 4), f(3, 4, seed=1))),
    "abs_angle": Case(lambda x: (z(x).abs(), z(x).angle()), (f(3, 4, 2),)),
    "parts": Case(lambda x: (z(x).real, z(x).imag), (f(3, 4, 2),)),
    "exp_square": Case(lambda x: back(torch.exp(z(x)) ** 2), (f(3, 2),)),
    "square_root_as_power": Case(lambda x: back(torch.square(z(x)) ** 0.5), (f(3, 4, 2),)),
    "narrow_and_select": Case(
        lambda x, n: back(z(x).narrow(1, -3, 2).index_select(0, n)), (f(3, 4, 2), torch.tensor([2, 0, 2]))
    ),
    "views": Case(lambda x: back(z(x).transpose(0, 1).reshape(2, -1)[:, 1:].unsqueeze(0)), (f(3, 4, 2),)),
    "rotary": Case(
        lambda x, t: back(z(x.reshape(2, 3, 4, 2)) * torch.polar(torch.ones_like(t), t)).flatten(2),
        (f(2, 3, 8), f(3, 4)),
    ),
    "to_double": Case(lambda x: back(z(x).to(torch.complex128)), (f(3, 2),)),
    "log_sqrt": Case(lambda x: (back(torch.log(z(x))), back(torch.sqrt(z(x)))), (f(3, 4, 2),)),
    "sgn_with_zero": Case(lambda x: back(torch.sgn(z(x) * (x[..., 0] > 0))), (f(3, 4, 2),)),
    "einsum_complex": Case(
        lambda x, y: back(torch.einsum("bix, iox -> box", z(x), z(y))), (f(2, 3, 4, 2), f(3, 5, 4, 2))
    ),
    "einsum_of_three": Case(
        lambda x, y, w: back(torch.einsum("ij,jk,kl->il", z(x), z(y), z(w))), (f(3, 2, 2), f(2, 4, 2), f(4, 3, 2))
    ),
    "filled_complex": Case(
        lambda x: back(torch.cat([z(x), torch.zeros(3, 1, dtype=torch.complex64), torch.ones_like(z(x))], 1)),
        (f(3, 4, 2),),
    ),
    "fft": Case(lambda x: back(torch.fft.fft(x)), (f(3, 7),)),
    "fft_cut": Case(lambda x: back(torch.fft.fft(x, n=5, norm="forward")), (f(3, 7),)),
    "fft_of_integers": Case(lambda x: back(torch.fft.fft(x)), (i(3, 6),)),
    "ifft_of_real": Case(lambda x: back(torch.fft.ifft2(x, s=(2, 6))), (f(3, 4, 5),)),
    "irfft2_to_sizes": Case(lambda x: torch.fft.irfft2(z(x), s=(5, 7), norm="ortho"), (f(2, 4, 4, 2),)),
    "irfft_of_real": Case(lambda x: torch.fft.irfft(x, dim=0), (f(4, 3),)),
    "hfft": Case(lambda x: torch.fft.hfft(torch.fft.ihfft(x), n=9), (f(3, 8),)),
    "fft_first_axis": Case(lambda x: back(torch.fft.fft(x, dim=0, norm="ortho")), (f(6, 3),)),
    "fft_complex": Case(lambda x: back(torch.fft.fft(z(x))), (f(3, 5, 2),)),
    "ifft": Case(lambda x: back(torch.fft.ifft(z(x))), (f(3, 5, 2),)),
    "fftn": Case(lambda x: torch.fft.fftn(x, dim=(1, 2)).real, (f(2, 3, 4),)),
    "fft2_back": Case(lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real, (f(2, 3, 4),)),
    "rfft": Case(lambda x: back(torch.fft.rfft(x, norm="forward")), (f(3, 8),)),
    "rfft_padded": Case(lambda x: back(torch.fft.rfft(x, n=10)), (f(3, 7),)),
    "rfft2": Case(lambda x: back(torch.fft.rfft2(x)), (f(3, 4, 5),)),
    "irfft_even": Case(lambda x: torch.fft.irfft(z(x)), (f(3, 5, 2),)),
    "irfft_odd": Case(lambda x: torch.fft.irfft(z(x), n=7), (f(3, 4, 2),)),
    "irfftn": Case(lambda x: torch.fft.irfftn(torch.fft.rfftn(x, norm="ortho"), norm="ortho"), (f(3, 4, 6),)),
    "fft_long": Case(lambda x: back(torch.fft.fft2(x, norm="ortho")), (f(2, 3, 300),)),
    "ifft_long": Case(lambda x: back(torch.fft.ifft(z(x), dim=1)), (f(2, 301, 2),)),
    "rfft_long": Case(lambda x: back(torch.fft.rfft(x)), (f(2, 301),)),
    "irfft_long": Case(lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=300), (f(2, 300),)),
    "irfft_long_odd": Case(lambda x: torch.fft.irfft(torch.fft.rfft(x), n=301, norm="forward"), (f(2, 301),)),
    "stft_of_short_windows": Case(
        lambda x, w: back(torch.stft(x, 8, 3, 6, w, normalized=True, onesided=False, return_complex=True)),
        (f(40), pos(6)),
    ),
    "istft": Case(
        lambda x, y, w: torch.istft(torch.complex(x, y), 8, 2, window=w, length=30),
        (f(2, 5, 17), f(2, 5, 17, seed=1), torch.hann_window(8)),
    ),
    "stft": Case(lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(), (f(2, 40),)),
}

POOLING: dict[str, Case] = {
    "max_pool_places": Case(lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), return_indices=True), (f(2, 3, 7, 8),)),
    "max_pool_places_dilated": Case(
        lambda x: F.max_pool2d(x, 2, 2, 1, 2, True, return_indices=True), (i(2, 3, 7, 8, low=-40, high=40).float(),)
    ),
    "max_pool_places_single": Case(lambda x: F.max_pool2d(x, 2, return_indices=True), (f(3, 7, 8),)),
    "max_pool3d_places": Case(lambda x: F.max_pool3d(x, 2, return_indices=True), (f(2, 3, 4, 5, 6),)),
    "max_unpool": Case(
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=[7, 9]), (f(2, 3, 7, 9),)
    ),
    "adaptive_max_uneven": Case(lambda x: F.adaptive_max_pool2d(x, (3, 4)), (f(2, 3, 7, 9),)),
    "adaptive_max_places": Case(lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (f(2, 3, 6, 5),)),
    "avg_pool_window_past_both_ends": Case(lambda x: F.avg_pool2d(x, 9, 9, 1, ceil_mode=True), (f(2, 3, 4, 5),)),
    "max_pool_window_past_both_ends": Case(lambda x: F.max_pool2d(x, 9, ceil_mode=True), (f(2, 3, 4, 5),)),
    "avg_pool_divisor_of_integers": Case(
        lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=-4), (i(2, 3, 7, 8, low=-50, high=50),)
    ),
    "cosine_of_scalars": Case(lambda x, y: F.cosine_similarity(x, y, dim=0), (f(), f(seed=1))),
    "avg_pool_divisor": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (f(2, 3, 7, 8),)),
}


def _put(x: torch.Tensor, places: tuple[Any, ...], values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    changed = x.clone()
    if accumulate:
        indices = [None if isinstance(place, slice) else place for place in places]
        aten.index_put_(changed, indices, values, True)
    else:
        changed[places] = values
    return changed


_INDEX = i(3, 4, low=0, high=5)
SCATTERS: dict[str, Case] = {
    **{
        f"{reduce}_without_self": Case(
            lambda x, n, s, r=reduce: torch.scatter_reduce(x, 0, n, s, r, include_self=False),
            (f(5, 4), _INDEX, f(3, 4)),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
    },
    "mean_of_integers_without_self": Case(
        lambda x, n, s: torch.scatter_reduce(x, 0, n, s, "mean", include_self=False), (i(5, 4), _INDEX, i(3, 4, seed=2))
    ),
    "amax_of_integers_without_self": Case(
        lambda x, n, s: torch.scatter_reduce(x, 1, n, s, "amax", include_self=False),
        (i(3, 6), i(3, 4, low=0, high=6), i(3, 4, seed=2)),
    ),
    "index_reduce": Case(
        lambda x, n, s: torch.index_reduce(x, 1, n, s, "prod"), (f(3, 5, 2), torch.tensor([4, 0, 4]), f(3, 3, 2))
    ),
    "index_reduce_without_self": Case(
        lambda x, n, s: torch.index_reduce(x, 0, n, s, "amin", include_self=False),
        (f(5, 2), torch.tensor([4, 0, 4]), f(3, 2)),
    ),
    "index_put_last_axis": Case(
        lambda x, n, v: _put(x, (slice(None), n), v), (f(3, 5, 2), torch.tensor([4, 0]), f(3, 2, 2))
    ),
    "index_put_last_axes_broadcast": Case(
        lambda x, n, m, v: _put(x, (slice(None), n, m), v, True),
        (f(3, 5, 2), torch.tensor([[4], [0], [4]]), torch.tensor([1, 0]), f(3, 1, 2)),
    ),
    "index_put_fewer_axes": Case(
        lambda x, n, v: _put(x, (slice(None), n), v), (f(3, 5, 2), torch.tensor([[4, 0], [1, 2], [3, 3]]), f(2, 1))
    ),
    "index_put_apart": Case(
        lambda x, n, m, v: _put(x, (n, slice(None), m), v),
        (f(3, 5, 2), torch.tensor([2, 0]), torch.tensor([1, 0]), f(2, 5)),
    ),
    "index_put_number_in_the_middle": Case(
        lambda x, n: _put(x, (slice(None), n), torch.tensor(7.0)), (f(3, 5, 2), torch.tensor([4, 0]))
    ),
    "fold": Case(lambda x: F.fold(x, (5, 6), (2, 3), 1, 1, (2, 1)), (f(2, 12, 18),)),
    "fold_apart": Case(lambda x: F.fold(x, (4, 6), (2, 3), stride=(2, 3)), (f(2, 12, 4),)),
    "unfold_image": Case(lambda x: F.unfold(x, (2, 3), 1, 1, (2, 1)), (f(2, 2, 5, 6),)),
    "fold_single": Case(lambda x: F.fold(x, (5, 6), (2, 3), 1, 1, (2, 1)), (f(12, 18),)),
    "unfold_single": Case(lambda x: F.unfold(x, (2, 3), (1, 2), 1, (2, 1)), (f(2, 5, 8),)),
    "masked_select_broadcast": Case(lambda x, m: torch.masked_select(x, m), (f(4, 5), f(3, 4, 1) > 0)),
    "diagonal_scatter": Case(lambda x, s: torch.diagonal_scatter(x, s, 1, 0, 2), (f(3, 2, 5), f(2, 3))),
    "diagonal_scatter_below": Case(lambda x, s: torch.diagonal_scatter(x, s, -1), (f(4, 3), f(3))),
    "cartesian_prod": Case(lambda x, y: torch.cartesian_prod(x, y), (f(3), f(4))),
    "unsafe_chunk": Case(lambda x: torch.unsafe_chunk(x, 3, 1), (f(2, 7),)),
    "kthvalue_of_a_scalar": Case(lambda x: torch.kthvalue(x, 1), (f(),)),
    "signbit": Case(torch.signbit, (torch.tensor([0.0, -0.0, 1, -1, -torch.inf, torch.nan, -torch.nan]),)),
    "copysign": Case(torch.copysign, (f(2, 5), torch.tensor([0.0, -0.0, 1, -1, -torch.inf]))),
    "copysign_of_integers": Case(lambda x: torch.copysign(x, -0.0), (i(5),)),
    "cummax": Case(lambda x: torch.cummax(x, 1), (i(3, 7).float(),)),
    "logcumsumexp": Case(lambda x: torch.logcumsumexp(x, 1), (f(3, 7) * 30,)),
    "logcumsumexp_of_none": Case(lambda x: torch.logcumsumexp(x, 0), (torch.tensor([-math.inf, -math.inf, 2.0, 1.0]),)),
    "cosine_similarity": Case(F.cosine_similarity, (f(3, 4), f(3, 4, seed=1))),
    "cosine_similarity_of_each": Case(
        lambda x, y: F.cosine_similarity(x[:, None], y, dim=-1, eps=0.5), (f(3, 4), f(2, 4, seed=1))
    ),
    "cosine_similarity_along_one": Case(F.cosine_similarity, (f(3, 4), f(3, 1, seed=1))),
    "cosine_similarity_of_zeros": Case(F.cosine_similarity, (torch.zeros(3, 4), f(3, 4))),
    "bilinear": Case(F.bilinear, (f(2, 3, 4), f(2, 3, 5), f(6, 4, 5), f(6))),
    "cummin_of_integers": Case(lambda x: torch.cummin(x, 0), (i(6, 2),)),
    "cummax_nan": Case(lambda x: torch.cummax(x, 0), (torch.tensor([1.0, 3, torch.nan, 2, 9, torch.nan, 4]),)),
    "pad_circular_and_cut": Case(lambda x: F.pad(x, (-1, 2, 3, -2), mode="circular"), (f(2, 3, 6, 5),)),
    "bits": Case(lambda x: (x.view(torch.int32), x.view(torch.int32).view(torch.float32)), (f(3, 4),)),
    "histc": Case(lambda x: torch.histc(x, bins=4, min=-1, max=2), (torch.tensor([-1.0, 2, 0.5, 3, -2, 1.25, 0.5]),)),
    "searchsorted_rows": Case(
        lambda s, v: torch.searchsorted(s, v), (f(3, 6).sort().values, torch.cat([f(3, 4), f(3, 6).sort().values], 1))
    ),
    "searchsorted_rows_right": Case(
        lambda s, v: torch.searchsorted(s, v, right=True, out_int32=True), (i(3, 6).sort().values, i(3, 4))
    ),
    "pairwise_distances": Case(lambda x: F.pdist(x), (f(5, 3),)),
    "pairwise_distances_1": Case(lambda x: F.pdist(x, 1.0), (f(5, 3),)),
}

_BAGS = (f(10, 3), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 7]))
GROUPS: dict[str, Case] = {
    **{f"bag_{mode}": Case(lambda w, x, o, m=mode: F.embedding_bag(x, w, o, mode=m), _BAGS) for mode in ("sum",
        "mean", "max")},
    **{
        f"bag_{mode}_padded": Case(lambda w, x, o, m=mode: F.embedding_bag(x, w, o, mode=m, padding_idx=4), _BAGS)
        for mode in ("sum", "mean", "max")
    },
    "bag_weighted": Case(
        lambda w, x, o, s: F.embedding_bag(x, w, o, mode="sum", per_sample_weights=s), (*_BAGS, f(8))
    ),
    "bag_last_offset": Case(lambda w, x, o: F.embedding_bag(x, w, o, mode="sum", include_last_offset=True),
                            (*_BAGS[:2], torch.tensor([0, 3, 3, 8]))),
    "bag_of_rows": Case(lambda w, x: F.embedding_bag(x, w), (f(10, 3), i(4, 5, low=0, high=10))),
}  # fmt: skip


def _normalized(x: torch.Tensor, *axes: int) -> tuple[torch.Tensor, torch.Tensor]:
    mean = x.mean(axes, keepdim=True)
    return mean, (x.var(axes, unbiased=False, keepdim=True) + 1e-5).rsqrt()


def _layer_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor | None = None) -> Any:
    mean, rstd = _normalized(x, 1, 2)
    given = (True, w is not None, w is not None)
    found = aten.native_layer_norm_backward(g, x, list(x.shape[1:]), mean, rstd, w, w, given)
    return [each for each, wanted in zip(found, given, strict=True) if wanted]


def _group_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    n, c, *_ = x.shape
    mean, rstd = [value.reshape(n, 2) for value in _normalized(x.reshape(n, 2, -1), 2)]
    return aten.native_group_norm_backward(g, x, mean, rstd, w, n, c, x[0, 0].numel(), 2, (True, True, True))


def _convolution_backward(*options: Any) -> Any:
    return lambda g, x, w: aten.convolution_backward(g, x, w, [g.shape[1]], *options, (True, True, True))


BACKWARD: dict[str, Case] = {
    "convolution": Case(
        _convolution_backward([2, 1], [1, 0], [1, 2], False, [0, 0], 1), (f(2, 4, 4, 4), f(2, 3, 7, 8), f(4, 3, 3, 3))
    ),
    "convolution_grouped": Case(
        _convolution_backward([1], [1], [1], False, [0], 2), (f(2, 6, 7), f(2, 4, 7), f(6, 2, 3))
    ),
    "convolution_transposed": Case(
        _convolution_backward([2, 2], [1, 1], [1, 1], True, [1, 0], 1), (f(2, 4, 10, 11), f(2, 3, 5, 6), f(3, 4, 3, 3))
    ),
    "layer_norm": Case(_layer_norm_backward, (f(2, 3, 4), f(2, 3, 4, seed=1), pos(3, 4))),
    "layer_norm_plain": Case(_layer_norm_backward, (f(2, 3, 4), f(2, 3, 4, seed=1))),
    "group_norm": Case(_group_norm_backward, (f(3, 4, 5, 2), f(3, 4, 5, 2, seed=1), pos(4))),
    "embedding": Case(
        lambda g, n: aten.embedding_dense_backward(g, n, 7, 3, False), (f(2, 5, 4), i(2, 5, low=0, high=7))
    ),
    "embedding_by_frequency": Case(
        lambda g, n: aten.embedding_dense_backward(g, n, 7, -1, True), (f(2, 5, 4), i(2, 5, low=0, high=7))
    ),
    "max_pool": Case(
        lambda g, x: aten.max_pool2d_with_indices_backward(
            g, x, [3, 2], [2, 1], [1, 0], [1, 1], False, F.max_pool2d(x, (3, 2), (2, 1), (1, 0), return_indices=True)[1]
        ),
        (f(2, 3, 4, 7), f(2, 3, 7, 8)),
    ),
    "avg_pool": Case(
        lambda g, x: aten.avg_pool2d_backward(g, x, [3, 2], [2, 1], [1, 0], False, True, None),
        (f(2, 3, 4, 7), f(2, 3, 7, 8)),
    ),
    "adaptive_avg_pool": Case(
        lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), (f(2, 3, 4, 3), f(2, 3, 7, 8))
    ),
}  # fmt: skip


def _recurrent(layer: Any, *sizes: int, **options: Any) -> Any:
    """A layer with weights of its own, as a function of its input."""
    torch.manual_seed(0)
    made = layer(*sizes, **options).eval()
    weights = [weight.detach() for weight in made.parameters()]
    kind = made.mode.lower()

    def function(x: torch.Tensor, *states: torch.Tensor) -> Any:
        ways = 2 if made.bidirectional else 1
        batch = x.shape[0 if made.batch_first else 1]
        zeros = torch.zeros(made.num_layers * ways, batch, made.hidden_size)
        first = list(states) or [zeros] * (2 if kind == "lstm" else 1)
        given = first if kind == "lstm" else first[0]
        rest = (made.bias, made.num_layers, 0.0, False, made.bidirectional, made.batch_first)
        return getattr(aten, kind).input(x, given, weights, *rest)

    return function


_LAYERS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
RECURRENT: dict[str, Case] = {
    **{name: Case(_recurrent(layer, 3, 4), (f(5, 2, 3),)) for name, layer in _LAYERS.items()},
    **{
        f"{name}_stack_both_ways": Case(
            _recurrent(layer, 3, 4, num_layers=2, bidirectional=True, batch_first=True), (f(2, 5, 3),)
        )
        for name, layer in _LAYERS.items()
    },
    "lstm_without_biases": Case(_recurrent(torch.nn.LSTM, 3, 4, bias=False), (f(5, 2, 3),)),
    "lstm_with_states": Case(_recurrent(torch.nn.LSTM, 3, 4), (f(5, 2, 3), f(1, 2, 4), f(1, 2, 4, seed=1))),
    "lstm_projected": Case(_recurrent(torch.nn.LSTM, 3, 4, proj_size=2), (f(5, 2, 3), f(1, 2, 2), f(1, 2, 4))),
    "lstm_projected_both_ways": Case(
        _recurrent(torch.nn.LSTM, 3, 4, num_layers=2, bidirectional=True, proj_size=2, bias=False),
        (f(5, 2, 3), f(4, 2, 2), f(4, 2, 4)),
    ),
    "rnn_relu": Case(_recurrent(torch.nn.RNN, 3, 4, nonlinearity="relu"), (f(5, 2, 3),)),
}

_MATRIX, _RIGHT = f(2, 4, 4), f(2, 4, 3)
_POSITIVE = _MATRIX @ _MATRIX.mT + torch.eye(4)
_SINGULAR = torch.tensor([[[0.0, 2.0], [3.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])
MATRICES: dict[str, Case] = {
    "det": Case(torch.det, (_MATRIX,)),
    "det_of_singular": Case(torch.linalg.det, (_SINGULAR,)),
    "det_of_one": Case(torch.det, (f(1, 1),)),
    "slogdet": Case(lambda x: tuple(torch.linalg.slogdet(x)), (_MATRIX,)),
    "slogdet_of_singular": Case(lambda x: tuple(torch.slogdet(x)), (_SINGULAR,)),
    "slogdet_of_great": Case(lambda x: tuple(torch.slogdet(x)), (f(8, 8) * 1e9,)),
    "logdet": Case(
        torch.logdet, (torch.stack([_POSITIVE[0], -torch.eye(4)[[1, 0, 2, 3]] * 2, torch.eye(4)[[1, 0, 2, 3]]]),)
    ),
    "inverse": Case(torch.inverse, (_MATRIX,)),
    "inverse_where_rows_move": Case(
        torch.linalg.inv, (torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 4.0]]),)
    ),
    "inverse_and_check": Case(lambda x: tuple(aten.linalg_inv_ex(x)), (_MATRIX,)),
    "solve": Case(torch.linalg.solve, (_MATRIX, _RIGHT)),
    "solve_for_vector": Case(torch.linalg.solve, (_MATRIX, f(2, 4))),
    "cholesky": Case(torch.linalg.cholesky, (_POSITIVE,)),
    "cholesky_of_lower": Case(torch.linalg.cholesky, (_POSITIVE.tril(),)),
    "cholesky_of_upper": Case(lambda x: torch.linalg.cholesky(x, upper=True), (_POSITIVE.triu(),)),
    "cholesky_upper": Case(lambda x: torch.linalg.cholesky(x, upper=True), (_POSITIVE,)),
    "cholesky_solve": Case(torch.cholesky_solve, (_RIGHT, torch.linalg.cholesky(_POSITIVE))),
    "solve_triangular": Case(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), (_POSITIVE.triu(), _RIGHT)),
    "solve_triangular_of_ones": Case(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True), (_MATRIX.tril(), _RIGHT)
    ),
}

_CLASSES = torch.tensor([0, 1, 2, 1, 0])
LOSSES: dict[str, Case] = {
    **{
        f"cross_entropy_{reduction}": Case(
            lambda x, y, w, r=reduction: F.cross_entropy(x, y, w, reduction=r, ignore_index=2),
            (f(5, 3), _CLASSES, pos(3)),
        )
        for reduction in ("none", "mean", "sum")
    },
    **{
        f"smooth_cross_entropy_{reduction}": Case(
            lambda x, y, r=reduction: F.cross_entropy(x, y, reduction=r, label_smoothing=0.3), (f(5, 3), _CLASSES)
        )
        for reduction in ("none", "mean", "sum")
    },
    "cross_entropy_of_pictures": Case(
        lambda x, y: F.cross_entropy(x, y, reduction="sum"), (f(2, 3, 4, 5), i(2, 4, 5, low=0, high=3))
    ),
    "cross_entropy_of_one": Case(lambda x, y: F.cross_entropy(x, y, reduction="sum"), (f(3), torch.tensor(1))),
    **{
        f"{loss}_{reduction}": Case(
            lambda x, y, n=loss, r=reduction: getattr(F, n)(x, y, reduction=r), (f(3, 4), f(3, 4, seed=1))
        )
        for loss in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "kl_div")
        for reduction in ("none", "mean", "sum")
    },
    "binary_cross_entropy": Case(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"), (f(4), b(4).float())
    ),
}  # fmt: skip

RARE_FAMILIES: dict[str, dict[str, Case]] = {
    "backward": BACKWARD,
    "complex": COMPLEX,
    "groups": GROUPS,
    "losses": LOSSES,
    "matrices": MATRICES,
    "pooling": POOLING,
    "recurrent": RECURRENT,
    "scatters": SCATTERS,
}
