"""Groups of calls that are independent along the first axis, so that one loop over it makes all of them.

Such are elementwise calls, and reductions and normalizations along other axes. What only the group reads, such as the
differences of all pairs of points before they are summed, is never made as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import count_elements
from plugrad.kernels import movement, normalization, reduction
from plugrad_native.programs.calls import AnyCall, CCall, Count, inputs_of
from plugrad_native.programs.groups import is_in_loop
from plugrad_native.programs.lowering import EXPAND, VIEWS, calls_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.extend import Call, Shaped, Value

    Specs = Mapping[Value, Shaped]

REDUCTIONS: Final = frozenset(
    {
        *(reduction.sum, reduction.mean, reduction.variance, reduction.euclidean_norm),
        *(reduction.prod, reduction.max, reduction.min),
    }
)
ROW_VIEWS: Final = VIEWS | {movement.broadcast_to}
NORMALIZATIONS: Final = frozenset({normalization.softmax, normalization.log_softmax})
MAX_ROW_BYTES: Final = 1 << 15
"""The bytes of a row of one array up to which rows stay in the cache."""


def row_calls(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute a reduction or normalization by rows, or None if rows are not independent.

    Where an untraced call has the number of all rows, they have a `Count`.
    """
    if call.kernel not in REDUCTIONS and call.kernel not in NORMALIZATIONS:
        return None
    x, y = specs[inputs_of(call)[0]], specs[call.outputs[0]]
    if not x.shape or x.shape[:1] != y.shape[:1] or x.shape[0] < 2:
        return None
    if call.kernel in REDUCTIONS:
        axes = call.attrs["axis" if "axis" in call.attrs else "reduction_indices"]
        if 0 in axes:
            return None
    made = calls_of(call, specs)
    if made is None or len(made) != 1 or not isinstance(made[0], CCall):
        return None
    first, second, outer, *others = made[0].operands
    if not isinstance(outer, int) or outer % x.shape[0]:
        return None
    return [CCall(made[0].function, (first, second, Count(outer // x.shape[0]), *others))]


def is_view(call: Call, specs: Specs) -> bool:
    """Return whether a call only reshapes rows of its input, or broadcasts within them."""
    if call.kernel not in ROW_VIEWS:
        return False
    x, y = inputs_of(call)[0], call.outputs[0]
    if specs[y].dtype.itemsize not in EXPAND:
        return False
    shape, wanted = specs[x].shape, specs[y].shape
    if specs[y].dtype.name == "string" or not count_elements(wanted):
        return False
    has_rows = len(wanted) > 0 and wanted[0] > 1 and shape[:1] == wanted[:1]
    return has_rows and (call.kernel in VIEWS or len(shape) == len(wanted))


def fits(call: Call, group: Sequence[Call], specs: Specs) -> bool:
    """Return whether a call may join a group: it has as many rows, which need the same rows of what the group makes."""
    shape = specs[call.outputs[0]].shape
    calls = (*group, call)
    if all(is_in_loop(each, specs) for each in calls) and all(
        specs[each.outputs[0]].shape == shape for each in group
    ):
        return True
    rows = shape[:1]
    if not rows or rows[0] < 2 or any(specs[c.outputs[0]].shape[:1] != rows for c in group):
        return False
    made = {each.outputs[0] for each in group}
    inner = [specs[v].shape for v in inputs_of(call) if v in made]
    if call.kernel.is_elementwise and any(len(each) != len(shape) for each in inner):
        return False
    made_or_read = [specs[v] for c in calls for v in (*c.inputs, *c.outputs) if v is not None]
    return all(
        count_elements(spec.shape[1:]) * spec.dtype.itemsize <= MAX_ROW_BYTES
        for spec in made_or_read
        if spec.shape[:1] == rows
    )
