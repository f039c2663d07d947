"""Call plugrad's op with the arguments that TensorFlow.js's got, and take both results apart."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

import plugrad
from conformance.reader import Opaque, Record
from consistency.tfjs import TfjsOp, tfjs_ops, tfjs_signatures
from plugrad import Tensor
from plugrad.types.dtype import as_dtype

Arguments = dict[str, Any]

# TensorFlow.js takes what it is given for these as whole numbers; other bare numbers are float32.
WHOLE = {
    "indices",
    "segment_ids",
    "box_ind",
    "targets",
    "block_shape",
    "s0",
    "s1",
    "num_lower",
    "num_upper",
    "num_samples",
    "sparse_indices",
    "data_splits",
    "starts",
    "limits",
    "deltas",
    "dense_shape",
    "input_indices",
    "input_shape",
    "new_shape",
    "params_nested_splits",
    "row_partition_tensors",
}
ALWAYS_WHOLE = {"targets", "shape", "row_partition_tensors", "num_lower", "num_upper"}
CLASSES = {"labels", "predictions"}  # of confusion_matrix
SIZES = {"output_shape", "shape", "x_shape", "filter_shape", "strides", "axis", "size", "begin"}
NUMBERS = {"clip_value_min", "clip_value_max"}
TENSORS = {"x", "y", "a", "b", "tensors", "tensor", "values", "value", "t1", "t2"}
WINDOWS = {
    "hannWindow": plugrad.signal.hann_window,
    "hammingWindow": plugrad.signal.hamming_window,
    "": plugrad.signal.hamming_window,  # in a function without a name
    "ident": lambda length: plugrad.ones(length),
}
REDUCTIONS = ("none", "mean", "sum", "sum_by_nonzero_weights")


@cache
def ops() -> dict[str, str]:
    """Return the snake_case name of each op by the name under which its calls were recorded."""
    return {
        f"{op.rpartition('.')[0]}.{spelling}".lstrip("."): op
        for op, (spelling, _) in tfjs_signatures().items()
    }


def place(record: Record) -> TfjsOp:
    """Return where the recorded op is in plugrad."""
    recorded = record.kernel.removeprefix("math.")
    found = next(prefix + recorded for prefix in ("", "spectral.") if prefix + recorded in ops())
    return tfjs_ops()[ops()[found]]


def given(record: Record, here: TfjsOp) -> Arguments:
    """Return the recorded arguments under TensorFlow.js's snake_case names, as plugrad takes them."""
    _, theirs = tfjs_signatures()[here.op]
    spelled = {name.replace("_", ""): name for name in theirs}
    found = {}
    for camel, value in record.args.items():
        found[spelled.get(camel.lower(), camel)] = value
    if here.op == "meshgrid":
        found = {n if n in ("x", "y") else "indexing": v for n, v in found.items()}
        found |= found.pop("indexing", {})
    found = {n: v for n, v in found.items() if v is not None or n == "axis" or is_needed(n, here)}
    if isinstance(window := found.get("window_fn"), Opaque):
        found["window_fn"] = WINDOWS[window.what]
    return {n: converted(n, v, here, found) for n, v in {**here.defaults, **found}.items()}


def is_needed(name: str, here: TfjsOp) -> bool:
    """Whether plugrad's callable cannot be called without an argument."""
    parameter = here.parameters.get(here.arguments.get(name, name))
    return parameter is not None and parameter.default is parameter.empty


def converted(name: str, value: Any, here: TfjsOp, others: Arguments) -> Any:
    """Return an argument in plugrad's form."""
    if name == "pad" and isinstance(value, list):  # all four axes: leave the spatial ones
        first = 2 if others.get("data_format") == "NCHW" else 1
        spatial = value[first : first + len(value) - 2] if len(value) > 2 else value
        # A sequence is an image of height 1 there: padding along that axis has no place here.
        return spatial[1:] if here.op == "conv1d" and spatial[0] == [0, 0] else spatial
    if name == "reduction" and isinstance(value, int):
        return REDUCTIONS[value]
    if name in SIZES and isinstance(value, list | np.ndarray):
        whole = [int(n) for n in np.ravel(value) if n == int(n)]
        return whole if len(whole) == np.size(value) else value
    is_list = isinstance(value, list)
    if is_list and name == "values" and here.op.startswith("tensor"):
        return value
    if is_list and here.op.startswith(("concat", "stack", "add_n", "einsum")) and name in TENSORS:
        return [part if isinstance(part, np.ndarray) else tensor_like("x", part) for part in value]
    if is_list and any(isinstance(part, np.ndarray) for part in value) and name != "values":
        return [converted(name, part, here, others) for part in value]
    if isinstance(value, np.ndarray):
        is_whole = name in ALWAYS_WHOLE and value.dtype.kind == "f"
        return plugrad.asarray(value.astype("int32") if is_whole else value)
    if is_class(name, here):
        return plugrad.asarray(np.asarray(value, "int32"))
    if isinstance(value, Opaque) or name in NUMBERS:
        return value
    parameter = here.parameters.get(here.arguments.get(name, name))
    annotation = str(parameter.annotation) if parameter is not None else ""
    if "TensorLike" in annotation or "np.generic" in annotation or name in TENSORS | WHOLE:
        return tensor_like(name, value)
    return value


