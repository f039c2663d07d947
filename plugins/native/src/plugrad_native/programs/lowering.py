"""How calls of kernels that are not elementwise become calls of C.

A rule looks at shapes, dtypes and attributes, and decides as the implementation does that an untraced call would use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import Call, count_elements
from plugrad.kernels import linalg, movement, normalization, optimizers, reduction, unary
from plugrad_native.declare import (
    FLOATS,
    INTEGERS,
    LANES,
    MAX_ELEMENTS,
    broadcast_descriptor,
)
from plugrad_native.kernels.linalg import (
    is_served,
    plan_matmul,
)
from plugrad_native.kernels.optimizers import NAMES
from plugrad_native.kernels.reduction import reduction_layout
from plugrad_native.kernels.scan import sizes_around_axis
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    Constant,
    Part,
    Read,
    UfuncCall,
    Written,
    c_function,
    find_loop,
    inputs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from plugrad.extend import Kernel, Shaped, Value

    Specs = Mapping[Value, Shaped]
    Rule = Callable[[Call, Specs], list[AnyCall] | None]

RULES: Final[dict[Kernel[..., Any], Rule]] = {}
VIEWS: Final = frozenset({unary.identity, movement.reshape, movement.expand_dims})
"""The kernels that compute nothing."""


def calls_of(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute a kernel call, or None if there are none."""
    rule = RULES.get(call.kernel)
    values = [v for v in (*call.inputs, *call.outputs) if v is not None]
    if rule is None or any(not 0 < count_elements(specs[v].shape) < MAX_ELEMENTS for v in values):
        return None
    return rule(call, specs)


