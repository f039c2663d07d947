"""Rules about images, boxes, pixels and texts."""

from collections.abc import Callable
from typing import Any

import numpy as np

from consistency.rules.reasons import INTEGERS_BECOME_FLOATS, MORE_DTYPES_EXIST
from consistency.rules.row import accepts, call_op, changed_arguments, ones, ones_like, rejects
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from properties.calls import float32_array, int32_array

NMS_WITHOUT_SIGMA = """
    image.non_max_suppression image.non_max_suppression_async
    image.non_max_suppression_padded image.non_max_suppression_padded_async
"""
NMS_WITH_SIGMA = "image.non_max_suppression_with_score image.non_max_suppression_with_score_async"
NON_MAX_SUPPRESSION_OPS = f"{NMS_WITHOUT_SIGMA} {NMS_WITH_SIGMA}"
RESIZE_OPS = "image.resize_bilinear image.resize_nearest_neighbor"
FROM_PIXELS_OPS = "browser.from_pixels browser.from_pixels_async"
TO_PIXELS_OPS = "browser.to_pixels browser.draw"


def called_with_float32_ones(op: str, names: list[str]) -> Callable[..., Any]:
    """Return a function that calls an op with float32 ones in place of some arguments."""
    change = {name: ones_like("float32") for name in names}
    return lambda **_: call_op(op, changed_arguments(op, change)).numpy()


PIXEL_RULES = (
    *(
        rejects(
            *("channels", FROM_PIXELS_OPS, {"num_channels": count}, ArgumentValueError),
            *("from_pixels: num_channels", f"={count}", "must be between 1 and 4"),
        )
        for count in (0, 5)
    ),
    rejects(
        *("kind of pixels", FROM_PIXELS_OPS, {"pixels": None}, ArgumentError),
        *("from_pixels: pixels", "not NoneType", "must be a tensor, a number, an array"),
    ),
    rejects(
        *("kind of pixels", FROM_PIXELS_OPS, {"pixels": ones(2, 2)}, DTypeError),
        *("from_pixels: pixels", "are float32", "as after astype('uint8')"),
    ),
    *(
        rejects(
            *(label, op, {"image": ones(*shape)}, ShapeError),
            *("Draw: an image", f"not {shape}", "(height, width) or (height, width, 1, 3 or 4"),
        )
        for op, label in (("browser.to_pixels", "rank and depth"), ("browser.draw", "as pixels"))
        for shape in ((1, 2, 2, 3), (2, 2, 2))
    ),
    *(
        rejects(
            *(label, op, {"image": image}, ArgumentValueError),
            *("Draw: an image", f"these go from {values}", f"has values from 0 to {most}"),
        )
        for op, label in (("browser.to_pixels", "dtype and range"), ("browser.draw", "as pixels"))
        for image, values, most in (
            (ones(2, 2) * np.float32(1.5), "1.5 to 1.5", 1),
            (int32_array([300]), "300 to 300", 255),
        )
    ),
    rejects(
        *("dtype and range", "browser.to_pixels", {"image": ones_like("complex64")}, DTypeError),
        *("to_pixels (image)", "does not take complex64", "as in x.astype(plugrad.float32)"),
    ),
    *(
        rejects(
            *("as pixels", "browser.draw", {"alpha": alpha}, ArgumentValueError),
            *("to_pixels: alpha", f"={alpha}", "must be between 0 and 1"),
        )
        for alpha in (-0.5, 1.5)
    ),
)

