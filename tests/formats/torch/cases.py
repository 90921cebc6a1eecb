"""Calls of ATen operators, by family, on values that tell operators apart: all dimensions different, signs mixed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

aten: Any = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """One call: the function of tensors, and the tensors."""

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


def f(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Floats around zero."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def pos(*shape: int) -> torch.Tensor:
    """Floats above zero."""
    return f(*shape).abs() + 0.25


def unit(*shape: int) -> torch.Tensor:
    """Floats strictly between -1 and 1."""
    return torch.tanh(f(*shape)) * 0.9


def i(*shape: int, low: int = -5, high: int = 6, seed: int = 0) -> torch.Tensor:
    """Integers."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(low, high, shape, generator=generator)


def b(*shape: int) -> torch.Tensor:
    """Truth values."""
    return i(*shape, low=0, high=2).bool()


SPECIAL = torch.tensor([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-9, -1e-9, 30.0, -40.0, 2.5, -2.5, 0.5])

_FLOATING = (
    "abs acos asin atan ceil cos cosh erf exp exp2 expm1 floor frac neg reciprocal round sigmoid sign sin sinc sinh "
    "sqrt tan tanh trunc deg2rad rad2deg isnan isinf isfinite asinh square positive"
)
UNARY: dict[str, Case] = {
    **{name: Case(getattr(torch, name), (unit(2, 3, 5),)) for name in _FLOATING.split()},
    **{name: Case(getattr(torch, name), (pos(2, 3),)) for name in ("log", "log2", "log10", "log1p", "rsqrt", "sqrt")},
    "acosh": Case(torch.acosh, (pos(4) + 1,)),
    "atanh": Case(torch.atanh, (unit(4),)),
    "logit": Case(torch.logit, (torch.sigmoid(f(2, 3)),)),
    "logit_eps": Case(lambda x: torch.logit(x, eps=0.2), (torch.sigmoid(f(2, 3)),)),
    "log1p_near_zero": Case(
        torch.log1p, (torch.tensor([1e-9, -1e-9, 1e-4, 0.0, -1.0, -2.0, math.inf, math.nan, 3.0]),)
    ),
    "expm1_near_zero": Case(torch.expm1, (SPECIAL,)),
    "sin_of_integers": Case(torch.sin, (i(2, 3),)),
    "exp_of_bool": Case(torch.exp, (b(2, 3),)),
    "sqrt_half": Case(torch.sqrt, (pos(4).half(),)),
    "exp_bfloat16": Case(torch.exp, (f(4).bfloat16(),)),
    "expm1_half": Case(torch.expm1, (f(4).half(),)),
    "round_half_to_even": Case(torch.round, (torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]),)),
    "round_decimals": Case(lambda x: torch.round(x, decimals=2), (f(5) * 10,)),
    "round_integers": Case(torch.round, (i(4),)),
    "ceil_integers": Case(torch.ceil, (i(4),)),
    "logical_not": Case(torch.logical_not, (i(2, 3, low=0, high=2),)),
    "bitwise_not": Case(torch.bitwise_not, (i(2, 3),)),
    "bitwise_not_bool": Case(lambda x: ~x, (b(2, 3),)),
    "nan_to_num": Case(lambda x: torch.nan_to_num(x, nan=1.5, posinf=9.0), (SPECIAL,)),
    "signbit_integers": Case(torch.signbit, (i(5),)),
    "to_int": Case(lambda x: x.to(torch.int32), (f(5) * 3,)),
    "to_half_and_back": Case(lambda x: x.half().float(), (f(5),)),
    "type_as": Case(lambda x, y: x.type_as(y), (i(3), f(3))),
    "clone": Case(lambda x: x.clone().contiguous(), (f(2, 3),)),
    "sgn": Case(torch.sgn, (SPECIAL[:5],)),
    "abs_integers": Case(torch.abs, (i(5),)),
    "relu_nan": Case(torch.relu, (SPECIAL,)),
    "sign_bool": Case(torch.sign, (b(5),)),
    "square_bool": Case(torch.square, (b(5),)),
    "erfc": Case(torch.erfc, (f(20) * 4,)),
    "erfc_integers": Case(torch.special.erfc, (i(5),)),
}