def is_class(name: str, here: TfjsOp) -> bool:
    return name in CLASSES and here.op == "confusion_matrix"


def tensor_like(name: str, value: Any) -> Any:
    """Return a tensor; bare numbers are what TensorFlow.js makes of them.

    What does not become a tensor, such as an object or a ragged list, stays as it is: the op refuses it.
    """
    try:
        values = np.asarray(value)
    except ValueError:
        return value  # ragged
    if values.dtype.kind in "if":
        is_whole = name in WHOLE and bool((values == np.trunc(values)).all())
        values = values.astype("int32" if is_whole else "float32")
    if values.dtype == object:
        return value
    return plugrad.asarray(values) if values.dtype.kind in "ifbc" else plugrad.asarray(value)


def prepared(record: Record) -> Callable[[], Any]:
    """Build the arguments; return a function that calls the op and gives its result as recorded."""
    here = place(record)
    args = given(record, here)
    if adapt := ADAPTERS.get(here.op):
        args = adapt(args)

    def call() -> Any:
        result = finished(here, args, run(here, args))
        return RESULTS.get(here.op, lambda y: y)(result)

    return call


def run(here: TfjsOp, args: Arguments) -> Any:
    """Call plugrad with arguments under TensorFlow.js's names."""
    renamed = {here.arguments.get(n, n): v for n, v in args.items() if n not in here.without}
    if here.kernel:
        contract = plugrad.extend.KERNELS[here.kernel]
        inputs = {n: renamed[n] for n in contract.inputs if n in renamed}
        attrs = {n: v for n, v in renamed.items() if n not in inputs}
        return plugrad.run_kernel(here.kernel, inputs, attrs)
    if (
        here.plugrad.startswith("random.")
        and as_dtype(args.get("dtype", "float32")).kind != "floating"
    ):
        floats = run(here, {n: v for n, v in args.items() if n != "dtype"})
        return plugrad.astype(floats, args["dtype"])
    target = attrgetter(here.for_integers)(plugrad) if is_whole(here, args) else here.target
    parameters = inspect.signature(target).parameters
    is_open = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    positional = []
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += renamed.pop(name, [])
        elif name in renamed and parameter.kind in (by_position if is_open else by_position[:1]):
            positional.append(renamed.pop(name))
    return target(*positional, **renamed)


def is_whole(here: TfjsOp, args: Arguments) -> bool:
    """Whether the callable for whole numbers is meant."""
    if not here.for_integers:
        return False
    tensors = [v for v in args.values() if isinstance(v, Tensor)]
    dtype = args.get("dtype")
    return all(t.dtype.is_integer for t in tensors) if tensors else dtype == "int32"


def finished(here: TfjsOp, args: Arguments, result: Any) -> Any:
    """Return the result with what a parameter without a counterpart would have done to it."""
    if "shape" in here.without and "shape" in args:
        # Flat values take the shape; nested ones have one, with which it must agree.
        give = plugrad.reshape if result.ndim < 2 else plugrad.ensure_shape
        result = give(result, tuple(args["shape"]))
    if here.rank is not None:
        return plugrad.ensure_shape(result, (None,) * here.rank)
    if "batch_shape" in here.without and "batch_shape" in args:
        return plugrad.broadcast_to(result, (*args["batch_shape"], *result.shape))
    if args.get("conjugate"):
        return plugrad.conj(result)
    return result


def leaves(result: Any) -> list[np.ndarray]:
    """Return the arrays and numbers of a result in order."""
    if isinstance(result, Tensor):
        return [result.numpy()]
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in leaves(part)]
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


# --- what an op's arguments need beyond other names ------------------------------------------------


def flat_tensors(args: Arguments) -> Arguments:
    """Make the values a NumPy array in the given shape; TensorFlow.js takes them flat."""
    values = args.get("values")
    if isinstance(values, list):
        if args.get("dtype") == "string":
            values = texts(values)
        typed = [part.dtype for part in values if isinstance(part, np.ndarray)]
        try:
            values = np.asarray(values, typed[0] if typed else None)
        except ValueError:
            return args  # ragged
        if typed and "shape" in args:
            values = values.ravel()
        if "dtype" not in args and not typed and values.dtype.kind in "if":
            args = {**args, "dtype": "float32"}
    if isinstance(values, Tensor) and values.dtype == "uint8" and "dtype" not in args:
        args = {**args, "dtype": "int32"}  # TensorFlow.js has no bytes
    return args if values is None else {**args, "values": values}


def texts(values: Any) -> Any:
    """Decode strings that are given as bytes."""
    if isinstance(values, np.ndarray) and values.dtype == np.uint8:
        return values.tobytes().decode()
    return [texts(part) for part in values] if isinstance(values, list) else values


def qr_mode(args: Arguments) -> Arguments:
    whole = args.pop("full_matrices", False)
    return {**args, "full_matrices": "complete" if whole else "reduced"}


