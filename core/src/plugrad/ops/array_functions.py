"""NumPy's functions on tensors: the protocol ``__array_function__`` (NEP 18), and the table of what they call.

`OPS` has the functions that compute with tensors, with gradients and on the tensor's device. `FACTS` and `READERS`
have those whose results are no arrays. Every other function raises an error, which names the ops of `INSTEAD`.
"""

from __future__ import annotations

from functools import cache
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from plugrad.errors import ArgumentError
from plugrad.ops import (
    creation,
    decomposition,
    fft,
    indexing,
    linalg,
    methods,
    movement,
    norms,
    numpy_functions as numpys,
    rearrangement,
    reduction,
    scan,
    sets,
    sorting,
    statistics,
    unary,
)
from plugrad.tensor.tensor import Tensor, host_values
from plugrad.tensor.trees import iter_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Op(NamedTuple):
    """The op that a function calls, and its names for parameters that NumPy calls otherwise."""

    function: Callable[..., Any]
    names: Mapping[str, str] = {}


# Parameters of one name correspond, and so do those that NumPy requires and the first of the op.
OPS: Final[dict[str, Op]] = {
    # --- elements
    "clip": Op(numpys.clip),
    "fix": Op(unary.trunc),
    "isclose": Op(numpys.isclose),
    "nan_to_num": Op(numpys.nan_to_num),
    "real": Op(numpys.real),
    "imag": Op(numpys.imag),
    "angle": Op(numpys.angle),
    "round": Op(methods.round_to_digits, {"decimals": "digits"}),
    "around": Op(methods.round_to_digits, {"decimals": "digits"}),
    "select": Op(numpys.select),
    "where": Op(numpys.where),
    "astype": Op(unary.astype),
    "copy": Op(methods.copy_tensor),
    # --- shapes
    "append": Op(numpys.append),
    "array_split": Op(numpys.array_split),
    "atleast_1d": Op(numpys.atleast_1d),
    "atleast_2d": Op(numpys.atleast_2d),
    "atleast_3d": Op(numpys.atleast_3d),
    "broadcast_arrays": Op(numpys.broadcast_arrays),
    "broadcast_to": Op(movement.broadcast_to),
    "column_stack": Op(numpys.column_stack),
    "concatenate": Op(numpys.concatenate),
    "dsplit": Op(numpys.dsplit),
    "dstack": Op(numpys.dstack),
    "expand_dims": Op(numpys.expand_dims),
    "flip": Op(movement.flip),
    "fliplr": Op(numpys.fliplr),
    "flipud": Op(numpys.flipud),
    "hsplit": Op(numpys.hsplit),
    "hstack": Op(numpys.hstack),
    "matrix_transpose": Op(linalg.matrix_transpose),
    "meshgrid": Op(rearrangement.meshgrid),
    "moveaxis": Op(movement.moveaxis),
    "pad": Op(numpys.pad),
    "ravel": Op(numpys.ravel),
    "repeat": Op(rearrangement.repeat),
    "reshape": Op(movement.reshape),
    "roll": Op(rearrangement.roll),
    "rollaxis": Op(numpys.rollaxis),
    "rot90": Op(numpys.rot90),
    "split": Op(numpys.split),
    "squeeze": Op(movement.squeeze),
    "stack": Op(numpys.stack),
    "swapaxes": Op(numpys.swapaxes),
    "tile": Op(movement.tile),
    "transpose": Op(movement.permute_dims),
    "unstack": Op(movement.unstack),
    "vsplit": Op(numpys.vsplit),
    "vstack": Op(numpys.vstack),
    # --- sums, and what else combines elements
    "all": Op(methods.all),
    "amax": Op(methods.max),
    "amin": Op(methods.min),
    "any": Op(methods.any),
    "argmax": Op(methods.argmax),
    "argmin": Op(methods.argmin),
    "average": Op(numpys.average),
    "bincount": Op(reduction.bincount),
    "convolve": Op(numpys.convolve),
    "correlate": Op(numpys.correlate),
    "count_nonzero": Op(statistics.count_nonzero),
    "cumprod": Op(methods.cumprod),
    "cumsum": Op(methods.cumsum),
    "cumulative_prod": Op(scan.cumulative_prod),
    "cumulative_sum": Op(scan.cumulative_sum),
    "diff": Op(statistics.diff),
    "max": Op(methods.max),
    "mean": Op(methods.mean),
    "min": Op(methods.min),
    "prod": Op(methods.prod),
    "ptp": Op(numpys.ptp),
    "std": Op(methods.std, {"correction": "ddof"}),
    "sum": Op(methods.sum),
    "var": Op(methods.var, {"correction": "ddof"}),
    # --- searching, sorting, sets
    "argsort": Op(numpys.argsort),
    "argwhere": Op(numpys.argwhere),
    "flatnonzero": Op(numpys.flatnonzero),
    "isin": Op(numpys.isin),
    "nonzero": Op(indexing.nonzero),
    "searchsorted": Op(sorting.searchsorted),
    "setdiff1d": Op(numpys.setdiff1d),
    "sort": Op(numpys.sort),
    "take": Op(numpys.take),
    "take_along_axis": Op(indexing.take_along_axis),
    "unique": Op(numpys.unique),
    "unique_all": Op(sets.unique_all),
    "unique_counts": Op(sets.unique_counts),
    "unique_inverse": Op(sets.unique_inverse),
    "unique_values": Op(sets.unique_values),
    # --- matrices
    "cross": Op(linalg.cross),
    "diag": Op(numpys.diag),
    "diagonal": Op(numpys.diagonal),
    "dot": Op(numpys.dot),
    "einsum": Op(numpys.einsum),
    "inner": Op(numpys.inner),
    "kron": Op(numpys.kron),
    "outer": Op(numpys.outer),
    "tensordot": Op(linalg.tensordot),
    "trace": Op(numpys.trace),
    "tril": Op(linalg.tril),
    "triu": Op(linalg.triu),
    "vdot": Op(numpys.vdot),
    "linalg.cholesky": Op(decomposition.cholesky),
    "linalg.cross": Op(linalg.cross),
    "linalg.det": Op(decomposition.det),
    "linalg.diagonal": Op(linalg.diagonal),
    "linalg.eigh": Op(decomposition.eigh),
    "linalg.eigvalsh": Op(decomposition.eigvalsh),
    "linalg.inv": Op(decomposition.inv),
    "linalg.matmul": Op(linalg.matmul),
    "linalg.matrix_norm": Op(norms.matrix_norm),
    "linalg.matrix_power": Op(decomposition.matrix_power),
    "linalg.matrix_rank": Op(decomposition.matrix_rank),
    "linalg.matrix_transpose": Op(linalg.matrix_transpose),
    "linalg.multi_dot": Op(numpys.multi_dot),
    "linalg.norm": Op(numpys.norm),
    "linalg.outer": Op(linalg.outer),
    "linalg.pinv": Op(decomposition.pinv, {"rcond": "rtol"}),
    "linalg.qr": Op(decomposition.qr),
    "linalg.slogdet": Op(decomposition.slogdet),
    "linalg.solve": Op(decomposition.solve),
    "linalg.svd": Op(numpys.svd),
    "linalg.svdvals": Op(decomposition.svdvals),
    "linalg.tensordot": Op(linalg.tensordot),
    "linalg.trace": Op(linalg.trace),
    "linalg.vecdot": Op(linalg.vecdot),
    "linalg.vector_norm": Op(norms.vector_norm),
    # --- Fourier transforms
    "fft.fft": Op(fft.fft),
    "fft.fft2": Op(numpys.fft2),
    "fft.fftn": Op(fft.fftn),
    "fft.fftshift": Op(fft.fftshift),
    "fft.hfft": Op(fft.hfft),
    "fft.ifft": Op(fft.ifft),
    "fft.ifft2": Op(numpys.ifft2),
    "fft.ifftn": Op(fft.ifftn),
    "fft.ifftshift": Op(fft.ifftshift),
    "fft.ihfft": Op(fft.ihfft),
    "fft.irfft": Op(fft.irfft),
    "fft.irfft2": Op(numpys.irfft2),
    "fft.irfftn": Op(fft.irfftn),
    "fft.rfft": Op(fft.rfft),
    "fft.rfft2": Op(numpys.rfft2),
    "fft.rfftn": Op(fft.rfftn),
    # --- new tensors
    "empty_like": Op(numpys.empty_like),
    "full_like": Op(numpys.full_like),
    "ones_like": Op(numpys.ones_like),
    "zeros_like": Op(numpys.zeros_like),
}
"""What NumPy's functions call."""
CREATORS: Final[dict[str, Op]] = {
    "arange": Op(creation.arange, {"start_or_stop": "start"}),
    "array": Op(creation.asarray, {"object": "obj"}),
    "asanyarray": Op(creation.asarray, {"a": "obj"}),
    "asarray": Op(creation.asarray, {"a": "obj"}),
    "ascontiguousarray": Op(creation.asarray, {"a": "obj"}),
    "empty": Op(creation.empty),
    "eye": Op(creation.eye, {"N": "n_rows", "M": "n_cols"}),
    "full": Op(creation.full),
    "identity": Op(creation.eye, {"n": "n_rows"}),
    "ones": Op(creation.ones),
    "zeros": Op(creation.zeros),
}
"""What functions call whose argument ``like`` is a tensor: they make a tensor on its device."""
FACTS: Final = frozenset(
    {
        *(
            "can_cast",
            "common_type",
            "diag_indices_from",
            "iscomplexobj",
            "isrealobj",
            "ndim",
            "result_type",
        ),
        *("shape", "size", "tril_indices_from", "triu_indices_from"),
    }
)
"""The functions that look only at shapes and dtypes. They give what they give for arrays."""
READERS: Final = frozenset(
    {
        *(
            "allclose",
            "array_equal",
            "array_equiv",
            "array2string",
            "array_repr",
            "array_str",
            "min_scalar_type",
        ),
        *("save", "savetxt", "savez", "savez_compressed"),
        *("copyto", "may_share_memory", "shares_memory"),
        *("histogram", "histogram2d", "histogramdd", "histogram_bin_edges"),
    }
)
"""The functions that read values for a text, a truth value, a file, a plot or an array that the caller has."""
WITHOUT_ARRAYS: Final = frozenset(
    {
        "allclose",
        "array_equal",
        "array_equiv",
        "array2string",
        "array_repr",
        "array_str",
        "min_scalar_type",
    }
)
"""Those of them that a tensor that is being differentiated passes to, as it does to ``bool`` and ``print``."""
FOR_ARRAYS: Final = frozenset(
    {
        *("atleast_1d", "atleast_2d", "atleast_3d"),
        *("empty_like", "full_like", "ones_like", "zeros_like"),
    }
)
"""The functions of `OPS` by which libraries come to arrays that they fill, part by part, or pass to C.

They give arrays of NumPy unless one of the tensors is being differentiated.
"""
INSTEAD: Final = {
    "apply_along_axis": "plugrad's ops take an axis",
    "argpartition": "plugrad.argsort or plugrad.top_k",
    "asfortranarray": "x itself, because tensors have no memory order",
    "block": "np.concatenate or plugrad.concat for each axis",
    "choose": "plugrad.take_along_axis(choices, positions, axis=0)",
    "compress": "plugrad.boolean_mask(x, condition)",
    "delete": "plugrad.take(x, the positions that stay)",
    "digitize": "plugrad.searchsorted(bins, x)",
    "extract": "plugrad.boolean_mask(x, condition)",
    "fill_diagonal": "plugrad.where(plugrad.eye(n, dtype='bool'), value, x)",
    "insert": "np.concatenate of the parts",
    "intersect1d": "plugrad.isin",
    "linalg.cond": "plugrad.linalg.svdvals, and divide the first value by the last",
    "linalg.lstsq": "plugrad.linalg.pinv(a) @ b, or plugrad.linalg.qr",
    "linspace": "start + (stop - start) * plugrad.linspace(0, 1, num)",
    "median": "plugrad.sort, and take the middle",
    "nanmax": "plugrad.max(plugrad.where(plugrad.isnan(x), -inf, x))",
    "nanmean": "plugrad.where(plugrad.isnan(x), 0, x), and divide the sum by the number of others",
    "nanmin": "plugrad.min(plugrad.where(plugrad.isnan(x), inf, x))",
    "nanprod": "plugrad.prod(plugrad.where(plugrad.isnan(x), 1, x))",
    "nansum": "plugrad.sum(plugrad.where(plugrad.isnan(x), 0, x))",
    "partition": "plugrad.sort or plugrad.top_k",
    "percentile": "plugrad.sort, and take the places",
    "piecewise": "plugrad.where or np.select",
    "place": "x[mask] = values",
    "put": "x[positions] = values",
    "put_along_axis": "plugrad.tensor_scatter_update",
    "putmask": "x[mask] = values",
    "quantile": "plugrad.sort, and take the places",
    "resize": "plugrad.tile and a slice",
    "sinc": "plugrad.where(x == 0, 1, plugrad.sin(pi * x) / (pi * x))",
    "trapezoid": "plugrad.sum((y[1:] + y[:-1]) / 2) * dx",
    "union1d": "plugrad.unique_values(plugrad.concat([a, b]))",
}
"""What to write instead of functions that do not take tensors."""


