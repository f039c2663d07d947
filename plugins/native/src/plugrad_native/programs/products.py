"""Products of transposed matrices: BLAS transposes them, in a program as in untraced calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plugrad.extend import Call, Shaped, remove_dead_steps
from plugrad.kernels import linalg, movement

if TYPE_CHECKING:
    from plugrad.extend import Graph, Step, Value


def match_factor_layouts(graph: Graph) -> Graph:
    """Return the graph with products that read their factors in the memory layout of an untraced run.

    There, a transposition is a view. If it exchanges rows and columns, BLAS gets the matrix as it was and is told to
    transpose it, and may add in another order than for a copy. So the copy keeps the columns together, too.
    """
    turner = _TranspositionFolder(graph)
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Call):
            if step.kernel is movement.transpose:
                turner.makers[step.outputs[0]] = step
            elif step.kernel is linalg.matmul:
                step = turner.fold_transpositions(step, steps)
        steps.append(step)
    if not turner.added:
        return graph
    turned = remove_dead_steps(replace(graph, steps=tuple(steps), specs=turner.specs))
    return replace(turned, variables=graph.variables)  # also those that no step reads


class _TranspositionFolder:
    """Folds transpositions before a product into its flags ``transpose_a`` and ``transpose_b``."""

    def __init__(self, graph: Graph) -> None:
        self.specs = dict(graph.specs)
        self.makers: dict[Value, Call] = {}
        """The transpositions."""
        self.added: dict[Value, Value] = {}
        """By the output of a transposition that exchanged rows and columns: the same matrices without that exchange."""

    def fold_transpositions(self, step: Call, steps: list[Step]) -> Call:
        """Return a product that reads its factors before their transpositions.

        Steps that this needs, for axes other than rows and columns, are appended to ``steps``.
        """
        inputs, attrs = list(step.inputs), dict(step.attrs)
        for place, name in enumerate(("transpose_a", "transpose_b")):
            x = inputs[place]
            maker = None if x is None else self.makers.get(x)
            if maker is None:
                continue
            *others, rows, columns = maker.attrs["perm"]
            if rows == len(others) + 1:  # what lay together were columns
                inputs[place] = self._undo_axis_exchange(maker, (*others, columns, rows), steps)
                attrs[name] = not attrs[name]
        is_same = attrs == step.attrs
        return step if is_same else replace(step, inputs=tuple(inputs), attrs=attrs)

    def _undo_axis_exchange(self, maker: Call, perm: tuple[int, ...], steps: list[Step]) -> Value:
        """Return a value without the exchange of the last two axes, transposed in its other axes if necessary."""
        (source,), (output,) = maker.inputs, maker.outputs
        assert source is not None
        known = self.added.get(output)
        if known is not None:
            return known
        if perm == tuple(range(len(perm))):
            value = source
        else:
            value = type(source)(max(self.specs) + 1)
            shape, dtype = self.specs[source]
            self.specs[value] = Shaped(tuple([shape[axis] for axis in perm]), dtype)
            steps.append(replace(maker, outputs=(value,), attrs={"perm": perm}))
        self.added[output] = value
        return value
