"""Lowering rules of kernels that are not elementwise: their calls become calls of C.

A rule looks at shapes, dtypes and attributes, and decides as the implementation does that an untraced call would use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import Call, count_elements
from plugrad.kernels import (
    fused,
    indexing,
    linalg,
    movement,
    normalization,
    optimizers,
    reduction,
    unary,
)
from plugrad_native.declare import (
    FLOAT32_LANES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    describe_broadcast,
)
from plugrad_native.kernels.linalg import (
    is_multiplied_in_c,
    plan_matmul,
)
from plugrad_native.kernels.optimizers import OPTIMIZER_NAMES
from plugrad_native.kernels.reduction import find_reduction_layout
from plugrad_native.kernels.scan import find_sizes_around_axis
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    ConstantOperand,
    InputOperand,
    OffsetOperand,
    OutputOperand,
    UfuncCall,
    check_c_function,
    find_ufunc_loop,
    get_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from plugrad.extend import Graph, Kernel, Shaped, Value

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""
    Rule = Callable[[Call, Specs], list[AnyCall] | None]
    """The type of a lowering rule: from a kernel call and specs to the C calls, or None."""

LOWERING_RULES: Final[dict[Kernel[..., Any], Rule]] = {}
"""By kernel: the rule that lowers its calls to calls of C."""
VIEW_KERNELS: Final = frozenset({unary.identity, movement.reshape, movement.expand_dims})
"""The kernels whose result is a view of their input."""


def lower_call(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute a kernel call, or None if there are none."""
    rule = LOWERING_RULES.get(call.kernel)
    values = [v for v in (*call.inputs, *call.outputs) if v is not None]
    if rule is None or any(not 0 < count_elements(specs[v].shape) < MAX_ELEMENTS for v in values):
        return None
    return rule(call, specs)


