"""plugrad-numerics: special functions, distributions, integrals, equations, interpolation and filters for plugrad.

>>> from plugrad_numerics import distributions, special
>>> special.gammaln(5.0), distributions.Normal(0.0, 2.0).variance
(tensor(3.1780539, dtype=float32), tensor(4., dtype=float32))
"""

from plugrad_numerics import (
    distributions as distributions,
    filters as filters,
    integrate as integrate,
    interpolate as interpolate,
    optimize as optimize,
    special as special,
)
