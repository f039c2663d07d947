"""Checks that a traced function leaves behind no tensor without values, and no variable that nothing refers to."""

from __future__ import annotations

import gc
from sys import getrefcount
from typing import TYPE_CHECKING, Final

from plugrad.errors import TracingError
from plugrad.transforms.variable import get_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.graph.graph import Graph
    from plugrad.tracing.backend import GraphTracer, TracedArray


def check_leaks(tracer: GraphTracer, graph: Graph, function_name: str) -> None:
    """Raise if a tensor made during a trace is still reachable after it.

    Raises:
        TracingError: the message names the line that made it.
    """
    tracer.release()
    tracers = [*_iter_tracers(tracer)]
    if any(map(_find_alive_arrays, tracers)):
        gc.collect()
    for maker, array in [(m, array) for m in tracers for array in _find_alive_arrays(m)]:
        line = next((s.line for s in maker.steps if array.value in s.outputs), None)
        made = f"made at {line}" if line else f"argument number {array.value}"
        raise TracingError(
            f"jit: after {function_name} has been traced, its tensor of shape {array.shape}, {made}, is still "
            "reachable, as through a global variable, an attribute or a list; it has no values. Return it from the "
            "function, or keep the value in a plugrad.Variable"
        )
    used = [*graph.variables.values(), *(variable for variable, _ in graph.updates)]
    for made in tracer.made:
        variable = made()
        if variable is None:
            continue
        holders = sum(each is variable for each in used)
        # The list above and the tables of the graph hold it, and so do the name and the argument of getrefcount, which
        # counts in every version of Python, because the name is also one of the expression above.
        if getrefcount(variable) <= 2 * holders + 2:
            raise TracingError(
                f"jit: {function_name} makes a Variable of shape {get_array(variable).shape} that nothing keeps "
                "after the call, so that each call would begin with what the last one left in it; "
                "make it outside the function"
            )


def _iter_tracers(tracer: GraphTracer) -> Iterator[GraphTracer]:
    """Yield a tracer, and those of the loops and branches in it."""
    yield tracer
    for body in tracer.bodies:
        yield from _iter_tracers(body)


def _count_baseline_references() -> int:
    """Return the reference count of a list element inside a loop over the list.

    They are those of the list, of the name, and before Python 3.14 of the argument of getrefcount.
    """
    (count,) = [getrefcount(each) for each in [object()]]
    return count


_BASELINE_REFERENCE_COUNT: Final = _count_baseline_references()


def _find_alive_arrays(tracer: GraphTracer) -> list[TracedArray]:
    """Return the arrays that something other than the tracer refers to."""
    return [
        array for array in tracer.traced_arrays if getrefcount(array) > _BASELINE_REFERENCE_COUNT
    ]