def _resolve(name: str) -> Any:
    """Return NumPy's function of a name, or None where this version of NumPy has none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _by_function(names: Iterable[str]) -> dict[Any, str]:
    return {_resolve(name): name for name in names}


_OPS: Final = {_resolve(name): (name, op) for name, op in OPS.items()}
_CREATORS: Final = {_resolve(name): (name, op) for name, op in CREATORS.items()}
_FACTS: Final = _by_function(FACTS)
_READERS: Final = _by_function(READERS)
_INSTEAD: Final = _by_function(INSTEAD)


def apply_array_function(
    x: Tensor,
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Apply a function of NumPy to arguments of which x is the first tensor: the protocol ``__array_function__``.

    Raises:
        ArgumentError: plugrad does not have the function, or not the options that are given.
        GradientLost: the function makes a file or an array of a tensor that is being differentiated.
    """
    if not all(issubclass(t, Tensor) or t in (np.ndarray, np.memmap) for t in types):
        return NotImplemented  # an array of another library decides, or NumPy names all of them
    if function in _OPS:
        name, op = _OPS[function]
        if name in FOR_ARRAYS and not any(
            y.is_being_differentiated() for y in iter_tensors([args, dict(kwargs)])
        ):
            return function(*_replaced(args, Tensor.numpy), **_replaced(kwargs, Tensor.numpy))
        return _call(name, function, op, args, kwargs, {})
    if function in _FACTS:
        return function(*_replaced(args, _stand_in), **_replaced(kwargs, _stand_in))
    if function in _READERS:
        name = _READERS[function]
        if name == "copyto" and isinstance(args[0] if args else kwargs.get("dst"), Tensor):
            raise ArgumentError("np.copyto does not write into tensors; write x[...] = values")
        read = host_values if name in WITHOUT_ARRAYS else Tensor.numpy
        return function(*_replaced(args, read), **_replaced(kwargs, read))
    if function in _CREATORS and not any(isinstance(a, Tensor) for a in args[1:]):
        name, op = _CREATORS[function]
        return _call(name, function, op, args, kwargs, {"device": x.backend})
    name = _INSTEAD.get(function) or f"{function.__module__}.{function.__name__}"
    raise _refusal(name.removeprefix("numpy."))