_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
BINARY: dict[str, Case] = {
    **{name: Case(getattr(torch, name), (i(2, 3), i(3, seed=1))) for name in _COMPARED},
    **{f"{name}_number": Case(lambda x, op=name: getattr(torch, op)(x, 1), (f(2, 3),)) for name in _COMPARED},
    "gt_float_of_integers": Case(lambda x: x > 0.5, (i(5),)),
    "eq_nan": Case(lambda x: x == x, (SPECIAL,)),
    "lt_bool": Case(torch.lt, (b(5), b(3, 5))),
    "add": Case(torch.add, (f(2, 3), f(3))),
    "add_alpha": Case(lambda x, y: torch.add(x, y, alpha=-2.5), (f(2, 3), f(3))),
    "add_integer_alpha": Case(lambda x, y: torch.add(x, y, alpha=3), (i(2, 3), i(3))),
    "add_number": Case(lambda x: x + 2, (f(2, 3),)),
    "add_number_promotes": Case(lambda x: x + 2.5, (i(2, 3),)),
    "add_promotes": Case(lambda x, y: x + y, (i(2, 3), f(3))),
    "add_scalar_tensor_keeps_dtype": Case(lambda x, y: x + y, (f(3).half(), torch.tensor(2.5))),
    "add_bool_and_integer": Case(lambda x, y: x + y, (b(3), i(3))),
    "add_half_and_number": Case(lambda x: x + 0.1, (f(40).half(),)),
    "mul_bfloat16_and_number": Case(lambda x: x * 0.1, (f(40).bfloat16(),)),
    "sub_alpha": Case(lambda x, y: torch.sub(x, y, alpha=2), (f(2, 3), f(3))),
    "rsub": Case(lambda x: 1.5 - x, (f(2, 3),)),
    "rsub_alpha": Case(lambda x, y: torch.rsub(x, y, alpha=2), (f(2, 3), f(3))),
    "mul": Case(torch.mul, (f(2, 1), f(3))),
    "mul_bool": Case(torch.mul, (b(5), b(5))),
    "mul_number": Case(lambda x: x * 3, (i(4),)),
    "div": Case(torch.div, (f(2, 3), pos(3))),
    "div_integers": Case(torch.div, (i(2, 3), i(3, low=1, high=4))),
    "div_number": Case(lambda x: x / 3, (i(5),)),
    "div_floor": Case(lambda x, y: torch.div(x, y, rounding_mode="floor"), (i(20), i(20, low=1, high=4))),
    "div_trunc": Case(lambda x, y: torch.div(x, y, rounding_mode="trunc"), (i(20), i(20, low=1, high=4))),
    "div_trunc_floats": Case(lambda x, y: torch.div(x, y, rounding_mode="trunc"), (f(20), pos(20))),
    "floor_divide": Case(lambda x: x // 2, (i(20),)),
    "remainder": Case(torch.remainder, (i(20), i(20, low=1, high=4) * -1)),
    "remainder_number": Case(lambda x: x % 3, (i(20),)),
    "remainder_of_number": Case(lambda x: 7 % x, (i(20, low=1, high=5),)),
    "remainder_half_and_number": Case(lambda x: x % 0.3, (f(40).half() * 50,)),
    "fmod_bfloat16_and_number": Case(lambda x: torch.fmod(x, 2.7), (f(40).bfloat16() * 50,)),
    "pow_half_and_number": Case(lambda x: x**2.7, (pos(40).half() * 3,)),
    "add_half_number_alpha": Case(lambda x: torch.add(x, 2.7, alpha=3), (f(40).half() * 50,)),
    "div_trunc_half_and_number": Case(lambda x: torch.div(x, 0.3, rounding_mode="trunc"), (f(40).half() * 50,)),
    "fmod": Case(torch.fmod, (f(20), pos(20))),
    "fmod_number": Case(lambda x: torch.fmod(x, 3), (i(20),)),
    "pow": Case(torch.pow, (pos(2, 3), f(3))),
    "pow_number": Case(lambda x: x**3, (f(2, 3),)),
    "pow_square": Case(lambda x: x**2, (i(2, 3),)),
    "pow_root": Case(lambda x: x**0.5, (pos(4),)),
    "pow_of_number": Case(lambda x: 2.0**x, (f(4),)),
    "atan2": Case(torch.atan2, (f(2, 3), f(3))),
    "atan2_integers": Case(torch.atan2, (i(2, 3), i(3, seed=1))),
    "atan2_integer_and_half": Case(torch.atan2, (i(2, 3), f(3).half())),
    "add_number_that_wraps": Case(lambda x: x + (-1), (i(5, low=0, high=9).to(torch.uint8),)),
    "lt_number_that_wraps": Case(lambda x: (x < -1, x > 300), (i(5, low=0, high=99).to(torch.uint8),)),
    "maximum": Case(torch.maximum, (SPECIAL, SPECIAL.flip(0))),
    "minimum": Case(torch.minimum, (SPECIAL, SPECIAL.flip(0))),
    "max_other": Case(torch.max, (i(2, 3), i(3))),
    "min_other": Case(torch.min, (i(2, 3), i(3))),
    "fmax": Case(torch.fmax, (SPECIAL, SPECIAL.flip(0))),
    "fmin": Case(torch.fmin, (SPECIAL, SPECIAL.flip(0))),
    "hypot": Case(torch.hypot, (SPECIAL * 1e19, SPECIAL.flip(0) * 1e19)),
    "logaddexp": Case(torch.logaddexp, (f(2, 3) * 50, f(3) * 50)),
    "xlogy_number": Case(lambda x: torch.xlogy(x, 2.5), (torch.tensor([0.0, 1.0, 2.0]),)),
    "xlogy_of_number": Case(lambda x: torch.xlogy(0.5, x), (torch.tensor([0.0, 1.0, 2.0]),)),
    "xlogy": Case(torch.xlogy, (torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 3.0, 0.5]))),
    "logical_and": Case(torch.logical_and, (i(2, 3, low=0, high=2), b(3))),
    "logical_or": Case(torch.logical_or, (f(2, 3), b(3))),
    "logical_xor": Case(torch.logical_xor, (b(2, 3), b(3))),
    "bitwise_and": Case(lambda x, y: x & y, (i(5), i(5, seed=1))),
    "bitwise_or_bool": Case(lambda x, y: x | y, (b(5), b(5))),
    "bitwise_xor": Case(lambda x, y: x ^ y, (i(5), i(5, seed=1))),
    "bitwise_and_number": Case(lambda x: x & 3, (i(5),)),
    "shift_left": Case(lambda x: x << 2, (i(5),)),
    "shift_right": Case(lambda x: x >> 1, (i(5),)),
    "shift_by_tensor": Case(torch.bitwise_left_shift, (i(5), i(5, low=0, high=3))),
    "where": Case(torch.where, (b(2, 3), f(2, 3), f(3))),
    "where_numbers": Case(lambda c: torch.where(c, 1.0, 0.0), (b(2, 3),)),
    "where_number": Case(lambda c, x: torch.where(c, x, 0), (b(2, 3), f(2, 3))),
    "where_promotes": Case(torch.where, (b(3), i(3), f(3))),
    "masked_fill": Case(lambda x, m: x.masked_fill(m, -1e9), (f(2, 3), b(3))),
    "masked_fill_infinite": Case(lambda x, m: x.masked_fill(m, float("-inf")), (f(2, 3), b(3))),
    "masked_fill_tensor": Case(lambda x, m, v: x.masked_fill(m, v), (f(2, 3), b(3), torch.tensor(2.0))),
    "clamp": Case(lambda x: x.clamp(-0.5, 0.5), (SPECIAL,)),
    "clamp_one_side": Case(lambda x: x.clamp(min=0.25), (f(2, 3),)),
    "clamp_max": Case(lambda x: torch.clamp_max(x, 0.25), (f(2, 3),)),
    "clamp_integers_by_float": Case(lambda x: x.clamp(-1.5, 2.5), (i(6),)),
    "clamp_tensors": Case(lambda x, lo, hi: torch.clamp(x, lo, hi), (f(2, 3), f(3) - 1, f(3) + 1)),
    "hardtanh": Case(F.hardtanh, (f(2, 3) * 2,)),
    "addcmul": Case(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (f(2, 3), f(3), f(2, 1))),
    "addcdiv": Case(lambda x, y, z: torch.addcdiv(x, y, z, value=2), (f(2, 3), f(3), pos(2, 1))),
    "lerp": Case(lambda x, y: torch.lerp(x, y, 0.3), (f(2, 3), f(2, 3, seed=2))),
    "lerp_tensor": Case(torch.lerp, (f(2, 3), f(2, 3, seed=2), f(3))),
    "zero_dim_promotion": Case(lambda x: x * torch.tensor(2, dtype=torch.int64), (f(3),)),
}

