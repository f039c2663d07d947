"""Values and helpers that the tests of `plugrad.jit` share."""

from collections import namedtuple

import numpy as np

import plugrad
from plugrad.types.bits import comparable_bits

VECTOR_X = plugrad.asarray(np.array([1.0, -2.0, 0.5], "float32"))
VECTOR_Y = plugrad.asarray(np.array([0.5, 3.0, -1.0], "float32"))
Point = namedtuple("Point", "x y")


def count_traces(jitted):
    """Return how often a function has been traced."""
    return int(repr(jitted).split("traced ")[1].split()[0])


def assert_identical(a, b):
    """Raise unless two tensors have the same dtype and bits."""
    assert a.dtype is b.dtype
    assert comparable_bits(a.numpy()) == comparable_bits(b.numpy()), (a, b)