def _refusal(name: str, options: str = "", op: str = "") -> ArgumentError:
    """Return the error for a function, or for options of it, that plugrad does not have."""
    instead = f"write {INSTEAD[name]}, or " if name in INSTEAD and not options else ""
    given = f" with {options}" if options else ""
    return ArgumentError(
        f"np.{name}{given} does not take tensors; {op}{instead}pass NumPy's arrays, as in np.{name}(x.numpy()), which "
        "have no gradients"
    )


class _Binding(NamedTuple):
    """How the parameters of a function become those of an op."""

    signature: Signature
    positions: frozenset[str]
    """The parameters of NumPy that are passed on by position."""
    names: Mapping[str, str]
    """The op's names for those that are passed on by name."""


@cache
def _bind(
    function: Callable[..., Any], op: Callable[..., Any], names: tuple[tuple[str, str], ...]
) -> _Binding:
    """Find out which parameter of an op each parameter of a function is."""
    own = signature(op).parameters
    try:
        theirs = signature(function)
    except ValueError:  # NumPy before 2.4 does not tell the signatures of functions in C
        theirs = signature(op)
    renamed = dict(names)
    places = [
        p for p in own.values() if p.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)
    ]
    positions: list[str] = []
    known: dict[str, str] = {}
    for i, (name, parameter) in enumerate(theirs.parameters.items()):
        by_position = i < len(places) and len(positions) == i
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positions.append(name)
        elif (
            renamed.get(name, name) in own
            and own[renamed.get(name, name)].kind is not Parameter.POSITIONAL_ONLY
        ):
            known[name] = renamed.get(name, name)
        elif by_position and parameter.default is Parameter.empty:
            positions.append(name)
    return _Binding(theirs, frozenset(positions), known)