def register_lowering(kernel: Kernel[..., Any]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering rule of a kernel."""

    def declare(rule: Rule) -> Rule:
        """Register the rule, and return it."""
        LOWERING_RULES[kernel] = rule
        return rule

    return declare


# --- movements ----------------------------------------------------------------------------------

C_EXPAND: Final = {size: check_c_function(f"expand_{size}") for size in (1, 2, 4, 8)}
"""The names of the C functions that write a broadcast array, by the bytes of an element."""
C_COPY_BY_ITEM_SIZE: Final = {size: check_c_function(f"copy_{size}") for size in (1, 2, 4, 8)}
"""The C functions of strided copies, by the bytes of an element."""


@register_lowering(movement.broadcast_to)
def broadcast_to(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a broadcast."""
    x, y = get_inputs(call)[0], call.outputs[0]
    shape = specs[y].shape
    function = C_EXPAND.get(specs[y].dtype.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    descriptor = ConstantOperand(describe_broadcast(shape, specs[x].shape))
    return [
        CCall(function, (InputOperand(x), OutputOperand(y), count_elements(shape), 0, descriptor))
    ]


@register_lowering(movement.transpose)
def transpose(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a transposition."""
    x, y = get_inputs(call)[0], call.outputs[0]
    dtype = specs[x].dtype
    if dtype.name == "string" or dtype.itemsize not in C_COPY_BY_ITEM_SIZE:
        return None
    order = call.attrs["perm"]
    source = np.empty(specs[x].shape, dtype.numpy).transpose(order)
    target = np.empty(source.shape, dtype.numpy)
    if not source.size:
        return []
    return [
        CCall(
            C_COPY_BY_ITEM_SIZE[dtype.itemsize],
            (InputOperand(x), OutputOperand(y), _describe_copy(source, target)),
        )
    ]


def _describe_copy(source: NDArray[Any], target: NDArray[Any]) -> ConstantOperand:
    """Return C's descriptor of a copy between NumPy views of the same shape, from source to target.

    It leaves out axes of one element: C has room for the 31 others that an array of less than 2³¹ elements can have.
    """
    axes = [axis for axis, size in enumerate(source.shape) if size != 1]
    missing = max(0, 2 - len(axes))
    sizes = [1] * missing + [source.shape[axis] for axis in axes]
    steps = [
        [0] * missing + [view.strides[axis] // view.itemsize for axis in axes]
        for view in (source, target)
    ]
    return ConstantOperand(np.array([len(sizes), *sizes, *steps[0], *steps[1]], np.int32))


def make_strided_copy(
    source: tuple[Value, NDArray[Any], NDArray[Any]],
    target: tuple[Value, NDArray[Any], NDArray[Any]],
) -> list[AnyCall] | None:
    """Return the C call that copies one view to another, each given as a value, an array of its shape, and a view."""
    dtype = source[1].dtype
    if dtype.itemsize not in C_COPY_BY_ITEM_SIZE:
        return None
    if not source[2].size:
        return []
    parts: list[OffsetOperand] = []
    for value, whole, view in (source, target):
        start = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        parts.append(OffsetOperand(value, start))
    return [
        CCall(C_COPY_BY_ITEM_SIZE[dtype.itemsize], (*parts, _describe_copy(source[2], target[2])))
    ]


def make_dummy_array(spec: Shaped) -> NDArray[Any]:
    """Return an uninitialized array of a value's shape and dtype."""
    return np.empty(spec.shape, spec.dtype.numpy)


def _make_view_rule(make_view: Callable[[Call, NDArray[Any]], NDArray[Any]]) -> Rule:
    """Return the rule of a kernel that copies a view of its first input."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call that copies the view."""
        x, y = get_inputs(call)[0], call.outputs[0]
        if specs[x].dtype.name == "string":
            return None
        whole, made = make_dummy_array(specs[x]), make_dummy_array(specs[y])
        return make_strided_copy(
            (x, whole, make_view(call, whole).reshape(made.shape)), (y, made, made)
        )

    return rule


def _make_slice_view(call: Call, x: NDArray[Any]) -> NDArray[Any]:
    """Return the view of x that a call of `slice` takes."""
    begin, size = call.attrs["begin"], call.attrs["size"]
    return x[(..., *[slice(b, b + n) for b, n in zip(begin, size, strict=True)])]


LOWERING_RULES[movement.slice] = _make_view_rule(_make_slice_view)


def _make_strided_view(call: Call, x: NDArray[Any]) -> NDArray[Any]:
    """Return the view of x that a call of `strided_slice` takes."""
    parts = zip(*[call.attrs[name] for name in ("begin", "end", "strides")], strict=True)
    # Behind the first element backwards, there is no position for Python that does not count from the end.
    return x[(..., *[slice(b, None if e < 0 else e, step) for b, e, step in parts])]


LOWERING_RULES[movement.strided_slice] = _make_view_rule(_make_strided_view)
LOWERING_RULES[movement.reverse] = _make_view_rule(lambda call, x: np.flip(x, call.attrs["dims"]))


@register_lowering(movement.strided_slice_update)
def strided_slice_update(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a copy in which a slice is replaced."""
    (x, updates), (y,) = get_inputs(call), call.outputs
    if specs[x].dtype.name == "string":
        return None
    whole, new = make_dummy_array(specs[y]), make_dummy_array(specs[updates])
    place = _make_strided_view(call, whole)
    copied = make_strided_copy((x, whole, whole), (y, whole, whole))
    replaced = make_strided_copy(
        (updates, new, np.broadcast_to(new, place.shape)), (y, whole, place)
    )
    return None if copied is None or replaced is None else [*copied, *replaced]


@register_lowering(movement.concat)
def concat(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a concatenation."""
    (y,) = call.outputs
    axis, start = call.attrs["axis"], 0
    whole = make_dummy_array(specs[y])
    copies: list[AnyCall] = []
    for value in get_inputs(call):
        x = make_dummy_array(specs[value])
        place = whole[(slice(None),) * axis + (slice(start, start + x.shape[axis]),)]
        made = make_strided_copy((value, x, x), (y, whole, place))
        if made is None:
            return None
        copies += made
        start += x.shape[axis]
    return copies


@register_lowering(movement.pack)
def pack(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a stack along a new axis."""
    (y,) = call.outputs
    whole, copies = make_dummy_array(specs[y]), list[AnyCall]()
    for index, value in enumerate(get_inputs(call)):
        x = make_dummy_array(specs[value])
        # With the ellipsis, NumPy returns a view also of a single number, and no copy, whose address says nothing.
        place = whole[(*(slice(None),) * call.attrs["axis"], index, ...)]
        made = make_strided_copy((value, x, x), (y, whole, place))
        if made is None:
            return None
        copies += made
    return copies


@register_lowering(movement.unpack)
def unpack(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls for the slices along an axis."""
    (x,), whole = get_inputs(call), make_dummy_array(specs[get_inputs(call)[0]])
    copies: list[AnyCall] = []
    for index, value in enumerate(call.outputs):
        made = make_dummy_array(specs[value])
        part = whole[(*(slice(None),) * call.attrs["axis"], index, ...)]
        copied = make_strided_copy((x, whole, part), (value, made, made))
        if copied is None:
            return None
        copies += copied
    return copies


@register_lowering(movement.split)
def split(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls for consecutive parts along an axis."""
    (x,), axis, start = get_inputs(call), call.attrs["axis"], 0
    whole = make_dummy_array(specs[x])
    copies: list[AnyCall] = []
    for value in call.outputs:
        made = make_dummy_array(specs[value])
        part = whole[(slice(None),) * axis + (slice(start, start + made.shape[axis]),)]
        copied = make_strided_copy((x, whole, part), (value, made, made))
        if copied is None:
            return None
        copies += copied
        start += made.shape[axis]
    return copies


@register_lowering(movement.pad)
def pad(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a padding with a constant."""
    x, y = get_inputs(call)[0], call.outputs[0]
    whole, inner = make_dummy_array(specs[y]), make_dummy_array(specs[x])
    function = C_EXPAND.get(inner.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    paddings = zip(call.attrs["paddings"], inner.shape, strict=True)
    place = whole[tuple([slice(before, before + n) for (before, _), n in paddings])]
    number = ConstantOperand(np.asarray(call.attrs["constant_value"], inner.dtype))
    shape = ConstantOperand(describe_broadcast(whole.shape, ()))
    copied = make_strided_copy((x, inner, inner), (y, whole, place))
    return copied and [CCall(function, (number, OutputOperand(y), whole.size, 0, shape)), *copied]


SLICE_OR_JOIN_KERNELS: Final = frozenset(
    {
        *(movement.slice, movement.strided_slice, movement.reverse, movement.pad),
        *(movement.concat, movement.split, movement.pack, movement.unpack),
    }
)
"""The kernels that slice or join arrays; untraced sums over their results add elements in another order."""


SLICE_MAKERS: Final[dict[Kernel[..., Any], Callable[[Call, NDArray[Any]], NDArray[Any]]]] = {
    movement.slice: _make_slice_view,
    movement.strided_slice: _make_strided_view,
}
"""By kernel: the function of a call and its input array that returns the sliced view of the array."""


def find_transposed_values(graph: Graph, min_elements: int) -> frozenset[Value]:
    """Return the values of at least `min_elements` elements whose axes untraced calls leave in another order.

    Those are transposed arrays and what elementwise calls make of them.
    """
    found: set[Value] = set()
    for step in graph.steps:
        if not isinstance(step, Call) or len(step.outputs) != 1:
            continue
        size = count_elements(graph.specs[step.outputs[0]].shape)
        kept = [
            v for v in step.inputs if v in found and count_elements(graph.specs[v].shape) == size
        ]
        if size >= min_elements and (
            step.kernel is movement.transpose
            or (
                kept
                and (
                    step.kernel.is_elementwise
                    or step.kernel in (unary.identity, movement.expand_dims)
                )
            )
        ):
            found.update(step.outputs)
    return frozenset(found)


# --- elements at positions ------------------------------------------------------------------------


C_GATHER_BY_INDEX_DTYPE_AND_ITEM_SIZE: Final = {
    (dtype, size): check_c_function(f"{name}_{size}")
    for dtype, name in (("int32", "gather"), ("int64", "gather_by_int64"))
    for size in (4, 8)
}
"""The C functions that gather slices, by the dtype of the indices and the bytes of an element.

Indices out of range give zeros.
"""
C_GATHER_GRADIENT_OF_ROWS: Final = {
    (index_dtype, dtype): check_c_function(f"{name}_{dtype}")
    for index_dtype, name in (
        ("int32", "gather_gradient_of_rows"),
        ("int64", "gather_gradient_of_rows_by_int64"),
    )
    for dtype in FLOAT_DTYPES
}
"""The C functions that add rows at indices, by the dtypes of the indices and of the elements."""


@register_lowering(indexing.gather)
def gather(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that gather short slices, at indices that are known to be in range."""
    (x, indices), (y,) = get_inputs(call), call.outputs
    axis, batch_dims = call.attrs["axis"], call.attrs["batch_dims"]
    shape, dtype = specs[x]
    function = C_GATHER_BY_INDEX_DTYPE_AND_ITEM_SIZE.get(
        (specs[indices].dtype.name, dtype.itemsize)
    )
    inner = count_elements(shape[axis + 1 :])
    if function is None or dtype.name == "string" or inner > GATHERED_SLICE_MAX_ELEMENTS:
        return None
    batch, outer = count_elements(shape[:batch_dims]), count_elements(shape[batch_dims:axis])
    count = count_elements(specs[indices].shape) // batch
    operands = InputOperand(x), InputOperand(indices), OutputOperand(y)
    return [CCall(function, (*operands, batch, outer, shape[axis], inner, count))]


@register_lowering(indexing.gather_gradient)
def gather_gradient(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of the gradient of one gathered element per row, at indices known to be in range."""
    (dy, indices), (y,) = get_inputs(call), call.outputs
    rows = count_elements(specs[indices].shape)
    key = specs[indices].dtype.name, specs[dy].dtype.name
    function = C_GATHER_GRADIENT_OF_ROWS.get(key)
    shape, axis = call.attrs["shape"], call.attrs["axis"]
    is_of_rows = rows == count_elements(shape[: call.attrs["batch_dims"]])
    if function is None or not is_of_rows or rows * shape[axis] != count_elements(shape):
        return None
    operands = InputOperand(dy), InputOperand(indices), OutputOperand(y)
    return [CCall(function, (*operands, rows, shape[axis]))]


GATHERED_SLICE_MAX_ELEMENTS: Final = 16
"""The maximum elements of a slice that C gathers as fast as NumPy."""


# --- products -----------------------------------------------------------------------------------


C_OUTER_PRODUCT_BY_DTYPE: Final = {
    dtype: check_c_function(f"outer_{dtype}") for dtype in FLOAT_DTYPES
}
"""The C functions that multiply columns by rows, in a tenth of the time of BLAS."""


@register_lowering(linalg.matmul)
def matmul(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the calls of a matrix product: of C for a depth of 1 or if C multiplies untraced ones, else of BLAS."""
    (a, b), (y,) = get_inputs(call), call.outputs
    dtype = specs[y].dtype
    if dtype.name not in FLOAT_DTYPES:
        return None
    shapes = specs[a].shape, specs[b].shape
    turned = bool(call.attrs["transpose_a"]), bool(call.attrs["transpose_b"])
    plan = plan_matmul(*shapes, *turned)
    rows, columns, depth = plan.sizes_and_strides[:3]
    if depth == 1 and (shapes[0][:-2] == shapes[1][:-2] or not plan.batch_descriptor[0]):
        numbers = count_elements(specs[y].shape) // (rows * columns), rows, columns
        return [
            CCall(
                C_OUTER_PRODUCT_BY_DTYPE[dtype.name],
                (InputOperand(a), InputOperand(b), OutputOperand(y), *numbers),
            )
        ]
    if is_multiplied_in_c(dtype.numpy, *shapes, *turned):
        batch = ConstantOperand(plan.batch_descriptor)
        operands = InputOperand(a), InputOperand(b), OutputOperand(y)
        function = check_c_function(f"matmul_{dtype.name}")
        return [CCall(function, (*operands, *plan.sizes_and_strides, batch))]
    loop = find_ufunc_loop(np.matmul, *[dtype.numpy] * 3)
    axes, *others = plan.batch_descriptor.tolist()
    if loop is None or axes > 1:
        return None
    count, *batch_steps = others
    size = dtype.itemsize
    steps = (*batch_steps, rows * columns, *plan.sizes_and_strides[3:], columns, 1)
    return [
        UfuncCall(
            np.matmul,
            loop,
            (InputOperand(a), InputOperand(b), OutputOperand(y)),
            (count, rows, depth, columns),
            tuple([step * size for step in steps]),
        )
    ]


C_ADD_MATMUL: Final = check_c_function("add_matmul_float32")
"""The name of the C function that adds a matrix product of float32 to an array."""
MATMUL_BLOCK_DEPTH: Final = 192
"""The maximum depth of a product whose sums C adds in one pass, as in csrc/linalg.c."""


@register_lowering(fused.matmul)
def add_matmul(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C call that adds a product to a bias of its shape, which is in the memory of the result.

    The bits are those of a product and a sum.
    """
    a, b, bias, *_ = call.inputs
    (y,) = call.outputs
    if a is None or b is None or bias is None or specs[bias] != specs[y]:
        return None
    shapes = specs[a].shape, specs[b].shape
    turned = bool(call.attrs["transpose_a"]), bool(call.attrs["transpose_b"])
    sizes_and_strides = plan_matmul(*shapes, *turned).sizes_and_strides
    if (
        specs[y].dtype.name != "float32"
        or call.attrs["activation"] != "linear"
        or not len(shapes[0]) == len(shapes[1]) == 2
        or sizes_and_strides[2] > MATMUL_BLOCK_DEPTH
        or not is_multiplied_in_c(specs[y].dtype.numpy, *shapes, *turned)
    ):
        return None
    operands = InputOperand(a), InputOperand(b), OutputOperand(y)
    return [CCall(C_ADD_MATMUL, (*operands, *sizes_and_strides))]


# --- reductions and normalizations -----------------------------------------------------------------


def _make_reduction_rule(
    c_name: str, dtypes: tuple[str, ...], axes_attribute: str = "axis"
) -> Rule:
    """Return the rule of a reduction over the axes in its attribute `axes_attribute`."""
    functions = {dtype: check_c_function(f"{c_name}_{dtype}") for dtype in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of a reduction, or None if C does not support it."""
        (x,), (y,) = get_inputs(call), call.outputs
        function = functions.get(specs[x].dtype.name)
        plan = find_reduction_layout(
            specs[x].shape, call.attrs[axes_attribute], call.attrs["keep_dims"]
        )
        if function is None or plan is None:
            return None
        return [CCall(function, (InputOperand(x), OutputOperand(y), *plan[1:]))]

    return rule


LOWERING_RULES[reduction.sum] = _make_reduction_rule("sum", (*FLOAT_DTYPES, *INTEGER_DTYPES))
LOWERING_RULES[reduction.prod] = _make_reduction_rule("prod", (*FLOAT_DTYPES, *INTEGER_DTYPES))
LOWERING_RULES[reduction.mean] = _make_reduction_rule("mean", FLOAT_DTYPES)
LOWERING_RULES[reduction.variance] = _make_reduction_rule("variance", FLOAT_DTYPES)
LOWERING_RULES[reduction.euclidean_norm] = _make_reduction_rule("norm", FLOAT_DTYPES)
LOWERING_RULES[reduction.min] = _make_reduction_rule("min", (*FLOAT_DTYPES, *INTEGER_DTYPES))
LOWERING_RULES[reduction.max] = _make_reduction_rule(
    "max", (*FLOAT_DTYPES, *INTEGER_DTYPES), "reduction_indices"
)


def _make_bool_reduction_rule(c_name: str) -> Rule:
    """Return the rule of a reduction of bools by a C function for uint8, because bools are stored as 0 and 1."""
    function = check_c_function(f"{c_name}_uint8")

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of a reduction of bools, or None if C does not support it."""
        (x,), (y,) = get_inputs(call), call.outputs
        plan = find_reduction_layout(specs[x].shape, call.attrs["axis"], call.attrs["keep_dims"])
        return plan and [CCall(function, (InputOperand(x), OutputOperand(y), *plan[1:]))]

    return rule


LOWERING_RULES[reduction.all] = _make_bool_reduction_rule("min")
LOWERING_RULES[reduction.any] = _make_bool_reduction_rule("max")


def _make_normalization_rule(c_name: str, axis_attribute: str) -> Rule:
    """Return the rule of a normalization along the axis in its attribute `axis_attribute`."""
    functions = {dtype: check_c_function(f"{c_name}_{dtype}") for dtype in FLOAT_DTYPES}
    columns = check_c_function(f"{c_name}_columns_float32")

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of a normalization, or None if C does not support it."""
        (x,), (y,) = get_inputs(call), call.outputs
        dtype = specs[x].dtype.name
        outer, length, inner = find_sizes_around_axis(specs[x].shape, call.attrs[axis_attribute])
        if dtype not in functions:
            return None
        if inner == 1:
            return [CCall(functions[dtype], (InputOperand(x), OutputOperand(y), outer, length))]
        if dtype == "float32" and inner >= FLOAT32_LANES:
            return [CCall(columns, (InputOperand(x), OutputOperand(y), outer, length, inner))]
        return None

    return rule


LOWERING_RULES[normalization.softmax] = _make_normalization_rule("softmax", "dim")
LOWERING_RULES[normalization.log_softmax] = _make_normalization_rule("log_softmax", "axis")


# --- optimizers ---------------------------------------------------------------------------------


def _make_optimizer_rule(kernel: Kernel[..., Any], c_name: str) -> Rule:
    """Return the rule of an optimizer step, which one C function computes for all variables."""
    functions = {dtype: check_c_function(f"{c_name}_{dtype}") for dtype in FLOAT_DTYPES}
    lists = optimizers.LIST_COUNT_OF_KERNEL[kernel]

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of an optimizer step."""
        coefficients, *tensors = get_inputs(call)
        count = len(tensors) // lists
        sizes = np.array([count_elements(specs[v].shape) for v in tensors[:count]], np.int32)
        inputs, outputs = tuple(map(InputOperand, tensors)), tuple(map(OutputOperand, call.outputs))
        given = InputOperand(coefficients), ConstantOperand(sizes), inputs, outputs, count, 0, 1
        return [CCall(functions[specs[coefficients].dtype.name], given)]

    return rule


for _name in OPTIMIZER_NAMES:
    LOWERING_RULES[vars(optimizers)[_name]] = _make_optimizer_rule(vars(optimizers)[_name], _name)
