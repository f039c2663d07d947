"""The table of NumPy's functions that take tensors, and of what they call.

`OPS` has the functions that compute with tensors, with gradients and on the tensor's device. `FACTS` and `READERS`
have those whose results are no tensors. `INSTEAD` says what to write for some of the others.
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
    "append": Op(shapes.append),
    "array_split": Op(shapes.array_split),
    "atleast_1d": Op(shapes.atleast_1d),
    "atleast_2d": Op(shapes.atleast_2d),
    "atleast_3d": Op(shapes.atleast_3d),
    "broadcast_arrays": Op(shapes.broadcast_arrays),
    "broadcast_to": Op(movement.broadcast_to),
    "column_stack": Op(shapes.column_stack),
    "concatenate": Op(shapes.concatenate),
    "dsplit": Op(shapes.dsplit),
    "dstack": Op(shapes.dstack),
    "expand_dims": Op(shapes.expand_dims),
    "flip": Op(movement.flip),
    "fliplr": Op(shapes.fliplr),
    "flipud": Op(shapes.flipud),
    "hsplit": Op(shapes.hsplit),
    "hstack": Op(shapes.hstack),
    "matrix_transpose": Op(linalg.matrix_transpose),
    "meshgrid": Op(rearrangement.meshgrid),
    "moveaxis": Op(movement.moveaxis),
    "pad": Op(shapes.pad),
    "ravel": Op(shapes.ravel),
    "repeat": Op(rearrangement.repeat),
    "reshape": Op(movement.reshape),
    "roll": Op(rearrangement.roll),
    "rollaxis": Op(shapes.rollaxis),
    "rot90": Op(shapes.rot90),
    "split": Op(shapes.split),
    "squeeze": Op(movement.squeeze),
    "stack": Op(shapes.stack),
    "swapaxes": Op(shapes.swapaxes),
    "tile": Op(movement.tile),
    "transpose": Op(movement.permute_dims),
    "unstack": Op(movement.unstack),
    "vsplit": Op(shapes.vsplit),
    "vstack": Op(shapes.vstack),
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
    "corrcoef": Op(numpys.corrcoef),
    "correlate": Op(numpys.correlate),
    "count_nonzero": Op(statistics.count_nonzero),
    "cov": Op(numpys.cov),
    "cumprod": Op(methods.cumprod),
    "cumsum": Op(methods.cumsum),
    "cumulative_prod": Op(scan.cumulative_prod),
    "cumulative_sum": Op(scan.cumulative_sum),
    "diff": Op(statistics.diff),
    "histogram": Op(histograms.histogram),
    "max": Op(methods.max),
    "mean": Op(methods.mean),
    "median": Op(quantiles.median),
    "min": Op(methods.min),
    "nanargmax": Op(missing.nanargmax),
    "nanargmin": Op(missing.nanargmin),
    "nancumprod": Op(missing.nancumprod),
    "nancumsum": Op(missing.nancumsum),
    "nanmax": Op(missing.nanmax),
    "nanmean": Op(missing.nanmean),
    "nanmedian": Op(quantiles.nanmedian),
    "nanmin": Op(missing.nanmin),
    "nanpercentile": Op(numpys.nanpercentile),
    "nanprod": Op(missing.nanprod),
    "nanquantile": Op(quantiles.nanquantile),
    "nanstd": Op(missing.nanstd, {"ddof": "correction"}),
    "nansum": Op(missing.nansum),
    "nanvar": Op(missing.nanvar, {"ddof": "correction"}),
    "percentile": Op(numpys.percentile),
    "prod": Op(methods.prod),
    "ptp": Op(numpys.ptp),
    "quantile": Op(quantiles.quantile),
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
    "linalg.cond": Op(norms.cond),
    "linalg.cross": Op(linalg.cross),
    "linalg.det": Op(decomposition.det),
    "linalg.diagonal": Op(linalg.diagonal),
    "linalg.eig": Op(decomposition.eig),
    "linalg.eigh": Op(decomposition.eigh),
    "linalg.eigvals": Op(decomposition.eigvals),
    "linalg.eigvalsh": Op(decomposition.eigvalsh),
    "linalg.inv": Op(decomposition.inv),
    "linalg.lstsq": Op(numpys.lstsq),
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
        *("allclose", "array_equal", "array_equiv", "array2string", "array_repr", "array_str"),
        *("min_scalar_type", "save", "savetxt", "savez", "savez_compressed"),
        *("copyto", "may_share_memory", "shares_memory"),
        *("histogram2d", "histogramdd", "histogram_bin_edges"),
    }
)
"""The functions that read values for a text, a truth value, a file, a plot or an array that the caller has."""
WITHOUT_ARRAYS: Final = READERS - {
    *("copyto", "may_share_memory", "shares_memory"),
    *("histogram2d", "histogramdd", "histogram_bin_edges"),
}
"""Those of them that take a tensor that is being differentiated: they give a text, a truth value or a file."""
FOR_ARRAYS: Final = frozenset(
    {
        *("atleast_1d", "atleast_2d", "atleast_3d"),
        *("empty_like", "full_like", "ones_like", "zeros_like"),
        "histogram",
    }
)
"""The functions of `OPS` by which libraries come to arrays that they fill, part by part, or pass to C.

They give arrays of NumPy unless one of the tensors is being differentiated or traced.
"""
INSTEAD: Final = {
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
