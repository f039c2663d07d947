"""Run a row on a backend and compare the results with NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import TracingError, UnsupportedDtype
from plugrad.ops.creation import asarray
from plugrad.ops.movement import concat, reshape
from plugrad.ops.reduction import sum as total
from plugrad.registry.composites import find_composite
from plugrad.registry.gradients import get_gradient
from plugrad.registry.kernels import find_kernel
from plugrad.testing.comparison import assert_close, assert_equal
from plugrad.testing.finite_differences import check_gradient
from plugrad.testing.rows import ROW_DTYPE, STRING_DTYPE, Array, Row
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE
from plugrad.types.dtype import as_dtype, string
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.dtype import DType

GRADIENT_DTYPES: Final = {
    "float64": "float64",
    "float32": "float32",
    "complex128": "float64",
    "complex64": "float32",
}
"""The dtypes in which gradients are compared, the most precise first, each with the dtype of its real part."""


class NotClaimed(Exception):
    """Raised when the backend does not claim to support something, so that a test is skipped; the message says what."""


def require_kernel(kernel: Kernel[..., Any], backend: Backend) -> None:
    """Raise unless the backend implements a kernel.

    Raises:
        NotClaimed: it does not.
    """
    if find_kernel(kernel.name, backend) is None:
        composite = "" if find_composite(kernel) is None else ", a composite: its body of ops runs"
        raise NotClaimed(f"{backend.name} does not implement {kernel.name}{composite}")


def require_dtypes(dtype_names: Sequence[str] | set[str], backend: Backend) -> None:
    """Raise unless the backend stores some dtypes.

    Raises:
        NotClaimed: it does not store one of them.
    """
    if missing := sorted({n for n in dtype_names if as_dtype(n) not in backend.dtypes()}):
        raise NotClaimed(f"{backend.name} does not store {', '.join(missing)}")


def is_implemented(kernel: Kernel[..., Any], backend: Backend) -> bool:
    """Return whether a backend can run a kernel, by an implementation or by the kernel's body of ops."""
    return find_kernel(kernel.name, backend) is not None or find_composite(kernel) is not None


FLOAT32_PROGRAM_DTYPES: Final = ("float32", "int32", "bool")
"""The dtypes of programs in float32: numbers, positions and conditions."""


def check_in_float32(row: Row, backend: Backend) -> None:
    """Compare a row and its gradient, on a backend, with NumPy, if a program in float32 may run it.

    Raises:
        NotClaimed: it needs other dtypes, or one of the program's that the backend does not store.
        AssertionError: the backend lacks the kernel, or it is wrong.
    """
    usable = [dtype for dtype in FLOAT32_PROGRAM_DTYPES if dtype in row.tested_dtypes]
    dtype = (usable or row.tested_dtypes)[0]
    arrays = row.draw_inputs(dtype)
    outputs = row.kernel.infer(*map(spec_of, arrays), **row.attributes(dtype))
    dtypes = row.required_dtypes(dtype) | {
        str(x.dtype) for x in ([outputs] if isinstance(outputs, Shaped) else outputs)
    }
    if beyond := sorted(dtypes - {*FLOAT32_PROGRAM_DTYPES}):
        raise NotClaimed(f"{row.kernel.name} needs {', '.join(beyond)}")
    require_dtypes(dtypes, backend)
    if not is_implemented(row.kernel, backend):
        raise AssertionError(
            f"{backend.name} does not implement {row.kernel.name}, which programs in float32 may run"
        )
    check_values(row, dtype, arrays)
    if dtype == "float32" and is_differentiable(row):
        _check_gradient_in_dtype(row, dtype)


def spec_of(array: Array | None) -> Shaped | None:
    """Return the shape and the dtype of an array, which is None if an input is absent."""
    return None if array is None else Shaped(array.shape, as_dtype(array.dtype))


def main_dtype(row: Row, backend: Backend) -> str:
    """Return the most important dtype of a row that the backend stores.

    Raises:
        NotClaimed: it stores none of them, or does not implement the kernel.
    """
    require_kernel(row.kernel, backend)
    for dtype in row.tested_dtypes:
        if _stores_dtypes_of_row(backend, row, dtype):
            return dtype
    raise NotClaimed(
        f"{backend.name} stores none of the dtypes of {row}: {', '.join(row.tested_dtypes)}"
    )


def gradient_dtype(row: Row, backend: Backend) -> str:
    """Return the most precise dtype in which a backend can compare gradients of a row, or "" if there is none."""
    usable = [dtype for dtype in GRADIENT_DTYPES if dtype in row.tested_dtypes]
    return next((dtype for dtype in usable if _stores_dtypes_of_row(backend, row, dtype)), "")


