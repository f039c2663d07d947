"""Conversions between images and pixels, PNG files and Pillow's images."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

import plugrad
from families.case import Case, ErrorCase
from families.domains import integers, uniform
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import pixels

SHAPES = [(3, 4, 1), (3, 4, 3), (3, 4, 4), (1, 1, 3), (0, 2, 3)]


def as_rgba(picture, opacity):
    """Return an image as RGBA, converted pixel by pixel."""
    picture = picture if picture.ndim == 3 else picture[..., None]
    result = np.zeros((*picture.shape[:2], 4))
    for place in np.ndindex(picture.shape[:2]):
        parts = picture[place].tolist()
        colours = parts * 3 if len(parts) == 1 else parts[:3]
        result[place] = [*colours, parts[3] if len(parts) == 4 else opacity]
    return result


def np_from_pixels(pixels, num_channels=3):
    return as_rgba(pixels, 255)[..., :num_channels]


def np_draw(image, alpha=1.0):
    """Reference for pixels.draw: halves are rounded up."""
    whole = image if image.dtype.kind in "iu" else np.floor(image * 255 + 0.5)
    return as_rgba(whole, np.floor(alpha * 255 + 0.5))


FROM_PIXELS_CASES = [
    Case(
        image.from_pixels,
        np_from_pixels,
        *([integers(0, 255, dtype)], [shape], attrs),
        (dtype,),
        "int32",
    )
    for dtype in ("uint8", "int32")
    for shape in [*SHAPES, (3, 4)]
    for attrs in [{}, *({"num_channels": n} for n in (1, 2, 3, 4))]
]
DRAW_CASES = [
    Case(pixels.draw, np_draw, [domain], [shape], attrs, dtypes, "int32")
    for shape in [*SHAPES, (3, 4)]
    for attrs in ({}, {"alpha": 0.3})
    for domain, dtypes in [
        (uniform(0, 1), ("float32", "float64", "float16")),
        (uniform(0, 127), ("int8", "uint8", "int32", "int64")),
        (integers(0, 255, "int32"), ("int32",)),
    ]
]


def case_id(case):
    return f"{case} {case.domains[0].dtype} {case.shapes[0]}".replace(", ", ",")


@pytest.mark.rows("case", [*FROM_PIXELS_CASES, *DRAW_CASES], ids=case_id)
def test_values(case, backend, rng):
    has = plugrad.which().backend.dtypes()
    for dtype in case.dtypes:
        if dtype in has:
            case.check_values_of_arrays(case.draw(rng, dtype), dtype)


@pytest.mark.rows("case", [*FROM_PIXELS_CASES[5:26:10], *DRAW_CASES[:18:6]], ids=case_id)
def test_values_of_views(case, backend, rng):
    if case.dtypes[0] in plugrad.which().backend.dtypes():
        case.check_values_of_views(rng, case.dtypes[0])


def test_pixels_are_an_array_of_bytes(backend):
    y = image.to_pixels([[0.0, 0.5, 1.0]], alpha=0.5)
    assert type(y) is np.ndarray
    assert y.dtype == np.uint8
    assert y.tolist() == [[[0, 0, 0, 128], [128, 128, 128, 128], [255, 255, 255, 128]]]


def test_pixel_values_out_of_range_by_rounding_errors_are_clipped(backend):
    y = image.to_pixels(np.array([[-1e-6, 1 + 1e-6]], np.float32))
    assert y[0, :, 0].tolist() == [0, 255]


def test_round_trip_between_pixels_and_tensors(backend, rng):
    for channels in (3, 4):
        x = rng.integers(0, 256, (5, 6, channels), dtype="uint8")
        y = image.to_pixels(image.from_pixels(x, channels))
        np.testing.assert_array_equal(y[..., :channels], x)


def test_conversion_of_pillow_images(backend):
    picture = Image.new("RGB", (3, 2), (10, 20, 30))
    assert image.from_pixels(picture).tolist() == [[[10, 20, 30]] * 3] * 2


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "path"])
def test_png_file(channels, kind, backend, rng, tmp_path):
    file = kind(tmp_path / "picture.png")
    x = rng.integers(0, 256, (5, 7, channels), dtype="int32")
    image.write_png(file, plugrad.asarray(x))
    y = image.read_png(file, channels)
    assert y.dtype == "int32"
    np.testing.assert_array_equal(y.numpy(), x)
    with Image.open(file) as picture:
        assert (picture.format, picture.size) == ("PNG", (7, 5))
        assert picture.mode == ("RGBA" if channels == 4 else "RGB")


def test_png_of_floats_in_memory(backend, rng):
    x = rng.uniform(0, 1, (4, 3, 3)).astype("float32")
    file = io.BytesIO()
    image.write_png(file, x)
    file.seek(0)
    assert np.abs(image.read_png(file).numpy() / 255 - x).max() <= 0.5 / 255 + 1e-6


def test_png_is_converted_to_the_channels_that_are_asked_for(backend, tmp_path):
    path = tmp_path / "picture.png"
    colours = [(255, 0, 0), (0, 255, 0)]
    palette = Image.new("P", (2, 1))
    palette.putpalette([part for colour in colours for part in colour])
    palette.putdata([0, 1])
    palette.save(path)
    assert image.read_png(path).tolist() == [[[255, 0, 0], [0, 255, 0]]]
    assert image.read_png(path, 4).tolist() == [[[255, 0, 0, 255], [0, 255, 0, 255]]]
    assert image.read_png(path, 1).tolist() == [[[76], [150]]]


def test_png_of_16_bits_is_refused(backend, tmp_path):
    path = tmp_path / "depth.png"
    Image.fromarray(np.array([[1, 60000]], np.uint16)).save(path)
    with pytest.raises(ArgumentValueError, match=r"depth\.png has gray pixels of 16 bits"):
        image.read_png(path)


def test_error_for_a_file_that_is_no_png(backend, tmp_path):
    with pytest.raises(OSError, match="cannot identify"):
        image.read_png(io.BytesIO(b"not a picture"))
    with pytest.raises(FileNotFoundError):
        image.read_png(tmp_path / "absent.png")


def test_error_without_pillow(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    for call in (
        lambda: image.read_png(io.BytesIO()),
        lambda: image.write_png(io.BytesIO(), [[0.0]]),
    ):
        with pytest.raises(ModuleNotFoundError, match=r'pip install "plugrad\[image\]"'):
            call()


# --- bad input ---------------------------------------------------------------------------------------


def zeros(*shape, dtype="uint8"):
    return plugrad.zeros(shape, dtype=dtype)


ERROR_CASES = [
    ErrorCase(
        lambda: image.from_pixels(np.zeros((2, 2, 3), np.uint8), 5),
        ArgumentValueError,
        ["from_pixels", "num_channels=5", "between 1 and 4"],
    ),
    ErrorCase(
        lambda: image.from_pixels(plugrad.zeros((2, 2, 3))),
        DTypeError,
        ["from_pixels", "float32", "astype('uint8')"],
    ),
    ErrorCase(
        lambda: image.from_pixels(zeros(2, 2, 2, dtype="int32")),
        ShapeError,
        ["FromPixels", "(2, 2, 2)", "1, 3 or 4"],
    ),
    ErrorCase(
        lambda: image.from_pixels(zeros(3, dtype="int32")), ShapeError, ["FromPixels", "(3,)"]
    ),
    ErrorCase(lambda: image.to_pixels(5), ShapeError, ["Draw", "()", "(height, width)"]),
    ErrorCase(lambda: image.to_pixels(plugrad.zeros((2, 2, 2))), ShapeError, ["Draw", "(2, 2, 2)"]),
    ErrorCase(lambda: image.to_pixels([[True]]), DTypeError, ["to_pixels", "bool"]),
    ErrorCase(
        lambda: image.to_pixels([[0.0, 1.5]]),
        ArgumentValueError,
        ["Draw", "float32", "0 to 1", "from 0.0 to 1.5"],
    ),
    ErrorCase(lambda: image.to_pixels([[0.0, -0.5]]), ArgumentValueError, ["Draw", "from -0.5"]),
    ErrorCase(lambda: image.to_pixels([[np.nan]]), ArgumentValueError, ["Draw", "nan"]),
    ErrorCase(
        lambda: image.to_pixels([[0, 256]]), ArgumentValueError, ["Draw", "0 to 255", "0 to 256"]
    ),
    ErrorCase(
        lambda: image.to_pixels([[0.0]], alpha=2), ArgumentValueError, ["to_pixels", "alpha=2"]
    ),
    ErrorCase(
        lambda: image.read_png(io.BytesIO(), 2),
        ArgumentValueError,
        ["read_png", "num_channels=2", "1, 3 or 4"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
