"""The call of a kernel: from tensors to the arrays of their backend, to the implementation, and back.

`run` is the hot path: every op of every program passes through it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.contract.kernel import Checked, connect
from plugrad.discovery.selection import active_backend
from plugrad.engine.explain import explained, wrong_inputs
from plugrad.engine.transfer import moved
from plugrad.tape.tape import record, record_one, record_pair
from plugrad.tensor.context import surroundings
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tape.nodes import Node
    from plugrad.tensor.backend import Backend

NO_ATTRIBUTES: Final[Mapping[str, Any]] = {}
new: Final = object.__new__


def run(
    kernel: Kernel[..., Any],
    inputs: Sequence[Tensor | None],
    attrs: Mapping[str, Any],
    home: Backend | None = None,
) -> Any:
    """Run `kernel` on the backend of its inputs; without inputs, on `home` or on the active backend.

    Returns:
        One tensor, or a list of them if the kernel has several outputs.

    Raises:
        KernelNotFound: the backend does not implement the kernel.
        BackendMismatch: the inputs live on different backends.
        ShapeError, DTypeError, ArgumentError: the inputs or the attributes break the contract.
        DisposedTensor: an input has been disposed.
    """
    around = surroundings()
    if around is not None and around.transfer is not None:
        inputs = [x if x is None else moved(x, around.transfer) for x in inputs]
    if len(inputs) == 1 >= kernel.input_count and isinstance(x := inputs[0], Tensor):
        # most calls; `unwrapped` takes as long as a small kernel
        arrays: Sequence[Any] = (x.array,)
        backend = x.backend
        node = x.node
        nodes: Sequence[Node | None] | None = None if node is None else (node,)
    elif (
        len(inputs) == 2 >= kernel.input_count
        and isinstance(a := inputs[0], Tensor)
        and isinstance(b := inputs[1], Tensor)
        and a.backend is b.backend
    ):
        arrays = (a.array, b.array)
        backend = a.backend
        nodes = None if a.node is None and b.node is None else (a.node, b.node)
    elif not inputs and not kernel.inputs:
        backend = home or active_backend()
        # The implementation of a kernel without inputs receives it in their place.
        arrays = (backend,)
        nodes = None
    else:
        backend, arrays, nodes = unwrapped(kernel, inputs)
    if type(attrs) is not Checked:
        if len(attrs) != kernel.attribute_count:
            attrs = kernel.complete(attrs)
        if attrs or not kernel.is_elementwise:
            # raises if they break the contract
            kernel.inferred(arrays if kernel.inputs else (), attrs)
        else:
            check_dtypes(kernel, arrays)
    function = backend.functions[kernel.name]
    try:
        result = function(*arrays, **attrs)
    except Exception as failure:
        raise explained(failure, kernel, backend, arrays, attrs)  # noqa: B904 - its cause is set
    if type(result) is tuple or type(result) is list:
        outputs: Any = [Tensor(array, backend) for array in cast("list[Any]", result)]
    else:
        outputs = new(Tensor)  # as in `run_one`
        outputs.array = result
        outputs.backend = backend
        outputs.node = None
    if nodes is not None:
        record(kernel, nodes, arrays, attrs, outputs)
    if around is not None and around.scope is not None:
        around.scope.note(outputs)
    return outputs


def run_one(
    kernel: Kernel[..., Tensor], x: Tensor, attrs: Mapping[str, Any] = NO_ATTRIBUTES
) -> Tensor:
    """Run a kernel with one result on one tensor: `run` without its cases.

    The caller has checked the contract: the attributes are `Checked`, or there are none, and the kernel is
    elementwise and accepts the dtype of x.
    """
    if surroundings() is not None:
        return run(kernel, (x,), attrs)
    array = x.array
    backend = x.backend
    function = backend.functions[kernel.name]
    try:
        result = function(array, **attrs)
    except Exception as failure:
        raise explained(failure, kernel, backend, (array,), attrs)  # noqa: B904
    output = new(Tensor)  # Tensor(result, backend), without calling __init__
    output.array = result
    output.backend = backend
    output.node = None
    node = x.node
    if node is not None:
        record_one(kernel, node, array, attrs, output)
    return output


def run_new(kernel: Kernel[..., Tensor], attrs: Checked, backend: Backend) -> Tensor:
    """Run a kernel with one result and no inputs on a backend: `run` without its cases."""
    function = backend.functions[kernel.name]
    try:
        result = function(backend, **attrs)
    except Exception as failure:
        raise explained(failure, kernel, backend, (backend,), attrs)  # noqa: B904
    output = new(Tensor)  # as in `run_one`
    output.array = result
    output.backend = backend
    output.node = None
    around = surroundings()
    if around is not None and around.scope is not None:
        around.scope.note(output)
    return output


def run_pair(kernel: Kernel[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """Run a kernel on two tensors of one dtype: `run` without its loops.

    Small programs mostly combine two tensors; D1 in benchmarks/ measures the saving. The caller has
    checked that the kernel is elementwise, has no attributes, and accepts the common dtype of both.
    """
    backend = a.backend
    if b.backend is not backend or surroundings() is not None:
        return run(kernel, (a, b), NO_ATTRIBUTES)
    x = a.array
    y = b.array
    function = backend.functions[kernel.name]
    try:
        result = function(x, y)
    except Exception as failure:
        raise explained(failure, kernel, backend, (x, y), NO_ATTRIBUTES)  # noqa: B904
    output = new(Tensor)  # as in `run_one`
    output.array = result
    output.backend = backend
    output.node = None
    node_a = a.node
    node_b = b.node
    if node_a is not None or node_b is not None:
        record_pair(kernel, (node_a, node_b), (x, y), NO_ATTRIBUTES, output)
    return output


def unwrapped(
    kernel: Kernel[..., Any], inputs: Sequence[Tensor | None]
) -> tuple[Backend, list[Any], list[Node | None] | None]:
    """Return the backend of the inputs, their arrays, and their nodes if one of them is being differentiated.

    An absent input is None in both lists.
    """
    arrays: list[Any] = []
    nodes: list[Node | None] = []
    place: Backend | None = None
    is_recorded = has_gaps = False
    for x in inputs:
        if isinstance(x, Tensor):
            arrays.append(x.array)
            node = x.node
            if node is not None:
                is_recorded = True
            nodes.append(node)
            if x.backend is not place:
                if place is not None:
                    raise wrong_inputs(kernel, inputs)
                place = x.backend
        elif x is None:
            has_gaps = True
            arrays.append(None)
            nodes.append(None)
        else:
            raise wrong_inputs(kernel, inputs)
    if has_gaps or len(arrays) < kernel.input_count:
        _check_gaps(kernel, inputs)
        gaps = [None] * (kernel.input_count - len(arrays))
        arrays += gaps
        nodes += gaps
    if place is None:
        raise wrong_inputs(kernel, inputs)
    return place, arrays, nodes if is_recorded else None


def _check_gaps(kernel: Kernel[..., Any], inputs: Sequence[Tensor | None]) -> None:
    """Raise unless all absent inputs are optional."""
    absent = [i for i, x in enumerate(inputs) if x is None]
    if not _are_optional(kernel, (*absent, *range(len(inputs), kernel.input_count))):
        raise wrong_inputs(kernel, inputs)


@lru_cache(maxsize=1024)
def _are_optional(kernel: Kernel[..., Any], places: tuple[int, ...]) -> bool:
    """Return whether the inputs at some places may be absent."""
    return all(kernel.input_name(i) in kernel.optional_inputs for i in places)


def check_dtypes(kernel: Kernel[..., Any], arrays: Sequence[Any]) -> None:
    """Raise if the inputs of an elementwise kernel without attributes break the contract.

    Only the dtypes are checked, as long as all inputs have the same dtype: the shape rule would take
    as long as a small tensor's arithmetic.
    """
    dtype = arrays[0].dtype
    if dtype in kernel.accepted_spellings:
        for array in arrays:
            if array.dtype is not dtype:
                break
        else:
            return
    kernel.inferred(arrays, {})


connect(run)
