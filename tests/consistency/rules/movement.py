"""Rules about joining, cutting, padding and rearranging."""

import numpy as np

from consistency.rules.reasons import ANY_RANK_IS_ALLOWED, DTYPES_ARE_PROMOTED, MORE_DTYPES_EXIST
from consistency.rules.row import accepts, ones, ones_like, rejects
from plugrad.errors import (
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)
from properties.calls import FLOATS, VECTOR, int32_array

INTEGER_MATRIX = int32_array([1, 2, 3], [4, 5, 6])
SLICE_OF_ONE_ELEMENT = {"begin": [0] * 3, "end": [1] * 3, "strides": [1] * 3}

JOINING_RULES = (
    rejects(
        *("some tensors", "concat stack", {"arrays": []}, ArgumentValueError),
        *("{op}: the list of tensors", "is empty", "it needs at least one"),
    ),
    accepts(
        *("complex numbers", "concat", {"arrays": [FLOATS, FLOATS.astype("complex64")]}),
        *(DTYPES_ARE_PROMOTED, np.concatenate([FLOATS, FLOATS.astype("complex64")])),
    ),
    *(
        rejects(
            *("ranks and sizes", "concat", {"arrays": [FLOATS, other]}, ShapeError),
            *(
                "Concat: shapes",
                f"[(2, 3), {other.shape}]",
                "must be equal except for the size of axis 0",
            ),
        )
        for other in (VECTOR, ones(2, 2))
    ),
    rejects(
        *("axis, shapes and dtypes", "stack", {"axis": 3}, AxisError),
        *("stack: axis", "=3 is out of range for rank 3", "use -3 to 2"),
    ),
    rejects(
        *("axis, shapes and dtypes", "stack", {"arrays": [FLOATS, VECTOR]}, ShapeError),
        *("Pack: the shapes", "[(2, 3), (3,)]", "must be equal"),
    ),
    accepts(
        *("axis, shapes and dtypes", "stack", {"arrays": [FLOATS, INTEGER_MATRIX]}),
        *(DTYPES_ARE_PROMOTED, np.stack([FLOATS, INTEGER_MATRIX.astype("float32")])),
    ),
    rejects(
        *("indexing", "meshgrid", {"indexing": "ji"}, ArgumentValueError),
        *("meshgrid: indexing", "='ji'", "must be 'xy' or 'ij'"),
    ),
)

SHAPE_RULES = (
    *(
        rejects(
            *("axis", "expand_dims", {"axis": axis}, AxisError),
            *("expand_dims: axis", f"={axis} is out of range for rank 3", "use -3 to 2"),
        )
        for axis in (3, -4)
    ),
    *(
        rejects(
            *("axis", "reverse unique unstack", {"axis": axis}, AxisError),
            *("{op}: axis", f"={axis} is out of range for rank 2", "use -2 to 1"),
        )
        for axis in (2, -3)
    ),
    rejects(
        *("rank", "unique", {"x": ones()}, AxisError),
        *("unique: axis", "a 0-d tensor has no axes", "reshape(x, (1,)) gives it one"),
    ),
    rejects(
        *("shape", "broadcast_to", {"shape": (2, -3)}, ShapeError),
        *("broadcast_to: shape", "=(2, -3)", "sizes must be 0 or more"),
    ),
    rejects(
        *("shape", "broadcast_to", {"shape": (3,)}, ShapeError),
        *("BroadcastTo: shape", "(2, 3) … (3,)", "must have at least as many axes"),
    ),
    rejects(
        *("sizes", "broadcast_to", {"shape": (4, 3)}, ShapeError),
        *("BroadcastTo: shapes", "(2, 3) and (4, 3)", "sizes must be equal or 1"),
    ),
    *(
        rejects(
            *(f"{name} is whole", "broadcast_args", {name: ones_like("float32")}, DTypeError),
            *(
                f"broadcast_args ({name})",
                "does not take float32",
                "Cast first, as in x.astype(plugrad.int32)",
            ),
        )
        for name in ("s0", "s1")
    ),
    *(
        rejects(
            *("ranks", "broadcast_args", {name: int32_array([2, 1])}, ShapeError),
            *(f"BroadcastArgs: {name}", "(1, 2)", "must be a vector"),
        )
        for name in ("s0", "s1")
    ),
    rejects(
        *("shape", "ensure_shape", {"shape": (3, None)}, ShapeError),
        *("ensure_shape: x", "(2, 3)", "it must match (3, None)"),
    ),
    *(
        rejects(
            *("sizes", "reshape", {"shape": shape}, ShapeError),
            *("reshape: shape", f"={shape}", remedy),
        )
        for shape, remedy in (
            ((-1, -1), "only one size can be inferred"),
            ((-2, -3), "sizes must be 0 or more"),
            ((4, 2), "does not fit 6 elements: it holds 8"),
        )
    ),
    rejects(
        *("axes of size 1", "squeeze", {"axis": 1}, ShapeError),
        *("squeeze: axis", "=1", "must have size 1 in shape (1, 2, 3)"),
    ),
    rejects(
        *("length", "transpose", {"axes": (0,)}, AxisError),
        *("Transpose: perm", "=(0,)", "must name each of the 2 axes of shape (2, 3) once"),
    ),
    rejects(
        *("entries", "transpose", {"axes": (0, 2)}, AxisError),
        *("permute_dims: axes", "=2 is out of range", "use -2 to 1"),
    ),
    accepts(
        "entries", "transpose", {"axes": (-1, 0)}, "negative axes count from the end", FLOATS.T
    ),
    *(
        accepts(
            *("length", "tile", {"repetitions": repetitions}),
            *(
                "axes that are missing on either side count once, as in NumPy",
                np.tile(FLOATS, repetitions),
            ),
        )
        for repetitions in ((2,), (2, 1, 1))
    ),
    accepts(
        *("rank of x", "reverse1d reverse3d reverse4d", {"axis": None}),
        *(ANY_RANK_IS_ALLOWED, FLOATS[::-1, ::-1]),
    ),
    accepts("rank of x", "reverse2d", {"x": VECTOR}, ANY_RANK_IS_ALLOWED, VECTOR[::-1]),
)

