"""Call plugrad's op with the arguments that TensorFlow.js's got, and flatten both results for comparison."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

import plugrad
from conformance.reader import OpaqueArgument, Record
from consistency.tfjs import TfjsOp, tfjs_ops, tfjs_signatures
from plugrad import Tensor
from plugrad.types.dtype import as_dtype

Arguments = dict[str, Any]

# TensorFlow.js takes what it is given for these as whole numbers; other bare numbers are float32.
INTEGER_ARGUMENTS = {
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
ALWAYS_INTEGER_ARGUMENTS = {"targets", "shape", "row_partition_tensors", "num_lower", "num_upper"}
CLASS_ARGUMENTS = {"labels", "predictions"}  # of confusion_matrix
SIZE_ARGUMENTS = {
    "output_shape",
    "shape",
    "x_shape",
    "filter_shape",
    "strides",
    "axis",
    "size",
    "begin",
}
SCALAR_ARGUMENTS = {"clip_value_min", "clip_value_max"}
TENSOR_ARGUMENTS = {"x", "y", "a", "b", "tensors", "tensor", "values", "value", "t1", "t2"}
WINDOW_FUNCTIONS = {
    "hannWindow": plugrad.signal.hann_window,
    "hammingWindow": plugrad.signal.hamming_window,
    "": plugrad.signal.hamming_window,  # in a function without a name
    "ident": lambda length: plugrad.ones(length),
}
REDUCTION_NAMES = ("none", "mean", "sum", "sum_by_nonzero_weights")


@cache
def op_of_recorded_name() -> dict[str, str]:
    """Return the snake_case name of each op by the name under which its calls were recorded."""
    return {
        f"{op.rpartition('.')[0]}.{spelling}".lstrip("."): op
        for op, (spelling, _) in tfjs_signatures().items()
    }


def tfjs_op_of_record(record: Record) -> TfjsOp:
    """Return the op of a record, with its counterpart in plugrad."""
    recorded = record.kernel.removeprefix("math.")
    found = next(
        prefix + recorded
        for prefix in ("", "spectral.")
        if prefix + recorded in op_of_recorded_name()
    )
    return tfjs_ops()[op_of_recorded_name()[found]]


def recorded_arguments(record: Record, here: TfjsOp) -> Arguments:
    """Return the recorded arguments by TensorFlow.js's snake_case names, as plugrad takes them."""
    _, theirs = tfjs_signatures()[here.op]
    spelled = {name.replace("_", ""): name for name in theirs}
    found = {}
    for camel, value in record.args.items():
        found[spelled.get(camel.lower(), camel)] = value
    if here.op == "meshgrid":
        found = {n if n in ("x", "y") else "indexing": v for n, v in found.items()}
        found |= found.pop("indexing", {})
    found = {n: v for n, v in found.items() if v is not None or n == "axis" or is_required(n, here)}
    if isinstance(window := found.get("window_fn"), OpaqueArgument):
        found["window_fn"] = WINDOW_FUNCTIONS[window.description]
    return {n: convert_argument(n, v, here, found) for n, v in {**here.defaults, **found}.items()}


def is_required(name: str, here: TfjsOp) -> bool:
    """Whether plugrad's function requires an argument."""
    parameter = here.parameters.get(here.arguments.get(name, name))
    return parameter is not None and parameter.default is parameter.empty


def convert_argument(name: str, value: Any, here: TfjsOp, others: Arguments) -> Any:
    """Return an argument in the form that plugrad expects."""
    if name == "pad" and isinstance(value, list):  # all four axes: leave the spatial ones
        first = 2 if others.get("data_format") == "NCHW" else 1
        spatial = value[first : first + len(value) - 2] if len(value) > 2 else value
        # A sequence is an image of height 1 there: padding along that axis has no place here.
        return spatial[1:] if here.op == "conv1d" and spatial[0] == [0, 0] else spatial
    if name == "reduction" and isinstance(value, int):
        return REDUCTION_NAMES[value]
    if name in SIZE_ARGUMENTS and isinstance(value, list | np.ndarray):
        whole = [int(n) for n in np.ravel(value) if n == int(n)]
        return whole if len(whole) == np.size(value) else value
    is_list = isinstance(value, list)
    if is_list and name == "values" and here.op.startswith("tensor"):
        return value
    if (
        is_list
        and here.op.startswith(("concat", "stack", "add_n", "einsum"))
        and name in TENSOR_ARGUMENTS
    ):
        return [part if isinstance(part, np.ndarray) else as_tensor("x", part) for part in value]
    if is_list and any(isinstance(part, np.ndarray) for part in value) and name != "values":
        return [convert_argument(name, part, here, others) for part in value]
    if isinstance(value, np.ndarray):
        is_whole = name in ALWAYS_INTEGER_ARGUMENTS and value.dtype.kind == "f"
        return plugrad.asarray(value.astype("int32") if is_whole else value)
    if is_class_argument(name, here):
        return plugrad.asarray(np.asarray(value, "int32"))
    if isinstance(value, OpaqueArgument) or name in SCALAR_ARGUMENTS:
        return value
    parameter = here.parameters.get(here.arguments.get(name, name))
    annotation = str(parameter.annotation) if parameter is not None else ""
    if (
        "TensorLike" in annotation
        or "np.generic" in annotation
        or name in TENSOR_ARGUMENTS | INTEGER_ARGUMENTS
    ):
        return as_tensor(name, value)
    return value


