"""Unary kernels: one function of PyTorch each."""

from collections.abc import Callable

import torch

from plugrad.extend import DType, UnsupportedDtype
from plugrad.kernels import unary
from plugrad_torch.declare import Array, implements, update
from plugrad_torch.memory import TORCH_DTYPES


def skip_integers(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a rounding function that returns integers unchanged."""
    return lambda x: function(x) if x.is_floating_point() else x


def refuse_complex(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that refuses complex numbers, whose special values PyTorch does not get right."""

    def real(x: Array) -> Array:
        if x.is_complex():
            raise UnsupportedDtype("the torch backend computes this function of real numbers only")
        return function(x)

    return real


update(
    {
        unary.abs: torch.abs,
        unary.negative: torch.neg,
        unary.square: torch.square,
        unary.sign: lambda x: torch.where(x.isnan(), x, torch.sign(x)),
        unary.reciprocal: torch.reciprocal,
        unary.sqrt: torch.sqrt,
        unary.rsqrt: lambda x: 1 / torch.sqrt(x),
        unary.ceil: skip_integers(torch.ceil),
        unary.floor: skip_integers(torch.floor),
        unary.round: skip_integers(torch.round),
        unary.trunc: skip_integers(torch.trunc),
        unary.exp: torch.exp,
        unary.expm1: refuse_complex(torch.expm1),
        unary.log: torch.log,
        unary.log1p: refuse_complex(torch.log1p),
        unary.log2: torch.log2,
        unary.log10: torch.log10,
        unary.sin: torch.sin,
        unary.cos: torch.cos,
        unary.tan: torch.tan,
        unary.asin: torch.asin,
        unary.acos: torch.acos,
        unary.atan: torch.atan,
        unary.sinh: torch.sinh,
        unary.cosh: torch.cosh,
        unary.tanh: torch.tanh,
        unary.asinh: torch.asinh,
        unary.acosh: torch.acosh,
        unary.atanh: torch.atanh,
        unary.erf: torch.erf,
        unary.is_finite: torch.isfinite,
        unary.is_inf: torch.isinf,
        unary.is_nan: torch.isnan,
        unary.sign_bit: torch.signbit,
        unary.logical_not: torch.logical_not,
        unary.identity: lambda x: x,
    }
)


@implements(unary.step)
def step(x: Array, *, alpha: float) -> Array:
    """Return 1 where x > 0, else alpha; NaN stays NaN."""
    y = torch.where(x > 0, 1, alpha).to(x.dtype)
    return torch.where(x.isnan(), x, y)


@implements(unary.clip_by_value)
def clip_by_value(x: Array, *, clip_value_min: float, clip_value_max: float) -> Array:
    """Return x within the bounds, which may exceed the limits of an integer dtype."""
    if not x.is_floating_point():
        limits = torch.iinfo(x.dtype)
        clip_value_min = min(max(clip_value_min, limits.min), limits.max)
        clip_value_max = min(max(clip_value_max, limits.min), limits.max)
    return torch.clamp(x, clip_value_min, clip_value_max).to(x.dtype)


@implements(unary.cast)
def cast(x: Array, *, dtype: DType) -> Array:
    """Return x in another dtype; floats that become integers lose their fractions and saturate, and NaN becomes 0."""
    to = TORCH_DTYPES[dtype]
    if x.is_complex() and not to.is_complex and to is not torch.bool:
        x = x.real
    if not (x.is_floating_point() and dtype.is_integer):
        return x.to(to)
    limits = torch.iinfo(to)
    wide = x.double()
    least, above = float(limits.min), float(limits.max) + 1
    y = torch.where((wide >= least) & (wide < above), wide, 0.0).to(torch.int64)
    y = torch.where(wide >= above, limits.max, y)
    return torch.where(wide < least, limits.min, y).to(to)
