"""Steps of optimizers: one call of a kernel for many variables."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from plugrad.host.optimizers import FORMULAS
from plugrad.kernels.optimizers import COEFFICIENT_COUNT_OF_KERNEL
from plugrad.ops.streams import repeat_result
from plugrad.registry.kernels import find_kernel
from plugrad.tensor.backend import make_unsupported_dtype_error
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import HALVES, float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.host.optimizers import Formula
    from plugrad.tensor.backend import Backend
    from plugrad.types.dtype import DType

    Update: TypeAlias = Callable[[Sequence[Sequence[Tensor]]], list[list[Tensor]]]
    """A function of lists of variables, gradients and slots that returns the updated variables and slots."""


class ComposedStep(NamedTuple):
    """An optimizer's step that is computed with ops, for each variable separately."""

    formula: Formula
    """A function of a variable, its gradient, its slots, and the coefficients as 0-d tensors."""
    coefficient_count: int
    """The number of coefficients."""


UpdateStep: TypeAlias = "Kernel[..., list[Tensor]] | ComposedStep"
"""An optimizer's step: a kernel that updates all variables, or a formula for one variable."""


def make_update(
    update_step: UpdateStep,
    compute_coefficients: Callable[[], Sequence[float]],
    first_variable: Tensor,
) -> Update:
    """Return a function that takes an optimizer's step: it updates lists of variables, gradients and slots.

    It returns the updated variables, then the updated slots, one list per slot. Variables and gradients have one dtype
    and one device, slots have the dtype that `choose_step_dtype` returns, and those of one variable have its shape.
    Where the backend does not have the kernel, or would compute it on the host, and for dtypes that the kernel does not
    take, the formula runs for each variable by itself.

    Args:
        update_step: the step of an optimizer.
        compute_coefficients: returns its coefficients. A traced program calls it anew in each of its calls.
        first_variable: one of the variables.

    Raises:
        UnsupportedDtype: the backend to which inputs are transferred does not have their dtype.
    """
    backend = _backend_of_step(first_variable)
    dtype = first_variable.dtype
    wider = choose_step_dtype(dtype)
    update = _make_update_of_dtype(update_step, compute_coefficients, wider, backend)
    return update if wider is dtype else partial(_update_wider, update, wider)


def choose_step_dtype(dtype: DType) -> DType:
    """Return the dtype in which a step for variables of `dtype` is computed, and in which their slots are kept.

    For float16 and bfloat16 it is float32: squares of small gradients, and the epsilon of `Adam`,
    are 0 in float16, and an average in bfloat16 stays as it is if new numbers have the weight 0.001.
    """
    return float32 if dtype in HALVES else dtype


def _make_update_of_dtype(
    update_step: UpdateStep,
    compute_coefficients: Callable[[], Sequence[float]],
    dtype: DType,
    backend: Backend,
) -> Update:
    """Return a function that takes an optimizer's step for tensors of a dtype."""
    if isinstance(update_step, ComposedStep) or not _has_kernel(update_step, backend, dtype):
        composed = (
            update_step
            if isinstance(update_step, ComposedStep)
            else ComposedStep(FORMULAS[update_step], COEFFICIENT_COUNT_OF_KERNEL[update_step])
        )
        scalars = repeat_result(
            lambda: _make_coefficient_tensors(
                composed.coefficient_count, compute_coefficients, dtype, backend
            )
        )
        return partial(_apply_formula, composed.formula, scalars)
    shape = (COEFFICIENT_COUNT_OF_KERNEL[update_step],)
    array: Any = repeat_result(lambda: backend.host_value(compute_coefficients, shape, dtype))
    return partial(_apply_kernel, update_step, Tensor(array, backend))


def _has_kernel(kernel: Kernel[..., Any], backend: Backend, dtype: DType) -> bool:
    """Return whether a backend computes a kernel itself, for a dtype."""
    found = find_kernel(kernel.name, backend)
    return not (found is None or found.on_host or dtype not in kernel.accepted_dtypes)


def _backend_of_step(variable: Tensor) -> Backend:
    """Return the backend that computes an optimizer's step: the target of transfers, or the variable's backend."""
    around = current_context()
    return (
        variable.backend
        if around is None or around.transfer_target is None
        else around.transfer_target
    )


def _make_coefficient_tensors(
    coefficient_count: int,
    compute_coefficients: Callable[[], Sequence[float]],
    dtype: DType,
    backend: Backend,
) -> list[Tensor]:
    """Return the coefficients as 0-d tensors, all of which come from one call of a function."""
    numbers: Sequence[float] = ()

    def compute_coefficient(coefficient_index: int) -> float:
        """Return one coefficient; the first one asked for computes all."""
        nonlocal numbers
        if coefficient_index == 0:
            numbers = compute_coefficients()
        return numbers[coefficient_index]

    dtype = dtype if dtype.is_inexact else float32
    if dtype not in backend.dtypes():
        raise make_unsupported_dtype_error(dtype, backend)
    return [
        Tensor(backend.host_value(partial(compute_coefficient, i), (), dtype), backend)
        for i in range(coefficient_count)
    ]


def _update_wider(
    update: Update, dtype: DType, tensor_lists: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """Return the variables and slots that `update` computes in a wider dtype, each rounded to the dtype that it has."""
    variables, _, *slots = tensor_lists
    updated = update([[x.astype(dtype) for x in tensors] for tensors in tensor_lists])
    return [
        [y.astype(x.dtype) for x, y in zip(before, after, strict=True)]
        for before, after in zip((variables, *slots), updated, strict=True)
    ]


def _apply_formula(
    formula: Formula, coefficients: Sequence[Tensor], tensor_lists: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """Return the updated variables and slots, computed by a formula for each variable."""
    each = [formula(*tensors, *coefficients) for tensors in zip(*tensor_lists, strict=True)]
    return [list(values) for values in zip(*each, strict=True)]


def _apply_kernel(
    kernel: Kernel[..., list[Tensor]],
    coefficients: Tensor,
    tensor_lists: Sequence[Sequence[Tensor]],
) -> list[list[Tensor]]:
    """Return the updated variables and slots, computed by one call of a kernel."""
    outputs = kernel.call([coefficients, *chain.from_iterable(tensor_lists)])
    count = len(tensor_lists[0])
    return [outputs[i : i + count] for i in range(0, len(outputs), count)]
