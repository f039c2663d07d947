"""Slices that elementwise groups read where they are, with strides, so that nobody copies them.

A slice is a view for untraced calls, and no program takes an array with gaps. A group that slices the whole array
itself takes no other arrays, and several groups that slice each other's results are one program.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Call, Fused, Kernel, count_elements, remove_dead_steps
from plugrad.kernels import binary, bitwise, movement, unary
from plugrad_native.declare import MAX_ELEMENTS
from plugrad_native.programs.calls import CCall, StridedView, get_inputs
from plugrad_native.programs.elementwise import lower_elementwise
from plugrad_native.programs.groups import can_join_loop
from plugrad_native.programs.lowering import C_EXPAND, SLICE_MAKERS, VIEW_KERNELS, make_dummy_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from numpy.typing import NDArray

    from plugrad.extend import Graph, Shape, Shaped, Step, Value

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""

UFUNC_KERNELS_FOR_ANY_LAYOUT: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {
        *(unary.abs, unary.negative, unary.square, unary.sqrt, unary.sign, unary.sign_bit),
        *(unary.ceil, unary.floor, unary.round, unary.trunc, unary.logical_not),
        *(unary.is_finite, unary.is_inf, unary.is_nan),
        *(binary.add, binary.subtract, binary.multiply, binary.divide),
        *(binary.maximum, binary.minimum, binary.equal, binary.not_equal, binary.greater),
        *(binary.greater_equal, binary.less, binary.less_equal),
        *(binary.logical_and, binary.logical_or, binary.logical_xor),
        *[k for k in vars(bitwise).values() if isinstance(k, Kernel)],
    }
)
"""The kernels for which NumPy's loops give the same bits with and without gaps between the elements."""


def returns_strided_view(call: Call, specs: Specs) -> bool:
    """Return whether a call, run untraced, returns a non-contiguous view of a contiguous array."""
    if call.kernel in (movement.split, movement.unpack):
        return call.attrs["axis"] != 0
    view_of = SLICE_MAKERS.get(call.kernel)
    if view_of is None:
        return call.kernel is movement.reverse
    return not view_of(call, make_dummy_array(specs[get_inputs(call)[0]])).flags.c_contiguous


def find_noncontiguous_views(graph: Graph) -> frozenset[Value]:
    """Return the values that are non-contiguous views, which programs do not accept."""
    found: set[Value] = set()
    for step in graph.steps:
        if isinstance(step, Call) and (
            (step.kernel in VIEW_KERNELS and not found.isdisjoint(step.inputs))
            or returns_strided_view(step, graph.specs)
        ):
            found.update(step.outputs)
    return frozenset(found)


def find_elementwise_shape(body: Graph) -> Shape | None:
    """Return the shape of the loop of an elementwise group, or None for other groups."""
    views = find_group_views(body)
    loop = [step for step in body.steps if step.outputs[0] not in views]
    shapes = {body.specs[v].shape for step in loop for v in step.outputs}
    is_one_loop = len(shapes) == 1 and all(can_join_loop(step, body.specs) for step in loop)
    return shapes.pop() if is_one_loop else None


def find_group_views(body: Graph) -> dict[Value, StridedView]:
    """Return the slices that a group takes of arrays from outside, by value."""
    makers = _find_view_makers(body.steps)
    if all(step.kernel in VIEW_KERNELS for step in makers.values()):
        return {}  # a group over rows may give rows another shape
    found = {value: _describe_view(value, makers, body.specs) for value in makers}
    given = {*body.arguments, *body.constants}
    return {v: view for v, view in found.items() if view is not None and view.base in given}


def absorb_slices(
    graph: Graph, values_with_gaps: Set[Value], has_own_kernel: Callable[[Call], bool]
) -> Graph:
    """Return the graph with elementwise groups that slice the arrays that they read, where the bits stay the same.

    `values_with_gaps` are the values that no program takes. `has_own_kernel` says whether the pack or the backend
    implements the kernel of a call.
    """
    own = [step for step in graph.steps if isinstance(step, Call) and has_own_kernel(step)]
    makers = _find_view_makers([call for step in own for call in _as_slices(step, graph.specs)])
    if all(step.kernel in VIEW_KERNELS for step in makers.values()):
        return graph
    steps: list[Step] = []
    for step in graph.steps:
        is_loop = isinstance(step, Fused) and find_elementwise_shape(step.body) is not None
        steps.append(_absorb(step, graph, makers, values_with_gaps) if is_loop else step)
    if all(new is old for new, old in zip(steps, graph.steps, strict=True)):
        return graph
    # What calls the program gives it all variables, also those that no step reads.
    return replace(remove_dead_steps(replace(graph, steps=tuple(steps))), variables=graph.variables)


