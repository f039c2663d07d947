"""Derivatives that are made of several gradients, and gradients that recompute instead of storing."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from plugrad.engine.results import wrapped
from plugrad.errors import ArgumentError, ShapeError
from plugrad.ops.creation import asarray, eye, zeros, zeros_like
from plugrad.ops.movement import reshape, stack, unstack
from plugrad.tape.nodes import Leaf, Node, Pulled
from plugrad.tape.tape import Walk
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import leaves_of, map_tree
from plugrad.transforms.gradients import grad, vjp
from plugrad.transforms.variable import Variable, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.types.specs import Shape


def jvp(
    function: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the value of `function`, and how it changes when its arguments move along `tangents`.

    >>> import plugrad
    >>> plugrad.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.0))
    (tensor(12., dtype=float32), tensor(4., dtype=float32))

    Arguments and value are tensors, or nested lists, tuples and dicts of them; a tangent has the
    form of its argument. The derivative is that of the gradient, which is linear in dy, so two
    passes back make one forward (Townsend, 2017).

    Raises:
        ArgumentError: there is not one tangent for each argument, or it has another form.
        ShapeError: a tangent has not its argument's shape.
    """
    if len(args) != len(tangents):
        raise ArgumentError(
            f"jvp: {len(tangents)} tangents for {len(args)} arguments; give one for each"
        )
    for position, (arg, tangent) in enumerate(zip(args, tangents, strict=True)):
        shapes, theirs = ([asarray(x).shape for x in _parts(tree)] for tree in (arg, tangent))
        if shapes != theirs:
            raise ShapeError(
                f"jvp: the tangent of argument {position} has shapes {theirs}; the argument has {shapes}"
            )
    value, pull = vjp(function, *args)
    _, push = vjp(pull, map_tree(zeros_like, value))
    return value, push(tuple(tangents))[0]


def _parts(tree: Any) -> list[Any]:
    """Return the leaves of a tree; what `asarray` takes is one, a list of numbers too."""
    return list(leaves_of(tree))


def jacobian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return a function that computes the derivative of each element of the value for each element of an argument.

    >>> import plugrad
    >>> plugrad.jacobian(lambda x: x * x)(plugrad.asarray([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]], dtype=float32)

    For a value of shape s and an argument of shape t it has shape ``(*s, *t)``. Several `argnums`
    give a tuple. Where the value or an argument is a nested list, tuple or dict of tensors, the
    result has the form of the value with the form of the argument at each leaf.
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(function)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        def of_selected(*selected: Any) -> Any:
            renamed = list(args)
            for position, x in zip(positions, selected, strict=True):
                renamed[position] = x
            return function(*renamed, **kwargs)

        try:
            selected = [args[position] for position in positions]
        except IndexError:
            raise ArgumentError(
                f"jacobian: argnums={argnums} but the function is called with {len(args)} positional arguments"
            ) from None
        value, pull = vjp(of_selected, *selected)
        outputs: list[Tensor] = list(leaves_of(value))

        def rows(output: Tensor) -> Any:
            dys = [
                [d if y is output else zeros_like(y) for y in outputs] for d in _directions(output)
            ]
            pulled = [pull(dy[0] if isinstance(value, Tensor) else dy) for dy in dys]
            trees = [
                _stacked([row[i] for row in pulled], x, output) for i, x in enumerate(selected)
            ]
            return trees[0] if isinstance(argnums, int) else tuple(trees)

        return map_tree(rows, value)

    return derivative


def _directions(y: Tensor) -> list[Tensor]:
    """Return a tensor like `y` for each of its elements, 1 there and 0 elsewhere."""
    if not y.size:
        return []
    units = eye(y.size, dtype=y.dtype, device=y.backend)
    return list(unstack(reshape(units, (y.size, *y.shape))))


def _stacked(rows: list[Any], x: Any, output: Tensor) -> Any:
    """Return the rows, trees of the form of `x`, as one tree of tensors of shape output.shape + x.shape."""
    columns = zip(*(leaves_of(row) for row in rows), strict=True)
    if not rows:
        return map_tree(lambda part: _nothing(output.shape, asarray(part)), x)
    joined = iter(
        [reshape(stack(list(column)), (*output.shape, *column[0].shape)) for column in columns]
    )
    return map_tree(lambda _: next(joined), rows[0])


def _nothing(shape: Shape, x: Tensor) -> Tensor:
    """Return the derivative of a value without elements, whose shape this is."""
    return zeros((*shape, *x.shape), dtype=x.dtype, device=x.backend)


def hessian(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0
) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of a scalar; see `jacobian`, whose form it has.

    >>> import plugrad
    >>> plugrad.hessian(lambda x: plugrad.sum(x * x * x))(plugrad.asarray([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]], dtype=float32)
    """
    return jacobian(grad(function, argnums, allow_unused=True), argnums)


def checkpoint(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` as one that stores nothing for its gradient but its arguments, and is run again instead.

    >>> import plugrad
    >>> f = plugrad.checkpoint(lambda x: plugrad.exp(plugrad.sin(x)))
    >>> plugrad.grad(f)(0.0)
    tensor(1., dtype=float32)

    It trades time for memory (Chen et al., 2016). Tensors among the positional arguments and
    variables are differentiated; another differentiated tensor that the function uses is an error.
    The second run must compute what the first did: a function that draws random numbers takes the
    generator's seed as an argument.
    """

    @wraps(function)
    def recomputed(*args: Any, **kwargs: Any) -> Tensor:
        variables = list(watched.get() or {})
        tensors = [x for x in args if isinstance(x, Tensor) and not isinstance(x, Variable)]
        parents = tuple(x.node for x in (*tensors, *variables))
        token = watched.set(None)
        try:
            value = function(*[_constant(x) for x in args], **kwargs)
        finally:
            watched.reset(token)
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - people return anything
            raise ArgumentError(
                f"checkpoint: the function must return one tensor, not {type(value).__name__}"
            )
        if value.node is not None:
            raise ArgumentError(
                "checkpoint: the result depends on a differentiated tensor that is neither a positional "
                "argument nor a Variable; pass it as a positional argument"
            )
        out = wrapped(value.array, value.backend)
        if any(parent is not None for parent in parents):
            out.node = _Recomputed(parents, function, args, kwargs, variables)
        return out

    return recomputed


def _constant(x: Any) -> Any:
    is_plain = isinstance(x, Tensor) and not isinstance(x, Variable)
    return Tensor(x.array, x.backend) if is_plain else x


class _Recomputed(Node):
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
        self.args = [_constant(x) for x in args]
        self.kwargs = kwargs
        self.variables = variables

    def pull(self, dy: Tensor, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Run the function once more, on the tape, and walk back."""
        leaves = [Leaf((parent if linked else None,)) for parent in self.parents]
        unused = iter(leaves)
        args = [
            Tensor(x.array, x.backend, next(unused)) if type(x) is Tensor else x for x in self.args
        ]
        token = watched.set(dict(zip(self.variables, unused, strict=True)))
        try:
            value = self.function(*args, **self.kwargs)
        finally:
            watched.reset(token)
        return list(enumerate(Walk(value.node, leaves).back(dy)))
