"""Bring a record's attributes from TensorFlow.js's forms into those of plugrad's contracts."""

from math import prod
from operator import index
from typing import Any

import numpy as np

from conformance.reader import Record
from plugrad.extend import KERNELS, as_dtype, axes_of, axis_of
from plugrad.shapes import completed

Forms = dict[str, Any]


def pair(value: Any) -> tuple[int, int]:
    """Return two numbers from one or two."""
    return (value, value) if isinstance(value, int) else tuple(value)


def integers(value: Any) -> tuple[int, ...]:
    """Return a tuple of ints from one or several."""
    return tuple(map(index, value if isinstance(value, list | np.ndarray) else [value]))


def padding(value: Any, data_format: str) -> Any:
    """Return (before, after) of the two axes of the image; TensorFlow.js may give all four."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        start = 1 if data_format == "NHWC" else 2
        return tuple(map(tuple, value[start : start + 2]))
    return ((value, value), (value, value))


def parts(value: Any, length: int) -> tuple[int, ...]:
    """Return the sizes of parts from their number, or with a size of -1."""
    if isinstance(value, int):
        return (length // value,) * value
    rest = length - sum(n for n in value if n >= 0)
    return tuple(rest if n < 0 else n for n in value)


def block(begin: Any, size: Any, shape: tuple[int, ...]) -> Forms:
    """Return begin and size for every axis; -1 and missing sizes reach the end."""
    begin = (*integers(begin), *[0] * len(shape))[: len(shape)]
    sizes = (*integers([] if size is None else size), *[-1] * len(shape))[: len(shape)]
    sizes = tuple(n - b if s < 0 else s for s, b, n in zip(sizes, begin, shape, strict=True))
    return {"begin": begin, "size": sizes}


def strided(attrs: Forms, shape: tuple[int, ...]) -> Forms:
    """Return begin, end and strides for every axis, without masks."""
    bits = {name.removesuffix("_mask"): n for name, n in attrs.items() if name.endswith("_mask")}
    given = list(zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True))
    key: list[Any] = []
    for i, (begin, end, stride) in enumerate(given):
        if bits["ellipsis"] >> i & 1:
            new = sum(bits["new_axis"] >> j & 1 for j in range(len(given)))
            key += [slice(None)] * (len(shape) - len(given) + 1 + new)
        elif bits["new_axis"] >> i & 1:
            continue
        elif bits["shrink_axis"] >> i & 1:
            key.append(slice(begin, begin + 1 or None))
        else:
            first = None if bits["begin"] >> i & 1 else begin
            key.append(slice(first, None if bits["end"] >> i & 1 else end, stride))
    key += [slice(None)] * (len(shape) - len(key))
    bounds = [part.indices(n) for part, n in zip(key, shape, strict=True)]
    return dict(zip(("begin", "end", "strides"), zip(*bounds, strict=True), strict=True))


def forms(record: Record, x: Any = None) -> Forms:
    """Return the attributes of a record in plugrad's forms; `x` is the first input's shape."""
    attrs, name = dict(record.attrs), record.kernel
    if x is None and (record.inputs or []):
        x = record.x.shape
    rank = 0 if x is None else len(x)
    if name == "StridedSlice":
        return strided(attrs, x)
    if name == "Slice":
        return block(attrs["begin"], attrs.get("size"), x)
    if name == "Reverse":
        attrs.setdefault("dims", None)  # absent means every axis
    has_one_axis = name in {"ArgMax", "ArgMin", "Concat", "GatherV2", "Unpack", "SplitV"}
    table = {
        "axis": lambda v: (
            axis_of(v, rank + 1)
            if name == "Pack"
            else axis_of(v, rank)
            if has_one_axis
            else axes_of(v, rank)
        ),
        "reduction_indices": lambda v: axes_of(v, rank),
        "dims": lambda v: axes_of(v, rank),
        "dim": lambda v: axis_of(v, rank + (name == "ExpandDims")),
        "batch_dims": lambda v: v + len(record.arrays[1].shape) if v < 0 else v,
        "num_or_size_splits": lambda v: parts(v, x[axis_of(attrs["axis"], rank)]),
        "strides": pair,
        "filter_size": pair,
        "dilations": pair,
        "pad": lambda v: padding(v, attrs.get("data_format", "NHWC")),
        "paddings": lambda v: tuple(map(tuple, v)),
        "dtype": as_dtype,
        "shape": lambda v: completed(integers(v), prod(x)) if name == "Reshape" else integers(v),
        **dict.fromkeys(("perm", "reps", "input_shape", "filter_shape"), integers),
    }
    changed = {key: table.get(key, lambda v: v)(part) for key, part in attrs.items()}
    if "dtype" in KERNELS[name].attributes and name != "Cast":
        changed.setdefault("dtype", as_dtype("float32"))
    return changed


def inputs(record: Record) -> Any:
    """Return the inputs under plugrad's names."""
    if isinstance(record.inputs, list):
        return record.inputs
    return {{"segmentIds": "segment_ids"}.get(n, n): x for n, x in record.inputs.items()}
