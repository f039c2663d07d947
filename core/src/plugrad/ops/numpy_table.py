"""The table of NumPy's functions that accept tensors, and the op that each calls.

`OP_OF_NUMPY_FUNCTION` has the functions that compute with tensors, with gradients and on the tensor's device.
`METADATA_FUNCTIONS` and `READING_FUNCTIONS` have those whose results are no tensors. `REPLACEMENT_HINTS` says what to
write for some of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.ops import (
    creation,
    decomposition,
    fft,
    histograms,
    indexing,
    linalg,
    methods,
    missing,
    movement,
    norms,
    numpy_functions as numpys,
    numpy_shapes as shapes,
    quantiles,
    rearrangement,
    reduction,
    scan,
    sets,
    sorting,
    statistics,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OpForNumpyFunction(NamedTuple):
    """The op that stands in for a function of NumPy."""

    function: Callable[..., Any]
    """The op."""
    renamed_parameters: Mapping[str, str] = {}
    """The op's parameter names by NumPy's, where they differ."""


# Parameters of one name correspond, and so do those that NumPy requires and the first of the op.
OP_OF_NUMPY_FUNCTION: Final[dict[str, OpForNumpyFunction]] = {
    # --- elements
    "clip": OpForNumpyFunction(numpys.clip),
    "fix": OpForNumpyFunction(unary.trunc),
    "isclose": OpForNumpyFunction(numpys.isclose),
    "nan_to_num": OpForNumpyFunction(numpys.nan_to_num),
    "real": OpForNumpyFunction(numpys.real),
    "imag": OpForNumpyFunction(numpys.imag),
    "angle": OpForNumpyFunction(numpys.angle),
    "round": OpForNumpyFunction(methods.round_to_digits, {"decimals": "digits"}),
    "around": OpForNumpyFunction(methods.round_to_digits, {"decimals": "digits"}),
    "select": OpForNumpyFunction(numpys.select),
    "where": OpForNumpyFunction(numpys.where),
    "astype": OpForNumpyFunction(unary.astype),
    "copy": OpForNumpyFunction(methods.copy_tensor),
    # --- shapes
    "append": OpForNumpyFunction(shapes.append),
    "array_split": OpForNumpyFunction(shapes.array_split),
    "atleast_1d": OpForNumpyFunction(shapes.atleast_1d),
    "atleast_2d": OpForNumpyFunction(shapes.atleast_2d),
    "atleast_3d": OpForNumpyFunction(shapes.atleast_3d),
    "broadcast_arrays": OpForNumpyFunction(shapes.broadcast_arrays),
    "broadcast_to": OpForNumpyFunction(movement.broadcast_to),
    "column_stack": OpForNumpyFunction(shapes.column_stack),
    "concatenate": OpForNumpyFunction(shapes.concatenate),
    "dsplit": OpForNumpyFunction(shapes.dsplit),
    "dstack": OpForNumpyFunction(shapes.dstack),
    "expand_dims": OpForNumpyFunction(shapes.expand_dims),
    "flip": OpForNumpyFunction(movement.flip),
    "fliplr": OpForNumpyFunction(shapes.fliplr),
    "flipud": OpForNumpyFunction(shapes.flipud),
    "hsplit": OpForNumpyFunction(shapes.hsplit),
    "hstack": OpForNumpyFunction(shapes.hstack),
    "matrix_transpose": OpForNumpyFunction(linalg.matrix_transpose),
    "meshgrid": OpForNumpyFunction(rearrangement.meshgrid),
    "moveaxis": OpForNumpyFunction(movement.moveaxis),
    "pad": OpForNumpyFunction(shapes.pad),
    "ravel": OpForNumpyFunction(shapes.ravel),
    "repeat": OpForNumpyFunction(rearrangement.repeat),
    "reshape": OpForNumpyFunction(movement.reshape),
    "roll": OpForNumpyFunction(rearrangement.roll),
    "rollaxis": OpForNumpyFunction(shapes.rollaxis),
    "rot90": OpForNumpyFunction(shapes.rot90),
    "split": OpForNumpyFunction(shapes.split),
    "squeeze": OpForNumpyFunction(movement.squeeze),
    "stack": OpForNumpyFunction(shapes.stack),
    "swapaxes": OpForNumpyFunction(shapes.swapaxes),
    "tile": OpForNumpyFunction(movement.tile),
    "transpose": OpForNumpyFunction(movement.permute_dims),
    "unstack": OpForNumpyFunction(movement.unstack),
    "vsplit": OpForNumpyFunction(shapes.vsplit),
    "vstack": OpForNumpyFunction(shapes.vstack),
    # --- sums, and what else combines elements
    "all": OpForNumpyFunction(methods.all),
    "amax": OpForNumpyFunction(methods.max),
    "amin": OpForNumpyFunction(methods.min),
    "any": OpForNumpyFunction(methods.any),
    "argmax": OpForNumpyFunction(methods.argmax),
    "argmin": OpForNumpyFunction(methods.argmin),
    "average": OpForNumpyFunction(numpys.average),
    "bincount": OpForNumpyFunction(reduction.bincount),
    "convolve": OpForNumpyFunction(numpys.convolve),
    "corrcoef": OpForNumpyFunction(numpys.corrcoef),
    "correlate": OpForNumpyFunction(numpys.correlate),
    "count_nonzero": OpForNumpyFunction(statistics.count_nonzero),
    "cov": OpForNumpyFunction(numpys.cov),
    "cumprod": OpForNumpyFunction(methods.cumprod),
    "cumsum": OpForNumpyFunction(methods.cumsum),
    "cumulative_prod": OpForNumpyFunction(scan.cumulative_prod),
    "cumulative_sum": OpForNumpyFunction(scan.cumulative_sum),
    "diff": OpForNumpyFunction(statistics.diff),
    "histogram": OpForNumpyFunction(histograms.histogram),
    "max": OpForNumpyFunction(methods.max),
    "mean": OpForNumpyFunction(methods.mean),
    "median": OpForNumpyFunction(quantiles.median),
    "min": OpForNumpyFunction(methods.min),
    "nanargmax": OpForNumpyFunction(missing.nanargmax),
    "nanargmin": OpForNumpyFunction(missing.nanargmin),
    "nancumprod": OpForNumpyFunction(missing.nancumprod),
    "nancumsum": OpForNumpyFunction(missing.nancumsum),
    "nanmax": OpForNumpyFunction(missing.nanmax),
    "nanmean": OpForNumpyFunction(missing.nanmean),
    "nanmedian": OpForNumpyFunction(quantiles.nanmedian),
    "nanmin": OpForNumpyFunction(missing.nanmin),
    "nanpercentile": OpForNumpyFunction(numpys.nanpercentile),
    "nanprod": OpForNumpyFunction(missing.nanprod),
    "nanquantile": OpForNumpyFunction(quantiles.nanquantile),
    "nanstd": OpForNumpyFunction(missing.nanstd, {"ddof": "correction"}),
    "nansum": OpForNumpyFunction(missing.nansum),
    "nanvar": OpForNumpyFunction(missing.nanvar, {"ddof": "correction"}),
    "percentile": OpForNumpyFunction(numpys.percentile),
    "prod": OpForNumpyFunction(methods.prod),
    "ptp": OpForNumpyFunction(numpys.ptp),
    "quantile": OpForNumpyFunction(quantiles.quantile),
    "std": OpForNumpyFunction(methods.std, {"correction": "ddof"}),
    "sum": OpForNumpyFunction(methods.sum),
    "var": OpForNumpyFunction(methods.var, {"correction": "ddof"}),
    # --- searching, sorting, sets
    "argsort": OpForNumpyFunction(numpys.argsort),
    "argwhere": OpForNumpyFunction(numpys.argwhere),
    "flatnonzero": OpForNumpyFunction(numpys.flatnonzero),
    "isin": OpForNumpyFunction(numpys.isin),
    "nonzero": OpForNumpyFunction(indexing.nonzero),
    "searchsorted": OpForNumpyFunction(sorting.searchsorted),
    "setdiff1d": OpForNumpyFunction(numpys.setdiff1d),
    "sort": OpForNumpyFunction(numpys.sort),
    "take": OpForNumpyFunction(numpys.take),
    "take_along_axis": OpForNumpyFunction(indexing.take_along_axis),
    "unique": OpForNumpyFunction(numpys.unique),
    "unique_all": OpForNumpyFunction(sets.unique_all),
    "unique_counts": OpForNumpyFunction(sets.unique_counts),
    "unique_inverse": OpForNumpyFunction(sets.unique_inverse),
    "unique_values": OpForNumpyFunction(sets.unique_values),
    # --- matrices
    "cross": OpForNumpyFunction(linalg.cross),
    "diag": OpForNumpyFunction(numpys.diag),
    "diagonal": OpForNumpyFunction(numpys.diagonal),
    "dot": OpForNumpyFunction(numpys.dot),
    "einsum": OpForNumpyFunction(numpys.einsum),
    "inner": OpForNumpyFunction(numpys.inner),
    "kron": OpForNumpyFunction(numpys.kron),
    "outer": OpForNumpyFunction(numpys.outer),
    "tensordot": OpForNumpyFunction(linalg.tensordot),
    "trace": OpForNumpyFunction(numpys.trace),
    "tril": OpForNumpyFunction(linalg.tril),
    "triu": OpForNumpyFunction(linalg.triu),
    "vdot": OpForNumpyFunction(numpys.vdot),
    "linalg.cholesky": OpForNumpyFunction(decomposition.cholesky),
    "linalg.cond": OpForNumpyFunction(norms.cond),
    "linalg.cross": OpForNumpyFunction(linalg.cross),
    "linalg.det": OpForNumpyFunction(decomposition.det),
    "linalg.diagonal": OpForNumpyFunction(linalg.diagonal),
    "linalg.eig": OpForNumpyFunction(decomposition.eig),
    "linalg.eigh": OpForNumpyFunction(decomposition.eigh),
    "linalg.eigvals": OpForNumpyFunction(decomposition.eigvals),
    "linalg.eigvalsh": OpForNumpyFunction(decomposition.eigvalsh),
    "linalg.inv": OpForNumpyFunction(decomposition.inv),
    "linalg.lstsq": OpForNumpyFunction(numpys.lstsq),
    "linalg.matmul": OpForNumpyFunction(linalg.matmul),
    "linalg.matrix_norm": OpForNumpyFunction(norms.matrix_norm),
    "linalg.matrix_power": OpForNumpyFunction(decomposition.matrix_power),
    "linalg.matrix_rank": OpForNumpyFunction(decomposition.matrix_rank),
    "linalg.matrix_transpose": OpForNumpyFunction(linalg.matrix_transpose),
    "linalg.multi_dot": OpForNumpyFunction(numpys.multi_dot),
    "linalg.norm": OpForNumpyFunction(numpys.norm),
    "linalg.outer": OpForNumpyFunction(linalg.outer),
    "linalg.pinv": OpForNumpyFunction(decomposition.pinv, {"rcond": "rtol"}),
    "linalg.qr": OpForNumpyFunction(decomposition.qr),
    "linalg.slogdet": OpForNumpyFunction(decomposition.slogdet),
    "linalg.solve": OpForNumpyFunction(decomposition.solve),
    "linalg.svd": OpForNumpyFunction(numpys.svd),
    "linalg.svdvals": OpForNumpyFunction(decomposition.svdvals),
    "linalg.tensordot": OpForNumpyFunction(linalg.tensordot),
    "linalg.trace": OpForNumpyFunction(linalg.trace),
    "linalg.vecdot": OpForNumpyFunction(linalg.vecdot),
    "linalg.vector_norm": OpForNumpyFunction(norms.vector_norm),
    # --- Fourier transforms
    "fft.fft": OpForNumpyFunction(fft.fft),
    "fft.fft2": OpForNumpyFunction(numpys.fft2),
    "fft.fftn": OpForNumpyFunction(fft.fftn),
    "fft.fftshift": OpForNumpyFunction(fft.fftshift),
    "fft.hfft": OpForNumpyFunction(fft.hfft),
    "fft.ifft": OpForNumpyFunction(fft.ifft),
    "fft.ifft2": OpForNumpyFunction(numpys.ifft2),
    "fft.ifftn": OpForNumpyFunction(fft.ifftn),
    "fft.ifftshift": OpForNumpyFunction(fft.ifftshift),
    "fft.ihfft": OpForNumpyFunction(fft.ihfft),
    "fft.irfft": OpForNumpyFunction(fft.irfft),
    "fft.irfft2": OpForNumpyFunction(numpys.irfft2),
    "fft.irfftn": OpForNumpyFunction(fft.irfftn),
    "fft.rfft": OpForNumpyFunction(fft.rfft),
    "fft.rfft2": OpForNumpyFunction(numpys.rfft2),
    "fft.rfftn": OpForNumpyFunction(fft.rfftn),
    # --- new tensors
    "empty_like": OpForNumpyFunction(numpys.empty_like),
    "full_like": OpForNumpyFunction(numpys.full_like),
    "ones_like": OpForNumpyFunction(numpys.ones_like),
    "zeros_like": OpForNumpyFunction(numpys.zeros_like),
}
"""The op that each of NumPy's functions calls for tensors, by the function's name."""
CREATION_FUNCTIONS: Final[dict[str, OpForNumpyFunction]] = {
    "arange": OpForNumpyFunction(creation.arange, {"start_or_stop": "start"}),
    "array": OpForNumpyFunction(creation.asarray, {"object": "obj"}),
    "asanyarray": OpForNumpyFunction(creation.asarray, {"a": "obj"}),
    "asarray": OpForNumpyFunction(creation.asarray, {"a": "obj"}),
    "ascontiguousarray": OpForNumpyFunction(creation.asarray, {"a": "obj"}),
    "empty": OpForNumpyFunction(creation.empty),
    "eye": OpForNumpyFunction(creation.eye, {"N": "n_rows", "M": "n_cols"}),
    "full": OpForNumpyFunction(creation.full),
    "identity": OpForNumpyFunction(creation.eye, {"n": "n_rows"}),
    "ones": OpForNumpyFunction(creation.ones),
    "zeros": OpForNumpyFunction(creation.zeros),
}
"""The op that a function of NumPy calls if its argument ``like`` is a tensor, on whose device it makes a tensor."""
METADATA_FUNCTIONS: Final = frozenset(
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
"""The names of functions that look only at shapes and dtypes, and so return for tensors what they return for arrays."""
READING_FUNCTIONS: Final = frozenset(
    {
        *("allclose", "array_equal", "array_equiv", "array2string", "array_repr", "array_str"),
        *("min_scalar_type", "save", "savetxt", "savez", "savez_compressed"),
        *("copyto", "may_share_memory", "shares_memory"),
        *("histogram2d", "histogramdd", "histogram_bin_edges"),
    }
)
"""The names of functions that read values for text, a truth value, a file, a plot or an array of the caller."""
FUNCTIONS_NOT_RETURNING_ARRAYS: Final = READING_FUNCTIONS - {
    *("copyto", "may_share_memory", "shares_memory"),
    *("histogram2d", "histogramdd", "histogram_bin_edges"),
}
"""The names of reading functions that make text, a truth value or a file, also of a tensor that is differentiated."""
FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS: Final = frozenset(
    {
        *("atleast_1d", "atleast_2d", "atleast_3d"),
        *("empty_like", "full_like", "ones_like", "zeros_like"),
        "histogram",
    }
)
"""The names of functions that return NumPy arrays unless one of the tensors is being differentiated or traced.

