"""Elementwise kernels walk over operands with gaps, in another order or repeated: the bits are those of copies."""

from importlib import import_module

import numpy as np
import pytest

import plugrad

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
declare = import_module("plugrad_native.declare")
thread_pool = import_module("plugrad_cpu.extend").thread_pool

LAYOUTS = {
    "a block": lambda x: x[1:-1, 2:-3],
    "one row of each two": lambda x: x[1:-1:2, 2:-3],
    "rows backwards": lambda x: x[::-1, 3:],
    "elements backwards": lambda x: x[1:, ::-1],
    "every third element": lambda x: x[:, ::3],
    "transposed": lambda x: x.T,
    "a block, transposed": lambda x: x[1:-1, 2:-3].T,
    "a column": lambda x: x[1:, 5:6],
    "a row": lambda x: x[3:4, 1:],
    "a repeated row": lambda x: np.broadcast_to(x[3, 1:], (x.shape[0], x.shape[1] - 1)),
    "a repeated column": lambda x: np.broadcast_to(x[1:, 5:6], (x.shape[0] - 1, x.shape[1])),
    "three axes": lambda x: x[: x.shape[0] // 4 * 4].reshape(4, -1, x.shape[1])[:, 1:, :-1],
    "three axes, the middle one first": lambda x: (
        x[: x.shape[0] // 4 * 4].reshape(4, -1, x.shape[1])[:, 1:, :-1].swapaxes(0, 1)
    ),
    "one element": lambda x: x[3:4, 4:5],
    "no element": lambda x: x[3:3, 4:],
}
KERNEL_NAMES = ("add", "subtract", "multiply", "divide", "minimum", "squared_difference", "less")


def iter_other_operands(x, generator):
    """Yield operands that broadcast with x: one of its layout, a dense one, a number, a column and a row."""
    yield x
    yield generator.uniform(-2, 2, x.shape).astype(x.dtype)
    yield np.array(0.7, x.dtype)
    if x.ndim:
        yield generator.uniform(-2, 2, (x.shape[-2], 1)).astype(x.dtype)
        yield generator.uniform(-2, 2, (3, x.shape[-1])).astype(x.dtype)[1:2]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.rows("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(23, 37), (130, 151)], ids=["small", "large"])
def test_layouts_change_no_bits(layout, dtype, size, rng):
    whole = rng.uniform(-2, 2, size).astype(dtype)
    with plugrad.use("cpu"):
        for name in KERNEL_NAMES:
            kernel = getattr(plugrad.kernels.binary, name)
            function = plugrad.which().backend.functions[kernel.name]
            x = LAYOUTS[layout](whole)
            for y in iter_other_operands(x, rng):
                for a, b in ((x, y), (y, x)):
                    expected = function(np.array(a, order="C"), np.array(b, order="C"))
                    found = function(a, b)
                    assert found.dtype == expected.dtype
                    assert found.shape == expected.shape
                    assert found.tobytes() == expected.tobytes(), name


def test_rows_are_walked_over_without_copies(monkeypatch, rng):
    monkeypatch.setattr(declare, "as_contiguous", None)  # which copies
    x = rng.uniform(-2, 2, (200, 200)).astype("f4")
    with plugrad.use("cpu"):
        function = plugrad.which().backend.functions[plugrad.kernels.binary.add.name]
        for a, b in (
            (x[1:-1, 2:], x[:-2, :-2]),
            (x[1:-1, 2:], np.array([0.5], "f4")),
            (x[:, 3:4], x[5]),
            (x[:, 3:4], x[5:6]),
        ):
            np.testing.assert_array_equal(function(a, b), a + b)


def test_a_plan_says_which_operands_are_copied():
    def copied(shape, *operands):
        layouts = [(x.shape, x.strides) for x in operands]
        plan = declare.plan_strided_loop(operands[0].itemsize, *layouts)
        assert plan.shape == shape
        return plan.is_copied_by_operand

    x = np.zeros((8, 8), "f4")
    assert copied((6, 6), x[1:7, 2:], x[:6, :6]) == (False, False)
    assert copied((8, 8), x[:, :1], x) == (False, False)
    assert copied((8, 8), x.T, x) == (True, False)
    assert copied((8, 4), x[:, ::2], x[:, 4:]) == (True, False)
    assert copied((8, 1), x[:, :1], x[:, 1:2]) == (True, True)  # whose elements are not adjacent
    parts = np.zeros(8, [("a", "u1"), ("b", "f4")])["b"]
    assert copied((3, 8), np.zeros((3, 8), "f4"), parts) == (False, True)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.rows("layout", LAYOUTS)
def test_layouts_of_integers_change_no_numbers(layout, dtype, rng):
    whole = rng.integers(0, 200, (130, 151)).astype(dtype)
    with plugrad.use("cpu"):
        for name in ("add", "subtract", "multiply"):
            function = plugrad.which().backend.functions[getattr(plugrad.kernels.binary, name).name]
            x = LAYOUTS[layout](whole)
            for y in iter_other_operands(x, rng):
                for a, b in ((x, y), (y, x)):
                    np.testing.assert_array_equal(function(a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5000,), (70, 131), (3, 50, 61), (5000, 1)], ids=str)
def test_copies_of_arrays_that_run_backwards(shape, dtype, rng):
    x = rng.uniform(0, 200, shape).astype(dtype)
    axis = max(i for i, n in enumerate(shape) if n > 1)
    for turned in (np.flip(x, axis), np.flip(x)):
        assert declare.plan_copy_of_rows(turned.shape, turned.strides, turned.itemsize)
        found = declare.as_contiguous(turned)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, turned)
    spread = x.repeat(2, axis)[(*(slice(None),) * axis, slice(None, None, 2))]
    assert declare.plan_copy_of_rows(spread.shape, spread.strides, spread.itemsize) is None


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("width", [5, 16, 300])
def test_copies_of_rows_with_gaps_are_shared(width, dtype, rng, monkeypatch):
    """The gradient of a concatenation is a slice, which a convolution copies: by NumPy, it was not divided."""
    monkeypatch.setattr(thread_pool, "count", 3)
    shared = []
    run_in_parts = thread_pool.run_in_parts

    def run_and_note(*call, parts, **options):
        shared.append(parts)
        run_in_parts(*call, parts=parts, **options)

    monkeypatch.setattr(thread_pool, "run_in_parts", run_and_note)
    rows = -(-4 * thread_pool.part_min_work // width) // 8
    whole = rng.uniform(0, 200, (2, 4, rows, width + 7)).astype(dtype)
    for x in (
        whole[..., :width],
        whole[:, 1:3, :, 7:],
        whole[1, :, :-3, 2:-2],
        whole[:, ::-1, :, 1:],
    ):
        found = declare.as_contiguous(x)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, x)
    assert shared
    assert min(shared) > 1


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("width", [2, 4, 5, 8, 15, 16])
def test_copies_of_short_rows_in_another_order(width, dtype, rng):
    """C copies rows of 2 to 128 bytes, in blocks of sixteen bytes where possible."""
    x = rng.integers(0, 2, (64, 33, 4, width)).astype(dtype)
    turned = x.transpose(0, 2, 1, 3)
    assert declare.plan_transposition(turned.shape, turned.strides, turned.itemsize)
    found = declare.as_contiguous(turned)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, turned)
    wide = rng.normal(size=(3, 4, 200)).astype("float32").transpose(1, 0, 2)
    assert declare.plan_transposition(wide.shape, wide.strides, wide.itemsize) is None