ACTIVATION: dict[str, Case] = {
    **{
        name: Case(getattr(F, name), (f(2, 3, 4) * 3,))
        for name in [
            "celu",
            "elu",
            "gelu",
            "hardshrink",
            "hardsigmoid",
            "hardswish",
            "hardtanh",
            "leaky_relu",
            "logsigmoid",
            "mish",
            "relu",
            "relu6",
            "selu",
            "silu",
            "softplus",
            "softshrink",
            "softsign",
            "tanhshrink",
        ]
    },
    **{f"{name}_special": Case(getattr(F, name), (SPECIAL,)) for name in ("elu", "silu", "logsigmoid", "softplus")},
    "gelu_tanh": Case(lambda x: F.gelu(x, approximate="tanh"), (f(2, 3),)),
    "gelu_half": Case(F.gelu, (f(2, 3).half(),)),
    "elu_alpha": Case(lambda x: F.elu(x, alpha=0.5), (f(2, 3),)),
    "celu_alpha": Case(lambda x: F.celu(x, alpha=0.5), (f(2, 3),)),
    "leaky_slope": Case(lambda x: F.leaky_relu(x, 0.2), (f(2, 3),)),
    "softplus_beta": Case(lambda x: F.softplus(x, beta=2, threshold=3), (f(2, 3) * 3,)),
    "threshold": Case(lambda x: F.threshold(x, 0.1, 7.0), (f(2, 3),)),
    "glu": Case(lambda x: F.glu(x, dim=1), (f(2, 6, 3),)),
    "prelu": Case(F.prelu, (f(2, 3, 4), f(3))),
    "prelu_one": Case(F.prelu, (f(2, 3, 4), f(1))),
    "rrelu": Case(lambda x: F.rrelu(x, training=False), (f(2, 3),)),
    "softmax": Case(lambda x: F.softmax(x, dim=1), (f(2, 3, 4),)),
    "softmax_dtype": Case(lambda x: F.softmax(x, dim=-1, dtype=torch.float64), (f(2, 3),)),
    "log_softmax": Case(lambda x: F.log_softmax(x, dim=0), (f(2, 3),)),
    "safe_softmax": Case(
        lambda x, m: aten._safe_softmax(x.masked_fill(m, float("-inf")), -1), (f(2, 3), torch.ones(2, 3).bool())
    ),
    "dropout_in_eval": Case(lambda x: F.dropout(x, 0.5, training=False), (f(2, 3),)),
}

