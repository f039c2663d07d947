"""Gradients of ordinary Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from plugrad.engine.custom import conjugate
from plugrad.engine.results import alias, wrap_array
from plugrad.engine.transfer import lift_arguments, make_leaf
from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, ShapeError, short_repr
from plugrad.kernels import creation
from plugrad.ops.attributes import check_flag, check_integer, is_sequence, to_list
from plugrad.ops.creation import asarray, zeros_like
from plugrad.tape.nodes import (
    Leaf,
    Recording,
    ResultBundle,
    count_live_leaves,
    end_recording,
    open_leaves,
)
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import static_value
from plugrad.tensor.trees import iter_leaves, iter_tensors, map_tree
from plugrad.transforms.variable import Variable, watched_variables
from plugrad.types.arguments import check_callable
from plugrad.types.dtype import INEXACT, equivalents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from plugrad.tensor.backend import Backend

_INEXACT_DTYPES = equivalents(INEXACT)
"""The floating and complex dtypes, in plugrad's and NumPy's spelling."""


def grad(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0, *, allow_unused: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `function`.

    >>> import plugrad
    >>> cube = lambda x: x * x * x
    >>> plugrad.grad(cube)(2.0)
    tensor(12., dtype=float32)
    >>> plugrad.grad(plugrad.grad(cube))(2.0)
    tensor(12., dtype=float32)

    The new function takes the arguments of `function`, and ``dy=``, the gradient with respect to a
    result with several elements, which cannot be left out: ones give the gradient of the sum. A
    differentiated argument is a tensor, something that `asarray` accepts, or a nested list, tuple or
    dict of these. Its gradient has the same structure, and each part of the gradient has the shape and
    dtype of that part of the argument.

    Args:
        function: returns one floating-point or complex tensor.
        argnums: the position of the differentiated argument; a negative one counts from the end.
            Several positions give a tuple of gradients.
        allow_unused: whether an argument that the result does not depend on has the gradient 0
            instead of causing an error.

    Raises:
        ArgumentError: `function` is not callable or does not return a tensor, or `argnums` are not
            positions of different arguments.
        DTypeError: a differentiated argument or the result is neither floating-point nor complex.
        ShapeError: `dy` does not have the shape of the result, or the result has several elements and
            there is no `dy`.
        GradientNotFound: a kernel between the result and a differentiated argument has no gradient,
            or the result does not depend on an argument.
    """
    return _make_gradient_function("grad", function, argnums, allow_unused)


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    allow_unused: bool = False,
    has_aux: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes the value of `function` and its gradient; see `grad`.

    >>> import plugrad
    >>> plugrad.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(3.0, 4.0)
    (tensor(12., dtype=float32), (tensor(4., dtype=float32), tensor(3., dtype=float32)))

    With ``has_aux=True`` the function returns a pair: the value, and anything else that it has computed, such as
    predictions or new statistics. The result is then ``((value, aux), gradient)``:

    >>> plugrad.value_and_grad(lambda x: (x * x, {"twice": 2 * x}), has_aux=True)(3.0)
    ((tensor(9., dtype=float32), {'twice': tensor(6., dtype=float32)}), tensor(6., dtype=float32))

    Args:
        function: see `grad`.
        argnums: see `grad`.
        allow_unused: see `grad`.
        has_aux: whether the function returns a pair of the value and something that is not differentiated.

    Raises:
        ArgumentError: with ``has_aux=True``, the function does not return a pair; otherwise as for `grad`.
    """
    return _make_gradient_function(
        "value_and_grad",
        function,
        argnums,
        allow_unused,
        with_value=True,
        has_aux=check_flag(has_aux, "value_and_grad", "has_aux"),
    )


def _make_gradient_function(
    op: str,
    function: Callable[..., Tensor],
    argnums: int | Sequence[int],
    allow_unused: bool,
    *,
    with_value: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient, or a pair of the value and the gradient."""
    check_callable(op, function)
    positions = parse_argnums(argnums, op)
    allow_unused = check_flag(allow_unused, op, "allow_unused")
    has_several = is_sequence(argnums)

    @_set_docstring(function, "The value and the gradient of" if with_value else "The gradient of")
    def compute_gradient(*args: Any, dy: Any = None, **kwargs: Any) -> Any:
        leaves: list[Leaf] = []
        inputs: list[ArrayWithBackend] = []
        renamed = list(args)
        check_positions(positions, args, op)
        for position in positions:
            renamed[position] = map_tree(lambda x: _make_leaf(x, leaves, inputs), args[position])
        aux: list[Any] = []
        computed = _split_off_aux(function, aux) if has_aux else function
        value, gradients = _compute_gradients(op, computed, renamed, kwargs, leaves, dy)
        for i, gradient in enumerate(gradients):
            if gradient is None:
                if not allow_unused:
                    raise GradientNotFound(
                        "grad: the result does not depend on differentiated tensor number "
                        f"{i}; pass allow_unused=True for zeros. Numbers that item() or float() return have no gradient"
                    )
                gradients[i] = zeros_like(Tensor(*inputs[i]))
        remaining = iter(gradients)
        trees = [map_tree(lambda _: next(remaining), args[position]) for position in positions]
        gradient = tuple(trees) if has_several else trees[0]
        if has_aux:
            # Outside of another transform the value is a constant, and what comes beside it is one, too.
            others = aux[0] if value.node is not None else map_tree(_detach_leaf, aux[0])
            return (value, others), gradient
        return (value, gradient) if with_value else gradient

    return compute_gradient


