"""Convolutions and filters along an axis: names and conventions of SciPy."""

from plugrad_numerics.windows import (
    convolve as convolve,
    gaussian_filter1d as gaussian_filter1d,
    lfilter as lfilter,
    savgol_filter as savgol_filter,
    sosfilt as sosfilt,
)
