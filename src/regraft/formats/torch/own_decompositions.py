"""Decompositions of operators that PyTorch itself does not decompose, or decomposes for fixed sizes only.

Each function computes the result of its operator with PyTorch. Special functions compute in double precision. A
program that goes back to PyTorch calls the operator, not these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import torch


def cosine_embedding_loss(
    first: torch.Tensor, second: torch.Tensor, target: torch.Tensor, margin: float = 0.0, reduction: int = 1
) -> torch.Tensor:
    """One minus the cosine if ``target`` is 1; the cosine above ``margin`` if it is -1."""
    axis = target.ndim
    lengths = [(one * one).sum(axis) + 1e-12 for one in (first, second)]
    cosine = (first * second).sum(axis) / (lengths[0] * lengths[1]).sqrt()
    alike = (1 - cosine).masked_fill(target != 1, 0)
    loss = alike + (cosine - margin).clamp_min(0).masked_fill(target != -1, 0)
    if reduction == 0:
        return loss
    return loss.mean() if reduction == 1 else loss.sum()


def xlogy(x: torch.Tensor | float, other: torch.Tensor | float) -> torch.Tensor:
    """``x * log(other)``, which is 0 if ``x`` is 0. One of the two is a number."""
    return torch.xlogy(*[one if isinstance(one, torch.Tensor) else torch.full((), one) for one in (x, other)])


def nanmedian(x: torch.Tensor) -> torch.Tensor:
    """The lower median of the elements that are not NaN; NaN if there are none."""
    return _middle(x.reshape(-1), 0, keepdim=False)[0]


def nanmedian_of_axis(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower median of the elements along an axis that are not NaN, and its index."""
    if x.ndim == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    return _middle(x, dim, keepdim=keepdim)


