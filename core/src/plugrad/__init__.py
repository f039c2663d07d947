"""plugrad: tensors and gradients whose backends are pip packages.

>>> x = plugrad.asarray([1.0, 2.0, 3.0])
>>> plugrad.grad(lambda x: plugrad.sum(x * x))(x)
tensor([2., 4., 6.], dtype=float32)
"""

import functools
import sys
import typing
from math import (
    e as e,
    inf as inf,
    nan as nan,
    pi as pi,
)

import plugrad.absent  # pyright: ignore[reportUnusedImport] - __getattr__ uses it
import plugrad.batching  # pyright: ignore[reportUnusedImport] - the registry asks it for rules
import plugrad.composites  # pyright: ignore[reportUnusedImport] - the registry asks it for bodies
import plugrad.einops  # pyright: ignore[reportUnusedImport] - it waits for the import of einops
import plugrad.engine.telemetry  # pyright: ignore[reportUnusedImport] - it waits for plugins with its hook
import plugrad.gradients  # pyright: ignore[reportUnusedImport] - the registry asks it for rules
import plugrad.importing  # pyright: ignore[reportUnusedImport] - __getattr__ uses it
import plugrad.kernels  # pyright: ignore[reportUnusedImport] - every contract is known
import plugrad.ops.operators  # pyright: ignore[reportUnusedImport] - they attach themselves
from plugrad import errors as errors
from plugrad.discovery.fallback import (
    fallback_report as fallback_report,
)
from plugrad.discovery.hooks import (
    hookimpl as hookimpl,
    register_plugin as register_plugin,
    unregister_plugin as unregister_plugin,
)
from plugrad.discovery.listing import (
    backends as backends,
    plugins as plugins,
    register_backend as register_backend,
)
from plugrad.discovery.loading import (
    close_backend as close_backend,
)
from plugrad.discovery.packs import (
    op_pack as op_pack,
)
from plugrad.discovery.selection import synchronize as synchronize, use as use, which as which
from plugrad.engine.autocast import autocast as autocast
from plugrad.memory import (
    dispose as dispose,
    keep as keep,
    memory as memory,
    set_memory_limit as set_memory_limit,
    tidy as tidy,
)
from plugrad.ops.binary import (
    add as add,
    add_n as add_n,
    atan2 as atan2,
    clip as clip,
    copysign as copysign,
    div_no_nan as div_no_nan,
    divide as divide,
    equal as equal,
    floor_divide as floor_divide,
    greater as greater,
    greater_equal as greater_equal,
    hypot as hypot,
    less as less,
    less_equal as less_equal,
    logaddexp as logaddexp,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    nextafter as nextafter,
    not_equal as not_equal,
    pow as pow,
    remainder as remainder,
    squared_difference as squared_difference,
    subtract as subtract,
    where as where,
)
from plugrad.registry.gradients import (
    get_gradient as get_gradient,
    get_gradients as get_gradients,
    unregister_gradient as unregister_gradient,
)
from plugrad.registry.kernels import (
    copy_registered_kernels as copy_registered_kernels,
    get_kernel as get_kernel,
    get_kernels_for_backend as get_kernels_for_backend,
    override_kernel as override_kernel,
    register_kernel as register_kernel,
    unregister_kernel as unregister_kernel,
)
from plugrad.settings.layers import config as config
from plugrad.tensor.backend import KernelConfig as KernelConfig, Memory as Memory
from plugrad.tensor.context import carry_context as carry_context
from plugrad.tensor.tensor import Tensor as Tensor
from plugrad.types.dtype import (
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
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)

