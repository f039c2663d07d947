"""Derivatives that consist of several gradients, and gradients that recompute values instead of storing them."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from plugrad.engine.autocast import keep_precision
from plugrad.engine.results import wrap_array
from plugrad.engine.transfer import lift_arguments, make_leaf
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    TracingError,
    short_repr,
)
from plugrad.ops.attributes import as_list, is_sequence
from plugrad.ops.creation import asarray, eye, ones_like, zeros, zeros_like
from plugrad.ops.movement import expand_dims, reshape, stack, unstack
from plugrad.ops.streams import RepeatedRun, keep_positions, repeated_run
from plugrad.tape.nodes import CustomNode, InputGradients, Leaf, Node, Recording
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.closures import bind_closure
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import iter_leaves, map_tree
from plugrad.transforms.batches import BatchTracer
from plugrad.transforms.gradients import (
    check_positions,
    grad,
    parse_argnums,
    vjp,
)
from plugrad.transforms.variable import FirstArrays, Variable, use_arrays, watched_variables
from plugrad.transforms.vmap import map_rows
from plugrad.types.arguments import check_callable, check_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


JacobianMode = Literal["reverse", "forward"]
JACOBIAN_MODES: Final[tuple[JacobianMode, ...]] = get_args(JacobianMode)


def jvp(
    function: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the value of `function` and its directional derivative along `tangents`.

    >>> import plugrad
    >>> plugrad.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.0))
    (tensor(12., dtype=float32), tensor(4., dtype=float32))

    The arguments and the value are tensors, or nested lists, tuples and dicts of tensors. A tangent has
    the structure of its argument, and the derivative has the structure of the value. The gradient is
    linear in dy, so its derivative with respect to dy is the derivative of the function: two backward
    passes make one forward pass (Townsend, 2017).

    Args:
        function: takes tensors and returns floating-point or complex tensors.
        args: the arguments of the function.
        tangents: the direction in which each argument changes.

    Raises:
        ArgumentError: `function` is not callable, or the numbers of tangents and arguments differ.
        DTypeError: an argument or the value is neither floating-point nor complex.
        ShapeError: a tangent does not have the shape of its argument.
        GradientNotFound: a kernel between the value and an argument has no gradient.
    """
    check_callable("jvp", function)
    args, tangents = as_list(args, "jvp", "args"), as_list(tangents, "jvp", "tangents")
    if len(args) != len(tangents):
        raise ArgumentError(
            f"jvp: {len(tangents)} tangents for {len(args)} arguments; give one for each"
        )
    for position, (arg, tangent) in enumerate(zip(args, tangents, strict=True)):
        shapes, theirs = ([asarray(x).shape for x in _as_leaves(tree)] for tree in (arg, tangent))
        if shapes != theirs:
            raise ShapeError(
                f"jvp: the tangent of argument {position} has shapes {theirs}; the argument has {shapes}"
            )
    value, pull = vjp(function, *args)
    _, push = vjp(pull, map_tree(zeros_like, value))
    return value, push(tuple(tangents))[0]