REDUCTION: dict[str, Case] = {
    "sum": Case(torch.sum, (f(2, 3, 4),)),
    "sum_dims": Case(lambda x: x.sum((0, -1), keepdim=True), (f(2, 3, 4),)),
    "sum_bool": Case(torch.sum, (b(2, 3),)),
    "sum_int32": Case(lambda x: x.int().sum(1), (i(2, 3),)),
    "sum_dtype": Case(lambda x: x.sum(0, dtype=torch.float64), (f(2, 3),)),
    "sum_scalar": Case(torch.sum, (torch.tensor(2.5),)),
    "mean": Case(torch.mean, (f(2, 3, 4),)),
    "mean_dim": Case(lambda x: x.mean(1), (f(2, 3, 4),)),
    "prod": Case(torch.prod, (f(2, 3),)),
    "prod_dim": Case(lambda x: x.prod(1, keepdim=True), (i(2, 3),)),
    "nansum": Case(torch.nansum, (torch.tensor([1.0, math.nan, 2.0]),)),
    "amax": Case(lambda x: x.amax((0, 2)), (f(2, 3, 4),)),
    "amin": Case(lambda x: x.amin(1, keepdim=True), (f(2, 3, 4),)),
    "max": Case(torch.max, (f(2, 3),)),
    "min": Case(torch.min, (i(2, 3),)),
    "aminmax": Case(lambda x: tuple(torch.aminmax(x, dim=1)), (f(2, 3),)),
    "max_dim": Case(lambda x: tuple(torch.max(x, 1)), (f(2, 3),)),
    "min_dim": Case(lambda x: tuple(torch.min(x, 0, keepdim=True)), (f(2, 3),)),
    "argmax": Case(torch.argmax, (f(2, 3),)),
    "argmax_dim": Case(lambda x: x.argmax(-1, keepdim=True), (f(2, 3),)),
    "argmin": Case(lambda x: x.argmin(0), (f(2, 3),)),
    "any": Case(torch.any, (i(2, 3, low=0, high=2),)),
    "any_dim": Case(lambda x: x.any(1), (b(2, 3),)),
    "all": Case(torch.all, (b(2, 3),)),
    "all_dim": Case(lambda x: x.all(0, keepdim=True), (b(2, 3),)),
    "count_nonzero": Case(lambda x: torch.count_nonzero(x, dim=1), (i(4, 5, low=0, high=2),)),
    "var": Case(torch.var, (f(2, 3),)),
    "var_dim": Case(lambda x: x.var(1), (f(2, 3),)),
    "var_biased": Case(lambda x: x.var((0, 2), unbiased=False), (f(2, 3, 4),)),
    "var_correction": Case(lambda x: torch.var(x, dim=0, correction=2), (f(5, 3),)),
    "std": Case(lambda x: x.std(1, keepdim=True), (f(2, 3),)),
    "var_mean": Case(lambda x: torch.var_mean(x, 1), (f(2, 3),)),
    "logsumexp": Case(lambda x: torch.logsumexp(x, 1), (f(2, 3) * 60,)),
    "logsumexp_of_nothing": Case(lambda x: torch.logsumexp(x, 0), (torch.full((2, 2), -math.inf),)),
    "norm": Case(lambda x: torch.linalg.vector_norm(x, dim=1), (f(2, 3),)),
    "norm_1": Case(lambda x: torch.linalg.vector_norm(x, 1), (f(2, 3),)),
    "norm_inf": Case(lambda x: torch.linalg.vector_norm(x, math.inf, dim=1), (f(2, 3),)),
    "norm_3": Case(lambda x: torch.linalg.vector_norm(x, 3), (f(2, 3),)),
    "norm_0": Case(lambda x: torch.linalg.vector_norm(x, 0), (i(2, 3).float(),)),
    "normalize": Case(lambda x: F.normalize(x, dim=-1), (f(2, 3),)),
    "cumsum": Case(lambda x: x.cumsum(1), (f(2, 3),)),
    "cumsum_bool": Case(lambda x: x.cumsum(0), (b(5),)),
    "cumprod": Case(lambda x: x.cumprod(0), (f(5),)),
    "quantile": Case(lambda x: torch.quantile(x, 0.3, dim=1), (f(4, 7),)),
    "quantile_of_all": Case(lambda x: torch.quantile(x, 0.85, keepdim=True), (f(4, 7),)),
    "quantile_of_nan": Case(
        lambda x: torch.quantile(x, 0.5, 0, interpolation="higher"), (torch.tensor([[1.0, 2.0], [math.nan, 4.0]]),)
    ),
    "quantile_midpoint": Case(lambda x: torch.quantile(x, 0.9, -1, interpolation="midpoint"), (f(3, 6),)),
    "quantile_nearest": Case(lambda x: torch.quantile(x, 0.5, -1, interpolation="nearest"), (f(3, 6),)),
    "vander": Case(lambda x: torch.vander(x, 3), (f(4),)),
    "unique_of_floats": Case(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True), (torch.tensor([[1.5, 0.5], [1.5, -2.0]]),)
    ),
    "unique_of_nan": Case(lambda x: torch.unique(x), (torch.tensor([math.nan, 1.0, math.nan, -math.inf, 1.0]),)),
    "unique_consecutive": Case(
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), (i(4, 5, low=0, high=2),)
    ),
    "bincount": Case(lambda x: torch.bincount(x), (torch.tensor([3, 1, 3]),)),
    "bincount_weights": Case(lambda x, y: torch.bincount(x, y, minlength=6), (torch.tensor([3, 1, 3]), f(3))),
    "diff": Case(lambda x: torch.diff(x, dim=0), (i(5, 2),)),
    "diff_prepend": Case(lambda x, y: torch.diff(x, n=2, prepend=y), (f(2, 5), f(2, 1))),
    "diff_none": Case(lambda x: torch.diff(x, n=0), (f(2, 5),)),
    "sort": Case(lambda x: tuple(torch.sort(x, 1, descending=True)), (f(2, 5),)),
    "sort_stable": Case(lambda x: tuple(torch.sort(x, stable=True, dim=0)), (i(8, 2, low=0, high=3),)),
    "argsort": Case(lambda x: torch.argsort(x, dim=1), (f(2, 5),)),
    "topk": Case(lambda x: tuple(torch.topk(x, 2)), (f(3, 5),)),
    "topk_smallest": Case(lambda x: tuple(torch.topk(x, 3, dim=0, largest=False)), (f(5, 2),)),
    "kthvalue": Case(lambda x: tuple(torch.kthvalue(x, 2, dim=1, keepdim=True)), (f(3, 5),)),
    "median": Case(torch.median, (f(2, 4),)),
    "median_dim": Case(lambda x: tuple(torch.median(x, 1)), (f(3, 5),)),
    "bucketize": Case(torch.bucketize, (f(2, 3), torch.tensor([-1.0, 0.0, 0.5]))),
    "searchsorted_right": Case(
        lambda s, x: torch.searchsorted(s, x, right=True), (torch.tensor([0, 1, 1, 3]), i(2, 3))
    ),
}

