"""One node for each operator: its inputs, its attributes, and how many outputs it has."""

from typing import NamedTuple

import numpy as np

from core.tfjs_models.making import Type

RNG = np.random.default_rng(0)
FLOAT = Type("DT_FLOAT")
INT = Type("DT_INT32")
SAME, VALID = "SAME", "VALID"


def ints(*values):
    return np.array(values, np.int32)


def real(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32).round(3)


def one(value):
    return np.array(value, np.int32 if isinstance(value, int) else np.float32)


def flags(*values):
    return np.array(values, bool)


def texts(*values):
    return np.array(values, object)


class Case(NamedTuple):
    op: str
    inputs: tuple
    attrs: dict = {}  # noqa: RUF012 - nobody changes it
    outputs: int = 1
    values: tuple = ()
    """The places of inputs that are constants in every model."""

    def __str__(self):
        return self.op


X, Y = real(2, 3), real(2, 3)
UNIT = np.clip(real(5) / 3, -0.9, 0.9)
IMAGE, PAIR = real(1, 5, 5, 2), real(2, 4)
BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 0.9, 0.9], [0, 2, 1, 3]], np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95], np.float32)
NHWC = {"padding": SAME, "data_format": "NHWC"}
STEP = {**NHWC, "strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1]}
HALF = {**STEP, "strides": [1, 2, 2, 1]}
MASKS = dict.fromkeys(
    ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask"), 0
)
COMPLEX = (real(2, 4) + 1j * real(2, 4)).astype(np.complex64)

UNARY = """
    Abs Acos Asin Atan Atanh Ceil Cos Cosh Elu Erf Exp Expm1 Floor IsFinite IsInf
    IsNan Neg Relu Relu6 Round Selu Sigmoid Sign Sin Sinh Softplus Square Tan Tanh Asinh
"""
POSITIVE = "Log Log1p Reciprocal Rsqrt Sqrt"
BINARY = """
    Add AddV2 Sub RealDiv Div Mul Maximum Minimum SquaredDifference Mod
    FloorMod Atan2 Equal NotEqual Greater GreaterEqual Less LessEqual DivNoNan Prelu
"""
REDUCED = "Max Mean Min Sum Prod EuclideanNorm"
SAMPLE = np.array([-2.5, -1.0, 0.0, 0.5, 1.5, 7.0], np.float32)

CASES = [
    *(Case(op, (UNIT if op in ("Acos", "Asin", "Atanh") else SAMPLE,)) for op in UNARY.split()),
    *(Case(op, (np.abs(SAMPLE) + 0.5,)) for op in POSITIVE.split()),
    Case("Acosh", (np.abs(SAMPLE) + 1.5,)),
    *(Case(op, (X, Y)) for op in BINARY.split()),
    *(Case(op, (X, ints(1)), {"keep_dims": True}, 1, (1,)) for op in REDUCED.split()),
    *(Case(op, (X > 0, ints(0)), {"keep_dims": False}, 1, (1,)) for op in ("All", "Any")),
    *(Case(op, (X > 0, Y > 0)) for op in ("LogicalAnd", "LogicalOr")),
    *(Case(op, (X, one(1)), {}, 1, (1,)) for op in ("ArgMax", "ArgMin")),
    *(
        Case(op, (X, one(1)), {"exclusive": True, "reverse": False}, 1, (1,))
        for op in ("Cumsum", "Cumprod")
    ),
    Case("AddN", (X, Y, X)),
    Case("BiasAdd", (X, real(3))),
    Case("FloorDiv", (ints(7, -7, 5), ints(2, 2, -3))),
    Case("Pow", (np.abs(X), Y)),
    Case("BitwiseAnd", (ints(12, 7), ints(10, 9))),
    Case("ClipByValue", (X, one(-0.5), one(0.5)), {}, 1, (1, 2)),
    Case("LeakyRelu", (SAMPLE,), {"alpha": 0.3}),
    Case("LogicalNot", (X > 0,)),
    Case("Complex", (X, Y)),
    Case("Real", (COMPLEX,)),
    Case("Imag", (COMPLEX,)),
    Case("ComplexAbs", (COMPLEX,)),
    Case("Select", (X > 0, X, Y)),
    Case("SelectV2", (X > 0, X, Y)),
    # windows
    Case("Conv1D", (real(1, 6, 2), real(3, 2, 3)), {"stride": 1, "padding": SAME, "dilation": 2}),
    Case("Conv2D", (IMAGE, real(3, 3, 2, 3)), HALF),
    Case(
        "Conv2D",
        (IMAGE, real(3, 3, 2, 3)),
        {**STEP, "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
    ),
    Case(
        "_FusedConv2D",
        (IMAGE, real(3, 3, 2, 3), real(3)),
        {**STEP, "fused_ops": ["BiasAdd", "LeakyRelu"], "num_args": 1, "leakyrelu_alpha": 0.1},
    ),
    Case(
        "_FusedConv2D",
        (IMAGE, real(3, 3, 2, 3), real(3), real(3)),
        {**STEP, "dilations": [1, 2, 2, 1], "fused_ops": ["BiasAdd", "Prelu"], "num_args": 2},
    ),
    Case("DepthwiseConv2d", (IMAGE, real(3, 3, 2, 2)), STEP),
    Case("DepthwiseConv2dNative", (IMAGE, real(2, 2, 2, 1)), {**HALF, "padding": VALID}),
    Case(
        "FusedDepthwiseConv2dNative",
        (IMAGE, real(3, 3, 2, 2), real(4)),
        {**STEP, "fused_ops": ["BiasAdd", "Relu6"], "num_args": 1},
    ),
    Case(
        "Conv2DBackpropInput",
        (ints(1, 10, 10, 3), real(3, 3, 3, 2), IMAGE),
        {**NHWC, "strides": [1, 2, 2, 1]},
        1,
        (0,),
    ),
    Case(
        "Conv3D",
        (real(1, 3, 4, 4, 2), real(2, 2, 2, 2, 3)),
        {
            "padding": SAME,
            "data_format": "NDHWC",
            "strides": [1, 1, 1, 1, 1],
            "dilations": [1, 1, 1, 1, 1],
        },
    ),
    Case("MaxPool", (IMAGE,), {**NHWC, "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}),
    Case("AvgPool", (IMAGE,), {**NHWC, "ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1]}),
    Case(
        "MaxPoolWithArgmax",
        (IMAGE,),
        {
            "padding": VALID,
            "ksize": [1, 2, 2, 1],
            "strides": [1, 2, 2, 1],
            "include_batch_in_index": True,
        },
        2,
    ),
    Case(
        "MaxPool3D",
        (real(1, 4, 4, 4, 1),),
        {"padding": VALID, "ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]},
    ),
    Case(
        "AvgPool3D",
        (real(1, 4, 4, 4, 1),),
        {"padding": VALID, "ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]},
    ),
    Case(
        "Dilation2D",
        (IMAGE, real(2, 2, 2)),
        {"padding": VALID, "strides": [1, 1, 1, 1], "rates": [1, 2, 2, 1]},
    ),
    *(
        Case(op, (IMAGE, real(2), real(2), real(2), np.abs(real(2))), {"epsilon": 0.01})
        for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    ),
    Case("LRN", (real(1, 2, 2, 6),), {"depth_radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75}),
    Case("Softmax", (X,)),
    Case("LogSoftmax", (X,)),
    # products
    Case("MatMul", (X, Y), {"transpose_a": False, "transpose_b": True}),
    Case("BatchMatMul", (real(2, 2, 3), real(2, 2, 3)), {"adj_x": True, "adj_y": False}),
    Case("BatchMatMulV2", (real(2, 2, 3), real(2, 3, 2)), {"adj_x": False, "adj_y": False}),
    Case(
        "_FusedMatMul", (X, real(3, 2), real(2)), {"fused_ops": ["BiasAdd", "Relu"], "num_args": 1}
    ),
    Case("Einsum", (X, Y), {"equation": "ij,kj->ik", "N": 2}),
    Case("MatrixBandPart", (real(4, 4), one(1), one(1)), {}, 1, (1, 2)),
    # creation
    Case("Fill", (ints(2, 2), one(1.5)), {"T": FLOAT}, 1, (0, 1)),
    Case("LinSpace", (one(0.0), one(1.0), one(5)), {}, 1, (0, 1, 2)),
    Case("OneHot", (ints(0, 2), one(3), one(2.0), one(-1.0)), {"T": FLOAT}, 1, (1, 2, 3)),
    Case("Ones", (ints(2, 2),), {"T": FLOAT}, 1, (0,)),
    Case("Zeros", (ints(3),), {"T": FLOAT}, 1, (0,)),
    Case("OnesLike", (X,)),
    Case("ZerosLike", (X,)),
    Case("Range", (one(1), one(9), one(3)), {"Tidx": INT}, 1, (0, 1, 2)),
    # graph
    *(Case(op, (X,)) for op in ("Identity", "Snapshot", "StopGradient", "Rank", "Size", "Shape")),
    Case("FakeQuantWithMinMaxVars", (X, one(-1.0), one(1.0))),
    Case("IdentityN", (X, Y), {}, 2),
    Case("ShapeN", (X, IMAGE), {}, 2),
    Case("Print", (X, Y), {"message": "x"}),
    # shapes
    Case("Cast", (SAMPLE,), {"DstT": INT, "SrcT": FLOAT}),
    Case("ExpandDims", (X, one(1)), {}, 1, (1,)),
    Case("Squeeze", (real(1, 3, 1),), {"squeeze_dims": [0]}),
    Case("Reshape", (X, ints(3, -1)), {}, 1, (1,)),
    Case("EnsureShape", (X, ints(2, 3)), {}, 1, (1,)),
    Case("Transpose", (X, ints(1, 0)), {}, 1, (1,)),
    Case("BroadcastTo", (real(1, 3), ints(2, 3)), {}, 1, (1,)),
    Case("BroadcastArgs", (ints(2, 1), ints(3))),
    Case("MirrorPad", (X, np.array([[0, 1], [1, 0]], np.int32)), {"mode": "REFLECT"}, 1, (1,)),
    Case("Pad", (X, np.array([[0, 1], [1, 0]], np.int32)), {}, 1, (1,)),
    Case("PadV2", (X, np.array([[0, 1], [1, 0]], np.int32), one(2.0)), {}, 1, (1, 2)),
    Case(
        "SpaceToBatchND", (real(1, 4, 4, 1), ints(2, 2), np.zeros((2, 2), np.int32)), {}, 1, (1, 2)
    ),
    Case(
        "BatchToSpaceND", (real(4, 2, 2, 1), ints(2, 2), np.zeros((2, 2), np.int32)), {}, 1, (1, 2)
    ),
    Case("DepthToSpace", (real(1, 2, 2, 4),), {"block_size": 2, "data_format": "NHWC"}),
    Case("ConcatV2", (X, Y, one(1)), {"N": 2}, 1, (2,)),
    Case("Concat", (one(1), X, Y), {"N": 2}, 1, (0,)),
    Case("GatherV2", (X, ints(2, 0), one(1)), {"batch_dims": 0}, 1, (2,)),
    Case("Gather", (X, ints(1, 0))),
    Case("Reverse", (X, flags(False, True)), {}, 1, (1,)),
    Case("ReverseV2", (X, ints(0)), {}, 1, (1,)),
    Case("Slice", (X, ints(0, 1), ints(-1, 2)), {}, 1, (1, 2)),
    Case(
        "StridedSlice",
        (X, ints(0, 1), ints(0, 3), ints(1, 2)),
        {**MASKS, "end_mask": 1},
        1,
        (1, 2, 3),
    ),
    Case(
        "StridedSlice",
        (ints(4, 5, 6), ints(-1), ints(0), ints(1)),
        {**MASKS, "shrink_axis_mask": 1},
        1,
        (1, 2, 3),
    ),
    Case("Pack", (X, Y), {"axis": 1, "N": 2}),
    Case("Unpack", (X,), {"axis": 1, "num": 3}, 3),
    Case("Tile", (X, ints(1, 2)), {}, 1, (1,)),
    Case("Split", (one(1), PAIR), {"num_split": 2}, 2, (0,)),
    Case("SplitV", (X, ints(1, 2), one(1)), {"num_split": 2}, 2, (1, 2)),
    Case("ScatterNd", (np.array([[1], [3]], np.int32), real(2), ints(5)), {}, 1, (2,)),
    Case("GatherNd", (X, np.array([[0, 1], [1, 2]], np.int32))),
    Case(
        "SparseToDense",
        (np.array([[0, 1], [1, 2]], np.int32), ints(2, 3), real(2), one(0.5)),
        {},
        1,
        (1,),
    ),
    Case("TensorScatterUpdate", (real(4), np.array([[1], [3]], np.int32), real(2))),
    # order and sets
    Case("Bincount", (ints(1, 1, 2), one(4), np.zeros(0, np.float32)), {}, 1, (1,)),
    Case(
        "DenseBincount",
        (ints(1, 1, 2), one(4), np.ones(3, np.float32)),
        {"binary_output": False},
        1,
        (1,),
    ),
    Case("TopKV2", (X, one(2)), {"sorted": True}, 2, (1,)),
    Case(
        "LowerBound",
        (np.array([[0.0, 3, 9, 9, 10]], np.float32), np.array([[9.0, 0.5]], np.float32)),
    ),
    Case(
        "UpperBound",
        (np.array([[0.0, 3, 9, 9, 10]], np.float32), np.array([[9.0, 0.5]], np.float32)),
    ),
    Case("Unique", (ints(1, 1, 2, 4, 4),), {}, 2),
    Case("UniqueV2", (ints(1, 1, 2, 4, 4), one(0)), {}, 2, (1,)),
    Case("Where", (X > 0,)),
    Case("ListDiff", (ints(1, 2, 3, 4), ints(2, 4)), {}, 2),
    # images
    Case(
        "ResizeBilinear",
        (IMAGE, ints(3, 7)),
        {"align_corners": False, "half_pixel_centers": True},
        1,
        (1,),
    ),
    Case(
        "ResizeNearestNeighbor",
        (IMAGE, ints(3, 7)),
        {"align_corners": True, "half_pixel_centers": False},
        1,
        (1,),
    ),
    Case(
        "CropAndResize",
        (IMAGE, np.array([[0, 0, 0.5, 1.2]], np.float32), ints(0), ints(3, 3)),
        {"method": "bilinear", "extrapolation_value": 2.0},
        1,
        (3,),
    ),
    Case(
        "ImageProjectiveTransformV3",
        (IMAGE, np.array([[1, 0.2, 0.5, 0, 1, 0, 0, 0]], np.float32), ints(4, 4), one(1.0)),
        {"interpolation": "BILINEAR", "fill_mode": "CONSTANT"},
        1,
        (2, 3),
    ),
    Case("NonMaxSuppressionV2", (BOXES, SCORES, one(3), one(0.5)), {}, 1, (2, 3)),
    Case("NonMaxSuppressionV3", (BOXES, SCORES, one(3), one(0.5), one(0.0)), {}, 1, (2, 3, 4)),
    Case(
        "NonMaxSuppressionV4",
        (BOXES, SCORES, one(3), one(0.5), one(0.0)),
        {"pad_to_max_output_size": True},
        2,
        (2, 3, 4),
    ),
    Case(
        "NonMaxSuppressionV5",
        (BOXES, SCORES, one(3), one(0.5), one(0.0), one(0.5)),
        {},
        2,
        (2, 3, 4, 5),
    ),
    Case("FFT", (COMPLEX,)),
    Case("IFFT", (COMPLEX,)),
    Case("RFFT", (PAIR, ints(4)), {}, 1, (1,)),
    Case("IRFFT", ((real(2, 3) + 1j * real(2, 3)).astype(np.complex64), ints(4)), {}, 1, (1,)),
    # text, sparse, ragged
    Case(
        "StaticRegexReplace",
        (texts("two fish", "fish"),),
        {"pattern": "fish", "rewrite": "hat", "replace_global": True},
    ),
    Case("StringSplit", (texts("a b", "c"), np.array(" ", object)), {"skip_empty": True}, 3),
    Case("StringToHashBucketFast", (texts("a", "bc"),), {"num_buckets": 10}),
    Case(
        "StringNGrams",
        (texts("a", "b", "c"), ints(0, 2, 3)),
        {
            "separator": "|",
            "ngram_widths": [2],
            "left_pad": "l",
            "right_pad": "r",
            "pad_width": 1,
            "preserve_short_sequences": False,
        },
        2,
    ),
    Case(
        "SparseFillEmptyRows",
        (np.array([[0, 0], [2, 1]], np.int32), real(2), ints(3, 2), one(9.0)),
        {},
        4,
    ),
    Case("SparseReshape", (np.array([[0, 0], [1, 1]], np.int32), ints(2, 2), ints(4, -1)), {}, 2),
    Case("SparseSegmentMean", (real(3, 2), ints(0, 1, 2), ints(0, 0, 1))),
    Case("SparseSegmentSum", (real(3, 2), ints(0, 1, 2), ints(0, 0, 1))),
    Case("RaggedRange", (one(0), one(5), one(2)), {}, 2),
    Case("RaggedGather", (ints(0, 2, 3), real(3), ints(1, 0)), {"OUTPUT_RAGGED_RANK": 1}, 2),
    Case(
        "RaggedTensorToTensor",
        (ints(2, 3), real(3), one(0.0), one(2), ints(0, 2, 3)),
        {"row_partition_types": ["FIRST_DIM_SIZE", "ROW_SPLITS"]},
    ),
]
"""Random numbers, the control flow, lists and arrays of tensors have tests of their own."""


def model_of(case, making, prefix="", *, all_constant=False):
    """Add a case to a graph; return the names of its outputs, and the inputs by name."""
    names, fed = [], {}
    for place, value in enumerate(case.inputs):
        name = f"{prefix}in{place}"
        if all_constant or place in case.values:
            making.const(name, value)
        else:
            making.placeholder(name, value)
            fed[name] = value
        names.append(name)
    node = making.node(f"{prefix}y", case.op, *names, **case.attrs)
    return [node, *(f"{node}:{n}" for n in range(1, case.outputs))], fed
