"""Programs that are compared with the function they were traced from, at each call: the setting `debug`.

They have the same bits, but where the gradient of a loop adds up what the rounds give: the tape and the backward loop
may do it in another order.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import TracingError
from plugrad.graph.graph import Scan
from plugrad.tensor.backend import read_array
from plugrad.tensor.context import active_scope, set_scope
from plugrad.tensor.effects import HostLog, active_host_log
from plugrad.tensor.tensor import Tensor, host_values
from plugrad.tracing.carries import describe_structure
from plugrad.tracing.program import Program, get_variable_array
from plugrad.tracing.structure import flatten_argument
from plugrad.transforms.variable import get_array, set_array, watched_variables
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE, comparable_bits
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from plugrad.graph.graph import Graph
    from plugrad.transforms.variable import Variable


REORDERED_SUM_TOLERANCES: Final = {**RELATIVE_TOLERANCE_OF_DTYPE, "bfloat16": 3e-2}
"""The largest difference that another order of summation may cause, relative to the largest element, by dtype."""


class HostValueRecorder(HostLog):
    """Calls host functions in an untraced run, and records their values."""

    __slots__ = ("can_repeat", "values")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.values: list[Any] = []
        self.can_repeat: list[bool] = []
        """Whether the function has said how to undo what it counted, so that calling it again is the same."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function and record its value for the traced run."""
        undo = (active_host_log.get() or self).undo
        count = len(undo)
        value = function()
        self.values.append(value)
        self.can_repeat.append(len(undo) > count)
        return value


class HostValueReplayer(HostLog):
    """Replays recorded host values in the traced run; functions that are safe to repeat are called again."""

    __slots__ = ("recording", "values")

    def __init__(self, recording: HostValueRecorder) -> None:
        """Begin with the first function of the recording."""
        super().__init__()
        self.recording = recording
        self.values: list[Any] = []

    def call(self, function: Callable[[], Any]) -> Any:
        """Return the recorded value of a function, or call it again."""
        place, recording = len(self.values), self.recording
        is_known = place < len(recording.values) and not recording.can_repeat[place]
        value = recording.values[place] if is_known else function()
        self.values.append(value)
        return value


class CheckedProgram(Program):
    """A program that also runs its function untraced, and compares both results."""

    allows_compiled_entry = False
    """Always False, because each call runs the function untraced as well."""

    @cached_property
    def may_reorder_sums(self) -> bool:
        """Whether the graph has a loop that runs backwards, as gradients of loops do, which sums in another order."""
        return _has_backward_loop(self.graph)

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Run the function and undo what it changed, run the program, and compare.

        Raises:
            TracingError: results, new values of variables, or what was computed on the host differ.
        """
        if isinstance(
            active_host_log.get(), HostValueRecorder
        ):  # an untraced call of another function calls this one
            return self.function([*tensors])
        recording = HostValueRecorder()
        expected, updates = self._run_untraced(tensors, recording)
        repetition = HostValueReplayer(recording)
        token = active_host_log.set(repetition)
        try:
            result = super().__call__(tensors)
        finally:
            active_host_log.reset(token)
        self._compare_host_values(repetition.values, recording.values)
        self._compare_results(result, expected)
        for variable, array in updates.items():
            what = f"the new value of variable {variable.name!r}"
            self._compare(what, host_values(variable), read_array(array, self.backend))
        return result

    def _run_untraced(
        self, tensors: Sequence[Tensor], recording: HostValueRecorder
    ) -> tuple[Any, dict[Variable, Any]]:
        """Return the function's results and its variables' new values, and reset the variables to the old ones."""
        variables = [*dict.fromkeys((*self.variables, *self.updated))]
        before = [*map(get_variable_array, variables)]
        scope, watched = active_scope(), watched_variables.set(None)
        log = active_host_log.set(recording)
        set_scope(None)
        try:
            result = self.function([Tensor(x.array, x.backend) for x in tensors])
            return result, {variable: get_array(variable) for variable in variables}
        finally:
            set_scope(scope)
            active_host_log.reset(log)
            watched_variables.reset(watched)
            deque(map(set_array, variables, before), maxlen=0)
            recording.take_back()

    def _compare_host_values(self, traced: Sequence[Any], untraced: Sequence[Any]) -> None:
        """Raise unless both runs drew the same random numbers and counted the same iterations."""
        if len(traced) != len(untraced):
            raise self._make_difference_error(
                f"computes {len(traced)} values on the host, such as states of generators and coefficients of "
                f"optimizers, and {len(untraced)} untraced"
            )
        for position, (x, y) in enumerate(zip(traced, untraced, strict=True)):
            self._compare(f"value number {position} of the host", np.asarray(x), np.asarray(y))

    def _compare_results(self, traced: Any, untraced: Any) -> None:
        """Raise unless both results have the same structure and values."""
        structures: tuple[list[Any], list[Any]] = [], []
        tensors: tuple[list[Tensor], list[Tensor]] = [], []
        flatten_argument(traced, structures[0], tensors[0])
        flatten_argument(untraced, structures[1], tensors[1])
        if len(tensors[0]) == len(tensors[1]):
            for position, (x, y) in enumerate(zip(*tensors, strict=True)):
                self._compare(f"result number {position}", host_values(x), host_values(y))
        if structures[0] != structures[1]:
            raise self._make_difference_error(
                f"returns {describe_structure(traced)}, and {describe_structure(untraced)} untraced"
            )

    def _compare(
        self, array_description: str, traced: NDArray[Any], untraced: NDArray[Any]
    ) -> None:
        """Raise unless two arrays have the same bits, NaNs apart, or are as near as sums in another order."""
        if traced.shape != untraced.shape or traced.dtype != untraced.dtype:
            raise self._make_difference_error(
                f"gives {array_description} as {traced.dtype}{list(traced.shape)}, and as "
                f"{untraced.dtype}{list(untraced.shape)} untraced"
            )
        if comparable_bits(traced) == comparable_bits(untraced):
            return
        for place in self._find_possible_differences(traced, untraced):
            x, y = traced[place], untraced[place]
            if comparable_bits(np.asarray(x)) != comparable_bits(np.asarray(y)):
                where = (
                    f"element {list(place)} of {array_description}" if place else array_description
                )
                raise self._make_difference_error(f"gives {where} as {x}, and as {y} untraced")

    def _find_possible_differences(
        self, traced: NDArray[Any], untraced: NDArray[Any]
    ) -> Iterable[tuple[int, ...]]:
        """Return positions that include those of all elements that differ too much; others may be equal."""
        part = REORDERED_SUM_TOLERANCES.get(as_dtype(untraced.dtype).name)
        if part is None or not self.may_reorder_sums:
            return np.ndindex(traced.shape)
        wide = np.complex128 if untraced.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            x, y = traced.astype(wide), untraced.astype(wide)
            largest = np.abs(y[np.isfinite(y)]).max(initial=0)
            is_near = np.abs(x - y) <= part * largest
        return [tuple(map(int, place)) for place in np.argwhere(~is_near)]

    def _make_difference_error(self, description: str) -> TracingError:
        """Return the error for a difference between the traced and the untraced run."""
        return TracingError(
            f"jit: {self.name} {description} (the setting debug is on). What Python computes or decides is computed "
            "once, when the function is traced: pass it as an argument, or ask for it through "
            "plugrad.extend.host_value or static_value"
        )


def _has_backward_loop(graph: Graph) -> bool:
    """Return whether a graph or one of its subgraphs has a scan in reverse order."""
    return any(
        (isinstance(step, Scan) and step.is_reversed) or any(map(_has_backward_loop, step.graphs))
        for step in graph.steps
    )
