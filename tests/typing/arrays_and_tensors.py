"""Type checks of tensors among NumPy's arrays and Python's functions, which `make check` runs."""

from typing import Any, assert_type

import numpy as np

import plugrad
from plugrad import Tensor

x = plugrad.ones(3)

# An operator gives a tensor, also if an array stands on the left.
assert_type(np.ones(3) + x, Tensor)
assert_type(np.ones(3, np.float32) * x, Tensor)
assert_type(np.arange(3) - x, Tensor)
assert_type(np.ones(3) / x, Tensor)
assert_type(np.ones((3, 3)) @ x, Tensor)
assert_type(np.ones(3) > x, Tensor)
assert_type(np.float64(3) ** x, Tensor)
assert_type(2 * x, Tensor)
assert_type(divmod(x, 2), tuple[Tensor, Tensor])
assert_type(round(x, 2), Tensor)

# NumPy's functions take tensors.
assert_type(np.asarray(x), np.ndarray[tuple[Any, ...], np.dtype[Any]])

variables = {"w": plugrad.Variable(1.0)}
loss = plugrad.optimizers.SGD(0.1).minimize(lambda: variables["w"] * 2, variables.values())
assert_type(loss, Tensor)
