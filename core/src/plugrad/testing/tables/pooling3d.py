"""Windows that slide over volumes and summarize what they see."""

from plugrad.kernels import pooling3d
from plugrad.testing.tables.pooling import how, rows

ROWS = rows(
    [
        ((1, 4, 4, 4, 2), how((2, 2, 2), (2, 2, 2))),
        ((1, 3, 5, 4, 1), how((2, 3, 2), (1, 2, 2), "same")),
        ((2, 3, 3, 4, 1), how((2, 2, 3), (1, 1, 1), ((1, 0), (0, 1), (1, 1)))),
    ],
    pooling3d.max_pool3d,
    pooling3d.max_pool3d_gradient,
    pooling3d.avg_pool3d,
    pooling3d.avg_pool3d_gradient,
)