def _split_off_aux(function: Callable[..., Any], aux: list[Any]) -> Callable[..., Any]:
    """Return a function that returns the first of two results of another, and appends the second one to `aux`."""

    def return_first_result(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
            raise ArgumentError(
                "value_and_grad: with has_aux=True the function must return a pair (value, aux), not "
                f"{type(result).__name__}"
            )
        value, others = cast("tuple[Any, Any]", result)
        aux.append(others)
        return value

    return return_first_result


def _detach_leaf(leaf: Any) -> Any:
    """Return a tensor off the tape, and any other leaf unchanged."""
    return _detach(leaf) if isinstance(leaf, Tensor) else leaf


def parse_argnums(argnums: int | Sequence[int], op: str) -> tuple[int, ...]:
    """Return the positions of the differentiated arguments.

    Raises:
        ArgumentError: one is not an integer.
    """
    positions = to_list(argnums)
    for position in positions:
        if isinstance(position, bool | np.bool_):
            raise ArgumentError(
                f"{op}: argnums={short_repr(position)} must be an integer, and not a bool"
            )
    return tuple(check_integer(position, op, "argnums") for position in positions)


def check_positions(argnums: Sequence[int], args: Sequence[Any], op: str) -> None:
    """Raise unless the positions of differentiated arguments are in range and different.

    Raises:
        ArgumentError: one is out of range, or two are the same.
    """
    count = len(args)
    named = argnums[0] if len(argnums) == 1 else tuple(argnums)
    for position in argnums:
        if not -count <= position < count:
            raise ArgumentError(
                f"{op}: argnums={short_repr(named)} but the function is called with {count} positional arguments"
            )
    if len(argnums) > 1 and len({position % count for position in argnums}) < len(argnums):
        raise ArgumentError(
            f"{op}: argnums={short_repr(named)} names an argument twice; name each of the {count} arguments once"
        )


def grads(
    function: Callable[..., Tensor], *, allow_unused: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that computes the gradients with respect to all positional arguments of `function`; see `grad`.

    >>> import plugrad
    >>> plugrad.grads(lambda x, y: x * y)(3.0, 4.0)
    (tensor(4., dtype=float32), tensor(3., dtype=float32))
    """
    check_callable("grads", function)
    allow_unused = check_flag(allow_unused, "grads", "allow_unused")

    @_set_docstring(function, "The gradients of")
    def gradients(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        every = grad(function, tuple(range(len(args))), allow_unused=allow_unused)
        return every(*args, dy=dy, **kwargs)

    return gradients


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return the value of `function`, and a function that maps a gradient of the value to those of the arguments.

    >>> import plugrad
    >>> y, pull = plugrad.vjp(lambda x: x * x, plugrad.asarray([1.0, 2.0]))
    >>> pull(plugrad.asarray([1.0, 10.0]))
    (tensor([ 2., 40.], dtype=float32),)

    The function runs once. Its tape is kept as long as the second result is. The value may be a nested
    list, tuple or dict of tensors; then its gradient has the same structure.

    Raises:
        ArgumentError: `function` is not callable or returns something other than tensors, or the
            gradient has another structure than the value.
        DTypeError: an argument or the value is neither floating-point nor complex.
        ShapeError: the gradient has another shape than the value.
        GradientNotFound: a kernel between the value and an argument has no gradient.
    """
    check_callable("vjp", function)
    leaves: list[Leaf] = []
    inputs: list[ArrayWithBackend] = []
    renamed = [map_tree(lambda x: _make_leaf(x, leaves, inputs), arg) for arg in args]
    with Recording(leaves):
        result = map_tree(_check_differentiable_result, function(*renamed))
    is_one = isinstance(result, Tensor)
    ends = [result] if is_one else list(iter_tensors(result))
    root = result.node if is_one else ResultBundle(tuple([end.node for end in ends]))
    kept: list[ArrayWithBackend] = [
        (y.array, y.backend) for y in ends
    ]  # even if the value is disposed
    # While no other function is being differentiated, the value cannot depend on what is.
    is_nested = count_live_leaves() > len(leaves) and BackwardPass(root, leaves).is_nested
    value = result if is_nested else map_tree(_detach, result)

    def pull_back(dy: Any) -> tuple[Any, ...]:
        given = [dy] if is_one else list(iter_leaves(dy))
        if len(given) != len(kept):
            raise ArgumentError(
                f"vjp: dy has {len(given)} parts; the value has {len(kept)}, and dy must have its structure"
            )
        checked = [_check_dy(d, Tensor(*y)) for d, y in zip(given, kept, strict=True)]
        start = checked[0] if is_one else checked
        try:
            gradients = _run_backward(BackwardPass(root, leaves), start)
        finally:
            end_recording(())
        pairs = zip(inputs, gradients, strict=True)
        filled = iter([zeros_like(Tensor(*x)) if g is None else g for x, g in pairs])
        return tuple(map_tree(lambda _: next(filled), arg) for arg in args)

    return value, pull_back


def variable_grads(
    function: Callable[[], Tensor],
    variables: Collection[Variable] = (),
    *,
    allow_unused: bool = False,
    on_gradient: Callable[[Variable, Tensor], object] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Return the value of a function without arguments, and its gradient with respect to each trainable variable.

    >>> import plugrad
    >>> w = plugrad.Variable([1.0, 2.0])
    >>> fixed = plugrad.Variable(3.0, trainable=False)
    >>> plugrad.variable_grads(lambda: plugrad.sum(w * w) * fixed, [w, fixed])
    (tensor(15., dtype=float32), [tensor([ 6., 12.], dtype=float32)])

    Variables whose `trainable` is False are constants. The gradients are a list in the order of the
    trainable ones among `variables`: as many as there are ``v for v in variables if v.trainable``. Each
    has the shape, dtype and device of its variable.

    Args:
        function: reads the variables and returns one floating-point or complex tensor with one element.
        variables: different variables, of which at least one is trainable.
        allow_unused: whether a variable that the result does not depend on has the gradient 0 instead
            of causing an error.
        on_gradient: called with a variable and its gradient as soon as that is complete, while the backward
            pass goes on: mostly the last layer's first. It may send the gradient somewhere, or add it up. Of a
            variable that the result does not depend on, it is not told.

    Raises:
        ArgumentError: an entry is not a `Variable` or occurs twice, or none is trainable.
        DTypeError, ShapeError, GradientNotFound: see `grad`.
    """
    check_callable("variable_grads", function)
    if on_gradient is not None:
        check_callable("variable_grads", on_gradient)
    allow_unused = check_flag(allow_unused, "variable_grads", "allow_unused")
    trained = select_trainable(variables, "variable_grads")
    for variable in trained:
        if variable.array.dtype not in _INEXACT_DTYPES:
            raise _not_floating_error("variable", variable)
    outer = {v: v.node for v in trained}
    leaves = {v: Leaf((outer[v],)) for v in trained}
    token = watched_variables.set({**(watched_variables.get() or {}), **leaves})

    def report_gradient(variable_position: int, gradient: Tensor) -> None:
        """Call `on_gradient` with the variable and its gradient."""
        assert on_gradient is not None
        on_gradient(trained[variable_position], gradient)

    listener = None if on_gradient is None else report_gradient
    try:
        value, gradients = _compute_gradients(
            "variable_grads", function, (), {}, list(leaves.values()), None, listener
        )
    finally:
        watched_variables.reset(token)
    pairs = list(zip(trained, gradients, strict=True))
    unused = [v.name for v, g in pairs if g is None]
    if unused and not allow_unused:
        raise GradientNotFound(
            f"variable_grads: the result does not depend on variable {unused[0]!r}; pass allow_unused=True for zeros. "
            "Numbers that item() or float() return have no gradient"
        )
    return value, [zeros_like(v) if g is None else g for v, g in pairs]


def select_trainable(variables: Collection[Variable], op: str) -> list[Variable]:
    """Return the variables that are trainable, in their order.

    Raises:
        ArgumentError: an entry is not a `Variable` or occurs twice, or none is trainable.
    """
    given: list[Any] = to_list(variables) if is_sequence(variables) else []
    if (
        not given
        or not all(isinstance(v, Variable) for v in given)
        or len({id(v) for v in given}) != len(given)
    ):
        raise ArgumentError(
            f"{op}: give a list of different Variables to differentiate with respect to, as in {op}(f, [w, b])"
        )
    chosen = static_value(lambda: [v.trainable for v in given])
    trained = [v for v, is_chosen in zip(given, chosen, strict=True) if is_chosen]
    if not trained:
        raise ArgumentError(
            f"{op}: none of the {len(given)} variables is trainable; set trainable=True for at least one"
        )
    return trained


# --- how the transforms work ---------------------------------------------------------------------


ArrayWithBackend: TypeAlias = "tuple[Any, Backend]"
"""The array and the backend of a tensor, kept apart from the tensor because a program may dispose of it."""
_DY_HINT: Final = ", or pass dy=, the gradient with respect to y"
"""The end of the error for a result with several elements: what to pass."""


def _compute_gradients(
    op: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaves: list[Leaf],
    dy: Any,
    on_gradient: Callable[[int, Tensor], None] | None = None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Run a function on leaves; return its value and the gradient with respect to each leaf."""
    open_leaves.update(leaves)
    try:
        value = _check_differentiable_result(function(*args, **kwargs))
        open_leaves.difference_update(leaves)
        walk = BackwardPass(value.node, leaves)
        constant = _detach(value)
        if dy is None and constant.size != 1:
            raise ShapeError(
                f"{op}: the function returned a tensor of shape {constant.shape}, but a gradient is that of one "
                f"number; return its sum or mean, as in plugrad.mean(y){_DY_HINT if op != 'variable_grads' else ''}"
            )
        dy = creation.ones_like(constant) if dy is None else _check_dy(dy, constant)
        if not walk.is_nested:
            # No outer function is being differentiated: the value becomes a constant, so that keeping it
            # does not keep the tape.
            value = constant
        return value, _run_backward(walk, dy, on_gradient)
    finally:
        end_recording(leaves)


def _run_backward(
    backward_pass: BackwardPass, dy: Any, on_gradient: Callable[[int, Tensor], None] | None = None
) -> list[Tensor | None]:
    """Run a backward pass, and return the gradients of the leaves; `dy` is the gradient of the result.

    Rules are plain transposes. The gradient for complex numbers, which points in the direction of
    steepest ascent, needs the conjugate transpose. Conjugating what goes in and what comes out turns one
    into the other.
    """
    start = conjugate(dy) if isinstance(dy, Tensor) else map_tree(conjugate, dy)

    def report_gradient(leaf_position: int, gradient: Tensor) -> None:
        """Call `on_gradient` with the position of a leaf and its gradient."""
        assert on_gradient is not None
        on_gradient(leaf_position, conjugate(gradient))

    gradients = backward_pass.run(start, None if on_gradient is None else report_gradient)
    return [None if g is None else conjugate(g) for g in gradients]


def _detach(x: Tensor) -> Tensor:
    """Return a tensor that shares x's array but is not on the tape."""
    return wrap_array(x.array, x.backend)


def _check_differentiable_result(value: Any) -> Tensor:
    """Return a function's result after a check that it is a tensor of a floating or complex dtype."""
    if not isinstance(value, Tensor):
        is_number = isinstance(value, int | float)
        remedy = "; item() and float() return numbers, which have no gradient: return the tensor"
        raise ArgumentError(
            f"grad: the function must return one tensor, not {type(value).__name__}{remedy if is_number else ''}"
        )
    if value.array.dtype not in _INEXACT_DTYPES:
        raise _not_floating_error("the result", value)
    return value


def _check_dy(dy: Any, value: Tensor) -> Tensor:
    """Return `dy` as a new tensor; it must have the shape and dtype of `value`."""
    (value,) = lift_arguments((value,))
    if isinstance(dy, Tensor) and dy.backend is value.backend:
        dy = alias(dy)
    else:
        dtype = None if isinstance(dy, Tensor) else value.dtype
        dy = asarray(dy, dtype=dtype, device=value.backend)
    if dy.array.shape != value.array.shape or dy.dtype is not value.dtype:
        raise ShapeError(
            f"grad: dy is {dy.dtype} of shape {dy.shape}; "
            f"the result is {value.dtype} of shape {value.shape}"
        )
    return dy


def _make_leaf(x: Any, leaves: list[Leaf], inputs: list[ArrayWithBackend]) -> Tensor:
    """Return `x` as a new tensor whose tape node is a leaf; append the leaf and `x` to the lists."""
    if not isinstance(x, Tensor):
        x = asarray(x)
    if x.array.dtype not in _INEXACT_DTYPES:
        raise _not_floating_error("a differentiated argument", x)
    differentiated, leaf = make_leaf(x)
    leaves.append(leaf)
    inputs.append((differentiated.array, differentiated.backend))
    return differentiated


def _not_floating_error(tensor_description: str, x: Tensor) -> DTypeError:
    """Return the DTypeError for a described tensor whose dtype is neither floating nor complex."""
    return DTypeError(
        f"grad: {tensor_description} is {x.dtype}, which has no gradient; cast it with astype('float32')"
    )


def _set_docstring(
    function: Callable[..., Any], description: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that documents a wrapper by a description followed by the wrapped function's name."""

    def decorate(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        wrapper.__doc__ = f"{description} {getattr(function, '__name__', 'a function')}."
        return wrapper

    return decorate
