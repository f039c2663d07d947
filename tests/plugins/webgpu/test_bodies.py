"""Small arrays computed on the host have the same bits as those computed by shaders."""

import itertools

import numpy as np
import pytest

from plugins.webgpu.bits import assert_same_bits
from plugrad.extend import DTYPES, Kernel
from plugrad.kernels import activation, binary, bitwise, complex as of_complex, movement, unary
from plugrad_webgpu.memory.buffers import HostBuffer
from plugrad_webgpu.shaders.elements import SHADER_DTYPES as OF_WEBGPU

FAMILY_MODULES = (activation, binary, bitwise, of_complex, unary)
KERNELS_ON_HOST = {
    *("Abs", "Neg", "Square", "Sign", "Ceil", "Floor", "Round", "Trunc", "Step", "ClipByValue"),
    *("IsFinite", "IsInf", "IsNan", "SignBit", "LogicalNot", "Cast", "Identity"),
    *("Add", "Sub", "Multiply", "FloorDiv", "Mod", "Maximum", "Minimum", "Select"),
    *("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"),
    *("LogicalAnd", "LogicalOr", "LogicalXor"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift"),
    *("Relu", "Relu6", "Relu6Grad", "LeakyRelu", "Prelu"),
}
ATTRIBUTES_BY_KERNEL = {
    "Step": [{"alpha": a} for a in (0.0, 0.1, -2.0, np.inf)],
    "ClipByValue": [
        {"clip_value_min": low, "clip_value_max": high}
        for low, high in ((-1.0, 2.5), (-np.inf, np.inf), (0.0, 0.0), (2.0, -2.0), (0.1, 300.0))
    ],
    "LeakyRelu": [{"alpha": a} for a in (0.2, 1 / 3, -1.0, 0.0, 1e-30)],
    "Cast": [{"dtype": dtype} for dtype in sorted(OF_WEBGPU, key=str)],
}
FLOAT_VALUES = """
0 -0 1 -1 0.5 -0.5 1.5 2.5 -2.5 3 6 0.1 -7.3 1e-30 -1e-30 8388609 inf -inf nan
3.4028235e38 -3.4028235e38 1.1754944e-38 -1.1754942e-38 1e-45 127.5 128 -128.9 255.9 256 65504 65520 6e-8
2147483520 2147483648 -2147483904 4294967040 4294967296 9.223372e18 -9.223372e18 9.2233715e18 16777217
"""


def is_hosted(array):
    return isinstance(array.buffer, HostBuffer)


def extreme_and_random_values(dtype, rng):
    """Return extreme values and random values of a dtype."""
    if dtype == "bool":
        return np.array([False, True])
    kind = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if kind.kind == "f":
            any_bits = rng.integers(0, 1 << 32, 20, np.uint32).view(np.float32)
            return np.array(
                [*map(float, FLOAT_VALUES.split()), *any_bits, *rng.standard_normal(20)], np.float32
            ).astype(kind)
        if kind.kind == "c":
            return rng.standard_normal((20, 2)).astype(np.float32).view(kind).ravel()
    ends = np.iinfo(kind)
    extremes = {
        0,
        1,
        2,
        5,
        6,
        7,
        31,
        32,
        40,
        63,
        64,
        ends.max,
        ends.max - 1,
        ends.min,
        ends.min + 1,
    }
    more = {-1, -2, -7, -40} if ends.min < 0 else {}
    any_bits = rng.integers(ends.min, ends.max, 25, kind, endpoint=True)
    return np.array([*sorted({*extremes, *more}), *any_bits.tolist()], kind)


COMPOSITES = {"Silu", "SiluGrad"}  # bodies of the ops above
KERNELS_AND_DTYPES = [
    pytest.param(kernel, dtype, id=f"{kernel.name}-{dtype}")
    for family in FAMILY_MODULES
    for kernel in vars(family).values()
    if isinstance(kernel, Kernel) and (kernel.is_elementwise or kernel.name == "Cast")
    if kernel.name not in COMPOSITES
    for dtype in sorted(OF_WEBGPU & (kernel.accepts or DTYPES), key=str)
]


def make_operands(kernel, dtype, rng):
    x = extreme_and_random_values(dtype, rng)
    if kernel.name == "Select":
        a, b = (grid.ravel() for grid in np.meshgrid(x, x))
        return rng.integers(0, 2, a.size).astype(bool), a, b
    if kernel.input_count == 1:
        return (x,)
    return tuple(grid.ravel() for grid in np.meshgrid(x, x))


@pytest.mark.parametrize(("kernel", "dtype"), KERNELS_AND_DTYPES)
def test_values_match_the_device(run, host_small_arrays, monkeypatch, rng, kernel, dtype):
    """The host computes the same bits as the device, for each elementwise kernel and extreme values."""
    monkeypatch.setattr(host_small_arrays, "most", 100_000)
    operands = make_operands(kernel, dtype, rng)
    for attributes in ATTRIBUTES_BY_KERNEL.get(kernel.name, [{}]):
        on_host = [run.to_device(x) for x in operands]
        found = run.call(kernel, *on_host, **attributes)
        with monkeypatch.context() as patch:
            patch.setattr(host_small_arrays, "most", 0)
            on_device = [run.to_device(x) for x in operands]
            assert not any(map(is_hosted, on_device))
            expected = run.call(kernel, *on_device, **attributes)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if is_hosted(found):
            assert kernel.name in KERNELS_ON_HOST
            assert found.buffer.values.dtype == expected.dtype
            assert found.buffer.values.flags.c_contiguous
        assert_same_bits(run.to_host(found), run.to_host(expected))


def test_the_kernels_that_the_host_computes(run, host_small_arrays):
    """The set of kernel names above contains no others."""
    found = set()
    for parameters in KERNELS_AND_DTYPES:
        kernel, dtype = parameters.values
        attributes = ATTRIBUTES_BY_KERNEL.get(kernel.name, [{}])[-1]
        operands = make_operands(kernel, dtype, np.random.default_rng(1))
        result = run.call(kernel, *[run.to_device(x[:9]) for x in operands], **attributes)
        if is_hosted(result):
            found.add(kernel.name)
    assert found == KERNELS_ON_HOST


SHAPES = [(), (1,), (4,), (5, 4), (3, 5, 4), (3, 1, 1), (1, 4), (0,), (3, 0, 1), (2, 0)]


SHAPE_PAIRS = [
    (a, b)
    for a, b in itertools.product(SHAPES, SHAPES)
    if all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))
]


