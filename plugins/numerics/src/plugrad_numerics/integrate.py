"""Integrals of samples, and ordinary differential equations: names of SciPy."""

from plugrad_numerics.differential_equations import odeint as odeint
from plugrad_numerics.quadrature import (
    cumulative_trapezoid as cumulative_trapezoid,
    simpson as simpson,
    trapezoid as trapezoid,
)
