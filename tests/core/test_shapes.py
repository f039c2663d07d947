"""Shape arithmetic against NumPy, and its errors."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentValueError, AxisError, ShapeError
from plugrad.extend import KERNELS
from plugrad.types.shapes import (
    as_shape,
    broadcast,
    broadcast_axes,
    count_elements,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    resolve_shape,
    sliced_shape,
)
from plugrad.types.windows import (
    as_sizes,
    cell_slices,
    is_channels_first,
    parse_padding,
    sliding_window,
    window_margins,
)

SHAPES = [(), (1,), (3,), (2, 1), (1, 3), (2, 3), (0,), (2, 0), (4, 1, 3), (1, 1)]


@pytest.mark.rows(("a", "b"), list(itertools.product(SHAPES, SHAPES)))
def test_broadcasting_matches_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast(a, b)
    else:
        assert broadcast(a, b) == expected
        stretched = broadcast_axes(a, expected)
        assert np.ones(expected).sum(stretched).size == count_elements(a) or 0 in expected


def test_broadcasting_several_shapes():
    assert broadcast((2, 1), (3,), (4, 1, 1)) == (4, 2, 3)
    assert broadcast() == ()
    with pytest.raises(
        ShapeError, match=r"\(2,\) and \(3,\) and \(1,\) .*\[2, 3\] meet on axis -1"
    ):
        broadcast((2,), (3,), (1,))


def test_shape_of_takes_numbers_and_sequences():
    assert as_shape(3) == (3,)
    assert as_shape([2, np.int64(3)]) == (2, 3)
    assert as_shape(()) == ()
    for wrong in (-1, (2, -3)):
        with pytest.raises(ShapeError, match="negative size"):
            as_shape(wrong)
    for wrong in (2.0, "ab", (2, None)):
        with pytest.raises(ShapeError, match="sizes must be integers"):
            as_shape(wrong)


def test_size_of_minus_1_is_inferred():
    assert resolve_shape((2, -1), 6) == (2, 3)
    assert resolve_shape(-1, 6) == (6,)
    assert resolve_shape((), 1) == ()
    assert resolve_shape((0, 3), 0) == (0, 3)
    assert resolve_shape((-1, 3), 0) == (0, 3)
    for shape, size in (((4, -1), 6), ((-1, -1), 6), ((2, 2), 6), ((0, -1), 0), ((-2, 3), 6)):
        with pytest.raises(ShapeError):
            resolve_shape(shape, size)


def test_axes_count_from_either_end():
    assert [normalize_axis(a, 3) for a in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert normalize_axes(None, 3) == (0, 1, 2)
    assert normalize_axes((-1, 0), 3) == (0, 2)
    assert normalize_axes(-1, 3) == (2,)
    assert normalize_axes((), 3) == ()
    for axis in (3, -4):
        with pytest.raises(AxisError, match="out of range for rank 3; use -3 to 2"):
            normalize_axis(axis, 3)
    with pytest.raises(IndexError, match="a 0-d tensor has no axes"):
        normalize_axis(0, 0)
    with pytest.raises(AxisError, match="names an axis twice"):
        normalize_axes((0, -3), 3)
    with pytest.raises(AxisError, match="is not an integer"):
        normalize_axis(1.0, 3)


@pytest.mark.parametrize("keep", [True, False])
def test_reduced_shape_matches_numpy(keep):
    x = np.ones((2, 3, 4))
    for axes in ((), (0,), (1, 2), (0, 1, 2)):
        assert reduced_shape(x.shape, axes, keep) == x.sum(axes, keepdims=keep).shape


def test_sliced_sizes_match_ranges():
    assert sliced_shape((5, 4), (4, 0), (-1, 4), (-2, 3)) == (3, 2)
    assert sliced_shape((5,), (5,), (5,), (1,)) == (0,)
    for begin, end, strides in (((0,), (6,), (1,)), ((0,), (3,), (0,)), ((0, 0), (1, 1), (1, 1))):
        with pytest.raises(ShapeError):
            sliced_shape((5,), begin, end, strides)


@pytest.mark.parametrize("size", [1, 4, 5, 7])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_window_output_sizes(size, length, stride, dilation):
    extent = (length - 1) * dilation + 1
    arguments = (size, size), (length, length), (stride, stride)
    same = sliding_window(*arguments, "same", (dilation, dilation))
    assert same.out == (-(-size // stride),) * 2
    before, after = same.padding[0]
    assert after - before in (0, 1)
    if extent <= size:
        stops = len(range(0, size - extent + 1, stride))
        assert sliding_window(*arguments, "valid", (dilation, dilation)).out == (stops, stops)
    else:
        with pytest.raises(
            ShapeError, match="use a smaller window, more padding, or padding='same'"
        ):
            sliding_window(*arguments, "valid", (dilation, dilation))
    padded = sliding_window(*arguments, ((3, 1), (3, 1)), (dilation, dilation))
    assert padded.out[0] == len(range(0, size + 4 - extent + 1, stride))


def test_last_partial_stride_is_rounded_as_asked():
    outs = [
        sliding_window((6, 6), (3, 3), (2, 2), "valid", rounding=r).out
        for r in (None, "floor", "ceil")
    ]
    assert outs == [(2, 2), (2, 2), (3, 3)]
    # 1.5 and 2.5 strides are rounded up
    assert sliding_window((6, 8), (3, 3), (2, 2), "valid", rounding="round").out == (3, 4)


def test_cells_of_a_filter_meet_slices_of_the_padded_image():
    window = sliding_window((5, 4, 1), (2, 1, 1), (2, 3, 1), ((1, 0), (0, 0), (0, 0)), (3, 1, 1))
    assert window_margins((5, 4, 1), window) == ((1, 0), (0, 0), (0, 0))
    cells = [((0, 0, 0), (0, 0, 0), (4, 6, 1)), ((1, 0, 0), (3, 0, 0), (7, 6, 1))]
    assert list(cell_slices(window)) == cells
    beyond = sliding_window((6,), (3,), (2,), "valid", rounding="ceil")
    assert window_margins((6,), beyond) == ((0, 1),)


def test_a_window_has_one_size_for_each_axis():
    for wrong in (
        ((3, 3), (2,), (1, 1), "valid"),
        ((3, 3), (2, 2), (1,), "same"),
        ((3, 3), (2, 2), (1, 1), ((1, 1),)),
        ((3, 3), (2, 2), (1, 1), "valid", (1, 1, 1)),
    ):
        with pytest.raises(ArgumentValueError, match=r"the 2 axes of an image of \(3, 3\)"):
            sliding_window(*wrong)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        *((name, {"axis": (-1,)}) for name in ("Sum", "Prod", "Mean", "Min")),
        *(
            (name, {"axis": -1})
            for name in ("ArgMax", "LogSoftmax", "Cumsum", "Sort", "Concat", "Pack", "Unpack")
        ),
        ("Max", {"reduction_indices": (-1,)}),
        ("Sum", {"axis": (2, 0)}),
        ("Softmax", {"dim": -1}),
        ("Reverse", {"dims": (0, -1)}),
        ("ExpandDims", {"dim": -1}),
        ("SplitV", {"num_or_size_splits": (2, 2), "axis": -1}),
    ],
)
def test_kernels_take_axes_sorted_and_from_the_front(name, attrs):
    with pytest.raises(AxisError, match=rf"^{name}: .*=.* must be .* for a kernel"):
        KERNELS[name].infer(plugrad.ones((2, 3, 4)), **attrs)


def test_data_formats_of_each_rank():
    assert is_channels_first("NCHW", 2, "op")
    assert not is_channels_first("NDHWC", 3, "op")
    with pytest.raises(ArgumentValueError, match="op: data_format='NHWC' must be 'NDHWC' or"):
        is_channels_first("NHWC", 3, "op")


def test_sizes_and_paddings():
    assert as_sizes(3, 2, "strides") == as_sizes([3, 3], 2, "strides") == (3, 3)
    assert parse_padding(2, 2, "op") == ((2, 2), (2, 2))
    assert parse_padding([[1, 2], [0, 3]], 2, "op") == ((1, 2), (0, 3))
    assert parse_padding(1, 3, "op") == ((1, 1), (1, 1), (1, 1))
    assert parse_padding("same", 2, "op") == "same"
    for wrong in (0, (1, 2, 3), 1.5, (1, 0), "ab"):
        with pytest.raises(ArgumentValueError, match="strides="):
            as_sizes(wrong, 2, "strides")
    for wrong in (-1, "full", (1, 2, 3), [[1], [2]], True, [[1, -1], [0, 0]]):
        with pytest.raises(ArgumentValueError, match="op: padding="):
            parse_padding(wrong, 2, "op")