def grids(args: Arguments) -> Arguments:
    arrays = [args[n] for n in ("x", "y") if n in args]
    return {**{n: v for n, v in args.items() if n == "indexing"}, "arrays": arrays}


def padded_line(args: Arguments) -> Arguments:
    return {**args, "paddings": [args["paddings"]]}


def counted_in_floats(args: Arguments) -> Arguments:
    """Make weights of size 0, which stand for none, ones; TensorFlow.js counts in float32."""
    ones = plugrad.ones_like(args["x"], dtype="float32")
    return {**args, "weights": args["weights"] if args["weights"].size else ones}


def towards(args: Arguments) -> Arguments:
    """Give a range without a step that of TensorFlow.js, which is -1 for one that goes down."""
    down = {"step": -1} if args["stop"] < args["start"] else {}
    return {**args, **down} if args.get("step") is None else args


def real_part(args: Arguments) -> Arguments:
    """Drop imaginary parts, which TensorFlow.js does unasked."""
    x, dtype = plugrad.asarray(args["x"]), as_dtype(args["dtype"])
    is_dropped = x.dtype.kind == "complex" != dtype.kind
    return {**args, "x": plugrad.real(x) if is_dropped else x}


def every_axis(args: Arguments) -> Arguments:
    """Leave out an empty list of axes, which stands for all of them."""
    return {n: v for n, v in args.items() if n != "axis" or v != []}


def groups(args: Arguments) -> Arguments:
    """Name the groups of a rewrite as RE2 and Python do, not as JavaScript."""
    return {**args, "rewrite": re.sub(r"\$(\d)", r"\\\1", args["rewrite"])}


def whole_from(*kinds: str) -> Callable[[Arguments], Arguments]:
    """Make tensors of these kinds the whole numbers that they stand for in TensorFlow.js."""

    def whole(x: Any) -> Any:
        is_meant = isinstance(x, Tensor) and x.dtype.kind in kinds
        return plugrad.astype(x, "int32") if is_meant else x

    return lambda args: {n: whole(v) for n, v in args.items()}


def asked(name: str) -> Callable[[Arguments], Arguments]:
    """Make bare numbers, which are float32 by now, bools, as TensorFlow.js does."""

    def asked_for(args: Arguments) -> Arguments:
        x = args[name]
        is_number = isinstance(x, Tensor) and x.dtype.kind == "floating"
        return {**args, name: plugrad.astype(x, "bool") if is_number else x}

    return asked_for


ADAPTERS: dict[str, Callable[[Arguments], Arguments]] = {
    **dict.fromkeys(["tensor", *(f"tensor{n}d" for n in range(1, 7))], flat_tensors),
    "linalg.qr": qr_mode,
    "meshgrid": grids,
    **dict.fromkeys(["bincount", "dense_bincount"], counted_in_floats),
    "boolean_mask_async": asked("mask"),
    "where": asked("condition"),
    "logical_not": asked("x"),
    "pad1d": padded_line,
    **dict.fromkeys(["maximum", "minimum", "is_inf", "is_nan"], whole_from("bool")),
    "confusion_matrix": whole_from("bool", "floating"),
    "range": towards,
    "cast": real_part,
    "squeeze": every_axis,
    "string.static_regex_replace": groups,
}


def as_matrix(y: Tensor) -> Tensor:
    return y[None] if y.ndim == 1 else y


def with_positive_diagonal(factors: Any) -> list[np.ndarray]:
    """Return Q and R with the signs that make the diagonal of R positive; each column's is free."""
    q, r = leaves(factors)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(q.dtype)
    of_columns, of_rows = (
        np.pad(signs, [(0, 0)] * (signs.ndim - 1) + [(0, n - signs.shape[-1])], constant_values=1)
        for n in (q.shape[-1], r.shape[-2])
    )
    return [q * of_columns[..., None, :], r * of_rows[..., None]]


def by_position(found: Any) -> list[np.ndarray]:
    """Return values and positions in the order of the positions."""
    values, positions = leaves(found)
    order = np.argsort(positions, -1)
    return [np.take_along_axis(part, order, -1) for part in (values, positions)]


RESULTS: dict[str, Callable[[Any], Any]] = {
    "where_async": lambda places: plugrad.stack(places, axis=1),
    # TensorFlow.js adds an axis in front of a vector.
    **dict.fromkeys(["search_sorted", "lower_bound", "upper_bound", "spectral.irfft"], as_matrix),
}


def in_one_form(record: Record, result: Any) -> list[np.ndarray]:
    """Return the leaves of a result, ours or the recorded one, of which some may have several forms."""
    if record.kernel == "linalg.qr":
        return with_positive_diagonal(result)
    if record.kernel == "topk" and record.args.get("sorted") is False:
        return by_position(result)
    return leaves(result)


def dtype_of(leaf: np.ndarray) -> str:
    """Return the name of a leaf's dtype; recorded strings are objects."""
    return "string" if leaf.dtype == object else str(as_dtype(leaf.dtype))
