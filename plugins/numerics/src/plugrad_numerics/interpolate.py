"""Functions through given points: names of SciPy and NumPy."""

from plugrad_numerics.curves import (
    CubicSpline as CubicSpline,
    PchipInterpolator as PchipInterpolator,
    interp as interp,
)