def lowers(kernel: Kernel[..., Any]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering rule of a kernel."""

    def declare(rule: Rule) -> Rule:
        RULES[kernel] = rule
        return rule

    return declare


# --- movements ----------------------------------------------------------------------------------

EXPAND: Final = {size: c_function(f"expand_{size}") for size in (1, 2, 4, 8)}
"""What reads a broadcast array, by the bytes of an element."""
COPY: Final = {size: c_function(f"copy_{size}") for size in (1, 2, 4, 8)}


@lowers(movement.broadcast_to)
def broadcast_to(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a broadcast."""
    x, y = inputs_of(call)[0], call.outputs[0]
    shape = specs[y].shape
    function = EXPAND.get(specs[y].dtype.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    descriptor = Constant(broadcast_descriptor(shape, specs[x].shape))
    return [CCall(function, (Read(x), Written(y), count_elements(shape), 0, descriptor))]


@lowers(movement.transpose)
def transpose(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a transposition."""
    x, y = inputs_of(call)[0], call.outputs[0]
    dtype = specs[x].dtype
    if dtype.name == "string" or dtype.itemsize not in COPY:
        return None
    order = call.attrs["perm"]
    source = np.empty(specs[x].shape, dtype.numpy).transpose(order)
    target = np.empty(source.shape, dtype.numpy)
    if not source.size:
        return []
    return [CCall(COPY[dtype.itemsize], (Read(x), Written(y), _copy_descriptor(source, target)))]


def _copy_descriptor(source: NDArray[Any], target: NDArray[Any]) -> Constant:
    """Return the descriptor of a copy between two views of equal shape.

    It leaves out axes of one element: C has room for the 31 others that an array of less than 2³¹ elements can have.
    """
    axes = [axis for axis, size in enumerate(source.shape) if size != 1]
    missing = max(0, 2 - len(axes))
    sizes = [1] * missing + [source.shape[axis] for axis in axes]
    steps = [
        [0] * missing + [view.strides[axis] // view.itemsize for axis in axes]
        for view in (source, target)
    ]
    return Constant(np.array([len(sizes), *sizes, *steps[0], *steps[1]], np.int32))


def strided_copy(
    source: tuple[Value, NDArray[Any], NDArray[Any]],
    target: tuple[Value, NDArray[Any], NDArray[Any]],
) -> list[AnyCall] | None:
    """Return the copy of a view to another one. Each is a value, an array of its shape, and a view of this array."""
    dtype = source[1].dtype
    if dtype.itemsize not in COPY:
        return None
    if not source[2].size:
        return []
    parts: list[Part] = []
    for value, whole, view in (source, target):
        start = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        parts.append(Part(value, start))
    return [CCall(COPY[dtype.itemsize], (*parts, _copy_descriptor(source[2], target[2])))]


def _stand_in(spec: Shaped) -> NDArray[Any]:
    return np.empty(spec.shape, spec.dtype.numpy)


def _view_rule(view_of: Callable[[Call, NDArray[Any]], NDArray[Any]]) -> Rule:
    """Return the rule of a kernel that copies a view of its first input."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        x, y = inputs_of(call)[0], call.outputs[0]
        if specs[x].dtype.name == "string":
            return None
        whole, made = _stand_in(specs[x]), _stand_in(specs[y])
        return strided_copy((x, whole, view_of(call, whole).reshape(made.shape)), (y, made, made))

    return rule


def _slice_view(call: Call, x: NDArray[Any]) -> NDArray[Any]:
    begin, size = call.attrs["begin"], call.attrs["size"]
    return x[tuple([slice(b, b + n) for b, n in zip(begin, size, strict=True)])]


RULES[movement.slice] = _view_rule(_slice_view)


def _strided_view(call: Call, x: NDArray[Any]) -> NDArray[Any]:
    parts = zip(*[call.attrs[name] for name in ("begin", "end", "strides")], strict=True)
    # Behind the first element backwards, there is no position for Python that does not count from the end.
    return x[tuple([slice(b, None if e < 0 else e, step) for b, e, step in parts])]


RULES[movement.strided_slice] = _view_rule(_strided_view)
RULES[movement.reverse] = _view_rule(lambda call, x: np.flip(x, call.attrs["dims"]))


@lowers(movement.concat)
def concat(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a concatenation."""
    (y,) = call.outputs
    axis, start = call.attrs["axis"], 0
    whole = _stand_in(specs[y])
    copies: list[AnyCall] = []
    for value in inputs_of(call):
        x = _stand_in(specs[value])
        place = whole[(slice(None),) * axis + (slice(start, start + x.shape[axis]),)]
        made = strided_copy((value, x, x), (y, whole, place))
        if made is None:
            return None
        copies += made
        start += x.shape[axis]
    return copies


@lowers(movement.pack)
def pack(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a stack along a new axis."""
    (y,) = call.outputs
    whole, copies = _stand_in(specs[y]), list[AnyCall]()
    for index, value in enumerate(inputs_of(call)):
        x = _stand_in(specs[value])
        place = whole[(*(slice(None),) * call.attrs["axis"], index)]
        made = strided_copy((value, x, x), (y, whole, place))
        if made is None:
            return None
        copies += made
    return copies


@lowers(movement.unpack)
def unpack(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls for the slices along an axis."""
    (x,), whole = inputs_of(call), _stand_in(specs[inputs_of(call)[0]])
    copies: list[AnyCall] = []
    for index, value in enumerate(call.outputs):
        made = _stand_in(specs[value])
        part = whole[(*(slice(None),) * call.attrs["axis"], index)]
        copied = strided_copy((x, whole, part), (value, made, made))
        if copied is None:
            return None
        copies += copied
    return copies


@lowers(movement.split)
def split(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls for consecutive parts along an axis."""
    (x,), axis, start = inputs_of(call), call.attrs["axis"], 0
    whole = _stand_in(specs[x])
    copies: list[AnyCall] = []
    for value in call.outputs:
        made = _stand_in(specs[value])
        part = whole[(slice(None),) * axis + (slice(start, start + made.shape[axis]),)]
        copied = strided_copy((x, whole, part), (value, made, made))
        if copied is None:
            return None
        copies += copied
        start += made.shape[axis]
    return copies


@lowers(movement.pad)
def pad(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a padding with a constant."""
    x, y = inputs_of(call)[0], call.outputs[0]
    whole, inner = _stand_in(specs[y]), _stand_in(specs[x])
    function = EXPAND.get(inner.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    paddings = zip(call.attrs["paddings"], inner.shape, strict=True)
    place = whole[tuple([slice(before, before + n) for (before, _), n in paddings])]
    number = Constant(np.asarray(call.attrs["constant_value"], inner.dtype))
    shape = Constant(broadcast_descriptor(whole.shape, ()))
    copied = strided_copy((x, inner, inner), (y, whole, place))
    return copied and [CCall(function, (number, Written(y), whole.size, 0, shape)), *copied]


PARTS: Final = frozenset(
    {
        *(movement.slice, movement.strided_slice, movement.reverse, movement.pad),
        *(movement.concat, movement.split, movement.pack, movement.unpack),
    }
)
"""The kernels whose results are views or parts of others: untraced, sums over them add in another order."""


_VIEWED: Final = {
    movement.slice: _slice_view,
    movement.strided_slice: _strided_view,
}


def has_gaps(call: Call, specs: Specs) -> bool:
    """Return whether a call, run untraced, returns a non-contiguous view of a contiguous array."""
    if call.kernel in (movement.split, movement.unpack):
        return call.attrs["axis"] != 0
    view_of = _VIEWED.get(call.kernel)
    if view_of is None:
        return call.kernel is movement.reverse
    return not view_of(call, _stand_in(specs[inputs_of(call)[0]])).flags.c_contiguous


# --- products -----------------------------------------------------------------------------------


OUTER: Final = {dtype: c_function(f"outer_{dtype}") for dtype in FLOATS}
"""What multiplies columns by rows in a tenth of the time of BLAS."""


@lowers(linalg.matmul)
def matmul(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the calls of a matrix product: C for batches or a single term, else BLAS."""
    (a, b), (y,) = inputs_of(call), call.outputs
    dtype = specs[y].dtype
    if dtype.name not in FLOATS:
        return None
    shapes = specs[a].shape, specs[b].shape
    turned = bool(call.attrs["transpose_a"]), bool(call.attrs["transpose_b"])
    plan = plan_matmul(*shapes, *turned)
    rows, columns, depth = plan.numbers[:3]
    if dtype.name == "float32" and is_served(*shapes, *turned):
        batch = Constant(plan.batch)
        return [
            CCall(
                c_function("matmul_float32"), (Read(a), Read(b), Written(y), *plan.numbers, batch)
            )
        ]
    if depth == 1 and (shapes[0][:-2] == shapes[1][:-2] or not plan.batch[0]):
        numbers = count_elements(specs[y].shape) // (rows * columns), rows, columns
        return [CCall(OUTER[dtype.name], (Read(a), Read(b), Written(y), *numbers))]
    loop = find_loop(np.matmul, *[dtype.numpy] * 3)
    axes, *others = plan.batch.tolist()
    if loop is None or axes > 1:
        return None
    count, *batch_steps = others
    size = dtype.itemsize
    steps = (*batch_steps, rows * columns, *plan.numbers[3:], columns, 1)
    return [
        UfuncCall(
            np.matmul,
            loop,
            (Read(a), Read(b), Written(y)),
            (count, rows, depth, columns),
            tuple([step * size for step in steps]),
        )
    ]


# --- reductions and normalizations -----------------------------------------------------------------


def _reduction_rule(name: str, dtypes: tuple[str, ...], attribute: str = "axis") -> Rule:
    functions = {dtype: c_function(f"{name}_{dtype}") for dtype in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        (x,), (y,) = inputs_of(call), call.outputs
        function = functions.get(specs[x].dtype.name)
        plan = reduction_layout(specs[x].shape, call.attrs[attribute], call.attrs["keep_dims"])
        if function is None or plan is None:
            return None
        return [CCall(function, (Read(x), Written(y), *plan[1:]))]

    return rule


RULES[reduction.sum] = _reduction_rule("sum", (*FLOATS, *INTEGERS))
RULES[reduction.prod] = _reduction_rule("prod", (*FLOATS, *INTEGERS))
RULES[reduction.mean] = _reduction_rule("mean", FLOATS)
RULES[reduction.variance] = _reduction_rule("variance", FLOATS)
RULES[reduction.euclidean_norm] = _reduction_rule("norm", FLOATS)
RULES[reduction.min] = _reduction_rule("min", (*FLOATS, *INTEGERS))
RULES[reduction.max] = _reduction_rule("max", (*FLOATS, *INTEGERS), "reduction_indices")


def _flag_rule(name: str) -> Rule:
    """Return the rule of a bool reduction by a function for bytes, because bools are stored as 0 and 1."""
    function = c_function(f"{name}_uint8")

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        (x,), (y,) = inputs_of(call), call.outputs
        plan = reduction_layout(specs[x].shape, call.attrs["axis"], call.attrs["keep_dims"])
        return plan and [CCall(function, (Read(x), Written(y), *plan[1:]))]

    return rule


RULES[reduction.all] = _flag_rule("min")
RULES[reduction.any] = _flag_rule("max")


def _rows_rule(name: str, attribute: str) -> Rule:
    functions = {dtype: c_function(f"{name}_{dtype}") for dtype in FLOATS}
    columns = c_function(f"{name}_columns_float32")

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        (x,), (y,) = inputs_of(call), call.outputs
        dtype = specs[x].dtype.name
        outer, length, inner = sizes_around_axis(specs[x].shape, call.attrs[attribute])
        if dtype not in functions:
            return None
        if inner == 1:
            return [CCall(functions[dtype], (Read(x), Written(y), outer, length))]
        if dtype == "float32" and inner >= LANES:
            return [CCall(columns, (Read(x), Written(y), outer, length, inner))]
        return None

    return rule


RULES[normalization.softmax] = _rows_rule("softmax", "dim")
RULES[normalization.log_softmax] = _rows_rule("log_softmax", "axis")


# --- optimizers ---------------------------------------------------------------------------------


def _optimizer_rule(kernel: Kernel[..., Any], name: str) -> Rule:
    functions = {dtype: c_function(f"{name}_{dtype}") for dtype in FLOATS}
    lists = optimizers.LISTS[kernel]

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        coefficients, *tensors = inputs_of(call)
        count = len(tensors) // lists
        sizes = np.array([count_elements(specs[v].shape) for v in tensors[:count]], np.int32)
        inputs, outputs = tuple(map(Read, tensors)), tuple(map(Written, call.outputs))
        given = Read(coefficients), Constant(sizes), inputs, outputs, count, 0, 1
        return [CCall(functions[specs[coefficients].dtype.name], given)]

    return rule


for _name in NAMES:
    _kernel = vars(optimizers)[_name]
    RULES[_kernel] = _optimizer_rule(_kernel, _name)
