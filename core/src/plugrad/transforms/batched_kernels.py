"""The kernels of `plugrad.vmap`: each runs on the level outside, on tensors with the axis of the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from plugrad.contract.kernel import get_contract
from plugrad.engine.by_name import contract_from_signature
from plugrad.engine.composites import composite_implementation
from plugrad.engine.dispatch import run
from plugrad.errors import KernelFailed, ShapeError, TracingError, warn
from plugrad.kernels import movement
from plugrad.ops.creation import zeros
from plugrad.registry.batching import (
    Batch,
    find_batching,
    insert_axes_to_rank,
    registered_batchings,
    run_with_broadcast_axes,
)
from plugrad.registry.composites import find_composite
from plugrad.types.specs import TensorArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.registry.batching import BatchingRule
    from plugrad.tensor.backend import Backend, Implementation
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape


class BatchLevel(Protocol):
    """The interface of a batch tracer that kernel functions use."""

    outer: Backend
    """The backend of the outer level."""
    size: int
    """The number of examples."""

    def leave(self) -> Any:
        """Switch to the outer level, and return a token for `enter`."""

    def enter(self, token: Any) -> None:
        """Switch back from the outer level."""

    def wrap_outer_tensor(self, array: Any) -> BatchedArray:
        """Return an array of this level that wraps a tensor of the outer level."""
        ...


class BatchedArray(TensorArray):
    """An outer tensor, used where the engine expects a backend's array."""

    __slots__ = ("__weakref__", "dtype", "is_batched", "shape")

    def __init__(self, tensor: Tensor, is_batched: bool) -> None:
        """Hold a tensor, whose first axis is hidden if it is batched."""
        array = tensor.array
        shape: Shape = array.shape
        self.tensor: Tensor = tensor
        self.is_batched = is_batched
        self.shape: Shape = shape[1:] if is_batched else shape
        self.dtype: Any = array.dtype

    def __repr__(self) -> str:
        return f"<{'batched' if self.is_batched else 'shared'} {self.dtype}{list(self.shape)}>"


class DrawState(BatchedArray):
    """The state of a random draw of the first example; the states of the others follow."""

    __slots__ = ()


class FinishedFunctions(dict[str, "Implementation"]):
    """The functions of a tracer after its function has returned; using them raises."""

    def __missing__(self, kernel_name: str) -> Implementation:
        """Raise.

        Raises:
            TracingError: always.
        """
        raise TracingError(
            f"{kernel_name}: a tensor was kept from a function under vmap whose call has ended, and hides the axis of "
            "its examples; return it from that function instead"
        )


FINISHED_FUNCTIONS: Final = FinishedFunctions()
"""The only object of its class."""


