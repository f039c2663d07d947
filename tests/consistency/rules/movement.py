"""Rules about joining, cutting, padding and rearranging."""

import numpy as np

from consistency.rules.reasons import ANY_RANK, MORE_DTYPES, PROMOTES
from consistency.rules.row import like, ones, refused, taken
from plugrad.errors import (
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)
from properties.calls import F, V, i32

WHOLE = i32([1, 2, 3], [4, 5, 6])
CUT = {"begin": [0] * 3, "end": [1] * 3, "strides": [1] * 3}

JOINING = (
    refused(
        *("some tensors", "concat stack", {"arrays": []}, ArgumentValueError),
        *("{op}: the list of tensors", "is empty", "it needs at least one"),
    ),
    taken(
        *("complex numbers", "concat", {"arrays": [F, F.astype("complex64")]}),
        *(PROMOTES, np.concatenate([F, F.astype("complex64")])),
    ),
    *(
        refused(
            *("ranks and sizes", "concat", {"arrays": [F, other]}, ShapeError),
            *(
                "Concat: shapes",
                f"[(2, 3), {other.shape}]",
                "must be equal except for the size of axis 0",
            ),
        )
        for other in (V, ones(2, 2))
    ),
    refused(
        *("axis, shapes and dtypes", "stack", {"axis": 3}, AxisError),
        *("stack: axis", "=3 is out of range for rank 3", "use -3 to 2"),
    ),
    refused(
        *("axis, shapes and dtypes", "stack", {"arrays": [F, V]}, ShapeError),
        *("Pack: the shapes", "[(2, 3), (3,)]", "must be equal"),
    ),
    taken(
        *("axis, shapes and dtypes", "stack", {"arrays": [F, WHOLE]}),
        *(PROMOTES, np.stack([F, WHOLE.astype("float32")])),
    ),
    refused(
        *("indexing", "meshgrid", {"indexing": "ji"}, ArgumentValueError),
        *("meshgrid: indexing", "='ji'", "must be 'xy' or 'ij'"),
    ),
)

SHAPES = (
    *(
        refused(
            *("axis", "expand_dims", {"axis": axis}, AxisError),
            *("expand_dims: axis", f"={axis} is out of range for rank 3", "use -3 to 2"),
        )
        for axis in (3, -4)
    ),
    *(
        refused(
            *("axis", "reverse unique unstack", {"axis": axis}, AxisError),
            *("{op}: axis", f"={axis} is out of range for rank 2", "use -2 to 1"),
        )
        for axis in (2, -3)
    ),
    refused(
        *("rank", "unique", {"x": ones()}, AxisError),
        *("unique: axis", "a 0-d tensor has no axes", "reshape(x, (1,)) gives it one"),
    ),
    refused(
        *("shape", "broadcast_to", {"shape": (2, -3)}, ShapeError),
        *("broadcast_to: shape", "=(2, -3)", "sizes must be 0 or more"),
    ),
    refused(
        *("shape", "broadcast_to", {"shape": (3,)}, ShapeError),
        *("BroadcastTo: shape", "(2, 3) … (3,)", "must have at least as many axes"),
    ),
    refused(
        *("sizes", "broadcast_to", {"shape": (4, 3)}, ShapeError),
        *("BroadcastTo: shapes", "(2, 3) and (4, 3)", "sizes must be equal or 1"),
    ),
    *(
        refused(
            *(f"{name} is whole", "broadcast_args", {name: like("float32")}, DTypeError),
            *(
                f"broadcast_args ({name})",
                "does not take float32",
                "Cast first, as in x.astype(plugrad.int32)",
            ),
        )
        for name in ("s0", "s1")
    ),
    *(
        refused(
            *("ranks", "broadcast_args", {name: i32([2, 1])}, ShapeError),
            *(f"BroadcastArgs: {name}", "(1, 2)", "must be a vector"),
        )
        for name in ("s0", "s1")
    ),
    refused(
        *("shape", "ensure_shape", {"shape": (3, None)}, ShapeError),
        *("ensure_shape: x", "(2, 3)", "it must match (3, None)"),
    ),
    *(
        refused(
            *("sizes", "reshape", {"shape": shape}, ShapeError),
            *("reshape: shape", f"={shape}", remedy),
        )
        for shape, remedy in (
            ((-1, -1), "only one size can be inferred"),
            ((-2, -3), "sizes must be 0 or more"),
            ((4, 2), "does not fit 6 elements: it holds 8"),
        )
    ),
    refused(
        *("axes of size 1", "squeeze", {"axis": 1}, ShapeError),
        *("squeeze: axis", "=1", "must have size 1 in shape (1, 2, 3)"),
    ),
    refused(
        *("length", "transpose", {"axes": (0,)}, AxisError),
        *("Transpose: perm", "=(0,)", "must name each of the 2 axes of shape (2, 3) once"),
    ),
    refused(
        *("entries", "transpose", {"axes": (0, 2)}, AxisError),
        *("permute_dims: axes", "=2 is out of range", "use -2 to 1"),
    ),
    taken("entries", "transpose", {"axes": (-1, 0)}, "negative axes count from the end", F.T),
    *(
        taken(
            *("length", "tile", {"repetitions": repetitions}),
            *(
                "axes that are missing on either side count once, as in NumPy",
                np.tile(F, repetitions),
            ),
        )
        for repetitions in ((2,), (2, 1, 1))
    ),
    taken(
        *("rank of x", "reverse1d reverse3d reverse4d", {"axis": None}),
        *(ANY_RANK, F[::-1, ::-1]),
    ),
    taken("rank of x", "reverse2d", {"x": V}, ANY_RANK, V[::-1]),
)