They are in `OP_OF_NUMPY_FUNCTION`, but libraries use them to make arrays that they fill part by part or pass to C.
"""
REPLACEMENT_HINTS: Final = {
    "apply_along_axis": "an op with the argument axis",
    "argpartition": "plugrad.argsort or plugrad.top_k",
    "asfortranarray": "x itself: tensors have no memory order",
    "block": "plugrad.concat along each axis",
    "choose": "plugrad.take_along_axis(choices, positions, axis=0)",
    "compress": "plugrad.boolean_mask(x, condition)",
    "delete": "plugrad.take(x, positions) with the positions that stay",
    "digitize": "plugrad.searchsorted(bins, x)",
    "extract": "plugrad.boolean_mask(x, condition)",
    "fill_diagonal": "plugrad.where(plugrad.eye(n, dtype='bool'), value, x)",
    "insert": "plugrad.concat of the parts",
    "intersect1d": "plugrad.isin",
    "linspace": "start + (stop - start) * plugrad.linspace(0, 1, num)",
    "partition": "plugrad.sort or plugrad.top_k",
    "piecewise": "plugrad.where or np.select",
    "place": "x[mask] = values",
    "put": "x[positions] = values",
    "put_along_axis": "plugrad.tensor_scatter_update",
    "putmask": "x[mask] = values",
    "resize": "plugrad.tile(x, repetitions) and a slice of it",
    "sinc": "plugrad.where(x == 0, 1, plugrad.sin(pi * x) / (pi * x))",
    "trapezoid": "plugrad.sum((y[1:] + y[:-1]) / 2) * dx",
    "union1d": "plugrad.unique_values(plugrad.concat([a, b]))",
}
"""What to write instead of functions that do not take tensors."""
