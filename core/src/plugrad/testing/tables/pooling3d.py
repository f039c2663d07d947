"""Test rows of the pooling of volumes."""

from plugrad.kernels import pooling3d
from plugrad.testing.tables.pooling import rows
from plugrad.types.windows import pool_window

TEST_ROWS = rows(
    [
        (shape, pool_window(shape[1:-1], size, *sliding))
        for shape, size, *sliding in (
            ((1, 4, 4, 4, 2), (2, 2, 2), (2, 2, 2), "valid"),
            ((1, 3, 5, 4, 1), (2, 3, 2), (1, 2, 2), "same"),
            ((2, 3, 3, 4, 1), (2, 2, 3), (1, 1, 1), ((1, 0), (0, 1), (1, 1))),
        )
    ],
    pooling3d.max_pool3d,
    pooling3d.max_pool3d_gradient,
    pooling3d.avg_pool3d,
    pooling3d.avg_pool3d_gradient,
)