VIEWS: dict[str, Case] = {
    "view": Case(lambda x: x.view(6, 4), (f(2, 3, 4),)),
    "reshape": Case(lambda x: x.transpose(0, 1).reshape(-1, 2), (f(2, 3, 4),)),
    "flatten": Case(lambda x: x.flatten(1), (f(2, 3, 4),)),
    "unflatten": Case(lambda x: x.unflatten(1, (3, -1)), (f(2, 12),)),
    "ravel": Case(torch.ravel, (f(2, 3),)),
    "unsqueeze": Case(lambda x: x.unsqueeze(-1), (f(2, 3),)),
    "squeeze": Case(torch.squeeze, (f(2, 1, 3, 1),)),
    "squeeze_dim": Case(lambda x: x.squeeze(1), (f(2, 1, 3),)),
    "squeeze_wider": Case(lambda x: x.squeeze(0), (f(2, 1, 3),)),
    "squeeze_dims": Case(lambda x: x.squeeze((0, 2)), (f(1, 2, 1),)),
    "expand": Case(lambda x: x.expand(4, -1, 3), (f(2, 1),)),
    "expand_as": Case(lambda x, y: x.expand_as(y), (f(3), f(2, 3))),
    "broadcast_tensors": Case(lambda x, y: tuple(torch.broadcast_tensors(x, y)), (f(2, 1), f(3))),
    "permute": Case(lambda x: x.permute(2, 0, -2), (f(2, 3, 4),)),
    "transpose": Case(lambda x: x.transpose(-1, 0), (f(2, 3, 4),)),
    "t": Case(torch.t, (f(2, 3),)),
    "mT": Case(lambda x: x.mT, (f(2, 3, 4),)),
    "movedim": Case(lambda x: x.movedim((0, 1), (-1, 0)), (f(2, 3, 4, 5),)),
    "moveaxis": Case(lambda x: torch.moveaxis(x, 0, -1), (f(2, 3, 4),)),
    "adjoint": Case(lambda x: x.adjoint(), (f(2, 3, 4),)),
    "hsplit": Case(lambda x: torch.hsplit(x, [1, 4]), (f(2, 6),)),
    "atleast_3d": Case(torch.atleast_3d, (f(4),)),
    "diagonal_of_linalg": Case(lambda x: torch.linalg.diagonal(x, offset=-1), (f(2, 4, 3),)),
    "cat": Case(lambda x, y: torch.cat([x, y], 1), (f(2, 3), f(2, 4))),
    "cat_promotes": Case(lambda x, y: torch.cat([x, y]), (i(3), f(2))),
    "cat_with_empty": Case(lambda x: torch.cat([torch.empty(0), x]), (f(2, 3),)),
    "stack": Case(lambda x, y: torch.stack([x, y], -1), (f(2, 3), f(2, 3, seed=1))),
    "hstack": Case(lambda x, y: torch.hstack([x, y]), (f(2, 3), f(2, 1))),
    "vstack": Case(lambda x, y: torch.vstack([x, y]), (f(3), f(3, seed=1))),
    "split": Case(lambda x: x.split(2, 1), (f(2, 5),)),
    "split_sizes": Case(lambda x: x.split([1, 3, 1], -1), (f(2, 5),)),
    "chunk": Case(lambda x: x.chunk(3, 1), (f(2, 7),)),
    "chunk_one": Case(lambda x: x.chunk(1, 1), (f(2, 7),)),
    "tensor_split": Case(lambda x: x.tensor_split(3, 1), (f(2, 7),)),
    "unbind": Case(lambda x: x.unbind(1), (f(2, 3, 4),)),
    "flip": Case(lambda x: x.flip((0, 2)), (f(2, 3, 4),)),
    "rot90": Case(lambda x: torch.rot90(x, 1, (0, 1)), (f(2, 3, 4),)),
    "rot270": Case(lambda x: torch.rot90(x, 3, (1, 2)), (f(2, 3, 4),)),
    "roll": Case(lambda x: x.roll((1, -2), (0, 1)), (f(2, 5),)),
    "roll_flat": Case(lambda x: x.roll(4), (f(2, 5),)),
    "repeat": Case(lambda x: x.repeat(2, 1, 3), (f(2, 3),)),
    "tile": Case(lambda x: x.tile(2), (f(2, 3),)),
    "repeat_interleave": Case(lambda x: x.repeat_interleave(3, dim=1), (f(2, 3),)),
    "meshgrid": Case(lambda x, y: torch.meshgrid(x, y, indexing="ij"), (f(2), f(3))),
    "meshgrid_xy": Case(lambda x, y: torch.meshgrid(x, y, indexing="xy"), (f(2), f(3))),
    "unfold": Case(lambda x: x.unfold(1, 3, 2), (f(2, 8, 4),)),
    "pixel_shuffle": Case(lambda x: F.pixel_shuffle(x, 2), (f(2, 8, 3, 5),)),
    "pixel_unshuffle": Case(lambda x: F.pixel_unshuffle(x, 2), (f(2, 3, 4, 6),)),
    "channel_shuffle": Case(lambda x: F.channel_shuffle(x, 3), (f(2, 6, 4, 5),)),
    "diagonal": Case(lambda x: x.diagonal(1, 0, 2), (f(3, 2, 4),)),
    "diagonal_below": Case(lambda x: x.diagonal(-1), (f(4, 3),)),
    "view_as": Case(lambda x, y: x.view_as(y), (f(2, 6), f(3, 4))),
    "as_strided": Case(lambda x: x.as_strided((5, 4), (2, 1)), (f(12),)),
    "as_strided_of_turned": Case(lambda x: x.t().as_strided((2, 3), (1, 3), 2), (f(3, 4),)),
    "as_strided_of_a_part": Case(lambda x: x[1:].as_strided((2, 3), (1, 3), 5), (f(4, 4),)),
}