if typing.TYPE_CHECKING:
    from plugrad import (
        extend as extend,
        fft as fft,
        fused as fused,
        image as image,
        kernels as kernels,
        linalg as linalg,
        losses as losses,
        optimizers as optimizers,
        random as random,
        signal as signal,
        sparse as sparse,
        string as string,
        tfjs as tfjs,
    )
    from plugrad.array_api import (
        __array_api_version__ as __array_api_version__,
        __array_namespace_info__ as __array_namespace_info__,
        can_cast as can_cast,
        finfo as finfo,
        iinfo as iinfo,
        isdtype as isdtype,
        result_type as result_type,
    )
    from plugrad.engine.by_name import run_kernel as run_kernel
    from plugrad.engine.custom import custom_grad as custom_grad
    from plugrad.ops.activation import (
        celu as celu,
        elu as elu,
        gelu as gelu,
        glu as glu,
        hard_shrink as hard_shrink,
        hard_sigmoid as hard_sigmoid,
        hard_silu as hard_silu,
        hard_tanh as hard_tanh,
        leaky_relu as leaky_relu,
        log_sigmoid as log_sigmoid,
        mish as mish,
        prelu as prelu,
        relu as relu,
        relu6 as relu6,
        selu as selu,
        sigmoid as sigmoid,
        silu as silu,
        soft_shrink as soft_shrink,
        softplus as softplus,
        softsign as softsign,
    )
    from plugrad.ops.attention import attention as attention
    from plugrad.ops.bitwise import (
        bitwise_and as bitwise_and,
        bitwise_invert as bitwise_invert,
        bitwise_left_shift as bitwise_left_shift,
        bitwise_or as bitwise_or,
        bitwise_right_shift as bitwise_right_shift,
        bitwise_xor as bitwise_xor,
    )
    from plugrad.ops.complex import (
        complex as complex,
        conj as conj,
        imag as imag,
        real as real,
    )
    from plugrad.ops.convolution import (
        conv1d as conv1d,
        conv1d_transpose as conv1d_transpose,
        conv2d as conv2d,
        conv2d_transpose as conv2d_transpose,
    )
    from plugrad.ops.convolution3d import (
        conv3d as conv3d,
        conv3d_transpose as conv3d_transpose,
    )
    from plugrad.ops.creation import (
        arange as arange,
        asarray as asarray,
        empty as empty,
        empty_like as empty_like,
        eye as eye,
        full as full,
        full_like as full_like,
        linspace as linspace,
        ones as ones,
        ones_like as ones_like,
        zeros as zeros,
        zeros_like as zeros_like,
    )
    from plugrad.ops.depthwise import (
        depthwise_conv2d as depthwise_conv2d,
        separable_conv2d as separable_conv2d,
    )
    from plugrad.ops.dlpack import from_dlpack as from_dlpack
    from plugrad.ops.einsum import einsum as einsum
    from plugrad.ops.evaluation import (
        confusion_matrix as confusion_matrix,
        in_top_k as in_top_k,
    )
    from plugrad.ops.histograms import histogram as histogram
    from plugrad.ops.indexing import (
        gather_nd as gather_nd,
        nonzero as nonzero,
        one_hot as one_hot,
        take as take,
        take_along_axis as take_along_axis,
        unsorted_segment_sum as unsorted_segment_sum,
    )
    from plugrad.ops.linalg import (
        diag as diag,
        dot as dot,
        matmul as matmul,
        matrix_transpose as matrix_transpose,
        tensordot as tensordot,
        tril as tril,
        triu as triu,
        vecdot as vecdot,
    )
    from plugrad.ops.missing import (
        nanargmax as nanargmax,
        nanargmin as nanargmin,
        nancumprod as nancumprod,
        nancumsum as nancumsum,
        nanmax as nanmax,
        nanmean as nanmean,
        nanmin as nanmin,
        nanprod as nanprod,
        nanstd as nanstd,
        nansum as nansum,
        nanvar as nanvar,
    )
    from plugrad.ops.morphology import dilation2d as dilation2d
    from plugrad.ops.movement import (
        broadcast_arrays as broadcast_arrays,
        broadcast_shapes as broadcast_shapes,
        broadcast_to as broadcast_to,
        concat as concat,
        ensure_shape as ensure_shape,
        expand_dims as expand_dims,
        flip as flip,
        moveaxis as moveaxis,
        pad as pad,
        permute_dims as permute_dims,
        reshape as reshape,
        slice as slice,
        split as split,
        squeeze as squeeze,
        stack as stack,
        tile as tile,
        unstack as unstack,
    )
    from plugrad.ops.normalization import (
        batch_norm as batch_norm,
        batch_norm_training as batch_norm_training,
        layer_norm as layer_norm,
        local_response_normalization as local_response_normalization,
        log_softmax as log_softmax,
        softmax as softmax,
    )
    from plugrad.ops.pooling import (
        avg_pool as avg_pool,
        max_pool as max_pool,
        max_pool_with_argmax as max_pool_with_argmax,
        max_unpool as max_unpool,
        pool as pool,
    )
    from plugrad.ops.pooling3d import (
        avg_pool3d as avg_pool3d,
        max_pool3d as max_pool3d,
    )
    from plugrad.ops.quantiles import (
        median as median,
        nanmedian as nanmedian,
        nanquantile as nanquantile,
        quantile as quantile,
    )
    from plugrad.ops.ragged import (
        ragged_gather as ragged_gather,
        ragged_range as ragged_range,
        ragged_tensor_to_tensor as ragged_tensor_to_tensor,
    )
    from plugrad.ops.rearrangement import (
        batch_to_space_nd as batch_to_space_nd,
        broadcast_args as broadcast_args,
        depth_to_space as depth_to_space,
        meshgrid as meshgrid,
        mirror_pad as mirror_pad,
        repeat as repeat,
        roll as roll,
        space_to_batch_nd as space_to_batch_nd,
    )
    from plugrad.ops.recurrent import (
        basic_lstm_cell as basic_lstm_cell,
        multi_rnn_cell as multi_rnn_cell,
    )
    from plugrad.ops.reduction import (
        all as all,
        any as any,
        argmax as argmax,
        argmin as argmin,
        bincount as bincount,
        dense_bincount as dense_bincount,
        max as max,
        mean as mean,
        min as min,
        prod as prod,
        sum as sum,
    )
    from plugrad.ops.scan import (
        cumulative_prod as cumulative_prod,
        cumulative_sum as cumulative_sum,
    )
    from plugrad.ops.scatter import (
        scatter_nd as scatter_nd,
        sparse_to_dense as sparse_to_dense,
        tensor_scatter_update as tensor_scatter_update,
    )
    from plugrad.ops.sets import (
        isin as isin,
        setdiff1d as setdiff1d,
        unique as unique,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from plugrad.ops.sorting import (
        argsort as argsort,
        lower_bound as lower_bound,
        searchsorted as searchsorted,
        sort as sort,
        top_k as top_k,
        upper_bound as upper_bound,
    )
    from plugrad.ops.statistics import (
        corrcoef as corrcoef,
        count_nonzero as count_nonzero,
        cov as cov,
        diff as diff,
        euclidean_norm as euclidean_norm,
        log_sum_exp as log_sum_exp,
        moments as moments,
        std as std,
        var as var,
    )
    from plugrad.ops.subscript import (
        boolean_mask as boolean_mask,
        strided_slice as strided_slice,
    )
    from plugrad.ops.training import (
        dropout as dropout,
        moving_average as moving_average,
    )
    from plugrad.ops.transfer import (
        stop_gradient as stop_gradient,
        to_device as to_device,
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
        cos as cos,
        cosh as cosh,
        erf as erf,
        exp as exp,
        expm1 as expm1,
        floor as floor,
        isfinite as isfinite,
        isinf as isinf,
        isnan as isnan,
        log as log,
        log1p as log1p,
        log2 as log2,
        log10 as log10,
        logical_not as logical_not,
        negative as negative,
        positive as positive,
        reciprocal as reciprocal,
        round as round,
        rsqrt as rsqrt,
        sign as sign,
        signbit as signbit,
        sin as sin,
        sinh as sinh,
        sqrt as sqrt,
        square as square,
        step as step,
        tan as tan,
        tanh as tanh,
        trunc as trunc,
    )
    from plugrad.pictures.graph import plot_graph as plot_graph
    from plugrad.profiling import profile as profile
    from plugrad.saving.checkpoint import (
        load as load,
        save as save,
    )
    from plugrad.tape.rules import (
        GradientConfig as GradientConfig,
        override_gradient as override_gradient,
        register_gradient as register_gradient,
    )
    from plugrad.tracing.control_flow import (
        cond as cond,
        scan as scan,
        while_loop as while_loop,
    )
    from plugrad.tracing.jit import (
        jit as jit,
        make_graph as make_graph,
    )
    from plugrad.transforms.derivatives import (
        checkpoint as checkpoint,
        hessian as hessian,
        jacobian as jacobian,
        jvp as jvp,
    )
    from plugrad.transforms.gradients import (
        grad as grad,
        grads as grads,
        value_and_grad as value_and_grad,
        variable_grads as variable_grads,
        vjp as vjp,
    )
    from plugrad.transforms.variable import Variable as Variable
    from plugrad.transforms.vectorize import vectorize as vectorize
    from plugrad.transforms.vmap import vmap as vmap
    from plugrad.types.bfloat16 import bfloat16 as bfloat16

__version__ = "0.1.0"
newaxis = None
"""An index that inserts an axis of size 1, as in NumPy."""

_PUBLIC_MODULE_NAMES = {
    "extend",
    "fft",
    "fused",
    "image",
    "kernels",
    "linalg",
    "losses",
    "optimizers",
    "random",
    "signal",
    "sparse",
    "string",
    "tfjs",
}
"""The public modules that are imported when they are first used."""
_LAZY_EXPORTS = {
    "array_api": (
        "__array_api_version__ __array_namespace_info__ can_cast finfo iinfo isdtype result_type"
    ),
    "engine.by_name": "run_kernel",
    "engine.custom": "custom_grad",
    "ops.activation": (
        "celu elu gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish prelu relu relu6 "
        "selu sigmoid silu soft_shrink softplus softsign"
    ),
    "ops.attention": "attention",
    "ops.bitwise": (
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"
    ),
    "ops.complex": "complex conj imag real",
    "ops.convolution": "conv1d conv1d_transpose conv2d conv2d_transpose",
    "ops.convolution3d": "conv3d conv3d_transpose",
    "ops.creation": (
        "arange asarray empty empty_like eye full full_like linspace ones ones_like "
        "zeros zeros_like"
    ),
    "ops.depthwise": "depthwise_conv2d separable_conv2d",
    "ops.dlpack": "from_dlpack",
    "ops.einsum": "einsum",
    "ops.evaluation": "confusion_matrix in_top_k",
    "ops.histograms": "histogram",
    "ops.indexing": "gather_nd nonzero one_hot take take_along_axis unsorted_segment_sum",
    "ops.linalg": "diag dot matmul matrix_transpose tensordot tril triu vecdot",
    "ops.missing": (
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar"
    ),
    "ops.morphology": "dilation2d",
    "ops.movement": (
        "broadcast_arrays broadcast_shapes broadcast_to concat ensure_shape expand_dims flip "
        "moveaxis pad permute_dims reshape slice split squeeze stack tile unstack"
    ),
    "ops.normalization": (
        "batch_norm batch_norm_training layer_norm local_response_normalization log_softmax softmax"
    ),
    "ops.pooling": "avg_pool max_pool max_pool_with_argmax max_unpool pool",
    "ops.pooling3d": "avg_pool3d max_pool3d",
    "ops.quantiles": "median nanmedian nanquantile quantile",
    "ops.ragged": "ragged_gather ragged_range ragged_tensor_to_tensor",
    "ops.rearrangement": (
        "batch_to_space_nd broadcast_args depth_to_space meshgrid mirror_pad repeat roll "
        "space_to_batch_nd"
    ),
    "ops.recurrent": "basic_lstm_cell multi_rnn_cell",
    "ops.reduction": "all any argmax argmin bincount dense_bincount max mean min prod sum",
    "ops.scan": "cumulative_prod cumulative_sum",
    "ops.scatter": "scatter_nd sparse_to_dense tensor_scatter_update",
    "ops.sets": "isin setdiff1d unique unique_all unique_counts unique_inverse unique_values",
    "ops.sorting": "argsort lower_bound searchsorted sort top_k upper_bound",
    "ops.statistics": "corrcoef count_nonzero cov diff euclidean_norm log_sum_exp moments std var",
    "ops.subscript": "boolean_mask strided_slice",
    "ops.training": "dropout moving_average",
    "ops.transfer": "stop_gradient to_device",
    "ops.unary": (
        "abs acos acosh asin asinh astype atan atanh ceil cos cosh erf exp expm1 floor isfinite "
        "isinf isnan log log1p log2 log10 logical_not negative positive reciprocal round rsqrt "
        "sign signbit sin sinh sqrt square step tan tanh trunc"
    ),
    "pictures.graph": "plot_graph",
    "profiling": "profile",
    "saving.checkpoint": "load save",
    "tape.rules": "GradientConfig override_gradient register_gradient",
    "tracing.control_flow": "cond scan while_loop",
    "tracing.jit": "jit make_graph",
    "transforms.derivatives": "checkpoint hessian jacobian jvp",
    "transforms.gradients": "grad grads value_and_grad variable_grads vjp",
    "transforms.variable": "Variable",
    "transforms.vectorize": "vectorize",
    "transforms.vmap": "vmap",
    "types.bfloat16": "bfloat16",
}
"""The modules that are imported when one of their functions is first used, and these functions."""
_MODULE_OF_EXPORT = {
    name: module for module, names in _LAZY_EXPORTS.items() for name in names.split()
}
"""The module of each name in `_LAZY_EXPORTS`."""

# The package of that name is none of plugrad's public names, and other frameworks have a function `tensor`.
globals().pop("tensor")


if not typing.TYPE_CHECKING:  # checkers would take every name for one that exists

    def __getattr__(name: str) -> typing.Any:
        """Import what many programs do not need when it is first used, which keeps ``import plugrad`` light."""
        if name in _PUBLIC_MODULE_NAMES:
            namespace = plugrad.importing.import_lazily(f"plugrad.{name}")
            # Set here and not written there, so that type checkers know the names of the namespace.
            if not hasattr(namespace, "__getattr__"):  # `extend` has its own
                namespace.__getattr__ = functools.partial(
                    plugrad.absent.raise_missing_export, namespace
                )
            return namespace
        if name in _MODULE_OF_EXPORT:
            found = getattr(
                plugrad.importing.import_lazily(f"plugrad.{_MODULE_OF_EXPORT[name]}"), name
            )
            globals()[name] = found  # from now on without this function
            return found
        if name == "__all__":  # ``from plugrad import *`` asks for it, and imports everything
            return [public for public in __dir__() if not public.startswith("_")]
        return plugrad.absent.raise_missing_export(sys.modules[__name__], name)


def __dir__() -> list[str]:
    """Return the public names, without the imported modules, which Python would add."""
    own = {name for name, value in globals().items() if type(value) is not type(errors)}
    own -= {"_LAZY_EXPORTS", "_MODULE_OF_EXPORT", "_PUBLIC_MODULE_NAMES"}
    own |= _PUBLIC_MODULE_NAMES | _MODULE_OF_EXPORT.keys() | {"errors"}
    if not plugrad.importing.is_installed("ml_dtypes"):  # its dtype cannot be imported
        own -= {"bfloat16"}
    return sorted(own)
