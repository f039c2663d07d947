"""Pooling over three axes: the functions in `pooling` take any number of spatial axes."""

from plugrad.kernels import pooling3d
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.pooling import (
    avg_pool,
    avg_pool_gradient,
    max_pool,
    max_pool_gradient,
)

table.update(
    {
        pooling3d.max_pool3d: max_pool,
        pooling3d.max_pool3d_gradient: max_pool_gradient,
        pooling3d.avg_pool3d: avg_pool,
        pooling3d.avg_pool3d_gradient: avg_pool_gradient,
    }
)
