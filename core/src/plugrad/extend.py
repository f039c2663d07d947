"""The plugin author's page: all that a backend, a kernel or an op outside plugrad may import, besides `plugrad.kernels`."""

from plugrad.backend import Backend, DeviceInfo, Implementation, KernelTable, Memory, Probe
from plugrad.dtype import (
    ANY, BOOL, COMPLEX, DTYPES, FLOATING, INEXACT, INTEGER, NUMERIC, REAL, DType, Scalar, as_dtype, bool_, complex64, complex128,
    float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
)
from plugrad.errors import (
    ArgumentError, ArgumentValueError, BackendUnavailable, DTypeError, OutOfMemory, PlugradError, ShapeError, TensorIndexError, UnsupportedDtype,
)
from plugrad.gradient import GradientConfig, gradient, not_differentiable, register_gradient
from plugrad.kernel import KERNELS, Kernel, Shaped, Spec, accepted, agreed, kernel
from plugrad.kernels.convolution import geometry
from plugrad.registry import KernelConfig, register_kernel
from plugrad.shapes import (
    DataFormat, Padding, Pair, Pairs, Rounding, Shape, Window2d, axes_of, axis_of, broadcast, reduced, size_of, sliced, window2d,
)
