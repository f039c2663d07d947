"""plugrad: tensors and gradients whose backends are pip packages.

>>> x = plugrad.asarray([1.0, 2.0, 3.0])
>>> plugrad.grad(lambda x: plugrad.sum(x * x))(x)
tensor([2., 4., 6.], dtype=float32)
"""

from math import e, inf, nan, pi

from plugrad.tensor import Tensor, Variable
from plugrad.dtype import (
    DType, as_dtype, bool_ as bool, complex64, complex128, float16, float32, float64, int8, int16, int32, int64, promote, uint8,
    uint16, uint32, uint64,
)
from plugrad.backend import Memory
from plugrad.config import config
from plugrad.discovery import backends, register_backend
from plugrad.engine import run_kernel
from plugrad.gradient import GradientConfig, override_gradient, register_gradient
from plugrad.memory import dispose, keep, memory, set_memory_limit, tidy
from plugrad.ops import losses
from plugrad.ops.binary import (
    add, add_n, atan2, divide, equal, floor_divide, greater, greater_equal, less, less_equal, logical_and, logical_or, logical_xor,
    maximum, minimum, multiply, not_equal, pow, prelu, remainder, squared_difference, subtract, where,
)
from plugrad.ops.convolution import conv2d
from plugrad.ops.creation import arange, asarray, eye, full, linspace, ones, ones_like, to_device, zeros, zeros_like
from plugrad.ops.indexing import one_hot, take, unsorted_segment_sum
from plugrad.ops.linalg import matmul
from plugrad.ops.movement import (
    broadcast_to, concat, expand_dims, flip, pad, permute_dims, reshape, split, squeeze, stack, tile, unstack,
)
from plugrad.ops.normalization import log_softmax, softmax
from plugrad.ops.pooling import avg_pool, max_pool
from plugrad.ops.reduction import all, any, argmax, argmin, max, mean, min, prod, sum
from plugrad.ops.training import moving_average
from plugrad.ops.unary import (
    abs, acos, acosh, asin, asinh, astype, atan, atanh, ceil, clip, cos, cosh, elu, erf, exp, expm1, floor, isfinite, isinf, isnan,
    leaky_relu, log, log1p, logical_not, negative, reciprocal, relu, relu6, round, rsqrt, selu, sigmoid, sign, sin, sinh, softplus,
    sqrt, square, step, tan, tanh,
)
from plugrad.registry import (
    KernelConfig, copy_registered_kernels, get_gradient, get_kernel, get_kernels_for_backend, override_kernel, register_kernel,
    unregister_gradient, unregister_kernel,
)
from plugrad.selection import use, which
from plugrad.transforms import custom_grad, grad, stop_gradient, value_and_grad, variable_grads, vjp
from plugrad import gradients, optimizers

__version__ = "0.1.0"