def is_class_argument(name: str, here: TfjsOp) -> bool:
    return name in CLASS_ARGUMENTS and here.op == "confusion_matrix"


def as_tensor(name: str, value: Any) -> Any:
    """Return a tensor; bare numbers get the dtype that TensorFlow.js gives them.

    What does not become a tensor, such as an object or a ragged list, stays as it is: the op refuses it.
    """
    try:
        values = np.asarray(value)
    except ValueError:
        return value  # ragged
    if values.dtype.kind in "if":
        is_whole = name in INTEGER_ARGUMENTS and bool((values == np.trunc(values)).all())
        values = values.astype("int32" if is_whole else "float32")
    if values.dtype == object:
        return value
    return plugrad.asarray(values) if values.dtype.kind in "ifbc" else plugrad.asarray(value)


def prepare_call(record: Record) -> Callable[[], Any]:
    """Build the arguments of a record; return a function that returns the result of the op in the recorded form."""
    here = tfjs_op_of_record(record)
    args = recorded_arguments(record, here)
    if adapt := ARGUMENT_ADAPTERS.get(here.op):
        args = adapt(args)

    def call() -> Any:
        result = apply_missing_parameters(here, args, call_op(here, args))
        return RESULT_ADAPTERS.get(here.op, lambda y: y)(result)

    return call


def call_op(here: TfjsOp, args: Arguments) -> Any:
    """Call the counterpart of an op with arguments under TensorFlow.js's names."""
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
        floats = call_op(here, {n: v for n, v in args.items() if n != "dtype"})
        return plugrad.astype(floats, args["dtype"])
    target = (
        attrgetter(here.for_integers)(plugrad) if uses_integer_variant(here, args) else here.target
    )
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


def uses_integer_variant(here: TfjsOp, args: Arguments) -> bool:
    """Whether the counterpart for integers must be called."""
    if not here.for_integers:
        return False
    tensors = [v for v in args.values() if isinstance(v, Tensor)]
    dtype = args.get("dtype")
    return all(t.dtype.is_integer for t in tensors) if tensors else dtype == "int32"


def apply_missing_parameters(here: TfjsOp, args: Arguments, result: Any) -> Any:
    """Return the result with the effects of the parameters that plugrad's function lacks."""
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


def flatten_result(result: Any) -> list[np.ndarray]:
    """Return the arrays and numbers of a result in order."""
    if isinstance(result, Tensor):
        return [result.numpy()]
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in flatten_result(part)]
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in flatten_result(part)]
    return [np.asarray(result)]


# --- what an op's arguments need beyond other names ------------------------------------------------


def reshape_flat_values(args: Arguments) -> Arguments:
    """Give the values the recorded shape; TensorFlow.js takes them as a flat list."""
    values = args.get("values")
    if isinstance(values, list):
        if args.get("dtype") == "string":
            values = decode_strings(values)
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


def decode_strings(values: Any) -> Any:
    """Decode strings that are given as bytes."""
    if isinstance(values, np.ndarray) and values.dtype == np.uint8:
        return values.tobytes().decode()
    return [decode_strings(part) for part in values] if isinstance(values, list) else values


def qr_mode(args: Arguments) -> Arguments:
    whole = args.pop("full_matrices", False)
    return {**args, "full_matrices": "complete" if whole else "reduced"}


def adapt_meshgrid(args: Arguments) -> Arguments:
    arrays = [args[n] for n in ("x", "y") if n in args]
    return {**{n: v for n, v in args.items() if n == "indexing"}, "arrays": arrays}


def adapt_pad1d(args: Arguments) -> Arguments:
    return {**args, "paddings": [args["paddings"]]}


def adapt_bincount(args: Arguments) -> Arguments:
    """Replace weights of size 0, which mean no weights, by float32 ones, because TensorFlow.js counts in float32."""
    ones = plugrad.ones_like(args["x"], dtype="float32")
    return {**args, "weights": args["weights"] if args["weights"].size else ones}