def _call(
    name: str,
    function: Callable[..., Any],
    op: Op,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    more: Mapping[str, Any],
) -> Any:
    """Call an op with the arguments of a function.

    Raises:
        ArgumentError: there are options that it does not have.
    """
    how = _bind(function, op.function, tuple(op.names.items()))
    try:
        given = how.signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ArgumentError(f"np.{name}: {error}") from None
    ordered: list[Any] = []
    named: dict[str, Any] = dict(more)
    for key, value in given.items():
        parameter = how.signature.parameters[key]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            ordered += value
        elif parameter.kind is Parameter.VAR_KEYWORD:
            named |= _known_options(name, value, op.function)
        elif key in how.positions:
            ordered.append(value)
        elif _is_default(value, parameter.default):
            continue
        elif key in how.names:
            named[how.names[key]] = value
        elif key == "out":
            raise ArgumentError(
                f"np.{name} does not write tensors into arrays; assign its result to a name, or pass NumPy's arrays, "
                "as in x.numpy()"
            )
        else:
            raise _refusal(name, key)
    return op.function(*ordered, **named)


def _known_options(
    name: str, options: Mapping[str, Any], op: Callable[..., Any]
) -> Mapping[str, Any]:
    """Return options that a function collects, all of which the op must have.

    Raises:
        ArgumentError: it lacks one.
    """
    own = signature(op).parameters
    lacking = [option for option in options if option not in own]
    if lacking:
        raise _refusal(name, ", ".join(lacking))
    return options


def _is_default(value: Any, default: Any) -> bool:
    """Return whether an argument is what NumPy takes without it."""
    no_value = np._NoValue  # pyright: ignore[reportPrivateUsage]
    if value is default or value is no_value or (value is None and default is no_value):
        return True
    return (
        type(value) is type(default)
        and type(value) in (bool, int, float, str, tuple)
        and value == default
    )


def _stand_in(x: Tensor) -> Any:
    """Return an array with the shape and dtype of a tensor, which takes no memory."""
    return np.broadcast_to(np.zeros((), x.dtype.numpy), x.shape)


def _replaced(tree: Any, convert: Callable[[Tensor], Any]) -> Any:
    """Return arguments with arrays in place of the tensors among them."""
    if isinstance(tree, Tensor):
        return convert(tree)
    if type(tree) is dict:
        return {key: _replaced(part, convert) for key, part in cast("dict[str, Any]", tree).items()}
    if type(tree) in (list, tuple):
        return type(tree)(_replaced(part, convert) for part in tree)
    return tree
