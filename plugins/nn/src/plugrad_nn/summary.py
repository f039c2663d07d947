"""A table of a model: its layers, the shapes of their results, and the sizes of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.layer import Child, Layer
from plugrad_nn.parameters import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_nn.parameters import Params

MAX_COLUMN_WIDTH = 60
"""The number of characters after which the description of a layer is cut."""


def summary(model: Layer, params: Params, shape: Any) -> str:
    """The layers of a model as a text table with output shapes and numbers of parameters.

    >>> model = nn.Sequential(nn.Dense(8, plugrad.relu), nn.BatchNorm(), nn.Dense(2))
    >>> print(nn.summary(model, model.init(0, (3,)), (3,)))
    name        layer                      result  parameters
    dense       Dense(8, activation=relu)  (8,)            32
    batch_norm  BatchNorm()                (8,)            32
    dense_1     Dense(2)                   (2,)            18
    <BLANKLINE>
    82 parameters, 66 of them trainable, 328 bytes

    ``plugrad.plot_graph(lambda x: model(params, x))(plugrad.ones((1, 3)))`` draws a picture.

    Args:
        model: a layer.
        params: its parameters, as `init` returns them.
        shape: the shape of one input, without the axis of the batch; for a `plugrad_nn.Graph`, a dict of shapes.

    Raises:
        ArgumentError: the model is no layer, or the parameters are not its own.
    """
    if not isinstance(model, Layer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"summary: model={model!r:.80} must be a layer")
    whole = Child("", model, params, shape, model.output_shape(params, shape))
    rows = [("name", "layer", "result", "parameters"), *_iter_summary_rows(whole)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {layer:<{widths[1]}}  {result:<{widths[2]}}  {count:>{widths[3]}}"
        for name, layer, result, count in rows
    ]
    variables = leaves(params)
    total = sum(v.size for v in variables)
    trainable = sum(v.size for v in variables if getattr(v, "trainable", True))
    size = sum(v.size * plugrad.as_dtype(v.dtype).itemsize for v in variables)
    return "\n".join(
        [*lines, "", f"{total:,} parameters, {trainable:,} of them trainable, {size:,} bytes"]
    )


def _iter_summary_rows(child: Child) -> Iterator[tuple[str, ...]]:
    """Yield a line for a layer, or one for each layer inside it."""
    parts = child.step.children(child.params, child.shape) if isinstance(child.step, Layer) else []
    for part in parts:
        yield from _iter_summary_rows(part._replace(name=f"{child.name}.{part.name}".lstrip(".")))
    if not parts:
        yield _summary_row(child)


def _summary_row(child: Child) -> tuple[str, ...]:
    step = child.step
    shown = step if isinstance(step, str) else getattr(step, "__name__", None) or repr(step)
    shown = shown if len(shown) <= MAX_COLUMN_WIDTH else f"{shown[: MAX_COLUMN_WIDTH - 1]}…"
    count = sum(v.size for v in leaves(child.params))
    return child.name or type(step).__name__, shown, str(child.result), f"{count:,}"
