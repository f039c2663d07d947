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


F = np.arange(6, dtype="float32").reshape(2, 3) / 8 + 0.125
M = np.array([[2, 0.5], [0.5, 1]], "float32")
WHOLE = np.array([[0, 1, 2], [2, 1, 0]], "int32")
B = np.array([[True, False, True], [False, True, True]])
C = (F + 1j).astype("complex64")
V = np.array([1, 2, 3], "float32")
S = np.array(["a b", "c"], np.dtypes.StringDType())
IMG = np.linspace(0, 1, 2 * 4 * 4 * 3, dtype="float32").reshape(2, 4, 4, 3)
ROW = IMG[:, :, 0]
VOL = np.linspace(0, 1, 2 * 3 * 3 * 3 * 2, dtype="float32").reshape(2, 3, 3, 3, 2)
FLT = np.ones((2, 2, 3, 2), "float32")
LAB = np.array([[1, 0, 0], [0, 1, 0]], "float32")
ORDER = np.arange(3)


def i32(*x):
    return np.array(x, "int32")


def f32(*x):
    return np.array(x, "float32")


def cell(data, c, h):
    return plugrad.basic_lstm_cell(
        1.0, np.ones((2 + 2, 8), "float32"), np.ones(8, "float32"), data, c, h
    )


def call(*args, **kwargs):
    return args, kwargs


EXPLICIT_CALLS = {}


def add_calls(names, *args, **kwargs):
    for name in names.split():
        EXPLICIT_CALLS[name] = args, kwargs


