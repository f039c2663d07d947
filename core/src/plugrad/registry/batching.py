"""The batching registry: kernel name -> how a kernel runs on arrays that hide a leading axis, as in `plugrad.vmap`.

A rule is a function ``rule(batch, *inputs, **attrs)`` of tensors. Those that are batched have the hidden axis first. It
returns the result with the hidden axis first, or a list of results, or None to leave a case to a loop. Rules are
written with kernels or ops, so they run on every backend, and can be differentiated, traced and batched themselves.
Elementwise kernels need none: the axes of their inputs are aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugrad.contract.kernel import Kernel, ValidatedAttributes, all_contracts
from plugrad.contract.parameters import inspect_parameters
from plugrad.errors import ArgumentError, RegistrationError, short_repr
from plugrad.kernels import creation, movement
from plugrad.registry.unchecked import reshape_unchecked
from plugrad.settings import journal
from plugrad.types.arguments import check_callable, check_flag, check_string
from plugrad.types.dtype import int32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.tensor import Tensor
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape

BatchingRule: TypeAlias = "Callable[..., Any]"
"""A function of a `Batch`, the inputs and the attributes, which returns batched outputs, or None for a loop."""


class Batch(NamedTuple):
    """A call of a kernel whose inputs hide a leading axis: the first argument of a batching rule."""

    kernel: Kernel[..., Any]
    """The kernel that is called."""
    size: int
    """How many examples there are, which is the size of the axis that the inputs hide."""
    is_batched: tuple[bool, ...]
    """Whether each input has the axis of the examples, which is then its first one; the others are shared."""

    def with_batch_axis(self, x: Tensor, position: int) -> Tensor:
        """Return the input at a position with the axis of the examples; a shared input is repeated along this axis."""
        return x if self.is_batched[position] else self.repeat(x)

    def all_with_batch_axis(self, inputs: Sequence[Any]) -> list[Any]:
        """Return all inputs with the axis of the examples; None stays."""
        return [None if x is None else self.with_batch_axis(x, i) for i, x in enumerate(inputs)]

    def repeat(self, x: Tensor) -> Tensor:
        """Repeat a shared tensor along a new first axis."""
        expanded = reshape_unchecked(x, (1, *x.shape))
        return movement.broadcast_to(expanded, shape=(self.size, *x.shape))

    def align(self, inputs: Sequence[Any]) -> list[Any]:
        """Align the inputs, so that they broadcast as they would without the axis of the examples; None stays.

        Batched ones get axes of size 1 behind the hidden one, up to the rank of the largest.
        """
        flags = self.is_batched
        ranks = [x.ndim - flags[i] for i, x in enumerate(inputs) if x is not None]
        rank = max(ranks)
        return [
            x if x is None or not flags[i] else insert_axes_to_rank(x, rank + 1)
            for i, x in enumerate(inputs)
        ]

    def fold(self, x: Tensor, position: int) -> Tensor:
        """Fold the axis of the examples of the input at a position into the axis after it."""
        x = self.with_batch_axis(x, position)
        return reshape_unchecked(x, (x.shape[0] * x.shape[1], *x.shape[2:]))

    def unfold(self, y: Tensor) -> Tensor:
        """Unfold the first axis of a result into the axis of the examples and the original axis."""
        return reshape_unchecked(y, (self.size, y.shape[0] // max(self.size, 1), *y.shape[1:]))

    def positions(self, like: Tensor, shape: Shape, dtype: DType | None = None) -> Tensor:
        """Return for each element of a shape its position along the axis of the examples, on a tensor's device."""
        row = creation.range.on(like.backend, start=0, stop=self.size, step=1, dtype=dtype or int32)
        column = reshape_unchecked(row, (self.size, *(1,) * (len(shape) - 1)))
        return movement.broadcast_to(column, shape=shape)


def insert_axes_to_rank(x: Tensor, rank: int) -> Tensor:
    """Return a batched tensor with axes of size 1 after its first one, so that it has `rank` axes."""
    missing = rank - x.ndim
    if missing <= 0:
        return x
    return reshape_unchecked(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))


def move_axis(x: Tensor, source: int, target: int) -> Tensor:
    """Return a tensor with its axis at position `source` moved to position `target`."""
    if source == target:
        return x
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return movement.transpose(x, perm=tuple(order))


def merge_example_axis(x: Tensor, axis: int) -> Tensor:
    """Return a tensor whose first axis, that of the examples, is merged into another, counted from the end."""
    x = move_axis(x, 0, x.ndim + axis - 1)
    at = x.ndim + axis - 1
    return reshape_unchecked(x, (*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]))