class BatchedFunctions(dict[str, "Implementation"]):
    """The functions by kernel name that the engine calls for a batch; each runs a kernel on the outer level."""

    def __init__(self, tracer: BatchLevel) -> None:
        """Start empty."""
        super().__init__()
        self._tracer = tracer

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that runs a kernel for all examples."""
        tracer = self._tracer
        contract = get_contract(kernel_name)
        if contract is None:
            function = _make_loop_without_contract(kernel_name, tracer)
        elif not contract.inputs:
            function = _make_creation_function(contract, tracer)
        else:
            # None of plugrad's own elementwise kernels has a rule that would have to be imported.
            entry = (registered_batchings.get if contract.is_elementwise else find_batching)(
                kernel_name
            )
            rule = None if entry is None else entry.rule
            if rule is None and contract.is_elementwise:
                rule = run_with_broadcast_axes
                if not contract.inputs_vary and len(contract.inputs) <= 2:
                    function = self[kernel_name] = _make_elementwise_function(contract, tracer)
                    return function
            function = _make_rule_function(contract, rule, tracer)
        self[kernel_name] = function
        return function


def _make_elementwise_function(contract: Kernel[..., Any], tracer: BatchLevel) -> Implementation:
    """Return the function for an elementwise kernel of one or two inputs, the most frequent case."""

    def run_unary(x: BatchedArray, **attrs: Any) -> BatchedArray:
        """Run the kernel on the outer tensor of x."""
        before = tracer.leave()
        try:
            return BatchedArray(contract.call(x.tensor, *([attrs] if attrs else ())), x.is_batched)
        finally:
            tracer.enter(before)

    def run_binary(a: BatchedArray, b: BatchedArray, **attrs: Any) -> BatchedArray:
        """Run the kernel on the outer tensors of a and b, whose examples are aligned first."""
        x, y = a.tensor, b.tensor
        before = tracer.leave()
        try:
            more = len(a.shape) - len(b.shape)
            if more > 0 and b.is_batched:
                y = insert_axes_to_rank(y, len(a.shape) + 1)
            elif more < 0 and a.is_batched:
                x = insert_axes_to_rank(x, len(b.shape) + 1)
            result = contract.call(x, y, *([attrs] if attrs else ()))
            return BatchedArray(result, a.is_batched or b.is_batched)
        except ShapeError:
            contract.infer_cached((a, b), attrs)  # which names the shapes that the function sees
            raise
        finally:
            tracer.enter(before)

    return run_unary if len(contract.inputs) == 1 else run_binary


def _make_rule_function(
    contract: Kernel[..., Any], rule: BatchingRule | None, tracer: BatchLevel
) -> Implementation:
    """Return the function for a kernel: its batching rule, else its body of ops, else a loop."""
    is_own = contract.rule.__module__ == f"plugrad.kernels.{contract.family}"
    takes_one = len(contract.inputs) == 1 and not contract.inputs_vary
    of_one = Batch(contract, tracer.size, (True,))

    def call(*arrays: Any, **attrs: Any) -> Any:
        """Run the kernel's batching rule on outer tensors."""
        if takes_one and type(arrays[0]) is BatchedArray:  # most calls
            tensors: list[Any] = [arrays[0].tensor]
            batch = of_one if arrays[0].is_batched else None
        else:
            held = [x if x is None else tracer.wrap_outer_tensor(x) for x in arrays]
            flags = tuple([x is not None and (x.is_batched or type(x) is DrawState) for x in held])
            tensors = [x if x is None else x.tensor for x in held]
            batch = Batch(contract, tracer.size, flags) if any(flags) else None
        before = tracer.leave()
        try:
            if batch is None:
                return _wrap_result(run(contract, tensors, attrs), is_batched=False)
            if contract.dynamic_shape:
                raise _make_dynamic_shape_error(contract)
            result = None if rule is None else rule(batch, *tensors, **attrs)
            if result is not None:
                if not is_own or not tracer.size:  # the tests check plugrad's own
                    result = _check_result(result, contract, arrays, attrs, tracer.size)
                return _wrap_result(result, is_batched=True)
        except ShapeError:
            contract.infer_cached(arrays, attrs)  # which names the shapes that the function sees
            raise
        finally:
            tracer.enter(before)
        composite = find_composite(contract)
        if composite is not None:
            return composite_implementation(composite, cast("Backend", tracer))(*arrays, **attrs)
        before = tracer.leave()
        try:
            return _wrap_result(_loop_over_examples(batch, tensors, attrs), is_batched=True)
        finally:
            tracer.enter(before)

    return call


def _make_creation_function(contract: Kernel[..., Any], tracer: BatchLevel) -> Implementation:
    """Return the function for a kernel without inputs, whose result all examples share."""

    def call(_: Backend, **attrs: Any) -> Any:
        """Run the kernel once on the outer level."""
        before = tracer.leave()
        try:
            return _wrap_result(run(contract, (), attrs, tracer.outer), is_batched=False)
        finally:
            tracer.enter(before)

    return call


def _make_loop_without_contract(kernel_name: str, tracer: BatchLevel) -> Implementation:
    """Return the function for a kernel without a contract, which runs once for each example."""

    def call(*arrays: Any, **attrs: Any) -> Any:
        """Run the kernel once for each example."""
        held = [x if x is None else tracer.wrap_outer_tensor(x) for x in arrays if x is not tracer]
        tensors = [x if x is None else x.tensor for x in held]
        flags = tuple([x is not None and x.is_batched for x in held])
        before = tracer.leave()
        try:
            contract = contract_from_signature(kernel_name, tensors)
            if not any(flags):
                return _wrap_result(run(contract, tensors, attrs, tracer.outer), is_batched=False)
            batch = Batch(contract, tracer.size, flags)
            return _wrap_result(_loop_over_examples(batch, tensors, attrs), is_batched=True)
        finally:
            tracer.enter(before)

    return call