CUTTING = (
    taken("rank of x", "slice1d slice3d slice4d", {}, ANY_RANK, F[:1, 1:]),
    taken("rank of x", "slice2d", {"x": V, "begin": 1, "size": 2}, ANY_RANK, V[1:]),
    refused(
        *("no scalars", "slice", {"x": ones()}, ShapeError),
        *("slice: begin", "=(0, 1)", "more numbers than shape () has axes"),
    ),
    taken(
        *("no scalars", "slice", {"x": ones(), "begin": (), "size": ()}),
        *("all of a scalar is a part of it, as in NumPy", 1.0),
    ),
    *(
        refused(
            *("begin", "slice", {"begin": (begin, 0)}, ShapeError),
            *("Slice: begin", f"=({begin}, 0)", "both must be 0 or more"),
        )
        for begin in (-1, -2)
    ),
    refused(
        *("size", "slice", {"size": (1, 3)}, ShapeError),
        *("Slice: ", "size=(1, 3)", "begin + size at most the size of each axis"),
    ),
    refused(
        *("equal parts", "split", {"sizes": 2}, ArgumentValueError),
        *("split: sizes", "=2", "2 does not divide 3; give the sizes of the parts"),
    ),
    refused(
        *("sizes", "split", {"sizes": (-1, -1)}, ShapeError),
        *("split: sizes", "=(-1, -1)", "only one size can be inferred"),
    ),
    refused(
        *("sizes", "split", {"sizes": (1, 1)}, ShapeError),
        *("SplitV: sizes", "(1, 1)", "do not add up to 3, the size of axis 1"),
    ),
    refused(
        *("ellipsis", "strided_slice", {"x": ones(2, 2, 2), **CUT, "ellipsis_mask": 5}),
        *(TensorIndexError, "strided_slice: ellipsis_mask", "=5", "there may be only one ellipsis"),
    ),
    refused(
        *("strides", "strided_slice", {"strides": [0, 1]}, ArgumentValueError),
        *("strided_slice: ", "strides=[0, 1]", "no stride may be 0"),
    ),
    refused(
        *("one position", "strided_slice", {"begin": [5, 0], "shrink_axis_mask": 1}),
        *(TensorIndexError, "strided_slice: ", "index 5", "out of range for axis 0 of size 2"),
    ),
    refused(
        *("one position", "strided_slice", {"strides": [-1, 1], "shrink_axis_mask": 1}),
        *(ArgumentValueError, "strided_slice: strides[0]", "=-1", "must be positive"),
    ),
    refused(
        *("number of indices", "strided_slice", CUT, TensorIndexError),
        *("strided_slice: ", "3 indices", "2 axes … there may be one for each axis"),
    ),
)

