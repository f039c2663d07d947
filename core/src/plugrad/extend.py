"""The plugin author's page: everything that outside code may import, besides `plugrad.kernels`."""

import sys
import typing

from plugrad.contract.annotations import Axes as Axes, Axis as Axis, NewAxis as NewAxis
from plugrad.contract.kernel import (
    Kernel as Kernel,
    all_contracts,
    check_dtype as check_dtype,
    check_same_dtype as check_same_dtype,
    kernel as kernel,
)
from plugrad.deprecation import deprecated as deprecated
from plugrad.discovery.hooks import hookimpl as hookimpl
from plugrad.engine.composites import composite as composite
from plugrad.engine.halves import (
    DATA_MOVEMENT_KERNELS as DATA_MOVEMENT_KERNELS,
    compute_in_float32 as compute_in_float32,
    compute_in_wider_dtype as compute_in_wider_dtype,
)
from plugrad.engine.implementations import active_functions as active_functions
from plugrad.engine.results import wrap_array as wrap_array
from plugrad.engine.watching import report_event as report_event
from plugrad.errors import (
    ArgumentError as ArgumentError,
    ArgumentValueError as ArgumentValueError,
    BackendUnavailable as BackendUnavailable,
    DeviceLost as DeviceLost,
    DTypeError as DTypeError,
    KernelFailed as KernelFailed,
    KernelNotFound as KernelNotFound,
    OutOfMemory as OutOfMemory,
    PlugradError as PlugradError,
    ShapeError as ShapeError,
    TensorIndexError as TensorIndexError,
    UnsupportedDtype as UnsupportedDtype,
    raise_missing_name as raise_missing_name,
)
from plugrad.host import (
    host_implementations as host_implementations,
)
from plugrad.importing import import_lazily as import_lazily
from plugrad.interruptions import (
    hold_safely as hold_safely,
    is_interruption as is_interruption,
    suppress_failures as suppress_failures,
)
from plugrad.ops.transfer import host_value as host_value
from plugrad.registry.batching import (
    Batch as Batch,
    batched_by_loop as batched_by_loop,
    fold_batch_rule as fold_batch_rule,
    register_batching as register_batching,
    run_with_broadcast_axes as run_with_broadcast_axes,
    run_with_leading_axis as run_with_leading_axis,
    shift_axes_rule as shift_axes_rule,
)
from plugrad.registry.dtypes import register_dtype as register_dtype
from plugrad.registry.kernels import get_kernel as get_kernel, register_kernel as register_kernel
from plugrad.registry.tables import KernelTable as KernelTable
from plugrad.settings.cache import UserCache as UserCache
from plugrad.tape.nodes import differentiation_depth as differentiation_depth
from plugrad.tape.rules import (
    GradientConfig as GradientConfig,
    gradient as gradient,
    not_differentiable as not_differentiable,
    register_gradient as register_gradient,
)
from plugrad.tensor.backend import (
    Backend as Backend,
    DeviceInfo as DeviceInfo,
    Implementation as Implementation,
    KernelConfig as KernelConfig,
    Memory as Memory,
    Probe as Probe,
    compute_host_value as compute_host_value,
)
from plugrad.tensor.closures import bind_closure as bind_closure
from plugrad.tensor.context import active_precision as active_precision
from plugrad.tensor.effects import undo_on_failure as undo_on_failure
from plugrad.tensor.tensor import Tensor as Tensor
from plugrad.tensor.tracer import is_traced as is_traced, static_value as static_value
from plugrad.types.arguments import explain_wrong_calls as explain_wrong_calls
from plugrad.types.contractions import (
    OperandPreparation as OperandPreparation,
    PairContraction as PairContraction,
    plan_contractions as plan_contractions,
)
from plugrad.types.dtype import (
    ANY as ANY,
    BFLOAT16 as BFLOAT16,
    BOOL as BOOL,
    COMPLEX as COMPLEX,
    DTYPES as DTYPES,
    FLOATING as FLOATING,
    HALVES as HALVES,
    INEXACT as INEXACT,
    INTEGER as INTEGER,
    NUMERIC as NUMERIC,
    REAL as REAL,
    STRING as STRING,
    DType as DType,
    Scalar as Scalar,
    as_dtype as as_dtype,
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    known_bfloat16 as known_bfloat16,
    position_dtype as position_dtype,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from plugrad.types.factors import plan_fft_stages as plan_fft_stages
from plugrad.types.shapes import (
    broadcast as broadcast,
    count_elements as count_elements,
    normalize_axes as normalize_axes,
    normalize_axis as normalize_axis,
    reduced_shape as reduced_shape,
    sliced_shape as sliced_shape,
)
from plugrad.types.specs import Shape as Shape, Shaped as Shaped, Spec as Spec
from plugrad.types.windows import (
    DataFormat as DataFormat,
    Pair as Pair,
    Pairs as Pairs,
    Window as Window,
    cell_slices as cell_slices,
    pool_window as pool_window,
    sliding_window as sliding_window,
    window_margins as window_margins,
)

if typing.TYPE_CHECKING:
    from plugrad.graph.graph import (
        Call as Call,
        Cond as Cond,
        Fused as Fused,
        Graph as Graph,
        HostValue as HostValue,
        Scan as Scan,
        SourceLine as SourceLine,
        Step as Step,
        Value as Value,
        While as While,
    )
    from plugrad.graph.verifier import verify_graph as verify_graph
    from plugrad.passes.algebra import simplify_algebra as simplify_algebra
    from plugrad.passes.common import merge_common_calls as merge_common_calls
    from plugrad.passes.constants import fold_constants as fold_constants
    from plugrad.passes.dead import remove_dead_steps as remove_dead_steps
    from plugrad.passes.epilogues import fuse_epilogues as fuse_epilogues
    from plugrad.passes.fusion import (
        fuse_groups as fuse_groups,
        fuse_regions as fuse_regions,
        fuse_steps as fuse_steps,
    )
    from plugrad.passes.groups import (
        Group as Group,
        find_groups as find_groups,
    )
    from plugrad.passes.memory import (
        MemoryPlan as MemoryPlan,
        pack_memory as pack_memory,
        plan_memory as plan_memory,
    )
    from plugrad.passes.residuals import keep_residuals as keep_residuals
    from plugrad.passes.simplify import simplify_graph as simplify_graph
    from plugrad.passes.views import (
        PACKED_VIEWS as PACKED_VIEWS,
        STRIDED_VIEWS as STRIDED_VIEWS,
        find_storage as find_storage,
    )
    from plugrad.tracing.in_place import InPlacePlan as InPlacePlan
    from plugrad.tracing.replay import compile_replay as compile_replay

_LAZY_EXPORTS = {
    "graph.graph": "Call Cond Fused Graph HostValue Scan SourceLine Step Value While",
    "graph.verifier": "verify_graph",
    "passes.algebra": "simplify_algebra",
    "passes.common": "merge_common_calls",
    "passes.constants": "fold_constants",
    "passes.dead": "remove_dead_steps",
    "passes.epilogues": "fuse_epilogues",
    "passes.fusion": "fuse_groups fuse_regions fuse_steps",
    "passes.groups": "Group find_groups",
    "passes.memory": "MemoryPlan pack_memory plan_memory",
    "passes.residuals": "keep_residuals",
    "passes.simplify": "simplify_graph",
    "passes.views": "PACKED_VIEWS STRIDED_VIEWS find_storage",
    "tracing.in_place": "InPlacePlan",
    "tracing.replay": "compile_replay",
}
"""By module: its names in this namespace. The module is imported when one of them is first used."""
_MODULE_OF_EXPORT = {
    name: module for module, names in _LAZY_EXPORTS.items() for name in names.split()
}
"""The module of each name in `_LAZY_EXPORTS`."""


def __getattr__(name: str) -> typing.Any:
    """Import what few plugins need when it is first used."""
    module = _MODULE_OF_EXPORT.get(name)
    if module is None:
        return raise_missing_name(sys.modules[__name__], {}, name)
    found = globals()[name] = getattr(import_lazily(f"plugrad.{module}"), name)
    return found


def __dir__() -> list[str]:
    """Return the public names, without the imported modules."""
    own = {name for name, value in globals().items() if type(value) is not type(typing)}
    return sorted({name for name in own if not name.startswith("_")} | _MODULE_OF_EXPORT.keys())


KERNELS = all_contracts()
"""The contracts of all kernels, by registry name."""
