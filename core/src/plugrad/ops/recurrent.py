"""Cells of recurrent networks, composed of other ops: one step from an input and a state to the next state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.kernels import binary, movement
from plugrad.ops.activation import sigmoid
from plugrad.ops.arguments import as_supported_dtype, as_tensor, promote_to_one_dtype
from plugrad.ops.attributes import as_list
from plugrad.ops.linalg import matmul
from plugrad.ops.unary import tanh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from plugrad.tensor.tensor import Tensor, TensorLike

    Cell: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """A function of (data, c, h) that returns the next (c, h)."""


def basic_lstm_cell(
    forget_bias: TensorLike,
    lstm_kernel: TensorLike,
    lstm_bias: TensorLike,
    data: TensorLike,
    c: TensorLike,
    h: TensorLike,
) -> tuple[Tensor, Tensor]:
    """The next state (c, h) of a cell with long short-term memory (Hochreiter and Schmidhuber, 1997).

    With ``i, j, f, o = [data, h] @ lstm_kernel + lstm_bias``, split into four along the columns,
    ``c = c * sigmoid(f + forget_bias) + tanh(j) * sigmoid(i)`` and ``h = tanh(c) * sigmoid(o)``.
    The forget gate f is that of Gers et al. (2000).

    >>> kernel, bias = plugrad.zeros((3, 4)), plugrad.zeros((4,))
    >>> c, h = plugrad.basic_lstm_cell(0.0, kernel, bias, [[1.0, 2.0]], [[2.0]], [[0.0]])
    >>> c
    tensor([[1.]], dtype=float32)

    Both results have the shape (batch, units) and the dtype to which the arguments promote.

    Args:
        forget_bias: a number that is added to f; 1 makes the cell keep more of its memory at the
            beginning of a training.
        lstm_kernel: of shape (inputs + units, 4 * units).
        lstm_bias: of shape (4 * units,).
        data: the input, of shape (batch, inputs).
        c: the memory, of shape (batch, units).
        h: the output of the step before, of shape (batch, units).

    Raises:
        DTypeError: an argument holds strings.
        ShapeError: the shapes are not these.
    """
    x, memory, output = promote_to_one_dtype([data, c, h], "basic_lstm_cell")
    if not x.ndim == memory.ndim == 2 or memory.shape != output.shape or len(x) != len(memory):
        raise ShapeError(
            f"basic_lstm_cell: data of shape {x.shape} must be (batch, inputs), and c and h of "
            f"shapes {memory.shape} and {output.shape} both (batch, units)"
        )
    units = memory.shape[1]
    weights = as_supported_dtype(lstm_kernel, binary.divide, "basic_lstm_cell", "lstm_kernel")
    bias = as_supported_dtype(lstm_bias, binary.divide, "basic_lstm_cell", "lstm_bias")
    wanted = (x.shape[1] + units, 4 * units)
    if weights.shape != wanted or bias.shape != wanted[1:]:
        raise ShapeError(
            f"basic_lstm_cell: lstm_kernel and lstm_bias have shapes {weights.shape} and "
            f"{bias.shape}; for {x.shape[1]} inputs and {units} units these must be {wanted} and "
            f"{wanted[1:]}"
        )
    gates = matmul(movement.concat(x, output, axis=1), weights) + bias
    i, j, f, o = movement.split(gates, num_or_size_splits=(units,) * 4, axis=1)
    memory = memory * sigmoid(f + forget_bias) + sigmoid(i) * tanh(j)
    return memory, tanh(memory) * sigmoid(o)


def multi_rnn_cell(
    lstm_cells: Sequence[Cell],
    data: TensorLike,
    c: Sequence[TensorLike],
    h: Sequence[TensorLike],
) -> tuple[list[Tensor], list[Tensor]]:
    """The next states (c, h) of stacked cells: the output of each cell is the input of the next one.

    >>> def cell(data, c, h):
    ...     return c + data, h + 2 * data
    >>> memories, outputs = plugrad.multi_rnn_cell([cell, cell], 1.0, [10.0, 20.0], [0.0, 0.0])
    >>> memories
    [tensor(11., dtype=float32), tensor(22., dtype=float32)]
    >>> outputs
    [tensor(2., dtype=float32), tensor(4., dtype=float32)]

    Each state has the shape and dtype that its cell returns.

    Args:
        lstm_cells: functions of (data, c, h) that return the next (c, h), such as `basic_lstm_cell`
            with its weights.
        data: the input of the first cell.
        c: the memory of each cell.
        h: the last output of each cell.

    Raises:
        ArgumentError: a cell is not a function, or `lstm_cells`, `c` or `h` is not a sequence.
        ArgumentValueError: there are not as many states as cells.
    """
    cells: list[Cell] = as_list(lstm_cells, "multi_rnn_cell", "lstm_cells")
    old_memories = as_list(c, "multi_rnn_cell", "c")
    old_outputs = as_list(h, "multi_rnn_cell", "h")
    if not len(cells) == len(old_memories) == len(old_outputs):
        raise ArgumentValueError(
            f"multi_rnn_cell: {len(cells)} cells need as many states; there are {len(old_memories)} "
            f"in c and {len(old_outputs)} in h"
        )
    if not all(map(callable, cells)):
        raise ArgumentError(
            f"multi_rnn_cell: lstm_cells={short_repr(cells)} must be functions of (data, c, h)"
        )
    x = as_tensor(data, "multi_rnn_cell", "data")
    memories: list[Tensor] = []
    outputs: list[Tensor] = []
    for i, (cell, memory, output) in enumerate(zip(cells, old_memories, old_outputs, strict=True)):
        state: Any = cell(
            x,
            as_tensor(memory, "multi_rnn_cell", f"c[{i}]", backend=x.backend),
            as_tensor(output, "multi_rnn_cell", f"h[{i}]", backend=x.backend),
        )
        if not isinstance(state, tuple | list) or len(state) != 2:
            raise ArgumentError(
                f"multi_rnn_cell: lstm_cells[{i}] must return a pair (c, h), not {short_repr(state)}"
            )
        memories.append(as_tensor(state[0], "multi_rnn_cell", f"c of lstm_cells[{i}]"))
        x = as_tensor(state[1], "multi_rnn_cell", f"h of lstm_cells[{i}]")
        outputs.append(x)
    return memories, outputs
