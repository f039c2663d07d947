"""A call of each function of NumPy that takes tensors, and of some that do not."""

from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(20)
MATRIX = RNG.permutation(np.linspace(-1.4, 1.6, 12)).reshape(3, 4)
"""The argument: different numbers, none of them 0 or near it."""
OTHER_MATRIX = RNG.uniform(0.5, 1.5, (3, 4))
VECTOR = RNG.uniform(0.5, 1.5, 4)
MASK = np.array([[True, False, True, True], [False, True, False, True], [True, True, False, False]])


def well_conditioned(x: Any) -> Any:
    """Return a square matrix that is well-conditioned."""
    return x[:, :3] + 3 * np.eye(3)


def spd_matrix(x: Any) -> Any:
    """Return a symmetric matrix with positive, distinct eigenvalues."""
    return well_conditioned(x).T @ well_conditioned(x)


def as_complex(x: Any) -> Any:
    """Return complex numbers made of real ones."""
    return x + 1j * x[::-1]


def with_nans(x: Any) -> Any:
    """Return numbers, some of which are NaN."""
    return np.where(MASK, x, np.nan)


def assign_to_new_array(make: Any) -> Callable[[Any], Any]:
    """Return a function that assigns elements to a new array."""

    def call(x: Any) -> Any:
        y = make(x)
        y[1] = x[0] * 2
        return y

    return call


