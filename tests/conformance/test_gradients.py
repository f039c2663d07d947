"""Every kernel's gradient gives the recorded values, on every backend; see README.md.

A record holds what TensorFlow.js saves for the backward pass, which is not what plugrad saves. So
the call is made again and differentiated: inputs that were saved are used, inputs whose outputs
were saved are computed back from them, and the others, whose values do not matter, are zeros.
"""

from collections.abc import Callable

import numpy as np
import pytest

import plugrad
from conformance.forms import plugrad_attributes
from conformance.gradient_deviations import DEVIATIONS, find_deviation
from conformance.reader import Record, read_records
from plugrad.errors import DTypeError
from plugrad.extend import KERNELS

GradientFunction = Callable[[], list[plugrad.Tensor]]
RECORDS = read_records("gradients")
TOLERANCE = 1e-3  # of the tests that were recorded
SAVED_TENSOR_NAMES = {  # others: the first ones
    "FusedBatchNorm": ("x", "mean", "variance", "scale"),
    "Select": ("condition",),
    "UnsortedSegmentSum": ("segment_ids",),
}
INPUT_FROM_OUTPUT = {
    "Elu": lambda y: np.where(y > 0, y, np.log1p(np.minimum(y, 0))),
    "Exp": np.log,
    "Sigmoid": lambda y: np.log(y / (1 - y)),
    "Softmax": np.log,
    "Tanh": np.arctanh,
}


def inputs_by_name(record: Record) -> dict[str, np.ndarray]:
    """Return the inputs of a record by name, for a kernel that takes a list of tensors."""
    kernel = KERNELS[record.kernel]
    if kernel.is_variadic:
        return {str(i): x for i, x in enumerate(record.saved)}
    if record.kernel in INPUT_FROM_OUTPUT:
        return {
            kernel.inputs[0]: INPUT_FROM_OUTPUT[record.kernel](record.saved[0]).astype(np.float32)
        }
    given = dict(
        zip(SAVED_TENSOR_NAMES.get(record.kernel, kernel.inputs), record.saved, strict=False)
    )
    absent = {n: np.zeros_like(g) for n, g in record.gradients.items() if n not in given}
    return {name: (given | absent)[name] for name in kernel.inputs}


def prepare_gradients(
    record: Record, names: list[str], given: dict[str, np.ndarray]
) -> GradientFunction:
    """Build the inputs of a record; return a function that computes the gradients of the named inputs."""
    attrs = plugrad_attributes(record, next(iter(given.values())).shape)
    tensors = {name: plugrad.asarray(x) for name, x in given.items()}
    dy = None if isinstance(record.dy, list) else plugrad.asarray(record.dy)

    def call_kernel(*differentiated):
        values = tensors | dict(zip(names, differentiated, strict=True))
        is_list = KERNELS[record.kernel].is_variadic
        result = plugrad.run_kernel(
            record.kernel, list(values.values()) if is_list else values, attrs
        )
        if isinstance(result, list):
            parts = [plugrad.sum(y * dy) for y, dy in zip(result, record.dy, strict=True)]
            return plugrad.add_n(parts)
        return result if result.dtype.is_inexact else result.astype("float32")

    differentiate = plugrad.grad(call_kernel, tuple(range(len(names))), allow_unused=True)
    return lambda: list(differentiate(*[tensors[name] for name in names], dy=dy))


def replay(record: Record) -> str | None:
    """Replay a record; return a description of the failure, or None.

    Inputs and attributes are built before anything may raise: only the kernel's own errors count.
    """
    given = inputs_by_name(record)
    names = [name for name in given if name in record.gradients]
    floating = [name for name in names if given[name].dtype.kind == "f"]
    if floating != names:  # TensorFlow.js differentiates whole numbers as well
        gradients = prepare_gradients(record, names, given)
        with pytest.raises(DTypeError, match="which has no gradient; cast it"):
            gradients()
    if not floating:
        return None
    excuse = find_deviation(record)
    gradients = prepare_gradients(record, floating, given)
    try:
        actual = gradients()
    except plugrad.errors.KernelNotFound:
        raise
    except Exception as error:
        is_expected = isinstance(excuse and excuse.expected, tuple)
        return None if is_expected and type(error) in excuse.expected else repr(error)
    if excuse is not None and isinstance(excuse.expected, tuple):
        return f"no error instead of {excuse.expected}"
    for name, gradient in zip(floating, actual, strict=True):
        right = record.gradients[name] if excuse is None else excuse.expected(record, name)
        if gradient.shape != given[name].shape or gradient.shape != right.shape:
            return f"{name}: shape {gradient.shape} instead of {right.shape}"
        if not np.allclose(gradient.numpy(), right, TOLERANCE, TOLERANCE, equal_nan=True):
            return f"{name}: {gradient.numpy().ravel()[:8]} instead of {right.ravel()[:8]}"
    return None


@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_gradient_gives_the_recorded_values(kernel, backend):
    with np.errstate(all="ignore"):  # records reach poles
        failures = [(r, why) for r in RECORDS[kernel] if (why := replay(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}) {r.attrs}: {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[kernel])} records differ:\n{listed}"


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_each_deviation_matches_a_record(excuse):
    assert any(find_deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_few_records_deviate():
    excused = sum(find_deviation(r) is not None for rs in RECORDS.values() for r in rs)
    assert excused <= 0.04 * sum(map(len, RECORDS.values()))