_TIMES = torch.tensor([2, 0, 3])
INDEXING: dict[str, Case] = {
    "repeat_each": Case(lambda x, n: x.repeat_interleave(n, dim=1), (f(2, 3), _TIMES)),
    "repeat_each_known": Case(lambda x, n: x.repeat_interleave(n, dim=0, output_size=5), (f(3, 2), _TIMES)),
    "repeat_each_alike": Case(lambda x, n: x.repeat_interleave(n), (f(3, 2), torch.tensor([2]))),
    "repeat_places": Case(torch.repeat_interleave, (_TIMES.int(),)),
    "slice": Case(lambda x: x[:, 1:4], (f(2, 5),)),
    "slice_step": Case(lambda x: x[::2, -3:], (f(5, 4),)),
    "slice_past_the_end": Case(lambda x: x[3:9], (f(5, 2),)),
    "narrow": Case(lambda x: x.narrow(1, 1, 2), (f(2, 5),)),
    "select": Case(lambda x: x[:, -1], (f(2, 5),)),
    "index_select": Case(lambda x, n: x.index_select(1, n), (f(2, 5), torch.tensor([4, 0, 0]))),
    "gather": Case(lambda x, n: x.gather(1, n), (f(2, 5), i(2, 3, low=0, high=5))),
    "gather_smaller": Case(lambda x, n: x.gather(0, n), (f(4, 5), i(2, 3, low=0, high=4))),
    "take_along_dim": Case(lambda x, n: torch.take_along_dim(x, n, 1), (f(2, 5), i(1, 3, low=0, high=5))),
    "take": Case(torch.take, (f(2, 5), i(3, low=-10, high=10))),
    "embedding": Case(lambda n, w: F.embedding(n, w), (i(2, 3, low=0, high=7), f(7, 4))),
    "index": Case(lambda x, n: x[n], (f(5, 3), i(2, 4, low=-5, high=5))),
    "index_two": Case(lambda x, n, m: x[n, m], (f(5, 3, 2), i(4, low=0, high=5), i(4, low=0, high=3))),
    "index_middle": Case(lambda x, n, m: x[:, n, m], (f(2, 5, 3, 4), i(6, low=0, high=5), i(6, low=0, high=3))),
    "index_apart": Case(lambda x, n, m: x[n, :, m], (f(5, 2, 3), i(4, low=0, high=5), i(4, low=0, high=3))),
    "index_broadcast": Case(lambda x, n, m: x[n, m], (f(5, 3), i(4, 1, low=0, high=5), i(2, low=0, high=3))),
    "index_last": Case(lambda x, n: x[..., n], (f(2, 3, 5), i(2, 2, low=0, high=5))),
    "scatter": Case(
        lambda x, n, s: x.scatter(1, n, s), (f(2, 5), torch.tensor([[0, 4, 2], [1, 3, 0]]), f(2, 4, seed=3))
    ),
    "scatter_value": Case(lambda x, n: x.scatter(1, n, 9.0), (f(2, 5), i(2, 3, low=0, high=5))),
    "scatter_add": Case(lambda x, n, s: x.scatter_add(0, n, s), (f(4, 3), i(5, 3, low=0, high=4), f(5, 3))),
    "scatter_reduce": Case(lambda x, n, s: x.scatter_reduce(0, n, s, "amax"), (f(4), i(6, low=0, high=4), f(6))),
    "scatter_mean": Case(lambda x, n, s: x.scatter_reduce(0, n, s, "mean"), (f(4), i(6, low=0, high=4), f(6))),
    "index_add": Case(lambda x, n, s: x.index_add(1, n, s, alpha=2), (f(2, 4), torch.tensor([3, 0, 3]), f(2, 3))),
    "index_copy": Case(lambda x, n, s: x.index_copy(1, n, s), (f(2, 4), torch.tensor([3, 0]), f(2, 2))),
    "index_fill": Case(lambda x, n: x.index_fill(1, n, 7), (f(2, 4), torch.tensor([3, 0]))),
    "index_fill_of_a_scalar": Case(lambda x, n: x.index_fill(0, n, 7), (f(), torch.tensor([0]))),
    "index_put": Case(lambda x, n, v: x.index_put((n,), v), (f(5, 3), torch.tensor([4, 1]), f(2, 3))),
    "index_put_adds": Case(
        lambda x, n, v: x.index_put((n,), v, accumulate=True), (f(5, 3), torch.tensor([4, 1, 4]), f(3, 3))
    ),
    "index_put_mask": Case(lambda x, m: x.index_put((m,), torch.tensor(0.5)), (f(4, 3), b(4, 3))),
    "masked_scatter": Case(lambda x, m, s: x.masked_scatter(m, s), (f(3, 4), b(3, 4), f(20))),
    "select_scatter": Case(lambda x, s: x.select_scatter(s, 1, -1), (f(2, 3), f(2))),
    "slice_scatter": Case(lambda x, s: x.slice_scatter(s, 1, 1, 4, 2), (f(2, 5), f(2, 2))),
    "tril": Case(lambda x: x.tril(-1), (f(3, 4),)),
    "triu": Case(lambda x: x.triu(1), (f(2, 3, 4),)),
    "one_hot": Case(lambda n: F.one_hot(n, 5), (i(2, 3, low=0, high=5),)),
}

CREATION: dict[str, Case] = {
    "zeros": Case(lambda x: x + torch.zeros(3), (f(2, 3),)),
    "ones_like": Case(lambda x: torch.ones_like(x, dtype=torch.int64), (f(2, 3),)),
    "zeros_like": Case(torch.zeros_like, (f(2, 3),)),
    "full": Case(lambda x: torch.full((2, 3), 1.5) + x, (f(3),)),
    "full_like": Case(lambda x: torch.full_like(x, -2), (f(3),)),
    "new_full": Case(lambda x: x.new_full((2,), 3.5), (f(3),)),
    "new_ones": Case(lambda x: x.new_ones((2, 2)), (i(3),)),
    "new_zeros": Case(lambda x: x.new_zeros((2, 2), dtype=torch.float64), (i(3),)),
    "fill": Case(lambda x: torch.fill(x, 2.5), (f(2, 3),)),
    "arange": Case(lambda x: x + torch.arange(3), (f(2, 3),)),
    "arange_step": Case(lambda x: x * torch.arange(0.5, 2.0, 0.5), (f(3),)),
    "arange_down": Case(lambda x: x * torch.arange(3, 0, -1), (f(3),)),
    "linspace": Case(lambda x: x * torch.linspace(-1, 1, 5), (f(5),)),
    "eye": Case(lambda x: x @ torch.eye(3, 4), (f(2, 3),)),
    "scalar_tensor": Case(lambda x: x + torch.scalar_tensor(2.5), (f(3),)),
    "copy": Case(lambda x, y: torch.ops.aten.copy(x, y), (f(2, 3), i(3))),
    "hamming_window": Case(lambda x: x * torch.hamming_window(8), (f(8),)),
}

PRODUCTS: dict[str, Case] = {
    "linear": Case(F.linear, (f(2, 3, 4), f(5, 4), f(5))),
    "linear_without_bias": Case(lambda x, w: F.linear(x, w), (f(3, 4), f(5, 4))),
    "linear_of_vector": Case(F.linear, (f(4), f(5, 4), f(5))),
    "mm": Case(torch.mm, (f(2, 3), f(3, 4))),
    "bmm": Case(torch.bmm, (f(2, 3, 4), f(2, 4, 5))),
    "matmul_broadcast": Case(torch.matmul, (f(2, 1, 3, 4), f(5, 4, 2))),
    "matmul_vectors": Case(torch.matmul, (f(4), f(4, seed=1))),
    "matmul_vector_and_matrix": Case(torch.matmul, (f(4), f(4, 3))),
    "mv": Case(torch.mv, (f(3, 4), f(4))),
    "dot": Case(torch.dot, (f(4), f(4, seed=1))),
    "outer": Case(torch.outer, (f(3), f(4))),
    "inner": Case(torch.inner, (f(2, 4), f(3, 4))),
    "addmm": Case(torch.addmm, (f(4), f(2, 3), f(3, 4))),
    "addmm_scaled": Case(lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2), (f(2, 4), f(2, 3), f(3, 4))),
    "addmm_beta_zero": Case(
        lambda x, y, z: torch.addmm(x, y, z, beta=0), (torch.full((2, 4), math.nan), f(2, 3), f(3, 4))
    ),
    "addmv": Case(torch.addmv, (f(3), f(3, 4), f(4))),
    "baddbmm": Case(lambda x, y, z: torch.baddbmm(x, y, z, alpha=0.5), (f(1, 5), f(2, 3, 4), f(2, 4, 5))),
    "addbmm": Case(torch.addbmm, (f(3, 5), f(2, 3, 4), f(2, 4, 5))),
    "einsum": Case(lambda x, y: torch.einsum("bij,bjk->bik", x, y), (f(2, 3, 4), f(2, 4, 5))),
    "einsum_dots": Case(lambda x, y: torch.einsum("...i,ji->...j", x, y), (f(2, 3, 4), f(5, 4))),
    "trace": Case(torch.trace, (f(3, 4),)),
    "cdist": Case(torch.cdist, (f(2, 3, 4), f(2, 5, 4))),
    "cdist_1": Case(lambda x, y: torch.cdist(x, y, p=1), (f(3, 4), f(5, 4))),
    "tensordot": Case(lambda x, y: torch.tensordot(x, y, 2), (f(2, 3, 4), f(3, 4, 5))),
}