def _stores_dtypes_of_row(backend: Backend, row: Row, dtype: str) -> bool:
    """Return whether a backend stores all dtypes that a row needs to run on `dtype`."""
    stored = backend.dtypes()
    return all(as_dtype(name) in stored for name in row.required_dtypes(dtype))


def as_tensors(arrays: Sequence[Array | None]) -> list[Tensor | None]:
    """Convert arrays to tensors on the active backend; None stays None."""
    return [None if x is None else asarray(x) for x in arrays]


def replace_inputs(inputs: Sequence[Any], positions: Sequence[int], replacements: Any) -> list[Any]:
    """Return the inputs with those at `positions` replaced by others, in the same order."""
    inputs = list(inputs)
    for i, x in zip(positions, replacements, strict=True):
        inputs[i] = x
    return inputs


def run_row(row: Row, tensors: Sequence[Tensor | None], dtype: str) -> list[Tensor]:
    """Return the outputs of a row's kernel for some tensors."""
    result = row.kernel(*tensors, **row.attributes(dtype))
    return list(result) if isinstance(result, list) else [result]


def read_values(tensors: Sequence[Tensor]) -> list[Array]:
    """Return the values of tensors of one backend; an asynchronous device is waited for once for each dtype."""
    places: dict[DType, list[int]] = {}
    for i, x in enumerate(tensors):
        places.setdefault(x.dtype, []).append(i)
    values: dict[int, Array] = {}
    for dtype, chosen in places.items():
        backend = tensors[chosen[0]].backend
        ends = np.cumsum([tensors[i].size for i in chosen])
        if not (len(chosen) > 1 and ends[-1] and backend.is_asynchronous) or dtype is string:
            values |= {i: tensors[i].numpy() for i in chosen}
            continue
        parts = [part.copy() for part in backend.read([tensors[i].array for i in chosen])]
        read = np.concatenate(parts)
        if (read.size, read.dtype) != (ends[-1], dtype.numpy):
            raise AssertionError(
                f"read() of {backend.name} gives {read.size} values of {read.dtype}; it must give {ends[-1]} of {dtype}"
            )
        values |= {
            i: x.reshape(tensors[i].shape)
            for i, x in zip(chosen, np.split(read, ends[:-1]), strict=True)
        }
    return [values[i] for i in range(len(tensors))]


def curved_sum(outputs: Sequence[Tensor]) -> Tensor:
    """Return the sum of ``y + y**2 / 2`` over floating outputs y, so that derivatives depend on the outputs.

    Sines would do so too, but software devices of webgpu compile accurate ones for longer than all else.
    """
    parts = [total(y + y * y * 0.5) for y in outputs if y.dtype.is_inexact]
    return sum(parts[1:], parts[0])


def check_values(
    row: Row,
    dtype: str,
    arrays: Sequence[Array | None],
    tensors: Sequence[Tensor | None] | None = None,
) -> None:
    """Compare shapes, dtypes and values with the reference, and check that the inputs have not changed.

    The inputs are given as arrays, and as tensors if these are not just made of the arrays.
    """
    copies = [x if x is None else x.copy() for x in arrays]  # a tensor may share its memory
    tensors = as_tensors(arrays) if tensors is None else tensors
    outputs = run_row(row, tensors, dtype)
    expected = row.expected_outputs(copies)
    specs = row.kernel.infer(*tensors, **row.attributes(dtype))
    promised = [specs] if hasattr(specs, "dtype") else list(specs)
    label = _describe_call(row, dtype, copies)
    _check_equal(len(outputs), len(promised), "number of outputs", label)
    for output, spec in zip(outputs, promised, strict=True):
        _check_equal(output.dtype, spec.dtype, "dtype", label)
        if not row.kernel.dynamic_shape:
            _check_equal(output.shape, spec.shape, "shape", label)
    found = [x.numpy() for x in outputs]
    for output, values in zip(outputs, found, strict=True):
        _check_equal(values.shape, output.shape, "shape of what to_numpy gives", label)
        _check_equal(as_dtype(values.dtype), output.dtype, "dtype of what to_numpy gives", label)
    if row.canonicalize is not None:
        found = row.canonicalize(*found)
    for values, wanted in zip(found, expected, strict=True):
        _compare_values(values, wanted, row, label)
    for array, tensor in zip(copies, tensors, strict=True):
        if array is not None and tensor is not None:
            assert_equal(tensor.numpy(), array, f"{label}: an input was changed")