def _as_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree; a list of numbers counts as one leaf, as in `asarray`."""
    return list(iter_leaves(tree))


def jacobian(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    mode: JacobianMode = "reverse",
) -> Callable[..., Any]:
    """Return a function that computes the derivative of each element of the value by each element of an argument.

    >>> import plugrad
    >>> plugrad.jacobian(lambda x: x * x)(plugrad.asarray([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]], dtype=float32)

    For a value of shape s and an argument of shape t, the result has the shape ``(*s, *t)`` and the
    dtype of the argument. Several `argnums` give a tuple. Where the value or an argument is a nested
    list, tuple or dict of tensors, the result has the structure of the value, with the structure of the
    argument at each leaf.

    All rows, or all columns, are computed in one pass, as with `vmap`. What cannot be batched, such as a function
    under `jit`, is computed row by row.

    Args:
        function: returns floating-point or complex tensors.
        argnums: the position of the differentiated argument, or several; see `grad`.
        mode: "reverse" computes rows, which is better if the value has fewer elements than the arguments;
            "forward" computes columns, of real numbers only.

    Raises:
        ArgumentError: `function` is not callable or returns something other than tensors, or `argnums`
            are not positions of different arguments.
        ArgumentValueError: `mode` is another word.
        DTypeError: a differentiated argument or the value is neither floating-point nor complex, or it
            is complex with ``mode="forward"``.
        GradientNotFound: a kernel between the value and a differentiated argument has no gradient.
    """
    return _make_jacobian("jacobian", function, argnums, mode)


def _make_jacobian(
    op: str, function: Callable[..., Any], argnums: int | Sequence[int], mode: JacobianMode
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `function` for the op `jacobian` or `hessian`."""
    check_callable(op, function)
    positions = parse_argnums(argnums, op)
    if check_string(mode, op, "mode") not in JACOBIAN_MODES:
        raise ArgumentValueError(f"{op}: mode={short_repr(mode)} must be 'reverse' or 'forward'")

    @wraps(function)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        def call_with_selected(*selected_arguments: Any) -> Any:
            renamed = list(args)
            for position, x in zip(positions, selected_arguments, strict=True):
                renamed[position] = x
            return function(*renamed, **kwargs)

        check_positions(positions, args, op)
        selected = [args[position] for position in positions]
        value, pull = vjp(call_with_selected, *selected)
        found = (
            _compute_jacobian_rows(value, pull, selected)
            if mode == "reverse"
            else _compute_jacobian_columns(op, value, pull, selected)
        )
        rows = iter(found)

        def derivatives_of_output(output: Tensor) -> Any:
            """Return the derivatives of one output: for each argument, a tree of its structure."""
            parts = iter(next(rows))
            trees = [map_tree(lambda _: next(parts), x) for x in selected]
            return tuple(trees) if is_sequence(argnums) else trees[0]

        return map_tree(derivatives_of_output, value)

    return derivative


def _compute_jacobian_rows(
    value: Any, pull_back: Callable[[Any], tuple[Any, ...]], selected_arguments: Sequence[Any]
) -> list[list[Tensor]]:
    """Return for each output its Jacobian with respect to each selected input, row by row (reverse mode)."""
    outputs: list[Tensor] = list(iter_leaves(value))
    inputs = [asarray(x) for x in iter_leaves(selected_arguments)]

    def compute_rows(output: Tensor) -> list[Tensor]:
        """Return an output's Jacobian with respect to each input."""

        def compute_row(dy: Tensor) -> list[Tensor]:
            """Return the gradients of the inputs for one unit tensor `dy`."""
            dys = [dy if y is output else zeros_like(y) for y in outputs]
            return list(iter_leaves(pull_back(dys[0] if isinstance(value, Tensor) else dys)))

        found = _map_unit_tensors(compute_row, output, [*inputs, *outputs])
        return [
            zeros((*output.shape, *x.shape), dtype=x.dtype, device=x.backend)
            if part is None
            else reshape(part, (*output.shape, *x.shape))
            for part, x in zip(found or [None] * len(inputs), inputs, strict=True)
        ]

    return [compute_rows(output) for output in outputs]