_QKV = (f(2, 4, 5, 8), f(2, 4, 7, 8), f(2, 4, 7, 6))
ATTENTION: dict[str, Case] = {
    "plain": Case(F.scaled_dot_product_attention, _QKV),
    "causal": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _QKV),
    "scale": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), _QKV),
    "float_mask": Case(F.scaled_dot_product_attention, (*_QKV, f(5, 7))),
    "bool_mask": Case(F.scaled_dot_product_attention, (*_QKV, b(2, 1, 5, 7))),
    "mask_of_one_key_column": Case(F.scaled_dot_product_attention, (*_QKV, f(2, 1, 5, 1))),
    "masked_rows_give_zeros": Case(F.scaled_dot_product_attention, (*_QKV, torch.zeros(5, 7).bool())),
    "three_axes": Case(F.scaled_dot_product_attention, (f(3, 5, 8), f(3, 7, 8), f(3, 7, 6))),
    "three_axes_mask": Case(F.scaled_dot_product_attention, (f(3, 5, 8), f(3, 7, 8), f(3, 7, 6), b(3, 5, 7))),
    "two_axes": Case(F.scaled_dot_product_attention, (f(5, 8), f(7, 8), f(7, 6))),
    "five_axes": Case(F.scaled_dot_product_attention, (f(2, 3, 4, 5, 8), f(2, 3, 4, 7, 8), f(2, 3, 4, 7, 6))),
    "grouped": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (f(2, 6, 5, 8), f(2, 2, 7, 8), f(2, 2, 7, 8)),
    ),
    "broadcast_batch": Case(F.scaled_dot_product_attention, (f(2, 4, 5, 8), f(1, 4, 7, 8), f(1, 4, 7, 8))),
    "multihead": Case(
        lambda x, w, b1, o, b2: F.multi_head_attention_forward(
            x, x, x, 8, 2, w, b1, None, None, False, 0.0, o, b2, training=False, need_weights=False
        )[0],
        (f(5, 2, 8), f(24, 8), f(24), f(8, 8), f(8)),
    ),
}

