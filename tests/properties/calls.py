"""A call that works for each public op: arrays are its inputs, everything else its attributes.

Elementwise ops have theirs from the tables of families; the calls of the others are written here.
"""

import inspect
from collections import defaultdict

import numpy as np

import plugrad
from consistency.coverage import KERNEL_FAMILIES, family_cases

PUBLIC_NAMESPACES = (
    "fft",
    "fused",
    "image",
    "linalg",
    "losses",
    "random",
    "signal",
    "sparse",
    "string",
)
OPS_WITH_FILES = {"image.read_png", "image.write_png"}


def public_ops():
    """Return the public ops by name; the example of an op in a namespace shows how it is called."""
    found = {
        name: op
        for name in dir(plugrad)
        if inspect.isfunction(op := getattr(plugrad, name))
        and op.__module__.startswith("plugrad.ops")
    }
    for space in PUBLIC_NAMESPACES:
        for name, op in vars(getattr(plugrad, space)).items():
            if callable(op) and f"plugrad.{space}.{name}(" in (op.__doc__ or ""):
                found[f"{space}.{name}"] = op
    return {n: op for n, op in found.items() if n not in OPS_WITH_FILES and not inspect.isclass(op)}


def calls_from_cases():
    """Return calls of ops by name, from the test cases that give each argument."""
    names, found = defaultdict(list), {}
    for name, op in public_ops().items():
        names[op].append(name)
    for case in [case for family in KERNEL_FAMILIES for case in family_cases(family)]:
        if has_every_argument(case):
            for name in names[case.op]:
                found.setdefault(name, arguments_of_case(case))
    return found


def has_every_argument(case):
    """Whether a test case gives each argument of its op."""
    if case.shapes or not inspect.isfunction(case.op):
        return False
    return len(case.domains) + len(case.attrs) == len(inspect.signature(case.op).parameters)


def arguments_of_case(case):
    """Return the arguments of a test case."""
    small = case.with_shapes(*[(2, 3)] * len(case.domains))
    return small.draw(np.random.default_rng(0), case.dtypes[0]), case.attributes(case.dtypes[0])


FLOATS = np.arange(6, dtype="float32").reshape(2, 3) / 8 + 0.125
MATRIX = np.array([[2, 0.5], [0.5, 1]], "float32")
INTEGERS = np.array([[0, 1, 2], [2, 1, 0]], "int32")
BOOLS = np.array([[True, False, True], [False, True, True]])
COMPLEX = (FLOATS + 1j).astype("complex64")
VECTOR = np.array([1, 2, 3], "float32")
STRINGS = np.array(["a b", "c"], np.dtypes.StringDType())
IMAGES = np.linspace(0, 1, 2 * 4 * 4 * 3, dtype="float32").reshape(2, 4, 4, 3)
SEQUENCES = IMAGES[:, :, 0]
VOLUMES = np.linspace(0, 1, 2 * 3 * 3 * 3 * 2, dtype="float32").reshape(2, 3, 3, 3, 2)
FILTERS = np.ones((2, 2, 3, 2), "float32")
LABELS = np.array([[1, 0, 0], [0, 1, 0]], "float32")
PERMUTATION = np.arange(3)


def int32_array(*x):
    return np.array(x, "int32")


def float32_array(*x):
    return np.array(x, "float32")


def lstm_cell(data, c, h):
    return plugrad.basic_lstm_cell(
        1.0, np.ones((2 + 2, 8), "float32"), np.ones(8, "float32"), data, c, h
    )


def arguments(*args, **kwargs):
    return args, kwargs


EXPLICIT_CALLS = {}


def add_calls(names, *args, **kwargs):
    for name in names.split():
        EXPLICIT_CALLS[name] = args, kwargs