IMAGE_RULES = (
    *(
        rejects(
            *("rank", op, {"image": ones(4, 4)}, ShapeError),
            *(f"{name}: image", "not (4, 4)", "shape (batch, height, width, channels)"),
        )
        for op, name in (
            ("image.crop_and_resize", "CropAndResize"),
            ("image.flip_left_right", "FlipLeftRight"),
            ("image.rotate_with_offset", "RotateWithOffset"),
            ("image.transform", "transform"),
        )
    ),
    *(
        rejects(
            *("boxes", "image.crop_and_resize", {name: value}, ShapeError),
            *(
                f"CropAndResize: … {name}",
                str(value.shape),
                "boxes of shape (number, 4) need one box_ind each",
            ),
        )
        for name, value in (
            ("boxes", float32_array(0, 0, 1, 1)),
            ("boxes", float32_array([0, 0, 1])),
            ("box_ind", int32_array(0, 0)),
        )
    ),
    *(
        rejects(
            *("crop_size", "image.crop_and_resize", {"crop_size": size}, ArgumentValueError),
            *("crop_and_resize: crop_size", f"={size}", "must be one or 2 integers of at least 1"),
        )
        for size in ((2, 2, 2), (0, 2))
    ),
    rejects(
        *("method", "image.crop_and_resize", {"method": "cubic"}, ArgumentValueError),
        *("crop_and_resize: method", "='cubic'", "must be 'bilinear' or 'nearest'"),
    ),
    rejects(
        *("whole box_ind", "image.crop_and_resize", {"box_ind": ones_like("float32")}, DTypeError),
        *("crop_and_resize: box_ind", "are float32", "as after astype('int32')"),
    ),
    *(
        accepts(
            *(f"{name} is float", op, {name: ones_like("int32")}),
            *(INTEGERS_BECOME_FLOATS, called_with_float32_ones(op, [name])),
        )
        for op, name in (
            ("image.crop_and_resize", "boxes"),
            ("image.non_max_suppression", "boxes"),
            ("image.non_max_suppression", "scores"),
            ("image.rotate_with_offset", "image"),
            ("image.transform", "image"),
            ("image.transform", "transforms"),
        )
    ),
    accepts(
        *("image is float", "image.flip_left_right", {"image": ones_like("int32")}),
        *(MORE_DTYPES_EXIST, np.ones((2, 4, 4, 3), "int32")),
    ),
    *(
        rejects(
            *("rank and channels", "image.grayscale_to_rgb", {"image": ones(*shape)}, ShapeError),
            *(
                "{op}: image",
                f"the shape is {shape}",
                "must have 2 axes or more, the last of size 1",
            ),
        )
        for shape in ((2, 2), (1,))
    ),
    *(
        rejects(
            *("rank and channels", "image.rgb_to_grayscale", {"image": ones(*shape)}, ShapeError),
            *("{op}: image", f"the shape is {shape}", "must have 2 to 6 axes, the last of size 3"),
        )
        for shape in ((2, 2), (3,), (1, 1, 1, 1, 1, 1, 3))
    ),
    rejects(
        *("rank", RESIZE_OPS, {"images": ones(4, 4)}, ShapeError),
        *("{op}: images", "the shape is (4, 4)", "must have 3 or 4 axes"),
    ),
    rejects(
        *("size", RESIZE_OPS, {"size": (3, 5, 2)}, ArgumentValueError),
        *("{op}: size", "=(3, 5, 2)", "must be one or 2 integers of at least 1"),
    ),
    rejects(
        *("conventions", RESIZE_OPS, {"align_corners": True, "half_pixel_centers": True}),
        *(ArgumentValueError, "{op}: align_corners … half_pixel_centers", "=True", "choose one"),
    ),
    *(
        rejects(
            *("dtype", "image.resize_nearest_neighbor", {"images": ones_like(dtype)}, DTypeError),
            *("{op} (images)", f"does not take {dtype}", "as in x.astype(plugrad.float32)"),
        )
        for dtype in ("bool", "complex64")
    ),
    *(
        rejects(
            *("image", "image.threshold", {"image": ones(*shape)}, ShapeError),
            *(
                "threshold: image",
                f"not {shape}",
                "must have shape (height, width, 1 or 3 channels)",
            ),
        )
        for shape in ((4, 4), (4, 4, 2))
    ),
    rejects(
        *("image", "image.threshold", {"image": ones_like("bool")}, DTypeError),
        *("threshold: image", "is bool", "it must hold floats or integers"),
    ),
    rejects(
        *("method", "image.threshold", {"method": "mean"}, ArgumentValueError),
        *("threshold: method", "='mean'", "must be 'binary' or 'otsu'"),
    ),
    *(
        rejects(
            *("transforms", "image.transform", {"transforms": ones(*shape)}, ShapeError),
            *("Transform: transforms", f"not {shape}", "must have shape (1, 8) or (2, 8)"),
        )
        for shape in ((1, 7), (3, 8))
    ),
    rejects(
        *("output_shape", "image.transform", {"output_shape": (3, 3, 3)}, ArgumentValueError),
        *("transform: output_shape", "=(3, 3, 3)", "must be one or 2 integers of at least 1"),
    ),
)

