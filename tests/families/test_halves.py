"""Kernels of float16 and bfloat16 give what they give for float32, rounded once."""

import numpy as np
import pytest

import plugrad
from plugrad.registry.kernels import find_kernel
from plugrad.testing.rows import ROW_DTYPE
from plugrad.testing.tables import rows

KERNELS_WITH_OTHER_RESULTS = {"Multinomial", "NextAfter"}
"""Drawn numbers and neighbours are those of a dtype, not those of another one, rounded."""
CASE_BY_KERNEL = {
    row.kernel.name: row
    for row in reversed(rows())
    if "float32" in row.tested_dtypes
    and "float16" in row.kernel.accepted_dtypes
    and not row.is_edge
    and row.kernel.name not in KERNELS_WITH_OTHER_RESULTS
    and any(x is not None and x.dtype == ROW_DTYPE for x in row.inputs)
}
FAMILIES = sorted({row.kernel.family for row in CASE_BY_KERNEL.values()})
RESOLUTION_BY_DTYPE = {"float16": 2**-10, "bfloat16": 2**-7}
"""The distance of 1 from the next number."""


def outputs_of(row, inputs, dtype):
    attributes = {k: dtype if v is ROW_DTYPE else v for k, v in row.attrs.items()}
    found = row.kernel(*inputs, **attributes)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", RESOLUTION_BY_DTYPE)
def test_a_kernel_rounds_what_it_gives_for_float32(backend, family, name):
    dtype = plugrad.DType(name)
    device = plugrad.which().backend
    if dtype not in device.dtypes():
        pytest.skip(f"{backend} does not store {name}")
    for row in CASE_BY_KERNEL.values():
        kernel = row.kernel
        if kernel.family != family or dtype not in kernel.accepted_dtypes:
            continue
        if find_kernel(kernel.name, device) is None:
            continue
        arrays = row.draw_inputs("float32")
        own = [
            x is not None and i.dtype == ROW_DTYPE for x, i in zip(arrays, row.inputs, strict=True)
        ]
        narrow = [
            x if x is None else plugrad.asarray(x.astype(dtype.numpy) if mine else x)
            for x, mine in zip(arrays, own, strict=True)
        ]
        wide = [x.astype("float32") if mine else x for x, mine in zip(narrow, own, strict=True)]
        expected = outputs_of(row, wide, plugrad.float32)
        found = outputs_of(row, narrow, dtype)
        promised = kernel.infer(
            *narrow, **{k: dtype if v is ROW_DTYPE else v for k, v in row.attrs.items()}
        )
        promised = [promised] if hasattr(promised, "dtype") else promised
        for y, right, spec in zip(found, expected, promised, strict=True):
            assert (y.dtype, y.shape) == (spec.dtype, right.shape), kernel.name
            if y.dtype is dtype:
                rounded = right.numpy().astype(dtype.numpy).astype(np.float32)
                y = y.numpy().astype(np.float32)
                largest = np.abs(rounded[np.isfinite(rounded)]).max(initial=1)
                # float16 may be computed by other means, such as a polynomial that has enough digits for it, and
                # sums in another order.
                is_exact = name == "bfloat16" and kernel.is_elementwise
                allowed = 0 if is_exact else RESOLUTION_BY_DTYPE[name]
                np.testing.assert_allclose(
                    y, rounded, allowed, allowed * largest, err_msg=kernel.name
                )
            else:
                np.testing.assert_allclose(y.numpy(), right.numpy(), 1e-6, err_msg=kernel.name)
