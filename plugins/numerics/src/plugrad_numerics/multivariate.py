"""The normal distribution of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ShapeError
from plugrad_numerics.distribution import Distribution

if TYPE_CHECKING:
    from plugrad import Tensor


@dataclass(frozen=True)
class MultivariateNormal(Distribution):
    """The normal distribution of vectors with a mean and a covariance matrix.

    >>> distributions.MultivariateNormal([0.0, 0.0], plugrad.eye(2)).log_prob([0.0, 0.0])
    tensor(-1.837877, dtype=float32)

    Raises:
        ShapeError: the matrices do not have as many rows and columns as the vectors have elements.
        ArgumentValueError: a matrix is not positive definite; it is found where the matrix is needed.
    """

    loc: Any
    covariance: Any
    event_rank = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.loc.shape[-1] if self.loc.ndim else 0
        if not n or self.covariance.shape[-2:] != (n, n):
            raise ShapeError(
                f"MultivariateNormal: the covariance has shape {self.covariance.shape}; it must be matrices of "
                f"{n} rows and columns for loc of shape {self.loc.shape}"
            )
        batch = plugrad.broadcast_shapes(self.loc.shape[:-1], self.covariance.shape[:-2])
        object.__setattr__(self, "loc", plugrad.broadcast_to(self.loc, (*batch, n)))

    def _cholesky_factor(self) -> Tensor:
        return plugrad.linalg.cholesky(self.covariance)

    def _draw_samples(self, random_source: Any) -> Tensor:
        z = random_source.normal()
        return self.loc + plugrad.matmul(self._cholesky_factor(), z[..., None])[..., 0]

    def log_prob(self, x: Any) -> Tensor:
        factor = self._cholesky_factor()
        offset = (self._as_value(x) - self.loc)[..., None]
        z = plugrad.linalg.solve_triangular(factor, offset, lower=True)[..., 0]
        n = self.loc.shape[-1]
        return (
            -0.5 * plugrad.sum(z * z, axis=-1)
            - half_log_determinant(factor)
            - 0.5 * n * log(2 * pi)
        )

    def entropy(self) -> Tensor:
        n = self.loc.shape[-1]
        found = half_log_determinant(self._cholesky_factor()) + 0.5 * n * (1 + log(2 * pi))
        return plugrad.broadcast_to(found, self.batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return plugrad.broadcast_to(plugrad.linalg.diagonal(self.covariance), self.loc.shape)


def half_log_determinant(factor: Tensor) -> Tensor:
    """Return half of the log-determinant of a matrix, given its Cholesky factor."""
    return plugrad.sum(plugrad.log(plugrad.linalg.diagonal(factor)), axis=-1)