def _wrap_result(result: Any, *, is_batched: bool) -> Any:
    """Return a kernel's output, or list of outputs, as batched arrays."""
    if isinstance(result, list | tuple):
        return [BatchedArray(x, is_batched) for x in cast("Sequence[Tensor]", result)]
    return BatchedArray(result, is_batched)


def _check_result(
    result: Any, contract: Kernel[..., Any], arrays: Sequence[Any], attrs: Any, example_count: int
) -> Any:
    """Return the result of a batching rule after a check of its shapes, without the axis of the examples.

    Raises:
        KernelFailed: a shape is not the contract's with the axis of the examples in front.
    """
    promised = contract.infer_cached(arrays, attrs)
    is_one = hasattr(promised, "dtype")
    found = [result] if is_one else result
    specs = [promised] if is_one else promised
    if len(found) == len(specs) and all(
        x.array.shape == (example_count, *spec.shape) for x, spec in zip(found, specs, strict=True)
    ):
        return result
    if example_count == 0:  # no rule can tell how no elements are divided
        shaped = [
            movement.reshape(x, shape=(0, *spec.shape))
            for x, spec in zip(found, specs, strict=True)
        ]
        return shaped[0] if is_one else shaped
    shapes = [getattr(x, "shape", x) for x in found]
    raise KernelFailed(
        f"the batching rule of {contract.name} returned shapes {shapes}; for {example_count} examples they must be "
        f"{[(example_count, *spec.shape) for spec in specs]}, with the hidden axis first"
    )


def _make_dynamic_shape_error(contract: Kernel[..., Any]) -> TracingError:
    """Return the error for a kernel whose shape depends on values."""
    return TracingError(
        f"vmap: the shape of the result of {contract.name} depends on values, so that it may be another one for each "
        "example. Use a mask, as in plugrad.where(condition, x, 0), or call it outside of vmap"
    )


_warned_kernels: Final[set[str]] = set()
"""The names of kernels about which a warning has said that they run once for each example."""


def _loop_over_examples(batch: Batch, tensors: Sequence[Tensor | None], attrs: Any) -> Any:
    """Run a kernel once for each example, and stack the results."""
    kernel, size, flags = batch
    if kernel.name not in _warned_kernels:
        _warned_kernels.add(kernel.name)
        entry = find_batching(kernel.name)
        reason = f", {entry.because}" if entry is not None and entry.because else ""
        remedy = "" if reason else "; plugrad.extend.register_batching gives it a rule"
        warn(
            f"vmap: {kernel.name} has no batching rule for these inputs{reason}, and runs once for each of {size} "
            f"examples{remedy}"
        )
    if not size:
        return _infer_empty_result(batch, tensors, attrs)
    columns = [
        movement.unpack(x, axis=0) if flag and x is not None else [x] * size
        for x, flag in zip(tensors, flags, strict=True)
    ]
    rows = [run(kernel, inputs, attrs) for inputs in zip(*columns, strict=True)]
    if isinstance(rows[0], list):
        return [movement.pack(*parts, axis=0) for parts in zip(*rows, strict=True)]
    return movement.pack(*rows, axis=0)


def _infer_empty_result(batch: Batch, tensors: Sequence[Tensor | None], attrs: Any) -> Any:
    """Return a kernel's result for zero examples."""
    given = [x for x in tensors if x is not None]
    held = [
        None if x is None else BatchedArray(x, flag)
        for x, flag in zip(tensors, batch.is_batched, strict=True)
    ]
    found = batch.kernel.infer_cached(held, batch.kernel.fill_defaults(attrs))
    backend = given[0].backend
    if hasattr(found, "dtype"):
        return zeros((0, *found.shape), dtype=found.dtype, device=backend)
    return [zeros((0, *x.shape), dtype=x.dtype, device=backend) for x in found]