add_calls("sum prod", FLOATS, axis=0, keepdims=True, dtype="float32")
add_calls(
    "max min mean all any count_nonzero euclidean_norm log_sum_exp moments",
    FLOATS,
    axis=0,
    keepdims=True,
)
add_calls("complex", FLOATS, FLOATS)
add_calls("std var", FLOATS, axis=0, keepdims=True, correction=1.0)
add_calls("nanvar nanstd", FLOATS, axis=0, correction=1.0, keepdims=True)
add_calls("nansum nanprod nanmax nanmin nanmean median nanmedian", FLOATS, axis=0, keepdims=True)
add_calls("quantile nanquantile", FLOATS, 0.5, axis=0, keepdims=True, method="linear")
add_calls("linalg.eig linalg.eigvals linalg.expm linalg.logm linalg.lu linalg.sqrtm", MATRIX)
add_calls("argmax argmin nanargmax nanargmin", FLOATS, axis=0, keepdims=True)
add_calls("nancumprod nancumsum", FLOATS, axis=0, dtype="float32")
add_calls("diag", VECTOR)
add_calls(
    "unique_all unique_counts unique_inverse unique_values nonzero matrix_transpose stop_gradient",
    FLOATS,
)
add_calls(
    "cumulative_sum cumulative_prod",
    FLOATS,
    axis=0,
    dtype="float32",
    include_initial=False,
    exclusive=False,
    reverse=True,
)
add_calls("sort argsort", FLOATS, axis=0, descending=True, stable=True)
add_calls("empty ones zeros", (2, 3), dtype="float32", device="cpu")
add_calls("empty_like ones_like zeros_like", FLOATS, dtype="float32", device="cpu")
add_calls("tril triu", FLOATS, k=1)
add_calls("softmax log_softmax", FLOATS, axis=-1)
add_calls("glu", float32_array(2, 4), axis=-1)
add_calls("lower_bound upper_bound", FLOATS, FLOATS)
add_calls("max_pool avg_pool", IMAGES, 2, 1, "valid", dim_rounding_mode="floor")
add_calls("max_pool3d avg_pool3d", VOLUMES, 2, 1, "valid", dim_rounding_mode="floor")
add_calls("fft.fft fft.ifft fft.irfft fft.hfft", COMPLEX, n=4, axis=-1, norm="ortho")
add_calls("fft.rfft fft.ihfft", FLOATS, n=4, axis=-1, norm="ortho")
add_calls("fft.rfftn", FLOATS, s=(2, 4), axes=(0, 1), norm="ortho")
add_calls("fft.fftn fft.ifftn fft.irfftn", COMPLEX, s=(2, 4), axes=(0, 1), norm="ortho")
add_calls("fft.fftfreq fft.rfftfreq", 4, d=1.0, dtype="float32", device="cpu")
add_calls("fft.fftshift fft.ifftshift", FLOATS, axes=0)
add_calls(
    "losses.absolute_difference losses.hinge_loss losses.mean_squared_error",
    LABELS,
    FLOATS,
    FLOATS,
    reduction="mean",
)
add_calls(
    "linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.slogdet "
    "linalg.svdvals",
    MATRIX,
)
add_calls("random.standard_normal", (2, 3), dtype="float32", device="cpu")
add_calls(
    "random.normal random.truncated_normal random.uniform",
    (2, 3),
    0.0,
    1.0,
    dtype="float32",
    device="cpu",
)
add_calls("signal.hamming_window signal.hann_window", 4, dtype="float32")
add_calls(
    "image.resize_bilinear image.resize_nearest_neighbor",
    IMAGES,
    (3, 5),
    align_corners=True,
    half_pixel_centers=False,
)
EXPLICIT_CALLS |= {
    "image.resize": arguments(
        *(IMAGES, (3, 5), "cubic"), align_corners=False, antialias=True, cubic_coefficient=-0.5
    ),
    "image.grid_sample": arguments(
        *(IMAGES, np.full((2, 2, 3, 2), 0.25, "float32"), "linear"),
        padding_mode="border",
        align_corners=False,
    ),
}
CONVOLUTION_OPTIONS = {"data_format": "NHWC", "dilations": 1, "dim_rounding_mode": "floor"}
FUSED_OPTIONS = {
    "bias": float32_array(1, 2),
    "activation": "prelu",
    "prelu_activation_weights": float32_array(1, 2),
    "leakyrelu_alpha": 0.2,
}
EXPLICIT_CALLS |= {
    "add_n": arguments([FLOATS, FLOATS]),
    "gelu": arguments(FLOATS, approximate=True),
    "arange": arguments(0, 5, 1, dtype="int32", device="cpu"),
    "asarray": arguments(FLOATS, dtype="float32", device="cpu", copy=True),
    "astype": arguments(FLOATS, "int32", copy=True, device="cpu"),
    "basic_lstm_cell": arguments(
        1.0,
        np.ones((4, 8), "float32"),
        np.ones(8, "float32"),
        np.ones((1, 2), "float32"),
        np.ones((1, 2), "float32"),
        np.ones((1, 2), "float32"),
    ),
    "multi_rnn_cell": arguments(
        [lstm_cell],
        np.ones((1, 2), "float32"),
        [np.ones((1, 2), "float32")],
        [np.ones((1, 2), "float32")],
    ),
    "attention": arguments(FLOATS, FLOATS, FLOATS, np.ones((2, 2), bool), scale=0.5),
    "batch_norm_training": arguments(FLOATS, VECTOR, VECTOR, axis=-1, variance_epsilon=0.1),
    "layer_norm": arguments(FLOATS, offset=VECTOR, scale=VECTOR, axis=-1, variance_epsilon=0.1),
    "batch_norm": arguments(FLOATS, VECTOR, VECTOR, VECTOR, VECTOR, variance_epsilon=0.1),
    "batch_to_space_nd": arguments(IMAGES[:2].repeat(2, 0), [2, 2], [[0, 1], [1, 0]]),
    "space_to_batch_nd": arguments(IMAGES, [2, 2], [[0, 2], [1, 1]]),
    "bincount": arguments(int32_array(1, 2, 2), VECTOR, size=3),
    "dense_bincount": arguments(INTEGERS, FLOATS, size=3, binary_output=False),
    "boolean_mask": arguments(FLOATS, BOOLS[0], 1),
    "broadcast_arrays": arguments(FLOATS, VECTOR),
    "broadcast_shapes": arguments((2, 1), (1, 3)),
    "broadcast_to": arguments(FLOATS, (2, 2, 3)),
    "clip": arguments(FLOATS, 0.0, 1.0),
    "concat": arguments([FLOATS, FLOATS], axis=0),
    "stack": arguments([FLOATS, FLOATS], axis=0),
    "confusion_matrix": arguments(int32_array(0, 1), int32_array(1, 1), 2),
    "conv1d": arguments(
        SEQUENCES,
        np.ones((2, 3, 2), "float32"),
        1,
        "valid",
        data_format="NWC",
        dilation=1,
        dim_rounding_mode="floor",
    ),
    "conv1d_transpose": arguments(
        SEQUENCES,
        np.ones((2, 2, 3), "float32"),
        (2, 5, 2),
        1,
        "valid",
        data_format="NWC",
        dilation=1,
        dim_rounding_mode="floor",
        groups=1,
        output_padding=0,
    ),
    "conv2d": arguments(IMAGES, FILTERS, 1, "valid", **CONVOLUTION_OPTIONS),
    "conv2d_transpose": arguments(
        IMAGES, np.ones((2, 2, 2, 3), "float32"), (2, 5, 5, 2), 1, "valid", **CONVOLUTION_OPTIONS
    ),
    "conv3d": arguments(
        VOLUMES,
        np.ones((2, 2, 2, 2, 3), "float32"),
        1,
        "valid",
        data_format="NDHWC",
        dilations=1,
        dim_rounding_mode="floor",
    ),
    "conv3d_transpose": arguments(
        VOLUMES,
        np.ones((2, 2, 2, 3, 2), "float32"),
        (2, 4, 4, 4, 3),
        1,
        "valid",
        data_format="NDHWC",
        dilations=1,
        dim_rounding_mode="floor",
    ),
    "depthwise_conv2d": arguments(IMAGES, FILTERS, 1, "valid", **CONVOLUTION_OPTIONS),
    "separable_conv2d": arguments(
        IMAGES,
        FILTERS,
        np.ones((1, 1, 6, 2), "float32"),
        1,
        "valid",
        data_format="NHWC",
        dilations=1,
    ),
    "dilation2d": arguments(
        IMAGES, np.ones((2, 2, 3), "float32"), 1, "valid", data_format="NHWC", dilations=1
    ),
    "pool": arguments(IMAGES, (2, 2), "max", 1, "valid", dilations=1, dim_rounding_mode="floor"),
    "max_pool_with_argmax": arguments(IMAGES, 2, 1, "valid", include_batch_in_index=True),
    "max_unpool": arguments(
        IMAGES[:, :1, :1],
        np.array([[[[0, 1, 2]]], [[[3, 4, 5]]]], "int32"),
        (2, 4, 4, 3),
        include_batch_in_index=False,
        data_format="NHWC",
    ),
    "depth_to_space": arguments(np.ones((1, 2, 2, 4), "float32"), 2, "NHWC"),
    "diff": arguments(FLOATS, axis=-1, n=1, prepend=FLOATS, append=FLOATS),
    "dot": arguments(VECTOR, VECTOR),
    "vecdot": arguments(FLOATS, FLOATS, axis=-1),
    "matmul": arguments(FLOATS, FLOATS, False, True),
    "tensordot": arguments(FLOATS, FLOATS, axes=2),
    "dropout": arguments(FLOATS, 0.5, (2, 1), seed=3),
    "einsum": arguments("ij,kj->ik", FLOATS, FLOATS),
    "ensure_shape": arguments(FLOATS, (2, None)),
    "expand_dims": arguments(FLOATS, 0),
    "eye": arguments(2, 3, k=1, dtype="float32", device="cpu"),
    "flip": arguments(FLOATS, axis=0),
    "from_dlpack": arguments(FLOATS, device="cpu", copy=True),
    "full": arguments((2, 3), 1.0, dtype="float32", device="cpu"),
    "full_like": arguments(FLOATS, 1.0, dtype="float32", device="cpu"),
    "gather_nd": arguments(FLOATS, int32_array([0, 1], [1, 2])),
    "in_top_k": arguments(FLOATS, int32_array(0, 1), 1),
    "isin": arguments(FLOATS, VECTOR, invert=False),
    "linspace": arguments(0.0, 1.0, 5, dtype="float32", device="cpu", endpoint=True),
    "local_response_normalization": arguments(IMAGES, 2, 1.0, 1.0, 0.5),
    "meshgrid": arguments(VECTOR, VECTOR, indexing="xy"),
    "mirror_pad": arguments(FLOATS, [(1, 1), (1, 1)], "reflect"),
    "moveaxis": arguments(FLOATS, 0, 1),
    "moving_average": arguments(FLOATS, FLOATS, 0.5, step=2),
    "one_hot": arguments(INTEGERS, 3, 1, 0, "float32"),
    "pad": arguments(FLOATS, [(1, 1), (0, 1)], 0),
    "permute_dims": arguments(FLOATS, (1, 0)),
    "ragged_gather": arguments([int32_array(0, 1, 3)], VECTOR, int32_array(1, 0), 1),
    "ragged_range": arguments(int32_array(0, 1), int32_array(3, 5), int32_array(1, 2)),
    "ragged_tensor_to_tensor": arguments(
        int32_array(2, 3),
        VECTOR,
        float32_array(0).reshape(()),
        [int32_array(0, 1, 3)],
        ["ROW_SPLITS"],
    ),
    "repeat": arguments(FLOATS, 2, axis=0),
    "reshape": arguments(FLOATS, (3, 2), copy=False),
    "roll": arguments(FLOATS, 1, axis=0),
    "scatter_nd": arguments(int32_array([0], [1]), FLOATS, (3, 3)),
    "searchsorted": arguments(VECTOR, VECTOR, side="left", sorter=PERMUTATION),
    "setdiff1d": arguments(VECTOR, VECTOR[:1]),
    "slice": arguments(FLOATS, (0, 1), (1, 2)),
    "sparse_to_dense": arguments(
        int32_array([0, 1], [1, 2]), float32_array(5, 6), (2, 3), float32_array(0).reshape(())
    ),
    "split": arguments(FLOATS, (1, 2), 1),
    "squeeze": arguments(FLOATS[None], 0),
    "strided_slice": arguments(FLOATS, [0, 0], [2, 3], [1, 2], 0, 0, 0, 0, 0),
    "take": arguments(FLOATS, int32_array(0, 1), axis=0, batch_dims=0),
    "take_along_axis": arguments(FLOATS, INTEGERS, axis=-1),
    "tensor_scatter_update": arguments(FLOATS, int32_array([0], [1]), FLOATS),
    "tile": arguments(FLOATS, (2, 1)),
    "to_device": arguments(FLOATS, "cpu"),
    "top_k": arguments(FLOATS, 2, sorted=True),
    "unique": arguments(FLOATS, axis=0),
    "unsorted_segment_sum": arguments(FLOATS, int32_array(0, 1), 2),
    "unstack": arguments(FLOATS, axis=0),
    "fused.conv2d": arguments(IMAGES, FILTERS, 1, "valid", **CONVOLUTION_OPTIONS, **FUSED_OPTIONS),
    "fused.depthwise_conv2d": arguments(
        IMAGES,
        FILTERS[..., :1],
        1,
        "valid",
        **CONVOLUTION_OPTIONS,
        **{**FUSED_OPTIONS, "bias": VECTOR, "prelu_activation_weights": VECTOR},
    ),
    "fused.matmul": arguments(FLOATS, FLOATS, transpose_a=False, transpose_b=True, **FUSED_OPTIONS),
    "image.crop_and_resize": arguments(
        IMAGES, float32_array([0, 0, 1, 1]), int32_array(0), (2, 2), "bilinear", 0
    ),
    "image.flip_left_right": arguments(IMAGES),
    "image.from_pixels": arguments(np.ones((2, 2, 3), "uint8"), 3),
    "image.to_pixels": arguments(np.ones((2, 2, 3), "float32"), alpha=1.0),
    "image.grayscale_to_rgb": arguments(IMAGES[..., :1]),
    "image.rgb_to_grayscale": arguments(IMAGES),
    "image.rotate_with_offset": arguments(IMAGES, 0.5, 0, 0.5),
    "image.threshold": arguments(IMAGES[0], "binary", False, 0.5),
    "image.transform": arguments(
        IMAGES, float32_array([1, 0, 0, 0, 1, 0, 0, 0]), "nearest", "constant", 0, (3, 3)
    ),
    "image.non_max_suppression": arguments(
        float32_array([0, 0, 1, 1], [0, 0, 2, 2]), float32_array(1, 2), 2, 0.5, 0.0
    ),
    "image.non_max_suppression_padded": arguments(
        float32_array([0, 0, 1, 1], [0, 0, 2, 2]), float32_array(1, 2), 2, 0.5, 0.0, True
    ),
    "image.non_max_suppression_with_score": arguments(
        float32_array([0, 0, 1, 1], [0, 0, 2, 2]), float32_array(1, 2), 2, 0.5, 0.0, 0.1
    ),
    "linalg.band_part": arguments(FLOATS, 1, 1),
    "linalg.cross": arguments(FLOATS, FLOATS, axis=-1),
    "linalg.diagonal": arguments(FLOATS, offset=0),
    "linalg.gram_schmidt": arguments(MATRIX),
    "linalg.matrix_norm": arguments(MATRIX, keepdims=True, ord="fro"),
    "corrcoef": arguments(FLOATS, rowvar=True),
    "cov": arguments(
        FLOATS, rowvar=True, correction=1.0, fweights=int32_array(1, 2, 1), aweights=VECTOR
    ),
    "histogram": arguments(VECTOR, 4, range=(0.0, 4.0), weights=VECTOR, density=True),
    "linalg.cond": arguments(MATRIX, p=2),
    "linalg.lstsq": arguments(MATRIX, MATRIX, rcond=0.1),
    "linalg.solve_triangular": arguments(MATRIX, MATRIX, lower=True, unit_diagonal=False),
    "linalg.solve_sylvester": arguments(MATRIX, MATRIX, MATRIX),
    "linalg.fractional_matrix_power": arguments(MATRIX, 1.5),
    "linalg.matrix_power": arguments(MATRIX, 2),
    "linalg.matrix_rank": arguments(MATRIX, rtol=0.1),
    "linalg.norm": arguments(MATRIX, "euclidean", 0, True),
    "linalg.outer": arguments(VECTOR, VECTOR),
    "linalg.pinv": arguments(MATRIX, rtol=0.1),
    "linalg.qr": arguments(MATRIX, mode="reduced"),
    "linalg.solve": arguments(MATRIX, MATRIX),
    "linalg.svd": arguments(MATRIX, full_matrices=True),
    "linalg.trace": arguments(MATRIX, offset=0, dtype="float32"),
    "linalg.vector_norm": arguments(FLOATS, axis=0, keepdims=True, ord=2),
    "losses.compute_weighted_loss": arguments(FLOATS, FLOATS, reduction="mean"),
    "losses.cosine_distance": arguments(
        LABELS, FLOATS, float32_array([1], [1]), axis=-1, reduction="mean"
    ),
    "losses.huber_loss": arguments(LABELS, FLOATS, FLOATS, delta=1.0, reduction="mean"),
    "losses.log_loss": arguments(LABELS, FLOATS, FLOATS, epsilon=1e-7, reduction="mean"),
    "losses.sigmoid_cross_entropy": arguments(
        LABELS, FLOATS, FLOATS, label_smoothing=0.1, reduction="mean"
    ),
    "losses.softmax_cross_entropy": arguments(
        LABELS, FLOATS, float32_array(1, 1), label_smoothing=0.1, reduction="mean", axis=-1
    ),
    "random.bernoulli": arguments((2, 3), 0.5, dtype="bool", device="cpu"),
    "random.gamma": arguments((2, 3), 1.0, 1.0, dtype="float32", device="cpu"),
    "random.integers": arguments((2, 3), 0, 5, dtype="int32", device="cpu"),
    "random.multinomial": arguments(FLOATS, 3, normalized=False),
    "random.permutation": arguments(FLOATS, axis=0, device="cpu"),
    "random.seed": arguments(3),
    "signal.cosine_window": arguments(4, 0.5, 0.5, dtype="float32"),
    "signal.frame": arguments(VECTOR, 2, 1, True, 0),
    "signal.stft": arguments(VECTOR, 2, 1, 2, plugrad.signal.hann_window),
    "sparse.sparse_fill_empty_rows": arguments(
        int32_array([0, 1], [2, 1]),
        float32_array(1, 2),
        int32_array(3, 2),
        float32_array(0).reshape(()),
    ),
    "sparse.sparse_reshape": arguments(
        int32_array([0, 1], [1, 1]), int32_array(2, 2), int32_array(4, 1)
    ),
    "sparse.sparse_segment_mean": arguments(FLOATS, int32_array(0, 1), int32_array(0, 1)),
    "sparse.sparse_segment_sum": arguments(FLOATS, int32_array(0, 1), int32_array(0, 1)),
    "string.static_regex_replace": arguments(STRINGS, "a", "b", True),
    "string.string_n_grams": arguments(STRINGS, int32_array(0, 2), "|", [1, 2], "L", "R", 1, True),
    "string.string_split": arguments(STRINGS, " ", True),
    "string.string_to_hash_bucket_fast": arguments(STRINGS, 10),
}

CALLS = {**calls_from_cases(), **EXPLICIT_CALLS}