DIFFERENTIABLE_CALLS: dict[str, Callable[[Any], Any]] = {
    # elements
    "clip": lambda x: np.clip(x, -0.5, x[::-1] * 2),
    "fix": lambda x: np.fix(x * 3),
    "isclose": lambda x: np.isclose(x, MATRIX + 1e-9),
    "nan_to_num": lambda x: np.nan_to_num(np.where(MASK, x, np.nan), nan=2.0),
    "real": lambda x: np.real(as_complex(x)) + np.real(x),
    "imag": lambda x: np.imag(as_complex(x)) + np.imag(x),
    "angle": lambda x: np.angle(as_complex(x)),
    "round": lambda x: np.round(x, 1),
    "around": lambda x: np.around(x, 2),
    "select": lambda x: np.select([x > 1, MASK], [x, x * x], OTHER_MATRIX),
    "where": lambda x: np.where(MASK, x, OTHER_MATRIX) + np.where(x > 0, 1.0, x),
    "astype": lambda x: np.astype(x, x.dtype),
    "copy": lambda x: np.copy(x) * x,
    # shapes
    "append": lambda x: np.append(x, OTHER_MATRIX, axis=0),
    "array_split": lambda x: np.array_split(x, 3, axis=1),
    "atleast_1d": lambda x: np.atleast_1d(x[0, 0]),
    "atleast_2d": lambda x: np.atleast_2d(x[0], OTHER_MATRIX),
    "atleast_3d": lambda x: np.atleast_3d(x),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0], VECTOR)[:2],
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "column_stack": lambda x: np.column_stack([x[:, 0], x, OTHER_MATRIX]),
    "concatenate": lambda x: np.concatenate([OTHER_MATRIX, x, x[:1]]),
    "dsplit": lambda x: np.dsplit(np.reshape(x, (1, 3, 4)), 2),
    "dstack": lambda x: np.dstack([x, OTHER_MATRIX]),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "flip": lambda x: np.flip(x, 1),
    "fliplr": lambda x: np.fliplr(x),
    "flipud": lambda x: np.flipud(x),
    "hsplit": lambda x: np.hsplit(x, [1, 3]),
    "hstack": lambda x: np.hstack([x[0], VECTOR]),
    "matrix_transpose": lambda x: np.matrix_transpose(x),
    "meshgrid": lambda x: tuple(np.meshgrid(x[0], x[:, 0], indexing="ij")),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "pad": lambda x: np.pad(x, ((1, 2), (2, 1)), mode="reflect") + np.pad(x, ((1, 2), (2, 1))),
    "ravel": lambda x: np.ravel(x),
    "repeat": lambda x: np.repeat(x, [1, 0, 2], axis=0),
    "reshape": lambda x: np.reshape(x, (2, -1)),
    "roll": lambda x: np.roll(x, 1, axis=1) + np.roll(x, 2),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "rot90": lambda x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, -1)),
    "split": lambda x: np.split(x, 2, axis=1),
    "squeeze": lambda x: np.squeeze(x[None]),
    "stack": lambda x: np.stack([x, OTHER_MATRIX, x], axis=1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "transpose": lambda x: np.transpose(x) @ x,
    "unstack": lambda x: np.unstack(x, axis=1),
    "vsplit": lambda x: np.vsplit(x, 3),
    "vstack": lambda x: np.vstack([x, VECTOR, x[0]]),
    # sums, and what else combines elements
    "all": lambda x: np.all(x > -1, axis=0),
    "amax": lambda x: np.amax(x, axis=1),
    "amin": lambda x: np.amin(x),
    "any": lambda x: np.any(x > 1, axis=1, keepdims=True),
    "argmax": lambda x: np.argmax(x, axis=0),
    "argmin": lambda x: np.argmin(x),
    "average": lambda x: np.average(x, axis=1, weights=VECTOR),
    "bincount": lambda x: np.bincount(np.array([0, 2, 0, 1]), weights=x[0]),
    "convolve": lambda x: np.convolve(x[0], VECTOR[:3], mode="same"),
    "corrcoef": lambda x: (np.corrcoef(x), np.corrcoef(x[0], x[1] * x[0])),
    "correlate": lambda x: np.correlate(x[0, :2], VECTOR, mode="full"),
    "count_nonzero": lambda x: np.count_nonzero(x > 0, axis=0),
    "cov": lambda x: (np.cov(x, aweights=VECTOR), np.cov(x, x[:1] * x[1:2]), np.cov(x[0], ddof=0)),
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "cumsum": lambda x: np.cumsum(x),
    "cumulative_prod": lambda x: np.cumulative_prod(x, axis=0),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
    "diff": lambda x: np.diff(x, 2, axis=1, prepend=OTHER_MATRIX[:, :1]),
    "histogram": lambda x: np.histogram(np.round(x, 1), 4, (-1.33, 1.21), weights=x)[0],
    "max": lambda x: np.max(x, axis=(0, 1)),
    "mean": lambda x: np.mean(x, axis=0),
    "median": lambda x: np.median(x, axis=1),
    "min": lambda x: np.min(x, axis=1, keepdims=True),
    "nanargmax": lambda x: np.nanargmax(with_nans(x), axis=1),
    "nanargmin": lambda x: np.nanargmin(with_nans(x)),
    "nancumprod": lambda x: np.nancumprod(with_nans(x), axis=1),
    "nancumsum": lambda x: np.nancumsum(with_nans(x)),
    "nanmax": lambda x: np.nanmax(with_nans(x), axis=1),
    "nanmean": lambda x: np.nanmean(with_nans(x), axis=0),
    "nanmedian": lambda x: np.nanmedian(with_nans(x), axis=1),
    "nanmin": lambda x: np.nanmin(with_nans(x)),
    "nanpercentile": lambda x: np.nanpercentile(with_nans(x), 30, axis=1),
    "nanprod": lambda x: np.nanprod(with_nans(x), axis=1),
    "nanquantile": lambda x: np.nanquantile(with_nans(x), [0.2, 0.7]),
    "nanstd": lambda x: np.nanstd(with_nans(x), axis=1, ddof=1),
    "nansum": lambda x: np.nansum(with_nans(x), axis=1),
    "nanvar": lambda x: np.nanvar(with_nans(x), keepdims=True),
    "percentile": lambda x: np.percentile(x, [20, 75], axis=0),
    "prod": lambda x: np.prod(x, axis=1),
    "quantile": lambda x: (np.quantile(x, 0.3, 1), np.quantile(x, 0.3, method="nearest")),
    "ptp": lambda x: np.ptp(x, axis=1),
    "std": lambda x: np.std(x, axis=0, ddof=1),
    "sum": lambda x: np.sum(x, axis=1, keepdims=True, dtype=x.dtype),
    "var": lambda x: np.var(x, correction=1),
    # searching, sorting, sets
    "argsort": lambda x: np.argsort(x, axis=None),
    "argwhere": lambda x: np.argwhere(x > 0),
    "flatnonzero": lambda x: np.flatnonzero(x > 0),
    "isin": lambda x: np.isin(np.round(x), [0, 1]),
    "nonzero": lambda x: np.nonzero(x > 0),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), [0.0, 0.5]),
    "setdiff1d": lambda x: np.setdiff1d(np.round(x), [1.0]),
    "sort": lambda x: (np.sort(x, axis=0), np.sort(x, axis=None, kind="stable")),
    "take": lambda x: (np.take(x, [2, 0, 2], axis=1), np.take(x, [11, 0])),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0], [3], [1]]), axis=1),
    "unique": lambda x: np.unique(x, return_counts=True),
    "unique_all": lambda x: tuple(np.unique_all(x)),
    "unique_counts": lambda x: tuple(np.unique_counts(x)),
    "unique_inverse": lambda x: tuple(np.unique_inverse(x)),
    "unique_values": lambda x: np.unique_values(x),
    # matrices
    "cross": lambda x: np.cross(x[:, :3], OTHER_MATRIX[:, :3]),
    "diag": lambda x: (np.diag(x[0], 1), np.diag(x, -1)),
    "diagonal": lambda x: np.diagonal(x, 1),
    "dot": lambda x: (np.dot(x, VECTOR), np.dot(x, x.T), np.dot(2.0, x), np.dot(x[None], x.T)),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, OTHER_MATRIX),
    "inner": lambda x: np.inner(x, OTHER_MATRIX),
    "kron": lambda x: np.kron(x, VECTOR),
    "outer": lambda x: np.outer(x, VECTOR),
    "tensordot": lambda x: np.tensordot(x, OTHER_MATRIX, axes=([0], [0])),
    "trace": lambda x: np.trace(x, 1),
    "tril": lambda x: np.tril(x, 1),
    "triu": lambda x: np.triu(x),
    "vdot": lambda x: np.vdot(x, OTHER_MATRIX),
    "linalg.cholesky": lambda x: np.linalg.cholesky(spd_matrix(x)),
    "linalg.cond": lambda x: np.linalg.cond(well_conditioned(x)),
    "linalg.cross": lambda x: np.linalg.cross(x[:, :3], OTHER_MATRIX[:, :3]),
    "linalg.det": lambda x: np.linalg.det(well_conditioned(x)),
    "linalg.diagonal": lambda x: np.linalg.diagonal(x, offset=1),
    "linalg.eig": lambda x: np.abs(np.linalg.eig(x[:, :3])[1]),
    "linalg.eigh": lambda x: np.linalg.eigh(spd_matrix(x))[0],
    "linalg.eigvals": lambda x: np.linalg.eigvals(x[:, :3]),
    "linalg.eigvalsh": lambda x: np.linalg.eigvalsh(spd_matrix(x)),
    "linalg.inv": lambda x: np.linalg.inv(well_conditioned(x)),
    "linalg.lstsq": lambda x: np.linalg.lstsq(x.T, VECTOR, None)[:2],
    "linalg.matmul": lambda x: np.linalg.matmul(x, OTHER_MATRIX.T),
    "linalg.matrix_norm": lambda x: np.linalg.matrix_norm(x, ord="nuc"),
    "linalg.matrix_power": lambda x: np.linalg.matrix_power(well_conditioned(x), 3),
    "linalg.matrix_rank": lambda x: np.linalg.matrix_rank(well_conditioned(x)),
    "linalg.matrix_transpose": lambda x: np.linalg.matrix_transpose(x),
    "linalg.multi_dot": lambda x: np.linalg.multi_dot([x, OTHER_MATRIX.T, x]),
    "linalg.norm": lambda x: (
        np.linalg.norm(x),
        np.linalg.norm(x, axis=1, keepdims=True),
        np.linalg.norm(x, 2),
        np.linalg.norm(x[0], 3),
    ),
    "linalg.outer": lambda x: np.linalg.outer(x[0], VECTOR),
    "linalg.pinv": lambda x: np.linalg.pinv(x),
    "linalg.qr": lambda x: np.abs(np.linalg.qr(well_conditioned(x))[1]),
    "linalg.slogdet": lambda x: np.linalg.slogdet(well_conditioned(x))[1],
    "linalg.solve": lambda x: np.linalg.solve(well_conditioned(x), OTHER_MATRIX),
    "linalg.svd": lambda x: np.linalg.svd(x, compute_uv=False),
    "linalg.svdvals": lambda x: np.linalg.svdvals(x),
    "linalg.tensordot": lambda x: np.linalg.tensordot(x, OTHER_MATRIX),
    "linalg.trace": lambda x: np.linalg.trace(x),
    "linalg.vecdot": lambda x: np.linalg.vecdot(x, OTHER_MATRIX),
    "linalg.vector_norm": lambda x: np.linalg.vector_norm(x, ord=3, axis=0),
    # Fourier transforms
    "fft.fft": lambda x: np.fft.fft(x),
    "fft.fft2": lambda x: np.fft.fft2(x),
    "fft.fftn": lambda x: np.fft.fftn(x, norm="ortho"),
    "fft.fftshift": lambda x: np.fft.fftshift(x),
    "fft.hfft": lambda x: np.fft.hfft(as_complex(x)),
    "fft.ifft": lambda x: np.fft.ifft(as_complex(x), n=5),
    "fft.ifft2": lambda x: np.fft.ifft2(as_complex(x)),
    "fft.ifftn": lambda x: np.fft.ifftn(as_complex(x)),
    "fft.ifftshift": lambda x: np.fft.ifftshift(x, axes=1),
    "fft.ihfft": lambda x: np.fft.ihfft(x),
    "fft.irfft": lambda x: np.fft.irfft(as_complex(x)),
    "fft.irfft2": lambda x: np.fft.irfft2(as_complex(x)),
    "fft.irfftn": lambda x: np.fft.irfftn(as_complex(x)),
    "fft.rfft": lambda x: np.fft.rfft(x, axis=0),
    "fft.rfft2": lambda x: np.fft.rfft2(x),
    "fft.rfftn": lambda x: np.fft.rfftn(x),
    # new arrays
    "empty_like": assign_to_new_array(
        lambda x: np.empty_like(x)[:0].reshape(0, 4).sum() + np.zeros_like(x)
    ),
    "full_like": assign_to_new_array(lambda x: np.full_like(x, x[0, 0])),
    "ones_like": assign_to_new_array(lambda x: np.ones_like(x)),
    "zeros_like": assign_to_new_array(lambda x: np.zeros_like(x)),
}
"""A call of each function in `plugrad.ops.array_functions.OP_OF_NUMPY_FUNCTION`."""
OTHER_CALLS: dict[str, Callable[[Any], Any]] = {
    # conversions
    "array": lambda x: np.array(x) * x,
    "asarray": lambda x: np.asarray(x) * x,
    "asarray of a list": lambda x: np.asarray([x[0], x[1]]),
    "from_dlpack": lambda x: np.from_dlpack(x),
    "x.numpy()": lambda x: np.exp(x if isinstance(x, np.ndarray) else x.numpy()),
    "x.tolist()": lambda x: np.exp(x.tolist()),
    "a[...] = x": assign_to_new_array(lambda x: np.zeros((3, 4))),
    # functions that plugrad does not have
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x),
    "block": lambda x: np.block([[x, x]]),
    "delete": lambda x: np.delete(x, 0),
    "gradient": lambda x: np.gradient(x, axis=0),
    "insert": lambda x: np.insert(x, 0, x[0, 0]),
    "interp": lambda x: np.interp([0.5, 1.5], [0.0, 1.0, 2.0], x[:, 0]),
    "partition": lambda x: np.partition(x, 1),
    "polyval": lambda x: np.polyval(x[0], 2.0),
    "resize": lambda x: np.resize(x, (2, 4)),
    "trapezoid": lambda x: np.trapezoid(x),
    "unwrap": lambda x: np.unwrap(x),
    # elementwise functions
    "exp": lambda x: np.exp(x),
    "add.reduce": lambda x: np.add.reduce(x, axis=1),
    "multiply.outer": lambda x: np.multiply.outer(x, VECTOR),
    "maximum.reduce": lambda x: np.maximum.reduce(x),
    "add.accumulate": lambda x: np.add.accumulate(x, axis=1),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "conjugate": lambda x: np.conjugate(as_complex(x)),
    "cbrt": lambda x: np.cbrt(x),
    "exp with where": lambda x: np.exp(x, where=MASK),
    "a += x": lambda x: OTHER_MATRIX.copy().__iadd__(x),
    # operators with an array on the left
    "a @ x": lambda x: OTHER_MATRIX.T @ x,
    "a * x": lambda x: OTHER_MATRIX * x,
}
"""Other calls by which a gradient might get lost."""