PADDING = (
    refused(
        *("mode", "mirror_pad", {"mode": "edge"}, ArgumentValueError),
        *("MirrorPad: mode", "='edge'", "must be 'reflect' or 'symmetric'"),
    ),
    refused(
        *("no scalars", "mirror_pad", {"x": ones(), "paddings": []}, ShapeError),
        *("MirrorPad: paddings", "of shape ()", "which must have at least one axis"),
    ),
    refused(
        *("no scalars", "pad", {"x": ones()}, ShapeError),
        *("PadV2: paddings", "of shape ()", "must be one pair of sizes for each axis"),
    ),
    taken(
        *("no scalars", "pad", {"x": ones(), "paddings": []}),
        *("a scalar has no axes to pad, as in NumPy", 1.0),
    ),
    refused(
        *("pairs", "mirror_pad", {"paddings": [(1, 1)]}, ShapeError),
        *("MirrorPad: paddings", "=((1, 1),)", "must be one pair of sizes for each axis"),
    ),
    refused(
        *("pairs", "mirror_pad", {"paddings": [(1, 1), (-1, 1)]}, ArgumentValueError),
        *("mirror_pad: paddings", "=[(1, 1), (-1, 1)]", "integers of at least 0"),
    ),
    *(
        refused(
            *("pairs", "mirror_pad", {"paddings": [(size, 1), (1, 1)], "mode": mode}, ShapeError),
            *("MirrorPad: paddings", f"=(({size}, 1), (1, 1))", f"{most} the size of their axis"),
        )
        for mode, size, most in (("reflect", 2, "less than"), ("symmetric", 3, "at most"))
    ),
    *(
        refused(
            *("number of pairs", op, {"x": ones(*shape), "paddings": pairs}, ShapeError),
            *("PadV2: paddings", f"={pairs}", f"one pair of sizes for each axis of shape {shape}"),
        )
        for op, shape in (("pad1d", (3,)), ("pad2d", (2, 3)), ("pad3d", (1, 2, 3)))
        for pairs in (((1, 1),) * (len(shape) + 1),)
    ),
    refused(
        *("number of pairs", "pad4d", {"x": ones(1, 1, 2, 3)}, ShapeError),
        *("PadV2: paddings", "=((1, 1), (0, 1))", "for each axis of shape (1, 1, 2, 3)"),
    ),
    *(
        refused(
            *("rank", op, {"x": ones(4, 4)}, ShapeError),
            *(f"{kernel}: block_shape", "=(2, 2) … shape (4, 4)", "is for 2 axes after the batch"),
        )
        for op, kernel in (
            ("batch_to_space_nd", "BatchToSpaceND"),
            ("space_to_batch_nd", "SpaceToBatchND"),
        )
    ),
    refused(
        *("a pair for each size", "batch_to_space_nd", {"crops": [[0, 1]]}, ShapeError),
        *("BatchToSpaceND: crops", "=((0, 1),)", "for each of the 2 axes of block_shape"),
    ),
    refused(
        *("a pair for each size", "space_to_batch_nd", {"paddings": [[0, 1]]}, ShapeError),
        *("SpaceToBatchND: paddings", "=((0, 1),)", "for each of the 2 axes of block_shape"),
    ),
    refused(
        *("multiples", "batch_to_space_nd", {"x": ones(3, 2, 2, 1)}, ShapeError),
        *("BatchToSpaceND: the batch", "(3, 2, 2, 1)", "must be a multiple of the 4 cells"),
    ),
    refused(
        *("multiples", "space_to_batch_nd", {"paddings": [[0, 1], [1, 1]]}, ShapeError),
        *(
            "SpaceToBatchND: the padded sizes",
            "(5, 6)",
            "must be multiples … choose other paddings",
        ),
    ),
    *(
        refused(
            *("block size", "depth_to_space", {"block_size": size}, ArgumentValueError),
            *("DepthToSpace: block_size", f"={size}", "must be 2 or more"),
        )
        for size in (0, 1)
    ),
    refused(
        *("channels", "depth_to_space", {"x": ones(1, 2, 2, 3)}, ShapeError),
        *("DepthToSpace: the 3 channels", "(1, 2, 2, 3)", "must be a multiple of block_size**2"),
    ),
    taken(
        *("x is float", "depth_to_space", {"x": np.arange(16, dtype="int32").reshape(1, 2, 2, 4)}),
        MORE_DTYPES,
        lambda x, **_: x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(1, 4, 4, 1),
    ),
)

MOVEMENT = (*JOINING, *SHAPES, *CUTTING, *PADDING)