@pytest.mark.parametrize(("a", "b"), SHAPE_PAIRS, ids=str)
def test_broadcasting(run, host_small_arrays, rng, a, b):
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in (a, b))
    found = run.call(binary.subtract, run.to_device(x), run.to_device(y))
    assert is_hosted(found)
    assert_same_bits(run.to_host(found), np.asarray(x - y))
    greater = run.call(binary.greater, run.to_device(x), run.to_device(y))
    chosen = run.call(binary.select, greater, run.to_device(x), run.to_device(y))
    assert_same_bits(run.to_host(chosen), np.asarray(np.where(x > y, x, y)))


MOVEMENT_CALLS = [
    (movement.reshape, {"shape": (4, 6)}),
    (movement.expand_dims, {"dim": 1}),
    (movement.transpose, {"perm": (2, 0, 1)}),
    (movement.slice, {"begin": (1, 0, 1), "size": (1, 3, 2), "drop": (0,)}),
    (movement.slice, {"begin": (1, 3, 1), "size": (1, 0, 2), "drop": ()}),
    (movement.strided_slice, {"begin": (1, 2, 3), "end": (2, -1, 0), "strides": (1, -1, -2)}),
    (movement.tile, {"reps": (2, 1, 3)}),
    (movement.reverse, {"dims": (0, 2)}),
    (movement.unpack, {"axis": 1}),
    (movement.split, {"num_or_size_splits": (1, 2), "axis": 1}),
    (movement.broadcast_to, {"shape": (3, 2, 3, 4)}),
]


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "uint8", "complex64"])
@pytest.mark.parametrize(
    ("kernel", "attributes"), MOVEMENT_CALLS, ids=lambda v: getattr(v, "name", "")
)
def test_elements_are_moved_on_the_host(
    run, host_small_arrays, monkeypatch, kernel, attributes, dtype
):
    x = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    results = []
    for most in (1000, 0):
        monkeypatch.setattr(host_small_arrays, "most", most)
        made = run.call(kernel, run.to_device(x), **attributes)
        made = made if isinstance(made, list) else [made]
        assert all(is_hosted(y) == (most > 0) for y in made)
        results.append([run.to_host(y) for y in made])
    for found, expected in zip(*results, strict=True):
        assert_same_bits(found, expected)


def test_many_axes(run, host_small_arrays):
    x = np.float32([1, 2, 3]).reshape((1,) * 39 + (3,))
    tiled = run.call(movement.tile, run.to_device(x), reps=(1,) * 39 + (2,))  # a view of 80 axes
    np.testing.assert_array_equal(run.to_host(tiled).ravel(), [1, 2, 3, 1, 2, 3])
    total = run.call(binary.add, run.to_device(x), run.to_device(x.reshape((1,) * 38 + (3, 1))))
    assert is_hosted(total)
    np.testing.assert_array_equal(run.to_host(total).reshape(3, 3), x.ravel() + x.reshape(3, 1))


def test_arrays_are_joined_on_the_host(run, host_small_arrays):
    x, y = np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]])
    p, q = run.to_device(x), run.to_device(y)
    joined = run.call(movement.concat, p, q, axis=0)
    assert is_hosted(joined)
    assert_same_bits(run.to_host(joined), np.concatenate([x, y]))
    stacked = run.call(movement.pack, q, q, axis=1)
    assert is_hosted(stacked)
    assert_same_bits(run.to_host(stacked), np.stack([y, y], 1))
    on_device = run.call(unary.exp, p)
    assert not is_hosted(run.call(movement.concat, on_device, q, axis=0))