def _check_equal(actual: object, expected: object, property_name: str, label: str) -> None:
    """Raise an error that names `label` unless a property of a result has the expected value."""
    if actual != expected:
        raise AssertionError(f"{label}: the {property_name} is {actual}; it must be {expected}")


def _compare_values(actual: Array, expected: Array, row: Row, label: str) -> None:
    """Raise an error that names `label` unless values are within the row's tolerance of the expected ones."""
    _check_equal(actual.shape, expected.shape, "shape", label)
    name = str(as_dtype(actual.dtype))
    if name not in RELATIVE_TOLERANCE_OF_DTYPE:
        wanted = expected if actual.dtype == STRING_DTYPE else expected.astype(actual.dtype)
        assert_equal(actual, wanted, label)
        return
    with np.errstate(all="ignore"):  # what is beyond the largest number is infinite
        wanted = expected.astype(actual.dtype)
    allowed = RELATIVE_TOLERANCE_OF_DTYPE[name] * row.tolerance_factor
    sizes = np.abs(wanted[np.isfinite(wanted)])
    largest = 1.0 if row.kernel.is_elementwise else max(1.0, float(sizes.max(initial=1)))
    assert_close(actual, wanted, allowed, allowed * largest, label)


def _describe_call(row: Row, dtype: str, arrays: Sequence[Array | None]) -> str:
    """Return the kernel, shapes, attributes and dtype of a call, for error messages."""
    shapes = ", ".join("absent" if x is None else str(x.shape) for x in arrays)
    attrs = "".join(f", {name}={value!r}" for name, value in row.attributes(dtype).items())
    return f"{row.kernel.name}({shapes}{attrs}) of {dtype}"


def is_differentiable(row: Row) -> bool:
    """Whether a row's gradient can be compared with finite differences."""
    gradient = get_gradient(row.kernel.name)
    positions = differentiated_inputs(row)
    if not row.is_smooth or row.is_edge or gradient is None or not positions:
        return False
    return bool(GRADIENT_DTYPES.keys() & set(row.tested_dtypes)) and bool(
        gradient.planner(row.kernel, positions)
    )


def differentiated_inputs(row: Row) -> list[int]:
    """Return the positions of the inputs that are differentiated."""
    return [
        i
        for i, x in enumerate(row.inputs)
        if x and x.dtype == ROW_DTYPE and i not in row.undifferentiated_inputs
    ]


def check_row_gradient(row: Row, backend: Backend) -> None:
    """Compare a row's gradient on a backend with finite differences: to second order, or first in single precision."""
    require_kernel(row.kernel, backend)
    stored = backend.dtypes()
    dtypes = [
        dtype
        for dtype, real in GRADIENT_DTYPES.items()
        if dtype in row.tested_dtypes
        and all(as_dtype(name) in stored for name in {real, *row.required_dtypes(dtype)})
    ]
    if not dtypes:
        raise NotClaimed(
            f"{backend.name} stores no dtype in which the gradient of {row} is compared"
        )
    for dtype in dtypes:
        try:
            _check_gradient_in_dtype(row, dtype)
        except UnsupportedDtype:
            if dtype == dtypes[-1]:
                raise
        else:
            return


def _check_gradient_in_dtype(row: Row, dtype: str) -> None:
    """Compare the gradient of a row, with inputs of one dtype, with finite differences."""
    tensors = as_tensors(row.draw_inputs(dtype))
    positions = differentiated_inputs(row)

    def function(*xs: Tensor) -> Tensor:
        inputs = list(tensors)
        for i, x in zip(positions, xs, strict=True):
            inputs[i] = x if row.prepare_input is None else row.prepare_input(x)
        outputs = [x for x in run_row(row, inputs, dtype) if x.dtype.is_inexact]
        return outputs[0] if len(outputs) == 1 else concat([reshape(x, (-1,)) for x in outputs])

    function.__name__ = str(row)
    arguments = [x for i in positions if (x := tensors[i]) is not None]
    order = 2 if GRADIENT_DTYPES[dtype] == "float64" else 1
    check_gradient(function, *arguments, order=order, dtype=GRADIENT_DTYPES[dtype])


def check_refusal(call: Callable[[], Any], label: str) -> None:
    """Raise an error that names `label` unless `call`, a function, fails because a shape depends on values."""
    try:
        call()
    except TracingError:
        return
    raise AssertionError(f"{label}: the shape depends on values, but there was no error")
