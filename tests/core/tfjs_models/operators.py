"""One node for each operator: its inputs, its attributes, and how many outputs it has."""

from typing import NamedTuple

import numpy as np

from core.tfjs_models.making import DTypeName

RNG = np.random.default_rng(0)
FLOAT = DTypeName("DT_FLOAT")
INT32 = DTypeName("DT_INT32")
SAME, VALID = "SAME", "VALID"


def int32_array(*values):
    return np.array(values, np.int32)


def random_float32(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32).round(3)


def scalar_array(value):
    return np.array(value, np.int32 if isinstance(value, int) else np.float32)


def bool_array(*values):
    return np.array(values, bool)


def string_array(*values):
    return np.array(values, object)


class OperatorCase(NamedTuple):
    op: str
    inputs: tuple
    attrs: dict = {}  # noqa: RUF012 - nobody changes it
    outputs: int = 1
    values: tuple = ()
    """The places of inputs that are constants in every model."""

    def __str__(self):
        return self.op


X, Y = random_float32(2, 3), random_float32(2, 3)
NUMBERS_BELOW_1 = np.clip(random_float32(5) / 3, -0.9, 0.9)
IMAGE, PAIR = random_float32(1, 5, 5, 2), random_float32(2, 4)
BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 0.9, 0.9], [0, 2, 1, 3]], np.float32)
BOX_SCORES = np.array([0.9, 0.75, 0.6, 0.95], np.float32)
NHWC_SAME_PADDING = {"padding": SAME, "data_format": "NHWC"}
WINDOW_WITH_STRIDE_1 = {**NHWC_SAME_PADDING, "strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1]}
WINDOW_WITH_STRIDE_2 = {**WINDOW_WITH_STRIDE_1, "strides": [1, 2, 2, 1]}
STRIDED_SLICE_MASKS = dict.fromkeys(
    ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask"), 0
)
COMPLEX_MATRIX = (random_float32(2, 4) + 1j * random_float32(2, 4)).astype(np.complex64)

UNARY_OPERATORS = """
    Abs Acos Asin Atan Atanh Ceil Cos Cosh Elu Erf Exp Expm1 Floor IsFinite IsInf
    IsNan Neg Relu Relu6 Round Selu Sigmoid Sign Sin Sinh Softplus Square Tan Tanh Asinh
"""
OPERATORS_OF_POSITIVE_NUMBERS = "Log Log1p Reciprocal Rsqrt Sqrt"
BINARY_OPERATORS = """
    Add AddV2 Sub RealDiv Div Mul Maximum Minimum SquaredDifference Mod
    FloorMod Atan2 Equal NotEqual Greater GreaterEqual Less LessEqual DivNoNan Prelu
"""
REDUCTION_OPERATORS = "Max Mean Min Sum Prod EuclideanNorm"
SAMPLE_VALUES = np.array([-2.5, -1.0, 0.0, 0.5, 1.5, 7.0], np.float32)

OPERATOR_CASES = [
    *(
        OperatorCase(op, (NUMBERS_BELOW_1 if op in ("Acos", "Asin", "Atanh") else SAMPLE_VALUES,))
        for op in UNARY_OPERATORS.split()
    ),
    *(
        OperatorCase(op, (np.abs(SAMPLE_VALUES) + 0.5,))
        for op in OPERATORS_OF_POSITIVE_NUMBERS.split()
    ),
    OperatorCase("Acosh", (np.abs(SAMPLE_VALUES) + 1.5,)),
    *(OperatorCase(op, (X, Y)) for op in BINARY_OPERATORS.split()),
    *(
        OperatorCase(op, (X, int32_array(1)), {"keep_dims": True}, 1, (1,))
        for op in REDUCTION_OPERATORS.split()
    ),
    *(
        OperatorCase(op, (X > 0, int32_array(0)), {"keep_dims": False}, 1, (1,))
        for op in ("All", "Any")
    ),
    *(OperatorCase(op, (X > 0, Y > 0)) for op in ("LogicalAnd", "LogicalOr")),
    *(OperatorCase(op, (X, scalar_array(1)), {}, 1, (1,)) for op in ("ArgMax", "ArgMin")),
    *(
        OperatorCase(op, (X, scalar_array(1)), {"exclusive": True, "reverse": False}, 1, (1,))
        for op in ("Cumsum", "Cumprod")
    ),
    OperatorCase("AddN", (X, Y, X)),
    OperatorCase("BiasAdd", (X, random_float32(3))),
    OperatorCase("FloorDiv", (int32_array(7, -7, 5), int32_array(2, 2, -3))),
    OperatorCase("Pow", (np.abs(X), Y)),
    OperatorCase("BitwiseAnd", (int32_array(12, 7), int32_array(10, 9))),
    OperatorCase("ClipByValue", (X, scalar_array(-0.5), scalar_array(0.5)), {}, 1, (1, 2)),
    OperatorCase("LeakyRelu", (SAMPLE_VALUES,), {"alpha": 0.3}),
    OperatorCase("LogicalNot", (X > 0,)),
    OperatorCase("Complex", (X, Y)),
    OperatorCase("Real", (COMPLEX_MATRIX,)),
    OperatorCase("Imag", (COMPLEX_MATRIX,)),
    OperatorCase("ComplexAbs", (COMPLEX_MATRIX,)),
    OperatorCase("Select", (X > 0, X, Y)),
    OperatorCase("SelectV2", (X > 0, X, Y)),
    # windows
    OperatorCase(
        "Conv1D",
        (random_float32(1, 6, 2), random_float32(3, 2, 3)),
        {"stride": 1, "padding": SAME, "dilation": 2},
    ),
    OperatorCase("Conv2D", (IMAGE, random_float32(3, 3, 2, 3)), WINDOW_WITH_STRIDE_2),
    OperatorCase(
        "Conv2D",
        (IMAGE, random_float32(3, 3, 2, 3)),
        {
            **WINDOW_WITH_STRIDE_1,
            "padding": "EXPLICIT",
            "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0],
        },
    ),
    OperatorCase(
        "_FusedConv2D",
        (IMAGE, random_float32(3, 3, 2, 3), random_float32(3)),
        {
            **WINDOW_WITH_STRIDE_1,
            "fused_ops": ["BiasAdd", "LeakyRelu"],
            "num_args": 1,
            "leakyrelu_alpha": 0.1,
        },
    ),
    OperatorCase(
        "_FusedConv2D",
        (IMAGE, random_float32(3, 3, 2, 3), random_float32(3), random_float32(3)),
        {
            **WINDOW_WITH_STRIDE_1,
            "dilations": [1, 2, 2, 1],
            "fused_ops": ["BiasAdd", "Prelu"],
            "num_args": 2,
        },
    ),
    OperatorCase("DepthwiseConv2d", (IMAGE, random_float32(3, 3, 2, 2)), WINDOW_WITH_STRIDE_1),
    OperatorCase(
        "DepthwiseConv2dNative",
        (IMAGE, random_float32(2, 2, 2, 1)),
        {**WINDOW_WITH_STRIDE_2, "padding": VALID},
    ),
    OperatorCase(
        "FusedDepthwiseConv2dNative",
        (IMAGE, random_float32(3, 3, 2, 2), random_float32(4)),
        {**WINDOW_WITH_STRIDE_1, "fused_ops": ["BiasAdd", "Relu6"], "num_args": 1},
    ),
    OperatorCase(
        "Conv2DBackpropInput",
        (int32_array(1, 10, 10, 3), random_float32(3, 3, 3, 2), IMAGE),
        {**NHWC_SAME_PADDING, "strides": [1, 2, 2, 1]},
        1,
        (0,),
    ),
    OperatorCase(
        "Conv3D",
        (random_float32(1, 3, 4, 4, 2), random_float32(2, 2, 2, 2, 3)),
        {
            "padding": SAME,
            "data_format": "NDHWC",
            "strides": [1, 1, 1, 1, 1],
            "dilations": [1, 1, 1, 1, 1],
        },
    ),
    OperatorCase(
        "MaxPool", (IMAGE,), {**NHWC_SAME_PADDING, "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}
    ),
    OperatorCase(
        "AvgPool", (IMAGE,), {**NHWC_SAME_PADDING, "ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1]}
    ),
    OperatorCase(
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
    OperatorCase(
        "MaxPool3D",
        (random_float32(1, 4, 4, 4, 1),),
        {"padding": VALID, "ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]},
    ),
    OperatorCase(
        "AvgPool3D",
        (random_float32(1, 4, 4, 4, 1),),
        {"padding": VALID, "ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]},
    ),
    OperatorCase(
        "Dilation2D",
        (IMAGE, random_float32(2, 2, 2)),
        {"padding": VALID, "strides": [1, 1, 1, 1], "rates": [1, 2, 2, 1]},
    ),
    *(
        OperatorCase(
            op,
            (
                IMAGE,
                random_float32(2),
                random_float32(2),
                random_float32(2),
                np.abs(random_float32(2)),
            ),
            {"epsilon": 0.01},
        )
        for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    ),
    OperatorCase(
        "LRN",
        (random_float32(1, 2, 2, 6),),
        {"depth_radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75},
    ),
    OperatorCase("Softmax", (X,)),
    OperatorCase("LogSoftmax", (X,)),
    # products
    OperatorCase("MatMul", (X, Y), {"transpose_a": False, "transpose_b": True}),
    OperatorCase(
        "BatchMatMul",
        (random_float32(2, 2, 3), random_float32(2, 2, 3)),
        {"adj_x": True, "adj_y": False},
    ),
    OperatorCase(
        "BatchMatMulV2",
        (random_float32(2, 2, 3), random_float32(2, 3, 2)),
        {"adj_x": False, "adj_y": False},
    ),
    OperatorCase(
        "_FusedMatMul",
        (X, random_float32(3, 2), random_float32(2)),
        {"fused_ops": ["BiasAdd", "Relu"], "num_args": 1},
    ),
    OperatorCase("Einsum", (X, Y), {"equation": "ij,kj->ik", "N": 2}),
    OperatorCase(
        "MatrixBandPart", (random_float32(4, 4), scalar_array(1), scalar_array(1)), {}, 1, (1, 2)
    ),
    # creation
    OperatorCase("Fill", (int32_array(2, 2), scalar_array(1.5)), {"T": FLOAT}, 1, (0, 1)),
    OperatorCase(
        "LinSpace", (scalar_array(0.0), scalar_array(1.0), scalar_array(5)), {}, 1, (0, 1, 2)
    ),
    OperatorCase(
        "OneHot",
        (int32_array(0, 2), scalar_array(3), scalar_array(2.0), scalar_array(-1.0)),
        {"T": FLOAT},
        1,
        (1, 2, 3),
    ),
    OperatorCase("Ones", (int32_array(2, 2),), {"T": FLOAT}, 1, (0,)),
    OperatorCase("Zeros", (int32_array(3),), {"T": FLOAT}, 1, (0,)),
    OperatorCase("OnesLike", (X,)),
    OperatorCase("ZerosLike", (X,)),
    OperatorCase(
        "Range", (scalar_array(1), scalar_array(9), scalar_array(3)), {"Tidx": INT32}, 1, (0, 1, 2)
    ),
    # graph
    *(
        OperatorCase(op, (X,))
        for op in ("Identity", "Snapshot", "StopGradient", "Rank", "Size", "Shape")
    ),
    OperatorCase("FakeQuantWithMinMaxVars", (X, scalar_array(-1.0), scalar_array(1.0))),
    OperatorCase("IdentityN", (X, Y), {}, 2),
    OperatorCase("ShapeN", (X, IMAGE), {}, 2),
    OperatorCase("Print", (X, Y), {"message": "x"}),
    # shapes
    OperatorCase("Cast", (SAMPLE_VALUES,), {"DstT": INT32, "SrcT": FLOAT}),
    OperatorCase("ExpandDims", (X, scalar_array(1)), {}, 1, (1,)),
    OperatorCase("Squeeze", (random_float32(1, 3, 1),), {"squeeze_dims": [0]}),
    OperatorCase("Reshape", (X, int32_array(3, -1)), {}, 1, (1,)),
    OperatorCase("EnsureShape", (X, int32_array(2, 3)), {}, 1, (1,)),
    OperatorCase("Transpose", (X, int32_array(1, 0)), {}, 1, (1,)),
    OperatorCase("BroadcastTo", (random_float32(1, 3), int32_array(2, 3)), {}, 1, (1,)),
    OperatorCase("BroadcastArgs", (int32_array(2, 1), int32_array(3))),
    OperatorCase(
        "MirrorPad", (X, np.array([[0, 1], [1, 0]], np.int32)), {"mode": "REFLECT"}, 1, (1,)
    ),
    OperatorCase("Pad", (X, np.array([[0, 1], [1, 0]], np.int32)), {}, 1, (1,)),
    OperatorCase(
        "PadV2", (X, np.array([[0, 1], [1, 0]], np.int32), scalar_array(2.0)), {}, 1, (1, 2)
    ),
    OperatorCase(
        "SpaceToBatchND",
        (random_float32(1, 4, 4, 1), int32_array(2, 2), np.zeros((2, 2), np.int32)),
        {},
        1,
        (1, 2),
    ),
    OperatorCase(
        "BatchToSpaceND",
        (random_float32(4, 2, 2, 1), int32_array(2, 2), np.zeros((2, 2), np.int32)),
        {},
        1,
        (1, 2),
    ),
    OperatorCase(
        "DepthToSpace", (random_float32(1, 2, 2, 4),), {"block_size": 2, "data_format": "NHWC"}
    ),
    OperatorCase("ConcatV2", (X, Y, scalar_array(1)), {"N": 2}, 1, (2,)),
    OperatorCase("Concat", (scalar_array(1), X, Y), {"N": 2}, 1, (0,)),
    OperatorCase("GatherV2", (X, int32_array(2, 0), scalar_array(1)), {"batch_dims": 0}, 1, (2,)),
    OperatorCase("Gather", (X, int32_array(1, 0))),
    OperatorCase("Reverse", (X, bool_array(False, True)), {}, 1, (1,)),
    OperatorCase("ReverseV2", (X, int32_array(0)), {}, 1, (1,)),
    OperatorCase("Slice", (X, int32_array(0, 1), int32_array(-1, 2)), {}, 1, (1, 2)),
    OperatorCase(
        "StridedSlice",
        (X, int32_array(0, 1), int32_array(0, 3), int32_array(1, 2)),
        {**STRIDED_SLICE_MASKS, "end_mask": 1},
        1,
        (1, 2, 3),
    ),
    OperatorCase(
        "StridedSlice",
        (int32_array(4, 5, 6), int32_array(-1), int32_array(0), int32_array(1)),
        {**STRIDED_SLICE_MASKS, "shrink_axis_mask": 1},
        1,
        (1, 2, 3),
    ),
    OperatorCase("Pack", (X, Y), {"axis": 1, "N": 2}),
    OperatorCase("Unpack", (X,), {"axis": 1, "num": 3}, 3),
    OperatorCase("Tile", (X, int32_array(1, 2)), {}, 1, (1,)),
    OperatorCase("Split", (scalar_array(1), PAIR), {"num_split": 2}, 2, (0,)),
    OperatorCase("SplitV", (X, int32_array(1, 2), scalar_array(1)), {"num_split": 2}, 2, (1, 2)),
    OperatorCase(
        "ScatterNd",
        (np.array([[1], [3]], np.int32), random_float32(2), int32_array(5)),
        {},
        1,
        (2,),
    ),
    OperatorCase("GatherNd", (X, np.array([[0, 1], [1, 2]], np.int32))),
    OperatorCase(
        "SparseToDense",
        (
            np.array([[0, 1], [1, 2]], np.int32),
            int32_array(2, 3),
            random_float32(2),
            scalar_array(0.5),
        ),
        {},
        1,
        (1,),
    ),
    OperatorCase(
        "TensorScatterUpdate",
        (random_float32(4), np.array([[1], [3]], np.int32), random_float32(2)),
    ),
    # order and sets
    OperatorCase(
        "Bincount", (int32_array(1, 1, 2), scalar_array(4), np.zeros(0, np.float32)), {}, 1, (1,)
    ),
    OperatorCase(
        "DenseBincount",
        (int32_array(1, 1, 2), scalar_array(4), np.ones(3, np.float32)),
        {"binary_output": False},
        1,
        (1,),
    ),
    OperatorCase("TopKV2", (X, scalar_array(2)), {"sorted": True}, 2, (1,)),
    OperatorCase(
        "LowerBound",
        (np.array([[0.0, 3, 9, 9, 10]], np.float32), np.array([[9.0, 0.5]], np.float32)),
    ),
    OperatorCase(
        "UpperBound",
        (np.array([[0.0, 3, 9, 9, 10]], np.float32), np.array([[9.0, 0.5]], np.float32)),
    ),
    OperatorCase("Unique", (int32_array(1, 1, 2, 4, 4),), {}, 2),
    OperatorCase("UniqueV2", (int32_array(1, 1, 2, 4, 4), scalar_array(0)), {}, 2, (1,)),
    OperatorCase("Where", (X > 0,)),
    OperatorCase("ListDiff", (int32_array(1, 2, 3, 4), int32_array(2, 4)), {}, 2),
    # images
    OperatorCase(
        "ResizeBilinear",
        (IMAGE, int32_array(3, 7)),
        {"align_corners": False, "half_pixel_centers": True},
        1,
        (1,),
    ),
    OperatorCase(
        "ResizeNearestNeighbor",
        (IMAGE, int32_array(3, 7)),
        {"align_corners": True, "half_pixel_centers": False},
        1,
        (1,),
    ),
    OperatorCase(
        "CropAndResize",
        (IMAGE, np.array([[0, 0, 0.5, 1.2]], np.float32), int32_array(0), int32_array(3, 3)),
        {"method": "bilinear", "extrapolation_value": 2.0},
        1,
        (3,),
    ),
    OperatorCase(
        "ImageProjectiveTransformV3",
        (
            IMAGE,
            np.array([[1, 0.2, 0.5, 0, 1, 0, 0, 0]], np.float32),
            int32_array(4, 4),
            scalar_array(1.0),
        ),
        {"interpolation": "BILINEAR", "fill_mode": "CONSTANT"},
        1,
        (2, 3),
    ),
    OperatorCase(
        "NonMaxSuppressionV2",
        (BOXES, BOX_SCORES, scalar_array(3), scalar_array(0.5)),
        {},
        1,
        (2, 3),
    ),
    OperatorCase(
        "NonMaxSuppressionV3",
        (BOXES, BOX_SCORES, scalar_array(3), scalar_array(0.5), scalar_array(0.0)),
        {},
        1,
        (2, 3, 4),
    ),
    OperatorCase(
        "NonMaxSuppressionV4",
        (BOXES, BOX_SCORES, scalar_array(3), scalar_array(0.5), scalar_array(0.0)),
        {"pad_to_max_output_size": True},
        2,
        (2, 3, 4),
    ),
    OperatorCase(
        "NonMaxSuppressionV5",
        (
            BOXES,
            BOX_SCORES,
            scalar_array(3),
            scalar_array(0.5),
            scalar_array(0.0),
            scalar_array(0.5),
        ),
        {},
        2,
        (2, 3, 4, 5),
    ),
    OperatorCase("FFT", (COMPLEX_MATRIX,)),
    OperatorCase("IFFT", (COMPLEX_MATRIX,)),
    OperatorCase("RFFT", (PAIR, int32_array(4)), {}, 1, (1,)),
    OperatorCase(
        "IRFFT",
        ((random_float32(2, 3) + 1j * random_float32(2, 3)).astype(np.complex64), int32_array(4)),
        {},
        1,
        (1,),
    ),
    # text, sparse, ragged
    OperatorCase(
        "StaticRegexReplace",
        (string_array("two fish", "fish"),),
        {"pattern": "fish", "rewrite": "hat", "replace_global": True},
    ),
    OperatorCase(
        "StringSplit", (string_array("a b", "c"), np.array(" ", object)), {"skip_empty": True}, 3
    ),
    OperatorCase("StringToHashBucketFast", (string_array("a", "bc"),), {"num_buckets": 10}),
    OperatorCase(
        "StringNGrams",
        (string_array("a", "b", "c"), int32_array(0, 2, 3)),
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
    OperatorCase(
        "SparseFillEmptyRows",
        (
            np.array([[0, 0], [2, 1]], np.int32),
            random_float32(2),
            int32_array(3, 2),
            scalar_array(9.0),
        ),
        {},
        4,
    ),
    OperatorCase(
        "SparseReshape",
        (np.array([[0, 0], [1, 1]], np.int32), int32_array(2, 2), int32_array(4, -1)),
        {},
        2,
    ),
    OperatorCase(
        "SparseSegmentMean", (random_float32(3, 2), int32_array(0, 1, 2), int32_array(0, 0, 1))
    ),
    OperatorCase(
        "SparseSegmentSum", (random_float32(3, 2), int32_array(0, 1, 2), int32_array(0, 0, 1))
    ),
    OperatorCase("RaggedRange", (scalar_array(0), scalar_array(5), scalar_array(2)), {}, 2),
    OperatorCase(
        "RaggedGather",
        (int32_array(0, 2, 3), random_float32(3), int32_array(1, 0)),
        {"OUTPUT_RAGGED_RANK": 1},
        2,
    ),
    OperatorCase(
        "RaggedTensorToTensor",
        (
            int32_array(2, 3),
            random_float32(3),
            scalar_array(0.0),
            scalar_array(2),
            int32_array(0, 2, 3),
        ),
        {"row_partition_types": ["FIRST_DIM_SIZE", "ROW_SPLITS"]},
    ),
]
"""Random numbers, the control flow, lists and arrays of tensors have tests of their own."""


def add_case(case, making, prefix="", *, all_constant=False):
    """Add a case to a graph; return the names of its outputs, and its inputs by name."""
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