BOX_RULES = (
    *(
        rejects(
            *("boxes and scores", NON_MAX_SUPPRESSION_OPS, {"boxes": ones(*shape)}, ShapeError),
            *("{op}: boxes", f"the shape is {shape}", "must be rows (y1, x1, y2, x2)"),
        )
        for shape in ((2, 3), (4,))
    ),
    *(
        rejects(
            *("boxes and scores", NON_MAX_SUPPRESSION_OPS, {"scores": ones(*shape)}, ShapeError),
            *("{op}: scores", f"have shape {shape}", "must be one for each of the 2 boxes"),
        )
        for shape in ((3,), (2, 1))
    ),
    *(
        rejects(
            *("threshold", NON_MAX_SUPPRESSION_OPS, {"iou_threshold": value}, ArgumentValueError),
            *("{op}: iou_threshold", f"={value}", "must be between 0 and 1"),
        )
        for value in (-0.5, 1.5)
    ),
    *(
        rejects(
            *("sigma", NMS_WITH_SIGMA, {"soft_nms_sigma": value}, ArgumentValueError),
            *("{op}: soft_nms_sigma", f"={value}", "must be between 0 and 1"),
        )
        for value in (-0.5, 1.5)
    ),
    # Only the functions that return scores lower them.
    rejects(
        *("sigma", NMS_WITHOUT_SIGMA, {"soft_nms_sigma": 1.5}, TypeError),
        *("{op}()", "'soft_nms_sigma'", "got an unexpected keyword argument"),
    ),
)

DTYPE_RULES = (
    *(
        rejects(
            *("texts", op, {name: ones_like("float32")}, DTypeError),
            *(f"{kernel}", "does not take float32; it takes string", "as in str(number)"),
        )
        for op, name, kernel in (
            ("string.static_regex_replace", "input", "StaticRegexReplace"),
            ("string.string_split", "input", "StringSplit"),
            ("string.string_to_hash_bucket_fast", "input", "StringToHashBucketFast"),
            ("string.string_n_grams", "data", "StringNGrams"),
        )
    ),
    rejects(
        *("data and splits", "string.string_n_grams", {"data": np.array([["a"]], object)}),
        *(ShapeError, "StringNGrams: data and data_splits", "(1, 1)", "must have one axis"),
    ),
    rejects(
        *(
            "data and splits",
            "string.string_n_grams",
            {"data_splits": float32_array(0, 2)},
            DTypeError,
        ),
        *("string_n_grams: data_splits", "are float32", "as after astype('int32')"),
    ),
    rejects(
        *("delimiter", "string.string_split", {"delimiter": 1.0}, ArgumentError),
        *("string_split: delimiter", "it holds 1.0", "must hold strings only"),
    ),
    *(
        rejects(
            *("ranks", "string.string_split", {name: np.array(value, object)}, ShapeError),
            *(f"StringSplit: … {name}", str(shape), "input must have one axis and delimiter none"),
        )
        for name, value, shape in (
            ("input", [["a"]], (1, 1)),
            ("delimiter", ["a", "b"], (2,)),
        )
    ),
    rejects(
        *("buckets", "string.string_to_hash_bucket_fast", {"num_buckets": 0}, ArgumentValueError),
        *("StringToHashBucketFast: num_buckets", "=0", "must be from 1 to"),
    ),
)

ALL_IMAGE_RULES = (*PIXEL_RULES, *IMAGE_RULES, *BOX_RULES, *DTYPE_RULES)
