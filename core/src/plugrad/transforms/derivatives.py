"""Derivatives that consist of several gradients, and gradients that recompute values instead of storing them."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from plugrad.engine.results import wrap_array
from plugrad.engine.transfer import lift_arguments
from plugrad.errors import ArgumentError, ShapeError
from plugrad.ops.attributes import as_list, is_sequence
from plugrad.ops.creation import asarray, eye, zeros, zeros_like
from plugrad.ops.movement import reshape, stack, unstack
from plugrad.tape.nodes import InputGradients, Leaf, Node, Step, recording
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_leaves, map_tree
from plugrad.transforms.gradients import (
    check_positions,
    grad,
    parse_argnums,
    vjp,
)
from plugrad.transforms.variable import Variable, watched_variables
from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.types.specs import Shape


def jvp(
    function: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the value of `function`, and its derivative along `tangents`.

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
    """Return the leaves of a tree; a list of numbers counts as a leaf, as `asarray` accepts it."""
    return list(iter_leaves(tree))


def jacobian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return a function that computes the derivative of each element of the value by each element of an argument.

    >>> import plugrad
    >>> plugrad.jacobian(lambda x: x * x)(plugrad.asarray([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]], dtype=float32)

    For a value of shape s and an argument of shape t, the result has the shape ``(*s, *t)`` and the
    dtype of the argument. Several `argnums` give a tuple. Where the value or an argument is a nested
    list, tuple or dict of tensors, the result has the structure of the value, with the structure of the
    argument at each leaf.

    Args:
        function: returns floating-point or complex tensors.
        argnums: the position of the differentiated argument, or several; see `grad`.

    Raises:
        ArgumentError: `function` is not callable or returns something other than tensors, or `argnums`
            are not positions of different arguments.
        DTypeError: a differentiated argument or the value is neither floating-point nor complex.
        GradientNotFound: a kernel between the value and a differentiated argument has no gradient.
    """
    return _jacobian("jacobian", function, argnums)


def _jacobian(
    op: str, function: Callable[..., Any], argnums: int | Sequence[int]
) -> Callable[..., Any]:
    check_callable(op, function)
    positions = parse_argnums(argnums, op)

    @wraps(function)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        def of_selected(*selected: Any) -> Any:
            renamed = list(args)
            for position, x in zip(positions, selected, strict=True):
                renamed[position] = x
            return function(*renamed, **kwargs)

        check_positions(positions, args, op)
        selected = [args[position] for position in positions]
        value, pull = vjp(of_selected, *selected)
        outputs: list[Tensor] = list(iter_leaves(value))

        def rows(output: Tensor) -> Any:
            dys = [
                [d if y is output else zeros_like(y) for y in outputs]
                for d in _basis_tensors(output)
            ]
            pulled = [pull(dy[0] if isinstance(value, Tensor) else dy) for dy in dys]
            trees = [
                _stack_rows([row[i] for row in pulled], x, output) for i, x in enumerate(selected)
            ]
            return tuple(trees) if is_sequence(argnums) else trees[0]

        return map_tree(rows, value)

    return derivative


def _basis_tensors(y: Tensor) -> list[Tensor]:
    """Return the standard basis of `y`: for each element, a tensor that is 1 there and 0 elsewhere."""
    if not y.size:
        return []
    units = eye(y.size, dtype=y.dtype, device=y.backend)
    return list(unstack(reshape(units, (y.size, *y.shape))))


def _stack_rows(rows: list[Any], x: Any, output: Tensor) -> Any:
    """Stack the rows of a Jacobian, trees like `x`, to one tree of tensors of shape output.shape + x.shape."""
    columns = zip(*(iter_leaves(row) for row in rows), strict=True)
    if not rows:
        return map_tree(lambda part: _empty_derivative(output.shape, asarray(part)), x)
    joined = iter(
        [reshape(stack(list(column)), (*output.shape, *column[0].shape)) for column in columns]
    )
    return map_tree(lambda _: next(joined), rows[0])


def _empty_derivative(shape: Shape, x: Tensor) -> Tensor:
    """Return the Jacobian of a value of this shape that has no elements."""
    return zeros((*shape, *x.shape), dtype=x.dtype, device=x.backend)


def hessian(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0
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

    Raises:
        ArgumentError, DTypeError, GradientNotFound: see `jacobian`.
    """
    check_callable("hessian", function)
    parse_argnums(argnums, "hessian")
    return _jacobian("hessian", grad(function, argnums, allow_unused=True), argnums)


def checkpoint(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` as one that stores only its arguments for its gradient, and runs again in the backward pass.

    >>> import plugrad
    >>> f = plugrad.checkpoint(lambda x: plugrad.exp(plugrad.sin(x)))
    >>> plugrad.grad(f)(0.0)
    tensor(1., dtype=float32)

    This takes more time and less memory (Chen et al., 2016). Gradients reach the tensors among the
    positional arguments, and variables. The function must not use other tensors that are being
    differentiated. The second run must compute the same values as the first: a function that draws
    random numbers takes the generator's seed as an argument.

    Raises:
        ArgumentError: `function` is not callable or does not return one tensor, or the result depends
            on a differentiated tensor that is neither a positional argument nor a variable.
    """
    check_callable("checkpoint", function)

    @wraps(function)
    def run_checkpointed(*args: Any, **kwargs: Any) -> Tensor:
        args = lift_arguments(args)
        variables = list(watched_variables.get() or {})
        tensors = [x for x in args if isinstance(x, Tensor) and not isinstance(x, Variable)]
        parents = tuple(x.node for x in (*tensors, *variables))
        given = [_detach(x) for x in args]  # the function may assign to its arguments
        named = {name: _detach(x) for name, x in kwargs.items()}
        renamed = {
            name: Tensor(x.array, x.backend, x.node) if type(x) is Tensor else x
            for name, x in kwargs.items()
        }
        token = watched_variables.set(None)
        try:
            value = function(*[_detach(x) for x in args], **renamed)
        finally:
            watched_variables.reset(token)
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
        if any(parent is not None for parent in parents):
            out.node = _CheckpointedCall(parents, function, given, named, variables)
        return out

    return run_checkpointed


def _detach(x: Any) -> Any:
    is_plain = isinstance(x, Tensor) and not isinstance(x, Variable)
    return Tensor(x.array, x.backend) if is_plain else x


class _CheckpointedCall(Step):
    """A call of a function whose gradient runs it again."""

    __slots__ = ("args", "function", "kwargs", "variables")

    def __init__(
        self,
        parents: tuple[Node | None, ...],
        function: Callable[..., Tensor],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        variables: list[Variable],
    ) -> None:
        """Keep the arguments; the parents are the nodes of the tensors among them, then of the variables."""
        super().__init__(parents)
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.variables = variables

    def pull(self, dy: Tensor, wanted: Sequence[bool] | None, linked: bool) -> InputGradients:
        """Run the function again, recorded on the tape, and go back along the tape."""
        leaves = [Leaf((parent if linked else None,)) for parent in self.parents]
        unused = iter(leaves)
        args = [
            Tensor(x.array, x.backend, next(unused)) if type(x) is Tensor else x for x in self.args
        ]
        kwargs = {name: _detach(x) for name, x in self.kwargs.items()}
        token = watched_variables.set(dict(zip(self.variables, unused, strict=True)))
        try:
            with recording(leaves):
                value = self.function(*args, **kwargs)
        finally:
            watched_variables.reset(token)
        return list(enumerate(BackwardPass(value.node, leaves).run(dy)))