def _compute_jacobian_columns(
    op: str,
    value: Any,
    pull_back: Callable[[Any], tuple[Any, ...]],
    selected_arguments: Sequence[Any],
) -> list[list[Tensor]]:
    """Return for each output its Jacobian with respect to each selected input, column by column (forward mode)."""
    outputs: list[Tensor] = list(iter_leaves(value))
    inputs = [asarray(x) for x in iter_leaves(selected_arguments)]
    for x in (*inputs, *outputs):
        if x.dtype.kind == "complex":
            raise DTypeError(
                f"{op}: a tensor of shape {x.shape} is {x.dtype}, and mode='forward' is for real numbers; use "
                "mode='reverse'"
            )
    _, push = vjp(pull_back, map_tree(zeros_like, value))

    def compute_columns(input_position: int) -> list[Tensor]:
        """Return each output's Jacobian with respect to one input."""
        x = inputs[input_position]

        def compute_column(tangent: Tensor) -> list[Tensor]:
            """Return the outputs' derivatives along one unit tensor."""
            parts = iter(
                [tangent if i == input_position else zeros_like(y) for i, y in enumerate(inputs)]
            )
            tangents = tuple(map_tree(lambda _: next(parts), tree) for tree in selected_arguments)
            return list(iter_leaves(push(tangents)))

        found = _map_unit_tensors(compute_column, x, [*inputs, *outputs])
        return [
            zeros((*y.shape, *x.shape), dtype=x.dtype, device=x.backend)
            if part is None
            else reshape(reshape(part, (x.size, y.size)).T, (*y.shape, *x.shape))
            for part, y in zip(found or [None] * len(outputs), outputs, strict=True)
        ]

    by_input = [compute_columns(position) for position in range(len(inputs))]
    return [[column[i] for column in by_input] for i in range(len(outputs))]


MAX_CHUNK_ELEMENTS: Final = 2**23
"""The most elements of a tensor when several rows of a Jacobian are computed at once; more would need much memory."""


