"""Bring a record's attributes from TensorFlow.js's forms into those of plugrad's contracts."""

import re
from math import prod
from operator import index
from typing import Any

import numpy as np

from conformance.reader import Record
from plugrad.extend import KERNELS, as_dtype, normalize_axes, normalize_axis
from plugrad.types.shapes import resolve_shape

Attributes = dict[str, Any]


def as_integer_tuple(value: Any) -> tuple[int, ...]:
    """Return a number, or several, as a tuple of ints."""
    return tuple(map(index, value if isinstance(value, list | np.ndarray) else [value]))


def split_sizes(value: Any, length: int) -> tuple[int, ...]:
    """Return the sizes of the parts of a split, given their number or sizes of which one is -1."""
    if isinstance(value, int):
        return (length // value,) * value
    rest = length - sum(n for n in value if n >= 0)
    return tuple(rest if n < 0 else n for n in value)


def complete_slice(begin: Any, size: Any, shape: tuple[int, ...]) -> Attributes:
    """Return begin and size of a slice for every axis; -1 and missing sizes reach to the end."""
    begin = (*as_integer_tuple(begin), *[0] * len(shape))[: len(shape)]
    sizes = (*as_integer_tuple([] if size is None else size), *[-1] * len(shape))[: len(shape)]
    sizes = tuple(n - b if s < 0 else s for s, b, n in zip(sizes, begin, shape, strict=True))
    return {"begin": begin, "size": sizes}


def complete_strided_slice(attrs: Attributes, shape: tuple[int, ...]) -> Attributes:
    """Return begin, end and strides of a slice for every axis, without masks."""
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


def plugrad_attributes(record: Record, x: Any = None) -> Attributes:
    """Return the attributes of a record as plugrad's kernel takes them; `x` is the shape of the first input."""
    attrs, name = dict(record.attrs), record.kernel
    if x is None and (record.inputs or []):
        x = record.x.shape
    rank = 0 if x is None else len(x)
    if name == "Multinomial":
        del attrs["seed"]  # it is a part of an input; see `plugrad_inputs`
    if name == "StridedSlice":
        return complete_strided_slice(attrs, x)
    if name == "Slice":
        return complete_slice(attrs["begin"], attrs.get("size"), x)
    if name in ("Bincount", "DenseBincount"):
        return attrs
    if name == "Reverse":
        attrs.setdefault("dims", None)  # absent means every axis
    if name == "Transform":
        attrs.setdefault("output_shape", list(x[1:3]))
    has_one_axis = name in {
        "ArgMax",
        "ArgMin",
        "Concat",
        "Cumprod",
        "Cumsum",
        "GatherV2",
        "SplitV",
        "Unique",
        "Unpack",
    }
    table = {
        "axis": lambda v: (
            normalize_axis(v, rank + 1)
            if name == "Pack"
            else normalize_axis(v, rank)
            if has_one_axis
            else normalize_axes(v, rank)
        ),
        "reduction_indices": lambda v: normalize_axes(v, rank),
        "dims": lambda v: normalize_axes(v, rank),
        "dim": lambda v: normalize_axis(v, rank + (name == "ExpandDims")),
        "batch_dims": lambda v: v + len(record.arrays[1].shape) if v < 0 else v,
        "num_or_size_splits": lambda v: split_sizes(v, x[normalize_axis(attrs["axis"], rank)]),
        **dict.fromkeys(("paddings", "crops"), lambda v: tuple(map(tuple, v))),
        "dtype": as_dtype,
        "shape": lambda v: (
            resolve_shape(as_integer_tuple(v), prod(x))
            if name == "Reshape"
            else as_integer_tuple(v)
        ),
        **dict.fromkeys(
            ("perm", "reps", "input_shape", "filter_shape", "output_shape", "block_shape"),
            as_integer_tuple,
        ),
        **dict.fromkeys(("size", "crop_size", "n_gram_widths"), as_integer_tuple),
        "row_partition_types": tuple,
        "center": lambda v: tuple(np.broadcast_to(v, 2).tolist()),
        "fill_value": lambda v: tuple(v) if isinstance(v, list) else v,
    }
    changed = {key: table.get(key, lambda v: v)(part) for key, part in attrs.items()}
    if "dtype" in KERNELS[name].attributes and name != "Cast":
        changed.setdefault("dtype", as_dtype("float32"))
    return changed


def reference_window_attributes(record: Record, x: Any = None) -> Attributes:
    """Return the attributes of a recorded convolution or pooling as the reference implementations take them."""
    attrs = plugrad_attributes(record, x)
    axes = len(record.x.shape if x is None else x) - 2
    if "3D" in record.kernel and "Pool" in record.kernel:
        attrs.pop("data_format", None)  # there is but one
    pad = attrs.pop("pad")
    if isinstance(pad, list):  # of all axes
        start = 1 if attrs.get("data_format", "NHWC").endswith("C") else 2
        pad = tuple(map(tuple, pad[start : start + axes]))
    steps = {
        {"filter_size": "window_size"}.get(name, name): tuple(v)
        if isinstance(v, list)
        else (v,) * axes
        for name in ("filter_size", "strides", "dilations")
        if (v := attrs.pop(name, None)) is not None
    }
    return {**attrs, **steps, "padding": ((pad, pad),) * axes if isinstance(pad, int) else pad}


def plugrad_inputs(record: Record) -> Any:
    """Return the inputs of a record by plugrad's names."""
    if isinstance(record.inputs, list):
        return record.inputs
    given = {re.sub("([A-Z])", r"_\1", n).lower(): x for n, x in record.inputs.items()}
    if record.kernel == "Multinomial":
        # the words of a key, which is the seed, and of a counter at its beginning
        given["state"] = np.array([int(record.attrs["seed"]), 0, 0, 0, 0, 0], np.int32)
    if record.kernel in ("Bincount", "DenseBincount") and given["weights"].size == 0:
        given["weights"] = np.ones_like(given["x"], given["weights"].dtype)  # what it stands for
    return given
