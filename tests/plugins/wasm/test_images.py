"""Convolution and pooling against loops over windows in NumPy."""

from itertools import product

import numpy as np
import pytest

from plugrad.extend import ArgumentValueError, pool_window, sliding_window
from plugrad_wasm.kernels.convolution import uses_winograd


def iter_patches(image, window):
    """Yield ((row, column) of the output, [((row, column) of the filter, (row, column) of the image)])."""
    (top, _), (left, _) = window.padding
    for i, j in product(*map(range, window.out)):
        cells = []
        for m, n in product(*map(range, window.size)):
            row = i * window.strides[0] - top + m * window.dilations[0]
            column = j * window.strides[1] - left + n * window.dilations[1]
            if 0 <= row < image[0] and 0 <= column < image[1]:
                cells.append(((m, n), (row, column)))
        yield (i, j), cells


def reference_convolution(x, f, window):
    y = np.zeros((x.shape[0], *window.out, f.shape[3]))
    for (i, j), cells in iter_patches(x.shape[1:3], window):
        for (m, n), (row, column) in cells:
            y[:, i, j] += x[:, row, column] @ f[m, n]
    return y


def reference_convolution_gradients(dy, x, f, window):
    dx, df = np.zeros(x.shape), np.zeros(f.shape)
    for (i, j), cells in iter_patches(x.shape[1:3], window):
        for (m, n), (row, column) in cells:
            dx[:, row, column] += dy[:, i, j] @ f[m, n].T
            df[m, n] += x[:, row, column].T @ dy[:, i, j]
    return dx, df


# image, filter, strides, padding, dilations
CONVOLUTION_ARGUMENTS = [
    ((2, 7, 6, 3), (3, 3, 3, 5), (1, 1), "same", (1, 1)),
    ((1, 9, 8, 4), (3, 2, 4, 12), (2, 1), "valid", (1, 1)),
    ((3, 5, 5, 1), (5, 5, 1, 2), (1, 1), "same", (1, 1)),
    ((1, 11, 10, 2), (3, 3, 2, 13), (1, 1), "same", (2, 3)),
    ((1, 8, 8, 17), (1, 1, 17, 30), (1, 1), "valid", (1, 1)),
    ((2, 6, 7, 3), (4, 2, 3, 1), (3, 2), ((2, 1), (0, 3)), (1, 1)),
    ((1, 20, 20, 40), (3, 3, 40, 25), (1, 1), "same", (1, 1)),
    ((2, 1, 9, 3), (1, 4, 3, 6), (1, 2), "same", (1, 1)),
    ((1, 4, 3, 700), (3, 3, 700, 14), (1, 1), "valid", (1, 1)),
    ((2, 13, 10, 16), (3, 3, 16, 20), (1, 1), "same", (1, 1)),
    ((3, 8, 9, 28), (3, 3, 28, 16), (1, 1), ((0, 3), (2, 0)), (1, 1)),
    ((1, 30, 11, 16), (3, 3, 16, 16), (1, 1), "valid", (1, 1)),
    ((1, 18, 21, 1), (2, 2, 1, 8), (1, 1), "valid", (1, 1)),
    ((2, 13, 11, 8), (3, 3, 8, 12), (2, 2), "same", (1, 1)),
    ((1, 19, 21, 16), (5, 5, 16, 100), (1, 1), "same", (1, 1)),
    ((3, 12, 9, 24), (3, 2, 24, 4), (1, 2), ((3, 1), (0, 2)), (2, 3)),
    ((1, 6, 5, 1000), (2, 2, 1000, 8), (1, 1), "valid", (1, 1)),
    ((1, 3, 300, 1), (3, 3, 1, 9), (1, 1), "same", (1, 1)),
    ((3, 8, 8, 1), (3, 3, 1, 16), (1, 1), "same", (1, 1)),
    ((2, 5, 430, 2), (2, 3, 2, 19), (2, 2), ((1, 0), (4, 1)), (1, 1)),
    ((2, 30, 9, 1), (5, 5, 1, 6), (1, 3), "same", (1, 1)),
    ((1, 40, 7, 2), (3, 5, 2, 4), (2, 4), "valid", (1, 1)),
    ((2, 5, 13, 1), (3, 3, 1, 5), (1, 1), ((1, 1), (30, 31)), (1, 30)),
    ((1, 7, 9, 1), (2, 3, 1, 4), (2, 1), ((1, 0), (35, 36)), (1, 35)),
    ((2, 17, 13, 16), (3, 3, 16, 20), (1, 1), "same", (2, 3)),
    ((1, 19, 16, 20), (3, 3, 20, 16), (1, 1), "valid", (2, 2)),
    ((3, 15, 9, 16), (3, 3, 16, 16), (1, 1), ((0, 3), (2, 0)), (3, 1)),
    ((2, 13, 10, 16), (5, 5, 16, 20), (1, 1), "same", (1, 1)),
    ((1, 24, 19, 20), (5, 5, 20, 16), (1, 1), "valid", (2, 2)),
    ((3, 29, 9, 16), (5, 5, 16, 16), (1, 1), ((0, 3), (2, 0)), (3, 1)),
    ((4, 1, 77, 16), (1, 3, 16, 20), (1, 1), "same", (1, 1)),
    ((2, 1, 77, 20), (1, 5, 20, 16), (1, 1), "valid", (1, 3)),
    ((2, 6, 21, 16), (1, 3, 16, 16), (1, 1), ((1, 0), (3, 2)), (2, 2)),
    ((1, 5, 40, 24), (1, 5, 24, 16), (1, 1), "same", (1, 1)),
]


