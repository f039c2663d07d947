"""Native code writes its results and nothing else: wherever they begin, whatever their length is.

``make sanitize`` runs this with AddressSanitizer, which also sees what is read beyond the inputs.
"""

import math

import numpy as np
import pytest

import plugrad
from plugrad.errors import UnsupportedDtype
from plugrad.testing.checks import as_tensors, run_row
from properties.forced_variants import available_variants, forced_variant
from properties.invariances import (
    ELEMENT_COUNT,
    PIECE_SIZES,
    distinct_cases,
    draw_inputs,
    elementwise_operands,
)
from properties.test_invariances import use_machine

GUARD_BYTES = 64
"""The bytes before and behind each result."""
GUARD_PATTERN = 0xA5


class GuardedAllocator:
    """An allocator of arrays between guard bytes, which nothing may change; arrays are aligned to 16 bytes."""

    def __init__(self):
        self.blocks = []

    def empty(self, shape, dtype):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        block = np.full(size + 3 * GUARD_BYTES, GUARD_PATTERN, np.uint8)
        start = GUARD_BYTES + (16 - block.ctypes.data) % GUARD_BYTES
        self.blocks.append((block, start, start + size))
        return block[start : start + size].view(dtype).reshape(shape)

    def assert_untouched(self, what):
        for block, start, stop in self.blocks:
            assert (block[:start] == GUARD_PATTERN).all(), f"{what} wrote before its result"
            assert (block[stop:] == GUARD_PATTERN).all(), f"{what} wrote behind its result"
        self.blocks.clear()


def iter_kernel_inputs(row, dtype):
    """Yield the inputs of calls; elementwise kernels get arrays of 1 to 70 elements at the end of a memory block."""
    if not row.kernel.is_elementwise:
        yield draw_inputs(row, dtype)
        return
    arrays = elementwise_operands(row, dtype, ELEMENT_COUNT)
    for size in PIECE_SIZES:
        yield [x[-size:].copy() for x in arrays]


@pytest.mark.parametrize("variant", available_variants())
def test_kernels_write_only_inside_their_results(variant, monkeypatch):
    memory = GuardedAllocator()
    forced = forced_variant(variant)
    for module in forced.modules:
        for name in {"empty", "UNTRACKED_MAX_ELEMENTS"} & vars(module).keys():
            monkeypatch.setattr(module, name, memory.empty if name == "empty" else 0)
    with use_machine(f"cpu-{variant}"):
        for row in distinct_cases():
            config = forced.configs.get(row.kernel.name)
            for dtype in row.tested_dtypes if config else ():
                if config.dtypes is not None and dtype not in config.dtypes:
                    continue
                for arrays in iter_kernel_inputs(row, dtype):
                    try:
                        run_row(row, as_tensors(arrays), dtype)
                    except UnsupportedDtype:
                        break
                    memory.assert_untouched(f"{row} of {dtype}")


def test_guard_detects_writes_outside_of_results():
    memory = GuardedAllocator()
    y = memory.empty((3,), np.float32)
    np.lib.stride_tricks.as_strided(y, (4,))[3] = 0
    with pytest.raises(AssertionError, match="wrote behind"):
        memory.assert_untouched("x")


@pytest.mark.parametrize("offset", [1, 2, 3, 5])
def test_unaligned_arrays_are_copied_or_rejected(offset, rng):
    """Arrays at addresses that are no multiples of the item size are copied, or rejected."""
    packed = np.zeros(4 * 300 + offset, np.uint8)
    x = np.frombuffer(packed.data, np.float32, 300, offset)
    assert not x.flags.aligned
    x[...] = rng.normal(size=300)
    with plugrad.use("cpu"):
        for tensor in (plugrad.asarray(x), plugrad.from_dlpack(x)):
            np.testing.assert_allclose(plugrad.sigmoid(tensor).numpy(), 1 / (1 + np.exp(-x)), 1e-6)
        with pytest.raises(plugrad.errors.ArgumentValueError, match="begin at a multiple"):
            plugrad.from_dlpack(x, copy=False)
