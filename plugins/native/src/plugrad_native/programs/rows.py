"""Groups of calls that are independent along the first axis, so that one loop over that axis makes all calls.

Such are elementwise calls, and reductions and normalizations along other axes. What only the group reads, such as the
differences of all pairs of points before they are summed, is never made as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad.kernels import indexing, movement, normalization, reduction
from plugrad_native.programs.calls import AnyCall, CCall, CountOperand, get_inputs
from plugrad_native.programs.groups import can_join_loop
from plugrad_native.programs.lowering import C_EXPAND, VIEW_KERNELS, lower_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.extend import Call, Shaped, Value

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""

ROW_REDUCTION_KERNELS: Final = frozenset(
    {
        *(reduction.sum, reduction.mean, reduction.variance, reduction.euclidean_norm),
        *(reduction.prod, reduction.max, reduction.min),
    }
)
"""The reductions that can run row by row, if they keep the first axis."""
ROW_VIEW_KERNELS: Final = VIEW_KERNELS | {movement.broadcast_to}
"""The kernels that give rows another shape, or repeat their elements."""
ROW_NORMALIZATION_KERNELS: Final = frozenset({normalization.softmax, normalization.log_softmax})
"""The normalizations that can run row by row."""
ROW_LOOKUP_KERNELS: Final = frozenset({indexing.gather, indexing.gather_gradient})
"""The lookups that can run row by row."""
MAX_ROW_BYTES: Final = 1 << 15
"""The maximum bytes of a row of one array for which rows stay in the cache."""


class RowStep(NamedTuple):
    """A step of a loop over rows: C calls that compute a value, or a view of one."""

    value: Value
    """The value that the step computes."""
    calls: Sequence[AnyCall]
    """The C calls, in order; none for a view."""
    view_of: Value | None = None
    """The value that this value is a view of, or None."""
    is_repeated: bool = False
    """Whether the view repeats elements of rows, instead of giving them another shape."""


def lower_rows(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a reduction, normalization or lookup for some rows, or None if rows depend on others.

    Where an untraced call has the number of all rows, they have a `CountOperand`.
    """
    if call.kernel in ROW_LOOKUP_KERNELS:
        return _lower_row_lookups(call, specs)
    if call.kernel not in ROW_REDUCTION_KERNELS and call.kernel not in ROW_NORMALIZATION_KERNELS:
        return None
    x, y = specs[get_inputs(call)[0]], specs[call.outputs[0]]
    if not x.shape or x.shape[:1] != y.shape[:1] or x.shape[0] < 2:
        return None
    if call.kernel in ROW_REDUCTION_KERNELS:
        axes = call.attrs["axis" if "axis" in call.attrs else "reduction_indices"]
        if 0 in axes:
            return None
    made = lower_call(call, specs)
    if made is None or len(made) != 1 or not isinstance(made[0], CCall):
        return None
    first, second, outer, *others = made[0].operands
    if not isinstance(outer, int) or outer % x.shape[0]:
        return None
    return [CCall(made[0].function, (first, second, CountOperand(outer // x.shape[0]), *others))]


def _lower_row_lookups(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of lookups by rows, or None if rows are not independent."""
    rows = specs[call.outputs[0]].shape[:1]
    made = lower_call(call, specs)
    if made is None or not call.attrs["batch_dims"] or rows[0] < 2:
        return None
    (found,) = made
    assert isinstance(found, CCall)
    x, indices, y, batch, *sizes = found.operands
    assert isinstance(batch, int)
    return [CCall(found.function, (x, indices, y, CountOperand(batch // rows[0]), *sizes))]


def is_row_view(call: Call, specs: Specs) -> bool:
    """Return whether a call only reshapes rows of its input, or broadcasts within them."""
    if call.kernel not in ROW_VIEW_KERNELS:
        return False
    x, y = get_inputs(call)[0], call.outputs[0]
    if specs[y].dtype.itemsize not in C_EXPAND:
        return False
    shape, wanted = specs[x].shape, specs[y].shape
    if specs[y].dtype.name == "string" or not count_elements(wanted):
        return False
    has_rows = len(wanted) > 0 and wanted[0] > 1 and shape[:1] == wanted[:1]
    return has_rows and (call.kernel in VIEW_KERNELS or len(shape) == len(wanted))


def fits_in_row_group(call: Call, group: Sequence[Call], specs: Specs) -> bool:
    """Return whether a call may join a group over rows, each of which depends on one row of the group's results."""
    shape = specs[call.outputs[0]].shape
    calls = (*group, call)
    if all(can_join_loop(each, specs) for each in calls) and all(
        specs[each.outputs[0]].shape == shape for each in group
    ):
        return True
    rows = shape[:1]
    if not rows or rows[0] < 2 or any(specs[c.outputs[0]].shape[:1] != rows for c in group):
        return False
    made = {each.outputs[0] for each in group}
    inner = [specs[v].shape for v in get_inputs(call) if v in made]
    if call.kernel.is_elementwise and any(len(each) != len(shape) for each in inner):
        return False
    made_or_read = [specs[v] for c in calls for v in (*c.inputs, *c.outputs) if v is not None]
    return all(
        count_elements(spec.shape[1:]) * spec.dtype.itemsize <= MAX_ROW_BYTES
        for spec in made_or_read
        if spec.shape[:1] == rows
    )
