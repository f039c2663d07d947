"""The graph of a function's kernels and of their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.types.arguments import check_callable, check_path_suffix

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from plugrad.graph.graph import Graph


class GraphPicture:
    """A drawn graph: notebooks show it, `save` writes it to a file, and `svg` is its text."""

    __slots__ = ("kernels", "kernels_of_gradient", "svg")

    def __init__(self, svg: str, kernels: list[str], kernels_of_gradient: list[str]) -> None:
        """Store the picture and the names of its kernels."""
        self.svg = svg
        """The picture: an SVG element without anything that would be loaded from elsewhere."""
        self.kernels = kernels
        """The names of the kernels that ran, in their order, without those of the gradient."""
        self.kernels_of_gradient = kernels_of_gradient
        """The names of the kernels that computed gradients, in their order."""

    def _repr_svg_(self) -> str:
        """Return the picture, for notebooks."""
        return self.svg

    def __repr__(self) -> str:
        return (
            f"<GraphPicture of {len(self.kernels)} kernels, and {len(self.kernels_of_gradient)} of the gradient; "
            ".save('graph.svg') writes the picture>"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to a file whose name ends in ``.svg``.

        Raises:
            ArgumentError: the path is none.
            ArgumentValueError: the name ends in something else.
        """
        with open(
            check_path_suffix((".svg",), path, "save", "path"), "w", encoding="utf-8"
        ) as file:
            file.write(self.svg)


def plot_graph(function: Callable[..., Any] | Graph, /, *args: Any) -> GraphPicture:
    """Return a picture of the kernels that ``function(*args)`` runs, and of those that compute its gradient.

    >>> import plugrad
    >>> def loss(x, w):
    ...     return plugrad.mean(plugrad.square(x @ w))
    >>> graph = plugrad.plot_graph(loss, plugrad.ones((2, 3)), plugrad.ones((3, 1)))
    >>> graph.kernels
    ['BatchMatMul', 'Square', 'Mean']
    >>> graph.kernels_of_gradient[-1]
    'BatchMatMul'

    Notebooks show the picture, and ``graph.save("loss.svg")`` writes it to a file.

    The function runs once, on the backend of its arguments. Each kernel is a box with the dtypes and the
    shapes of its results; inputs, attributes and the device are in its tooltip. Values flow downwards, and
    gradients, which have a colour of their own, upwards beside them. A dashed line is a value that the
    gradient needs.

    The gradient is that of the sum of the result, with respect to the floating-point and complex tensors,
    NumPy arrays and numbers among the arguments and in nested lists, tuples and dicts. If the function
    computes gradients itself, as ``plugrad.grad(f)`` or a step of an optimizer does, those are shown
    instead. Tensors that are neither arguments nor results of kernels are drawn as constants, and variables
    with their names.

    A graph of `plugrad.make_graph` is drawn as it is: what a traced function runs, after it has been simplified.

    >>> traced = plugrad.make_graph(plugrad.jit(loss))(plugrad.ones((2, 3)), plugrad.ones((3, 1)))
    >>> plugrad.plot_graph(traced).kernels
    ['BatchMatMul', 'Square', 'Mean']

    Raises:
        ArgumentError: `function` cannot be called.
        GradientNotFound: a kernel does not have a gradient; for a picture without gradients, give
            ``lambda x: function(plugrad.stop_gradient(x))``.
    """
    # Only pictures need these; `import plugrad` would take longer.
    from plugrad.graph.graph import Graph
    from plugrad.pictures.layout import arrange_graph
    from plugrad.pictures.svg import draw_svg
    from plugrad.pictures.trace import trace_graph
    from plugrad.pictures.traced import nodes_and_edges_of_traced_graph

    if isinstance(function, Graph):
        nodes, edges = nodes_and_edges_of_traced_graph(function)
    else:
        check_callable("plot_graph", function)
        nodes, edges = trace_graph(function, args)
    kernels = [node for node in nodes if node.kind == "kernel"]
    return GraphPicture(
        draw_svg(
            nodes, edges, arrange_graph(nodes, edges), getattr(function, "__name__", "function")
        ),
        [node.title for node in kernels if not node.is_backward],
        [node.title for node in kernels if node.is_backward],
    )
