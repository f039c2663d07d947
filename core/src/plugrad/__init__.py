"""plugrad: tensors and gradients whose backends are pip packages.

>>> x = plugrad.asarray([1.0, 2.0, 3.0])
>>> plugrad.grad(lambda x: plugrad.sum(x * x))(x)
tensor([2., 4., 6.], dtype=float32)
"""

from math import (
    e as e,
    inf as inf,
    nan as nan,
    pi as pi,
)

import plugrad.tensor  # noqa: F401  # pyright: ignore[reportUnusedImport] - the cycle of imports starts here
from plugrad import (
    gradients as gradients,
    optimizers as optimizers,
)
from plugrad.backend import (
    Memory as Memory,
)
from plugrad.config import (
    config as config,
)
from plugrad.derivatives import (
    checkpoint as checkpoint,
    hessian as hessian,
    jacobian as jacobian,
    jvp as jvp,
)
from plugrad.discovery import (
    backends as backends,
    close_backend as close_backend,
    register_backend as register_backend,
)
from plugrad.dtype import (
    DType as DType,
    as_dtype as as_dtype,
    bool_ as bool,  # noqa: F401  # pyright: ignore[reportUnusedImport] - the array API's name
    complex64 as complex64,
    complex128 as complex128,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote as promote,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from plugrad.engine import (
    run_kernel as run_kernel,
)
from plugrad.gradient import (
    GradientConfig as GradientConfig,
    override_gradient as override_gradient,
    register_gradient as register_gradient,
)
from plugrad.memory import (
    dispose as dispose,
    keep as keep,
    memory as memory,
    set_memory_limit as set_memory_limit,
    tidy as tidy,
)
from plugrad.ops import (
    losses as losses,
)
from plugrad.ops.binary import (
    add as add,
    add_n as add_n,
    atan2 as atan2,
    divide as divide,
    equal as equal,
    floor_divide as floor_divide,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    not_equal as not_equal,
    pow as pow,
    prelu as prelu,
    remainder as remainder,
    squared_difference as squared_difference,
    subtract as subtract,
    where as where,
)
from plugrad.ops.convolution import (
    conv2d as conv2d,
)
from plugrad.ops.creation import (
    arange as arange,
    asarray as asarray,
    eye as eye,
    full as full,
    linspace as linspace,
    ones as ones,
    ones_like as ones_like,
    to_device as to_device,
    zeros as zeros,
    zeros_like as zeros_like,
)
from plugrad.ops.indexing import (
    one_hot as one_hot,
    take as take,
    unsorted_segment_sum as unsorted_segment_sum,
)
from plugrad.ops.linalg import (
    matmul as matmul,
)
from plugrad.ops.movement import (
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    flip as flip,
    pad as pad,
    permute_dims as permute_dims,
    reshape as reshape,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    unstack as unstack,
)
from plugrad.ops.normalization import (
    log_softmax as log_softmax,
    softmax as softmax,
)
from plugrad.ops.pooling import (
    avg_pool as avg_pool,
    max_pool as max_pool,
)
from plugrad.ops.reduction import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    sum as sum,
)
from plugrad.ops.training import (
    moving_average as moving_average,
)
from plugrad.ops.unary import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    astype as astype,
    atan as atan,
    atanh as atanh,
    ceil as ceil,
    clip as clip,
    cos as cos,
    cosh as cosh,
    elu as elu,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    leaky_relu as leaky_relu,
    log as log,
    log1p as log1p,
    logical_not as logical_not,
    negative as negative,
    reciprocal as reciprocal,
    relu as relu,
    relu6 as relu6,
    round as round,
    rsqrt as rsqrt,
    selu as selu,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    softplus as softplus,
    sqrt as sqrt,
    square as square,
    step as step,
    tan as tan,
    tanh as tanh,
)
from plugrad.registry import (
    KernelConfig as KernelConfig,
    copy_registered_kernels as copy_registered_kernels,
    get_gradient as get_gradient,
    get_kernel as get_kernel,
    get_kernels_for_backend as get_kernels_for_backend,
    override_kernel as override_kernel,
    register_kernel as register_kernel,
    unregister_gradient as unregister_gradient,
    unregister_kernel as unregister_kernel,
)
from plugrad.selection import (
    use as use,
    which as which,
)
from plugrad.tensor import (
    Tensor as Tensor,
)
from plugrad.transforms import (
    custom_grad as custom_grad,
    grad as grad,
    grads as grads,
    stop_gradient as stop_gradient,
    value_and_grad as value_and_grad,
    variable_grads as variable_grads,
    vjp as vjp,
)
from plugrad.variable import (
    Variable as Variable,
)

__version__ = "0.1.0"