def _middle(x: torch.Tensor, axis: int, *, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.sort(x, dim=axis, stable=True)  # NaN comes last
    count = (x == x).sum(axis, keepdim=True)
    middle = ((count - 1) // 2).clamp_min(0)
    found = torch.gather(values, axis, middle), torch.gather(places, axis, middle)
    return found if keepdim else (found[0].squeeze(axis), found[1].squeeze(axis))


def _in_double(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """``function``, which computes in double precision, for tensors of any dtype."""

    def run(x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return function(x.to(torch.float64)).to(dtype)

    return run


_SHIFT: Final = 10
"""The shift of arguments up to where Stirling's series is exact in double precision."""
_OF_LOG_GAMMA: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_OF_DIGAMMA: Final = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)
"""The coefficients of Stirling's series, of odd powers of 1/x and of even ones (NIST DLMF 5.11.1 and 5.11.2)."""


@_in_double
def lgamma(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of the absolute value of the gamma function, by reflection below 1/2."""
    is_low = x < 0.5
    y = torch.where(is_low, 1 - x, x)
    product = y
    for step in range(1, _SHIFT):
        product = product * (y + step)
    moved = torch.where(y < _SHIFT, y + _SHIFT, y)
    series = _polynomial(1 / (moved * moved), _OF_LOG_GAMMA) / moved
    far = (moved - 0.5) * moved.log() - moved + 0.5 * math.log(2 * math.pi) + series
    found = torch.where(y < _SHIFT, far - product.log(), far)
    sine = torch.sin(math.pi * (x - x.round()))
    found = torch.where(is_low, math.log(math.pi) - sine.abs().log() - found, found)
    return torch.where(torch.isinf(x), math.inf, found)


@_in_double
def digamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of the logarithm of the gamma function, by reflection below 1/2."""
    is_low = x < 0.5
    y = torch.where(is_low, 1 - x, x)
    below = 1 / y
    for step in range(1, _SHIFT):
        below = below + 1 / (y + step)
    moved = torch.where(y < _SHIFT, y + _SHIFT, y)
    inverse = 1 / (moved * moved)
    far = moved.log() - 0.5 / moved + _polynomial(inverse, _OF_DIGAMMA) * inverse
    found = torch.where(y < _SHIFT, far - below, far)
    turn = math.pi * (x - x.round())
    found = torch.where(is_low, found - math.pi * torch.cos(turn) / torch.sin(turn), found)
    found = torch.where((x < 0) & (x == x.floor()), math.nan, found)
    return torch.where(x == 0, -1 / x, torch.where(x == math.inf, math.inf, found))


_NEAR: Final = (0.886226899, -1.645349621, 0.914624893, -0.140543331)
_NEAR_BELOW: Final = (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801)
_FAR: Final = (-1.970840454, -1.624906493, 3.429567803, 1.641345311)
_FAR_BELOW: Final = (1.0, 3.543889200, 1.637067800)
"""Rational approximations of the inverse error function up to 0.7 and beyond, to three digits."""


@_in_double
def erfinv(y: torch.Tensor) -> torch.Tensor:
    """The inverse of the error function: an approximation, followed by Newton steps."""
    square = y * y
    near = y * _polynomial(square, _NEAR) / _polynomial(square, _NEAR_BELOW)
    root = torch.sqrt(-torch.log((1 - y.abs()) / 2))
    far = torch.sign(y) * _polynomial(root, _FAR) / _polynomial(root, _FAR_BELOW)
    x = torch.where(y.abs() <= 0.7, near, far)
    for _ in range(3):
        x = x - (torch.erf(x) - y) / (2 / math.sqrt(math.pi) * torch.exp(-x * x))
    return torch.where(y.abs() == 1, y * math.inf, x)


@_in_double
def erfc(x: torch.Tensor) -> torch.Tensor:
    """The complementary error function: a Chebyshev series times exp(-x^2), precise where it is near 0, too."""
    size = x.abs()
    scaled = _chebyshev(4 / (size + 2) - 1, _coefficients_of_erfc()) / (size + 2)
    found = scaled * torch.exp(-size * size)
    return torch.where(x < 0, 2 - found, found)


@cache
def _coefficients_of_erfc() -> Sequence[float]:
    from scipy.special import erfcx  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    function: Callable[..., Any] = erfcx  # pyright: ignore[reportUnknownVariableType]

    def scaled(t: Any) -> Any:
        x = 4 / (t + 1) - 2
        return function(x) * (x + 2)

    return _fitted(scaled, 24)


_NEAR_ZERO: Final = 8.0


@_in_double
def i0(x: torch.Tensor) -> torch.Tensor:
    """The modified Bessel function of order 0, by one Chebyshev series up to 8 and another beyond."""
    near, far = _coefficients_of_i0()
    size = x.abs()
    low = _chebyshev(size / (_NEAR_ZERO / 2) - 1, near)
    bounded = size.clamp_min(_NEAR_ZERO)
    high = _chebyshev(2 * _NEAR_ZERO / bounded - 1, far) / bounded.sqrt()
    half = torch.exp(size / 2)  # in two steps: the exponential may overflow although the result does not
    return torch.where(size <= _NEAR_ZERO, low, high) * half * half


@cache
def _coefficients_of_i0() -> tuple[Sequence[float], Sequence[float]]:
    from scipy.special import i0e  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    function: Callable[..., Any] = i0e  # pyright: ignore[reportUnknownVariableType]

    def near(t: Any) -> Any:
        return function((t + 1) * (_NEAR_ZERO / 2))

    def far(t: Any) -> Any:
        x = 2 * _NEAR_ZERO / np.maximum(t + 1, 1e-300)
        return function(x) * np.sqrt(x)

    return _fitted(near, 30), _fitted(far, 24)


def _fitted(function: Callable[[Any], Any], degree: int) -> Sequence[float]:
    """The coefficients of the sum of Chebyshev polynomials that interpolates ``function`` from -1 to 1."""
    fit: Callable[..., Any] = np.polynomial.chebyshev.chebinterpolate
    return [float(one) for one in fit(function, degree)]


def _chebyshev(t: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """The sum of Chebyshev polynomials in ``t``, by Clenshaw's recurrence."""
    before, last = torch.zeros_like(t), torch.zeros_like(t)
    for coefficient in reversed(coefficients[1:]):
        before, last = last, 2 * t * last - before + coefficient
    return t * last - before + coefficients[0]


def _polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """The polynomial in ``x`` with these ``coefficients``, lowest power first."""
    found = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        found = found * x + coefficient
    return found


_ATEN: Final[Any] = torch.ops.aten
OWN_DECOMPOSITIONS: Final[Mapping[Any, Callable[..., Any]]] = {
    _ATEN.cosine_embedding_loss.default: cosine_embedding_loss,
    _ATEN.xlogy.Scalar_Other: xlogy,
    _ATEN.xlogy.Scalar_Self: xlogy,
    _ATEN.nanmedian.default: nanmedian,
    _ATEN.nanmedian.dim: nanmedian_of_axis,
    _ATEN.lgamma.default: lgamma,
    _ATEN.digamma.default: digamma,
    _ATEN.erfinv.default: erfinv,
    _ATEN.erfc.default: erfc,
    _ATEN.special_erfc.default: erfc,
    _ATEN.special_i0.default: i0,
    _ATEN.i0.default: i0,
}
"""The decompositions, by operator overload."""