def split_example_axis(y: Tensor, batch: Batch, axis: int) -> Tensor:
    """Return a tensor with the axis of the examples first again; see `merge_example_axis`."""
    at = y.ndim + axis
    shape = (*y.shape[:at], batch.size, y.shape[at] // max(batch.size, 1), *y.shape[at + 1 :])
    return move_axis(reshape_unchecked(y, shape), at, 0)


# --- rules that many kernels share ---------------------------------------------------------------


def run_with_leading_axis(batch: Batch, *inputs: Tensor | None, **attrs: Any) -> Any:
    """Run a kernel such as FFT that treats all leading axes alike: the axis of the examples becomes a leading axis."""
    return batch.kernel(*batch.all_with_batch_axis(inputs), **attrs)


def run_with_broadcast_axes(batch: Batch, *inputs: Tensor | None, **attrs: Any) -> Any:
    """Run a kernel that broadcasts the axes of its inputs, such as BatchMatMul."""
    return batch.kernel(*batch.align(inputs), **attrs)


def shift_axes_rule(*names: str) -> BatchingRule:
    """Return the rule of a kernel with inputs of one shape, whose attributes called `names` are axes.

    The attributes `names` are axes, or tuples of them, which move by one.
    """

    def rule(batch: Batch, *inputs: Tensor | None, **attrs: Any) -> Any:
        shifted = {**attrs, **{name: _shift_axes(attrs[name]) for name in names}}
        if len(inputs) == 1 and not batch.kernel.inputs_vary:
            return batch.kernel.call(inputs[0], ValidatedAttributes(shifted))
        return batch.kernel(*batch.all_with_batch_axis(inputs), **shifted)

    return rule


def _shift_axes(axes: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """Return axes after an axis was inserted in front of them."""
    return tuple([axis + 1 for axis in axes]) if isinstance(axes, tuple) else axes + 1


def fold_batch_rule(*places: int) -> BatchingRule:
    """Return the rule of a kernel whose inputs at `places` begin with the axis of a batch, such as that of images.

    The hidden axis becomes a part of the first axis of the inputs at `places`, by default of all. If another input is
    batched, the case is left to a loop.
    """

    def rule(batch: Batch, *inputs: Tensor | None, **attrs: Any) -> Any:
        chosen = places or range(len(inputs))
        if any(flag for i, flag in enumerate(batch.is_batched) if i not in chosen):
            return None
        given = [
            x if x is None or i not in chosen else batch.fold(x, i) for i, x in enumerate(inputs)
        ]
        found = batch.kernel(*given, **attrs)
        return [*map(batch.unfold, found)] if isinstance(found, list) else batch.unfold(found)

    return rule


# --- the registry --------------------------------------------------------------------------------


class RegisteredBatching(NamedTuple):
    """How one kernel is batched: by a rule, or by a loop, because there cannot be a useful rule."""

    kernel_name: str
    rule: BatchingRule | None
    """The batching rule; None for a kernel that is looped over."""
    because: str = ""
    """Why there is no rule, or in which cases it leaves the call to a loop."""


registered_batchings: Final[dict[str, RegisteredBatching]] = {}
"""The registry itself; it lacks what nobody has asked for yet: see `set_loader`."""
_load_batching_rule: Callable[[str], None] | None = None
"""The function that registers plugrad's own rule of a kernel, by name; None before `set_loader` is called."""


def set_loader(loader: Callable[[str], None]) -> None:
    """Set the function that registers plugrad's own rule of a kernel, by name, when it is first asked for."""
    global _load_batching_rule
    _load_batching_rule = loader


def find_batching(kernel_name: str) -> RegisteredBatching | None:
    """Return how a kernel is batched, or None if nothing is registered for it."""
    if kernel_name not in registered_batchings and _load_batching_rule is not None:
        _load_batching_rule(kernel_name)
    return registered_batchings.get(kernel_name)


def register_all_batchings() -> None:
    """Register every rule of plugrad's own that nobody has asked for yet."""
    for kernel_name in list(all_contracts()):
        find_batching(kernel_name)


def describe_batching(kernel: Kernel[..., Any], *, has_body: bool) -> str:
    """Return how `plugrad.vmap` runs a kernel, in words; `has_body` says whether it has a body of ops.

    >>> from plugrad.kernels import reduction, unary
    >>> (
    ...     describe_batching(unary.exp, has_body=False),
    ...     describe_batching(reduction.sum, has_body=False),
    ... )
    ('aligned', 'rule')
    """
    entry = find_batching(kernel.name)
    if kernel.dynamic_shape:
        return "error: the shape depends on values"
    if not kernel.inputs:
        return "shared"
    if entry is None and kernel.is_elementwise:
        return "aligned"
    if entry is not None and entry.rule is not None:
        otherwise = "body of ops" if has_body else "loop"
        return f"rule; {otherwise} if {entry.because}" if entry.because else "rule"
    reason = "" if entry is None else entry.because
    return "body of ops" if has_body else f"loop, {reason}".removesuffix(", ")


def register_batching(
    kernel: Kernel[..., Any] | str,
    rule: BatchingRule,
    *,
    except_when: str = "",
    replace: bool = False,
) -> None:
    """Register how `plugrad.vmap` runs a kernel on tensors that hide a leading axis.

    >>> import plugrad
    >>> from plugrad.extend import Spec, kernel, register_batching
    >>> @kernel("Doubled", family="example")
    ... def doubled(x: Spec) -> Spec:
    ...     return x
    >>> register_batching(doubled, lambda batch, x: doubled(x))

    ``rule(batch, *inputs, **attrs)`` takes tensors, of which those that are batched have the hidden axis first, and
    returns the result with that axis first, or a list of results. It may return None, to leave a case to the kernel's
    body of ops, or to a loop over the examples. Elementwise kernels need no rule.

    Args:
        kernel: the kernel, or its name.
        rule: how it is batched; `plugrad.extend` has rules that many kernels share.
        except_when: the cases that the rule leaves to a loop, for the matrix of kernels.
        replace: whether a rule that the kernel has already is replaced.

    Raises:
        RegistrationError: the kernel has a rule already and `replace` is False, or the rule does not take the
            contract's inputs and attributes.
        ArgumentError: `kernel` is neither a kernel nor a name, or the rule is not callable.
    """
    replace = check_flag(replace, "register_batching", "replace")
    check_callable("register_batching", rule)
    if not isinstance(kernel, Kernel):
        if not isinstance(kernel, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass anything
            raise ArgumentError(
                f"register_batching takes a kernel, such as plugrad.kernels.signal.fft, not {short_repr(kernel)}"
            )
        kernel_name = check_string(kernel, "register_batching", "kernel")
    else:
        kernel_name = kernel.name
        _check_parameters(kernel, rule)
    _set_batching(RegisteredBatching(kernel_name, rule, except_when), replace=replace)


def batched_by_loop(*kernels: Kernel[..., Any], because: str) -> None:
    """Declare that kernels run once for each example, and why there is no better way.

    >>> import plugrad
    >>> from plugrad.extend import Spec, batched_by_loop, kernel
    >>> @kernel("Collatz", family="example")
    ... def collatz(x: Spec) -> Spec:
    ...     return x
    >>> batched_by_loop(collatz, because="each example takes another number of steps")
    """
    for kernel in kernels:
        _set_batching(RegisteredBatching(kernel.name, None, because), replace=False)


def _set_batching(batching: RegisteredBatching, *, replace: bool) -> None:
    """Register how a kernel is batched; raise if it is registered already, unless `replace`."""
    name = batching.kernel_name
    find_batching(name)  # imports plugrad's own
    if replace:
        journal.put_table_entry(registered_batchings, name, batching, "batching")
    elif not journal.add_table_entry(registered_batchings, name, batching, "batching"):
        raise RegistrationError(
            f"kernel {name!r} has a batching rule already; pass replace=True to replace it"
        )


def _check_parameters(kernel: Kernel[..., Any], rule: BatchingRule) -> None:
    """Raise unless a rule takes a batch and the inputs by position, and the attributes by name.

    Raises:
        RegistrationError: it does not.
    """
    try:
        found = inspect_parameters(rule)
    except (TypeError, ValueError):  # Python cannot inspect a compiled function
        return
    positional, keyword = found.positional, found.keyword
    inputs = len(positional) - 1
    takes = inputs == len(kernel.inputs) or found.takes_list
    if not positional or not takes or not set(keyword) <= set(kernel.attributes):
        named = ", ".join(("batch", *kernel.inputs, *kernel.attributes))
        raise RegistrationError(
            f"the batching rule of {kernel.name} takes ({', '.join((*positional, *keyword))}); it must take the batch, "
            f"the contract's inputs and its attributes: ({named})"
        )