@pytest.mark.parametrize("case", CONVOLUTION_ARGUMENTS, ids=str)
def test_convolution_and_its_gradients(run, rng, case):
    image, filter, strides, padding, dilations = case
    x, f = rng.standard_normal(image), rng.standard_normal(filter)
    window = sliding_window(image[1:3], filter[:2], strides, padding, dilations)
    y = reference_convolution(x, f, window)
    dy = rng.standard_normal(y.shape)
    dx, df = reference_convolution_gradients(dy, x, f, window)
    close = {"rtol": 1e-4, "atol": 1e-4}
    x32, f32, dy32 = (array.astype(np.float32) for array in (x, f, dy))
    np.testing.assert_allclose(run("Conv2D", x32, f32, window=window), y, **close)
    actual = run("Conv2DBackpropInput", dy32, f32, input_shape=image, window=window)
    np.testing.assert_allclose(actual, dx, **close)
    actual = run("Conv2DBackpropFilter", x32, dy32, filter_shape=filter, window=window)
    np.testing.assert_allclose(actual, df, **close)


@pytest.mark.parametrize(
    ("size", "dilations", "is_in_tiles"),
    [
        ((4, 4), (1, 1), True),
        ((4, 3), (1, 1), False),
        ((8, 12), (2, 3), True),
        ((7, 12), (2, 3), False),
        ((8, 11), (2, 3), False),
    ],
)
def test_tiles_have_at_least_four_results_for_each_step_between_cells(size, dilations, is_in_tiles):
    window = sliding_window(size, (3, 3), (1, 1), "same", dilations)
    assert uses_winograd(16, window, (3, 3, 16, 16)) is is_in_tiles


@pytest.mark.parametrize(
    ("filter", "is_in_tiles"),
    [
        ((3, 3, 16, 16), True),
        ((3, 3, 12, 16), False),
        ((3, 3, 18, 16), False),
        ((3, 3, 400, 400), True),
        ((5, 5, 64, 16), True),
        ((5, 5, 16, 68), False),
        ((1, 3, 16, 400), True),
        ((1, 5, 16, 400), True),
        ((3, 1, 16, 16), False),
        ((3, 5, 16, 16), False),
        ((4, 4, 16, 16), False),
    ],
)
def test_filters_of_which_sizes_are_transformed(filter, is_in_tiles):
    window = sliding_window((8, 8), filter[:2], (1, 1), "same", (1, 1))
    assert uses_winograd(1, window, filter) is is_in_tiles