LAYERS: dict[str, Case] = {
    "conv1d": Case(lambda x, w, c: F.conv1d(x, w, c, stride=2, padding=1), (f(2, 4, 9), f(6, 4, 3), f(6))),
    "conv2d": Case(
        lambda x, w, c: F.conv2d(x, w, c, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (f(2, 4, 9, 11), f(6, 4, 3, 2), f(6)),
    ),
    "conv2d_groups": Case(lambda x, w: F.conv2d(x, w, groups=2), (f(2, 4, 9, 7), f(6, 2, 3, 3))),
    "conv2d_same": Case(lambda x, w: F.conv2d(x, w, padding="same"), (f(2, 4, 9, 7), f(6, 4, 4, 3))),
    "conv2d_valid": Case(lambda x, w: F.conv2d(x, w, padding="valid"), (f(2, 4, 9, 7), f(6, 4, 2, 3))),
    "conv2d_without_batch": Case(F.conv2d, (f(4, 9, 7), f(6, 4, 2, 3))),
    "conv3d": Case(F.conv3d, (f(2, 2, 5, 6, 4), f(3, 2, 2, 3, 2), f(3))),
    "conv_transpose1d": Case(lambda x, w: F.conv_transpose1d(x, w, stride=2), (f(2, 4, 5), f(4, 3, 3))),
    "conv_transpose2d": Case(
        lambda x, w, c: F.conv_transpose2d(x, w, c, stride=2, padding=1, output_padding=1, groups=2),
        (f(2, 4, 5, 6), f(4, 3, 3, 2), f(6)),
    ),
    "conv_transpose3d": Case(lambda x, w: F.conv_transpose3d(x, w, stride=2), (f(1, 2, 3, 4, 2), f(2, 3, 2, 2, 3))),
    "convolution": Case(
        lambda x, w: aten.convolution(x, w, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 1),
        (f(2, 4, 9, 7), f(6, 4, 2, 3)),
    ),
    "layer_norm": Case(lambda x, w, c: F.layer_norm(x, (3, 4), w, c, 1e-3), (f(2, 3, 4), f(3, 4), f(3, 4, seed=1))),
    "layer_norm_plain": Case(lambda x: F.layer_norm(x, (4,)), (f(2, 3, 4),)),
    "layer_norm_half": Case(lambda x: F.layer_norm(x, (4,)), (f(2, 3, 4).half(),)),
    "native_layer_norm": Case(lambda x, w: aten.native_layer_norm(x, [4], w, None, 1e-5), (f(2, 3, 4), f(4))),
    "rms_norm": Case(lambda x, w: F.rms_norm(x, (4,), w, 1e-4), (f(2, 3, 4), f(4))),
    "rms_norm_default_eps": Case(lambda x: F.rms_norm(x * 1e-4, (4,)), (f(2, 3, 4),)),
    "group_norm": Case(lambda x, w, c: F.group_norm(x, 3, w, c), (f(2, 6, 4, 5), f(6), f(6, seed=1))),
    "native_group_norm": Case(
        lambda x, w: aten.native_group_norm(x, w, None, 2, 6, 20, 3, 1e-5), (f(2, 6, 4, 5), f(6))
    ),
    "instance_norm": Case(lambda x, w, c: F.instance_norm(x, None, None, w, c), (f(2, 3, 4, 5), f(3), f(3, seed=1))),
    "batch_norm": Case(
        lambda x, m, v, w, c: F.batch_norm(x, m, v, w, c, False), (f(2, 3, 4, 5), f(3), pos(3), f(3), f(3, seed=1))
    ),
    "batch_norm_of_batch": Case(lambda x: F.batch_norm(x, None, None, training=True), (f(5, 3),)),
    "pad": Case(lambda x: F.pad(x, (1, 2, 0, 3), value=1.5), (f(2, 3, 4),)),
    "pad_crops": Case(lambda x: F.pad(x, (-1, 2)), (f(2, 5),)),
    "pad_reflect": Case(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), (f(2, 3, 4, 5),)),
    "pad_replicate": Case(lambda x: F.pad(x, (1, 2), mode="replicate"), (f(2, 3, 4),)),
    "pad_circular": Case(lambda x: F.pad(x, (1, 2), mode="circular"), (f(2, 3, 4),)),
    "max_pool1d": Case(lambda x: F.max_pool1d(x, 3, 2, 1), (f(2, 3, 9),)),
    "max_pool2d": Case(lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), ceil_mode=True), (f(2, 3, 9, 8),)),
    "max_pool2d_dilated": Case(lambda x: F.max_pool2d(x, 2, 1, dilation=3), (f(2, 3, 9, 8),)),
    "max_pool2d_without_batch": Case(lambda x: F.max_pool2d(x, 2), (f(3, 9, 8),)),
    "max_pool3d": Case(lambda x: F.max_pool3d(x, 2), (f(2, 3, 4, 6, 5),)),
    "avg_pool1d": Case(lambda x: F.avg_pool1d(x, 3, 2, 1), (f(2, 3, 9),)),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(x, 3, 2, 1), (f(2, 3, 9, 8),)),
    "avg_pool2d_without_padding": Case(
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (f(2, 3, 9, 8),)
    ),
    "avg_pool3d": Case(lambda x: F.avg_pool3d(x, 2, 1), (f(2, 3, 4, 6, 5),)),
    "adaptive_avg_pool1d": Case(lambda x: F.adaptive_avg_pool1d(x, 4), (f(2, 3, 9),)),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (f(2, 3, 8, 7),)),
    "adaptive_avg_pool2d_none": Case(lambda x: F.adaptive_avg_pool2d(x, (None, 1)), (f(2, 3, 8, 7),)),
    "adaptive_avg_pool3d": Case(lambda x: F.adaptive_avg_pool3d(x, 2), (f(2, 3, 4, 5, 6),)),
    "adaptive_max_pool2d": Case(lambda x: F.adaptive_max_pool2d(x, (2, 3)), (f(2, 3, 8, 9),)),
}

IMAGES: dict[str, Case] = {
    "nearest_factor": Case(lambda x: F.interpolate(x, scale_factor=2), (f(2, 3, 4, 5),)),
    "nearest_size": Case(lambda x: F.interpolate(x, size=(7, 3)), (f(2, 3, 4, 5),)),
    "nearest_1d": Case(lambda x: F.interpolate(x, size=7), (f(2, 3, 4),)),
    "nearest_3d": Case(lambda x: F.interpolate(x, size=(3, 5, 2)), (f(2, 3, 4, 5, 6),)),
    "nearest_exact": Case(lambda x: F.interpolate(x, size=(7, 3), mode="nearest-exact"), (f(2, 3, 4, 5),)),
    "bilinear": Case(lambda x: F.interpolate(x, size=(7, 3), mode="bilinear"), (f(2, 3, 4, 5),)),
    "bilinear_corners": Case(
        lambda x: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=True), (f(2, 3, 4, 5),)
    ),
    "linear": Case(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (f(2, 3, 4),)),
    "trilinear": Case(lambda x: F.interpolate(x, size=(3, 5, 2), mode="trilinear"), (f(2, 3, 4, 5, 6),)),
    "bilinear_antialias": Case(
        lambda x: F.interpolate(x, size=(3, 9), mode="bilinear", antialias=True), (f(2, 3, 8, 5),)
    ),
    "bicubic_antialias": Case(
        lambda x: F.interpolate(x, size=(3, 4), mode="bicubic", antialias=True, align_corners=True), (f(2, 3, 8, 7),)
    ),
    "bicubic_antialias_half": Case(
        lambda x: F.interpolate(x, scale_factor=0.4, mode="bicubic", antialias=True).half(), (f(2, 3, 8, 7),)
    ),
    "bilinear_odd_factor": Case(lambda x: F.interpolate(x, scale_factor=(0.7, 1.3), mode="bilinear"), (f(2, 3, 8, 5),)),
    "bicubic_odd_factor": Case(lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), (f(2, 3, 4, 5),)),
    "linear_odd_factor": Case(lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), (f(2, 3, 7),)),
    "bicubic": Case(lambda x: F.interpolate(x, size=(7, 3), mode="bicubic"), (f(2, 3, 4, 5),)),
    "grid_sample": Case(
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), (f(2, 3, 4, 5), unit(2, 6, 7, 2))
    ),
    "grid_sample_nearest": Case(
        lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False), (f(2, 3, 4, 5), unit(2, 6, 7, 2))
    ),
    "affine_grid": Case(lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), (f(2, 2, 3),)),
}

FAMILIES: dict[str, dict[str, Case]] = {
    "activation": ACTIVATION,
    "attention": ATTENTION,
    "binary": BINARY,
    "creation": CREATION,
    "images": IMAGES,
    "indexing": INDEXING,
    "layers": LAYERS,
    "products": PRODUCTS,
    "reduction": REDUCTION,
    "unary": UNARY,
    "views": VIEWS,
}