SLICING_RULES = (
    accepts("rank of x", "slice1d slice3d slice4d", {}, ANY_RANK_IS_ALLOWED, FLOATS[:1, 1:]),
    accepts(
        "rank of x",
        "slice2d",
        {"x": VECTOR, "begin": 1, "size": 2},
        ANY_RANK_IS_ALLOWED,
        VECTOR[1:],
    ),
    rejects(
        *("no scalars", "slice", {"x": ones()}, ShapeError),
        *("slice: begin", "=(0, 1)", "more numbers than shape () has axes"),
    ),
    accepts(
        *("no scalars", "slice", {"x": ones(), "begin": (), "size": ()}),
        *("all of a scalar is a part of it, as in NumPy", 1.0),
    ),
    *(
        rejects(
            *("begin", "slice", {"begin": (begin, 0)}, ShapeError),
            *("Slice: begin", f"=({begin}, 0)", "both must be 0 or more"),
        )
        for begin in (-1, -2)
    ),
    rejects(
        *("size", "slice", {"size": (1, 3)}, ShapeError),
        *("Slice: ", "size=(1, 3)", "begin + size at most the size of each axis"),
    ),
    rejects(
        *("equal parts", "split", {"sizes": 2}, ArgumentValueError),
        *("split: sizes", "=2", "2 does not divide 3; give the sizes of the parts"),
    ),
    rejects(
        *("sizes", "split", {"sizes": (-1, -1)}, ShapeError),
        *("split: sizes", "=(-1, -1)", "only one size can be inferred"),
    ),
    rejects(
        *("sizes", "split", {"sizes": (1, 1)}, ShapeError),
        *("SplitV: sizes", "(1, 1)", "do not add up to 3, the size of axis 1"),
    ),
    rejects(
        *(
            "ellipsis",
            "strided_slice",
            {"x": ones(2, 2, 2), **SLICE_OF_ONE_ELEMENT, "ellipsis_mask": 5},
        ),
        *(TensorIndexError, "strided_slice: ellipsis_mask", "=5", "there may be only one ellipsis"),
    ),
    rejects(
        *("strides", "strided_slice", {"strides": [0, 1]}, ArgumentValueError),
        *("strided_slice: ", "strides=[0, 1]", "no stride may be 0"),
    ),
    rejects(
        *("one position", "strided_slice", {"begin": [5, 0], "shrink_axis_mask": 1}),
        *(TensorIndexError, "strided_slice: ", "index 5", "out of range for axis 0 of size 2"),
    ),
    rejects(
        *("one position", "strided_slice", {"strides": [-1, 1], "shrink_axis_mask": 1}),
        *(ArgumentValueError, "strided_slice: strides[0]", "=-1", "must be positive"),
    ),
    rejects(
        *("number of indices", "strided_slice", SLICE_OF_ONE_ELEMENT, TensorIndexError),
        *("strided_slice: ", "3 indices", "2 axes … there may be one for each axis"),
    ),
)