@pytest.mark.parametrize(
    ("size", "stride"), [((3, 3), 1), ((5, 5), 1), ((1, 3), 1), ((1, 5), 1), ((3, 3), 2)], ids=str
)
@pytest.mark.parametrize("channels", [16, 64])
def test_convolution_by_tiles_is_as_accurate_as_products_of_matrices(
    run, rng, size, stride, channels
):
    """Errors are relative to the root of the mean square."""
    shapes = (2, 31, 32, channels), (*size, channels, channels)
    x, f = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    window = sliding_window((31, 32), size, (stride, stride), "same", (1, 1))
    assert uses_winograd(2, window, f.shape)
    y = reference_convolution(x.astype(float), f.astype(float), window)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    dx, df = reference_convolution_gradients(*(v.astype(float) for v in (dy, x, f)), window)
    for actual, right in (
        (run("Conv2D", x, f, window=window), y),
        (run("Conv2DBackpropInput", dy, f, input_shape=x.shape, window=window), dx),
        (run("Conv2DBackpropFilter", x, dy, filter_shape=f.shape, window=window), df),
    ):
        error = actual - right
        scale = np.sqrt(np.mean(right * right))
        assert np.sqrt(np.mean(error * error)) <= 1.2e-6 * scale
        assert np.abs(error).max() <= 1e-5 * scale


