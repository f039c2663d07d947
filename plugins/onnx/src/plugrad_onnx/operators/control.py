"""Branches and loops, whose bodies are graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_tensor
from plugrad_onnx.operators.common import single_element
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import AnyInputValue, HostArray, SubgraphFunction, TensorList


@operator("If")
def branch(
    condition: HostArray, *, then_branch: SubgraphFunction, else_branch: SubgraphFunction
) -> tuple[Any, ...]:
    """Run one of two subgraphs (If)."""
    return tuple((then_branch if single_element(condition) else else_branch)())


@operator("Loop")
def loop(
    max_trip_count: HostArray | None = None,
    condition: HostArray | None = None,
    *carried: AnyInputValue,
    body: SubgraphFunction,
    output_count: int,
) -> tuple[Any, ...]:
    """Run a subgraph while its condition holds (Loop); return the final carried values and the stacked scan outputs."""
    state = list(carried)
    collected: list[list[Any]] = [[] for _ in range(output_count - len(state))]
    going, turn = condition is None or bool(single_element(condition)), 0
    while going and (max_trip_count is None or turn < single_element(max_trip_count)):
        results = body(np.array(turn, np.int64), np.array(going), *state)
        going, turn = bool(_as_bool(results[0])), turn + 1
        state = results[1 : 1 + len(state)]
        for column, result in zip(collected, results[1 + len(state) :], strict=False):
            column.append(result)
    return *state, *(_stack_iterations(column) for column in collected)


@operator("Scan")
def scan_opset8(
    sequence_lengths: HostArray | None = None,
    *inputs: Tensor,
    body: SubgraphFunction,
    directions: Sequence[int] | None = None,
    num_scan_inputs: int,
) -> tuple[Any, ...]:
    """Run a subgraph over the sequences of each batch (Scan of opset 8)."""
    batches = inputs[0].shape[0]
    results = [
        scan(
            *(x[batch] for x in inputs),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for batch in range(batches)
    ]
    return tuple(plugrad.stack(list(parts)) for parts in zip(*results, strict=True))


@operator("Scan", since=9)
def scan(
    *inputs: Tensor,
    body: SubgraphFunction,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """Run a subgraph over slices of tensors (Scan); return the final state and the stacked scan outputs."""
    count = len(inputs) - num_scan_inputs
    state, scanned = list(inputs[:count]), inputs[count:]
    axes = list(scan_input_axes or [0] * len(scanned))
    backwards = list(scan_input_directions or [0] * len(scanned))
    slices = [
        plugrad.unstack(x, axis=axis)[:: -1 if back else 1]
        for x, axis, back in zip(scanned, axes, backwards, strict=True)
    ]
    rounds: list[list[Any]] = []
    for parts in zip(*slices, strict=True):
        results = body(*state, *parts)
        state = results[:count]
        rounds.append(results[count:])
    columns = [list(column) for column in zip(*rounds, strict=True)]
    out_axes = list(scan_output_axes or [0] * len(columns))
    out_backwards = list(scan_output_directions or [0] * len(columns))
    outputs = [
        plugrad.stack([as_tensor(x) for x in column[:: -1 if back else 1]], axis=axis)
        for column, axis, back in zip(columns, out_axes, out_backwards, strict=True)
    ]
    return *state, *outputs


@operator("SequenceMap")
def sequence_map(
    sequence: AnyInputValue, *additional_inputs: AnyInputValue, body: SubgraphFunction
) -> tuple[Any, ...]:
    """Run a subgraph for each element of sequences (SequenceMap)."""
    rounds = [
        body(*(x[place] if isinstance(x, list) else x for x in (sequence, *additional_inputs)))
        for place in range(len(sequence))
    ]
    return tuple(list(column) for column in zip(*rounds, strict=True))


def _as_bool(value: Any) -> Any:
    """Return the only element of a tensor or an array."""
    return value.item() if isinstance(value, plugrad.Tensor) else single_element(np.asarray(value))


def _stack_iterations(results: TensorList) -> Any:
    """Stack the results of all iterations."""
    if not results:
        return np.zeros((0,), np.float32)
    if all(isinstance(x, np.ndarray) for x in results):
        return np.stack(results)
    return plugrad.stack([as_tensor(x) for x in results])