def add_range_step(args: Arguments) -> Arguments:
    """Add the default step of a range, which is -1 in TensorFlow.js if the range descends."""
    down = {"step": -1} if args["stop"] < args["start"] else {}
    return {**args, **down} if args.get("step") is None else args


def drop_imaginary_parts(args: Arguments) -> Arguments:
    """Return the arguments without imaginary parts, as TensorFlow.js drops them silently."""
    x, dtype = plugrad.asarray(args["x"]), as_dtype(args["dtype"])
    is_dropped = x.dtype.kind == "complex" != dtype.kind
    return {**args, "x": plugrad.real(x) if is_dropped else x}


def drop_empty_axes(args: Arguments) -> Arguments:
    """Remove an empty list of axes, which means all axes in TensorFlow.js."""
    return {n: v for n, v in args.items() if n != "axis" or v != []}


def convert_regex_groups(args: Arguments) -> Arguments:
    """Write the groups in a rewrite as RE2 and Python do, not as JavaScript does."""
    return {**args, "rewrite": re.sub(r"\$(\d)", r"\\\1", args["rewrite"])}


def round_trip_integers(*kinds: str) -> Callable[[Arguments], Arguments]:
    """Return a function that converts tensors of some kinds of dtypes to integers, as TensorFlow.js does."""

    def as_integers(x: Any) -> Any:
        is_meant = isinstance(x, Tensor) and x.dtype.kind in kinds
        return plugrad.astype(x, "int32") if is_meant else x

    return lambda args: {n: as_integers(v) for n, v in args.items()}


def as_bool_argument(name: str) -> Callable[[Arguments], Arguments]:
    """Return a function that converts a bare number to bool, as TensorFlow.js does."""

    def convert_to_bool(args: Arguments) -> Arguments:
        x = args[name]
        is_number = isinstance(x, Tensor) and x.dtype.kind == "floating"
        return {**args, name: plugrad.astype(x, "bool") if is_number else x}

    return convert_to_bool


ARGUMENT_ADAPTERS: dict[str, Callable[[Arguments], Arguments]] = {
    **dict.fromkeys(["tensor", *(f"tensor{n}d" for n in range(1, 7))], reshape_flat_values),
    "linalg.qr": qr_mode,
    "meshgrid": adapt_meshgrid,
    **dict.fromkeys(["bincount", "dense_bincount"], adapt_bincount),
    "boolean_mask_async": as_bool_argument("mask"),
    "where": as_bool_argument("condition"),
    "logical_not": as_bool_argument("x"),
    "pad1d": adapt_pad1d,
    **dict.fromkeys(["maximum", "minimum", "is_inf", "is_nan"], round_trip_integers("bool")),
    "confusion_matrix": round_trip_integers("bool", "floating"),
    "range": add_range_step,
    "cast": drop_imaginary_parts,
    "squeeze": drop_empty_axes,
    "string.static_regex_replace": convert_regex_groups,
}


def as_matrix(y: Tensor) -> Tensor:
    return y[None] if y.ndim == 1 else y


def with_positive_diagonal(factors: Any) -> list[np.ndarray]:
    """Return Q and R with signs that make the diagonal of R positive; QR leaves the sign of each column open."""
    q, r = flatten_result(factors)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(q.dtype)
    of_columns, of_rows = (
        np.pad(signs, [(0, 0)] * (signs.ndim - 1) + [(0, n - signs.shape[-1])], constant_values=1)
        for n in (q.shape[-1], r.shape[-2])
    )
    return [q * of_columns[..., None, :], r * of_rows[..., None]]


def sort_by_position(found: Any) -> list[np.ndarray]:
    """Return the values and positions of top_k, sorted by position."""
    values, positions = flatten_result(found)
    order = np.argsort(positions, -1)
    return [np.take_along_axis(part, order, -1) for part in (values, positions)]


RESULT_ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "where_async": lambda places: plugrad.stack(places, axis=1),
    # TensorFlow.js adds an axis in front of a vector.
    **dict.fromkeys(["search_sorted", "lower_bound", "upper_bound", "spectral.irfft"], as_matrix),
}


def normalize_result(record: Record, result: Any) -> list[np.ndarray]:
    """Return the arrays of a plugrad result or a recorded one, normalized where several results are right."""
    if record.kernel == "linalg.qr":
        return with_positive_diagonal(result)
    if record.kernel == "topk" and record.args.get("sorted") is False:
        return sort_by_position(result)
    return flatten_result(result)


def dtype_name(leaf: np.ndarray) -> str:
    """Return the name of an array's dtype; recorded strings have the dtype object."""
    return "string" if leaf.dtype == object else str(as_dtype(leaf.dtype))