@pytest.mark.parametrize("cells", [(3, 3), (5, 5), (1, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("out", [(5, 6), (6, 7), (7, 5), (13, 4), (4, 14)], ids=str)
@pytest.mark.parametrize("channels", [(16, 20), (132, 16)], ids=str)
def test_last_tiles_of_images_with_fewer_results(run, rng, cells, out, channels):
    size = tuple(length + cell - 1 for length, cell in zip(out, cells, strict=True))
    window = sliding_window(size, cells, (1, 1), "valid", (1, 1))
    x, f = rng.standard_normal((5, *size, channels[0])), rng.standard_normal((*cells, *channels))
    y = reference_convolution(x, f, window)
    x, f = x.astype(np.float32), f.astype(np.float32)
    found = run("Conv2D", x, f, window=window)
    error = (found - y) / np.sqrt(np.mean(y * y))
    assert np.sqrt(np.mean(error * error)) <= 1.2e-6
    assert np.abs(error).max() <= 1e-5
    # The bits do not depend on the place in the batch.
    np.testing.assert_array_equal(run("Conv2D", x[1:], f, window=window), found[1:])
    x[2, -1, -1, 3] = np.inf
    spoiled = run("Conv2D", x, f, window=window)
    assert np.isinf(spoiled[2, -1, -1]).all()
    np.testing.assert_array_equal(spoiled[:2], found[:2])
    assert np.isfinite(spoiled[2]).sum() == found[2].size - channels[1]


@pytest.mark.parametrize("cells", [(3, 3), (5, 5), (1, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (2, 3)])
def test_infinite_pixels_spoil_only_the_results_that_depend_on_them(run, rng, dilations, cells):
    x = rng.standard_normal((2, 11, 12, 16)).astype(np.float32)
    f = rng.standard_normal((*cells, 16, 16)).astype(np.float32)
    x[0, 4, 5, 3], x[0, 10, 11, 0], x[1, 0, 7, 2], x[1, 6, 6, 5] = np.inf, -np.inf, np.nan, 3e38
    window = sliding_window((11, 12), cells, (1, 1), "same", dilations)
    with np.errstate(invalid="ignore"):
        right = reference_convolution(x.astype(float), f.astype(float), window)
    near = np.isfinite(right) & (abs(right) > 1e30)  # of the large pixel: some results overflow
    found = run("Conv2D", x, f, window=window)
    np.testing.assert_allclose(found[~near], right[~near], 1e-4, 1e-4)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found[near], right[near].astype(np.float32), 1e-5)


@pytest.mark.parametrize("cells", [(3, 3), (5, 5), (1, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (1, 3)])
def test_an_infinite_pixel_spoils_only_the_cells_of_a_filter_that_meet_it(
    run, rng, dilations, cells
):
    x = rng.standard_normal((2, 11, 12, 20)).astype(np.float32)
    dy = rng.standard_normal((2, 11, 12, 16)).astype(np.float32)
    x[0, 0, 5, 3], x[1, 10, 0, 7], x[0, 5, 5, 11] = np.inf, np.nan, 3e38
    window = sliding_window((11, 12), cells, (1, 1), "same", dilations)
    down, across = dilations
    border = [(step * (n // 2),) * 2 for step, n in zip(dilations, cells, strict=True)]
    padded = np.pad(x.astype(float), ((0, 0), *border, (0, 0)))
    with np.errstate(invalid="ignore"):
        right = [
            np.einsum("nhwc,nhwo->co", padded[:, i : i + 11, j : j + 12], dy.astype(float))
            for i in range(0, cells[0] * down, down)
            for j in range(0, cells[1] * across, across)
        ]
        right = np.reshape(right, (*cells, 20, 16))
    found = run("Conv2DBackpropFilter", x, dy, filter_shape=right.shape, window=window)
    large = abs(right) > 1e30
    np.testing.assert_allclose(found[~large], right[~large], 1e-4, 1e-4)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found[large], right[large].astype(np.float32), 1e-5)


@pytest.mark.parametrize("cells", [(3, 3), (5, 5), (1, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("channels", [4, 16])  # of which only 16 are convolved by tiles
def test_padding_is_zeros_for_infinite_cells_and_gradients_of_results(run, rng, cells, channels):
    """As in other frameworks; beside the gradients of results, there is nothing."""
    x, dy = (rng.standard_normal((1, 12, 12, channels)).astype(np.float32) for _ in range(2))
    f = rng.standard_normal((*cells, channels, channels)).astype(np.float32)
    window = sliding_window((12, 12), cells, (1, 1), "same", (1, 1))
    assert uses_winograd(1, window, f.shape) is (channels == 16)
    infinite_f, infinite_dy = f.copy(), dy.copy()
    infinite_f[0, 0, 0, 2] = infinite_dy[0, 0, 0, 1] = np.inf
    padded = np.pad(x.astype(float), ((0, 0), *window.padding, (0, 0)))
    places = [*np.ndindex(cells)]
    patches = [padded[:, i : i + 12, j : j + 12] for i, j in places]
    with np.errstate(invalid="ignore"):
        y = sum(patch @ infinite_f[place] for place, patch in zip(places, patches, strict=True))
        df = [np.einsum("nhwc,nhwo->co", patch, infinite_dy) for patch in patches]
        dx, _ = reference_convolution_gradients(dy, x, infinite_f, window)
    assert np.isnan(y).any()
    assert np.isnan(df).any()
    assert not np.isnan(dx).any()
    found = run("Conv2D", x, infinite_f, window=window)
    np.testing.assert_allclose(found, y, 1e-4, 1e-4)
    found = run("Conv2DBackpropFilter", x, infinite_dy, filter_shape=f.shape, window=window)
    np.testing.assert_allclose(found, np.reshape(df, f.shape), 1e-4, 1e-4)
    found = run("Conv2DBackpropInput", dy, infinite_f, input_shape=x.shape, window=window)
    np.testing.assert_allclose(found, dx, 1e-4, 1e-4)


def test_infinite_cells_where_only_the_convolution_has_tiles(run, rng):
    """And not its gradient with respect to the images, which have a column less than the results."""
    f = rng.standard_normal((3, 3, 16, 16)).astype(np.float32)
    f[0, 0, 0, 2] = np.inf
    window = sliding_window((12, 7), (3, 3), (1, 1), ((1, 1), (3, 2)), (1, 2))
    assert uses_winograd(1, window, f.shape)
    dy = rng.standard_normal((1, *window.out, 16)).astype(np.float32)
    x = np.zeros((1, 12, 7, 16), np.float32)
    dx, _ = reference_convolution_gradients(dy, x, f, window)
    found = run("Conv2DBackpropInput", dy, f, input_shape=x.shape, window=window)
    np.testing.assert_allclose(found, dx, 1e-4, 1e-4)


@pytest.mark.parametrize("channels", [16, 204])  # of which a product takes 200 rows at a time
@pytest.mark.parametrize("size", [(4, 4), (9, 6), (5, 8)])
def test_gradient_of_filters_by_tiles(run, rng, channels, size):
    x = rng.standard_normal((5, *size, channels)).astype(np.float32)
    dy = rng.standard_normal((5, *size, 20)).astype(np.float32)
    window = sliding_window(size, (3, 3), (1, 1), "same", (1, 1))
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    cells = [padded[:, i : i + size[0], j : j + size[1]] for i in range(3) for j in range(3)]
    right = np.reshape([np.einsum("nhwc,nhwo->co", c, dy) for c in cells], (3, 3, channels, 20))
    found = run("Conv2DBackpropFilter", x, dy, filter_shape=right.shape, window=window)
    np.testing.assert_allclose(found, right, 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("out", "channels", "strides", "dilations", "is_in_tiles"),
    [
        ((4, 4), 16, (2, 2), (1, 1), True),
        ((4, 3), 16, (2, 2), (1, 1), False),
        ((5, 5), 64, (2, 2), (1, 1), False),  # four tiles of 4 x 4 have 2.6 times the results
        ((4, 6), 16, (2, 2), (1, 1), False),
        ((4, 6), 32, (2, 2), (1, 1), True),
        ((7, 7), 16, (2, 2), (1, 1), False),
        ((7, 7), 32, (2, 2), (1, 1), True),
        ((8, 8), 32, (2, 1), (1, 1), False),
        ((8, 8), 32, (2, 2), (2, 2), False),
        ((8, 8), 32, (3, 3), (1, 1), False),
    ],
)
def test_which_strides_have_tiles(out, channels, strides, dilations, is_in_tiles):
    sizes = tuple(
        (n - 1) * stride + 2 * step + 1
        for n, stride, step in zip(out, strides, dilations, strict=True)
    )
    window = sliding_window(sizes, (3, 3), strides, "valid", dilations)
    assert window.out == out
    assert uses_winograd(16, window, (3, 3, channels, channels)) is is_in_tiles


STRIDED_IMAGES = [
    ((17, 17), "valid"),
    ((15, 32), "same"),
    ((14, 16), ((1, 1), (0, 1))),
    ((23, 15), ((2, 0), (1, 2))),
]
"""Sizes with and without a whole number of tiles, and paddings with which the first pixel meets each cell."""


@pytest.mark.parametrize(("size", "padding"), STRIDED_IMAGES, ids=str)
@pytest.mark.parametrize("channels", [(16, 20), (132, 16), (204, 24)], ids=str)
def test_strides_of_two_by_tiles(run, rng, size, padding, channels):
    x, f = rng.standard_normal((6, *size, channels[0])), rng.standard_normal((3, 3, *channels))
    window = sliding_window(size, (3, 3), (2, 2), padding, (1, 1))
    assert uses_winograd(6, window, f.shape)
    y = reference_convolution(x, f, window)
    dy = rng.standard_normal(y.shape)
    dx, df = reference_convolution_gradients(dy, x, f, window)
    x, f, dy = (array.astype(np.float32) for array in (x, f, dy))
    found = run("Conv2D", x, f, window=window)
    np.testing.assert_allclose(found, y, 1e-5, 2e-4)
    whole = run("Conv2DBackpropInput", dy, f, input_shape=x.shape, window=window)
    np.testing.assert_allclose(whole, dx, 1e-5, 2e-4)
    df_found = run("Conv2DBackpropFilter", x, dy, filter_shape=f.shape, window=window)
    np.testing.assert_allclose(df_found, df, 1e-5, 2e-4)
    # The bits do not depend on the place in the batch.
    np.testing.assert_array_equal(run("Conv2D", x[1:], f, window=window), found[1:])
    some = run("Conv2DBackpropInput", dy[1:], f, input_shape=(5, *x.shape[1:]), window=window)
    np.testing.assert_array_equal(some, whole[1:])


@pytest.mark.parametrize(("size", "padding"), STRIDED_IMAGES, ids=str)
def test_infinite_numbers_with_strides_of_two(run, rng, size, padding):
    """Padding is zeros for infinite cells and gradients; beside the gradients of results, there is nothing."""
    window = sliding_window(size, (3, 3), (2, 2), padding, (1, 1))
    assert uses_winograd(5, window, (3, 3, 16, 20))
    rows, columns = window.out
    x = rng.standard_normal((5, *size, 16)).astype(np.float32)
    f = rng.standard_normal((3, 3, 16, 20)).astype(np.float32)
    dy = rng.standard_normal((5, rows, columns, 20)).astype(np.float32)
    infinite_x, infinite_f, infinite_dy = x.copy(), f.copy(), dy.copy()
    infinite_x[0, 3, 4, 3], infinite_x[0, 8, 8, 0], infinite_x[1, 0, 7, 2] = np.inf, -np.inf, np.nan
    infinite_f[0, 0, 0, 2], infinite_f[1, 2, 3, 4] = np.inf, np.nan
    infinite_dy[0, 0, 0, 1], infinite_dy[1, 2, 3, 0] = np.inf, np.nan

    def correlate(x, f, dy):
        """Return the results and the gradient of the filters."""
        (top, _), (left, _) = window.padding
        padded = np.pad(x.astype(float), ((0, 0), (top, 3), (left, 3), (0, 0)))
        ends = 2 * rows - 1, 2 * columns - 1
        patches = [
            padded[:, i : i + ends[0] : 2, j : j + ends[1] : 2] for i in range(3) for j in range(3)
        ]
        y = sum(p @ cell for p, cell in zip(patches, f.reshape(9, 16, 20), strict=True))
        df = [np.einsum("nhwc,nhwo->co", p, dy.astype(float)) for p in patches]
        return y, np.reshape(df, f.shape)

    for some_x, some_f, some_dy in (infinite_x, f, dy), (x, infinite_f, dy), (x, f, infinite_dy):
        with np.errstate(invalid="ignore"):
            y, df = correlate(some_x, some_f, some_dy)
            dx, _ = reference_convolution_gradients(some_dy, x, some_f, window)
        found = run("Conv2D", some_x, some_f, window=window)
        np.testing.assert_allclose(found, y, 1e-4, 1e-4)
        found = run("Conv2DBackpropFilter", some_x, some_dy, filter_shape=f.shape, window=window)
        np.testing.assert_allclose(found, df, 1e-4, 1e-4)
        found = run("Conv2DBackpropInput", some_dy, some_f, input_shape=x.shape, window=window)
        np.testing.assert_allclose(found, dx, 1e-4, 1e-4)


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("filter", [(1, 2), (3, 3), (2, 5), (5, 9)])
def test_patches_of_few_channels(run, rng, channels, stride, filter):
    x = rng.standard_normal((3, 9, 14, channels)).astype(np.float32)
    f = rng.standard_normal((*filter, channels, 6)).astype(np.float32)
    window = sliding_window((9, 14), filter, (stride, stride), "same", (1, 1))
    right = reference_convolution(x.astype(float), f.astype(float), window)
    np.testing.assert_allclose(run("Conv2D", x, f, window=window), right, 1e-5, 1e-5)
    dy = rng.standard_normal(right.shape).astype(np.float32)
    df = run("Conv2DBackpropFilter", x, dy, filter_shape=f.shape, window=window)
    for _ in range(3):  # the gradient in some direction
        f = rng.standard_normal(f.shape)
        slope = (reference_convolution(x.astype(float), f, window) * dy).sum()
        np.testing.assert_allclose((df * f).sum(), slope, 1e-4, 1e-2)


@pytest.mark.parametrize("channels", [1, 2])
def test_pixels_outside_of_all_windows(run, rng, channels):
    x = rng.uniform(size=(2, 7, 8, channels)).astype("float32")
    x[:, :, 7] = np.nan
    f = rng.uniform(size=(3, 3, channels, 9)).astype("float32")
    window = sliding_window(x.shape[1:3], f.shape[:2], (2, 2), "valid", (1, 1))
    y = run("Conv2D", x, f, window=window)
    df = run("Conv2DBackpropFilter", x, y, filter_shape=f.shape, window=window)
    assert np.isfinite(y).all()
    assert np.isfinite(df).all()


@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("is_infinite", [False, True])
def test_depthwise_windows_that_begin_or_end_in_the_padding(
    run, rng, padding, strides, is_infinite
):
    """Padding is zeros, and so NaN times an infinite cell."""
    for dtype, columns, channels in product(("float32", "float64"), (1, 2, 3, 4, 9, 10), (4, 7)):
        if columns + sum(padding) < 3:
            continue
        x = rng.standard_normal((2, 4, columns, channels)).astype(dtype)
        f = rng.standard_normal((3, 3, channels, 1)).astype(dtype)
        if is_infinite:
            f[1, 0, 1], f[1, 2, 2] = np.inf, np.nan
        window = sliding_window((4, columns), (3, 3), strides, ((1, 1), padding), (1, 1))
        padded = np.pad(x.astype(float), ((0, 0), (1, 1), padding, (0, 0)))
        rows, ends = (strides[0] * (window.out[0] - 1) + 1, strides[1] * (window.out[1] - 1) + 1)
        with np.errstate(invalid="ignore"):
            right = sum(
                padded[:, i : i + rows : strides[0], j : j + ends : strides[1]] * f[i, j, :, 0]
                for i, j in np.ndindex(3, 3)
            )
        found = run("DepthwiseConv2dNative", x, f, window=window)
        np.testing.assert_allclose(found, right, 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [1, 4, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 12])
def test_filters_of_nine_cells_slide_over_rows_of_any_width(
    run, rng, width, stride, channels, dtype
):
    x = rng.standard_normal((2, 5, width, channels)).astype(dtype)
    f = rng.standard_normal((3, 3, channels, 1)).astype(dtype)
    x[0, 2, width // 2, 0] = np.nan
    window = sliding_window((5, width), (3, 3), (stride, stride), "same", (1, 1))
    parts = [
        reference_convolution(x[..., c : c + 1].astype(float), f[:, :, c : c + 1], window)
        for c in range(channels)
    ]
    found = run("DepthwiseConv2dNative", x, f, window=window)
    np.testing.assert_allclose(found, np.concatenate(parts, -1), 1e-5, 1e-5)


def test_convolution_of_no_images(run):
    window = sliding_window((4, 4), (3, 3), (1, 1), "same")
    x, f = np.zeros((0, 4, 4, 2), np.float32), np.ones((3, 3, 2, 5), np.float32)
    assert run("Conv2D", x, f, window=window).shape == (0, 4, 4, 5)
    dy = np.zeros((0, 4, 4, 5), np.float32)
    df = run("Conv2DBackpropFilter", x, dy, filter_shape=f.shape, window=window)
    np.testing.assert_array_equal(df, np.zeros(f.shape))


def test_too_large_window_is_rejected(run):
    x, f = np.ones((1, 5, 5, 1), np.float32), np.ones((3, 3, 1, 1), np.float32)
    far = sliding_window((5, 5), (3, 3), (1, 1), "same", (2**30, 2**30))
    with pytest.raises(ArgumentValueError, match="reaches further than"):
        run("Conv2D", x, f, window=far)
    with pytest.raises(ArgumentValueError, match="reaches further than"):
        run("Pool", x, window=far, pooling_type="max")
    far = sliding_window((5, 5), (3, 3), (1, 1), "same", (2**29, 2**29))
    y = run("DepthwiseConv2dNative", x, f, window=far)
    np.testing.assert_array_equal(y, x)


# image, size, strides, padding
POOLING_ARGUMENTS = [
    ((2, 6, 6, 3), (2, 2), (2, 2), "valid"),
    ((1, 7, 5, 70), (3, 3), (2, 2), "same"),
    ((2, 5, 6, 4), (2, 3), (1, 1), "same"),
    ((1, 4, 4, 1), (3, 2), (1, 2), ((1, 1), (0, 1))),
]


def reference_pooling(x, dy, window):
    best = np.zeros((x.shape[0], *window.out, x.shape[3]))
    mean, d_best, d_mean = np.zeros(best.shape), np.zeros(x.shape), np.zeros(x.shape)
    for (i, j), cells in iter_patches(x.shape[1:3], window):
        values = np.stack([x[:, row, column] for _, (row, column) in cells])
        best[:, i, j], mean[:, i, j] = values.max(0), values.mean(0)
        for k, (_, (row, column)) in enumerate(cells):
            d_best[:, row, column] += np.where(values.argmax(0) == k, dy[:, i, j], 0)
            d_mean[:, row, column] += dy[:, i, j] / len(cells)
    return best, mean, d_best, d_mean


@pytest.mark.parametrize("case", POOLING_ARGUMENTS, ids=str)
def test_pooling_and_its_gradients(run, rng, case):
    image, size, strides, padding = case
    x = rng.integers(-3, 3, image).astype(np.float32)  # with ties
    x[0, 1, 1, 0] = np.nan
    window = pool_window(image[1:3], size, strides, padding)
    dy = rng.standard_normal((image[0], *window.out, image[3])).astype(np.float32)
    best, mean, d_best, d_mean = reference_pooling(x, dy, window)
    np.testing.assert_array_equal(run("MaxPool", x, window=window), best)
    np.testing.assert_allclose(run("AvgPool", x, window=window), mean, rtol=1e-5, atol=1e-6)
    actual = run("MaxPoolGrad", dy, x, best.astype(np.float32), window=window)
    np.testing.assert_allclose(actual, d_best, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        run("AvgPoolGrad", dy, x, window=window), d_mean, rtol=1e-5, atol=1e-6
    )


def test_pooling_of_integers(run):
    x = np.arange(-8, 8, dtype=np.int32).reshape(1, 4, 4, 1)
    window = pool_window((4, 4), (2, 2), (2, 2), "valid")
    assert run("MaxPool", x, window=window).ravel().tolist() == [-3, -1, 5, 7]