def _map_unit_tensors(
    function: Callable[[Tensor], list[Tensor]], y: Tensor, computed_like: Sequence[Tensor]
) -> list[Tensor]:
    """Return the stacked results of a function, as large as `computed_like`, for all unit tensors of the shape of `y`.

    For no elements, the list is empty. The function computes tensors as large as those in `computed_like`.
    """
    if y.size < 2:
        found = function(ones_like(y)) if y.size else []
        return [expand_dims(part, axis=0) for part in found]
    units = reshape(eye(y.size, dtype=y.dtype, device=y.backend), (y.size, *y.shape))
    chunk = max(1, MAX_CHUNK_ELEMENTS // max(x.size for x in computed_like))
    try:
        return map_rows(function, units, chunk)
    except TracingError:  # it reads values, or was traced before
        columns = zip(*map(function, unstack(units)), strict=True)
        return [stack(list(column)) for column in columns]


def hessian(
    function: Callable[..., Tensor],
    argnums: int | Sequence[int] = 0,
    *,
    mode: JacobianMode = "reverse",
) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of a scalar function.

    >>> import plugrad
    >>> plugrad.hessian(lambda x: plugrad.sum(x * x * x))(plugrad.asarray([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]], dtype=float32)

    The result is the Jacobian of the gradient: for an argument of shape t it has the shape
    ``(*t, *t)``. Several `argnums` give a tuple of tuples. A function that does not return a scalar is
    differentiated as the sum of its elements.

    Args:
        function: returns one floating-point or complex tensor.
        argnums: the position of the differentiated argument, or several; see `grad`.
        mode: how the gradient is differentiated; see `jacobian`.

    Raises:
        ArgumentError, ArgumentValueError, DTypeError, GradientNotFound: see `jacobian`.
    """
    check_callable("hessian", function)
    parse_argnums(argnums, "hessian")
    return _make_jacobian("hessian", grad(function, argnums, allow_unused=True), argnums, mode)


def checkpoint(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` as one that stores only its arguments for its gradient, and runs again in the backward pass.

    >>> import plugrad
    >>> f = plugrad.checkpoint(lambda x: plugrad.exp(plugrad.sin(x)))
    >>> plugrad.grad(f)(0.0)
    tensor(1., dtype=float32)

    This takes more time and less memory (Chen et al., 2016). Gradients reach the tensors among the
    positional arguments, and variables. The function must not use other tensors that are being
    differentiated. The second run must compute the same values as the first. Random numbers are the same
    in both runs, and each generator advances once.

    Raises:
        ArgumentError: `function` is not callable or does not return one tensor, or the result depends
            on a differentiated tensor that is neither a positional argument nor a variable, or the second run
            draws more random numbers than the first.
    """
    check_callable("checkpoint", function)

    @wraps(function)
    def run_checkpointed(*args: Any, **kwargs: Any) -> Tensor:
        args = lift_arguments(args)
        variables = list(watched_variables.get() or {})
        tensors = [x for x in args if isinstance(x, Tensor) and not isinstance(x, Variable)]
        parents = tuple(x.node for x in (*tensors, *variables))
        given = [_detach_leaf(x) for x in args]  # the function may assign to its arguments
        named = {name: _detach_leaf(x) for name, x in kwargs.items()}
        renamed = _copy_tensor_handles(kwargs)
        tracer = current_tracer()
        if isinstance(tracer, BatchTracer) and not any(parents):  # a tape outside may record it
            return tracer.call_on_outer_level(
                checkpoint, lambda *args: function(*args, **_copy_tensor_handles(renamed)), given
            )
        runs_again = any(parent is not None for parent in parents)
        watched = watched_variables.set(None)
        run = RepeatedRun() if runs_again else None
        second = bind_closure(function) if runs_again else function
        token = repeated_run.set(run or repeated_run.get())
        first = FirstArrays() if runs_again else None
        try:
            value = function(*[_detach_leaf(x) for x in args], **renamed)
        finally:
            repeated_run.reset(token)
            watched_variables.reset(watched)
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - people return anything
            raise ArgumentError(
                f"checkpoint: the function must return one tensor, not {type(value).__name__}"
            )
        if value.node is not None:
            raise ArgumentError(
                "checkpoint: the result depends on a differentiated tensor that is neither a positional "
                "argument nor a Variable; pass it as a positional argument"
            )
        out = wrap_array(value.array, value.backend)
        if run is not None and first is not None:
            out.node = _CheckpointedCall(parents, second, given, named, variables, run, first)
        return out

    return run_checkpointed


def _copy_tensor_handles(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments with new tensor handles, so that an assignment does not change the caller's tensor."""
    return {
        name: Tensor(x.array, x.backend, x.node) if type(x) is Tensor else x
        for name, x in kwargs.items()
    }


def _detach_leaf(x: Any) -> Any:
    """Return a tensor off the tape, and any other leaf unchanged."""
    is_plain = isinstance(x, Tensor) and not isinstance(x, Variable)
    return Tensor(x.array, x.backend) if is_plain else x


class _CheckpointedCall(CustomNode):
    """A call of a function whose gradient runs it again."""

    __slots__ = ("args", "first_arrays", "first_run", "function", "kwargs", "variables")

    def __init__(
        self,
        parents: tuple[Node | None, ...],
        function: Callable[..., Tensor],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        variables: list[Variable],
        first_run: RepeatedRun,
        first_arrays: FirstArrays,
    ) -> None:
        """Keep the arguments, and the first arrays of variables that have been assigned to.

        The parents are the nodes of the tensors among the arguments, then of the variables.
        """
        super().__init__(parents)
        self.function = keep_precision(function)
        self.args = args
        self.kwargs = kwargs
        self.variables = variables
        self.first_run = first_run
        self.first_arrays = first_arrays

    def vjp(
        self, dy: Tensor, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Run the function again with recording, and return the gradients of its inputs."""
        nodes = [parent if create_graph else None for parent in self.parents]
        tensors = [x for x in self.args if type(x) is Tensor]
        made = [
            make_leaf(Tensor(x.array, x.backend, node))
            for x, node in zip(tensors, nodes, strict=False)
        ]
        own = [Leaf((node,)) for node in nodes[len(made) :]]
        leaves = [*[leaf for _, leaf in made], *own]
        remaining = iter(made)
        args = [next(remaining)[0] if type(x) is Tensor else x for x in self.args]
        kwargs = {name: _detach_leaf(x) for name, x in self.kwargs.items()}
        watched = watched_variables.set(dict(zip(self.variables, own, strict=True)))
        run = repeated_run.set(RepeatedRun(self.first_run))
        try:
            with Recording(leaves), keep_positions(), use_arrays({**self.first_arrays.arrays}):
                value = self.function(*args, **kwargs)
        finally:
            repeated_run.reset(run)
            watched_variables.reset(watched)
        return list(enumerate(BackwardPass(value.node, leaves).run(dy)))
