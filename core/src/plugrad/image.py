"""Images in NHWC order: sizes, crops, transforms, colours, boxes, and files."""

from plugrad.ops.detection import (
    non_max_suppression as non_max_suppression,
    non_max_suppression_padded as non_max_suppression_padded,
    non_max_suppression_with_score as non_max_suppression_with_score,
)
from plugrad.ops.image import (
    crop_and_resize as crop_and_resize,
    flip_left_right as flip_left_right,
    grayscale_to_rgb as grayscale_to_rgb,
    rgb_to_grayscale as rgb_to_grayscale,
    rotate_with_offset as rotate_with_offset,
    threshold as threshold,
    transform as transform,
)
from plugrad.ops.pixels import (
    from_pixels as from_pixels,
    read_png as read_png,
    to_pixels as to_pixels,
    write_png as write_png,
)
from plugrad.ops.resize import (
    resize_bilinear as resize_bilinear,
    resize_nearest_neighbor as resize_nearest_neighbor,
)
from plugrad.ops.sampling import (
    grid_sample as grid_sample,
    resize as resize,
)
