"""Products of transposed matrices: BLAS transposes them, in a program as in untraced calls; loops get a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugrad.extend import Call, Scan, Shaped, count_elements, remove_dead_steps
from plugrad.kernels import linalg, movement
from plugrad_native.kernels.linalg import is_multiplied_in_c

if TYPE_CHECKING:
    from plugrad.extend import Graph, Step, Value

TRANSPOSED_ONCE_MAX_ROWS: Final = 64
"""The maximum rows of a product for which C does not copy the second factor, unless it has to transpose it."""
TRANSPOSED_ONCE_MAX_ELEMENTS: Final = 1 << 16
"""The maximum elements of a second factor that one thread transposes before a loop."""


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

    def fold_transpositions(self, product: Call, new_steps: list[Step]) -> Call:
        """Return a product that reads its factors before their transpositions.

        Transpositions of axes other than rows and columns are appended to `new_steps`.
        """
        inputs, attrs = list(product.inputs), dict(product.attrs)
        for place, name in enumerate(("transpose_a", "transpose_b")):
            x = inputs[place]
            maker = None if x is None else self.makers.get(x)
            if maker is None:
                continue
            *others, rows, columns = maker.attrs["perm"]
            if rows == len(others) + 1:  # what lay together were columns
                inputs[place] = self._undo_axis_exchange(maker, (*others, columns, rows), new_steps)
                attrs[name] = not attrs[name]
        is_same = attrs == product.attrs
        return product if is_same else replace(product, inputs=tuple(inputs), attrs=attrs)

    def _undo_axis_exchange(
        self, transposition: Call, perm: tuple[int, ...], new_steps: list[Step]
    ) -> Value:
        """Return the input of a transposition, or a new transposition of it if `perm` moves other axes, too."""
        (source,), (output,) = transposition.inputs, transposition.outputs
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
            new_steps.append(replace(transposition, outputs=(value,), attrs={"perm": perm}))
        self.added[output] = value
        return value


def transpose_before_loops(graph: Graph) -> Graph:
    """Return the graph with factors transposed once before a loop instead of in each iteration.

    The gradient of a recurrent layer has such a product. C adds in the same order for both layouts.
    """
    specs = dict(graph.specs)
    steps: list[Step] = []
    for step in graph.steps:
        steps += _transpose_captured_factors(step, specs) if isinstance(step, Scan) else [step]
    return (
        graph if len(steps) == len(graph.steps) else replace(graph, steps=tuple(steps), specs=specs)
    )


def _transpose_captured_factors(scan: Scan, specs: dict[Value, Shaped]) -> list[Step]:
    """Return a loop and the transpositions before it; shapes and dtypes of their results are added to `specs`."""
    body = scan.body
    captured = body.arguments[-len(scan.captured) :] if scan.captured else ()
    sources = dict(zip(captured, scan.captured, strict=True))
    inner = dict(body.specs)
    turned: dict[Value, Value] = {}
    before: list[Step] = []
    steps: list[Step] = []
    for step in body.steps:
        if isinstance(step, Call) and step.kernel is linalg.matmul:
            a, b = step.inputs
            if b in sources and _is_transposed_by_c(step, inner):
                if b not in turned:
                    value = turned[b] = max(inner) + 1
                    outer = max(specs) + 1
                    inner[value] = specs[outer] = Shaped(inner[b].shape[::-1], inner[b].dtype)
                    before.append(
                        replace(
                            step,
                            kernel=movement.transpose,
                            inputs=(sources[b],),
                            attrs={"perm": (1, 0)},
                            outputs=(outer,),
                        )
                    )
                attrs = {**step.attrs, "transpose_b": False}
                step = replace(step, inputs=(a, turned[b]), attrs=attrs)
        steps.append(step)
    if not before:
        return [scan]
    body = replace(
        body, specs=inner, arguments=(*body.arguments, *turned.values()), steps=tuple(steps)
    )
    made = tuple([step.outputs[0] for step in before])
    return [*before, replace(scan, body=body, captured=(*scan.captured, *made))]


def _is_transposed_by_c(product: Call, specs: dict[Value, Shaped]) -> bool:
    """Return whether C multiplies few rows by a matrix that it has to transpose."""
    a, b = product.inputs
    assert a is not None
    assert b is not None
    turned = bool(product.attrs["transpose_a"]), bool(product.attrs["transpose_b"])
    rows, columns = specs[a].shape, specs[b].shape
    return (
        turned[1]
        and specs[b].dtype.name == "float32"
        and len(rows) == len(columns) == 2
        and rows[int(turned[0])] <= TRANSPOSED_ONCE_MAX_ROWS
        and count_elements(columns) <= TRANSPOSED_ONCE_MAX_ELEMENTS
        and is_multiplied_in_c(specs[b].dtype.numpy, rows, columns, *turned)
    )