PADDING_RULES = (
    rejects(
        *("mode", "mirror_pad", {"mode": "edge"}, ArgumentValueError),
        *("MirrorPad: mode", "='edge'", "must be 'reflect' or 'symmetric'"),
    ),
    rejects(
        *("no scalars", "mirror_pad", {"x": ones(), "paddings": []}, ShapeError),
        *("MirrorPad: paddings", "of shape ()", "which must have at least one axis"),
    ),
    rejects(
        *("no scalars", "pad", {"x": ones()}, ShapeError),
        *("PadV2: paddings", "of shape ()", "must be one pair of sizes for each axis"),
    ),
    accepts(
        *("no scalars", "pad", {"x": ones(), "paddings": []}),
        *("a scalar has no axes to pad, as in NumPy", 1.0),
    ),
    rejects(
        *("pairs", "mirror_pad", {"paddings": [(1, 1)]}, ShapeError),
        *("MirrorPad: paddings", "=((1, 1),)", "must be one pair of sizes for each axis"),
    ),
    rejects(
        *("pairs", "mirror_pad", {"paddings": [(1, 1), (-1, 1)]}, ArgumentValueError),
        *("mirror_pad: paddings", "=[(1, 1), (-1, 1)]", "integers of at least 0"),
    ),
    *(
        rejects(
            *("pairs", "mirror_pad", {"paddings": [(size, 1), (1, 1)], "mode": mode}, ShapeError),
            *("MirrorPad: paddings", f"=(({size}, 1), (1, 1))", f"{most} the size of their axis"),
        )
        for mode, size, most in (("reflect", 2, "less than"), ("symmetric", 3, "at most"))
    ),
    *(
        rejects(
            *("number of pairs", op, {"x": ones(*shape), "paddings": pairs}, ShapeError),
            *("PadV2: paddings", f"={pairs}", f"one pair of sizes for each axis of shape {shape}"),
        )
        for op, shape in (("pad1d", (3,)), ("pad2d", (2, 3)), ("pad3d", (1, 2, 3)))
        for pairs in (((1, 1),) * (len(shape) + 1),)
    ),
    rejects(
        *("number of pairs", "pad4d", {"x": ones(1, 1, 2, 3)}, ShapeError),
        *("PadV2: paddings", "=((1, 1), (0, 1))", "for each axis of shape (1, 1, 2, 3)"),
    ),
    *(
        rejects(
            *("rank", op, {"x": ones(4, 4)}, ShapeError),
            *(f"{kernel}: block_shape", "=(2, 2) … shape (4, 4)", "is for 2 axes after the batch"),
        )
        for op, kernel in (
            ("batch_to_space_nd", "BatchToSpaceND"),
            ("space_to_batch_nd", "SpaceToBatchND"),
        )
    ),
    rejects(
        *("a pair for each size", "batch_to_space_nd", {"crops": [[0, 1]]}, ShapeError),
        *("BatchToSpaceND: crops", "=((0, 1),)", "for each of the 2 axes of block_shape"),
    ),
    rejects(
        *("a pair for each size", "space_to_batch_nd", {"paddings": [[0, 1]]}, ShapeError),
        *("SpaceToBatchND: paddings", "=((0, 1),)", "for each of the 2 axes of block_shape"),
    ),
    rejects(
        *("multiples", "batch_to_space_nd", {"x": ones(3, 2, 2, 1)}, ShapeError),
        *("BatchToSpaceND: the batch", "(3, 2, 2, 1)", "must be a multiple of the 4 cells"),
    ),
    rejects(
        *("multiples", "space_to_batch_nd", {"paddings": [[0, 1], [1, 1]]}, ShapeError),
        *(
            "SpaceToBatchND: the padded sizes",
            "(5, 6)",
            "must be multiples … choose other paddings",
        ),
    ),
    *(
        rejects(
            *("block size", "depth_to_space", {"block_size": size}, ArgumentValueError),
            *("DepthToSpace: block_size", f"={size}", "must be 2 or more"),
        )
        for size in (0, 1)
    ),
    rejects(
        *("channels", "depth_to_space", {"x": ones(1, 2, 2, 3)}, ShapeError),
        *("DepthToSpace: the 3 channels", "(1, 2, 2, 3)", "must be a multiple of block_size**2"),
    ),
    accepts(
        *("x is float", "depth_to_space", {"x": np.arange(16, dtype="int32").reshape(1, 2, 2, 4)}),
        MORE_DTYPES_EXIST,
        lambda x, **_: x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(1, 4, 4, 1),
    ),
)

MOVEMENT_RULES = (*JOINING_RULES, *SHAPE_RULES, *SLICING_RULES, *PADDING_RULES)