add_calls("sum prod", F, axis=0, keepdims=True, dtype="float32")
add_calls(
    "max min mean all any count_nonzero euclidean_norm log_sum_exp moments",
    F,
    axis=0,
    keepdims=True,
)
add_calls("complex", F, F)
add_calls("std var", F, axis=0, keepdims=True, correction=1.0)
add_calls("nanvar nanstd", F, axis=0, correction=1.0, keepdims=True)
add_calls("nansum nanprod nanmax nanmin nanmean median nanmedian", F, axis=0, keepdims=True)
add_calls("quantile nanquantile", F, 0.5, axis=0, keepdims=True, method="linear")
add_calls("linalg.eig linalg.eigvals linalg.expm linalg.logm linalg.lu linalg.sqrtm", M)
add_calls("argmax argmin nanargmax nanargmin", F, axis=0, keepdims=True)
add_calls("nancumprod nancumsum", F, axis=0, dtype="float32")
add_calls("diag", V)
add_calls(
    "unique_all unique_counts unique_inverse unique_values nonzero matrix_transpose stop_gradient",
    F,
)
add_calls(
    "cumulative_sum cumulative_prod",
    F,
    axis=0,
    dtype="float32",
    include_initial=False,
    exclusive=False,
    reverse=True,
)
add_calls("sort argsort", F, axis=0, descending=True, stable=True)
add_calls("empty ones zeros", (2, 3), dtype="float32", device="cpu")
add_calls("empty_like ones_like zeros_like", F, dtype="float32", device="cpu")
add_calls("tril triu", F, k=1)
add_calls("softmax log_softmax", F, axis=-1)
add_calls("glu", f32(2, 4), axis=-1)
add_calls("lower_bound upper_bound", F, F)
add_calls("max_pool avg_pool", IMG, 2, 1, "valid", dim_rounding_mode="floor")
add_calls("max_pool3d avg_pool3d", VOL, 2, 1, "valid", dim_rounding_mode="floor")
add_calls("fft.fft fft.ifft fft.irfft fft.hfft", C, n=4, axis=-1, norm="ortho")
add_calls("fft.rfft fft.ihfft", F, n=4, axis=-1, norm="ortho")
add_calls("fft.rfftn", F, s=(2, 4), axes=(0, 1), norm="ortho")
add_calls("fft.fftn fft.ifftn fft.irfftn", C, s=(2, 4), axes=(0, 1), norm="ortho")
add_calls("fft.fftfreq fft.rfftfreq", 4, d=1.0, dtype="float32", device="cpu")
add_calls("fft.fftshift fft.ifftshift", F, axes=0)
add_calls(
    "losses.absolute_difference losses.hinge_loss losses.mean_squared_error",
    LAB,
    F,
    F,
    reduction="mean",
)
add_calls(
    "linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.slogdet "
    "linalg.svdvals",
    M,
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
    IMG,
    (3, 5),
    align_corners=True,
    half_pixel_centers=False,
)
EXPLICIT_CALLS |= {
    "image.resize": call(
        *(IMG, (3, 5), "cubic"), align_corners=False, antialias=True, cubic_coefficient=-0.5
    ),
    "image.grid_sample": call(
        *(IMG, np.full((2, 2, 3, 2), 0.25, "float32"), "linear"),
        padding_mode="border",
        align_corners=False,
    ),
}
CONVOLUTION_OPTIONS = {"data_format": "NHWC", "dilations": 1, "dim_rounding_mode": "floor"}
FUSED_OPTIONS = {
    "bias": f32(1, 2),
    "activation": "prelu",
    "prelu_activation_weights": f32(1, 2),
    "leakyrelu_alpha": 0.2,
}
EXPLICIT_CALLS |= {
    "add_n": call([F, F]),
    "gelu": call(F, approximate=True),
    "arange": call(0, 5, 1, dtype="int32", device="cpu"),
    "asarray": call(F, dtype="float32", device="cpu", copy=True),
    "astype": call(F, "int32", copy=True, device="cpu"),
    "basic_lstm_cell": call(
        1.0,
        np.ones((4, 8), "float32"),
        np.ones(8, "float32"),
        np.ones((1, 2), "float32"),
        np.ones((1, 2), "float32"),
        np.ones((1, 2), "float32"),
    ),
    "multi_rnn_cell": call(
        [cell],
        np.ones((1, 2), "float32"),
        [np.ones((1, 2), "float32")],
        [np.ones((1, 2), "float32")],
    ),
    "attention": call(F, F, F, np.ones((2, 2), bool), scale=0.5),
    "batch_norm_training": call(F, V, V, axis=-1, variance_epsilon=0.1),
    "layer_norm": call(F, offset=V, scale=V, axis=-1, variance_epsilon=0.1),
    "batch_norm": call(F, V, V, V, V, variance_epsilon=0.1),
    "batch_to_space_nd": call(IMG[:2].repeat(2, 0), [2, 2], [[0, 1], [1, 0]]),
    "space_to_batch_nd": call(IMG, [2, 2], [[0, 2], [1, 1]]),
    "bincount": call(i32(1, 2, 2), V, size=3),
    "dense_bincount": call(WHOLE, F, size=3, binary_output=False),
    "boolean_mask": call(F, B[0], 1),
    "broadcast_arrays": call(F, V),
    "broadcast_shapes": call((2, 1), (1, 3)),
    "broadcast_to": call(F, (2, 2, 3)),
    "clip": call(F, 0.0, 1.0),
    "concat": call([F, F], axis=0),
    "stack": call([F, F], axis=0),
    "confusion_matrix": call(i32(0, 1), i32(1, 1), 2),
    "conv1d": call(
        ROW,
        np.ones((2, 3, 2), "float32"),
        1,
        "valid",
        data_format="NWC",
        dilation=1,
        dim_rounding_mode="floor",
    ),
    "conv1d_transpose": call(
        ROW,
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
    "conv2d": call(IMG, FLT, 1, "valid", **CONVOLUTION_OPTIONS),
    "conv2d_transpose": call(
        IMG, np.ones((2, 2, 2, 3), "float32"), (2, 5, 5, 2), 1, "valid", **CONVOLUTION_OPTIONS
    ),
    "conv3d": call(
        VOL,
        np.ones((2, 2, 2, 2, 3), "float32"),
        1,
        "valid",
        data_format="NDHWC",
        dilations=1,
        dim_rounding_mode="floor",
    ),
    "conv3d_transpose": call(
        VOL,
        np.ones((2, 2, 2, 3, 2), "float32"),
        (2, 4, 4, 4, 3),
        1,
        "valid",
        data_format="NDHWC",
        dilations=1,
        dim_rounding_mode="floor",
    ),
    "depthwise_conv2d": call(IMG, FLT, 1, "valid", **CONVOLUTION_OPTIONS),
    "separable_conv2d": call(
        IMG, FLT, np.ones((1, 1, 6, 2), "float32"), 1, "valid", data_format="NHWC", dilations=1
    ),
    "dilation2d": call(
        IMG, np.ones((2, 2, 3), "float32"), 1, "valid", data_format="NHWC", dilations=1
    ),
    "pool": call(IMG, (2, 2), "max", 1, "valid", dilations=1, dim_rounding_mode="floor"),
    "max_pool_with_argmax": call(IMG, 2, 1, "valid", include_batch_in_index=True),
    "max_unpool": call(
        IMG[:, :1, :1],
        np.array([[[[0, 1, 2]]], [[[3, 4, 5]]]], "int32"),
        (2, 4, 4, 3),
        include_batch_in_index=False,
        data_format="NHWC",
    ),
    "depth_to_space": call(np.ones((1, 2, 2, 4), "float32"), 2, "NHWC"),
    "diff": call(F, axis=-1, n=1, prepend=F, append=F),
    "dot": call(V, V),
    "vecdot": call(F, F, axis=-1),
    "matmul": call(F, F, False, True),
    "tensordot": call(F, F, axes=2),
    "dropout": call(F, 0.5, (2, 1), seed=3),
    "einsum": call("ij,kj->ik", F, F),
    "ensure_shape": call(F, (2, None)),
    "expand_dims": call(F, 0),
    "eye": call(2, 3, k=1, dtype="float32", device="cpu"),
    "flip": call(F, axis=0),
    "from_dlpack": call(F, device="cpu", copy=True),
    "full": call((2, 3), 1.0, dtype="float32", device="cpu"),
    "full_like": call(F, 1.0, dtype="float32", device="cpu"),
    "gather_nd": call(F, i32([0, 1], [1, 2])),
    "in_top_k": call(F, i32(0, 1), 1),
    "isin": call(F, V, invert=False),
    "linspace": call(0.0, 1.0, 5, dtype="float32", device="cpu", endpoint=True),
    "local_response_normalization": call(IMG, 2, 1.0, 1.0, 0.5),
    "meshgrid": call(V, V, indexing="xy"),
    "mirror_pad": call(F, [(1, 1), (1, 1)], "reflect"),
    "moveaxis": call(F, 0, 1),
    "moving_average": call(F, F, 0.5, step=2),
    "one_hot": call(WHOLE, 3, 1, 0, "float32"),
    "pad": call(F, [(1, 1), (0, 1)], 0),
    "permute_dims": call(F, (1, 0)),
    "ragged_gather": call([i32(0, 1, 3)], V, i32(1, 0), 1),
    "ragged_range": call(i32(0, 1), i32(3, 5), i32(1, 2)),
    "ragged_tensor_to_tensor": call(
        i32(2, 3), V, f32(0).reshape(()), [i32(0, 1, 3)], ["ROW_SPLITS"]
    ),
    "repeat": call(F, 2, axis=0),
    "reshape": call(F, (3, 2), copy=False),
    "roll": call(F, 1, axis=0),
    "scatter_nd": call(i32([0], [1]), F, (3, 3)),
    "searchsorted": call(V, V, side="left", sorter=ORDER),
    "setdiff1d": call(V, V[:1]),
    "slice": call(F, (0, 1), (1, 2)),
    "sparse_to_dense": call(i32([0, 1], [1, 2]), f32(5, 6), (2, 3), f32(0).reshape(())),
    "split": call(F, (1, 2), 1),
    "squeeze": call(F[None], 0),
    "strided_slice": call(F, [0, 0], [2, 3], [1, 2], 0, 0, 0, 0, 0),
    "take": call(F, i32(0, 1), axis=0, batch_dims=0),
    "take_along_axis": call(F, WHOLE, axis=-1),
    "tensor_scatter_update": call(F, i32([0], [1]), F),
    "tile": call(F, (2, 1)),
    "to_device": call(F, "cpu"),
    "top_k": call(F, 2, sorted=True),
    "unique": call(F, axis=0),
    "unsorted_segment_sum": call(F, i32(0, 1), 2),
    "unstack": call(F, axis=0),
    "fused.conv2d": call(IMG, FLT, 1, "valid", **CONVOLUTION_OPTIONS, **FUSED_OPTIONS),
    "fused.depthwise_conv2d": call(
        IMG,
        FLT[..., :1],
        1,
        "valid",
        **CONVOLUTION_OPTIONS,
        **{**FUSED_OPTIONS, "bias": V, "prelu_activation_weights": V},
    ),
    "fused.matmul": call(F, F, transpose_a=False, transpose_b=True, **FUSED_OPTIONS),
    "image.crop_and_resize": call(IMG, f32([0, 0, 1, 1]), i32(0), (2, 2), "bilinear", 0),
    "image.flip_left_right": call(IMG),
    "image.from_pixels": call(np.ones((2, 2, 3), "uint8"), 3),
    "image.to_pixels": call(np.ones((2, 2, 3), "float32"), alpha=1.0),
    "image.grayscale_to_rgb": call(IMG[..., :1]),
    "image.rgb_to_grayscale": call(IMG),
    "image.rotate_with_offset": call(IMG, 0.5, 0, 0.5),
    "image.threshold": call(IMG[0], "binary", False, 0.5),
    "image.transform": call(IMG, f32([1, 0, 0, 0, 1, 0, 0, 0]), "nearest", "constant", 0, (3, 3)),
    "image.non_max_suppression": call(f32([0, 0, 1, 1], [0, 0, 2, 2]), f32(1, 2), 2, 0.5, 0.0),
    "image.non_max_suppression_padded": call(
        f32([0, 0, 1, 1], [0, 0, 2, 2]), f32(1, 2), 2, 0.5, 0.0, True
    ),
    "image.non_max_suppression_with_score": call(
        f32([0, 0, 1, 1], [0, 0, 2, 2]), f32(1, 2), 2, 0.5, 0.0, 0.1
    ),
    "linalg.band_part": call(F, 1, 1),
    "linalg.cross": call(F, F, axis=-1),
    "linalg.diagonal": call(F, offset=0),
    "linalg.gram_schmidt": call(M),
    "linalg.matrix_norm": call(M, keepdims=True, ord="fro"),
    "corrcoef": call(F, rowvar=True),
    "cov": call(F, rowvar=True, correction=1.0, fweights=i32(1, 2, 1), aweights=V),
    "histogram": call(V, 4, range=(0.0, 4.0), weights=V, density=True),
    "linalg.cond": call(M, p=2),
    "linalg.lstsq": call(M, M, rcond=0.1),
    "linalg.solve_triangular": call(M, M, lower=True, unit_diagonal=False),
    "linalg.solve_sylvester": call(M, M, M),
    "linalg.fractional_matrix_power": call(M, 1.5),
    "linalg.matrix_power": call(M, 2),
    "linalg.matrix_rank": call(M, rtol=0.1),
    "linalg.norm": call(M, "euclidean", 0, True),
    "linalg.outer": call(V, V),
    "linalg.pinv": call(M, rtol=0.1),
    "linalg.qr": call(M, mode="reduced"),
    "linalg.solve": call(M, M),
    "linalg.svd": call(M, full_matrices=True),
    "linalg.trace": call(M, offset=0, dtype="float32"),
    "linalg.vector_norm": call(F, axis=0, keepdims=True, ord=2),
    "losses.compute_weighted_loss": call(F, F, reduction="mean"),
    "losses.cosine_distance": call(LAB, F, f32([1], [1]), axis=-1, reduction="mean"),
    "losses.huber_loss": call(LAB, F, F, delta=1.0, reduction="mean"),
    "losses.log_loss": call(LAB, F, F, epsilon=1e-7, reduction="mean"),
    "losses.sigmoid_cross_entropy": call(LAB, F, F, label_smoothing=0.1, reduction="mean"),
    "losses.softmax_cross_entropy": call(
        LAB, F, f32(1, 1), label_smoothing=0.1, reduction="mean", axis=-1
    ),
    "random.bernoulli": call((2, 3), 0.5, dtype="bool", device="cpu"),
    "random.gamma": call((2, 3), 1.0, 1.0, dtype="float32", device="cpu"),
    "random.integers": call((2, 3), 0, 5, dtype="int32", device="cpu"),
    "random.multinomial": call(F, 3, normalized=False),
    "random.permutation": call(F, axis=0, device="cpu"),
    "random.seed": call(3),
    "signal.cosine_window": call(4, 0.5, 0.5, dtype="float32"),
    "signal.frame": call(V, 2, 1, True, 0),
    "signal.stft": call(V, 2, 1, 2, plugrad.signal.hann_window),
    "sparse.sparse_fill_empty_rows": call(
        i32([0, 1], [2, 1]), f32(1, 2), i32(3, 2), f32(0).reshape(())
    ),
    "sparse.sparse_reshape": call(i32([0, 1], [1, 1]), i32(2, 2), i32(4, 1)),
    "sparse.sparse_segment_mean": call(F, i32(0, 1), i32(0, 1)),
    "sparse.sparse_segment_sum": call(F, i32(0, 1), i32(0, 1)),
    "string.static_regex_replace": call(S, "a", "b", True),
    "string.string_n_grams": call(S, i32(0, 2), "|", [1, 2], "L", "R", 1, True),
    "string.string_split": call(S, " ", True),
    "string.string_to_hash_bucket_fast": call(S, 10),
}

CALLS = {**calls_from_cases(), **EXPLICIT_CALLS}
