"""Pooling over three axes: the functions in `pooling` take up to three spatial axes."""

from plugrad.kernels import pooling3d
from plugrad_native.declare import table
from plugrad_native.kernels.pooling import (
    C_AVERAGE_POOL,
    C_MAX_POOL,
    make_avg_pool_gradient,
    make_max_pool_gradient,
    make_pooling,
)

table.update(
    {
        pooling3d.max_pool3d: make_pooling(pooling3d.max_pool3d, C_MAX_POOL),
        pooling3d.max_pool3d_gradient: make_max_pool_gradient(pooling3d.max_pool3d_gradient),
        pooling3d.avg_pool3d: make_pooling(pooling3d.avg_pool3d, C_AVERAGE_POOL),
        pooling3d.avg_pool3d_gradient: make_avg_pool_gradient(pooling3d.avg_pool3d_gradient),
    }
)
