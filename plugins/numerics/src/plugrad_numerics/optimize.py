"""Roots and minima of functions. Gradients for the other arguments follow from the implicit function theorem."""

from plugrad_numerics.minimization import OptimizeResult as OptimizeResult, minimize as minimize
from plugrad_numerics.roots import bisect as bisect, root as root