def _absorb(
    step: Step, graph: Graph, makers: Mapping[Value, Call], values_with_gaps: Set[Value]
) -> Step:
    """Return a fused step whose body makes the slices that it reads, as far as they can be made there."""
    assert isinstance(step, Fused)
    body = step.body
    calls: dict[Value, Call] = {}
    bases: dict[Value, None] = {}
    for value in body.arguments:
        chain = _find_chain(value, makers)
        is_sliced = any(call.kernel in SLICE_MAKERS for call in chain)
        view = _describe_view(value, makers, graph.specs) if is_sliced else None
        if view is None or view.base in values_with_gaps or not _can_read_view(value, view, body):
            bases[value] = None
            continue
        bases[view.base] = None
        calls |= {call.outputs[0]: call for call in chain}
    if not calls:
        return step
    constants = {v: graph.constants[v] for v in bases if v in graph.constants}
    made = replace(
        body,
        arguments=tuple([v for v in bases if v not in constants]),
        steps=(*calls.values(), *body.steps),
        constants={**body.constants, **constants},
    )
    return replace(step, body=made)


def _can_read_view(value: Value, view: StridedView, body: Graph) -> bool:
    """Return whether a loop can read a view instead of a value, with the bits of untraced calls."""
    dtype = body.specs[value].dtype
    if dtype.itemsize not in C_EXPAND or dtype.name == "string":
        return False
    sizes = [abs(n) for n, size in zip(view.strides, view.shape, strict=True) if size > 1]
    if sizes != sorted(sizes, reverse=True):  # untraced, results would lie in this order, too
        return False
    for call in body.steps:
        if value not in call.inputs:
            continue
        assert isinstance(call, Call)
        made = lower_elementwise(call, body.specs)
        if made is None or not (
            call.kernel in UFUNC_KERNELS_FOR_ANY_LAYOUT
            or all(isinstance(each, CCall) for each in made)
        ):
            return False
    return True


def _find_view_makers(steps: Sequence[Step]) -> dict[Value, Call]:
    """Return the calls that make views of their only input, by result."""
    return {
        step.outputs[0]: step
        for step in steps
        if isinstance(step, Call) and (step.kernel in SLICE_MAKERS or step.kernel in VIEW_KERNELS)
    }


def _as_slices(call: Call, specs: Specs) -> list[Call]:
    """Return a call that takes an array apart as a slice for each result, and other calls as they are."""
    if call.kernel not in (movement.split, movement.unpack):
        return [call]
    (x,), axis, start = get_inputs(call), int(call.attrs["axis"]), 0
    shape, drop = specs[x].shape, () if call.kernel is movement.split else (axis,)
    slices: list[Call] = []
    for value in call.outputs:
        size = 1 if drop else specs[value].shape[axis]
        begin = (*(0,) * axis, start, *(0,) * (len(shape) - axis - 1))
        attrs = {"begin": begin, "size": (*shape[:axis], size, *shape[axis + 1 :]), "drop": drop}
        slices.append(Call(movement.slice, (x,), attrs, (value,), False, call.line))
        start += size
    return slices


def _find_chain(value: Value, makers: Mapping[Value, Call]) -> list[Call]:
    """Return the calls that make a view, beginning with the one that reads the array."""
    chain: list[Call] = []
    while value in makers:
        chain.append(makers[value])
        (value,) = get_inputs(makers[value])
    return chain[::-1]


def _describe_view(value: Value, makers: Mapping[Value, Call], specs: Specs) -> StridedView | None:
    """Return where the elements of a view lie in the array that is no view itself; None if they are copied."""
    chain = _find_chain(value, makers)
    (source,) = get_inputs(chain[0])
    if not 0 < count_elements(specs[source].shape) < MAX_ELEMENTS:
        return None
    base = make_dummy_array(specs[source])
    view, begin = base, _get_address(base)
    for call in chain:
        make = SLICE_MAKERS.get(call.kernel)
        view = (view if make is None else make(call, view)).reshape(specs[call.outputs[0]].shape)
    offset = _get_address(view) - begin
    if not (view.size and 0 <= offset < base.nbytes):  # else a reshape has made a copy
        return None
    strides = tuple([n // base.itemsize for n in view.strides])
    return StridedView(source, offset, view.shape, strides, view.flags.c_contiguous)


def _get_address(x: NDArray[Any]) -> int:
    """Return the address of the first element of an array."""
    return x.__array_interface__["data"][0]
